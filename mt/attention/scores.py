"""Score functions f(Q, K): how well each key answers each query.

``Attention(Q, K, V) = softmax(f(Q, K)) V``; the literature's variants differ in f alone. A score does
in `prepare_keys` what depends on the keys only, once per sentence, and the rest in `forward`. The
softmax, masks and heads are elsewhere (`mt.attention.attend`, `mt.attention.multihead`).

A new score is a subclass here, an entry in `SCORES`, a name in `ScoreKind` and a YAML file.

Shapes: B batch, H heads, T queries, S keys, Dq and Dk sizes of a query and a key within a head.
"""

from __future__ import annotations

import math

from torch import Tensor, nn

from mt.config.schema import ScoreKind


class Score(nn.Module):
    """Base of all scores.

    Args:
        heads: H.
        query_size: Dq. A Transformer's queries and keys have one size; an RNN decoder's state and the
            states of its encoder need not.
        key_size: Dk.
        hidden: d_a, the inner size of scores that have one; None = Dk.
        max_positions: the most keys there will ever be, for scores that need to know.

    Attributes:
        scale: a score that equals ``scale * query · prepared`` sets it, and is then computed by the
            fused kernel where that is faster; None for scores that are no dot product.

    Raises:
        ValueError: the score cannot do with these sizes.
    """

    scale: float | None = None

    def __init__(
        self,
        heads: int,
        query_size: int,
        key_size: int,
        *,
        hidden: int | None = None,
        max_positions: int | None = None,
    ) -> None:
        super().__init__()
        self.heads = heads
        self.query_size = query_size
        self.key_size = key_size
        self.hidden = key_size if hidden is None else hidden
        self.max_positions = max_positions
        self.build()

    def build(self) -> None:
        """Make the parameters, if any, and refuse sizes that do not fit."""

    def prepare_keys(self, keys: Tensor) -> Tensor:
        """(B, H, S, Dk) → what `forward` needs of the keys, (B, H, S, any size); once per sentence.

        Each key is prepared on its own: decoding joins prepared keys as they come.
        """
        return keys

    def forward(self, query: Tensor, prepared: Tensor) -> Tensor:
        """query (B, H, T, Dq), prepared (B, H, S, ...) → scores (B, H, T, S)."""
        raise NotImplementedError


class Dot(Score):
    """``score(q, k) = k · q`` (Luong et al. 2015, Eq. 8, dot)."""

    scale = 1.0

    def build(self) -> None:
        if self.query_size != self.key_size:
            raise ValueError(
                f"a dot product needs queries and keys of one size, not {self.query_size} and "
                f"{self.key_size}; the score general has a matrix between them"
            )

    def forward(self, query: Tensor, prepared: Tensor) -> Tensor:
        # Scaling the T queries is cheaper than scaling the T x S scores.
        scaled = query if self.scale == 1.0 else query * self.scale
        return scaled @ prepared.transpose(-1, -2)


class ScaledDot(Dot):
    """``score(q, k) = k · q / sqrt(Dk)`` (Vaswani et al. 2017, Eq. 1)."""

    def build(self) -> None:
        super().build()
        self.scale = 1.0 / math.sqrt(self.key_size)


SCORES: dict[ScoreKind, type[Score]] = {
    ScoreKind.scaled_dot: ScaledDot,
    ScoreKind.dot: Dot,
}


def build_score(
    kind: ScoreKind,
    heads: int,
    query_size: int,
    key_size: int | None = None,
    *,
    hidden: int | None = None,
    max_positions: int | None = None,
) -> Score:
    """The score function named `kind`; see `Score` for the arguments. `key_size` None = `query_size`."""
    key_size = query_size if key_size is None else key_size
    return SCORES[kind](heads, query_size, key_size, hidden=hidden, max_positions=max_positions)
