// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// URIs of files (RFC 8089) and their paths.
#include "tools/tegula/lsp/lsp.h"

#include <ctype.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

static int hex_digit(char c) {
    return c >= '0' && c <= '9' ? c - '0' : isxdigit((unsigned char)c) ? (c | 32) - 'a' + 10 : -1;
}

/// Removes `.`, `..` and empty parts of an absolute path.
static char *normalized(Ctx *ctx, const char *path) {
    size_t n = strlen(path), m = 0;
    char *out = ctx_alloc(ctx, n + 2);
    for (size_t i = 0; i < n;) {
        size_t part = strcspn(path + i, "/");
        bool up = part == 2 && path[i] == '.' && path[i + 1] == '.';
        bool here = part == 0 || (part == 1 && path[i] == '.');
        while (up && m && out[--m] != '/') continue;
        if (!up && !here) {
            out[m++] = '/';
            memcpy(out + m, path + i, part);
            m += part;
        }
        i += part + (i + part < n);
    }
    if (!m) out[m++] = '/';
    out[m] = 0;
    return out;
}

char *uri_path(Ctx *ctx, const char *uri) {
    static const char scheme[] = "file://";
    size_t n = strlen(uri), m = 0;
    if (strncmp(uri, scheme, sizeof scheme - 1) != 0) return ctx_copy(ctx, uri, n + 1);
    const char *path = strchr(uri + sizeof scheme - 1, '/');
    if (!path) return ctx_copy(ctx, uri, n + 1);
    char *out = ctx_alloc(ctx, n + 1);
    for (const char *s = path; *s; s++) {
        int high = *s == '%' ? hex_digit(s[1]) : -1, low = high >= 0 ? hex_digit(s[2]) : -1;
        bool escape = low >= 0 && (high || low); // %00 would end the path
        out[m++] = escape ? (char)(high << 4 | low) : *s;
        if (escape) s += 2;
    }
    return normalized(ctx, out);
}

char *path_uri(Ctx *ctx, const char *path) {
    Text t = {.ctx = ctx};
    if (path[0] != '/') return ctx_copy(ctx, path, strlen(path) + 1);
    text_add(&t, "file://");
    for (const char *s = path; *s; s++) {
        bool plain = isalnum((unsigned char)*s) || strchr("/-._~!$&'()*+,;=@", *s);
        text_add(&t, plain ? "%c" : "%%%02X", (unsigned char)*s);
    }
    return t.data;
}

char *path_beside(Ctx *ctx, const char *file, const char *path) {
    const char *slash = strrchr(file, '/');
    int folder = slash && path[0] != '/' ? (int)(slash - file) + 1 : 0;
    char *joined = ctx_format(ctx, "%.*s%s", folder, file, path);
    if (joined[0] != '/') return joined;
    char *plain = normalized(ctx, joined);
    if (!strstr(joined, "..")) return plain;
    char *real = canonical_path(ctx, joined);
    return strcmp(real, canonical_path(ctx, plain)) == 0 ? plain : real;
}

char *canonical_path(Ctx *ctx, const char *path) {
    char real[PATH_MAX];
    if (path[0] != '/') return ctx_format(ctx, "%s", realpath(path, real) ? real : path);
    for (size_t n = strlen(path); n; n--) {
        if (path[n] && path[n] != '/') continue;
        const char *part = ctx_format(ctx, "%.*s", (int)n, path);
        if (realpath(part, real)) return normalized(ctx, ctx_format(ctx, "%s%s", real, path + n));
    }
    return normalized(ctx, path);
}

bool is_below(const char *path, const char *folder) {
    size_t n = strlen(folder);
    while (n && folder[n - 1] == '/') n--;
    return strncmp(path, folder, n) == 0 && path[n] == '/';
}
