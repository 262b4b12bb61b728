// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Control flow: branches are uniform, and each register of a carried value is a phi.
#include <llvm-c/DebugInfo.h>
#include <string.h>

#include "backends/gpu/lower.h"

/* ---- blocks of code ------------------------------------------------------------------------ */

static LLVMBasicBlockRef append_block(GpuFn *f, const char *name) {
    return LLVMAppendBasicBlockInContext(f->g->llvm, f->fn, name);
}

static LLVMBasicBlockRef current_block(GpuFn *f) {
    return LLVMGetInsertBlock(f->g->b);
}

/// LLVM and libNVVM respect the mark. The passes have already made the copies of a body that pay.
void gpu_branch_back(GpuFn *f, LLVMBasicBlockRef head) {
    Gen *g = f->g;
    static const char name[] = "llvm.loop.unroll.disable";
    LLVMMetadataRef text = LLVMMDStringInContext2(g->llvm, name, sizeof name - 1);
    LLVMMetadataRef disable = LLVMMDNodeInContext2(g->llvm, &text, 1);
    LLVMMetadataRef self = LLVMTemporaryMDNode(g->llvm, NULL, 0);
    LLVMMetadataRef parts[2] = {self, disable};
    LLVMMetadataRef loop = LLVMMDNodeInContext2(g->llvm, parts, 2);
    LLVMMetadataReplaceAllUsesWith(self, loop);
    LLVMValueRef branch = LLVMBuildBr(g->b, head);
    unsigned kind = LLVMGetMDKindIDInContext(g->llvm, "llvm.loop", 9);
    LLVMSetMetadata(branch, kind, LLVMMetadataAsValue(g->llvm, loop));
}

/* ---- branches ------------------------------------------------------------------------------ */

GpuIf gpu_if(GpuFn *f, LLVMValueRef c) {
    GpuIf i = {.yes = append_block(f, "yes"),
               .no = append_block(f, "no"),
               .join = append_block(f, "join")};
    LLVMBuildCondBr(f->g->b, c, i.yes, i.no);
    LLVMPositionBuilderAtEnd(f->g->b, i.yes);
    return i;
}

void gpu_else(GpuFn *f, GpuIf *i) {
    i->from_yes = current_block(f);
    LLVMBuildBr(f->g->b, i->join);
    LLVMPositionBuilderAtEnd(f->g->b, i->no);
}

void gpu_end_if(GpuFn *f, GpuIf *i) {
    i->from_no = current_block(f);
    LLVMBuildBr(f->g->b, i->join);
    LLVMPositionBuilderAtEnd(f->g->b, i->join);
}

LLVMValueRef gpu_phi(GpuFn *f, const GpuIf *i, LLVMValueRef yes, LLVMValueRef no) {
    if (yes == no) return yes;
    LLVMValueRef phi = LLVMBuildPhi(f->g->b, LLVMTypeOf(yes), "");
    LLVMAddIncoming(phi, (LLVMValueRef[]){yes, no}, (LLVMBasicBlockRef[]){i->from_yes, i->from_no},
                    2);
    return phi;
}

/* ---- counted loops ------------------------------------------------------------------------- */

static LLVMValueRef phi_from(GpuFn *f, LLVMValueRef x, LLVMBasicBlockRef from) {
    LLVMValueRef phi = LLVMBuildPhi(f->g->b, LLVMTypeOf(x), "");
    LLVMAddIncoming(phi, &x, &from, 1);
    return phi;
}

GpuLoop gpu_loop(GpuFn *f, LLVMValueRef lo, LLVMValueRef hi, int64_t step, int n,
                 LLVMValueRef *const init) {
    Gen *g = f->g;
    GpuLoop l = {.head = append_block(f, "head"),
                 .body = append_block(f, "loop"),
                 .hi = hi,
                 .step = step,
                 .n = n,
                 .phi = ctx_array(f->ctx, LLVMValueRef, n + 1)};
    LLVMBasicBlockRef from = current_block(f);
    LLVMBuildBr(g->b, l.head);
    LLVMPositionBuilderAtEnd(g->b, l.head);
    l.index = phi_from(f, lo, from);
    for (int i = 0; i < n; i++) l.phi[i] = phi_from(f, init[i], from);
    l.exit = append_block(f, "done");
    LLVMBuildCondBr(g->b, LLVMBuildICmp(g->b, LLVMIntSLT, l.index, hi, ""), l.body, l.exit);
    LLVMPositionBuilderAtEnd(g->b, l.body);
    f->loops++;
    return l;
}

void gpu_loop_end(GpuFn *f, GpuLoop *l, LLVMValueRef *const next) {
    Gen *g = f->g;
    LLVMValueRef step = LLVMConstInt(LLVMTypeOf(l->index), (uint64_t)l->step, true);
    LLVMValueRef index = LLVMBuildAdd(g->b, l->index, step, "");
    LLVMBasicBlockRef from = current_block(f);
    gpu_branch_back(f, l->head);
    LLVMAddIncoming(l->index, &index, &from, 1);
    for (int i = 0; i < l->n; i++) LLVMAddIncoming(l->phi[i], (LLVMValueRef *)&next[i], &from, 1);
    LLVMPositionBuilderAtEnd(g->b, l->exit);
    f->loops--;
}

/* ---- the ops ------------------------------------------------------------------------------- */

typedef VEC(LLVMValueRef) FlatRegisters;

/// Lists the registers of n operands one after another.
static void flatten_operands(GpuFn *f, const Op *op, int first, int n, FlatRegisters *out) {
    for (int i = 0; i < n; i++) {
        const Value *v = operand(op, first + i);
        LLVMValueRef *regs = gpu_block(f, v);
        for (int r = 0; r < gpu_registers(v->type); r++) vec_push(f->ctx, out, regs[r]);
    }
}

/// Gives v its registers, the first of flat[]. Returns their number.
static int bind_flat(GpuFn *f, const Value *v, LLVMValueRef *flat) {
    gpu_set_block(f, v, flat);
    return gpu_registers(v->type);
}

static void bind_args(GpuFn *f, const Region *r, int first, LLVMValueRef *flat) {
    for (int i = first; i < r->n_args; i++) flat += bind_flat(f, r->args[i], flat);
}

static void bind_results(GpuFn *f, const Op *op, LLVMValueRef *flat) {
    for (int i = 0; i < op->n_results; i++) flat += bind_flat(f, result(op, i), flat);
}

/// Whether an op joins elements of several CTAs, or moves data between warps for blocks that all
/// CTAs hold. In the latter case the first CTA works for all.
static bool joins_ctas(GpuFn *f, const Op *op) {
    if (op->code != OP_REDUCE && op->code != OP_SCAN) return false;
    const Layout *l = gpu_layout(f, operand(op, 0));
    LayoutReduction r = layout_reduce(f->ctx, l, (int)op_int(op, A_AXIS, 0));
    int ctas = layout_first(l, LEVEL_CTA) - l->bits[LEVEL_REG];
    return r.n_level[LEVEL_CTA] || (r.n_level[LEVEL_WARP] && layout_owner(l) >> ctas);
}

/// Meetings of CTAs in one body, from ops of all depths.
typedef struct CtaMeetings {
    GpuFn *f;
    bool joins, any; // ops join elements of several CTAs; CTAs may meet at all
} CtaMeetings;

static void see_meeting(Op *op, void *arg) {
    CtaMeetings *m = arg;
    m->joins |= joins_ctas(m->f, op);
    m->any |= op->code == OP_PRINT || op->code == OP_ASSERT || op->code == OP_SIGNAL_SET ||
              op->code == OP_COMM_FENCE;
    if (op_is_access(op) && op->code != OP_LIVE)
        m->any |= !gpu_order_is_free(m->f, gpu_tensor(m->f, access_of(op).tensor));
}

static CtaMeetings meetings_in(GpuFn *f, const Op *op) {
    CtaMeetings m = {.f = f, .any = f->kernel->faults};
    if (f->kernel->cluster > 1) op_walk_pre((Op *)op, see_meeting, &m);
    m.any |= m.joins;
    return m;
}

/// If CTAs of a cluster meet in a body, all of them must have started before it. If they do not,
/// the wait for their start may come after the body, but not in it.
static void enter_body(GpuFn *f, const CtaMeetings *m) {
    if (m->any) gpu_cluster_started(f);
    f->apart += !m->any;
}

static void leave_body(GpuFn *f, const CtaMeetings *m) {
    f->apart -= !m->any;
}

/// If CTAs of a cluster write into each other's memory, each announces at the start of an iteration
/// that it has finished the previous one, and waits for the others as late as possible.
static void announce_iteration(GpuFn *f, const CtaMeetings *m) {
    if (!m->joins) return;
    gpu_call(f, "tg.cluster.arrive", 0);
    f->announced = true;
    f->started = false;
}

/// In a loop's body any temporary of an earlier iteration may still be in use.
static GpuShared enter_loop(GpuFn *f, const Op *loop, const CtaMeetings *m) {
    enter_body(f, m);
    GpuShared before = gpu_shared_state(f);
    f->any_stretch = f->any_far = true;
    gpu_order_again(f, loop);
    return before;
}

/// Leaves a loop. If its body took no temporary, only temporaries from before the loop are in use.
static void leave_loop(GpuFn *f, const GpuShared *before, const CtaMeetings *m) {
    leave_body(f, m);
    if (f->uses == before->uses) {
        f->stretches.n = 0;
        f->any_stretch = f->any_far = false;
    }
    gpu_shared_join(f, before);
}

/// Only the back end's optimiser can tell whether the loop's index and bounds fit 32 bits, so they
/// keep the types of the IR.
void gpu_lower_for(GpuFn *f, Op *op) {
    Region *r = op->regions[0];
    FlatRegisters init = {0}, next = {0};
    flatten_operands(f, op, 2, op->n_results, &init);
    gpu_mark_loop(f, op, "loop");
    CtaMeetings meetings = meetings_in(f, op);
    GpuShared before = enter_loop(f, op, &meetings);
    GpuLoop l = gpu_loop(f, gpu_scalar(f, operand(op, 0)), gpu_scalar(f, operand(op, 1)),
                         op_int(op, A_STEP, 1), init.n, init.data);
    gpu_set_scalar(f, r->args[0], l.index);
    bind_args(f, r, 1, l.phi);
    announce_iteration(f, &meetings);
    gpu_region(f, r);
    if (meetings.joins) gpu_cluster_end(f);
    flatten_operands(f, r->last, 0, op->n_results, &next);
    gpu_loop_end(f, &l, next.data);
    leave_loop(f, &before, &meetings);
    bind_results(f, op, l.phi);
    gpu_mark_loop(f, op, "after the loop");
}

void gpu_lower_while(GpuFn *f, Op *op) {
    Gen *g = f->g;
    FlatRegisters init = {0}, next = {0};
    flatten_operands(f, op, 0, op->n_results, &init);
    gpu_mark_loop(f, op, "loop");
    CtaMeetings meetings = meetings_in(f, op);
    GpuShared before = enter_loop(f, op, &meetings);
    LLVMBasicBlockRef head = append_block(f, "head"), from = current_block(f);
    LLVMValueRef *phi = ctx_array(f->ctx, LLVMValueRef, init.n + 1);
    LLVMBuildBr(g->b, head);
    LLVMPositionBuilderAtEnd(g->b, head);
    for (int i = 0; i < init.n; i++) phi[i] = phi_from(f, init.data[i], from);
    f->loops++;
    bind_args(f, op->regions[0], 0, phi);
    gpu_region(f, op->regions[0]);
    LLVMValueRef go_on = gpu_scalar(f, operand(op->regions[0]->last, 0));
    GpuShared at_exit = gpu_shared_state(f);
    LLVMBasicBlockRef body = append_block(f, "loop"), exit = append_block(f, "done");
    LLVMBuildCondBr(g->b, go_on, body, exit);
    LLVMPositionBuilderAtEnd(g->b, body);
    bind_args(f, op->regions[1], 0, phi);
    gpu_region(f, op->regions[1]);
    flatten_operands(f, op->regions[1]->last, 0, op->n_results, &next);
    from = current_block(f);
    gpu_branch_back(f, head);
    for (int i = 0; i < init.n; i++) LLVMAddIncoming(phi[i], &next.data[i], &from, 1);
    LLVMPositionBuilderAtEnd(g->b, exit);
    f->loops--;
    gpu_shared_join(f, &at_exit);
    leave_loop(f, &before, &meetings);
    bind_results(f, op, phi);
    gpu_mark_loop(f, op, "after the loop");
}

void gpu_lower_if(GpuFn *f, Op *op) {
    FlatRegisters yes = {0}, no = {0};
    CtaMeetings meetings = meetings_in(f, op);
    enter_body(f, &meetings);
    GpuShared before = gpu_shared_state(f);
    GpuIf i = gpu_if(f, gpu_scalar(f, operand(op, 0)));
    gpu_region(f, op->regions[0]);
    flatten_operands(f, op->regions[0]->last, 0, op->n_results, &yes);
    gpu_else(f, &i);
    GpuShared after = gpu_shared_state(f);
    gpu_shared_restore(f, &before);
    gpu_region(f, op->regions[1]);
    flatten_operands(f, op->regions[1]->last, 0, op->n_results, &no);
    gpu_end_if(f, &i);
    leave_body(f, &meetings);
    gpu_shared_join(f, &after);
    for (int k = 0; k < yes.n; k++) yes.data[k] = gpu_phi(f, &i, yes.data[k], no.data[k]);
    bind_results(f, op, yes.data);
}
