// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Lines along an axis of blocks of one layout, for ordered reductions and scans: blocks of 1, 2, 4
// ... neighbours are joined within a thread and a warp; what is left of a line are parts.
#ifndef BACKENDS_GPU_AXIS_JOIN_H
#define BACKENDS_GPU_AXIS_JOIN_H

#include "backends/gpu/lower.h"

enum { GPU_TUPLE = 16 };

/// What of a line is before a place: [value of the tuple][register].
typedef struct GpuPrefix {
    LLVMValueRef *at[GPU_TUPLE];
    LLVMValueRef *has; // i1 of a register: anything is; NULL: in every one
} GpuPrefix;

/// Tuples of values that a region joins. Arrays of registers are [value of the tuple][register].
typedef struct AxisJoin {
    GpuFn *f;
    const Op *op;
    int n; // values of a tuple
    OpCode monoid;
    const Layout *layout;
    int axis;
    int64_t extent, registers;
    bool reverse;
    LayoutScan plan;
    int near;                       // steps of the plan that stay in a warp
    LLVMValueRef *total[GPU_TUPLE]; // of the block of 2^j elements around a register's element
    // Of scans: what is before an element (or up to it) in its block, and before the block.
    GpuPrefix inner, outer;
    int64_t *group; // the register that has the outer prefix; NULL: there is none yet
    int64_t *same;  // the first register of the same block
    bool spread;    // its lines are in one warp each, as far as can be
    // After axis_join_finish: parts of lines, each of 2^near elements.
    int64_t parts, lines;
    int64_t *line; // of each register: its line, a register of the layout without the axis
    LLVMValueRef *part[GPU_TUPLE]; // [line * parts + part]
} AxisJoin;

AxisJoin *axis_join_begin(GpuFn *f, const Op *op, int n);
/// out = a joined with the later b; out may be either.
void axis_join_parts(const AxisJoin *s, LLVMValueRef *const a, LLVMValueRef *const b,
                     LLVMValueRef *out);
/// Puts `before` before the prefix of register r where c (i1, perhaps constant).
void axis_join_extend_prefix(AxisJoin *s, int64_t r, LLVMValueRef c, LLVMValueRef *before);
/// All prefixes joined to one.
LLVMValueRef **axis_join_prefixes(AxisJoin *s);
/// Joins blocks up to 2^near elements, then brings all parts of the own lines to each thread.
void axis_join_finish(AxisJoin *s);
/// All of a reduction: the registers of the results, in the layout without the axis.
void axis_join_reduce(AxisJoin *s, LLVMValueRef **out);
/// Whether so many parts of op's n blocks from other warps are better shared out among the warps
/// than reduced by each of them.
bool gpu_should_spread(const Op *op, int n, const Layout *l, int64_t lines, int64_t parts);
/// Over the same threads as l, of blocks of its extents: registers and lanes along d first.
const Layout *gpu_spread_layout(GpuFn *f, const Layout *l, int d);
/// reg of `kept`, the layout with extent 1 along the axis, for each register of l.
int64_t *gpu_line_registers(GpuFn *f, const Op *op, const Layout *kept, const Layout *l);
/// Blocks from one layout to another through shared memory, that of every CTA of a cluster where
/// they cross CTAs; all at once.
void gpu_exchange(GpuFn *f, const Layout *from, const Layout *to, int n, const Elem *elems,
                  LLVMValueRef *const *in, LLVMValueRef **out);

#endif
