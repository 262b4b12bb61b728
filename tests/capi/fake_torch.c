// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// With FAKE_TORCH_OLD, a function is missing. With FAKE_TORCH_CUDA, it is the library of GPUs
// instead, which cannot name a stream.
#include "fake_torch.h"

#include <setjmp.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#pragma GCC diagnostic ignored "-Wmissing-prototypes"

#ifdef FAKE_TORCH_CUDA
int32_t aoti_torch_get_current_cuda_stream(int32_t device, void **out) {
    *out = NULL;
    return device >= 0;
}
#else

typedef struct Library {
    char key[8], name[64];
    fake_function *function;
} Library;

static Library *libraries[600];
static jmp_buf caller;
static char thrown[512];

static fake_tensor *new_tensor(int32_t type, int64_t rank, const int64_t *sizes);
static void free_tensor(fake_tensor *t);
static uint64_t new_cell(uint64_t value);
static const char *call(const char *name, const char *key, uint64_t *stack, int n_arguments,
                        int n_results);
static fake_function *find(const char *name, const char *key);
static const char *run(fake_function *function, uint64_t *stack, int n_arguments, int n_results);

fake_torch fake_torch_state = {.tensor = new_tensor,
                               .free = free_tensor,
                               .cell = new_cell,
                               .call = call,
                               .find = find,
                               .run = run};

/* ---- tensors ------------------------------------------------------------------------------- */

static fake_tensor *new_tensor(int32_t type, int64_t rank, const int64_t *sizes) {
    fake_tensor *t = calloc(1, sizeof *t);
    int64_t n = 1;
    t->rank = rank;
    t->type = type;
    for (int64_t d = rank - 1; d >= 0; d--) {
        t->sizes[d] = sizes[d];
        t->strides[d] = n;
        n *= sizes[d];
    }
    t->data = calloc((size_t)n + 1, 8);
    fake_torch_state.tensors++;
    return t;
}

static void free_tensor(fake_tensor *t) {
    if (!t->is_borrowed) free(t->data);
    free(t);
    fake_torch_state.tensors--;
}

int32_t aoti_torch_is_defined(fake_tensor *t, bool *out) {
    *out = !t->is_undefined;
    return 0;
}
int32_t aoti_torch_get_data_ptr(fake_tensor *t, void **out) {
    *out = t->data;
    return 0;
}
int32_t aoti_torch_get_dim(fake_tensor *t, int64_t *out) {
    *out = t->rank;
    return 0;
}
int32_t aoti_torch_get_sizes(fake_tensor *t, int64_t **out) {
    *out = t->sizes;
    return 0;
}
int32_t aoti_torch_get_strides(fake_tensor *t, int64_t **out) {
    *out = t->strides;
    return 0;
}
int32_t aoti_torch_get_dtype(fake_tensor *t, int32_t *out) {
    *out = t->type;
    return 0;
}
int32_t aoti_torch_get_device_type(fake_tensor *t, int32_t *out) {
    *out = t->device_type;
    return 0;
}
int32_t aoti_torch_get_device_index(fake_tensor *t, int32_t *out) {
    *out = t->device_index;
    return 0;
}
int32_t aoti_torch_empty_strided(int64_t rank, const int64_t *sizes, const int64_t *strides,
                                 int32_t type, int32_t device_type, int32_t device_index,
                                 fake_tensor **out) {
    if (fake_torch_state.making) fake_torch_state.making();
    if (fake_torch_state.is_full) return 1;
    *out = new_tensor(type, rank, sizes);
    memcpy((*out)->strides, strides, sizeof *strides * (size_t)rank);
    (*out)->device_type = device_type;
    (*out)->device_index = device_index;
    return 0;
}
#ifndef FAKE_TORCH_OLD
int32_t aoti_torch_zero_(fake_tensor *t) {
    t->is_zero = true;
    return 0;
}
#endif
int32_t aoti_torch_delete_tensor_object(fake_tensor *t) {
    free_tensor(t);
    return 0;
}
int32_t aoti_torch_device_type_cpu(void) {
    return FAKE_CPU;
}
int32_t aoti_torch_device_type_cuda(void) {
    return FAKE_GPU;
}
int32_t aoti_torch_dtype_float32(void) {
    return FAKE_F32;
}
int32_t aoti_torch_dtype_int64(void) {
    return FAKE_I64;
}

static uint64_t new_cell(uint64_t value) {
    uint64_t *cell = malloc(sizeof *cell);
    *cell = value;
    fake_torch_state.cells++;
    return (uint64_t)(uintptr_t)cell;
}
int32_t torch_delete_stable_ivalue(uint64_t *cell) {
    free(cell);
    fake_torch_state.cells--;
    return 0;
}
const char *torch_exception_get_what_without_backtrace(void) {
    return "no memory is left";
}

/* ---- libraries ----------------------------------------------------------------------------- */

int32_t aoti_torch_library_init_impl(const char *space, const char *key, const char *file,
                                     uint32_t line, Library **out) {
    Library *l = calloc(1, sizeof *l);
    (void)space, (void)file, (void)line;
    snprintf(l->key, sizeof l->key, "%s", key);
    int place = 0;
    while (libraries[place]) place++;
    libraries[place] = *out = l;
    fake_torch_state.libraries++;
    return 0;
}
int32_t aoti_torch_library_impl(Library *l, const char *name, fake_function *function) {
    if (fake_torch_state.refuses) return 1;
    snprintf(l->name, sizeof l->name, "%s", name);
    l->function = function;
    return 0;
}
int32_t aoti_torch_delete_library_object(Library *l) {
    for (size_t i = 0; i < sizeof libraries / sizeof *libraries; i++)
        if (libraries[i] == l) libraries[i] = NULL;
    free(l);
    fake_torch_state.libraries--;
    return 0;
}

/// An exception of C++ is a jump here.
void aoti_torch_check(bool holds, const char *function, const char *file, uint32_t line,
                      const char *message) {
    (void)function, (void)file, (void)line;
    if (holds) return;
    snprintf(thrown, sizeof thrown, "%s", message);
    longjmp(caller, 1);
}

static fake_function *find(const char *name, const char *key) {
    for (size_t i = 0; i < sizeof libraries / sizeof *libraries; i++) {
        Library *l = libraries[i];
        if (l && !strcmp(l->name, name) && !strcmp(l->key, key)) return l->function;
    }
    return NULL;
}

static const char *run(fake_function *function, uint64_t *stack, int n_arguments, int n_results) {
    if (setjmp(caller)) return thrown;
    function(stack, (uint64_t)n_arguments, (uint64_t)n_results);
    return NULL;
}

static const char *call(const char *name, const char *key, uint64_t *stack, int n_arguments,
                        int n_results) {
    fake_function *function = find(name, key);
    return function ? run(function, stack, n_arguments, n_results) : "no such operator";
}
#endif
