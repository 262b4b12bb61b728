// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Checks a source without knowing arguments of a launch.
#include "driver/driver.h"
#include "frontend/program.h"

#include "lang/diag.h"

static bool has_constants(const FnDef *f) {
    for (int i = 0; i < f->params.n; i++)
        if (f->params.at[i].constant) return true;
    return false;
}

/// Elaborates an instance, and keeps its types for editors if the program has a table for them.
static Elaborated *elaborate_noting(Ctx *ctx, Ir *ir, const Program *program, const Inst *inst) {
    NameTable *names = program->names;
    if (names) names->keeps_types = true;
    Elaborated *code = fe_elaborate(ir, program, inst);
    if (!names) return code;
    names->keeps_types = false;
    KernelNote note = {inst->kernel, code};
    vec_push(ctx, &names->kernels, note);
    return code;
}

/// Elaborates the default instance of a kernel, which checks types. The pass `pads` adds its
/// warnings; `comm-overlap` and `combine` find transfers and combines that no target supports.
/// False: there are errors that other values might avoid.
static bool check_default_instance(Ctx *ctx, const Program *program, const FnDef *kernel) {
    Ir *ir = ir_create(ctx);
    Inst *inst = fe_default_inst(ctx, program, kernel);
    int before = diag_errors(ctx);
    inst->check = true;
    Elaborated *code = elaborate_noting(ctx, ir, program, inst);
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

typedef struct TypesRequest {
    const Program *program;
    const FnDef *kernel;
} TypesRequest;

static void elaborate_for_types(Ctx *ctx, void *arg) {
    const TypesRequest *r = arg;
    elaborate_noting(ctx, ir_create(ctx), r->program, fe_default_inst(ctx, r->program, r->kernel));
}

void program_note_types(Ctx *ctx, Program *program) {
    bool broken = program->broken;
    program->broken = false;
    for (int k = 0; k < fe_kernel_count(program); k++) {
        TypesRequest r = {program, fe_kernel(program, k)};
        // Errors that were reported before must count as errors again.
        DiagState before = diag_set_aside(ctx);
        CtxStatus status = ctx_protect(ctx, elaborate_for_types, &r);
        diag_restore(ctx, before);
        ctx_pass_on(ctx, status);
    }
    program->names->keeps_types = false; // an error may have ended the last one
    program->broken = broken;
}

/* ---- element types ------------------------------------------------------------------------- */

/// A kernel with one or two of its type parameters set to elements that their constraints allow.
typedef struct TypeAttempt {
    const Program *program;
    const FnDef *kernel;
    TypeChoice types[2];
    int n;
    uint64_t last; // the last step of the budget
} TypeAttempt;

static void elaborate_attempt(Ctx *ctx, void *arg) {
    const TypeAttempt *a = arg;
    Inst *inst = fe_default_inst(ctx, a->program, a->kernel);
    for (int i = 0; i < a->n; i++) fe_choose_type(ctx, inst, a->types[i]);
    fe_elaborate(ir_create(ctx), a->program, inst);
}

/// Returns the first error of an attempt, and forgets the messages. NULL: no error.
static const Diagnostic *first_error(Ctx *ctx, TypeAttempt *a) {
    DiagMark mark = diag_mark(ctx);
    const Diagnostic *error = NULL;
    ctx_pass_on(ctx, ctx_protect(ctx, elaborate_attempt, a));
    for (const Diagnostic *d = mark.last ? mark.last->next : diag_first(ctx); d; d = d->next)
        if (d->severity == SEV_ERROR && !error) error = d;
    diag_rewind(ctx, mark);
    return error;
}

/// Whether the kernel compiles if another type parameter differs from its default, as in (i8, i32).
static bool compiles_with_another(Ctx *ctx, TypeAttempt *a) {
    const Generic *all = a->kernel->generics.at;
    for (int i = 0; i < a->kernel->generics.n; i++) {
        if (&all[i] == a->types[0].generic) continue;
        for (Elem elem = 0; elem < EL_COUNT && ctx_steps(ctx) <= a->last; elem++) {
            if (!fe_constraint_allows(&all[i], elem)) continue;
            a->types[1] = (TypeChoice){&all[i], elem};
            a->n = 2;
            if (!first_error(ctx, a)) return true;
        }
    }
    return false;
}

/// Warns if a constraint allows types with which the kernel never compiles. The hint lists the
/// types that do compile.
static void check_generic(Ctx *ctx, TypeAttempt *a, const Generic *generic) {
    const Diagnostic *why = NULL;
    Elem bad = EL_COUNT;
    Text good = {.ctx = ctx};
    for (Elem elem = 0; elem < EL_COUNT && ctx_steps(ctx) <= a->last; elem++) {
        if (!fe_constraint_allows(generic, elem)) continue;
        a->types[0] = (TypeChoice){generic, elem};
        a->n = 1;
        const Diagnostic *error = first_error(ctx, a);
        if (!error || compiles_with_another(ctx, a))
            text_add(&good, "%s%s", good.n ? " | " : "", elem_info[elem].name);
        else if (!why)
            why = error, bad = elem;
    }
    if (!why || !good.n || ctx_steps(ctx) > a->last) return;
    diag(ctx, generic->name.loc, D_TYPE_FAILS, a->kernel->name.text, generic->name.text,
         elem_info[bad].name);
    diag_note(ctx, why->loc, "%s", why->text);
    const Names *list = &generic->constraint;
    Loc first = list->at[0].loc, end = list->at[list->n - 1].loc;
    if (first.line == end.line) first.len = (uint16_t)(end.col + end.len - first.col);
    diag_fix(ctx, first.line == end.line ? first : (Loc){0}, good.data, "it does with '%s: %s'",
             generic->name.text, good.data);
}

void program_check_types(Ctx *ctx, const Program *program, int k, uint64_t last) {
    TypeAttempt a = {.program = program, .kernel = fe_kernel(program, k), .last = last};
    for (int i = 0; i < a.kernel->generics.n; i++)
        check_generic(ctx, &a, &a.kernel->generics.at[i]);
}

/* ---- programs ------------------------------------------------------------------------------ */

// Steps for all kernels of a file: a hundred times those of the library's largest file.
enum { MAX_CHECK = 1000000 };

uint64_t program_check_kernels(Ctx *ctx, const Program *program, bool certain) {
    uint64_t last = ctx_steps(ctx) + MAX_CHECK;
    for (int k = 0; k < fe_kernel_count(program); k++) {
        const FnDef *kernel = fe_kernel(program, k);
        if (ctx_steps(ctx) > last) {
            if (!certain) diag(ctx, kernel->name.loc, D_UNCHECKED, kernel->name.text, MAX_CHECK);
            break;
        }
        DiagMark mark = diag_mark(ctx);
        if (!check_default_instance(ctx, program, kernel) && certain) diag_rewind(ctx, mark);
    }
    return last;
}

bool program_check(Ctx *ctx, const Program *program, bool certain) {
    int before = diag_errors(ctx);
    uint64_t last = program_check_kernels(ctx, program, certain);
    for (int k = 0; !certain && diag_errors(ctx) == before && k < fe_kernel_count(program); k++)
        program_check_types(ctx, program, k, last);
    return diag_errors(ctx) == before;
}
