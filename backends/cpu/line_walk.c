// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Walks over a block by lines and vectors.
#include "backends/cpu/line_walk.h"

enum { STRAIGHT = 4 }; // unrolled vectors

void for_vectors(Emit *e, int64_t extent, int lanes, VectorBody *body, void *arg) {
    const Gen *g = e->g;
    int64_t full = extent / lanes, done = 0;
    if (full > STRAIGHT) {
        done = full / STRAIGHT * STRAIGHT;
        Loop *l =
            loop_begin(e, gen_i64(g, 0), gen_i64(g, done * lanes), STRAIGHT * lanes, "vector");
        for (int64_t i = 0; i < STRAIGHT; i++)
            body(e, arg, gen_add(g, l->iv, gen_i64(g, i * lanes)), lanes);
        loop_end(e, l, NULL);
    }
    for (; done < full; done++) body(e, arg, gen_i64(g, done * lanes), lanes);
    if (extent % lanes) body(e, arg, gen_i64(g, full * lanes), (int)(extent % lanes));
}

typedef struct LineWalk {
    const Type *type;
    unsigned without;
    LineBody *body;
    void *arg;
    Place at;
} LineWalk;

static void lines_from(Emit *e, LineWalk *l, int axis) {
    if (axis == l->type->rank) {
        Place p = l->at;
        l->body(e, l->arg, &p);
        return;
    }
    const Gen *g = e->g;
    int64_t extent = l->type->extents[axis];
    l->at.at[axis] = gen_i64(g, 0);
    if (extent == 1 || (l->without >> axis & 1)) {
        lines_from(e, l, axis + 1);
        return;
    }
    Loop *loop = loop_begin(e, gen_i64(g, 0), gen_i64(g, extent), 1, "line");
    l->at.at[axis] = loop->iv;
    lines_from(e, l, axis + 1);
    loop_end(e, loop, NULL);
}

void for_lines(Emit *e, const Type *t, unsigned without, LineBody *body, void *arg) {
    LineWalk l = {t, without, body, arg, place_scalar()};
    l.at.rank = t->rank;
    lines_from(e, &l, 0);
}

int line_axis(const Type *t) {
    for (int d = t->rank - 1; d >= 0; d--)
        if (t->extents[d] > 1) return d;
    return t->rank - 1;
}

int line_lanes(const Emit *e, int bytes, int64_t extent) {
    int most = e->cpu->target.vector_bytes / bytes, lanes = 2;
    while (lanes < most && lanes < extent) lanes *= 2;
    return lanes;
}

Place line_place(const Place *p, int axis, int lanes, LLVMValueRef at, int live) {
    Place q = *p;
    q.axis = axis;
    q.lanes = lanes;
    q.live = live;
    q.at[axis] = at;
    return q;
}
