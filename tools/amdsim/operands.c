// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Parses operands and modifiers in the disassembler's text.
#include <stdio.h>
#include <stdlib.h>

#include "tools/amdsim/dpp.h"
#include "tools/amdsim/machine.h"

/* ---- registers and constants ---------------------------------------------------------------- */

static bool read_special(const char *text, Operand *o) {
    static const struct {
        const char *name;
        int reg, count;
    } rows[] = {
        {"vcc_lo", VCC, 1},
        {"vcc_hi", VCC + 1, 1},
        {"vcc", VCC, 2},
        {"exec_lo", EXEC, 1},
        {"exec_hi", EXEC + 1, 1},
        {"exec", EXEC, 2},
        {"m0", M0, 1},
        {"null", NULL_REG, 1},
        {"scc", SCC, 1},
        {"src_scc", SCC, 1},
        {"src_shared_base", SHARED_BASE, 2},
        {"src_private_base", PRIVATE_BASE, 2},
        {"src_vccz", VCCZ, 1},
        {"src_execz", EXECZ, 1},
        {"flat_scratch_lo", FLAT_SCRATCH, 1},
        {"flat_scratch_hi", FLAT_SCRATCH + 1, 1},
        {"flat_scratch", FLAT_SCRATCH, 2},
    };
    for (size_t k = 0; k < sizeof rows / sizeof *rows; k++) {
        if (strcmp(text, rows[k].name) != 0) continue;
        o->kind = SCALAR;
        o->reg = (uint16_t)rows[k].reg;
        o->count = (uint8_t)rows[k].count;
        return true;
    }
    return false;
}

/// Parses v7, a[0:3], s[2:3], ttmp5 or v1.h.
static bool read_register(const char *text, Operand *o) {
    bool trap = starts(text, "ttmp");
    if (!trap && !strchr("vas", *text)) return false;
    const char *number = text + (trap ? 4 : 1);
    int first, last, end = 0;
    if (sscanf(number, "[%d:%d]%n", &first, &last, &end) != 2 || !end) {
        if (sscanf(number, "%d%n", &first, &end) != 1) return false;
        last = first;
    }
    const char *rest = number + end;
    if (*rest && *rest != '.') return false;
    if (*rest) o->half = rest[1] == 'h' ? HIGH_HALF : LOW_HALF;
    o->kind = strchr("va", *text) ? VECTOR : SCALAR;
    o->reg = (uint16_t)(first + (*text == 'a' ? ACCUMULATORS : trap ? TRAP_REGS : 0));
    o->count = (uint8_t)(last - first + 1);
    return true;
}

static bool is_real_literal(const char *text) {
    bool digits = *text == '-' || (*text >= '0' && *text <= '9');
    return strchr(text, '.') || (digits && !starts(text, "0x") && strpbrk(text, "eE"));
}

static void read_constant(const char *text, Operand *o) {
    char *end;
    if (is_real_literal(text)) {
        o->kind = FLOAT;
        o->real = strtod(text, NULL);
        return;
    }
    o->integer = *text == '-' ? (u64)strtoll(text, &end, 0) : strtoull(text, &end, 0);
    o->kind = end == text ? OFF : INTEGER;
}

/// The modifiers that enclose an operand, with their opening and closing text.
enum { AROUND_NEG, AROUND_ABS, AROUND_SEXT, AROUND_LIT };
static const struct {
    const char *begin;
    bool closes;
    int what;
} around[] = {{"neg(", true, AROUND_NEG},
              {"abs(", true, AROUND_ABS},
              {"sext(", true, AROUND_SEXT},
              {"lit(", true, AROUND_LIT},
              {"|", true, AROUND_ABS}};

static bool is_negated(const char *text) {
    return *text == '-' && text[1] && strchr("vsa|et", text[1]);
}

/// Returns NULL if there is no modifier.
static char *strip_modifier(char *text, Operand *o) {
    size_t n = strlen(text);
    if (is_negated(text)) {
        o->neg = true;
        return text + 1;
    }
    for (size_t k = 0; k < sizeof around / sizeof *around; k++) {
        if (n < 2 || !starts(text, around[k].begin)) continue;
        text[n - 1] = 0;
        o->neg |= around[k].what == AROUND_NEG;
        o->abs |= around[k].what == AROUND_ABS;
        o->sext |= around[k].what == AROUND_SEXT;
        return text + strlen(around[k].begin);
    }
    return NULL;
}

void read_operand_text(char *text, Operand *o) {
    for (char *next = text; next; next = strip_modifier(text, o)) text = next;
    if (!strcmp(text, "off")) {
        o->kind = OFF;
        return;
    }
    if (!read_special(text, o) && !read_register(text, o)) read_constant(text, o);
}

/* ---- modifiers ------------------------------------------------------------------------------ */

/// Parses the numbers of a list in brackets.
static int read_list(const char *text, uint8_t *out) {
    int n = 0;
    const char *at = strchr(text, '[');
    while (at && *at && *at != ']' && n < 8) {
        out[n++] = (uint8_t)atoi(at + 1);
        at = strpbrk(at + 1, ",]");
    }
    return n;
}

static uint8_t read_bits(const char *text) {
    uint8_t list[8], bits = 0;
    int n = read_list(text, list);
    for (int k = 0; k < n; k++) bits |= (uint8_t)((list[k] & 1) << k);
    return bits;
}

static uint8_t read_select(const char *name) {
    if (starts(name, "BYTE_")) return (uint8_t)(name[5] - '0');
    return starts(name, "WORD_") ? (uint8_t)(4 + name[5] - '0') : 6;
}

/// Parses swizzle(BITMASK_PERM,"0pi1p"): each bit of the lane becomes 0, 1, stays or is inverted.
static i32 read_bitmask(const char *text) {
    i32 and = 0, or = 0, xor = 0;
    for (int k = 0; k < 5 && text[k]; k++) {
        i32 bit = 1 << (4 - k);
        if (text[k] == '1') or |= bit;
        if (text[k] == 'p' || text[k] == 'i') and |= bit;
        if (text[k] == 'i') xor |= bit;
    }
    return and | or << 5 | xor << 10;
}

/// Parses offset:swizzle(...) to the encoded number.
static i32 read_swizzle(const char *text) {
    int a = 0, b = 0, c = 0, d = 0;
    const char *quote = strchr(text, '"');
    if (quote) return read_bitmask(quote + 1);
    if (sscanf(text, "SWAP,%d", &a) == 1) return 31 | a << 10;
    if (sscanf(text, "REVERSE,%d", &a) == 1) return 31 | (a - 1) << 10;
    if (sscanf(text, "BROADCAST,%d,%d", &a, &b) == 2) return (32 - a) | b << 5;
    sscanf(text, "QUAD_PERM,%d,%d,%d,%d", &a, &b, &c, &d);
    return 0x8000 | a | b << 2 | c << 4 | d << 6;
}

/// Lane shuffles, by the beginning of their text.
static bool read_dpp(Inst *i, const char *text, int value) {
    static const struct {
        const char *text;
        int dpp;
    } rows[] = {
        {"quad_perm:", DPP_QUAD_PERM},
        {"dpp8:", DPP_8},
        {"row_shl:", DPP_SHL},
        {"row_shr:", DPP_SHR},
        {"row_ror:", DPP_ROR},
        {"row_mirror", DPP_MIRROR},
        {"row_half_mirror", DPP_HALF_MIRROR},
        {"row_bcast:15", DPP_BCAST15},
        {"row_bcast:31", DPP_BCAST31},
        {"row_share:", DPP_SHARE},
        {"row_newbcast:", DPP_SHARE},
        {"row_xmask:", DPP_XMASK},
        {"wave_shr:", DPP_WAVE_SHR},
    };
    for (size_t k = 0; k < sizeof rows / sizeof *rows; k++) {
        if (!starts(text, rows[k].text)) continue;
        i->dpp = (uint8_t)rows[k].dpp;
        i->dpp_arg[0] = (uint8_t)value;
        read_list(text, i->dpp_arg);
        return true;
    }
    return false;
}

static bool read_sdwa(Inst *i, const char *text, const char *value) {
    if (starts(text, "dst_unused:")) {
        i->result_unused = strstr(value, "PRESERVE") ? UNUSED_PRESERVE
                           : strstr(value, "SEXT")   ? UNUSED_SEXT
                                                     : UNUSED_PAD;
        return true;
    }
    uint8_t *select = starts(text, "dst_sel:")    ? &i->result_select
                      : starts(text, "src0_sel:") ? &i->select[0]
                      : starts(text, "src1_sel:") ? &i->select[1]
                                                  : NULL;
    if (!select) return false;
    *select = read_select(value);
    i->sdwa = true;
    return true;
}

/// Modifiers without a value.
static bool read_flag(Inst *i, const char *text) {
    const struct {
        const char *text;
        bool *flag;
    } rows[] = {
        {"clamp", &i->clamp}, {"offen", &i->offen}, {"idxen", &i->idxen},  {"lds", &i->lds},
        {"sc0", &i->returns}, {"glc", &i->returns}, {"sc1", &i->coherent},
    };
    for (size_t k = 0; k < sizeof rows / sizeof *rows; k++)
        if (!strcmp(text, rows[k].text)) {
            *rows[k].flag = true;
            i->coherent |= !strcmp(text, "glc");
            return true;
        }
    return false;
}

static bool read_lists(Inst *i, const char *text) {
    const struct {
        const char *text;
        uint8_t *bits;
    } rows[] = {{"op_sel_hi:", &i->op_sel_hi},
                {"op_sel:", &i->op_sel},
                {"neg_lo:", &i->neg_lo},
                {"neg_hi:", &i->neg_hi}};
    for (size_t k = 0; k < sizeof rows / sizeof *rows; k++)
        if (starts(text, rows[k].text)) {
            *rows[k].bits = read_bits(text);
            i->has_op_sel |= !strcmp(rows[k].text, "op_sel:");
            return true;
        }
    return false;
}

static void read_offset(Inst *i, const char *text, int value) {
    if (starts(text, "offset:swizzle("))
        i->offset = read_swizzle(text + strlen("offset:swizzle("));
    else if (starts(text, "offset:"))
        i->offset = value;
    else if (starts(text, "offset0:"))
        i->offset0 = value;
    else if (starts(text, "offset1:"))
        i->offset1 = value;
    else if (starts(text, "mul:"))
        i->omod = value == 2 ? 1 : 2;
    else if (starts(text, "div:2"))
        i->omod = 3;
    else if (starts(text, "cbsz:"))
        i->cbsz = (uint8_t)value;
    else if (starts(text, "abid:"))
        i->abid = (uint8_t)value;
    else if (starts(text, "blgp:"))
        i->blgp = (uint8_t)value;
    else if (starts(text, "row_mask:"))
        i->row_mask = (uint8_t)value;
    else if (starts(text, "bank_mask:"))
        i->bank_mask = (uint8_t)value;
    else if (starts(text, "bound_ctrl:"))
        i->bound_ctrl = true;
    else if (starts(text, "fi:"))
        i->fetch_inactive = value;
}

void read_modifier(Inst *i, char *text) {
    const char *colon = strchr(text, ':'), *value = colon ? colon + 1 : "";
    int number = (int)strtol(value, NULL, 0);
    if (read_flag(i, text) || read_lists(i, text) || read_dpp(i, text, number)) return;
    if (!read_sdwa(i, text, value)) read_offset(i, text, number);
}

/// Whether `text` is `name:value` or a known word.
bool is_modifier(const char *text) {
    static const char *const operands[] = {"v[", "s[", "a[", "ttmp[", "neg(", "abs(", "sext("};
    static const char *const words[] = {"clamp", "sc0", "sc1",        "nt",
                                        "glc",   "slc", "dlc",        "offen",
                                        "idxen", "lds", "row_mirror", "row_half_mirror",
                                        "gds",   "tfe"};
    for (size_t k = 0; k < sizeof words / sizeof *words; k++)
        if (!strcmp(text, words[k])) return true;
    for (size_t k = 0; k < sizeof operands / sizeof *operands; k++)
        if (starts(text, operands[k])) return false;
    return strchr(text, ':') && !strchr("-|", *text);
}
