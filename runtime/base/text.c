// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Text of messages in a buffer of fixed size: types and tensors as the language writes them.
#include "runtime/base/base.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void rt_add(rt_text *t, const char *format, ...) {
    va_list ap;
    va_start(ap, format);
    size_t room = sizeof t->data - t->n;
    int n = vsnprintf(t->data + t->n, room, format, ap);
    va_end(ap);
    if (n < 0) return;
    if ((size_t)n < room) {
        t->n += (size_t)n;
        return;
    }
    t->n = sizeof t->data - 1;
    memcpy(t->data + t->n - 3, "...", 4);
}

static const struct {
    uint8_t code, bits;
    const char *name;
} types[] = {
    {kDLBool, 8, "bool"},
    {kDLFloat8_e4m3fn, 8, "f8e4m3"},
    {kDLFloat8_e5m2, 8, "f8e5m2"},
    {kDLBfloat, 16, "bf16"},
};

static const char *const letters[] = {
    [kDLInt] = "i",     [kDLUInt] = "u",          [kDLFloat] = "f",   [kDLOpaqueHandle] = "handle",
    [kDLBfloat] = "bf", [kDLComplex] = "complex", [kDLBool] = "bool",
};

void rt_add_type(rt_text *t, int code, int bits) {
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (types[i].code == code && types[i].bits == bits) {
            rt_add(t, "%s", types[i].name);
            return;
        }
    size_t known = sizeof letters / sizeof *letters;
    if ((size_t)code < known)
        rt_add(t, "%s%d", letters[code], bits);
    else
        rt_add(t, "type(%d, %d bits)", code, bits);
}

void rt_add_tensor(rt_text *t, const DLTensor *tensor) {
    rt_add_type(t, tensor->dtype.code, tensor->dtype.bits);
    if (tensor->dtype.lanes != 1) rt_add(t, "x%d", tensor->dtype.lanes);
    rt_add(t, "[");
    for (int i = 0; i < tensor->ndim && tensor->shape; i++)
        rt_add(t, "%s%" PRId64, i ? ", " : "", tensor->shape[i]);
    rt_add(t, "]");
}
