// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Prints the tables of elements, ops, builtins and axes of the schedule as rows for programs. The
// random kernels of tests/fuzz are made from them.
//
//   elem    NAME BITS CLASS
//   op      NAME OPERANDS RESULTS REGIONS CLASSES elementwise|approximate|other
//   builtin NAME LEAST MOST NAMED effect|value PLACE
//   axis    NAME LEAST MOST any|power|plan
#include "frontend/builtins/builtins.h"
#include "ir/library.h"
#include "lang/axes.h"
#include "tools/tegula-opt/opt.h"

#include <inttypes.h>
#include <stdio.h>

static void print_classes(int classes) {
    printf("\t%s%s%s%s%s", classes & EC_BOOL ? "b" : "", classes & EC_SINT ? "s" : "",
           classes & EC_UINT ? "u" : "", classes & EC_FLOAT ? "f" : "", classes ? "" : "-");
}

static void print_elem_row(const ElemInfo *e) {
    printf("elem\t%s\t%d", e->name, e->bits);
    print_classes(e->cls);
    printf("\n");
}

/// Whether a function of the library errs by more than the rounding of its result.
static bool is_approximate(const OpInfo *op) {
    for (int i = 0; i < N_LIBRARY_FNS; i++)
        if (&op_info[library_fns[i].op] == op && library_fns[i].ulps > 0.5) return true;
    return false;
}

static void print_op_table_row(const OpInfo *op) {
    printf("op\t%s\t%d\t%d\t%d", op->name, op->n_operands, op->n_results, op->n_regions);
    print_classes(op->classes);
    printf("\t%s\n", is_approximate(op)         ? "approximate"
                     : op->traits & ELEMENTWISE ? "elementwise"
                                                : "other");
}

static void print_builtin_row(const Builtin *b) {
    printf("builtin\t%s\t%d\t%d\t%s\t%s\t%s\n", b->name, b->min_args, b->max_args,
           b->named[0] ? b->named : "-", b->flags & BF_EFFECT ? "effect" : "value",
           b->flags & BF_PLACE ? "place" : "-");
}

static void print_axis_row(const AxisInfo *a) {
    printf("axis\t%s\t%" PRId64 "\t%" PRId64 "\t%s\n", a->name, a->least, a->most,
           a->plan    ? "plan"
           : a->power ? "power"
                      : "any");
}

void print_tables(void) {
    for (int i = 0; i < EL_COUNT; i++) print_elem_row(&elem_info[i]);
    for (int i = 0; i < OP_COUNT; i++) print_op_table_row(&op_info[i]);
    const char *const *names;
    Ctx *ctx = ctx_create(NULL);
    int n = builtin_names(ctx, &names);
    for (int i = 0; i < n; i++) print_builtin_row(builtin_by_name(names[i]));
    for (int i = 0; i < AXIS_COUNT; i++) print_axis_row(&axis_info[i]);
    ctx_destroy(ctx);
}
