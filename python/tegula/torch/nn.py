# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Functions and modules that stand in for those of torch.nn: softmax, norms, attention, cross entropy and
convolution. replace(model) exchanges the modules of a model.

Forward and backward are kernels of Tegula's library. The exceptions are the gradients of convolutions and of
group_norm, which are PyTorch's. A case that no kernel covers raises NotImplementedError.
"""

from __future__ import annotations

import math
from typing import Any, Optional, Sequence, Union

import torch
from torch import Tensor, nn

from ._operator import Operator, op

__all__ = [
    "Conv1d",
    "Conv2d",
    "Conv3d",
    "CrossEntropyLoss",
    "GroupNorm",
    "LayerNorm",
    "LogSoftmax",
    "RMSNorm",
    "Softmax",
    "conv1d",
    "conv2d",
    "conv3d",
    "cross_entropy",
    "group_norm",
    "layer_norm",
    "log_softmax",
    "replace",
    "rms_norm",
    "scaled_dot_product_attention",
    "softmax",
]


# ---- operators -------------------------------------------------------------------------------------


# They are made when the module is imported, because torch.compile cannot trace the making. Their kernels
# are compiled at their first launch.


def _made(name: str, file: str, backward: Any = None, **options: Any) -> Operator:
    return op(f"std/{file}.teg", name, backward=backward, name=f"tegula_nn::{name}", **options)


_softmax = _made("softmax", "softmax", "softmax_backward", vmap="pack")
_log_softmax = _made("log_softmax", "softmax", "log_softmax_backward", vmap="pack")
_rms_norm = _made("rms_norm", "norm", "rms_norm_backward", vmap="pack")
_layer_norm = _made(
    "layer_norm", "norm", "layer_norm_backward", gradients={"dg": "g", "dh": "h"}, vmap="pack"
)
_cross_entropy = _made("cross_entropy", "loss", "cross_entropy_backward", returns=["loss", "count"])
_attention = _made("attention", "attention", "attention_backward")


# ---- along the last dimension ----------------------------------------------------------------------


def _along(
    operator: Operator, x: Tensor, dim: Optional[int], dtype: Optional[torch.dtype]
) -> Tensor:
    """Without a dim, PyTorch takes the first of 0, 1 or 3 dims, and otherwise the second."""
    if dim is None:
        dim = 0 if x.dim() in (0, 1, 3) else 1
    x = x if dtype is None else x.to(dtype)
    if x.dim() == 0:
        return _along(operator, x[None], dim, None)[0]
    last = dim in (-1, x.dim() - 1)
    made: Tensor = operator(x if last else x.movedim(dim, -1))
    return made if last else made.movedim(-1, dim)


def softmax(
    x: Tensor, dim: Optional[int] = None, dtype: Optional[torch.dtype] = None
) -> Tensor:
    """torch.nn.functional.softmax."""
    return _along(_softmax, x, dim, dtype)


def log_softmax(
    x: Tensor, dim: Optional[int] = None, dtype: Optional[torch.dtype] = None
) -> Tensor:
    """torch.nn.functional.log_softmax."""
    return _along(_log_softmax, x, dim, dtype)


def _rows(x: Tensor, shape: Sequence[int]) -> Tensor:
    """The dims that are normalised as one."""
    if tuple(x.shape[x.dim() - len(shape) :]) != tuple(shape):
        raise ValueError(f"normalized_shape is {list(shape)}, and the input is {list(x.shape)}")
    return x if len(shape) == 1 else x.flatten(x.dim() - len(shape))


def _flat(w: Optional[Tensor], like: Tensor) -> Optional[Tensor]:
    return None if w is None else w.reshape(-1).to(like.dtype)


def rms_norm(
    x: Tensor,
    normalized_shape: Sequence[int],
    weight: Optional[Tensor] = None,
    eps: Optional[float] = None,
) -> Tensor:
    """torch.nn.functional.rms_norm."""
    rows = _rows(x, normalized_shape)
    least = torch.finfo(x.dtype).eps if eps is None else eps
    made: Tensor = _rms_norm(rows, _flat(weight, x), eps=least)
    return made.view(x.shape)


def layer_norm(
    x: Tensor,
    normalized_shape: Sequence[int],
    weight: Optional[Tensor] = None,
    bias: Optional[Tensor] = None,
    eps: float = 1e-5,
) -> Tensor:
    """torch.nn.functional.layer_norm."""
    rows = _rows(x, normalized_shape)
    made: Tensor = _layer_norm(rows, _flat(weight, x), _flat(bias, x), eps=eps)
    return made.view(x.shape)


def _group_norm_setup(ctx: Any, inputs: Any, keyword_only_inputs: Any, output: Any) -> None:
    ctx.save_for_backward(*inputs[:2])
    ctx.has_bias = inputs[2] is not None
    ctx.bias_type = inputs[2].dtype if ctx.has_bias else None
    ctx.groups, ctx.eps = keyword_only_inputs["groups"], keyword_only_inputs["eps"]


def _group_norm_backward(ctx: Any, grad: Tensor) -> Any:
    """In the widest of the types, as the kernel computes."""
    x, w = ctx.saved_tensors
    batch, channels = x.shape[:2]
    if x.numel() == 0:
        sums = [x.new_zeros(channels, dtype=t) for t in (x.dtype if w is None else w.dtype, ctx.bias_type)]
        return torch.zeros_like(x), sums[0] if w is not None else None, sums[1] if ctx.has_bias else None
    wide = torch.promote_types(torch.float32, torch.promote_types(x.dtype, grad.dtype))
    if w is not None:
        wide = torch.promote_types(wide, w.dtype)
    inner = math.prod(x.shape[2:])
    rows = x.to(wide).reshape(batch, ctx.groups, channels // ctx.groups * inner)
    variance, mean = torch.var_mean(rows, -1, correction=0)
    sizes = batch, channels, inner, ctx.groups
    needs = [ctx.needs_input_grad[0], w is not None, ctx.has_bias]
    scale = (variance + ctx.eps).rsqrt()
    back = torch.ops.aten.native_group_norm_backward
    wide_w = rows.new_ones(channels) if w is None else w.to(wide)
    made = back(grad.to(wide).contiguous(), rows.view(x.shape), mean, scale, wide_w, *sizes, needs)
    types = x.dtype, x.dtype if w is None else w.dtype, ctx.bias_type
    return tuple(t if t is None else t.to(own) for t, own in zip(made, types))


_group_norm = _made(
    "group_norm", "norm", _group_norm_backward, setup_context=_group_norm_setup
)


def group_norm(
    x: Tensor,
    num_groups: int,
    weight: Optional[Tensor] = None,
    bias: Optional[Tensor] = None,
    eps: float = 1e-5,
) -> Tensor:
    """torch.nn.functional.group_norm."""
    given = _flat(weight, x), _flat(bias, x)
    made: Tensor = _group_norm(x, *given, groups=num_groups, eps=eps)
    return made


# ---- attention and loss ----------------------------------------------------------------------------


def _scores_mask(
    mask: Optional[Tensor], causal: bool, q: Tensor, k: Tensor
) -> tuple[Optional[Tensor], bool]:
    """The mask that is added to scores. The kernel aligns `causal` at the last key, PyTorch at the first."""
    queries, keys = q.shape[2], k.shape[2]
    if causal and mask is not None:
        raise ValueError("attn_mask and is_causal exclude each other")
    if causal and queries != keys:
        mask = torch.ones(queries, keys, dtype=torch.bool, device=q.device).tril()
    if mask is not None and mask.dtype == torch.bool:
        mask = torch.zeros_like(mask, dtype=q.dtype).masked_fill(~mask, -math.inf)
    if mask is not None:
        mask = mask.to(q.dtype).expand(q.shape[0], q.shape[1], queries, keys)
    return mask, causal and queries == keys


def scaled_dot_product_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Optional[Tensor] = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: Optional[float] = None,
    enable_gqa: bool = False,
) -> Tensor:
    """torch.nn.functional.scaled_dot_product_attention, without dropout. A query that sees no key gives 0.
    The mask has no gradient."""
    if dropout_p:
        raise NotImplementedError("attention with dropout")
    if query.shape[-3:-2] != key.shape[-3:-2] and not enable_gqa:
        raise ValueError("query and key differ in heads; pass enable_gqa=True")
    batch = query.shape[:-3]
    q, k, v = (t if t.dim() == 4 else t.reshape(-1, *t.shape[-3:]) for t in (query, key, value))
    mask, causal = _scores_mask(attn_mask, is_causal, q, k)
    factor = 1 / math.sqrt(q.shape[-1]) if scale is None else scale
    made: Tensor = _attention(q, k, v, mask, scale=factor, causal=causal)
    return made if query.dim() == 4 else made.view(*batch, *made.shape[1:])


def cross_entropy(
    input: Tensor,
    target: Tensor,
    weight: Optional[Tensor] = None,
    ignore_index: int = -100,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Tensor:
    """torch.nn.functional.cross_entropy with class numbers; reductions are "mean" and "sum"."""
    if weight is not None or label_smoothing or target.is_floating_point():
        raise NotImplementedError("cross entropy with weights, label smoothing or probabilities")
    if reduction not in ("mean", "sum"):
        raise NotImplementedError(f"cross entropy with reduction '{reduction}'")
    x = input if input.dim() > 1 else input[None]
    rows = x if x.dim() == 2 else x.movedim(1, -1).reshape(-1, x.shape[1])
    loss, count = _cross_entropy(rows, target.reshape(-1), ignore=ignore_index)
    made: Tensor = loss
    if reduction == "sum":  # without labels the mean is nan, and the sum is 0
        made = torch.where(count == 0, torch.zeros_like(loss), loss * count)
    return made.to(input.dtype)


# ---- convolution -----------------------------------------------------------------------------------


def _convolution_setup(ctx: Any, inputs: Any, keyword_only_inputs: Any, output: Any) -> None:
    x, w, bias = (*inputs, None)[:3]
    ctx.save_for_backward(x, w)
    ctx.bias = None if bias is None else [bias.shape[0]]
    ctx.count, ctx.how = len(inputs), dict(keyword_only_inputs)


def _convolution_backward(ctx: Any, grad: Tensor) -> Any:
    x, w = ctx.saved_tensors
    axes = "zyx"[5 - x.dim() :]
    stride, padding, dilation = ([ctx.how[f"{what}{a}"] for a in axes] for what in "spd")
    needs = [*ctx.needs_input_grad, False][:3]
    grads = torch.ops.aten.convolution_backward(
        grad,
        x,
        w,
        ctx.bias,
        stride,
        padding,
        dilation,
        False,
        [0] * len(axes),
        x.shape[1] // w.shape[1],
        needs[:2] + [needs[2] and ctx.bias is not None],
    )
    return tuple(grads[: ctx.count])


_convolutions = [
    _made(f"conv{n}d", "conv", _convolution_backward, setup_context=_convolution_setup)
    for n in (1, 2, 3)
]


def _each(value: Union[int, Sequence[int]], n: int) -> list[int]:
    return [value] * n if isinstance(value, int) else list(value)


def _padded(n: int, x: Tensor, w: Tensor, stride: Any, padding: str, dilation: Any) -> tuple[Tensor, list[int]]:
    """Padding by name, as numbers. An odd number of zeros has one more at the end, which x then holds."""
    if padding not in ("same", "valid"):
        raise ValueError(f"padding is '{padding}'; it is numbers, 'same' or 'valid'")
    if padding == "valid":
        return x, [0] * n
    if any(s != 1 for s in _each(stride, n)):
        raise ValueError("padding='same' needs a stride of 1")
    totals = [d * (k - 1) for d, k in zip(_each(dilation, n), w.shape[2:])]
    ends = [end for total in reversed(totals) for end in (0, total % 2)]
    return (nn.functional.pad(x, ends) if any(ends) else x), [total // 2 for total in totals]


def _conv(n: int, x: Tensor, w: Tensor, bias: Any, how: Sequence[Any], groups: int) -> Tensor:
    batched = x if x.dim() == n + 2 else x[None]
    if isinstance(how[1], str):
        batched, padding = _padded(n, batched, w, *how)
        how = how[0], padding, how[2]
    if batched.shape[1] != groups * w.shape[1]:
        raise ValueError(f"groups is {groups}, with {batched.shape[1]} and {w.shape[1]} channels")
    numbers = {
        f"{what}{axis}": value
        for what, values in zip("spd", how)
        for axis, value in zip("zyx"[3 - n :], _each(values, n))
    }
    made: Tensor = _convolutions[n - 1](batched, w, bias, act=0, **numbers)
    return made if x.dim() == n + 2 else made[0]


def conv1d(
    x: Tensor,
    weight: Tensor,
    bias: Optional[Tensor] = None,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
) -> Tensor:
    """torch.nn.functional.conv1d."""
    return _conv(1, x, weight, bias, (stride, padding, dilation), groups)


def conv2d(
    x: Tensor,
    weight: Tensor,
    bias: Optional[Tensor] = None,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
) -> Tensor:
    """torch.nn.functional.conv2d."""
    return _conv(2, x, weight, bias, (stride, padding, dilation), groups)


def conv3d(
    x: Tensor,
    weight: Tensor,
    bias: Optional[Tensor] = None,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
) -> Tensor:
    """torch.nn.functional.conv3d."""
    return _conv(3, x, weight, bias, (stride, padding, dilation), groups)


# ---- modules ---------------------------------------------------------------------------------------


class Softmax(nn.Softmax):
    def forward(self, input: Tensor) -> Tensor:
        return softmax(input, self.dim)


class LogSoftmax(nn.LogSoftmax):
    def forward(self, input: Tensor) -> Tensor:
        return log_softmax(input, self.dim)


class RMSNorm(nn.RMSNorm):
    def forward(self, x: Tensor) -> Tensor:
        return rms_norm(x, self.normalized_shape, self.weight, self.eps)


class LayerNorm(nn.LayerNorm):
    def forward(self, input: Tensor) -> Tensor:
        return layer_norm(input, self.normalized_shape, self.weight, self.bias, self.eps)


class CrossEntropyLoss(nn.CrossEntropyLoss):
    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        how = self.weight, self.ignore_index, self.reduction, self.label_smoothing
        return cross_entropy(input, target, *how)


class Conv1d(nn.Conv1d):
    def forward(self, input: Tensor) -> Tensor:
        how = self.stride, self.padding, self.dilation, self.groups
        return conv1d(input, self.weight, self.bias, *how)


class Conv2d(nn.Conv2d):
    def forward(self, input: Tensor) -> Tensor:
        how = self.stride, self.padding, self.dilation, self.groups
        return conv2d(input, self.weight, self.bias, *how)


class Conv3d(nn.Conv3d):
    def forward(self, input: Tensor) -> Tensor:
        how = self.stride, self.padding, self.dilation, self.groups
        return conv3d(input, self.weight, self.bias, *how)


class GroupNorm(nn.GroupNorm):
    def forward(self, input: Tensor) -> Tensor:
        return group_norm(input, self.num_groups, self.weight, self.bias, self.eps)


_OURS: dict[type, type] = {
    ours.__bases__[0]: ours
    for ours in (
        Softmax,
        LogSoftmax,
        RMSNorm,
        LayerNorm,
        GroupNorm,
        CrossEntropyLoss,
        Conv1d,
        Conv2d,
        Conv3d,
    )
}


def _is_covered(module: nn.Module) -> bool:
    """Whether a kernel covers the options of a module."""
    if isinstance(module, nn.CrossEntropyLoss):
        plain = module.weight is None and not module.label_smoothing
        return plain and module.reduction in ("mean", "sum")
    if isinstance(module, (nn.Conv1d, nn.Conv2d, nn.Conv3d)):
        return module.padding_mode == "zeros"
    return True


def replace(model: nn.Module) -> int:
    """Exchanges the modules of a model for those of this page, in place: parameters, hooks and names stay.
    Returns the number of exchanged modules. Others, and those with options that no kernel covers, stay."""
    count = 0
    for module in model.modules():
        ours = _OURS.get(type(module))
        if ours is not None and _is_covered(module):
            module.__class__ = ours
            count += 1
    return count

