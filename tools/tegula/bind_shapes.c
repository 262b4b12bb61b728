// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Dims of tensor parameters: given arguments bind them, and they determine the shapes of missing
// ones.
#include "tools/tegula/job.h"

#include "frontend/program.h"

#include <string.h>

const Dimension *dims_find(const Dimensions *dims, const char *name) {
    for (int i = 0; i < dims->n; i++)
        if (strcmp(dims->data[i].name, name) == 0) return &dims->data[i];
    return NULL;
}

void dims_set(Ctx *ctx, Dimensions *dims, const char *name, int64_t value) {
    if (!dims_find(dims, name)) vec_push(ctx, dims, ((Dimension){name, -1, value, {0}}));
}

/// Binds `..N` as a list of extents, for other tensors with the pack, and their product as a
/// number.
static void bind_pack_dim(Ctx *ctx, Dimensions *dims, const char *name, int n,
                          const int64_t *extents) {
    Dimension bound = {name, n, 1, {0}};
    if (dims_find(dims, name)) return;
    for (int k = 0; k < n; k++) {
        bound.extents[k] = extents[k];
        bound.value *= extents[k];
    }
    vec_push(ctx, dims, bound);
}

/// Binds a name in `E + 1` or `E - 1` by that axis, unless something else binds it.
static void bind_sum(Ctx *ctx, Dimensions *dims, const Expr *e, int64_t extent) {
    if (e->kind != EX_BINARY || e->binary.a->kind != EX_NAME || e->binary.b->kind != EX_INT) return;
    int64_t n = (int64_t)e->binary.b->integer.value;
    if (e->binary.op == BI_ADD) dims_set(ctx, dims, e->binary.a->name, extent - n);
    if (e->binary.op == BI_SUB) dims_set(ctx, dims, e->binary.a->name, extent + n);
}

/// Binds axes from the left. A pack takes the axes that the plain dims leave.
void dims_bind(Ctx *ctx, Dimensions *dims, const TypeExpr *type, const Tensor *t, bool sums) {
    int plain = 0, axis = 0;
    for (int i = 0; i < type->dims.n; i++) plain += !type->dims.at[i].pack;
    int taken = t->rank - plain; // number of axes in the pack
    for (int i = 0; i < type->dims.n; i++) {
        const Dim *d = &type->dims.at[i];
        int n = d->pack ? taken : 1;
        if (n < 0 || axis + n > t->rank) return; // the compiler reports a wrong rank
        if (d->pack)
            bind_pack_dim(ctx, dims, d->expr->name, n, &t->extents[axis]);
        else if (sums)
            bind_sum(ctx, dims, d->expr, t->extents[axis]);
        else if (d->expr->kind == EX_NAME)
            dims_set(ctx, dims, d->expr->name, t->extents[axis]);
        axis += n;
    }
}

/* ---- arithmetic ---------------------------------------------------------------------------- */

static bool dimension_value(void *user, const Expr *e, int64_t *out) {
    const Dimension *d = dims_find(user, e->name);
    if (d) *out = d->value;
    return d != NULL;
}

bool dims_eval(const Dimensions *dims, const Expr *e, int64_t *out, const char **unknown) {
    Dimensions names = *dims;
    return expr_value(e, dimension_value, &names, out, unknown);
}

bool dims_extents(const Dimensions *dims, const TypeExpr *type, int *rank, int64_t *extents,
                  const char **unknown) {
    *rank = 0;
    for (int i = 0; i < type->dims.n; i++) {
        const Dim *d = &type->dims.at[i];
        const Dimension *pack = d->pack ? dims_find(dims, d->expr->name) : NULL;
        int n = d->pack ? (pack ? pack->pack : -1) : 1;
        *unknown = d->pack ? d->expr->name : NULL;
        if (n < 0 || *rank + n > MAX_RANK) return false;
        if (!d->pack && !dims_eval(dims, d->expr, &extents[*rank], unknown)) return false;
        if (d->pack) memcpy(&extents[*rank], pack->extents, sizeof *extents * (size_t)n);
        *rank += n;
    }
    for (int i = 0; i < *rank; i++) {
        *unknown = "a negative extent";
        if (extents[i] < 0) return false;
    }
    return true;
}

bool dims_tensor(const Dimensions *dims, const TypeExpr *type, Tensor *t) {
    const char *unknown;
    int64_t stride = 1;
    if (!dims_extents(dims, type, &t->rank, t->extents, &unknown)) return false;
    for (int d = t->rank - 1; d >= 0; d--) {
        t->strides[d] = stride;
        stride *= t->extents[d];
    }
    return true;
}
