#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Checks that bench/gpu/measure.py refuses contenders that cheat, each in its own way, and times an honest
one."""

import argparse
import dataclasses
import pathlib
import sys

SKIP = 77
ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench/gpu"))

try:
    import torch
except ImportError:
    print("no torch here: nothing is tested")
    sys.exit(SKIP)

import cases
import measure

ROWS, COLUMNS = 64, 96


def honest(i, o):
    torch.softmax(i["x"], -1, out=o["y"])


class First:
    """Computes the first inputs right, and then repeats their result for all inputs."""

    def __init__(self):
        self.known = None

    def __call__(self, i, o):
        if self.known is None:
            self.known = torch.softmax(i["x"], -1)
        o["y"].copy_(self.known)


class Tired:
    """Correct while it is checked; does nothing from its fifth run on."""

    def __init__(self):
        self.runs = 0

    def __call__(self, i, o):
        self.runs += 1
        if self.runs < 5:
            honest(i, o)


def nothing(i, o):
    pass


def half(i, o):
    o["y"][: ROWS // 2].copy_(torch.softmax(i["x"][: ROWS // 2], -1))


def off(i, o):
    honest(i, o)
    o["y"][3, 4] += 5e-6


def narrow(i, o):
    """Computes in bf16 instead of f32."""
    o["y"].copy_(torch.softmax(i["x"].to(torch.bfloat16), -1))


def beside(i, o):
    honest(i, o)
    o["y"].as_strided((1,), (1,), o["y"].storage_offset() + ROWS * COLUMNS).fill_(0)


def broken(i, o):
    raise RuntimeError("no such kernel")


def scaled(*names):
    """The product of f8 with only these scales."""

    def run(i, o):
        c = i["a"].float() @ i["b"].float().t()
        for name in names:
            c *= i[name]
        o["c"].copy_(c)

    return run


# Contender, and a part of the message that refuses it; "" for the honest one.
EXPECTED = {
    "honest": (honest, ""),
    "nothing": (nothing, "NaN, inf or unwritten"),
    "half": (half, "NaN, inf or unwritten"),
    "off": (off, "an element is off"),
    "narrow": (narrow, "relative error"),
    "beside": (beside, "wrote beside y"),
    "broken": (broken, "no such kernel"),
    "first": (First(), "timed run"),
    "tired": (Tired(), "the last timed run"),
}
SCALED = {
    "scaled": (scaled("sa", "sb"), ""),
    "without scales": (scaled(), "relative error"),
    "without sa": (scaled("sb"), "relative error"),
    "without sb": (scaled("sa"), "relative error"),
}


def contenders(expected):
    return [measure.Contender(n, run, ours=True) for n, (run, _) in expected.items()]


def problem(device):
    def inputs(seed):
        g = torch.Generator().manual_seed(seed)
        return {"x": torch.randn(ROWS, COLUMNS, generator=g).to(device)}

    return measure.Problem(
        key="softmax",
        inputs=inputs,
        outputs=lambda i: {"y": ((ROWS, COLUMNS), torch.float32)},
        reference=lambda i: {"y": torch.softmax(i["x"].to(torch.float64), -1)},
        contenders=contenders(EXPECTED),
        plain=honest,
        limit=measure.LIMITS["f32"],
        bytes=2 * 4 * ROWS * COLUMNS,
    )


def ruled(device, expected, limit=None, **rules):
    """The number of wrong verdicts under other rules; limit: of each contender."""
    made = [dataclasses.replace(c, limit=limit) for c in contenders(expected)]
    return judged(dataclasses.replace(problem(device), contenders=made, **rules), expected, device)


def rules(device):
    """An element's limit may be absent or have a least value, and fewer bits have a limit of their own."""
    bad = ruled(device, {"honest": (honest, ""), "off": (off, ""), "narrow": (narrow, "relative")}, by_element=False)
    bad += ruled(device, {"off": (off, "")}, least_yardstick=2e-6)
    bad += ruled(device, {"off": (off, "an element is off")}, least_yardstick=1e-7)
    few = {"narrow": (narrow, ""), "half": (half, "unwritten"), "off": (off, "")}
    return bad + ruled(device, few, measure.LIMITS["bf16"])


def scaled_problem(device):
    """The benchmark's own case."""
    case = cases.fp8(cases.Env(device, set(), None, [{}]), 64, 48, 32)
    return dataclasses.replace(case, contenders=contenders(SCALED), plain=SCALED["scaled"][0])


def judged(problem, expected, device):
    """The number of contenders with a wrong verdict."""
    record = measure.run_problem(problem, device, 0.01)
    bad = 0
    for name, (_, words) in expected.items():
        row = record["rows"][name]
        said = row.get("failed", "")
        good = words in said if words else not said and row["ms"] > 0
        print(f"{'ok  ' if good else 'FAIL'} {name}: {said or str(row['ms']) + ' ms'}")
        bad += not good
    return bad


def convolution(device):
    """The benchmark's own case, whose peers have both orders of channels."""
    case = cases.conv2d(cases.Env(device, {"cudnn"}, None, [{}]), 2, 8, 6, 5, 4)
    return case, {"cudnn": (None, ""), "cudnn contiguous": (None, "")}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cpu")
    device = torch.device(parser.parse_args().device)
    measure.PIECE = ROWS * COLUMNS // 3  # so that results are compared in several pieces
    bad = judged(problem(device), EXPECTED, device) + rules(device)
    bad += judged(scaled_problem(device), SCALED, device)
    bad += judged(*convolution(device), device)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
