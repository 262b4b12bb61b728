// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Branches, waits, barriers, the end of a wave, and instructions without an effect here.
#include <stdlib.h>

#include "tools/amdsim/machine.h"

enum { ALWAYS, SCC0, SCC1, VCC_ZERO, VCC_NONZERO, EXEC_ZERO, EXEC_NONZERO };

static bool condition_holds(const Wave *w, int condition) {
    switch (condition) {
    case SCC0: return !w->s[SCC];
    case SCC1: return w->s[SCC];
    case VCC_ZERO: return !vcc_mask(w);
    case VCC_NONZERO: return vcc_mask(w);
    case EXEC_ZERO: return !exec_mask(w);
    case EXEC_NONZERO: return exec_mask(w);
    default: return true;
    }
}

static void run_branch_inst(Wave *w, const Inst *i) {
    if (condition_holds(w, i->variant))
        w->pc = i->pc + i->size + (u64)((i64)(i16)i->o[0].integer * 4);
}

static void run_end(Wave *w, const Inst *i) {
    (void)i;
    w->state = ENDED;
}

static void run_barrier(Wave *w, const Inst *i) {
    (void)i;
    w->state = AT_BARRIER;
}

static void run_trap(Wave *w, const Inst *i) {
    fail(w, i, AMDSIM_FAULT, "a trap");
}

static void run_nothing(Wave *w, const Inst *i) {
    (void)w, (void)i;
}

/* ---- waits ---------------------------------------------------------------------------------- */

/// Waits until at most `left` accesses are in flight.
static void wait_for_counter(Counter *c, int left) {
    if (left >= 0 && c->issued - c->done > (u32)left) c->done = c->issued - (u32)left;
}

static void run_wait(Wave *w, const Inst *i) {
    wait_for_counter(&w->vm, i->wait.vm);
    wait_for_counter(&w->lgkm, i->wait.lgkm);
}

static int count_in(const char *text, const char *counter) {
    const char *at = strstr(text, counter);
    return at ? atoi(at + strlen(counter)) : -1;
}

/// `s_waitcnt 0` waits for all accesses. s_waitcnt_depctr and s_waitcnt_vscnt concern accesses that
/// are not counted here.
static void decode_wait(Inst *i, const char *rest) {
    bool is_plain = !strcmp(i->name, "s_waitcnt"), named = strchr(rest, '(') != NULL;
    int all = !named && atoi(rest) == 0 ? 0 : -1;
    i->wait.vm = !is_plain ? -1 : named ? count_in(rest, "vmcnt(") : all;
    i->wait.lgkm = !is_plain ? -1 : named ? count_in(rest, "lgkmcnt(") : all;
    i->run = run_wait;
}

/* ---- indexed registers ---------------------------------------------------------------------- */

enum { INDEX_ON = 16, INDEX_SET = 32 };

/// The index is added to the register number of the first source (mode 1) or of the result (mode
/// 8).
static void run_index(Wave *w, const Inst *i) {
    if (i->variant & (INDEX_ON | INDEX_SET))
        w->index = (u32)read_operand(w, i, &i->o[0], T_u32, 0) & 255;
    if (!(i->variant & INDEX_SET)) w->index_mode = i->variant & 15;
}

static void decode_index(Inst *i, char *rest) {
    char *comma = strchr(rest, ',');
    int modes = (strstr(rest, "SRC0") ? 1 : 0) | (strstr(rest, "DST") ? 8 : 0);
    if (comma) *comma = 0;
    read_operands(i, rest);
    i->variant = strstr(i->name, "_on")        ? modes | INDEX_ON
                 : strstr(i->name, "_idx_idx") ? INDEX_SET
                                               : 0;
    i->run = run_index;
}

/* ---- decoding ------------------------------------------------------------------------------- */

static const struct {
    const char *name;
    Run run;
    int variant;
} rows[] = {
    {"s_branch", run_branch_inst, ALWAYS},
    {"s_cbranch_scc0", run_branch_inst, SCC0},
    {"s_cbranch_scc1", run_branch_inst, SCC1},
    {"s_cbranch_vccz", run_branch_inst, VCC_ZERO},
    {"s_cbranch_vccnz", run_branch_inst, VCC_NONZERO},
    {"s_cbranch_execz", run_branch_inst, EXEC_ZERO},
    {"s_cbranch_execnz", run_branch_inst, EXEC_NONZERO},
    {"s_endpgm", run_end, 0},
    {"s_barrier", run_barrier, 0},
    {"s_trap", run_trap, 0},
};

/// Instructions for caches, rounding modes and hints.
static const char *const without_effect[] = {
    "s_nop",
    "s_delay_alu",
    "s_clause",
    "s_sleep",
    "s_setprio",
    "s_sendmsg",
    "s_icache_inv",
    "s_inst_prefetch",
    "s_set_inst_prefetch_distance",
    "buffer_gl0_inv",
    "buffer_gl1_inv",
    "buffer_inv",
    "buffer_wbl2",
    "buffer_wbinvl1",
    "buffer_wbinvl1_vol",
    "s_dcache_inv",
    "s_dcache_wb",
    "s_round_mode",
    "s_denorm_mode",
    "s_wait_idle",
    "s_code_end",
    "v_nop",
    "s_ttracedata",
    "s_setreg_b32",
    "s_setreg_imm32_b32",
    "s_version",
    "s_sethalt",
    "s_gl1_inv",
};

bool decode_control(Wave *w, Inst *i, char *rest) {
    (void)w;
    if (starts(i->name, "s_waitcnt")) return decode_wait(i, rest), true;
    if (starts(i->name, "s_set_gpr_idx")) return decode_index(i, rest), true;
    for (size_t k = 0; k < sizeof without_effect / sizeof *without_effect; k++)
        if (!strcmp(i->name, without_effect[k])) {
            i->run = run_nothing;
            return true;
        }
    for (size_t k = 0; k < sizeof rows / sizeof *rows; k++)
        if (!strcmp(i->name, rows[k].name)) {
            read_operands(i, rest);
            i->run = rows[k].run;
            i->variant = rows[k].variant;
            return true;
        }
    return false;
}
