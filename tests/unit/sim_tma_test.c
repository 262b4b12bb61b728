// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// TMA block transfers in the simulator, against loops: all ranks, swizzles, steps and fills,
// coordinates outside on every side, sums of all types, and maps that the hardware would refuse.
#include "sim_kernel.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "backends/sim/tma_map.h"

enum { SHARED = 64 << 10, TENSOR = 1 << 20 };
enum { TYPE_U32 = 2, TYPE_I32, TYPE_U64, TYPE_I64, TYPE_F16, TYPE_F32, TYPE_F64, TYPE_BF16 };

/// A tensor of 16-bit numbers and a block of it.
typedef struct Block {
    int rank, swizzle, fill; // CUDA's numbers
    uint64_t dims[5], strides[4];
    uint32_t box[5], steps[5];
    int32_t at[5];
} Block;

static int extent(const Block *b, int i) {
    return (int)((b->box[i] + b->steps[i] - 1) / b->steps[i]);
}

static int block_bytes(const Block *b) {
    int n = 2;
    for (int i = 0; i < b->rank; i++) n *= extent(b, i);
    return n;
}

/// Returns the position of byte `i` of the dense block: address bits 7, 8, 9 are xored into 4, 5,
/// 6.
static int place(const Block *b, int i) {
    static const int masks[] = {0, 16, 48, 112};
    return i ^ (i >> 3 & masks[b->swizzle]);
}

/// Element `i` of the block in the tensor, or -1 outside.
static int64_t in_tensor(const Block *b, int i) {
    int64_t offset = 0;
    for (int d = 0; d < b->rank; d++) {
        int64_t c = b->at[d] + (int64_t)(i % extent(b, d)) * b->steps[d];
        if (c < 0 || c >= (int64_t)b->dims[d]) return -1;
        offset += c * (d ? (int64_t)b->strides[d - 1] : 2);
        i /= extent(b, d);
    }
    return offset;
}

typedef struct Build {
    const Block *b;
    const char *store; // the store's function or "add"; NULL: a load
    const char *wait;  // the wait for it
    const char *fence; // fence between the threads and the engine; NULL: of shared memory
} Build;

static LLVMValueRef elected(SimKernel *k) {
    return LLVMBuildICmp(k->g->b, LLVMIntEQ, k->thread, sim_i32(k, 0), "");
}

/// Copies between shared memory and buffer 1; threads take 16 bytes in turn.
static void copy(SimKernel *k, int bytes, bool in) {
    LLVMTypeRef t = LLVMVectorType(k->g->i32, 4);
    for (int i = 0; i < bytes; i += 32 * 16) {
        LLVMValueRef at = sim_add(k, sim_mul(k, k->thread, 16), i);
        if (in)
            sim_store(k, sim_load(k, t, k->params[1], at), k->shared, at);
        else
            sim_store(k, sim_load(k, t, k->shared, at), k->params[1], at);
    }
}

static int coordinates(const SimKernel *k, const Block *b, LLVMValueRef *args) {
    for (int i = 0; i < b->rank; i++) args[i] = sim_i32(k, b->at[i]);
    return b->rank;
}

static void build_fence(SimKernel *k, const Build *how) {
    sim_call(k, how->fence ? how->fence : "tg.nv.fence.proxy.async.shared", 0, NULL);
}

static void build_load(SimKernel *k, const Build *how, LLVMValueRef tensor_map) {
    const Block *b = how->b;
    LLVMValueRef one = elected(k), args[9], bar = sim_add(k, k->base, SHARED - 8);
    LLVMValueRef init[3] = {bar, one, sim_i32(k, 1)}, wait[2] = {bar, sim_i32(k, 0)};
    char name[64];
    copy(k, SHARED - 1024, true);
    sim_call(k, "tg.nv.mbarrier.init", 3, init);
    build_fence(k, how);
    sim_call(k, "tg.barrier", 0, NULL);
    init[2] = sim_i32(k, block_bytes(b));
    sim_call(k, "tg.nv.mbarrier.expect_tx", 3, init);
    args[0] = tensor_map, args[1] = k->base, args[2] = bar, args[3] = one;
    snprintf(name, sizeof name, "tg.nv.tma.load.%dd", b->rank);
    sim_call(k, name, 4 + coordinates(k, b, args + 4), args);
    sim_call(k, "tg.nv.mbarrier.wait", 2, wait);
    copy(k, SHARED - 1024, false);
}

static void build_store(SimKernel *k, const Build *how, LLVMValueRef tensor_map) {
    const Block *b = how->b;
    LLVMValueRef args[8] = {tensor_map, k->base, elected(k)};
    char name[64];
    copy(k, SHARED - 1024, true);
    build_fence(k, how);
    sim_call(k, "tg.barrier", 0, NULL);
    snprintf(name, sizeof name, "tg.nv.tma.%s.%dd", how->store, b->rank);
    sim_call(k, name, 3 + coordinates(k, b, args + 3), args);
    sim_call(k, "tg.nv.tma.commit", 0, NULL);
    sim_call(k, how->wait, 0, NULL);
}

static void build(SimKernel *k, const void *arg) {
    const Build *how = arg;
    if (how->store)
        build_store(k, how, k->params[7]);
    else
        build_load(k, how, k->params[7]);
}

static _Alignas(128) uint16_t tensor[TENSOR / 2], shared[SHARED / 2], was[TENSOR / 2];
static _Alignas(128) SimTensorMap map;

/// Returns the failure, or NULL.
static const char *try_run(const Build *how, int type) {
    const Block *b = how->b;
    static SimFailure f;
    SimCase c = {.target = "sm_90a", .threads = 32, .n_buffers = 3, .shared_bytes = SHARED};
    const char *wrong = sim_tensor_map(&map, type, b->rank, tensor, b->dims, b->strides, b->box,
                                       b->steps, 0, b->swizzle, b->fill);
    assert_null(wrong);
    c.map = &map;
    c.check = true;
    c.buffers[0] = sim_buffer(was, sizeof was, true);
    c.buffers[1] = sim_buffer(shared, sizeof shared, true);
    c.buffers[2] = sim_buffer(tensor, sizeof tensor, true);
    c.build = build;
    c.arg = how;
    return sim_case_run(&c, &f) ? NULL : f.text;
}

static void run(const Block *b, const char *store, int type) {
    const char *wrong = try_run(&(Build){.b = b, .store = store, .wait = "tg.nv.tma.wait.0"}, type);
    if (wrong) fail_msg("%s", wrong);
}

/* ---- blocks -------------------------------------------------------------------------------- */

static uint64_t state = 7;

static int random_to(int n) {
    state ^= state << 13, state ^= state >> 7, state ^= state << 17;
    return (int)((state >> 33) % (uint64_t)n);
}

static Block random_block(int rank, bool steps) {
    static const int columns[] = {64, 16, 32, 64};
    Block b = {.rank = rank, .swizzle = random_to(4), .fill = random_to(2)};
    uint64_t stride = 2;
    for (int i = 0; i < rank; i++) {
        b.dims[i] = (uint64_t)(i ? 1 + random_to(7) : 8 * (1 + random_to(12)));
        stride *= b.dims[i];
        if (i == 0) stride += 16 * (uint64_t)random_to(3);
        if (i + 1 < rank) b.strides[i] = stride;
        b.steps[i] = (uint32_t)(steps && i < 2 ? 1 + random_to(2) : 1);
        b.box[i] = (uint32_t)(i ? 1 + random_to(5) : columns[b.swizzle]);
        if (i == 0 && b.steps[0] == 2) b.box[0] /= 2;
        if (i == 0 && b.box[0] < 8 * b.steps[0]) b.box[0] = 8 * b.steps[0];
        b.at[i] = random_to(2) ? random_to((int)b.dims[i] + 4) - 2 : 0;
    }
    if (b.swizzle) b.at[0] = 8 * (b.at[0] / 8 - random_to(2)); // a multiple of 16 bytes
    return b;
}

static void fill_all(void) {
    for (int i = 0; i < TENSOR / 2; i++) tensor[i] = (uint16_t)random_to(0x7000);
    for (int i = 0; i < SHARED / 2; i++) shared[i] = (uint16_t)random_to(0x7000);
}

static void loads(void **unused) {
    (void)unused;
    for (int i = 0; i < 60; i++) {
        Block b = random_block(1 + i % 5, i % 3 == 0);
        fill_all();
        run(&b, NULL, TYPE_BF16);
        for (int e = 0; e < block_bytes(&b) / 2; e++) {
            int64_t from = in_tensor(&b, e);
            uint16_t want = from >= 0 ? tensor[from / 2] : b.fill ? 0x7fff : 0;
            uint16_t got = shared[place(&b, 2 * e) / 2];
            if (got != want) fail_msg("block %d, element %d: %04x, not %04x", i, e, got, want);
        }
    }
}

static void stores(void **unused) {
    (void)unused;
    for (int i = 0; i < 60; i++) {
        Block b = random_block(1 + i % 5, i % 3 == 0);
        b.fill = 0;
        fill_all();
        memcpy(was, tensor, sizeof was);
        run(&b, "store", TYPE_BF16);
        for (int e = 0; e < block_bytes(&b) / 2; e++) {
            int64_t to = in_tensor(&b, e);
            if (to >= 0) was[to / 2] = shared[place(&b, 2 * e) / 2];
        }
        assert_memory_equal(was, tensor, sizeof was);
    }
}

/// Tests which fences show the engine the threads' writes to shared memory, and a new mbarrier.
static void fences(void **unused) {
    static const struct {
        const char *name;
        bool stores, loads;
    } cases[] = {{"tg.nv.fence.proxy.async", true, true},
                 {"tg.nv.fence.proxy.async.shared", true, true},
                 {"tg.nv.fence.proxy.async.global", false, false}};
    Block b = {.rank = 2, .swizzle = 3, .dims = {64, 8}, .strides = {512}, .box = {64, 8}};
    (void)unused;
    b.steps[0] = b.steps[1] = 1;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        Build store = {&b, "store", "tg.nv.tma.wait.0", cases[i].name};
        Build load = {&b, NULL, NULL, cases[i].name};
        fill_all();
        assert_int_equal(!try_run(&store, TYPE_F16), cases[i].stores);
        assert_int_equal(!try_run(&load, TYPE_F16), cases[i].loads);
    }
}

/* ---- sums ---------------------------------------------------------------------------------- */

static double value_of(int type, const void *p) {
    float x;
    uint16_t h;
    uint32_t u;
    if (type == TYPE_F32) return memcpy(&x, p, 4), (double)x;
    memcpy(&h, p, 2);
    if (type == TYPE_BF16) return u = (uint32_t)h << 16, memcpy(&x, &u, 4), (double)x;
    int e = h >> 10 & 31, m = h & 1023;
    double v = e ? ldexp(1024 + m, e - 25) : ldexp(m, -24);
    return h >> 15 ? -v : v;
}

/// Returns the bits of the number nearest to x, ties to even; x is 0 or normal.
static uint16_t narrow(double x, int exponent_bits) {
    int e, digits = 15 - exponent_bits, bias = (1 << (exponent_bits - 1)) - 1;
    double m = frexp(fabs(x), &e); // [1/2, 1) 2^e
    int sign = x < 0 ? 1 << 15 : 0;
    if (x == 0) return 0;
    return (uint16_t)(sign + ((e - 1 + bias - 1) << digits) + (int)nearbyint(ldexp(m, digits + 1)));
}

/// Adds *from to *to as TMA does.
static void add(int type, void *to, const void *from, int size) {
    uint64_t x = 0, y = 0;
    if (type == TYPE_F64) {
        double a, b;
        memcpy(&a, to, 8), memcpy(&b, from, 8);
        a += b;
        memcpy(to, &a, 8);
    } else if (type == TYPE_F32) {
        float s = (float)(value_of(type, to) + value_of(type, from));
        memcpy(to, &s, 4);
    } else if (type == TYPE_F16 || type == TYPE_BF16) {
        uint16_t s = narrow(value_of(type, to) + value_of(type, from), type == TYPE_F16 ? 5 : 8);
        memcpy(to, &s, 2);
    } else {
        memcpy(&x, to, (size_t)size), memcpy(&y, from, (size_t)size);
        x += y;
        memcpy(to, &x, (size_t)size);
    }
}

/// Numbers of few bits, so that sums round and are neither subnormal nor infinite.
static void fill_numbers(int type, void *p, size_t bytes) {
    for (size_t i = 0; i < bytes; i += 4) {
        float x = (float)ldexp(random_to(1 << 20) - (1 << 19), random_to(8) - 20);
        uint32_t u;
        memcpy(&u, &x, 4);
        if (type == TYPE_F16) u = narrow(x, 5) * 65537u;
        if (type == TYPE_BF16) u = narrow(x, 8) * 65537u;
        memcpy((char *)p + i, &u, 4);
    }
}

/// Reinterprets a block of 16-bit numbers as a block of larger ones with as many bytes.
static Block widened(Block b, int size) {
    b.fill = 0;
    b.box[0] /= (uint32_t)size / 2;
    b.dims[0] = b.dims[0] / ((uint32_t)size / 2) + 1;
    b.at[0] /= size / 2;
    return b;
}

static void add_block(const Block *b, int type, int size) {
    int n = size;
    for (int d = 0; d < b->rank; d++) n *= (int)b->box[d];
    for (int e = 0; e < n / size; e++) {
        int64_t offset = 0, rest = e;
        bool inside = true;
        for (int d = 0; d < b->rank; d++) {
            int64_t c = b->at[d] + rest % b->box[d];
            inside &= c >= 0 && c < (int64_t)b->dims[d];
            offset += c * (d ? (int64_t)b->strides[d - 1] : size);
            rest /= b->box[d];
        }
        if (inside)
            add(type, (char *)was + offset, (const char *)shared + place(b, e * size), size);
    }
}

/// Twice, because each case runs twice.
static void sums(void **unused) {
    static const struct {
        int type, size;
    } types[] = {{TYPE_F16, 2}, {TYPE_BF16, 2}, {TYPE_F32, 4}, {TYPE_I32, 4},
                 {TYPE_U32, 4}, {TYPE_U64, 8},  {TYPE_F64, 8}};
    (void)unused;
    for (int i = 0; i < 70; i++) {
        int type = types[i % 7].type, size = types[i % 7].size;
        Block b = widened(random_block(1 + i % 5, false), size);
        if (b.box[0] * (unsigned)size % 16) continue;
        fill_numbers(type, tensor, sizeof tensor);
        fill_numbers(type, shared, sizeof shared);
        memcpy(was, tensor, sizeof was);
        run(&b, "add", type);
        add_block(&b, type, size);
        add_block(&b, type, size);
        assert_memory_equal(was, tensor, sizeof was);
    }
}

/// A program may not end before its sums are complete, and some types have no addition.
static void sums_refused(void **unused) {
    Block b = {.rank = 2, .swizzle = 3, .dims = {64, 8}, .strides = {512}, .box = {16, 8}};
    (void)unused;
    b.steps[0] = b.steps[1] = 1;
    fill_all();
    assert_null(try_run(&(Build){&b, "add", "tg.nv.tma.wait.0", NULL}, TYPE_U64));
    const char *wrong = try_run(&(Build){&b, "add", "tg.nv.tma.wait.read.0", NULL}, TYPE_U64);
    assert_non_null(wrong);
    assert_non_null(strstr(wrong, "has added: there was no wait for it"));
    assert_null(try_run(&(Build){&b, "store", "tg.nv.tma.wait.read.0", NULL}, TYPE_U64));
    wrong = try_run(&(Build){&b, "add", "tg.nv.tma.wait.0", NULL}, TYPE_I64);
    assert_non_null(wrong);
    assert_non_null(strstr(wrong, "a tensor map of a type that is not added"));
}

/* ---- maps ---------------------------------------------------------------------------------- */

static void refused(void **unused) {
    uint64_t dims[2] = {64, 8}, strides[1] = {128};
    uint32_t box[2] = {64, 8}, ones[2] = {1, 1};
    (void)unused;
#define MAP(type, rank, base, interleave, swizzle)                                                 \
    sim_tensor_map(&map, type, rank, base, dims, strides, box, ones, interleave, swizzle, 0)
    assert_null(MAP(TYPE_F16, 2, tensor, 0, 3));
    assert_string_equal(MAP(99, 2, tensor, 0, 3), "there is no such element type");
    assert_string_equal(MAP(TYPE_F16, 6, tensor, 0, 3), "the rank is not 1 to 5");
    assert_string_equal(MAP(TYPE_F16, 2, tensor + 1, 0, 3), "the address is not a multiple of 16");
    assert_non_null(strstr(MAP(TYPE_F16, 2, tensor, 1, 3), "interleaved"));
    assert_string_equal(MAP(TYPE_F32, 2, tensor, 0, 3),
                        "rows of the box are longer than the swizzle");
    box[0] = 4;
    assert_string_equal(MAP(TYPE_F16, 2, tensor, 0, 3),
                        "rows of the box are no multiple of 16 bytes");
    box[0] = 300;
    assert_string_equal(MAP(TYPE_F16, 2, tensor, 0, 0), "an extent of the box is not 1 to 256");
    box[0] = 64;
    strides[0] = 130;
    assert_string_equal(MAP(TYPE_F16, 2, tensor, 0, 3),
                        "a stride is not a multiple of 16 bytes below 2^40");
    strides[0] = 128;
    dims[1] = 0;
    assert_string_equal(MAP(TYPE_F16, 2, tensor, 0, 3), "an extent is not 1 to 2^32");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(loads), cmocka_unit_test(stores),       cmocka_unit_test(fences),
        cmocka_unit_test(sums),  cmocka_unit_test(sums_refused), cmocka_unit_test(refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
