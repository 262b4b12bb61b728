// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The folder of compiled kernels: place, owner, mode, size, and whether it can be used.
#include "tools/tegula/doctor/doctor.h"

#include "backends/backend.h"
#include "cache/store.h"
#include "driver/code_cache.h"
#include "runtime/compiler.h"

#include <limits.h>
#include <pwd.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *owner_name(Ctx *ctx, uid_t owner) {
    const struct passwd *user = getpwuid(owner);
    return user ? ctx_format(ctx, "%s", user->pw_name) : ctx_format(ctx, "user %ld", (long)owner);
}

static void add_refused(Doctor *d, const char *folder, const char *why) {
    struct stat s;
    Finding *f = doctor_add(d, "cache", "folder", FINDING_PROBLEM,
                            "%s: compiled kernels are not kept: %s", folder, why);
    doctor_advise(d, f, "%s",
                  "set TG_CACHE to a folder of your own that others may not write to (chmod go-w), "
                  "or TG_CACHE=off to do without");
    if (stat(folder, &s) != 0) return;
    doctor_fact(d, f, "owner", owner_name(d->ctx, s.st_uid));
    doctor_fact(d, f, "mode", ctx_format(d->ctx, "%04o", (unsigned)s.st_mode & 07777));
}

static void add_usable(Doctor *d, const char *folder, Store *store, int64_t limit) {
    enum { MIB = 1 << 20 };
    struct stat s;
    StoreSize size = {0};
    StoreStatus status = store_size(store, &size);
    if (status || stat(folder, &s) != 0) {
        add_refused(d, folder, status ? store_status_text(status) : "it is gone");
        return;
    }
    const char *owner = owner_name(d->ctx, s.st_uid);
    bool writable = access(folder, W_OK) == 0 && access(store_path(store), W_OK) == 0;
    Finding *f =
        doctor_add(d, "cache", "folder", writable ? FINDING_OK : FINDING_PROBLEM,
                   "%s, of %s, mode %04o, %d entries, %.1f of at most %.0f MiB, %s", folder, owner,
                   (unsigned)s.st_mode & 07777, size.entries, (double)size.bytes / MIB,
                   (double)limit / MIB, writable ? "writable" : "read-only");
    if (!writable)
        doctor_advise(d, f,
                      "new kernels are compiled in every process: set TG_CACHE to a folder "
                      "that can be written");
    doctor_fact(d, f, "path", folder);
    doctor_fact(d, f, "owner", owner);
    doctor_fact(d, f, "mode", ctx_format(d->ctx, "%04o", (unsigned)s.st_mode & 07777));
    doctor_number(d, f, "entries", size.entries);
    doctor_number(d, f, "bytes", size.bytes);
    doctor_number(d, f, "limit", limit);
}

/// Without an identity of the compiler no code is kept.
static void check_identity(Doctor *d) {
    Text t = {.ctx = d->ctx};
    if (backend_build(&t)) return;
    Finding *f = doctor_add(d, "cache", "identity", FINDING_PROBLEM,
                            "LLVM's library has no build ID, so compiled kernels are not kept");
    doctor_advise(d, f, "link LLVM with -Wl,--build-id");
}

void doctor_check_cache(Doctor *d) {
    enum { PATIENCE = 1000 };
    char folder[PATH_MAX], why[STORE_WHY];
    int64_t limit;
    Store *store = NULL;
    check_identity(d);
    if (cache_is_off()) {
        doctor_add(d, "cache", "folder", FINDING_ABSENT,
                   "TG_CACHE=off: every process compiles its kernels");
        return;
    }
    if (!tg_cache_folder(folder, sizeof folder)) {
        Finding *f = doctor_add(d, "cache", "folder", FINDING_PROBLEM,
                                "neither HOME nor XDG_CACHE_HOME is set");
        doctor_advise(d, f, "set HOME, or TG_CACHE to a folder");
        return;
    }
    if (!cache_limit(&limit, why)) {
        add_refused(d, folder, why);
        return;
    }
    StoreStatus status = store_connect(folder, limit, PATIENCE, &store, why);
    if (status)
        add_refused(d, folder, status == STORE_BUSY ? "another process holds it" : why);
    else
        add_usable(d, folder, store, limit);
    if (store) store_close(store);
}
