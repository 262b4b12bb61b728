// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// See comm_peer.h. /proc/net/tcp lists the sockets of this network, a line each, with both
// addresses, the state, the user and the inode. The peer's socket is the line with the addresses of
// this end swapped.
#include "runtime/comm/comm_peer.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/// An address as those files write it: 32-bit words of this machine, and the port.
typedef struct FileAddress {
    char host[33];
    unsigned port;
} FileAddress;

static FileAddress file_address(const struct sockaddr_storage *a) {
    FileAddress out = {.port = 0};
    uint32_t words[4] = {0};
    int n = 1;
    if (a->ss_family == AF_INET6) {
        const struct sockaddr_in6 *six = (const struct sockaddr_in6 *)a;
        memcpy(words, &six->sin6_addr, sizeof words);
        out.port = ntohs(six->sin6_port);
        n = 4;
    } else {
        const struct sockaddr_in *four = (const struct sockaddr_in *)a;
        memcpy(words, &four->sin_addr, sizeof *words);
        out.port = ntohs(four->sin_port);
    }
    for (int i = 0; i < n; i++) snprintf(out.host + 8 * i, 9, "%08X", words[i]);
    return out;
}

static bool same_address(const char *host, unsigned port, const FileAddress *a) {
    return port == a->port && strcmp(host, a->host) == 0;
}

/// One pass over a list. The system makes the lines as they are read.
typedef struct Lines {
    int list;
    size_t at, n; // of the bytes: the next line, and the end
    char bytes[4096];
} Lines;

/// Moves the rest to the front and reads more. False: there is no more.
static bool read_more(Lines *l) {
    memmove(l->bytes, l->bytes + l->at, l->n -= l->at);
    l->at = 0;
    ssize_t got;
    do got = read(l->list, l->bytes + l->n, sizeof l->bytes - l->n);
    while (got < 0 && errno == EINTR);
    if (got > 0) l->n += (size_t)got;
    return got > 0;
}

/// Returns the next line, without its end; NULL: there is none.
static const char *next_line(Lines *l) {
    char *line, *end;
    do {
        line = l->bytes + l->at;
        end = memchr(line, '\n', l->n - l->at);
    } while (!end && read_more(l));
    if (!end) return NULL;
    *end = 0;
    l->at = (size_t)(end + 1 - l->bytes);
    return line;
}

/// Finds the user of the open socket at `end` that is connected to `to`. A socket that its process
/// has closed, or not accepted yet, has no inode and no user. False: there is none.
static bool find_user(int list, const FileAddress *end, const FileAddress *to, uid_t *out) {
    enum { ESTABLISHED = 1 };
    char from_host[33], to_host[33];
    unsigned from_port, to_port, state, user;
    unsigned long inode;
    Lines lines = {.list = list};
    if (lseek(list, 0, SEEK_SET)) return false;
    for (const char *line; (line = next_line(&lines));) {
        if (sscanf(line, " %*d: %32[0-9A-F]:%X %32[0-9A-F]:%X %X %*X:%*X %*X:%*X %*X %u %*d %lu",
                   from_host, &from_port, to_host, &to_port, &state, &user, &inode) != 7)
            continue;
        *out = user;
        if (state == ESTABLISHED && inode && same_address(from_host, from_port, end) &&
            same_address(to_host, to_port, to))
            return true;
    }
    return false;
}

/// Reads the first `n` numbers of a file. False: it has fewer.
static bool read_numbers(const char *path, int n, unsigned out[3]) {
    FILE *f = fopen(path, "re");
    if (!f) return false;
    int found = fscanf(f, "%u %u %u", &out[0], &out[1], &out[2]);
    fclose(f);
    return found >= n;
}

/// A user namespace shows all users without a number in it as one. A namespace with numbers for all
/// users, such as the first one, has a map of one line.
static bool lacks_number(void) {
    unsigned overflow[3], map[3];
    if (!read_numbers("/proc/sys/kernel/overflowuid", 1, overflow)) overflow[0] = 65534;
    if (geteuid() != overflow[0]) return false;
    return !read_numbers("/proc/self/uid_map", 3, map) || map[2] != UINT32_MAX;
}

void rt_peers_open(rt_peers *p) {
    *p = (rt_peers){.four = open("/proc/net/tcp", O_RDONLY | O_CLOEXEC),
                    .six = open("/proc/net/tcp6", O_RDONLY | O_CLOEXEC),
                    .no_number = lacks_number()};
}

void rt_peers_close(rt_peers *p) {
    if (p->four >= 0) close(p->four);
    if (p->six >= 0) close(p->six);
    *p = RT_NO_PEERS;
}

rt_peer rt_peer_of(const rt_peers *p, int socket) {
    struct sockaddr_storage own = {0}, other = {0};
    socklen_t n = sizeof own, m = sizeof other;
    uid_t user;
    if (getsockname(socket, (struct sockaddr *)&own, &n) ||
        getpeername(socket, (struct sockaddr *)&other, &m))
        return RT_PEER_GONE;
    int list = own.ss_family == AF_INET6 ? p->six : p->four;
    FileAddress here = file_address(&own), there = file_address(&other);
    if (list < 0 || p->no_number) return RT_PEER_OTHER;
    if (!find_user(list, &there, &here, &user)) return RT_PEER_GONE;
    return user == geteuid() || user == 0 ? RT_PEER_OWN : RT_PEER_OTHER;
}
