// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Requests and answers as bytes: a written message reads back. Any other input is refused or read
// as a valid message, but never trusted.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "driver/jit.h"

static const int64_t shape[] = {3, 0}, strides[] = {-4, 1};

static Request sample_request(void) {
    static const SourceText texts[] = {{"a.teg", "kernel a() {}", 13}, {"dir/b.teg", "", 0}};
    static const char *const paths[] = {"one", "two/three"};
    static const NamedValue set[] = {{"BM", 64}, {"split", -1}};
    static const tg_actual args[] = {
        {.null = 1},
        {.code = 2, .bits = 32, .rank = 2, .shape = shape, .strides = strides},
        {.code = 0, .bits = 64, .value = INT64_MIN},
    };
    static const Key known[] = {{"abc", 3}, {"", 0}};
    return (Request){.path = "a.teg",
                     .n_texts = 2,
                     .texts = texts,
                     .n_paths = 2,
                     .paths = paths,
                     .kernel = "a",
                     .n_set = 2,
                     .set = set,
                     .check = true,
                     .threads = 7,
                     .n_args = 3,
                     .args = args,
                     .n_known = 2,
                     .known = known};
}

/// For a GPU: PTX with a function and a site.
static tg_image sample_image(void) {
    static const tg_device_function function = {"scale", 256, 2, 1024, 5, TG_DEVICE_FAULTS, 4};
    static const tg_site site = {TG_SITE_ASSERT, 3, 7, 2, 1, 0, "a.teg", "x is {}", "fd"};
    static const tg_site *const sites[] = {&site};
    return (tg_image){.kind = TG_IMAGE_PTX,
                      .n_functions = 1,
                      .n_sites = 1,
                      .arch = 90,
                      .specific = 1,
                      .target = "sm_90a",
                      .bytes = ".version",
                      .size = 9,
                      .functions = &function,
                      .sites = sites};
}

static Answer sample_answer(void) {
    static const tg_fact facts[] = {{.kind = TG_FACT_STRIDE, .param = 1, .axis = 1, .value = 1}};
    static const tg_hint hints[] = {{.param = 1, .axis = 0, .extent = 3}};
    static const uint8_t params[] = {1, 2}, inplace[] = {1, 2};
    static const tg_variant variant = {.facts = facts,
                                       .hints = hints,
                                       .params = params,
                                       .inplace = inplace,
                                       .config = "BM=64",
                                       .n_facts = 1,
                                       .n_hints = 1,
                                       .n_params = 2,
                                       .n_inplace = 1};
    static char object[] = "object";
    static tg_image image;
    static Code code = {.object = object, .object_bytes = 6, .image = &image};
    image = sample_image();
    static const char *warnings[] = {"warning: one", "two"};
    return (Answer){.n_warnings = 2,
                    .warnings = warnings,
                    .variant = &variant,
                    .key = {"key", 3},
                    .same = -1,
                    .code = &code};
}

static Bytes body(Bytes message) {
    size_t length;
    WireKind kind;
    assert_true(wire_read_header(message.data, &kind, &length));
    assert_int_equal(length, message.n - WIRE_HEADER);
    return (Bytes){message.data + WIRE_HEADER, length};
}

static void request_there_and_back(Ctx *ctx, void *arg) {
    (void)arg;
    Request r = sample_request(), s;
    assert_true(wire_read_request(ctx, body(wire_write_request(ctx, &r)), &s));
    assert_string_equal(s.path, "a.teg");
    assert_int_equal(s.n_texts, 2);
    assert_int_equal(s.texts[0].length, 13);
    assert_memory_equal(s.texts[0].text, "kernel a() {}", 13);
    assert_string_equal(s.paths[1], "two/three");
    assert_string_equal(s.set[1].name, "split");
    assert_int_equal(s.set[1].value, -1);
    assert_true(s.check && !s.debug && s.threads == 7 && !s.target);
    assert_int_equal(s.args[0].null, 1);
    assert_int_equal(s.args[1].strides[0], -4);
    assert_true(s.args[2].value == INT64_MIN);
    assert_memory_equal(s.known[0].bytes, "abc", 3);
}

static void answer_there_and_back(Ctx *ctx, void *arg) {
    (void)arg;
    Answer a = sample_answer(), b;
    assert_true(wire_read_answer(ctx, body(wire_write_answer(ctx, &a)), &b));
    assert_string_equal(b.variant->config, "BM=64");
    assert_memory_equal(b.variant->facts, a.variant->facts, sizeof *a.variant->facts);
    assert_int_equal(b.variant->inplace[1], 2);
    assert_int_equal(b.code->object_bytes, 6);
    assert_string_equal(b.warnings[1], "two");
    const tg_image *image = b.code->image;
    assert_int_equal(image->size, 9);
    assert_string_equal(image->bytes, ".version");
    assert_string_equal(image->target, "sm_90a");
    assert_int_equal(image->arch, 90);
    assert_string_equal(image->functions[0].name, "scale");
    assert_int_equal(image->functions[0].cluster, 2);
    assert_int_equal(image->functions[0].together, 4);
    assert_string_equal(image->sites[0]->text, "x is {}");
    assert_int_equal(image->sites[0]->n_indices, 1);
    a = (Answer){.status = TG_ERROR_SOURCE, .message = "text", .same = -1};
    assert_true(wire_read_answer(ctx, body(wire_write_answer(ctx, &a)), &b));
    assert_string_equal(b.message, "text");
}

/// Reads bytes as both kinds of messages. An accepted message must write to an acceptable one.
static void read_both(Ctx *ctx, void *arg) {
    const Bytes *in = arg;
    Request r;
    Answer a;
    if (wire_read_request(ctx, *in, &r))
        assert_true(wire_read_request(ctx, body(wire_write_request(ctx, &r)), &r));
    if (wire_read_answer(ctx, *in, &a))
        assert_true(wire_read_answer(ctx, body(wire_write_answer(ctx, &a)), &a));
}

/// In memory of exact size, so that a sanitizer sees a read beyond it.
static void read_copy(const uint8_t *data, size_t n) {
    Bytes in = {malloc(n ? n : 1), n};
    memcpy(in.data, data, n);
    Ctx *ctx = ctx_create(NULL);
    assert_int_equal(ctx_protect(ctx, read_both, &in), CTX_OK);
    ctx_destroy(ctx);
    free(in.data);
}

static void damage(Bytes message) {
    Bytes b = body(message);
    for (size_t n = 0; n <= b.n; n++) read_copy(b.data, n);
    static const uint8_t values[] = {0, 1, 0x7f, 0x80, 0xff};
    for (size_t i = 0; i < b.n; i++) {
        uint8_t old = b.data[i];
        for (size_t v = 0; v < sizeof values; v++) {
            b.data[i] = values[v];
            read_copy(b.data, b.n);
        }
        b.data[i] = old;
    }
}

static void damage_all(Ctx *ctx, void *arg) {
    (void)arg;
    Request r = sample_request();
    Answer a = sample_answer();
    damage(wire_write_request(ctx, &r));
    damage(wire_write_answer(ctx, &a));
}

static void headers(Ctx *ctx, void *arg) {
    (void)arg;
    Request r = sample_request();
    Bytes b = wire_write_request(ctx, &r);
    size_t length;
    WireKind kind;
    assert_true(wire_read_header(b.data, &kind, &length));
    assert_int_equal(kind, WIRE_REQUEST);
    for (int i = 0; i < 8; i++) {
        b.data[i] ^= 1;
        assert_false(wire_read_header(b.data, &kind, &length));
        b.data[i] ^= 1;
    }
    b.data[15] = 1; // an absurd length
    assert_false(wire_read_header(b.data, &kind, &length));
}

static void in_context(void (*test)(Ctx *ctx, void *arg)) {
    Ctx *ctx = ctx_create(NULL);
    assert_int_equal(ctx_protect(ctx, test, NULL), CTX_OK);
    ctx_destroy(ctx);
}

static void test_round_trip(void **state) {
    (void)state;
    in_context(request_there_and_back);
    in_context(answer_there_and_back);
}

static void test_damage(void **state) {
    (void)state;
    in_context(damage_all);
    in_context(headers);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trip),
        cmocka_unit_test(test_damage),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
