// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A process that has loaded a release of HIP uses that release, even if the loader finds another.
//
// Usage: hip_loaded LIBRARY NAME: the library to load first; the only file of HIP that may be
// mapped after the devices have been counted.
#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include <tegula.h>

/// Whether NAME is mapped, and no other file that looks like HIP's runtime.
static bool only(const char *name) {
    char line[4096];
    bool found = false, other = false;
    FILE *maps = fopen("/proc/self/maps", "r");
    if (!maps) return false;
    while (fgets(line, sizeof line, maps)) {
        char *file = strrchr(line, '/');
        if (!file || strncmp(file + 1, "libamdhip64", 11) != 0) continue;
        file[strcspn(file, "\n")] = 0;
        if (strcmp(file + 1, name) == 0)
            found = true;
        else
            other = true, fprintf(stderr, "%s is mapped\n", file + 1);
    }
    fclose(maps);
    return found && !other;
}

int main(int argc, char **argv) {
    if (argc != 3) return 2;
    if (!dlopen(argv[1], RTLD_NOW | RTLD_LOCAL)) return fprintf(stderr, "%s\n", dlerror()), 2;
    if (tg_device_count() < 1) return fprintf(stderr, "no device: %s\n", tg_last_error()), 1;
    return !only(argv[2]);
}
