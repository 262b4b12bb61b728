// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A function under construction: its blocks, loops and branches. Each loop body and each arm is a
// scope.
#include <string.h>

#include "backends/cpu/emit.h"

/* ---- functions ----------------------------------------------------------------------------- */

Emit *emit_new(Cpu *cpu, LLVMValueRef fn) {
    Gen *g = cpu->gen;
    Emit *e = ctx_new(cpu->gen->ctx, Emit);
    e->cpu = cpu;
    e->g = g;
    e->ctx = g->ctx;
    e->fn = fn;
    e->space = arena_plan_new(e->ctx);
    scopes_begin(e);
    LLVMPositionBuilderAtEnd(g->b, LLVMAppendBasicBlockInContext(g->llvm, fn, "start"));
    return e;
}

void debug_at(Emit *e, const Op *op) {
    debug_location(e->g, e->scope, op->loc);
}

static Loc place_of(const Value *v) {
    if (v->def) return v->def->loc;
    return v->region && v->region->parent ? v->region->parent->loc : (Loc){0};
}

void debug_scalar(Emit *e, const Value *v, LLVMValueRef x) {
    DebugVariable of = {.name = v->name, .loc = place_of(v), .elem = v->type->elem};
    if (v->name && of.loc.line) debug_variable(e->g, e->scope, &of, x);
}

void debug_block(Emit *e, const Value *v, const Buffer *b) {
    DebugVariable of = {
        .name = v->name, .loc = place_of(v), .elem = b->elem, .rank = b->rank, .bytes = b->bytes};
    memcpy(of.extents, b->extents, sizeof of.extents);
    memcpy(of.strides, b->strides, sizeof of.strides);
    if (v->name && b->rank && of.loc.line) debug_variable(e->g, e->scope, &of, b->memory);
}

bool debug_shows(const Emit *e, const Value *v) {
    return e->g->debug && v->name && v->type->rank;
}

void debug_function(Emit *e, const Op *op, const char *name) {
    e->scope = debug_subprogram(e->g, e->fn, op->loc, name);
}

LLVMBasicBlockRef emit_block(Emit *e, const char *name) {
    return LLVMAppendBasicBlockInContext(e->g->llvm, e->fn, name);
}

LLVMBasicBlockRef emit_here(Emit *e) {
    return LLVMGetInsertBlock(e->g->b);
}

/* ---- loops --------------------------------------------------------------------------------- */

Loop *loop_begin(Emit *e, LLVMValueRef lo, LLVMValueRef hi, int64_t step, const char *name) {
    LLVMBuilderRef b = e->g->b;
    Loop *l = ctx_new(e->ctx, Loop);
    l->before = emit_here(e);
    l->head = emit_block(e, name);
    LLVMBasicBlockRef body = emit_block(e, "body");
    l->exit = emit_block(e, "done");
    l->step = step;
    LLVMBuildBr(b, l->head);
    LLVMPositionBuilderAtEnd(b, l->head);
    l->iv = LLVMBuildPhi(b, e->g->i64, "i");
    LLVMAddIncoming(l->iv, &lo, &l->before, 1);
    LLVMBuildCondBr(b, LLVMBuildICmp(b, LLVMIntSLT, l->iv, hi, ""), body, l->exit);
    LLVMPositionBuilderAtEnd(b, body);
    scope_enter(e);
    return l;
}

LLVMValueRef loop_carry(Emit *e, Loop *l, LLVMValueRef init) {
    LLVMBuilderRef b = e->g->b;
    if (l->n_carried == MAX_CARRIED) ice(e->ctx, (Loc){0}, "a loop carries too many vectors");
    LLVMBasicBlockRef here = emit_here(e);
    LLVMPositionBuilderBefore(b, LLVMGetNextInstruction(l->iv));
    LLVMValueRef phi = LLVMBuildPhi(b, LLVMTypeOf(init), "");
    LLVMAddIncoming(phi, &init, &l->before, 1);
    LLVMPositionBuilderAtEnd(b, here);
    return l->carried[l->n_carried++] = phi;
}

void loop_end(Emit *e, Loop *l, const LLVMValueRef *next) {
    LLVMBuilderRef b = e->g->b;
    scope_leave(e);
    LLVMValueRef step = LLVMBuildAdd(b, l->iv, gen_i64(e->g, l->step), "");
    LLVMBasicBlockRef latch = emit_here(e);
    LLVMBuildBr(b, l->head);
    LLVMAddIncoming(l->iv, &step, &latch, 1);
    for (int i = 0; i < l->n_carried; i++) {
        LLVMValueRef x = next[i];
        LLVMAddIncoming(l->carried[i], &x, &latch, 1);
    }
    LLVMMoveBasicBlockAfter(l->exit, latch);
    LLVMPositionBuilderAtEnd(b, l->exit);
}

/* ---- branches ------------------------------------------------------------------------------ */

If if_begin(Emit *e, LLVMValueRef cond, const char *name) {
    If i = {emit_block(e, name), emit_block(e, "else"), emit_block(e, "end"), NULL, NULL};
    LLVMBuildCondBr(e->g->b, cond, i.then_, i.else_);
    LLVMPositionBuilderAtEnd(e->g->b, i.then_);
    scope_enter(e);
    return i;
}

void if_else(Emit *e, If *i) {
    scope_leave(e);
    i->then_out = emit_here(e);
    LLVMBuildBr(e->g->b, i->end);
    LLVMMoveBasicBlockAfter(i->else_, i->then_out);
    LLVMPositionBuilderAtEnd(e->g->b, i->else_);
    scope_enter(e);
}

void if_end(Emit *e, If *i) {
    scope_leave(e);
    i->else_out = emit_here(e);
    LLVMBuildBr(e->g->b, i->end);
    LLVMMoveBasicBlockAfter(i->end, i->else_out);
    LLVMPositionBuilderAtEnd(e->g->b, i->end);
}

LLVMValueRef if_phi(Emit *e, const If *i, LLVMValueRef then_value, LLVMValueRef else_value) {
    if (then_value == else_value) return then_value;
    LLVMValueRef phi = LLVMBuildPhi(e->g->b, LLVMTypeOf(then_value), "");
    LLVMValueRef values[2] = {then_value, else_value};
    LLVMBasicBlockRef from[2] = {i->then_out, i->else_out};
    LLVMAddIncoming(phi, values, from, 2);
    return phi;
}
