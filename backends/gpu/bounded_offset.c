// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Accesses by a 32-bit offset that hardware checks against a bound.
//
// If all elements of a tensor are near its first one (Type.near), the offset of a live element has
// 31 bits. An element that is not live gets the offset FAR. It exceeds all bounds, as does every
// saturating sum with it. The offset has two parts. One covers the dimensions along which the
// surrounding loop does not move, and is the same in every iteration. The other covers the
// remaining dimensions and the position of the block. Each part is FAR if the element is not live
// along the part's dimensions.
#include "backends/gpu/access.h"

#define FAR INT32_MIN

/// Returns the innermost loop around op.
static const Op *loop_around(const Op *op) {
    for (const Op *o = op->parent->parent; o; o = o->parent ? o->parent->parent : NULL)
        if (o->code == OP_FOR || o->code == OP_WHILE) return o;
    return NULL;
}

static void count_product(Op *op, void *arg) {
    *(int *)arg += op->code == OP_DOT;
}

/// Offsets stay in registers through a loop, in competition with the sums and operands of many
/// products.
static bool is_crowded(const GpuAccess *p) {
    enum { MANY = 3, FEW_REGISTERS = 256 };
    Op *loop = (Op *)(uintptr_t)loop_around(p->op);
    int products = 0;
    if (!loop || p->f->target->registers_thread > FEW_REGISTERS) return false;
    op_walk_pre(loop, count_product, &products);
    return products >= MANY;
}

bool gpu_access_is_near(const GpuAccess *p) {
    const Type *t = p->tensor->value->type;
    return t->near && p->layout && elem_info[p->elem].bits >= 8 &&
           gpu_has(p->f->target, GPU_BUFFERS) && !is_crowded(p);
}

/// Returns an i32: the bytes from the tensor's first byte to the end of its last element. For an
/// empty tensor it is the size of one element; nothing is live then.
static LLVMValueRef tensor_span_bytes(GpuFn *f, const GpuTensor *t) {
    LLVMValueRef *known = &((GpuTensor *)(uintptr_t)t)->bytes;
    if (*known) return *known;
    GpuPlace back = gpu_to_head(f);
    Gen *g = f->g;
    LLVMValueRef last = gpu_i32(f, 0), zero = gpu_i32(f, 0);
    for (int d = 0; d < t->value->type->rank; d++) {
        LLVMValueRef more = LLVMBuildTrunc(g->b, t->dims[d], g->i32, "");
        LLVMValueRef args[] = {LLVMBuildSub(g->b, more, gpu_i32(f, 1), ""), zero};
        more = gen_elementwise(g, OP_MAX, EL_I32, args);
        last = gen_add(g, last, gen_mul(g, more, LLVMBuildTrunc(g->b, t->strides[d], g->i32, "")));
    }
    last = gen_add(g, last, gpu_i32(f, 1));
    *known = gen_mul(g, last, gpu_i32(f, elem_bytes(t->value->type->elem)));
    gpu_from_head(f, back);
    return *known;
}

static void see_loop(Op *op, void *arg) {
    *(bool *)arg |= op->code == OP_FOR || op->code == OP_WHILE;
}

static bool has_loops(GpuFn *f) {
    if (!f->looked) op_walk_pre((Op *)(uintptr_t)f->device, see_loop, &f->has_loops);
    f->looked = true;
    return f->has_loops;
}

/// For accesses before or after the loops of a function, a computed bound would occupy a register
/// during the loops. They use INT32_MAX as the bound: live elements are near, and all others are
/// FAR.
static bool is_beside_loops(const GpuAccess *p) {
    return has_loops(p->f) && !loop_around(p->op);
}

LLVMValueRef gpu_access_bound(const GpuAccess *p) {
    return is_beside_loops(p) ? gpu_i32(p->f, INT32_MAX) : tensor_span_bytes(p->f, p->tensor);
}

/// Whether dimension d has the same position and bounds in each iteration.
static bool is_still(const GpuAccess *p, const Op *loop, int d) {
    if (!loop) return true;
    if (p->a.subs[d].kind != DIM_AXIS) return false;
    return !value_is_inside(sub_operand(p->op, &p->a, d, 0), loop) &&
           !value_is_inside(sub_operand(p->op, &p->a, d, 1), loop);
}

/// Whether a position may be negative or depends on the lane. Then one of the offset's two parts
/// may be negative although their sum is not.
static bool is_mixed(const GpuAccess *p) {
    for (int d = 0; d < p->a.n_subs; d++)
        if (p->a.subs[d].kind == DIM_PICK || p->dims[d].lo) return true;
    return false;
}

static LLVMValueRef if_live(const GpuAccess *p, LLVMValueRef live, LLVMValueRef offset) {
    const Gen *g = p->f->g;
    if (LLVMTypeOf(offset) != g->i32) offset = LLVMBuildTrunc(g->b, offset, g->i32, "");
    return live ? LLVMBuildSelect(g->b, live, offset, gpu_i32(p->f, FAR), "") : offset;
}

enum { MOST_BESIDE = 1 << 20, MOST_BYTES = 16 };

/// Whether the tensor is one row, and no count is below its extent (passes/gpu/clip.c). Then the
/// hardware's bound is the only test. Only accesses of the maximum width qualify: LLVM joins
/// shorter ones to their neighbours, and a joined access might cross the bound.
static bool is_bounded_by_extent(const GpuAccess *p, int bytes) {
    const Type *t = p->tensor->value->type;
    const SubDim *s = &p->a.subs[0];
    const Attr *clip = op_ints(p->op, A_CLIP);
    if (bytes < MOST_BYTES || t->rank != 1 || t->strides[0] != 1 || s->kind != DIM_AXIS)
        return false;
    bool holes = layout_box(p->layout, p->a.axis_of[0]) > s->size;
    return clip && clip->ints[0] && !holes && !is_beside_loops(p) &&
           s->size * s->mul * p->unit <= MOST_BESIDE;
}

/// Returns the position, or FAR if it is larger. The terms added to it are small.
static LLVMValueRef clamp_position(const GpuAccess *p) {
    const Gen *g = p->f->g;
    LLVMValueRef far = gen_i64(g, (int64_t)(uint32_t)FAR);
    LLVMValueRef below = LLVMBuildICmp(g->b, LLVMIntULT, p->uniform, far, "");
    return LLVMBuildSelect(g->b, below, p->uniform, far, "");
}

void gpu_access_near(GpuAccess *p, int64_t reg, int bytes, LLVMValueRef owner,
                     LLVMValueRef part[2]) {
    const Gen *g = p->f->g;
    const Op *loop = loop_around(p->op);
    Bits still = 0;
    bool bounded = !is_mixed(p) && is_bounded_by_extent(p, bytes);
    if (bounded || is_mixed(p)) {
        LLVMValueRef live = gpu_access_live_besides(p, reg, bounded ? bit(0) : 0);
        LLVMValueRef at = bounded
                              ? gen_add(g, clamp_position(p), gpu_access_offset_along(p, reg, 1))
                              : gpu_access_offset(p, reg);
        part[0] = if_live(p, gen_and(g, live, owner), at);
        part[1] = gpu_i32(p->f, 0);
        return;
    }
    for (int d = 0; d < p->a.n_subs; d++)
        if (is_still(p, loop, d)) still |= bit(d);
    LLVMValueRef moving = gen_add(g, p->uniform, gpu_access_offset_along(p, reg, ~still));
    part[0] = if_live(p, gen_and(g, gpu_access_live_along(p, reg, still), owner),
                      gpu_access_offset_along(p, reg, still));
    part[1] = if_live(p, gpu_access_live_besides(p, reg, still), moving);
}
