// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The part of the C API that needs the compiler: modules from sources.
#include "driver/module.h"

#include "driver/setting_names.h"
#include "driver/tune/tuned_file.h"
#include "frontend/program.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* ---- memory -------------------------------------------------------------------------------- */

// The release hook needs the size of a block, so the size is stored in front of it.
enum { HEADER = 64 };

static void release_block(void *old) {
    size_t *block = (size_t *)((char *)old - HEADER);
    tg_release(block, *block);
}

static void *allocate_block(void *user, void *old, size_t size) {
    (void)user;
    if (size == 0) {
        if (old) release_block(old);
        return NULL;
    }
    if (size > SIZE_MAX - HEADER) return NULL;
    size_t *block = tg_allocate(size + HEADER);
    if (!block) return NULL;
    *block = size + HEADER;
    void *data = (char *)block + HEADER;
    if (!old) return data;
    size_t kept = *(size_t *)((char *)old - HEADER) - HEADER;
    memcpy(data, old, kept < size ? kept : size);
    release_block(old);
    return data;
}

const Allocator module_allocator = {allocate_block, NULL};

/* ---- warnings ------------------------------------------------------------------------------ */

static uint64_t hash_text(const char *s) {
    uint64_t h = 0xcbf29ce484222325u; // FNV-1a
    for (; *s; s++) h = (h ^ (unsigned char)*s) * 0x100000001b3u;
    return h;
}

/// If MAX_WARNINGS texts are remembered, later ones are logged each time.
static bool was_warned(tg_module *m, const char *text) {
    uint64_t h = hash_text(text);
    for (int i = 0; i < m->n_warned; i++)
        if (m->warned[i] == h) return true;
    if (m->n_warned < MAX_WARNINGS) m->warned[m->n_warned++] = h;
    return false;
}

void module_warn(tg_module *m, const char *text) {
    char line[512];
    if (was_warned(m, text)) return;
    for (const char *end; *text; text = *end ? end + 1 : end) {
        end = text + strcspn(text, "\n");
        snprintf(line, sizeof line, "%.*s", (int)(end - text), text);
        if (line[0]) tg_log(line);
    }
}

/* ---- options ------------------------------------------------------------------------------- */

/// Splits `text` at any of `separators` into copies. Returns their number.
static int split_text(Ctx *ctx, const char *text, const char *separators, const char ***out) {
    int n = 0;
    *out = ctx_array(ctx, const char *, text ? strlen(text) + 1 : 1);
    while (text && *(text += strspn(text, separators))) {
        size_t length = strcspn(text, separators);
        (*out)[n++] = ctx_intern(ctx, text, length);
        text += length;
    }
    return n;
}

/// Reads the option or TG_TUNE. Returns the text if it is not a mode for launches.
static const char *read_tune_mode(tg_module *m, const char *text) {
    m->tune = TUNE_BACKGROUND;
    if (!text || !*text) text = secure_getenv("TG_TUNE");
    bool known = !text || !*text || tune_mode_of(text, &m->tune);
    return known && m->tune != TUNE_SAMPLE ? NULL : text;
}

/* ---- loading ------------------------------------------------------------------------------- */

/// The state of loading a module.
typedef struct ModuleLoad {
    tg_module *module;
    tg_module_options options;
    const char *path, *text; // text NULL: path is a file
    size_t length;
    const char *bad_setting, *bad_mode;
    const char *no_setting, *hint; // a setting that no kernel has, and the names that exist
    int error;                     // errno of a file that cannot be read
} ModuleLoad;

/// Describes the kernels. Launches check their arguments against this; it comes from the source
/// alone.
static void make_kernels(tg_module *m, const Program *p) {
    int n = fe_kernel_count(p);
    m->kernels = ctx_array(m->ctx, ModuleKernel, n + 1);
    for (int i = 0; i < n; i++)
        m->kernels[i] = (ModuleKernel){.module = m,
                                       .info = kernel_info(m->ctx, p, fe_kernel(p, i)),
                                       .source = fe_kernel(p, i)};
    m->n_kernels = n;
    m->program = p;
}

/// A setting is for the kernels that have its name; some kernel must.
static void check_setting_names(ModuleLoad *l, const Program *p) {
    const tg_module *m = l->module;
    SettingNames names = {0};
    for (int i = 0; i < fe_kernel_count(p); i++) add_tune_names(m->ctx, fe_kernel(p, i), &names);
    for (int i = 0; i < m->n_set && !l->no_setting; i++) {
        if (names_have(&names, m->set[i].name) || is_schedule_axis(m->set[i].name)) continue;
        l->no_setting = m->set[i].name;
        l->hint = names_hint(m->ctx, &names, true, l->no_setting);
    }
}

static const char *copy_option_text(Ctx *ctx, const char *text) {
    return text && *text ? ctx_format(ctx, "%s", text) : NULL;
}

/// The program keeps the importer, but calls it only during fe_load.
static void load_module_source(Ctx *ctx, void *arg) {
    ModuleLoad *l = arg;
    tg_module *m = l->module = ctx_new(ctx, tg_module);
    m->ctx = ctx;
    m->check = l->options.check != 0;
    m->debug = l->options.debug != 0;
    m->target = copy_option_text(ctx, l->options.target);
    m->codegen = copy_option_text(ctx, l->options.codegen);
    l->bad_mode = read_tune_mode(m, l->options.tune);
    m->tune_budget = l->options.tune_budget_ms / 1e3;
    m->n_paths = split_text(ctx, l->options.paths, ":", &m->paths);
    const char *settings = l->options.settings ? l->options.settings : "";
    l->bad_setting = values_read(ctx, settings, &m->n_set, &m->set);
    if (l->bad_setting || l->bad_mode) return;
    Sources sources = {.n_paths = m->n_paths, .paths = m->paths};
    // "-" is standard input only for tools; here it is an ordinary file.
    const char *path = !l->text && strcmp(l->path, "-") == 0 ? "./-" : l->path;
    uint16_t file =
        l->text ? ctx_add_source(ctx, path, l->text, l->length) : source_find(ctx, &sources, path);
    l->error = file ? 0 : errno;
    if (!file) return;
    m->path = ctx_source_path(ctx, file);
    Program *p = fe_load(ctx, file, source_importer(ctx, &sources));
    if (diag_errors(ctx) || !program_check(ctx, p, true)) return;
    check_setting_names(l, p);
    m->n_texts = program_texts(ctx, p, &m->texts);
    make_kernels(m, p);
}

typedef struct Warnings {
    int n;
    const char **texts;
} Warnings;

static void list_module_warnings(Ctx *ctx, void *arg) {
    Warnings *w = arg;
    w->n = messages_warnings(ctx, &w->texts);
}

/// Turns a failure of loading into a status, or returns TG_OK.
static tg_status load_status(Ctx *ctx, CtxStatus status, const ModuleLoad *l) {
    if (status == CTX_NO_MEMORY) return tg_fail(TG_ERROR_MEMORY, "%s: out of memory", l->path);
    if (l->bad_mode)
        return tg_fail(TG_ERROR_ARGUMENT,
                       "tuning: '%s' is none of off, strict, block, background, exhaustive",
                       l->bad_mode);
    if (l->bad_setting)
        return tg_fail(TG_ERROR_ARGUMENT, "settings: '%s' is not of the form NAME=VALUE",
                       l->bad_setting);
    if (l->no_setting)
        return tg_fail(TG_ERROR_ARGUMENT, "settings: no kernel of %s has a tune value '%s'; %s",
                       l->path, l->no_setting, l->hint);
    if (l->error)
        return tg_fail(l->error == ENOMEM ? TG_ERROR_MEMORY : TG_ERROR_NOT_FOUND,
                       "cannot read %s: %s", l->path, strerror(l->error));
    tg_status result = messages_status(ctx, status);
    if (!result) return TG_OK;
    // A source alone has no arguments to blame.
    if (result != TG_ERROR_INTERNAL) result = TG_ERROR_SOURCE;
    return tg_fail(result, "%s", messages_text(ctx));
}

/// The module's context must be current, since the memory came from it.
static void close_kernels(tg_module *m) {
    for (int i = 0; i < m->n_kernels; i++) {
        tg_kernel_close(&m->kernels[i].kernel);
        made_release(m->kernels[i].made);
    }
}

static tg_status open_kernels(tg_module *m) {
    for (int i = 0; i < m->n_kernels; i++) {
        ModuleKernel *k = &m->kernels[i];
        tg_status status = tg_kernel_open(&k->kernel, k->info, &jit_compiler, k);
        if (status) return status;
    }
    return TG_OK;
}

/// Opens the loaded module. From here on, many threads may use it.
static tg_status open_loaded_module(Ctx *ctx, tg_module *m) {
    Warnings w = {0};
    if (ctx_protect(ctx, list_module_warnings, &w) != CTX_OK)
        return tg_fail(TG_ERROR_MEMORY, "%s: out of memory", m->path);
    for (int i = 0; i < w.n; i++) module_warn(m, w.texts[i]);
    m->context = tg_context_use(NULL);
    tg_context_use(m->context);
    tg_status status = open_kernels(m);
    if (status) close_kernels(m);
    return status;
}

/// Options of an older caller are shorter; the missing ones are zero.
static tg_status create_module(ModuleLoad *l, const tg_module_options *options, tg_module **out) {
    if (!out) return tg_fail(TG_ERROR_ARGUMENT, "out is NULL");
    *out = NULL;
    if (options && options->size < sizeof options->size)
        return tg_fail(TG_ERROR_ARGUMENT, "options: size must be sizeof(tg_module_options)");
    size_t known = sizeof l->options;
    if (options) memcpy(&l->options, options, options->size < known ? options->size : known);
    Ctx *ctx = ctx_create(&module_allocator);
    if (!ctx) return tg_fail(TG_ERROR_MEMORY, "%s: out of memory", l->path);
    tg_status status = load_status(ctx, ctx_protect(ctx, load_module_source, l), l);
    if (!status) status = open_loaded_module(ctx, l->module);
    if (status) {
        ctx_destroy(ctx);
        return status;
    }
    tg_lock_init(&l->module->lock);
    tg_lock_init(&l->module->searching);
    *out = l->module;
    return TG_OK;
}

/* ---- the API ------------------------------------------------------------------------------- */

tg_status tg_module_from_source(const char *source, size_t length, const char *name,
                                const tg_module_options *options, tg_module **out) {
    if (!source && length) return tg_fail(TG_ERROR_ARGUMENT, "the source is NULL");
    ModuleLoad l = {
        .path = name ? name : "<source>", .text = source ? source : "", .length = length};
    return create_module(&l, options, out);
}

tg_status tg_module_from_file(const char *path, const tg_module_options *options, tg_module **out) {
    if (!path) return tg_fail(TG_ERROR_ARGUMENT, "the path is NULL");
    ModuleLoad l = {.path = path};
    return create_module(&l, options, out);
}

void tg_module_destroy(tg_module *m) {
    if (!m) return;
    tg_queue_cancel(m);
    tg_context *before = tg_context_use(m->context);
    close_kernels(m);
    tg_lock_destroy(&m->lock);
    tg_lock_destroy(&m->searching);
    ctx_destroy(m->ctx);
    tg_context_use(before);
}

int tg_module_kernels(const tg_module *m) {
    return m ? m->n_kernels : 0;
}

tg_kernel *tg_module_kernel_at(tg_module *m, int i) {
    return i >= 0 && i < tg_module_kernels(m) ? &m->kernels[i].kernel : NULL;
}

/// "it has softmax, matmul"
static void list_kernels(const tg_module *m, char *out, size_t size) {
    size_t n = (size_t)snprintf(out, size, m->n_kernels ? "it has " : "it has none");
    for (int i = 0; i < m->n_kernels && n < size; i++)
        n += (size_t)snprintf(out + n, size - n, "%s%s", i ? ", " : "", m->kernels[i].info->name);
}

tg_status tg_module_kernel(tg_module *m, const char *name, tg_kernel **out) {
    if (!m || !out) return tg_fail(TG_ERROR_ARGUMENT, m ? "out is NULL" : "the module is NULL");
    *out = NULL;
    for (int i = 0; i < m->n_kernels; i++) {
        bool found = name ? strcmp(m->kernels[i].info->name, name) == 0 : m->n_kernels == 1;
        if (!found) continue;
        *out = &m->kernels[i].kernel;
        return TG_OK;
    }
    char names[1024];
    list_kernels(m, names, sizeof names);
    if (!name)
        return tg_fail(TG_ERROR_NOT_FOUND, "module '%s' has %d kernels, so a name is needed: %s",
                       m->path, m->n_kernels, names);
    return tg_fail(TG_ERROR_NOT_FOUND, "module '%s' has no kernel '%s': %s", m->path, name, names);
}
