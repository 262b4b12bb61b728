#!/bin/sh
# Links and runs the ahead-of-time example on a system with only a C compiler and the installed
# runtime: a fresh Debian root (root.sh). Usage: bare_root.sh BUILD SOURCE
set -eu
build=$1 source=$2
. "$source/tests/install/root.sh"
make_root "${TEGULA_BARE_SUITE:-bookworm}" gcc,libc6-dev,make

cmake --install "$build" --prefix "$work/prefix" >/dev/null
cp -r "$source/examples/aot" "$work/root/aot"
"$work/prefix/bin/tegula" build "$work/root/aot/kernels.teg" -o "$work/root/aot/kernels.o" \
    --header "$work/root/aot/kernels.h" --prefix nn_
mkdir "$work/root/tegula"
cp -r "$work/prefix/include" "$work/root/tegula"
cp "$(find "$work/prefix" -name libtegula_rt.a)" "$work/root/tegula"
chroot "$work/root" make -C /aot -o kernels.o run CPPFLAGS=-I/tegula/include \
    LDLIBS='/tegula/libtegula_rt.a -lpthread -ldl -lm'
chroot "$work/root" ldd /aot/classify
