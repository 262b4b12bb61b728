// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// tegula: the command line.
#include "tools/tegula/cli.h"

#include "driver/jit.h"

#include <string.h>
#include <unistd.h>

/// `tegula --serve` is the other process of TG_COMPILE=process: no command for people.
int main(int argc, char **argv) {
    if (argc == 2 && strcmp(argv[1], "--serve") == 0)
        return serve(STDIN_FILENO, STDOUT_FILENO) ? EXIT_OK : EXIT_BUG;
    return cli_main(argc - 1, argv + 1);
}
