// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// One instance through the compiler: elaboration, passes, code.
#include <string.h>
#include <unistd.h>

#include "driver/driver.h"

int machine_threads(void) {
    long n = sysconf(_SC_NPROCESSORS_ONLN);
    return n > 0 ? (int)n : 1;
}

bool build_elaborate(Build *b) {
    if (!cpu_backend.info(b->level, &b->target)) {
        diag(b->ctx, (Loc){0}, D_INTERNAL, "no such level of the target");
        return false;
    }
    build_choose(b);
    b->ir = ir_create(b->ctx);
    b->code = fe_elaborate(b->ir, b->program, b->inst);
    return b->code && b->code->module && !diag_errors(b->ctx);
}

/// Sets *arg where the target leaves an op to the library of elementary functions.
static void needs_library(Op *op, void *arg) {
    if (!op_has(op, ELEMENTWISE) || op->n_operands == 0) return;
    Elem elem = operand(op, 0)->type->elem;
    if (elem_is(elem, EC_FLOAT) && !cpu_backend.has_op(op->code, elem)) *(bool *)arg = true;
}

/// `split` is an axis of the schedule, but its pass runs on the IR of the whole kernel.
PassEnv build_env(Build *b) {
    PassEnv env = {.ir = b->ir,
                   .threads = b->threads ? b->threads : machine_threads(),
                   .l1_bytes = b->target.l1_bytes,
                   .l2_bytes = b->target.l2_bytes,
                   .check = b->inst->check,
                   .vector_bytes = b->target.vector_bytes};
    for (int i = 0; i < b->code->n_config; i++)
        if (strcmp(b->code->config[i].name, "split") == 0)
            env.split = (int)b->code->config[i].value;
    // Elaborating the library takes longer than most kernels do.
    bool library = false;
    op_walk_pre(b->code->module, needs_library, &library);
    if (library) env.library = fe_math_library(b->ir, b->code->module);
    return env;
}

bool build_passes(Build *b) {
    PassEnv env = build_env(b);
    bool ok = run_passes(&env, b->code->module, cpu_pipeline, cpu_pipeline_length, &b->passes);
    return ok && !diag_errors(b->ctx);
}

Code *build_code(Build *b, const char *name, int texts, bool load) {
    CodeOptions options = {.level = b->level,
                           .check = b->inst->check,
                           .debug = b->debug,
                           .texts = texts,
                           .notes = b->notes,
                           .name = name};
    return cpu_backend.compile(b->ir, b->code->module, &options, load);
}
