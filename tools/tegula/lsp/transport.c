// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Messages of the language server: headers, a blank line, and a body of Content-Length bytes. A
// malformed header costs its message alone, since the reader goes on at the next header.
#include "tools/tegula/lsp/lsp.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

enum { MAX_MESSAGE = 64 << 20, MAX_HEADER = 4096, READ_SIZE = 1 << 16 };

/// Makes room for n more bytes behind the ones that are left.
static bool reserve(Transport *t, size_t n) {
    if (t->at) memmove(t->data, t->data + t->at, t->n - t->at);
    t->n -= t->at;
    t->at = 0;
    if (t->n + n <= t->cap) return true;
    size_t cap = t->n + n > 2 * t->cap ? t->n + n : 2 * t->cap;
    char *data = realloc(t->data, cap);
    if (!data) return false;
    t->data = data;
    t->cap = cap;
    return true;
}

/// Reads what has arrived, at least one byte. False: the client is gone.
static bool receive(Transport *t) {
    if (t->closed || !reserve(t, READ_SIZE)) return false;
    ssize_t n;
    do n = read(t->in, t->data + t->n, READ_SIZE);
    while (n < 0 && errno == EINTR);
    t->closed = n <= 0;
    if (n > 0) t->n += (size_t)n;
    return n > 0;
}

/// Drops n bytes of the input. False: the client is gone.
static bool skip(Transport *t, size_t n) {
    while (n) {
        if (t->at == t->n && !receive(t)) return false;
        size_t part = t->n - t->at < n ? t->n - t->at : n;
        t->at += part;
        n -= part;
    }
    return true;
}

/// Takes a line of the header, without its end. Of a long line, it takes the first part alone.
static bool header_line(Transport *t, char *line) {
    size_t n = 0;
    for (;;) {
        if (t->at == t->n && !receive(t)) return false;
        char c = t->data[t->at++];
        if (c == '\n') break;
        if (n < MAX_HEADER - 1) line[n++] = c;
    }
    if (n && line[n - 1] == '\r') n--;
    line[n] = 0;
    return true;
}

/// Reads the length in a header line; -1: it is another header, or no number.
static long long content_length(const char *line) {
    static const char name[] = "content-length:";
    if (strncasecmp(line, name, sizeof name - 1) != 0) return -1;
    char *end;
    errno = 0;
    long long n = strtoll(line + sizeof name - 1, &end, 10);
    while (*end == ' ' || *end == '\t') end++;
    return *end || errno || n < 0 ? -1 : n;
}

MessageStatus transport_read(Transport *t, const char **body, size_t *n) {
    char line[MAX_HEADER];
    long long length = -1;
    do {
        if (!header_line(t, line)) return MESSAGE_END;
        long long found = content_length(line);
        if (found >= 0) length = found;
    } while (*line);
    if (length < 0) return MESSAGE_MALFORMED;
    if (length > MAX_MESSAGE) return skip(t, (size_t)length) ? MESSAGE_TOO_LARGE : MESSAGE_END;
    while (t->n - t->at < (size_t)length)
        if (!receive(t)) return MESSAGE_END;
    *body = t->data + t->at;
    *n = (size_t)length;
    t->at += (size_t)length;
    return MESSAGE_READ;
}

bool transport_waits(Transport *t) {
    struct pollfd in = {.fd = t->in, .events = POLLIN};
    return t->at < t->n || (!t->closed && poll(&in, 1, 0) > 0);
}

static bool write_all(Transport *t, const char *data, size_t n) {
    while (n && !t->closed) {
        ssize_t wrote = write(t->out, data, n);
        if (wrote < 0 && errno == EINTR) continue;
        t->closed = wrote <= 0;
        if (wrote <= 0) break;
        data += wrote;
        n -= (size_t)wrote;
    }
    return !n;
}

void transport_send(Transport *t, json_t *message) {
    char *text = message ? json_dumps(message, JSON_COMPACT) : NULL;
    json_decref(message);
    if (!text) return;
    char header[64];
    size_t n = strlen(text);
    int m = snprintf(header, sizeof header, "Content-Length: %zu\r\n\r\n", n);
    if (write_all(t, header, (size_t)m)) write_all(t, text, n);
    free(text);
}

void transport_close(Transport *t) {
    free(t->data);
    *t = (Transport){.closed = true};
}
