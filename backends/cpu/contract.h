// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Internals of contractions: the packing of operands and the interface of the micro-kernel.
//
// C <rows, cols> += A <rows, k> B <k, cols>, with the vectors along cols. The roles A and B may
// differ from the operands of the op: for a C of one column they are exchanged, so that the vectors
// run along the long axis.
//
// k is counted in *units*. A unit is one element, or as many as fill 32 bits if a multiply-add
// instruction into 32 bits exists for them. Vector engines splat a unit of a row of A over a
// vector, and B has one unit a lane. Tile engines (AMX) multiply 16 rows by 16 units of A with 16
// units by 16 columns of B. Their panels are the same, padded with zeros to whole blocks of 16
// units.
#ifndef BACKENDS_CPU_CONTRACT_H
#define BACKENDS_CPU_CONTRACT_H

#include "backends/cpu/line_walk.h"

/// The instruction that multiplies: FMA, the multiply-add of 16-bit integers (on every level), or
/// an instruction named in the row, on vectors or on tiles.
typedef enum DotEngine { DOT_FMA, DOT_PAIRS, DOT_VECTOR, DOT_TILES } DotEngine;

/// One way to compute products.
typedef struct DotKind {
    Elem a, b;        // elements of the operands; EL_COUNT: any
    Elem result;      // element of the accumulator
    Elem packed;      // element in the panels
    int unit;         // elements in a unit
    DotEngine engine; // DOT_VECTOR and DOT_TILES use the intrinsic `product` of the CPU's feature
    const char *product;
    CpuFeature feature;
} DotKind;
/// Returns the best way to multiply a <rows, k> by b <k, columns>, with the operands in their
/// roles.
const DotKind *dot_kind(const CpuTarget *t, const Value *a, const Value *b, const Value *result,
                        int64_t rows, int64_t columns);

/// Returns the type of a unit.
static inline Elem unit_elem(const DotKind *k) {
    return k->unit > 1 ? EL_I32 : k->packed;
}
/// Rows, columns and units of a tile.
enum { TILE_SIDE = 16 };

/// One operand in its role. Axis `outer` is the row of A or the column of B, and axis `depth` is k.
typedef struct Operand {
    Value *v;
    int outer, depth;
} Operand;

/// Packed elements in the arena. Unit u of outer index i is at
///     base + u * unit_step + i * row_step                                  where lanes = 0,
///     base + u * unit_step + i / lanes * row_step + i % lanes * unit bytes else.
/// All values are constant and in bytes, so a micro-kernel needs one register a panel.
typedef struct Panel {
    const DotKind *kind;
    LLVMValueRef base;
    int64_t arena, bytes, unit_step, row_step;
    int lanes;
    bool transpose; // the operand is contiguous along k and the panel along `outer`, or vice versa
    bool in_place;  // the panel is the operand's own buffer
    bool kept;      // the memory is never freed
} Panel;

/* ---- pack.c -------------------------------------------------------------------------------- */

/// Returns the units of a panel for n units, including the padding of tiles.
static inline int64_t padded_units(const DotKind *k, int64_t n) {
    return k->engine == DOT_TILES ? ceil_div(n, TILE_SIDE) * TILE_SIDE : n;
}
/// Returns the units of one k step of this many elements.
static inline int64_t units_of(const DotKind *k, int64_t elements) {
    return ceil_div(elements, k->unit);
}
/// Allocates panels for `units` units of an operand; panel_free frees them. Panels of A run along k
/// or along the rows, like the operand, since a splat reads one unit anywhere. Panels of B hold
/// vectors along the columns. kept: the number of consecutive panels that are never freed.
Panel panel_for_a(Emit *e, const Operand *a, const DotKind *k, int64_t units, int64_t kept);
Panel panel_for_b(Emit *e, const Operand *b, const DotKind *k, int64_t units, int64_t kept);
void panel_free(Emit *e, const Panel *p);
/// Returns the bytes of that panel.
int64_t panel_bytes(Emit *e, const Operand *x, const DotKind *k, int64_t units, bool is_b);
/// Returns true if the operand's buffer can serve as its panel unchanged, and sets *p.
bool panel_in_place(Emit *e, const Operand *x, const DotKind *k, bool is_b, Panel *p);
/// Evaluates the whole operand into the panel, from unit `first` on.
void pack(Emit *e, const Operand *x, const Panel *p, LLVMValueRef first);
/// Writes zeros from unit `units` up to the next whole tile.
void pad_panel(Emit *e, const Operand *x, const Panel *p, LLVMValueRef units);
/// Returns the axis along which neighbouring elements of v have neighbouring addresses, or the last
/// axis if unknown.
int contiguous_axis(Emit *e, Value *v);
/// Whether the operand is read element by element, because no axis of it is contiguous in memory.
bool operand_is_scattered(Emit *e, const Operand *x);

/* ---- pack_gather.c -------------------------------------------------------------------------- */

/// Whether the operand is a load whose rows or columns are picked along memory (picked_axis).
bool operand_is_picked(Emit *e, const Operand *x);
/// Packs one vector of rows or columns from `at` on, in a loop over the units of k. Calls body with
/// the vectors of each unit's elements. k has whole units.
enum { MAX_UNIT = 4 };
typedef void PickedBody(Emit *e, void *arg, LLVMValueRef at, LLVMValueRef unit, LLVMValueRef *v);
void for_picked(Emit *e, const Operand *x, LLVMValueRef at, int lanes, int live, int unit,
                PickedBody *body, void *arg);

/* ---- operand_bounds.c ----------------------------------------------------------------------- */

enum { MAX_INSIDE = 8 };
/// The loads below a value, and the facts known about them.
typedef struct Inside {
    int n;
    bool fails;
    struct Prepared *loads[MAX_INSIDE];
    struct Prepared *saved;
} Inside;
/// Returns an i1: every lane of the loads below v is live. Returns NULL if the test gains nothing.
LLVMValueRef operand_bounds_find(Emit *e, Value *v, Inside *s);
/// Between begin and end, vectors of v are computed without those masks.
void operand_bounds_begin(Emit *e, Inside *s);
void operand_bounds_end(Inside *s);
/// Whether lanes of v along an axis are 0 past the end of the contract's loop.
bool zero_beyond(const Op *contract, const Value *v, int axis);

/* ---- amx_direct.c --------------------------------------------------------------------------- */

/// A strip of rows in their tensor: an i1 that permits the read, the address of the first element,
/// and the bytes from row to row.
typedef struct Direct {
    LLVMValueRef holds, base, step;
} Direct;
/// Whether the rows of A may be read without packing.
bool amx_direct_possible(Emit *e, const Op *contract, const Operand *x, const DotKind *k);
/// Returns the strip of k from .. to. It must consist of whole parts of `part` elements.
Direct amx_direct_strip(Emit *e, const Op *contract, const Operand *x, int64_t part,
                        LLVMValueRef from, LLVMValueRef to);

/* ---- panel_cache.c -------------------------------------------------------------------------- */

enum { MAX_KEYS = 12 };
/// The inputs of a contract's B, and the record of their values in its last run.
typedef struct Kept {
    int n, n_tensors;
    const Value *values[MAX_KEYS], *tensors[MAX_KEYS];
    LLVMValueRef memory;
    int64_t offset;
    int64_t slots;      // kept panels; for a dot, one an iteration of its loop
    LLVMValueRef slot;  // the current slot; NULL if there is one slot
    LLVMValueRef again; // i1: the task may use the panel again
} Kept;
/// Returns true if panels of B may be reused when the contract runs again, and fills *k.
bool panel_cache_find(Emit *e, Op *contract, Value *b, Kept *k);
/// The same for an operand of a dot whose panel takes `bytes` bytes.
bool panel_cache_find_dot(Emit *e, Op *dot, Value *v, int64_t bytes, Kept *k);
/// Returns the slot of panel `at`. Panels up to `last` have slots of their own. If the task never
/// comes back, all share the first slot.
LLVMValueRef panel_cache_slot(Emit *e, const Kept *k, LLVMValueRef at, int64_t last);
/// Returns an i1: the panels of the last run equal those of this run.
LLVMValueRef panel_cache_begin(Emit *e, Kept *k);
void panel_cache_end(Emit *e, const Kept *k);

/* ---- microkernel.c -------------------------------------------------------------------------- */

/// A register tile: rows x vectors accumulators, and the bytes between rows, vectors and units of
/// its operands. All are constants, except a_row for tile engines.
typedef struct Micro {
    const DotKind *kind;
    int rows, vectors, lanes;
    int64_t a_row, a_unit, b_vector, b_unit, c_row;
    LLVMValueRef fresh;  // i1: C counts as 0, whatever memory holds
    LLVMValueRef a_step; // a_row as a value, for tile engines
} Micro;

/// Returns acc + a b for one unit: a is a splat, b and acc are vectors.
LLVMValueRef multiply_add(Emit *e, const DotKind *k, LLVMValueRef a, LLVMValueRef b,
                          LLVMValueRef acc);
/// Calls the function that adds `units` units of products to one tile of C (blocks of 16 units for
/// tile engines). Tiles of the same shape and steps share one function, which has all registers to
/// itself.
void micro_call(Emit *e, const Micro *m, LLVMValueRef a, LLVMValueRef b, LLVMValueRef c,
                LLVMValueRef units);
/// Chooses the fastest tile for a C of rows x vectors.
void micro_choose(const CpuTarget *t, const DotKind *k, int64_t rows, int64_t vectors,
                  int *tile_rows, int *tile_vectors);

/* ---- amx.c --------------------------------------------------------------------------------- */

/// Requests the tile registers from the system, once a process. Returns true if it grants them.
bool amx_permitted(void);
/// Configures the tile registers for kernels of `rows` rows, 1 to 32.
void tiles_configure(Emit *e, int rows);
void tiles_release(Emit *e);
/// Emits the body of a micro-kernel on tiles: up to 32 rows and 2 vectors, units in blocks of 16.
void emit_tile_kernel(Emit *e, const Micro *m, LLVMValueRef fn);

#endif
