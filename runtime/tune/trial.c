// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Trials: the reference, checks, times.
#include "runtime/tune/trial.h"

#include "runtime/comm/comm.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { F32_BITS = 24 };
#define MUCH_NOISE 4 // times the noise of one run
// A batch is queued while the caches are flushed, which takes about as long.
enum { BATCH = 12, FEW_BYTES = 8 << 20, WARM_ROUNDS = 7, WARM_BATCH = 3 };
#define LONG_LAUNCHES 5e-3             // seconds of two
static const double FEW_TICKS = 12e-6; // seconds

/// The results of a buffer after a run: the reference's for each fill, and those of the current
/// variant.
typedef struct Results {
    char *reference[RT_FILLS], *seen;
    rt_bound bound;
} Results;

struct rt_trial {
    rt_trial_options options;
    tg_options hooks;
    rt_launcher *launcher;
    tg_comm *comm; // of a kernel of ranks, else NULL
    rt_place place;
    int n_buffers;
    rt_buffer buffers[TG_MAX_PARAMS];
    Results results[TG_MAX_PARAMS]; // of each written buffer
    const tg_variant *reference;    // NULL: none yet
    bool reads;                     // results depend on the previous contents of written buffers
    bool wavers;                    // results differ between runs, by sums in any order
    bool mild;                      // the kind of random numbers
    rt_expected expected;           // n 0: none are known
    char *gathered;                 // room for the actual and expected samples of a buffer
    bool refuted;                   // the last variant differs from the expected samples
    int batch;                      // launches that are timed together
    tg_arg args[TG_MAX_PARAMS];
    DLTensor tensors[TG_MAX_PARAMS];
    int64_t dims[TG_MAX_PARAMS][2][TG_MAX_RANK];
    rt_trial *stuck; // a trial whose launch does not end
};

static const double MOST_UNFINITE = 1.0 / 64;

static tg_status fail_trial_memory(void) {
    return tg_fail(TG_ERROR_MEMORY, "out of memory");
}

/* ---- agreement of ranks ---------------------------------------------------------------------- */

typedef struct Said {
    int32_t what; // 0: no error
    char text[RT_COMM_TEXT];
} Said;

/// The rank whose failure is reported: the original one, not a relayed one.
static int who_says(const rt_trial *t, const Said *all) {
    int first = -1;
    for (int r = 0; r < t->comm->size; r++) {
        if (all[r].what && all[r].what != TG_ERROR_RANK) return r;
        if (all[r].what && first < 0) first = r;
    }
    return first;
}

/// Collective: a failure of one rank becomes that of all; 0: no rank failed. failed: the result if
/// the others do not arrive.
static int agree_on_status(rt_trial *t, int what, int failed) {
    Said own = {.what = what}, all[RT_COMM_RANKS];
    if (!t->comm) return what;
    if (what) snprintf(own.text, sizeof own.text, "%s", tg_last_error());
    if (rt_comm_allgather(t->comm, t->options.info->name, &own, sizeof own, all)) return failed;
    int who = who_says(t, all);
    if (who < 0) return 0;
    tg_fail(TG_ERROR_RANK, "rank %d: %s", who, all[who].text);
    return all[who].what;
}

static tg_status agree_status(rt_trial *t, tg_status status) {
    return (tg_status)agree_on_status(t, (int)status, TG_ERROR_RANK);
}

static rt_verdict agree_verdict(rt_trial *t, rt_verdict verdict) {
    return (rt_verdict)agree_on_status(t, (int)verdict, RT_FAILED);
}

/// Collective: the largest value over all ranks. A failure shows in the next call.
static double most_of(rt_trial *t, double mine) {
    double all[RT_COMM_RANKS];
    if (!t->comm || rt_comm_allgather(t->comm, t->options.info->name, &mine, sizeof mine, all))
        return mine;
    for (int r = 0; r < t->comm->size; r++)
        if (all[r] > mine) mine = all[r];
    return mine;
}

/// Collective: waits for the work on this rank's device and for all ranks.
static tg_status meet_ranks(rt_trial *t) {
    if (!t->comm) return TG_OK;
    tg_status status = rt_place_wait(&t->place);
    return status ? status : rt_comm_meet(t->comm, t->options.info->name);
}

/* ---- buffers --------------------------------------------------------------------------------- */

static bool is_symmetric_buffer(const rt_trial *t, int param) {
    return t->options.info->params[param].flags & TG_PARAM_SYM;
}

/// Tensors with the same bytes are one view; rt_check_overlaps excludes other overlaps.
static int buffer_like(const rt_trial *t, const rt_actual *a) {
    for (int i = 0; i < t->n_buffers; i++) {
        const rt_actual *b = &t->launcher->actuals[t->buffers[i].param];
        if (b->from == a->from && b->to == a->to && b->code == a->code && b->bits == a->bits &&
            a->to > a->from)
            return i;
    }
    return -1;
}

static tg_status make_stencils(rt_trial *t, rt_buffer *b) {
    const void *given = t->options.contents ? t->options.contents[b->param] : NULL;
    rt_pattern p = {.param = b->least,
                    .code = b->code,
                    .bits = b->bits,
                    .n = b->n,
                    .given = given,
                    .given_bytes =
                        given && t->options.content_bytes ? t->options.content_bytes[b->param] : 0,
                    .seed = t->options.seed,
                    .mild = t->mild};
    b->period = rt_pattern_period(&p);
    if (!b->period) b->period = 1;
    for (int fill = 0; fill < (b->written ? RT_FILLS : 1); fill++) {
        if (!b->stencils[fill]) b->stencils[fill] = rt_allocate(&t->hooks, b->period);
        if (!b->stencils[fill]) return fail_trial_memory();
        rt_pattern_make(&p, fill, b->stencils[fill]);
    }
    return TG_OK;
}

static tg_status add_trial_buffer(rt_trial *t, int param, bool written) {
    const rt_actual *a = &t->launcher->actuals[param];
    int i = buffer_like(t, a);
    if (i >= 0) {
        t->buffers[i].written |= written;
        if (param < t->buffers[i].least) t->buffers[i].least = param;
        return TG_OK;
    }
    rt_buffer *b = &t->buffers[t->n_buffers++];
    *b = (rt_buffer){
        .param = param, .least = param, .code = a->code, .bits = a->bits, .written = written};
    b->bytes = a->to - a->from;
    b->n = b->bytes / (b->bits < 8 ? 1 : b->bits / 8u);
    if (!is_symmetric_buffer(t, param)) return rt_buffer_open(&t->place, b, a->from);
    rt_shard shard;
    if (!rt_sym_find(t->comm, a->own, &shard)) return TG_ERROR_ARGUMENT; // binding has checked it
    return rt_buffer_adopt(&t->place, b, (char *)a->own - shard.before,
                           (size_t)(shard.before + shard.left), (char *)a->from);
}

static void make_trial_argument(rt_trial *t, int i) {
    const rt_actual *a = &t->launcher->actuals[i];
    const tg_arg *given = &t->options.args[i];
    t->args[i] = *given;
    if (given->kind != TG_ARG_TENSOR || !given->as.tensor) return;
    DLTensor *own = &t->tensors[i];
    rt_copy_tensor(own, t->dims[i], given->as.tensor, a->given_strides + is_symmetric_buffer(t, i));
    own->byte_offset = 0;
    int b = buffer_like(t, a);
    if (b >= 0) own->data = t->buffers[b].span + ((uintptr_t)a->own - a->from);
    t->args[i].as.tensor = own;
}

/// Binds the caller's arguments, then the trial's own in their place.
static tg_status make_trial_arguments(rt_trial *t) {
    const rt_trial_options *o = &t->options;
    tg_status status = rt_bind(t->launcher, o->info, o->args, o->n);
    if (!status)
        status = rt_place_open(&t->place, &t->hooks, t->launcher->device, o->flush, o->looks);
    t->place.patience = t->launcher->gpu.patience = o->patience;
    // Written tensors come first: a buffer is named after the tensor that writes it.
    for (int pass = 0; pass < 2; pass++)
        for (int i = 0; i < o->n && !status; i++) {
            bool written = o->info->params[i].flags & TG_PARAM_WRITTEN;
            if (t->launcher->actuals[i].tensor && written == (pass == 0))
                status = add_trial_buffer(t, i, written);
        }
    for (int i = 0; i < t->n_buffers && !status; i++) status = make_stencils(t, &t->buffers[i]);
    for (int i = 0; i < o->n && !status; i++) make_trial_argument(t, i);
    for (int i = 0; i < t->n_buffers && !status; i++)
        status = rt_buffer_fill(&t->place, &t->buffers[i], 0);
    return status ? status : rt_bind(t->launcher, o->info, t->args, o->n);
}

tg_status rt_trial_open(const rt_trial_options *options, rt_trial **out) {
    tg_context *c = rt_context();
    rt_trial *t = c ? rt_allocate(&c->hooks, sizeof *t) : NULL;
    *out = NULL;
    if (!t) return fail_trial_memory();
    memset(t, 0, sizeof *t);
    t->options = *options;
    t->hooks = c->hooks;
    t->comm = rt_is_collective(options->info) ? c->comm : NULL;
    t->launcher = rt_claim(c);
    if (t->launcher) t->launcher->print = NULL; // prints are discarded
    tg_status status = t->launcher ? make_trial_arguments(t) : fail_trial_memory();
    if (status)
        rt_trial_close(t);
    else
        *out = t;
    return status;
}

static size_t gathered_bytes(const rt_trial *t) {
    return 2 * sizeof(uint64_t) * (size_t)t->expected.n;
}

static void release_results(rt_trial *t, Results *r, size_t bytes) {
    for (int fill = 0; fill < RT_FILLS; fill++) rt_release(&t->hooks, r->reference[fill], bytes);
    rt_release(&t->hooks, r->seen, bytes);
}

static void give_back_launcher(rt_trial *t) {
    if (!t->launcher) return;
    t->launcher->print = t->hooks.print;
    t->launcher->gpu.patience = 0;
    t->launcher->gpu.stuck = false;
    rt_give_back(t->launcher);
}

/// After a launch that does not end, freeing its memory would wait for ever, so the memory is kept.
static void abandon_trial(rt_trial *t) {
    static _Atomic(rt_trial *) stuck;
    give_back_launcher(t);
    t->stuck = atomic_exchange(&stuck, t);
}

void rt_trial_close(rt_trial *t) {
    if (!t) return;
    if (t->place.stuck) {
        abandon_trial(t);
        return;
    }
    rt_place_wait(&t->place);
    rt_release(&t->hooks, t->gathered, gathered_bytes(t));
    for (int i = 0; i < t->n_buffers; i++) {
        release_results(t, &t->results[i], rt_buffer_looked(&t->buffers[i]));
        rt_buffer_close(&t->place, &t->buffers[i]);
    }
    rt_place_close(&t->place);
    give_back_launcher(t);
    tg_options hooks = t->hooks;
    rt_release(&hooks, t, sizeof *t);
}

bool rt_trial_is_refuted(const rt_trial *t) {
    return t->refuted;
}

bool rt_trial_is_mild(const rt_trial *t) {
    return t->mild;
}

bool rt_trial_is_stuck(const rt_trial *t) {
    return t->place.stuck;
}

bool rt_trial_is_lost(rt_trial *t) {
    return t->place.stuck || rt_place_wait(&t->place) != TG_OK;
}

/* ---- runs ------------------------------------------------------------------------------------ */

static tg_status refill_buffers(rt_trial *t, int fill, bool inputs) {
    tg_status status = TG_OK;
    for (int i = 0; i < t->n_buffers && !status; i++)
        if (inputs || t->buffers[i].written)
            status = rt_buffer_fill(&t->place, &t->buffers[i], fill);
    return status;
}

/// Removes the writes of a wrong variant before the next one runs.
static void restore_buffers(rt_trial *t) {
    if (t->place.stuck) return;
    for (int i = 0; i < t->n_buffers; i++) {
        if (rt_buffer_clear(&t->place, &t->buffers[i])) return;
        if (rt_buffer_fill(&t->place, &t->buffers[i], 0)) return;
    }
}

/// Other ranks launch the same variant, so no choice is made.
static tg_status launch_one(rt_trial *t, const tg_variant *v) {
    rt_launcher *l = t->launcher;
    const tg_kernel_info *info = t->options.info;
    if (!t->comm) return rt_run(l, info, v, t->place.stream);
    tg_status status = rt_comm_enter(l, info->name);
    if (status) return status;
    rt_comm_announce(l, info, v->config);
    return rt_comm_leave(l, rt_run(l, info, v, t->place.stream));
}

/// After a launch that did not end in time no further trial is possible.
static tg_status launch_trial(rt_trial *t, const tg_variant *v, int n) {
    tg_status status = TG_OK;
    for (int i = 0; i < n && !status; i++) status = launch_one(t, v);
    t->place.stuck |= t->launcher->gpu.stuck;
    return status;
}

/// Waits for the launches since rt_place_begin.
static tg_status end_launches(rt_trial *t, double *seconds) {
    tg_status status = rt_place_end(&t->place, seconds);
    return status || !t->comm ? status : t->comm->memory->settle(t->comm);
}

/// Runs one launch on a fill to its end, on all ranks.
static tg_status run_on_fill(rt_trial *t, const tg_variant *v, int fill, double *seconds) {
    double took = 0;
    tg_status status = refill_buffers(t, fill, false);
    if (!status) status = rt_place_begin(&t->place);
    if (!status) status = launch_trial(t, v, 1);
    if (!status) status = end_launches(t, &took);
    status = agree_status(t, status);
    if (!status && (*seconds <= 0 || took < *seconds)) *seconds = took;
    return status;
}

static tg_status keep_result(rt_trial *t, const rt_buffer *b, char **out) {
    const char *now;
    size_t bytes = rt_buffer_looked(b);
    if (!*out) *out = rt_allocate(&t->hooks, bytes ? bytes : 1);
    if (!*out) return fail_trial_memory();
    tg_status status = rt_buffer_fetch(&t->place, b, &now);
    if (!status && bytes) memcpy(*out, now, bytes);
    return status;
}

static tg_status keep_all(rt_trial *t, int fill) {
    tg_status status = TG_OK;
    for (int i = 0; i < t->n_buffers && !status; i++) {
        Results *r = &t->results[i];
        if (t->buffers[i].written)
            status =
                keep_result(t, &t->buffers[i], fill < RT_FILLS ? &r->reference[fill] : &r->seen);
    }
    return status;
}

/* ---- the reference --------------------------------------------------------------------------- */

/// 2^-bits, the unit roundoff.
static double unit_roundoff(int bits) {
    return 1.0 / (double)((uint64_t)1 << bits);
}

static int64_t largest_extent(const rt_trial *t) {
    int64_t most = 1;
    for (int i = 0; i < t->options.n; i++) {
        const rt_actual *a = &t->launcher->actuals[i];
        for (int d = 0; a->tensor && d < a->rank; d++)
            if (a->shape[d] > most) most = a->shape[d];
    }
    return most;
}

static int narrowest_significand(const rt_trial *t) {
    int bits = F32_BITS;
    for (int i = 0; i < t->n_buffers; i++) {
        const rt_buffer *b = &t->buffers[i];
        int own = rt_is_float(b->code) ? rt_significand(b->code, b->bits) : bits;
        if (own < bits) bits = own;
    }
    return bits;
}

/// Two orders of a sum of n random terms differ by about sqrt(n) roundings of its own size; each
/// rounding on the way adds one. The bound is a dozen standard deviations of their sum, plus an
/// element rounded to the other side.
static rt_bound rounding_bound(const rt_trial *t, const rt_buffer *b, double scale) {
    const rt_trial_options *o = &t->options;
    if (o->exact || !rt_is_float(b->code)) return (rt_bound){0};
    int64_t terms = o->terms ? o->terms : largest_extent(t);
    double roots = 1;
    while (roots * roots < (double)terms) roots *= 1.25;
    double way = unit_roundoff(o->way_bits ? o->way_bits : narrowest_significand(t));
    double sum = unit_roundoff(o->sum_bits ? o->sum_bits : F32_BITS) * roots;
    double both = 12 * (way + sum), own = unit_roundoff(rt_significand(b->code, b->bits));
    return (rt_bound){.relative = both + 2.5 * own, .absolute = both * scale};
}

/// Sets the bounds. Returns the share of elements that are not finite.
static double measure_reference(rt_trial *t) {
    size_t unfinite = 0, all = 0;
    for (int i = 0; i < t->n_buffers; i++) {
        const rt_buffer *b = &t->buffers[i];
        size_t bad = 0;
        double scale = 0;
        if (!b->written) continue;
        if (rt_is_float(b->code) && b->n) scale = rt_scale(b, t->results[i].reference[0], &bad);
        t->results[i].bound = rounding_bound(t, b, scale);
        unfinite += bad;
        all += rt_buffer_looked(b) / (b->bits < 8 ? 1 : b->bits / 8u);
    }
    return most_of(t, all ? (double)unfinite / (double)all : 0);
}

/// Two runs on one fill show whether results vary; a run on the other fill shows whether they
/// depend on it.
static tg_status run_reference(rt_trial *t, const tg_variant *v, double *seconds) {
    tg_status status = refill_buffers(t, 0, true);
    for (int fill = 0; fill < RT_FILLS && !status; fill++) {
        status = run_on_fill(t, v, fill, seconds);
        if (!status) status = keep_all(t, fill);
    }
    if (!status) status = run_on_fill(t, v, 0, seconds);
    if (!status) status = keep_all(t, RT_FILLS);
    t->wavers = t->reads = false;
    for (int i = 0; i < t->n_buffers && !status; i++) {
        const rt_buffer *b = &t->buffers[i];
        const Results *r = &t->results[i];
        if (!b->written || !b->bytes) continue;
        t->wavers |= memcmp(r->seen, r->reference[0], rt_buffer_looked(b)) != 0;
        t->reads |= rt_buffer_differs(b, r->reference[0], r->reference[1], 0, 1);
    }
    status = agree_status(t, status);
    t->wavers = most_of(t, t->wavers) > 0;
    t->reads = most_of(t, t->reads) > 0;
    return status;
}

/// If numbers of both signs lead to infinities, NaNs or a failed assert, positive numbers are
/// tried.
static tg_status make_reference(rt_trial *t, const tg_variant *v, double *seconds) {
    tg_status status = TG_OK;
    for (int round = 0; round < 2; round++) {
        t->mild = round > 0;
        status = TG_OK;
        for (int i = 0; i < t->n_buffers && !status; i++) status = make_stencils(t, &t->buffers[i]);
        status = agree_status(t, status);
        if (!status) status = run_reference(t, v, seconds);
        if (status && (status != TG_ERROR_CONTRACT || t->mild || t->place.stuck)) return status;
        if (!status && (measure_reference(t) <= MOST_UNFINITE || t->mild)) break;
    }
    t->reference = v;
    if (t->options.patience > 0)
        t->place.patience = t->launcher->gpu.patience = RT_PATIENCE + 10 * *seconds;
    return TG_OK;
}

/* ---- judging --------------------------------------------------------------------------------- */

typedef enum ResultLook {
    LOOK_KEEP,  // the run that others are compared with
    LOOK_OTHER, // on the other fill
    LOOK_AGAIN, // on the same fill
} ResultLook;

static const char *name_of_buffer(const rt_trial *t, const rt_buffer *b) {
    return t->options.info->params[b->param].name;
}

static rt_difference compare_result(const rt_buffer *b, const Results *r, const char *now,
                                    int fill) {
    size_t size = b->bits < 8 ? 1 : b->bits / 8u, n = rt_buffer_looked(b) / size;
    rt_difference d;
    if (rt_is_float(b->code) && r->bound.relative > 0)
        d = rt_compare(now, r->reference[fill], n, b->code, b->bits, r->bound);
    else
        d = rt_compare_bytes(now, r->reference[fill], n, size);
    size_t at = d.first * size;
    if (d.count) d.first = (rt_buffer_piece(b, at / b->piece) + at % b->piece) / size;
    return d;
}

/// On both fills the variant and the reference computed the same results, and those of the first
/// fill were compared. A second comparison would add nothing.
static bool is_known_result(const rt_buffer *b, const Results *r, const char *now, ResultLook how) {
    size_t bytes = rt_buffer_looked(b);
    return how != LOOK_KEEP && memcmp(now, r->seen, bytes) == 0 &&
           memcmp(r->reference[0], r->reference[1], bytes) == 0;
}

/// Compares a buffer with the reference, and with the variant's earlier result.
static rt_verdict look_at_buffer(rt_trial *t, const rt_buffer *b, Results *r, int fill,
                                 ResultLook how) {
    const char *now;
    if (rt_buffer_fetch(&t->place, b, &now)) return RT_FAILED;
    if (is_known_result(b, r, now, how)) return RT_RIGHT;
    rt_difference d = compare_result(b, r, now, fill);
    if (d.count) {
        tg_fail(TG_ERROR_INTERNAL,
                "'%s' is wrong in %zu of %zu places, first in place %zu: %g instead of %g",
                name_of_buffer(t, b), d.count, b->n, d.first, d.got, d.want);
        return RT_WRONG;
    }
    size_t bytes = rt_buffer_looked(b);
    bool other =
        !t->wavers && how == LOOK_OTHER && !t->reads && rt_buffer_differs(b, r->seen, now, 0, fill);
    bool again = !t->wavers && how == LOOK_AGAIN && memcmp(r->seen, now, bytes) != 0;
    if (how == LOOK_KEEP && bytes) memcpy(r->seen, now, bytes);
    if (!other && !again) return RT_RIGHT;
    tg_fail(TG_ERROR_INTERNAL, "'%s' differs from run to run", name_of_buffer(t, b));
    return RT_WRONG;
}

/* ---- elements with known values -------------------------------------------------------------- */

void rt_trial_expect(rt_trial *t, const rt_expected *expected) {
    rt_release(&t->hooks, t->gathered, gathered_bytes(t));
    t->expected = *expected;
    t->gathered = rt_allocate(&t->hooks, gathered_bytes(t) + 1);
    if (!t->gathered) t->expected.n = 0;
}

/// The samples of a buffer: their number, and *first.
static int samples_of(const rt_trial *t, const rt_buffer *b, int *first) {
    const rt_expected *e = &t->expected;
    int n = 0;
    for (*first = 0; *first < e->n && e->samples[*first].param != b->least;) ++*first;
    while (*first + n < e->n && e->samples[*first + n].param == b->least) n++;
    return n;
}

/// Compares n actual samples with the expected ones, which follow each other in memory.
static rt_difference compare_samples(const rt_trial *t, const rt_buffer *b, int n, size_t size) {
    const char *now = t->gathered, *want = t->gathered + (size_t)n * size;
    if (!rt_is_float(b->code)) return rt_compare_bytes(now, want, (size_t)n, size);
    double scale = rt_size(want, (size_t)n, b->code, b->bits);
    double noise = MUCH_NOISE * t->expected.noise[b->least];
    rt_bound bound = rounding_bound(t, b, scale);
    bound.relative += noise;
    bound.absolute += noise * scale;
    return rt_compare(now, want, (size_t)n, b->code, b->bits, bound);
}

static rt_verdict look_at_samples(rt_trial *t, const rt_buffer *b) {
    int first, n = samples_of(t, b, &first);
    const rt_sample *samples = t->expected.samples + first;
    size_t size = b->bits / 8u;
    if (!n) return RT_RIGHT;
    if (rt_buffer_gather(&t->place, b, samples, n, size, t->gathered)) return RT_FAILED;
    for (int i = 0; i < n; i++)
        memcpy(t->gathered + (size_t)(n + i) * size, &samples[i].bits, size);
    rt_difference d = compare_samples(t, b, n, size);
    if (!d.count) return RT_RIGHT;
    t->refuted = true;
    tg_fail(TG_ERROR_INTERNAL,
            "'%s' is wrong in %zu of %d places that the interpreter computed, first in place %zu: "
            "%g instead of %g",
            name_of_buffer(t, b), d.count, n, (size_t)samples[d.first].at / size, d.got, d.want);
    return RT_WRONG;
}

static rt_verdict look_at_all_samples(rt_trial *t) {
    rt_verdict verdict = RT_RIGHT;
    if (t->expected.mild != t->mild) return RT_RIGHT;
    for (int i = 0; i < t->n_buffers && verdict == RT_RIGHT; i++)
        if (t->buffers[i].written) verdict = look_at_samples(t, &t->buffers[i]);
    return verdict;
}

/* ---- a run ----------------------------------------------------------------------------------- */

static rt_verdict look_around(rt_trial *t, const rt_buffer *b) {
    int64_t at;
    const char *now;
    if (rt_buffer_guards(&t->place, b, &at)) return RT_FAILED;
    if (at) {
        tg_fail(TG_ERROR_INTERNAL, "memory %s '%s' was written, %" PRId64 " bytes from it",
                at < 0 ? "before" : "behind", name_of_buffer(t, b), at < 0 ? -at : at - 1);
        return RT_WRONG;
    }
    if (b->written) return RT_RIGHT;
    if (rt_buffer_fetch(&t->place, b, &now)) return RT_FAILED;
    if (rt_buffer_is_fill(b, now, 0)) return RT_RIGHT;
    tg_fail(TG_ERROR_INTERNAL, "'%s' is only read, and was written", name_of_buffer(t, b));
    return RT_WRONG;
}

static rt_verdict judge_run(rt_trial *t, const tg_variant *v, int fill, ResultLook how,
                            double *seconds) {
    if (run_on_fill(t, v, fill, seconds)) return RT_FAILED;
    rt_verdict verdict = RT_RIGHT;
    for (int i = 0; i < t->n_buffers && verdict == RT_RIGHT; i++)
        if (t->buffers[i].written)
            verdict = look_at_buffer(t, &t->buffers[i], &t->results[i], fill, how);
    if (verdict == RT_RIGHT && how == LOOK_KEEP) verdict = look_at_all_samples(t);
    // Writes beyond a buffer persist, so checking the guard zones after the last run covers both
    // runs.
    for (int i = 0; i < t->n_buffers && verdict == RT_RIGHT && how != LOOK_KEEP; i++)
        verdict = look_around(t, &t->buffers[i]);
    return agree_verdict(t, verdict);
}

static rt_verdict judge_variant(rt_trial *t, const tg_variant *v, double *seconds) {
    rt_verdict verdict = judge_run(t, v, 0, LOOK_KEEP, seconds);
    if (verdict == RT_RIGHT) verdict = judge_run(t, v, 1, LOOK_OTHER, seconds);
    if (verdict == RT_RIGHT && t->reads) verdict = judge_run(t, v, 0, LOOK_AGAIN, seconds);
    if (verdict != RT_RIGHT) restore_buffers(t);
    return verdict;
}

/// The reference is checked too: its invalid writes would affect all later runs.
rt_verdict rt_trial_check(rt_trial *t, const tg_variant *v, double *seconds) {
    *seconds = 0;
    t->refuted = false;
    tg_status status = TG_OK;
    if (!rt_serves(t->launcher, v))
        status = tg_fail(TG_ERROR_NOT_FOUND, "%s: the variant is not for such arguments",
                         t->options.info->name);
    if (!status) status = rt_check_overlaps(t->launcher, t->options.info, v);
    if (agree_status(t, status)) return RT_FAILED;
    if (!t->reference && make_reference(t, v, seconds)) return RT_FAILED;
    rt_verdict verdict = judge_variant(t, v, seconds);
    if (t->refuted && v == t->reference) t->reference = NULL;
    return verdict;
}

/* ---- all of it ------------------------------------------------------------------------------- */

static bool is_partial(const rt_trial *t) {
    for (int i = 0; i < t->n_buffers; i++)
        if (t->buffers[i].pieces > 1) return true;
    return false;
}

/// Exchanges the trial's buffers and results with `own`.
static void exchange_buffers(rt_trial *t, rt_buffer *buffers, Results *results) {
    for (int i = 0; i < t->n_buffers; i++) {
        rt_buffer b = t->buffers[i];
        Results r = t->results[i];
        t->buffers[i] = buffers[i];
        t->results[i] = results[i];
        buffers[i] = b;
        results[i] = r;
    }
}

rt_verdict rt_trial_confirm(rt_trial *t, const tg_variant *v) {
    rt_buffer buffers[TG_MAX_PARAMS];
    Results results[TG_MAX_PARAMS] = {0};
    double seconds = 0;
    t->refuted = false;
    if (!t->reference || v == t->reference || !is_partial(t)) return RT_RIGHT;
    for (int i = 0; i < t->n_buffers; i++) {
        buffers[i] = rt_buffer_whole(&t->buffers[i]);
        results[i].bound = t->results[i].bound;
    }
    exchange_buffers(t, buffers, results);
    rt_verdict verdict =
        run_reference(t, t->reference, &seconds) ? RT_FAILED : judge_variant(t, v, &seconds);
    exchange_buffers(t, buffers, results);
    for (int i = 0; i < t->n_buffers; i++) release_results(t, &results[i], buffers[i].bytes);
    return verdict;
}

/* ---- times ----------------------------------------------------------------------------------- */

/// Whether the event clock resolves a launch, or a launch exceeds the caches.
static bool is_time_exact(const rt_trial *t, double seconds) {
    size_t bytes = 0;
    for (int i = 0; i < t->n_buffers; i++) bytes += t->buffers[i].bytes;
    return !t->place.device || t->reads || bytes > FEW_BYTES || seconds > FEW_TICKS;
}

/// The seconds of a launch: the mean of a batch, after a cache flush or after another launch.
static tg_status time_batch(rt_trial *t, const tg_variant *v, int n, bool warm, double *seconds) {
    tg_status status = TG_OK;
    if (t->reads) status = refill_buffers(t, 0, false);
    if (!status) status = warm ? launch_trial(t, v, 1) : rt_place_flush(&t->place);
    if (!status) status = meet_ranks(t);
    if (!status) status = rt_place_begin(&t->place);
    if (!status) status = launch_trial(t, v, n);
    if (!status) status = end_launches(t, seconds);
    *seconds = most_of(t, *seconds / n);
    return agree_status(t, status);
}

/// Chosen for the reference, so that all variants are timed alike.
static tg_status choose_batch(rt_trial *t) {
    double least = 0;
    t->batch = 1;
    for (int i = 0; i < 3; i++) {
        double seconds = 0;
        tg_status status = time_batch(t, t->reference, 1, false, &seconds);
        if (status) return status;
        if (i == 0 || seconds < least) least = seconds;
    }
    if (!is_time_exact(t, least)) t->batch = BATCH; // equal on all ranks, like the times
    return TG_OK;
}

tg_status rt_trial_time(rt_trial *t, const tg_variant *v, int n, double *seconds) {
    tg_status status = TG_OK;
    if (!t->batch && t->reference) status = choose_batch(t);
    for (int i = 0; i < n && !status; i++)
        status = time_batch(t, v, t->batch ? t->batch : 1, false, &seconds[i]);
    return status;
}

/// The median ratio of adjacent launches of the variant and of the reference. Long launches are
/// exact by themselves.
tg_status rt_trial_warm(rt_trial *t, const tg_variant *v, double *times) {
    double ratios[WARM_ROUNDS];
    int rounds = WARM_ROUNDS, n = t->batch > WARM_BATCH ? t->batch : WARM_BATCH, i = 0;
    *times = 1;
    if (!t->place.device || !t->reference) return TG_OK;
    for (; i < rounds; i++) {
        double own = 0, other = 0;
        const tg_variant *first = i % 2 ? v : t->reference, *second = i % 2 ? t->reference : v;
        tg_status status = time_batch(t, first, n, true, i % 2 ? &own : &other);
        if (!status) status = time_batch(t, second, n, true, i % 2 ? &other : &own);
        if (status) return status;
        int at = i;
        for (; at > 0 && ratios[at - 1] > own / other; at--) ratios[at] = ratios[at - 1];
        ratios[at] = own / other;
        if (own + other > LONG_LAUNCHES) rounds = WARM_ROUNDS / 2, n = 1;
    }
    *times = ratios[i / 2];
    return TG_OK;
}
