// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Searches for parts of a CUDA toolkit, and releases the results of compilers.
#include "backends/nvidia/toolkit_search.h"

#include <stdio.h>
#include <stdlib.h>

#include "backends/external_tool.h"
#include "backends/nvidia/nvidia.h"

bool nv_toolkit_search(const char *const *patterns, bool (*visit)(const char *path, void *arg),
                       void *arg) {
    const char *home = secure_getenv("CUDA_HOME");
    for (; *patterns; patterns++) {
        char path[4096];
        bool below = **patterns != '/';
        if (below && !home) continue;
        int n =
            snprintf(path, sizeof path, "%s%s%s", below ? home : "", below ? "/" : "", *patterns);
        if (n < (int)sizeof path && tool_glob(path, visit, arg)) return true;
    }
    return false;
}

void nv_output_free(NvOutput *out) {
    free(out->data);
    free(out->log);
    *out = (NvOutput){0};
}
