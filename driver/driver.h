// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The compiler as a library: from a source and a description of the arguments to code.
//
//     source_find, fe_load          text                     -> Program
//     Build{program, inst}          what is to be compiled   -> (Inst: frontend/frontend.h)
//     build_elaborate               chooses tune values      -> tile IR
//     build_passes                                           -> grid IR
//     build_code                                             -> machine code
//     build_variant, kernel_info    what the runtime needs to know of it (runtime/abi.h)
//
// Everything lives in the arena of the context; mistakes of the user are its diagnostics.
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

/// Where the text of files is.
typedef struct Sources {
    int n_paths;
    const char *const *paths; // folders in which imports are looked for, after the importing file's
    bool closed;              // no file is read: all there is are `texts`
    int n_texts;
    const SourceText *texts;
} Sources;

/// Reads a file (`-`: standard input) into the context; 0, with errno, where it cannot be read.
uint16_t source_find(Ctx *ctx, const Sources *sources, const char *path);
/// Of imports: beside the importing file first, so that a library works wherever it is put. The
/// importer and `sources` are kept by the program that is loaded with it.
Importer *source_importer(Ctx *ctx, const Sources *sources);
/// All sources of a program but those of the library, which every compilation has; how many.
int program_texts(Ctx *ctx, const Program *p, SourceText **out);

/* ---- source_check.c ------------------------------------------------------------------------- */

/// Elaborates each kernel for made-up arguments and reports what is wrong. With `certain`, errors
/// that other dims or constants might not bring about are left to the launch that has them.
bool program_check(Ctx *ctx, const Program *program, bool certain);

/* ---- build_instance.c: from an instance to code --------------------------------------------- */

/// One instance on its way. The first group is the caller's, zeroes are defaults.
typedef struct Build {
    Ctx *ctx;
    const Program *program;
    Inst *inst;         // its `set` pins tune values; build_elaborate adds those that it chooses
    const char *target; // "v3", "sm_90a", "sim:sm_80" (backend_of); NULL: this machine's CPU
    const char *codegen, *machine; // of device code, as CodeOptions has them
    int driver;                    // likewise
    int threads;                   // of the machine that launches will run on; 0: those of this one
    bool tuned;                    // the values of inst->set were found for these extents
    bool debug;                    // debug information
    Text *notes;                   // receives what `explain` says of the code, or NULL
    PassOptions passes;            // what run_passes is to show; seconds may be NULL

    Ir *ir;           // build_elaborate
    Elaborated *code; // likewise
    int n_settings;   // how many settings of tune values there were to choose from
    const Backend *backend;
    const char *level; // of the back end
    TargetInfo info;
    const struct GpuTarget *gpu; // NULL: a CPU
} Build;

/// Finds the back end of the target. False, diagnosed, where there is none.
bool build_target(Build *b);
/// Settles the tune values that inst->set leaves open by the cost model, for the extents that the
/// instance knows, and elaborates. False after errors, diagnosed.
bool build_elaborate(Build *b);
/// What the passes are told of the target.
PassEnv build_env(Build *b);
/// The passes of the target.
const Pass *const *build_pipeline(const Build *b, int *n);
/// Tile IR to grid IR; of a GPU to host code and device functions.
bool build_passes(Build *b);
/// Machine code of that, as `texts` (CodeTexts) and, with `load`, in this process; of a GPU with an
/// image. `name`: of the function in an object; NULL: the kernel's. NULL after errors. The caller
/// releases it.
Code *build_code(Build *b, const char *name, int texts, bool load);
/// The code generator that values of the schedule ask for: `generator` 1 is nvptx, 2 nvvm.
const char *build_codegen(int n, const NamedValue *set, const char *otherwise);
/// The threads of this machine that the process may use.
int machine_threads(void);

/* ---- rank_settings.c ------------------------------------------------------------------------ */

/// Sets b->inst->set to the setting that the cost model expects to be fastest.
void build_choose(Build *b);
/// Elaborates the setting with the smallest tiles: the least product of its values, of those that
/// inst->set leaves open, and as few of them as can be 1. False where none can be elaborated.
bool build_smallest(Build *b);
/// Of a GPU, after build_elaborate: what the cost model sees, a line a phase, and what it assumes.
void build_describe_cost(Build *b, Text *out);
/// Likewise: seconds of one launch; 0 where there is no model.
double build_cost(Build *b);
/// Multiplications and additions of the products of one launch, after build_elaborate.
double build_products(Build *b);

/* ---- facts.c: code as the runtime sees it -------------------------------------------------- */

/// The kernel as the source declares it; no variants. Parameters whose type is not known (after
/// errors in the source) are tensors of type 0.
tg_kernel_info *kernel_info(Ctx *ctx, const Program *p, const FnDef *kernel);

/// Which parameter of the source the k-th argument of the compiled kernel is.
const ParamUse *build_argument(const Build *b, int k, int *param);
/// How many arguments it has.
int build_arguments(const Build *b);
/// The tensor with the axes of its pack put together as the code was compiled for.
Tensor build_merge_pack(const Tensor *t, const ParamUse *use);
/// Extent of an axis of parameter `param` after packs were merged, as the instance knows it; -1
/// where it does not. Axis -1: the value of an integer parameter.
int64_t build_extent(const Build *b, int param, int axis);

/// Which facts describe code. The just-in-time compiler makes code for one class of strides and one
/// step of each ladder, so that what runs never depends on what ran before; an object holds few
/// variants, each for as many launches as it is right for.
enum FactOptions { FACTS_NECESSARY, FACTS_EXACT };

/// Facts, hints, argument list, in-place pairs and tune values of what was elaborated (after the
/// passes: they find the in-place pairs). All parameters are numbered as in the source; entry is
/// NULL, level is `level`.
tg_variant *build_variant(const Build *b, int level, enum FactOptions options);

/// DLPack's type of an element.
void elem_dlpack(Elem e, uint8_t *code, uint8_t *bits);
/// EL_COUNT where it is none of ours. bool: the parameter is one of bools.
Elem elem_of_dlpack(uint8_t code, uint8_t bits);

#endif
