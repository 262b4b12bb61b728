// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Results of searches on disk, under two keys: of the shape, and of its bucket. Both have all that
// decides which setting is fastest, so that no result is ever taken on another machine.
//
//     code       sources, kernel, pinned values, builds of the compiler and of LLVM, the tools
//     machine    the CPU with its level and the threads; or of a GPU name, SMs, second cache,
//                clocks, width of the memory, version of the driver
//     arguments  types, ranks, which are null, strides of 0 and 1, alignment, constants
//     shape      each extent; of a bucket to the nearest power of two
#include "driver/tune.h"

#include "driver/cache.h"
#include "driver/tune_store.h"
#include "driver/tuned.h"
#include "driver/worker.h"

#include <stdlib.h>
#include <string.h>

/* ---- keys ---------------------------------------------------------------------------------- */

/// The power of two nearest to an extent, by its logarithm.
static int64_t bucket_of(int64_t extent) {
    int64_t b = 1;
    while (b < extent && b < INT64_MAX / 4) b *= 2;
    return (double)b * b > 2.0 * (double)extent * (double)extent ? b / 2 : b;
}

static void add_argument(Text *t, const tg_param_info *p, const tg_actual *a, bool bucket) {
    bool tensor = p->kind == TG_PARAM_TENSOR;
    text_add(t, "%d %d %d %d", a->null, a->code, a->bits, a->rank);
    if (p->kind == TG_PARAM_CONST) text_add(t, " =%lld", (long long)a->value);
    if (tensor && !a->null) text_add(t, " align %d", a->aligned);
    for (int i = 0; tensor && i < a->rank; i++) {
        int64_t extent = a->shape[i], stride = extent > 1 ? a->strides[i] : 1;
        text_add(t, " %lld%s", (long long)(bucket ? bucket_of(extent) : extent),
                 stride == 0   ? "b"
                 : stride == 1 ? "c"
                               : "s");
    }
    text_add(t, "\n");
}

enum { KEYS = 2 }; // of the shape, of its bucket

/// False where they cannot be told, or results are not kept. The keys differ at the end alone.
static bool keys_of(Ctx *ctx, const Request *r, int device, StoreKey out[KEYS]) {
    const char *codegen = r->codegen ? r->codegen : getenv("TG_CODEGEN");
    CodeOptions options = {.machine = r->machine, .codegen = codegen, .driver = r->driver};
    Text t = {.ctx = ctx};
    Build b;
    if (cache_is_off() || r->debug) return false;
    text_add(&t, "tuning 2 %s\n", codegen ? codegen : "");
    if (!backend_identity(&t, &options) || !request_build(ctx, r, &b)) return false;
    const tg_kernel_info *info = kernel_info(ctx, b.program, b.inst->kernel);
    if (info->n_params != r->n_args) return false;
    text_add(&t, "%s\n%s\n%d %d\n", tune_device(ctx, r, device), r->target ? r->target : "",
             r->threads, r->driver);
    Request code = *r;
    code.n_known = code.n_args = 0;
    Bytes request = wire_write_request(ctx, &code);
    text_bytes(&t, (const char *)request.data, request.n);
    for (int bucket = 0; bucket < KEYS; bucket++) {
        Text own = {.ctx = ctx};
        text_bytes(&own, t.data, t.n);
        text_add(&own, "%s\n", bucket ? "bucket" : "shape");
        for (int i = 0; i < r->n_args; i++)
            add_argument(&own, &info->params[i], &r->args[i], bucket);
        out[bucket] = store_hash(own.data, own.n);
    }
    return true;
}

/* ---- finding, keeping ---------------------------------------------------------------------- */

bool tune_find(Ctx *ctx, const Request *r, int device, TuneResult *out) {
    StoreKey keys[KEYS];
    Bytes body;
    if (!keys_of(ctx, r, device, keys)) return false;
    for (int i = 0; i < KEYS; i++)
        if (cache_get(ctx, keys[i], STORE_TUNING, WIRE_RESULT, &body) &&
            work_read_result(ctx, body, out))
            return out->known = true;
    return false;
}

bool tune_claim_key(Ctx *ctx, const Request *r, int device, StoreKey *out) {
    StoreKey keys[KEYS];
    bool known = keys_of(ctx, r, device, keys);
    if (known) *out = keys[0];
    return known;
}

void tune_keep(Ctx *ctx, const Request *r, int device, const TuneResult *result) {
    Bytes value = work_write_result(ctx, result);
    const char *about = ctx_format(ctx, "%s %s on %s: %s (%s)", r->kernel, result->shape,
                                   result->device, result->config, r->path);
    StoreKey keys[KEYS];
    if (!keys_of(ctx, r, device, keys)) return;
    for (int i = 0; i < KEYS; i++)
        cache_put(&(StoreEntry){.key = keys[i],
                                .kind = STORE_TUNING,
                                .about = about,
                                .value = value.data,
                                .bytes = value.n});
}

bool tune_set(Ctx *ctx, const char *config, Request *r) {
    int n;
    NamedValue *set;
    if (!*config || values_read(ctx, config, &n, &set)) return false;
    r->set = set;
    r->n_set = n;
    r->tuned = true;
    return true;
}
