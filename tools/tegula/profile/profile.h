// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Profiles of `tegula profile`: a launch by phase, worker, task and part of the code.
#ifndef TOOLS_TEGULA_PROFILE_PROFILE_H
#define TOOLS_TEGULA_PROFILE_PROFILE_H

#include "tools/tegula/executors.h"
#include "tools/tegula/measure.h"
#include "tools/tegula/profile/counters.h"

/// A marked part of the code, summed over all workers.
typedef struct ProfilePart {
    const tg_site *site;
    double seconds; // of all workers
    int64_t times;
} ProfilePart;

/// The phases of a launch that run the same code.
typedef struct ProfilePhase {
    const tg_site *site;           // or NULL
    double seconds, busy, slowest; // busy: of all workers; slowest: of the worker with most
    int64_t tasks;
    int times, workers; // workers: those that ran a task
} ProfilePhase;

/// The time of a role of a program, or of a whole program, between two marks of device code. Times
/// are of the device's clock, in ns.
typedef struct DeviceSpan {
    const tg_site *site;
    const char *text, *role; // role "": all of the program
    int row;                 // the same for all spans of the program and role
    int64_t program, from, to;
} DeviceSpan;

/// All spans that begin at one place of the code.
typedef struct DeviceSum {
    const DeviceSpan *span; // the first one
    double seconds, slowest;
    int64_t times;
} DeviceSum;

typedef struct Profile {
    Job *job;
    const char *title, *config;
    Times times;                     // of launches of the code without marks
    int launches;                    // number of them
    const Counters *counters;        // NULL: none
    CounterReading counts[COUNTERS]; // of the timed launches
    double marked;                   // seconds of the recorded launch, of code with marks
    const tg_record *record;
    int n_parts, n_phases;
    ProfilePart *parts; // those with most time first
    ProfilePhase *phases;
    double bytes; // of the arguments; twice those of tensors that are read and written
    double flops;
    Elem products; // of the operands of products; EL_COUNT: of none, or of several types
    bool has_products;
    int n_spans, n_rows;
    const DeviceSpan *spans; // of device code
    int64_t device_start, device_end;
} Profile;

/// Times launches, with the counters (or NULL), and records one of code with marks. False
/// (reported) after errors.
bool profile_launches(Job *job, const Counters *counters, Profile *out);
/// Sites of equal place and text are one, since code may be emitted several times.
bool is_same_site(const tg_site *a, const tg_site *b);
/// Sums the record of a profile by part and by phase.
void profile_sum(Profile *p);
/// Makes the spans of a profile from the marks of device code.
void profile_device(Profile *p);
/// Sums the spans by the place where they begin, those with most time first. If there are roles,
/// only theirs.
DeviceSum *profile_device_sums(const Profile *p, int *n);
/// The place of a part: "5:9", after the name of its file if that is not the kernel's.
const char *profile_place(const Profile *p, const tg_site *site);
/// The name of a phase: "line 5: programs r".
const char *profile_phase_name(const Profile *p, const tg_site *site);
/// Writes the record as trace events (JSON). False: reported.
bool profile_write_trace(const Profile *p, const char *path);
/// Prints tables of phases and parts.
void profile_print(const Profile *p);

/// `tegula profile` of a kernel of several ranks, compiled and launched once (profile_ranks.c).
bool profile_ranks(Job *job);

#endif
