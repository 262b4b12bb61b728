// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Connections to a rank that listens, until they have said who they are. Each gets a nonce at once
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
    size_t size; // of what each says
    int n;       // that have not said all, the first that came first
    rt_guest at[RT_GUESTS];
} rt_guests;

/// The first that has said all before `end` of rt_now_ns: its socket is the caller's. All are
/// listened to at once, so that none can keep another one waiting; of too many the oldest goes.
/// False: the time is over.
bool rt_next_guest(rt_guests *g, int64_t end, rt_guest *out);
/// Closes those that are left.
void rt_guests_end(rt_guests *g);

/// All the bytes before `end`, however they drip; else false.
bool rt_receive_until(int socket, void *bytes, size_t size, int64_t end);
/// How long one call on the socket lasts at most.
void rt_limit(int socket, int ms);
/// Milliseconds until `end`, rounded up; 0: it is over.
int rt_left_ms(int64_t end);

#endif
