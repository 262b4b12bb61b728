// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// NPY and PNG files: written files are read back, and damaged ones give a message.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tools/npy.h"
#include "tools/png.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PATH     TEST_OUT "/npy_test.npy"
#define PNG_PATH TEST_OUT "/npy_test.png"

static char error[NPY_ERROR_SIZE];

static void write_bytes(const char *bytes, size_t n) {
    FILE *f = fopen(PATH, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(bytes, 1, n, f), n);
    fclose(f);
}

/// A version 1 file with this header text and payload.
static void write_npy(const char *header, const char *data, size_t n) {
    char out[1024] = "\x93NUMPY\x01";
    size_t len = strlen(header);
    out[8] = (char)(len & 255);
    out[9] = (char)(len >> 8);
    memcpy(out + 10, header, len);
    memcpy(out + 10 + len, data, n);
    write_bytes(out, 10 + len + n);
}

static void round_trip(void **state) {
    (void)state;
    float data[6] = {1, -2.5f, 3, 0, 1e30f, -0.0f};
    const int64_t shapes[3][3] = {{6, 0, 0}, {2, 3, 0}, {1, 6, 1}};
    for (int rank = 1; rank <= 3; rank++) {
        Npy a = {.kind = 'f',
                 .size = 4,
                 .rank = rank,
                 .fortran = rank == 2,
                 .data = data,
                 .bytes = sizeof data};
        memcpy(a.shape, shapes[rank - 1], sizeof shapes[0]);
        assert_true(npy_write(PATH, &a, error));
        Npy b;
        assert_true(npy_read(PATH, &b, error));
        assert_int_equal(b.kind, 'f');
        assert_int_equal(b.size, 4);
        assert_int_equal(b.rank, rank);
        assert_int_equal(b.fortran, rank == 2);
        assert_memory_equal(b.shape, a.shape, sizeof *a.shape * (size_t)rank);
        assert_int_equal(b.bytes, sizeof data);
        assert_memory_equal(b.data, data, sizeof data);
        free(b.data);
    }
}

static void header_is_aligned(void **state) {
    (void)state;
    double x = 5;
    Npy a = {.kind = 'f', .size = 8, .data = &x, .bytes = 8};
    assert_true(npy_write(PATH, &a, error));
    FILE *f = fopen(PATH, "rb");
    char bytes[256];
    size_t n = fread(bytes, 1, sizeof bytes, f);
    fclose(f);
    assert_int_equal((n - 8) % 64, 0);
    assert_int_equal(bytes[n - 9], '\n');
    Npy b;
    assert_true(npy_read(PATH, &b, error));
    assert_int_equal(b.rank, 0);
    assert_true(*(double *)b.data == 5);
    free(b.data);
}

static void big_endian(void **state) {
    (void)state;
    write_npy("{'descr': '>i2', 'fortran_order': False, 'shape': (2,), }\n", "\1\2\0\7", 4);
    Npy a;
    assert_true(npy_read(PATH, &a, error));
    assert_int_equal(((int16_t *)a.data)[0], 0x102);
    assert_int_equal(((int16_t *)a.data)[1], 7);
    free(a.data);
}

static void empty(void **state) {
    (void)state;
    write_npy("{'descr': '<f8', 'fortran_order': False, 'shape': (0, 4), }\n", "", 0);
    Npy a;
    assert_true(npy_read(PATH, &a, error));
    assert_int_equal(a.rank, 2);
    assert_int_equal(a.bytes, 0);
    free(a.data);
}

static void damaged(void **state) {
    (void)state;
    static const struct {
        const char *header, *message;
    } cases[] = {
        {"{'descr': '<c8', 'fortran_order': False, 'shape': (1,), }", "'<c8' is not supported"},
        {"{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,), }", "plain numbers"},
        {"{'descr': '<f4', 'fortran_order': False, }", "no shape"},
        {"{'descr': '<f4', 'shape': (1,), }", "no fortran_order"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (9,), }", "cut short"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (-1,), }", "malformed"},
        {"{'descr': '<f8', 'fortran_order': False, 'shape': (4294967296, 4294967296), }", "large"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (1,1,1,1,1,1,1,1,1), }", "8 dim"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (1", "malformed"},
        {"", "plain numbers"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        Npy a;
        write_npy(cases[i].header, "abcd", 4);
        assert_false(npy_read(PATH, &a, error));
        if (!strstr(error, cases[i].message)) fail_msg("%s: %s", cases[i].header, error);
    }
    Npy a;
    write_bytes("\x93NUMPY\x09\0\0\0", 10);
    assert_false(npy_read(PATH, &a, error));
    write_bytes("hello", 5);
    assert_false(npy_read(PATH, &a, error));
    assert_false(npy_read(TEST_OUT "/no-such-file", &a, error));
}

static void images(void **state) {
    (void)state;
    uint8_t pixels[24];
    for (int i = 0; i < 24; i++) pixels[i] = (uint8_t)(i * 10);
    for (int channels = 1; channels <= 4; channels++) {
        Image out = {2, 3, channels, pixels}, in;
        assert_true(png_save(PNG_PATH, &out, error));
        assert_true(png_load(PNG_PATH, &in, error));
        assert_int_equal(in.height, 2);
        assert_int_equal(in.width, 3);
        assert_int_equal(in.channels, channels);
        assert_memory_equal(in.data, pixels, (size_t)(6 * channels));
        free(in.data);
    }
    Image none = {0, 3, 1, pixels}, in;
    assert_false(png_save(PNG_PATH, &none, error));
    write_bytes("not an image", 12);
    assert_false(png_load(PATH, &in, error));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(round_trip), cmocka_unit_test(header_is_aligned),
        cmocka_unit_test(big_endian), cmocka_unit_test(empty),
        cmocka_unit_test(damaged),    cmocka_unit_test(images),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
