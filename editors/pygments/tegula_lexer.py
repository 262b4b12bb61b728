# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Colours of Tegula's code for Pygments, and so for MkDocs, Sphinx and `pygmentize`.

    pygmentize -x -l editors/pygments/tegula_lexer.py:TegulaLexer examples/softmax.teg

tools/dev/editor_words.py writes the lists of words. Patterns are those of the TextMate grammar.
"""
from pygments.lexer import RegexLexer, bygroups, words
from pygments.token import Comment, Keyword, Name, Number, Operator, Punctuation, String, Text, Whitespace

__all__ = ["TegulaLexer"]

# words:declaration
DECLARATION = "[const fn import kernel let scratch sym var]"
# words:control
CONTROL = "[as by else for given if in merge parallel require return schedule tune where while]"
# words:constant
CONSTANT = "[None false inf nan true]"
# words:type
TYPE = "[bf16 bool f16 f32 f64 f8e4m3 f8e5m2 i16 i32 i4 i64 i8 range u16 u32 u4 u64 u8]"
# words:function
FUNCTION = "[abs acos acosh add align all and any argmax argmin asin asinh assert atan atan2 atanh atomic_add atomic_and atomic_cas atomic_compare_swap atomic_fetch atomic_fetch_add atomic_fetch_and atomic_fetch_inc atomic_fetch_or atomic_fetch_xor atomic_inc atomic_max atomic_min atomic_or atomic_set atomic_swap atomic_xchg atomic_xor barrier_all bitcast bits bitsize broadcast cbrt ceil ceildiv clamp clz combine concat copysign cos cosh count cover ctz cummax cummin cumprod cumsum degrees div dot elu eq erf erfc exp exp10 exp2 expm1 extent fdim fence flip floor fma fmod found fract gather ge gelu gelu_tanh get get_nbi greater_place gt histogram hypot index iota isclose isfinite isfloat isinf isint isnan ldexp le leaky_relu lerp lesser_place lgamma log log10 log1p log2 log2p1 logaddexp logb lt max min mish mul mulhi my_pe n_pes ne neg nextafter not or ordered permute philox philox_round philox_two_rounds places popcount pow present print prod put put_nbi put_signal put_signal_nbi quiet radians rand rand_u32 randint randn reduce relu rem remainder reshape rint roll round rsqrt scan shl shr sigmoid sign signal_op signal_wait_until signbit silu sin sinh softplus sort sq sqrt stride sub sum tan tanh tgamma topk trans trunc valid wide xor]"


def any_of(text, suffix=r"\b"):
    return words(text.strip("[]").split(), prefix=r"\b", suffix=suffix)


class TegulaLexer(RegexLexer):
    """Lexer of Tegula's source files."""

    name = "Tegula"
    aliases = ["teg", "tegula"]
    filenames = ["*.teg"]
    mimetypes = ["text/x-tegula"]

    tokens = {
        "root": [
            (r"\s+", Whitespace),
            (r"///(?!/).*$", String.Doc),
            (r"//.*$", Comment.Single),
            (r"/\*(.|\n)*?\*/", Comment.Multiline),
            (r'"', String.Double, "string"),
            (r"(kernel|fn)(\s+)([A-Za-z_]\w*)", bygroups(Keyword.Declaration, Whitespace, Name.Function)),
            (r"\b0[xX][0-9a-fA-F_]+\b", Number.Hex),
            (r"\b[0-9][0-9_]*(\.[0-9]+([eE][+-]?[0-9]+)?|[eE][+-]?[0-9]+)\b", Number.Float),
            (r"\b[0-9][0-9_]*\b", Number.Integer),
            (any_of(DECLARATION), Keyword.Declaration),
            (any_of(CONTROL), Keyword),
            (any_of(CONSTANT), Keyword.Constant),
            (any_of(TYPE, r"\b(?!\s*\()"), Keyword.Type),
            (any_of(FUNCTION, r"\b(?=\s*\()"), Name.Builtin),
            (r"[A-Za-z_]\w*(?=\s*\()", Name.Function),
            (r"[A-Za-z_]\w*", Name),
            (r"\.\.|&&|\|\||[-+*/]=|==|!=|<=|>=|<<|>>|[-+*/%&|^~!<>=?]", Operator),
            (r"[()\[\]{},;:.]", Punctuation),
        ],
        "string": [
            (r'\\[nt"\\]', String.Escape),
            (r'[^"\\\n]+', String.Double),
            (r'"', String.Double, "#pop"),
            (r"\n", Text, "#pop"),
            (r"\\", String.Double),
        ],
    }
