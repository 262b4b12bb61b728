// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Prints the table of GPUs of docs/status.md as markdown, from lang/gpus.def.
#include "tools/tegula-opt/opt.h"

#include <stdio.h>
#include <string.h>

typedef struct GpuPageRow {
    const char *name, *devices, *state, *tests; // tests: kinds, separated by blanks
} GpuPageRow;

static const GpuPageRow gpu_rows[] = {
#define MEASURED     "measured on devices"
#define UNTRIED      "not run on a device"
#define TESTS(kinds) #kinds
#define GPU(name, arch, lanes, sms, threads, ctas, registers, most, shared, shared_one, l2, gb,    \
            ghz, fma, unit, features, ptx, link, devices, state, tests)                            \
    {name, devices, state, tests},
#include "lang/gpus.def"
#undef MEASURED
#undef UNTRIED
#undef TESTS
};

static const struct {
    const char *kind, *meaning;
} test_kinds[] = {
    {"ptx", "PTX through ptxas"},
    {"hsaco", "code objects are read back"},
    {"run", "every run test in the simulator"},
    {"turn", "every run test in the simulator, in turns"},
    {"sample", "a sample of the run tests in the simulator"},
};

void print_gpus(void) {
    puts("| architecture | devices, for instance | state | tests without a device |\n"
         "|---|---|---|---|");
    for (size_t i = 0; i < sizeof gpu_rows / sizeof *gpu_rows; i++) {
        const GpuPageRow *row = &gpu_rows[i];
        const char *sep = "";
        printf("| `%s` | %s | %s | ", row->name, row->devices, row->state);
        for (size_t k = 0; k < sizeof test_kinds / sizeof *test_kinds; k++)
            if (strstr(row->tests, test_kinds[k].kind)) {
                printf("%s%s", sep, test_kinds[k].meaning);
                sep = "; ";
            }
        puts(" |");
    }
}
