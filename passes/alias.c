// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// alias: marks pairs of kernel parameters that a launch may pass as one view.
//
//   parallel i { y[i] = f(x[i]) }   ->   kernel [in_place=[1, 0]]   (parameters written, read)
//
// The verdict must hold for the program as written: passes that merge equal loads, or hoist one out
// of a loop, assume that no store changes the loaded tensor. So `alias` comes first, and the
// interpreter uses it, too. `alias-kept` later proves the marked pairs again for the compiled code,
// since other passes may have changed it beyond this proof.
//
// Proof, for a store to y and a load of x with common loops and `parallel`s: for each of their
// indices, some dimension has the same subscript in both accesses, and the subscript differs for
// different values of the index. So different iterations access different elements, and within an
// iteration the load precedes the store.
#include "passes/alias.h"
#include "passes/passes.h"
#include "passes/util.h"

typedef VEC(Op *) OpList;

typedef struct Accesses {
    Ctx *ctx;
    const Value *tensor;
    OpList reads, writes;
    bool other; // it has atomics, combines or calls
} Accesses;

static void find_accesses(Op *op, void *arg) {
    Accesses *a = arg;
    bool names = false;
    for (int i = 0; i < op->n_operands; i++) names |= operand(op, i) == a->tensor;
    if (!names) return;
    if (op->code == OP_LOAD)
        vec_push(a->ctx, &a->reads, op);
    else if (op->code == OP_STORE)
        vec_push(a->ctx, &a->writes, op);
    else
        a->other |= op_has(op, READS) || op_has(op, WRITES);
}

// The budget of a walk over operands. Shared operands make the number of paths exponential. A walk
// that exhausts the budget proves nothing.
enum { MOST_VISITS = 1000 };

/// Whether v is the same in all iterations, although each computes it: no pass has hoisted it yet.
static bool is_loop_invariant(const Value *v, const Op *loop, int *left) {
    if (!value_is_inside(v, loop)) return true;
    if (--*left < 0 || !v->def || v->def->n_regions || !tree_is_pure(v->def)) return false;
    for (int i = 0; i < v->def->n_operands; i++)
        if (!is_loop_invariant(operand(v->def, i), loop, left)) return false;
    return true;
}

static bool moves_with_index(const Value *v, const Value *index, int *left) {
    if (v == index) return true;
    if (--*left < 0 || !v->def || (v->def->code != OP_ADD && v->def->code != OP_SUB)) return false;
    const Op *loop = index->region->parent;
    const Value *x = operand(v->def, 0), *y = operand(v->def, 1);
    return (moves_with_index(x, index, left) && is_loop_invariant(y, loop, left)) ||
           (v->def->code == OP_ADD && moves_with_index(y, index, left) &&
            is_loop_invariant(x, loop, left));
}

bool index_moves(const Value *v, const Value *index) {
    int left = MOST_VISITS;
    return moves_with_index(v, index, &left);
}

/// Whether a and b are equal, even if computed twice: no pass has merged them yet.
static bool same_value(const Value *a, const Value *b, int *left) {
    if (a == b) return true;
    const Op *x = a->def, *y = b->def;
    if (--*left < 0 || !x || !y || x->code != y->code || x->n_regions || !tree_is_pure(x) ||
        a->type != b->type || a->index != b->index || x->n_operands != y->n_operands ||
        x->n_attrs != y->n_attrs)
        return false;
    for (int i = 0; i < x->n_attrs; i++)
        if (x->attrs[i].id != y->attrs[i].id || x->attrs[i].value != y->attrs[i].value)
            return false;
    for (int i = 0; i < x->n_operands; i++)
        if (!same_value(operand(x, i), operand(y, i), left)) return false;
    return true;
}

static bool same_index(const Value *a, const Value *b) {
    int left = MOST_VISITS;
    return same_value(a, b, &left);
}

/// Whether some dimension has the same subscript in both accesses, and different values of index
/// give different elements.
static bool told_apart(const Op *load, const Op *store, const Value *index, int64_t step) {
    Access l = access_of(load), s = access_of(store);
    for (int d = 0; d < l.n_subs && d < s.n_subs; d++) {
        const SubDim *p = &l.subs[d], *q = &s.subs[d];
        Value *base = sub_operand(load, &l, d, 0);
        if (p->kind == DIM_PICK || p->kind != q->kind || !index_moves(base, index) ||
            !same_index(base, sub_operand(store, &s, d, 0)))
            continue;
        bool same = p->kind == DIM_AT ||
                    (p->size == q->size && p->mul == q->mul && p->size * p->mul <= step);
        if (same) return true;
    }
    return false;
}

/// Returns the op of region r that holds op, or op itself.
static const Op *enclosing_op_in(const Op *op, const Region *r) {
    while (op && op->parent != r) op = op->parent ? op->parent->parent : NULL;
    return op;
}

/// Whether an element that the load reads is only written by the same program, and later, or in the
/// other arm of an `if`.
static bool reads_before(const Op *load, const Op *store) {
    const Region *common = store->parent;
    while (common && !enclosing_op_in(load, common)) common = common->parent->parent;
    const Op *first = enclosing_op_in(load, common), *then = enclosing_op_in(store, common);
    bool other_arm = first == then && first->code == OP_IF;
    if (!other_arm && (first == then || !op_before(first, then))) return false;
    for (const Op *op = common->parent; op->code != OP_KERNEL; op = op->parent->parent) {
        int64_t step = op_int(op, A_STEP, 1);
        bool repeats = op->code == OP_FOR || (op->code == OP_PARALLEL && step > 0);
        if (op->code == OP_WHILE ||
            (repeats && !told_apart(load, store, op->regions[0]->args[0], step)))
            return false;
    }
    return true;
}

static Accesses accesses_of(Ctx *ctx, Op *kernel, const Value *tensor) {
    Accesses a = {.ctx = ctx, .tensor = tensor};
    op_walk_pre(kernel, find_accesses, &a);
    return a;
}

/// Whether a launch may pass one view for both: each program reads an element before it writes it,
/// and no other program writes it.
static bool may_be_in_place(const Accesses *to, const Accesses *from) {
    const Value *written = to->tensor, *read = from->tensor;
    if (written == read || written->type->elem != read->type->elem ||
        written->type->rank != read->type->rank)
        return false;
    if (value_is_sym(written) || value_is_sym(read)) return false; // other ranks access it, too
    if (to->other || from->other || from->writes.n) return false;
    for (int i = 0; i < from->reads.n; i++)
        for (int j = 0; j < to->writes.n; j++)
            if (!reads_before(from->reads.data[i], to->writes.data[j])) return false;
    return true;
}

static bool is_marked(const Attr *pairs, int64_t to, int64_t from) {
    for (int i = 0; pairs && i + 1 < pairs->n; i += 2)
        if (pairs->ints[i] == to && pairs->ints[i + 1] == from) return true;
    return false;
}

/// Marks the proved pairs. kept: confirms only pairs that are already marked; a pair without a
/// store in the code stays marked.
static void mark_pairs(PassEnv *env, Op *kernel, bool kept) {
    Ctx *ctx = ir_ctx(env->ir);
    Region *body = kernel->regions[0];
    const Attr *marked = op_ints(kernel, A_IN_PLACE);
    VEC(int64_t) pairs = {0};
    Accesses *of = ctx_array(ctx, Accesses, body->n_args);
    for (int i = 0; i < body->n_args; i++) of[i] = accesses_of(ctx, kernel, body->args[i]);
    for (int w = 0; w < body->n_args; w++)
        for (int r = 0; r < body->n_args; r++) {
            const Value *to = body->args[w], *from = body->args[r];
            if (to->type->kind != TK_TENSOR || from->type->kind != TK_TENSOR ||
                (kept ? !is_marked(marked, w, r) : !of[w].writes.n) ||
                !may_be_in_place(&of[w], &of[r]))
                continue;
            vec_push(ctx, &pairs, w);
            vec_push(ctx, &pairs, r);
        }
    op_set_ints(env->ir, kernel, A_IN_PLACE, pairs.data, pairs.n);
}

void pass_alias(PassEnv *env, Op *module) {
    for_each_kernel(k, module) mark_pairs(env, k, false);
}

void pass_alias_kept(PassEnv *env, Op *module) {
    for_each_kernel(k, module) mark_pairs(env, k, true);
}
