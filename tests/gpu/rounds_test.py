#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""bench/gpu/run.py: orders of rounds, and one record of several. The listed shapes, where PyTorch is."""

import pathlib
import sys

sys.dont_write_bytecode = True
ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench/gpu"))

import run


def record(ours, peer, **more):
    def row(mine, ms):
        return {"ours": mine, "ms": ms, "tflops": 8 / ms, "gbs": 4 / ms, "host_us": 9.0, "spread": 0.01}

    rows = {"tegula": row(True, ours), "cublas": row(False, peer)}
    return {"name": "a", "key": "A", "flops": 8e9, "rows": rows} | more


def test_orders():
    names = [str(i) for i in range(20)]
    assert run.turns(names, 1) == names
    three = run.turns(names, 3)
    orders = [three[i : i + 20] for i in (0, 20, 40)]
    assert all(sorted(o) == sorted(names) for o in orders)
    assert len({tuple(o) for o in [names, *orders]}) == 4


def test_medians():
    # Ratios are formed within one round, since the clock changes between rounds.
    one = run.merged([record(1.0, 2.0), record(4.0, 4.0), record(2.0, 3.0)])
    assert len(one) == 1
    assert run.ratios(one[0])["cublas"][0] == 1.5
    ours = one[0]["rows"]["tegula"]
    assert ours["ms"] == 2.0 and ours["spread"] == 1.5 and ours["tflops"] == 4.0


def test_rounds_of_a_ratio():
    # A peer that is absent from a round is compared in the other rounds only.
    some = [record(1.0, 3.0), record(2.0, 6.0), record(4.0, 12.0)]
    del some[0]["rows"]["cublas"]
    assert run.ratios(run.merged(some)[0])["cublas"][0] == 3.0
    del some[1]["rows"]["cublas"]
    assert run.ratios(run.merged(some)[0])["cublas"][0] == 3.0
    del some[2]["rows"]["tegula"]
    assert run.ratios(run.merged(some)[0])["cublas"][0] == 12.0 / 1.5


def test_one_round():
    assert run.merged([record(1.0, 2.0)]) == [record(1.0, 2.0)]
    assert run.ratios(record(1.0, 2.0))["cublas"][0] == 2.0


def test_failures():
    bad = record(1.0, 2.0)
    bad["rows"]["tegula"]["failed"] = "wrong"
    one = run.merged([record(1.0, 2.0), bad, record(1.0, 2.0)])
    assert run.failures(one) == ["A"] and run.ratios(one[0]) == {}
    gone = {"name": "a", "key": "a", "failed": "took more than 90 s", "rows": {}}
    for order in ([gone, record(1.0, 2.0)], [record(1.0, 2.0), gone]):
        one = run.merged(order)
        assert run.failures(one) == ["A"] and one[0]["failed"] == gone["failed"]
    assert run.merged([gone, gone])[0]["failed"] == gone["failed"]


def test_means():
    of = {"a": ["matmul", "llama"]}
    lines = run.geomeans([record(1.0, 2.0)], of)
    assert [x for x in lines if "cublas 2.000 (1)" in x and x.startswith(("| matmul", "| llama"))] == lines[2:]
    assert len(lines) == 4


def test_shapes():
    try:
        import cases
    except ImportError:
        return
    groups = cases.groups()
    assert len(groups["llama"]) == len({name for name, _ in groups["llama"]}) == 27
    forward = {name for g in ("attention", "forward") for name, _ in groups[g]}
    assert len([n for n in forward if n.endswith("bf16")]) == len([n for n in forward if "bf16" not in n])


for name, test in list(globals().items()):
    if name.startswith("test_"):
        test()
        print("ok", name)
