// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A second opinion on the results of a search.
//
// Candidates are compared with the result of the standard setting, which is compiled code, too. A
// bug that both share would win. If only the standard setting is wrong, all right candidates would
// lose. So a helper process lets the reference interpreter compute a few programs of the launch,
// with the smallest tiles and sums in double, on the data of the trial. The standard setting and
// all possible winners have to agree with these elements (rt_trial_expect).
//
//     WIRE_ORACLE   the launch as workers have it -> WIRE_EXPECTED
//
// If the kernel has a single grid of independent programs, each run computes one program: first the
// last one, which has the edges, then the first, the middle, and others at random. If programs
// depend on each other (several grids, `combine`, atomics), all of them run. The oracle gives up
// when its time is over.
//
// The trial's data repeat a short pattern, so no memory of the launch's size is needed here.
#ifndef DRIVER_REMOTE_ORACLE_H
#define DRIVER_REMOTE_ORACLE_H

#include "driver/remote/worker.h"
#include "runtime/tune/trial.h"

typedef struct OracleAsk {
    Bytes open;     // the body of WIRE_OPEN
    bool mild;      // kind of the random numbers
    double seconds; // time limit
} OracleAsk;

typedef struct Oracle {
    rt_expected expected; // n 0: no result
    int n_params;         // length of expected.noise
    int programs;         // number of computed programs; 0: all
    const char *why;      // the reason if there is no result; or NULL
} Oracle;

Bytes oracle_write_ask(Ctx *ctx, const OracleAsk *ask);
bool oracle_read_ask(Ctx *ctx, Bytes in, OracleAsk *ask);
Bytes oracle_write(Ctx *ctx, const Oracle *oracle);
bool oracle_read(Ctx *ctx, Bytes in, Oracle *oracle);

/// Answers the body of WIRE_ORACLE. False: it was malformed.
bool oracle_answer(Ctx *ctx, Bytes body, Bytes *out);

/* ---- rounding_bounds.c ---------------------------------------------------------------------- */

/// The properties that bound the difference between two right results.
typedef struct Precision {
    int way;         // significant bits of the narrowest intermediate rounding
    int sum;         // significant bits of sums
    bool arithmetic; // floats are computed or compared
    bool rounds;     // some op rounds; integers may depend on it
} Precision;

/// Analyses tile IR. One result serves all settings, which differ in tiles but not in types.
Precision rounding_bounds_of(Op *module);

#endif
