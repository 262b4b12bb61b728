// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Orders accesses to one tensor by the threads of a program.
//
// A launch may pass one view as a tensor that is only read and as one that is written. A program
// then reads an element before it writes it (passes/alias.c), so a load waits for no store.
//
// An op covers all threads of the program, so a later op follows it in all of them. For tensors
// that the kernel writes, an access needs a barrier if another thread may have written its
// elements, or may still have to read them.
//
// An access needs no barrier if only one thread accesses each element. This is so under two
// conditions. First, all accesses have one layout. If some are loads, it has no copies, since one
// thread stores. Second, either each access begins at a multiple of its size, so that an element
// has a fixed place in a block, or all accesses have one subscript, and no two iterations of a
// surrounding loop access the same element.
//
// Two accesses outside of loops also need no barrier if they share no element: along some axis one
// ends before the other starts, or their elements alternate. The loop over programs does not count
// as a loop here, because programs have no order, so none may access elements that another one
// writes.
#include <string.h>

#include "backends/gpu/access.h"
#include "backends/gpu/divisor.h"

enum { WAS_READ = 1, WAS_WRITTEN = 2 };

/* ---- one thread an element ----------------------------------------------------------------- */

static bool is_index_of(const Value *v, const Op *loop) {
    return loop->code == OP_FOR && v == loop->regions[0]->args[0];
}

/// Whether v grows by one whenever the index of the loop does.
static bool moves_with(const Value *v, const Op *loop) {
    if (is_index_of(v, loop)) return true;
    const Op *op = v->def;
    if (!op || (op->code != OP_ADD && op->code != OP_SUB)) return false;
    const Value *x = operand(op, 0), *y = operand(op, 1);
    if (moves_with(x, loop) && !value_is_inside(y, loop)) return true;
    return op->code == OP_ADD && moves_with(y, loop) && !value_is_inside(x, loop);
}

/// Whether iterations of the loop access different elements: along one axis each starts after the
/// previous one.
static bool iterations_apart(const Op *op, const Access *a, const Op *loop) {
    for (int d = 0; d < a->n_subs; d++) {
        const SubDim *s = &a->subs[d];
        int64_t reach = s->kind == DIM_AXIS ? s->size * s->mul : 1;
        if (s->kind == DIM_PICK || loop->code != OP_FOR) continue;
        bool far = op_int(loop, A_STEP, 1) >= reach;
        if (far && moves_with(sub_operand(op, a, d, 0), loop)) return true;
    }
    return false;
}

static bool is_loop(const Op *op) {
    return (op->code == OP_FOR || op->code == OP_WHILE) && !op_flag(op, A_PROGRAM_LOOP);
}

static bool loops_apart(const Op *op, const Access *a, const Op *device) {
    for (const Op *up = op->parent->parent; up && up != device; up = up->parent->parent)
        if (is_loop(up) && !iterations_apart(op, a, up)) return false;
    return true;
}

static bool is_in_device_loop(const Op *op, const Op *device) {
    for (op = op->parent->parent; op && op != device; op = op->parent->parent)
        if (is_loop(op)) return true;
    return false;
}

static const Layout *ordered_layout(const Op *op, const Access *a) {
    const Type *t = a->value ? a->value->type : result(op, 0)->type;
    return t->layout;
}

/// Whether both have one layout, and the same axes of one size.
static bool is_same_places(const Op *x, const Access *a, const Op *y, const Access *b) {
    return op_subs(x, A_SUBS) == op_subs(y, A_SUBS) && ordered_layout(x, a) == ordered_layout(y, b);
}

static bool same_subscript(const Op *x, const Access *a, const Op *y, const Access *b) {
    for (int d = 0; d < a->n_subs; d++)
        if (sub_operand(x, a, d, 0) != sub_operand(y, b, d, 0)) return false;
    return true;
}

/// Whether the access begins at a multiple of its size from element 0 along each axis. The
/// coordinates of an element along the axes then determine its thread.
static bool is_access_aligned(const Op *op, const Access *a) {
    for (int d = 0; d < a->n_subs; d++) {
        const SubDim *s = &a->subs[d];
        const Value *at = sub_operand(op, a, d, 0);
        if (s->kind != DIM_AXIS) continue;
        if (s->mul != 1 || gpu_divisor(at) % s->size) return false;
    }
    return true;
}

/// Whether a single thread accesses each element: it stores, or it loads and no other thread has a
/// copy.
static bool one_thread(const Op *x, const Access *a, const Op *y, const Access *b,
                       const Op *device) {
    const Layout *l = ordered_layout(x, a);
    bool copied = !l || layout_owner(l), loads = x->code != OP_STORE || y->code != OP_STORE;
    if (!is_same_places(x, a, y, b) || a->pick_at >= 0 || b->pick_at >= 0 || (copied && loads))
        return false;
    if (x->code == OP_ATOMIC || y->code == OP_ATOMIC) return false;
    return (is_access_aligned(x, a) && is_access_aligned(y, b)) ||
           (same_subscript(x, a, y, b) && loops_apart(x, a, device) && loops_apart(y, b, device));
}

/* ---- accesses that never meet -------------------------------------------------------------- */

/// Returns the term that is added to x to make v, or NULL.
static const Value *added_to(const Value *x, const Value *v) {
    const Op *op = def_of((Value *)v, OP_ADD);
    if (!op) return NULL;
    return operand(op, 0) == x ? operand(op, 1) : operand(op, 1) == x ? operand(op, 0) : NULL;
}

/// Computes the distance from x to y.
static bool value_distance(const Value *x, const Value *y, int64_t *n) {
    int64_t m;
    const Value *more = added_to(x, y), *less = added_to(y, x);
    if (more && const_int(more, n)) return true;
    if (less && const_int(less, &m)) return *n = -m, true;
    if (!const_int(x, &m) || !const_int(y, n)) return false;
    return *n -= m, true;
}

/// count <= end - start
static bool counts_up_to(const Value *count, const Value *end, const Value *start) {
    const Op *op = count->def;
    if (op && op->code == OP_MIN)
        return counts_up_to(operand(op, 0), end, start) || counts_up_to(operand(op, 1), end, start);
    return op && op->code == OP_SUB && operand(op, 0) == end && operand(op, 1) == start;
}

/// Whether x ends, along axis d, before y starts. If y starts D after x's start, x must have at
/// most D elements. The start of x is inside the tensor if x accesses any element.
static bool ends_before(const Op *x, const Access *a, const Op *y, const Access *b, int d) {
    const Value *start = sub_operand(x, a, d, 0);
    const Value *end = added_to(start, sub_operand(y, b, d, 0));
    const Attr *inside = op_ints(x, A_IN_BOUNDS);
    return end && inside && inside->ints[d] && counts_up_to(sub_operand(x, a, d, 1), end, start);
}

static bool axes_apart(const Op *x, const Access *a, const Op *y, const Access *b, int d) {
    const SubDim *p = &a->subs[d], *q = &b->subs[d];
    int64_t n, mul = p->mul;
    bool known = value_distance(sub_operand(x, a, d, 0), sub_operand(y, b, d, 0), &n);
    if (p->kind != q->kind || p->kind == DIM_PICK) return false;
    if (p->kind == DIM_AT) return known && n;
    if (q->mul != mul || mul < 1) return false;
    if (known && (n % mul || n >= p->size * mul || -n >= q->size * mul)) return true;
    return mul == 1 && (ends_before(x, a, y, b, d) || ends_before(y, b, x, a, d));
}

/// Whether x and y share no element within one program.
static bool never_meet(const Op *x, const Access *a, const Op *y, const Access *b,
                       const Op *device) {
    if (is_in_device_loop(x, device) || is_in_device_loop(y, device)) return false;
    for (int d = 0; d < a->n_subs; d++)
        if (axes_apart(x, a, y, b, d)) return true;
    return false;
}

/* ---- classes ------------------------------------------------------------------------------- */

typedef struct Class {
    const GpuFn *f;
    int number;
    VEC(const Op *) accesses;
} Class;

static void see_class_access(Op *op, void *arg) {
    Class *c = arg;
    if (!op_is_access(op) || op->code == OP_LIVE) return;
    if (gpu_tensor((GpuFn *)c->f, access_of(op).tensor)->class == c->number)
        vec_push(c->f->ctx, &c->accesses, op);
}

static bool pair_needs_order(const Class *c, const Op *x, const Op *y) {
    if (!op_has(x, WRITES) && !op_has(y, WRITES)) return false;
    Access a = access_of(x), b = access_of(y);
    return !one_thread(x, &a, y, &b, c->f->device) && !never_meet(x, &a, y, &b, c->f->device);
}

/// Whether accesses of class `number` need no barriers. One thread stores a scalar and all threads
/// load it.
static bool needs_no_order(const GpuFn *f, int number) {
    Class c = {.f = f, .number = number};
    op_walk_pre((Op *)f->device, see_class_access, &c);
    for (int i = 0; i < c.accesses.n; i++)
        for (int k = i; k < c.accesses.n; k++)
            if (pair_needs_order(&c, c.accesses.data[i], c.accesses.data[k])) return false;
    return true;
}

/* ---- barriers ------------------------------------------------------------------------------ */

void gpu_order_begin(GpuFn *f) {
    f->order = ctx_array(f->ctx, GpuOrder, f->n_classes + 1);
    for (int i = 0; i < f->n_classes; i++) f->order[i].free = needs_no_order(f, i);
}

void gpu_order_access(GpuFn *f, const Op *op) {
    GpuOrder *o = &f->order[gpu_tensor(f, operand(op, 0))->class];
    bool writes = op_has(op, WRITES);
    int against = writes ? WAS_READ | WAS_WRITTEN : WAS_WRITTEN;
    if (o->free) return;
    if (!gpu_tensor(f, operand(op, 0))->stored)
        against = 0; // if it is a view of a written tensor, it is read before the write
    if (o->since & against) gpu_program_barrier(f);
    o->since |= writes ? WAS_READ | WAS_WRITTEN : WAS_READ;
}

bool gpu_order_is_free(const GpuFn *f, const GpuTensor *t) {
    return f->order[t->class].free;
}

void gpu_order_forget(GpuFn *f) {
    for (int i = 0; i < f->n_classes; i++) f->order[i].since = 0;
}

static void see_in_loop(Op *op, void *arg) {
    GpuFn *f = arg;
    if (!op_is_access(op) || op->code == OP_LIVE) return;
    GpuOrder *o = &f->order[gpu_tensor(f, operand(op, 0))->class];
    o->since |= op_has(op, WRITES) ? WAS_READ | WAS_WRITTEN : WAS_READ;
}

void gpu_order_again(GpuFn *f, const Op *loop) {
    if (op_flag(loop, A_PROGRAM_LOOP)) return;
    op_walk_pre((Op *)loop, see_in_loop, f);
}
