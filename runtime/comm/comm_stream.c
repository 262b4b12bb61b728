// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// See comm_stream.h.
#include "runtime/comm/comm_stream.h"

#include "runtime/runtime.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <time.h>

bool rt_send_whole(int socket, struct iovec *parts, int n) {
    struct msghdr m = {.msg_iov = parts, .msg_iovlen = (size_t)n};
    while (m.msg_iovlen) {
        ssize_t sent = sendmsg(socket, &m, MSG_NOSIGNAL);
        if (sent < 0 && errno == EINTR) continue;
        if (sent < 0) return false;
        for (size_t left = (size_t)sent; m.msg_iovlen && left >= m.msg_iov->iov_len;) {
            left -= m.msg_iov->iov_len;
            m.msg_iov++;
            m.msg_iovlen--;
            sent = (ssize_t)left;
        }
        if (!m.msg_iovlen) break;
        m.msg_iov->iov_base = (char *)m.msg_iov->iov_base + sent;
        m.msg_iov->iov_len -= (size_t)sent;
    }
    return true;
}

bool rt_send_bytes(int socket, const void *bytes, size_t size) {
    return rt_send_whole(socket, &(struct iovec){(void *)(uintptr_t)bytes, size}, 1);
}

bool rt_receive_bytes(int socket, void *bytes, size_t size) {
    for (size_t at = 0; at < size;) {
        ssize_t got = recv(socket, (char *)bytes + at, size - at, 0);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) return false;
        at += (size_t)got;
    }
    return true;
}

int rt_left_ms(int64_t end) {
    int64_t left = end - rt_now_ns(), ms = (left + 999999) / 1000000;
    return left <= 0 ? 0 : ms < INT_MAX ? (int)ms : INT_MAX;
}

void rt_limit(int socket, int ms) {
    struct timeval t = {.tv_sec = ms / 1000, .tv_usec = ms % 1000 * 1000};
    if (t.tv_sec <= 0 && t.tv_usec <= 0) t = (struct timeval){.tv_usec = 1000};
    setsockopt(socket, SOL_SOCKET, SO_RCVTIMEO, &t, sizeof t);
    setsockopt(socket, SOL_SOCKET, SO_SNDTIMEO, &t, sizeof t);
}

bool rt_receive_some(int socket, void *bytes, size_t size, size_t *got) {
    ssize_t more = recv(socket, (char *)bytes + *got, size - *got, MSG_DONTWAIT);
    if (more > 0) *got += (size_t)more;
    return more > 0 || (more < 0 && (errno == EAGAIN || errno == EINTR));
}

bool rt_receive_until(int socket, void *bytes, size_t size, int64_t end) {
    struct pollfd ready = {.fd = socket, .events = POLLIN};
    size_t got = 0;
    while (got < size) {
        int left = rt_left_ms(end);
        if (!left) return false;
        if (poll(&ready, 1, left) > 0 && !rt_receive_some(socket, bytes, size, &got)) return false;
    }
    return true;
}

void rt_pause(int *ms, int64_t end) {
    enum { FIRST_MS = 5, MOST_MS = 100 };
    int left = rt_left_ms(end), longer = *ms ? 2 * *ms : FIRST_MS;
    *ms = longer < MOST_MS ? longer : MOST_MS;
    int now = *ms < left ? *ms : left;
    nanosleep(&(struct timespec){.tv_nsec = now * 1000000L}, NULL);
}
