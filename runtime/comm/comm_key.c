// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// See comm_key.h.
#include "runtime/comm/comm_key.h"

#include <stdlib.h>
#include <string.h>

const char *rt_rank_key(void) {
    const char *set = secure_getenv("TG_RANK_KEY");
    return set ? set : "";
}

void rt_prove(const char *what, const uint8_t *nonce, const void *message, size_t n,
              uint8_t out[RT_PROOF]) {
    rt_piece pieces[] = {{what, strlen(what)}, {nonce, RT_NONCE}, {message, n}};
    rt_hmac(rt_rank_key(), pieces, 3, out);
}

bool rt_is_proved(const char *what, const uint8_t *nonce, const void *message, size_t n,
                  const uint8_t *proof) {
    uint8_t right[RT_PROOF];
    rt_prove(what, nonce, message, n, right);
    return rt_hmac_equal(right, proof);
}
