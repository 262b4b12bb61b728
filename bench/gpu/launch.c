// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Measures the host's cost of a warm launch: tg_launch_on beside the driver's own launch of the
// same function with the same arguments, in alternating blocks. A graph that records a launch
// provides the function and its arguments.
//
//   cc -O2 launch.c -I PREFIX/include -L PREFIX/lib -ltegula -ldl -o launch
//   ./launch [ns]     for each kernel the median of a launch, on a stream and on the default one,
//                     the 99th percentile, and cuCtxGetCurrent; exit code 1 if a difference exceeds
//                     the given nanoseconds
//   ./launch --ways   a table of ways to launch: the driver's calls, arguments one by one or in one
//                     buffer, ours with addresses that stay or move; back to back, and with the
//                     host's caches emptied before each, all on a stream; and the driver's result
//                     for launches while another context is current
//
// The build has it as bin/launch-bench.
#include <dlfcn.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tegula.h>
#include <time.h>

enum { BLOCKS = 300, LAUNCHES = 100, N = 4096, SIDE = 256, TENSORS = 14, CLUSTER = 4 };
enum { CASES = 5, ARGS = 64, BUFFER = 4096, EMPTIED = 8 << 20, COLD = 16, PLACES = 2 };

static const char source[] =
    "kernel add(x: f32[N], y: f32[N], z: f32[N]) tune B = 4096 {\n"
    "    parallel n in N by B { z[n] = x[n] + y[n]; }\n"
    "}\n"
    "kernel mix(a: f32[N], b: f32[N], c: f32[N], d: f32[N], z: f32[N], p: f32, q: f32, n: i32)\n"
    "    tune B = 4096 {\n"
    "    parallel i in N by B { z[i] = a[i] * p + b[i] * q + c[i] * (n as f32) + d[i]; }\n"
    "}\n"
    "kernel many(a: f32[N], b: f32[N], c: f32[N], d: f32[N], e: f32[N], f: f32[N], g: f32[N],\n"
    "    h: f32[N], i: f32[N], j: f32[N], k: f32[N], l: f32[N], m: f32[N], z: f32[N], p: f32,\n"
    "    q: f32, r: f32, s: f32, t: i32, u: i32) tune B = 4096 {\n"
    "    parallel n in N by B {\n"
    "        z[n] = a[n] * p + b[n] * q + c[n] * r + d[n] * s + e[n] * (t as f32)\n"
    "            + f[n] * (u as f32) + g[n] + h[n] + i[n] + j[n] + k[n] + l[n] + m[n];\n"
    "    }\n"
    "}\n";

/// CUDA_KERNEL_NODE_PARAMS_v2, CUlaunchAttribute and CUlaunchConfig.
typedef struct Node {
    void *function;
    unsigned grid[3], block[3], shared;
    void **args, **extra;
    void *kernel, *context;
} Node;
typedef struct Attribute {
    int id;
    char padding[4];
    unsigned value[16];
} Attribute;
typedef struct Launch {
    unsigned grid[3], block[3], shared;
    void *stream;
    Attribute *attributes;
    unsigned n;
} Launch;

/// The driver's entry points that this program calls.
#define ENTRIES(X)                                                                                 \
    X(init, "cuInit", (unsigned))                                                                  \
    X(retain, "cuDevicePrimaryCtxRetain", (void **context, int device))                            \
    X(push, "cuCtxPushCurrent_v2", (void *context))                                                \
    X(current, "cuCtxGetCurrent", (void **context))                                                \
    X(wait, "cuCtxSynchronize", (void))                                                            \
    X(allocate, "cuMemAlloc_v2", (uint64_t * at, size_t bytes))                                    \
    X(launch, "cuLaunchKernel",                                                                    \
      (void *function, unsigned x, unsigned y, unsigned z, unsigned bx, unsigned by, unsigned bz,  \
       unsigned shared, void *stream, void **args, void **extra))                                  \
    X(launch_ex, "cuLaunchKernelEx",                                                               \
      (const Launch *how, void *function, void **args, void **extra))                              \
    X(stream, "cuStreamCreate", (void **stream, unsigned flags))                                   \
    X(begin, "cuStreamBeginCapture_v2", (void *stream, int mode))                                  \
    X(end, "cuStreamEndCapture", (void *stream, void **graph))                                     \
    X(nodes, "cuGraphGetNodes", (void *graph, void **nodes, size_t *n))                            \
    X(node, "cuGraphKernelNodeGetParams_v2", (void *node, Node *out))                              \
    X(attribute, "cuGraphKernelNodeGetAttribute", (void *node, int id, void *value))               \
    X(pop, "cuCtxPopCurrent_v2", (void **context))                                                 \
    X(create, "cuCtxCreate_v2", (void **context, unsigned flags, int device))                      \
    X(destroy, "cuCtxDestroy_v2", (void *context))                                                 \
    X(drop, "cuGraphDestroy", (void *graph))

typedef struct Driver {
#define X(name, symbol, parameters) int(*name) parameters;
    ENTRIES(X)
#undef X
    int (*param)(void *function, size_t i, size_t *offset,
                 size_t *bytes); // exists from CUDA 12.4 on
} Driver;

static Driver d;

static void *symbol(void *library, const char *name) {
    void *s = dlsym(library, name);
    if (!s) {
        fprintf(stderr, "the driver has no %s\n", name);
        exit(1);
    }
    return s;
}

static void open_driver(void) {
    const char *named = getenv("TG_CUDA_LIBRARY");
    void *l = dlopen(named ? named : "libcuda.so.1", RTLD_NOW);
    if (!l) {
        fprintf(stderr, "%s\n", dlerror());
        exit(1);
    }
#define X(name, text, parameters) *(void **)&d.name = symbol(l, text);
    ENTRIES(X)
#undef X
    *(void **)&d.param = dlsym(l, "cuFuncGetParamInfo");
}

static void require(int error, const char *what) {
    if (!error) return;
    fprintf(stderr, "%s: error %d %s\n", what, error, tg_last_error());
    exit(1);
}

static double now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static int ascending(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *v) {
    qsort(v, BLOCKS, sizeof *v, ascending);
    return v[BLOCKS / 2];
}

/* ---- the ways to launch ---------------------------------------------------------------------- */

/// A kernel on arguments, and its launch as the driver sees it.
typedef struct Case {
    const char *name;
    tg_kernel *kernel;
    int n, n_tensors;
    DLTensor tensors[TENSORS];
    tg_arg args[TENSORS + 6];
    Node node;
    Launch how;
    Attribute cluster;
    void *places[PLACES][TENSORS]; // the addresses that tensors take in turn
    unsigned turn;
    int params; // number of the function's parameters; 0: the driver does not tell
    size_t offsets[ARGS], sizes[ARGS], bytes;
    _Alignas(64) char buffer[BUFFER];
} Case;

typedef int Way(Case *c);

static int directly(Case *c) {
    if (c->how.n) return d.launch_ex(&c->how, c->node.function, c->node.args, NULL);
    const Node *n = &c->node;
    return d.launch(n->function, n->grid[0], 1, 1, n->block[0], 1, 1, n->shared, c->how.stream,
                    n->args, NULL);
}

static int by_config(Case *c) {
    return d.launch_ex(&c->how, c->node.function, c->node.args, NULL);
}

static int by_tegula(Case *c) {
    return (int)tg_launch_on(c->kernel, c->args, c->n, c->how.stream);
}

static int only_context(Case *c) {
    void *context;
    (void)c;
    return d.current(&context);
}

/// Launches with other addresses than the last time.
static int by_tegula_moved(Case *c) {
    c->turn++;
    for (int i = 0; i < c->n_tensors; i++) c->tensors[i].data = c->places[c->turn % PLACES][i];
    return by_tegula(c);
}

static int by_config_current(Case *c) {
    return only_context(c) | by_config(c);
}

static void fill(Case *c) {
    for (int i = 0; i < c->params; i++)
        memcpy(c->buffer + c->offsets[i], c->node.args[i], c->sizes[i]);
}

/// CU_LAUNCH_PARAM_BUFFER_POINTER, CU_LAUNCH_PARAM_BUFFER_SIZE, CU_LAUNCH_PARAM_END.
#define EXTRA(c)                                                                                   \
    { (void *)1, (c)->buffer, (void *)2, &(c)->bytes, NULL }

static int by_buffer(Case *c) {
    const Node *n = &c->node;
    void *extra[] = EXTRA(c);
    fill(c);
    return d.launch(n->function, n->grid[0], 1, 1, n->block[0], 1, 1, n->shared, c->how.stream,
                    NULL, extra);
}

static int by_config_buffer(Case *c) {
    void *extra[] = EXTRA(c);
    fill(c);
    return d.launch_ex(&c->how, c->node.function, NULL, extra);
}

static double block(Case *c, Way *way) {
    double start = now_ns();
    int error = 0;
    for (int i = 0; i < LAUNCHES; i++) error |= way(c);
    double end = now_ns();
    require(error, c->name);
    require(d.wait(), "cuCtxSynchronize");
    return (end - start) / LAUNCHES;
}

/// Records the launch as a capture shows it.
static void record(Case *c, void *stream) {
    void *graph, *nodes[4];
    size_t n = 4;
    require(by_tegula(c), c->name); // this compiles
    require(d.begin(stream, 2), "cuStreamBeginCapture");
    require((int)tg_launch_on(c->kernel, c->args, c->n, stream), c->name);
    require(d.end(stream, &graph), "cuStreamEndCapture");
    require(d.nodes(graph, nodes, &n), "cuGraphGetNodes");
    require(n != 1, "a launch of several functions");
    require(d.node(nodes[0], &c->node), "cuGraphKernelNodeGetParams");
    c->cluster.id = CLUSTER;
    require(d.attribute(nodes[0], CLUSTER, c->cluster.value), "cuGraphKernelNodeGetAttribute");
    c->how.shared = c->node.shared;
    memcpy(c->how.grid, c->node.grid, sizeof c->node.grid);
    memcpy(c->how.block, c->node.block, sizeof c->node.block);
    c->how.attributes = &c->cluster;
    c->how.n = c->cluster.value[0] > 1;
}

/// The 99th percentile of single launches, with the clock's own time.
static void tails(Case *c, Way *const ways[2], double p99[2]) {
    enum { ROUNDS = 200, EACH = 50 };
    static double ns[2][ROUNDS * EACH];
    for (int r = 0; r < ROUNDS; r++)
        for (int w = 0; w < 2; w++) {
            for (int i = 0; i < EACH; i++) {
                double start = now_ns();
                require(ways[w](c), c->name);
                ns[w][r * EACH + i] = now_ns() - start;
            }
            require(d.wait(), "cuCtxSynchronize");
        }
    for (int w = 0; w < 2; w++) {
        qsort(ns[w], ROUNDS * EACH, sizeof **ns, ascending);
        p99[w] = ns[w][ROUNDS * EACH / 100 * 99];
    }
}

/// Returns our nanoseconds minus the driver's, on a stream or on the default one.
static double compare(Case *c, void *stream, bool on_default) {
    static Way *const ways[] = {directly, by_config, only_context, by_tegula};
    static double ns[4][BLOCKS];
    record(c, stream);
    c->how.stream = on_default ? NULL : stream;
    for (int i = -1; i < BLOCKS; i++)
        for (int w = 0; w < 4; w++) ns[w][i < 0 ? 0 : i] = block(c, ways[w]);
    double least[4], m[4];
    for (int w = 0; w < 4; w++) {
        m[w] = median(ns[w]);
        least[w] = ns[w][BLOCKS / 10];
    }
    double p99[2];
    tails(c, (Way *const[]){directly, by_tegula}, p99);
    printf("%s, %s stream (cluster %u, %u threads): the driver's launch %.0f ns, by "
           "cuLaunchKernelEx %.0f, tg_launch_on %.0f, over it %.0f (of tenths: %.0f); p99 %.0f, "
           "ours %.0f; cuCtxGetCurrent %.1f\n",
           c->name, on_default ? "default" : "a", c->cluster.value[0], c->node.block[0], m[0], m[1],
           m[3], m[3] - m[0], least[3] - least[0], p99[0], p99[1], m[2]);
    return m[3] - m[0];
}

/* ---- launched kernels ------------------------------------------------------------------------ */

static void set(Case *c, const char *name, tg_module *module, const char *kernel, int tensors) {
    static int64_t long_one[1] = {N}, square[2] = {SIDE, SIDE};
    bool half = strcmp(kernel, "matmul") == 0;
    c->name = name;
    c->n = c->n_tensors = tensors;
    require((int)tg_module_kernel(module, kernel, &c->kernel), kernel);
    for (int i = 0; i < tensors; i++) {
        uint64_t at;
        for (int p = PLACES - 1; p >= 0; p--) {
            require(d.allocate(&at, SIDE * SIDE * 4), "cuMemAlloc");
            c->places[p][i] = (void *)(uintptr_t)at;
        }
        c->tensors[i] = tg_dense((void *)(uintptr_t)at, kDLFloat, half ? 16 : 32, half ? 2 : 1,
                                 half ? square : long_one);
        c->tensors[i].device.device_type = kDLCUDA;
        c->args[i] = tg_tensor(&c->tensors[i]);
    }
}

/* ---- all ways -------------------------------------------------------------------------------- */

/// Computes the layout of arguments in a buffer. Tensor maps are arguments of 128 bytes.
static void describe(Case *c) {
    size_t at, bytes;
    if (!d.param) return;
    while (c->params < ARGS && !d.param(c->node.function, (size_t)c->params, &at, &bytes)) {
        if (at + bytes > BUFFER) exit(1);
        c->offsets[c->params] = at;
        c->sizes[c->params++] = bytes;
        c->bytes = at + bytes;
    }
}

/// Times a launch after the caches were emptied. All ways include the clock's own time.
static double cold(Case *c, Way *way) {
    static char other[EMPTIED];
    double sum = 0;
    for (int i = 0; i < COLD; i++) {
        for (size_t k = 0; k < EMPTIED; k += 64) other[k]++;
        double start = now_ns();
        int error = way(c);
        sum += now_ns() - start;
        require(error, c->name);
    }
    require(d.wait(), "cuCtxSynchronize");
    return sum / COLD;
}

static void show(Case *c, void *stream) {
    static const struct {
        const char *name;
        Way *way;
        bool buffer;
    } ways[] = {{"cuLaunchKernel", directly, false},
                {"cuLaunchKernel, a buffer", by_buffer, true},
                {"cuLaunchKernelEx", by_config, false},
                {"cuLaunchKernelEx, a buffer", by_config_buffer, true},
                {"cuCtxGetCurrent and cuLaunchKernelEx", by_config_current, false},
                {"tg_launch_on", by_tegula, false},
                {"tg_launch_on, addresses move", by_tegula_moved, false}};
    enum { WAYS = sizeof ways / sizeof *ways, TIMES = BLOCKS / 2, RARE = 10 };
    static double hot[WAYS][BLOCKS], emptied[WAYS][BLOCKS];
    record(c, stream);
    describe(c);
    c->how.stream = stream;
    for (int b = -1; b < TIMES; b++)
        for (int w = 0; w < WAYS; w++) {
            if (ways[w].buffer && !c->params) continue;
            if (c->how.n && (ways[w].way == directly || ways[w].way == by_buffer)) continue;
            hot[w][b < 0 ? 0 : b] = block(c, ways[w].way);
            if (b >= 0 && b % RARE == 0) emptied[w][b / RARE] = cold(c, ways[w].way);
        }
    printf("%s: %d arguments of the function, %zu bytes\n  %-38s %8s %8s %8s   %8s %8s\n", c->name,
           c->params, c->bytes, "", "ns", "tenth", "over", "emptied", "over");
    double base[2] = {0};
    for (int w = 0; w < WAYS; w++) {
        if (hot[w][0] <= 0) continue;
        qsort(hot[w], TIMES, sizeof **hot, ascending);
        qsort(emptied[w], TIMES / RARE, sizeof **emptied, ascending);
        double m = hot[w][TIMES / 2], e = emptied[w][TIMES / RARE / 2];
        if (base[0] <= 0) base[0] = m;
        if (base[1] <= 0) base[1] = e;
        printf("  %-38s %8.0f %8.0f %+8.0f   %8.0f %+8.0f\n", ways[w].name, m, hot[w][TIMES / 10],
               m - base[0], e, e - base[1]);
        hot[w][0] = 0;
    }
}

/// Prints the driver's results for launches on the default stream, on another stream, and in a
/// capture, and whether the capture then ends well.
static void say_errors(const char *where, void *context, Case *c, void *stream) {
    void *graph = NULL, *before;
    Launch how = c->how;
    require(d.begin(stream, 2), "cuStreamBeginCapture");
    require(context ? d.push(context) : d.pop(&before), where);
    how.stream = stream;
    int captured = d.launch_ex(&how, c->node.function, c->node.args, NULL);
    require(context ? d.pop(&before) : d.push(before), where);
    int ended = d.end(stream, &graph);
    if (graph) require(d.drop(graph), "cuGraphDestroy");
    require(context ? d.push(context) : d.pop(&before), where);
    int on_stream = d.launch_ex(&how, c->node.function, c->node.args, NULL);
    how.stream = NULL;
    int on_default = d.launch_ex(&how, c->node.function, c->node.args, NULL);
    require(context ? d.pop(&before) : d.push(before), where);
    require(d.wait(), "cuCtxSynchronize");
    printf("%s: a launch on the default stream: error %d, on a stream: %d, captured: %d, the end "
           "of the capture: %d\n",
           where, on_default, on_stream, captured, ended);
}

/// Finds whether a launch must ask for the current context first.
static void without_context(Case *c, void *stream) {
    void *other, *before;
    say_errors("no context current", NULL, c, stream);
    require(d.create(&other, 0, 0), "cuCtxCreate");
    require(d.pop(&before), "cuCtxPopCurrent");
    say_errors("another context current", other, c, stream);
    require(d.destroy(other), "cuCtxDestroy");
}

static tg_module *products(const char *settings) {
    tg_module *m;
    tg_module_options options = {.size = sizeof options, .settings = settings, .tune = "off"};
    require((int)tg_module_from_file("std/matmul.teg", &options, &m), "std/matmul.teg");
    return m;
}

int main(int argc, char **argv) {
    bool all = argc > 1 && strcmp(argv[1], "--ways") == 0;
    double bar = argc > 1 && !all ? atof(argv[1]) : 1000, worst = 0;
    void *context, *stream;
    open_driver();
    require(d.init(0), "cuInit");
    require(d.retain(&context, 0), "cuDevicePrimaryCtxRetain");
    require(d.push(context), "cuCtxPushCurrent");
    require(d.stream(&stream, 1), "cuStreamCreate");
    tg_module *ours;
    require((int)tg_module_from_source(source, sizeof source - 1, "launch.teg", NULL, &ours), "");
    tg_module *tiled = products(NULL), *clusters = products("cluster=2");
    static Case cases[CASES];
    set(&cases[0], "3 tensors", ours, "add", 3);
    set(&cases[1], "5 tensors, 3 numbers", ours, "mix", 5);
    cases[1].args[5] = tg_float(1);
    cases[1].args[6] = tg_float(2);
    cases[1].args[7] = tg_int(3);
    cases[1].n = 8;
    set(&cases[2], "3 tensors by TMA", tiled, "matmul", 3);
    set(&cases[3], "3 tensors by TMA, clusters", clusters, "matmul", 3);
    set(&cases[4], "14 tensors, 6 numbers", ours, "many", TENSORS);
    for (int i = 0; i < 6; i++) cases[4].args[TENSORS + i] = i < 4 ? tg_float(i) : tg_int(i);
    cases[4].n = TENSORS + 6;
    for (int i = 0; i < CASES && all; i++) show(&cases[i], stream);
    if (all) without_context(&cases[1], stream);
    for (int i = 0; i < CASES && !all; i++) {
        for (int on_default = 0; on_default < 2; on_default++) {
            double over = compare(&cases[i], stream, on_default);
            if (over > worst) worst = over;
        }
    }
    tg_module_destroy(ours);
    tg_module_destroy(tiled);
    tg_module_destroy(clusters);
    return worst > bar;
}
