// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Messages on the terminal, and the clock.
#include "tools/tegula/cli.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

bool cli_colour(int fd) {
    const char *off = secure_getenv("NO_COLOR"), *term = secure_getenv("TERM");
    return isatty(fd) && !(off && *off) && term && strcmp(term, "dumb") != 0;
}

static void print_message(const char *colour, const char *kind, const char *fmt, va_list ap) {
    bool on = cli_colour(STDERR_FILENO);
    fflush(stdout);
    fprintf(stderr, "%s%s%s: ", on ? colour : "", kind, on ? "\033[0m" : "");
    vfprintf(stderr, fmt, ap);
    fputc('\n', stderr);
}

void cli_error(const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    fputs("tegula: ", stderr);
    print_message("\033[1;31m", "error", fmt, ap);
    va_end(ap);
}

void cli_warning(const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    fputs("tegula: ", stderr);
    print_message("\033[1;33m", "warning", fmt, ap);
    va_end(ap);
}

void cli_hint(const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    print_message("\033[1;36m", "hint", fmt, ap);
    va_end(ap);
}

static void print_cli_diagnostics(Ctx *ctx, void *arg) {
    (void)arg;
    bool colour = cli_colour(STDERR_FILENO);
    for (const Diagnostic *d = diag_first(ctx); d; d = d->next) {
        Text text = {.ctx = ctx};
        diag_render(&text, ctx, d, colour);
        fputs(text.data, stderr);
    }
}

int cli_diagnostics(Ctx *ctx) {
    fflush(stdout);
    ctx_protect(ctx, print_cli_diagnostics, NULL); // the message may be about exhausted memory
    return diag_errors(ctx);
}
