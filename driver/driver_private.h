// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Declarations that the driver's files share.
#ifndef DRIVER_DRIVER_PRIVATE_H
#define DRIVER_DRIVER_PRIVATE_H

#include "driver/driver.h"

/// For each parameter, whether any instance of the kernel may write it (written_params.c).
const bool *written_params(const Program *p, const FnDef *kernel);
/// For each parameter, whether it may decide which phases run (steering_scalars.c).
const bool *steering_scalars(const Program *p, const FnDef *kernel);

#endif
