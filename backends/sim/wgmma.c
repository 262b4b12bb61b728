// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// wgmma products of a warpgroup run in the background. Until the wait, the accumulators hold NaNs
// that number the product and the register. The wait replaces them by results:
//
//     0 11111111 0 iiiiiiiiiiiiiii rrrrrrr      i: product (1 ..), r: register
#include <stdlib.h>
#include <string.h>

#include "backends/sim/matrix.h"
#include "backends/sim/shadow.h"

enum {
    ROWS = 64,
    THREADS = GROUP_WARPS * LANES,
    CANARY = 0x7f800000,
    CANARY_MASK = 0x7fc00000,
    QUIET = 0x400000, // any arithmetic on the NaN sets this bit
    REGISTER_BITS = 7,
    ID_MASK = 0x7fff,
};

static uint32_t canary_of(const Product *p, int reg) {
    return CANARY | (uint32_t)p->id << REGISTER_BITS | (uint32_t)reg;
}

static char *frame_of(const Group *g, int thread) {
    return g->cta->warps[g->index * GROUP_WARPS + thread / LANES].frames[thread % LANES];
}

static SimLane *first_group_lane(const Group *g) {
    return &g->cta->lanes[g->index * THREADS];
}

/// Returns the product in flight whose number the register holds, or NULL.
static Product *find_product(const Group *g, uint32_t bits) {
    int id = bits >> REGISTER_BITS & ID_MASK;
    for (Product *p = id && (bits & CANARY) == CANARY ? g->oldest : NULL; p; p = p->next)
        if (p->id == id) return p;
    return NULL;
}

static void release_product(Product *p) {
    free(p->registers.f);
    free(p->sum.f);
    free(p);
}

void products_reset(Group *g) {
    for (Product *p = g->oldest, *next; p; p = next) {
        next = p->next;
        release_product(p);
    }
    g->oldest = g->newest = NULL;
}

/* ---- operands in shared memory --------------------------------------------------------------- */

/// An operand of rows x k elements that a descriptor describes, in units of 16 bytes.
typedef struct MatrixOperand {
    uint32_t start, lead, stride;
    int width; // units in a row of the swizzle: 1, 2, 4 or 8
    bool mn;   // whether a unit's elements lie along the rows, not along k
    int rows, k;
    Elem elem;
} MatrixOperand;

static int elem_size(Elem elem) {
    return elem_info[elem].bits / 8;
}

static MatrixOperand descriptor_operand(const SimSite *site, uint64_t desc, int which) {
    static const int widths[] = {1, 8, 4, 2};
    MatrixOperand o = {.start = (uint32_t)(desc & 0x3fff) << 4,
                       .lead = (uint32_t)(desc >> 16 & 0x3fff) << 4,
                       .stride = (uint32_t)(desc >> 32 & 0x3fff) << 4,
                       .width = widths[desc >> 62],
                       .mn = site_number(site, which ? 'y' : 'x') != 0,
                       .rows = which ? site_number(site, 'n') : ROWS,
                       .elem = site->elem[which]};
    o.k = 32 / elem_size(o.elem);
    return o;
}

static int unit_count(const MatrixOperand *o) {
    return o->mn ? o->rows / 8 * o->k : o->rows * 2;
}

/// Returns the offset of a unit: the PTX manual's layouts for K-major and MN-major operands, with
/// the swizzle on address bits.
static uint32_t unit_offset(const MatrixOperand *o, int i) {
    uint32_t at = o->start, row = (uint32_t)o->width * 16;
    if (o->mn) {
        uint32_t m = (uint32_t)(i / o->k), k = (uint32_t)(i % o->k), w = (uint32_t)o->width;
        at += w == 1 ? m * o->stride + k % 8 * 16 + k / 8 * o->lead
                     : m % w * 16 + m / w * o->lead + k % 8 * row + k / 8 * o->stride;
    } else {
        uint32_t r = (uint32_t)i / 2, u = (uint32_t)i % 2;
        at += r % 8 * row + r / 8 * o->stride + u * (o->width == 1 ? o->lead : 16);
    }
    return at ^ (at >> 3 & (row - 16));
}

/// The layout of the code may disagree with the descriptor. Returns the detectable errors.
static const char *check_descriptor(const MatrixOperand *o, uint64_t desc, int64_t shared) {
    uint32_t row = (uint32_t)o->width * 16;
    if (desc & (uint64_t)0x3ff1c000c000c000) return "bits that have to be 0 are not";
    if (desc >> 49 & 7) return "a base offset";
    if (o->width > 1 && (o->start & (8 * row - 1)) >= row)
        return "the start is not in the first row of a swizzle atom";
    if (o->start % 16) return "the start is not a multiple of 16";
    for (int i = 0; i < unit_count(o); i++)
        if (unit_offset(o, i) + 16 > shared) return "a part of the matrix is outside";
    return NULL;
}

static void check_descriptor_operand(Group *g, const SimSite *site, uint64_t desc, int which) {
    MatrixOperand o = descriptor_operand(site, desc, which);
    Sim *sim = g->cta->sim;
    const char *wrong = check_descriptor(&o, desc, sim->shared_bytes);
    char place[PLACE_BYTES];
    if (wrong)
        sim_fail(sim, SIM_MISUSE, site,
                 "the descriptor of %c of %s, %#llx (start %u, leading %u, stride %u, swizzle %d): "
                 "%s",
                 "AB"[which], site_place(site, place), (unsigned long long)desc, o.start, o.lead,
                 o.stride, o.width == 1 ? 0 : o.width * 16, wrong);
    if (!sim->shadow) return;
    for (int i = 0; i < unit_count(&o); i++)
        access_shared(first_group_lane(g), site, g->cta, unit_offset(&o, i), 16,
                      ACCESS_READ | ACCESS_ASYNC, actor_of_group(g), (uint32_t)g->committed + 1);
}

/// Decodes a unit's elements. Most operands have 16 bits an element, so these have own loops.
static void read_unit(Elem elem, const char *unit, float *out, int step) {
    enum { HALVES = 8 };
    int size = elem_size(elem);
    uint16_t halves[HALVES];
    memcpy(halves, unit, sizeof halves);
    if (elem == EL_F16)
        for (int e = 0; e < HALVES; e++) out[e * step] = decode_f16(halves[e]);
    else if (elem == EL_BF16)
        for (int e = 0; e < HALVES; e++) out[e * step] = decode_bf16(halves[e]);
    for (int e = 0; size != 2 && e < 16 / size; e++) {
        uint32_t bits = 0;
        memcpy(&bits, unit + e * size, (size_t)size);
        out[e * step] = matrix_float(elem, bits);
    }
}

static void read_unit_ints(Elem elem, const char *unit, int32_t *out, int step) {
    for (int e = 0; e < 16; e++) out[e * step] = matrix_int(elem, (uint8_t)unit[e]);
}

/// Reads the operand to out[row * row_step + k * k_step].
static void read_matrix_operand(const Cta *cta, const MatrixOperand *o, int row_step, int k_step,
                                Elements out) {
    int each = 16 / elem_size(o->elem);
    bool integer = elem_is(o->elem, EC_INT);
    for (int i = 0; i < unit_count(o); i++) {
        const char *unit = cta->shared + VIEW_ASYNC + unit_offset(o, i);
        int row = o->mn ? i / o->k * 8 : i / 2, k = o->mn ? i % o->k : i % 2 * each;
        int at = row * row_step + k * k_step, step = o->mn ? row_step : k_step;
        if (integer)
            read_unit_ints(o->elem, unit, out.i + at, step);
        else
            read_unit(o->elem, unit, out.f + at, step);
    }
}

/// The number of accumulator elements in a register.
static int per_register(const SimSite *site) {
    return site->elem[2] == EL_F16 ? 2 : 1;
}

/* ---- work ---------------------------------------------------------------------------------- */

static void multiply_step(Group *g, Product *p, int step, Elements a, Elements b) {
    const SimSite *site = p->site;
    int n = site_number(site, 'n'), k = 32 / elem_size(site->elem[0]);
    MatrixOperand o = descriptor_operand(site, p->b[step], 1);
    read_matrix_operand(g->cta, &o, 1, n, b);
    if (p->registers.f) {
        a.f = p->registers.f + step * ROWS * k;
    } else {
        o = descriptor_operand(site, p->a[step], 0);
        read_matrix_operand(g->cta, &o, k, 1, a);
    }
    if (elem_is(site->elem[0], EC_INT))
        product_int(ROWS, n, k, a.i, b.i, p->sum.u);
    else if (is_narrow(site))
        product_narrow(ROWS, n, k, a.f, b.f, p->sum.f);
    else
        product_float(ROWS, n, k, a.f, b.f, p->sum.f);
    for (int i = 0; site->elem[2] == EL_F16 && i < ROWS * n; i++)
        p->sum.f[i] = decode_f16(encode_f16(p->sum.f[i]));
}

static void do_product(Group *g, Product *p) {
    float a[ROWS * 32];
    Elements b = {.f = sim_alloc(g->cta->sim, sizeof(float) * 32 * 256)};
    if (p->before)
        memcpy(p->sum.u, p->before->sum.u,
               sizeof(float) * ROWS * (size_t)site_number(p->site, 'n'));
    p->before = NULL;
    for (int step = 0; step < site_number(p->site, 's'); step++)
        multiply_step(g, p, step, (Elements){.f = a}, b);
    free(b.f);
    p->worked = true;
}

bool product_random(Group *g) {
    Product *p = g->oldest;
    while (p && p->worked) p = p->next;
    if (p) do_product(g, p);
    return p != NULL;
}

/* ---- start --------------------------------------------------------------------------------- */

void prepare_wgmma(Prepare *p, const Fn *fn, SimSite *site) {
    prepare_types(p, site);
    site->number_of['r' - 'a'] = strstr(site->name, ".rs") != NULL;
    (void)fn;
    int k = 32 / elem_size(site->elem[0]);
    site->part[2] = fragment_of(p, "wgmma.m64n8", FRAG_D);
    if (site_number(site, 'r'))
        site->part[0] = fragment_of(p, ctx_format(p->ctx, "wgmma.m64k%d", k), FRAG_A);
}

/// Checks that the whole group agrees on descriptors and predicate.
static void check_same(Group *g, const SimSite *site, int group, size_t bytes) {
    char a[NAME_BYTES], b[NAME_BYTES], place[PLACE_BYTES];
    const char *first = frame_of(g, 0) + site->at[group];
    for (int t = 1; t < THREADS; t++)
        if (memcmp(first, frame_of(g, t) + site->at[group], bytes) != 0)
            sim_fail(g->cta->sim, SIM_DIVERGENT, site, "operand %d of %s differs between %s and %s",
                     group, site_place(site, place), lane_name(first_group_lane(g), a),
                     lane_name(first_group_lane(g) + t, b));
}

/// Returns the position of a thread's element e in the matrix.
static int sum_place(const SimSite *site, int thread, int e) {
    const Fragment *f = site->part[2];
    int place = f->at[thread * f->elements + e % f->elements], n = site_number(site, 'n');
    return place / f->columns * n + place % f->columns + e / f->elements * f->columns;
}

static void set_register(Product *p, int thread, int reg, uint32_t bits) {
    int per = per_register(p->site);
    if (per == 1) p->sum.u[sum_place(p->site, thread, reg)] = bits;
    for (int i = 0; per > 1 && i < per; i++)
        p->sum.f[sum_place(p->site, thread, reg * per + i)] =
            decode_f16((uint16_t)(bits >> 16 * i));
}

static uint32_t get_register(const Product *p, int thread, int reg) {
    int per = per_register(p->site);
    uint32_t bits = 0;
    if (per == 1) return p->sum.u[sum_place(p->site, thread, reg)];
    for (int i = 0; i < per; i++)
        bits |= (uint32_t)encode_f16(p->sum.f[sum_place(p->site, thread, reg * per + i)]) << 16 * i;
    return bits;
}

static void read_registers(Group *g, Product *p) {
    const Fragment *f = p->site->part[0];
    Elem elem = p->site->elem[0];
    int size = elem_size(elem), steps = site_number(p->site, 's');
    int each = ROWS * f->columns;
    p->registers.f = sim_alloc(g->cta->sim, sizeof(float) * (size_t)(each * steps));
    for (int t = 0; t < THREADS; t++)
        for (int e = 0; e < f->elements * steps; e++) {
            uint32_t bits = 0;
            memcpy(&bits, frame_of(g, t) + p->site->at[0] + e * size, (size_t)size);
            int at = e / f->elements * each + f->at[t * f->elements + e % f->elements];
            if (elem_is(elem, EC_INT))
                p->registers.i[at] = matrix_int(elem, bits);
            else
                p->registers.f[at] = matrix_float(elem, bits);
        }
}

static uint32_t accumulator_bits(const Group *g, const SimSite *site, int thread, int reg) {
    return ((const uint32_t *)(const void *)(frame_of(g, thread) + site->at[2]))[reg];
}

static _Noreturn void bad_accumulator(const Group *g, const SimSite *site, const Product *before,
                                      int thread, int reg, const char *what) {
    char a[NAME_BYTES], here[PLACE_BYTES], there[PLACE_BYTES];
    sim_fail(g->cta->sim, SIM_PENDING, site, "accumulator %d of %s at %s: %s %s", reg,
             lane_name(first_group_lane(g) + thread, a), site_place(site, here), what,
             site_place(before->site, there));
}

/// Returns the product in flight that holds all of the accumulators, or NULL if none does.
static Product *chained_product(const Group *g, const SimSite *site) {
    Product *before = find_product(g, accumulator_bits(g, site, 0, 0));
    for (int t = 0; t < THREADS; t++)
        for (int r = 0; r < site->result_count; r++) {
            uint32_t bits = accumulator_bits(g, site, t, r);
            Product *p = find_product(g, bits);
            if (p && bits & QUIET)
                bad_accumulator(g, site, p, t, r, "was changed before the wait for");
            if (p != before || (p && bits != canary_of(p, r)))
                bad_accumulator(g, site, p ? p : before, t, r, "is not the same register of");
        }
    if (before && (before->passed || before->site->result_count != site->result_count))
        bad_accumulator(g, site, before, 0, 0, "is not the last result of");
    return before;
}

static void begin_sum(Group *g, Product *p, bool add) {
    int n = site_number(p->site, 'n');
    p->sum.u = sim_alloc(g->cta->sim, sizeof(float) * ROWS * (size_t)n);
    p->before = add ? chained_product(g, p->site) : NULL;
    if (p->before) p->before->passed = true;
    for (int t = 0; add && !p->before && t < THREADS; t++)
        for (int r = 0; r < p->site->result_count; r++)
            set_register(p, t, r, accumulator_bits(g, p->site, t, r));
}

/// Registers that other code may have accessed need a fence before the product. So does each
/// product that starts sums after a commit: ptxas would add a fence (C7519) and serialise products
/// (C7520).
static void check_fence(const Group *g, const Product *p) {
    char place[PLACE_BYTES];
    if (!p->before && !g->fenced)
        sim_fail(g->cta->sim, SIM_MISUSE, p->site,
                 "no wgmma.fence between other use of registers and %s",
                 site_place(p->site, place));
}

static void append_product(Group *g, Product *p) {
    *(g->newest ? &g->newest->next : &g->oldest) = p;
    g->newest = p;
}

void handle_wgmma(Group *g, const SimSite *site) {
    int steps = site_number(site, 's');
    bool registers = site_number(site, 'r');
    Product *p = sim_alloc(g->cta->sim, sizeof *p);
    p->site = site;
    p->commit = -1;
    g->next_id = g->next_id % ID_MASK + 1;
    p->id = g->next_id;
    append_product(g, p);
    if (!registers) check_same(g, site, 0, 8 * (size_t)steps);
    check_same(g, site, 1, 8 * (size_t)steps);
    check_same(g, site, 3, 1);
    if (!registers) memcpy(p->a, frame_of(g, 0) + site->at[0], 8 * (size_t)steps);
    memcpy(p->b, frame_of(g, 0) + site->at[1], 8 * (size_t)steps);
    begin_sum(g, p, OPERAND(uint8_t, frame_of(g, 0), site, 3));
    check_fence(g, p);
    if (registers) read_registers(g, p);
    for (int i = 0; i < steps; i++) {
        if (!registers) check_descriptor_operand(g, site, p->a[i], 0);
        check_descriptor_operand(g, site, p->b[i], 1);
    }
    for (int t = 0; t < THREADS; t++)
        for (int r = 0; r < site->result_count; r++)
            ((uint32_t *)(void *)(frame_of(g, t) + site->result_at))[r] = canary_of(p, r);
}

/// Fills registers with NaNs other than those of products, so that a read of them shows in results.
void handle_wgmma_blank(SimLane *lane, const SimSite *site, char *frame) {
    (void)lane;
    for (int r = 0; r < site->result_count; r++)
        ((uint32_t *)(void *)(frame + site->result_at))[r] = UINT32_MAX;
}

/* ---- groups and waits ---------------------------------------------------------------------- */

void handle_wgmma_fence(Group *g, const SimSite *site) {
    (void)site;
    g->fenced = true;
}

void handle_wgmma_commit(Group *g, const SimSite *site) {
    (void)site;
    for (Product *p = g->oldest; p; p = p->next)
        if (p->commit < 0) p->commit = g->committed;
    g->committed++;
    g->fenced = false;
}

/// Returns the value of a register after the wait.
static uint32_t waited_result(Group *g, const SimSite *site, int thread, int i, uint32_t bits) {
    Product *p = find_product(g, bits);
    if (!p) return bits;
    if (bits & QUIET) bad_accumulator(g, site, p, thread, i, "was changed before the wait for");
    if (p->passed)
        bad_accumulator(g, site, p, thread, i, "belongs to a product that took over from");
    if (!p->ready) return bits;
    p->given++;
    int reg = bits & ((1 << REGISTER_BITS) - 1);
    return get_register(p, thread, reg);
}

/// Releases products with all results returned. A wait may consist of several statements, and a
/// product's results may be divided between them.
static void sweep_products(Group *g) {
    Product **at = &g->oldest, *p;
    g->newest = NULL;
    while ((p = *at)) {
        // A product whose sums went to another one is kept until that one has taken them.
        bool over = p->given >= p->site->result_count * THREADS ||
                    (p->passed && p->next && p->next->worked && p->worked);
        for (const Product *q = p->next; over && q; q = q->next) over = q->before != p;
        if (over) {
            *at = p->next;
            release_product(p);
        } else {
            g->newest = p;
            at = &p->next;
        }
    }
}

void handle_wgmma_wait(Group *g, const SimSite *site) {
    int last = g->committed - 1 - site_number(site, 'k'), n = site_number(site, 'n');
    for (Product *p = g->oldest; p; p = p->next) {
        if (p->commit < 0 || p->commit > last) continue;
        if (!p->worked) do_product(g, p);
        p->ready = true;
    }
    for (int i = 0; i < GROUP_WARPS && last >= 0; i++)
        order_waited(&g->cta->warps[g->index * GROUP_WARPS + i], actor_of_group(g),
                     (uint32_t)last + 1);
    for (int t = 0; t < THREADS; t++) {
        uint32_t *values = (uint32_t *)(void *)(frame_of(g, t) + site->result_at);
        for (int r = 0; r < n; r++) values[r] = waited_result(g, site, t, r, values[r]);
    }
    g->fenced = false;
    sweep_products(g);
}
