// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Uses of Tegula by a program, in which each system call may fail.
#ifndef TESTS_INJECT_SCENARIO_H
#define TESTS_INJECT_SCENARIO_H

#include "tests/inject/fail.h"

#include <stddef.h>

enum { OUTCOME_TEXT = 4096 };
/// The outcome: a result, or a status with an explaining text.
typedef struct Outcome {
    bool ok;
    char text[OUTCOME_TEXT];
} Outcome;

/// COMPILER: one process compiles once; if it ends, the status says how.
typedef enum Dies { NOBODY, OTHERS, COMPILER } Dies;

/// Each runs in a process of its own, once for every fault.
typedef struct Scenario {
    const char *name;
    bool there;                 // other processes work for it, so faults may be theirs
    Dies dies;                  // the other processes that may also be ended
    void (*hurry)(bool);        // makes time limits short or normal; NULL: it has none
    void (*ready)(void);        // prepares the state before; NULL: nothing to prepare
    void (*work)(Outcome *out); // the work in which the fault happens; repeated without it
    /// Checks that the result is right and that no earlier data are lost. Returns NULL or a
    /// description of the error.
    const char *(*check)(const Outcome *out);
    void (*end)(void); // frees everything; NULL: nothing to free
} Scenario;

extern const Scenario jit_scenarios[], store_scenarios[], program_scenarios[], rank_scenarios[],
    search_scenarios[], device_scenarios[]; // each list ends with a scenario without a name

/// A folder of this run, for files.
extern char scratch[];
/// "SCRATCH/name", in one of a few buffers.
const char *in_scratch(const char *name);

#endif
