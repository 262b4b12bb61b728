// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// All tables of rules, for tests: those of folding, and of the passes that consist of rules.
#ifndef PASSES_RULES_H
#define PASSES_RULES_H

#include "ir/ir.h"

/// Returns table i, or NULL after the last one.
const RuleTable *rule_table(int i);

#endif
