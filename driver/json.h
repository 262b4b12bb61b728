// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// JSON (RFC 8259): a reader for Tegula's own files, which people may edit, and helpers for writers.
#ifndef DRIVER_JSON_H
#define DRIVER_JSON_H

#include "lang/context.h"

typedef struct Json Json;
struct Json {
    enum JsonKind { JSON_NULL, JSON_BOOL, JSON_NUMBER, JSON_TEXT, JSON_LIST, JSON_OBJECT } kind;
    int line;
    const char *name;         // of a member
    const char *text;         // UTF-8; a \u0000 ends it
    double number;            // of a bool: 0 or 1
    const Json *first, *next; // items or members, in order
};

/// Parses into the arena. NULL: malformed; *error is then "line 3: expected ':'".
const Json *json_read(Ctx *ctx, const char *text, size_t n, const char **error);
/// Returns the member of that name. NULL: no such member, or `j` is not an object.
const Json *json_member(const Json *j, const char *name);
/// Adds a string with its quotes.
void json_quote(Text *t, const char *text);
/// Adds a number that reads back the same; `null` if it is not finite.
void json_number(Text *t, double number);

#endif
