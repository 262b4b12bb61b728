// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Streams, captures and events of fake_cuda.c, which includes this.
//
// An operation of a stream runs at once or queues after a wait. A stream that waits for a word, or
// for an event of a waiting stream, queues later operations until some later call finds that it may
// continue.
//
// Copies between ranks within a device may be kernels, which get no processor while programs wait.
// Copies of fake_nvshmem.c are kernels too: they run as late as possible, when another operation of
// their stream, another stream or the host waits for them. A capture records the same operations;
// streams that wait for one of its events join it.
#ifndef TESTS_RUNTIME_FAKE_STREAMS_H
#define TESTS_RUNTIME_FAKE_STREAMS_H

/// Whether launches have simulated times; "host": events have the time at which they passed.
static bool has_clock(void) {
    const char *clock = getenv("FAKE_CUDA_CLOCK");
    return clock && strcmp(clock, "host") != 0;
}

static bool has_host_clock(void) {
    const char *clock = getenv("FAKE_CUDA_CLOCK");
    return clock && strcmp(clock, "host") == 0;
}

static double host_milliseconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e3 + (double)now.tv_nsec * 1e-6;
}

typedef struct Op {
    FakeOpKind kind;
    cu_stream stream;
    struct Op *next;
    FakeLaunch launch;
    cu_function f;
    void *args[ARGS];
    cu_rows rows;
    cu_event event;
    unsigned long long number; // of a record
    cu_pointer at;
    uint64_t value, n;
    bool late;
} Op;
struct cu_graph_ {
    int n_objects;
    Op *ops, **last;
    struct cu_object_ objects[OBJECTS];
    cu_stream sides[ARGS]; // streams that joined
    int n_sides, users;    // users: the graph, and its instances
};

/// Whether it is a copy of NVSHMEM's.
static bool is_late(cu_function f) {
    return strncmp(f->name, "nvshmem_", 8) == 0;
}

#ifndef FAKE_HIP
static bool is_within_device(cu_pointer to, cu_pointer from);
#else
static bool is_within_device(cu_pointer to, cu_pointer from) {
    return (void)to, (void)from, false;
}
#endif

static char journals[DEVICES][JOURNAL];
static cu_stream waiting[DEVICES];

/// NULL, CU_STREAM_LEGACY and CU_STREAM_PER_THREAD of the current context are one stream here.
static bool is_default(cu_stream stream) {
    return (uintptr_t)stream <= 2;
}

static cu_stream resolve(const char *call, cu_stream stream) {
    int device = here(call);
    if (is_default(stream)) return &default_streams[device < 0 ? 0 : device];
    if (stream->device != device) wrong("%s: a stream of another device", call);
    return stream;
}

/* Memory of a pool, for whose words no stream waits; places are reused, so only the latest count.
 */
static struct {
    cu_pointer at;
    size_t bytes;
} pooled[64];
static _Atomic unsigned n_pooled;

static void note_pooled(cu_pointer at, size_t bytes) {
    unsigned i = n_pooled++ % 64;
    pooled[i].at = at;
    pooled[i].bytes = bytes;
}

/* Memory of the host that is pinned, under `counting`. */
static struct {
    const char *at; // NULL: a free place
    size_t bytes;
} pins[64];

/// Records pinned memory in place of `old`.
static void note_pinned(const void *old, const void *at, size_t bytes) {
    int i = 0;
    pthread_mutex_lock(&counting);
    while (i < 63 && pins[i].at != old) i++;
    pins[i].at = at;
    pins[i].bytes = bytes;
    pthread_mutex_unlock(&counting);
}

static bool is_pinned(const void *at) {
    bool found = false;
    pthread_mutex_lock(&counting);
    for (int i = 0; i < 64; i++) found |= (uintptr_t)at - (uintptr_t)pins[i].at < pins[i].bytes;
    pthread_mutex_unlock(&counting);
    return found;
}

/* ---- operations ------------------------------------------------------------------------------ */

static void note(const Op *op) {
    char *j = journals[op->stream->device];
    size_t n = strlen(j);
    char *out = j + n;
    size_t room = JOURNAL - n;
    int s = op->stream->number;
    switch (op->kind) {
    case OP_LAUNCH:
        snprintf(out, room, "%d: %s%s\n", s, op->launch.early ? "early " : "", op->f->name);
        break;
    case OP_COPY:
        snprintf(out, room, "%d: copy %zu x %zu\n", s, op->rows.rows, op->rows.bytes);
        break;
    case OP_SET: snprintf(out, room, "%d: set\n", s); break;
    case OP_RECORD: snprintf(out, room, "%d: record\n", s); break;
    case OP_WAIT: snprintf(out, room, "%d: wait for %d\n", s, op->event->by->number); break;
    case OP_WAIT_VALUE: snprintf(out, room, "%d: wait for a word\n", s); break;
    }
}

const char *fake_journal(int device) {
    static _Thread_local char last[JOURNAL];
    memcpy(last, journals[device], JOURNAL);
    journals[device][0] = 0;
    return last;
}

static bool may_run(const Op *op) {
    if (op->late) return op->stream->pressed;
    if (op->kind == OP_WAIT) return op->event->reached >= op->number;
    if (op->kind == OP_WAIT_VALUE)
        return __atomic_load_n((int64_t *)(uintptr_t)op->at, __ATOMIC_ACQUIRE) >=
               (int64_t)op->value;
    return true;
}

/// Other ranks may read words of 8 bytes meanwhile.
static void copy_rows(const cu_rows *r) {
    const char *from = (const char *)(uintptr_t)r->from.at;
    char *to = (char *)(uintptr_t)r->to.at;
    if (r->bytes == 8 && r->rows == 1) {
        int64_t word = __atomic_load_n((const int64_t *)(const void *)from, __ATOMIC_ACQUIRE);
        __atomic_store_n((int64_t *)(void *)to, word, __ATOMIC_RELEASE);
        return;
    }
    for (size_t i = 0; i < r->rows; i++)
        memcpy(to + i * r->to.pitch, from + i * r->from.pitch, r->bytes);
}

static cu_result execute(Op *op) {
    switch (op->kind) {
    case OP_LAUNCH:
        if (!op->f->kernel) return run_code(op->f, &op->launch, op->args);
        op->f->kernel->run(&op->launch, op->args);
        return 0;
    case OP_COPY: copy_rows(&op->rows); return 0;
    case OP_SET:
        if (has_clock() && op->n > CACHE_WORDS)
            return emptied = true, 0; // large: the caches are emptied
        for (uint64_t i = 0; i < op->n; i++)
            ((unsigned *)(uintptr_t)op->at)[i] = (unsigned)op->value;
        return 0;
    case OP_RECORD:
        if (has_host_clock()) op->event->at = host_milliseconds();
        op->event->reached = op->number;
        return 0;
    case OP_WAIT:
    case OP_WAIT_VALUE: return 0;
    }
    return 1;
}

/// Recorded operations have their own copies of the arguments.
static void drop(Op *op) {
    for (int i = 0; i < ARGS; i++) free(op->args[i]);
    free(op);
}

static Op *keep(const Op *op) {
    Op *kept = malloc(sizeof *kept);
    *kept = *op;
    kept->next = NULL;
    memset(kept->args, 0, sizeof kept->args);
    for (int i = 0; op->kind == OP_LAUNCH && op->f->kernel && i < op->f->kernel->n; i++) {
        kept->args[i] = malloc(op->f->kernel->sizes[i]);
        memcpy(kept->args[i], op->args[i], op->f->kernel->sizes[i]);
    }
    return kept;
}

/// Continues all streams of the device that can.
static void go_on(int device) {
    for (bool moved = true; moved;) {
        moved = false;
        for (cu_stream *p = &waiting[device], s; (s = *p) != NULL;) {
            while (s->waiting && may_run(s->waiting)) {
                Op *op = s->waiting;
                s->waiting = op->next;
                execute(op);
                drop(op);
                moved = true;
            }
            if (s->waiting) {
                p = &s->next_waiting;
                continue;
            }
            s->pressed = false;
            *p = s->next_waiting;
        }
    }
}

/// The host waits for the device.
static void finish(int device) {
    for (cu_stream s = waiting[device]; s; s = s->next_waiting) s->pressed = true;
    go_on(device);
}

/// Operations that must precede this one are not delayed.
static void press(const Op *op) {
    cu_stream first = op->kind == OP_WAIT ? op->event->by : op->stream;
    if (op->kind != OP_COPY && op->kind != OP_RECORD && !op->late && first->waiting)
        first->pressed = true;
}

static void enqueue(cu_stream s, const Op *op) {
    if (!s->waiting) {
        s->last = &s->waiting;
        s->next_waiting = waiting[s->device];
        waiting[s->device] = s;
    }
    *s->last = keep(op);
    s->last = &(*s->last)->next;
}

static cu_result submit(const Op *given) {
    Op op = *given;
    cu_stream s = op.stream;
    s->behind_kernel = op.kind == OP_LAUNCH;
    if (s->graph) {
        *s->graph->last = keep(&op);
        s->graph->last = &(*s->graph->last)->next;
        if (s->forked) s->forked = 2;
        return 0;
    }
    note(&op);
    if (op.kind == OP_RECORD) op.number = ++op.event->recorded;
    if (op.kind == OP_WAIT) op.number = op.event->recorded;
    op.late = op.kind == OP_COPY ? is_within_device(op.rows.to.at, op.rows.from.at)
                                 : op.kind == OP_LAUNCH && is_late(op.f);
    press(&op);
    go_on(s->device);
    if (s->waiting || !may_run(&op)) {
        enqueue(s, &op);
        return 0;
    }
    cu_result error = execute(&op);
    go_on(s->device);
    return error;
}

/* ---- launches, copies ------------------------------------------------------------------------ */

static void pass_time(const FakeLaunch *launch) {
    const char *late = getenv("FAKE_CUDA_WARM");
    double times = !emptied && late && launch->grid == strtoul(late, NULL, 10) ? 3 : 1;
    last_seconds = times * launch_seconds(&devices[launch->device], launch);
    if (has_clock()) device_clock += 1e3 * last_seconds;
    emptied = false;
}

/// A kernel that begins early must follow a kernel, and must wait for its end.
static void check_early(cu_function f, cu_stream s) {
    if (devices[f->device].capability < 90) wrong("'%s' begins early on an old device", f->name);
    if (!s->behind_kernel) wrong("'%s' begins early behind what is no kernel", f->name);
    if (!f->module->waits) wrong("'%s' begins early and does not wait", f->name);
}

/// As in CUDA's driver, a stream belongs to a context, and the default stream to the current one.
static cu_result check_stream(cu_function f, cu_stream stream) {
#ifndef FAKE_HIP
    if (is_default(stream) && !depth) return 201;
    int device = is_default(stream) ? stack[depth - 1]->device : stream->device;
    return device == f->device ? 0 : 400;
#else
    if (resolve("a launch", stream)->device != f->device)
        wrong("a function of another device is launched");
    return 0;
#endif
}

static cu_result run(cu_function f, FakeLaunch launch, cu_stream stream, void **args) {
    int most = f->shared_bytes ? f->shared_bytes : CU_DEFAULT_SHARED;
    launch.name = f->name;
    launch.device = f->device;
    launch.stream = stream;
    if (!launch.grid || !launch.block || launch.block > 1024) return 1;
    if ((uint64_t)launch.grid * launch.block > MOST_THREADS) return 1;
    if (launch.shared_bytes > (unsigned)most) return 1;
    if (launch.cluster == 0 || launch.grid % launch.cluster) return 912;
    if (launch.cluster > CU_PORTABLE_CLUSTER && !f->large_clusters) return 912;
    cu_result error = check_stream(f, stream);
    if (error) return error;
    if (is_default(stream)) stream = &default_streams[f->device];
    Op op = {.kind = OP_LAUNCH, .stream = stream, .launch = launch, .f = f};
    if (launch.early) check_early(f, op.stream);
    op.stream->behind_kernel = true;
    if (!f->kernel && op.stream->graph) return 0;
    pass_time(&launch);
    if (!f->kernel) return run_code(f, &launch, args);
    for (int i = 0; i < f->kernel->n; i++) op.args[i] = args[i];
    return submit(&op);
}

cu_result cuLaunchKernel(cu_function f, unsigned x, unsigned y, unsigned z, unsigned bx,
                         unsigned by, unsigned bz, unsigned shared, cu_stream stream, void **args,
                         void **extra) {
    CALLED();
    if (y != 1 || z != 1 || by != 1 || bz != 1 || extra) wrong("cuLaunchKernel: other dimensions");
    return run(f, (FakeLaunch){.grid = x, .block = bx, .shared_bytes = shared, .cluster = 1},
               stream, args);
}

#ifndef FAKE_HIP
cu_result cuLaunchKernelEx(const cu_launch *how, cu_function f, void **args, void **extra) {
    CALLED();
    FakeLaunch launch = {.grid = how->grid[0],
                         .block = how->block[0],
                         .shared_bytes = how->shared_bytes,
                         .cluster = 1};
    if (extra || how->grid[1] != 1 || how->grid[2] != 1) wrong("cuLaunchKernelEx: dimensions");
    for (unsigned i = 0; i < how->n_attributes; i++) {
        const cu_attribute *a = &how->attributes[i];
        switch (a->id) {
        case CU_ATTRIBUTE_CLUSTER: launch.cluster = a->value.cluster[0]; break;
        case CU_ATTRIBUTE_EARLY:
            if (getenv("FAKE_CUDA_PLAIN")) return 1;
            launch.early = a->value.early;
            break;
        default: wrong("cuLaunchKernelEx: attribute");
        }
    }
    return run(f, launch, how->stream, args);
}
#endif

cu_result cuMemcpyHtoDAsync_v2(cu_pointer to, const void *from, size_t bytes, cu_stream stream) {
    CALLED();
    resolve(__func__, stream)->behind_kernel = false;
    if (!to || !from) return 1;
    memcpy((void *)(uintptr_t)to, from, bytes);
    return 0;
}

cu_result cuMemcpyDtoHAsync_v2(void *to, cu_pointer from, size_t bytes, cu_stream stream) {
    CALLED();
    resolve(__func__, stream)->behind_kernel = false;
    if (!to || !from) return 1;
    if (!is_pinned(to)) tell("a wait for a copy to memory that is not pinned");
    memcpy(to, (void *)(uintptr_t)from, bytes);
    return 0;
}

cu_result cuMemcpyDtoDAsync_v2(cu_pointer to, cu_pointer from, size_t bytes, cu_stream stream) {
    CALLED();
    if (!to || !from) return 1;
    return submit(
        &(Op){.kind = OP_COPY,
              .stream = resolve(__func__, stream),
              .rows = {.from = {.at = from}, .to = {.at = to}, .bytes = bytes, .rows = 1}});
}

cu_result cuMemsetD32Async(cu_pointer at, unsigned value, size_t n, cu_stream stream) {
    CALLED();
    if (!at || at % 4) return 1;
    return submit(&(Op){
        .kind = OP_SET, .stream = resolve(__func__, stream), .at = at, .value = value, .n = n});
}

#ifndef FAKE_HIP
cu_result cuMemcpy2DAsync_v2(const cu_rows *rows, cu_stream stream) {
    CALLED();
    if (rows->from.type != CU_DEVICE_MEMORY || rows->to.type != CU_DEVICE_MEMORY || rows->from.x ||
        rows->from.y || rows->to.x || rows->to.y)
        wrong("cuMemcpy2DAsync: not rows of device memory");
    if (rows->from.pitch < rows->bytes || rows->to.pitch < rows->bytes) return 1;
    return submit(&(Op){.kind = OP_COPY, .stream = resolve(__func__, stream), .rows = *rows});
}
#endif

static _Atomic int sticks;

/* ---- streams --------------------------------------------------------------------------------- */

cu_result cuStreamCreate(cu_stream *stream, unsigned flags) {
    static _Atomic unsigned long long ids = 100;
    static _Atomic int numbers[DEVICES];
    CALLED();
    int device = here(__func__);
    if (flags & ~(unsigned)CU_NON_BLOCKING) return 1;
    *stream = calloc(1, sizeof **stream);
    **stream = (struct cu_stream_){.device = device, .id = ids++, .number = ++numbers[device]};
    return 0;
}

cu_result cuStreamDestroy_v2(cu_stream stream) {
    CALLED();
    if (!stream) return 400;
    if (stream->waiting) wrong("a stream is destroyed that waits");
    free(stream);
    return 0;
}

void fake_stick(int stuck) {
    atomic_store(&sticks, stuck);
}

static void must_end(const char *function) {
    if (atomic_load(&sticks)) wrong("%s: for what does not end", function);
}

cu_result cuStreamQuery(cu_stream stream) {
    CALLED();
    cu_stream s = resolve(__func__, stream);
    finish(s->device);
    return s->waiting || atomic_load(&sticks) ? CU_NOT_READY : 0;
}

cu_result cuStreamSynchronize(cu_stream stream) {
    CALLED();
    must_end(__func__);
    cu_stream s = resolve(__func__, stream);
    finish(s->device);
    if (s->waiting) wrong("a stream waits for what never comes");
    return s->graph ? NOT_PERMITTED : 0;
}

cu_result cuStreamGetId(cu_stream stream, unsigned long long *id) {
    CALLED();
    cu_stream s = resolve(__func__, stream);
    if (s->graph) { // drivers since 580
        wrong("cuStreamGetId: the stream is being captured, which this ends");
        return NOT_PERMITTED;
    }
    *id = s->id;
    return 0;
}

void *fake_stream(int device) {
    static cu_stream made;
    cu_stream s;
    stack[depth++] = &contexts[device];
    cuStreamCreate(&s, 0);
    depth--;
    s->next = made;
    return made = s;
}

#ifndef FAKE_HIP
cu_result cuCtxGetStreamPriorityRange(int *least, int *most) {
    CALLED();
    here(__func__);
    *least = 0;
    *most = -5;
    return 0;
}

cu_result cuStreamCreateWithPriority(cu_stream *stream, unsigned flags, int priority) {
    CALLED();
    if (flags != CU_NON_BLOCKING) wrong("a stream that the default one waits for");
    if (priority > 0 || priority < -5) wrong("a stream's priority is %d", priority);
    return cuStreamCreate(stream, flags);
}

static bool is_pooled(cu_pointer at) {
    for (int i = 0; i < 64; i++)
        if (at >= pooled[i].at && at < pooled[i].at + pooled[i].bytes) return true;
    return false;
}

cu_result cuStreamWaitValue64_v2(cu_stream stream, cu_pointer at, uint64_t value, unsigned flags) {
    CALLED();
    if (flags != CU_WAIT_AT_LEAST || at % 8) wrong("cuStreamWaitValue64: %u", flags);
    if (is_pooled(at)) return 1;
    return submit(&(Op){
        .kind = OP_WAIT_VALUE, .stream = resolve(__func__, stream), .at = at, .value = value});
}
#endif

/* ---- captures -------------------------------------------------------------------------------- */

void fake_capture(void *stream) {
    static _Atomic unsigned long long ids = 1;
    cu_stream s = stream;
    s->graph = calloc(1, sizeof *s->graph);
    s->graph->users = 1;
    s->graph->last = &s->graph->ops;
    s->capture = ids++;
    capturing++;
}

void *fake_capture_end(void *stream) {
    cu_stream s = stream;
    struct cu_graph_ *g = s->graph;
    s->graph = NULL;
    s->capture = 0;
    for (int i = 0; i < g->n_sides; i++) {
        if (g->sides[i]->forked == 2) wrong("a capture ends with a stream that is not joined");
        g->sides[i]->forked = 0;
        g->sides[i]->graph = NULL;
        g->sides[i]->capture = 0;
    }
    capturing--;
    return g;
}

void fake_replay(void *graph) {
    struct cu_graph_ *g = graph;
    for (const Op *op = g->ops; op; op = op->next) submit(op);
}

void fake_drop(void *graph) {
    struct cu_graph_ *g = graph;
    if (--g->users) return;
    for (Op *op = g->ops, *next; op; op = next) {
        next = op->next;
        drop(op);
    }
    for (int i = 0; i < g->n_objects; i++) g->objects[i].destroy(g->objects[i].data);
    free(g);
}

int fake_graph_op(void *graph, int i, FakeOp *out) {
    const Op *op = ((struct cu_graph_ *)graph)->ops;
    while (op && i--) op = op->next;
    if (!op) return 0;
    *out = (FakeOp){.kind = op->kind,
                    .stream = op->stream->number,
                    .name = op->kind == OP_LAUNCH ? op->f->name : NULL,
                    .early = op->launch.early,
                    .args = op->args,
                    .event = op->event,
                    .to = op->rows.to.at,
                    .from = op->rows.from.at,
                    .rows = op->rows.rows,
                    .bytes = op->rows.bytes,
                    .at = op->at,
                    .value = op->value};
    return 1;
}

#ifndef FAKE_HIP
/* The calls of programs, by the same means. */
cu_result cuStreamBeginCapture_v2(cu_stream stream, int mode);
cu_result cuStreamEndCapture(cu_stream stream, cu_graph *graph);
cu_result cuGraphInstantiateWithFlags(cu_graph *ready, cu_graph graph, unsigned long long flags);
cu_result cuGraphLaunch(cu_graph ready, cu_stream stream);
cu_result cuGraphExecDestroy(cu_graph ready);
cu_result cuGraphDestroy(cu_graph graph);

cu_result cuStreamBeginCapture_v2(cu_stream stream, int mode) {
    CALLED();
    cu_stream s = resolve(__func__, stream);
    if (mode < 0 || mode > 2) return 1;
    if (s->graph) return 901;
    fake_capture(s);
    return 0;
}

cu_result cuStreamEndCapture(cu_stream stream, cu_graph *graph) {
    CALLED();
    cu_stream s = resolve(__func__, stream);
    if (!s->graph) return 901;
    *graph = fake_capture_end(s);
    return 0;
}

cu_result cuGraphInstantiateWithFlags(cu_graph *ready, cu_graph graph, unsigned long long flags) {
    CALLED();
    if (flags) return 1;
    graph->users++;
    *ready = graph;
    return 0;
}

cu_result cuGraphLaunch(cu_graph ready, cu_stream stream) {
    CALLED();
    resolve(__func__, stream);
    fake_replay(ready);
    return 0;
}

cu_result cuGraphExecDestroy(cu_graph ready) {
    CALLED();
    fake_drop(ready);
    return 0;
}

cu_result cuGraphDestroy(cu_graph graph) {
    CALLED();
    fake_drop(graph);
    return 0;
}
#endif

cu_result cuStreamGetCaptureInfo_v2(cu_stream stream, int *state, unsigned long long *id,
                                    cu_graph *graph, const void **nodes, size_t *n) {
    CALLED();
    cu_stream s = resolve(__func__, stream);
    if (nodes || n) wrong("cuStreamGetCaptureInfo: more is asked for");
    *state = s->graph ? 1 : 0;
    *id = s->capture;
    *graph = s->graph;
    return 0;
}

cu_result cuThreadExchangeStreamCaptureMode(int *mode) {
    CALLED();
    int before = relaxed ? CU_CAPTURE_RELAXED : 0;
    relaxed = *mode == CU_CAPTURE_RELAXED;
    *mode = before;
    return 0;
}

cu_result cuUserObjectCreate(cu_object *object, void *data, void (*destroy)(void *), unsigned n,
                             unsigned flags) {
    static _Thread_local struct cu_object_ last;
    CALLED();
    if (n != 1 || flags != CU_NO_DESTRUCTOR_SYNC) wrong("cuUserObjectCreate");
    last = (struct cu_object_){destroy, data};
    *object = &last;
    return 0;
}

cu_result cuGraphRetainUserObject(cu_graph graph, cu_object object, unsigned n, unsigned flags) {
    CALLED();
    if (n != 1 || flags != CU_MOVE) wrong("cuGraphRetainUserObject");
    graph->objects[graph->n_objects++] = *object;
    return 0;
}

/* ---- events ---------------------------------------------------------------------------------- */

cu_result cuEventCreate(cu_event *event, unsigned flags) {
    CALLED();
    if (flags & ~(unsigned)CU_NO_TIMING) return 1;
    *event = calloc(1, sizeof **event);
    (*event)->timed = !flags;
    return 0;
}

cu_result cuEventDestroy_v2(cu_event event) {
    CALLED();
    if (!event) return 400;
    free(event);
    return 0;
}

cu_result cuEventRecord(cu_event event, cu_stream stream) {
    CALLED();
    cu_stream s = resolve(__func__, stream);
    event->at = device_clock += has_clock() ? 1e-3 : 0.25;
    event->by = s;
    event->graph = s->graph;
    cu_result error = submit(&(Op){.kind = OP_RECORD, .stream = s, .event = event});
    if (s->forked) s->forked = 1;
    return error;
}

#ifndef FAKE_HIP
/// A stream that waits for an event of a capture joins it. If the event's stream had joined, this
/// joins it again.
cu_result cuStreamWaitEvent(cu_stream stream, cu_event event, unsigned flags) {
    CALLED();
    cu_stream s = resolve(__func__, stream);
    if (flags || !event->by) wrong("cuStreamWaitEvent");
    if (s->graph && s->graph != event->graph) return 905;
    if (event->graph && event->graph != event->by->graph) return 905;
    if (event->graph && !s->graph) {
        s->graph = event->graph;
        s->capture = event->by->capture;
        s->forked = 1;
        s->graph->sides[s->graph->n_sides++] = s;
    }
    cu_result error = submit(&(Op){.kind = OP_WAIT, .stream = s, .event = event});
    if (s->forked) s->forked = 2;
    return error;
}
#endif

cu_result cuEventSynchronize(cu_event event) {
    CALLED();
    must_end(__func__);
    if (!event) return 400;
    if (!event->by)
        wrong("an event is waited for that was not recorded");
    else
        finish(event->by->device);
    return 0;
}

cu_result cuEventElapsedTime(float *milliseconds, cu_event from, cu_event to) {
    CALLED();
    if (!from || !to || !from->timed || !to->timed) return 400;
    if (!from->by || !to->by) return 400; // not recorded
    *milliseconds = (float)(to->at - from->at);
    return 0;
}

#endif
