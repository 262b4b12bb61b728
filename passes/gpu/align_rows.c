// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// align-rows: copies operands of products whose rows start at odd places into aligned rows first
// (`align_rows=1`).
//
//   parallel m, n { for k { dot(a[m, k], b[k, n]) } }                    rows of b: 4093 elements
//   -> %copy = scratch %K, %padded                                       rows: 4096 elements
//      parallel k, n { store %copy[k, n], b[k, n] }
//      parallel m, n { for k { dot(a[m, k], %copy[k, n]) } }
//
// TMA and cp.async copy 16 bytes at a time from multiples of 16 bytes. Otherwise threads load each
// element through registers, in each of the many programs that read it. Rows of the copy are padded
// to lines of 128 bytes. The padding holds zeros, as dead lanes of the loads do, so products have
// the same bits.
//
// An operand qualifies if a loop reads it as a block of two axes along the dimension of stride 1,
// and the kernel never writes the tensor: the copy shows its content before the phase. A branch
// keeps the phase as it was, for launches whose copies would exceed the limit of workspaces.
//
// A tensor that a launch in place writes by another name (`in_place`) may be copied, too: programs
// read its elements before any of them writes them. `alias-kept` does not see that, so it runs
// earlier.
#include "passes/gpu/gpu.h"
#include "passes/grid.h"
#include "passes/model.h"
#include "passes/passes.h"
#include "passes/range/range.h"
#include "passes/util.h"

#include <math.h>

enum { LINE_BYTES = 128 };

/* ---- judging ------------------------------------------------------------------------------- */

/// Whether `async` may copy operands of the product: it has a matrix unit that takes them as they
/// are. Products in three parts compute theirs in registers.
static bool takes_copies(const GpuTarget *t, const Op *dot) {
    return !gpu_in_three(op_precision(dot)) &&
           gpu_unit_for(t, operand(dot, 0)->type, operand(dot, 1)->type, op_precision(dot));
}

/// Whether v only feeds operands of products that take copies.
static bool feeds_products(const GpuTarget *t, const Value *v) {
    for_each_use(u, v) {
        const Op *user = u->user;
        bool on = user->code == OP_PERMUTE && feeds_products(t, result(user, 0));
        if (!on && !(user->code == OP_DOT && u->index < 2 && takes_copies(t, user))) return false;
    }
    return v->uses != NULL;
}

/// Whether copies may have the shape of the block: rows that fill panels, in groups of eight.
static bool fills_panels(const GpuTarget *t, const Access *a, int along) {
    enum { LEAST_PANEL = 32, GROUP = 8 };
    int axis = a->axis_of[along];
    int64_t row = a->extents[axis] * (elem_info[a->tensor->type->elem].bits / 8);
    return gpu_panel_bytes(row, gpu_has(t, GPU_TMA)) >= LEAST_PANEL &&
           a->extents[!axis] % GROUP == 0;
}

static bool pad_is_zero(const Op *load) {
    const Attr *pad = const_of(operand(load, 1));
    return pad && (pad->kind == AT_FLOAT ? pad->f == 0 && !__builtin_signbit(pad->f) : pad->i == 0);
}

/// Whether the host repeats the phase, with copies each time.
static bool is_repeated(const Op *op) {
    const Op *phase = op;
    for (const Op *p = op; (p = op_enclosing(p, OP_PARALLEL));) phase = p;
    return op_enclosing(phase, OP_FOR) || op_enclosing(phase, OP_WHILE);
}

/// Whether the kernel never writes the parameter, and no other rank does.
static bool is_only_read(const Value *tensor, const Op *kernel) {
    return !tensor->def && tensor->region == kernel->regions[0] &&
           !op_ints(kernel, A_SYMMETRIC_PARAMS) && !tree_writes(kernel, tensor);
}

enum { PART_BUDGET = 1000 }; // maximum number of values to visit

/// Whether a loaded number decides v.
static bool rests_on_load(const Value *v, int *budget) {
    const Op *op = v->def;
    if (--*budget < 0) return true;
    if (!op) { // the bounds of its own loop are looked at by the caller
        const Op *of = v->region->parent;
        if (of->code == OP_KERNEL) return false;
        if (of->code == OP_FOR && v->index > 0) return true;
        return (of->code == OP_FOR || of->code == OP_PARALLEL) &&
               rests_on_load(operand(of, 0), budget);
    }
    if (op->code == OP_LOAD || op->n_regions) return true;
    for (int i = 0; i < op->n_operands; i++)
        if (op->code != OP_DIM && rests_on_load(operand(op, i), budget)) return true;
    return false;
}

bool gpu_reads_loaded_part(const Op *op) {
    Access a = access_of(op);
    int budget = PART_BUDGET;
    for (int d = 0; d < a.n_subs; d++)
        if (a.subs[d].kind == DIM_AT && rests_on_load(sub_operand(op, &a, d, 0), &budget))
            return true;
    for (const Op *p = op->parent->parent; p->code != OP_KERNEL; p = p->parent->parent) {
        bool bounds = p->code == OP_FOR || p->code == OP_PARALLEL;
        if (p->code == OP_WHILE) return true;
        for (int i = 0; bounds && i < 2; i++)
            if (rests_on_load(operand(p, i), &budget)) return true;
        if (p->code == OP_IF && rests_on_load(operand(p, 0), &budget)) return true;
    }
    return false;
}

int gpu_row_to_align(const GpuTarget *target, const Op *op) {
    if (op->code != OP_LOAD || !gpu_has_any(target, GPU_CP_ASYNC | GPU_TMA)) return -1;
    if (!feeds_products(target, result(op, 0)) || !pad_is_zero(op)) return -1;
    Access a = access_of(op);
    const Type *t = a.tensor->type;
    const Op *loop = op_enclosing(op, OP_FOR), *phase = op_enclosing(op, OP_PARALLEL);
    int along = -1;
    if (a.rank != 2 || a.pick_at >= 0 || a.mask || elem_info[t->elem].bits < 8) return -1;
    for (int d = 0; d < a.n_subs; d++) {
        if (a.subs[d].kind == DIM_AXIS && a.subs[d].mul != 1) return -1;
        if (t->strides[d] == 1 && a.subs[d].kind == DIM_AXIS) along = d;
        if (t->strides[d] == 0) return -1; // the copy would repeat elements
    }
    if (along < 0 || !fills_panels(target, &a, along)) return -1;
    if (!loop || !phase || op_enclosing(loop, OP_PARALLEL) != phase) return -1;
    if (is_repeated(phase)) return -1;
    if (!is_only_read(a.tensor, op_enclosing(phase, OP_KERNEL))) return -1;
    bool helps = gpu_copy_width(op, &a, along).bytes < GPU_COPY_MOST &&
                 gpu_start_fits(op, &a, along, GPU_COPY_MOST);
    return helps ? along : -1;
}

double gpu_aligned_row(double extent, Elem elem) {
    double line = LINE_BYTES * 8.0 / elem_info[elem].bits;
    return ceil(extent / line) * line;
}

/* ---- copying ------------------------------------------------------------------------------- */

/// A tensor of the phase, and its copy.
typedef struct RowCopy {
    Value *tensor, *copy;
    int along;             // the tensor's dimension of stride 1; the copy's last one
    int order[MAX_RANK];   // dimension d of the copy is dimension order[d] of the tensor
    Value *dims[MAX_RANK]; // of the copy
} RowCopy;

typedef struct Aligning {
    PassEnv *env;
    Op *phase;
    int n;
    RowCopy copies[ALIGN_ROWS_TENSORS];
    VEC(Op *) loads;
} Aligning;

static RowCopy *copy_of(Aligning *s, const Value *tensor) {
    for (int i = 0; i < s->n; i++)
        if (s->copies[i].tensor == tensor) return &s->copies[i];
    return NULL;
}

/// Places the dimensions of the load's block last, so that a program copies a block of them.
static void set_order(RowCopy *c, const Op *load) {
    Access a = access_of(load);
    int n = 0, across = -1;
    for (int d = 0; d < a.n_subs; d++) {
        if (d == c->along) continue;
        if (a.subs[d].kind == DIM_AXIS)
            across = d;
        else
            c->order[n++] = d;
    }
    c->order[n++] = across;
    c->order[n] = c->along;
}

static void find_rows(Op *op, void *arg) {
    Aligning *s = arg;
    int along = gpu_row_to_align(s->env->gpu, op);
    if (along < 0) return;
    Value *tensor = operand(op, 0);
    if (!copy_of(s, tensor)) {
        if (s->n == ALIGN_ROWS_TENSORS) return;
        RowCopy *c = &s->copies[s->n++];
        *c = (RowCopy){.tensor = tensor, .along = along};
        set_order(c, op);
    }
    if (copy_of(s, tensor)->along == along) vec_push(ir_ctx(s->env->ir), &s->loads, op);
}

static Value *extent_of(Builder *b, Value *tensor, int d) {
    int64_t known = tensor->type->extents[d];
    if (known != DYNAMIC) return build_index(b, known);
    Value *one = build_index(b, 1);
    Op *dim = build_op(b, OP_DIM, 1, &tensor, 1, &one->type, 0);
    op_set_int(b->ir, dim, A_AXIS, d);
    return result(dim, 0);
}

/// Rounds up to a multiple of n, a power of two. The result is visibly not below v.
static Value *rounded_up(Builder *b, Value *v, int64_t n) {
    int64_t known;
    if (const_int(v, &known)) return build_index(b, ceil_div(known, n) * n);
    Value *rest = build_binary(b, OP_SUB, build_index(b, 0), v);
    return build_binary(b, OP_ADD, v, build_binary(b, OP_AND, rest, build_index(b, n - 1)));
}

/// Computes the dims of the copy. Returns its bytes.
static Value *set_dims(Builder *b, RowCopy *c) {
    const Type *t = c->tensor->type;
    int64_t bytes = elem_info[t->elem].bits / 8;
    Value *all = build_index(b, bytes);
    for (int d = 0; d < t->rank; d++) {
        c->dims[d] = extent_of(b, c->tensor, c->order[d]);
        if (d == t->rank - 1) c->dims[d] = rounded_up(b, c->dims[d], LINE_BYTES / bytes);
        all = ix_mul(b, all, c->dims[d]);
    }
    return all;
}

static void make_copy(Builder *b, RowCopy *c) {
    const Type *t = c->tensor->type;
    int64_t extents[MAX_RANK], strides[MAX_RANK], stride = 1;
    for (int d = t->rank - 1; d >= 0; d--) {
        strides[d] = stride;
        if (!const_int(c->dims[d], &extents[d])) extents[d] = DYNAMIC;
        stride = stride == DYNAMIC || extents[d] == DYNAMIC ? DYNAMIC : stride * extents[d];
    }
    const Type *plain = ty_tensor(b->ir, t->elem, t->rank, extents, strides);
    const Type *type = ty_aligned(b->ir, plain, SCRATCH_ALIGN); // each row is a multiple of lines
    c->copy = result(build_op(b, OP_SCRATCH, t->rank, c->dims, 1, &type, 0), 0);
    c->copy->name = c->tensor->name;
}

/// Returns the block in which programs copy: whole lines, and few of them where rows are long.
static void choose_block(const RowCopy *c, int64_t *rows, int64_t *columns) {
    int64_t known, line = LINE_BYTES / (elem_info[c->tensor->type->elem].bits / 8);
    *columns = ALIGN_ROWS_COLUMNS;
    if (const_int(c->dims[c->tensor->type->rank - 1], &known))
        while (*columns / 2 >= known && *columns > line) *columns /= 2;
    *rows = ALIGN_ROWS_BLOCK / *columns;
}

static Value *rest_of(Builder *b, Value *extent, Value *index, int64_t most) {
    return ix_min(b, ix_sub(b, extent, index), build_index(b, most));
}

/// Builds the phase that fills the copy. Lanes beyond the tensor's rows are dead, so they are 0.
static void fill_copy(Builder at_phase, const RowCopy *c) {
    Builder *b = &at_phase;
    const Type *t = c->tensor->type;
    int last = t->rank - 1;
    int64_t rows, columns;
    Region *home = b->region;
    Value *zero = build_index(b, 0), *index[MAX_RANK];
    choose_block(c, &rows, &columns);
    Value *width = extent_of(b, c->tensor, c->along);
    for (int d = 0; d < t->rank; d++) {
        int64_t step = d == last ? columns : d == last - 1 ? rows : 1;
        index[d] = open_parallel(b, zero, c->dims[d], step, "copy");
    }
    Place from = {0}, to = {0};
    Value *at[MAX_RANK];
    for (int d = 0; d <= last; d++) at[c->order[d]] = index[d];
    for (int d = 0; d <= last; d++) {
        int64_t size = d == c->along ? columns : rows;
        Value *extent = d == c->along ? width : c->dims[last - 1];
        bool block = d == c->along || d == c->order[last - 1];
        if (block)
            place_add_axis(&from, at[d], rest_of(b, extent, at[d], size), size);
        else
            place_add_at(&from, at[d]);
        int64_t own = d == last ? columns : rows;
        if (d >= last - 1)
            place_add_axis(&to, index[d], rest_of(b, c->dims[d], index[d], own), own);
        else
            place_add_at(&to, index[d]);
    }
    Value *v = load_at(b, c->tensor, &from);
    if (c->along < c->order[last - 1]) {
        const Type *type = place_type(b->ir, t->elem, &to);
        v = result(build_op(b, OP_PERMUTE, 1, &v, 1, &type, 0), 0);
        op_set_ints(b->ir, v->def, A_PERM, (int64_t[]){1, 0}, 2);
    }
    store_at(b, c->copy, v, &to, NULL);
    close_regions(b, home);
}

/* ---- reading ------------------------------------------------------------------------------- */

/// Makes the load read the copy. Where its count only repeats the extent of rows, it repeats that
/// of the padded rows, so that copy engines need not know it.
static void read_copy(Aligning *s, Op *load, Ranges *ranges) {
    Ir *ir = s->env->ir;
    const RowCopy *c = copy_of(s, operand(load, 0));
    Access a = access_of(load);
    const Type *t = c->tensor->type;
    int last = t->rank - 1;
    Builder b = build_before(ir, load);
    Place p = {0};
    ranges_at(ranges, load);
    bool repeats = gpu_count_repeats_extent(ranges, load, &a, c->along);
    for (int i = 0; i <= last; i++) {
        int d = c->order[i];
        Value *base = sub_operand(load, &a, d, 0);
        if (a.subs[d].kind == DIM_AT) {
            place_add_at(&p, base);
            continue;
        }
        int64_t size = a.subs[d].size;
        Value *count = sub_operand(load, &a, d, 1);
        if (i == last && repeats) count = rest_of(&b, c->dims[last], base, size);
        place_add_axis(&p, base, count, size);
    }
    Value *v = load_at(&b, c->copy, &p);
    for (int d = c->along + 1; d <= last; d++) {
        if (a.subs[d].kind != DIM_AXIS) continue;
        const Type *type = result(load, 0)->type;
        v = result(build_op(&b, OP_PERMUTE, 1, &v, 1, &type, 0), 0);
        op_set_ints(ir, v->def, A_PERM, (int64_t[]){1, 0}, 2);
        break;
    }
    value_replace(result(load, 0), v);
    op_erase(load);
}

/* ---- the pass ------------------------------------------------------------------------------ */

/// Builds a branch on whether the copies fit the workspace, with the phase as it was otherwise.
/// Returns the place for the copies: before the phase.
static Builder branch_on_room(Aligning *s, Value *bytes) {
    Ir *ir = s->env->ir;
    Builder b = build_before(ir, s->phase);
    Value *fits = build_binary(&b, OP_LE, bytes, build_workspace_limit(&b));
    Op *branch = build_op(&b, OP_IF, 1, &fits, 0, NULL, 2);
    Builder otherwise = build_at_end(ir, branch->regions[1], s->phase->loc);
    PtrMap map = {0};
    op_clone(&otherwise, s->phase, &map);
    build_yield(&otherwise, 0, NULL);
    op_move_to_end(s->phase, branch->regions[0]);
    Builder then = build_at_end(ir, branch->regions[0], s->phase->loc);
    build_yield(&then, 0, NULL);
    return build_before(ir, s->phase);
}

static void align_phase(Op *phase, void *arg) {
    PassEnv *env = arg;
    Aligning s = {.env = env, .phase = phase};
    if (phase->code != OP_PARALLEL || op_enclosing(phase, OP_PARALLEL)) return;
    op_walk_pre(phase, find_rows, &s);
    if (!s.n) return;
    Builder b = build_before(env->ir, phase);
    Value *bytes = build_index(&b, 0);
    for (int i = 0; i < s.n; i++) bytes = ix_add(&b, bytes, set_dims(&b, &s.copies[i]));
    b = branch_on_room(&s, bytes);
    for (int i = 0; i < s.n; i++) {
        make_copy(&b, &s.copies[i]);
        fill_copy(b, &s.copies[i]);
        b = build_before(env->ir, phase);
    }
    Ranges *ranges = ranges_of(env->ir, op_enclosing(phase, OP_KERNEL));
    for (int i = 0; i < s.loads.n; i++) read_copy(&s, s.loads.data[i], ranges);
}

void pass_align_rows(PassEnv *env, Op *module) {
    if (env->gpu && env->align_rows > 0 && !env->check) op_walk_post(module, align_phase, env);
}
