# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The Python package on NumPy arrays and DLPack, against NumPy.

Environment: PYTHONPATH (python/), TEGULA_LIBRARY. Usage: python_test.py [unittest's arguments].
"""

import ctypes
import gc
import os
import pathlib
import subprocess
import sys
import tempfile
import threading
import types
import unittest

import numpy as np
import tegula

try:
    import ml_dtypes
except ImportError:
    ml_dtypes = None

ROOT = pathlib.Path(__file__).resolve().parents[2]
SOURCE = """
kernel scale<T: any>(x: T[..N], y: T[..N], c: f32, add: T[..N]?) tune B = 64 | 256 {
    parallel n in N by B {
        var v = x[n] as f32 * c;
        if add { v += add[n] as f32; }
        y[n] = v as T;
    }
}
kernel power(x: f64[N], y: f64[N], n: const i64) {
    parallel i in N by 16 {
        var p: f64<16> = 1;
        for k in n { p *= x[i]; }
        y[i] = p;
    }
}
kernel unpack(x: i4[M, N], y: i32[M, N]) {
    parallel m in M, n in N by 16 { y[m, n] = x[m, n] as i32; }
}
kernel flags(x: bool[N], y: i32[N], all: bool, big: u64) {
    parallel n in N by 16 { y[n] = x[n] || all ? (big >> 60) as i32 : 0; }
}
kernel wide<T: f64 | u64 | i64>(x: T[N], y: T[N], c: T) {
    parallel n in N by 16 { y[n] = x[n] * c; }
}
kernel hello(n: i32) { parallel { print("n is", n); } }
kernel total(x: f32[..N], y: f32[]) {
    parallel { var s: f32 = 0; for n in N by 64 { s += sum(x[n]); } y[] = s; }
}
"""
COUNTED = """
kernel counted(q: f16[M, 64], k: f16[N, 64], v: f16[N, 64], o: f32[M, 64]) schedule warps = 4 {
    parallel m in M by 64 {
        var acc: f32<64, 64> = 0;
        for n in N by 64 { acc += dot(dot(q[m, :], trans(k[n, :])) as f16, v[n, :]); }
        o[m, :] = acc;
    }
}
"""


class Arrays(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.m = tegula.source(SOURCE, "python.teg")

    def check_scale(self, x, y, add=None):
        self.m.scale(x, y, 2, add)
        want = 2 * x.astype("f8") + (0 if add is None else add.astype("f8"))
        np.testing.assert_array_equal(y.astype("f8"), want)

    def test_types(self):
        for name in "f2 f4 f8 i1 i2 i4 i8 u1 u2 u4 u8".split():
            x = np.arange(24).reshape(2, 3, 4).astype(name)
            self.check_scale(x, np.zeros_like(x))
            self.check_scale(x, np.zeros_like(x), x[::-1])

    def test_views(self):
        whole = np.arange(4000, dtype="f4").reshape(10, 20, 20)
        out = np.zeros((40, 40, 40), "f4")
        views = [
            whole[:, ::2, 3:7],
            whole.transpose(2, 0, 1),
            whole[::-1, ::-3, ::-1],
            np.broadcast_to(whole[0, 0], (5, 20)),
            whole[3:3],
            whole[2, 3, 4],
            whole[:, :1, :1],
        ]
        for x in views:
            x = np.asarray(x)
            if x.ndim:
                x = x.view()
                self.check_scale(x, np.empty(x.shape, "f4"))
            for target in (out[tuple(slice(n) for n in x.shape)] if x.ndim == 3 else None,):
                if target is not None:
                    self.check_scale(x, target)
        for shape in ((), (1,), (0,), (1, 1, 1), (2, 1, 3)):
            x = np.ones(shape, "f4")
            self.check_scale(x, np.empty(shape, "f4"))

    def test_in_place(self):
        x = np.arange(10, dtype="f4")
        self.m.scale(x, x, 3)
        np.testing.assert_array_equal(x, 3 * np.arange(10))

    def test_interleaved(self):
        """Views that share no element do not overlap. An output that overlaps itself is refused."""
        whole = np.arange(64, dtype="f4").reshape(4, 16)
        self.m.scale(whole[:, :8], whole[:, 8:], 2)
        np.testing.assert_array_equal(whole[:, 8:], 2 * whole[:, :8])
        line = np.arange(20, dtype="f4")
        for _ in range(3):  # also with repeated calls
            self.m.scale(line[::2], line[1::2], 3)
            np.testing.assert_array_equal(line[1::2], 3 * line[::2])
        for x, y in (
            (whole[:, :8], whole[:, 7:15]),
            (line[:10], line[1:11]),
            (line[::2], line[:10]),
        ):
            with self.assertRaisesRegex(tegula.Error, "is written and overlaps"):
                self.m.scale(x, y, 2)
        windows = np.lib.stride_tricks.as_strided(line, (4, 4), (4, 4))
        with self.assertRaisesRegex(tegula.Error, "several positions on one element"):
            self.m.scale(np.zeros((4, 4), "f4"), windows, 1)

    def test_wide_numbers(self):
        """No bit of an integer is dropped, or taken for a sign."""
        x, i = np.zeros(5, bool), np.zeros(5, "i4")
        for big in (-1, 1 << 64, -(1 << 63)):
            with self.assertRaises(OverflowError):
                self.m.flags(x, i, True, big)
        y = np.zeros(3, "f8")
        for n in (1 << 63, -(1 << 63) - 1):
            with self.assertRaises(OverflowError):
                self.m.power(np.ones(3), y, n)
        ones = np.ones(3)
        self.m.wide(ones, y, 1 << 63)
        np.testing.assert_array_equal(y, [2.0**63] * 3)
        self.m.wide(ones, y, -(1 << 70))
        np.testing.assert_array_equal(y, [-(2.0**70)] * 3)
        u = np.zeros(3, "u8")
        self.m.wide(np.ones(3, "u8"), u, (1 << 64) - 1)
        np.testing.assert_array_equal(u, [(1 << 64) - 1] * 3)
        with self.assertRaises(OverflowError):
            self.m.wide(np.ones(3, "u8"), u, -1)
        with self.assertRaises(OverflowError):
            self.m.wide(np.ones(3, "i8"), np.zeros(3, "i8"), 1 << 63)

    def test_masks_and_extents(self):
        x, y = np.ma.array(np.ones(4, "f4"), mask=[0, 1, 0, 0]), np.zeros(4, "f4")
        for call in (lambda: self.m.scale(x, y, 1), lambda: self.m.scale(y, x, 1)):
            with self.assertRaisesRegex(TypeError, "masked array"):
                call()
        self.m.scale(x.filled(0), y, 1)
        np.testing.assert_array_equal(y, [1, 0, 1, 1])

        class Odd:
            """An array that has only the array interface."""

            def __init__(self, **changes):
                self.__array_interface__ = dict(y.__array_interface__, **changes)

        for odd in (Odd(shape=(1 << 70,)), Odd(shape=(4,), strides=(1 << 70,))):
            with self.assertRaisesRegex(OverflowError, "does not fit into 64 bits"):
                self.m.scale(y, odd, 1)

    def test_scalars(self):
        x = np.linspace(0, 1, 20)
        y = np.empty_like(x)
        for n in (0, 1, 5, np.int32(3), np.array(2)):
            self.m.power(x, y, n)
            np.testing.assert_allclose(y, x ** int(n), rtol=1e-14)
        self.m.power(n=4, y=y, x=x)
        np.testing.assert_allclose(y, x**4, rtol=1e-14)
        i = np.zeros(5, "i4")
        self.m.flags(np.array([1, 0, 1, 0, 1], bool), i, False, (1 << 64) - 1)
        np.testing.assert_array_equal(i, [15, 0, 15, 0, 15])
        self.m.flags(np.zeros(5, bool), i, True, 1 << 63)
        np.testing.assert_array_equal(i, [8] * 5)
        y0 = np.zeros((), "f4")
        self.m.total(np.ones((3, 50), "f4"), y0)
        self.assertEqual(y0, 150)

    def test_bits(self):
        x = np.arange(-20, 20, dtype="f4")
        as_bf16 = (x.view("u4") >> 16).astype("u2")
        y = np.zeros(40, "u2")
        self.m.scale(tegula.bfloat16(as_bf16), tegula.bfloat16(y), 2)
        np.testing.assert_array_equal((y.astype("u4") << 16).view("f4"), 2 * x)
        f8 = np.array([0x38, 0x40, 0xC4], "u1")  # e4m3: 1, 2, -3
        z = np.zeros(3, "u1")
        self.m.scale(tegula.float8_e4m3(f8), tegula.float8_e4m3(z), 2)
        self.assertEqual(list(z), [0x40, 0x48, 0xCC])
        f8 = np.array([0x3C, 0x40, 0xC2], "u1")  # e5m2: 1, 2, -3
        self.m.scale(tegula.float8_e5m2(f8), tegula.float8_e5m2(z), 2)
        self.assertEqual(list(z), [0x40, 0x44, 0xC6])
        packed = np.array([[0x21, 0x43], [0xF8, 0x07]], "u1")
        out = np.zeros((2, 4), "i4")
        self.m.unpack(tegula.int4(packed), out)
        np.testing.assert_array_equal(out, [[1, 2, 3, 4], [-8, -1, 7, 0]])
        out = np.zeros((2, 3), "i4")
        self.m.unpack(tegula.int4(packed, 3), out)
        np.testing.assert_array_equal(out, [[1, 2, 3], [-8, -1, 7]])
        with self.assertRaises(TypeError):
            self.m.scale(tegula.bfloat16(x), tegula.bfloat16(x), 2)
        with self.assertRaises(ValueError):
            self.m.unpack(tegula.int4(packed, 5), out)

    @unittest.skipUnless(ml_dtypes, "needs ml_dtypes")
    def test_ml_dtypes(self):
        for name in ("bfloat16", "float8_e4m3fn", "float8_e5m2"):
            x = np.arange(-4, 5).astype(getattr(ml_dtypes, name))
            self.check_scale(x, np.zeros_like(x))
        with self.assertRaises(TypeError):
            x = np.zeros(3, ml_dtypes.int4)
            self.m.scale(x, x, 1)

    def test_dlpack(self):
        class Other:
            """An array of a library other than NumPy."""

            def __init__(self, array):
                self.array = array

            def __dlpack__(self):
                return self.array.__dlpack__()

        x = np.arange(12, dtype="f4").reshape(3, 4)
        y = np.zeros((4, 3), "f4")
        for _ in range(100):
            self.m.scale(Other(x.T), Other(y), 2)
        np.testing.assert_array_equal(y, 2 * x.T)
        gc.collect()


class OnGpu:
    """An array that claims to be on a GPU. Its memory is the host's, as the fake driver's is."""

    def __init__(self, array, device):
        self.array, self.device = array, device

    def __dlpack_device__(self):
        return 2, self.device

    def __dlpack__(self, stream=None):
        assert stream == -1
        capsule = self.array.__dlpack__()
        get = ctypes.pythonapi.PyCapsule_GetPointer
        get.restype, get.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
        head = ctypes.cast(get(capsule, b"dltensor"), ctypes.POINTER(ctypes.c_int32))
        head[2], head[3] = 2, self.device  # after the data pointer
        return capsule


class Stream:
    """A stream object like PyTorch's."""

    def __init__(self, value):
        self.cuda_stream = value


class Torch(types.ModuleType):
    """The part of PyTorch that the package uses, on memory of the host."""

    stream = 0

    class Tensor(OnGpu):
        requires_grad = False

        def __init__(self, array, device):
            super().__init__(array, device)
            self.dtype, self.shape = array.dtype.name, array.shape

        def stride(self):
            return tuple(s // self.array.itemsize for s in self.array.strides)

        def is_neg(self):
            return False

        def data_ptr(self):
            return self.array.ctypes.data

        def __dlpack_device__(self):
            return (2, self.device) if self.device >= 0 else (1, 0)

        def __dlpack__(self, stream=None):
            if self.device >= 0:
                return super().__dlpack__(stream)
            capsule = self.array.view("u1" if self.dtype == "bool" else self.dtype).__dlpack__()
            if self.dtype == "bool":  # NumPy's DLPack lacks bool
                get = ctypes.pythonapi.PyCapsule_GetPointer
                get.restype, get.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
                at = ctypes.cast(get(capsule, b"dltensor"), ctypes.POINTER(ctypes.c_uint8))
                at[20] = 6  # the type's code in the tensor
            return capsule

        def item(self):
            return self.array.item()

    def __init__(self):
        super().__init__("torch")
        self.cuda = self
        self.Tensor.__module__ = "torch"

    def current_stream(self, device):
        return Stream(self.stream)


class TorchCalls(unittest.TestCase):
    """Prepared calls keep only data that types and shapes determine."""

    def setUp(self):
        self.torch = sys.modules["torch"] = Torch()
        self.addCleanup(sys.modules.pop, "torch")
        self.m = tegula.source(SOURCE, "python.teg")

    def on(self, device, *arrays):
        return [self.torch.Tensor(a, device) for a in arrays]

    def test_results(self):
        for n in (5, 100, 5, 64):
            for i in range(3):
                x, y = np.arange(n, dtype="f4") + i, np.zeros(n, "f4")
                self.m.scale(*self.on(-1, x, y), 2 + i)
                np.testing.assert_array_equal(y, (2 + i) * x)
                self.m.scale(c=0.5, y=self.on(-1, y)[0], x=self.on(-1, x)[0])
                np.testing.assert_array_equal(y, 0.5 * x)
        x, y = np.arange(24, dtype="f4").reshape(4, 6), np.zeros((6, 4), "f4")
        self.m.scale(*self.on(-1, x.T, y), 2, *self.on(-1, y + 1))
        np.testing.assert_array_equal(y, 2 * x.T + 1)
        self.m.scale(*self.on(-1, x.T, y), 2, None)
        np.testing.assert_array_equal(y, 2 * x.T)
        bits, z = (np.arange(8, dtype="u2") << 7) + 0x3F80, np.zeros(8, "u2")
        for i in range(3):
            self.m.scale(*map(tegula.bfloat16, self.on(-1, bits, z)), 1)
            np.testing.assert_array_equal(z, bits)
            bits += 1

    def test_numbers(self):
        x, y = np.ones(4, "?"), np.zeros(4, "i4")
        for big in (1 << 60, 1 << 63, (1 << 64) - 1):
            self.m.flags(*self.on(-1, x, y), False, big)
            np.testing.assert_array_equal(y, big >> 60)
        with self.assertRaises(OverflowError):
            self.m.flags(*self.on(-1, x, y), False, 1 << 64)
        ones, z = np.ones(4, "f4"), np.zeros(4, "f4")
        self.m.scale(*self.on(-1, ones, z), self.on(-1, np.array(3.0))[0])
        np.testing.assert_array_equal(z, 3)
        self.m.scale(*self.on(-1, ones, z), self.on(-1, np.array(4.0))[0])
        np.testing.assert_array_equal(z, 4)
        for _ in range(2):
            with self.assertRaisesRegex(TypeError, "must be a number"):
                self.m.scale(*self.on(-1, ones, z), "2")
            with self.assertRaisesRegex(tegula.Error, "'y' is f32\\[3\\]"):
                self.m.scale(*self.on(-1, ones, z[:3]), 2)

    def test_streams(self):
        if not os.environ.get("TG_CUDA_LIBRARY"):
            self.skipTest("needs the fake driver")
        fake = ctypes.CDLL(os.environ["TG_CUDA_LIBRARY"])
        fake.fake_stream.restype = ctypes.c_void_p
        fake.fake_mistake.restype = ctypes.c_char_p
        x, y = np.ones(100, "f4"), np.zeros(100, "f4")
        tegula.devices()  # starts the driver
        before = fake.fake_calls(b"cuLaunchKernelEx")
        for device in (0, 1, 0):
            self.torch.stream = fake.fake_stream(device)
            self.m.scale(*self.on(device, x, y), 2)
        self.assertIsNone(fake.fake_mistake())  # a stream of another device would be a mistake
        self.m.scale.on(fake.fake_stream(1))(*self.on(1, x, y), 2)
        self.assertIsNone(fake.fake_mistake())
        self.assertEqual(fake.fake_calls(b"cuLaunchKernelEx"), before + 4)


class Gpus(unittest.TestCase):
    """Runs against a driver that checks its calls and runs nothing, and on the simulator."""

    def setUp(self):
        path = os.environ.get("TG_CUDA_LIBRARY")
        if not path:
            self.skipTest("needs the fake driver")
        self.fake = ctypes.CDLL(path)
        self.fake.fake_stream.restype = ctypes.c_void_p
        self.fake.fake_mistake.restype = ctypes.c_char_p

    def launches(self):
        return self.fake.fake_calls(b"cuLaunchKernelEx")

    def test_devices(self):
        gpus = tegula.devices()
        self.assertEqual([g["name"] for g in gpus], ["Fake GPU 0", "Fake GPU 1"])
        self.assertEqual([g["capability"] for g in gpus], [90, 80])
        tegula.synchronize(1)
        with self.assertRaisesRegex(tegula.Error, "there is no device 9"):
            tegula.synchronize(9)

    def test_launch(self):
        m = tegula.source(SOURCE, "python.teg")
        x, y = np.ones(100, "f4"), np.zeros(100, "f4")
        before = self.launches()
        m.scale(OnGpu(x, 0), OnGpu(y, 0), 2)
        m.scale(OnGpu(x, 1), OnGpu(y, 1), 2)
        m.scale.on(self.fake.fake_stream(1))(OnGpu(x, 1), OnGpu(y, 1), 2)
        m.scale.on(Stream(self.fake.fake_stream(0)))(OnGpu(x, 0), OnGpu(y, 0), 2)
        self.assertEqual(self.launches(), before + 4)
        self.assertIsNone(self.fake.fake_mistake())
        with self.assertRaisesRegex(tegula.Error, "must be on one device"):
            m.scale(OnGpu(x, 0), y, 2)
        bits = np.zeros(4, "u2")
        m.scale(tegula.bfloat16(OnGpu(bits, 0)), tegula.bfloat16(OnGpu(bits.copy(), 0)), 2)

    def test_simulated(self):
        for target in ("sim:sm_80", "sim:sm_90a"):
            m = tegula.source(SOURCE, "python.teg", target=target)
            x, y = np.arange(1000, dtype="f4"), np.zeros(1000, "f4")
            m.scale(x, y, 2)
            np.testing.assert_array_equal(y, 2 * x)

    def test_counted_tiles(self):
        """Launches of several shapes, with fewer and with more tiles than programs (132), leave the counter at 0."""
        m = tegula.source(COUNTED, "counted.teg", target="sim:sm_90a", settings="roles=1 persistent=1")
        random = np.random.default_rng(1)
        k, v = (random.integers(-1, 2, (70, 64)).astype("f2") for _ in range(2))
        for rows in (133 * 64 - 3, 5, 200, 140 * 64):
            q, o = random.integers(-1, 2, (rows, 64)).astype("f2"), np.zeros((rows, 64), "f4")
            m.counted(q, k, v, o)
            qf, kf, vf = (x.astype("f4") for x in (q, k, v))
            np.testing.assert_array_equal(o, qf @ kf.T @ vf)


class Messages(unittest.TestCase):
    def setUp(self):
        self.m = tegula.source(SOURCE, "python.teg")

    def fails(self, status, part, call, *args, **named):
        with self.assertRaises(tegula.Error) as caught:
            call(*args, **named)
        self.assertEqual(caught.exception.status, status)
        self.assertIn(part, str(caught.exception))

    def test_status(self):
        x, y = np.zeros(3, "f4"), np.zeros(4, "f4")
        self.fails("TG_ERROR_CONTRACT", "scale", self.m.scale, x, y, 1)
        self.fails("TG_ERROR_ARGUMENT", "scale", self.m.scale, x, x.astype("f8"), 1)
        self.fails("TG_ERROR_ARGUMENT", "optional", self.m.scale, None, x, 1)
        self.fails("TG_ERROR_SOURCE", "no.teg:1:", tegula.source, "kernel", "no.teg")
        self.fails("TG_ERROR_NOT_FOUND", "/no/file.teg", tegula.load, "/no/file.teg")
        self.fails("TG_ERROR_ARGUMENT", "B=", tegula.source, SOURCE, settings="B=")

    def test_python(self):
        x = np.zeros(3, "f4")
        read_only = x.view()
        read_only.flags.writeable = False
        self.m.scale(read_only, x.copy(), 1)
        for error, call in {
            ValueError: lambda: self.m.scale(x.copy(), read_only, 1),
            AttributeError: lambda: self.m.nothing,
            KeyError: lambda: self.m["nothing"],
            OverflowError: lambda: self.m.power(x, x, 1 << 70),
        }.items():
            with self.assertRaises(error):
                call()
        for call in (
            lambda: self.m.scale(x),
            lambda: self.m.scale(x, x, 1, None, 5),
            lambda: self.m.scale(x, x, x=x, c=1),
            lambda: self.m.scale(x, x, d=1, c=1),
            lambda: self.m.scale(x, x, "1"),
            lambda: self.m.scale([1.0], x, 1),
            lambda: self.m.scale(x.astype(">f4"), x, 1),
            lambda: self.m.scale(x.astype("c8"), x, 1),
            lambda: self.m.scale(np.zeros(3, "f4,i1")["f0"], x, 1),
        ):
            with self.assertRaises(TypeError):
                call()

    def test_describes(self):
        self.assertEqual(self.m.scale.params, ["x", "y", "c", "add"])
        self.assertIn("kernel scale<T: any>(x: T[..N]", repr(self.m.scale))
        self.assertIn("scale", dir(self.m))
        self.assertIn("power", repr(self.m))
        self.assertEqual(tegula.version(), tegula.__version__)
        self.assertTrue(tegula.library_path)


class Modules(unittest.TestCase):
    def test_files(self):
        x = np.random.default_rng(1).standard_normal((5, 300)).astype("f4")
        e = np.exp(x - x.max(1, keepdims=True))
        y = np.empty_like(x)
        softmax = tegula.load(ROOT / "examples" / "softmax.teg").softmax
        self.assertIsNone(softmax.decision(x, y))
        softmax(x, y)
        np.testing.assert_allclose(y, e / e.sum(1, keepdims=True), rtol=1e-5)
        self.assertRegex(softmax.decision(x, y), "; (by the cost model|tuned for .*)$")
        with self.assertRaises(tegula.Error):
            softmax.decision(x, y[:3])
        y = np.empty_like(x)
        std = tegula.load("std/softmax.teg")
        std[next(n for n in std.kernels if n.startswith("softmax"))].prepare(x, y)
        with tempfile.TemporaryDirectory() as folder:
            (pathlib.Path(folder) / "lib.teg").write_text("const TWO = 2;\n")
            text = (
                'import "lib.teg";\nkernel f(x: f32[N]) { parallel n in N by 8 { x[n] = TWO; } }\n'
            )
            z = np.zeros(5, "f4")
            tegula.source(text, paths=[folder]).f(z)
            np.testing.assert_array_equal(z, 2)

    def test_options(self):
        x, y = np.ones(100, "f4"), np.empty(100, "f4")
        tegula.source(SOURCE, settings={"B": 256}, check=True, debug=True).scale(x, y, 5)
        np.testing.assert_array_equal(y, 5)
        with self.assertRaisesRegex(tegula.Error, "plan=no"):
            tegula.source(SOURCE, settings={"B": 256, "plan": "no"})
        tegula.source(SOURCE, settings={"B": 256, "plan": "pull"}).scale(x, y, 6)
        np.testing.assert_array_equal(y, 6)

    def test_context(self):
        said = []
        with tegula.Context(threads=1, print=said.append, log=said.append) as context:
            self.assertEqual(context.threads, 1)
            m = tegula.source(SOURCE)
            m.hello(3)
        self.assertEqual([s.strip() for s in said], ["n is 3"])
        del context
        gc.collect()
        m.total(np.ones((2, 2), "f4"), np.zeros((), "f4"))

    def test_workspace_limit(self):
        with tegula.Context(threads=1):
            before = tegula.workspace_limit()
            self.assertGreater(before, 1 << 20)
            tegula.set_workspace_limit(4096)
            self.assertEqual(tegula.workspace_limit(), 4096)
            with self.assertRaisesRegex(tegula.Error, "cannot have -5 bytes"):
                tegula.set_workspace_limit(-5)
            for bytes in (2**63, 2**64, -(2**63) - 1):
                with self.assertRaisesRegex(ValueError, "does not fit 64 bits"):
                    tegula.set_workspace_limit(bytes)
            self.assertEqual(tegula.workspace_limit(), 4096)
        self.assertEqual(tegula.workspace_limit(), before)

    def test_lifetime(self):
        for _ in range(20):
            k = tegula.source("kernel f(x: f32[N]) { parallel { x[0] = 1; } }").f
            gc.collect()
            x = np.zeros(2, "f4")
            k(x)  # the kernel keeps its module
            self.assertEqual(x[0], 1)

    def test_borrowed(self):
        """An interface may own the memory that it describes, as that of NumPy's scalars does."""

        class Array(np.ndarray):
            alive = 0

            def __del__(self):
                Array.alive -= 1

        class Scalar:
            @property
            def __array_interface__(self):
                memory = np.full((), 7.5, "f4").view(Array)
                Array.alive += 1
                return dict(memory.__array_interface__, owner=memory)

        held = tegula._arrays.tensor("x", Scalar(), False)
        gc.collect()
        self.assertEqual(Array.alive, 1)
        del held
        self.assertEqual(Array.alive, 0)

    def test_threads(self):
        m = tegula.source(SOURCE)
        wrong = []

        def work(i):
            for n in range(1, 40):
                x = np.full((n, i + 1), i, "f4")
                y = np.empty_like(x)
                m.scale(x, y, 2)
                if not (y == 2 * i).all():
                    wrong.append((n, i))

        threads = [threading.Thread(target=work, args=(i,)) for i in range(6)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        self.assertEqual(wrong, [])


class Install(unittest.TestCase):
    """`pip install` from the tree; the package then works without variables."""

    def test_pip(self):
        with tempfile.TemporaryDirectory() as folder:
            pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-build-isolation"]
            pip += ["--no-deps", "--no-index", "--disable-pip-version-check", "--target"]
            source = pathlib.Path(folder) / "source"
            subprocess.run(["cp", "-r", ROOT / "python", source], check=True)
            try:
                import setuptools  # noqa: F401
                import wheel  # noqa: F401
            except ImportError:
                self.skipTest("needs setuptools and wheel")
            target = pathlib.Path(folder) / "site"
            done = subprocess.run([*pip, target, source], capture_output=True, text=True)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            env = {k: v for k, v in os.environ.items() if k not in ("TEGULA_LIBRARY", "PYTHONPATH")}
            env["PYTHONPATH"] = str(target)
            code = "import tegula; print(tegula.library_path)\n"
            code += "tegula.source('kernel f(x: i32) { parallel { print(x); } }').f.prepare(1)"
            env.update(TG_COMPILE="process", PATH="/usr/bin")  # the program is beside the library
            path = subprocess.run(
                [sys.executable, "-c", code], env=env, capture_output=True, text=True
            )
            self.assertEqual(
                path.stdout.strip(), str(target / "tegula" / "lib" / "libtegula.so"), path.stderr
            )


if __name__ == "__main__":
    unittest.main()
