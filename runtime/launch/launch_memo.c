// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Replays launches that resemble an earlier one.
//
// Binding arguments and finding a variant takes longer than a small kernel. Most launches differ
// from an earlier one only in addresses and numbers. Each launcher keeps the last few different
// launches of each kernel: the properties of the arguments, and the values that the code received.
// If a launch agrees in every property that binding and facts look at, it reuses these values with
// its own addresses. Every other launch, and every error, takes the full path.
#include "runtime/base/param_set.h"
#include "runtime/comm/comm.h"
#include "runtime/launch/warm_launch.h"

#include <string.h>

/// Device, rank and type of a tensor, in the order of DLTensor.
typedef struct Like {
    uint64_t words[2];
} Like;
enum { LIKE_AT = offsetof(DLTensor, device) };
_Static_assert(offsetof(DLTensor, ndim) == LIKE_AT + sizeof(DLDevice) &&
                   offsetof(DLTensor, dtype) == LIKE_AT + sizeof(DLDevice) + sizeof(int32_t) &&
                   offsetof(DLTensor, shape) == LIKE_AT + sizeof(Like),
               "they lie side by side");

enum known_flags { NOTHING = 1, STRIDED = 2, EMPTY = 4, CONSTANT = 8, SYMMETRIC = 16, STEERS = 32 };

/// The properties of an argument that each launch compares, half a cache line. The extents of all
/// arguments follow.
typedef struct KnownArg {
    uint8_t kind; // of tg_arg
    uint8_t rank, flags;
    uint8_t code, bits; // of a scalar
    int16_t slot;       // the code's slot for it, or -1
    union {
        struct {
            uintptr_t data; // in the last launch
            Like like;
        } t;
        int64_t value; // a scalar as the caller gave it; a double as its bits
    } as;
} KnownArg;
_Static_assert(sizeof(KnownArg) == 32, "two are a line of the cache");
_Static_assert(TG_MAX_PARAMS <= UINT8_MAX + 1, "see `tensors`, and `params` of a variant");

/// The span of a tensor, checked if its address has changed.
typedef struct MoveSpan {
    uintptr_t low, high; // from its data
    rt_param_set others; // arguments that may overlap it if their distance stays the same:
    uintptr_t was;       // the address at that time. Both are one view, or share no element
} MoveSpan;

/// The extents and strides that the code receives, the span, and the shard that other ranks see.
typedef struct BoundTensor {
    int64_t dims[2][TG_MAX_RANK];
    rt_shard_arg shard; // of a symmetric tensor
    MoveSpan span;
} BoundTensor;

/// A remembered launch. Every launch reads its first cache line.
typedef struct Call {
    const tg_kernel *kernel;
    uint64_t epoch;
    tg_comm *comm; // of a collective launch
    int16_t n;     // the number of arguments
    bool apart;    // the views at these addresses share no element
    bool numbers;  // some scalar changed since the last launch
    int restless;  // how many launches had changed scalars
    rt_replay *replay;
    tg_slot *slots;
    rt_loaded at; // of GPU code that has run
    const tg_variant *variant;
    int32_t device;
    BoundTensor *bound;
    uint8_t *tensors, *written; // the arguments that are tensors, and that are written
    int16_t n_tensors, n_written;
    _Alignas(64) KnownArg known[]; // the shapes and strides from the caller follow
} Call;
_Static_assert(offsetof(Call, variant) == 64, "a line of the cache");

enum { WAYS = 4 };

/// The remembered launches of the kernels that share a set, in one allocation.
typedef struct rt_calls {
    int room;         // arguments in each
    unsigned n, next; // n: used entries; next: counts replaced entries
    size_t each;      // bytes
    _Alignas(Call) char memory[];
} rt_calls;

static rt_calls **set_of(rt_launcher *l, const tg_kernel *kernel) {
    return &l->calls[(uintptr_t)kernel * 0x9e3779b97f4a7c15u >> 60];
}
_Static_assert(RT_CALL_SETS == 16, "60 bits are shifted out");

static Like like_of(const DLTensor *t) {
    Like like;
    memcpy(&like, (const char *)t + LIKE_AT, sizeof like);
    return like;
}

/* ---- keeping --------------------------------------------------------------------------------- */

enum { GIVEN = 2 * TG_MAX_RANK };

/// The bytes compared for n arguments, including their extents.
static size_t known_bytes(int n) {
    return ((sizeof(KnownArg) + GIVEN * sizeof(int64_t)) * (size_t)n + 63) / 64 * 64;
}

/// The layout after it: the launched code, the slots, then rarely used data.
static size_t call_bytes(int n) {
    size_t others =
        (sizeof(tg_slot) + sizeof(BoundTensor) + 2) * (size_t)n; // 2: the arrays `tensors` and
                                                                 // `written`
    return sizeof(Call) + known_bytes(n) + sizeof(rt_replay) + (others + 63) / 64 * 64;
}

static size_t set_bytes(int room) {
    return sizeof(rt_calls) + WAYS * call_bytes(room);
}

static Call *call_at(rt_calls *set, unsigned i) {
    return (Call *)(set->memory + i * set->each);
}

void rt_memo_forget(rt_launcher *l) {
    for (int i = 0; i < RT_CALL_SETS; i++)
        if (l->calls[i]) rt_release(&l->context->hooks, l->calls[i], set_bytes(l->calls[i]->room));
}

/// Makes a set with room for n arguments.
static rt_calls *set_for(rt_launcher *l, const tg_kernel *kernel, int n) {
    rt_calls **place = set_of(l, kernel), *set = *place;
    if (set && set->room >= n) return set;
    if (set) rt_release(&l->context->hooks, set, set_bytes(set->room));
    set = *place = rt_allocate(&l->context->hooks, set_bytes(n));
    if (set) *set = (rt_calls){.room = n, .each = call_bytes(n)};
    return set;
}

/// Finds an entry for a launch: an outdated one, a free one, or else the next in turn.
static Call *call_for(rt_launcher *l, const tg_kernel *kernel, uint64_t epoch, int n) {
    rt_calls *set = set_for(l, kernel, n);
    for (unsigned i = 0; set && i < set->n; i++) {
        Call *c = call_at(set, i);
        if (c->kernel == kernel && c->epoch != epoch) return c;
    }
    if (!set) return NULL;
    return call_at(set, set->n < WAYS ? set->n++ : set->next++ % WAYS);
}

static void know_tensor(KnownArg *k, BoundTensor *b, const rt_actual *a, int64_t *given) {
    const DLTensor *t = a->tensor;
    size_t rank = (size_t)t->ndim, bound = sizeof(int64_t) * (size_t)a->rank;
    k->rank = (uint8_t)rank;
    k->flags |= (t->strides ? STRIDED : 0) | (a->from == a->to ? EMPTY : 0);
    k->as.t.like = like_of(t);
    k->as.t.data = (uintptr_t)a->own;
    b->span = (MoveSpan){
        .low = a->from - k->as.t.data, .high = a->to - k->as.t.data, .was = k->as.t.data};
    if (rank) memcpy(given, t->shape, sizeof(int64_t) * rank);
    if (rank && t->strides) memcpy(given + rank, t->strides, sizeof(int64_t) * rank);
    if (bound) memcpy(b->dims[0], a->shape, bound);
    if (bound) memcpy(b->dims[1], a->strides, bound);
}

/// The number of extents and strides from the caller.
static inline int given_of(const KnownArg *k) {
    return k->flags & STRIDED ? 2 * k->rank : k->rank;
}

/// Stores all properties of the shard except its address.
static void know_shard(BoundTensor *b, const rt_actual *a, const char *name) {
    b->shard = (rt_shard_arg){.name = name};
    if (!a->tensor) return;
    b->shard.code = a->tensor->dtype.code;
    b->shard.bits = a->tensor->dtype.bits;
    b->shard.rank = a->rank - 1;
    b->shard.shape = b->dims[0] + 1;
    b->shard.strides = b->dims[1] + 1;
    b->shard.like = rt_shards_hash(&b->shard);
}

static void remember_arg(Call *c, const rt_launcher *l, int i, const tg_arg *arg, int64_t *given) {
    const rt_actual *a = &l->actuals[i];
    const tg_param_info *p = &c->kernel->info->params[i];
    KnownArg *k = &c->known[i];
    bool symmetric = p->flags & TG_PARAM_SYM;
    *k = (KnownArg){.kind = (uint8_t)arg->kind, .slot = -1, .code = a->code, .bits = a->bits};
    k->flags = (a->null ? NOTHING : 0) | (p->kind == TG_PARAM_CONST ? CONSTANT : 0) |
               (symmetric ? SYMMETRIC : 0) | (p->flags & TG_PARAM_STEERS ? STEERS : 0);
    if (arg->kind != TG_ARG_TENSOR) k->as.value = arg->as.i;
    if (a->tensor) know_tensor(k, &c->bound[i], a, given);
    if (symmetric) know_shard(&c->bound[i], a, p->name);
    if (!a->tensor) return;
    c->tensors[c->n_tensors++] = (uint8_t)i;
    if (p->flags & TG_PARAM_WRITTEN) c->written[c->n_written++] = (uint8_t)i;
}

/// The bytes that a tensor spans at its current address.
typedef struct ByteRange {
    uintptr_t from, to;
} ByteRange;

static inline ByteRange bytes_of(const Call *c, int i) {
    uintptr_t data = c->known[i].as.t.data;
    const MoveSpan *s = &c->bound[i].span;
    return (ByteRange){data + s->low, data + s->high};
}

static inline bool ranges_meet(ByteRange x, ByteRange y) {
    return x.from < y.to && y.from < x.to;
}

/// Records overlaps. rt_check_overlaps has passed, so overlapping arguments are one view or have
/// interleaved elements.
static void know_views(Call *c) {
    for (int w = 0; w < c->n_written; w++) {
        int i = c->written[w];
        ByteRange own = bytes_of(c, i);
        for (int t = 0; t < c->n_tensors; t++) {
            int j = c->tensors[t];
            if (i != j && ranges_meet(own, bytes_of(c, j))) rt_set_add(&c->bound[i].span.others, j);
        }
    }
}

void rt_memo_keep(rt_launcher *l, const tg_kernel *kernel, const tg_variant *v, const tg_arg *args,
                  int n, uint64_t epoch) {
    Call *c = epoch ? call_for(l, kernel, epoch, n) : NULL;
    if (!c) return;
    *c = (Call){.kernel = kernel, .epoch = epoch, .comm = l->comm, .n = (int16_t)n, .variant = v};
    c->device = l->device;
    c->replay = (rt_replay *)((char *)c->known + known_bytes(n));
    c->replay->n = 0;
    c->slots = (tg_slot *)(c->replay + 1);
    c->bound = (BoundTensor *)(c->slots + n);
    c->tensors = (uint8_t *)(c->bound + n);
    c->written = c->tensors + n;
    int64_t *given = (int64_t *)(c->known + n);
    for (int i = 0; i < n; i++) {
        remember_arg(c, l, i, &args[i], given);
        given += given_of(&c->known[i]);
    }
    know_views(c);
    c->apart = true;
    for (int s = 0; s < v->n_params; s++) {
        int i = v->params[s];
        const rt_actual *a = &l->actuals[i];
        BoundTensor *b = &c->bound[i];
        c->known[i].slot = (int16_t)s;
        if (a->tensor)
            c->slots[s] = (tg_slot){.tensor = {a->data, b->dims[0], b->dims[1]}};
        else
            c->slots[s].bits = (uint64_t)a->value;
    }
}

/* ---- taking ---------------------------------------------------------------------------------- */

/// Returns a value other than 0 if an extent differs.
static uint64_t extents_differ(const int64_t *x, const int64_t *y, int n) {
    uint64_t d = 0;
    for (int i = 0; i < n; i++) d |= (uint64_t)(x[i] ^ y[i]);
    return d;
}

/// The code's address for a symmetric tensor: rank 0's slot, at the same stride between ranks as
/// before. Returns false if the memory is not symmetric or its stride differs.
RT_SELDOM static bool find_shard(const Call *c, const KnownArg *k, uintptr_t data, void **out) {
    BoundTensor *b = &c->bound[k - c->known];
    rt_shard shard;
    if (!rt_sym_find(c->comm, (const void *)data, &shard)) return false;
    b->shard.direct = *out = shard.direct;
    return b->span.high <= (uintptr_t)shard.left && -(int64_t)b->span.low <= shard.before &&
           shard.lead * 8 / k->bits == b->dims[1][0];
}

/// Compares all properties except the address. Facts see the address modulo 16.
static inline bool is_same_tensor(const KnownArg *k, const DLTensor *t, uintptr_t data,
                                  const int64_t *given) {
    Like like = like_of(t);
    uint64_t other = (like.words[0] ^ k->as.t.like.words[0]) |
                     (like.words[1] ^ k->as.t.like.words[1]) | (data ^ k->as.t.data) % 16;
    if (other || !t->strides == !!(k->flags & STRIDED) || (!t->shape && k->rank)) return false;
    other = extents_differ(t->shape, given, k->rank);
    if (t->strides) other |= extents_differ(t->strides, given + k->rank, k->rank);
    return !other;
}

static inline void move_to(Call *c, KnownArg *k, uintptr_t data, void *found) {
    c->apart &= k->as.t.data == data;
    k->as.t.data = data;
    if (k->slot >= 0) c->slots[k->slot].tensor.data = found;
}

/// Handles an argument that is NULL, empty or symmetric, now or in the launch before.
RT_SELDOM static bool take_special(Call *c, KnownArg *k, const DLTensor *t, const int64_t *given) {
    if (!t || k->flags & NOTHING) return !t && k->flags & NOTHING;
    uintptr_t data = t->data ? (uintptr_t)t->data + t->byte_offset : 0;
    void *found = (void *)data;
    if ((!data && !(k->flags & EMPTY)) || !is_same_tensor(k, t, data, given) ||
        (k->flags & SYMMETRIC && !find_shard(c, k, data, &found)))
        return false;
    move_to(c, k, data, found);
    return true;
}

static inline bool take_tensor(Call *c, KnownArg *k, const DLTensor *t, const int64_t *given) {
    if (!t || !t->data || k->flags & (NOTHING | EMPTY | SYMMETRIC))
        return take_special(c, k, t, given);
    uintptr_t data = (uintptr_t)t->data + t->byte_offset;
    if (!is_same_tensor(k, t, data, given)) return false;
    if (data != k->as.t.data) move_to(c, k, data, (void *)data);
    return true;
}

/// Takes a scalar that differs from the last launch.
static bool take_number(Call *c, KnownArg *k, const tg_arg *arg) {
    int64_t value;
    if (k->flags & CONSTANT || !rt_number(k->code, k->bits, arg, &value)) return false;
    k->as.value = arg->as.i;
    c->numbers = true;
    if (k->slot >= 0) c->slots[k->slot].bits = (uint64_t)value;
    return true;
}

/// The distance of two views and their shapes decide whether they share an element.
static bool are_as_before(const Call *c, int i, int j) {
    const MoveSpan *a = &c->bound[i].span, *b = &c->bound[j].span;
    uintptr_t x = c->known[i].as.t.data, y = c->known[j].as.t.data;
    return rt_set_has(&a->others, j) && x - y == a->was - b->was;
}

RT_SELDOM static bool views_are_apart(const Call *c) {
    for (int w = 0; w < c->n_written; w++) {
        int i = c->written[w];
        ByteRange own = bytes_of(c, i);
        for (int t = 0; t < c->n_tensors; t++) {
            int j = c->tensors[t];
            if (i != j && ranges_meet(own, bytes_of(c, j)) && !are_as_before(c, i, j)) return false;
        }
    }
    return true;
}

static inline bool take_new_args(Call *c, const tg_arg *args) {
    const int64_t *given = (const int64_t *)(c->known + c->n);
    for (KnownArg *k = c->known, *end = k + c->n; k < end; k++, args++) {
        if (args->kind != k->kind) return false;
        if (k->kind != TG_ARG_TENSOR) {
            if (args->as.i != k->as.value && !take_number(c, k, args)) return false;
            continue;
        }
        if (!take_tensor(c, k, args->as.tensor, given)) return false;
        given += given_of(k);
    }
    return c->apart || (c->apart = views_are_apart(c));
}

static inline Call *find_launch_memo(rt_launcher *l, tg_kernel *kernel, const tg_arg *args, int n) {
    rt_calls *set = *set_of(l, kernel);
    if (!set || !args) return NULL;
    uint64_t epoch = rt_epoch(kernel);
    for (unsigned i = 0; i < set->n; i++) {
        Call *c = call_at(set, i);
        if (c->kernel == kernel && c->n == n && c->epoch == epoch && c->comm == l->comm &&
            take_new_args(c, args))
            return c;
    }
    return NULL;
}

/// A scalar's bits as bound, because another rank may compare them.
static int64_t number_bits(const KnownArg *k) {
    int64_t bits = 0;
    (void)rt_number(k->code, k->bits, &(tg_arg){.kind = k->kind, .as.i = k->as.value}, &bits);
    return bits;
}

RT_SELDOM static void announce_shards(rt_launcher *l, const tg_kernel_info *info, const Call *c) {
    for (int i = 0; i < c->n; i++) {
        if (c->known[i].flags & SYMMETRIC) rt_shards_add(l->comm, c->bound[i].shard);
        if (c->known[i].flags & STEERS)
            rt_comm_steer(l->comm, &info->params[i], number_bits(&c->known[i]));
    }
    rt_comm_announce(l, info, c->variant->config);
}

enum { RESTLESS = 8 }; // changed scalars after which nothing is recorded any more

/// Runs the code and records its calls if the launch may be repeated.
RT_SELDOM static tg_status run_recorded(rt_launcher *l, const tg_kernel_info *info, Call *c,
                                        void *stream) {
    l->device = c->device;
    if (l->comm) announce_shards(l, info, c);
    c->restless += c->numbers;
    c->numbers = false;
    const tg_image *image = c->variant->image;
    bool writes = image && image->kind != TG_IMAGE_CALL && !l->comm && c->restless < RESTLESS;
    c->replay->n = 0;
    if (writes) rt_replay_begin(c->replay, c->slots, c->variant->n_params);
    l->gpu.replay = writes ? c->replay : NULL;
    tg_status status = rt_run_slots(l, info, c->variant, c->slots, &c->at, stream);
    l->gpu.replay = NULL;
    bool refused = writes && c->replay->refused;
    if (refused) c->restless = RESTLESS;
    if (status || refused) c->replay->n = 0;
    return status;
}

RT_WARM bool rt_memo_launch(rt_launcher *l, tg_kernel *kernel, const tg_arg *args, int n,
                            void *stream, tg_status *status) {
    Call *c = find_launch_memo(l, kernel, args, n);
    if (!c) return false;
    rt_count(kernel->state);
    if (!c->replay->n || (c->numbers && !c->replay->numbers))
        *status = run_recorded(l, kernel->info, c, stream);
    else if (rt_replay_run(&l->gpu, c->replay, c->at.device, stream))
        *status = rt_report(l, kernel->info);
    else
        *status = TG_OK;
    return true;
}
