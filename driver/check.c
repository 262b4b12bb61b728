// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What can be said of a source without arguments.
#include "driver/driver.h"

static bool has_constants(const FnDef *f) {
    for (int i = 0; i < f->params.n; i++)
        if (f->params.at[i].constant) return true;
    return false;
}

/// Elaborates the default instance of a kernel: that is where types are checked. The pass `pads`
/// adds its warnings, `comm-overlap` and `combine` find what no target can join. False: there are
/// errors, which other values might not bring about.
static bool check_kernel(Ctx *ctx, const Program *program, const FnDef *kernel) {
    Ir *ir = ir_create(ctx);
    Inst *inst = fe_default_inst(ctx, program, kernel);
    int before = diag_errors(ctx);
    inst->check = true;
    Elaborated *code = fe_elaborate(ir, program, inst);
    bool only = !code->n_specialised && !has_constants(kernel);
    if (diag_errors(ctx) > before) return only;
    if (!code->module) return true;
    PassEnv env = {.ir = ir, .check = true, .threads = 1};
    PassOptions options = {0};
    const Pass *const pipeline[] = {&pass_table[PASS_CANONICALIZE], &pass_table[PASS_PADS],
                                    &pass_table[PASS_COMM_OVERLAP], &pass_table[PASS_COMBINE]};
    run_passes(&env, code->module, pipeline, sizeof pipeline / sizeof *pipeline, &options);
    return diag_errors(ctx) == before || only;
}

// Steps of all kernels of a file: a hundred times what the library's largest one takes.
enum { MAX_CHECK = 1000000 };

bool program_check(Ctx *ctx, const Program *program, bool certain) {
    int before = diag_errors(ctx);
    uint64_t last = ctx_steps(ctx) + MAX_CHECK;
    for (int k = 0; k < fe_kernel_count(program); k++) {
        const FnDef *kernel = fe_kernel(program, k);
        if (ctx_steps(ctx) > last) {
            if (!certain) diag(ctx, kernel->name.loc, D_UNCHECKED, kernel->name.text, MAX_CHECK);
            break;
        }
        DiagMark mark = diag_mark(ctx);
        if (!check_kernel(ctx, program, kernel) && certain) diag_rewind(ctx, mark);
    }
    return diag_errors(ctx) == before;
}
