// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The messages and their report function. Only sources that report a message include this header,
// so a new row of diag.def rebuilds only those.
#ifndef LANG_DIAG_H
#define LANG_DIAG_H

#include "lang/base.h"

/// A row of diag.def: `DIAG(ID, ERROR | WARNING, "printf format")`.
typedef enum DiagId {
#define DIAG(id, severity, text) D_##id,
#include "lang/diag.def"
    D_COUNT
} DiagId;

/// Reports a user's mistake with the arguments of the row's format. After MAX_ERRORS errors it
/// gives up (ctx_give_up). The same text at the same place is reported once.
void diag(Ctx *ctx, Loc loc, DiagId id, ...);
/// Makes the last note or hint of the last message, or the message itself if it has none, a
/// correction for editors: `replacement` for the text at loc. An empty place is an insertion.
void diag_offer(Ctx *ctx, Loc loc, const char *replacement);

#endif
