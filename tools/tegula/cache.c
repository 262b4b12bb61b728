// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// tegula cache: the compiler's store on disk.
#include "tools/tegula/cache.h"
#include "cache/store.h"
#include "driver/code_cache.h"
#include "runtime/compiler.h"
#include "tools/tegula/cli.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { KEY_DIGITS = 2 * sizeof(StoreKey), SHORT_DIGITS = 12 };

typedef struct Cache {
    Ctx *ctx;
    const Options *o;
    Store *store;
    char folder[PATH_MAX];
    int64_t limit;
} Cache;

static const char *const kinds[] = {
    [STORE_CODE] = "code", [STORE_TUNING] = "tuning", [STORE_OBJECT] = "object"};

static void key_text(StoreKey key, char out[KEY_DIGITS + 1]) {
    for (size_t i = 0; i < sizeof key.bytes; i++) snprintf(out + 2 * i, 3, "%02x", key.bytes[i]);
}

static const char *kind_name(StoreKind kind) {
    bool known = (size_t)kind < sizeof kinds / sizeof *kinds && kinds[kind];
    return known ? kinds[kind] : "other";
}

static int store_failed(const Cache *c, StoreStatus status, const char *file) {
    cli_error("%s: %s", file ? file : store_path(c->store), store_status_text(status));
    return EXIT_USER;
}

static const char *size_text(Ctx *ctx, int64_t bytes) {
    static const char units[] = "KMGT";
    double n = (double)bytes;
    int unit = -1;
    for (; n >= 1024 && unit < 3; unit++) n /= 1024;
    return unit < 0 ? ctx_format(ctx, "%" PRId64 " B", bytes)
                    : ctx_format(ctx, "%.1f %ciB", n, units[unit]);
}

static const char *age_text(Ctx *ctx, int64_t since) {
    int64_t s = (int64_t)time(NULL) - since;
    if (s < 120) return "now";
    if (s < 2 * 3600) return ctx_format(ctx, "%" PRId64 " min", s / 60);
    if (s < 2 * 86400) return ctx_format(ctx, "%" PRId64 " h", s / 3600);
    return ctx_format(ctx, "%" PRId64 " days", s / 86400);
}

/* ---- listing ------------------------------------------------------------------------------- */

static bool list_one(void *user, const StoreEntry *e) {
    const Cache *c = user;
    char key[KEY_DIGITS + 1];
    key_text(e->key, key);
    printf("%.*s  %-6s %10s  %8s  %s\n", SHORT_DIGITS, key, kind_name(e->kind),
           size_text(c->ctx, (int64_t)e->bytes), age_text(c->ctx, e->used), e->about);
    return true;
}

typedef struct Objects {
    const Cache *c;
    const char *prefix; // prefix of the keys to show
    int files;
    int64_t bytes;
} Objects;

static void list_object(void *user, const ObjectFile *f) {
    Objects *all = user;
    tg_tuned_file file;
    if (f->half || !tg_tuned_file_read(f->path, false, &file)) return;
    printf("%.*s  %-6s %10s  %8s  %s\n", SHORT_DIGITS, f->key, "object",
           size_text(all->c->ctx, f->bytes), age_text(all->c->ctx, f->changed), file.about);
    all->files++;
    all->bytes += f->bytes;
}

static int list_cache(Cache *c) {
    Objects objects = {.c = c};
    StoreSize size;
    int damaged;
    StoreStatus status = store_each(c->store, false, list_one, c, &damaged);
    objects_each(c->ctx, c->folder, list_object, &objects);
    if (!status) status = store_size(c->store, &size);
    if (status) return store_failed(c, status, NULL);
    printf("%d entries, %s of at most %s, in %s\n", size.entries, size_text(c->ctx, size.bytes),
           size_text(c->ctx, c->limit), store_path(c->store));
    if (objects.files)
        printf("%d files of objects, %s\n", objects.files, size_text(c->ctx, objects.bytes));
    if (damaged) printf("%d damaged: 'tegula cache verify' removes them\n", damaged);
    return EXIT_OK;
}

typedef struct WantedKey {
    const char *prefix;
    int found;
} WantedKey;

static void date_text(int64_t at, char out[32]) {
    time_t t = (time_t)at;
    struct tm local;
    if (!localtime_r(&t, &local) || !strftime(out, 32, "%Y-%m-%d %H:%M:%S", &local)) *out = 0;
}

static bool show_one(void *user, const StoreEntry *e) {
    WantedKey *w = user;
    char key[KEY_DIGITS + 1], made[32], used[32];
    key_text(e->key, key);
    if (strncmp(key, w->prefix, strlen(w->prefix)) != 0) return true;
    date_text(e->made, made);
    date_text(e->used, used);
    printf("%skey    %s\nkind   %s\nabout  %s\nbytes  %zu\nmade   %s\nused   %s, or up to an hour "
           "later\n",
           w->found++ ? "\n" : "", key, kind_name(e->kind), e->about, e->bytes, made, used);
    return true;
}

static void show_object(void *user, const ObjectFile *f) {
    WantedKey *w = user;
    char changed[32];
    tg_tuned_file file;
    if (f->half || strncmp(f->key, w->prefix, strlen(w->prefix)) != 0) return;
    if (!tg_tuned_file_read(f->path, false, &file)) return;
    date_text(f->changed, changed);
    printf("%skey    %s\nkind   object\nabout  %s\nholds  %d results of tuning%s\nbytes  %" PRId64
           "\nmade   %s\nfile   %s\n",
           w->found++ ? "\n" : "", f->key, file.about, file.sound,
           file.damaged ? ", and damaged ones" : "", f->bytes, changed, f->path);
}

static int show_entry(Cache *c, const char *prefix) {
    WantedKey w = {.prefix = prefix};
    StoreStatus status = store_each(c->store, false, show_one, &w, NULL);
    if (status) return store_failed(c, status, NULL);
    objects_each(c->ctx, c->folder, show_object, &w);
    if (w.found) return EXIT_OK;
    cli_error("no entry has a key that begins with '%s'", prefix);
    cli_hint("'tegula cache list' lists them");
    return EXIT_USER;
}

/* ---- files --------------------------------------------------------------------------------- */

static int export_cache(Cache *c, const char *to) {
    FILE *there = fopen(to, "rb");
    if (there) {
        fclose(there);
        cli_error("%s exists already", to);
        return EXIT_USER;
    }
    StoreStatus status = objects_pack(c->ctx, c->folder, c->store);
    if (!status) status = store_export(c->store, to);
    StoreStatus back = objects_unpack(c->ctx, c->folder, c->store, &(int){0});
    if (!status) status = back;
    return status ? store_failed(c, status, to) : EXIT_OK;
}

static int import_cache(Cache *c, const char *from) {
    int added, damaged, files = 0;
    if (access(from, R_OK) != 0) {
        cli_error("cannot read %s: %s", from, strerror(errno));
        return EXIT_USER;
    }
    StoreStatus status = store_import(c->store, from, &added, &damaged);
    if (status == STORE_REFUSED) {
        cli_error("%s cannot be read, or is not an export of this version", from);
        return EXIT_USER;
    }
    if (!status) status = objects_unpack(c->ctx, c->folder, c->store, &files);
    if (status) return store_failed(c, status, from);
    printf("%s: %d added", from, added);
    if (files) printf(", %d of them %s of objects", files, files > 1 ? "files" : "a file");
    if (damaged) printf(", %d damaged and left out", damaged);
    printf("\n");
    return EXIT_OK;
}

/// Returns 1 if there are differences, as `diff` does.
static int diff_caches(Cache *c) {
    const char *first = c->o->files.at[1], *second = c->o->files.n > 2 ? c->o->files.at[2] : NULL;
    const char *files[2] = {second ? first : NULL, second ? second : first}, *bad;
    int differences;
    for (int i = 0; i < 2; i++)
        if (files[i] && access(files[i], R_OK) != 0) {
            cli_error("cannot read %s: %s", files[i], strerror(errno));
            return EXIT_USER;
        }
    StoreStatus status = cache_diff(c->ctx, c->store, files, &bad, &differences);
    if (status == STORE_REFUSED && bad)
        cli_error("%s cannot be read, or is not an export of this version", bad);
    else if (status)
        return store_failed(c, status, bad);
    return status || differences ? EXIT_USER : EXIT_OK;
}

/* ---- removing ------------------------------------------------------------------------------ */

static int bad_cache_value(const char *option, const char *text, const char *form) {
    cli_error("--%s %s: not %s", option, text, form);
    return EXIT_USAGE;
}

static int prune_cache(Cache *c) {
    int64_t before = INT64_MIN, limit = c->o->all ? 0 : -1;
    int removed;
    if (!c->o->size && !c->o->days && !c->o->all) {
        cli_error("prune: what?");
        cli_hint("--size 512M, --days 30, or --all");
        return EXIT_USAGE;
    }
    if (c->o->size && !cache_read_size(c->o->size, &limit))
        return bad_cache_value("size", c->o->size, "a size like 512M");
    if (c->o->days) {
        char *end;
        double days = strtod(c->o->days, &end);
        if (*end || end == c->o->days || !(days >= 0 && days < 1e6))
            return bad_cache_value("days", c->o->days, "a number of days");
        before = (int64_t)time(NULL) - (int64_t)(days * 86400);
    }
    StoreStatus status = store_prune(c->store, before, limit, &removed);
    if (!status) status = store_compact(c->store);
    if (status) return store_failed(c, status, NULL);
    removed += objects_prune(c->ctx, c->folder, before, c->o->all);
    printf("%d removed\n", removed);
    return EXIT_OK;
}

static int verify_cache(Cache *c) {
    int sound, damaged;
    StoreStatus status = store_verify(c->store, &sound, &damaged);
    if (status) return store_failed(c, status, NULL);
    const char *bad = objects_verify(c->ctx, c->folder, &sound, &damaged);
    printf("%d sound", sound);
    if (damaged) printf(", %d damaged and removed", damaged);
    printf("\n");
    if (!bad) return EXIT_OK;
    cli_error("cannot read or write %s: %s", bad, strerror(errno));
    return EXIT_USER;
}

/* ---- the command --------------------------------------------------------------------------- */

static int print_cache_path(Cache *c) {
    printf("%s\n", c->folder);
    return EXIT_OK;
}

typedef struct Action {
    const char *name;
    int least, most; // number of operands after it
    int (*all)(Cache *c);
    int (*each)(Cache *c, const char *operand);
} Action;

static const Action actions[] = {
    {"path", 0, 0, print_cache_path, NULL}, {"list", 0, 0, list_cache, NULL},
    {"show", 1, 63, NULL, show_entry},      {"export", 1, 1, NULL, export_cache},
    {"import", 1, 63, NULL, import_cache},  {"prune", 0, 0, prune_cache, NULL},
    {"verify", 0, 0, verify_cache, NULL},   {"diff", 1, 2, diff_caches, NULL},
};
enum { ACTIONS = sizeof actions / sizeof *actions };

static const Action *find_action(const char *name) {
    const char *names[ACTIONS];
    for (int i = 0; i < ACTIONS; i++) {
        names[i] = actions[i].name;
        if (strcmp(name, names[i]) == 0) return &actions[i];
    }
    const char *close = closest_name(name, names, ACTIONS);
    cli_error("cache: unknown action '%s'", name);
    if (close) cli_hint("did you mean '%s'?", close);
    if (!close) cli_hint("there are path, list, show, export, import, diff, prune and verify");
    return NULL;
}

/// Checks that the action has its operands and options, and no others.
static bool takes_operands(const Action *a, const Options *o) {
    int n = o->files.n - 1;
    const char *option = o->size ? "size" : o->days ? "days" : o->all ? "all" : NULL;
    if (n < a->least || n > a->most)
        cli_error("cache %s: %s", a->name, n < a->least ? "of what?" : "too many operands");
    else if (option && a->all != prune_cache)
        cli_error("cache %s: --%s is an option of 'cache prune'", a->name, option);
    else
        return true;
    return false;
}

static int run_cache_action(Cache *c, const Action *a) {
    int worst = EXIT_OK, n = c->o->files.n - 1;
    if (a->all) return a->all(c);
    for (int i = 1; i <= n; i++) {
        int code = a->each(c, c->o->files.at[i]);
        if (code > worst) worst = code;
    }
    return worst;
}

int cmd_cache(Ctx *ctx, const Options *o) {
    Cache c = {.ctx = ctx, .o = o};
    char why[STORE_WHY];
    if (cache_is_off() || !tg_cache_folder(c.folder, sizeof c.folder)) {
        cli_error("nothing is kept on disk: %s",
                  cache_is_off() ? "TG_CACHE=off" : "neither HOME nor XDG_CACHE_HOME is set");
        cli_hint("TG_CACHE=FOLDER names a place");
        return EXIT_USER;
    }
    const Action *a = find_action(o->files.at[0]);
    if (!a || !takes_operands(a, o)) return EXIT_USAGE;
    if (a->all == print_cache_path) return print_cache_path(&c);
    if (cache_limit(&c.limit, why)) c.store = store_open(c.folder, c.limit, why);
    if (!c.store) {
        cli_error("%s", why);
        return EXIT_USER;
    }
    int code = run_cache_action(&c, a);
    store_close(c.store);
    return code;
}
