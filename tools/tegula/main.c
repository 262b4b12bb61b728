// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// tegula: the command line.
#include "tools/tegula/cli.h"

int main(int argc, char **argv) {
    return cli_main(argc - 1, argv + 1);
}
