// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// All settings of a kernel, ranked by the cost model (rank_settings.c).
#ifndef DRIVER_RANK_SETTINGS_H
#define DRIVER_RANK_SETTINGS_H

#include "driver/driver.h"
#include "passes/comm/comm_cost.h"
#include "passes/gpu/gpu.h"

/// A setting of the tune values, and the cost model's estimate for it.
typedef struct RankedSetting {
    Config config;    // values of the source, then those added by the model
    int n_source;     // number of values of the source
    double seconds;   // negative: it does not elaborate
    double alone;     // GPU: without transfers between ranks
    const char *why;  // the reason, if it does not elaborate
    GpuNeeds needs;   // GPU; for a CPU only `products`
    GpuAxes axes;     // GPU: the model's choices besides the values
    Elaborated *code; // NULL: it does not elaborate
    GridNeeds grid;
    bool tried;
} RankedSetting;
typedef VEC(RankedSetting) RankedSettings;

/// Lists all settings that b->inst->set leaves open, in the order of the source. Needs
/// build_target. Returns the index of build_choose's setting; -1: no choice.
int build_settings(Build *b, RankedSettings *out);

/// GPU: estimates the seconds of a launch of a setting with such a schedule, without transfers.
double build_setting_cost(Build *b, const RankedSetting *s, const GpuAxes *axes, GpuNeeds *needs);

/// Describes a launch's use of all ranks' memory (comm_launch), for the kernel as elaborated.
/// False: it uses none.
bool build_launch(Build *b, CommLaunch *out);
/// Sets plan and chunks if the caller left them open. True: something was set, and the kernel must
/// be elaborated again.
bool build_choose_plan(Build *b);

#endif
