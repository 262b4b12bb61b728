// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "driver/jit.h"
bool server_wanted(void) {
    return false;
}
void server_compile(Ctx *ctx, const Request *r, Answer *out) {
    request_compile(ctx, r, true, out);
}
