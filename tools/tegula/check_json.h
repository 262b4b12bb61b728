// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Messages in the form that programs read: `tegula check --json`.
#ifndef TOOLS_TEGULA_CHECK_JSON_H
#define TOOLS_TEGULA_CHECK_JSON_H

#include "lang/base.h"

/// The name of a message in lang/diag.def: "unknown-name".
const char *diag_code(Ctx *ctx, unsigned id);
/// Returns the text as valid UTF-8: `?` stands for bytes of no character.
const char *valid_utf8(Ctx *ctx, const char *text);
/// Prints all messages of the context to standard output as one JSON object.
void print_diagnostics_json(Ctx *ctx);

#endif
