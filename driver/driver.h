// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The compiler as a library: from a source and a description of the arguments to code.
//
//     source_find, fe_load          text                     -> Program
//     Build{program, inst}          the instance to compile  -> (Inst: frontend/frontend.h)
//     build_elaborate               chooses tune values      -> tile IR
//     build_passes                                           -> grid IR
//     build_code                                             -> machine code
//     build_variant, kernel_info    descriptions for the runtime (runtime/abi.h)
//
// All results live in the arena of the context. Mistakes of the user become its diagnostics.
#ifndef DRIVER_DRIVER_H
#define DRIVER_DRIVER_H

#include "backends/backend.h"
#include "frontend/frontend.h"
#include "ir/interp/interp.h"
#include "passes/passes.h"

/* ---- source_files.c ------------------------------------------------------------------------- */

typedef struct SourceText {
    const char *path, *text;
    size_t length;
} SourceText;

/// The sources of files' texts.
typedef struct Sources {
    int n_paths;
    const char *const *paths; // folders to search for imports, after the importing file's folder
    bool closed;              // reads no files; only `texts` exist
    int n_texts;
    const SourceText *texts;
} Sources;

/// Reads a file (`-`: standard input) into the context. 0, with errno: it cannot be read.
uint16_t source_find(Ctx *ctx, const Sources *sources, const char *path);
/// Makes an importer. It searches the importing file's folder first, so a library works wherever it
/// is installed. The program that is loaded keeps the importer and `sources`.
Importer *source_importer(Ctx *ctx, const Sources *sources);
/// Lists all sources of a program but those of the library, which every compilation has. Returns
/// their number.
int program_texts(Ctx *ctx, const Program *p, SourceText **out);

/* ---- source_check.c ------------------------------------------------------------------------- */

/// Elaborates each kernel for made-up arguments, and reports mistakes. With `certain`, it drops
/// errors that may not occur for other dims or constants; the launch reports those.
bool program_check(Ctx *ctx, const Program *program, bool certain);

/// The two parts of program_check. The first one returns the last step of the budget. The second
/// one tries the element types that kernel k allows, if there is no error yet.
uint64_t program_check_kernels(Ctx *ctx, const Program *program, bool certain);
void program_check_types(Ctx *ctx, const Program *program, int k, uint64_t last);
/// Notes the types of a program with errors in its table of names, as far as they are known,
/// without messages.
void program_note_types(Ctx *ctx, Program *program);

/* ---- build_instance.c: from an instance to code --------------------------------------------- */

/// The build of one instance. The caller fills the first group; zeroes are defaults.
typedef struct Build {
    Ctx *ctx;
    const Program *program;
    Inst *inst;                    // `set` pins tune values; build_elaborate adds the chosen ones
    const char *target;            // "v3", "sm_90a", "sim:sm_80" (backend_of); NULL: this CPU
    const char *codegen, *machine; // for device code: see CodeOptions
    int driver;                    // see CodeOptions
    int threads;                   // of the machine for launches; 0: of this machine
    bool tuned;                    // inst->set was tuned for these extents
    bool debug;                    // emit debug information
    bool marks;                    // emit marks for a profile
    Text *notes;                   // receives the notes of `explain` about the code, or NULL
    PassOptions passes;            // output options of run_passes; seconds may be NULL

    Ir *ir;           // result of build_elaborate
    Elaborated *code; // result of build_elaborate
    int n_settings;   // number of settings of tune values to choose from
    const Backend *backend;
    const char *level; // for the back end
    TargetInfo info;
    const struct GpuTarget *gpu; // NULL: a CPU
} Build;

/// Finds the back end of the target. False, diagnosed: no such target.
bool build_target(Build *b);
/// Chooses open tune values of inst->set by the cost model, for the known extents of the instance,
/// and elaborates. False: an error was diagnosed.
bool build_elaborate(Build *b);
/// Returns the passes' view of the target.
PassEnv build_env(Build *b);
/// Returns the passes for the target.
const Pass *const *build_pipeline(const Build *b, int *n);
/// Lowers tile IR to grid IR; for a GPU to host code and device functions.
bool build_passes(Build *b);
/// Generates machine code, in the forms of `texts` (CodeTexts), and with `load` in this process as
/// well; for a GPU, host code with an image. `name`: the function's name in an object; NULL: the
/// kernel's. NULL: an error was diagnosed. The caller releases the code.
Code *build_code(Build *b, const char *name, int texts, bool load);
/// Returns the code generator that the schedule pins: `generator` 1 is nvptx, 2 nvvm; else
/// `otherwise`.
const char *build_codegen(int n, const NamedValue *set, const char *otherwise);
/// The number of this machine's threads that the process may use.
int machine_threads(void);

/* ---- rank_settings.c ------------------------------------------------------------------------ */

/// Sets b->inst->set to the setting that the cost model expects to be fastest.
void build_choose(Build *b);
/// Elaborates the setting with the smallest tiles: the least product of the values that inst->set
/// leaves open. Values of 1 are avoided. False: no setting can be elaborated.
bool build_smallest(Build *b);
/// Describes the cost model's view of a GPU kernel, a line a phase, and its assumptions. Needs
/// build_elaborate.
void build_describe_cost(Build *b, Text *out);
/// Estimates the seconds of one launch; 0: no model. Needs build_elaborate.
double build_cost(Build *b);
/// Counts the multiplications and additions of all dot products of one launch. Needs
/// build_elaborate.
double build_products(Build *b);

/* ---- facts.c: code as the runtime sees it -------------------------------------------------- */

/// Describes the kernel as the source declares it, without variants. Parameters of unknown type
/// (after errors in the source) become tensors of type 0.
tg_kernel_info *kernel_info(Ctx *ctx, const Program *p, const FnDef *kernel);

/// Finds the parameter of the source for the k-th argument of the compiled kernel.
const ParamUse *build_argument(const Build *b, int k, int *param);
/// Returns the number of its arguments.
int build_arguments(const Build *b);
/// Returns the tensor with the axes of its pack merged as the code expects them.
Tensor build_merge_pack(const Tensor *t, const ParamUse *use);
/// Returns the extent of an axis of parameter `param` after packs are merged, or -1 if the instance
/// does not know it. Axis -1: the value of an integer parameter.
int64_t build_extent(const Build *b, int param, int axis);

/// The choice of facts for code. EXACT is for the just-in-time compiler: its code serves one class
/// of strides and one step of each ladder, so the code of a launch never depends on earlier
/// launches. NECESSARY is for objects: they hold few variants, and each serves as many launches as
/// possible.
enum FactOptions { FACTS_NECESSARY, FACTS_EXACT };

/// Makes facts, hints, argument list, in-place pairs and tune values of the elaborated kernel. Call
/// it after the passes, which find the in-place pairs. Parameters are numbered as in the source.
/// entry is NULL, level is `level`.
tg_variant *build_variant(const Build *b, int level, enum FactOptions options);

/// Gets DLPack's type of an element.
void elem_dlpack(Elem e, uint8_t *code, uint8_t *bits);
/// Returns the element of a DLPack type; EL_COUNT: the language does not have it.
Elem elem_of_dlpack(uint8_t code, uint8_t bits);

#endif
