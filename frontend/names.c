// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The table of names that editors ask for.
#include "frontend/names.h"

/// A key for the name at a place. It is odd, and the address of an expression is even.
static const void *place_key(Loc loc) {
    uint64_t at = (uint64_t)loc.file << 48 | (uint64_t)(loc.line & 0x7fffffff) << 17 | loc.col;
    return (const void *)(uintptr_t)(at << 1 | 1);
}

int names_define(Ctx *ctx, NameTable *names, Definition d) {
    vec_push(ctx, &names->definitions, d);
    const void *key = place_key(d.name.loc);
    if (!map_get(&names->defined_at, key))
        map_set(ctx, &names->defined_at, key, (void *)(intptr_t)names->definitions.n);
    return names->definitions.n - 1;
}

void names_define_item(Ctx *ctx, NameTable *names, const Item *item) {
    Definition d = {.item = item, .kind = NAME_CONSTANT};
    if (item->kind == IT_FN) {
        d.kind = item->fn->is_kernel ? NAME_KERNEL : NAME_FN;
        d.name = item->fn->name;
    } else {
        d.name = item->constant.name;
    }
    names_define(ctx, names, d);
}

void names_use(Ctx *ctx, NameTable *names, NameUse use) {
    if (names_definition_at(names, use.name.loc) >= 0)
        return; // the dim in `..N` where it is defined
    vec_push(ctx, &names->uses, use);
}

void names_link(NameTable *names) {
    for (int i = 0; i < names->uses.n; i++) {
        NameUse *use = &names->uses.data[i];
        if (use->target.line) use->to = names_definition_at(names, use->target);
    }
}

void names_type(Ctx *ctx, NameTable *names, TypeNote note) {
    const void *key = note.expr ? (const void *)note.expr : place_key(note.loc);
    intptr_t at = (intptr_t)map_get(&names->type_at, key);
    if (at) {
        names->types.data[at - 1] = note;
        return;
    }
    vec_push(ctx, &names->types, note);
    map_set(ctx, &names->type_at, key, (void *)(intptr_t)names->types.n);
}

int names_definition_at(const NameTable *names, Loc loc) {
    return (int)(intptr_t)map_get(&names->defined_at, place_key(loc)) - 1;
}

const TypeNote *names_type_of(const NameTable *names, Loc name) {
    intptr_t at = (intptr_t)map_get(&names->type_at, place_key(name));
    return at ? &names->types.data[at - 1] : NULL;
}
