// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Small expressions for testing rewrite rules: built as IR, and run by the interpreter before and
// after a pass, on all values of narrow types and on boundary values of wide ones.
#ifndef TESTS_UNIT_RULE_INSTANCE_H
#define TESTS_UNIT_RULE_INSTANCE_H

#include "ir/eval.h"
#include "passes/passes.h"

/// The type of a block, of no Ir.
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
    int var;    // VAR, SPLAT
    Cell value; // CONST
    int n, operand[3];
    IntsAttr list;  // of the op, or 0: `perm` or `start`
    IntAttr number; // of the op, or 0; its value is ints[0]
    int n_ints;     // of perm and start
    int64_t ints[3];
    BoolAttr flag; // of the op, or 0
} Node;

/// The last node is the root. A splat variable is a scalar, repeated where it is used.
enum { MAX_NODES = 8, MAX_VARS = 4 };
typedef struct Instance {
    int n, n_vars;
    Node node[MAX_NODES];
    Shape var[MAX_VARS]; // of elementwise instances: only the element counts
    bool splat[MAX_VARS], shaped;
} Instance;

/// Adds a node; its number.
int instance_var(Instance *in, Shape type, int letter);
int instance_splat(Instance *in, Shape type);
int instance_const(Instance *in, Shape type, Cell value);
int instance_op(Instance *in, OpCode code, Shape type, int n, const int *operands);

/// The op of the root, in a kernel that does nothing but compute it from its arguments.
Op *instance_probe(Ir *ir, const Instance *in);
/// Runs it as it is and after the pass; the number of values compared. *text gets the kernel and
/// what differs, where it differs.
int64_t instance_compare(const Instance *in, const Pass *pass, Text *text);

/// Constants that rules ask for: zeros, ones, extremes, NaN. How many.
int special_cells(Elem e, Cell *out);
/// All values of types up to 8 bits where `all`, else boundary values. How many.
enum { MAX_VALUES = 256 };
int element_values(Elem e, bool all, Cell *out);

#endif
