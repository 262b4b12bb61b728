// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Reads any bytes as a request or an answer of the compiler's process. They must be refused, or
// read as a message that survives writing and reading.
#include <stdlib.h>

#include "driver/jit.h"

static Bytes body(Bytes message) {
    return (Bytes){message.data + WIRE_HEADER, message.n - WIRE_HEADER};
}

static void read_both(Ctx *ctx, void *arg) {
    const Bytes *in = arg;
    Request r;
    Answer a;
    if (wire_read_request(ctx, *in, &r) &&
        !wire_read_request(ctx, body(wire_write_request(ctx, &r)), &r))
        abort();
    if (wire_read_answer(ctx, *in, &a) &&
        !wire_read_answer(ctx, body(wire_write_answer(ctx, &a)), &a))
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    Ctx *ctx = ctx_create(NULL);
    Bytes in = {(uint8_t *)(uintptr_t)data, size};
    if (ctx_protect(ctx, read_both, &in) != CTX_OK) abort();
    ctx_destroy(ctx);
    return 0;
}
