// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Picks the variant of a launch.
//
// Launches read the list of variants without a lock. The list only grows at its end; an atomic
// pointer replaces it by a longer one. Ranking all variants takes longer than a small kernel. A
// memo therefore keeps the choice under a hash of everything it depends on, until a tuned variant
// arrives. The facts of a remembered variant are checked again: a hash collision may cost speed,
// and never a result.
#include "runtime/launch/warm_launch.h"

#include <string.h>

typedef struct VariantList {
    struct VariantList *older; // launches may still read it
    int capacity;
    _Atomic int n;
    const tg_variant *at[]; // runnable on this CPU
} VariantList;

/// A variant of an object that was tuned here. Its hints are the extents of the tuning.
typedef struct TunedVariant {
    struct TunedVariant *next;
    size_t bytes;
    tg_variant variant;
    tg_hint hints[];
} TunedVariant;

enum { MEMO = 16, FIRST_CAPACITY = 8 };

/// In bits of log2: extents further than FAR from all hints get their own code.
enum { LOG2_ONE = 1024, FAR = 3 * LOG2_ONE };

/// The total distance of extents up to which a tuned variant serves them.
enum { BUCKET = LOG2_ONE / 2 };

/// The runtime's data on a kernel.
typedef struct rt_state {
    rt_pulse pulse;   // must be first
    tg_options hooks; // of this state's memory
    const tg_compiler *compiler;
    void *user;
    _Atomic(VariantList *) list;
    TunedVariant *tuned;     // under the lock `compiling`
    _Atomic uintptr_t tuner; // 0: the kernel is not tuned (rt_tune)
    // Each entry holds the upper 48 bits of a hash and 1 + the number of the chosen variant, or,
    // with 0 instead, an epoch: no choice is known.
    _Atomic uint64_t memo[MEMO];
    uint64_t number; // the first epoch, different from all other states
    tg_lock compiling;
    const tg_kernel_info *info;
    _Atomic bool excluded[]; // of the kernel's own variants
} rt_state;
_Static_assert(offsetof(rt_state, pulse) == 0, "rt_count and rt_epoch find it there");

/* ---- inputs of the choice ------------------------------------------------------------------ */

static int argument_alignment(const rt_actual *a) {
    return tg_alignment(a->data, a->rank, a->shape, a->strides, a->bits);
}

static bool is_near_actual(const rt_actual *a) {
    return tg_is_near(a->rank, a->shape, a->strides, a->bits);
}

/// Hashes only those scalars that are constants. No fact mentions other scalars, and a seed or step
/// that changes with each launch must not invalidate the memo.
uint64_t rt_hash_arguments(const rt_launcher *l, const tg_kernel_info *info) {
    // A tuned variant is for one device, even among similar ones, and for one number of threads.
    uint64_t hash =
        rt_mix((uint64_t)l->capability << 32 | (uint32_t)l->context->threads, (uint64_t)l->device);
    if (!rt_comm_is_mapped(l->comm)) hash = rt_mix(hash, 1);
    for (int i = 0; i < info->n_types; i++) hash = rt_mix(hash, l->types[i]);
    for (int i = 0; i < info->n_params; i++) {
        const rt_actual *a = &l->actuals[i];
        bool constant = info->params[i].kind == TG_PARAM_CONST;
        uint64_t value = a->tensor ? (uint64_t)a->rank : constant ? (uint64_t)a->value : 0;
        hash =
            rt_mix(hash, value + a->null + (a->tensor ? (uint64_t)argument_alignment(a) << 18 : 0) +
                             (a->tensor && is_near_actual(a) ? 1u << 17 : 0));
        for (int d = 0; a->tensor && d < a->rank; d++) {
            hash = rt_mix(hash, (uint64_t)a->shape[d]);
            // Facts distinguish strides of 0, of 1, and others.
            if (a->strides[d] == 0 || a->strides[d] == 1) hash += 1 + (uint64_t)a->strides[d];
        }
    }
    return rt_mix(hash, 0);
}

static bool fact_holds(const rt_launcher *l, const tg_fact *f) {
    const rt_actual *a = &l->actuals[f->param];
    switch (f->kind) {
    case TG_FACT_MAPPED: return rt_comm_is_mapped(l->comm) == (f->value != 0);
    case TG_FACT_NULL: return a->null == (f->value != 0);
    case TG_FACT_VALUE: return a->value == f->value;
    case TG_FACT_TYPE: return !l->types[f->param] || l->types[f->param] == f->value;
    case TG_FACT_PACK: return !a->null && a->groups == f->value;
    case TG_FACT_ALIGN: return !a->null && (f->value & (TG_LINE / argument_alignment(a)));
    case TG_FACT_NEAR: return !a->null && is_near_actual(a) == (f->value != 0);
    default: break;
    }
    if (a->null || f->axis >= a->rank) return false;
    int64_t extent = a->shape[f->axis];
    switch (f->kind) {
    case TG_FACT_EXTENT: return extent == f->value;
    case TG_FACT_LEAST: return extent >= f->value;
    case TG_FACT_MOST: return extent <= f->value;
    case TG_FACT_STRIDE: return extent <= 1 || a->strides[f->axis] == f->value;
    case TG_FACT_STRIDED: return extent <= 1 || (uint64_t)a->strides[f->axis] > 1;
    default: return false; // a kind from a later version
    }
}

/// Whether the launcher's device runs the image. A CPU runs variants without an image, and images
/// that are called as functions.
static bool runs_there(const rt_launcher *l, const tg_image *image) {
    if (l->capability) return image && rt_image_runs(image, l->capability);
    return !image || image->kind == TG_IMAGE_CALL;
}

static bool is_right(const rt_launcher *l, const tg_variant *v) {
    if (!runs_there(l, v->image)) return false;
    for (int i = 0; i < v->n_facts; i++)
        if (!fact_holds(l, &v->facts[i])) return false;
    return true;
}

bool rt_serves(const rt_launcher *l, const tg_variant *v) {
    return v->level <= (int)tg_cpu_level() && is_right(l, v);
}

/// log2 in units of 1 / LOG2_ONE, linear between powers of two; values below 1 count as 1.
static int64_t scaled_log2(int64_t x) {
    if (x <= 1) return 0;
    int e = 63 - __builtin_clzll((uint64_t)x);
    uint64_t fraction = (uint64_t)x << (63 - e) << 1; // a fraction of 2^64
    return (int64_t)e * LOG2_ONE + (int64_t)(fraction >> 54);
}

static int64_t hint_distance(const rt_launcher *l, const tg_variant *v) {
    int64_t sum = 0;
    for (int i = 0; i < v->n_hints; i++) {
        const rt_actual *a = &l->actuals[v->hints[i].param];
        if (!a->tensor || v->hints[i].axis >= a->rank) continue;
        int64_t d = scaled_log2(a->shape[v->hints[i].axis]) - scaled_log2(v->hints[i].extent);
        sum += d < 0 ? -d : d;
    }
    return sum;
}

/* ---- the list ------------------------------------------------------------------------------ */

static size_t list_bytes(int capacity) {
    return sizeof(VariantList) + sizeof(tg_variant *) * (size_t)capacity;
}

static VariantList *list_new(const tg_options *hooks, int capacity, VariantList *older) {
    VariantList *list = rt_allocate(hooks, list_bytes(capacity));
    if (!list) return NULL;
    int n = older ? atomic_load(&older->n) : 0;
    list->older = older;
    list->capacity = capacity;
    if (n) memcpy(list->at, older->at, sizeof *list->at * (size_t)n);
    atomic_init(&list->n, n);
    return list;
}

/// The caller holds the lock, or the state is still private. The compiler may return a variant
/// twice.
static bool add_variant(rt_state *s, const tg_variant *variant) {
    VariantList *list = atomic_load(&s->list);
    int n = atomic_load(&list->n);
    for (int i = 0; i < n; i++)
        if (list->at[i] == variant) return true;
    if (n == list->capacity) {
        list = list_new(&s->hooks, 2 * n, list);
        if (!list) return false;
        atomic_store(&s->list, list);
    }
    list->at[n] = variant;
    atomic_store(&list->n, n + 1);
    return true;
}

static size_t state_bytes(const tg_kernel_info *info) {
    return sizeof(rt_state) + sizeof(_Atomic bool) * (size_t)info->n_variants;
}

static void state_free(rt_state *s) {
    tg_options hooks = s->hooks;
    for (VariantList *list = atomic_load(&s->list), *older; list; list = older) {
        older = list->older;
        rt_release(&hooks, list, list_bytes(list->capacity));
    }
    for (TunedVariant *t = s->tuned, *next; t; t = next) {
        next = t->next;
        rt_release(&hooks, t, t->bytes);
    }
    tg_lock_destroy(&s->compiling);
    rt_release(&hooks, s, state_bytes(s->info));
}

/// Epochs are unique over all states, since a state may reuse the address of another one.
static uint64_t next_epoch(void) {
    static _Atomic uint64_t epochs;
    return atomic_fetch_add(&epochs, 1) + 1;
}

static rt_state *state_new(const tg_options *hooks, const tg_kernel_info *info) {
    rt_state *s = rt_allocate(hooks, state_bytes(info));
    if (!s) return NULL;
    memset(s, 0, state_bytes(info));
    s->hooks = *hooks;
    s->info = info;
    s->number = next_epoch();
    atomic_init(&s->pulse.epoch, s->number);
    tg_lock_init(&s->compiling);
    int n = info->n_variants > FIRST_CAPACITY ? info->n_variants : FIRST_CAPACITY;
    VariantList *list = list_new(hooks, n, NULL);
    atomic_init(&s->list, list);
    if (!list) {
        state_free(s);
        return NULL;
    }
    for (int i = 0; i < info->n_variants; i++)
        if (info->variants[i].level <= (int)tg_cpu_level()) add_variant(s, &info->variants[i]);
    return s;
}

/* ---- kernels ------------------------------------------------------------------------------- */

tg_status tg_kernel_open(tg_kernel *kernel, const tg_kernel_info *info, const tg_compiler *compiler,
                         void *user) {
    *kernel = (tg_kernel){.abi = TG_ABI, .info = info};
    const tg_context *c = rt_context();
    rt_state *s = c ? state_new(&c->hooks, info) : NULL;
    if (!s) return tg_fail(TG_ERROR_MEMORY, "out of memory");
    s->compiler = compiler;
    s->user = user;
    kernel->state = s;
    return TG_OK;
}

void rt_kernel_close(tg_kernel *kernel) {
    if (kernel->state) state_free(kernel->state);
    kernel->state = NULL;
}

/// Makes the state of an object's kernel. It lives as long as the process and is therefore not
/// allocated by a context. If two threads make it at once, one of the two is kept.
RT_SELDOM static rt_state *make_state(tg_kernel *kernel) {
    void **place = &kernel->state;
    tg_options hooks = rt_default_hooks();
    void *mine = state_new(&hooks, kernel->info), *other = NULL;
    if (!mine ||
        __atomic_compare_exchange_n(place, &other, mine, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
        return mine;
    state_free(mine);
    return other;
}

static inline rt_state *kernel_state(tg_kernel *kernel) {
    rt_state *s = __atomic_load_n(&kernel->state, __ATOMIC_ACQUIRE);
    return s ? s : make_state(kernel);
}

/* ---- choosing ------------------------------------------------------------------------------ */

typedef struct Best {
    int number;       // the number of the variant; -1: none
    int64_t distance; // negative: tuned for such extents
} Best;

/// Ranks a later architecture higher; within one, machine code before PTX.
static int image_rank(const tg_variant *v) {
    return v->image ? 2 * v->image->arch + (v->image->kind != TG_IMAGE_PTX) : 0;
}

/// Compares variants by image, level and facts, without distances and tuning. Positive: v precedes
/// b.
static int variant_precedence(const tg_variant *v, const tg_variant *b) {
    int images = image_rank(v) - image_rank(b), levels = v->level - b->level;
    return images ? images : levels ? levels : v->n_facts - b->n_facts;
}

/// Whether a variant was tuned on the launcher's device or is for any device. `here` caches the
/// device's number; 0: not asked yet.
static bool is_at_home(const rt_launcher *l, const tg_variant *v, uint32_t *here) {
    if (!v->device) return true;
    if (!*here) *here = rt_device_hash(l->device, l->context->threads);
    return v->device == *here;
}

/// Ranks by the order in tg_hint. tuned: includes tuned variants.
static Best rank_variants(VariantList *list, const rt_launcher *l, bool tuned) {
    Best best = {-1, 0};
    const tg_variant *b = NULL;
    uint32_t here = 0;
    int n = atomic_load(&list->n);
    for (int i = 0; i < n; i++) {
        const tg_variant *v = list->at[i];
        if ((v->tuned && !tuned) || !is_right(l, v) || !is_at_home(l, v, &here)) continue;
        int64_t d = hint_distance(l, v);
        int first = b ? variant_precedence(v, b) : 1;
        // Variants tuned for about these extents are nearer than any other.
        if (v->tuned && d <= BUCKET) d -= BUCKET + 1;
        bool nearer = d < best.distance || (d == best.distance && v->tuned);
        if (first < 0 || (first == 0 && !nearer)) continue;
        best = (Best){i, d};
        b = v;
    }
    return best;
}

/// Whether the extents are so far from the variant's hints that the compiler could find a better
/// setting. The best setting for some extents may waste most of the last tile of others; the
/// compiler would see that.
static bool is_far_from_hints(const VariantList *list, Best best) {
    const tg_variant *v = list->at[best.number];
    return best.distance > (v->tuned ? BUCKET : FAR) && v->config && *v->config;
}

static void fill_actual(tg_actual *out, const rt_actual *a, bool symmetric) {
    *out = (tg_actual){.null = a->null, .code = a->code, .bits = a->bits, .value = a->value};
    if (!a->tensor) return;
    out->value = 0;
    out->tensor = a->tensor;
    out->symmetric = symmetric;
    out->rank = (int8_t)a->given_rank;
    out->shape = a->given_shape;
    out->strides = a->given_strides;
    out->align = (uint8_t)argument_alignment(a);
}

static void fill_actuals(tg_actual *out, const rt_launcher *l, const tg_kernel_info *info) {
    for (int i = 0; i < info->n_params; i++)
        fill_actual(&out[i], &l->actuals[i], info->params[i].flags & TG_PARAM_SYM);
}

/// The caller holds the lock, and has looked for variants that another thread compiled meanwhile.
static tg_status compile_variant(rt_state *s, const rt_launcher *l, const tg_kernel_info *info,
                                 const char *config) {
    tg_actual actuals[TG_MAX_PARAMS];
    const tg_variant *v = NULL;
    fill_actuals(actuals, l, info);
    tg_wanted wanted = {.capability = l->capability,
                        .device = l->device,
                        .stream = l->gpu.stream,
                        .home = rt_device_hash(l->device, l->context->threads),
                        .captured = rt_is_captured(l->device, l->gpu.stream),
                        .n = info->n_params,
                        .args = actuals,
                        .collective = rt_is_collective(info),
                        .unmapped = !rt_comm_is_mapped(l->comm),
                        .comm = l->comm,
                        .config = config};
    if (l->comm) wanted.ranks = rt_comm_ranks(l->comm, l->context->active);
    tg_status status = s->compiler->compile(s->user, &wanted, &v);
    if (status) return status;
    if (!rt_serves(l, v))
        return tg_fail(TG_ERROR_INTERNAL,
                       "%s: the code made for these arguments is not right for "
                       "them: please report this",
                       info->name);
    return add_variant(s, v) ? TG_OK : tg_fail(TG_ERROR_MEMORY, "out of memory");
}

/// Ranks the variants and compiles one if no right one is near. If the compiler fails, takes a
/// variant that is right but was not tuned for the extents.
static tg_status rank_or_compile(rt_state *s, const rt_launcher *l, const tg_kernel_info *info,
                                 int *out) {
    tg_lock_take(&s->compiling);
    Best best = rank_variants(atomic_load(&s->list), l, true);
    tg_status status = TG_OK;
    if (best.number < 0 || is_far_from_hints(atomic_load(&s->list), best)) {
        status = compile_variant(s, l, info, NULL);
        Best made = rank_variants(atomic_load(&s->list), l, true);
        if (made.number >= 0) best = made;
    }
    tg_lock_give(&s->compiling);
    *out = best.number;
    return best.number < 0 ? status : TG_OK;
}

/// The memos go first: a launch that sees the new epoch must not find an older choice, which its
/// launcher would repeat for the whole epoch. Each cleared entry differs from all earlier ones.
static void forget_memo(rt_state *s) {
    uint64_t epoch = next_epoch();
    for (int i = 0; i < MEMO; i++) atomic_store(&s->memo[i], epoch << 16);
    atomic_store(&s->pulse.epoch, epoch);
}

/// The caller holds the lock. Concurrent launches notice that the list has grown (rt_pick).
static bool adopt_variant(rt_state *s, const tg_variant *variant) {
    bool added = add_variant(s, variant);
    forget_memo(s);
    return added;
}

tg_status tg_kernel_adopt(tg_kernel *kernel, const tg_variant *variant) {
    rt_state *s = kernel_state(kernel);
    if (!s) return tg_fail(TG_ERROR_MEMORY, "out of memory");
    tg_lock_take(&s->compiling);
    bool added = adopt_variant(s, variant);
    tg_lock_give(&s->compiling);
    return added ? TG_OK : tg_fail(TG_ERROR_MEMORY, "out of memory");
}

static int variants_of(rt_state *s) {
    return atomic_load(&atomic_load(&s->list)->n);
}

static tg_status choose_variant(rt_state *s, const rt_launcher *l, const tg_kernel_info *info,
                                int *out) {
    VariantList *list = atomic_load(&s->list);
    Best best = rank_variants(list, l, true);
    *out = best.number;
    if (s->compiler && (best.number < 0 || is_far_from_hints(list, best)))
        return rank_or_compile(s, l, info, out);
    return best.number < 0 ? rt_no_variant(l, info) : TG_OK;
}

int tg_kernel_launches(const tg_kernel *kernel) {
    rt_state *s = __atomic_load_n(&kernel->state, __ATOMIC_ACQUIRE);
    return s ? atomic_load_explicit(&s->pulse.launches, memory_order_relaxed) : 0;
}

rt_pulse *rt_pulse_of(tg_kernel *kernel) {
    rt_state *s = kernel_state(kernel);
    return s ? &s->pulse : NULL;
}

tg_status rt_pick(tg_kernel *kernel, const rt_launcher *l, const tg_variant **out, bool *chosen) {
    rt_state *s = kernel_state(kernel);
    if (!s) return tg_fail(TG_ERROR_MEMORY, "out of memory");
    rt_count(&s->pulse);
    uint64_t hash = rt_hash_arguments(l, kernel->info);
    _Atomic uint64_t *memo = &s->memo[hash % MEMO];
    uint64_t known = atomic_load_explicit(memo, memory_order_acquire);
    int number = (int)(known & 0xffff) - 1;
    if (number >= 0 && known >> 16 == hash >> 16) {
        *out = atomic_load_explicit(&s->list, memory_order_acquire)->at[number];
        if (is_right(l, *out)) return TG_OK;
    }
    if (chosen) *chosen = true;
    int before = variants_of(s);
    tg_status status = choose_variant(s, l, kernel->info, &number);
    if (status) return status;
    *out = atomic_load(&s->list)->at[number];
    if (number >= 0xffff) return TG_OK;
    // A variant adopted meanwhile may be better. The memos were cleared then, so this choice must
    // not replace an entry that has changed since. The second test is for an entry that was
    // cleared and made again.
    uint64_t chose = hash >> 16 << 16 | (uint64_t)(number + 1);
    if (atomic_compare_exchange_strong(memo, &known, chose) && variants_of(s) != before)
        atomic_store(memo, next_epoch() << 16);
    return TG_OK;
}

/* ---- variants and times that exist --------------------------------------------------------- */

const tg_variant *rt_known(tg_kernel *kernel, const rt_launcher *l, bool *tuned) {
    rt_state *s = kernel_state(kernel);
    VariantList *list = s ? atomic_load(&s->list) : NULL;
    Best best = list ? rank_variants(list, l, true) : (Best){-1, 0};
    if (best.number < 0 || (s->compiler && is_far_from_hints(list, best))) return NULL;
    *tuned = best.distance < 0;
    return list->at[best.number];
}

bool rt_times(tg_kernel *kernel, const tg_variant *variant, double *seconds, double *standard) {
    rt_state *s = kernel_state(kernel);
    return s && s->compiler && s->compiler->times &&
           s->compiler->times(s->user, variant, seconds, standard);
}

bool rt_compiles(tg_kernel *kernel) {
    const rt_state *s = kernel_state(kernel);
    return s && s->compiler;
}

tg_status rt_infer(tg_kernel *kernel, const rt_launcher *l, tg_inferred *out) {
    rt_state *s = kernel_state(kernel);
    tg_actual actuals[TG_MAX_PARAMS];
    if (!s || !s->compiler || !s->compiler->infer)
        return tg_fail(TG_ERROR_UNSUPPORTED,
                       "%s: objects do not keep the dims of their kernels, so results of a known "
                       "shape must be passed",
                       kernel->info->name);
    fill_actuals(actuals, l, kernel->info);
    return s->compiler->infer(s->user, actuals, l->types, out);
}

const char *rt_doc(tg_kernel *kernel) {
    const rt_state *s = kernel_state(kernel);
    return s && s->compiler && s->compiler->doc ? s->compiler->doc(s->user) : "";
}

/* ---- the choice of another rank ------------------------------------------------------------ */

/// Finds the variant of that config that rank 0 chose. All ranks must run the same one, since
/// variants for other strides may transfer other data.
static const tg_variant *find_config(rt_state *s, const rt_launcher *l, const char *config) {
    VariantList *list = atomic_load(&s->list);
    const tg_variant *best = NULL;
    for (int i = atomic_load(&list->n) - 1; i >= 0; i--) {
        const tg_variant *v = list->at[i];
        if (strcmp(v->config ? v->config : "", config) != 0 || !is_right(l, v)) continue;
        if (!best || variant_precedence(v, best) > 0) best = v;
    }
    return best;
}

uint64_t rt_state_number(tg_kernel *kernel) {
    const rt_state *s = kernel_state(kernel);
    return s ? s->number : 0;
}

tg_status rt_pick_as(tg_kernel *kernel, const rt_launcher *l, const char *config,
                     const tg_variant **out) {
    if (!config) return rt_pick(kernel, l, out, NULL);
    rt_state *s = kernel_state(kernel);
    if (!s) return tg_fail(TG_ERROR_MEMORY, "out of memory");
    rt_count(&s->pulse);
    tg_status status = TG_OK;
    tg_lock_take(&s->compiling);
    *out = find_config(s, l, config);
    if (!*out && s->compiler) {
        status = compile_variant(s, l, kernel->info, config);
        if (!status) *out = find_config(s, l, config);
    }
    tg_lock_give(&s->compiling);
    if (status || *out) return status;
    return tg_fail(TG_ERROR_NOT_FOUND,
                   "%s: rank 0 runs it with '%s', for which this rank has no code",
                   kernel->info->name, config);
}

/* ---- tuning among existing variants -------------------------------------------------------- */

static bool is_listed_variant(const tg_variant *const *list, int n, const tg_variant *v) {
    for (int i = 0; i < n; i++)
        if (list[i]->entry == v->entry && list[i]->image == v->image) return true;
    return false;
}

/// NULL: the variant does not belong to the kernel itself.
static _Atomic bool *exclusion_flag(rt_state *s, const tg_variant *v) {
    const tg_variant *own = s->info->variants;
    return v >= own && v < own + s->info->n_variants ? &s->excluded[v - own] : NULL;
}

void rt_exclude(tg_kernel *kernel, const tg_variant *variant) {
    rt_state *s = kernel_state(kernel);
    _Atomic bool *excluded = s ? exclusion_flag(s, variant) : NULL;
    if (excluded) atomic_store(excluded, true);
}

static bool is_excluded(rt_state *s, const tg_variant *v) {
    const _Atomic bool *excluded = exclusion_flag(s, v);
    return excluded && atomic_load(excluded);
}

int rt_alternatives(tg_kernel *kernel, const rt_launcher *l, const tg_variant **out, int most) {
    rt_state *s = kernel_state(kernel);
    if (!s || s->compiler) return 0;
    VariantList *list = atomic_load(&s->list);
    Best best = rank_variants(list, l, true);
    if (best.number < 0 || best.distance < 0) return 0;
    Best usual = rank_variants(list, l, false);
    if (usual.number < 0 || is_excluded(s, list->at[usual.number])) return 0;
    const tg_variant *first = list->at[usual.number];
    int n = 1, all = atomic_load(&list->n);
    out[0] = first;
    for (int i = 0; i < all && n < most; i++) {
        const tg_variant *v = list->at[i];
        if (!v->tuned && variant_precedence(v, first) == 0 && is_right(l, v) &&
            !is_listed_variant(out, n, v) && !is_excluded(s, v))
            out[n++] = v;
    }
    return n > 1 ? n : 0;
}

tg_status rt_adopt_tuned(tg_kernel *kernel, const tg_variant *variant, uint32_t device,
                         const tg_hint *hints, int n) {
    rt_state *s = kernel_state(kernel);
    size_t bytes = sizeof(TunedVariant) + sizeof *hints * (size_t)n;
    TunedVariant *t = s ? rt_allocate(&s->hooks, bytes) : NULL;
    if (!t) return tg_fail(TG_ERROR_MEMORY, "out of memory");
    *t = (TunedVariant){.bytes = bytes, .variant = *variant};
    if (n) memcpy(t->hints, hints, sizeof *hints * (size_t)n);
    t->variant.hints = t->hints;
    t->variant.n_hints = (int16_t)n;
    t->variant.tuned = 1;
    t->variant.device = device;
    tg_lock_take(&s->compiling);
    t->next = s->tuned;
    s->tuned = t;
    bool added = adopt_variant(s, &t->variant);
    tg_lock_give(&s->compiling);
    return added ? TG_OK : tg_fail(TG_ERROR_MEMORY, "out of memory");
}

void rt_forget(tg_kernel *kernel) {
    rt_state *s = kernel_state(kernel);
    if (s) forget_memo(s);
}

_Atomic uintptr_t *rt_tuner_of(tg_kernel *kernel) {
    rt_state *s = kernel_state(kernel);
    return s ? &s->tuner : NULL;
}
