// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A kernel during elaboration: its parameters, dims and choices. Shared by elab_kernel.c,
// elab_param.c and elab_call.c.
#ifndef FRONTEND_ELAB_ELAB_KERNEL_H
#define FRONTEND_ELAB_ELAB_KERNEL_H

#include "frontend/elab/elab.h"

/// A dim: a name bound by a tensor's axis. An axis of an unmerged pack is a dim of its own, named
/// `N.1`.
typedef struct KDim {
    const char *name;
    Loc loc;
    int param, axis; // the axis of the IR tensor that binds it,
    int64_t plus;    // whose extent is larger by this: `E + 1` binds E if no other axis does
    bool known;      // its value is known at compile time
    int64_t value;
    bool fixed;          // it is a constant of this instance
    int64_t least, most; // extents of the axis that this instance is right for
    Val val;
} KDim;

/// The groups of merged axes in a pack: group i is axes from[i] .. from[i + 1] of the pack.
typedef struct Pack {
    const char *name;
    int given, groups;
    int from[MAX_RANK + 1];
} Pack;

typedef struct KParam {
    const Param *p;
    const ParamInst *inst;
    ParamUse *use;
    Elem elem;
    Tensor *tensor; // or NULL
    const Pack *pack;
    int n_axes;
    int64_t extents[MAX_RANK], strides[MAX_RANK]; // of the IR tensor, as far as known, else DYNAMIC
    const Expr *axis_expr[MAX_RANK];              // the axis in the type; NULL: part of a pack
    KDim *axis_dim[MAX_RANK];                     // its dim, or NULL
    Val axis_val[MAX_RANK];                       // the required extent, once computed
} KParam;

typedef VEC(const char *) NameList;

struct Kernel {
    const FnDef *def;
    const Inst *inst;
    const char *name; // of its op
    Kernel *outer;    // the kernel that calls this one
    bool called;      // called by another kernel: its tensors are already bound, and packs are not
                      // merged
    uint64_t steps;   // the work of elaborating it, including copies of the kernels that it calls
    Op *op, *mark;    // launch checks go before the mark
    Value *rank;      // the own rank; NULL: no parameter is symmetric
    Value *ranks;     // the number of ranks
    Value *control;   // the control block of waits; NULL: the kernel has none
    KParam *params;
    ParamUse *uses;
    VEC(KDim *) dims;
    VEC(Pack *) packs;
    VEC(NamedValue) config;
    Config chosen;  // the tune values that the instance leaves open
    PtrMap hoisted; // value -> itself or its copy at the launch checks
    NameList fixed; // dims that must be constants, kept over rounds
};

/// Makes the region's arguments, binds dims and parameters in the scope, and emits the launch
/// checks. False after an error.
bool kernel_params(Elab *e);
/// Adds the launch checks of tensors that the body writes.
void kernel_check_written(Elab *e);
KDim *kernel_find_dim(const Kernel *k, const char *name);
/// Returns the value fixed by hand for a dim, const parameter or type parameter.
const NamedValue *inst_dim(const Inst *inst, const char *name);
const NamedValue *inst_set(const Inst *inst, const char *name);
/// Limits the instance to values of v from least to most, by narrowing the dims of v.
void kernel_note_bounds(Elab *e, const Value *v, int64_t least, int64_t most);
/// `require cond` at the launch checks; text as of OP_REQUIRE.
enum { MAX_REQUIRE_VALUES = 8 };
void kernel_require(Elab *e, Loc loc, Value *cond, const char *text, int n, Value *const *values);
/// Returns the extent or stride of an axis as the caller passed it, even if the type has a
/// constant.
Value *kernel_passed(Elab *e, OpCode op, Value *tensor, int axis);
/// Builds the kernel op of `k` in the module; repeats until no more dims must be constants. False
/// after an error.
bool kernel_elaborate(Elab *e, Kernel *k, const char *name);
void kernel_set_config(Elab *e);

typedef VEC(NamedValue) NamedValues;
/// Adds a value, unless the list has one of this name already.
void named_value_add(Ctx *ctx, NamedValues *list, const char *name, int64_t v);
bool is_constant_name(const Program *p, const Expr *x);
/// Whether x depends on made-up values, for lack of arguments.
bool is_tentative(const Elab *e, const Inst *inst, const Expr *x);
/// Chooses the values that the instance leaves open: the first combination that satisfies every
/// `where`. Returns false, with a message, if no combination does or the search gives up; true,
/// without values, if `where` decides nothing.
bool el_choose(Elab *e, const Inst *inst, Config *out);

/// Reads a plan's name in an alternative of the axis `plan`. Returns false for another axis or an
/// expression; *out is PLAN_CHOSEN for an unknown plan.
bool axis_plan(const char *axis, const Expr *x, int64_t *out);

#endif
