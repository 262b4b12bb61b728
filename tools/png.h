// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// PNG images as dense arrays of bytes [height, width, channels].
#ifndef TOOLS_PNG_H
#define TOOLS_PNG_H

#include <stdbool.h>
#include <stdint.h>

enum { PNG_ERROR_SIZE = 256 };

typedef struct Image {
    int64_t height, width;
    int channels;  // 1 grey, 2 grey and alpha, 3 RGB, 4 RGBA
    uint8_t *data; // free() it
} Image;

/// Palettes and 16-bit samples become 8-bit ones. On failure writes error[PNG_ERROR_SIZE].
bool png_load(const char *path, Image *out, char *error);
bool png_save(const char *path, const Image *image, char *error);

#endif
