// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// An OpenSHMEM with the latest allowed completion: operations that may wait until `quiet` are done
// there and not before. All other functions come from the linked library.
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef void Move(void *to, const void *from, size_t bytes, int rank);

#define EXPORTED __attribute__((visibility("default")))
EXPORTED Move shmem_putmem_nbi, shmem_getmem_nbi;
EXPORTED void shmem_quiet(void);

typedef struct Late {
    Move *move;
    void *to;
    const void *from;
    size_t bytes;
    int rank;
} Late;

enum { MOST = 1 << 16 };

static Late late[MOST];
static int n;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void *library(const char *name) {
    void *function = dlsym(RTLD_NEXT, name);
    if (!function || n == MOST) abort();
    return function;
}

static void add(const char *name, void *to, const void *from, size_t bytes, int rank) {
    pthread_mutex_lock(&lock);
    Late *l = &late[n];
    *l = (Late){.to = to, .from = from, .bytes = bytes, .rank = rank};
    void *function = library(name);
    memcpy(&l->move, &function, sizeof function);
    n++;
    pthread_mutex_unlock(&lock);
}

void shmem_putmem_nbi(void *to, const void *from, size_t bytes, int rank) {
    add("shmem_putmem", to, from, bytes, rank);
}

void shmem_getmem_nbi(void *to, const void *from, size_t bytes, int rank) {
    add("shmem_getmem", to, from, bytes, rank);
}

void shmem_quiet(void) {
    void (*quiet)(void);
    pthread_mutex_lock(&lock);
    void *function = library("shmem_quiet");
    memcpy(&quiet, &function, sizeof function);
    while (n) {
        n--;
        late[n].move(late[n].to, late[n].from, late[n].bytes, late[n].rank);
    }
    quiet();
    pthread_mutex_unlock(&lock);
}

/// Prints whether there were delayed operations.
__attribute__((destructor)) static void say(void) {
    if (late[0].bytes) fprintf(stderr, "rows were moved late\n");
}
