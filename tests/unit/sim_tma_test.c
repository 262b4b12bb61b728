// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Blocks by TMA in the simulator, against loops: all ranks, swizzles, steps and fills, coordinates
// outside on every side; maps that the hardware would refuse.
#include "sim_kernel.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "backends/sim/map.h"

enum { SHARED = 64 << 10, TENSOR = 1 << 20 };
enum { TYPE_F16 = 6, TYPE_F32 = 7, TYPE_BF16 = 9 };

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

/// Where byte `i` of the dense block stands: bits 7, 8, 9 of the address are added to 4, 5, 6.
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
    bool store; // else a load
} Build;

static LLVMValueRef elected(SimKernel *k) {
    return LLVMBuildICmp(k->g->b, LLVMIntEQ, k->thread, sim_i32(k, 0), "");
}

/// Shared memory and buffer 1 from one to the other; threads take 16 bytes in turn.
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

static void build_load(SimKernel *k, const Block *b, LLVMValueRef tensor_map) {
    LLVMValueRef one = elected(k), args[9], bar = sim_add(k, k->base, SHARED - 8);
    LLVMValueRef init[3] = {bar, one, sim_i32(k, 1)}, wait[2] = {bar, sim_i32(k, 0)};
    char name[64];
    copy(k, SHARED - 1024, true);
    sim_call(k, "tg.nv.mbarrier.init", 3, init);
    sim_call(k, "tg.nv.fence.proxy.async.shared", 0, NULL);
    sim_call(k, "tg.barrier", 0, NULL);
    init[2] = sim_i32(k, block_bytes(b));
    sim_call(k, "tg.nv.mbarrier.expect_tx", 3, init);
    args[0] = tensor_map, args[1] = k->base, args[2] = bar, args[3] = one;
    snprintf(name, sizeof name, "tg.nv.tma.load.%dd", b->rank);
    sim_call(k, name, 4 + coordinates(k, b, args + 4), args);
    sim_call(k, "tg.nv.mbarrier.wait", 2, wait);
    copy(k, SHARED - 1024, false);
}

static void build_store(SimKernel *k, const Block *b, LLVMValueRef tensor_map) {
    LLVMValueRef args[8] = {tensor_map, k->base, elected(k)};
    char name[64];
    copy(k, SHARED - 1024, true);
    sim_call(k, "tg.nv.fence.proxy.async.shared", 0, NULL);
    sim_call(k, "tg.barrier", 0, NULL);
    snprintf(name, sizeof name, "tg.nv.tma.store.%dd", b->rank);
    sim_call(k, name, 3 + coordinates(k, b, args + 3), args);
    sim_call(k, "tg.nv.tma.commit", 0, NULL);
    sim_call(k, "tg.nv.tma.wait.0", 0, NULL);
}

static void build(SimKernel *k, const void *arg) {
    const Build *how = arg;
    if (how->store)
        build_store(k, how->b, k->params[7]);
    else
        build_load(k, how->b, k->params[7]);
}

static _Alignas(128) uint16_t tensor[TENSOR / 2], shared[SHARED / 2], was[TENSOR / 2];
static _Alignas(128) SimTensorMap map;

static void run(const Block *b, bool store, int type) {
    SimCase c = {.target = "sm_90a", .threads = 32, .n_buffers = 3, .shared_bytes = SHARED};
    Build how = {b, store};
    SimFailure f;
    const char *wrong = sim_tensor_map(&map, type, b->rank, tensor, b->dims, b->strides, b->box,
                                       b->steps, 0, b->swizzle, b->fill);
    assert_null(wrong);
    c.map = &map;
    c.check = true;
    c.buffers[0] = sim_buffer(was, sizeof was, true);
    c.buffers[1] = sim_buffer(shared, sizeof shared, true);
    c.buffers[2] = sim_buffer(tensor, sizeof tensor, true);
    c.build = build;
    c.arg = &how;
    if (!sim_case_run(&c, &f)) fail_msg("%s", f.text);
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
    if (b.swizzle) b.at[0] = 8 * (b.at[0] / 8 - random_to(2)); // of 16 bytes
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
        run(&b, false, TYPE_BF16);
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
        run(&b, true, TYPE_BF16);
        for (int e = 0; e < block_bytes(&b) / 2; e++) {
            int64_t to = in_tensor(&b, e);
            if (to >= 0) was[to / 2] = shared[place(&b, 2 * e) / 2];
        }
        assert_memory_equal(was, tensor, sizeof was);
    }
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
    assert_string_equal(MAP(TYPE_F16, 2, tensor + 1, 0, 3), "the address is no multiple of 16");
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
                        "a stride is no multiple of 16 bytes below 2^40");
    strides[0] = 128;
    dims[1] = 0;
    assert_string_equal(MAP(TYPE_F16, 2, tensor, 0, 3), "an extent is not 1 to 2^32");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(loads),
        cmocka_unit_test(stores),
        cmocka_unit_test(refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
