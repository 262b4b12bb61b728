# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""tegula.torch against PyTorch: operators, their tracing and gradients, the stand-ins of tegula.torch.nn, and
the example. Skips, with status 77, where PyTorch is not installed.

Environment: PYTHONPATH (python/, PyTorch), TEGULA_LIBRARY, TG_TEST_AOTI (1: also the slow test of
AOTInductor). Usage: torch_test.py [unittest's arguments].
"""

import os
import pathlib
import subprocess
import sys
import tempfile
import threading
import timeit
import unittest
import warnings
from unittest import mock

import tegula

try:
    import torch
except ImportError as error:
    print(f"skipped: PyTorch is not installed ({error})")
    sys.exit(77)

import torch.nn.functional as F

import tegula.torch as tt
from tegula.torch import nn as ours

ROOT = pathlib.Path(__file__).resolve().parents[2]
SOURCE = """
/// y = x scale, and the largest |x|.
kernel scaled<T: float>(x: T[..R, N], scale: T[N], y: T[..R, N], c: f32, twice: const bool) {
    parallel r in R { let n = cover(N); y[r, n] = (x[r, n] * scale[n] as f32 * c) as T * (twice ? 2 : 1); }
}
kernel count(ids: i64[N], total: i32[V]) { parallel n in N by 16 { atomic_add(total[ids[n]], 1); } }
kernel halves(x: f32[N], y: f32[H], n: i64) require H == N / n {
    parallel h in H by 16 { y[h] = x[h]; }
}
"""


def module():
    return tegula.source(SOURCE, "torch.teg")


def random(*shape, dtype=torch.float64):
    return torch.randn(*shape, dtype=dtype).requires_grad_()


torch.manual_seed(0)
softmax = tt.op("std/softmax.teg", "softmax", backward="softmax_backward", name="test::softmax")
rms_norm = tt.op(
    "std/norm.teg",
    "rms_norm",
    backward="rms_norm_backward",
    name="test::rms_norm",
    defaults={"eps": 1e-6},
)


def both(x, w):
    return softmax(rms_norm(x, w, eps=1e-5) * 3) + 1


def plain(x, w):
    return torch.softmax(F.rms_norm(x, w.shape, w, 1e-5) * 3, -1) + 1


class Calls(unittest.TestCase):
    """Kernels themselves on tensors."""

    def test_results(self):
        k = tegula.load("std/softmax.teg").softmax
        for dtype in (torch.float32, torch.bfloat16, torch.float16, torch.float64):
            for shape in ((4, 10), (3,), (2, 3, 5), (0, 4)):
                for _ in range(2):
                    x = torch.randn(shape).to(dtype)
                    y = k(x)
                    self.assertEqual((y.dtype, y.device), (x.dtype, x.device))
                    torch.testing.assert_close(y, x.softmax(-1))

    def test_gradients(self):
        """An input that requires grad is read; a written one is refused, by name."""
        k = tegula.load("std/softmax.teg").softmax
        x = torch.randn(2, 3, requires_grad=True)
        for _ in range(2):
            self.assertFalse(k(x).requires_grad)
            with self.assertRaisesRegex(TypeError, "'y' is written, and it requires grad"):
                k(x.detach(), x)
        with torch.no_grad():
            k(x, x)
        torch.testing.assert_close(x.sum(-1), torch.ones(2))

    def test_compile(self):
        """A direct call in a compiled function is a graph break, never a failure."""
        k = tegula.load("std/softmax.teg").softmax
        x = torch.randn(4, 5)
        run = torch.compile(lambda x: k(x + 1) * 2, backend="eager")
        torch.testing.assert_close(run(x), (x + 1).softmax(-1) * 2)


def exported():
    """A model of the operators, exported for any number of rows of x, and its w."""

    class Model(torch.nn.Module):
        def forward(self, x, w):
            return both(x, w)

    given = torch.randn(4, 10), torch.randn(10)
    rows = {"x": {0: torch.export.Dim("rows")}, "w": None}
    return torch.export.export(Model(), given, dynamic_shapes=rows), given[1]


class Operators(unittest.TestCase):
    def test_opcheck(self):
        torch.library.opcheck(softmax._overload, (random(3, 5),))
        torch.library.opcheck(rms_norm._overload, (random(2, 3, 4), random(4)), {"eps": 1e-5})
        torch.library.opcheck(rms_norm._overload, (random(2, 3, 4, dtype=torch.float32), None))

    def test_native(self):
        """A call does not enter Python, whoever makes it; a number of an open type needs Python."""
        text = "kernel times<T: float>(x: T[N], y: T[N], c: T) { parallel n in N by 16 { y[n] = x[n] * c; } }"
        times = tt.op(tegula.source(text).times, name="test::times")
        x = torch.randn(3, 10)
        with mock.patch.object(tegula._kernels.Kernel, "_run_values", side_effect=ValueError("Python")):
            for x in (x, x.requires_grad_(), torch.randn(0, 10), x.t().contiguous().t()):
                torch.testing.assert_close(softmax(x), x.softmax(-1))
                torch.testing.assert_close(torch.ops.test.softmax(x), x.softmax(-1))
            with torch.inference_mode():
                torch.testing.assert_close(softmax(x), x.softmax(-1))
            with self.assertRaisesRegex(ValueError, "Python"):
                times(x[0].detach(), 2.0)
        torch.testing.assert_close(times(x[0].detach(), 2.0), x[0].detach() * 2)

    def test_cost(self):
        """A call takes three to four times as long as torch.add; through Python it would take eight times."""

        def best(call):
            return min(timeit.repeat(call, number=50, repeat=200))

        x = torch.randn(4)
        ratios = (best(lambda: softmax(x)) / best(lambda: torch.add(x, x)) for _ in range(3))
        self.assertTrue(any(ratio < 6 for ratio in ratios))

    def test_gradcheck(self):
        torch.autograd.gradcheck(softmax, (random(2, 5),))
        torch.autograd.gradcheck(lambda x, w: rms_norm(x, w), (random(2, 3, 4), random(4)))

    def test_compile(self):
        """Without a graph break, for one shape and for symbols, with gradients."""
        for dynamic, backend in ((False, "inductor"), (True, "aot_eager")):
            torch._dynamo.reset()
            run = torch.compile(both, fullgraph=True, dynamic=dynamic, backend=backend)
            for n in (3, 6) if dynamic else (4,):
                x, w = random(n, 10), random(10)
                y = run(x, w)
                torch.testing.assert_close(y, plain(x, w))
                r = torch.randn_like(y)
                got = torch.autograd.grad((y * r).sum(), (x, w))
                torch.testing.assert_close(got, torch.autograd.grad((plain(x, w) * r).sum(), (x, w)))

    def test_one_graph(self):
        """Other extents make no other graph."""
        graphs = []

        def count(graph, _):
            graphs.append(graph)
            return graph

        run = torch.compile(both, fullgraph=True, dynamic=True, backend=count)
        for n in (3, 5, 8):
            run(torch.randn(n, 10), torch.randn(10))
        self.assertEqual(len(graphs), 1)

    def test_export(self):
        program, w = exported()
        for n in (4, 7):
            x = torch.randn(n, 10)
            torch.testing.assert_close(program.module()(x, w), plain(x, w))

    def test_vmap(self):
        x, w = torch.randn(3, 4, 5), torch.randn(3, 5)
        torch.testing.assert_close(torch.vmap(softmax, in_dims=1, out_dims=1)(x), x.softmax(-1))
        got = torch.vmap(lambda x: rms_norm(x, w[0]))(x)
        torch.testing.assert_close(got, F.rms_norm(x, (5,), w[0], 1e-6))
        got = torch.vmap(lambda x, w: rms_norm(x, w))(x, w)
        want = torch.stack([F.rms_norm(a, (5,), b, 1e-6) for a, b in zip(x, w)])
        torch.testing.assert_close(got, want)

    def test_vmap_of_overload(self):
        """torch.ops.NAMESPACE.NAME has the rules of the object, with gradients and without, by pack and by element."""
        x, scale = torch.randn(3, 4, 5), torch.randn(5)
        plain = tt.op(module().scaled, name="test::plain_scaled", defaults={"twice": False})
        packed = tt.op("std/softmax.teg", "softmax", backward="softmax_backward", name="test::packed_rows", vmap="pack")
        ops = torch.ops.test
        for call, want in (
            (ops.softmax, x.softmax(-1)),
            (ops.packed_rows, x.softmax(-1)),
            (lambda x: ops.plain_scaled(x, scale, c=0.5), x * scale * 0.5),
        ):
            torch.testing.assert_close(torch.vmap(call)(x), want)
            torch.testing.assert_close(torch.vmap(call, in_dims=1, out_dims=1)(x), want)
            torch.testing.assert_close(torch.vmap(torch.vmap(call))(x), want)
        with mock.patch.object(packed, "_overload", mock.Mock(wraps=packed._overload)) as calls:
            torch.vmap(torch.ops.test.packed_rows)(x)
        self.assertEqual(calls.call_count, 1)
        self.assertEqual(plain.name, "test::plain_scaled")

    def test_functionalize(self):
        x = torch.randn(3, 4)
        for call in (softmax, torch.ops.test.softmax, torch.vmap(softmax)):
            torch.testing.assert_close(torch.func.functionalize(call)(x), x.softmax(-1))
        torch.testing.assert_close(torch.vmap(torch.func.functionalize(softmax))(x), x.softmax(-1))

    def test_mutation(self):
        """Autograd sees writes, and operators that mutate refuse what requires grad."""
        text = "kernel add(x: f32[N], total: f32[N]) { parallel n in N by 16 { total[n] = total[n] + x[n]; } }"
        add = tt.op(tegula.source(text).add, name="test::add", mutates=["total"])
        ones = torch.ones(4)
        for call in (add, torch.ops.test.add):
            x, total = torch.ones(4, requires_grad=True), torch.zeros(4)
            version = total._version
            call(ones, total)
            self.assertEqual((total._version, total[0]), (version + 1, 1))
            y = (x * total).sum()  # saves total
            call(ones, total)
            with self.assertRaisesRegex(RuntimeError, "modified by an inplace operation"):
                y.backward()
            for given, name in (((x, total), "x"), ((ones, x * 1), "total")):
                message = f"add: '{name}' requires grad, and operators that mutate have no gradients: pass {name}.det"
                with self.assertRaisesRegex(RuntimeError, message):
                    call(*given)
                with torch.no_grad():
                    call(*given)
            with torch.inference_mode():
                call(ones, torch.zeros(4))

    def test_made_again(self):
        """An operator that is made again while a call runs waits for the call."""
        loop = "var v = x[n]; for i in 0..%d { v = sin(v); } y[n] = v;"
        text = f"kernel slow(x: f32[N], y: f32[N]) {{ parallel n in N by 16 {{ {loop} }} }}"
        x = torch.ones(1 << 14)
        first = tt.op(tegula.source(text % 400).slow, name="test::slow")
        want, made = first(x), []
        worker = threading.Thread(target=lambda: made.extend(first(x) for _ in range(3)))
        worker.start()
        try:
            second = tt.op(tegula.source(text % 1).slow, name="test::slow")
        finally:
            worker.join()
        torch.testing.assert_close(second(x), x.sin())
        for y in made:  # a later call of the object is one of the new operator
            self.assertTrue(torch.equal(y, want) or torch.allclose(y, x.sin()))

    def test_half_made(self):
        """An operator that cannot be made leaves its name free."""
        with mock.patch.object(tt.Operator, "_add_autocast", side_effect=ValueError("stop")):
            with self.assertRaisesRegex(ValueError, "stop"):
                tt.op(module().scaled, name="test::half")
        self.assertFalse(hasattr(torch.ops.test, "half"))
        half = tt.op(module().scaled, name="test::half")
        torch.testing.assert_close(half(torch.ones(2, 3), torch.ones(3), 1.0, False), torch.ones(2, 3))

    def test_no_memory(self):
        """PyTorch's own exception."""
        text = "kernel repeat(x: f32[N], y: f32[M], k: i64) require M == N * k { parallel m in M by 16 { y[m] = x[0]; } }"
        repeat = tt.op(tegula.source(text).repeat, name="test::repeat")
        x = torch.ones(1 << 20)
        with self.assertRaisesRegex(RuntimeError, "allocate"):
            repeat(x, 1 << 26)
        with self.assertRaisesRegex(RuntimeError, r"failed to make 'y', float32\[70368744177664\] of 281474976710656 bytes"):
            torch.ops.test.repeat(x, 1 << 26)

    def test_vmap_of_none(self):
        """A batch of 0 has the shapes and types that elements would have."""
        norm = tt.op("std/norm.teg", "rms_norm", name="test::both", returns=["y", "rstd"])
        for operator in (norm, torch.ops.test.both):
            y, rstd = torch.vmap(lambda a: operator(a, None, eps=1e-6))(torch.empty(0, 4, 5).bfloat16())
            self.assertEqual((y.shape, y.dtype, rstd.shape, rstd.dtype), ((0, 4, 5), torch.bfloat16, (0, 4), torch.float32))

    def test_transforms(self):
        """Gradients by torch.func, also of and in vmap. Forward mode is refused, and names the argument."""
        x, w = torch.randn(3, 4, dtype=torch.float64), torch.randn(4, dtype=torch.float64)
        grad, vmap = torch.func.grad, torch.vmap

        def loss(f, g):
            return lambda x, w: g(f(x, w) * 3, -1).square().sum()

        mine = loss(lambda x, w: rms_norm(x, w, eps=1e-5), lambda x, _: softmax(x))
        theirs = loss(lambda x, w: F.rms_norm(x, w.shape, w, 1e-5), torch.softmax)
        for make in (
            lambda f: grad(f, (0, 1)),
            lambda f: vmap(grad(f, (0, 1)), (0, None)),
            lambda f: grad(lambda x, w: vmap(f, (0, None))(x, w).sum(), (0, 1)),
        ):
            torch.testing.assert_close(make(mine)(x, w), make(theirs)(x, w))
        message = "rms_norm: 'g' has a tangent, and operators have no forward mode: use backward"
        for operator in (rms_norm, lambda x, w: torch.ops.test.rms_norm(x, w)[0]):
            for given in (x, x.clone().requires_grad_()):
                with self.assertRaisesRegex(NotImplementedError, message):
                    torch.func.jvp(lambda w: operator(given, w), (w,), (w,))
                with torch.autograd.forward_ad.dual_level():
                    dual = torch.autograd.forward_ad.make_dual(w, w)
                    with self.assertRaisesRegex(NotImplementedError, message):
                        operator(given, dual)
        for wrong in (lambda x: rms_norm(x, w, w), lambda x: rms_norm(x, gain=w), lambda x: rms_norm(eps=1e-6)):
            with self.assertRaisesRegex(Exception, "rms_norm"):
                vmap(wrong)(x)
        with self.assertRaisesRegex(NotImplementedError, "softmax: an argument has a tangent"):
            torch.func.jvp(grad(lambda x: softmax(x).sum()), (x,), (x,))
        message = "softmax: torch.func differentiates the object that op.. returned, and not torch.ops.test.softmax"
        with self.assertRaisesRegex(NotImplementedError, message):
            grad(lambda x: torch.ops.test.softmax(x).sum())(x)

    def test_marked_dims(self):
        """Dims that are marked as dynamic stay symbols."""
        twin = "kernel twin(x: f32[N], y: f32[2 * N]) { parallel n in N by 16 { y[n] = x[n]; y[n + N] = x[n]; } }"
        twin = tt.op(tegula.source(twin).twin, name="test::twin")
        graphs = []
        run = torch.compile(lambda x: twin(softmax(x)) + 1, fullgraph=True, backend=lambda g, _: graphs.append(g) or g)
        for n in (5, 8, 12):
            x = torch.randn(n)
            torch._dynamo.mark_dynamic(x, 0)
            torch.testing.assert_close(run(x), x.softmax(-1).repeat(2) + 1)
        self.assertEqual(len(graphs), 1)

    @unittest.skipUnless(os.environ.get("TG_TEST_AOTI"), "C++ is compiled: 20 seconds")
    def test_aot_inductor(self):
        program, w = exported()
        with tempfile.TemporaryDirectory() as folder, torch.no_grad():
            path = torch._inductor.aoti_compile_and_package(program, package_path=f"{folder}/model.pt2")
            run = torch._inductor.aoti_load_package(path)
            for n in (4, 7):
                x = torch.randn(n, 10)
                torch.testing.assert_close(run(x, w), plain(x, w))

    def test_vmap_by_pack(self):
        """Only a declared pack takes the batch: frobenius_normalise computes across its pack."""
        norm = tt.op("std/norm.teg", "frobenius_normalise", name="test::frobenius")
        x = torch.randn(3, 4, 5)
        want = torch.stack([a / a.norm() for a in x])
        torch.testing.assert_close(torch.vmap(lambda a: norm(a, 1.0, 1e-9))(x), want)
        packed = tt.op("std/softmax.teg", "softmax", name="test::packed", vmap="pack")
        with mock.patch.object(packed, "_overload", mock.Mock(wraps=packed._overload)) as calls:
            torch.testing.assert_close(torch.vmap(packed, in_dims=1, out_dims=1)(x), x.softmax(-1))
        self.assertEqual(calls.call_count, 1)
        with self.assertRaisesRegex(ValueError, "vmap is 'rows'; it is 'pack' or None"):
            tt.op("std/softmax.teg", "softmax", name="test::rows", vmap="rows")

    def test_default_names(self):
        """Another kernel does not take the name of an operator that exists."""
        text = "kernel own_name(x: f32[N], y: f32[N]) { parallel n in N by 16 { y[n] = x[n]; } }"
        first = tt.op(tegula.source(text).own_name)
        self.assertIs(tt.op(tegula.source(text).own_name), first)
        for other, how in ((text.replace("x[n];", "2 * x[n];"), {}), (text, {"vmap": "pack"})):
            with self.assertRaisesRegex(ValueError, "another operator tegula::own_name; name="):
                tt.op(tegula.source(other).own_name, **how)
        double = tt.op(tegula.source(text.replace("x[n];", "2 * x[n];")).own_name, name="test::double")
        x = torch.ones(3)
        self.assertEqual((first(x)[0], double(x)[0]), (1, 2))
        softmax = tt.op("std/softmax.teg", "softmax")
        self.assertIs(tt.op("std/softmax.teg", "softmax"), softmax)
        with self.assertRaisesRegex(ValueError, "name="):
            tt.op("std/softmax.teg", "softmax", backward="softmax_backward")

    def test_autocast(self):
        """Tensors of one type parameter take the widest type."""
        x, w = torch.randn(4, 5, dtype=torch.bfloat16), torch.randn(5)
        with self.assertRaisesRegex(Exception, "'g' is f32.5.; 'x' made T bf16"):
            rms_norm(x, w)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            y = rms_norm(x, w)
        torch.testing.assert_close(y, F.rms_norm(x.float(), (5,), w, 1e-6))

    def test_names(self):
        """Numbers, constants, results that are asked for, defaults, mutated arguments."""
        m = module()
        scaled = tt.op(m.scaled, name="test::scaled", defaults={"twice": False})
        x, s = torch.randn(2, 3), torch.randn(3)
        torch.testing.assert_close(scaled(x, s, 0.5), x * s * 0.5)
        torch.testing.assert_close(torch.ops.test.scaled(x, s, 0.5, twice=True), x * s)
        statistic = tt.op("std/norm.teg", "rms_norm", name="test::rms_rstd", returns=["rstd"])
        want = (x.square().mean(-1) + 1e-6).rsqrt()
        torch.testing.assert_close(statistic(x, eps=1e-6), want)
        count = tt.op(m["count"], name="test::count", mutates=["total"])
        total = torch.zeros(4, dtype=torch.int32)
        ids = torch.tensor([0, 1, 1, 3])
        self.assertIsNone(count(ids, total))
        torch.compile(lambda i, t: count(i, t), fullgraph=True, backend="aot_eager")(ids, total)
        self.assertEqual(total.tolist(), [2, 4, 0, 2])
        torch.library.opcheck(count._overload, (ids, total))

    def test_conditions(self):
        """A dim of a `require` has a value in a traced graph, too."""
        halves = tt.op(module().halves, name="test::halves")
        run = torch.compile(lambda x: halves(x, 2) + 1, fullgraph=True, dynamic=True, backend="aot_eager")
        for n in (8, 12):
            x = torch.randn(n)
            torch.testing.assert_close(run(x), x[: n // 2] + 1)

    def test_failures(self):
        x = torch.randn(3, 10)
        for call, text in (
            (lambda: rms_norm(x, torch.randn(11)), r"'g' is \[11\]; its type T\[N\] is \[10\]"),
            (lambda: rms_norm(x, torch.randn(10).double()), "'g' is f64.10.; 'x' made T f32"),
            (lambda: softmax(x.int()), "i32"),
            (lambda: softmax(torch.tensor(1.0)), "'x' is f32..: it has 0 dims"),
            (lambda: rms_norm(x, torch.randn(10, device="meta")), "'g' is on meta, and 'x' is on cpu"),
        ):
            with self.assertRaisesRegex(Exception, text):
                call()
        without = tt.op("std/softmax.teg", "softmax", name="test::no_backward")
        with self.assertRaisesRegex(RuntimeError, "'x' requires grad, and the operator has no backward"):
            without(x.requires_grad_()).sum().backward()
        with self.assertRaisesRegex(TypeError, "'y' is neither a parameter of sin_ nor"):
            text = "kernel sin_(x: f32[N], z: f32[N]) { parallel n in N by 16 { z[n] = sin(x[n]); } }"
            back = tegula.load("std/softmax.teg").softmax_backward
            tt.op(tegula.source(text).sin_, backward=back, name="test::sin")


def pair(mine, theirs, *given, tolerance=2e-5):
    """Results and gradients agree."""
    a = [t.clone().requires_grad_(t.is_floating_point()) for t in given]
    b = [t.clone().requires_grad_(t.is_floating_point()) for t in given]
    y, z = mine(*a), theirs(*b)
    torch.testing.assert_close(y, z, rtol=tolerance, atol=tolerance)
    r = torch.randn_like(z)
    (y * r).sum().backward()
    (z * r).sum().backward()
    for s, t in zip(a, b):
        torch.testing.assert_close(s.grad, t.grad, rtol=1e-4, atol=1e-4)


class StandIns(unittest.TestCase):
    def test_rows(self):
        x = torch.randn(3, 4, 5)
        pair(lambda x: ours.softmax(x, 1), lambda x: F.softmax(x, 1), x)
        pair(lambda x: ours.log_softmax(x, -1), lambda x: F.log_softmax(x, -1), x)
        w, b = torch.randn(4, 5), torch.randn(4, 5)
        pair(lambda *a: ours.layer_norm(a[0], (4, 5), *a[1:]), lambda *a: F.layer_norm(a[0], (4, 5), *a[1:]), x, w, b)
        x, v = torch.randn(3, 4, 5, 2), torch.randn(2, 4)
        pair(lambda *a: ours.group_norm(a[0], 2, *a[1:]), lambda *a: F.group_norm(a[0], 2, *a[1:]), x, *v)
        pair(lambda x: ours.group_norm(x, 4), lambda x: F.group_norm(x, 4), x)
        x = torch.randn(3, 4, 5)
        pair(lambda x, w: ours.rms_norm(x, (5,), w), lambda x, w: F.rms_norm(x, (5,), w), x, w[0])

    def test_group_norm(self):
        """Gradients of narrow types are computed in f32; an empty batch has gradients of 0."""
        x, w, b = torch.randn(2, 6, 400).bfloat16(), torch.randn(6), torch.randn(6)
        given = [t.clone().requires_grad_() for t in (x, w.bfloat16(), b.bfloat16())]
        wide = [t.detach().float().requires_grad_() for t in given]
        r = torch.randn(2, 6, 400).bfloat16()
        (ours.group_norm(given[0], 3, *given[1:]) * r).sum().backward()
        (F.group_norm(wide[0], 3, *wide[1:]) * r.float()).sum().backward()
        for mine, theirs in zip(given, wide):
            torch.testing.assert_close(mine.grad, theirs.grad.bfloat16(), rtol=0.008, atol=0.02)
        mixed = [given[0].detach().requires_grad_(), w.requires_grad_(), b.requires_grad_()]
        ours.group_norm(mixed[0], 3, *mixed[1:]).sum().backward()
        self.assertEqual([t.grad.dtype for t in mixed], [t.dtype for t in mixed])
        mine, theirs = (lambda *a, f=f: f(a[0], 2, *a[1:]) for f in (ours.group_norm, F.group_norm))
        pair(mine, theirs, torch.randn(0, 4, 5), *torch.randn(2, 4))
        bias = torch.zeros(6, requires_grad=True)
        ours.group_norm(torch.randn(2, 6, 5), 3, None, bias).sum().backward()
        self.assertEqual(bias.grad.tolist(), [10.0] * 6)

    def test_compile(self):
        """Without a graph break, at the first call, too."""
        model = torch.nn.Sequential(
            torch.nn.Conv1d(3, 8, 3), torch.nn.GroupNorm(2, 8), torch.nn.LayerNorm(6), torch.nn.RMSNorm(6), torch.nn.Softmax(-1)
        )
        x = torch.randn(2, 3, 8)
        want = model(x)
        self.assertEqual(ours.replace(model), 5)
        torch._dynamo.reset()
        run = torch.compile(model, fullgraph=True, backend="aot_eager")
        torch.testing.assert_close(run(x), want, rtol=1e-4, atol=1e-4)

    def test_no_dim(self):
        """The dim that PyTorch takes where none is given."""
        for x in (torch.randn(3, 4, 5, 6)[(0,) * (4 - rank)] for rank in range(5)):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                pair(ours.softmax, F.softmax, x)
                pair(ours.log_softmax, F.log_softmax, x)
                pair(ours.Softmax(), torch.nn.Softmax(), x)
                pair(ours.LogSoftmax(), torch.nn.LogSoftmax(), x)

    def test_attention(self):
        mine, theirs = ours.scaled_dot_product_attention, F.scaled_dot_product_attention
        q, k, v = (torch.randn(2, 3, n, 8) for n in (9, 7, 7))
        keep = torch.rand(9, 7) > 0.3
        keep[:, 0] = True
        for how in ({}, {"attn_mask": keep}, {"attn_mask": torch.randn(3, 1, 7)}, {"is_causal": True}):
            pair(lambda *a: mine(*a, **how), lambda *a: theirs(*a, **how), q, k, v)
        pair(lambda *a: mine(*a, is_causal=True, scale=0.3), lambda *a: theirs(*a, is_causal=True, scale=0.3), k, k, v)
        with self.assertRaises(NotImplementedError):
            mine(q, k, v, dropout_p=0.1)

    def test_cross_entropy(self):
        t = torch.randint(0, 6, (2, 4))
        t[0, 1] = -100
        for how in ({}, {"reduction": "sum"}, {"ignore_index": 2}):
            t[t < 0] = how.get("ignore_index", -100)
            pair(lambda x: ours.cross_entropy(x, t, **how), lambda x: F.cross_entropy(x, t, **how), torch.randn(2, 6, 4))
        t[:] = -100
        how = {"reduction": "sum"}
        pair(lambda x: ours.cross_entropy(x, t, **how), lambda x: F.cross_entropy(x, t, **how), torch.randn(2, 6, 4))

    def test_convolution(self):
        w, b = torch.randn(6, 2, 3, 3), torch.randn(6)
        how = dict(stride=2, padding=(1, 0), dilation=1, groups=2)
        pair(lambda *a: ours.conv2d(*a, **how), lambda *a: F.conv2d(*a, **how), torch.randn(2, 4, 9, 8), w, b)
        x, w = torch.randn(2, 4, 9), torch.randn(6, 4, 3)
        pair(lambda *a: ours.conv1d(*a, padding=2), lambda *a: F.conv1d(*a, padding=2), x, w)
        x, w, how = torch.randn(1, 2, 4, 5, 6), torch.randn(3, 2, 1, 2, 3), dict(stride=(1, 2, 1), padding=(0, 1, 2))
        pair(lambda *a: ours.conv3d(*a, **how), lambda *a: F.conv3d(*a, **how), x, w)
        x, w = torch.randn(2, 2, 9, 8), torch.randn(3, 2, 3, 4)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for how in (dict(padding="same", dilation=(2, 1)), dict(padding="valid", stride=2)):
                pair(lambda *a: ours.conv2d(*a, **how), lambda *a: F.conv2d(*a, **how), x, w)
        for how, text in ((dict(padding="same", stride=2), "stride of 1"), (dict(padding="Same"), "'same' or 'valid'")):
            with self.assertRaisesRegex(ValueError, text):
                ours.conv2d(x, w, **how)

    def test_replace(self):
        model = torch.nn.Sequential(
            torch.nn.Conv1d(3, 8, 3, padding="same"),
            torch.nn.GroupNorm(2, 8),
            torch.nn.LayerNorm(8),
            torch.nn.ReLU(),
            torch.nn.Softmax(-1),
        )
        x = torch.randn(2, 3, 8)
        want = model(x)
        self.assertEqual(ours.replace(model), 4)
        self.assertIsInstance(model[1], ours.GroupNorm)
        torch.testing.assert_close(model(x), want)


class Example(unittest.TestCase):
    def test_training(self):
        """The loss curve of a transformer with Tegula's kernels is PyTorch's."""
        how = "--steps 8 --batch 4 --context 16 --width 32 --layers 1".split()
        run = subprocess.run(
            [sys.executable, ROOT / "examples/torch/train.py", *how], capture_output=True, text=True
        )
        self.assertEqual(run.returncode, 0, run.stdout + run.stderr)


if __name__ == "__main__":
    sys.exit(unittest.main())
