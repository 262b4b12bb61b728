// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Messages of compiled code: see tg_site.
#include "runtime/host.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

typedef struct Out {
    char *data;
    size_t size, n;
} Out;

static void add_formatted(Out *o, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void add_formatted(Out *o, const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(o->data + o->n, o->size - o->n, fmt, ap);
    va_end(ap);
    if (n > 0) o->n += (size_t)n < o->size - o->n ? (size_t)n : o->size - o->n - 1;
}

/// The letters are those of tg_site. Floats get enough digits to distinguish any two values of
/// their type.
static void add_typed_value(Out *o, char type, uint64_t bits) {
    double f;
    memcpy(&f, &bits, sizeof f);
    switch (type) {
    case 'b': add_formatted(o, "%s", bits ? "true" : "false"); break;
    case 'd': add_formatted(o, "%" PRId64, (int64_t)bits); break;
    case 'u': add_formatted(o, "%" PRIu64, bits); break;
    default:
        if (isnan(f))
            add_formatted(o, "nan"); // of either sign
        else
            add_formatted(o, "%.*g", type == 'g' ? 17 : 9, f);
    }
}

/// Adds a scalar, or a block in brackets, and advances *types and *values.
static void add_item(Out *o, const char **types, const uint64_t **values) {
    const char *t = *types, *comma = "";
    if (*t != '[') {
        if (*t) add_typed_value(o, *t++, *(*values)++);
        *types = t;
        return;
    }
    add_formatted(o, "[");
    for (t++; *t && *t != ']'; t++, comma = ", ") {
        add_formatted(o, "%s", comma);
        if (*t == '+')
            add_formatted(o, "...");
        else
            add_typed_value(o, *t, *(*values)++);
    }
    add_formatted(o, "]");
    *types = t + (*t == ']');
}

/// Names the failing lane of an assertion over a block.
static void add_indices(Out *o, const tg_site *site, const char *types, const uint64_t *values) {
    for (int i = 0; i < site->n_indices; i++) {
        add_formatted(o, i ? ", " : " at [");
        add_item(o, &types, &values);
    }
    if (site->n_indices) add_formatted(o, "]");
}

/// A {} without a value stays as it is, since the text is the user's. A wait may lack the number of
/// its peer.
void tg_site_text(char *out, size_t size, const tg_site *site, const uint64_t *values) {
    Out o = {out, size, 0};
    out[0] = 0;
    const char *types = site->types ? site->types : "";
    const char *indices = types + strlen(types) - site->n_indices; // these have no {}
    bool nobody = site->kind == TG_SITE_WAIT && *types && (int64_t)values[0] < 0;
    if (site->kind == TG_SITE_ASSERT) add_formatted(&o, "assertion failed: ");
    for (const char *s = site->text ? site->text : ""; *s; s++) {
        if (s[0] == '{' && s[1] == '}' && types < indices) {
            if (nobody)
                add_formatted(&o, "?"), types++, values++;
            else
                add_item(&o, &types, &values);
            nobody = false;
            s++;
        } else {
            add_formatted(&o, "%c", *s);
        }
    }
    add_indices(&o, site, types, values);
}
