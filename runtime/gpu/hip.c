// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The AMD vendor: its runtime's library, functions and errors.
#include "runtime/gpu/hip.h"

#include <dlfcn.h>
#include <string.h>

const char *rt_hip_entries(rt_cuda *cu, void *library) {
    const char *missing = NULL;
#define X(field, symbol, needed)                                                                   \
    *(void **)&cu->field = dlsym(library, symbol);                                                 \
    if (!cu->field && (needed)) missing = symbol;
    RT_HIP_ENTRIES(X)
#undef X
    return missing;
}

/// The functions of both vendors, by field.
static const struct {
    const char *field, *symbol;
} of_cuda[] =
    {
#define X(field, symbol, needed, parameters) {#field, symbol},
        RT_CUDA_ENTRIES(X)
#undef X
},
  of_hip[] = {
#define X(field, symbol, needed) {#field, symbol},
      RT_HIP_ENTRIES(X)
#undef X
};

const char *rt_hip_name(const char *call) {
    for (size_t i = 0; i < sizeof of_cuda / sizeof *of_cuda; i++) {
        size_t n = strlen(call);
        const char *rest = of_cuda[i].symbol + n; // "_v2"
        if (strncmp(of_cuda[i].symbol, call, n) != 0 || (*rest && *rest != '_')) continue;
        for (size_t j = 0; j < sizeof of_hip / sizeof *of_hip; j++)
            if (strcmp(of_hip[j].field, of_cuda[i].field) == 0) return of_hip[j].symbol;
    }
    return call;
}

/// The name without a release comes last. It is a developer's link to any release.
static const char *const files[] = {
    "libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so", "/opt/rocm/lib/libamdhip64.so", NULL,
};

static const char earlier[] =
    "an earlier launch on this device may be the one at fault: set AMD_SERIALIZE_KERNEL=3, or "
    "compile with checks (--check), to find it; the process cannot use the device any more";

static const rt_hint hints[] = {
    {CU_OUT_OF_MEMORY, TG_ERROR_MEMORY, "free memory of the device, or use smaller tensors"},
    {3, TG_ERROR_UNSUPPORTED,
     "may this user open /dev/kfd and /dev/dri (the groups render and video)?"},
    {100, TG_ERROR_UNSUPPORTED, "this machine shows no AMD GPU; see HIP_VISIBLE_DEVICES"},
    {101, TG_ERROR_ARGUMENT, "there is no such device"},
    {200, TG_ERROR_UNSUPPORTED, "the code is not for this device"},
    {209, TG_ERROR_UNSUPPORTED, "the code is not for this device"},
    {400, TG_ERROR_ARGUMENT, "is the stream one of this device, and still there?"},
    {700, TG_ERROR_CONTRACT, earlier},
    {701, TG_ERROR_UNSUPPORTED, "choose smaller tune values"},
    {719, TG_ERROR_CONTRACT, earlier},
    {900, TG_ERROR_UNSUPPORTED, "the stream is being captured, and this cannot be"},
    {901, TG_ERROR_CONTRACT, "something that cannot be captured came before"},
    {906, TG_ERROR_CONTRACT,
     "the default stream cannot be used while another one is captured: "
     "launch on the captured stream"},
};

const rt_maker rt_maker_hip = {.name = "AMD",
                               .library = "libamdhip64.so",
                               .variable = "TG_HIP_LIBRARY",
                               .files = files,
                               .oldest = "ROCm 6",
                               .visible = "HIP_VISIBLE_DEVICES",
                               .hints = hints,
                               .n_hints = sizeof hints / sizeof *hints,
                               .hip = true};
