// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Subscripts of tensors: places, and their reads and writes (lang/grammar.md, sections 8 and 9).
//
// A place is built in four steps. read_entries interprets the entries between the brackets;
// unify_picks broadcasts the integer blocks together; place_shape orders the axes of the block;
// finish_place makes the operands of the access op. For a tensor of four dimensions
//
//     x[b, rows, None, m, cols]      b scalar, rows <4, 1>, cols <1, 8>, m a range of 16
//     entries   AT  PICK  NEW  AXIS  PICK
//     picks         <4, 8>                    at the position of the first of them
//     plain         <4, 8, 16>                the block that the op reads or writes
//     type          <4, 8, 1, 16>             the block in the source, with the axes of None
//
// An unmerged pack has several axes in the IR: an index into it is split in row-major order. A
// range over it first becomes a block of positions (ranges_to_picks).
#include "frontend/elab/elab.h"

#include <string.h>

/// The meaning of one entry between the brackets. NEW is `None`, which has no dimension.
typedef struct Entry {
    enum EntryKind { E_AT, E_AXIS, E_PICK, E_NEW } kind;
    Val v;          // AT: an i64 scalar; PICK: a block
    const Range *r; // AXIS
    const TensorDim *dim;
    int at; // AXIS, PICK: first axis in the block, None not counted
} Entry;

typedef struct Entries {
    Entry at[2 * MAX_RANK];
    int n;
    int64_t extents[MAX_RANK]; // of the block, None not counted
    int rank;
} Entries;

/* ---- reading the brackets ------------------------------------------------------------------ */

/// `:` is a range over the whole dimension. The dimension must be a constant, so that the block has
/// an extent.
static bool entry_all(Elab *e, const Tensor *t, const Sub *sub, Entry *out) {
    int64_t size;
    const char *what = ctx_format(e->ctx, "the extent that ':' stands for in '%s'", t->name);
    if (!el_extent(e, sub->loc, out->dim->extent, what, &size)) return false;
    out->kind = E_AXIS;
    out->r = el_range(e, build_index(&e->b, 0), build_index(&e->b, size), size).range;
    return true;
}

/// Converts coordinates of any integer type to i64; validity stays with them.
static bool entry_value(Elab *e, const Sub *sub, Entry *out) {
    Val v = el_expr(e, sub->lo);
    if (v.kind == V_RANGE) {
        out->kind = E_AXIS;
        out->r = v.range;
        return true;
    }
    v = el_value(e, sub->loc, v);
    if (val_is_block(v) && elem_is(v.ir.v->type->elem, EC_INT)) {
        out->kind = E_PICK;
        out->v = val_ir_valid(build_cast(&e->b, v.ir.v, EL_I64), v.ir.valid);
        return true;
    }
    out->kind = E_AT;
    out->v = val_ir(el_index(e, sub->loc, v, "a subscript"));
    return out->v.kind == V_IR;
}

static bool read_sub_entry(Elab *e, const Tensor *t, const Sub *sub, Entry *out) {
    if (sub->kind == SUB_ALL) return entry_all(e, t, sub, out);
    if (sub->kind == SUB_EXPR) return entry_value(e, sub, out);
    el_fail(e, sub->loc, D_SPAN_IN_TENSOR);
    diag_hint(e->ctx, "range(lo, hi, B) is a range of B positions from lo on");
    return false;
}

/// Checks the number of entries. None and named entries have no dimension.
static bool count_matches(Elab *e, const Tensor *t, const Expr *x) {
    int n = 0;
    for (int i = 0; i < x->subscript.subs.n; i++) {
        enum SubKind kind = x->subscript.subs.at[i].kind;
        n += kind != SUB_NEW && kind != SUB_NAMED;
    }
    if (n == t->n_dims) return true;
    el_fail(e, x->loc, D_SUBSCRIPT_COUNT, t->name, t->n_dims, n);
    if (n < t->n_dims)
        diag_hint(e->ctx, "all entries stand in one bracket, one for each dimension: x[i, j]; "
                          "`:` takes all of a dimension, and a function takes a tensor whole");
    else
        diag_hint(e->ctx, "each dimension has one entry; `None` adds an axis");
    return false;
}

/// Reads a named entry. pad: the value in dead lanes. cache: how long to keep the cache line, `all`
/// by default.
static bool named_sub(Elab *e, const Sub *sub, Place *p) {
    if (strcmp(sub->name.text, "pad") == 0) {
        p->pad = val_ir(el_convert(e, sub->lo->loc, el_expr(e, sub->lo),
                                   ty_scalar(e->ir, p->tensor->elem), "the pad"));
        return p->pad.kind == V_IR;
    }
    if (strcmp(sub->name.text, "cache") == 0) {
        p->cache = sub->lo->kind == EX_NAME ? caching_of_word(sub->lo->name) : CACHING_ABSENT;
        if (!p->cache) el_fail(e, sub->lo->loc, D_OPTION_WORD, "cache", "all, last, first, none");
        return p->cache != CACHING_ABSENT;
    }
    el_fail(e, sub->name.loc, D_NO_NAMED_SUB, sub->name.text);
    return false;
}

/// Reads all entries, even after an error in one, so that each gets its own message.
static bool read_entries(Elab *e, const Expr *x, Place *p, Entries *out) {
    const Tensor *t = p->tensor;
    if (!count_matches(e, t, x)) return false;
    bool ok = true;
    for (int i = 0, dim = 0; i < x->subscript.subs.n; i++) {
        const Sub *sub = &x->subscript.subs.at[i];
        if (sub->kind == SUB_NAMED) {
            ok &= named_sub(e, sub, p);
            continue;
        }
        if (out->n == 2 * MAX_RANK) {
            el_fail(e, sub->loc, D_RANK, MAX_RANK);
            return false;
        }
        Entry *entry = &out->at[out->n++];
        *entry = (Entry){.kind = E_NEW};
        if (sub->kind == SUB_NEW) continue;
        entry->dim = &t->dims[dim++];
        ok &= read_sub_entry(e, t, sub, entry);
    }
    return ok;
}

/* ---- the shape of the block ---------------------------------------------------------------- */

/// Broadcasts all integer blocks together.
static bool unify_picks(Elab *e, Loc loc, Entries *s) {
    Val picks[MAX_RANK];
    int n = 0;
    for (int i = 0; i < s->n; i++)
        if (s->at[i].kind == E_PICK) picks[n++] = s->at[i].v;
    if (n && !el_unify_shapes(e, loc, "a subscript", n, picks)) return false;
    for (int i = 0, k = 0; i < s->n; i++)
        if (s->at[i].kind == E_PICK) s->at[i].v = picks[k++];
    return true;
}

static bool add_entry_extents(Elab *e, Loc loc, Entries *s, int n, const int64_t *extents) {
    if (s->rank + n > MAX_RANK) {
        el_fail(e, loc, D_RANK, MAX_RANK);
        return false;
    }
    for (int i = 0; i < n; i++) s->extents[s->rank++] = extents[i];
    return true;
}

/// Computes the axes of each entry, and the types of the block with and without the axes of None.
static bool place_shape(Elab *e, Loc loc, Entries *s, Place *p) {
    int64_t full[2 * MAX_RANK];
    int n_full = 0, picks_at = -1;
    s->rank = 0;
    for (int i = 0; i < s->n; i++) {
        Entry *entry = &s->at[i];
        int before = s->rank;
        entry->at = entry->kind == E_PICK && picks_at >= 0 ? picks_at : s->rank;
        if (entry->kind == E_AXIS && !add_entry_extents(e, loc, s, 1, &entry->r->size))
            return false;
        if (entry->kind == E_PICK && picks_at < 0) {
            const Type *t = entry->v.ir.v->type;
            picks_at = s->rank;
            if (!add_entry_extents(e, loc, s, t->rank, t->extents)) return false;
        }
        if (entry->kind == E_NEW) full[n_full++] = 1;
        for (int d = before; d < s->rank; d++) full[n_full++] = s->extents[d];
    }
    if (n_full > MAX_RANK) {
        el_fail(e, loc, D_RANK, MAX_RANK);
        return false;
    }
    p->plain = ty_block(e->ir, p->tensor->elem, s->rank, s->extents);
    p->type = ty_block(e->ir, p->tensor->elem, n_full, full);
    return true;
}

/* ---- packs that were not merged ------------------------------------------------------------ */

/// Reshapes a block of positions to its own axes of the whole result, with extent 1 elsewhere.
static Val spread_positions(Elab *e, const Entries *s, const Entry *entry, Val v) {
    int64_t extents[MAX_RANK];
    for (int i = 0; i < s->rank; i++) extents[i] = 1;
    const Type *t = v.ir.v->type;
    for (int i = 0; i < t->rank; i++) extents[entry->at + i] = t->extents[i];
    const Type *to = ty_block(e->ir, EL_I64, s->rank, extents);
    Value *valid = v.ir.valid ? build_reshape(&e->b, v.ir.valid, to) : NULL;
    return val_ir_valid(build_reshape(&e->b, v.ir.v, to), valid);
}

/// Turns ranges into blocks of coordinates if one of them covers a pack of several axes, which it
/// steps through in row-major order. All axes of the subscript are converted, so that each keeps
/// its place.
static void ranges_to_picks(Elab *e, Entries *s) {
    bool split = false;
    for (int i = 0; i < s->n; i++) split |= s->at[i].kind == E_AXIS && s->at[i].dim->axes != 1;
    if (!split) return;
    for (int i = 0; i < s->n; i++) {
        Entry *entry = &s->at[i];
        if (entry->kind != E_AXIS && entry->kind != E_PICK) continue;
        Val v = entry->kind == E_AXIS ? el_range_index(e, entry->r) : entry->v;
        entry->v = spread_positions(e, s, entry, v);
        entry->kind = E_PICK;
    }
}

/* ---- places -------------------------------------------------------------------------------- */

/// `b` and r are used only if the axis is a range.
static void add_sub(Place *p, SubDimKind kind, Value *a, Value *b, const Range *r) {
    p->subs[p->n_subs++] = (SubDim){kind, r ? r->size : 0, r ? r->mul : 0};
    p->operands[p->n_operands++] = a;
    if (b) p->operands[p->n_operands++] = b;
}

/// Adds the subscripts of one dimension: several for an unmerged pack.
static void add_dim_subscripts(Elab *e, Loc loc, Place *p, const Entry *entry) {
    if (entry->kind == E_AXIS) {
        add_sub(p, DIM_AXIS, entry->r->base, entry->r->count, entry->r);
        return;
    }
    SubDimKind kind = entry->kind == E_PICK ? DIM_PICK : DIM_AT;
    Val rest = entry->v, coordinates[MAX_RANK];
    for (int i = entry->dim->axes - 1; i > 0; i--) {
        Val extent = val_ir(el_tensor_dim(e, p->tensor, entry->dim->first + i));
        coordinates[i] = el_binary(e, loc, BI_REM, rest, extent);
        rest = el_binary(e, loc, BI_DIV, rest, extent);
    }
    coordinates[0] = rest;
    for (int i = 0; i < entry->dim->axes; i++) add_sub(p, kind, coordinates[i].ir.v, NULL, NULL);
}

/// A lane is live if all blocks of coordinates are valid there; ranges bring their own count.
static void finish_place(Elab *e, Loc loc, const Entries *s, Place *p) {
    Val picks[MAX_RANK];
    int n = 0;
    if (p->tensor->shard) add_sub(p, DIM_AT, p->tensor->shard, NULL, NULL);
    for (int i = 0; i < s->n; i++) {
        if (s->at[i].kind == E_NEW) continue;
        if (s->at[i].kind == E_PICK) picks[n++] = s->at[i].v;
        add_dim_subscripts(e, loc, p, &s->at[i]);
    }
    p->has_picks = n > 0;
    p->mask = el_join_valid(e, n, picks);
}

static bool place_of_tensor(Elab *e, const Expr *x, const Tensor *t, Place *p) {
    Entries s = {.n = 0};
    *p = (Place){.tensor = t, .pad = val_absent()};
    if (!read_entries(e, x, p, &s) || !unify_picks(e, x->loc, &s)) return false;
    if (!place_shape(e, x->loc, &s, p)) return false;
    ranges_to_picks(e, &s);
    if (!unify_picks(e, x->loc, &s)) return false;
    finish_place(e, x->loc, &s, p);
    return true;
}

/// All kernels see all shards. The rank has a bracket of its own, so that no subscript reaches the
/// next shard.
Val el_shard(Elab *e, const Expr *x, const Tensor *t) {
    const Subs *subs = &x->subscript.subs;
    Val r = subs->n == 1 && subs->at[0].kind == SUB_EXPR ? el_expr(e, subs->at[0].lo) : val_void();
    if (r.kind == V_ERROR) return r;
    if (!val_is_scalar(r) && r.kind != V_CONST) {
        el_fail(e, x->loc, D_SHARD, t->name);
        if (r.kind == V_RANGE)
            diag_hint(e->ctx, "a rank is one integer: that of a loop without `by`");
        else
            diag_hint(e->ctx,
                      "write %s[r][...] for the shard of rank r, %s[rank][...] for the own one",
                      t->name, t->name);
        return val_error();
    }
    Tensor *shard = ctx_copy(e->ctx, t, sizeof *t);
    shard->sym = false;
    shard->shard = el_index(e, subs->at[0].loc, r, "a rank");
    shard->n_dims--;
    memmove(shard->dims, shard->dims + 1, sizeof *shard->dims * (size_t)shard->n_dims);
    return shard->shard ? val_tensor(shard) : val_error();
}

/// An optional tensor that this launch, or this call, has none for.
static void absent_tensor(Elab *e, const Expr *x) {
    const Expr *base = x->subscript.base;
    const char *name = base->kind == EX_NAME ? base->name : "the tensor";
    el_fail(e, x->loc, D_ABSENT_TENSOR, name);
    diag_hint(e->ctx, "an optional tensor is tested before it is used: `if %s { ... }`", name);
}

/// Outside `parallel`, the host reads only dims and scalars, not elements.
bool el_place_of(Elab *e, const Expr *x, Val base, const char *what, Place *out) {
    if (base.kind == V_TENSOR && !e->in_program) {
        el_fail(e, x->loc, D_TENSOR_OUTSIDE, base.tensor->name);
        diag_hint(e->ctx, "programs read and write: parallel i in N by 256 { ... }");
        return false;
    }
    if (base.kind == V_TENSOR && base.tensor->sym) {
        // neither a[r] alone nor a[m, k] is an element
        if (el_shard(e, x, base.tensor).kind == V_TENSOR)
            el_fail(e, x->loc, D_SHARD_PLACE, base.tensor->name);
        return false;
    }
    if (base.kind == V_TENSOR) return place_of_tensor(e, x, base.tensor, out);
    if (base.kind == V_ABSENT)
        absent_tensor(e, x);
    else if (base.kind != V_ERROR)
        el_fail(e, x->loc, D_NOT_A_TENSOR, what, val_text(e, base));
    return false;
}

bool el_place(Elab *e, const Expr *x, const char *what, Place *out) {
    if (x->kind == EX_SUBSCRIPT) return el_place_of(e, x, el_expr(e, x->subscript.base), what, out);
    Val v = el_expr(e, x);
    if (v.kind != V_ERROR) el_fail(e, x->loc, D_NOT_A_TENSOR, what, val_text(e, v));
    return false;
}

/* ---- reading and writing ------------------------------------------------------------------- */

/// Lists the operands of an access: the tensor, `n` of `first`, the subscripts, the mask.
static int access_operands(const Place *p, int n, Value *const *first, Value **out) {
    int k = 0;
    out[k++] = p->tensor->v;
    for (int i = 0; i < n; i++) out[k++] = first[i];
    for (int i = 0; i < p->n_operands; i++) out[k++] = p->operands[i];
    if (p->mask) out[k++] = p->mask;
    return k;
}

static void set_subs(Elab *e, Op *op, const Place *p) {
    op_set_subs(e->ir, op, A_SUBS, p->subs, p->n_subs);
}

/// A load of positions also needs the live lanes: a dead lane holds the pad, which is not a
/// position.
Value *el_live(Elab *e, const Place *p) {
    if (p->type->rank == 0) return NULL;
    Value *operands[2 * MAX_RANK + 4];
    int n = access_operands(p, 0, NULL, operands);
    const Type *t = ty_with_elem(e->ir, p->plain, EL_BOOL);
    Op *op = build_op(&e->b, OP_LIVE, n, operands, 1, &t, 0);
    set_subs(e, op, p);
    return build_reshape(&e->b, result(op, 0), p->type);
}

/// `pad =` means that elements outside are expected, so --check does not report them. In a block of
/// positions, a lane is valid if it was read from memory.
Val el_load(Elab *e, Loc loc, const Place *p) {
    e->b.loc = el_loc(e, loc);
    if (p->tensor->use) p->tensor->use->read = true;
    const Type *elem = ty_scalar(e->ir, p->tensor->elem);
    Value *pad = p->pad.kind == V_IR             ? p->pad.ir.v
                 : elem_is(elem->elem, EC_FLOAT) ? build_float(&e->b, elem, 0)
                 : elem_is(elem->elem, EC_BOOL)  ? build_bool(&e->b, elem, false)
                                                 : build_int(&e->b, elem, 0);
    Value *operands[2 * MAX_RANK + 4];
    int n = access_operands(p, 1, &pad, operands);
    Op *op = build_op(&e->b, OP_LOAD, n, operands, 1, &p->plain, 0);
    set_subs(e, op, p);
    if (p->pad.kind == V_ABSENT) op_set_flag(e->ir, op, A_CHECKED, true);
    op_set_caching(e->ir, op, p->cache);
    Value *v = build_reshape(&e->b, result(op, 0), p->type);
    bool positions = p->tensor->elem == EL_I32 || p->tensor->elem == EL_I64;
    return val_ir_valid(v, positions ? el_live(e, p) : NULL);
}

/// A store converts like any binding: literals adapt, scalars repeat, and other values must agree.
void el_store(Elab *e, Loc loc, const Place *p, Val v) {
    e->b.loc = el_loc(e, loc);
    if (p->tensor->use) p->tensor->use->written = true;
    const char *what = ctx_format(e->ctx, "the value for '%s'", p->tensor->name);
    Value *x = el_convert(e, loc, v, p->type, what);
    if (!x) return;
    x = build_reshape(&e->b, x, p->plain);
    Value *operands[2 * MAX_RANK + 4];
    int n = access_operands(p, 1, &x, operands);
    Op *op = build_op(&e->b, OP_STORE, n, operands, 0, NULL, 0);
    set_subs(e, op, p);
    op_set_flag(e->ir, op, A_CHECKED, true);
    if (p->pad.kind != V_ABSENT) el_fail(e, loc, D_PAD_IN_STORE);
}
