// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Makes every variant of one export. A variant is a choice of
//
//     nulls      which optional tensors are null              all combinations
//     given      values of dims and constants                 all combinations of the lists
//     layout     contiguous rows with packs of one axis       the main one; for GPUs also with
//                                                             rows aligned to 16 bytes
//                strided, packs of 2 or 3 axes                for all other launches
//     ladder     the extent of cover(N)                       steps up to N's bound
//     level      of the CPU                                   where it makes a difference
//     setting    of tune values                               by the cost model, for three sizes;
//                                                             more of them if asked; tuned ones
//
// Launches are unknown here. The extents are made up, and a variant's facts demand no more than its
// code needs.
#include <inttypes.h>
#include <string.h>

#include "driver/aot/aot.h"
#include "driver/tune/tune.h"
#include "driver/tune/tune_store.h"
#include "frontend/program.h"
#include "passes/gpu/gpu.h"

enum {
    MAX_FUNCTIONS = 1024, // in one export
    AOT_THREADS = 16,     // assumed of the machines that run objects
    COVERED = 4096,       // default bound for cover(N)
    MAX_PACK = 3,
    MANY_CASES = 4, // combinations of given values and nulls
};
enum { SIZES = 3, MIDDLE = 1 };
static const int64_t sizes[SIZES] = {32, 256, 2048}, gpu_sizes[SIZES] = {64, 512, 4096};

typedef struct Arrangement {
    bool main, strided, aligned;
    int pack; // number of axes in each pack after merging
    const char *what;
} Arrangement;
static const Arrangement layouts[] = {
    {true, false, true, 1, "contiguous rows of 16 bytes"}, // GPUs copy such rows unchanged
    {true, false, false, 1, "contiguous rows"},
    {false, false, false, 2, "contiguous rows, packs of 2"},
    {false, true, false, 1, "any strides"},
    {false, true, false, 2, "any strides, packs of 2"},
    {false, true, false, MAX_PACK, "any strides, packs of 3"},
};
enum { LAYOUTS = sizeof layouts / sizeof *layouts };

/// The importance of a ladder's step. Less used levels and layouts get only the more important
/// steps.
typedef enum LadderStep { STEP_ANY, STEP_THIRD, STEP_LAST, STEP_NONE } LadderStep;

typedef struct Child {
    Ctx *ctx; // of the level in compilation, or NULL
} Child;

typedef struct Variants {
    Aot *a;
    Object *object;
    AotExport *x;
    Child *child;
    Ctx *ctx; // of the current compilation; also the next two fields
    const Program *program;
    const FnDef *kernel;
    int cases;          // number of combinations of given values
    bool packs, coarse; // coarse: so many cases that each gets few variants
    unsigned nulls;
    AotValues values; // of given names
    const Arrangement *layout;
    AotValues ladder; // greatest values of dims under cover
    LadderStep step;  // the least of the ladder's current steps
    AotValues shape;  // of a tuned file's entry
    int64_t size;     // of all other dims
} Variants;

static const NamedValue *find_named_value(const AotValues *v, const char *name) {
    return value_of_name(v->n, v->data, name);
}

/* ---- requests ------------------------------------------------------------------------------ */

static bool dim_value(void *user, const char *name, int64_t *out) {
    const Variants *v = user;
    const NamedValue *known = find_named_value(&v->values, name);
    if (!known) known = find_named_value(&v->ladder, name);
    if (!known) known = find_named_value(&v->shape, name);
    *out = known ? known->value : v->size;
    return true;
}

/// Sets the extents of a pack's axes: 2 for all but the last, which gets the rest of the product.
static int pack_extents(const Variants *v, int64_t product, int64_t *out) {
    int n = v->layout->pack;
    for (int i = 0; i < n - 1; i++) {
        out[i] = 2;
        product = product > 2 ? product / 2 : 2;
    }
    out[n - 1] = product;
    return n;
}

/// Sets row-major strides, with gaps between the axes of a pack so that they cannot be merged.
static void set_strides(const Variants *v, Tensor *t, int pack_at) {
    int64_t stride = v->layout->strided ? 3 : 1;
    int pack_end = pack_at + v->layout->pack;
    for (int i = t->rank - 1; i >= 0; i--) {
        t->strides[i] = stride;
        stride *= t->extents[i] > 1 ? t->extents[i] : 2;
        if (pack_at >= 0 && i > pack_at && i < pack_end) stride += 8;
    }
}

/// Makes up a tensor. False: it would have more axes than MAX_RANK.
static bool describe_made_up(Variants *v, const Param *param, ParamInst *p) {
    const Dims *dims = &param->type->dims;
    Tensor t = {.elem = p->elem};
    int pack_at = -1;
    for (int d = 0; d < dims->n; d++) {
        int64_t extent;
        bool pack = dims->at[d].pack;
        if (t.rank + (pack ? v->layout->pack : 1) > MAX_RANK) return false;
        if (!aot_eval(v->program, dims->at[d].expr, dim_value, v, &extent)) extent = v->size;
        if (extent < 1) extent = 1;
        if (pack) {
            pack_at = t.rank;
            t.rank += pack_extents(v, extent, t.extents + t.rank);
        } else {
            t.extents[t.rank++] = extent;
        }
    }
    set_strides(v, &t, pack_at);
    request_describe_tensor(p, &t, v->layout->aligned ? TENSOR_ALIGN : 0);
    p->near = v->layout->aligned; // larger tensors get code that assumes neither
    return true;
}

/// Options are for all kernels of the object: a kernel takes the values that it has.
static bool takes_value(const FnDef *f, const char *name) {
    return kernel_has_choice(f, CL_TUNE, name) || kernel_has_choice(f, CL_SCHEDULE, name) ||
           is_schedule_axis(name);
}

static bool describe_params(Variants *v, ParamInst *params) {
    const FnDef *f = v->kernel;
    for (int i = 0, optional = 0; i < f->params.n; i++) {
        const Param *param = &f->params.at[i];
        ParamInst *p = &params[i];
        bool null = param->optional && v->nulls >> optional++ & 1;
        const NamedValue *value =
            param->constant ? find_named_value(&v->values, param->name.text) : NULL;
        *p = (ParamInst){.elem = aot_elem(v->x, i),
                         .null = null,
                         .known_value = value != NULL,
                         .value = value ? value->value : 0};
        if (param_is_tensor(param) && !null && !describe_made_up(v, param, p)) return false;
    }
    return true;
}

/// False: a tensor would have more axes than MAX_RANK.
static bool make_request(Variants *v, const TargetInfo *level, Request *out) {
    const FnDef *f = v->kernel;
    ParamInst *params = ctx_array(v->ctx, ParamInst, f->params.n + 1);
    NamedValue *set = ctx_array(v->ctx, NamedValue, v->a->set.n + 1);
    int n_set = 0;
    for (int i = 0; i < v->a->set.n; i++)
        if (takes_value(f, v->a->set.data[i].name)) set[n_set++] = v->a->set.data[i];
    *out = (Request){.kernel = f->name.text,
                     .n_set = n_set,
                     .set = set,
                     .own_set = true,
                     .check = v->a->check,
                     .debug = v->a->debug,
                     .tentative = true,
                     .threads = AOT_THREADS,
                     .target = level->name,
                     .n_args = f->params.n,
                     .params = params};
    return describe_params(v, params);
}

static Build make_build(const Variants *v, const Request *r) {
    Build b;
    request_instance(v->ctx, r, v->program, v->kernel, &b);
    return b;
}

/* ---- names for people ---------------------------------------------------------------------- */

static const char *describe_variant(const Variants *v) {
    Text t = {.ctx = v->a->ctx};
    const FnDef *f = v->x->kernel;
    for (int i = 0; i < v->values.n; i++)
        text_add(&t, "%s=%" PRId64 ", ", v->values.data[i].name, v->values.data[i].value);
    for (int i = 0; i < v->ladder.n; i++)
        text_add(&t, "%s<=%" PRId64 ", ", v->ladder.data[i].name, v->ladder.data[i].value);
    for (int i = 0, optional = 0; i < f->params.n; i++)
        if (f->params.at[i].optional && v->nulls >> optional++ & 1)
            text_add(&t, "no %s, ", f->params.at[i].name.text);
    text_add(&t, "%s", v->layout->what);
    return t.data;
}

/* ---- one variant --------------------------------------------------------------------------- */

/// Looks for products of elements that AMX tiles multiply.
static void uses_tiles(Op *op, void *arg) {
    if (op->code != OP_DOT) return;
    Elem e = operand(op, 0)->type->elem;
    if (e == EL_BF16 || e == EL_I8 || e == EL_U8) *(bool *)arg = true;
}

/// Fails if the code holds a dim as a constant whose values are not given.
static bool check_dims(Variants *v, const Elaborated *code) {
    for (int i = 0; i < code->n_dims; i++) {
        const DimUse *d = &code->dims[i];
        if (d->least != d->most || find_named_value(&v->x->given, d->name)) continue;
        return aot_fail(v->a,
                        ctx_format(v->a->ctx,
                                   "say which: --given '%s=64|128', or `given %s = 64 | 128` in "
                                   "the kernel",
                                   d->name, d->name),
                        "kernel '%s' needs the value of '%s' when it is compiled",
                        v->x->kernel->name.text, d->name);
    }
    return true;
}

/// Code of one step of a ladder is right for smaller extents, too. Hints let the runtime choose the
/// nearest step.
static void ladder_hints(Variants *v, const Elaborated *code, tg_variant *out) {
    VEC(tg_hint) hints = {0};
    if (out->n_hints) return;
    for (int i = 0; i < code->n_dims; i++) {
        const DimUse *d = &code->dims[i];
        if (d->least == d->most || d->most == INT64_MAX) continue;
        tg_hint h = {.param = (uint8_t)d->param, .axis = (uint8_t)d->axis, .extent = d->most};
        vec_push(v->a->ctx, &hints, h);
    }
    out->hints = hints.data;
    out->n_hints = (int16_t)hints.n;
}

static bool fail_too_many_variants(Variants *v) {
    return aot_fail(v->a,
                    "give fewer values (--given), levels (--levels) or settings (--set), or bound "
                    "dims: --given 'N<=1024'",
                    "kernel '%s' has more than %d variants", v->x->kernel->name.text,
                    MAX_FUNCTIONS);
}

static bool is_specific(const TargetInfo *gpu) {
    return gpu->name[strlen(gpu->name) - 1] == 'a';
}

/// Whether to add PTX for devices without machine code in the object. The last architecture of each
/// generation provides it, unless it is specific: then no other device runs its PTX.
static bool wants_ptx(const Aot *a, const TargetInfo *gpu) {
    int arch = gpu_target(gpu->name)->arch;
    for (int i = 0; i < a->n_gpus; i++) {
        const GpuTarget *other = gpu_target(a->gpus[i].name);
        bool covers = other->arch > arch && other->arch / 10 == arch / 10;
        if (covers && a->gpus[i].arch == gpu->arch && !is_specific(&a->gpus[i])) return false;
    }
    return !is_specific(gpu);
}

static void take_image(Variants *v, AotEntry *f, const tg_image *image) {
    f->images[f->n_images] = ctx_format(v->a->ctx, "%s.image%d", f->name, f->n_images);
    f->image_bytes += (int64_t)image->size;
    object_image(v->object, f->images[f->n_images++], image);
}

/// Takes machine code if a tool made it, and PTX for other devices.
static void take_images(Variants *v, const TargetInfo *gpu, const DeviceCode *made, AotEntry *f) {
    tg_image ptx = made->image;
    take_image(v, f, &made->image);
    f->ptx = made->image.kind == TG_IMAGE_PTX;
    if (made->image.kind != TG_IMAGE_CUBIN || !wants_ptx(v->a, gpu)) return;
    ptx.kind = TG_IMAGE_PTX;
    ptx.bytes = made->assembly;
    ptx.size = strlen(made->assembly) + 1;
    take_image(v, f, &ptx);
}

static bool make_images(const Variants *v, Build *b, const CodeOptions *options, DeviceCode *out) {
    CodeOptions device = *options;
    device.level = device.machine = b->level;
    device.codegen = v->a->codegen;
    device.texts = TEXT_ASM | TEXT_OBJECT;
    return b->backend->device(b->ir, b->code->module, &device, out);
}

/// On failure nothing is added to the object.
static bool add_function(Variants *v, Build *b, const TargetInfo *level, const char *config) {
    Aot *a = v->a;
    AotExport *x = v->x;
    DeviceCode made;
    if (x->functions.n == MAX_FUNCTIONS) return fail_too_many_variants(v);
    if (a->progress) a->progress(a->user, x->symbol, x->functions.n);
    AotEntry f = {.level = level, .config = config, .what = describe_variant(v)};
    f.name = ctx_format(a->ctx, "%s.%s.%d", x->symbol, level->label, x->functions.n);
    CodeOptions options = {.level = b->gpu ? a->levels[0]->name : level->name,
                           .check = a->check,
                           .debug = a->debug,
                           .name = f.name,
                           .strip = a->strip};
    if (!build_passes(b) || (b->gpu && !make_images(v, b, &options, &made)) ||
        !cpu_backend.add(v->object, b->ir, b->code->module, &options) ||
        (b->gpu && !device_settle(b->ir, &made)))
        return false;
    if (b->gpu) take_images(v, level, &made, &f);
    vec_push(a->ctx, &x->functions, f);
    return true;
}

/// The rows of one level, which differ only in tune values.
typedef struct VariantRow {
    tg_variant variant;
    int function; // index in the export
} VariantRow;
typedef VEC(VariantRow) VariantRows;

static bool is_gpu_level(const Variants *v, const TargetInfo *level) {
    return level >= v->a->gpus && level < v->a->gpus + v->a->n_gpus;
}

/// The lowest of several levels exists so that the object runs everywhere; speed does not matter.
static bool is_spare(const Variants *v, const TargetInfo *level) {
    return v->a->n_levels > 1 && level == v->a->levels[0];
}

/// Returns the least important steps of a ladder that the level still gets.
static LadderStep wanted_steps(const Variants *v, const TargetInfo *level) {
    bool spare = is_spare(v, level), main = v->layout->main;
    bool common =
        spare || v->a->n_levels == 1 || level->level == TG_LEVEL_V3 || is_gpu_level(v, level);
    if (!main && v->coarse && !common) return STEP_NONE;
    if (v->ladder.n == 0) return STEP_ANY;
    if (main && v->coarse) return spare ? STEP_LAST : STEP_THIRD;
    if (main) return spare ? STEP_THIRD : STEP_ANY;
    if (v->coarse || spare) return common ? STEP_LAST : STEP_NONE;
    return common ? STEP_THIRD : STEP_NONE;
}

/// Copies a variant so that it outlives the context of its compilation.
static tg_variant copy_variant_out(Ctx *ctx, const tg_variant *v) {
    tg_variant out = *v;
    out.facts = ctx_copy(ctx, v->facts, sizeof *v->facts * (size_t)v->n_facts);
    out.hints = ctx_copy(ctx, v->hints, sizeof *v->hints * (size_t)v->n_hints);
    out.params = ctx_copy(ctx, v->params, (size_t)v->n_params);
    out.inplace = ctx_copy(ctx, v->inplace, 2 * (size_t)v->n_inplace);
    out.config = ctx_format(ctx, "%s", v->config);
    return out;
}

/// For a kernel without tile products, the level AMX would equal V4.
static bool is_superfluous(const Variants *v, const TargetInfo *level, const Build *b) {
    bool tiles = false, v4 = v->a->n_levels > 1 && level->level == TG_LEVEL_AMX &&
                             v->a->levels[v->a->n_levels - 2]->level == TG_LEVEL_V4;
    if (v4) op_walk_pre(b->code->module, uses_tiles, &tiles);
    return v4 && !tiles;
}

/// The reason for a row's setting.
typedef enum Reason {
    DEFAULT, // the cost model's choice; gets hints only if it had a choice
    CHOSEN,  // one of several
    TUNED,   // measured by tuning
} Reason;

/// Adds one row, with a new function unless another row has the same setting.
static bool add_setting(Variants *v, const TargetInfo *level, const Request *r, Reason why,
                        uint32_t device, VariantRows *rows) {
    Build b = make_build(v, r);
    if (!build_elaborate(&b) || !check_dims(v, b.code)) return false;
    if (is_superfluous(v, level, &b)) return true;
    if (why != DEFAULT) b.n_settings = 2; // makes hints record the extents
    tg_variant *row = build_variant(&b, level->level, FACTS_NECESSARY);
    int same = 0, function;
    while (same < rows->n && strcmp(rows->data[same].variant.config, row->config) != 0) same++;
    if (same == rows->n) {
        if (!add_function(v, &b, level, ctx_format(v->a->ctx, "%s", row->config))) return false;
        row = build_variant(&b, level->level, FACTS_NECESSARY); // now with the in-place pairs
        function = v->x->functions.n - 1;
    } else {
        const VariantRow *first = &rows->data[same];
        row->inplace = first->variant.inplace; // only passes find them
        row->n_inplace = first->variant.n_inplace;
        function = first->function;
    }
    ladder_hints(v, b.code, row);
    row->tuned = why == TUNED;
    row->device = device;
    VariantRow out = {copy_variant_out(v->a->ctx, row), function};
    vec_push(v->a->ctx, rows, out);
    return true;
}

/* ---- settings beside the default ------------------------------------------------------------ */

typedef struct SettingAttempt {
    Variants *v;
    const TargetInfo *level;
    Request request;
    Reason why;
    uint32_t device; // of a tuned row
    VariantRows *rows;
    bool ok;
} SettingAttempt;

static void attempt_setting(Ctx *ctx, void *arg) {
    (void)ctx;
    SettingAttempt *a = arg;
    a->ok = add_setting(a->v, a->level, &a->request, a->why, a->device, a->rows);
}

/// Tries an optional setting. If it cannot be compiled, that is not an error. Returns false then.
static bool try_optional_setting(Variants *v, const TargetInfo *level, int n, const NamedValue *set,
                                 Reason why, uint32_t device, VariantRows *rows) {
    SettingAttempt a = {.v = v, .level = level, .why = why, .device = device, .rows = rows};
    Request *r = &a.request;
    if (!make_request(v, level, r)) return true;
    for (int i = 0, own = r->n_set; i < n; i++)
        if (!value_of_name(own, r->set, set[i].name))
            request_pin(v->ctx, r, set[i].name, set[i].value);
    DiagMark mark = diag_mark(v->ctx);
    ctx_pass_on(v->ctx, ctx_protect(v->ctx, attempt_setting, &a));
    diag_rewind(v->ctx, mark);
    return a.ok;
}

/// Adds the next best settings of the cost model, for tuning where the object runs.
static bool add_candidates(Variants *v, const TargetInfo *level, VariantRows *rows) {
    Request r;
    TuneSpace space;
    if (!make_request(v, level, &r)) return true;
    Build b = make_build(v, &r);
    if (!build_target(&b)) return false;
    tune_candidates(&b, &space);
    int left = v->a->n_variants - 1;
    for (int i = 1; i < space.n && left > 0 && !v->a->error; i++)
        if (!space.at[i].why)
            left -=
                try_optional_setting(v, level, space.at[i].n_set, space.at[i].set, CHOSEN, 0, rows);
    return !v->a->error;
}

/// Code of a ladder's step serves extents above the step before it.
static bool is_on_step(const Variants *v, const TargetInfo *level, const NamedValue *dim) {
    const NamedValue *most = find_named_value(&v->ladder, dim->name);
    LadderStep steps = wanted_steps(v, level);
    if (!most || dim->value > most->value) return !most;
    return steps == STEP_LAST || most->value <= 32 ||
           dim->value > most->value / (steps == STEP_ANY ? 2 : 8);
}

/// An entry measured with AMX tiles also serves the level below, for kernels that have no variants
/// for AMX.
static bool is_of_level(const Variants *v, const TunedEntry *e, const TargetInfo *level) {
    const TargetInfo *next =
        is_gpu_level(v, level) ? NULL : cpu_level(level->arch, level->level + 1);
    if (strcmp(e->target, level->name) == 0) return true;
    return next && next->level == TG_LEVEL_AMX && strcmp(e->target, next->name) == 0;
}

/// Reads the entry's shape. FOREIGN: its given values differ from the current ones. BEYOND: it
/// belongs to another step of a ladder, or to none.
static TunedUse take_shape(Variants *v, const TunedEntry *e, const TargetInfo *level) {
    TunedUse use = TUNED_TAKEN;
    NamedValue *values;
    int n;
    if (values_read(v->ctx, e->shape, &n, &values)) return TUNED_FOREIGN;
    for (int i = 0; i < n; i++) {
        const NamedValue *given = find_named_value(&v->values, values[i].name);
        if (given && given->value != values[i].value) return TUNED_FOREIGN;
        if (!given && !is_on_step(v, level, &values[i])) use = TUNED_BEYOND;
    }
    if (use == TUNED_TAKEN) v->shape = (AotValues){.data = values, .n = n};
    return use;
}

static bool is_of_export(const Variants *v, const TunedEntry *e) {
    return strcmp(e->kernel, tuned_kernel(v->a->ctx, v->x->kernel, v->x->types)) == 0;
}

/// Adds rows for the tuned shapes.
static void add_tuned(Variants *v, const TargetInfo *level, VariantRows *rows) {
    Aot *a = v->a;
    for (int i = 0; i < (a->tuned ? a->tuned->n : 0) && !a->error; i++) {
        const TunedEntry *e = &a->tuned->data[i];
        NamedValue *set;
        int n;
        if (!is_of_export(v, e) || !is_of_level(v, e, level)) continue;
        TunedUse use = take_shape(v, e, level);
        if (use > a->tuned_use[i]) a->tuned_use[i] = use;
        if (use != TUNED_TAKEN || values_read(v->ctx, e->config, &n, &set)) continue;
        uint32_t device = tune_device_hash(v->ctx, e->device, !is_gpu_level(v, level));
        if (!try_optional_setting(v, level, n, set, TUNED, device, rows)) a->stale = e;
    }
    v->shape = (AotValues){0};
}

/* ---- levels --------------------------------------------------------------------------------- */

typedef struct VariantLevel {
    Variants *v;
    const TargetInfo *target;
    VariantRows rows;
    bool same; // all sizes share one setting, and no other settings exist
    bool ok;
} VariantLevel;

/// Compiles one level in its own context, into which it reads the source again. The context is
/// freed with all temporary data; otherwise an object of hundreds of variants would take gigabytes.
static void compile_level(Ctx *ctx, void *arg) {
    VariantLevel *l = arg;
    Variants *v = l->v;
    size_t n;
    uint16_t file = v->a->program->main->file;
    const char *text = ctx_source_text(v->a->ctx, file, &n);
    v->ctx = ctx;
    file = ctx_add_source(ctx, ctx_source_path(v->a->ctx, file), text, n);
    v->program = fe_load(ctx, file, v->a->importer);
    v->kernel = fe_find_kernel(v->program, v->x->kernel->name.text);
    VariantRows *rows = &l->rows;
    bool one = !v->layout->main || v->coarse || is_spare(v, l->target);
    if (v->layout->main) add_tuned(v, l->target, rows);
    int first = rows->n;
    Reason why = first > 0 || v->a->n_variants > 1 ? CHOSEN : DEFAULT;
    for (int i = 0; i < SIZES; i++) {
        if (one && i != MIDDLE) continue;
        v->size = is_gpu_level(v, l->target) ? gpu_sizes[i] : sizes[i];
        Request r;
        if (make_request(v, l->target, &r) && !add_setting(v, l->target, &r, why, 0, rows)) return;
        if (!one && v->a->n_variants > 1 && !add_candidates(v, l->target, rows)) return;
    }
    l->same = why == DEFAULT;
    for (int i = 1; i < rows->n; i++) l->same &= rows->data[i].function == rows->data[0].function;
    l->ok = !v->a->error;
}

static void release_child(void *thing) {
    Child *c = thing;
    if (c->ctx) ctx_destroy(c->ctx);
    c->ctx = NULL;
}

/// Errors come back as text. Lack of memory and bugs leave by the context of the whole build.
static bool compile_apart(VariantLevel *l) {
    Aot *a = l->v->a;
    Ctx *ctx = l->v->child->ctx = ctx_create(NULL);
    if (!ctx) ctx_leave(a->ctx, CTX_NO_MEMORY);
    CtxStatus status = ctx_protect(ctx, compile_level, l);
    Text t = {.ctx = a->ctx};
    for (const Diagnostic *d = diag_first(ctx); d && !l->ok; d = d->next)
        if (d->severity == SEV_ERROR) diag_render(&t, ctx, d, false);
    release_child(l->v->child);
    if (status == CTX_NO_MEMORY) ctx_leave(a->ctx, status);
    if (status == CTX_BUG) ice(a->ctx, (Loc){0}, "%s", t.data ? t.data : "");
    if (!l->ok) a->messages = t.data;
    return l->ok;
}

/// Adds a variant for each image of its function.
static void add_variant_row(Variants *v, const VariantRow *row) {
    const AotEntry *f = &v->x->functions.data[row->function];
    for (int i = 0; i < (f->n_images ? f->n_images : 1); i++) {
        vec_push(v->a->ctx, &v->x->variants, row->variant);
        vec_push(v->a->ctx, &v->x->entries, f->name);
        vec_push(v->a->ctx, &v->x->images, f->images[i]);
    }
}

static bool add_variant_level(Variants *v, const TargetInfo *level) {
    VariantLevel l = {.v = v, .target = level};
    if (!compile_apart(&l)) return false;
    for (int i = 0; i < (l.same && l.rows.n ? 1 : l.rows.n); i++)
        add_variant_row(v, &l.rows.data[i]);
    return true;
}

static bool add_levels(Variants *v) {
    for (int i = 0; i < v->a->n_levels && !v->layout->aligned; i++)
        if (v->step >= wanted_steps(v, v->a->levels[i]) && !add_variant_level(v, v->a->levels[i]))
            return false;
    for (int i = 0; i < v->a->n_gpus; i++)
        if (v->step >= wanted_steps(v, &v->a->gpus[i]) && !add_variant_level(v, &v->a->gpus[i]))
            return false;
    return true;
}

/* ---- ladders ------------------------------------------------------------------------------- */

/// Returns the greatest extent of a dim among tuned entries for the object's targets; 0: none.
static int64_t tuned_extent(const Variants *v, const char *name) {
    const Aot *a = v->a;
    int64_t most = 0;
    for (int i = 0; i < (a->tuned ? a->tuned->n : 0); i++) {
        const TunedEntry *e = &a->tuned->data[i];
        bool wanted = false;
        NamedValue *values;
        int n;
        for (int k = 0; k < a->n_levels; k++) wanted |= is_of_level(v, e, a->levels[k]);
        for (int k = 0; k < a->n_gpus; k++) wanted |= is_of_level(v, e, &a->gpus[k]);
        if (!wanted || !is_of_export(v, e) || values_read(a->ctx, e->shape, &n, &values)) continue;
        const NamedValue *own = value_of_name(n, values, name);
        if (own && own->value > most) most = own->value;
    }
    return most;
}

/// Returns the bound from the user or the source, or else the default, raised to the greatest tuned
/// extent.
static const NamedValue *dim_bound(Variants *v, const char *name) {
    const NamedValue *bound = find_named_value(&v->x->most, name);
    if (bound) return bound;
    bound = find_named_value(&v->a->most, name);
    int64_t tuned = tuned_extent(v, name);
    NamedValue value = {name, bound ? bound->value : tuned > COVERED ? tuned : COVERED};
    if (!bound) {
        const char *text = ctx_format(v->a->ctx, "'%s' up to %" PRId64 " is covered in %s", name,
                                      value.value, v->x->symbol);
        v->a->note = v->a->note ? ctx_format(v->a->ctx, "%s; %s", v->a->note, text) : text;
    }
    vec_push(v->a->ctx, &v->x->most, value);
    return &v->x->most.data[v->x->most.n - 1];
}

/// Visits each combination of steps of the dims from number i on: 32, 64, 128, ... up to the bound.
static bool climb_ladder(Variants *v, const AotValues *bounds, int i) {
    if (i == bounds->n) return add_levels(v);
    int64_t most = bounds->data[i].value, n = 32;
    LadderStep outer = v->step;
    for (int k = 0;; k++, n *= 2) {
        bool last = n >= most;
        LadderStep step = last ? STEP_LAST : k % 3 == 0 ? STEP_THIRD : STEP_ANY;
        v->step = step < outer ? step : outer;
        v->ladder.data[i].value = last ? most : n;
        bool ok = climb_ladder(v, bounds, i + 1);
        v->step = outer;
        if (!ok || last) return ok;
    }
}

/// Elaborates once to find the dims that must be constants, and the dims that need a bound.
static bool add_layout(Variants *v) {
    Aot *a = v->a;
    AotValues bounds = {0};
    v->ctx = a->ctx;
    v->program = a->program;
    v->kernel = v->x->kernel;
    v->ladder.n = 0;
    v->step = STEP_LAST;
    v->size = sizes[MIDDLE];
    Request r;
    if (!make_request(v, a->levels[0], &r)) return true;
    Build b = make_build(v, &r);
    if (!build_elaborate(&b) || !check_dims(v, b.code)) return false;
    for (int i = 0; i < b.code->n_dims; i++) {
        const DimUse *d = &b.code->dims[i];
        if (d->least == d->most || d->most == INT64_MAX) continue;
        NamedValue bound = *dim_bound(v, d->name);
        vec_push(a->ctx, &bounds, bound);
        vec_push(a->ctx, &v->ladder, bound);
    }
    return climb_ladder(v, &bounds, 0);
}

static bool add_layouts(Variants *v) {
    for (int i = 0; i < LAYOUTS; i++) {
        v->layout = &layouts[i];
        if (v->layout->pack > 1 && !v->packs) continue;
        if (v->layout->aligned && v->a->n_gpus == 0) continue;
        if (!add_layout(v)) return false;
    }
    return true;
}

/* ---- given, nulls -------------------------------------------------------------------------- */

static bool add_nulls(Variants *v) {
    int optional = 0;
    for (int i = 0; i < v->x->kernel->params.n; i++)
        optional += v->x->kernel->params.at[i].optional;
    if (optional > 8)
        return aot_fail(v->a, NULL, "kernel '%s' has more than 8 optional tensors",
                        v->x->kernel->name.text);
    if ((v->cases << optional) * v->a->n_levels > MAX_FUNCTIONS) return fail_too_many_variants(v);
    v->coarse = v->cases << optional > MANY_CASES;
    for (v->nulls = 0; v->nulls < 1u << optional; v->nulls++)
        if (!add_layouts(v)) return false;
    return true;
}

/// Visits every combination of the given values from the i-th on. Values of one name are adjacent.
static bool add_given(Variants *v, int i) {
    const AotValues *given = &v->x->given;
    if (i == given->n) return add_nulls(v);
    int end = i;
    while (end < given->n && strcmp(given->data[end].name, given->data[i].name) == 0) end++;
    int n = v->values.n;
    for (int k = i; k < end; k++) {
        v->values.n = n;
        vec_push(v->a->ctx, &v->values, given->data[k]);
        if (!add_given(v, end)) return false;
    }
    v->values.n = n;
    return true;
}

static int count_cases(const AotValues *given) {
    int cases = 1;
    for (int i = 0, n = 0; i < given->n; i++, n++) {
        bool ends = i + 1 == given->n || strcmp(given->data[i].name, given->data[i + 1].name) != 0;
        if (ends && cases <= MAX_FUNCTIONS) cases *= n + 1;
        if (ends) n = -1;
    }
    return cases;
}

bool aot_variants(Aot *a, Object *object, AotExport *x) {
    Variants v = {.a = a, .object = object, .x = x};
    for (int i = 0; i < x->kernel->params.n; i++) {
        const Param *p = &x->kernel->params.at[i];
        for (int d = 0; param_is_tensor(p) && d < p->type->dims.n; d++)
            v.packs |= p->type->dims.at[d].pack;
    }
    if (!aot_given(a, x)) return false;
    v.child = ctx_new(a->ctx, Child);
    ctx_defer(a->ctx, release_child, v.child);
    v.cases = count_cases(&x->given);
    return add_given(&v, 0);
}
