// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Shared declarations of the `tegula` program.
#ifndef TOOLS_TEGULA_CLI_H
#define TOOLS_TEGULA_CLI_H

#include "driver/driver.h"
#include "tools/timing.h"

/// Exit codes. USER: an error in the input. USAGE: one in the command line. BUG: one in Tegula.
enum { EXIT_OK, EXIT_USER, EXIT_USAGE, EXIT_BUG };

/* ---- args.c -------------------------------------------------------------------------------- */

typedef enum Command {
#define CMD(id, ...) id##_BIT,
#include "tools/tegula/commands.def"
    COMMAND_COUNT
} Command;

typedef struct List {
    const char **at;
    int n;
} List;

typedef struct Options {
    Command command;
    List files, named; // named: the options that were given
    const char *kernel, *target, *flops, *batch, *level, *dump_after;
    const char *codegen, *gpus;
    const char *output, *header, *cpu_levels, *prefix, *depfile, *seconds, *json;
    List args, outs, sets, types, givens, paths, exports, dims, among;
    int64_t threads, repeat, ranks, seed;
    bool check, debug, guard, quiet, locs, verify_each, time_passes, in_place, fmt_check;
    const char *size, *days, *comm;
    const char *shapes, *mode, *budget, *report, *jsonl, *tuned, *roofline, *html;
    int64_t variants;
    bool merge, again, marks, counters, picture;
    bool werror, check_json, names, jit, verbose, all, as_json;
} Options;

/// Parses the words after the program's name. Returns -1, or an exit code if the program is done
/// (help was printed, or a mistake reported). Lists live in ctx.
int args_parse(Ctx *ctx, int argc, char **argv, Options *out);
/// Reports an option that `beside` would ignore: "'--out' has no effect with --emit". The first
/// refuses options in a list of names ("out repeat"), the second all options that are not in the
/// list. Returns true if none was given.
bool args_refuse(const Options *o, const char *beside, const char *names);
bool args_refuse_others(const Options *o, const char *beside, const char *names);
/// Splits a line into words like a shell: blanks, '...', "..." and backslashes. Returns the number
/// of words, or -1 if a quote is not closed.
int args_split(Ctx *ctx, const char *line, char ***words);
/// Parses `NAME=VALUE`: copies the name, returns the value; NULL (reported) without a `=`.
const char *args_pair(Ctx *ctx, const char *option, const char *text, const char **name);

/* ---- report.c ------------------------------------------------------------------------------ */

/// Reports a usage error: `tegula: error: ...`. cli_hint then gives advice.
void cli_error(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/// Reports a problem that does not stop the command.
void cli_warning(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
void cli_hint(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/// Prints all diagnostics of ctx that were not printed yet. Returns the number of errors.
int cli_diagnostics(Ctx *ctx);
bool cli_colour(int fd);

/* ---- named_sources.c ------------------------------------------------------------------------ */

/// Reads a file (`-`: standard input) into the context; 0 (reported) if it cannot be read.
uint16_t source_read(Ctx *ctx, const char *path);
/// Finds imported files beside the importing one, then in the folders of --path.
const Importer *option_importer(Ctx *ctx, const Options *o);

/// Tests whether file_write would succeed, without leaving a file. False (reported) if not.
bool file_can_be_written(Ctx *ctx, const char *path);
/// Writes a temporary file beside it and renames it, so that the file is never half written.
/// Returns false (reported) on failure.
bool file_write(Ctx *ctx, const char *path, const void *data, size_t bytes);

/* ---- commands ------------------------------------------------------------------------------ */
// Each returns an exit code. They run inside ctx_protect.

int cmd_run(Ctx *ctx, const Options *o);
int cmd_emit(Ctx *ctx, const Options *o);
int cmd_explain(Ctx *ctx, const Options *o);
int cmd_check(Ctx *ctx, const Options *o);
int cmd_fmt(Ctx *ctx, const Options *o);
int cmd_targets(Ctx *ctx, const Options *o);
int cmd_build(Ctx *ctx, const Options *o);
int cmd_bench(Ctx *ctx, const Options *o);
int cmd_profile(Ctx *ctx, const Options *o);
int cmd_cache(Ctx *ctx, const Options *o);
int cmd_lsp(Ctx *ctx, const Options *o);
int cmd_tune(Ctx *ctx, const Options *o);
int cmd_doctor(Ctx *ctx, const Options *o);
int cmd_completion(Ctx *ctx, const Options *o);

/// Parses and runs one command line (without the program's name) in a context of its own; prints
/// its diagnostics. Returns the exit code.
int cli_main(int argc, char **argv);

#endif
