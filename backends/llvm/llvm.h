// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Shared code of all LLVM back ends: types, constants, elementwise arithmetic, conversions, debug
// information, optimisation, object code.
//
// All arithmetic works on "lanes": an LLVM scalar or an LLVM vector of an element type. In
// registers bool is i1, i4 and u4 are i8 (extended), bf16 is i16 and the f8 types are i8 (their
// bits), f16 is half. In memory bool is a byte of 0 or 1.
#ifndef BACKENDS_LLVM_LLVM_H
#define BACKENDS_LLVM_LLVM_H

#include <llvm-c/Core.h>
#include <llvm-c/TargetMachine.h>

#include "ir/ir.h"

/// A module under construction.
typedef struct Gen {
    Ctx *ctx;
    LLVMContextRef llvm;
    LLVMModuleRef module;
    LLVMBuilderRef b; // position of new instructions
    LLVMTypeRef void_, i1, i8, i16, i32, i64, f16, f32, f64, ptr;
    struct Debug *debug; // NULL without debug information
    // The target lacks instructions for f16 <-> f32, for rounding to integers, or for f32 fma. LLVM
    // would call a library, but code must not refer to symbols. The only exception is fma of f64,
    // which refers to libm's.
    bool soft_half, soft_round, soft_fma;
    // A portable module: arithmetic uses only scalars and portable.h's constructs. The target
    // converts from and to the f8 types (f8), and adds and multiplies pairs of f32 (pairs).
    bool portable, f8, pairs;
    const char *strip; // a folder that paths omit, or NULL
} Gen;

/// Returns a source's path as messages and debug information show it.
const char *gen_path(const Gen *g, uint16_t file);

/// Creates a module. ctx releases the LLVM objects.
Gen *gen_create(Ctx *ctx, const char *name);
/// The same in an LLVM context of the caller, who releases it later.
Gen *gen_create_in(Ctx *ctx, LLVMContextRef llvm, const char *name);

enum { MAX_LANES = 256 };

/* ---- types and constants (build_code.c) ----------------------------------------------------- */

LLVMTypeRef gen_elem(const Gen *g, Elem elem);     // in registers
LLVMTypeRef gen_mem_elem(const Gen *g, Elem elem); // in memory; i8 for i4 and u4
int elem_bytes(Elem elem);                         // in memory; 1 for i4 and u4
int gen_lanes(LLVMValueRef v);                     // 0 for a scalar
LLVMTypeRef gen_lane_type(LLVMValueRef v);
LLVMTypeRef gen_vec(LLVMTypeRef scalar, int lanes); // the scalar type itself where lanes is 0
/// Returns a vector with the constant in each lane.
LLVMValueRef gen_same(LLVMValueRef constant, int lanes);
LLVMValueRef gen_i64(const Gen *g, int64_t v);
LLVMValueRef gen_const(const Gen *g, Elem elem, const Attr *a); // INT, FLOAT or BOOL, rounded
LLVMValueRef gen_real(const Gen *g, Elem elem, double value);   // of a float, rounded
LLVMValueRef gen_zero(const Gen *g, Elem elem, int lanes);
/// Returns v in each of `lanes` lanes, or v itself if it is a vector or lanes is 0.
LLVMValueRef gen_splat(const Gen *g, LLVMValueRef v, int lanes);
/// Gives scalars and vectors of args one shape by splatting. Returns the lanes.
int gen_unify(const Gen *g, int n, LLVMValueRef *args);
/// Returns i64 0, 1, 2, ...
LLVMValueRef gen_iota(const Gen *g, int lanes);
/// Returns an i1 vector: the first `live` of `lanes` lanes.
LLVMValueRef gen_first_lanes(const Gen *g, int live, int lanes);
/// Returns lanes pick[0..n) of the concatenation of x and y (y may be NULL). -1 is any value.
LLVMValueRef gen_shuffle(const Gen *g, LLVMValueRef x, LLVMValueRef y, int n, const int *pick);
/// Calls the overloaded intrinsic `name` for the given types.
LLVMValueRef gen_intrinsic(const Gen *g, const char *name, int n_types, LLVMTypeRef *types,
                           int n_args, LLVMValueRef *args);
/// Calls an intrinsic that is overloaded only on the type of its first argument.
LLVMValueRef gen_call1(const Gen *g, const char *name, LLVMValueRef x);
LLVMValueRef gen_call2(const Gen *g, const char *name, LLVMValueRef x, LLVMValueRef y);
/// i64 arithmetic that folds 0 and 1.
LLVMValueRef gen_add(const Gen *g, LLVMValueRef x, LLVMValueRef y);
LLVMValueRef gen_mul(const Gen *g, LLVMValueRef x, LLVMValueRef y);
LLVMValueRef gen_min(const Gen *g, LLVMValueRef x, LLVMValueRef y); // signed
LLVMValueRef gen_max(const Gen *g, LLVMValueRef x, LLVMValueRef y);
/// Returns x and y; NULL stands for true.
LLVMValueRef gen_and(const Gen *g, LLVMValueRef x, LLVMValueRef y);
/// Returns p advanced by bytes.
LLVMValueRef gen_offset(const Gen *g, LLVMValueRef p, LLVMValueRef bytes);

/* ---- arithmetic (elementwise.c) ------------------------------------------------------------ */

/// Computes the elementwise op on operands of element `elem`, all scalars or all vectors of one
/// length. Ops that expand-math removes are a compiler bug here.
LLVMValueRef gen_elementwise(const Gen *g, OpCode code, Elem elem, const LLVMValueRef *args);
/// The same on n registers of a block, args[operand][register]; two at a time if a GPU has an
/// instruction for neighbours.
void gen_elementwise_all(const Gen *g, OpCode code, Elem elem, int n, LLVMValueRef *const *args,
                         LLVMValueRef *out);
LLVMValueRef gen_select(const Gen *g, LLVMValueRef c, LLVMValueRef x, LLVMValueRef y);
/// Whether the back end computes the op itself. expand-math handles the others.
bool gen_has_elementwise(OpCode code, Elem elem);
/// The same for portable modules. They support more functions, by sufficient approximations. It is
/// PassEnv.has_op; all targets agree so far.
struct GpuTarget;
bool gen_portable_has(const struct GpuTarget *target, OpCode code, Elem elem);
/// Returns the neutral element of a monoid (region_monoid) on elem.
LLVMValueRef gen_identity(const Gen *g, OpCode monoid, Elem elem);

/* ---- conversions (convert.c) --------------------------------------------------------------- */

LLVMValueRef gen_cast(const Gen *g, Elem from, Elem to, LLVMValueRef v);
/// Converts f16, bf16 and f8 to f32, the type of their arithmetic, and back with one rounding.
/// Others are unchanged.
LLVMValueRef gen_widen(const Gen *g, Elem elem, LLVMValueRef v);
LLVMValueRef gen_narrow(const Gen *g, Elem elem, LLVMValueRef v);
Elem elem_computes_in(Elem elem);
/// Casts n registers of a block, two at a time if one instruction does; `out` may be `in`.
void gen_cast_all(const Gen *g, Elem from, Elem to, int n, const LLVMValueRef *in,
                  LLVMValueRef *out);
void gen_narrow_all(const Gen *g, Elem elem, int n, const LLVMValueRef *in, LLVMValueRef *out);
/// Converts f64 to f32, rounded to odd. Rounding that to a format of at most 22 significant bits
/// equals rounding v itself.
LLVMValueRef gen_f64_to_odd(const Gen *g, LLVMValueRef v);
/// Returns a b + c of f32 operands in f64, rounded to odd. Rounding that to a format of at most 51
/// significant bits equals rounding the exact sum.
LLVMValueRef gen_fma_to_odd(const Gen *g, LLVMValueRef a, LLVMValueRef b, LLVMValueRef c);
/// Converts f16 by integer arithmetic, for targets without instructions (soft_arithmetic.c).
LLVMValueRef soft_half_widen(const Gen *g, LLVMValueRef v);
LLVMValueRef soft_half_narrow(const Gen *g, LLVMValueRef v);
/// Computes floor, ceil, trunc, rint, round by addition; f32 fma by f64.
LLVMValueRef soft_round(const Gen *g, OpCode code, LLVMValueRef v);
LLVMValueRef soft_fma(const Gen *g, LLVMValueRef a, LLVMValueRef b, LLVMValueRef c);
/// Converts register form to memory form and back (bool).
LLVMValueRef gen_to_memory(const Gen *g, Elem elem, LLVMValueRef v);
LLVMValueRef gen_from_memory(const Gen *g, Elem elem, LLVMValueRef v);
LLVMValueRef gen_bitcast(const Gen *g, Elem from, Elem to, LLVMValueRef v);

#endif
