// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Runs every rule of folding, canonicalize, combine and narrow on every value of narrow types, and
// on boundary values of wide ones. (For the range analysis see range_test.c.)
//
// The tables of ops generate small expressions: each op over variables, constants, splats and every
// other op of those. If a rule applies to the root of one, the interpreter must compute the same
// before and after the pass. Each row of the tables of rules must have been tried, so a new rule is
// tested, or the test reports that no expression leads to it.
#include "tests/unit/rule_instance.h"
#include "tests/unit/rule_texts.h"

#include "passes/rules.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

/* ---- applied rules ------------------------------------------------------------------------- */

enum { MAX_RULES = 400 };

static struct {
    const RuleTable *table;
    int row;
    int failed;
    int64_t tried; // compared instances
    short of[EL_COUNT][EL_COUNT]
            [2]; // compared instances by operand, result, and with a repeated scalar
} rules[MAX_RULES];
static int n_rules;
static int64_t n_probes, n_compared, n_values, n_failures;

static void list_rules(void) {
    const RuleTable *t;
    for (int i = 0; (t = rule_table(i)); i++)
        for (int row = 0; row < t->n && strcmp(t->pass, "range") != 0; row++, n_rules++) {
            assert_true(n_rules < MAX_RULES);
            rules[n_rules].table = t;
            rules[n_rules].row = row;
            for (int k = 0; k < n_rules; k++)
                if (strcmp(rule_algebra(t, row), rule_algebra(rules[k].table, rules[k].row)) == 0)
                    fail_msg("two rules `%s`", rule_algebra(t, row));
        }
}

static int rule_number(const char *algebra) {
    for (int i = 0; i < n_rules; i++)
        if (rule_algebra(rules[i].table, rules[i].row) == algebra) return i;
    fail_msg("the rule `%s` stands in no table of passes/rules.c", algebra);
    return -1;
}

/* ---- trying an instance -------------------------------------------------------------------- */

typedef struct Probe {
    const Op *root;
    int n, rule[32];
} Probe;

static void note_rule(void *user, const Op *op, const char *algebra) {
    Probe *p = user;
    if ((!p->root || op == p->root) && p->n < 32) p->rule[p->n++] = rule_number(algebra);
}

/// Prints one report for each rule.
static void report(const Probe *p, const Text *text) {
    n_failures++;
    if (rules[p->rule[0]].failed++) return;
    fprintf(stderr, "%s", text->data);
    for (int i = 0; i < p->n; i++)
        fprintf(stderr, "by the rule %s\n",
                rule_algebra(rules[p->rule[i]].table, rules[p->rule[i]].row));
}

/// A context serves many instances.
static Ctx *shared;
static Ir *shared_ir;
static Rule *all_rules;
static int n_all_rules;
enum { PROBES_A_CONTEXT = 4000 };

static void renew_context(void) {
    if (shared) ctx_destroy(shared);
    shared = ctx_create(NULL);
    shared_ir = ir_create(shared);
    all_rules = ctx_array(shared, Rule, MAX_RULES);
    n_all_rules = 0;
    const RuleTable *t;
    for (int i = 0; (t = rule_table(i)); i++)
        if (strcmp(t->pass, "canonicalize") == 0) {
            memcpy(all_rules + n_all_rules, t->rows, (size_t)t->n * sizeof(Rule));
            n_all_rules += t->n;
        }
}

static void probe_body(Ctx *ctx, void *arg) {
    (void)ctx;
    struct {
        const Instance *in;
        Probe *probe;
    } *a = arg;
    Op *root = instance_probe(shared_ir, a->in);
    a->probe->root = root;
    ir_watch_rules(shared_ir, note_rule, a->probe);
    rewrite_all(shared_ir, root->parent->parent->parent->parent, all_rules, n_all_rules);
    ir_watch_rules(shared_ir, NULL, NULL);
}

/// A rule that was tried often with these elements is not tried again.
static bool is_news(const Instance *in, const Probe *p) {
    enum { OFTEN = 40 };
    const Node *root = &in->node[in->n - 1];
    Elem from = in->node[root->operand[root->n > 0 ? root->n - 1 : 0]].type.elem;
    int splat = 0;
    bool news = false;
    for (int v = 0; v < in->n_vars; v++) splat |= in->splat[v];
    for (int i = 0; i < p->n; i++) {
        short *tried = &rules[p->rule[i]].of[from][root->type.elem][splat];
        if (*tried >= OFTEN && !in->shaped) continue;
        news = true;
        *tried += !in->shaped;
    }
    return news;
}

static void try_instance(const Instance *in) {
    if (n_probes++ % PROBES_A_CONTEXT == 0) renew_context();
    Probe probe = {0};
    struct {
        const Instance *in;
        Probe *probe;
    } arg = {in, &probe};
    assert_int_equal(ctx_protect(shared, probe_body, &arg), CTX_OK);
    if (!probe.n || !is_news(in, &probe)) return;
    Text text = {.ctx = shared};
    n_values += instance_compare(in, pass_by_name("canonicalize"), &text);
    n_compared++;
    for (int i = 0; i < probe.n; i++) rules[probe.rule[i]].tried++;
    if (!text.n) return;
    report(&probe, &text);
}

/* ---- elementwise expressions --------------------------------------------------------------- */

static Shape lanes_of(Elem e) {
    return (Shape){e, 1, {1}};
}

static bool takes(OpCode code, Elem e) {
    return e != EL_I4 && e != EL_U4 && op_info[code].traits & ELEMENTWISE &&
           elem_is(e, op_info[code].classes);
}

static Elem result_elem(OpCode code, Elem e) {
    return op_info[code].traits & COMPARES ? EL_BOOL : e;
}

/// An operand that is not an op: variable 0, 1, ..., then the special constants. False: beyond the
/// last.
static bool leaf(Instance *in, Elem e, int which, int *node) {
    Cell cells[MAX_VALUES];
    int n = special_cells(e, cells);
    if (which >= 2 + n) return false;
    *node = which < 2 ? instance_var(in, lanes_of(e), which)
                      : instance_const(in, lanes_of(e), cells[which - 2]);
    return true;
}

/// Makes the op on leaves, in form number `which`.
static bool form_of_op(Instance *in, OpCode code, Elem from, int which, int *node) {
    int x[3], n = op_info[code].n_operands,
              leaves = 2 + special_cells(from, (Cell[MAX_VALUES]){{0}});
    // x; or x, leaf; or leaf, x. A third operand is y.
    if (n == 1 ? which > 0 : which >= 2 * leaves) return false;
    int side = n > 1 && which >= leaves;
    x[side] = instance_var(in, lanes_of(from), 0);
    if (n > 1) leaf(in, from, which % leaves, &x[!side]);
    if (n > 2) x[2] = instance_var(in, lanes_of(from), 1);
    *node = instance_op(in, code, lanes_of(result_elem(code, from)), n, x);
    return true;
}

/// Calls `use` with a node for each op whose result is e.
typedef void UseForm(Instance *in, int node, void *arg);

static void each_op_form(const Instance *start, Elem e, UseForm *use, void *arg) {
    for (int code = 0; code < OP_COUNT; code++)
        for (int from = 0; from < EL_COUNT; from++) {
            if (!takes((OpCode)code, (Elem)from) || result_elem((OpCode)code, (Elem)from) != e)
                continue;
            Instance in = *start;
            int node;
            for (int which = 0; form_of_op(&in, (OpCode)code, (Elem)from, which, &node); which++) {
                use(&in, node, arg);
                in = *start;
            }
        }
}

static void each_cast_form(const Instance *start, Elem e, UseForm *use, void *arg) {
    for (int from = 0; from < EL_COUNT; from++) {
        for (int bits = 0; bits < 2; bits++) {
            if (bits &&
                (elem_info[from].bits != elem_info[e].bits || from == EL_BOOL || e == EL_BOOL))
                continue;
            Instance in = *start;
            int x = instance_var(&in, lanes_of((Elem)from), 0);
            use(&in, instance_op(&in, bits ? OP_BITCAST : OP_CAST, lanes_of(e), 1, &x), arg);
        }
    }
}

/// Leaves, ops of leaves, and casts.
static void each_form(const Instance *start, Elem e, UseForm *use, void *arg) {
    int node;
    Instance in = *start;
    for (int which = 0; leaf(&in, e, which, &node); which++) {
        use(&in, node, arg);
        in = *start;
    }
    if (e != EL_I4 && e != EL_U4) each_op_form(start, e, use, arg);
    each_cast_form(start, e, use, arg);
}

typedef struct Root {
    OpCode code;
    Shape type;
    Elem elem; // element of the operands except the condition of a select
    int n, at; // number of operands; the one that takes all forms
} Root;

/// The other operands are leaves.
static void use_as_operand(Instance *in, int node, void *arg) {
    const Root *root = arg;
    Instance with = *in;
    int x[3], first = -1, second = -1;
    x[root->at] = node;
    for (int i = 0; i < root->n; i++)
        if (i != root->at) (first < 0 ? (first = i) : (second = i));
    if (first < 0) {
        instance_op(&with, root->code, root->type, root->n, x);
        try_instance(&with);
        return;
    }
    Elem e = root->code == OP_SELECT && first == 0 ? EL_BOOL : root->elem;
    for (int a = 0; leaf(&with, e, a, &x[first]); a++, with = *in) {
        for (int b = 0; second < 0 || leaf(&with, root->elem, b, &x[second]); b++) {
            Instance whole = with;
            instance_op(&whole, root->code, root->type, root->n, x);
            try_instance(&whole);
            if (second < 0 || root->n > 2 + (root->code == OP_SELECT)) break;
            with = *in;
            leaf(&with, e, a, &x[first]);
        }
    }
}

/// All operands are repeated scalars or constants, except at most one block.
static void try_splats(const Root *root) {
    for (int kinds = 0; kinds < (root->n == 1 ? 3 : root->n == 2 ? 9 : 27); kinds++) {
        Instance in = {0};
        int x[3], k = kinds;
        for (int i = 0; i < root->n; i++, k /= 3) {
            Shape t = lanes_of(root->code == OP_SELECT && i == 0 ? EL_BOOL : root->elem);
            Cell two = cell_cast(EL_I64, t.elem, (Cell){.i = 2});
            x[i] = k % 3 == 0   ? instance_splat(&in, t)
                   : k % 3 == 1 ? instance_const(&in, t, two)
                                : instance_var(&in, t, i);
        }
        instance_op(&in, root->code, root->type, root->n, x);
        try_instance(&in);
    }
}

static void try_root(OpCode code, Elem from, Elem to) {
    int n = code == OP_SELECT                       ? 3
            : code == OP_CAST || code == OP_BITCAST ? 1
                                                    : op_info[code].n_operands;
    Root root = {code, lanes_of(to), from, n, 0};
    for (; root.at < n; root.at++) {
        Elem e = code == OP_SELECT && root.at == 0 ? EL_BOOL : from;
        each_form(&(Instance){0}, e, use_as_operand, &root);
    }
    try_splats(&root);
}

static void elementwise(void **state) {
    (void)state;
    for (int code = 0; code < OP_COUNT; code++)
        for (int e = 0; e < EL_COUNT; e++)
            if (takes((OpCode)code, (Elem)e))
                try_root((OpCode)code, (Elem)e, result_elem((OpCode)code, (Elem)e));
    for (int from = 0; from < EL_COUNT; from++) {
        if (from != EL_I4 && from != EL_U4) try_root(OP_SELECT, (Elem)from, (Elem)from);
        for (int to = 0; to < EL_COUNT; to++) {
            try_root(OP_CAST, (Elem)from, (Elem)to);
            bool same = elem_info[from].bits == elem_info[to].bits;
            if (same && from != EL_BOOL && to != EL_BOOL)
                try_root(OP_BITCAST, (Elem)from, (Elem)to);
        }
    }
}

/* ---- shapes -------------------------------------------------------------------------------- */

// Blocks with every kind of axes: long ones and ones of one lane, in all orders.
static const Shape shapes[] = {
    {EL_I32, 1, {1}},       {EL_I32, 1, {4}},       {EL_I32, 1, {6}},       {EL_I32, 2, {1, 1}},
    {EL_I32, 2, {1, 4}},    {EL_I32, 2, {4, 1}},    {EL_I32, 2, {2, 3}},    {EL_I32, 2, {3, 2}},
    {EL_I32, 2, {1, 6}},    {EL_I32, 3, {2, 1, 3}}, {EL_I32, 3, {1, 2, 3}}, {EL_I32, 3, {2, 3, 1}},
    {EL_I32, 3, {2, 2, 2}}, {EL_I32, 3, {1, 1, 4}},
};
enum { N_SHAPES = sizeof shapes / sizeof *shapes };

static int64_t lanes(const Shape *s) {
    int64_t n = 1;
    for (int d = 0; d < s->rank; d++) n *= s->extents[d];
    return n;
}

static bool broadcasts(const Shape *from, const Shape *to) {
    for (int d = 0; d < from->rank; d++)
        if (from->extents[d] != 1 && from->extents[d] != to->extents[d]) return false;
    return from->rank == to->rank;
}

/// Adds the op to a copy of the instance, and uses it.
static Node *add_shape_op(Instance *copy, const Instance *in, OpCode code, Shape type, int n, int x,
                          int y) {
    *copy = *in;
    int operands[] = {x, y};
    return &copy->node[instance_op(copy, code, type, n, operands)];
}

static void each_same_lanes(const Instance *in, int x, UseForm *use) {
    Shape from = in->node[x].type;
    Instance copy;
    for (int i = 0; i < N_SHAPES; i++) {
        Shape to = shapes[i];
        if (broadcasts(&from, &to)) {
            add_shape_op(&copy, in, OP_BROADCAST, to, 1, x, 0);
            use(&copy, copy.n - 1, NULL);
        }
        if (lanes(&from) == lanes(&to)) {
            add_shape_op(&copy, in, OP_RESHAPE, to, 1, x, 0);
            use(&copy, copy.n - 1, NULL);
        }
    }
}

static void each_permute(const Instance *in, int x, UseForm *use) {
    static const int64_t perms[][3] = {{0, 1, 2}, {1, 0, 2}, {0, 2, 1},
                                       {2, 1, 0}, {1, 2, 0}, {2, 0, 1}};
    Shape from = in->node[x].type;
    for (int i = 0; i < (from.rank == 1 ? 1 : from.rank == 2 ? 2 : 6); i++) {
        Shape to = from;
        for (int d = 0; d < from.rank; d++) to.extents[d] = from.extents[perms[i][d]];
        Instance copy;
        Node *node = add_shape_op(&copy, in, OP_PERMUTE, to, 1, x, 0);
        node->list = A_PERM;
        node->n_ints = from.rank;
        memcpy(node->ints, perms[i], sizeof perms[i]);
        use(&copy, copy.n - 1, NULL);
    }
}

/// Slices along one axis.
static void each_slice(const Instance *in, int x, UseForm *use) {
    Shape from = in->node[x].type;
    for (int d = 0; d < from.rank; d++)
        for (int64_t start = 0; start < from.extents[d]; start++)
            for (int64_t size = 1; start + size <= from.extents[d]; size++) {
                Shape to = from;
                to.extents[d] = size;
                Instance copy;
                Node *node = add_shape_op(&copy, in, OP_SLICE, to, 1, x, 0);
                node->list = A_START;
                node->n_ints = from.rank;
                node->ints[d] = start;
                use(&copy, copy.n - 1, NULL);
            }
}

/// Ops with an axis: concat of x alone and with another block, reduce, scan, sort, gather.
static void each_along_axis(const Instance *in, int x, UseForm *use) {
    static const OpCode codes[] = {OP_CONCAT, OP_CONCAT, OP_REDUCE, OP_SCAN,
                                   OP_SCAN,   OP_SORT,   OP_GATHER};
    static const BoolAttr flags[] = {[4] = A_REVERSE, [5] = A_DESCENDING, [6] = 0};
    Shape from = in->node[x].type, index = from;
    index.elem = EL_I64;
    for (int d = 0; d < from.rank; d++)
        for (int i = 0; i < 7; i++) {
            Shape to = from;
            Instance with = *in, copy;
            int y = i == 1                  ? instance_var(&with, from, 1)
                    : codes[i] == OP_GATHER ? instance_var(&with, index, 0)
                                            : 0;
            if (i == 1) to.extents[d] *= 2;
            if (codes[i] == OP_REDUCE) {
                to.rank--;
                for (int k = d; k < to.rank; k++) to.extents[k] = from.extents[k + 1];
            }
            Node *node = add_shape_op(&copy, &with, codes[i], to,
                                      i == 1 || codes[i] == OP_GATHER ? 2 : 1, x, y);
            node->number = A_AXIS;
            node->ints[0] = d;
            node->flag = flags[i];
            use(&copy, copy.n - 1, NULL);
        }
}

static void each_shape_op(const Instance *in, int x, UseForm *use) {
    if (in->node[x].type.rank == 0) return;
    each_same_lanes(in, x, use);
    each_permute(in, x, use);
    each_slice(in, x, use);
    each_along_axis(in, x, use);
}

static void try_shaped(Instance *in, int node, void *arg) {
    (void)node, (void)arg;
    try_instance(in);
}

static void use_in_shape_op(Instance *in, int node, void *arg) {
    (void)arg;
    each_shape_op(in, node, try_shaped);
}

/// Each shape op on a block, a constant, a repeated scalar, and each shape op of a block.
static void shape_ops(void **state) {
    (void)state;
    for (int i = 0; i < N_SHAPES; i++) {
        Instance x = {.shaped = true}, constant = x, zero = x, splat = x, iota = x;
        instance_var(&x, shapes[i], 0);
        instance_const(&constant, shapes[i], (Cell){.i = 7});
        instance_const(&zero, shapes[i], (Cell){.i = 0});
        instance_splat(&splat, shapes[i]);
        each_shape_op(&x, 0, try_shaped);
        each_shape_op(&constant, 0, try_shaped);
        each_shape_op(&zero, 0, try_shaped);
        each_shape_op(&splat, 0, try_shaped);
        each_shape_op(&x, 0, use_in_shape_op);
        instance_op(&iota, OP_IOTA, shapes[i], 0, NULL);
        if (shapes[i].rank == 1) try_instance(&iota);
    }
}

/* ---- control flow, accesses, products ------------------------------------------------------ */

static void try_text(const char *kernel, const char *pass, const char *gpu) {
    Probe probe = {0};
    Text text = {.ctx = shared};
    n_probes++;
    int64_t n = text_compare(kernel, pass_by_name(pass), gpu, note_rule, &probe, &text);
    n_values += n;
    n_compared += n > 0;
    for (int i = 0; i < probe.n && n; i++) rules[probe.rule[i]].tried++;
    if (text.n) report(&probe, &text);
}

static void texts(void **state) {
    (void)state;
    renew_context();
    each_rule_text(shared, try_text);
}

/* ---- all rules ----------------------------------------------------------------------------- */

static void all_tried(void **state) {
    (void)state;
    int missing = 0;
    for (int i = 0; i < n_rules; i++) {
        if (rules[i].tried) continue;
        missing++;
        print_error("no expression of this test leads to the rule of %s: %s\n",
                    rules[i].table->pass, rule_algebra(rules[i].table, rules[i].row));
    }
    print_message("%d rules, %lld expressions, %lld compared on %lld values\n", n_rules,
                  (long long)n_probes, (long long)n_compared, (long long)n_values);
    assert_int_equal(n_failures, 0);
    assert_int_equal(missing, 0);
}

int main(void) {
    list_rules();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(elementwise),
        cmocka_unit_test(shape_ops),
        cmocka_unit_test(texts),
        cmocka_unit_test(all_tried),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    if (shared) ctx_destroy(shared);
    return failed;
}
