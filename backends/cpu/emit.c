// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A function under construction: what values are bound to, loops and branches, and the memory of
// vectors already computed.
#include <string.h>

#include "backends/cpu/private.h"

/* ---- bindings ------------------------------------------------------------------------------ */

Binding *binding_of(Emit *e, const Value *v) {
    Binding *b = map_get(&e->bindings->of, v);
    if (!b) {
        b = ctx_new(e->ctx, Binding);
        map_set(e->ctx, &e->bindings->of, v, b);
    }
    return b;
}

void bind_scalar(Emit *e, const Value *v, LLVMValueRef x) {
    binding_of(e, v)->scalar = x;
    if (v->name && v->def) debug_variable(e->g, e->scope, v->type->elem, v->def->loc, v->name, x);
}

void bind_tensor(Emit *e, const Value *v, const TensorRef *t) {
    binding_of(e, v)->tensor = t;
}

void bind_buffer(Emit *e, const Value *v, Buffer *b) {
    binding_of(e, v)->buffer = b;
}

Buffer *bound_buffer(Emit *e, const Value *v) {
    Binding *b = map_get(&e->bindings->of, v);
    return b ? b->buffer : NULL;
}

LLVMValueRef emit_scalar(Emit *e, const Value *v) {
    Binding *b = map_get(&e->bindings->of, v);
    if (!b || !b->scalar)
        ice(e->ctx, v->def ? v->def->loc : (Loc){0}, "scalar %s of %s has no value",
            v->name ? v->name : "", v->def ? op_info[v->def->code].name : "a region");
    return b->scalar;
}

const TensorRef *emit_tensor(Emit *e, const Value *v) {
    Binding *b = map_get(&e->bindings->of, v);
    if (!b || !b->tensor) ice(e->ctx, (Loc){0}, "tensor %s is not bound", v->name ? v->name : "");
    return b->tensor;
}

/* ---- functions ----------------------------------------------------------------------------- */

Emit *emit_new(Cpu *cpu, LLVMValueRef fn) {
    Gen *g = cpu->gen;
    Emit *e = ctx_new(cpu->gen->ctx, Emit);
    e->cpu = cpu;
    e->g = g;
    e->ctx = g->ctx;
    e->fn = fn;
    e->bindings = ctx_new(e->ctx, Bindings);
    e->memo = ctx_new(e->ctx, Memo);
    e->space = arena_plan_new(e->ctx);
    memset(e->memo->heads, -1, sizeof e->memo->heads);
    LLVMPositionBuilderAtEnd(g->b, LLVMAppendBasicBlockInContext(g->llvm, fn, "start"));
    return e;
}

void debug_at(Emit *e, const Op *op) {
    debug_location(e->g, e->scope, op->loc);
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

/* ---- the memory of vectors ----------------------------------------------------------------- */
// A stack of entries with hash chains through it: leaving a scope pops its entries, so that a
// vector is only ever found where its instruction dominates.

static unsigned memo_hash(const Value *v, const Place *p) {
    uintptr_t h = (uintptr_t)v ^ (uintptr_t)(p->axis + 2) * 0x9e3779b1u ^ (uintptr_t)p->lanes;
    for (int i = 0; i < p->rank; i++) h = h * 31 + ((uintptr_t)p->at[i] >> 4);
    return (unsigned)((h ^ h >> 15) % MEMO_HEADS);
}

static bool same_place(const Place *a, const Place *b) {
    if (a->rank != b->rank || a->axis != b->axis || a->lanes != b->lanes) return false;
    for (int i = 0; i < a->rank; i++)
        if (a->at[i] != b->at[i]) return false;
    return true;
}

LLVMValueRef memo_get(Emit *e, const Value *v, const Place *p) {
    Memo *m = e->memo;
    for (int i = m->heads[memo_hash(v, p)]; i >= 0; i = m->entries.data[i].next) {
        MemoEntry *entry = &m->entries.data[i];
        if (entry->value == v && same_place(&entry->place, p)) return entry->x;
    }
    return NULL;
}

void memo_set(Emit *e, const Value *v, const Place *p, LLVMValueRef x) {
    Memo *m = e->memo;
    unsigned h = memo_hash(v, p);
    MemoEntry entry = {v, *p, x, m->heads[h], h};
    m->heads[h] = m->entries.n;
    vec_push(e->ctx, &m->entries, entry);
}

int memo_mark(const Emit *e) {
    return e->memo->entries.n;
}

void memo_forget(Emit *e, int mark) {
    Memo *m = e->memo;
    while (m->entries.n > mark) {
        MemoEntry *entry = &m->entries.data[--m->entries.n];
        m->heads[entry->hash] = entry->next;
    }
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
    l->memo = memo_mark(e);
    LLVMBuildBr(b, l->head);
    LLVMPositionBuilderAtEnd(b, l->head);
    l->iv = LLVMBuildPhi(b, e->g->i64, "i");
    LLVMAddIncoming(l->iv, &lo, &l->before, 1);
    LLVMBuildCondBr(b, LLVMBuildICmp(b, LLVMIntSLT, l->iv, hi, ""), body, l->exit);
    LLVMPositionBuilderAtEnd(b, body);
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
    memo_forget(e, l->memo);
}

/* ---- branches ------------------------------------------------------------------------------ */

If if_begin(Emit *e, LLVMValueRef cond, const char *name) {
    If i = {emit_block(e, name), emit_block(e, "else"), emit_block(e, "end"), NULL, NULL, 0};
    LLVMBuildCondBr(e->g->b, cond, i.then_, i.else_);
    LLVMPositionBuilderAtEnd(e->g->b, i.then_);
    i.memo = memo_mark(e);
    return i;
}

void if_else(Emit *e, If *i) {
    memo_forget(e, i->memo);
    i->then_out = emit_here(e);
    LLVMBuildBr(e->g->b, i->end);
    LLVMMoveBasicBlockAfter(i->else_, i->then_out);
    LLVMPositionBuilderAtEnd(e->g->b, i->else_);
}

void if_end(Emit *e, If *i) {
    memo_forget(e, i->memo);
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
