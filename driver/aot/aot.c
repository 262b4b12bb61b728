// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Builds an object file of kernels: the given values of names, the variants, the data.
#include "driver/aot/aot.h"

#include <inttypes.h>
#include <string.h>

#include "driver/setting_names.h"
#include "frontend/program.h"

/* ---- given --------------------------------------------------------------------------------- */

static bool no_value(void *user, const char *name, int64_t *out) {
    (void)user, (void)name, (void)out;
    return false;
}

static bool has_given_name(const AotValues *v, const char *name) {
    for (int i = 0; i < v->n; i++)
        if (strcmp(v->data[i].name, name) == 0) return true;
    return false;
}

/// Takes all values of --given for a name. False: it has none.
static bool take_given_option(Aot *a, AotExport *x, const char *name) {
    if (has_given_name(&x->given, name)) return true;
    for (int i = 0; i < a->given.n; i++)
        if (strcmp(a->given.data[i].name, name) == 0) vec_push(a->ctx, &x->given, a->given.data[i]);
    return has_given_name(&x->given, name);
}

/// Takes a clause `given D = 64 | 128`, unless --given overrides it.
static void take_choice(Aot *a, AotExport *x, const Choice *choice) {
    if (take_given_option(a, x, choice->name.text)) return;
    for (int i = 0; i < choice->alternatives.n; i++) {
        NamedValue v = {choice->name.text, 0};
        if (aot_eval(a->program, choice->alternatives.at[i], no_value, NULL, &v.value))
            vec_push(a->ctx, &x->given, v);
    }
}

/// A condition `N <= 8192` or `N < 8192` of `require` bounds the extents for cover(N).
static void take_condition(Aot *a, AotExport *x, const Expr *e) {
    int64_t most;
    for (; e->kind == EX_BINARY && e->binary.op == BI_AND; e = e->binary.a)
        take_condition(a, x, e->binary.b);
    bool bound = e->kind == EX_BINARY && (e->binary.op == BI_LE || e->binary.op == BI_LT) &&
                 e->binary.a->kind == EX_NAME;
    if (!bound || !aot_eval(a->program, e->binary.b, no_value, NULL, &most)) return;
    NamedValue v = {e->binary.a->name, e->binary.op == BI_LT ? most - 1 : most};
    if (v.value > 0 && !has_given_name(&a->most, v.name)) vec_push(a->ctx, &x->most, v);
}

/// Takes the values of a constant parameter. A bool has only two, so it needs no list. False: the
/// values are not known.
static bool take_constant(Aot *a, AotExport *x, const Param *p) {
    const char *name = p->name.text;
    if (take_given_option(a, x, name)) return true;
    if (!p->type || strcmp(p->type->elem.text, "bool") != 0) return false;
    for (int i = 0; i < 2; i++) {
        NamedValue v = {name, i};
        vec_push(a->ctx, &x->given, v);
    }
    return true;
}

static bool take_constants(Aot *a, AotExport *x) {
    const Params *params = &x->kernel->params;
    Text names = {.ctx = a->ctx}, options = {.ctx = a->ctx};
    for (int i = 0; i < params->n; i++) {
        const char *name = params->at[i].name.text;
        if (!params->at[i].constant || take_constant(a, x, &params->at[i])) continue;
        text_add(&names, "%s'%s'", names.n ? ", " : "", name);
        text_add(&options, " --given '%s=1|2'", name);
    }
    if (!names.n) return true;
    const char *hint = ctx_format(a->ctx, "say which:%s, or `given` in the kernel", options.data);
    return aot_fail(a, hint, "kernel '%s' needs the values of its constant parameters: %s",
                    x->kernel->name.text, names.data);
}

bool aot_given(Aot *a, AotExport *x) {
    const FnDef *f = x->kernel;
    AotNames dims = {0};
    aot_dims(a, f, &dims);
    for (int i = 0; i < f->clauses.n; i++) {
        const Clause *c = &f->clauses.at[i];
        for (int k = 0; c->kind == CL_GIVEN && k < c->choices.n; k++)
            take_choice(a, x, &c->choices.at[k]);
        for (int k = 0; c->kind == CL_REQUIRE && k < c->conditions.n; k++)
            take_condition(a, x, c->conditions.at[k]);
    }
    for (int i = 0; i < dims.n; i++) take_given_option(a, x, dims.data[i]);
    return take_constants(a, x);
}

/// Checks that --given or --set names a part of an exported kernel.
static bool names_exist(Aot *a, const AotValues *values, const char *option, bool set) {
    SettingNames given = {0}, tuned = {0}, *names = set ? &tuned : &given;
    for (int k = 0; k < a->exports.n; k++) {
        add_tune_names(a->ctx, a->exports.data[k]->kernel, &tuned);
        add_given_names(a->ctx, a->program, a->exports.data[k]->kernel, &given);
    }
    for (int i = 0; i < values->n; i++) {
        const char *name = values->data[i].name;
        if (names_have(names, name) || (set && is_schedule_axis(name))) continue;
        const char *hint =
            set ? names_hint(a->ctx, &tuned, true, name) : given_hint(a->ctx, &given, &tuned, name);
        return aot_fail(a, hint, "--%s %s: no exported kernel has a %s of this name", option, name,
                        set ? "tune value" : "dim or constant parameter");
    }
    return true;
}

bool aot_names_exist(Aot *a) {
    return names_exist(a, &a->given, "given", false) && names_exist(a, &a->most, "given", false) &&
           names_exist(a, &a->set, "set", true);
}

/* ---- the object ---------------------------------------------------------------------------- */

static bool build_export(Aot *a, Object *object, AotExport *x) {
    x->info = kernel_info(a->ctx, a->program, x->kernel);
    aot_function(a, x);
    if (!aot_variants(a, object, x)) return false;
    x->info->variants = x->variants.data;
    x->info->n_variants = x->variants.n;
    ObjectExport out = {.symbol = x->symbol,
                        .kernel_symbol = x->kernel_symbol,
                        .info = x->info,
                        .entries = x->entries.data,
                        .images = x->images.data,
                        .function = x->function};
    object_export(object, &out);
    return true;
}

/// Adds a note if the driver must compile PTX because no tool made machine code.
static void note_ptx(Aot *a) {
    for (int i = 0; i < a->exports.n; i++) {
        const AotExport *x = a->exports.data[i];
        for (int k = 0; k < x->functions.n; k++) {
            const AotEntry *f = &x->functions.data[k];
            if (!f->ptx) continue;
            a->note = ctx_format(a->ctx,
                                 "%s%sno machine code was made for %s, since neither nvJitLink nor "
                                 "ptxas of the CUDA toolkit is here that can: the object has PTX, "
                                 "which the driver compiles when it loads it",
                                 a->note ? a->note : "", a->note ? "; " : "", f->level->name);
            return;
        }
    }
}

Code *aot_build(Aot *a, int texts) {
    Object *object = object_create(a->ctx, a->arch, a->name);
    for (int i = 0; i < a->exports.n; i++)
        if (!build_export(a, object, a->exports.data[i])) return NULL;
    note_ptx(a);
    Code *code = object_finish(object, texts);
    for (int i = 0; i < a->exports.n; i++) {
        AotExport *x = a->exports.data[i];
        for (int k = 0; k < x->functions.n; k++)
            x->functions.data[k].bytes = code_bytes(code, x->functions.data[k].name);
    }
    return code;
}
