// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Launchers: the services that compiled code calls, and its memory.
//
// A launcher serves one launch at a time. A counter hands out tasks one by one, which balances
// uneven tasks. Each worker has its own copy of the environment, so `fail` and `arena` find their
// worker without thread-local storage. Worker 0 is the host side of the kernel. Workers 1 .. n run
// tasks. The caller's thread acts as worker 0 and worker 1, which have separate arenas. Arenas and
// workspaces keep their size between launches, so a warm launch allocates nothing.
#include "runtime/comm/comm.h"
#include "runtime/runtime.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/// The head of a workspace. Its memory starts RT_ALIGNMENT bytes after the head.
struct rt_block {
    rt_block *next;
    size_t bytes; // of all blocks
};

/* ---- calls of compiled code ---------------------------------------------------------------- */

/// The text is formatted at once, since the values live on the stack of the failing code.
static int32_t env_fail(const tg_env *env, const tg_site *site, const uint64_t *values) {
    rt_worker *w = env->user;
    w->failure.site = site;
    if (!site) {
        if (!w->told) strcpy(w->failure.text, "out of memory");
        w->told = false;
        return TG_RUN_NO_MEMORY;
    }
    tg_site_text(w->failure.text, sizeof w->failure.text, site, values);
    return TG_RUN_FAILED;
}

/// Calls the print hook for one thread at a time.
static void env_print(const tg_env *env, const tg_site *site, const uint64_t *values) {
    rt_launcher *l = ((rt_worker *)env->user)->launcher;
    char text[TG_TEXT_SIZE];
    if (!l->print) return;
    tg_site_text(text, sizeof text, site, values);
    tg_lock_take(&l->context->printing);
    l->print(l->print_user, text);
    tg_lock_give(&l->context->printing);
}

/// Fills new memory with the context's pattern if there is one, so that no data of earlier launches
/// shows.
static void fill_workspace(const tg_context *c, void *memory, int64_t bytes) {
    if (c->fill && memory) memset(memory, 0xff, (size_t)bytes);
}

/// Grows an arena and drops its contents. Sizes are whole cache lines, so that two threads share
/// none.
static void *grown_arena(rt_worker *w, int64_t bytes) {
    if (w->arena && w->arena_bytes >= bytes) return w->arena;
    const tg_options *hooks = &w->launcher->context->hooks;
    rt_release(hooks, w->arena, (size_t)w->arena_bytes);
    w->arena = NULL;
    w->arena_bytes = 0;
    if (bytes < 0 || bytes > INT64_MAX - RT_ALIGNMENT) return NULL;
    int64_t room = (bytes + RT_ALIGNMENT - 1) / RT_ALIGNMENT * RT_ALIGNMENT;
    w->arena = rt_allocate(hooks, (size_t)(room ? room : RT_ALIGNMENT));
    w->arena_bytes = w->arena ? (room ? room : RT_ALIGNMENT) : 0;
    return w->arena;
}

static void *env_arena(const tg_env *env, int64_t bytes) {
    rt_worker *w = env->user;
    void *arena = grown_arena(w, bytes);
    fill_workspace(w->launcher->context, arena, w->arena_bytes);
    return arena;
}

static int64_t env_workspace_limit(const tg_env *env) {
    const rt_worker *w = env->user;
    return tg_context_workspace_limit(w->launcher->context);
}

/// The n-th call of a launch gets the n-th block, which grows on demand. Only the host side of a
/// kernel calls this.
static void *env_workspace(const tg_env *env, int64_t bytes) {
    rt_launcher *l = ((rt_worker *)env->user)->launcher;
    const tg_options *hooks = &l->context->hooks;
    if (l->gpu.device) return rt_gpu_workspace(l, bytes);
    if (bytes < 0 || bytes > INT64_MAX - 2 * RT_ALIGNMENT) return NULL;
    size_t room = ((size_t)bytes + 2 * RT_ALIGNMENT - 1) / RT_ALIGNMENT * RT_ALIGNMENT;
    rt_block *b = *l->next_block;
    if (!b || b->bytes < room) {
        rt_block *grown = rt_allocate(hooks, room);
        if (!grown) return NULL;
        *grown = (rt_block){b ? b->next : NULL, room};
        if (b) rt_release(hooks, b, b->bytes);
        *l->next_block = b = grown;
    }
    l->next_block = &b->next;
    fill_workspace(l->context, (char *)b + RT_ALIGNMENT, bytes);
    const tg_image *image = l->gpu.image;
    if (image && image->fresh) image->fresh(image, env, (char *)b + RT_ALIGNMENT, bytes);
    return (char *)b + RT_ALIGNMENT;
}

static uint32_t *env_counter(const tg_env *env) {
    rt_launcher *l = ((rt_worker *)env->user)->launcher;
    return l->gpu.device ? rt_gpu_counter(l) : &l->counter;
}

/* ---- tasks --------------------------------------------------------------------------------- */

typedef struct TaskPhase {
    rt_launcher *launcher;
    int64_t n;
    tg_task *task;
    void *context;
    _Atomic int64_t next;
    _Atomic int64_t failed; // the lowest number of a failed task, or n
    int32_t status;         // of this task
    int number;             // of the phase, in a record
    tg_failure *failure;    // receives its message
} TaskPhase;

/// Keeps the failure of the lowest task with its message. Each worker has only one message.
static void keep_least_failure(TaskPhase *p, int64_t task, int32_t status,
                               const tg_failure *failure) {
    pthread_mutex_lock(&p->launcher->failing);
    if (task < atomic_load(&p->failed)) {
        atomic_store(&p->failed, task);
        p->status = status;
        *p->failure = *failure;
    }
    pthread_mutex_unlock(&p->launcher->failing);
}

static inline int32_t run_task(rt_worker *w, tg_task *task, void *context, int64_t number,
                               int phase) {
    if (w->launcher->comm) return rt_comm_task(&w->env, task, context, number, w->arena);
    if (w->record) return rt_record_task(w, task, context, number, phase);
    return task(&w->env, context, number, w->arena);
}

/// Takes tasks in ascending order, until none is left or the next one is above a failed task. So
/// the failure that is reported is that of the lowest failing task.
static void run_phase_tasks(void *job, int index) {
    TaskPhase *p = job;
    rt_worker *w = &p->launcher->workers[index + 1];
    for (;;) {
        int64_t task = atomic_fetch_add_explicit(&p->next, 1, memory_order_relaxed);
        if (task >= atomic_load_explicit(&p->failed, memory_order_relaxed)) break;
        int32_t status = run_task(w, p->task, p->context, task, p->number);
        if (status) keep_least_failure(p, task, status, &w->failure);
    }
}

static void hooked_work(void *job, size_t index) {
    run_phase_tasks(job, (int)index);
}

static void run_task_phase(TaskPhase *p, int workers) {
    tg_context *c = p->launcher->context;
    if (workers > 1 && c->hooks.parallel)
        c->hooks.parallel(c->hooks.user, (size_t)workers, hooked_work, p);
    else if (workers == 1 || !rt_pool_run(c->pool, workers, run_phase_tasks, p))
        run_phase_tasks(p, 0);
}

/// Runs a phase of one task as a direct call.
static int32_t run_one(rt_launcher *l, tg_task *task, void *context, int phase) {
    rt_worker *w = &l->workers[1];
    int32_t status = run_task(w, task, context, 0, phase);
    if (status) l->workers[0].failure = w->failure;
    return status;
}

static int32_t run_tasks(rt_launcher *l, int64_t n, int workers, tg_task *task, void *context,
                         int phase) {
    TaskPhase p = {.launcher = l,
                   .n = n,
                   .task = task,
                   .context = context,
                   .failure = &l->workers[0].failure,
                   .number = phase};
    atomic_init(&p.next, 0);
    atomic_init(&p.failed, n);
    run_task_phase(&p, workers);
    return p.status;
}

static int32_t env_parallel_for(const tg_env *env, int64_t n, int64_t arena_bytes, tg_task *task,
                                void *context) {
    rt_launcher *l = ((rt_worker *)env->user)->launcher;
    if (n <= 0) return TG_RUN_OK;
    int workers = n < l->context->active ? (int)n : l->context->active;
    for (int i = 1; i <= workers; i++)
        if (!env_arena(&l->workers[i].env, arena_bytes)) return env_fail(env, NULL, NULL);
    int phase = l->record ? rt_record_phase(l, n) : 0;
    int32_t status =
        n == 1 ? run_one(l, task, context, phase) : run_tasks(l, n, workers, task, context, phase);
    if (l->record) rt_record_phase_end(l, phase);
    return status;
}

/* ---- launchers ----------------------------------------------------------------------------- */

static size_t launcher_bytes(const tg_context *context) {
    return sizeof(rt_launcher) + sizeof(rt_worker) * (size_t)(context->threads + 1);
}

/// Makes one allocation; the workers follow the launcher.
rt_launcher *rt_launcher_create(tg_context *context) {
    rt_launcher *l = rt_allocate(&context->hooks, launcher_bytes(context));
    if (!l) return NULL;
    memset(l, 0, launcher_bytes(context));
    l->context = context;
    l->print = context->hooks.print;
    l->print_user = context->hooks.user;
    pthread_mutex_init(&l->failing, NULL);
    for (int i = 0; i <= context->threads; i++) {
        rt_worker *w = &l->workers[i];
        w->launcher = l;
        w->env = (tg_env){.parallel_for = env_parallel_for,
                          .workspace = env_workspace,
                          .arena = env_arena,
                          .fail = env_fail,
                          .print = env_print,
                          .user = w,
                          .dispatch = rt_env_dispatch,
                          .tensormap = rt_env_tensormap,
                          .counter = env_counter,
                          .workspace_limit = env_workspace_limit,
                          .mark = rt_record_mark};
    }
    return l;
}

void rt_launcher_destroy(rt_launcher *l) {
    if (!l) return;
    tg_context *c = l->context;
    for (int i = 0; i <= c->threads; i++)
        rt_release(&c->hooks, l->workers[i].arena, (size_t)l->workers[i].arena_bytes);
    rt_memo_forget(l);
    while (l->blocks) {
        rt_block *b = l->blocks;
        l->blocks = b->next;
        rt_release(&c->hooks, b, b->bytes);
    }
    pthread_mutex_destroy(&l->failing);
    free(l->gpu.called_faults);
    rt_release(&c->hooks, l, launcher_bytes(c));
}

static int run_image(rt_launcher *l, tg_entry *entry, const tg_slot *args, tg_image *image,
                     int device, rt_loaded *at, void *stream) {
    rt_entered entered;
    int status = TG_RUN_DEVICE;
    l->gpu.status = rt_gpu_begin(l, image, device, at, stream, &entered);
    if (!l->gpu.status) status = entry(args, &l->workers[0].env);
    if (!status && l->gpu.faults) status = rt_gpu_faults(l);
    if (status && l->gpu.space) rt_workspace_doubt_counter(l->gpu.space);
    rt_gpu_end(l, entered);
    return status;
}

int rt_launcher_run(rt_launcher *l, tg_entry *entry, const tg_slot *args, tg_image *image,
                    int device, rt_loaded *at, void *stream) {
    l->next_block = &l->blocks;
    l->counter = 0;
    if (image) return run_image(l, entry, args, image, device, at, stream);
    return entry(args, &l->workers[0].env);
}

/* ---- hosts: contexts for callers that bind arguments themselves ---------------------------- */

struct tg_host {
    tg_context *context;
    tg_record *record; // of launches of one device, or NULL
};

tg_host *tg_host_create(int threads) {
    tg_host *h = calloc(1, sizeof *h);
    tg_options options = {.size = sizeof options, .threads = threads};
    if (!h) tg_fail(TG_ERROR_MEMORY, "out of memory");
    if (h && tg_context_create(&options, &h->context) == TG_OK) return h;
    free(h);
    return NULL;
}

void tg_host_destroy(tg_host *h) {
    if (h) tg_context_destroy(h->context);
    free(h);
}

int tg_host_threads(const tg_host *h) {
    return tg_context_threads(h->context);
}

static tg_failure last_failure(void) {
    tg_failure failure = {.site = NULL};
    snprintf(failure.text, sizeof failure.text, "%s", tg_last_error());
    return failure;
}

/// Moves the failure of a run out of the launcher.
static void take_failure(rt_launcher *l, tg_failure *failure) {
    *failure = l->gpu.status ? last_failure() : l->workers[0].failure;
    l->gpu.status = TG_OK;
}

/// Claims a launcher that prints so. NULL after a failure.
static rt_launcher *claim_launcher(tg_host *h, tg_print *print, void *user, tg_failure *failure) {
    rt_launcher *l = rt_claim(h->context);
    if (!l) {
        *failure = (tg_failure){.text = "out of memory"};
        return NULL;
    }
    l->print = print;
    l->print_user = user;
    return l;
}

int tg_host_run_on(tg_host *h, tg_entry *entry, const tg_slot *args, tg_image *image, int device,
                   void *stream, tg_print *print, void *user, tg_failure *failure) {
    rt_launcher *l = claim_launcher(h, print, user, failure);
    if (!l) return TG_RUN_NO_MEMORY;
    rt_record_begin(l, h->record);
    int status = rt_launcher_run(l, entry, args, image, device, &(rt_loaded){0}, stream);
    rt_record_end(l);
    if (status) take_failure(l, failure);
    rt_give_back(l);
    return status;
}

void tg_host_record(tg_host *h, tg_record *record) {
    h->record = record;
}

int tg_host_run(tg_host *h, tg_entry *entry, const tg_slot *args, tg_print *print, void *user,
                tg_failure *failure) {
    return tg_host_run_on(h, entry, args, NULL, -1, NULL, print, user, failure);
}

/* ---- several ranks ------------------------------------------------------------------------- */

void tg_host_join(tg_host *h, tg_comm *comm) {
    (void)tg_context_set_comm(h->context, comm);
}

static int run_entered(rt_launcher *l, const tg_kernel_info *info, const char *config,
                       tg_entry *entry, const tg_slot *args, tg_image *image, int device,
                       void *stream, tg_failure *failure) {
    rt_comm_announce(l, info, config);
    int status = rt_launcher_run(l, entry, args, image, device, &(rt_loaded){0}, stream);
    if (!status) return TG_RUN_OK;
    take_failure(l, failure);
    tg_fail(TG_ERROR_CONTRACT, "%s", failure->text); // reported to the other ranks
    return status;
}

int tg_host_run_ranks(tg_host *h, const tg_kernel_info *info, const char *config, tg_entry *entry,
                      const tg_slot *args, const int64_t *scalars, tg_image *image, int device,
                      void *stream, tg_print *print, void *user, tg_failure *failure) {
    rt_launcher *l = claim_launcher(h, print, user, failure);
    if (!l) return TG_RUN_NO_MEMORY;
    int status = TG_RUN_FAILED;
    tg_status entered = rt_comm_enter(l, info->name);
    if (entered) *failure = last_failure();
    for (int i = 0; !entered && i < info->n_params; i++)
        if (info->params[i].flags & TG_PARAM_STEERS)
            rt_comm_steer(l->comm, &info->params[i], scalars[i]);
    if (!entered)
        status = run_entered(l, info, config, entry, args, image, device, stream, failure);
    if (!entered) rt_comm_leave(l, status ? TG_ERROR_CONTRACT : TG_OK);
    rt_give_back(l);
    return status;
}
