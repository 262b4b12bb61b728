// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// tegula lsp in a build without Jansson.
#include "tools/tegula/cli.h"

int cmd_lsp(Ctx *ctx, const Options *o) {
    (void)ctx, (void)o;
    cli_error("this tegula was built without the library jansson, which the language server needs");
    cli_hint("install libjansson-dev, and build again: see docs/use/editors.md");
    return EXIT_USER;
}
