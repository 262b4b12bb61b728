// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// main() of a fuzz target without libFuzzer: runs the target on each file on the command line and
// in the folders there.
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int replay_file(const char *path) {
    FILE *f = fopen(path, "rb");
    if (!f) {
        fprintf(stderr, "cannot open %s\n", path);
        return 1;
    }
    size_t size = 0, cap = 1 << 16;
    uint8_t *data = malloc(cap);
    for (size_t n; data && (n = fread(data + size, 1, cap - size, f)) > 0;) {
        size += n;
        if (size == cap) data = realloc(data, cap *= 2);
    }
    fclose(f);
    if (data) LLVMFuzzerTestOneInput(data, size);
    free(data);
    return data ? 0 : 1;
}

static int replay(const char *path, int *count) {
    struct stat st;
    if (stat(path, &st) != 0 || !S_ISDIR(st.st_mode)) {
        ++*count;
        return replay_file(path);
    }
    DIR *dir = opendir(path);
    int bad = dir ? 0 : 1;
    for (struct dirent *e; dir && (e = readdir(dir));) {
        if (e->d_name[0] == '.') continue;
        char child[4096];
        snprintf(child, sizeof child, "%s/%s", path, e->d_name);
        bad |= replay(child, count);
    }
    if (dir) closedir(dir);
    return bad;
}

int main(int argc, char **argv) {
    int bad = 0, count = 0;
    for (int i = 1; i < argc; i++) bad |= replay(argv[i], &count);
    printf("%d inputs\n", count);
    return bad;
}
