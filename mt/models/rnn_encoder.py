"""The recurrent encoder: one or more layers over the source, in one direction or both.

Contract: padding stands behind the real positions and never changes anything. A backward direction reads
each sentence, turned around within its own length, from left to right; so no step needs a mask. Whatever
the direction, the state at a source position comes back at that position: attention, windows and pictures
count source positions as they were written, also with ``reverse_source``.

Shapes: B sentences, S source length, m embedding size, n state size of a direction, D = n or 2n.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn

from mt.config.schema import ModelConfig
from mt.kernels.dropout import Dropout
from mt.kernels.packing import RowIndex, rearrange
from mt.models.rnn_cells import CELLS, Cell, CellState


class Encoded(NamedTuple):
    """What the decoder gets to know of the source.

    Attributes:
        states: h_1 … h_S of the top layer, directions side by side, (B, S, D), zeros at padding.
        final: for each layer the state after the last step of each direction, directions side by side:
            (h,) or (h, c), each (B, D). The backward direction ends at the first word.
    """

    states: Tensor
    final: list[CellState]


class Reversal:
    """Turns each sentence of a batch around within its own length; padding stays where it is.

    Args:
        mask: (B, S) bool, True = real, padding at the end.
    """

    def __init__(self, mask: Tensor) -> None:
        batch, length = mask.shape
        place = torch.arange(length, device=mask.device)[:, None]
        mirrored = torch.where(mask.t(), mask.sum(1) - 1 - place, place)  # (S, B)
        # Its own inverse, so that one index serves both ways.
        self._index = RowIndex((mirrored * batch + torch.arange(batch, device=mask.device)).flatten())

    def __call__(self, x: Tensor) -> Tensor:
        """x (S, B, C) → the same, turned around."""
        return rearrange(x.reshape(-1, x.shape[-1]), self._index, self._index).view(x.shape)


class RnnEncoder(nn.Module):
    """Layers of `Cell` over embedded sources (Bahdanau et al. 2015, App. A.2.1, for one GRU layer).

    Args:
        config: sizes, cell, directions.
        inputs: m.
    """

    def __init__(self, config: ModelConfig, inputs: int) -> None:
        super().__init__()
        rnn = config.rnn
        self.bidirectional, self.reverse = rnn.bidirectional, rnn.reverse_source
        self.width = rnn.encoder_width or config.width
        directions = 2 if rnn.bidirectional else 1
        self.output_width = directions * self.width
        sizes = [inputs] + [self.output_width] * (config.encoder_layers - 1)
        self.layers = nn.ModuleList(
            nn.ModuleList(CELLS[rnn.cell](size, self.width) for _ in range(directions)) for size in sizes
        )
        self.dropout = Dropout(config.dropout)

    def forward(self, embedded: Tensor, mask: Tensor) -> Encoded:
        """embedded (S, B, m), steps first; mask (B, S) bool with at least one True a row."""
        turn = Reversal(mask)
        last = mask.sum(1) - 1
        x, final = embedded, []
        for number, layer in enumerate(self.layers):
            assert isinstance(layer, nn.ModuleList)
            if number:
                x = self.dropout(x)
            outputs, ends = [], []
            for direction, cell in enumerate(layer):
                assert isinstance(cell, Cell)
                turned = direction == 1 or self.reverse
                out, states = cell.run(turn(x) if turned else x, cell.zero_state(x[0]))
                outputs.append(turn(out) if turned else out)
                ends.append(_at(states, last))
            x = outputs[0] if len(outputs) == 1 else torch.cat(outputs, dim=-1)
            final.append(tuple(torch.cat(parts, dim=-1) for parts in zip(*ends, strict=True)))
        states_of_top = x.transpose(0, 1) * mask[:, :, None]
        return Encoded(states_of_top, final)


def _at(states: list[CellState], step: Tensor) -> CellState:
    """Each row's state at its own step (B,), out of the states at every step."""
    rows = torch.arange(len(step), device=step.device)
    return tuple(torch.stack(parts)[step, rows] for parts in zip(*states, strict=True))
