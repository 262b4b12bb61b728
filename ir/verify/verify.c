// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The verifier: checks every op against its row in ops.def, and checks regions and values. Rules of
// single ops are in verify_ops.c.
//
// It tells two kinds of errors apart. IR that breaks a rule is reported as a diagnostic, since a
// user of tegula-opt may have written it. Links that contradict each other (use lists, parents) can
// only come from a bug in C code, and end the compilation as a compiler bug.
//
// Dominance: a region has one straight list of ops, so a value is visible from its definition to
// the end of its region and in nested regions. The walk marks values at their definition and
// unmarks them at the end of their region. The mark is the enclosing isolated op, so a kernel does
// not see values of another scope.
#include "ir/verify/verify.h"

#include "lang/diag.h"

void verify_fail(Verifier *v, const Op *op, const char *found, const char *expected, ...) {
    va_list ap;
    va_start(ap, expected);
    const char *text = ctx_vformat(v->ctx, expected, ap);
    va_end(ap);
    v->failures++;
    diag(v->ctx, op->loc, D_IR_INVALID, op_info[op->code].name, text, found);
}

/* ---- the row ------------------------------------------------------------------------------- */

static void verify_count(Verifier *v, const Op *op, const char *what, int found, int expected) {
    if (expected != ANY && found != expected)
        verify_fail(v, op, ctx_format(v->ctx, "%d", found), "%d %s%s", expected, what,
                    expected == 1 ? "" : "s");
}

/// Checks that each attribute is in the row and of its kind, and that no required one is missing.
static void verify_attrs(Verifier *v, const Op *op) {
    for (int i = 0; i < op->n_attrs; i++) {
        const NamedAttr *a = &op->attrs[i];
        const AttrInfo *info = &attr_info[a->id];
        if (!op_row_has(op->code, a->id)) {
            const char *all = row_attrs_text(v->ctx, op->code);
            verify_fail(v, op, info->name, *all ? "only the attributes %s" : "no attributes%s",
                        all);
        } else if (!(info->kinds >> a->value->kind & 1)) {
            Text found = {.ctx = v->ctx};
            ir_print_attr(&found, a->value);
            verify_fail(v, op, found.data, "attribute '%s' of kind %s", info->name, info->kind);
        } else if (info->words) {
            want_word(v, op, a->id, ~0u);
        }
    }
    for (const uint8_t *a = op_info[op->code].attrs; *a; a++)
        if (!(*a & OPTIONAL_ATTR) && !op_attr(op, (AttrId)*a))
            verify_fail(v, op, "none", "attribute '%s' of kind %s", attr_info[*a].name,
                        attr_info[*a].kind);
}

/// Returns "integer or float".
static const char *class_names(Ctx *ctx, int classes) {
    static const struct {
        int cls;
        const char *name;
    } rows[] = {{EC_BOOL, "bool"}, {EC_INT, "integer"}, {EC_FLOAT, "float"}};
    Text t = {.ctx = ctx};
    for (int i = 0; i < 3; i++)
        if (classes & rows[i].cls) text_add(&t, "%s%s", t.n ? " or " : "", rows[i].name);
    return t.data;
}

/// Whether ops may compute with the element. i4 and u4 exist only in memory and in casts.
static bool is_computed(Elem e) {
    return elem_info[e].bits >= 8;
}

/// Checks SAME and ELEMENTWISE: all types are equal and of the row's classes; the result of
/// COMPARES is bool.
static void verify_lanes(Verifier *v, const Op *op) {
    const OpInfo *info = &op_info[op->code];
    if (!(info->traits & (SAME | ELEMENTWISE)) || !op->n_operands) return;
    const Type *type = operand(op, 0)->type;
    bool classed =
        !info->classes || (elem_is(type->elem, info->classes) && is_computed(type->elem));
    if (!ty_is_block(type) || !classed)
        verify_fail(v, op, type_text(v->ctx, type), "%s operands",
                    info->classes ? class_names(v->ctx, info->classes) : "block");
    for (int i = 1; i < op->n_operands; i++)
        if (operand(op, i)->type != type)
            verify_fail(v, op, type_text(v->ctx, operand(op, i)->type),
                        "operand %d to be %s like the first", i + 1, type_text(v->ctx, type));
    const Type *want = info->traits & COMPARES ? ty_with_elem(v->ir, type, EL_BOOL) : type;
    for (int i = 0; i < op->n_results; i++)
        if (result(op, i)->type != want)
            verify_fail(v, op, type_text(v->ctx, result(op, i)->type), "result %s",
                        type_text(v->ctx, want));
}

/* ---- values -------------------------------------------------------------------------------- */

/// Checks that a block has lanes, and not so many that their count overflows.
static void verify_type(Verifier *v, const Op *op, const Type *t) {
    int64_t n = 1;
    bool ok = true;
    for (int i = 0; i < t->rank && ok; i++) {
        bool known = t->extents[i] != DYNAMIC;
        ok = t->kind == TK_TENSOR ? !known || t->extents[i] >= 0
                                  : t->extents[i] >= 1 && t->extents[i] <= MAX_LANES / n;
        n *= t->kind != TK_TENSOR && ok ? t->extents[i] : 1;
    }
    if (!ok) verify_fail(v, op, type_text(v->ctx, t), "extents from 1, at most 2^40 lanes");
}

static bool is_visible(Verifier *v, const Value *x) {
    if (map_get(&v->visible, x) == v->scope) return true;
    // The surroundings of the root are not verified.
    return v->scope == v->root && v->root->parent && !value_is_inside(x, v->root);
}

/// Returns "add %x", enough to find the definition.
static const char *value_text(Verifier *v, const Value *x) {
    const char *kind = x->def ? op_info[x->def->code].name : "a region argument";
    return ctx_format(v->ctx, "%s%s%s", kind, x->name ? " %" : "", x->name ? x->name : "");
}

/// Checks that the uses are linked both ways, and that the values are visible here.
static void verify_operands(Verifier *v, const Op *op) {
    for (int i = 0; i < op->n_operands; i++) {
        const Use *u = &op->operands[i];
        if (!u->value || u->user != op || u->index != i || !u->link || *u->link != u)
            ice(v->ctx, op->loc, "use list of operand %d of `%s` is broken", i + 1,
                op_info[op->code].name);
        if (!is_visible(v, u->value))
            verify_fail(v, op, value_text(v, u->value),
                        "operand %d to be a value that is defined before it", i + 1);
    }
}

/* ---- places -------------------------------------------------------------------------------- */

/// Checks the op's parent and its place at the end of a region.
static void verify_place(Verifier *v, const Op *op) {
    const Region *r = op->parent;
    bool top = op->code == OP_KERNEL || op->code == OP_FUNC || op->code == OP_DEVICE;
    if (!r) return;
    const char *outer = op_info[r->parent->code].name;
    if (op->code == OP_MODULE)
        verify_fail(v, op, outer, "nothing around it");
    else if (top != (r->parent->code == OP_MODULE))
        verify_fail(v, op, outer,
                    top ? "a module around it" : "a kernel, func or device around it");
    const Op *program = op_enclosing(op, OP_PARALLEL);
    program = program ? program : op_enclosing(op, OP_LAUNCH);
    program = program ? program : op_enclosing(op, OP_DEVICE);
    if (op_has(op, HOST) && program)
        verify_fail(v, op, op_info[program->code].name, "no program around it");
    if (op_has(op, TERMINATOR) && op->next)
        verify_fail(v, op, op_info[op->next->code].name, "nothing after it in its region");
}

static void verify_op(Verifier *v, const Op *op);

static void verify_region(Verifier *v, const Op *op, const Region *r) {
    if (r->parent != op)
        ice(v->ctx, op->loc, "a region of `%s` has another parent", op_info[op->code].name);
    for (int i = 0; i < r->n_args; i++) {
        verify_type(v, op, r->args[i]->type);
        map_set(v->ctx, &v->visible, r->args[i], (void *)v->scope);
    }
    for_each_op(inner, r) {
        if (inner->parent != r || *(inner->prev ? &inner->prev->next : &r->first) != inner)
            ice(v->ctx, inner->loc, "`%s` is linked wrongly", op_info[inner->code].name);
        verify_op(v, inner);
    }
    if (op->code != OP_MODULE && !(r->last && op_has(r->last, TERMINATOR)))
        verify_fail(v, op, r->last ? op_info[r->last->code].name : "nothing",
                    "yield at the end of its region");
    // At the end of the region, its values are no longer visible.
    for (int i = 0; i < r->n_args; i++) map_set(v->ctx, &v->visible, r->args[i], NULL);
    for_each_op(inner, r) for (int i = 0; i < inner->n_results; i++)
        map_set(v->ctx, &v->visible, result(inner, i), NULL);
}

/// Checks the row of op. Rules may then use the op's values safely.
static void verify_row(Verifier *v, const Op *op) {
    const OpInfo *info = &op_info[op->code];
    verify_count(v, op, "operand", op->n_operands, info->n_operands);
    verify_count(v, op, "result", op->n_results, info->n_results);
    verify_count(v, op, "region", op->n_regions, info->n_regions);
    verify_attrs(v, op);
    verify_operands(v, op);
    for (int i = 0; i < op->n_results; i++) verify_type(v, op, result(op, i)->type);
}

/// Rules run only on ops that agree with their row, so they need no guards.
static void verify_op(Verifier *v, const Op *op) {
    int before = v->failures;
    verify_place(v, op);
    verify_row(v, op);
    if (v->failures == before) verify_lanes(v, op);
    if (v->failures == before && verify_rules[op->code]) verify_rules[op->code](v, op);
    const Op *scope = v->scope;
    if (op_has(op, ISOLATED)) v->scope = op;
    for (int i = 0; i < op->n_regions; i++) verify_region(v, op, op->regions[i]);
    v->scope = scope;
    for (int i = 0; i < op->n_results; i++)
        map_set(v->ctx, &v->visible, result(op, i), (void *)v->scope);
}

bool ir_verify(Ir *ir, const Op *op) {
    Verifier v = {.ir = ir, .ctx = ir->ctx, .root = op, .scope = op};
    verify_op(&v, op);
    return v.failures == 0;
}
