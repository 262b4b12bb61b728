// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Tools for functions that turn structures into bytes (wire.c). One function a structure both
// writes and reads it.
#ifndef DRIVER_REMOTE_WIRE_H
#define DRIVER_REMOTE_WIRE_H

#include "driver/jit.h"

enum { WIRE_ITEMS = 1 << 15 };

typedef struct Wire {
    Ctx *ctx;
    bool reading, bad;
    Text out;
    Bytes in; // the rest of the input
} Wire;

/// Begins a message. wire_finish fills in its header.
Wire wire_writer(Ctx *ctx);
Bytes wire_finish(Wire *w, WireKind kind);
/// Begins reading a body, which must be read to its end.
static inline Wire wire_reader(Ctx *ctx, Bytes in) {
    return (Wire){.ctx = ctx, .reading = true, .in = in};
}
static inline bool wire_is_done(const Wire *w) {
    return !w->bad && w->in.n == 0;
}

int64_t wire_number(Wire *w, int64_t v);
/// Transfers a number that must be from least to most.
int64_t wire_bounded(Wire *w, int64_t v, int64_t least, int64_t most);
/// Transfers n items of `size` bytes at *data. Copies of the input are aligned.
void wire_items(Wire *w, const void **data, size_t n, size_t size);
void wire_bytes(Wire *w, const void **data, size_t *n);
/// Transfers a text; NULL stays NULL. A text that is read ends in its only NUL.
void wire_text(Wire *w, const char **s);
void wire_needed_text(Wire *w, const char **s);
/// Allocates room for n items to read. Fails if the rest of the input cannot hold them.
void *wire_room(Wire *w, int n, size_t size);
void wire_request(Wire *w, Request *r);

#define NUMBER(w, field, least, most)                                                              \
    ((field) = wire_bounded((w), (int64_t)(field), (least), (most)))
#define COUNT(w, field) ((field) = (int)wire_bounded((w), (field), 0, WIRE_ITEMS))
#define FLAG(w, field)  ((field) = wire_bounded((w), (field), 0, 1) != 0)

#define ITEMS(w, field, n)                                                                         \
    do {                                                                                           \
        const void *items_ = (field);                                                              \
        wire_items((w), &items_, (size_t)(n), sizeof *(field));                                    \
        (field) = items_;                                                                          \
    } while (0)

/// Transfers n structures of `type` at `array`, each by field(w, &item). Writing does not change
/// the array.
#define LIST(w, type, array, n, field)                                                             \
    do {                                                                                           \
        type *read_ = wire_room((w), (n), sizeof(type));                                           \
        for (int i_ = 0; i_ < (n) && !(w)->bad; i_++) {                                            \
            type one_ = (w)->reading ? read_[i_] : (array)[i_];                                    \
            field((w), &one_);                                                                     \
            if ((w)->reading) read_[i_] = one_;                                                    \
        }                                                                                          \
        if ((w)->reading) (array) = read_;                                                         \
    } while (0)

#endif
