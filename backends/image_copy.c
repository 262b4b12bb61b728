// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Images in one allocation, so that they outlive the context that made them:
//
//     tg_image, functions, sites, pointers to the sites, names and texts, bytes of code
#include <stdlib.h>
#include <string.h>

#include "backends/backend.h"

/// Counts the bytes while `at` is NULL, then copies.
typedef struct ImagePieces {
    char *at;
    size_t n;
} ImagePieces;

enum { ALIGNMENT = 16 };

static void *put_piece_bytes(ImagePieces *p, const void *data, size_t bytes) {
    char *to = p->at ? p->at + p->n : NULL;
    if (to && bytes) memcpy(to, data, bytes);
    p->n += (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    return to;
}

static const char *put_text(ImagePieces *p, const char *text) {
    return text ? put_piece_bytes(p, text, strlen(text) + 1) : NULL;
}

static void put_functions(ImagePieces *p, const tg_image *from, tg_image *to) {
    size_t n = (size_t)from->n_functions;
    tg_device_function *all = put_piece_bytes(p, from->functions, n * sizeof *all);
    for (size_t i = 0; i < n; i++) {
        const char *name = put_text(p, from->functions[i].name);
        if (all) all[i].name = name;
    }
    to->functions = all;
}

static void put_sites(ImagePieces *p, const tg_image *from, tg_image *to) {
    size_t n = (size_t)from->n_sites;
    const tg_site **list = put_piece_bytes(p, from->sites, n * sizeof *list);
    for (size_t i = 0; i < n; i++) {
        const tg_site *site = from->sites[i];
        tg_site *copy = put_piece_bytes(p, site, sizeof *copy);
        const char *file = put_text(p, site->file), *text = put_text(p, site->text);
        const char *types = put_text(p, site->types);
        if (!copy) continue;
        copy->file = file;
        copy->text = text;
        copy->types = types;
        list[i] = copy;
    }
    to->sites = list;
}

/// Fills in all of `to` except its own location.
static void put_all(ImagePieces *p, const tg_image *from, tg_image *to) {
    *to = *from;
    to->state = NULL;
    put_piece_bytes(p, from, sizeof *from);
    put_functions(p, from, to);
    put_sites(p, from, to);
    to->target = put_text(p, from->target);
    to->bytes = put_piece_bytes(p, from->bytes, from->size);
}

tg_image *image_copy(const tg_image *image) {
    tg_image filled;
    ImagePieces p = {NULL, 0};
    put_all(&p, image, &filled);
    p.at = calloc(1, p.n);
    p.n = 0;
    if (!p.at) return NULL;
    put_all(&p, image, &filled);
    memcpy(p.at, &filled, sizeof filled);
    return (tg_image *)p.at;
}

static char *copy_image_text(const char *text) {
    return text ? strdup(text) : NULL;
}

bool code_take_image(Code *code, const DeviceCode *device) {
    code->image = image_copy(&device->image);
    if (!code->image) {
        tg_image image = device->image;
        if (device->close) device->close(&image);
        return false;
    }
    code->close = device->close;
    code->times = device->times;
    if (device->llvm) {
        free(code->llvm);
        code->llvm = copy_image_text(device->llvm);
    }
    if (device->assembly) {
        free(code->assembly);
        code->assembly = copy_image_text(device->assembly);
    }
    return (!device->llvm || code->llvm) && (!device->assembly || code->assembly);
}
