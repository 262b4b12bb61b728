// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Fibers: stacks with a guard page below, and the switch between them, with notices to the
// sanitizers.
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "backends/sim/machine.h"

#if defined(__SANITIZE_ADDRESS__)
#define WITH_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define WITH_ASAN 1
#endif
#endif
#if defined(__SANITIZE_THREAD__)
#define WITH_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define WITH_TSAN 1
#endif
#endif

#ifdef WITH_ASAN
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif
#ifdef WITH_TSAN
#include <sanitizer/tsan_interface.h>
#endif

/* ---- the sanitizers ------------------------------------------------------------------------ */

static void before_switch(Fiber *from, const Fiber *to) {
    from->sim->last = from;
#ifdef WITH_ASAN
    __sanitizer_start_switch_fiber(&from->sanitizer, to->bottom, to->bytes);
#elif defined(WITH_TSAN)
    if (!from->memory) from->sanitizer = __tsan_get_current_fiber();
    __tsan_switch_to_fiber(to->sanitizer, 0);
#else
    (void)to;
#endif
}

/// Runs on the stack of `self` after a switch.
static void after_switch(Fiber *self) {
#ifdef WITH_ASAN
    Fiber *from = self->sim->last;
    const void *bottom;
    size_t bytes;
    __sanitizer_finish_switch_fiber(self->sanitizer, &bottom, &bytes);
    self->sanitizer = NULL;
    // Only here is the stack of sim_run's caller known.
    if (!from->memory) {
        from->bottom = bottom;
        from->bytes = bytes;
    }
#else
    (void)self;
#endif
}

static void stack_fresh(Fiber *f) {
#ifdef WITH_ASAN
    __asan_unpoison_memory_region(f->bottom, f->bytes);
    f->sanitizer = NULL;
#elif defined(WITH_TSAN)
    if (f->sanitizer) __tsan_destroy_fiber(f->sanitizer);
    f->sanitizer = __tsan_create_fiber(0);
#else
    (void)f;
#endif
}

/* ---- the switch ---------------------------------------------------------------------------- */

static _Noreturn void begin_fiber(Fiber *self) {
    after_switch(self);
    fiber_main(self);
}

#if defined(__x86_64__)

// Pushes the callee-saved registers and restores those of the target. A fresh stack has the fiber
// in the place of rbx.
void tg_sim_switch(void **from, void *to);
void tg_sim_begin(void);
__asm__(".text\n"
        ".p2align 4\n"
        ".globl tg_sim_switch\n"
        ".hidden tg_sim_switch\n"
        ".type tg_sim_switch, @function\n"
        "tg_sim_switch:\n"
        "    pushq %rbp\n"
        "    pushq %rbx\n"
        "    pushq %r12\n"
        "    pushq %r13\n"
        "    pushq %r14\n"
        "    pushq %r15\n"
        "    movq %rsp, (%rdi)\n"
        "    movq %rsi, %rsp\n"
        "    popq %r15\n"
        "    popq %r14\n"
        "    popq %r13\n"
        "    popq %r12\n"
        "    popq %rbx\n"
        "    popq %rbp\n"
        "    ret\n"
        ".size tg_sim_switch, .-tg_sim_switch\n"
        ".globl tg_sim_begin\n"
        ".hidden tg_sim_begin\n"
        ".type tg_sim_begin, @function\n"
        "tg_sim_begin:\n"
        "    movq %rbx, %rdi\n"
        "    xorl %ebp, %ebp\n"
        "    callq *%r12\n"
        "    ud2\n"
        ".size tg_sim_begin, .-tg_sim_begin\n");

static bool make_context(Fiber *f) {
    void **top = (void **)(void *)(f->memory + f->bytes + (size_t)sysconf(_SC_PAGESIZE));
    // r15, r14, r13, r12, rbx, rbp, the return address, and two words for alignment.
    void *start[] = {
        NULL, NULL, NULL, (void *)(uintptr_t)begin_fiber, f, NULL, (void *)(uintptr_t)tg_sim_begin,
        NULL, NULL};
    top -= sizeof start / sizeof *start;
    memcpy(top, start, sizeof start);
    f->context = top;
    return true;
}

static void switch_context(Fiber *from, Fiber *to) {
    tg_sim_switch(&from->context, to->context);
}

static void free_context(Fiber *f) {
    (void)f;
}

#else
#include <ucontext.h>

static void start_fiber(unsigned low, unsigned high) {
    begin_fiber((Fiber *)((uintptr_t)low | (uintptr_t)high << 16 << 16));
}

static bool make_context(Fiber *f) {
    ucontext_t *u = f->context ? f->context : malloc(sizeof *u);
    f->context = u;
    if (!u || getcontext(u)) return false;
    u->uc_stack.ss_sp = f->memory + sysconf(_SC_PAGESIZE);
    u->uc_stack.ss_size = f->bytes;
    u->uc_link = NULL;
    uintptr_t self = (uintptr_t)f;
    makecontext(u, (void (*)(void))(uintptr_t)start_fiber, 2, (unsigned)self,
                (unsigned)(self >> 16 >> 16));
    return true;
}

static void switch_context(Fiber *from, Fiber *to) {
    ucontext_t here;
    if (!from->memory) from->context = &here;
    swapcontext(from->context, to->context);
    if (!from->memory) from->context = NULL;
}

static void free_context(Fiber *f) {
    free(f->context);
}
#endif

void fiber_switch(Fiber *from, Fiber *to) {
    before_switch(from, to);
    switch_context(from, to);
    after_switch(from);
}

/* ---- stacks -------------------------------------------------------------------------------- */

// A stack is two mappings, and a process may have 65530.
static atomic_int alive;

int fibers_alive(void) {
    return atomic_load(&alive);
}

// Stacks are kept for later machines, enough for the threads of a CTA: mapping new stacks takes as
// long as many a launch.
enum { MOST_KEPT = MAX_THREADS, STACK_STEP = 64 << 10 };
static Lock kept_lock = LOCK_INIT;
static Fiber *kept;
static int n_kept;

static Fiber *take_kept(size_t bytes) {
    lock_take(&kept_lock);
    Fiber **at = &kept;
    while (*at && (*at)->bytes < bytes) at = &(*at)->next;
    Fiber *f = *at;
    if (f) {
        *at = f->next;
        n_kept--;
    }
    lock_give(&kept_lock);
    return f;
}

static bool keep_fiber(Fiber *f) {
    lock_take(&kept_lock);
    bool room = n_kept < MOST_KEPT;
    if (room) {
        f->next = kept;
        kept = f;
        n_kept++;
    }
    lock_give(&kept_lock);
    return room;
}

static void unmap_fiber(Fiber *f) {
    munmap(f->memory, f->bytes + (size_t)sysconf(_SC_PAGESIZE));
    free_context(f);
    free(f);
}

static Fiber *map_stack(size_t bytes) {
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    Fiber *f = calloc(1, sizeof *f);
    if (!f) return NULL;
    f->memory = mmap(NULL, bytes + page, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (f->memory == MAP_FAILED) {
        free(f);
        return NULL;
    }
    f->bytes = bytes;
    f->bottom = f->memory + page;
    if (mprotect(f->memory, page, PROT_NONE) == 0) {
        atomic_fetch_add(&alive, 1);
        return f;
    }
    unmap_fiber(f);
    return NULL;
}

Fiber *fiber_create(Sim *sim, size_t bytes) {
    bytes = (bytes + STACK_STEP - 1) / STACK_STEP * STACK_STEP;
    Fiber *f = take_kept(bytes);
    if (!f) f = map_stack(bytes);
    if (!f) return NULL;
    f->sim = sim;
    f->next = NULL;
    f->lane = NULL;
    if (make_context(f)) {
        stack_fresh(f);
        return f;
    }
    fiber_destroy(f);
    return NULL;
}

void fiber_reset(Fiber *f) {
    stack_fresh(f);
    (void)make_context(f);
}

void fiber_destroy(Fiber *f) {
    // The frames on the stack never return, so the sanitizer has to forget their marks.
#ifdef WITH_ASAN
    __asan_unpoison_memory_region(f->bottom, f->bytes);
#elif defined(WITH_TSAN)
    if (f->sanitizer) __tsan_destroy_fiber(f->sanitizer);
    f->sanitizer = NULL;
#endif
    if (keep_fiber(f)) return;
    atomic_fetch_sub(&alive, 1);
    unmap_fiber(f);
}
