// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// See oracle.h.
#include "driver/remote/oracle.h"

#include "driver/injected_fault.h"
#include "driver/remote/child_process.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    MOST_PROGRAMS = 64,
    MOST_SAMPLES = 8192,
    MOST_COPIES = 1024, // copies that fetch the samples from a device
    NEAR = 4096,        // largest gap in bytes between elements of one copy
    WATCH = 1024,       // accesses between two readings of the clock
};
#define NOISE_SEED  0x7e61
#define PICK_SEED   0x5eed
#define OUTPUT_ULPS 1.01 // own rounding of a result, which the bound includes already

/// The memory of one tensor, or of several that are the same view.
typedef struct View {
    int param; // the lowest parameter
    Elem elem;
    int64_t from, bytes; // `from`: address of the lowest element
    size_t period;
    const char *pattern;
} View;

typedef struct Element {
    const View *view;
    int64_t number; // index in the view
    Cell value;
} Element;

/// One run, and the elements that it wrote.
typedef struct OracleRun {
    PtrMap at;                 // element_key -> 1 + index in `elements`
    bool wrote[TG_MAX_PARAMS]; // of each view, by its parameter
    VEC(Element) elements;
} OracleRun;

typedef struct Court {
    Ctx *ctx;
    const OracleAsk *ask;
    Oracle *out;
    WorkOpen what;
    Build b;
    Precision precision;
    View views[TG_MAX_PARAMS];
    const View *view_of[TG_MAX_PARAMS];
    int n_views;
    InterpArg *args; // of the kernel op
    int n_args;
    OracleRun *run; // the current run
    double end;
    int64_t accesses;
    bool late;
    int number, level;   // index of the run; level of the grid
    int64_t picks, most; // number of programs, and the most of any run
    VEC(rt_sample) samples;
    double *noise;
} Court;

/* ---- memory ---------------------------------------------------------------------------------- */

/// Converts bytes to elements; elements of 4 bits are half a byte.
static int64_t elements_in_bytes(const View *v, int64_t bytes) {
    return bytes * 8 / elem_info[v->elem].bits;
}

static int64_t number_in_view(const Tensor *t, int64_t offset) {
    const View *v = t->away;
    return elements_in_bytes(v, (int64_t)(uintptr_t)t->data - v->from) + offset;
}

/// Keys are unique, since views do not overlap and begin at elements.
static const void *element_key(const View *v, int64_t number) {
    return (const void *)(uintptr_t)(v->from * 2 + 1 + number * elem_info[v->elem].bits / 4);
}

/// Leaves the interpreter once the time is over.
static void watch_deadline(Court *c) {
    if (++c->accesses % WATCH || rt_seconds() < c->end) return;
    c->late = true;
    ctx_leave(c->ctx, CTX_ERRORS);
}

static Cell load_traced(void *user, const Tensor *t, int64_t offset) {
    Court *c = user;
    const View *v = t->away;
    int64_t number = number_in_view(t, offset);
    watch_deadline(c);
    bool wrote = c->run->wrote[v->param];
    intptr_t place = wrote ? (intptr_t)map_get(&c->run->at, element_key(v, number)) : 0;
    if (place) return c->run->elements.data[place - 1].value;
    return cell_load(v->elem, v->pattern, number % elements_in_bytes(v, (int64_t)v->period));
}

static void store_traced(void *user, const Tensor *t, int64_t offset, Cell value) {
    Court *c = user;
    Element e = {t->away, number_in_view(t, offset), value};
    const void *key = element_key(e.view, e.number);
    watch_deadline(c);
    intptr_t place = (intptr_t)map_get(&c->run->at, key);
    if (place) {
        c->run->elements.data[place - 1] = e;
        return;
    }
    c->run->wrote[e.view->param] = true;
    vec_push(c->ctx, &c->run->elements, e);
    map_set(c->ctx, &c->run->at, key, (void *)(intptr_t)c->run->elements.n);
}

/* ---- arguments ------------------------------------------------------------------------------- */

/// Gets the address of the lowest element and the bytes up to the highest. False: no elements.
static bool address_span(const Court *c, int i, int64_t *from, int64_t *bytes) {
    const tg_actual *a = &c->what.request.args[i];
    int64_t least = 0, last = 0;
    if (a->null) return false;
    for (int d = 0; d < a->rank; d++) {
        int64_t way = (a->shape[d] - 1) * a->strides[d];
        if (a->shape[d] == 0) return false;
        *(way < 0 ? &least : &last) += way;
    }
    *from = c->what.data[i].address + least * a->bits / 8;
    *bytes = ((last - least + 1) * a->bits + 7) / 8;
    return true;
}

/// Fills the view with the same data as the trial (runtime/tune/trial.c).
static void fill_view(Court *c, View *v, const tg_actual *a) {
    const Bytes *given = &c->what.data[v->param].contents;
    rt_pattern p = {.param = v->param,
                    .code = a->code,
                    .bits = a->bits,
                    .n = (size_t)v->bytes / (a->bits < 8 ? 1 : a->bits / 8u),
                    .given = given->n ? given->data : NULL,
                    .given_bytes = given->n,
                    .seed = c->what.seed,
                    .mild = c->ask->mild};
    v->period = rt_pattern_period(&p);
    char *pattern = ctx_alloc(c->ctx, v->period + 8);
    rt_pattern_make(&p, 0, pattern);
    v->pattern = pattern;
}

static const View *add_view(Court *c, int i) {
    const tg_actual *a = &c->what.request.args[i];
    int64_t from, bytes;
    if (!address_span(c, i, &from, &bytes)) return NULL;
    Elem elem = elem_of_dlpack(a->code, a->bits);
    for (int k = 0; k < c->n_views; k++) {
        const View *v = &c->views[k];
        if (v->from == from && v->bytes == bytes && v->elem == elem) return v;
    }
    View *v = &c->views[c->n_views++];
    *v = (View){.param = i, .elem = elem, .from = from, .bytes = bytes};
    fill_view(c, v, a);
    return v;
}

/// Integers come as 64 bits, floats with the bits of their own type.
static Cell scalar_cell(const ParamUse *use, const tg_actual *a) {
    if (use->elem >= EL_COUNT) return (Cell){.i = a->value};
    if (elem_is(use->elem, EC_FLOAT)) return cell_load(use->elem, &a->value, 0);
    return cell_wrap(use->elem, (Cell){.i = a->value});
}

static Tensor court_tensor(const Court *c, int i) {
    static const View empty = {.elem = EL_F32};
    const tg_actual *a = &c->what.request.args[i];
    Tensor t = {.data = (void *)(uintptr_t)c->what.data[i].address,
                .elem = elem_of_dlpack(a->code, a->bits),
                .away = c->view_of[i] ? c->view_of[i] : &empty,
                .rank = a->rank};
    for (int d = 0; d < a->rank; d++) {
        t.extents[d] = a->shape[d];
        t.strides[d] = a->strides[d];
    }
    return t;
}

static void bind_court(Court *c) {
    int param;
    for (int i = 0; i < c->what.request.n_args; i++) c->view_of[i] = add_view(c, i);
    c->n_args = build_arguments(&c->b);
    c->args = ctx_array(c->ctx, InterpArg, c->n_args + 1);
    for (int k = 0; k < c->n_args; k++) {
        const ParamUse *use = build_argument(&c->b, k, &param);
        if (use->kind == PARAM_TENSOR) {
            Tensor t = court_tensor(c, param);
            c->args[k].tensor = build_merge_pack(&t, use);
        } else {
            c->args[k].scalar = scalar_cell(use, &c->what.request.args[param]);
        }
    }
}

/* ---- the choice of programs ------------------------------------------------------------------ */

typedef struct Structure {
    int grids;
    bool joined; // programs pass values to each other
} Structure;

static void note_structure_op(Op *op, void *arg) {
    Structure *s = arg;
    bool within = op_enclosing(op, OP_PARALLEL) != NULL;
    bool again = op_enclosing(op, OP_FOR) || op_enclosing(op, OP_WHILE);
    if (op->code == OP_PARALLEL && !within) s->grids += again ? 2 : 1;
    s->joined |= op->code == OP_COMBINE || op->code == OP_ATOMIC || op->code == OP_CALL;
}

/// Whether each program can be computed without the others.
static bool are_apart(const Court *c) {
    Structure s = {0};
    op_walk_pre(c->b.code->module, note_structure_op, &s);
    return s.grids == 1 && !s.joined;
}

static uint64_t mix_bits(uint64_t x) {
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

/// Picks for each level of the grid the last program, which has the edges, then the first, the
/// middle, and then others.
static int64_t pick_program(void *user, int64_t n) {
    Court *c = user;
    uint64_t level = (uint64_t)c->level++;
    const int64_t first[] = {n - 1, 0, n / 2};
    c->picks *= n;
    if (c->number < 3) return first[c->number];
    return (int64_t)(mix_bits(PICK_SEED + 64 * (uint64_t)c->number + level) % (uint64_t)n);
}

/* ---- runs ------------------------------------------------------------------------------------ */

typedef struct Launch {
    Court *c;
    bool apart;
    uint64_t noise;
    bool ok;
} Launch;

static void launch_programs(Ctx *ctx, void *arg) {
    Launch *l = arg;
    Court *c = l->c;
    (void)ctx;
    InterpMemory memory = {load_traced, store_traced, c};
    InterpOptions options = {
        .memory = &memory, .pick = l->apart ? pick_program : NULL, .noise = l->noise, .user = c};
    const Elaborated *code = c->b.code;
    l->ok = interp_run(c->b.ir, code->module, code->name, c->n_args, c->args, &options);
}

/// False: it failed, or the time is over.
static bool run_traced(Court *c, bool apart, uint64_t noise, OracleRun *out) {
    Launch l = {.c = c, .apart = apart, .noise = noise};
    *out = (OracleRun){0};
    c->run = out;
    c->level = 0;
    c->picks = 1;
    bool good = ctx_pass_on(c->ctx, ctx_protect(c->ctx, launch_programs, &l));
    if (c->picks > c->most) c->most = c->picks;
    return good && l.ok && !c->late;
}

static double rms_size(const OracleRun *r, const View *v) {
    double sum = 0;
    int n = 0;
    for (int i = 0; i < r->elements.n; i++) {
        const Element *e = &r->elements.data[i];
        if (e->view != v || !isfinite(e->value.f)) continue;
        sum += e->value.f * e->value.f;
        n++;
    }
    return n ? sqrt(sum / n) : 0;
}

/// Returns the relative error of an element beyond its own rounding.
static double off_by(const Element *exact, double noisy, double size) {
    uint8_t code, bits;
    elem_dlpack(exact->view->elem, &code, &bits);
    double own = ldexp(2 * OUTPUT_ULPS, -rt_significand(code, bits));
    double most = fabs(exact->value.f), way = fabs(noisy - exact->value.f) - own * most;
    if (!isfinite(exact->value.f) || way <= 0) return 0;
    return isfinite(way) && most + size > 0 ? way / (most + size) : INFINITY;
}

/// Notes the effect of rounding on this run: for each view the largest error of an element.
static void note_noise(Court *c, const OracleRun *exact, const OracleRun *noisy) {
    for (int v = 0; v < c->n_views; v++) {
        const View *view = &c->views[v];
        double size = elem_is(view->elem, EC_FLOAT) ? rms_size(exact, view) : 0;
        for (int i = 0; i < exact->elements.n; i++) {
            const Element *e = &exact->elements.data[i];
            if (e->view != view || !elem_is(view->elem, EC_FLOAT)) continue;
            intptr_t place = (intptr_t)map_get(&noisy->at, element_key(view, e->number));
            double other = place ? noisy->elements.data[place - 1].value.f : INFINITY;
            c->noise[view->param] = fmax(c->noise[view->param], off_by(e, other, size));
        }
    }
}

/* ---- samples --------------------------------------------------------------------------------- */

/// Elements of 4 bits cannot be compared alone. An integer may depend on the rounding of floats.
static bool is_sample(const Court *c, const Element *e) {
    if (elem_info[e->view->elem].bits < 8) return false;
    return elem_is(e->view->elem, EC_FLOAT) ? isfinite(e->value.f) : !c->precision.rounds;
}

static void take_run_samples(Court *c, const OracleRun *r) {
    for (int i = 0; i < r->elements.n; i++) {
        const Element *e = &r->elements.data[i];
        rt_sample s = {.param = e->view->param,
                       .at = e->number * elem_info[e->view->elem].bits / 8,
                       .bits = cell_bits(e->view->elem, e->value)};
        if (is_sample(c, e)) vec_push(c->ctx, &c->samples, s);
    }
}

static int by_place(const void *a, const void *b) {
    const rt_sample *x = a, *y = b;
    if (x->param != y->param) return x->param < y->param ? -1 : 1;
    return (x->at > y->at) - (x->at < y->at);
}

static bool is_near_sample(const rt_sample *a, const rt_sample *b) {
    return a->param == b->param && b->at - a->at <= NEAR;
}

/// Keeps one of `every` samples, or of `every` copies.
static void thin_samples(Court *c, int every, bool copies) {
    rt_sample *s = c->samples.data, before = {.param = -1};
    int kept = 0, number = -1;
    for (int i = 0; i < c->samples.n; i++) {
        number += !copies || !is_near_sample(&before, &s[i]);
        before = s[i];
        if (number % every == 0) s[kept++] = s[i];
    }
    c->samples.n = kept;
}

static void finish_samples(Court *c) {
    rt_sample *s = c->samples.data;
    int n = 0, copies = 0;
    qsort(s, (size_t)c->samples.n, sizeof *s, by_place);
    for (int i = 0; i < c->samples.n; i++) // runs may have picked a program twice
        if (!n || by_place(&s[n - 1], &s[i]) != 0) s[n++] = s[i];
    c->samples.n = n;
    for (int i = 0; i < n; i++) copies += !i || !is_near_sample(&s[i - 1], &s[i]);
    if (copies > MOST_COPIES) thin_samples(c, (copies + MOST_COPIES - 1) / MOST_COPIES, true);
    if (c->samples.n > MOST_SAMPLES)
        thin_samples(c, (c->samples.n + MOST_SAMPLES - 1) / MOST_SAMPLES, false);
    c->out->expected.samples = s;
    c->out->expected.n = c->samples.n;
}

/* ---- all of it ------------------------------------------------------------------------------- */

/// Makes the first run, and repeats it with noise.
static bool run_twice(Court *c, bool apart) {
    OracleRun exact, noisy;
    if (!run_traced(c, apart, 0, &exact)) return false;
    if (c->precision.rounds && !run_traced(c, apart, NOISE_SEED, &noisy)) return false;
    if (c->precision.rounds) note_noise(c, &exact, &noisy);
    take_run_samples(c, &exact);
    return true;
}

/// Runs more programs while time for another one is left.
static void run_more(Court *c) {
    double began = rt_seconds(), longest = 0;
    c->out->programs = 1;
    for (c->number = 1; c->number < MOST_PROGRAMS && c->number < c->most; c->number++) {
        OracleRun r;
        if (began + longest > c->end || !run_traced(c, true, 0, &r)) return;
        take_run_samples(c, &r);
        c->out->programs++;
        longest = fmax(longest, rt_seconds() - began);
        began = rt_seconds();
    }
}

static const char *why_not(const Court *c) {
    if (c->late) return "the interpreter takes too long";
    const char *said = messages_text(c->ctx);
    return *said ? ctx_format(c->ctx, "the interpreter says: %.*s", (int)strcspn(said, "\n"), said)
                 : "the kernel cannot be interpreted";
}

static void compute_oracle(Ctx *ctx, void *arg) {
    Court *c = arg;
    const Request *r = &c->what.request;
    if (!request_build(ctx, r, &c->b) || !build_target(&c->b) || !build_smallest(&c->b)) return;
    c->out->n_params = r->n_args;
    c->out->expected.noise = c->noise = ctx_array(ctx, double, r->n_args + 1);
    memset(c->noise, 0, sizeof *c->noise * (size_t)r->n_args);
    c->precision = rounding_bounds_of(c->b.code->module);
    bind_court(c);
    bool apart = are_apart(c);
    if (!run_twice(c, apart)) return;
    if (apart) run_more(c);
    finish_samples(c);
    if (!c->samples.n) c->out->why = "there is nothing that must be the same";
}

bool oracle_answer(Ctx *ctx, Bytes body, Bytes *out) {
    OracleAsk ask;
    Oracle oracle = {0};
    Court *c = ctx_new(ctx, Court);
    *c = (Court){.ctx = ctx, .ask = &ask, .out = &oracle};
    if (!oracle_read_ask(ctx, body, &ask) || !work_read_open(ctx, ask.open, &c->what)) return false;
    c->end = rt_seconds() + ask.seconds;
    oracle.expected.mild = ask.mild;
    oracle.why = fault_oracle() ? NULL : "an injected fault";
    CtxStatus status = oracle.why ? CTX_OK : ctx_protect(ctx, compute_oracle, c);
    if (status == CTX_NO_MEMORY) ctx_leave(ctx, status);
    if (!oracle.expected.n && !oracle.why) oracle.why = why_not(c);
    *out = oracle_write(ctx, &oracle);
    return true;
}
