// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// sim-tool: reads portable modules as text, and runs them in the simulator.
//
//     sim-tool run [OPTIONS] FILE.ll [ARG...]    the first kernel, or that of --kernel; prints the
//                                                writable buffers, or the failure
//     sim-tool sites FILE.ll                     barriers, fences and waits
//
//     --target sm_90a  --check  --seed N  --grid X,Y,Z  --shared BYTES  --skip SITE  --kernel NAME
//     --times                                    milliseconds of compiling and of the run
//
//     ARG   i32=7  i64=7  f32=1.5
//           in:f32[64]=iota  in:i16[64]=5        a buffer, filled: 0 1 2 ..., random, or a number
//           out:f32[64]  out:f32[64]=0           a buffer that is printed afterwards; it counts as
//                                                not initialised without a value
//           map:f16[64x32]@0,box=64x8,swizzle=128   a tensor map of argument 0, a buffer, which
//                                                may follow the parameters; extents from the
//                                                innermost dimension on
#include <ctype.h>
#include <llvm-c/IRReader.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "backends/llvm/target.h"
#include "backends/sim/sim.h"
#include "ir/eval.h"

enum { MAX_ARGS = 16 };

typedef struct Arg {
    Elem elem;
    int64_t n; // elements of a buffer
    bool buffer, out;
    char *text; // text of a tensor map
    union {
        char *data;
        uint64_t bits;
    } value;
    _Alignas(64) char map[128];
} Arg;

typedef struct Tool {
    const char *mode, *target, *file, *kernel;
    bool check, times, failed;
    SimRun run;
    Arg args[MAX_ARGS];
    int n_args;
    SimImage *image;
    double compile_ms;
} Tool;

static _Noreturn void usage(const char *what) {
    fprintf(stderr, "sim-tool: %s\n", what);
    exit(2);
}

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

/* ---- arguments ----------------------------------------------------------------------------- */

static Elem read_elem(char **at) {
    size_t n = strcspn(*at, "[=");
    char name[16];
    snprintf(name, sizeof name, "%.*s", (int)n, *at);
    *at += n;
    Elem e = elem_by_name(name);
    if (e == EL_COUNT) usage("no such element type");
    return e;
}

static Cell number(Elem e, const char *text) {
    Cell c = {0};
    if (elem_is(e, EC_FLOAT))
        c.f = strtod(text, NULL);
    else
        c.i = strtoll(text, NULL, 0);
    return cell_wrap(e, c);
}

static void fill(Arg *a, const char *how) {
    uint64_t random = 88172645463325252u;
    for (int64_t i = 0; i < a->n; i++) {
        Cell c;
        random ^= random << 13, random ^= random >> 7, random ^= random << 17;
        if (strcmp(how, "iota") == 0 || strcmp(how, "random") == 0) {
            int64_t v = *how == 'i' ? i : (int64_t)(random >> 40 & 15) - 8;
            if (elem_is(a->elem, EC_FLOAT))
                c.f = (double)v;
            else
                c.i = v;
            c = cell_wrap(a->elem, c);
        } else {
            c = number(a->elem, how);
        }
        cell_store(a->elem, a->value.data, i, c);
    }
}

static void read_buffer(Tool *t, Arg *a, char *text) {
    a->buffer = true;
    a->out = *text == 'o';
    char *at = strchr(text, ':') + 1;
    a->elem = read_elem(&at);
    a->n = strtoll(at + 1, &at, 0);
    size_t bytes = (size_t)a->n * (size_t)elem_info[a->elem].bits / 8;
    a->value.data = aligned_alloc(256, (bytes + 255) / 256 * 256 + 256);
    memset(a->value.data, 0xee, bytes);
    bool filled = at[0] == ']' && at[1] == '=';
    if (filled) fill(a, at + 2);
    SimBuffer *all = (SimBuffer *)(uintptr_t)t->run.buffers;
    all[t->run.n_buffers++] = sim_buffer(a->value.data, (int64_t)bytes, filled);
}

/// Parses up to 5 numbers such as "64x32".
static int read_extents(char **at, uint64_t *out) {
    int n = 0;
    do out[n++] = strtoull(*at, at, 10);
    while (**at == 'x' && (*at)++);
    return n;
}

static void read_map(Tool *t, Arg *a, char *text) {
    static const struct {
        Elem elem;
        int type;
    } types[] = {{EL_U8, 0},  {EL_I8, 0},  {EL_U16, 1},  {EL_U32, 2},    {EL_I32, 3},   {EL_F16, 6},
                 {EL_F32, 7}, {EL_F64, 8}, {EL_BF16, 9}, {EL_F8E4M3, 0}, {EL_F8E5M2, 0}};
    uint64_t dims[5], strides[5], boxes[5];
    uint32_t box[5];
    char *at = text + 4;
    a->elem = read_elem(&at);
    at++;
    int rank = read_extents(&at, dims), type = -1, swizzle = 0;
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (types[i].elem == a->elem) type = types[i].type;
    long from = strtol(strchr(at, '@') + 1, &at, 10);
    char *b = strstr(at, "box="), *s = strstr(at, "swizzle=");
    if (!b) usage("a tensor map has a box");
    b += 4;
    read_extents(&b, boxes);
    if (s) swizzle = atoi(s + 8);
    uint64_t stride = (uint64_t)elem_info[a->elem].bits / 8;
    for (int i = 0; i < rank; i++) {
        box[i] = (uint32_t)boxes[i];
        stride *= dims[i];
        strides[i] = stride;
    }
    const char *wrong =
        sim_tensor_map(a->map, type, rank, t->args[from].value.data, dims, strides, box, NULL, 0,
                       swizzle == 128  ? 3
                       : swizzle == 64 ? 2
                       : swizzle == 32 ? 1
                                       : 0,
                       strstr(at, "nan") != NULL);
    if (wrong) usage(wrong);
}

static void read_arg(Tool *t, char *text) {
    if (t->n_args == MAX_ARGS) usage("too many arguments");
    Arg *a = &t->args[t->n_args++];
    if (strncmp(text, "in:", 3) == 0 || strncmp(text, "out:", 4) == 0) {
        read_buffer(t, a, text);
    } else if (strncmp(text, "map:", 4) == 0) {
        a->text = text;
        a->n = -1;
    } else {
        char *at = text;
        a->elem = read_elem(&at);
        a->value.bits = cell_bits(a->elem, number(a->elem, at + 1));
    }
}

static void print_buffer(int i, const Arg *a) {
    printf("%d:", i);
    for (int64_t k = 0; k < a->n; k++) {
        Cell c = cell_load(a->elem, a->value.data, k);
        if (elem_is(a->elem, EC_FLOAT))
            printf(" %.6g", c.f);
        else
            printf(" %lld", (long long)c.i);
    }
    putchar('\n');
}

/* ---- options ------------------------------------------------------------------------------- */

static void read_grid(Tool *t, const char *text) {
    for (int i = 0; i < 3 && *text; i++) {
        char *end;
        t->run.grid[i] = (int32_t)strtol(text, &end, 10);
        text = end + (*end == ',');
    }
}

/// Returns the number of arguments that the option took; 0: not an option.
static int read_option(Tool *t, const char *name, const char *value) {
    if (strcmp(name, "--check") == 0) return t->check = true, 1;
    if (strcmp(name, "--times") == 0) return t->times = true, 1;
    if (strncmp(name, "--", 2) != 0) return 0;
    if (!value) usage("an option without its value");
    if (strcmp(name, "--target") == 0) t->target = value;
    if (strcmp(name, "--kernel") == 0) t->kernel = value;
    if (strcmp(name, "--seed") == 0) t->run.seed = strtoull(value, NULL, 0);
    if (strcmp(name, "--shared") == 0) t->run.shared_bytes = strtoll(value, NULL, 0);
    if (strcmp(name, "--skip") == 0) t->run.skip_site = atoi(value) + 1;
    if (strcmp(name, "--grid") == 0) read_grid(t, value);
    return 2;
}

/* ---- work ---------------------------------------------------------------------------------- */

static void compile(Ctx *ctx, void *arg) {
    Tool *t = arg;
    Gen *g = gen_create(ctx, "test");
    LLVMMemoryBufferRef buffer;
    LLVMModuleRef module = NULL;
    char *error = NULL;
    if (LLVMCreateMemoryBufferWithContentsOfFile(t->file, &buffer, &error)) usage(error);
    if (LLVMParseIRInContext(g->llvm, buffer, &module, &error)) usage(error);
    LLVMDisposeModule(g->module);
    g->module = module;
    double start = now();
    t->image = sim_compile(g, t->target, t->check);
    t->compile_ms = now() - start;
}

static void run(Tool *t) {
    void *args[MAX_ARGS];
    SimFailure failure;
    int function = t->kernel ? sim_find(t->image, t->kernel) : 0;
    if (function < 0) usage("no such kernel");
    for (int i = 0; i < t->n_args; i++)
        args[i] = t->args[i].n < 0 ? t->args[i].map : (void *)&t->args[i].value;
    t->run.args = args;
    double start = now();
    t->failed = !sim_run(t->image, function, &t->run, &failure);
    double ms = now() - start;
    if (t->times) fprintf(stderr, "compile %.2f ms, run %.2f ms\n", t->compile_ms, ms);
    if (t->failed) {
        printf("%s:%d:%d: %s\n", failure.file, failure.line, failure.column, failure.text);
        return;
    }
    for (int i = 0; i < t->n_args; i++)
        if (t->args[i].out) print_buffer(i, &t->args[i]);
}

static void list_sites(const Tool *t) {
    SimSiteInfo s;
    for (int i = 0; sim_site(t->image, i, &s); i++)
        printf("%d: %s in %s, %s:%d:%d\n", s.number, s.name, s.function, s.file, s.line, s.column);
}

int main(int argc, char **argv) {
    static SimBuffer buffers[MAX_ARGS];
    static Tool t = {.target = "sm_90a", .run = {.buffers = buffers}};
    t.run.seed = sim_seed();
    if (argc < 3) usage("run [OPTIONS] FILE.ll [ARG...] or sites FILE.ll");
    t.mode = argv[1];
    int i = 2;
    for (int n; i < argc && (n = read_option(&t, argv[i], i + 1 < argc ? argv[i + 1] : NULL));)
        i += n;
    if (i >= argc) usage("no file");
    t.file = argv[i++];
    for (; i < argc; i++) read_arg(&t, argv[i]);
    // Buffers of tensor maps may follow all parameters.
    for (i = 0; i < t.n_args; i++)
        if (t.args[i].text) read_map(&t, &t.args[i], t.args[i].text);
    Ctx *ctx = ctx_create(NULL);
    CtxStatus status = llvm_protect(ctx, compile, &t);
    for (const Diagnostic *d = diag_first(ctx); d; d = d->next) printf("%s\n", d->text);
    ctx_destroy(ctx);
    if (status != CTX_OK) return 1;
    if (strcmp(t.mode, "sites") == 0)
        list_sites(&t);
    else
        run(&t);
    sim_image_free(t.image);
    for (i = 0; i < t.n_args; i++)
        if (t.args[i].buffer) free(t.args[i].value.data);
    return t.failed;
}
