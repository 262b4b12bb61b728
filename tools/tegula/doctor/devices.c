// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The devices: the CPU, which compiles and runs a kernel, and the GPUs with their drivers.
#include "tools/tegula/doctor/doctor.h"

#include "backends/backend.h"
#include "runtime/gpu/cuda.h"
#include "runtime/gpu/gpu_launch.h"
#include "runtime/runtime.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- the CPU ------------------------------------------------------------------------------- */

/// The units for products and short types, by LLVM's names of features.
static const char *const units[] = {
    "avx",        "avx2",     "fma",      "f16c",     "avx512f",  "avx512vnni", "avx512bf16",
    "avx512fp16", "avxvnni",  "amx-tile", "amx-int8", "amx-bf16", "amx-fp16",   "neon",
    "dotprod",    "fullfp16", "bf16",     "i8mm",     "sve",      "sve2",       "sme",
};

/// Whether "+name" is a word of a list like "+avx,-sve".
static bool has_feature(const char *features, const char *name) {
    size_t n = strlen(name);
    for (const char *at = features; (at = strstr(at, name)); at += n) {
        bool starts = at > features && at[-1] == '+';
        if (starts && (at[n] == ',' || !at[n])) return true;
    }
    return false;
}

static const char *unit_list(Ctx *ctx, const char *features) {
    Text t = {.ctx = ctx};
    for (size_t i = 0; i < sizeof units / sizeof *units; i++)
        if (has_feature(features, units[i])) text_add(&t, "%s%s", t.n ? " " : "", units[i]);
    return t.n ? t.data : "no vector unit";
}

/// Compiles a kernel in this process and compares its result. Returns NULL, or the fault.
static const char *kernel_fault(Ctx *ctx) {
    static const char source[] =
        "kernel doctor(x: f32[N], y: f32[N]) { parallel n in N by 8 { y[n] = x[n] * 2 + 1; } }";
    float x[11], y[11] = {0};
    int64_t n = sizeof x / sizeof *x;
    DLDataType type = {kDLFloat, 32, 1};
    DLTensor in = {.data = x, .device = {kDLCPU, 0}, .ndim = 1, .dtype = type, .shape = &n},
             out = in;
    out.data = y;
    tg_arg args[] = {{.kind = TG_ARG_TENSOR, .as.tensor = &in},
                     {.kind = TG_ARG_TENSOR, .as.tensor = &out}};
    tg_module *module = NULL;
    tg_kernel *kernel;
    for (int64_t i = 0; i < n; i++) x[i] = (float)i;
    tg_status status =
        tg_module_from_source(source, sizeof source - 1, "doctor.teg", NULL, &module);
    if (!status) status = tg_module_kernel(module, NULL, &kernel);
    if (!status) status = tg_launch(kernel, args, 2);
    const char *fault = status ? ctx_format(ctx, "%s", tg_last_error()) : NULL;
    for (int64_t i = 0; i < n && !fault; i++)
        if (y[i] != x[i] * 2 + 1) fault = "a kernel computes wrong results";
    if (module) tg_module_destroy(module);
    return fault;
}

static void check_cpu(Doctor *d) {
    char name[TG_CPU_NAME];
    TargetInfo host = {0};
    tg_cpu_name(name);
    if (!cpu_backend.info(NULL, &host)) {
        doctor_add(d, "devices", "cpu", FINDING_PROBLEM, "%s: LLVM does not know it", name);
        return;
    }
    const char *list = unit_list(d->ctx, host.features), *fault = kernel_fault(d->ctx);
    Finding *f =
        doctor_add(d, "devices", "cpu", fault ? FINDING_PROBLEM : FINDING_OK,
                   "%s (%s), %d threads, level %s: %s%s%s", name, host.cpu, rt_cores(),
                   tg_level_name(tg_cpu_level()), list,
                   fault ? "; it cannot run kernels: " : "; runs kernels", fault ? fault : "");
    if (fault) doctor_advise(d, f, "please report this with the output of `tegula doctor --json`");
    doctor_fact(d, f, "model", name);
    doctor_fact(d, f, "llvm_cpu", host.cpu);
    doctor_fact(d, f, "level", tg_level_name(tg_cpu_level()));
    doctor_fact(d, f, "units", list);
    doctor_number(d, f, "threads", rt_cores());
    doctor_number(d, f, "l1_bytes", host.l1_bytes);
    doctor_number(d, f, "l2_bytes", host.l2_bytes);
}

/* ---- GPUs ---------------------------------------------------------------------------------- */

static unsigned read_hex(const char *folder, const char *file) {
    char path[512];
    unsigned value = 0;
    snprintf(path, sizeof path, "/sys/bus/pci/devices/%.200s/%s", folder, file);
    FILE *f = fopen(path, "re");
    if (f && fscanf(f, "%x", &value) != 1) value = 0;
    if (f) fclose(f);
    return value;
}

/// Counts the display controllers and accelerators of a maker on the PCI bus.
static int count_pci(unsigned vendor) {
    enum { DISPLAY = 0x03, ACCELERATOR = 0x12 };
    DIR *d = opendir("/sys/bus/pci/devices");
    int n = 0;
    for (struct dirent *e; d && (e = readdir(d));) {
        unsigned class = read_hex(e->d_name, "class") >> 16;
        n += read_hex(e->d_name, "vendor") == vendor && (class == DISPLAY || class == ACCELERATOR);
    }
    if (d) closedir(d);
    return n;
}

static bool is_set(const char *name) {
    const char *value = secure_getenv(name);
    return value && *value;
}

static void add_gpu(Doctor *d, int number, bool hip) {
    tg_device_info info = {.size = sizeof info};
    const char *name = ctx_format(d->ctx, "%s:%d", hip ? "hip" : "cuda", number);
    char machine[16] = "";
    if (tg_device_describe(number, &info)) {
        doctor_add(d, "devices", name, FINDING_PROBLEM, "%s", tg_last_error());
        return;
    }
    const char *code = device_target(info.capability, machine);
    const char *kind = hip ? rt_device_at(number)->arch
                           : ctx_format(d->ctx, "compute capability %d.%d", info.capability / 10,
                                        info.capability % 10);
    Finding *f =
        doctor_add(d, "devices", name, code ? FINDING_OK : FINDING_PROBLEM, "%s, %s, %d %s, %s%s",
                   info.name, kind, info.processors, hip ? "compute units" : "SMs",
                   code ? "code for " : "no code runs on it", code ? code : "");
    if (!code) doctor_advise(d, f, "`tegula targets` lists the GPUs that Tegula makes code for");
    doctor_fact(d, f, "model", info.name);
    doctor_fact(d, f, "target", code ? code : "");
    doctor_number(d, f, "capability", info.capability);
    doctor_number(d, f, "processors", info.processors);
    doctor_number(d, f, "l2_bytes", info.l2_bytes);
    doctor_number(d, f, "shared_bytes", info.shared_bytes);
}

/// Reports GPUs of the machine without a driver.
static void add_unserved(Doctor *d, const char *why) {
    int nvidia = count_pci(0x10de), amd = count_pci(0x1002);
    bool wanted = is_set("TG_CUDA_LIBRARY") || is_set("TG_HIP_LIBRARY") || is_set("TG_GPUS");
    if (wanted || nvidia) {
        Finding *f =
            doctor_add(d, "devices", "GPUs", FINDING_PROBLEM, "%s%s",
                       nvidia ? "an NVIDIA GPU is on the bus, and no driver serves it: " : "", why);
        doctor_advise(d, f, "%s",
                      wanted
                          ? "correct or unset TG_CUDA_LIBRARY, TG_HIP_LIBRARY or TG_GPUS"
                          : "install NVIDIA's driver; in a container, pass the GPU on (docker run "
                            "--gpus all)");
        return;
    }
    Finding *f = doctor_add(d, "devices", "GPUs", FINDING_ABSENT, "%s", why);
    doctor_advise(d, f, "%s",
                  amd ? "for the AMD GPU on the bus: install ROCm's libamdhip64"
                      : "`--target sim:sm_90a` runs kernels on a simulated GPU");
}

static void check_gpus(Doctor *d) {
    int n = tg_device_count();
    if (n <= 0) {
        const rt_cuda *driver = rt_cuda_driver();
        add_unserved(d, driver ? ctx_format(d->ctx, "the driver finds no %s GPU; %s may hide them",
                                            driver->maker->name, driver->maker->visible)
                               : tg_last_error());
        return;
    }
    const rt_cuda *driver = rt_cuda_driver();
    bool hip = driver->maker->hip;
    int version = driver->driver_version;
    Finding *f =
        doctor_add(d, "devices", "driver", FINDING_OK, "%s, of %s %d.%d", driver->maker->library,
                   hip ? "HIP" : "CUDA", hip ? version / 10000000 : version / 1000,
                   hip ? version / 100000 % 100 : version % 1000 / 10);
    doctor_number(d, f, "driver", version);
    d->has_nvidia = !hip;
    d->has_amd = hip;
    d->cuda = hip ? 0 : version;
    for (int i = 0; i < n; i++) add_gpu(d, i, hip);
}

void doctor_check_devices(Doctor *d) {
    check_cpu(d);
    check_gpus(d);
}
