// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// HTML pages of the commands. A page is one file: it refers to nothing else and has no script.
#ifndef TOOLS_TEGULA_PAGE_H
#define TOOLS_TEGULA_PAGE_H

#include "lang/context.h"

/// Adds text with the letters escaped that HTML and XML reserve. NULL adds nothing.
void page_escape(Text *t, const char *text);
/// Adds the head of a page, up to its main heading, and the end of it.
void page_begin(Text *t, const char *heading, const char *title);
void page_end(Text *t);

#endif
