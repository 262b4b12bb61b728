// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Layouts map elements of a block to registers of threads, and elements to byte offsets in shared
// memory. docs/inside/layouts.md explains the algebra.
//
// An extent e is stored in a box of o * 2^v >= e places, o odd. A matrix over F2 (the numbers 0 and
// 1 with xor as sum) maps the bits of register, lane, warp and CTA number to the bits of the
// coordinates in the 2^v part. The o repeats of each dimension are further registers. All other
// properties are computed from that matrix.
#ifndef IR_LAYOUT_LAYOUT_H
#define IR_LAYOUT_LAYOUT_H

#include "ir/ir.h"

/* ---- layout_f2.c: matrices over F2 ----------------------------------------------------------- */

typedef uint64_t Bits; // a vector over F2, entry i is bit i

enum { F2_MAX = 64 };

static inline Bits bit(int i) {
    return (Bits)1 << i;
}
static inline Bits low_bits(int n) {
    return n >= 64 ? ~(Bits)0 : bit(n) - 1;
}
static inline int bit_count(Bits x) {
    return __builtin_popcountll(x);
}
static inline int parity(Bits x) {
    return __builtin_parityll(x);
}
/// Returns the number of the highest bit; x is not 0.
static inline int top_bit(Bits x) {
    return 63 - __builtin_clzll(x);
}

/// A matrix with n columns: col[j] is the image of bit j.
typedef struct F2 {
    int n;
    Bits col[F2_MAX];
} F2;

Bits f2_apply(const F2 *m, Bits x);
/// Returns the composition: a after b.
F2 f2_compose(const F2 *a, const F2 *b);
F2 f2_identity(int n);
/// Joins the columns of a and those of b, moved up by `shift` rows. This is the direct sum if shift
/// is the number of rows of a.
F2 f2_join(const F2 *a, const F2 *b, int shift);
/// Returns row i as a mask of columns.
Bits f2_row(const F2 *m, int i);
F2 f2_transpose(const F2 *m, int rows);
bool f2_equal(const F2 *a, const F2 *b);

/// A subspace: an echelon basis of the columns added so far, with the combination of columns that
/// makes each basis vector.
typedef struct F2Span {
    int n;             // dimension
    Bits vec[F2_MAX];  // by falling top bit; no other vector contains that bit
    Bits from[F2_MAX]; // the columns whose sum it is
} F2Span;

F2Span f2_span(const F2 *m);
/// Reduces v by the basis; the result is 0 exactly if v is in the subspace. `from` (may be NULL)
/// receives the mask of columns that were added.
Bits f2_reduce(const F2Span *s, Bits v, Bits *from);
static inline bool f2_contains(const F2Span *s, Bits v) {
    return f2_reduce(s, v, NULL) == 0;
}
/// Adds column `v` named by the mask `from`. Returns false if v was in the subspace already.
bool f2_add(F2Span *s, Bits v, Bits from);

int f2_rank(const F2 *m);
/// Finds an x with m x = y, made of the earliest columns that suffice. Returns false if no x
/// exists.
bool f2_solve(const F2 *m, Bits y, Bits *x);
/// Finds r with m r = 1 on the given number of rows. Returns false if m is not onto.
bool f2_right_inverse(const F2 *m, int rows, F2 *r);
/// Returns a basis of { x : m x = 0 }; each column has a top bit that no other contains.
F2 f2_kernel(const F2 *m);
/// Divides m by unit, m = unit x quotient: m maps the bits of `unit` as `unit` does, and all others
/// to rows that `unit` does not reach. `bits` and `rows` are those of the unit. Returns false if it
/// does not divide.
bool f2_quotient(const F2 *m, const F2 *unit, Bits bits, Bits rows, F2 *rest);
/// Returns a basis of the intersection of two subspaces.
F2 f2_intersection(const F2 *a, const F2 *b);
/// Returns the largest subspace of F2^rows that meets the column spans of a and of b only in 0. It
/// has dimension rows - max(rank a, rank b).
F2 f2_avoiding(const F2 *a, const F2 *b, int rows);

/* ---- layout.c: distributed layouts ----------------------------------------------------------- */

typedef enum LayoutLevel { LEVEL_REG, LEVEL_LANE, LEVEL_WARP, LEVEL_CTA, N_LEVELS } LayoutLevel;

enum { LAYOUT_MAX_BITS = 32 };

/// A distributed layout.
///
/// The coordinates of the 2^v part form one vector; the bits of the last dimension are the lowest
/// (row-major order). A *thread* is lane, warp and CTA number as one number, lane lowest. A *place*
/// is a thread and one of its registers. Registers are numbered by the repeats, dimension 0
/// slowest, times 2^bits[LEVEL_REG], plus the register bits.
///
/// Only layout_unique makes layouts, and equal layouts are equal pointers. Every element of the box
/// has a place. No register is a copy of another one in the same thread; the kernel of the matrix
/// gives the copies in other threads.
typedef struct Layout {
    int64_t extents[MAX_RANK];
    int32_t odd[MAX_RANK];        // o: repeats
    uint8_t log2[MAX_RANK];       // v
    uint8_t rank, bits[N_LEVELS]; // bits of each level
    uint8_t pad[3];
    Bits col[LAYOUT_MAX_BITS]; // register bits first, then lane, warp, CTA
} Layout;

/// Returns the one Layout equal to l in this context. Columns of register bits that depend on
/// earlier ones are dropped, since they would be copies. An invalid l is a compiler bug: see
/// layout_error.
const Layout *layout_unique(Ctx *ctx, const Layout *l);
/// Returns the error in l, or NULL.
const char *layout_error(const Layout *l);

static inline int layout_first(const Layout *l, LayoutLevel level) {
    int at = 0;
    for (int i = 0; i < (int)level; i++) at += l->bits[i];
    return at;
}
static inline int layout_n_bits(const Layout *l) {
    return layout_first(l, N_LEVELS);
}
static inline int layout_thread_bits(const Layout *l) {
    return layout_n_bits(l) - l->bits[LEVEL_REG];
}
static inline int64_t layout_box(const Layout *l, int d) {
    return (int64_t)l->odd[d] << l->log2[d];
}
/// Return the product of the repeats, and the registers of a thread.
int64_t layout_repeats(const Layout *l);
int64_t layout_registers(const Layout *l);
/// Return the number of the lowest bit of dimension d, and of all bits of coordinates.
int layout_base(const Layout *l, int d);
int layout_rows(const Layout *l);
/// Returns the bits of dimension d as a mask of coordinate bits.
Bits layout_dim_mask(const Layout *l, int d);
/// Return the matrix of all bits, or of one level.
F2 layout_f2(const Layout *l);
F2 layout_level(const Layout *l, LayoutLevel level);
/// Whether both have the same boxes (o and v of every dimension), so that one matrix equation
/// converts between them.
bool layout_same_box(const Layout *a, const Layout *b);

/// Computes the coordinates of the element in that place. They may lie beyond the extents: a hole.
void layout_at(const Layout *l, int64_t reg, int64_t thread, int64_t *coords);
bool layout_is_hole(const Layout *l, const int64_t *coords);
/// Finds the place of an element that layout_owner calls the owner.
void layout_find(const Layout *l, const int64_t *coords, int64_t *reg, int64_t *thread);
/// Returns the thread bits that only number copies. Each element is in exactly one thread with
/// (thread & owner) == 0, and that thread stores it.
Bits layout_owner(const Layout *l);
/// Describes the elements of a warp as boxes of box[d] elements in each dimension, at multiples of
/// that. A warp has the coordinates whose bits in `warp` are those of the warp, and each element is
/// in one thread. Returns false if the layout has another form.
bool layout_warp_boxes(const Layout *l, int64_t *box, Bits *warp);

/* ---- layout_text.c --------------------------------------------------------------------------- */

/// Prints the form in types: `[64x160; reg (0,1) (8,0) (0,8) (0,16); lane (0,2) (0,4) (1,0) (2,0)
/// (4,0); warp (16,0) (32,0); repeat (1,5)]`: extents, the image of each bit of a level, the o of
/// each dimension. `-` is an image of 0. A level without bits and repeats of 1 are omitted.
void layout_print(Text *out, const Layout *l);
/// Reads that form and advances *text after it. Returns NULL, with the error in *error.
const Layout *layout_parse(Ctx *ctx, const char **text, const char **error);

/* ---- layout_shape.c: layouts from layouts ---------------------------------------------------- */

/// Puts `count` of l side by side along d, and renumbers d: its lowest bits are registers, so that
/// each thread's elements are runs, and the next ones are lanes. Sums along d do not depend on this
/// order. Each bit of l has at most one bit of d.
const Layout *layout_runs(Ctx *ctx, const Layout *l, int d, int64_t count);

/// Returns the layout of a permuted block: dimension i of the result is dimension perm[i] of l. No
/// element moves.
const Layout *layout_permute(Ctx *ctx, const Layout *l, const int *perm);
/// Removes dimension d from the block (or makes its extent 1): the rest of l without the coordinate
/// d. A block in this layout broadcasts along d into l without a move, and a reduction of a block
/// in l over d ends in it.
const Layout *layout_slice(Ctx *ctx, const Layout *l, int d, bool keep);
/// Returns the layout after a reshape that moves no element, or NULL if none has this form (an odd
/// repeat would move inside).
const Layout *layout_reshape(Ctx *ctx, const Layout *l, int rank, const int64_t *extents);
/// Stacks `count` blocks in layout l along a new dimension d; each block is some of the registers.
const Layout *layout_stack(Ctx *ctx, const Layout *l, int d, int count);
/// Puts tiles of an instruction side by side: along dimension d first warps[d] (a power of two) of
/// them by further warp bits, then registers and repeats until the extents are covered. warps may
/// be NULL. The atom has no repeats.
const Layout *layout_tile(Ctx *ctx, const Layout *atom, const int64_t *extents, const int *warps);
/// Returns the layout of a block with `extent` elements in dimension d, over the same threads.
/// Slices and concatenations along d in these layouts move nothing if they start at multiples of
/// *unit.
const Layout *layout_extend(Ctx *ctx, const Layout *l, int d, int64_t extent, int64_t *unit);
/// Finds, for register i of `to`, the register reg[i] of `from` with the same value, in every
/// thread alike: the element at the coordinates plus start (NULL: 0), or -1 outside of the box. The
/// coordinate of a dimension with a box of 1 in `from` is ignored (broadcast). If `to` is a tile of
/// an instruction, the result is the registers of the instruction that starts there. Returns false
/// if elements would move between threads. reg has layout_registers(to) entries.
bool layout_registers_from(const Layout *from, const Layout *to, const int64_t *start,
                           int64_t *reg);

/// The properties of a global access.
typedef struct BlockAccess {
    int rank, elem_bits;
    const int64_t *extents;
    int contiguous;  // the dimension of stride 1, or -1
    int align_bytes; // of each row's first element, a power of two
    int lane_bits;   // 5 or 6
    int warp_bits;
    int max_bytes; // the widest access of a lane: 16
    int cta_bits;  // of a cluster
    // If a thread has spare registers, it takes pack_bytes bytes of neighbours along dimension
    // `pack`. The first 2^pack_lanes lanes continue along it.
    int pack, pack_bytes, pack_lanes;
    bool whole; // all vectors have max_bytes, even if some threads then have none
} BlockAccess;

/// Returns a layout for an access: the widest vectors that alignment allows, lanes along the
/// contiguous dimension, warps along the slowest ones, and as few registers as possible. CTAs get
/// parts of the contiguous dimension, or copies if it is too short for that.
const Layout *layout_blocked(Ctx *ctx, const BlockAccess *access);
/// Returns log2 of the number of adjacent elements along d that are in registers r, r ^ x1, ... of
/// one thread, aligned to their number. x (may be NULL) receives the register bit of each.
int layout_vector(const Layout *l, int d, int *x);

/* ---- layout_reduce.c ------------------------------------------------------------------------- */

/// One doubling step along a dimension: register r of thread t is combined with register r ^ reg of
/// thread t ^ thread. For scans, `own` are masks over register and thread bits: the parity of the
/// masked bits is 1 in the upper one of the two.
typedef struct LayoutStep {
    LayoutLevel level; // the highest level that the step crosses
    Bits reg, thread;
    Bits own_reg, own_thread;
} LayoutStep;

/// A reduction over one dimension. Holes are first set to the identity. The repeats are reduced
/// register by register, then the steps follow in order of level. Lane steps are xor shuffles.
///
/// For the warp and CTA steps, `partial` is the layout after the lane steps; its coordinate of the
/// dimension is the number of the part, one for each combination of those steps. Converting it to
/// `gathered`, where each thread has all parts in registers, and adding those up ends the
/// reduction.
///
/// If the parts are in several CTAs, two stages are better: `partial` is converted to `in_cta`,
/// where each thread has the parts of its CTA. Adding those up leaves `by_cta`, whose part is the
/// number of the CTA, and which is converted to `of_ctas`.
typedef struct LayoutReduction {
    int n;
    int n_level[N_LEVELS];
    LayoutStep steps[LAYOUT_MAX_BITS];
    const Layout *result;                 // the dimension kept with extent 1
    const Layout *partial, *gathered;     // NULL if no step leaves the warp
    const Layout *in_cta;                 // NULL if no step, or every step, leaves the CTA
    const Layout *by_cta, *of_ctas;       // NULL if no step leaves the CTA
    uint8_t partial_bit[LAYOUT_MAX_BITS]; // the register bit of the source that bit i of `partial`
                                          // is
} LayoutReduction;

LayoutReduction layout_reduce(Ctx *ctx, const Layout *l, int d);

/// A scan along a dimension. Step j joins blocks of 2^j elements to blocks of 2^(j+1). Each place
/// carries a prefix and the total of its block. At step j both totals are exchanged, and the upper
/// block's prefix takes in the lower block's total. The repeats come last, with a carry.
typedef struct LayoutScan {
    int n;
    LayoutStep steps[LAYOUT_MAX_BITS]; // by rising bit of the coordinate
    int32_t repeats;
} LayoutScan;

LayoutScan layout_scan(const Layout *l, int d);

/* ---- layout_shared.c: shared memory ---------------------------------------------------------- */

/// A layout in shared memory. An atom has 2^log2[d] elements in each dimension, and a matrix maps
/// coordinate bits in it to bits of the byte offset (its xor is the swizzle). count[d] atoms follow
/// each other along d at a distance of stride[d] bytes. If the memory has one atom along d,
/// elements of blocks beyond it are holes: they have the places of elements, without the bits that
/// lead out.
typedef struct SharedLayout {
    int rank, elem_bytes, align; // the start address is a multiple of align
    int64_t extents[MAX_RANK];
    uint8_t log2[MAX_RANK];
    int32_t count[MAX_RANK];
    int64_t stride[MAX_RANK];
    int64_t bytes; // of the whole
    F2 map;        // bits of coordinates (last dimension lowest) to byte offset
} SharedLayout;

int64_t shared_offset(const SharedLayout *s, const int64_t *coords);
/// Returns a row-major layout with `pad` bytes after each row.
SharedLayout shared_plain(int elem_bytes, int rank, const int64_t *extents, int pad);
/// Returns a layout that TMA writes and wgmma reads: rows of `swizzle` (128, 64, 32) bytes along
/// the dimension `inner`, with `outer` numbering the rows, and panels of them side by side. 16: no
/// swizzle (8 rows of 16 bytes form a core matrix). Extents may be any numbers; `inner` is padded
/// to whole panels.
SharedLayout shared_swizzled(int elem_bytes, int rank, const int64_t *extents, int inner, int outer,
                             int swizzle);
/// Returns the widest swizzle whose panels cover the bytes of a row exactly.
int shared_swizzle_for(int64_t row_bytes);
/// Returns the layout of a type of kind TK_BUF (layout_buf.c).
SharedLayout shared_of(const Type *buf);

/// The vectors that the registers of one thread form for a shared (or any linear) address space:
/// lane accesses of 2^vec_bits elements. Element j of a vector is register base ^ the sum of vec[i]
/// over the bits i of j; bases are the sums of base[i].
typedef struct SharedAccess {
    int vec_bits, n_base;
    Bits vec[F2_MAX], base[F2_MAX];
} SharedAccess;

/// Finds the widest vectors of at most max_bytes that l allows for s.
void shared_access(const Layout *l, const SharedLayout *s, int max_bytes, SharedAccess *a);
/// An image of l is a sum of its columns: the coordinates that some bits of a place reach from the
/// start of an atom of s. REACH_ATOM: they stay in that atom. REACH_HOLES: the memory has one atom,
/// and some coordinates lie beyond it. REACH_BEYOND: some coordinates lie in other atoms.
typedef enum SharedReach { REACH_ATOM, REACH_HOLES, REACH_BEYOND } SharedReach;

/// Classifies an image. offset is that of the part within the atom of s; it is linear except for
/// REACH_BEYOND.
SharedReach shared_image(const Layout *l, const SharedLayout *s, Bits image, Bits *offset);
/// Returns the layout as one of registers: register e is the element at e times the element's size.
/// Repeats of dimension `inner` are next to each other. Counts become odd.
const Layout *shared_registers(Ctx *ctx, const SharedLayout *s);

/* ---- layout_banks.c -------------------------------------------------------------------------- */

/// How the banks of shared memory serve a warp's access. IN_ORDER: 32 banks of 4 bytes serve
/// consecutive lanes, up to 128 bytes at a time. GFX9 and GFX950: AMD's, which serve other groups
/// of lanes together in reads of 16 bytes a lane (layout_banks.c).
typedef enum SharedBanks { BANKS_IN_ORDER, BANKS_GFX9, BANKS_GFX950 } SharedBanks;

/// The lanes of an access that are served together: the sums of `lanes`, and their cosets.
typedef struct SharedPhase {
    int line_log2; // bytes that a phase takes from all banks
    F2 lanes;
} SharedPhase;

/// Returns the phase for accesses of 2^bytes_log2 bytes a lane.
SharedPhase shared_phase(SharedBanks banks, bool reads, int lane_bits, int bytes_log2);
/// Returns how often one access of a warp uses the shared memory, relative to the minimum for its
/// bytes (1 means no bank conflicts). It comes from the ranks of two matrices if l and s are
/// linear, else from counting.
int shared_conflicts(const Layout *l, const SharedLayout *s, const SharedAccess *a,
                     SharedBanks banks, bool reads);
int shared_conflicts_counted(const Layout *l, const SharedLayout *s, const SharedAccess *a,
                             SharedBanks banks, bool reads);
/// Returns the approximate issue slots of a warp for all accesses of a thread.
double shared_cost(const Layout *l, const SharedLayout *s, const SharedAccess *a, SharedBanks banks,
                   bool reads);

/* ---- layout_between.c ------------------------------------------------------------------------ */

/// Returns a shared layout of the box of `from` through which elements reach `to` with the widest
/// vectors on both sides and few bank conflicts; without conflicts if both have one box. operand:
/// vectors are runs in `to`, whose registers must be adjacent.
SharedLayout shared_between(const Layout *from, const Layout *to, int elem_bytes, SharedBanks banks,
                            bool operand);

/* ---- layout_matrix.c: ldmatrix and stmatrix -------------------------------------------------- */

/// The 8 x 8 matrices of 16-bit elements that a warp moves (or, not transposed, 8 x 16 bytes of
/// other elements): rows of 16 bytes in shared memory, one word for each lane. Row r of the matrix
/// of registers `base` starts at the element in register base ^ row_reg(r) of lane row_lane(r);
/// both are sums over the bits of r. Element e of the word is register base ^ the sum of word[i]
/// over the bits i of e.
typedef struct SharedMatrix {
    bool trans;
    int word_bits, n_base;
    Bits word[2], row_reg[3], row_lane[3], base[F2_MAX]; // matrices: the sums of base[i]
    int conflicts;                                       // as in shared_conflicts, for one matrix
} SharedMatrix;

/// Whether a block in layout l consists entirely of such matrices of s.
bool shared_matrix(const Layout *l, const SharedLayout *s, SharedMatrix *m);

/* ---- layout_convert.c ------------------------------------------------------------------------ */

/// Kinds of conversion, from cheap to expensive.
typedef enum ConvertKind {
    CONVERT_NONE,    // the layouts are equal
    CONVERT_RENAME,  // registers are renumbered without instructions
    CONVERT_SELECT,  // values stay in their thread; the register depends on the thread
    CONVERT_SHUFFLE, // values stay in their warp
    CONVERT_SHARED,  // through shared memory
    CONVERT_ADDRESS, // through shared memory by coordinates, for different boxes
} ConvertKind;

/// In threads with parity(thread & mask) = 1, register r takes the value of r ^ reg.
typedef struct ConvertSwap {
    Bits mask, reg;
} ConvertSwap;

/// The plan. For CONVERT_RENAME, SELECT and SHUFFLE, once for each repeat:
///   1. apply `before` to the source's registers;
///   2. in each round n < 2^round_bits send register send(n); the lane's part of `thread` receives
///      from the lane from_round(n) ^ from_thread(thread) of its warp;
///      With n_extra > 0 this is done for each e < 2^n_extra. The sent register is then send(n) ^
///      the sum of extra[i].reg over the bits i of e. A thread keeps the received value if
///      parity(thread & extra[i].mask) is bit i of e for all i;
///   3. the value received in round n is register n; apply `after` to these registers.
/// Rounds n and n ^ bit(i) for i in `pack` read the same threads: small elements share shuffles.
/// A round in which every thread reads itself is no shuffle.
/// For CONVERT_SHARED and ADDRESS: threads with (thread & owner) == 0 write by `write`, then all
/// synchronise, then read by `read`. With scope CTA the offsets number one memory for the cluster;
/// the caller decides which CTA holds a byte of it.
typedef struct Conversion {
    ConvertKind kind;
    LayoutLevel scope; // the level that elements cross: REG nothing, LANE a warp, WARP a CTA, CTA a
                       // cluster
    int round_bits;
    F2 send, from_round, from_thread;
    int n_before, n_after;
    ConvertSwap before[LAYOUT_MAX_BITS], after[LAYOUT_MAX_BITS];
    int n_extra;
    ConvertSwap extra[LAYOUT_MAX_BITS];
    Bits pack;
    int64_t shuffles; // of a thread, over all repeats
    SharedLayout shared;
    SharedAccess write, read;
    int write_conflicts, read_conflicts;
    Bits owner;
    double cost; // approximate issue slots of a warp
} Conversion;

/// Finds the cheapest conversion between two layouts of blocks with the same extents over the same
/// threads.
Conversion layout_convert(const Layout *from, const Layout *to, int elem_bits);
/// Finds the conversion through shared memory, even if another is cheaper.
Conversion layout_convert_shared(const Layout *from, const Layout *to, int elem_bits);
/// Finds the conversion within threads or warps. Returns false if elements cross warps or the boxes
/// differ.
bool layout_convert_near(const Layout *from, const Layout *to, int elem_bits, Conversion *c);
/// Whether every thread reads itself in the round.
bool convert_stays(const Conversion *c, const Layout *to, int64_t round);

/* ---- layout_fragment.c ----------------------------------------------------------------------- */

typedef enum FragmentRole { FRAG_A, FRAG_B, FRAG_D, FRAG_TILE } FragmentRole;

/// The layout of an operand of a matrix instruction (dimensions: A is m x k, B is k x n, D is m x
/// n), or of the tile of a matrix load or store.
typedef struct FragmentRow {
    const char *name; // instruction
    FragmentRole role;
    int elem_bits;
    const char *layout; // in the text form; for wgmma, N is 8, and tiles continue from there
} FragmentRow;

extern const FragmentRow fragment_rows[];
extern const int n_fragment_rows;

const FragmentRow *fragment_find(const char *name, FragmentRole role);
/// Returns the row for elements of this size: its name may have one part more than `name`.
const FragmentRow *fragment_of_bits(const char *name, FragmentRole role, int bits);
/// Returns the row's layout.
const Layout *fragment_layout(Ctx *ctx, const FragmentRow *row);
/// Whether l consists of tiles of the fragment: its register and lane bits are the fragment's, and
/// no other bit reaches inside a tile. `regs` (may be NULL) receives the register bits of l that
/// are the fragment's.
bool fragment_divides(const Layout *fragment, const Layout *l, int *regs);

#endif
