// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The internals of the IR, for the files of this folder only.
#ifndef IR_IR_PRIVATE_H
#define IR_IR_PRIVATE_H

#include "ir/ir.h"

struct Ir {
    Ctx *ctx;
    PtrMap types;              // interned bytes of a type -> Type
    PtrMap attrs[AT_SUBS + 1]; // of each kind: interned bytes -> Attr
    RuleWatch *watch;          // told of each rule that is applied, or NULL
    void *watch_user;
};

/* ---- op.c ---------------------------------------------------------------------------------- */

/// Inserts op, which is in no region, before `before` or at the end of r.
void region_insert(Region *r, Op *before, Op *op);
void use_link(Op *user, int index, Value *v);
Region *new_region(Ctx *ctx, Op *parent);

/// Whether the op's row in lang/ops.def has the attribute.
bool op_row_has(OpCode code, AttrId id);
/// op_set_attr for the parser: takes any attribute of any kind, which the verifier then checks.
void op_put_attr(Ir *ir, Op *op, AttrId id, const Attr *value);

/* ---- print.c ------------------------------------------------------------------------------- */

/// For messages: `f32<64x32>`.
char *type_text(Ctx *ctx, const Type *t);
/// The NaN whose text is `nan`.
#define QUIET_NAN 0x7ff8000000000000u
/// "axis:int order:str?": the attributes of an op's row.
const char *row_attrs_text(Ctx *ctx, OpCode code);
bool is_name_char(int c); // of values, ops and attributes in the text

/* ---- limits -------------------------------------------------------------------------------- */

/// The most lanes of a block: far beyond use, and small enough that products cannot overflow.
#define MAX_LANES (INT64_C(1) << 40)

#endif
