// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Parser and formatter: values of literals, shape of trees, positions, layout, hostile input,
// failing allocations. The texts of messages are tested in tests/diag/.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "frontend/frontend.h"

#include "lang/diag.h"

#include <dirent.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- running the front end ----------------------------------------------------------------- */

typedef struct Job {
    const char *text;
    size_t len;
    Module *module;
    char *ast;       // the printed tree
    char *formatted; // NULL after errors
} Job;

static void run_job(Ctx *ctx, void *arg) {
    Job *job = arg;
    uint16_t file = ctx_add_source(ctx, "test.teg", job->text, job->len);
    job->module = fe_parse(ctx, file);
    if (diag_errors(ctx)) return;
    Text out = {.ctx = ctx};
    ast_print(&out, job->module);
    job->ast = out.data;
    job->formatted = fe_format(ctx, file);
}

/// Parses, prints and formats; the caller destroys the context.
static Ctx *process(const char *text, size_t len, Job *job) {
    Ctx *ctx = ctx_create(NULL);
    *job = (Job){.text = text, .len = len};
    CtxStatus status = ctx_protect(ctx, run_job, job);
    assert_int_equal(status, job->ast ? CTX_OK : CTX_ERRORS);
    return ctx;
}

static const Expr *constant(const Job *job, int i) {
    assert_true(i < job->module->items.n);
    return job->module->items.at[i].constant.value;
}

/* ---- literals ------------------------------------------------------------------------------ */

static void literals(void **state) {
    (void)state;
    static const char text[] = "const A = 0xFFFF_ffff_ffff_ffff;const B = 1_000;const C = 0.1;"
                               "const D = 1e-400;const E = 2.2250738585072011e-308;"
                               "const F = 9007199254740993.0;const G = \"a\\n\\\"\\\\\";"
                               "const H = true;const I = -inf;const J = 1_0.5e+1;";
    // A host program's locale may use a decimal comma.
    setlocale(LC_ALL, "de_DE.UTF-8");
    Job job;
    Ctx *ctx = process(text, sizeof text - 1, &job);
    setlocale(LC_ALL, "C");
    assert_true(constant(&job, 0)->integer.value == UINT64_MAX);
    assert_true(constant(&job, 1)->integer.value == 1000);
    assert_true(constant(&job, 2)->floating.value == 0.1);
    assert_true(constant(&job, 3)->floating.value == 0.0);
    assert_true(constant(&job, 4)->floating.value == 2.2250738585072011e-308);
    assert_true(constant(&job, 5)->floating.value == 9007199254740992.0);
    assert_string_equal(constant(&job, 6)->string.text, "a\n\"\\");
    assert_true(constant(&job, 7)->boolean);
    assert_int_equal(constant(&job, 8)->kind, EX_UNARY);
    assert_int_equal(constant(&job, 8)->unary.x->kind, EX_INF);
    assert_true(constant(&job, 9)->floating.value == 105.0);
    ctx_destroy(ctx);
}

/* ---- trees --------------------------------------------------------------------------------- */

/// An expression and its tree, in prefix form.
static const char *const trees[][2] = {
    {"a + b * c - d", "(- (+ a (* b c)) d)"},
    {"-a as f32 * b", "(* (cast f32 (- a)) b)"},
    {"a & 3 == 1 | b", "(== (& a 3) (| 1 b))"},
    {"a << b + c ^ d", "(^ (<< a (+ b c)) d)"},
    {"a < b && c || d ? e : f ? g : h", "(ternary (|| (&& (< a b) c) d) e (ternary f g h))"},
    {"!a.size[0](b)", "(! (call (subscript (member a size) 0) b))"},
    {"c[r][m + 1, :, None, 0 .. 4, pad = -inf]",
     "(subscript (subscript c r) (+ m 1) (all) (new) (span 0 4) (pad= (- inf)))"},
    {"max((a, b), axis = 1)", "(call max (tuple a b) (axis= 1))"},
    {"((a))[]", "(subscript a)"},
};

static void precedence(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof trees / sizeof *trees; i++) {
        char text[256], want[256];
        snprintf(text, sizeof text, "const X = %s;", trees[i][0]);
        snprintf(want, sizeof want, "module\nconst X = %s\n", trees[i][1]);
        Job job;
        Ctx *ctx = process(text, strlen(text), &job);
        assert_non_null(job.ast);
        assert_string_equal(job.ast, want);
        ctx_destroy(ctx);
    }
}

/// Messages quote expressions as written, except for blanks and doubled parentheses.
static void source_form(void **state) {
    (void)state;
    static const char text[] = "const X = ((a+b))*-f(c,axis=1)[:,None,1..2] as f32?(a,b):x.y;";
    Job job;
    Ctx *ctx = process(text, sizeof text - 1, &job);
    Text out = {.ctx = ctx};
    ast_print_expr(&out, constant(&job, 0));
    assert_string_equal(out.data,
                        "(a + b) * -f(c, axis = 1)[:, None, 1 .. 2] as f32 ? (a, b) : x.y");
    ctx_destroy(ctx);
}

static void definitions(void **state) {
    (void)state;
    static const char text[] =
        "/// One.\n///Two.\nkernel f<T: f16 | bf16>(x: sym T[W][..N, 4 * M], b: T[]?, c: const "
        "i64)\n"
        "tune B = 1 | N + 1 where B > 1 given c = 3 require c > 0, c < 9 { return; }\n"
        "//// no documentation\nfn g(a, m: (range<B>, f32)): f32 { (a, b[0]) = m; return a; }";
    Job job;
    Ctx *ctx = process(text, sizeof text - 1, &job);
    assert_string_equal(job.ast,
                        "module\nkernel f\n  doc \"One.\\nTwo.\"\n  generic T: f16, bf16\n"
                        "  param x: sym T[W][..N, 4 * M]\n  param b: T[]?\n"
                        "  param c: const i64\n  tune B = 1 (+ N 1) where (> B 1)\n"
                        "  given c = 3\n  require (> c 0) (< c 9)\n  block\n    return\n"
                        "fn g\n  param a\n  param m: (range<B>, f32)\n  result f32\n"
                        "  block\n    assign = (tuple a (subscript b 0)) m\n    return a\n");
    ctx_destroy(ctx);
}

static void positions(void **state) {
    (void)state;
    static const char text[] = "\xef\xbb\xbf\r\n/* a\n b */ const AB =\n  foo(1,\n 2) + 3;\r\n";
    Job job;
    Ctx *ctx = process(text, sizeof text - 1, &job);
    Name name = job.module->items.at[0].constant.name;
    assert_int_equal(name.loc.line, 3);
    assert_int_equal(name.loc.col, 13);
    assert_int_equal(name.loc.len, 2);
    const Expr *sum = constant(&job, 0);
    assert_int_equal(sum->loc.line, 4);
    assert_int_equal(sum->loc.col, 3);
    assert_int_equal(sum->binary.op_loc.line, 5);
    assert_int_equal(sum->binary.op_loc.col, 5);
    ctx_destroy(ctx);
}

/* ---- layout -------------------------------------------------------------------------------- */

static const char *const layouts[][2] = {
    {"const  A=1 ;\n\n\n\nconst B = - 2+A;", "const A = 1;\n\nconst B = -2 + A;\n"},
    {"fn f ( a,b :f32<4,8> ) { return a [ : ,None ]*b . size ; }",
     "fn f(a, b: f32<4, 8>) { return a[:, None] * b.size; }\n"},
    {"fn f(a)\n{\nif a{g(a);}\nelse{ h( a ); // c\n}\n}",
     "fn f(a) {\n    if a { g(a); } else {\n        h(a); // c\n    }\n}\n"},
    {"kernel k<T:float>(x:T[..N,4]?)\ntune B=1|2\n{parallel i in 0..N by B{}}",
     "kernel k<T: float>(x: T[..N, 4]?)\ntune B = 1 | 2\n{ parallel i in 0 .. N by B { } }\n"},
    {"fn f(a) { let b = a<4?a:-a; return c[r] [m,-1 , pad=- inf]as f32; }",
     "fn f(a) { let b = a < 4 ? a : -a; return c[r][m, -1, pad = -inf] as f32; }\n"},
    {"fn f(a) {\n\n  // one\n\n\n  g(a); // two\n  h(a, b); /* three */\n\n}\n// four",
     "fn f(a) {\n    // one\n\n    g(a); // two\n    h(a, b); /* three */\n}\n// four\n"},
    {"fn f(a) {\n    a = 1; // x\n    bcd = 22; // y\n}",
     "fn f(a) {\n    a = 1;    // x\n    bcd = 22; // y\n}\n"},
};

static void layout(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof layouts / sizeof *layouts; i++) {
        Job job;
        Ctx *ctx = process(layouts[i][0], strlen(layouts[i][0]), &job);
        assert_non_null(job.formatted);
        assert_string_equal(job.formatted, layouts[i][1]);
        ctx_destroy(ctx);
    }
}

/// Formatting is stable, keeps the tree, and respects the width.
static void check_format(const char *text, size_t len) {
    Job first, second;
    Ctx *ctx = process(text, len, &first);
    assert_non_null(first.formatted);
    Ctx *again = process(first.formatted, strlen(first.formatted), &second);
    assert_non_null(second.formatted);
    assert_string_equal(first.formatted, second.formatted);
    assert_string_equal(first.ast, second.ast);
    ctx_destroy(again);
    ctx_destroy(ctx);
}

/* ---- the kernels of tests/kernels ---------------------------------------------------------- */

static char *read_text(const char *path, size_t *len) {
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    char *text = malloc(1 << 16);
    *len = fread(text, 1, 1 << 16, f);
    fclose(f);
    return text;
}

static void each_kernel(void (*check)(const char *text, size_t len)) {
    DIR *dir = opendir(TEST_DIR "/kernels");
    assert_non_null(dir);
    int count = 0;
    for (struct dirent *e; (e = readdir(dir));) {
        if (!strstr(e->d_name, ".teg")) continue;
        char path[1024];
        snprintf(path, sizeof path, TEST_DIR "/kernels/%s", e->d_name);
        size_t len;
        char *text = read_text(path, &len);
        check(text, len);
        free(text);
        count++;
    }
    closedir(dir);
    assert_true(count > 10);
}

static void is_formatted(const char *text, size_t len) {
    Job job;
    Ctx *ctx = process(text, len, &job);
    assert_non_null(job.formatted);
    assert_int_equal(strlen(job.formatted), len);
    assert_memory_equal(job.formatted, text, len);
    ctx_destroy(ctx);
}

/// Replaces blanks by line ends, but not in texts or on lines with comments.
static void survives_other_layouts(const char *text, size_t len) {
    char *other = malloc(len + 1);
    memcpy(other, text, len);
    other[len] = 0;
    for (char *line = other, *end; line < other + len; line = end + 1) {
        end = strchr(line, '\n');
        if (memmem(line, (size_t)(end - line), "//", 2)) continue;
        bool quoted = false;
        for (char *s = line; s < end; s++) {
            quoted ^= *s == '"';
            if (*s == ' ' && !quoted) *s = '\n';
        }
    }
    check_format(other, len);
    free(other);
}

static void survives_truncation(const char *text, size_t len) {
    for (size_t n = 0; n < len; n += 3) {
        Job job;
        ctx_destroy(process(text, n, &job));
    }
}

static void kernels_are_formatted(void **state) {
    (void)state;
    each_kernel(is_formatted);
}

static void kernels_survive_other_layouts(void **state) {
    (void)state;
    each_kernel(survives_other_layouts);
}

static void kernels_survive_truncation(void **state) {
    (void)state;
    each_kernel(survives_truncation);
}

/* ---- hostile input ------------------------------------------------------------------------- */

static void hostile(void **state) {
    (void)state;
    const size_t n = 100000;
    char *text = malloc(n);
    static const char *const patterns[] = {"(",
                                           "{",
                                           "[",
                                           "-",
                                           "/*",
                                           "\"",
                                           "a ",
                                           "0x",
                                           "1.",
                                           "kernel ",
                                           "a?b:",
                                           "if a { } else ",
                                           "fn f() { fn f() { ",
                                           ";",
                                           "}",
                                           ")",
                                           "let ",
                                           "f(a[",
                                           "/",
                                           "///\n",
                                           "\\",
                                           "..",
                                           "<",
                                           "1 + "};
    for (size_t k = 0; k < sizeof patterns / sizeof *patterns; k++) {
        size_t m = strlen(patterns[k]);
        static const char head[] = "fn f(a) { let x = ";
        for (size_t i = 0; i < n; i++) text[i] = patterns[k][i % m];
        Job job;
        ctx_destroy(process(text, n, &job));
        memcpy(text, head, sizeof head - 1);
        ctx_destroy(process(text, n, &job));
    }
    free(text);
}

static void every_byte(void **state) {
    (void)state;
    for (int a = 0; a < 256; a++)
        for (int b = 0; b < 256; b += 5) {
            char text[] = "const A = 1xx2;";
            text[11] = (char)a;
            text[12] = (char)b;
            Job job;
            ctx_destroy(process(text, sizeof text - 1, &job));
        }
}

static void too_large(void **state) {
    (void)state;
    size_t n = (16 << 20) + 1;
    char *text = malloc(n);
    memset(text, ' ', n);
    Job job;
    Ctx *ctx = process(text, n, &job);
    assert_int_equal(diag_first(ctx)->id, D_FILE_TOO_LARGE);
    ctx_destroy(ctx);
    ctx = process(text, n - 1, &job);
    assert_non_null(job.ast);
    ctx_destroy(ctx);
    free(text);
}

/// An allocator that fails after `left` successes.
typedef struct Budget {
    long left, live;
} Budget;

static void *limited(void *user, void *old, size_t size) {
    Budget *b = user;
    if (size == 0) {
        b->live -= old != NULL;
        free(old);
        return NULL;
    }
    if (b->left-- <= 0) return NULL;
    b->live += old == NULL;
    return realloc(old, size);
}

static void failing_allocations(void **state) {
    (void)state;
    size_t len;
    char *text = read_text(TEST_DIR "/kernels/samples.teg", &len);
    CtxStatus status = CTX_NO_MEMORY;
    for (long n = 0; status == CTX_NO_MEMORY; n++) {
        Budget budget = {.left = n};
        Ctx *ctx = ctx_create(&(Allocator){limited, &budget});
        if (!ctx) continue;
        Job job = {.text = text, .len = len};
        status = ctx_protect(ctx, run_job, &job);
        ctx_destroy(ctx);
        assert_int_equal(budget.live, 0);
    }
    assert_int_equal(status, CTX_OK);
    free(text);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(literals),
        cmocka_unit_test(precedence),
        cmocka_unit_test(source_form),
        cmocka_unit_test(definitions),
        cmocka_unit_test(positions),
        cmocka_unit_test(layout),
        cmocka_unit_test(kernels_are_formatted),
        cmocka_unit_test(kernels_survive_other_layouts),
        cmocka_unit_test(kernels_survive_truncation),
        cmocka_unit_test(hostile),
        cmocka_unit_test(every_byte),
        cmocka_unit_test(too_large),
        cmocka_unit_test(failing_allocations),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
