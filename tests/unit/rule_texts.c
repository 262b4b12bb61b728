// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// See rule_texts.h.
#include "tests/unit/rule_texts.h"

#include <string.h>

#include "ir/interp/interp.h"
#include "passes/gpu/gpu.h"

// The frame of all templates: programs i = 0 .. 31 with numbers a, b and a condition c.
static const char opening[] =
    "module { kernel [name=\"k\"] {(%x: tensor<i64, ?>, %y: tensor<i64, ?>, %z: tensor<bool, ?>, "
    "%o: tensor<i64, ?x8, [8, 1]>, %w: tensor<f32, 4x?, [?, 1]>)\n"
    "%zero = const [value=0] : i64\n%one = const [value=1] : i64\n"
    "%three = const [value=3] : i64\n%eight = const [value=8] : i64\n"
    "%n = const [value=32] : i64\n%yes = const [value=true] : bool\n"
    "%no = const [value=false] : bool\n%top = const [value=9223372036854775807] : i64\n"
    "%low = const [value=9223372036854775804] : i64\n%minus = const [value=-2] : i64\n"
    "%bottom = const [value=-9223372036854775808] : i64\n";
static const char parallel[] = "parallel %zero, %n [step=1] {(%i: i64)\n";
static const char launch[] = "launch %n {(%i: i64)\n";
static const char programs[] = "%a = load %x, %zero, %i [subs=(at)] : i64\n"
                               "%b = load %y, %zero, %i [subs=(at)] : i64\n"
                               "%c = load %z, %no, %i [subs=(at)] : bool\n";
static const char scalar_result[] = "store %o, %r, %i, %zero [subs=(at, at)]\n";
static const char lanes[] = "%lane = iota : i64<8>\n%ones = broadcast %one : i64<8>\n"
                            "%as = broadcast %a : i64<8>\n%bs = broadcast %b : i64<8>\n"
                            "%av = add %as, %lane : i64<8>\n%bv = add %bs, %lane : i64<8>\n";
static const char block_result[] = "store %o, %r, %i, %zero, %eight [subs=(at, axis 8)]\n";
static const char closing[] = "yield }\n";

/// A kernel: `host` is the code before the programs, the rest the body of one. `block`: %r is a
/// block.
typedef struct Template {
    bool block;
    const char *host, *body;
} Template;

/// A loop that carries a number and a value of type `t`.
#define CARRIED(t, first, other)                                                                   \
    {                                                                                              \
        false, "",                                                                                 \
            "%q, %p = for %zero, <<%a|%three>>, %a, " first " [step=1] : i64, " t                  \
            " {(%k: i64, %s: i64, %u: " t ")\n %t = add %s, %k : i64\n"                            \
            "yield <<%t|%s>>, <<%u|" first "|" other                                               \
            ">> }\n%v = cast %p : i64\n%r = add %q, %v : i64\n"                                    \
    }

/// A product plus an addend.
#define PRODUCT(factor, sum)                                                                       \
    {                                                                                              \
        true, "",                                                                                  \
            "%a2 = reshape %av : i64<4x2>\n%b2 = reshape %bv : i64<2x4>\n"                         \
            "%ca = cast %a2 : " factor "<4x2>\n%cb = cast %b2 : " factor "<2x4>\n"                 \
            "%c0 = const [value=<<0|5>>] : i64<4x4>\n%sum = cast %c0 : " sum "<4x4>\n"             \
            "%fb = cast %b : " sum "\n%bb = broadcast %fb : " sum "<4x4>\n"                        \
            "%d = dot %ca, %cb<<, %sum|, %bb|>> : " sum "<4x4>\n"                                  \
            "%t = add <<%d, %bb|%bb, %d|%d, %d>> : " sum "<4x4>\n"                                 \
            "%r0 = slice %t [start=[0, 0]] : " sum "<2x4>\n%r1 = cast %r0 : i64<2x4>\n"            \
            "%r = reshape %r1 : i64<8>\n"                                                          \
    }

/// %r from lanes of a comparison of positions that begin at p and q, along one or two axes.
#define POSITIONS(p, q)                                                                            \
    "%l0 = iota : i64<8>\n%pb = broadcast " p " : i64<8>\n%l1 = add %l0, %pb : i64<8>\n"           \
    "%l2 = reshape %l1 : i64<8x1>\n%l3 = broadcast %l2 : i64<8x8>\n"                               \
    "%l4 = permute %l2 [perm=[1, 0]] : i64<1x8>\n%l5 = broadcast %l4 : i64<8x8>\n"                 \
    "%qb = broadcast " q " : i64<8x8>\n%q1 = broadcast " q " : i64<8>\n"                           \
    "%l6 = sub %l0, %q1 : i64<8>\n%l7 = reshape %l6 : i64<1x8>\n"                                  \
    "%l8 = broadcast %l7 : i64<8x8>\n%five = const [value=5] : i64<8x8>\n"                         \
    "%l9 = add %l8, %five : i64<8x8>\n"                                                            \
    "%is = <<lt %l3, %qb|ge %l3, %l9|eq %l5, %l3|lt %l8, %l3>> : bool<8x8>\n"                      \
    "%bits = cast %is : i64<8x8>\n%l10 = reshape %bits : i64<64>\n"                                \
    "%shift = iota : i64<64>\n%word = shl %l10, %shift : i64<64>\n"                                \
    "%r = reduce %word [axis=0] : i64 {(%e: i64, %f: i64)\n%g = or %e, %f : i64\nyield %g }\n"

static const Template templates[] = {
    // loops
    {false, "",
     "%r = for <<%zero, %zero|%zero, %three|%zero, %one|%three, %a|%b, %a|%b, %b|%three, %zero>>, "
     "<<%a|%three>> "
     "[step=<<1099511627776|3|2>>] : i64 {(%k: i64, %s: i64)\n"
     "%t = add %s, %k : i64\n yield <<%s|%t|%a|%three|%k>> }\n"},
    {false, "",
     "%r = for %low, <<%low|%top>>, %a [step=<<1|3>>] : i64 {(%k: i64, %s: i64)\n"
     "%t = add %s, %k : i64\n yield %t }\n"},
    CARRIED("i64", "%b", "%a"),
    CARRIED("bool", "%yes", "%c"),
    {false, "",
     "%q, %r = while %zero, <<%a|%three>> : i64, i64 {(%k: i64, %s: i64)\n"
     "store %o, %s, %i, %one [subs=(at, at)]\n"
     "%go = lt %k, <<%zero|%three|%b>> : bool\n%stay = and %go, <<%yes|%no>> : bool\n yield "
     "<<%stay|%no>>\n"
     "} {(%k2: i64, %s2: i64)\n%next = add %k2, %one : i64\n%t = add %s2, %k2 : i64\n"
     "yield %next, <<%s2|%t|%a|%three>> }\n"},
    // branches
    {false, "",
     "%r, %q = if <<%c|%yes|%no>> : i64, bool {\n %t = mul %a, %b : i64\n"
     "<<store %o, %b, %i, %one [subs=(at, at)]||>>\n"
     "yield <<%a|%t|%three>>, <<%yes|%no|%c>>\n} {\n%u = add %a, %b : i64\n"
     "yield <<%a|%u|%three|%b>>, <<%yes|%no>> }\n%w1 = cast %q : i64\n"
     "store %o, %w1, %i, %three [subs=(at, at)]\n"},
    {true, "",
     "%r = if <<%c|%yes>> : i64<8> {\n%t = mul %av, %bv : i64<8>\n yield <<%av|%t|%ones>>\n} {\n"
     "yield <<%av|%bv|%ones>> }\n"},
    // an earlier phase
    {false,
     "parallel <<%zero|%three|%one>>, <<%zero|%one|%three>> [step=<<0|1|2>>] {(%k: i64)\n"
     "store %o, %k, %k, %one [subs=(at, at)]\n yield }\n",
     "%r = add %a, %b : i64\n"},
    // accesses under masks
    {true, "",
     "%e8 = broadcast %eight : i64<8>\n%some = lt %lane, %bv : bool<8>\n"
     "%all = broadcast %yes : bool<8>\n%none = broadcast %no : bool<8>\n"
     "%in = load %x, %minus, %lane, <<%some|%all|%none>> [subs=(pick)] : i64<8>\n"
     "%live = live %x, %lane, <<%some|%all|%none>> [subs=(pick)] : bool<8>\n"
     "%r = select %live, %in, %ones : i64<8>\n"
     "assert <<%all|%live>> [text=\"\"]\n"},
    {true, "",
     "%some = lt %lane, %bv : bool<8>\n%all = broadcast %yes : bool<8>\n"
     "%none = broadcast %no : bool<8>\n"
     "store %o, %av, %i, %lane, <<%some|%all|%none>> [subs=(at, pick)]\n"
     "%r = atomic %o, %bv, %i, %lane, <<%some|%all|%none>> [op=\"add\", subs=(at, pick)] : "
     "i64<8>\n"},
    // facts about tensors
    {false,
     "%d0 = dim %w [axis=<<0|1>><<, as_passed=true|>>] : i64\n"
     "%s0 = stride %w [axis=<<0|1>><<, as_passed=true|>>] : i64\n"
     "%sc = scratch %d0, <<%three|%zero>> : tensor<i64, ?x?>\n%d1 = dim %sc [axis=<<0|1>>] : i64\n"
     "%ok = eq <<%d0, %d0|%one, %one>> : bool\nrequire %ok [text=\"\"]\n",
     "%m = max <<%d0, %minus|%zero, %d0|%d0, %three>> : i64\n%t = mul %d1, %s0 : i64\n"
     "%r = add %t, %m : i64\n"},
    // products
    PRODUCT("i8", "i32"),
    PRODUCT("f16", "f32"),
    PRODUCT("f32", "f32"),
};

/// 32-bit numbers, a large one, and an extent.
#define NUMBERS                                                                                    \
    "%a32 = cast %a : <<i32|u32>>\n%aa = cast %a32 : i64\n%b32 = cast %b : i32\n"                  \
    "%bb = cast %b32 : i64\n%far = const [value=-2305843009213693952] : i64\n"

static const Template narrow_templates[] = {
    {false, "%d = dim %w [axis=1] : i64\n",
     NUMBERS
     "%s = <<add|sub|mul|min|max|div|rem>> <<%aa|%d|%i>>, <<%bb|%far|%a>> : i64\n" POSITIONS(
         "%s", "%bb")},
    {false, "%d = dim %w [axis=1] : i64\n",
     NUMBERS
     "%s = <<add|mul>> %aa, <<%bb|%d>> : i64\n%s1 = select %c, %s, %bb : i64\n"
     "%s2 = mul %s, %aa : i64\n%s3 = mul %s2, %aa : i64\n" POSITIONS("<<%s1|%s2|%s3>>", "%a")},
    {false, "%d = dim %w [axis=1] : i64\n",
     NUMBERS "%end = max %zero, <<%d|%aa|%a>> : i64\n%last = add %end, %minus : i64\n"
             "%r9 = for %last, %end, %zero [step=1] : i64 {(%k: i64, %u: i64)\n" POSITIONS(
                 "%k", "%d") "%u2 = add %u, %r : i64\nyield %u2 }\n"
                             "store %o, %r9, %i, %one [subs=(at, at)]\n%r = add %a, %b : i64\n"},
    {false, "",
     "%i32 = cast %i : <<i32|i64>>\n%ii = cast %i32 : i64\n%by = max %b, <<%a|%eight>> : i64\n"
     "%p = <<div|rem>> <<%i|%ii|%three>>, <<%a|%by>> : i64\n"
     "%q = <<div|rem>> <<%p|%i>>, <<%b|%eight|%zero>> : i64\n%m = mul %q, %three : i64\n"
     "%r = add %p, %m : i64\n"},
};

/// Contributions of `g` programs to each of 32 x 8 elements of type t. Lane l of element k gets the
/// values of all codes. place: the combined position along %s. The code ends with the results'
/// bits.
#define COMBINE(t, bits, place, join, keep, groups)                                                \
    "%s = scratch %n, %eight : tensor<" t ", ?x8, [8, 1]>\n"                                       \
    "%g = const [value=" groups "] : i64\n"                                                        \
    "parallel %zero, %n [step=1] {(%k: i64)\n%first = iota : i64<8>\n"                             \
    "%f8 = cast %first : " bits "<8>\n%fv = bitcast %f8 : " t "<8>\n"                              \
    "store %s, %fv, %k, %zero, %eight [subs=(at, axis 8)]\nyield }\n"                              \
    "parallel %zero, %n [step=1] {(%k: i64)\nparallel %zero, %g [step=1] {(%h: i64)\n"             \
    "%odd0 = add %h, %h : i64\n%odd = add %odd0, %one : i64\n%base = mul %k, %eight : i64\n"       \
    "%lane = iota : i64<8>\n%basev = broadcast %base : i64<8>\n%oddv = broadcast %odd : i64<8>\n"  \
    "%code = add %lane, %basev : i64<8>\n%codes = mul %code, %oddv : i64<8>\n"                     \
    "%v8 = cast %codes : " bits "<8>\n%v = bitcast %v8 : " t "<8>\n"                               \
    "%km = mul %h, %three : i64\n%ka = add %k, %km : i64\n%to = rem %ka, %n : i64\n"               \
    "combine %s, %v, " place ", %zero, %eight [n_tensors=1, subs=(at, axis 8)" keep "] {(%p: " t   \
    ", %q: " t ")\n%j = " join " : " t "\nyield %j }\nyield }\nyield }\n"

/// %r from the combined values. The bits of a float NaN do not count.
#define COMBINED(t, bits, nan)                                                                     \
    "%zt = const [value=0] : " bits "\n%zv = bitcast %zt : " t "\n"                                \
    "%got = load %s, %zv, %i, %zero, %eight [subs=(at, axis 8)] : " t "<8>\n"                      \
    "%gb = bitcast %got : " bits "<8>\n%gi = cast %gb : i64<8>\n" nan

#define SAME_NAN                                                                                   \
    "%isnan = isnan %got : bool<8>\n%mm = broadcast %minus : i64<8>\n"                             \
    "%r = select %isnan, %mm, %gi : i64<8>\n"
#define NO_NAN "%none = broadcast %zero : i64<8>\n%r = add %gi, %none : i64<8>\n"

/// Folds of all contributions to each element.
#define FOLDS(t, bits, nan, place, ops)                                                            \
    {                                                                                              \
        true,                                                                                      \
            COMBINE(t, bits, place, "<<" ops ">> %p, %q", "<<, accumulate=true|>>", "<<1|2|7>>"),  \
            COMBINED(t, bits, nan)                                                                 \
    }

// With groups of one program, rounding follows the order of the programs.
static const Template rounding_templates[] = {
    FOLDS("f8e4m3", "u8", SAME_NAN, "%k", "add|mul"),
    FOLDS("f8e5m2", "u8", SAME_NAN, "%k", "add|mul"),
    FOLDS("f16", "i16", SAME_NAN, "%k", "add|mul"),
    FOLDS("f32", "i32", SAME_NAN, "%k", "add|mul"),
};

// Larger groups, whose elements move with the fold or run on a GPU, hold values that do not round.
static const Template combine_templates[] = {
    FOLDS("i8", "u8", NO_NAN, "<<%k|%to>>", "add|mul|min|max|and|or|xor"),
    FOLDS("u8", "i8", NO_NAN, "<<%k|%to>>", "add|mul|min|max|and|or|xor"),
    FOLDS("f8e4m3", "u8", SAME_NAN, "<<%k|%to>>", "min|max"),
    FOLDS("f8e5m2", "u8", SAME_NAN, "<<%k|%to>>", "min|max"),
    FOLDS("f16", "i16", SAME_NAN, "<<%k|%to>>", "min|max"),
    FOLDS("f32", "i32", SAME_NAN, "<<%k|%to>>", "min|max"),
    FOLDS("i64", "u64", NO_NAN, "<<%k|%to>>", "add|mul|min|max|and|or|xor"),
    // Folds that are not one op on both, and many groups.
    {true, COMBINE("i8", "u8", "<<%k|%to>>", "<<min|max|and>> <<%p, %p|%q, %q>>", "", "3"),
     COMBINED("i8", "u8", NO_NAN)},
    {true, COMBINE("i8", "u8", "%k", "<<min|max|add>> %p, %q", "<<, accumulate=true|>>", "70"),
     COMBINED("i8", "u8", NO_NAN)},
    // Parts of 4 x 8 elements.
    {true,
     "%s = scratch %n, %eight : tensor<i64, ?x8, [8, 1]>\n%four = const [value=4] : i64\n"
     "parallel %zero, %n [step=4] {(%k: i64)\nparallel %zero, %three [step=1] {(%h: i64)\n"
     "%row = iota : i64<4>\n%row1 = reshape %row : i64<4x1>\n%rows = broadcast %row1 : i64<4x8>\n"
     "%kh = mul %k, %h : i64\n%kv = broadcast %kh : i64<4x8>\n%v = sub %rows, %kv : i64<4x8>\n"
     "combine %s, %v, %k, %four, %zero, %eight [n_tensors=1, subs=(axis 4, axis 8)] {(%p: i64, %q: "
     "i64)\n"
     "%j = <<add|min|max>> %p, %q : i64\nyield %j }\nyield }\nyield }\n",
     "%r = load %s, %zero, %i, %zero, %eight [subs=(at, axis 8)] : i64<8>\n"},
};

/// Kernels for a pass, for a GPU or not. `programs`: the opening of the programs.
typedef struct Family {
    const char *pass, *gpu, *programs;
    int n;
    const Template *templates;
} Family;
static const Family families[] = {
    {"canonicalize", NULL, parallel, sizeof templates / sizeof *templates, templates},
    {"combine", NULL, parallel, sizeof rounding_templates / sizeof *rounding_templates,
     rounding_templates},
    {"combine", NULL, parallel, sizeof combine_templates / sizeof *combine_templates,
     combine_templates},
    {"combine", "sm_90a", parallel, sizeof combine_templates / sizeof *combine_templates,
     combine_templates},
    {"narrow", "sm_90a", launch, sizeof narrow_templates / sizeof *narrow_templates,
     narrow_templates},
};
enum { N_FAMILIES = sizeof families / sizeof *families };

/* ---- choices ------------------------------------------------------------------------------- */

static int count_words(const char *at, const char *end) {
    int n = 1;
    for (; at < end; at++) n += *at == '|';
    return n;
}

enum { MAX_CHOICES = 24 };
typedef struct Choices {
    int n, words[MAX_CHOICES], picked[MAX_CHOICES];
} Choices;

static void add_word(Text *out, const char *at, const char *end, int word) {
    for (; word; at++) word -= *at == '|';
    size_t n = 0;
    while (at + n < end && at[n] != '|') n++;
    text_bytes(out, at, n);
}

static void expand(Choices *c, const char *from, Text *out) {
    for (const char *at; (at = strstr(from, "<<")); from = strstr(at, ">>") + 2) {
        const char *end = strstr(at + 2, ">>");
        text_bytes(out, from, (size_t)(at - from));
        c->words[c->n] = count_words(at + 2, end);
        add_word(out, at + 2, end, c->picked[c->n++]);
    }
    text_add(out, "%s", from);
}

/// Advances to the next combination; false beyond the last.
static bool next_combination(Choices *c) {
    for (int i = 0; i < c->n; i++) {
        if (++c->picked[i] < c->words[i]) return true;
        c->picked[i] = 0;
    }
    return false;
}

static const char *expand_template(Ctx *ctx, const Family *f, const Template *t, Choices *c) {
    Text out = {.ctx = ctx};
    c->n = 0;
    text_add(&out, "%s", opening);
    expand(c, t->host, &out);
    text_add(&out, "%s%s%s", f->programs, programs, t->block ? lanes : "");
    expand(c, t->body, &out);
    text_add(&out, "%s%syield } }\n", t->block ? block_result : scalar_result, closing);
    return out.data;
}

void each_rule_text(Ctx *ctx, void (*use)(const char *text, const char *pass, const char *gpu)) {
    for (int k = 0; k < N_FAMILIES; k++)
        for (int i = 0; i < families[k].n; i++) {
            Choices c = {0};
            do
                use(expand_template(ctx, &families[k], &families[k].templates[i], &c),
                    families[k].pass, families[k].gpu);
            while (next_combination(&c));
        }
}

/* ---- running ------------------------------------------------------------------------------- */

enum { PROGRAMS = 32, LANES = 8 };

typedef struct TextRun {
    const char *kernel;
    const Pass *pass;
    const char *gpu;
    RuleWatch *watch;
    void *user;
    Text *text;
    int64_t compared;
} TextRun;

typedef struct TextArgs {
    int64_t x[PROGRAMS], y[PROGRAMS], o[PROGRAMS * LANES];
    unsigned char z[PROGRAMS];
    float w[4];
} TextArgs;

static Tensor tensor(void *data, Elem e, int64_t rows, int64_t columns) {
    Tensor t = {.data = data, .elem = e, .rank = columns ? 2 : 1};
    t.extents[0] = rows;
    t.extents[1] = t.strides[0] = columns;
    t.strides[1] = 1;
    if (!columns) t.strides[0] = 1;
    return t;
}

/// For passes that narrow numbers: values near the ends of types, in all pairs of their classes.
static void fill_extremes(TextArgs *d) {
    static const int64_t some[] = {
        0,           1,         -1,        7,         -8,         INT32_MAX,     INT32_MIN,
        INT64_MAX,   INT64_MIN, INT16_MAX, INT16_MIN, UINT32_MAX, INT64_MAX - 5, 0x40000000,
        -3000000000, 65536};
    for (int i = 0; i < PROGRAMS; i++) {
        d->x[i] = some[i % 16];
        d->y[i] = some[(i * 5 + i / 16 * 3) % 16];
    }
}

static bool run_text(const TextRun *r, Ir *ir, Op *module, TextArgs *d) {
    bool narrows = strcmp(r->pass->name, "narrow") == 0;
    for (int i = 0; i < PROGRAMS; i++) {
        d->x[i] = i % 8 - 2;
        d->y[i] = i / 8 + 1;
        d->z[i] = i % 3 == 0;
    }
    if (narrows) fill_extremes(d);
    InterpArg args[] = {{.tensor = tensor(d->x, EL_I64, PROGRAMS, 0)},
                        {.tensor = tensor(d->y, EL_I64, PROGRAMS, 0)},
                        {.tensor = tensor(d->z, EL_BOOL, PROGRAMS, 0)},
                        {.tensor = tensor(d->o, EL_I64, PROGRAMS, LANES)},
                        {.tensor = tensor(d->w, EL_F32, 4, 1)}};
    // Its elements are never accessed.
    if (narrows) args[4].tensor.extents[1] = INT64_C(1) << 47, args[4].tensor.strides[0] = 0;
    InterpOptions options = {.max_steps = 1 << 20};
    return ir_verify(ir, module) && interp_run(ir, module, "k", 5, args, &options);
}

static void compare_text(Ctx *ctx, void *arg) {
    TextRun *r = arg;
    Ir *ir = ir_create(ctx);
    Op *module = ir_parse(ir, ctx_add_source(ctx, "rule.tir", r->kernel, strlen(r->kernel)));
    TextArgs *before = ctx_new(ctx, TextArgs), *after = ctx_new(ctx, TextArgs);
    if (!module || !run_text(r, ir, module, before)) return;
    ir_watch_rules(ir, r->watch, r->user);
    r->pass->run(&(PassEnv){.ir = ir, .gpu = r->gpu ? gpu_target(r->gpu) : NULL}, module);
    if (!run_text(r, ir, module, after)) return;
    r->compared = PROGRAMS * LANES;
    for (int i = 0; i < PROGRAMS * LANES; i++)
        if (before->o[i] != after->o[i]) {
            text_add(r->text, "element %d is %lld, not %lld; ", i, (long long)after->o[i],
                     (long long)before->o[i]);
            break;
        }
    if (r->text->n)
        text_add(r->text, "after the pass:\n%sbefore the pass:\n%s", ir_to_text(ctx, module),
                 r->kernel);
}

int64_t text_compare(const char *kernel, const Pass *pass, const char *gpu, RuleWatch *watch,
                     void *user, Text *text) {
    TextRun r = {kernel, pass, gpu, watch, user, text, 0};
    Ctx *ctx = ctx_create(NULL);
    bool failed = ctx_protect(ctx, compare_text, &r) != CTX_OK;
    if (failed || diag_first(ctx)) {
        text_add(text, "%s\n", kernel);
        for (const Diagnostic *d = diag_first(ctx); d; d = d->next)
            diag_render(text, ctx, d, false);
    }
    ctx_destroy(ctx);
    return r.compared;
}
