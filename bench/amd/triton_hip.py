#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The peers' side of static.py: compiles a product and an attention in Triton for AMD GPUs, in usual
settings. No GPU is needed.

    triton_hip.py FOLDER [TARGETS]        writes FOLDER/TARGET-CASE.s
"""

import pathlib
import sys

import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource


@triton.jit
def matmul(a, b, c, K, sa, sb, sc, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, NT: tl.constexpr):
    m = tl.program_id(0) * BM + tl.arange(0, BM)
    n = tl.program_id(1) * BN + tl.arange(0, BN)
    k = tl.arange(0, BK)
    x = a + m[:, None] * sa + k[None, :]
    if NT:
        y = b + n[None, :] * sb + k[:, None]
    else:
        y = b + k[:, None] * sb + n[None, :]
    acc = tl.zeros((BM, BN), tl.float32)
    for _ in range(0, K, BK):
        acc = tl.dot(tl.load(x), tl.load(y), acc)
        x += BK
        y += BK if NT else BK * sb
    tl.store(c + m[:, None] * sc + n[None, :], acc.to(tl.float16))


@triton.jit
def attention(q, k, v, o, S, scale2, D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr):
    head = tl.program_id(1) * S * D
    m = tl.program_id(0) * BM + tl.arange(0, BM)
    n = tl.arange(0, BN)
    d = tl.arange(0, D)
    rows = tl.load(q + head + m[:, None] * D + d[None, :])
    keys = k + head + n[None, :] * D + d[:, None]
    values = v + head + n[:, None] * D + d[None, :]
    top = tl.full((BM,), float("-inf"), tl.float32)
    den = tl.zeros((BM,), tl.float32)
    acc = tl.zeros((BM, D), tl.float32)
    for _ in range(0, S, BN):
        s = tl.dot(rows, tl.load(keys)) * scale2
        new = tl.maximum(top, tl.max(s, 1))
        p = tl.exp2(s - new[:, None])
        less = tl.exp2(top - new)
        den = den * less + tl.sum(p, 1)
        acc = tl.dot(p.to(tl.float16), tl.load(values), acc * less[:, None])
        top = new
        keys += BN * D
        values += BN * D
    tl.store(o + head + m[:, None] * D + d[None, :], (acc / den[:, None]).to(tl.float16))


def settings(target):
    """Case -> (kernel, constants, options)."""
    cdna = target.startswith("gfx9")
    tile = {"BM": 256, "BN": 256, "BK": 64} if cdna else {"BM": 128, "BN": 128, "BK": 32}
    big = {"num_warps": 8 if cdna else 4, "num_stages": 2, "matrix_instr_nonkdim": 16}
    flash = {"D": 128, "BM": 128, "BN": 64} if cdna else {"D": 128, "BM": 64, "BN": 32}
    few = {"num_warps": 4, "num_stages": 1, "waves_per_eu": 2}
    return {
        "matmul": (matmul, {**tile, "NT": False}, big),
        "matmul_nt": (matmul, {**tile, "NT": True}, big),
        "attention": (attention, flash, few),
    }


def assembly(target, kernel, constants, options):
    types = {"scale2": "fp32"} | {p: "i32" for p in ("K", "S", "sa", "sb", "sc")}
    names = kernel.arg_names
    signature = {n: "constexpr" if n in constants else types.get(n, "*fp16") for n in names}
    aligned = {(i,): [["tt.divisibility", 16]] for i, n in enumerate(names) if signature[n] in ("*fp16", "i32")}
    source = ASTSource(fn=kernel, signature=signature, constexprs=constants, attrs=aligned)
    lanes = 64 if target.startswith("gfx9") else 32
    made = triton.compile(source, target=GPUTarget("hip", target, lanes), options=options)
    # Triton passes the size of shared memory at the launch. Here it goes where other compilers put it.
    size = ".amdhsa_group_segment_fixed_size "
    return made.asm["amdgcn"].replace(size + "0", f"{size}{made.metadata.shared}")


def main():
    folder = pathlib.Path(sys.argv[1])
    for target in (sys.argv[2] if len(sys.argv) > 2 else "gfx90a,gfx942,gfx950,gfx1100,gfx1201").split(","):
        for case, (kernel, constants, options) in settings(target).items():
            path = folder / f"{target}-{case}.s"
            path.write_text(assembly(target, kernel, constants, options), encoding="utf-8")
            print(path, constants, options)


if __name__ == "__main__":
    main()
