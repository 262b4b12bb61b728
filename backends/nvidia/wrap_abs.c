// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Replaces `abs` of integers in PTX by `max` of the number and its negation.
//
// abs of the least integer is that integer: it wraps. ptxas (13.0) assumes that no result of `abs`
// is negative. It folds `abs x < 0` to false, and extends a 16-bit result by zeros, which changes
// sorts and sums of wider type. LLVM makes `abs` of selects, too, so the text is changed and not
// the module. ptxas assumes nothing of `max`.
#include "backends/nvidia/nvidia.h"

#include <string.h>

static const char ABS[] = "abs.s";

/// Returns the start of the line that holds `at`, without its indentation.
static const char *start_of_line(const char *text, const char *at) {
    while (at > text && at[-1] != '\n') at--;
    return at + strspn(at, " \t");
}

const char *nv_wrap_abs(Ctx *ctx, const char *ptx) {
    Text out = {.ctx = ctx};
    const char *rest = ptx;
    for (const char *at = ptx; (at = strstr(at, ABS)); at++) {
        const char *line = start_of_line(ptx, at), *bits = at + strlen(ABS);
        const char *to = bits + strcspn(bits, " \t"), *from = strchr(to, ',');
        const char *end = from ? strchr(from, ';') : NULL;
        if (!end || (line != at && *line != '@')) continue; // part of another name
        to += strspn(to, " \t");
        from += 1 + strspn(from + 1, " \t");
        int width = (int)strcspn(bits, " \t"), source = (int)(end - from);
        text_add(&out, "%.*s{ .reg .b%.*s t; neg.s%.*s t, %.*s; ", (int)(line - rest), rest, width,
                 bits, width, bits, source, from);
        text_add(&out, "%.*smax.s%.*s %.*s, %.*s, t; }", (int)(at - line), line, width, bits,
                 (int)strcspn(to, ","), to, source, from);
        rest = end + 1;
    }
    if (rest == ptx) return ptx;
    text_add(&out, "%s", rest);
    return out.data;
}
