// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Finds the libtorch that the process has loaded.
#include "runtime/torch/torch_api.h"

#include "runtime/base/fork_lock.h"
#include "runtime/runtime.h"

#include <dlfcn.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

/// Function pointers are copied as bytes, because ISO C has no cast from void *.
typedef struct Entry {
    const char *name;
    size_t place; // in rt_torch
} Entry;

#define ENTRY(field, name)                                                                         \
    { "aoti_torch_" name, offsetof(rt_torch, field) }
static const Entry entries[] = {
    ENTRY(open_library, "library_init_impl"),
    ENTRY(implement, "library_impl"),
    ENTRY(close_library, "delete_library_object"),
    ENTRY(data, "get_data_ptr"),
    ENTRY(rank, "get_dim"),
    ENTRY(sizes, "get_sizes"),
    ENTRY(strides, "get_strides"),
    ENTRY(type, "get_dtype"),
    ENTRY(device_type, "get_device_type"),
    ENTRY(device_index, "get_device_index"),
    ENTRY(empty, "empty_strided"),
    ENTRY(set_zero, "zero_"),
    ENTRY(destroy, "delete_tensor_object"),
    ENTRY(check, "check"),
};

typedef struct Type {
    const char *name;
    uint8_t code, bits;
} Type;

static const Type types[] = {
    {"bool", kDLBool, 8},
    {"uint8", kDLUInt, 8},
    {"uint16", kDLUInt, 16},
    {"uint32", kDLUInt, 32},
    {"uint64", kDLUInt, 64},
    {"int8", kDLInt, 8},
    {"int16", kDLInt, 16},
    {"int32", kDLInt, 32},
    {"int64", kDLInt, 64},
    {"float16", kDLFloat, 16},
    {"bfloat16", kDLBfloat, 16},
    {"float32", kDLFloat, 32},
    {"float64", kDLFloat, 64},
    {"float8_e4m3fn", kDLFloat8_e4m3fn, 8},
    {"float8_e5m2", kDLFloat8_e5m2, 8},
};

static rt_torch found;
static bool is_loaded;
static tg_lock loading = TG_LOCK_INIT;

static bool look_up(void *library, const char *name, void *place) {
    void *symbol = dlsym(library, name);
    if (symbol) memcpy(place, &symbol, sizeof symbol);
    return symbol != NULL;
}

/// Calls a function without parameters that returns a number. False: it is missing.
static bool ask(void *library, const char *prefix, const char *name, int32_t *out) {
    int32_t (*function)(void);
    char whole[64];
    snprintf(whole, sizeof whole, "aoti_torch_%s_%s", prefix, name);
    if (!look_up(library, whole, &function)) return false;
    *out = function();
    return true;
}

static const char *find_functions(void *library) {
    for (size_t i = 0; i < sizeof entries / sizeof *entries; i++)
        if (!look_up(library, entries[i].name, (char *)&found + entries[i].place))
            return entries[i].name;
    look_up(library, "aoti_torch_is_defined", &found.defined);
    look_up(library, "torch_exception_get_what_without_backtrace", &found.reason);
    // Until PyTorch 2.12 the cell is made by `new`, so operator delete frees it. A program may
    // replace both, and libtorch then calls the program's.
    if (!look_up(library, "torch_delete_stable_ivalue", &found.free_cell) &&
        !look_up(RTLD_DEFAULT, "_ZdlPv", &found.free_cell) &&
        !look_up(library, "_ZdlPv", &found.free_cell))
        return "torch_delete_stable_ivalue";
    if (!ask(library, "device_type", "cpu", &found.cpu)) return "aoti_torch_device_type_cpu";
    if (!ask(library, "device_type", "cuda", &found.gpu)) return "aoti_torch_device_type_cuda";
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        int32_t number;
        if (ask(library, "dtype", types[i].name, &number) && 0 <= number && number < RT_TORCH_TYPES)
            found.types[number] = (DLDataType){types[i].code, types[i].bits, 1};
    }
    return NULL;
}

/// The libraries stay loaded, because operators cannot be called without them.
static void find_gpus(void) {
    void *library = dlopen("libtorch_cuda.so", RTLD_LAZY | RTLD_NOLOAD);
    if (!library) {
        library = dlopen("libtorch_hip.so", RTLD_LAZY | RTLD_NOLOAD);
        found.hip = library != NULL;
    }
    if (library) look_up(library, "aoti_torch_get_current_cuda_stream", &found.stream);
}

static bool load(void) {
    void *library = dlopen("libtorch_cpu.so", RTLD_LAZY | RTLD_NOLOAD);
    if (!library) {
        tg_fail(TG_ERROR_UNSUPPORTED, "PyTorch is not loaded: the process has no libtorch_cpu.so");
        return false;
    }
    memset(&found, 0, sizeof found);
    const char *missing = find_functions(library);
    if (missing) {
        tg_fail(TG_ERROR_UNSUPPORTED, "this PyTorch is too old: it has no function %s", missing);
        dlclose(library);
        return false;
    }
    find_gpus();
    return true;
}

const rt_torch *rt_torch_load(void) {
    tg_lock_take(&loading);
    if (!is_loaded) is_loaded = load();
    bool loaded = is_loaded;
    tg_lock_give(&loading);
    return loaded ? &found : NULL;
}

int32_t rt_torch_type(const rt_torch *torch, DLDataType type) {
    for (int32_t i = 0; i < RT_TORCH_TYPES; i++)
        if (torch->types[i].bits == type.bits && torch->types[i].code == type.code) return i;
    return -1;
}

const char *rt_torch_type_name(DLDataType type) {
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (types[i].bits == type.bits && types[i].code == type.code) return types[i].name;
    return "unknown";
}
