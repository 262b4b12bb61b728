// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Chooses the kernels that an object exports, their element types and their names.
#include <ctype.h>
#include <stdarg.h>
#include <string.h>

#include "driver/aot/aot.h"

bool aot_fail(Aot *a, const char *hint, const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    a->error = ctx_vformat(a->ctx, fmt, ap);
    va_end(ap);
    a->hint = hint;
    return false;
}

/* ---- names --------------------------------------------------------------------------------- */

static bool is_defined(const Aot *a, const char *symbol) {
    for (int i = 0; i < a->exports.n; i++)
        if (strcmp(a->exports.data[i]->symbol, symbol) == 0 ||
            strcmp(a->exports.data[i]->kernel_symbol, symbol) == 0 ||
            strcmp(ctx_format(a->ctx, "%s_dl", a->exports.data[i]->symbol), symbol) == 0)
            return true;
    return false;
}

/// Adds acme_softmax_f32. Each symbol may be defined only once.
static bool add_export(Aot *a, const FnDef *kernel, const Elem *types) {
    Text t = {.ctx = a->ctx};
    text_add(&t, "%s%s", a->prefix, kernel->name.text);
    for (int i = 0; i < kernel->generics.n; i++) text_add(&t, "_%s", elem_info[types[i]].name);
    AotExport *x = ctx_new(a->ctx, AotExport);
    *x = (AotExport){.kernel = kernel, .symbol = t.data};
    x->types = ctx_copy(a->ctx, types, sizeof *types * (size_t)(kernel->generics.n + 1));
    x->kernel_symbol = ctx_format(a->ctx, "%s_kernel", t.data);
    if (aot_reserved(a->ctx, x->symbol))
        return aot_fail(a, "put something before it: --prefix my_",
                        "'%s' is a name of C, its library or tegula.h: a function cannot have it",
                        x->symbol);
    if (is_defined(a, x->symbol) || is_defined(a, x->kernel_symbol) ||
        is_defined(a, ctx_format(a->ctx, "%s_dl", x->symbol)))
        return aot_fail(a, "export each kernel once with the same types, under names that differ",
                        "the symbol '%s' would be defined twice", x->symbol);
    vec_push(a->ctx, &a->exports, x);
    return true;
}

/* ---- types --------------------------------------------------------------------------------- */

enum { FEW_TYPES = 2, MAX_GENERICS = 8 };

/// Lists the default types of a parameter: all if the constraint lists few, or else the first.
static int default_types(Aot *a, const FnDef *f, int generic, Elem *out) {
    const Generic *g = &f->generics.at[generic];
    bool all = g->constraint.n <= FEW_TYPES;
    for (int i = 0; i < g->constraint.n; i++)
        all &= elem_by_name(g->constraint.at[i].text) != EL_COUNT;
    for (int i = 0; all && i < g->constraint.n; i++)
        out[i] = elem_by_name(g->constraint.at[i].text);
    if (all) return g->constraint.n;
    const Inst *inst = fe_default_inst(a->ctx, a->program, f);
    out[0] = EL_F32;
    for (int i = 0; i < f->params.n; i++) {
        const TypeExpr *t = f->params.at[i].type;
        if (t && t->elem.text == g->name.text) out[0] = inst->params[i].elem;
    }
    return 1;
}

/// Adds every combination of default types from type parameter `generic` on.
static bool add_defaults(Aot *a, const FnDef *f, int generic, Elem *types) {
    if (generic == f->generics.n) return add_export(a, f, types);
    Elem choices[FEW_TYPES];
    int n = default_types(a, f, generic, choices);
    for (int i = 0; i < n; i++) {
        types[generic] = choices[i];
        if (!add_defaults(a, f, generic + 1, types)) return false;
    }
    return true;
}

static bool add_kernel(Aot *a, const FnDef *f) {
    Elem types[MAX_GENERICS + 1] = {0};
    if (f->generics.n > MAX_GENERICS)
        return aot_fail(a, NULL, "kernel '%s' has more than %d type parameters", f->name.text,
                        MAX_GENERICS);
    int before = a->exports.n;
    if (!add_defaults(a, f, 0, types)) return false;
    if (!f->generics.n) return true;
    Text t = {.ctx = a->ctx};
    text_add(&t, "%s%s", a->note ? a->note : "exported:", a->note ? "," : "");
    for (int i = before; i < a->exports.n; i++)
        text_add(&t, "%s %s", i > before ? "," : "", a->exports.data[i]->symbol);
    a->note = t.data;
    return true;
}

/* ---- the list ------------------------------------------------------------------------------ */

typedef struct Cursor {
    Aot *a;
    const char *at;
} Cursor;

static void skip_export_blanks(Cursor *c) {
    while (isspace((unsigned char)*c->at)) c->at++;
}

static bool take_symbol(Cursor *c, char symbol) {
    skip_export_blanks(c);
    if (*c->at != symbol) return false;
    c->at++;
    return true;
}

static const char *take_export_name(Cursor *c) {
    skip_export_blanks(c);
    const char *start = c->at;
    while (isalnum((unsigned char)*c->at) || *c->at == '_') c->at++;
    return c->at > start ? ctx_intern(c->a->ctx, start, (size_t)(c->at - start)) : NULL;
}

static const FnDef *find_kernel_named(Aot *a, const char *name) {
    int n = fe_kernel_count(a->program);
    const char **names = ctx_array(a->ctx, const char *, n + 1);
    Text t = {.ctx = a->ctx};
    text_add(&t, "it holds");
    for (int i = 0; i < n; i++) {
        names[i] = fe_kernel(a->program, i)->name.text;
        if (strcmp(names[i], name) == 0) return fe_kernel(a->program, i);
        text_add(&t, "%s %s", i ? "," : "", names[i]);
    }
    const char *close = closest_name(name, names, n);
    aot_fail(a, close ? ctx_format(a->ctx, "did you mean '%s'?", close) : t.data,
             "--export: the file has no kernel '%s'", name);
    return NULL;
}

/// "they are T, U"
static const char *list_generics(Aot *a, const FnDef *f) {
    Text t = {.ctx = a->ctx};
    text_add(&t, f->generics.n ? "they are" : "write its name alone");
    for (int i = 0; i < f->generics.n; i++)
        text_add(&t, "%s %s", i ? "," : "", f->generics.at[i].name.text);
    return t.data;
}

static bool take_export_types(Cursor *c, const FnDef *f) {
    Elem types[MAX_GENERICS + 1] = {0};
    int n = 0;
    do {
        const char *name = take_export_name(c);
        Elem e = name ? elem_by_name(name) : EL_COUNT;
        if (e == EL_COUNT)
            return aot_fail(c->a, "write a kernel and its types: --export 'softmax<f32>'",
                            "--export: '%s' is not an element type", name ? name : c->at);
        if (n < MAX_GENERICS) types[n] = e;
        n++;
    } while (take_symbol(c, ','));
    if (!take_symbol(c, '>'))
        return aot_fail(c->a, "write a kernel and its types: --export 'softmax<f32>'",
                        "--export: a '>' is missing after the types of '%s'", f->name.text);
    if (n != f->generics.n)
        return aot_fail(c->a, list_generics(c->a, f),
                        "--export: kernel '%s' has %d type parameters, not %d", f->name.text,
                        f->generics.n, n);
    return add_export(c->a, f, types);
}

static bool take_export(Cursor *c) {
    const char *name = take_export_name(c);
    if (!name)
        return aot_fail(c->a, "write kernels with commas between: --export 'softmax<f32>,matmul'",
                        "--export: expected the name of a kernel before '%s'", c->at);
    const FnDef *f = find_kernel_named(c->a, name);
    if (!f) return false;
    return take_symbol(c, '<') ? take_export_types(c, f) : add_kernel(c->a, f);
}

bool aot_exports(Aot *a, const char *list) {
    int n = fe_kernel_count(a->program);
    if (n == 0) return aot_fail(a, NULL, "the file holds no kernel");
    for (int i = 0; !list && i < n; i++)
        if (!add_kernel(a, fe_kernel(a->program, i))) return false;
    if (!list) return true;
    Cursor c = {a, list};
    do {
        if (!take_export(&c)) return false;
    } while (take_symbol(&c, ','));
    skip_export_blanks(&c);
    return !*c.at ||
           aot_fail(a, "write kernels with commas between: --export 'softmax<f32>,matmul'",
                    "--export: '%s' is left over", c.at);
}
