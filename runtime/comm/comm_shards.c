// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The symmetric arguments of a launch. All ranks must pass the same part of the same tensor.
//
// A hash of them goes with every launch. Ranks that pass something else therefore fail, instead of
// computing a wrong result.
#include "runtime/comm/comm.h"
#include "runtime/runtime.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

uint64_t rt_shards_hash(const rt_shard_arg *s) {
    uint64_t hash = rt_mix((uint64_t)s->code << 8 | s->bits, (uint64_t)s->rank);
    for (int d = 0; d < s->rank; d++) {
        hash = rt_mix(hash, (uint64_t)s->shape[d]);
        if (s->shape[d] > 1) hash = rt_mix(hash, (uint64_t)s->strides[d]);
    }
    return hash;
}

static uint64_t shard_place(const tg_comm *c, const rt_shard_arg *s) {
    return s->direct ? (uint64_t)((const char *)s->direct - c->heap.flat) : UINT64_MAX;
}

void rt_shards_add(tg_comm *c, rt_shard_arg s) {
    c->line.shards = rt_mix(rt_mix(c->line.shards, s.like), shard_place(c, &s));
    if (c->n_shards < RT_COMM_SHARDS) c->shards[c->n_shards++] = s;
}

static rt_told told_of(const tg_comm *c, const rt_shard_arg *s) {
    rt_told t = {
        .at = shard_place(c, s), .code = s->code, .bits = s->bits, .rank = (int16_t)s->rank};
    for (int d = 0; d < s->rank; d++) {
        t.shape[d] = s->shape[d];
        t.strides[d] = s->shape[d] > 1 ? s->strides[d] : 0;
    }
    snprintf(t.name, sizeof t.name, "%s", s->name);
    return t;
}

void rt_shards_describe(const tg_comm *c, rt_told told[static RT_COMM_SHARDS]) {
    memset(told, 0, sizeof *told * RT_COMM_SHARDS);
    for (int i = 0; i < c->n_shards; i++) told[i] = told_of(c, &c->shards[i]);
}

/* ---- messages -------------------------------------------------------------------------------- */

static void add_dims(rt_text *t, const int64_t *dims, int n) {
    rt_add(t, "[");
    for (int d = 0; d < n; d++) rt_add(t, "%s%" PRId64, d ? ", " : "", dims[d]);
    rt_add(t, "]");
}

static void add_shard(rt_text *t, const rt_told *s) {
    int rank = s->rank < 0 || s->rank > TG_MAX_RANK ? 0 : s->rank;
    if (s->at == UINT64_MAX) {
        rt_add(t, "null");
        return;
    }
    rt_add_type(t, s->code, s->bits);
    add_dims(t, s->shape, rank);
}

static bool is_same_shard_shape(const rt_told *x, const rt_told *y) {
    return x->code == y->code && x->bits == y->bits && x->rank == y->rank &&
           memcmp(x->shape, y->shape, sizeof x->shape) == 0;
}

/// Describes the first difference: type and shape, then the places of elements.
static void add_difference(rt_text *t, int x, const rt_told *sx, int y, const rt_told *sy) {
    rt_add(t, "rank %d passes ", x);
    add_shard(t, sx);
    rt_add(t, " as '%.32s' and rank %d ", sx->name, y);
    if (!is_same_shard_shape(sx, sy) || sx->at == UINT64_MAX || sy->at == UINT64_MAX) {
        add_shard(t, sy);
    } else if (sx->at == sy->at) {
        rt_add(t, "the same with other strides, ");
        add_dims(t, sx->strides, sx->rank);
        rt_add(t, " and ");
        add_dims(t, sy->strides, sx->rank);
    } else {
        rt_add(t,
               "another tensor, or another part of it, of that shape (bytes %" PRIu64
               " and %" PRIu64 " of symmetric memory)",
               sx->at, sy->at);
    }
}

tg_status rt_shards_differ(const tg_comm *c, int rank) {
    int slot = (int)(c->launches & 1), first = 0;
    int x = c->rank < rank ? c->rank : rank, y = c->rank < rank ? rank : c->rank;
    const rt_told *of_x = c->control->from[x].texts[slot].shards;
    const rt_told *of_y = c->control->from[y].texts[slot].shards;
    rt_text t = {.n = 0};
    while (first < RT_COMM_SHARDS && memcmp(&of_x[first], &of_y[first], sizeof *of_x) == 0) first++;
    if (first < RT_COMM_SHARDS)
        add_difference(&t, x, &of_x[first], y, &of_y[first]);
    else
        rt_add(&t, "ranks %d and %d pass different symmetric tensors", x, y);
    return tg_fail(TG_ERROR_CONTRACT,
                   "%s; all ranks pass the same part of the same symmetric tensor", t.data);
}
