# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Operators of PyTorch from kernels.

    from tegula import torch as tt
    softmax = tt.op("std/softmax.teg", "softmax", backward="softmax_backward")
    y = softmax(x)      # in eager mode, in torch.compile(fullgraph=True), in torch.export, in CUDA graphs

tegula.torch.nn has modules and functions that stand in for those of torch.nn.
"""

from ._operator import Operator, op

__all__ = ["Operator", "op"]
