// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A compiled kernel with the greatest number of parameters: warm launches follow a change of each,
// and each tensor is checked for overlap with both outputs.
#include "support.h"

#include <stdio.h>
#include <string.h>

/// The outputs are last: y adds up numbers and rows, z packs them.
enum { PARAMS = 256, Y = PARAMS - 2, Z = PARAMS - 1, ELEMENTS = 32, ROOM = 2 * ELEMENTS };
typedef enum Kind { NUMBER, ROW, PACK } Kind;
static const char *const types_of[] = {"f32", "f32[N]", "f32[..P]"};

static float memory[2][PARAMS][ROOM];
static View views[PARAMS];
static tg_arg args[PARAMS];
static int values[PARAMS];

/// The first two parameters are numbers.
static Kind kind_of(int i) {
    return i == Y ? ROW : i == Z ? PACK : i < 2 || i % 7 == 6 ? NUMBER : i % 3 == 1 ? PACK : ROW;
}

static void add_source(char *out, size_t size) {
    size_t n = (size_t)snprintf(out, size, "kernel wide(");
    for (int i = 0; i < PARAMS; i++)
        n += (size_t)snprintf(out + n, size - n, "%sp%d: %s", i ? ", " : "", i,
                              types_of[kind_of(i)]);
    for (int to = Y; to <= Z; to++) {
        n += (size_t)snprintf(out + n, size - n, "%s parallel i in %s by 64 { p%d[i] = 0",
                              to == Y ? ") {" : "; }", to == Y ? "N" : "P", to);
        for (int i = 0; i < Y; i++)
            if ((kind_of(i) == PACK) == (to == Z))
                n += (size_t)snprintf(out + n, size - n, " + p%d%s", i,
                                      kind_of(i) == NUMBER ? "" : "[i]");
    }
    n += (size_t)snprintf(out + n, size - n, "; } }");
    assert_true(n < size);
}

/// Gives a tensor another address and other elements, or a number another value.
static void set(int i, int place) {
    values[i] = place ? 3 + i % 11 : i % 5;
    if (kind_of(i) == NUMBER) {
        args[i] = tg_float(values[i]);
        return;
    }
    bool pack = kind_of(i) == PACK;
    float *data = memory[place][i];
    for (int k = 0; k < ROOM; k++) data[k] = (float)values[i];
    view(&views[i], &types[1], data, pack ? 2 : 1,
         pack ? (int64_t[]){4, ELEMENTS / 4} : (int64_t[]){ELEMENTS}, NULL);
    args[i] = tg_tensor(&views[i].t);
}

static void launch(tg_kernel *k) {
    int sums[2] = {0};
    OK(tg_launch(k, args, PARAMS));
    for (int i = 0; i < Y; i++) sums[kind_of(i) == PACK] += values[i];
    for (int to = Y; to <= Z; to++) {
        float *data = views[to].t.data;
        for (int e = 0; e < ELEMENTS; e++)
            if (data[e] != (float)sums[to == Z])
                fail_msg("p%d[%d] is %g and must be %d", to, e, data[e], sums[to == Z]);
        memset(data, 0xff, ELEMENTS * sizeof *data);
    }
}

static void test_moves(void **state) {
    tg_kernel *k = *state;
    for (int place = 0; place < 2; place++)
        for (int i = 0; i < PARAMS; i++) {
            set(i, place);
            if (place || i == PARAMS - 1) launch(k);
        }
}

static void test_overlaps(void **state) {
    tg_kernel *k = *state;
    for (int to = Y; to <= Z; to++)
        for (int i = 0; i < PARAMS; i++) {
            if (i == to || kind_of(i) == NUMBER) continue;
            char text[64];
            snprintf(text, sizeof text, "'p%d' is written and overlaps 'p%d'", i == Y ? i : to,
                     i == Y ? to : i);
            views[i].t.data = (float *)views[to].t.data + ELEMENTS / 2;
            FAILS(tg_launch(k, args, PARAMS), TG_ERROR_CONTRACT, text);
            set(i, 0);
            launch(k);
        }
}

int main(void) {
    static char source[20000];
    add_source(source, sizeof source);
    tg_module *m = module_of(source);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_prestate(test_moves, kernel_of(m, NULL)),
        cmocka_unit_test_prestate(test_overlaps, kernel_of(m, NULL))};
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    tg_module_destroy(m);
    return failed;
}
