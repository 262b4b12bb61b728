// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Tables of rules: their rows by number, and the callback for each applied rule.
#include "ir/ir_private.h"

#include <string.h>

const char *rule_algebra(const RuleTable *t, int row) {
    const char *algebra;
    memcpy(&algebra, (const char *)t->rows + (size_t)row * t->row_size + t->algebra_at,
           sizeof algebra);
    return algebra;
}

void ir_watch_rules(Ir *ir, RuleWatch *watch, void *user) {
    ir->watch = watch;
    ir->watch_user = user;
}

void rule_applied(const Ir *ir, const Op *op, const char *algebra) {
    if (ir->watch) ir->watch(ir->watch_user, op, algebra);
}
