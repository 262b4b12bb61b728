// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Shared declarations of the `tegula-opt` program.
#ifndef TOOLS_TEGULA_OPT_OPT_H
#define TOOLS_TEGULA_OPT_OPT_H

#include "lang/base.h"

#include <stdio.h>

enum { EXIT_USER = 1, EXIT_USAGE = 2, EXIT_BUG = 3 };

/// Returns a whole file, malloc'd and NUL-terminated, or NULL.
char *read_all(FILE *f, size_t *len);
/// Runs body(ctx, arg) in its own context and prints the messages. After success, calls done(arg)
/// unless done is NULL. Returns the exit code.
int run_in_context(void (*body)(Ctx *ctx, void *arg), void (*done)(void *arg), void *arg);

/// Checks the library in FOLDER as a build does (library.c). Returns the exit code.
int check_library(const char *folder);
/// Prints docs/use/ops.md: a row for each op, from the table of ops.
void print_ops_page(void);
/// Prints docs/inside/model.md: a row for each constant, from the table of the models.
void print_model_page(void);
/// Prints the table of GPUs of docs/status.md, from lang/gpus.def.
void print_gpus(void);
/// Prints the tables of ops for programs: tab-separated fields, the kind of row first.
void print_tables(void);

#endif
