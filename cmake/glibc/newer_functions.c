// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Functions of later glibcs that our code and static libraries call, for the bundle's older glibc.
// See old.py.
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <malloc.h>
#include <stdint.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* ---- files ----------------------------------------------------------------------------------- */

// Before 2.33 these functions had another name. On all 64-bit machines the kernel's struct is
// glibc's.
int fstatat(int at, const char *restrict path, struct stat *restrict out, int flags) {
    return (int)syscall(SYS_newfstatat, at, path, out, flags);
}

int fstat(int fd, struct stat *out) {
    return (int)syscall(SYS_fstat, fd, out);
}

int stat(const char *restrict path, struct stat *restrict out) {
    return fstatat(AT_FDCWD, path, out, 0);
}

int lstat(const char *restrict path, struct stat *restrict out) {
    return fstatat(AT_FDCWD, path, out, AT_SYMLINK_NOFOLLOW);
}

int mknod(const char *path, mode_t mode, dev_t device) {
    if (device >> 32) return errno = EINVAL, -1;
    return (int)syscall(SYS_mknodat, AT_FDCWD, path, mode, (unsigned)device);
}

_Static_assert(sizeof(struct stat) == sizeof(struct stat64), "stat64 is stat");
int fstat64(int fd, struct stat64 *out) __attribute__((alias("fstat")));
int stat64(const char *restrict path, struct stat64 *restrict out) __attribute__((alias("stat")));
int lstat64(const char *restrict path, struct stat64 *restrict out) __attribute__((alias("lstat")));

/* ---- others ---------------------------------------------------------------------------------- */

/// libstdc++'s random_device calls it; LLVM seeds the hashes of temporary names from that.
uint32_t arc4random(void);
uint32_t arc4random(void) {
    uint32_t x = 0;
    while (getrandom(&x, sizeof x, 0) != (ssize_t)sizeof x) continue;
    return x;
}

/// libstdc++ counts references without atomics while this is set.
char __libc_single_threaded = 0;

#if __GLIBC_PREREQ(2, 33)
/// The sizes of mallinfo wrap at 4 GiB; LLVM prints them in statistics.
struct mallinfo2 mallinfo2(void) {
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
    struct mallinfo m = mallinfo();
    return (struct mallinfo2){
        .arena = (unsigned)m.arena,
        .ordblks = (unsigned)m.ordblks,
        .smblks = (unsigned)m.smblks,
        .hblks = (unsigned)m.hblks,
        .hblkhd = (unsigned)m.hblkhd,
        .usmblks = (unsigned)m.usmblks,
        .fsmblks = (unsigned)m.fsmblks,
        .uordblks = (unsigned)m.uordblks,
        .fordblks = (unsigned)m.fordblks,
        .keepcost = (unsigned)m.keepcost,
    };
}
#endif

#ifdef DLFO_STRUCT_HAS_EH_DBASE
/// Finds the module of an address for libgcc's unwinder.
static int look_in(struct dl_phdr_info *i, size_t size, void *arg) {
    struct dl_find_object *o = arg;
    uintptr_t address = (uintptr_t)o->dlfo_map_start;
    const ElfW(Phdr) *found = NULL, *frames = NULL;
    (void)size;
    for (int k = 0; k < i->dlpi_phnum; k++) {
        const ElfW(Phdr) *p = &i->dlpi_phdr[k];
        if (p->p_type == PT_LOAD && address - (i->dlpi_addr + p->p_vaddr) < p->p_memsz) found = p;
        if (p->p_type == PT_GNU_EH_FRAME) frames = p;
    }
    if (!found || !frames) return 0;
    o->dlfo_map_start = (void *)(i->dlpi_addr + found->p_vaddr);
    o->dlfo_map_end = (char *)o->dlfo_map_start + found->p_memsz;
    o->dlfo_eh_frame = (void *)(i->dlpi_addr + frames->p_vaddr);
    return 1;
}

int _dl_find_object(void *address, struct dl_find_object *out) {
    memset(out, 0, sizeof *out);
    out->dlfo_map_start = address;
    return dl_iterate_phdr(look_in, out) ? 0 : -1;
}
#endif
