// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Writes the text form of the IR. parse.c reads all of its output back to an equal module.
#include "ir/ir_private.h"
#include "ir/layout/layout.h"

#include <inttypes.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- types --------------------------------------------------------------------------------- */

static void print_extent(Text *out, int64_t extent) {
    if (extent == DYNAMIC)
        text_add(out, "?");
    else
        text_add(out, "%" PRId64, extent);
}

static void print_extents(Text *out, const Type *t) {
    for (int i = 0; i < t->rank; i++) {
        text_add(out, "%s", i ? "x" : "");
        print_extent(out, t->extents[i]);
    }
}

/// Whether any stride is known. Otherwise strides are not printed.
static bool has_known_stride(const Type *t) {
    for (int i = 0; i < t->rank; i++)
        if (t->strides[i] != DYNAMIC) return true;
    return false;
}

static void print_tensor(Text *out, const Type *t) {
    text_add(out, "tensor<%s%s", elem_info[t->elem].name, t->rank ? ", " : "");
    print_extents(out, t);
    if (has_known_stride(t)) {
        for (int i = 0; i < t->rank; i++) {
            text_add(out, "%s", i ? ", " : ", [");
            print_extent(out, t->strides[i]);
        }
        text_add(out, "]");
    }
    if (t->align) text_add(out, ", align %d", t->align);
    if (t->near) text_add(out, ", near");
    text_add(out, ">");
}

/// Buffers and descs.
static void print_placed(Text *out, const Type *t) {
    text_add(out, "%s<%s, ", t->kind == TK_BUF ? "buf" : "desc", elem_info[t->elem].name);
    if (t->layout)
        layout_print(out, t->layout);
    else
        print_extents(out, t);
    if (t->swizzle) text_add(out, ", swizzle %d", t->swizzle);
    if (t->swizzle || t->inner != t->rank - 1) text_add(out, ", inner %d", t->inner);
    if (t->pad) text_add(out, ", pad %d", t->pad);
    text_add(out, ">");
}

/// Prints rings and pending types.
static void print_parts(Text *out, const Type *t) {
    if (t->kind == TK_RING)
        text_add(out, "ring<%d", t->slots);
    else
        text_add(out, "pending<");
    for (int i = 0; i < t->n_parts; i++) {
        text_add(out, "%s", t->kind == TK_RING ? ", " : "");
        ir_print_type(out, t->parts[i]);
    }
    text_add(out, ">");
}

void ir_print_type(Text *out, const Type *t) {
    static void (*const others[])(Text *, const Type *) = {[TK_TENSOR] = print_tensor,
                                                           [TK_BUF] = print_placed,
                                                           [TK_RING] = print_parts,
                                                           [TK_PENDING] = print_parts,
                                                           [TK_DESC] = print_placed};
    if (t->kind != TK_BLOCK) {
        others[t->kind](out, t);
        return;
    }
    if (t->layout) {
        text_add(out, "%s", elem_info[t->elem].name);
        layout_print(out, t->layout);
        return;
    }
    text_add(out, "%s%s", elem_info[t->elem].name, t->rank ? "<" : "");
    print_extents(out, t);
    text_add(out, "%s", t->rank ? ">" : "");
}

char *type_text(Ctx *ctx, const Type *t) {
    Text out = {.ctx = ctx};
    ir_print_type(&out, t);
    return out.data;
}

/* ---- attributes ---------------------------------------------------------------------------- */

/// Prints a finite float with a dot, although the C library uses the decimal point of the host's
/// locale.
static void print_finite(Text *out, double v) {
    char digits[64];
    for (int precision = 6; precision <= 17; precision++) {
        snprintf(digits, sizeof digits, "%.*g", precision, v);
        if (strtod(digits, NULL) == v) break;
    }
    const char *point = localeconv()->decimal_point, *at = strstr(digits, point);
    if (at) {
        text_bytes(out, digits, (size_t)(at - digits));
        text_add(out, ".%s", at + strlen(point));
    } else {
        text_add(out, "%s%s", digits, strchr(digits, 'e') ? "" : ".0");
    }
}

/// NaNs other than the default one are printed with their bits.
static void print_float(Text *out, double v) {
    uint64_t bits;
    memcpy(&bits, &v, sizeof bits);
    if (isfinite(v))
        print_finite(out, v);
    else if (isinf(v))
        text_add(out, v < 0 ? "-inf" : "inf");
    else if (bits == QUIET_NAN)
        text_add(out, "nan");
    else
        text_add(out, "nan:0x%016" PRIx64, bits);
}

/// Prints ASCII as it is and escapes all other bytes, so the output is always ASCII.
static void print_quoted(Text *out, const char *s) {
    static const char escapes[] = {['\n'] = 'n', ['\t'] = 't', ['"'] = '"', ['\\'] = '\\'};
    text_add(out, "\"");
    for (; *s; s++) {
        unsigned char c = (unsigned char)*s;
        if (c < sizeof escapes && escapes[c])
            text_add(out, "\\%c", escapes[c]);
        else if (c < ' ' || c > '~')
            text_add(out, "\\x%02x", c);
        else
            text_bytes(out, s, 1);
    }
    text_add(out, "\"");
}

static void print_sub_dim(Text *out, const SubDim *d) {
    static const char *const names[] = {"at", "axis", "pick"};
    text_add(out, "%s", names[d->kind]);
    if (d->kind == DIM_AXIS) text_add(out, " %" PRId64, d->size);
    if (d->kind == DIM_AXIS && d->mul != 1) text_add(out, " * %" PRId64, d->mul);
}

/// The caller separates the items of lists.
static void print_item(Text *out, const Attr *a, int i) {
    switch (a->kind) {
    case AT_INTS: text_add(out, "%" PRId64, a->ints[i]); break;
    case AT_STRS: print_quoted(out, a->strs[i]); break;
    default: print_sub_dim(out, &a->subs[i]); break;
    }
}

void ir_print_attr(Text *out, const Attr *a) {
    bool subs = a->kind == AT_SUBS;
    switch (a->kind) {
    case AT_INT: text_add(out, "%" PRId64, a->i); return;
    case AT_FLOAT: print_float(out, a->f); return;
    case AT_BOOL: text_add(out, a->i ? "true" : "false"); return;
    case AT_STR: print_quoted(out, a->str); return;
    case AT_TYPE: ir_print_type(out, a->type); return;
    default: break;
    }
    text_add(out, subs ? "(" : "[");
    for (int i = 0; i < a->n; i++) {
        text_add(out, i ? ", " : "");
        print_item(out, a, i);
    }
    text_add(out, subs ? ")" : "]");
}

const char *row_attrs_text(Ctx *ctx, OpCode code) {
    Text out = {.ctx = ctx};
    text_add(&out, "%s", "");
    for (const uint8_t *a = op_info[code].attrs; *a; a++) {
        const AttrInfo *info = &attr_info[*a & ~OPTIONAL_ATTR];
        text_add(&out, "%s%s:%s%s", out.n ? " " : "", info->name, info->kind,
                 *a & OPTIONAL_ATTR ? "?" : "");
    }
    return out.data;
}

/* ---- ops ----------------------------------------------------------------------------------- */

/// Names are unique within an isolated op, so each kernel has its own.
typedef struct Printer {
    Text *out;
    bool locs;
    int depth;
    PtrMap names; // Value -> its text
    PtrMap taken; // interned text -> its Tally
    int unnamed;
} Printer;

/// Counts the values that wanted this name.
typedef struct Tally {
    int n;
} Tally;

bool is_name_char(int c) {
    return c == '_' || (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

/// Returns the hint with invalid bytes replaced. Names of digits alone are reserved for unnamed
/// values.
static const char *clean_name(Ctx *ctx, const char *hint) {
    char *name = ctx_format(ctx, "%s%s", hint[strspn(hint, "0123456789")] ? "" : "_", hint);
    for (char *c = name; *c; c++)
        if (!is_name_char((unsigned char)*c)) *c = '_';
    return ctx_name(ctx, name);
}

/// Returns the first free name of x, x_1, x_2, ...
static const char *free_name(Printer *p, const char *name) {
    Ctx *ctx = p->out->ctx;
    Tally *base = map_get(&p->taken, name);
    const char *free = name;
    while (base && map_get(&p->taken, free))
        free = ctx_name(ctx, ctx_format(ctx, "%s_%d", name, base->n++));
    Tally *tally = ctx_new(ctx, Tally);
    tally->n = 1;
    map_set(ctx, &p->taken, free, tally);
    return free;
}

/// Returns the name of a value, chosen at first sight. So any part of a module can be printed, even
/// with values from outside.
static const char *printed_name(Printer *p, const Value *v) {
    const char *name = map_get(&p->names, v);
    if (name) return name;
    Ctx *ctx = p->out->ctx;
    name = v->name && *v->name ? free_name(p, clean_name(ctx, v->name))
                               : ctx_format(ctx, "%d", p->unnamed++);
    map_set(ctx, &p->names, v, (void *)name);
    return name;
}

static void add_indent(Printer *p) {
    text_add(p->out, "%*s", 2 * p->depth, "");
}

static void print_operands(Printer *p, const Op *op) {
    for (int i = 0; i < op->n_operands; i++)
        text_add(p->out, "%s%%%s", i ? ", " : " ", printed_name(p, operand(op, i)));
}

static void print_results(Printer *p, const Op *op) {
    for (int i = 0; i < op->n_results; i++)
        text_add(p->out, "%s%%%s", i ? ", " : "", printed_name(p, result(op, i)));
    text_add(p->out, op->n_results ? " = " : "");
}

static void print_attrs(Printer *p, const Op *op) {
    for (int i = 0; i < op->n_attrs; i++) {
        text_add(p->out, "%s%s=", i ? ", " : " [", attr_info[op->attrs[i].id].name);
        ir_print_attr(p->out, op->attrs[i].value);
    }
    text_add(p->out, op->n_attrs ? "]" : "");
}

static void print_types(Printer *p, const Op *op) {
    for (int i = 0; i < op->n_results; i++) {
        text_add(p->out, i ? ", " : " : ");
        ir_print_type(p->out, result(op, i)->type);
    }
}

static void print_op(Printer *p, const Op *op);

static void print_region(Printer *p, const Region *r) {
    text_add(p->out, " {");
    for (int i = 0; i < r->n_args; i++) {
        text_add(p->out, "%s%%%s: ", i ? ", " : "(", printed_name(p, r->args[i]));
        ir_print_type(p->out, r->args[i]->type);
    }
    text_add(p->out, r->n_args ? ")\n" : "\n");
    p->depth++;
    for_each_op(inner, r) print_op(p, inner);
    p->depth--;
    add_indent(p);
    text_add(p->out, "}");
}

/// Values inside an isolated op get fresh names, since outer values are not visible there.
static void print_op(Printer *p, const Op *op) {
    add_indent(p);
    print_results(p, op);
    text_add(p->out, "%s", op_info[op->code].name);
    print_operands(p, op);
    print_attrs(p, op);
    print_types(p, op);
    if (p->locs && op->loc.line)
        text_add(p->out, " @ %u:%u", (unsigned)op->loc.line, (unsigned)op->loc.col);
    Printer inside = *p;
    if (op_has(op, ISOLATED)) {
        inside.names = inside.taken = (PtrMap){0};
        inside.unnamed = 0;
    }
    for (int i = 0; i < op->n_regions; i++) print_region(&inside, op->regions[i]);
    if (!op_has(op, ISOLATED)) *p = inside;
    text_add(p->out, "\n");
}

void ir_print(Text *out, const Op *op, bool locs) {
    Printer p = {.out = out, .locs = locs};
    print_op(&p, op);
}

char *ir_to_text(Ctx *ctx, const Op *op) {
    Text out = {.ctx = ctx};
    ir_print(&out, op, false);
    return out.data;
}
