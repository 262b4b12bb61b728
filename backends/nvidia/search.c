// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The search for pieces of a CUDA toolkit, and what compilers hand back.
#include "backends/nvidia/search.h"

#include <glob.h>
#include <stdio.h>
#include <stdlib.h>

#include "backends/nvidia/nvidia.h"

static bool visit_matches(const char *pattern, bool (*visit)(const char *path, void *arg),
                          void *arg) {
    glob_t found;
    bool done = false;
    if (glob(pattern, 0, NULL, &found) != 0) return false;
    for (size_t i = found.gl_pathc; i-- > 0 && !done;) done = visit(found.gl_pathv[i], arg);
    globfree(&found);
    return done;
}

bool nv_search(const char *const *patterns, bool (*visit)(const char *path, void *arg), void *arg) {
    const char *home = getenv("CUDA_HOME");
    for (; *patterns; patterns++) {
        char path[4096];
        bool below = **patterns != '/';
        if (below && !home) continue;
        int n =
            snprintf(path, sizeof path, "%s%s%s", below ? home : "", below ? "/" : "", *patterns);
        if (n < (int)sizeof path && visit_matches(path, visit, arg)) return true;
    }
    return false;
}

void nv_output_free(NvOutput *out) {
    free(out->data);
    free(out->log);
    *out = (NvOutput){0};
}
