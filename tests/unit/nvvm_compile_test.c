// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What libNVVM and ptxas hand back where they refuse, which architectures there are, and whose
// functions they have.
#include "backends/nvidia/nvidia.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static void architectures(void **state) {
    (void)state;
    assert_null(nv_arch("sm_75"));
    assert_null(nv_arch("sm_90b"));
    assert_true(nv_arch_has(nv_arch("sm_86"), "80"));
    assert_false(nv_arch_has(nv_arch("sm_86"), "89"));
    assert_false(nv_arch_has(nv_arch("sm_90"), "90a"));
    assert_true(nv_arch_has(nv_arch("sm_120a"), "90a"));
    assert_true(nv_arch_has(nv_arch("sm_90a"), "=90a"));
    assert_false(nv_arch_has(nv_arch("sm_120a"), "=90a"));
}

static NvOutput refused(NvStatus (*compile)(const char *text, NvOutput *out), const char *text) {
    NvOutput out;
    NvStatus status = compile(text, &out);
    if (status == NV_ABSENT) {
        print_message("libNVVM or ptxas was not found: nothing is tested\n");
        skip();
    }
    assert_int_equal(status, NV_FAILED);
    assert_null(out.data);
    assert_non_null(out.log);
    return out;
}

static NvStatus by_nvvm(const char *text, NvOutput *out) {
    return nvvm_compile(text, strlen(text), nv_arch("sm_90a"), 3, out);
}

static NvStatus by_ptxas(const char *text, NvOutput *out) {
    return nv_ptxas(text, strlen(text), nv_arch("sm_80"), out);
}

/// Why there is a writer: before sm_100 libNVVM knows no opaque pointers.
static void opaque_pointers(void **state) {
    NvOutput out = refused(by_nvvm, "define void @k(ptr %p) {\n  ret void\n}\n");
    (void)state;
    assert_non_null(strstr(out.log, "expected type"));
    nv_output_free(&out);
    assert_null(out.log);
}

static void bad_ptx(void **state) {
    NvOutput out = refused(by_ptxas, ".version 8.0\n.target sm_80\n.entry k() { hop; }\n");
    (void)state;
    assert_non_null(strstr(out.log, "line 3"));
    nv_output_free(&out);
}

static void later_ptx(void **state) {
    NvOutput out = refused(by_ptxas, ".version 8.0\n.target sm_90\n");
    (void)state;
    nv_output_free(&out);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(architectures),
        cmocka_unit_test(opaque_pointers),
        cmocka_unit_test(bad_ptx),
        cmocka_unit_test(later_ptx),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
