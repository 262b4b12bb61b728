// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// One kernel being elaborated: its parameters, dims and choices. Shared by elab_kernel.c,
// elab_param.c and elab_call.c.
#ifndef FRONTEND_ELAB_ELAB_KERNEL_H
#define FRONTEND_ELAB_ELAB_KERNEL_H

#include "frontend/elab/elab.h"

/// A dim: a name bound by a tensor's axis. An axis of a pack that could not be merged is a dim of
/// its own, named `N.1`.
typedef struct KDim {
    const char *name;
    Loc loc;
    int param, axis; // the axis of the IR tensor that binds it,
    int64_t plus;    // whose extent is this much more: `E + 1` binds E where nothing else does
    bool known;      // its value is known when compiling
    int64_t value;
    bool fixed;          // it is a constant of this instance
    int64_t least, most; // extents of the axis that this instance is right for
    Val val;
} KDim;

/// How the axes of a pack are put together: group i is axes from[i] .. from[i + 1] of the pack.
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
    const Expr *axis_expr[MAX_RANK];              // what the type says of the axis; NULL: a pack's
    KDim *axis_dim[MAX_RANK];                     // the dim it is, or NULL
    Val axis_val[MAX_RANK];                       // the extent it must have, once asked for
} KParam;

typedef VEC(const char *) NameList;

struct Kernel {
    const FnDef *def;
    const Inst *inst;
    const char *name; // of its op
    Kernel *outer;    // the kernel that calls this one
    bool called;      // by another kernel: its tensors come as they are, packs are not merged
    uint64_t steps;   // of the work that it is, with copies of the kernels that it calls
    Op *op, *mark;    // launch checks go before the mark
    Value *rank;      // the own rank; NULL: no parameter is symmetric
    Value *ranks;     // how many there are
    Value *control;   // what waits look at; NULL: nothing waits
    KParam *params;
    ParamUse *uses;
    VEC(KDim *) dims;
    VEC(Pack *) packs;
    VEC(NamedValue) config;
    Config chosen;  // the tune values that the instance leaves open
    PtrMap hoisted; // value -> itself or its copy at the launch checks
    NameList fixed; // dims found to be needed as constants, kept over rounds
};

/// Makes the region's arguments, binds dims and parameters in the scope, emits the launch checks.
/// False after an error.
bool kernel_params(Elab *e);
/// Adds the launch checks of tensors that the body was found to write.
void kernel_check_written(Elab *e);
KDim *kernel_find_dim(const Kernel *k, const char *name);
/// The value fixed by hand for a dim, const parameter or type parameter.
const NamedValue *inst_dim(const Inst *inst, const char *name);
const NamedValue *inst_set(const Inst *inst, const char *name);
/// The instance is right for values of v from least to most alone: notes it at the dims of v.
void kernel_note_bounds(Elab *e, const Value *v, int64_t least, int64_t most);
/// `require cond` at the launch checks; text as of OP_REQUIRE.
enum { MAX_REQUIRE_VALUES = 8 };
void kernel_require(Elab *e, Loc loc, Value *cond, const char *text, int n, Value *const *values);
/// The extent or stride of an axis as the caller passed it, whatever the type says.
Value *kernel_passed(Elab *e, OpCode op, Value *tensor, int axis);
/// Builds the kernel op of `k` in the module; repeats while dims are found to be constants.
/// False after an error.
bool kernel_elaborate(Elab *e, Kernel *k, const char *name);
void kernel_set_config(Elab *e);

typedef VEC(NamedValue) NamedValues;
/// The first value of a name counts.
void named_value_add(Ctx *ctx, NamedValues *list, const char *name, int64_t v);
bool is_constant_name(const Program *p, const Expr *x);
/// Whether x depends on values that were made up for want of arguments.
bool is_tentative(const Elab *e, const Inst *inst, const Expr *x);
/// The values that the instance leaves open, by the first combination that satisfies every `where`.
/// False, with a message, where there is none, or none among so many that the search gives up;
/// true, with no values, where no `where` says anything.
bool el_choose(Elab *e, const Inst *inst, Config *out);

/// The plan that an alternative of the axis `plan` names. False: it is another axis, or an
/// expression; *out is PLAN_CHOSEN where there is no such plan.
bool axis_plan(const char *axis, const Expr *x, int64_t *out);

#endif
