#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Usage: sanitized.sh SOURCE BUILD PRESET TEST-REGEX TARGETS...
# Builds targets of a preset with sanitizers, below BUILD, and runs the tests that the regex names.
set -eu
source=$1 build=$2/$3 preset=$3 tests=$4
shift 4
case $preset in tsan) kind=thread ;; *) kind=address ;; esac
if ! echo 'int main(void) { return 0; }' | cc -fsanitize=$kind -x c - -o /dev/null 2>/dev/null; then
    echo "the compiler has no sanitizer for the preset $preset"
    exit 77
fi
mkdir -p "$build"
(cd "$source" && cmake --preset "$preset" -B "$build") > "$build/configure.log" 2>&1 || {
    cat "$build/configure.log"
    exit 1
}
cmake --build "$build" --target "$@" > "$build/build.log" 2>&1 || {
    tail -n 40 "$build/build.log"
    exit 1
}
exec ctest --test-dir "$build" -R "^($tests)\$" --no-tests=error --output-on-failure
