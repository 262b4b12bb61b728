// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Finds the accesses of a launch to the shards of all ranks, phase by phase, for comm_cost.c: the
// bytes that its programs read of other ranks' shards, store there, and contribute to them.
//
// The bytes are those of a phase's accesses, times the number of executions. The rank of an access
// is unknown; it is assumed to be another rank in W - 1 of W cases. If the number of executions
// depends on data, it is bounded by the number of places in the tensor. If nothing bounds it, or if
// programs wait for each other's signals, the launch has no model.
#include <math.h>
#include <string.h>

#include "passes/comm/comm.h"
#include "passes/comm/comm_cost.h"

enum { SECTOR = 32, WORD = 4 }; // least bytes of an access, and of a GPU's atomic

static const CommLink links[] = {
#define LINK(copy, store, load, start, chunk, meeting, peers)                                      \
    copy * 1e9, store * 1e9, load * 1e9, start * 1e-6, chunk * 1e-6, meeting * 1e-6, peers
#define GPU(name, arch, lanes, sms, threads, ctas, registers, most, shared, shared_one, l2, gb,    \
            ghz, fma, unit, features, ptx, link, ...)                                              \
    {name, link},
#define HOST_LINK(...) {"cpu", LINK(__VA_ARGS__)},
#include "lang/gpus.def"
};

const CommLink *comm_link(const char *target) {
    for (size_t i = 0; i < sizeof links / sizeof *links; i++)
        if (strcmp(links[i].target, target) == 0) return &links[i];
    return NULL;
}

typedef struct WorkFinder {
    Ctx *ctx;
    Op *kernel;
    const GpuTarget *gpu;
    const Machine *machine;
    const CostDims *dims;
    CommLaunch *l;
    const Value *tensors[COMM_TENSORS];
    bool meets; // before the next phase
    bool parts; // needed only in plans that do not wait for parts
    Ir *ir;
} WorkFinder;

static void give_up_finding(WorkFinder *f, const char *why) {
    if (!f->l->why) f->l->why = why;
}

/* ---- tensors ------------------------------------------------------------------------------- */

static int64_t known_axis_extent(const WorkFinder *f, const Value *tensor, int axis) {
    int64_t extent = tensor->type->extents[axis];
    if (extent != DYNAMIC) return extent;
    if (!tensor->def) return f->dims->dim_of(f->dims->user, tensor->index, axis);
    return cost_value(f->dims, operand(tensor->def, axis), &extent) ? extent : -1;
}

static double shard_size_bytes(const WorkFinder *f, const Value *tensor) {
    double bytes = elem_info[tensor->type->elem].bits / 8.0;
    for (int d = 1; d < tensor->type->rank; d++)
        bytes *= fmax(0, (double)known_axis_extent(f, tensor, d));
    return bytes;
}

/// Returns the factor on the bytes of additions by atomics; 0: they compare and swap until they
/// succeed.
static double growth_of(const WorkFinder *f, Elem elem) {
    double bytes = elem_info[elem].bits / 8.0;
    if (!f->gpu) return 0;
    if (elem == EL_F32 || (elem_is(elem, EC_INT) && bytes >= WORD)) return 1;
    bool halves = elem == EL_F16 || (elem == EL_BF16 && f->gpu->arch >= 90);
    return halves && !gpu_has_any(f->gpu, GPU_AMD) ? WORD / bytes : 0;
}

static const char *reason_against_sums(const WorkFinder *f, Elem elem) {
    if (!f->gpu) return "cores add by compare and swap";
    return ctx_format(f->ctx, "%s is added by compare and swap, with an unknown number of attempts",
                      elem_info[elem].name);
}

static void plan_reads(WorkFinder *f, CommTensor *t, const Value *tensor) {
    CommReads r = {.tensor = (Value *)tensor};
    comm_find_reads(f->ctx, f->kernel, &r);
    t->reads = r.remote;
    t->written = r.written;
    t->whole = r.chunked != NULL;
    for (int plan = 0; plan < PLAN_COUNT; plan++) {
        PlanId asked = plan == PLAN_ADD ? PLAN_DIRECT : plan == PLAN_COPIES ? PLAN_PULL : plan;
        if (asked == PLAN_CHOSEN && !f->gpu) asked = PLAN_DIRECT;
        t->by[plan] = comm_reads_plan(&r, asked);
    }
}

/// Returns the tensor's number in the launch, or -1.
static int tensor_number(WorkFinder *f, const Value *tensor) {
    CommLaunch *l = f->l;
    for (int i = 0; i < l->n_tensors; i++)
        if (f->tensors[i] == tensor) return i;
    if (l->n_tensors == COMM_TENSORS) {
        give_up_finding(f, "it has too many symmetric tensors");
        return -1;
    }
    CommTensor *t = &l->tensors[l->n_tensors];
    f->tensors[l->n_tensors] = tensor;
    t->name = comm_name(tensor);
    t->bytes = shard_size_bytes(f, tensor);
    plan_reads(f, t, tensor);
    return l->n_tensors++;
}

/* ---- phases -------------------------------------------------------------------------------- */

/// Returns the bytes that `times` executions of access `op` move between this rank and others.
static double moved_bytes(const WorkFinder *f, const Op *op, const Type *block, double times) {
    double ranks = (double)f->l->ranks, bytes = cost_bytes(block);
    CommWhose whose = comm_whose(f->ctx, op);
    if (whose == WHOSE_OWN) return 0;
    if (f->gpu) bytes = fmax(bytes, SECTOR);
    return times * bytes * (whose == WHOSE_OTHER ? 1 : (ranks - 1) / ranks);
}

static void add_combine(WorkFinder *f, CommPhase *p, const Op *op, double times) {
    int n = (int)op_int(op, A_N_TENSORS, 1);
    for (int i = 0; i < n && comm_is_add(op); i++) {
        int at = tensor_number(f, operand(op, i));
        if (at < 0) return;
        CommTensor *t = &f->l->tensors[at];
        Elem elem = operand(op, i)->type->elem;
        bool pushes = f->gpu && comm_can_push(f->ctx, f->kernel, op);
        t->pushes = pushes && (!t->adds || t->pushes);
        t->adds = true;
        p->added[at] += times * cost_bytes(operand(op, n + i)->type) / (double)f->l->ranks;
        t->growth = comm_is_sum(op) ? growth_of(f, elem) : 0;
        if (comm_is_sum(op) && !t->growth) t->no_sums = reason_against_sums(f, elem);
    }
}

static void add_comm_access(WorkFinder *f, CommPhase *p, const Op *op, double times) {
    bool load = op->code == OP_LOAD;
    if (!value_is_sym(operand(op, 0)) || cost_is_dead(op)) return;
    if (op->code == OP_COMBINE) {
        add_combine(f, p, op, times);
        return;
    }
    int at = tensor_number(f, operand(op, 0));
    const Type *block = load ? result(op, 0)->type : access_of(op).value->type;
    if (at >= 0) (load ? p->read : p->stored)[at] += moved_bytes(f, op, block, times);
}

static void add_comm_region(WorkFinder *f, CommPhase *p, const Region *r, double times) {
    for_each_op(op, r) {
        bool loop = op->code == OP_FOR || op->code == OP_PARALLEL || op->code == OP_CONTRACT;
        if (op->code == OP_SIGNAL_WAIT)
            give_up_finding(f, "its programs wait for signals of other programs");
        if (op->code == OP_WHILE)
            give_up_finding(f, "the number of iterations of a 'while' is unknown");
        if (loop && !cost_is_bounded(f->dims, op))
            give_up_finding(f, ctx_format(f->ctx, "the number of executions of line %u is unknown",
                                          op->loc.line));
        if (op->code == OP_LOAD || op->code == OP_STORE || op->code == OP_ATOMIC ||
            op->code == OP_COMBINE)
            add_comm_access(f, p, op, times);
        double inner = loop ? times * cost_parts(f->dims, op) : times;
        for (int i = 0; i < op->n_regions && op->code != OP_COMBINE; i++)
            add_comm_region(f, p, op->regions[i], inner);
    }
}

/// Returns the extents, with 1 for the number of ranks.
static int64_t one_rank(void *user, int parameter, int axis) {
    const WorkFinder *f = user;
    const Value *tensor = f->kernel->regions[0]->args[parameter];
    return axis == 0 && value_is_sym(tensor) ? 1 : f->dims->dim_of(f->dims->user, parameter, axis);
}

static double programs_of(const WorkFinder *f, const Op *phase) {
    double programs = 1;
    for (const Op *p = phase; p; p = inner_parallel(p)) programs *= cost_trips(f->dims, p);
    return programs;
}

/// Prices the programs for one rank, in a phase that can be launched rank by rank.
static void price_apart(const WorkFinder *f, CommPhase *p, const Op *op) {
    CostDims alone = {.dim_of = one_rank, .user = (void *)(uintptr_t)f};
    p->apart = gpu_cost_phase(op, f->gpu, &alone, NULL);
    if (p->apart >= p->seconds)
        p->apart = p->seconds / (double)f->l->ranks; // the ranks have another name
}

static void add_comm_phase(WorkFinder *f, const Op *op, double times) {
    CommLaunch *l = f->l;
    if (l->n_phases == COMM_PHASES) {
        give_up_finding(f, "it has too many phases");
        return;
    }
    CommPhase *p = &l->phases[l->n_phases++];
    p->held = 1;
    double one = f->gpu ? gpu_cost_phase(op, f->gpu, f->dims, &p->held)
                        : cost_phase(op, f->machine, f->dims);
    p->line = op->loc.line;
    p->meets = f->meets;
    p->parts = f->parts;
    p->seconds = one * times;
    p->programs = programs_of(f, op) * times;
    l->seconds += p->seconds;
    f->meets = false;
    if (!cost_is_bounded(f->dims, op))
        give_up_finding(
            f, ctx_format(f->ctx, "the number of programs of line %u is unknown", p->line));
    add_comm_region(f, p, op->regions[0], times * cost_parts(f->dims, op));
    for (int i = 0; i < l->n_tensors && p->apart <= 0; i++)
        if (p->added[i] > 0 && l->tensors[i].pushes) price_apart(f, p, op);
}

static void note_meeting(WorkFinder *f, const Op *barrier) {
    bool parts = !comm_needs_meeting(f->ir, f->kernel, barrier);
    f->parts = parts && (!f->meets || f->parts);
    f->meets = true;
}

static void add_host_region(WorkFinder *f, const Region *r, double times) {
    for_each_op(op, r) {
        if (op->code == OP_COMM_BARRIER) note_meeting(f, op);
        if (op->code == OP_PARALLEL)
            add_comm_phase(f, op, times);
        else if (op->code == OP_FOR)
            add_host_region(f, op->regions[0], times * cost_trips(f->dims, op));
        else if (op->n_regions && !op_has(op, PURE))
            give_up_finding(f, "the host decides at run time which launches to make");
    }
}

/* ---- the launch ---------------------------------------------------------------------------- */

static bool knows_extents(const WorkFinder *f) {
    const Attr *sym = op_ints(f->kernel, A_SYMMETRIC_PARAMS);
    for (int i = 0; i < sym->n; i++) {
        const Value *tensor = f->kernel->regions[0]->args[sym->ints[i]];
        for (int d = 0; d < tensor->type->rank; d++)
            if (known_axis_extent(f, tensor, d) < 0) return false;
    }
    return true;
}

/// Checks that the bytes of copied shards are known.
static void check_bytes(WorkFinder *f) {
    for (int i = 0; i < f->l->n_tensors; i++) {
        const CommTensor *t = &f->l->tensors[i];
        if (t->reads && t->by[PLAN_BEFORE] != PLAN_DIRECT && t->bytes <= 0)
            give_up_finding(f, ctx_format(f->ctx, "shards of '%s' are empty", t->name));
    }
}

void comm_launch(Ir *ir, Op *kernel, const GpuTarget *gpu, const Machine *machine,
                 const CostDims *dims, CommLaunch *out) {
    const Attr *sym = op_ints(kernel, A_SYMMETRIC_PARAMS);
    WorkFinder f = {.ctx = ir_ctx(ir),
                    .ir = ir,
                    .kernel = kernel,
                    .gpu = gpu,
                    .machine = machine,
                    .dims = dims,
                    .l = out};
    *out = (CommLaunch){.link = comm_link(gpu ? gpu->name : "cpu"), .beside = gpu != NULL};
    out->units = gpu ? gpu->sms : machine->threads;
    out->bandwidth = gpu ? gpu->bandwidth : out->link->copy * out->units;
    if (!out->link)
        out->why = "the bandwidth of this target's links is unknown";
    else if (!knows_extents(&f))
        out->why = "dims are not known: --arg gives tensors that have them";
    if (out->why) return;
    out->ranks = known_axis_extent(&f, kernel->regions[0]->args[sym->ints[0]], 0);
    if (out->ranks < 2) {
        out->why = "one rank moves nothing";
        return;
    }
    add_host_region(&f, kernel->regions[0], 1);
    check_bytes(&f);
}
