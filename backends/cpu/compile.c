// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Compiles a kernel of grid IR to machine code. Host code becomes the function `entry`. The body of
// each launch becomes a task function, which receives its values in a context on entry's stack.
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "backends/cpu/emit.h"
#include "backends/llvm/target.h"
#include "lang/diag.h"
#include "runtime/abi.h"

/* ---- the ABI in LLVM's types --------------------------------------------------------------- */

_Static_assert(offsetof(tg_env, workspace) == ENV_WORKSPACE * sizeof(void *) &&
                   offsetof(tg_env, arena) == ENV_ARENA * sizeof(void *) &&
                   offsetof(tg_env, fail) == ENV_FAIL * sizeof(void *) &&
                   offsetof(tg_env, print) == ENV_PRINT * sizeof(void *) &&
                   offsetof(tg_env, dispatch) == ENV_DISPATCH * sizeof(void *) &&
                   offsetof(tg_env, tensormap) == ENV_TENSORMAP * sizeof(void *) &&
                   offsetof(tg_env, comm) == ENV_COMM * sizeof(void *) &&
                   offsetof(tg_env, counter) == ENV_COUNTER * sizeof(void *) &&
                   offsetof(tg_env, workspace_limit) == ENV_WORKSPACE_LIMIT * sizeof(void *) &&
                   offsetof(tg_env, mark) == ENV_MARK * sizeof(void *) &&
                   sizeof(tg_env) == ENV_FIELDS * sizeof(void *),
               "the functions of tg_env stand in the order of ENV_*");
_Static_assert(sizeof(tg_slot) == 24 && sizeof(tg_site) == 48, "as declared below");

static LLVMTypeRef function_type(LLVMTypeRef ret, int n, LLVMTypeRef *args) {
    return LLVMFunctionType(ret, args, (unsigned)n, false);
}

static void declare_abi(Cpu *c) {
    Gen *g = c->gen;
    LLVMTypeRef p = g->ptr, i64 = g->i64, i32 = g->i32;
    c->slot = LLVMStructTypeInContext(g->llvm, (LLVMTypeRef[]){p, p, p}, 3, false);
    LLVMTypeRef env[ENV_FIELDS];
    for (int i = 0; i < ENV_FIELDS; i++) env[i] = p;
    c->env = LLVMStructTypeInContext(g->llvm, env, ENV_FIELDS, false);
    c->site = LLVMStructCreateNamed(g->llvm, "tg_site");
    LLVMTypeRef fields[9] = {i32, i32, i32, i32, i32, i32, p, p, p};
    LLVMStructSetBody(c->site, fields, 9, false);
    c->task_fn = function_type(i32, 4, (LLVMTypeRef[]){p, p, i64, p});
    c->env_fn[ENV_PARALLEL_FOR] = function_type(i32, 5, (LLVMTypeRef[]){p, i64, i64, p, p});
    c->env_fn[ENV_WORKSPACE] = function_type(p, 2, (LLVMTypeRef[]){p, i64});
    c->env_fn[ENV_ARENA] = function_type(p, 2, (LLVMTypeRef[]){p, i64});
    c->env_fn[ENV_FAIL] = function_type(i32, 3, (LLVMTypeRef[]){p, p, p});
    c->env_fn[ENV_PRINT] = function_type(g->void_, 3, (LLVMTypeRef[]){p, p, p});
    c->env_fn[ENV_DISPATCH] = function_type(i32, 4, (LLVMTypeRef[]){p, i32, i64, p});
    c->env_fn[ENV_TENSORMAP] = function_type(i32, 6, (LLVMTypeRef[]){p, p, p, p, p, p});
    c->env_fn[ENV_COUNTER] = function_type(p, 1, &p);
    c->env_fn[ENV_WORKSPACE_LIMIT] = function_type(i64, 1, &p);
    c->env_fn[ENV_MARK] = function_type(g->void_, 2, (LLVMTypeRef[]){p, p});
}

static void set_attribute(Cpu *c, LLVMValueRef fn, const char *name) {
    unsigned kind = LLVMGetEnumAttributeKindForName(name, strlen(name));
    LLVMAddAttributeAtIndex(fn, (LLVMAttributeIndex)LLVMAttributeFunctionIndex,
                            LLVMCreateEnumAttribute(c->gen->llvm, kind, 0));
}

void cpu_function_attributes(Cpu *c, LLVMValueRef fn) {
    set_attribute(c, fn, "nounwind");
    LLVMAddTargetDependentFunctionAttr(fn, "target-cpu", c->info.cpu);
    LLVMAddTargetDependentFunctionAttr(fn, "target-features", c->info.features);
    const char *width = ctx_format(c->gen->ctx, "%d", c->target.vector_bytes * 8);
    LLVMAddTargetDependentFunctionAttr(fn, "prefer-vector-width", width);
    LLVMAddTargetDependentFunctionAttr(fn, "min-legal-vector-width", width);
}

void cpu_cold_function(Cpu *c, LLVMValueRef fn) {
    cpu_function_attributes(c, fn);
    set_attribute(c, fn, "noinline");
    set_attribute(c, fn, "cold");
}

/* ---- arenas -------------------------------------------------------------------------------- */

/// Masked-off scalar loads read the arena, so every kernel has one.
enum { LEAST_ARENA = 1024 };
static int64_t arena_needed(const Emit *e) {
    int64_t n = arena_size(e);
    return n > LEAST_ARENA ? n : LEAST_ARENA;
}

/* ---- tasks --------------------------------------------------------------------------------- */

typedef VEC(Value *) Captured;

typedef struct Capture {
    Ctx *ctx;
    const Op *launch;
    Captured values;
    PtrMap seen;
} Capture;

static void capture_task_operands(Op *op, void *arg) {
    Capture *c = arg;
    for (int i = 0; i < op->n_operands; i++) {
        Value *v = operand(op, i);
        if (op == c->launch || value_is_inside(v, c->launch) || map_get(&c->seen, v)) continue;
        map_set(c->ctx, &c->seen, v, v);
        vec_push(c->ctx, &c->values, v);
    }
}

/// Passes LLVM scalars from one function to another in 8-byte slots. Constants need no slot.
typedef struct Transfer {
    Emit *from, *to;
    LLVMValueRef context; // in `to`
    VEC(LLVMValueRef) slots;
} Transfer;

static LLVMValueRef transfer_to_task(Transfer *t, LLVMValueRef x) {
    if (!x || LLVMIsConstant(x)) return x;
    Gen *g = t->to->g;
    int64_t n = t->slots.n;
    vec_push(g->ctx, &t->slots, x);
    LLVMValueRef at = gen_offset(g, t->context, gen_i64(g, 8 * n));
    LLVMTypeRef type = LLVMTypeOf(x) == g->i1 ? g->i8 : LLVMTypeOf(x);
    LLVMValueRef y = LLVMBuildLoad2(g->b, type, at, "");
    return type == LLVMTypeOf(x) ? y : LLVMBuildTrunc(g->b, y, g->i1, "");
}

static void transfer_value(Transfer *t, Value *v) {
    if (v->type->kind == TK_BLOCK && v->type->rank == 0) {
        bind_scalar(t->to, v, transfer_to_task(t, emit_scalar(t->from, v)));
        return;
    }
    if (v->type->kind == TK_BLOCK) {
        if (v->def && op_is_lazy(v->def)) return; // constants are recomputed at each use
        ice(t->to->ctx, v->def ? v->def->loc : (Loc){0}, "a block enters a launch");
    }
    const TensorRef *x = emit_tensor(t->from, v);
    TensorRef *y = ctx_copy(t->to->ctx, x, sizeof *x);
    y->shape = y->steps = NULL;
    y->data = transfer_to_task(t, x->data);
    for (int d = 0; d < v->type->rank; d++) {
        y->dims[d] = transfer_to_task(t, x->dims[d]);
        y->strides[d] = transfer_to_task(t, x->strides[d]);
    }
    bind_tensor(t->to, v, y);
}

/// Builds and fills the context, in the calling function.
static LLVMValueRef build_context(const Transfer *t) {
    Emit *e = t->from;
    Gen *g = e->g;
    LLVMValueRef context = stack_slots(e, t->slots.n);
    for (int i = 0; i < t->slots.n; i++) {
        LLVMValueRef x = t->slots.data[i];
        if (LLVMTypeOf(x) == g->i1) x = LLVMBuildZExt(g->b, x, g->i8, "");
        LLVMBuildStore(g->b, x, gen_offset(g, context, gen_i64(g, 8 * (int64_t)i)));
    }
    return context;
}

static LLVMValueRef ok_status(const Gen *g) {
    return LLVMConstInt(g->i32, 0, false);
}

static const char *task_names(const Op *launch) {
    const char *names = op_str(launch, A_LOOP_NAMES);
    return names ? names : "";
}

/// Emits the task function of a launch. `slots` receives the contents of its context.
static LLVMValueRef emit_task_function(Emit *host, Op *launch, Transfer *t, int64_t *arena) {
    Cpu *c = host->cpu;
    Gen *g = c->gen;
    const char *name = ctx_format(g->ctx, "%s.task%d", c->name, c->n_tasks++);
    LLVMValueRef fn = LLVMAddFunction(g->module, name, c->task_fn);
    LLVMSetLinkage(fn, LLVMInternalLinkage);
    cpu_function_attributes(c, fn);
    Emit *e = emit_new(c, fn);
    debug_function(e, launch, name);
    debug_at(e, launch);
    e->env = LLVMGetParam(fn, 0);
    e->arena = LLVMGetParam(fn, 3);
    *t = (Transfer){.from = host, .to = e, .context = LLVMGetParam(fn, 1)};
    Capture capture = {.ctx = g->ctx, .launch = launch};
    op_walk_pre(launch, capture_task_operands, &capture);
    for (int i = 0; i < capture.values.n; i++) transfer_value(t, capture.values.data[i]);
    Region *body = launch->regions[0];
    bind_scalar(e, body->args[0], LLVMGetParam(fn, 2));
    code_mark(e, launch, ctx_format(e->ctx, "programs %s", task_names(launch)));
    plan_function(e, body);
    emit_ops(e, body);
    arena_end(e);
    streaming_fence(e);
    LLVMBuildRet(g->b, ok_status(g));
    *arena = arena_needed(e);
    note(e, launch, "a task keeps %lld KiB for each thread", (long long)((*arena + 1023) / 1024));
    return fn;
}

void lower_launch(Emit *e, Op *op) {
    Gen *g = e->g;
    LLVMBasicBlockRef here = emit_here(e);
    Transfer t;
    int64_t arena;
    LLVMValueRef fn = emit_task_function(e, op, &t, &arena);
    LLVMPositionBuilderAtEnd(g->b, here);
    debug_at(e, op);
    LLVMValueRef args[5] = {e->env, emit_scalar(e, operand(op, 0)), gen_i64(g, arena), fn,
                            build_context(&t)};
    return_if_failed(e, env_call(e, ENV_PARALLEL_FOR, 5, args));
}

/* ---- entry --------------------------------------------------------------------------------- */

static LLVMValueRef load_field(Emit *e, LLVMTypeRef type, LLVMValueRef base, int64_t bytes) {
    return LLVMBuildLoad2(e->g->b, type, gen_offset(e->g, base, gen_i64(e->g, bytes)), "");
}

static void bind_tensor_argument(Emit *e, Value *v, LLVMValueRef slot) {
    Gen *g = e->g;
    TensorRef *t = ctx_new(g->ctx, TensorRef);
    t->data = load_field(e, g->ptr, slot, 0);
    LLVMValueRef shape = load_field(e, g->ptr, slot, 8), strides = load_field(e, g->ptr, slot, 16);
    t->shape = shape, t->steps = strides;
    for (int d = 0; d < v->type->rank; d++) {
        int64_t extent = v->type->extents[d], stride = v->type->strides[d];
        t->dims[d] = extent != DYNAMIC ? gen_i64(g, extent) : load_field(e, g->i64, shape, 8 * d);
        t->strides[d] =
            stride != DYNAMIC ? gen_i64(g, stride) : load_field(e, g->i64, strides, 8 * d);
    }
    t->id = v->index + 1;
    bind_tensor(e, v, t);
}

static bool is_used_tensor(const Value *v) {
    return v->type->kind == TK_TENSOR && value_has_uses(v);
}

/// Moves every parameter of one alias scope to another. A tensor may meet several others, so the
/// whole scope moves with it.
static void move_scope(Emit *e, const Region *body, int from, int to) {
    for (int i = 0; i < body->n_args; i++) {
        TensorRef *t =
            is_used_tensor(body->args[i]) ? (TensorRef *)emit_tensor(e, body->args[i]) : NULL;
        if (t && t->id == from) t->id = to;
    }
}

/// Gives parameters that may be one view the same alias scope.
static void merge_scopes(Emit *e, const Region *body) {
    for (int i = 0; i < body->n_args; i++)
        for (int j = 0; j < i; j++) {
            const Value *a = body->args[i], *b = body->args[j];
            if (is_used_tensor(a) && is_used_tensor(b) && tensors_may_meet(a, b))
                move_scope(e, body, emit_tensor(e, a)->id, emit_tensor(e, b)->id);
        }
}

static void bind_arguments(Emit *e, Region *body, LLVMValueRef args) {
    for (int i = 0; i < body->n_args; i++) {
        Value *v = body->args[i];
        if (!value_has_uses(v)) continue;
        LLVMValueRef slot = gen_offset(e->g, args, gen_i64(e->g, (int64_t)sizeof(tg_slot) * i));
        if (v->type->kind == TK_TENSOR) {
            bind_tensor_argument(e, v, slot);
            continue;
        }
        Elem elem = v->type->elem;
        LLVMValueRef x = load_field(e, gen_mem_elem(e->g, elem), slot, 0);
        bind_scalar(e, v, gen_from_memory(e->g, elem, x));
    }
    merge_scopes(e, body);
}

static void count_scratch(Op *op, void *n) {
    *(int *)n += op->code == OP_SCRATCH;
}

static void emit_entry(Cpu *c, Op *kernel) {
    Gen *g = c->gen;
    Region *body = kernel->regions[0];
    int n_scratch = 0;
    op_walk_pre(kernel, count_scratch, &n_scratch);
    memory_scopes(c, body->n_args + n_scratch);
    c->next_scope = body->n_args + 1;
    LLVMTypeRef type = function_type(g->i32, 2, (LLVMTypeRef[]){g->ptr, g->ptr});
    LLVMValueRef fn = LLVMAddFunction(g->module, c->name, type);
    cpu_function_attributes(c, fn);
    Emit *e = emit_new(c, fn);
    debug_function(e, kernel, c->name);
    debug_at(e, kernel);
    e->env = LLVMGetParam(fn, 1);
    LLVMValueRef args[2] = {e->env, gen_i64(g, 0)};
    e->arena = env_call(e, ENV_ARENA, 2, args);
    LLVMValueRef arena_call = e->arena;
    bind_arguments(e, body, LLVMGetParam(fn, 0));
    plan_function(e, body);
    emit_ops(e, body);
    arena_end(e);
    streaming_fence(e);
    LLVMBuildRet(g->b, ok_status(g));
    LLVMSetOperand(arena_call, 1, gen_i64(g, arena_needed(e)));
    if (!arena_needed(e) && !LLVMGetFirstUse(arena_call))
        LLVMInstructionEraseFromParent(arena_call);
}

/* ---- compiling ----------------------------------------------------------------------------- */

typedef struct CpuJob {
    Ctx *ctx;
    Ir *ir;
    Op *module;
    const CodeOptions *options;
    bool load;
    Object *object; // receives the code, or NULL
    TargetInfo info;
    Code *code;
} CpuJob;

static Cpu *cpu_new(const CpuJob *job, Gen *g, const Op *kernel) {
    Cpu *c = ctx_new(job->ctx, Cpu);
    c->gen = g;
    c->ir = job->ir;
    c->check = job->options->check;
    c->fill = backend_fills();
    c->marks = job->options->marks;
    c->notes = job->options->notes;
    c->kernel = kernel;
    c->name = job->options->name ? job->options->name : op_str(kernel, A_NAME);
    c->info = job->info;
    c->target = (CpuTarget){.vector_bytes = job->info.vector_bytes,
                            .vector_registers = job->info.vector_registers,
                            .l1_bytes = job->info.l1_bytes,
                            .l2_bytes = job->info.l2_bytes,
                            .x86 = target_is_x86(&job->info),
                            .has_fma = !target_lacks(&job->info, "+fma"),
                            .has_vnni = strstr(job->info.features, "+avx512vnni") != NULL};
    c->target.features = dot_features(&job->info, job->options->level);
    declare_abi(c);
    return c;
}

static Gen *start_module(const CpuJob *job, const Op *kernel) {
    const char *name = op_str(kernel, A_NAME);
    Gen *g = job->object ? gen_create_in(job->ctx, object_llvm(job->object), name)
                         : gen_create(job->ctx, name);
    g->soft_half = target_lacks(&job->info, "+f16c");
    g->soft_fma = target_lacks(&job->info, "+fma");
    g->soft_round = target_lacks(&job->info, "+sse4.1") && target_lacks(&job->info, "+avx2");
    g->strip = job->options->strip;
    return g;
}

static void compile_cpu(Ctx *ctx, void *arg) {
    CpuJob *job = arg;
    Op *kernel = find_kernel(job->module, NULL);
    if (!kernel) ice(ctx, (Loc){0}, "a module for the CPU holds one kernel");
    Gen *g = start_module(job, kernel);
    bool quick = job->options->quick || job->options->debug;
    LLVMTargetMachineRef m = (quick ? target_machine_quick : target_machine)(
        ctx, job->info.arch, job->info.cpu, job->info.features);
    module_target(g, m);
    Cpu *c = cpu_new(job, g, kernel);
    if (job->options->debug) debug_begin(g, false);
    emit_entry(c, kernel);
    debug_end(g);
    if (!job->object) module_mark_branches(g); // otherwise once for the whole object
    module_verify(g);
    if (!quick) module_optimize(g, m);
    if (job->object) {
        object_take(job->object, g, c->name);
        return;
    }
    module_emit(g, m, job->options->texts, job->code);
    if (job->load) code_load(g, job->code, c->name);
}

/// Returns false with diagnostics for an error of the user. Graver failures leave through
/// ctx_pass_on.
static bool protected_compile(CpuJob *job) {
    static const CodeOptions none = {0};
    if (!job->options) job->options = &none;
    if (!cpu_info(job->options->level, &job->info)) {
        diag(job->ctx, (Loc){0}, D_INTERNAL, "no such level of the target");
        return false;
    }
    if (!job->object) job->code = calloc(1, sizeof *job->code);
    bool memory = job->object || job->code;
    CtxStatus status = memory ? llvm_protect(job->ctx, compile_cpu, job) : CTX_NO_MEMORY;
    if (status == CTX_OK) return true;
    code_release(job->code);
    return ctx_pass_on(job->ctx, status);
}

static Code *compile_cpu_module(Ir *ir, Op *module, const CodeOptions *options, bool load) {
    CpuJob job = {.ctx = ir_ctx(ir), .ir = ir, .module = module, .options = options, .load = load};
    return protected_compile(&job) ? job.code : NULL;
}

static bool cpu_add(Object *object, Ir *ir, Op *module, const CodeOptions *options) {
    CpuJob job = {
        .ctx = ir_ctx(ir), .ir = ir, .module = module, .options = options, .object = object};
    return protected_compile(&job);
}

const Backend cpu_backend = {"cpu", cpu_info, gen_has_elementwise, compile_cpu_module, cpu_add,
                             NULL,  NULL};
