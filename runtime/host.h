// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Running compiled kernels on this machine: threads, their memory, failures, printed text.
#ifndef RUNTIME_HOST_H
#define RUNTIME_HOST_H

#include "runtime/abi.h"

#include <stdbool.h>
#include <stddef.h>

/// A context for those who bind the arguments of compiled code themselves. Any number of threads
/// may run kernels on it at once.
typedef struct tg_host tg_host;

/// threads 0: one a core that the process may use. NULL where there is no memory.
tg_host *tg_host_create(int threads);
void tg_host_destroy(tg_host *host);
int tg_host_threads(const tg_host *host);

/// DEVICE: something of a GPU failed; the failure's text says what.
enum tg_run_status { TG_RUN_OK, TG_RUN_FAILED, TG_RUN_NO_MEMORY, TG_RUN_DEVICE };

enum { TG_TEXT_SIZE = 1024 };

/// Why a run failed. Of several tasks that fail, the one of least number counts, so that the
/// message does not depend on the threads.
typedef struct tg_failure {
    const tg_site *site; // of the code; NULL: no memory
    char text[TG_TEXT_SIZE];
} tg_failure;

/// Receives what kernels print, from one thread at a time.
typedef void tg_print(void *user, const char *text);

/// Runs a kernel to its end. print may be NULL. Returns a tg_run_status; fills *failure unless OK.
int tg_host_run(tg_host *host, tg_entry *entry, const tg_slot *args, tg_print *print, void *user,
                tg_failure *failure);
/// The same with code of a GPU: on a stream of that device, to whose end it does not wait. Device
/// and stream mean nothing where the image is called.
int tg_host_run_on(tg_host *host, tg_entry *entry, const tg_slot *args, tg_image *image, int device,
                   void *stream, tg_print *print, void *user, tg_failure *failure);

/* ---- several ranks --------------------------------------------------------------------------- */

struct tg_comm;
/// Launches of the host are those of a rank from now on.
void tg_host_join(tg_host *host, struct tg_comm *comm);
/// A collective launch; all ranks have the same config. scalars: one a parameter of info. Device
/// and stream as tg_host_run_on has them.
int tg_host_run_ranks(tg_host *host, const tg_kernel_info *info, const char *config,
                      tg_entry *entry, const tg_slot *args, const int64_t *scalars, tg_image *image,
                      int device, void *stream, tg_print *print, void *user, tg_failure *failure);
/// The direct view (abi.h) of a place in the own shard of a symmetric tensor, and bytes from rank
/// to rank. NULL: it is none.
void *tg_host_direct(const struct tg_comm *comm, const void *own, int64_t *lead);
/// Whether programs can access other ranks' memory where it lies.
bool tg_host_mapped(const struct tg_comm *comm);
/// Bytes of another rank's symmetric memory, by their place in the own one; false, with
/// tg_last_error(): they cannot be had.
bool tg_host_read(struct tg_comm *comm, int rank, const void *own, void *to, size_t bytes);
/// Bytes of the host into the own shard; false, with tg_last_error().
bool tg_host_write(struct tg_comm *comm, void *own, const void *from, size_t bytes);
/// The number of the rank's GPU, or -1.
int tg_host_device(const struct tg_comm *comm);

/// What a rank's threads, or the streams of its GPU (0: that of the launch, 1 + R: copies from and
/// to rank R), did in launches, on CLOCK_MONOTONIC, in ns.
enum tg_event_kind { TG_EVENT_TASK, TG_EVENT_COPY, TG_EVENT_WAIT, TG_EVENT_MEET, TG_EVENTS };
typedef struct tg_event {
    int64_t from, to;
    int32_t kind, thread;
    int64_t peer,
        number; // of a task its number; of a copy and a wait the other rank, and the chunk
} tg_event;
typedef struct tg_trace {
    tg_event *events;
    size_t capacity, n; // n counts those that have no room, too
    int64_t error_ns;   // of the clock of a GPU; 0: there is none
} tg_trace;
/// Which part of launches is done, so that each can be timed alone; results then mean nothing.
enum tg_part { TG_PART_ALL, TG_PART_TRANSFERS, TG_PART_PROGRAMS };
/// trace NULL: nothing is noted any more, and what was is in the trace before. On GPUs launches
/// begin on all ranks at once from then on, when they have been given to their streams.
/// Collective; false, with tg_last_error().
bool tg_host_profile(struct tg_comm *comm, enum tg_part part, tg_trace *trace);
/// Of the last launch since then by the clock of the rank's GPU, for which it waits; negative: it
/// was the CPU's, or there is none.
double tg_host_seconds(struct tg_comm *comm);

/* ---- site_text.c ---------------------------------------------------------------------------- */

/// The site's text with values in place of {}; cut to `size` bytes.
void tg_site_text(char *out, size_t size, const tg_site *site, const uint64_t *values);

#endif
