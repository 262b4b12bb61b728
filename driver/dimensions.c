// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// See dimensions.h.
#include "driver/dimensions.h"

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
    Dimension bound = {name, n, extents_product(extents, n), {0}};
    if (dims_find(dims, name)) return;
    for (int k = 0; k < n; k++) bound.extents[k] = extents[k];
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
void dims_bind(Ctx *ctx, Dimensions *dims, const TypeExpr *type, int rank, const int64_t *extents,
               bool sums) {
    int plain = 0, axis = 0;
    for (int i = 0; i < type->dims.n; i++) plain += !type->dims.at[i].pack;
    int taken = rank - plain; // number of axes in the pack
    for (int i = 0; i < type->dims.n; i++) {
        const Dim *d = &type->dims.at[i];
        int n = d->pack ? taken : 1;
        if (n < 0 || axis + n > rank) return; // the compiler reports a wrong rank
        if (d->pack)
            bind_pack_dim(ctx, dims, d->expr->name, n, &extents[axis]);
        else if (sums)
            bind_sum(ctx, dims, d->expr, extents[axis]);
        else if (d->expr->kind == EX_NAME)
            dims_set(ctx, dims, d->expr->name, extents[axis]);
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
                  NoShape *why) {
    *rank = 0;
    for (int i = 0; i < type->dims.n; i++) {
        const Dim *d = &type->dims.at[i];
        const Dimension *pack = d->pack ? dims_find(dims, d->expr->name) : NULL;
        int n = d->pack ? (pack ? pack->pack : -1) : 1;
        *why = (NoShape){d->pack ? d->expr->name : "", "is not known"};
        if (n < 0) return false;
        if (*rank + n > MAX_RANK) {
            *why = (NoShape){"its rank", "is above 8"};
            return false;
        }
        if (!d->pack && !dims_eval(dims, d->expr, &extents[*rank], &why->subject)) return false;
        if (d->pack) memcpy(&extents[*rank], pack->extents, sizeof *extents * (size_t)n);
        *rank += n;
    }
    *why = (NoShape){"an extent", "is negative"};
    for (int i = 0; i < *rank; i++)
        if (extents[i] < 0) return false;
    return true;
}

bool dims_tensor(const Dimensions *dims, const TypeExpr *type, Tensor *t) {
    NoShape why;
    if (!dims_extents(dims, type, &t->rank, t->extents, &why)) return false;
    for (int d = t->rank - 1; d >= 0; d--)
        t->strides[d] = extents_product(&t->extents[d + 1], t->rank - d - 1);
    return true;
}

/* ---- names that no tensor binds ------------------------------------------------------------ */

void dims_constants(Ctx *ctx, Dimensions *dims, const Program *program) {
    const Items *items = &program->main->items;
    for (int i = 0; i < items->n; i++) {
        int64_t v;
        if (items->at[i].kind == IT_CONST && dims_eval(dims, items->at[i].constant.value, &v, NULL))
            dims_set(ctx, dims, items->at[i].constant.name.text, v);
    }
}

/// Binds an unknown name to a known expression. False: nothing is new.
static bool bind_equal(Ctx *ctx, Dimensions *dims, const Expr *name, const Expr *value) {
    int64_t v;
    if (name->kind != EX_NAME || dims_find(dims, name->name)) return false;
    if (!dims_eval(dims, value, &v, NULL)) return false;
    dims_set(ctx, dims, name->name, v);
    return true;
}

static bool bind_condition(Ctx *ctx, Dimensions *dims, const Expr *e) {
    if (e->kind != EX_BINARY) return false;
    const Expr *a = e->binary.a, *b = e->binary.b;
    if (e->binary.op == BI_AND) {
        bool left = bind_condition(ctx, dims, a);
        return bind_condition(ctx, dims, b) || left;
    }
    return e->binary.op == BI_EQ && (bind_equal(ctx, dims, a, b) || bind_equal(ctx, dims, b, a));
}

/// Each round binds a name or is the last one.
void dims_require(Ctx *ctx, Dimensions *dims, const FnDef *kernel) {
    for (bool more = true; more;) {
        more = false;
        for (int c = 0; c < kernel->clauses.n; c++) {
            const Clause *clause = &kernel->clauses.at[c];
            if (clause->kind != CL_REQUIRE) continue;
            for (int i = 0; i < clause->conditions.n; i++)
                more |= bind_condition(ctx, dims, clause->conditions.at[i]);
        }
    }
}
