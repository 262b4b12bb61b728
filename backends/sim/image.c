// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The simulator as a device of the runtime: an image of kind CALL.
#include <string.h>

#include "backends/sim/private.h"

/// A failure as the runtime reports them, with the position in the source.
static int32_t fail(const tg_env *env, const char *file, int line, int column, const char *text) {
    tg_site site = {.kind = TG_SITE_REQUIRE, .line = line, .column = column, .file = file};
    char braces[2 * sizeof((SimFailure){0}.text)], *to = braces;
    // `{}` in the text of a site stands for a value; there are none.
    for (const char *s = text; *s && to < braces + sizeof braces - 1; s++)
        if (!(s[0] == '}' && s > text && s[-1] == '{')) *to++ = *s;
    *to = 0;
    site.text = braces;
    site.types = "";
    return env->fail(env, &site, NULL);
}

static int32_t dispatch(const tg_image *image, const tg_env *env, int32_t function,
                        int64_t programs, void *const *args) {
    const tg_device_function *f = &image->functions[function];
    SimRun run = {.grid = {(int32_t)programs, 1, 1},
                  .args = args,
                  .shared_bytes = f->shared_bytes,
                  .seed = sim_seed(),
                  .threads = f->threads,
                  .cluster = f->cluster};
    SimFailure failure;
    if (programs <= 0) return 0;
    if (programs > INT32_MAX) return fail(env, "", 0, 0, "a launch of more than 2^31 - 1 CTAs");
    const SimImage *code = image->user;
    if (sim_run(code, sim_find(code, f->name), &run, &failure)) return 0;
    return fail(env, failure.file, failure.line, failure.column, failure.text);
}

// By the runtime's number of the type.
static const int64_t type_bytes[] = {1, 2, 4, 4, 8, 8, 2, 4, 8, 2, 4, 4, 4};

static int swizzle_number(int bytes) {
    return bytes == 128 ? 3 : bytes == 64 ? 2 : bytes == 32 ? 1 : 0;
}

static int32_t tensormap(const tg_image *image, const tg_env *env, const tg_tensormap *how,
                         void *data, const int64_t *dims, const int64_t *strides, void *out) {
    uint64_t extents[5], steps[5];
    uint32_t box[5];
    const char *wrong = how->rank > 5 ? "a tensor map of more than 5 dimensions" : NULL;
    (void)image;
    for (int i = 0; !wrong && i < how->rank; i++) {
        int axis = how->axes[i];
        extents[i] = (uint64_t)dims[axis];
        box[i] = (uint32_t)how->box[i];
        if (i > 0) steps[i - 1] = (uint64_t)(strides[axis] * type_bytes[how->type]);
        if (i == 0 && strides[axis] != 1 && dims[axis] > 1)
            wrong = "the innermost dimension of a tensor map is not contiguous";
    }
    if (!wrong)
        wrong = sim_tensor_map(out, how->type, how->rank, data, extents, steps, box, NULL, 0,
                               swizzle_number(how->swizzle), how->fill);
    return wrong ? fail(env, "", 0, 0, wrong) : 0;
}

void sim_image_fill(SimImage *image, tg_image *out) {
    out->kind = TG_IMAGE_CALL;
    out->target = image->target->name;
    out->dispatch = dispatch;
    out->tensormap = tensormap;
    out->user = image;
}
