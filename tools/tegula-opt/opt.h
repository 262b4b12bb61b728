// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What the files of the `tegula-opt` program share.
#ifndef TOOLS_TEGULA_OPT_OPT_H
#define TOOLS_TEGULA_OPT_OPT_H

/// docs/use/ops.md: one row an op, from the table of ops.
void print_ops_page(void);
/// The same tables for programs: fields with tabs between, the kind of row first.
void print_tables(void);

#endif
