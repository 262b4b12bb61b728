// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What the compiler offers to those who want machine code: targets, and code for them.
#ifndef BACKENDS_BACKEND_H
#define BACKENDS_BACKEND_H

#include <stddef.h>

#include "ir/ir.h"
#include "runtime/abi.h"

/// What a level of a target can do; what passes need to know of it.
typedef struct TargetInfo {
    const char *cpu, *features; // LLVM's names
    int vector_bytes, vector_registers;
    int64_t l1_bytes, l2_bytes; // of one core
    const char *name;           // "x86-64-v3": no other level has it
    const char *arch, *label;   // "x86-64", "v3"; the levels of an architecture have labels
    int level;                  // enum tg_level
} TargetInfo;

enum CodeTexts { TEXT_LLVM = 1, TEXT_ASM = 2, TEXT_OBJECT = 4 };

typedef struct CodeOptions {
    const char *level; // "host" (NULL), "x86-64-v3" or the label "v3", ...: cpu/cpu_levels.c
    bool check;        // --check
    bool debug;        // debug information
    int texts;         // CodeTexts to keep
    const char *name;  // of the function in an object file; NULL: that of the kernel
    Text *notes;       // receives what `explain` says of the code, or NULL
    const char *strip; // a folder that paths in messages and debug information leave out, or NULL
    bool quick;        // code of a CPU that is made in little time, not to be fast
    const char *codegen; // of NVIDIA code: "nvvm", "nvptx", "auto" (NULL)
    int driver;          // the CUDA version that is to read the code (12040); 0: any
    const char *machine; // "sm_90a": PTX is made machine code for it, where that can be; or NULL
} CodeOptions;

/// What device code took to make, in seconds, and by whom.
typedef struct DeviceTimes {
    double lower, generate, link;
    const char *generator; // "nvptx", "libNVVM", ...
    const char *linker;    // "nvJitLink", "ptxas"; NULL: it was not linked
} DeviceTimes;

/// Machine code of one kernel. Not in the arena: it outlives the context that made it. For a GPU it
/// is that of the host side, with an image; the texts then are the device's.
typedef struct Code {
    tg_entry *entry; // NULL where only texts were asked for
    char *llvm, *assembly;
    void *object;
    size_t object_bytes;
    void *jit; // owns the memory of entry, or `memory` does
    void *memory;
    size_t memory_bytes;
    tg_image *image;                // in one piece of memory; NULL: of a CPU
    void (*close)(tg_image *image); // of the image, before its memory goes; or NULL
    DeviceTimes times;
} Code;

/// Device code as a back end makes it, in the arena but for what `close` releases.
typedef struct DeviceCode {
    tg_image image;
    void (*close)(tg_image *image); // or NULL
    const char *llvm, *assembly;    // with TEXT_LLVM, TEXT_ASM
    DeviceTimes times;
    /// Another program is still at work on it (`work`): waits for that and takes what it makes, or
    /// leaves the context. NULL: all is there. device_settle calls it.
    void (*settle)(Ctx *ctx, struct DeviceCode *code);
    void *work;
} DeviceCode;

struct GpuTarget;

typedef struct Object Object; // a file of many kernels: backends/object.h

typedef struct Backend {
    const char *name;
    /// Fills in what a level can do; false where there is no such level.
    bool (*info)(const char *level, TargetInfo *out);
    /// True where the target computes an elementwise op itself; the others go to expand-math.
    bool (*has_op)(OpCode code, Elem elem);
    /// Machine code of the only kernel of a grid-level module; NULL with diagnostics. `load`: link
    /// it into this process.
    Code *(*compile)(Ir *ir, Op *module, const CodeOptions *options, bool load);
    /// Adds the code of that kernel to an object as an internal function named options->name.
    /// False with diagnostics.
    bool (*add)(Object *object, Ir *ir, Op *module, const CodeOptions *options);
    /// Of GPUs, which have neither of these two: the image of the `device` ops of a module, which
    /// is whole after device_settle. False with diagnostics. The kernel op, their host side, is the
    /// CPU's to compile, for which there is time in between.
    bool (*device)(Ir *ir, const Op *module, const CodeOptions *options, DeviceCode *out);
    /// Of GPUs: has_op in device code.
    bool (*device_has)(const struct GpuTarget *target, OpCode code, Elem elem);
} Backend;

extern const Backend cpu_backend, nvidia_backend, amdgpu_backend, sim_backend;
/// The back end of a target and the level of it: "cpu" or NULL, "x86-64-v3" or "cpu:v3", "sm_90a",
/// "sim:sm_90a". NULL where there is none of that name.
const Backend *backend_of(const char *target, const char **level);
/// A target whose device is functions of this process: "sim:sm_90a". NULL is none.
bool is_simulated(const char *target);

/// TG_FILL=nan in the environment: undefined memory holds bytes that are NaN in every float type,
/// so that what reads it shows it.
enum { FILL_BYTE = 0xff };
bool backend_fills(void);
/// The architecture whose code is best for a GPU of a compute capability (90; 0x942 of gfx942), and
/// the name of the device's own machine code. NULL where none is for it.
const char *device_target(int capability, char machine[16]);
/// The same of a maker's GPUs.
const char *nvidia_target(int capability, char machine[16]);
const char *amdgpu_target(int capability, char machine[16]);
/// Whether libNVVM is here and its code can be run by a driver of this CUDA version.
bool nvidia_takes_nvvm(int driver);
/// "x86-64" or "aarch64": what this process runs on.
const char *cpu_host_arch(void);
/// Level i of an architecture, lowest first; NULL beyond the last.
const TargetInfo *cpu_level(const char *arch, int i);
extern const Backend *const backends[]; // NULL-terminated
/// A hash of the sources of this compiler and how it was built (cmake/identity.cmake): the same in
/// all programs and libraries of a build.
const char *backend_compiler(void);
/// Adds that, and the build of LLVM. False where LLVM's library does not say what it is.
bool backend_build(Text *t);
/// Adds what else than a module and its options decides machine code: backend_build, the host's
/// CPU, the tools of a toolkit that take part. Of the options, machine, codegen and driver count.
/// False as backend_build.
bool backend_identity(Text *t, const CodeOptions *options);

/// Links an object that was made elsewhere into this process and finds the function `name`. NULL
/// with diagnostics.
Code *code_from_object(Ctx *ctx, const void *object, size_t bytes, const char *name);
/// Waits for what other programs make of device code. False with diagnostics.
bool device_settle(Ir *ir, DeviceCode *code);
/// Gives the code an image: a copy in one piece. False where there is no memory; what the device
/// code holds is then closed.
bool code_take_image(Code *code, const DeviceCode *device);
/// The copy; NULL where there is no memory. free() releases it.
tg_image *image_copy(const tg_image *image);
void code_release(Code *code);

#endif
