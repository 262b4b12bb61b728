// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// tegula cache diff: prints the differences in tuning results between two exports, or between the
// store and an export.
//
// Keys depend on the compiler and the source, so results are matched by subject: "softmax R=64
// N=128 on AMD EPYC, 2 threads: BR=4 (softmax.teg)", up to the setting. The last of several results
// with one subject counts.
#include "tools/tegula/cache.h"

#include <stdio.h>
#include <string.h>

typedef struct Result {
    const char *subject, *setting; // parts of a text in the arena
    int64_t made;
} Result;

typedef struct DiffSide {
    Ctx *ctx;
    VEC(Result) results;
} DiffSide;

static Result *find_subject(DiffSide *s, const char *subject) {
    for (int i = 0; i < s->results.n; i++)
        if (strcmp(s->results.data[i].subject, subject) == 0) return &s->results.data[i];
    return NULL;
}

/// Cuts the text before its setting. A result from a similar shape has no setting.
static bool add_tuning_entry(void *user, const StoreEntry *e) {
    DiffSide *s = user;
    if (e->kind != STORE_TUNING) return true;
    char *text = ctx_format(s->ctx, "%s", e->about), *cut = NULL;
    for (char *c = text; (c = strstr(c, ": ")); c++) cut = c;
    if (!cut || !strchr(cut, '=')) return true;
    *cut = 0;
    Result r = {text, cut + 2, e->made}, *known = find_subject(s, text);
    if (!known)
        vec_push(s->ctx, &s->results, r);
    else if (known->made <= r.made)
        *known = r;
    return true;
}

/// Prints the results of `one` that `other` lacks or has with another setting.
static int print_side(const DiffSide *one, DiffSide *other, char sign) {
    int n = 0;
    for (int i = 0; i < one->results.n; i++) {
        const Result *r = &one->results.data[i], *o = find_subject(other, r->subject);
        if (o && (sign == '+' || strcmp(o->setting, r->setting) == 0)) continue;
        n++;
        if (o)
            printf("~ %s: %s -> %s\n", r->subject, r->setting, o->setting);
        else
            printf("%c %s: %s\n", sign, r->subject, r->setting);
    }
    return n;
}

StoreStatus cache_diff(Ctx *ctx, Store *store, const char *const files[2], const char **bad,
                       int *differences) {
    DiffSide sides[2] = {{.ctx = ctx}, {.ctx = ctx}};
    int damaged;
    for (int i = 0; i < 2; i++) {
        *bad = files[i];
        StoreStatus status = files[i]
                                 ? store_each_in(files[i], add_tuning_entry, &sides[i], &damaged)
                                 : store_each(store, false, add_tuning_entry, &sides[i], &damaged);
        if (status) return status;
    }
    *differences = print_side(&sides[0], &sides[1], '-');
    *differences += print_side(&sides[1], &sides[0], '+');
    return STORE_OK;
}
