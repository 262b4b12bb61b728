// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Texts for the runtime's messages: types, tensors, and the settings that a kernel was compiled
// for.
#include "runtime/runtime.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* ---- names out of the signature ------------------------------------------------------------ */
// "kernel softmax<T: float>(x: T[R, N], y: T[R, N])"

/// Item i of a list that starts after `open`: up to the next ',' or bracket of its own level.
static const char *list_item(const char *list, int i, size_t *length) {
    int depth = 0;
    const char *start = list;
    for (const char *s = list; *s; s++) {
        bool closes = *s == ')' || *s == ']' || *s == '>' || *s == '}';
        if ((closes || *s == ',') && depth == 0) {
            if (i-- == 0) {
                *length = (size_t)(s - start);
                return start;
            }
            if (closes) return NULL;
            start = s + 1 + strspn(s + 1, " \n");
        }
        depth += *s == '(' || *s == '[' || *s == '<' || *s == '{';
        depth -= closes;
    }
    return NULL;
}

void rt_add_generic(rt_text *t, const tg_kernel_info *info, int i) {
    const char *at = info->signature, *paren = at ? strchr(at, '(') : NULL;
    size_t n = 0;
    at = at ? strchr(at, '<') : NULL;
    at = at && paren && at < paren ? list_item(at + 1, i, &n) : NULL;
    n = at ? strcspn(at, ":,> ") : 0;
    if (n)
        rt_add(t, "%.*s", (int)n, at);
    else
        rt_add(t, "its type");
}

/// The list of dims of a parameter in the signature, or NULL.
static const char *dims_of(const tg_kernel_info *info, const char *name) {
    size_t n = strlen(name);
    const char *s = info->signature ? strchr(info->signature, '(') : NULL;
    for (; s && (s = strstr(s + 1, name)); s += n) {
        if (isalnum((unsigned char)s[-1]) || s[-1] == '_' || s[n] != ':') continue;
        size_t to = strcspn(s, "[,)");
        return s[to] == '[' ? s + to + 1 : NULL;
    }
    return NULL;
}

/// The name of an axis as in the source, "D", or else "axis 1 of 'x'".
static void add_axis_name(rt_text *t, const tg_kernel_info *info, int param, int axis, int groups) {
    const tg_param_info *p = &info->params[param];
    const char *dims = dims_of(info, p->name), *dim = NULL;
    size_t n = 0;
    bool in_pack = p->pack_at >= 0 && axis >= p->pack_at && axis < p->pack_at + groups;
    int item = p->pack_at < 0 || axis < p->pack_at ? axis : axis - groups + 1;
    if (dims && (!in_pack || groups == 1)) dim = list_item(dims, item, &n);
    if (dim && n)
        rt_add(t, "%.*s", (int)n, dim);
    else
        rt_add(t, "axis %d of '%s'", axis, p->name);
}

/* ---- assumptions of the code --------------------------------------------------------------- */

static int groups_of(const tg_variant *v, int param) {
    for (int i = 0; i < v->n_facts; i++)
        if (v->facts[i].kind == TG_FACT_PACK && v->facts[i].param == param)
            return (int)v->facts[i].value;
    return 1;
}

/// The subject of a fact: "causal", "D", "the stride of D".
static void add_topic(rt_text *t, const tg_kernel_info *info, const tg_variant *v,
                      const tg_fact *f) {
    switch (f->kind) {
    case TG_FACT_MAPPED: rt_add(t, "other ranks' memory mapped"); return;
    case TG_FACT_TYPE: rt_add_generic(t, info, f->param); return;
    case TG_FACT_NULL:
    case TG_FACT_VALUE: rt_add(t, "%s", info->params[f->param].name); return;
    case TG_FACT_PACK: rt_add(t, "axes of '%s'", info->params[f->param].name); return;
    case TG_FACT_ALIGN: rt_add(t, "alignment of '%s'", info->params[f->param].name); return;
    case TG_FACT_NEAR: rt_add(t, "bytes of '%s'", info->params[f->param].name); return;
    case TG_FACT_STRIDE:
    case TG_FACT_STRIDED:
        rt_add(t, "stride of ");
        add_axis_name(t, info, f->param, f->axis, groups_of(v, f->param));
        rt_add(t, " in '%s'", info->params[f->param].name);
        return;
    default: add_axis_name(t, info, f->param, f->axis, groups_of(v, f->param));
    }
}

/// The alignments in a set of bits: "16 bytes", "8 or 4 bytes", "other".
static void add_alignments(rt_text *t, int64_t value) {
    bool any = false;
    for (int unit = TG_LINE; unit >= TG_LEAST_LINE; unit /= 2) {
        if (!(value & (TG_LINE / unit))) continue;
        rt_add(t, "%s%d", any ? " or " : "", unit);
        any = true;
    }
    rt_add(t, any ? " bytes" : "other");
}

static void add_fact_value(rt_text *t, const tg_fact *f) {
    if (f->kind == TG_FACT_TYPE)
        rt_add_type(t, (int)(f->value >> 8), (int)(f->value & 255));
    else if (f->kind == TG_FACT_NULL)
        rt_add(t, f->value ? "none" : "a tensor");
    else if (f->kind == TG_FACT_STRIDED)
        rt_add(t, "other");
    else if (f->kind == TG_FACT_ALIGN)
        add_alignments(t, f->value);
    else if (f->kind == TG_FACT_NEAR)
        rt_add(t, f->value ? "below 2 GiB" : "2 GiB or more");
    else
        rt_add(t, "%" PRId64, f->value);
}

static bool same_topic(const tg_fact *a, const tg_fact *b) {
    return a->kind == b->kind && a->param == b->param && a->axis == b->axis;
}

/// Whether a fact with the same topic (and, if `value`, the same value) precedes (variant, fact).
static bool is_fact_seen(const tg_kernel_info *info, int variant, int fact, bool value) {
    const tg_fact *f = &info->variants[variant].facts[fact];
    for (int v = 0; v <= variant; v++) {
        int n = v == variant ? fact : info->variants[v].n_facts;
        for (int i = 0; i < n; i++) {
            const tg_fact *g = &info->variants[v].facts[i];
            if (same_topic(f, g) && (!value || f->value == g->value)) return true;
        }
    }
    return false;
}

/// "causal = 0 | 1": all values of one topic over all variants.
static void add_values(rt_text *t, const tg_kernel_info *info, const tg_fact *topic) {
    int n = 0;
    const char *first = topic->kind == TG_FACT_LEAST  ? " >= "
                        : topic->kind == TG_FACT_MOST ? " <= "
                                                      : " = ";
    for (int v = 0; v < info->n_variants; v++)
        for (int i = 0; i < info->variants[v].n_facts; i++) {
            const tg_fact *f = &info->variants[v].facts[i];
            if (!same_topic(f, topic) || is_fact_seen(info, v, i, true)) continue;
            rt_add(t, "%s", n++ ? " | " : first);
            add_fact_value(t, f);
        }
}

static void add_actuals(rt_text *t, const rt_launcher *l, const tg_kernel_info *info) {
    for (int i = 0; i < info->n_params; i++) {
        const rt_actual *a = &l->actuals[i];
        bool number = info->params[i].kind != TG_PARAM_TENSOR;
        rt_add(t, "%s%s ", i ? ", " : "", info->params[i].name);
        if (a->tensor)
            rt_add_tensor(t, a->tensor);
        else if (number && (a->code == kDLInt || a->code == kDLUInt || a->code == kDLBool))
            rt_add(t, "= %" PRId64, a->value);
        else
            rt_add(t, number ? "a number" : "none");
    }
}

static bool seen_target(const tg_kernel_info *info, int variant) {
    const tg_image *image = info->variants[variant].image;
    for (int v = 0; v < variant; v++) {
        const tg_image *other = info->variants[v].image;
        if (!image || !other ? image == other : strcmp(image->target, other->target) == 0)
            return true;
    }
    return false;
}

/// "cpu | sm_80", if the launch has GPU tensors or the kernel has GPU code.
static void add_targets(rt_text *t, const rt_launcher *l, const tg_kernel_info *info) {
    bool images = l->capability != 0;
    for (int v = 0; v < info->n_variants; v++) images |= info->variants[v].image != NULL;
    for (int v = 0; v < info->n_variants && images; v++) {
        const tg_image *image = info->variants[v].image;
        if (!seen_target(info, v))
            rt_add(t, "%s%s", t->n ? " | " : "target = ", image ? image->target : "cpu");
    }
}

tg_status rt_no_variant(const rt_launcher *l, const tg_kernel_info *info) {
    rt_text given = {.n = 0}, made = {.n = 0};
    add_actuals(&given, l, info);
    const rt_device *d = l->capability ? rt_device_at(l->device) : NULL;
    if (d) rt_add(&given, " on an %s GPU (%s)", rt_cuda_driver()->maker->name, d->arch);
    add_targets(&made, l, info);
    for (int v = 0; v < info->n_variants; v++)
        for (int i = 0; i < info->variants[v].n_facts; i++) {
            if (is_fact_seen(info, v, i, false)) continue;
            rt_add(&made, made.n ? ", " : "");
            add_topic(&made, info, &info->variants[v], &info->variants[v].facts[i]);
            add_values(&made, info, &info->variants[v].facts[i]);
        }
    return tg_fail(TG_ERROR_NOT_FOUND,
                   "%s: no code for %s; compiled for %s (tegula build "
                   "--export and --given compile for more)",
                   info->name, given.data, made.n ? made.data : "no arguments at all on this CPU");
}
