// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Packing what is read at blocks of coordinates, as the windows of a convolution are.
//
//   x[b, c, p + r, q + s]     b, p, q: blocks along the rows; c: a range along k
//
// Where the rows stand in memory is the same for all of k but for one step, and nearly always they
// stand side by side: only where a vector spans two lines of the image may they not. So vectors run
// along the rows, k inside, and one comparison a vector decides between plain loads and gathers.
#include "backends/cpu/contract.h"
#include "backends/cpu/emit.h"

/// The load that the operand is, perhaps permuted, with the operand's axes in its terms.
static Op *load_of(Emit *e, const Operand *x, int *outer, int *depth) {
    Value *v = x->v;
    *outer = x->outer, *depth = x->depth;
    for (;;) {
        Op *op = v->def;
        if (!op || bound_buffer(e, v)) return NULL;
        if (op->code == OP_LOAD) return op;
        if (op->code != OP_PERMUTE) return NULL;
        const Attr *perm = op_attr(op, "perm");
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

/// The vector for all of k.
typedef struct Picked {
    const Prepared *from;
    int outer, depth; // axes of the load
    Place at;         // of the vector where k = 0
} Picked;

/// Elements from one k to the next.
static LLVMValueRef depth_step(Emit *e, const Picked *k) {
    const Prepared *p = k->from;
    for (int d = 0; d < p->a.n_subs; d++)
        if (p->a.subs[d].kind == DIM_AXIS && p->a.axis_of[d] == k->depth)
            return gen_mul(e->g, p->tensor->strides[d], gen_i64(e->g, p->a.subs[d].mul));
    return gen_i64(e->g, 0);
}

/// The lanes at `depth`, read as one vector from `offset` on.
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

/// One branch: the units of the vector in a loop, by plain loads from `first` on, or as they come
/// where first is NULL.
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
