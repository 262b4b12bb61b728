// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The tables of elementwise arithmetic: the computation of an op for each class of elements.
#ifndef BACKENDS_LLVM_ELEMENTWISE_TABLE_H
#define BACKENDS_LLVM_ELEMENTWISE_TABLE_H

#include "backends/llvm/llvm.h"

/// One way to compute an op: `emit` with an LLVM opcode, predicate, op or intrinsic.
typedef struct Way {
    LLVMValueRef (*emit)(const Gen *g, const struct Way *w, Elem elem, const LLVMValueRef *a);
    int code;
    const char *name;
} Way;

typedef struct Row {
    Way s, u, f; // by the class of the operands; bool uses u
} Row;

#define CODE(f, c)                                                                                 \
    { f, c, NULL }
#define PLAIN(f)                                                                                   \
    { f, 0, NULL }
#define NONE                                                                                       \
    { NULL, 0, NULL }
#define FLOAT(way)                                                                                 \
    { NONE, NONE, way }

/// Returns the way of portable modules (gpu_arithmetic.c), or NULL if it is that of a CPU.
const Way *portable_way(OpCode code, Elem elem);
/// The same for ways that take operands in register form, not widened.
const Way *portable_narrow_way(OpCode code, Elem elem);
/// portable_to_int truncates and saturates to an integer of at least 8 bits; `from` is f32 or f64,
/// NaN gives 0. portable_select returns c ? x : y if one instruction computes it, else NULL.
LLVMValueRef portable_select(const Gen *g, LLVMValueRef c, LLVMValueRef x, LLVMValueRef y);
LLVMValueRef portable_to_int(const Gen *g, Elem from, Elem to, LLVMValueRef v);
/// Converts f32 to bf16, or to an f8 type that the target converts to; f8e4m3 to f32 if the target
/// does.
LLVMValueRef portable_to_bf16(const Gen *g, LLVMValueRef v);
LLVMValueRef portable_to_f8(const Gen *g, Elem to, LLVMValueRef v);
LLVMValueRef portable_from_f8(const Gen *g, Elem from, LLVMValueRef v);

/* ---- two registers at once (gpu_pairs.c): false where there is no such instruction ----------- */

/// Whether portable_pair handles two elements.
bool portable_has_pair(const Gen *g, OpCode code, Elem elem);
/// Computes the op on args[k][at] and args[k][at + 1], for ops with portable_has_pair.
void portable_pair(const Gen *g, OpCode code, Elem elem, LLVMValueRef *const *args, int at,
                   LLVMValueRef out[2]);
/// Narrows two f32 to elem.
bool portable_narrow_pair(const Gen *g, Elem elem, const LLVMValueRef in[2], LLVMValueRef out[2]);
/// Widens two values of an f8 type to f16, in place.
bool portable_widen_pair(const Gen *g, Elem elem, LLVMValueRef v[2]);

#endif
