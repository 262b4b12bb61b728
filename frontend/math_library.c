// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The library of elementary functions: fns of std/math.teg and its imports, as funcs of scalars.
// Rows FUNCTION and FUNCTIONS of lang/elementwise.def name the functions; all other fns are their
// helpers.
#include "frontend/elab/elab.h"

#include "ir/library.h"
#include "stdlib/embedded.h"

#include <string.h>

/// The functions to find in the library, by op and element.
typedef struct WantedFunctions {
    bool at[OP_COUNT][EL_COUNT];
} WantedFunctions;

/// Marks the function of an op as wanted. An op on elements narrower than f32 may be computed in
/// f32, so that function is wanted too.
static void want_function(Op *op, void *arg) {
    WantedFunctions *w = arg;
    if (!op_has(op, ELEMENTWISE) || op->n_operands == 0) return;
    Elem elem = operand(op, 0)->type->elem;
    w->at[op->code][elem] = true;
    if (elem != EL_F64) w->at[op->code][EL_F32] = true;
}

/// Whether a row of the library names the fn and its op is wanted. With w NULL, every row is
/// wanted.
static bool is_wanted_function(const WantedFunctions *w, const FnDef *f) {
    for (int i = 0; i < N_LIBRARY_FNS; i++) {
        const LibraryFn *row = &library_fns[i];
        if ((!w || w->at[row->op][row->elem]) && strcmp(row->name, f->name.text) == 0) return true;
    }
    return false;
}

static Op *library_func(Elab *e, const FnDef *f) {
    Op *op = build_op(&e->b, OP_FUNC, 0, NULL, 0, NULL, 1);
    op_set_str(e->ir, op, A_NAME, f->name.text);
    Val *args = ctx_array(e->ctx, Val, f->params.n);
    Builder old = el_enter(e, op->regions[0]);
    for (int i = 0; i < f->params.n; i++) {
        const Type *t = ty_scalar(e->ir, elem_by_name(f->params.at[i].type->elem.text));
        args[i] = val_ir(region_add_arg(e->ir, op->regions[0], t, f->params.at[i].name.text));
    }
    Value *v = el_typed(e, f->loc, el_inline(e, f->loc, f, f->params.n, args), EL_COUNT);
    if (v) build_yield(&e->b, 1, &v);
    el_leave(e, old);
    return op;
}

/// Adds the wanted functions that are still missing, and marks the functions that they use as
/// wanted. Returns false if it added none.
static bool add_functions(Elab *e, WantedFunctions *w) {
    bool added = false;
    for (int k = 0; k < e->program->files.n; k++) {
        const Items *items = &e->program->files.data[k].module->items;
        for (int i = 0; i < items->n; i++) {
            const FnDef *f = items->at[i].kind == IT_FN ? items->at[i].fn : NULL;
            if (!f || !is_wanted_function(w, f) || find_func(e->module, f->name.text)) continue;
            Op *op = library_func(e, f);
            if (w) op_walk_pre(op, want_function, w);
            added = true;
        }
    }
    return added && diag_errors(e->ctx) == 0;
}

Op *fe_math_library(Ir *ir, Op *uses) {
    Ctx *ctx = ir_ctx(ir);
    const struct tg_embedded *f = tg_embedded_files;
    while (f->path && strcmp(f->path, "std/math.teg") != 0) f++;
    if (!f->path) return NULL;
    WantedFunctions *w = uses ? ctx_new(ctx, WantedFunctions) : NULL;
    if (uses) op_walk_pre(uses, want_function, w);
    uint16_t file = ctx_add_source(ctx, f->path, f->text, f->len);
    Elab e = elab_create(ir, fe_load(ctx, file, NULL));
    while (add_functions(&e, w))
        ;
    return e.module;
}

/* ---- the check of the build ---------------------------------------------------------------- */

/// Reports names with two definitions: fns of the library may call each other across files, so a
/// name must be unique in all of them.
static void check_names(Program *p) {
    for (int i = 0; i < p->own.cap; i++) {
        const Item *item = p->own.slots[i].value;
        const Item *other = item ? map_get(&p->library, p->own.slots[i].key) : NULL;
        if (!other) continue;
        diag(p->ctx, item->loc, D_DEFINED_TWICE, (const char *)p->own.slots[i].key);
        diag_note(p->ctx, other->loc, "the other definition is here");
    }
}

/// Registers the functions' rows of lang/elementwise.def as a source. The compiler has the rows and
/// their lines, but not the text of the file.
static uint16_t rows_source(Ctx *ctx) {
    Text text = {.ctx = ctx};
    int line = 1;
    for (int i = 0; i < N_LIBRARY_FNS; i++) {
        if (i && library_fns[i].line == library_fns[i - 1].line) continue;
        for (; line < library_fns[i].line; line++) text_add(&text, "\n");
        text_add(&text, "%s", library_fns[i].row);
    }
    return ctx_add_source(ctx, "lang/elementwise.def", text.data, text.n);
}

/// Returns "fn (f64, f64): f64"; an omitted type is "?".
static const char *signature_text(Ctx *ctx, const FnDef *f) {
    Text text = {.ctx = ctx};
    text_add(&text, "%s (", f->is_kernel ? "kernel" : f->generics.n ? "fn [...]" : "fn");
    for (int i = 0; i <= f->params.n; i++) {
        const TypeExpr *t = i < f->params.n ? f->params.at[i].type : f->result;
        const char *type = !t ? "?" : t->kind == TY_SCALAR ? t->elem.text : "no scalar";
        const char *before = i == f->params.n ? "): " : i ? ", " : "";
        text_add(&text, "%s%s", before, type);
    }
    return text.data;
}

static const char *wanted_signature(Ctx *ctx, const LibraryFn *row) {
    Text text = {.ctx = ctx};
    const char *elem = elem_info[row->elem].name;
    text_add(&text, "fn (%s", elem);
    for (int i = 1; i < op_info[row->op].n_operands; i++) text_add(&text, ", %s", elem);
    bool compares = op_info[row->op].traits & COMPARES;
    text_add(&text, "): %s", compares ? elem_info[EL_BOOL].name : elem);
    return text.data;
}

/// Returns the fn of a row if it agrees with the row, else reports it.
static const FnDef *checked_fn(Elab *e, const LibraryFn *row, Loc loc) {
    const char *op = op_info[row->op].name, *elem = elem_info[row->elem].name;
    const Item *item = program_find(e->program, ctx_name(e->ctx, row->name), loc.file);
    if (!item || item->kind != IT_FN) {
        diag(e->ctx, loc, D_UNKNOWN_NAME, row->name);
        diag_hint(e->ctx, "a fn of the library must compute the op '%s' of %s", op, elem);
        return NULL;
    }
    const char *found = signature_text(e->ctx, item->fn), *wanted = wanted_signature(e->ctx, row);
    if (strcmp(found, wanted) == 0) return item->fn;
    diag(e->ctx, item->fn->name.loc, D_TYPE_MISMATCH, row->name, wanted, found);
    diag_note(e->ctx, loc, "it computes the op '%s' of %s", op, elem);
    return NULL;
}

static void check_rows(Elab *e) {
    uint16_t file = rows_source(e->ctx);
    for (int i = 0; i < N_LIBRARY_FNS; i++) {
        const LibraryFn *row = &library_fns[i];
        Loc loc = {(uint32_t)row->line, file, 1, (uint16_t)strlen(row->row)};
        const FnDef *f = checked_fn(e, row, loc);
        if (f) library_func(e, f);
    }
}

bool fe_check_library(Ctx *ctx, const Importer *library) {
    int before = diag_errors(ctx);
    Text all = {.ctx = ctx};
    for (const struct tg_embedded *f = library->library; f->path; f++)
        text_add(&all, "import \"%s\";\n", f->path);
    uint16_t file = ctx_add_source(ctx, "<library>", all.data, all.n);
    Program *p = fe_load(ctx, file, library);
    check_names(p);
    if (diag_errors(ctx) > before) return false;
    Elab e = elab_create(ir_create(ctx), p);
    check_rows(&e);
    return diag_errors(ctx) == before;
}
