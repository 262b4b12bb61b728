" SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
" Syntax of Tegula. tools/dev/editor_words.py writes the lists of words.
if exists("b:current_syntax")
    finish
endif

" words:declaration
syn keyword tegulaDeclaration const fn import kernel let scratch sym var
" words:control
syn keyword tegulaControl as by else for given if in merge parallel require return schedule tune where while
" words:constant
syn keyword tegulaConstant None false inf nan true
" words:type
syn keyword tegulaType bf16 bool f16 f32 f64 f8e4m3 f8e5m2 i16 i32 i4 i64 i8 range u16 u32 u4 u64 u8
" words:function
syn keyword tegulaFunction abs acos acosh add align all and any argmax argmin asin asinh assert atan atan2 atanh atomic_add atomic_and atomic_cas atomic_compare_swap atomic_fetch atomic_fetch_add atomic_fetch_and atomic_fetch_inc atomic_fetch_or atomic_fetch_xor atomic_inc atomic_max atomic_min atomic_or atomic_set atomic_swap atomic_xchg atomic_xor barrier_all bitcast bits bitsize broadcast cbrt ceil ceildiv clamp clz combine concat copysign cos cosh count cover ctz cummax cummin cumprod cumsum degrees div dot elu eq erf erfc exp exp10 exp2 expm1 extent fdim fence flip floor fma fmod found fract gather ge gelu gelu_tanh get get_nbi greater_place gt histogram hypot index iota isclose isfinite isfloat isinf isint isnan ldexp le leaky_relu lerp lesser_place lgamma log log10 log1p log2 log2p1 logaddexp logb lt max min mish mul mulhi my_pe n_pes ne neg nextafter not or ordered permute philox philox_round philox_two_rounds places popcount pow present print prod put put_nbi put_signal put_signal_nbi quiet radians rand rand_u32 randint randn reduce relu rem remainder reshape rint roll round rsqrt scan shl shr sigmoid sign signal_op signal_wait_until signbit silu sin sinh softplus sort sq sqrt stride sub sum tan tanh tgamma topk trans trunc valid wide xor

syn match tegulaName "\%(\<\%(kernel\|fn\)\s\+\)\@<=\h\w*"
syn match tegulaNumber "\<0[xX][0-9a-fA-F_]\+\>"
syn match tegulaNumber "\<\d[0-9_]*\>"
syn match tegulaFloat "\<\d[0-9_]*\%(\.\d\+\%([eE][+-]\?\d\+\)\?\|[eE][+-]\?\d\+\)\>"
syn match tegulaOperator "\.\.\|&&\|||\|[-+*/=!<>]=\|<<\|>>\|[-+*/%&|^~!<>=?]"
syn match tegulaEscape "\\[nt\"\\]" contained
syn region tegulaString start=+"+ skip=+\\.+ end=+"\|$+ contains=tegulaEscape
syn match tegulaComment "//.*$" contains=@Spell
syn match tegulaDoc "////\@!.*$" contains=@Spell
syn region tegulaComment start="/\*" end="\*/" contains=@Spell

hi def link tegulaDeclaration Keyword
hi def link tegulaControl Statement
hi def link tegulaConstant Constant
hi def link tegulaType Type
hi def link tegulaFunction Function
hi def link tegulaName Identifier
hi def link tegulaNumber Number
hi def link tegulaFloat Float
hi def link tegulaOperator Operator
hi def link tegulaEscape SpecialChar
hi def link tegulaString String
hi def link tegulaComment Comment
hi def link tegulaDoc SpecialComment

let b:current_syntax = "tegula"
