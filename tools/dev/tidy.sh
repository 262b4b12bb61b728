#!/bin/sh
# Runs clang-tidy over all sources, or over the named ones. Takes some minutes.
#   tools/dev/tidy.sh [FILE.c ...]
set -eu
cd "$(dirname "$0")/../.."
BUILD="${BUILD:-build/clang}"
[ -f "$BUILD/compile_commands.json" ] ||
    cmake --preset clang -B "$BUILD" >/dev/null
[ $# -gt 0 ] || set -- $(git ls-files '*.c' | grep -v '^tests/\|^examples/')
printf '%s\n' "$@" | xargs -P "$(nproc)" -n 4 clang-tidy -p "$BUILD" --quiet 2>/dev/null
echo "clang-tidy: $# files without a finding"
