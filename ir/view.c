// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Views of particular ops: subscripts, folds of regions, kernels by name.
//
// Accesses are decoded on demand and never stored, so a view always describes the current op.
#include "ir/ir_private.h"

#include <string.h>

/* ---- subscripts ---------------------------------------------------------------------------- */

bool op_is_access(const Op *op) {
    switch (op->code) {
    case OP_LOAD:
    case OP_LIVE:
    case OP_STORE:
    case OP_ATOMIC:
    case OP_COPY_ASYNC:
    case OP_COMBINE: return true;
    default: return false;
    }
}

/// Returns the number of operands in front of the subscript; sets pad and value.
static int read_head(const Op *op, Access *a) {
    switch (op->code) {
    case OP_LOAD: a->pad = operand(op, 1); return 2;
    case OP_COPY_ASYNC:
    case OP_STORE: a->value = operand(op, 1); return 2;
    case OP_ATOMIC: a->value = operand(op, 1); return op_update(op) == UPDATE_CAS ? 3 : 2;
    case OP_COMBINE: {
        int n = (int)op_int(op, A_N_TENSORS, 1);
        a->value = operand(op, n);
        return 2 * n;
    }
    default: return 1;
    }
}

/// Counts beyond MAX_RANK too, so that the verifier can report the number.
static void add_access_axis(Access *a, int64_t extent) {
    if (a->rank < MAX_RANK) a->extents[a->rank] = extent;
    a->rank++;
}

/// The first pick adds the joint shape of all picks to the block; later picks add nothing.
static void add_pick(Access *a, const Type *pick) {
    if (a->pick_at >= 0) return;
    a->pick_at = a->rank;
    a->pick_rank = pick->rank;
    for (int i = 0; i < pick->rank; i++) {
        a->pick_extents[i] = pick->extents[i];
        add_access_axis(a, pick->extents[i]);
    }
}

Access access_of(const Op *op) {
    const Attr *subs = op_subs(op, A_SUBS);
    Access a = {.tensor = operand(op, 0), .n_subs = subs->n, .subs = subs->subs, .pick_at = -1};
    int next = read_head(op, &a);
    for (int d = 0; d < a.n_subs && d < MAX_RANK; d++) {
        const SubDim *sub = &a.subs[d];
        bool axis = sub->kind == DIM_AXIS;
        a.first[d] = next;
        a.axis_of[d] = axis ? a.rank : -1;
        if (axis)
            add_access_axis(&a, sub->size);
        else if (sub->kind == DIM_PICK)
            add_pick(&a, operand(op, next)->type);
        next += axis ? 2 : 1;
    }
    if (next < op->n_operands) a.mask = operand(op, next);
    return a;
}

/* ---- regions and kernels ------------------------------------------------------------------- */

/// Whether the op is associative, and every executor knows its identity.
static bool is_monoid(OpCode code) {
    switch (code) {
    case OP_ADD:
    case OP_MUL:
    case OP_MIN:
    case OP_MAX:
    case OP_AND:
    case OP_OR:
    case OP_XOR: return true;
    default: return false;
    }
}

/// The whole region must be the one op, since any other op might do more than fold.
OpCode region_monoid(const Region *r) {
    const Op *op = r->first;
    if (r->n_args != 2 || !op || !is_monoid(op->code) || op->next != r->last) return OP_COUNT;
    const Op *end = r->last;
    if (end->n_operands != 1 || operand(end, 0) != result(op, 0)) return OP_COUNT;
    const Value *x = operand(op, 0), *y = operand(op, 1);
    bool straight = x == r->args[0] && y == r->args[1];
    bool swapped = x == r->args[1] && y == r->args[0];
    return straight || swapped ? op->code : OP_COUNT;
}

bool ring_is_tma(const Value *ring) {
    return op_filler(ring->def) == FILLER_TMA;
}

bool value_is_sym(const Value *v) {
    if (v->def) return v->def->code == OP_COMM_SIGNALS || op_flag(v->def, A_SYMMETRIC);
    const Attr *sym = v->region->parent->code == OP_KERNEL
                          ? op_ints(v->region->parent, A_SYMMETRIC_PARAMS)
                          : NULL;
    for (int i = 0; sym && i < sym->n; i++)
        if (sym->ints[i] == v->index) return true;
    return false;
}

/// Finds the op of this code and name in the module; with a NULL name, the only op of the code.
static Op *find_named_op(const Op *module, OpCode code, const char *name) {
    Op *found = NULL;
    for_each_op(op, module->regions[0]) {
        if (op->code != code) continue;
        const char *its = op_str(op, A_NAME);
        if (name && its && strcmp(its, name) == 0) return op;
        if (!name && found) return NULL;
        found = op;
    }
    return name ? NULL : found;
}

Op *find_kernel(const Op *module, const char *name) {
    return find_named_op(module, OP_KERNEL, name);
}

Op *find_func(const Op *module, const char *name) {
    return find_named_op(module, OP_FUNC, name);
}

Op *find_device(const Op *module, const char *name) {
    return find_named_op(module, OP_DEVICE, name);
}
