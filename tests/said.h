// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Collects the lines that a context's log hook received, from any thread.
#ifndef TESTS_SAID_H
#define TESTS_SAID_H

#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

static struct {
    char text[1 << 14];
    pthread_mutex_t lock;
} said = {.lock = PTHREAD_MUTEX_INITIALIZER};

static inline void note(void *user, const char *line) {
    (void)user;
    pthread_mutex_lock(&said.lock);
    size_t n = strlen(said.text);
    snprintf(said.text + n, sizeof said.text - n, "%s\n", line);
    pthread_mutex_unlock(&said.lock);
}

static inline bool was_said(const char *text) {
    pthread_mutex_lock(&said.lock);
    bool found = strstr(said.text, text) != NULL;
    pthread_mutex_unlock(&said.lock);
    return found;
}

#endif
