// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Parses arguments as written on the command line: `rand(128,256,seed=3):bf16[::2]:transpose`.
//
//   spec   := number | 'none' | source view*
//   source := '@' path | 'same(' parameter ')' | generator '(' (integer | name '=' number),* ')'
//   view   := ':' element | ':' name ('(' integer,* ')')? | '[' slice,* ']'
#include "tools/tegula/tensors.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct Spec {
    Ctx *ctx;
    const Wanted *wanted;
    const char *text, *p;
    Elem asked;   // the type given by `:element`, or EL_COUNT
    Elem elem;    // the given type, or the parameter's, or EL_COUNT
    Tensor whole; // all of the memory
    Tensor t;     // the view so far
} Spec;

static bool fail_spec(const Spec *s, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static bool fail_spec(const Spec *s, const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    cli_error("--arg %s=%s: %s", s->wanted->name, s->text, ctx_vformat(s->ctx, fmt, ap));
    va_end(ap);
    return false;
}

static void skip_spec_blanks(Spec *s) {
    while (*s->p == ' ') s->p++;
}

static bool take_spec_char(Spec *s, char c) {
    skip_spec_blanks(s);
    if (*s->p != c) return false;
    s->p++;
    return true;
}

static const char *take_spec_name(Spec *s) {
    skip_spec_blanks(s);
    const char *start = s->p;
    while (isalnum((unsigned char)*s->p) || *s->p == '_') s->p++;
    return ctx_intern(s->ctx, start, (size_t)(s->p - start));
}

static bool take_int(Spec *s, int64_t *out) {
    skip_spec_blanks(s);
    char *end;
    errno = 0;
    *out = strtoll(s->p, &end, 10);
    if (end == s->p || errno) return false;
    s->p = end;
    return true;
}

/* ---- numbers ------------------------------------------------------------------------------- */

/// Reads all of `text` as a value of element e. Returns false if it is not a value or does not fit.
static bool parse_cell(Elem e, const char *text, Cell *out) {
    char *end = NULL;
    errno = 0;
    if (strcmp(text, "true") == 0 || strcmp(text, "false") == 0) {
        *out = cell_cast(EL_BOOL, e, (Cell){.u = text[0] == 't'});
        return e == EL_BOOL;
    }
    if (elem_is(e, EC_FLOAT)) {
        out->f = strtod(text, &end);
    } else if (elem_is(e, EC_SINT)) {
        out->i = strtoll(text, &end, 0);
    } else {
        out->u = strtoull(text, &end, 0);
        if (strchr(text, '-')) return false;
    }
    if (end == text || *end || (errno && !elem_is(e, EC_FLOAT))) return false;
    Cell wrapped = cell_wrap(e, *out);
    bool fits = elem_is(e, EC_FLOAT) || wrapped.u == out->u;
    *out = wrapped;
    return fits;
}

static bool looks_like_number(const char *text) {
    char *end;
    strtod(text, &end);
    return (end != text && !*end) || strcmp(text, "true") == 0 || strcmp(text, "false") == 0;
}

/* ---- generators ---------------------------------------------------------------------------- */

typedef struct Generator {
    double value;        // NaN is a value
    double seed, lo, hi; // NAN: not given
} Generator;

/// The finalizer of SplitMix64, a bijection that mixes well: consecutive counters give random bits.
static uint64_t mix_splitmix64(uint64_t x) {
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

/// Returns 53 random bits as a multiple of 2^-53 below 1.
static double uniform01(uint64_t seed, uint64_t index) {
    return (double)(mix_splitmix64(seed ^ mix_splitmix64(index)) >> 11) * 0x1p-53;
}

static double gen_zeros(const Generator *g, Elem e, uint64_t seed, int64_t i) {
    (void)g, (void)e, (void)seed, (void)i;
    return 0;
}

static double gen_ones(const Generator *g, Elem e, uint64_t seed, int64_t i) {
    (void)g, (void)e, (void)seed, (void)i;
    return 1;
}

static double gen_full(const Generator *g, Elem e, uint64_t seed, int64_t i) {
    (void)e, (void)seed, (void)i;
    return g->value;
}

static double generate_iota(const Generator *g, Elem e, uint64_t seed, int64_t i) {
    (void)g, (void)e, (void)seed;
    return (double)i;
}

/// Integers are floored, so each of lo .. hi - 1 is equally likely.
static double gen_rand(const Generator *g, Elem e, uint64_t seed, int64_t i) {
    bool is_float = elem_is(e, EC_FLOAT);
    double lo = isnan(g->lo) ? 0 : g->lo;
    double hi = !isnan(g->hi) ? g->hi : is_float ? 1 : e == EL_BOOL ? 2 : lo + 10;
    double x = lo + (hi - lo) * uniform01(seed, (uint64_t)i);
    return is_float ? x : floor(x);
}

/// The Box-Muller transform.
static double gen_randn(const Generator *g, Elem e, uint64_t seed, int64_t i) {
    (void)g, (void)e;
    double u = 1 - uniform01(seed, 2 * (uint64_t)i), v = uniform01(seed, 2 * (uint64_t)i + 1);
    return sqrt(-2 * log(u)) * cos(6.283185307179586 * v);
}

static const struct {
    const char *name;
    double (*value)(const Generator *g, Elem e, uint64_t seed, int64_t i);
} generators[] = {
    {"zeros", gen_zeros},    {"ones", gen_ones}, {"full", gen_full},
    {"iota", generate_iota}, {"rand", gen_rand}, {"randn", gen_randn},
};
enum { N_GENERATORS = sizeof generators / sizeof *generators };

static bool fail_expected(const Spec *s, const char *what) {
    return *s->p ? fail_spec(s, "expected %s at '%s'", what, s->p)
                 : fail_spec(s, "expected %s at the end", what);
}

static bool take_setting(Spec *s, Generator *g) {
    const char *name = take_spec_name(s);
    const struct {
        const char *name;
        double *field;
    } settings[] = {{"value", &g->value}, {"seed", &g->seed}, {"lo", &g->lo}, {"hi", &g->hi}};
    for (int i = 0; i < 4; i++) {
        if (strcmp(settings[i].name, name) != 0) continue;
        char *end;
        if (!take_spec_char(s, '=')) return fail_spec(s, "'%s' needs a value: %s=1", name, name);
        *settings[i].field = strtod(s->p, &end);
        if (end == s->p || (i > 0 && isnan(*settings[i].field)))
            return fail_spec(s, "'%s' needs a number", name);
        s->p = end;
        return true;
    }
    return fail_spec(s, "'%s' is neither an extent nor one of value, seed, lo, hi", name);
}

/// Positional integers are extents, named numbers are settings: `rand(4, 5, seed = 7)`.
static bool take_extents(Spec *s, Generator *g, int *rank, int64_t *extents) {
    if (!take_spec_char(s, '(')) return fail_spec(s, "extents are expected: rand(4,5)");
    while (!take_spec_char(s, ')')) {
        skip_spec_blanks(s);
        if (isalpha((unsigned char)*s->p)) {
            if (!take_setting(s, g)) return false;
        } else {
            if (*rank == MAX_RANK) return fail_spec(s, "at most %d dimensions", MAX_RANK);
            if (!take_int(s, &extents[*rank]) || extents[*rank] < 0)
                return fail_spec(s, "an extent is a number from 0 on");
            ++*rank;
        }
        if (!take_spec_char(s, ',') && *s->p != ')') return fail_expected(s, "',' or ')'");
    }
    return true;
}

/// Arguments of different names get different random numbers unless a seed says otherwise.
static uint64_t seed_of(const Spec *s, const Generator *g) {
    if (!isnan(g->seed)) return mix_splitmix64((uint64_t)(int64_t)g->seed);
    uint64_t h = 0;
    for (const char *p = s->wanted->name; *p; p++) h = mix_splitmix64(h ^ (unsigned char)*p);
    return h;
}

/// An element depends only on its row-major index, so a view of random data holds the same values
/// as the whole.
static bool generate_elements(Spec *s) {
    const char *name = take_spec_name(s);
    int which = 0, rank = 0;
    while (which < N_GENERATORS && strcmp(generators[which].name, name) != 0) which++;
    if (which == N_GENERATORS) {
        fail_spec(s, "'%s' is not a source of data", name);
        cli_hint("'tegula help arguments' lists them");
        return false;
    }
    Generator g = {0, NAN, NAN, NAN};
    int64_t extents[MAX_RANK];
    if (!take_extents(s, &g, &rank, extents)) return false;
    Elem e = s->elem == EL_COUNT ? s->wanted->fallback : s->elem;
    if (!tensor_create(s->ctx, e, rank, extents, s->wanted->guard, &s->whole)) return false;
    uint64_t seed = seed_of(s, &g);
    int64_t count = which == 0 ? 0 : tensor_count(&s->whole); // new memory is zero
    for (int64_t i = 0; i < count; i++) {
        double v = generators[which].value(&g, e, seed, i);
        cell_store(e, s->whole.data, i, cell_cast(EL_F64, e, (Cell){.f = v}));
    }
    return true;
}

/// same(NAME): shares the memory of another argument.
static bool share_argument(Spec *s) {
    take_spec_name(s);
    take_spec_char(s, '(');
    const char *name = take_spec_name(s);
    const Argument *other = s->wanted->find ? s->wanted->find(s->wanted->user, name) : NULL;
    if (!take_spec_char(s, ')') || !other || other->kind != ARG_TENSOR)
        return fail_spec(s, "'%s' is not another tensor argument", name);
    s->whole = other->tensor;
    return true;
}

/* ---- files --------------------------------------------------------------------------------- */

/// A path ends at the end of the text, or before a `:` or `[` after .npy or .png.
static size_t path_length(const char *path) {
    for (const char *p = path; *p; p++) {
        if (strncmp(p, ".npy", 4) != 0 && strncmp(p, ".png", 4) != 0) continue;
        if (!p[4] || p[4] == ':' || p[4] == '[') return (size_t)(p + 4 - path);
    }
    return strcspn(path, ":[");
}

static bool load_spec_file(Spec *s) {
    size_t n = path_length(++s->p);
    const char *path = ctx_intern(s->ctx, s->p, n);
    s->p += n;
    // Without `:element`, the compiler refuses values of a wrong type.
    bool bits_only = s->asked == EL_COUNT;
    return tensor_read(s->ctx, path, s->elem, bits_only, s->wanted->guard, &s->whole);
}

/* ---- views --------------------------------------------------------------------------------- */

/// Memory is addressed in bytes, so a 4-bit element at an odd index has no address.
static bool move_start(Spec *s, int64_t elements) {
    int64_t bits = elements * elem_info[s->t.elem].bits;
    if (bits % 8) return fail_spec(s, "a view of 4-bit elements starts at an even one");
    s->t.data = (char *)s->t.data + bits / 8;
    return true;
}

static int64_t clamp_int64(int64_t v, int64_t lo, int64_t hi) {
    return v < lo ? lo : v > hi ? hi : v;
}

/// Parses start:stop:step of one axis, by NumPy's rules. The caller moves the start.
static bool take_slice(Spec *s, int axis, int64_t *start, bool *dropped) {
    int64_t n = s->t.extents[axis], stop = 0, step = 1;
    bool has_start = take_int(s, start), has_stop = false;
    *dropped = !take_spec_char(s, ':');
    if (*dropped) {
        if (!has_start) return fail_spec(s, "expected a slice at '%s'", s->p);
        if (*start < 0) *start += n;
        if (*start < 0 || *start >= n)
            return fail_spec(s, "index outside the extent %lld", (long long)n);
        return true;
    }
    has_stop = take_int(s, &stop);
    if (take_spec_char(s, ':')) take_int(s, &step);
    if (step == 0) return fail_spec(s, "a slice has no step of 0");
    int64_t lowest = step > 0 ? 0 : -1, highest = step > 0 ? n : n - 1;
    *start = !has_start ? (step > 0 ? 0 : n - 1)
                        : clamp_int64(*start < 0 ? *start + n : *start, lowest, highest);
    stop =
        !has_stop ? (step > 0 ? n : -1) : clamp_int64(stop < 0 ? stop + n : stop, lowest, highest);
    int64_t span = step > 0 ? stop - *start : *start - stop;
    s->t.extents[axis] = span > 0 ? ceil_div(span, step > 0 ? step : -step) : 0;
    *start = s->t.extents[axis] ? *start : 0;
    s->t.strides[axis] *= step;
    return true;
}

/// Unnamed axes stay whole. An integer drops its axis.
static bool take_slices(Spec *s) {
    Tensor old = s->t;
    int kept = 0, axis = 0;
    int64_t moved = 0;
    while (!take_spec_char(s, ']')) {
        int64_t start;
        bool dropped;
        if (axis == old.rank) return fail_spec(s, "more slices than the %d dimensions", old.rank);
        int64_t stride = old.strides[axis];
        if (!take_slice(s, axis, &start, &dropped)) return false;
        moved += start * stride;
        if (!dropped) {
            s->t.extents[kept] = s->t.extents[axis];
            s->t.strides[kept++] = s->t.strides[axis];
        }
        axis++;
        if (!take_spec_char(s, ',') && *s->p != ']') return fail_expected(s, "',' or ']'");
    }
    for (; axis < old.rank; axis++) {
        s->t.extents[kept] = old.extents[axis];
        s->t.strides[kept++] = old.strides[axis];
    }
    s->t.rank = kept;
    return move_start(s, moved);
}

/// The new axis i is the old axis axes[i].
static bool permute_axes(Spec *s, const int64_t *axes, int n) {
    Tensor old = s->t;
    unsigned seen = 0;
    for (int i = 0; i < n; i++) {
        if (n != old.rank || axes[i] < 0 || axes[i] >= n || seen >> axes[i] & 1)
            return fail_spec(s, "'permute' names each of the %d axes once", old.rank);
        seen |= 1u << axes[i];
        s->t.extents[i] = old.extents[axes[i]];
        s->t.strides[i] = old.strides[axes[i]];
    }
    return n == old.rank ? true
                         : fail_spec(s, "'permute' names each of the %d axes once", old.rank);
}

/// transpose: reverses all axes.
static bool view_transpose(Spec *s, const int64_t *v) {
    (void)v;
    int64_t axes[MAX_RANK];
    for (int i = 0; i < s->t.rank; i++) axes[i] = s->t.rank - 1 - i;
    return permute_axes(s, axes, s->t.rank);
}

/// expand(n, axis).
static bool view_expand(Spec *s, const int64_t *v) {
    Tensor *t = &s->t;
    if (t->rank == MAX_RANK || v[0] < 0 || v[1] < 0 || v[1] > t->rank)
        return fail_spec(s, "'expand' takes an extent and one of %d places", t->rank + 1);
    for (int i = t->rank++; i > v[1]; i--) {
        t->extents[i] = t->extents[i - 1];
        t->strides[i] = t->strides[i - 1];
    }
    t->extents[v[1]] = v[0];
    t->strides[v[1]] = 0;
    return true;
}

/// Moves the elements to new memory with the strides of `shape`.
static bool relocate_elements(Spec *s, Tensor *shape) {
    Tensor to;
    if (!tensor_create_strided(s->ctx, shape, s->wanted->guard, &to)) return false;
    tensor_copy(&to, &s->t);
    s->whole = s->t = to;
    return true;
}

/// fortran: the first axis varies fastest.
static bool view_fortran(Spec *s, const int64_t *v) {
    (void)v;
    Tensor shape = s->t;
    int64_t stride = 1;
    for (int i = 0; i < shape.rank; i++) {
        shape.strides[i] = stride;
        stride *= shape.extents[i] > 0 ? shape.extents[i] : 1;
    }
    return relocate_elements(s, &shape);
}

/// spread(axis, stride): the other axes stay dense and row-major.
static bool view_spread(Spec *s, const int64_t *v) {
    Tensor shape = s->t;
    if (v[0] < 0 || v[0] >= shape.rank || v[1] < 1)
        return fail_spec(s, "'spread' takes one of the %d axes and a stride", shape.rank);
    int64_t stride = 1;
    for (int i = shape.rank - 1; i >= 0; i--) {
        if (i == v[0]) continue;
        shape.strides[i] = stride;
        stride *= shape.extents[i] > 0 ? shape.extents[i] : 1;
    }
    shape.strides[v[0]] = v[1];
    if (v[1] < stride) return fail_spec(s, "the stride must be at least %lld", (long long)stride);
    return relocate_elements(s, &shape);
}

static const struct {
    const char *name;
    int n_args;
    bool (*apply)(Spec *s, const int64_t *args);
} views[] = {
    {"transpose", 0, view_transpose},
    {"expand", 2, view_expand},
    {"fortran", 0, view_fortran},
    {"spread", 2, view_spread},
};
enum { N_VIEWS = sizeof views / sizeof *views };

/// Parses integers in parentheses. Returns their number, 0 without parentheses, -1 if malformed.
static int take_view_args(Spec *s, int64_t *v) {
    int n = 0;
    if (!take_spec_char(s, '(')) return 0;
    while (n < MAX_RANK && take_int(s, &v[n])) {
        n++;
        if (!take_spec_char(s, ',')) break;
    }
    return take_spec_char(s, ')') ? n : -1;
}

/// Views apply from left to right, each to the result of the previous one.
static bool take_view(Spec *s) {
    if (take_spec_char(s, '[')) return take_slices(s);
    if (!take_spec_char(s, ':')) return fail_spec(s, "expected ':' or '[' at '%s'", s->p);
    const char *name = take_spec_name(s);
    if (elem_by_name(name) != EL_COUNT) return true; // was applied when the data was made
    int64_t v[MAX_RANK];
    int n = take_view_args(s, v);
    if (n < 0) return fail_spec(s, "'%s' takes integers: %s(1,0)", name, name);
    if (strcmp(name, "permute") == 0) return permute_axes(s, v, n);
    for (int i = 0; i < N_VIEWS; i++) {
        if (strcmp(views[i].name, name) != 0) continue;
        if (n != views[i].n_args)
            return fail_spec(s, "'%s' takes %d values", name, views[i].n_args);
        return views[i].apply(s, v);
    }
    fail_spec(s, "':%s' is neither an element type nor a view", name);
    cli_hint("'tegula help arguments' lists the views");
    return false;
}

/* ---- all together -------------------------------------------------------------------------- */

/// Returns the element of a `:element` in the text, or EL_COUNT. In slices `:` precedes numbers.
static Elem asked_element(Ctx *ctx, const char *text) {
    Elem found = EL_COUNT;
    for (const char *p = text; (p = strchr(p, ':'));) {
        size_t n = strspn(++p, "abcdefghijklmnopqrstuvwxyz0123456789");
        Elem e = elem_by_name(ctx_intern(ctx, p, n));
        if (e != EL_COUNT) found = e;
    }
    return found;
}

/// A number is a scalar argument, or the only element of a tensor of rank 0.
static bool make_scalar_argument(Spec *s, Argument *out) {
    Elem e = s->elem != EL_COUNT ? s->elem : s->wanted->fallback;
    if (!parse_cell(e, s->text, &out->scalar))
        return fail_spec(s, "this is not a value of %s", elem_info[e].name);
    out->kind = ARG_SCALAR;
    if (s->wanted->scalar) return true;
    out->kind = ARG_TENSOR;
    if (!tensor_create(s->ctx, e, 0, NULL, s->wanted->guard, &out->whole)) return false;
    cell_store(e, out->whole.data, 0, out->scalar);
    out->tensor = out->whole;
    return true;
}

/// The element type must be known before the data is made, so `:element` is found first.
bool spec_make(Ctx *ctx, const char *spec, const Wanted *wanted, Argument *out) {
    Spec s = {.ctx = ctx, .wanted = wanted, .text = spec, .p = spec};
    s.asked = asked_element(ctx, spec);
    s.elem = s.asked != EL_COUNT ? s.asked : wanted->elem;
    *out = (Argument){.spec = spec};
    if (strcmp(spec, "none") == 0) {
        out->kind = ARG_NULL;
        return true;
    }
    if (looks_like_number(spec)) return make_scalar_argument(&s, out);
    if (wanted->scalar)
        return fail_spec(&s, "'%s' is a scalar; this is not a number", wanted->name);
    bool shares = strncmp(spec, "same(", 5) == 0;
    if (!(*spec == '@' ? load_spec_file(&s) : shares ? share_argument(&s) : generate_elements(&s)))
        return false;
    s.t = s.whole;
    while (*s.p)
        if (!take_view(&s)) return false;
    out->kind = ARG_TENSOR;
    out->whole = s.whole;
    out->tensor = s.t;
    return true;
}
