// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Loops and branches that carry whole blocks: the blocks lie in buffers, scalars in phis.
//
// At the end of an iteration the buffer of a carried block is written in place. A value that is
// still to be read must not be overwritten. The new values are written in an order that respects
// this; if no order does, one goes through a temporary.
#include "backends/cpu/emit.h"

/* ---- writing the values that a region yields ----------------------------------------------- */

enum { MAX_STATE = 64 };

/// Reads of the carried values by the yielded ones.
typedef struct CarriedHazards {
    Region *region;
    int n, first;                         // carried values; the region's argument of the first
    int at;                               // the yielded value being visited
    bool reads[MAX_STATE][MAX_STATE];     // yielded value i reads carried value j
    bool displaced[MAX_STATE][MAX_STATE]; // the read is at another place
} CarriedHazards;

static void note_read(void *arg, Value *v, int axis, bool identity) {
    CarriedHazards *h = arg;
    (void)axis;
    int j = v->index - h->first;
    if (v->def || v->region != h->region || j < 0 || v->type->rank == 0) return;
    h->reads[h->at][j] = true;
    if (!identity) h->displaced[h->at][j] = true;
}

static CarriedHazards *find_hazards(Emit *e, Region *r, Region *carried, int first, int n) {
    CarriedHazards *h = ctx_new(e->ctx, CarriedHazards);
    h->region = carried;
    h->first = first;
    h->n = n;
    for (h->at = 0; h->at < n; h->at++) {
        Value *y = operand(r->last, h->at);
        Root root = {.kind = ROOT_BUFFER, .value = y};
        if (y->type->rank) walk_nest_reads(e, &root, -1, note_read, h);
    }
    return h;
}

/// Copies a whole buffer, including its padding.
static void copy_buffer(Emit *e, const Buffer *from, const Buffer *to) {
    Gen *g = e->g;
    LLVMTypeRef line = gen_vec(g->i8, 64);
    Loop *l = loop_begin(e, gen_i64(g, 0), gen_i64(g, from->bytes), 64, "copy");
    LLVMValueRef x =
        memory_load(e, TENSOR_ARENA, line, gen_offset(g, buffer_base(e, from), l->iv), 1);
    memory_store(e, TENSOR_ARENA, x, gen_offset(g, buffer_base(e, to), l->iv), 1);
    loop_end(e, l, NULL);
}

static bool can_write(const CarriedHazards *h, const bool *done, int i) {
    if (h->displaced[i][i]) return false;
    for (int k = 0; k < h->n; k++)
        if (k != i && !done[k] && h->reads[k][i]) return false;
    return true;
}

static void write_block_to(Emit *e, Value *v, Buffer *to) {
    if (bound_buffer(e, v) == to) return;
    nest_add(e, (Root){.kind = ROOT_BUFFER, .value = v, .out = to, .keep = true});
}

/// Writes the blocks that r yields to their buffers (NULL for scalars). The carried values are the
/// arguments from `first` on of region `carried`, in the same buffers.
static void write_yields(Emit *e, Region *r, Region *carried, int first, int n, Buffer *const *to) {
    bool done[MAX_STATE] = {false};
    Buffer *copies[MAX_STATE] = {NULL};
    if (n > MAX_STATE) ice(e->ctx, r->parent->loc, "more than %d carried values", MAX_STATE);
    CarriedHazards *h = find_hazards(e, r, carried, first, n);
    int left = 0;
    for (int i = 0; i < n; i++) {
        done[i] = !to[i] || operand(r->last, i) == carried->args[first + i];
        left += !done[i];
    }
    for (; left; left--) {
        int pick = -1, any = -1;
        for (int i = n - 1; i >= 0; i--) {
            if (done[i]) continue;
            any = i;
            if (can_write(h, done, i)) pick = i;
        }
        if (pick < 0) {
            pick = any;
            copies[pick] = buffer_new(e, to[pick]->elem, to[pick]->rank, to[pick]->extents);
        }
        write_block_to(e, operand(r->last, pick), copies[pick] ? copies[pick] : to[pick]);
        nest_flush(e);
        done[pick] = true;
    }
    for (int i = 0; i < n; i++) {
        if (!copies[i]) continue;
        copy_buffer(e, copies[i], to[i]);
        buffer_free(e, copies[i]);
    }
}

/* ---- computing into the carried buffer ------------------------------------------------------ */

/// Whether the carried block arg is read only before op, or by op through operands from `through`
/// on, at its own place. `seen` holds the values visited so far.
static bool read_before(Emit *e, const Value *arg, const Op *op, int through, PtrMap *seen) {
    if (map_get(seen, arg)) return true;
    map_set(e->ctx, seen, arg, e);
    for_each_use(u, arg) {
        const Op *user = u->user;
        if (user == op) {
            if (u->index < through) return false;
            continue;
        }
        if (user->parent != op->parent) return false;
        bool lane = op_has(user, ELEMENTWISE) || user->code == OP_CAST || user->code == OP_SELECT;
        if (lane) {
            if (!read_before(e, result(user, 0), op, through, seen)) return false;
        } else if (op_is_lazy(user) || user->code == OP_YIELD || !op_before(user, op)) {
            return false;
        }
    }
    return true;
}

/// Lets a product or a loop work in the buffer of a carried block, if it alone yields the new
/// value.
static void assign_yields(Emit *e, Region *r, int first, int n, Buffer *const *to) {
    for (int i = 0; i < n; i++) {
        Value *y = operand(r->last, i);
        if (!to[i] || !y->def || y->def->parent != r || !value_has_one_use(y)) continue;
        OpCode code = y->def->code;
        if (code != OP_DOT && code != OP_CONTRACT) continue;
        PtrMap seen = {0};
        if (read_before(e, r->args[first + i], y->def, 2, &seen)) assign_result(e, y, to[i]);
    }
}

/* ---- for ----------------------------------------------------------------------------------- */

/// Makes the buffers of the op's block results (NULL for scalars), filled with the operands from
/// `first` on.
static Buffer **start_state(Emit *e, Op *op, int first) {
    Buffer **state = ctx_array(e->ctx, Buffer *, op->n_results + 1);
    for (int i = 0; i < op->n_results; i++) {
        if (result(op, i)->type->rank == 0) continue;
        state[i] = result_buffer(e, result(op, i));
        if (first >= 0) write_block_to(e, operand(op, first + i), state[i]);
    }
    nest_flush(e);
    return state;
}

static void bind_blocks(Emit *e, Region *r, int first, int n, Buffer *const *state) {
    for (int i = 0; i < n; i++)
        if (state[i]) bind_buffer(e, r->args[first + i], state[i]);
}

static int yield_scalars(Emit *e, const Region *r, LLVMValueRef *out) {
    int n = 0;
    for (int i = 0; i < r->last->n_operands; i++) {
        Value *y = operand(r->last, i);
        if (y->type->rank == 0) out[n++] = emit_scalar(e, y);
    }
    return n;
}

void lower_for(Emit *e, Op *op) {
    if (plan_is_register_loop(e, op)) {
        nest_add(e, (Root){.kind = ROOT_LOOP, .op = op});
        return;
    }
    nest_flush(e);
    Region *body = op->regions[0];
    int n = op->n_results, k = 0;
    Buffer **state = start_state(e, op, 2);
    Loop *l = loop_begin(e, emit_scalar(e, operand(op, 0)), emit_scalar(e, operand(op, 1)),
                         op_int(op, A_STEP, 1), "for");
    bind_scalar(e, body->args[0], l->iv);
    for (int i = 0; i < n; i++)
        if (!state[i])
            bind_scalar(e, body->args[i + 1], loop_carry(e, l, emit_scalar(e, operand(op, i + 2))));
    bind_blocks(e, body, 1, n, state);
    assign_yields(e, body, 1, n, state);
    emit_ops(e, body);
    write_yields(e, body, body, 1, n, state);
    LLVMValueRef next[MAX_CARRIED];
    yield_scalars(e, body, next);
    loop_end(e, l, next);
    for (int i = 0; i < n; i++)
        if (!state[i]) bind_scalar(e, result(op, i), l->carried[k++]);
}

/* ---- while --------------------------------------------------------------------------------- */

static void bind_scalars(Emit *e, Region *r, int n, Buffer *const *state,
                         const LLVMValueRef *values) {
    for (int i = 0; i < n; i++)
        if (!state[i]) bind_scalar(e, r->args[i], *values++);
}

void lower_while(Emit *e, Op *op) {
    LLVMBuilderRef b = e->g->b;
    nest_flush(e);
    Region *test = op->regions[0], *body = op->regions[1];
    int n = op->n_results, n_phis = 0;
    Buffer **state = start_state(e, op, 0);
    LLVMBasicBlockRef before = emit_here(e), head = emit_block(e, "while");
    LLVMBuildBr(b, head);
    LLVMPositionBuilderAtEnd(b, head);
    LLVMValueRef phis[MAX_CARRIED], next[MAX_CARRIED];
    for (int i = 0; i < n; i++) {
        if (state[i]) continue;
        LLVMValueRef init = emit_scalar(e, operand(op, i));
        phis[n_phis] = LLVMBuildPhi(b, LLVMTypeOf(init), "");
        LLVMAddIncoming(phis[n_phis++], &init, &before, 1);
    }
    scope_enter(e);
    bind_scalars(e, test, n, state, phis);
    bind_blocks(e, test, 0, n, state);
    emit_ops(e, test);
    LLVMValueRef holds = emit_scalar(e, operand(test->last, 0));
    scope_leave(e);
    LLVMBasicBlockRef go = emit_block(e, "do"), done = emit_block(e, "done");
    LLVMBuildCondBr(b, holds, go, done);
    LLVMPositionBuilderAtEnd(b, go);
    scope_enter(e);
    bind_scalars(e, body, n, state, phis);
    bind_blocks(e, body, 0, n, state);
    emit_ops(e, body);
    write_yields(e, body, body, 0, n, state);
    yield_scalars(e, body, next);
    scope_leave(e);
    LLVMBasicBlockRef latch = emit_here(e);
    LLVMBuildBr(b, head);
    for (int i = 0; i < n_phis; i++) LLVMAddIncoming(phis[i], &next[i], &latch, 1);
    LLVMMoveBasicBlockAfter(done, latch);
    LLVMPositionBuilderAtEnd(b, done);
    for (int i = 0, k = 0; i < n; i++)
        if (!state[i]) bind_scalar(e, result(op, i), phis[k++]);
}

/* ---- if ------------------------------------------------------------------------------------ */

static void emit_arm(Emit *e, Region *r, Buffer *const *state, LLVMValueRef *scalars) {
    emit_ops(e, r);
    for (int i = 0; i < r->last->n_operands; i++)
        if (state[i]) write_block_to(e, operand(r->last, i), state[i]);
    nest_flush(e);
    yield_scalars(e, r, scalars);
}

void lower_if(Emit *e, Op *op) {
    nest_flush(e);
    Buffer **state = start_state(e, op, -1);
    LLVMValueRef a[MAX_CARRIED], b[MAX_CARRIED];
    If i = if_begin(e, emit_scalar(e, operand(op, 0)), "then");
    emit_arm(e, op->regions[0], state, a);
    if_else(e, &i);
    emit_arm(e, op->regions[1], state, b);
    if_end(e, &i);
    for (int k = 0, s = 0; k < op->n_results; k++) {
        if (state[k]) continue;
        bind_scalar(e, result(op, k), if_phi(e, &i, a[s], b[s]));
        s++;
    }
}

/* ---- concat -------------------------------------------------------------------------------- */

/// Writes each part to its place in the result's buffer.
void lower_concat(Emit *e, Op *op) {
    nest_flush(e);
    Buffer *whole = result_buffer(e, result(op, 0));
    int axis = (int)op_int(op, A_AXIS, 0);
    int64_t at = 0;
    for (int i = 0; i < op->n_operands; i++) {
        Value *x = operand(op, i);
        Buffer *part = ctx_copy(e->ctx, whole, sizeof *whole);
        int64_t bytes = at * whole->strides[axis] * elem_bytes(whole->elem);
        part->memory = gen_offset(e->g, buffer_base(e, whole), gen_i64(e->g, bytes));
        part->bytes = x->type->extents[axis] * whole->strides[axis] * elem_bytes(whole->elem);
        for (int d = 0; d < part->rank; d++) part->extents[d] = x->type->extents[d];
        part->exact = true;
        nest_add(e, (Root){.kind = ROOT_BUFFER, .value = x, .out = part, .keep = true});
        nest_flush(e);
        at += x->type->extents[axis];
    }
}
