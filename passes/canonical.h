// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The rule tables of canonicalize, one a file. Laws: a rule preserves types; no two rules undo
// each other, so the driver ends; no rule makes code worse; float rules are exact for every value.
#ifndef PASSES_CANONICAL_H
#define PASSES_CANONICAL_H

#include "ir/ir.h"

extern const RuleTable shape_rules, arithmetic_rules, control_rules;

/// value_replace that has the users visited again.
void replace_result(Rewriter *rw, Value *old, Value *with);

#endif
