// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Ranks for tests, and collective kernels written by hand as the compiler writes them.
#ifndef TESTS_RUNTIME_RANKS_H
#define TESTS_RUNTIME_RANKS_H

#include "runtime/abi.h"
#include "runtime/tegula.h"

#include <stdbool.h>

/// What a rank does, in a thread or a process of its own; its context has the comm. False: it has
/// said why (CHECK).
typedef bool rank_body(tg_comm *comm, void *arg);

/// Runs it on n ranks; false where any of them failed or died. timeout_ms 0: the default.
bool on_ranks(const char *engine, int n, int timeout_ms, rank_body *body, void *arg);

/// On this process, which is one rank of those that something else started.
bool on_this_rank(const char *engine, rank_body *body, void *arg);

#define CHECK(condition)                                                                           \
    do                                                                                             \
        if (!(condition)) return check_failed(__FILE__, __LINE__, #condition);                     \
    while (0)
/// Says where, and what the last error of this thread was.
bool check_failed(const char *file, int line, const char *condition);

/// gathered(a: sym f32[W][M, K], out: f32[W * M, K], how: i64, chunk: i64): out = 2 a, of all
/// ranks; how: enum tg_gather_how, and ALL, which reads directly when all have come;
/// chunk: rows.
extern tg_kernel gathered;
/// reduced(x: f32[W * M, K], c: sym f32[W][M, K], how: i64, chunk: i64): what all ranks have for
/// rank r, summed in the order of ranks, is c[r].
extern tg_kernel reduced;
/// folded(x: f32[W * M, K], c: sym f32[W][M, K], turns: i64, chunk: i64): as a kernel with
/// `combine` in a loop does it: each turn sends x + turn into the owners' stage, a signal each, by
/// the same words, and c[r] becomes the sum of all turns.
extern tg_kernel folded;
/// turned(a: sym f32[W][N], steps: i64): every rank writes its number + step into the next one's
/// shard, and after a barrier reads its own; fails (assert) where that is not of the one before.
extern tg_kernel turned;
/// picky(a: sym f32[W][N], rank: i64): rank `rank` fails a require, before or (late) after it has
/// begun; another one waits for it.
extern tg_kernel picky;
enum { HOW_ALL = TG_GATHER_DIRECT + 1 };

#endif
