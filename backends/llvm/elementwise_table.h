// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The tables of elementwise arithmetic: how an op is computed on elements of a class.
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
    Way s, u, f; // by the class of the operands; bool goes by u
} Row;

#define CODE(f, c)                                                                                 \
    { f, c, NULL }
#define PLAIN(f)                                                                                   \
    { f, 0, NULL }
#define NONE                                                                                       \
    { NULL, 0, NULL }
#define FLOAT(way)                                                                                 \
    { NONE, NONE, way }

/// What portable modules say otherwise than a CPU's (gpu_arithmetic.c); NULL where they do not.
const Way *portable_way(OpCode code, Elem elem);
/// The same where it takes operands as they are in registers, not widened.
const Way *portable_narrow_way(OpCode code, Elem elem);
/// Truncates and saturates to an integer of at least 8 bits; `from` is f32 or f64, NaN gives 0.
/// c ? x : y where one instruction gives it; else NULL.
LLVMValueRef portable_select(const Gen *g, LLVMValueRef c, LLVMValueRef x, LLVMValueRef y);
LLVMValueRef portable_to_int(const Gen *g, Elem from, Elem to, LLVMValueRef v);
/// f32 to bf16, or to an f8 type that the target converts to; f8e4m3 to f32 where it does.
LLVMValueRef portable_to_bf16(const Gen *g, LLVMValueRef v);
LLVMValueRef portable_to_f8(const Gen *g, Elem to, LLVMValueRef v);
LLVMValueRef portable_from_f8(const Gen *g, Elem from, LLVMValueRef v);

/* ---- two registers at once (gpu_pairs.c): false where there is no such instruction ---------
 */

/// Whether portable_pair works on two of them.
bool portable_has_pair(const Gen *g, OpCode code, Elem elem);
/// The op on args[k][at] and args[k][at + 1], of which it does.
void portable_pair(const Gen *g, OpCode code, Elem elem, LLVMValueRef *const *args, int at,
                   LLVMValueRef out[2]);
/// Two f32 to elem.
bool portable_narrow_pair(const Gen *g, Elem elem, const LLVMValueRef in[2], LLVMValueRef out[2]);
/// Two of an f8 type to f16, in place.
bool portable_widen_pair(const Gen *g, Elem elem, LLVMValueRef v[2]);

#endif
