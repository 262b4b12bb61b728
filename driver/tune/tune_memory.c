// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Estimates the memory of a search in the background, so that it leaves enough for the program. The
// worker has its own context, copies of all tensors, and on the host the results for comparisons.
#include "driver/tune/tune.h"
#include "runtime/tune/trial.h"

#include <math.h>

enum {
    SHARE = 4,
    COPIES = 4
}; // of written tensors: two results, the current one, and its fetched form
static const double CONTEXT = 512 << 20, FLUSH = 128 << 20, PROCESS = 64 << 20;

static double span_bytes(const tg_actual *a) {
    double elements = 1;
    for (int i = 0; i < a->rank; i++) {
        if (a->shape[i] == 0) return 0;
        elements += fabs((double)(a->shape[i] - 1) * (double)a->strides[i]);
    }
    return elements * a->bits / 8;
}

/// Whether an earlier tensor is the same view.
static bool is_counted_view(const Request *r, int i) {
    const tg_actual *a = &r->args[i];
    for (int j = 0; j < i && a->tensor; j++)
        if (r->args[j].tensor && r->args[j].tensor->data == a->tensor->data &&
            span_bytes(&r->args[j]) >= span_bytes(a))
            return true;
    return false;
}

typedef struct TensorBytes {
    double all, written;
} TensorBytes;

static TensorBytes sizes_of(const Request *r) {
    TensorBytes s = {0};
    for (int i = 0; i < r->n_args; i++) {
        const tg_actual *a = &r->args[i];
        bool tensor = r->info ? r->info->params[i].kind == TG_PARAM_TENSOR : a->rank > 0;
        if (!tensor || a->null || is_counted_view(r, i)) continue;
        s.all += span_bytes(a);
        if (!r->info || r->info->params[i].flags & TG_PARAM_WRITTEN) s.written += span_bytes(a);
    }
    return s;
}

static const char *compare_free_memory(Ctx *ctx, double bytes, int device) {
    double left = tune_free_bytes(device);
    if (left < 0 || bytes <= left / SHARE) return NULL;
    return ctx_format(ctx,
                      "it would take %.4g MiB of memory, and %.4g are free%s: in the background it "
                      "takes no more than a quarter of that",
                      bytes / (1 << 20), left / (1 << 20), device < 0 ? "" : " on the device");
}

const char *tune_too_large(Ctx *ctx, const Request *r, int device) {
    TensorBytes s = sizes_of(r);
    const rt_device *d = device < 0 ? NULL : rt_device_at(device);
    double host = PROCESS + COPIES * s.written + (d ? 0 : s.all);
    const char *why =
        d ? compare_free_memory(ctx, CONTEXT + fmax(FLUSH, 4.0 * d->l2_bytes) + s.all, device)
          : NULL;
    return why ? why : compare_free_memory(ctx, host, -1);
}
