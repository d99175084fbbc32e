"""How a Transformer is told where a token stands: sinusoidal, learned or rotary."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from mt.attention.multihead import Rotation
from mt.config.schema import Positions


def sinusoidal_table(length: int, width: int) -> Tensor:
    """(length, width) table (Vaswani et al. 2017, §3.5).

    ``PE(pos, 2i) = sin(pos / 10000^(2i/D))``, ``PE(pos, 2i+1) = cos(pos / 10000^(2i/D))``; `width` is even.
    """
    frequency = torch.exp(torch.arange(0, width, 2, dtype=torch.float64) * (-math.log(10000.0) / width))
    angle = torch.arange(length, dtype=torch.float64)[:, None] * frequency
    return torch.stack((angle.sin(), angle.cos()), dim=-1).flatten(1).float()


def rotary_table(length: int, size: int) -> tuple[Tensor, Tensor]:
    """cos and sin, each (length, size), for heads of even `size` (Su et al. 2021, Eq. 15)."""
    frequency = torch.exp(torch.arange(0, size, 2, dtype=torch.float64) * (-math.log(10000.0) / size))
    angle = torch.arange(length, dtype=torch.float64)[:, None] * frequency
    angle = torch.cat((angle, angle), dim=-1)
    return angle.cos().float(), angle.sin().float()


class PositionEncoding(nn.Module):
    """The position's share of an embedding, and the rotation of queries and keys.

    Args:
        kind: which encoding.
        max_positions: number of positions.
        width: D; head_size: D/H.
    """

    table: Tensor
    cos: Tensor
    sin: Tensor

    def __init__(self, kind: Positions, max_positions: int, width: int, head_size: int) -> None:
        super().__init__()
        self.kind = kind
        if kind is Positions.learned:
            self.table = nn.Parameter(torch.randn(max_positions, width) * width**-0.5)
        elif kind is Positions.sinusoidal:
            self.register_buffer("table", sinusoidal_table(max_positions, width), persistent=False)
        else:
            cos, sin = rotary_table(max_positions, head_size)
            self.register_buffer("cos", cos, persistent=False)
            self.register_buffer("sin", sin, persistent=False)

    def add(self, rows: Tensor, positions: Tensor) -> Tensor:
        """rows (N, D) at positions (N,) → (N, D); rotary positions add nothing."""
        if self.kind is Positions.rotary:
            return rows
        return rows + self.table.index_select(0, positions)

    def rotation(self, positions: Tensor) -> Rotation | None:
        """The rotation of queries and keys at positions (...,), each table (..., K); None unless rotary."""
        if self.kind is not Positions.rotary:
            return None
        return Rotation(self.cos[positions], self.sin[positions])
