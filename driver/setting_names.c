// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// See setting_names.h.
#include "driver/setting_names.h"

#include <string.h>

#include "driver/aot/aot.h"

bool names_have(const SettingNames *names, const char *name) {
    for (int i = 0; i < names->n; i++)
        if (strcmp(names->data[i], name) == 0) return true;
    return false;
}

static void add_name(Ctx *ctx, SettingNames *names, const char *name) {
    if (!names_have(names, name)) vec_push(ctx, names, name);
}

void add_tune_names(Ctx *ctx, const FnDef *f, SettingNames *out) {
    for (int i = 0; i < f->clauses.n; i++)
        for (int c = 0; f->clauses.at[i].kind == CL_TUNE && c < f->clauses.at[i].choices.n; c++)
            add_name(ctx, out, f->clauses.at[i].choices.at[c].name.text);
}

void add_given_names(Ctx *ctx, const Program *p, const FnDef *f, SettingNames *out) {
    Aot a = {.ctx = ctx, .program = p};
    AotNames dims = {0};
    aot_dims(&a, f, &dims);
    for (int i = 0; i < dims.n; i++) add_name(ctx, out, dims.data[i]);
    for (int i = 0; i < f->params.n; i++)
        if (f->params.at[i].constant) add_name(ctx, out, f->params.at[i].name.text);
}

const char *names_hint(Ctx *ctx, const SettingNames *names, bool axes, const char *name) {
    int n = names->n + (axes ? AXIS_COUNT : 0);
    const char **all = ctx_array(ctx, const char *, n + 1);
    Text list = {.ctx = ctx};
    for (int i = 0; i < n; i++) all[i] = i < names->n ? names->data[i] : axis_names[i - names->n];
    for (int i = 0; i < names->n; i++) text_add(&list, "%s%s", i ? ", " : "", names->data[i]);
    const char *close = closest_name(name, all, n);
    if (close) return ctx_format(ctx, "did you mean '%s'?", close);
    if (!list.n && axes) return "there are only axes of the schedule";
    return ctx_format(ctx, "there %s %s%s", names->n == 1 ? "is" : "are",
                      list.n ? list.data : "none", axes ? ", and the axes of the schedule" : "");
}

const char *given_hint(Ctx *ctx, const SettingNames *given, const SettingNames *tuned,
                       const char *name) {
    const char *kind = names_have(tuned, name)  ? "a tune value"
                       : is_schedule_axis(name) ? "an axis of the schedule"
                                                : NULL;
    if (kind) return ctx_format(ctx, "'%s' is %s: use --set %s=VALUE", name, kind, name);
    return names_hint(ctx, given, false, name);
}
