// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Square transposition in registers by shuffle networks.
//
// Vectors are cut into 128-bit groups, the width of every x86 unpack. Rows of one group are
// interleaved log2(group) times (row 2i, 2i + 1 = unpack of rows i and i + group / 2). This
// transposes each group x group square in place. The groups are then transposed by exchanging the
// off-diagonal halves at distance d = group, 2 group, ... n / 2.
#include <string.h>

#include "backends/cpu/cpu.h"

static int lane_bits(LLVMValueRef v) {
    LLVMTypeRef t = gen_lane_type(v);
    switch (LLVMGetTypeKind(t)) {
    case LLVMHalfTypeKind: return 16;
    case LLVMFloatTypeKind: return 32;
    case LLVMDoubleTypeKind: return 64;
    default: return (int)LLVMGetIntTypeWidth(t);
    }
}

/// Interleaves the low or high halves of the groups of x and y.
static LLVMValueRef unpack_groups(const Gen *g, int n, int group, bool high, LLVMValueRef x,
                                  LLVMValueRef y) {
    int pick[MAX_LANES];
    for (int l = 0; l < n; l++) {
        int in_group = l % group;
        pick[l] = l - in_group + (high ? group / 2 : 0) + in_group / 2 + (in_group % 2 ? n : 0);
    }
    return gen_shuffle(g, x, y, n, pick);
}

static void transpose_inside(const Gen *g, int n, int group, LLVMValueRef *rows) {
    LLVMValueRef next[MAX_LANES];
    for (int round = 1; round < group; round *= 2) {
        for (int i = 0; i < group / 2; i++) {
            next[2 * i] = unpack_groups(g, n, group, false, rows[i], rows[i + group / 2]);
            next[2 * i + 1] = unpack_groups(g, n, group, true, rows[i], rows[i + group / 2]);
        }
        memcpy(rows, next, sizeof *rows * (size_t)group);
    }
}

/// x keeps its lanes with bit d clear and gets those of y in the others; y the other way round.
static void exchange_lanes(const Gen *g, int n, int d, LLVMValueRef *x, LLVMValueRef *y) {
    int low[MAX_LANES], high[MAX_LANES];
    for (int l = 0; l < n; l++) {
        low[l] = l & d ? n + (l ^ d) : l;
        high[l] = l & d ? n + l : l | d;
    }
    LLVMValueRef a = gen_shuffle(g, *x, *y, n, low);
    *y = gen_shuffle(g, *x, *y, n, high);
    *x = a;
}

void emit_transpose(const Gen *g, int n, LLVMValueRef *vectors) {
    if (n < 2) return;
    int group = 128 / lane_bits(vectors[0]);
    if (group > n) group = n;
    for (int i = 0; i < n; i += group) transpose_inside(g, n, group, vectors + i);
    for (int d = group; d < n; d *= 2)
        for (int i = 0; i < n; i++)
            if (!(i & d)) exchange_lanes(g, n, d, &vectors[i], &vectors[i | d]);
}
