// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Declarations shared by the files of the builtins only.
#ifndef FRONTEND_BUILTINS_BUILTINS_PRIVATE_H
#define FRONTEND_BUILTINS_BUILTINS_PRIVATE_H

#include "frontend/elab/elab.h"

/// Evaluates argument i as a block of at least this rank (0 also takes scalars and constants) whose
/// element is in `classes`. `wanted` describes this for messages. NULL after an error.
Value *arg_block(Elab *e, const Call *call, int i, int min_rank, int classes, const char *wanted);
/// Reports "argument 2 of `dot` must be `wanted`, found ...".
Val bad_argument(Elab *e, const Call *call, int i, const char *wanted);
/// Reads the named axis for a block of that rank; `otherwise` if omitted. False after an error.
bool arg_axis(Elab *e, const Call *call, int named, int rank, int64_t otherwise, int64_t *out);
/// Reads a named constant bool, false if omitted. False after an error.
bool arg_flag(Elab *e, const Call *call, int named, bool *out);
/// Returns the element for accumulating sums and products of e.
Elem wide_elem(Elem e);

/// Returns 0, 1, 2 ... along an axis, as an i64 block of the shape of `like`.
Value *positions_along(Elab *e, const Type *like, int64_t axis);

typedef Val Apply(Elab *e, const Call *call);
/* builtins_shape.c */
Apply bi_reshape, bi_permute, bi_trans, bi_broadcast, bi_concat, bi_bitcast, bi_bits, bi_bitsize,
    bi_iota, bi_extent, bi_gather, bi_histogram, bi_dot, bi_isfloat, bi_isint;
/* builtins_reduce.c */
Apply bi_reduce, bi_scan, bi_sort, bi_topk, bi_min_max;
/* builtins_tensor.c */
Apply bi_index, bi_valid, bi_present, bi_range, bi_cover, bi_ceildiv, bi_stride, bi_align,
    bi_combine, bi_atomic, bi_assert, bi_print;
/* builtins_comm.c */
Apply bi_my_pe, bi_n_pes, bi_put, bi_get, bi_put_signal, bi_signal_op, bi_signal_wait, bi_fence,
    bi_barrier_all;

#endif
