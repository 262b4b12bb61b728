// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Internals of the shadow: clocks, and the cell of a byte.
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

/// The last accesses to a byte, as numbers of stamps; 0: there was none.
typedef struct Cell {
    uint32_t write, read;
} Cell;

/// Epochs of all actors: whose accesses are ordered before, those to shared and those to global
/// memory; and of those to shared memory, and of waits for other ranks, seen by the asynchronous
/// proxy.
typedef struct Clock {
    uint32_t *order, *global, *proxy, *outside;
} Clock;

/// A buffer of the launch.
typedef struct Buffer {
    const char *base;
    int64_t bytes;
    bool initialised, *written; // as in SimBuffer
    const char *name;
    Cell **blocks; // of CELLS bytes each; NULL until one of them is accessed
} Buffer;
enum { CELLS = 4096 };

/// What was ordered before the last release at an address of global memory.
typedef struct Flag {
    const void *at;
    uint32_t *programs; // a bit each
} Flag;

struct Shadow {
    int n_actors, n_warps, n_barriers, n_mbarriers;
    uint32_t program; // 1 + the number of the cluster
    uint32_t *epochs;
    uint32_t *waits; // of each actor, the epoch of its last wait for another rank
    Clock *warps, *barriers, cluster[2]; // of the cluster: arrived, done
    struct {
        Clock arrived, done;
    } * mbarriers;
    Buffer *buffers;
    int n_buffers;
    Cell *shared;
    int64_t shared_bytes;
    // All accesses that cells know of, and some that they have forgotten (sweep_stamps).
    Stamp *stamps;
    uint32_t n_stamps, cap_stamps, most_stamps;
    uint32_t *recent; // the last stamp of each actor
    // Programs whose accesses are ordered before this one's, through flags in global memory.
    Flag *flags;
    int n_flags, cap_flags;
    uint32_t *known, *released; // bits: acquired; what a fence of this program has released
    int words;
    // Of lanes: the epochs of their last writes to global memory and of their last fence of the
    // system, and how many signals they have come to.
    uint32_t *wrote, *settled, *visits;
    struct Raise *raises; // by number
    int n_raises, cap_raises;
};

typedef struct Raise Raise;
void raises_reset(Shadow *s);
/// Before a program.
void raises_start(const Sim *sim, Shadow *s);
/// Before a launch.
void flags_reset(Shadow *s);
/// Before a program.
void flags_start(Shadow *s);
bool flags_ordered(const Shadow *s, uint32_t program);

#endif
