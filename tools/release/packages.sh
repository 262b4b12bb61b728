#!/bin/sh
# Makes Debian's packages and the archive of a release, for glibc 2.28 and later, with LLVM inside.
#
#     tools/release/packages.sh [FOLDER]     FOLDER: for the build and the files; default:
#                                            build/packages
set -eu
source=$(cd "$(dirname "$0")/../.." && pwd)
out=${1:-$source/build/packages}
mkdir -p "$out"
out=$(cd "$out" && pwd)
cmake -G Ninja -S "$source" -B "$out/build" -DCMAKE_BUILD_TYPE=Release -DTEGULA_GLIBC=2.28 \
    -DTEGULA_STATIC_LLVM=ON -DTEGULA_ONE_LLVM=ON -DCMAKE_INSTALL_LIBDIR=lib
cmake --build "$out/build" --target tegula tegula_pages tegula_shared tegula_rt_shared \
    tegula_rt_static
rm -f "$out"/*.deb "$out"/*.tar.gz
"$source/tools/release/notices.sh" "$out/build/gen/third-party"
(cd "$out/build" && cpack -B "$out")
rm -rf "$out/_CPack_Packages"
ls -l "$out"/*.deb "$out"/*.tar.gz
