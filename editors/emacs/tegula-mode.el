;;; tegula-mode.el --- Major mode for Tegula  -*- lexical-binding: t; -*-
;; SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
;;; Commentary:
;; Colours and indentation of .teg files, and `tegula lsp' for eglot.
;; tools/dev/editor_words.py writes the lists of words.
;;; Code:

(defconst tegula-declarations ; words:declaration
  (quote [const fn import kernel let scratch sym var]))
(defconst tegula-controls ; words:control
  (quote [as by else for given if in merge parallel require return schedule tune where while]))
(defconst tegula-constants ; words:constant
  (quote [None false inf nan true]))
(defconst tegula-types ; words:type
  (quote [bf16 bool f16 f32 f64 f8e4m3 f8e5m2 i16 i32 i4 i64 i8 range u16 u32 u4 u64 u8]))
(defconst tegula-functions ; words:function
  (quote [abs acos acosh add align all and any argmax argmin asin asinh assert atan atan2 atanh atomic_add atomic_and atomic_cas atomic_compare_swap atomic_fetch atomic_fetch_add atomic_fetch_and atomic_fetch_inc atomic_fetch_or atomic_fetch_xor atomic_inc atomic_max atomic_min atomic_or atomic_set atomic_swap atomic_xchg atomic_xor barrier_all bitcast bits bitsize broadcast cbrt ceil ceildiv clamp clz combine concat copysign cos cosh count cover ctz cummax cummin cumprod cumsum degrees div dot elu eq erf erfc exp exp10 exp2 expm1 extent fdim fence flip floor fma fmod found fract gather ge gelu gelu_tanh get get_nbi greater_place gt histogram hypot index iota isclose isfinite isfloat isinf isint isnan ldexp le leaky_relu lerp lesser_place lgamma log log10 log1p log2 log2p1 logaddexp logb lt max min mish mul mulhi my_pe n_pes ne neg nextafter not or ordered permute philox philox_round philox_two_rounds places popcount pow present print prod put put_nbi put_signal put_signal_nbi quiet radians rand rand_u32 randint randn reduce relu rem remainder reshape rint roll round rsqrt scan shl shr sigmoid sign signal_op signal_wait_until signbit silu sin sinh softplus sort sq sqrt stride sub sum tan tanh tgamma topk trans trunc valid wide xor]))

(defun tegula--words (words)
  "Return a pattern for the symbols WORDS."
  (regexp-opt (mapcar #'symbol-name words) 'symbols))

(defvar tegula-font-lock-keywords
  `((,(tegula--words tegula-declarations) . font-lock-keyword-face)
    (,(tegula--words tegula-controls) . font-lock-keyword-face)
    (,(tegula--words tegula-constants) . font-lock-constant-face)
    ("\\_<\\(?:kernel\\|fn\\)\\s-+\\([A-Za-z_][A-Za-z_0-9]*\\)" 1 font-lock-function-name-face)
    (,(tegula--words tegula-types) . font-lock-type-face)
    (,(tegula--words tegula-functions) . font-lock-builtin-face)))

(defvar tegula-mode-syntax-table
  (let ((table (make-syntax-table)))
    (modify-syntax-entry ?/ ". 124b" table)
    (modify-syntax-entry ?* ". 23" table)
    (modify-syntax-entry ?\n "> b" table)
    (modify-syntax-entry ?_ "_" table)
    table))

(defun tegula-indent-line ()
  "Indent by the number of open brackets."
  (interactive)
  (let ((depth (car (syntax-ppss (line-beginning-position)))))
    (save-excursion
      (back-to-indentation)
      (when (looking-at "[])}]") (setq depth (max 0 (1- depth)))))
    (indent-line-to (* 4 depth))))

;;;###autoload
(define-derived-mode tegula-mode prog-mode "Tegula"
  "Major mode for kernels in Tegula."
  (setq-local font-lock-defaults '(tegula-font-lock-keywords))
  (setq-local comment-start "// ")
  (setq-local comment-end "")
  (setq-local indent-tabs-mode nil)
  (setq-local indent-line-function #'tegula-indent-line))

;;;###autoload
(add-to-list 'auto-mode-alist '("\\.teg\\'" . tegula-mode))

(with-eval-after-load 'eglot
  (defvar eglot-server-programs)
  (add-to-list 'eglot-server-programs '(tegula-mode . ("tegula" "lsp"))))

(provide 'tegula-mode)
;;; tegula-mode.el ends here
