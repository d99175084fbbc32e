"""Dropout (Srivastava et al. 2014) that does not cost more than the products around it on a CPU.

PyTorch draws one random number per element, 50 ms for 4096 x 1024 on two cores, as long as four
matrix products of that size. Here an element costs one random *byte* (5 ms). The price: on the CPU
the probability is rounded to a multiple of 1/256 (0.1 becomes 26/256), and kept values are scaled by
the rounded probability, so that expectations stay exact. Elsewhere PyTorch's own dropout is used.

All randomness comes from PyTorch's default generator of the device.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F


def _kept(shape: torch.Size, probability: float, dtype: torch.dtype) -> tuple[Tensor, float]:
    """A mask of `shape` holding 1 (kept) or 0 (dropped), and the factor that restores the expectation."""
    threshold = max(1, round(probability * 256))
    threshold = min(threshold, 255)
    count = shape.numel()
    # Whole 64-bit words are drawn and read as bytes: `random_` on uint8 costs as much per *byte*.
    words = torch.empty((count + 7) // 8, dtype=torch.int64).random_(-(2**63), None)
    drawn = words.view(torch.uint8)[:count].view(shape)
    mask = torch.ge(drawn, threshold, out=torch.empty(shape, dtype=dtype))
    return mask, 256.0 / (256 - threshold)


class _Dropout(torch.autograd.Function):
    """``x * mask * scale``."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, probability: float) -> Tensor:
        mask, scale = _kept(x.shape, probability, x.dtype)
        mask.mul_(scale)
        ctx.save_for_backward(mask)
        return x * mask

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:
        (mask,) = ctx.saved_tensors
        return grads[0] * mask, None


class _AddDropout(torch.autograd.Function):
    """``residual + branch * mask * scale`` in one pass over memory."""

    @staticmethod
    def forward(ctx: Any, residual: Tensor, branch: Tensor, probability: float) -> Tensor:
        mask, ctx.scale = _kept(branch.shape, probability, branch.dtype)
        ctx.save_for_backward(mask)
        return torch.addcmul(residual, branch, mask, value=ctx.scale)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:
        (mask,) = ctx.saved_tensors
        return grads[0], torch.mul(grads[0], mask).mul_(ctx.scale), None


def dropout(x: Tensor, probability: float, training: bool) -> Tensor:
    """Zero each element of `x` with `probability` and scale the rest up; the identity outside training."""
    if not training or probability == 0.0:
        return x
    if x.device.type != "cpu":
        return F.dropout(x, probability)
    dropped: Tensor = _Dropout.apply(x, probability)  # type: ignore[no-untyped-call]
    return dropped


class Dropout(nn.Module):
    """Dropout as a layer; `add` joins a branch to its residual in the same pass."""

    def __init__(self, probability: float) -> None:
        super().__init__()
        self.probability = probability

    def forward(self, x: Tensor) -> Tensor:
        return dropout(x, self.probability, self.training)

    def add(self, residual: Tensor, branch: Tensor) -> Tensor:
        """``residual + dropout(branch)``, both of one shape."""
        if not self.training or self.probability == 0.0:
            return residual + branch
        if branch.device.type != "cpu":
            return residual + F.dropout(branch, self.probability)
        total: Tensor = _AddDropout.apply(residual, branch, self.probability)  # type: ignore[no-untyped-call]
        return total

    def extra_repr(self) -> str:
        return f"{self.probability}"
