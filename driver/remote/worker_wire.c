// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Messages to and from a worker, and stored results of a search, as bytes.
#include "driver/remote/oracle.h"
#include "driver/remote/wire.h"
#include "driver/remote/worker.h"
#include "driver/tune/tune_store.h"

#include "runtime/comm/comm.h"

#include <string.h>

/// Transfers a double as a number with its bits.
static void marshal_real(Wire *w, double *x) {
    int64_t bits;
    memcpy(&bits, x, sizeof bits);
    bits = wire_number(w, bits);
    memcpy(x, &bits, sizeof bits);
    if (w->reading && *x != *x) w->bad = true;
}

static void marshal_bytes(Wire *w, Bytes *b) {
    const void *data = b->data;
    wire_bytes(w, &data, &b->n);
    b->data = (uint8_t *)(uintptr_t)data;
}

static void work_data(Wire *w, WorkData *d) {
    d->address = wire_number(w, d->address);
    marshal_bytes(w, &d->contents);
}

static void work_open(Wire *w, WorkOpen *o) {
    wire_request(w, &o->request);
    NUMBER(w, o->device, -1, 1024);
    NUMBER(w, o->ranks, 0, RT_COMM_RANKS);
    NUMBER(w, o->rank, 0, RT_COMM_RANKS);
    wire_text(w, &o->meet);
    o->seed = (uint64_t)wire_number(w, (int64_t)o->seed);
    NUMBER(w, o->n, 0, TG_MAX_PARAMS);
    LIST(w, WorkData, o->data, o->n, work_data);
    if (w->reading && o->n != o->request.n_args) w->bad = true;
    if (w->reading && o->ranks && (o->rank >= o->ranks || !o->meet)) w->bad = true;
}

static void work_try(Wire *w, WorkTry *t) {
    NUMBER(w, t->id, 0, WIRE_ITEMS);
    NUMBER(w, t->launches, WORK_WARM, WIRE_ITEMS);
    marshal_bytes(w, &t->answer);
    marshal_bytes(w, &t->expected);
}

static void work_report(Wire *w, WorkReport *r) {
    FLAG(w, r->ok);
    NUMBER(w, r->verdict, 0, TUNE_VERDICTS - 1);
    wire_text(w, &r->why);
    FLAG(w, r->lost);
    FLAG(w, r->refuted);
    FLAG(w, r->mild);
    COUNT(w, r->n);
    ITEMS(w, r->seconds, r->n);
    NUMBER(w, r->registers, -1, INT32_MAX);
    NUMBER(w, r->spills, -1, INT32_MAX);
    NUMBER(w, r->shared_bytes, -1, INT32_MAX);
    marshal_real(w, &r->computed);
    if (w->reading && !r->ok && !r->why) w->bad = true;
}

static void oracle_ask(Wire *w, OracleAsk *a) {
    marshal_bytes(w, &a->open);
    FLAG(w, a->mild);
    marshal_real(w, &a->seconds);
}

static void marshal_sample(Wire *w, rt_sample *s) {
    s->param = wire_bounded(w, s->param, 0, TG_MAX_PARAMS - 1);
    s->at = wire_bounded(w, s->at, 0, INT64_MAX);
    s->bits = (uint64_t)wire_number(w, (int64_t)s->bits);
}

static void marshal_oracle(Wire *w, Oracle *o) {
    rt_expected *e = &o->expected;
    wire_text(w, &o->why);
    COUNT(w, e->n);
    LIST(w, rt_sample, e->samples, e->n, marshal_sample);
    COUNT(w, o->n_params);
    ITEMS(w, e->noise, o->n_params);
    FLAG(w, e->mild);
    COUNT(w, o->programs);
    for (int i = 0; w->reading && !w->bad && i < e->n; i++)
        w->bad |= e->samples[i].param >= o->n_params;
}

static void marshal_trial(Wire *w, TuneTrial *t) {
    wire_needed_text(w, &t->config);
    wire_text(w, &t->why);
    NUMBER(w, t->verdict, 0, TUNE_VERDICTS - 1);
    FLAG(w, t->standard);
    marshal_real(w, &t->predicted);
    marshal_real(w, &t->compiled);
    marshal_real(w, &t->seconds);
    marshal_real(w, &t->low);
    marshal_real(w, &t->high);
    NUMBER(w, t->launches, -1, INT32_MAX);
    NUMBER(w, t->registers, -1, INT32_MAX);
    NUMBER(w, t->spills, -1, INT32_MAX);
    NUMBER(w, t->shared_bytes, -1, INT32_MAX);
    t->code = (uint64_t)wire_number(w, (int64_t)t->code);
    FLAG(w, t->earlier);
    wire_text(w, &t->sibling);
}

static void marshal_sibling(Wire *w, TuneSibling *s) {
    s->machine = (uint64_t)wire_number(w, (int64_t)s->machine);
    wire_needed_text(w, &s->device);
    wire_needed_text(w, &s->config);
}

static void marshal_siblings(Wire *w, TuneSiblings *s) {
    NUMBER(w, s->n, 0, TUNE_SIBLINGS);
    LIST(w, TuneSibling, s->at, s->n, marshal_sibling);
}

static void tune_result(Wire *w, TuneResult *r) {
    wire_needed_text(w, &r->kernel);
    wire_needed_text(w, &r->target);
    wire_needed_text(w, &r->device);
    wire_needed_text(w, &r->shape);
    wire_needed_text(w, &r->config);
    marshal_real(w, &r->seconds);
    marshal_real(w, &r->standard);
    marshal_real(w, &r->roof);
    marshal_real(w, &r->spent);
    marshal_real(w, &r->budget);
    marshal_real(w, &r->flops);
    marshal_real(w, &r->bytes);
    wire_text(w, &r->judged);
    r->source = (uint64_t)wire_number(w, (int64_t)r->source);
    COUNT(w, r->n_trials);
    NUMBER(w, r->n_space, 0, INT32_MAX);
    LIST(w, TuneTrial, r->trials, r->n_trials, marshal_trial);
}

#define MESSAGE(write, read, type, kind, field)                                                    \
    Bytes write(Ctx *ctx, const type *x) {                                                         \
        Wire w = wire_writer(ctx);                                                                 \
        type copy = *x;                                                                            \
        field(&w, &copy);                                                                          \
        return wire_finish(&w, kind);                                                              \
    }                                                                                              \
    bool read(Ctx *ctx, Bytes in, type *x) {                                                       \
        Wire w = wire_reader(ctx, in);                                                             \
        *x = (type){0};                                                                            \
        field(&w, x);                                                                              \
        return wire_is_done(&w);                                                                   \
    }

MESSAGE(work_write_open, work_read_open, WorkOpen, WIRE_OPEN, work_open)
MESSAGE(work_write_try, work_read_try, WorkTry, WIRE_TRY, work_try)
MESSAGE(work_write_report, work_read_report, WorkReport, WIRE_REPORT, work_report)
MESSAGE(work_write_result, work_read_result, TuneResult, WIRE_RESULT, tune_result)
MESSAGE(tune_write_siblings, tune_read_siblings, TuneSiblings, WIRE_SIBLINGS, marshal_siblings)
MESSAGE(oracle_write_ask, oracle_read_ask, OracleAsk, WIRE_ORACLE, oracle_ask)
MESSAGE(oracle_write, oracle_read, Oracle, WIRE_EXPECTED, marshal_oracle)
