// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// gpu-verify: checks the invariants that lowering relies on. Every block of a device has a layout
// over the threads of the CTA, and the layouts of operands and results agree.
#include "lang/diag.h"
#include "passes/gpu/layouts.h"
#include "passes/passes.h"
#include "passes/util.h"

#include <string.h>

typedef struct LayoutCheck {
    Layouts s; // for operand layouts
    int thread_bits;
} LayoutCheck;

static void fail_ir_check(LayoutCheck *c, const Op *op, const char *found, const char *expected) {
    diag(c->s.ctx, op->loc, D_IR_INVALID, op_info[op->code].name, expected, found);
}

static const char *text_of_type(LayoutCheck *c, const Type *t) {
    Text text = {.ctx = c->s.ctx};
    ir_print_type(&text, t);
    return text.data;
}

static bool is_wide(const Value *v) {
    return ty_is_block(v->type) && v->type->rank;
}

/// Returns false if the value has no valid layout.
static bool check_value(LayoutCheck *c, const Op *op, const Value *v) {
    if (!is_wide(v)) return true;
    const Layout *l = v->type->layout;
    bool ok = l && layout_thread_bits(l) == c->thread_bits;
    if (!ok)
        fail_ir_check(c, op, text_of_type(c, v->type),
                      "blocks in layouts over the threads of the device");
    return ok;
}

static void want_layout(LayoutCheck *c, const Op *op, const Value *v, const Layout *l) {
    if (!is_wide(v) || v->type->layout == l) return;
    fail_ir_check(c, op, text_of_type(c, v->type),
                  ctx_format(c->s.ctx, "an operand in the layout %s",
                             text_of_type(c, ty_laid(c->s.ir, v->type->elem, l))));
}

static bool is_outside_device_ir(OpCode code) {
    switch (code) {
    case OP_COMBINE:
    case OP_CALL:
    case OP_PARALLEL:
    case OP_LAUNCH:
    case OP_CONTRACT: return true;
    default: return false;
    }
}

/// Checks that registers of the operand cover the whole result.
static void check_broadcast(LayoutCheck *c, const Op *op) {
    const Layout *from = operand(op, 0)->type->layout, *to = result(op, 0)->type->layout;
    if (!from) return;
    int64_t *reg = ctx_array(c->s.ctx, int64_t, layout_registers(to));
    if (!layout_registers_from(from, to, NULL, reg))
        fail_ir_check(c, op, text_of_type(c, operand(op, 0)->type),
                      "an operand that holds what each thread needs");
}

static void check_dot(LayoutCheck *c, const Op *op) {
    const Layout *d = result(op, 0)->type->layout;
    if (op->n_operands > 2) want_layout(c, op, operand(op, 2), d);
    const GpuUnit *unit = gpu_unit_of(op);
    if (!unit) return;
    DotLayouts l = dot_layouts(&c->s, op);
    static const FragmentRole roles[] = {FRAG_A, FRAG_B, FRAG_D};
    const Layout *found[] = {operand(op, 0)->type->layout, operand(op, 1)->type->layout, d};
    const Layout *tiled[] = {l.a, l.b, l.d};
    for (int i = 0; i < 3; i++)
        if (tiled[i] && !fragment_divides(gpu_fragment(c->s.ctx, unit, roles[i]), found[i], NULL))
            fail_ir_check(c, op,
                          text_of_type(c, i < 2 ? operand(op, i)->type : result(op, 0)->type),
                          "tiles of the unit's fragments");
}

static void check_access_layout(LayoutCheck *c, const Op *op) {
    const Layout *l =
        op->code == OP_STORE ? operand(op, 1)->type->layout : result(op, 0)->type->layout;
    for (int i = 1; l && i < op->n_operands; i++)
        if (is_wide(operand(op, i)))
            want_layout(c, op, operand(op, i), operand_layout(&c->s, op, i, l));
}

static void check_loop(LayoutCheck *c, const Op *op) {
    int body = op->code == OP_WHILE;
    for (int i = 0; i < op->n_results; i++) {
        const Layout *l = result(op, i)->type->layout;
        want_layout(c, op, operand(op, loop_first_init(op) + i), l);
        for (int r = 0; r <= body; r++) want_layout(c, op, loop_arg(op, r, i), l);
        want_layout(c, op, operand(terminator(op->regions[body]), i), l);
    }
}

/// Checks ops whose operands and results share one layout.
static void check_alike(LayoutCheck *c, const Op *op, const Layout *l) {
    for (int i = 0; i < op->n_operands; i++) want_layout(c, op, operand(op, i), l);
}

static void check_layouts(LayoutCheck *c, const Op *op) {
    const Layout *first = op->n_operands ? operand(op, 0)->type->layout : NULL;
    const Layout *l = op->n_results ? result(op, 0)->type->layout : NULL;
    switch (op->code) {
    case OP_FOR:
    case OP_WHILE: check_loop(c, op); return;
    case OP_IF:
        for (int i = 0; i < op->n_results; i++)
            for (int r = 0; r < 2; r++)
                want_layout(c, op, operand(terminator(op->regions[r]), i),
                            result(op, i)->type->layout);
        return;
    case OP_LOAD:
    case OP_LIVE:
    case OP_STORE:
    case OP_ATOMIC: check_access_layout(c, op); return;
    case OP_DOT: check_dot(c, op); return;
    case OP_BROADCAST: check_broadcast(c, op); return;
    case OP_PERMUTE: want_layout(c, op, operand(op, 0), operand_layout(&c->s, op, 0, l)); return;
    case OP_REDUCE:
        check_alike(c, op, first);
        for (int i = 0; i < op->n_results; i++)
            if (l)
                want_layout(c, op, result(op, i),
                            layout_slice(c->s.ctx, first, (int)op_int(op, A_AXIS, 0), false));
        return;
    case OP_SCAN:
    case OP_SORT:
        check_alike(c, op, first);
        want_layout(c, op, result(op, 0), first);
        return;
    case OP_GATHER: want_layout(c, op, operand(op, 1), l); return;
    case OP_CAST:
    case OP_RENEW:
    case OP_BITCAST:
    case OP_SELECT: check_alike(c, op, l); return;
    default:
        if (op_has(op, ELEMENTWISE)) check_alike(c, op, l);
    }
}

static void check_region(LayoutCheck *c, const Region *r) {
    for_each_op(op, r) {
        bool sound = true;
        if (is_outside_device_ir(op->code))
            fail_ir_check(c, op, op_info[op->code].name, "no such op in a device");
        for (int i = 0; i < op->n_results; i++) sound &= check_value(c, op, result(op, i));
        for (int i = 0; i < op->n_operands; i++) sound &= check_value(c, op, operand(op, i));
        if (sound) check_layouts(c, op);
        if (op_has(op, PURE)) continue; // their regions compute scalars
        for (int i = 0; i < op->n_regions; i++) check_region(c, op->regions[i]);
    }
}

/// Checks that elements stay within a CTA. Blocks must have layouts.
static void check_crossing(LayoutCheck *c, const Op *device) {
    const Op *op = diag_errors(c->s.ctx) ? NULL : find_crossing(c->s.ctx, device);
    if (op) fail_ir_check(c, op, op_info[op->code].name, "no elements that go from CTA to CTA");
}

/// Checks that host code reads no tensor: it cannot reach the GPU's memory.
static void check_host(Op *op, void *arg) {
    LayoutCheck *c = arg;
    if (op_is_load(op) && !op_enclosing(op, OP_DEVICE))
        fail_ir_check(c, op, op_info[op->code].name, "no elements that host code reads");
}

void pass_gpu_verify(PassEnv *env, Op *module) {
    if (!env->gpu) return;
    LayoutCheck host = {.s = {.env = env, .ir = env->ir, .ctx = ir_ctx(env->ir)}};
    for_each_kernel(k, module) op_walk_pre(k, check_host, &host);
    for_each_op(op, module->regions[0]) {
        int64_t warps = op_int(op, A_WARPS, 1), cluster = op_int(op, A_CLUSTER, 1);
        if (op->code != OP_DEVICE) continue;
        LayoutCheck *c = ctx_new(ir_ctx(env->ir), LayoutCheck);
        c->s = (Layouts){.env = env,
                         .ir = env->ir,
                         .ctx = ir_ctx(env->ir),
                         .device = op,
                         .lane_bits = gpu_lane_bits(env->gpu),
                         .warp_bits = __builtin_ctzll((Bits)warps),
                         .cta_bits = __builtin_ctzll((Bits)cluster)};
        c->thread_bits = c->s.lane_bits + c->s.warp_bits + c->s.cta_bits;
        check_region(c, op->regions[0]);
        if (cluster > 1) check_crossing(c, op);
    }
}
