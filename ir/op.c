// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Operations: the table of ops; reading, changing, moving, copying and walking ops; use lists.
//
// A value heads a doubly linked list of its uses; a use lives in the operand array of its user. So
// the time to replace a value or drop an operand depends only on the uses concerned. Arrays grow by
// copying into the arena, so a use must be unlinked before it moves and linked again in its new
// place.
#include "ir/ir_private.h"

#include <string.h>

// A row without COST(...) does not compile, nor one with an attribute that lang/attrs.def lacks.
#define ROW_COST(model, layout, fusion)                                                            \
    { model, layout, fusion }
#define NEEDS(id) ATTR_##id,
#define MAY(id)   ATTR_##id | OPTIONAL_ATTR,
#define NO_ATTRS
_Static_assert((int)ATTR_COUNT <= OPTIONAL_ATTR, "an AttrId leaves room for the mark");

const OpInfo op_info[OP_COUNT] = {
#define OP(id, name, n_operands, n_results, n_regions, traits, cost, classes, attrs, doc)          \
    [OP_##id] = {name,    n_operands, n_results,  n_regions, traits,                               \
                 classes, {attrs 0},  ROW_##cost, doc},
#include "lang/ops.def"
};

OpCode op_by_name(const char *name) {
    int code = 0;
    while (code < OP_COUNT && strcmp(op_info[code].name, name) != 0) code++;
    return (OpCode)code;
}

/* ---- attributes ---------------------------------------------------------------------------- */

#define KIND_INT   "int", 1 << AT_INT
#define KIND_BOOL  "bool", 1 << AT_BOOL
#define KIND_STR   "str", 1 << AT_STR
#define KIND_INTS  "ints", 1 << AT_INTS
#define KIND_STRS  "strs", 1 << AT_STRS
#define KIND_SUBS  "subs", 1 << AT_SUBS
#define KIND_CONST "const", 1 << AT_INT | 1 << AT_FLOAT | 1 << AT_BOOL

static const char *const words_of_DotPrecision[] = {
#define PRECISION(id, word) word,
#include "lang/enums.def"
    NULL};
static const char *const words_of_Update[] = {
#define UPDATE(id, word) word,
#include "lang/enums.def"
    NULL};
static const char *const words_of_Compare[] = {
#define COMPARE(id, word) word,
#include "lang/enums.def"
    NULL};
static const char *const words_of_FoldOrder[] = {
#define FOLD_ORDER(id, word) word,
#include "lang/enums.def"
    NULL};
static const char *const words_of_Caching[] = {
#define CACHING(id, word) word,
#include "lang/enums.def"
    NULL};
static const char *const words_of_Rounding[] = {
#define ROUNDING(id, word) word,
#include "lang/enums.def"
    NULL};
static const char *const words_of_Filler[] = {
#define FILLER(id, word) word,
#include "lang/enums.def"
    NULL};
static const char *const words_of_TransferPlan[] = {
#define TRANSFER(id, word) word,
#include "lang/enums.def"
    NULL};

const AttrInfo attr_info[ATTR_COUNT] = {
    [ATTR_NONE] = {"", "", 0, "", NULL},
#define ATTR(kind, id, name, doc) [ATTR_##id] = {name, KIND_##kind, doc, NULL},
#define ENUM_ATTR(id, name, getter, type, doc)                                                     \
    [ATTR_##id] = {name, "enum", 1 << AT_STR, doc, words_of_##type},
#include "lang/attrs.def"
};

AttrId attr_by_name(const char *name) {
    for (int id = ATTR_NONE + 1; id < ATTR_COUNT; id++)
        if (strcmp(attr_info[id].name, name) == 0) return (AttrId)id;
    return ATTR_NONE;
}

bool op_row_has(OpCode code, AttrId id) {
    const uint8_t *row = op_info[code].attrs;
    while (*row && (*row & ~OPTIONAL_ATTR) != (int)id) row++;
    return *row;
}

/// Ops have few attributes, so a list is faster than a map.
static NamedAttr *find_attr(const Op *op, AttrId id) {
    for (int i = 0; i < op->n_attrs; i++)
        if (op->attrs[i].id == id) return &op->attrs[i];
    return NULL;
}

const Attr *op_attr(const Op *op, AttrId id) {
    const NamedAttr *a = find_attr(op, id);
    return a ? a->value : NULL;
}

/// The value, if it is of that kind. Until it is verified, parsed IR may have one of another kind.
static const Attr *typed_attr(const Op *op, int id, AttrKind kind) {
    const Attr *a = op_attr(op, (AttrId)id);
    return a && a->kind == kind ? a : NULL;
}

int64_t op_int(const Op *op, IntAttr name, int64_t otherwise) {
    const Attr *a = typed_attr(op, name, AT_INT);
    return a ? a->i : otherwise;
}

bool op_flag(const Op *op, BoolAttr name) {
    const Attr *a = typed_attr(op, name, AT_BOOL);
    return a && a->i;
}

const char *op_str(const Op *op, StrAttr name) {
    const Attr *a = typed_attr(op, name, AT_STR);
    return a ? a->str : NULL;
}

const Attr *op_ints(const Op *op, IntsAttr name) {
    return typed_attr(op, name, AT_INTS);
}

const Attr *op_strs(const Op *op, StrsAttr name) {
    return typed_attr(op, name, AT_STRS);
}

const Attr *op_subs(const Op *op, SubsAttr name) {
    return typed_attr(op, name, AT_SUBS);
}

const Attr *op_const(const Op *op, ConstAttr name) {
    return op_attr(op, (AttrId)name);
}

void op_put_attr(Ir *ir, Op *op, AttrId id, const Attr *value) {
    NamedAttr *a = find_attr(op, id);
    if (a && value) {
        a->value = value;
    } else if (a) {
        NamedAttr *end = op->attrs + op->n_attrs--;
        memmove(a, a + 1, (size_t)(end - a - 1) * sizeof *a);
    } else if (value) {
        NamedAttr *grown = ctx_array(ir->ctx, NamedAttr, op->n_attrs + 1);
        if (op->n_attrs) memcpy(grown, op->attrs, (size_t)op->n_attrs * sizeof *grown);
        grown[op->n_attrs++] = (NamedAttr){id, value};
        op->attrs = grown;
    }
}

void op_set_attr(Ir *ir, Op *op, AttrId id, const Attr *value) {
    if (value && !(op_row_has(op->code, id) && attr_info[id].kinds >> value->kind & 1))
        ice(ir->ctx, op->loc, "`%s` has no attribute '%s' of that kind", op_info[op->code].name,
            attr_info[id].name);
    op_put_attr(ir, op, id, value);
}

void op_copy_attr(Ir *ir, Op *to, const Op *from, AttrId id) {
    op_set_attr(ir, to, id, op_attr(from, id));
}

void op_set_int(Ir *ir, Op *op, IntAttr name, int64_t v) {
    op_set_attr(ir, op, (AttrId)name, at_int(ir, v));
}

void op_set_flag(Ir *ir, Op *op, BoolAttr name, bool v) {
    op_set_attr(ir, op, (AttrId)name, v ? at_bool(ir, true) : NULL);
}

void op_set_str(Ir *ir, Op *op, StrAttr name, const char *v) {
    op_set_attr(ir, op, (AttrId)name, v ? at_str(ir, v) : NULL);
}

void op_set_ints(Ir *ir, Op *op, IntsAttr name, const int64_t *v, int n) {
    op_set_attr(ir, op, (AttrId)name, v ? at_ints(ir, v, n) : NULL);
}

void op_set_strs(Ir *ir, Op *op, StrsAttr name, const char *const *v, int n) {
    op_set_attr(ir, op, (AttrId)name, v ? at_strs(ir, v, n) : NULL);
}

void op_set_subs(Ir *ir, Op *op, SubsAttr name, const SubDim *v, int n) {
    op_set_attr(ir, op, (AttrId)name, v ? at_subs(ir, v, n) : NULL);
}

void op_set_const(Ir *ir, Op *op, ConstAttr name, const Attr *v) {
    op_set_attr(ir, op, (AttrId)name, v);
}

/* ---- attributes that hold a word of a set -------------------------------------------------- */

int attr_value_of(AttrId id, const char *word) {
    const char *const *words = attr_info[id].words;
    for (int i = 0; words[i]; i++)
        if (strcmp(words[i], word) == 0) return i + 1;
    return 0;
}

static int enum_value(const Op *op, AttrId id) {
    const Attr *a = typed_attr(op, id, AT_STR);
    return a ? attr_value_of(id, a->str) : 0;
}

static void set_enum(Ir *ir, Op *op, AttrId id, int v) {
    op_set_attr(ir, op, id, v ? at_str(ir, attr_info[id].words[v - 1]) : NULL);
}

#define ENUM_ATTR(id, name, getter, type, doc)                                                     \
    type op_##getter(const Op *op) {                                                               \
        return (type)enum_value(op, ATTR_##id);                                                    \
    }                                                                                              \
    void op_set_##getter(Ir *ir, Op *op, type v) {                                                 \
        set_enum(ir, op, ATTR_##id, (int)v);                                                       \
    }                                                                                              \
    const char *getter##_word(type v) {                                                            \
        return v ? attr_info[ATTR_##id].words[v - 1] : NULL;                                       \
    }                                                                                              \
    type getter##_of_word(const char *word) {                                                      \
        return (type)attr_value_of(ATTR_##id, word);                                               \
    }
#include "lang/attrs.def"

OpCode op_of_update(Update update) {
    static const OpCode ops[] = {
        [UPDATE_ADD] = OP_ADD, [UPDATE_MAX] = OP_MAX, [UPDATE_MIN] = OP_MIN,
        [UPDATE_AND] = OP_AND, [UPDATE_OR] = OP_OR,   [UPDATE_XOR] = OP_XOR};
    return update >= UPDATE_ADD && update <= UPDATE_XOR ? ops[update] : OP_COUNT;
}

bool compare_holds(Compare compare, int64_t x, int64_t y) {
    switch (compare) {
    case COMPARE_EQ: return x == y;
    case COMPARE_NE: return x != y;
    case COMPARE_GT: return x > y;
    case COMPARE_LT: return x < y;
    case COMPARE_LE: return x <= y;
    case COMPARE_ABSENT:
    case COMPARE_GE: break;
    }
    return x >= y;
}

/* ---- operands and uses --------------------------------------------------------------------- */

void use_link(Op *user, int index, Value *v) {
    Use *u = &user->operands[index];
    *u = (Use){v, user, index, v->uses, &v->uses};
    if (u->next) u->next->link = &u->next;
    v->uses = u;
}

/// Unlinks a use. It stays in its array; the caller links it again or drops it.
static void use_unlink(Use *u) {
    *u->link = u->next;
    if (u->next) u->next->link = u->link;
}

static void drop_operands(Op *op) {
    for (int i = 0; i < op->n_operands; i++) use_unlink(&op->operands[i]);
    op->n_operands = 0;
}

void op_set_operand(Op *op, int i, Value *v) {
    use_unlink(&op->operands[i]);
    use_link(op, i, v);
}

/// The old array is reused if it is large enough.
void op_set_operands(Ir *ir, Op *op, int n, Value *const *values) {
    Use *room = n > op->n_operands ? ctx_array(ir->ctx, Use, n) : op->operands;
    drop_operands(op);
    op->operands = room;
    op->n_operands = n;
    for (int i = 0; i < n; i++) use_link(op, i, values[i]);
}

void op_add_operand(Ir *ir, Op *op, Value *v) {
    int n = op->n_operands;
    Value **values = ctx_array(ir->ctx, Value *, n + 1);
    for (int i = 0; i < n; i++) values[i] = operand(op, i);
    values[n] = v;
    op_set_operands(ir, op, n + 1, values);
}

void value_replace(Value *old, Value *with) {
    if (old == with) return;
    while (old->uses) op_set_operand(old->uses->user, old->uses->index, with);
    if (!with->name) with->name = old->name;
}

bool value_has_uses(const Value *v) {
    return v->uses != NULL;
}

bool value_has_one_use(const Value *v) {
    return v->uses && !v->uses->next;
}

Op *value_user(const Value *v, OpCode code) {
    for_each_use(u, v) if (u->user->code == code) return u->user;
    return NULL;
}

/* ---- places -------------------------------------------------------------------------------- */

void region_insert(Region *r, Op *before, Op *op) {
    op->parent = r;
    op->next = before;
    op->prev = before ? before->prev : r->last;
    *(op->prev ? &op->prev->next : &r->first) = op;
    *(before ? &before->prev : &r->last) = op;
}

void op_unlink(Op *op) {
    Region *r = op->parent;
    if (!r) return;
    *(op->prev ? &op->prev->next : &r->first) = op->next;
    *(op->next ? &op->next->prev : &r->last) = op->prev;
    op->parent = NULL;
    op->prev = op->next = NULL;
}

/// Nested ops disappear together with op, so their uses of outer values must go too.
static void drop_all_uses(Op *op, void *arg) {
    (void)arg;
    drop_operands(op);
}

void op_erase(Op *op) {
    op_walk_post(op, drop_all_uses, NULL);
    op_unlink(op);
}

void op_move_before(Op *op, Op *before) {
    if (op == before) return;
    op_unlink(op);
    region_insert(before->parent, before, op);
}

void op_move_to_end(Op *op, Region *r) {
    op_unlink(op);
    region_insert(r, NULL, op);
}

/* ---- copies -------------------------------------------------------------------------------- */

/// Returns the replacement of v in a copy; values from outside of the copied part stay.
static Value *mapped_operand(const PtrMap *map, Value *v) {
    Value *with = map_get(map, v);
    return with ? with : v;
}

/// Copies the region's arguments and ops, including the terminator.
static void clone_ops(Ir *ir, Region *to, const Region *from, PtrMap *map) {
    Builder b = build_at_end(ir, to, (Loc){0});
    for (int i = 0; i < from->n_args; i++) {
        Value *arg = from->args[i];
        map_set(ir->ctx, map, arg, region_add_arg(ir, to, arg->type, arg->name));
    }
    for_each_op(inner, from) op_clone(&b, inner, map);
}

Op *op_clone(Builder *b, const Op *op, PtrMap *map) {
    Ctx *ctx = b->ir->ctx;
    Value **operands = ctx_array(ctx, Value *, op->n_operands);
    for (int i = 0; i < op->n_operands; i++) operands[i] = mapped_operand(map, operand(op, i));
    const Type **types = ctx_array(ctx, const Type *, op->n_results);
    for (int i = 0; i < op->n_results; i++) types[i] = result(op, i)->type;
    Op *copy = build_op(b, op->code, op->n_operands, operands, op->n_results, types, op->n_regions);
    copy->loc = op->loc;
    copy->attrs = ctx_copy(ctx, op->attrs, (size_t)op->n_attrs * sizeof *op->attrs);
    copy->n_attrs = op->n_attrs;
    for (int i = 0; i < op->n_results; i++) {
        result(copy, i)->name = result(op, i)->name;
        map_set(ctx, map, result(op, i), result(copy, i));
    }
    for (int i = 0; i < op->n_regions; i++) clone_ops(b->ir, copy->regions[i], op->regions[i], map);
    return copy;
}

void region_clone_body(Builder *b, const Region *r, PtrMap *map) {
    for_each_op(op, r) {
        if (!op_has(op, TERMINATOR)) op_clone(b, op, map);
    }
}

/// The regions move, so pointers into them stay valid. The old results keep their users.
Op *op_add_results(Ir *ir, Op *op, int n, const Type *const *types) {
    Builder b = build_before(ir, op);
    int old = op->n_results;
    const Type **all = ctx_array(ir->ctx, const Type *, old + n);
    for (int i = 0; i < old; i++) all[i] = result(op, i)->type;
    for (int i = 0; i < n; i++) all[old + i] = types[i];
    Op *copy = build_op(&b, op->code, 0, NULL, old + n, all, 0);
    Value **operands = ctx_array(ir->ctx, Value *, op->n_operands);
    for (int i = 0; i < op->n_operands; i++) operands[i] = operand(op, i);
    op_set_operands(ir, copy, op->n_operands, operands);
    copy->attrs = op->attrs;
    copy->n_attrs = op->n_attrs;
    copy->regions = op->regions;
    copy->n_regions = op->n_regions;
    op->n_regions = 0;
    for (int i = 0; i < copy->n_regions; i++) copy->regions[i]->parent = copy;
    for (int i = 0; i < old; i++) value_replace(result(op, i), result(copy, i));
    op_erase(op);
    return copy;
}

/* ---- walking and asking -------------------------------------------------------------------- */

/// If the visitor erases or moves its op, the op's parent has changed, and the walk skips the op's
/// regions.
void op_walk_pre(Op *op, void (*visit)(Op *op, void *arg), void *arg) {
    Region *home = op->parent;
    visit(op, arg);
    if (op->parent != home) return; // erased
    for (int i = 0; i < op->n_regions; i++) {
        for_each_op_safe(inner, op->regions[i]) op_walk_pre(inner, visit, arg);
    }
}

void op_walk_post(Op *op, void (*visit)(Op *op, void *arg), void *arg) {
    for (int i = 0; i < op->n_regions; i++) {
        for_each_op_safe(inner, op->regions[i]) op_walk_post(inner, visit, arg);
    }
    visit(op, arg);
}

Op *op_enclosing(const Op *op, OpCode code) {
    Op *outer = op->parent ? op->parent->parent : NULL;
    while (outer && outer->code != code) outer = outer->parent ? outer->parent->parent : NULL;
    return outer;
}

bool op_is_inside(const Op *op, const Op *outer) {
    for (const Region *r = op->parent; r; r = r->parent->parent)
        if (r->parent == outer) return true;
    return false;
}

bool value_is_inside(const Value *v, const Op *outer) {
    if (v->def) return op_is_inside(v->def, outer);
    return v->region->parent == outer || op_is_inside(v->region->parent, outer);
}

/// Takes linear time: regions are short, and passes that ask often number the ops themselves.
bool op_before(const Op *a, const Op *b) {
    if (a->parent != b->parent) return false;
    for (a = a->next; a; a = a->next)
        if (a == b) return true;
    return false;
}

/* ---- constants ----------------------------------------------------------------------------- */

Op *def_of(const Value *v, OpCode code) {
    return v->def && v->def->code == code ? v->def : NULL;
}

const Attr *const_of(const Value *v) {
    while (def_of(v, OP_BROADCAST) || def_of(v, OP_RESHAPE)) v = operand(v->def, 0);
    return def_of(v, OP_CONST) ? op_const(v->def, A_VALUE) : NULL;
}

bool const_int(const Value *v, int64_t *out) {
    const Attr *a = const_of(v);
    if (!a || a->kind != AT_INT) return false;
    *out = a->i;
    return true;
}

bool is_const_int(const Value *v, int64_t n) {
    int64_t i;
    return const_int(v, &i) && i == n;
}

static bool is_const_bool(const Value *v, bool b) {
    const Attr *a = const_of(v);
    return a && a->kind == AT_BOOL && (a->i != 0) == b;
}

bool is_true(const Value *v) {
    return is_const_bool(v, true);
}

bool is_false(const Value *v) {
    return is_const_bool(v, false);
}
