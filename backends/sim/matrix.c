// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Matrix instructions of a warp. The compiler's table of fragments places elements in lanes.
// Products are exact. Sums are rounded to f32 one by one, except those of f8, which are as inexact
// as Hopper's. Subnormal numbers are flushed as on the GPU.
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "backends/sim/matrix.h"
#include "backends/sim/shadow.h"
#include "passes/gpu/gpu.h"

/* ---- fragments ----------------------------------------------------------------------------- */

static void fill_fragment(Prepare *p, Fragment *f, const Layout *l) {
    f->threads = 1 << layout_thread_bits(l);
    f->elements = (int)layout_registers(l);
    f->rows = (int)l->extents[0];
    f->columns = (int)l->extents[1];
    Bits copies = layout_owner(l); // the highest thread bits number copies
    f->owners = copies ? (int)(copies & -copies) : f->threads;
    f->at = image_alloc(p->ctx, sizeof *f->at * (size_t)(f->threads * f->elements));
    for (int t = 0; t < f->threads; t++)
        for (int e = 0; e < f->elements; e++) {
            int64_t at[MAX_RANK];
            layout_at(l, e, t, at);
            f->at[t * f->elements + e] = (uint16_t)(at[0] * l->extents[1] + at[1]);
        }
}

static const Fragment *fragment_of_row(Prepare *p, const FragmentRow *row, FragmentRole role) {
    for (Fragment *f = p->image->fragments; f; f = f->next)
        if (f->role == (int)role && strcmp(f->name, row->name) == 0) return f;
    const Layout *l = fragment_layout(p->ctx, row);
    Fragment *f = image_alloc(p->ctx, sizeof *f);
    f->next = p->image->fragments;
    f->name = row->name;
    f->role = (int)role;
    p->image->fragments = f;
    fill_fragment(p, f, l);
    return f;
}

const Fragment *fragment_of(Prepare *p, const char *name, FragmentRole role) {
    const FragmentRow *row = fragment_find(name, role);
    if (!row) ice(p->ctx, (Loc){0}, "no fragment %s", name);
    return fragment_of_row(p, row, role);
}

/// Returns the i-th word between dots of a name such as "tg.nv.mma.m16n8k16.f32.f16.f16".
static const char *word_of_name(Prepare *p, const char *name, int i) {
    while (i-- > 0) name += strcspn(name, ".") + 1;
    return ctx_format(p->ctx, "%.*s", (int)strcspn(name, "."), name);
}

static Elem elem_of_word(Prepare *p, const char *name) {
    Elem e = strcmp(name, "tf32") == 0 || strcmp(name, "xf32") == 0 ? EL_F32 : elem_by_name(name);
    if (e == EL_COUNT) ice(p->ctx, (Loc){0}, "the simulator does not know the type %s", name);
    return e;
}

/// Whether sums keep few bits. NVIDIA's sums of f8 do, except where a warp's product consists of
/// products of f16.
static bool keeps_few_bits(const Prepare *p, const SimSite *site) {
    const GpuTarget *t = p->image->target;
    bool warps = strncmp(site->name, "tg.nv.mma.", 10) == 0;
    return elem_info[site->elem[0]].bits == 8 && site->elem[2] == EL_F32 &&
           strncmp(site->name, "tg.nv.", 6) == 0 && !(warps && gpu_has(t, GPU_F8_HALVES));
}

void prepare_types(Prepare *p, SimSite *site) {
    site->elem[2] = elem_of_word(p, word_of_name(p, site->name, 4));
    site->elem[0] = elem_of_word(p, word_of_name(p, site->name, 5));
    site->elem[1] = elem_of_word(p, word_of_name(p, site->name, 6));
    site->number_of['w' - 'a'] = keeps_few_bits(p, site);
}

/* ---- ldmatrix, stmatrix -------------------------------------------------------------------- */

void prepare_ldmatrix(Prepare *p, const Fn *fn, SimSite *site) {
    const char *name = *fn_capture(fn, 't') ? "ldmatrix.trans" : "ldmatrix";
    site->part[0] = fragment_of(p, name, FRAG_TILE);
    site->bytes = 16;
}

/// Lane 8 i + r has the address of row r of matrix i.
static char *matrix_row(Warp *w, const SimSite *site, int lane, int kind) {
    SimLane *l = &w->lanes[lane];
    uint32_t address = OPERAND(uint32_t, w->frames[lane], site, 0);
    uint32_t offset = address & ((1u << RANK_SHIFT) - 1);
    Cta *cta = shared_find(l, site, address, 16, 16);
    access_shared(l, site, cta, offset, 16, kind, NO_ACTOR, 0);
    if (kind & ACCESS_WRITE) shared_mark(cta, offset, 16);
    return cta->shared + offset;
}

static void check_whole(const Warp *w, const SimSite *site) {
    char place[PLACE_BYTES];
    const Sim *sim = w->cta->sim;
    if (warp_lanes(w) != sim->image->target->lanes)
        sim_fail(w->cta->sim, SIM_MISUSE, site, "%s needs a warp of %d lanes",
                 site_place(site, place), sim->image->target->lanes);
}

/// Moves halves of the lanes' words to or from rows.
static void move_matrix(Warp *w, const SimSite *site, int matrix, char *const *rows, bool store) {
    const Fragment *f = site->part[0];
    int at = store ? site->at[1] : site->result_at;
    for (int lane = 0; lane < LANES; lane++)
        for (int e = 0; e < 2; e++) {
            int place = f->at[lane * 2 + e];
            char *half = w->frames[lane] + at + 4 * matrix + 2 * e;
            char *there = rows[place / 8] + 2 * (place % 8);
            memcpy(store ? there : half, store ? half : there, 2);
        }
}

static void all_matrices(Warp *w, const SimSite *site, bool store) {
    check_whole(w, site);
    for (int i = 0; i < site_number(site, 'n'); i++) {
        char *rows[8];
        for (int r = 0; r < 8; r++)
            rows[r] = matrix_row(w, site, 8 * i + r, store ? ACCESS_WRITE : ACCESS_READ);
        move_matrix(w, site, i, rows, store);
    }
    warp_resume(w);
}

void handle_ldmatrix(Warp *w, const SimSite *site) {
    all_matrices(w, site, false);
}

void handle_stmatrix(Warp *w, const SimSite *site) {
    all_matrices(w, site, true);
}

/* ---- products ------------------------------------------------------------------------------ */

/// tf32 is f32 without its low 13 bits.
float matrix_float(Elem elem, uint32_t bits) {
    return elem == EL_F32 ? decode_float(EL_F32, bits & 0xffffe000) : decode_float(elem, bits);
}

int32_t matrix_int(Elem elem, uint32_t bits) {
    return elem == EL_I8 ? (int8_t)bits : (uint8_t)bits;
}

// Matrices have multiples of 8 columns. Compilers vectorise loops of a known length at -O2, too.
enum { COLUMNS = 8 };

static inline void add_scaled_floats(float x, const float *restrict b, float *restrict d) {
    for (int j = 0; j < COLUMNS; j++) d[j] += x * b[j];
}

static inline void add_scaled_ints(uint32_t x, const int32_t *restrict b, uint32_t *restrict d) {
    for (int j = 0; j < COLUMNS; j++) d[j] += x * (uint32_t)b[j];
}

void product_float(int m, int n, int k, const float *a, const float *b, float *d) {
    for (int i = 0; i < m; i++, d += n)
        for (int l = 0; l < k; l++) {
            float x = a[i * k + l];
            for (int j = 0; j < n; j += COLUMNS) add_scaled_floats(x, b + l * n + j, d + j);
        }
}

enum { NARROW_BITS = 13 }; // bits after the leading one

/// Returns the exponent of the largest term. A product's exponent is the sum of its operands'
/// exponents.
static int greatest_exponent(int n, int k, const float *a, const float *b, float sum) {
    int most = sum != 0 ? ilogbf(sum) : INT_MIN;
    for (int l = 0; l < k; l++) {
        int e = a[l] != 0 && b[l * n] != 0 ? ilogbf(a[l]) + ilogbf(b[l * n]) : INT_MIN;
        if (e > most) most = e;
    }
    return most;
}

/// Returns sum + a b. Terms lose all bits beyond the 13 after the largest term's leading bit, and
/// so does the sum. An H200's wgmma gives the same bits.
static float narrow_sum(int n, int k, const float *a, const float *b, float sum) {
    float exact = sum;
    for (int l = 0; l < k; l++) exact += a[l] * b[l * n];
    int most = greatest_exponent(n, k, a, b, sum), over = 0;
    if (!isfinite(exact) || most == INT_MIN) return exact;
    double scale = ldexp(1, NARROW_BITS - most);
    int32_t total = (int32_t)(sum * scale);
    for (int l = 0; l < k; l++) total += (int32_t)((double)(a[l] * b[l * n]) * scale);
    while (abs(total) >> over >= 2 << NARROW_BITS) over++;
    total = total / (1 << over) * (1 << over);
    return (float)(total / scale);
}

void product_narrow(int m, int n, int k, const float *a, const float *b, float *d) {
    for (int i = 0; i < m; i++)
        for (int j = 0; j < n; j++) d[i * n + j] = narrow_sum(n, k, a + i * k, b + j, d[i * n + j]);
}

bool is_narrow(const SimSite *site) {
    return site_number(site, 'w');
}

void product_int(int m, int n, int k, const int32_t *a, const int32_t *b, uint32_t *d) {
    for (int i = 0; i < m; i++, d += n)
        for (int l = 0; l < k; l++) {
            uint32_t x = (uint32_t)a[i * k + l];
            for (int j = 0; j < n; j += COLUMNS) add_scaled_ints(x, b + l * n + j, d + j);
        }
}

/* ---- mma.sync, MFMA, WMMA ------------------------------------------------------------------- */

static const Fragment *operand_fragment(Prepare *p, const char *name, FragmentRole role,
                                        Elem elem) {
    const FragmentRow *row = fragment_of_bits(name, role, elem_info[elem].bits);
    if (!row) ice(p->ctx, (Loc){0}, "no fragment %s", name);
    return fragment_of_row(p, row, role);
}

void prepare_mma(Prepare *p, const Fn *fn, SimSite *site) {
    const char *name =
        ctx_format(p->ctx, "%s.%s", word_of_name(p, site->name, 2), word_of_name(p, site->name, 3));
    (void)fn;
    prepare_types(p, site);
    site->number_of['x' - 'a'] =
        strcmp(word_of_name(p, site->name, 5), "f32") == 0; // whether all bits of f32 count
    site->number_of['z' - 'a'] =
        gpu_has(p->image->target, GPU_FLUSH) && elem_info[site->elem[0]].bits == 16;
    site->part[0] = operand_fragment(p, name, FRAG_A, site->elem[0]);
    site->part[1] = operand_fragment(p, name, FRAG_B, site->elem[1]);
    site->part[2] = operand_fragment(p, name, FRAG_D, site->elem[2]);
}

static float flushed_operand(float x, Elem elem) {
    float least = elem == EL_F16 ? 0x1p-14f : 0x1p-126f;
    return fabsf(x) < least ? copysignf(0, x) : x;
}

enum { MMA_MOST = 32 * 64, MMA_MOST_F64 = 16 * 16 };

typedef union Matrix {
    float f[MMA_MOST];
    int32_t i[MMA_MOST];
    uint32_t u[MMA_MOST];
    double d[MMA_MOST_F64];
} Matrix;

static void set_element(const SimSite *site, int which, Matrix *m, int place, uint64_t bits) {
    Elem elem = site->elem[which];
    if (elem == EL_F64)
        memcpy(&m->d[place], &bits, sizeof bits);
    else if (which == 2 && elem != EL_F16)
        m->u[place] = (uint32_t)bits;
    else if (elem_is(elem, EC_INT))
        m->i[place] = matrix_int(elem, (uint32_t)bits);
    else if (elem == EL_F32 && site_number(site, 'x'))
        m->f[place] = decode_float(elem, (uint32_t)bits);
    else
        m->f[place] = matrix_float(elem, (uint32_t)bits);
    if (site_number(site, 'z')) m->f[place] = flushed_operand(m->f[place], elem);
}

/// Checks that the lanes with copies of an element agree on it.
static void check_copies(const Warp *w, const SimSite *site, int which, int size) {
    const Fragment *f = site->part[which];
    char a[NAME_BYTES], place[PLACE_BYTES];
    for (int lane = f->owners; lane < f->threads; lane++) {
        const char *own = w->frames[lane] + site->at[which];
        const char *other = w->frames[lane % f->owners] + site->at[which];
        if (memcmp(own, other, (size_t)(size * f->elements)) != 0)
            sim_fail(w->cta->sim, SIM_MISUSE, site,
                     "operand %d of %s: %s must have the same value as lane %d", which,
                     site_place(site, place), lane_name(&w->lanes[lane], a), lane % f->owners);
    }
}

static uint64_t bits_at(const char *p, int bytes) {
    uint64_t bits = 0;
    switch (bytes) { // copies of these sizes are single instructions
    case 1: memcpy(&bits, p, 1); break;
    case 2: memcpy(&bits, p, 2); break;
    case 4: memcpy(&bits, p, 4); break;
    default: memcpy(&bits, p, 8);
    }
    return bits;
}

/// Gathers the elements of all lanes. In the frame, an element's bits extend to the next element.
static void gather_fragment(const Warp *w, const SimSite *site, int which, Matrix *out) {
    const Fragment *f = site->part[which];
    int size = elem_info[site->elem[which]].bits / 8;
    for (int lane = 0; lane < f->owners; lane++) {
        const char *at = w->frames[lane] + site->at[which];
        const uint16_t *places = &f->at[lane * f->elements];
        for (int e = 0; e < f->elements; e++, at += size)
            set_element(site, which, out, places[e], bits_at(at, size));
    }
    check_copies(w, site, which, size);
}

static void scatter_fragment(Warp *w, const SimSite *site, const Matrix *d) {
    const Fragment *f = site->part[2];
    Elem elem = site->elem[2];
    int size = elem_info[elem].bits / 8;
    for (int lane = 0; lane < f->threads; lane++) {
        char *at = w->frames[lane] + site->result_at;
        for (int e = 0; e < f->elements; e++, at += size) {
            int place = f->at[lane * f->elements + e];
            uint16_t half = elem == EL_F16 ? encode_f16(d->f[place]) : 0;
            const void *from = elem == EL_F64   ? (const void *)&d->d[place]
                               : elem == EL_F16 ? (const void *)&half
                                                : &d->u[place];
            memcpy(at, from, (size_t)size);
        }
    }
}

static void product_f64(int m, int n, int k, const double *a, const double *b, double *d) {
    for (int i = 0; i < m; i++)
        for (int j = 0; j < n; j++)
            for (int l = 0; l < k; l++)
                d[i * n + j] = fma(a[i * k + l], b[l * n + j], d[i * n + j]);
}

/// Returns three matrices, which are too large for a lane's stack.
static Matrix *matrices_of(Sim *sim) {
    if (!sim->matrices) sim->matrices = sim_alloc(sim, 3 * sizeof(Matrix));
    return sim->matrices;
}

void handle_mma(Warp *w, const SimSite *site) {
    Matrix *a = matrices_of(w->cta->sim), *b = a + 1, *d = a + 2;
    int m = site->part[2]->rows, n = site->part[2]->columns, k = site->part[0]->columns;
    check_whole(w, site);
    gather_fragment(w, site, 0, a);
    gather_fragment(w, site, 1, b);
    gather_fragment(w, site, 2, d);
    if (site->elem[0] == EL_F64)
        product_f64(m, n, k, a->d, b->d, d->d);
    else if (elem_is(site->elem[0], EC_INT))
        product_int(m, n, k, a->i, b->i, d->u);
    else if (is_narrow(site))
        product_narrow(m, n, k, a->f, b->f, d->f);
    else
        product_float(m, n, k, a->f, b->f, d->f);
    for (int i = 0; i < m * n && site_number(site, 'z'); i++)
        d->f[i] = flushed_operand(d->f[i], EL_F32);
    scatter_fragment(w, site, d);
    warp_resume(w);
}
