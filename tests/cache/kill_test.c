// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Processes share a store and are killed at any point. Each process owns some keys and puts
// successive versions of them; all processes read all keys. After a put is reported as kept, every
// read must find that version or a newer one, and nothing else.
//
// TG_KILLS=10000 is the long form.
#include "tests/cache/folders.h"

#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

enum { WORKERS = 16, KEYS = 4, KILLS = 1000 };

/// Memory that outlives killed processes.
typedef struct Shared {
    _Atomic int64_t begun[WORKERS * KEYS], kept[WORKERS * KEYS];
    _Atomic long puts, gets, errors;
    char text[STORE_WHY]; // text of the first error
} Shared;

static Shared *shared;

static void complain(const char *what, int n, int64_t got, int64_t least, int64_t most) {
    if (shared->errors++) return;
    snprintf(shared->text, sizeof shared->text, "%s of key %d: %lld, not %lld to %lld", what, n,
             (long long)got, (long long)least, (long long)most);
}

static void read_one(Store *s, int n) {
    int64_t least = shared->kept[n], got = get_number(s, n), most = shared->begun[n];
    bool known = got != NUMBER_BUSY;
    if (known && (got < least || got > most)) complain("version", n, got, least, most);
    shared->gets++;
}

/// If the last put was interrupted, or the store was busy for seconds, its version may or may not
/// be there. The next put uses a greater version.
static void write_one(Store *s, int n, unsigned random) {
    int64_t version = shared->begun[n] + 1;
    shared->begun[n] = version;
    StoreStatus status = put_number(s, n, version, random % 20000);
    if (status && status != STORE_BUSY) complain("status", n, status, 0, 0);
    if (!status) shared->kept[n] = version;
    shared->puts++;
}

static void work(const char *folder, int worker, unsigned seed) {
    char why[STORE_WHY];
    Store *s;
    do s = store_open(folder, 0, why);
    while (!s && strstr(why, "other processes hold it"));
    if (!s) {
        if (!shared->errors++) snprintf(shared->text, sizeof shared->text, "%s", why);
        _exit(1);
    }
    for (;;) {
        seed = seed * 1664525 + 1013904223;
        read_one(s, (int)(seed >> 8) % (WORKERS * KEYS));
        if (seed >> 28 < 6) write_one(s, worker * KEYS + (int)(seed >> 16) % KEYS, seed >> 6);
    }
}

static pid_t start(const char *folder, int worker, unsigned seed) {
    pid_t pid = fork();
    if (pid == 0) work(folder, worker, seed);
    return pid;
}

/// Waits until some entries were read, for a varying time within the next one.
static void wait_for_work(void) {
    long end = shared->gets + random() % 40;
    do nanosleep(&(struct timespec){.tv_nsec = random() % 1000000}, NULL);
    while (shared->gets < end && !shared->errors);
}

static void survives_kills(void **state) {
    (void)state;
    const char *set = getenv("TG_KILLS"), *folder = fresh_folder();
    long kills = set ? atol(set) : KILLS;
    pid_t pids[WORKERS];
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(shared != MAP_FAILED);
    srandom(7);
    store_close(open_store(folder, 0));
    for (int w = 0; w < WORKERS; w++) pids[w] = start(folder, w, (unsigned)random());
    for (long i = 0; i < kills && !shared->errors; i++) {
        wait_for_work();
        int w = (int)(random() % WORKERS);
        kill(pids[w], SIGKILL);
        waitpid(pids[w], NULL, 0);
        pids[w] = start(folder, w, (unsigned)random());
    }
    for (int w = 0; w < WORKERS; w++) kill(pids[w], SIGKILL);
    for (int w = 0; w < WORKERS; w++) waitpid(pids[w], NULL, 0);
    Store *s = open_store(folder, 0);
    for (int n = 0; n < WORKERS * KEYS; n++) read_one(s, n);
    store_close(s);
    printf("%ld kills among %d processes: %ld entries put, %ld asked for\n", kills, WORKERS,
           shared->puts, shared->gets);
    if (shared->errors) fail_msg("%ld errors, first: %s", shared->errors, shared->text);
    assert_true(shared->puts > kills / 2);
    remove_folder(folder);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(survives_kills)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
