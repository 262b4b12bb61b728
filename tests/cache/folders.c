// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// See folders.h.
#include "tests/cache/folders.h"

#include <ftw.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

const char *fresh_folder(void) {
    static char path[64];
    const char *where =
        access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp"; // avoids waits for a disk
    snprintf(path, sizeof path, "%s/tegula-store.XXXXXX", where);
    assert_non_null(mkdtemp(path));
    return path;
}

static int remove_one(const char *path, const struct stat *s, int kind, struct FTW *at) {
    (void)s, (void)kind, (void)at;
    return remove(path);
}

void remove_folder(const char *path) {
    nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

Store *open_store(const char *folder, int64_t limit) {
    char why[STORE_WHY];
    Store *s = store_open(folder, limit, why);
    if (!s) fail_msg("%s: %s", folder, why);
    return s;
}

StoreKey key_number(int n) {
    return store_hash(&n, sizeof n);
}

typedef struct Head {
    int64_t version, n, bytes;
} Head;

/// Byte i of a value. It depends on everything that identifies the value.
static uint8_t filler(const Head *h, size_t i) {
    uint64_t x = (uint64_t)h->version * 0x9e3779b97f4a7c15u + (uint64_t)h->n * 31 + i;
    return (uint8_t)(x ^ x >> 29);
}

StoreStatus put_number(Store *s, int n, int64_t version, size_t bytes) {
    Head h = {version, n, (int64_t)bytes};
    uint8_t *value = malloc(sizeof h + bytes);
    char about[64];
    assert_non_null(value);
    memcpy(value, &h, sizeof h);
    for (size_t i = 0; i < bytes; i++) value[sizeof h + i] = filler(&h, i);
    snprintf(about, sizeof about, "number %d", n);
    StoreEntry e = {.key = key_number(n),
                    .kind = STORE_CODE,
                    .about = about,
                    .value = value,
                    .bytes = sizeof h + bytes};
    StoreStatus status = store_put(s, &e);
    free(value);
    return status;
}

static int64_t version_of(const uint8_t *value, size_t bytes, int n) {
    Head h;
    if (bytes < sizeof h) return -1;
    memcpy(&h, value, sizeof h);
    if (h.n != n || h.bytes != (int64_t)(bytes - sizeof h)) return -1;
    for (size_t i = 0; i < bytes - sizeof h; i++)
        if (value[sizeof h + i] != filler(&h, i)) return -1;
    return h.version;
}

int64_t get_number(Store *s, int n) {
    void *value;
    size_t bytes;
    StoreStatus status = store_get(s, key_number(n), STORE_CODE, &value, &bytes);
    if (status) return status == STORE_BUSY ? NUMBER_BUSY : 0;
    int64_t version = version_of(value, bytes, n);
    free(value);
    return version;
}
