// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// See comm_guests.h.
#include "runtime/comm/comm_guests.h"

#include "runtime/comm/comm_stream.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

static void drop_guest(rt_guests *g, int i) {
    close(g->at[i].socket);
    memmove(&g->at[i], &g->at[i + 1], sizeof *g->at * (size_t)(--g->n - i));
}

void rt_guests_end(rt_guests *g) {
    while (g->n) drop_guest(g, g->n - 1);
}

/// If the process can open no more files, drops the oldest guest. If there is no guest, the new
/// connection stays in the queue until another thread closes a file. A poll would return at once,
/// so this function sleeps.
static void make_file_room(rt_guests *g) {
    const struct timespec pause = {.tv_nsec = 5000000};
    if (g->n)
        drop_guest(g, 0);
    else
        nanosleep(&pause, NULL);
}

static void take_in(rt_guests *g) {
    int s = accept4(g->listener, NULL, NULL, SOCK_CLOEXEC);
    bool full = errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM;
    if (s < 0 && full) make_file_room(g);
    if (s < 0) return;
    if (g->n == RT_GUESTS) drop_guest(g, 0);
    rt_guest *guest = &g->at[g->n++];
    *guest = (rt_guest){.socket = s};
    bool greeted = rt_nonce(guest->nonce) &&
                   send(s, guest->nonce, RT_NONCE, MSG_DONTWAIT | MSG_NOSIGNAL) == RT_NONCE;
    if (!greeted) drop_guest(g, g->n - 1);
}

/// Returns the index of a guest whose message is complete, or -1.
static int listen_to_all(rt_guests *g, const struct pollfd *ready) {
    for (int i = g->n - 1; i >= 0; i--) {
        rt_guest *guest = &g->at[i];
        if (!ready[i].revents) continue;
        if (!rt_receive_some(guest->socket, guest->said, g->size, &guest->got))
            drop_guest(g, i);
        else if (guest->got == g->size)
            return i;
    }
    return -1;
}

bool rt_next_guest(rt_guests *g, int64_t end, rt_guest *out) {
    for (;;) {
        struct pollfd ready[RT_GUESTS + 1];
        int left = rt_left_ms(end), n = g->n;
        for (int i = 0; i < n; i++)
            ready[i] = (struct pollfd){.fd = g->at[i].socket, .events = POLLIN};
        ready[n] = (struct pollfd){.fd = g->listener, .events = POLLIN};
        if (!left) return false;
        if (poll(ready, (nfds_t)n + 1, left) <= 0) continue;
        int i = listen_to_all(g, ready);
        if (i >= 0) {
            *out = g->at[i];
            memmove(&g->at[i], &g->at[i + 1], sizeof *g->at * (size_t)(--g->n - i));
            return true;
        }
        if (ready[n].revents) take_in(g);
    }
}
