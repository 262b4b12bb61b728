// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The public headers in C++: they compile, and their functions have the names of C.
#include "runtime/tegula.h"

#include "runtime/abi.h"

#include <cstdio>
#include <cstring>
#include <vector>

int main() {
    std::vector<float> data(6);
    std::vector<int64_t> shape = {2, 3};
    DLTensor t = tg_dense(data.data(), kDLFloat, 32, 2, shape.data());
    tg_arg args[] = {tg_tensor(&t), tg_none(), tg_int(1), tg_float(0.5)};
    if (tg_launch(nullptr, args, 4) != TG_ERROR_ARGUMENT) return 1;
    if (std::strcmp(tg_status_name(TG_ERROR_ARGUMENT), "TG_ERROR_ARGUMENT") != 0) return 2;
    tg_context *context = nullptr;
    tg_options options = {};
    options.size = sizeof options;
    options.threads = 2;
    if (tg_context_create(&options, &context) != TG_OK) return 3;
    if (tg_context_threads(context) != 2) return 4;
    tg_context_destroy(context);
    std::puts(tg_last_error());
    return 0;
}
