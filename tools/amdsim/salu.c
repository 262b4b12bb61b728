// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Scalar arithmetic: the rows of salu.def, and instructions that read or write EXEC and the pc.
#include "tools/amdsim/bits.h"
#include "tools/amdsim/machine.h"

/* ---- notation of rows ----------------------------------------------------------------------- */

/// Sets SCC if the sum overflows.
static u64 signed_sum(i64 sum, u32 *scc) {
    *scc = sum != (i32)sum;
    return (u64)sum;
}

/// The bits of a field, as s_bfe_i* reads them from its second source.
static u32 field_bits(u64 b, u32 most) {
    return (u32)lesser((i64)(b >> 16 & 127), most);
}

/// Sets all four bits of each group of four that has a set bit.
static u64 whole_quads(u64 x) {
    u64 any = (x | x >> 1 | x >> 2 | x >> 3) & 0x1111111111111111u;
    return any * 15;
}

typedef enum ScalarForm { SOP, SOPRW, SOPC, SOPK, SOPCK, SOPCU } ScalarForm;
enum { own = 0, nonzero = 1 };

typedef struct ScalarOp {
    const char *name;
    ScalarForm form;
    int result, a, b; // sizes in bits; 0: absent
    int nonzero;      // whether SCC becomes D != 0
    /// Returns D; *scc is the old SCC, then the new one.
    u64 (*compute)(u64 a, u64 b, u64 old, u32 *scc);
} ScalarOp;

#define SCALAR(NAME, FORM, DBITS, ABITS, BBITS, SETS, CODE)                                        \
    static u64 NAME(u64 A, u64 B, u64 D, u32 *state) {                                             \
        u32 scc = *state;                                                                          \
        (void)A, (void)B;                                                                          \
        CODE;                                                                                      \
        *state = scc;                                                                              \
        return D;                                                                                  \
    }
#include "tools/amdsim/salu.def"

#define SCALAR(NAME, FORM, DBITS, ABITS, BBITS, SETS, CODE)                                        \
    {#NAME, FORM, DBITS, ABITS, BBITS, SETS, NAME},
static const ScalarOp rows[] = {
#include "tools/amdsim/salu.def"
};

/* ---- running -------------------------------------------------------------------------------- */

static u64 scalar_source(const Wave *w, const Inst *i, int k, int bits) {
    if (!bits) return 0;
    u64 x = read_operand(w, i, &i->o[k], bits == 64 ? T_b64 : T_b32, 0);
    return bits == 32 ? (u32)x : x;
}

static void run_scalar_row(Wave *w, const Inst *i) {
    const ScalarOp *row = i->row;
    bool compares = row->form >= SOPC && row->form != SOPK, constant = row->form >= SOPK;
    int first = compares || row->form == SOPK ? 0 : 1;
    u64 a = scalar_source(w, i, first, row->a), b = scalar_source(w, i, first + 1, row->b);
    if (constant) b = row->form == SOPCU ? (u16)b : (u32)(i16)b;
    u64 d = row->compute(a, b, row->form == SOPRW ? scalar_source(w, i, 0, row->result) : 0,
                         &w->s[SCC]);
    if (row->result == 32) d = (u32)d;
    if (row->nonzero) w->s[SCC] = d != 0;
    if (row->result) write_scalar(w, &i->o[0], row->result, d);
}

/// D = EXEC; EXEC = A op EXEC.
static const struct {
    const char *prefix;
    u64 (*compute)(u64 a, u64 exec, u64 old, u32 *scc);
    bool negates; // whether the source is negated; andn1 is andn2 with swapped sides
} saves[] = {
    {"s_and_saveexec_", s_and_b64, false},   {"s_or_saveexec_", s_or_b64, false},
    {"s_xor_saveexec_", s_xor_b64, false},   {"s_andn2_saveexec_", s_andn2_b64, false},
    {"s_orn2_saveexec_", s_orn2_b64, false}, {"s_nand_saveexec_", s_nand_b64, false},
    {"s_nor_saveexec_", s_nor_b64, false},   {"s_xnor_saveexec_", s_xnor_b64, false},
    {"s_andn1_saveexec_", s_and_b64, true},  {"s_orn1_saveexec_", s_or_b64, true},
};

static void run_save(Wave *w, const Inst *i) {
    u64 a = read_operand(w, i, &i->o[1], mask_type(w), 0), exec = exec_mask(w);
    u32 scc = 0;
    write_mask(w, &i->o[0], exec);
    u64 d = saves[i->variant].compute(saves[i->variant].negates ? ~a : a, exec, 0, &scc);
    write_exec(w, d);
    w->s[SCC] = exec_mask(w) != 0;
}

static void run_getpc(Wave *w, const Inst *i) {
    write_scalar(w, &i->o[0], 64, i->pc + i->size);
}

static void run_setpc(Wave *w, const Inst *i) {
    w->pc = read_operand(w, i, &i->o[0], T_b64, 0);
}

static void run_swappc(Wave *w, const Inst *i) {
    u64 to = read_operand(w, i, &i->o[1], T_b64, 0);
    write_scalar(w, &i->o[0], 64, i->pc + i->size);
    w->pc = to;
}

/// A clock that counts instructions.
static void run_time(Wave *w, const Inst *i) {
    write_scalar(w, &i->o[0], 64, w->instructions * 4);
}

/// Hardware registers read as 0, and messages return 0.
static void run_zero(Wave *w, const Inst *i) {
    write_scalar(w, &i->o[0], i->o[0].count == 2 ? 64 : 32, 0);
}

static const struct {
    const char *prefix;
    Run run;
} others[] = {
    {"s_getpc_b64", run_getpc},   {"s_setpc_b64", run_setpc},  {"s_swappc_b64", run_swappc},
    {"s_memtime", run_time},      {"s_memrealtime", run_time}, {"s_getreg_b32", run_zero},
    {"s_sendmsg_rtn_", run_zero},
};

bool decode_scalar(Wave *w, Inst *i) {
    (void)w;
    if (!starts(i->name, "s_")) return false;
    for (size_t k = 0; k < sizeof rows / sizeof *rows && !i->run; k++)
        if (!strcmp(i->name, rows[k].name)) {
            i->row = &rows[k];
            i->run = run_scalar_row;
        }
    for (size_t k = 0; k < sizeof saves / sizeof *saves && !i->run; k++)
        if (starts(i->name, saves[k].prefix)) {
            i->variant = (int)k;
            i->run = run_save;
        }
    for (size_t k = 0; k < sizeof others / sizeof *others && !i->run; k++)
        if (starts(i->name, others[k].prefix)) i->run = others[k].run;
    return i->run != NULL;
}
