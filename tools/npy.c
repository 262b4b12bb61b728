// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// NPY reading and writing. A file is the magic "\x93NUMPY", two version bytes, the length of the
// header (2 bytes, from version 2 on 4), the header, then the elements. The header is a Python
// dictionary: {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }.
#include "tools/npy.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char MAGIC[6] = {'\x93', 'N', 'U', 'M', 'P', 'Y'};
enum { MAX_HEADER = 1 << 16, HEADER_ALIGN = 64 };

/// Writes the message and returns false, so that callers can end with `return fail_npy(...)`.
static bool fail_npy(char *error, const char *text) {
    snprintf(error, NPY_ERROR_SIZE, "%s", text);
    return false;
}

static bool is_big_endian_host(void) {
    const uint16_t one = 1;
    return *(const uint8_t *)&one == 0;
}

/// Returns the text after 'key': in the dictionary, or NULL.
static const char *find_key(const char *header, const char *key) {
    size_t n = strlen(key);
    for (const char *p = header; (p = strstr(p, key)); p += n) {
        char quote = p > header ? p[-1] : 0;
        if ((quote != '\'' && quote != '"') || p[n] != quote) continue;
        p += n + 1;
        while (*p == ' ') p++;
        if (*p != ':') return NULL;
        p++;
        while (*p == ' ') p++;
        return p;
    }
    return NULL;
}

/// Parses '<f4': byte order, kind, size. `|` is for elements of one byte, `=` for the host's order.
/// Structured types, complex numbers and strings are refused.
static bool parse_descr(const char *p, Npy *a, bool *swap, char *error) {
    if (!p || (*p != '\'' && *p != '"'))
        return fail_npy(error, "the array is not one of plain numbers");
    char order = p[1];
    a->kind = p[2];
    a->size = isdigit((unsigned char)p[3]) ? atoi(p + 3) : 0;
    bool known = a->size == 1 ? strchr("biu", a->kind) != NULL
                              : (a->size == 2 || a->size == 4 || a->size == 8) && a->kind &&
                                    strchr("iuf", a->kind) != NULL;
    if (!a->kind || !known || !order || !strchr("<>|=", order)) {
        int n = (int)strcspn(p + 1, "'\"");
        snprintf(error, NPY_ERROR_SIZE, "element type '%.*s' is not supported", n > 40 ? 40 : n,
                 p + 1);
        return false;
    }
    *swap = a->size > 1 && order == (is_big_endian_host() ? '<' : '>');
    return true;
}

/// Parses a Python tuple: `()`, `(3,)`, `(3, 4)`. The product of the nonzero extents must fit
/// int64, so that strides of empty arrays cannot overflow either.
static bool parse_shape(const char *p, Npy *a, char *error) {
    if (!p || *p++ != '(') return fail_npy(error, "the header has no shape");
    uint64_t count = 1;
    bool empty = false;
    for (;;) {
        while (*p == ' ' || *p == ',') p++;
        if (*p == ')') break;
        if (!isdigit((unsigned char)*p)) return fail_npy(error, "the shape is malformed");
        if (a->rank == NPY_MAX_RANK) return fail_npy(error, "more than 8 dimensions");
        char *end;
        errno = 0;
        long long n = strtoll(p, &end, 10);
        if (errno || (n && count > (uint64_t)INT64_MAX / (uint64_t)n / (uint64_t)a->size))
            return fail_npy(error, "the shape is too large");
        p = end + (*end == 'L'); // Python 2 wrote 3L
        if (n) count *= (uint64_t)n;
        empty |= n == 0;
        a->shape[a->rank++] = n;
    }
    a->bytes = empty ? 0 : (size_t)count * (size_t)a->size;
    return true;
}

static void swap_bytes(uint8_t *data, size_t bytes, int size) {
    for (size_t i = 0; i < bytes; i += (size_t)size) {
        for (int lo = 0, hi = size - 1; lo < hi; lo++, hi--) {
            uint8_t t = data[i + (size_t)lo];
            data[i + (size_t)lo] = data[i + (size_t)hi];
            data[i + (size_t)hi] = t;
        }
    }
}

/// Reads the header text, NUL-terminated, into header[MAX_HEADER + 1].
static bool read_npy_header(FILE *f, char *header, char *error) {
    unsigned char start[12];
    if (fread(start, 1, 8, f) != 8 || memcmp(start, MAGIC, sizeof MAGIC) != 0)
        return fail_npy(error, "not a .npy file");
    int major = start[6];
    if (major < 1 || major > 3) return fail_npy(error, "unknown version of the .npy format");
    size_t width = major == 1 ? 2 : 4, len = 0;
    if (fread(start + 8, 1, width, f) != width) return fail_npy(error, "the file is cut short");
    for (size_t i = width; i-- > 0;) len = len << 8 | start[8 + i];
    if (len > MAX_HEADER) return fail_npy(error, "the header is too long");
    if (fread(header, 1, len, f) != len) return fail_npy(error, "the file is cut short");
    header[len] = 0;
    return true;
}

/// Checks the whole header before it allocates the memory that the header claims.
static bool read_array(FILE *f, char *header, Npy *a, char *error) {
    bool swap;
    if (!read_npy_header(f, header, error)) return false;
    const char *order = find_key(header, "fortran_order");
    if (!parse_descr(find_key(header, "descr"), a, &swap, error)) return false;
    if (!parse_shape(find_key(header, "shape"), a, error)) return false;
    if (!order) return fail_npy(error, "the header has no fortran_order");
    a->fortran = strncmp(order, "True", 4) == 0;
    a->data = malloc(a->bytes ? a->bytes : 1);
    if (!a->data) return fail_npy(error, "out of memory");
    if (fread(a->data, 1, a->bytes, f) != a->bytes) {
        free(a->data);
        a->data = NULL;
        return fail_npy(error, "the file is cut short");
    }
    if (swap) swap_bytes(a->data, a->bytes, a->size);
    return true;
}

bool npy_read(const char *path, Npy *out, char *error) {
    *out = (Npy){0};
    FILE *f = fopen(path, "rb");
    if (!f) return fail_npy(error, strerror(errno));
    char *header = malloc(MAX_HEADER + 1);
    bool ok = header ? read_array(f, header, out, error) : fail_npy(error, "out of memory");
    free(header);
    fclose(f);
    return ok;
}

/// Formats the dictionary, padded so that the elements start at a multiple of HEADER_ALIGN.
static size_t format_header(char *out, size_t cap, const Npy *a) {
    char order = a->size == 1 ? '|' : is_big_endian_host() ? '>' : '<';
    size_t n = (size_t)snprintf(out, cap, "{'descr': '%c%c%d', 'fortran_order': %s, 'shape': (",
                                order, a->kind, a->size, a->fortran ? "True" : "False");
    for (int i = 0; i < a->rank; i++)
        n += (size_t)snprintf(out + n, cap - n, "%" PRId64 "%s", a->shape[i],
                              i + 1 < a->rank ? ", "
                              : a->rank == 1  ? ","
                                              : "");
    n += (size_t)snprintf(out + n, cap - n, "), }");
    size_t fixed = sizeof MAGIC + 4;
    while ((fixed + n + 1) % HEADER_ALIGN) out[n++] = ' ';
    out[n++] = '\n';
    return n;
}

/// Returns false with errno set.
static bool write_to(const char *path, const Npy *a) {
    char header[512];
    size_t n = format_header(header, sizeof header - HEADER_ALIGN, a);
    const unsigned char start[4] = {1, 0, (unsigned char)(n & 255), (unsigned char)(n >> 8)};
    FILE *f = fopen(path, "wb");
    if (!f) return false;
    bool ok = fwrite(MAGIC, 1, sizeof MAGIC, f) == sizeof MAGIC && fwrite(start, 1, 4, f) == 4 &&
              fwrite(header, 1, n, f) == n &&
              (!a->bytes || fwrite(a->data, 1, a->bytes, f) == a->bytes);
    int reason = errno;
    bool closed = fclose(f) == 0;
    if (!ok) errno = reason;
    return ok && closed;
}

/// Replaces an existing file only after all data has been written. A link, a pipe or a device is
/// written directly.
bool npy_write(const char *path, const Npy *a, char *error) {
    char beside[PATH_MAX];
    struct stat s;
    bool other = lstat(path, &s) == 0 && !S_ISREG(s.st_mode);
    int n = snprintf(beside, sizeof beside, "%s.tmp%ld", path, (long)getpid());
    if (other || n >= (int)sizeof beside)
        return write_to(path, a) ? true : fail_npy(error, strerror(errno));
    if (write_to(beside, a) && rename(beside, path) == 0) return true;
    fail_npy(error, strerror(errno));
    unlink(beside);
    return false;
}
