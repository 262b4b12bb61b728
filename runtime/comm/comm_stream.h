// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Bytes over a connection, and the time that they may take.
#ifndef RUNTIME_COMM_COMM_STREAM_H
#define RUNTIME_COMM_COMM_STREAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

/// Send or receive all bytes. False: the connection has ended.
bool rt_send_whole(int socket, struct iovec *parts, int n);
bool rt_send_bytes(int socket, const void *bytes, size_t size);
bool rt_receive_bytes(int socket, void *bytes, size_t size);

/// Receives the bytes that have arrived, and adds their number to *got. False: the connection has
/// ended.
bool rt_receive_some(int socket, void *bytes, size_t size, size_t *got);
/// Receives all bytes before `end` of rt_now_ns, in however small pieces; else false.
bool rt_receive_until(int socket, void *bytes, size_t size, int64_t end);
/// Limits the time of each call on the socket.
void rt_limit(int socket, int ms);
/// Milliseconds until `end`, rounded up; 0: it is over.
int rt_left_ms(int64_t end);
/// Sleeps before another attempt, but not past `end`. The pauses grow; *ms is the last one, and 0
/// before the first.
void rt_pause(int *ms, int64_t end);

#endif
