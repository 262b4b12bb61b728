// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Files of tuning results, and the JSON code below them.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "driver/json.h"
#include "driver/tune/tuned_file.h"

static int setup(void **state) {
    *state = ctx_create(NULL);
    return *state ? 0 : -1;
}

static int teardown(void **state) {
    ctx_destroy(*state);
    return 0;
}

static const Json *read(Ctx *ctx, const char *text, const char **error) {
    *error = NULL;
    return json_read(ctx, text, strlen(text), error);
}

static void test_json_values(void **state) {
    const char *error;
    const Json *j = read(*state,
                         " {\"a\": [1, -2.5e3, true,\nfalse, null], \"b\\n\\u00e9\\ud83d\\ude00\": "
                         "{}, \"c\": \"\"} ",
                         &error);
    assert_non_null(j);
    const Json *item = json_member(j, "a")->first;
    const double numbers[] = {1, -2500, 1, 0, 0};
    const int kinds[] = {JSON_NUMBER, JSON_NUMBER, JSON_BOOL, JSON_BOOL, JSON_NULL};
    for (int i = 0; i < 5; i++, item = item->next) {
        assert_int_equal(item->kind, kinds[i]);
        assert_true(item->number == numbers[i]);
        assert_int_equal(item->line, i < 3 ? 1 : 2);
    }
    assert_null(item);
    assert_int_equal(json_member(j, "b\n\xc3\xa9\xf0\x9f\x98\x80")->kind, JSON_OBJECT);
    assert_string_equal(json_member(j, "c")->text, "");
    assert_null(json_member(j, "d"));
}

static void test_json_mistakes(void **state) {
    static const char *const texts[] = {
        "",
        "{",
        "[1",
        "[1,]",
        "{\"a\" 1}",
        "{a: 1}",
        "\"",
        "\"\\x\"",
        "\"\\u12",
        "\"\\ud800\"",
        "01x",
        "+1",
        "1e999",
        "nul",
        "1 2",
        "\"a\nb\"",
        "[1 2]",
        "{\"a\":1,}",
        "\"\\ud83d\\u0041\"",
        "-",
        "Infinity",
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        const char *error;
        const Json *j = read(*state, texts[i], &error);
        if (j || !error) fail_msg("'%s' was read", texts[i]);
    }
    char deep[2000];
    const char *error;
    memset(deep, '[', sizeof deep);
    assert_null(json_read(*state, deep, sizeof deep, &error));
    assert_non_null(strstr(error, "too many brackets"));
    assert_null(read(*state, "[1,\n2,\n!]", &error));
    assert_non_null(strstr(error, "line 3"));
}

/// Replaces every byte of a text, and cuts it at every length: the result is an error or a value.
static void test_json_damage(void **state) {
    static const char text[] = "{\"a\": [1, \"x\\u0041\\n\", {\"b\": null}], \"c\": -1.5e-3}";
    const char *error;
    for (size_t at = 0; at < sizeof text - 1; at++) {
        for (int c = 0; c < 256; c += 3) {
            char copy[sizeof text];
            memcpy(copy, text, sizeof text);
            copy[at] = (char)c;
            json_read(*state, copy, sizeof text - 1, &error);
        }
        char *cut = malloc(at + 1); // of exact size, so that a read beyond the end shows
        memcpy(cut, text, at);
        assert_null(json_read(*state, cut, at, &error));
        free(cut);
    }
}

static void test_json_writing(void **state) {
    static const char text[] = "\"\\ \n\x01 \xc3\xa9";
    static const double numbers[] = {0, -1, 0.1, 1e-300, 123456789.125, 1.0 / 3};
    const char *error;
    Text t = {.ctx = *state};
    json_quote(&t, text);
    assert_string_equal(read(*state, t.data, &error)->text, text);
    for (int i = 0; i < 6; i++) {
        t = (Text){.ctx = *state};
        json_number(&t, numbers[i]);
        assert_true(read(*state, t.data, &error)->number == numbers[i]);
    }
}

static TunedEntry entry(const char *kernel, const char *device, const char *shape, double seconds) {
    return (TunedEntry){kernel,          "sm_90a", device,      shape,
                        "BM=64 warps=4", seconds,  2 * seconds, false};
}

static void test_order(void **state) {
    const TunedEntry entries[] = {
        entry("b", "x", "M=1", 1), entry("a", "y", "M=1", 2), entry("a", "x", "M=2", 3),
        entry("a", "x", "M=1", 4), entry("b", "x", "M=1", 5), // replaces the first
    };
    Tuned all = {0};
    for (int i = 0; i < 5; i++) tuned_add(*state, &all, &entries[i]);
    assert_int_equal(all.n, 4);
    const double order[] = {4, 3, 2, 5};
    for (int i = 0; i < 4; i++) assert_true(all.data[i].seconds == order[i]);
    // Reading returns the written data, and writing again gives the same bytes.
    Text first = {.ctx = *state}, second = {.ctx = *state};
    const char *error = NULL;
    Tuned read = {0};
    tuned_write(&first, &all);
    assert_true(tuned_read(*state, first.data, first.n, &read, &error));
    tuned_write(&second, &read);
    assert_string_equal(first.data, second.data);
    assert_int_equal(read.n, 4);
    assert_true(read.data[3].standard == 10);
}

/// The result of an interrupted search serves until a complete search replaces it.
static void test_interrupted(void **state) {
    TunedEntry whole = entry("a", "x", "M=1", 1), half = entry("a", "x", "M=1", 2);
    half.interrupted = true;
    Tuned all = {0}, read = {0};
    Text t = {.ctx = *state};
    const char *error = NULL;
    tuned_add(*state, &all, &half);
    tuned_write(&t, &all);
    assert_non_null(strstr(t.data, "\"interrupted\": true"));
    assert_true(tuned_read(*state, t.data, t.n, &read, &error));
    assert_true(read.n == 1 && read.data[0].interrupted);
    tuned_add(*state, &read, &whole);
    assert_true(read.n == 1 && read.data[0].seconds == 1 && !read.data[0].interrupted);
    tuned_add(*state, &read, &half);
    assert_true(read.n == 1 && read.data[0].seconds == 1);
}

static void test_foreign_files(void **state) {
    static const struct {
        const char *text, *error;
    } files[] = {
        {"{}", "not a file of 'tegula tune'"},
        {"[]", "not a file of 'tegula tune'"},
        {"{\"tegula_tuned\": 2, \"entries\": []}", "version 2"},
        {"{\"tegula_tuned\": 1, \"entries\": [\n3]}", "line 2: an entry has"},
        {"{\"tegula_tuned\": 1, \"entries\": [{\"kernel\": \"a\", \"target\": \"b\", \"device\": "
         "\"c\", \"shape\": \"M\", \"config\": \"\"}]}",
         "a shape is of the form"},
        {"{\"tegula_tuned\": 1, \"entries\": [{\"kernel\": \"a\", \"target\": \"b\", \"device\": "
         "\"c\", \"shape\": \"\", \"config\": \"B=x\"}]}",
         "a config is of the form"},
    };
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        Tuned all = {0};
        const char *error = "";
        assert_false(tuned_read(*state, files[i].text, strlen(files[i].text), &all, &error));
        if (!strstr(error, files[i].error)) fail_msg("'%s' for '%s'", error, files[i].text);
    }
}

static void test_values(void **state) {
    NamedValue *v;
    int n;
    assert_null(values_read(*state, " BM=64,BN=-3\tx=0x10", &n, &v));
    assert_int_equal(n, 3);
    assert_string_equal(v[1].name, "BN");
    assert_true(v[0].value == 64 && v[1].value == -3 && v[2].value == 16);
    assert_null(values_read(*state, "plan=push causal=true all=false", &n, &v));
    assert_true(n == 3 && v[0].value == PLAN_PUSH && v[1].value == 1 && v[2].value == 0);
    assert_null(values_read(*state, "", &n, &v));
    assert_int_equal(n, 0);
    static const char *const bad[] = {
        "BM", "=3", "BM=", "BM=3x", "BM=99999999999999999999", "a=1 b", "BM=push", "plan=pul"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_non_null(values_read(*state, bad[i], &n, &v));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_json_values, setup, teardown),
        cmocka_unit_test_setup_teardown(test_json_mistakes, setup, teardown),
        cmocka_unit_test_setup_teardown(test_json_damage, setup, teardown),
        cmocka_unit_test_setup_teardown(test_json_writing, setup, teardown),
        cmocka_unit_test_setup_teardown(test_order, setup, teardown),
        cmocka_unit_test_setup_teardown(test_interrupted, setup, teardown),
        cmocka_unit_test_setup_teardown(test_foreign_files, setup, teardown),
        cmocka_unit_test_setup_teardown(test_values, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
