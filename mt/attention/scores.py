"""Score functions f(Q, K): how well each key answers each query.

``Attention(Q, K, V) = softmax(f(Q, K)) V``; the literature's variants differ in f alone. A score does
in `prepare_keys` what depends on the keys only, once per sentence, and the rest in `forward`. The
softmax, masks and heads are elsewhere (`mt.attention.attend`, `mt.attention.multihead`).

A new score is a subclass here, an entry in `SCORES`, a name in `ScoreKind` and a YAML file.

Shapes: B batch, H heads, T queries, S keys, K size of a key within a head.
"""

from __future__ import annotations

import math

from torch import Tensor, nn

from mt.config.schema import ScoreKind
from mt.kernels.randomness import apart


class Score(nn.Module):
    """Base of all scores.

    Args:
        heads: H.
        size: K, the size of queries and keys within a head.

    Attributes:
        scale: a score that equals ``scale * query · prepared`` sets it, and is then computed by the
            fused kernel where that is faster; None for scores that are no dot product.
    """

    scale: float | None = None

    def __init__(self, heads: int, size: int) -> None:
        super().__init__()
        self.heads = heads
        self.size = size

    def prepare_keys(self, keys: Tensor) -> Tensor:
        """(B, H, S, K) → what `forward` needs of the keys, same leading axes; once per sentence."""
        return keys

    def forward(self, query: Tensor, prepared: Tensor) -> Tensor:
        """query (B, H, T, K), prepared (B, H, S, ...) → scores (B, H, T, S)."""
        raise NotImplementedError


class Dot(Score):
    """``score(q, k) = k · q`` (Luong et al. 2015, Eq. 8, dot)."""

    def __init__(self, heads: int, size: int) -> None:
        super().__init__(heads, size)
        self.scale = 1.0

    def forward(self, query: Tensor, prepared: Tensor) -> Tensor:
        assert self.scale is not None
        # Scaling the T queries is cheaper than scaling the T x S scores.
        scaled = query if self.scale == 1.0 else query * self.scale
        return scaled @ prepared.transpose(-1, -2)


class ScaledDot(Dot):
    """``score(q, k) = k · q / sqrt(K)`` (Vaswani et al. 2017, Eq. 1)."""

    def __init__(self, heads: int, size: int) -> None:
        super().__init__(heads, size)
        self.scale = 1.0 / math.sqrt(size)


SCORES: dict[ScoreKind, type[Score]] = {
    ScoreKind.scaled_dot: ScaledDot,
    ScoreKind.dot: Dot,
}


def build_score(kind: ScoreKind, heads: int, size: int) -> Score:
    """The score function named `kind` for H heads of size K.

    Its initial values are drawn apart: models that differ in their scores alone share all other values.
    """
    with apart():
        return SCORES[kind](heads, size)
