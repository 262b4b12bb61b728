// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// PNG images through libpng's simplified interface.
#include "tools/png.h"

#include <png.h>
#include <stdio.h>
#include <stdlib.h>

// libpng's formats, by number of channels.
static const png_uint_32 FORMATS[5] = {0, PNG_FORMAT_GRAY, PNG_FORMAT_GA, PNG_FORMAT_RGB,
                                       PNG_FORMAT_RGBA};

static bool fail_png(png_image *image, char *error) {
    snprintf(error, PNG_ERROR_SIZE, "%s", image->message);
    png_image_free(image);
    return false;
}

static int channels_of(png_uint_32 format) {
    return 1 + (format & PNG_FORMAT_FLAG_COLOR ? 2 : 0) + (format & PNG_FORMAT_FLAG_ALPHA ? 1 : 0);
}

bool png_load(const char *path, Image *out, char *error) {
    png_image image = {.version = PNG_IMAGE_VERSION};
    if (!png_image_begin_read_from_file(&image, path)) return fail_png(&image, error);
    int channels = channels_of(image.format);
    image.format = FORMATS[channels];
    uint8_t *data = malloc(PNG_IMAGE_SIZE(image) ? PNG_IMAGE_SIZE(image) : 1);
    if (!data) {
        snprintf(error, PNG_ERROR_SIZE, "out of memory");
        png_image_free(&image);
        return false;
    }
    if (!png_image_finish_read(&image, NULL, data, 0, NULL)) {
        free(data);
        return fail_png(&image, error);
    }
    *out = (Image){image.height, image.width, channels, data};
    return true;
}

bool png_save(const char *path, const Image *image, char *error) {
    if (image->channels < 1 || image->channels > 4 || image->width < 1 || image->height < 1 ||
        image->width > 1 << 20 || image->height > 1 << 20) {
        snprintf(error, PNG_ERROR_SIZE, "an image has 1 to 4 channels and at least one pixel");
        return false;
    }
    png_image out = {.version = PNG_IMAGE_VERSION,
                     .width = (png_uint_32)image->width,
                     .height = (png_uint_32)image->height,
                     .format = FORMATS[image->channels]};
    if (!png_image_write_to_file(&out, path, 0, image->data, 0, NULL)) return fail_png(&out, error);
    return true;
}
