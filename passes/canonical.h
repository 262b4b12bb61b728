// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The rule tables of canonicalize, one for each file. A rule preserves types and makes no code
// worse. No two rules undo each other, so the driver terminates. Float rules are exact for every
// value.
#ifndef PASSES_CANONICAL_H
#define PASSES_CANONICAL_H

#include "ir/ir.h"

extern const RuleTable shape_rules, arithmetic_rules, control_rules;

/// Like value_replace, and queues the users for another visit.
void replace_result(Rewriter *rw, Value *old, Value *with);

#endif
