// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// See rule_instance.h.
#include "tests/unit/rule_instance.h"

#include <math.h>
#include <string.h>

#include "ir/interp/interp.h"

/* ---- values -------------------------------------------------------------------------------- */

static bool is_listed(Elem e, const Cell *list, int n, Cell c) {
    for (int i = 0; i < n; i++)
        if (cell_bits(e, list[i]) == cell_bits(e, c)) return true;
    return false;
}

static int add_value(Elem e, Cell *out, int n, Cell c) {
    if (n == MAX_VALUES || is_listed(e, out, n, c)) return n;
    out[n] = c;
    return n + 1;
}

static int add_number(Elem e, Cell *out, int n, double x) {
    return add_value(e, out, n, cell_cast(EL_F64, e, (Cell){.f = x}));
}

/// Powers of two at which integer and float formats end, or stop representing all integers.
static const int powers[] = {0, 1, 2, 3, 4, 7, 8, 11, 15, 16, 23, 24, 31, 32, 52, 53, 62, 63};
enum { N_POWERS = sizeof powers / sizeof *powers };

static int integer_values(Elem e, Cell *out) {
    int n = 0;
    for (int64_t i = -3; i <= 3; i++) n = add_value(e, out, n, cell_wrap(e, (Cell){.i = i}));
    for (int p = 0; p < N_POWERS; p++)
        for (int64_t near = -1; near <= 1; near++)
            for (int sign = 0; sign < 2; sign++) {
                uint64_t u = ((uint64_t)1 << powers[p]) + (uint64_t)near;
                n = add_value(e, out, n, cell_wrap(e, (Cell){.u = sign ? 0 - u : u}));
            }
    return n;
}

static int float_values(Elem e, Cell *out) {
    static const double some[] = {0.5,    1.5,   2.5,      0.1,     10,      240,
                                  448,    480,   57344,    65504,   1e30,    1e300,
                                  5e-324, 1e-45, 0x1p-149, 0x1p-24, INFINITY};
    int n = 0;
    for (int sign = -1; sign <= 1; sign += 2) {
        n = add_value(e, out, n, (Cell){.f = sign < 0 ? -0.0 : 0.0});
        for (size_t i = 0; i < sizeof some / sizeof *some; i++)
            n = add_number(e, out, n, sign * some[i]);
        for (int p = 0; p < N_POWERS; p++) {
            n = add_number(e, out, n, sign * ldexp(1, powers[p]));
            n = add_number(e, out, n, sign * (ldexp(1, powers[p]) + 1));
            n = add_number(e, out, n, sign * (ldexp(1, powers[p]) - 1));
        }
        Cell next[] = {{.f = sign}, {.f = 2.0 * sign}}, least[] = {{.f = 0}, {.f = sign}};
        n = add_value(e, out, n, eval_elementwise(OP_NEXTAFTER, e, next));
        n = add_value(e, out, n, eval_elementwise(OP_NEXTAFTER, e, least));
    }
    return add_value(e, out, n, (Cell){.f = NAN});
}

int element_values(Elem e, bool all, Cell *out) {
    int bits = e == EL_BOOL ? 1 : elem_info[e].bits;
    if (!all || bits > 8)
        return elem_is(e, EC_FLOAT) ? float_values(e, out) : integer_values(e, out);
    for (int i = 0; i < 1 << bits; i++) out[i] = cell_from_bits(e, (uint64_t)i);
    return 1 << bits;
}

int special_cells(Elem e, Cell *out) {
    static const double numbers[] = {0, 1, -1, 2, -INFINITY, INFINITY};
    int n = 0;
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        n = add_number(e, out, n, numbers[i]);
    if (elem_is(e, EC_INT)) n = add_value(e, out, n, cell_wrap(e, (Cell){.i = -1}));
    if (elem_is(e, EC_INT)) n = add_value(e, out, n, cell_wrap(e, (Cell){.i = 5}));
    if (elem_is(e, EC_FLOAT)) n = add_value(e, out, n, (Cell){.f = -0.0});
    if (elem_is(e, EC_FLOAT)) n = add_value(e, out, n, (Cell){.f = NAN});
    return n;
}

/* ---- instances ----------------------------------------------------------------------------- */

static int add_node(Instance *in, Node node) {
    in->node[in->n] = node;
    return in->n++;
}

/// Adds the variable with that element and letter.
int instance_var(Instance *in, Shape type, int letter) {
    int v = 0;
    for (int seen = 0; v < in->n_vars; v++)
        if (!in->splat[v] && in->var[v].elem == type.elem && seen++ == letter) break;
    if (v == in->n_vars) in->var[in->n_vars++] = type;
    for (int i = 0; i < in->n; i++)
        if (in->node[i].kind == NODE_VAR && in->node[i].var == v) return i;
    return add_node(in, (Node){.kind = NODE_VAR, .type = type, .var = v});
}

int instance_splat(Instance *in, Shape type) {
    int v = in->n_vars++;
    in->var[v] = type;
    in->splat[v] = true;
    return add_node(in, (Node){.kind = NODE_SPLAT, .type = type, .var = v});
}

int instance_const(Instance *in, Shape type, Cell value) {
    return add_node(in, (Node){.kind = NODE_CONST, .type = type, .value = value});
}

int instance_op(Instance *in, OpCode code, Shape type, int n, const int *operands) {
    Node node = {.kind = NODE_OP, .code = code, .type = type, .n = n};
    for (int i = 0; i < n; i++) node.operand[i] = operands[i];
    return add_node(in, node);
}

/* ---- building ------------------------------------------------------------------------------ */

typedef struct Building {
    Builder b;
    const Instance *in;
    int64_t lanes; // lanes of elementwise instances
    Value *var[MAX_VARS];
} Building;

static const Type *type_of(Building *g, Shape s) {
    return g->in->shaped ? ty_block(g->b.ir, s.elem, s.rank, s.extents)
                         : ty_block(g->b.ir, s.elem, 1, &g->lanes);
}

/// region(a, b) = a + b, for reduce and scan.
static void fill_fold(Building *g, Op *op) {
    const Type *t = ty_scalar(g->b.ir, operand(op, 0)->type->elem);
    Region *r = op->regions[0];
    region_add_arg(g->b.ir, r, t, NULL);
    region_add_arg(g->b.ir, r, t, NULL);
    Builder in = build_at_end(g->b.ir, r, g->b.loc);
    build_yield(&in, 1, (Value *[]){build_binary(&in, OP_ADD, r->args[0], r->args[1])});
}

static Value *build_node_op(Building *g, const Node *node, Value *const *values) {
    Value *x[3];
    const Type *t = type_of(g, node->type);
    bool folds = node->code == OP_REDUCE || node->code == OP_SCAN;
    for (int i = 0; i < node->n; i++) x[i] = values[node->operand[i]];
    Op *op = build_op(&g->b, node->code, node->n, x, 1, &t, folds);
    if (folds) fill_fold(g, op);
    if (node->list) op_set_ints(g->b.ir, op, node->list, node->ints, node->n_ints);
    if (node->number) op_set_int(g->b.ir, op, node->number, node->ints[0]);
    if (node->flag) op_set_flag(g->b.ir, op, node->flag, true);
    return result(op, 0);
}

static Value *build_root(Building *g) {
    Value *values[MAX_NODES];
    Ir *ir = g->b.ir;
    for (int i = 0; i < g->in->n; i++) {
        const Node *node = &g->in->node[i];
        const Type *t = type_of(g, node->type);
        switch (node->kind) {
        case NODE_VAR: values[i] = g->var[node->var]; break;
        case NODE_SPLAT: values[i] = build_broadcast(&g->b, g->var[node->var], t); break;
        case NODE_CONST:
            values[i] = build_const(&g->b, t, attr_of_cell(ir, t->elem, node->value));
            break;
        case NODE_OP: values[i] = build_node_op(g, node, values); break;
        }
    }
    return values[g->in->n - 1];
}

static Op *new_kernel(Ir *ir, Op *module) {
    Builder b = build_at_end(ir, module->regions[0], (Loc){0});
    Op *kernel = build_op(&b, OP_KERNEL, 0, NULL, 0, NULL, 1);
    op_set_str(ir, kernel, A_NAME, "k");
    return kernel;
}

Op *instance_probe(Ir *ir, const Instance *in) {
    Op *kernel = new_kernel(ir, build_module(ir));
    Region *r = kernel->regions[0];
    Building g = {build_at_end(ir, r, (Loc){0}), in, 8, {0}};
    for (int v = 0; v < in->n_vars; v++) {
        const Type *t = in->splat[v] ? ty_scalar(ir, in->var[v].elem) : type_of(&g, in->var[v]);
        g.var[v] = region_add_arg(ir, r, t, NULL);
    }
    Value *root = build_root(&g);
    build_yield(&g.b, 1, &root);
    return root->def;
}

/* ---- running ------------------------------------------------------------------------------- */

/// The lanes of a block; the programs of a launch, each of which computes a block.
typedef struct Extent {
    int64_t lanes, programs;
} Extent;

/// Addresses row i, or element i for a scalar t.
static void set_place(Builder *b, Op *op, const Type *t) {
    SubDim subs[] = {{DIM_AT, 0, 0}, {DIM_AXIS, ty_count(t), 1}};
    op_set_subs(b->ir, op, A_SUBS, subs, t->rank ? 2 : 1);
}

static Value *load_block(Builder *b, Value *tensor, Value *i, const Type *t) {
    int64_t lanes = ty_count(t);
    const Type *flat = t->rank ? ty_block(b->ir, t->elem, 1, &lanes) : t;
    Value *pad = build_int(b, ty_scalar(b->ir, EL_I8), 0);
    pad = t->elem == EL_I8 ? pad : build_cast(b, pad, t->elem);
    Value *in[] = {tensor, pad, i, build_index(b, 0), build_index(b, lanes)};
    Op *op = build_op(b, OP_LOAD, t->rank ? 5 : 3, in, 1, &flat, 0);
    set_place(b, op, flat);
    return build_reshape(b, result(op, 0), t);
}

static void store_block(Builder *b, Value *tensor, Value *i, Value *v) {
    int64_t lanes = ty_count(v->type);
    if (v->type->rank) v = build_reshape(b, v, ty_block(b->ir, v->type->elem, 1, &lanes));
    Value *in[] = {tensor, v, i, build_index(b, 0), build_index(b, lanes)};
    Op *op = build_op(b, OP_STORE, v->type->rank ? 5 : 3, in, 0, NULL, 0);
    set_place(b, op, v->type);
}

/// parallel i in 0 .. programs { out[i] = root(var[i]...) }
static Op *build_kernel(Ir *ir, const Instance *in, Extent e, const Type **out) {
    Op *module = build_module(ir), *kernel = new_kernel(ir, module);
    Region *r = kernel->regions[0];
    Value *tensors[MAX_VARS + 1];
    for (int v = 0; v < in->n_vars; v++)
        tensors[v] = region_add_arg(
            ir, r, ty_tensor(ir, in->var[v].elem, in->splat[v] ? 1 : 2, NULL, NULL), NULL);
    Builder host = build_at_end(ir, r, (Loc){0});
    Value *bounds[] = {build_index(&host, 0), build_index(&host, e.programs)};
    Op *phase = build_op(&host, OP_PARALLEL, 2, bounds, 0, NULL, 1);
    op_set_int(ir, phase, A_STEP, 1);
    build_yield(&host, 0, NULL);
    Building g = {build_at_end(ir, phase->regions[0], (Loc){0}), in, e.lanes, {0}};
    Value *i = region_add_arg(ir, phase->regions[0], bounds[0]->type, NULL);
    for (int v = 0; v < in->n_vars; v++)
        g.var[v] =
            load_block(&g.b, tensors[v], i,
                       in->splat[v] ? ty_scalar(ir, in->var[v].elem) : type_of(&g, in->var[v]));
    Value *root = build_root(&g);
    *out = root->type;
    Value *to = region_add_arg(
        ir, r, ty_tensor(ir, root->type->elem, root->type->rank ? 2 : 1, NULL, NULL), NULL);
    store_block(&g.b, to, i, root);
    build_yield(&g.b, 0, NULL);
    return module;
}

static Tensor new_tensor(Ctx *ctx, Elem e, bool scalar, int64_t programs, int64_t lanes) {
    Tensor t = {.elem = e, .rank = scalar ? 1 : 2};
    t.extents[0] = programs;
    t.extents[1] = t.strides[0] = lanes;
    t.strides[1] = 1;
    if (scalar) t.strides[0] = 1;
    t.data = ctx_alloc(ctx, (size_t)(programs * (scalar ? 1 : lanes) * 8));
    return t;
}

/// The values of each variable. With too many combinations, the narrowest variables lose values
/// first.
typedef struct Domain {
    int n[MAX_VARS];
    Cell value[MAX_VARS][MAX_VALUES];
    int64_t combinations;
} Domain;

static void choose_values(const Instance *in, int64_t most, Domain *d) {
    d->combinations = 1;
    for (int v = 0; v < in->n_vars; v++) {
        d->n[v] = element_values(in->var[v].elem, true, d->value[v]);
        d->combinations *= d->n[v];
    }
    for (int v = in->n_vars - 1; v >= 0 && d->combinations > most; v--) {
        d->combinations /= d->n[v];
        d->n[v] = element_values(in->var[v].elem, false, d->value[v]);
        d->combinations *= d->n[v];
    }
    for (int v = in->n_vars - 1; v >= 0 && d->combinations > most; v--) {
        d->combinations /= d->n[v];
        d->n[v] = special_cells(in->var[v].elem, d->value[v]);
        d->combinations *= d->n[v];
    }
}

static Extent extent_of(const Instance *in, Domain *d) {
    bool splat = false;
    for (int v = 0; v < in->n_vars; v++) splat |= in->splat[v];
    choose_values(in, splat || in->shaped ? 1 << 12 : 1 << 17, d);
    if (in->shaped) return (Extent){1, splat ? 16 : 2};
    return splat ? (Extent){2, d->combinations} : (Extent){d->combinations, 1};
}

static void fill_var(const Instance *in, const Domain *d, int v, Tensor *t, Extent e) {
    int64_t lanes = in->splat[v] ? 1 : t->extents[1], period = 1;
    for (int u = 0; u < v; u++) period *= d->n[u];
    bool mixed = !in->shaped && !in->splat[v] && e.programs > 1;
    for (int64_t i = 0; i < e.programs * lanes; i++) {
        int64_t at = in->shaped ? i * 7 + v : mixed ? i / lanes : i;
        cell_store(t->elem, t->data, i, d->value[v][(in->shaped ? at : at / period) % d->n[v]]);
    }
}

typedef struct Comparison {
    const Instance *in;
    const Pass *pass;
    Text *text;
    int64_t compared;
} Comparison;

static void complain(Comparison *c, Ctx *ctx, Op *module, const char *what) {
    char *ir = ir_to_text(ctx, module);
    text_add(c->text, "%s\n%s", what, ir);
    for (const Diagnostic *d = diag_first(ctx); d; d = d->next) diag_render(c->text, ctx, d, false);
}

static int64_t elements(const Tensor *t) {
    return t->extents[0] * (t->rank > 1 ? t->extents[1] : 1);
}

static void compare(Comparison *c, Ctx *ctx, Op *module, const InterpArg *args,
                    const Tensor *want) {
    int n = c->in->n_vars;
    const Tensor *got = &args[n].tensor;
    c->compared = elements(want);
    for (int64_t i = 0; i < c->compared; i++) {
        Elem e = want->elem;
        Cell w = cell_load(e, want->data, i), g = cell_load(e, got->data, i);
        if (cell_bits(e, w) == cell_bits(e, g) ||
            (elem_is(e, EC_FLOAT) && isnan(w.f) && isnan(g.f)))
            continue;
        complain(c, ctx, module, "after the pass:");
        text_add(c->text, "gives %s, not %s, for", cell_text(ctx, e, g), cell_text(ctx, e, w));
        for (int v = 0; v < n; v++) {
            const Tensor *t = &args[v].tensor;
            int64_t at = elements(t) == c->compared ? i : i * elements(t) / c->compared;
            text_add(c->text, " %s", cell_text(ctx, t->elem, cell_load(t->elem, t->data, at)));
        }
        text_add(c->text, "\n");
        return;
    }
}

static bool runs(Comparison *c, Ir *ir, Op *module, const InterpArg *args, const char *what) {
    if (ir_verify(ir, module) &&
        interp_run(ir, module, "k", c->in->n_vars + 1, args, &(InterpOptions){0}))
        return true;
    complain(c, ir_ctx(ir), module, what);
    return false;
}

static void make_args(Ctx *ctx, const Instance *in, const Domain *d, Extent e, InterpArg *args) {
    for (int v = 0; v < in->n_vars; v++) {
        Shape s = in->var[v];
        int64_t lanes = e.lanes;
        for (int k = 0; k < s.rank && in->shaped; k++) lanes *= s.extents[k];
        args[v].tensor = new_tensor(ctx, s.elem, in->splat[v], e.programs, lanes);
        fill_var(in, d, v, &args[v].tensor, e);
    }
}

static void compare_body(Ctx *ctx, void *arg) {
    Comparison *c = arg;
    const Instance *in = c->in;
    Ir *ir = ir_create(ctx);
    Domain *d = ctx_new(ctx, Domain);
    Extent e = extent_of(in, d);
    const Type *out;
    Op *before = build_kernel(ir, in, e, &out), *after = build_kernel(ir, in, e, &out);
    InterpArg args[MAX_VARS + 1] = {0};
    make_args(ctx, in, d, e, args);
    Tensor *to = &args[in->n_vars].tensor;
    *to = new_tensor(ctx, out->elem, !out->rank, e.programs, ty_count(out));
    if (!runs(c, ir, before, args, "not valid, or does not run:")) return;
    Tensor want = *to;
    *to = new_tensor(ctx, out->elem, !out->rank, e.programs, ty_count(out));
    c->pass->run(&(PassEnv){.ir = ir}, after);
    if (!runs(c, ir, after, args, "not valid, or does not run, after the pass:")) return;
    compare(c, ctx, after, args, &want);
    if (c->text->n) complain(c, ctx, before, "before the pass:");
}

int64_t instance_compare(const Instance *in, const Pass *pass, Text *text) {
    Comparison c = {in, pass, text, 0};
    Ctx *ctx = ctx_create(NULL);
    if (ctx_protect(ctx, compare_body, &c) != CTX_OK && !text->n)
        for (const Diagnostic *d = diag_first(ctx); d; d = d->next)
            diag_render(text, ctx, d, false);
    ctx_destroy(ctx);
    return c.compared;
}
