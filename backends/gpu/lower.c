// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Device functions: parameters, values, and the walk over the ops.
#include "backends/gpu/lower.h"
#include "backends/gpu/ops.h"

#include "lang/diag.h"

#include <stdarg.h>
#include <string.h>

/* ---- small things -------------------------------------------------------------------------- */

LLVMValueRef gpu_i32(GpuFn *f, int64_t n) {
    return LLVMConstInt(f->g->i32, (uint64_t)n, true);
}

LLVMValueRef gpu_true(GpuFn *f) {
    return LLVMConstInt(f->g->i1, 1, false);
}

enum { MAX_CALL = 8, TENSORMAP_ALIGN = 64 };

LLVMValueRef gpu_call(GpuFn *f, const char *name, int n, ...) {
    LLVMValueRef args[MAX_CALL];
    va_list ap;
    va_start(ap, n);
    for (int i = 0; i < n && i < MAX_CALL; i++) args[i] = va_arg(ap, LLVMValueRef);
    va_end(ap);
    return portable_call(f->g, name, n, args);
}

GpuPlace gpu_to_head(GpuFn *f) {
    LLVMBuilderRef b = f->g->b;
    GpuPlace back = {LLVMGetInsertBlock(b), LLVMGetCurrentDebugLocation2(b)};
    LLVMPositionBuilderBefore(b, LLVMGetBasicBlockTerminator(f->entry)); // and takes its position
    return back;
}

void gpu_from_head(GpuFn *f, GpuPlace back) {
    LLVMPositionBuilderAtEnd(f->g->b, back.block);
    LLVMSetCurrentDebugLocation2(f->g->b, back.where);
}

/* ---- values -------------------------------------------------------------------------------- */

int gpu_registers(const Type *t) {
    if (ty_promised(t)) t = ty_promised(t);
    return t->rank ? (int)layout_registers(t->layout) : 1;
}

const Layout *gpu_layout(GpuFn *f, const Value *v) {
    if (!v->type->layout)
        ice(f->ctx, v->def ? v->def->loc : f->device->loc, "a block without a layout");
    return v->type->layout;
}

LLVMTypeRef gpu_type(GpuFn *f, const Value *v) {
    return gen_elem(f->g, v->type->elem);
}

static void *lowered_value(GpuFn *f, const Value *v) {
    void *found = map_get(&f->values, v);
    if (!found) {
        const char *what = v->def ? op_info[v->def->code].name : "an argument";
        ice(f->ctx, v->def ? v->def->loc : f->device->loc, "%s was not lowered", what);
    }
    return found;
}

LLVMValueRef *gpu_block(GpuFn *f, const Value *v) {
    return lowered_value(f, v);
}

LLVMValueRef gpu_scalar(GpuFn *f, const Value *v) {
    return gpu_block(f, v)[0];
}

const GpuTensor *gpu_tensor(GpuFn *f, const Value *v) {
    return lowered_value(f, v);
}

void gpu_set_block(GpuFn *f, const Value *v, LLVMValueRef *regs) {
    map_set(f->ctx, &f->values, v, regs);
}

LLVMValueRef *gpu_new_block(GpuFn *f, const Value *v) {
    if (v->type->rank) gpu_layout(f, v);
    LLVMValueRef *regs = ctx_array(f->ctx, LLVMValueRef, gpu_registers(v->type));
    gpu_set_block(f, v, regs);
    return regs;
}

void gpu_set_scalar(GpuFn *f, const Value *v, LLVMValueRef x) {
    gpu_new_block(f, v)[0] = x;
}

/* ---- parameters ---------------------------------------------------------------------------- */

typedef VEC(LLVMTypeRef) ParamTypes;

static LLVMTypeRef global_pointer(const Gen *g) {
    return LLVMPointerTypeInContext(g->llvm, 1);
}

static int count_dynamic(int n, const int64_t *x) {
    int dynamic = 0;
    for (int i = 0; i < n; i++) dynamic += x[i] == DYNAMIC;
    return dynamic;
}

/// Lists the machine parameters of one parameter: tg_device_function in runtime/abi.h.
static void flatten_type(GpuFn *f, const Type *t, ParamTypes *out) {
    Gen *g = f->g;
    if (t->kind == TK_DESC) {
        vec_push(f->ctx, out, g->ptr);
        return;
    }
    if (t->kind != TK_TENSOR) {
        vec_push(f->ctx, out, gen_mem_elem(g, t->elem));
        return;
    }
    vec_push(f->ctx, out, global_pointer(g));
    int n = count_dynamic(t->rank, t->extents) + count_dynamic(t->rank, t->strides);
    for (int i = 0; i < n; i++) vec_push(f->ctx, out, g->i64);
}

/// `next`: number of the next machine parameter.
static LLVMValueRef known_or_param(GpuFn *f, int64_t known, int *next) {
    return known == DYNAMIC ? LLVMGetParam(f->fn, (unsigned)(*next)++) : gen_i64(f->g, known);
}

static void bind_device_tensor(GpuFn *f, const Value *v, int *next) {
    GpuTensor *t = ctx_new(f->ctx, GpuTensor);
    const Type *type = v->type;
    t->value = v;
    t->class = f->n_classes++;
    t->align = type->align;
    t->data = LLVMGetParam(f->fn, (unsigned)(*next)++);
    for (int d = 0; d < type->rank; d++) t->dims[d] = known_or_param(f, type->extents[d], next);
    for (int d = 0; d < type->rank; d++) t->strides[d] = known_or_param(f, type->strides[d], next);
    map_set(f->ctx, &f->values, v, t);
}

/* ---- classes of tensors -------------------------------------------------------------------- */

static bool is_written_tensor(const Value *tensor) {
    for_each_use(u, tensor) {
        if (op_has(u->user, WRITES)) return true;
    }
    return false;
}

static GpuTensor *device_tensor(GpuFn *f, const Value *v) {
    return v->type->kind == TK_TENSOR ? map_get(&f->values, v) : NULL;
}

/// Moves every argument of one class to another. A tensor may be in several pairs, so the whole
/// class moves with it.
static void move_class(GpuFn *f, int from, int to) {
    const Region *r = f->device->regions[0];
    for (int i = 0; i < r->n_args; i++) {
        GpuTensor *t = device_tensor(f, r->args[i]);
        if (t && t->class == from) t->class = to;
    }
}

/// Joins the classes of the device arguments that a dispatch gives for parameters x and y of the
/// kernel.
static void join_classes(GpuFn *f, const Op *dispatch, const Value *x, const Value *y) {
    const Region *r = f->device->regions[0];
    for (int i = 1; i < dispatch->n_operands; i++)
        for (int j = 1; j < dispatch->n_operands; j++) {
            if (operand(dispatch, i) != x || operand(dispatch, j) != y) continue;
            GpuTensor *a = device_tensor(f, r->args[i]), *b = device_tensor(f, r->args[j]);
            if (a && b) move_class(f, b->class, a->class);
        }
}

static void join_in_place(GpuFn *f, Op *op) {
    const Op *kernel = op_enclosing(op, OP_KERNEL);
    const Attr *pairs = kernel ? op_ints(kernel, A_IN_PLACE) : NULL;
    const Region *r = kernel ? kernel->regions[0] : NULL;
    for (int i = 0; pairs && i + 1 < pairs->n; i += 2)
        join_classes(f, op, r->args[pairs->ints[i]], r->args[pairs->ints[i + 1]]);
}

static void join_dispatch_of(Op *op, void *arg) {
    GpuFn *f = arg;
    if (op->code != OP_DISPATCH) return;
    if (strcmp(op_str(op, A_DEVICE), op_str(f->device, A_NAME)) == 0) join_in_place(f, op);
}

/// The tensors of a kernel that its launches write, and the function in question.
typedef struct PhaseWrites {
    GpuFn *f;
    PtrMap written; // values of the host
} PhaseWrites;

static void note_phase_writes(Op *op, void *arg) {
    PhaseWrites *p = arg;
    if (op->code != OP_DISPATCH) return;
    const Op *device = find_device(op_enclosing(op, OP_MODULE), op_str(op, A_DEVICE));
    for (int i = 1; i < op->n_operands; i++)
        if (is_written_tensor(device->regions[0]->args[i]))
            map_set(p->f->ctx, &p->written, operand(op, i), op);
}

/// Marks the tensors of the function that a launch of the kernel writes.
static void take_phase_writes(Op *op, void *arg) {
    PhaseWrites *p = arg;
    const Op *kernel = op_enclosing(op, OP_KERNEL);
    if (op->code != OP_DISPATCH || !kernel) return;
    if (strcmp(op_str(op, A_DEVICE), op_str(p->f->device, A_NAME)) != 0) return;
    const Attr *pairs = op_ints(kernel, A_IN_PLACE);
    const Region *host = kernel->regions[0], *r = p->f->device->regions[0];
    for (int i = 1; i < op->n_operands; i++) {
        GpuTensor *t = device_tensor(p->f, r->args[i]);
        if (!t) continue;
        t->written |= map_get(&p->written, operand(op, i)) != NULL;
        for (int k = 0; pairs && k + 1 < pairs->n; k += 2)
            for (int side = 0; side < 2; side++)
                t->written |= host->args[pairs->ints[k + side]] == operand(op, i) &&
                              map_get(&p->written, host->args[pairs->ints[k + !side]]);
    }
}

/// If a function may begin before the preceding launch has ended, finds the tensors that the
/// preceding launch may still write.
static void find_phase_writes(GpuFn *f) {
    PhaseWrites p = {.f = f};
    Op *module = op_enclosing(f->device, OP_MODULE);
    op_walk_pre(module, note_phase_writes, &p);
    op_walk_pre(module, take_phase_writes, &p);
}

static void find_rank_wait(Op *op, void *found) {
    *(bool *)found |= op->code == OP_SIGNAL_WAIT || op->code == OP_COMM_FENCE;
}

/// Tensors that may be one view have one class: a launch may pass one view for two parameters of
/// which the kernel writes one. Memory that a program waits for, or updates by atomics, is written
/// by other programs while it runs.
static void find_classes(GpuFn *f) {
    const Region *r = f->device->regions[0];
    bool waits = false;
    op_walk_pre((Op *)(uintptr_t)f->device, find_rank_wait, &waits);
    op_walk_pre((Op *)op_enclosing(f->device, OP_MODULE), join_dispatch_of, f);
    for (int i = 1; i < r->n_args; i++) {
        GpuTensor *t = device_tensor(f, r->args[i]);
        if (t) t->stored = is_written_tensor(t->value);
        if (t) t->written = waits;
        for (int j = 1; t && j < r->n_args; j++) {
            const GpuTensor *u = device_tensor(f, r->args[j]);
            t->written |= u && u->class == t->class && is_written_tensor(u->value);
        }
    }
    if (f->kernel->early) find_phase_writes(f);
    gpu_order_begin(f);
}

/* ---- the function's head ------------------------------------------------------------------- */

/// A tensor map stays in constant memory: parameter number `n`, counted from 1.
static void bind_desc(GpuFn *f, const Value *v, LLVMValueRef x, unsigned n) {
    LLVMContextRef llvm = f->g->llvm;
    LLVMTypeRef bytes = LLVMArrayType2(f->g->i8, TG_TENSORMAP_BYTES);
    unsigned byval = LLVMGetEnumAttributeKindForName("byval", 5);
    unsigned align = LLVMGetEnumAttributeKindForName("align", 5);
    LLVMAddAttributeAtIndex(f->fn, n, LLVMCreateTypeAttribute(llvm, byval, bytes));
    LLVMAddAttributeAtIndex(f->fn, n, LLVMCreateEnumAttribute(llvm, align, TENSORMAP_ALIGN));
    LLVMValueRef *cell = ctx_array(f->ctx, LLVMValueRef, 1);
    *cell = x;
    gpu_set_block(f, v, cell);
}

static void bind_params(GpuFn *f) {
    const Region *r = f->device->regions[0];
    int next = 0;
    for (int i = 1; i < r->n_args; i++) {
        const Value *v = r->args[i];
        if (v->type->kind == TK_TENSOR) {
            bind_device_tensor(f, v, &next);
            continue;
        }
        LLVMValueRef x = LLVMGetParam(f->fn, (unsigned)next++);
        if (v->type->kind == TK_DESC)
            bind_desc(f, v, x, (unsigned)next);
        else
            gpu_set_scalar(f, v, gen_from_memory(f->g, v->type->elem, x));
    }
    f->kernel->n_args = next;
    if (f->kernel->records) f->faults = LLVMGetParam(f->fn, (unsigned)next);
    find_classes(f);
}

/* ---- the function -------------------------------------------------------------------------- */

static void add_function_attribute(GpuFn *f, const char *name, const char *value) {
    LLVMAttributeRef a = LLVMCreateStringAttribute(f->g->llvm, name, (unsigned)strlen(name), value,
                                                   (unsigned)strlen(value));
    LLVMAddAttributeAtIndex(f->fn, (LLVMAttributeIndex)LLVMAttributeFunctionIndex, a);
}

/// Returns a name that assemblers accept.
static const char *symbol_of(GpuFn *f, const char *name) {
    char *s = ctx_format(f->ctx, "%s", name);
    for (char *c = s; *c; c++) {
        bool letter = (*c >= 'a' && *c <= 'z') || (*c >= 'A' && *c <= 'Z') || *c == '_';
        if (!letter && (c == s || *c < '0' || *c > '9')) *c = '_';
    }
    return s;
}

static void declare_device(GpuFn *f) {
    const Region *r = f->device->regions[0];
    ParamTypes types = {0};
    GpuKernel *k = f->kernel;
    for (int i = 1; i < r->n_args; i++) flatten_type(f, r->args[i]->type, &types);
    if (k->records) vec_push(f->ctx, &types, global_pointer(f->g));
    LLVMTypeRef type = LLVMFunctionType(f->g->void_, types.data, (unsigned)types.n, false);
    f->fn = LLVMAddFunction(f->g->module, k->name, type);
    add_function_attribute(f, "tg.maxntid", ctx_format(f->ctx, "%d,1,1", k->threads));
    int ctas = k->together ? k->together : k->cluster;
    if (ctas > 1) add_function_attribute(f, "tg.cluster", ctx_format(f->ctx, "%d,1,1", ctas));
    f->scope = debug_subprogram(f->g, f->fn, f->device->loc, k->name);
}

/// Returns the program's number (i32). A program is a CTA or a cluster. For a cluster this also
/// sets the number of the thread in it.
static LLVMValueRef number_of_program(GpuFn *f) {
    const Gen *g = f->g;
    LLVMValueRef cta = gpu_call(f, "tg.cta.id.x", 0);
    f->cluster_thread = f->thread;
    if (f->kernel->cluster == 1) return cta;
    LLVMValueRef rank = gpu_call(f, "tg.cluster.rank", 0);
    rank = LLVMBuildMul(g->b, rank, gpu_i32(f, f->threads), "");
    f->cluster_thread = LLVMBuildOr(g->b, f->thread, rank, "");
    return LLVMBuildUDiv(g->b, cta, gpu_i32(f, f->kernel->cluster), "");
}

static void begin_device(GpuFn *f) {
    Gen *g = f->g;
    f->entry = LLVMAppendBasicBlockInContext(g->llvm, f->fn, "entry");
    LLVMBasicBlockRef body = LLVMAppendBasicBlockInContext(g->llvm, f->fn, "body");
    LLVMPositionBuilderAtEnd(g->b, f->entry);
    debug_location(g, f->scope, f->device->loc);
    if (f->kernel->early) gpu_call(f, "tg.nv.depends", 0);
    f->thread = gpu_call(f, "tg.thread.id.x", 0);
    f->lane = LLVMBuildAnd(g->b, f->thread, gpu_i32(f, f->target->lanes - 1), "lane");
    f->warp = LLVMBuildLShr(g->b, f->thread, gpu_i32(f, gpu_lane_bits(f->target)), "warp");
    f->program = LLVMBuildZExt(g->b, number_of_program(f), g->i64, "program");
    f->shared = gpu_call(f, "tg.shared.base", 0);
    gpu_set_scalar(f, f->device->regions[0]->args[0], f->program);
    bind_params(f);
    LLVMBuildBr(g->b, body);
    LLVMPositionBuilderAtEnd(g->b, body);
}

void gpu_region(GpuFn *f, const Region *r) {
    for_each_op(op, r) {
        if (op_has(op, TERMINATOR)) break;
        debug_location(f->g, f->scope, op->loc);
        f->loc = op->loc;
        GpuLower *lower = gpu_lowerings[op->code];
        if (!lower && op_has(op, ELEMENTWISE)) lower = gpu_lower_elementwise;
        if (!lower) ice(f->ctx, op->loc, "%s in device code", op_info[op->code].name);
        if (f->options->check) gpu_check_division(f, op);
        lower(f, op);
        for (int i = 0; i < f->stretches.n; i++) f->stretches.data[i].open = false;
    }
}

void gpu_apply(GpuFn *f, const Region *r, LLVMValueRef *args, LLVMValueRef *yields) {
    for (int i = 0; i < r->n_args; i++) gpu_set_scalar(f, r->args[i], args[i]);
    for_each_op(op, r) {
        if (op_has(op, TERMINATOR)) break;
        GpuLower *lower = gpu_lowerings[op->code];
        if (!lower && op_has(op, ELEMENTWISE)) lower = gpu_lower_elementwise;
        if (!lower) ice(f->ctx, op->loc, "%s in a region of scalars", op_info[op->code].name);
        lower(f, op);
    }
    for (int i = 0; i < r->last->n_operands; i++) yields[i] = gpu_scalar(f, operand(r->last, i));
}

/* ---- the module ---------------------------------------------------------------------------- */

typedef struct FaultSearch {
    bool check, found;
} FaultSearch;

static void find_fault(Op *op, void *arg) {
    FaultSearch *s = arg;
    s->found |= op->code == OP_PRINT || (s->check && op->code == OP_ASSERT);
    s->found |= s->check && op_is_access(op) && op_flag(op, A_CHECKED);
    s->found |= s->check && (op->code == OP_DIV || op->code == OP_REM);
}

static bool has_faults(const Op *device, const GpuOptions *options) {
    FaultSearch s = {.check = options->check};
    op_walk_pre((Op *)device, find_fault, &s);
    return s.found;
}

static void seek_sort(Op *op, void *arg) {
    *(bool *)arg |= op->code == OP_SORT;
}

/// Rings use only the rest of the memory, so blocks that the kernel names cause any excess.
static void check_shared(const GpuFn *f) {
    if (f->shared_bytes <= f->target->shared_cta) return;
    diag(f->ctx, f->device->loc, D_SHARED_MEMORY, (long long)f->shared_bytes, f->target->name,
         f->target->shared_cta);
    bool sorts = false;
    op_walk_pre((Op *)f->device, seek_sort, &sorts);
    diag_hint(f->ctx, sorts ? "rows that are sorted have to fit whole: sort shorter ones"
                            : "choose smaller tiles: smaller tune values, or smaller numbers in "
                              "`by` and in extents");
    ctx_leave(f->ctx, CTX_ERRORS);
}

static void find_widest_block(Op *op, void *arg) {
    const Value **widest = arg;
    for (int i = 0; i < op->n_results; i++) {
        const Value *v = result(op, i);
        bool more =
            ty_is_block(v->type) && (!*widest || ty_count(v->type) > ty_count((*widest)->type));
        if (more) *widest = v;
    }
}

/// Refuses blocks far larger than the registers. They would be in local memory, with an instruction
/// for each element, and assemblers would take minutes.
static void check_registers(const GpuFn *f) {
    enum { ELEMENTS_THREAD = 512 };
    const Value *widest = NULL;
    op_walk_pre((Op *)f->device, find_widest_block, &widest);
    int64_t threads = (int64_t)f->threads * f->kernel->cluster;
    int64_t each = widest ? ty_count(widest->type) / threads : 0;
    if (each <= ELEMENTS_THREAD) return;
    diag(f->ctx, widest->def->loc, D_BLOCK_REGISTERS, (long long)each, f->target->name,
         f->target->registers_thread);
    diag_hint(f->ctx, "choose smaller tiles, or a loop over parts: for n in N by 1024 { ... }");
    ctx_leave(f->ctx, CTX_ERRORS);
}

/// The launches of a kernel.
typedef struct LaunchCount {
    int dispatches;
    bool steps; // of the runtime, around programs of several ranks
} LaunchCount;

static void count_launch(Op *op, void *arg) {
    LaunchCount *n = arg;
    n->dispatches += op->code == OP_DISPATCH;
    n->steps |= op->code == OP_COMM_BEGIN;
}

/// Whether programs may begin early: before the preceding step of the runtime or phase of the
/// kernel has ended. The following ones may then begin before these end.
static bool is_early(const Op *device, const GpuTarget *target) {
    LaunchCount n = {0};
    op_walk_pre(op_enclosing(device, OP_MODULE), count_launch, &n);
    return (n.steps || n.dispatches > 1) && gpu_has(target, GPU_EARLY);
}

static void lower_device(Gen *g, Ir *ir, const Op *device, const GpuOptions *options,
                         GpuCode *code) {
    GpuFn *f = ctx_new(g->ctx, GpuFn);
    f->g = g;
    f->ctx = g->ctx;
    f->ir = ir;
    f->options = options;
    f->code = code;
    f->device = device;
    f->kernel = &code->kernels[code->n++];
    f->warps = (int)op_int(device, A_WARPS, 1);
    f->target = gpu_target(options->target);
    f->threads = f->target->lanes * f->warps;
    f->shared_fixed = f->shared_bytes = op_int(device, A_SHARED_BYTES, 0);
    *f->kernel = (GpuKernel){.name = symbol_of(f, op_str(device, A_NAME)),
                             .threads = gpu_warps_of_all(device) * f->target->lanes,
                             .cluster = (int)op_int(device, A_CLUSTER, 1),
                             .together = gpu_shares_copies(device) ? GPU_PAIR : 0,
                             .early = is_early(device, f->target),
                             .faults = has_faults(device, options)};
    f->kernel->records = f->kernel->faults || options->marks;
    f->any_far = f->kernel->cluster > 1;
    f->started = !f->any_far;
    check_registers(f);
    declare_device(f);
    begin_device(f);
    gpu_mark(f, device, "program");
    gpu_versions(f);
    gpu_mark(f, device, GPU_MARK_END);
    LLVMBuildRetVoid(g->b);
    gpu_drop_barriers(f);
    gpu_sink(f);
    add_function_attribute(f, "tg.minctasm", ctx_format(g->ctx, "%d", gpu_occupancy(f)));
    if (gpu_chains_beside(f) > 1) add_function_attribute(f, "tg.ctas.counted", "1");
    f->kernel->shared_bytes = f->shared_bytes;
    check_shared(f);
}

GpuCode *gpu_lower(Gen *g, Ir *ir, const Op *module, const GpuOptions *options) {
    GpuCode *code = ctx_new(g->ctx, GpuCode);
    int n = 0;
    g->portable = true;
    const GpuTarget *target = gpu_target(options->target);
    g->f8 = gpu_has(target, GPU_F8);
    g->pairs = gpu_has(target, GPU_PAIRS);
    if (options->debug) debug_begin(g, target->ptx != 0);
    for_each_op(op, module->regions[0]) {
        n += op->code == OP_DEVICE;
    }
    code->kernels = ctx_array(g->ctx, GpuKernel, n + 1);
    for_each_op(op, module->regions[0]) {
        if (op->code == OP_DEVICE) lower_device(g, ir, op, options, code);
    }
    const Op *kernel = find_kernel(module, NULL);
    int again = kernel ? gpu_host_again(kernel) : 0;
    for (int i = 0; i < code->n; i++) code->kernels[i].again = again;
    debug_end(g);
    return code;
}
