// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// See comm_model_gpu.h.
#include "tests/runtime/comm_model_gpu.h"

#include "runtime/runtime.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TABLE = 1 << 24 };

Model m;
static struct {
    int bound;
    uint64_t *seen, salt; // hashes of states; salt of this search
    long used;
} search;

typedef struct State {
    uint8_t cells[CELLS], pc[STREAMS], buffer[STREAMS];
    uint16_t programs[MOST]; // phases of the running launch's programs, 2 bits each
    uint8_t last, skipped;   // for bounded orders
} State;

static uint8_t epoch_of(const State *s, int rank) {
    return s->cells[m.epochs[rank]];
}

static const Step *next_step(const State *s, int stream) {
    return s->pc[stream] < m.n[stream] ? &m.steps[stream][s->pc[stream]] : NULL;
}

static int phase_of(const State *s, int rank, int program) {
    return s->programs[rank] >> 2 * program & 3;
}

/// The word of a meeting, whose count is in units of 4.
static const uint8_t *met(const uint8_t *cells, const Step *step, int rank) {
    return &cells[cells[m.counts[rank]] & 1 ? step->b : step->a];
}

/// Whether a step, or this program of a launch, can be next.
static bool may_go(const State *s, int stream, const Step *step, int program) {
    int rank = rank_of(stream);
    if (step->kind == LAUNCH) {
        const Program *p = &step->programs[program];
        int phase = phase_of(s, rank, program);
        if (phase == 3) return false;
        return phase || p->flag == NONE || s->cells[p->flag] >= epoch_of(s, rank);
    }
    if (step->lost) return true;
    if (step->kind == AWAIT_EVENT) return s->pc[step->stream] > step->at;
    if (step->kind == AWAIT_WORD) return s->cells[step->a] != 0;
    if (step->kind == MEET) return *met(s->cells, step, rank) / 4 >= s->cells[m.counts[rank]];
    return true;
}

/// Whether the step commutes with all others, and no step can prevent it.
static bool is_alone(const Step *step) {
    if (step->kind == LAUNCH) return false;
    return step->lost || step->kind == RECORD || step->kind == AWAIT_EVENT || step->kind == COUNT;
}

/// Runs a phase of a program. False: it found an error.
static bool run_program(State *s, int rank, const Step *step, int program) {
    const Program *p = &step->programs[program];
    int phase = phase_of(s, rank, program);
    bool right = true, raises = p->hasty ? phase == 1 : phase == 2;
    if (phase == 0 && p->read != NONE) right = s->cells[p->read] == p->want;
    if (phase && raises && p->raise != NONE) s->cells[p->raise] = epoch_of(s, rank);
    if (phase && !raises && p->to != NONE)
        s->cells[p->to] = (uint8_t)(p->adds ? s->cells[p->to] + p->value : p->value);
    if (++phase == 1 && p->to == NONE && p->raise == NONE) phase = 3;
    if (phase == 2 && p->raise == NONE) phase = 3;
    s->programs[rank] =
        (uint16_t)((s->programs[rank] & ~(3 << 2 * program)) | phase << 2 * program);
    return right;
}

static bool run_step(State *s, int stream, const Step *step) {
    int rank = rank_of(stream);
    uint8_t *cells = s->cells, *epoch = &cells[m.epochs[rank]], *count = &cells[m.counts[rank]];
    if (step->lost) return true;
    switch (step->kind) {
    case RECORD:
    case AWAIT_EVENT:
    case AWAIT_WORD:
    case LAUNCH: break;
    case COPY: cells[step->a] = cells[step->b]; break;
    case READ: s->buffer[stream] = cells[step->b]; break;
    case WRITE: cells[step->a] = s->buffer[stream]; break;
    case CLEAR: cells[step->a] = 0; break;
    case MARK: cells[step->a] = *epoch; break;
    case EPOCH: *epoch = (uint8_t)(*epoch / 4 * 4 + 4); break;
    case TURN: ++*epoch; break;
    case COUNT: ++*count; break;
    case TELL: cells[*count & 1 ? step->b : step->a] = (uint8_t)(*count * 4 + step->value); break;
    case MEET: return *met(cells, step, rank) == *count * 4 + step->value;
    }
    return true;
}

/// False: an error was found.
static bool advance(State *s, int stream, int program) {
    const Step *step = next_step(s, stream);
    int rank = rank_of(stream);
    bool right =
        step->kind == LAUNCH ? run_program(s, rank, step, program) : run_step(s, stream, step);
    if (step->kind != LAUNCH) {
        s->pc[stream]++;
        return right;
    }
    for (int i = 0; i < step->n; i++)
        if (phase_of(s, rank, i) != 3) return right;
    s->programs[rank] = 0;
    s->pc[stream]++;
    return right;
}

/* ---- all orders ------------------------------------------------------------------------------ */

static bool add_state(const State *s) {
    uint64_t h = rt_mix(search.salt, UINT64_C(0x9e3779b97f4a7c15)), word;
    size_t n = sizeof *s / 8 * 8;
    for (size_t i = 0; i < n; i += 8) {
        memcpy(&word, (const char *)s + i, 8);
        h = rt_mix(h, word);
    }
    word = 0;
    memcpy(&word, (const char *)s + n, sizeof *s - n);
    h = rt_mix(h, word) | 1;
    size_t i = h % TABLE;
    while (search.seen[i] && search.seen[i] != h) i = (i + 1) % TABLE;
    if (search.seen[i]) return false;
    search.seen[i] = h;
    m.states++;
    search.used++;
    if (search.used < TABLE / 4 * 3) return true;
    fprintf(stderr, "%ld states are too many\n", search.used);
    abort();
}

static bool visit(State s);

/// Visits the state after one more step. skipped: the number of other steps that could have come
/// first.
static bool follow(const State *s, int stream, int program, int skipped) {
    State next = *s;
    if (search.bound != ANY && s->skipped + skipped > search.bound) return true;
    if (search.bound != ANY) next.last = (uint8_t)stream;
    if (search.bound != ANY) next.skipped = (uint8_t)(s->skipped + skipped);
    return advance(&next, stream, program) && visit(next);
}

/// Performs the steps that need no choice. False: an error was found.
static bool settle(State *s) {
    for (bool moved = true; moved;) {
        moved = false;
        for (int i = 0; i < m.size * MOST; i++) {
            const Step *step = next_step(s, i);
            if (!step || !is_alone(step) || !may_go(s, i, step, 0)) continue;
            if (!advance(s, i, 0)) return false;
            moved = true;
        }
    }
    return true;
}

/// Whether every continuation is free of errors.
static bool visit(State s) {
    bool ended = true;
    int found = 0, n = m.size * MOST;
    if (!settle(&s)) return false;
    if (!add_state(&s)) return true;
    for (int i = 0; i < n; i++) {
        int stream = (s.last + i) % n;
        const Step *step = next_step(&s, stream);
        int programs = !step ? 0 : step->kind == LAUNCH ? step->n : 1;
        ended &= !step;
        for (int p = 0; p < programs; p++)
            if (may_go(&s, stream, step, p) && !follow(&s, stream, p, found++)) return false;
    }
    return found || ended;
}

bool model_explore(int bound) {
    State s = {0};
    search.bound = bound;
    m.states = 0;
    search.salt = rt_mix(search.salt, UINT64_C(0xd1b54a32d192ed03));
    if (search.used > TABLE / 4) {
        memset(search.seen, 0, sizeof *search.seen * TABLE);
        search.used = 0;
    }
    return visit(s);
}

bool model_setup(void) {
    search.seen = calloc(TABLE, sizeof *search.seen);
    return search.seen != NULL;
}
