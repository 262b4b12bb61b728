// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Reads the text form of the IR: recursive descent without a separate lexer. The first error ends
// the parse. No input makes it read past the end, recurse deeper than MAX_DEPTH or build a type
// whose size overflows in the rest of the compiler.
//
// Errors leave by longjmp to ir_parse, which is safe because all memory belongs to the arena. The
// text ends with a NUL byte, so reading the next character is always allowed; a NUL inside the text
// is an unexpected character.
#include "ir/ir_private.h"
#include "ir/layout/layout.h"

#include "lang/diag.h"

#include <ctype.h>
#include <errno.h>
#include <locale.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_DEPTH = 200 };

/// The meaning of a name before a region defined it.
typedef struct NameBinding {
    const char *name;
    Value *value;
} NameBinding;

typedef struct IrParser {
    Ir *ir;
    Ctx *ctx;
    const char *at, *end; // the text ends with a NUL
    const char *line_start;
    uint32_t line;
    uint16_t file;
    int depth;
    PtrMap names;             // interned name -> Value, for the names that are visible here
    VEC(NameBinding) defined; // in the enclosing regions, to be undone
    jmp_buf failed;
} IrParser;

/* ---- characters ---------------------------------------------------------------------------- */

static Loc loc_at(const IrParser *p, const char *at, size_t len) {
    ptrdiff_t col = at - p->line_start + 1;
    return (Loc){.line = p->line,
                 .file = p->file,
                 .col = col > UINT16_MAX ? UINT16_MAX : (uint16_t)col,
                 .len = len > UINT16_MAX ? UINT16_MAX : (uint16_t)len};
}

/// White space and comments.
static void skip_space_and_comments(IrParser *p) {
    for (; p->at < p->end; p->at++) {
        if (*p->at == '\n') {
            p->line++;
            p->line_start = p->at + 1;
        } else if (p->at[0] == '/' && p->at[1] == '/') {
            const char *nl = memchr(p->at, '\n', (size_t)(p->end - p->at));
            p->at = (nl ? nl : p->end) - 1;
        } else if (*p->at != ' ' && *p->at != '\t' && *p->at != '\r') {
            return;
        }
    }
}

/// Returns the length of the word or number at the cursor, or 0.
static size_t word_len(const IrParser *p) {
    size_t n = 0;
    while (is_name_char((unsigned char)p->at[n])) n++;
    return n;
}

/// Returns the word or character at the cursor, for messages.
static const char *found_text(IrParser *p, size_t *len) {
    *len = word_len(p);
    if (p->at == p->end) return "the end of the text";
    if (*len) return ctx_format(p->ctx, "'%.*s'", *len > 40 ? 40 : (int)*len, p->at);
    unsigned char c = (unsigned char)*p->at;
    if (c == '\n') return "the end of the line";
    return ctx_format(p->ctx, c >= ' ' && c <= '~' ? "'%c'" : "byte 0x%02x", c);
}

/// Reports the expected text at the cursor and leaves by longjmp.
static _Noreturn void fail_at_cursor(IrParser *p, const char *expected) {
    size_t len;
    const char *found = found_text(p, &len);
    diag(p->ctx, loc_at(p, p->at, len), D_EXPECTED, expected, found);
    longjmp(p->failed, 1);
}

static bool at_char(IrParser *p, char c) {
    skip_space_and_comments(p);
    return p->at < p->end && *p->at == c;
}

static bool accept_char(IrParser *p, char c) {
    bool yes = at_char(p, c);
    p->at += yes;
    return yes;
}

static void need_char(IrParser *p, char c) {
    if (!accept_char(p, c)) fail_at_cursor(p, ctx_format(p->ctx, "'%c'", c));
}

static bool accept_ir_word(IrParser *p, const char *word) {
    skip_space_and_comments(p);
    bool yes = word_len(p) == strlen(word) && memcmp(p->at, word, strlen(word)) == 0;
    p->at += yes ? strlen(word) : 0;
    return yes;
}

static const char *need_word(IrParser *p, const char *what) {
    skip_space_and_comments(p);
    size_t n = word_len(p);
    if (!n) fail_at_cursor(p, what);
    const char *word = ctx_intern(p->ctx, p->at, n);
    p->at += n;
    return word;
}

/* ---- numbers ------------------------------------------------------------------------------- */

static int64_t need_int(IrParser *p, const char *what) {
    skip_space_and_comments(p);
    const char *s = p->at + (*p->at == '-');
    int64_t v = 0;
    bool fits = isdigit((unsigned char)*s);
    for (; isdigit((unsigned char)*s) && fits; s++) {
        int digit = *s - '0';
        fits = !__builtin_mul_overflow(v, 10, &v) &&
               !__builtin_add_overflow(v, *p->at == '-' ? -digit : digit, &v);
    }
    if (!fits) fail_at_cursor(p, what);
    p->at = s;
    return v;
}

/// Returns the length of digits, point and exponent at the cursor; *whole is true for digits alone.
static size_t number_len(const IrParser *p, bool *whole) {
    const char *s = p->at + (*p->at == '-'), *first = s;
    while (isdigit((unsigned char)*s)) s++;
    *whole = *s != '.' && *s != 'e';
    if (s == first) return 0;
    if (*s == '.') s += 1 + strspn(s + 1, "0123456789");
    if (*s == 'e') {
        const char *digits = s + 1 + (s[1] == '-' || s[1] == '+');
        s = isdigit((unsigned char)*digits) ? digits + strspn(digits, "0123456789") : s;
    }
    return (size_t)(s - p->at);
}

/// Reads a decimal with '.', although the C library expects the decimal point of the host's locale.
static double read_decimal(IrParser *p, size_t len) {
    const char *point = memchr(p->at, '.', len);
    size_t before = point ? (size_t)(point - p->at) : len;
    const char *text = ctx_format(p->ctx, "%.*s%s%.*s", (int)before, p->at,
                                  point ? localeconv()->decimal_point : "",
                                  point ? (int)(len - before - 1) : 0, point ? point + 1 : "");
    double v = strtod(text, NULL);
    if (isinf(v)) fail_at_cursor(p, "a number in the range of f64");
    return v;
}

/// Digits alone are an integer; a point or an exponent makes a float.
static const Attr *parse_number(IrParser *p) {
    bool whole;
    size_t len = number_len(p, &whole);
    if (len > 4096) fail_at_cursor(p, "a shorter number");
    if (len == 0) fail_at_cursor(p, "an attribute value");
    if (whole) return at_int(p->ir, need_int(p, "an integer in 64 bits"));
    double v = read_decimal(p, len);
    p->at += len;
    return at_float(p->ir, v);
}

/// After `nan`: nothing, or `:0x` and the bits.
static const Attr *parse_nan(IrParser *p) {
    uint64_t bits = QUIET_NAN;
    if (p->at[0] == ':' && p->at[1] == '0' && p->at[2] == 'x') {
        p->at += 3;
        bits = 0;
        for (int i = 0; i < 16; i++, p->at++) {
            static const char hex[] = "0123456789abcdef";
            const char *digit = *p->at ? strchr(hex, *p->at) : NULL;
            if (!digit) fail_at_cursor(p, "16 hexadecimal digits");
            bits = bits << 4 | (uint64_t)(digit - hex);
        }
    }
    double v;
    memcpy(&v, &bits, sizeof v);
    if (!isnan(v)) {
        p->at -= 16;
        fail_at_cursor(p, "the bits of a NaN");
    }
    return at_float(p->ir, v);
}

/* ---- types --------------------------------------------------------------------------------- */

static Elem need_elem(IrParser *p) {
    skip_space_and_comments(p);
    const char *at = p->at, *word = need_word(p, "a type");
    Elem e = elem_by_name(word);
    if (e == EL_COUNT) {
        p->at = at;
        fail_at_cursor(p, "a type");
    }
    return e;
}

static int64_t need_extent(IrParser *p) {
    return accept_char(p, '?') ? DYNAMIC : need_int(p, "an extent or '?'");
}

/// Reads a x b x ...; the number of a block's lanes must not overflow.
static int parse_extents(IrParser *p, int64_t *extents, bool block) {
    int rank = 0;
    int64_t lanes = 1;
    do {
        if (rank == MAX_RANK) fail_at_cursor(p, "at most 8 extents");
        const char *at = p->at;
        int64_t e = extents[rank++] = need_extent(p);
        if (block && (e < 1 || e > MAX_LANES / lanes)) {
            p->at = at;
            fail_at_cursor(p, "an extent from 1, at most 2^40 lanes");
        }
        lanes *= block ? e : 1;
    } while (accept_char(p, 'x'));
    return rank;
}

static int need_small(IrParser *p, const char *what, int64_t most) {
    skip_space_and_comments(p);
    const char *at = p->at;
    int64_t v = need_int(p, what);
    if (v < 0 || v > most) {
        p->at = at;
        fail_at_cursor(p, ctx_format(p->ctx, "%s of at most %lld", what, (long long)most));
    }
    return (int)v;
}

/// After '['.
static void parse_strides(IrParser *p, int rank, int64_t *strides) {
    int n = 0;
    do strides[n++] = need_extent(p);
    while (n < rank && accept_char(p, ','));
    if (n < rank) fail_at_cursor(p, "a stride for each extent");
    need_char(p, ']');
}

/// Reads the further properties of a tensor: the current word, and those after it.
static const Type *parse_known(IrParser *p, const Type *t) {
    do {
        if (accept_ir_word(p, "align"))
            t = ty_aligned(p->ir, t, need_small(p, "bytes", 256));
        else if (accept_ir_word(p, "near"))
            t = ty_near(p->ir, t);
        else
            fail_at_cursor(p, "strides, align or near");
    } while (accept_char(p, ','));
    return t;
}

/// After `tensor`.
static const Type *parse_tensor(IrParser *p) {
    int64_t extents[MAX_RANK], strides[MAX_RANK];
    int rank = 0;
    bool strided = false;
    need_char(p, '<');
    Elem e = need_elem(p);
    bool more = accept_char(p, ',');
    skip_space_and_comments(p);
    if (more && !(*p->at >= 'a' && *p->at <= 'z')) {
        rank = parse_extents(p, extents, false);
        more = accept_char(p, ',');
        strided = more && accept_char(p, '[');
        if (strided) parse_strides(p, rank, strides);
        if (strided) more = accept_char(p, ',');
    }
    const Type *t = ty_tensor(p->ir, e, rank, extents, strided ? strides : NULL);
    if (more) t = parse_known(p, t);
    need_char(p, '>');
    return t;
}

static const Layout *parse_layout(IrParser *p) {
    const char *error, *at = p->at;
    const Layout *l = layout_parse(p->ctx, &at, &error);
    p->at = at;
    if (!l) fail_at_cursor(p, ctx_format(p->ctx, "a layout (%s)", error));
    if (!l->rank) fail_at_cursor(p, "a layout of at least one dimension");
    return l;
}

/// After `buf` or `desc`.
static const Type *parse_placed(IrParser *p, bool buf) {
    int64_t extents[MAX_RANK];
    need_char(p, '<');
    Elem e = need_elem(p);
    need_char(p, ',');
    const Layout *l = buf && at_char(p, '[') ? parse_layout(p) : NULL;
    int rank = l ? l->rank : parse_extents(p, extents, true);
    int swizzle = 0, inner = rank - 1, pad = 0;
    while (accept_char(p, ',')) {
        if (!l && accept_ir_word(p, "swizzle"))
            swizzle = need_small(p, "bytes", 128);
        else if (accept_ir_word(p, "inner"))
            inner = need_small(p, "a dimension", rank - 1);
        else if (buf && !l && accept_ir_word(p, "pad"))
            pad = need_small(p, "bytes", 128);
        else
            fail_at_cursor(p, l ? "inner" : buf ? "swizzle, inner or pad" : "swizzle or inner");
    }
    need_char(p, '>');
    if (l && layout_thread_bits(l)) fail_at_cursor(p, "a layout of registers alone");
    if (l) return ty_buf_laid(p->ir, e, l, inner);
    return buf ? ty_buf(p->ir, e, rank, extents, swizzle, inner, pad)
               : ty_desc(p->ir, e, rank, extents, swizzle, inner);
}

/// After `ring`.
static const Type *parse_ring(IrParser *p) {
    VEC(const Type *) bufs = {0};
    need_char(p, '<');
    int slots = need_small(p, "slots", 64);
    while (accept_char(p, ',')) {
        if (!accept_ir_word(p, "buf")) fail_at_cursor(p, "a buf");
        vec_push(p->ctx, &bufs, parse_placed(p, true));
    }
    need_char(p, '>');
    return ty_ring(p->ir, slots, bufs.n, bufs.data);
}

static const Type *parse_block(IrParser *p);

/// After `pending`.
static const Type *parse_pending(IrParser *p) {
    need_char(p, '<');
    const Type *block = at_char(p, '>') ? NULL : parse_block(p);
    need_char(p, '>');
    return ty_pending(p->ir, block);
}

static const Type *parse_type(IrParser *p) {
    if (accept_ir_word(p, "tensor")) return parse_tensor(p);
    if (accept_ir_word(p, "buf")) return parse_placed(p, true);
    if (accept_ir_word(p, "desc")) return parse_placed(p, false);
    if (accept_ir_word(p, "ring")) return parse_ring(p);
    if (accept_ir_word(p, "pending")) return parse_pending(p);
    return parse_block(p);
}

static const Type *parse_block(IrParser *p) {
    int64_t extents[MAX_RANK];
    int rank = 0;
    Elem e = need_elem(p);
    if (at_char(p, '[')) return ty_laid(p->ir, e, parse_layout(p));
    if (accept_char(p, '<')) {
        rank = parse_extents(p, extents, true);
        need_char(p, '>');
    }
    return ty_block(p->ir, e, rank, extents);
}

/* ---- attributes ---------------------------------------------------------------------------- */

/// Reads the rest of an escape, after the backslash. Bytes are written \xNN; 0 is an error, since
/// strings end there.
static char parse_escape(IrParser *p) {
    static const char names[] = "nt\"\\", bytes[] = "\n\t\"\\";
    const char *name = *p->at ? strchr(names, *p->at) : NULL;
    if (name) {
        p->at++;
        return bytes[name - names];
    }
    char digits[3] = {0};
    bool hex = *p->at == 'x' && isxdigit((unsigned char)p->at[1]);
    if (hex && isxdigit((unsigned char)p->at[2])) memcpy(digits, p->at + 1, 2);
    long byte = strtol(digits, NULL, 16);
    if (byte == 0) fail_at_cursor(p, "one of \\n \\t \\\" \\\\ \\x01 .. \\xff");
    p->at += 3;
    return (char)byte;
}

static const char *need_string(IrParser *p) {
    Text t = {.ctx = p->ctx};
    text_bytes(&t, "", 0);
    need_char(p, '"');
    while (*p->at != '"') {
        unsigned char c = (unsigned char)*p->at;
        if (c < ' ') fail_at_cursor(p, "'\"' at the end of the string");
        p->at++;
        char byte = c == '\\' ? parse_escape(p) : (char)c;
        text_bytes(&t, &byte, 1);
    }
    p->at++;
    return t.data;
}

/// Reads a list, after '['. An empty list holds integers unless its op says otherwise.
static const Attr *parse_list(IrParser *p, bool strings) {
    VEC(int64_t) ints = {0};
    VEC(const char *) strs = {0};
    strings = at_char(p, '"') || (strings && at_char(p, ']'));
    while (!accept_char(p, ']')) {
        if (strings)
            vec_push(p->ctx, &strs, need_string(p));
        else
            vec_push(p->ctx, &ints, need_int(p, "an integer in 64 bits"));
        if (!at_char(p, ']')) need_char(p, ',');
    }
    return strings ? at_strs(p->ir, strs.data, strs.n) : at_ints(p->ir, ints.data, ints.n);
}

static SubDim parse_sub(IrParser *p) {
    if (accept_ir_word(p, "at")) return (SubDim){.kind = DIM_AT};
    if (accept_ir_word(p, "pick")) return (SubDim){.kind = DIM_PICK};
    if (!accept_ir_word(p, "axis")) fail_at_cursor(p, "at, axis or pick");
    int64_t size = need_int(p, "the size of the axis");
    return (SubDim){DIM_AXIS, size,
                    accept_char(p, '*') ? need_int(p, "the factor of the axis") : 1};
}

/// After '('.
static const Attr *parse_subs(IrParser *p) {
    VEC(SubDim) subs = {0};
    while (!accept_char(p, ')')) {
        vec_push(p->ctx, &subs, parse_sub(p));
        if (!at_char(p, ')')) need_char(p, ',');
    }
    return at_subs(p->ir, subs.data, subs.n);
}

static const Attr *parse_attr(IrParser *p, bool strings) {
    if (at_char(p, '"')) return at_str(p->ir, need_string(p));
    if (accept_char(p, '[')) return parse_list(p, strings);
    if (accept_char(p, '(')) return parse_subs(p);
    if (accept_ir_word(p, "true")) return at_bool(p->ir, true);
    if (accept_ir_word(p, "false")) return at_bool(p->ir, false);
    if (accept_ir_word(p, "inf")) return at_float(p->ir, INFINITY);
    if (accept_ir_word(p, "nan")) return parse_nan(p);
    if (strncmp(p->at, "-inf", 4) == 0) {
        p->at += 4;
        return at_float(p->ir, -INFINITY);
    }
    return isalpha((unsigned char)*p->at) ? at_type(p->ir, parse_type(p)) : parse_number(p);
}

/// After '['.
static void parse_attrs(IrParser *p, Op *op) {
    do {
        skip_space_and_comments(p);
        Loc loc = loc_at(p, p->at, word_len(p));
        const char *name = need_word(p, "an attribute name");
        AttrId id = attr_by_name(name);
        if (!id) {
            const char *all = row_attrs_text(p->ctx, op->code);
            diag(p->ctx, op->loc, D_IR_INVALID, op_info[op->code].name,
                 ctx_format(p->ctx, *all ? "only the attributes %s" : "no attributes%s", all),
                 name);
            longjmp(p->failed, 1);
        }
        if (op_attr(op, id)) {
            diag(p->ctx, loc, D_DEFINED_TWICE, name);
            longjmp(p->failed, 1);
        }
        need_char(p, '=');
        op_put_attr(p->ir, op, id, parse_attr(p, attr_info[id].kinds & 1 << AT_STRS));
    } while (accept_char(p, ','));
    need_char(p, ']');
}

/* ---- ops ----------------------------------------------------------------------------------- */

/// Reads a name after '%', with its place.
static const char *need_name(IrParser *p, Loc *loc) {
    need_char(p, '%');
    size_t n = word_len(p);
    *loc = loc_at(p, p->at, n);
    if (!n) fail_at_cursor(p, "a name after '%'");
    const char *name = ctx_intern(p->ctx, p->at, n);
    p->at += n;
    return name;
}

/// Defines a name. It may be reused in another region, but not where the first definition is
/// visible.
static void define_value(IrParser *p, const char *name, Loc loc, Value *v) {
    if (map_get(&p->names, name)) {
        diag(p->ctx, loc, D_DEFINED_TWICE, ctx_format(p->ctx, "%%%s", name));
        longjmp(p->failed, 1);
    }
    NameBinding b = {name, v};
    vec_push(p->ctx, &p->defined, b);
    map_set(p->ctx, &p->names, name, v);
    v->name = name[strspn(name, "0123456789")] ? name : NULL;
}

/// Restores the names that were visible outside of the region.
static void forget_names(IrParser *p, int n_kept) {
    while (p->defined.n > n_kept)
        map_set(p->ctx, &p->names, p->defined.data[--p->defined.n].name, NULL);
}

static Value *need_value(IrParser *p) {
    Loc loc;
    const char *name = need_name(p, &loc);
    Value *v = map_get(&p->names, name);
    if (!v) {
        diag(p->ctx, loc, D_IR_UNKNOWN, "value", ctx_format(p->ctx, "%%%s", name));
        longjmp(p->failed, 1);
    }
    return v;
}

static OpCode need_op_name(IrParser *p, Loc *loc) {
    skip_space_and_comments(p);
    *loc = loc_at(p, p->at, word_len(p));
    const char *name = need_word(p, "an op");
    OpCode code = op_by_name(name);
    if (code != OP_COUNT) return code;
    const char *names[OP_COUNT];
    for (int i = 0; i < OP_COUNT; i++) names[i] = op_info[i].name;
    diag(p->ctx, *loc, D_IR_UNKNOWN, "op", name);
    const char *near = closest_name(name, names, OP_COUNT);
    if (near) diag_hint(p->ctx, "did you mean '%s'?", near);
    longjmp(p->failed, 1);
}

typedef struct ResultName {
    const char *name;
    Loc loc;
} ResultName;

typedef struct ResultNames {
    VEC(ResultName) list;
} ResultNames;

static ResultNames parse_results(IrParser *p) {
    ResultNames names = {0};
    if (!at_char(p, '%')) return names;
    do {
        ResultName r;
        r.name = need_name(p, &r.loc);
        vec_push(p->ctx, &names.list, r);
    } while (accept_char(p, ','));
    need_char(p, '=');
    return names;
}

/// Whether names followed by '=' are at the cursor: the results of the next op. Operands have no
/// '='.
static bool at_results(const IrParser *p) {
    IrParser ahead = *p;
    do {
        if (!accept_char(&ahead, '%')) return false;
        ahead.at += word_len(&ahead);
    } while (accept_char(&ahead, ','));
    return at_char(&ahead, '=');
}

/// The op exists before its operands are read, so names resolve to values at once.
static void parse_operands(IrParser *p, Op *op) {
    VEC(Value *) values = {0};
    if (!at_char(p, '%') || at_results(p)) return;
    do vec_push(p->ctx, &values, need_value(p));
    while (accept_char(p, ','));
    op_set_operands(p->ir, op, values.n, values.data);
}

/// Reads one type for each result.
static void parse_result_types(IrParser *p, Op *op, int n) {
    op->results = ctx_array(p->ctx, Value, n);
    op->n_results = n;
    for (int i = 0; i < n; i++) {
        need_char(p, i ? ',' : ':');
        op->results[i] = (Value){.type = parse_type(p), .def = op, .index = i};
    }
}

static Loc parse_loc(IrParser *p) {
    skip_space_and_comments(p);
    const char *at = p->at;
    int64_t line = need_int(p, "a line number");
    need_char(p, ':');
    int64_t col = need_int(p, "a column number");
    if (line < 1 || line > UINT32_MAX || col < 1 || col > UINT16_MAX) {
        p->at = at;
        fail_at_cursor(p, "a line of 32 and a column of 16 bits, from 1");
    }
    return (Loc){.line = (uint32_t)line, .file = p->file, .col = (uint16_t)col, .len = 1};
}

static void parse_op(IrParser *p, Region *to);

static void parse_region_args(IrParser *p, Region *r) {
    do {
        Loc loc;
        const char *name = need_name(p, &loc);
        need_char(p, ':');
        define_value(p, name, loc, region_add_arg(p->ir, r, parse_type(p), NULL));
    } while (accept_char(p, ','));
    need_char(p, ')');
}

/// After '{'.
static void parse_region(IrParser *p, Op *op) {
    Region **grown = ctx_array(p->ctx, Region *, op->n_regions + 1);
    for (int i = 0; i < op->n_regions; i++) grown[i] = op->regions[i];
    op->regions = grown;
    Region *r = op->regions[op->n_regions++] = new_region(p->ctx, op);
    if (++p->depth > MAX_DEPTH) {
        diag(p->ctx, loc_at(p, p->at - 1, 1), D_TOO_DEEP, MAX_DEPTH);
        longjmp(p->failed, 1);
    }
    int outside = p->defined.n;
    if (accept_char(p, '(')) parse_region_args(p, r);
    while (!accept_char(p, '}')) parse_op(p, r);
    forget_names(p, outside);
    p->depth--;
}

/// Regions of an isolated op do not see outer names.
static void parse_regions(IrParser *p, Op *op) {
    PtrMap names = p->names;
    if (op_has(op, ISOLATED)) p->names = (PtrMap){0};
    while (accept_char(p, '{')) parse_region(p, op);
    if (op_has(op, ISOLATED)) p->names = names;
}

/// Results are defined after the regions, since an op does not see its own results.
static Op *parse_any_op(IrParser *p, Region *to) {
    ResultNames names = parse_results(p);
    Loc loc;
    OpCode code = need_op_name(p, &loc);
    Builder b = build_at_end(p->ir, to, loc);
    Op *op = build_op(&b, code, 0, NULL, 0, NULL, 0);
    parse_operands(p, op);
    if (accept_char(p, '[')) parse_attrs(p, op);
    parse_result_types(p, op, names.list.n);
    if (accept_char(p, '@')) op->loc = parse_loc(p);
    parse_regions(p, op);
    for (int i = 0; i < op->n_results; i++)
        define_value(p, names.list.data[i].name, names.list.data[i].loc, result(op, i));
    return op;
}

static void parse_op(IrParser *p, Region *to) {
    parse_any_op(p, to);
}

static Op *parse_module(IrParser *p) {
    skip_space_and_comments(p);
    const char *at = p->at;
    if (!accept_ir_word(p, "module")) fail_at_cursor(p, "module");
    p->at = at;
    Op *module = parse_any_op(p, NULL);
    skip_space_and_comments(p);
    if (p->at != p->end) fail_at_cursor(p, "the end of the text");
    return module;
}

Op *ir_parse(Ir *ir, uint16_t file) {
    size_t len;
    const char *text = ctx_source_text(ir->ctx, file, &len);
    IrParser *p = ctx_new(ir->ctx, IrParser);
    *p = (IrParser){.ir = ir,
                    .ctx = ir->ctx,
                    .at = text,
                    .end = text + len,
                    .line_start = text,
                    .line = 1,
                    .file = file};
    return setjmp(p->failed) == 0 ? parse_module(p) : NULL;
}
