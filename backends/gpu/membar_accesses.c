// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Finds the accesses of instructions to memory that threads share.
//
// Every address of shared memory is derived from that of a room (gpu_room_at), which tells its
// possible bytes. An address without a known origin may be anything. A function that is not listed
// here may access anything.
#include <string.h>

#include "backends/gpu/membar.h"

enum { WARPS_OF_GROUP = 4 };

/* ---- functions ----------------------------------------------------------------------------- */

typedef enum Role {
    ROLE_NONE,
    ROLE_READS,
    ROLE_WRITES,  // through its first operand
    ROLE_UPDATES, // atomically
    ROLE_SIGNALS, // by an mbarrier
    ROLE_COPIES,  // cp.async
    ROLE_COPIES_TMA,
    ROLE_STORES_TMA,
    ROLE_MULTIPLIES, // reads the operands of descriptors
    ROLE_WAITS,      // for asynchronous work of a kind Later, except the youngest
    ROLE_ENDS,       // waits for all work of the kind
    ROLE_MEETS,      // the lanes of a warp
    ROLE_ADDRESS,    // derived from its first operand
    ROLE_BARRIER,
    ROLE_FENCE,
    ROLE_ANYTHING
} Role;

typedef struct FnRole {
    const char *prefix;
    Role role;
    Later later;
} FnRole;

/// The first row that is a prefix of the name gives the role.
static const FnRole fn_roles[] = {
    {"tg.shared.addr", ROLE_ADDRESS, 0},
    {"tg.nv.cluster.addr", ROLE_ADDRESS, 0},
    {"tg.load.global.nc", ROLE_NONE, 0}, // nothing writes that memory
    {"tg.load.buffer.nc", ROLE_NONE, 0},
    {"tg.load.", ROLE_READS, 0},
    {"tg.store.", ROLE_WRITES, 0},
    {"tg.atomic.", ROLE_UPDATES, 0},
    {"tg.signal.put", ROLE_WRITES, 0},
    {"tg.nv.ldmatrix.", ROLE_READS, 0},
    {"tg.nv.stmatrix.", ROLE_WRITES, 0},
    {"tg.nv.mbarrier.init", ROLE_WRITES, 0},
    {"tg.nv.mbarrier.", ROLE_SIGNALS, 0},
    {"tg.nv.cp.async.commit", ROLE_NONE, 0},
    {"tg.nv.cp.async.wait.", ROLE_WAITS, LATER_COPIES},
    {"tg.nv.cp.async.", ROLE_COPIES, LATER_COPIES},
    {"tg.nv.tma.load.", ROLE_COPIES_TMA, 0},
    {"tg.nv.tma.store.", ROLE_STORES_TMA, LATER_STORES},
    {"tg.nv.tma.add.", ROLE_STORES_TMA, LATER_STORES},
    {"tg.nv.tma.wait.", ROLE_WAITS, LATER_STORES},
    {"tg.nv.tma.", ROLE_NONE, 0},
    {"tg.nv.wgmma.m64", ROLE_MULTIPLIES, LATER_PRODUCTS},
    {"tg.nv.wgmma.wait.0.", ROLE_ENDS, LATER_PRODUCTS},
    {"tg.nv.wgmma.wait.", ROLE_WAITS, LATER_PRODUCTS},
    {"tg.nv.wgmma.", ROLE_NONE, 0},
    {"tg.nv.fence.", ROLE_NONE, 0},
    {"tg.nv.setmaxnreg.", ROLE_NONE, 0},
    {"tg.fence.", ROLE_FENCE, 0},
    {"tg.nv.depends", ROLE_NONE, 0}, // each thread waits for earlier launches itself
    {"tg.trap", ROLE_NONE, 0},
    {"tg.clock", ROLE_NONE, 0},
    {"tg.warp.sync", ROLE_MEETS, 0},
    {"tg.cluster.", ROLE_NONE, 0},
    {"llvm.", ROLE_NONE, 0},
};

static const FnRole *find_role(const char *name) {
    static const FnRole barrier = {"", ROLE_BARRIER, 0}, nothing = {"", ROLE_NONE, 0},
                        anything = {"", ROLE_ANYTHING, 0};
    Fn fn;
    if (strncmp(name, "tg.barrier", strlen("tg.barrier")) == 0) return &barrier;
    for (size_t i = 0; i < sizeof fn_roles / sizeof *fn_roles; i++)
        if (strncmp(name, fn_roles[i].prefix, strlen(fn_roles[i].prefix)) == 0) return &fn_roles[i];
    return fn_find(name, &fn) && fn.row->effect == FN_NONE ? &nothing : &anything;
}

static const FnRole *call_role(Touches *t, LLVMValueRef call) {
    LLVMValueRef callee = LLVMGetCalledValue(call);
    const FnRole *r = map_get(&t->roles, callee);
    if (r) return r;
    size_t n;
    r = find_role(LLVMGetValueName2(callee, &n));
    map_set(t->f->ctx, &t->roles, callee, (void *)(uintptr_t)r);
    return r;
}

/* ---- rooms --------------------------------------------------------------------------------- */

const GpuRoom *gpu_room(GpuFn *f, const char *what, int64_t lo, int64_t hi) {
    GpuRoom *r = ctx_new(f->ctx, GpuRoom);
    *r = (GpuRoom){.what = what, .lo = lo, .hi = hi};
    return r;
}

// Returns a distinct address, even for byte 0.
LLVMValueRef gpu_room_at(GpuFn *f, const GpuRoom *room, int64_t at) {
    LLVMValueRef offset = gen_i64(f->g, at);
    LLVMValueRef p = LLVMBuildGEP2(f->g->b, f->g->i8, f->shared, &offset, 1, "");
    map_set(f->ctx, &f->rooms, p, (void *)(uintptr_t)room);
    if (at == 0) vec_push(f->ctx, &f->starts, p);
    return p;
}

static const GpuRoom nowhere;

static const GpuRoom *room_of(Touches *t, LLVMValueRef v);

/// Returns the first known room of the operands from `first` to `last`.
static const GpuRoom *room_of_operands(Touches *t, LLVMValueRef v, int first, int last) {
    const GpuRoom *r = &nowhere;
    for (int i = first; i <= last && r == &nowhere; i++)
        r = room_of(t, LLVMGetOperand(v, (unsigned)i));
    return r;
}

static const GpuRoom *trace_room(Touches *t, LLVMValueRef v) {
    switch (LLVMGetInstructionOpcode(v)) {
    case LLVMGetElementPtr:
    case LLVMZExt:
    case LLVMTrunc:
    case LLVMLShr:
    case LLVMShl: return room_of_operands(t, v, 0, 0);
    case LLVMAdd:
    case LLVMOr:
    case LLVMXor:
    case LLVMAnd: return room_of_operands(t, v, 0, 1);
    case LLVMCall:
        return call_role(t, v)->role == ROLE_ADDRESS ? room_of_operands(t, v, 0, 0) : &nowhere;
    case LLVMSelect: {
        const GpuRoom *yes = room_of(t, LLVMGetOperand(v, 1));
        return yes == room_of(t, LLVMGetOperand(v, 2)) ? yes : &nowhere;
    }
    default: return &nowhere;
    }
}

/// Returns the room of v, or `nowhere` if it is unknown.
static const GpuRoom *room_of(Touches *t, LLVMValueRef v) {
    if (!LLVMIsAInstruction(v)) return &nowhere;
    const GpuRoom *r = map_get(&t->f->rooms, v);
    if (!r) r = map_get(&t->rooms, v);
    if (r) return r;
    r = trace_room(t, v);
    map_set(t->f->ctx, &t->rooms, v, (void *)(uintptr_t)r);
    return r;
}

/// Each use of the same bytes makes a new room.
static bool is_same_room(const GpuRoom *a, const GpuRoom *b) {
    return a == b || (a && b && a->what == b->what && a->lo == b->lo && a->hi == b->hi);
}

/* ---- touches ------------------------------------------------------------------------------- */

static bool is_read(const Touch *t) {
    return t->kind == TOUCH_READ || t->kind == TOUCH_PRODUCT;
}

/// Whether two accesses of the kind never conflict.
static bool is_shared_kind(const Touch *t) {
    return t->kind == TOUCH_ATOMIC || t->kind == TOUCH_MBARRIER;
}

// Rooms overlap a ring's only if the pass `sync` has proved that all of the ring's copies were
// waited for.
bool accesses_conflict(const Touch *a, const Touch *b) {
    if (a->everything || b->everything) return true;
    if (b->early) return false;
    if (a->global != b->global || a->lo >= b->hi || b->lo >= a->hi) return false;
    if (is_read(a) && is_read(b)) return false;
    if (a->kind == b->kind && is_shared_kind(a)) return false;
    if (a->kind == TOUCH_COPY && b->room) return false;
    return !(b->kind == TOUCH_COPY && is_same_room(a->room, b->room));
}

static int touch_number(Touches *t, const Touch *touch) {
    static const Touch everything = {.kind = TOUCH_WRITE, .everything = true};
    for (int i = 0; i < t->all.n; i++) {
        const Touch *x = &t->all.data[i];
        if (x->kind == touch->kind && x->global == touch->global &&
            is_same_room(x->room, touch->room) && x->lo == touch->lo && x->hi == touch->hi &&
            x->everything == touch->everything && x->early == touch->early)
            return i;
    }
    if (t->all.n == MAX_TOUCHES) return MAX_TOUCHES - 1; // the last number stands for everything
    Touch added = t->all.n == MAX_TOUCHES - 1 ? everything : *touch;
    vec_push(t->f->ctx, &t->all, added);
    return t->all.n - 1;
}

static int add_touch(Touches *t, const Touch *touch, Steps *out) {
    Step s = {STEP_TOUCH, touch_number(t, touch)};
    const Step *last = out->n ? &out->data[out->n - 1] : NULL;
    if (!last || last->kind != s.kind || last->n != s.n) vec_push(t->f->ctx, out, s);
    return s.n;
}

/// Returns the tensor from whose data p is derived; NULL: none, or unknown.
static const GpuTensor *tensor_behind(const Touches *t, LLVMValueRef p, bool *known) {
    while (LLVMIsAInstruction(p) && LLVMGetInstructionOpcode(p) == LLVMGetElementPtr)
        p = LLVMGetOperand(p, 0);
    const Region *r = t->f->device->regions[0];
    *known = p == t->f->faults;
    for (int i = 1; i < r->n_args; i++) {
        const GpuTensor *x = map_get(&t->f->values, r->args[i]);
        if (r->args[i]->type->kind != TK_TENSOR || x->data != p) continue;
        *known = true;
        return x;
    }
    return NULL;
}

static void touch_global(Touches *t, LLVMValueRef p, TouchKind kind, Steps *out) {
    bool known;
    const GpuTensor *tensor = tensor_behind(t, p, &known);
    Touch touch = {.kind = kind, .global = true, .hi = INT64_MAX};
    if (known && (!tensor || gpu_order_is_free(t->f, tensor))) return;
    if (tensor) touch.lo = tensor->class, touch.hi = touch.lo + 1;
    if (tensor) touch.early = !tensor->stored;
    add_touch(t, &touch, out);
}

/// Returns the number of the access; -1: irrelevant.
static int touch_shared(Touches *t, LLVMValueRef at, TouchKind kind, Steps *out) {
    Touch touch = {.kind = kind, .hi = INT64_MAX};
    const GpuRoom *r = room_of(t, at);
    if (r != &nowhere) touch.room = r, touch.lo = r->lo, touch.hi = r->hi;
    return add_touch(t, &touch, out);
}

static void touch_at(Touches *t, LLVMValueRef at, TouchKind kind, Steps *out) {
    LLVMTypeRef type = LLVMTypeOf(at);
    bool pointer = LLVMGetTypeKind(type) == LLVMPointerTypeKind;
    if (pointer && LLVMGetPointerAddressSpace(type) == 1)
        touch_global(t, at, kind, out);
    else
        touch_shared(t, at, kind, out);
}

/* ---- steps ---------------------------------------------------------------------------------- */

/// Adds operands of products in shared memory, which are 64-bit descriptors.
static void touch_products(Touches *t, LLVMValueRef call, Later later, Steps *out) {
    for (int i = 0; i < (int)LLVMGetNumArgOperands(call); i++) {
        LLVMValueRef x = LLVMGetOperand(call, (unsigned)i);
        if (LLVMTypeOf(x) == t->f->g->i64)
            touch_set(&t->later[later], touch_shared(t, x, TOUCH_PRODUCT, out));
    }
}

static void step_of_call(Touches *t, LLVMValueRef call, Steps *out) {
    static const Touch anything = {.kind = TOUCH_WRITE, .everything = true};
    const FnRole *r = call_role(t, call);
    LLVMValueRef at = LLVMGetNumArgOperands(call) ? LLVMGetOperand(call, 0) : NULL;
    switch (r->role) {
    case ROLE_ADDRESS:
    case ROLE_NONE: return;
    case ROLE_READS: touch_at(t, at, TOUCH_READ, out); return;
    case ROLE_WRITES: touch_at(t, at, TOUCH_WRITE, out); return;
    case ROLE_UPDATES: touch_at(t, at, TOUCH_ATOMIC, out); return;
    case ROLE_SIGNALS: touch_at(t, at, TOUCH_MBARRIER, out); return;
    case ROLE_COPIES:
        touch_at(t, LLVMGetOperand(call, 1), TOUCH_READ, out);
        touch_set(&t->later[r->later], touch_shared(t, at, TOUCH_WRITE, out));
        return;
    case ROLE_COPIES_TMA: touch_shared(t, LLVMGetOperand(call, 1), TOUCH_COPY, out); return;
    case ROLE_STORES_TMA:
        at = LLVMGetOperand(call, 1);
        touch_set(&t->later[r->later], touch_shared(t, at, TOUCH_READ, out));
        return;
    case ROLE_MULTIPLIES: touch_products(t, call, r->later, out); return;
    case ROLE_WAITS:
    case ROLE_ENDS: {
        bool over = r->role == ROLE_ENDS && t->f->warps <= WARPS_OF_GROUP;
        vec_push(t->f->ctx, out, ((Step){over ? STEP_OVER : STEP_LATER, (int)r->later}));
        return;
    }
    case ROLE_MEETS:
        if (t->f->warps == 1) vec_push(t->f->ctx, out, ((Step){STEP_MEET, 0}));
        return;
    case ROLE_BARRIER: vec_push(t->f->ctx, out, ((Step){STEP_BARRIER, 0})); return;
    case ROLE_FENCE: t->fences = true; return;
    case ROLE_ANYTHING: add_touch(t, &anything, out); return;
    }
}

void access_steps(Touches *t, LLVMValueRef inst, Steps *out) {
    switch (LLVMGetInstructionOpcode(inst)) {
    case LLVMCall: step_of_call(t, inst, out); return;
    case LLVMLoad:
        if (!gpu_is_invariant(inst)) touch_at(t, LLVMGetOperand(inst, 0), TOUCH_READ, out);
        return;
    case LLVMStore: touch_at(t, LLVMGetOperand(inst, 1), TOUCH_WRITE, out); return;
    default: return;
    }
}
