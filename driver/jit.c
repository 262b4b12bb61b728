// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The just-in-time compiler behind a module's kernels. The runtime calls it when a launch finds no
// code (runtime/compiler.h).
//
// A kernel keeps code under its key, which is its facts and tune values. Two launches with
// different extents may get two variants that differ in hints but share code.
//
// No compilation holds the module's lock, so neither a launch that needs other code nor a search in
// the background blocks a thread. If two threads make the same code at once, the first one's is
// kept.
#include "driver/module.h"

#include <string.h>

/// A variant; the first one of its key owns the code. It is one block of the context's memory.
struct Made {
    Made *next;
    Code *code; // NULL: another entry of the list has it
    size_t bytes;
    Key key;
    TunedTimes times; // of a tuned variant
    tg_variant variant;
};

/* ---- variants that last -------------------------------------------------------------------- */

enum { ALIGNMENT = 8 };

static size_t padded_size(size_t n) {
    return (n + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

/// Copies n bytes to *at and advances it.
static void *put_copy(char **at, const void *data, size_t n) {
    void *copy = *at;
    if (n) memcpy(copy, data, n);
    *at += padded_size(n);
    return copy;
}

/// NULL: out of memory.
static Made *made_new(const Answer *a) {
    const tg_variant *v = a->variant;
    size_t facts = sizeof *v->facts * (size_t)v->n_facts;
    size_t hints = sizeof *v->hints * (size_t)v->n_hints;
    size_t params = (size_t)v->n_params, inplace = 2 * (size_t)v->n_inplace;
    size_t config = strlen(v->config) + 1;
    size_t bytes = padded_size(sizeof(Made)) + padded_size(facts) + padded_size(hints) +
                   padded_size(params) + padded_size(inplace) + padded_size(config) +
                   padded_size(a->key.n);
    Made *m = tg_allocate(bytes);
    if (!m) return NULL;
    char *at = (char *)m + padded_size(sizeof(Made));
    *m = (Made){.bytes = bytes, .variant = *v};
    m->variant.facts = put_copy(&at, v->facts, facts);
    m->variant.hints = put_copy(&at, v->hints, hints);
    m->variant.params = put_copy(&at, v->params, params);
    m->variant.inplace = put_copy(&at, v->inplace, inplace);
    m->variant.config = put_copy(&at, v->config, config);
    m->key = (Key){put_copy(&at, a->key.bytes, a->key.n), a->key.n};
    return m;
}

void made_release(Made *m) {
    for (Made *next; m; m = next) {
        next = m->next;
        if (m->code && m->code->image) tg_image_unload(m->code->image);
        code_release(m->code);
        tg_release(m, m->bytes);
    }
}

/// Hints do not affect the code, so the in-place pairs of the first variant are right.
static void share_code(Made *m, const Made *first) {
    m->variant.entry = first->variant.entry;
    m->variant.image = first->variant.image;
    m->variant.inplace = first->variant.inplace;
    m->variant.n_inplace = first->variant.n_inplace;
}

/* ---- requests ------------------------------------------------------------------------------ */

/// The level is capped if the operating system does not allow AMX tiles.
const char *host_target(void) {
    TargetInfo host;
    enum tg_level level = tg_cpu_level();
    bool tiles = cpu_backend.info(NULL, &host) && strstr(host.features, "+amx-tile") != NULL;
    return secure_getenv("TG_LEVEL") || (tiles && level < TG_LEVEL_AMX) ? tg_level_name(level)
                                                                        : NULL;
}

/// Lists are short, and a compilation takes a million times longer than a walk.
static int count_made(const Made *list) {
    int n = 0;
    for (const Made *m = list; m; m = m->next) n++;
    return n;
}

static const Made *made_at(const Made *list, int i) {
    const Made *m = list;
    while (i-- > 0) m = m->next;
    return m;
}

/// Returns the current list. Entries never change; new ones are prepended.
static const Made *all_made(ModuleKernel *k) {
    tg_lock_take(&k->module->lock);
    const Made *list = k->made;
    tg_lock_give(&k->module->lock);
    return list;
}

typedef struct Compilation {
    ModuleKernel *k;
    const tg_wanted *wanted;
    const TuneResult *found; // result of tuning; NULL: not known here
    TunedTimes times;
    const Made *made; // the list that the compiler was told about
    Answer answer;
    bool tuned; // the answer is for the tuned setting
} Compilation;

static bool no_aim(Ctx *ctx, Compilation *c, const char *why) {
    const char *text = ctx_format(ctx, "the target '%s' %s", c->k->module->target, why);
    c->answer = (Answer){.status = TG_ERROR_ARGUMENT, .message = text};
    return false;
}

/// The answer of mode `strict` if no tuned setting is known.
static void not_tuned(Ctx *ctx, Compilation *c) {
    const char *text = ctx_format(ctx,
                                  "%s: tuning is strict, and nothing that was tuned is known for "
                                  "these extents; `tegula tune` finds it",
                                  c->k->info->name);
    c->answer = (Answer){.status = TG_ERROR_NOT_FOUND, .message = text};
}

/// Targets the GPU that has the tensors.
static bool aim_at_gpu(Compilation *c, Request *r, char machine[16]) {
    const char *pinned = c->k->module->target;
    const char *best = device_target(c->wanted->capability, machine);
    tg_device_info device = {.size = sizeof device};
    r->target = pinned ? pinned : best;
    r->machine = machine;
    if (tg_device_describe(c->wanted->device, &device) == TG_OK) r->driver = device.driver;
    if (best) return true;
    c->answer = (Answer){.status = TG_ERROR_UNSUPPORTED,
                         .message = "this GPU is not supported: NVIDIA's are from compute "
                                    "capability 8.0 on, AMD's are those that 'tegula targets' "
                                    "lists"};
    return false;
}

/// Chooses the target: the one of the module's options, or else the device of the tensors. False,
/// with an answer: the two do not fit, or the GPU is not supported.
static bool aim_request(Ctx *ctx, Compilation *c, Request *r, char machine[16]) {
    const tg_module *m = c->k->module;
    const char *level;
    const Backend *b = m->target ? backend_of(m->target, &level) : NULL;
    bool of_gpu = b && b->device && !is_simulated(m->target);
    r->codegen = m->codegen;
    if (m->target && !b) return no_aim(ctx, c, "does not exist");
    if (of_gpu && !c->wanted->capability)
        return no_aim(ctx, c, "takes tensors of a GPU, and these are the CPU's");
    if (b && !of_gpu && c->wanted->capability)
        return no_aim(ctx, c, "takes tensors of the CPU, and these are a GPU's");
    if (c->wanted->capability) return aim_at_gpu(c, r, machine);
    r->target = m->target ? m->target : host_target();
    return true;
}

/// Whether it is a launch of ranks without a pinned plan for transfers.
static bool plans_are_open(const Compilation *c) {
    const tg_module *m = c->k->module;
    for (int i = 0; i < m->n_set; i++)
        if (setting_is_plan(m->set[i].name)) return false;
    return c->wanted->collective;
}

/// If other ranks' memory is not mapped, the plan must copy instead of accessing it in place.
static void set_plan(Ctx *ctx, const Compilation *c, Request *r) {
    if (plans_are_open(c) && c->wanted->unmapped)
        request_pin(ctx, r, axis_names[AXIS_PLAN], PLAN_COPIES);
}

/// Restricts the code to launches with the same mapping of ranks' memory.
static void add_mapped_fact(Ctx *ctx, Compilation *c) {
    tg_variant *v = ctx_copy(ctx, c->answer.variant, sizeof *v);
    tg_fact *facts = ctx_array(ctx, tg_fact, v->n_facts + 1);
    if (v->n_facts) memcpy(facts, v->facts, sizeof *facts * (size_t)v->n_facts);
    facts[v->n_facts++] = (tg_fact){.kind = TG_FACT_MAPPED, .value = !c->wanted->unmapped};
    v->facts = facts;
    c->answer.variant = v;
}

/// Builds the request from the module and the launch, and compiles. Runs in ctx_protect.
static void ask_compiler(Ctx *ctx, void *arg) {
    Compilation *c = arg;
    const tg_module *m = c->k->module;
    int n_known = count_made(c->made);
    char machine[16];
    Key *known = ctx_array(ctx, Key, n_known + 1);
    for (int i = 0; i < n_known; i++) known[i] = made_at(c->made, i)->key;
    Request r = {.path = m->path,
                 .n_texts = m->n_texts,
                 .texts = m->texts,
                 .n_paths = m->n_paths,
                 .paths = m->paths,
                 .kernel = c->k->info->name,
                 .n_set = m->n_set,
                 .set = m->set,
                 .check = m->check,
                 .debug = m->debug,
                 .threads = tg_context_threads(m->context),
                 .n_args = c->wanted->n,
                 .args = c->wanted->args,
                 .ranks = {c->wanted->ranks.n, c->wanted->ranks.threads, c->wanted->ranks.gpus},
                 .n_known = n_known,
                 .known = known,
                 .info = c->k->info};
    if (!aim_request(ctx, c, &r, machine)) return;
    set_plan(ctx, c, &r);
    if (is_simulated(r.target)) {
        if (compiles_here(&c->answer)) request_compile(ctx, &r, true, &c->answer);
        return;
    }
    Request settled = r;
    const char *config = c->found ? c->found->config : c->wanted->config;
    c->tuned = config ? tune_set(ctx, config, &settled)
                      : jit_settle(ctx, c->k, c->wanted, &settled, &c->times);
    if (c->tuned) cached_compile(ctx, &settled, &c->answer);
    if (c->tuned && !c->answer.status) return;
    if (m->tune == TUNE_STRICT && !config) {
        not_tuned(ctx, c);
        return;
    }
    // A setting found for similar shapes may not compile for this one.
    c->tuned = false;
    cached_compile(ctx, &r, &c->answer);
}

/* ---- answers ------------------------------------------------------------------------------- */

/// Logs each text once a module, since other instances of a kernel would repeat it.
static void log_warnings(tg_module *m, const Answer *a) {
    for (int i = 0; i < a->n_warnings; i++) module_warn(m, a->warnings[i]);
}

/// Sets the failure's text. Messages about the source name their own place.
static tg_status fail_compilation(const ModuleKernel *k, const Answer *a) {
    if (a->status == TG_ERROR_INTERNAL)
        return tg_fail(a->status,
                       "module '%s': compiling '%s': %s\nthis is a mistake in Tegula, not in your "
                       "kernel",
                       k->module->path, k->info->name, a->message);
    if (a->status == TG_ERROR_MEMORY)
        return tg_fail(a->status, "module '%s': compiling '%s': out of memory", k->module->path,
                       k->info->name);
    if (a->status == TG_ERROR_UNSUPPORTED)
        return tg_fail(a->status, "module '%s': compiling '%s': %s", k->module->path, k->info->name,
                       a->message);
    return tg_fail(a->status, "%s", a->message);
}

/// Finds the entry with the code of an answer. It may have been made while this code was compiled.
/// Call it under the lock.
static const Made *find_code(const ModuleKernel *k, const Compilation *c) {
    Key key = c->answer.key;
    if (c->answer.same >= 0) return made_at(c->made, c->answer.same);
    for (const Made *m = k->made; m != c->made; m = m->next)
        if (m->key.n == key.n && memcmp(m->key.bytes, key.bytes, key.n) == 0) return m;
    return NULL;
}

/// Adds the answer to the kernel's list, for the life of the module. The caller releases the code
/// that is left over. Call it under the lock.
static tg_status keep_variant(ModuleKernel *k, const Compilation *c, const tg_variant **out,
                              Code **left_over) {
    const Answer *a = &c->answer;
    Made *m = made_new(a);
    *left_over = a->code;
    if (!m) return tg_fail(TG_ERROR_MEMORY, "module '%s': out of memory", k->module->path);
    const Made *same = find_code(k, c);
    if (same) {
        share_code(m, same);
    } else {
        m->variant.entry = a->code->entry, m->variant.image = a->code->image;
        m->code = a->code;
        *left_over = NULL;
    }
    m->variant.tuned = c->tuned && !c->wanted->config;
    if (m->variant.tuned) m->times = c->times;
    if (m->variant.tuned) m->variant.device = c->wanted->home;
    m->next = k->made;
    k->made = m;
    *out = &m->variant;
    return TG_OK;
}

static tg_status take_compiled_answer(Ctx *ctx, ModuleKernel *k, Compilation *c,
                                      const tg_variant **out) {
    Code *left_over;
    if (plans_are_open(c)) add_mapped_fact(ctx, c);
    tg_lock_take(&k->module->lock);
    log_warnings(k->module, &c->answer);
    tg_status status = keep_variant(k, c, out, &left_over);
    tg_lock_give(&k->module->lock);
    code_release(left_over);
    return status;
}

/// The module's context must be current. found: see Compilation.
static tg_status compile_for_launch(ModuleKernel *k, const tg_wanted *wanted,
                                    const TuneResult *found, const tg_variant **out) {
    Ctx *ctx = ctx_create(&module_allocator);
    if (!ctx) return tg_fail(TG_ERROR_MEMORY, "module '%s': out of memory", k->module->path);
    Compilation c = {
        .k = k, .wanted = wanted, .found = found, .made = all_made(k), .answer = {.same = -1}};
    if (found) c.times = (TunedTimes){found->seconds, found->standard};
    tg_fork_unsafe_begin();
    CtxStatus status = ctx_protect(ctx, ask_compiler, &c);
    tg_fork_unsafe_end();
    if (status == CTX_NO_MEMORY && !c.answer.status) c.answer.status = TG_ERROR_MEMORY;
    tg_status result =
        c.answer.status ? fail_compilation(k, &c.answer) : take_compiled_answer(ctx, k, &c, out);
    ctx_destroy(ctx);
    return result;
}

tg_status jit_compile(ModuleKernel *k, const tg_wanted *wanted, const TuneResult *tuned,
                      const tg_variant **out) {
    tg_context *before = tg_context_use(k->module->context);
    tg_status status = compile_for_launch(k, wanted, tuned, out);
    tg_context_use(before);
    return status;
}

static tg_status compile_for(void *user, const tg_wanted *wanted, const tg_variant **out) {
    return jit_compile(user, wanted, NULL, out);
}

/// Walks the kernel's list, which is short.
static bool times_of(void *user, const tg_variant *variant, double *seconds, double *standard) {
    ModuleKernel *k = user;
    bool found = false;
    tg_lock_take(&k->module->lock);
    for (const Made *m = k->made; m && !found; m = m->next) {
        if (&m->variant != variant) continue;
        *seconds = m->times.seconds;
        *standard = m->times.standard;
        found = *seconds > 0;
    }
    tg_lock_give(&k->module->lock);
    return found;
}

static const char *doc_of(void *user) {
    const ModuleKernel *k = user;
    return k->source->doc ? k->source->doc : "";
}

const tg_compiler jit_compiler = {
    .compile = compile_for, .times = times_of, .infer = jit_infer, .doc = doc_of};
