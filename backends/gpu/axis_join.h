// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Lines along an axis of blocks of one layout, for ordered reductions and scans. Blocks of 1, 2, 4
// ... neighbours are joined within a thread and a warp. The remaining pieces of a line are its
// parts.
#ifndef BACKENDS_GPU_AXIS_JOIN_H
#define BACKENDS_GPU_AXIS_JOIN_H

#include "backends/gpu/lower.h"

enum { GPU_TUPLE = 16 };

/// The join of all elements of a line before a place: [value of the tuple][register].
typedef struct GpuPrefix {
    LLVMValueRef *at[GPU_TUPLE];
    LLVMValueRef *has; // i1 of a register: the prefix is not empty; NULL: in every register
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
    int near;                       // steps of the plan within a warp
    LLVMValueRef *total[GPU_TUPLE]; // total of the block of 2^j elements around a register's
                                    // element
    // For scans: the prefix of an element in its block (exclusive or inclusive), and the prefix of
    // the block.
    GpuPrefix inner, outer;
    int64_t *group; // the register with the outer prefix; NULL: none yet
    int64_t *same;  // the first register of the same block
    bool spread;    // each line is in one warp, as far as possible
    // After axis_join_finish: parts of lines, each of 2^near elements.
    int64_t parts, lines;
    int64_t *line; // line of each register: a register of the layout without the axis
    LLVMValueRef *part[GPU_TUPLE]; // [line * parts + part]
} AxisJoin;

AxisJoin *axis_join_begin(GpuFn *f, const Op *op, int n);
/// out = a joined with the later b. out may be a or b.
void axis_join_parts(const AxisJoin *s, LLVMValueRef *const a, LLVMValueRef *const b,
                     LLVMValueRef *out);
/// Puts `before` before the prefix of register r if c holds (i1, perhaps constant).
void axis_join_extend_prefix(AxisJoin *s, int64_t r, LLVMValueRef c, LLVMValueRef *before);
/// Joins the inner and outer prefixes of each element.
LLVMValueRef **axis_join_prefixes(AxisJoin *s);
/// Joins blocks up to 2^near elements, then brings all parts of its own lines to each thread.
void axis_join_finish(AxisJoin *s);
/// Runs a whole reduction. Returns the registers of the results, in the layout without the axis.
void axis_join_reduce(AxisJoin *s, LLVMValueRef **out);
/// Whether it is better to share the parts of op's n blocks among the warps than to reduce all of
/// them in each warp.
bool gpu_should_spread(const Op *op, int n, const Layout *l, int64_t lines, int64_t parts);
/// Returns a layout over the threads of l, for blocks of its extents, with registers and lanes
/// along d first.
const Layout *gpu_spread_layout(GpuFn *f, const Layout *l, int d);
/// Returns, for each register of l, its register in `kept`, the layout with extent 1 along the
/// axis.
int64_t *gpu_line_registers(GpuFn *f, const Op *op, const Layout *kept, const Layout *l);
/// Moves all blocks at once from one layout to another through shared memory, or through that of
/// every CTA of the cluster if they cross CTAs.
void gpu_exchange(GpuFn *f, const Layout *from, const Layout *to, int n, const Elem *elems,
                  LLVMValueRef *const *in, LLVMValueRef **out);

#endif
