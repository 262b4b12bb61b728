// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Writes static libraries with one member in the common ar format: an index of symbols, a table of
// long names, the object. Times, owners and folders are left out, so equal input gives equal bytes.
#include <string.h>

#include "driver/aot/aot.h"

static void add_member(Text *t, const char *name, size_t bytes) {
    text_add(t, "%-16s%-12d%-6d%-6d%-8o%-10zu`\n", name, 0, 0, 0, 0644u, bytes);
}

static void pad_to_even(Text *t) {
    if (t->n % 2) text_bytes(t, "\n", 1);
}

static void add_big_endian(Text *t, size_t n) {
    char bytes[4] = {(char)(n >> 24), (char)(n >> 16), (char)(n >> 8), (char)n};
    text_bytes(t, bytes, 4);
}

static size_t round_to_even(size_t n) {
    return n + n % 2;
}

void *aot_archive(Ctx *ctx, const char *member, const Code *code, int n_symbols,
                  const char *const *symbols, size_t *bytes) {
    Text t = {.ctx = ctx};
    size_t index = 4 + 4 * (size_t)n_symbols, names = strlen(member) + 2;
    for (int i = 0; i < n_symbols; i++) index += strlen(symbols[i]) + 1;
    size_t object_at = 8 + 60 + round_to_even(index) + 60 + round_to_even(names);
    text_bytes(&t, "!<arch>\n", 8);
    add_member(&t, "/", index);
    add_big_endian(&t, (size_t)n_symbols);
    for (int i = 0; i < n_symbols; i++) add_big_endian(&t, object_at);
    for (int i = 0; i < n_symbols; i++) text_bytes(&t, symbols[i], strlen(symbols[i]) + 1);
    pad_to_even(&t);
    add_member(&t, "//", names);
    text_bytes(&t, member, strlen(member));
    text_bytes(&t, "/\n", 2);
    pad_to_even(&t);
    add_member(&t, "/0", code->object_bytes);
    text_bytes(&t, code->object, code->object_bytes);
    pad_to_even(&t);
    *bytes = t.n;
    return t.data;
}
