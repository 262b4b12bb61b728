// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Describes the devices of a module for people: warps, matrix units, and the blocks that change
// their layout.
#include "passes/gpu/layouts.h"

#include <inttypes.h>
#include <string.h>

typedef struct DeviceReport {
    Ctx *ctx;
    Text *out;
    GpuMore *more;
    void *arg;
} DeviceReport;

static const char *shape_of(DeviceReport *d, const Type *t) {
    Text text = {.ctx = d->ctx};
    for (int i = 0; i < t->rank; i++) text_add(&text, "%s%" PRId64, i ? "x" : "", t->extents[i]);
    text_add(&text, " of %s", elem_info[t->elem].name);
    return text.data;
}

static void describe_product(DeviceReport *d, const Op *op, const Type *a) {
    const Type *c = ty_promised(result(op, 0)->type);
    c = c ? c : result(op, 0)->type;
    text_add(d->out, "    product %" PRId64 "x%" PRId64 "x%" PRId64 " of %s by %s\n", c->extents[0],
             c->extents[1], a->extents[1], elem_info[a->elem].name, op_str(op, A_UNIT));
}

static void describe_convert(DeviceReport *d, const Op *op) {
    static const char *const how[] = {
        [CONVERT_NONE] = "for nothing",
        [CONVERT_RENAME] = "by renaming registers",
        [CONVERT_SELECT] = "within each thread",
        [CONVERT_SHUFFLE] = "by shuffles",
        [CONVERT_SHARED] = "through shared memory",
        [CONVERT_ADDRESS] = "through shared memory, by coordinates",
    };
    const Type *from = operand(op, 0)->type, *to = result(op, 0)->type;
    int bits = elem_info[to->elem].bits;
    Conversion c = layout_convert(from->layout, to->layout, bits < 8 ? 8 : bits);
    text_add(d->out, "    a block %s changes its layout %s\n", shape_of(d, to), how[c.kind]);
}

static void describe_op(Op *op, void *arg) {
    DeviceReport *d = arg;
    switch (op->code) {
    case OP_DOT:
    case OP_MMA_START: describe_product(d, op, operand(op, 0)->type); return;
    case OP_CONVERT: describe_convert(d, op); return;
    default: return;
    }
}

/// Adds the notes of `async` and `sync`.
static void describe_lines(DeviceReport *d, const Op *device, StrsAttr attr) {
    const Attr *lines = op_strs(device, attr);
    for (int i = 0; lines && i < lines->n; i++) {
        const char *more = d->more(d->arg, lines->strs[i]);
        text_add(d->out, more ? "    %s (%s)\n" : "    %s\n", lines->strs[i], more);
    }
}

static void find_shared(Op *op, void *found) {
    *(bool *)found |= op->code == OP_COPY_TMA && op_flag(op, A_MULTICAST);
}

bool gpu_shares_copies(const Op *device) {
    bool found = false;
    op_walk_pre((Op *)device, find_shared, &found);
    return found;
}

void gpu_describe(Text *out, const Op *module, GpuMore *more, void *arg) {
    DeviceReport d = {out->ctx, out, more, arg};
    for_each_op(op, module->regions[0]) {
        if (op->code != OP_DEVICE) continue;
        text_add(out, "  %s: %" PRId64 " warps", op_str(op, A_NAME), op_int(op, A_WARPS, 1));
        if (op_int(op, A_CLUSTER, 1) > 1)
            text_add(out, " in each of %" PRId64 " CTAs", op_int(op, A_CLUSTER, 1));
        if (gpu_shares_copies(op)) text_add(out, ", two programs a cluster");
        if (op_int(op, A_STRIP_MINE, 0))
            text_add(out, ", rows in strips of %" PRId64 ": registers do not hold them",
                     op_int(op, A_STRIP_MINE, 0));
        if (op_str(op, A_PROGRAM_ORDER))
            text_add(out, ", programs in %s", op_str(op, A_PROGRAM_ORDER));
        text_add(out, "\n");
        op_walk_pre(op, describe_op, &d);
        describe_lines(&d, op, A_COPY_NOTES);
        if (op_str(op, A_ROLE_NOTE)) text_add(out, "    %s\n", op_str(op, A_ROLE_NOTE));
        describe_lines(&d, op, A_SYNC_NOTES);
    }
}
