// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Scopes: the facts that hold while a part of the function is emitted.
//
// The emission remembers a value as an LLVM value or as owned memory. Behind the body of a loop or
// the arm of a branch neither is valid: the instruction does not dominate the following code, and
// the range of the arena gets a new owner. So every remembered fact obeys one rule: it holds to the
// end of the scope in which it was noted. This covers bindings of values, memoised vectors and
// ranges of the arena. A block that is lazy outside an arm, and in memory inside it, is lazy again
// after it.
//
// The rule is checked where code could evade it. A buffer may be used only while its scope is open
// (buffer_base). Roots gathered in a scope are emitted in it (scope_leave).
#include <string.h>

#include "backends/cpu/emit.h"

struct Scope {
    struct Scope *up;
    int memo, undo, stretches; // counts at entry
    int roots;                 // of the gathered nest
    bool open;
};

enum { MEMO_HEADS = 1024 };

typedef struct MemoEntry {
    const Value *value;
    Place place;
    LLVMValueRef x;
    int next;
    unsigned hash;
} MemoEntry;

/// A binding before its change.
typedef struct Undo {
    Binding *at, before;
} Undo;

typedef struct Known {
    PtrMap bindings; // Value, or Op without results -> Binding
    VEC(Undo) undo;
    VEC(MemoEntry) memo; // a stack with hash chains through it
    int heads[MEMO_HEADS];
} Known;

/* ---- entering and leaving ------------------------------------------------------------------ */

static int roots_gathered(const Emit *e) {
    return e->nest ? e->nest->roots.n : 0;
}

void scope_enter(Emit *e) {
    struct Scope *s = ctx_new(e->ctx, struct Scope);
    *s = (struct Scope){.up = e->inmost,
                        .memo = memo_mark(e),
                        .undo = e->known->undo.n,
                        .stretches = arena_mark(e),
                        .roots = roots_gathered(e),
                        .open = true};
    e->inmost = s;
}

void scope_leave(Emit *e) {
    Known *k = e->known;
    struct Scope *s = e->inmost;
    if (roots_gathered(e) != s->roots)
        ice(e->ctx, (Loc){0}, "a loop nest of a loop or branch is not emitted at its end");
    memo_forget(e, s->memo);
    while (k->undo.n > s->undo) {
        const Undo *u = &k->undo.data[--k->undo.n];
        *u->at = u->before;
    }
    arena_forget(e, s->stretches);
    s->open = false;
    e->inmost = s->up;
}

bool scope_is_open(const struct Scope *s) {
    return s->open;
}

void scopes_begin(Emit *e) {
    e->known = ctx_new(e->ctx, Known);
    memset(e->known->heads, -1, sizeof e->known->heads);
    scope_enter(e);
}

/* ---- bindings ------------------------------------------------------------------------------ */

/// Returns the binding of a value, or of an op without results, for a change.
static Binding *rebind_value(Emit *e, const void *key) {
    Known *k = e->known;
    Binding *b = map_get(&k->bindings, key);
    if (!b) {
        b = ctx_new(e->ctx, Binding);
        map_set(e->ctx, &k->bindings, key, b);
    }
    if (e->inmost->up) vec_push(e->ctx, &k->undo, ((Undo){b, *b}));
    return b;
}

static Binding binding_of(Emit *e, const void *key) {
    const Binding *b = map_get(&e->known->bindings, key);
    return b ? *b : (Binding){0};
}

void bind_lanes(Emit *e, const Value *v, LLVMValueRef x) {
    rebind_value(e, v)->scalar = x;
}

void bind_scalar(Emit *e, const Value *v, LLVMValueRef x) {
    bind_lanes(e, v, x);
    debug_scalar(e, v, x);
}

LLVMValueRef emit_scalar(Emit *e, const Value *v) {
    LLVMValueRef x = binding_of(e, v).scalar;
    if (!x)
        ice(e->ctx, v->def ? v->def->loc : (Loc){0}, "scalar %s of %s has no value here",
            v->name ? v->name : "", v->def ? op_info[v->def->code].name : "a region");
    return x;
}

void bind_tensor(Emit *e, const Value *v, const TensorRef *t) {
    rebind_value(e, v)->tensor = t;
}

const TensorRef *emit_tensor(Emit *e, const Value *v) {
    const TensorRef *t = binding_of(e, v).tensor;
    if (!t) ice(e->ctx, (Loc){0}, "tensor %s is not bound", v->name ? v->name : "");
    return t;
}

void bind_buffer(Emit *e, const Value *v, Buffer *b) {
    rebind_value(e, v)->buffer = b;
    if (b) debug_block(e, v, b);
}

Buffer *bound_buffer(Emit *e, const Value *v) {
    return binding_of(e, v).buffer;
}

static const void *access_key(const Op *op) {
    return op->n_results ? (const void *)result(op, 0) : op;
}

void bind_access(Emit *e, const Op *op, Prepared *p) {
    rebind_value(e, access_key(op))->access = p;
}

Prepared *bound_access(Emit *e, const Op *op) {
    return binding_of(e, access_key(op)).access;
}

/* ---- the memory of vectors ----------------------------------------------------------------- */

static unsigned memo_hash(const Value *v, const Place *p) {
    uintptr_t h = (uintptr_t)v ^ (uintptr_t)(p->axis + 2) * 0x9e3779b1u ^ (uintptr_t)p->lanes;
    for (int i = 0; i < p->rank; i++) h = h * 31 + ((uintptr_t)p->at[i] >> 4);
    return (unsigned)((h ^ h >> 15) % MEMO_HEADS);
}

static bool is_same_place(const Place *a, const Place *b) {
    if (a->rank != b->rank || a->axis != b->axis || a->lanes != b->lanes) return false;
    for (int i = 0; i < a->rank; i++)
        if (a->at[i] != b->at[i]) return false;
    return true;
}

LLVMValueRef memo_get(Emit *e, const Value *v, const Place *p) {
    const Known *k = e->known;
    for (int i = k->heads[memo_hash(v, p)]; i >= 0; i = k->memo.data[i].next) {
        const MemoEntry *entry = &k->memo.data[i];
        if (entry->value == v && is_same_place(&entry->place, p)) return entry->x;
    }
    return NULL;
}

void memo_set(Emit *e, const Value *v, const Place *p, LLVMValueRef x) {
    Known *k = e->known;
    unsigned h = memo_hash(v, p);
    MemoEntry entry = {v, *p, x, k->heads[h], h};
    k->heads[h] = k->memo.n;
    vec_push(e->ctx, &k->memo, entry);
}

int memo_mark(const Emit *e) {
    return e->known->memo.n;
}

void memo_forget(Emit *e, int mark) {
    Known *k = e->known;
    while (k->memo.n > mark) {
        const MemoEntry *entry = &k->memo.data[--k->memo.n];
        k->heads[entry->hash] = entry->next;
    }
}
