#!/bin/sh
# Installs the wheel of tools/release/wheel.sh on bare Debian systems, without a compiler, and runs
# kernels on NumPy arrays and from the command line. Each release has its own Python (3.9, 3.11,
# 3.13) and glibc.
# Usage: wheel_root.sh BUILD SOURCE [SUITE...]. Exits 77 if the build has no wheel.
set -eu
build=$1 source=$2
shift 2
[ $# -gt 0 ] || set -- bullseye bookworm trixie
wheel=$(ls "$build"/wheel/tegula-*-py3-none-manylinux_*.whl 2>/dev/null | head -n 1)
if [ -z "$wheel" ]; then
    echo "left out: there is no wheel: tools/release/wheel.sh $build/wheel"
    exit 77
fi
. "$source/tests/install/root.sh"
try_suite() {
    make_root "$1" python3,python3-pip,python3-venv,python3-numpy
    cp "$wheel" "$source/stdlib/softmax.teg" "$work/root/opt"
    cp "$source/tests/install/wheel_use.sh" "$work/root/opt"
    # Programs find their libraries by /proc/self/exe.
    env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root unshare --mount sh -c \
        'mount -t proc proc "$1/proc" && chroot "$1" sh /opt/wheel_use.sh' - "$work/root"
}
for suite; do
    (try_suite "$suite")
    echo "ok $suite"
done
