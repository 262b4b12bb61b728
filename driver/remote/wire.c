// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Requests and answers as bytes: a header, then the fields of the structure in order. One function
// for each structure both writes and reads it, so the two directions cannot differ.
//
//     header   "TGL" and its kind, version, length of the rest (8 bytes)
//     number   8 bytes of this machine: both ends are one installation on one machine
//     bytes    their number, the bytes, and 0 to 7 bytes of padding to a multiple of 8
//
// All input is checked: lengths against the rest of the input, counts against limits, texts for
// their NUL, kinds against enums. After the first mistake a reader reads only zeroes.
#include <string.h>

#include "driver/remote/wire.h"

enum { WIRE_VERSION = 8 };
static const char magic[3] = "TGL", kinds[] = "QAOTRIESBG";
#define MAX_LENGTH ((size_t)256 << 20)

/* ---- numbers, bytes ------------------------------------------------------------------------ */

/// Takes n bytes of the input. NULL: fewer are left.
static const uint8_t *take_input(Wire *w, size_t n) {
    if (w->bad || n > w->in.n) {
        w->bad = true;
        return NULL;
    }
    const uint8_t *at = w->in.data;
    w->in.data += n;
    w->in.n -= n;
    return at;
}

int64_t wire_number(Wire *w, int64_t v) {
    if (!w->reading) {
        text_bytes(&w->out, (const char *)&v, sizeof v);
        return v;
    }
    const uint8_t *at = take_input(w, sizeof v);
    v = 0;
    if (at) memcpy(&v, at, sizeof v);
    return v;
}

/// Transfers a number that must be from least to most.
int64_t wire_bounded(Wire *w, int64_t v, int64_t least, int64_t most) {
    v = wire_number(w, v);
    if (v >= least && v <= most) return v;
    w->bad = true;
    return least;
}

/// Transfers n items of `size` bytes at *data. Copies of the input are aligned.
void wire_items(Wire *w, const void **data, size_t n, size_t size) {
    static const char zeroes[8];
    size_t bytes = n * size, rest = (8 - bytes % 8) % 8;
    if (!w->reading) {
        if (bytes) text_bytes(&w->out, *data, bytes);
        text_bytes(&w->out, zeroes, rest);
        return;
    }
    const uint8_t *at = take_input(w, bytes + rest);
    *data = at ? ctx_copy(w->ctx, at, bytes) : NULL;
    if (!at) *data = ctx_alloc(w->ctx, n < WIRE_ITEMS ? bytes : 0);
}
void wire_bytes(Wire *w, const void **data, size_t *n) {
    *n = (size_t)wire_bounded(w, (int64_t)*n, 0, (int64_t)MAX_LENGTH);
    if (w->reading && *n > w->in.n) {
        w->bad = true;
        *n = 0;
    }
    wire_items(w, data, *n, 1);
}

/// Transfers a text; NULL stays NULL. A text that is read ends in its only NUL.
void wire_text(Wire *w, const char **s) {
    size_t n = *s ? strlen(*s) + 1 : 0;
    const void *data = *s;
    wire_bytes(w, &data, &n);
    if (!w->reading) return;
    *s = NULL;
    if (n == 0 || !data) return;
    const char *read = data;
    if (memchr(read, 0, n) == read + n - 1)
        *s = read;
    else
        w->bad = true;
}

void wire_needed_text(Wire *w, const char **s) {
    wire_text(w, s);
    if (*s) return;
    w->bad = true;
    *s = "";
}

/* ---- structures ---------------------------------------------------------------------------- */

/// Allocates room for n items to read. Fails if the rest of the input cannot hold them.
void *wire_room(Wire *w, int n, size_t size) {
    if (!w->reading) return NULL;
    if ((size_t)n > w->in.n / 8) w->bad = true;
    return ctx_alloc(w->ctx, w->bad ? 0 : (size_t)n * size);
}

static void source_text(Wire *w, SourceText *t) {
    const void *data = t->text;
    wire_needed_text(w, &t->path);
    wire_bytes(w, &data, &t->length);
    t->text = data;
}

static void marshal_named_value(Wire *w, NamedValue *v) {
    wire_needed_text(w, &v->name);
    v->value = wire_number(w, v->value);
}

/// Refuses a negative extent, as the runtime does.
static void marshal_actual(Wire *w, tg_actual *a) {
    NUMBER(w, a->null, 0, 1);
    NUMBER(w, a->code, 0, 255);
    NUMBER(w, a->bits, 0, 255);
    NUMBER(w, a->rank, 0, TG_MAX_RANK);
    NUMBER(w, a->align, 0, TG_LINE);
    a->value = wire_number(w, a->value);
    ITEMS(w, a->shape, a->rank);
    ITEMS(w, a->strides, a->rank);
    for (int i = 0; w->reading && !w->bad && i < a->rank; i++) w->bad |= a->shape[i] < 0;
}

static void marshal_key(Wire *w, Key *k) {
    wire_bytes(w, &k->bytes, &k->n);
}

void wire_request(Wire *w, Request *r) {
    wire_needed_text(w, &r->path);
    COUNT(w, r->n_texts);
    LIST(w, SourceText, r->texts, r->n_texts, source_text);
    COUNT(w, r->n_paths);
    LIST(w, const char *, r->paths, r->n_paths, wire_needed_text);
    wire_needed_text(w, &r->kernel);
    COUNT(w, r->n_set);
    LIST(w, NamedValue, r->set, r->n_set, marshal_named_value);
    COUNT(w, r->n_given);
    LIST(w, NamedValue, r->given, r->n_given, marshal_named_value);
    FLAG(w, r->tuned);
    FLAG(w, r->check);
    FLAG(w, r->debug);
    r->threads = (int)wire_bounded(w, r->threads, 0, INT32_MAX);
    wire_text(w, &r->target);
    wire_text(w, &r->codegen);
    wire_text(w, &r->machine);
    r->driver = (int)wire_bounded(w, r->driver, 0, INT32_MAX);
    COUNT(w, r->n_args);
    LIST(w, tg_actual, r->args, r->n_args, marshal_actual);
    COUNT(w, r->n_known);
    LIST(w, Key, r->known, r->n_known, marshal_key);
}

/// The caller checks a variant's parameters against the kernel's n_params.
static void marshal_variant(Wire *w, tg_variant *v) {
    NUMBER(w, v->level, 0, TG_LEVELS - 1);
    NUMBER(w, v->n_facts, 0, INT16_MAX);
    NUMBER(w, v->n_hints, 0, INT16_MAX);
    NUMBER(w, v->n_params, 0, TG_MAX_PARAMS);
    NUMBER(w, v->n_inplace, 0, INT16_MAX);
    wire_needed_text(w, &v->config);
    ITEMS(w, v->facts, v->n_facts);
    ITEMS(w, v->hints, v->n_hints);
    ITEMS(w, v->params, v->n_params);
    ITEMS(w, v->inplace, 2 * v->n_inplace);
    v->entry = NULL;
}

static void device_function(Wire *w, tg_device_function *f) {
    wire_needed_text(w, &f->name);
    NUMBER(w, f->threads, 1, 1024);
    NUMBER(w, f->cluster, 1, 64);
    NUMBER(w, f->shared_bytes, 0, INT32_MAX);
    NUMBER(w, f->n_args, 0, WIRE_ITEMS);
    NUMBER(w, f->flags, 0, TG_DEVICE_FLAGS);
    NUMBER(w, f->together, 0, 64);
}

static void marshal_site(Wire *w, const tg_site **s) {
    tg_site copy = {0};
    if (!w->reading) copy = **s;
    NUMBER(w, copy.kind, TG_SITE_REQUIRE, TG_SITE_WAIT);
    NUMBER(w, copy.line, 0, INT32_MAX);
    NUMBER(w, copy.column, 0, INT32_MAX);
    NUMBER(w, copy.n_values, 0, WIRE_ITEMS);
    NUMBER(w, copy.n_indices, 0, copy.n_values);
    wire_text(w, &copy.file);
    wire_needed_text(w, &copy.text);
    wire_text(w, &copy.types);
    if (w->reading) *s = ctx_copy(w->ctx, &copy, sizeof copy);
}

/// Transfers images of bytes, not of kind CALL.
static void marshal_image(Wire *w, tg_image *i) {
    size_t n = (size_t)i->size;
    NUMBER(w, i->kind, TG_IMAGE_PTX, TG_IMAGE_HSACO);
    NUMBER(w, i->arch, 1, INT16_MAX);
    NUMBER(w, i->specific, 0, 1);
    wire_needed_text(w, &i->target);
    wire_bytes(w, &i->bytes, &n);
    i->size = n;
    COUNT(w, i->n_functions);
    LIST(w, tg_device_function, i->functions, i->n_functions, device_function);
    COUNT(w, i->n_sites);
    LIST(w, const tg_site *, i->sites, i->n_sites, marshal_site);
    bool text_ends = n && ((const char *)i->bytes)[n - 1] == 0;
    if (w->reading && i->kind == TG_IMAGE_PTX && !text_ends) w->bad = true;
    if (w->reading && i->kind == TG_IMAGE_CALL) w->bad = true;
}

/// Transfers objects, and images of bytes. An answer that shares code has none. Object and image
/// are read into the arena.
static void marshal_code(Wire *w, Code **c) {
    const void *object = *c ? (*c)->object : NULL;
    size_t n = *c ? (*c)->object_bytes : 0;
    bool has_image = *c && (*c)->image;
    tg_image i = {.size = 0};
    wire_bytes(w, &object, &n);
    FLAG(w, has_image);
    if (has_image && !w->reading) i = *(*c)->image;
    if (has_image) marshal_image(w, &i);
    if (!w->reading || n == 0) return;
    *c = ctx_new(w->ctx, Code);
    **c = (Code){.object = (void *)(uintptr_t)object, .object_bytes = n};
    if (has_image) (*c)->image = ctx_copy(w->ctx, &i, sizeof i);
}

static void marshal_answer(Wire *w, Answer *a) {
    NUMBER(w, a->status, TG_OK, TG_ERROR_INTERNAL);
    wire_text(w, &a->message);
    COUNT(w, a->n_warnings);
    LIST(w, const char *, a->warnings, a->n_warnings, wire_needed_text);
    a->same = (int)wire_bounded(w, a->same, -1, WIRE_ITEMS);
    if (a->status) {
        if (w->reading && !a->message) w->bad = true;
        return;
    }
    tg_variant v = {0};
    if (!w->reading) v = *a->variant;
    marshal_variant(w, &v);
    if (w->reading) a->variant = ctx_copy(w->ctx, &v, sizeof v);
    marshal_key(w, &a->key);
    marshal_code(w, &a->code);
    if (w->reading && a->same < 0 && !a->code) w->bad = true;
}

/* ---- messages ------------------------------------------------------------------------------ */

Bytes wire_finish(Wire *w, WireKind kind) {
    uint64_t length = w->out.n - WIRE_HEADER;
    uint32_t version = WIRE_VERSION | TG_ABI << 16;
    memcpy(w->out.data, magic, sizeof magic);
    w->out.data[sizeof magic] = (char)kind;
    memcpy(w->out.data + 4, &version, sizeof version);
    memcpy(w->out.data + 8, &length, sizeof length);
    return (Bytes){(uint8_t *)w->out.data, w->out.n};
}

Wire wire_writer(Ctx *ctx) {
    static const char header[WIRE_HEADER];
    Wire w = {.ctx = ctx, .out = {.ctx = ctx}};
    text_bytes(&w.out, header, sizeof header);
    return w;
}

Bytes wire_write_request(Ctx *ctx, const Request *r) {
    Wire w = wire_writer(ctx);
    Request copy = *r;
    wire_request(&w, &copy);
    return wire_finish(&w, WIRE_REQUEST);
}

Bytes wire_write_answer(Ctx *ctx, const Answer *a) {
    Wire w = wire_writer(ctx);
    Answer copy = *a;
    marshal_answer(&w, &copy);
    return wire_finish(&w, WIRE_ANSWER);
}

bool wire_read_header(const uint8_t header[WIRE_HEADER], WireKind *kind, size_t *length) {
    uint32_t version;
    uint64_t n;
    memcpy(&version, header + 4, sizeof version);
    memcpy(&n, header + 8, sizeof n);
    *length = (size_t)n;
    *kind = (WireKind)header[sizeof magic];
    return memcmp(header, magic, sizeof magic) == 0 && header[sizeof magic] &&
           strchr(kinds, header[sizeof magic]) && version == (WIRE_VERSION | TG_ABI << 16) &&
           n <= MAX_LENGTH;
}

bool wire_read_request(Ctx *ctx, Bytes in, Request *r) {
    Wire w = wire_reader(ctx, in);
    *r = (Request){0};
    wire_request(&w, r);
    return wire_is_done(&w);
}

bool wire_read_answer(Ctx *ctx, Bytes in, Answer *a) {
    Wire w = wire_reader(ctx, in);
    *a = (Answer){0};
    marshal_answer(&w, a);
    return wire_is_done(&w);
}
