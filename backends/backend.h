// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The compiler's interface for machine code: targets, and code for them.
#ifndef BACKENDS_BACKEND_H
#define BACKENDS_BACKEND_H

#include <stddef.h>

#include "ir/ir.h"
#include "runtime/abi.h"

/// The abilities of a target's level that passes use.
typedef struct TargetInfo {
    const char *cpu, *features; // LLVM's names
    int vector_bytes, vector_registers;
    int64_t l1_bytes, l2_bytes; // of one core
    const char *name;           // "x86-64-v3": unique among the levels
    const char *arch, *label;   // "x86-64", "v3"; the levels of an architecture have labels
    int level;                  // enum tg_level
} TargetInfo;

enum CodeTexts { TEXT_LLVM = 1, TEXT_ASM = 2, TEXT_OBJECT = 4 };

typedef struct CodeOptions {
    const char *level;   // "host" (NULL), "x86-64-v3" or the label "v3", ...: cpu/cpu_levels.c
    bool check;          // --check
    bool debug;          // debug information
    bool marks;          // code that tells a profile where it is (tg_env.mark)
    int texts;           // CodeTexts to keep
    const char *name;    // of the function in an object file; NULL: the kernel's name
    Text *notes;         // receives the notes for `explain`, or NULL
    const char *strip;   // a folder that paths in messages and debug information omit, or NULL
    bool quick;          // CPU code that compiles fast and runs slower
    const char *codegen; // of NVIDIA code: "nvvm", "nvptx", "auto" (NULL)
    int driver;          // the CUDA version that will read the code (12040); 0: any
    const char *machine; // "sm_90a": PTX is assembled for it if possible; or NULL
} CodeOptions;

/// The time to make device code, in seconds, and the tools that made it.
typedef struct DeviceTimes {
    double lower, generate, link;
    const char *generator; // "nvptx", "libNVVM", ...
    const char *linker;    // "nvJitLink", "ptxas"; NULL: not linked
} DeviceTimes;

/// Machine code of one kernel. It is not in the arena, because it outlives the context that made
/// it. For a GPU it is the code of the host side, with an image, and the texts are those of the
/// device.
typedef struct Code {
    tg_entry *entry; // NULL if only texts were requested
    char *llvm, *assembly;
    void *object;
    size_t object_bytes;
    void *jit; // owns the memory of entry, unless `memory` does
    void *memory;
    size_t memory_bytes;
    tg_image *image;                // in one allocation; NULL for a CPU
    void (*close)(tg_image *image); // closes the image before its memory is freed; or NULL
    DeviceTimes times;
} Code;

/// Device code as a back end makes it. It is in the arena, except for resources that `close`
/// releases.
typedef struct DeviceCode {
    tg_image image;
    void (*close)(tg_image *image); // or NULL
    const char *llvm, *assembly;    // with TEXT_LLVM, TEXT_ASM
    DeviceTimes times;
    /// Waits for another program that is still making the code (`work`), and takes its result or
    /// leaves the context. NULL: the code is complete. device_settle calls it.
    void (*settle)(Ctx *ctx, struct DeviceCode *code);
    void *work;
} DeviceCode;

struct GpuTarget;

typedef struct Object Object; // a file of many kernels: backends/object.h

typedef struct Backend {
    const char *name;
    /// Fills in the abilities of a level. Returns false for an unknown level.
    bool (*info)(const char *level, TargetInfo *out);
    /// Whether the target computes an elementwise op itself. Others go to expand-math.
    bool (*has_op)(OpCode code, Elem elem);
    /// Compiles the only kernel of a grid-level module. Returns NULL with diagnostics on failure.
    /// `load`: links it into this process.
    Code *(*compile)(Ir *ir, Op *module, const CodeOptions *options, bool load);
    /// Adds the code of that kernel to an object as an internal function named options->name.
    /// Returns false with diagnostics.
    bool (*add)(Object *object, Ir *ir, Op *module, const CodeOptions *options);
    /// For GPUs, which lack the previous two: makes the image of a module's `device` ops, which is
    /// complete after device_settle. Returns false with diagnostics. The CPU back end compiles the
    /// host side, the kernel op, in the meantime.
    bool (*device)(Ir *ir, const Op *module, const CodeOptions *options, DeviceCode *out);
    /// For GPUs: has_op in device code.
    bool (*device_has)(const struct GpuTarget *target, OpCode code, Elem elem);
} Backend;

extern const Backend cpu_backend, nvidia_backend, amdgpu_backend, sim_backend;
/// Returns the part of the simulated GPU that TG_SIM_SHARE gives, or the GPU itself.
const struct GpuTarget *sim_few_sms(Ctx *ctx, const struct GpuTarget *gpu);
/// Returns the back end of a target, and its level: "cpu" or NULL, "x86-64-v3" or "cpu:v3",
/// "sm_90a", "sim:sm_90a". Returns NULL for an unknown name.
const Backend *backend_of(const char *target, const char **level);
/// Whether the target's device is functions of this process: "sim:sm_90a". False for NULL.
bool is_simulated(const char *target);

/// TG_FILL=nan in the environment: undefined memory holds bytes that are NaN in every float type,
/// so that a read of it shows in results.
enum { FILL_BYTE = 0xff };
bool backend_fills(void);
/// Returns the best architecture for a GPU of a compute capability (90; 0x942 for gfx942), and the
/// name of the device's own machine code. Returns NULL if no code runs on it.
const char *device_target(int capability, char machine[16]);
/// The same for the GPUs of one vendor.
const char *nvidia_target(int capability, char machine[16]);
const char *amdgpu_target(int capability, char machine[16]);
/// Whether libNVVM is available and a driver of this CUDA version can run its code.
bool nvidia_takes_nvvm(int driver);
/// Returns "x86-64" or "aarch64", the architecture of this process.
const char *cpu_host_arch(void);
/// Returns level i of an architecture, lowest first; NULL beyond the last.
const TargetInfo *cpu_level(const char *arch, int i);
extern const Backend *const backends[]; // NULL-terminated
/// Returns a hash of the compiler's sources and its build options (cmake/identity.cmake). It is the
/// same in all programs and libraries of a build.
const char *backend_compiler(void);
/// Adds backend_compiler's hash and the build of LLVM. Returns false if LLVM's library does not
/// identify itself.
bool backend_build(Text *t);
enum { BACKEND_LLVM_VERSION = 40 };
/// Gets the version of LLVM ("22.1.8") and the file that holds it, or NULL if that is unknown.
void backend_llvm(char version[BACKEND_LLVM_VERSION], const char **path);
/// Adds the other inputs of machine code besides a module and its options: backend_build, the
/// host's CPU, and the tools of a toolkit. Of the options it reads machine, codegen and driver.
/// Returns false like backend_build.
bool backend_identity(Text *t, const CodeOptions *options);

/// Links an object from elsewhere into this process and finds the function `name`. Returns NULL
/// with diagnostics.
Code *code_from_object(Ctx *ctx, const void *object, size_t bytes, const char *name);
/// Waits until other programs have finished the device code. Returns false with diagnostics.
bool device_settle(Ir *ir, DeviceCode *code);
/// Gives the code an image: a copy in one allocation. Returns false if memory is exhausted, and
/// then closes the device code.
bool code_take_image(Code *code, const DeviceCode *device);
/// Returns the copy, or NULL if memory is exhausted. free() releases it.
tg_image *image_copy(const tg_image *image);
void code_release(Code *code);

#endif
