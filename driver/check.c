// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What can be said of a source without arguments.
#include "driver/driver.h"

/// Elaborates the default instance of a kernel: that is where types are checked. The pass `pads`
/// adds its warnings.
static void check_kernel(Ctx *ctx, const Program *program, const FnDef *kernel) {
    Ir *ir = ir_create(ctx);
    Inst *inst = fe_default_inst(ctx, program, kernel);
    inst->check = true;
    Elaborated *code = fe_elaborate(ir, program, inst);
    if (!code || !code->module || diag_errors(ctx)) return;
    PassEnv env = {.ir = ir, .check = true, .threads = 1};
    PassOptions options = {0};
    const Pass *const pipeline[] = {&pass_table[PASS_CANONICALIZE], &pass_table[PASS_PADS]};
    run_passes(&env, code->module, pipeline, sizeof pipeline / sizeof *pipeline, &options);
}

bool program_check(Ctx *ctx, const Program *program) {
    int before = diag_errors(ctx);
    for (int k = 0; k < fe_kernel_count(program) && diag_errors(ctx) == before; k++)
        check_kernel(ctx, program, fe_kernel(program, k));
    return diag_errors(ctx) == before;
}
