// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Decodes machine code. LLVM's disassembler knows the encodings; this file parses its text, once
// for each address.
#include <llvm-c/Disassembler.h>
#include <stdio.h>
#include <stdlib.h>

#include "tools/amdsim/machine.h"

bool starts(const char *name, const char *prefix) {
    return !strncmp(name, prefix, strlen(prefix));
}

/* ---- names ---------------------------------------------------------------------------------- */

static void drop_suffix(char *name) {
    static const char *const suffixes[] = {"_e64_dpp", "_e32", "_e64", "_dpp", "_sdwa"};
    size_t n = strlen(name);
    for (size_t k = 0; k < sizeof suffixes / sizeof *suffixes; k++) {
        size_t s = strlen(suffixes[k]);
        if (n <= s || strcmp(name + n - s, suffixes[k]) != 0) continue;
        name[n - s] = 0;
        return;
    }
}

/// Prefixes of gfx11's names, and gfx9's names for them.
static const char *const renames[][2] = {
    {"v_add_nc_", "v_add_"},
    {"v_sub_nc_", "v_sub_"},
    {"v_subrev_nc_", "v_subrev_"},
    {"s_and_not1_", "s_andn2_"},
    {"s_or_not1_", "s_orn2_"},
    {"s_and_not0_", "s_andn1_"},
    {"s_or_not0_", "s_orn1_"},
    {"s_ctz_i32_", "s_ff1_i32_"},
    {"s_clz_i32_u32", "s_flbit_i32_b32"},
    {"s_clz_i32_u64", "s_flbit_i32_b64"},
    {"s_cls_i32", "s_flbit_i32"},
    {"v_clz_i32_u32", "v_ffbh_u32"},
    {"v_ctz_i32_b32", "v_ffbl_b32"},
    {"v_cls_i32", "v_ffbh_i32"},
    {"v_add_co_ci_", "v_addc_co_"},
    {"v_sub_co_ci_", "v_subb_co_"},
    {"v_subrev_co_ci_", "v_subbrev_co_"},
    {"v_mul_dx9_zero_f32", "v_mul_legacy_f32"},
    {"v_cvt_pk_rtz_f16_f32", "v_cvt_pkrtz_f16_f32"},
    {"ds_load_2addr_stride64_", "ds_read2st64_"},
    {"ds_store_2addr_stride64_", "ds_write2st64_"},
    {"ds_load_2addr_", "ds_read2_"},
    {"ds_store_2addr_", "ds_write2_"},
    {"ds_load_", "ds_read_"},
    {"ds_store_", "ds_write_"},
};

static void rename_beginning(char *name, size_t size) {
    char rest[48];
    for (size_t k = 0; k < sizeof renames / sizeof *renames; k++) {
        if (!starts(name, renames[k][0])) continue;
        snprintf(rest, sizeof rest, "%s", name + strlen(renames[k][0]));
        snprintf(name, size, "%s%s", renames[k][1], rest);
        return;
    }
}

/// Reads gfx9's name, without the encoding's suffix. v_dual_X is v_X.
static void read_mnemonic(Inst *i, const char *text) {
    size_t n = strcspn(text, " \t");
    if (starts(text, "v_dual_"))
        snprintf(i->name, sizeof i->name, "v_%.*s", (int)n - 7, text + 7);
    else
        snprintf(i->name, sizeof i->name, "%.*s", (int)n, text);
    drop_suffix(i->name);
    rename_beginning(i->name, sizeof i->name);
}

/* ---- operands ------------------------------------------------------------------------------- */

static void read_token(Inst *i, char *token) {
    if (is_modifier(token))
        read_modifier(i, token);
    else if (i->n < OPERANDS)
        read_operand_text(token, &i->o[i->n++]);
}

/// Operands are separated by commas or blanks outside of brackets.
void read_operands(Inst *i, char *text) {
    int depth = 0;
    char *token = NULL;
    for (char *p = text;; p++) {
        char c = *p;
        depth += (c == '[' || c == '(') - (c == ']' || c == ')');
        bool ends = !c || (depth <= 0 && (c == ',' || c == ' ' || c == '\t'));
        if (!ends && !token) token = p;
        if (ends && token) {
            *p = 0;
            read_token(i, token);
            token = NULL;
        }
        if (!c) return;
    }
}

/* ---- instructions --------------------------------------------------------------------------- */

static Inst *new_instruction(Wave *w, u64 pc) {
    Inst *i = calloc(1, sizeof *i);
    if (!i) fail(w, NULL, AMDSIM_NO_MEMORY, "out of memory");
    i->pc = pc;
    i->row_mask = i->bank_mask = 15;
    i->select[0] = i->select[1] = i->result_select = 6;
    i->op_sel_hi = 7;
    return i;
}

static void free_instruction(Inst *i) {
    if (i) free(i->pair);
    free(i);
}

void drop_instructions(Machine *m) {
    for (u64 k = 0; m->cache && k < m->code.bytes / 4; k++) free_instruction(m->cache[k]);
    free(m->cache);
}

/// Reads the half after `::` of v_dual_*.
static void read_pair(Wave *w, Inst *i, char *text) {
    i->pair = new_instruction(w, i->pc);
    text += strspn(text, " \t");
    read_mnemonic(i->pair, text);
    read_operands(i->pair, text + strcspn(text, " \t"));
}

/// Asks the families in turn. The right one sets the function.
static bool find_function(Wave *w, Inst *i, char *rest) {
    static bool (*const families[])(Wave *, Inst *) = {
        decode_memory,  decode_scalar, decode_shared,  decode_matrix,
        decode_compare, decode_packed, decode_special, decode_vector,
    };
    if (decode_control(w, i, rest)) return true;
    read_operands(i, rest);
    if (i->pair) return decode_vector(w, i);
    for (size_t k = 0; k < sizeof families / sizeof *families; k++)
        if (families[k](w, i)) return true;
    return false;
}

static void read_instruction(Wave *w, Inst *i, char *text) {
    char *second = strstr(text, " :: ");
    if (second) {
        *second = 0;
        read_pair(w, i, second + 4);
    }
    read_mnemonic(i, text);
    char *rest = text + strcspn(text, " \t");
    if (*rest) *rest++ = 0;
    if (!find_function(w, i, rest)) fail(w, i, AMDSIM_UNKNOWN, "this instruction is not emulated");
}

static void copy_disassembly(Inst *i, const char *text) {
    snprintf(i->text, sizeof i->text, "%s", text);
    for (char *p = i->text; *p; p++)
        if (*p == '\t') *p = ' ';
}

const Inst *decode(Wave *w, u64 pc) {
    Machine *m = w->m;
    u64 base = (uintptr_t)m->code.image, at = pc - base;
    if (pc < base || at >= m->code.bytes || at % 4)
        fail(w, NULL, AMDSIM_FAULT, "a jump to 0x%llx, outside of the code",
             (unsigned long long)at);
    Inst **slot = &m->cache[at / 4];
    if (*slot) return *slot;
    char buffer[256] = "";
    size_t size = LLVMDisasmInstruction(m->disassembler, m->code.image + at, m->code.bytes - at, pc,
                                        buffer, sizeof buffer);
    Inst *i = *slot = new_instruction(w, pc);
    char *text = buffer + strspn(buffer, " \t");
    i->size = (uint8_t)size;
    copy_disassembly(i, text);
    if (!size) {
        u32 word;
        memcpy(&word, m->code.image + at, sizeof word);
        fail(w, i, AMDSIM_UNKNOWN, "the disassembler does not know the word 0x%08x", word);
    }
    read_instruction(w, i, text);
    return i;
}
