#!/bin/sh
# Makes the wheel tegula-VERSION-py3-none-manylinux_2_28_x86_64.whl, for `pip install` on any Linux
# of the last years: the Python package, the command, the libraries with LLVM, the C headers. It has
# no extension module, so it serves every Python 3.
#
#     tools/release/wheel.sh [FOLDER]      FOLDER: for the build and the wheel; default: build/wheel
#
# It needs what tools/dev/setup.sh --dev installs, setuptools, and auditwheel (`pip install
# auditwheel`) with patchelf. TEGULA_PYTHON names the Python that has them (default: python3).
set -eu
source=$(cd "$(dirname "$0")/../.." && pwd)
out=${1:-$source/build/wheel}
python=${TEGULA_PYTHON:-python3}
glibc=2.28 # of RHEL 8, Debian 10
platform=manylinux_$(echo $glibc | tr . _)_$(uname -m)
mkdir -p "$out"
out=$(cd "$out" && pwd)
build=$out/build root=$out/root package=$out/package
# The script removes files in FOLDER, so it refuses a folder with files that it did not make.
for file in "$out"/* "$out"/.[!.]* "$out"/..?*; do
    case ${file#"$out"/} in
    build | setup.log | tegula-*.whl) continue ;;
    root | package) grep -qs '^TEGULA_GLIBC' "$build/CMakeCache.txt" && continue ;;
    esac
    [ -e "$file" ] || [ -L "$file" ] || continue
    echo "wheel.sh: $out holds ${file##*/}, which is not of this script: name an empty folder" >&2
    exit 1
done

# One copy of LLVM for the library and the program.
cmake -G Ninja -S "$source" -B "$build" -DCMAKE_BUILD_TYPE=Release -DTEGULA_GLIBC=$glibc \
    -DTEGULA_STATIC_LLVM=ON -DTEGULA_ONE_LLVM=ON -DCMAKE_INSTALL_LIBDIR=lib
cmake --build "$build" --target tegula tegula_pages tegula_shared tegula_rt_shared \
    tegula_rt_static

rm -rf "$root" "$package"
for component in runtime dev tools; do
    cmake --install "$build" --prefix "$root" --strip --component $component
done
strip --strip-debug "$root"/lib/*.a
# A wheel has no links: a library is stored under its soname, and a linker's script has the short
# name.
for real in "$root"/lib/lib*.so.*.*.*; do
    soname=${real%.*.*}
    mv "$real" "$soname"
    echo "INPUT($(basename "$soname"))" >"${soname%.*}.new"
    mv "${soname%.*}.new" "${soname%.*}"
done
"$source/tools/release/notices.sh" "$root/share/doc/tegula/third-party"

cp -r "$source/python" "$package"
rm -rf "$package/build" "$package"/*.egg-info
cp "$source/LICENSE" "$package"
rm -f "$out"/tegula-*.whl
(cd "$package" && TEGULA_PREFIX=$root "$python" setup.py -q bdist_wheel --plat-name "$platform" \
    --dist-dir "$out" 2>"$out/setup.log") || {
    cat "$out/setup.log" >&2
    exit 1
}
wheel=$(ls "$out"/tegula-*-py3-none-"$platform".whl)
"$python" "$source/tools/release/check_wheel.py" "$wheel" --glibc $glibc
ls -l "$wheel"
