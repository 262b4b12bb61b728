# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Compares the emulator of code objects (tools/amdsim) with AMD's manuals, computed in NumPy: instructions,
its checks, its errors, and damaged objects.

Usage: emulator.py LIBAMDSIM LLVM_BIN Each row is a kernel of its own. Lane l has the words x[l, 0:8] in v2
to v9; s8 to s15 hold those of lane 0. The result is the final contents of v10 to v13.
"""
import ctypes
import pathlib
import subprocess
import sys
import tempfile

import numpy as np

OK, BAD_CODE, NO_KERNEL, NO_MEMORY, UNKNOWN, ACCESS, FAULT = range(7)
CDNA, RDNA = "gfx942", "gfx1100"
BOTH = (CDNA, RDNA)
LANES = {CDNA: 64, RDNA: 32}
U32, I32, F32, F64, F16, U64 = np.uint32, np.int32, np.float32, np.float64, np.float16, np.uint64


# ---- the library

class Buffer(ctypes.Structure):
    _fields_ = [("at", ctypes.c_uint64), ("bytes", ctypes.c_uint64), ("read_only", ctypes.c_bool)]


class Launch(ctypes.Structure):
    _fields_ = [("code", ctypes.c_char_p), ("code_bytes", ctypes.c_size_t), ("kernel", ctypes.c_char_p),
                ("grid", ctypes.c_uint32 * 3), ("block", ctypes.c_uint32 * 3), ("args", ctypes.c_void_p),
                ("arg_bytes", ctypes.c_size_t), ("shared_bytes", ctypes.c_uint32),
                ("buffers", ctypes.POINTER(Buffer)), ("n_buffers", ctypes.c_size_t), ("seed", ctypes.c_uint64)]


class Result(ctypes.Structure):
    _fields_ = [("status", ctypes.c_int), ("message", ctypes.c_char * 512), ("instructions", ctypes.c_uint64),
                ("address", ctypes.c_uint64), ("bytes", ctypes.c_uint32), ("atomic", ctypes.c_bool)]


class Emulator:
    def __init__(self, path):
        self.run = ctypes.CDLL(path).amdsim_launch
        self.run.argtypes = [ctypes.POINTER(Launch), ctypes.POINTER(Result)]

    def launch(self, code, kernel, x, y, threads, seed=1, code_bytes=None):
        args = np.array([x.ctypes.data, y.ctypes.data] + [0] * 6, U64)
        buffers = (Buffer * 2)(Buffer(x.ctypes.data, x.nbytes, True), Buffer(y.ctypes.data, y.nbytes, False))
        launch = Launch(code, len(code) if code_bytes is None else code_bytes, kernel.encode(), (1, 1, 1),
                        (threads, 1, 1), args.ctypes.data, args.nbytes, 0, buffers, 2, seed)
        result = Result()
        assert self.run(launch, result) == result.status
        return result


# ---- kernels

def kernel_text(gpu, name, body):
    load, store = ("dwordx4", "dwordx4") if gpu == CDNA else ("b128", "b128")
    scalar4, scalar8 = ("dwordx4", "dwordx8") if gpu == CDNA else ("b128", "b256")
    own = ".amdhsa_accum_offset 64" if gpu == CDNA else ".amdhsa_wavefront_size32 1"
    return f"""
.text
.globl {name}
.p2align 8
.type {name},@function
{name}:
    s_load_{scalar4} s[4:7], s[0:1], 0x0
    s_waitcnt lgkmcnt(0)
    s_load_{scalar8} s[8:15], s[4:5], 0x0
    v_lshlrev_b32_e32 v1, 5, v0
    global_load_{load} v[2:5], v1, s[4:5]
    global_load_{load} v[6:9], v1, s[4:5] offset:16
    v_mov_b32_e32 v10, 0
    v_mov_b32_e32 v11, 0
    v_mov_b32_e32 v12, 0
    v_mov_b32_e32 v13, 0
    v_lshlrev_b32_e32 v1, 4, v0
    s_waitcnt vmcnt(0) lgkmcnt(0)
{body}
    s_waitcnt vmcnt(0) lgkmcnt(0)
    global_store_{store} v1, v[10:13], s[6:7]
    s_endpgm
.rodata
.p2align 6
.amdhsa_kernel {name}
    .amdhsa_group_segment_fixed_size 1024
    .amdhsa_user_sgpr_kernarg_segment_ptr 1
    .amdhsa_next_free_vgpr 96
    .amdhsa_next_free_sgpr 48
    {own}
.end_amdhsa_kernel
"""


def assemble(llvm, gpu, bodies, folder):
    text, code, image = (folder / f"{gpu}.{s}" for s in ("s", "o", "hsaco"))
    lines = [kernel_text(gpu, f"k{n}", "\n".join("    " + b for b in body.split(";"))) for n, body in enumerate(bodies)]
    text.write_text(f'.amdgcn_target "amdgcn-amd-amdhsa--{gpu}"\n' + "".join(lines))
    subprocess.run([f"{llvm}/llvm-mc", "-triple=amdgcn-amd-amdhsa", f"-mcpu={gpu}", "-filetype=obj", text, "-o", code],
                   check=True)
    subprocess.run([f"{llvm}/ld.lld", "-shared", code, "-o", image], check=True)
    return image.read_bytes()


# ---- data: words 0, 1 are any bits and special values, 2, 3 small integers, 4, 5 floats of small integers,
# 6, 7 pairs of f16 of small integers

SPECIAL = np.array([0, 1, -1, 0.5, np.inf, -np.inf, np.nan, 3.4e38, 1e-40, -0.0, 65504, 1e-7], F32).view(U32)


def make_data(lanes, seed=1):
    r = np.random.default_rng(seed)
    x = r.integers(0, 2 ** 32, (lanes, 8), dtype=U32)
    x[:len(SPECIAL), 0] = SPECIAL
    x[:len(SPECIAL), 1] = SPECIAL[::-1]
    x[:, 2:4] = r.integers(0, 60, (lanes, 2), dtype=U32)
    x[:, 4:6] = r.integers(-500, 500, (lanes, 2)).astype(F32).view(U32)
    x[:, 6:8] = r.integers(-20, 20, (lanes, 2, 2)).astype(F16).view(U32)[:, :, 0]
    return x


def f(w):
    return w.view(F32)


def i(w):
    return w.view(I32)


def h(w):
    return np.ascontiguousarray(w).view(F16).reshape(-1, 2)


def two(low, high):
    return low.astype(U64) | high.astype(U64) << U64(32)


def halves(pairs):
    return np.ascontiguousarray(pairs).view(U32)[:, 0]


def bits(w, at, n):
    return w >> U32(at) & U32(2 ** n - 1)


def reversed_bits(w):
    return np.array([int(f"{v:032b}"[::-1], 2) for v in w], U32)


def f8(codes, fnuz):
    """Converts e4m3 to f32."""
    c = codes.astype(int)
    e, m, sign = c >> 3 & 15, c & 7, np.where(c & 128, -1.0, 1.0)
    value = np.where(e > 0, (1 + m / 8) * 2.0 ** (e - 7 - fnuz), m / 8 * 2.0 ** (-6 - fnuz))
    return np.where(c == 128, np.nan, sign * value).astype(F32)


# ---- vector arithmetic: (GPUs, kernel, result of the columns of x)

V = "v10, v2, v3"
ROWS = [
    (BOTH, f"v_add_f32_e32 {V}", lambda a, b, *_: f(a) + f(b)),
    (BOTH, f"v_sub_f32_e32 {V}", lambda a, b, *_: f(a) - f(b)),
    (BOTH, f"v_mul_f32_e32 {V}", lambda a, b, *_: f(a) * f(b)),
    (BOTH, "v_add_f32_e64 v10, -v2, |v3|", lambda a, b, *_: -f(a) + np.abs(f(b))),
    (BOTH, "v_mul_f32_e64 v10, v6, v7 mul:4", lambda *x: f(x[4]) * f(x[5]) * 4),
    (BOTH, "v_mul_f32_e64 v10, v6, 0.5 clamp", lambda *x: np.clip(f(x[4]) / 2, 0, 1)),
    (BOTH, f"v_min_f32_e32 {V}", lambda a, b, *_: np.fmin(f(a), f(b))),
    (BOTH, f"v_max_f32_e32 {V}", lambda a, b, *_: np.fmax(f(a), f(b))),
    (BOTH, "v_med3_f32 v10, v6, v7, 1.0", lambda *x: np.median([f(x[4]), f(x[5]), np.ones_like(f(x[4]))], axis=0)),
    (BOTH, "v_fma_f32 v10, v6, v7, v6", lambda *x: f(x[4]) * f(x[5]) + f(x[4])),
    (BOTH, "v_mov_b32_e32 v10, v7;v_fmac_f32_e32 v10, v6, v7", lambda *x: f(x[4]) * f(x[5]) + f(x[5])),
    (BOTH, "v_fmamk_f32 v10, v6, 0x40400000, v7", lambda *x: f(x[4]) * 3 + f(x[5])),
    ((RDNA,), "v_maxmin_f32 v10, v6, v7, 2.0", lambda *x: np.minimum(np.maximum(f(x[4]), f(x[5])), 2).astype(F32)),
    ((RDNA,), "v_dual_add_f32 v10, v6, v7 :: v_dual_mul_f32 v11, v7, v6",
     lambda *x: two((f(x[4]) + f(x[5])).view(U32), (f(x[4]) * f(x[5])).view(U32))),
    (BOTH, "v_floor_f32_e32 v10, v2", lambda a, *_: np.floor(f(a))),
    (BOTH, "v_rndne_f32_e32 v10, v2", lambda a, *_: np.rint(f(a))),
    (BOTH, "v_rcp_f32_e32 v10, v6", lambda *x: (1 / f(x[4]).astype(F64)).astype(F32)),
    (BOTH, "v_sqrt_f32_e64 v10, |v6|", lambda *x: np.sqrt(np.abs(f(x[4])))),
    (BOTH, "v_exp_f32_e32 v10, v4;v_cvt_f32_u32_e32 v10, v4;v_exp_f32_e32 v10, v10",
     lambda *x: np.exp2(x[2].astype(F32))),
    (BOTH, "v_ldexp_f32 v10, v6, v4", lambda *x: np.ldexp(f(x[4]), i(x[2]))),
    (BOTH, "v_add_f64 v[10:11], v[2:3], v[2:3]", lambda a, b, *_: two(a, b).view(F64) * 2),
    (BOTH, "v_mul_f64 v[10:11], v[2:3], 0.5", lambda a, b, *_: two(a, b).view(F64) * 0.5),
    (BOTH, "v_cvt_f64_f32_e32 v[10:11], v2", lambda a, *_: f(a).astype(F64)),
    (BOTH, "v_cvt_f16_f32_e32 v10, v2;v_and_b32_e32 v10, 0xffff, v10", lambda a, *_: f(a).astype(F16)),
    (BOTH, "v_cvt_f32_f16_e32 v10, v8", lambda *x: h(x[6])[:, 0].astype(F32)),
    (BOTH, "v_cvt_i32_f32_e32 v10, v2", lambda a, *_: np.nan_to_num(np.clip(f(a).astype(F64), -2.0 ** 31, 2.0 ** 31 - 1),
                                                                   nan=0).astype(I32)),
    (BOTH, "v_cvt_f32_ubyte2_e32 v10, v2", lambda a, *_: bits(a, 16, 8).astype(F32)),
    (BOTH, "v_div_scale_f32 v11, vcc{mask}, v7, v7, v6;v_rcp_f32_e32 v12, v11;"
     "v_div_scale_f32 v10, vcc{mask}, v6, v7, v6;v_mul_f32_e32 v10, v10, v12;v_div_fmas_f32 v10, v10, 1.0, 0;"
     "v_div_fixup_f32 v10, v10, v7, v6;v_mov_b32_e32 v11, 0;v_mov_b32_e32 v12, 0",
     lambda *x: NEAR(f(x[4]) / f(x[5]))),
    (BOTH, f"v_xor_b32_e32 {V}", lambda a, b, *_: a ^ b),
    (BOTH, "v_lshlrev_b32_e32 v10, v4, v2", lambda a, b, c, *_: a << (c & U32(31))),
    (BOTH, "v_ashrrev_i32_e32 v10, v4, v2", lambda a, b, c, *_: i(a) >> i(c & U32(31))),
    (BOTH, "v_lshlrev_b64 v[10:11], v4, v[2:3]", lambda a, b, c, *_: two(a, b) << c.astype(U64)),
    (BOTH, "v_mul_lo_u32 v10, v2, v3", lambda a, b, *_: a * b),
    (BOTH, "v_mul_hi_u32 v10, v2, v3", lambda a, b, *_: (a.astype(U64) * b >> U64(32)).astype(U32)),
    (BOTH, "v_mul_hi_i32 v10, v2, v3", lambda a, b, *_: (i(a).astype(np.int64) * i(b) >> 32).astype(I32)),
    (BOTH, "v_mad_u32_u24 v10, v2, v3, v4", lambda a, b, c, *_: bits(a, 0, 24) * bits(b, 0, 24) + c),
    (BOTH, "v_bfe_u32 v10, v2, 7, 9", lambda a, *_: bits(a, 7, 9)),
    (BOTH, "v_bfe_i32 v10, v2, 7, 9", lambda a, *_: i(a << U32(16)) >> 23),
    (BOTH, "v_bfi_b32 v10, v2, v3, v4", lambda a, b, c, *_: a & b | ~a & c),
    (BOTH, "v_alignbit_b32 v10, v2, v3, 13", lambda a, b, *_: (two(b, a) >> U64(13)).astype(U32)),
    (BOTH, "v_mov_b32_e32 v11, 0x0c070104;"
     "v_perm_b32 v10, v2, v3, v11;v_mov_b32_e32 v11, 0",
     lambda a, b, *_: bits(a, 0, 8) | bits(b, 8, 8) << U32(8) | bits(a, 24, 8) << U32(16)),
    (BOTH, "v_bfrev_b32_e32 v10, v2", lambda a, *_: reversed_bits(a)),
    (BOTH, "v_bcnt_u32_b32 v10, v2, v4", lambda a, b, c, *_: np.array([f"{v:b}".count("1") for v in a], U32) + c),
    (BOTH, "v_add3_u32 v10, v2, v3, v4", lambda a, b, c, *_: a + b + c),
    (BOTH, "v_lshl_add_u32 v10, v2, 3, v4", lambda a, b, c, *_: (a << U32(3)) + c),
    (BOTH, "v_mad_u64_u32 v[10:11], vcc{mask}, v2, v3, v[4:5]",
     lambda a, b, c, d, *_: a.astype(U64) * b + two(c, d)),
    (BOTH, "v_max_i32_e32 v10, v2, v3", lambda a, b, *_: np.maximum(i(a), i(b))),
    (BOTH, "v_pk_add_f16 v10, v8, v9", lambda *x: halves(h(x[6]) + h(x[7]))),
    (BOTH, "v_pk_fma_f16 v10, v8, v9, v8 op_sel:[1,0,0] op_sel_hi:[0,1,1]",
     lambda *x: halves(h(x[6])[:, ::-1] * h(x[7]) + h(x[6]))),
    (BOTH, "v_pk_mul_lo_u16 v10, v2, v3", lambda a, b, *_: bits(a, 0, 16) * bits(b, 0, 16) & U32(0xffff) |
     bits(a, 16, 16) * bits(b, 16, 16) << U32(16)),
    ((CDNA,), "v_pk_mul_f32 v[10:11], v[6:7], v[6:7] op_sel:[0,1] op_sel_hi:[1,0]",
     lambda *x: two((f(x[4]) * f(x[5])).view(U32), (f(x[5]) * f(x[4])).view(U32))),
    (BOTH, "v_fma_mix_f32 v10, v8, v6, v7 op_sel_hi:[1,0,0]",
     lambda *x: h(x[6])[:, 0].astype(F32) * f(x[4]) + f(x[5])),
    ((CDNA,), "v_add_u32_sdwa v10, v2, v3 dst_sel:DWORD dst_unused:UNUSED_PAD src0_sel:BYTE_1 src1_sel:WORD_1",
     lambda a, b, *_: bits(a, 8, 8) + bits(b, 16, 16)),
    ((CDNA,), "v_cvt_pk_f32_fp8 v[10:11], v2", lambda a, *_: two(f8(bits(a, 0, 8), True).view(U32),
                                                                  f8(bits(a, 8, 8), True).view(U32))),
    ((CDNA,), "v_cvt_pk_f32_fp8 v[10:11], v2;v_cvt_pk_fp8_f32 v12, v10, v11;v_mov_b32_e32 v10, v12;"
     "v_mov_b32_e32 v11, 0;v_mov_b32_e32 v12, 0", lambda a, *_: bits(a, 0, 16)),
    ((RDNA,), "v_dot4_i32_iu8 v10, v2, v3, v4 neg_lo:[1,1,0]",
     lambda a, b, c, *_: (sum(a[:, None].view(np.int8)[:, k].astype(I32) * b[:, None].view(np.int8)[:, k]
                              for k in range(4)) + i(c)).astype(I32)),
    (BOTH, "v_cmp_gt_f32_e32 vcc{mask}, v2, v3;v_cndmask_b32_e32 v10, v4, v5, vcc{mask}",
     lambda a, b, c, d, *_: np.where(f(a) > f(b), d, c)),
    (BOTH, "v_cmp_nle_f32_e32 vcc{mask}, v2, v3;v_cndmask_b32_e32 v10, v4, v5, vcc{mask}",
     lambda a, b, c, d, *_: np.where(~(f(a) <= f(b)), d, c)),
    (BOTH, "v_cmp_class_f32_e64 vcc{mask}, v2, 0x3;v_cndmask_b32_e32 v10, v4, v5, vcc{mask}",
     lambda a, b, c, d, *_: np.where(np.isnan(f(a)), d, c)),
    (BOTH, "v_cmp_lt_i32_e32 vcc{mask}, v2, v3;v_cndmask_b32_e32 v10, v4, v5, vcc{mask}",
     lambda a, b, c, d, *_: np.where(i(a) < i(b), d, c)),
    (BOTH, "v_cmpx_lt_u32_e32 {exec}v4, v5;v_mov_b32_e32 v10, 7;s_mov_b{lanes} exec{mask}, -1",
     lambda a, b, c, d, *_: np.where(c < d, 7, 0).astype(U32)),
    # lanes
    (BOTH, "v_mov_b32_dpp v10, v2 row_shr:3 row_mask:0xf bank_mask:0xf bound_ctrl:{bc}",
     lambda a, *_: np.where(LANE(a) % 16 >= 3, np.roll(a, 3), 0).astype(U32)),
    (BOTH, "v_mov_b32_dpp v10, v2 quad_perm:[3,2,1,0] row_mask:0xf bank_mask:0xf", lambda a, *_: a[LANE(a) ^ 3]),
    (BOTH, "v_mov_b32_dpp v10, v2 row_half_mirror row_mask:0xf bank_mask:0xf", lambda a, *_: a[LANE(a) ^ 7]),
    ((CDNA,), "v_mov_b32_dpp v10, v2 row_bcast:15 row_mask:0xa bank_mask:0xf",
     lambda a, *_: np.where(LANE(a) // 16 % 2 == 1, a[np.maximum(LANE(a) // 16 * 16 - 1, 0)], 0).astype(U32)),
    ((RDNA,), "v_mov_b32_dpp v10, v2 row_xmask:5 row_mask:0xf bank_mask:0xf", lambda a, *_: a[LANE(a) ^ 5]),
    ((RDNA,), "s_mov_b32 s16, 0x76543210;s_mov_b32 s17, 0xfedcba98;"
     "v_permlanex16_b32 v10, v2, s16, s17", lambda a, *_: a[LANE(a) ^ 16]),
    (BOTH, "v_readlane_b32 s16, v2, 5;v_mov_b32_e32 v10, s16", lambda a, *_: np.full_like(a, a[5])),
    (BOTH, "v_mbcnt_lo_u32_b32 v10, -1, 0", lambda a, *_: np.minimum(LANE(a), 32).astype(U32)),
    (BOTH, "v_lshlrev_b32_e32 v11, 2, v0;v_xor_b32_e32 v11, 36, v11;ds_bpermute_b32 v10, v11, v2;v_mov_b32_e32 v11, 0",
     lambda a, *_: a[LANE(a) ^ 9]),
    (BOTH, "ds_swizzle_b32 v10, v2 offset:swizzle(SWAP,16)", lambda a, *_: a[LANE(a) ^ 16]),
    # shared memory
    (BOTH, "v_lshlrev_b32_e32 v11, 3, v0;ds_{write}_b64 v11, v[2:3];v_xor_b32_e32 v11, 8, v11;s_waitcnt lgkmcnt(0);"
     "ds_{read}_b64 v[10:11], v11", lambda a, b, *_: two(a[LANE(a) ^ 1], b[LANE(a) ^ 1])),
    (BOTH, "v_mov_b32_e32 v11, 0;v_mov_b32_e32 v12, 100;ds_{write}_b32 v11, v12;ds_add_rtn_u32 v10, v11, v4;"
     "v_mov_b32_e32 v12, 0", lambda a, b, c, *_: (100 + np.cumsum(c) - c).astype(U32)),
    (BOTH, "v_lshlrev_b32_e32 v11, 2, v0;ds_{write}_b8 v11, v2;s_waitcnt lgkmcnt(0);ds_{read}_i8 v10, v11;"
     "v_mov_b32_e32 v11, 0", lambda a, *_: bits(a, 0, 8).astype(np.int8).astype(I32)),
    # memory
    (BOTH, "v_mov_b32_e32 v11, 0;global_store_{dword} v11, v11, s[6:7];global_atomic_add_u32 v10, v11, v4, s[6:7] {returns}"
     .replace("atomic_add_u32", "{atomic_add}"), lambda a, b, c, *_: (np.cumsum(c) - c).astype(U32)),
    (BOTH, "v_lshlrev_b32_e32 v11, 5, v0;s_mov_b64 s[20:21], s[4:5];s_movk_i32 s22, 64;s_mov_b32 s23, {resource};"
     "buffer_load_{dword} v10, v11, s[20:23], 0 offen;v_mov_b32_e32 v11, 0",
     lambda a, *_: np.where(LANE(a) < 2, a, 0).astype(U32)),
    # scalars
    (BOTH, "s_mul_hi_u32 s16, s8, s9;v_mov_b32_e32 v10, s16", lambda a, b, *_: np.full_like(a, int(a[0]) * int(b[0]) >> 32)),
    (BOTH, "s_sub_u32 s16, s10, s11;s_subb_u32 s17, 0, 0;v_mov_b32_e32 v10, s16;v_mov_b32_e32 v11, s17",
     lambda a, b, c, d, *_: np.full(len(a), (int(c[0]) - int(d[0])) % 2 ** 64, U64)),
    (BOTH, "s_bfe_i32 s16, s13, 0x60014;v_mov_b32_e32 v10, s16", lambda *x: np.full(len(x[0]), i(x[5] << U32(6))[0] >> 26, I32)),
    (BOTH, "s_ashr_i64 s[16:17], s[8:9], 7;v_mov_b32_e32 v10, s16;v_mov_b32_e32 v11, s17",
     lambda a, b, *_: np.full(len(a), two(a, b).view(np.int64)[0] >> 7)),
    (BOTH, "s_cmp_lt_i32 s10, s11;s_cselect_b32 s16, 5, 6;v_mov_b32_e32 v10, s16",
     lambda a, b, c, d, *_: np.full_like(a, 5 if c[0] < d[0] else 6)),
    (BOTH, "s_cmpk_lt_i32 s10, 0xffff;s_cselect_b32 s16, 5, 6;v_mov_b32_e32 v10, s16", lambda a, *_: np.full_like(a, 6)),
    (BOTH, "s_movk_i32 s16, 0xfff0;s_addk_i32 s16, 0x10;v_mov_b32_e32 v10, s16", lambda a, *_: np.zeros_like(a)),
    (BOTH, "s_mov_b32 s16, 0;s_mov_b32 s17, 5;.Lloop%=:;s_add_i32 s16, s16, s17;s_sub_i32 s17, s17, 1;s_cmp_lg_u32 s17, 0;"
     "s_cbranch_scc1 .Lloop%=;v_mov_b32_e32 v10, s16", lambda a, *_: np.full_like(a, 15)),
    (BOTH, "s_mov_b{lanes} s[16:17], 0x5;s_and_saveexec_b{lanes} s[18:19], s[16:17];v_mov_b32_e32 v10, 3;"
     "s_mov_b{lanes} exec{mask}, s[18:19]", lambda a, *_: np.where((LANE(a) == 0) | (LANE(a) == 2), 3, 0).astype(U32)),
    (BOTH, "s_movk_i32 s16, 9;v_writelane_b32 v2, s16, 4;"
     "v_mov_b32_e32 v10, v2", lambda a, *_: np.where(LANE(a) == 4, 9, a).astype(U32)),
    (BOTH, "s_sub_u32 s16, s10, s10;s_subb_u32 s16, 5, 5;v_mov_b32_e32 v10, s16;s_sub_u32 s16, 0, 1;s_subb_u32 s16, 5, 5;"
     "s_subb_u32 s16, 5, 5;v_mov_b32_e32 v11, s16", lambda a, *_: two(np.zeros_like(a), np.full_like(a, 2 ** 32 - 1))),
    # frequent off-by-one cases
    (BOTH, "v_trunc_f64_e32 v[10:11], 0x40080000", lambda a, *_: np.full(len(a), 3.0)),
    (BOTH, "v_add_f32_e32 v10, 0x45200000, v6;v_cvt_f16_f32_e32 v10, v10;v_and_b32_e32 v10, 0xffff, v10",
     lambda *x: (f(x[4]) + 2560).astype(F16)),
    (BOTH, "v_mov_b32_e32 v11, 0x7f800001;v_cmp_class_f32_e64 vcc{mask}, v11, 1;v_cndmask_b32_e32 v10, v4, v5, vcc{mask};"
     "v_mov_b32_e32 v11, 0", lambda a, b, c, d, *_: d),
    (BOTH, "v_mov_b32_e32 v12, -1;v_mov_b32_e32 v13, -1;v_mad_u64_u32 v[12:13], vcc{mask}, v2, v3, v[12:13];"
     "v_cndmask_b32_e32 v10, v4, v5, vcc{mask};v_mov_b32_e32 v12, 0;v_mov_b32_e32 v13, 0",
     lambda a, b, c, d, *_: np.where(a.astype(U64) * b > U64(0), d, c)),
    # 2^-80 / 2^60 would be subnormal, and 2^60 / 2^-60 has a distant divisor
    (BOTH, "v_mov_b32_e32 v12, 0x5d800000;v_mov_b32_e32 v13, 0x17800000;v_div_scale_f32 v10, vcc{mask}, v13, v12, v13;"
     "v_cndmask_b32_e32 v11, v4, v5, vcc{mask};v_mov_b32_e32 v12, 0;v_mov_b32_e32 v13, 0",
     lambda a, b, c, d, *_: two(np.full_like(a, 0x37800000), d)),
    (BOTH, "v_mov_b32_e32 v12, 0x21800000;v_mov_b32_e32 v13, 0x5d800000;v_div_scale_f32 v10, vcc{mask}, v12, v12, v13;"
     "v_cndmask_b32_e32 v11, v4, v5, vcc{mask};v_mov_b32_e32 v12, 0;v_mov_b32_e32 v13, 0",
     lambda a, b, c, d, *_: two(np.full_like(a, 0x41800000), d)),
]


class NEAR:
    """Compares within two units in the last place."""

    def __init__(self, value):
        self.value = value


def LANE(a):  # noqa: N802
    return np.arange(len(a))


# ---- matrix products: the places of elements as AMD's manuals give them

def operand(x, columns, elem, depth):
    """Rows (or columns) m of 16 or 32 lanes, with `depth` elements of k in a lane."""
    return np.ascontiguousarray(x[:, columns]).view(elem).reshape(len(x), -1)[:, :depth]


def gathered(part, m):
    """[lane, depth] to [m, k]: lanes m, m + M, ... hold successive parts of k."""
    lanes, depth = part.shape
    return part.reshape(lanes // m, m, depth).transpose(1, 0, 2).reshape(m, -1).astype(F64)


PAIR = ([0, 1], [2, 3])


def mfma(x, m, columns, elem, depth, convert=lambda v: v):
    a, b = (gathered(convert(operand(x, c, elem, depth)), m) for c in columns)
    product = a @ b.T
    lane = np.arange(64)
    rows = [(8 * (r // 4) + 4 * (lane // 32) + r % 4) if m == 32 else (4 * (lane // 16) + r % 4) for r in range(4)]
    return np.stack([product[row, lane % m] for row in rows], axis=1)


def mfma_f64(x):
    a, b = (two(x[:, k], x[:, k + 1]).view(F64).reshape(4, 16).T for k in (0, 2))
    product, lane = a @ b.T, np.arange(64)
    return np.stack([product[4 * r + lane // 16, lane % 16] for r in range(2)], axis=1)


def mfma_blocks(x):
    """16 products of 4 lanes each."""
    a, b = (operand(x, c, F16, 4).reshape(16, 4, 4).astype(F64) for c in PAIR)
    return np.einsum("brk,bnk->bnr", a, b).reshape(64, 4).astype(F32)


def wmma(x):
    a = np.ascontiguousarray(np.tile(x[:16], (2, 1)))
    half = a[:16].view(F16).reshape(16, 16).astype(F64)
    product, lane = half @ half.T, np.arange(32)
    return np.stack([product[2 * r + lane // 16, lane % 16] for r in range(4)], axis=1).astype(F32)


def f16_words(x):
    return np.random.default_rng(5).integers(-9, 9, (len(x), 16)).astype(F16).view(U32).copy()


def f64_words(x):
    return np.random.default_rng(5).integers(-9, 9, (len(x), 4)).astype(F64).view(U32).copy()


def wmma_words(x):
    words = f16_words(x)
    words[16:] = words[:16]
    return words


def f8_words(x):
    return (np.random.default_rng(6).integers(0x40, 0x50, (len(x), 32), dtype=np.uint8) |
            np.random.default_rng(7).integers(0, 2, (len(x), 32), dtype=np.uint8) << 7).view(U32).copy()


AFTER = ";s_nop 15;s_nop 15"
MATRIX = [
    ((CDNA,), "v_mfma_f32_16x16x16_f16 v[10:13], v[2:3], v[4:5], 0" + AFTER, f16_words,
     lambda x: mfma(x, 16, PAIR, F16, 4).astype(F32)),
    ((CDNA,), "v_mfma_f32_16x16x16_f16 a[0:3], v[2:3], v[4:5], 1.0" + AFTER +
     "".join(f";v_accvgpr_read_b32 v{10 + k}, a{k}" for k in range(4)), f16_words,
     lambda x: (mfma(x, 16, PAIR, F16, 4) + 1).astype(F32)),
    ((CDNA,), "v_mfma_f32_32x32x8_f16 v[32:47], v[2:3], v[4:5], 0" + AFTER +
     "".join(f";v_mov_b32_e32 v{10 + k}, v{32 + k}" for k in range(4)), f16_words,
     lambda x: mfma(x, 32, PAIR, F16, 4).astype(F32)),
    ((CDNA,), "v_mfma_f32_4x4x4_16b_f16 v[10:13], v[2:3], v[4:5], 0" + AFTER, f16_words, mfma_blocks),
    ((CDNA,), "v_mfma_i32_16x16x32_i8 v[10:13], v[2:3], v[4:5], 0" + AFTER, lambda x: x,
     lambda x: mfma(x, 16, PAIR, np.int8, 8).astype(I32)),
    ((CDNA,), "v_mfma_f32_16x16x32_fp8_fp8 v[10:13], v[2:3], v[4:5], 0" + AFTER, f8_words,
     lambda x: mfma(x, 16, PAIR, np.uint8, 8, lambda c: f8(c, True)).astype(F32)),
    ((CDNA,), "v_mfma_f64_16x16x4_f64 v[32:39], v[2:3], v[4:5], 0" + AFTER +
     "".join(f";v_mov_b32_e32 v{10 + k}, v{32 + k}" for k in range(4)), f64_words, mfma_f64),
    ((RDNA,), "v_wmma_f32_16x16x16_f16 v[32:39], v[2:9], v[2:9], 0;" +
     ";".join(f"v_mov_b32_e32 v{10 + k}, v{32 + k}" for k in range(4)), wmma_words, wmma),
]


# ---- errors: (GPUs, kernel, waves, status, text of the message)

ERRORS = [
    (BOTH, "v_mov_b32_e32 v1, 0x100000", 1, ACCESS, "in no buffer"),
    (BOTH, "v_mov_b32_e32 v1, 1024;v_mov_b32_e32 v10, 0", 1, ACCESS, "at 1024 of a buffer of {bytes} bytes"),
    (BOTH, "global_store_{dword} v1, v1, s[4:5]", 1, ACCESS, "store to read-only memory at 0x"),
    (BOTH, "global_load_{dword} v10, v1, s[4:5];v_add_u32 v10, v10, v10".replace("v_add_u32", "{add}"), 1, FAULT,
     "v10 is read before its s_waitcnt vmcnt"),
    (BOTH, "global_load_{dword} v10, v1, s[4:5];global_load_{dword} v11, v1, s[4:5];s_waitcnt vmcnt(1);v_mov_b32_e32 v12, v11",
     1, FAULT, "v11 is read before its s_waitcnt vmcnt"),
    (BOTH, "s_load_{dword} s16, s[4:5], 0x0;v_mov_b32_e32 v10, s16", 1, FAULT, "s16 is read before its s_waitcnt lgkmcnt"),
    (BOTH, "v_mov_b32_e32 v11, 0;ds_{write}_b32 v11, v0", 2, FAULT, "a race in shared memory at 0"),
    (BOTH, "v_mov_b32_e32 v11, 4;ds_{read}_b32 v10, v11", 1, FAULT, "a load of shared memory at 4, which was never written"),
    (BOTH, "v_mov_b32_e32 v11, 1024;ds_{write}_b32 v11, v0", 1, FAULT, "4 bytes at 1024 of shared memory, which has 1024"),
    (BOTH, "s_trap 2", 1, FAULT, "a trap"),
    (BOTH, "s_mov_b64 s[16:17], 0;s_setpc_b64 s[16:17]", 1, FAULT, "outside of the code"),
    (BOTH, "v_sad_u8 v10, v2, v3, v4", 1, UNKNOWN, "`v_sad_u8 v10, v2, v3, v4`: this instruction is not emulated"),
    (BOTH, ".long 0xbfff1234", 1, UNKNOWN, "does not know the word 0xbfff1234"),
    ((CDNA,), "s_mov_b64 exec, 1;v_mfma_f32_16x16x16_f16 v[10:13], v[2:3], v[4:5], 0", 1, FAULT, "lanes are off"),
    ((RDNA,), "v_wmma_f32_16x16x16_f16 v[32:39], v[2:9], v[2:9], 0", 1, FAULT, "differs between lane 0 and its copy"),
]


def words(gpu, body, number):
    """The text with the names that differ between GPUs."""
    cdna = gpu == CDNA
    names = {"mask": "" if cdna else "_lo", "exec": "vcc, " if cdna else "", "lanes": LANES[gpu],
             "write": "write" if cdna else "store", "read": "read" if cdna else "load", "bc": 0 if cdna else 1,
             "dword": "dword" if cdna else "b32", "returns": "sc0" if cdna else "glc",
             "atomic_add": "atomic_add" if cdna else "atomic_add_u32", "add": "v_add_u32" if cdna else "v_add_nc_u32",
             "resource": "0x27000" if cdna else "0x31014000"}
    for name, text in names.items():
        body = body.replace("{" + name + "}", str(text))
    if not cdna:  # a mask of 32 lanes takes one register
        for pair in (16, 18):
            if f"b32 s[{pair}:" in body or f", s[{pair}:" in body and "saveexec" in body:
                body = body.replace(f"s[{pair}:{pair + 1}]", f"s{pair}")
    return body.replace("%=", str(number))


# ---- comparing

def in_words(value):
    """[lanes, 4]: the words of a result."""
    value = np.asarray(value)
    if value.dtype == F16:
        value = value.view(np.uint16).astype(U32)
    value = np.ascontiguousarray(value.reshape(len(value), -1)).view(U32)
    return np.pad(value, ((0, 0), (0, 4 - value.shape[1])))


def differs(got, want):
    """The number of lanes that differ. A NaN has any bits, and a zero any sign."""
    near = isinstance(want, NEAR)
    want = want.value if near else np.asarray(want)
    kind = want.dtype.type
    if kind not in (F32, F64):
        return int((got != in_words(want)).any(axis=1).sum())
    wide = want.reshape(len(want), -1)
    mine = np.ascontiguousarray(got).view(kind)[:, :wide.shape[1]]
    same = (mine == wide) | (np.isnan(mine) & np.isnan(wide))
    if near:
        same |= np.abs(mine - wide) <= 2 * np.spacing(np.abs(wide))
    return int((~same).any(axis=1).sum())


def run_rows(emulator, llvm, folder, gpu):
    """(failures, number of kernels that ran)."""
    rows = [(b, make_data, lambda x, e=e: e(*x.T.copy())) for g, b, e in ROWS if gpu in g]
    rows += [(b, lambda n, m=m: m(make_data(n)), e) for g, b, m, e in MATRIX if gpu in g]
    code = assemble(llvm, gpu, [words(gpu, b, n) for n, (b, _, _) in enumerate(rows)], folder)
    failures, lanes = [], LANES[gpu]
    for n, (body, data, expect) in enumerate(rows):
        made = data(lanes)
        x, y = np.zeros((lanes, 8), U32), np.zeros((lanes, 4), U32)
        x[:, :min(8, made.shape[1])] = made[:, :8]
        result = emulator.launch(code, f"k{n}", x, y, lanes)
        if result.status:
            failures.append(f"{gpu} {body}: {result.message.decode()}")
            continue
        with np.errstate(all="ignore"):
            want = expect(x)
        bad = differs(y, want)
        if bad:
            lane = int(np.argmax((y != in_words(want.value if isinstance(want, NEAR) else want)).any(axis=1)))
            failures.append(f"{gpu} {body}: {bad} lanes differ, as lane {lane}: {y[lane]} of {x[lane]}")
        changed = y.copy()
        changed[lanes - 1, 0] ^= 1 << 22
        if not bad and not differs(changed, want):
            failures.append(f"{gpu} {body}: a wrong result would not be seen")
    return failures, len(rows)


def apart(lanes):
    """The arrays x and y of a launch, far from each other, so that an address beside one is never in the
    other. The heap promises no such thing."""
    pool = np.zeros(1 << 16, np.uint8)
    x = pool[:lanes * 32].view(U32).reshape(lanes, 8)
    x[:] = make_data(lanes)
    return x, pool[1 << 15:][:lanes * 16].view(U32).reshape(lanes, 4)


def run_errors(emulator, llvm, folder, gpu):
    rows = [r for r in ERRORS if gpu in r[0]]
    code = assemble(llvm, gpu, [words(gpu, r[1], n) for n, r in enumerate(rows)], folder)
    failures = []
    for n, (_, body, waves, status, text) in enumerate(rows):
        lanes = LANES[gpu] * waves
        x, y = apart(lanes)
        result = emulator.launch(code, f"k{n}", x, y, lanes)
        said, want = result.message.decode(), text.replace("{bytes}", str(y.nbytes))
        if result.status != status or want not in said or not said.startswith(f"kernel k{n}, work-group (0,0,0), wave "):
            failures.append(f"{gpu} {body}: status {result.status}, '{said}', expected {status}, '{want}'")
    return failures + run_damaged(emulator, code, gpu), len(rows)


def run_damaged(emulator, code, gpu):
    """A truncated object, or one with other bytes in its headers, is refused or runs. It never ends the
    process."""
    lanes, failures, refused = LANES[gpu], [], 0
    x, y = make_data(lanes), np.zeros((lanes, 4), U32)
    if emulator.launch(code, "missing", x, y, lanes).status != NO_KERNEL:
        failures.append(f"{gpu}: a kernel that is not there")
    if emulator.launch(code, "k0", x, y, 0).status != FAULT:
        failures.append(f"{gpu}: a work-group of no items")
    r = np.random.default_rng(3)
    for end in [0, 3, 63, 64, 100, *r.integers(0, len(code), 60)]:
        refused += emulator.launch(code, "k0", x, y, lanes, code_bytes=int(end)).status in (BAD_CODE, NO_KERNEL)
    if refused < 40:
        failures.append(f"{gpu}: {refused} of 65 cut objects are refused")
    for at in r.integers(0, 64 + 56 * 8, 200):
        other = bytearray(code)
        other[at] ^= 1 << int(r.integers(8))
        emulator.launch(bytes(other), "k8", x, y, lanes)
    return failures


def main():
    emulator, llvm = Emulator(sys.argv[1]), sys.argv[2]
    failures, counts = [], []
    with tempfile.TemporaryDirectory() as folder:
        for gpu in BOTH:
            for run in (run_rows, run_errors):
                failed, n = run(emulator, llvm, pathlib.Path(folder), gpu)
                failures += failed
                counts.append(n)
    print("\n".join(failures))
    print(f"{counts[0] + counts[2]} kernels of arithmetic, {counts[1] + counts[3]} errors, {len(failures)} failures")
    return 1 if failures else 0


sys.exit(main())
