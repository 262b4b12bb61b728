// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A product whose best tiles differ between a few devices of the stand-in driver
// (tests/runtime/fake_cuda.c). A device with few processors and slow memory prefers large tiles,
// which load least. A device with many processors and fast memory prefers many small tiles: large
// ones neither fill its processors nor hide their latencies. Published figures of real devices: a
// setting tuned on one ran at 7 % of the tuned speed on another, and some did not run there at all.
#ifndef TESTS_TUNE_WIDE_H
#define TESTS_TUNE_WIDE_H

enum { ON_FEW, ON_MANY, ON_SMALL, GPUS, WIDE_SIDE = 1024, WIDE_INNER = 64 };
#define WIDE_DEVICES "90x12x228x100,90x264x100x20000,90x264x32x20000"
#define WIDE_FOREIGN 10.0 // ON_FEW's setting is at least so many times slower on ON_MANY

/// Only the tiles differ.
static const char wide[] =
    "kernel wide(a: f32[M, K], b: f32[K, N], c: f32[M, N])\n"
    "tune BM = 64 | 32 | 16 | 128, BN = 64 | 32 | 16 | 128\n"
    "schedule warps = 4, stages = 2, split = 1, persistent = -1, generator = 1, order = 1\n"
    "{\n"
    "    parallel m in M by BM, n in N by BN {\n"
    "        var s: f32<BM, BN> = 0;\n"
    "        for k in K by 32 { s += dot(a[m, k], b[k, n]); }\n"
    "        c[m, n] = s;\n"
    "    }\n"
    "}\n";

#endif
