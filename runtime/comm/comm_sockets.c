// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Ranks that meet at HOST:PORT, where rank 0 listens. If all ranks are on one host, they go on to
// meet as processes do. Otherwise each rank keeps a connection to each other rank. The connections
// carry writes into the other ranks' host memory, and a thread of each rank applies them in the
// order of sending. A rank that ends says so first; if a connection ends without that, its rank has
// died.
//
// A process that can reach the port and knows TG_RANK_KEY can take part. Each side proves that it
// knows the key by an HMAC over a nonce of the other side, so the key itself is never sent, and
// does so again where the ranks of one host meet as processes. Later traffic is neither encrypted
// nor signed. Without a key, ranks meet only at loopback addresses, and only those of one user. The
// meeting ends at its time limit, whatever other processes do.
#include "runtime/comm/comm.h"
#include "runtime/comm/comm_guests.h"
#include "runtime/comm/comm_key.h"
#include "runtime/comm/comm_peer.h"
#include "runtime/comm/comm_stream.h"
#include "runtime/runtime.h"

#include <errno.h>
#include <limits.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

typedef struct sockaddr_storage Address;

/// The first message of a rank to rank 0, with a proof of all fields before it.
typedef struct Hello {
    rt_hello rank;
    uint64_t host; // rt_comm_host
    uint32_t port; // where it listens for higher ranks, in network order
    uint32_t reserved;
    uint8_t nonce[RT_NONCE], proof[RT_PROOF];
} Hello;

enum { NO_GROUP = 0 };
_Static_assert(RT_PROOF == 2 * RT_NONCE, "a proof is as long as two nonces");

/// Rank 0's answer. text: the reason of a failure, or empty.
typedef struct HostsAnswer {
    char text[RT_COMM_TEXT];
    uint64_t group; // random, unique to the group, never NO_GROUP
    uint64_t hosts[RT_COMM_RANKS];
    Address at[RT_COMM_RANKS];
    uint8_t proof[RT_PROOF];
} HostsAnswer;

/// The first message of a rank to a lower rank other than rank 0.
typedef struct Greeting {
    uint64_t group;
    int64_t rank, to;
    uint8_t proof[RT_PROOF];
} Greeting;
_Static_assert(sizeof(Hello) <= RT_GUEST_BYTES && sizeof(Greeting) <= RT_GUEST_BYTES, "room");

enum MessageKind { PUT, SET, ADD, BYE };
typedef struct Message {
    uint32_t kind, bytes; // bytes: of PUT; they follow
    uint64_t at;
    int64_t value;
} Message;

typedef struct Hosts {
    int n, rank;
    int sockets[RT_COMM_RANKS]; // -1: none
    int listener;
    int wake[2]; // a pipe that ends the reader
    bool reads;  // the reader runs
    pthread_t reader;
    pthread_mutex_t sending[RT_COMM_RANKS];
    _Atomic bool gone[RT_COMM_RANKS], left[RT_COMM_RANKS]; // left: it said BYE
    char *own;
    size_t bytes;
    int64_t end;   // of the meeting
    int strangers; // connections with a wrong key
    int others;    // connections of other users, where there is no key
    rt_peers peers;
    uint8_t nonces[RT_COMM_RANKS][RT_NONCE];
    HostsAnswer answer;
} Hosts;

/* ---- sockets --------------------------------------------------------------------------------- */

/// Returns the colon before the port; NULL: not a HOST:PORT.
static const char *port_of(const char *meet) {
    const char *colon = meet && !strchr(meet, '/') ? strrchr(meet, ':') : NULL;
    char *end;
    if (!colon || colon == meet || colon[1] < '0' || colon[1] > '9') return NULL;
    long port = strtol(colon + 1, &end, 10);
    return *end || port < 1 || port > 65535 ? NULL : colon;
}

bool rt_sockets_named(const char *meet) {
    return port_of(meet) != NULL;
}

static tg_status fail_meeting(const tg_comm_options *o, const char *doing, const char *why) {
    return tg_fail(TG_ERROR_ARGUMENT, "tg_comm_create: rank %d: %s at '%s': %s", o->rank, doing,
                   o->meet, why);
}

/// Resolves HOST:PORT, or [HOST]:PORT for IPv6. The caller frees *out with freeaddrinfo.
static tg_status find_address(const tg_comm_options *o, struct addrinfo **out) {
    const char *colon = port_of(o->meet), *from = o->meet, *to = colon;
    struct addrinfo want = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
    char name[256];
    if (*from == '[' && to[-1] == ']') {
        from++;
        to--;
    }
    snprintf(name, sizeof name, "%.*s", (int)(to - from), from);
    int error = getaddrinfo(name, colon + 1, &want, out);
    return error ? fail_meeting(o, "finding the host", gai_strerror(error)) : TG_OK;
}

static int64_t meeting_deadline(const tg_comm_options *o) {
    return rt_now_ns() + (int64_t)o->timeout_ms * 1000000;
}

/// Sets a connection's options: no delay to merge small messages, and the loss of a host is
/// noticed.
static void tune_socket(int socket, const tg_comm_options *o) {
    const int on = 1, idle = 5, tries = 3, gone_ms = 20000;
    rt_limit(socket, o->timeout_ms);
    setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    setsockopt(socket, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
    setsockopt(socket, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof idle);
    setsockopt(socket, IPPROTO_TCP, TCP_KEEPINTVL, &idle, sizeof idle);
    setsockopt(socket, IPPROTO_TCP, TCP_KEEPCNT, &tries, sizeof tries);
    setsockopt(socket, IPPROTO_TCP, TCP_USER_TIMEOUT, &gone_ms, sizeof gone_ms);
}

/// Returns -1 with errno on failure.
static int try_listen(const struct sockaddr *at, socklen_t size) {
    const int on = 1;
    int s = socket(at->sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (s < 0) return -1;
    // Without the option, connections that have ended would keep the port from the next meeting.
    if (setsockopt(s, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) == 0 && bind(s, at, size) == 0 &&
        listen(s, RT_COMM_RANKS) == 0)
        return s;
    int error = errno;
    close(s);
    errno = error;
    return -1;
}

static in_port_t *port_in(Address *a) {
    return a->ss_family == AF_INET6 ? &((struct sockaddr_in6 *)a)->sin6_port
                                    : &((struct sockaddr_in *)a)->sin_port;
}

static socklen_t address_size(const Address *a) {
    return a->ss_family == AF_INET6 ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in);
}

static bool is_loopback(const Address *a) {
    if (a->ss_family == AF_INET6)
        return IN6_IS_ADDR_LOOPBACK(&((const struct sockaddr_in6 *)a)->sin6_addr);
    return ntohl(((const struct sockaddr_in *)a)->sin_addr.s_addr) >> 24 == 127;
}

/// Whether ranks may meet there. Addresses that other hosts may reach need a key.
static bool is_allowed(const struct addrinfo *a) {
    Address at = {0};
    if (a->ai_addrlen > sizeof at) return false;
    memcpy(&at, a->ai_addr, a->ai_addrlen);
    return is_loopback(&at) || *rt_rank_key();
}

/// Resolves the address; fails if ranks may meet at none of the results.
static tg_status allowed_addresses(const tg_comm_options *o, struct addrinfo **out) {
    tg_status status = find_address(o, out);
    if (status) return status;
    for (const struct addrinfo *a = *out; a; a = a->ai_next)
        if (is_allowed(a)) return TG_OK;
    freeaddrinfo(*out);
    return fail_meeting(
        o, "meeting where other hosts can come",
        "TG_RANK_KEY is not set; it is a secret text, the same for all ranks, such as "
        "'openssl rand -hex 16' makes (addresses of the host alone, 127.0.0.1, need "
        "none)");
}

static tg_status listen_at_port(const tg_comm_options *o, int *out) {
    struct addrinfo *all = NULL;
    tg_status status = allowed_addresses(o, &all);
    if (status) return status;
    *out = -1;
    for (struct addrinfo *a = all; a && *out < 0; a = a->ai_next)
        if (is_allowed(a)) *out = try_listen(a->ai_addr, a->ai_addrlen);
    freeaddrinfo(all);
    if (*out < 0) return fail_meeting(o, "listening (rank 0 runs on that host)", strerror(errno));
    return TG_OK;
}

/// If /etc/hosts maps the host's own name to a loopback address, as Debian's does (127.0.1.1),
/// ranks on other hosts cannot connect.
static bool is_loopback_only(int listener) {
    Address at;
    socklen_t size = sizeof at;
    return getsockname(listener, (struct sockaddr *)&at, &size) == 0 && is_loopback(&at);
}

/// While rank 0 does not listen yet, a connection to a port of the ephemeral range may get that
/// port for its own end, and so connect to itself. It must leave no TIME_WAIT at the port, where
/// rank 0 will listen.
static bool is_own_end(int s) {
    Address own = {0}, other = {0};
    socklen_t n = sizeof own, m = sizeof other;
    bool is_own = getsockname(s, (struct sockaddr *)&own, &n) == 0 &&
                  getpeername(s, (struct sockaddr *)&other, &m) == 0 && n == m &&
                  memcmp(&own, &other, n) == 0;
    struct linger at_once = {.l_onoff = 1};
    if (is_own) setsockopt(s, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
    return is_own;
}

/// With a key, the peer's user does not matter.
static rt_peer peer_of(const Hosts *h, int s) {
    return *rt_rank_key() ? RT_PEER_OWN : rt_peer_of(&h->peers, s);
}

/// Connects, and receives the listener's nonce. Returns -1 with errno on failure. ECONNABORTED: the
/// connection ended, so the listener may be there. EKEYREJECTED: it belongs to another user.
static int try_connect(const Hosts *h, const struct sockaddr *at, socklen_t size,
                       const tg_comm_options *o, uint8_t nonce[RT_NONCE]) {
    int s = socket(at->sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (s < 0) return -1;
    tune_socket(s, o);
    rt_limit(s, rt_left_ms(h->end));
    bool reached = connect(s, at, size) == 0;
    int error = reached ? ECONNABORTED : errno;
    bool heard = reached && !is_own_end(s) && rt_receive_until(s, nonce, RT_NONCE, h->end);
    rt_peer peer = heard ? peer_of(h, s) : RT_PEER_GONE;
    if (peer == RT_PEER_OWN) {
        rt_limit(s, o->timeout_ms);
        return s;
    }
    close(s);
    errno = peer == RT_PEER_OTHER ? EKEYREJECTED : error;
    return -1;
}

/// Tries each address once. Returns -1 with errno on failure; ECONNREFUSED: all refused.
static int try_addresses(const Hosts *h, const struct addrinfo *all, const tg_comm_options *o,
                         uint8_t nonce[RT_NONCE]) {
    int error = ECONNREFUSED;
    for (const struct addrinfo *a = all; a; a = a->ai_next) {
        if (!is_allowed(a)) continue;
        int s = try_connect(h, a->ai_addr, a->ai_addrlen, o, nonce);
        if (s >= 0) return s;
        if (error == ECONNREFUSED) error = errno;
    }
    errno = error;
    return -1;
}

/// Retries until the end of the meeting, as rank 0 may come later. again: rank 0 was there, so it
/// has ended if no process listens.
static tg_status connect_first(Hosts *h, const tg_comm_options *o, bool again,
                               uint8_t nonce[RT_NONCE]) {
    struct addrinfo *all = NULL;
    tg_status status = allowed_addresses(o, &all);
    int error = 0, *out = &h->sockets[0];
    *out = -1;
    if (status) return status;
    while ((*out = try_addresses(h, all, o, nonce)) < 0) {
        error = errno;
        if (error == EKEYREJECTED || (again && error == ECONNREFUSED) || !rt_left_ms(h->end)) break;
        nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL);
    }
    freeaddrinfo(all);
    if (*out >= 0) return TG_OK;
    if (error != EKEYREJECTED) return rt_comm_nobody_came(o, 0);
    return fail_meeting(
        o, "meeting rank 0",
        "a process of another user listens there, or the system does not say whose; "
        "ranks of several users need TG_RANK_KEY");
}

/* ---- meeting --------------------------------------------------------------------------------- */

/// Fails because a listening rank has waited in vain, and adds the likely reason.
static tg_status nobody_came(const Hosts *h, const tg_comm_options *o, int listener, int missing) {
    tg_status status = rt_comm_nobody_came(o, missing);
    if (h->strangers)
        return tg_fail(status, "%s; %d that came had another TG_RANK_KEY", tg_last_error(),
                       h->strangers);
    if (h->others)
        return tg_fail(status,
                       "%s; %d that came belonged to another user; ranks of several users "
                       "need TG_RANK_KEY",
                       tg_last_error(), h->others);
    if (is_loopback_only(listener))
        return tg_fail(status, "%s; it listens at an address of its host alone, as '%s' is one",
                       tg_last_error(), o->meet);
    return status;
}

static int first_missing(const Hosts *h, int from) {
    while (from < h->n && h->sockets[from] >= 0) from++;
    return from;
}

/// Accepts a rank that has proved the key. If it does not fit, the answer's text gets the reason.
static tg_status welcome_rank(Hosts *h, const tg_comm_options *o, const rt_guest *guest,
                              const Hello *hello, const Hello *own) {
    int s = guest->socket, r = hello->rank.rank;
    HostsAnswer *a = &h->answer;
    tune_socket(s, o);
    if (!rt_comm_judge(&hello->rank, &own->rank, h->sockets, a->text, sizeof a->text)) {
        RT_PROVE("answer", hello->nonce, a);
        (void)rt_send_bytes(s, a, sizeof *a);
        close(s);
        return TG_OK;
    }
    socklen_t size = sizeof a->at[r];
    h->sockets[r] = s;
    memcpy(h->nonces[r], hello->nonce, RT_NONCE);
    a->hosts[r] = hello->host;
    if (getpeername(s, (struct sockaddr *)&a->at[r], &size)) return rt_comm_nobody_came(o, r);
    *port_in(&a->at[r]) = (in_port_t)hello->port;
    return TG_OK;
}

/// Answers a rank with another key: it cannot verify the answer, and so knows the reason. The
/// meeting goes on without it. The answer proves nothing, because the stranger could replay a proof
/// to a rank whose nonce it has.
static void turn_away(int socket) {
    HostsAnswer none = {.group = NO_GROUP};
    (void)(rt_nonce(none.proof) && rt_nonce(none.proof + RT_NONCE));
    (void)send(socket, &none, sizeof none, MSG_DONTWAIT | MSG_NOSIGNAL);
    close(socket);
}

/// Accepts one more connection at rank 0. Connections that send nothing, or no rank's message, are
/// ignored. A rank whose user was not found tries again.
static tg_status welcome_host(Hosts *h, const tg_comm_options *o, rt_guests *guests,
                              const Hello *own) {
    rt_guest guest;
    Hello hello;
    if (!rt_next_guest(guests, h->end, &guest))
        return nobody_came(h, o, guests->listener, first_missing(h, 1));
    memcpy(&hello, guest.said, sizeof hello);
    bool proved = RT_IS_PROVED("hello", guest.nonce, &hello);
    rt_peer peer = proved ? peer_of(h, guest.socket) : RT_PEER_GONE;
    if (proved && peer == RT_PEER_OWN) return welcome_rank(h, o, &guest, &hello, own);
    bool is_rank = hello.rank.magic == own->rank.magic;
    h->strangers += is_rank && !proved;
    h->others += is_rank && peer == RT_PEER_OTHER;
    if (is_rank && (!proved || peer == RT_PEER_OTHER))
        turn_away(guest.socket);
    else
        close(guest.socket);
    return TG_OK;
}

static bool all_hosts_came(const Hosts *h) {
    for (int r = 1; r < h->n; r++)
        if (h->sockets[r] < 0) return false;
    return true;
}

/// Rank 0: collects all ranks, and tells each of them about the others.
static tg_status meet_all_hosts(Hosts *h, const tg_comm_options *o, const Hello *own) {
    rt_guests guests = {.size = sizeof(Hello)};
    HostsAnswer *a = &h->answer;
    tg_status status = listen_at_port(o, &guests.listener);
    if (status) return status;
    a->hosts[0] = own->host;
    if (getrandom(&a->group, sizeof a->group, 0) != (ssize_t)sizeof a->group)
        a->group = (uint64_t)rt_now_ns();
    if (a->group == NO_GROUP) a->group++;
    while (!status && !a->text[0] && !all_hosts_came(h)) status = welcome_host(h, o, &guests, own);
    rt_guests_end(&guests);
    close(guests.listener);
    if (status) snprintf(a->text, sizeof a->text, "%s", tg_last_error());
    if (!status && a->text[0]) status = tg_fail(TG_ERROR_CONTRACT, "tg_comm_create: %s", a->text);
    for (int r = 1; r < h->n; r++) {
        if (h->sockets[r] < 0) continue;
        RT_PROVE("answer", h->nonces[r], a);
        (void)rt_send_bytes(h->sockets[r], a, sizeof *a);
    }
    return status;
}

/// Listens for higher ranks, at the address from which this rank reached rank 0.
static tg_status listen_beside(Hosts *h, const tg_comm_options *o, uint32_t *port) {
    Address at;
    socklen_t size = sizeof at;
    if (getsockname(h->sockets[0], (struct sockaddr *)&at, &size))
        return fail_meeting(o, "an address", strerror(errno));
    *port_in(&at) = 0;
    h->listener = try_listen((struct sockaddr *)&at, address_size(&at));
    size = sizeof at;
    if (h->listener < 0 || getsockname(h->listener, (struct sockaddr *)&at, &size))
        return fail_meeting(o, "listening", strerror(errno));
    *port = *port_in(&at);
    return TG_OK;
}

/// Sends one hello and receives the answer. *heard: all of it came. Rank 0 closes connections when
/// too many come at once, so a rank whose connection ends before that tries again.
static tg_status ask_first_host(Hosts *h, const tg_comm_options *o, Hello *hello, bool again,
                                bool *heard) {
    uint8_t nonce[RT_NONCE];
    *heard = false;
    tg_status status = connect_first(h, o, again, nonce);
    if (!status && !again) status = listen_beside(h, o, &hello->port);
    if (status) return status;
    if (!rt_nonce(hello->nonce)) return fail_meeting(o, "random numbers", strerror(errno));
    RT_PROVE("hello", nonce, hello);
    *heard = rt_send_bytes(h->sockets[0], hello, sizeof *hello) &&
             rt_receive_until(h->sockets[0], &h->answer, sizeof h->answer, h->end);
    if (*heard) return TG_OK;
    close(h->sockets[0]);
    h->sockets[0] = -1;
    return TG_OK;
}

/// Other ranks: meet rank 0.
static tg_status meet_first_host(Hosts *h, const tg_comm_options *o, Hello *hello) {
    bool heard = false;
    for (int pause = 0; !heard;) {
        tg_status status = ask_first_host(h, o, hello, pause > 0, &heard);
        if (status) return status;
        if (!heard) rt_pause(&pause, h->end);
        if (!heard && !rt_left_ms(h->end)) return rt_comm_nobody_came(o, 0);
    }
    if (!RT_IS_PROVED("answer", hello->nonce, &h->answer) || h->answer.group == NO_GROUP)
        return fail_meeting(o, "meeting rank 0",
                            *rt_rank_key() ? "it has another TG_RANK_KEY, or is not a rank"
                                           : "it has a TG_RANK_KEY, belongs to another user, or is "
                                             "not a rank");
    h->answer.text[RT_COMM_TEXT - 1] = 0;
    if (!h->answer.text[0]) return TG_OK;
    return tg_fail(TG_ERROR_CONTRACT, "tg_comm_create: %s", h->answer.text);
}

/// If rank 0 sees the rank at a loopback address, the rank is on rank 0's host.
static tg_status find_rank(const Hosts *h, const tg_comm_options *o, int rank, Address *at) {
    *at = h->answer.at[rank];
    in_port_t port = *port_in(at);
    socklen_t size = sizeof *at;
    if (!is_loopback(at)) return TG_OK;
    if (getpeername(h->sockets[0], (struct sockaddr *)at, &size)) return rt_comm_nobody_came(o, 0);
    *port_in(at) = port;
    return TG_OK;
}

/// Greets once, and waits for the welcome. The listening rank may close the connection if too many
/// arrive at once. Returns -1 with errno on failure.
static int greet_rank(const Hosts *h, const tg_comm_options *o, int rank, const Address *at) {
    uint8_t nonce[RT_NONCE], welcome;
    Greeting g = {.group = h->answer.group, .rank = h->rank, .to = rank};
    int s = try_connect(h, (const struct sockaddr *)at, address_size(at), o, nonce);
    if (s < 0) return -1;
    RT_PROVE("greeting", nonce, &g);
    if (rt_send_bytes(s, &g, sizeof g) && rt_receive_until(s, &welcome, 1, h->end)) return s;
    close(s);
    errno = ECONNABORTED;
    return -1;
}

static tg_status connect_to(Hosts *h, const tg_comm_options *o, int rank) {
    Address at;
    tg_status status = find_rank(h, o, rank, &at);
    if (status) return status;
    for (int pause = 0;; rt_pause(&pause, h->end)) {
        h->sockets[rank] = greet_rank(h, o, rank, &at);
        if (h->sockets[rank] >= 0) return TG_OK;
        if (errno != ECONNABORTED || !rt_left_ms(h->end)) break;
    }
    return tg_fail(TG_ERROR_RANK, "tg_comm_create: rank %d cannot connect to rank %d: %s", o->rank,
                   rank, strerror(errno));
}

static tg_status accept_one(Hosts *h, const tg_comm_options *o, rt_guests *guests) {
    rt_guest guest;
    Greeting g;
    if (!rt_next_guest(guests, h->end, &guest))
        return nobody_came(h, o, guests->listener, first_missing(h, h->rank + 1));
    memcpy(&g, guest.said, sizeof g);
    bool is_rank = RT_IS_PROVED("greeting", guest.nonce, &g) && g.group == h->answer.group &&
                   g.to == h->rank && g.rank > h->rank && g.rank < h->n && h->sockets[g.rank] < 0 &&
                   peer_of(h, guest.socket) == RT_PEER_OWN;
    if (is_rank) tune_socket(guest.socket, o);
    if (is_rank && rt_send_bytes(guest.socket, "", 1))
        h->sockets[g.rank] = guest.socket;
    else
        close(guest.socket);
    return TG_OK;
}

/// Lower ranks have listened since before they met rank 0.
static tg_status connect_all(Hosts *h, const tg_comm_options *o) {
    tg_status status = TG_OK;
    rt_guests guests = {.listener = h->listener, .size = sizeof(Greeting)};
    for (int r = 1; r < h->rank && !status; r++) status = connect_to(h, o, r);
    while (h->rank && !status && first_missing(h, h->rank + 1) < h->n)
        status = accept_one(h, o, &guests);
    rt_guests_end(&guests);
    return status;
}

/* ---- writes of other ranks ------------------------------------------------------------------- */

/// Applies one message. False: the connection has ended, or the message is invalid.
static bool take_one(Hosts *h, int rank) {
    Message m;
    if (!rt_receive_bytes(h->sockets[rank], &m, sizeof m)) return false;
    size_t bytes = m.kind == PUT ? m.bytes : sizeof m.value;
    if (m.kind == BYE) {
        atomic_store(&h->left[rank], true);
        return true;
    }
    if (m.kind > BYE || m.at > h->bytes || bytes > h->bytes - m.at) return false;
    if (m.kind == PUT) return rt_receive_bytes(h->sockets[rank], h->own + m.at, bytes);
    _Atomic int64_t *word = (_Atomic int64_t *)(void *)(h->own + m.at);
    if (m.at % sizeof *word) return false;
    if (m.kind == ADD)
        atomic_fetch_add_explicit(word, m.value, memory_order_acq_rel);
    else
        atomic_store_explicit(word, m.value, memory_order_release);
    return true;
}

static void *take_all(void *state) {
    Hosts *h = state;
    for (;;) {
        struct pollfd ready[RT_COMM_RANKS + 1];
        for (int r = 0; r < h->n; r++) {
            bool open = h->sockets[r] >= 0 && !atomic_load(&h->gone[r]);
            ready[r] = (struct pollfd){.fd = open ? h->sockets[r] : -1, .events = POLLIN};
        }
        ready[h->n] = (struct pollfd){.fd = h->wake[0], .events = POLLIN};
        if (poll(ready, (nfds_t)h->n + 1, -1) < 0 && errno != EINTR) return NULL;
        for (int r = 0; r < h->n; r++)
            if (ready[r].revents && !take_one(h, r)) atomic_store(&h->gone[r], true);
        if (ready[h->n].revents) return NULL;
    }
}

/// A failure to send is not reported: the rank that waits for the message times out. After half a
/// message the connection is shut, so that no other message follows.
static tg_status send_message(Hosts *h, int rank, Message m, const void *from) {
    struct iovec parts[] = {{&m, sizeof m}, {(void *)(uintptr_t)from, m.bytes}};
    pthread_mutex_lock(&h->sending[rank]);
    bool sent =
        !atomic_load(&h->gone[rank]) && rt_send_whole(h->sockets[rank], parts, m.bytes ? 2 : 1);
    if (!sent) shutdown(h->sockets[rank], SHUT_WR);
    pthread_mutex_unlock(&h->sending[rank]);
    return TG_OK;
}

static tg_status put_message(tg_comm *c, int rank, size_t at, const void *from, size_t bytes) {
    return send_message(c->engine_state, rank, (Message){PUT, (uint32_t)bytes, at, 0}, from);
}

static tg_status set_by_message(tg_comm *c, int rank, size_t at, int64_t value) {
    return send_message(c->engine_state, rank, (Message){SET, 0, at, value}, NULL);
}

static tg_status add_by_message(tg_comm *c, int rank, size_t at, int64_t value) {
    return send_message(c->engine_state, rank, (Message){ADD, 0, at, value}, NULL);
}

/// Nothing to do: messages of a connection are applied in order, so a rank that sees a word sees
/// all earlier puts.
static tg_status quiet_messages(tg_comm *c) {
    (void)c;
    return TG_OK;
}

static int find_gone_host(tg_comm *c) {
    Hosts *h = c->engine_state;
    for (int r = 0; r < h->n; r++)
        if (atomic_load(&h->gone[r]) && !atomic_load(&h->left[r])) return r;
    return -1;
}

/* ---- the engine ------------------------------------------------------------------------------ */

static void release_hosts(Hosts *h) {
    for (int r = 0; r < h->n; r++)
        if (h->sockets[r] >= 0) close(h->sockets[r]);
    if (h->listener >= 0) close(h->listener);
    rt_peers_close(&h->peers);
    for (int i = 0; i < 2; i++)
        if (h->wake[i] >= 0) close(h->wake[i]);
    free(h);
}

static Hosts *hosts_new(const tg_comm_options *o, size_t bytes) {
    Hosts *h = calloc(1, sizeof *h);
    if (!h) return NULL;
    *h = (Hosts){.n = o->ranks, .rank = o->rank, .listener = -1, .wake = {-1, -1}, .bytes = bytes};
    h->peers = RT_NO_PEERS;
    for (int r = 0; r < RT_COMM_RANKS; r++) {
        h->sockets[r] = -1;
        pthread_mutex_init(&h->sending[r], NULL);
    }
    return h;
}

/// Reserves addresses for all ranks. Only the own part is memory; the others are names.
static tg_status reserve_host_memory(tg_comm *c, Hosts *h) {
    size_t all;
    if (__builtin_mul_overflow(h->bytes, (size_t)h->n, &all)) all = SIZE_MAX;
    char *flat = mmap(NULL, all, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    char *own = flat == MAP_FAILED ? NULL : flat + h->bytes * (size_t)h->rank;
    if (!own || mprotect(own, h->bytes, PROT_READ | PROT_WRITE))
        return tg_fail(TG_ERROR_MEMORY, "tg_comm_create: room for the memory of %d ranks: %s", h->n,
                       strerror(errno));
    h->own = own;
    c->host = (rt_heap){.flat = flat, .own = own, .stride = h->bytes, .bytes = h->bytes};
    return TG_OK;
}

/// Returns an errno; 0: the reader runs.
static int start_reader(Hosts *h) {
    for (int r = 0; r < h->n; r++) // the reader waits for the rest of a message without a limit
        if (h->sockets[r] >= 0) {
            struct timeval none = {0};
            setsockopt(h->sockets[r], SOL_SOCKET, SO_RCVTIMEO, &none, sizeof none);
        }
    if (pipe(h->wake)) return errno;
    int error = pthread_create(&h->reader, NULL, take_all, h);
    h->reads = error == 0;
    return error;
}

static bool is_one_host(const Hosts *h) {
    for (int r = 1; r < h->n; r++)
        if (h->answer.hosts[r] != h->answer.hosts[0]) return false;
    return true;
}

/// Names two ranks that differ: rank 0 and the first one on another host.
static tg_status refuse_other_hosts(const Hosts *h) {
    int other = 1;
    while (h->answer.hosts[other] == h->answer.hosts[0]) other++;
    return tg_fail(TG_ERROR_UNSUPPORTED,
                   "tg_comm_create: ranks 0 and %d are on different hosts, and the engine "
                   "'processes' is for those of one; ranks with GPUs have 'nvshmem', others "
                   "'openshmem'",
                   other);
}

static tg_status create_far(tg_comm *c, Hosts *h, const tg_comm_options *o) {
    tg_status status = c->memory == &rt_memory_nvshmem ? TG_OK : refuse_other_hosts(h);
    if (!status) status = connect_all(h, o);
    if (!status) status = reserve_host_memory(c, h);
    int error = status ? 0 : start_reader(h);
    if (error) {
        munmap(c->host.flat, h->bytes * (size_t)h->n);
        status = tg_fail(TG_ERROR_MEMORY, "tg_comm_create: no thread: %s", strerror(error));
    }
    rt_peers_close(&h->peers);
    if (status) return status;
    c->engine = &rt_engine_sockets;
    c->engine_state = h;
    c->rank = h->rank;
    c->size = h->n;
    c->local = 0;
    for (int r = 0; r < h->n; r++) c->local += h->answer.hosts[r] == h->answer.hosts[h->rank];
    return TG_OK;
}

tg_status rt_sockets_create(tg_comm *c, const tg_comm_options *o, size_t bytes) {
    Hosts *h = hosts_new(o, bytes);
    if (!h) return tg_fail(TG_ERROR_MEMORY, "out of memory");
    Hello hello = {.rank = rt_comm_hello(o, bytes), .host = rt_comm_host()};
    h->end = meeting_deadline(o);
    if (!*rt_rank_key()) rt_peers_open(&h->peers);
    tg_status status = o->rank ? meet_first_host(h, o, &hello) : meet_all_hosts(h, o, &hello);
    bool one = !status && is_one_host(h);
    if (!status && !one) status = create_far(c, h, o);
    if (!status && !one) return TG_OK;
    enum { LEAST_MS = 10000 }; // those ranks have met, but may be slow
    char place[32];
    int left = rt_left_ms(h->end);
    snprintf(place, sizeof place, "@tegula-%016llx", (unsigned long long)h->answer.group);
    release_hosts(h);
    if (status) return status;
    tg_comm_options here = *o;
    here.meet = place;
    int least = o->timeout_ms < LEAST_MS ? o->timeout_ms : LEAST_MS;
    here.timeout_ms = left < least ? least : left;
    return rt_processes_create(c, &here, bytes, *rt_rank_key());
}

/// Applies the messages that the others have yet to send before it closes the connections. Closing
/// them earlier would drop messages of this rank that have not arrived.
static void destroy_hosts(tg_comm *c) {
    enum { MOST_MS = 2000 };
    Hosts *h = c->engine_state;
    for (int r = 0; r < h->n; r++) {
        if (h->sockets[r] < 0) continue;
        (void)send_message(h, r, (Message){.kind = BYE}, NULL);
        shutdown(h->sockets[r], SHUT_WR);
    }
    bool open = !c->leaves;
    for (int ms = 0; ms < MOST_MS && open; ms++) {
        open = false;
        for (int r = 0; r < h->n; r++) open |= h->sockets[r] >= 0 && !atomic_load(&h->gone[r]);
        if (open) nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
    for (int r = 0; r < h->n; r++) // the reader may wait for the rest of a message
        if (h->sockets[r] >= 0) shutdown(h->sockets[r], SHUT_RDWR);
    bool woken = write(h->wake[1], "", 1) == 1;
    if (h->reads && woken) pthread_join(h->reader, NULL);
    munmap(c->host.flat, c->host.stride * (size_t)c->size);
    release_hosts(h);
}

const rt_engine rt_engine_sockets = {.name = "hosts",
                                     .create = rt_sockets_create,
                                     .destroy = destroy_hosts,
                                     .put = put_message,
                                     .set = set_by_message,
                                     .add = add_by_message,
                                     .quiet = quiet_messages,
                                     .dead = find_gone_host};
