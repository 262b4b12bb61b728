// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Running compiled kernels on this machine: threads, their memory, failures, printed text.
#ifndef RUNTIME_HOST_H
#define RUNTIME_HOST_H

#include "runtime/abi.h"

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

/* ---- text.c -------------------------------------------------------------------------------- */

/// The site's text with values in place of {}; cut to `size` bytes.
void tg_site_text(char *out, size_t size, const tg_site *site, const uint64_t *values);

#endif
