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

/// One attribute of a row of ops.def: "axis:int", "order:str?".
typedef struct AttrSpec {
    const char *name, *kind; // not terminated
    int name_len, kind_len;
    int kinds; // bit 1 << AttrKind for each allowed kind
    bool optional;
} AttrSpec;
/// Reads the next attribute of OpInfo.attrs. Returns false at the end.
bool next_attr_spec(const char **rest, AttrSpec *spec);
/// The attribute of that name in the row of code.
bool find_attr_spec(OpCode code, const char *name, AttrSpec *spec);

/* ---- print.c ------------------------------------------------------------------------------- */

/// For messages: `f32<64x32>`.
char *type_text(Ctx *ctx, const Type *t);
/// The NaN whose text is `nan`.
#define QUIET_NAN 0x7ff8000000000000u
bool is_name_char(int c); // of values, ops and attributes in the text

/* ---- limits -------------------------------------------------------------------------------- */

/// The most lanes of a block: far beyond use, and small enough that products cannot overflow.
#define MAX_LANES (INT64_C(1) << 40)

#endif
