// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Loads and stores of tensors by subscript, a vector at a time.
//
// The scalar parts of a subscript (its start, its live lanes) are computed once, at the op's
// position. A vector of the block then needs an address, the distance between its lanes and a mask.
// Trivial parts are left out: the common access is one unmasked vector instruction.
#include <string.h>

#include "backends/cpu/emit.h"

/* ---- preparation --------------------------------------------------------------------------- */

static bool constant_i64(LLVMValueRef v, int64_t *n) {
    if (!LLVMIsAConstantInt(v)) return false;
    *n = LLVMConstIntGetSExtValue(v);
    return true;
}

static LLVMValueRef build_sub(Emit *e, LLVMValueRef x, LLVMValueRef y) {
    return LLVMBuildSub(e->g->b, x, y, "");
}

/// ceil(x / mul) for a positive constant.
static LLVMValueRef divide_coordinate_up(Emit *e, LLVMValueRef x, int64_t mul) {
    if (mul == 1) return x;
    LLVMValueRef up = gen_add(e->g, x, gen_i64(e->g, mul - 1));
    return LLVMBuildSDiv(e->g->b, up, gen_i64(e->g, mul), "");
}

/// Lanes j of an axis are live for lo <= j < hi, where j < count and 0 <= base + j mul < extent.
static void prepare_axis(Emit *e, Prepared *p, int d) {
    Gen *g = e->g;
    const SubDim *s = &p->a.subs[d];
    LLVMValueRef base = p->at[d], zero = gen_i64(g, 0);
    LLVMValueRef count = emit_scalar(e, sub_operand(p->op, &p->a, d, 1));
    int64_t n;
    if (p->inside[d] < 2 && !(constant_i64(count, &n) && n >= s->size)) p->hi[d] = count;
    if (p->inside[d]) return;
    LLVMValueRef end =
        gen_max(g, divide_coordinate_up(e, build_sub(e, p->tensor->dims[d], base), s->mul), zero);
    p->hi[d] = p->hi[d] ? gen_min(g, p->hi[d], end) : end;
    if (constant_i64(p->hi[d], &n) && n >= s->size) p->hi[d] = NULL;
    if (constant_i64(base, &n) && n >= 0) return;
    p->lo[d] = gen_max(g, divide_coordinate_up(e, build_sub(e, zero, base), s->mul), zero);
}

static LLVMValueRef within_extent(Emit *e, LLVMValueRef x, LLVMValueRef extent) {
    return LLVMBuildICmp(e->g->b, LLVMIntULT, x, gen_splat(e->g, extent, gen_lanes(x)), "");
}

void prepare_access(Emit *e, const Op *op) {
    Prepared *p = ctx_new(e->ctx, Prepared);
    p->op = op;
    p->a = access_of(op);
    p->tensor = emit_tensor(e, p->a.tensor);
    p->offset = gen_i64(e->g, 0);
    const Attr *inside = op_ints(op, A_IN_BOUNDS);
    for (int d = 0; d < p->a.n_subs; d++) {
        const SubDim *s = &p->a.subs[d];
        if (inside && d < inside->n) p->inside[d] = (int)inside->ints[d];
        if (s->kind == DIM_PICK) continue;
        p->at[d] = emit_scalar(e, sub_operand(op, &p->a, d, 0));
        p->offset = gen_add(e->g, p->offset, gen_mul(e->g, p->at[d], p->tensor->strides[d]));
        if (s->kind == DIM_AXIS)
            prepare_axis(e, p, d);
        else if (!p->inside[d])
            p->live = gen_and(e->g, p->live, within_extent(e, p->at[d], p->tensor->dims[d]));
    }
    bind_access(e, op, p);
}

const Prepared *prepared_of(Emit *e, const Op *op) {
    const Prepared *p = bound_access(e, op);
    if (!p) ice(e->ctx, op->loc, "%s is not prepared", op_info[op->code].name);
    return p;
}

/* ---- lanes of index blocks ----------------------------------------------------------------- */

enum { LANE_STEP_VISITS = 100 }; // visited ops. A value used twice is reached on many paths

/// Same as value_lane_step, but visits at most *left more ops.
static int64_t lane_step_within(const Value *v, int axis, int *left) {
    if (axis < 0 || v->type->rank == 0 || v->type->extents[axis] == 1) return 0;
    const Op *op = v->def;
    if (!op || --*left < 0) return DYNAMIC;
    int64_t x = DYNAMIC, y = DYNAMIC, n;
    switch (op->code) {
    case OP_CONST: return 0;
    case OP_IOTA: return 1;
    case OP_BROADCAST: return lane_step_within(operand(op, 0), axis, left);
    case OP_CAST:
        // Wrapping would break the progression. Only casts from i64 to itself and widening casts
        // keep it.
        return elem_info[operand(op, 0)->type->elem].bits >= 32
                   ? lane_step_within(operand(op, 0), axis, left)
                   : DYNAMIC;
    case OP_ADD:
    case OP_SUB:
        x = lane_step_within(operand(op, 0), axis, left);
        y = lane_step_within(operand(op, 1), axis, left);
        if (x == DYNAMIC || y == DYNAMIC) return DYNAMIC;
        return op->code == OP_ADD ? x + y : x - y;
    case OP_MUL:
        if (!const_int(operand(op, 1), &n)) return DYNAMIC;
        x = lane_step_within(operand(op, 0), axis, left);
        return x == DYNAMIC ? DYNAMIC : x * n;
    default: return DYNAMIC;
    }
}

/// Returns the growth of v from lane to lane along an axis, or DYNAMIC if that is not a known
/// constant.
static int64_t value_lane_step(const Value *v, int axis) {
    int left = LANE_STEP_VISITS;
    return lane_step_within(v, axis, &left);
}

static bool in_pick(const Access *a, int axis) {
    return a->pick_at >= 0 && axis >= a->pick_at && axis < a->pick_at + a->pick_rank;
}

int64_t access_stride(const Op *op, int axis) {
    Access a = access_of(op);
    int64_t sum = 0;
    for (int d = 0; d < a.n_subs; d++) {
        int64_t stride = a.tensor->type->strides[d], step = 0;
        if (a.subs[d].kind == DIM_AXIS && a.axis_of[d] == axis) step = a.subs[d].mul;
        if (a.subs[d].kind == DIM_PICK && in_pick(&a, axis))
            step = value_lane_step(sub_operand(op, &a, d, 0), axis - a.pick_at);
        if (step == 0) continue;
        if (step == DYNAMIC || stride == DYNAMIC) return DYNAMIC;
        sum += step * stride;
    }
    return sum;
}

/* ---- addresses and masks of one vector ----------------------------------------------------- */

static Place pick_place(const Access *a, const Place *p) {
    Place q = {.rank = a->pick_rank, .axis = -1};
    for (int i = 0; i < a->pick_rank; i++) q.at[i] = p->at[a->pick_at + i];
    if (in_pick(a, p->axis)) {
        q.axis = p->axis - a->pick_at;
        q.lanes = p->lanes;
        q.live = p->live;
    }
    return q;
}

static LLVMValueRef index_at(Emit *e, Value *v, const Place *p) {
    return gen_cast(e->g, v->type->elem, EL_I64, emit_vec(e, v, p));
}

LLVMValueRef access_coordinate(Emit *e, const Prepared *p, int d, const Place *at) {
    Gen *g = e->g;
    int axis = p->a.axis_of[d];
    if (p->a.subs[d].kind == DIM_PICK) {
        Place q = pick_place(&p->a, at);
        return index_at(e, sub_operand(p->op, &p->a, d, 0), &q);
    }
    if (axis < 0) return p->at[d];
    LLVMValueRef mul = gen_i64(g, p->a.subs[d].mul);
    LLVMValueRef x = gen_add(g, p->at[d], gen_mul(g, at->at[axis], mul));
    if (axis != at->axis) return x;
    LLVMValueRef lanes = LLVMBuildMul(g->b, gen_iota(g, at->lanes), gen_same(mul, at->lanes), "");
    return LLVMBuildAdd(g->b, gen_splat(g, x, at->lanes), lanes, "");
}

LLVMValueRef access_mask(Emit *e, const Prepared *p, const Place *at) {
    Place q = pick_place(&p->a, at);
    return emit_vec(e, p->a.mask, &q);
}

LLVMValueRef lanes_below(Emit *e, LLVMValueRef from, LLVMValueRef n, int lanes) {
    Gen *g = e->g;
    LLVMTypeRef i32s = gen_vec(g->i32, lanes);
    LLVMValueRef first = LLVMBuildTrunc(g->b, from, g->i32, "");
    LLVMValueRef iota = LLVMBuildTrunc(g->b, gen_iota(g, lanes), i32s, "");
    LLVMValueRef lane = LLVMBuildAdd(g->b, gen_splat(g, first, lanes), iota, "");
    LLVMValueRef end = gen_min(g, gen_max(g, n, gen_i64(g, 0)), gen_i64(g, BLOCK_REACH));
    end = gen_splat(g, LLVMBuildTrunc(g->b, end, g->i32, ""), lanes);
    return LLVMBuildICmp(g->b, LLVMIntULT, lane, end, "");
}

/// lo <= j < hi as one unsigned comparison.
static LLVMValueRef is_axis_live(Emit *e, const Prepared *p, int d, const Place *at) {
    Gen *g = e->g;
    int axis = p->a.axis_of[d], lanes = axis == at->axis ? at->lanes : 0;
    if ((!p->lo[d] && !p->hi[d]) || unmasked_covers(e, p, d, at->at[axis])) return NULL;
    if (unmasked_kills(e, p, d, at->at[axis])) return LLVMConstInt(g->i1, 0, false);
    LLVMValueRef lo = p->lo[d] ? p->lo[d] : gen_i64(g, 0);
    LLVMValueRef hi = p->hi[d] ? p->hi[d] : gen_i64(g, p->a.subs[d].size);
    LLVMValueRef from = p->lo[d] ? build_sub(e, at->at[axis], lo) : at->at[axis];
    LLVMValueRef n = p->lo[d] ? build_sub(e, hi, lo) : hi;
    if (!lanes) return LLVMBuildICmp(g->b, LLVMIntULT, from, gen_max(g, n, gen_i64(g, 0)), "");
    // Without lo, `from` is a coordinate of the block, which fits 32 bits.
    if (p->lo[d]) from = gen_max(g, from, gen_i64(g, -BLOCK_REACH));
    return lanes_below(e, from, n, lanes);
}

/// Adds the picked dimensions to the address and to the mask.
static void add_picks(Emit *e, const Prepared *p, const Place *at, bool affine, Lanes *l) {
    Gen *g = e->g;
    if (p->a.pick_at < 0) return;
    Place q = pick_place(&p->a, at), first = q;
    first.axis = -1;
    first.lanes = first.live = 0;
    for (int d = 0; d < p->a.n_subs; d++) {
        if (p->a.subs[d].kind != DIM_PICK) continue;
        Value *v = sub_operand(p->op, &p->a, d, 0);
        LLVMValueRef index = index_at(e, v, affine ? &first : &q);
        LLVMValueRef stride = gen_splat(g, p->tensor->strides[d], gen_lanes(index));
        LLVMValueRef part =
            gen_lanes(index) ? LLVMBuildMul(g->b, index, stride, "") : gen_mul(g, index, stride);
        if (!gen_lanes(index))
            l->offset = gen_add(g, l->offset, part);
        else
            l->offsets = l->offsets ? LLVMBuildAdd(g->b, l->offsets, part, "") : part;
        if (!p->inside[d])
            l->live = gen_and(g, l->live, within_extent(e, index_at(e, v, &q), p->tensor->dims[d]));
    }
    if (p->a.mask) l->live = gen_and(g, l->live, access_mask(e, p, at));
}

/// Returns the distance of the lanes along the axis of a range, as an LLVM value.
static LLVMValueRef axis_step(Emit *e, const Prepared *p, int axis) {
    for (int d = 0; d < p->a.n_subs; d++)
        if (p->a.axis_of[d] == axis)
            return gen_mul(e->g, p->tensor->strides[d], gen_i64(e->g, p->a.subs[d].mul));
    return gen_i64(e->g, 0);
}

Lanes access_lanes(Emit *e, const Prepared *p, const Place *at) {
    Gen *g = e->g;
    Lanes l = {.offset = p->offset, .live = unmasked_covers(e, p, -1, NULL) ? NULL : p->live};
    l.step = at->lanes ? access_stride(p->op, at->axis) : 0;
    bool affine = l.step != DYNAMIC || !in_pick(&p->a, at->axis);
    for (int d = 0; d < p->a.n_subs; d++) {
        if (p->a.subs[d].kind != DIM_AXIS) continue;
        LLVMValueRef apart = gen_mul(g, p->tensor->strides[d], gen_i64(g, p->a.subs[d].mul));
        l.offset = gen_add(g, l.offset, gen_mul(g, at->at[p->a.axis_of[d]], apart));
        l.live = gen_and(g, l.live, is_axis_live(e, p, d, at));
    }
    add_picks(e, p, at, affine, &l);
    if (l.offsets)
        l.offsets = LLVMBuildAdd(g->b, gen_splat(g, l.offset, at->lanes), l.offsets, "");
    else if (l.step == DYNAMIC)
        l.apart = axis_step(e, p, at->axis);
    else if (l.step != 0 && l.step != 1)
        l.apart = gen_i64(g, l.step);
    if (at->live < at->lanes) l.live = gen_and(g, l.live, gen_first_lanes(g, at->live, at->lanes));
    return l;
}

LLVMValueRef access_offsets(Emit *e, const Lanes *l, int lanes) {
    Gen *g = e->g;
    if (l->offsets) return l->offsets;
    LLVMValueRef apart = gen_splat(g, l->apart ? l->apart : gen_i64(g, l->step), lanes);
    return LLVMBuildAdd(g->b, gen_splat(g, l->offset, lanes),
                        LLVMBuildMul(g->b, gen_iota(g, lanes), apart, ""), "");
}

static LLVMValueRef element_pointer(Emit *e, const Prepared *p, Elem elem, LLVMValueRef offset) {
    return LLVMBuildGEP2(e->g->b, gen_mem_elem(e->g, elem), p->tensor->data, &offset, 1, "");
}

/// Loads one element where the condition holds. Elsewhere it reads the arena, which always exists.
static LLVMValueRef load_if(Emit *e, const Prepared *p, LLVMTypeRef type, LLVMValueRef at,
                            unsigned alignment, LLVMValueRef live, LLVMValueRef pad) {
    if (live) at = LLVMBuildSelect(e->g->b, live, at, e->arena, "");
    LLVMValueRef x = memory_load(e, live ? -1 : p->tensor->id, type, at, alignment);
    return live ? LLVMBuildSelect(e->g->b, live, x, pad, "") : x;
}

static LLVMValueRef any_lane_live(Emit *e, LLVMValueRef live) {
    return live && gen_lanes(live) ? gen_call1(e->g, "llvm.vector.reduce.or", live) : live;
}

static LLVMValueRef bytes_apart(Emit *e, const Lanes *l, Elem elem) {
    return gen_mul(e->g, l->apart, gen_i64(e->g, elem_bytes(elem)));
}

/* ---- the ops ------------------------------------------------------------------------------- */

static LLVMValueRef load_access_vector(Emit *e, const Prepared *p, const Lanes *l,
                                       const Place *place, Elem elem, LLVMValueRef pad) {
    int lanes = place->lanes;
    Gen *g = e->g;
    LLVMTypeRef mem = gen_mem_elem(g, elem), type = gen_vec(mem, lanes);
    unsigned alignment = (unsigned)elem_bytes(elem);
    LLVMValueRef pads = gen_splat(g, pad, lanes);
    bool mask = l->live && gen_lanes(l->live);
    if (l->step == 0 && !l->offsets) {
        LLVMValueRef x = load_if(e, p, mem, element_pointer(e, p, elem, l->offset), alignment,
                                 any_lane_live(e, l->live), pad);
        return mask ? LLVMBuildSelect(g->b, l->live, gen_splat(g, x, lanes), pads, "") : x;
    }
    if (l->step != 1) {
        LLVMValueRef live = l->live ? gen_splat(g, l->live, lanes) : NULL;
        if (l->apart)
            return memory_gather_apart(e, p->tensor->id, mem, lanes,
                                       element_pointer(e, p, elem, l->offset),
                                       bytes_apart(e, l, elem), live, pads);
        LLVMValueRef at = element_pointer(e, p, elem, l->offsets);
        return memory_gather(e, p->tensor->id, mem, at, live, pads);
    }
    LLVMValueRef at = element_pointer(e, p, elem, l->offset);
    if (!l->live) streaming_prefetch(e, p, place->axis, lanes, at, alignment);
    if (!mask) return load_if(e, p, type, at, alignment, l->live, pads);
    return memory_load_masked(e, p->tensor->id, type, at, alignment, l->live, pads);
}

LLVMValueRef emit_load(Emit *e, const Op *op, const Place *at) {
    const Prepared *p = prepared_of(e, op);
    Elem elem = result(op, 0)->type->elem;
    LLVMValueRef pad = gen_to_memory(e->g, elem, emit_scalar(e, p->a.pad));
    Lanes l = access_lanes(e, p, at);
    if (e->cpu->check) check_access(e, p, at);
    if (elem_info[elem].bits == 4) return nibbles_load(e, p->tensor, &l, at->lanes, elem, pad);
    LLVMValueRef x = load_access_vector(e, p, &l, at, elem, pad);
    return gen_from_memory(e->g, elem, x);
}

LLVMValueRef emit_live(Emit *e, const Op *op, const Place *at) {
    Lanes l = access_lanes(e, prepared_of(e, op), at);
    return l.live ? l.live : LLVMConstInt(e->g->i1, 1, false);
}

static void store_scalar(Emit *e, const Prepared *p, const Lanes *l, Elem elem, LLVMValueRef x) {
    If i = {0};
    if (l->live) i = if_begin(e, l->live, "store");
    memory_store(e, p->tensor->id, x, element_pointer(e, p, elem, l->offset),
                 (unsigned)elem_bytes(elem));
    if (!l->live) return;
    if_else(e, &i);
    if_end(e, &i);
}

int picked_axis(const Op *op) {
    Access a = access_of(op);
    int last = a.n_subs - 1;
    if (last < 0 || a.pick_rank != 1 || a.subs[last].kind != DIM_PICK ||
        a.tensor->type->strides[last] != 1)
        return -1;
    return access_stride(op, a.pick_at) == DYNAMIC ? a.pick_at : -1;
}

LLVMValueRef lanes_beside(Emit *e, const Lanes *l, int lanes, LLVMValueRef *first) {
    Gen *g = e->g;
    LLVMValueRef offsets = access_offsets(e, l, lanes);
    *first = LLVMBuildExtractElement(g->b, offsets, LLVMConstInt(g->i32, 0, false), "");
    LLVMValueRef beside = LLVMBuildAdd(g->b, gen_splat(g, *first, lanes), gen_iota(g, lanes), "");
    return gen_call1(g, "llvm.vector.reduce.and",
                     LLVMBuildICmp(g->b, LLVMIntEQ, offsets, beside, ""));
}

/// Stores to lanes at any addresses. If the lanes may be adjacent, a test at run time comes first.
static void store_apart(Emit *e, const Prepared *p, const Lanes *l, const Place *at, Elem elem,
                        LLVMValueRef x) {
    Gen *g = e->g;
    LLVMValueRef all = gen_same(LLVMConstInt(g->i1, 1, false), at->lanes), first;
    LLVMValueRef live = l->live ? gen_splat(g, l->live, at->lanes) : NULL;
    bool maybe = picked_axis(p->op) == at->axis;
    If side = {0};
    if (maybe) {
        side = if_begin(e, lanes_beside(e, l, at->lanes, &first), "beside");
        memory_store_masked(e, p->tensor->id, x, element_pointer(e, p, elem, first),
                            (unsigned)elem_bytes(elem), live ? live : all);
        if_else(e, &side);
    }
    if (l->apart)
        memory_scatter_apart(e, p->tensor->id, x, element_pointer(e, p, elem, l->offset),
                             bytes_apart(e, l, elem), live);
    else
        memory_scatter(e, p->tensor->id, x,
                       element_pointer(e, p, elem, access_offsets(e, l, at->lanes)), live);
    if (maybe) if_end(e, &side);
}

/// Stores a word that other ranks wait for in one instruction.
static void store_signal_word(Emit *e, const void *arg, LLVMValueRef offset, LLVMValueRef live,
                              LLVMValueRef x) {
    const Prepared *p = arg;
    If i = {0};
    if (live) i = if_begin(e, live, "word");
    LLVMValueRef s = LLVMBuildStore(e->g->b, x, element_pointer(e, p, EL_I64, offset));
    LLVMSetOrdering(s, LLVMAtomicOrderingMonotonic);
    LLVMSetAlignment(s, (unsigned)elem_bytes(EL_I64));
    if (!live) return;
    if_else(e, &i);
    if_end(e, &i);
}

void store_each_lane(Emit *e, const Lanes *l, int lanes, LLVMValueRef x, LaneStore *store,
                     const void *arg) {
    Gen *g = e->g;
    LLVMValueRef offsets = access_offsets(e, l, lanes);
    for (int i = 0; i < lanes; i++) {
        LLVMValueRef n = gen_i64(g, i), live = l->live;
        if (live && gen_lanes(live)) live = LLVMBuildExtractElement(g->b, live, n, "");
        store(e, arg, LLVMBuildExtractElement(g->b, offsets, n, ""), live,
              LLVMBuildExtractElement(g->b, x, n, ""));
    }
}

void emit_store(Emit *e, const Op *op, const Place *at, LLVMValueRef x) {
    Gen *g = e->g;
    const Prepared *p = prepared_of(e, op);
    Elem elem = p->a.value->type->elem;
    x = gen_to_memory(g, elem, gen_splat(g, x, at->lanes));
    Lanes l = access_lanes(e, p, at);
    if (e->cpu->check) check_access(e, p, at);
    if (elem_info[elem].bits == 4) {
        nibbles_store(e, p->tensor, &l, at->lanes, x);
    } else if (op_flag(op, A_SYSTEM)) {
        if (at->lanes)
            store_each_lane(e, &l, at->lanes, x, store_signal_word, p);
        else
            store_signal_word(e, p, l.offset, l.live, x);
    } else if (!at->lanes) {
        store_scalar(e, p, &l, elem, x);
    } else if (l.step == 1) {
        LLVMValueRef to = element_pointer(e, p, elem, l.offset);
        unsigned alignment = (unsigned)elem_bytes(elem);
        if (l.live)
            memory_store_masked(e, p->tensor->id, x, to, alignment,
                                gen_splat(g, l.live, at->lanes));
        else if (e->streaming)
            memory_stream(e, p->tensor->id, x, to, (int)alignment * at->lanes, e->streaming);
        else
            memory_store(e, p->tensor->id, x, to, alignment);
    } else {
        store_apart(e, p, &l, at, elem, x);
    }
}
