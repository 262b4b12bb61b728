// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "driver/tune/tuned_file.h"

#include <string.h>

#include "driver/json.h"

enum { VERSION = 1 };

/* ---- entries ------------------------------------------------------------------------------- */

static int compare_entries(const TunedEntry *a, const TunedEntry *b) {
    int order = strcmp(a->kernel, b->kernel);
    if (!order) order = strcmp(a->target, b->target);
    if (!order) order = strcmp(a->device, b->device);
    return order ? order : strcmp(a->shape, b->shape);
}

void tuned_add(Ctx *ctx, Tuned *all, const TunedEntry *entry) {
    int at = 0;
    while (at < all->n && compare_entries(&all->data[at], entry) < 0) at++;
    if (at == all->n || compare_entries(&all->data[at], entry) != 0) {
        vec_push(ctx, all, *entry);
        memmove(&all->data[at + 1], &all->data[at], sizeof *entry * (size_t)(all->n - 1 - at));
    } else if (entry->interrupted && !all->data[at].interrupted) {
        return;
    }
    all->data[at] = *entry;
}

const char *tuned_kernel(Ctx *ctx, const FnDef *kernel, const Elem *types) {
    Text t = {.ctx = ctx};
    text_add(&t, "%s", kernel->name.text);
    for (int i = 0; i < kernel->generics.n; i++)
        text_add(&t, "%s%s", i ? "," : "<", types[i] < EL_COUNT ? elem_info[types[i]].name : "?");
    text_add(&t, "%s", kernel->generics.n ? ">" : "");
    return t.data;
}

/* ---- values -------------------------------------------------------------------------------- */

const char *values_read(Ctx *ctx, const char *text, int *n, NamedValue **out) {
    static const char separators[] = " ,\t\n";
    *out = ctx_array(ctx, NamedValue, strlen(text) / 2 + 1);
    *n = 0;
    while (*(text += strspn(text, separators))) {
        size_t length = strcspn(text, separators);
        const char *part = ctx_intern(ctx, text, length), *equals = strchr(part, '=');
        int64_t v;
        if (!equals || equals == part) return part;
        const char *name = ctx_intern(ctx, part, (size_t)(equals - part));
        if (!setting_value(name, equals + 1, strlen(equals + 1), &v)) return part;
        (*out)[(*n)++] = (NamedValue){name, v};
        text += length;
    }
    return NULL;
}

/* ---- files --------------------------------------------------------------------------------- */

static const char *member_text(const Json *entry, const char *name) {
    const Json *j = json_member(entry, name);
    return j && j->kind == JSON_TEXT ? j->text : NULL;
}

static double member_number(const Json *entry, const char *name) {
    const Json *j = json_member(entry, name);
    return j && j->kind == JSON_NUMBER ? j->number : -1;
}

static bool read_tuned_entry(Ctx *ctx, const Json *j, Tuned *all, const char **error) {
    TunedEntry e = {.kernel = member_text(j, "kernel"),
                    .target = member_text(j, "target"),
                    .device = member_text(j, "device"),
                    .shape = member_text(j, "shape"),
                    .config = member_text(j, "config"),
                    .seconds = member_number(j, "seconds"),
                    .standard = member_number(j, "default")};
    const Json *interrupted = json_member(j, "interrupted");
    e.interrupted = interrupted && interrupted->kind == JSON_BOOL && interrupted->number != 0;
    NamedValue *values;
    int n;
    const char *bad = NULL;
    if (!e.kernel || !e.target || !e.device || !e.shape || !e.config)
        bad = "an entry has kernel, target, device, shape and config";
    else if (values_read(ctx, e.shape, &n, &values))
        bad = "a shape is of the form M=64 N=32";
    else if (values_read(ctx, e.config, &n, &values))
        bad = "a config is of the form BM=64 warps=4";
    if (bad) *error = ctx_format(ctx, "line %d: %s", j->line, bad);
    if (!bad) tuned_add(ctx, all, &e);
    return !bad;
}

bool tuned_read(Ctx *ctx, const char *text, size_t n, Tuned *all, const char **error) {
    const Json *file = json_read(ctx, text, n, error);
    if (!file) return false;
    const Json *version = json_member(file, "tegula_tuned");
    const Json *entries = json_member(file, "entries");
    if (!version || !entries || entries->kind != JSON_LIST) {
        *error = "it is not a file of 'tegula tune'";
        return false;
    }
    if (version->number != VERSION) {
        *error = ctx_format(ctx, "it is of version %g, which this Tegula does not read",
                            version->number);
        return false;
    }
    for (const Json *j = entries->first; j; j = j->next)
        if (!read_tuned_entry(ctx, j, all, error)) return false;
    return true;
}

static void write_entry(Text *t, const TunedEntry *e) {
    const char *const names[] = {"kernel", "target", "device", "shape", "config"};
    const char *const texts[] = {e->kernel, e->target, e->device, e->shape, e->config};
    for (int i = 0; i < 5; i++) {
        text_add(t, "%s\"%s\": ", i ? ", " : "  {", names[i]);
        json_quote(t, texts[i]);
    }
    text_add(t, ", \"seconds\": ");
    json_number(t, e->seconds);
    text_add(t, ", \"default\": ");
    json_number(t, e->standard);
    text_add(t, "%s}", e->interrupted ? ", \"interrupted\": true" : "");
}

void tuned_write(Text *t, const Tuned *all) {
    text_add(t, "{\"tegula_tuned\": %d, \"entries\": [", VERSION);
    for (int i = 0; i < all->n; i++) {
        text_add(t, "%s\n", i ? "," : "");
        write_entry(t, &all->data[i]);
    }
    text_add(t, "\n]}\n");
}
