// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Finds the peer of a wait without `peer =`: the rank of the only raise of its word. That raise
// goes to a shard `to` of the raising rank,
//
//     to = a rank + b W + c, or that % W, where a is 1 or -1,
//
// so it comes from a (to - b W - c), or that modulo W. Only messages and traces use the peer.
#include "frontend/elab/elab_ranks.h"

typedef struct RankLinear {
    int64_t rank, ranks, plus;
} RankLinear;

enum { DEPTH = 8 };

/// Whether v is the number of ranks: its dim, or its known value.
static bool is_ranks(const Elab *e, const Value *v) {
    int64_t a, b;
    if (def_of(v, OP_DIM)) return el_dim_is_ranks(e, v->def);
    return const_int(v, &a) && const_int(el_ranks(e), &b) && a == b;
}

/// Reads v as a sum of the rank, the number of ranks and a constant. False: v has another form.
static bool read_linear(const Elab *e, const Value *v, int64_t sign, int depth, RankLinear *out) {
    int64_t c;
    const Op *op = v->def;
    if (!op || depth == 0) return false;
    if (const_int(v, &c))
        out->plus += sign * c;
    else if (op->code == OP_RANK)
        out->rank += sign;
    else if (is_ranks(e, v))
        out->ranks += sign;
    else if (op->code == OP_ADD || op->code == OP_SUB)
        return read_linear(e, operand(op, 0), sign, depth - 1, out) &&
               read_linear(e, operand(op, 1), op->code == OP_SUB ? -sign : sign, depth - 1, out);
    else
        return false;
    return true;
}

static Value *build_from(Elab *e, Op *wait, const RankLinear *to, bool wraps) {
    Builder b = build_before(e->ir, wait);
    Value *rank = el_rank(e), *ranks = el_ranks(e);
    Value *shift = build_binary(&b, OP_MUL, ranks, build_index(&b, to->ranks));
    shift = build_binary(&b, OP_ADD, shift, build_index(&b, to->plus));
    Value *from = to->rank == 1 ? build_binary(&b, OP_SUB, rank, shift)
                                : build_binary(&b, OP_SUB, shift, rank);
    if (!wraps) return from;
    from = build_binary(&b, OP_ADD, build_binary(&b, OP_REM, from, ranks), ranks);
    return build_binary(&b, OP_REM, from, ranks);
}

void el_name_peer(Elab *e, Op *wait, const Op *raise) {
    const Value *shard = operand(raise, 2);
    const Op *rem = def_of(shard, OP_REM);
    bool wraps = rem && is_ranks(e, operand(rem, 1));
    RankLinear to = {0};
    if (!is_const_int(operand(wait, 3), -1) ||
        !read_linear(e, wraps ? operand(rem, 0) : shard, 1, DEPTH, &to) ||
        (to.rank != 1 && to.rank != -1))
        return;
    const char *name = operand(wait, 0)->name;
    op_set_operand(wait, 3, build_from(e, wait, &to, wraps));
    op_set_str(e->ir, wait, A_TEXT,
               ctx_format(e->ctx, "rank {} to raise signal {} of '%s'", name ? name : "?"));
}
