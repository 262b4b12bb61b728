// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Uses every environment variable that names a library or program to load or start (privileged.sh).
#include <stdio.h>
#include <string.h>
#include <tegula.h>
#include <unistd.h>

static void launch(void) {
    const char *source =
        "kernel k(x: f32[N], y: f32[N]) { parallel n in N by 64 { y[n] = x[n]; } }";
    float x[8] = {1}, y[8] = {0};
    int64_t n = 8;
    DLTensor a = tg_dense(x, kDLFloat, 32, 1, &n), b = tg_dense(y, kDLFloat, 32, 1, &n);
    tg_arg args[2] = {tg_tensor(&a), tg_tensor(&b)};
    tg_module *m;
    tg_kernel *k;
    if (tg_module_from_source(source, strlen(source), "k.teg", NULL, &m)) return;
    if (!tg_module_kernel(m, "k", &k) && !tg_launch(k, args, 2) && y[0] == 1) printf("launched\n");
    tg_module_destroy(m);
}

int main(void) {
    tg_comm_options options = {.size = sizeof options, .rank = -1, .device = -1};
    tg_comm *comm;
    setvbuf(stdout, NULL, _IONBF, 0);
    printf("effective user %d\n", (int)geteuid());
    tg_device_count();
    static const char *const engines[] = {"openshmem", "nvshmem"};
    for (int i = 0; i < 2; i++) {
        options.engine = engines[i];
        if (tg_comm_create(&options, &comm) == TG_OK) tg_comm_destroy(comm);
    }
    launch();
    return 0;
}
