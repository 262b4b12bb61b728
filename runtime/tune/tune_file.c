// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Tuning results of objects on disk: a small text file for each kernel and device, with one line
// for each tuned launch. The file's name is a hash of everything that a result depends on: the
// kernel and its code, the device, driver and threads. Each line has a checksum, and a damaged line
// is ignored. A line without a launch names a variant that crashed or hung. A line that begins with
// '#' describes the file. A longer file replaces the old one by renaming, so readers see either
// one. If two processes write at once, one line is lost and tuned again later.
#include "runtime/compiler.h"
#include "runtime/runtime.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MOST_BYTES = 1 << 16, MOST_HINTS = 64, PATH = 1024, CODE = 256, PAGE = 4096 };

/* ---- the key of a result --------------------------------------------------------------------- */

/// The start of the code, within the page that is certainly mapped.
static uint64_t hash_code_start(uint64_t hash, const tg_variant *v) {
    uintptr_t at = (uintptr_t)v->entry, left = PAGE - at % PAGE;
    if (v->image) hash = rt_hash_bytes(hash, v->image->bytes, (size_t)v->image->size);
    return rt_hash_bytes(hash, (const void *)at, left < CODE ? left : CODE);
}

static uint64_t hash_kernel(const tg_kernel_info *info) {
    uint64_t hash = rt_hash_text(TG_ABI, info->signature);
    for (int i = 0; i < info->n_variants; i++) {
        const tg_variant *v = &info->variants[i];
        hash = rt_hash_text(hash, v->config);
        hash = rt_hash_bytes(hash, v->facts, sizeof *v->facts * (size_t)v->n_facts);
        hash = hash_code_start(hash, v);
    }
    return hash;
}

static uint64_t hash_device(uint64_t hash, int device, int threads) {
    int what = device >= 0 ? rt_cuda_driver()->driver_version : (int)tg_cpu_level();
    char text[TG_DEVICE_TEXT];
    tg_device_text(device, threads, text);
    return rt_hash_bytes(rt_hash_text(hash, text), &what, sizeof what);
}

/* ---- the file -------------------------------------------------------------------------------- */

bool tg_cache_folder(char *out, size_t size) {
    const char *set = secure_getenv("TG_CACHE"), *xdg = secure_getenv("XDG_CACHE_HOME"),
               *home = secure_getenv("HOME");
    int n = -1;
    if (set && *set)
        n = strcmp(set, "off") == 0 ? -1 : snprintf(out, size, "%s", set);
    else if (xdg && *xdg == '/') // relative paths are ignored (XDG Base Directory)
        n = snprintf(out, size, "%s/tegula", xdg);
    else if (home && *home)
        n = snprintf(out, size, "%s/.cache/tegula", home);
    return n >= 0 && (size_t)n < size;
}

/// Returns false if no results are kept.
static bool path_of(const tg_kernel_info *info, int device, int threads, char out[PATH]) {
    if (!tg_cache_folder(out, PATH - 64)) return false;
    size_t n = strlen(out);
    uint64_t hash = hash_device(hash_kernel(info), device, threads);
    return snprintf(out + n, PATH - n, "/" TG_TUNED_FILE "%016" PRIx64, hash) > 0;
}

static size_t read_tuned_file(const char *path, char *out) {
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    size_t n = 0;
    ssize_t got = 0;
    if (fd < 0) return 0;
    while (n < MOST_BYTES && (got = read(fd, out + n, MOST_BYTES - n)) > 0) n += (size_t)got;
    close(fd);
    return got < 0 ? 0 : n;
}

static bool write_tuned_file(const char *path, const char *data, size_t n) {
    char other[PATH + 32];
    snprintf(other, sizeof other, "%s.%ld", path, (long)getpid());
    int fd = open(other, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0) return false;
    bool ok = true;
    for (size_t at = 0; at < n && ok;) {
        ssize_t put = write(fd, data + at, n - at);
        ok = put > 0;
        at += ok ? (size_t)put : 0;
    }
    ok = close(fd) == 0 && ok && rename(other, path) == 0;
    if (!ok) unlink(other);
    return ok;
}

/// Makes each missing folder of the path.
static void make_folders(char *path) {
    for (char *p = path + 1; (p = strchr(p, '/')); p++) {
        *p = 0;
        int made = mkdir(path, 0700);
        *p = '/';
        if (made && errno != EEXIST) return;
    }
}

/* ---- lines: check sum, variant, then param.axis=extent, or "excluded" ------------------------ */

static const char excluded[] = " excluded";

static uint64_t line_checksum(const char *text, size_t n) {
    return rt_hash_bytes(1, text, n);
}

/// n: -1 means that the variant is excluded.
static size_t write_hint_line(char *out, size_t room, int variant, const tg_hint *hints, int n) {
    char text[32 * (MOST_HINTS + 1)];
    size_t at = (size_t)snprintf(text, sizeof text, "%d%s", variant, n < 0 ? excluded : "");
    for (int i = 0; i < n; i++)
        at += (size_t)snprintf(text + at, sizeof text - at, " %d.%d=%" PRId64, hints[i].param,
                               hints[i].axis, hints[i].extent);
    int all = snprintf(out, room, "%016" PRIx64 " %s\n", line_checksum(text, at), text);
    return all > 0 && (size_t)all < room ? (size_t)all : 0;
}

/// Returns the number of the variant and its hints (-1: excluded), or -1 for a line that is damaged
/// or of another version.
static int read_hint_line(const char *line, size_t n, tg_hint *hints, int *n_hints) {
    char text[32 * (MOST_HINTS + 2)], *at, *end;
    if (n < 18 || n >= sizeof text) return -1;
    memcpy(text, line, n);
    text[n] = 0;
    if (strtoull(text, &at, 16) != line_checksum(text + 17, n - 17) || at != text + 16) return -1;
    long variant = strtol(text + 17, &at, 10);
    *n_hints = -1;
    if (strcmp(at, excluded) == 0) return (int)variant;
    for (*n_hints = 0; *at == ' ' && *n_hints < MOST_HINTS; at = end) {
        long param = strtol(at + 1, &end, 10), axis = strtol(end + 1, &end, 10);
        long long extent = strtoll(end + 1, &end, 10);
        if (param < 0 || param >= TG_MAX_PARAMS || axis < 0 || axis >= TG_MAX_RANK) return -1;
        hints[(*n_hints)++] =
            (tg_hint){.param = (uint8_t)param, .axis = (uint8_t)axis, .extent = extent};
    }
    return *at ? -1 : (int)variant;
}

void rt_tune_load(tg_kernel *kernel, int device, int threads) {
    char path[PATH];
    tg_hint hints[MOST_HINTS];
    char *data = malloc(MOST_BYTES);
    if (!data || !path_of(kernel->info, device, threads, path)) {
        free(data);
        return;
    }
    size_t n = read_tuned_file(path, data);
    uint32_t here = rt_device_hash(device, threads);
    for (size_t at = 0; at < n;) {
        const char *end = memchr(data + at, '\n', n - at);
        int n_hints, length = end ? (int)(end - data - (ptrdiff_t)at) : (int)(n - at);
        int variant = end ? read_hint_line(data + at, (size_t)length, hints, &n_hints) : -1;
        const tg_variant *v = variant >= 0 && variant < kernel->info->n_variants
                                  ? &kernel->info->variants[variant]
                                  : NULL;
        if (v && n_hints < 0)
            rt_exclude(kernel, v);
        else if (v)
            rt_adopt_tuned(kernel, v, here, hints, n_hints);
        at += (size_t)length + 1;
    }
    free(data);
}

static size_t write_about(char *out, const tg_kernel_info *info, int device, int threads) {
    char text[TG_DEVICE_TEXT];
    tg_device_text(device, threads, text);
    return (size_t)snprintf(out, MOST_BYTES, "# %.60s on %s\n", info->name, text);
}

void rt_tune_save(const tg_kernel *kernel, int device, int threads, const tg_variant *variant,
                  const tg_hint *hints, int n) {
    char path[PATH];
    char *data = malloc(MOST_BYTES);
    if (data && path_of(kernel->info, device, threads, path)) {
        size_t used = read_tuned_file(path, data);
        while (used && data[used - 1] != '\n') used--; // an incomplete line
        if (!used) used = write_about(data, kernel->info, device, threads);
        int number = (int)(variant - kernel->info->variants);
        used += write_hint_line(data + used, MOST_BYTES - used, number, hints, n);
        make_folders(path);
        write_tuned_file(path, data, used);
    }
    free(data);
}

/* ---- for `tegula cache` ---------------------------------------------------------------------- */

/// Counts the lines and keeps the undamaged ones. Returns their bytes.
static size_t sift_lines(char *data, size_t n, tg_tuned_file *out) {
    tg_hint hints[MOST_HINTS];
    size_t kept = 0, length;
    for (size_t at = 0; at < n; at += length) {
        const char *end = memchr(data + at, '\n', n - at);
        int n_hints;
        length = end ? (size_t)(end - data) + 1 - at : n - at;
        bool remark = data[at] == '#';
        bool good = end && (remark || read_hint_line(data + at, length - 1, hints, &n_hints) >= 0);
        if (remark && length > 2)
            snprintf(out->about, sizeof out->about, "%.*s", (int)length - 3, data + at + 2);
        out->sound += good && !remark;
        out->damaged += !good;
        if (!good) continue;
        memmove(data + kept, data + at, length);
        kept += length;
    }
    return kept;
}

bool tg_tuned_file_read(const char *path, bool repair, tg_tuned_file *out) {
    char *data = malloc(MOST_BYTES);
    *out = (tg_tuned_file){.about = ""};
    errno = 0;
    size_t n = data ? read_tuned_file(path, data) : 0, kept = sift_lines(data, n, out);
    bool ok = data && (n || !errno);
    if (ok && repair && !out->sound)
        ok = unlink(path) == 0;
    else if (ok && repair && out->damaged)
        ok = write_tuned_file(path, data, kept);
    free(data);
    return ok;
}
