// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// See trial_process.h. The trial is passed in an unnamed file as structs of this process, since the
// other process runs the same code. Addresses of code differ there. They are passed as a module's
// path and an offset.
#include "runtime/tune/trial_process.h"

#include "runtime/base/process.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <link.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#define VARIABLE "TG_TRIALS_OF" // environment variable: the process that started this one
#define PRELOAD  "LD_PRELOAD"
enum { SOCKET = 3, PARCEL = 4, ASIDE = 16, MOST_VARIANTS = 64 };

typedef struct Parcel {
    rt_sandbox_options options; // without the data behind its pointers
    uintptr_t info;             // offset from the module's base
    uint64_t identity;
    size_t bytes; // in all
    uint16_t variants[MOST_VARIANTS];
    tg_arg args[TG_MAX_PARAMS];
    DLTensor tensors[TG_MAX_PARAMS];
    int64_t dims[TG_MAX_PARAMS][2][TG_MAX_RANK];
    size_t at[TG_MAX_PARAMS], content_bytes[TG_MAX_PARAMS]; // offsets from the parcel's first byte
    char module[PATH_MAX];                                  // "": the program
} Parcel;

/* ---- modules --------------------------------------------------------------------------------- */

typedef struct TrialModule {
    uintptr_t address; // an address inside it
    uintptr_t base;
    bool found, program; // program: not a library
    char path[PATH_MAX];
} TrialModule;

/// The program comes first and has no name.
static int look_in(struct dl_phdr_info *i, size_t size, void *arg) {
    TrialModule *m = arg;
    (void)size;
    for (int k = 0; k < i->dlpi_phnum; k++) {
        const ElfW(Phdr) *p = &i->dlpi_phdr[k];
        uintptr_t from = i->dlpi_addr + p->p_vaddr;
        if (p->p_type != PT_LOAD || m->address < from || m->address - from >= p->p_memsz) continue;
        m->base = i->dlpi_addr;
        m->program = !i->dlpi_name || !*i->dlpi_name;
        m->found = m->program || realpath(i->dlpi_name, m->path);
        return 1;
    }
    return 0;
}

static TrialModule module_of(const void *address) {
    TrialModule m = {.address = (uintptr_t)address};
    dl_iterate_phdr(look_in, &m);
    return m;
}

static int first_base(struct dl_phdr_info *i, size_t size, void *arg) {
    (void)size;
    *(uintptr_t *)arg = i->dlpi_addr;
    return 1;
}

/// The base of a module in this process. Returns false with a reason in dlerror().
static bool module_base(const char *path, uintptr_t *base) {
    struct link_map *map;
    if (!*path) return dl_iterate_phdr(first_base, base);
    void *library = dlopen(path, RTLD_LAZY);
    if (!library || dlinfo(library, RTLD_DI_LINKMAP, &map)) return false;
    *base = map->l_addr;
    return true;
}

static uint64_t identity_of(const tg_kernel_info *info) {
    uint64_t h = rt_hash_text(TG_ABI, info->name);
    return rt_mix(rt_hash_text(h, info->signature), (uint64_t)info->n_variants);
}

/* ---- transferred data ------------------------------------------------------------------------ */

/// Fills in everything except the contents. The kernel lies in a module (plan_preload).
static tg_status fill_parcel(Parcel *p, const rt_sandbox_options *o) {
    const rt_trial_options *t = &o->trial;
    const tg_kernel_info *info = t->info;
    TrialModule m = module_of(info);
    if (o->n > MOST_VARIANTS)
        return tg_fail(TG_ERROR_UNSUPPORTED,
                       "'%s' has %d variants for these arguments; at most %d can be tried on a GPU",
                       info->name, o->n, MOST_VARIANTS);
    p->options = *o;
    p->info = (uintptr_t)info - m.base;
    p->identity = identity_of(info);
    memcpy(p->module, m.path, sizeof m.path);
    for (int i = 0; i < o->n; i++) {
        uintptr_t at = (uintptr_t)o->variants[i] - (uintptr_t)info->variants;
        if (at >= sizeof(tg_variant) * (size_t)info->n_variants)
            return tg_fail(TG_ERROR_UNSUPPORTED, "a variant is not the object's");
        p->variants[i] = (uint16_t)(at / sizeof(tg_variant));
    }
    p->bytes = sizeof *p;
    for (int i = 0; i < t->n; i++) {
        p->args[i] = t->args[i];
        const DLTensor *given = t->args[i].kind == TG_ARG_TENSOR ? t->args[i].as.tensor : NULL;
        if (given) rt_copy_tensor(&p->tensors[i], p->dims[i], given, given->strides);
        if (!t->contents || !t->contents[i]) continue;
        p->at[i] = p->bytes;
        p->content_bytes[i] = t->content_bytes[i];
        p->bytes += (t->content_bytes[i] + 63) / 64 * 64;
    }
    return TG_OK;
}

static bool write_at(int file, const void *data, size_t bytes, size_t at) {
    for (size_t done = 0; done < bytes;) {
        ssize_t n = pwrite(file, (const char *)data + done, bytes - done, (off_t)(at + done));
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return false;
        done += (size_t)n;
    }
    return true;
}

/// Makes the parcel's file. -1, with tg_last_error(): failed.
static int make_parcel_file(const rt_sandbox_options *o) {
    const tg_context *c = rt_context();
    Parcel *p = c ? rt_allocate(&c->hooks, sizeof *p) : NULL;
    int file = -1;
    if (!p) return tg_fail(TG_ERROR_MEMORY, "out of memory"), -1;
    memset(p, 0, sizeof *p);
    if (!fill_parcel(p, o)) {
        file = memfd_create("tegula", MFD_CLOEXEC);
        bool done =
            file >= 0 && write_at(file, p, sizeof *p, 0) && ftruncate(file, (off_t)p->bytes) == 0;
        for (int i = 0; i < o->trial.n && done; i++)
            if (p->at[i])
                done = write_at(file, o->trial.contents[i], p->content_bytes[i], p->at[i]);
        if (!done) {
            tg_fail(TG_ERROR_UNSUPPORTED, "no file for another process: %s", strerror(errno));
            if (file >= 0) close(file);
            file = -1;
        }
    }
    rt_release(&c->hooks, p, sizeof *p);
    return file;
}

/* ---- starting -------------------------------------------------------------------------------- */

/// The process to start. The program's own code must not run in it.
typedef struct Start {
    const char *program;
    char parent[40], preload[2 * PATH_MAX];
    char **environment;
} Start;

/// A NULL-terminated copy of this process's environment without two variables.
static char **make_child_environment(const tg_options *hooks, Start *s, size_t *bytes) {
    extern char **environ;
    size_t n = 0, made = 0;
    while (environ[n]) n++;
    *bytes = sizeof(char *) * (n + 3);
    char **out = rt_allocate(hooks, *bytes);
    if (!out) return NULL;
    for (size_t i = 0; i < n; i++)
        if (!*s->preload || strncmp(environ[i], PRELOAD "=", sizeof PRELOAD) != 0)
            out[made++] = environ[i];
    out[made++] = s->parent;
    if (*s->preload) out[made++] = s->preload;
    out[made] = NULL;
    return out;
}

/// Preloads the library whose constructor has to run, since nothing else loads it.
static tg_status plan_preload(Start *s, const tg_kernel_info *info) {
    static const char here;
    TrialModule own = module_of(&here), kernel = module_of(info);
    const char *set = secure_getenv(PRELOAD);
    if (getauxval(AT_SECURE))
        return tg_fail(TG_ERROR_UNSUPPORTED, "the program has more rights than its user");
    if (!own.found || !kernel.found)
        return tg_fail(TG_ERROR_UNSUPPORTED, "the file of the code is unknown");
    s->program = own.program || kernel.program ? "/proc/self/exe" : "true";
    snprintf(s->parent, sizeof s->parent, VARIABLE "=%ld", (long)getpid());
    if (own.program) return TG_OK;
    if (strpbrk(own.path, " :") || access(own.path, R_OK) != 0)
        return tg_fail(TG_ERROR_UNSUPPORTED, "'%.200s' cannot be preloaded", own.path);
    int n = snprintf(s->preload, sizeof s->preload, PRELOAD "=%s%s%s", own.path, set ? ":" : "",
                     set ? set : "");
    if (n < (int)sizeof s->preload) return TG_OK;
    return tg_fail(TG_ERROR_UNSUPPORTED, PRELOAD " is too long");
}

tg_status rt_spawn(const rt_sandbox_options *options, int fd, pid_t *child) {
    const tg_context *c = rt_context();
    Start s = {0};
    size_t bytes;
    tg_status status = c ? plan_preload(&s, options->trial.info) : TG_ERROR_MEMORY;
    int file = status ? -1 : make_parcel_file(options);
    if (file < 0) return status ? status : TG_ERROR_UNSUPPORTED;
    int fds[2] = {fcntl(fd, F_DUPFD_CLOEXEC, ASIDE), fcntl(file, F_DUPFD_CLOEXEC, ASIDE)};
    s.environment = make_child_environment(&c->hooks, &s, &bytes);
    int error = fds[0] < 0 || fds[1] < 0 ? errno : s.environment ? 0 : ENOMEM;
    const int files[] = {-1, -1, -1, [SOCKET] = fds[0], [PARCEL] = fds[1]};
    char name[] = "tegula", *argv[] = {name, NULL};
    if (!error) error = rt_start_program(s.program, argv, s.environment, files, PARCEL + 1, child);
    rt_release(&c->hooks, s.environment, s.environment ? bytes : 0);
    for (int i = 0; i < 2; i++)
        if (fds[i] >= 0) close(fds[i]);
    close(file);
    if (!error) return TG_OK;
    return tg_fail(TG_ERROR_UNSUPPORTED, "no process can be started: %s", strerror(error));
}

/* ---- the other process ----------------------------------------------------------------------- */

static Parcel *open_parcel(void) {
    struct stat st;
    if (fstat(PARCEL, &st) || (size_t)st.st_size < sizeof(Parcel)) return NULL;
    void *p = mmap(NULL, (size_t)st.st_size, PROT_READ | PROT_WRITE, MAP_PRIVATE, PARCEL, 0);
    return p == MAP_FAILED || ((Parcel *)p)->bytes != (size_t)st.st_size ? NULL : p;
}

/// Restores the pointers of a received parcel.
static tg_status unpack_parcel(Parcel *p, const tg_variant **variants, const void **contents) {
    rt_sandbox_options *o = &p->options;
    uintptr_t base;
    if (!module_base(p->module, &base))
        return tg_fail(TG_ERROR_UNSUPPORTED, "in a process of its own: %s", dlerror());
    const tg_kernel_info *info = (const tg_kernel_info *)(base + p->info);
    if (identity_of(info) != p->identity)
        return tg_fail(TG_ERROR_UNSUPPORTED, "'%.200s' is another file now", p->module);
    for (int i = 0; i < o->n; i++) variants[i] = &info->variants[p->variants[i]];
    for (int i = 0; i < o->trial.n; i++) {
        DLTensor *t = &p->tensors[i];
        contents[i] = p->at[i] ? (const char *)p + p->at[i] : NULL;
        if (p->args[i].kind != TG_ARG_TENSOR || !p->args[i].as.tensor) continue;
        t->shape = p->dims[i][0];
        if (t->strides) t->strides = p->dims[i][1];
        p->args[i].as.tensor = t;
    }
    o->variants = variants;
    o->stop = NULL;
    o->trial.info = info;
    o->trial.args = p->args;
    o->trial.contents = contents;
    o->trial.content_bytes = p->content_bytes;
    return TG_OK;
}

/// Runs before the program's constructors and never returns to them.
__attribute__((constructor(1000))) static void serve_trials(void) {
    static const tg_variant *variants[MOST_VARIANTS];
    static const void *contents[TG_MAX_PARAMS];
    const char *parent = secure_getenv(VARIABLE); // a user must not run code with more rights
    struct rlimit none = {0, 0};
    if (!parent) return;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    setrlimit(RLIMIT_CORE, &none);
    if (getppid() != (pid_t)atol(parent)) _exit(1);
    rt_close_files(PARCEL + 1, ~0U);
    unsetenv(VARIABLE);
    Parcel *p = open_parcel();
    if (p) rt_sandbox_serve(unpack_parcel(p, variants, contents) ? NULL : &p->options, SOCKET);
    _exit(1);
}
