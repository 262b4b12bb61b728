// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// tegula check, tegula fmt: commands on source files alone.
#include "tools/tegula/executors.h"

#include "lang/diag.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* ---- check --------------------------------------------------------------------------------- */

/// Compiles each kernel of a file for a target, with made-up arguments. It links and runs nothing.
static bool check_code(Ctx *ctx, const Options *o, const Program *program, const char *path) {
    for (int i = 0; i < fe_kernel_count(program); i++) {
        Options *own = ctx_copy(ctx, o, sizeof *o);
        const char **file = ctx_new(ctx, const char *);
        *file = path;
        own->files = (List){file, 1};
        own->kernel = fe_kernel(program, i)->name.text;
        Job *job = job_create(ctx, own);
        bool ok = job && job_load(job) && job_instance(job, true) && job_elaborate(job) &&
                  job_passes(job);
        Code *code = ok ? build_code(&job->build, NULL, 0, false) : NULL;
        if (!code) return false;
        code_release(code);
    }
    return true;
}

/// Reads a file that was named on the command line. Returns 0 for an unreadable one.
static uint16_t checked_file(Ctx *ctx, const Options *o, const char *path) {
    if (!o->check_json) return source_read(ctx, path);
    uint16_t file = source_find(ctx, &(Sources){0}, path);
    if (!file) diag(ctx, (Loc){0}, D_IMPORT_UNREADABLE, path, strerror(errno));
    return file;
}

int cmd_check(Ctx *ctx, const Options *o) {
    const Importer *importer = option_importer(ctx, o);
    int warnings = 0;
    bool failed = false;
    for (int i = 0; i < o->files.n; i++) {
        uint16_t file = checked_file(ctx, o, o->files.at[i]);
        failed |= !file;
        if (!file) continue;
        int before = diag_errors(ctx);
        Program *program = fe_load(ctx, file, importer);
        if (diag_errors(ctx) == before) program_check(ctx, program, false);
        if (o->target && diag_errors(ctx) == before)
            failed |= !check_code(ctx, o, program, o->files.at[i]);
    }
    for (const Diagnostic *d = diag_first(ctx); d; d = d->next)
        warnings += d->severity == SEV_WARNING;
    return failed || diag_errors(ctx) || (o->werror && warnings) ? EXIT_USER : EXIT_OK;
}

/* ---- fmt ----------------------------------------------------------------------------------- */

/// Replaces a file through a temporary one beside it, so that the file is never half written.
static bool replace_file(Ctx *ctx, const char *path, const char *text) {
    const char *temporary = ctx_format(ctx, "%s.tmp%ld", path, (long)getpid());
    FILE *f = fopen(temporary, "wb");
    bool ok = f && fputs(text, f) >= 0;
    if (f && fclose(f) != 0) ok = false;
    if (ok && rename(temporary, path) == 0) return true;
    cli_error("cannot write %s: %s", path, strerror(errno));
    if (f) remove(temporary);
    return false;
}

/// Returns 0 for a formatted file, 1 for an unformatted or faulty one.
static int format_file(Ctx *ctx, const Options *o, const char *path) {
    uint16_t file = source_read(ctx, path);
    if (!file) return 1;
    const char *text = fe_format(ctx, file);
    if (!text) return 1;
    bool same = strcmp(text, ctx_source_text(ctx, file, NULL)) == 0;
    if (o->fmt_check) {
        if (!same) printf("%s\n", path);
        return !same;
    }
    if (!o->in_place || strcmp(path, "-") == 0) {
        fputs(text, stdout);
        return 0;
    }
    return !same && !replace_file(ctx, path, text);
}

int cmd_fmt(Ctx *ctx, const Options *o) {
    int bad = 0;
    for (int i = 0; i < o->files.n; i++) bad |= format_file(ctx, o, o->files.at[i]);
    return bad ? EXIT_USER : EXIT_OK;
}
