// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// See comm_peer.h. /proc/net/tcp lists the sockets of this network, a line each, with both
// addresses, the state, the user and the inode. The peer's socket is the line with the addresses of
// this end swapped.
#include "runtime/comm/comm_peer.h"

#include <netinet/in.h>
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

/// Finds the user of the open socket at `end` that is connected to `to`. A socket that its process
/// has closed, or not accepted yet, has no inode and no user. False: there is none.
static bool find_user(FILE *list, const FileAddress *end, const FileAddress *to, uid_t *out) {
    enum { ESTABLISHED = 1 };
    char line[512], from_host[33], to_host[33];
    unsigned from_port, to_port, state, user;
    unsigned long inode;
    bool found = false;
    rewind(list);
    while (!found && fgets(line, sizeof line, list)) {
        if (sscanf(line, " %*d: %32[0-9A-F]:%X %32[0-9A-F]:%X %X %*X:%*X %*X:%*X %*X %u %*d %lu",
                   from_host, &from_port, to_host, &to_port, &state, &user, &inode) != 7)
            continue;
        found = state == ESTABLISHED && inode && same_address(from_host, from_port, end) &&
                same_address(to_host, to_port, to);
        *out = user;
    }
    return found;
}

void rt_peers_open(rt_peers *p) {
    *p = (rt_peers){fopen("/proc/net/tcp", "re"), fopen("/proc/net/tcp6", "re")};
}

void rt_peers_close(rt_peers *p) {
    if (p->four) fclose(p->four);
    if (p->six) fclose(p->six);
    *p = (rt_peers){NULL, NULL};
}

rt_peer rt_peer_of(const rt_peers *p, int socket) {
    struct sockaddr_storage own = {0}, other = {0};
    socklen_t n = sizeof own, m = sizeof other;
    uid_t user;
    if (getsockname(socket, (struct sockaddr *)&own, &n) ||
        getpeername(socket, (struct sockaddr *)&other, &m))
        return RT_PEER_GONE;
    FILE *list = own.ss_family == AF_INET6 ? p->six : p->four;
    FileAddress here = file_address(&own), there = file_address(&other);
    if (!list) return RT_PEER_OTHER;
    if (!find_user(list, &there, &here, &user)) return RT_PEER_GONE;
    return user == geteuid() || user == 0 ? RT_PEER_OWN : RT_PEER_OTHER;
}
