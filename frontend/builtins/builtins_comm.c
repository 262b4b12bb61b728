// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Builtins for several ranks, with OpenSHMEM's names. A place in a shard is an ordinary place, so
// `put` and `get` are a store and a load. In addition the place must be symmetric, and `fence`,
// `quiet` and signals order the accesses.
#include "frontend/builtins/builtins_private.h"

Val bi_my_pe(Elab *e, const Call *call) {
    return el_has_ranks(e, call->loc, "'my_pe'") ? val_ir(el_rank(e)) : val_error();
}

Val bi_n_pes(Elab *e, const Call *call) {
    return el_has_ranks(e, call->loc, "'n_pes'") ? val_ir(el_ranks(e)) : val_error();
}

/// Evaluates argument i as a place in a shard.
static bool sym_place(Elab *e, const Call *call, int i, Place *out) {
    if (!el_place(e, call->exprs[i], call->builtin->name, out)) return false;
    if (out->tensor->shard) return true;
    el_fail(e, call->locs[i], D_NOT_SYM, call->builtin->name);
    return false;
}

Val bi_put(Elab *e, const Call *call) {
    Place p;
    if (!sym_place(e, call, 0, &p)) return val_error();
    el_store(e, call->loc, &p, call->args[1]);
    return val_void();
}

Val bi_get(Elab *e, const Call *call) {
    Place p;
    return sym_place(e, call, 0, &p) ? el_load(e, call->loc, &p) : val_error();
}

/* ---- signals ------------------------------------------------------------------------------- */

/// Evaluates argument i as a place of one i64 word.
static bool word_place(Elab *e, const Call *call, int i, Place *out) {
    if (!sym_place(e, call, i, out)) return false;
    if (out->tensor->elem == EL_I64 && out->type->rank == 0) return true;
    el_fail(e, call->locs[i], D_SIGNAL_WORD, call->builtin->name, type_words(e, out->type));
    return false;
}

/// Builds a signal op with the operands (words, `n` of `first`, coordinates...). A place of rank 0
/// has one coordinate for each dimension.
static Op *build_signal(Elab *e, const Call *call, OpCode code, const Place *p, int n,
                        Value *const *first) {
    Value *operands[MAX_RANK + 4] = {p->tensor->v};
    for (int i = 0; i < n; i++) operands[i + 1] = first[i];
    for (int i = 0; i < p->n_operands; i++) operands[n + 1 + i] = p->operands[i];
    e->b.loc = el_loc(e, call->loc);
    if (p->tensor->use)
        *(code == OP_SIGNAL_SET ? &p->tensor->use->written : &p->tensor->use->read) = true;
    return build_op(&e->b, code, n + 1 + p->n_operands, operands, 0, NULL, 0);
}

static Val elab_signal_set(Elab *e, const Call *call, int at, Val value) {
    Place p;
    if (!word_place(e, call, at, &p)) return val_error();
    Value *v = el_index(e, call->loc, value, "a signal");
    if (!v) return val_error();
    Op *op = build_signal(e, call, OP_SIGNAL_SET, &p, 1, &v);
    bool given = !val_is(call->named[0], V_ABSENT);
    op_set_update(e->ir, op, given ? update_of_word(call->named[0].word) : UPDATE_SET);
    return val_void();
}

Val bi_put_signal(Elab *e, const Call *call) {
    Val put = bi_put(e, call);
    return put.kind == V_ERROR ? put : elab_signal_set(e, call, 2, call->args[3]);
}

Val bi_signal_op(Elab *e, const Call *call) {
    return elab_signal_set(e, call, 0, call->args[1]);
}

/// Returns the comparison that v is as an argument of signal_wait.
static Compare comparison_of(Val v) {
    return v.kind == V_FN && v.fn.builtin ? compare_of_word(v.fn.builtin->name) : COMPARE_ABSENT;
}

Val bi_signal_wait(Elab *e, const Call *call) {
    Place p;
    if (!word_place(e, call, 0, &p)) return val_error();
    if (!def_of(p.tensor->shard, OP_RANK)) {
        el_fail(e, call->locs[0], D_WAIT_PLACE);
        diag_hint(e->ctx, "the rank that is waited for raises %s[rank][...]", p.tensor->name);
        return val_error();
    }
    Compare compare = comparison_of(call->args[1]);
    if (!compare) return el_fail(e, call->locs[1], D_SIGNAL_COMPARE, val_text(e, call->args[1]));
    bool anyone = val_is(call->named[0], V_ABSENT);
    Val peer = anyone ? val_int(-1) : call->named[0];
    Value *first[3] = {el_control(e), el_index(e, call->locs[2], call->args[2], "a signal"),
                       el_index(e, call->loc, peer, "a rank")};
    if (!first[1] || !first[2]) return val_error();
    Op *op = build_signal(e, call, OP_SIGNAL_WAIT, &p, 3, first);
    op_set_compare(e->ir, op, compare);
    const char *who = anyone ? "a rank (peer = {})" : "rank {}";
    op_set_str(e->ir, op, A_TEXT,
               ctx_format(e->ctx, "%s to raise signal {} of '%s'", who, p.tensor->name));
    return val_void();
}

/* ---- order --------------------------------------------------------------------------------- */

Val bi_fence(Elab *e, const Call *call) {
    if (!el_has_ranks(e, call->loc, call->builtin->arg ? "'quiet'" : "'fence'")) return val_error();
    Op *op = build_op(&e->b, OP_COMM_FENCE, 0, NULL, 0, NULL, 0);
    if (call->builtin->arg) op_set_flag(e->ir, op, A_QUIET, true);
    return val_void();
}

Val bi_barrier_all(Elab *e, const Call *call) {
    if (e->frame || !el_has_ranks(e, call->loc, "'barrier_all'")) return val_error();
    build_op(&e->b, OP_COMM_BARRIER, 0, NULL, 0, NULL, 0);
    return val_void();
}
