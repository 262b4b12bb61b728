// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Ranges: bound by loops; their arithmetic, index(), valid() and cover().
//
// A range of size B at base, with count live lanes and factor mul:
//
//     lane          0      1         2       ...   count - 1   count ... B - 1
//     position    base  base+mul  base+2*mul                     (dead)
//
// Arithmetic changes base and mul only. The count stays that of the loop: a range ends at its own
// bound, even after it is shifted, so `c[r * M + m]` never reaches the next shard.
#include "frontend/elab/elab.h"

#include <string.h>

/* ---- making -------------------------------------------------------------------------------- */

/// Computes min(hi - lo, size), as a constant if possible.
static Value *clamp_count(Elab *e, Value *lo, Value *hi, int64_t size) {
    int64_t from, to;
    if (const_int(lo, &from) && const_int(hi, &to) && to - from == size && size >= 0)
        return build_index(&e->b, size);
    Value *left = build_binary(&e->b, OP_SUB, hi, lo);
    return build_binary(&e->b, OP_MIN, left, build_index(&e->b, size));
}

/// Builds the range at `start` of a loop from lo to hi. The loop runs while start < hi, so the
/// range is not empty.
Val el_loop_range(Elab *e, Value *start, Value *lo, Value *hi, int64_t size) {
    Range *r = ctx_new(e->ctx, Range);
    *r = (Range){.base = start, .size = size, .mul = 1, .start = start, .lo = lo};
    r->count = clamp_count(e, start, hi, size);
    return val_range(r);
}

Val el_range(Elab *e, Value *lo, Value *hi, int64_t size) {
    Range *r = ctx_new(e->ctx, Range);
    *r = (Range){.base = lo, .size = size, .mul = 1, .start = lo, .lo = lo};
    Value *count = clamp_count(e, lo, hi, size);
    r->count = const_of(count) ? count : build_binary(&e->b, OP_MAX, count, build_index(&e->b, 0));
    return val_range(r);
}

/* ---- cover --------------------------------------------------------------------------------- */

/// Returns the least of 16, 24, 32, 48, 64, 96, ... that is at least n; *below is the previous
/// size.
static int64_t ladder_size(int64_t n, int64_t *below) {
    int64_t size = 16;
    *below = -1;
    while (size < n && size < INT32_MAX) {
        *below = size;
        size = size & (size - 1) ? size / 3 * 4 : size / 2 * 3;
    }
    return size;
}

/// A constant is covered exactly. A dim stays dynamic: the size comes from a ladder, so that one
/// code serves many values, and a launch check refuses larger ones.
Val el_cover(Elab *e, Loc loc, Val n) {
    int64_t known, below;
    if (n.kind == V_CONST) {
        if (!el_extent(e, loc, n, "the size of cover", &known)) return val_error();
        return el_range(e, build_index(&e->b, 0), build_index(&e->b, known), known);
    }
    Value *end = el_index(e, loc, n, "the argument of cover");
    if (!end) return val_error();
    if (!el_known_int(e, n, &known)) { // the error names the unknown dim
        el_const_int(e, loc, n, "the argument of cover", &known);
        return val_error();
    }
    int64_t size = ladder_size(known, &below);
    if (size < known)
        return el_fail(e, loc, D_BAD_EXTENT, "the size of cover",
                       val_const_text(e, val_int(known)));
    el_require_range(e, end, below + 1, size);
    return el_range(e, build_index(&e->b, 0), end, size);
}

/* ---- arithmetic ---------------------------------------------------------------------------- */

/// The hint after each error with ranges.
static Val range_hint(Elab *e) {
    diag_hint(e->ctx, "index(r) is the block of its positions, r.start the first one; a range "
                      "itself takes + and - of a scalar and * of a positive constant");
    return val_error();
}

/// Computes base + by. A block would turn the range into a gather; the program should write
/// index(r) + block for that.
static Val shift_range(Elab *e, Loc loc, OpCode op, const Range *r, Val by) {
    if (!(by.kind == V_CONST || val_is_scalar(by))) {
        el_fail(e, loc, D_RANGE_ARITHMETIC, op == OP_ADD ? "+" : "-", val_text(e, by));
        return range_hint(e);
    }
    Value *v = el_index(e, loc, by, "the offset of a range");
    if (!v) return val_error();
    Range *s = ctx_copy(e->ctx, r, sizeof *r);
    s->base = build_binary(&e->b, op, r->base, v);
    return val_range(s);
}

/// (base + j * mul) * c = base * c + j * (mul * c).
static Val scale_range(Elab *e, Loc loc, const Range *r, Val by) {
    int64_t c;
    if (by.kind != V_CONST && !val_is_scalar(by)) {
        el_fail(e, loc, D_RANGE_ARITHMETIC, "*", val_text(e, by));
        return range_hint(e);
    }
    if (!el_const_int(e, loc, by, "the factor of a range", &c)) return val_error();
    if (c <= 0) return el_fail(e, loc, D_RANGE_FACTOR, (long long)c);
    Range *s = ctx_copy(e->ctx, r, sizeof *r);
    s->base = build_binary(&e->b, OP_MUL, r->base, build_index(&e->b, c));
    if (__builtin_mul_overflow(r->mul, c, &s->mul))
        return el_fail(e, loc, D_RANGE_FACTOR, (long long)c);
    return val_range(s);
}

Val el_range_arith(Elab *e, Loc loc, BinaryOp op, Val a, Val b) {
    if (a.kind == V_ERROR || b.kind == V_ERROR) return val_error();
    bool left = a.kind == V_RANGE, both = left && b.kind == V_RANGE;
    const Range *r = left ? a.range : b.range;
    Val other = left ? b : a;
    if (!both && op == BI_ADD) return shift_range(e, loc, OP_ADD, r, other);
    if (!both && op == BI_SUB && left) return shift_range(e, loc, OP_SUB, r, other);
    if (!both && op == BI_MUL) return scale_range(e, loc, r, other);
    el_fail(e, loc, D_RANGE_ARITHMETIC, binary_spelling[op], val_text(e, left ? b : a));
    return range_hint(e);
}

/* ---- questions ----------------------------------------------------------------------------- */

static const Type *lanes_type(Elab *e, Elem elem, const Range *r) {
    return ty_block(e->ir, elem, 1, &r->size);
}

static Value *build_range_iota(Elab *e, const Range *r) {
    const Type *t = lanes_type(e, EL_I64, r);
    return result(build_op(&e->b, OP_IOTA, 0, NULL, 1, &t, 0), 0);
}

/// Records that lanes from the count on are past the end.
static Value *of_range(Elab *e, const Range *r, Value *v) {
    map_set(e->ctx, &e->counts, v, r->count);
    return v;
}

Value *el_range_valid(Elab *e, const Range *r) {
    Value *count = build_broadcast(&e->b, r->count, lanes_type(e, EL_I64, r));
    return of_range(e, r, build_binary(&e->b, OP_LT, build_range_iota(e, r), count));
}

Val el_range_index(Elab *e, const Range *r) {
    Value *lane = build_range_iota(e, r);
    if (r->mul != 1) lane = build_binary(&e->b, OP_MUL, lane, build_int(&e->b, lane->type, r->mul));
    Value *base = build_broadcast(&e->b, r->base, lane->type);
    Value *at = of_range(e, r, build_binary(&e->b, OP_ADD, base, lane));
    return val_ir_valid(at, el_range_valid(e, r));
}

/// Returns the position after the last one: base + (count - 1) * mul + 1, or base for an empty
/// range.
static Value *range_end(Elab *e, const Range *r) {
    if (r->mul == 1) return build_binary(&e->b, OP_ADD, r->base, r->count);
    Value *one = build_index(&e->b, 1), *mul = build_index(&e->b, r->mul);
    Value *last = build_binary(&e->b, OP_MUL, build_binary(&e->b, OP_SUB, r->count, one), mul);
    Value *end = build_binary(&e->b, OP_ADD, build_binary(&e->b, OP_ADD, r->base, last), one);
    return build_binary(&e->b, OP_MAX, end, r->base);
}

/// start and end are positions after arithmetic; tile is the loop's, before arithmetic.
Val el_range_member(Elab *e, Loc loc, const Range *r, const char *name) {
    static const char *const members[] = {"start", "end", "size", "tile"};
    int which = 0;
    while (which < 4 && strcmp(members[which], name) != 0) which++;
    switch (which) {
    case 0: return val_ir(r->base);
    case 1: return val_ir(range_end(e, r));
    case 2: return val_int(r->size);
    case 3: {
        Value *done = build_binary(&e->b, OP_SUB, r->start, r->lo);
        return val_ir(build_binary(&e->b, OP_DIV, done, build_index(&e->b, r->size)));
    }
    }
    el_fail(e, loc, D_NO_MEMBER, "a range", name);
    diag_hint(e->ctx, "a range has start, end, size and tile");
    return val_error();
}
