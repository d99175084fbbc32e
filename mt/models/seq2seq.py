"""What every encoder–decoder offers to training, decoding and pictures, whatever it is inside.

Shapes: B sentences, S source length, T target length, N real target positions, D width, V target
vocabulary, L layers, H heads, J hypotheses (B times the beam). Masks are boolean, True = real.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, TypeAlias, cast

from torch import Tensor, nn

from mt.config.schema import TieEmbeddings
from mt.kernels.linear import Linear, linear

# A tree (dict, list, tuple) of tensors. `state["memory"]` holds what is constant per sentence, batch
# axis 0 = sentences; `state["cache"]` what grows per hypothesis, batch axis 0 = hypotheses, those of
# a sentence standing together.
State = dict[str, Any]

# The encoded source: a tree of tensors, axis 0 = sentences; a Transformer's is one tensor (B, S, D).
Memory: TypeAlias = Any


class Seq2Seq(nn.Module, ABC):
    """Base of all models.

    Attributes:
        max_positions: longest source or target in pieces, end-of-sentence included.
        source_embedding, target_embedding: may be one and the same.
        output: the output layer, see `output_layer`.
    """

    max_positions: int
    source_embedding: nn.Embedding
    target_embedding: nn.Embedding
    output: Linear

    @abstractmethod
    def forward(
        self, source: Tensor, source_mask: Tensor, target_input: Tensor, target_mask: Tensor
    ) -> Tensor:
        """Teacher-forced pass for training.

        Args:
            source: (B, S) ids; source_mask: (B, S).
            target_input: (B, T) ids, begin-of-sentence first; target_mask: (B, T).

        Returns:
            (N, D): the states that predict the real target positions, in row-major order.
        """

    @abstractmethod
    def encode(self, source: Tensor, source_mask: Tensor) -> Memory:
        """source (B, S) → what the decoder gets of it; states at padding are zeros."""

    @abstractmethod
    def init_state(self, memory: Memory, memory_mask: Tensor) -> State:
        """The state before the first target piece, one hypothesis per sentence; memory_mask (B, S)."""

    @abstractmethod
    def step(self, tokens: Tensor, state: State) -> tuple[Tensor, State]:
        """One more piece of each hypothesis: tokens (J,) → logits (J, V) of the next, and the new state.

        J may be any multiple of the sentences in ``state["memory"]``.
        """

    @abstractmethod
    def cross_attention(self, source: Tensor, source_mask: Tensor, target_input: Tensor) -> Tensor:
        """Weights (B, L, H, T, S) of each target position over the source, without dropout."""

    @abstractmethod
    def pass_attended(self, share: float, others: float) -> None:
        """Set the weights so that what is attended to reaches the output, before anything is learnt.

        Args:
            share: cross-attention hands on this much of the states attended to, unchanged.
            others: every other branch, random so far, is scaled by this.
        """

    @property
    def output_weight(self) -> Tensor:
        """(V, D) matrix of the output layer."""
        return self.output.weight

    @property
    def output_bias(self) -> Tensor | None:
        """(V,) bias of the output layer, or None."""
        return None

    def logits(self, hidden: Tensor) -> Tensor:
        """(..., D) → (..., V)."""
        return linear(hidden, self.output_weight, low_precision=self.output.low_precision)


def output_layer(tie: TieEmbeddings, embedding: nn.Embedding, width: int) -> Linear:
    """The layer from states of `width` to logits; it has a matrix of its own only where nothing is tied."""
    if tie is TieEmbeddings.none:
        return Linear(width, embedding.num_embeddings, bias=False)
    # A Linear all the same, so that one precision switch reaches it; it only borrows the matrix.
    output = Linear(1, 1, bias=False)
    output.weight = cast(nn.Parameter, embedding.weight)
    return output


def parameter_count(model: nn.Module) -> int:
    """Number of trained values; a matrix used in several places counts once."""
    return sum(parameter.numel() for parameter in model.parameters())
