// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Small expressions for testing rewrite rules: built as IR, and run by the interpreter before and
// after a pass, on all values of narrow types and on boundary values of wide ones.
#ifndef TESTS_UNIT_RULE_INSTANCE_H
#define TESTS_UNIT_RULE_INSTANCE_H

#include "ir/eval.h"
#include "passes/passes.h"

/// The type of a block, independent of an Ir.
typedef struct Shape {
    Elem elem;
    int rank;
    int64_t extents[3];
} Shape;

typedef enum NodeKind { NODE_VAR, NODE_CONST, NODE_SPLAT, NODE_OP } NodeKind;
typedef struct Node {
    NodeKind kind;
    OpCode code;
    Shape type;
    int var;    // for VAR, SPLAT
    Cell value; // for CONST
    int n, operand[3];
    IntsAttr list;  // of the op, or 0: `perm` or `start`
    IntAttr number; // of the op, or 0; its value is ints[0]
    int n_ints;     // of perm and start
    int64_t ints[3];
    BoolAttr flag; // of the op, or 0
} Node;

/// The last node is the root. A splat variable is a scalar that is repeated where it is used.
enum { MAX_NODES = 8, MAX_VARS = 4 };
typedef struct Instance {
    int n, n_vars;
    Node node[MAX_NODES];
    Shape var[MAX_VARS]; // of elementwise instances, only the element counts
    bool splat[MAX_VARS], shaped;
} Instance;

/// Adds a node and returns its number.
int instance_var(Instance *in, Shape type, int letter);
int instance_splat(Instance *in, Shape type);
int instance_const(Instance *in, Shape type, Cell value);
int instance_op(Instance *in, OpCode code, Shape type, int n, const int *operands);

/// Returns the root's op in a kernel that only computes it from its arguments.
Op *instance_probe(Ir *ir, const Instance *in);
/// Runs it before and after the pass. Returns the number of compared values. On a difference, *text
/// gets the kernel and the difference.
int64_t instance_compare(const Instance *in, const Pass *pass, Text *text);

/// Lists constants for rules: zeros, ones, extremes, NaN. Returns their number.
int special_cells(Elem e, Cell *out);
/// Lists all values of types up to 8 bits if `all`, otherwise boundary values. Returns their
/// number.
enum { MAX_VALUES = 256 };
int element_values(Elem e, bool all, Cell *out);

#endif
