// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// One request of the just-in-time compiler: turns the arguments of a launch into an instance, and
// the instance into code.
//
// The compiler sees the actual extents and strides. The code depends on them only through its facts
// (facts.c): on strides as 1, 0 or other, and on dims that must be constants.
#include <string.h>

#include "driver/jit.h"
#include "frontend/program.h"

#include "lang/diag.h"

typedef struct CompileJob {
    const Request *r;
    bool load;
    Answer *out;
} CompileJob;

/* ---- arguments ----------------------------------------------------------------------------- */

/// Any stride is right for an axis of one element, so the best one is assumed. (Strides of empty
/// axes are kept, as they decide how packs are merged, here as in the runtime.)
static int64_t useful_stride(const tg_actual *a, int axis) {
    if (a->shape[axis] != 1) return a->strides[axis];
    int64_t stride = 1;
    for (int i = axis + 1; i < a->rank; i++) stride *= a->shape[i] > 1 ? a->shape[i] : 1;
    return axis == a->rank - 1 ? 1 : stride;
}

static Elem actual_elem(const Param *p, const tg_actual *a) {
    Elem declared = p->type ? elem_by_name(p->type->elem.text) : EL_COUNT;
    return declared != EL_COUNT ? declared : elem_of_dlpack(a->code, a->bits);
}

/// Describes all properties that are known at launch, as the command line does for its arguments.
static void describe_actual(const Param *p, const tg_actual *a, ParamInst *out) {
    bool tensor = param_is_tensor(p);
    *out = (ParamInst){.elem = actual_elem(p, a), .null = tensor && a->null};
    if (out->null) {
        out->elem = EL_COUNT;
    } else if (tensor) {
        out->known_shape = out->known_strides = true;
        out->rank = a->rank;
        out->align = a->align > 1 ? a->align : 0;
        out->near = tg_is_near(a->rank, a->shape, a->strides, a->bits);
        for (int i = 0; i < a->rank; i++) {
            out->extents[i] = a->shape[i];
            out->strides[i] = useful_stride(a, i);
        }
    } else if (p->constant || (out->elem < EL_COUNT && !elem_is(out->elem, EC_FLOAT))) {
        out->known_value = true;
        out->value = a->value;
    }
}

static bool has_choice(const FnDef *f, const char *name) {
    for (int i = 0; i < f->clauses.n; i++)
        for (int c = 0; c < f->clauses.at[i].choices.n; c++)
            if (f->clauses.at[i].kind == CL_TUNE &&
                strcmp(f->clauses.at[i].choices.at[c].name.text, name) == 0)
                return true;
    return false;
}

/// A module's setting applies to the kernels that have the name. If no kernel has it, it applies to
/// all: it is an axis of the schedule, or else the elaborator reports it.
static bool is_meant(const Program *p, const FnDef *f, const char *name) {
    if (has_choice(f, name)) return true;
    for (int i = 0; i < fe_kernel_count(p); i++)
        if (has_choice(fe_kernel(p, i), name)) return false;
    return true;
}

static Inst *make_inst(Ctx *ctx, const Request *r, const Program *p, const FnDef *f) {
    Inst *inst = ctx_new(ctx, Inst);
    int n = f->params.n;
    *inst = (Inst){.kernel = f,
                   .n_params = n,
                   .params = ctx_array(ctx, ParamInst, n + 1),
                   .set = ctx_array(ctx, NamedValue, r->n_set + 1),
                   .check = r->check};
    if (n != r->n_args) ice(ctx, f->loc, "%d arguments for %d parameters", r->n_args, n);
    for (int i = 0; i < n; i++) describe_actual(&f->params.at[i], &r->args[i], &inst->params[i]);
    for (int i = 0; i < r->n_set; i++)
        if (is_meant(p, f, r->set[i].name)) inst->set[inst->n_set++] = r->set[i];
    return inst;
}

/* ---- keys ---------------------------------------------------------------------------------- */

/// Facts are listed in the order of the source, so equal facts are equal bytes.
static Key make_code_key(Ctx *ctx, const Request *r, const tg_variant *v) {
    Text t = {.ctx = ctx};
    text_add(&t, "%s;%s;%s;", r->target ? r->target : "", r->machine ? r->machine : "", v->config);
    text_bytes(&t, (const char *)v->facts, sizeof *v->facts * (size_t)v->n_facts);
    text_bytes(&t, (const char *)v->params, (size_t)v->n_params);
    return (Key){t.data, t.n};
}

int request_known(const Request *r, Key key) {
    for (int i = 0; i < r->n_known; i++)
        if (r->known[i].n == key.n && memcmp(r->known[i].bytes, key.bytes, key.n) == 0) return i;
    return -1;
}

/* ---- compiling ----------------------------------------------------------------------------- */

bool request_build(Ctx *ctx, const Request *r, Build *out) {
    Sources *sources = ctx_new(ctx, Sources);
    *sources = (Sources){r->n_paths, r->paths, true, r->n_texts, r->texts};
    uint16_t file = source_find(ctx, sources, r->path);
    if (!file) ice(ctx, (Loc){0}, "there is no text of '%s'", r->path);
    Program *p = fe_load(ctx, file, source_importer(ctx, sources));
    const FnDef *f = fe_find_kernel(p, r->kernel);
    if (diag_errors(ctx)) return false;
    if (!f) ice(ctx, (Loc){0}, "there is no kernel '%s'", r->kernel);
    *out = (Build){.ctx = ctx,
                   .program = p,
                   .inst = make_inst(ctx, r, p, f),
                   .target = r->target,
                   .codegen = r->codegen,
                   .machine = r->machine,
                   .driver = r->driver,
                   .threads = r->threads,
                   .tuned = r->tuned,
                   .debug = r->debug};
    return true;
}

/// Stops after elaboration if code for its facts is known. Passes and code generation take nearly
/// all of the time.
static void compile_new_code(Ctx *ctx, void *arg) {
    const CompileJob *job = arg;
    const Request *r = job->r;
    Answer *out = job->out;
    Build b;
    if (!request_build(ctx, r, &b) || !build_elaborate(&b)) return;
    out->variant = build_variant(&b, TG_LEVEL_BASE, FACTS_EXACT);
    out->key = make_code_key(ctx, r, out->variant);
    out->same = request_known(r, out->key);
    if (out->same >= 0 || !build_passes(&b)) return;
    out->variant = build_variant(&b, TG_LEVEL_BASE, FACTS_EXACT);
    out->code = build_code(&b, NULL, 0, job->load);
}

/* ---- messages ------------------------------------------------------------------------------ */

// Mistakes that appear only when a kernel is compiled for a launch. The launch is to blame for
// them, not the source.
static const struct {
    DiagId id;
    tg_status status;
} statuses[] = {
    {D_INTERNAL, TG_ERROR_INTERNAL},      {D_CONSTRAINT, TG_ERROR_ARGUMENT},
    {D_PARAM_ELEM, TG_ERROR_ARGUMENT},    {D_PARAM_RANK, TG_ERROR_ARGUMENT},
    {D_PACK_AXES, TG_ERROR_ARGUMENT},     {D_ABSENT_TENSOR, TG_ERROR_ARGUMENT},
    {D_REQUIRE_FALSE, TG_ERROR_CONTRACT}, {D_WHERE, TG_ERROR_CONTRACT},
    {D_RUN_FAILED, TG_ERROR_UNSUPPORTED},
};

tg_status messages_status(const Ctx *ctx, CtxStatus status) {
    if (status == CTX_NO_MEMORY) return TG_ERROR_MEMORY;
    if (status == CTX_BUG) return TG_ERROR_INTERNAL;
    tg_status found = TG_OK;
    for (const Diagnostic *d = diag_first(ctx); d; d = d->next) {
        if (d->severity != SEV_ERROR) continue;
        tg_status s = TG_ERROR_SOURCE;
        for (size_t i = 0; i < sizeof statuses / sizeof *statuses; i++)
            if (statuses[i].id == d->id) s = statuses[i].status;
        if (!found) found = s;
    }
    return found;
}

/// Errors come first, since an earlier warning may concern another kernel.
static void render_all(Ctx *ctx, void *out) {
    Text t = {.ctx = ctx};
    for (int pass = 0; pass < 2; pass++)
        for (const Diagnostic *d = diag_first(ctx); d; d = d->next)
            if ((d->severity == SEV_ERROR) == (pass == 0)) diag_render(&t, ctx, d, false);
    while (t.n && t.data[t.n - 1] == '\n') t.data[--t.n] = 0;
    if (t.data) *(const char **)out = t.data;
}

/// Protected, because the message may be about a lack of memory.
const char *messages_text(Ctx *ctx) {
    const char *text = "";
    ctx_protect(ctx, render_all, &text);
    return text;
}

int messages_warnings(Ctx *ctx, const char ***out) {
    int n = 0;
    for (const Diagnostic *d = diag_first(ctx); d; d = d->next) n += d->severity == SEV_WARNING;
    *out = ctx_array(ctx, const char *, n + 1);
    n = 0;
    for (const Diagnostic *d = diag_first(ctx); d; d = d->next) {
        if (d->severity != SEV_WARNING) continue;
        Text t = {.ctx = ctx};
        diag_render(&t, ctx, d, false);
        (*out)[n++] = t.data;
    }
    return n;
}

static void list_answer_warnings(Ctx *ctx, void *arg) {
    Answer *out = arg;
    out->n_warnings = messages_warnings(ctx, &out->warnings);
}

void request_compile(Ctx *ctx, const Request *r, bool load, Answer *out) {
    CompileJob job = {r, load, out};
    *out = (Answer){.same = -1};
    CtxStatus status = ctx_protect(ctx, compile_new_code, &job);
    out->status = messages_status(ctx, status);
    if (!out->status && out->same < 0 && !out->code) out->status = TG_ERROR_INTERNAL;
    if (!out->status && ctx_protect(ctx, list_answer_warnings, out) != CTX_OK)
        out->status = TG_ERROR_MEMORY;
    if (!out->status) return;
    code_release(out->code);
    out->code = NULL;
    out->message = out->status == TG_ERROR_MEMORY ? "out of memory" : messages_text(ctx);
}

/// The old code is not released here: it is in the arena, or belongs to the caller.
void answer_load(Ctx *ctx, const Request *r, Answer *a) {
    const Code *made = a->code;
    a->code = NULL;
    if (a->status || !made || a->same >= 0) return;
    a->code = code_from_object(ctx, made->object, made->object_bytes, r->kernel);
    DeviceCode device = {.image = made->image ? *made->image : (tg_image){.kind = 0}};
    if (a->code && made->image && !code_take_image(a->code, &device)) {
        code_release(a->code);
        *a = (Answer){.status = TG_ERROR_MEMORY, .message = "out of memory"};
        return;
    }
    if (!a->code) *a = (Answer){.status = TG_ERROR_INTERNAL, .message = messages_text(ctx)};
}
