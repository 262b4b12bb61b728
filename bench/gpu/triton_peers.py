# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Products and attention in Triton as peers: tensor descriptors (TMA), a persistent product, attention with
the diagonal in a loop of its own. The fastest of a few settings is used."""

import time

import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

LOG2E = tl.constexpr(1.4426950408889634)


@triton.jit
def _tile(i, rows, columns, M, BM: tl.constexpr, GROUP: tl.constexpr):
    """Tile i of rows x columns, in bands of `GROUP` rows so that the L2 serves them."""
    band = i // (GROUP * columns)
    first = band * GROUP
    high = min(rows - first, GROUP)
    j = i % (GROUP * columns)
    return first + j % high, j // high


@triton.jit
def _matmul(
    a,
    b,
    c,
    M,
    N,
    K,
    BM: tl.constexpr,
    BN: tl.constexpr,
    BK: tl.constexpr,
    TB: tl.constexpr,
    GROUP: tl.constexpr,
):
    rows, columns = tl.cdiv(M, BM), tl.cdiv(N, BN)
    for i in tl.range(tl.program_id(0), rows * columns, tl.num_programs(0)):
        m, n = _tile(i, rows, columns, M, BM, GROUP)
        acc = tl.zeros((BM, BN), tl.float32)
        for k in range(0, K, BK):
            x = a.load([m * BM, k])
            if TB:
                acc = tl.dot(x, b.load([n * BN, k]).T, acc)
            else:
                acc = tl.dot(x, b.load([k, n * BN]), acc)
        c.store([m * BM, n * BN], acc.to(c.dtype))


@triton.jit
def _attend(
    acc, den, top, q, k, v, row, lo, hi, mi, ni, scale2, MASK: tl.constexpr, BN: tl.constexpr
):
    for n in range(lo, hi, BN):
        s = tl.dot(q, k.load([row + n, 0]).T)
        if MASK:
            s = tl.where(mi[:, None] >= n + ni[None, :], s, -1e30)
        t = tl.maximum(top, tl.max(s, 1) * scale2)
        p = tl.math.exp2(s * scale2 - t[:, None])
        f = tl.math.exp2(top - t)
        den = den * f + tl.sum(p, 1)
        acc = tl.dot(p.to(v.dtype), v.load([row + n, 0]), acc * f[:, None])
        top = t
    return acc, den, top


@triton.jit
def _attention(
    q, k, v, o, S, scale, D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, CAUSAL: tl.constexpr
):
    row = tl.program_id(1) * S
    start = tl.program_id(0) * BM
    mi = start + tl.arange(0, BM)
    ni = tl.arange(0, BN)
    acc = tl.zeros((BM, D), tl.float32)
    den = tl.zeros((BM,), tl.float32)
    top = tl.full((BM,), -1e30, tl.float32)
    x = q.load([row + start, 0])
    scale2 = scale * LOG2E
    if CAUSAL:
        acc, den, top = _attend(acc, den, top, x, k, v, row, 0, start, mi, ni, scale2, False, BN)
        acc, den, top = _attend(
            acc, den, top, x, k, v, row, start, start + BM, mi, ni, scale2, True, BN
        )
    else:
        acc, den, top = _attend(acc, den, top, x, k, v, row, 0, S, mi, ni, scale2, False, BN)
    o.store([row + start, 0], (acc / den[:, None]).to(o.dtype))


# ---- launching -----------------------------------------------------------------------------------


class Fastest:
    """At the first call of a kind, tries all settings; launches the fastest from then on."""

    def __init__(self):
        self.chosen = {}

    def __call__(self, kind, settings, launch):
        if kind not in self.chosen:
            self.chosen[kind] = min(settings, key=lambda s: self.seconds(launch, s))
        launch(self.chosen[kind])

    @staticmethod
    def seconds(launch, setting):
        try:
            best = float("inf")
            for _ in range(4):
                torch.cuda.synchronize()
                t = time.perf_counter()
                launch(setting)
                torch.cuda.synchronize()
                best = min(best, time.perf_counter() - t)
            return best
        except Exception:  # too much shared memory, for instance
            return float("inf")


_fastest = Fastest()
# BM, BN, BK, warps, stages
MATMUL = [(128, 256, 64, 8, 3), (256, 128, 64, 8, 3), (128, 128, 64, 4, 4), (128, 128, 64, 8, 4)]
THIN = [(16, 64, 256, 4, 4), (16, 128, 128, 4, 5), (128, 64, 128, 4, 4), (64, 64, 128, 4, 4)]
# BM, BN, warps, stages
ATTENTION = [(128, 128, 8, 2), (128, 128, 8, 3), (128, 64, 4, 3), (64, 128, 4, 3), (64, 64, 4, 4)]


def matmul(a, b, c, transposed):
    """c = a b, or a b^T."""
    m, k = a.shape
    n = b.shape[0] if transposed else b.shape[1]
    sms = torch.cuda.get_device_properties(a.device).multi_processor_count

    def launch(s):
        bm, bn, bk, warps, stages = s
        grid = min(sms, triton.cdiv(m, bm) * triton.cdiv(n, bn))
        boxes = [bm, bk], [bn, bk] if transposed else [bk, bn], [bm, bn]
        descs = [TensorDescriptor.from_tensor(t, box) for t, box in zip((a, b, c), boxes)]
        _matmul[(grid,)](
            *descs, m, n, k, bm, bn, bk, transposed, 8, num_warps=warps, num_stages=stages
        )

    _fastest(("matmul", m, n, k, a.dtype, transposed), MATMUL if m >= 512 else THIN, launch)


def attention(q, k, v, o, scale, causal):
    """q, k, v, o [B, H, S, D]; S a multiple of 128."""
    b, h, s, d = q.shape

    def launch(setting):
        bm, bn, warps, stages = setting
        flat = [t.view(b * h * s, d) for t in (q, k, v, o)]
        descs = [TensorDescriptor.from_tensor(t, [n, d]) for t, n in zip(flat, (bm, bn, bn, bm))]
        _attention[(s // bm, b * h)](
            *descs, s, scale, d, bm, bn, causal, num_warps=warps, num_stages=stages
        )

    # The diagonal's blocks of keys start with its queries.
    settings = [t for t in ATTENTION if not causal or t[0] % t[1] == 0]
    _fastest(("attention", q.shape, q.dtype, causal), settings, launch)
