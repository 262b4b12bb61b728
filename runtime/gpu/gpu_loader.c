// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Finds and loads the GPU driver at its first use, and puts its errors into words.
#include "runtime/base/fork_lock.h"
#include "runtime/gpu/cuda.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- loading ------------------------------------------------------------------------------- */

static rt_cuda driver;
static bool loaded;
static char problem[1024]; // the reason if it is missing
static bool is_short;      // of files or memory, so the driver may be there
static tg_lock loading = TG_LOCK_INIT;
static atomic_bool searched;

static void add_problem(const char *format, ...) __attribute__((format(printf, 1, 2)));

static void add_problem(const char *format, ...) {
    size_t n = strlen(problem);
    va_list ap;
    va_start(ap, format);
    vsnprintf(problem + n, sizeof problem - n, format, ap);
    va_end(ap);
}

/// Whether a message of dlerror names a lack that may pass. The loader sets no errno.
static bool names_lack(const char *why) {
    static const int errors[] = {EMFILE, ENFILE, ENOMEM, EACCES, EIO};
    bool found = false;
    for (size_t i = 0; i < sizeof errors / sizeof *errors && !found; i++)
        found = strstr(why, strerror(errors[i]));
    return found;
}

/// *why: the reason if it fails.
static void *open_library(const char *path, int flags, const char **why) {
    errno = 0;
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL | flags);
    if (library) return library;
    *why = dlerror();
    if (!*why) *why = strerror(errno);
    if (!(flags & RTLD_NOLOAD)) is_short |= names_lack(*why);
    return NULL;
}

/// Opens the first existing file, or returns NULL.
static void *open_first(const char *const *files, int flags) {
    void *library = NULL;
    const char *why;
    for (int i = 0; files[i] && !library; i++) library = open_library(files[i], flags, &why);
    return library;
}

/// A release that the process has already loaded is preferred. Two releases in one process do not
/// share memory and streams.
static void *open_driver_library(const rt_maker *m) {
    const char *set = secure_getenv(m->variable);
    if (set && *set) {
        const char *why;
        void *library = open_library(set, 0, &why);
        if (!library) add_problem("%s=%s cannot be loaded: %s", m->variable, set, why);
        return library;
    }
    void *library = open_first(m->files, RTLD_NOLOAD);
    if (!library) library = open_first(m->files, 0);
    if (library) return library;
    add_problem("%s, the driver of %s GPUs, was not found (tried", m->library, m->name);
    for (int i = 0; m->files[i]; i++) add_problem("%s %s", i ? "," : "", m->files[i]);
    add_problem("); install the driver, or set %s to its path", m->variable);
    return NULL;
}

/// Resolves the functions and counts the devices.
static bool start_driver(const rt_maker *m, void *library) {
    const char *missing =
        m->hip ? rt_hip_entries(&driver, library) : rt_cuda_entries(&driver, library);
    if (missing) {
        add_problem("%s has no function %s: the driver is too old; %s or later is needed",
                    m->library, missing, m->oldest);
        return false;
    }
    const char *call = "cuInit";
    cu_result error = driver.init(0);
    if (!error) error = driver.version(&driver.driver_version);
    if (!error) {
        call = "cuDeviceGetCount";
        error = driver.device_count(&driver.n_devices);
    }
    if (!error) return true;
    rt_cuda_fail(call, error, "starting the driver of %s GPUs", m->name);
    add_problem("%s", tg_last_error());
    return false;
}

/// The library is never unloaded, because contexts live in it.
static bool try_maker(const rt_maker *m) {
    driver = (rt_cuda){.maker = m};
    void *library = open_driver_library(m);
    return library && start_driver(m, library);
}

static bool is_set(const char *variable) {
    const char *value = secure_getenv(variable);
    return value && *value;
}

static void load_gpu_driver(void) {
    const char *wanted = secure_getenv("TG_GPUS");
    bool cuda = wanted && strcmp(wanted, "cuda") == 0, hip = wanted && strcmp(wanted, "hip") == 0;
    if (!cuda && !hip) {
        cuda = is_set(rt_maker_cuda.variable);
        hip = !cuda && is_set(rt_maker_hip.variable);
    }
    if (!hip) loaded = try_maker(&rt_maker_cuda);
    if (cuda || (loaded && driver.n_devices)) return;
    rt_cuda before = driver;
    bool had = loaded;
    if (problem[0]) add_problem("; ");
    loaded = try_maker(&rt_maker_hip);
    if (!had || (loaded && driver.n_devices)) return;
    driver = before;
    loaded = true;
}

const rt_cuda *_Atomic rt_cuda_loaded;

/// A search that found no device for a lack of files or memory is repeated at the next use.
static void search_driver(void) {
    tg_lock_take(&loading);
    if (!atomic_load(&searched)) {
        is_short = false;
        problem[0] = 0;
        load_gpu_driver();
        bool found = loaded && driver.n_devices;
        atomic_store(&searched, found || !is_short);
        if (!atomic_load(&searched)) tg_fail(TG_ERROR_UNSUPPORTED, "%s", problem);
    }
    tg_lock_give(&loading);
}

const rt_cuda *rt_cuda_load(void) {
    if (!atomic_load(&searched)) search_driver();
    if (!atomic_load(&searched)) return NULL;
    if (loaded) return atomic_store(&rt_cuda_loaded, &driver), &driver;
    tg_fail(TG_ERROR_UNSUPPORTED, "%s", problem);
    return NULL;
}

/* ---- errors -------------------------------------------------------------------------------- */

tg_status rt_cuda_fail(const char *call, cu_result error, const char *format, ...) {
    const char *name = NULL, *text = NULL, *hint = NULL;
    tg_status status = TG_ERROR_INTERNAL;
    char doing[512];
    va_list ap;
    va_start(ap, format);
    vsnprintf(doing, sizeof doing, format, ap);
    va_end(ap);
    if (driver.error_name && driver.error_name(error, &name)) name = NULL;
    if (driver.error_text && driver.error_text(error, &text)) text = NULL;
    const rt_maker *m = driver.maker ? driver.maker : &rt_maker_cuda;
    for (int i = 0; i < m->n_hints; i++) {
        if (m->hints[i].error != error) continue;
        status = m->hints[i].status;
        hint = m->hints[i].hint;
    }
    if (m->hip) call = rt_hip_name(call);
    return tg_fail(status, "%s: %s: %s (%s, error %d)%s%s", doing, call, text ? text : "failed",
                   name ? name : "unknown", error, hint ? "; " : "", hint ? hint : "");
}
