// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Words that programs of other ranks raise and wait for.
//
// Every thread waits by itself. So each thread acquires the earlier writes, and no barrier is
// necessary. One thread raises a word after a barrier. That barrier must stay, because it orders
// data that other ranks read. A fence makes the data visible to copy engines. Writes by copy
// engines must end before a word is raised.
//
// `comm_fence` orders the accesses of the program, not of a thread, since any of its threads may
// write the data afterwards. So all threads meet, and then each executes a fence. Because they have
// met, the fence also covers the other threads' writes.
#include "backends/gpu/access.h"
#include "backends/gpu/ops.h"
#include "passes/util.h"
#include "runtime/abi.h"

/// Returns the address of a word from the coordinates, operand `first` onwards. *on: the word
/// exists.
static LLVMValueRef word_at(GpuFn *f, const Op *op, int first, LLVMValueRef *on) {
    const Gen *g = f->g;
    const GpuTensor *t = gpu_tensor(f, operand(op, 0));
    LLVMValueRef offset = gen_i64(g, 0);
    for (int d = 0; d < operand(op, 0)->type->rank; d++) {
        LLVMValueRef x = gpu_scalar(f, operand(op, first + d));
        *on = gen_and(g, *on, LLVMBuildICmp(g->b, LLVMIntULT, x, t->dims[d], ""));
        offset = gen_add(g, offset, gen_mul(g, x, t->strides[d]));
    }
    return gpu_offset(f, t->data, gen_mul(g, offset, gen_i64(g, 8)));
}

static void find_copyout(Op *op, void *found) {
    *(bool *)found |= op->code == OP_COPYOUT_TMA;
}

static void find_copy(Op *op, void *found) {
    *(bool *)found |= op->code == OP_COPY_TMA || op->code == OP_COPYOUT_TMA;
}

static bool contains_op(const Op *op, void (*find)(Op *op, void *found)) {
    bool found = false;
    op_walk_pre((Op *)(uintptr_t)op, find, &found);
    return found;
}

/// Whether a copy engine may work after op: in the code after it, or in the next iteration of a
/// surrounding loop.
static bool copies_follow(const GpuFn *f, const Op *op) {
    for (; op != f->device; op = op->parent->parent) {
        if (op_is_loop(op) && contains_op(op, find_copy)) return true;
        for (const Op *next = op->next; next; next = next->next)
            if (contains_op(next, find_copy)) return true;
    }
    return false;
}

static int wait_site(GpuFn *f, const Op *op) {
    const char *text = op_str(op, A_TEXT);
    return gpu_add_site(f, op, TG_SITE_WAIT, text ? text : "rank {}'s signal {}", "dd", 0);
}

void gpu_lower_signal_wait(GpuFn *f, Op *op) {
    enum { CONTROL = 1, VALUE, PEER, FIRST };
    LLVMValueRef on = NULL, word = word_at(f, op, FIRST, &on);
    Compare compare = op_attr(op, ATTR_COMPARE) ? op_compare(op) : COMPARE_GE;
    const char *name = ctx_format(f->ctx, "tg.wait.%s", compare_word(compare));
    gpu_call(f, name, 7, word, on, gpu_scalar(f, operand(op, VALUE)),
             gpu_tensor(f, operand(op, CONTROL))->data, gen_i64(f->g, wait_site(f, op)),
             gpu_scalar(f, operand(op, PEER)), gpu_scalar(f, operand(op, op->n_operands - 1)));
    if (copies_follow(f, op)) gpu_call(f, "tg.nv.fence.proxy.async.global", 0);
}

/// Waits until the writes that copy engines make for this thread are complete.
static void settle_copies(GpuFn *f) {
    if (contains_op(f->device, find_copyout)) gpu_call(f, "tg.nv.tma.wait.0", 0);
}

/// Adds a barrier that stays although this kernel reads nothing that it orders.
static void meet_for_others(GpuFn *f) {
    gpu_program_barrier(f);
    if (f->kernel->cluster == 1) f->barriers.data[f->barriers.n - 1].kept = true;
}

void gpu_lower_signal_set(GpuFn *f, Op *op) {
    enum { VALUE = 1, FIRST };
    LLVMValueRef on = gpu_is_first_thread(f), word = word_at(f, op, FIRST, &on);
    const char *how = update_word(op_update(op) == UPDATE_ADD ? UPDATE_ADD : UPDATE_SET);
    settle_copies(f);
    // The release of one wave waits only for its own writes.
    if (gpu_has_any(f->target, GPU_AMD)) gpu_call(f, "tg.fence.acq_rel.sys", 0);
    meet_for_others(f);
    gpu_call(f, ctx_format(f->ctx, "tg.signal.%s", how), 3, word, on,
             gpu_scalar(f, operand(op, VALUE)));
}

/// The first fence of a thread covers its reads by atomics, and on AMD's GPUs its writes. The
/// second one covers the writes of all threads.
void gpu_lower_comm_fence(GpuFn *f, Op *op) {
    settle_copies(f);
    gpu_call(f, "tg.fence.acq_rel.sys", 0);
    meet_for_others(f);
    gpu_call(f, "tg.fence.acq_rel.sys", 0);
    if (copies_follow(f, op)) gpu_call(f, "tg.nv.fence.proxy.async.global", 0);
}
