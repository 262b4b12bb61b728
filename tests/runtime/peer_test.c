// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Tests the user of a connection's other end: each look-up sees the connections of its moment.
#include "runtime/comm/comm_peer.h"

#include <net/if.h>
#include <netinet/in.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

enum { HELD = 2, ROUNDS = 40 };

typedef struct Pair {
    int one, two;
} Pair;

/// Listens at any port of the loopback address; -1: the system lacks the family.
static int listen_in(int family) {
    struct sockaddr_in four = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    struct sockaddr_in6 six = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT};
    bool is_six = family == AF_INET6;
    const void *at = is_six ? (void *)&six : (void *)&four;
    int s = socket(family, SOCK_STREAM, 0);
    if (s < 0) return -1;
    if (bind(s, at, is_six ? sizeof six : sizeof four) == 0 && listen(s, 1) == 0) return s;
    close(s);
    return -1;
}

static Pair connect_to(int listener) {
    struct sockaddr_storage at;
    socklen_t size = sizeof at;
    assert_int_equal(getsockname(listener, (struct sockaddr *)&at, &size), 0);
    Pair p = {.one = socket(at.ss_family, SOCK_STREAM, 0)};
    assert_int_equal(connect(p.one, (struct sockaddr *)&at, size), 0);
    p.two = accept(listener, NULL, NULL);
    assert_true(p.two >= 0);
    return p;
}

/// Leaves no line in the list.
static void close_pair(Pair p) {
    struct linger at_once = {.l_onoff = 1};
    setsockopt(p.one, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
    close(p.one);
    close(p.two);
}

/// Connections come and end between the look-ups, so their places in the list change.
static void sees_each(int family) {
    int listener = listen_in(family);
    if (listener < 0) return;
    Pair held[HELD];
    rt_peers peers;
    rt_peers_open(&peers);
    for (int i = 0; i < HELD; i++) held[i] = connect_to(listener);
    for (int i = 0; i < ROUNDS; i++) {
        close_pair(held[i % HELD]);
        Pair p = held[i % HELD] = connect_to(listener);
        assert_int_equal(rt_peer_of(&peers, p.one), RT_PEER_OWN);
        assert_int_equal(rt_peer_of(&peers, p.two), RT_PEER_OWN);
        shutdown(p.one, SHUT_WR);
        assert_int_equal(rt_peer_of(&peers, p.two), RT_PEER_GONE);
    }
    for (int i = 0; i < HELD; i++) close_pair(held[i]);
    rt_peers_close(&peers);
    close(listener);
}

static void four(void **state) {
    (void)state;
    sees_each(AF_INET);
}

static void six(void **state) {
    (void)state;
    sees_each(AF_INET6);
}

/// Without the system's lists, the user of no peer is known.
static void closed(void **state) {
    (void)state;
    int listener = listen_in(AF_INET);
    Pair p = connect_to(listener);
    rt_peers none = RT_NO_PEERS;
    assert_int_equal(rt_peer_of(&none, p.one), RT_PEER_OTHER);
    rt_peers_close(&none);
    close_pair(p);
    close(listener);
}

/// Root gets a network name space. Its list is short, so that one read returns all of it.
static void leave_network(void) {
    struct ifreq lo = {.ifr_name = "lo", .ifr_flags = IFF_UP | IFF_RUNNING};
    if (unshare(CLONE_NEWNET)) return;
    int s = socket(AF_INET, SOCK_DGRAM, 0);
    assert_int_equal(ioctl(s, SIOCSIFFLAGS, &lo), 0);
    close(s);
}

int main(void) {
    leave_network();
    const struct CMUnitTest tests[] = {cmocka_unit_test(four), cmocka_unit_test(six),
                                       cmocka_unit_test(closed)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
