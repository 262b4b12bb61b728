// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// All settings of a kernel as the cost model ranks them (rank_settings.c).
#ifndef DRIVER_RANK_SETTINGS_H
#define DRIVER_RANK_SETTINGS_H

#include "driver/driver.h"
#include "passes/comm/comm_cost.h"
#include "passes/gpu/gpu.h"

/// A setting of the tune values, and what the cost model expects of it.
typedef struct RankedSetting {
    Config config;    // values of the source, then those that the model adds
    int n_source;     // of them
    double seconds;   // negative: it does not elaborate
    double alone;     // of a GPU: without transfers between ranks
    const char *why;  // then
    GpuNeeds needs;   // of a GPU; of a CPU `products` alone
    bool pairs;       // of programs that share copies are worth it
    GpuAxes axes;     // of a GPU: what the model chose beside the values
    Elaborated *code; // NULL: it does not elaborate
    GridNeeds grid;
    bool tried;
} RankedSetting;
typedef VEC(RankedSetting) RankedSettings;

/// All settings that b->inst->set leaves open, in the order of the source, after build_target;
/// which of them is build_choose's, -1: there is no choice.
int build_settings(Build *b, RankedSettings *out);

/// Of a GPU: seconds of a launch of a setting by the model, transfers apart, with such a schedule.
double build_setting_cost(Build *b, const RankedSetting *s, const GpuAxes *axes, GpuNeeds *needs);

/// What a launch of the kernel as elaborated does with memory of all ranks (comm_launch); false: it
/// has none.
bool build_launch(Build *b, CommLaunch *out);
/// Sets plan and chunks where the caller left them open; false: nothing is chosen. The kernel is to
/// be elaborated again.
bool build_choose_plan(Build *b);

#endif
