"""Recurrent cells: the GRU as it was first written, and the LSTM, over a whole sequence or step by step.

A cell reads an input x_t, its own state, and perhaps an *extra* vector f_t that is known only at that step
(the context in Bahdanau's gates, the fed-back readout of Luong's decoder). What depends on x alone is done
for all steps at once (`Cell.input_gates`); a step then costs one or two products.

Shapes: B rows, T steps, I input size, n state size, F size of the extra vector, G gates' size (3n or 4n).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TypeAlias

import torch
from torch import Tensor, nn

from mt.config.schema import Cell as CellKind
from mt.kernels.linear import Linear
from mt.kernels.steps import StepMatrix

CellState: TypeAlias = tuple[Tensor, ...]
"""What a cell hands to its next step: (h,) or (h, c), each (B, n); h is what others see."""


class Cell(nn.Module, ABC):
    """Base of the cells.

    Args:
        inputs: I.
        width: n.
        extra: F; 0 = there is no extra vector.
    """

    state_parts: int
    """Tensors in a state."""

    input: Linear

    def __init__(self, inputs: int, width: int, extra: int = 0) -> None:
        super().__init__()
        self.inputs, self.width, self.extra = inputs, width, extra

    def input_gates(self, x: Tensor) -> Tensor:
        """x (..., I) → (..., G): what the inputs give to the gates, biases included."""
        gates: Tensor = self.input(x)
        return gates

    def zero_state(self, like: Tensor) -> CellState:
        """The state of nothing read, for the rows of `like` (B, ...)."""
        return tuple(like.new_zeros(like.shape[0], self.width) for _ in range(self.state_parts))

    @abstractmethod
    def unroll(self) -> Unrolled:
        """The cell made ready for the steps of one pass."""

    def run(self, x: Tensor, state: CellState) -> tuple[Tensor, list[CellState]]:
        """All steps of a sequence without extra vectors.

        Args:
            x: (T, B, I).
            state: before the first step.

        Returns:
            the h of every step (T, B, n), and every step's state.
        """
        unrolled = self.unroll()
        states = []
        for gates in self.input_gates(x).unbind(0):
            state = unrolled.step(gates, state, None)
            states.append(state)
        return torch.stack([each[0] for each in states]), states

    @abstractmethod
    def recurrent_matrices(self) -> list[Tensor]:
        """Views (n, n) of the matrices between states, one for each gate."""


class Unrolled(ABC):
    """A cell during one pass; its matrices are laid out once (see `mt.kernels.steps`)."""

    def __init__(self, cell: Cell) -> None:
        self._input = cell.input
        self._matrix: StepMatrix | None = None

    def gates(self, x: Tensor) -> Tensor:
        """`Cell.input_gates` of inputs (B, I) that become known step by step."""
        if self._matrix is None:
            self._matrix = step_matrix(self._input)
        gates = self._matrix(x)
        assert self._input.bias is not None
        return gates + self._input.bias

    @abstractmethod
    def step(self, gates: Tensor, state: CellState, extra: Tensor | None) -> CellState:
        """One step: input gates (B, G), the state before, the extra vector (B, F) → the state after."""


class Lstm(Cell):
    """Long short-term memory (Hochreiter & Schmidhuber 1997, with the forget gate of Gers et al. 2000).

    ``i, f, o = σ(W x + U h + C f + b)``, ``g = tanh(W x + U h + C f + b)``,
    ``c ← f ∘ c + i ∘ g``, ``h = o ∘ tanh(c)``; one bias per gate. torch's order of gates: i, f, g, o.
    """

    state_parts = 2

    def __init__(self, inputs: int, width: int, extra: int = 0) -> None:
        super().__init__(inputs, width, extra)
        self.input = Linear(inputs, 4 * width, parts=4)
        # [U C]: state and extra vector side by side are one product.
        self.recurrent = Linear(width + extra, 4 * width, bias=False, parts=4)

    def unroll(self) -> Unrolled:
        return _UnrolledLstm(self)

    def recurrent_matrices(self) -> list[Tensor]:
        return [gate[:, : self.width] for gate in self.recurrent.weight.chunk(4)]


class _UnrolledLstm(Unrolled):
    def __init__(self, cell: Lstm) -> None:
        super().__init__(cell)
        self._recurrent = step_matrix(cell.recurrent)

    def step(self, gates: Tensor, state: CellState, extra: Tensor | None) -> CellState:
        hidden, memory = state
        i, f, g, o = (gates + self._recurrent(_joined(hidden, extra))).chunk(4, dim=1)
        memory = f.sigmoid() * memory + i.sigmoid() * g.tanh()
        return o.sigmoid() * memory.tanh(), memory


class Gru(Cell):
    """The gated unit as first written (Cho et al. 2014, Eq. 5-8; Bahdanau et al. 2015, App. A.1.1, A.2.2).

    ``z = σ(W_z x + U_z s + C_z f + b_z)``, ``r = σ(W_r x + U_r s + C_r f + b_r)``,
    ``s̃ = tanh(W x + U (r ∘ s) + C f + b)``, ``s ← (1 - z) ∘ s + z ∘ s̃``.

    torch.nn.GRU is another cell: it applies the reset gate after U, and its z is our 1 - z.
    """

    state_parts = 1

    def __init__(self, inputs: int, width: int, extra: int = 0) -> None:
        super().__init__(inputs, width, extra)
        self.input = Linear(inputs, 3 * width, parts=3)  # z, r, s̃
        self.recurrent = Linear(width + extra, 2 * width, bias=False, parts=2)  # [U_z C_z], [U_r C_r]
        self.candidate = Linear(width + extra, width, bias=False)  # [U C]

    def unroll(self) -> Unrolled:
        return _UnrolledGru(self)

    def recurrent_matrices(self) -> list[Tensor]:
        gates = [*self.recurrent.weight.chunk(2), self.candidate.weight]
        return [gate[:, : self.width] for gate in gates]


class _UnrolledGru(Unrolled):
    def __init__(self, cell: Gru) -> None:
        super().__init__(cell)
        self._width = cell.width
        self._recurrent = step_matrix(cell.recurrent)
        self._candidate = step_matrix(cell.candidate)

    def step(self, gates: Tensor, state: CellState, extra: Tensor | None) -> CellState:
        (hidden,) = state
        both, own = gates[:, : 2 * self._width], gates[:, 2 * self._width :]
        update, reset = (both + self._recurrent(_joined(hidden, extra))).sigmoid().chunk(2, dim=1)
        candidate = (own + self._candidate(_joined(reset * hidden, extra))).tanh()
        return (torch.lerp(hidden, candidate, update),)


CELLS: dict[CellKind, type[Lstm] | type[Gru]] = {CellKind.lstm: Lstm, CellKind.gru: Gru}


def step_matrix(layer: Linear) -> StepMatrix:
    """The matrix of a layer for the steps of one pass (its bias is not added)."""
    return StepMatrix(layer.weight.t(), low_precision=layer.low_precision)


def _joined(hidden: Tensor, extra: Tensor | None) -> Tensor:
    """[h; f] (B, n + F), what the recurrent matrices read."""
    return hidden if extra is None else torch.cat((hidden, extra), dim=1)
