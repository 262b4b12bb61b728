// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Kernels with control flow, accesses and products for testing rewrite rules, as texts with
// choices.
#ifndef TESTS_UNIT_RULE_TEXTS_H
#define TESTS_UNIT_RULE_TEXTS_H

#include "ir/ir.h"

/// Calls `use` with each combination of the choices `<<a|b>>` of each template, and with the
/// template's pass, for a GPU or (NULL) for a CPU.
void each_rule_text(Ctx *ctx, void (*use)(const char *text, const char *pass, const char *gpu));
/// Runs the kernel before and after the pass. Returns the number of compared values; *text gets any
/// difference. `watch` is told of the applied rules.
int64_t text_compare(const char *kernel, const Pass *pass, const char *gpu, RuleWatch *watch,
                     void *user, Text *text);

#endif
