// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Several ranks: transfers, symmetric memory and signals become calls of tg_env's `comm`. Arguments
// and results of these calls lie on the stack, as the structs of runtime/abi.h.
#include "backends/cpu/emit.h"
#include "runtime/abi.h"

#include <stdarg.h>
#include <stddef.h>
#include <string.h>

/* ---- calls --------------------------------------------------------------------------------- */

static LLVMValueRef i32_of(const Gen *g, int64_t n) {
    return LLVMConstInt(g->i32, (uint64_t)n, true);
}

/// Loads the member of tg_comm_calls at `offset`.
static LLVMValueRef comm_member(Emit *e, LLVMTypeRef type, size_t offset) {
    Gen *g = e->g;
    LLVMValueRef at = LLVMBuildStructGEP2(g->b, e->cpu->env, e->env, ENV_COMM, "");
    LLVMValueRef comm = LLVMBuildLoad2(g->b, g->ptr, at, "");
    return LLVMBuildLoad2(g->b, type, gen_offset(g, comm, gen_i64(g, (int64_t)offset)), "");
}

_Static_assert((int)EPOCH_BITS == (int)TG_EPOCH_BITS, "what epochs are");
enum { MAX_ARGS = 8 };

/// Calls the member with the environment and n more arguments.
static LLVMValueRef comm_call(Emit *e, size_t offset, LLVMTypeRef gives, int n, ...) {
    LLVMValueRef args[MAX_ARGS] = {e->env};
    LLVMTypeRef types[MAX_ARGS] = {e->g->ptr};
    va_list ap;
    va_start(ap, n);
    for (int i = 1; i <= n; i++) {
        args[i] = va_arg(ap, LLVMValueRef);
        types[i] = LLVMTypeOf(args[i]);
    }
    va_end(ap);
    LLVMTypeRef type = LLVMFunctionType(gives, types, (unsigned)n + 1, false);
    LLVMValueRef function = comm_member(e, e->g->ptr, offset);
    return LLVMBuildCall2(e->g->b, type, function, args, (unsigned)n + 1, "");
}

void lower_rank(Emit *e, Op *op) {
    LLVMValueRef rank = comm_member(e, e->g->i32, offsetof(tg_comm_calls, rank));
    bind_scalar(e, result(op, 0), LLVMBuildSExt(e->g->b, rank, e->g->i64, ""));
}

void lower_comm_launch(Emit *e, Op *op) {
    const Gen *g = e->g;
    LLVMValueRef status;
    int how = (op_flag(op, A_WAIT_ALL) ? TG_BEGIN_WAITS : 0) |
              (op_flag(op, A_DIRECT_ACCESS) ? TG_BEGIN_REACHES : 0);
    if (op->code == OP_COMM_BEGIN)
        status = comm_call(e, offsetof(tg_comm_calls, begin), g->i32, 1, i32_of(g, how));
    else if (op->code == OP_COMM_END)
        status = comm_call(e, offsetof(tg_comm_calls, end), g->i32, 0);
    else
        status = comm_call(e, offsetof(tg_comm_calls, barrier), g->i32, 0);
    return_if_failed(e, status);
}

void lower_comm_fence(Emit *e, Op *op) {
    streaming_settle(e);
    LLVMValueRef quiet = i32_of(e->g, op_flag(op, A_QUIET));
    return_if_failed(e, comm_call(e, offsetof(tg_comm_calls, fence), e->g->i32, 1, quiet));
}

/* ---- structs on the stack ------------------------------------------------------------------ */

typedef struct CallRecord {
    Emit *e;
    LLVMValueRef at;
} CallRecord;

static CallRecord new_record(Emit *e, size_t bytes) {
    return (CallRecord){e, stack_slots(e, (int)((bytes + 7) / 8))};
}

static LLVMValueRef record_member(const CallRecord *r, size_t offset) {
    return gen_offset(r->e->g, r->at, gen_i64(r->e->g, (int64_t)offset));
}

static void put_member(const CallRecord *r, size_t offset, LLVMValueRef x) {
    LLVMBuildStore(r->e->g->b, x, record_member(r, offset));
}

static LLVMValueRef take_member(const CallRecord *r, size_t offset, LLVMTypeRef type) {
    return LLVMBuildLoad2(r->e->g->b, type, record_member(r, offset), "");
}

static LLVMValueRef tensor_name_text(Emit *e, const Op *op) {
    const char *name = op_str(op, A_NAME);
    return LLVMBuildGlobalStringPtr(e->g->b, name ? name : "a tensor", "name");
}

static int gather_plan(const Op *op) {
    static const int plans[] = {
        [TRANSFER_ABSENT] = TG_GATHER_BEFORE, [TRANSFER_BEFORE] = TG_GATHER_BEFORE,
        [TRANSFER_PUSH] = TG_GATHER_PUSH,     [TRANSFER_PULL] = TG_GATHER_PULL,
        [TRANSFER_DIRECT] = TG_GATHER_DIRECT, [TRANSFER_BEHIND] = TG_SCATTER_BEHIND};
    return plans[op_transfer(op)];
}

/* ---- tensors ------------------------------------------------------------------------------- */

static LLVMValueRef times_elem(Emit *e, const Type *t, LLVMValueRef n) {
    return gen_mul(e->g, n, gen_i64(e->g, elem_bytes(t->elem)));
}

/// The layout of a tensor's rows. Dimension `first` counts the rows, and the dimensions after it
/// form a row.
typedef struct TensorRows {
    LLVMValueRef rows, bytes, pitch;
} TensorRows;

static TensorRows tensor_rows(Emit *e, const Value *v, int first) {
    Gen *g = e->g;
    const TensorRef *t = emit_tensor(e, v);
    LLVMValueRef span = gen_i64(g, 1);
    for (int d = first + 1; d < v->type->rank; d++) {
        LLVMValueRef last = LLVMBuildSub(g->b, t->dims[d], gen_i64(g, 1), "");
        span = gen_add(g, span, gen_mul(g, last, t->strides[d]));
    }
    span = gen_max(g, span, gen_i64(g, 0));
    return (TensorRows){t->dims[first], times_elem(e, v->type, span),
                        times_elem(e, v->type, t->strides[first])};
}

/// Returns the distance from rank to rank, in elements.
static LLVMValueRef lead_elements(Emit *e, const Type *t, LLVMValueRef lead) {
    return LLVMBuildSDiv(e->g->b, lead, gen_i64(e->g, elem_bytes(t->elem)), "");
}

static TensorRef *new_tensor(Emit *e, LLVMValueRef data) {
    TensorRef *t = ctx_new(e->ctx, TensorRef);
    t->data = data;
    t->id = e->cpu->next_scope++;
    return t;
}

/// Binds the gathered view, whose strides are those of a shard.
static void bind_gathered_view(Emit *e, const Op *op, const CallRecord *r) {
    const TensorRef *of = emit_tensor(e, operand(op, 0));
    const Value *v = result(op, 0);
    TensorRef *view = new_tensor(e, take_member(r, offsetof(tg_gather, view), e->g->ptr));
    memcpy(view->dims, of->dims, sizeof of->dims);
    memcpy(view->strides, of->strides, sizeof of->strides);
    view->strides[0] =
        lead_elements(e, v->type, take_member(r, offsetof(tg_gather, slot), e->g->i64));
    bind_tensor(e, v, view);
}

static void bind_flags(Emit *e, const Op *op, const CallRecord *r, LLVMValueRef rows,
                       LLVMValueRef chunk) {
    Gen *g = e->g;
    TensorRef *flags = new_tensor(e, take_member(r, offsetof(tg_gather, flags), g->ptr));
    LLVMValueRef more = LLVMBuildSub(g->b, chunk, gen_i64(g, 1), "");
    flags->dims[0] = emit_tensor(e, operand(op, 0))->dims[0];
    flags->dims[1] = LLVMBuildSDiv(g->b, gen_add(g, rows, more), chunk, "");
    flags->strides[0] = flags->dims[1];
    flags->strides[1] = gen_i64(g, 1);
    bind_tensor(e, result(op, 1), flags);
}

void lower_comm_gather(Emit *e, Op *op) {
    Gen *g = e->g;
    const Type *type = operand(op, 0)->type;
    const TensorRef *t = emit_tensor(e, operand(op, 0));
    TensorRows rows = tensor_rows(e, operand(op, 0), 1);
    LLVMValueRef chunk = gen_max(g, emit_scalar(e, operand(op, 1)), gen_i64(g, 1));
    CallRecord r = new_record(e, sizeof(tg_gather));
    put_member(&r, offsetof(tg_gather, data), t->data);
    put_member(&r, offsetof(tg_gather, lead), times_elem(e, type, t->strides[0]));
    put_member(&r, offsetof(tg_gather, rows), rows.rows);
    put_member(&r, offsetof(tg_gather, row_bytes), rows.bytes);
    put_member(&r, offsetof(tg_gather, pitch), rows.pitch);
    put_member(&r, offsetof(tg_gather, chunk_rows), chunk);
    put_member(&r, offsetof(tg_gather, name), tensor_name_text(e, op));
    put_member(&r, offsetof(tg_gather, how), i32_of(g, gather_plan(op)));
    return_if_failed(e, comm_call(e, offsetof(tg_comm_calls, gather), g->i32, 1, r.at));
    bind_gathered_view(e, op, &r);
    bind_flags(e, op, &r, rows.rows, chunk);
}

void lower_comm_scatter(Emit *e, Op *op) {
    enum { LOCAL, STAGE, DONE, FLAGS, CHUNK, PEER = DONE };
    Gen *g = e->g;
    bool behind = gather_plan(op) == TG_SCATTER_BEHIND;
    const TensorRef *local = emit_tensor(e, operand(op, LOCAL));
    const TensorRef *stage = emit_tensor(e, operand(op, STAGE));
    const TensorRef *flags = emit_tensor(e, operand(op, FLAGS));
    const Type *type = operand(op, LOCAL)->type;
    TensorRows rows = tensor_rows(e, operand(op, LOCAL), 1);
    CallRecord r = new_record(e, sizeof(tg_scatter));
    put_member(&r, offsetof(tg_scatter, local), local->data);
    put_member(&r, offsetof(tg_scatter, stage), stage->data);
    put_member(&r, offsetof(tg_scatter, part), times_elem(e, type, local->strides[0]));
    put_member(&r, offsetof(tg_scatter, lead), times_elem(e, type, stage->strides[0]));
    put_member(&r, offsetof(tg_scatter, rows), rows.rows);
    put_member(&r, offsetof(tg_scatter, row_bytes), rows.bytes);
    put_member(&r, offsetof(tg_scatter, pitch), rows.pitch);
    put_member(&r, offsetof(tg_scatter, chunk_rows),
               gen_max(g, emit_scalar(e, operand(op, CHUNK)), gen_i64(g, 1)));
    if (behind)
        put_member(&r, offsetof(tg_scatter, peer),
                   LLVMBuildTrunc(g->b, emit_scalar(e, operand(op, PEER)), g->i32, ""));
    else
        put_member(&r, offsetof(tg_scatter, done), emit_tensor(e, operand(op, DONE))->data);
    put_member(&r, offsetof(tg_scatter, flags), flags->data);
    put_member(&r, offsetof(tg_scatter, flags_lead), gen_mul(g, flags->strides[0], gen_i64(g, 8)));
    put_member(&r, offsetof(tg_scatter, name), tensor_name_text(e, op));
    put_member(&r, offsetof(tg_scatter, how), i32_of(g, gather_plan(op)));
    return_if_failed(e, comm_call(e, offsetof(tg_comm_calls, scatter), g->i32, 1, r.at));
}

/* ---- symmetric memory of a launch ---------------------------------------------------------- */

/// Binds a tensor whose dimensions after the rank are dense. `lead` points to the distance from
/// rank to rank.
static void bind_symmetric(Emit *e, const Op *op, TensorRef *t, LLVMValueRef data,
                           LLVMValueRef lead) {
    Gen *g = e->g;
    LLVMValueRef size = comm_member(e, g->i32, offsetof(tg_comm_calls, size));
    t->data = data;
    fail_if_null(e, data);
    t->dims[0] = LLVMBuildSExt(g->b, size, g->i64, "");
    t->strides[0] = lead_elements(e, result(op, 0)->type, LLVMBuildLoad2(g->b, g->i64, lead, ""));
    bind_tensor(e, result(op, 0), t);
}

void lower_sym_scratch(Emit *e, Op *op) {
    TensorRef *t = ctx_new(e->ctx, TensorRef);
    LLVMValueRef bytes = dense_tensor(e, op, t, 1), lead = stack_slots(e, 1);
    size_t call = offsetof(tg_comm_calls, workspace);
    bind_symmetric(e, op, t, comm_call(e, call, e->g->ptr, 2, bytes, lead), lead);
}

void lower_comm_signals(Emit *e, Op *op) {
    TensorRef *t = ctx_new(e->ctx, TensorRef);
    const Gen *g = e->g;
    LLVMValueRef bytes = dense_tensor(e, op, t, 1), lead = stack_slots(e, 1);
    LLVMValueRef words = LLVMBuildLShr(g->b, bytes, gen_i64(g, 3), "");
    LLVMValueRef number = i32_of(g, op_int(op, A_SIGNAL_ID, 0));
    size_t call = offsetof(tg_comm_calls, signals);
    bind_symmetric(e, op, t, comm_call(e, call, g->ptr, 3, number, words, lead), lead);
}

void lower_comm_control(Emit *e, Op *op) {
    const Gen *g = e->g;
    TensorRef *t = new_tensor(e, comm_call(e, offsetof(tg_comm_calls, control), g->ptr, 0));
    fail_if_null(e, t->data);
    t->dims[0] = gen_i64(g, TG_CONTROL_WORDS);
    t->strides[0] = gen_i64(g, 1);
    bind_tensor(e, result(op, 0), t);
}

/* ---- signals ------------------------------------------------------------------------------- */

/// Computes the address of a word from the coordinates, operand `first` onwards. The following
/// code, up to end_word, runs only if that word exists.
static LLVMValueRef begin_word(Emit *e, const Op *op, int first, LLVMBasicBlockRef *on) {
    Gen *g = e->g;
    const TensorRef *t = emit_tensor(e, operand(op, 0));
    LLVMValueRef offset = gen_i64(g, 0), inside = NULL;
    for (int d = 0; d < operand(op, 0)->type->rank; d++) {
        LLVMValueRef x = emit_scalar(e, operand(op, first + d));
        inside = gen_and(g, inside, LLVMBuildICmp(g->b, LLVMIntULT, x, t->dims[d], ""));
        offset = gen_add(g, offset, gen_mul(g, x, t->strides[d]));
    }
    LLVMBasicBlockRef there = emit_block(e, "word");
    *on = emit_block(e, "on");
    LLVMBuildCondBr(g->b, inside, there, *on);
    LLVMPositionBuilderAtEnd(g->b, there);
    return gen_offset(g, t->data, gen_mul(g, offset, gen_i64(g, 8)));
}

static void end_word(Emit *e, LLVMBasicBlockRef on) {
    LLVMBuildBr(e->g->b, on);
    LLVMPositionBuilderAtEnd(e->g->b, on);
}

static int runtime_compare(const Op *op) {
    static const int compares[] = {
        [COMPARE_ABSENT] = TG_CMP_GE, [COMPARE_EQ] = TG_CMP_EQ, [COMPARE_NE] = TG_CMP_NE,
        [COMPARE_GT] = TG_CMP_GT,     [COMPARE_GE] = TG_CMP_GE, [COMPARE_LT] = TG_CMP_LT,
        [COMPARE_LE] = TG_CMP_LE};
    return compares[op_compare(op)];
}

void lower_signal_wait(Emit *e, Op *op) {
    enum { VALUE = 2, PEER, FIRST };
    const Gen *g = e->g;
    const char *text = op_str(op, A_TEXT);
    LLVMValueRef value = emit_scalar(e, operand(op, VALUE)),
                 peer = emit_scalar(e, operand(op, PEER));
    LLVMValueRef number = emit_scalar(e, operand(op, op->n_operands - 1));
    LLVMValueRef where =
        make_site(e, op, TG_SITE_WAIT, text ? text : "rank {}'s signal {}", "dd", 0);
    LLVMBasicBlockRef on;
    LLVMValueRef word = begin_word(e, op, FIRST, &on);
    return_if_failed(e, comm_call(e, offsetof(tg_comm_calls, wait), g->i32, 6, where, word,
                                  i32_of(g, runtime_compare(op)), value, peer, number));
    end_word(e, on);
}

void lower_signal_set(Emit *e, Op *op) {
    enum { VALUE = 1, FIRST };
    const Gen *g = e->g;
    int adds = op_update(op) == UPDATE_ADD ? TG_SIGNAL_ADD : TG_SIGNAL_SET;
    LLVMValueRef value = emit_scalar(e, operand(op, VALUE));
    LLVMBasicBlockRef on;
    streaming_settle(e);
    LLVMValueRef word = begin_word(e, op, FIRST, &on);
    return_if_failed(
        e, comm_call(e, offsetof(tg_comm_calls, signal), g->i32, 3, word, i32_of(g, adds), value));
    end_word(e, on);
}
