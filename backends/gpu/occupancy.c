// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Chooses how many CTAs should run side by side on an SM: "tg.minctasm", which bounds the
// assembler's registers a thread. Without a bound the assembler takes more than it needs, and
// kernels that wait for memory have fewer accesses in flight.
//
// In a kernel that reads, reduces and writes rows, memory idles while threads wait for each other,
// unless another CTA uses it for other rows. Likewise matrix units idle while a chain reduces rows
// between its two products. These kernels ask for as many CTAs as the SM holds. The code generator
// sees the number of live values, and reduces the request if it would spill.
#include "backends/gpu/ops.h"
#include "passes/cost/cost.h"
#include "passes/gpu/gpu.h"

#include <math.h>

// Rows in flight beyond these limits gain nothing, and cost a few per cent.
enum { MANY_FOLDED = 8, ROWS_BYTES = 64 << 10, ROWS_LEAST = 3 };
enum { SHARED_CTA = 1024 }; // bytes of an SM's shared memory that each CTA takes beyond its own
// Registers of a thread are allocated in granules. For a small chain the passes count too few
// registers: its addresses and barriers need as many as its tiles.
enum { GRANULE = 8, CHAIN_REGISTERS = 96 };

typedef struct WaitingWork {
    bool heavy; // products, asynchronous work, scans, large folds: the assembler decides
    bool meets; // threads wait for each other
    double row; // bytes of the largest load
} WaitingWork;

static void look_at_waiting(Op *op, void *arg) {
    WaitingWork *w = arg;
    w->heavy |= op->code == OP_DOT || op->code == OP_SORT;
    w->heavy |= op->code == OP_SCAN;
    if (op->code == OP_LOAD && result(op, 0)->type->rank)
        w->row = fmax(w->row, cost_bytes(result(op, 0)->type));
    w->meets |= op->code == OP_REDUCE || op->code == OP_CONVERT;
    bool folds = op->code == OP_REDUCE && op->n_operands > 1;
    w->heavy |= folds && gpu_registers(operand(op, 0)->type) > MANY_FOLDED;
    for (int i = 0; i < op->n_results; i++) w->heavy |= result(op, i)->type->kind != TK_BLOCK;
}

static int least_of_ints(int a, int64_t b) {
    return a < b ? a : (int)b;
}

int gpu_chains_beside(const GpuFn *f) {
    const GpuTarget *t = f->target;
    GpuShape s = gpu_shape_of(t, f->device);
    if (!s.counted || op_flag(f->device, A_SKEWED) || f->kernel->faults) return 1;
    int64_t registers = s.registers > CHAIN_REGISTERS ? s.registers : CHAIN_REGISTERS;
    registers = (registers + GRANULE - 1) / GRANULE * GRANULE;
    int ctas = (int)(t->registers_sm / (registers * f->threads));
    if (f->shared_bytes) ctas = least_of_ints(ctas, t->shared_sm / (f->shared_bytes + SHARED_CTA));
    return ctas > 1 ? ctas : 1;
}

int gpu_occupancy(GpuFn *f) {
    const GpuTarget *t = f->target;
    WaitingWork w = {0};
    op_walk_pre((Op *)f->device, look_at_waiting, &w);
    int chains = gpu_chains_beside(f);
    if (chains > 1) return chains;
    if (w.heavy || !w.meets || f->kernel->faults) return 1;
    int ctas = least_of_ints(t->ctas_sm, t->threads_sm / f->threads);
    if (w.row > 0) ctas = least_of_ints(ctas, (int64_t)fmax(ROWS_LEAST, ROWS_BYTES / w.row));
    if (f->shared_bytes) ctas = least_of_ints(ctas, t->shared_sm / f->shared_bytes);
    return ctas > 1 ? ctas : 1;
}
