// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// tegula: the command line.
#include "tools/tegula/cli.h"

#include "driver/code_cache.h"
#include "driver/jit.h"
#include "runtime/base/process.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

/// A full disk may be noticed only when output is flushed.
static int flush_output(int code) {
    if (fflush(stdout) == 0 && !ferror(stdout)) return code;
    cli_error("cannot write to standard output");
    return code ? code : EXIT_USER;
}

/// `tegula --serve` is the compiler process of TG_COMPILE=process, not a command for people. It
/// closes the files that the host program has open.
static int run_service(void) {
    rt_close_files(STDERR_FILENO + 1, ~0U);
    return (int)serve(STDIN_FILENO, STDOUT_FILENO);
}

static void print_log_line(const char *line) {
    fprintf(stderr, "tegula: %s\n", line);
}

int main(int argc, char **argv) {
    if (argc == 2 && strcmp(argv[1], "--serve") == 0) return run_service();
    code_cache_warn_by(print_log_line);
    return flush_output(cli_main(argc - 1, argv + 1));
}
