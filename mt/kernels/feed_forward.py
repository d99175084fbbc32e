"""``W_2 relu(W_1 x + b_1) + b_2`` on a CPU with bf16 products, whose inside never becomes fp32.

The inner activations are the largest of a layer, and they are rounded to bf16 in any case, since they
are the input of a product. Taken through `Linear` they would be written five times (product, fp32 copy, bias,
relu, bf16 copy), here once: in a Transformer of width 256 that is a tenth of a training step.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from mt.kernels.linear import Linear, multiply, rounded


class _FeedForward(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, w1: Tensor, b1: Tensor, w2: Tensor, b2: Tensor) -> Tensor:
        operand, first, second = rounded(x, True), w1.bfloat16(), w2.bfloat16()
        inner = multiply(operand, first.t()).add_(b1.bfloat16()).relu_()
        ctx.save_for_backward(operand, inner, first, second)
        return multiply(inner, second.t())[: x.shape[0]].to(x.dtype).add_(b2)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:
        operand, inner, first, second = ctx.saved_tensors
        rows, dtype = grads[0].shape[0], grads[0].dtype
        # Rows of zeros at the end stay zeros, so that they add nothing to the weights' gradients.
        grad = rounded(grads[0], True)
        grad_inner = torch.ops.aten.threshold_backward(multiply(grad, second), inner, 0)
        return (
            multiply(grad_inner, first)[:rows].to(dtype),
            multiply(grad_inner.t(), operand).to(dtype),
            grad_inner.sum(0, dtype=dtype),
            multiply(grad.t(), inner).to(dtype),
            grads[0].sum(0),
        )


def feed_forward(x: Tensor, inner: Linear, outer: Linear) -> Tensor:
    """x (N, I) fp32 on the CPU → (N, O) fp32, through relu between two `Linear` with biases."""
    out: Tensor = _FeedForward.apply(x, inner.weight, inner.bias, outer.weight, outer.bias)  # type: ignore[no-untyped-call]
    return out
