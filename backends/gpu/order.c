// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Order of accesses to one tensor by the threads of a program.
//
// A tensor that is only read may be the very view of one that is written: then a program reads an
// element before it writes it (passes/alias.c), and a load waits for no store.
//
// An op stands for all threads of the program, so what follows it in the program comes after it in
// all of them. For tensors that the kernel writes, a barrier is needed before an access to what
// another thread may have written, or may still have to read. None is needed where each element is
// touched by one thread alone. For that all accesses must have one layout (without copies, if there
// are loads: one thread stores), and either each begins where a block of its size does, so that an
// element has its place in a block, or all have one subscript, and no two iterations of a loop
// around meet.
#include <string.h>

#include "backends/gpu/access.h"
#include "backends/gpu/divisor.h"

enum { WAS_READ = 1, WAS_WRITTEN = 2 };

/* ---- one thread an element ----------------------------------------------------------------- */

static bool is_index_of(const Value *v, const Op *loop) {
    return loop->code == OP_FOR && v == loop->regions[0]->args[0];
}

/// v grows with the index of the loop, one for one.
static bool moves_with(const Value *v, const Op *loop) {
    if (is_index_of(v, loop)) return true;
    const Op *op = v->def;
    if (!op || (op->code != OP_ADD && op->code != OP_SUB)) return false;
    const Value *x = operand(op, 0), *y = operand(op, 1);
    if (moves_with(x, loop) && !value_is_inside(y, loop)) return true;
    return op->code == OP_ADD && moves_with(y, loop) && !value_is_inside(x, loop);
}

/// Iterations of the loop go to different elements: along one axis each starts behind the last.
static bool iterations_apart(const Op *op, const Access *a, const Op *loop) {
    for (int d = 0; d < a->n_subs; d++) {
        const SubDim *s = &a->subs[d];
        int64_t reach = s->kind == DIM_AXIS ? s->size * s->mul : 1;
        if (s->kind == DIM_PICK || loop->code != OP_FOR) continue;
        bool far = op_int(loop, "step", 1) >= reach;
        if (far && moves_with(sub_operand(op, a, d, 0), loop)) return true;
    }
    return false;
}

static bool loops_apart(const Op *op, const Access *a, const Op *device) {
    for (const Op *up = op->parent->parent; up && up != device; up = up->parent->parent) {
        bool loop = up->code == OP_FOR || up->code == OP_WHILE;
        if (loop && !iterations_apart(op, a, up)) return false;
    }
    return true;
}

static const Layout *layout_of(const Op *op, const Access *a) {
    const Type *t = a->value ? a->value->type : result(op, 0)->type;
    return t->layout;
}

/// One layout, and the same axes of one size.
static bool same_places(const Op *x, const Access *a, const Op *y, const Access *b) {
    return op_attr(x, "subs") == op_attr(y, "subs") && layout_of(x, a) == layout_of(y, b);
}

static bool same_subscript(const Op *x, const Access *a, const Op *y, const Access *b) {
    for (int d = 0; d < a->n_subs; d++)
        if (sub_operand(x, a, d, 0) != sub_operand(y, b, d, 0)) return false;
    return true;
}

/// The access begins a multiple of its size from element 0 along each axis: then the coordinates of
/// an element along the axes say which thread has it.
static bool is_aligned(const Op *op, const Access *a) {
    for (int d = 0; d < a->n_subs; d++) {
        const SubDim *s = &a->subs[d];
        const Value *at = sub_operand(op, a, d, 0);
        if (s->kind != DIM_AXIS) continue;
        if (s->mul != 1 || gpu_divisor(at) % s->size) return false;
    }
    return true;
}

typedef struct Class {
    const GpuFn *f;
    int number;
    const Op *first; // the first access found
    bool alone, aligned, apart, copied, read, written;
} Class;

static void see_access(Op *op, void *arg) {
    Class *c = arg;
    if (!op_is_access(op) || op->code == OP_LIVE) return;
    Access a = access_of(op);
    if (gpu_tensor((GpuFn *)c->f, a.tensor)->class != c->number) return;
    const Layout *l = layout_of(op, &a);
    if (!c->first) c->first = op;
    Access b = access_of(c->first);
    c->written |= op_has(op, WRITES);
    c->read |= op->code != OP_STORE;
    c->copied |= !l || layout_owner(l);
    c->alone &= a.pick_at < 0 && op->code != OP_ATOMIC;
    c->alone = c->alone && same_places(op, &a, c->first, &b);
    c->aligned = c->aligned && is_aligned(op, &a);
    c->apart = c->apart && c->alone && same_subscript(op, &a, c->first, &b);
    c->apart = c->apart && loops_apart(op, &a, c->f->device);
}

/// Accesses of class `number` need no barriers. A scalar is stored by one thread and loaded by all.
static bool needs_no_order(const GpuFn *f, int number) {
    Class c = {.f = f, .number = number, .alone = true, .aligned = true, .apart = true};
    op_walk_pre((Op *)f->device, see_access, &c);
    bool one_thread = c.alone && !(c.copied && c.read) && (c.aligned || c.apart);
    return one_thread || !c.written;
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
    if (!gpu_tensor(f, operand(op, 0))->stored) against = 0; // read before written, if at all
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
    op_walk_pre((Op *)loop, see_in_loop, f);
}
