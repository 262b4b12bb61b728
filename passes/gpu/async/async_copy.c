// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Decides which loads become copies from global to shared memory, by which engine, and into which
// buffer.
//
// Rows of a buffer lie as in the tensor, along the dimension of stride 1, in panels of 128, 64 or
// 32 bytes with the swizzle of that width. TMA writes these panels, and wgmma and ldmatrix read
// them, without bank conflicts. TMA clips at the tensor's extents but knows no counts. If a count
// may exclude more (attribute `clip`), the excluded elements are zeroed after the copy.
#include "passes/gpu/async/async.h"

enum { SWIZZLE_ROWS = 8 }; // the rows after which a swizzle repeats

/* ---- judging ------------------------------------------------------------------------------- */

static bool pad_is_zero(const Op *load) {
    const Attr *a = const_of(operand(load, 1));
    return a && (a->kind == AT_FLOAT ? a->f == 0 && !__builtin_signbit(a->f) : a->i == 0);
}

int contiguous_dim(const Type *tensor) {
    for (int d = tensor->rank - 1; d >= 0; d--)
        if (tensor->strides[d] == 1) return d;
    return -1;
}

/// Returns why the copies are not wider, or NULL.
static const char *against_wider(Async *s, const GpuWidth *w) {
    if (!w->wider) return NULL;
    return ctx_format(s->ctx, "%s %d bytes",
                      w->rows ? "its rows start anywhere, not at multiples of" : GPU_NOT_ALIGNED,
                      w->wider);
}

const char *reason_against_copy(Async *s, const Op *op, const Access *a, int least, GpuWidth *w) {
    const Type *t = a->tensor->type;
    int c = contiguous_dim(t);
    if (a->rank != 2) return "the block has not two axes";
    if (op->code == OP_STORE && op_flag(op, A_SYSTEM)) return "other ranks wait for its elements";
    if (a->pick_at >= 0 || a->mask) return "its coordinates are picked one by one";
    if (elem_info[t->elem].bits < 8 || t->elem == EL_BOOL)
        return "its elements are smaller than a byte";
    if (op->code == OP_LOAD && !pad_is_zero(op)) return "its padding is not 0";
    if (c < 0 || a->subs[c].kind != DIM_AXIS) return "its rows are not contiguous";
    *w = gpu_copy_width(op, a, c);
    if (w->bytes < least) return against_wider(s, w);
    if (a->tensor->def || a->tensor->region->parent != s->device) return "it is not a parameter";
    if (op->code == OP_LOAD && tree_stores(s->device, a->tensor))
        return "the program writes the tensor";
    const Op *loop = op_enclosing(op, OP_FOR); // copies may start some of its iterations early
    if (op->code == OP_LOAD && loop && tree_waits(loop)) return "its loop waits for signals";
    for (int d = 0; d < a->n_subs; d++)
        if (a->subs[d].kind == DIM_AXIS && a->subs[d].mul != 1) return "it skips elements";
    return NULL;
}

int unclipped(const Op *op, const Access *a) {
    const Attr *clip = op_ints(op, A_CLIP);
    int dims = 0;
    for (int d = 0; d < a->n_subs; d++)
        if (a->subs[d].kind == DIM_AXIS && !(clip && clip->ints[d])) dims |= 1 << d;
    return dims;
}

int gpu_panel_bytes(int64_t row_bytes, bool by_tma) {
    enum { WIDEST = 128 };
    int64_t padded = ceil_div(row_bytes, WIDEST) * WIDEST, least = by_tma ? 5 : 7;
    return row_bytes * (least + 1) >= padded * least ? WIDEST : shared_swizzle_for(row_bytes);
}

/* ---- pairs of programs --------------------------------------------------------------------- */

enum { PAIR_BUDGET = 1000 }; // maximum number of values to visit

static bool is_program_index(const Value *v) {
    while (def_of(v, OP_CAST)) v = operand(v->def, 0);
    const Op *of = v->region ? v->region->parent : NULL;
    return of && v->index == 0 &&
           (of->code == OP_DEVICE || (of->code == OP_FOR && op_flag(of, A_PROGRAM_LOOP)));
}

/// Whether v has the same value in both programs of a pair: it depends on the program's number only
/// through its half.
static bool same_in_pair(const Value *v, int *budget) {
    const Op *op = v->def;
    int64_t n;
    if (is_program_index(v) || --*budget < 0) return false;
    if (!op) {
        const Op *of = v->region->parent;
        if (of->code == OP_DEVICE) return true;
        return of->code == OP_FOR && v->index == 0 && same_in_pair(operand(of, 0), budget);
    }
    if (!op_has(op, PURE) || op->n_regions) return false;
    bool halves = op->code == OP_DIV && is_program_index(operand(op, 0));
    if (halves && const_int(operand(op, 1), &n) && n > 0 && n % GPU_PAIR == 0) return true;
    for (int i = 0; i < op->n_operands; i++)
        if (!same_in_pair(operand(op, i), budget)) return false;
    return true;
}

/// Whether both programs reach the op, equally often.
static bool comes_in_both(const Op *op) {
    for (op = op->parent->parent; op->code != OP_DEVICE; op = op->parent->parent) {
        if (op->code == OP_FOR && op_flag(op, A_PROGRAM_LOOP)) continue;
        int n = op->code == OP_FOR ? 2 : op->code == OP_IF ? 1 : 0;
        if (!n) return false;
        for (int i = 0; i < n; i++)
            if (!same_in_pair(operand(op, i), &(int){PAIR_BUDGET})) return false;
    }
    return true;
}

static bool is_shared_in_pair(const Async *s, const Op *load, const Access *a) {
    if (!op_flag(s->device, A_MULTICAST) || !comes_in_both(load)) return false;
    for (int d = 0; d < a->n_subs; d++)
        if (!same_in_pair(sub_operand(load, a, d, 0), &(int){PAIR_BUDGET})) return false;
    return true;
}

/// Halves a box if necessary, so that both programs copy the same number of boxes.
static bool halve_boxes(const Type *buf, const Type *tensor, const int64_t *axes, int c,
                        int64_t *box) {
    int64_t boxes = 1, rows = 0;
    int longest = -1;
    for (int d = 0; d < tensor->rank; d++) {
        if (axes[d] < 0) continue;
        boxes *= ceil_div(buf->extents[axes[d]], box[d]);
        if (d == c || box[d] <= rows) continue;
        rows = box[d];
        longest = d;
    }
    if (boxes % GPU_PAIR == 0) return true;
    if (longest < 0 || rows % (GPU_PAIR * SWIZZLE_ROWS)) return false;
    box[longest] /= GPU_PAIR;
    return true;
}

/* ---- TMA ----------------------------------------------------------------------------------- */

/// Fills in the tensor map. One box is a panel: `swizzle` bytes of at most 256 rows.
static void describe_tma(Async *s, const Access *a, const Type *buf, Staging *out) {
    const Type *t = a->tensor->type;
    int64_t box[MAX_RANK], axes[MAX_RANK];
    int c = contiguous_dim(t);
    for (int d = 0; d < t->rank; d++) {
        axes[d] = a->axis_of[d];
        int64_t extent = axes[d] < 0 ? 1 : a->subs[d].size;
        if (d == c) extent = buf->swizzle / (elem_info[t->elem].bits / 8);
        while (extent > MAX_BOX) extent /= 2;
        box[d] = extent;
    }
    out->tma = true;
    out->shared = out->shared && halve_boxes(buf, t, axes, c, box);
    out->desc = ty_desc(s->ir, t->elem, t->rank, box, buf->swizzle, c);
    out->axes = at_ints(s->ir, axes, t->rank);
}

/// Whether boxes of at most 256 rows tile the block. Along dimension c the boxes are panels.
static bool boxes_fit(const Access *a, int c) {
    for (int d = 0; d < a->n_subs; d++) {
        if (d == c || a->subs[d].kind != DIM_AXIS) continue;
        for (int64_t n = a->subs[d].size; n > MAX_BOX; n /= 2)
            if (n % 2) return false;
    }
    return a->n_subs <= TMA_RANK;
}

bool stage_load(Async *s, const Op *load, Staging *out, const char **why) {
    Access a = access_of(load);
    bool tma = gpu_has(s->target, GPU_TMA), any = gpu_has(s->target, GPU_CP_ASYNC);
    GpuWidth width;
    *why = reason_against_copy(s, load, &a, any ? GPU_COPY_LEAST : COPY_BYTES, &width);
    if (*why) return false;
    const Type *t = a.tensor->type;
    int c = contiguous_dim(t), inner = a.axis_of[c];
    tma = tma && width.bytes == COPY_BYTES && boxes_fit(&a, c);
    int swizzle = gpu_panel_bytes(a.extents[inner] * (elem_info[t->elem].bits / 8), tma);
    if (swizzle < 32 || a.extents[!inner] % 8 != 0) {
        *why = "its rows are not multiples of 32 bytes, or not by eights";
        return false;
    }
    *out = (Staging){.buf = ty_buf(s->ir, t->elem, 2, a.extents, swizzle, inner, 0),
                     .bytes = width.bytes,
                     .narrow = against_wider(s, &width)};
    if (tma) {
        out->shared = is_shared_in_pair(s, load, &a);
        describe_tma(s, &a, out->buf, out);
        out->pads = unclipped(load, &a);
    }
    return out->tma || any;
}

/* ---- starting ------------------------------------------------------------------------------ */

Value *desc_param(Async *s, Value *tensor, const Type *desc, Rounding round) {
    Op *dispatch = dispatch_of(s->module, s->device);
    if (!dispatch) ice(s->ctx, s->device->loc, "nothing dispatches %s", op_str(s->device, A_NAME));
    Region *body = s->device->regions[0];
    Value *given = operand(dispatch, tensor->index);
    for (int i = 1; i < body->n_args; i++) {
        Op *def = operand(dispatch, i)->def;
        if (body->args[i]->type == desc && def && operand(def, 0) == given &&
            round == op_rounding(def))
            return body->args[i];
    }
    Builder b = build_before(s->ir, dispatch);
    Op *op = build_op(&b, OP_DESC, 1, &given, 1, &desc, 0);
    op_set_rounding(s->ir, op, round);
    op_add_operand(s->ir, dispatch, result(op, 0));
    return region_add_arg(s->ir, body, desc, tensor->name);
}

/// Whether threads access a device argument that holds parameter `given` of the kernel.
static bool is_accessed(const Async *s, const Op *dispatch, const Value *given) {
    const Region *r = s->device->regions[0];
    for (int i = 1; i < dispatch->n_operands; i++) {
        if (operand(dispatch, i) != given) continue;
        for_each_use(u, r->args[i]) {
            if (op_is_access(u->user)) return true;
        }
    }
    return false;
}

const char *other_name(const Async *s, const Value *tensor) {
    const Op *dispatch = dispatch_of(s->module, s->device);
    const Op *kernel = dispatch ? op_enclosing(dispatch, OP_KERNEL) : NULL;
    const Attr *pairs = kernel ? op_ints(kernel, A_IN_PLACE) : NULL;
    for (int i = 0; pairs && i < pairs->n; i++) {
        Value *const *args = kernel->regions[0]->args;
        bool own = operand(dispatch, tensor->index) == args[pairs->ints[i]];
        const Value *other = args[pairs->ints[i ^ 1]];
        if (own && is_accessed(s, dispatch, other)) return other->name ? other->name : "another";
    }
    return NULL;
}

/// All products of f32 on matrix units are tf32, so TMA rounds f32 to it.
static Value *start_tma(Async *s, Builder *b, Op *load, const Staging *how, Value *buf) {
    Access a = access_of(load);
    Rounding round = buf->type->elem == EL_F32 ? ROUNDING_TF32 : ROUNDING_ABSENT;
    Value *operands[2 + MAX_RANK] = {desc_param(s, a.tensor, how->desc, round), buf};
    for (int d = 0; d < a.n_subs; d++) operands[2 + d] = sub_operand(load, &a, d, 0);
    const Type *token = ty_pending(s->ir, NULL);
    Op *op = build_op(b, OP_COPY_TMA, 2 + a.n_subs, operands, 1, &token, 0);
    op_set_ints(s->ir, op, A_AXES, how->axes->ints, how->axes->n);
    if (how->shared) op_set_flag(s->ir, op, A_MULTICAST, true);
    return result(op, 0);
}

/// copy_async takes the load's operands, with the buffer instead of the pad.
static Value *start_plain(Async *s, Builder *b, Op *load, const Staging *how, Value *buf) {
    static const AttrId kept[] = {ATTR_SUBS, ATTR_IN_BOUNDS, ATTR_CACHE};
    Value **operands = ctx_array(s->ctx, Value *, load->n_operands);
    for (int i = 0; i < load->n_operands; i++) operands[i] = i == 1 ? buf : operand(load, i);
    const Type *token = ty_pending(s->ir, NULL);
    Op *op = build_op(b, OP_COPY_ASYNC, load->n_operands, operands, 1, &token, 0);
    if (how->bytes < COPY_BYTES) op_set_int(s->ir, op, A_COPY_BYTES, how->bytes);
    for (size_t i = 0; i < sizeof kept / sizeof *kept; i++) op_copy_attr(s->ir, op, load, kept[i]);
    return result(op, 0);
}

void pad_copy(Async *s, Builder *b, Op *load, const Staging *how, Value *buf) {
    Access a = access_of(load);
    for (int d = 0; d < a.n_subs; d++) {
        if (!(how->pads >> d & 1)) continue;
        Value *in[] = {buf, sub_operand(load, &a, d, 1)};
        Op *op = build_op(b, OP_BUF_PAD, 2, in, 0, NULL, 0);
        op_set_int(s->ir, op, A_AXIS, a.axis_of[d]);
    }
}

Value *start_copy(Async *s, Builder *b, Op *load, const Staging *how, Value *buf) {
    return how->tma ? start_tma(s, b, load, how, buf) : start_plain(s, b, load, how, buf);
}
