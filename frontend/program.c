// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Loading a program: imports, the prelude, and the table of definitions.
#include "frontend/program.h"

#include "frontend/builtins/builtins.h"
#include "lang/diag.h"
#include "stdlib/embedded.h"

#include <errno.h>
#include <string.h>

static const char prelude_path[] = "std/prelude.teg";

/* ---- files --------------------------------------------------------------------------------- */

static const struct tg_embedded *library_files(const Importer *importer) {
    return importer && importer->library ? importer->library : tg_embedded_files;
}

uint16_t library_source(Ctx *ctx, const Importer *importer, const char *path) {
    for (const struct tg_embedded *f = library_files(importer); f->path; f++) {
        if (strcmp(f->path, path) != 0) continue;
        for (uint16_t i = 1; i <= ctx_source_count(ctx); i++)
            if (strcmp(ctx_source_path(ctx, i), path) == 0) return i;
        return ctx_add_source(ctx, f->path, f->text, f->len);
    }
    return 0;
}

static bool is_loaded(const Program *p, uint16_t file) {
    const char *path = ctx_source_path(p->ctx, file);
    for (int i = 0; i < p->files.n; i++)
        if (p->files.data[i].module->file == file || strcmp(p->files.data[i].path, path) == 0)
            return true;
    return false;
}

/* ---- definitions --------------------------------------------------------------------------- */

/// Imports have no name.
static Name item_name(const Item *item) {
    return item->kind == IT_FN ? item->fn->name : item->constant.name;
}

static void define_item(Program *p, PtrMap *table, const Item *item) {
    Name name = item_name(item);
    const Item *other = map_get(table, name.text);
    if (p->names) names_define_item(p->ctx, p->names, item);
    if (other) {
        diag(p->ctx, name.loc, D_DEFINED_TWICE, name.text);
        diag_note(p->ctx, item_name(other).loc, "the other definition is here");
        return;
    }
    map_set(p->ctx, table, name.text, (void *)item);
}

static void load_imported_module(Program *p, uint16_t file, bool prelude);

enum { MAX_LIBRARY = 64 };

/// Adds a hint with the closest library file, after the message that a library file does not exist.
static void hint_library(const Program *p, const char *path, Loc loc) {
    Ctx *ctx = p->ctx;
    const char *names[MAX_LIBRARY] = {NULL};
    int n = 0;
    if (strncmp(path, "std/", 4) != 0) return;
    Text all = {.ctx = ctx};
    for (const struct tg_embedded *f = library_files(p->importer); f->path && n < MAX_LIBRARY;
         f++) {
        text_add(&all, "%s%s", n ? ", " : "", f->path);
        names[n++] = f->path + 4;
    }
    const char *close = closest_name(path + 4, names, n), *whole = ctx_format(ctx, "%s.teg", path);
    for (int i = 0; i < n; i++)
        if (strcmp(whole + 4, names[i]) == 0) close = names[i];
    if (close)
        diag_fix(ctx, loc, ctx_format(ctx, "\"std/%s\"", close), "did you mean \"std/%s\"?", close);
    else
        diag_hint(ctx, "the library has %s", all.data);
}

static void report_import(Program *p, const Item *item, int error) {
    const char *path = item->import.path;
    const char *reason = error == EINVAL ? "it is not a regular file" : strerror(error);
    if (error == ENOENT) {
        diag(p->ctx, item->import.loc, D_NO_IMPORT, path);
        hint_library(p, path, item->import.loc);
    } else {
        diag(p->ctx, item->import.loc, D_IMPORT_UNREADABLE, path, reason);
    }
}

/// Loads one import. Library paths take precedence: a file next to the user's cannot replace std/.
static void load_import(Program *p, const Module *from, const Item *item) {
    const char *path = item->import.path;
    uint16_t file = library_source(p->ctx, p->importer, path);
    errno = ENOENT;
    if (!file && p->importer && p->importer->find)
        file =
            p->importer->find(p->importer->user, p->ctx, path, ctx_source_path(p->ctx, from->file));
    if (!file) {
        report_import(p, item, errno);
    } else if (!is_loaded(p, file)) {
        load_imported_module(p, file, false);
    }
}

typedef struct ModuleLoad {
    Program *p;
    const Module *m;
    PtrMap *table;
} ModuleLoad;

static void define_items(Ctx *ctx, void *arg) {
    const ModuleLoad *load = arg;
    (void)ctx;
    for (int i = 0; i < load->m->items.n; i++) {
        const Item *item = &load->m->items.at[i];
        if (item->kind == IT_IMPORT)
            load_import(load->p, load->m, item);
        else
            define_item(load->p, load->table, item);
    }
}

/// Runs body without messages and without an end to the analysis: names of a broken file are of use
/// for editors, but messages about them would mislead.
static void do_quietly(Ctx *ctx, void (*body)(Ctx *ctx, void *arg), void *arg) {
    DiagState before = diag_set_aside(ctx);
    CtxStatus status = ctx_protect(ctx, body, arg);
    diag_restore(ctx, before);
    ctx_pass_on(ctx, status);
}

/// Parses a file after all of its imports. Each file is loaded once, so imports may form cycles.
static void load_imported_module(Program *p, uint16_t file, bool prelude) {
    int before = diag_errors(p->ctx);
    Module *m = fe_parse(p->ctx, file);
    bool reads = diag_errors(p->ctx) == before; // a broken file would cause misleading messages
    const char *path = ctx_source_path(p->ctx, file);
    LoadedFile loaded = {
        m, path, strncmp(path, "std/", 4) == 0 && library_source(p->ctx, p->importer, path)};
    vec_push(p->ctx, &p->files, loaded);
    ModuleLoad load = {p, m, prelude ? &p->library : &p->own};
    if (reads)
        define_items(p->ctx, &load);
    else if (p->names)
        do_quietly(p->ctx, define_items, &load);
}

typedef struct NameCheck {
    const Program *p;
    int from;
} NameCheck;

/// Checks the names of the files from number `from` on.
static void check_names(Ctx *ctx, void *arg) {
    NameCheck *check = arg;
    int before = diag_errors(ctx);
    while (check->from < check->p->files.n && diag_errors(ctx) == before)
        program_check_names(check->p, check->p->files.data[check->from++].module);
}

/// Names are checked only if the syntax is right: the remains of a broken file would cause
/// misleading messages.
Program *fe_load_names(Ctx *ctx, uint16_t file, const Importer *importer, NameTable *names) {
    Program *p = ctx_new(ctx, Program);
    int before = diag_errors(ctx);
    p->ctx = ctx;
    p->importer = importer;
    p->names = names;
    if (names) names->types_of = file;
    p->constants = ctx_new(ctx, PtrMap);
    uint16_t prelude = library_source(ctx, importer, prelude_path);
    if (prelude && prelude != file) load_imported_module(p, prelude, true);
    NameCheck check = {p, p->files.n};
    load_imported_module(p, file, false);
    p->main = p->files.data[check.from].module;
    for (int i = 0; i < p->main->items.n; i++)
        if (p->main->items.at[i].kind == IT_FN && p->main->items.at[i].fn->is_kernel)
            vec_push(ctx, &p->kernels, p->main->items.at[i].fn);
    if (diag_errors(ctx) == before) check_names(ctx, &check);
    p->broken = diag_errors(ctx) > before;
    while (names && check.from < p->files.n) do_quietly(ctx, check_names, &check);
    if (names) names_link(names);
    return p;
}

Program *fe_load(Ctx *ctx, uint16_t file, const Importer *importer) {
    return fe_load_names(ctx, file, importer, NULL);
}

/* ---- questions ----------------------------------------------------------------------------- */

int fe_kernel_count(const Program *p) {
    return p->kernels.n;
}

const FnDef *fe_kernel(const Program *p, int i) {
    return p->kernels.data[i];
}

const FnDef *fe_find_kernel(const Program *p, const char *name) {
    if (!name) return p->kernels.n == 1 ? p->kernels.data[0] : NULL;
    for (int i = 0; i < p->kernels.n; i++)
        if (strcmp(p->kernels.data[i]->name.text, name) == 0) return p->kernels.data[i];
    return NULL;
}

/// Whether the file belongs to the library. Messages show the user's call instead of library code;
/// see el_loc.
bool program_is_library(const Program *p, uint16_t file) {
    for (int i = 0; i < p->files.n; i++)
        if (p->files.data[i].module->file == file) return p->files.data[i].library;
    return false;
}

const Item *program_find(const Program *p, const char *name, uint16_t from) {
    bool library = program_is_library(p, from);
    const Item *item = map_get(library ? &p->library : &p->own, name);
    if (item) return item;
    item = map_get(library ? &p->own : &p->library, name);
    return library && item && !program_is_library(p, item->loc.file) ? NULL : item;
}

/// Appends the names of a table to a list.
static int add_table_names(const PtrMap *table, const char **names, int n) {
    for (int i = 0; i < table->cap; i++)
        if (table->slots[i].key) names[n++] = table->slots[i].key;
    return n;
}

const char *program_closest(const Program *p, const char *name) {
    const char *const *builtins;
    int n = builtin_names(p->ctx, &builtins);
    const char **all = ctx_array(p->ctx, const char *, n + p->own.n + p->library.n);
    memcpy(all, builtins, sizeof *all * (size_t)n);
    n = add_table_names(&p->own, all, n);
    n = add_table_names(&p->library, all, n);
    return closest_name(name, all, n);
}
