// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Describes compiled code for the runtime: the conditions on its arguments, the extents that it was
// made for, and its argument list.
//
//     type          code was made for f32      TG_FACT_TYPE      of each type parameter
//     dim           D = 64 is in the code      TG_FACT_EXTENT    of the axis that binds D
//                   cover(N) of 48 lanes       TG_FACT_MOST   (and LEAST, where exact)
//     stride        1 or 0 is in the type      TG_FACT_STRIDE
//                   neither                    TG_FACT_STRIDED, where exact
//     alignment     16, 8 or 4 is in the type  TG_FACT_ALIGN    (and its absence, where exact)
//     near          near is in the type        TG_FACT_NEAR     (likewise)
//     pack          two axes were left         TG_FACT_PACK
//     null, const                              TG_FACT_NULL, TG_FACT_VALUE
//
// Every other condition of a launch is a contract of the kernel, not a property of this code. The
// code itself checks it and reports violations.
#include <string.h>

#include "driver/driver.h"
#include "passes/gpu/gpu.h"

typedef struct FactList {
    const Build *b;
    enum FactOptions options;
    VEC(tg_fact) facts;
    VEC(tg_hint) hints;
    VEC(uint8_t) params, inplace;
} FactList;

static Op *named_kernel(const Build *b) {
    Op *kernel = find_kernel(b->code->module, b->code->name);
    const Attr *names = kernel ? op_strs(kernel, A_PARAMS) : NULL;
    if (!names || names->n != kernel->regions[0]->n_args)
        ice(b->ctx, (Loc){0}, "kernel '%s' does not name its parameters", b->code->name);
    return kernel;
}

int build_arguments(const Build *b) {
    return named_kernel(b)->regions[0]->n_args;
}

const ParamUse *build_argument(const Build *b, int k, int *param) {
    Op *kernel = named_kernel(b);
    const char *name = op_strs(kernel, A_PARAMS)->strs[k];
    for (int i = 0; i < b->code->n_params; i++) {
        if (strcmp(b->code->params[i].name, name) != 0) continue;
        *param = i;
        return &b->code->params[i];
    }
    ice(b->ctx, kernel->loc, "there is no parameter '%s'", name);
}

/// Merges the axes from .. to of `t` into one. The elaborator has checked that one stride walks
/// them. Axes of extent 1 are ignored; no axes at all become one row.
static void join_tensor_axes(const Tensor *t, int from, int to, Tensor *out) {
    int64_t stride = from < to ? t->strides[from] : 1;
    for (int i = from; i < to; i++)
        if (t->extents[i] != 1) stride = t->strides[i];
    out->extents[out->rank] = extents_product(t->extents + from, to - from);
    out->strides[out->rank++] = stride;
}

Tensor build_merge_pack(const Tensor *t, const ParamUse *use) {
    Tensor out = {.data = t->data, .elem = t->elem, .away = t->away};
    int pack_end = use->pack_at + use->pack_given;
    for (int i = 0; i <= t->rank; i++) {
        if (i == use->pack_at)
            for (int g = 0; g < use->pack_rank; g++)
                join_tensor_axes(t, i + use->pack_from[g], i + use->pack_from[g + 1], &out);
        bool in_pack = use->pack_at >= 0 && i >= use->pack_at && i < pack_end;
        if (i < t->rank && !in_pack) join_tensor_axes(t, i, i + 1, &out);
    }
    return out;
}

int64_t build_extent(const Build *b, int param, int axis) {
    const ParamUse *use = &b->code->params[param];
    const ParamInst *p = &b->inst->params[param];
    if (axis < 0) return use->kind != PARAM_TENSOR && p->known_value ? p->value : -1;
    if (use->kind != PARAM_TENSOR || !p->known_shape || axis >= use->rank) return -1;
    bool pack = use->pack_at >= 0;
    int group = axis - use->pack_at;
    if (!pack || group < 0) return p->extents[axis];
    if (group >= use->pack_rank) return p->extents[axis - use->pack_rank + use->pack_given];
    int from = use->pack_from[group], to = use->pack_from[group + 1];
    return extents_product(p->extents + use->pack_at + from, to - from);
}

static void add_code_fact(FactList *d, enum tg_fact_kind kind, int param, int axis, int64_t value) {
    tg_fact fact = {
        .kind = (uint8_t)kind, .param = (uint8_t)param, .axis = (uint8_t)axis, .value = value};
    vec_push(d->b->ctx, &d->facts, fact);
}

/* ---- facts --------------------------------------------------------------------------------- */

/// Adds a fact for each type parameter, from the first argument that has it. A null tensor has no
/// type.
static void type_facts(FactList *d) {
    const FnDef *f = d->b->inst->kernel;
    for (int g = 0; g < f->generics.n; g++) {
        const char *name = f->generics.at[g].name.text;
        for (int i = 0; i < f->params.n; i++) {
            const TypeExpr *t = f->params.at[i].type;
            const ParamUse *use = &d->b->code->params[i];
            if (!t || t->elem.text != name || use->null || use->elem >= EL_COUNT) continue;
            uint8_t code, bits;
            elem_dlpack(use->elem, &code, &bits);
            add_code_fact(d, TG_FACT_TYPE, g, 0, code << 8 | bits);
            break;
        }
    }
}

static void param_facts(FactList *d, int i) {
    const ParamUse *use = &d->b->code->params[i];
    const ParamInst *p = &d->b->inst->params[i];
    if (use->optional) add_code_fact(d, TG_FACT_NULL, i, 0, use->null);
    if (use->kind == PARAM_CONST) {
        int64_t v = p->value;
        for (int k = 0; !p->known_value && k < d->b->inst->n_dims; k++)
            if (strcmp(d->b->inst->dims[k].name, use->name) == 0) v = d->b->inst->dims[k].value;
        add_code_fact(d, TG_FACT_VALUE, i, 0, v);
    }
    if (use->kind == PARAM_TENSOR && !use->null && use->pack_at >= 0)
        add_code_fact(d, TG_FACT_PACK, i, use->pack_at, use->pack_rank);
}

/// A dim gets a fact only if it is a constant of the code, or covered by it. Otherwise any extent
/// is right.
static void dim_facts(FactList *d) {
    for (int i = 0; i < d->b->code->n_dims; i++) {
        const DimUse *u = &d->b->code->dims[i];
        if (u->least == u->most) {
            add_code_fact(d, TG_FACT_EXTENT, u->param, u->axis, u->least);
            continue;
        }
        if (u->most < INT64_MAX) add_code_fact(d, TG_FACT_MOST, u->param, u->axis, u->most);
        if (u->least > 0 && d->options == FACTS_EXACT)
            add_code_fact(d, TG_FACT_LEAST, u->param, u->axis, u->least);
    }
}

/// Adds facts for strides of 0 and 1, which the type contains. The code reads other strides from
/// its arguments.
static void stride_facts(FactList *d, int argument) {
    int i;
    const ParamUse *use = build_argument(d->b, argument, &i);
    const Type *t = named_kernel(d->b)->regions[0]->args[argument]->type;
    if (use->kind != PARAM_TENSOR) return;
    for (int a = 0; a < t->rank; a++) {
        if (t->strides[a] != DYNAMIC)
            add_code_fact(d, TG_FACT_STRIDE, i, a, t->strides[a]);
        else if (d->options == FACTS_EXACT)
            add_code_fact(d, TG_FACT_STRIDED, i, a, 0);
    }
}

_Static_assert((int)TG_LINE == TENSOR_ALIGN, "what is aligned is so on both sides");
_Static_assert(TG_SPAN == (int64_t)1 << TENSOR_SPAN_LOG2, "what is near is so on both sides");

/// Only code for GPUs uses alignments and near addresses.
static void address_facts(FactList *d, int argument) {
    int i;
    const ParamUse *use = build_argument(d->b, argument, &i);
    const Type *t = named_kernel(d->b)->regions[0]->args[argument]->type;
    bool exact = d->b->gpu && d->options == FACTS_EXACT;
    int64_t align = TG_LINE / (t->align ? t->align : 1);
    if (use->kind == PARAM_TENSOR && (t->align || exact))
        add_code_fact(d, TG_FACT_ALIGN, i, 0, exact ? align : 2 * align - 1);
    bool far = d->options == FACTS_EXACT && d->b->gpu && gpu_has(d->b->gpu, GPU_BUFFERS) &&
               !d->b->inst->params[i].near;
    if (use->kind == PARAM_TENSOR && (t->near || far))
        add_code_fact(d, TG_FACT_NEAR, i, 0, t->near);
}

/* ---- hints, arguments ---------------------------------------------------------------------- */

/// Extents decide the best code only if several settings were possible.
static void add_extent_hints(FactList *d) {
    if (d->b->n_settings < 2 && !d->b->tuned) return;
    for (int i = 0; i < d->b->code->n_dims; i++) {
        const DimUse *u = &d->b->code->dims[i];
        int64_t extent = build_extent(d->b, u->param, u->axis);
        if (u->least == u->most || extent < 0) continue;
        tg_hint hint = {.param = (uint8_t)u->param, .axis = (uint8_t)u->axis, .extent = extent};
        vec_push(d->b->ctx, &d->hints, hint);
    }
}

static void list_arguments(FactList *d) {
    Ctx *ctx = d->b->ctx;
    int n = build_arguments(d->b), param;
    for (int k = 0; k < n; k++) {
        build_argument(d->b, k, &param);
        vec_push(ctx, &d->params, (uint8_t)param);
    }
    const Attr *pairs = op_ints(named_kernel(d->b), A_IN_PLACE);
    for (int i = 0; pairs && i < pairs->n; i++)
        vec_push(ctx, &d->inplace, d->params.data[pairs->ints[i]]);
}

tg_variant *build_variant(const Build *b, int level, enum FactOptions options) {
    FactList d = {.b = b, .options = options};
    type_facts(&d);
    for (int i = 0; i < b->code->n_params; i++) param_facts(&d, i);
    dim_facts(&d);
    int n = build_arguments(b);
    for (int k = 0; k < n; k++) {
        stride_facts(&d, k);
        address_facts(&d, k);
    }
    add_extent_hints(&d);
    list_arguments(&d);
    tg_variant *v = ctx_new(b->ctx, tg_variant);
    *v = (tg_variant){.facts = d.facts.data,
                      .hints = d.hints.data,
                      .params = d.params.data,
                      .inplace = d.inplace.data,
                      .config = settings_text(b->ctx, b->code->n_config, b->code->config),
                      .level = (int16_t)level,
                      .n_facts = (int16_t)d.facts.n,
                      .n_hints = (int16_t)d.hints.n,
                      .n_params = (int16_t)d.params.n,
                      .n_inplace = (int16_t)(d.inplace.n / 2)};
    return v;
}
