// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Two ranks of one machine: they meet, share memory, launch, and part.
#include "tests/runtime/ranks.h"

#include "tests/inject/scenario.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { N = 100, SHORT_MS = 700, LONG_MS = 200000 };
static int timeout_ms = LONG_MS;
static char meet[600];
static Outcome *both; // outcomes of the two ranks, in shared memory

static void ready(void) {
    both = mmap(NULL, 2 * sizeof *both, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (both == MAP_FAILED) abort();
}

static void ready_file(void) {
    snprintf(meet, sizeof meet, "%s", in_scratch("meet"));
    ready();
}

static void ready_port(void) {
    snprintf(meet, sizeof meet, "127.0.0.1:%d", 20000 + (int)(getpid() % 12000));
    ready();
}

static tg_status launch(tg_comm *comm) {
    int64_t shape[1] = {N};
    DLTensor a;
    tg_status status = tg_sym_alloc(comm, (DLDataType){kDLFloat, 32, 1}, 1, shape, 0, &a);
    if (status) return status;
    status = tg_launch(&turned, (tg_arg[]){tg_tensor(&a), tg_int(3)}, 2);
    tg_status freed = tg_sym_free(comm, &a);
    return status ? status : freed;
}

static tg_status be_rank(int rank) {
    tg_comm_options options = {.size = sizeof options,
                               .engine = "processes",
                               .meet = meet,
                               .rank = rank,
                               .ranks = 2,
                               .device = TG_COMM_CPU,
                               .heap = 1 << 20,
                               .timeout_ms = timeout_ms};
    tg_options two = {.size = sizeof two, .threads = 2};
    tg_comm *comm = NULL;
    tg_context *context = NULL;
    tg_status status = tg_comm_create(&options, &comm);
    if (!status) status = tg_context_create(&two, &context);
    if (!status) status = tg_context_set_comm(context, comm);
    if (!status) {
        tg_context_use(context);
        status = launch(comm);
        tg_context_use(NULL);
    }
    tg_context_destroy(context);
    tg_comm_destroy(comm);
    return status;
}

static void say(int rank, tg_status status) {
    both[rank].ok = !status;
    snprintf(both[rank].text, sizeof both[rank].text, "rank %d: %s: %s", rank,
             tg_status_name(status), tg_last_error());
}

/// A rank that was killed reports nothing. The other one has to notice.
static void work(Outcome *out) {
    both[1] = (Outcome){.ok = false, .text = "rank 1 ended"};
    pid_t child = real_fork();
    if (child == 0) {
        plan_at(THERE);
        say(1, be_rank(1));
        _exit(0);
    }
    say(0, be_rank(0));
    end_child(child, 3 * timeout_ms);
    out->ok = both[0].ok && both[1].ok;
    snprintf(out->text, sizeof out->text, "%.1500s; %.1500s", both[0].ok ? "" : both[0].text,
             both[1].ok ? "" : both[1].text);
}

static void hurry(bool is_short) {
    timeout_ms = is_short ? SHORT_MS : LONG_MS;
}

static const char *check(const Outcome *out) {
    // The kernel itself asserts its results.
    if (plan_refused(NAME)) return NULL;
    return out->ok && meet[0] == '/' && access(meet, F_OK) == 0 ? "the socket's file is left"
                                                                : NULL;
}

const Scenario rank_scenarios[] = {
    {"ranks", true, OTHERS, hurry, ready_file, work, check, NULL},
    {"ranks-port", true, OTHERS, hurry, ready_port, work, check, NULL},
    {.name = NULL},
};
