// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// See wide.h.
#include "tests/runtime/wide.h"

#include <stdio.h>
#include <string.h>

_Thread_local const Wide *wide_launched;
_Thread_local WideSeen wide_seen;

WideKind wide_kind(int n, int i) {
    return i < 2 ? WIDE_NUMBER : (WideKind)((n - 1 - i) % (WIDE_OPTIONAL + 1));
}

static int32_t saw(const tg_slot *args, int variant) {
    const tg_variant *v = &wide_launched->variants[variant];
    seen.variant = variant;
    memset(&wide_seen, 0, sizeof wide_seen);
    for (int s = 0; s < v->n_params; s++) {
        int i = v->params[s];
        wide_seen.bits[i] = args[s].bits;
        if (wide_launched->params[i].kind == TG_PARAM_TENSOR)
            wide_seen.extent[i] = args[s].tensor.shape[0];
    }
    return 0;
}

static int32_t with_all(const tg_slot *args, const tg_env *env) {
    (void)env;
    return saw(args, 0);
}

static int32_t with_none(const tg_slot *args, const tg_env *env) {
    (void)env;
    return saw(args, 1);
}

static void describe(Wide *w, int n, int i) {
    WideKind kind = wide_kind(n, i);
    tg_param_info *p = &w->params[i];
    snprintf(w->names[i], sizeof w->names[i], "p%d", i);
    *p = (tg_param_info){.name = w->names[i], .type = -1, .pack_at = -1, .pack = -1};
    p->kind = kind == WIDE_NUMBER ? TG_PARAM_SCALAR : TG_PARAM_TENSOR;
    p->code = kind == WIDE_NUMBER ? kDLInt : kDLFloat;
    p->bits = kind == WIDE_NUMBER ? 64 : 32;
    p->flags = kind == WIDE_OUT ? TG_PARAM_WRITTEN : kind == WIDE_OPTIONAL ? TG_PARAM_OPTIONAL : 0;
    p->rank = kind != WIDE_NUMBER && kind != WIDE_PACK;
    if (kind == WIDE_PACK) p->pack_at = 0, p->pack = i / 2 % 2;
}

static void list(Wide *w, int variant, int i, bool optional) {
    tg_variant *v = &w->variants[variant];
    if (!optional || variant == 0) w->listed[variant][v->n_params++] = (uint8_t)i;
    if (optional)
        w->facts[variant][v->n_facts++] =
            (tg_fact){.kind = TG_FACT_NULL, .param = (uint8_t)i, .value = variant};
}

void wide_make(Wide *w, int n) {
    memset(w, 0, sizeof *w);
    int pairs = 0;
    for (int i = 0; i < n; i++) {
        describe(w, n, i);
        for (int v = 0; v < 2; v++) list(w, v, i, wide_kind(n, i) == WIDE_OPTIONAL);
        if (wide_kind(n, i) != WIDE_IN) continue;
        w->inplace[2 * pairs] = (uint8_t)i;
        w->inplace[2 * pairs++ + 1] = (uint8_t)(n - 1);
    }
    for (int v = 0; v < 2; v++) {
        w->variants[v].entry = v ? with_none : with_all;
        w->variants[v].params = w->listed[v];
        w->variants[v].facts = w->facts[v];
        w->variants[v].inplace = w->inplace;
        w->variants[v].n_inplace = (int16_t)pairs;
    }
    w->info = (tg_kernel_info){.name = "wide", .params = w->params, .variants = w->variants};
    w->info.n_params = n;
    w->info.n_variants = 2;
    w->kernel = (tg_kernel){.abi = TG_ABI, .info = &w->info};
}
