// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The verifier's rules for shared memory and asynchrony.
//
// Types enforce waiting before use: a pending value is not a block, and only the ops in this file
// take it.
#include "ir/verify/verify.h"

/// Checks for a block of that shape and element; layouts may differ.
static bool want_same_elements(Verifier *v, const Op *op, const char *what, int i,
                               const Type *found, const Type *like) {
    return want_type(v, op, what, i, ty_is_block(found) ? ty_plain(v->ir, found) : found,
                     ty_block(v->ir, like->elem, like->rank, like->extents));
}

static bool want_bool(Verifier *v, const Op *op, int i) {
    return want_operand(v, op, i, ty_scalar(v->ir, EL_BOOL));
}

static bool want_result_kind(Verifier *v, const Op *op, TypeKind kind, const char *name) {
    const Type *t = result(op, 0)->type;
    if (t->kind != kind) verify_fail(v, op, type_text(v->ctx, t), "a result that is a %s", name);
    return t->kind == kind;
}

/// Checks a placing: a swizzle is one of TMA's, and rows consist of whole panels of that many
/// bytes.
static void verify_placing(Verifier *v, const Op *op, const Type *t) {
    bool panels = t->swizzle == 32 || t->swizzle == 64 || t->swizzle == 128;
    if (t->swizzle && (!panels || t->pad))
        verify_fail(v, op, type_text(v->ctx, t), "rows of panels of 32, 64 or 128 bytes");
}

void verify_desc(Verifier *v, const Op *op) {
    if (!want_kind(v, op, 0, TK_TENSOR) || !want_result_kind(v, op, TK_DESC, "desc")) return;
    const Type *from = operand(op, 0)->type, *to = result(op, 0)->type;
    if (from->elem != to->elem || from->rank != to->rank)
        verify_fail(v, op, type_text(v->ctx, to), "the element and the rank of the tensor");
    else
        verify_placing(v, op, to);
}

void verify_buf_alloc(Verifier *v, const Op *op) {
    if (want_result_kind(v, op, TK_BUF, "buf")) verify_placing(v, op, result(op, 0)->type);
}

/// Whole panels of a swizzled buffer lie one behind the other, so they are a buffer, too.
static void want_panels(Verifier *v, const Op *op, const Type *from, const int64_t *perm) {
    const Attr *start = op_ints(op, A_START);
    int inner = from->inner;
    if (!want_count(v, op, "axes", from->rank, 2) || !want_range(v, op, "perm", perm[0], 0, 1) ||
        !want_count(v, op, "coordinates of start", start->n, 2) ||
        !want_range(v, op, "the swizzle", from->swizzle, 1, INT32_MAX))
        return;
    int64_t panel = from->swizzle / (elem_info[from->elem].bits / 8);
    int64_t extents[2] = {from->extents[0], from->extents[1]}, first = start->ints[inner];
    int64_t width = result(op, 0)->type->extents[inner];
    if (!want_count(v, op, "rows before the view", start->ints[!inner], 0) ||
        !want_range(v, op, "start", first, 0, extents[inner] - width + 1) ||
        !want_count(v, op, "columns of a part of a panel", first % panel + width % panel, 0))
        return;
    extents[inner] = width;
    want_result(v, op, 0, ty_buf(v->ir, from->elem, 2, extents, from->swizzle, inner, from->pad));
}

void verify_buf_view(Verifier *v, const Op *op) {
    const Attr *perm = op_ints(op, A_PERM);
    const Type *from = operand(op, 0)->type;
    if (!want_kind(v, op, 0, TK_BUF) || !want_count(v, op, "axes in perm", perm->n, from->rank))
        return;
    int seen = 0;
    for (int i = 0; i < perm->n; i++) {
        if (!want_range(v, op, "perm", perm->ints[i], 0, from->rank)) return;
        seen |= 1 << perm->ints[i];
    }
    if (!want_count(v, op, "axes named", __builtin_popcount((unsigned)seen), from->rank)) return;
    if (op_attr(op, ATTR_START))
        want_panels(v, op, from, perm->ints);
    else
        want_result(v, op, 0, ty_buf_permuted(v->ir, from, perm->ints));
}

void verify_buf_load(Verifier *v, const Op *op) {
    if (want_kind(v, op, 0, TK_BUF))
        want_same_elements(v, op, "result", 0, result(op, 0)->type, operand(op, 0)->type);
}

void verify_buf_store(Verifier *v, const Op *op) {
    if (want_kind(v, op, 0, TK_BUF))
        want_same_elements(v, op, "operand", 1, operand(op, 1)->type, operand(op, 0)->type);
}

void verify_buf_pad(Verifier *v, const Op *op) {
    if (want_kind(v, op, 0, TK_BUF) && want_axis(v, op, operand(op, 0)->type)) want_index(v, op, 1);
}

/// Checks (desc, buf, ..., coordinates from operand `first` on): each dimension with more than one
/// element is an axis of the buffer.
static bool verify_box(Verifier *v, const Op *op, int first) {
    const Attr *axes = op_ints(op, A_AXES);
    if (!want_operands(v, op, first) || !want_kind(v, op, 0, TK_DESC) ||
        !want_kind(v, op, 1, TK_BUF))
        return false;
    const Type *desc = operand(op, 0)->type, *buf = operand(op, 1)->type;
    if (!want_count(v, op, "operands", op->n_operands, first + desc->rank) ||
        !want_count(v, op, "dimensions in axes", axes->n, desc->rank))
        return false;
    for (int d = 0; d < desc->rank; d++)
        if (!want_index(v, op, first + d) ||
            !want_range(v, op, "axes", axes->ints[d], -1, buf->rank) ||
            (axes->ints[d] < 0 && !want_count(v, op, "elements of the box", desc->extents[d], 1)))
            return false;
    bool same = desc->elem == buf->elem && desc->swizzle == buf->swizzle;
    if (!same)
        verify_fail(v, op, type_text(v->ctx, buf), "the element and the swizzle of the desc");
    return same;
}

void verify_copy_tma(Verifier *v, const Op *op) {
    if (verify_box(v, op, 2)) want_result(v, op, 0, ty_pending(v->ir, NULL));
}

void verify_copyout_tma(Verifier *v, const Op *op) {
    if (verify_box(v, op, 3) &&
        want_same_elements(v, op, "operand", 2, operand(op, 2)->type, operand(op, 1)->type))
        want_range(v, op, "in_flight", op_int(op, A_IN_FLIGHT, 0), 0, 8);
}

void verify_mma_start(Verifier *v, const Op *op) {
    if (op->n_operands != 4 && !want_count(v, op, "operands", op->n_operands, 3)) return;
    if (op->n_operands == 4 && !want_bool(v, op, 3)) return;
    const Type *a = operand(op, 0)->type, *b = operand(op, 1)->type, *c = operand(op, 2)->type;
    const Type *acc = ty_promised(c) ? ty_promised(c) : c;
    if (!want_kind(v, op, 1, TK_BUF)) return;
    bool fits = (ty_is_block(a) || a->kind == TK_BUF) && ty_is_block(acc) && a->rank == 2 &&
                b->rank == 2 && acc->rank == 2 && a->extents[1] == b->extents[0] &&
                a->extents[0] == acc->extents[0] && b->extents[1] == acc->extents[1];
    if (!fits)
        verify_fail(v, op, type_text(v->ctx, a), "a <m, k>, b <k, n> and c <m, n>");
    else
        want_result(v, op, 0, ty_pending(v->ir, acc));
}

void verify_settled(Verifier *v, const Op *op) {
    if (want_kind(v, op, 0, TK_BLOCK))
        want_result(v, op, 0, ty_pending(v->ir, operand(op, 0)->type));
}

void verify_blank(Verifier *v, const Op *op) {
    const Type *t = result(op, 0)->type;
    if (!want_bool(v, op, 0)) return;
    if (!ty_is_block(t) || (t->elem != EL_F32 && t->elem != EL_I32))
        verify_fail(v, op, type_text(v->ctx, t), "a block of f32 or i32");
}

/// An await returns blocks for pending operands, in order, either ready or still pending; a token
/// has no result.
void verify_await(Verifier *v, const Op *op) {
    if (op->n_results && !want_count(v, op, "results", op->n_results, op->n_operands)) return;
    for (int i = 0; i < op->n_operands; i++) {
        const Type *t = operand(op, i)->type, *block = ty_promised(t);
        bool ok = t->kind == TK_PENDING && (op->n_results > 0) == (block != NULL) &&
                  (!block || result(op, i)->type == block || result(op, i)->type == t);
        if (!ok) verify_fail(v, op, type_text(v->ctx, t), "pending blocks and as many results");
    }
    want_range(v, op, "in_flight", op_int(op, A_IN_FLIGHT, 0), 0, 8);
}

/* ---- rings --------------------------------------------------------------------------------- */

void verify_ring_make(Verifier *v, const Op *op) {
    const Type *t = result(op, 0)->type;
    if (!want_result_kind(v, op, TK_RING, "ring") || !want_range(v, op, "slots", t->slots, 1, 65))
        return;
    for (int i = 0; i < t->n_parts; i++) verify_placing(v, op, t->parts[i]);
}

/// Checks the operands (ring, n). The lowering needs the definition of the ring.
static bool names_item(Verifier *v, const Op *op) {
    if (!want_operands(v, op, 2) || !want_kind(v, op, 0, TK_RING) || !want_index(v, op, 1))
        return false;
    const Op *def = operand(op, 0)->def;
    if (!def || def->code != OP_RING_MAKE)
        verify_fail(v, op, def ? op_info[def->code].name : "an argument", "a ring of ring_make");
    return def && def->code == OP_RING_MAKE;
}

static void gives_buffers(Verifier *v, const Op *op) {
    const Type *ring = operand(op, 0)->type;
    bool scalar = op->code == OP_RING_WAIT && op_flag(operand(op, 0)->def, A_SCALAR);
    if (!want_count(v, op, "results", op->n_results, ring->n_parts + scalar)) return;
    if (scalar) want_result(v, op, ring->n_parts, ty_scalar(v->ir, EL_I64));
    for (int i = 0; i < ring->n_parts; i++) want_result(v, op, i, ring->parts[i]);
}

void verify_ring_acquire(Verifier *v, const Op *op) {
    if (names_item(v, op) && want_bool(v, op, 2)) gives_buffers(v, op);
}

void verify_ring_commit(Verifier *v, const Op *op) {
    if (!names_item(v, op) || !want_operands(v, op, 3) || !want_bool(v, op, 2)) return;
    bool scalar = op_flag(operand(op, 0)->def, A_SCALAR);
    if (scalar && (!want_operands(v, op, 4) || !want_index(v, op, op->n_operands - 1))) return;
    for (int i = 3; i < op->n_operands - scalar; i++)
        want_operand(v, op, i, ty_pending(v->ir, NULL));
}

void verify_ring_wait(Verifier *v, const Op *op) {
    if (names_item(v, op)) gives_buffers(v, op);
}

void verify_ring_release(Verifier *v, const Op *op) {
    if (names_item(v, op)) want_bool(v, op, 2);
}

void verify_take_tile(Verifier *v, const Op *op) {
    const Type *t = operand(op, 0)->type;
    if (!want_kind(v, op, 0, TK_TENSOR)) return;
    if (t->elem != EL_I32 || t->rank != 1)
        verify_fail(v, op, type_text(v->ctx, t), "a counter of one i32");
    want_index(v, op, 1);
    want_result(v, op, 0, ty_scalar(v->ir, EL_I64));
}

/* ---- roles --------------------------------------------------------------------------------- */

/// Returns the role that contains op, or NULL.
static const Region *role_region(const Op *op) {
    for (const Region *r = op->parent; r && r->parent; r = r->parent->parent)
        if (r->parent->code == OP_ROLES) return r;
    return NULL;
}

/// Checks that one role fills a ring. If other roles read it, all of its items pass between roles.
static void fill_in_one_role(Verifier *v, const Value *ring) {
    const Region *filler = NULL;
    for_each_use(u, ring) {
        const Op *user = u->user;
        if (user->code != OP_RING_ACQUIRE && user->code != OP_RING_COMMIT) continue;
        if (!filler) filler = role_region(user);
        if (role_region(user) != filler || !filler)
            verify_fail(v, user, op_info[user->code].name, "one role that fills the ring");
    }
}

/// Checks that roles are in the body of a device, with their rings in front of them.
void verify_roles(Verifier *v, const Op *op) {
    const Attr *names = op_strs(op, A_ROLE_NAMES), *warps = op_ints(op, A_ROLE_WARPS);
    const Attr *regs = op_ints(op, A_ROLE_REGISTERS);
    if (!want_count(v, op, "names", names->n, op->n_regions) ||
        !want_count(v, op, "numbers of warps", warps->n, op->n_regions) ||
        (regs && !want_count(v, op, "numbers of registers", regs->n, op->n_regions)))
        return;
    for (int i = 0; i < op->n_regions; i++)
        if (!want_range(v, op, "warps", warps->ints[i], 1, 33) || !want_args(v, op, i, 0, NULL) ||
            !want_yields(v, op, i, 0, NULL))
            return;
    const Op *home = op->parent ? op->parent->parent : NULL;
    if (!home || home->code != OP_DEVICE) {
        verify_fail(v, op, home ? op_info[home->code].name : "nothing", "a device around it");
        return;
    }
    for_each_op(make, op->parent) {
        if (make->code == OP_RING_MAKE) fill_in_one_role(v, result(make, 0));
    }
}
