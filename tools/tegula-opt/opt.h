// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Shared declarations of the `tegula-opt` program.
#ifndef TOOLS_TEGULA_OPT_OPT_H
#define TOOLS_TEGULA_OPT_OPT_H

#include "lang/base.h"

#include <stdio.h>

enum { EXIT_USER = 1, EXIT_USAGE = 2, EXIT_BUG = 3 };

/// Returns a whole file, malloc'd and terminated, or NULL.
char *read_all(FILE *f, size_t *len);
/// Runs body(ctx, arg) in a context of its own and prints its messages, then done(arg) if all went
/// well; NULL: nothing. The exit code.
int run_in_context(void (*body)(Ctx *ctx, void *arg), void (*done)(void *arg), void *arg);

/// Checks the library in FOLDER as a build does (library.c). The exit code.
int check_library(const char *folder);
/// docs/use/ops.md: one row an op, from the table of ops.
void print_ops_page(void);
/// docs/inside/model.md: one row a constant, from the table of the models.
void print_model_page(void);
/// The tables of ops for programs: fields with tabs between, the kind of row first.
void print_tables(void);

#endif
