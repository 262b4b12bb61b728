// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The IR: uniqueness, use lists, moving, copying, dominance, folding, rewriting.
#include "ir/ir.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

/// Each test runs inside ctx_protect with a fresh context.
typedef void TestBody(Ctx *ctx, Ir *ir);

typedef struct Frame {
    TestBody *body;
} Frame;

static void enter(Ctx *ctx, void *arg) {
    ((Frame *)arg)->body(ctx, ir_create(ctx));
}

static void run(TestBody *body, CtxStatus expected) {
    Ctx *ctx = ctx_create(NULL);
    Frame f = {body};
    CtxStatus status = ctx_protect(ctx, enter, &f);
    if (status != expected) {
        for (const Diagnostic *d = diag_first(ctx); d; d = d->next) print_message("%s\n", d->text);
        fail_msg("status %d, not %d", status, expected);
    }
    ctx_destroy(ctx);
}

static Op *parse(Ctx *ctx, Ir *ir, const char *text) {
    Op *module = ir_parse(ir, ctx_add_source(ctx, "test.tir", text, strlen(text)));
    assert_true(module && ir_verify(ir, module));
    return module;
}

static Op *kernel_of(Op *module) {
    return find_kernel(module, NULL);
}

/// Searches the first op with this code in the module.
typedef struct Search {
    OpCode code;
    Op *found;
} Search;

static void look(Op *op, void *arg) {
    Search *s = arg;
    if (op->code == s->code && !s->found) s->found = op;
}

static Op *first(Op *module, OpCode code) {
    Search s = {code, NULL};
    op_walk_pre(module, look, &s);
    assert_non_null(s.found);
    return s.found;
}

/* ---- types and attributes ------------------------------------------------------------------ */

static void types_are_unique(Ctx *ctx, Ir *ir) {
    int64_t e[] = {64, 32}, swapped[] = {32, 64}, s[] = {DYNAMIC, 1};
    (void)ctx;
    assert_ptr_equal(ty_block(ir, EL_F32, 2, e), ty_block(ir, EL_F32, 2, e));
    assert_ptr_not_equal(ty_block(ir, EL_F32, 2, e), ty_block(ir, EL_F32, 2, swapped));
    assert_ptr_not_equal(ty_block(ir, EL_F32, 2, e), ty_block(ir, EL_I32, 2, e));
    assert_ptr_not_equal(ty_scalar(ir, EL_F32), ty_tensor(ir, EL_F32, 0, NULL, NULL));
    assert_ptr_not_equal(ty_tensor(ir, EL_F32, 2, e, NULL), ty_tensor(ir, EL_F32, 2, e, s));
    assert_ptr_equal(ty_with_elem(ir, ty_block(ir, EL_F32, 2, e), EL_I8),
                     ty_block(ir, EL_I8, 2, e));
    assert_int_equal(ty_count(ty_block(ir, EL_F32, 2, e)), 2048);
    assert_int_equal(ty_count(ty_scalar(ir, EL_F32)), 1);
    int64_t wide[3] = {INT64_C(1) << 40, INT64_C(1) << 40, 0};
    assert_true(extents_product(wide, 1) == wide[0]);
    assert_true(extents_product(wide, 2) == INT64_MAX);
    assert_true(extents_product(wide, 3) == 0);
    assert_true(extents_product(wide, 0) == 1);
}

static void attributes_are_unique(Ctx *ctx, Ir *ir) {
    int64_t ints[] = {1, 2};
    SubDim subs[] = {{DIM_AT, 5, 6}, {DIM_AXIS, 64, 1}}, same[] = {{DIM_AT, 0, 0}, subs[1]};
    (void)ctx;
    assert_ptr_equal(at_int(ir, 1), at_int(ir, 1));
    assert_ptr_not_equal(at_int(ir, 1), at_bool(ir, true));
    assert_ptr_not_equal(at_float(ir, 0.0), at_float(ir, -0.0));
    assert_ptr_equal(at_str(ir, "a"), at_str(ir, "a"));
    assert_ptr_equal(at_ints(ir, ints, 2), at_ints(ir, ints, 2));
    assert_ptr_not_equal(at_ints(ir, ints, 2), at_ints(ir, ints, 1));
    assert_ptr_not_equal(at_ints(ir, ints, 0), at_strs(ir, NULL, 0));
    assert_ptr_equal(at_subs(ir, subs, 2), at_subs(ir, same, 2)); // DIM_AT ignores sizes
}

static void attributes_are_set_and_removed(Ctx *ctx, Ir *ir) {
    Builder b = build_at_end(ir, build_module(ir)->regions[0], (Loc){0});
    Op *op = build_op(&b, OP_DEVICE, 0, NULL, 0, NULL, 1), *other;
    (void)ctx;
    op_set_int(ir, op, A_WARPS, 1);
    op_set_str(ir, op, A_NAME, "x");
    op_set_int(ir, op, A_WARPS, 2);
    op_set_flag(ir, op, A_MULTICAST, true);
    assert_int_equal(op->n_attrs, 3);
    assert_int_equal(op_int(op, A_WARPS, 0), 2);
    assert_int_equal(op_int(op, A_CLUSTER, 7), 7);
    op_set_flag(ir, op, A_MULTICAST, false);
    op_set_attr(ir, op, ATTR_WARPS, NULL);
    op_set_str(ir, op, A_CONFIG, NULL);
    assert_int_equal(op->n_attrs, 1);
    assert_string_equal(op_str(op, A_NAME), "x");
    assert_null(op_attr(op, ATTR_WARPS));
    other = build_op(&b, OP_FUNC, 0, NULL, 0, NULL, 1);
    op_copy_attr(ir, other, op, ATTR_NAME);
    assert_string_equal(op_str(other, A_NAME), "x");
}

/* ---- the table ----------------------------------------------------------------------------- */

static void table_is_sound(Ctx *ctx, Ir *ir) {
    (void)ctx, (void)ir;
    for (int i = 0; i < OP_COUNT; i++) {
        const OpInfo *op = &op_info[i];
        assert_int_equal(op_by_name(op->name), i);
        assert_true(*op->doc != 0);
        if (op->traits & ELEMENTWISE) {
            assert_true(op->n_operands >= 1 && op->n_operands <= 3 && op->classes);
            assert_true(op->traits & PURE);
        }
        for (const uint8_t *a = op->attrs; *a; a++)
            for (const uint8_t *b = a + 1; *b; b++)
                assert_true((*a & ~OPTIONAL_ATTR) != (*b & ~OPTIONAL_ATTR));
    }
    assert_int_equal(op_by_name("nonsense"), OP_COUNT);
    for (int i = ATTR_NONE + 1; i < ATTR_COUNT; i++) {
        assert_int_equal(attr_by_name(attr_info[i].name), i); // no two have one name
        assert_true(attr_info[i].kinds && *attr_info[i].doc);
        const char *const *words = attr_info[i].words;
        for (int w = 0; words && words[w]; w++)
            assert_int_equal(attr_value_of((AttrId)i, words[w]), w + 1); // each word is there once
    }
    assert_int_equal(update_of_word("nonsense"), UPDATE_ABSENT);
    assert_string_equal(update_word(update_of_word("xor")), "xor");
    assert_int_equal(attr_by_name("nonsense"), ATTR_NONE);
}

/// Returns an element type that the op accepts.
static Elem elem_of_classes(int classes) {
    return classes & EC_FLOAT ? EL_F32 : classes & EC_INT ? EL_I32 : EL_BOOL;
}

static void elementwise_ops_round_trip(Ctx *ctx, Ir *ir) {
    Op *module = build_module(ir);
    Builder b = build_at_end(ir, module->regions[0], (Loc){0});
    Op *kernel = build_op(&b, OP_KERNEL, 0, NULL, 0, NULL, 1);
    op_set_str(ir, kernel, A_NAME, "k");
    b = build_at_end(ir, kernel->regions[0], (Loc){0});
    for (int i = 0; i < OP_COUNT; i++) {
        if (!(op_info[i].traits & ELEMENTWISE)) continue;
        const Type *type = ty_block(ir, elem_of_classes(op_info[i].classes), 1, (int64_t[]){4});
        Value *x = build_int(&b, type, 1);
        if (op_info[i].n_operands == 1)
            build_unary(&b, i, x);
        else if (op_info[i].n_operands == 2)
            build_binary(&b, i, x, x);
        else
            build_ternary(&b, i, x, x, x);
    }
    build_yield(&b, 0, NULL);
    assert_true(ir_verify(ir, module));
    const char *text = ir_to_text(ctx, module);
    assert_string_equal(ir_to_text(ctx, parse(ctx, ir, text)), text);
}

/* ---- changing ------------------------------------------------------------------------------ */

static const char small[] = "module { kernel [name=\"k\"] {(%x: f32, %y: f32)\n"
                            "  %a = add %x, %y : f32\n"
                            "  %b = mul %a, %a : f32\n"
                            "  print %b [text=\"{}\"]\n"
                            "  yield } }";

static int count_uses(const Value *v) {
    int n = 0;
    for_each_use(u, v) n++;
    return n;
}

static void uses_follow_operands(Ctx *ctx, Ir *ir) {
    Op *module = parse(ctx, ir, small);
    Op *add = first(module, OP_ADD), *mul = first(module, OP_MUL);
    Value *x = operand(add, 0), *y = operand(add, 1);
    assert_int_equal(count_uses(result(add, 0)), 2);
    assert_false(value_has_one_use(result(add, 0)));
    op_set_operand(mul, 1, x);
    assert_int_equal(count_uses(result(add, 0)), 1);
    assert_int_equal(count_uses(x), 2);
    value_replace(result(add, 0), y);
    assert_false(value_has_uses(result(add, 0)));
    op_erase(add);
    assert_int_equal(count_uses(x), 1);
    op_add_operand(ir, first(module, OP_PRINT), x);
    op_set_str(ir, first(module, OP_PRINT), A_TEXT, "{} {}");
    assert_int_equal(count_uses(x), 2);
    op_set_operands(ir, first(module, OP_PRINT), 1, &y);
    assert_int_equal(count_uses(x), 1);
    assert_true(ir_verify(ir, module));
}

static void ops_move(Ctx *ctx, Ir *ir) {
    Op *module = parse(ctx, ir, small);
    Op *add = first(module, OP_ADD), *mul = first(module, OP_MUL);
    assert_true(op_before(add, mul) && !op_before(mul, add));
    op_move_before(add, mul->next);
    assert_true(op_before(mul, add));
    op_move_before(add, mul);
    op_move_before(add, add);
    assert_true(ir_verify(ir, module));
    Op *yield = terminator(kernel_of(module)->regions[0]);
    op_move_to_end(yield, kernel_of(module)->regions[0]);
    assert_true(ir_verify(ir, module));
}

static void later_definitions_are_found(Ctx *ctx, Ir *ir) {
    Op *module = parse(ctx, ir, small);
    Op *add = first(module, OP_ADD), *mul = first(module, OP_MUL);
    op_move_before(mul, add);
    assert_false(ir_verify(ir, module));
    assert_string_equal(diag_first(ctx)->text,
                        "'mul': expected operand 1 to be a value that is defined before it, "
                        "found add %a");
}

static void isolation_is_kept(Ctx *ctx, Ir *ir) {
    Op *module = parse(ctx, ir,
                       "module { kernel [name=\"a\"] {(%x: f32) yield } "
                       "kernel [name=\"b\"] {(%y: f32) %z = neg %y : f32 yield } }");
    Value *x = find_kernel(module, "a")->regions[0]->args[0];
    op_set_operand(first(module, OP_NEG), 0, x);
    assert_false(ir_verify(ir, module));
    assert_string_equal(diag_first(ctx)->text,
                        "'neg': expected operand 1 to be a value that is defined before it, "
                        "found a region argument %x");
}

static const char loop[] = "module { kernel [name=\"k\"] {(%n: i64, %x: f32)\n"
                           "  %r = for %n, %n, %x [step=1] : f32 {(%i: i64, %s: f32)\n"
                           "    %t = add %s, %x : f32\n"
                           "    yield %t }\n"
                           "  print %r [text=\"{}\"]\n"
                           "  yield } }";

static void clones_are_deep(Ctx *ctx, Ir *ir) {
    Op *module = parse(ctx, ir, loop);
    Op *op = first(module, OP_FOR);
    Builder b = build_after(ir, op);
    PtrMap map = {0};
    Op *copy = op_clone(&b, op, &map);
    assert_ptr_equal(map_get(&map, result(op, 0)), result(copy, 0));
    assert_ptr_equal(map_get(&map, op->regions[0]->args[1]), copy->regions[0]->args[1]);
    Op *add = copy->regions[0]->first;
    assert_ptr_equal(operand(add, 0), copy->regions[0]->args[1]);
    assert_ptr_equal(operand(add, 1), operand(first(module, OP_ADD), 1));
    assert_true(op_is_inside(add, copy) && !op_is_inside(add, op));
    assert_ptr_equal(op_enclosing(add, OP_FOR), copy);
    assert_true(value_is_inside(copy->regions[0]->args[0], copy));
    assert_false(value_is_inside(result(copy, 0), copy));
    assert_true(ir_verify(ir, module));
    op_erase(copy); // drops its uses of values outside
    assert_int_equal(count_uses(operand(op, 2)), 2);
    assert_true(ir_verify(ir, module));
}

static void results_are_added(Ctx *ctx, Ir *ir) {
    Op *module = parse(ctx, ir, loop);
    Op *old = first(module, OP_FOR), *yield = terminator(old->regions[0]);
    const Type *f32 = ty_scalar(ir, EL_F32);
    Value *x = operand(old, 2);
    Op *op = op_add_results(ir, old, 1, &f32);
    op_add_operand(ir, op, x);
    op_add_operand(ir, yield, region_add_arg(ir, op->regions[0], f32, "u"));
    assert_true(ir_verify(ir, module));
    assert_ptr_equal(operand(first(module, OP_PRINT), 0), result(op, 0));
    assert_int_equal(count_uses(result(op, 1)), 0);
    assert_int_equal(op_int(op, A_STEP, 0), 1);
}

static void erase_negations(Op *op, void *arg) {
    if (op->code == OP_NEG) {
        value_replace(result(op, 0), operand(op, 0));
        op_erase(op);
        ++*(int *)arg;
    }
}

static void visitors_may_erase(Ctx *ctx, Ir *ir) {
    static const char text[] = "module { kernel [name=\"k\"] {(%x: f32) %a = neg %x : f32 "
                               "%b = neg %a : f32 print %b [text=\"{}\"] yield } }";
    int n = 0;
    Op *module = parse(ctx, ir, text);
    op_walk_pre(module, erase_negations, &n);
    assert_int_equal(n, 2);
    assert_true(ir_verify(ir, module));
    module = parse(ctx, ir, text);
    op_walk_post(module, erase_negations, &n);
    assert_int_equal(n, 4);
    assert_true(ir_verify(ir, module));
}

/* ---- building and views -------------------------------------------------------------------- */

static void constants_take_the_form_of_their_type(Ctx *ctx, Ir *ir) {
    Op *module = build_module(ir);
    Builder b = build_at_end(ir, module->regions[0], (Loc){0});
    int64_t n;
    (void)ctx;
    assert_true(is_const_int(build_int(&b, ty_scalar(ir, EL_U8), 257), 1));
    assert_true(is_const_int(build_int(&b, ty_scalar(ir, EL_I8), 255), -1));
    assert_true(is_true(build_int(&b, ty_scalar(ir, EL_BOOL), 3)));
    assert_true(is_false(build_bool(&b, ty_block(ir, EL_BOOL, 1, (int64_t[]){4}), false)));
    assert_ptr_equal(const_of(build_float(&b, ty_scalar(ir, EL_F32), 0.1)),
                     at_float(ir, (double)0.1f));
    assert_ptr_equal(const_of(build_int(&b, ty_scalar(ir, EL_F16), 3)), at_float(ir, 3));
    Value *seven = build_index(&b, 7);
    const Type *block = ty_block(ir, EL_I64, 1, (int64_t[]){4});
    assert_true(is_const_int(build_broadcast(&b, seven, block), 7));
    assert_false(const_int(build_float(&b, ty_scalar(ir, EL_F32), 7), &n));
    assert_ptr_equal(build_cast(&b, seven, EL_I64), seven);
    assert_ptr_equal(build_binary(&b, OP_LT, seven, seven)->type, ty_scalar(ir, EL_BOOL));
}

static void build_mismatch(Ctx *ctx, Ir *ir) {
    Builder b = {.ir = ir};
    (void)ctx;
    build_binary(&b, OP_ADD, build_index(&b, 1), build_float(&b, ty_scalar(ir, EL_F32), 1));
}

static void accesses_are_decoded(Ctx *ctx, Ir *ir) {
    Op *module = parse(ctx, ir,
                       "module { kernel [name=\"k\"] {(%x: tensor<f32, ?x?x?x?>, %p: f32, %i: i64)"
                       "  %r = iota : i64<16>"
                       "  %m = eq %r, %r : bool<16>"
                       "  %v = load %x, %p, %i, %r, %i, %i, %r, %m"
                       "    [subs=(at, pick, axis 8 * 2, pick)] : f32<16x8> yield } }");
    Op *load = first(module, OP_LOAD);
    Access a = access_of(load);
    assert_true(op_is_access(load) && !op_is_access(module));
    assert_int_equal(a.n_subs, 4);
    assert_int_equal(a.rank, 2);
    assert_int_equal(a.extents[0], 16);
    assert_int_equal(a.extents[1], 8);
    assert_int_equal(a.pick_at, 0);
    assert_int_equal(a.axis_of[2], 1);
    assert_int_equal(a.axis_of[1], -1);
    assert_int_equal(a.first[3], 6);
    assert_ptr_equal(a.mask, operand(load, 7));
    assert_ptr_equal(a.pad, operand(load, 1));
    assert_ptr_equal(sub_operand(load, &a, 3, 0), operand(load, 6));
}

static void monoids_are_known(Ctx *ctx, Ir *ir) {
    Op *module = parse(ctx, ir,
                       "module { kernel [name=\"k\"] { %x = iota : i32<4>"
                       "  %a = reduce %x [axis=0] : i32 {(%p: i32, %q: i32)"
                       "    %m = max %q, %p : i32 yield %m }"
                       "  %b = scan %x [axis=0] : i32<4> {(%p: i32, %q: i32)"
                       "    %m = add %q, %q : i32 yield %m } yield } }");
    assert_int_equal(region_monoid(first(module, OP_REDUCE)->regions[0]), OP_MAX);
    assert_int_equal(region_monoid(first(module, OP_SCAN)->regions[0]), OP_COUNT);
}

/* ---- folding ------------------------------------------------------------------------------- */

// The result of folding one op on %x (and the constants): a constant's text, an argument, or "-"
// for none.
static const struct {
    const char *type, *op, *folded;
} fold_rows[] = {
    {"i32", "add %x, %zero : i32", "%x"},
    {"i32", "add %zero, %x : i32", "%x"},
    {"i32", "sub %zero, %x : i32", "-"},
    {"i32", "mul %x, %one : i32", "%x"},
    {"i32", "mul %zero, %x : i32", "0"},
    {"i32", "add %one, %one : i32", "2"},
    {"i32", "div %x, %zero : i32", "0"},
    {"i32", "div %zero, %x : i32", "-"},
    {"i32", "shl %x, %zero : i32", "%x"},
    {"i32", "shl %zero, %x : i32", "-"},
    {"i32", "sub %x, %x : i32", "0"},
    {"i32", "rem %x, %x : i32", "0"},
    {"i32", "eq %x, %x : bool", "true"},
    {"i32", "lt %x, %x : bool", "false"},
    {"i32", "max %x, %x : i32", "%x"},
    {"u8", "max %x, %zero : u8", "%x"},
    {"u8", "min %x, %zero : u8", "0"},
    {"u8", "sub %zero, %one : u8", "255"},
    {"i32", "and %x, %zero : i32", "0"},
    {"i32", "cast %x : i32", "%x"},
    {"i32", "cast %one : f32", "1.0"},
    {"i32", "bitcast %one : u32", "1"},
    {"f32", "bitcast %one : u32", "1065353216"},
    {"i32", "broadcast %one : i32<4>", "1"},
    {"i32", "broadcast %x : i32", "%x"},
    {"i32", "broadcast %x : i32<4>", "-"},
    {"i32<4>", "reshape %x : i32<4>", "%x"},
    {"i32<4>", "slice %x [start=[0]] : i32<4>", "%x"},
    {"i32<4>", "slice %x [start=[0]] : i32<3>", "-"},
    {"i32<2x2>", "permute %x [perm=[0, 1]] : i32<2x2>", "%x"},
    {"i32<2x2>", "permute %x [perm=[1, 0]] : i32<2x2>", "-"},
    {"i32<2x2>", "permute %one [perm=[1, 0]] : i32<2x2>", "1"},
    {"i32<4>", "concat %x [axis=0] : i32<4>", "%x"},
    {"i32<4>", "concat %one, %one [axis=0] : i32<8>", "1"},
    {"i32<4>", "concat %one, %zero [axis=0] : i32<8>", "-"},
    // Floats fold exactly for every value, signed zeros and NaN too, or not at all.
    {"f32", "add %x, %zero : f32", "-"},
    {"f32", "sub %x, %zero : f32", "%x"},
    {"f32", "mul %x, %one : f32", "%x"},
    {"f32", "mul %x, %zero : f32", "-"},
    {"f32", "div %x, %one : f32", "%x"},
    {"f32", "sub %x, %x : f32", "-"},
    {"f32", "eq %x, %x : bool", "-"},
    {"f32", "lt %x, %x : bool", "false"},
    {"f32", "max %x, %x : f32", "%x"},
    {"f32", "div %one, %zero : f32", "inf"},
    {"f32", "sqrt %one : f32", "1.0"},
    {"bool", "and %x, %one : bool", "%x"},
    {"bool", "or %x, %one : bool", "true"},
    {"bool", "eq %x, %one : bool", "%x"},
    {"bool", "select %x, %one, %zero : bool", "%x"},
    {"bool", "select %one, %x, %zero : bool", "%x"},
};

static const char *constant(const char *type, int n) {
    bool is_float = strncmp(type, "f", 1) == 0, is_bool = strncmp(type, "bool", 4) == 0;
    if (is_bool) return n ? "true" : "false";
    return is_float ? n ? "1.0" : "0.0" : n ? "1" : "0";
}

static void one_op_folds(Ctx *ctx, Ir *ir) {
    for (size_t i = 0; i < sizeof fold_rows / sizeof *fold_rows; i++) {
        const char *t = fold_rows[i].type;
        // Folding does not see through a loop's result.
        const char *text = ctx_format(
            ctx,
            "module { kernel [name=\"k\"] {(%%n: i64) %%s = const [value=%s] : %s "
            "%%x = for %%n, %%n, %%s [step=1] : %s {(%%i: i64, %%a: %s) yield %%a } "
            "%%zero = const [value=%s] : %s %%one = const [value=%s] : %s "
            "%%r = %s yield } }",
            constant(t, 0), t, t, t, constant(t, 0), t, constant(t, 1), t, fold_rows[i].op);
        Op *module = parse(ctx, ir, text);
        Op *op = terminator(kernel_of(module)->regions[0])->prev;
        Value *x = result(first(module, OP_FOR), 0);
        Builder b = build_before(ir, op);
        Value *v = op_fold(&b, op);
        Text got = {.ctx = ctx};
        text_add(&got, v ? v == x ? "%%x" : "" : "-");
        if (v && v != x && const_of(v)) ir_print_attr(&got, const_of(v));
        if (strcmp(got.data, fold_rows[i].folded) != 0)
            fail_msg("%s folds to %s, not %s", fold_rows[i].op, got.data, fold_rows[i].folded);
        if (v) assert_ptr_equal(v->type, result(op, 0)->type);
        assert_true(ir_verify(ir, module));
    }
}

static void extents_fold(Ctx *ctx, Ir *ir) {
    Op *module = parse(ctx, ir,
                       "module { kernel [name=\"k\"] {(%x: tensor<f32, 8x?, [?, 1]>, %n: i64)"
                       "  %s = scratch %n : tensor<f32, ?>"
                       "  %a = dim %x [axis=0] : i64"
                       "  %b = dim %x [axis=1] : i64"
                       "  %c = dim %x [axis=0, as_passed=true] : i64"
                       "  %d = stride %x [axis=1] : i64"
                       "  %e = dim %s [axis=0] : i64"
                       "  print %a, %b, %c, %d, %e [text=\"{} {} {} {} {}\"] yield } }");
    rewrite_all(ir, module, NULL, 0);
    Op *print = first(module, OP_PRINT);
    assert_true(is_const_int(operand(print, 0), 8));
    assert_non_null(def_of(operand(print, 1), OP_DIM));
    assert_non_null(def_of(operand(print, 2), OP_DIM));
    assert_true(is_const_int(operand(print, 3), 1));
    assert_ptr_equal(operand(print, 4), kernel_of(module)->regions[0]->args[1]);
}

/* ---- rewriting ----------------------------------------------------------------------------- */

/// x + x = 2 * x
static bool double_to_product(Rewriter *rw, Op *op) {
    if (operand(op, 0) != operand(op, 1)) return false;
    Value *x = operand(op, 0);
    rewrite_to(rw, op, build_binary(&rw->at, OP_MUL, build_int(&rw->at, x->type, 2), x));
    return true;
}

/// c * (d * x) = (c * d) * x
static bool gather_factors(Rewriter *rw, Op *op) {
    Op *inner = def_of(operand(op, 1), OP_MUL);
    if (!inner || !const_of(operand(op, 0)) || !const_of(operand(inner, 0))) return false;
    Value *c = build_binary(&rw->at, OP_MUL, operand(op, 0), operand(inner, 0));
    rewrite_to(rw, op, build_binary(&rw->at, OP_MUL, c, operand(inner, 1)));
    return true;
}

static bool back_and_forth(Rewriter *rw, Op *op) {
    op_set_operands(rw->ir, op, 2, (Value *[]){operand(op, 1), operand(op, 0)});
    return true;
}

static void rules_run_to_the_end(Ctx *ctx, Ir *ir) {
    static const Rule rules[] = {{OP_ADD, double_to_product, "x + x = 2 x"},
                                 {OP_MUL, gather_factors, "c (d x) = (c d) x"}};
    Op *module = parse(ctx, ir,
                       "module { kernel [name=\"k\"] {(%x: i32)\n"
                       "  %a = add %x, %x : i32\n"
                       "  %b = add %a, %a : i32\n"
                       "  %c = add %b, %b : i32\n"
                       "  %unused = neg %c : i32\n"
                       "  print %c [text=\"{}\"]\n"
                       "  yield } }");
    assert_true(rewrite_all(ir, module, rules, 2));
    assert_true(ir_verify(ir, module));
    assert_string_equal(ir_to_text(ctx, module), "module {\n"
                                                 "  kernel [name=\"k\"] {(%x: i32)\n"
                                                 "    %0 = const [value=8] : i32\n"
                                                 "    %c = mul %0, %x : i32\n"
                                                 "    print %c [text=\"{}\"]\n"
                                                 "    yield\n"
                                                 "  }\n"
                                                 "}\n");
    assert_false(rewrite_all(ir, module, rules, 2));
}

static void rewriting_is_bounded(Ctx *ctx, Ir *ir) {
    static const Rule rules[] = {{OP_ADD, back_and_forth, "a + b = b + a"}};
    Op *module = parse(ctx, ir, small);
    assert_true(rewrite_all(ir, module, rules, 1));
    assert_true(ir_verify(ir, module));
}

/* ---- passes -------------------------------------------------------------------------------- */

static void pass_good(PassEnv *env, Op *module) {
    (void)env;
    op_set_str(env->ir, kernel_of(module), A_CONFIG, "seen");
}

static void pass_bad(PassEnv *env, Op *module) {
    (void)env;
    op_erase(terminator(kernel_of(module)->regions[0]));
}

static void keep_dump(void *user, const char *pass, const char *text) {
    (void)text;
    strcat(user, pass);
}

static void pipelines_verify(Ctx *ctx, Ir *ir) {
    static const Pass good = {"good", pass_good, ""}, bad = {"bad", pass_bad, ""};
    const Pass *const pipeline[] = {&good, &bad, &good};
    char dumped[64] = "";
    double seconds[3] = {-1, -1, -1};
    Op *module = parse(ctx, ir, small);
    PassEnv env = {.ir = ir};
    PassOptions options = {.verify_each = true,
                           .time = true,
                           .dump_after = "other,good",
                           .dump = keep_dump,
                           .user = dumped,
                           .seconds = seconds};
    assert_false(run_passes(&env, module, pipeline, 3, &options));
    assert_string_equal(dumped, "good");
    assert_true(seconds[0] >= 0 && seconds[2] == -1);
    assert_string_equal(diag_first(ctx)->follow->text, "the IR is wrong after pass bad");
}

/* ---- main ---------------------------------------------------------------------------------- */

#define TEST(name, status)                                                                         \
    static void test_##name(void **state) {                                                        \
        (void)state;                                                                               \
        run(name, status);                                                                         \
    }
#define TESTS                                                                                      \
    TEST(types_are_unique, CTX_OK)                                                                 \
    TEST(attributes_are_unique, CTX_OK)                                                            \
    TEST(attributes_are_set_and_removed, CTX_OK)                                                   \
    TEST(table_is_sound, CTX_OK)                                                                   \
    TEST(elementwise_ops_round_trip, CTX_OK)                                                       \
    TEST(uses_follow_operands, CTX_OK)                                                             \
    TEST(ops_move, CTX_OK)                                                                         \
    TEST(later_definitions_are_found, CTX_ERRORS)                                                  \
    TEST(isolation_is_kept, CTX_ERRORS)                                                            \
    TEST(clones_are_deep, CTX_OK)                                                                  \
    TEST(results_are_added, CTX_OK)                                                                \
    TEST(visitors_may_erase, CTX_OK)                                                               \
    TEST(constants_take_the_form_of_their_type, CTX_OK)                                            \
    TEST(build_mismatch, CTX_BUG)                                                                  \
    TEST(accesses_are_decoded, CTX_OK)                                                             \
    TEST(monoids_are_known, CTX_OK)                                                                \
    TEST(one_op_folds, CTX_OK)                                                                     \
    TEST(extents_fold, CTX_OK)                                                                     \
    TEST(rules_run_to_the_end, CTX_OK)                                                             \
    TEST(rewriting_is_bounded, CTX_OK)                                                             \
    TEST(pipelines_verify, CTX_ERRORS)
TESTS
#undef TEST

int main(void) {
    const struct CMUnitTest tests[] = {
#define TEST(name, status) cmocka_unit_test(test_##name),
        TESTS
#undef TEST
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
