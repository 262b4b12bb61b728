#!/bin/sh
# Unpacks the bundle of a build on an older system, a fresh Debian root (root.sh). The program runs
# its tests there. Programs are linked there with an object, with the runtime's libraries and with
# the compiler's. Usage: bundle_root.sh BUILD SOURCE. Exits 77 if the build has no bundle.
set -eu
build=$1 source=$2
bundle=$(ls "$build"/tegula-*.tar.zst 2>/dev/null | head -n 1)
if [ -z "$bundle" ]; then
    echo "left out: there is no bundle: cmake --build $build --target bundle"
    exit 77
fi
. "$source/tests/install/root.sh"
make_root "${TEGULA_BUNDLE_SUITE:-bullseye}" gcc,libc6-dev,python3,python3-numpy

tar -C "$work/root/opt" --zstd -xf "$bundle"
mv "$work/root/opt"/tegula-* "$work/root/opt/tegula"
cat >"$work/root/opt/main.c" <<'END'
#include "softmax.h"
#include <math.h>
int main(void) {
    float x[4] = {1, 2, 3, 4}, y[4];
    return softmax_f32(x, y, 1, 4) != TG_OK || fabsf(y[0] + y[1] + y[2] + y[3] - 1) > 1e-6f;
}
END
cat >"$work/root/opt/check.sh" <<'END'
set -eux
cd /opt
export TG_CACHE=off TG_TUNE=off LD_LIBRARY_PATH=/opt/tegula/lib
ldd --version | head -n 1
tegula=tegula/bin/tegula
$tegula --version
$tegula run std/softmax.teg -k softmax --arg 'x=rand(64,1000)' --check
$tegula run std/softmax.teg -k softmax --arg 'x=rand(64,1000)' --target sim:sm_90a --check
for file in std_softmax exact comm; do
    python3 tegula/tests/run/run.py --target cpu --tegula $tegula tegula/tests/run/$file.py
done
$tegula build tegula/stdlib/softmax.teg -o softmax.o --header softmax.h --export 'softmax<f32>'
cc main.c softmax.o -Itegula/include tegula/lib/libtegula_rt.a -lpthread -ldl -lm -o with-archive
./with-archive
cc main.c softmax.o -Itegula/include -Ltegula/lib -ltegula_rt -lm -o with-library
./with-library
cc -std=c11 tegula/examples/jit/main.c -Itegula/include -Ltegula/lib -ltegula -lm -o jit
./jit tegula/stdlib/softmax.teg
TG_COMPILE=process ./jit tegula/stdlib/softmax.teg
END
chroot "$work/root" sh /opt/check.sh
