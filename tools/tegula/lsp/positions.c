// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Places in texts. Editors count lines and UTF-16 code units, the compiler lines and bytes. Both
// meet at byte offsets.
#include "tools/tegula/lsp/lsp.h"

#include <string.h>

void text_map(Ctx *ctx, TextMap *map, const char *text, size_t n) {
    *map = (TextMap){.text = text, .n = n};
    vec_push(ctx, &map->lines, 0);
    vec_push(ctx, &map->rows, 0);
    for (size_t i = 0; i < n; i++) {
        bool end = text[i] == '\n';
        if (end) vec_push(ctx, &map->rows, i + 1);
        if (end || (text[i] == '\r' && !(i + 1 < n && text[i + 1] == '\n')))
            vec_push(ctx, &map->lines, i + 1);
    }
}

/// The UTF-16 code units of the character that begins with this byte; 0: no character begins.
static int code_units(char byte) {
    unsigned char c = (unsigned char)byte;
    return (c & 0xc0) == 0x80 ? 0 : c >= 0xf0 ? 2 : 1;
}

/// The end of a line without its line break.
static size_t line_end(const TextMap *map, int line) {
    size_t end = line + 1 < map->lines.n ? map->lines.data[line + 1] : map->n;
    while (end > map->lines.data[line] && line + 1 < map->lines.n &&
           (map->text[end - 1] == '\n' || map->text[end - 1] == '\r'))
        end--;
    return end;
}

size_t map_offset(const TextMap *map, Position p) {
    if (p.line < 0) return 0;
    if (p.line >= map->lines.n) return map->n;
    size_t at = map->lines.data[p.line], end = line_end(map, (int)p.line);
    for (int64_t units = 0; at < end; at++) {
        int more = code_units(map->text[at]);
        if (more && units + more > p.character) break;
        units += more;
    }
    return at;
}

Position map_position(const TextMap *map, size_t offset) {
    if (offset > map->n) offset = map->n;
    int low = 0, high = map->lines.n;
    while (high - low > 1) {
        int middle = (low + high) / 2;
        if (map->lines.data[middle] <= offset)
            low = middle;
        else
            high = middle;
    }
    Position p = {low, 0};
    for (size_t i = map->lines.data[low]; i < offset; i++) p.character += code_units(map->text[i]);
    return p;
}

size_t map_begin(const TextMap *map, Loc loc) {
    if (!loc.line || loc.line > (uint32_t)map->rows.n) return loc.line ? map->n : 0;
    size_t at = map->rows.data[loc.line - 1] + (loc.col ? loc.col - 1u : 0);
    return at < map->n ? at : map->n;
}

size_t map_end(const TextMap *map, Loc loc) {
    size_t end = map_begin(map, loc) + loc.len;
    return end < map->n ? end : map->n;
}

json_t *json_position(Position p) {
    return json_pack("{s:I,s:I}", "line", (json_int_t)p.line, "character", (json_int_t)p.character);
}

json_t *json_range(const TextMap *map, size_t begin, size_t end) {
    return json_pack("{s:o,s:o}", "start", json_position(map_position(map, begin)), "end",
                     json_position(map_position(map, end)));
}

json_t *json_range_of(const TextMap *map, Loc loc) {
    return json_range(map, map_begin(map, loc), map_end(map, loc));
}

bool json_read_position(const json_t *j, Position *out) {
    const json_t *line = json_object_get(j, "line"), *character = json_object_get(j, "character");
    if (!json_is_integer(line) || !json_is_integer(character)) return false;
    *out = (Position){json_integer_value(line), json_integer_value(character)};
    return true;
}
