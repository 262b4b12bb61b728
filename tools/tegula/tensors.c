// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Memory for tensors, and walks over their elements.
#include "tools/tegula/tensors.h"

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

typedef struct Mapping {
    void *start;
    size_t bytes;
} Mapping;

static void unmap_pages(void *thing) {
    const Mapping *m = thing;
    if (m->start != MAP_FAILED) munmap(m->start, m->bytes);
}

/// Maps zeroed pages that the context releases. With `guard`, the last byte is before an
/// inaccessible page; without, the first byte is aligned to a page.
static void *map_guarded_pages(Ctx *ctx, size_t bytes, bool guard) {
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    size_t room = (bytes + page) / page * page;
    Mapping *m = ctx_new(ctx, Mapping);
    m->start = MAP_FAILED;
    ctx_defer(ctx, unmap_pages, m);
    m->bytes = room + page;
    m->start = mmap(NULL, m->bytes, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (m->start == MAP_FAILED) return NULL;
    char *start = m->start;
    if (!guard) return start;
    mprotect(start + room, page, PROT_NONE);
    return start + room - bytes;
}

int64_t tensor_count(const Tensor *t) {
    return extents_product(t->extents, t->rank);
}

tg_misaligned tensor_misalignment(const Tensor *t, int unit, int *axis) {
    return tg_misalignment(t->data, t->rank, t->extents, t->strides, elem_info[t->elem].bits, unit,
                           axis);
}

int tensor_alignment(const Tensor *t) {
    return tg_alignment(t->data, t->rank, t->extents, t->strides, elem_info[t->elem].bits);
}

/// Reserves memory for elements 0 .. last; false if that exceeds the address space.
static bool reserve_elements(Ctx *ctx, Tensor *t, uint64_t elements, bool guard) {
    uint64_t bits = (uint64_t)elem_info[t->elem].bits;
    if (elements > (uint64_t)INT64_MAX / 64 / bits) {
        cli_error("a tensor of %llu elements does not fit in memory", (unsigned long long)elements);
        return false;
    }
    t->data = map_guarded_pages(ctx, (size_t)((elements * bits + 7) / 8), guard);
    if (!t->data)
        cli_error("no memory for a tensor of %llu elements", (unsigned long long)elements);
    return t->data != NULL;
}

/// A dense tensor is written completely, so one larger than the machine's memory would thrash.
static bool fits_memory(Elem elem, uint64_t elements) {
    double need = (double)elements * elem_info[elem].bits / 8;
    double have = (double)sysconf(_SC_PHYS_PAGES) * (double)sysconf(_SC_PAGESIZE);
    if (have <= 0 || need < have) return true;
    cli_error("a tensor of %.3g GB does not fit this machine's %.3g GB of memory", need / 1e9,
              have / 1e9);
    return false;
}

/// Extents of 0 count as 1 in strides, which must not overflow for an empty tensor either.
bool tensor_create(Ctx *ctx, Elem elem, int rank, const int64_t *extents, bool guard, Tensor *out) {
    *out = (Tensor){.elem = elem, .rank = rank};
    uint64_t stride = 1, count = 1;
    for (int i = rank - 1; i >= 0; i--) {
        out->extents[i] = extents[i];
        out->strides[i] = (int64_t)stride;
        uint64_t n = (uint64_t)(extents[i] > 0 ? extents[i] : 1);
        if (stride > (uint64_t)INT64_MAX / n) stride = (uint64_t)INT64_MAX / n;
        stride *= n;
        if (extents[i] == 0) count = 0;
    }
    return fits_memory(elem, count * stride) && reserve_elements(ctx, out, count * stride, guard);
}

/// Reserves room up to the element with the greatest indices. Gaps between elements are never
/// accessed, so they cost only address space.
bool tensor_create_strided(Ctx *ctx, const Tensor *shape, bool guard, Tensor *out) {
    *out = *shape;
    uint64_t last = 0;
    for (int i = 0; i < shape->rank; i++) {
        uint64_t n = shape->extents[i] > 1 ? (uint64_t)shape->extents[i] - 1 : 0;
        uint64_t stride = (uint64_t)shape->strides[i];
        if (n && stride > ((uint64_t)INT64_MAX - last) / n)
            last = (uint64_t)INT64_MAX;
        else
            last += n * stride;
    }
    return reserve_elements(ctx, out, tensor_count(shape) ? last + 1 : 0, guard);
}

/// Steps like an odometer: the last axis turns fastest, and each overflow carries to the axis
/// before.
void walk_next(const Tensor *t, Walk *w) {
    for (int i = t->rank - 1; i >= 0; i--) {
        w->offset += t->strides[i];
        if (++w->at[i] < t->extents[i]) return;
        w->offset -= t->strides[i] * t->extents[i];
        w->at[i] = 0;
    }
}

void tensor_copy(Tensor *to, const Tensor *from) {
    Walk read = {0}, write = {0};
    for (int64_t n = tensor_count(from); n > 0; n--) {
        Cell c = cell_load(from->elem, from->data, read.offset);
        if (from->elem != to->elem) c = cell_cast(from->elem, to->elem, c);
        cell_store(to->elem, to->data, write.offset, c);
        walk_next(from, &read);
        walk_next(to, &write);
    }
}
