// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Tests the store: a get finds every entry that was put, unused entries are removed, and disk
// errors become statuses.
#include "tests/cache/folders.h"

#include <fcntl.h>
#include <grp.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>
#include <sqlite3.h>

/* ---- puts ---------------------------------------------------------------------------------- */

static void put_and_get(const char *folder) {
    Store *s = open_store(folder, 0);
    void *value;
    size_t bytes;
    for (int n = 0; n < 20; n++) assert_int_equal(get_number(s, n), 0);
    for (int n = 0; n < 20; n++) assert_int_equal(put_number(s, n, 1, (size_t)n * 1000), STORE_OK);
    for (int n = 0; n < 20; n++) assert_int_equal(get_number(s, n), 1);
    assert_int_equal(put_number(s, 7, 2, 5), STORE_OK);
    assert_int_equal(get_number(s, 7), 2);
    assert_int_equal(store_get(s, key_number(7), STORE_TUNING, &value, &bytes), STORE_ABSENT);
    assert_int_equal(store_remove(s, key_number(7)), STORE_OK);
    assert_int_equal(get_number(s, 7), 0);
    store_close(s);
    s = open_store(folder, 0); // as another process would see it
    for (int n = 0; n < 20; n++) assert_int_equal(get_number(s, n), n != 7);
    store_close(s);
}

static void keeps(void **state) {
    (void)state;
    const char *folder = fresh_folder();
    put_and_get(folder);
    remove_folder(folder);
}

/// As on a network file system, without memory that processes share.
static void keeps_without_log(void **state) {
    (void)state;
    char file[128];
    const char *folder = fresh_folder();
    setenv("TG_CACHE_JOURNAL", "delete", 1);
    put_and_get(folder);
    unsetenv("TG_CACHE_JOURNAL");
    snprintf(file, sizeof file, "%s/kernels-1.db-wal", folder);
    assert_int_not_equal(access(file, F_OK), 0);
    remove_folder(folder);
}

static void is_private(void **state) {
    (void)state;
    struct stat st;
    char why[STORE_WHY], path[128];
    const char *folder = fresh_folder();
    snprintf(path, sizeof path, "%s/a/b", folder);
    Store *s = open_store(path, 0);
    assert_int_equal(put_number(s, 1, 1, 100), STORE_OK);
    assert_int_equal(stat(store_path(s), &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0700);
    store_close(s);
    assert_int_equal(chmod(path, 0770), 0);
    assert_null(store_open(path, 0, why));
    assert_non_null(strstr(why, "other users"));
    remove_folder(folder);
}

static void expect_refusal(const char *folder, const char *name, const char *reason) {
    char why[STORE_WHY];
    assert_null(store_open(folder, 0, why));
    if (!strstr(why, name) || !strstr(why, reason)) fail_msg("%s: %s", name, why);
}

/// Refuses each kind of file that another user made or may write to, or that is a link.
static void trusts_no_foreign_file(void **state) {
    (void)state;
    static const char *const names[] = {"kernels-1.db",
                                        "kernels-1.db-wal",
                                        "kernels-1.db-shm",
                                        "kernels-1.db-journal",
                                        "kernels-7.db",
                                        "lock",
                                        "claims"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char file[128], other[128];
        const char *folder = fresh_folder();
        store_close(open_store(folder, 0));
        snprintf(file, sizeof file, "%s/%s", folder, names[i]);
        snprintf(other, sizeof other, "%s/elsewhere", folder);
        int fd = open(file, O_RDWR | O_CREAT, 0600);
        assert_true(fd >= 0);
        static const mode_t modes[] = {0620, 0602, 0666};
        for (int k = 0; k < 3; k++) {
            assert_int_equal(fchmod(fd, modes[k]), 0);
            expect_refusal(folder, names[i], "other users may write to it");
        }
        assert_int_equal(fchmod(fd, 0600), 0);
        if (geteuid() == 0) {
            assert_int_equal(fchown(fd, 65534, 65534), 0);
            expect_refusal(folder, names[i], "it belongs to another user");
            assert_int_equal(fchown(fd, 0, 0), 0);
        }
        close(fd);
        assert_int_equal(rename(file, other), 0);
        assert_int_equal(symlink(other, file), 0);
        expect_refusal(folder, names[i], "it is a symbolic link");
        assert_int_equal(unlink(file), 0);
        assert_int_equal(mkfifo(file, 0600), 0);
        expect_refusal(folder, names[i], "it is not a regular file");
        remove_folder(folder);
    }
}

/// A user who can write to a parent folder could replace the store's folder, unless the parent is
/// sticky.
static void trusts_no_foreign_folder(void **state) {
    (void)state;
    char above[128], path[160], link[128];
    const char *folder = fresh_folder();
    snprintf(above, sizeof above, "%s/above", folder);
    snprintf(path, sizeof path, "%s/own", above);
    snprintf(link, sizeof link, "%s/link", folder);
    store_close(open_store(path, 0));
    assert_int_equal(chmod(above, 0777), 0);
    expect_refusal(path, above, "put another folder below it");
    if (geteuid() == 0) {
        assert_int_equal(chown(above, 0, 1), 0);
        assert_int_equal(chmod(above, 0770), 0);
        expect_refusal(path, above, "put another folder below it");
        assert_int_equal(chown(above, 0, 0), 0);
    }
    assert_int_equal(chmod(above, 01777), 0);
    store_close(open_store(path, 0));
    // A link is judged by its target.
    assert_int_equal(symlink(path, link), 0);
    store_close(open_store(link, 0));
    assert_int_equal(chmod(above, 0777), 0);
    expect_refusal(link, above, "put another folder below it");
    assert_int_equal(chmod(above, 0755), 0);
    if (geteuid() == 0) {
        assert_int_equal(chown(above, 65534, 65534), 0);
        expect_refusal(path, above, "it belongs to another user");
        assert_int_equal(chown(above, 0, 0), 0);
        assert_int_equal(chown(path, 65534, 65534), 0);
        expect_refusal(path, path, "it belongs to another user");
    }
    remove_folder(folder);
}

/* ---- ordinary set-ups ------------------------------------------------------------------------ */

// Each attempt runs in a child, because it changes its user for good. The child's status is that of
// open_below.
enum { OPENED, REFUSED, NOT_THERE, USER = 4321 };

static char home[128], below[160];

static int open_below(void) {
    char why[STORE_WHY];
    Store *s = store_open(below, 0, why);
    if (!s) fprintf(stderr, "%s\n", why);
    store_close(s);
    return s ? OPENED : REFUSED;
}

static int in_child(int (*body)(void)) {
    int status = -1;
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) _exit(body());
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

/// Makes HOME/.cache/tegula of USER, the first two with these modes.
static const char *make_home(mode_t mode) {
    char cache[140];
    const char *folder = fresh_folder();
    snprintf(home, sizeof home, "%s/home", folder);
    snprintf(cache, sizeof cache, "%s/.cache", home);
    snprintf(below, sizeof below, "%s/tegula", cache);
    assert_int_equal(mkdir(home, 0700) | mkdir(cache, 0700), 0);
    assert_int_equal(chmod(folder, 0755) | chmod(home, mode) | chmod(cache, mode), 0);
    if (geteuid() == 0) assert_int_equal(chown(home, USER, USER) | chown(cache, USER, USER), 0);
    return folder;
}

static int as_user_of(gid_t group) {
    if (setgroups(0, NULL) || setgid(group) || setuid(USER)) return NOT_THERE;
    return open_below();
}

static int as_user(void) {
    return as_user_of(USER);
}

static int as_user_of_a_group(void) {
    return as_user_of(1);
}

static int as_root_at_home(void) {
    setenv("HOME", home, 1);
    return open_below();
}

static int as_root_elsewhere(void) {
    setenv("HOME", "/", 1);
    return open_below();
}

/// umask 002: folders also belong to the user's private group.
static void takes_a_private_group(void **state) {
    (void)state;
    if (geteuid() != 0) skip();
    const char *folder = make_home(0775);
    assert_int_equal(in_child(as_user), OPENED);
    assert_int_equal(chown(home, USER, 1), 0);
    assert_int_equal(in_child(as_user), REFUSED);            // a folder of another group
    assert_int_equal(in_child(as_user_of_a_group), REFUSED); // a group that is not private
    assert_int_equal(chown(home, USER, USER), 0);
    assert_int_equal(chmod(home, 0777), 0);
    assert_int_equal(in_child(as_user), REFUSED);
    assert_int_equal(chmod(home, 0775), 0);
    assert_int_equal(chmod(below, 0770), 0);
    assert_int_equal(in_child(as_user), REFUSED); // the store's own folder
    remove_folder(folder);
}

/// Root in another user's home, as with `sudo -E`.
static void takes_the_home_of_roots_user(void **state) {
    (void)state;
    if (geteuid() != 0) skip();
    const char *folder = make_home(0755);
    assert_int_equal(in_child(as_root_elsewhere), REFUSED);
    assert_int_equal(in_child(as_root_at_home), OPENED);
    assert_int_equal(chmod(home, 0775), 0);
    assert_int_equal(in_child(as_root_at_home), REFUSED);
    remove_folder(folder);
}

static bool write_text(const char *path, const char *text) {
    int fd = open(path, O_WRONLY);
    bool good = fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);
    if (fd >= 0) close(fd);
    return good;
}

/// USER in a user namespace without other users, where root's folders seem to belong to nobody.
static int in_a_namespace(void) {
    char map[64];
    if (setgroups(0, NULL) || setgid(USER) || setuid(USER)) return NOT_THERE;
    prctl(PR_SET_DUMPABLE, 1);
    if (unshare(CLONE_NEWUSER)) return NOT_THERE;
    snprintf(map, sizeof map, "%d %d 1", USER, USER);
    if (!write_text("/proc/self/uid_map", map)) return NOT_THERE;
    if (!write_text("/proc/self/setgroups", "deny")) return NOT_THERE;
    if (!write_text("/proc/self/gid_map", map)) return NOT_THERE;
    return open_below();
}

static void takes_folders_of_unmapped_users(void **state) {
    (void)state;
    if (geteuid() != 0) skip();
    const char *folder = make_home(0755);
    int status = in_child(in_a_namespace);
    if (status == NOT_THERE) printf("there are no user namespaces\n");
    assert_int_not_equal(status, REFUSED);
    assert_int_equal(chmod(folder, 0777), 0);
    assert_int_not_equal(in_child(in_a_namespace), OPENED);
    assert_int_equal(chmod(folder, 0775), 0);
    assert_int_not_equal(in_child(in_a_namespace), OPENED); // a folder of an unmapped group
    remove_folder(folder);
}

/* ---- removal ------------------------------------------------------------------------------- */

static StoreStatus put_used(Store *s, int n, int64_t used, size_t bytes) {
    void *value = calloc(1, bytes);
    StoreEntry e = {.key = key_number(n),
                    .kind = STORE_CODE,
                    .about = "",
                    .value = value,
                    .bytes = bytes,
                    .used = used};
    StoreStatus status = store_put(s, &e);
    free(value);
    return status;
}

static bool has(Store *s, int n) {
    void *value;
    size_t bytes;
    if (store_get(s, key_number(n), STORE_CODE, &value, &bytes)) return false;
    free(value);
    return true;
}

static void bounds_its_size(void **state) {
    (void)state;
    enum { LIMIT = 100000, BYTES = 1000, MANY = 300 };
    const char *folder = fresh_folder();
    Store *s = open_store(folder, LIMIT);
    StoreSize size;
    for (int n = 0; n < MANY; n++) {
        assert_int_equal(put_used(s, n, 1000 + n, BYTES), STORE_OK);
        assert_int_equal(store_size(s, &size), STORE_OK);
        assert_true(size.bytes <= LIMIT);
    }
    assert_true(size.bytes >= LIMIT * 8 / 10);
    assert_false(has(s, 0));
    assert_true(has(s, MANY - 1));
    assert_true(size.file < 2 * LIMIT);
    store_close(s);
    remove_folder(folder);
}

/// With entries of typical kernels, the file stays within 5 % of its limit.
static void bounds_its_file(void **state) {
    (void)state;
    enum { LIMIT = 8 << 20, BYTES = 30000, MANY = 600 };
    const char *folder = fresh_folder();
    Store *s = open_store(folder, LIMIT);
    StoreSize size;
    for (int n = 0; n < MANY; n++) {
        assert_int_equal(put_used(s, n, 1000 + n, BYTES + n % 7 * 1000), STORE_OK);
        assert_int_equal(store_size(s, &size), STORE_OK);
        assert_true(size.file <= LIMIT / 20 * 21);
    }
    assert_true(size.bytes >= LIMIT / 10 * 8);
    printf("%lld bytes in a file of %lld, of %d\n", (long long)size.bytes, (long long)size.file,
           LIMIT);
    store_close(s);
    remove_folder(folder);
}

/// Reading an entry counts as a use, so it outlives unused entries.
static void prunes(void **state) {
    (void)state;
    const char *folder = fresh_folder();
    Store *s = open_store(folder, 0);
    StoreSize size;
    int removed;
    for (int n = 0; n < 10; n++) assert_int_equal(put_used(s, n, 1000 + n, 100), STORE_OK);
    assert_true(has(s, 0));
    assert_int_equal(store_prune(s, 1004, -1, &removed), STORE_OK);
    assert_int_equal(removed, 3);
    assert_true(has(s, 0) && !has(s, 1) && !has(s, 3));
    assert_int_equal(store_prune(s, INT64_MIN, 250, &removed), STORE_OK);
    assert_int_equal(store_size(s, &size), STORE_OK);
    assert_int_equal(size.entries, 2);
    assert_true(has(s, 0));
    assert_int_equal(store_prune(s, INT64_MIN, 0, &removed), STORE_OK);
    assert_int_equal(store_size(s, &size), STORE_OK);
    assert_int_equal(size.entries, 0);
    assert_int_equal(store_compact(s), STORE_OK);
    store_close(s);
    remove_folder(folder);
}

/* ---- other files --------------------------------------------------------------------------- */

static void travels(void **state) {
    (void)state;
    char file[128], other[128];
    const char *folder = fresh_folder();
    int added, damaged;
    snprintf(file, sizeof file, "%s/out.db", folder);
    snprintf(other, sizeof other, "%s/other", folder);
    Store *s = open_store(folder, 0), *t = open_store(other, 0);
    for (int n = 0; n < 5; n++) assert_int_equal(put_number(s, n, 1, 3000), STORE_OK);
    assert_int_equal(put_number(t, 4, 2, 3000), STORE_OK);
    assert_int_equal(store_export(s, file), STORE_OK);
    assert_int_equal(store_import(t, file, &added, &damaged), STORE_OK);
    assert_int_equal(added, 4);
    assert_int_equal(damaged, 0);
    for (int n = 0; n < 5; n++) assert_int_equal(get_number(t, n), n == 4 ? 2 : 1);
    assert_int_equal(store_import(t, "/etc/passwd", &added, &damaged), STORE_REFUSED);
    assert_int_equal(store_import(t, "/nowhere", &added, &damaged), STORE_REFUSED);
    store_close(s);
    store_close(t);
    remove_folder(folder);
}

/* ---- disk errors --------------------------------------------------------------------------- */

static void change(const char *path, const char *sql) {
    sqlite3 *db;
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(db);
}

static void finds_damage(void **state) {
    (void)state;
    const char *folder = fresh_folder();
    Store *s = open_store(folder, 0);
    int sound, damaged;
    for (int n = 0; n < 6; n++) assert_int_equal(put_number(s, n, 1, 50), STORE_OK);
    change(store_path(s), "UPDATE entry SET value = zeroblob(74) WHERE about = 'number 0';"
                          "UPDATE entry SET about = 'number 9' WHERE about = 'number 1';"
                          "UPDATE entry SET kind = 2 WHERE about = 'number 2';"
                          "UPDATE entry SET key = x'00' WHERE about = 'number 3'");
    for (int n = 0; n < 6; n++) assert_int_equal(get_number(s, n), n > 3);
    assert_int_equal(store_verify(s, &sound, &damaged), STORE_OK);
    assert_int_equal(sound, 2);
    assert_int_equal(damaged, 1); // the others were removed when they were read
    assert_int_equal(store_verify(s, &sound, &damaged), STORE_OK);
    assert_int_equal(damaged, 0);
    store_close(s);
    remove_folder(folder);
}

/// Another process continues with the file that it has open. At the end both see the same.
static void replaces_ruins(void **state) {
    (void)state;
    const char *folder = fresh_folder();
    Store *s = open_store(folder, 0);
    char path[4096];
    assert_int_equal(put_number(s, 1, 1, 100), STORE_OK);
    snprintf(path, sizeof path, "%s", store_path(s));
    store_close(s);
    int fd = open(path, O_WRONLY | O_TRUNC);
    assert_int_equal(write(fd, "these are no pages, and there are not 512 bytes", 47), 47);
    close(fd);
    s = open_store(folder, 0);
    assert_int_equal(get_number(s, 1), 0);
    assert_int_equal(put_number(s, 1, 2, 100), STORE_OK);
    assert_int_equal(get_number(s, 1), 2);
    assert_int_not_equal(access(path, F_OK), 0);
    store_close(s);
    remove_folder(folder);
}

static void refuses_others(void **state) {
    (void)state;
    char why[STORE_WHY];
    const char *folder = fresh_folder();
    Store *s = open_store(folder, 0);
    change(store_path(s), "PRAGMA user_version = 99");
    store_close(s);
    assert_null(store_open(folder, 0, why));
    assert_non_null(strstr(why, "another version"));
    assert_null(store_open("/proc/1/tegula", 0, why));
    assert_null(store_open("/dev/null/tegula", 0, why));
    remove_folder(folder);
}

/// In a process that may write no file beyond 200 kB, some entries do not fit and none is torn.
static int fill(const char *folder) {
    struct rlimit limit = {200000, 200000};
    Store *s = open_store(folder, 0);
    int full = 0, kept = 0;
    signal(SIGXFSZ, SIG_IGN);
    if (setrlimit(RLIMIT_FSIZE, &limit) != 0) return 2;
    for (int n = 0; n < 60; n++) {
        StoreStatus status = put_number(s, n, 1, 10000);
        int64_t version = get_number(s, n);
        if (status != STORE_OK) full++;
        if (version < 0 || (status == STORE_OK) != (version == 1)) return 3;
        kept += version == 1;
    }
    store_close(s);
    return full && kept ? 0 : 4;
}

static void stands_a_full_disk(void **state) {
    (void)state;
    const char *folder = fresh_folder();
    int status = -1;
    pid_t pid = fork();
    if (pid == 0) _exit(fill(folder));
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    Store *s = open_store(folder, 0);
    for (int n = 0; n < 60; n++) assert_true(get_number(s, n) >= 0);
    assert_int_equal(put_number(s, 99, 3, 10), STORE_OK);
    store_close(s);
    remove_folder(folder);
}

/// Bytes that this process has read; 0 if the system does not count them.
static long bytes_read(void) {
    long n = 0;
    FILE *in = fopen("/proc/self/io", "r");
    if (!in) return 0;
    if (fscanf(in, "rchar: %ld", &n) != 1) n = 0;
    fclose(in);
    return n;
}

/// Opening a store of 20,000 entries, and finding one, reads little more than in a small store.
static void many_entries(void **state) {
    (void)state;
    enum { MANY = 20000, ROUNDS = 5, PAGES = 8 * 4096 };
    long most[2][2] = {{0}};
    for (int large = 0; large < 2; large++) {
        const char *folder = fresh_folder();
        Store *s = open_store(folder, 0);
        for (int n = 0; n < (large ? MANY : 10); n++) put_number(s, n, 1, 300);
        store_close(s);
        for (int r = 0; r < ROUNDS; r++) {
            long n[3] = {bytes_read()};
            s = open_store(folder, 0);
            n[1] = bytes_read();
            assert_int_equal(get_number(s, large ? r * (MANY / ROUNDS) : 5), 1);
            n[2] = bytes_read();
            store_close(s);
            for (int i = 0; i < 2; i++)
                if (n[i + 1] - n[i] > most[large][i]) most[large][i] = n[i + 1] - n[i];
        }
        remove_folder(folder);
    }
    printf("bytes read to open and to get: %ld and %ld of ten entries, %ld and %ld of %d\n",
           most[0][0], most[0][1], most[1][0], most[1][1], MANY);
    assert_true(most[1][0] <= 2 * most[0][0] + PAGES && most[1][1] <= most[0][1] + PAGES);
}

typedef struct File {
    char path[4096];
    uint8_t bytes[1 << 18];
    size_t size;
} File;

static void read_file(File *f, const char *path, const char *end) {
    snprintf(f->path, sizeof f->path, "%s%s", path, end);
    FILE *in = fopen(f->path, "rb");
    f->size = in ? fread(f->bytes, 1, sizeof f->bytes, in) : 0;
    if (in) fclose(in);
    assert_in_range(f->size, 0, sizeof f->bytes - 1);
}

static void write_file(const File *f) {
    if (!f->size) return;
    int fd = open(f->path, O_WRONLY | O_CREAT, 0600);
    assert_int_equal(write(fd, f->bytes, f->size), (ssize_t)f->size);
    close(fd);
}

enum { FLIP_ENTRIES = 4 };

/// Opens the store with these files and reads its entries. Returns the number found.
static int look_at_flipped(const char *folder, const File files[2], size_t at) {
    char why[STORE_WHY];
    int found = 0;
    remove_folder(folder);
    assert_int_equal(mkdir(folder, 0700), 0);
    for (int i = 0; i < 2; i++) write_file(&files[i]);
    Store *s = store_open(folder, 0, why);
    for (int n = 0; n < FLIP_ENTRIES; n++) {
        int64_t version = s ? get_number(s, n) : 0;
        if (version != 0 && version != 1 + n)
            fail_msg("byte %zu: version %d of %d", at, (int)version, n);
        found += version != 0;
    }
    if (s && at % 16 == 0) put_number(s, 9, 9, 10); // any outcome is allowed
    store_close(s);
    return found;
}

/// Flips bytes of the file, and of the log beside it as a killed process leaves it.
static void flip_all(const char *journal) {
    static File files[2];
    const char *folder = fresh_folder();
    int found = 0, missed = 0;
    setenv("TG_CACHE_JOURNAL", journal, 1);
    Store *s = open_store(folder, 0);
    for (int n = 0; n < FLIP_ENTRIES; n++) put_number(s, n, 1 + n, 100 + 1500 * (size_t)n);
    bool logs = strcmp(journal, "wal") == 0;
    const char *path = store_path(s);
    read_file(&files[0], path, "");
    read_file(&files[1], path, "-wal");
    store_close(s);
    assert_true(logs == (files[1].size > 0));
    assert_in_range(files[logs].size, 16384, sizeof files[logs].bytes);
    assert_int_equal(look_at_flipped(folder, files, 0), FLIP_ENTRIES);
    for (int f = 0; f < 2; f++)
        for (size_t i = 0; i < files[f].size; i++) {
            uint8_t *at = &files[f].bytes[i], was = *at;
            *at ^= (uint8_t)(1u << i % 8 | (i % 3 ? 0 : 0x81));
            int here = look_at_flipped(folder, files, i);
            *at = was;
            found += here;
            missed += FLIP_ENTRIES - here;
        }
    unsetenv("TG_CACHE_JOURNAL");
    printf("%s, %zu and %zu bytes flipped: %d entries found as they were, %d missed\n", journal,
           files[0].size, files[1].size, found, missed);
    assert_true(found && missed);
    remove_folder(folder);
}

static void stands_flips(void **state) {
    (void)state;
    flip_all("delete");
}

static void stands_flips_of_the_log(void **state) {
    (void)state;
    flip_all("wal");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keeps),
        cmocka_unit_test(keeps_without_log),
        cmocka_unit_test(is_private),
        cmocka_unit_test(trusts_no_foreign_file),
        cmocka_unit_test(trusts_no_foreign_folder),
        cmocka_unit_test(takes_a_private_group),
        cmocka_unit_test(takes_the_home_of_roots_user),
        cmocka_unit_test(takes_folders_of_unmapped_users),
        cmocka_unit_test(bounds_its_size),
        cmocka_unit_test(bounds_its_file),
        cmocka_unit_test(many_entries),
        cmocka_unit_test(prunes),
        cmocka_unit_test(travels),
        cmocka_unit_test(finds_damage),
        cmocka_unit_test(replaces_ruins),
        cmocka_unit_test(refuses_others),
        cmocka_unit_test(stands_a_full_disk),
        cmocka_unit_test(stands_flips),
        cmocka_unit_test(stands_flips_of_the_log),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
