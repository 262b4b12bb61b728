// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The mutation test: runs the kernel without one barrier, fence, wait or signal.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backends/sim/machine.h"

/* ---- memory before and after ----------------------------------------------------------------- */

static int64_t total_bytes(const SimRun *run) {
    int64_t n = 0;
    for (int i = 0; i < run->n_buffers; i++) n += run->buffers[i].bytes;
    return n;
}

/// Copies all buffers, one after the other; NULL: out of memory.
static char *save_buffers(const SimRun *run) {
    char *copy = malloc((size_t)total_bytes(run) + 1), *to = copy;
    for (int i = 0; copy && i < run->n_buffers; i++) {
        memcpy(to, run->buffers[i].base, (size_t)run->buffers[i].bytes);
        to += run->buffers[i].bytes;
    }
    return copy;
}

static void restore_run_buffers(const SimRun *run, const char *from) {
    for (int i = 0; i < run->n_buffers; i++) {
        memcpy((void *)(uintptr_t)run->buffers[i].base, from, (size_t)run->buffers[i].bytes);
        from += run->buffers[i].bytes;
    }
}

static bool is_same_memory(const SimRun *run, const char *as) {
    for (int i = 0; i < run->n_buffers; i++) {
        if (memcmp(run->buffers[i].base, as, (size_t)run->buffers[i].bytes) != 0) return false;
        as += run->buffers[i].bytes;
    }
    return true;
}

/* ---- one mutation -------------------------------------------------------------------------- */

enum { SEEDS = 3 };

/// Whether the unchanged kernel runs in all of these orders with equal results. Otherwise a failure
/// without the site proves nothing.
static bool runs_unmutated(const SimImage *image, int function, const SimRun *run,
                           const char *before, const char *after, SimFailure *failure) {
    for (uint64_t seed = 1; seed < SEEDS; seed++) {
        SimRun again = *run;
        again.seed += seed;
        restore_run_buffers(run, before);
        if (!sim_run(image, function, &again, failure)) return false;
        if (is_same_memory(run, after)) continue;
        *failure = (SimFailure){.kind = SIM_MISUSE, .file = ""};
        snprintf(failure->text, sizeof failure->text,
                 "other results with seed %d, without any mutation", (int)again.seed);
        return false;
    }
    return true;
}

/// Returns "noticed: why", or the other verdicts, after several random orders. The unmutated run
/// has reached the site.
static const char *try_without(const SimImage *image, int function, const SimRun *run, int site,
                               const char *before, const char *after, SimFailure *failure) {
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        SimRun mutant = *run;
        mutant.skip_site = site;
        mutant.seed += seed;
        restore_run_buffers(run, before);
        if (!sim_run(image, function, &mutant, failure)) return "noticed";
        if (!is_same_memory(run, after)) {
            snprintf(failure->text, sizeof failure->text, "other results");
            return "noticed";
        }
    }
    snprintf(failure->text, sizeof failure->text, "the same results");
    return "unnoticed";
}

/// Hashes the source positions, to distinguish versions of a function.
static uint32_t digest_sites(const SimImage *image, const char *function) {
    uint32_t hash = 2166136261u;
    SimSiteInfo s;
    for (int i = 0; sim_site(image, i, &s); i++) {
        char text[128];
        if (strcmp(s.function, function) != 0) continue;
        snprintf(text, sizeof text, "%d:%d %s;", s.line, s.column, s.name);
        for (const char *c = text; *c; c++) hash = (hash ^ (unsigned char)*c) * 16777619u;
    }
    return hash;
}

void sim_list_sites(const SimImage *image, int function, const char *path) {
    const char *name = image->functions[function].name;
    uint32_t version = digest_sites(image, name);
    FILE *out = fopen(path, "a");
    SimSiteInfo s;
    for (int i = 0; out && sim_site(image, i, &s); i++)
        if (strcmp(s.function, name) == 0)
            fprintf(out, "site %s.%08x %d %s:%d:%d %s\n", s.function, version, i, s.file, s.line,
                    s.column, s.name);
    if (out) fclose(out);
}

int sim_skipped_site(const SimImage *image, int function) {
    const char *name = image->functions[function].name, *text = secure_getenv("TG_SIM_SKIP");
    size_t n = strlen(name);
    if (!text || strncmp(text, name, n) != 0 || text[n] != ':') return 0;
    return atoi(text + n + 1) + 1;
}

/// Reads the file and puts a line break before it, so that one precedes each line; NULL: it cannot
/// be read.
static char *read_log(const char *path) {
    FILE *in = fopen(path, "r");
    long n = in && !fseek(in, 0, SEEK_END) ? ftell(in) : -1;
    char *text = n >= 0 ? malloc((size_t)n + 2) : NULL;
    if (text) {
        rewind(in);
        text[0] = '\n';
        text[1 + fread(text + 1, 1, (size_t)n, in)] = 0;
    }
    if (in) fclose(in);
    return text;
}

/// The state of a mutation test: memory before and after the run, the reached sites, and the old
/// contents of the file.
typedef struct Mutations {
    const SimImage *image;
    int function;
    const SimRun *run;
    const char *before, *after, *log;
    const bool *met;
} Mutations;

static bool was_noticed(const Mutations *m, const SimSiteInfo *s, uint32_t version) {
    char key[512];
    snprintf(key, sizeof key, "\nnoticed %.400s.%08x %d ", s->function, version, s->number);
    return m->log && strstr(m->log, key);
}

static void mutate_all(const Mutations *m, FILE *out) {
    const char *name = m->image->functions[m->function].name;
    uint32_t version = digest_sites(m->image, name);
    SimSiteInfo s;
    for (int i = 0; sim_site(m->image, i, &s); i++) {
        SimFailure failure = {.file = ""};
        const char *what = "not reached";
        if (strcmp(s.function, name) != 0 || was_noticed(m, &s, version)) continue;
        if (m->met[i + 1])
            what = try_without(m->image, m->function, m->run, i + 1, m->before, m->after, &failure);
        failure.text[strcspn(failure.text, "\n")] = 0;
        fprintf(out, "%s %s.%08x %d %s:%d:%d %s %.200s\n", what, s.function, version, i, s.file,
                s.line, s.column, s.name, failure.text);
    }
}

bool sim_mutate(const SimImage *image, int function, const SimRun *run, const char *path,
                SimFailure *failure) {
    char *before = save_buffers(run), *log = read_log(path);
    bool *met = calloc((size_t)image->n_sync + 1, sizeof *met);
    SimRun first = *run;
    first.met = met;
    bool good = sim_run(image, function, &first, failure);
    char *after = save_buffers(run);
    good &= !before || !after || runs_unmutated(image, function, run, before, after, failure);
    FILE *out = good && before && after && met ? fopen(path, "a") : NULL;
    if (out) {
        mutate_all(&(Mutations){image, function, run, before, after, log, met}, out);
        restore_run_buffers(run, after);
        fclose(out);
    }
    free(before);
    free(after);
    free(log);
    free(met);
    return good;
}
