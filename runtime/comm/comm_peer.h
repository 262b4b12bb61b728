// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The other end of a connection within this host.
#ifndef RUNTIME_COMM_COMM_PEER_H
#define RUNTIME_COMM_COMM_PEER_H

#include <stdbool.h>
#include <sys/types.h>

/// The system's lists of connections. They are opened before strangers may use up the process's
/// files.
typedef struct rt_peers {
    int four, six;  // IPv4, IPv6; or -1
    bool no_number; // this user has no number in the user namespace
} rt_peers;
#define RT_NO_PEERS ((rt_peers){-1, -1, false})

void rt_peers_open(rt_peers *p);
void rt_peers_close(rt_peers *p);
/// The user at the other end of a connection. GONE: that end has closed the connection, or the list
/// changed during the read. OTHER: another user, or the system does not name the user.
typedef enum rt_peer { RT_PEER_OWN, RT_PEER_OTHER, RT_PEER_GONE } rt_peer;
/// Whether the process at the other end of a loopback connection belongs to this user, or to root.
/// The peer must have accepted the connection.
rt_peer rt_peer_of(const rt_peers *p, int socket);

#endif
