// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Launches like one before.
//
// Binding arguments and finding their variant takes longer than a small kernel. Most launches are
// of arguments that differ from those of a launch before in their addresses and numbers alone.
// Each launcher keeps, for each kernel, the last few launches that differed in more: what the
// arguments were like, and what the code got for them. A launch that is the same in all that
// binding and facts look at takes that, with its own addresses in it. All else goes the long way,
// errors too.
#include "runtime/comm.h"
#include "runtime/runtime.h"

#include <string.h>

/// Device, rank and type of a tensor, as they stand in it.
typedef struct Like {
    uint64_t words[2];
} Like;
enum { LIKE_AT = offsetof(DLTensor, device) };
_Static_assert(offsetof(DLTensor, ndim) == LIKE_AT + sizeof(DLDevice) &&
                   offsetof(DLTensor, dtype) == LIKE_AT + sizeof(DLDevice) + sizeof(int32_t) &&
                   offsetof(DLTensor, shape) == LIKE_AT + sizeof(Like),
               "they lie side by side");

/// An argument.
typedef struct Known {
    int32_t kind; // of tg_arg
    int32_t rank;
    int8_t slot; // among those of the code, or -1
    bool null, has_strides, written, is_empty, is_constant, is_symmetric;
    uint8_t code, bits;            // of a number
    Like like;                     // of a tensor
    int64_t value;                 // of a number, as the caller gave it: the bytes of a double, too
    uintptr_t data;                // of the last launch
    uintptr_t low, high;           // what it spans, from its data
    uint64_t one;                  // other arguments that may be the same view: they were
    rt_shard_arg shard;            // of a symmetric one
    int64_t dims[2][TG_MAX_RANK];  // shape and strides as given
    int64_t bound[2][TG_MAX_RANK]; // as the code gets them
} Known;

struct rt_call {
    const tg_kernel *kernel;
    const tg_variant *variant;
    uint64_t epoch;
    int n; // arguments
    int device;
    bool apart;       // views of these addresses were seen to be
    tg_comm *comm;    // of a collective launch
    uint64_t tensors; // which arguments are
    uint64_t written;
    tg_slot slots[TG_MAX_PARAMS];
    Known known[];
};

enum { WAYS = 4 };

/// Calls of kernels that have the set in common, in one piece of memory.
typedef struct rt_calls {
    int room;         // for the arguments of each
    unsigned n, next; // how many there are; counts those whose place another one took
    _Alignas(rt_call) char memory[];
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

static bool are_alike(Like x, Like y) {
    return !((x.words[0] ^ y.words[0]) | (x.words[1] ^ y.words[1]));
}

/* ---- keeping --------------------------------------------------------------------------------- */

static size_t call_bytes(int n) {
    return sizeof(rt_call) + sizeof(Known) * (size_t)n;
}

static size_t set_bytes(int room) {
    return sizeof(rt_calls) + WAYS * call_bytes(room);
}

static rt_call *call_at(rt_calls *set, unsigned i) {
    return (rt_call *)(set->memory + i * call_bytes(set->room));
}

void rt_forget_calls(rt_launcher *l) {
    for (int i = 0; i < RT_CALL_SETS; i++)
        if (l->calls[i]) rt_release(&l->context->hooks, l->calls[i], set_bytes(l->calls[i]->room));
}

/// One with room for so many arguments.
static rt_calls *set_for(rt_launcher *l, const tg_kernel *kernel, int n) {
    rt_calls **place = set_of(l, kernel), *set = *place;
    if (set && set->room >= n) return set;
    if (set) rt_release(&l->context->hooks, set, set_bytes(set->room));
    set = *place = rt_allocate(&l->context->hooks, set_bytes(n));
    if (set) *set = (rt_calls){.room = n};
    return set;
}

/// A place for a call: that of one that is out of date, a free one, or another one's in turn.
static rt_call *call_for(rt_launcher *l, const tg_kernel *kernel, uint64_t epoch, int n) {
    rt_calls *set = set_for(l, kernel, n);
    for (unsigned i = 0; set && i < set->n; i++) {
        rt_call *c = call_at(set, i);
        if (c->kernel == kernel && c->epoch != epoch) return c;
    }
    if (!set) return NULL;
    return call_at(set, set->n < WAYS ? set->n++ : set->next++ % WAYS);
}

static void know_tensor(Known *k, const rt_actual *a, const DLTensor *t) {
    size_t given = sizeof(int64_t) * (size_t)t->ndim, bound = sizeof(int64_t) * (size_t)a->rank;
    k->rank = t->ndim;
    k->has_strides = t->strides != NULL;
    k->like = like_of(t);
    k->data = (uintptr_t)a->own;
    k->is_empty = a->from == a->to;
    k->low = a->from - k->data;
    k->high = a->to - k->data;
    if (given) memcpy(k->dims[0], t->shape, given);
    if (given && t->strides) memcpy(k->dims[1], t->strides, given);
    if (bound) memcpy(k->bound[0], a->shape, bound);
    if (bound) memcpy(k->bound[1], a->strides, bound);
}

/// All but where it is.
static void know_shard(Known *k, const rt_actual *a, const char *name) {
    k->shard = (rt_shard_arg){.name = name};
    if (!a->tensor) return;
    k->shard.code = a->tensor->dtype.code;
    k->shard.bits = a->tensor->dtype.bits;
    k->shard.rank = a->rank - 1;
    k->shard.shape = k->bound[0] + 1;
    k->shard.strides = k->bound[1] + 1;
    k->shard.like = rt_shards_hash(&k->shard);
}

static void know(rt_call *c, const rt_launcher *l, int i, const tg_arg *arg) {
    const rt_actual *a = &l->actuals[i];
    const tg_param_info *p = &c->kernel->info->params[i];
    Known *k = &c->known[i];
    k->kind = (int32_t)arg->kind;
    k->slot = -1;
    k->null = a->null;
    k->is_constant = p->kind == TG_PARAM_CONST;
    k->code = a->code;
    k->bits = a->bits;
    k->value = arg->as.i;
    k->written = p->flags & TG_PARAM_WRITTEN;
    k->is_symmetric = p->flags & TG_PARAM_SYM;
    k->one = 0;
    if (a->tensor) know_tensor(k, a, a->tensor);
    if (k->is_symmetric) know_shard(k, a, p->name);
    if (!a->tensor) return;
    c->tensors |= (uint64_t)1 << i;
    if (k->written) c->written |= (uint64_t)1 << i;
}

static bool meet(const Known *x, const Known *y) {
    return x->data + x->low < y->data + y->high && y->data + y->low < x->data + x->high;
}

/// It passed rt_check_overlaps: what meets is one view.
static void know_views(rt_call *c) {
    for (int i = 0; i < c->n; i++)
        for (int j = 0; j < c->n; j++)
            if (i != j && c->written >> i & 1 && c->tensors >> j & 1 &&
                meet(&c->known[i], &c->known[j]))
                c->known[i].one |= (uint64_t)1 << j;
}

void rt_remember(rt_launcher *l, const tg_kernel *kernel, const tg_variant *v, const tg_arg *args,
                 int n, uint64_t epoch) {
    rt_call *c = epoch ? call_for(l, kernel, epoch, n) : NULL;
    if (!c) return;
    c->kernel = kernel;
    c->variant = v;
    c->epoch = epoch;
    c->n = n;
    c->device = l->device;
    c->comm = l->comm;
    c->tensors = c->written = 0;
    for (int i = 0; i < n; i++) know(c, l, i, &args[i]);
    know_views(c);
    c->apart = true;
    for (int s = 0; s < v->n_params; s++) {
        Known *k = &c->known[v->params[s]];
        k->slot = (int8_t)s;
        if (l->actuals[v->params[s]].tensor)
            c->slots[s] = (tg_slot){.tensor = {NULL, k->bound[0], k->bound[1]}};
        else
            c->slots[s].bits = (uint64_t)l->actuals[v->params[s]].value;
    }
}

/* ---- taking ---------------------------------------------------------------------------------- */

static bool same_dims(const int64_t *x, const int64_t *y, int n) {
    for (int i = 0; i < n; i++)
        if (x[i] != y[i]) return false;
    return true;
}

/// What code gets for the address: of a symmetric tensor rank 0's, as far from the next one's as
/// before. False: it is not such memory, or otherwise.
static bool find_data(const rt_call *c, Known *k, uintptr_t data, void **out) {
    rt_shard shard;
    *out = (void *)data;
    if (!k->is_symmetric) return true;
    if (!rt_sym_find(c->comm, (const void *)data, &shard)) return false;
    k->shard.direct = *out = shard.direct;
    return k->high <= (uintptr_t)shard.left && -(int64_t)k->low <= shard.before &&
           shard.lead * 8 / k->bits == k->bound[1][0];
}

/// Facts look at the address modulo 16.
static bool take_tensor(rt_call *c, Known *k, const DLTensor *t) {
    if (!t || k->null) return !t && k->null;
    uintptr_t data = t->data ? (uintptr_t)t->data + t->byte_offset : 0;
    if (!are_alike(like_of(t), k->like) || !t->strides == k->has_strides || (data ^ k->data) % 16 ||
        (!data && !k->is_empty))
        return false;
    if (k->rank && (!t->shape || !same_dims(t->shape, k->dims[0], k->rank))) return false;
    if (k->has_strides && !same_dims(t->strides, k->dims[1], k->rank)) return false;
    void *found;
    if (!find_data(c, k, data, &found)) return false;
    c->apart &= k->data == data;
    k->data = data;
    if (k->slot >= 0) c->slots[k->slot].tensor.data = found;
    return true;
}

static bool take_number(rt_call *c, Known *k, const tg_arg *arg) {
    int64_t value;
    if (arg->as.i == k->value) return true;
    if (k->is_constant || !rt_number(k->code, k->bits, arg, &value)) return false;
    k->value = arg->as.i;
    if (k->slot >= 0) c->slots[k->slot].bits = (uint64_t)value;
    return true;
}

static bool views_are_apart(const rt_call *c) {
    for (uint64_t left = c->written; left; left &= left - 1) {
        int i = __builtin_ctzll(left);
        const Known *k = &c->known[i];
        for (uint64_t others = c->tensors & ~(left & -left); others; others &= others - 1) {
            int j = __builtin_ctzll(others);
            const Known *o = &c->known[j];
            if (meet(k, o) && !(k->one >> j & 1 && k->data == o->data)) return false;
        }
    }
    return true;
}

static bool take(rt_call *c, const tg_arg *args) {
    for (int i = 0; i < c->n; i++) {
        Known *k = &c->known[i];
        if ((int32_t)args[i].kind != k->kind) return false;
        if (k->kind == TG_ARG_TENSOR ? !take_tensor(c, k, args[i].as.tensor)
                                     : !take_number(c, k, &args[i]))
            return false;
    }
    return c->apart || (c->apart = views_are_apart(c));
}

const rt_call *rt_again(rt_launcher *l, tg_kernel *kernel, const tg_arg *args, int n) {
    rt_calls *set = *set_of(l, kernel);
    if (!set || !args) return NULL;
    uint64_t epoch = rt_epoch(kernel);
    for (unsigned i = 0; i < set->n; i++) {
        rt_call *c = call_at(set, i);
        if (c->kernel == kernel && c->n == n && c->epoch == epoch && c->comm == l->comm &&
            take(c, args))
            return c;
    }
    return NULL;
}

tg_status rt_run_again(rt_launcher *l, const tg_kernel_info *info, const rt_call *c, void *stream) {
    l->device = c->device;
    rt_count(c->kernel);
    for (int i = 0; i < c->n && l->comm; i++)
        if (c->known[i].is_symmetric) rt_shards_add(l->comm, c->known[i].shard);
    if (l->comm) rt_comm_announce(l, info->name, info->signature, c->variant->config);
    return rt_run_slots(l, info, c->variant, c->slots, stream);
}
