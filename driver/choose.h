// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// All settings of a kernel as the cost model ranks them (choose.c).
#ifndef DRIVER_CHOOSE_H
#define DRIVER_CHOOSE_H

#include "driver/driver.h"
#include "passes/gpu/gpu.h"

/// A setting of the tune values, and what the cost model expects of it.
typedef struct RankedSetting {
    Config config;
    double seconds;  // negative: it does not elaborate
    const char *why; // then
    GpuNeeds needs;  // of a GPU; of a CPU `products` alone
    GridNeeds grid;
    bool tried;
} RankedSetting;
typedef VEC(RankedSetting) RankedSettings;

/// All settings that b->inst->set leaves open, in the order of the source, after build_target;
/// which of them is build_choose's, -1: there is no choice.
int build_settings(Build *b, RankedSettings *out);

#endif
