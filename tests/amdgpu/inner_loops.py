#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Checks the counts of bench/amd: two texts with known figures, known numbers of waves, and a product of the
library, for which the compiler reports the same.

    inner_loops.py TEGULA
"""

import json
import pathlib
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
BENCH = pathlib.Path(__file__).resolve().parents[2] / "bench" / "amd"
sys.path.insert(0, str(BENCH))
import loops  # noqa: E402
import static  # noqa: E402

# A loop with masks, a tail, and the loop to be counted, within a loop over tiles.
MASKS = "\tv_cndmask_b32_e32 v0, 0, v1, vcc\n" * 11
ASSEMBLY = f"""
	.globl	product
product:                                ; @product
	s_mov_b32 s0, 0
.LBB0_1:                                ; tiles
	v_mov_b32_e32 v0, 0
.LBB0_2:                                ; with masks
{MASKS}	v_mfma_f32_32x32x8_f16 a[0:15], v[0:1], v[2:3], a[0:15]
	v_mfma_f32_32x32x8_f16 a[0:15], v[0:1], v[2:3], a[0:15]
	s_cbranch_scc1 .LBB0_2
.LBB0_3:
	ds_read_b128 v[0:3], v9
	ds_read2_b64 v[4:7], v9 offset1:4
	ds_write_b16_d16_hi v9, v8
	ds_bpermute_b32 v8, v9, v8
	global_load_dwordx4 v[0:3], v[10:11], off
	buffer_load_dword v12, s[0:3], 0 offen lds
	v_mfma_f32_32x32x8_f16 a[0:15], v[0:1], v[2:3], a[0:15]
	v_exp_f32_e32 v8, v8
	s_waitcnt vmcnt(0) lgkmcnt(0)
	s_barrier
	v_mfma_f32_32x32x8_f16 a[0:15], v[0:1], v[2:3], a[0:15]
	s_cbranch_vccnz .LBB0_3
	s_cbranch_scc0 .LBB0_1
	v_mfma_f32_32x32x8_f16 a[0:15], v[0:1], v[2:3], a[0:15]
	s_endpgm
other:
	s_endpgm
"""
WANTED = {
    "matrix": 2,
    "matrix_ops": {"v_mfma_f32_32x32x8_f16": 2},
    "type": "f16",
    "macs": 2 * 32 * 32 * 8,
    "instructions": 12,
    "lds_read": 2,
    "lds_read_bytes": 32,
    "lds_write": 1,
    "lds_write_bytes": 2,
    "shared_bytes": 32 + 4 + 4,
    "crossbar": 1,
    "global_read": 2,
    "global_read_bytes": 20,
    "direct": 1,
    "transcendental": 1,
    "wait": 1,
    "barrier": 1,
    "scalar": 1,
    "ahead": 1,
}
# As a disassembler prints it: branches with distances, and two instructions in one.
LISTING = """
0000000000001900 <p>:
	s_mov_b32 s0, 0                                            // 000000001900: BE800080
0000000000001904 <L1>:
	v_wmma_f32_16x16x16_bf16 v[0:7], v[8:15], v[16:23], v[0:7] // 000000001904: CC414000 1C022108
	v_dual_mul_f32 v0, v1, v2 :: v_dual_max_f32 v3, v4, v5     // 00000000190C: C8C60501 00020B04
	s_cbranch_scc1 65531                                       // 000000001914: BFA2FFFB
	s_endpgm                                                   // 000000001918: BFB00000
"""
LISTED = {"matrix": 1, "type": "bf16", "macs": 4096, "vector": 2, "scalar": 1, "instructions": 4}
# (GPU, threads, registers, bytes of shared memory) -> waves of a SIMD, and the limit.
WAVES = {
    ("gfx90a", 256, 128, 0): (4, "registers"),
    ("gfx90a", 256, 129, 0): (3, "registers"),
    ("gfx942", 64, 200, 0): (2, "registers"),
    ("gfx942", 256, 32, 33 << 10): (1, "shared memory"),
    ("gfx942", 1024, 64, 0): (8, "waves"),
    ("gfx950", 512, 256, 80 << 10): (2, "registers"),
    ("gfx1100", 128, 121, 8 << 10): (10, "registers"),
    ("gfx1100", 32, 24, 0): (16, "waves"),
}


def check(what, got, want):
    if got != want:
        raise SystemExit(f"{what}: {got}, not {want}")


def check_texts():
    codes = loops.read(ASSEMBLY)
    check("kernels", list(codes), ["product"])
    counted = loops.count(codes["product"])
    check("counts", {k: counted.get(k) for k in WANTED}, WANTED)
    check("vector instructions", counted.get("vector"), None)
    counted = loops.count(loops.read(LISTING)["p"])
    check("counts of a listing", {k: counted.get(k) for k in LISTED}, LISTED)


def check_waves():
    for (gpu, threads, vector, shared), want in WAVES.items():
        used = {"threads": threads, "vector": vector, "shared": shared}
        check(f"waves on {gpu} of {used}", static.Target(gpu).waves(used), want)


def check_product(tegula, target):
    """Known peaks of units, and the compiler's own figures."""
    with tempfile.NamedTemporaryFile(suffix=".json") as out:
        command = [sys.executable, str(BENCH / "static.py"), "--tegula", tegula, "--targets", target]
        command += ["--cases", "^matmul_nt$", "--json", out.name]
        table = subprocess.run(command, capture_output=True, text=True, check=False)
        if table.returncode:
            raise SystemExit(table.stderr)
        rows = json.load(out)["rows"]
    own = rows[0]
    simds = static.Target(target).simds
    check("waves by explain", own["explained_waves"], own["waves"] * simds)
    check("scratch", (own["scratch_ops"], own["resources"]["scratch"]), (0, 0))
    if not 0 < own["in_turn"] <= own["at_best"] <= 1 or own["bytes_per_read"] < 8:
        raise SystemExit(f"unlikely figures: {own}")
    if own["ahead"] < own["matrix"]:
        raise SystemExit(f"a load is waited for before the products: {own}")
    peak = f"peak {static.Target(target).peak:.0f} "
    if not {"Triton"} < {r["who"] for r in rows} or peak not in table.stdout:
        raise SystemExit(f"no table with peers:\n{table.stdout}")


def main():
    check_texts()
    check_waves()
    for target in ("gfx942", "gfx1100"):
        check_product(sys.argv[1], target)
    print("counted as they are: two texts, waves of four GPUs, a product on two")


if __name__ == "__main__":
    main()
