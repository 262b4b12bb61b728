// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// See folder.h. A generation is a file "kernels-N.db".
//
// Machine code is loaded from the files, so no other user may have written them. Another user can
// put no file into a folder that belongs to this user and that others may not write to. Another
// user also cannot replace that folder, if the same holds for all folders above it. Once checked,
// this stays true. The check follows the path without links from the root down, and then looks at
// each existing file. The folders above may also belong to users who can act for this user anyway:
// root, the owner of the home in which root works, and the user's private group.
#include "cache/folder.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <limits.h>
#include <pwd.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>

enum { WHY = 512, LOCK_WAIT = 2 }; // milliseconds between two tries
static const char stem[] = "kernels-", ending[] = ".db";

/* ---- the folder ---------------------------------------------------------------------------- */

/// Makes the folder and the folders above it. Returns 0 or an errno.
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

/// The magic numbers are those of statfs(2), and of the kernel sources for file systems that it
/// does not list.
static bool is_remote(const char *path) {
    static const uint32_t kinds[] = {
        0x6969,     0x517b,     0xff534d42,
        0xfe534d42, 0x01021997, // NFS, SMB (three), 9P
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

/* ---- owners ---------------------------------------------------------------------------------- */

/// Writes the reason; returns false.
static bool refuse_path(char *why, const char *path, const char *reason) {
    snprintf(why, WHY, "%.256s: %.200s", path, reason);
    return false;
}

static bool others_may_write(const struct stat *s) {
    return s->st_mode & (S_IWGRP | S_IWOTH);
}

/// Reads a number from a file of the kernel, or returns `otherwise`.
static long read_kernel_number(const char *path, long otherwise) {
    long n = otherwise;
    FILE *f = fopen(path, "re");
    if (f && fscanf(f, "%ld", &n) != 1) n = otherwise;
    if (f) fclose(f);
    return n;
}

/// Whether a map of the kernel, uid_map or gid_map, omits any of the 2^32 - 1 ids.
static bool leaves_out(const char *map) {
    unsigned long long inside, outside, count, all = 0;
    FILE *f = fopen(map, "re");
    if (!f) return false;
    while (fscanf(f, "%llu %llu %llu", &inside, &outside, &count) == 3) all += count;
    fclose(f);
    return all < UINT32_MAX;
}

/// A user without an id in this namespace appears as this id (user_namespaces(7)), for instance
/// root of the outer namespace.
static bool is_unmapped_user(uid_t uid) {
    return (long)uid == read_kernel_number("/proc/sys/kernel/overflowuid", 65534) &&
           leaves_out("/proc/self/uid_map");
}

static bool is_unmapped_group(gid_t gid) {
    return (long)gid == read_kernel_number("/proc/sys/kernel/overflowgid", 65534) &&
           leaves_out("/proc/self/gid_map");
}

/// Root that works in the home of another user, as with `sudo -E` or in a container, runs that
/// user's files anyway.
static bool is_of_home(uid_t uid) {
    struct stat s;
    const char *home = geteuid() == 0 ? secure_getenv("HOME") : NULL;
    return home && *home && stat(home, &s) == 0 && s.st_uid == uid;
}

static bool may_be_above(uid_t owner) {
    return owner == 0 || owner == geteuid() || is_unmapped_user(owner) || is_of_home(owner);
}

enum { NAMES = 16384 };

/// Whether it is the user's own group, without other members: it has the user's number or name.
static bool is_private(gid_t gid) {
    char users[NAMES], groups[NAMES];
    struct passwd user, *u = NULL;
    struct group group, *g = NULL;
    if (gid != getegid() || is_unmapped_group(gid)) return false;
    if (getpwuid_r(geteuid(), &user, users, sizeof users, &u)) u = NULL;
    if (getgrgid_r(gid, &group, groups, sizeof groups, &g))
        return false; // too many members, or unknown
    if (gid != geteuid() && !(u && g && strcmp(u->pw_name, g->gr_name) == 0)) return false;
    for (char **m = g ? g->gr_mem : NULL; m && *m; m++)
        if (!u || strcmp(*m, u->pw_name) != 0) return false;
    return true;
}

/// With umask 002, folders are created writable for the user's private group.
static bool others_may_replace(const struct stat *s) {
    if (s->st_mode & S_ISVTX) return false;
    return s->st_mode & S_IWOTH || (s->st_mode & S_IWGRP && !is_private(s->st_gid));
}

/// Checks a folder above the store's. In a sticky folder all users may create files, but not move
/// those of others.
static bool check_above(const char *path, char *why) {
    struct stat s;
    if (lstat(path, &s) != 0) return refuse_path(why, path, strerror(errno));
    if (!S_ISDIR(s.st_mode)) return refuse_path(why, path, "it is not a folder");
    if (!may_be_above(s.st_uid))
        return refuse_path(why, path,
                           "it belongs to another user, who may put another folder below it");
    if (others_may_replace(&s))
        return refuse_path(why, path,
                           "other users may write to it, and put another folder below it");
    return true;
}

static bool check_own(const char *path, char *why) {
    struct stat s;
    if (lstat(path, &s) != 0) return refuse_path(why, path, strerror(errno));
    if (!S_ISDIR(s.st_mode)) return refuse_path(why, path, strerror(ENOTDIR));
    if (s.st_uid != geteuid()) return refuse_path(why, path, "it belongs to another user");
    if (others_may_write(&s)) return refuse_path(why, path, "other users may write to it");
    return true;
}

/// `path` must have no links. The check begins at the root, on which all other folders depend.
static bool check_folder_path(char *path, char *why) {
    for (char *end = path + 1; (end = strchr(end, '/')); end++) {
        *end = 0;
        bool good = check_above(path, why);
        *end = '/';
        if (!good) return false;
    }
    return check_own(path, why);
}

static bool check_file(const char *folder, const char *name, char *why) {
    char path[FOLDER_PATH];
    struct stat s;
    snprintf(path, sizeof path, "%s/%s", folder, name);
    if (lstat(path, &s) != 0) return errno == ENOENT || refuse_path(why, path, strerror(errno));
    if (S_ISLNK(s.st_mode)) return refuse_path(why, path, "it is a symbolic link");
    if (!S_ISREG(s.st_mode)) return refuse_path(why, path, "it is not a regular file");
    if (s.st_uid != geteuid()) return refuse_path(why, path, "it belongs to another user");
    if (others_may_write(&s)) return refuse_path(why, path, "other users may write to it");
    return true;
}

/// Checks all databases with their extra files, and the lock files.
static bool check_files(const char *folder, char *why) {
    bool good = check_file(folder, "lock", why) && check_file(folder, "claims", why);
    DIR *d = good ? opendir(folder) : NULL;
    if (good && !d) return refuse_path(why, folder, strerror(errno));
    for (struct dirent *e; good && (e = readdir(d));)
        if (strncmp(e->d_name, stem, strlen(stem)) == 0) good = check_file(folder, e->d_name, why);
    if (d) closedir(d);
    return good;
}

/// Makes the folder and resolves links in its path.
static bool find_folder(Folder *f, const char *path, char *why) {
    char real[PATH_MAX];
    if (strlen(path) >= sizeof f->path) return refuse_path(why, path, "the path is too long");
    int error = make_folder(path);
    if (!error && !realpath(path, real)) error = errno;
    if (error) return refuse_path(why, path, strerror(error));
    if (strlen(real) >= sizeof f->path) return refuse_path(why, path, "the path is too long");
    memcpy(f->path, real, strlen(real) + 1);
    return true;
}

bool folder_open(Folder *f, const char *path, char *why) {
    if (!find_folder(f, path, why) || !check_folder_path(f->path, why) ||
        !check_files(f->path, why))
        return false;
    const char *journal = secure_getenv("TG_CACHE_JOURNAL");
    if (journal && *journal && strcmp(journal, "wal") != 0 && strcmp(journal, "delete") != 0) {
        snprintf(why, WHY, "TG_CACHE_JOURNAL is '%.40s', which is neither wal nor delete", journal);
        return false;
    }
    f->remote = is_remote(f->path);
    return true;
}

/* ---- generations --------------------------------------------------------------------------- */

void folder_file(const Folder *f, int generation, char out[FOLDER_PATH]) {
    snprintf(out, FOLDER_PATH, "%s/%s%d%s", f->path, stem, generation, ending);
}

/// Opens or creates a file that is private to the user.
static int open_own(const char *path) {
    return open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
}

/// False: it cannot be created.
static bool make_own_file(const char *path) {
    int fd = open_own(path);
    if (fd >= 0) close(fd);
    return fd >= 0;
}

/// Returns the N of "kernels-N.db", or 0.
static int generation_of_name(const char *name) {
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
        int n = generation_of_name(e->d_name);
        if (n > newest) newest = n;
    }
    if (d) closedir(d);
    if (newest) return newest;
    folder_file(f, 1, path);
    make_own_file(path);
    return 1;
}

static bool can_read(const char *path) {
    char page[4096];
    ssize_t n;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0) return errno == ENOENT;
    while ((n = read(fd, page, sizeof page)) > 0 || (n < 0 && errno == EINTR)) continue;
    close(fd);
    return n == 0;
}

bool folder_can_read(const Folder *f, int generation) {
    char path[FOLDER_PATH], log[FOLDER_PATH + 16];
    folder_file(f, generation, path);
    snprintf(log, sizeof log, "%s-wal", path);
    return can_read(path) && can_read(log);
}

/// Creates the next generation first, so that one exists at all times.
void folder_discard(const Folder *f, int generation) {
    static const char *const tails[] = {"", "-wal", "-shm", "-journal"};
    char path[FOLDER_PATH], file[FOLDER_PATH + 16];
    folder_file(f, generation + 1, path);
    if (!make_own_file(path)) return;
    folder_file(f, generation, path);
    for (int i = 0; i < 4; i++) {
        snprintf(file, sizeof file, "%s%s", path, tails[i]);
        unlink(file);
    }
}

int folder_lock(const Folder *f, int ms) {
    char path[FOLDER_PATH];
    snprintf(path, sizeof path, "%s/lock", f->path);
    int fd = open_own(path);
    if (fd < 0) return -1;
    for (; ms > 0; ms -= LOCK_WAIT) {
        if (flock(fd, LOCK_EX | LOCK_NB) == 0) return fd;
        if (errno != EWOULDBLOCK && errno != EINTR) break;
        nanosleep(&(struct timespec){.tv_nsec = LOCK_WAIT * 1000000L}, NULL);
    }
    close(fd);
    return -1;
}

void folder_unlock(int lock) {
    if (lock >= 0) close(lock);
}

/// Locks one byte. The lock belongs to the open file description, and each claim opens its own.
int folder_claim(const Folder *f, uint64_t number, int *claim) {
    char path[FOLDER_PATH];
    struct flock byte = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_len = 1};
    byte.l_start = (off_t)(number >> 2);
    *claim = -1;
    if (f->remote) return ENOLCK;
    snprintf(path, sizeof path, "%s/claims", f->path);
    int fd = open_own(path);
    if (fd < 0) return errno;
    int error = fcntl(fd, F_OFD_SETLK, &byte) == 0 ? 0 : errno == EACCES ? EAGAIN : errno;
    if (error) close(fd);
    if (!error) *claim = fd;
    return error;
}

/// Unlocks explicitly, since a child of a fork may have the file open, too.
void folder_release(int claim) {
    struct flock all = {.l_type = F_UNLCK, .l_whence = SEEK_SET};
    if (claim < 0) return;
    fcntl(claim, F_OFD_SETLK, &all);
    close(claim);
}
