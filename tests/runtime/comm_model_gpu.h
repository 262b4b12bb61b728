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
    AWAIT_EVENT, // stream, at: behind that record
    AWAIT_WORD,  // a is not 0
    COPY,        // a becomes b
    READ,        // of b, for the next step
    WRITE,       // to a
    CLEAR,       // a becomes 0
    MARK,        // a becomes the epoch
    EPOCH,
    COUNT,
    TELL, // a or b, of even and odd counts, becomes the count with `value`
    MEET, // the count of a or b is this one; then it has `value`, too
    TURN,
    LAUNCH
} Kind;

/// Of a launch, in this order; NONE: it does not.
typedef struct Program {
    uint8_t flag;       // waits until it is the epoch
    uint8_t read, want; // finds this value
    uint8_t to, value;  // writes it, or (adds) adds it
    uint8_t raise;      // lets it become the epoch
    bool adds, hasty;   // hasty: it raises first
} Program;

typedef struct Step {
    Kind kind;
    bool lost;
    uint8_t a, b, value, stream, at, n;
    Program programs[PROGRAMS];
} Step;

/// 8 bytes of memory. All are zero at first; what is written there are small numbers here: epochs
/// of launch n are 4 n and on, contents are numbered.
typedef struct Cell {
    int owner; // a rank; MOST + rank: its own memory
    uint64_t at;
} Cell;

typedef struct Model {
    int size, n_cells; // ranks
    bool fine;         // copies are two steps
    Cell cells[CELLS];
    uint8_t epochs[MOST], counts[MOST]; // cells
    Step steps[STREAMS][STEPS];         // stream i of rank r: r * MOST + i; 0: of launches
    int n[STREAMS];
    long states; // that the last search has seen
} Model;
extern Model m;

static inline int rank_of(int stream) {
    return stream / MOST;
}

bool model_setup(void);
/// Whether nothing is wrong in any order; with a bound, in those in which steps that could be next
/// are left for later so often at most. ANY: there is none.
bool model_explore(int bound);

#endif
