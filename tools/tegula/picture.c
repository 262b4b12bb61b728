// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// explain --picture: which register of which lane holds an element of a block, and where shared
// memory holds it. Each layout is drawn once, its upper left corner only.
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "ir/layout/layout.h"
#include "tools/tegula/executors.h"

enum { ROWS = 16, COLUMNS = 16, UNIT = 16, BANKS = 32, BANK_BYTES = 4 };

typedef struct Pictured {
    const Type *type;
    Loc loc; // of the first value
    int values;
} Pictured;

typedef struct Gallery {
    Ctx *ctx;
    VEC(Pictured) all;
} Gallery;

static bool is_same_picture(const Type *a, const Type *b) {
    if (a->kind != b->kind) return false;
    return a->kind == TK_BUF ? a == b : a->layout == b->layout;
}

static void add_picture(Gallery *g, const Type *type, Loc loc) {
    bool block = ty_is_block(type) && type->layout;
    if ((!block && type->kind != TK_BUF) || type->rank < 1) return;
    for (int i = 0; i < g->all.n; i++)
        if (is_same_picture(g->all.data[i].type, type)) {
            g->all.data[i].values++;
            return;
        }
    Pictured p = {.type = type, .loc = loc, .values = 1};
    vec_push(g->ctx, &g->all, p);
}

static void add_op(Op *op, void *arg) {
    for (int i = 0; i < op->n_results; i++) add_picture(arg, result(op, i)->type, op->loc);
}

/// The coordinates of a row and a column of the picture, which are the last two dimensions.
static void coords_at(const Type *t, int row, int column, int64_t *out) {
    memset(out, 0, sizeof *out * MAX_RANK);
    out[t->rank - 1] = column;
    if (t->rank > 1) out[t->rank - 2] = row;
}

static int shown_of(int64_t extent, int most) {
    return extent < most ? (int)extent : most;
}

static void print_registers(const Type *t) {
    const Layout *l = t->layout;
    int lanes = 1 << l->bits[LEVEL_LANE];
    int rows = t->rank > 1 ? shown_of(t->extents[t->rank - 2], ROWS) : 1;
    int columns = shown_of(t->extents[t->rank - 1], COLUMNS);
    for (int r = 0; r < rows; r++) {
        printf("    ");
        for (int c = 0; c < columns; c++) {
            int64_t at[MAX_RANK], reg, thread;
            char cell[32];
            coords_at(t, r, c, at);
            layout_find(l, at, &reg, &thread);
            snprintf(cell, sizeof cell, "%d.%d:%d", (int)(thread / lanes), (int)(thread % lanes),
                     (int)reg);
            printf(" %-8s", cell);
        }
        printf("\n");
    }
}

/// Eight rows of 128 bytes, by units of 16 bytes: the first bank of each.
static void print_banks(const Type *t) {
    SharedLayout s = shared_of(t);
    int step = s.elem_bytes < UNIT ? UNIT / s.elem_bytes : 1;
    int rows = t->rank > 1 ? shown_of(t->extents[t->rank - 2], ROWS / 2) : 1;
    int columns = shown_of(t->extents[t->rank - 1] / step, COLUMNS);
    for (int r = 0; r < rows; r++) {
        printf("    ");
        for (int c = 0; c < columns; c++) {
            int64_t at[MAX_RANK];
            coords_at(t, r, c * step, at);
            printf(" %3d", (int)(shared_offset(&s, at) / BANK_BYTES % BANKS));
        }
        printf("\n");
    }
}

static void print_type(const Pictured *p) {
    const Type *t = p->type;
    printf("  %u:%u  %s<", p->loc.line, p->loc.col, elem_info[t->elem].name);
    for (int d = 0; d < t->rank; d++) printf("%s%" PRId64, d ? "x" : "", t->extents[d]);
    printf(">, %d value%s\n", p->values, p->values == 1 ? "" : "s");
}

void explain_picture(Job *job) {
    Gallery g = {.ctx = job->ctx};
    op_walk_pre(job->build.code->module, add_op, &g);
    printf("layouts of blocks: warp.lane:register of each element, from the upper left corner\n");
    for (int i = 0; i < g.all.n; i++) {
        if (g.all.data[i].type->kind == TK_BUF) continue;
        print_type(&g.all.data[i]);
        print_registers(g.all.data[i].type);
    }
    printf("shared memory: the first bank of each 16 bytes of a row\n");
    for (int i = 0; i < g.all.n; i++) {
        if (g.all.data[i].type->kind != TK_BUF) continue;
        print_type(&g.all.data[i]);
        print_banks(g.all.data[i].type);
    }
}
