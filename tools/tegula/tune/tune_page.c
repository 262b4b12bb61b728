// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The page of a tuning. Each search has a chart that compares measurements with the model's
// expectations, and a table of all candidates with the same content.
#include <math.h>
#include <string.h>

#include "tools/tegula/measure.h"
#include "tools/tegula/page.h"
#include "tools/tegula/tune/tune.h"

// The chart, in units of its view box. Times are on a logarithmic scale: equal distances are equal
// ratios.
enum {
    LEFT = 400,  // left end of the scale; labels are before it
    RIGHT = 880, // right end of the scale; times are after it
    WIDTH = 980,
    TOP = 34, // top of the first row; the scale's numbers are above
    ROW = 20,
    MOST_ROWS = 40,
    LABEL = 56, // letters in a label
    TICK = 56,  // least distance between the scale's numbers
};

typedef struct Scale {
    double least, most; // range in seconds
} Scale;

/* ---- the chart ----------------------------------------------------------------------------- */

static void widen_scale(Scale *s, double seconds) {
    if (!(seconds > 0)) return;
    if (!(s->least > 0) || seconds < s->least) s->least = seconds;
    if (seconds > s->most) s->most = seconds;
}

/// Extends from a little below the least time to a little above the greatest.
static Scale time_scale(const TuneResult *r, const TuneTrial *const *trials, int n) {
    Scale s = {0, 0};
    widen_scale(&s, r->roof);
    for (int i = 0; i < n; i++) {
        widen_scale(&s, trials[i]->seconds);
        widen_scale(&s, trials[i]->low);
        widen_scale(&s, trials[i]->high);
        widen_scale(&s, trials[i]->predicted);
    }
    return (Scale){s.least * 0.95, s.most * 1.05};
}

static double time_to_x(Scale s, double seconds) {
    return LEFT + (RIGHT - LEFT) * log(seconds / s.least) / log(s.most / s.least);
}

/// Adds lines at 1, 2 and 5 times powers of ten, or at every one-digit multiple if those are few.
static void add_grid(Text *t, Scale s, double bottom) {
    bool narrow = s.most / s.least < 8;
    double last = 0;
    for (double ten = pow(10, floor(log10(s.least))); ten <= s.most; ten *= 10)
        for (int i = 1; i < 10; i++) {
            bool major = i == 1 || i == 2 || i == 5;
            if (ten * i < s.least || ten * i > s.most || (!major && !narrow)) continue;
            double x = time_to_x(s, ten * i);
            if (x < last + TICK) continue; // its number would overlap the previous one
            last = x;
            text_add(t, "<line class=\"grid\" x1=\"%.1f\" x2=\"%.1f\" y1=\"%d\" y2=\"%.0f\"/>", x,
                     x, TOP - 8, bottom);
            text_add(t, "<text class=\"tick\" x=\"%.1f\" y=\"%d\">%s</text>\n", x, TOP - 14,
                     time_text(t->ctx, ten * i));
        }
}

/// Adds a line over all rows, with its name below them.
static void add_mark(Text *t, Scale s, double seconds, const char *class, const char *name,
                     double bottom) {
    if (!(seconds > 0)) return;
    double x = time_to_x(s, seconds);
    text_add(t, "<line class=\"%s\" x1=\"%.1f\" x2=\"%.1f\" y1=\"%d\" y2=\"%.0f\"/>", class, x, x,
             TOP - 8, bottom);
    text_add(t, "<text class=\"tick\" x=\"%.1f\" y=\"%.0f\">%s %s</text>\n", x, bottom + 14, name,
             time_text(t->ctx, seconds));
}

/// Adds the name, the expected time as a diamond, and the measured one as a dot on its interval.
static void add_chart_row(Text *t, Scale s, const TuneTrial *x, int row) {
    double y = TOP + ROW * (row + 0.5);
    const char *class = x->verdict == TUNE_WON ? "won" : x->verdict == TUNE_TIE ? "tie" : "slower";
    int n = (int)strlen(x->config);
    text_add(t, "<g class=\"%s\"><title>", class);
    page_escape(t, x->config);
    text_add(t, ": %s measured", time_text(t->ctx, x->seconds));
    if (x->predicted > 0) text_add(t, ", %s expected", time_text(t->ctx, x->predicted));
    text_add(t, "</title><text class=\"label\" x=\"%d\" y=\"%.0f\">", LEFT - 12, y + 4);
    page_escape(t, ctx_format(t->ctx, "%s%.*s%s", x->standard ? "default: " : "", LABEL, x->config,
                              n > LABEL ? "..." : ""));
    text_add(t, "</text>");
    if (x->predicted > 0) {
        double p = time_to_x(s, x->predicted);
        text_add(t, "<path class=\"model\" d=\"M%.1f %.1fl5 5l-5 5l-5 -5z\"/>", p, y - 5);
    }
    if (x->low > 0 && x->high > x->low)
        text_add(t, "<line class=\"interval\" x1=\"%.1f\" x2=\"%.1f\" y1=\"%.1f\" y2=\"%.1f\"/>",
                 time_to_x(s, x->low), time_to_x(s, x->high), y, y);
    text_add(t, "<circle class=\"time\" cx=\"%.1f\" cy=\"%.1f\" r=\"4\"/>",
             time_to_x(s, x->seconds), y);
    text_add(t, "<text class=\"value\" x=\"%d\" y=\"%.0f\">%s</text></g>\n", RIGHT + 12, y + 4,
             time_text(t->ctx, x->seconds));
}

/// Chooses the fastest trials, and the default in any case.
static int choose_chart_rows(const TuneTrial *const *trials, int n, const TuneTrial **out) {
    int rows = 0;
    for (int i = 0; i < n; i++)
        if (trials[i]->seconds > 0 && (rows < MOST_ROWS - 1 || trials[i]->standard))
            out[rows++] = trials[i];
    return rows;
}

static void add_chart(Text *t, const Tuning *tuning, const TuneTrial *const *trials, int n,
                      int number) {
    const TuneResult *r = &tuning->result;
    const TuneTrial **rows = ctx_array(t->ctx, const TuneTrial *, n + 1);
    int n_rows = choose_chart_rows(trials, n, rows);
    if (!n_rows) return;
    Scale s = time_scale(r, rows, n_rows);
    double bottom = TOP + ROW * n_rows + 4;
    text_add(t,
             "<figure><svg viewBox=\"0 0 %d %.0f\" role=\"img\" aria-labelledby=\"t%d d%d\">\n"
             "<title id=\"t%d\">Times of the candidates of ",
             WIDTH, bottom + 22, number, number, number);
    page_escape(t, tuning->title);
    text_add(t,
             "</title>\n<desc id=\"d%d\">One row a candidate, the fastest first: its median time "
             "as a dot, the interval of 95 percent as a line, the time that the cost model "
             "expected as a diamond. The table below has the numbers.</desc>\n",
             number);
    add_grid(t, s, bottom);
    add_mark(t, s, r->roof, "roof", "roof", bottom);
    for (int i = 0; i < n_rows; i++) add_chart_row(t, s, rows[i], i);
    text_add(t,
             "</svg><figcaption>&#9679; measured, with its interval of 95 %%; &#9671; expected by "
             "the cost model%s. Logarithmic scale.",
             r->roof > 0 ? "; dashed: the roof, which no launch can beat" : "");
    if (n_rows < n) text_add(t, " The %d fastest of %d, and the default.", MOST_ROWS - 1, n);
    text_add(t, "</figcaption></figure>\n");
}

/* ---- the table ----------------------------------------------------------------------------- */

static void add_time(Text *t, double seconds) {
    if (seconds > 0)
        text_add(t, "<td class=\"n\">%s</td>", time_text(t->ctx, seconds));
    else
        text_add(t, "<td class=\"n\"></td>");
}

static void add_count(Text *t, int n) {
    if (n < 0)
        text_add(t, "<td class=\"n\"></td>");
    else
        text_add(t, "<td class=\"n\">%d</td>", n);
}

static void add_interval(Text *t, const TuneTrial *x) {
    text_add(t, "<td class=\"n\">");
    if (x->seconds > 0 && x->high > x->low)
        text_add(t, "%+.2g %%, %+.2g %%", (x->low / x->seconds - 1) * 100,
                 (x->high / x->seconds - 1) * 100);
    text_add(t, "</td>");
}

static void add_table_row(Text *t, const TuneTrial *x) {
    text_add(t, "<tr><th scope=\"row\">");
    page_escape(t, x->config);
    text_add(t, "%s", x->standard ? " (default)" : "");
    page_escape(t, tune_origin(t->ctx, x));
    text_add(t, "</th><td>%s</td>", tune_verdict_name(x->verdict));
    add_time(t, x->seconds);
    add_interval(t, x);
    add_time(t, x->predicted);
    add_time(t, x->compiled);
    add_count(t, x->launches);
    add_count(t, x->registers);
    add_count(t, x->spills);
    add_count(t, x->shared_bytes);
    text_add(t, "<td>");
    page_escape(t, x->why);
    text_add(t, "</td></tr>\n");
}

static void add_table(Text *t, const char *caption, const TuneTrial *const *trials, int n) {
    text_add(t, "<div class=\"wide\"><table><caption>%s</caption><thead><tr>", caption);
    static const char *const names[] = {"setting", "result",       "measured", "95 % interval",
                                        "model",   "compiled in",  "launches", "registers",
                                        "spills",  "shared bytes", "why"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        text_add(t, "<th scope=\"col\">%s</th>", names[i]);
    text_add(t, "</tr></thead><tbody>\n");
    for (int i = 0; i < n; i++) add_table_row(t, trials[i]);
    text_add(t, "</tbody></table></div>\n");
}

/* ---- the page ------------------------------------------------------------------------------ */

/// ", 1.37 PFLOP/s"
static void add_rate(Text *t, double rate, const char *unit) {
    static const char *const sizes[] = {"", "k", "M", "G", "T", "P"};
    int i = 0;
    if (!(rate > 0)) return;
    for (; rate >= 1000 && i < 5; i++) rate /= 1000;
    text_add(t, ", %.3g %s%s", rate, sizes[i], unit);
}

static void add_summary(Text *t, const TuneResult *r) {
    text_add(t, "<p><strong><code>");
    page_escape(t, *r->config ? r->config : "no setting");
    text_add(t, "</code>: %s</strong>, %s", time_text(t->ctx, r->seconds), tune_gain(t->ctx, r));
    if (r->standard > 0) text_add(t, " (%s)", time_text(t->ctx, r->standard));
    if (r->roof > 0 && r->seconds > 0)
        text_add(t, ", %.0f %% of the roof", r->roof / r->seconds * 100);
    if (r->seconds > 0) add_rate(t, r->flops / r->seconds, "FLOP/s");
    if (r->seconds > 0) add_rate(t, r->bytes / r->seconds, "B/s");
    text_add(t, ".</p>\n<p class=\"soft\">On ");
    page_escape(t, r->device);
    text_add(t, " (");
    page_escape(t, r->target);
    text_add(t, "), in %s of %s. Of %d settings: %s.</p>\n", time_text(t->ctx, r->spent),
             time_text(t->ctx, r->budget), r->n_space, tune_counts(t->ctx, r));
    if (r->judged) {
        text_add(t, "<p class=\"soft\">Results compared ");
        page_escape(t, r->judged);
        text_add(t, ".</p>\n");
    }
    if (tune_wrong_default(r)) {
        text_add(t, "<p><strong>The default is wrong:</strong> ");
        page_escape(t, tune_wrong_default(r));
        text_add(t, ".</p>\n");
    }
    if (r->interrupted)
        text_add(t, "<p>Interrupted: the best candidate that was measured until then.</p>\n");
}

static void add_search(Text *t, const Tuning *tuning, int number) {
    const TuneResult *r = &tuning->result;
    int n;
    const TuneTrial **trials = tune_sorted(t->ctx, r, &n);
    text_add(t, "<section><h2>");
    page_escape(t, tuning->title);
    text_add(t, "</h2>\n");
    add_summary(t, r);
    add_chart(t, tuning, trials, n, number);
    if (n) add_table(t, "Candidates that were measured, the fastest first", trials, n);
    if (r->n_trials > n) {
        text_add(t, "<details><summary>%d that were not measured, and why</summary>\n",
                 r->n_trials - n);
        add_table(t, "Candidates without a time", trials + n, r->n_trials - n);
        text_add(t, "</details>\n");
    }
    text_add(t, "</section>\n");
}

const char *tune_page(Ctx *ctx, int n, const Tuning *tunings) {
    Text t = {.ctx = ctx};
    const char *title = n ? tunings[0].title : "";
    page_begin(&t, "Tuning", n > 1 ? ctx_format(ctx, "%s and others", title) : title);
    for (int i = 0; i < n; i++) add_search(&t, &tunings[i], i);
    page_end(&t);
    return t.data;
}
