"""A matrix that is applied once per time step: its gradient is formed once for all steps.

In an unrolled recurrence the usual backward pass forms, at every step, the gradient of the whole matrix
from a few rows and adds it to the sum so far. Here a step only remembers its rows; when the last one has
come back, one product over all of them gives the sum:

    y_t = x_t M,    dx_t = dy_t Mᵀ,    dM = [x_1; …; x_T]ᵀ [dy_1; …; dy_T]

That is one large product instead of T flat ones, and M (or a rounded copy of it) is laid out once.
`M` may be a weight (I, O) with x_t (B, I), or one matrix for each sentence (..., I, O) with x_t (..., R, I),
such as the values of attention.

Not in here: what is done between the products (`mt.models.rnn_cells`).
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from mt.kernels.linear import multiply


class _Products:
    """The matrix in the format of its products, and the rows that have come back so far."""

    def __init__(self, matrix: Tensor, low_precision: bool) -> None:
        self.low_precision = low_precision
        self.matrix = matrix.bfloat16() if low_precision else matrix
        self.rows: list[Tensor] = []
        self.grads: list[Tensor] = []

    def rounded(self, x: Tensor) -> Tensor:
        """`x` in the format of the products."""
        return x.bfloat16() if self.low_precision else x

    def product(self, a: Tensor, b: Tensor) -> Tensor:
        """``a @ b`` of rounded operands, as fp32 where they are bf16."""
        if self.low_precision:
            return (a @ b).float()
        return multiply(a, b) if a.ndim == 2 else a @ b

    def gradient(self) -> Tensor:
        """dM of the steps that have come back; forgets them."""
        rows, grads = torch.cat(self.rows, dim=-2), torch.cat(self.grads, dim=-2)
        self.rows, self.grads = [], []
        return self.product(rows.transpose(-1, -2), grads)


class StepMatrix:
    """`matrix` (..., I, O), to be applied at many steps of one forward pass.

    Args:
        matrix: differentiable; its value must stay until the backward pass is over.
        low_precision: round the products' inputs to bf16 (2-D matrices on the CPU; see `mt.kernels.linear`).
    """

    def __init__(self, matrix: Tensor, *, low_precision: bool = False) -> None:
        on_cpu = matrix.device.type == "cpu"
        low = low_precision and on_cpu and matrix.ndim == 2 and matrix.dtype == torch.float32
        # A GPU adds flat products up for nothing, and autocast knows how to round them.
        self._plain = None if on_cpu else matrix
        self._products = _Products(matrix.detach(), low)
        self._anchor: Tensor | None = None
        if on_cpu and torch.is_grad_enabled() and matrix.requires_grad:
            # Nothing that the graph holds may hold the anchor: the cycle would never be freed.
            self._anchor = _Anchor.apply(matrix, self._products)  # type: ignore[no-untyped-call]

    def __call__(self, x: Tensor) -> Tensor:
        """x (..., R, I) → (..., R, O)."""
        if self._plain is not None:
            return x @ self._plain
        out: Tensor = _Step.apply(x, self._anchor, self._products)  # type: ignore[no-untyped-call]
        return out


class _Anchor(torch.autograd.Function):
    """Ties the steps to the matrix: its backward runs after those of all steps."""

    @staticmethod
    def forward(ctx: Any, matrix: Tensor, products: _Products) -> Tensor:
        ctx.products = products
        return matrix.new_zeros(())

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:
        return ctx.products.gradient(), None


class _Step(torch.autograd.Function):
    """``x M``; the gradient of M is left to `_Anchor`."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, anchor: Tensor | None, products: _Products) -> Tensor:
        rows = products.rounded(x)
        ctx.save_for_backward(rows if anchor is not None else None)
        ctx.products = products
        return products.product(rows, products.matrix)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:
        (rows,) = ctx.saved_tensors
        products: _Products = ctx.products
        grad = products.rounded(grads[0])
        if rows is not None:
            products.rows.append(rows)
            products.grads.append(grad)
        back = products.product(grad, products.matrix.transpose(-1, -2)) if ctx.needs_input_grad[0] else None
        return back, None if rows is None else grads[0].new_zeros(()), None
