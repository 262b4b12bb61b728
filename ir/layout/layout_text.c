// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Prints and parses the text form of layouts in types.
#include "ir/layout/layout.h"

#include <stdlib.h>
#include <string.h>

static const char *const level_names[N_LEVELS] = {"reg", "lane", "warp", "cta"};

/* ---- print ----------------------------------------------------------------------------------- */

/// Prints `3` for one dimension, else `(1,3)`.
static void print_tuple(Text *out, int rank, const int64_t *x) {
    if (rank != 1) text_add(out, "(");
    for (int d = 0; d < rank; d++) text_add(out, "%s%lld", d ? "," : "", (long long)x[d]);
    if (rank != 1) text_add(out, ")");
}

static void print_image(Text *out, const Layout *l, Bits image) {
    int64_t x[MAX_RANK] = {0};
    for (int d = l->rank - 1; d >= 0; image >>= l->log2[d--])
        x[d] = (int64_t)(image & low_bits(l->log2[d]));
    print_tuple(out, l->rank, x);
}

void layout_print(Text *out, const Layout *l) {
    text_add(out, "[");
    for (int d = 0; d < l->rank; d++)
        text_add(out, "%s%lld", d ? "x" : "", (long long)l->extents[d]);
    for (int level = 0, j = 0; level < N_LEVELS; level++) {
        if (l->bits[level]) text_add(out, "; %s", level_names[level]);
        for (int i = 0; i < l->bits[level]; i++, j++) {
            text_add(out, " ");
            if (l->col[j])
                print_image(out, l, l->col[j]);
            else
                text_add(out, "-");
        }
    }
    if (layout_repeats(l) > 1) {
        int64_t odd[MAX_RANK];
        for (int d = 0; d < l->rank; d++) odd[d] = l->odd[d];
        text_add(out, "; repeat ");
        print_tuple(out, l->rank, odd);
    }
    text_add(out, "]");
}

/* ---- parse ----------------------------------------------------------------------------------- */

typedef struct LayoutReader {
    const char *at, *error;
    Layout l;
    int64_t image[LAYOUT_MAX_BITS][MAX_RANK];
    int n; // images
} LayoutReader;

static bool fail_layout_text(LayoutReader *r, const char *error) {
    if (!r->error) r->error = error;
    return false;
}

static void skip_space(LayoutReader *r) {
    while (*r->at == ' ' || *r->at == '\n') r->at++;
}

static bool accept_layout_char(LayoutReader *r, char c) {
    skip_space(r);
    if (*r->at != c) return false;
    r->at++;
    return true;
}

static bool accept_layout_word(LayoutReader *r, const char *word) {
    skip_space(r);
    size_t n = strlen(word);
    if (strncmp(r->at, word, n) != 0) return false;
    r->at += n;
    return true;
}

static bool read_layout_number(LayoutReader *r, int64_t *x) {
    skip_space(r);
    if (*r->at < '0' || *r->at > '9') return fail_layout_text(r, "a number is missing");
    *x = 0;
    for (; *r->at >= '0' && *r->at <= '9'; r->at++) {
        *x = *x * 10 + (*r->at - '0');
        if (*x > INT32_MAX) return fail_layout_text(r, "a number is too large");
    }
    return true;
}

static bool read_tuple(LayoutReader *r, int64_t *x) {
    int rank = r->l.rank;
    if (rank == 1 && !accept_layout_char(r, '(')) return read_layout_number(r, x);
    if (rank != 1 && !accept_layout_char(r, '(')) return fail_layout_text(r, "'(' is missing");
    for (int d = 0; d < rank; d++)
        if ((d && !accept_layout_char(r, ',')) || !read_layout_number(r, &x[d]))
            return fail_layout_text(r, "a coordinate is missing");
    return accept_layout_char(r, ')') || fail_layout_text(r, "')' is missing");
}

static bool read_extents(LayoutReader *r) {
    skip_space(r);
    if (*r->at == ';' || *r->at == ']') return true; // rank 0
    do {
        if (r->l.rank == MAX_RANK) return fail_layout_text(r, "too many dimensions");
        if (!read_layout_number(r, &r->l.extents[r->l.rank])) return false;
        r->l.odd[r->l.rank++] = 1;
    } while (accept_layout_char(r, 'x'));
    return true;
}

/// Reads the images of one level, or the repeats. Levels come in order.
static bool read_section(LayoutReader *r, int *level) {
    if (accept_layout_word(r, "repeat")) {
        int64_t odd[MAX_RANK] = {0};
        if (!read_tuple(r, odd)) return false;
        for (int d = 0; d < r->l.rank; d++) r->l.odd[d] = (int32_t)odd[d];
        return true;
    }
    while (*level < N_LEVELS && !accept_layout_word(r, level_names[*level])) ++*level;
    if (*level == N_LEVELS)
        return fail_layout_text(r, "reg, lane, warp, cta (in this order) or repeat");
    for (skip_space(r); *r->at != ';' && *r->at != ']'; skip_space(r)) {
        if (r->n == LAYOUT_MAX_BITS) return fail_layout_text(r, "too many bits");
        if (!accept_layout_char(r, '-') && !read_tuple(r, r->image[r->n])) return false;
        r->l.bits[*level]++;
        r->n++;
    }
    ++*level;
    return true;
}

/// Sets v of each dimension to the number of bits in its images, so that every element has a place.
static void pack_images(LayoutReader *r) {
    for (int d = 0; d < r->l.rank; d++) {
        int64_t all = 0;
        for (int j = 0; j < r->n; j++) all |= r->image[j][d];
        r->l.log2[d] = all ? (uint8_t)(top_bit((Bits)all) + 1) : 0;
    }
    if (layout_rows(&r->l) > LAYOUT_MAX_BITS) {
        fail_layout_text(r, "too many elements");
        return;
    }
    for (int j = 0; j < r->n; j++)
        for (int d = 0; d < r->l.rank; d++)
            r->l.col[j] = r->l.col[j] << r->l.log2[d] | (Bits)r->image[j][d];
}

const Layout *layout_parse(Ctx *ctx, const char **text, const char **error) {
    LayoutReader *r = ctx_new(ctx, LayoutReader);
    r->at = *text;
    int level = 0;
    bool ok =
        (accept_layout_char(r, '[') || fail_layout_text(r, "'[' is missing")) && read_extents(r);
    while (ok && accept_layout_char(r, ';')) ok = read_section(r, &level);
    ok = ok && (accept_layout_char(r, ']') || fail_layout_text(r, "']' is missing"));
    if (ok) pack_images(r);
    if (!r->error) r->error = layout_error(&r->l);
    *error = r->error;
    *text = r->at;
    return r->error ? NULL : layout_unique(ctx, &r->l);
}
