// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The verifier's rules of single ops: shapes, elements, regions.
#include "ir/eval.h"
#include "ir/internal.h"

#include <string.h>

/* ---- words for the rules ------------------------------------------------------------------- */
// Each reports at most one violation and says whether all is well. Operands count from 1 in
// messages.

static const char *number(Verifier *v, int64_t n) {
    return ctx_format(v->ctx, "%lld", (long long)n);
}

static bool is_type(Verifier *v, const Op *op, const char *what, int i, const Type *found,
                    const Type *expected) {
    if (found != expected)
        verify_fail(v, op, type_text(v->ctx, found), "%s %d to be %s", what, i + 1,
                    type_text(v->ctx, expected));
    return found == expected;
}

static bool operand_is(Verifier *v, const Op *op, int i, const Type *expected) {
    return is_type(v, op, "operand", i, operand(op, i)->type, expected);
}

static bool result_is(Verifier *v, const Op *op, int i, const Type *expected) {
    return is_type(v, op, "result", i, result(op, i)->type, expected);
}

static bool is_index(Verifier *v, const Op *op, int i) {
    return operand_is(v, op, i, ty_scalar(v->ir, EL_I64));
}

static bool is_kind(Verifier *v, const Op *op, int i, TypeKind kind) {
    const Type *t = operand(op, i)->type;
    if (t->kind != kind)
        verify_fail(v, op, type_text(v->ctx, t), "operand %d to be a %s", i + 1,
                    kind == TK_BLOCK ? "block" : "tensor");
    return t->kind == kind;
}

static bool is_block_result(Verifier *v, const Op *op) {
    const Type *t = result(op, 0)->type;
    if (!ty_is_block(t)) verify_fail(v, op, type_text(v->ctx, t), "a block result");
    return ty_is_block(t);
}

static bool operands_at_least(Verifier *v, const Op *op, int n) {
    if (op->n_operands < n)
        verify_fail(v, op, number(v, op->n_operands), "at least %d operand%s", n,
                    n == 1 ? "" : "s");
    return op->n_operands >= n;
}

static bool is_count(Verifier *v, const Op *op, const char *what, int64_t found, int64_t expected) {
    if (found != expected)
        verify_fail(v, op, number(v, found), "the number of %s to be %lld", what,
                    (long long)expected);
    return found == expected;
}

/// lo <= n < hi.
static bool in_range(Verifier *v, const Op *op, const char *what, int64_t n, int64_t lo,
                     int64_t hi) {
    bool ok = n >= lo && n < hi;
    if (!ok && hi == INT64_MAX)
        verify_fail(v, op, number(v, n), "%s of at least %lld", what, (long long)lo);
    else if (!ok)
        verify_fail(v, op, number(v, n), "%s from %lld to %lld", what, (long long)lo,
                    (long long)hi - 1);
    return ok;
}

static bool is_axis(Verifier *v, const Op *op, const Type *t) {
    return in_range(v, op, "axis", op_int(op, "axis", 0), 0, t->rank);
}

/// The string attribute, where present, is one of the names.
static bool is_one_of(Verifier *v, const Op *op, const char *attr, const char *const *names) {
    const char *s = op_str(op, attr);
    Text all = {.ctx = v->ctx};
    for (; s && *names; names++) {
        if (strcmp(*names, s) == 0) return true;
        text_add(&all, "%s%s", all.n ? ", " : "", *names);
    }
    if (s) verify_fail(v, op, s, "%s to be one of %s", attr, all.data);
    return !s;
}

/// Region r takes these arguments.
static bool takes(Verifier *v, const Op *op, int r, int n, const Type *const *types) {
    const Region *region = op->regions[r];
    bool ok = is_count(v, op, "region arguments", region->n_args, n);
    for (int i = 0; ok && i < n; i++)
        ok = is_type(v, op, "region argument", i, region->args[i]->type, types[i]);
    return ok;
}

/// Region r yields these. A missing terminator is reported elsewhere.
static bool yields(Verifier *v, const Op *op, int r, int n, const Type *const *types) {
    const Op *end = terminator(op->regions[r]);
    if (!end || end->code != OP_YIELD) return false;
    bool ok = is_count(v, op, "yielded values", end->n_operands, n);
    for (int i = 0; ok && i < n; i++)
        ok = is_type(v, op, "yielded value", i, operand(end, i)->type, types[i]);
    return ok;
}

static bool yields_nothing(Verifier *v, const Op *op) {
    return yields(v, op, 0, 0, NULL);
}

static bool takes_index(Verifier *v, const Op *op) {
    return takes(v, op, 0, 1, (const Type *[]){ty_scalar(v->ir, EL_I64)});
}

static const Type **result_types(Verifier *v, const Op *op, int room) {
    const Type **types = ctx_array(v->ctx, const Type *, op->n_results + room);
    for (int i = 0; i < op->n_results; i++) types[i] = result(op, i)->type;
    return types;
}

/// n types twice in a row: the arguments of a function that joins two states.
static const Type **twice(Verifier *v, int n, const Type *const *types) {
    const Type **both = ctx_array(v->ctx, const Type *, 2 * n);
    for (int i = 0; i < 2 * n; i++) both[i] = types[i % n];
    return both;
}

typedef struct Seek {
    Verifier *v;
    const Op *outer;
} Seek;

static void refuse_effects(Op *op, void *arg) {
    Seek *s = arg;
    bool plain = op->n_regions > 0 || op_has(op, PURE) || op_has(op, TERMINATOR);
    if (!plain) verify_fail(s->v, s->outer, op_info[op->code].name, "pure ops in its region");
}

static void has_pure_region(Verifier *v, const Op *op) {
    Seek s = {v, op};
    for_each_op(inner, op->regions[0]) op_walk_pre(inner, refuse_effects, &s);
}

/* ---- structure ----------------------------------------------------------------------------- */

/// Kernels and funcs are found by name.
static void verify_module(Verifier *v, const Op *op) {
    PtrMap seen[2] = {{0}, {0}};
    for_each_op(inner, op->regions[0]) {
        const char *name = op_str(inner, "name");
        PtrMap *names = &seen[inner->code == OP_FUNC];
        if (!name) continue;
        if (map_get(names, name)) verify_fail(v, inner, name, "a name of its own");
        map_set(v->ctx, names, name, inner);
    }
}

static void verify_kernel(Verifier *v, const Op *op) {
    const Region *r = op->regions[0];
    for (int i = 0; i < r->n_args; i++)
        if (ty_is_block(r->args[i]->type) && r->args[i]->type->rank)
            verify_fail(v, op, type_text(v->ctx, r->args[i]->type),
                        "parameter %d to be a tensor or a scalar", i + 1);
    yields_nothing(v, op);
}

static void verify_func(Verifier *v, const Op *op) {
    const Region *r = op->regions[0];
    for (int i = 0; i < r->n_args; i++)
        if (!ty_is_scalar(r->args[i]->type))
            verify_fail(v, op, type_text(v->ctx, r->args[i]->type), "argument %d to be a scalar",
                        i + 1);
    const Op *end = terminator(r);
    if (end && is_count(v, op, "yielded values", end->n_operands, 1) &&
        !ty_is_scalar(operand(end, 0)->type))
        verify_fail(v, op, type_text(v->ctx, operand(end, 0)->type), "to yield a scalar");
    has_pure_region(v, op);
}

static bool may_pass(const Type *arg, const Type *param) {
    if (arg->kind == TK_TENSOR && param->kind == TK_TENSOR)
        return arg->elem == param->elem && arg->rank == param->rank;
    return arg == param;
}

static void verify_call(Verifier *v, const Op *op) {
    const Op *module = op_enclosing(op, OP_MODULE);
    if (!module) return;
    const Op *callee = find_kernel(module, op_str(op, "callee"));
    if (!callee) {
        verify_fail(v, op, op_str(op, "callee"), "a kernel of this module");
        return;
    }
    const Region *r = callee->regions[0];
    if (!is_count(v, op, "arguments", op->n_operands, r->n_args)) return;
    for (int i = 0; i < r->n_args; i++)
        if (!may_pass(operand(op, i)->type, r->args[i]->type))
            verify_fail(v, op, type_text(v->ctx, operand(op, i)->type), "argument %d to be %s",
                        i + 1, type_text(v->ctx, r->args[i]->type));
}

/// A nested one ends the one directly around it: what comes before it computes bounds.
static bool nests_perfectly(Verifier *v, const Op *op) {
    const Op *outer = op->parent ? op->parent->parent : NULL;
    if (op_enclosing(op, OP_LAUNCH)) {
        verify_fail(v, op, "launch", "no program around it");
        return false;
    }
    if (!op_enclosing(op, OP_PARALLEL)) return true;
    if (outer->code != OP_PARALLEL)
        verify_fail(v, op, op_info[outer->code].name, "the outer parallel directly around it");
    else if (op->next && !op_has(op->next, TERMINATOR))
        verify_fail(v, op, op_info[op->next->code].name, "yield after it in the outer parallel");
    else
        return true;
    return false;
}

static void verify_parallel(Verifier *v, const Op *op) {
    if (nests_perfectly(v, op) && is_index(v, op, 0) && is_index(v, op, 1) &&
        in_range(v, op, "step", op_int(op, "step", 0), 0, INT64_MAX) && takes_index(v, op))
        yields_nothing(v, op);
}

static void verify_launch(Verifier *v, const Op *op) {
    if (is_index(v, op, 0) && takes_index(v, op)) yields_nothing(v, op);
}

/// Values that pass from iteration to iteration are blocks.
static bool carries_blocks(Verifier *v, const Op *op) {
    for (int i = 0; i < op->n_results; i++)
        if (!ty_is_block(result(op, i)->type)) {
            verify_fail(v, op, type_text(v->ctx, result(op, i)->type), "result %d to be a block",
                        i + 1);
            return false;
        }
    return true;
}

/// Operands from `first` on have the types of the results.
static bool inits_match(Verifier *v, const Op *op, int first) {
    if (!is_count(v, op, "initial values", op->n_operands - first, op->n_results)) return false;
    for (int i = 0; i < op->n_results; i++)
        if (!operand_is(v, op, first + i, result(op, i)->type)) return false;
    return carries_blocks(v, op);
}

static void verify_for(Verifier *v, const Op *op) {
    if (!in_range(v, op, "regions", op->n_regions, 1, 3) || !operands_at_least(v, op, 2) ||
        !is_index(v, op, 0) || !is_index(v, op, 1) || !inits_match(v, op, 2) ||
        !in_range(v, op, "step", op_int(op, "step", 0), 1, INT64_MAX))
        return;
    int n = op->n_results;
    const Type **types = result_types(v, op, 1);
    memmove(types + 1, types, (size_t)n * sizeof *types);
    types[0] = ty_scalar(v->ir, EL_I64);
    if (!takes(v, op, 0, n + 1, types) || !yields(v, op, 0, n, types + 1) || op->n_regions == 1)
        return;
    if (takes(v, op, 1, 2 * n, twice(v, n, types + 1))) yields(v, op, 1, n, types + 1);
}

static void verify_while(Verifier *v, const Op *op) {
    int n = op->n_results;
    const Type **types = result_types(v, op, 0);
    if (inits_match(v, op, 0) && takes(v, op, 0, n, types) &&
        yields(v, op, 0, 1, (const Type *[]){ty_scalar(v->ir, EL_BOOL)}) &&
        takes(v, op, 1, n, types))
        yields(v, op, 1, n, types);
}

static void verify_if(Verifier *v, const Op *op) {
    const Type **types = result_types(v, op, 0);
    if (!operand_is(v, op, 0, ty_scalar(v->ir, EL_BOOL)) || !carries_blocks(v, op)) return;
    for (int r = 0; r < 2; r++)
        if (!takes(v, op, r, 0, NULL) || !yields(v, op, r, op->n_results, types)) return;
}

/* ---- constants and shapes ------------------------------------------------------------------ */

/// The value is of the element's class and one the element can hold.
static void verify_const(Verifier *v, const Op *op) {
    if (!is_block_result(v, op)) return;
    const Attr *a = op_attr(op, "value");
    Elem e = result(op, 0)->type->elem;
    AttrKind kind = elem_is(e, EC_FLOAT) ? AT_FLOAT : elem_is(e, EC_BOOL) ? AT_BOOL : AT_INT;
    Text found = {.ctx = v->ctx};
    ir_print_attr(&found, a);
    if (a->kind != kind) {
        verify_fail(v, op, found.data, "a value of %s", elem_info[e].name);
        return;
    }
    Cell raw = kind == AT_FLOAT ? (Cell){.f = a->f} : (Cell){.i = a->i};
    if (!cell_equal(e, raw, cell_of_attr(e, a)))
        verify_fail(v, op, found.data, "a value that %s can hold", elem_info[e].name);
}

static void verify_iota(Verifier *v, const Op *op) {
    const Type *t = result(op, 0)->type;
    if (!ty_is_block(t) || t->rank != 1 || !elem_is(t->elem, EC_INT) || elem_info[t->elem].bits < 8)
        verify_fail(v, op, type_text(v->ctx, t), "an integer block of rank 1");
}

/// Block to block of one element.
static bool keeps_elem(Verifier *v, const Op *op) {
    if (!is_kind(v, op, 0, TK_BLOCK) || !is_block_result(v, op)) return false;
    const Type *from = operand(op, 0)->type, *to = result(op, 0)->type;
    if (from->elem != to->elem)
        verify_fail(v, op, elem_info[to->elem].name, "a result of %s", elem_info[from->elem].name);
    return from->elem == to->elem;
}

static void verify_broadcast(Verifier *v, const Op *op) {
    if (!keeps_elem(v, op)) return;
    const Type *from = operand(op, 0)->type, *to = result(op, 0)->type;
    bool ok = from->rank == 0 || from->rank == to->rank;
    for (int i = 0; ok && i < from->rank; i++)
        ok = from->extents[i] == to->extents[i] || from->extents[i] == 1;
    if (!ok)
        verify_fail(v, op, type_text(v->ctx, from), "a scalar or extents 1 or those of %s",
                    type_text(v->ctx, to));
}

static void verify_reshape(Verifier *v, const Op *op) {
    if (keeps_elem(v, op))
        is_count(v, op, "lanes in the result", ty_count(result(op, 0)->type),
                 ty_count(operand(op, 0)->type));
}

static void verify_permute(Verifier *v, const Op *op) {
    const Type *from = operand(op, 0)->type, *to = result(op, 0)->type;
    const Attr *perm = op_attr(op, "perm");
    if (!keeps_elem(v, op) || !is_count(v, op, "axes in perm", perm->n, from->rank)) return;
    int64_t extents[MAX_RANK];
    int seen = 0;
    for (int i = 0; i < perm->n; i++) {
        if (!in_range(v, op, "perm", perm->ints[i], 0, from->rank)) return;
        seen |= 1 << perm->ints[i];
        extents[i] = from->extents[perm->ints[i]];
    }
    if (seen != (1 << from->rank) - 1)
        verify_fail(v, op, "one twice", "each axis once in perm");
    else
        is_type(v, op, "result", 0, to, ty_block(v->ir, from->elem, from->rank, extents));
}

static void verify_slice(Verifier *v, const Op *op) {
    const Type *from = operand(op, 0)->type, *to = result(op, 0)->type;
    const Attr *start = op_attr(op, "start");
    if (!keeps_elem(v, op) || !is_count(v, op, "axes in the result", to->rank, from->rank) ||
        !is_count(v, op, "axes in start", start->n, from->rank))
        return;
    for (int i = 0; i < start->n; i++)
        if (!in_range(v, op, "start", start->ints[i], 0, from->extents[i] - to->extents[i] + 1))
            return;
}

static void verify_concat(Verifier *v, const Op *op) {
    if (!operands_at_least(v, op, 1) || !keeps_elem(v, op)) return;
    Type t = *operand(op, 0)->type;
    int64_t axis = op_int(op, "axis", 0), sum = 0;
    if (!is_axis(v, op, &t)) return;
    for (int i = 0; i < op->n_operands; i++) {
        const Type *part = operand(op, i)->type;
        t.extents[axis] = part->rank == t.rank ? part->extents[axis] : t.extents[axis];
        if (!operand_is(v, op, i, ty_block(v->ir, t.elem, t.rank, t.extents))) return;
        sum += t.extents[axis];
    }
    t.extents[axis] = sum;
    result_is(v, op, 0, ty_block(v->ir, t.elem, t.rank, t.extents));
}

static void verify_cast(Verifier *v, const Op *op) {
    const Type *from = operand(op, 0)->type, *to = result(op, 0)->type;
    if (is_kind(v, op, 0, TK_BLOCK) && is_block_result(v, op))
        is_type(v, op, "result", 0, to, ty_with_elem(v->ir, from, to->elem));
}

static void verify_bitcast(Verifier *v, const Op *op) {
    const Type *from = operand(op, 0)->type, *to = result(op, 0)->type;
    verify_cast(v, op);
    int bits = elem_info[from->elem].bits;
    if (elem_info[to->elem].bits != bits || from->elem == EL_BOOL || to->elem == EL_BOOL)
        verify_fail(v, op, type_text(v->ctx, to), "elements of %d bits, none of them bool", bits);
}

static void verify_select(Verifier *v, const Op *op) {
    const Type *t = result(op, 0)->type;
    if (is_block_result(v, op) && operand_is(v, op, 0, ty_with_elem(v->ir, t, EL_BOOL)) &&
        operand_is(v, op, 1, t))
        operand_is(v, op, 2, t);
}

/* ---- whole blocks -------------------------------------------------------------------------- */

/// What products of this element are summed in; EL_COUNT where there is no dot.
static Elem sum_elem(Elem e) {
    const ElemInfo *info = &elem_info[e];
    if (info->cls == EC_FLOAT) return info->bits <= 32 ? EL_F32 : EL_F64;
    return info->cls & EC_INT && info->bits == 8 ? EL_I32 : EL_COUNT;
}

/// a <m, k> times b <k, n> fit and add up in a result of type c.
static bool multiplies(Verifier *v, const Op *op, const Type *a, const Type *b, const Type *c) {
    static const char *const precisions[] = {"ieee", "tf32", "tf32x3", NULL};
    bool fits = ty_is_block(a) && ty_is_block(b) && a->rank == 2 && b->rank == 2 &&
                a->extents[1] == b->extents[0] && sum_elem(a->elem) != EL_COUNT &&
                sum_elem(a->elem) == sum_elem(b->elem);
    if (!fits) {
        verify_fail(v, op,
                    ctx_format(v->ctx, "%s and %s", type_text(v->ctx, a), type_text(v->ctx, b)),
                    "a <m, k> and b <k, n> of floats or 8-bit integers");
        return false;
    }
    int64_t extents[] = {a->extents[0], b->extents[1]};
    return is_type(v, op, "result", 0, c, ty_block(v->ir, sum_elem(a->elem), 2, extents)) &&
           is_one_of(v, op, "precision", precisions);
}

static void verify_dot(Verifier *v, const Op *op) {
    const Type *c = result(op, 0)->type;
    if (in_range(v, op, "operands", op->n_operands, 2, 4) &&
        multiplies(v, op, operand(op, 0)->type, operand(op, 1)->type, c) && op->n_operands == 3)
        operand_is(v, op, 2, c);
}

static void verify_contract(Verifier *v, const Op *op) {
    const Type *c = result(op, 0)->type;
    int64_t step = op_int(op, "step", 0);
    if (!is_count(v, op, "operands", op->n_operands, 3) || !is_index(v, op, 0) ||
        !is_index(v, op, 1) || !operand_is(v, op, 2, c) ||
        !in_range(v, op, "step", step, 1, INT64_MAX) || !takes_index(v, op))
        return;
    const Op *end = terminator(op->regions[0]);
    if (!end || !is_count(v, op, "yielded values", end->n_operands, 2)) return;
    const Type *a = operand(end, 0)->type;
    if (multiplies(v, op, a, operand(end, 1)->type, c))
        is_count(v, op, "columns of a (the step)", a->extents[1], step);
}

/// Operands 0 .. n - 1 are blocks of one shape that has the axis.
static bool are_aligned(Verifier *v, const Op *op, int n) {
    if (!operands_at_least(v, op, n < 1 ? 1 : n) || !is_kind(v, op, 0, TK_BLOCK)) return false;
    const Type *first = operand(op, 0)->type;
    for (int i = 1; i < n; i++)
        if (!operand_is(v, op, i, ty_with_shape(v->ir, operand(op, i)->type, first))) return false;
    return is_axis(v, op, first);
}

/// The region joins two tuples of scalars with the elements of operands 0 .. n - 1.
static void joins_operands(Verifier *v, const Op *op, int n) {
    const Type **types = ctx_array(v->ctx, const Type *, n);
    for (int i = 0; i < n; i++) types[i] = ty_scalar(v->ir, operand(op, i)->type->elem);
    if (takes(v, op, 0, 2 * n, twice(v, n, types)) && yields(v, op, 0, n, types))
        has_pure_region(v, op);
}

static const Type *without_axis(Ir *ir, const Type *t, int64_t axis) {
    int64_t extents[MAX_RANK];
    for (int i = 0; i < t->rank; i++)
        if (i != axis) extents[i - (i > axis)] = t->extents[i];
    return ty_block(ir, t->elem, t->rank - 1, extents);
}

static void verify_reduce(Verifier *v, const Op *op) {
    static const char *const orders[] = {"fixed", NULL};
    int n = op->n_operands;
    if (!are_aligned(v, op, n) || !is_count(v, op, "results", op->n_results, n) ||
        !is_one_of(v, op, "order", orders))
        return;
    for (int i = 0; i < n; i++)
        if (!result_is(v, op, i, without_axis(v->ir, operand(op, i)->type, op_int(op, "axis", 0))))
            return;
    joins_operands(v, op, n);
}

/// Result i has the type of operand i.
static bool results_like_operands(Verifier *v, const Op *op) {
    for (int i = 0; i < op->n_results; i++)
        if (!result_is(v, op, i, operand(op, i)->type)) return false;
    return true;
}

static void verify_scan(Verifier *v, const Op *op) {
    int n = op->n_results;
    bool exclusive = op_flag(op, "exclusive");
    if (!is_count(v, op, "operands", op->n_operands, exclusive ? 2 * n : n) ||
        !are_aligned(v, op, n) || !results_like_operands(v, op))
        return;
    for (int i = 0; exclusive && i < n; i++)
        if (!operand_is(v, op, n + i, ty_scalar(v->ir, operand(op, i)->type->elem))) return;
    joins_operands(v, op, n);
}

static void verify_sort(Verifier *v, const Op *op) {
    if (are_aligned(v, op, op->n_operands) &&
        is_count(v, op, "results", op->n_results, op->n_operands))
        results_like_operands(v, op);
}

static void verify_histogram(Verifier *v, const Op *op) {
    if (!in_range(v, op, "operands", op->n_operands, 1, 3) || !is_kind(v, op, 0, TK_BLOCK)) return;
    const Type *x = operand(op, 0)->type, *r = result(op, 0)->type;
    if (!elem_is(x->elem, EC_INT))
        verify_fail(v, op, type_text(v->ctx, x), "integers");
    else if (op->n_operands == 2)
        operand_is(v, op, 1, ty_with_elem(v->ir, x, EL_BOOL));
    if (!ty_is_block(r) || r->elem != EL_I32 || r->rank != 1)
        verify_fail(v, op, type_text(v->ctx, r), "a result of i32, rank 1");
}

static void verify_gather(Verifier *v, const Op *op) {
    if (!is_kind(v, op, 0, TK_BLOCK) || !is_axis(v, op, operand(op, 0)->type) ||
        !is_kind(v, op, 1, TK_BLOCK))
        return;
    Type like = *operand(op, 0)->type;
    const Type *indices = operand(op, 1)->type;
    int64_t axis = op_int(op, "axis", 0);
    if (indices->rank == like.rank) like.extents[axis] = indices->extents[axis];
    const Type *want = ty_block(v->ir, EL_I64, like.rank, like.extents);
    if (operand_is(v, op, 1, want)) result_is(v, op, 0, ty_with_elem(v->ir, want, like.elem));
}

/* ---- tensors ------------------------------------------------------------------------------- */

static void verify_align(Verifier *v, const Op *op) {
    if (is_kind(v, op, 0, TK_TENSOR)) result_is(v, op, 0, ty_scalar(v->ir, EL_I64));
}

static void verify_dim(Verifier *v, const Op *op) {
    if (is_kind(v, op, 0, TK_TENSOR) && is_axis(v, op, operand(op, 0)->type)) verify_align(v, op);
}

/// Operands before those of the subscript: tensors, then pad or values.
static int access_head(const Op *op) {
    switch (op->code) {
    case OP_LIVE: return 1;
    case OP_COMBINE: return 2 * (int)op_int(op, "n", 1);
    case OP_ATOMIC: return strcmp(op_str(op, "op"), "cas") == 0 ? 3 : 2;
    default: return 2;
    }
}

/// All tensors have one rank, and the subscript speaks of each dimension.
static bool subscripts_match(Verifier *v, const Op *op) {
    int n_tensors = op->code == OP_COMBINE ? (int)op_int(op, "n", 1) : 1;
    for (int i = 0; i < n_tensors; i++)
        if (!is_kind(v, op, i, TK_TENSOR) ||
            !is_count(v, op, "dimensions in subs", op_attr(op, "subs")->n,
                      operand(op, i)->type->rank))
            return false;
    return true;
}

/// The operands of dimension d, from operand `at` on; `pick` is the type of the first pick.
static bool verify_sub(Verifier *v, const Op *op, const SubDim *d, int at, const Type **pick) {
    if (d->kind == DIM_AT) return is_index(v, op, at);
    if (d->kind == DIM_AXIS)
        return is_index(v, op, at) && is_index(v, op, at + 1) &&
               in_range(v, op, "axis size", d->size, 1, MAX_LANES + 1) &&
               in_range(v, op, "axis factor", d->mul, 1, INT64_MAX);
    const Type *t = operand(op, at)->type;
    if (!*pick && (!ty_is_block(t) || t->rank == 0 || t->elem != EL_I64)) {
        verify_fail(v, op, type_text(v->ctx, t), "operand %d to be an i64 block", at + 1);
        return false;
    }
    *pick = *pick ? *pick : t;
    return operand_is(v, op, at, *pick);
}

/// The subscript is sound, so that access_of may read it.
static bool verify_subs(Verifier *v, const Op *op) {
    const Attr *subs = op_attr(op, "subs");
    if (op->code == OP_COMBINE && !in_range(v, op, "n", op_int(op, "n", 1), 1, 1 << 16))
        return false;
    int head = access_head(op), n = head;
    if (!operands_at_least(v, op, head) || !subscripts_match(v, op)) return false;
    for (int d = 0; d < subs->n; d++) n += subs->subs[d].kind == DIM_AXIS ? 2 : 1;
    if (!in_range(v, op, "operands", op->n_operands, n, n + 2)) return false;
    const Type *pick = NULL;
    for (int d = 0, at = head; d < subs->n; d++) {
        if (!verify_sub(v, op, &subs->subs[d], at, &pick)) return false;
        at += subs->subs[d].kind == DIM_AXIS ? 2 : 1;
    }
    return true;
}

static bool verify_inside(Verifier *v, const Op *op) {
    const Attr *inside = op_attr(op, "inside");
    if (!inside) return true;
    bool ok = is_count(v, op, "dimensions in inside", inside->n, op_attr(op, "subs")->n);
    for (int i = 0; ok && i < inside->n; i++) ok = in_range(v, op, "inside", inside->ints[i], 0, 3);
    return ok;
}

/// Checks an access up to the block it moves, and returns the shape of that as a bool block, or
/// NULL.
static const Type *verify_access(Verifier *v, const Op *op) {
    if (!verify_subs(v, op) || !verify_inside(v, op)) return NULL;
    Access a = access_of(op);
    if (!in_range(v, op, "rank of the block", a.rank, 0, MAX_RANK + 1)) return NULL;
    const Type *picks = ty_block(v->ir, EL_BOOL, a.pick_rank, a.pick_extents);
    if (a.mask && !operand_is(v, op, op->n_operands - 1, picks)) return NULL;
    return ty_block(v->ir, EL_BOOL, a.rank, a.extents);
}

static const Type *moved(Verifier *v, const Op *op, const Type *shape) {
    return ty_with_elem(v->ir, shape, operand(op, 0)->type->elem);
}

static void verify_load(Verifier *v, const Op *op) {
    const Type *shape = verify_access(v, op);
    if (shape && operand_is(v, op, 1, ty_scalar(v->ir, operand(op, 0)->type->elem)))
        result_is(v, op, 0, moved(v, op, shape));
}

static void verify_live(Verifier *v, const Op *op) {
    const Type *shape = verify_access(v, op);
    if (shape) result_is(v, op, 0, shape);
}

static void verify_store(Verifier *v, const Op *op) {
    const Type *shape = verify_access(v, op);
    if (shape) operand_is(v, op, 1, moved(v, op, shape));
}

static void verify_atomic(Verifier *v, const Op *op) {
    static const char *const names[] = {"add", "max",  "min", "and", "or",
                                        "xor", "xchg", "cas", NULL};
    const Type *shape = is_one_of(v, op, "op", names) ? verify_access(v, op) : NULL;
    if (!shape) return;
    const Type *t = moved(v, op, shape);
    OpCode code = op_by_name(op_str(op, "op"));
    int classes = code == OP_COUNT ? EC_ANY : op_info[code].classes;
    if (!elem_is(t->elem, classes) || elem_info[t->elem].bits < 8)
        verify_fail(v, op, elem_info[t->elem].name, "an element that has %s", op_str(op, "op"));
    if (operand_is(v, op, 1, t) && result_is(v, op, 0, t) && access_head(op) == 3)
        operand_is(v, op, 2, t);
}

/// Values may come in the tensor's element or in that of the fold, which may be wider than both.
static void verify_combine(Verifier *v, const Op *op) {
    const Type *shape = verify_access(v, op);
    int n = (int)op_int(op, "n", 1);
    const Region *r = op->regions[0];
    if (!shape || !is_count(v, op, "region arguments", r->n_args, 2 * n)) return;
    const Type **types = ctx_array(v->ctx, const Type *, n);
    for (int i = 0; i < n; i++) {
        const Type *value = operand(op, n + i)->type;
        if (!operand_is(v, op, n + i, ty_with_elem(v->ir, shape, value->elem))) return;
        types[i] = ty_scalar(v->ir, r->args[i]->type->elem);
    }
    if (takes(v, op, 0, 2 * n, twice(v, n, types)) && yields(v, op, 0, n, types))
        has_pure_region(v, op);
}

static void verify_scratch(Verifier *v, const Op *op) {
    const Type *t = result(op, 0)->type;
    if (t->kind != TK_TENSOR)
        verify_fail(v, op, type_text(v->ctx, t), "a tensor result");
    else if (is_count(v, op, "dimensions", op->n_operands, t->rank))
        for (int i = 0; i < t->rank; i++) is_index(v, op, i);
}

/* ---- effects ------------------------------------------------------------------------------- */

/// Each operand from `first` on has its {} in the text, so that no value goes unseen.
static void shows_values(Verifier *v, const Op *op, int first) {
    int places = 0;
    for (const char *s = op_str(op, "text"); (s = strstr(s, "{}")); s += 2) places++;
    if (places < op->n_operands - first)
        verify_fail(v, op, number(v, places), "%d {} in text", op->n_operands - first);
    for (int i = first; i < op->n_operands; i++) is_kind(v, op, i, TK_BLOCK);
}

static void verify_require(Verifier *v, const Op *op) {
    if (operands_at_least(v, op, 1) && operand_is(v, op, 0, ty_scalar(v->ir, EL_BOOL)))
        shows_values(v, op, 1);
}

static void verify_assert(Verifier *v, const Op *op) {
    if (!operands_at_least(v, op, 1) || !is_kind(v, op, 0, TK_BLOCK)) return;
    const Type *t = operand(op, 0)->type;
    if (operand_is(v, op, 0, ty_with_elem(v->ir, t, EL_BOOL))) shows_values(v, op, 1);
}

static void verify_print(Verifier *v, const Op *op) {
    shows_values(v, op, 0);
}

// Elementwise ops and yield need no more than their rows say.
VerifyRule *const verify_rules[OP_COUNT] = {
    [OP_MODULE] = verify_module,
    [OP_KERNEL] = verify_kernel,
    [OP_FUNC] = verify_func,
    [OP_CALL] = verify_call,
    [OP_PARALLEL] = verify_parallel,
    [OP_FOR] = verify_for,
    [OP_WHILE] = verify_while,
    [OP_IF] = verify_if,
    [OP_CONST] = verify_const,
    [OP_IOTA] = verify_iota,
    [OP_BROADCAST] = verify_broadcast,
    [OP_RESHAPE] = verify_reshape,
    [OP_PERMUTE] = verify_permute,
    [OP_SLICE] = verify_slice,
    [OP_CONCAT] = verify_concat,
    [OP_CAST] = verify_cast,
    [OP_BITCAST] = verify_bitcast,
    [OP_SELECT] = verify_select,
    [OP_DOT] = verify_dot,
    [OP_REDUCE] = verify_reduce,
    [OP_SCAN] = verify_scan,
    [OP_SORT] = verify_sort,
    [OP_HISTOGRAM] = verify_histogram,
    [OP_GATHER] = verify_gather,
    [OP_DIM] = verify_dim,
    [OP_STRIDE] = verify_dim,
    [OP_ALIGN] = verify_align,
    [OP_LOAD] = verify_load,
    [OP_LIVE] = verify_live,
    [OP_STORE] = verify_store,
    [OP_ATOMIC] = verify_atomic,
    [OP_COMBINE] = verify_combine,
    [OP_SCRATCH] = verify_scratch,
    [OP_REQUIRE] = verify_require,
    [OP_ASSERT] = verify_assert,
    [OP_PRINT] = verify_print,
    [OP_LAUNCH] = verify_launch,
    [OP_CONTRACT] = verify_contract,
};
