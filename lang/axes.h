// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The axes of the compiler's schedule: names, and the values that sources and --set may give them.
#ifndef LANG_AXES_H
#define LANG_AXES_H

#include <stdbool.h>
#include <stdint.h>

typedef enum AxisId {
#define AXIS(id, ...) AXIS_##id,
#include "lang/axes.def"
    AXIS_COUNT
} AxisId;

typedef struct AxisInfo {
    const char *name;
    int64_t least, most; // values; INT64_MAX: no limit. 0 leaves the choice to the compiler
    bool power, plan;    // powers of two only; a PlanId, which has a name
    const char *where, *doc;
} AxisInfo;
extern const AxisInfo axis_info[AXIS_COUNT];
extern const char *const axis_names[AXIS_COUNT];

/// AXIS_COUNT if no such axis exists.
AxisId axis_by_name(const char *name);
/// Whether the value is 0 or in the axis's range. Does not check names of plans.
bool axis_allows(AxisId id, int64_t value);
/// Whether the values of this setting have the names of plans.
bool setting_is_plan(const char *name);

#endif
