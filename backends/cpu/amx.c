// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Micro-kernels on the tile registers of AMX: up to 32 rows x 32 columns of C in four tiles.
//
//   C tiles 0 1    A tile 4 (16 rows x 16 units)    B tiles 6 7 (16 units x 16 columns)
//           2 3           5
//
// A tile multiplication takes 16 cycles and a tile load 8. A step has four of each, so half of the
// load ports stay idle. The shape of the registers cuts the rows, so rows outside C are never read
// or written. The buffer of C pads the columns, and zeros in the panels pad the units.
#include <unistd.h>
#if defined(__x86_64__) && defined(__linux__)
#include <sys/syscall.h>
#endif

#include "backends/cpu/contract.h"
#include "backends/cpu/emit.h"

enum { TILE_C = 0, TILE_A = 4, TILE_B = 6, TILES = 8, TILE_BYTES = 64 };

bool amx_permitted(void) {
#if defined(__x86_64__) && defined(__linux__)
    enum { ARCH_REQ_XCOMP_PERM = 0x1023, XFEATURE_XTILEDATA = 18 };
    return syscall(SYS_arch_prctl, ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA) == 0;
#else
    return false;
#endif
}

/* ---- the shape of the registers ------------------------------------------------------------ */

/// Rows of the i-th tile of `rows` rows.
static int rows_of_tile(int rows, int i) {
    int rest = rows - i * TILE_SIDE;
    return rest < 0 ? 0 : rest < TILE_SIDE ? rest : TILE_SIDE;
}

/// Returns the 64 bytes for ldtilecfg: palette 1, bytes a row from byte 16 on, rows from byte 48
/// on.
static LLVMValueRef tile_palette(const Emit *e, int rows) {
    const Gen *g = e->g;
    const char *name = ctx_format(e->ctx, "tiles.%d", rows);
    LLVMValueRef global = LLVMGetNamedGlobal(g->module, name), bytes[64];
    if (global) return global;
    uint8_t shape[64] = {1};
    for (int t = 0; t < TILES; t++) {
        int half = t < TILE_A ? t / 2 : t - TILE_A;
        shape[16 + 2 * t] = TILE_BYTES;
        shape[48 + t] = (uint8_t)(t < TILE_B ? rows_of_tile(rows, half) : TILE_SIDE);
        if (!shape[48 + t]) shape[16 + 2 * t] = 0;
    }
    for (int i = 0; i < 64; i++) bytes[i] = LLVMConstInt(g->i8, shape[i], false);
    LLVMValueRef data = LLVMConstArray2(g->i8, bytes, 64);
    global = LLVMAddGlobal(g->module, LLVMTypeOf(data), name);
    LLVMSetInitializer(global, data);
    LLVMSetGlobalConstant(global, true);
    LLVMSetLinkage(global, LLVMPrivateLinkage);
    LLVMSetAlignment(global, 64);
    return global;
}

void tiles_configure(Emit *e, int rows) {
    LLVMValueRef at = tile_palette(e, rows);
    gen_intrinsic(e->g, "llvm.x86.ldtilecfg", 0, NULL, 1, &at);
}

void tiles_release(Emit *e) {
    gen_intrinsic(e->g, "llvm.x86.tilerelease", 0, NULL, 0, NULL);
}

/* ---- the kernel ---------------------------------------------------------------------------- */

static LLVMValueRef tile_index(const Gen *g, int tile) {
    return LLVMConstInt(g->i8, (unsigned)tile, false);
}

/// Loads or stores a tile whose rows are `step` bytes apart.
static void move_tile(Emit *e, const char *intrinsic, int tile, LLVMValueRef at,
                      LLVMValueRef step) {
    LLVMValueRef args[] = {tile_index(e->g, tile), at, step};
    gen_intrinsic(e->g, intrinsic, 0, NULL, 3, args);
}

static void move_c(Emit *e, const Micro *m, const char *intrinsic, LLVMValueRef c) {
    for (int i = 0; i * TILE_SIDE < m->rows; i++)
        for (int j = 0; j < m->vectors; j++) {
            LLVMValueRef at = gen_i64(e->g, i * TILE_SIDE * m->c_row + j * TILE_BYTES);
            move_tile(e, intrinsic, TILE_C + 2 * i + j, gen_offset(e->g, c, at),
                      gen_i64(e->g, m->c_row));
        }
}

/// Emits the products of 16 units. Each tile is loaded just before its first use.
static void one_block(Emit *e, const Micro *m, LLVMValueRef a, LLVMValueRef a_step,
                      LLVMValueRef b) {
    const Gen *g = e->g;
    LLVMValueRef b_step = gen_i64(g, m->b_unit);
    for (int i = 0; i * TILE_SIDE < m->rows; i++) {
        LLVMValueRef row = gen_offset(g, a, gen_mul(g, a_step, gen_i64(g, i * TILE_SIDE)));
        for (int j = 0; j < m->vectors; j++) {
            LLVMValueRef column = gen_offset(g, b, gen_i64(g, j * m->b_vector));
            if (i == 0) move_tile(e, "llvm.x86.tileloadd64", TILE_B + j, column, b_step);
            if (j == 0) move_tile(e, "llvm.x86.tileloadd64", TILE_A + i, row, a_step);
            LLVMValueRef args[] = {tile_index(g, TILE_C + 2 * i + j), tile_index(g, TILE_A + i),
                                   tile_index(g, TILE_B + j)};
            gen_intrinsic(g, m->kind->product, 0, NULL, 3, args);
        }
    }
}

static void clear_c(Emit *e, const Micro *m) {
    for (int i = 0; i * TILE_SIDE < m->rows; i++)
        for (int j = 0; j < m->vectors; j++) {
            LLVMValueRef tile = tile_index(e->g, TILE_C + 2 * i + j);
            gen_intrinsic(e->g, "llvm.x86.tilezero", 0, NULL, 1, &tile);
        }
}

void emit_tile_kernel(Emit *e, const Micro *m, LLVMValueRef fn) {
    const Gen *g = e->g;
    LLVMValueRef c = LLVMGetParam(fn, 2);
    If fresh = if_begin(e, LLVMGetParam(fn, 4), "fresh");
    clear_c(e, m);
    if_else(e, &fresh);
    move_c(e, m, "llvm.x86.tileloadd64", c);
    if_end(e, &fresh);
    Loop *l = loop_begin(e, gen_i64(g, 0), LLVMGetParam(fn, 3), 1, "block");
    LLVMValueRef a = gen_mul(g, l->iv, gen_i64(g, TILE_SIDE * m->a_unit));
    LLVMValueRef b = gen_mul(g, l->iv, gen_i64(g, TILE_SIDE * m->b_unit));
    one_block(e, m, gen_offset(g, LLVMGetParam(fn, 0), a), LLVMGetParam(fn, 5),
              gen_offset(g, LLVMGetParam(fn, 1), b));
    loop_end(e, l, NULL);
    move_c(e, m, "llvm.x86.tilestored64", c);
}
