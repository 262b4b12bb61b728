// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Streams of several ranks as steps, run in all orders.
//
// Each rank has a stream of launches and a side stream for each peer. A step is an action that
// other ranks can observe: a word of the runtime's own kernel, a copy (or its read and its write),
// or a program's wait, read, write or raise. All operations are submitted before any runs, as in
// graphs, and programs run in any order beside copies. Words become visible in the order in which a
// rank writes them: fences are not checked.
#ifndef TESTS_RUNTIME_COMM_MODEL_GPU_H
#define TESTS_RUNTIME_COMM_MODEL_GPU_H

#include <stdbool.h>
#include <stdint.h>

enum { MOST = 4, STREAMS = MOST * MOST, CELLS = 192, STEPS = 128, PROGRAMS = 8 };
enum { NONE = 255, ANY = 255 };

typedef enum Kind {
    RECORD,
    AWAIT_EVENT, // stream, at: the record to wait for
    AWAIT_WORD,  // until a is not 0
    COPY,        // a becomes b
    READ,        // reads b, for the next step
    WRITE,       // writes to a
    CLEAR,       // a becomes 0
    MARK,        // a becomes the epoch
    EPOCH,
    COUNT,
    TELL, // a or b, by the parity of the count, becomes the count with `value`
    MEET, // until the count of a or b is this one; it must have the same `value`
    TURN,
    LAUNCH
} Kind;

/// The phases of a program, in this order; NONE: skipped.
typedef struct Program {
    uint8_t flag;       // waits until this cell has the epoch
    uint8_t read, want; // reads this cell and expects this value
    uint8_t to, value;  // writes this value there, or adds it
    uint8_t raise;      // sets this cell to the epoch
    bool adds, hasty;   // hasty: raises before it writes
} Program;

typedef struct Step {
    Kind kind;
    bool lost;
    uint8_t a, b, value, stream, at, n;
    Program programs[PROGRAMS];
} Step;

/// 8 bytes of memory, zero at first. The model has small numbers: epochs of launch n are 4 n and
/// on, and contents are numbered.
typedef struct Cell {
    int owner; // a rank; MOST + rank: its private memory
    uint64_t at;
} Cell;

typedef struct Model {
    int size, n_cells; // number of ranks
    bool fine;         // whether a copy is two steps
    Cell cells[CELLS];
    uint8_t epochs[MOST], counts[MOST]; // cells of epochs and counts
    Step steps[STREAMS][STEPS]; // stream i of rank r: r * MOST + i; stream 0 has the launches
    int n[STREAMS];
    long states; // states that the last search visited
} Model;
extern Model m;

static inline int rank_of(int stream) {
    return stream / MOST;
}

bool model_setup(void);
/// Whether every order is free of errors. With a bound, a step that could be next is postponed at
/// most `bound` times. ANY: unbounded.
bool model_explore(int bound);

#endif
