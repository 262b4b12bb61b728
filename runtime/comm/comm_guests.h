// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Guests: connections to a listening rank whose rank is not known yet. Each gets a nonce at once
// and answers with a message of a fixed size.
#ifndef RUNTIME_COMM_COMM_GUESTS_H
#define RUNTIME_COMM_COMM_GUESTS_H

#include "runtime/base/hmac.h"

enum { RT_GUESTS = 64, RT_GUEST_BYTES = 256 };

typedef struct rt_guest {
    int socket;
    size_t got;
    uint8_t nonce[RT_NONCE], said[RT_GUEST_BYTES];
} rt_guest;

typedef struct rt_guests {
    int listener;
    size_t size; // of each guest's message
    int n;       // guests with incomplete messages, the oldest first
    rt_guest at[RT_GUESTS];
} rt_guests;

/// Returns the first guest whose message is complete before `end` of rt_now_ns. The caller owns its
/// socket. All guests are read at once, so none delays another; if there are too many, the oldest
/// is dropped. False: the time is over.
bool rt_next_guest(rt_guests *g, int64_t end, rt_guest *out);
/// Closes the remaining guests.
void rt_guests_end(rt_guests *g);

#endif
