#!/bin/sh
# Installs missing packages, configures once, and builds everything or the named targets. BUILD
# (default build/) is the build folder.
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
build=${BUILD:-$root/build}

"$root/tools/dev/setup.sh"
if [ ! -f "$build/build.ninja" ]; then
    log=$build/configure.log
    mkdir -p "$build"
    (cd "$root" && cmake --preset "${PRESET:-default}" -B "$build") >"$log" 2>&1 || {
        cat "$log" >&2
        exit 1
    }
fi
if [ $# -gt 0 ]; then set -- --target "$@"; fi
cmake --build "$build" "$@"
