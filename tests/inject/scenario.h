// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What a program does with Tegula, in which each call of the system may fail.
#ifndef TESTS_INJECT_SCENARIO_H
#define TESTS_INJECT_SCENARIO_H

#include "tests/inject/fail.h"

#include <stddef.h>

enum { OUTCOME_TEXT = 4096 };
/// What came of it: a result, or a status with the text that explains it.
typedef struct Outcome {
    bool ok;
    char text[OUTCOME_TEXT];
} Outcome;

/// Each runs in a process of its own, once for every fault.
typedef struct Scenario {
    const char *name;
    bool there;                 // others work for it: faults may be theirs
    bool dies;                  // and they may be ended
    void (*hurry)(bool);        // whether time limits are to be short; NULL: there are none
    void (*ready)(void);        // what is there before; NULL: nothing
    void (*work)(Outcome *out); // where the fault happens; then again, without it
    /// Whether the result is right, and nothing that was there before is lost. NULL or what is
    /// wrong.
    const char *(*check)(const Outcome *out);
    void (*end)(void); // gives all back; NULL: there is nothing
} Scenario;

extern const Scenario jit_scenarios[], store_scenarios[], program_scenarios[], rank_scenarios[],
    search_scenarios[]; // each ends with one without a name

/// A folder of this run, for files.
extern char scratch[];
/// "SCRATCH/name", in one of a few buffers.
const char *in_scratch(const char *name);

#endif
