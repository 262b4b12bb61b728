// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Passes keep the meaning of kernels. The interpreter runs each module of tests/unit/passes/*.tir
// before and after every pass, and after the pipelines of a CPU and of GPUs, on the same random
// arguments.
//
// A module gives its arguments: `// args: x=5x7 s=7 n=3`, a word for each parameter, in order: the
// extents of a tensor (`t=` alone: rank 0) or the value of a scalar (marked by `:`, `n:3`). The
// elements of `off=4+` never decrease.
#include "ir/interp/interp.h"
#include "passes/gpu/gpu.h"
#include "passes/passes.h"

#include <dirent.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { MAX_ARGS = 16, MAX_BYTES = 1 << 16 };

typedef struct Run {
    const char *text, *kernel;
    const Pass *const *passes;
    int n_passes, n_args, threads, split, roles, persistent;
    const char *gpu;
    unsigned char data[MAX_ARGS][MAX_BYTES];
    Elem elem[MAX_ARGS];
    int64_t count[MAX_ARGS];
    bool rising[MAX_ARGS];
    bool ok;
} Run;

/* ---- arguments ----------------------------------------------------------------------------- */

static uint64_t next_random(uint64_t *s) {
    *s = *s * 6364136223846793005u + 1442695040888963407u;
    return *s >> 33;
}

/// Small numbers: sums are exact in any order, and integers also serve as indices.
static void fill(Run *r, int i, uint64_t *seed) {
    for (int64_t k = 0; k < r->count[i]; k++) {
        int64_t v = (int64_t)(next_random(seed) % 9) - 2;
        bool real = elem_is(r->elem[i], EC_FLOAT);
        Cell c = real ? (Cell){.f = (double)v} : (Cell){.i = v < 0 ? -v : v};
        if (r->rising[i] && k) c.i = c.i % 3 + cell_load(r->elem[i], r->data[i], k - 1).i;
        cell_store(r->elem[i], r->data[i], k, cell_wrap(r->elem[i], c));
    }
}

/// Parses a word of the args line.
static InterpArg read_arg(Run *r, int i, const Type *type, const char *word) {
    InterpArg a = {0};
    const char *at = word + strcspn(word, "=:");
    if (*at == ':') {
        double v = strtod(at + 1, NULL);
        a.scalar = elem_is(type->elem, EC_FLOAT) ? (Cell){.f = v} : (Cell){.i = (int64_t)v};
        return a;
    }
    a.tensor = (Tensor){.data = r->data[i], .elem = type->elem, .rank = type->rank};
    r->elem[i] = type->elem;
    r->count[i] = 1;
    for (int d = 0; d < type->rank; d++) {
        char *end;
        a.tensor.extents[d] = strtoll(at + 1, &end, 10);
        at = end;
        r->count[i] *= a.tensor.extents[d];
    }
    r->rising[i] = *at == '+';
    int64_t stride = 1;
    for (int d = type->rank - 1; d >= 0; d--) {
        a.tensor.strides[d] = stride;
        stride *= a.tensor.extents[d];
    }
    assert_true(r->count[i] * 8 <= MAX_BYTES);
    return a;
}

static void read_args(Run *r, Op *kernel, InterpArg *args) {
    char line[512];
    const char *from = strstr(r->text, "// args:");
    assert_non_null(from);
    from += strlen("// args:");
    snprintf(line, sizeof line, "%.*s", (int)strcspn(from, "\n"), from);
    uint64_t seed = 7;
    r->n_args = 0;
    for (char *word = strtok(line, " "); word; word = strtok(NULL, " ")) {
        int i = r->n_args++;
        const Type *type = kernel->regions[0]->args[i]->type;
        args[i] = read_arg(r, i, type, word);
        if (type->kind == TK_TENSOR) fill(r, i, &seed);
    }
    assert_int_equal(r->n_args, kernel->regions[0]->n_args);
}

/* ---- runs ---------------------------------------------------------------------------------- */

static void run_body(Ctx *ctx, void *arg) {
    Run *r = arg;
    Ir *ir = ir_create(ctx);
    Op *module = ir_parse(ir, ctx_add_source(ctx, "test.tir", r->text, strlen(r->text)));
    if (!module || !ir_verify(ir, module)) return;
    PassEnv env = {.ir = ir,
                   .threads = r->threads,
                   .l1_bytes = 1 << 15,
                   .l2_bytes = 1 << 20,
                   .vector_bytes = 32,
                   .gpu = r->gpu ? gpu_target(r->gpu) : NULL,
                   .roles = r->roles,
                   .skew = r->roles,
                   .persistent = r->persistent,
                   .split = r->split};
    PassOptions options = {.verify_each = true};
    if (!run_passes(&env, module, r->passes, r->n_passes, &options)) return;
    InterpArg args[MAX_ARGS];
    Op *kernel = find_kernel(module, r->kernel);
    if (!kernel) return;
    read_args(r, kernel, args);
    InterpOptions how = {.seed = 3};
    r->ok = interp_run(ir, module, r->kernel, r->n_args, args, &how);
}

static void run(Run *r, const char *what) {
    Ctx *ctx = ctx_create(NULL);
    r->ok = false;
    CtxStatus status = ctx_protect(ctx, run_body, r);
    Text t = {.ctx = ctx};
    for (const Diagnostic *d = diag_first(ctx); d; d = d->next)
        if (d->severity == SEV_ERROR) diag_render(&t, ctx, d, false);
    if (status != CTX_OK || !r->ok) fail_msg("%s, %s: %s", r->kernel, what, t.n ? t.data : "?");
    ctx_destroy(ctx);
}

static bool alike(Elem e, Cell a, Cell b) {
    return cell_equal(e, a, b) ||
           (elem_is(e, EC_FLOAT) && fabs(a.f - b.f) <= 1e-5 * (fabs(a.f) + fabs(b.f)));
}

static void compare(const Run *before, const Run *after, const char *what) {
    for (int i = 0; i < before->n_args; i++)
        for (int64_t k = 0; k < before->count[i]; k++) {
            Elem e = before->elem[i];
            Cell a = cell_load(e, before->data[i], k), b = cell_load(e, after->data[i], k);
            if (!alike(e, a, b))
                fail_msg("%s, %s: argument %d differs at %d: %g, %g", before->kernel, what, i,
                         (int)k, elem_is(e, EC_FLOAT) ? a.f : (double)a.i,
                         elem_is(e, EC_FLOAT) ? b.f : (double)b.i);
        }
}

/// Checks that the kernel works as before after these passes.
static void check_on(Run *plain, const char *what, const Pass *const *passes, int n, int threads,
                     int split, const char *gpu, int roles, int persistent) {
    static Run after;
    memset(&after, 0, sizeof after);
    after.text = plain->text;
    after.kernel = plain->kernel;
    after.passes = passes;
    after.roles = roles;
    after.persistent = persistent;
    after.n_passes = n;
    after.threads = threads;
    after.split = split;
    after.gpu = gpu;
    run(&after, what);
    compare(plain, &after, what);
}

static void check(Run *plain, const char *what, const Pass *const *passes, int n, int threads,
                  int split) {
    check_on(plain, what, passes, n, threads, split, NULL, 0, 0);
}

static void check_kernel(const char *text, const char *kernel) {
    static Run plain;
    memset(&plain, 0, sizeof plain);
    plain.text = text;
    plain.kernel = kernel;
    run(&plain, "as written");
    for (int i = 0; i < PASS_COUNT; i++) {
        const Pass *one[] = {&pass_table[PASS_CANONICALIZE], &pass_table[PASS_CSE], &pass_table[i]};
        check(&plain, pass_table[i].name, one + 2, 1, 4, 3);
        check(&plain, pass_table[i].name, one, 3, 4, 3);
    }
    check(&plain, "cpu, 1 thread", cpu_pipeline, cpu_pipeline_length, 1, 0);
    check(&plain, "cpu, 4 threads", cpu_pipeline, cpu_pipeline_length, 4, 0);
    check(&plain, "cpu, split in 3", cpu_pipeline, cpu_pipeline_length, 4, 3);
    check_on(&plain, "sm_80", gpu_pipeline, gpu_pipeline_length, 4, 0, "sm_80", 0, 0);
    check_on(&plain, "sm_90a, split in 3", gpu_pipeline, gpu_pipeline_length, 4, 3, "sm_90a", 0, 0);
    check_on(&plain, "sm_90a, roles, skew", gpu_pipeline, gpu_pipeline_length, 4, 0, "sm_90a", 1,
             0);
    check_on(&plain, "sm_90a, roles from tile to tile", gpu_pipeline, gpu_pipeline_length, 4, 0,
             "sm_90a", 1, 1);
}

static void check_file(const char *path) {
    static char text[1 << 16];
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    size_t n = fread(text, 1, sizeof text - 1, f);
    fclose(f);
    text[n] = 0;
    int kernels = 0;
    for (const char *k = text; (k = strstr(k, "kernel [name=\"")); kernels++) {
        char name[64];
        k += strlen("kernel [name=\"");
        snprintf(name, sizeof name, "%.*s", (int)strcspn(k, "\""), k);
        check_kernel(text, name);
    }
    assert_true(kernels > 0);
}

static void all_modules(void **state) {
    (void)state;
    DIR *dir = opendir(TEST_DIR "/unit/passes");
    assert_non_null(dir);
    for (struct dirent *e; (e = readdir(dir));) {
        char path[1024];
        if (!strstr(e->d_name, ".tir")) continue;
        snprintf(path, sizeof path, "%s/unit/passes/%s", TEST_DIR, e->d_name);
        check_file(path);
    }
    closedir(dir);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(all_modules)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
