// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The variant that all ranks of a collective launch run. The first launch of a kind asks rank 0.
// Later ones find its answer under a hash of the arguments.
#include "runtime/comm/comm.h"
#include "runtime/runtime.h"

static rt_agreed *find_agreed(const tg_comm *c, tg_kernel *kernel, uint64_t arguments) {
    for (rt_agreed *a = c->agreed; a; a = a->next)
        if (a->kernel == kernel && a->arguments == arguments && a->state == rt_state_number(kernel))
            return a;
    return NULL;
}

static tg_status keep_agreed(tg_comm *c, tg_kernel *kernel, uint64_t arguments,
                             const tg_variant *v) {
    tg_options hooks = rt_default_hooks();
    rt_agreed *a = rt_allocate(&hooks, sizeof *a);
    if (!a) return tg_fail(TG_ERROR_MEMORY, "out of memory");
    *a = (rt_agreed){c->agreed, kernel, arguments, rt_state_number(kernel), v};
    c->agreed = a;
    return TG_OK;
}

static tg_status choose_with_ranks(rt_launcher *l, tg_kernel *kernel, const tg_variant **out) {
    char config[RT_COMM_CONFIG];
    bool told;
    tg_status status = rt_comm_first_choice(l->comm, kernel->info, config, &told);
    return status ? status : rt_pick_as(kernel, l, told ? config : NULL, out);
}

/// The arguments were bound. Packs are as they were merged.
static void add_shards(rt_launcher *l, const tg_kernel_info *info) {
    for (int i = 0; i < info->n_params; i++) {
        const rt_actual *a = &l->actuals[i];
        if (info->params[i].flags & TG_PARAM_STEERS)
            rt_comm_steer(l->comm, &info->params[i], a->value);
        if (!(info->params[i].flags & TG_PARAM_SYM)) continue;
        rt_shard_arg s = {.name = info->params[i].name};
        if (!a->null) {
            s = (rt_shard_arg){s.name,
                               a->data,
                               0,
                               a->tensor->dtype.code,
                               a->tensor->dtype.bits,
                               a->rank - 1,
                               a->shape + 1,
                               a->strides + 1};
            s.like = rt_shards_hash(&s);
        }
        rt_shards_add(l->comm, s);
    }
}

tg_status rt_comm_agree(rt_launcher *l, tg_kernel *kernel, const tg_variant **out) {
    tg_comm *c = l->comm;
    add_shards(l, kernel->info);
    uint64_t arguments = rt_hash_arguments(l, kernel->info);
    const rt_agreed *a = find_agreed(c, kernel, arguments);
    if (a) {
        *out = a->variant;
        return TG_OK;
    }
    tg_status status = choose_with_ranks(l, kernel, out);
    return status ? status : keep_agreed(c, kernel, arguments, *out);
}
