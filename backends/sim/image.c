// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The simulator as a device of the runtime: an image of kind CALL.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "backends/sim/machine.h"
#include "backends/sim/tma_map.h"

/// Reports a failure as the runtime does, with its source position. The runtime looks at the site
/// again when the launch has ended.
static int32_t fail_launch_at(const tg_env *env, const char *file, int line, int column,
                              const char *text) {
    static _Thread_local tg_site site;
    char braces[2 * sizeof((SimFailure){0}.text)], *to = braces;
    // A `{}` in a site's text stands for a value. A failure of the simulator has none.
    for (const char *s = text; *s && to < braces + sizeof braces - 1; s++)
        if (!(s[0] == '}' && s > text && s[-1] == '{')) *to++ = *s;
    *to = 0;
    site = (tg_site){.kind = TG_SITE_REQUIRE, .line = line, .column = column, .text = braces};
    site.file = *file ? file : NULL;
    site.types = "";
    int32_t status = env->fail(env, &site, NULL);
    site.text = "";
    return status;
}

/* ---- the memory of a launch ------------------------------------------------------------------ */

void sim_describe(Ctx *ctx, SimImage *image, int function, const SimParam *params, int n) {
    SimFunction *f = &image->functions[function];
    f->described = image_alloc(ctx, sizeof *params * (size_t)n);
    memcpy(f->described, params, sizeof *params * (size_t)n);
    for (int i = 0; i < n; i++)
        if (params[i].name)
            f->described[i].name = image_text(ctx, image, params[i].name, strlen(params[i].name));
    f->n_described = n;
}

static int64_t param_number(const SimParam *p, bool stride, int d, void *const *args) {
    int arg = stride ? p->stride_arg[d] : p->extent_arg[d];
    return arg >= 0 ? *(const int64_t *)args[arg] : stride ? p->strides[d] : p->extents[d];
}

/// Returns the range from the first byte of the elements to the last, for strides of either sign.
static SimBuffer tensor_buffer_span(const SimParam *p, void *const *args) {
    int64_t low = 0, high = 0;
    const char *data = *(const char *const *)args[p->arg];
    for (int d = 0; d < p->rank; d++) {
        int64_t extent = param_number(p, false, d, args), stride = param_number(p, true, d, args);
        if (extent <= 0) return (SimBuffer){0};
        *(stride < 0 ? &low : &high) += (extent - 1) * stride;
    }
    if (!data) return (SimBuffer){0};
    int64_t first = low * p->bits / 8, behind = ((high + 1) * p->bits + 7) / 8;
    return sim_buffer(data + first, behind - first, true);
}

/// An empty tensor has no map.
static SimBuffer map_span(const void *map) {
    const SimTensorMap *m = map;
    if (m->magic != MAP_MAGIC || m->rank < 1 || m->rank > MAP_RANK) return (SimBuffer){0};
    int64_t bytes = ((int64_t)m->last[0] + 1) * m->bytes;
    for (int i = 1; i < m->rank; i++) bytes += (int64_t)m->last[i] * (int64_t)m->strides[i - 1];
    return sim_buffer(m->base, bytes, true);
}

static SimBuffer param_span(const SimParam *p, void *const *args) {
    if (p->bits == 0) return map_span(args[p->arg]);
    if (p->bits > 0) return tensor_buffer_span(p, args);
    const tg_faults *faults = *(const tg_faults *const *)args[p->arg];
    return sim_buffer(faults, (int64_t)sizeof *faults + 8 * (int64_t)faults->capacity, true);
}

/// Adds a buffer. Overlapping tensors become one buffer.
static int add_span(SimBuffer *all, int n, SimBuffer b, const char *name) {
    const char *low = b.base, *high = low + b.bytes;
    if (b.bytes <= 0) return n;
    for (int i = 0; i < n; i++) {
        const char *base = all[i].base, *end = base + all[i].bytes;
        if (high <= base || end <= low) continue;
        if (!name) name = all[i].name;
        if (base < low) low = base;
        if (end > high) high = end;
        all[i--] = all[--n];
    }
    all[n] = sim_buffer(low, high - low, true);
    all[n++].name = name;
    return n;
}

/// Tracks the bytes that functions of one launch leave in its workspaces for later functions.
static void mark_fresh(const tg_image *of, const tg_env *env, const void *memory, int64_t bytes) {
    SimImage *image = of->user;
    Fresh *f = memory ? calloc(1, sizeof *f + (size_t)bytes)
                      : NULL; // without memory, writes are not tracked
    lock_take(&image->lock);
    for (Fresh **at = &image->fresh; !memory && *at;) {
        Fresh *old = *at;
        if (old->env == env) {
            *at = old->next;
            free(old);
        } else {
            at = &old->next;
        }
    }
    if (f) {
        f->next = image->fresh;
        f->env = env;
        f->base = memory;
        f->bytes = bytes;
        image->fresh = f;
    }
    lock_give(&image->lock);
}

static void find_written(const SimImage *image, const tg_env *env, SimBuffer *b) {
    const char *base = b->base;
    for (Fresh *f = image->fresh; f; f = f->next) {
        if (f->env != env || base < f->base || base + b->bytes > f->base + f->bytes) continue;
        b->initialised = false;
        b->written = f->written + (base - f->base);
    }
}

enum { MOST_BUFFERS = 2 * TG_MAX_PARAMS };

static int find_buffers(SimImage *image, const tg_env *env, const SimFunction *f, void *const *args,
                        SimBuffer *out) {
    int n = 0;
    if (f->n_described > MOST_BUFFERS) return 0;
    for (int i = 0; i < f->n_described; i++) {
        const SimParam *p = &f->described[i];
        n = add_span(out, n, param_span(p, args), p->name);
    }
    lock_take(&image->lock);
    for (int i = 0; i < n; i++)
        if (out[i].name)
            find_written(image, env, &out[i]); // scratch of passes has gaps that flags guard
    lock_give(&image->lock);
    return n;
}

/* ---- entry points for the runtime ------------------------------------------------------------ */

/// A launch of several ranks, and the results of its waits.
typedef struct RankLaunch {
    const tg_env *env;
    const tg_image *image;
    int32_t status;
} RankLaunch;

static int32_t wait_for_rank(void *user, int64_t site, const int64_t *word, int compare,
                             int64_t value, int64_t peer, int64_t number) {
    RankLaunch *r = user;
    const tg_site *what = r->image->sites[site];
    r->status = r->env->comm->wait(r->env, what, word, compare, value, peer, number);
    return r->status;
}

/// Runs the mutation test of several ranks. One site is disabled on all ranks, and one rank
/// (TG_SIM_LATE) is delayed. Other ranks see its words as soon as it raises them.
static bool run_ranks(const SimImage *code, int function, SimRun *run, const tg_env *env,
                      SimFailure *failure) {
    enum { PAUSES = 16 };
    static const struct timespec late_by = {.tv_nsec = 40000000};
    const char *log = secure_getenv("TG_SIM_MUTATE"), *late = secure_getenv("TG_SIM_LATE");
    int64_t skipped = 0;
    run->skip_site = sim_skipped_site(code, function);
    run->skipped = &skipped;
    if (late && *late && atoi(late) == env->comm->rank) {
        nanosleep(&late_by, NULL);
        run->pauses = PAUSES;
    }
    if (log && *log && env->comm->rank == 0) sim_list_sites(code, function, log);
    bool good = sim_run(code, function, run, failure);
    FILE *out = skipped && log && *log ? fopen(log, "a") : NULL;
    if (out) fprintf(out, "reached\n");
    if (out) fclose(out);
    return good;
}

/// Checks what a device function owes to the next one (tg_env.counter).
static int32_t check_counter(const tg_env *env, const tg_device_function *f) {
    char text[160];
    const uint32_t *counter = env->counter(env);
    if (!*counter) return 0;
    snprintf(text, sizeof text, "'%.80s' leaves its counter at %u instead of 0", f->name, *counter);
    return fail_launch_at(env, "", 0, 0, text);
}

static int32_t dispatch_sim(const tg_image *image, const tg_env *env, int32_t function,
                            int64_t programs, void *const *args) {
    const tg_device_function *f = &image->functions[function];
    int64_t ctas = programs * f->cluster;
    SimRun run = {.grid = {(int32_t)ctas, 1, 1},
                  .args = args,
                  .shared_bytes = f->shared_bytes,
                  .seed = sim_seed(),
                  .threads = f->threads,
                  .cluster = tg_cluster_of(f)};
    RankLaunch ranks = {env, image, 0};
    SimFailure failure;
    if (programs <= 0) return 0;
    if (env->comm) run.wait = wait_for_rank, run.user = &ranks;
    if (ctas > INT32_MAX)
        return fail_launch_at(env, "", 0, 0, "a launch of more than 2^31 - 1 CTAs");
    SimImage *code = image->user;
    int number_of = sim_find(code, f->name);
    SimBuffer buffers[MOST_BUFFERS];
    run.buffers = buffers;
    if (code->check)
        run.n_buffers = find_buffers(code, env, &code->functions[number_of], args, buffers);
    const char *path = secure_getenv("TG_SIM_MUTATE");
    bool mutate = code->check && path && *path;
    if (env->comm ? run_ranks(code, number_of, &run, env, &failure)
        : mutate  ? sim_mutate(code, number_of, &run, path, &failure)
                  : sim_run(code, number_of, &run, &failure))
        return check_counter(env, f);
    if (ranks.status) return ranks.status;
    return fail_launch_at(env, failure.file, failure.line, failure.column, failure.text);
}

// Indexed by the runtime's number of the type.
static const int64_t type_bytes[] = {1, 2, 4, 4, 8, 8, 2, 4, 8, 2, 4, 4, 4};

static int swizzle_number(int bytes) {
    return bytes == 128 ? 3 : bytes == 64 ? 2 : bytes == 32 ? 1 : 0;
}

static int32_t encode_sim_tensormap(const tg_image *image, const tg_env *env,
                                    const tg_tensormap *how, void *data, const int64_t *dims,
                                    const int64_t *strides, void *out) {
    uint64_t extents[5], steps[5];
    uint32_t box[5];
    const char *wrong = how->rank > 5 ? "a tensor map of more than 5 dimensions" : NULL;
    (void)image;
    for (int i = 0; !wrong && i < how->rank; i++) {
        int axis = how->axes[i];
        extents[i] = (uint64_t)dims[axis];
        box[i] = (uint32_t)how->box[i];
        if (i > 0) steps[i - 1] = (uint64_t)(strides[axis] * type_bytes[how->type]);
        if (i == 0 && strides[axis] != 1 && dims[axis] > 1)
            wrong = "the innermost dimension of a tensor map is not contiguous";
    }
    if (!wrong)
        wrong = sim_tensor_map(out, how->type, how->rank, data, extents, steps, box, NULL, 0,
                               swizzle_number(how->swizzle), how->fill);
    return wrong ? fail_launch_at(env, "", 0, 0, wrong) : 0;
}

void sim_image_fill(SimImage *image, tg_image *out) {
    out->kind = TG_IMAGE_CALL;
    out->target = image->target->name;
    out->dispatch = dispatch_sim;
    out->tensormap = encode_sim_tensormap;
    out->fresh = image->check ? mark_fresh : NULL;
    out->user = image;
}
