// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The names that a user may pin: tune values and axes (--set, settings of a module), dims and
// constants (--given). A misspelt name is refused with a hint at those that exist.
#ifndef DRIVER_SETTING_NAMES_H
#define DRIVER_SETTING_NAMES_H

#include "driver/driver.h"

typedef VEC(const char *) SettingNames;

/// Adds the tune values of a kernel.
void add_tune_names(Ctx *ctx, const FnDef *f, SettingNames *out);
/// Adds the dims of a kernel's tensors and its constant parameters.
void add_given_names(Ctx *ctx, const Program *p, const FnDef *f, SettingNames *out);
bool names_have(const SettingNames *names, const char *name);
/// "did you mean 'BM'?", or "there are BM, BN". axes: the axes of the schedule are valid, too.
const char *names_hint(Ctx *ctx, const SettingNames *names, bool axes, const char *name);
/// The hint for a name that --given does not take: --set, if that takes it; else names_hint.
const char *given_hint(Ctx *ctx, const SettingNames *given, const SettingNames *tuned,
                       const char *name);

#endif
