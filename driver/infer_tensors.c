// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Infers the tensors of a module's kernel from those that a caller has. Names in the types of given
// tensors are bound to their extents; the shapes of the others follow (dimensions.h).
#include "driver/dimensions.h"
#include "driver/driver_private.h"
#include "driver/module.h"

#include <inttypes.h>
#include <string.h>

_Static_assert(sizeof((tg_inferred){.rank = 0}.shape) / sizeof(int64_t) == (size_t)MAX_RANK,
               "a shape has room for each axis");

typedef struct Inference {
    const ModuleKernel *k;
    const tg_actual *args;
    const uint16_t *types;
    tg_inferred *out;
    Dimensions dims;
    tg_status status;
    const char *message;
} Inference;

static const Param *inferred_param(const Inference *in, int i) {
    return &in->k->source->params.at[i];
}

static bool is_given(const Inference *in, int i) {
    return param_is_tensor(inferred_param(in, i)) && !in->args[i].null && in->args[i].tensor;
}

/// Numbers count only as dims, so floats do not.
static void bind_numbers(Ctx *ctx, Inference *in, bool constants) {
    for (int i = 0; i < in->k->info->n_params; i++) {
        const Param *p = inferred_param(in, i);
        Elem e = elem_of_dlpack(in->args[i].code, in->args[i].bits);
        bool number = !param_is_tensor(p) && p->constant == constants;
        if (number && (e == EL_COUNT || !elem_is(e, EC_FLOAT)))
            dims_set(ctx, &in->dims, p->name.text, in->args[i].value);
    }
}

/// The order of precedence is that of `tegula run`.
static void bind_names(Ctx *ctx, Inference *in) {
    const tg_module *m = in->k->module;
    bind_numbers(ctx, in, true);
    for (int sums = 0; sums < 2; sums++)
        for (int i = 0; i < in->k->info->n_params; i++)
            if (is_given(in, i))
                dims_bind(ctx, &in->dims, inferred_param(in, i)->type, in->args[i].rank,
                          in->args[i].shape, sums);
    for (int i = 0; i < m->n_set; i++) dims_set(ctx, &in->dims, m->set[i].name, m->set[i].value);
    bind_numbers(ctx, in, false);
    dims_constants(ctx, &in->dims, m->program);
    dims_require(ctx, &in->dims, in->k->source);
}

/* ---- messages ------------------------------------------------------------------------------ */

static void add_shape(Text *t, int rank, const int64_t *extents) {
    text_add(t, "[");
    for (int i = 0; i < rank; i++) text_add(t, "%s%" PRId64, i ? ", " : "", extents[i]);
    text_add(t, "]");
}

static void fail_shape(Ctx *ctx, Inference *in, int i, int rank, const int64_t *extents) {
    const tg_actual *a = &in->args[i];
    Text t = {.ctx = ctx};
    text_add(&t, "%s: argument %d '%s' is ", in->k->info->name, i + 1, in->k->info->params[i].name);
    add_shape(&t, a->rank, a->shape);
    text_add(&t, "; its type ");
    ast_print_type(&t, inferred_param(in, i)->type);
    text_add(&t, " is ");
    add_shape(&t, rank, extents);
    text_add(&t, " by the other arguments");
    in->status = TG_ERROR_CONTRACT;
    in->message = t.data;
}

static void fail_unknown(Ctx *ctx, Inference *in, int i, const NoShape *why) {
    Text t = {.ctx = ctx};
    text_add(&t, "%s: argument %d '%s' is missing, and its shape ", in->k->info->name, i + 1,
             in->k->info->params[i].name);
    ast_print_type(&t, inferred_param(in, i)->type);
    text_add(&t, " does not follow from the other arguments: %s %s", why->subject, why->fault);
    in->status = TG_ERROR_ARGUMENT;
    in->message = t.data;
}

/* ---- tensors ------------------------------------------------------------------------------- */

/// Whether the parameter's type may be f64 and a given tensor is f64, so that precision is kept.
static bool suits_double(const Inference *in, int i) {
    int g = in->k->info->params[i].type;
    bool any = false;
    for (int k = 0; k < in->k->info->n_params; k++)
        any |= is_given(in, k) && elem_of_dlpack(in->args[k].code, in->args[k].bits) == EL_F64;
    return any && fe_constraint_allows(&in->k->source->generics.at[g], EL_F64);
}

/// An open type parameter is f64 or takes the first type of its list.
static DLDataType inferred_type(const Inference *in, int i) {
    const tg_param_info *p = &in->k->info->params[i];
    uint8_t code = p->code, bits = p->bits;
    Elem otherwise = fe_default_elem(in->k->source, inferred_param(in, i));
    if (p->type >= 0 && in->types[p->type]) {
        code = (uint8_t)(in->types[p->type] >> 8);
        bits = (uint8_t)in->types[p->type];
    } else if (p->type >= 0 && suits_double(in, i)) {
        elem_dlpack(EL_F64, &code, &bits);
    } else if (p->type >= 0 && otherwise < EL_COUNT) {
        elem_dlpack(otherwise, &code, &bits);
    }
    return (DLDataType){.code = code, .bits = bits, .lanes = 1};
}

static void infer_given(Ctx *ctx, Inference *in, int i) {
    const tg_actual *a = &in->args[i];
    tg_inferred *out = &in->out[i];
    int rank;
    int64_t extents[MAX_RANK];
    NoShape why;
    size_t bytes = sizeof *a->shape * (size_t)a->rank;
    bool follows = dims_extents(&in->dims, inferred_param(in, i)->type, &rank, extents, &why);
    if (follows && (rank != a->rank || (bytes && memcmp(extents, a->shape, bytes) != 0))) {
        fail_shape(ctx, in, i, rank, extents);
        return;
    }
    out->flags |= TG_INFERRED_KNOWN;
    out->type = (DLDataType){.code = a->code, .bits = a->bits, .lanes = 1};
    out->rank = a->rank;
    if (bytes) memcpy(out->shape, a->shape, bytes);
}

static void infer_missing(Ctx *ctx, Inference *in, int i) {
    tg_inferred *out = &in->out[i];
    NoShape why;
    bool follows =
        dims_extents(&in->dims, inferred_param(in, i)->type, &out->rank, out->shape, &why);
    out->type = inferred_type(in, i);
    if (follows && out->type.bits)
        out->flags |= TG_INFERRED_KNOWN;
    else if (!(out->flags & TG_INFERRED_OPTIONAL))
        fail_unknown(ctx, in, i, follows ? &(NoShape){"its element type", "is not known"} : &why);
}

static void infer_tensors(Ctx *ctx, void *arg) {
    Inference *in = arg;
    bind_names(ctx, in);
    for (int i = 0; i < in->k->info->n_params && !in->status; i++) {
        if (!param_is_tensor(inferred_param(in, i))) continue;
        if (is_given(in, i))
            infer_given(ctx, in, i);
        else
            infer_missing(ctx, in, i);
    }
}

/// Nothing here reports a diagnostic, so only memory can run out.
tg_status jit_infer(void *user, const tg_actual *args, const uint16_t *types, tg_inferred *out) {
    Inference in = {.k = user, .args = args, .types = types, .out = out};
    Ctx *ctx = ctx_create(&module_allocator);
    CtxStatus status = ctx ? ctx_protect(ctx, infer_tensors, &in) : CTX_NO_MEMORY;
    tg_status result = in.status;
    if (status != CTX_OK)
        result = tg_fail(TG_ERROR_MEMORY, "%s: no memory is left to infer its tensors",
                         in.k->info->name);
    else if (result)
        tg_fail(result, "%s", in.message);
    if (ctx) ctx_destroy(ctx);
    return result;
}
