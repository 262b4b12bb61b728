// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The findings of `tegula doctor`. Each part of the check adds some; doctor.c prints them.
#ifndef TOOLS_TEGULA_DOCTOR_DOCTOR_H
#define TOOLS_TEGULA_DOCTOR_DOCTOR_H

#include "tools/tegula/cli.h"

typedef enum FindingState {
    FINDING_OK,
    FINDING_ABSENT, // absent, and not needed on this machine
    FINDING_PROBLEM,
    FINDING_STATES
} FindingState;

typedef struct Finding {
    const char *section, *name;
    FindingState state;
    const char *text;   // the finding, or the fault
    const char *advice; // the next step for the user; or NULL
    Text facts;         // members of a JSON object: `"driver": 13000`
} Finding;

typedef struct Doctor {
    Ctx *ctx;
    VEC(Finding) findings;
    bool has_nvidia, has_amd; // the machine has a GPU that a driver serves
    int cuda;                 // the version of NVIDIA's driver; 0: none
} Doctor;

/// Adds a finding. The pointer is valid until the next one.
Finding *doctor_add(Doctor *d, const char *section, const char *name, FindingState state,
                    const char *text, ...) __attribute__((format(printf, 5, 6)));
/// Sets the next step for the user.
void doctor_advise(Doctor *d, Finding *f, const char *text, ...)
    __attribute__((format(printf, 3, 4)));
/// Adds a member for JSON.
void doctor_fact(Doctor *d, Finding *f, const char *name, const char *value);
void doctor_number(Doctor *d, Finding *f, const char *name, int64_t value);

void doctor_check_devices(Doctor *d);
/// Must run after the devices, which determine the needed tools.
void doctor_check_tools(Doctor *d);
void doctor_check_cache(Doctor *d);
void doctor_check_variables(Doctor *d);

#endif
