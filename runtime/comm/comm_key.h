// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// TG_RANK_KEY: ranks that know it prove so to each other by an HMAC over a nonce of the other side.
// The key itself is never sent.
#ifndef RUNTIME_COMM_COMM_KEY_H
#define RUNTIME_COMM_COMM_KEY_H

#include "runtime/base/hmac.h"

/// Returns the key, or "" if there is none.
const char *rt_rank_key(void);
/// Proves a message with the receiver's nonce. what: the kind of the message, so that a proof is
/// valid for one kind only.
void rt_prove(const char *what, const uint8_t *nonce, const void *message, size_t n,
              uint8_t out[RT_PROOF]);
bool rt_is_proved(const char *what, const uint8_t *nonce, const void *message, size_t n,
                  const uint8_t *proof);

/// Prove, or test, all fields of a structure up to its `proof`.
#define RT_PROVE(what, nonce, m)                                                                   \
    rt_prove(what, nonce, m, offsetof(__typeof__(*(m)), proof), (m)->proof)
#define RT_IS_PROVED(what, nonce, m)                                                               \
    rt_is_proved(what, nonce, m, offsetof(__typeof__(*(m)), proof), (m)->proof)

#endif
