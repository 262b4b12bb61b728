// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Declarations that the driver's files share.
#ifndef DRIVER_DRIVER_PRIVATE_H
#define DRIVER_DRIVER_PRIVATE_H

#include "driver/driver.h"

/// The accesses to a tensor in any instance of a kernel (param_accesses.c).
typedef struct ParamAccess {
    bool written, read;
} ParamAccess;
/// Returns the possible accesses to each parameter.
const ParamAccess *param_accesses(const Program *p, const FnDef *kernel);
/// For each parameter, whether it may decide which phases run (steering_scalars.c).
const bool *steering_scalars(const Program *p, const FnDef *kernel);

#endif
