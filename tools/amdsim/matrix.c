// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Matrix products: v_mfma_* of CDNA and v_wmma_* of RDNA 3. Sums of f32 are rounded after each
// product, in the order of k. The GPUs' own order is undocumented.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "tools/amdsim/bits.h"
#include "tools/amdsim/machine.h"

typedef enum MatrixElem {
    E_f16,
    E_bf16,
    E_f32,
    E_xf32,
    E_f64,
    E_i8,
    E_u8,
    E_fp8,
    E_bf8,
    E_i4,
    E_u4
} MatrixElem;
static const int elem_bits[] = {16, 16, 32, 32, 64, 8, 8, 8, 8, 4, 4};

/// Types of sums and of results.
enum { SUM_F32, SUM_I32, SUM_F64, SUM_F16, SUM_BF16 };

/// Returns element `j` of a lane's registers from `reg` on.
static f64 matrix_element(const Wave *w, int reg, int lane, int j, MatrixElem e) {
    int bits = elem_bits[e];
    if (e == E_f64) return f64_of(lane_value(w, lane, reg + 2 * j, 8));
    u32 word = w->v[reg + j * bits / 32][lane] >> j * bits % 32;
    switch (e) {
    case E_f16: return f16_of(word);
    case E_bf16: return bf16_of(word);
    case E_xf32: return f32_of(word & 0xffffe000);
    case E_i8: return (i8)word;
    case E_u8: return (u8)word;
    case E_i4: return (i8)(word << 4) >> 4;
    case E_u4: return word & 15;
    case E_fp8:
    case E_bf8: return f8_of(word, (F8){.e5 = e == E_bf8, .fnuz = w->m->fnuz});
    default: return f32_of(word);
    }
}

/// Returns the addend of the product: from a register, or a constant.
static f64 matrix_addend(const Wave *w, const Operand *c, int r, int lane, int sum, int shift) {
    if (c->kind == FLOAT) return c->real;
    if (c->kind != VECTOR) return (f64)(i64)c->integer;
    if (sum == SUM_F64) return f64_of(lane_value(w, lane, c->reg + 2 * r, 8));
    u32 word = w->v[c->reg + r][lane] >> shift;
    if (sum == SUM_I32) return (i32)word;
    if (sum == SUM_F16) return f16_of(word);
    return sum == SUM_BF16 ? bf16_of(word) : f32_of(word);
}

/* ---- MFMA ----------------------------------------------------------------------------------- */

enum { MAX_RESULTS = 32, MAX_DEPTH = 16 };
typedef f64 Tile[LANES][MAX_DEPTH];

/// The position of register `r` of lane `l` in the result.
typedef struct ResultPlace {
    int block, row, column;
} ResultPlace;
static ResultPlace result_place(const Inst *i, int r, int l) {
    int m = i->matrix.m;
    if (m == 32) return (ResultPlace){r / 16, 8 * (r % 16 / 4) + 4 * (l / 32) + r % 4, l % 32};
    if (m == 4) return (ResultPlace){l / 4, r, l % 4};
    if (i->matrix.result == SUM_F64) return (ResultPlace){0, 4 * r + l / 16, l % 16};
    return (ResultPlace){r / 4, 4 * (l / 16) + r % 4, l % 16};
}

static void read_tile(const Wave *w, int reg, int depth, MatrixElem e, Tile out) {
    for (int l = 0; l < LANES; l++)
        for (int j = 0; j < depth; j++) out[l][j] = matrix_element(w, reg, l, j, e);
}

static void check_mfma(const Wave *w, const Inst *i, int depth, int results) {
    if (exec_mask(w) != ~0ull)
        fail(w, i, AMDSIM_FAULT, "lanes are off, which a matrix product ignores");
    check_operand(w, i, &i->o[1], (depth * elem_bits[i->matrix.a] + 31) / 32);
    check_operand(w, i, &i->o[2], (depth * elem_bits[i->matrix.b] + 31) / 32);
    check_operand(w, i, &i->o[3], results * (1 + (i->matrix.result == SUM_F64)));
}

/// A lane holds `depth` elements along k of each of A and B.
static f64 mfma_sum(const Inst *i, Tile a, Tile b, ResultPlace p, int depth, f64 sum) {
    int m = i->matrix.m, k_lanes = i->matrix.k / depth;
    for (int k = 0; k < i->matrix.k; k++) {
        int group = m * (k / depth + k_lanes * p.block);
        sum += a[p.row + group][k % depth] * b[p.column + group][k % depth];
        if (i->matrix.result == SUM_F32) sum = (f32)sum;
    }
    return sum;
}

static void run_mfma(Wave *w, const Inst *i) {
    int m = i->matrix.m, blocks = i->matrix.blocks, result = i->matrix.result;
    int depth = m * i->matrix.k * blocks / LANES, results = m * m * blocks / LANES;
    Tile a, b;
    f64 out[MAX_RESULTS][LANES];
    check_mfma(w, i, depth, results);
    read_tile(w, i->o[1].reg, depth, (MatrixElem)i->matrix.a, a);
    read_tile(w, i->o[2].reg, depth, (MatrixElem)i->matrix.b, b);
    for (int r = 0; r < results; r++)
        for (int l = 0; l < LANES; l++)
            out[r][l] = mfma_sum(i, a, b, result_place(i, r, l), depth,
                                 matrix_addend(w, &i->o[3], r, l, result, 0));
    for (int r = 0; r < results; r++)
        for (int l = 0; l < LANES; l++) {
            if (result == SUM_F64)
                set_lane_value(w, l, i->o[0].reg + 2 * r, 8, f64_bits(out[r][l]));
            else
                w->v[i->o[0].reg + r][l] =
                    result == SUM_I32 ? (u32)(i64)out[r][l] : (u32)f32_bits((f32)out[r][l]);
        }
}

/* ---- WMMA ----------------------------------------------------------------------------------- */

enum { WMMA = 16, WMMA_RESULTS = 8 };

/// Checks that lanes 16 to 31 hold a copy of the operands.
static void check_wmma(const Wave *w, const Inst *i, int registers) {
    for (int k = 1; k <= 2; k++) {
        int reg = i->o[k].reg;
        check_vectors(w, i, reg, registers);
        for (int j = 0; j < registers; j++)
            for (int l = 0; l < WMMA; l++)
                if (w->v[reg + j][l] != w->v[reg + j][l + WMMA])
                    fail(w, i, AMDSIM_FAULT, "v%d differs between lane %d and its copy in lane %d",
                         reg + j, l, l + WMMA);
    }
    check_operand(w, i, &i->o[3], WMMA_RESULTS);
}

static void write_wmma(u32 *at, const Inst *i, f64 d) {
    bool high = i->op_sel & 4;
    u32 half = (u32)(i->matrix.result == SUM_F16 ? f16_bits(d) : f32_bits((f32)d) >> 16);
    if (i->matrix.result == SUM_I32)
        *at = (u32)(i->clamp ? clamped_to((i64)d, INT32_MIN, INT32_MAX) : (i64)d);
    else if (i->matrix.result == SUM_F32)
        *at = (u32)f32_bits((f32)d);
    else
        *at = high ? (*at & 0xffff) | half << 16 : (*at & 0xffff0000) | half;
}

/// Integers are signed if neg_lo is set.
static MatrixElem wmma_elem(const Inst *i, int k, MatrixElem e) {
    bool is_signed = i->neg_lo >> k & 1;
    if (e == E_i8) return is_signed ? E_i8 : E_u8;
    if (e == E_i4) return is_signed ? E_i4 : E_u4;
    return e;
}

static void run_wmma(Wave *w, const Inst *i) {
    MatrixElem ea = wmma_elem(i, 0, (MatrixElem)i->matrix.a),
               eb = wmma_elem(i, 1, (MatrixElem)i->matrix.b);
    int result = i->matrix.result, shift = result >= SUM_F16 && i->op_sel & 4 ? 16 : 0;
    Tile a, b;
    f64 out[WMMA_RESULTS][LANES];
    check_wmma(w, i, WMMA * elem_bits[ea] / 32);
    read_tile(w, i->o[1].reg, WMMA, ea, a);
    read_tile(w, i->o[2].reg, WMMA, eb, b);
    for (int r = 0; r < WMMA_RESULTS; r++)
        for (int l = 0; l < w->lanes; l++) {
            f64 sum = matrix_addend(w, &i->o[3], r, l, result, shift);
            for (int k = 0; k < WMMA; k++) {
                sum += a[2 * r + l / WMMA][k] * b[l % WMMA][k];
                if (result == SUM_F32) sum = (f32)sum;
            }
            out[r][l] = sum;
        }
    for (int r = 0; r < WMMA_RESULTS; r++)
        for (int l = 0; l < w->lanes; l++) write_wmma(&w->v[i->o[0].reg + r][l], i, out[r][l]);
}

/* ---- decoding ------------------------------------------------------------------------------- */

/// -1: none. A name that is a prefix of another one comes after it.
static int matrix_elem_of(const char *text) {
    static const struct {
        const char *name;
        MatrixElem elem;
    } rows[] = {{"xf32", E_xf32}, {"bf16", E_bf16}, {"f16", E_f16}, {"f64", E_f64},
                {"f32", E_f32},   {"iu4", E_i4},    {"iu8", E_i8},  {"i8", E_i8}};
    for (size_t k = 0; k < sizeof rows / sizeof *rows; k++)
        if (strstr(text, rows[k].name)) return rows[k].elem;
    return -1;
}

static int f8_elem(const char *text) {
    return starts(text, "fp8") ? E_fp8 : starts(text, "bf8") ? E_bf8 : -1;
}

/// Parses v_mfma_RESULT_MxNxK_[BLOCKSb_]ELEMENT in gfx942's form. gfx90a omits underscores and
/// blocks; the number of result registers tells the forms apart.
static void read_mfma_name(const Wave *w, Inst *i) {
    char result[8];
    int m = 0, k = 0, end = 0, blocks = 0;
    if (sscanf(i->name, "v_mfma_%7[^_]_%dx%*dx%d%n", result, &m, &k, &end) != 3 || !m)
        fail(w, i, AMDSIM_UNKNOWN, "the shape in its name is not known");
    const char *type = i->name + end;
    sscanf(type, "_%*db_%n", &blocks);
    type += blocks ? blocks : *type == '_';
    i->matrix.m = m;
    i->matrix.k = k;
    i->matrix.result = !strcmp(result, "i32")   ? SUM_I32
                       : !strcmp(result, "f64") ? SUM_F64
                                                : SUM_F32;
    i->matrix.a = f8_elem(type) >= 0 ? f8_elem(type) : matrix_elem_of(type);
    i->matrix.b = f8_elem(type) >= 0 ? f8_elem(type + 4) : matrix_elem_of(type);
    int results = i->o[0].count / (i->matrix.result == SUM_F64 ? 2 : 1);
    i->matrix.blocks = results * LANES / (m * m);
}

static bool decode_mfma(const Wave *w, Inst *i) {
    read_mfma_name(w, i);
    int m = i->matrix.m, depth = m * i->matrix.k * i->matrix.blocks / LANES;
    bool shape = (m == 4 || m == 16 || m == 32) && depth >= 1 && depth <= MAX_DEPTH &&
                 m * m * i->matrix.blocks / LANES <= MAX_RESULTS && i->matrix.k % depth == 0;
    if (!shape || i->matrix.a < 0 || i->matrix.b < 0 || i->cbsz || i->abid || i->blgp)
        fail(w, i, AMDSIM_UNKNOWN, "this matrix product is not emulated");
    i->run = run_mfma;
    return true;
}

bool decode_matrix(Wave *w, Inst *i) {
    static const struct {
        const char *name;
        int sum;
    } sums[] = {{"v_wmma_f32_", SUM_F32},
                {"v_wmma_i32_", SUM_I32},
                {"v_wmma_f16_", SUM_F16},
                {"v_wmma_bf16_", SUM_BF16}};
    if (starts(i->name, "v_mfma_")) return decode_mfma(w, i);
    for (size_t k = 0; k < sizeof sums / sizeof *sums; k++) {
        if (!starts(i->name, sums[k].name)) continue;
        i->matrix.result = sums[k].sum;
        i->matrix.a = i->matrix.b = matrix_elem_of(strrchr(i->name, '_'));
        if (i->matrix.a < 0 || w->lanes != 32)
            fail(w, i, AMDSIM_UNKNOWN, "this matrix product is not emulated");
        i->run = run_wmma;
        return true;
    }
    return false;
}
