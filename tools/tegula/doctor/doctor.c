// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// tegula doctor: lists the parts of this machine that Tegula can use, faults, and how to mend them.
#include "tools/tegula/doctor/doctor.h"

#include "backends/backend.h"
#include "driver/json.h"
#include "tools/tegula/check_json.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* ---- findings ------------------------------------------------------------------------------ */

static const char *format_text(Ctx *ctx, const char *format, va_list ap) {
    char text[4096];
    vsnprintf(text, sizeof text, format, ap);
    return ctx_format(ctx, "%s", text);
}

Finding *doctor_add(Doctor *d, const char *section, const char *name, FindingState state,
                    const char *text, ...) {
    va_list ap;
    va_start(ap, text);
    Finding f = {.section = section, .name = name, .state = state, .facts = {.ctx = d->ctx}};
    f.text = format_text(d->ctx, text, ap);
    va_end(ap);
    vec_push(d->ctx, &d->findings, f);
    return &d->findings.data[d->findings.n - 1];
}

void doctor_advise(Doctor *d, Finding *f, const char *text, ...) {
    va_list ap;
    va_start(ap, text);
    f->advice = format_text(d->ctx, text, ap);
    va_end(ap);
}

static void add_member(Finding *f, const char *name) {
    text_add(&f->facts, ", ");
    json_quote(&f->facts, name);
    text_add(&f->facts, ": ");
}

void doctor_fact(Doctor *d, Finding *f, const char *name, const char *value) {
    (void)d;
    add_member(f, name);
    json_quote(&f->facts, value);
}

void doctor_number(Doctor *d, Finding *f, const char *name, int64_t value) {
    (void)d;
    add_member(f, name);
    text_add(&f->facts, "%" PRId64, value);
}

/* ---- versions ------------------------------------------------------------------------------ */

static void check_versions(Doctor *d) {
    char version[BACKEND_LLVM_VERSION];
    const char *path;
    Finding *f = doctor_add(d, "versions", "tegula", FINDING_OK, "%s, compiler %.12s",
                            TEGULA_VERSION, backend_compiler());
    doctor_fact(d, f, "version", TEGULA_VERSION);
    doctor_fact(d, f, "compiler", backend_compiler());
    backend_llvm(version, &path);
    f = doctor_add(d, "versions", "LLVM", FINDING_OK, "%s%s%s", version, path ? ", in " : "",
                   path ? path : "");
    doctor_fact(d, f, "version", version);
    if (path) doctor_fact(d, f, "path", path);
}

/* ---- printing ------------------------------------------------------------------------------ */

static const char *const state_names[FINDING_STATES] = {
    [FINDING_OK] = "ok", [FINDING_ABSENT] = "absent", [FINDING_PROBLEM] = "problem"};

static int count_problems(const Doctor *d) {
    int n = 0;
    for (int i = 0; i < d->findings.n; i++) n += d->findings.data[i].state == FINDING_PROBLEM;
    return n;
}

static void print_findings(const Doctor *d) {
    static const char *const marks[FINDING_STATES] = {
        [FINDING_OK] = "  ok", [FINDING_ABSENT] = "  --", [FINDING_PROBLEM] = "  !!"};
    static const char *const colours[FINDING_STATES] = {
        [FINDING_OK] = "\033[32m", [FINDING_ABSENT] = "", [FINDING_PROBLEM] = "\033[1;31m"};
    bool colour = cli_colour(1);
    const char *section = "";
    for (int i = 0; i < d->findings.n; i++) {
        const Finding *f = &d->findings.data[i];
        if (strcmp(section, f->section) != 0) printf("%s%s\n", *section ? "\n" : "", f->section);
        section = f->section;
        printf("%s%s%s  %-11s %s\n", colour ? colours[f->state] : "", marks[f->state],
               colour ? "\033[0m" : "", f->name, f->text);
        if (f->advice) printf("%*s-> %s\n", 18, "", f->advice);
    }
    int n = count_problems(d);
    if (n)
        printf("\n%d problem%s\n", n, n == 1 ? "" : "s");
    else
        printf("\nno problem\n");
}

static void print_json(const Doctor *d) {
    Text t = {.ctx = d->ctx};
    text_add(&t, "{\"problems\": %d, \"findings\": [", count_problems(d));
    for (int i = 0; i < d->findings.n; i++) {
        const Finding *f = &d->findings.data[i];
        text_add(&t, "%s\n  {\"section\": ", i ? "," : "");
        json_quote(&t, f->section);
        text_add(&t, ", \"name\": ");
        json_quote(&t, f->name);
        text_add(&t, ", \"state\": \"%s\", \"text\": ", state_names[f->state]);
        json_quote(&t, f->text);
        if (f->advice) {
            text_add(&t, ", \"advice\": ");
            json_quote(&t, f->advice);
        }
        if (f->facts.n) text_bytes(&t, f->facts.data, f->facts.n);
        text_add(&t, "}");
    }
    text_add(&t, "\n]}\n");
    fputs(valid_utf8(d->ctx, t.data), stdout);
}

int cmd_doctor(Ctx *ctx, const Options *o) {
    Doctor d = {.ctx = ctx};
    check_versions(&d);
    doctor_check_devices(&d);
    doctor_check_tools(&d);
    doctor_check_cache(&d);
    doctor_check_variables(&d);
    if (o->as_json)
        print_json(&d);
    else
        print_findings(&d);
    return count_problems(&d) ? EXIT_USER : EXIT_OK;
}
