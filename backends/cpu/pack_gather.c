// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Packs operands that are read at blocks of coordinates, for instance the windows of a convolution.
//
//   x[b, c, p + r, q + s]     b, p, q: blocks along the rows; c: a range along k
//
// The addresses of the rows are the same for all of k, except for one step. They are nearly always
// adjacent; only a vector that spans two lines of the image may not be. So vectors run along the
// rows with k inside, and one comparison a vector selects plain loads or gathers.
#include "backends/cpu/contract.h"
#include "backends/cpu/emit.h"

/// Returns the load that the operand is, perhaps permuted, and the operand's axes as axes of the
/// load.
static Op *load_of(Emit *e, const Operand *x, int *outer, int *depth) {
    Value *v = x->v;
    *outer = x->outer, *depth = x->depth;
    for (;;) {
        Op *op = v->def;
        if (!op || bound_buffer(e, v)) return NULL;
        if (op->code == OP_LOAD) return op;
        if (op->code != OP_PERMUTE) return NULL;
        const Attr *perm = op_ints(op, A_PERM);
        *outer = (int)perm->ints[*outer], *depth = (int)perm->ints[*depth];
        v = operand(op, 0);
    }
}

static bool picks_axis(const Access *a, int axis) {
    return a->pick_at >= 0 && axis >= a->pick_at && axis < a->pick_at + a->pick_rank;
}

bool operand_is_picked(Emit *e, const Operand *x) {
    int outer, depth;
    const Op *load = load_of(e, x, &outer, &depth);
    if (!load || elem_info[value_elem(result(load, 0))].bits < 8 || e->cpu->check) return false;
    Access a = access_of(load);
    return picked_axis(load) == outer && !picks_axis(&a, depth);
}

/* ---- one vector of rows -------------------------------------------------------------------- */

/// A vector of rows, for all of k.
typedef struct Picked {
    const Prepared *from;
    int outer, depth; // axes of the load
    Place at;         // the vector at k = 0
} Picked;

/// Returns the elements from one k to the next.
static LLVMValueRef depth_step(Emit *e, const Picked *k) {
    const Prepared *p = k->from;
    for (int d = 0; d < p->a.n_subs; d++)
        if (p->a.subs[d].kind == DIM_AXIS && p->a.axis_of[d] == k->depth)
            return gen_mul(e->g, p->tensor->strides[d], gen_i64(e->g, p->a.subs[d].mul));
    return gen_i64(e->g, 0);
}

/// Loads the lanes at `depth` as one vector from `offset` on.
static LLVMValueRef plain_load(Emit *e, const Picked *k, LLVMValueRef offset, LLVMValueRef depth) {
    const Gen *g = e->g;
    const Prepared *p = k->from;
    Elem elem = value_elem(result(p->op, 0));
    LLVMTypeRef mem = gen_mem_elem(g, elem), type = gen_vec(mem, k->at.lanes);
    Place at = k->at;
    at.at[k->depth] = depth;
    LLVMValueRef live = access_lanes(e, p, &at).live;
    LLVMValueRef from = LLVMBuildGEP2(g->b, mem, p->tensor->data, &offset, 1, "");
    unsigned alignment = (unsigned)elem_bytes(elem);
    if (!live) return memory_load(e, p->tensor->id, type, from, alignment);
    LLVMValueRef pad = gen_splat(g, gen_to_memory(g, elem, emit_scalar(e, p->a.pad)), at.lanes);
    return memory_load_masked(e, p->tensor->id, type, from, alignment, gen_splat(g, live, at.lanes),
                              pad);
}

/// Emits one branch: a loop over the units of the vector. It uses plain loads from `first` on, or
/// gathers if `first` is NULL.
static void units_loop(Emit *e, const Operand *x, const Picked *k, LLVMValueRef first, int unit,
                       PickedBody *body, void *arg) {
    const Gen *g = e->g;
    Elem elem = value_elem(x->v);
    LLVMValueRef v[MAX_UNIT], at = k->at.at[k->outer];
    LLVMValueRef units = gen_i64(g, x->v->type->extents[x->depth] / unit);
    Loop *l = loop_begin(e, gen_i64(g, 0), units, 1, "k");
    for (int i = 0; i < unit; i++) {
        LLVMValueRef depth = gen_mul(g, l->iv, gen_i64(g, unit));
        depth = gen_add(g, depth, gen_i64(g, i));
        Place p = {.rank = 2, .axis = x->outer, .lanes = k->at.lanes, .live = k->at.live};
        p.at[x->outer] = at;
        p.at[x->depth] = depth;
        if (!first) {
            v[i] = emit_unmasked(e, x->v, &p);
            continue;
        }
        LLVMValueRef offset = gen_add(g, first, gen_mul(g, depth, depth_step(e, k)));
        v[i] = gen_from_memory(g, elem, plain_load(e, k, offset, depth));
    }
    body(e, arg, at, l->iv, v);
    loop_end(e, l, NULL);
}

void for_picked(Emit *e, const Operand *x, LLVMValueRef at, int lanes, int live, int unit,
                PickedBody *body, void *arg) {
    Picked k = {.at = {.rank = 2, .lanes = lanes, .live = live}};
    k.from = prepared_of(e, load_of(e, x, &k.outer, &k.depth));
    k.at.axis = k.outer;
    k.at.at[k.outer] = at;
    k.at.at[k.depth] = gen_i64(e->g, 0);
    LLVMValueRef first;
    Lanes lane = access_lanes(e, k.from, &k.at);
    If side = if_begin(e, lanes_beside(e, &lane, lanes, &first), "beside");
    units_loop(e, x, &k, first, unit, body, arg);
    if_else(e, &side);
    units_loop(e, x, &k, NULL, unit, body, arg);
    if_end(e, &side);
}
