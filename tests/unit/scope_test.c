// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Scopes of the CPU's code: entries of a scope are unknown after its end, and its memory is
// refused.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "backends/cpu/emit.h"

typedef void Body(Emit *e);

/// A function of the module `arg` under construction: ptr f(ptr).
static void construct(Ctx *ctx, void *arg) {
    Cpu *cpu = ctx_new(ctx, Cpu);
    cpu->gen = gen_create(ctx, "scopes");
    cpu->target = (CpuTarget){.vector_bytes = 16, .vector_registers = 16};
    memory_scopes(cpu, 1);
    LLVMTypeRef type = LLVMFunctionType(cpu->gen->ptr, &cpu->gen->ptr, 1, false);
    Emit *e = emit_new(cpu, LLVMAddFunction(cpu->gen->module, "f", type));
    e->arena = LLVMGetParam(e->fn, 0);
    (*(Body *const *)arg)(e);
}

/// Checks the text of the internal error with which the body ends; NULL: none.
static void check(Body *body, const char *text) {
    Ctx *ctx = ctx_create(NULL);
    CtxStatus status = ctx_protect(ctx, construct, &body);
    assert_int_equal(status, text ? CTX_BUG : CTX_OK);
    if (text) {
        Text said = {.ctx = ctx};
        diag_render(&said, ctx, diag_first(ctx), false);
        assert_non_null(strstr(said.data, text));
    }
    ctx_destroy(ctx);
}

static Value block = {.type = &(Type){.kind = TK_BLOCK, .elem = EL_F32, .rank = 1, .extents = {8}}};
static Value number = {.type = &(Type){.kind = TK_BLOCK, .elem = EL_I64}};

static If arm(Emit *e) {
    return if_begin(e, LLVMConstInt(e->g->i1, 1, false), "arm");
}

/* ---- forgotten bindings -------------------------------------------------------------------- */

static void forget_bindings(Emit *e) {
    bind_scalar(e, &number, gen_i64(e->g, 1));
    If i = arm(e);
    result_buffer(e, &block);
    bind_scalar(e, &number, gen_i64(e->g, 2));
    assert_non_null(bound_buffer(e, &block));
    if_else(e, &i);
    assert_null(bound_buffer(e, &block));
    assert_ptr_equal(emit_scalar(e, &number), gen_i64(e->g, 1));
    if_end(e, &i);
    assert_null(bound_buffer(e, &block));
}

static void forget_vectors(Emit *e) {
    Place p = place_scalar();
    Loop *l = loop_begin(e, gen_i64(e->g, 0), gen_i64(e->g, 4), 1, "loop");
    memo_set(e, &number, &p, l->iv);
    assert_ptr_equal(memo_get(e, &number, &p), l->iv);
    loop_end(e, l, NULL);
    assert_null(memo_get(e, &number, &p));
}

static void keep_outer(Emit *e) {
    Buffer *b = result_buffer(e, &block);
    If i = arm(e);
    assert_ptr_equal(buffer_of(e, &block), b);
    assert_non_null(buffer_base(e, b));
    if_else(e, &i);
    if_end(e, &i);
    assert_ptr_equal(bound_buffer(e, &block), b);
}

/// An arm's memory is reused by the next arm.
static void reuse_memory(Emit *e) {
    If i = arm(e);
    int64_t first = result_buffer(e, &block)->offset;
    if_else(e, &i);
    assert_int_equal(result_buffer(e, &block)->offset, first);
    if_end(e, &i);
}

static void forgotten(void **state) {
    (void)state;
    check(forget_bindings, NULL);
    check(forget_vectors, NULL);
    check(keep_outer, NULL);
    check(reuse_memory, NULL);
}

/* ---- refused uses -------------------------------------------------------------------------- */

static void read_behind_arm(Emit *e) {
    If i = arm(e);
    Buffer *b = result_buffer(e, &block);
    if_else(e, &i);
    Place p = {.rank = 1, .axis = 0, .lanes = 4, .live = 4, .at = {gen_i64(e->g, 0)}};
    buffer_load(e, b, &p);
}

static void write_behind_loop(Emit *e) {
    Loop *l = loop_begin(e, gen_i64(e->g, 0), gen_i64(e->g, 4), 1, "loop");
    Buffer *b = result_buffer(e, &block);
    loop_end(e, l, NULL);
    Place p = {.rank = 1, .axis = -1, .at = {gen_i64(e->g, 0)}};
    buffer_store(e, b, &p, LLVMConstNull(gen_elem(e->g, EL_F32)));
}

static void read_freed(Emit *e) {
    Buffer *b = buffer_new(e, EL_F32, 1, block.type->extents);
    buffer_free(e, b);
    buffer_base(e, b);
}

static void read_scalar_behind(Emit *e) {
    scope_enter(e);
    bind_scalar(e, &number, gen_i64(e->g, 1));
    scope_leave(e);
    emit_scalar(e, &number);
}

static void leave_roots(Emit *e) {
    scope_enter(e);
    e->nest = ctx_new(e->ctx, Nest);
    vec_push(e->ctx, &e->nest->roots, ((Root){.kind = ROOT_BUFFER, .value = &block}));
    scope_leave(e);
}

static void refused(void **state) {
    (void)state;
    const char *memory = "a block's memory is used behind the loop or branch that it is of";
    check(read_behind_arm, memory);
    check(write_behind_loop, memory);
    check(read_freed, memory);
    check(read_scalar_behind, "has no value here");
    check(leave_roots, "a loop nest of a loop or branch is not emitted at its end");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(forgotten),
        cmocka_unit_test(refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
