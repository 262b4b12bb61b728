// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Runs one command line in its own context.
#include "tools/tegula/cli.h"

#include "lang/diag.h"
#include "tools/tegula/check_json.h"

#include <stdio.h>

static int (*const run_command[COMMAND_COUNT])(Ctx *ctx, const Options *o) = {
    [RUN_BIT] = cmd_run,         [CHECK_BIT] = cmd_check,
    [FMT_BIT] = cmd_fmt,         [EMIT_BIT] = cmd_emit,
    [EXPLAIN_BIT] = cmd_explain, [TARGETS_BIT] = cmd_targets,
    [BUILD_BIT] = cmd_build,     [BENCH_BIT] = cmd_bench,
    [PROFILE_BIT] = cmd_profile, [CACHE_BIT] = cmd_cache,
    [TUNE_BIT] = cmd_tune,       [LSP_BIT] = cmd_lsp,
    [DOCTOR_BIT] = cmd_doctor,   [COMPLETION_BIT] = cmd_completion,
};

typedef struct Invocation {
    int argc;
    char **argv;
    int code;
    bool json; // print messages as JSON
} Invocation;

static void run_invocation(Ctx *ctx, void *arg) {
    Invocation *call = arg;
    Options *o = ctx_new(ctx, Options);
    int code = args_parse(ctx, call->argc, call->argv, o);
    call->json = code < 0 && o->check_json;
    call->code = code >= 0 ? code : run_command[o->command](ctx, o);
}

static bool found_bug(Ctx *ctx) {
    for (const Diagnostic *d = diag_first(ctx); d; d = d->next)
        if (d->id == D_INTERNAL) return true;
    return false;
}

int cli_main(int argc, char **argv) {
    Ctx *ctx = ctx_create(NULL);
    if (!ctx) {
        cli_error("out of memory");
        return EXIT_USER;
    }
    Invocation call = {.argc = argc, .argv = argv, .code = EXIT_USER};
    CtxStatus status = ctx_protect(ctx, run_invocation, &call);
    if (call.json) print_diagnostics_json(ctx);
    int errors = call.json ? diag_errors(ctx) : cli_diagnostics(ctx);
    if (status == CTX_NO_MEMORY) cli_error("out of memory");
    // An error may have ended the command before it set its code, or come after that.
    if (call.code == EXIT_OK && (errors || status == CTX_NO_MEMORY)) call.code = EXIT_USER;
    if (status == CTX_BUG || found_bug(ctx)) {
        cli_hint("this is a mistake in Tegula, not in your kernel");
        call.code = EXIT_BUG;
    }
    ctx_destroy(ctx);
    fflush(stdout);
    return call.code;
}
