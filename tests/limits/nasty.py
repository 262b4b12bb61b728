#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Inputs of about SIZE bytes that are meant to be slow, or to take much memory: one function for each kind.

tests/limits/nasty.py SIZE FOLDER [KIND...]      writes FOLDER/KIND.teg
"""

import os
import sys

K = "kernel k(x: f32[N], y: f32[N]) { parallel n in N by 64 { %s y[n] = v; } }\n"


def fill(size, unit, first=0):
    """unit(i) joined up to size bytes."""
    out, n, i = [], 0, first
    while n < size:
        s = unit(i)
        out.append(s)
        n += len(s)
        i += 1
    return out


def body(s):
    return K.replace("%s", s)


KINDS = {}


def kind(f):
    KINDS[f.__name__] = f
    return f


def space(n, cond):
    return (
        "kernel k(x: f32[N]) tune "
        + ", ".join("B%d = 1 | 2 | 3 | 4 | 5 | 6 | 7 | 8" % i for i in range(n))
        + " where "
        + cond
        + " { parallel n in N by B0 { x[n] = 1; } }\n"
    )


KINDS.update(
    {
        "flat_sum": lambda z: body("let v = x[n]" + "".join(fill(z, lambda i: " + x[n]")) + ";"),
        "flat_sum_const": lambda z: "const A = 1" + "".join(fill(z, lambda i: " + 1")) + ";\n" + body("let v = x[n] + A;"),
        "flat_mul_sub": lambda z: body("let v = x[n]" + "".join(fill(z, lambda i: " - x[n] * 2")) + ";"),
        "flat_and": lambda z: body(
            "let c = x[n] > 0" + "".join(fill(z, lambda i: " && x[n] < %d" % i)) + "; let v = c ? x[n] : 0;"
        ),
        "flat_scalar_or": lambda z: "kernel k(x: f32[N], a: i32) { parallel n in N by 64 { if a == 0"
        + "".join(fill(z, lambda i: " || a == %d" % i))
        + " { x[n] = 1; } } }\n",
        "lets": lambda z: body("".join(fill(z, lambda i: "let a%d = x[n];" % i)) + "let v = x[n];"),
        "lets_chain": lambda z: body(
            "let a0 = x[n];" + "".join(fill(z, lambda i: "let a%d = a%d + 1;" % (i + 1, i))) + "let v = a0;"
        ),
        "lets_first": lambda z: body("let q = x[n];" + "".join(fill(z, lambda i: "let a%d = q;" % i)) + "let v = q;"),
        "var_chain": lambda z: body("var v = x[n];" + "".join(fill(z, lambda i: "v += x[n];"))),
        "var_chain_scalar": lambda z: "kernel k(y: i64[N], a: i64) { var s = a;"
        + "".join(fill(z, lambda i: "s = s * 3 + a;"))
        + " parallel n in N by 64 { y[n] = s; } }\n",
        "kernels": lambda z: "".join(fill(z, lambda i: "kernel k%d(x: f32[N]) { parallel n in N by 8 { x[n] = 1; } }\n" % i)),
        "kernels_tiny": lambda z: "".join(fill(z, lambda i: "kernel k%d() {}\n" % i)),
        "fns": lambda z: "".join(fill(z, lambda i: "fn f%d(a) { return a; }\n" % i)) + body("let v = x[n];"),
        "fns_chain": lambda z: "fn f0(a) { return a; }\n"
        + "".join(fill(z, lambda i: "fn f%d(a) { return f%d(a); }\n" % (i + 1, i)))
        + body("let v = f40(x[n]);"),
        "fns_double": lambda z: "fn f0(a) { return a; }\n"
        + "".join("fn f%d(a) { return f%d(a) + f%d(a); }\n" % (i + 1, i, i) for i in range(60))
        + body("let v = f60(x[n]);"),
        "fn_big_calls": lambda z: "fn f(a) { var v = a;"
        + "".join(fill(z // 2, lambda i: "v += a;"))
        + " return v; }\n"
        + body("var v = x[n];" + "".join(fill(z // 2, lambda i: "v = f(v);"))),
        "kernel_calls": lambda z: "kernel c(x: f32[N]) { parallel n in N by 8 { x[n] = 1; } }\nkernel k(x: f32[N]) {"
        + "".join(fill(z, lambda i: "c(x);"))
        + "}\n",
        "consts_chain60": lambda z: "".join("const A%d = A%d + A%d;\n" % (i, i + 1, i + 1) for i in range(60))
        + "const A60 = 1;\n"
        + body("let v = x[n] + A0;"),
        "consts_up": lambda z: "const A0 = 1;\n"
        + "".join(fill(z, lambda i: "const A%d = A%d + 1;\n" % (i + 1, i)))
        + body("let v = x[n] + A3;"),
        "params256_dims": lambda z: "kernel k("
        + "".join("a%d: f32[%s], " % (i, ",".join("N%d_%d" % (i, j) for j in range(8))) for i in range(255))
        + "b: f32[N]) { parallel n in N by 8 { b[n] = 1; } }\n",
        "kernels_params256": lambda z: "".join(
            fill(
                z,
                lambda k: "kernel k%d(" % k
                + "".join("a%d: f32[%s], " % (i, ",".join("N%d_%d" % (i, j) for j in range(8))) for i in range(255))
                + "b: f32[N]) { parallel n in N by 8 { b[n] = 1; } }\n",
            )
        ),
        "params_same_dim": lambda z: "".join(
            fill(
                z,
                lambda k: "kernel k%d(" % k
                + "".join("a%d: f32[N,N,N,N,N,N,N,N]," % i for i in range(255))
                + "b: f32[N]) { parallel n in N by 8 { b[n] = 1; } }\n",
            )
        ),
        "many_dims": lambda z: "kernel k(x: f32[" + ",".join(fill(z, lambda i: "N%d" % i)) + "]) { }\n",
        "fn_params": lambda z: "fn f(" + "".join(fill(z, lambda i: "a%d, " % i)) + "b) { return b; }\n" + body("let v = x[n];"),
        "generics": lambda z: "kernel k<"
        + ", ".join(fill(z, lambda i: "T%d: float" % i))
        + ">(x: f32[N]) { parallel n in N by 8 { x[n] = 1; } }\n",
        "generic_alts": lambda z: "kernel k<T: f32"
        + "".join(fill(z, lambda i: " | f32"))
        + ">(x: T[N]) { parallel n in N by 8 { x[n] = 1; } }\n",
        "tune_values": lambda z: "kernel k(x: f32[N]) tune B = 8"
        + "".join(fill(z, lambda i: " | %d" % (i + 9)))
        + " { parallel n in N by B { x[n] = 1; } }\n",
        "tune_values_where": lambda z: "kernel k(x: f32[N]) tune B = 8"
        + "".join(fill(z, lambda i: " | %d" % (i + 9)))
        + " where B < 0 { parallel n in N by B { x[n] = 1; } }\n",
        "space_none": lambda z: space(20, "+".join("B%d" % i for i in range(20)) + " == 0"),
        "space_last": lambda z: space(20, "+".join("B%d" % i for i in range(20)) + " == 160"),
        "space_none_many": lambda z: "".join(
            fill(z, lambda k: space(8, "+".join("B%d" % i for i in range(8)) + " == 0").replace("kernel k", "kernel k%d" % k))
        ),
        "space_calls": lambda z: "fn f0(a) { return a; }\n"
        + "".join("fn f%d(a) { return f%d(a) + f%d(a); }\n" % (i + 1, i, i) for i in range(14))
        + space(20, "f14(" + "+".join("B%d" % i for i in range(20)) + ") == 0"),
        "space_long": lambda z: space(20, "+".join("B%d" % (i % 20) for i in range(z // 4)) + " == 0"),
        "many_where": lambda z: "kernel k(x: f32[N]) tune B = 8 | 16 where B < 0 "
        + "".join(fill(z, lambda i: "tune C%d = 1 | 2 where C%d > 0 " % (i, i)))
        + "{ parallel n in N by B { x[n] = 1; } }\n",
        "many_where_ok": lambda z: "kernel k(x: f32[N]) tune B = 8 | 16 where B > 0 "
        + "".join(fill(z, lambda i: "tune C%d = 1 | 2 where C%d > 1 " % (i, i)))
        + "{ parallel n in N by B { x[n] = 1; } }\n",
        "requires": lambda z: "kernel k(x: f32[N]) require N % 8 == 0"
        + "".join(fill(z, lambda i: ", N != %d" % i))
        + " { parallel n in N by 8 { x[n] = 1; } }\n",
        "givens": lambda z: "kernel k(x: f32[N]) given N = 1"
        + "".join(fill(z, lambda i: " | %d" % i))
        + " { parallel n in N by 8 { x[n] = 1; } }\n",
        "ranges": lambda z: body("".join(fill(z, lambda i: "let r%d = range(%d, N, 8);" % (i, i))) + "let v = x[n];"),
        "covers": lambda z: body("".join(fill(z, lambda i: "let r%d = cover(N);" % i)) + "let v = x[n];"),
        "covers_used": lambda z: body("var v = x[n];" + "".join(fill(z, lambda i: "{ let r = cover(N); v += sum(x[r]); }"))),
        "loops": lambda z: body("var v = x[n];" + "".join(fill(z, lambda i: "for i in 9 { v += x[n]; }"))),
        "loops_few_vars_many": lambda z: body(
            "".join("var a%d = x[n];" % i for i in range(100))
            + "".join(fill(z, lambda j: "for i in 9 {" + "".join("a%d += 1;" % i for i in range(100)) + "}"))
            + "let v = a0;"
        ),
        "nested_loops": lambda z: body(
            "var v = x[n];" + "".join("for i%d in 3 {" % i for i in range(150)) + "v += 1;" + "}" * 150
        ),
        "ifs": lambda z: body("var v = x[n];" + "".join(fill(z, lambda i: "if N > %d { v += 1; }" % i))),
        "nested_ifs": lambda z: body("var v = x[n];" + "".join("if N > %d { v += 1; " % i for i in range(150)) + "}" * 150),
        "else_ifs": lambda z: body(
            "var v = x[n]; if N > 0 { v = 1; }" + "".join(fill(z, lambda i: " else if N > %d { v += 1; }" % i))
        ),
        "blocks_deep": lambda z: body("{" * 190 + "}" * 190 + "let v = x[n];"),
        "parens_many": lambda z: body("let v = " + "".join(fill(z, lambda i: "(((((x[n]))))) + ")) + "x[n];"),
        "parens_deep": lambda z: body("let v = " + "(" * (z // 2) + "x[n]" + ")" * (z // 2) + ";"),
        "unary_deep": lambda z: body("let v = " + "-" * z + "x[n];"),
        "casts": lambda z: body("let v = x[n]" + "".join(fill(z, lambda i: " as f64 as f32")) + ";"),
        "ternaries": lambda z: body("let v = " + "".join(fill(z, lambda i: "x[n] > %d ? x[n] : " % i)) + "x[n];"),
        "ternary_deep": lambda z: body("let v = " + "".join("x[n] > %d ? x[n] : " % i for i in range(150)) + "x[n];"),
        "choice_deep": lambda z: body(
            "let a = "
            + "".join("N > %d ? %d : " % (i, i) for i in range(150))
            + "0; let v = x[n] + a"
            + "".join(fill(z, lambda i: " + a"))
            + ";"
        ),
        "choice_sum": lambda z: "kernel k(x: f32[N], c: bool) { parallel n in N by 8 { let a = c ? 1 : 0; x[n] = a"
        + "".join(fill(z, lambda i: " + (c ? 1 : 0)"))
        + "; } }\n",
        "subscripts": lambda z: body("let v = x" + "[n]" * (z // 3) + ";"),
        "members": lambda z: body("let v = x" + ".a" * (z // 2) + ";"),
        "calls_curried": lambda z: body("let v = x" + "(n)" * (z // 3) + ";"),
        "call_args": lambda z: body("let v = concat(" + ", ".join(fill(z, lambda i: "x[n]")) + ");"),
        "call_named": lambda z: body("let v = sum(x[n], " + ", ".join(fill(z, lambda i: "a%d = 1" % i)) + ");"),
        "call_255": lambda z: body(
            "var v = x[n];"
            + "".join(fill(z, lambda i: "{ let c = concat(" + ", ".join("x[n]" for _ in range(200)) + "); v += sum(c); }"))
        ),
        "tuples": lambda z: body("let t = (" + ", ".join(fill(z, lambda i: "x[n]")) + "); let v = x[n];"),
        "tuple_bomb": lambda z: body(
            "let t0 = (x[n], x[n]);" + "".join("let t%d = (t%d, t%d);" % (i + 1, i, i) for i in range(60)) + "let v = x[n];"
        ),
        "tuple_bomb_var": lambda z: body(
            "let t0 = (x[n], x[n]);"
            + "".join("let t%d = (t%d, t%d);" % (i + 1, i, i) for i in range(22))
            + "var u = t22; for i in 3 { u = t22; } let v = x[n];"
        ),
        "long_name": lambda z: body("let " + "a" * z + " = x[n]; let v = x[n];"),
        "long_names": lambda z: body("".join(fill(z, lambda i: "let " + "a" * 240 + "%d = x[n];" % i)) + "let v = x[n];"),
        "colliding_names": lambda z: body("".join(fill(z, lambda i: "let " + "a" * 8 + "%08d = x[n];" % i)) + "let v = x[n];"),
        "unknown_names": lambda z: body("let v = x[n]" + "".join(fill(z, lambda i: " + unknown%d" % i)) + ";"),
        "unknown_many_known": lambda z: "".join(fill(z, lambda i: "fn unknowm%d(a) { return a; }\n" % i))
        + body("let v = x[n]" + "".join(" + unknown%d" % i for i in range(19)) + ";"),
        "unused": lambda z: body("".join(fill(z, lambda i: "let a%d = 1;" % i)) + "let v = x[n];"),
        "errors": lambda z: "".join(fill(z, lambda i: "let ;\n")),
        "errors_lex": lambda z: "".join(fill(z, lambda i: "$ @ ` ")),
        "errors_types": lambda z: "".join(
            fill(z, lambda i: "kernel k%d(x: f32[N]) { parallel n in N by 8 { x[n] = true; } }\n" % i)
        ),
        "errors_one_line": lambda z: body("let v = x[n];" + "".join(fill(z, lambda i: "let a%d = x[q];" % i))),
        "warnings_many": lambda z: body("".join(fill(z, lambda i: "let a%d = sum(exp(x[n]));" % i)) + "let v = x[n];"),
        "pad_warnings": lambda z: "kernel k(x: f32[N], y: f32[M]) { parallel n in N by 64 { "
        + "".join(fill(z, lambda i: "y[%d] = max(x[n]);" % i))
        + " } }\n",
        "races": lambda z: "kernel k(x: f32[N], y: f32[M]) { parallel n in N by 64 { "
        + "".join(fill(z, lambda i: "y[n] = x[n];"))
        + " } }\n",
        "stores_const": lambda z: "kernel k(y: f32[M]) { parallel { " + "".join(fill(z, lambda i: "y[%d] = 1;" % i)) + " } }\n",
        "stores_param": lambda z: "kernel k(x: f32[N], y: f32[M]) { parallel n in N by 64 { "
        + "".join(fill(z, lambda i: "y[index(n) + %d] = x[n];" % i))
        + " } }\n",
        "phases": lambda z: "kernel k(x: f32[N]) { "
        + "".join(fill(z, lambda i: "parallel n in N by 8 { x[n] = 1; }"))
        + " }\n",
        "phases_mixed": lambda z: "kernel k(x: f32[N]) { "
        + "".join(fill(z, lambda i: "parallel n in N by 8 { x[n] = x[n] + 1; }"))
        + " }\n",
        "scratches": lambda z: "kernel k(x: f32[N]) { "
        + "".join(fill(z, lambda i: "scratch s%d: f32[N];" % i))
        + " parallel n in N by 8 { x[n] = 1; } }\n",
        "comment_long": lambda z: "/* " + "x " * (z // 2) + "*/ " + body("let v = x[n];"),
        "comment_lines": lambda z: "".join(fill(z, lambda i: "// a\n")) + body("let v = x[n];"),
        "doc_lines": lambda z: "".join(fill(z, lambda i: "/// a\n")) + body("let v = x[n];"),
        "doc_many": lambda z: "".join(fill(z, lambda i: "/// a\nfn f%d(a) { return a; }\n" % i)) + body("let v = x[n];"),
        "comment_open": lambda z: "/*" * (z // 2),
        "comment_stars": lambda z: "/*" + "*" * z,
        "blank_lines": lambda z: "\n" * z + body("let v = x[n];"),
        "huge_int": lambda z: body("let v = x[n] + " + "9" * z + ";"),
        "huge_hex": lambda z: body("let v = x[n] + 0x" + "0" * z + "1;"),
        "huge_underscores": lambda z: body("let v = x[n] + 1" + "_" * z + ";"),
        "huge_float": lambda z: body("let v = x[n] + 1." + "9" * z + ";"),
        "huge_float_exp": lambda z: body("let v = x[n] + 1e" + "9" * z + ";"),
        "many_floats": lambda z: body("let v = x[n]" + "".join(fill(z, lambda i: " + %d.12345678901234567890e-300" % i)) + ";"),
        "string_long": lambda z: body('print("' + "a" * z + '"); let v = x[n];'),
        "string_open": lambda z: body('print("' + "a" * z),
        "strings": lambda z: body("".join(fill(z, lambda i: 'print("%d", x[n]);' % i)) + "let v = x[n];"),
        "imports": lambda z: "".join(fill(z, lambda i: 'import "std/norm.teg";\n')) + body("let v = x[n];"),
        "imports_all": lambda z: "".join(
            'import "std/%s.teg";\n' % f for f in "norm softmax conv attention matmul sort loss".split()
        )
        + body("let v = x[n];"),
        "imports_missing": lambda z: "".join(fill(z, lambda i: 'import "std/no%d.teg";\n' % i)) + body("let v = x[n];"),
        "big_blocks": lambda z: "kernel k(x: f32[N], y: f32[N]) { parallel n in N by 268435456 { y[n] = x[n] + 1; } }\n",
        "big_const_fold": lambda z: "kernel k(y: f32[N]) { parallel { let r = range(0, N, 4096);"
        " let a: f32<4096, 4096> = 1; let b = dot(a, a); y[r] = sum(b, axis = 1); } }\n",
        "big_const_iota": lambda z: "kernel k(y: f32[N]) { parallel { let i = iota(268435456) as f32; y[0] = sum(i); } }\n",
        "big_const_many": lambda z: "kernel k(y: f32[N]) { parallel { "
        + "".join(fill(z, lambda i: "y[%d] = sum(iota(268435456) as f32 * %d);" % (i, i)))
        + " } }\n",
        "big_const_scan": lambda z: "kernel k(y: f32[N]) { parallel { let a: f32<16384, 16384> = 1;"
        " let b = cumsum(sort(a, axis = 0), axis = 1); y[0] = sum(b); } }\n",
        "big_const_gather": lambda z: "kernel k(y: f32[N]) { parallel { let a = iota(268435456);"
        " let b = gather(a, a, axis = 0); y[0] = sum(b) as f32; } }\n",
        "many_dots": lambda z: "kernel k(y: f32[N]) { parallel { let a: f32<256, 256> = 1; var b = a; "
        + "".join(fill(z, lambda i: "b = dot(a, b);"))
        + " y[0] = sum(b); } }\n",
        "const_loops": lambda z: "kernel k(y: f32[N]) { parallel { var s: f32 = 0; "
        + "".join("for i%d in 1000000 { " % i for i in range(20))
        + "s += 1; "
        + "}" * 20
        + " y[0] = s; } }\n",
        "const_ifs": lambda z: body("var v = x[n];" + "".join(fill(z, lambda i: "if %d > 3 { v += 1; }" % i))),
        "monoids": lambda z: body("var v = x[n];" + "".join(fill(z, lambda i: "v += sum(x[n]);"))),
        "cumsums": lambda z: body("var v = x[n];" + "".join(fill(z, lambda i: "v = cumsum(v);"))),
        "gathers": lambda z: body("var v = x[n];" + "".join(fill(z, lambda i: "v = flip(v, axis = 0);"))),
        "reshapes": lambda z: body("var v = x[n];" + "".join(fill(z, lambda i: "v = reshape(reshape(v, 8, 8), 64);"))),
        "maths": lambda z: body("var v = x[n];" + "".join(fill(z, lambda i: "v = exp(v);"))),
        "scalar_loads": lambda z: "kernel k(x: f32[N], y: f32[M]) { parallel { var s: f32 = 0; "
        + "".join(fill(z, lambda i: "s += x[%d];" % i))
        + " y[0] = s; } }\n",
        "dims_product": lambda z: "kernel k(x: f32[N], y: f32[N]) { parallel n in N"
        + " * N" * (z // 4)
        + " by 64 { y[n] = x[n]; } }\n",
        "dims_specialised": lambda z: "kernel k("
        + ", ".join("x%d: f32[N%d]" % (i, i) for i in range(200))
        + ") { parallel { "
        + "".join(fill(z, lambda i: "{ let v: f32<N%d> = 1; x%d[:] = v; }" % (i % 200, i % 200)))
        + " } }\n",
        "dims_rounds": lambda z: "kernel k("
        + ", ".join("x%d: f32[N%d]" % (i, i) for i in range(200))
        + ") { parallel { "
        + "".join("let a%d = extent(x%d, 0);" % (i, i) for i in range(0))
        + "".join(fill(z, lambda i: "{ let b = 0 .. 3; }") if 0 else ["{ x%d[:] = 1; }" % (i % 200) for i in range(z // 16)])
        + " } }\n",
        "called_kernel_dims": lambda z: "kernel c(x: f32[N]) { parallel { x[:] = 1; } }\nkernel k("
        + ", ".join("x%d: f32[N%d]" % (i, i) for i in range(200))
        + ") { "
        + "".join("c(x%d);" % (i % 200) for i in range(z // 7))
        + " }\n",
        "chain_calls_kernels": lambda z: "kernel k0(x: f32[N]) { parallel n in N by 8 { x[n] = 1; } }\n"
        + "".join(fill(z, lambda i: "kernel k%d(x: f32[N]) { k%d(x); k%d(x); }\n" % (i + 1, i, i))),
        "schedules": lambda z: "kernel k(x: f32[N]) schedule warps = 4"
        + "".join(fill(z, lambda i: " | 8"))
        + " { parallel n in N by 8 { x[n] = 1; } }\n",
        "asserts": lambda z: body("".join(fill(z, lambda i: "assert(N > %d);" % i)) + "let v = x[n];"),
        "atomics": lambda z: "kernel k(x: f32[N], y: f32[M]) { parallel n in N by 64 { "
        + "".join(fill(z, lambda i: "atomic_add(y[%d], sum(x[n]));" % i))
        + " } }\n",
        "combines": lambda z: "kernel k(x: f32[N], y: f32[M]) { parallel n in N by 64 { "
        + "".join(fill(z, lambda i: "combine(y[%d], sum(x[n]), add);" % i))
        + " } }\n",
        "whiles": lambda z: body("var v = x[n]; var c: i64 = 0;" + "".join(fill(z, lambda i: "while c < %d { c += 1; }" % i))),
        "semicolons": lambda z: body(";" * z),
        "garbage": lambda z: "".join(fill(z, lambda i: ") ] } ")),
        "open_braces": lambda z: "kernel k() " + "{" * z,
        "wide_utf8": lambda z: "// " + "\u00e9" * (z // 2) + "\n" + body("let v = x[n];"),
        "bad_utf8_chars": lambda z: body("let v = x[n];" + "\u00e9" * (z // 2)),
        "sym_params": lambda z: "kernel k("
        + ", ".join("a%d: sym f32[W][N]" % i for i in range(200))
        + ") { "
        + "".join(fill(z, lambda i: "parallel n in N by 8 { a%d[rank][n] = 1; }" % (i % 200)))
        + " }\n",
        "sym_waits": lambda z: "kernel k(a: sym f32[W][N], s: sym i64[W][M]) { "
        + "".join(fill(z, lambda i: "parallel { signal_wait_until(s[rank][%d], ge, 1); }" % i))
        + " }\n",
        "sym_puts": lambda z: "kernel k(a: sym f32[W][N]) { "
        + "".join(fill(z, lambda i: "parallel n in N by 8 { put(a[(rank + 1) %% W][n], a[rank][n]); }"))
        + " }\n",
        "constexprs_where_undecided": lambda z: space(10, "N > 0 && " + "+".join("B%d" % i for i in range(10)) + " == 80"),
        "returns": lambda z: body("".join(fill(z, lambda i: "if N > %d { return; } " % i)) + "let v = x[n];"),
        "returns_ok": lambda z: body("".join("if N > %d { return; } " % i for i in range(400)) + "let v = x[n];"),
        "returns_two": lambda z: body("".join(fill(z, lambda i: "if N > %d { if N > 3 { return; } } " % i)) + "let v = x[n];"),
        "tuple_error": lambda z: body(
            "let t0 = (x[n], x[n]);" + "".join("let t%d = (t%d, t%d);" % (i + 1, i, i) for i in range(60)) + "let v = t60 + 1;"
        ),
        "tuple_arg": lambda z: "fn f(t) { return t; }\n"
        + body(
            "let t0 = (x[n], x[n]);"
            + "".join("let t%d = (t%d, t%d);" % (i + 1, i, i) for i in range(60))
            + "let u = f(t60); var w = u; let v = x[n];"
        ),
        "tuple_sort": lambda z: body(
            "let t0 = (x[n], x[n]);"
            + "".join("let t%d = (t%d, t%d);" % (i + 1, i, i) for i in range(60))
            + "let u = sort(t60); let v = x[n];"
        ),
        "else_ifs_ok": lambda z: body(
            "var v = x[n]; if N > 0 { v = 1; }" + "".join(" else if N > %d { v += 1; }" % i for i in range(150))
        ),
        "kernel_calls_distinct": lambda z: "kernel c(x: f32[N], n: const i64) { parallel i in N by"
        " 8 { x[i] = n; } }\nkernel k(x: f32[N]) {"
        + "".join(fill(z, lambda i: "c(x,%d);" % i))
        + "}\n",
        "fn_many_args_calls": lambda z: "fn f("
        + ",".join("a%d" % i for i in range(250))
        + ") { return a0; }\n"
        + body("var v = x[n];" + "".join(fill(z, lambda i: "v = f(" + ",".join("v" for i in range(250)) + ");"))),
        "tune_where_many_solutions": lambda z: "".join(
            fill(z, lambda k: space(8, "+".join("B%d" % i for i in range(8)) + " == 40").replace("kernel k", "kernel k%d" % k))
        ),
        "deep_types": lambda z: "fn f(a: " + "(" * 150 + "f32" + ", f32)" * 150 + ") { return 1; }\n" + body("let v = x[n];"),
        "wide_types": lambda z: "fn f(a: ("
        + ", ".join(fill(z, lambda i: "f32"))
        + ")) { return 1; }\n"
        + body("let v = x[n];"),
        "big_fn_kernels": lambda z: "fn f(a) { var v = a;"
        + "".join("v += a;" for i in range(1000))
        + " return v; }\n"
        + "".join(
            fill(
                z - 8000,
                lambda i: "kernel k%d(x: f32[N]) { parallel n in N by 64 { x[n] = f(f(f(f(f(f(f(f(f(f(x[n])))))))))); } }\n"
                % i,
            )
        ),
        "repeat_shapes": lambda z: body(
            "var v = x[n];" + "".join(fill(z, lambda i: "{ let a: f32<%d> = 1; v += sum(a); }" % (i + 1)))
        ),
        "repeat_consts": lambda z: body("var v = x[n];" + "".join(fill(z, lambda i: "v += %d.5;" % i))),
        "dots": lambda z: "kernel k(x: f32[M, N]) { parallel m in M by 16 { let n = cover(N); var v = x[m, n];"
        + "".join(fill(z, lambda i: "v = dot(v, trans(v)); v = dot(v, x[m, n]);"))
        + " x[m, n] = v; } }\n",
        "histograms": lambda z: "kernel k(x: u8[N], y: i32[16]) { parallel n in N by 64 { "
        + "".join(fill(z, lambda i: "combine(y[:], histogram(x[n], 16), add);"))
        + " } }\n",
        "mixed_places": lambda z: "kernel k(x: f32[N], y: f32[M]) { parallel n in N by 64 { "
        + "".join(fill(z, lambda i: "y[n * %d] = x[n + %d];" % (i + 1, i)))
        + " } }\n",
        "mixed_reads": lambda z: body("var v = x[n];" + "".join(fill(z, lambda i: "v += x[n + %d];" % i))),
        "casts_deep": lambda z: body("let v = x[n]" + " as f64 as f32" * 95 + ";"),
    }
)


@kind
def lets_chain_used(z):
    u = fill(z, lambda i: "let a%d=a%d+x[n];" % (i + 1, i))
    return body("let a0 = x[n];" + "".join(u) + "let v = a%d;" % len(u))


@kind
def fns_used(z):
    u = fill(z, lambda i: "fn f%d(a) { return a + 1; }\n" % i)
    return "".join(u) + body("var v = x[n];" + "".join("v = f%d(v);" % i for i in range(len(u))))


@kind
def consts(z):
    u = fill(z, lambda i: "const A%d = A%d + A%d;\n" % (i, i + 1, i + 1))
    return "".join(u) + "const A%d = 1;\n" % len(u) + body("let v = x[n] + A0;")


@kind
def consts_wide(z):
    u = fill(z, lambda i: "const A%d = 1;\n" % i)
    return "".join(u) + body("let v = x[n] + A0;")


@kind
def consts_used(z):
    u = fill(z // 2, lambda i: "const A%d = 1;\n" % i)
    return "".join(u) + body("let v = x[n]" + "".join(" + A%d" % i for i in range(len(u))) + ";")


@kind
def params(z):
    u = fill(z, lambda i: "a%d: f32[N], " % i)
    return "kernel k(" + "".join(u) + "b: f32[N]) { parallel n in N by 8 { b[n] = 1; } }\n"


@kind
def params_dims(z):
    u = fill(z, lambda i: "a%d: f32[%s], " % (i, ",".join("N%d_%d" % (i, j) for j in range(8))))
    return "kernel k(" + "".join(u) + "b: f32[N]) { parallel n in N by 8 { b[n] = 1; } }\n"


@kind
def tune_names(z):
    u = fill(z, lambda i: "B%d = 1 | 2" % i)
    return "kernel k(x: f32[N]) tune " + ", ".join(u) + " { parallel n in N by B0 { x[n] = 1; } }\n"


@kind
def loops_many_vars(z):
    u = fill(z // 2, lambda i: "var a%d = x[n];" % i)
    return body(
        "".join(u)
        + "".join("for i in 9 {" + "".join("a%d += 1;" % i for i in range(len(u))) + "}" for _ in range(1))
        + "let v = a0;"
    )


@kind
def nested_loops_vars(z):
    u = fill(z // 2, lambda i: "var a%d = x[n];" % i)
    return body(
        "".join(u)
        + "".join("for i%d in 3 {" % i for i in range(90))
        + "".join("a%d += 1;" % i for i in range(len(u)))
        + "}" * 90
        + "let v = a0;"
    )


@kind
def nested_ifs_vars(z):
    u = fill(z // 2, lambda i: "var a%d = x[n];" % i)
    return body(
        "".join(u)
        + "".join("if N > %d {" % i for i in range(90))
        + "".join("a%d += 1;" % i for i in range(len(u)))
        + "}" * 90
        + "let v = a0;"
    )


@kind
def patterns(z):
    u = fill(z // 2, lambda i: "a%d" % i)
    return body("let (" + ", ".join(u) + ") = (" + ", ".join("1" for _ in u) + "); let v = x[n];")


@kind
def tuple_wide_assign(z):
    n = z // 8
    return body(
        "var t = ("
        + ", ".join("x[n]" for _ in range(n // 2))
        + ");"
        + "".join(fill(z // 2, lambda i: "t = t;"))
        + "let v = x[n];"
    )


TERMS = 10_000

DEEP = {
    "flat_sum": (
        body("let v = x[n]" + " + x[n]" * (TERMS - 1) + ";"),
        ["--arg", "x=full(3,value=1):f32"],
        f"{TERMS} {TERMS} {TERMS}",
    ),
    "flat_sum_scalar": (
        "kernel k(y: i64[N], a: i64) { let v = a" + " + a * 3" * TERMS + "; parallel n in N by 4 { y[n] = v; } }\n",
        ["--arg", "y=zeros(2):i64", "--arg", "a=1"],
        f"{3 * TERMS + 1} {3 * TERMS + 1}",
    ),
    "var_chain": (body("var v = x[n];" + "v = v * 0.5 + x[n];" * 5000), ["--arg", "x=full(3,value=1):f32"], "2 2 2"),
    "flat_sum_const": (
        "const A = 1" + " + 1" * (TERMS - 1) + ";\n" + body("let v = x[n] + A;"),
        ["--arg", "x=zeros(2):f32"],
        f"{TERMS} {TERMS}",
    ),
}

if __name__ == "__main__":
    size = int(sys.argv[1])
    out = sys.argv[2]
    for name in sys.argv[3:] or KINDS:
        open(os.path.join(out, name + ".teg"), "w").write(KINDS[name](size))
