// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A set of parameters of one kernel, by their numbers.
#ifndef RUNTIME_BASE_PARAM_SET_H
#define RUNTIME_BASE_PARAM_SET_H

#include "runtime/abi.h"

#include <stdbool.h>

enum { RT_SET_WORD = 64 };
_Static_assert(TG_MAX_PARAMS % RT_SET_WORD == 0, "whole words");

typedef struct rt_param_set {
    uint64_t words[TG_MAX_PARAMS / RT_SET_WORD];
} rt_param_set;

static inline void rt_set_add(rt_param_set *s, int i) {
    s->words[i / RT_SET_WORD] |= (uint64_t)1 << i % RT_SET_WORD;
}

static inline bool rt_set_has(const rt_param_set *s, int i) {
    return s->words[i / RT_SET_WORD] >> i % RT_SET_WORD & 1;
}

#endif
