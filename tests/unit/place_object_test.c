// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Objects that become code without LLVM. The code must run. LLVM gets objects of another machine,
// or with external references. No contents of an object may cause a read or write outside of it.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <elf.h>
#include <stdlib.h>
#include <string.h>

#include "backends/llvm/target.h"
#include "runtime/host.h"
#include "tests/unit/cpu_compare.h"

static const char text[] = "module {\n"
                           "  kernel [name = \"fill\"] { (%y: tensor<f32, ?, [1]>)\n"
                           "    %n = dim %y [axis = 0]: i64\n"
                           "    %c16 = const [value = 16]: i64\n"
                           "    %zero = const [value = 0]: i64\n"
                           "    %one = const [value = 1]: i64\n"
                           "    %ok = gt %n, %zero: bool\n"
                           "    require %ok, %n [text = \"not for {}\"]\n"
                           "    launch %one { (%task: i64)\n"
                           "      %r = const [value = 2.5]: f32<16>\n"
                           "      store %y, %r, %zero, %c16 [subs = (axis 16)]\n"
                           "      yield\n"
                           "    }\n"
                           "    yield\n"
                           "  }\n"
                           "}\n";

typedef struct Parsed {
    Ir *ir;
    Op *module;
    uint16_t file;
} Parsed;

static void parse(Ctx *ctx, void *arg) {
    Parsed *p = arg;
    p->ir = ir_create(ctx);
    p->module = ir_parse(p->ir, p->file);
}

/// Returns the kernel's object, not linked.
static Code *compile_text(Ctx *ctx) {
    Parsed p = {.file = ctx_add_source(ctx, "fill.tir", text, strlen(text))};
    CodeOptions options = {.level = NULL};
    assert_int_equal(ctx_protect(ctx, parse, &p), CTX_OK);
    for (const Diagnostic *d = diag_first(ctx); d; d = d->next) print_error("%s\n", d->text);
    assert_non_null(p.module);
    Code *code = compile_native(p.ir, p.module, &options, false);
    assert_non_null(code);
    return code;
}

static void runs(void **state) {
    (void)state;
    Ctx *ctx = ctx_create(NULL);
    Code *code = compile_text(ctx);
    float y[16] = {0};
    int64_t n = 16, one = 1;
    tg_slot slot = {.tensor = {y, &n, &one}};
    tg_failure failure;
    assert_false(code_place(ctx, code, "other"));
    if (!code_place(ctx, code, "fill")) skip(); // not an x86-64 machine
    tg_host *host = tg_host_create(1);
    assert_int_equal(tg_host_run(host, code->entry, &slot, NULL, NULL, &failure), TG_RUN_OK);
    for (int i = 0; i < 16; i++) assert_true(y[i] == 2.5F);
    tg_host_destroy(host);
    code_release(code);
    ctx_destroy(ctx);
}

/// Damages each byte, and truncates at each length. A refused object must hold no memory.
static void stands_damage(void **state) {
    (void)state;
    Ctx *ctx = ctx_create(NULL);
    Code *code = compile_text(ctx);
    uint8_t *bytes = code->object;
    size_t n = code->object_bytes;
    int placed = 0, refused = 0;
    for (size_t i = 0; i < n; i++) {
        bytes[i] ^= 0xff;
        if (code_place(ctx, code, "fill")) {
            placed++;
        } else {
            refused++;
            assert_null(code->memory);
            assert_null(code->entry);
        }
        code_unplace(code);
        bytes[i] ^= 0xff;
    }
    for (code->object_bytes = 0; code->object_bytes < n; code->object_bytes++) {
        code_place(ctx, code, "fill");
        code_unplace(code);
    }
    print_message("%zu bytes: %d changes refused, %d not seen\n", n, refused, placed);
    assert_true(refused > 0);
    code_release(code);
    ctx_destroy(ctx);
}

/// Renames a symbol that the relocations use, so that the object no longer defines it.
static void refers_to_others(void **state) {
    (void)state;
    Ctx *ctx = ctx_create(NULL);
    Code *code = compile_text(ctx);
    Elf64_Ehdr *head = code->object;
    Elf64_Shdr *sections = (void *)((char *)code->object + head->e_shoff);
    int changed = 0;
    if (!code_place(ctx, code, "fill")) skip();
    code_unplace(code);
    for (int i = 0; i < head->e_shnum; i++) {
        if (sections[i].sh_type != SHT_SYMTAB) continue;
        Elf64_Sym *symbols = (void *)((char *)code->object + sections[i].sh_offset);
        for (size_t k = 1; k < sections[i].sh_size / sizeof *symbols; k++) {
            bool entry = ELF64_ST_BIND(symbols[k].st_info) == STB_GLOBAL;
            if (entry || symbols[k].st_shndx == SHN_ABS) continue;
            symbols[k].st_shndx = SHN_UNDEF;
            changed++;
        }
    }
    assert_true(changed > 0);
    assert_false(code_place(ctx, code, "fill"));
    assert_null(code->memory);
    code_release(code);
    ctx_destroy(ctx);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(runs), cmocka_unit_test(stands_damage),
                                       cmocka_unit_test(refers_to_others)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
