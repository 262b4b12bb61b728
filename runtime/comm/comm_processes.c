// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Ranks that are processes of one host. They meet at a socket, where rank 0 listens; it has a path
// or an abstract name ("@name"). Every rank brings a file in memory, and maps the files of all
// ranks side by side. Ranks that meet at HOST:PORT first find out that they are on one host
// (comm_sockets.c).
//
// Ranks share memory, so a rank admits only processes of its own user, or of root; with a key, only
// processes that know the key.
//
// Each process locks its file as long as it lives. The kernel releases the lock however the process
// ends, child processes do not inherit it, and any process that has the file can test for it.
#include "runtime/comm/comm.h"
#include "runtime/comm/comm_guests.h"
#include "runtime/comm/comm_key.h"
#include "runtime/comm/comm_stream.h"
#include "runtime/runtime.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

enum { MAGIC = 0x54475032 };

/// Descriptors or -1. Rank 0 has one of each kind for each other rank; the others have rank 0's
/// socket in place 0.
typedef struct Processes {
    int sockets[RT_COMM_RANKS];
    int files[RT_COMM_RANKS];
    int copy;   // second descriptor of the own file; closing it would end the lock
    int n;      // number of ranks
    bool keyed; // ranks prove that they know the key, and may belong to several users
} Processes;

/// With a key: the first message of a rank to rank 0, which has sent a nonce. Rank 0 answers with a
/// proof over the rank's nonce. No memory is passed before both have proved the key.
typedef struct Claim {
    uint8_t nonce[RT_NONCE], proof[RT_PROOF];
} Claim;
_Static_assert(sizeof(Claim) <= RT_GUEST_BYTES, "room");

/// Rank 0's answer. An empty text comes with descriptors of all files.
typedef struct RanksAnswer {
    char text[RT_COMM_TEXT];
} RanksAnswer;

/* ---- messages -------------------------------------------------------------------------------- */

/// Sends bytes as one message, with n descriptors.
static bool send_with_files(int socket, const void *bytes, size_t size, const int *fds, int n) {
    _Alignas(struct cmsghdr) char room[CMSG_SPACE(sizeof(int) * RT_COMM_RANKS)];
    struct iovec part = {(void *)(uintptr_t)bytes, size};
    struct msghdr m = {.msg_iov = &part, .msg_iovlen = 1};
    if (n) {
        memset(room, 0, sizeof room);
        m.msg_control = room;
        m.msg_controllen = CMSG_SPACE(sizeof(int) * (size_t)n);
        struct cmsghdr *head = CMSG_FIRSTHDR(&m);
        head->cmsg_level = SOL_SOCKET;
        head->cmsg_type = SCM_RIGHTS;
        head->cmsg_len = CMSG_LEN(sizeof(int) * (size_t)n);
        memcpy(CMSG_DATA(head), fds, sizeof(int) * (size_t)n);
    }
    return sendmsg(socket, &m, MSG_NOSIGNAL) == (ssize_t)size;
}

static void close_all(const int *fds, int n) {
    for (int i = 0; i < n; i++)
        if (fds[i] >= 0) close(fds[i]);
}

/// Receives one message, within the time limit of the socket. Exactly n descriptors must come.
static bool receive_with_files(int socket, void *bytes, size_t size, int *fds, int n) {
    _Alignas(struct cmsghdr) char room[CMSG_SPACE(sizeof(int) * RT_COMM_RANKS)];
    struct iovec part = {bytes, size};
    struct msghdr m = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = room, .msg_controllen = sizeof room};
    ssize_t got = recvmsg(socket, &m, MSG_WAITALL | MSG_CMSG_CLOEXEC);
    struct cmsghdr *head = got > 0 ? CMSG_FIRSTHDR(&m) : NULL;
    int came = 0;
    if (head && head->cmsg_level == SOL_SOCKET && head->cmsg_type == SCM_RIGHTS)
        came = (int)((head->cmsg_len - CMSG_LEN(0)) / sizeof(int));
    if (came == n && n) memcpy(fds, CMSG_DATA(head), sizeof(int) * (size_t)n);
    if (came == n && got == (ssize_t)size) return true;
    if (came) close_all((const int *)(const void *)CMSG_DATA(head), came);
    return false;
}

/* ---- meeting --------------------------------------------------------------------------------- */

/// Whether the peer belongs to this user, or to root.
static bool is_own_user(int socket) {
    struct ucred peer;
    socklen_t size = sizeof peer;
    return getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 &&
           (peer.uid == geteuid() || peer.uid == 0);
}

static tg_status system_error(const tg_comm_options *o, const char *doing) {
    return tg_fail(TG_ERROR_INTERNAL, "tg_comm_create: rank %d: %s at '%s': %s", o->rank, doing,
                   o->meet, strerror(errno));
}

static bool is_file(const tg_comm_options *o) {
    return o->meet[0] != '@';
}

static tg_status socket_address(const tg_comm_options *o, struct sockaddr_un *a, socklen_t *size) {
    *a = (struct sockaddr_un){.sun_family = AF_UNIX};
    if (strlen(o->meet) >= sizeof a->sun_path)
        return tg_fail(TG_ERROR_ARGUMENT,
                       "tg_comm_create: the path '%s' of a socket has more than %zu bytes", o->meet,
                       sizeof a->sun_path - 1);
    strcpy(a->sun_path, o->meet);
    *size = sizeof *a;
    if (is_file(o)) return TG_OK;
    a->sun_path[0] = 0;
    *size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + strlen(o->meet));
    return TG_OK;
}

/// Removes a socket file on which no process listens any more. Keeps the socket of a group that is
/// alive, and any file that is not a socket.
static bool remove_stale(const struct sockaddr_un *a) {
    struct stat what;
    if (lstat(a->sun_path, &what) != 0 || !S_ISSOCK(what.st_mode)) return false;
    int s = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    bool stale =
        s >= 0 && connect(s, (const struct sockaddr *)a, sizeof *a) != 0 && errno == ECONNREFUSED;
    if (s >= 0) close(s);
    return stale && unlink(a->sun_path) == 0;
}

static tg_status listen_at_path(const tg_comm_options *o, int *out) {
    struct sockaddr_un a;
    socklen_t size;
    tg_status status = socket_address(o, &a, &size);
    if (status) return status;
    int s = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (s < 0) return system_error(o, "a socket");
    if ((bind(s, (const struct sockaddr *)&a, size) == 0 ||
         (errno == EADDRINUSE && is_file(o) && remove_stale(&a) &&
          bind(s, (const struct sockaddr *)&a, size) == 0)) &&
        listen(s, RT_COMM_RANKS) == 0) {
        *out = s;
        return TG_OK;
    }
    status = system_error(o, "listening");
    close(s);
    return status;
}

static void prove_welcome(const tg_comm_options *o, const Claim *claim, uint8_t out[RT_PROOF]) {
    rt_prove("welcome", claim->nonce, o->meet, strlen(o->meet), out);
}

/// Proves the key to the process that listens, and tests its proof. False, with errno: EPERM, it
/// does not know the key; else it has closed the connection, as rank 0 does if too many come.
static bool agree_on_key(const tg_comm_options *o, int s, int64_t end) {
    Claim claim;
    uint8_t nonce[RT_NONCE], proof[RT_PROOF], right[RT_PROOF];
    if (!rt_nonce(claim.nonce)) return false;
    errno = ECONNRESET;
    if (!rt_receive_until(s, nonce, RT_NONCE, end)) return false;
    RT_PROVE("process", nonce, &claim);
    if (!rt_send_bytes(s, &claim, sizeof claim) || !rt_receive_until(s, proof, RT_PROOF, end)) {
        errno = ECONNRESET;
        return false;
    }
    prove_welcome(o, &claim, right);
    errno = EPERM;
    return rt_hmac_equal(right, proof);
}

/// Whether the process that listens may be rank 0. False, with errno as of agree_on_key.
static bool is_trusted(const Processes *p, const tg_comm_options *o, int s, int64_t end) {
    if (p->keyed) return agree_on_key(o, s, end);
    errno = EPERM; // another user listens there
    return is_own_user(s);
}

/// Retries until the time limit, as rank 0 may come later.
static tg_status connect_at(const Processes *p, const tg_comm_options *o, int *out) {
    struct sockaddr_un a;
    socklen_t size;
    tg_status status = socket_address(o, &a, &size);
    if (status) return status;
    int64_t end = rt_now_ns() + (int64_t)o->timeout_ms * 1000000;
    do {
        int s = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
        if (s < 0) return system_error(o, "a socket");
        rt_limit(s, o->timeout_ms);
        bool reached = connect(s, (const struct sockaddr *)&a, size) == 0;
        if (reached && is_trusted(p, o, s, end)) {
            rt_limit(s, o->timeout_ms);
            *out = s;
            return TG_OK;
        }
        int error = errno;
        close(s);
        errno = error;
        bool again = reached ? error == ECONNRESET
                             : error == ENOENT || error == ECONNREFUSED || error == EAGAIN;
        if (!again) return system_error(o, "connecting");
        nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
    } while (rt_now_ns() < end);
    return rt_comm_nobody_came(o, 0);
}

rt_hello rt_comm_hello(const tg_comm_options *o, size_t bytes) {
    return (rt_hello){.magic = MAGIC,
                      .rank = o->rank,
                      .ranks = o->ranks,
                      .control = (int32_t)sizeof(rt_control),
                      .bytes = bytes};
}

bool rt_comm_judge(const rt_hello *h, const rt_hello *own, const int *sockets, char *text,
                   size_t size) {
    if (h->magic != MAGIC || h->control != own->control)
        snprintf(text, size, "a rank has another version of Tegula than rank 0");
    else if (h->ranks != own->ranks || h->rank < 1 || h->rank >= own->ranks)
        snprintf(text, size, "rank %d of %d ranks meets rank 0 of %d", h->rank, h->ranks,
                 own->ranks);
    else if (sockets[h->rank] >= 0)
        snprintf(text, size, "there are two of rank %d", h->rank);
    else if (h->bytes != own->bytes)
        snprintf(text, size, "rank %d brings %llu bytes of memory and rank 0 %llu", h->rank,
                 (unsigned long long)h->bytes, (unsigned long long)own->bytes);
    else
        return true;
    return false;
}

/// Accepts a connection before `end`; -1: none came.
static int accept_until(int listener, const tg_comm_options *o, int64_t end) {
    int64_t left = (end - rt_now_ns()) / 1000000;
    if (left <= 0) return -1;
    rt_limit(listener, (int)left);
    int s = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    left = (end - rt_now_ns()) / 1000000;
    if (s >= 0) rt_limit(s, left < 1 ? 1 : left < o->timeout_ms ? (int)left : o->timeout_ms);
    return s;
}

/// Accepts a process before `end` that may be a rank; -1: none came. *welcome: whether it is
/// trusted.
static int accept_trusted(const Processes *p, const tg_comm_options *o, rt_guests *guests,
                          int64_t end, bool *welcome) {
    if (!p->keyed) {
        int s = accept_until(guests->listener, o, end);
        *welcome = s >= 0 && is_own_user(s);
        return s;
    }
    rt_guest guest;
    Claim claim;
    uint8_t proof[RT_PROOF];
    if (!rt_next_guest(guests, end, &guest)) return -1;
    memcpy(&claim, guest.said, sizeof claim);
    prove_welcome(o, &claim, proof);
    rt_limit(guest.socket, o->timeout_ms);
    *welcome = RT_IS_PROVED("process", guest.nonce, &claim) &&
               rt_send_bytes(guest.socket, proof, RT_PROOF);
    return guest.socket;
}

/// Accepts one more rank at rank 0. If the rank does not fit, it gets the reason, and `text` as
/// well.
static tg_status welcome_process(Processes *p, const tg_comm_options *o, rt_guests *guests,
                                 const rt_hello *own, int64_t end, char *text, size_t size) {
    bool welcome = false;
    int s = accept_trusted(p, o, guests, end, &welcome), missing = 1;
    while (missing < p->n && p->sockets[missing] >= 0) missing++;
    if (s < 0) return rt_comm_nobody_came(o, missing);
    rt_hello h;
    int file = -1;
    // A process that only tested whether the socket is alive has closed the connection. Connections
    // of strangers are closed.
    if (!welcome || !receive_with_files(s, &h, sizeof h, &file, 1)) {
        close(s);
        return TG_OK;
    }
    if (rt_comm_judge(&h, own, p->sockets, text, size)) {
        rt_limit(s, o->timeout_ms);
        p->sockets[h.rank] = s;
        p->files[h.rank] = file;
        return TG_OK;
    }
    RanksAnswer answer = {0};
    snprintf(answer.text, sizeof answer.text, "%s", text);
    (void)send_with_files(s, &answer, sizeof answer, NULL, 0);
    close(s);
    close(file);
    return TG_OK;
}

static bool all_processes_came(const Processes *p) {
    for (int r = 1; r < p->n; r++)
        if (p->sockets[r] < 0) return false;
    return true;
}

/// Rank 0: collects the files of all ranks, and sends all of them to each.
static tg_status meet_all_processes(Processes *p, const tg_comm_options *o, const rt_hello *own) {
    rt_guests guests = {.listener = -1, .size = sizeof(Claim)};
    RanksAnswer answer = {0};
    int64_t end = rt_now_ns() + (int64_t)o->timeout_ms * 1000000;
    tg_status status = listen_at_path(o, &guests.listener);
    if (status) return status;
    while (!status && !answer.text[0] && !all_processes_came(p))
        status = welcome_process(p, o, &guests, own, end, answer.text, sizeof answer.text);
    rt_guests_end(&guests);
    close(guests.listener);
    if (is_file(o)) unlink(o->meet);
    if (status) snprintf(answer.text, sizeof answer.text, "%s", tg_last_error());
    if (!status && answer.text[0])
        status = tg_fail(TG_ERROR_CONTRACT, "tg_comm_create: %s", answer.text);
    for (int r = 1; r < p->n; r++)
        if (p->sockets[r] >= 0)
            (void)send_with_files(p->sockets[r], &answer, sizeof answer, p->files,
                                  status ? 0 : p->n);
    return status;
}

/// Other ranks: send their file to rank 0, and receive all files.
static tg_status meet_first_process(Processes *p, const tg_comm_options *o, const rt_hello *hello) {
    RanksAnswer answer = {0};
    int *own = &p->files[o->rank], files[RT_COMM_RANKS];
    tg_status status = connect_at(p, o, &p->sockets[0]);
    if (status) return status;
    if (!send_with_files(p->sockets[0], hello, sizeof *hello, own, 1))
        return rt_comm_nobody_came(o, 0);
    if (receive_with_files(p->sockets[0], &answer, sizeof answer, files, p->n)) {
        p->copy = files[o->rank];
        files[o->rank] = *own;
        memcpy(p->files, files, sizeof *files * (size_t)p->n);
        return TG_OK;
    }
    return answer.text[0] ? tg_fail(TG_ERROR_CONTRACT, "tg_comm_create: %s", answer.text)
                          : rt_comm_nobody_came(o, 0);
}

/* ---- memory ---------------------------------------------------------------------------------- */

/// Creates a file of zeros, locked by this process. It has its full size; pages are allocated at
/// first use.
static tg_status make_memory_file(const tg_comm_options *o, size_t bytes, int *out) {
    int file = memfd_create("tegula", MFD_CLOEXEC);
    struct flock all = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    *out = file;
    if (file < 0 || ftruncate(file, (off_t)bytes) != 0 || fcntl(file, F_SETLK, &all) != 0)
        return system_error(o, "a file in memory");
    return TG_OK;
}

/// Maps all files side by side.
static tg_status map_process_files(const Processes *p, const tg_comm_options *o, size_t bytes,
                                   char **out) {
    size_t all;
    if (__builtin_mul_overflow(bytes, (size_t)p->n, &all)) all = SIZE_MAX;
    char *flat = mmap(NULL, all, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (flat == MAP_FAILED) return system_error(o, "room for the memory of all ranks");
    *out = flat;
    for (int r = 0; r < p->n; r++)
        if (mmap(flat + (size_t)r * bytes, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED,
                 p->files[r], 0) == MAP_FAILED) {
            tg_status status = system_error(o, "mapping the memory of a rank");
            munmap(flat, all);
            return status;
        }
    return TG_OK;
}

/* ---- the engine ------------------------------------------------------------------------------ */

static void release_processes(Processes *p) {
    close_all(p->sockets, RT_COMM_RANKS);
    close_all(p->files, RT_COMM_RANKS);
    close_all(&p->copy, 1);
    free(p);
}

static Processes *processes_new(int n, bool keyed) {
    Processes *p = malloc(sizeof *p);
    if (!p) return NULL;
    p->n = n;
    p->keyed = keyed;
    p->copy = -1;
    for (int r = 0; r < RT_COMM_RANKS; r++) p->sockets[r] = p->files[r] = -1;
    return p;
}

tg_status rt_processes_create(tg_comm *c, const tg_comm_options *o, size_t bytes, bool keyed) {
    tg_status status;
    Processes *p = processes_new(o->ranks, keyed);
    if (!p) return tg_fail(TG_ERROR_MEMORY, "out of memory");
    rt_hello hello = rt_comm_hello(o, bytes);
    char *flat = NULL;
    status = make_memory_file(o, bytes, &p->files[o->rank]);
    if (!status)
        status = o->rank ? meet_first_process(p, o, &hello) : meet_all_processes(p, o, &hello);
    if (!status) status = map_process_files(p, o, bytes, &flat);
    if (status) {
        release_processes(p);
        return status;
    }
    c->engine_state = p;
    c->rank = o->rank;
    c->size = c->local = o->ranks;
    c->host = (rt_heap){.flat = flat,
                        .own = flat + (size_t)o->rank * bytes,
                        .stride = bytes,
                        .bytes = bytes,
                        .mapped = true};
    return TG_OK;
}

static tg_status create_processes(tg_comm *c, const tg_comm_options *o, size_t bytes) {
    tg_status status = rt_comm_place(o);
    if (status) return status;
    if (rt_sockets_named(o->meet)) return rt_sockets_create(c, o, bytes);
    return rt_processes_create(c, o, bytes, false);
}

static void destroy_processes(tg_comm *c) {
    munmap(c->host.flat, c->host.stride * (size_t)c->size);
    release_processes(c->engine_state);
}

/// Passes descriptors through rank 0.
static tg_status pass_file_by_socket(tg_comm *c, int fd, int *all) {
    Processes *p = c->engine_state;
    char word = 0;
    if (c->rank) {
        if (send_with_files(p->sockets[0], &word, 1, &fd, 1) &&
            receive_with_files(p->sockets[0], &word, 1, all, c->size))
            return TG_OK;
        return rt_comm_gave_up(c, "tg_comm_create", 0);
    }
    int came = 1;
    all[0] = fd;
    while (came < c->size && receive_with_files(p->sockets[came], &word, 1, &all[came], 1)) came++;
    bool sent = came == c->size;
    for (int r = 1; r < c->size && sent; r++)
        sent = send_with_files(p->sockets[r], &word, 1, all, came);
    all[0] = sent ? dup(fd) : -1;
    if (sent && all[0] >= 0) return TG_OK;
    close_all(all + 1, came - 1);
    return rt_comm_gave_up(c, "tg_comm_create", came == c->size ? 0 : came);
}

/// A process whose file is not locked has ended. (A process's own lock never blocks itself, so the
/// own file is skipped.)
static int find_dead_process(tg_comm *c) {
    const Processes *p = c->engine_state;
    for (int r = 0; r < c->size; r++) {
        struct flock all = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
        if (r != c->rank && fcntl(p->files[r], F_GETLK, &all) == 0 && all.l_type == F_UNLCK)
            return r;
    }
    return -1;
}

const rt_engine rt_engine_processes = {.name = "processes",
                                       .create = create_processes,
                                       .destroy = destroy_processes,
                                       .pass = pass_file_by_socket,
                                       .dead = find_dead_process};
