#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""bench/kernelbench: the table of level 1, the arguments of the library's kernels, the geometric means, and
problems that crash or hang. Without PyTorch the references' shapes are not tested, and a line says so."""

import argparse
import math
import pathlib
import re
import sys
import tempfile

sys.dont_write_bytecode = True
ROOT = pathlib.Path(__file__).resolve().parents[2]
for folder in ("bench/gpu", "bench/kernelbench"):
    sys.path.insert(0, str(ROOT / folder))

import level1
import run as kernelbench

ROWS = level1.ROWS
FAMILIES = {
    "products": 18, "activations": 13, "softmax": 2, "norms": 8, "pooling": 6, "reductions": 6, "convolutions": 13,
    "transposed convolutions": 17, "depthwise convolutions": 5, "scans": 5, "losses": 6, "attention": 1,
}
# Shapes that KernelBench states: number -> inputs, result.
SHAPES = {
    3: ({"a": (128, 512, 1024), "b": (128, 1024, 2048)}, (128, 512, 2048)),
    4: ({"a": (2048, 1048576), "b": (1048576, 1)}, (2048, 1)),
    8: ({"a": (8205, 2949), "b": (2949, 5921)}, (8205, 5921)),
    18: ({"a": (8192, 2048), "b": (4096, 8192)}, (2048, 4096)),
    42: ({"x": (32, 64, 512, 512)}, (32, 64, 511, 511)),
    43: ({"x": (16, 32, 128, 128, 128)}, (16, 32, 62, 62, 62)),
    45: ({"x": (16, 64, 2048, 2048)}, (16, 64, 186, 186)),
    47: ({"x": (128, 4096, 4095)}, (128, 1, 4095)),
    50: ({"x": (256, 3, 224, 224), "w": (96, 3, 11, 11), "bias": (96,)}, (256, 96, 55, 55)),
    55: ({"x": (8, 64, 512, 1024), "w": (128, 64, 3, 3)}, (8, 128, 510, 1022)),
    72: ({"x": (8, 32, 12, 24, 48), "w": (32, 8, 3, 5, 7)}, (8, 32, 24, 48, 96)),
    75: ({"x": (16, 32, 128, 256), "w": (32, 16, 3, 5)}, (16, 64, 257, 766)),
    81: ({"x": (16, 32, 64, 128), "w": (32, 64, 3, 3)}, (16, 64, 318, 638)),
    85: ({"x": (32, 128, 128, 256), "w": (128, 1, 3, 7)}, (32, 128, 126, 250)),
    100: ({"x": (32768, 32768), "t": (32768,)}, ()),
}


def shapes_of(row, by):
    e = row.shrunk(by)
    return {n: d.shape for n, d in row.inputs(*e).items()}, tuple(row.output(*e))


def test_rows():
    assert sorted(ROWS) == list(range(1, 101))
    count = {f: sum(r.family == f for r in ROWS.values()) for f in FAMILIES}
    assert count == FAMILIES, count
    assert len({r.name for r in ROWS.values()}) == 100
    for number, (inputs, result) in SHAPES.items():
        assert shapes_of(ROWS[number], 1) == (inputs, result), number


def test_shrunk():
    for number, row in ROWS.items():
        full, _ = shapes_of(row, 1)
        for by in (2, 3, 7, 64, 100_000):
            inputs, result = shapes_of(row, by)
            for n, shape in inputs.items():
                assert len(shape) == len(full[n]) and all(0 < s <= f for s, f in zip(shape, full[n])), (number, by, n)
            assert all(s > 0 for s in result), (number, by, result)
            assert math.prod(inputs[next(iter(inputs))]) < math.prod(next(iter(full.values()))), (number, by)
            if row.batch:  # the axis of independent results has one extent everywhere
                ends = {inputs[n][a] for n, a in row.batch.items()} | {result[row.axis]}
                assert len(ends) == 1, (number, by, ends)
        inputs, result = shapes_of(row, 64)
        assert sum(map(math.prod, [*inputs.values(), result])) < 6e6, number


class Fake:
    """The shape of a tensor, for arguments."""

    def __init__(self, shape):
        self.shape = tuple(shape)

    @property
    def T(self):
        return Fake(self.shape[::-1])

    def flatten(self, start=0):
        return Fake((*self.shape[:start], math.prod(self.shape[start:])))

    def view(self, *shape):
        rest = math.prod(self.shape) // abs(math.prod(shape))
        return Fake(rest if s == -1 else s for s in shape)

    def expand(self, shape):
        return Fake(shape)

    def transpose(self, a, b):
        s = list(self.shape)
        s[a], s[b] = s[b], s[a]
        return Fake(s)

    def __getitem__(self, at):
        dims = [i for i in at if i is not None]
        kept = [s for s, i in zip(self.shape, dims) if isinstance(i, slice)]
        return Fake([*kept, *self.shape[len(dims) :], *[1] * at.count(None)])


KERNEL = re.compile(r"^kernel (\w+)(?:<[^>]*>)?\((.*?)\)\s", re.M | re.S)


def parameters():
    """(file, kernel) -> names of parameters, of the library."""
    return {
        (path.stem, name): re.findall(r"(\w+):", text)
        for path in (ROOT / "stdlib").glob("*.teg")
        for name, text in KERNEL.findall(path.read_text())
    }


def test_calls():
    known = parameters()
    for number, row in ROWS.items():
        e = row.shrunk(64)
        inputs = {n: Fake(d.shape) for n, d in row.inputs(*e).items()}
        scratch = {n: Fake(s) for n, s in row.scratch(*e).items()} if row.scratch else {}
        result = Fake(row.output(*e))
        assert row.calls
        for call in (*row.calls, *row.tf32):
            given = call.arguments(inputs, result, scratch)
            want = known[call.file, call.kernel]
            assert sorted(given) == sorted(want), (number, call.kernel, set(given) ^ set(want))
        last = row.calls[-1].arguments(inputs, result, scratch)
        written = [v for v in last.values() if isinstance(v, Fake) and math.prod(v.shape) == math.prod(result.shape)]
        assert written, number


def test_numbers():
    assert kernelbench.numbers_of("", ROWS) == list(range(1, 101))
    assert kernelbench.numbers_of("3,14-16,3", ROWS) == [3, 14, 15, 16]
    for text in ("101", "0-3"):
        try:
            kernelbench.numbers_of(text, ROWS)
        except ValueError as error:
            assert "no problem" in str(error)
        else:
            raise AssertionError(text)
    assert "a 37x128, b 128x64 -> 37x64; matmul/matmul" in kernelbench.described(ROWS[2], 64)


def record(number, ours, peers, **more):
    def contender(mine, ms):
        figures = {"ms": ms, "tflops": 1.0, "gbs": 2.0, "host_us": 9.0, "spread": 0.0}
        return {"ours": mine} | ({"failed": "wrong"} if ms is None else figures)

    rows = {"tegula": contender(True, ours)} | {n: contender(False, ms) for n, ms in peers.items()}
    return {"name": str(number), "key": f"{number} x", "flops": 0, "bytes": 1, "rows": rows} | more


def test_means():
    some = [
        record(1, 2.0, {"eager": 1.0, "compile": 4.0}),  # a product
        record(55, 2.0, {"eager": 16.0, "compile": 4.0, "eager tf32": 0.5}),  # a convolution
        record(19, 1.0, {"eager": 8.0, "compile": None}),
        record(20, None, {"eager": 1.0}),  # ours is wrong
        {"name": "21", "key": "21", "failed": "took more than 9 s", "rows": {}},
        record(22, 1.0, {"eager": 9.0}, failed="took more than 8 s"),  # in one round of several
    ]
    lines = kernelbench.means(some, ROWS)
    cells = {line.split("|")[1].strip(): [c.strip() for c in line.split("|")[2:-1]] for line in lines[2:]}
    assert cells["all"] == ["3 of 6", "3.175 (3)", "2.000 (2)", "2.000 (3)", "2"], cells["all"]
    assert cells["products"] == ["1 of 1", "0.500 (1)", "2.000 (1)", "0.500 (1)", "0"]
    assert cells["convolutions"] == ["1 of 1", "8.000 (1)", "2.000 (1)", "2.000 (1)", "1"]
    assert cells["without convolutions"][0] == "2 of 5" and cells["the rest"][3] == "8.000 (1)"
    text = "\n".join(kernelbench.table(some, ROWS))
    assert "| 21 | sigmoid | - |" in text and "took more than 9 s" in text and "tegula: wrong" in text
    assert kernelbench.correct(some) == (["1", "55", "19"], ["20", "21", "22"])


# A worker that crashes at problem 2 and hangs at problem 3.
WORKER = """import json, sys, time
print(json.dumps({"ready": {"device": "none", "torch": "none", "flush": "none"}}), flush=True)
for line in sys.stdin:
    name = line.strip()
    if name == "2": sys.exit(9)
    if name == "3": time.sleep(60)
    print(json.dumps({"name": name, "key": name, "rows": {}, "dead": False}), flush=True)
"""


def test_crashes():
    with tempfile.TemporaryDirectory() as folder:
        script = pathlib.Path(folder, "worker.py")
        script.write_text(WORKER)
        o = argparse.Namespace(script=script, out=folder, file="kernelbench.json", limit=1.0, total=0, resume=True)
        gpu = kernelbench.gpu_run()
        _, records = gpu.measure_all(o, ["1", "2", "3", "4"], [])
        assert [r.get("failed") for r in records] == [None, "the process ended with code 9", "took more than 1 s", None]
        assert [r["name"] for r in kernelbench.kept(o)] == ["1", "4"]
        _, records = gpu.measure_all(o, ["5"], [], kernelbench.kept(o))
        assert [r["name"] for r in records] == ["1", "4", "5"]
        assert [r["name"] for r in kernelbench.kept(o)] == ["1", "4", "5"]


def test_references():
    """The results of torch have the table's shapes, in pieces, too."""
    try:
        import torch
    except ImportError:
        print("no torch here: the references' shapes are not tested")
        return
    import cases
    import problem

    problem.PIECE_BYTES = 1 << 12
    env = cases.Env(torch.device("cpu"), set(), None, [{}], 100_000)
    for number, row in ROWS.items():
        p = problem.problem(row, env)
        inputs = p.inputs(1)
        (shape, dtype) = p.outputs(inputs)["y"]
        got = row.reference(torch, inputs)
        assert tuple(got.shape) == shape and got.dtype == dtype, (number, tuple(got.shape), shape)
        want = p.reference(inputs)["y"]
        close = p.view(inputs, {"y": got})["y"] if p.view else got
        assert torch.allclose(close.double(), want, rtol=1e-3, atol=1e-3), number


if __name__ == "__main__":
    for name, test in list(globals().items()):
        if name.startswith("test_"):
            test()
            print("ok", name, flush=True)
