// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Tensors in .npy and .png files. NumPy has no bf16, f8 or i4, so files hold their bits as u2 or
// u1.
#include "tools/npy.h"
#include "tools/png.h"
#include "tools/tegula/tensors.h"

#include <stdlib.h>
#include <string.h>

static bool has_suffix(const char *path, const char *suffix) {
    size_t n = strlen(path), k = strlen(suffix);
    return n >= k && strcmp(path + n - k, suffix) == 0;
}

/// Returns the element for NumPy's kind and size, or EL_COUNT.
static Elem elem_of_npy(char kind, int size) {
    static const struct {
        char kind;
        int cls;
    } kinds[] = {{'b', EC_BOOL}, {'i', EC_SINT}, {'u', EC_UINT}, {'f', EC_FLOAT}};
    for (int e = 0; e < EL_COUNT; e++) {
        if (e == EL_BF16 || elem_info[e].bits != size * 8) continue;
        for (int k = 0; k < 4; k++)
            if (kinds[k].kind == kind && elem_is((Elem)e, kinds[k].cls)) return (Elem)e;
    }
    return EL_COUNT;
}

/// Returns the kind under which an element is written: unsigned bits for types that NumPy lacks.
static char npy_kind(Elem e) {
    bool bits = e == EL_BF16 || e == EL_F8E4M3 || e == EL_F8E5M2 || elem_info[e].bits == 4;
    return bits                  ? 'u'
           : e == EL_BOOL        ? 'b'
           : elem_is(e, EC_SINT) ? 'i'
           : elem_is(e, EC_UINT) ? 'u'
                                 : 'f';
}

/// Whether a file's unsigned integers are the bits of `want`; i4 and u4 have two in a byte.
static bool is_bits_of(Elem have, Elem want) {
    if (!elem_is(have, EC_UINT)) return false;
    if (elem_info[want].bits == 4) return have == EL_U8;
    return elem_is(want, EC_FLOAT) && elem_info[want].bits <= 16 &&
           elem_info[want].bits == elem_info[have].bits;
}

static bool bad_file(const char *path, const char *text) {
    cli_error("cannot read %s: %s", path, text);
    return false;
}

/// Gives the dense array in `raw` the element `want`, by its bits or by conversion.
static bool convert_elements(Ctx *ctx, const char *path, Elem want, bool guard, Tensor *raw,
                             Tensor *out) {
    if (is_bits_of(raw->elem, want)) {
        *out = *raw;
        out->elem = want;
        if (elem_info[want].bits != 4) return true;
        if (raw->rank == 0) return bad_file(path, "packed 4-bit elements need a dimension");
        for (int i = 0; i < raw->rank; i++) {
            bool last = i == raw->rank - 1;
            out->extents[i] *= last ? 2 : 1;
            out->strides[i] *= last ? 1 : 2;
        }
        return true;
    }
    if (!tensor_create(ctx, want, raw->rank, raw->extents, guard, out)) return false;
    tensor_copy(out, raw);
    return true;
}

/// Reverses extents and strides of a dense row-major tensor: its data is column-major.
static void make_fortran(Tensor *t, const int64_t *shape) {
    int64_t stride = 1;
    for (int i = 0; i < t->rank; i++) {
        t->extents[i] = shape[i];
        t->strides[i] = stride;
        stride *= shape[i] > 0 ? shape[i] : 1;
    }
}

/// Copies the array to our own memory, which may be guarded and outlives the file.
static bool from_npy(Ctx *ctx, const char *path, bool guard, const Npy *a, Tensor *raw) {
    Elem elem = elem_of_npy(a->kind, a->size);
    if (elem == EL_COUNT) return bad_file(path, "its element type is not supported");
    if (!tensor_create(ctx, elem, a->rank, a->shape, guard, raw)) return false;
    memcpy(raw->data, a->data, a->bytes);
    if (a->fortran) make_fortran(raw, a->shape);
    return true;
}

/// The context releases npy.c's allocations on every path.
static bool read_npy(Ctx *ctx, const char *path, bool guard, Tensor *raw) {
    Npy *a = ctx_new(ctx, Npy);
    char error[NPY_ERROR_SIZE];
    if (!npy_read(path, a, error)) return bad_file(path, error);
    ctx_defer(ctx, free, a->data);
    return from_npy(ctx, path, guard, a, raw);
}

static bool read_png(Ctx *ctx, const char *path, bool guard, Tensor *raw) {
    Image *image = ctx_new(ctx, Image);
    char error[PNG_ERROR_SIZE];
    if (!png_load(path, image, error)) return bad_file(path, error);
    ctx_defer(ctx, free, image->data);
    int64_t extents[3] = {image->height, image->width, image->channels};
    if (!tensor_create(ctx, EL_U8, image->channels > 1 ? 3 : 2, extents, guard, raw)) return false;
    memcpy(raw->data, image->data, (size_t)(extents[0] * extents[1] * extents[2]));
    return true;
}

bool tensor_read(Ctx *ctx, const char *path, Elem want, bool bits_only, bool guard, Tensor *out) {
    Tensor raw;
    bool png = has_suffix(path, ".png");
    if (!(png ? read_png : read_npy)(ctx, path, guard, &raw)) return false;
    *out = raw;
    if (want == EL_COUNT || want == raw.elem) return true;
    if (bits_only && !is_bits_of(raw.elem, want)) return true;
    return convert_elements(ctx, path, want, guard, &raw, out);
}

/* ---- writing ------------------------------------------------------------------------------- */

static bool bad_write(const char *path, const char *text) {
    cli_error("cannot write %s: %s", path, text);
    return false;
}

/// f32 images hold 0 .. 1, u8 images 0 .. 255.
static bool write_png(Ctx *ctx, const char *path, const Tensor *t) {
    bool is_float = elem_is(t->elem, EC_FLOAT);
    if ((t->rank != 2 && t->rank != 3) || (!is_float && t->elem != EL_U8))
        return bad_write(path,
                         "an image is u8 or float, [height, width] or [height, width, channels]");
    int64_t channels = t->rank == 3 ? t->extents[2] : 1;
    if (channels > 4) return bad_write(path, "an image has at most 4 channels");
    int64_t count = tensor_count(t);
    uint8_t *data = ctx_alloc(ctx, (size_t)count + 1);
    Walk w = {0};
    for (int64_t i = 0; i < count; i++, walk_next(t, &w)) {
        Cell c = cell_load(t->elem, t->data, w.offset);
        if (is_float) c = cell_cast(EL_F64, EL_U8, (Cell){.f = c.f > 1 ? 255 : c.f * 255 + 0.5});
        data[i] = (uint8_t)c.u;
    }
    char error[PNG_ERROR_SIZE];
    Image image = {t->extents[0], t->extents[1], (int)channels, data};
    return png_save(path, &image, error) ? true : bad_write(path, error);
}

/// Writes a view's elements in row-major order. Two 4-bit elements share a byte along the last
/// dimension.
static bool write_npy(Ctx *ctx, const char *path, const Tensor *t) {
    Tensor dense;
    int bits = elem_info[t->elem].bits;
    if (!tensor_create(ctx, t->elem, t->rank, t->extents, false, &dense)) return false;
    tensor_copy(&dense, t);
    Npy a = {.kind = npy_kind(t->elem), .size = bits < 8 ? 1 : bits / 8, .rank = t->rank};
    memcpy(a.shape, t->extents, sizeof a.shape);
    if (bits == 4 && t->rank > 0) {
        if (t->extents[t->rank - 1] % 2) return bad_write(path, "its rows end within a byte");
        a.shape[t->rank - 1] /= 2;
    }
    a.data = dense.data;
    a.bytes = (size_t)(tensor_count(t) * bits + 7) / 8;
    char error[NPY_ERROR_SIZE];
    return npy_write(path, &a, error) ? true : bad_write(path, error);
}

bool tensor_write(Ctx *ctx, const char *path, const Tensor *t) {
    if (has_suffix(path, ".png")) return write_png(ctx, path, t);
    if (has_suffix(path, ".npy")) return write_npy(ctx, path, t);
    return bad_write(path, "its name must end in .npy or .png");
}
