// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Kernels with more parameters than a word has bits, and than a signed byte can count. Each
// position must be bound, moved, and checked for overlap with the outputs.
#include "tests/runtime/wide.h"

#include "runtime/compiler.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

enum { ELEMENTS = 32, ROOM = 2 * ELEMENTS, ENDS = 8 };
static const int counts[] = {2, 63, 64, 65, 127, 128, 129, 200, 256};
enum { N_COUNTS = sizeof counts / sizeof *counts };

/// Two places for each tensor.
static float memory[2][TG_MAX_PARAMS][ROOM];
static const int64_t rows[1] = {ELEMENTS}, columns[1] = {ELEMENTS / 2}, steps[1] = {2};
static const int64_t pack[2] = {4, ELEMENTS / 4};

static Wide wide;
static int n;
static DLTensor tensors[TG_MAX_PARAMS];
static tg_arg args[TG_MAX_PARAMS];

static bool is_tensor(int i) {
    return args[i].kind == TG_ARG_TENSOR && args[i].as.tensor;
}

/// optional: such tensors are there.
static void begin(int count, bool optional) {
    n = count;
    wide_make(&wide, n);
    wide_launched = &wide;
    for (int i = 0; i < n; i++) {
        WideKind kind = wide_kind(n, i);
        bool packed = kind == WIDE_PACK;
        tensors[i] = tg_dense(memory[0][i], kDLFloat, 32, packed ? 2 : 1, packed ? pack : rows);
        args[i] = kind == WIDE_NUMBER                  ? tg_int(i)
                  : kind == WIDE_OPTIONAL && !optional ? tg_none()
                                                       : tg_tensor(&tensors[i]);
    }
}

static void end(void) {
    tg_kernel_close(&wide.kernel);
}

/// The code gets all arguments as they are now.
static void expect_all(void) {
    memset(&wide_seen, 0xff, sizeof wide_seen);
    tg_status status = tg_launch(&wide.kernel, args, n);
    if (status) fail_msg("%d parameters: %s", n, tg_last_error());
    for (int i = 0; i < n; i++) {
        uint64_t want = (uint64_t)args[i].as.i;
        if (args[i].kind == TG_ARG_TENSOR) want = is_tensor(i) ? (uintptr_t)tensors[i].data : 0;
        if (wide_seen.bits[i] != want) fail_msg("%d parameters: argument %d is stale", n, i);
        int64_t extent = wide_kind(n, i) == WIDE_PACK ? ELEMENTS : tensors[i].shape[0];
        assert_int_equal(wide_seen.extent[i], is_tensor(i) ? extent : 0);
    }
}

static void expect_refused(int i, int j) {
    char both[64];
    tg_status status = tg_launch(&wide.kernel, args, n);
    snprintf(both, sizeof both, "'p%d' is written and overlaps 'p%d'", i, j);
    if (status == TG_ERROR_CONTRACT && strstr(tg_last_error(), both)) return;
    fail_msg("%d parameters: no error says that %s", n, both);
}

/// Launches with one argument changed since the last launch, for each argument, and then with all
/// changed.
static void moved(void **state) {
    (void)state;
    for (int k = 0; k < 2 * N_COUNTS; k++) {
        begin(counts[k / 2], k % 2);
        expect_all();
        for (int i = 0; i < n; i++) {
            tensors[i].data = memory[1][i];
            if (args[i].kind == TG_ARG_INT) args[i] = tg_int(1000 + i);
            expect_all();
        }
        for (int i = 0; i < n; i++) {
            tensors[i].data = memory[0][i];
            if (args[i].kind == TG_ARG_INT) args[i] = tg_int(-i);
        }
        expect_all();
        end();
    }
}

/// Half of argument j lies on half of output i, in a warm launch and in a first one.
static void check_pair(int i, int j) {
    tensors[j].data = (float *)tensors[i].data + ELEMENTS / 2;
    expect_refused(i, j);
    tg_kernel_close(&wide.kernel);
    expect_refused(i, j);
    tensors[j].data = memory[0][j];
    expect_all();
}

static void overlaps(void **state) {
    (void)state;
    for (int k = 0; k < N_COUNTS; k++) {
        begin(counts[k], true);
        expect_all();
        for (int i = 0; i < n; i++) {
            if (wide_kind(n, i) != WIDE_OUT || (i >= ENDS && i < n - 1)) continue;
            for (int j = 0; j < n; j++)
                if (is_tensor(j) && wide_kind(n, j) != WIDE_OUT) check_pair(i, j);
        }
        end();
    }
}

/// Checks input j and the last output as two views `apart` elements from each other. At this
/// distance they may be launched at any place. `nearer` elements further they overlap, and are
/// refused.
static void check_together(int j, int apart, int nearer) {
    DLTensor *x = &tensors[j], *y = &tensors[n - 1];
    for (int place = 0; place < 2; place++) {
        x->data = memory[place][j];
        y->data = memory[place][j] + apart;
        expect_all();
    }
    y->data = (float *)y->data + nearer;
    expect_refused(n - 1, j);
    x->data = memory[0][j];
    y->data = memory[0][n - 1];
}

static void set_strides(DLTensor *t, bool on) {
    t->shape = (int64_t *)(uintptr_t)(on ? columns : rows);
    t->strides = on ? (int64_t *)(uintptr_t)steps : NULL;
}

/// Tests an input that is the same view as the output, and one whose elements lie between the
/// output's.
static void together(void **state) {
    (void)state;
    for (int k = 0; k < N_COUNTS; k++) {
        begin(counts[k], true);
        expect_all();
        for (int j = 0; j < n; j++) {
            if (wide_kind(n, j) != WIDE_IN) continue;
            check_together(j, 0, ELEMENTS / 2);
            set_strides(&tensors[j], true);
            set_strides(&tensors[n - 1], true);
            check_together(j, 1, 1);
            set_strides(&tensors[j], false);
            set_strides(&tensors[n - 1], false);
        }
        end();
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(moved), cmocka_unit_test(overlaps),
                                       cmocka_unit_test(together)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
