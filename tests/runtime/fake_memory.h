// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The memory of fake_cuda.c that other processes can map; fake_cuda.c includes this.
//
// A handle is a descriptor of shared memory, plus 1; the memory's name contains the device.
// Reserved memory is mapped without access before cuMemSetAccess.
#ifndef TESTS_RUNTIME_FAKE_MEMORY_H
#define TESTS_RUNTIME_FAKE_MEMORY_H

enum { GRAIN = 2 << 20 };

cu_result cuMemHostAlloc(void **at, size_t bytes, unsigned flags) {
    CALLED();
    if (flags != (CU_HOST_PORTABLE | CU_HOST_MAPPED)) wrong("cuMemHostAlloc: %u", flags);
    *at = calloc(1, bytes);
    n_allocated++;
    return *at ? 0 : CU_OUT_OF_MEMORY;
}

cu_result cuMemFreeHost(void *at) {
    CALLED();
    free(at);
    n_allocated--;
    return 0;
}

cu_result cuDeviceCanAccessPeer(int *can, cu_device from, cu_device to) {
    CALLED();
    (void)from, (void)to;
    *can = 1;
    return 0;
}

cu_result cuDeviceGetUuid_v2(cu_uuid *uuid, cu_device device) {
    CALLED();
    *uuid = (cu_uuid){.bytes = "stand-in 0"};
    uuid->bytes[9] = (char)('0' + device);
    return 0;
}

static bool is_ours(const cu_memory *m) {
    return m->type == CU_PINNED && m->handles == CU_FILE_DESCRIPTOR &&
           m->place.type == CU_ON_DEVICE && m->place.number < n_devices;
}

cu_result cuMemGetAllocationGranularity(size_t *grain, const cu_memory *memory, int option) {
    CALLED();
    if (!is_ours(memory) || option) wrong("cuMemGetAllocationGranularity");
    *grain = GRAIN;
    return 0;
}

cu_result cuMemCreate(cu_handle *handle, size_t bytes, const cu_memory *memory,
                      unsigned long long flags) {
    CALLED();
    if (!is_ours(memory) || flags || bytes % GRAIN) return 1;
    char name[32];
    snprintf(name, sizeof name, "device-%d", memory->place.number);
    int fd = memfd_create(name, 0);
    if (fd < 0 || ftruncate(fd, (off_t)bytes)) return CU_OUT_OF_MEMORY;
    *handle = (cu_handle)fd + 1;
    n_allocated++;
    return 0;
}

cu_result cuMemRelease(cu_handle handle) {
    CALLED();
    n_allocated--;
    return close((int)handle - 1) ? 1 : 0;
}

cu_result cuMemExportToShareableHandle(void *out, cu_handle handle, int type,
                                       unsigned long long flags) {
    CALLED();
    if (type != CU_FILE_DESCRIPTOR || flags) return 1;
    *(int *)out = dup((int)handle - 1);
    return 0;
}

cu_result cuMemImportFromShareableHandle(cu_handle *handle, void *from, int type) {
    CALLED();
    if (type != CU_FILE_DESCRIPTOR) return 1;
    int fd = dup((int)(intptr_t)from);
    if (fd < 0) return 1;
    *handle = (cu_handle)fd + 1;
    n_allocated++;
    return 0;
}

cu_result cuMemAddressReserve(cu_pointer *at, size_t bytes, size_t align, cu_pointer wish,
                              unsigned long long flags) {
    CALLED();
    if (align || wish || flags || bytes % GRAIN) return 1;
    void *p = mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED) return CU_OUT_OF_MEMORY;
    *at = (uintptr_t)p;
    n_allocated++;
    return 0;
}

cu_result cuMemAddressFree(cu_pointer at, size_t bytes) {
    CALLED();
    n_allocated--;
    return munmap((void *)(uintptr_t)at, bytes) ? 1 : 0;
}

enum { MAPPINGS = 64 };
static struct {
    cu_pointer at;
    size_t bytes; // 0: free
    cu_handle handle;
    int device;
} mappings[MAPPINGS]; // guarded by `counting`

/// The device of the memory, whoever made it.
static int device_of(cu_handle handle) {
    char link[32], name[64] = "";
    int device = -1;
    snprintf(link, sizeof link, "/proc/self/fd/%d", (int)handle - 1);
    if (readlink(link, name, sizeof name - 1) > 0) sscanf(name, "/memfd:device-%d", &device);
    return device;
}

static void note_mapping(cu_pointer at, size_t bytes, cu_handle handle) {
    int device = bytes ? device_of(handle) : -1;
    pthread_mutex_lock(&counting);
    int i = 0;
    while (i < MAPPINGS && (bytes ? mappings[i].bytes != 0 : mappings[i].at != at)) i++;
    if (i < MAPPINGS) {
        mappings[i].at = bytes ? at : 0;
        mappings[i].bytes = bytes;
        mappings[i].handle = handle;
        mappings[i].device = device;
    }
    pthread_mutex_unlock(&counting);
    if (i == MAPPINGS) wrong("a mapping of %zu bytes: %d are there, or it is not", bytes, MAPPINGS);
}

/// The mapping at the address, or -1.
static int mapping_at(cu_pointer at) {
    pthread_mutex_lock(&counting);
    int i = MAPPINGS - 1;
    while (i >= 0 && (at < mappings[i].at || at - mappings[i].at >= mappings[i].bytes)) i--;
    pthread_mutex_unlock(&counting);
    return i;
}

static bool is_within_device(cu_pointer to, cu_pointer from) {
    int x = mapping_at(to), y = mapping_at(from);
    return x >= 0 && y >= 0 && x != y && mappings[x].device == mappings[y].device;
}

cu_result cuMemRetainAllocationHandle(cu_handle *handle, void *at) {
    CALLED();
    int i = mapping_at((uintptr_t)at);
    return i < 0 ? 1
                 : cuMemImportFromShareableHandle(
                       handle, (void *)(uintptr_t)(mappings[i].handle - 1), CU_FILE_DESCRIPTOR);
}

cu_result cuMemGetAddressRange_v2(cu_pointer *from, size_t *bytes, cu_pointer at) {
    CALLED();
    int i = mapping_at(at);
    if (i < 0) return 1;
    *from = mappings[i].at;
    *bytes = mappings[i].bytes;
    return 0;
}

cu_result cuCtxGetDevice(cu_device *device) {
    CALLED();
    *device = here(__func__);
    return 0;
}

cu_result cuMemMap(cu_pointer at, size_t bytes, size_t offset, cu_handle handle,
                   unsigned long long flags) {
    CALLED();
    if (offset || flags || bytes % GRAIN) return 1;
    void *p = (void *)(uintptr_t)at;
    n_allocated++;
    note_mapping(at, bytes, handle);
    return mmap(p, bytes, PROT_NONE, MAP_SHARED | MAP_FIXED, (int)handle - 1, 0) == p ? 0 : 1;
}

cu_result cuMemUnmap(cu_pointer at, size_t bytes) {
    CALLED();
    void *p = (void *)(uintptr_t)at;
    n_allocated--;
    note_mapping(at, 0, 0);
    return mmap(p, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == p ? 0 : 1;
}

cu_result cuMemSetAccess(cu_pointer at, size_t bytes, const cu_access *access, size_t n) {
    CALLED();
    if (n != 1 || access->flags != CU_READ_WRITE || access->place.type != CU_ON_DEVICE) return 1;
    if (access->place.number != here(__func__)) wrong("cuMemSetAccess: another device");
    return mprotect((void *)(uintptr_t)at, bytes, PROT_READ | PROT_WRITE) ? 1 : 0;
}

#endif
