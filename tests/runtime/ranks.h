// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Ranks for tests, and hand-written collective kernels in the form of compiled ones.
#ifndef TESTS_RUNTIME_RANKS_H
#define TESTS_RUNTIME_RANKS_H

#include "runtime/abi.h"
#include "runtime/tegula.h"

#include <stdbool.h>

/// The work of a rank, in a thread or a process of its own; its context has the comm. Returns false
/// after reporting the failure (CHECK).
typedef bool rank_body(tg_comm *comm, void *arg);

/// Runs the body on n ranks. Returns false if any of them failed or died. timeout_ms 0: the
/// default.
bool on_ranks(const char *engine, int n, int timeout_ms, rank_body *body, void *arg);

/// Runs the body in this process, which is one of several ranks started elsewhere.
bool on_this_rank(const char *engine, rank_body *body, void *arg);

#define CHECK(condition)                                                                           \
    do                                                                                             \
        if (!(condition)) return check_failed(__FILE__, __LINE__, #condition);                     \
    while (0)
/// Reports the place and the last error of this thread.
bool check_failed(const char *file, int line, const char *condition);

/// gathered(a: sym f32[W][M, K], out: f32[W * M, K], how: i64, chunk: i64): out = 2 a of all ranks.
/// how: enum tg_gather_how, or ALL, which reads directly after all ranks have arrived. chunk: in
/// rows.
extern tg_kernel gathered;
/// reduced(x: f32[W * M, K], c: sym f32[W][M, K], how: i64, chunk: i64): c[r] is the sum, in the
/// order of ranks, of all ranks' contributions for rank r.
extern tg_kernel reduced;
/// folded(x: f32[W * M, K], c: sym f32[W][M, K], turns: i64, chunk: i64): works like a kernel with
/// `combine` in a loop. Each turn sends x + turn into the owners' stage, with one signal each, on
/// the same words. c[r] becomes the sum of all turns.
extern tg_kernel folded;
/// turned(a: sym f32[W][N], steps: i64): every rank writes its number + step into the next rank's
/// shard, and after a barrier reads its own. It fails (assert) if the value is not from the
/// previous rank.
extern tg_kernel turned;
/// picky(a: sym f32[W][N], rank: i64): rank `rank` fails a require, before or (late) after it has
/// begun, while another rank waits for it.
extern tg_kernel picky;
enum { HOW_ALL = TG_GATHER_DIRECT + 1 };

#endif
