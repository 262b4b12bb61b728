// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Binds the arguments of a launch: checks them against the parameters, settles type parameters, and
// merges packs.
//
// Tensors come first, since they settle type parameters. Scalars are then converted to their types.
#include "runtime/base/param_set.h"
#include "runtime/base/view_overlap.h"
#include "runtime/comm/comm.h"
#include "runtime/runtime.h"

#include <inttypes.h>
#include <string.h>

/// The binding of one launch.
typedef struct Bind {
    rt_launcher *l;
    const tg_kernel_info *info;
    const tg_arg *args;
    int16_t settled_by[TG_MAX_TYPES]; // the parameter that settled each type parameter
    int on_device;                    // the parameter that settled the device, or -1
    bool partial;                     // tensors may be missing
} Bind;

/// Checks the rank. A tensor's shape is not read before this check has passed.
static bool has_valid_rank(const DLTensor *t) {
    return t->ndim >= 0 && t->ndim <= TG_MAX_RANK;
}

/// Appends the subject of a message, "softmax: argument 2 'y' is f16[3, 4]". The caller appends the
/// rest.
static void add_subject(rt_text *t, const Bind *b, int i) {
    rt_add(t, "%s: argument %d '%s'", b->info->name, i + 1, b->info->params[i].name);
    if (b->args[i].kind != TG_ARG_TENSOR || !b->args[i].as.tensor) return;
    if (!has_valid_rank(b->args[i].as.tensor)) return;
    rt_add(t, " is ");
    rt_add_tensor(t, b->args[i].as.tensor);
}

static tg_status fail_argument(const Bind *b, int i, tg_status status, const char *text) {
    rt_text t = {.n = 0};
    add_subject(&t, b, i);
    return tg_fail(status, "%s%s", t.data, text);
}

/* ---- types --------------------------------------------------------------------------------- */

static tg_status wrong_type(const Bind *b, int i) {
    const tg_param_info *p = &b->info->params[i];
    rt_text t = {.n = 0};
    add_subject(&t, b, i);
    if (p->bits) {
        rt_add(&t, "; it must be ");
        rt_add_type(&t, p->code, p->bits);
    } else {
        uint16_t type = b->l->types[p->type];
        rt_add(&t, "; '%s' made ", b->info->params[b->settled_by[p->type]].name);
        rt_add_generic(&t, b->info, p->type);
        rt_add(&t, " ");
        rt_add_type(&t, type >> 8, type & 255);
    }
    return tg_fail(TG_ERROR_ARGUMENT, "%s", t.data);
}

/// Whether the language has the type. A table holds the sizes of each kind as bits of a mask.
static bool is_element_type(DLDataType type) {
    static const uint8_t bits[] = {
        [kDLInt] = 4 | 8 | 16 | 32 | 64,
        [kDLUInt] = 4 | 8 | 16 | 32 | 64,
        [kDLBool] = 8,
        [kDLFloat] = 16 | 32 | 64,
        [kDLBfloat] = 16,
        [kDLFloat8_e4m3fn] = 8,
        [kDLFloat8_e5m2] = 8,
    };
    bool one = type.bits && !(type.bits & (type.bits - 1));
    return type.code < sizeof bits && one && bits[type.code] & type.bits;
}

/// The first tensor with a type parameter settles it.
static tg_status bind_type(Bind *b, int i, rt_actual *a, DLDataType type) {
    const tg_param_info *p = &b->info->params[i];
    a->code = type.code;
    a->bits = type.bits;
    if (type.lanes != 1)
        return fail_argument(b, i, TG_ERROR_ARGUMENT, "; vectors are not element types");
    if (p->bits) return type.code == p->code && type.bits == p->bits ? TG_OK : wrong_type(b, i);
    if (!is_element_type(type))
        return fail_argument(b, i, TG_ERROR_ARGUMENT, "; this is not an element type");
    uint16_t *known = &b->l->types[p->type], found = (uint16_t)(type.code << 8 | type.bits);
    if (!*known) {
        *known = found;
        b->settled_by[p->type] = (int16_t)i;
    }
    return *known == found ? TG_OK : wrong_type(b, i);
}

/* ---- tensors ------------------------------------------------------------------------------- */

static int is_symmetric_param(const tg_param_info *p) {
    return (p->flags & TG_PARAM_SYM) != 0;
}

static tg_status wrong_rank(const Bind *b, int i) {
    const tg_param_info *p = &b->info->params[i];
    rt_text t = {.n = 0};
    add_subject(&t, b, i);
    int rank = b->args[i].as.tensor->ndim;
    if (rank < 0 || rank > TG_MAX_RANK - is_symmetric_param(p))
        rt_add(&t, " has %d dims; 0 to %d are supported", rank,
               TG_MAX_RANK - is_symmetric_param(p));
    else
        rt_add(&t, ": it has %d dim%s and must have %s%d", rank, rank == 1 ? "" : "s",
               p->pack_at < 0 ? "" : "at least ", p->rank - is_symmetric_param(p));
    if (is_symmetric_param(p)) rt_add(&t, ", as it is the own shard of all ranks'");
    return tg_fail(TG_ERROR_ARGUMENT, "%s", t.data);
}

static bool is_empty_tensor(const rt_actual *a) {
    for (int i = 0; i < a->rank; i++)
        if (a->shape[i] == 0) return true;
    return false;
}

/// The strides of an empty tensor are ignored, and its extents may have any size.
static bool dense_strides(rt_actual *a) {
    int64_t stride = 1;
    bool empty = is_empty_tensor(a);
    for (int i = a->rank - 1; i >= 0; i--) {
        a->dense[i] = stride;
        if (!empty && __builtin_mul_overflow(stride, a->shape[i], &stride)) return false;
    }
    a->strides = a->dense;
    return true;
}

/// Computes the bytes from the lowest element to the end of the highest one; from == to for an
/// empty tensor. With strides of 0, the number of elements must still be countable.
static bool find_byte_span(rt_actual *a) {
    int64_t first = 0, last = 0, count = 1, way;
    a->from = a->to = (uintptr_t)a->data;
    if (is_empty_tensor(a)) return true;
    for (int i = 0; i < a->rank; i++) {
        int64_t *end = a->strides[i] < 0 ? &first : &last;
        if (__builtin_mul_overflow(count, a->shape[i], &count) ||
            __builtin_mul_overflow(a->shape[i] - 1, a->strides[i], &way) ||
            __builtin_add_overflow(*end, way, end))
            return false;
    }
    // Two 4-bit elements share a byte; the shift rounds down.
    int64_t bits = a->bits;
    if (__builtin_mul_overflow(first, bits, &first) || last > INT64_MAX / bits - 2) return false;
    a->from += (uintptr_t)(first >> 3);
    a->to += (uintptr_t)(((last + 1) * bits + 7) >> 3);
    return true;
}

static tg_status check_extents(const Bind *b, int i, const rt_actual *a) {
    for (int d = 0; d < a->rank; d++)
        if (a->shape[d] < 0)
            return fail_argument(b, i, TG_ERROR_ARGUMENT, ": an extent is negative");
    return TG_OK;
}

/// A view of the caller's argument. For a symmetric tensor it is the own shard.
static rt_view own_view(const rt_actual *a, int symmetric) {
    return (rt_view){a->own, a->given_shape + symmetric, a->given_strides + symmetric,
                     a->given_rank - symmetric, a->bits};
}

/// Checks that no two positions of a written tensor are the same element.
static tg_status check_written_arg(const Bind *b, int i, const rt_actual *a) {
    if (!(b->info->params[i].flags & TG_PARAM_WRITTEN)) return TG_OK;
    rt_view view = own_view(a, 0);
    rt_meeting itself = rt_view_meets_itself(&view);
    if (itself == RT_APART) return TG_OK;
    for (int d = 0; d < a->rank; d++) {
        if (a->strides[d] == 0 && a->shape[d] > 1)
            return fail_argument(b, i, TG_ERROR_CONTRACT,
                                 ": it is written, so no stride over several elements may be 0");
    }
    return fail_argument(
        b, i, TG_ERROR_CONTRACT,
        itself == RT_MEET ? ": it is written, and its strides put several positions on one element"
                          : ": it is written, and its strides are too intricate to see that no two "
                            "positions are one element");
}

static tg_status bind_tensor_view(Bind *b, int i, rt_actual *a) {
    const DLTensor *t = a->tensor;
    if (t->ndim && !t->shape) return fail_argument(b, i, TG_ERROR_ARGUMENT, ": its shape is NULL");
    a->rank = t->ndim;
    a->shape = t->ndim ? t->shape : a->dense;
    a->strides = t->ndim && t->strides ? t->strides : a->dense;
    if (!t->strides && !dense_strides(a))
        return fail_argument(b, i, TG_ERROR_ARGUMENT, ": it is larger than memory");
    a->given_rank = a->rank;
    a->given_shape = a->shape;
    a->given_strides = a->strides;
    a->groups = 1;
    tg_status status = check_extents(b, i, a);
    if (status) return status;
    a->own = a->data = t->data ? (char *)t->data + t->byte_offset : NULL;
    if (!find_byte_span(a))
        return fail_argument(b, i, TG_ERROR_ARGUMENT, ": it is larger than memory");
    if (!a->data && a->from != a->to)
        return fail_argument(b, i, TG_ERROR_ARGUMENT, ": its data is NULL");
    return check_written_arg(b, i, a);
}

/// Replaces the own shard by the direct view of all ranks (docs/inside/communication.md), which has
/// one more leading dimension. The tensor spans the bytes of the own shard, since all ranks pass
/// the same view.
static tg_status bind_ranks(Bind *b, int i, rt_actual *a) {
    const tg_comm *c = b->l->context->comm;
    rt_shard shard;
    if (!c)
        return fail_argument(
            b, i, TG_ERROR_CONTRACT,
            " and the parameter is symmetric (sym): this context is not a rank; "
            "tg_comm_create and tg_context_set_comm make it one, `tegula run --ranks N` "
            "starts several");
    if (!rt_sym_find(c, a->own, &shard))
        return fail_argument(
            b, i, TG_ERROR_ARGUMENT,
            " and is not in symmetric memory of this context's ranks: tg_sym_alloc "
            "makes such tensors");
    if (a->from != a->to && (a->from < (uintptr_t)a->own - (uintptr_t)shard.before ||
                             a->to > (uintptr_t)a->own + (uintptr_t)shard.left))
        return fail_argument(b, i, TG_ERROR_ARGUMENT, " and leaves its symmetric tensor");
    a->data = shard.direct;
    a->symmetric[0][0] = c->size;
    a->symmetric[1][0] = shard.lead * 8 / a->bits;
    if (a->rank) {
        memcpy(&a->symmetric[0][1], a->shape, sizeof *a->shape * (size_t)a->rank);
        memcpy(&a->symmetric[1][1], a->strides, sizeof *a->strides * (size_t)a->rank);
    }
    a->given_rank = ++a->rank;
    a->given_shape = a->shape = a->symmetric[0];
    a->given_strides = a->strides = a->symmetric[1];
    return TG_OK;
}

static void add_device(rt_text *t, int device) {
    if (device < 0)
        rt_add(t, "the CPU");
    else
        rt_add(t, "GPU %d", device);
}

/// Checks that all tensors of a launch are on one device. Host memory from the driver counts as
/// being on any device.
static tg_status bind_device(Bind *b, int i, DLDevice at) {
    if (at.device_type == kDLCUDAHost || at.device_type == kDLROCMHost) return TG_OK;
    bool amd = at.device_type == kDLROCM;
    bool gpu = amd || at.device_type == kDLCUDA || at.device_type == kDLCUDAManaged;
    if (!gpu && at.device_type != kDLCPU)
        return fail_argument(
            b, i, TG_ERROR_ARGUMENT,
            " of a kind of device that is not supported: kDLCPU, kDLCUDA and kDLROCM "
            "are");
    const rt_cuda *cu = gpu ? rt_cuda_driver() : NULL;
    if (cu && cu->maker->hip != amd)
        return fail_argument(b, i, TG_ERROR_ARGUMENT,
                             amd ? " of an AMD GPU, and this process uses NVIDIA's (TG_GPUS)"
                                 : " of an NVIDIA GPU, and this process uses AMD's (TG_GPUS)");
    int device = gpu ? at.device_id : -1;
    if (b->on_device < 0) {
        b->on_device = i;
        b->l->device = device;
    }
    if (b->l->device == device) return TG_OK;
    rt_text t = {.n = 0};
    add_subject(&t, b, i);
    rt_add(&t, " on ");
    add_device(&t, device);
    rt_add(&t, "; '%s' is on ", b->info->params[b->on_device].name);
    add_device(&t, b->l->device);
    return tg_fail(TG_ERROR_ARGUMENT, "%s: all tensors of a launch must be on one device", t.data);
}

static tg_status bind_tensor_arg(Bind *b, int i) {
    const tg_param_info *p = &b->info->params[i];
    rt_actual *a = &b->l->actuals[i];
    const DLTensor *t = b->args[i].as.tensor;
    if (b->args[i].kind != TG_ARG_TENSOR)
        return fail_argument(b, i, TG_ERROR_ARGUMENT, " is a number; it must be a tensor");
    a->tensor = t;
    a->null = !t;
    a->value = 0;
    if (!t)
        return p->flags & TG_PARAM_OPTIONAL || b->partial
                   ? TG_OK
                   : fail_argument(b, i, TG_ERROR_ARGUMENT,
                                   " is not optional; it must be a tensor");
    int rank = p->rank - is_symmetric_param(p); // of the caller's tensor
    if (!has_valid_rank(t) || t->ndim > TG_MAX_RANK - is_symmetric_param(p) ||
        (p->pack_at < 0 ? t->ndim != rank : t->ndim < rank))
        return wrong_rank(b, i);
    tg_status status = bind_device(b, i, t->device);
    if (!status) status = bind_type(b, i, a, t->dtype);
    if (!status) status = bind_tensor_view(b, i, a);
    return status || !is_symmetric_param(p) ? status : bind_ranks(b, i, a);
}

/* ---- packs --------------------------------------------------------------------------------- */

/// The tensors that share a pack `..N`. `first` is the lowest dimension of the pack.
typedef struct AxisPack {
    rt_param_set members;
    int first, given; // axes that each argument has for the pack
    int groups, from[TG_MAX_RANK + 1];
} AxisPack;

static int pack_axes(const Bind *b, int i) {
    return b->l->actuals[i].given_rank - b->info->params[i].rank;
}

/// Whether one stride can walk the axes x and y > x of each tensor. All axes in between have extent
/// 1.
static bool axes_lie_as_one(const Bind *b, const AxisPack *pack, int x, int y) {
    for (int i = pack->first; i < b->info->n_params; i++) {
        if (!rt_set_has(&pack->members, i)) continue;
        const rt_actual *a = &b->l->actuals[i];
        int at = b->info->params[i].pack_at;
        int64_t step;
        if (__builtin_mul_overflow(a->strides[at + y], a->shape[at + y], &step)) return false;
        if (a->strides[at + x] != step) return false;
    }
    return true;
}

/// Cuts the axes into as few groups as possible. Axes of extent 1 join any group. Without axes, or
/// if all have extent 1, there is one group. group_pack in frontend/elab/elab_param.c has the same
/// rule for the compiler.
static void group_axes(const Bind *b, AxisPack *pack) {
    const rt_actual *a = &b->l->actuals[pack->first];
    int at = b->info->params[pack->first].pack_at, last = -1;
    bool empty = false;
    for (int i = 0; i < pack->given; i++) empty |= a->shape[at + i] == 0;
    pack->groups = 1;
    pack->from[0] = 0;
    for (int i = 0; i < pack->given; i++) {
        if (a->shape[at + i] == 1) continue;
        bool joins = empty || last < 0 || axes_lie_as_one(b, pack, last, i);
        if (!joins && i > 0) pack->from[pack->groups++] = i;
        last = i;
    }
    pack->from[pack->groups] = pack->given;
}

/// Merges the axes from .. to of the argument into the next axis of the merged tensor. Returns
/// false if the positions cannot be counted, which is possible for an empty tensor.
static bool join_pack_axes(rt_actual *a, int from, int to, int axis) {
    int64_t extent = 1, stride = 1;
    bool fits = true, none = false;
    for (int i = to - 1; i >= from; i--) {
        if (extent == 1) stride = a->strides[i];
        none |= a->shape[i] == 0;
        fits &= !__builtin_mul_overflow(extent, a->shape[i], &extent);
    }
    a->merged[0][axis] = none ? 0 : extent;
    a->merged[1][axis] = stride;
    return fits || none;
}

/// Refuses a tensor of rank 8 with a pack of no axes: its merged rank would be 9.
static tg_status merge_pack(const Bind *b, const AxisPack *pack, int i) {
    rt_actual *a = &b->l->actuals[i];
    int at = b->info->params[i].pack_at, rank = 0, given = a->rank;
    if (given - pack->given + pack->groups > TG_MAX_RANK)
        return fail_argument(b, i, TG_ERROR_ARGUMENT, ": too many dims");
    for (int d = 0; d < at; d++) join_pack_axes(a, d, d + 1, rank++);
    for (int g = 0; g < pack->groups; g++)
        if (!join_pack_axes(a, at + pack->from[g], at + pack->from[g + 1], rank++))
            return fail_argument(b, i, TG_ERROR_ARGUMENT,
                                 ": the positions of its pack are more than can be counted");
    for (int d = at + pack->given; d < given; d++) join_pack_axes(a, d, d + 1, rank++);
    a->rank = rank;
    a->groups = pack->groups;
    a->shape = a->merged[0];
    a->strides = a->merged[1];
    return TG_OK;
}

static tg_status packs_differ(const Bind *b, int i, int j) {
    rt_text t = {.n = 0};
    add_subject(&t, b, j);
    rt_add(&t, " and '%s' is ", b->info->params[i].name);
    rt_add_tensor(&t, b->args[i].as.tensor);
    return tg_fail(TG_ERROR_CONTRACT, "%s: the dims of their pack must be equal", t.data);
}

static bool same_pack(const Bind *b, int i, int j) {
    const rt_actual *x = &b->l->actuals[i], *y = &b->l->actuals[j];
    int n = pack_axes(b, i);
    return pack_axes(b, j) == n && (n == 0 || memcmp(x->shape + b->info->params[i].pack_at,
                                                     y->shape + b->info->params[j].pack_at,
                                                     sizeof *x->shape * (size_t)n) == 0);
}

/// Merges the pack of parameter i and of the later parameters that share it.
static tg_status bind_axis_pack(const Bind *b, int first, rt_param_set *done) {
    AxisPack pack = {.first = first, .given = pack_axes(b, first)};
    for (int i = first; i < b->info->n_params; i++) {
        const tg_param_info *p = &b->info->params[i];
        if (p->kind != TG_PARAM_TENSOR || p->pack_at < 0 ||
            p->pack != b->info->params[first].pack || b->l->actuals[i].null)
            continue;
        if (!same_pack(b, first, i)) return packs_differ(b, first, i);
        rt_set_add(&pack.members, i);
        rt_set_add(done, i);
    }
    group_axes(b, &pack);
    tg_status status = TG_OK;
    for (int i = first; i < b->info->n_params && !status; i++)
        if (rt_set_has(&pack.members, i)) status = merge_pack(b, &pack, i);
    return status;
}

static tg_status bind_packs(const Bind *b) {
    rt_param_set done = {0};
    tg_status status = TG_OK;
    for (int i = 0; i < b->info->n_params && !status; i++) {
        const tg_param_info *p = &b->info->params[i];
        if (p->kind == TG_PARAM_TENSOR && p->pack_at >= 0 && !b->l->actuals[i].null &&
            !rt_set_has(&done, i))
            status = bind_axis_pack(b, i, &done);
    }
    return status;
}

/* ---- scalars ------------------------------------------------------------------------------- */

static bool is_integer_code(int code) {
    return code == kDLInt || code == kDLUInt || code == kDLBool;
}

/// Whether a value fits an integer type. Every value fits 64 unsigned bits, since C passes them as
/// signed ones.
static bool fits_number_type(int code, int bits, int64_t v) {
    if (code == kDLBool) return v == 0 || v == 1;
    if (bits >= 64) return true;
    if (code == kDLUInt) return v >= 0 && v < (int64_t)1 << bits;
    return v >= -((int64_t)1 << (bits - 1)) && v < (int64_t)1 << (bits - 1);
}

bool rt_number(int code, int bits, const tg_arg *arg, int64_t *out) {
    bool whole = arg->kind == TG_ARG_INT;
    if (is_integer_code(code)) {
        *out = arg->as.i;
        return whole && fits_number_type(code, bits, arg->as.i);
    }
    *out = (int64_t)rt_float_bits(code, bits, whole ? (double)arg->as.i : arg->as.f);
    return true;
}

static tg_status wrong_number(const Bind *b, int i, const rt_actual *a) {
    rt_text t = {.n = 0};
    add_subject(&t, b, i);
    if (b->args[i].kind == TG_ARG_INT)
        rt_add(&t, " is %" PRId64, b->args[i].as.i);
    else
        rt_add(&t, " is %g", b->args[i].as.f);
    rt_add(&t, "; it must be of type ");
    rt_add_type(&t, a->code, a->bits);
    return tg_fail(TG_ERROR_ARGUMENT, "%s", t.data);
}

/// Settles a type parameter without a tensor from the scalar argument: i64 or f32.
static void settle_scalar_type(Bind *b, int i, rt_actual *a) {
    const tg_param_info *p = &b->info->params[i];
    a->code = p->code;
    a->bits = p->bits;
    if (p->flags & TG_PARAM_BOOL) a->code = kDLBool, a->bits = 8;
    if (a->bits) return;
    if (p->type < 0) {
        a->code = kDLInt, a->bits = 64;
        return;
    }
    uint16_t *type = &b->l->types[p->type];
    if (!*type) *type = b->args[i].kind == TG_ARG_INT ? kDLInt << 8 | 64 : kDLFloat << 8 | 32;
    a->code = (uint8_t)(*type >> 8);
    a->bits = (uint8_t)*type;
}

static tg_status bind_scalar_arg(Bind *b, int i) {
    rt_actual *a = &b->l->actuals[i];
    const tg_arg *arg = &b->args[i];
    a->tensor = NULL;
    a->null = 0;
    if (arg->kind != TG_ARG_INT && arg->kind != TG_ARG_FLOAT)
        return fail_argument(b, i, TG_ERROR_ARGUMENT,
                             arg->as.tensor ? "; it must be a number" : " must be a number");
    settle_scalar_type(b, i, a);
    return rt_number(a->code, a->bits, arg, &a->value) ? TG_OK : wrong_number(b, i, a);
}

/* ---- all of it ----------------------------------------------------------------------------- */

static tg_status wrong_count(const tg_kernel_info *info, int n) {
    rt_text t = {.n = 0};
    for (int i = 0; i < info->n_params; i++)
        rt_add(&t, "%s%s", i ? ", " : "", info->params[i].name);
    return tg_fail(TG_ERROR_ARGUMENT, "%s takes %d argument%s (%s), found %d", info->name,
                   info->n_params, info->n_params == 1 ? "" : "s", info->n_params ? t.data : "none",
                   n);
}

static tg_status find_capability(rt_launcher *l) {
    rt_device *d;
    tg_status status = rt_device_get(l->device, &d);
    if (!status) l->capability = d->capability;
    return status;
}

static tg_status bind_arguments(rt_launcher *l, const tg_kernel_info *info, const tg_arg *args,
                                int n, bool partial) {
    if (n != info->n_params || (n && !args)) return wrong_count(info, args ? n : 0);
    Bind b = {.l = l, .info = info, .args = args, .on_device = -1, .partial = partial};
    l->device = -1;
    l->capability = 0;
    memset(l->types, 0, sizeof *l->types * (size_t)info->n_types);
    bool packs = false;
    tg_status status = TG_OK;
    for (int i = 0; i < n && !status; i++) {
        if (info->params[i].kind != TG_PARAM_TENSOR) continue;
        status = bind_tensor_arg(&b, i);
        packs |= info->params[i].pack_at >= 0;
    }
    for (int i = 0; i < n && !status; i++)
        if (info->params[i].kind != TG_PARAM_TENSOR) status = bind_scalar_arg(&b, i);
    if (!status && l->device >= 0) status = find_capability(l);
    return packs && !status ? bind_packs(&b) : status;
}

tg_status rt_bind(rt_launcher *l, const tg_kernel_info *info, const tg_arg *args, int n) {
    return bind_arguments(l, info, args, n, false);
}

tg_status rt_bind_given(rt_launcher *l, const tg_kernel_info *info, const tg_arg *args, int n) {
    return bind_arguments(l, info, args, n, true);
}

/* ---- overlaps ------------------------------------------------------------------------------ */

static bool is_same_argument(const rt_actual *x, const rt_actual *y) {
    if (x->data != y->data || x->rank != y->rank || x->code != y->code || x->bits != y->bits)
        return false;
    for (int i = 0; i < x->rank; i++)
        if (x->shape[i] != y->shape[i] || (x->shape[i] > 1 && x->strides[i] != y->strides[i]))
            return false;
    return true;
}

static bool may_alias_in_place(const tg_variant *v, int i, int j) {
    for (int k = 0; k < v->n_inplace; k++) {
        int x = v->inplace[2 * k], y = v->inplace[2 * k + 1];
        if ((x == i && y == j) || (x == j && y == i)) return true;
    }
    return false;
}

static rt_meeting meeting_of_args(const tg_kernel_info *info, const rt_launcher *l, int i, int j) {
    rt_view x = own_view(&l->actuals[i], is_symmetric_param(&info->params[i]));
    rt_view y = own_view(&l->actuals[j], is_symmetric_param(&info->params[j]));
    return rt_views_meet(&x, &y);
}

tg_status rt_check_overlaps(const rt_launcher *l, const tg_kernel_info *info, const tg_variant *v) {
    for (int i = 0; i < info->n_params; i++) {
        const rt_actual *x = &l->actuals[i];
        if (!(info->params[i].flags & TG_PARAM_WRITTEN) || !x->tensor) continue;
        for (int j = 0; j < info->n_params; j++) {
            const rt_actual *y = &l->actuals[j];
            if (i == j || !y->tensor || x->from >= y->to || y->from >= x->to) continue;
            if (is_same_argument(x, y) && may_alias_in_place(v, i, j)) continue;
            rt_meeting found = meeting_of_args(info, l, i, j);
            if (found == RT_APART) continue;
            return tg_fail(TG_ERROR_CONTRACT, "%s: '%s' is written and %s '%s'", info->name,
                           info->params[i].name, rt_meeting_text(found), info->params[j].name);
        }
    }
    return TG_OK;
}

/* ---- copies -------------------------------------------------------------------------------- */

void rt_copy_tensor(DLTensor *out, int64_t dims[2][TG_MAX_RANK], const DLTensor *tensor,
                    const int64_t *strides) {
    size_t bytes = sizeof(int64_t) * (size_t)tensor->ndim;
    *out = *tensor;
    if (bytes) memcpy(dims[0], tensor->shape, bytes);
    if (bytes && strides) memcpy(dims[1], strides, bytes);
    out->shape = dims[0];
    out->strides = strides ? dims[1] : NULL;
}
