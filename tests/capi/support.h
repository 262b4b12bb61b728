// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Shared helpers of the C API's tests: modules from text, arrays, small integers in every type.
#ifndef TESTS_CAPI_SUPPORT_H
#define TESTS_CAPI_SUPPORT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <tegula.h>

/// Asserts TG_OK; otherwise shows the text of the failure.
#define OK(call)                                                                                   \
    do {                                                                                           \
        tg_status status_ = (call);                                                                \
        if (status_) fail_msg("%s: %s", tg_status_name(status_), tg_last_error());                 \
    } while (0)
/// Asserts a status and a part of the text.
#define FAILS(call, status, part) check_failure((call), (status), (part), __FILE__, __LINE__)
void check_failure(tg_status got, tg_status want, const char *part, const char *file, int line);

/// Makes the module of a valid source, and finds its kernel `name` (NULL: the only one).
tg_module *module_of(const char *source);
tg_kernel *kernel_of(tg_module *m, const char *name);

/// An element type, by DLPack's code, with its encoding of small integers.
typedef struct Type {
    const char *name;
    DLDataTypeCode code;
    int bits;
    int exponent, mantissa; // sizes of a float's exponent and mantissa
} Type;
enum { N_TYPES = 14 };
extern const Type types[N_TYPES];
/// Stores element i of memory of this type. Integers of at most 8 are exact in each type.
void put(const Type *t, void *data, int64_t i, int v);
int get(const Type *t, const void *data, int64_t i);

/// A tensor with its own shape and strides.
enum { MAX_RANK = 8 };
typedef struct View {
    DLTensor t;
    int64_t shape[MAX_RANK], strides[MAX_RANK];
} View;
/// strides NULL: dense.
void view(View *v, const Type *t, void *data, int rank, const int64_t *shape,
          const int64_t *strides);

#endif
