// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The page of a profile: roofline, timeline, tables, and the source with the time of each line.
#include <inttypes.h>
#include <string.h>

#include "tools/tegula/page.h"
#include "tools/tegula/profile/roofline.h"

static double share_of(double part, double whole) {
    return whole > 0 ? 100 * part / whole : 0;
}

static void add_text(Text *t, const char *tag, const char *text) {
    text_add(t, "<%s>", tag);
    page_escape(t, text);
    text_add(t, "</%s>", tag);
}

static void begin_table(Text *t, const char *caption, const char *const *heads, int n) {
    text_add(t, "<div class=\"wide\"><table><caption>%s</caption><thead><tr>", caption);
    for (int i = 0; i < n; i++) text_add(t, "<th scope=\"col\">%s</th>", heads[i]);
    text_add(t, "</tr></thead><tbody>\n");
}

static void end_table(Text *t) {
    text_add(t, "</tbody></table></div>\n");
}

/// A cell with a number, and a bar behind it.
static void add_share(Text *t, double percent) {
    text_add(t,
             "<td class=\"n\" style=\"background:linear-gradient(to right,#0b7ad155 %.1f%%,#0000 "
             "%.1f%%)\">%.1f %%</td>",
             percent, percent, percent);
}

/* ---- the timeline -------------------------------------------------------------------------- */

enum { WIDTH = 980, LEFT = 90, ROW = 18, MOST_ROWS = 64 };

static void add_bar(Text *t, int row, double from, double to, const char *colour,
                    const char *title) {
    double x = LEFT + (WIDTH - LEFT) * from, w = (WIDTH - LEFT) * (to - from);
    text_add(t, "<rect x=\"%.2f\" y=\"%d\" width=\"%.2f\" height=\"%d\" fill=\"%s\"><title>", x,
             row * ROW + 2, w < 0.3 ? 0.3 : w, ROW - 4, colour);
    page_escape(t, title);
    text_add(t, "</title></rect>\n");
}

static void add_row_name(Text *t, int row, const char *name) {
    text_add(t, "<text class=\"tick\" style=\"text-anchor:start\" x=\"0\" y=\"%d\">",
             row * ROW + 13);
    page_escape(t, name);
    text_add(t, "</text>\n");
}

/// A colour for the part number i, the same in the timeline and in the table.
static const char *colour_of(Ctx *ctx, int i) {
    return ctx_format(ctx, "hsl(%d 65%% 50%%)", (int)(210 + 137 * (int64_t)i) % 360);
}

static int number_of_part(const Profile *p, const tg_site *site) {
    for (int i = 0; i < p->n_parts; i++)
        if (is_same_site(p->parts[i].site, site)) return i;
    return 0;
}

/// Adds the parts of a worker. Of those that end within half a pixel of an earlier one's start,
/// only that one is drawn, so a row has few bars however many spans there are.
static void add_worker_row(Text *t, const Profile *p, const tg_worker_record *w, int row) {
    double whole = (double)(p->record->to - p->record->from);
    size_t n = w->n_spans < w->capacity ? w->n_spans : w->capacity;
    const double pixel = 0.5 / (WIDTH - LEFT);
    double covered = 0;
    for (size_t i = 0; i < n; i++) {
        const tg_span *s = &w->spans[i];
        double from = (double)(s->from - p->record->from) / whole;
        double to = (double)(s->to - p->record->from) / whole;
        if (!s->site || to < covered) continue;
        covered = from + pixel;
        add_bar(t, row, from, to, colour_of(t->ctx, number_of_part(p, s->site)),
                ctx_format(t->ctx, "task %" PRId64 ", line %d: %s", s->task, (int)s->site->line,
                           s->site->text));
    }
}

static void add_workers(Text *t, const Profile *p) {
    int rows = 0;
    bool lost = false;
    for (int w = 1; w < p->record->n_workers; w++) {
        rows += p->record->workers[w].n_spans > 0;
        lost |= p->record->workers[w].n_spans > p->record->workers[w].capacity;
    }
    if (!rows) return;
    if (rows > MOST_ROWS) rows = MOST_ROWS;
    text_add(t,
             "<h2>Threads over time</h2><figure><svg viewBox=\"0 0 %d %d\" role=\"img\">"
             "<title>The parts that each thread runs</title>\n",
             WIDTH, rows * ROW + 4);
    for (int w = 1, row = 0; w < p->record->n_workers && row < rows; w++) {
        if (!p->record->workers[w].n_spans) continue;
        add_row_name(t, row, ctx_format(t->ctx, "thread %d", w));
        add_worker_row(t, p, &p->record->workers[w], row++);
    }
    text_add(
        t,
        "</svg><figcaption>%s of one launch, from left to right. Colours are those of the "
        "table of parts. Parts shorter than half a pixel are merged%s.</figcaption></figure>\n",
        time_text(t->ctx, p->marked),
        lost ? "; the later ones of threads with many tasks are missing" : "");
}

static void add_device_rows(Text *t, const Profile *p) {
    int rows = p->n_rows < MOST_ROWS ? p->n_rows : MOST_ROWS;
    double whole = (double)(p->device_end - p->device_start);
    if (!p->n_spans || !(whole > 0)) return;
    text_add(t,
             "<h2>Programs over time</h2><figure><svg viewBox=\"0 0 %d %d\" role=\"img\">"
             "<title>The parts that each program or role runs</title>\n",
             WIDTH, rows * ROW + 4);
    bool *named = ctx_array(t->ctx, bool, rows + 1);
    for (int i = 0; i < p->n_spans; i++) {
        const DeviceSpan *s = &p->spans[i];
        if (s->row >= rows) continue;
        if (!named[s->row]) {
            named[s->row] = true;
            add_row_name(t, s->row, ctx_format(t->ctx, "%" PRId64 " %s", s->program, s->role));
        }
        add_bar(t, s->row, (double)(s->from - p->device_start) / whole,
                (double)(s->to - p->device_start) / whole,
                colour_of(t->ctx, (int)s->site->line * 7 + (int)strlen(s->text)),
                ctx_format(t->ctx, "line %d: %s, %s", (int)s->site->line, s->text,
                           time_text(t->ctx, (double)(s->to - s->from) * 1e-9)));
    }
    text_add(t,
             "</svg><figcaption>The first %d of %d programs or roles, by the device's clock."
             "</figcaption></figure>\n",
             rows, p->n_rows);
}

/* ---- tables -------------------------------------------------------------------------------- */

static void add_phases(Text *t, const Profile *p) {
    static const char *const heads[] = {"phase", "share", "time", "tasks", "threads", "busy"};
    begin_table(t, "Phases of the recorded launch", heads, 6);
    for (int i = 0; i < p->n_phases; i++) {
        const ProfilePhase *x = &p->phases[i];
        text_add(t, "<tr>");
        add_text(t, "td", profile_phase_name(p, x->site));
        add_share(t, share_of(x->seconds, p->marked));
        text_add(t, "<td class=\"n\">%s</td><td class=\"n\">%" PRId64 "</td>",
                 time_text(t->ctx, x->seconds), x->tasks);
        if (x->workers)
            text_add(t, "<td class=\"n\">%d</td><td class=\"n\">%.0f %%</td></tr>\n", x->workers,
                     share_of(x->busy, x->seconds * x->workers));
        else
            text_add(t, "<td></td><td></td></tr>\n");
    }
    end_table(t);
}

static void add_parts(Text *t, const Profile *p) {
    static const char *const heads[] = {"line", "share", "time", "times", "each", "code"};
    double all = 0;
    if (!p->n_parts) return;
    for (int i = 0; i < p->n_parts; i++) all += p->parts[i].seconds;
    begin_table(t, "Parts of the code, of all threads", heads, 6);
    for (int i = 0; i < p->n_parts; i++) {
        const ProfilePart *x = &p->parts[i];
        text_add(t,
                 "<tr><td style=\"white-space:nowrap\"><span style=\"color:%s\">&#9632;</span> "
                 "%s</td>",
                 colour_of(t->ctx, i), profile_place(p, x->site));
        add_share(t, share_of(x->seconds, all));
        text_add(t, "<td class=\"n\">%s</td><td class=\"n\">%" PRId64 "</td>",
                 time_text(t->ctx, x->seconds), x->times);
        text_add(t, "<td class=\"n\">%s</td>",
                 time_text(t->ctx, x->seconds / (double)(x->times ? x->times : 1)));
        add_text(t, "td", x->site->text);
        text_add(t, "</tr>\n");
    }
    end_table(t);
}

static void add_device_parts(Text *t, const Profile *p) {
    static const char *const heads[] = {"line", "share", "time", "times", "at most", "code"};
    int n;
    const DeviceSum *sums = profile_device_sums(p, &n);
    double all = 0;
    if (!n) return;
    for (int i = 0; i < n; i++) all += sums[i].seconds;
    begin_table(t, "Parts of the device code, of all programs", heads, 6);
    for (int i = 0; i < n; i++) {
        const tg_site *s = sums[i].span->site;
        text_add(t, "<tr><td>%d:%d</td>", (int)s->line, (int)s->column);
        add_share(t, share_of(sums[i].seconds, all));
        text_add(
            t, "<td class=\"n\">%s</td><td class=\"n\">%" PRId64 "</td><td class=\"n\">%s</td>",
            time_text(t->ctx, sums[i].seconds), sums[i].times, time_text(t->ctx, sums[i].slowest));
        add_text(t, "td", s->text);
        text_add(t, "</tr>\n");
    }
    end_table(t);
}

/* ---- the source ---------------------------------------------------------------------------- */

static double seconds_of_line(const Profile *p, const char *path, int line, double *all) {
    double sum = 0;
    *all = 0;
    for (int i = 0; i < p->n_parts; i++) {
        const tg_site *s = p->parts[i].site;
        *all += p->parts[i].seconds;
        if (s->line == line && s->file && strcmp(s->file, path) == 0) sum += p->parts[i].seconds;
    }
    return sum;
}

/// The file of the kernel, with the share of each line.
static void add_source(Text *t, const Profile *p) {
    static const char *const heads[] = {"line", "share", "source"};
    const Ctx *ctx = p->job->ctx;
    uint16_t file = p->job->kernel->loc.file;
    size_t length;
    const char *path = ctx_source_path(ctx, file), *s = ctx_source_text(ctx, file, &length);
    const char *end = s + length;
    if (!p->n_parts) return;
    begin_table(t, "The source, with the share of each line that starts a part", heads, 3);
    for (int line = 1; s < end; line++) {
        const char *stop = memchr(s, '\n', (size_t)(end - s));
        double all, own = seconds_of_line(p, path, line, &all);
        if (!stop) stop = end;
        text_add(t, "<tr><td class=\"n\">%d</td>", line);
        if (own > 0)
            add_share(t, share_of(own, all));
        else
            text_add(t, "<td></td>");
        text_add(t, "<td><code style=\"white-space:pre\">");
        page_escape(t, ctx_format(t->ctx, "%.*s", (int)(stop - s), s));
        text_add(t, "</code></td></tr>\n");
        s = stop + 1;
    }
    end_table(t);
}

/* ---- the page ------------------------------------------------------------------------------ */

static void add_summary(Text *t, const Profile *p) {
    text_add(t, "<section><h2>");
    page_escape(t, p->title);
    text_add(t, "</h2>\n<p><strong>%s</strong> a launch (median of %d)",
             time_text(t->ctx, p->times.median), p->launches);
    if (p->bytes > 0) text_add(t, ", %.3g GB/s", p->bytes / p->times.median * 1e-9);
    if (p->flops > 0) text_add(t, ", %.4g GFLOP/s", p->flops / p->times.median * 1e-9);
    text_add(t, ". <code>");
    page_escape(t, p->config);
    text_add(t, "</code></p>\n<p class=\"soft\">On ");
    page_escape(t, p->job->o->target ? p->job->o->target : "this CPU");
    text_add(t, ". The recorded launch took %s; its code has marks.</p>\n",
             time_text(t->ctx, p->marked));
    if (p->counters)
        text_add(t, "<p>Hardware counters: %s.</p>\n",
                 counters_text(t->ctx, p->counts, p->launches, p->bytes));
}

static void add_roofline(Text *t, const Profile *p, const Roofline *r) {
    const char *svg = roofline_svg(p, r);
    text_add(t, "<h2>Roofline</h2>\n");
    text_add(t, "<figure style=\"max-width:44rem\">%s</figure>\n", svg);
    text_add(t, "<ul>\n");
    if (r->bandwidth > 0)
        text_add(t, "<li>memory: at least %s at the %.3g GB/s of a copy</li>\n",
                 time_text(t->ctx, r->memory_seconds), r->bandwidth * 1e-9);
    if (r->peak > 0)
        text_add(t, "<li>arithmetic: at least %s at %.4g GFLOP/s of %s</li>\n",
                 time_text(t->ctx, r->compute_seconds), r->peak * 1e-9, r->peak_name);
    if (r->verdict) text_add(t, "<li><strong>%s</strong></li>\n", r->verdict);
    for (int i = 0; i < r->n_losses; i++)
        text_add(t, "<li>%.1f %% of the threads' time: %s</li>\n", 100 * r->losses[i].share,
                 r->losses[i].text);
    for (int i = 0; i < r->n_advice; i++) {
        text_add(t, "<li>try <code>");
        page_escape(t, r->advice[i].setting);
        text_add(t, "</code>: %s</li>\n", r->advice[i].why);
    }
    text_add(t, "</ul>\n");
}

const char *profile_page(const Profile *p, const Roofline *r) {
    Text t = {.ctx = p->job->ctx};
    page_begin(&t, "Profile", p->title);
    add_summary(&t, p);
    if (r) add_roofline(&t, p, r);
    add_phases(&t, p);
    add_parts(&t, p);
    add_device_parts(&t, p);
    add_workers(&t, p);
    add_device_rows(&t, p);
    add_source(&t, p);
    text_add(&t, "</section>\n");
    page_end(&t);
    return t.data;
}
