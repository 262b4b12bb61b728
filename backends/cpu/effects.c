// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Services of the runtime: failing with a message, printing, scratch memory; and the checks that
// --check adds.
//
// Each place that can fail or print has a tg_site in the module's data. The values of its message
// lie in an array on the stack.
#include "backends/cpu/emit.h"
#include "runtime/abi.h"

/* ---- calls --------------------------------------------------------------------------------- */

static LLVMValueRef call_in_env(const Cpu *c, LLVMValueRef env, int index, int n,
                                LLVMValueRef *args) {
    const Gen *g = c->gen;
    LLVMValueRef at = LLVMBuildStructGEP2(g->b, c->env, env, (unsigned)index, "");
    LLVMValueRef fn = LLVMBuildLoad2(g->b, g->ptr, at, "");
    return LLVMBuildCall2(g->b, c->env_fn[index], fn, args, (unsigned)n, "");
}

LLVMValueRef env_call(Emit *e, int index, int n, LLVMValueRef *args) {
    return call_in_env(e->cpu, e->env, index, n, args);
}

/// Allocates stack slots in the function's first block.
LLVMValueRef stack_slots(Emit *e, int n) {
    Gen *g = e->g;
    LLVMBasicBlockRef here = emit_here(e);
    LLVMBasicBlockRef entry = LLVMGetEntryBasicBlock(e->fn);
    LLVMPositionBuilder(g->b, entry, LLVMGetFirstInstruction(entry));
    LLVMValueRef slots = LLVMBuildAlloca(g->b, LLVMArrayType2(g->i64, (uint64_t)(n ? n : 1)), "");
    LLVMPositionBuilderAtEnd(g->b, here);
    return slots;
}

/* ---- sites --------------------------------------------------------------------------------- */

static LLVMValueRef string_pointer(Emit *e, const char *s) {
    return s ? LLVMBuildGlobalStringPtr(e->g->b, s, "text") : LLVMConstNull(e->g->ptr);
}

LLVMValueRef make_site(Emit *e, const Op *op, int kind, const char *text, const char *types,
                       int n_indices) {
    Gen *g = e->g;
    int n = 0;
    for (const char *t = types; t && *t; t++) n += *t != '[' && *t != ']' && *t != '+';
    int64_t ints[6] = {kind, op->loc.line, op->loc.col, n, n_indices, 0};
    LLVMValueRef fields[9];
    for (int i = 0; i < 6; i++) fields[i] = LLVMConstInt(g->i32, (uint64_t)ints[i], true);
    fields[6] = string_pointer(e, op->loc.file ? gen_path(g, op->loc.file) : NULL);
    fields[7] = string_pointer(e, text);
    fields[8] = string_pointer(e, types);
    LLVMValueRef s = LLVMAddGlobal(g->module, e->cpu->site, "site");
    LLVMSetInitializer(s, LLVMConstNamedStruct(e->cpu->site, fields, 9));
    LLVMSetGlobalConstant(s, true);
    LLVMSetLinkage(s, LLVMPrivateLinkage);
    return s;
}

/// Returns the letter of runtime/abi.h for an element.
static char site_letter(Elem elem) {
    switch (elem_info[elem].cls) {
    case EC_BOOL: return 'b';
    case EC_SINT: return 'd';
    case EC_UINT: return 'u';
    default: return elem == EL_F64 ? 'g' : 'f';
    }
}

/// Converts a scalar to the 64 bits of a message's value.
static LLVMValueRef message_value_bits(Emit *e, Elem elem, LLVMValueRef x) {
    Gen *g = e->g;
    if (elem_is(elem, EC_FLOAT))
        return LLVMBuildBitCast(g->b, gen_cast(g, elem, EL_F64, x), g->i64, "");
    return gen_cast(g, elem, EL_I64, x);
}

typedef VEC(LLVMValueRef) MessageValues;

enum { PRINTED_LANES = 16 };

/// Returns lane number n of a block in row-major order.
static LLVMValueRef nth_lane(Emit *e, Value *v, int64_t n) {
    Place p = {.rank = v->type->rank, .axis = -1};
    for (int d = p.rank - 1; d >= 0; d--) {
        p.at[d] = gen_i64(e->g, n % v->type->extents[d]);
        n /= v->type->extents[d];
    }
    return emit_vec(e, v, &p);
}

/// Collects the bits and letters of the operands from `first` on.
static const char *message_values(Emit *e, const Op *op, int first, MessageValues *out) {
    Text types = {.ctx = e->ctx};
    text_bytes(&types, "", 0);
    for (int i = first; i < op->n_operands; i++) {
        Value *v = operand(op, i);
        Elem elem = v->type->elem;
        int64_t n = ty_count(v->type), shown = n < PRINTED_LANES ? n : PRINTED_LANES;
        if (v->type->rank) text_add(&types, "[");
        for (int64_t k = 0; k < shown; k++) {
            text_add(&types, "%c", site_letter(elem));
            LLVMValueRef x = v->type->rank ? nth_lane(e, v, k) : emit_scalar(e, v);
            vec_push(e->ctx, out, message_value_bits(e, elem, x));
        }
        if (v->type->rank) text_add(&types, shown < n ? "+]" : "]");
    }
    return types.data;
}

static void store_values(const Gen *g, LLVMValueRef slots, const MessageValues *v) {
    for (int i = 0; i < v->n; i++)
        LLVMBuildStore(g->b, v->data[i], gen_offset(g, slots, gen_i64(g, 8 * (int64_t)i)));
}

/// Emits the body of the function that fails at a site with n values.
static void emit_fail_body(const Cpu *c, LLVMValueRef fn, int n) {
    Gen *g = c->gen;
    MessageValues v = {0};
    LLVMPositionBuilderAtEnd(g->b, LLVMAppendBasicBlockInContext(g->llvm, fn, "start"));
    for (int i = 0; i < n; i++) vec_push(g->ctx, &v, LLVMGetParam(fn, (unsigned)i + 2));
    LLVMValueRef slots = LLVMBuildArrayAlloca(g->b, g->i64, gen_i64(g, n ? n : 1), "");
    store_values(g, slots, &v);
    LLVMValueRef env = LLVMGetParam(fn, 0), args[3] = {env, LLVMGetParam(fn, 1), slots};
    LLVMBuildRet(g->b, call_in_env(c, env, ENV_FAIL, 3, args));
}

/// Returns the module's function that fails at a site with n values. A kernel with hundreds of
/// checks would otherwise store values and call the runtime at each.
static LLVMValueRef fail_function(Emit *e, int n, LLVMTypeRef type) {
    const Gen *g = e->g;
    const char *name = ctx_format(e->ctx, "fail.%d", n);
    LLVMValueRef fn = LLVMGetNamedFunction(g->module, name);
    if (fn) return fn;
    LLVMBasicBlockRef back = emit_here(e);
    LLVMMetadataRef where = LLVMGetCurrentDebugLocation2(g->b);
    fn = LLVMAddFunction(g->module, name, type);
    LLVMSetLinkage(fn, LLVMInternalLinkage);
    cpu_cold_function(e->cpu, fn);
    LLVMSetCurrentDebugLocation2(g->b, NULL);
    emit_fail_body(e->cpu, fn, n);
    LLVMPositionBuilderAtEnd(g->b, back);
    LLVMSetCurrentDebugLocation2(g->b, where);
    return fn;
}

/// Returns from the function with the status of `fail`.
static void build_fail(Emit *e, LLVMValueRef where, const MessageValues *v) {
    const Gen *g = e->g;
    int n = v->n + 2;
    LLVMTypeRef *types = ctx_array(e->ctx, LLVMTypeRef, n);
    LLVMValueRef *args = ctx_array(e->ctx, LLVMValueRef, n);
    types[0] = types[1] = g->ptr;
    args[0] = e->env, args[1] = where;
    for (int i = 0; i < v->n; i++) types[i + 2] = g->i64, args[i + 2] = v->data[i];
    LLVMTypeRef type = LLVMFunctionType(g->i32, types, (unsigned)n, false);
    LLVMValueRef fn = fail_function(e, v->n, type);
    LLVMBuildRet(g->b, LLVMBuildCall2(g->b, type, fn, args, (unsigned)n, ""));
}

/// Opens code that runs only if `bad` is true, up to end_failure. It is a scope.
static LLVMBasicBlockRef begin_failure(Emit *e, LLVMValueRef bad) {
    LLVMBasicBlockRef failed = emit_block(e, "failed"), on = emit_block(e, "on");
    LLVMBuildCondBr(e->g->b, bad, failed, on);
    LLVMPositionBuilderAtEnd(e->g->b, failed);
    scope_enter(e);
    return on;
}

static void end_failure(Emit *e, LLVMBasicBlockRef on) {
    scope_leave(e);
    LLVMPositionBuilderAtEnd(e->g->b, on);
}

void return_if_failed(Emit *e, LLVMValueRef status) {
    LLVMValueRef bad = LLVMBuildICmp(e->g->b, LLVMIntNE, status, LLVMConstInt(e->g->i32, 0, 0), "");
    LLVMBasicBlockRef on = begin_failure(e, bad);
    LLVMBuildRet(e->g->b, status);
    end_failure(e, on);
}

/* ---- require, print ------------------------------------------------------------------------ */

static LLVMValueRef build_not(Emit *e, LLVMValueRef x) {
    return LLVMBuildNot(e->g->b, x, "");
}

void lower_require(Emit *e, Op *op) {
    LLVMBasicBlockRef on = begin_failure(e, build_not(e, emit_scalar(e, operand(op, 0))));
    MessageValues v = {0};
    const char *types = message_values(e, op, 1, &v);
    build_fail(e, make_site(e, op, TG_SITE_REQUIRE, op_str(op, A_TEXT), types, 0), &v);
    end_failure(e, on);
}

void lower_print(Emit *e, Op *op) {
    MessageValues v = {0};
    const char *types = message_values(e, op, 0, &v);
    LLVMValueRef slots = stack_slots(e, v.n);
    store_values(e->g, slots, &v);
    LLVMValueRef args[3] = {e->env, make_site(e, op, TG_SITE_PRINT, op_str(op, A_TEXT), types, 0),
                            slots};
    env_call(e, ENV_PRINT, 3, args);
}

/* ---- assert -------------------------------------------------------------------------------- */

/// Returns the number of the first true lane. `bad` is an i1 or a vector with some true lane.
static LLVMValueRef first_bad_lane(Emit *e, LLVMValueRef bad) {
    Gen *g = e->g;
    int lanes = gen_lanes(bad);
    if (!lanes) return gen_i64(g, 0);
    LLVMTypeRef type = LLVMIntTypeInContext(g->llvm, (unsigned)lanes);
    LLVMValueRef bits = LLVMBuildBitCast(g->b, bad, type, "");
    LLVMValueRef args[2] = {bits, LLVMConstInt(g->i1, 1, false)};
    LLVMValueRef n = gen_intrinsic(g, "llvm.cttz", 1, &type, 2, args);
    return LLVMBuildIntCast2(g->b, n, g->i64, false, "");
}

static LLVMValueRef lane_value_of(Emit *e, LLVMValueRef x, LLVMValueRef n) {
    return gen_lanes(x) ? LLVMBuildExtractElement(e->g->b, x, n, "") : x;
}

static LLVMValueRef any_lane_true(Emit *e, LLVMValueRef x) {
    return gen_lanes(x) ? gen_call1(e->g, "llvm.vector.reduce.or", x) : x;
}

static void fail_assert(Emit *e, const Op *op, LLVMValueRef bad, const Place *p) {
    MessageValues v = {0};
    Text types = {.ctx = e->ctx};
    text_add(&types, "%s", message_values(e, op, 1, &v));
    LLVMValueRef lane = first_bad_lane(e, bad);
    for (int d = 0; d < p->rank; d++) {
        vec_push(e->ctx, &v, d == p->axis ? gen_add(e->g, p->at[d], lane) : p->at[d]);
        text_add(&types, "d");
    }
    build_fail(e, make_site(e, op, TG_SITE_ASSERT, op_str(op, A_TEXT), types.data, p->rank), &v);
}

void assert_lanes(Emit *e, Op *op, const Place *p) {
    LLVMValueRef bad = build_not(e, emit_vec(e, operand(op, 0), p));
    if (gen_lanes(bad) && p->live < p->lanes)
        bad = gen_and(e->g, bad, gen_first_lanes(e->g, p->live, p->lanes));
    LLVMBasicBlockRef on = begin_failure(e, any_lane_true(e, bad));
    fail_assert(e, op, bad, p);
    end_failure(e, on);
}

void lower_assert(Emit *e, Op *op) {
    if (!e->cpu->check) return;
    if (operand(op, 0)->type->rank) {
        nest_add(e, (Root){.kind = ROOT_ASSERT, .op = op});
        nest_flush(e);
        return;
    }
    Place p = place_scalar();
    assert_lanes(e, op, &p);
}

/* ---- division ------------------------------------------------------------------------------ */

// Checks scalars only: unused lanes may divide by 0.
void check_division(Emit *e, const Op *op) {
    if (op->code != OP_DIV && op->code != OP_REM) return;
    Elem elem = operand(op, 0)->type->elem;
    if (elem_is(elem, EC_FLOAT)) return;
    LLVMValueRef x = emit_scalar(e, operand(op, 0)), y = emit_scalar(e, operand(op, 1));
    LLVMValueRef zero = LLVMBuildICmp(e->g->b, LLVMIntEQ, y, LLVMConstNull(LLVMTypeOf(y)), "");
    LLVMBasicBlockRef on = begin_failure(e, zero);
    MessageValues v = {0};
    vec_push(e->ctx, &v, message_value_bits(e, elem, x));
    const char types[2] = {site_letter(elem), 0};
    build_fail(e, make_site(e, op, TG_SITE_DIVIDE, "division of {} by 0", types, 0), &v);
    end_failure(e, on);
}

/* ---- bounds -------------------------------------------------------------------------------- */

static LLVMValueRef below_end(Emit *e, LLVMValueRef x, LLVMValueRef end) {
    return LLVMBuildICmp(e->g->b, LLVMIntULT, x, gen_splat(e->g, end, gen_lanes(x)), "");
}

/// Returns the lanes whose entries are valid: below the counts of their axes, and not masked.
static LLVMValueRef valid_lanes(Emit *e, const Prepared *p, const Place *at) {
    Gen *g = e->g;
    LLVMValueRef valid = NULL;
    for (int d = 0; d < p->a.n_subs; d++) {
        int axis = p->a.axis_of[d];
        if (axis < 0) continue;
        LLVMValueRef lane = at->at[axis];
        if (axis == at->axis)
            lane = LLVMBuildAdd(g->b, gen_splat(g, lane, at->lanes), gen_iota(g, at->lanes), "");
        LLVMValueRef count = emit_scalar(e, sub_operand(p->op, &p->a, d, 1));
        LLVMValueRef n = gen_splat(g, count, gen_lanes(lane));
        valid = gen_and(g, valid, LLVMBuildICmp(g->b, LLVMIntSLT, lane, n, ""));
    }
    if (p->a.mask) valid = gen_and(g, valid, access_mask(e, p, at));
    if (at->live < at->lanes) valid = gen_and(g, valid, gen_first_lanes(g, at->live, at->lanes));
    return valid;
}

static void check_access_dimension(Emit *e, const Prepared *p, int d, LLVMValueRef valid,
                                   const Place *at) {
    Gen *g = e->g;
    LLVMValueRef x = access_coordinate(e, p, d, at);
    LLVMValueRef nowhere = gen_same(gen_i64(g, -1), gen_lanes(x));
    LLVMValueRef bad = gen_and(g, build_not(e, below_end(e, x, p->tensor->dims[d])),
                               LLVMBuildICmp(g->b, LLVMIntNE, x, nowhere, ""));
    bad = gen_and(g, bad, valid);
    LLVMBasicBlockRef on = begin_failure(e, any_lane_true(e, bad));
    MessageValues v = {0};
    vec_push(e->ctx, &v, lane_value_of(e, x, first_bad_lane(e, bad)));
    vec_push(e->ctx, &v, p->tensor->dims[d]);
    const char *name = p->a.tensor->name;
    const char *text = ctx_format(e->ctx, "index {} is outside dimension %d of `%s`, which is {}",
                                  d, name ? name : "a tensor");
    build_fail(e, make_site(e, p->op, TG_SITE_BOUNDS, text, "dd", 0), &v);
    end_failure(e, on);
}

void check_access(Emit *e, const Prepared *p, const Place *at) {
    if (!op_flag(p->op, A_CHECKED)) return;
    LLVMValueRef valid = valid_lanes(e, p, at);
    for (int d = 0; d < p->a.n_subs; d++)
        if (!p->inside[d]) check_access_dimension(e, p, d, valid, at);
}

/* ---- scratch ------------------------------------------------------------------------------- */

static LLVMValueRef multiply_checked(Emit *e, LLVMValueRef x, LLVMValueRef y,
                                     LLVMValueRef *overflow) {
    Gen *g = e->g;
    LLVMValueRef args[2] = {x, y};
    LLVMValueRef pair = gen_intrinsic(g, "llvm.smul.with.overflow", 1, &g->i64, 2, args);
    *overflow = LLVMBuildOr(g->b, *overflow, LLVMBuildExtractValue(g->b, pair, 1, ""), "");
    return LLVMBuildExtractValue(g->b, pair, 0, "");
}

LLVMValueRef dense_tensor(Emit *e, const Op *op, TensorRef *t, int first) {
    Gen *g = e->g;
    const Type *type = result(op, 0)->type;
    LLVMValueRef n = gen_i64(g, 1), overflow = LLVMConstInt(g->i1, 0, false);
    for (int d = type->rank - 1; d >= first; d--) {
        int from = d - (type->rank - op->n_operands);
        t->dims[d] = gen_max(g, emit_scalar(e, operand(op, from)), gen_i64(g, 0));
        t->strides[d] = n;
        n = multiply_checked(e, n, t->dims[d], &overflow);
    }
    n = multiply_checked(e, n, gen_i64(g, elem_bytes(type->elem)), &overflow);
    t->id = e->cpu->next_scope++;
    return LLVMBuildSelect(g->b, overflow, gen_i64(g, INT64_MAX), n, "");
}

void fail_if_null(Emit *e, LLVMValueRef p) {
    LLVMBasicBlockRef on =
        begin_failure(e, LLVMBuildICmp(e->g->b, LLVMIntEQ, p, LLVMConstNull(e->g->ptr), ""));
    build_fail(e, LLVMConstNull(e->g->ptr), &(MessageValues){0});
    end_failure(e, on);
}

void lower_scratch(Emit *e, Op *op) {
    TensorRef *t = ctx_new(e->ctx, TensorRef);
    if (op_flag(op, A_SYMMETRIC)) {
        lower_sym_scratch(e, op);
        return;
    }
    LLVMValueRef args[2] = {e->env, dense_tensor(e, op, t, 0)};
    t->data = op_flag(op, A_COUNTER) ? env_call(e, ENV_COUNTER, 1, args)
                                     : env_call(e, ENV_WORKSPACE, 2, args);
    fail_if_null(e, t->data);
    bind_tensor(e, result(op, 0), t);
}

void lower_workspace_limit(Emit *e, Op *op) {
    bind_scalar(e, result(op, 0), env_call(e, ENV_WORKSPACE_LIMIT, 1, &e->env));
}
