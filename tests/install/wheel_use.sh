#!/bin/sh
# Runs inside of a bare system: see wheel_root.sh. The wheel lies beside this file.
set -eu
cd "$(dirname "$0")"
if command -v cc || command -v gcc || command -v clang; then
    echo "this system has a compiler" >&2
    exit 1
fi
ldd --version | head -n 1
python3 --version
begin=$(date +%s)
python3 -m venv --system-site-packages venv
venv/bin/pip install --quiet --no-index tegula-*.whl
cat >mine.teg <<'END'
kernel scale(x: f32[M, N], y: f32[M, N], s: f32) {
    parallel m in M, n in N by 64 { y[m, n] = x[m, n] * s; }
}
END
cat >mine.py <<'END'
import numpy, tegula
x = numpy.arange(12, dtype="f4").reshape(3, 4); y = numpy.empty_like(x)
tegula.load("mine.teg").scale(x, y, 2)
assert (y == 2 * x).all(), y
print(tegula.version(), tegula.library_path)
END
venv/bin/python mine.py
echo "installed and used in $(($(date +%s) - begin)) s"

# The command, the library of kernels, a simulated GPU, an object for other machines.
PATH=$PWD/venv/bin:$PATH
tegula --version
tegula doctor
tegula run std/softmax.teg -k softmax --arg 'x=rand(64,1000)' --check
tegula run mine.teg --arg 'x=rand(4,70)' --arg s=3 --target sim:sm_90a --check
tegula build mine.teg -o mine.o --header mine.h --target aarch64
venv/bin/python - <<'END'
import os, pathlib, tegula
prefix = pathlib.Path(tegula.prefix)
for name in ("include/tegula.h", "lib/libtegula_rt.a", "lib/pkgconfig/tegula.pc",
             "share/tegula/std/norm.teg"):
    assert (prefix / name).is_file(), name
END
# Compiling in another process finds the program of the wheel.
TG_CACHE=off TG_COMPILE=process venv/bin/python mine.py

# A Python without NumPy can import the package, and says what an array must be.
python3 -m venv bare
bare/bin/pip install --quiet --no-index tegula-*.whl
bare/bin/python - <<'END'
import array, tegula
try:
    import numpy
except ImportError:
    pass
else:
    raise SystemExit("this Python has NumPy")
kernel = tegula.load("mine.teg").scale
try:
    kernel(array.array("f", range(12)), array.array("f", range(12)), 2)
except TypeError as error:
    assert "NumPy" in str(error), error
    print(error)
else:
    raise SystemExit("an array of Python's own was taken")
END
