// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Roles: one branch sends each warp to the code of its role.
//
// Each role begins with a new warpgroup, because the four warps of a group must request registers
// together. A warp without a role ends at the branch. The threads of a role meet at a barrier of
// their own.
#include "backends/gpu/lower.h"
#include "backends/gpu/ring.h"

int gpu_warps_of_all(const Op *device) {
    const Op *roles = device_roles(device);
    return roles ? role_first_warp(roles, roles->n_regions) : (int)op_int(device, A_WARPS, 1);
}

/// At the start of a role, some warps release registers, and others wait until the registers that
/// they request are available.
static void set_registers(GpuFn *f, const Op *roles, int i) {
    const Attr *regs = op_ints(roles, A_ROLE_REGISTERS);
    if (!regs) return;
    int threads = gpu_warps_of_all(f->device) * f->target->lanes;
    bool more = regs->ints[i] * threads > f->target->registers_sm;
    gpu_call(f,
             ctx_format(f->ctx, "tg.nv.setmaxnreg.%s.%d", more ? "inc" : "dec", (int)regs->ints[i]),
             0);
}

static LLVMValueRef warp_below(GpuFn *f, int warp) {
    return LLVMBuildICmp(f->g->b, LLVMIntULT, gpu_uniform_warp(f), gpu_i32(f, warp), "");
}

static void find_product(Op *op, void *arg) {
    *(bool *)arg |= op->code == OP_MMA_START || op->code == OP_DOT;
}

/// "copies" or "products 1": the name of a role in profiles.
static const char *role_name(GpuFn *f, const Region *r, int i) {
    bool products = false;
    for_each_op(op, r) op_walk_pre(op, find_product, &products);
    return ctx_format(f->ctx, "%s %d", products ? "products" : "copies", i);
}

static void lower_role(GpuFn *f, const Op *roles, int i) {
    int warps = (int)op_ints(roles, A_ROLE_WARPS)->ints[i], first = role_first_warp(roles, i);
    GpuRole role = {.barrier = 1 + i,
                    .threads = warps * f->target->lanes,
                    .first = first * f->target->lanes,
                    .name = role_name(f, roles->regions[i], i)};
    bool idle = first + warps < role_first_warp(roles, i + 1);
    GpuIf busy;
    set_registers(f, roles, i);
    if (idle) busy = gpu_if(f, warp_below(f, first + warps));
    f->role = &role;
    gpu_mark(f, roles, "role");
    gpu_region(f, roles->regions[i]);
    gpu_mark(f, roles, GPU_MARK_END);
    f->role = NULL;
    if (!idle) return;
    gpu_else(f, &busy);
    gpu_end_if(f, &busy);
}

/// Each role starts from the state of shared memory before the roles, since rings order the
/// accesses of different roles.
void gpu_lower_roles(GpuFn *f, Op *op) {
    GpuIf *ifs = ctx_array(f->ctx, GpuIf, op->n_regions);
    GpuShared before = gpu_shared_state(f);
    for (int i = 0; i < op->n_regions; i++) {
        bool last = i == op->n_regions - 1;
        gpu_shared_restore(f, &before);
        if (!last) ifs[i] = gpu_if(f, warp_below(f, role_first_warp(op, i + 1)));
        lower_role(f, op, i);
        if (!last) gpu_else(f, &ifs[i]);
    }
    for (int i = op->n_regions - 2; i >= 0; i--) gpu_end_if(f, &ifs[i]);
    f->any_stretch = true;
}
