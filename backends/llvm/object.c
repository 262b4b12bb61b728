// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// An object file of many kernels: links the modules of single variants into one, describes kernels
// as data, and makes a C function for each that calls the runtime.
//
//     @softmax_f32_kernel = global { abi, info, state }       what tg_launch takes
//     info -> parameters, variants -> facts, hints, entry     runtime/abi.h, constant
//     define i32 @softmax_f32(ptr x, ptr y, i64 R, i64 N)     arguments as tg_arg, tg_launch
#include "backends/object.h"

#include <llvm-c/Linker.h>
#include <llvm-c/Object.h>
#include <stdlib.h>
#include <string.h>

#include "backends/llvm/target.h"

struct Object {
    Ctx *ctx;
    Gen *g; // of the module into which all others are linked
    const char *arch;
    LLVMTargetMachineRef machine;
    LLVMTypeRef fact, hint, param, variant, info, kernel, arg, tensor;
    LLVMTypeRef image, function, site;
};

LLVMContextRef object_llvm(const Object *o) {
    return o->g->llvm;
}

/* ---- the structures of runtime/abi.h and tegula.h in LLVM's types --------------------------- */

_Static_assert(sizeof(tg_fact) == 16 && sizeof(tg_hint) == 16, "as declared below");
_Static_assert(sizeof(tg_param_info) == 16 && sizeof(tg_variant) == 72, "as declared below");
_Static_assert(sizeof(tg_kernel_info) == 48 && sizeof(tg_kernel) == 24, "as declared below");

_Static_assert(sizeof(tg_image) == 96 && sizeof(tg_device_function) == 32, "as declared below");

static LLVMTypeRef named_struct(Object *o, const char *name, int n, LLVMTypeRef *fields) {
    LLVMTypeRef t = LLVMStructCreateNamed(o->g->llvm, name);
    LLVMStructSetBody(t, fields, (unsigned)n, false);
    return t;
}
#define FIELDS(...)                                                                                \
    (int)(sizeof(LLVMTypeRef[]){__VA_ARGS__} / sizeof(LLVMTypeRef)), (LLVMTypeRef[]) {             \
        __VA_ARGS__                                                                                \
    }

static void declare_types(Object *o) {
    Gen *g = o->g;
    LLVMTypeRef p = g->ptr, i8 = g->i8, i16 = g->i16, i32 = g->i32, i64 = g->i64;
    o->fact = named_struct(o, "tg_fact", FIELDS(i8, i8, i8, i8, i32, i64));
    o->hint = named_struct(o, "tg_hint", FIELDS(i8, i8, LLVMArrayType2(i8, 6), i64));
    o->param = named_struct(o, "tg_param_info", FIELDS(p, i8, i8, i8, i8, i8, i8, i8, i8));
    o->variant = named_struct(o, "tg_variant",
                              FIELDS(p, p, p, p, p, p, i16, i16, i16, i16, i16, i16, i32, p));
    o->info = named_struct(o, "tg_kernel_info", FIELDS(p, p, p, p, i32, i32, i32, i32));
    o->kernel = named_struct(o, "tg_kernel", FIELDS(i32, i32, p, p));
    o->image = named_struct(o, "tg_image",
                            FIELDS(i32, i32, i32, i16, i16, p, p, i64, p, p, p, p, p, p, p));
    o->function = named_struct(o, "tg_device_function", FIELDS(p, i32, i32, i32, i32, i32, i32));
    o->site = named_struct(o, "tg_site", FIELDS(i32, i32, i32, i32, i32, i32, p, p, p));
    o->arg = named_struct(o, "tg_arg", FIELDS(i32, i64));
    // data, device, ndim and dtype as one word each, shape, strides, byte_offset
    o->tensor = named_struct(o, "DLTensor", FIELDS(p, i64, i64, p, p, i64));
}

static void create_object(Ctx *ctx, void *arg) {
    Object *o = arg;
    const TargetInfo *lowest = cpu_level(o->arch, 0);
    o->machine = target_machine(ctx, o->arch, lowest->cpu, lowest->features);
    module_target(o->g, o->machine);
    declare_types(o);
}

static void protect_object(Object *o, void (*body)(Ctx *ctx, void *arg), void *arg) {
    CtxStatus status = llvm_protect(o->ctx, body, arg);
    if (status != CTX_OK) ctx_leave(o->ctx, status);
}

Object *object_create(Ctx *ctx, const char *arch, const char *name) {
    Object *o = ctx_new(ctx, Object);
    o->ctx = ctx;
    o->arch = arch;
    o->g = gen_create(ctx, name);
    protect_object(o, create_object, o);
    return o;
}

/* ---- code ---------------------------------------------------------------------------------- */

static bool belongs_to(const char *name, const char *entry) {
    size_t n = strlen(entry);
    return strncmp(name, entry, n) == 0 && (!name[n] || name[n] == '.');
}

// Names of a variant begin with the name of its entry. Variants then do not collide, names are the
// same in every build, and the size of a variant can be measured.
void object_take(Object *o, Gen *g, const char *entry) {
    for (LLVMValueRef f = LLVMGetFirstFunction(g->module); f; f = LLVMGetNextFunction(f)) {
        size_t n;
        const char *name = LLVMGetValueName2(f, &n);
        if (LLVMIsDeclaration(f)) continue;
        // The linker omits internal functions without uses.
        bool is_entry = strcmp(name, entry) == 0;
        LLVMSetLinkage(f, is_entry ? LLVMExternalLinkage : LLVMInternalLinkage);
        if (belongs_to(name, entry)) continue;
        name = ctx_format(g->ctx, "%s.%s", entry, name);
        LLVMSetValueName2(f, name, strlen(name));
    }
    LLVMModuleRef module = g->module;
    g->module = NULL;
    if (LLVMLinkModules2(o->g->module, module)) ice(g->ctx, (Loc){0}, "LLVM linker: %s", entry);
}

/* ---- constants ----------------------------------------------------------------------------- */

static LLVMValueRef int_constant(LLVMTypeRef type, int64_t v) {
    return LLVMConstInt(type, (uint64_t)v, true);
}

/// Makes a constant that is not visible outside.
static LLVMValueRef hidden_global(Object *o, LLVMValueRef value, const char *name) {
    LLVMValueRef at = LLVMAddGlobal(o->g->module, LLVMTypeOf(value), name);
    LLVMSetInitializer(at, value);
    LLVMSetGlobalConstant(at, true);
    LLVMSetLinkage(at, LLVMPrivateLinkage);
    LLVMSetUnnamedAddress(at, LLVMGlobalUnnamedAddr);
    return at;
}

static LLVMValueRef text_global(Object *o, const char *s) {
    return hidden_global(o, LLVMConstStringInContext2(o->g->llvm, s, strlen(s), false), "text");
}

static LLVMValueRef array_global(Object *o, LLVMTypeRef type, LLVMValueRef *values, int n,
                                 const char *name) {
    if (n == 0) return LLVMConstNull(o->g->ptr);
    return hidden_global(o, LLVMConstArray2(type, values, (uint64_t)n), name);
}

static LLVMValueRef bytes_global(Object *o, const uint8_t *data, int n, const char *name) {
    LLVMValueRef *v = ctx_array(o->ctx, LLVMValueRef, n + 1);
    for (int i = 0; i < n; i++) v[i] = int_constant(o->g->i8, data[i]);
    return array_global(o, o->g->i8, v, n, name);
}

static LLVMValueRef facts_global(Object *o, const tg_variant *v) {
    LLVMTypeRef i8 = o->g->i8, i32 = o->g->i32, i64 = o->g->i64;
    LLVMValueRef *rows = ctx_array(o->ctx, LLVMValueRef, v->n_facts + 1);
    for (int i = 0; i < v->n_facts; i++) {
        const tg_fact *f = &v->facts[i];
        LLVMValueRef fields[] = {int_constant(i8, f->kind), int_constant(i8, f->param),
                                 int_constant(i8, f->axis), int_constant(i8, 0),
                                 int_constant(i32, 0),      int_constant(i64, f->value)};
        rows[i] = LLVMConstNamedStruct(o->fact, fields, 6);
    }
    return array_global(o, o->fact, rows, v->n_facts, "facts");
}

static LLVMValueRef hints_global(Object *o, const tg_variant *v) {
    LLVMTypeRef i8 = o->g->i8;
    LLVMValueRef *rows = ctx_array(o->ctx, LLVMValueRef, v->n_hints + 1);
    for (int i = 0; i < v->n_hints; i++) {
        const tg_hint *h = &v->hints[i];
        LLVMValueRef fields[] = {int_constant(i8, h->param), int_constant(i8, h->axis),
                                 LLVMConstNull(LLVMArrayType2(i8, 6)),
                                 int_constant(o->g->i64, h->extent)};
        rows[i] = LLVMConstNamedStruct(o->hint, fields, 4);
    }
    return array_global(o, o->hint, rows, v->n_hints, "hints");
}

/* ---- device code --------------------------------------------------------------------------- */

static LLVMValueRef functions_global(Object *o, const tg_image *image) {
    LLVMTypeRef i32 = o->g->i32;
    LLVMValueRef *rows = ctx_array(o->ctx, LLVMValueRef, image->n_functions + 1);
    for (int i = 0; i < image->n_functions; i++) {
        const tg_device_function *f = &image->functions[i];
        int numbers[6] = {f->threads, f->cluster, f->shared_bytes,
                          f->n_args,  f->flags,   f->together};
        LLVMValueRef fields[7] = {text_global(o, f->name)};
        for (int k = 0; k < 6; k++) fields[k + 1] = int_constant(i32, numbers[k]);
        rows[i] = LLVMConstNamedStruct(o->function, fields, 7);
    }
    return array_global(o, o->function, rows, image->n_functions, "functions");
}

static LLVMValueRef optional_text(Object *o, const char *s) {
    return s ? text_global(o, s) : LLVMConstNull(o->g->ptr);
}

static LLVMValueRef sites_global(Object *o, const tg_image *image) {
    LLVMValueRef *rows = ctx_array(o->ctx, LLVMValueRef, image->n_sites + 1);
    for (int i = 0; i < image->n_sites; i++) {
        const tg_site *s = image->sites[i];
        int numbers[6] = {s->kind, s->line, s->column, s->n_values, s->n_indices, 0};
        LLVMValueRef fields[9];
        for (int k = 0; k < 6; k++) fields[k] = int_constant(o->g->i32, numbers[k]);
        fields[6] = optional_text(o, s->file);
        fields[7] = optional_text(o, s->text);
        fields[8] = optional_text(o, s->types);
        rows[i] = hidden_global(o, LLVMConstNamedStruct(o->site, fields, 9), "site");
    }
    return array_global(o, o->g->ptr, rows, image->n_sites, "sites");
}

typedef struct AddImage {
    Object *o;
    const char *name;
    const tg_image *image;
} AddImage;

/// In writable memory, because the runtime stores the loaded code there.
static void add_image(Ctx *ctx, void *arg) {
    (void)ctx;
    const AddImage *a = arg;
    Object *o = a->o;
    const tg_image *i = a->image;
    Gen *g = o->g;
    LLVMValueRef code = LLVMConstStringInContext2(g->llvm, i->bytes, i->size, true);
    LLVMValueRef none = LLVMConstNull(g->ptr);
    LLVMValueRef at = hidden_global(o, code, "code");
    LLVMSetAlignment(at, 16);
    LLVMValueRef fields[] = {int_constant(g->i32, i->kind),
                             int_constant(g->i32, i->n_functions),
                             int_constant(g->i32, i->n_sites),
                             int_constant(g->i16, i->arch),
                             int_constant(g->i16, i->specific),
                             text_global(o, i->target),
                             at,
                             int_constant(g->i64, (int64_t)i->size),
                             functions_global(o, i),
                             sites_global(o, i),
                             none,
                             none,
                             none,
                             none,
                             none};
    LLVMValueRef image = LLVMAddGlobal(g->module, o->image, a->name);
    LLVMSetInitializer(image, LLVMConstNamedStruct(o->image, fields, 15));
    LLVMSetLinkage(image, LLVMInternalLinkage);
    LLVMSetAlignment(image, 8);
}

void object_image(Object *o, const char *name, const tg_image *image) {
    AddImage a = {o, name, image};
    protect_object(o, add_image, &a);
}

static LLVMValueRef image_of(Object *o, const char *name) {
    if (!name) return LLVMConstNull(o->g->ptr);
    LLVMValueRef image = LLVMGetNamedGlobal(o->g->module, name);
    if (!image) ice(o->ctx, (Loc){0}, "no image %s", name);
    return image;
}

/* ---- kernels ------------------------------------------------------------------------------- */

static LLVMValueRef variants_global(Object *o, const ObjectExport *x) {
    LLVMTypeRef i16 = o->g->i16;
    int n = x->info->n_variants;
    LLVMValueRef *rows = ctx_array(o->ctx, LLVMValueRef, n + 1);
    for (int i = 0; i < n; i++) {
        const tg_variant *v = &x->info->variants[i];
        LLVMValueRef entry = LLVMGetNamedFunction(o->g->module, x->entries[i]);
        if (!entry) ice(o->ctx, (Loc){0}, "no function %s", x->entries[i]);
        LLVMSetLinkage(entry, LLVMInternalLinkage);
        LLVMValueRef fields[] = {entry,
                                 facts_global(o, v),
                                 hints_global(o, v),
                                 bytes_global(o, v->params, v->n_params, "params"),
                                 bytes_global(o, v->inplace, 2 * v->n_inplace, "inplace"),
                                 text_global(o, v->config),
                                 int_constant(i16, v->level),
                                 int_constant(i16, v->n_facts),
                                 int_constant(i16, v->n_hints),
                                 int_constant(i16, v->n_params),
                                 int_constant(i16, v->n_inplace),
                                 int_constant(i16, v->tuned),
                                 int_constant(o->g->i32, v->device),
                                 image_of(o, x->images[i])};
        rows[i] = LLVMConstNamedStruct(o->variant, fields, 14);
    }
    return array_global(o, o->variant, rows, n, "variants");
}

static LLVMValueRef params_global(Object *o, const tg_kernel_info *info) {
    LLVMTypeRef i8 = o->g->i8;
    LLVMValueRef *rows = ctx_array(o->ctx, LLVMValueRef, info->n_params + 1);
    for (int i = 0; i < info->n_params; i++) {
        const tg_param_info *p = &info->params[i];
        int numbers[8] = {p->kind, p->flags, p->code,    p->bits,
                          p->type, p->rank,  p->pack_at, p->pack};
        LLVMValueRef fields[9] = {text_global(o, p->name)};
        for (int k = 0; k < 8; k++) fields[k + 1] = int_constant(i8, numbers[k]);
        rows[i] = LLVMConstNamedStruct(o->param, fields, 9);
    }
    return array_global(o, o->param, rows, info->n_params, "parameters");
}

static LLVMValueRef export_kernel(Object *o, const ObjectExport *x) {
    Gen *g = o->g;
    const tg_kernel_info *k = x->info;
    LLVMValueRef info[] = {text_global(o, k->name),
                           text_global(o, k->signature),
                           params_global(o, k),
                           variants_global(o, x),
                           int_constant(g->i32, k->n_params),
                           int_constant(g->i32, k->n_types),
                           int_constant(g->i32, k->n_variants),
                           int_constant(g->i32, k->source)};
    LLVMValueRef at = hidden_global(o, LLVMConstNamedStruct(o->info, info, 8), "kernel");
    LLVMValueRef fields[] = {int_constant(g->i32, TG_ABI), int_constant(g->i32, 0), at,
                             LLVMConstNull(g->ptr)};
    LLVMValueRef kernel = LLVMAddGlobal(g->module, o->kernel, x->kernel_symbol);
    LLVMSetInitializer(kernel, LLVMConstNamedStruct(o->kernel, fields, 4));
    LLVMSetAlignment(kernel, 8);
    return kernel;
}

/* ---- the C function ------------------------------------------------------------------------ */

typedef struct Wrapper {
    Object *o;
    const CFunction *f;
    LLVMValueRef fn, args; // tg_arg[]
} Wrapper;

static LLVMTypeRef c_type(const Gen *g, const CArg *a) {
    if (a->kind == CARG_TENSOR) return g->ptr;
    return a->kind == CARG_DIM ? g->i64 : gen_mem_elem(g, a->elem);
}

static LLVMValueRef build_dim(const Wrapper *w, const CExpr *e) {
    static const OpCode ops[] = {
        [CX_ADD] = OP_ADD, [CX_SUB] = OP_SUB, [CX_MUL] = OP_MUL, [CX_DIV] = OP_DIV,
        [CX_REM] = OP_REM, [CX_MIN] = OP_MIN, [CX_MAX] = OP_MAX,
    };
    const Gen *g = w->o->g;
    if (e->kind == CX_CONST) return gen_i64(g, e->value);
    if (e->kind == CX_ARG) {
        const CArg *a = &w->f->args[e->value];
        LLVMValueRef x = LLVMGetParam(w->fn, (unsigned)e->value);
        return a->kind == CARG_DIM ? x
                                   : gen_cast(g, a->elem, EL_I64, gen_from_memory(g, a->elem, x));
    }
    LLVMValueRef args[2] = {build_dim(w, e->a), build_dim(w, e->b)};
    return gen_elementwise(g, ops[e->kind], EL_I64, args);
}

static LLVMValueRef at_bytes(const Gen *g, LLVMValueRef p, int64_t n) {
    return gen_offset(g, p, gen_i64(g, n));
}

/// Stores a tg_arg: its kind, and the word 8 bytes after it.
static void store_arg(const Wrapper *w, int i, int kind, LLVMValueRef value) {
    const Gen *g = w->o->g;
    LLVMBuildStore(g->b, int_constant(g->i32, kind), at_bytes(g, w->args, 16 * i));
    LLVMBuildStore(g->b, value, at_bytes(g, w->args, 16 * i + 8));
}

// enum tg_arg_kind of tegula.h, which only the runtime's users include.
enum { ARG_TENSOR, ARG_INT, ARG_FLOAT };
enum { DL_CPU = 1 };

static void pass_tensor(const Wrapper *w, int i) {
    const Gen *g = w->o->g;
    const CParam *p = &w->f->params[i];
    const CArg *a = &w->f->args[p->arg];
    LLVMValueRef data = LLVMGetParam(w->fn, (unsigned)p->arg);
    LLVMValueRef t = LLVMBuildAlloca(g->b, w->o->tensor, "");
    LLVMValueRef shape =
        LLVMBuildAlloca(g->b, LLVMArrayType2(g->i64, (uint64_t)(p->rank ? p->rank : 1)), "");
    for (int d = 0; d < p->rank; d++)
        LLVMBuildStore(g->b, build_dim(w, p->dims[d]), at_bytes(g, shape, 8 * d));
    int64_t type = (int64_t)a->code | (int64_t)a->bits << 8 | (int64_t)1 << 16;
    LLVMValueRef fields[6] = {data,  gen_i64(g, DL_CPU),    gen_i64(g, p->rank | type << 32),
                              shape, LLVMConstNull(g->ptr), gen_i64(g, 0)};
    for (int k = 0; k < 6; k++) LLVMBuildStore(g->b, fields[k], at_bytes(g, t, 8 * k));
    if (p->optional)
        t = LLVMBuildSelect(g->b, LLVMBuildIsNull(g->b, data, ""), LLVMConstNull(g->ptr), t, "");
    store_arg(w, i, ARG_TENSOR, t);
}

static void pass_scalar(const Wrapper *w, int i) {
    const Gen *g = w->o->g;
    const CParam *p = &w->f->params[i];
    Elem elem = w->f->args[p->arg].elem;
    LLVMValueRef x = gen_from_memory(g, elem, LLVMGetParam(w->fn, (unsigned)p->arg));
    if (elem_is(elem, EC_FLOAT))
        store_arg(w, i, ARG_FLOAT, gen_cast(g, elem, EL_F64, x));
    else
        store_arg(w, i, ARG_INT, gen_cast(g, elem, EL_I64, x));
}

static void add_wrapper_attribute(Object *o, LLVMValueRef fn, const char *name) {
    unsigned kind = LLVMGetEnumAttributeKindForName(name, strlen(name));
    LLVMAddAttributeAtIndex(fn, (LLVMAttributeIndex)LLVMAttributeFunctionIndex,
                            LLVMCreateEnumAttribute(o->g->llvm, kind, 0));
}

static void call_runtime(const Wrapper *w, LLVMValueRef kernel) {
    const Gen *g = w->o->g;
    LLVMTypeRef types[3] = {g->ptr, g->ptr, g->i32};
    LLVMTypeRef type = LLVMFunctionType(g->i32, types, 3, false);
    LLVMValueRef launch = LLVMGetNamedFunction(g->module, "tg_launch");
    if (!launch) launch = LLVMAddFunction(g->module, "tg_launch", type);
    LLVMValueRef args[3] = {kernel, w->args, int_constant(g->i32, w->f->n_params)};
    LLVMBuildRet(g->b, LLVMBuildCall2(g->b, type, launch, args, 3, ""));
}

static void export_function(Object *o, const char *symbol, const CFunction *f,
                            LLVMValueRef kernel) {
    const Gen *g = o->g;
    LLVMTypeRef *types = ctx_array(o->ctx, LLVMTypeRef, f->n_args + 1);
    for (int i = 0; i < f->n_args; i++) types[i] = c_type(g, &f->args[i]);
    LLVMTypeRef type = LLVMFunctionType(g->i32, types, (unsigned)f->n_args, false);
    Wrapper w = {.o = o, .f = f, .fn = LLVMAddFunction(g->module, symbol, type)};
    add_wrapper_attribute(o, w.fn, "nounwind");
    LLVMPositionBuilderAtEnd(g->b, LLVMAppendBasicBlockInContext(g->llvm, w.fn, "entry"));
    int n = f->n_params ? f->n_params : 1;
    w.args = LLVMBuildAlloca(g->b, LLVMArrayType2(o->arg, (uint64_t)n), "");
    for (int i = 0; i < f->n_params; i++) {
        if (f->args[f->params[i].arg].kind == CARG_TENSOR)
            pass_tensor(&w, i);
        else
            pass_scalar(&w, i);
    }
    call_runtime(&w, kernel);
}

typedef struct Exporting {
    Object *o;
    const ObjectExport *x;
} Exporting;

static void export_all(Ctx *ctx, void *arg) {
    (void)ctx;
    Exporting *e = arg;
    LLVMValueRef kernel = export_kernel(e->o, e->x);
    if (e->x->function) export_function(e->o, e->x->symbol, e->x->function, kernel);
}

void object_export(Object *o, const ObjectExport *x) {
    Exporting e = {o, x};
    protect_object(o, export_all, &e);
}

/* ---- the end ------------------------------------------------------------------------------- */

typedef struct Finish {
    Object *o;
    int texts;
    Code *code;
} Finish;

static void release_object_code(void *code) {
    code_release(code);
}

static void finish_object(Ctx *ctx, void *arg) {
    (void)ctx;
    Finish *f = arg;
    module_mark_branches(f->o->g);
    module_verify(f->o->g);
    module_merge(f->o->g, f->o->machine);
    module_emit(f->o->g, f->o->machine, f->texts, f->code);
}

Code *object_finish(Object *o, int texts) {
    Finish f = {o, texts, calloc(1, sizeof(Code))};
    if (!f.code) ctx_leave(o->ctx, CTX_NO_MEMORY);
    ctx_defer(o->ctx, release_object_code, f.code);
    protect_object(o, finish_object, &f);
    return f.code;
}

int64_t code_bytes(const Code *code, const char *prefix) {
    char *error = NULL;
    LLVMMemoryBufferRef buffer =
        LLVMCreateMemoryBufferWithMemoryRange(code->object, code->object_bytes, "object", false);
    LLVMBinaryRef file = LLVMCreateBinary(buffer, NULL, &error);
    int64_t sum = 0;
    if (file) {
        LLVMSymbolIteratorRef s = LLVMObjectFileCopySymbolIterator(file);
        for (; !LLVMObjectFileIsSymbolIteratorAtEnd(file, s); LLVMMoveToNextSymbol(s))
            if (belongs_to(LLVMGetSymbolName(s), prefix)) sum += (int64_t)LLVMGetSymbolSize(s);
        LLVMDisposeSymbolIterator(s);
        LLVMDisposeBinary(file);
    }
    LLVMDisposeMessage(error);
    LLVMDisposeMemoryBuffer(buffer);
    return sum;
}
