// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Differential test of the interpreter and the CPU back end: see cpu_compare.h.
#include "tests/unit/cpu_compare.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "backends/backend.h"
#include "ir/interp/interp.h"
#include "runtime/host.h"

enum { MAX_ARGS = 32, GUARD = 256 };

typedef struct Arg {
    bool tensor;
    Tensor t;
    Cell scalar;
    size_t bytes;    // bytes of memory, guards included
    char *memory[2]; // for the interpreter and for the machine code
    int64_t first;   // bytes before element 0
} Arg;

typedef struct Run {
    Ctx *ctx;
    Ir *ir;
    const CompareOptions *o;
    int n;
    Arg args[MAX_ARGS];
    uint64_t random;
} Run;

static double next_value(Run *r) {
    r->random = r->random * 6364136223846793005u + 1442695040888963407u;
    double spread = r->o->spread ? r->o->spread : 4;
    return ((double)(r->random >> 40) / (double)(1 << 24) * 2 - 1) * spread;
}

static size_t size_of(Elem e, int64_t n) {
    return (size_t)(n * elem_info[e].bits + 7) / 8;
}

/// Fills all memory with random values, so that writes to padding show.
static void fill(Run *r, Arg *a) {
    Elem e = a->t.elem;
    int64_t n = (int64_t)a->bytes * 8 / elem_info[e].bits;
    for (int i = 0; i < 2; i++) a->memory[i] = calloc(1, a->bytes + 16);
    for (int64_t i = 0; i < n; i++) {
        Cell c = cell_cast(EL_F64, e, (Cell){.f = next_value(r)});
        cell_store(e, a->memory[0], i, c);
    }
    memcpy(a->memory[1], a->memory[0], a->bytes);
}

static const char *read_int(const char *s, int64_t *n) {
    char *end;
    *n = strtoll(s, &end, 10);
    return end;
}

static const char *parse_tensor(Run *r, Arg *a, const char *s) {
    Tensor *t = &a->t;
    int64_t n = 1, gap = 0;
    while (*s != ']') s = read_int(s + 1, &t->extents[t->rank++]);
    if (s[-1] == '[') t->rank = 0;
    s++;
    bool reversed = s[0] == '^';
    if (reversed) s += 2;
    if (*s == '+') s = read_int(s + 1, &gap);
    for (int k = 0; k < t->rank; k++) {
        int d = reversed ? k : t->rank - 1 - k;
        t->strides[d] = n;
        n *= t->extents[d];
        if (k == 0) n += gap;
    }
    a->first = GUARD;
    a->bytes = size_of(t->elem, n) + 2 * GUARD;
    fill(r, a);
    t->data = a->memory[0] + a->first;
    return s;
}

static void parse_args(Run *r, const char *s) {
    while (*s) {
        if (*s == ' ') {
            s++;
            continue;
        }
        Arg *a = &r->args[r->n++];
        size_t len = strcspn(s, "[= ");
        char name[16] = {0};
        memcpy(name, s, len < 15 ? len : 15);
        a->t.elem = elem_by_name(name);
        s += len;
        if (strcmp(name, "null") == 0) {
            a->tensor = true;
            a->t.elem = EL_F32;
        } else if (*s == '[') {
            a->tensor = true;
            s = parse_tensor(r, a, s);
        } else {
            char *end;
            double v = strtod(s + 1, &end);
            a->scalar = cell_cast(EL_F64, a->t.elem, (Cell){.f = v});
            s = end;
        }
    }
}

static void show_diagnostics(const Ctx *ctx) {
    for (const Diagnostic *d = diag_first(ctx); d; d = d->next) print_error("%s\n", d->text);
}

static const char *interpret(Run *r, Op *module) {
    InterpArg in[MAX_ARGS] = {0};
    for (int i = 0; i < r->n; i++) in[i] = (InterpArg){r->args[i].t, r->args[i].scalar};
    InterpOptions options = {.check = r->o->check};
    if (interp_run(r->ir, module, NULL, r->n, in, &options)) return NULL;
    const Diagnostic *d = diag_first(r->ctx);
    return d ? d->text : "the interpreter failed";
}

typedef struct Compilation {
    Ir *ir;
    Op *module;
    const CodeOptions *options;
    bool load;
    Code *code;
} Compilation;

static void compile(Ctx *ctx, void *arg) {
    (void)ctx;
    Compilation *c = arg;
    c->code = cpu_backend.compile(c->ir, c->module, c->options, c->load);
}

Code *compile_native(Ir *ir, Op *module, const CodeOptions *options, bool load) {
    Compilation c = {ir, module, options, load, NULL};
    return ctx_protect(ir_ctx(ir), compile, &c) == CTX_OK ? c.code : NULL;
}

static const char *execute(Run *r, Op *module, tg_failure *failure) {
    CodeOptions options = {.level = r->o->level, .debug = r->o->debug, .check = r->o->check};
    const char *show = getenv("TG_SHOW");
    if (show) options.texts = TEXT_LLVM | TEXT_ASM;
    Code *code = compile_native(r->ir, module, &options, true);
    if (!code) {
        show_diagnostics(r->ctx);
        fail_msg("no code");
    }
    if (show) printf("%s\n", strcmp(show, "asm") == 0 ? code->assembly : code->llvm);
    tg_slot slots[MAX_ARGS];
    for (int i = 0; i < r->n; i++) {
        Arg *a = &r->args[i];
        void *data = a->memory[1] ? a->memory[1] + a->first : NULL;
        if (a->tensor)
            slots[i].tensor.data = data, slots[i].tensor.shape = a->t.extents,
            slots[i].tensor.strides = a->t.strides;
        else
            slots[i].bits = cell_bits(a->t.elem, a->scalar);
    }
    tg_host *host = tg_host_create(r->o->threads ? r->o->threads : 1);
    int status = tg_host_run(host, code->entry, slots, NULL, NULL, failure);
    tg_host_destroy(host);
    code_release(code);
    return status == TG_RUN_OK ? NULL : failure->text;
}

static bool close_enough(const Run *r, Elem e, Cell x, Cell y) {
    if (cell_equal(e, x, y)) return true;
    if (!elem_is(e, EC_FLOAT)) return false;
    return fabs(x.f - y.f) <= r->o->tolerance * fmax(1, fmax(fabs(x.f), fabs(y.f)));
}

static void compare_memory(Run *r, int k) {
    Arg *a = &r->args[k];
    Elem e = a->t.elem;
    int64_t n = (int64_t)a->bytes * 8 / elem_info[e].bits, wrong = 0;
    for (int64_t i = 0; i < n; i++) {
        Cell x = cell_load(e, a->memory[0], i), y = cell_load(e, a->memory[1], i);
        if (close_enough(r, e, x, y) || wrong++ > 5) continue;
        print_error("argument %d: element %lld is %s by the interpreter, %s by the code\n", k,
                    (long long)(i - a->first * 8 / elem_info[e].bits), cell_text(r->ctx, e, x),
                    cell_text(r->ctx, e, y));
    }
    assert_int_equal(wrong, 0);
}

typedef struct Parsed {
    Ir *ir;
    uint16_t file;
    Op *module;
} Parsed;

static void parse(Ctx *ctx, void *arg) {
    Parsed *p = arg;
    p->ir = ir_create(ctx);
    p->module = ir_parse(p->ir, p->file);
    if (p->module && !ir_verify(p->ir, p->module)) p->module = NULL;
}

static void check_failure(const Run *r, const char *who, const char *text) {
    const char *expect = r->o->expect_failure;
    if (!expect && text) fail_msg("%s failed: %s", who, text);
    if (expect && (!text || !strstr(text, expect)))
        fail_msg("%s: expected '%s', got '%s'", who, expect, text ? text : "success");
}

void compare_kernel(const char *text, const char *args, const CompareOptions *options) {
    static const CompareOptions none = {0};
    Run *r = calloc(1, sizeof *r);
    r->o = options ? options : &none;
    r->random = 42;
    r->ctx = ctx_create(NULL);
    Parsed p = {.file = ctx_add_source(r->ctx, "kernel.tir", text, strlen(text))};
    if (ctx_protect(r->ctx, parse, &p) != CTX_OK || !p.module) {
        show_diagnostics(r->ctx);
        fail_msg("bad IR");
    }
    r->ir = p.ir;
    parse_args(r, args);
    tg_failure *failure = calloc(1, sizeof *failure);
    check_failure(r, "machine code", execute(r, p.module, failure));
    check_failure(r, "interpreter", interpret(r, p.module));
    for (int i = 0; i < r->n && !r->o->expect_failure; i++)
        if (r->args[i].memory[0]) compare_memory(r, i);
    for (int i = 0; i < r->n; i++) {
        free(r->args[i].memory[0]);
        free(r->args[i].memory[1]);
    }
    ctx_destroy(r->ctx);
    free(failure);
    free(r);
}
