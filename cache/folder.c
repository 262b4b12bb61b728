// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// See folder.h. A generation is a file "kernels-N.db".
#include "cache/folder.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>

enum { WHY = 512, LOCK_TRIES = 2000, LOCK_WAIT = 2000000 }; // nanoseconds: four seconds in all
static const char stem[] = "kernels-", ending[] = ".db";

/* ---- the folder ---------------------------------------------------------------------------- */

/// With the folders above it.
static int make_folder(const char *path) {
    char part[FOLDER_PATH];
    size_t n = strlen(path);
    memcpy(part, path, n + 1);
    for (size_t i = 1; i <= n; i++) {
        if (part[i] != '/' && part[i]) continue;
        part[i] = 0;
        if (mkdir(part, 0700) != 0 && errno != EEXIST) return errno;
        part[i] = path[i];
    }
    return 0;
}

/// statfs(2), and the kernel sources of those that it does not list.
static bool is_remote(const char *path) {
    static const uint32_t kinds[] = {
        0x6969,     0x517b,     0xff534d42,
        0xfe534d42, 0x01021997, // NFS, SMB three times, 9P
        0x65735546, 0x00c36400, 0x0bd00bd0,
        0x47504653, 0x19830326,             // FUSE, Ceph, Lustre, GPFS, BeeGFS
        0x5346414f, 0x73757245, 0x20030528, // AFS, Coda, OrangeFS
    };
    struct statfs s;
    const char *set = secure_getenv("TG_CACHE_JOURNAL");
    if (set && *set) return strcmp(set, "delete") == 0;
    if (statfs(path, &s) != 0) return true;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if ((uint32_t)s.f_type == kinds[i]) return true;
    return false;
}

bool folder_open(Folder *f, const char *path, char *why) {
    struct stat s;
    if (strlen(path) >= sizeof f->path) {
        snprintf(why, WHY, "the path is too long");
        return false;
    }
    int error = make_folder(path);
    if (!error && stat(path, &s) != 0) error = errno;
    if (!error && !S_ISDIR(s.st_mode)) error = ENOTDIR;
    if (error) {
        snprintf(why, WHY, "%.256s: %s", path, strerror(error));
        return false;
    }
    if (s.st_uid != geteuid() || s.st_mode & (S_IWGRP | S_IWOTH)) {
        snprintf(why, WHY, "%.256s: other users may write to it", path);
        return false;
    }
    const char *journal = secure_getenv("TG_CACHE_JOURNAL");
    if (journal && *journal && strcmp(journal, "wal") != 0 && strcmp(journal, "delete") != 0) {
        snprintf(why, WHY, "TG_CACHE_JOURNAL is '%.40s', which is neither wal nor delete", journal);
        return false;
    }
    snprintf(f->path, sizeof f->path, "%s", path);
    f->remote = is_remote(path);
    return true;
}

/* ---- generations --------------------------------------------------------------------------- */

void folder_file(const Folder *f, int generation, char out[FOLDER_PATH]) {
    snprintf(out, FOLDER_PATH, "%s/%s%d%s", f->path, stem, generation, ending);
}

/// Private to the user. False: it cannot be made.
static bool make_file(const char *path) {
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd >= 0) close(fd);
    return fd >= 0;
}

/// The N of "kernels-N.db", or 0.
static int number_of(const char *name) {
    char *end;
    if (strncmp(name, stem, strlen(stem)) != 0) return 0;
    long n = strtol(name + strlen(stem), &end, 10);
    return n > 0 && n < 1000000 && strcmp(end, ending) == 0 ? (int)n : 0;
}

int folder_newest(const Folder *f) {
    int newest = 0;
    char path[FOLDER_PATH];
    DIR *d = opendir(f->path);
    for (struct dirent *e; d && (e = readdir(d));) {
        int n = number_of(e->d_name);
        if (n > newest) newest = n;
    }
    if (d) closedir(d);
    if (newest) return newest;
    folder_file(f, 1, path);
    make_file(path);
    return 1;
}

/// The next generation comes first: at no time is there none.
void folder_discard(const Folder *f, int generation) {
    static const char *const tails[] = {"", "-wal", "-shm", "-journal"};
    char path[FOLDER_PATH], file[FOLDER_PATH + 16];
    folder_file(f, generation + 1, path);
    if (!make_file(path)) return;
    folder_file(f, generation, path);
    for (int i = 0; i < 4; i++) {
        snprintf(file, sizeof file, "%s%s", path, tails[i]);
        unlink(file);
    }
}

int folder_lock(const Folder *f) {
    char path[FOLDER_PATH];
    snprintf(path, sizeof path, "%s/lock", f->path);
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0) return -1;
    for (int i = 0; i < LOCK_TRIES; i++) {
        if (flock(fd, LOCK_EX | LOCK_NB) == 0) return fd;
        if (errno != EWOULDBLOCK && errno != EINTR) break;
        nanosleep(&(struct timespec){.tv_nsec = LOCK_WAIT}, NULL);
    }
    close(fd);
    return -1;
}

void folder_unlock(int lock) {
    if (lock >= 0) close(lock);
}

/// A lock of one byte, of the open file, which is another one for each claim.
int folder_claim(const Folder *f, uint64_t number, int *claim) {
    char path[FOLDER_PATH];
    struct flock byte = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_len = 1};
    byte.l_start = (off_t)(number >> 2);
    *claim = -1;
    if (f->remote) return ENOLCK;
    snprintf(path, sizeof path, "%s/claims", f->path);
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0) return errno;
    int error = fcntl(fd, F_OFD_SETLK, &byte) == 0 ? 0 : errno == EACCES ? EAGAIN : errno;
    if (error) close(fd);
    if (!error) *claim = fd;
    return error;
}

/// The lock goes even where a child of a fork has the file open, too.
void folder_release(int claim) {
    struct flock all = {.l_type = F_UNLCK, .l_whence = SEEK_SET};
    if (claim < 0) return;
    fcntl(claim, F_OFD_SETLK, &all);
    close(claim);
}
