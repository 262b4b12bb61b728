// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The insides of contractions: how operands are packed and what the micro-kernel reads.
//
// C <rows, cols> += A <rows, k> B <k, cols>, with the vectors along cols. The roles A and B are
// not the operands of the op: where C is one column wide they change places, so that the vectors
// run along the axis that has the lanes.
//
// k is counted in *units*: one element, or as many as 32 bits hold, for which there are
// multiply-add instructions into 32 bits. Vector engines splat a unit of a row of A over a vector;
// B has one unit a lane. Tile engines (AMX) multiply 16 rows by 16 units of A with 16 units by 16
// columns of B: the panels are the same, padded with zeros to whole blocks of 16 units.
#ifndef BACKENDS_CPU_CONTRACT_H
#define BACKENDS_CPU_CONTRACT_H

#include "backends/cpu/line_walk.h"

/// What multiplies: FMA, or the multiply-add of 16-bit integers that every level has, or an
/// instruction that the row names, on vectors or on tiles.
typedef enum DotEngine { DOT_FMA, DOT_PAIRS, DOT_VECTOR, DOT_TILES } DotEngine;

/// How products are computed.
typedef struct DotKind {
    Elem a, b;        // elements of the operands it is for; EL_COUNT: any
    Elem result;      // what is accumulated
    Elem packed;      // the elements in panels
    int unit;         // elements a unit
    DotEngine engine; // DOT_VECTOR and DOT_TILES: by the intrinsic `product` of the CPU's feature
    const char *product;
    CpuFeature feature;
} DotKind;
/// The best way to multiply a <rows, k> by b <k, columns>, operands in their roles.
const DotKind *dot_kind(const CpuTarget *t, const Value *a, const Value *b, const Value *result,
                        int64_t rows, int64_t columns);

/// The type of a unit.
static inline Elem unit_elem(const DotKind *k) {
    return k->unit > 1 ? EL_I32 : k->packed;
}
/// Rows, columns and units of a tile.
enum { TILE_SIDE = 16 };

/// One operand in its role: axis `outer` is the row of A or the column of B, axis `depth` is k.
typedef struct Operand {
    Value *v;
    int outer, depth;
} Operand;

/// Packed elements in the arena: unit u of outer index i is at
///     base + u * unit_step + i * row_step                                  where lanes = 0,
///     base + u * unit_step + i / lanes * row_step + i % lanes * unit bytes else,
/// all in bytes and constant, so that a micro-kernel needs one register a panel.
typedef struct Panel {
    const DotKind *kind;
    LLVMValueRef base;
    int64_t arena, bytes, unit_step, row_step;
    int lanes;
    bool transpose; // the operand is contiguous along k, the panel along `outer`, or vice versa
    bool in_place;  // the panel is the operand's own buffer
    bool kept;      // the memory is never freed
} Panel;

/* ---- pack.c -------------------------------------------------------------------------------- */

/// n units in a panel, with the padding of tiles.
static inline int64_t padded_units(const DotKind *k, int64_t n) {
    return k->engine == DOT_TILES ? ceil_div(n, TILE_SIDE) * TILE_SIDE : n;
}
/// Units that one k step of this many elements takes.
static inline int64_t units_of(const DotKind *k, int64_t elements) {
    return ceil_div(elements, k->unit);
}
/// Panels for `units` units of an operand, freed by panel_free. Those of A stand along k or along
/// the rows, as the operand does, since a splat reads one unit anywhere; those of B hold vectors
/// along the columns. kept: so many panels one after another, which are never freed.
Panel panel_for_a(Emit *e, const Operand *a, const DotKind *k, int64_t units, int64_t kept);
Panel panel_for_b(Emit *e, const Operand *b, const DotKind *k, int64_t units, int64_t kept);
void panel_free(Emit *e, const Panel *p);
/// Bytes of such a panel.
int64_t panel_bytes(Emit *e, const Operand *x, const DotKind *k, int64_t units, bool is_b);
/// True where the operand stands in a buffer that serves as its panel as it is: *p.
bool panel_in_place(Emit *e, const Operand *x, const DotKind *k, bool is_b, Panel *p);
/// Evaluates the operand and writes all of it to the panel from unit `first` on.
void pack(Emit *e, const Operand *x, const Panel *p, LLVMValueRef first);
/// Zeros from unit `units` on up to the next whole tile.
void pad_panel(Emit *e, const Operand *x, const Panel *p, LLVMValueRef units);
/// The axis along which neighbouring elements of v come from neighbouring addresses; the last one
/// where nothing is known.
int contiguous_axis(Emit *e, Value *v);
/// The operand is read element by element: no axis of it is contiguous in memory.
bool operand_is_scattered(Emit *e, const Operand *x);

/* ---- pack_gather.c -------------------------------------------------------------------------- */

/// The operand is a load whose rows or columns are picked along memory (picked_axis).
bool operand_is_picked(Emit *e, const Operand *x);
/// Calls body for one vector of rows or columns from `at` on, in a loop over the units of k, with
/// the vectors of the unit's elements. k has whole units.
enum { MAX_UNIT = 4 };
typedef void PickedBody(Emit *e, void *arg, LLVMValueRef at, LLVMValueRef unit, LLVMValueRef *v);
void for_picked(Emit *e, const Operand *x, LLVMValueRef at, int lanes, int live, int unit,
                PickedBody *body, void *arg);

/* ---- operand_bounds.c ----------------------------------------------------------------------- */

enum { MAX_INSIDE = 8 };
/// The loads that a value is computed from, and what is known about them.
typedef struct Inside {
    int n;
    bool fails;
    struct Prepared *loads[MAX_INSIDE];
    struct Prepared *saved;
} Inside;
/// i1: every lane of the loads that v is computed from is live; NULL where nothing is to be gained.
LLVMValueRef operand_bounds_find(Emit *e, Value *v, Inside *s);
/// Between the two, vectors of v are computed without those masks.
void operand_bounds_begin(Emit *e, Inside *s);
void operand_bounds_end(Inside *s);
/// Lanes of v along an axis are 0 where the contract's loop has ended.
bool zero_beyond(const Op *contract, const Value *v, int axis);

/* ---- amx_direct.c --------------------------------------------------------------------------- */

/// A strip of rows where they stand in their tensor: i1 whether it can be read there, the address
/// of its first element, bytes from row to row.
typedef struct Direct {
    LLVMValueRef holds, base, step;
} Direct;
/// The rows of A may be read without packing them.
bool amx_direct_possible(Emit *e, const Op *contract, const Operand *x, const DotKind *k);
/// The strip of k from .. to; it must have whole parts of so many elements.
Direct amx_direct_strip(Emit *e, const Op *contract, const Operand *x, int64_t part,
                        LLVMValueRef from, LLVMValueRef to);

/* ---- panel_cache.c -------------------------------------------------------------------------- */

enum { MAX_KEYS = 12 };
/// What a contract's B is computed from, and where the values of its last run stand.
typedef struct Kept {
    int n, n_tensors;
    const Value *values[MAX_KEYS], *tensors[MAX_KEYS];
    LLVMValueRef memory;
    int64_t offset;
    int64_t slots;      // panels that are kept; of a dot, one for an iteration of its loop
    LLVMValueRef slot;  // this one; NULL where there is one
    LLVMValueRef again; // i1: the task may come to it once more
} Kept;
/// True where panels of B may serve again when the contract runs again.
bool panel_cache_find(Emit *e, Op *contract, Value *b, Kept *k);
/// The same for an operand of a dot whose panel takes so many bytes.
bool panel_cache_find_dot(Emit *e, Op *dot, Value *v, int64_t bytes, Kept *k);
/// Where panel `at` stands, of which those up to `last` have places of their own: all in the first
/// place, where nobody comes back to them.
LLVMValueRef panel_cache_slot(Emit *e, const Kept *k, LLVMValueRef at, int64_t last);
/// i1: the panels of the last run are those of this one.
LLVMValueRef panel_cache_begin(Emit *e, Kept *k);
void panel_cache_end(Emit *e, const Kept *k);

/* ---- microkernel.c -------------------------------------------------------------------------- */

/// A register tile: rows x vectors accumulators, and the bytes from a row, vector or unit of its
/// operands to the next. Constants, but for a_row of tile engines.
typedef struct Micro {
    const DotKind *kind;
    int rows, vectors, lanes;
    int64_t a_row, a_unit, b_vector, b_unit, c_row;
    LLVMValueRef fresh;  // i1: C counts as 0, whatever stands there
    LLVMValueRef a_step; // tile engines: a_row as a value
} Micro;

/// acc + a b for one unit: a splat, b and acc vectors.
LLVMValueRef multiply_add(Emit *e, const DotKind *k, LLVMValueRef a, LLVMValueRef b,
                          LLVMValueRef acc);
/// Calls the function that adds `units` units of products to one tile of C; for tile engines,
/// `units` blocks of 16. Every tile of the same shape and steps shares one function, so that its
/// registers are its own.
void micro_call(Emit *e, const Micro *m, LLVMValueRef a, LLVMValueRef b, LLVMValueRef c,
                LLVMValueRef units);
/// The tile with the least time for a C of rows x vectors.
void micro_choose(const CpuTarget *t, const DotKind *k, int64_t rows, int64_t vectors,
                  int *tile_rows, int *tile_vectors);

/* ---- amx.c --------------------------------------------------------------------------------- */

/// Asks the system for the tile registers, once a process; true where it grants them.
bool amx_permitted(void);
/// Gives the tile registers the shape that kernels of `rows` rows want: 1 to 32.
void tiles_configure(Emit *e, int rows);
void tiles_release(Emit *e);
/// The body of a micro-kernel on tiles: up to 32 rows and 2 vectors, units in blocks of 16.
void emit_tile_kernel(Emit *e, const Micro *m, LLVMValueRef fn);

#endif
