// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A stand-in GPU driver: a library with the functions of libcuda.so.1 that the runtime uses. Device
// memory is the host's. Kernels are C functions that run at their launch, or are recorded by a
// capture. Every argument is checked. A call that the real driver would refuse is refused, and so
// is an error that the real driver would let pass (fake_mistake).
#ifndef TESTS_RUNTIME_FAKE_CUDA_H
#define TESTS_RUNTIME_FAKE_CUDA_H

#include <stddef.h>
#include <stdint.h>

/// A launch as the kernel sees it.
typedef struct FakeLaunch {
    const char *name;
    unsigned grid, block, shared_bytes, cluster;
    int device, early; // early: it may begin while the previous kernel ends
    void *stream;
} FakeLaunch;
/// An operation of a stream. Fields of other kinds are 0.
typedef enum FakeOpKind {
    OP_LAUNCH,
    OP_COPY,
    OP_SET,
    OP_RECORD,
    OP_WAIT,
    OP_WAIT_VALUE
} FakeOpKind;
typedef struct FakeOp {
    FakeOpKind kind;
    int stream;         // number of the stream
    const char *name;   // name of a launched kernel
    int early;          // FakeLaunch.early
    void *const *args;  // arguments of a launch
    const void *event;  // recorded or awaited event
    uint64_t to, from;  // addresses of a copy
    size_t rows, bytes; // size of a copy
    uint64_t at, value; // word and value of a set or wait
} FakeOp;
typedef void FakeKernel(const FakeLaunch *launch, void **args);

/* X(result, name, parameters) */
#define FAKE_ENTRIES(X)                                                                            \
    /* From now on a module has a kernel of this name; `sizes`: bytes of each of its parameters.   \
     */                                                                                            \
    X(void, fake_kernel, (const char *name, FakeKernel *run, int n, const size_t *sizes))          \
    /* The next call of that function returns `error`. */                                          \
    X(void, fake_fail, (const char *call, int error))                                              \
    /* The first mistake so far, or NULL; clears it. */                                            \
    X(const char *, fake_mistake, (void))                                                          \
    /* From now on all calls of this process fail, as after an illegal address. */                 \
    X(void, fake_break, (void))                                                                    \
    /* While true, work on streams does not end, and a wait for it is a mistake. */                \
    X(void, fake_stick, (int stuck))                                                               \
    /* How often a function was called. */                                                         \
    X(int, fake_calls, (const char *call))                                                         \
    /* Called at the beginning of each call, by its thread; or NULL. */                            \
    X(void, fake_watch, (void (*watch)(const char *call)))                                         \
    /* Pieces of device memory that are not freed; loaded modules. */                              \
    X(int, fake_allocated, (void))                                                                 \
    X(int, fake_modules, (void))                                                                   \
    /* The form of the last loaded module: "PTX" or "machine code". */                             \
    X(const char *, fake_last_image, (void))                                                       \
    /* A new stream of a device. */                                                                \
    X(void *, fake_stream, (int device))                                                           \
    /* Capturing: a graph that can be replayed and dropped. */                                     \
    X(void, fake_capture, (void *stream))                                                          \
    X(void *, fake_capture_end, (void *stream))                                                    \
    X(void, fake_replay, (void *graph))                                                            \
    X(void, fake_drop, (void *graph))                                                              \
    /* Its operation number i, as they were given; 0: it has no more. */                           \
    X(int, fake_graph_op, (void *graph, int i, FakeOp *out))                                       \
    /* The work given to the streams of a device since the last query, one line each: the stream's \
     * number, the kind. */                                                                        \
    X(const char *, fake_journal, (int device))                                                    \
    /* By FAKE_CUDA_CLOCK, of the last launch. */                                                  \
    X(double, fake_seconds, (void))                                                                \
    /* The arguments of the last cuTensorMapEncodeTiled, in words. */                              \
    X(const char *, fake_last_map, (void))

#define X(result, name, parameters) result name parameters;
FAKE_ENTRIES(X)
#undef X

#endif
