// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Transactions of the store on disk. Entries kept before a fault must exist after it.
#include "cache/store.h"

#include "tests/inject/scenario.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { OLD = 6, NEW = 3, BYTES = 9000 };
static char folder[512], file[512];

static StoreKey key_of(int n) {
    return store_hash(&n, sizeof n);
}

static StoreStatus put(Store *s, int n) {
    static unsigned char value[BYTES];
    memset(value, n, sizeof value);
    StoreEntry e = {
        .key = key_of(n), .kind = STORE_CODE, .about = "n", .value = value, .bytes = sizeof value};
    return store_put(s, &e);
}

/// STORE_REFUSED: the entry exists with a wrong value.
static StoreStatus get(Store *s, int n) {
    void *value = NULL;
    size_t bytes = 0;
    StoreStatus status = store_get(s, key_of(n), STORE_CODE, &value, &bytes);
    if (status) return status;
    bool right = bytes == BYTES;
    for (size_t i = 0; right && i < bytes; i++) right = ((unsigned char *)value)[i] == n;
    free(value);
    return right ? STORE_OK : STORE_REFUSED;
}

static Store *must_open(const char *path) {
    char why[STORE_WHY];
    Store *s = store_open(path, 0, why);
    if (!s) fprintf(stderr, "%s\n", why), abort();
    return s;
}

static void ready(void) {
    snprintf(folder, sizeof folder, "%s", in_scratch("store"));
    snprintf(file, sizeof file, "%s", in_scratch("exported.db"));
    Store *s = must_open(folder);
    for (int n = 0; n < OLD; n++)
        if (put(s, n)) abort();
    store_close(s);
}

static void say(Outcome *out, StoreStatus status) {
    out->ok = !status;
    snprintf(out->text, sizeof out->text, "%s", store_status_text(status));
}

/// Opens the store, or records the reason.
static Store *open_for(Outcome *out) {
    Store *s = store_open(folder, 0, out->text);
    out->ok = s != NULL;
    return s;
}

static const char *check_entries(int n, bool all_there) {
    static char text[64];
    Store *s = must_open(folder);
    const char *wrong = NULL;
    for (int i = 0; i < n && !wrong; i++) {
        StoreStatus status = get(s, i);
        if (status == STORE_OK || (status == STORE_ABSENT && !all_there && i >= OLD)) continue;
        snprintf(text, sizeof text, "entry %d: %s", i, store_status_text(status));
        wrong = text;
    }
    store_close(s);
    return wrong;
}

/* ---- saving, loading ------------------------------------------------------------------------- */

static void save(Outcome *out) {
    StoreStatus status = STORE_OK;
    Store *s = open_for(out);
    if (!s) return;
    for (int n = OLD; n < OLD + NEW && !status; n++) status = put(s, n);
    store_close(s);
    say(out, status);
}

/// Every entry that was reported as kept must exist.
static const char *check_saved(const Outcome *out) {
    return check_entries(OLD + NEW, out->ok);
}

static void load(Outcome *out) {
    StoreStatus status = STORE_OK;
    Store *s = open_for(out);
    if (!s) return;
    for (int n = 0; n < OLD && !status; n++) status = get(s, n);
    store_close(s);
    say(out, status);
}

static const char *check_old(const Outcome *out) {
    (void)out;
    return check_entries(OLD, true);
}

/* ---- other files ----------------------------------------------------------------------------- */

static void export(Outcome *out) {
    Store *s = open_for(out);
    if (!s) return;
    unlink(file);
    say(out, store_export(s, file));
    store_close(s);
}

static int seen;

static bool count(void *user, const StoreEntry *e) {
    (void)user, (void)e;
    seen++;
    return true;
}

static const char *check_exported(const Outcome *out) {
    int damaged = 0;
    seen = 0;
    if (out->ok && (store_each_in(file, count, NULL, &damaged) || seen != OLD || damaged))
        return "the file that was written has not all entries";
    return check_old(out);
}

static void ready_file(void) {
    Outcome out = {.ok = false};
    ready();
    export(&out);
    if (!out.ok) abort();
    snprintf(folder, sizeof folder, "%s", in_scratch("other"));
    Store *s = must_open(folder);
    if (put(s, 0)) abort();
    store_close(s);
}

static void import(Outcome *out) {
    int added = 0, damaged = 0;
    Store *s = open_for(out);
    if (!s) return;
    say(out, store_import(s, file, &added, &damaged));
    if (out->ok && damaged) out->ok = false, strcpy(out->text, "damaged");
    store_close(s);
}

static const char *check_imported(const Outcome *out) {
    return check_entries(out->ok ? OLD : 1, true);
}

/* ---- going ----------------------------------------------------------------------------------- */

static void evict(Outcome *out) {
    int removed = 0;
    Store *s = open_for(out);
    if (!s) return;
    StoreStatus status = store_prune(s, 0, 3 * BYTES, &removed);
    if (!status) status = store_compact(s);
    store_close(s);
    say(out, status);
}

/// All or some entries may exist, each with its own value.
static const char *check_evicted(const Outcome *out) {
    StoreSize size;
    Store *s = must_open(folder);
    const char *wrong = NULL;
    for (int n = 0; n < OLD && !wrong; n++) {
        StoreStatus status = get(s, n);
        if (status && status != STORE_ABSENT) wrong = "an entry is damaged";
    }
    StoreStatus status = store_size(s, &size);
    store_close(s);
    if (status || (out->ok && size.entries > 3)) return "it was not evicted";
    if (!out->ok && size.entries < 3) return "more went than were to go";
    return wrong;
}

/// Another process writes at the same time.
static void save_beside(Outcome *out) {
    pid_t child = real_fork();
    if (child == 0) {
        Outcome other = {.ok = false};
        plan_at(THERE);
        save(&other);
        _exit(0);
    }
    save(out);
    end_child(child, 10000);
}

const Scenario store_scenarios[] = {
    {"save", false, NOBODY, NULL, ready, save, check_saved, NULL},
    {"load", false, NOBODY, NULL, ready, load, check_old, NULL},
    {"export", false, NOBODY, NULL, ready, export, check_exported, NULL},
    {"import", false, NOBODY, NULL, ready_file, import, check_imported, NULL},
    {"evict", false, NOBODY, NULL, ready, evict, check_evicted, NULL},
    {"two-writers", true, OTHERS, NULL, ready, save_beside, check_saved, NULL},
    {.name = NULL},
};
