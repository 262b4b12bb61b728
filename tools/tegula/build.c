// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// tegula build: compiles kernels of a file to an object, a library or text, with a C header.
#include <errno.h>
#include <inttypes.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "driver/aot/aot.h"
#include "tools/tegula/cli.h"
#include "tools/tegula/executors.h"
#include "tools/tegula/gpu_arrays.h"

extern char **environ;

typedef struct Making {
    Ctx *ctx;
    const Options *o;
    Aot a;
    Code *code;
    bool progress; // whether a progress line is on the terminal
} Making;

static const char *base_name(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* ---- options ------------------------------------------------------------------------------- */

static bool bad_build_value(const char *option, const char *text, const char *form) {
    cli_error("--%s %s: expected %s", option, text, form);
    return false;
}

/// Parses `D=64|128`. `N<=8192` goes to *most if the caller permits it.
static bool take_value_lists(Making *m, const char *option, const List *list, AotValues *out,
                             AotValues *most) {
    const char *form = most ? "NAME=64|128, or 'NAME<=8192'" : "NAME=64";
    for (int i = 0; i < list->n; i++) {
        const char *text = list->at[i];
        size_t n = strcspn(text, "=<");
        bool bound = most && text[n] == '<' && text[n + 1] == '=';
        NamedValue v = {ctx_intern(m->ctx, text, n), 0};
        if (n == 0 || (!bound && text[n] != '=')) return bad_build_value(option, text, form);
        const char *at = text + n + 1 + bound;
        for (;;) {
            const char *end = at + strcspn(at, "|,");
            if (!setting_value(v.name, at, (size_t)(end - at), &v.value))
                return bad_build_value(option, text, form);
            if (bound && v.value < 1) return bad_build_value(option, text, "a bound of at least 1");
            vec_push(m->ctx, bound ? most : out, v);
            if (!*end) break;
            if (bound || !most) return bad_build_value(option, text, form);
            at = end + 1;
        }
    }
    return true;
}

static bool add_gpu(Making *m, const char *name) {
    const char *level;
    const Backend *b = backend_of(name, &level);
    bool known = b && b->device && b != &sim_backend;
    if (!known || m->a.n_gpus >= AOT_GPUS) return false;
    return b->info(level, &m->a.gpus[m->a.n_gpus]) && ++m->a.n_gpus;
}

static bool add_target(Making *m, const char *name) {
    static const char *const names[] = {"cpu", "x86-64", "aarch64"};
    const char *arch = strcmp(name, "cpu") == 0 ? cpu_host_arch() : name;
    if (cpu_level(arch, 0)) {
        m->a.arch = arch;
        return true;
    }
    if (add_gpu(m, name)) return true;
    cli_error("unknown target '%s'", name);
    const char *hint = gpu_target_hint(m->ctx, name), *close = closest_name(name, names, 3);
    if (close)
        cli_hint("did you mean '%s'?", close);
    else if (hint)
        cli_hint("%s", hint);
    else
        cli_hint(
            "objects are made for cpu, x86-64 or aarch64, and GPUs that 'tegula targets' lists");
    return false;
}

/// Parses "cpu,gfx942": one CPU (this machine's if none is named) and any number of GPUs.
static bool take_targets(Making *m) {
    m->a.arch = cpu_host_arch();
    for (const char *list = m->o->target; list && *list;) {
        size_t n = strcspn(list, ",");
        if (!add_target(m, ctx_intern(m->ctx, list, n))) return false;
        list += n + (list[n] == ',');
    }
    return true;
}

static bool unknown_level(const Making *m, const char *name) {
    const char *labels[TG_LEVELS];
    Text all = {.ctx = m->ctx};
    int n = 0;
    for (const TargetInfo *t; n < TG_LEVELS && (t = cpu_level(m->a.arch, n)); n++) {
        labels[n] = t->label;
        text_add(&all, "%s%s", n ? ", " : "", t->label);
    }
    cli_error("--levels: %s has no level '%s'", m->a.arch, name);
    const char *close = closest_name(name, labels, n);
    if (close)
        cli_hint("did you mean '%s'?", close);
    else
        cli_hint("its levels are %s", all.data);
    return false;
}

/// Stores the levels in ascending order, regardless of the order on the command line.
static bool take_levels(Making *m) {
    const char *list = m->o->cpu_levels;
    bool wanted[TG_LEVELS] = {false};
    while (list && *list) {
        size_t n = strcspn(list, ",");
        const char *name = ctx_intern(m->ctx, list, n);
        list += n + (list[n] == ',');
        bool known = false;
        for (int i = 0; i < TG_LEVELS && cpu_level(m->a.arch, i); i++)
            if (strcmp(cpu_level(m->a.arch, i)->label, name) == 0) wanted[i] = known = true;
        if (!known) return unknown_level(m, name);
    }
    for (int i = 0; i < TG_LEVELS && cpu_level(m->a.arch, i); i++)
        if (wanted[i] || !m->o->cpu_levels) m->a.levels[m->a.n_levels++] = cpu_level(m->a.arch, i);
    if (m->a.n_levels) return true;
    cli_error("--levels names no level");
    return false;
}

/// Parses the architectures of GPUs.
static bool take_gpus(Making *m) {
    m->a.codegen = m->o->codegen;
    if (!codegen_exists(m->o->codegen)) return false;
    for (const char *list = m->o->gpus; list && *list;) {
        size_t n = strcspn(list, ",");
        const char *name = ctx_intern(m->ctx, list, n);
        list += n + (list[n] == ',');
        if (add_gpu(m, name)) continue;
        cli_error("--gpus: there is no architecture '%s'", name);
        cli_hint("'tegula targets' lists them");
        return false;
    }
    return true;
}

/// Refuses --codegen where no GPU of NVIDIA is among the targets.
static bool takes_codegen(const Making *m) {
    const char *level;
    for (int i = 0; i < m->a.n_gpus; i++)
        if (backend_of(m->a.gpus[i].name, &level) == &nvidia_backend) return true;
    return args_refuse(m->o, "targets without a GPU of NVIDIA", "codegen");
}

static bool take_prefix(Making *m) {
    const char *s = m->a.prefix = m->o->prefix ? m->o->prefix : "";
    size_t n = strspn(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789");
    if (!s[n] && (*s < '0' || *s > '9')) return true;
    cli_error("--prefix %s: a prefix begins a name in C: letters, digits, '_'", s);
    return false;
}

/* ---- kinds of output ----------------------------------------------------------------------- */

static bool write_object(Making *m, const char *path) {
    return file_write(m->ctx, path, m->code->object, m->code->object_bytes);
}

static bool write_assembly(Making *m, const char *path) {
    return file_write(m->ctx, path, m->code->assembly, strlen(m->code->assembly));
}

static bool write_llvm(Making *m, const char *path) {
    return file_write(m->ctx, path, m->code->llvm, strlen(m->code->llvm));
}

static bool write_archive(Making *m, const char *path) {
    const char **symbols = ctx_array(m->ctx, const char *, m->a.exports.n * 2 + 1);
    int n = 0;
    for (int i = 0; i < m->a.exports.n; i++) {
        if (m->a.exports.data[i]->function) symbols[n++] = m->a.exports.data[i]->symbol;
        symbols[n++] = m->a.exports.data[i]->kernel_symbol;
    }
    size_t bytes;
    const char *member = ctx_format(m->ctx, "%s.o", m->a.name);
    const void *data = aot_archive(m->ctx, member, m->code, n, symbols, &bytes);
    return file_write(m->ctx, path, data, bytes);
}

/// Runs a program and waits. Returns its exit code; -1: it could not start.
static int run_and_wait(char *const *argv) {
    pid_t pid;
    int status;
    int error = posix_spawnp(&pid, argv[0], NULL, NULL, argv, environ);
    if (error) {
        errno = error;
        return -1;
    }
    while (waitpid(pid, &status, 0) < 0)
        if (errno != EINTR) return -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

/// Returns $CC, or the compiler for the target's system.
static const char *linker_program(const Making *m) {
    const char *cc = secure_getenv("CC");
    if (cc && cc[strspn(cc, " ")]) return cc;
    bool own = strcmp(m->a.arch, cpu_host_arch()) == 0;
    return own ? "cc" : ctx_format(m->ctx, "%s-linux-gnu-gcc", m->a.arch);
}

/// Links a shared library, the only output that needs a linker. The runtime's symbols stay open:
/// the program that loads the library provides them.
static bool write_shared(Making *m, const char *path) {
    const char *object = ctx_format(m->ctx, "%s.tmp%ld.o", path, (long)getpid());
    const char *name = ctx_format(m->ctx, "-Wl,-soname,%s", base_name(path));
    const char *cc = linker_program(m);
    if (!write_object(m, object)) return false;
    const char *words[] = {"-shared", name, "-o", path, object};
    VEC(char *) argv = {0};
    // CC may hold options, as for make: "gcc -m64".
    for (const char *at = cc + strspn(cc, " "), *end; *at; at = end + strspn(end, " ")) {
        end = at + strcspn(at, " ");
        vec_push(m->ctx, &argv, ctx_format(m->ctx, "%.*s", (int)(end - at), at));
    }
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        vec_push(m->ctx, &argv, ctx_format(m->ctx, "%s", words[i]));
    vec_push(m->ctx, &argv, NULL);
    int code = run_and_wait(argv.data);
    int error = errno;
    remove(object);
    if (code == 0) return true;
    if (code < 0) {
        cli_error("a shared library needs a linker, and '%s' cannot be run: %s", cc,
                  strerror(error));
        cli_hint("set CC to a C compiler, or build %.*s.o or .a, which need none",
                 (int)(strlen(path) - 3), path);
    } else {
        cli_error("'%s -shared' failed with exit code %d", cc, code);
    }
    return false;
}

static const struct OutputKind {
    const char *suffix;
    int texts;
    bool (*write)(Making *m, const char *path);
} kinds[] = {
    {".o", TEXT_OBJECT, write_object},  {".a", TEXT_OBJECT, write_archive},
    {".so", TEXT_OBJECT, write_shared}, {".s", TEXT_ASM, write_assembly},
    {".ll", TEXT_LLVM, write_llvm},
};

static const struct OutputKind *find_output_kind(const char *path) {
    const char *name = base_name(path), *dot = strrchr(name, '.');
    for (size_t i = 0; dot && i < sizeof kinds / sizeof *kinds; i++)
        if (strcmp(kinds[i].suffix, dot) == 0) return &kinds[i];
    cli_error("cannot make %s: its name must end in .o, .a, .so, .s or .ll", path);
    return NULL;
}

/* ---- files beside the output ---------------------------------------------------------------- */

/// Writes `out: file import import`, with blanks escaped for make.
static bool write_depfile(Making *m) {
    Text t = {.ctx = m->ctx};
    text_add(&t, "%s:", m->o->output ? m->o->output : m->o->header);
    for (uint16_t f = 1; f <= ctx_source_count(m->ctx); f++) {
        const char *path = ctx_source_path(m->ctx, f);
        if (access(path, F_OK) != 0) continue; // a file of the library inside the compiler
        text_add(&t, " ");
        for (const char *c = path; *c; c++)
            text_add(&t, *c == ' ' || *c == '#' ? "\\%c" : *c == '$' ? "$%c" : "%c", *c);
    }
    text_add(&t, "\n");
    return file_write(m->ctx, m->o->depfile, t.data, t.n);
}

static bool write_header(Making *m) {
    const char *text = aot_header(&m->a, m->o->header, m->o->jit);
    return file_write(m->ctx, m->o->header, text, strlen(text));
}

/* ---- reports ------------------------------------------------------------------------------- */

static void show_progress(void *user, const char *symbol, int done) {
    Making *m = user;
    m->progress = true;
    fprintf(stderr, "\r\033[K%s: variant %d", symbol, done + 1);
    fflush(stderr);
}

static void end_progress(Making *m) {
    if (m->progress) fprintf(stderr, "\r\033[K");
    m->progress = false;
}

static void print_variants(const Making *m) {
    int64_t total = 0;
    for (int i = 0; i < m->a.exports.n; i++) {
        const AotExport *x = m->a.exports.data[i];
        printf("%s: %d functions, %d variants\n", x->symbol, x->functions.n, x->variants.n);
        for (int k = 0; k < x->functions.n; k++) {
            const AotEntry *f = &x->functions.data[k];
            printf("  %-6s %8" PRId64 " bytes  %s%s%s%s%s\n", f->level->label,
                   f->bytes + f->image_bytes, f->what, *f->config ? ": " : "", f->config,
                   f->ptx ? "; PTX" : "", f->n_images > 1 ? "; machine code and PTX" : "");
            total += f->bytes + f->image_bytes;
        }
    }
    printf("%" PRId64 " bytes of code, %zu of object\n", total, m->code->object_bytes);
}

/* ---- all of it ----------------------------------------------------------------------------- */

static bool report_aot_error(Making *m) {
    end_progress(m);
    if (m->a.messages) fputs(m->a.messages, stderr);
    if (!m->a.error) return false;
    cli_error("%s", m->a.error);
    if (m->a.hint) cli_hint("%s", m->a.hint);
    return false;
}

/// "softmax" for "kernels/softmax.teg"; messages omit the folder.
static void name_object(Making *m) {
    const char *path = m->o->files.at[0], *name = base_name(path);
    size_t n = strlen(name);
    if (n > 4 && strcmp(name + n - 4, ".teg") == 0) n -= 4;
    m->a.name = strcmp(path, "-") == 0 ? "stdin" : ctx_intern(m->ctx, name, n);
    m->a.strip = ctx_intern(m->ctx, path, (size_t)(name - path));
}

static bool prepare_build(Making *m) {
    const Options *o = m->o;
    if (!o->output && !o->header) {
        cli_error("'tegula build' needs -o FILE, --header FILE.h or both");
        return false;
    }
    if (o->output && !find_output_kind(o->output)) return false;
    const char *paths[] = {o->output, o->header, o->depfile};
    for (int i = 0; i < 3; i++)
        if (paths[i] && paths[(i + 1) % 3] && strcmp(paths[i], paths[(i + 1) % 3]) == 0) {
            cli_error("two outputs have the name %s", paths[i]);
            return false;
        }
    return take_targets(m) && take_levels(m) && take_gpus(m) && takes_codegen(m) &&
           take_prefix(m) && take_value_lists(m, "set", &o->sets, &m->a.set, NULL) &&
           take_value_lists(m, "given", &o->givens, &m->a.given, &m->a.most);
}

static const char *export_list(const Making *m) {
    Text t = {.ctx = m->ctx};
    for (int i = 0; i < m->o->exports.n; i++)
        text_add(&t, "%s%s", i ? "," : "", m->o->exports.at[i]);
    return t.data;
}

/// Adds the measured settings.
static bool take_tuned_settings(Making *m) {
    const char *path = m->o->tuned, *error;
    Tuned *all = ctx_new(m->ctx, Tuned);
    m->a.n_variants = (int)m->o->variants;
    if (!path) return true;
    uint16_t file = source_read(m->ctx, path);
    size_t n;
    const char *text = file ? ctx_source_text(m->ctx, file, &n) : NULL;
    m->a.tuned = all;
    if (!file) return false;
    if (!tuned_read(m->ctx, text, n, all, &error)) {
        cli_error("%s: %s", path, error);
        return false;
    }
    m->a.tuned_use = ctx_array(m->ctx, TunedUse, all->n + 1);
    return true;
}

/// Prints notes on tuned results that the object lacks, and on interrupted searches.
static void note_tuned(const Making *m) {
    const Aot *a = &m->a;
    bool any = false;
    for (int i = 0; i < (a->tuned ? a->tuned->n : 0); i++) {
        const TunedEntry *e = &a->tuned->data[i];
        any |= a->tuned_use[i] != TUNED_FOREIGN;
        if (a->tuned_use[i] == TUNED_TAKEN && e->interrupted)
            fprintf(stderr, "tegula: note: %s: the search for '%s' of %s was interrupted\n",
                    m->o->tuned, e->shape, e->kernel);
        if (a->tuned_use[i] == TUNED_BEYOND)
            fprintf(stderr,
                    "tegula: note: %s: '%s' is beyond the extents of %s in this object, and was "
                    "left out\n",
                    m->o->tuned, e->shape, e->kernel);
    }
    if (a->tuned && !any)
        fprintf(stderr, "tegula: note: %s: no entry is for these kernels, targets and values\n",
                m->o->tuned);
    if (a->stale)
        fprintf(stderr,
                "tegula: note: %s: '%s' of %s cannot be compiled any more, and was left out\n",
                m->o->tuned, a->stale->config, a->stale->kernel);
}

static bool load_build_source(Making *m) {
    uint16_t file = source_read(m->ctx, m->o->files.at[0]);
    if (!file) return false;
    m->a.importer = option_importer(m->ctx, m->o);
    m->a.program = fe_load(m->ctx, file, m->a.importer);
    if (diag_errors(m->ctx) || !program_check(m->ctx, m->a.program, true)) return false;
    bool ok = aot_exports(&m->a, export_list(m)) && aot_names_exist(&m->a);
    return ok || report_aot_error(m);
}

/// Writes the files beside the output. If that fails, removes the output too, since make would take
/// it for complete.
static bool write_companions(Making *m) {
    const Options *o = m->o;
    if ((!o->header || write_header(m)) && (!o->depfile || write_depfile(m))) return true;
    if (o->output) remove(o->output);
    return false;
}

/// Makes the output, if there is one, and the files beside it. With --jit, no code is generated.
static bool make_output(Making *m) {
    const struct OutputKind *kind = m->o->output ? find_output_kind(m->o->output) : &kinds[0];
    if (!m->o->jit) {
        m->code = aot_build(&m->a, kind->texts);
        if (!m->code) return report_aot_error(m);
    }
    end_progress(m);
    if (m->o->output && !kind->write(m, m->o->output)) return false;
    if (!write_companions(m)) return false;
    note_tuned(m);
    if (m->a.note && !m->o->jit) fprintf(stderr, "tegula: note: %s\n", m->a.note);
    if (m->o->verbose && m->code) print_variants(m);
    return true;
}

int cmd_build(Ctx *ctx, const Options *o) {
    Making *m = ctx_new(ctx, Making);
    *m = (Making){.ctx = ctx, .o = o};
    m->a = (Aot){.ctx = ctx, .check = o->check, .debug = o->debug, .user = m};
    if (isatty(STDERR_FILENO)) m->a.progress = show_progress;
    name_object(m);
    if (!prepare_build(m)) return EXIT_USAGE;
    return load_build_source(m) && take_tuned_settings(m) && make_output(m) ? EXIT_OK : EXIT_USER;
}
