#!/bin/sh
# Links and runs the ahead-of-time example on a system that holds a C compiler and the installed
# runtime, nothing else: a fresh Debian root. Needs root, debootstrap and a network; exits 77
# without them.
# Usage: bare_root.sh BUILD SOURCE
set -eu
build=$1 source=$2
suite=${TEGULA_BARE_SUITE:-bookworm}

if [ "$(id -u)" != 0 ] || ! command -v debootstrap >/dev/null; then
    echo "left out: this test needs root and debootstrap"
    exit 77
fi
mirror=$(grep -rhoE 'https?://[^ ]+/debian/?( |$)' /etc/apt/sources.list* 2>/dev/null | head -n 1)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
debootstrap --variant=minbase --include=gcc,libc6-dev,make "$suite" "$work/root" \
    "${mirror:-http://deb.debian.org/debian}" >"$work/log" 2>&1 || {
    echo "left out: debootstrap failed: $(tail -n 1 "$work/log")"
    exit 77
}
cmake --install "$build" --prefix "$work/prefix" >/dev/null
cp -r "$source/examples/aot" "$work/root/aot"
"$work/prefix/bin/tegula" build "$work/root/aot/kernels.teg" -o "$work/root/aot/kernels.o" \
    --header "$work/root/aot/kernels.h" --prefix nn_
mkdir "$work/root/tegula"
cp -r "$work/prefix/include" "$work/root/tegula"
cp "$(find "$work/prefix" -name libtegula_rt.a)" "$work/root/tegula"
if chroot "$work/root" sh -c 'ldconfig -p | grep -q LLVM'; then
    echo "this root has LLVM"
    exit 1
fi
chroot "$work/root" make -C /aot -o kernels.o run CPPFLAGS=-I/tegula/include \
    LDLIBS='/tegula/libtegula_rt.a -lpthread -lm'
chroot "$work/root" ldd /aot/classify
