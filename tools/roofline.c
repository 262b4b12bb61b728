// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Measures the roofs of the roofline model (Williams, Waterman, Patterson, CACM 52(4), 2009): copy
// bandwidth, multiply-add rate of the vector units, product rate of AMX tiles. Each is the best of
// several rounds, so that a busy machine affects it least.
#include "tools/roofline.h"

#include "runtime/compiler.h"
#include "tools/timing.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

/* ---- all threads at once ------------------------------------------------------------------- */

typedef struct Workers Workers;
typedef void RoofWork(const Workers *workers, int thread);

struct Workers {
    int threads;
    RoofWork *work;
    int64_t bytes; // bytes that all threads copy together
    char *from, *to;
    pthread_barrier_t start, end;
};

typedef struct Member {
    Workers *workers;
    int thread;
    pthread_t id;
} Member;

enum { ROUNDS = 9 };

static void *member_main(void *arg) {
    Member *m = arg;
    for (int i = 0; i < ROUNDS; i++) {
        pthread_barrier_wait(&m->workers->start);
        m->workers->work(m->workers, m->thread);
        pthread_barrier_wait(&m->workers->end);
    }
    return NULL;
}

/// Returns the seconds of the fastest of several rounds on all threads; 0: threads cannot start.
static double workers_run(Workers *workers) {
    Member *members = calloc((size_t)workers->threads, sizeof *members);
    if (!members) return 0;
    pthread_barrier_init(&workers->start, NULL, (unsigned)workers->threads);
    pthread_barrier_init(&workers->end, NULL, (unsigned)workers->threads);
    int started = 1;
    for (; started < workers->threads; started++) {
        members[started] = (Member){.workers = workers, .thread = started};
        if (pthread_create(&members[started].id, NULL, member_main, &members[started])) break;
    }
    double best = 0;
    for (int i = 0; i < ROUNDS && started == workers->threads; i++) {
        pthread_barrier_wait(&workers->start);
        double begin = rt_seconds();
        workers->work(workers, 0);
        pthread_barrier_wait(&workers->end);
        double seconds = rt_seconds() - begin;
        if (i == 1 || seconds < best) best = seconds; // round 0 warms up
    }
    // If a thread cannot start, the other ones are abandoned: they wait for ever.
    for (int i = 1; i < started && started == workers->threads; i++)
        pthread_join(members[i].id, NULL);
    if (started == workers->threads) free(members);
    return best; // NOLINT(clang-analyzer-unix.Malloc): see above
}

/* ---- copies -------------------------------------------------------------------------------- */

/// Repeats the copy of a small array until the clock can measure it.
static int64_t copy_repeats(int64_t bytes) {
    return (32 << 20) / bytes + 1;
}

static void copy_array_part(const Workers *c, int thread) {
    int64_t from = c->bytes * thread / c->threads, to = c->bytes * (thread + 1) / c->threads;
    int64_t times = copy_repeats(c->bytes);
    for (int64_t i = 0; i < times; i++) {
        memcpy(c->to + from, c->from + from, (size_t)(to - from));
        __asm__ volatile("" ::: "memory");
    }
}

double roofs_copy(int threads, int64_t bytes) {
    size_t n = (size_t)(bytes + 63) / 64 * 64;
    Workers workers = {.threads = threads, .work = copy_array_part, .bytes = bytes};
    workers.from = aligned_alloc(64, n);
    workers.to = aligned_alloc(64, n);
    double rate = 0;
    if (workers.from && workers.to) {
        memset(workers.from, 1, n);
        memset(workers.to, 2, n);
        double seconds = workers_run(&workers);
        double copied = (double)bytes * (double)copy_repeats(bytes);
        if (seconds > 0) rate = 2 * copied / seconds;
    }
    free(workers.from);
    free(workers.to);
    return rate;
}

/* ---- arithmetic ---------------------------------------------------------------------------- */

enum { FMA_STEPS = 1 << 21, TILE_STEPS = 1 << 19 };

#if defined(__x86_64__)

// Enough independent chains to cover the latency of two units: 4 cycles each, with slack.
enum { CHAINS = 12 };
static volatile float sink;

__attribute__((target("avx512f"))) static void fma_avx512(const Workers *c, int thread) {
    (void)c, (void)thread;
    __m512 x[CHAINS], a = _mm512_set1_ps(0.999F), b = _mm512_set1_ps(1e-3F);
    for (int i = 0; i < CHAINS; i++) x[i] = _mm512_set1_ps((float)i);
    for (int s = 0; s < FMA_STEPS; s++)
#pragma GCC unroll 12
        for (int i = 0; i < CHAINS; i++) x[i] = _mm512_fmadd_ps(x[i], a, b);
    for (int i = 1; i < CHAINS; i++) x[0] = _mm512_add_ps(x[0], x[i]);
    sink = _mm512_cvtss_f32(x[0]);
}

__attribute__((target("avx2,fma"))) static void fma_avx2(const Workers *c, int thread) {
    (void)c, (void)thread;
    __m256 x[CHAINS], a = _mm256_set1_ps(0.999F), b = _mm256_set1_ps(1e-3F);
    for (int i = 0; i < CHAINS; i++) x[i] = _mm256_set1_ps((float)i);
    for (int s = 0; s < FMA_STEPS; s++)
#pragma GCC unroll 12
        for (int i = 0; i < CHAINS; i++) x[i] = _mm256_fmadd_ps(x[i], a, b);
    for (int i = 1; i < CHAINS; i++) x[0] = _mm256_add_ps(x[0], x[i]);
    sink = _mm256_cvtss_f32(x[0]);
}

/// Each lane multiplies two pairs of bf16.
__attribute__((target("avx512f,avx512bf16"))) static void dot_bf16(const Workers *c, int thread) {
    (void)c, (void)thread;
    __m512 x[CHAINS], ones = _mm512_set1_ps(1);
    __m512bh a = _mm512_cvtne2ps_pbh(ones, ones);
    for (int i = 0; i < CHAINS; i++) x[i] = _mm512_set1_ps((float)i);
    for (int s = 0; s < FMA_STEPS; s++)
#pragma GCC unroll 12
        for (int i = 0; i < CHAINS; i++) x[i] = _mm512_dpbf16_ps(x[i], a, a);
    for (int i = 1; i < CHAINS; i++) x[0] = _mm512_add_ps(x[0], x[i]);
    sink = _mm512_cvtss_f32(x[0]);
}

static double fma_flops_a_thread(int vector_bytes) {
    return 2.0 * FMA_STEPS * CHAINS * vector_bytes / 4;
}

/// Shape of the eight tile registers: 16 rows of 64 bytes (Intel SDM, LDTILECFG).
typedef struct TileShape {
    uint8_t palette, start_row, reserved[14];
    uint16_t row_bytes[16];
    uint8_t rows[16];
} TileShape;

__attribute__((target("amx-tile,amx-bf16"))) static void tiles_bf16(const Workers *c, int thread) {
    (void)c, (void)thread;
    TileShape shape = {.palette = 1};
    for (int i = 0; i < 8; i++) shape.row_bytes[i] = 64, shape.rows[i] = 16;
    // GCC's intrinsic names only the first bytes as read.
    __asm__ volatile("" ::"r"(&shape) : "memory");
    _tile_loadconfig(&shape);
    for (int s = 0; s < TILE_STEPS; s += 4) {
        _tile_dpbf16ps(0, 4, 6);
        _tile_dpbf16ps(1, 4, 7);
        _tile_dpbf16ps(2, 5, 6);
        _tile_dpbf16ps(3, 5, 7);
    }
    _tile_release();
}

static double flops_per_second(int threads, RoofWork *work, double flops_a_thread) {
    Workers workers = {.threads = threads, .work = work};
    double seconds = workers_run(&workers);
    return seconds > 0 ? flops_a_thread * threads / seconds : 0;
}

static void measure_multiply_adds(Roofs *r, enum tg_level level) {
    if (level >= TG_LEVEL_V4)
        r->fma_f32 = flops_per_second(r->threads, fma_avx512, fma_flops_a_thread(64));
    else if (level >= TG_LEVEL_V3)
        r->fma_f32 = flops_per_second(r->threads, fma_avx2, fma_flops_a_thread(32));
}

static void measure_products(Roofs *r, enum tg_level level) {
    if (level >= TG_LEVEL_V4 && __builtin_cpu_supports("avx512bf16"))
        r->dot_bf16 = flops_per_second(r->threads, dot_bf16, 2 * fma_flops_a_thread(64));
    // A product of tiles is 16 x 16 x 32 multiply-adds.
    if (level >= TG_LEVEL_AMX)
        r->amx_bf16 = flops_per_second(r->threads, tiles_bf16, 2.0 * TILE_STEPS * 16 * 16 * 32);
}

#else

static void measure_multiply_adds(Roofs *r, enum tg_level level) {
    (void)r, (void)level;
}

static void measure_products(Roofs *r, enum tg_level level) {
    (void)r, (void)level;
}

#endif

Roofs roofs_arithmetic(int threads, bool bf16) {
    Roofs r = {.threads = threads > 0 ? threads : 1};
    measure_multiply_adds(&r, tg_cpu_level());
    if (bf16) measure_products(&r, tg_cpu_level());
    return r;
}

Roofs roofs_measure(int threads) {
    Roofs r = roofs_arithmetic(threads, true);
    r.copy = roofs_copy(r.threads, (int64_t)256 << 20);
    return r;
}
