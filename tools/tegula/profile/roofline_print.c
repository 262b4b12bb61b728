// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The roofline on the terminal and as SVG: FLOP a second over FLOP a byte, both logarithmic.
#include "tools/tegula/page.h"
#include "tools/tegula/profile/roofline.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- the chart's range --------------------------------------------------------------------- */

/// Logarithms to base 2 of the ends of both axes.
typedef struct Range {
    double left, right, bottom, top;
} Range;

static bool has_chart(const Profile *p, const Roofline *r) {
    return p->flops > 0 && p->bytes > 0 && r->bandwidth > 0 && r->peak > 0 && p->times.median > 0;
}

static Range chart_range(const Profile *p, const Roofline *r) {
    double at = log2(p->flops / p->bytes), ridge = log2(r->peak / r->bandwidth);
    Range x = {.left = floor(fmin(at, ridge) - 3), .right = ceil(fmax(at, ridge) + 3)};
    x.top = ceil(log2(r->peak) + 0.5);
    x.bottom = fmin(log2(p->flops / p->times.median) - 1, x.left + log2(r->bandwidth));
    x.bottom = floor(fmax(x.bottom, x.top - 24));
    return x;
}

/// The roof over an intensity.
static double roof_at(const Roofline *r, double intensity) {
    return fmin(r->peak, intensity * r->bandwidth);
}

/* ---- the terminal -------------------------------------------------------------------------- */

enum { COLUMNS = 56, ROWS = 12 };

static int row_of(Range x, double flops) {
    return (int)floor((x.top - log2(flops)) / (x.top - x.bottom) * (ROWS - 1) + 0.5);
}

static void print_chart(const Profile *p, const Roofline *r) {
    char cells[ROWS][COLUMNS + 1];
    Range x = chart_range(p, r);
    memset(cells, ' ', sizeof cells);
    for (int c = 0; c < COLUMNS; c++) {
        double i = exp2(x.left + (x.right - x.left) * c / (COLUMNS - 1));
        int row = row_of(x, roof_at(r, i));
        if (row >= 0 && row < ROWS) cells[row][c] = i * r->bandwidth < r->peak ? '/' : '-';
    }
    double at = (log2(p->flops / p->bytes) - x.left) / (x.right - x.left) * (COLUMNS - 1);
    int row = row_of(x, p->flops / p->times.median), column = (int)floor(at + 0.5);
    if (row >= 0 && row < ROWS && column >= 0 && column < COLUMNS) cells[row][column] = '*';
    for (int i = 0; i < ROWS; i++) {
        double y = exp2(x.top - (x.top - x.bottom) * i / (ROWS - 1));
        if (i % 4 == 0 || i == ROWS - 1)
            printf("  %9.3g |%.*s\n", y * 1e-9, COLUMNS, cells[i]);
        else
            printf("            |%.*s\n", COLUMNS, cells[i]);
    }
    printf("   GFLOP/s  +%.*s\n", COLUMNS,
           "--------------------------------------------------------------------------------");
    printf("             %-*.3g%*.3g FLOP/byte; *: the kernel\n", COLUMNS / 2, exp2(x.left),
           COLUMNS - COLUMNS / 2, exp2(x.right));
}

static void print_roofs(const Profile *p, const Roofline *r) {
    Ctx *ctx = p->job->ctx;
    if (r->bandwidth > 0)
        printf("  memory:     %9s at the %.3g GB/s of a copy\n", time_text(ctx, r->memory_seconds),
               r->bandwidth * 1e-9);
    if (r->peak > 0)
        printf("  arithmetic: %9s at %.4g GFLOP/s of %s\n", time_text(ctx, r->compute_seconds),
               r->peak * 1e-9, r->peak_name);
    printf("  measured:   %9s\n", time_text(ctx, p->times.median));
}

void roofline_print(const Profile *p, const Roofline *r) {
    printf("roofline: least times of a launch\n");
    if (has_chart(p, r)) print_chart(p, r);
    print_roofs(p, r);
    if (r->verdict) printf("  %s\n", r->verdict);
    for (int i = 0; i < r->n_losses; i++)
        printf("  %5.1f %% of the threads' time: %s\n", 100 * r->losses[i].share,
               r->losses[i].text);
    for (int i = 0; i < r->n_advice; i++)
        printf("  try %s: %s\n", r->advice[i].setting, r->advice[i].why);
}

/* ---- SVG ----------------------------------------------------------------------------------- */

enum { WIDTH = 660, HEIGHT = 360, LEFT = 70, RIGHT = 620, TOP = 20, BOTTOM = 310 };

static double to_x(Range x, double intensity) {
    return LEFT + (RIGHT - LEFT) * (log2(intensity) - x.left) / (x.right - x.left);
}

static double to_y(Range x, double flops) {
    return TOP + (BOTTOM - TOP) * (x.top - log2(flops)) / (x.top - x.bottom);
}

static void add_axes(Text *t, Range x) {
    for (double i = x.left; i <= x.right; i += 2) {
        double at = to_x(x, exp2(i));
        text_add(t, "<line x1=\"%.1f\" x2=\"%.1f\" y1=\"%d\" y2=\"%d\" stroke=\"#8884\"/>", at, at,
                 TOP, BOTTOM);
        text_add(t, "<text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">%.4g</text>\n", at,
                 BOTTOM + 16, exp2(i));
    }
    for (double i = x.top; i >= x.bottom; i -= 2) {
        double at = to_y(x, exp2(i));
        text_add(t, "<line x1=\"%d\" x2=\"%d\" y1=\"%.1f\" y2=\"%.1f\" stroke=\"#8884\"/>", LEFT,
                 RIGHT, at, at);
        text_add(t, "<text x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%.3g</text>\n", LEFT - 6, at + 4,
                 exp2(i) * 1e-9);
    }
    text_add(t, "<text x=\"%d\" y=\"%d\" text-anchor=\"middle\">FLOP / byte</text>\n",
             (LEFT + RIGHT) / 2, BOTTOM + 34);
    text_add(t, "<text x=\"4\" y=\"%d\">GFLOP/s</text>\n", TOP - 6);
}

static void begin_svg(Text *t, const Profile *p, int height) {
    text_add(
        t,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" font-size=\"12\" "
        "font-family=\"system-ui,sans-serif\" fill=\"#888\" role=\"img\">\n<title>Roofline of ",
        WIDTH, height);
    page_escape(t, p->title);
    text_add(t, "</title>\n");
}

static void add_time_bar(Text *t, int row, double seconds, double longest, const char *name) {
    enum { STEP = 44, BAR = 18 };
    text_add(t, "<text x=\"10\" y=\"%d\">%s: %s</text>\n", row * STEP + 18, name,
             time_text(t->ctx, seconds));
    text_add(t, "<rect x=\"10\" y=\"%d\" width=\"%.1f\" height=\"%d\" fill=\"%s\"/>\n",
             row * STEP + 24, (WIDTH - 20) * seconds / longest, BAR, row ? "#8a2be2" : "#0b7ad1");
}

/// The measured time beside the least one of memory, for kernels without a rate of arithmetic.
static const char *memory_svg(const Profile *p, const Roofline *r) {
    Text t = {.ctx = p->job->ctx};
    double longest = fmax(p->times.median, r->memory_seconds);
    begin_svg(&t, p, 100);
    add_time_bar(&t, 0, p->times.median, longest, "a launch");
    if (r->memory_seconds > 0)
        add_time_bar(&t, 1, r->memory_seconds, longest,
                     ctx_format(t.ctx, "least time of memory, at the %.3g GB/s of a copy",
                                r->bandwidth * 1e-9));
    text_add(&t, "</svg>\n");
    return t.data;
}

const char *roofline_svg(const Profile *p, const Roofline *r) {
    if (!has_chart(p, r)) return memory_svg(p, r);
    Ctx *ctx = p->job->ctx;
    Text t = {.ctx = ctx};
    Range x = chart_range(p, r);
    double ridge = r->peak / r->bandwidth, i = p->flops / p->bytes, y = p->flops / p->times.median;
    double low = fmax(exp2(x.left), exp2(x.bottom) / r->bandwidth);
    begin_svg(&t, p, HEIGHT);
    add_axes(&t, x);
    text_add(&t,
             "<polyline fill=\"none\" stroke=\"#8a2be2\" stroke-width=\"2\" points=\"%.1f,%.1f "
             "%.1f,%.1f %d,%.1f\"/>\n",
             to_x(x, low), to_y(x, low * r->bandwidth), to_x(x, ridge), to_y(x, r->peak), RIGHT,
             to_y(x, r->peak));
    text_add(&t,
             "<line x1=\"%.1f\" x2=\"%.1f\" y1=\"%.1f\" y2=\"%.1f\" stroke=\"#0b7ad1\" "
             "stroke-dasharray=\"3 3\"/>\n",
             to_x(x, i), to_x(x, i), to_y(x, roof_at(r, i)), to_y(x, y));
    text_add(&t, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"6\" fill=\"#0b7ad1\"/>\n", to_x(x, i),
             to_y(x, y));
    text_add(&t,
             "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\">%.4g GFLOP/s, %.0f %% of the "
             "roof</text>\n",
             fmin(to_x(x, i), RIGHT - 100), to_y(x, y) + 22, y * 1e-9, 100 * y / roof_at(r, i));
    text_add(&t, "<text x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%.4g GFLOP/s of ", RIGHT,
             to_y(x, r->peak) - 6, r->peak * 1e-9);
    page_escape(&t, r->peak_name);
    text_add(&t, "; %.3g GB/s of a copy</text>\n</svg>\n", r->bandwidth * 1e-9);
    return t.data;
}
