"""Padding only where it is needed: a batch as the rows of its real tokens.

Everything in an encoder–decoder but attention treats positions one by one, so it runs on *packed*
rows (N, D), the N real positions of a (B, T) batch in row-major order: padding costs nothing there.
Attention needs the rectangle; `Packing.heads` lays rows out as (B, H, T, D/H) and `Packing.rows`
takes them back, each one copy, forward and backward.

Shapes: B batch, T length, N real positions, H heads, D width, J parts side by side in a row.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


class _Rearrange(torch.autograd.Function):
    """Rows of `x` taken in the order `forward_index`; the gradient comes back by `backward_index`.

    Both directions are gathers (PyTorch's `index_select` backward is a serial scatter-add). An index
    of -1 stands for padding: it reads as zero.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, forward_index: RowIndex, backward_index: RowIndex) -> Tensor:
        ctx.backward_index = backward_index
        return forward_index.take(x)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:
        return ctx.backward_index.take(grads[0].contiguous()), None, None


def rearrange(x: Tensor, forward_index: RowIndex, backward_index: RowIndex) -> Tensor:
    """The rows of x (R, C) in the order `forward_index`; `backward_index` is the way back."""
    taken: Tensor = _Rearrange.apply(x, forward_index, backward_index)  # type: ignore[no-untyped-call]
    return taken


class RowIndex:
    """Which row of a matrix goes where; -1 gives a row of zeros."""

    def __init__(self, index: Tensor) -> None:
        empty = index < 0
        self.index = index.clamp(min=0)
        self.empty = empty.nonzero().squeeze(1)

    def take(self, x: Tensor) -> Tensor:
        """x (R, C) → (len(index), C)."""
        # embedding is PyTorch's fastest row gather: a memcpy per row, on all threads.
        out = torch.embedding(x, self.index)
        return out.index_fill_(0, self.empty, 0.0) if self.empty.numel() else out


class Packing:
    """The real positions of a padded batch.

    Args:
        mask: (B, T) bool, True = real.
        heads: H of the attention layers that will lay the rows out.
    """

    def __init__(self, mask: Tensor, heads: int) -> None:
        self.mask = mask
        self.heads_count = heads
        self.batch, self.length = mask.shape
        # (N,) place of each real position in the flattened (B*T) batch
        self.places = mask.flatten().nonzero().squeeze(1)
        self.full = self.places.numel() == mask.numel()
        self._layouts: dict[int, tuple[RowIndex, RowIndex]] = {}

    @property
    def positions(self) -> Tensor:
        """(N,) position of each row within its sentence."""
        return self.places % self.length

    def select(self, x: Tensor) -> Tensor:
        """(B, T) → (N,): the values at real positions."""
        return x.flatten() if self.full else x.flatten().index_select(0, self.places)

    def heads(self, rows: Tensor, parts: int = 1) -> Tensor:
        """(N, J*D) → (J, B, H, T, D/H), zeros at padding."""
        size = rows.shape[1] // (parts * self.heads_count)
        to_heads, to_rows = self._layout(parts)
        laid = rearrange(rows.reshape(-1, size), to_heads, to_rows)
        return laid.view(parts, self.batch, self.heads_count, self.length, size)

    def rows(self, heads: Tensor) -> Tensor:
        """(B, H, T, D/H) → (N, D); the gradient at padding is zero."""
        size = heads.shape[-1]
        to_heads, to_rows = self._layout(1)
        taken = rearrange(heads.reshape(-1, size), to_rows, to_heads)
        return taken.view(-1, self.heads_count * size)

    def _layout(self, parts: int) -> tuple[RowIndex, RowIndex]:
        """Indices between (N, J, H) and (J, B, H, T), made once per batch and used by every layer."""
        if parts not in self._layouts:
            device = self.mask.device
            real = self.places.numel()
            h, t = self.heads_count, self.length
            part = torch.arange(parts, device=device)[None, :, None]
            head = torch.arange(h, device=device)[None, None, :]
            sentence = (self.places // t)[:, None, None]
            position = (self.places % t)[:, None, None]
            # where row (n, j, h) stands in (J, B, H, T)
            to_rows = (((part * self.batch + sentence) * h + head) * t + position).flatten()
            to_heads = torch.full((parts * self.batch * h * t,), -1, dtype=torch.int64, device=device)
            to_heads[to_rows] = torch.arange(real * parts * h, device=device)
            self._layouts[parts] = (RowIndex(to_heads), RowIndex(to_rows))
        return self._layouts[parts]
