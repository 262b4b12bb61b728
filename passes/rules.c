// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The list of all tables of rules; see rules.h.
#include "passes/rules.h"
#include "passes/canonical.h"
#include "passes/combine.h"
#include "passes/partial_folds.h"
#include "passes/gpu/narrow.h"
#include "passes/range/range_private.h"

const RuleTable *rule_table(int i) {
    static const RuleTable *const tables[] = {
        &control_rules,  &shape_rules,    &arithmetic_rules, &interval_table, &combine_ways,
        &fold_chunkings, &proof_table,    &divisor_table,    &fact_table,
        &narrow_affine,  &narrow_compare, &narrow_small,
    };
    const int n = sizeof tables / sizeof *tables;
    if (i < n_fold_tables) return &fold_tables[i];
    return i - n_fold_tables < n ? tables[i - n_fold_tables] : NULL;
}
