// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Internals of the shadow: clocks, and the record of a byte.
#ifndef BACKENDS_SIM_VECTOR_CLOCK_H
#define BACKENDS_SIM_VECTOR_CLOCK_H

#include <stdio.h>

#include "backends/sim/shadow.h"

enum {
    SITE_MASK = (1 << 29) - 1,
    SITE_ATOMIC = 1 << 29,
    SITE_ASYNC = 1 << 30,
};
#define EPOCH_PENDING UINT32_MAX

/// The actor, time and place of an access. Epoch 0: no access.
typedef struct Stamp {
    uint32_t epoch, site, program, actor;
} Stamp;

/// The last accesses to a byte, as stamp numbers; 0: none.
typedef struct Cell {
    uint32_t write, read;
} Cell;

/// For each actor, the epoch up to which its accesses are ordered before. order: accesses to shared
/// memory; global: to global memory. The asynchronous proxy has seen fewer: proxy: accesses to
/// shared memory; outside: the waits for other ranks.
typedef struct Clock {
    uint32_t *order, *global, *proxy, *outside;
} Clock;

/// A buffer of the launch.
typedef struct Buffer {
    const char *base;
    int64_t bytes;
    bool initialised, *written; // as in SimBuffer
    const char *name;
    Cell **blocks; // CELLS bytes each; NULL until the first access
} Buffer;
enum { CELLS = 4096 };

/// The accesses ordered before the last release at an address of global memory.
typedef struct Flag {
    const void *at;
    uint32_t *programs; // a bit for each program
} Flag;

struct Shadow {
    int n_actors, n_warps, n_barriers, n_mbarriers;
    uint32_t program; // 1 + the number of the cluster
    uint32_t *epochs;
    uint32_t *waits; // for each actor, the epoch of its last wait for another rank
    Clock *warps, *barriers,
        cluster[2]; // cluster: clocks of the arrived and of the completed phase
    struct {
        Clock arrived, done;
    } * mbarriers;
    Buffer *buffers;
    int n_buffers;
    Cell *shared;
    int64_t shared_bytes;
    // All accesses that cells refer to, and some without a cell (sweep_stamps).
    Stamp *stamps;
    uint32_t n_stamps, cap_stamps, most_stamps;
    uint32_t *recent; // the last stamp of each actor
    // Programs that flags in global memory order before this one.
    Flag *flags;
    int n_flags, cap_flags;
    uint32_t *known,
        *released; // bits: programs acquired; programs that a fence of this program has released
    int words;
    // By lane: the epochs of the last write to global memory and of the last system fence, and the
    // number of signals reached.
    uint32_t *wrote, *settled, *visits;
    struct Raise *raises; // by their number
    int n_raises, cap_raises;
};

typedef struct Raise Raise;
void raises_reset(Shadow *s);
/// Resets the raises at the start of a program.
void raises_start(const Sim *sim, Shadow *s);
/// Resets the flags at the start of a launch.
void flags_reset(Shadow *s);
/// Resets the flags' state of a program at its start.
void flags_start(Shadow *s);
bool flags_ordered(const Shadow *s, uint32_t program);

#endif
