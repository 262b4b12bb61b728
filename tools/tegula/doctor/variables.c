// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The environment: variables that are set, values that are not accepted, and misspelt names.
#include "tools/tegula/doctor/doctor.h"

#include "driver/code_cache.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

typedef enum VariableKind {
    CHOICE,
    FILE_PATH,
    FOLDER,
    COUNT,
    SIZE,
    TIME,
    PERCENT,
    TEXT_VALUE,
    SECRET
} VariableKind;

typedef struct Variable {
    const char *name;
    VariableKind kind;
    const char *values, *meaning;
} Variable;

static const Variable variables[] = {
#define VARIABLE(name, kind, values, meaning) {name, kind, values, meaning},
#include "tools/tegula/doctor/variables.def"
};
enum { VARIABLES = sizeof variables / sizeof *variables };

static bool is_choice(const char *list, const char *value) {
    size_t n = strlen(value);
    for (const char *at = list; *at; at += strspn(at, " ")) {
        size_t length = strcspn(at, " ");
        if (length == n && strncmp(at, value, n) == 0) return true;
        at += length;
    }
    return false;
}

/// Whether all of a text is a number from `least` to `most`.
static bool is_number(const char *text, double least, double most) {
    char *end;
    double n = strtod(text, &end);
    return end > text && !*end && n >= least && n <= most;
}

static bool is_whole(const char *text) {
    char *end;
    errno = 0;
    strtoll(text, &end, 0);
    return end > text && !*end && !errno;
}

static const char *file_fault(Ctx *ctx) {
    return ctx_format(ctx, "cannot be used (%s)", strerror(errno));
}

/// Returns NULL, or why the value is not accepted.
static const char *value_fault(Ctx *ctx, const Variable *v, const char *value) {
    struct stat s;
    int64_t bytes;
    switch (v->kind) {
    case CHOICE:
        return is_choice(v->values, value) ? NULL : ctx_format(ctx, "is none of %s", v->values);
    case FILE_PATH: // a plain name is looked up by the loader
        return !strchr(value, '/') || access(value, R_OK) == 0 ? NULL : file_fault(ctx);
    case FOLDER:
        if (stat(value, &s) != 0) return file_fault(ctx);
        return S_ISDIR(s.st_mode) ? NULL : "is no folder";
    case COUNT: return is_whole(value) ? NULL : "is not a whole number";
    case SIZE: return cache_read_size(value, &bytes) ? NULL : "is not a size like 512M";
    case TIME: return is_number(value, 0, 1e12) ? NULL : "is not a time";
    case PERCENT: return is_number(value, 1e-9, 100) ? NULL : "is not a percentage";
    case TEXT_VALUE:
    case SECRET: return NULL;
    }
    return NULL;
}

static void check_variable(Doctor *d, const Variable *v, const char *value) {
    const char *fault = *value ? value_fault(d->ctx, v, value) : NULL;
    const char *shown = v->kind == SECRET ? "(hidden)" : value;
    Finding *f =
        fault ? doctor_add(d, "environment", v->name, FINDING_PROBLEM, "'%s' %s; it sets %s", shown,
                           fault, v->meaning)
              : doctor_add(d, "environment", v->name, FINDING_OK, "%s (%s)", shown, v->meaning);
    if (fault) doctor_advise(d, f, "correct or unset %s", v->name);
    doctor_fact(d, f, "value", shown);
}

static const Variable *find_variable(const char *name) {
    for (int i = 0; i < VARIABLES; i++)
        if (strcmp(variables[i].name, name) == 0) return &variables[i];
    return NULL;
}

/// Only names of Tegula begin with TG_, so an unknown one is a mistake.
static void check_unknown(Doctor *d, const char *name) {
    const char *names[VARIABLES];
    for (int i = 0; i < VARIABLES; i++) names[i] = variables[i].name;
    const char *close = closest_name(name, names, VARIABLES);
    Finding *f = doctor_add(d, "environment", name, FINDING_PROBLEM,
                            "Tegula reads no variable of this name");
    if (close)
        doctor_advise(d, f, "did you mean %s?", close);
    else
        doctor_advise(d, f, "unset it");
}

extern char **environ;

void doctor_check_variables(Doctor *d) {
    int before = d->findings.n;
    for (int i = 0; i < VARIABLES; i++) {
        const char *value = secure_getenv(variables[i].name);
        if (value) check_variable(d, &variables[i], value);
    }
    for (char **e = environ; e && *e; e++) {
        size_t n = strcspn(*e, "=");
        if (strncmp(*e, "TG_", 3) != 0) continue;
        const char *name = ctx_format(d->ctx, "%.*s", (int)n, *e);
        if (!find_variable(name)) check_unknown(d, name);
    }
    if (d->findings.n == before)
        doctor_add(d, "environment", "variables", FINDING_OK, "none that Tegula reads is set");
}
