// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Helpers of several passes: effects, surgery on structured ops, small index arithmetic.
#include "passes/util.h"
#include "passes/grid.h"

#include <string.h>

#include "ir/eval.h"

#include <math.h>

/* ---- effects ------------------------------------------------------------------------------- */

bool op_is_container(const Op *op) {
    switch (op->code) {
    case OP_FOR:
    case OP_WHILE:
    case OP_IF:
    case OP_PARALLEL:
    case OP_LAUNCH:
    case OP_CONTRACT: return true;
    default: return false;
    }
}

bool op_is_loop(const Op *op) {
    return op->code == OP_FOR || op->code == OP_WHILE;
}

/// Whether op or its contents have one of `traits`. Control flow itself does not count.
static bool tree_has(const Op *op, int traits) {
    if (!op_is_container(op) && (op_info[op->code].traits & traits)) return true;
    for (int i = 0; i < op->n_regions; i++) for_each_op(inner, op->regions[i]) {
            if (tree_has(inner, traits)) return true;
        }
    return false;
}

bool tree_is_pure(const Op *op) {
    return !tree_has(op, READS | WRITES | EFFECT);
}
bool tree_only_reads(const Op *op) {
    return !tree_has(op, WRITES | EFFECT);
}
bool op_writes(const Op *op) {
    return !op_is_container(op) && op_has(op, WRITES);
}
bool op_is_load(const Op *op) {
    return op->code == OP_LOAD;
}

/// Whether writes of other ranks, to any tensor, may be visible after the op.
static bool meets_ranks(const Op *op) {
    switch (op->code) {
    case OP_COMM_BEGIN:
    case OP_COMM_BARRIER:
    case OP_COMM_END:
    case OP_COMM_SCATTER:
    case OP_COMM_FENCE:
    case OP_SIGNAL_WAIT: return true;
    default: return false;
    }
}

/// Whether the op itself writes t. A store or atomic writes its first operand, a combine its first
/// n, a call or dispatch any.
static bool writes_directly(const Op *op, const Value *t) {
    if (!op_writes(op)) return false;
    if (op->code == OP_SIGNAL_WAIT && t == operand(op, 1))
        return false; // the epoch does not change
    if (meets_ranks(op)) return true;
    bool any = op->code == OP_CALL || op->code == OP_DISPATCH;
    int n = any ? op->n_operands : op->code == OP_COMBINE ? (int)op_int(op, A_N_TENSORS, 1) : 1;
    for (int i = 0; i < n && i < op->n_operands; i++)
        if (operand(op, i) == t) return true;
    return false;
}

bool tree_waits(const Op *op) {
    if (op->code == OP_SIGNAL_WAIT || op->code == OP_COMM_FENCE) return true;
    for (int i = 0; i < op->n_regions; i++) for_each_op(inner, op->regions[i]) {
            if (tree_waits(inner)) return true;
        }
    return false;
}

bool tree_stores(const Op *op, const Value *t) {
    if (!meets_ranks(op) && writes_directly(op, t)) return true;
    for (int i = 0; i < op->n_regions; i++) for_each_op(inner, op->regions[i]) {
            if (tree_stores(inner, t)) return true;
        }
    return false;
}

bool tree_writes(const Op *op, const Value *t) {
    if (writes_directly(op, t)) return true;
    for (int i = 0; i < op->n_regions; i++) for_each_op(inner, op->regions[i]) {
            if (tree_writes(inner, t)) return true;
        }
    return false;
}

/* ---- structured ops ------------------------------------------------------------------------ */

int loop_first_init(const Op *loop) {
    return loop->code == OP_FOR ? 2 : 0;
}

Value *loop_arg(const Op *loop, int r, int i) {
    return loop->regions[r]->args[i + (loop->code == OP_FOR && r == 0)];
}

void move_ops(Region *from, Region *to) {
    for_each_op_safe(op, from) op_move_to_end(op, to);
}

/// Rebuilds a terminator without the operands for which keep, repeated over them, is false. The
/// first `fixed` operands stay.
static void drop_yields(Ir *ir, Op *yield, int n, const bool *keep) {
    Value **left = ctx_array(ir_ctx(ir), Value *, yield->n_operands);
    int m = 0;
    for (int i = 0; i < yield->n_operands; i++)
        if (keep[i % n]) left[m++] = operand(yield, i);
    op_set_operands(ir, yield, m, left);
}

/// Gives region `to` the kept arguments of `from`, and moves its ops there. The first `fixed`
/// arguments stay; the others are groups of n.
static void drop_args(Ir *ir, Region *from, Region *to, int fixed, int n, const bool *keep) {
    for (int i = 0; i < from->n_args; i++) {
        Value *arg = from->args[i];
        if (i < fixed || keep[(i - fixed) % n])
            value_replace(arg, region_add_arg(ir, to, arg->type, arg->name));
    }
    move_ops(from, to);
}

typedef struct FindDispatch {
    const char *device;
    Op *found;
} FindDispatch;

static void note_dispatch_of(Op *op, void *arg) {
    FindDispatch *f = arg;
    if (op->code == OP_DISPATCH && strcmp(op_str(op, A_DEVICE), f->device) == 0) f->found = op;
}

Op *dispatch_of(Op *module, const Op *device) {
    FindDispatch f = {.device = op_str(device, A_NAME)};
    op_walk_pre(module, note_dispatch_of, &f);
    return f.found;
}

Op *drop_slots(Ir *ir, Op *op, const bool *keep) {
    Ctx *ctx = ir_ctx(ir);
    int n = op->n_results, m = 0, fixed = op->code == OP_IF ? 1 : loop_first_init(op);
    Value **operands = ctx_array(ctx, Value *, op->n_operands);
    const Type **types = ctx_array(ctx, const Type *, n);
    int *from = ctx_array(ctx, int, n);
    for (int i = 0; i < fixed; i++) operands[i] = operand(op, i);
    for (int i = 0; i < n; i++)
        if (keep[i]) {
            if (op->code != OP_IF) operands[fixed + m] = operand(op, fixed + i);
            types[m] = result(op, i)->type;
            from[m++] = i;
        }
    Builder b = build_before(ir, op);
    Op *copy = build_op(&b, op->code, op->code == OP_IF ? 1 : fixed + m, operands, m, types,
                        op->n_regions);
    for (int i = 0; i < op->n_attrs; i++)
        op_set_attr(ir, copy, op->attrs[i].id, op->attrs[i].value);
    for (int r = 0; r < op->n_regions; r++) {
        drop_args(ir, op->regions[r], copy->regions[r], op->code == OP_FOR && r == 0, n, keep);
        if (!(op->code == OP_WHILE && r == 0)) // that region yields its condition
            drop_yields(ir, terminator(copy->regions[r]), n, keep);
    }
    for (int i = 0; i < m; i++) {
        value_replace(result(op, from[i]), result(copy, i));
        result(copy, i)->name = result(op, from[i])->name;
    }
    copy->mark = op->mark;
    op_erase(op);
    return copy;
}

void splice_before(Op *op, Region *r, Value *const *args, Value **yields) {
    for (int i = 0; i < r->n_args; i++) value_replace(r->args[i], args[i]);
    Op *end = terminator(r);
    for (int i = 0; i < end->n_operands; i++) yields[i] = operand(end, i);
    op_erase(end);
    for_each_op_safe(inner, r) op_move_before(inner, op);
}

/// Returns v, from the scalar code or from outside, as a block of the shape.
static Value *widened_value(Builder *b, PtrMap *map, Value *v, const Type *shape) {
    Value *copy = map_get(map, v);
    return copy ? copy : build_broadcast(b, v, shape);
}

static void widen_region(Builder *b, const Region *r, PtrMap *map, const Type *shape,
                         Value **yields);

/// Builds both branches, which are pure, and selects lane by lane.
static void widen_if(Builder *b, const Op *op, PtrMap *map, const Type *shape) {
    Ctx *ctx = ir_ctx(b->ir);
    Value **x = ctx_array(ctx, Value *, op->n_results),
          **y = ctx_array(ctx, Value *, op->n_results);
    Value *c = widened_value(b, map, operand(op, 0), shape);
    widen_region(b, op->regions[0], map, shape, x);
    widen_region(b, op->regions[1], map, shape, y);
    for (int i = 0; i < op->n_results; i++)
        map_set(ctx, map, result(op, i), build_select(b, c, x[i], y[i]));
}

static void widen_op(Builder *b, const Op *op, PtrMap *map, const Type *shape) {
    Value *in[3];
    if (op->n_regions || op->n_results != 1 || op->n_operands > 3 || !op_has(op, PURE))
        ice(ir_ctx(b->ir), op->loc, "`%s` in scalar code that applies to blocks",
            op_info[op->code].name);
    for (int i = 0; i < op->n_operands; i++) in[i] = widened_value(b, map, operand(op, i), shape);
    const Type *type = ty_with_shape(b->ir, result(op, 0)->type, shape);
    Op *copy = build_op(b, op->code, op->n_operands, in, 1, &type, 0);
    for (int i = 0; i < op->n_attrs; i++)
        op_set_attr(b->ir, copy, op->attrs[i].id, op->attrs[i].value);
    map_set(ir_ctx(b->ir), map, result(op, 0), result(copy, 0));
}

static void widen_region(Builder *b, const Region *r, PtrMap *map, const Type *shape,
                         Value **yields) {
    for_each_op(op, r) {
        if (op->code == OP_IF)
            widen_if(b, op, map, shape);
        else if (!op_has(op, TERMINATOR))
            widen_op(b, op, map, shape);
    }
    const Op *end = terminator(r);
    for (int i = 0; i < end->n_operands; i++)
        yields[i] = widened_value(b, map, operand(end, i), shape);
}

void apply_lanes(Builder *b, const Region *r, Value *const *args, const Type *shape,
                 Value **yields) {
    PtrMap map = {0};
    for (int i = 0; i < r->n_args; i++) map_set(ir_ctx(b->ir), &map, r->args[i], args[i]);
    widen_region(b, r, &map, shape, yields);
}

/* ---- places -------------------------------------------------------------------------------- */

Place place_of(const Op *op) {
    Access a = access_of(op);
    Place p = {0};
    for (int d = 0; d < a.n_subs; d++) {
        int used = a.subs[d].kind == DIM_AXIS ? 2 : 1;
        p.dims[p.n++] = a.subs[d];
        for (int i = 0; i < used; i++) p.operands[p.n_operands++] = sub_operand(op, &a, d, i);
    }
    return p;
}

void place_add_at(Place *p, Value *index) {
    p->dims[p->n++] = (SubDim){.kind = DIM_AT};
    p->operands[p->n_operands++] = index;
}

void place_add_axis(Place *p, Value *base, Value *count, int64_t size) {
    p->dims[p->n++] = (SubDim){DIM_AXIS, size, 1};
    p->operands[p->n_operands++] = base;
    p->operands[p->n_operands++] = count;
}

void place_add_pick(Place *p, Value *coordinates) {
    p->dims[p->n++] = (SubDim){.kind = DIM_PICK};
    p->operands[p->n_operands++] = coordinates;
}

void place_append(Place *p, const Place *rest) {
    for (int i = 0; i < rest->n; i++) p->dims[p->n++] = rest->dims[i];
    for (int i = 0; i < rest->n_operands; i++) p->operands[p->n_operands++] = rest->operands[i];
}

Place place_behind(int n, Value *const *first, const Place *rest) {
    Place p = {0};
    for (int i = 0; i < n; i++) place_add_at(&p, first[i]);
    if (rest) place_append(&p, rest);
    return p;
}

const Type *place_type(Ir *ir, Elem elem, const Place *p) {
    int64_t extents[MAX_RANK];
    int rank = 0, at = 0;
    bool picked = false;
    for (int d = 0; d < p->n; d++) {
        const Type *pick = p->operands[at]->type;
        if (p->dims[d].kind == DIM_AXIS) extents[rank++] = p->dims[d].size;
        for (int i = 0; p->dims[d].kind == DIM_PICK && !picked && i < pick->rank; i++)
            extents[rank++] = pick->extents[i];
        picked |= p->dims[d].kind == DIM_PICK;
        at += p->dims[d].kind == DIM_AXIS ? 2 : 1;
    }
    return ty_block(ir, elem, rank, extents);
}

/// Builds an access (tensor, second, the place's operands..., mask?).
static Op *build_access(Builder *b, OpCode code, Value *tensor, Value *second, const Place *p,
                        Value *mask, int n_results, const Type *type) {
    Value *in[2 * MAX_RANK + 3] = {tensor, second};
    int n = 2;
    for (int i = 0; i < p->n_operands; i++) in[n++] = p->operands[i];
    if (mask) in[n++] = mask;
    Op *op = build_op(b, code, n, in, n_results, &type, 0);
    op_set_subs(b->ir, op, A_SUBS, p->dims, p->n);
    return op;
}

Value *load_at(Builder *b, Value *tensor, const Place *p) {
    Elem elem = tensor->type->elem;
    Value *pad = build_zero(b, ty_scalar(b->ir, elem));
    const Type *type = place_type(b->ir, elem, p);
    return result(build_access(b, OP_LOAD, tensor, pad, p, NULL, 1, type), 0);
}

void store_at(Builder *b, Value *tensor, Value *v, const Place *p, Value *mask) {
    build_access(b, OP_STORE, tensor, v, p, mask, 0, NULL);
}

Op *atomic_at(Builder *b, Update update, Value *tensor, Value *v, const Place *p) {
    Op *op = build_access(b, OP_ATOMIC, tensor, v, p, NULL, 1, v->type);
    op_set_update(b->ir, op, update);
    return op;
}

Value *build_zero(Builder *b, const Type *type) {
    return build_const(b, type, at_int(b->ir, 0));
}

const Attr *monoid_identity(Ir *ir, OpCode op, Elem elem) {
    double end = op == OP_MIN ? HUGE_VAL : -HUGE_VAL;
    bool real = elem_is(elem, EC_FLOAT);
    switch (op) {
    case OP_ADD: return real ? at_float(ir, -0.0) : at_int(ir, 0);
    case OP_MUL: return attr_of_cell(ir, elem, cell_cast(EL_I64, elem, (Cell){.i = 1}));
    case OP_OR:
    case OP_XOR: return at_int(ir, 0);
    case OP_AND: return elem == EL_BOOL ? at_bool(ir, true) : at_int(ir, -1);
    case OP_MIN:
    case OP_MAX: return attr_of_cell(ir, elem, cell_cast(EL_F64, elem, (Cell){.f = end}));
    default: return NULL;
    }
}

const Attr *part_identity(Ir *ir, OpCode op, Elem elem) {
    bool ignores_nan = (op == OP_MIN || op == OP_MAX) && elem_is(elem, EC_FLOAT);
    return ignores_nan ? attr_of_cell(ir, elem, cell_cast(EL_F64, elem, (Cell){.f = NAN}))
                       : monoid_identity(ir, op, elem);
}

/* ---- slices -------------------------------------------------------------------------------- */

/// Whether every value that op's regions use is defined in them or outside of root.
static bool regions_are_closed(const Op *op, const Op *tree, const Op *root) {
    for (int r = 0; r < op->n_regions; r++) for_each_op(inner, op->regions[r]) {
            for (int i = 0; i < inner->n_operands; i++) {
                const Value *v = operand(inner, i);
                if (value_is_inside(v, root) && !value_is_inside(v, tree)) return false;
            }
            if (!regions_are_closed(inner, tree, root)) return false;
        }
    return true;
}

bool slice_is_movable(const Value *v, const Op *root, const PtrMap *known) {
    if (!value_is_inside(v, root) || map_get(known, v)) return true;
    const Op *op = v->def;
    if (!op || !regions_are_closed(op, op, root)) return false;
    if (!op_has(op, PURE) && !(op->code == OP_LOAD && !tree_writes(root, operand(op, 0))))
        return false;
    for (int i = 0; i < op->n_operands; i++)
        if (!slice_is_movable(operand(op, i), root, known)) return false;
    return true;
}

Value *clone_slice(Builder *b, Value *v, const Op *root, PtrMap *map) {
    Value *copy = map_get(map, v);
    if (copy || !value_is_inside(v, root)) return copy ? copy : v;
    for (int i = 0; i < v->def->n_operands; i++) clone_slice(b, operand(v->def, i), root, map);
    op_clone(b, v->def, map);
    return map_get(map, v);
}

/* ---- index arithmetic ---------------------------------------------------------------------- */

/// Builds x op y, folded if both are constant.
static Value *index_op(Builder *b, OpCode code, Value *x, Value *y) {
    int64_t p, q;
    if (!const_int(x, &p) || !const_int(y, &q)) return build_binary(b, code, x, y);
    Cell cells[] = {{.i = p}, {.i = q}};
    return build_index(b, eval_elementwise(code, EL_I64, cells).i);
}

Value *ix_add(Builder *b, Value *x, Value *y) {
    return is_const_int(x, 0) ? y : is_const_int(y, 0) ? x : index_op(b, OP_ADD, x, y);
}

Value *ix_sub(Builder *b, Value *x, Value *y) {
    return is_const_int(y, 0) ? x : index_op(b, OP_SUB, x, y);
}

Value *ix_mul(Builder *b, Value *x, Value *y) {
    return is_const_int(x, 1) ? y : is_const_int(y, 1) ? x : index_op(b, OP_MUL, x, y);
}

Value *ix_div(Builder *b, Value *x, Value *y) {
    return is_const_int(y, 1) ? x : index_op(b, OP_DIV, x, y);
}

Value *ix_rem(Builder *b, Value *x, Value *y) {
    return is_const_int(y, 1) ? build_index(b, 0) : index_op(b, OP_REM, x, y);
}

Value *ix_min(Builder *b, Value *x, Value *y) {
    return index_op(b, OP_MIN, x, y);
}
Value *ix_max(Builder *b, Value *x, Value *y) {
    return index_op(b, OP_MAX, x, y);
}

Value *ix_ceildiv(Builder *b, Value *x, Value *y) {
    if (is_const_int(y, 1)) return x;
    return ix_div(b, ix_add(b, x, ix_sub(b, y, build_index(b, 1))), y);
}

Value *trip_count(Builder *b, Value *lo, Value *hi, int64_t step) {
    if (step == 0) return build_index(b, 1);
    Value *length = ix_max(b, ix_sub(b, hi, lo), build_index(b, 0));
    return ix_ceildiv(b, length, build_index(b, step));
}

Value *build_workspace_limit(Builder *b) {
    const Type *type = ty_scalar(b->ir, EL_I64);
    return result(build_op(b, OP_WORKSPACE_LIMIT, 0, NULL, 1, &type, 0), 0);
}

Op *build_for(Builder *b, Value *lo, Value *hi, int64_t step, int n, Value *const *inits) {
    Ctx *ctx = ir_ctx(b->ir);
    Value **operands = ctx_array(ctx, Value *, n + 2);
    const Type **types = ctx_array(ctx, const Type *, n);
    operands[0] = lo;
    operands[1] = hi;
    for (int i = 0; i < n; i++) {
        operands[2 + i] = inits[i];
        types[i] = inits[i]->type;
    }
    Op *op = build_op(b, OP_FOR, n + 2, operands, n, types, 1);
    op_set_int(b->ir, op, A_STEP, step);
    return op;
}

Op *build_programs(Builder *b, Value *lo, Value *hi, int64_t step, int n, Value *const *inits) {
    Op *op = build_for(b, lo, hi, step, n, inits);
    op_set_flag(b->ir, op, A_PROGRAM_LOOP, true);
    return op;
}

Value *open_parallel(Builder *b, Value *lo, Value *hi, int64_t step, const char *name) {
    Op *op = build_op(b, OP_PARALLEL, 2, (Value *[]){lo, hi}, 0, NULL, 1);
    op_set_int(b->ir, op, A_STEP, step);
    op_set_str(b->ir, op, A_NAME, name);
    *b = build_at_end(b->ir, op->regions[0], b->loc);
    return region_add_arg(b->ir, op->regions[0], lo->type, name);
}

void close_regions(Builder *b, const Region *home) {
    while (b->region != home) {
        build_yield(b, 0, NULL);
        b->region = b->region->parent->parent;
    }
}

Op *inner_parallel(const Op *parallel) {
    for_each_op(op, parallel->regions[0]) {
        if (op->code == OP_PARALLEL) return op;
    }
    return NULL;
}
