// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Stores results of searches on disk, under four keys.
//
// The keys of the shape and of its bucket contain all inputs that decide the fastest setting, so a
// result is never used on another machine. The third key is that of the shape without sources. It
// finds measurements from before a change of the sources; only those of candidates whose code is
// the same, byte for byte, are used. The fourth key is that of the bucket without sources and
// machine. It holds the winners of machines of one maker, which are hints for searches.
//
//     code       texts of the sources, kernel, pinned values, the compiler and LLVM, the tools
//     machine    the CPU with its level and threads; or for a GPU name, SMs, shared memory, L2
//                cache, clocks, width of the memory, version of the driver; for kernels of ranks
//                their number, and their threads or GPUs
//     arguments  types, ranks, nulls, strides of 0 and 1, alignment, constants
//     shape      each extent; for a bucket, the nearest power of two
#include "driver/tune/tune.h"

#include "driver/code_cache.h"
#include "driver/remote/worker.h"
#include "driver/tune/tune_store.h"
#include "driver/tune/tuned_file.h"

#include <stdlib.h>
#include <string.h>

/* ---- keys ---------------------------------------------------------------------------------- */

/// Returns the power of two nearest to an extent, by logarithm.
static int64_t bucket_of(int64_t extent) {
    int64_t b = 1;
    while (b < extent && b < INT64_MAX / 4) b *= 2;
    return (double)b * b > 2.0 * (double)extent * (double)extent ? b / 2 : b;
}

static void add_argument_key(Text *t, const tg_param_info *p, const tg_actual *a, bool bucket) {
    bool tensor = p->kind == TG_PARAM_TENSOR;
    text_add(t, "%d %d %d %d", a->null, a->code, a->bits, a->rank);
    if (p->kind == TG_PARAM_CONST) text_add(t, " =%lld", (long long)a->value);
    if (tensor && !a->null) text_add(t, " align %d", a->align);
    for (int i = 0; tensor && i < a->rank; i++) {
        int64_t extent = a->shape[i], stride = extent > 1 ? a->strides[i] : 1;
        text_add(t, " %lld%s", (long long)(bucket ? bucket_of(extent) : extent),
                 stride == 0   ? "b"
                 : stride == 1 ? "c"
                               : "s");
    }
    text_add(t, "\n");
}

/// Keys of the result for the shape and its bucket, of the shape's measurements, and of winners.
typedef struct ResultKeys {
    StoreKey shape, bucket, trials, siblings;
    uint64_t source, machine;
} ResultKeys;

static StoreKey result_key(Ctx *ctx, const Text *machine, const char *what,
                           const tg_kernel_info *info, const Request *r, bool bucket) {
    Text t = {.ctx = ctx};
    text_bytes(&t, machine->data, machine->n);
    text_add(&t, "%s\n", what);
    for (int i = 0; i < r->n_args; i++) add_argument_key(&t, &info->params[i], &r->args[i], bucket);
    return store_hash(t.data, t.n);
}

/// Adds the inputs of the code as a message, with or without the sources.
static void add_code(Text *t, const Request *r, bool sources) {
    Request code = *r;
    code.n_args = 0;
    if (!sources) {
        code.path = "";
        code.n_texts = 0;
    }
    cache_add_request(t, &code);
}

/// Makes the key shared by machines of one maker, from the parts of a request that do not depend on
/// the machine.
static StoreKey siblings_key(Ctx *ctx, const tg_kernel_info *info, const Request *r) {
    const char *level;
    const Backend *b = backend_of(r->target, &level);
    Text t = {.ctx = ctx};
    Request code = *r;
    code.target = code.machine = code.codegen = NULL;
    code.threads = code.driver = 0;
    text_add(&t, "siblings 1 %s\n%d ranks\n", b ? b->name : "", r->ranks.n);
    add_code(&t, &code, false);
    return result_key(ctx, &t, "siblings", info, r, true);
}

static uint64_t number_of_store_key(StoreKey key) {
    uint64_t n;
    memcpy(&n, key.bytes, sizeof n);
    return n;
}

/// NULL: the texts have errors.
static const tg_kernel_info *request_info(Ctx *ctx, const Request *r) {
    Build b;
    if (r->info) return r->info;
    return request_build(ctx, r, &b) ? kernel_info(ctx, b.program, b.inst->kernel) : NULL;
}

/// False: the keys cannot be computed, or results are not stored.
static bool result_keys(Ctx *ctx, const Request *r, int device, ResultKeys *out) {
    const char *codegen = r->codegen ? r->codegen : secure_getenv("TG_CODEGEN");
    CodeOptions options = {.machine = r->machine, .codegen = codegen, .driver = r->driver};
    Text t = {.ctx = ctx};
    if (cache_is_off() || r->debug) return false;
    text_add(&t, "tuning 3 %s\n", codegen ? codegen : "");
    if (!backend_identity(&t, &options)) return false;
    const tg_kernel_info *info = request_info(ctx, r);
    if (!info || info->n_params != r->n_args) return false;
    text_add(&t, "%s\n%s\n%d %d\n", tune_device(ctx, r, device), r->target ? r->target : "",
             r->threads, r->driver);
    if (r->ranks.n)
        text_add(&t, "%d ranks of %d threads, %d GPUs\n", r->ranks.n, r->ranks.threads,
                 r->ranks.gpus);
    Text any = {.ctx = ctx};
    text_bytes(&any, t.data, t.n);
    out->machine = number_of_store_key(store_hash(t.data, t.n));
    add_code(&any, r, false);
    add_code(&t, r, true);
    out->source = number_of_store_key(store_hash(t.data, t.n));
    out->siblings = siblings_key(ctx, info, r);
    out->shape = result_key(ctx, &t, "shape", info, r, false);
    out->bucket = result_key(ctx, &t, "bucket", info, r, true);
    out->trials = result_key(ctx, &any, "trials", info, r, false);
    return true;
}

/* ---- finding, keeping ---------------------------------------------------------------------- */

static bool find_result(Ctx *ctx, StoreKey key, TuneResult *out) {
    Bytes body;
    return cache_get(ctx, key, STORE_TUNING, WIRE_RESULT, &body) &&
           work_read_result(ctx, body, out);
}

bool tune_find(Ctx *ctx, const Request *r, int device, TuneResult *out) {
    ResultKeys keys;
    if (!result_keys(ctx, r, device, &keys)) return false;
    if (find_result(ctx, keys.shape, out)) return out->known = true;
    return find_result(ctx, keys.bucket, out) && (out->known = tune_bucket(ctx, r, out));
}

bool tune_earlier(Ctx *ctx, const Request *r, int device, TuneResult *out, uint64_t *source) {
    ResultKeys keys;
    if (!result_keys(ctx, r, device, &keys)) return false;
    *source = keys.source;
    return find_result(ctx, keys.trials, out);
}

bool tune_claim_key(Ctx *ctx, const Request *r, int device, bool background, StoreKey *out) {
    ResultKeys keys;
    bool known = result_keys(ctx, r, device, &keys);
    if (known) *out = keys.shape;
    if (known && background) out->bytes[1] ^= 1;
    return known;
}

static void keep_tuning(Ctx *ctx, const Request *r, const TuneResult *result, int n,
                        const StoreKey *keys) {
    Bytes value = work_write_result(ctx, result);
    const char *about = ctx_format(ctx, "%s %s on %s: %s (%s)", r->kernel, result->shape,
                                   result->device, result->config, r->path);
    for (int i = 0; i < n; i++)
        cache_put(&(StoreEntry){.key = keys[i],
                                .kind = STORE_TUNING,
                                .about = about,
                                .value = value.data,
                                .bytes = value.n});
}

static void read_siblings(Ctx *ctx, const ResultKeys *keys, TuneSiblings *out) {
    Bytes body;
    if (!cache_get(ctx, keys->siblings, STORE_TUNING, WIRE_SIBLINGS, &body) ||
        !tune_read_siblings(ctx, body, out))
        *out = (TuneSiblings){0};
}

/// Returns the list without one machine, after `first` if that is not NULL.
static TuneSiblings other_machines(Ctx *ctx, const TuneSiblings *all, uint64_t machine,
                                   const TuneSibling *first) {
    TuneSibling *at = ctx_array(ctx, TuneSibling, TUNE_SIBLINGS);
    TuneSiblings out = {.at = at};
    if (first) at[out.n++] = *first;
    for (int i = 0; i < all->n && out.n < TUNE_SIBLINGS; i++)
        if (all->at[i].machine != machine) at[out.n++] = all->at[i];
    return out;
}

void tune_siblings(Ctx *ctx, const Request *r, int device, TuneSiblings *out) {
    ResultKeys keys;
    *out = (TuneSiblings){0};
    if (!result_keys(ctx, r, device, &keys)) return;
    read_siblings(ctx, &keys, out);
    *out = other_machines(ctx, out, keys.machine, NULL);
}

/// If two processes do this at once, one winner may be lost. That loses a hint, not a result.
static void keep_sibling(Ctx *ctx, const Request *r, const ResultKeys *keys,
                         const TuneResult *result) {
    TuneSibling own = {keys->machine, result->device, result->config};
    TuneSiblings all;
    read_siblings(ctx, keys, &all);
    all = other_machines(ctx, &all, keys->machine, &own);
    Bytes value = tune_write_siblings(ctx, &all);
    cache_put(
        &(StoreEntry){.key = keys->siblings,
                      .kind = STORE_TUNING,
                      .about = ctx_format(ctx, "%s near %s: what won on %d machine%s", r->kernel,
                                          result->shape, all.n, all.n == 1 ? "" : "s"),
                      .value = value.data,
                      .bytes = value.n});
}

void tune_keep(Ctx *ctx, const Request *r, int device, const TuneResult *result) {
    TuneResult kept = *result;
    ResultKeys keys;
    if (!result_keys(ctx, r, device, &keys)) return;
    kept.source = keys.source;
    keep_tuning(ctx, r, &kept, 3, (const StoreKey[]){keys.trials, keys.bucket, keys.shape});
    keep_sibling(ctx, r, &keys, &kept);
}

void tune_keep_part(Ctx *ctx, const Request *r, int device, const TuneResult *result) {
    TuneResult kept = *result;
    ResultKeys keys;
    if (!result_keys(ctx, r, device, &keys)) return;
    kept.source = keys.source;
    kept.budget = 0; // any budget is larger
    keep_tuning(ctx, r, &kept, 1, &keys.trials);
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
