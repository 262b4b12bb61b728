// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The other end of a connection within this host.
#ifndef RUNTIME_COMM_COMM_PEER_H
#define RUNTIME_COMM_COMM_PEER_H

#include <stdbool.h>
#include <stdio.h>

/// The system's lists of connections. They are opened before strangers may use up the process's
/// files.
typedef struct rt_peers {
    FILE *four, *six; // IPv4, IPv6; or NULL
} rt_peers;

void rt_peers_open(rt_peers *p);
void rt_peers_close(rt_peers *p);
/// The user of a connection's other end. GONE: it has closed the connection. OTHER: also where the
/// system does not list connections.
typedef enum rt_peer { RT_PEER_OWN, RT_PEER_OTHER, RT_PEER_GONE } rt_peer;
/// Whether the process at the other end of a loopback connection belongs to this user, or to root.
/// The peer must have accepted the connection.
rt_peer rt_peer_of(const rt_peers *p, int socket);

#endif
