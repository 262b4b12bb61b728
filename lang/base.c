// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The compile context: arena, interned strings, vectors, text, maps.
#include "lang/axes.h"
#include "lang/context.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { ALIGN = 16, LARGE_PAGE = 2 << 20 };

// A build for hostile tests gives each block its own chunk. A sanitizer then sees an access beyond
// its end, and a test can make any allocation fail. In other builds chunks grow: long compilations
// get chunks of large pages, and short ones stay small.
#ifdef TEGULA_HOSTILE
enum { FIRST_CHUNK = 16, LAST_CHUNK = FIRST_CHUNK };
#else
enum { FIRST_CHUNK = 64 << 10, LAST_CHUNK = 16 << 20 };
#endif
enum { GROWTH = 16 };

struct Chunk {
    Chunk *next;
    size_t used, size;
    _Alignas(ALIGN) char data[];
};

static void *libc_allocate(void *user, void *old, size_t size) {
    (void)user;
    if (size == 0) {
        free(old);
        return NULL;
    }
    return realloc(old, size);
}

Ctx *ctx_create(const Allocator *allocator) {
    Allocator a = allocator ? *allocator : (Allocator){libc_allocate, NULL};
    Ctx *ctx = a.allocate(a.user, NULL, sizeof *ctx);
    if (!ctx) return NULL;
    memset(ctx, 0, sizeof *ctx);
    ctx->allocator = a;
    ctx->next_chunk = FIRST_CHUNK;
    return ctx;
}

void ctx_destroy(Ctx *ctx) {
    if (!ctx) return;
    for (Deferred *d = ctx->deferred; d; d = d->next) d->release(d->thing);
    Allocator a = ctx->allocator;
    for (Chunk *c = ctx->chunks, *next; c; c = next) {
        next = c->next;
        a.allocate(a.user, c, 0);
    }
    a.allocate(a.user, ctx, 0);
}

CtxStatus ctx_protect(Ctx *ctx, void (*body)(Ctx *ctx, void *arg), void *arg) {
    struct Landing here = {.outer = ctx->landing};
    ctx->landing = &here;
    int status = setjmp(here.jump);
    if (status == 0) body(ctx, arg);
    ctx->landing = here.outer;
    return status ? (CtxStatus)status : diag_errors(ctx) ? CTX_ERRORS : CTX_OK;
}

_Noreturn void ctx_leave(Ctx *ctx, CtxStatus status) {
    if (!ctx->landing)
        abort(); // a caller inside the compiler forgot ctx_protect: there is nowhere to go
    longjmp(ctx->landing->jump, (int)status);
}

bool ctx_pass_on(Ctx *ctx, CtxStatus status) {
    if (status == CTX_NO_MEMORY || status == CTX_BUG) ctx_leave(ctx, status);
    return status == CTX_OK;
}

_Noreturn void ctx_give_up(Ctx *ctx) {
    ctx_leave(ctx, CTX_ERRORS);
}

/// Asks the system for large pages. (Front end of a product with 65 settings: 7.7 ms with small
/// ones, 6.5 with large ones.)
static void want_large_pages(const Chunk *c) {
    uintptr_t mask = ~(uintptr_t)(LARGE_PAGE - 1);
    uintptr_t from = ((uintptr_t)c + LARGE_PAGE - 1) & mask;
    uintptr_t to = (uintptr_t)(c->data + c->size) & mask;
    int before = errno;
    if (to > from) madvise((void *)from, to - from, MADV_HUGEPAGE);
    errno = before;
}

static Chunk *new_chunk(Ctx *ctx, size_t size) {
    Chunk *c = ctx->allocator.allocate(ctx->allocator.user, NULL, sizeof(Chunk) + size);
    if (!c) return NULL;
    c->used = 0;
    c->size = size;
    if (size >= LARGE_PAGE) want_large_pages(c);
    return c;
}

/// ctx_alloc, or NULL.
static void *try_alloc(Ctx *ctx, size_t size) {
    if (size > SIZE_MAX / 2) return NULL;
    size = (size + ALIGN - 1) & ~(size_t)(ALIGN - 1);
    ctx->bytes += size;
    Chunk *top = ctx->chunks;
    if (!top || top->size - top->used < size) {
        bool large = size > ctx->next_chunk / 4;
        Chunk *c = new_chunk(ctx, large ? size : ctx->next_chunk);
        if (!c) return NULL;
        if (!large && ctx->next_chunk < LAST_CHUNK) ctx->next_chunk *= GROWTH;
        if (large && top) { // it must not retire a half-empty chunk
            c->next = top->next;
            top->next = c;
        } else {
            c->next = top;
            ctx->chunks = c;
        }
        top = c;
    }
    void *p = top->data + top->used;
    top->used += size;
    return memset(p, 0, size);
}

void *ctx_alloc(Ctx *ctx, size_t size) {
    void *p = try_alloc(ctx, size);
    if (!p) ctx_leave(ctx, CTX_NO_MEMORY);
    return p;
}

void *ctx_copy(Ctx *ctx, const void *data, size_t size) {
    void *p = ctx_alloc(ctx, size);
    return size ? memcpy(p, data, size) : p;
}

void ctx_defer(Ctx *ctx, void (*release)(void *thing), void *thing) {
    Deferred *d = try_alloc(ctx, sizeof *d);
    if (!d) {
        release(thing);
        ctx_leave(ctx, CTX_NO_MEMORY);
    }
    *d = (Deferred){release, thing, ctx->deferred};
    ctx->deferred = d;
}

void ctx_count(Ctx *ctx, uint64_t steps) {
    ctx->steps += steps;
}

uint64_t ctx_steps(const Ctx *ctx) {
    return ctx->steps;
}

size_t ctx_bytes(const Ctx *ctx) {
    return ctx->bytes;
}

/* ---- interned strings ---------------------------------------------------------------------- */

/// Hashes eight bytes at a time, since types and attributes are long rows of integers.
static uint64_t hash_words(const char *s, size_t n) {
    uint64_t h = n, word;
    for (; n >= sizeof word; n -= sizeof word, s += sizeof word) {
        memcpy(&word, s, sizeof word);
        h = (h ^ word) * 0x9e3779b97f4a7c15u;
        h ^= h >> 32;
    }
    word = 0;
    if (n) memcpy(&word, s, n);
    h = (h ^ word) * 0x9e3779b97f4a7c15u;
    h = (h ^ h >> 32) * 0x9e3779b97f4a7c15u; // the last bytes of a name reach the lowest bits
    return h ^ h >> 32;
}

static void grow_names(Ctx *ctx) {
    int cap = ctx->name_cap ? ctx->name_cap * 2 : 256;
    InternedName **slots = ctx_array(ctx, InternedName *, cap);
    for (int i = 0; i < ctx->name_cap; i++) {
        for (InternedName *e = ctx->names[i], *next; e; e = next) {
            next = e->next;
            InternedName **slot = &slots[e->hash & (uint64_t)(cap - 1)];
            e->next = *slot;
            *slot = e;
        }
    }
    ctx->names = slots;
    ctx->name_cap = cap;
}

const char *ctx_intern(Ctx *ctx, const char *text, size_t len) {
    if (ctx->n_names >= ctx->name_cap) grow_names(ctx);
    uint64_t hash = hash_words(text, len);
    InternedName **slot = &ctx->names[hash & (uint64_t)(ctx->name_cap - 1)];
    for (InternedName *e = *slot; e; e = e->next)
        if (e->hash == hash && e->len == len && memcmp(e->text, text, len) == 0) return e->text;
    InternedName *e = ctx_alloc(ctx, sizeof *e + len + 1);
    e->hash = hash;
    e->len = len;
    memcpy(e->text, text, len);
    e->next = *slot;
    *slot = e;
    ctx->n_names++;
    return e->text;
}

const char *ctx_name(Ctx *ctx, const char *text) {
    return ctx_intern(ctx, text, strlen(text));
}

/* ---- vectors, text, maps ------------------------------------------------------------------- */

void *vec_grow(Ctx *ctx, void *data, int *cap, size_t size) {
    int old = *cap;
    *cap = old ? old * 2 : 8;
    void *p = ctx_alloc(ctx, (size_t)*cap * size);
    return old ? memcpy(p, data, (size_t)old * size) : p;
}

static void text_reserve(Text *t, size_t more) {
    if (t->n + more + 1 <= t->cap) return;
    size_t cap = t->cap ? t->cap : 128;
    while (cap < t->n + more + 1) cap *= 2;
    char *data = ctx_alloc(t->ctx, cap);
    if (t->n) memcpy(data, t->data, t->n);
    t->data = data;
    t->cap = cap;
}

void text_bytes(Text *t, const char *data, size_t n) {
    text_reserve(t, n);
    if (n) memcpy(t->data + t->n, data, n);
    t->n += n;
    t->data[t->n] = 0;
}

static void text_vadd(Text *t, const char *fmt, va_list ap) {
    va_list again;
    va_copy(again, ap);
    int n = vsnprintf(NULL, 0, fmt, ap);
    if (n >= 0) {
        text_reserve(t, (size_t)n);
        vsnprintf(t->data + t->n, (size_t)n + 1, fmt, again);
        t->n += (size_t)n;
    }
    va_end(again);
}

void text_add(Text *t, const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    text_vadd(t, fmt, ap);
    va_end(ap);
}

char *ctx_vformat(Ctx *ctx, const char *fmt, va_list ap) {
    Text t = {.ctx = ctx};
    text_bytes(&t, "", 0);
    text_vadd(&t, fmt, ap);
    return t.data;
}

char *ctx_format(Ctx *ctx, const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    char *s = ctx_vformat(ctx, fmt, ap);
    va_end(ap);
    return s;
}

static struct PtrMapSlot *map_slot(const PtrMap *m, const void *key) {
    uint64_t h = (uint64_t)(uintptr_t)key * 0x9e3779b97f4a7c15u;
    for (uint64_t i = h >> 32;; i++) {
        struct PtrMapSlot *s = &m->slots[i & (uint64_t)(m->cap - 1)];
        if (!s->key || s->key == key) return s;
    }
}

void *map_get(const PtrMap *m, const void *key) {
    return m->cap ? map_slot(m, key)->value : NULL;
}

void map_set(Ctx *ctx, PtrMap *m, const void *key, void *value) {
    if (m->n * 2 >= m->cap) {
        PtrMap bigger = {.cap = m->cap ? m->cap * 2 : 16};
        bigger.slots = ctx_array(ctx, struct PtrMapSlot, bigger.cap);
        for (int i = 0; i < m->cap; i++)
            if (m->slots[i].key) *map_slot(&bigger, m->slots[i].key) = m->slots[i];
        bigger.n = m->n;
        *m = bigger;
    }
    struct PtrMapSlot *s = map_slot(m, key);
    m->n += s->key == NULL;
    *s = (struct PtrMapSlot){key, value};
}

/* ---- element types ------------------------------------------------------------------------- */

const ElemInfo elem_info[EL_COUNT] = {
#define ELEM(id, name, bits, cls) [EL_##id] = {name, bits, cls},
#include "lang/types.def"
};

Elem elem_by_name(const char *name) {
    int e = 0;
    while (e < EL_COUNT && strcmp(elem_info[e].name, name) != 0) e++;
    return (Elem)e;
}

/* ---- plans --------------------------------------------------------------------------------- */

static const char *const plans[] = {
#define PLAN(id, name, reads, adds) [PLAN_##id] = name,
#include "lang/plans.def"
};

const char *plan_name(int64_t plan) {
    return plan > PLAN_CHOSEN && plan < PLAN_COUNT ? plans[plan] : NULL;
}

PlanId plan_by_name(const char *name) {
    for (int i = PLAN_CHOSEN + 1; i < PLAN_COUNT; i++)
        if (strcmp(plans[i], name) == 0) return (PlanId)i;
    return PLAN_CHOSEN;
}

const char *plan_names(Ctx *ctx) {
    Text t = {.ctx = ctx};
    for (int p = PLAN_CHOSEN + 1; p < PLAN_COUNT; p++)
        text_add(&t, "%s%s", t.data ? ", " : "", plan_name(p));
    return t.data;
}

bool setting_value(const char *name, const char *text, size_t n, int64_t *out) {
    char word[32], *end;
    if (n == 0 || n >= sizeof word) return false;
    memcpy(word, text, n);
    word[n] = 0;
    bool yes = strcmp(word, "true") == 0;
    PlanId plan = setting_is_plan(name) ? plan_by_name(word) : PLAN_CHOSEN;
    *out = plan ? plan : yes;
    if (plan || yes || strcmp(word, "false") == 0) return true;
    errno = 0;
    *out = strtoll(word, &end, 0);
    return end != word && !*end && !errno;
}

void setting_text(Text *out, const char *name, int64_t value) {
    const char *plan = setting_is_plan(name) ? plan_name(value) : NULL;
    if (plan)
        text_add(out, "%s=%s", name, plan);
    else
        text_add(out, "%s=%lld", name, (long long)value);
}
