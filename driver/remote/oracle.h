// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A second opinion on the results of a search. Candidates are compared with the standard setting's
// result, which is compiled code, too: a mistake that both share would win, and where the standard
// setting alone is wrong all that is right would lose. So a helper process has the reference
// interpreter compute a few programs of the launch, with the smallest tiles there are and sums in
// double, on the data of the trial; the standard setting and whatever may win have to agree with
// those elements (rt_trial_expect).
//
//     WIRE_ORACLE   the launch as workers have it -> WIRE_EXPECTED
//
// Which programs: one of a kernel's only grid in each run, the last one first, where edges are,
// then the first one, the middle, and others at random. Where programs depend on each other (there
// are several grids, `combine`, atomics) all of them run. What takes too long is given up.
//
// The trial's data are a few numbers over and over, so nothing of the size of the launch is ever
// in memory here.
#ifndef DRIVER_REMOTE_ORACLE_H
#define DRIVER_REMOTE_ORACLE_H

#include "driver/remote/worker.h"
#include "runtime/tune/trial.h"

typedef struct OracleAsk {
    Bytes open;     // the body of WIRE_OPEN
    bool mild;      // of the random numbers
    double seconds; // that it may take
} OracleAsk;

typedef struct Oracle {
    rt_expected expected; // n 0: nothing is known
    int n_params;         // of expected.noise
    int programs;         // that were computed; 0: all
    const char *why;      // nothing is known; or NULL
} Oracle;

Bytes oracle_write_ask(Ctx *ctx, const OracleAsk *ask);
bool oracle_read_ask(Ctx *ctx, Bytes in, OracleAsk *ask);
Bytes oracle_write(Ctx *ctx, const Oracle *oracle);
bool oracle_read(Ctx *ctx, Bytes in, Oracle *oracle);

/// Of the body of WIRE_ORACLE; false: it was malformed.
bool oracle_answer(Ctx *ctx, Bytes body, Bytes *out);

/* ---- rounding_bounds.c ---------------------------------------------------------------------- */

/// What decides how far two right results may lie apart.
typedef struct Precision {
    int way;         // significant bits of the narrowest float that is rounded to on the way
    int sum;         // likewise, that sums have
    bool arithmetic; // there is some on floats; or they are compared
    bool rounds;     // there is some that rounds: integers may depend on it
} Precision;

/// Of tile IR: settings differ in tiles, not in types.
Precision rounding_bounds_of(Op *module);

#endif
