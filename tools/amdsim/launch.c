// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A launch: the initial registers of its waves, and the order in which they run.
#include <llvm-c/Disassembler.h>
#include <llvm-c/Target.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "tools/amdsim/machine.h"

/* ---- failures ------------------------------------------------------------------------------- */

static void add_message(AmdsimResult *r, const char *format, va_list args) {
    size_t n = strlen(r->message);
    vsnprintf(r->message + n, sizeof r->message - n, format, args);
}

AmdsimStatus refuse(Machine *m, AmdsimStatus status, const char *format, ...) {
    va_list args;
    va_start(args, format);
    m->result->message[0] = 0;
    add_message(m->result, format, args);
    va_end(args);
    return m->result->status = status;
}

_Noreturn void fail(const Wave *w, const Inst *i, AmdsimStatus status, const char *format, ...) {
    Machine *m = w->m;
    u64 pc = i ? i->pc : w->pc;
    refuse(m, status,
           "kernel %s, work-group (%u,%u,%u), wave %d, code +0x%llx%s%s%s: ", m->launch->kernel,
           m->group[0], m->group[1], m->group[2], w->id,
           (unsigned long long)(pc - (uintptr_t)m->code.image), i ? " `" : "", i ? i->text : "",
           i ? "`" : "");
    va_list args;
    va_start(args, format);
    add_message(m->result, format, args);
    va_end(args);
    longjmp(m->failed, 1);
}

/* ---- registers of a wave -------------------------------------------------------------------- */

/// The fields of AQL's dispatch packet that kernels read.
typedef struct Packet {
    u16 header, setup, block[3], reserved;
    u32 grid[3], private_bytes, shared_bytes;
    u64 reserved1[4];
} Packet;
_Static_assert(sizeof(Packet) == 64, "as the hardware's");

static Packet make_packet(const Machine *m) {
    const AmdsimLaunch *l = m->launch;
    Packet p = {.setup = 3, .private_bytes = m->private_bytes, .shared_bytes = m->shared_bytes};
    for (int d = 0; d < 3; d++) {
        p.block[d] = (u16)l->block[d];
        p.grid[d] = l->grid[d] * l->block[d];
    }
    return p;
}

enum { MAX_USER = 64, PRELOADED = 127 };

/// The initial scalar registers.
typedef struct User {
    u32 s[MAX_USER];
    int n;
} User;

static void add_pair(User *u, bool wanted, u64 x) {
    if (!wanted) return;
    u->s[u->n++] = (u32)x;
    u->s[u->n++] = (u32)(x >> 32);
}

/// Fills the registers that the descriptor's property bits request.
static User make_user(const Machine *m, const Packet *packet) {
    const AmdsimLaunch *l = m->launch;
    const Code *c = &m->code;
    User u = {.n = 0};
    add_pair(&u, c->properties & 1, SCRATCH_RESOURCE);
    add_pair(&u, c->properties & 1, UINT32_MAX);
    add_pair(&u, c->properties & 2, (uintptr_t)packet);
    add_pair(&u, c->properties & 4, 0); // pointer to the queue
    add_pair(&u, c->properties & 8, (uintptr_t)l->args);
    add_pair(&u, c->properties & 16, 0); // number of the dispatch
    add_pair(&u, c->properties & 32, 0); // initial flat scratch
    if (c->properties & 64) u.s[u.n++] = m->private_bytes;
    size_t from = (c->preload >> 7) * 4u, count = c->preload & PRELOADED;
    for (size_t k = 0; k < count && u.n < MAX_USER && from + 4 * k + 4 <= l->arg_bytes; k++)
        memcpy(&u.s[u.n++], (const uint8_t *)l->args + from + 4 * k, 4);
    int all = c->resources2 >> 1 & 31;
    if (u.n < all) u.n = all;
    return u;
}

#define GARBAGE 0xdeadbeefu // contents of unwritten registers

static void start_vectors(Wave *w, u32 first, u32 items) {
    const u32 *block = w->m->launch->block;
    for (int r = 0; r < VECTORS; r++)
        for (int l = 0; l < w->lanes; l++) w->v[r][l] = GARBAGE;
    for (u32 l = 0; l < items; l++) {
        u32 t = first + l;
        w->v[0][l] = t % block[0] | t / block[0] % block[1] << 10 | t / block[0] / block[1] << 20;
    }
}

static void start_wave(Machine *m, int id, const User *u, u32 items) {
    Wave *w = &m->waves[id];
    *w = (Wave){.m = m, .v = w->v, .scratch = w->scratch, .id = id, .lanes = m->lanes};
    w->pc = (uintptr_t)m->code.image + m->code.entry;
    u32 first = (u32)id * (u32)m->lanes, left = items - first;
    if (left > (u32)m->lanes) left = (u32)m->lanes;
    write_exec(w, left == 64 ? ~0ull : (1ull << left) - 1);
    start_vectors(w, first, left);
    memcpy(w->s, u->s, sizeof *u->s * (size_t)u->n);
    int k = u->n;
    for (int d = 0; d < 3; d++)
        if (m->code.resources2 >> (7 + d) & 1) w->s[k++] = m->group[d];
    if (m->code.resources2 & 1) w->s[k++] = 0; // start of scratch
}

/* ---- running -------------------------------------------------------------------------------- */

#define MOST_INSTRUCTIONS 2000000000ull // limit for a work-group
enum { MOST_IN_A_ROW = 40 };

static void run_for_a_while(Machine *m, Wave *w, u64 n) {
    u64 base = (uintptr_t)m->code.image;
    for (; n && w->state == RUNS; n--) {
        u64 at = w->pc - base;
        const Inst *i = at < m->code.bytes ? m->cache[at / 4] : NULL;
        if (!i || i->pc != w->pc) i = decode(w, w->pc);
        w->pc += i->size;
        w->instructions++;
        m->instructions++;
        i->run(w, i);
    }
}

/// Returns the `n`th of the running waves.
static Wave *pick_running_wave(Machine *m, u64 n) {
    for (Wave *w = m->waves;; w++)
        if (w->state == RUNS && !n--) return w;
}

static int count_waves(const Machine *m, WaveState state) {
    int n = 0;
    for (int k = 0; k < m->n_waves; k++) n += m->waves[k].state == state;
    return n;
}

static void pass_barrier(Machine *m) {
    for (int k = 0; k < m->n_waves; k++)
        if (m->waves[k].state == AT_BARRIER) m->waves[k].state = RUNS;
    m->epoch++;
}

static u64 next_wave_random(u64 *x) {
    *x ^= *x << 13;
    *x ^= *x >> 7;
    return *x ^= *x << 17;
}

/// With a seed, a random wave runs some instructions, then another one.
static void run_waves(Machine *m) {
    u64 seed = m->launch->seed, random = seed * 0x9E3779B97F4A7C15ull + 1;
    u64 end = m->instructions + MOST_INSTRUCTIONS;
    while (count_waves(m, ENDED) < m->n_waves) {
        u64 runnable = (u64)count_waves(m, RUNS);
        if (!runnable) {
            pass_barrier(m);
            continue;
        }
        u64 drawn = next_wave_random(&random), n = 1 + (drawn >> 32) % MOST_IN_A_ROW;
        Wave *w = pick_running_wave(m, seed ? drawn % runnable : 0);
        run_for_a_while(m, w, seed ? n : UINT32_MAX);
        if (m->instructions > end) fail(w, NULL, AMDSIM_FAULT, "the work-group does not end");
    }
}

static void run_group(Machine *m, const User *u) {
    const u32 *block = m->launch->block;
    m->first_epoch = ++m->epoch;
    for (int k = 0; k < m->n_waves; k++) start_wave(m, k, u, block[0] * block[1] * block[2]);
    run_waves(m);
}

static void run_grid(Machine *m, const User *u) {
    const u32 *grid = m->launch->grid;
    for (m->group[2] = 0; m->group[2] < grid[2]; m->group[2]++)
        for (m->group[1] = 0; m->group[1] < grid[1]; m->group[1]++)
            for (m->group[0] = 0; m->group[0] < grid[0]; m->group[0]++) run_group(m, u);
}

/* ---- setting up ----------------------------------------------------------------------------- */

static void init_llvm(void) {
    LLVMInitializeAMDGPUTargetInfo();
    LLVMInitializeAMDGPUTargetMC();
    LLVMInitializeAMDGPUDisassembler();
    LLVMInitializeAMDGPUTarget();
}

enum { MOST_ITEMS = 1024, WAVE32 = 0x400 };

/// Derives the facts of the code and the launch. Returns false for an invalid launch.
static bool measure_launch(Machine *m) {
    const AmdsimLaunch *l = m->launch;
    u64 items = (u64)l->block[0] * l->block[1] * l->block[2];
    m->rdna = starts(m->code.gpu, "gfx1");
    m->fnuz = !strcmp(m->code.gpu, "gfx942");
    m->lanes = m->code.properties & WAVE32 ? 32 : 64;
    m->shared_bytes = m->code.shared_bytes + l->shared_bytes;
    m->private_bytes = m->code.private_bytes;
    m->n_waves = (int)((items + (u64)m->lanes - 1) / (u64)m->lanes);
    return items && l->block[0] <= MOST_ITEMS && l->block[1] <= MOST_ITEMS && items <= MOST_ITEMS;
}

static bool allocate_waves(Machine *m) {
    m->waves = calloc((size_t)m->n_waves, sizeof *m->waves);
    if (!m->waves) return false;
    for (int k = 0; k < m->n_waves; k++) {
        m->waves[k].v = malloc(sizeof(u32[VECTORS][LANES]));
        m->waves[k].scratch = malloc((size_t)m->private_bytes * LANES + 1);
        if (!m->waves[k].v || !m->waves[k].scratch) return false;
    }
    return true;
}

static bool allocate_machine(Machine *m) {
    m->cache = calloc(m->code.bytes / 4 + 1, sizeof *m->cache);
    m->shared = calloc((size_t)m->shared_bytes + 1, 1);
    m->access = calloc((size_t)m->shared_bytes + 1, sizeof *m->access);
    m->buffers = calloc(m->launch->n_buffers + 3, sizeof *m->buffers);
    return m->cache && m->shared && m->access && m->buffers && allocate_waves(m);
}

/// Lists the caller's buffers and the other memory that a kernel may read.
static void list_buffers(Machine *m, const Packet *packet) {
    const AmdsimLaunch *l = m->launch;
    const AmdsimBuffer more[] = {{(uintptr_t)l->args, l->arg_bytes, true},
                                 {(uintptr_t)m->code.image, m->code.bytes, true},
                                 {(uintptr_t)packet, sizeof *packet, true}};
    if (l->n_buffers) memcpy(m->buffers, l->buffers, sizeof *l->buffers * l->n_buffers);
    memcpy(m->buffers + l->n_buffers, more, sizeof more);
    m->n_buffers = l->n_buffers + 3;
}

static bool make_disassembler(Machine *m) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    const char *features = !m->rdna ? "" : m->lanes == 64 ? "+wavefrontsize64" : "+wavefrontsize32";
    pthread_once(&once, init_llvm);
    m->disassembler = LLVMCreateDisasmCPUFeatures("amdgcn-amd-amdhsa", m->code.gpu, features, NULL,
                                                  0, NULL, NULL);
    return m->disassembler != NULL;
}

static void free_machine(Machine *m) {
    for (int k = 0; m->waves && k < m->n_waves; k++) {
        free(m->waves[k].v);
        free(m->waves[k].scratch);
    }
    if (m->disassembler) LLVMDisasmDispose(m->disassembler);
    drop_instructions(m);
    free(m->waves);
    free(m->buffers);
    free(m->access);
    free(m->shared);
    free(m->code.image);
}

static AmdsimStatus launch_code(Machine *m) {
    AmdsimStatus status = load_code(m);
    if (status) return status;
    if (!measure_launch(m))
        return refuse(m, AMDSIM_FAULT, "a work-group has 1 to %d items", MOST_ITEMS);
    if (!allocate_machine(m)) return refuse(m, AMDSIM_NO_MEMORY, "out of memory");
    if (!make_disassembler(m))
        return refuse(m, AMDSIM_BAD_CODE, "LLVM has no disassembler of %s", m->code.gpu);
    const Packet packet = make_packet(m);
    const User user = make_user(m, &packet);
    list_buffers(m, &packet);
    if (setjmp(m->failed)) return m->result->status;
    run_grid(m, &user);
    return AMDSIM_OK;
}

AmdsimStatus amdsim_launch(const AmdsimLaunch *launch, AmdsimResult *result) {
    Machine m = {.launch = launch, .result = result};
    *result = (AmdsimResult){.status = AMDSIM_OK};
    AmdsimStatus status = launch_code(&m);
    result->instructions = m.instructions;
    free_machine(&m);
    return status;
}
