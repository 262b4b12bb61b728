// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Statuses, and the text of each thread's last failure.
//
// The text comes from the C library and not from a context's hooks, because it outlives contexts. A
// thread has two buffers, so that a message may quote the previous one. They are freed with the
// thread.
#include "runtime/compiler.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

typedef struct Messages {
    char *text[2];
    size_t size[2];
    int last;
} Messages;

static _Thread_local Messages *messages;
static _Thread_local const char *last_error = "";
static pthread_key_t key;
static pthread_once_t key_once = PTHREAD_ONCE_INIT;
static int has_key;

static void free_messages(void *arg) {
    Messages *m = arg;
    free(m->text[0]);
    free(m->text[1]);
    free(m);
    messages = NULL;
    last_error = "";
}

static void make_message_key(void) {
    has_key = pthread_key_create(&key, free_messages) == 0;
}

/// The messages of the calling thread; NULL: out of memory.
static Messages *own_messages(void) {
    if (messages) return messages;
    pthread_once(&key_once, make_message_key);
    Messages *m = has_key ? calloc(1, sizeof *m) : NULL;
    if (m && pthread_setspecific(key, m) != 0) {
        free(m);
        m = NULL;
    }
    return messages = m;
}

/// A buffer of at least `size` bytes other than that of the last message.
static char *spare_buffer(size_t size) {
    Messages *m = own_messages();
    if (!m) return NULL;
    int i = !m->last;
    if (m->size[i] < size) {
        size_t room = size < 256 ? 256 : size;
        char *grown = realloc(m->text[i], room);
        if (!grown) return NULL;
        m->text[i] = grown;
        m->size[i] = room;
    }
    m->last = i;
    return m->text[i];
}

tg_status tg_fail(tg_status status, const char *format, ...) {
    va_list ap;
    va_start(ap, format);
    int n = vsnprintf(NULL, 0, format, ap);
    va_end(ap);
    char *text = n < 0 ? NULL : spare_buffer((size_t)n + 1);
    if (text) {
        va_start(ap, format);
        vsnprintf(text, (size_t)n + 1, format, ap);
        va_end(ap);
    }
    last_error = text ? text : "out of memory";
    return status;
}

const char *tg_last_error(void) {
    return last_error;
}

const char *tg_status_name(tg_status status) {
    static const char *const names[] = {
        [TG_OK] = "TG_OK",
        [TG_ERROR_ARGUMENT] = "TG_ERROR_ARGUMENT",
        [TG_ERROR_CONTRACT] = "TG_ERROR_CONTRACT",
        [TG_ERROR_SOURCE] = "TG_ERROR_SOURCE",
        [TG_ERROR_NOT_FOUND] = "TG_ERROR_NOT_FOUND",
        [TG_ERROR_MEMORY] = "TG_ERROR_MEMORY",
        [TG_ERROR_UNSUPPORTED] = "TG_ERROR_UNSUPPORTED",
        [TG_ERROR_INTERNAL] = "TG_ERROR_INTERNAL",
        [TG_ERROR_RANK] = "TG_ERROR_RANK",
    };
    size_t i = (size_t)status;
    return i < sizeof names / sizeof *names ? names[i] : "unknown status";
}

#define TEXT_OF(x)  TEXT_OF_(x)
#define TEXT_OF_(x) #x
const char *tg_version(void) {
    return TEXT_OF(TG_VERSION_MAJOR) "." TEXT_OF(TG_VERSION_MINOR) ".0";
}
