// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// See axes.h.
#include "lang/axes.h"

#include <string.h>

#define ANY_NUMBER         .least = INT64_MIN, .most = INT64_MAX
#define FROM(lo)           .least = lo, .most = INT64_MAX
#define BETWEEN(lo, hi)    .least = lo, .most = hi
#define POWER_OF_2(lo, hi) .least = lo, .most = hi, .power = true
#define A_PLAN             .least = INT64_MIN, .most = INT64_MAX, .plan = true

const AxisInfo axis_info[AXIS_COUNT] = {
#define AXIS(id, axis, takes, model, search, listed, tried, sampled, fits, effect, beside,         \
             read_by, place, meaning)                                                              \
    [AXIS_##id] = {.name = #axis, takes, .where = place, .doc = meaning},
#include "lang/axes.def"
};

const char *const axis_names[AXIS_COUNT] = {
#define AXIS(id, axis, ...) [AXIS_##id] = #axis,
#include "lang/axes.def"
};

AxisId axis_by_name(const char *name) {
    int id = 0;
    while (id < AXIS_COUNT && strcmp(axis_names[id], name) != 0) id++;
    return (AxisId)id;
}

bool axis_allows(AxisId id, int64_t value) {
    const AxisInfo *a = &axis_info[id];
    if (value == 0) return true;
    return value >= a->least && value <= a->most && !(a->power && (value & (value - 1)));
}

bool setting_is_plan(const char *name) {
    AxisId id = axis_by_name(name);
    return id != AXIS_COUNT && axis_info[id].plan;
}
