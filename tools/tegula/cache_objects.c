// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Tuning files of objects beside the store: a small text file for each kernel and device, since
// objects run without a compiler (runtime/tune/tune_file.c).
#include "tools/tegula/cache.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
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

typedef struct ObjectCheck {
    int sound, damaged;
    const char *bad;
} ObjectCheck;

/// A temporary file belongs to a process that still writes it, or that was killed. It is never
/// read.
static void verify_one(void *user, const ObjectFile *f) {
    ObjectCheck *c = user;
    tg_tuned_file file;
    if (f->half) return;
    if (!tg_tuned_file_read(f->path, true, &file)) c->bad = f->path;
    c->sound += file.sound;
    c->damaged += file.damaged;
}

const char *objects_verify(Ctx *ctx, const char *folder, int *sound, int *damaged) {
    ObjectCheck c = {0};
    objects_each(ctx, folder, verify_one, &c);
    *sound += c.sound;
    *damaged += c.damaged;
    return c.bad;
}

/* ---- in exports ------------------------------------------------------------------------------ */

// The value of an entry is the file's name after its prefix (16 digits), followed by the contents.
enum { NAME = 16, MOST_BYTES = 1 << 16 };

typedef struct ObjectPacking {
    Ctx *ctx;
    const char *folder;
    Store *store;
    StoreStatus status;
    int added;
    VEC(StoreKey) keys;
} ObjectPacking;

static void pack_one(void *user, const ObjectFile *f) {
    ObjectPacking *p = user;
    tg_tuned_file file;
    char *value = ctx_alloc(p->ctx, NAME + MOST_BYTES);
    if (f->half || p->status || strlen(f->key) != NAME || f->bytes > MOST_BYTES) return;
    if (!tg_tuned_file_read(f->path, false, &file)) return;
    FILE *in = fopen(f->path, "rb");
    if (!in) return;
    memcpy(value, f->key, NAME);
    size_t n = fread(value + NAME, 1, MOST_BYTES, in);
    fclose(in);
    StoreEntry e = {.key = store_hash(f->key, NAME),
                    .kind = STORE_OBJECT,
                    .about = file.about,
                    .value = value,
                    .bytes = NAME + n};
    p->status = store_put(p->store, &e);
}

StoreStatus objects_pack(Ctx *ctx, const char *folder, Store *store) {
    ObjectPacking p = {.ctx = ctx, .folder = folder, .store = store};
    objects_each(ctx, folder, pack_one, &p);
    return p.status;
}

static StoreStatus write_new(const char *path, const char *data, size_t n, int *added) {
    tg_tuned_file file;
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0) return errno == EEXIST ? STORE_OK : STORE_REFUSED;
    bool ok = write(fd, data, n) == (ssize_t)n;
    ok &= close(fd) == 0;
    if (!ok) unlink(path);
    if (!ok) return STORE_FULL;
    *added += tg_tuned_file_read(path, true, &file) && file.sound > 0;
    return STORE_OK;
}

static bool unpack_one(void *user, const StoreEntry *e) {
    ObjectPacking *p = user;
    char name[NAME + 1] = "";
    if (e->kind != STORE_OBJECT) return true;
    vec_push(p->ctx, &p->keys, e->key);
    if (e->bytes <= NAME || e->bytes > NAME + MOST_BYTES) return true;
    memcpy(name, e->value, NAME);
    if (strspn(name, "0123456789abcdef") != NAME) return true;
    const char *path = ctx_format(p->ctx, "%s/" TG_TUNED_FILE "%s", p->folder, name);
    p->status = write_new(path, (const char *)e->value + NAME, e->bytes - NAME, &p->added);
    return !p->status;
}

StoreStatus objects_unpack(Ctx *ctx, const char *folder, Store *store, int *added) {
    ObjectPacking p = {.ctx = ctx, .folder = folder, .store = store};
    StoreStatus status = store_each(store, true, unpack_one, &p, NULL);
    for (int i = 0; i < p.keys.n; i++) store_remove(store, p.keys.data[i]);
    *added = p.added;
    return p.status ? p.status : status;
}
