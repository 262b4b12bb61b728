// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Shared memory: temporaries, barriers, vectors of elements.
#include "backends/gpu/lower.h"

#include <string.h>

/* ---- temporaries --------------------------------------------------------------------------- */

// A new range is preferred to a barrier before the reuse of an old one, up to this total in bytes.
enum { SPREAD_BYTES = 8192 };

static int64_t round_up_room(int64_t n, int64_t unit) {
    return (n + unit - 1) / unit * unit;
}

/// Finds the lowest room of `bytes` that overlaps no range. `far`: no range since the program's
/// last barrier.
static int64_t find_room(const GpuFn *f, int64_t bytes, int64_t align, bool far) {
    int64_t at = round_up_room(f->shared_fixed, align);
    for (int i = 0; i < f->stretches.n; i++) {
        const GpuStretch *s = &f->stretches.data[i];
        if ((!s->near && !far) || s->lo >= at + bytes || s->hi <= at) continue;
        at = round_up_room(s->hi, align);
        i = -1;
    }
    return at;
}

/// Forgets the closed ranges after a barrier of all threads of the program.
static void forget_closed(GpuFn *f) {
    int kept = 0;
    for (int i = 0; i < f->stretches.n; i++)
        if (f->stretches.data[i].open) f->stretches.data[kept++] = f->stretches.data[i];
    f->stretches.n = kept;
    f->any_stretch = f->any_far = false;
    gpu_order_forget(f);
}

/// A barrier of this CTA does not order accesses of other CTAs. So only ranges of the CTA's own
/// memory are forgotten.
static void forget_near(GpuFn *f) {
    for (int i = 0; i < f->stretches.n; i++) f->stretches.data[i].near &= f->stretches.data[i].open;
    f->any_stretch = false;
}

void gpu_barrier_here(GpuFn *f) {
    const GpuRole *r = f->role;
    const char *name = "tg.barrier";
    if (r) name = ctx_format(f->ctx, "tg.barrier.%d.%d", r->barrier, r->threads);
    GpuBarrier b = {.call = gpu_call(f, name, 0), .loc = f->loc, .loops = f->loops};
    vec_push(f->ctx, &f->barriers, b);
}

void gpu_barrier(GpuFn *f) {
    gpu_barrier_here(f);
    if (f->kernel->cluster > 1)
        forget_near(f);
    else
        forget_closed(f);
}

/// Each CTA announces its start in the head of its code, and waits for the others as late as
/// possible. A loop announces again in each iteration.
void gpu_cluster_started(GpuFn *f) {
    if (f->started) return;
    if (f->apart) ice(f->ctx, f->loc, "CTAs meet where none should");
    if (!f->arrives && !f->announced) {
        GpuPlace back = gpu_to_head(f);
        gpu_call(f, "tg.cluster.arrive", 0);
        gpu_from_head(f, back);
        f->arrives = true;
    }
    gpu_call(f, "tg.cluster.wait", 0);
    f->started = true;
    f->announced = false;
    f->any_far = false; // memory used since the start is in `stretches`
}

void gpu_cluster_end(GpuFn *f) {
    if (f->arrives || f->announced) gpu_cluster_started(f);
}

void gpu_program_barrier(GpuFn *f) {
    if (f->kernel->cluster == 1) {
        gpu_barrier(f);
        return;
    }
    gpu_cluster_end(f);
    f->started = true;
    gpu_call(f, "tg.cluster.arrive", 0);
    gpu_call(f, "tg.cluster.wait", 0);
    forget_closed(f);
}

void gpu_pair_barrier(GpuFn *f) {
    if (!f->kernel->together) return;
    gpu_call(f, "tg.cluster.arrive", 0);
    gpu_call(f, "tg.cluster.wait", 0);
}

void gpu_warp_sync(GpuFn *f) {
    gpu_call(f, "tg.warp.sync", 0);
}

static LLVMValueRef allocate_room(GpuFn *f, int64_t bytes, int64_t align, bool far) {
    void (*meet)(GpuFn *) = far ? gpu_program_barrier : gpu_barrier;
    if (far) gpu_cluster_started(f);
    if (f->any_stretch || (far && f->any_far)) meet(f);
    int64_t at = find_room(f, bytes, align, far), most = f->shared_bytes;
    bool grows = at + bytes > most;
    if (grows && f->stretches.n && at + bytes - f->shared_fixed > SPREAD_BYTES) {
        meet(f);
        at = find_room(f, bytes, align, far);
    }
    if (at + bytes > most) f->shared_bytes = at + bytes;
    GpuStretch used = {.lo = at, .hi = at + bytes, .open = true, .near = true};
    vec_push(f->ctx, &f->stretches, used);
    f->uses++;
    return gpu_room_at(f, gpu_room(f, "temporary", at, at + bytes), at);
}

int gpu_shared_open(const GpuFn *f) {
    int n = 0;
    for (int i = 0; i < f->stretches.n; i++) n += f->stretches.data[i].open;
    return n;
}

void gpu_shared_close(GpuFn *f, int n) {
    for (int i = 0; i < f->stretches.n; i++)
        if (f->stretches.data[i].open && n-- <= 0) f->stretches.data[i].open = false;
}

int64_t gpu_shared_room(const GpuFn *f) {
    enum { SMALL = 1024 }; // reserve for temporaries in between
    int64_t used = f->shared_fixed;
    for (int i = 0; i < f->stretches.n; i++)
        if (f->stretches.data[i].open && f->stretches.data[i].hi > used)
            used = f->stretches.data[i].hi;
    return f->target->shared_cta - used - SMALL;
}

LLVMValueRef gpu_shared_alloc(GpuFn *f, int64_t bytes, int64_t align) {
    return allocate_room(f, bytes, align, false);
}

LLVMValueRef gpu_shared_alloc_far(GpuFn *f, int64_t bytes, int64_t align) {
    return allocate_room(f, bytes, align, true);
}

GpuShared gpu_shared_state(GpuFn *f) {
    GpuShared s = {.any = f->any_stretch, .any_far = f->any_far, .uses = f->uses};
    for (int i = 0; i < f->stretches.n; i++) vec_push(f->ctx, &s.stretches, f->stretches.data[i]);
    s.order = ctx_copy(f->ctx, f->order, (size_t)f->n_classes * sizeof *f->order);
    return s;
}

void gpu_shared_restore(GpuFn *f, const GpuShared *s) {
    f->stretches.n = 0;
    f->any_stretch = f->any_far = false;
    gpu_order_forget(f);
    gpu_shared_join(f, s);
}

void gpu_shared_join(GpuFn *f, const GpuShared *s) {
    for (int i = 0; i < s->stretches.n; i++) vec_push(f->ctx, &f->stretches, s->stretches.data[i]);
    f->any_stretch |= s->any;
    f->any_far |= s->any_far;
    for (int i = 0; i < f->n_classes; i++) f->order[i].since |= s->order[i].since;
}

/* ---- addresses ----------------------------------------------------------------------------- */

LLVMValueRef gpu_shared_addr(GpuFn *f, LLVMValueRef p) {
    return gpu_call(f, "tg.shared.addr", 1, p);
}

LLVMValueRef gpu_offset(GpuFn *f, LLVMValueRef p, LLVMValueRef offset) {
    return gen_offset(f->g, p, offset);
}

LLVMValueRef gpu_offset_by(GpuFn *f, LLVMValueRef p, int64_t bytes) {
    return gen_offset(f->g, p, gen_i64(f->g, bytes));
}

GpuSharedMap gpu_shared_map(GpuFn *f, const Layout *l, const SharedLayout *s) {
    GpuSharedMap m = {.layout = l, .shared = s, .linear = true};
    F2 map = {.n = layout_thread_bits(l)};
    for (int j = 0; j < map.n; j++) {
        Bits image = l->col[l->bits[LEVEL_REG] + j];
        m.linear &= shared_image(l, s, image, &map.col[j]) != REACH_BEYOND;
        m.reaches |= map.col[j];
    }
    if (!m.linear || !m.reaches) return m;
    GpuPlace back = gpu_to_head(f);
    m.thread = gpu_image(f, gpu_thread_number(f, l->bits[LEVEL_CTA] > 0), &map);
    gpu_from_head(f, back);
    return m;
}

/// Returns the atom's map restricted to the low bits of coordinate d.
static F2 map_of_dim(const SharedLayout *s, int d) {
    int row = 0;
    F2 m = {.n = s->log2[d]};
    for (int i = d + 1; i < s->rank; i++) row += s->log2[i];
    memcpy(m.col, s->map.col + row, (size_t)m.n * sizeof *m.col);
    return m;
}

/// Computes the offset from coordinates: the atom's map applied to their low bits, plus the strides
/// of their high bits.
static LLVMValueRef offset_by_coordinates(GpuFn *f, const Layout *l, const SharedLayout *s,
                                          int64_t reg) {
    Gen *g = f->g;
    LLVMValueRef low = gpu_i32(f, 0), high = low;
    for (int d = 0; d < s->rank; d++) {
        F2 m = map_of_dim(s, d);
        LLVMValueRef x = gpu_coord(f, l, reg, d);
        LLVMValueRef in = LLVMBuildAnd(g->b, x, gpu_i32(f, (int64_t)low_bits(m.n)), "");
        if (m.n) low = LLVMBuildXor(g->b, low, gpu_image(f, in, &m), "");
        if (s->count[d] == 1) continue;
        x = LLVMBuildLShr(g->b, x, gpu_i32(f, s->log2[d]), "");
        high = gen_add(g, high, gen_mul(g, x, gpu_i32(f, s->stride[d])));
    }
    return gen_add(g, low, high);
}

/// Returns the offset of the place within its atom, for thread 0.
static int64_t offset_in_atom(const SharedLayout *s, const int64_t *coords) {
    Bits low = 0;
    for (int d = 0; d < s->rank; d++)
        low = low << s->log2[d] | ((Bits)coords[d] & low_bits(s->log2[d]));
    return (int64_t)f2_apply(&s->map, low);
}

LLVMValueRef gpu_shared_at(GpuFn *f, const GpuSharedMap *m, LLVMValueRef base, int64_t reg) {
    if (!m->linear) return gpu_offset(f, base, offset_by_coordinates(f, m->layout, m->shared, reg));
    int64_t x[MAX_RANK];
    layout_at(m->layout, reg, 0, x);
    int64_t number = shared_offset(m->shared, x);
    int64_t met = offset_in_atom(m->shared, x) & (int64_t)m->reaches;
    LLVMValueRef thread = m->thread;
    if (met) thread = LLVMBuildXor(f->g->b, thread, gpu_i32(f, met), "");
    number -= met; // bits that no thread sets can be added as an immediate
    if (thread) base = gpu_offset(f, base, thread);
    return gpu_offset_by(f, base, number);
}

/* ---- vectors ------------------------------------------------------------------------------- */

void gpu_load_vector(GpuFn *f, Elem elem, LLVMValueRef p, int n, LLVMValueRef *out) {
    Gen *g = f->g;
    LLVMTypeRef type = gen_mem_elem(g, elem);
    LLVMValueRef x = LLVMBuildLoad2(g->b, n > 1 ? LLVMVectorType(type, (unsigned)n) : type, p, "");
    LLVMSetAlignment(x, (unsigned)(elem_bytes(elem) * n));
    for (int i = 0; i < n; i++) {
        LLVMValueRef y = n > 1 ? LLVMBuildExtractElement(g->b, x, gpu_i32(f, i), "") : x;
        out[i] = gen_from_memory(g, elem, y);
    }
}

/// Stores by a row "tg.NAME.b..." of memory form: 32-bit words, or one smaller piece.
static void store_by_row(GpuFn *f, const char *name, Elem elem, LLVMValueRef at, int n,
                         LLVMValueRef *x, LLVMValueRef on) {
    LLVMValueRef args[2 + 4] = {at, on};
    int bytes = elem_bytes(elem) * n, words = gpu_to_words(f, elem, n, x, args + 2);
    if (bytes < 4) args[2] = LLVMBuildTrunc(f->g->b, args[2], f->g->i16, "");
    const char *form = words > 1 ? ctx_format(f->ctx, "tg.%s.b32x%d", name, words)
                                 : ctx_format(f->ctx, "tg.%s.b%d", name, bytes * 8);
    portable_call(f->g, form, 2 + words, args);
}

void gpu_store_vector(GpuFn *f, Elem elem, LLVMValueRef p, int n, LLVMValueRef *x) {
    Gen *g = f->g;
    LLVMTypeRef type = gen_mem_elem(g, elem);
    LLVMValueRef v = n > 1 ? LLVMGetUndef(LLVMVectorType(type, (unsigned)n)) : NULL;
    for (int i = 0; i < n; i++) {
        LLVMValueRef y = gen_to_memory(g, elem, x[i]);
        v = n > 1 ? LLVMBuildInsertElement(g->b, v, y, gpu_i32(f, i), "") : y;
    }
    LLVMSetAlignment(LLVMBuildStore(g->b, v, p), (unsigned)(elem_bytes(elem) * n));
}

void gpu_store_shared_if(GpuFn *f, Elem elem, LLVMValueRef p, int n, LLVMValueRef *x,
                         LLVMValueRef on) {
    if (on)
        store_by_row(f, "store.shared", elem, gpu_shared_addr(f, p), n, x, on);
    else
        gpu_store_vector(f, elem, p, n, x);
}

static int64_t xor_of_bits(const Bits *x, int n, int64_t which) {
    Bits sum = 0;
    for (int i = 0; i < n; i++)
        if (which >> i & 1) sum ^= x[i];
    return (int64_t)sum;
}

/// Lists the registers of vector number `which` of an access. Returns false if it holds only holes.
static bool vector_registers(const Layout *l, const SharedAccess *a, int64_t which, int64_t *regs) {
    int64_t first =
        which >> a->n_base << l->bits[LEVEL_REG] | xor_of_bits(a->base, a->n_base, which);
    bool holes = true;
    for (int64_t j = 0; j < (int64_t)1 << a->vec_bits; j++) {
        regs[j] = first ^ xor_of_bits(a->vec, a->vec_bits, j);
        holes &= gpu_always_hole(l, regs[j]);
    }
    return !holes;
}

static int64_t access_count(const Layout *l, const SharedAccess *a) {
    return layout_repeats(l) << a->n_base;
}

/// Whether s covers the whole box, so that holes have a place. Holes must then be written as well:
/// the readers' layout may have elements where the writers' has holes.
static bool covers_box(const Layout *l, const SharedLayout *s) {
    for (int d = 0; d < l->rank; d++)
        if ((int64_t)s->count[d] << s->log2[d] < layout_box(l, d)) return false;
    return true;
}

/// Whether all places, including those of holes, are inside the memory.
static bool stays_inside(const Layout *l, const SharedLayout *s) {
    for (int d = 0; d < l->rank; d++)
        if (s->count[d] > 1 && (int64_t)s->count[d] << s->log2[d] < layout_box(l, d)) return false;
    return true;
}

enum { MAX_VECTOR = 16 };

void gpu_shared_write(GpuFn *f, const Layout *l, const SharedLayout *s, const SharedAccess *a,
                      LLVMValueRef base, Elem elem, LLVMValueRef *regs) {
    GpuSharedMap m = gpu_shared_map(f, l, s);
    LLVMValueRef owner = gpu_cta_owner(f, l);
    bool covered = covers_box(l, s);
    for (int64_t i = 0; i < access_count(l, a); i++) {
        int64_t reg[MAX_VECTOR];
        LLVMValueRef x[MAX_VECTOR], on = owner;
        if (!vector_registers(l, a, i, reg) && !covered) continue;
        for (int j = 0; j < 1 << a->vec_bits; j++) x[j] = regs[reg[j]];
        if (!covered) on = gen_and(f->g, on, gpu_not_hole(f, l, reg[0]));
        gpu_store_shared_if(f, elem, gpu_shared_at(f, &m, base, reg[0]), 1 << a->vec_bits, x, on);
    }
}

/// The values that holes read are irrelevant, but their addresses must be inside the memory.
static LLVMValueRef readable_address(GpuFn *f, const Layout *l, int64_t reg, LLVMValueRef p,
                                     LLVMValueRef base) {
    LLVMValueRef good = gpu_not_hole(f, l, reg);
    return good ? LLVMBuildSelect(f->g->b, good, p, base, "") : p;
}

void gpu_shared_read(GpuFn *f, const Layout *l, const SharedLayout *s, const SharedAccess *a,
                     LLVMValueRef base, Elem elem, LLVMValueRef *regs) {
    GpuSharedMap m = gpu_shared_map(f, l, s);
    bool inside = stays_inside(l, s);
    for (int64_t i = 0; i < access_count(l, a); i++) {
        int64_t reg[MAX_VECTOR];
        LLVMValueRef x[MAX_VECTOR];
        bool some = vector_registers(l, a, i, reg);
        if (some) {
            LLVMValueRef p = gpu_shared_at(f, &m, base, reg[0]);
            if (!inside) p = readable_address(f, l, reg[0], p, base);
            gpu_load_vector(f, elem, p, 1 << a->vec_bits, x);
        }
        for (int j = 0; j < 1 << a->vec_bits; j++)
            regs[reg[j]] = some ? x[j] : LLVMConstNull(gen_elem(f->g, elem));
    }
}
