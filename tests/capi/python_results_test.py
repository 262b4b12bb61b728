# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The Python package as Python: results, warnings, signatures, pickles, the cache of tegula.load, notebooks.

Environment: PYTHONPATH (python/), TEGULA_LIBRARY. Usage: python_results_test.py [unittest's arguments].
"""

import inspect
import os
import pathlib
import pickle
import sys
import tempfile
import unittest
import warnings
from unittest import mock

import numpy as np
import tegula
from tegula import notebook

SOURCE = """
/// Row sums.
/// Of anything.
kernel rows<T: float, S: f32 | f64>(x: T[..R, N], y: T[..R], top: S[..R]?, shift: f32) {
    parallel r in R {
        let n = cover(N);
        y[r] = (sum(x[r, n] as f32) + shift) as T;
        if top { top[r] = max(x[r, n, pad = -inf]) as S; }
    }
}
kernel parts(x: f32[N], low: f32[H], high: f32[H], n: i64) require H == N / n {
    parallel h in H by 16 { low[h] = x[h]; high[h] = x[h + H]; }
}
kernel tally(ids: i32[N], sum_: f32[4]) { parallel n in N by 16 { atomic_add(sum_[ids[n]], 1); } }
kernel nibbles(x: i32[N], y: i4[N]) { parallel n in N by 16 { y[n] = x[n] as i4; } }
"""
WARNS = "kernel top(x: f32[N], y: f32[]) { parallel { let n = cover(N); y[] = max(x[n]); } }"


class Results(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.m = tegula.source(SOURCE, "results.teg")

    def test_returned(self):
        """The second and third calls are prepared ones; other shapes and types are other calls."""
        for shape in ((3, 5), (2, 3, 7), (4,), (3, 5), (0, 5)):
            for name in ("f4", "f8", "f2"):
                for shift in (0, 1.5):
                    x = np.arange(np.prod(shape), dtype=name).reshape(shape)
                    y = self.m.rows(x, shift=shift)
                    self.assertEqual((y.shape, y.dtype), (shape[:-1], x.dtype))
                    np.testing.assert_allclose(y, x.sum(-1) + shift)

    def test_fresh(self):
        """A result never is the memory of an earlier one that lives."""
        x = np.ones((3, 4), "f4")
        kept = [self.m.rows(x, shift=i) for i in range(20)]
        for i, y in enumerate(kept):
            np.testing.assert_array_equal(y, [4 + i] * 3)

    def test_optional(self):
        x = np.arange(12, dtype="f4").reshape(3, 4)
        y, top = self.m.rows(x, top=True, shift=0)
        np.testing.assert_array_equal(top, x.max(-1))
        self.assertEqual(top.dtype, np.float32)
        self.assertEqual(self.m.rows(x.astype("f8"), top=True, shift=0)[1].dtype, np.float64)
        own = np.zeros(3, "f4")
        np.testing.assert_array_equal(self.m.rows(x, y=own, top=True, shift=0), x.max(-1))
        np.testing.assert_array_equal(own, x.sum(-1))
        self.assertIsNone(self.m.rows(x, own, None, 0))

    def test_numbers_in_shapes(self):
        """A number that determines a shape is not taken from an earlier call."""
        x = np.arange(24, dtype="f4")
        for n in (2, 3, 4, 2):
            low, high = self.m.parts(x, n=n)
            np.testing.assert_array_equal(low, x[: 24 // n])
            np.testing.assert_array_equal(high, x[24 // n : 48 // n])

    def test_views_and_bits(self):
        x = np.arange(24, dtype="f4").reshape(4, 6)
        for view in (x.T, x[::-1, ::2], x[:, :0], np.broadcast_to(x[0], (3, 6))):
            np.testing.assert_array_equal(self.m.rows(view, shift=0), view.sum(-1))
        bits = (x.view("u4") >> 16).astype("u2")
        y = self.m.rows(tegula.bfloat16(bits), shift=0)
        wide = (y.view("u2").astype("u4") << 16).view("f4")
        np.testing.assert_allclose(wide, x.sum(-1), rtol=2**-7)
        packed = self.m.nibbles(np.array([1, 2, -1], "i4"))
        self.assertEqual([int(b) & 15 for b in (packed[0], packed[0] >> 4, packed[1])], [1, 2, 15])

    def test_added_to(self):
        """A result that a kernel adds to begins at 0."""
        ids = np.array([0, 1, 1, 3], "i4")
        for _ in range(50):
            np.testing.assert_array_equal(self.m.tally(ids), [1, 2, 0, 1])

    def test_infer(self):
        x = np.zeros((3, 4), "f2")
        self.assertEqual(self.m.rows.infer(x, top=True, shift=0), {"y": ((3,), (2, 16)), "top": ((3,), (2, 32))})

    def test_failures(self):
        x = np.zeros((3, 4), "f4")
        for call, kind, text in (
            (lambda: self.m.rows(x), TypeError, "the argument 'shift' is missing"),
            (lambda: self.m.rows(shift=1), TypeError, "the argument 'x' is missing"),
            (lambda: self.m.rows(x, shft=1), TypeError, "no parameter 'shft'; did you mean 'shift'"),
            (lambda: self.m.rows(x, x=x, shift=1), TypeError, "'x' is given twice"),
            (
                lambda: self.m.rows(x, top=np.zeros(4, "f4"), shift=1),
                tegula.Error,
                "'top' is f32.4. and 'x' is f32.3, 4.: the dims of their pack must be equal",
            ),
            (lambda: self.m.rows(3, shift=1), TypeError, "'x' must be an array"),
        ):
            with self.assertRaisesRegex(kind, text):
                call()


class Descriptions(unittest.TestCase):
    def test_signature(self):
        k = tegula.source(SOURCE, "results.teg").rows
        self.assertEqual(
            str(inspect.signature(k)),
            "(x: 'T[..R, N]', y: 'T[..R]' = None, top: 'S[..R]?' = None, *, shift: 'f32')",
        )
        self.assertEqual(k.__name__, "rows")
        self.assertEqual(k.__annotations__["shift"], "f32")
        self.assertEqual(k.doc, "Row sums.\nOf anything.")
        self.assertTrue(inspect.getdoc(k).startswith("Row sums.\nOf anything.\n\nkernel rows<"))
        self.assertIn("<code>T[..R, N]</code>", k._repr_html_())

    def test_pickle(self):
        m = tegula.source(SOURCE, "results.teg")
        again = pickle.loads(pickle.dumps(m.rows))
        np.testing.assert_array_equal(again(np.ones((2, 3), "f4"), shift=1), [4, 4])
        self.assertEqual(list(pickle.loads(pickle.dumps(m)).kernels), list(m.kernels))
        k = tegula.load("std/softmax.teg", settings={"BN": 1024}).softmax_long
        self.assertIs(pickle.loads(pickle.dumps(k)), k)  # by way of the cache

    def test_error(self):
        with self.assertRaises(tegula.Error) as caught:
            tegula.source("kernel")
        self.assertEqual(f"{type(caught.exception).__module__}.{type(caught.exception).__name__}", "tegula.Error")
        self.assertEqual(pickle.loads(pickle.dumps(caught.exception)).status, "TG_ERROR_SOURCE")


class Warnings(unittest.TestCase):
    def test_raised(self):
        """At the place of the call, once, with the text's place and hint."""
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            m = tegula.source(WARNS, "top.teg")
            for _ in range(3):
                m.top(-np.ones(5, "f4"))
        self.assertEqual(len(caught), 1)
        self.assertIs(caught[0].category, tegula.Warning)
        self.assertEqual(caught[0].filename, __file__)
        self.assertRegex(str(caught[0].message), r"top.teg:1:\d+: warning: .*\n(.*\n)*hint: ")

    def test_as_errors(self):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            with self.assertRaisesRegex(tegula.Warning, "top.teg"):
                tegula.source(WARNS, "top.teg").top(-np.ones(5, "f4"))

    def test_own_log(self):
        lines = []
        with warnings.catch_warnings(record=True) as caught, tegula.Context(log=lines.append):
            warnings.simplefilter("always")
            tegula.source(WARNS, "top.teg").top(np.ones(5, "f4"))
        self.assertEqual(caught, [])
        self.assertIn("warning:", "\n".join(lines))


class Loading(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def write(self, name, text):
        path = self.folder / name
        path.write_text(text)
        os.utime(path, ns=(0, self.time()))
        return path

    times = 10**9

    @classmethod
    def time(cls):
        cls.times += 10**9
        return cls.times

    def test_kept_until_changed(self):
        self.write("inner.teg", "fn f(x) { return 2 * x; }")
        path = self.write(
            "outer.teg",
            'import "inner.teg";\nkernel k(x: f32[N], y: f32[N]) { parallel n in N by 16 { y[n] = f(x[n]); } }',
        )
        x = np.ones(3, "f4")
        first = tegula.load(path)
        self.assertIs(tegula.load(path), first)
        self.assertIsNot(tegula.load(path, check=True), first)
        self.assertEqual(first.k(x)[0], 2)
        self.write("inner.teg", "fn f(x) { return 3 * x; }")
        second = tegula.load(path)
        self.assertIsNot(second, first)
        self.assertEqual((first.k(x)[0], second.k(x)[0]), (2, 3))
        path.unlink()
        with self.assertRaisesRegex(tegula.Error, "cannot read"):
            tegula.load(path)

    def test_imports_anywhere(self):
        """Imports share a line, and stand behind comments. Words in comments and strings are none."""
        body = "kernel k(x: f32[N], y: f32[N]) { parallel n in N by 16 { y[n] = f(g(x[n])); } }"
        for head in (
            'import "a.teg"; import "b.teg";',
            '// import "c.teg";\nimport "a.teg"; /* import "c.teg"; " */ import /* c */\n"b.teg"; // "',
        ):
            self.write("a.teg", "fn f(x) { return 2 * x; }")
            self.write("b.teg", "fn g(x) { return 5 * x; }")
            path = self.write("both.teg", head + "\n" + body)
            first = tegula.load(path)
            self.write("c.teg", "")
            self.assertIs(tegula.load(path), first)
            for name, text, want in (("b", "fn g(x) { return 7 * x; }", 14), ("a", "fn f(x) { return x; }", 7)):
                self.write(f"{name}.teg", text)
                self.assertEqual(tegula.load(path).k(np.ones(3, "f4"))[0], want)

    def test_relative(self):
        """A relative path means another file in another folder."""
        before = os.getcwd()
        self.addCleanup(os.chdir, before)
        for n in (1, 2):
            (self.folder / str(n)).mkdir()
            self.write(f"{n}/k.teg", f"kernel k{n}(y: f32[N]) {{ parallel n in N by 16 {{ y[n] = {n}; }} }}")
            os.chdir(self.folder / str(n))
            module = tegula.load("k.teg")
            self.assertEqual(list(module.kernels), [f"k{n}"])
        os.chdir(before)
        self.assertEqual(pickle.loads(pickle.dumps(module.k2)).name, "k2")

    def test_contexts(self):
        """A context has modules of its own, and dies with the last of them."""
        with tegula.Context(threads=1) as context:
            inner = tegula.load("std/softmax.teg")
            self.assertIs(tegula.load("std/softmax.teg"), inner)
        self.assertIsNot(tegula.load("std/softmax.teg"), inner)
        self.assertEqual(context.loaded, {})

    def test_tuning(self):
        for option in ("off", "strict", "block", "background", "exhaustive"):
            tegula.load("std/softmax.teg", tune=option, budget_ms=1)
        with self.assertRaisesRegex(tegula.Error, "'fast' is none of off, strict"):
            tegula.load("std/softmax.teg", tune="fast")
        strict = tegula.source(SOURCE.replace("kernel rows", "kernel lines"), tune="strict")
        with self.assertRaisesRegex(tegula.Error, "tuning is strict"):
            strict.lines(np.ones((2, 3), "f4"), shift=0)


class Shell:
    """The part of IPython's shell that the magic uses."""

    def __init__(self):
        self.names, self.magics = {}, {}

    def push(self, names):
        self.names.update(names)

    def register_magic_function(self, function, kind, name):
        self.magics[kind, name] = function


class Notebook(unittest.TestCase):
    def test_cell(self):
        shell, shown = Shell(), []
        tegula.load_ipython_extension(shell)
        with mock.patch.object(notebook, "_show", shown.append):
            shell.magics["cell", "tegula"]("x=rand(8,16) shift=1", SOURCE)
        np.testing.assert_array_equal(shell.names["rows"](np.ones((2, 3), "f4"), shift=1), [4, 4])
        self.assertEqual([s.kernel.name for s in shown], ["rows", "parts", "tally", "nibbles"])
        page = shown[0]._repr_html_()
        self.assertIn("Row sums.", page)
        self.assertIn("<pre>", page)
        if notebook._program():
            self.assertIn("rows", shown[0].text)
            self.assertNotIn("error", shown[0].text)
        shell.magics["cell", "tegula"]("--quiet", SOURCE)
        self.assertEqual(len(shown), 4)
        with self.assertRaisesRegex(ValueError, "NAME=VALUE"):
            shell.magics["cell", "tegula"]("rows", SOURCE)

    def test_quotes(self):
        asked = []
        with mock.patch.object(notebook, "_show"), mock.patch.object(notebook, "explanation", lambda *a: asked.append(a[2])):
            notebook.run_cell(Shell(), "x='rand(4, 5)' shift=1", SOURCE)
        self.assertEqual(asked[0], ["x=rand(4, 5)", "shift=1"])

    def test_program(self):
        """A library without a folder does not make the working directory one with programs."""
        before = os.getcwd()
        self.addCleanup(os.chdir, before)
        with tempfile.TemporaryDirectory() as folder:
            program = pathlib.Path(folder) / "bin" / "tegula"
            program.parent.mkdir()
            program.write_text("#!/bin/sh\n")
            program.chmod(0o755)
            os.chdir(folder)
            with mock.patch.dict(os.environ, PATH="bin:/nowhere"):
                with mock.patch.object(notebook.c, "path", "libtegula.so.0"):
                    self.assertIsNone(notebook._program())
                with mock.patch.object(notebook.c, "path", os.path.join(folder, "libtegula.so")):
                    self.assertEqual(notebook._program(), os.path.realpath(program))
            os.chdir(before)


if __name__ == "__main__":
    sys.exit(unittest.main())
