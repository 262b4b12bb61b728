// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Prints the reference page of ops as markdown, from the table of ops.
#include "tools/tegula-opt/opt.h"

#include "ir/library.h"

#include <stdio.h>

static const char preamble[] =
    "# Ops of the IR\n"
    "\n"
    "One row an op, printed by `tegula-opt --ops` from `lang/ops.def`, `lang/attrs.def`\n"
    "and `lang/elementwise.def`.\n"
    "A `?` marks what may be absent, `*` a number that varies. The text form is\n"
    "\n"
    "```\n"
    "%results = name %operands [attribute=value, ...] : types of the results {(%argument: type) "
    "...}\n"
    "```\n";

static const struct {
    int trait;
    const char *name;
} trait_names[] = {
    {PURE, "pure"},       {COMMUTES, "commutes"},     {ASSOCIATES, "associates"},
    {SAME, "same types"}, {TERMINATOR, "terminator"}, {READS, "reads"},
    {WRITES, "writes"},   {COMPARES, "compares"},     {ISOLATED, "isolated"},
    {HOST, "host"},       {EFFECT, "effect"},         {TRANSCENDENTAL, "transcendental"},
};

static const struct {
    int cls;
    const char *name;
} class_names[] = {{EC_BOOL, "bool"}, {EC_INT, "integer"}, {EC_FLOAT, "float"}};

/// Prints text in a table cell, with column separators and HTML escaped.
static void print_cell(const char *s) {
    for (; *s; s++) printf(*s == '|' || *s == '<' || *s == '*' ? "\\%c" : "%c", *s);
}

static void print_count(int n) {
    if (n == ANY)
        printf(" \\* |");
    else
        printf(" %d |", n);
}

static void print_traits(int traits) {
    const char *sep = "";
    for (size_t i = 0; i < sizeof trait_names / sizeof *trait_names; i++)
        if (traits & trait_names[i].trait) {
            printf("%s%s", sep, trait_names[i].name);
            sep = ", ";
        }
}

/// `axis:int order:str?`
static void print_op_attrs(const OpInfo *op) {
    for (const uint8_t *a = op->attrs; *a; a++) {
        const AttrInfo *info = &attr_info[*a & ~OPTIONAL_ATTR];
        printf("%s%s:%s%s%s", a == op->attrs ? "`" : " ", info->name, info->kind,
               *a & OPTIONAL_ATTR ? "?" : "", a[1] ? "" : "` ");
    }
    printf("| ");
}

static void print_op_page_row(const OpInfo *op) {
    printf("| `%s` |", op->name);
    print_count(op->n_operands);
    print_count(op->n_results);
    print_count(op->n_regions);
    printf(" ");
    print_traits(op->traits);
    printf(" | ");
    print_op_attrs(op);
    print_cell(op->doc);
    printf(" |\n");
}

static void print_elementwise_row(const OpInfo *op) {
    const char *sep = "";
    printf("| `%s` | %d | ", op->name, op->n_operands);
    for (int i = 0; i < 3; i++)
        if (op->classes & class_names[i].cls) {
            printf("%s%s", sep, class_names[i].name);
            sep = ", ";
        }
    printf(" | ");
    print_traits(op->traits & ~PURE);
    printf(" | ");
    print_cell(op->doc);
    printf(" |\n");
}

static void print_accuracy_row(const LibraryFn *f32, const LibraryFn *f64) {
    printf("| `%s` | %g | %g | ", op_info[f32->op].name, f32->ulps, f64->ulps);
    print_cell(f32->how);
    printf(" |\n");
}

static const char accuracy[] =
    "\n## Accuracy\n\n"
    "Functions of [std/math.teg](../../stdlib/math.teg) compute these ops where the target has\n"
    "no instruction. Each line is a row FUNCTIONS of `lang/elementwise.def`. The columns f32\n"
    "and f64 bound the error, in units in the last place of the result; `unit-math_ulp`\n"
    "checks them. If a method names two degrees or limits, they are those of f32 and f64.\n\n"
    "| op | f32 | f64 | method |\n"
    "|---|---|---|---|\n";

static void print_accuracy(void) {
    fputs(accuracy, stdout);
    for (int i = 0; i < N_LIBRARY_FNS; i++)
        if (library_fns[i].how && library_fns[i].elem == EL_F32)
            print_accuracy_row(&library_fns[i], library_fn(library_fns[i].op, EL_F64));
}

void print_ops_page(void) {
    fputs(preamble, stdout);
    printf("\n## All but elementwise\n\n"
           "| op | operands | results | regions | traits | attributes | meaning |\n"
           "|---|---|---|---|---|---|---|\n");
    for (int i = 0; i < OP_COUNT; i++)
        if (!(op_info[i].traits & ELEMENTWISE)) print_op_page_row(&op_info[i]);
    printf(
        "\n## Attributes\n\n"
        "One row an attribute, from `lang/attrs.def`. The meaning for an op is in the op's row.\n"
        "`const` is an int, a float or a bool; an `enum` is one of the words of lang/enums.def.\n\n"
        "| attribute | kind | meaning |\n"
        "|---|---|---|\n");
    for (int i = ATTR_NONE + 1; i < ATTR_COUNT; i++) {
        printf("| `%s` | %s | ", attr_info[i].name, attr_info[i].kind);
        print_cell(attr_info[i].doc);
        for (const char *const *w = attr_info[i].words; w && *w; w++)
            printf("%s `%s`", w == attr_info[i].words ? ":" : ",", *w);
        printf(" |\n");
    }
    printf(
        "\n## Elementwise\n\n"
        "Operands have one type; the result has it too, or is bool where the op compares.\n"
        "All are pure. Where nothing is said, integers wrap and floats round to nearest even.\n\n"
        "| op | operands | elements | traits | meaning |\n"
        "|---|---|---|---|---|\n");
    for (int i = 0; i < OP_COUNT; i++)
        if (op_info[i].traits & ELEMENTWISE) print_elementwise_row(&op_info[i]);
    print_accuracy();
}
