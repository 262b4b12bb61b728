// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Answers one request of the just-in-time compiler: the code of its instance (request.c), its key,
// and messages.
#include <string.h>

#include "driver/jit.h"

#include "lang/diag.h"

typedef struct CompileJob {
    const Request *r;
    bool load;
    Answer *out;
} CompileJob;

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
