#!/bin/sh
# Installs the missing ones of the Debian packages that the build and the tests need, as root or
# through sudo. `setup.sh --dev` adds packages for developers.
set -eu

build="ca-certificates gcc libc6-dev cmake ninja-build ccache flex bison llvm-22-dev libpng-dev
       libsqlite3-dev libxxhash-dev libjansson-dev"
tests="llvm-22-tools libcmocka-dev python3 python3-numpy universal-ctags git g++ make pkg-config
       binutils gcc-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user"
amdgpu="lld-22 libamd-comgr-dev" # linkers for AMD code objects
comm="libopenmpi-dev openmpi-bin" # OpenSHMEM
bench="libopenblas-dev libdnnl-dev"
bundle="libzstd-dev zlib1g-dev zstd" # static libraries for `--target bundle`
dev="$bundle clang clang-format clang-tidy libclang-rt-14-dev gdb"

wanted="$build $tests $amdgpu $comm $bench"
[ "${1:-}" = --dev ] && wanted="$wanted $dev"

if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
    echo "setup: no apt-get here; these Debian packages are needed, under your system's names:"
    echo $wanted
    exit 0
fi

missing=
for p in $wanted; do
    dpkg-query -W -f='${Status}' "$p" 2>/dev/null | grep -q '^install ok installed' ||
        missing="$missing $p"
done
[ -n "$missing" ] || exit 0

as_root=
if [ "$(id -u)" != 0 ]; then
    command -v sudo >/dev/null || {
        echo "setup: please install as root:$missing" >&2
        exit 1
    }
    as_root=sudo
fi
apt() {
    $as_root env DEBIAN_FRONTEND=noninteractive apt-get -qq -o Dpkg::Use-Pty=0 "$@"
}

echo "setup: installing$missing"
apt update
# LLVM 22 came to Debian 12 with a security update. A bare system may not list that archive; it is
# beside the listed one.
if ! apt-cache show llvm-22-dev >/dev/null 2>&1; then
    . /etc/os-release
    mirror=$(grep -rhoE 'https?://[^ ]+/debian/?( |$)' /etc/apt/sources.list* | head -n 1)
    if [ "${VERSION_CODENAME:-}" = bookworm ] && [ -n "$mirror" ]; then
        list=/etc/apt/sources.list.d/bookworm-security.list
        echo "setup: adding $list for LLVM 22"
        echo "deb ${mirror%/debian*}/debian-security bookworm-security main" |
            $as_root tee "$list" >/dev/null
        apt update
    else
        echo "setup: no package llvm-22-dev here; see https://apt.llvm.org" >&2
        exit 1
    fi
fi
apt install -y --no-install-recommends $missing >/dev/null
