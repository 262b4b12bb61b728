// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Operators of PyTorch whose implementation is a kernel. A call of such an operator does not enter
// Python.
#include "runtime/base/fork_lock.h"
#include "runtime/runtime.h"
#include "runtime/torch/torch_api.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MOST_TEXT = 2048 }; // of an error
enum { MOST_PARAMS = 32, MOST_OPERATORS = 256, MOST_RANK = 8, MOST_SHAPES = 16 };
enum { MOST_FACTS = MOST_PARAMS * (1 + MOST_RANK) };

/// The results of an earlier call, and the types, dims and integers that they follow from.
typedef struct Shapes {
    size_t bytes; // of facts
    int64_t *facts;
    tg_inferred results[]; // n_results of them, then the facts
} Shapes;

struct tg_torch_operator {
    const rt_torch *torch;
    tg_kernel *kernel;
    int slot;
    int n_arguments, n_results;
    int arguments[MOST_PARAMS], results[MOST_PARAMS]; // numbers of parameters
    rt_torch_library *libraries[2];                   // of the CPU and of GPUs
    tg_lock lock;                                     // for `shapes`
    Shapes *shapes[MOST_SHAPES];                      // by the hash of the facts
};

/* ---- one call ------------------------------------------------------------------------------ */

/// The arguments of one call.
typedef struct Call {
    tg_torch_operator *op;
    tg_arg args[MOST_PARAMS];
    DLTensor tensors[MOST_PARAMS];
    tg_inferred results[MOST_PARAMS];
    int64_t facts[MOST_FACTS];
    int n_facts;
    rt_torch_tensor *made[MOST_PARAMS]; // of each result
    int64_t strides[MOST_RANK];         // of the result that is being made
    int32_t device_type, device_index;  // of the first tensor; -1: there is none
} Call;

static const tg_param_info *param_of(const tg_torch_operator *op, int i) {
    return &op->kernel->info->params[i];
}

static const char *reason_of(const Call *c) {
    return c->op->torch->reason ? c->op->torch->reason() : NULL;
}

/// Records that PyTorch failed to make a result.
static tg_status fail_memory(const Call *c, int k) {
    const tg_inferred *f = &c->results[k];
    const char *reason = reason_of(c);
    char shape[MOST_RANK * 24] = "";
    double bytes = f->type.bits / 8;
    for (int d = 0, n = 0; d < f->rank; d++) {
        bytes *= (double)f->shape[d];
        n += snprintf(shape + n, sizeof shape - (size_t)n, "%s%lld", d ? ", " : "",
                      (long long)f->shape[d]);
    }
    return tg_fail(TG_ERROR_MEMORY, "%s: PyTorch failed to make '%s', %s[%s] of %.0f bytes: %s%s%s",
                   c->op->kernel->info->name, param_of(c->op, c->op->results[k])->name,
                   rt_torch_type_name(f->type), shape, bytes,
                   c->device_type == c->op->torch->gpu ? "CUDA out of memory" : "out of memory",
                   reason ? ": " : "", reason ? reason : "");
}

/// Records that PyTorch failed to do something with the tensor of a parameter.
static tg_status fail_torch(const Call *c, int i, const char *what) {
    const char *reason = reason_of(c);
    return tg_fail(TG_ERROR_MEMORY, "%s: PyTorch failed to %s '%s'%s%s", c->op->kernel->info->name,
                   what, param_of(c->op, i)->name, reason ? ": " : "", reason ? reason : "");
}

static bool ask_tensor(const rt_torch *t, rt_torch_tensor *tensor, DLTensor *d, int32_t *type,
                       int32_t *device_type) {
    int64_t rank = 0;
    bool failed = t->data(tensor, &d->data) || t->rank(tensor, &rank) ||
                  t->sizes(tensor, &d->shape) || t->strides(tensor, &d->strides) ||
                  t->type(tensor, type) || t->device_type(tensor, device_type) ||
                  t->device_index(tensor, &d->device.device_id);
    d->ndim = (int32_t)rank;
    d->byte_offset = 0;
    return !failed;
}

/// Makes a tensor of PyTorch the argument of a parameter.
static tg_status set_tensor(Call *c, int i, rt_torch_tensor *tensor) {
    const rt_torch *t = c->op->torch;
    const char *kernel = c->op->kernel->info->name, *name = param_of(c->op, i)->name;
    DLTensor *d = &c->tensors[i];
    int32_t type = -1, device = -1;
    if (!ask_tensor(t, tensor, d, &type, &device)) return fail_torch(c, i, "read");
    d->dtype = type >= 0 && type < RT_TORCH_TYPES ? t->types[type] : (DLDataType){0, 0, 1};
    if (!d->dtype.bits)
        return tg_fail(TG_ERROR_ARGUMENT, "%s: the element type of '%s' is no type of kernels",
                       kernel, name);
    if (device != t->cpu && device != t->gpu)
        return tg_fail(TG_ERROR_ARGUMENT, "%s: '%s' is neither on the CPU nor on a GPU", kernel,
                       name);
    if (c->device_type < 0) {
        c->device_type = device;
        c->device_index = d->device.device_id;
    }
    d->device.device_type = device == t->cpu ? kDLCPU : t->hip ? kDLROCM : kDLCUDA;
    if (device == t->cpu) d->device.device_id = 0;
    c->args[i] = tg_tensor(d);
    return TG_OK;
}

static tg_status set_argument(Call *c, int i, uint64_t value) {
    const tg_param_info *p = param_of(c->op, i);
    if (p->kind == TG_PARAM_TENSOR) {
        if (p->flags & TG_PARAM_OPTIONAL && value) value = *(uint64_t *)(uintptr_t)value;
        rt_torch_tensor *tensor = (rt_torch_tensor *)(uintptr_t)value;
        bool defined = tensor != NULL;
        if (tensor && c->op->torch->defined && c->op->torch->defined(tensor, &defined))
            return fail_torch(c, i, "read");
        if (defined) return set_tensor(c, i, tensor);
        if (p->flags & TG_PARAM_OPTIONAL) return TG_OK;
        return tg_fail(TG_ERROR_ARGUMENT, "%s: the tensor '%s' is undefined",
                       c->op->kernel->info->name, p->name);
    }
    if (p->code == kDLBool || p->code == kDLInt || p->code == kDLUInt) {
        c->args[i] = tg_int(p->code == kDLBool ? (uint8_t)value != 0 : (int64_t)value);
        return TG_OK;
    }
    double number;
    memcpy(&number, &value, sizeof number);
    c->args[i] = tg_float(number);
    return TG_OK;
}

/// Makes result k, a dense tensor on the device of the arguments.
static tg_status make_result(Call *c, int k) {
    const rt_torch *t = c->op->torch;
    int i = c->op->results[k];
    const tg_inferred *f = &c->results[k];
    int32_t type = rt_torch_type(t, f->type);
    if (!(f->flags & TG_INFERRED_KNOWN) || type < 0)
        return tg_fail(TG_ERROR_ARGUMENT,
                       "%s: the arguments do not determine '%s', or PyTorch lacks its type",
                       c->op->kernel->info->name, param_of(c->op, i)->name);
    int64_t step = 1;
    for (int d = f->rank - 1; d >= 0; d--) {
        c->strides[d] = step;
        step *= f->shape[d] > 1 ? f->shape[d] : 1;
    }
    if (t->empty(f->rank, f->shape, c->strides, type, c->device_type, c->device_index, &c->made[k]))
        return fail_memory(c, k);
    if (f->flags & TG_INFERRED_READ && t->set_zero(c->made[k])) return fail_torch(c, i, "clear");
    return set_tensor(c, i, c->made[k]);
}

/// Lists all that the results follow from. False: a tensor has too many dims.
static bool list_facts(Call *c) {
    int64_t *f = c->facts;
    for (int i = 0; i < c->op->kernel->info->n_params; i++) {
        const tg_arg *a = &c->args[i];
        const DLTensor *t = a->as.tensor;
        if (a->kind == TG_ARG_INT) *f++ = a->as.i;
        if (a->kind != TG_ARG_TENSOR) continue;
        if (t && t->ndim > MOST_RANK) return false;
        *f++ = t ? t->dtype.code << 16 | t->dtype.bits << 8 | t->ndim : -1;
        for (int d = 0; t && d < t->ndim; d++) *f++ = t->shape[d];
    }
    c->n_facts = (int)(f - c->facts);
    return true;
}

static tg_status infer(Call *c) {
    const tg_torch_operator *op = c->op;
    tg_inferred all[MOST_PARAMS];
    tg_status status = tg_kernel_infer(op->kernel, c->args, op->kernel->info->n_params, all);
    for (int k = 0; k < op->n_results && !status; k++) c->results[k] = all[op->results[k]];
    return status;
}

static bool recall(Call *c, int place, size_t bytes) {
    tg_torch_operator *op = c->op;
    tg_lock_take(&op->lock);
    const Shapes *s = op->shapes[place];
    bool same = s && s->bytes == bytes && memcmp(s->facts, c->facts, bytes) == 0;
    if (same) memcpy(c->results, s->results, sizeof *s->results * (size_t)op->n_results);
    tg_lock_give(&op->lock);
    return same;
}

/// Without memory, the next call infers again.
static void remember(Call *c, int place, size_t bytes) {
    tg_torch_operator *op = c->op;
    size_t results = sizeof *c->results * (size_t)op->n_results;
    Shapes *s = malloc(sizeof *s + results + bytes);
    if (!s) return;
    s->bytes = bytes;
    s->facts = (int64_t *)(void *)((char *)s->results + results);
    memcpy(s->results, c->results, results);
    memcpy(s->facts, c->facts, bytes);
    tg_lock_take(&op->lock);
    Shapes *before = op->shapes[place];
    op->shapes[place] = s;
    tg_lock_give(&op->lock);
    free(before);
}

/// Types and shapes of the results, by an earlier call with the same facts if there is one.
static tg_status find_results(Call *c) {
    if (!list_facts(c)) return infer(c);
    size_t bytes = sizeof *c->facts * (size_t)c->n_facts;
    int place = (int)(rt_hash_bytes(0, c->facts, bytes) % MOST_SHAPES);
    if (recall(c, place, bytes)) return TG_OK;
    tg_status status = infer(c);
    if (!status) remember(c, place, bytes);
    return status;
}

static tg_status make_results(Call *c) {
    const tg_torch_operator *op = c->op;
    if (!op->n_results) return TG_OK;
    tg_status status = find_results(c);
    if (!status && c->device_type < 0)
        status = tg_fail(TG_ERROR_ARGUMENT, "%s: no argument is a tensor", op->kernel->info->name);
    for (int k = 0; k < op->n_results && !status; k++) status = make_result(c, k);
    return status;
}

static tg_status launch(Call *c) {
    const tg_torch_operator *op = c->op;
    void *stream = NULL;
    if (c->device_type == op->torch->gpu &&
        (!op->torch->stream || op->torch->stream(c->device_index, &stream)))
        return tg_fail(TG_ERROR_INTERNAL, "%s: PyTorch failed to name its current stream",
                       op->kernel->info->name);
    return tg_launch_on(op->kernel, c->args, op->kernel->info->n_params, stream);
}

static void free_arguments(const tg_torch_operator *op, uint64_t *stack) {
    for (int k = 0; k < op->n_arguments; k++) {
        const tg_param_info *p = param_of(op, op->arguments[k]);
        if (p->kind != TG_PARAM_TENSOR || !stack[k]) continue;
        uint64_t *cell = p->flags & TG_PARAM_OPTIONAL ? (uint64_t *)(uintptr_t)stack[k] : &stack[k];
        op->torch->destroy((rt_torch_tensor *)(uintptr_t)*cell);
        if (cell != &stack[k]) op->torch->free_cell(cell);
    }
}

/// A failure's text is copied at once: tensors that are freed may run other code of the library.
static tg_status run_kernel(tg_torch_operator *op, uint64_t *stack, char *text) {
    Call c;
    c.op = op;
    c.device_type = -1;
    c.device_index = -1;
    for (int i = 0; i < op->kernel->info->n_params; i++) c.args[i] = tg_none();
    for (int k = 0; k < op->n_results; k++) c.made[k] = NULL;
    tg_status status = TG_OK;
    for (int k = 0; k < op->n_arguments && !status; k++)
        status = set_argument(&c, op->arguments[k], stack[k]);
    if (!status) status = make_results(&c);
    if (!status) status = launch(&c);
    if (status) snprintf(text, MOST_TEXT, "%s", tg_last_error());
    free_arguments(op, stack);
    for (int k = 0; k < op->n_results; k++) {
        if (status && c.made[k]) op->torch->destroy(c.made[k]);
        stack[k] = status ? 0 : (uint64_t)(uintptr_t)c.made[k];
    }
    return status;
}

/* ---- slots --------------------------------------------------------------------------------- */
// PyTorch calls a function without data, so each operator has a function of its own.

typedef struct Slot {
    _Atomic(tg_torch_operator *) op;
    atomic_uint_fast64_t running; // calls of this process, and above them its number of forks
    bool is_taken;                // guarded by `filling`
} Slot;

static Slot slots[MOST_OPERATORS];
static int next_slot; // guarded by `filling`
static tg_lock filling = TG_LOCK_INIT;

static uint64_t forks_above(void) {
    return (uint64_t)(uint32_t)tg_forks() << 32;
}

/// Counts a call. Calls that ran in other threads when the process was forked do not run in the
/// child.
static void enter_slot(Slot *s) {
    uint64_t forks = forks_above(), was = atomic_load(&s->running), now;
    do now = (was >> 32 == forks >> 32 ? was : forks) + 1;
    while (!atomic_compare_exchange_weak(&s->running, &was, now));
}

static void leave_slot(Slot *s) {
    atomic_fetch_sub(&s->running, 1);
}

/// Waits for calls that may have read the operator before it left the slot.
static void wait_for_calls(Slot *s) {
    const struct timespec pause = {0, 50000};
    while (atomic_load(&s->running) > forks_above() &&
           atomic_load(&s->running) >> 32 == forks_above() >> 32)
        nanosleep(&pause, NULL);
}

/// Writes why a call failed into the text.
static bool try_call(tg_torch_operator *op, uint64_t *stack, uint64_t n_arguments,
                     uint64_t n_results, char *text) {
    const char *name = op->kernel->info->name;
    if (n_arguments == (uint64_t)op->n_arguments && n_results == (uint64_t)op->n_results)
        return !run_kernel(op, stack, text);
    snprintf(text, MOST_TEXT,
             "%s: the operator has %d arguments and %d results, and its schema has %d and %d", name,
             op->n_arguments, op->n_results, (int)n_arguments, (int)n_results);
    return false;
}

/// The exception passes through this function and the slot's, which hold nothing to free. It keeps
/// the function's name, which therefore is constant.
static void call_slot(int slot, uint64_t *stack, uint64_t n_arguments, uint64_t n_results) {
    char text[MOST_TEXT];
    Slot *s = &slots[slot];
    enter_slot(s);
    tg_torch_operator *op = atomic_load(&s->op);
    if (!op) snprintf(text, sizeof text, "the operator has been removed");
    bool succeeded = op && try_call(op, stack, n_arguments, n_results, text);
    leave_slot(s);
    if (!succeeded) rt_torch_load()->check(false, __func__, __FILE__, __LINE__, text);
}

#define SLOT(n)                                                                                    \
    static void slot_##n(uint64_t *stack, uint64_t n_arguments, uint64_t n_results) {              \
        call_slot(0x##n, stack, n_arguments, n_results);                                           \
    }
#define NAME(n) slot_##n,
// clang-format off
#define EACH16(F, n)                                                                               \
    F(n##0) F(n##1) F(n##2) F(n##3) F(n##4) F(n##5) F(n##6) F(n##7)                                \
    F(n##8) F(n##9) F(n##a) F(n##b) F(n##c) F(n##d) F(n##e) F(n##f)
#define EACH(F)                                                                                    \
    EACH16(F, 0) EACH16(F, 1) EACH16(F, 2) EACH16(F, 3) EACH16(F, 4) EACH16(F, 5) EACH16(F, 6)     \
    EACH16(F, 7) EACH16(F, 8) EACH16(F, 9) EACH16(F, a) EACH16(F, b) EACH16(F, c) EACH16(F, d)     \
    EACH16(F, e) EACH16(F, f)
// clang-format on

EACH(SLOT)
static rt_torch_function *const functions[MOST_OPERATORS] = {EACH(NAME)};

/// Takes the slot that has been free for long: a call may have found its function, and not yet
/// entered it.
static bool take_slot(tg_torch_operator *op) {
    op->slot = -1;
    tg_lock_take(&filling);
    for (int i = 0; i < MOST_OPERATORS && op->slot < 0; i++) {
        int slot = (next_slot + i) % MOST_OPERATORS;
        if (!slots[slot].is_taken) op->slot = slot;
    }
    if (op->slot >= 0) {
        slots[op->slot].is_taken = true;
        next_slot = (op->slot + 1) % MOST_OPERATORS;
        atomic_store(&slots[op->slot].op, op);
    }
    tg_lock_give(&filling);
    return op->slot >= 0;
}

/// Afterwards, no call uses the operator.
static void give_slot(tg_torch_operator *op) {
    if (op->slot < 0) return;
    Slot *s = &slots[op->slot];
    atomic_store(&s->op, NULL);
    wait_for_calls(s);
    tg_lock_take(&filling);
    s->is_taken = false;
    tg_lock_give(&filling);
}

/* ---- registration -------------------------------------------------------------------------- */

/// Copies numbers of parameters, each of which may occur once.
static tg_status copy_numbers(tg_kernel *kernel, const int *numbers, int n, bool written, int *out,
                              bool *used) {
    const tg_kernel_info *info = kernel->info;
    for (int k = 0; k < n; k++) {
        int i = numbers[k];
        if (i < 0 || i >= info->n_params || used[i])
            return tg_fail(TG_ERROR_ARGUMENT,
                           "%s: the number %d of a parameter is wrong or given twice", info->name,
                           i);
        const tg_param_info *p = &info->params[i];
        if (p->kind != TG_PARAM_TENSOR && !p->bits)
            return tg_fail(TG_ERROR_UNSUPPORTED,
                           "%s: the type of '%s' is open, and operators have no such number",
                           info->name, p->name);
        if (written && !(p->kind == TG_PARAM_TENSOR && p->flags & TG_PARAM_WRITTEN))
            return tg_fail(TG_ERROR_ARGUMENT, "%s: '%s' is no tensor that the kernel writes",
                           info->name, p->name);
        used[i] = true;
        out[k] = i;
    }
    return TG_OK;
}

static tg_status set_parameters(tg_torch_operator *op, const int *arguments, int n_arguments,
                                const int *results, int n_results) {
    bool used[MOST_PARAMS] = {false};
    if (op->kernel->info->n_params > MOST_PARAMS)
        return tg_fail(TG_ERROR_UNSUPPORTED, "%s has %d parameters; operators have at most %d",
                       op->kernel->info->name, op->kernel->info->n_params, MOST_PARAMS);
    op->n_arguments = n_arguments;
    op->n_results = n_results;
    tg_status status = copy_numbers(op->kernel, arguments, n_arguments, false, op->arguments, used);
    return status ? status : copy_numbers(op->kernel, results, n_results, true, op->results, used);
}

/// name: "namespace::name".
static tg_status register_all(tg_torch_operator *op, const char *name) {
    static const char *const keys[] = {"CPU", "CUDA"};
    char space[128];
    const char *colons = strstr(name, "::");
    if (!colons || colons == name || !colons[2] || strchr(name, '.') ||
        (size_t)(colons - name) >= sizeof space)
        return tg_fail(TG_ERROR_ARGUMENT,
                       "an operator is named 'namespace::name', without dots, not '%s'", name);
    memcpy(space, name, (size_t)(colons - name));
    space[colons - name] = 0;
    for (int i = 0; i < 2; i++)
        if (op->torch->open_library(space, keys[i], __FILE__, __LINE__, &op->libraries[i]) ||
            op->torch->implement(op->libraries[i], name, functions[op->slot]))
            return tg_fail(TG_ERROR_ARGUMENT, "PyTorch refuses to implement the operator %s", name);
    return TG_OK;
}

tg_status tg_torch_operator_create(tg_kernel *kernel, const char *name, const int *arguments,
                                   int n_arguments, const int *results, int n_results,
                                   tg_torch_operator **out) {
    if (!kernel || !name || !out)
        return tg_fail(TG_ERROR_ARGUMENT, "%s is NULL",
                       !kernel ? "the kernel"
                       : !name ? "the operator's name"
                               : "out");
    const rt_torch *torch = rt_torch_load();
    if (!torch) return TG_ERROR_UNSUPPORTED;
    tg_torch_operator *op = calloc(1, sizeof *op);
    if (!op) return tg_fail(TG_ERROR_MEMORY, "out of memory");
    op->torch = torch;
    op->kernel = kernel;
    op->slot = -1;
    tg_lock_init(&op->lock);
    tg_status status = set_parameters(op, arguments, n_arguments, results, n_results);
    if (!status && !take_slot(op))
        status = tg_fail(TG_ERROR_UNSUPPORTED, "there are already %d operators", MOST_OPERATORS);
    if (!status) status = register_all(op, name);
    if (status)
        tg_torch_operator_destroy(op);
    else
        *out = op;
    return status;
}

void tg_torch_operator_destroy(tg_torch_operator *op) {
    if (!op) return;
    for (int i = 0; i < 2; i++)
        if (op->libraries[i]) op->torch->close_library(op->libraries[i]);
    give_slot(op);
    for (int i = 0; i < MOST_SHAPES; i++) free(op->shapes[i]);
    tg_lock_destroy(&op->lock);
    free(op);
}
