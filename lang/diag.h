// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The messages, and how one is reported. Only sources that name a message include this header: a
// new row of diag.def rebuilds those alone.
#ifndef LANG_DIAG_H
#define LANG_DIAG_H

#include "lang/base.h"

/// One row each in diag.def, `DIAG(ID, ERROR | WARNING, "printf format")`.
typedef enum DiagId {
#define DIAG(id, severity, text) D_##id,
#include "lang/diag.def"
    D_COUNT
} DiagId;

/// Reports a user's mistake. The arguments are those of the row's format. After MAX_ERRORS
/// errors it gives up (ctx_give_up). The same text at the same place is reported once.
void diag(Ctx *ctx, Loc loc, DiagId id, ...);

#endif
