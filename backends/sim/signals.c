// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Words that other ranks write. The other ranks are threads or processes of this machine. A wait
// polls its word and lets the other lanes of its CTA run in between, since one of them may have to
// raise a word for the other rank. Programs of a launch run one after another, so a wait for a
// later program of the same launch never succeeds.
#include <string.h>
#include <time.h>

#include "backends/sim/shadow.h"
#include "runtime/abi.h"

enum { TURNS = 32 };

static int64_t monotonic_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

enum { NAP_NS = 20000, PAUSE_NS = 20000000 };

static void sleep_ns(long ns) {
    const struct timespec t = {.tv_nsec = ns};
    nanosleep(&t, NULL);
}

/// Waits as the runtime does, which also moves the ranks' data meanwhile.
static void wait_outside(SimLane *lane, const SimSite *site, char *frame, const int64_t *word) {
    const SimRun *run = lane->sim->run;
    int64_t numbers[3];
    for (int i = 0; i < 3; i++) numbers[i] = OPERAND(int64_t, frame, site, 4 + i);
    if (run->wait(run->user, numbers[0], word, site_number(site, 'o'),
                  OPERAND(int64_t, frame, site, 2), numbers[1], numbers[2]))
        sim_fail(lane->sim, SIM_DEADLOCK, site, "a wait for another rank has failed");
}

/// Checks and returns the word at the address in operand 0.
static int64_t *checked_signal_word(SimLane *lane, const SimSite *site, char *frame, int kind) {
    void *p = OPERAND(char *, frame, site, 0);
    lane->site = site;
    access_global(lane, site, p, 8, kind | ACCESS_ATOMIC, NO_ACTOR, 0);
    return p;
}

void prepare_signal(Prepare *p, const Fn *fn, SimSite *site) {
    (void)p;
    site->bytes = 8;
    site->is_atomic = true;
    site->number_of['o' - 'a'] =
        strcmp(fn->row->name, "signal.add") == 0 ? TG_SIGNAL_ADD : TG_SIGNAL_SET;
    site->number_of['r' - 'a'] = strcmp(fn->row->name, "signal.put") != 0;
}

void handle_signal(SimLane *lane, const SimSite *site, char *frame) {
    bool raises = OPERAND(uint8_t, frame, site, 1);
    lane->site = site;
    bool releases =
        site_number(site, 'r'); // whether storing the word releases earlier fenced writes
    if (releases) order_raise(lane, site, raises);
    if (!raises) return;
    int64_t *word = checked_signal_word(lane, site, frame, ACCESS_READ | ACCESS_WRITE);
    int64_t value = OPERAND(int64_t, frame, site, 2);
    if (releases) order_fence(lane);
    order_atomic(lane, word);
    if (site_number(site, 'o') == TG_SIGNAL_ADD)
        __atomic_fetch_add(word, value, __ATOMIC_RELEASE);
    else
        __atomic_store_n(word, value, __ATOMIC_RELEASE);
    if (lane->sim->pauses > 0) {
        lane->sim->pauses--;
        sleep_ns(PAUSE_NS);
    }
}

void prepare_wait_word(Prepare *p, const Fn *fn, SimSite *site) {
    static const char *const names[] = {"eq", "ne", "gt", "ge", "lt", "le"};
    const char *name = fn_capture(fn, 'c');
    (void)p;
    site->bytes = 8;
    site->is_atomic = true;
    for (int i = 0; i < (int)(sizeof names / sizeof *names); i++)
        if (strcmp(name, names[i]) == 0) site->number_of['o' - 'a'] = i;
}

static int64_t read_signal_word(const int64_t *p) {
    return __atomic_load_n(p, __ATOMIC_ACQUIRE);
}

static void note_signal_failure(const SimSite *site, char *frame, int64_t *control) {
    int64_t none = 0;
    if (!__atomic_compare_exchange_n(&control[TG_CONTROL_FAILED], &none, 1, false, __ATOMIC_RELAXED,
                                     __ATOMIC_RELAXED))
        return;
    for (int i = 0; i < 3; i++)
        __atomic_store_n(&control[TG_CONTROL_SITE + i], OPERAND(int64_t, frame, site, 4 + i),
                         __ATOMIC_RELAXED);
}

void handle_wait_word(SimLane *lane, const SimSite *site, char *frame) {
    if (!OPERAND(uint8_t, frame, site, 1)) return;
    const int64_t *word = checked_signal_word(lane, site, frame, ACCESS_READ);
    int64_t value = OPERAND(int64_t, frame, site, 2), begin = monotonic_ns();
    int64_t *control = (int64_t *)(void *)OPERAND(char *, frame, site, 3);
    int compare = site_number(site, 'o');
    // Other lanes of the program may raise the word, so they get a few turns.
    for (int i = 0; i < TURNS && !tg_comm_holds(read_signal_word(word), compare, value); i++) {
        load_random(lane->sim);
        lane_yield(lane);
    }
    if (lane->sim->run->wait && !tg_comm_holds(read_signal_word(word), compare, value))
        wait_outside(lane, site, frame, word);
    while (!tg_comm_holds(read_signal_word(word), compare, value)) {
        if (read_signal_word(&control[TG_CONTROL_GIVE_UP]) ||
            read_signal_word(&control[TG_CONTROL_FAILED]))
            return;
        if (monotonic_ns() - begin >= read_signal_word(&control[TG_CONTROL_LIMIT])) {
            note_signal_failure(site, frame, control);
            return;
        }
        load_random(lane->sim);
        lane_yield(lane);
        sleep_ns(NAP_NS);
    }
    order_fence(lane);
    order_atomic(lane, word);
    order_outside(lane);
}
