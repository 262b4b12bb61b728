# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Arrays of a rank: PyTorch's on a GPU, NumPy's where a simulator or the CPU replaces it.

Values are converted from and to NumPy's f64 and i64. The arrays are of "f32", "bf16", "f16" or "i32".
"""

import math
import time

import numpy as np

NUMPY = {"f32": np.float32, "f16": np.float16, "i32": np.int32, "bf16": np.uint16}


def encode(values, dtype):
    """The stored form, rounded to nearest even; bf16 as its bits."""
    if dtype != "bf16":
        return np.ascontiguousarray(values, NUMPY[dtype])
    bits = np.ascontiguousarray(values, np.float32).view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)


def decode(stored, dtype):
    if dtype == "bf16":
        return (stored.astype(np.uint32) << 16).view(np.float32).astype(np.float64)
    return stored.astype(np.int64 if dtype == "i32" else np.float64)


class Host:
    graphs = False

    def __init__(self, tegula, rank):
        self.tegula, self.device = tegula, -1

    def put(self, values, dtype):
        return encode(values, dtype)

    def get(self, x, dtype):
        return decode(np.asarray(x), dtype)

    def shard(self, symmetric, dtype):
        return np.asarray(symmetric).view(NUMPY[dtype])

    def argument(self, x, dtype):
        return self.tegula.bfloat16(x) if dtype == "bf16" else x

    def fill(self, x, other):
        x[...] = other

    def poison(self, x, dtype):
        x[...] = encode(np.full(x.shape, 7 if dtype == "i32" else math.nan), dtype)

    def copy(self, x):
        return x.copy()

    def counter(self):
        return np.zeros((), np.int64)

    def count(self, counter, x, y):
        """Adds one if they differ in any bit."""
        counter += x.tobytes() != y.tobytes()

    def late(self, n):
        time.sleep(n * 1e-5)

    def settle(self):
        pass


class Gpu:
    graphs = True

    def __init__(self, tegula, rank):
        import torch

        self.device = rank % torch.cuda.device_count()
        torch.cuda.set_device(self.device)
        self.torch, self.tegula, self.rank = torch, tegula, rank
        self.where = torch.device("cuda", self.device)
        self.types = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16,
                      "i32": torch.int32}  # fmt: skip

    def put(self, values, dtype):
        stored = encode(values, dtype)
        stored = stored.view(np.int16) if dtype == "bf16" else stored
        x = self.torch.from_numpy(stored.copy()).to(self.where)
        return x.view(self.types[dtype])

    def get(self, x, dtype):
        x = x.view(self.torch.int16) if dtype == "bf16" else x
        stored = x.cpu().numpy()
        return decode(stored.view(np.uint16) if dtype == "bf16" else stored, dtype)

    def shard(self, symmetric, dtype):
        return self.torch.as_tensor(symmetric, device=self.where).view(self.types[dtype])

    def argument(self, x, dtype):
        return x

    def fill(self, x, other):
        x.copy_(other)

    def poison(self, x, dtype):
        x.fill_(7 if dtype == "i32" else math.nan)

    def copy(self, x):
        return x.clone()

    def counter(self):
        return self.torch.zeros((), dtype=self.torch.int64, device=self.where)

    def count(self, counter, x, y):
        counter += (x != y).any()

    def late(self, n):
        self.torch.cuda._sleep(2000 * n)

    def settle(self):
        self.torch.cuda.synchronize()
