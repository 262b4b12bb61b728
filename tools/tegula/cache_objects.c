// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What objects keep beside the store: a small file of text for each kernel and device, since they
// run where no compiler is (runtime/tune_file.c).
#include "tools/tegula/cache.h"

#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

bool objects_each(Ctx *ctx, const char *folder, ObjectsFn *each, void *user) {
    const size_t prefix = strlen(TG_TUNED_FILE);
    DIR *d = opendir(folder);
    if (!d) return false;
    for (struct dirent *e; (e = readdir(d));) {
        struct stat s;
        if (strncmp(e->d_name, TG_TUNED_FILE, prefix) != 0) continue;
        ObjectFile f = {.path = ctx_format(ctx, "%s/%s", folder, e->d_name),
                        .key = ctx_format(ctx, "%s", e->d_name + prefix)};
        if (stat(f.path, &s) != 0) continue;
        f.bytes = s.st_size;
        f.changed = s.st_mtim.tv_sec;
        f.half = strchr(f.key, '.') != NULL;
        each(user, &f);
    }
    closedir(d);
    return true;
}

typedef struct Pruning {
    int64_t before;
    bool all;
    int removed;
} Pruning;

static void prune_one(void *user, const ObjectFile *f) {
    Pruning *p = user;
    if ((p->all || f->changed < p->before) && unlink(f->path) == 0) p->removed++;
}

int objects_prune(Ctx *ctx, const char *folder, int64_t before, bool all) {
    Pruning p = {.before = before, .all = all};
    objects_each(ctx, folder, prune_one, &p);
    return p.removed;
}

typedef struct Check {
    int sound, damaged;
    const char *bad;
} Check;

/// A file that is half written belongs to a process that writes it, or was killed: nobody reads it.
static void verify_one(void *user, const ObjectFile *f) {
    Check *c = user;
    tg_tuned_file file;
    if (f->half) return;
    if (!tg_tuned_file_read(f->path, true, &file)) c->bad = f->path;
    c->sound += file.sound;
    c->damaged += file.damaged;
}

const char *objects_verify(Ctx *ctx, const char *folder, int *sound, int *damaged) {
    Check c = {0};
    objects_each(ctx, folder, verify_one, &c);
    *sound += c.sound;
    *damaged += c.damaged;
    return c.bad;
}
