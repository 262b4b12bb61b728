// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Runs compiled kernels on this machine, without binding: threads, their memory, failures, printed
// text.
#ifndef RUNTIME_HOST_H
#define RUNTIME_HOST_H

#include "runtime/abi.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

/// A context for callers that bind the arguments of compiled code themselves. Any number of threads
/// may run kernels on it at once.
typedef struct tg_host tg_host;

/// threads 0: one for each core that the process may use. NULL: out of memory.
tg_host *tg_host_create(int threads);
void tg_host_destroy(tg_host *host);
int tg_host_threads(const tg_host *host);

/// DEVICE: a GPU or its driver failed; the failure's text has the reason.
enum tg_run_status { TG_RUN_OK, TG_RUN_FAILED, TG_RUN_NO_MEMORY, TG_RUN_DEVICE };

enum { TG_TEXT_SIZE = 1024 };

/// The failure of a run. If several tasks fail, the one with the lowest number counts, so the
/// message does not depend on the threads.
typedef struct tg_failure {
    const tg_site *site; // in compiled code; NULL: out of memory
    char text[TG_TEXT_SIZE];
} tg_failure;

/// Receives the text that kernels print, from one thread at a time.
typedef void tg_print(void *user, const char *text);

/// Runs a kernel to its end. print may be NULL. Returns a tg_run_status; fills *failure unless OK.
int tg_host_run(tg_host *host, tg_entry *entry, const tg_slot *args, tg_print *print, void *user,
                tg_failure *failure);
/// Runs a kernel with GPU code, on a stream of the device. Returns without waiting for the stream.
/// Device and stream are ignored if the image is of kind CALL.
int tg_host_run_on(tg_host *host, tg_entry *entry, const tg_slot *args, tg_image *image, int device,
                   void *stream, tg_print *print, void *user, tg_failure *failure);

/* ---- record.c: the record of one launch ------------------------------------------------------ */

/// A part of the code that a worker ran: those of one mark (TG_SITE_MARK).
typedef struct tg_part_time {
    const tg_site *site;
    int64_t ns, times; // without the parts that began meanwhile
} tg_part_time;
/// A task of a phase, or (site) a part of one. Times are of CLOCK_MONOTONIC, in ns.
typedef struct tg_span {
    int64_t from, to, task;
    const tg_site *site; // NULL: the whole task
    int32_t phase;
} tg_span;
/// A call of tg_env.parallel_for or of tg_env.dispatch. site: of the first mark in it, or NULL. The
/// last one of a full record sums all later phases, with tg_record_others as its site.
typedef struct tg_phase_time {
    int64_t from, to, tasks;
    int64_t ns, times; // within the phases; number of phases
    const tg_site *site;
} tg_phase_time;
/// A mark of device code, in the order of writing. `at` is the device's clock, in ns.
typedef struct tg_device_mark {
    const tg_site *site;
    int64_t at, program;
    int32_t phase;
} tg_device_mark;

enum { TG_RECORD_PARTS = 256, TG_RECORD_PHASES = 256 };
/// The site, without a place, of parts and phases for which a record has no room of their own.
extern const tg_site tg_record_others;
/// The record of a worker: 0 is the host side of the kernel, the others run tasks.
typedef struct tg_worker_record {
    tg_span *spans;
    size_t capacity, n_spans;       // n_spans also counts spans that did not fit
    int64_t tasks;                  // number of them
    int64_t busy[TG_RECORD_PHASES]; // ns of the tasks of each phase
    tg_part_time parts[TG_RECORD_PARTS];
    int n_parts, current; // current: the part that runs, or -1
    int64_t since;
    tg_span now;          // of the task that runs
    const tg_site *first; // of the marks in the phase
} tg_worker_record;
/// The record of a launch.
typedef struct tg_record {
    int64_t from, to;
    atomic_bool taken; // by a launch that runs
    int n_workers;     // those in `workers`
    int n_phases;      // also counts phases that did not fit
    tg_phase_time phases[TG_RECORD_PHASES];
    tg_device_mark *marks;
    size_t mark_capacity, n_marks; // n_marks also counts marks that did not fit
    bool marks_lost;               // the device's buffer was full
    int64_t phase_from;            // of the phase that runs
    tg_worker_record *workers;
} tg_record;

/// Makes a record for launches on a host of that many threads, with room for that many spans of
/// each worker and marks of a device. NULL: out of memory.
tg_record *tg_record_create(int threads, size_t spans, size_t marks);
void tg_record_destroy(tg_record *record);
/// Later launches of the host are recorded there, each instead of the one before; NULL: they are
/// not recorded. A launch that begins while another one writes the record is not recorded. No
/// launch of the host may run meanwhile; the record may be destroyed after another one, or NULL, is
/// set.
void tg_host_record(tg_host *host, tg_record *record);

/* ---- several ranks --------------------------------------------------------------------------- */

struct tg_comm;
/// Makes launches of the host launches of this rank.
void tg_host_join(tg_host *host, struct tg_comm *comm);
/// Runs a collective launch. All ranks must pass the same config. scalars: one for each parameter
/// of info. Device and stream: see tg_host_run_on.
int tg_host_run_ranks(tg_host *host, const tg_kernel_info *info, const char *config,
                      tg_entry *entry, const tg_slot *args, const int64_t *scalars, tg_image *image,
                      int device, void *stream, tg_print *print, void *user, tg_failure *failure);
/// Returns the direct view (abi.h) of a place in the own shard of a symmetric tensor, and the bytes
/// from rank to rank. NULL: the place is not in a symmetric tensor.
void *tg_host_direct(const struct tg_comm *comm, const void *own, int64_t *lead);
/// Whether programs can access other ranks' memory in place.
bool tg_host_mapped(const struct tg_comm *comm);
/// Reads another rank's symmetric memory; `own` is the same place in the own shard. False, with
/// tg_last_error(): it failed.
bool tg_host_read(struct tg_comm *comm, int rank, const void *own, void *to, size_t bytes);
/// Writes host bytes into the own shard. False, with tg_last_error(): it failed.
bool tg_host_write(struct tg_comm *comm, void *own, const void *from, size_t bytes);
/// The number of the rank's GPU, or -1.
int tg_host_device(const struct tg_comm *comm);

/// The activity of a rank in launches: of its threads, or of its GPU's streams (0: the launch's; 1
/// + R: copies from and to rank R). Times are of CLOCK_MONOTONIC, in ns.
enum tg_event_kind { TG_EVENT_TASK, TG_EVENT_COPY, TG_EVENT_WAIT, TG_EVENT_MEET, TG_EVENTS };
typedef struct tg_event {
    int64_t from, to;
    int32_t kind, thread;
    int64_t peer,
        number; // number: of a task its own, of a copy or wait the chunk; peer: the other rank
} tg_event;
typedef struct tg_trace {
    tg_event *events;
    size_t capacity, n; // n also counts events that did not fit
    int64_t error_ns;   // uncertainty of a GPU's clock; 0: no GPU
} tg_trace;
/// The part of a launch that runs, so that each part can be timed alone. Results are then
/// undefined.
enum tg_part { TG_PART_ALL, TG_PART_TRANSFERS, TG_PART_PROGRAMS };
/// Sets the part and the trace of later launches. trace NULL: no more events are recorded, and the
/// earlier trace is complete. From then on, launches on GPUs begin on all ranks together, when all
/// are submitted to their streams. Collective. False, with tg_last_error(): it failed.
bool tg_host_profile(struct tg_comm *comm, enum tg_part part, tg_trace *trace);
/// Returns the time of the last launch since then by the clock of the rank's GPU, after waiting for
/// it. Negative: the launch ran on the CPU, or none was made.
double tg_host_seconds(struct tg_comm *comm);

/* ---- site_text.c ---------------------------------------------------------------------------- */

/// Formats the site's text with values in place of {}; cut to `size` bytes.
void tg_site_text(char *out, size_t size, const tg_site *site, const uint64_t *values);

#endif
