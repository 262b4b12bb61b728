// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Compiles a portable module to code of this process. Kernels take the lane as a hidden parameter
// and read their other parameters through pointers. Target functions become code or calls of
// handlers:
//
//     %d = call float @tg.rcp.approx(float %x)
//
// becomes
//
//     store float %x, ptr %frame
//     call void HANDLER(ptr %lane, ptr SITE, ptr %frame)
//     %d = load float, ptr %frame+8
#include <ctype.h>
#include <llvm-c/DebugInfo.h>
#include <llvm-c/LLJIT.h>
#include <llvm-c/Transforms/PassBuilder.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backends/llvm/target.h"
#include "backends/sim/machine.h"

/* ---- functions ------------------------------------------------------------------------------ */

const SimOp sim_ops[] = {
#define INLINE(id)              {.name = #id, .emit = emit_##id},
#define LANE(id, f, prep, kind) {.name = #id, .lane = f, .prepare = prep, .sync = SYNC_##kind},
#define WARP(id, f, prep, kind, same)                                                              \
    {.name = #id, .warp = f, .prepare = prep, .sync = SYNC_##kind, .uniform = same},
#define GROUP(id, f, prep, kind, same)                                                             \
    {.name = #id, .group = f, .prepare = prep, .sync = SYNC_##kind, .uniform = same},
#include "backends/sim/functions.def"
};

const SimOp *sim_op_find(const char *name) {
    for (size_t i = 0; i < sizeof sim_ops / sizeof *sim_ops; i++)
        if (strcmp(sim_ops[i].name, name) == 0) return &sim_ops[i];
    return NULL;
}

/* ---- memory of the image ------------------------------------------------------------------- */

void *image_alloc(Ctx *ctx, size_t size) {
    void *p = calloc(1, size ? size : 1);
    if (!p) ctx_leave(ctx, CTX_NO_MEMORY);
    return p;
}

static void *image_grow(Ctx *ctx, void *data, int n, int *cap, size_t size) {
    if (n < *cap) return data;
    void *more = realloc(data, size * (size_t)(2 * n + 16));
    if (!more) ctx_leave(ctx, CTX_NO_MEMORY);
    *cap = 2 * n + 16;
    return more;
}

/// Copies a file or function name. Most sites share both with the previous site.
const char *image_text(Ctx *ctx, SimImage *image, const char *text, size_t n) {
    for (int i = image->n_texts - 1; i >= 0; i--)
        if (strncmp(image->texts[i], text, n) == 0 && !image->texts[i][n]) return image->texts[i];
    image->texts =
        image_grow(ctx, image->texts, image->n_texts, &image->cap_texts, sizeof *image->texts);
    char *copy = image_alloc(ctx, n + 1);
    memcpy(copy, text, n);
    return image->texts[image->n_texts++] = copy;
}

SimSite *image_site(Ctx *ctx, SimImage *image) {
    image->sites =
        image_grow(ctx, image->sites, image->n_sites, &image->cap_sites, sizeof *image->sites);
    SimSite *site = image_alloc(ctx, sizeof *site);
    site->number = image->n_sites;
    return image->sites[image->n_sites++] = site;
}

static void fragments_free(Fragment *f) {
    while (f) {
        Fragment *next = f->next;
        free(f->at);
        free(f);
        f = next;
    }
}

void sim_image_free(SimImage *image) {
    if (!image) return;
    for (Sim *s = image->idle, *next; s; s = next) {
        next = s->next;
        sim_destroy(s);
    }
    for (Fresh *f = image->fresh, *next; f; f = next) {
        next = f->next;
        free(f);
    }
    if (image->jit) LLVMConsumeError(LLVMOrcDisposeLLJIT(image->jit));
    for (int i = 0; i < image->n_functions; i++) {
        free(image->functions[i].name);
        free(image->functions[i].described);
    }
    for (int i = 0; i < image->n_sites; i++) free(image->sites[i]);
    for (int i = 0; i < image->n_texts; i++) free(image->texts[i]);
    fragments_free(image->fragments);
    free(image->functions);
    free(image->sites);
    free(image->texts);
    lock_destroy(&image->lock);
    free(image);
}

/* ---- sites --------------------------------------------------------------------------------- */

typedef struct Compiler {
    Emit e;
    Prepare prepare;
    const char *function;
    int frame_bytes;
} Compiler;

static void locate_site(Compiler *c, LLVMValueRef inst, SimSite *site) {
    unsigned n = 0;
    const char *file = LLVMGetDebugLocFilename(inst, &n);
    site->function = c->function;
    site->file = image_text(c->prepare.ctx, c->e.image, file ? file : "", file ? n : 0);
    site->line = file ? (int)LLVMGetDebugLocLine(inst) : 0;
    site->column = file ? (int)LLVMGetDebugLocColumn(inst) : 0;
}

static int letter_bytes(char letter) {
    switch (letter) {
    case 'b': return 1;
    case 'h': return 2;
    case 'i':
    case 'f': return 4;
    default: return 8;
    }
}

/// Lays out the groups of operands one after the other, aligned to 8 bytes. A result that is tied
/// to a group takes that group's place.
static void lay_out_frame(Compiler *c, const Fn *fn, SimSite *site) {
    int at = 0;
    site->result_at = -1;
    for (int i = 0; i < fn->n_groups; i++) {
        site->at[i] = at;
        site->count[i] = fn->groups[i].count;
        if (fn->groups[i].tied) site->result_at = at;
        at += (fn->groups[i].count * letter_bytes(fn->groups[i].letter) + 7) & ~7;
    }
    site->result_count = fn->result.count;
    if (site->result_at < 0) {
        site->result_at = at;
        at += (fn->result.count * letter_bytes(fn->result.letter) + 7) & ~7;
    }
    if (at > c->frame_bytes) c->frame_bytes = at;
}

static SimSite *call_site(Compiler *c, LLVMValueRef call, const Fn *fn, const SimOp *op) {
    SimSite *site = image_site(c->prepare.ctx, c->e.image);
    const char *name = LLVMGetValueName2(LLVMGetCalledValue(call), &(size_t){0});
    site->op = op;
    if (op->sync) site->sync = ++c->e.image->n_sync;
    site->name = image_text(c->prepare.ctx, c->e.image, name, strlen(name));
    locate_site(c, call, site);
    for (int i = 0; i < fn->n_captures; i++)
        if (isdigit((unsigned char)*fn->captures[i].value))
            site->number_of[fn->captures[i].key - 'a'] = atoi(fn->captures[i].value);
    if (!op->emit) lay_out_frame(c, fn, site);
    if (op->prepare) op->prepare(&c->prepare, fn, site);
    return site;
}

/* ---- calls --------------------------------------------------------------------------------- */

static LLVMValueRef frame_at(Compiler *c, int offset) {
    LLVMValueRef where = LLVMConstInt(c->e.g->i64, (uint64_t)offset, false);
    return LLVMBuildGEP2(c->e.g->b, c->e.g->i8, c->e.frame, &where, 1, "");
}

static void store_frame_operands(Compiler *c, LLVMValueRef call, const Fn *fn,
                                 const SimSite *site) {
    Gen *g = c->e.g;
    unsigned next = 0;
    for (int i = 0; i < fn->n_groups; i++)
        for (int k = 0; k < fn->groups[i].count; k++) {
            LLVMValueRef v = LLVMGetOperand(call, next++);
            if (fn->groups[i].letter == 'b') v = LLVMBuildZExt(g->b, v, g->i8, "");
            LLVMBuildStore(g->b, v,
                           frame_at(c, site->at[i] + k * letter_bytes(fn->groups[i].letter)));
        }
}

static void load_results(Compiler *c, LLVMValueRef call, const Fn *fn, const SimSite *site) {
    Gen *g = c->e.g;
    LLVMValueRef values[FN_OPERANDS];
    char letter = fn->result.letter;
    LLVMTypeRef type = letter == 'b' ? g->i8 : fn_letter_type(g->llvm, letter);
    for (int i = 0; i < fn->result.count; i++) {
        values[i] =
            LLVMBuildLoad2(g->b, type, frame_at(c, site->result_at + i * letter_bytes(letter)), "");
        if (letter == 'b') values[i] = LLVMBuildTrunc(g->b, values[i], g->i1, "");
    }
    portable_replace(c->e.g, call, fn->result.count, values);
}

static void expand_sim_call(Compiler *c, LLVMValueRef call) {
    Gen *g = c->e.g;
    Fn fn;
    const char *name = LLVMGetValueName2(LLVMGetCalledValue(call), &(size_t){0});
    if (!fn_find(name, &fn)) return;
    const GpuTarget *target = c->e.image->target;
    const SimOp *op = sim_op_find(fn.row->sim);
    if (!op) ice(g->ctx, (Loc){0}, "the simulator has no function %s for %s", fn.row->sim, name);
    if (!fn_has(fn.row, target))
        ice(g->ctx, (Loc){0}, "%s needs %s, not %s", name, fn_needs(g->ctx, fn.row), target->name);
    LLVMPositionBuilderBefore(g->b, call);
    SimSite *site = call_site(c, call, &fn, op);
    if (op->emit) {
        op->emit(&c->e, call, &fn, site);
        return;
    }
    store_frame_operands(c, call, &fn, site);
    LaneHandler *handler = !op->lane ? sim_collective : op->sync ? sim_lane_sync : op->lane;
    LLVMTypeRef types[] = {g->ptr, g->ptr, g->ptr};
    LLVMValueRef args[] = {c->e.lane, emit_address(&c->e, site), c->e.frame};
    emit_host_call(&c->e, (void *)(uintptr_t)handler, LLVMFunctionType(g->void_, types, 3, false),
                   args);
    load_results(c, call, &fn, site);
}

/* ---- accesses ------------------------------------------------------------------------------ */

static const char *access_name(Compiler *c, bool store, int bytes) {
    char text[64];
    int n = snprintf(text, sizeof text, "a %s of %d byte%s", store ? "store" : "load", bytes,
                     bytes > 1 ? "s" : "");
    return image_text(c->prepare.ctx, c->e.image, text, (size_t)n);
}

static int memory_bytes(LLVMTypeRef t) {
    switch (LLVMGetTypeKind(t)) {
    case LLVMIntegerTypeKind: return (int)LLVMGetIntTypeWidth(t) / 8;
    case LLVMHalfTypeKind: return 2;
    case LLVMFloatTypeKind: return 4;
    case LLVMVectorTypeKind: return (int)LLVMGetVectorSize(t) * memory_bytes(LLVMGetElementType(t));
    default: return 8;
    }
}

static void check_site_access(Compiler *c, LLVMValueRef inst, LLVMValueRef p, int space, bool store,
                              int bytes) {
    Gen *g = c->e.g;
    SimSite *site = image_site(c->prepare.ctx, c->e.image);
    site->name = access_name(c, store, bytes);
    site->bytes = bytes;
    site->is_store = store;
    locate_site(c, inst, site);
    LLVMTypeRef types[] = {g->ptr, g->ptr, g->ptr, g->ptr};
    LLVMValueRef args[] = {c->e.lane, emit_address(&c->e, site),
                           LLVMBuildAddrSpaceCast(g->b, p, g->ptr, ""), LLVMConstNull(g->ptr)};
    if (store) {
        LLVMSetAlignment(LLVMBuildStore(g->b, LLVMGetOperand(inst, 0), c->e.frame), 1);
        args[3] = c->e.frame;
    }
    void *check =
        space == 3 ? (void *)(uintptr_t)sim_check_shared : (void *)(uintptr_t)sim_check_access;
    emit_host_call(&c->e, check, LLVMFunctionType(g->void_, types, 4, false), args);
}

/// Drops the alignment. Checked accesses check it themselves, and the host needs none.
static void expand_access(Compiler *c, LLVMValueRef inst, bool store) {
    LLVMValueRef p = LLVMGetOperand(inst, store ? 1 : 0);
    int space = (int)LLVMGetPointerAddressSpace(LLVMTypeOf(p));
    int bytes = memory_bytes(store ? LLVMTypeOf(LLVMGetOperand(inst, 0)) : LLVMTypeOf(inst));
    LLVMPositionBuilderBefore(c->e.g->b, inst);
    if (c->e.image->check && (space == 1 || space == 3))
        check_site_access(c, inst, p, space, store, bytes);
    if (store && space == 3 && c->e.image->target->features & GPU_TMA) emit_mark(&c->e, p, bytes);
    LLVMSetAlignment(inst, 1);
}

/* ---- functions ----------------------------------------------------------------------------- */

/// Reads numbers from an attribute, such as "256,1,1". Missing entries keep their values.
static void read_numbers(LLVMValueRef fn, const char *name, int n, int *out) {
    LLVMAttributeRef a = LLVMGetStringAttributeAtIndex(
        fn, (LLVMAttributeIndex)LLVMAttributeFunctionIndex, name, (unsigned)strlen(name));
    char text[64];
    unsigned len;
    if (!a) return;
    const char *value = LLVMGetStringAttributeValue(a, &len);
    snprintf(text, sizeof text, "%.*s", (int)len, value);
    char *at = text;
    for (int i = 0; i < n && *at; i++) {
        out[i] = (int)strtol(at, &at, 10);
        at += strspn(at, ", ");
    }
}

/// Loads parameters from memory. A tensor map stays where it is.
static void load_params(Compiler *c, LLVMValueRef old) {
    Gen *g = c->e.g;
    unsigned byval = LLVMGetEnumAttributeKindForName("byval", 5);
    for (unsigned i = 0; i < LLVMCountParams(old); i++) {
        LLVMValueRef param = LLVMGetParam(old, i);
        LLVMValueRef where = LLVMConstInt(g->i64, 8 * i, false);
        LLVMValueRef p = LLVMBuildGEP2(g->b, g->i8, c->e.args, &where, 1, "");
        p = LLVMBuildLoad2(g->b, g->ptr, p, "");
        if (!LLVMGetEnumAttributeAtIndex(old, i + 1, byval)) {
            p = LLVMBuildLoad2(g->b, LLVMTypeOf(param), p, "");
            LLVMSetAlignment(p, 1);
        }
        LLVMReplaceAllUsesWith(param, p);
    }
}

static LLVMValueRef host_function(Compiler *c, const char *name) {
    Gen *g = c->e.g;
    static const char *const attributes[] = {"nounwind", "noredzone"};
    LLVMTypeRef types[] = {g->ptr, g->ptr};
    LLVMValueRef fn = LLVMAddFunction(g->module, ctx_format(g->ctx, "tg_sim.%s", name),
                                      LLVMFunctionType(g->void_, types, 2, false));
    for (int i = 0; i < 2; i++) {
        unsigned kind = LLVMGetEnumAttributeKindForName(attributes[i], strlen(attributes[i]));
        LLVMAddAttributeAtIndex(fn, (LLVMAttributeIndex)LLVMAttributeFunctionIndex,
                                LLVMCreateEnumAttribute(g->llvm, kind, 0));
    }
    return fn;
}

static void move_blocks(LLVMValueRef from, LLVMValueRef to) {
    for (LLVMBasicBlockRef b; (b = LLVMGetFirstBasicBlock(from));) {
        LLVMRemoveBasicBlockFromParent(b);
        LLVMAppendExistingBasicBlock(to, b);
    }
}

/// Instructions are collected before any is expanded, because expansion removes and adds
/// instructions.
typedef VEC(LLVMValueRef) InstList;

static InstList collect_expandable(Compiler *c, LLVMValueRef fn) {
    InstList all = {0};
    for (LLVMBasicBlockRef b = LLVMGetFirstBasicBlock(fn); b; b = LLVMGetNextBasicBlock(b))
        for (LLVMValueRef i = LLVMGetFirstInstruction(b); i; i = LLVMGetNextInstruction(i)) {
            LLVMOpcode code = LLVMGetInstructionOpcode(i);
            if (code == LLVMCall || code == LLVMLoad || code == LLVMStore || code == LLVMBr ||
                code == LLVMSwitch)
                vec_push(c->prepare.ctx, &all, i);
        }
    return all;
}

/// Records the branch in the lane's path under --check: all lanes of a warp must take the same
/// path.
static void expand_branch(Compiler *c, LLVMValueRef branch, int number) {
    LLVMValueRef condition = NULL;
    if (LLVMGetInstructionOpcode(branch) == LLVMSwitch)
        condition = LLVMGetOperand(branch, 0);
    else if (LLVMIsConditional(branch))
        condition = LLVMGetCondition(branch);
    if (!condition || !c->e.image->check) return;
    LLVMPositionBuilderBefore(c->e.g->b, branch);
    emit_path(&c->e, condition, number);
}

static void expand_sim_body(Compiler *c, LLVMValueRef fn) {
    InstList all = collect_expandable(c, fn);
    for (int i = 0; i < all.n; i++) {
        LLVMOpcode code = LLVMGetInstructionOpcode(all.data[i]);
        if (code == LLVMCall)
            expand_sim_call(c, all.data[i]);
        else if (code == LLVMBr || code == LLVMSwitch)
            expand_branch(c, all.data[i], i);
        else
            expand_access(c, all.data[i], code == LLVMStore);
    }
}

/// Bounds the stack of a function: no value takes more than 16 bytes, except vectors of i1 and
/// structs.
static int64_t stack_bytes(LLVMValueRef fn) {
    int64_t n = 0;
    for (LLVMBasicBlockRef b = LLVMGetFirstBasicBlock(fn); b; b = LLVMGetNextBasicBlock(b))
        for (LLVMValueRef i = LLVMGetFirstInstruction(b); i; i = LLVMGetNextInstruction(i)) n += 16;
    return n;
}

/// The frame's size is known only at the end, so its alloca is built last, in a block before all
/// others.
static void convert_function(Compiler *c, LLVMValueRef old, SimFunction *out) {
    Gen *g = c->e.g;
    size_t n;
    const char *name = LLVMGetValueName2(old, &n);
    c->function = image_text(g->ctx, c->e.image, name, n);
    out->name = image_alloc(g->ctx, n + 1);
    memcpy(out->name, name, n);
    out->n_params = (int)LLVMCountParams(old);
    out->cluster = 1;
    out->threads[0] = out->threads[1] = out->threads[2] = 1;
    int cluster[3] = {1, 1, 1};
    read_numbers(old, "tg.maxntid", 3, out->threads);
    read_numbers(old, "tg.cluster", 3, cluster);
    read_numbers(old, "tg.shared", 1, &out->shared_bytes);
    out->cluster = cluster[0] * cluster[1] * cluster[2];
    LLVMValueRef fn = host_function(c, c->function);
    LLVMBasicBlockRef entry = LLVMAppendBasicBlockInContext(g->llvm, fn, "");
    LLVMBasicBlockRef start = LLVMAppendBasicBlockInContext(g->llvm, fn, "");
    LLVMBasicBlockRef body = LLVMGetFirstBasicBlock(old);
    c->e.lane = LLVMGetParam(fn, 0);
    c->e.args = LLVMGetParam(fn, 1);
    c->frame_bytes = 16;
    move_blocks(old, fn);
    LLVMPositionBuilderAtEnd(g->b, entry);
    // A placeholder for the frame until its size is known.
    LLVMValueRef frame = LLVMBuildAlloca(g->b, g->i64, "");
    c->e.frame = frame;
    LLVMBuildBr(g->b, start);
    LLVMPositionBuilderAtEnd(g->b, start);
    load_params(c, old);
    LLVMBuildBr(g->b, body);
    expand_sim_body(c, fn);
    LLVMPositionBuilderBefore(g->b, LLVMGetFirstInstruction(entry));
    c->e.frame = LLVMBuildAlloca(g->b, LLVMArrayType2(g->i8, (uint64_t)c->frame_bytes), "frame");
    LLVMSetAlignment(c->e.frame, 16);
    LLVMReplaceAllUsesWith(frame, c->e.frame);
    LLVMInstructionEraseFromParent(frame);
    out->frame_bytes = stack_bytes(fn) + c->frame_bytes;
    LLVMDeleteFunction(old);
}

/* ---- module -------------------------------------------------------------------------------- */

static int count_kernels(LLVMModuleRef module) {
    int n = 0;
    for (LLVMValueRef f = LLVMGetFirstFunction(module); f; f = LLVMGetNextFunction(f))
        n += !LLVMIsDeclaration(f);
    return n;
}

static void convert_module(Compiler *c) {
    Gen *g = c->e.g;
    SimImage *image = c->e.image;
    int n = count_kernels(g->module), i = 0;
    LLVMValueRef *old = ctx_array(g->ctx, LLVMValueRef, n + 1);
    for (LLVMValueRef f = LLVMGetFirstFunction(g->module); f; f = LLVMGetNextFunction(f))
        if (!LLVMIsDeclaration(f)) old[i++] = f;
    image->functions = image_alloc(g->ctx, sizeof *image->functions * (size_t)n);
    image->n_functions = n;
    for (i = 0; i < n; i++) convert_function(c, old[i], &image->functions[i]);
    for (LLVMValueRef f = LLVMGetFirstFunction(g->module), next; f; f = next) {
        next = LLVMGetNextFunction(f);
        const char *name = LLVMGetValueName2(f, &(size_t){0});
        if (LLVMIsDeclaration(f) && strncmp(name, "tg.", 3) == 0) LLVMDeleteFunction(f);
    }
}

static void check_error(Gen *g, LLVMErrorRef error) {
    if (!error) return;
    char *text = LLVMGetErrorMessage(error);
    const char *copy = ctx_format(g->ctx, "%s", text);
    LLVMDisposeErrorMessage(text);
    ice(g->ctx, (Loc){0}, "LLVM: %s", copy);
}

// Kernels run once or twice, so most passes would take longer than they save.
static const char pipeline[] = "function(early-cse)";

static void optimize_sim_module(Gen *g, LLVMTargetMachineRef machine) {
    LLVMPassBuilderOptionsRef options = LLVMCreatePassBuilderOptions();
    LLVMErrorRef error = LLVMRunPasses(g->module, pipeline, machine, options);
    LLVMDisposePassBuilderOptions(options);
    check_error(g, error);
}

static LLVMMemoryBufferRef emit_sim_object(Gen *g, LLVMTargetMachineRef machine) {
    LLVMMemoryBufferRef buffer = NULL;
    char *error = NULL;
    if (LLVMTargetMachineEmitToMemoryBuffer(machine, g->module, LLVMObjectFile, &error, &buffer)) {
        const char *copy = ctx_format(g->ctx, "%s", error);
        LLVMDisposeMessage(error);
        ice(g->ctx, (Loc){0}, "LLVM: %s", copy);
    }
    return buffer;
}

static void release_sim_machine(void *thing) {
    LLVMDisposeTargetMachine(thing);
}

/// Generates code in one pass over each block.
static LLVMTargetMachineRef host_machine(Ctx *ctx) {
    const char *cpu, *features;
    llvm_host(&cpu, &features);
    LLVMTargetMachineRef full = target_machine(ctx, cpu_host_arch(), cpu, features);
    char *triple = LLVMGetTargetMachineTriple(full);
    LLVMTargetMachineRef m =
        LLVMCreateTargetMachine(LLVMGetTargetMachineTarget(full), triple, cpu, features,
                                LLVMCodeGenLevelNone, LLVMRelocPIC, LLVMCodeModelDefault);
    LLVMDisposeMessage(triple);
    if (!m) ice(ctx, (Loc){0}, "LLVM has no machine %s", cpu);
    ctx_defer(ctx, release_sim_machine, m);
    return m;
}

static void load_sim_code(Gen *g, SimImage *image, LLVMMemoryBufferRef object) {
    LLVMOrcLLJITRef jit = NULL;
    check_error(g, LLVMOrcCreateLLJIT(&jit, NULL));
    image->jit = jit;
    check_error(g, LLVMOrcLLJITAddObjectFile(jit, LLVMOrcLLJITGetMainJITDylib(jit), object));
    for (int i = 0; i < image->n_functions; i++) {
        LLVMOrcExecutorAddress at = 0;
        const char *name = ctx_format(g->ctx, "tg_sim.%s", image->functions[i].name);
        check_error(g, LLVMOrcLLJITLookup(jit, &at, name));
        image->functions[i].entry = (SimEntry *)(uintptr_t)at;
    }
}

typedef struct SimJob {
    Gen *g;
    SimImage *image;
} SimJob;

static void compile_image(Ctx *ctx, void *arg) {
    SimJob *job = arg;
    Gen *g = job->g;
    module_verify(g);
    portable_check(ctx, g->module);
    Compiler c = {.e = {.g = g, .image = job->image}, .prepare = {.ctx = ctx, .image = job->image}};
    convert_module(&c);
    LLVMStripModuleDebugInfo(g->module);
    LLVMTargetMachineRef machine = host_machine(ctx);
    module_target(g, machine);
    module_verify(g);
    optimize_sim_module(g, machine);
    sim_fast_selection_forms(g);
    sim_split_blocks(g);
    load_sim_code(g, job->image, emit_sim_object(g, machine));
}

SimImage *sim_compile(Gen *g, const char *target, bool check) {
    const GpuTarget *t = gpu_target(target);
    if (!t) ice(g->ctx, (Loc){0}, "the simulator has no target %s", target);
    SimImage *image = image_alloc(g->ctx, sizeof *image);
    lock_init(&image->lock);
    image->target = t;
    image->check = check;
    SimJob job = {g, image};
    CtxStatus status = llvm_protect(g->ctx, compile_image, &job);
    if (status == CTX_OK) return image;
    sim_image_free(image);
    ctx_leave(g->ctx, status);
}

/* ---- descriptions of images ------------------------------------------------------------------ */

int sim_function_count(const SimImage *image) {
    return image->n_functions;
}

const char *sim_function_name(const SimImage *image, int function) {
    return image->functions[function].name;
}

int sim_find(const SimImage *image, const char *name) {
    for (int i = 0; i < image->n_functions; i++)
        if (strcmp(image->functions[i].name, name) == 0) return i;
    return -1;
}

bool sim_site(const SimImage *image, int i, SimSiteInfo *out) {
    for (int k = 0; k < image->n_sites; k++) {
        const SimSite *s = image->sites[k];
        if (s->sync != i + 1) continue;
        *out = (SimSiteInfo){i, s->function, s->name, s->file, s->line, s->column};
        return true;
    }
    return false;
}
