// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Describes a kernel as its source declares it, for the runtime and for headers.
#include "cache/store.h"
#include "driver/driver_private.h"
#include "frontend/program.h"
#include "runtime/tegula/dlpack.h"

#include <string.h>

/* ---- element types ------------------------------------------------------------------------- */

// Types whose DLPack code does not follow from their class. f8e4m3, which has no infinities, is the
// "fn" type of other libraries.
static const struct {
    Elem elem;
    DLDataTypeCode code;
} dlpack_floats[] = {
    {EL_BOOL, kDLBool},
    {EL_BF16, kDLBfloat},
    {EL_F8E4M3, kDLFloat8_e4m3fn},
    {EL_F8E5M2, kDLFloat8_e5m2},
};
enum { N_FLOATS = sizeof dlpack_floats / sizeof *dlpack_floats };

void elem_dlpack(Elem e, uint8_t *code, uint8_t *bits) {
    *bits = (uint8_t)elem_info[e].bits;
    *code = elem_is(e, EC_SINT) ? kDLInt : elem_is(e, EC_UINT) ? kDLUInt : kDLFloat;
    for (int i = 0; i < N_FLOATS; i++)
        if (dlpack_floats[i].elem == e) *code = (uint8_t)dlpack_floats[i].code;
}

Elem elem_of_dlpack(uint8_t code, uint8_t bits) {
    for (int e = 0; e < EL_COUNT; e++) {
        uint8_t c, b;
        elem_dlpack((Elem)e, &c, &b);
        if (c == code && b == bits) return (Elem)e;
    }
    return EL_COUNT;
}

_Static_assert((int)MAX_RANK == (int)TG_MAX_RANK, "the compiler and the runtime agree on ranks");
_Static_assert((int)MAX_PARAMS == (int)TG_MAX_PARAMS, "and on parameters");
_Static_assert((int)MAX_TYPE_PARAMS == (int)TG_MAX_TYPES, "and on those of types");

/* ---- parameters ---------------------------------------------------------------------------- */

/// Returns the name of a tensor type's pack and its index among the dims. NULL: no pack.
static const char *pack_of(const Param *p, int *at) {
    for (int i = 0; param_is_tensor(p) && i < p->type->dims.n; i++) {
        if (!p->type->dims.at[i].pack) continue;
        *at = i;
        return p->type->dims.at[i].expr->name;
    }
    return NULL;
}

/// Packs are numbered in the order in which parameters name them.
static int pack_number(const FnDef *f, const char *name) {
    int n = 0, at;
    for (int i = 0; i < f->params.n; i++) {
        const char *other = pack_of(&f->params.at[i], &at);
        bool seen = false;
        for (int k = 0; other && k < i; k++) seen |= pack_of(&f->params.at[k], &at) == other;
        if (other == name) return n;
        n += other && !seen;
    }
    return -1;
}

/// The element type as written, or the type parameter. `const n` without a type is an i64.
static void type_info(const FnDef *f, const Param *p, tg_param_info *out) {
    const char *name = p->type ? p->type->elem.text : "";
    out->type = (int8_t)fn_generic(f, name);
    Elem e = elem_by_name(name);
    if (e == EL_COUNT && p->constant) e = EL_I64;
    if (out->type >= 0 || e == EL_COUNT) return;
    elem_dlpack(e, &out->code, &out->bits);
    if (e == EL_BOOL) out->flags |= TG_PARAM_BOOL;
}

static void param_info(const FnDef *f, const Param *p, ParamAccess access, tg_param_info *out) {
    int at = -1;
    const char *pack = pack_of(p, &at);
    *out = (tg_param_info){.name = p->name.text, .pack_at = (int8_t)at, .pack = -1};
    out->kind = p->constant          ? TG_PARAM_CONST
                : param_is_tensor(p) ? TG_PARAM_TENSOR
                                     : TG_PARAM_SCALAR;
    if (p->optional) out->flags |= TG_PARAM_OPTIONAL;
    if (param_is_tensor(p) && p->type->sym) out->flags |= TG_PARAM_SYM;
    if (param_is_tensor(p)) {
        out->rank = (int8_t)(p->type->dims.n - (pack != NULL));
        if (access.written) out->flags |= TG_PARAM_WRITTEN;
        if (access.written && access.read) out->flags |= TG_PARAM_READ;
    }
    if (pack) out->pack = (int8_t)pack_number(f, pack);
    type_info(f, p, out);
}

/* ---- the kernel ---------------------------------------------------------------------------- */

/// "kernel softmax<T: float>(x: T[R, N], y: T[R, N])"
static const char *kernel_signature(Ctx *ctx, const FnDef *f) {
    Text t = {.ctx = ctx};
    text_add(&t, "kernel %s", f->name.text);
    for (int i = 0; i < f->generics.n; i++) {
        const Generic *g = &f->generics.at[i];
        text_add(&t, "%s%s", i ? ", " : "<", g->name.text);
        for (int k = 0; k < g->constraint.n; k++)
            text_add(&t, "%s%s", k ? " | " : ": ", g->constraint.at[k].text);
    }
    text_add(&t, "%s(", f->generics.n ? ">" : "");
    for (int i = 0; i < f->params.n; i++) {
        const Param *p = &f->params.at[i];
        text_add(&t, "%s%s: %s", i ? ", " : "", p->name.text, p->constant ? "const " : "");
        if (p->type) ast_print_type(&t, p->type);
        if (p->optional) text_add(&t, "?");
    }
    text_add(&t, ")");
    return t.data;
}

/// Hashes all files but the library's, for comparison between ranks. Never 0.
static uint32_t hash_sources(const Program *p) {
    uint64_t sum = 0;
    for (int i = 0; i < p->files.n; i++) {
        size_t n;
        uint64_t hash;
        if (p->files.data[i].library) continue;
        const char *text = ctx_source_text(p->ctx, p->files.data[i].module->file, &n);
        StoreKey key = store_hash(text, n);
        memcpy(&hash, key.bytes, sizeof hash);
        sum = sum * 31 + hash;
    }
    return (uint32_t)(sum ^ sum >> 32) | 1;
}

tg_kernel_info *kernel_info(Ctx *ctx, const Program *p, const FnDef *f) {
    tg_kernel_info *info = ctx_new(ctx, tg_kernel_info);
    tg_param_info *params = ctx_array(ctx, tg_param_info, f->params.n + 1);
    const ParamAccess *access = param_accesses(p, f);
    const bool *steers = steering_scalars(p, f);
    for (int i = 0; i < f->params.n; i++) {
        param_info(f, &f->params.at[i], access[i], &params[i]);
        if (steers[i] && params[i].kind != TG_PARAM_TENSOR) params[i].flags |= TG_PARAM_STEERS;
    }
    *info = (tg_kernel_info){.name = f->name.text,
                             .signature = kernel_signature(ctx, f),
                             .params = params,
                             .n_params = f->params.n,
                             .n_types = f->generics.n,
                             .source = (int32_t)hash_sources(p)};
    return info;
}
