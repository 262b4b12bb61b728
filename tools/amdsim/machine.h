// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The state of a launch: machine, waves, registers and decoded instructions.
#ifndef TOOLS_AMDSIM_MACHINE_H
#define TOOLS_AMDSIM_MACHINE_H

#include <setjmp.h>

#include "tools/amdsim/amdsim.h"
#include "tools/amdsim/floats.h"

enum { LANES = 64, VECTORS = 512, ACCUMULATORS = 256, OPERANDS = 8, MAX_WAVES = 64 };

/// Scalar registers by number. SCC and those after it have no number in the encoding; the numbers
/// here are our own.
enum {
    FLAT_SCRATCH = 102,
    VCC = 106,
    TRAP_REGS = 108,
    M0 = 124,
    NULL_REG = 125,
    EXEC = 126,
    SCC = 128,
    SHARED_BASE = 130,
    PRIVATE_BASE = 132,
    VCCZ = 134,
    EXECZ = 135,
    SCALARS = 140,
};

/// The upper halves of flat addresses in shared memory and in scratch.
#define SHARED_APERTURE  0x80000001u
#define PRIVATE_APERTURE 0x80000002u
/// The address in the scratch resource that a kernel finds in its first registers.
#define SCRATCH_RESOURCE 0xdead00000000u

/// The interpretation of an operand's bits. T_pk: two halves, or one constant for both.
typedef enum Type {
    T_none,
    T_f16,
    T_f32,
    T_f64,
    T_u16,
    T_i16,
    T_u32,
    T_i32,
    T_u64,
    T_i64,
    T_b16,
    T_b32,
    T_b64,
    T_pk,
} Type;

typedef enum OperandKind {
    NO_OPERAND,
    VECTOR,
    SCALAR,
    INTEGER,
    FLOAT,
    OFF, // `off` and other operands without a value
} OperandKind;

enum { WHOLE, LOW_HALF, HIGH_HALF };

typedef struct Operand {
    OperandKind kind;
    bool neg, abs, sext;
    uint8_t half, count; // count: number of registers
    uint16_t reg;        // of vectors; accumulators have numbers from ACCUMULATORS on
    u64 integer;
    f64 real;
} Operand;

typedef struct Machine Machine;
typedef struct Wave Wave;
typedef struct Inst Inst;
typedef void (*Run)(Wave *w, const Inst *i);

/// The values of an operand in all lanes, as bits.
typedef struct Values {
    u64 of[LANES];
} Values;

/// A row of valu.def.
typedef struct VectorOp {
    const char *name;
    Type result, source[3];
    int sources;
    /// Computes the lanes of the mask.
    void (*compute)(const Wave *w, const Inst *i, const Values *source, Values *out, u64 mask);
} VectorOp;

typedef enum MemoryKind { LOAD, STORE, ATOMIC } MemoryKind;
typedef enum Atomic {
    A_none,
#define ATOMIC(NAME, ...) A_##NAME,
#include "tools/amdsim/atomics.def"
} Atomic;

struct Inst {
    u64 pc;
    uint8_t size, n; // size in bytes; number of operands
    char name[48];   // gfx9's name, without the encoding's suffix
    char text[160];
    Operand o[OPERANDS];
    Run run;
    const void *row; // row of the family's table
    int sources;     // number of sources of a row of valu.def
    Inst *pair;      // the other half of v_dual_*

    // Modifiers, in decode.c's notation.
    bool clamp, has_op_sel, bound_ctrl, fetch_inactive, lds, offen, idxen, sdwa;
    bool returns, coherent; // sc0 or glc; sc1 or glc
    uint8_t omod, op_sel, op_sel_hi, neg_lo, neg_hi, cbsz, abid, blgp;
    uint8_t dpp, dpp_arg[8], row_mask, bank_mask;
    uint8_t select[2], result_select, result_unused; // fields of SDWA
    i32 offset, offset0, offset1;

    union { // data of the family
        struct {
            MemoryKind kind;
            Atomic atomic;
            int bytes;
            bool sign, low, high; // low, high: the half that d16 names
            bool scratch;         // a flat instruction to scratch
            bool returned;        // a ds_*_rtn instruction
            int accesses, stride; // ds_*2*: accesses of a lane; bytes in a unit of the offset
        } memory;
        struct {
            int m, k, blocks, a, b, result;
        } matrix;
        struct {
            int relation, first;
            Type type;
            bool exec;
        } compare;
        struct {
            int vm, lgkm; // -1: not named in the instruction
        } wait;
        int variant;
    };
};

typedef enum WaveState { RUNS, AT_BARRIER, ENDED } WaveState;

/// The number of issued accesses, and the number known to have completed.
typedef struct Counter {
    u32 issued, done;
} Counter;

struct Wave {
    Machine *m;
    u32 (*v)[LANES];
    u32 s[SCALARS];
    u64 pc;
    int id, lanes;
    WaveState state;
    uint8_t *scratch;
    u32 index_mode, index; // set by s_set_gpr_idx_on
    u64 instructions;
    Counter vm, lgkm;
    // The number of the access that a register waits for. v_lgkm: which counter numbers it.
    u32 v_pending[VECTORS], s_pending[SCALARS];
    bool v_lgkm[VECTORS];
};

/// The last access to a byte of shared memory. Epochs are the times between barriers.
typedef struct SharedByte {
    u32 write, read; // epochs of the last write and read
    uint8_t writer, reader;
} SharedByte;

/// The loaded code object.
typedef struct Code {
    uint8_t *image;
    u64 bytes;
    const char *gpu;
    // Fields of the kernel's descriptor.
    u32 shared_bytes, private_bytes, resources2;
    u64 entry; // offset in the image
    u32 properties, preload;
} Code;

struct Machine {
    const AmdsimLaunch *launch;
    AmdsimResult *result;
    jmp_buf failed;
    Code code;
    bool rdna, fnuz; // fnuz: AMD's own f8 formats, as on gfx942
    void *disassembler;
    Inst **cache; // decoded instructions, by word of the image
    AmdsimBuffer *buffers;
    size_t n_buffers;
    int lanes, n_waves;
    Wave *waves;
    u32 group[3];
    uint8_t *shared;
    SharedByte *access;
    u32 shared_bytes, private_bytes;
    u32 epoch, first_epoch; // current epoch; first epoch of the work-group
    u64 instructions;
};

/// Ends the launch with a message that names the kernel, the wave and the instruction. `i` may be
/// NULL.
_Noreturn void fail(const Wave *w, const Inst *i, AmdsimStatus status, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

static inline u64 exec_mask(const Wave *w) {
    return w->s[EXEC] | (w->lanes == 64 ? (u64)w->s[EXEC + 1] << 32 : 0);
}
static inline u64 vcc_mask(const Wave *w) {
    return w->s[VCC] | (w->lanes == 64 ? (u64)w->s[VCC + 1] << 32 : 0);
}
static inline bool is_on(u64 mask, int lane) {
    return mask >> lane & 1;
}
static inline Type mask_type(const Wave *w) {
    return w->lanes == 64 ? T_b64 : T_b32;
}

// registers.c
int type_bits(Type type);
u64 read_scalar(const Wave *w, const Inst *i, int reg, int bits);
void write_scalar(Wave *w, const Operand *o, int bits, u64 x);
/// Writes a lane mask.
void write_mask(Wave *w, const Operand *o, u64 x);
void write_exec(Wave *w, u64 x);
/// Reads an operand without its modifiers.
u64 read_operand(const Wave *w, const Inst *i, const Operand *o, Type type, int lane);
void write_vector(Wave *w, const Operand *o, int lane, Type type, u64 x);
/// Checks that no access to registers that are read is in flight.
void check_vectors(const Wave *w, const Inst *i, int reg, int n);
void check_operand(const Wave *w, const Inst *i, const Operand *o, int n);
/// Marks the registers that the access issued last will write.
void await_vectors(Wave *w, int reg, int n, bool lgkm);

// lanes.c
/// Applies abs and neg to the bits.
u64 modified(const Operand *o, Type type, u64 x);
/// Reads source `k` of a vector instruction, with selections and modifiers; its first source is
/// operand `first`. Returns the lanes that may be written.
u64 gather(const Wave *w, const Inst *i, int first, int k, Type type, Values *out);
void scatter(Wave *w, const Inst *i, const Operand *o, Type type, const Values *x, u64 mask);

// memory.c
/// Returns the host memory behind an address, after the check that the access is allowed.
void *global_at(const Wave *w, const Inst *i, int lane, u64 address, int bytes, bool store);
void *shared_at(const Wave *w, const Inst *i, int lane, u64 address, int bytes, bool store);
/// Returns a word of shared memory for an atomic, without a check for races.
void *shared_word(const Wave *w, const Inst *i, int lane, u64 address, int bytes);
void *scratch_at(const Wave *w, const Inst *i, int lane, i64 offset, int bytes);
void *flat_at(const Wave *w, const Inst *i, int lane, u64 address, int bytes, bool store);
/// Moves data between memory and the registers from `reg` on.
void move_data(Wave *w, const Inst *i, int lane, void *at, int reg);
void load_words(Wave *w, int lane, const void *at, int reg, int bytes);
void store_words(const Wave *w, int lane, void *at, int reg, int bytes);
/// Returns 4 or 8 bytes of the registers from `reg` on.
u64 lane_value(const Wave *w, int lane, int reg, int bytes);
void set_lane_value(Wave *w, int lane, int reg, int bytes, u64 x);
/// Performs the atomic; returns the old value.
u64 do_atomic(Atomic op, void *at, int bytes, u64 data, u64 compare);
Atomic find_atomic(const char *name);
/// Reads kind, size and halves of a load, store or atomic from its name.
void read_memory_name(const Wave *w, Inst *i);

// The families. Each returns whether the instruction belongs to it, and if so sets its function.
// `rest`: the text after the name.
bool decode_control(Wave *w, Inst *i, char *rest);
bool decode_scalar(Wave *w, Inst *i);
bool decode_memory(Wave *w, Inst *i);
bool decode_shared(Wave *w, Inst *i);
bool decode_matrix(Wave *w, Inst *i);
bool decode_compare(Wave *w, Inst *i);
bool decode_packed(Wave *w, Inst *i);
bool decode_special(Wave *w, Inst *i);
bool decode_vector(Wave *w, Inst *i);

// decode.c
const Inst *decode(Wave *w, u64 pc);
/// Parses operands and modifiers.
void read_operands(Inst *i, char *text);
bool starts(const char *name, const char *prefix);
void drop_instructions(Machine *m);
// operands.c
void read_operand_text(char *text, Operand *o);
bool is_modifier(const char *text);
void read_modifier(Inst *i, char *text);

// code.c
AmdsimStatus load_code(Machine *m);
// launch.c
AmdsimStatus refuse(Machine *m, AmdsimStatus status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#endif
