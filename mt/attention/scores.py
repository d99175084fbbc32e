"""Score functions f(Q, K): how well each key answers each query.

``Attention(Q, K, V) = softmax(f(Q, K)) V``; the literature's variants differ in f alone. A score does
in `prepare_keys` what depends on the keys only, once per sentence, and the rest in `forward`. The
softmax, masks and heads are elsewhere (`mt.attention.attend`, `mt.attention.multihead`).

A new score is a subclass here, an entry in `SCORES`, a name in `ScoreKind` and a YAML file.

Shapes: B batch, H heads, T queries, S keys, Dq and Dk sizes of a query and a key within a head.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from mt.config.schema import ScoreKind
from mt.kernels.additive import additive_attention, additive_scores
from mt.kernels.linear import Linear
from mt.kernels.randomness import apart


class HeadLinear(Linear):
    """A matrix without bias for each head: (B, H, L, inputs) → (B, H, L, outputs)."""

    def __init__(self, heads: int, inputs: int, outputs: int) -> None:
        super().__init__(inputs, heads * outputs, bias=False, parts=heads)

    def forward(self, x: Tensor) -> Tensor:
        if self.parts == 1:
            return super().forward(x)
        matrices = self.weight.view(self.parts, -1, self.weight.shape[1]).to(x.dtype)
        return torch.einsum("bhli,hoi->bhlo", x, matrices)


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

    def context(self, query: Tensor, prepared: Tensor, values: Tensor, mask: Tensor | None) -> Tensor | None:
        """``softmax(scores) V`` by a kernel that makes no (B, H, T, S) tensor; None where there is none.

        Args:
            query, prepared: as in `forward`.
            values: (B, H, S, C).
            mask: bool, broadcastable to (B, H, T, S), True = may be attended; rows without any give zeros.

        Returns:
            (B, H, T, C).
        """
        return None


def scaled_product(query: Tensor, prepared: Tensor, scale: float) -> Tensor:
    """``scale * query · prepared`` of all pairs: (B, H, T, D), (B, H, S, D) → (B, H, T, S)."""
    # Scaling the T queries is cheaper than scaling the T x S scores.
    return (query if scale == 1.0 else query * scale) @ prepared.transpose(-1, -2)


class Dot(Score):
    """``score(q, k) = k · q`` (Luong et al. 2015, §3.1, dot)."""

    scale: float = 1.0

    def build(self) -> None:
        if self.query_size != self.key_size:
            raise ValueError(
                f"a dot product needs queries and keys of one size, not {self.query_size} and "
                f"{self.key_size}; the score general has a matrix between them"
            )

    def forward(self, query: Tensor, prepared: Tensor) -> Tensor:
        return scaled_product(query, prepared, self.scale)


class ScaledDot(Dot):
    """``score(q, k) = k · q / sqrt(Dk)`` (Vaswani et al. 2017, Eq. 1)."""

    def build(self) -> None:
        super().build()
        self.scale = 1.0 / math.sqrt(self.key_size)


class General(Score):
    """``score(q, k) = kᵀ W q`` with a matrix per head (Luong et al. 2015, §3.1, general).

    ``Wᵀ k`` is computed with the keys, so that what remains is a dot product.
    """

    scale: float = 1.0

    def build(self) -> None:
        self.matrix = HeadLinear(self.heads, self.key_size, self.query_size)
        # The scores begin with the spread of scaled_dot's; √Dq times as wide, the softmax is saturated before
        # anything is learnt, and stays so (reversal of 64-wide words: no sentence right; so all).
        with torch.no_grad():
            self.matrix.weight.mul_(1.0 / math.sqrt(self.query_size))

    def prepare_keys(self, keys: Tensor) -> Tensor:
        prepared: Tensor = self.matrix(keys)
        return prepared

    def forward(self, query: Tensor, prepared: Tensor) -> Tensor:
        return scaled_product(query, prepared, self.scale)


class ScaledGeneral(General):
    """``score(q, k) = kᵀ W q / sqrt(Dq)``: general with the factor of scaled_dot.

    The functions are those of `General`; what differs is how far a step of one size in W moves the scores.
    """

    def build(self) -> None:
        self.matrix = HeadLinear(self.heads, self.key_size, self.query_size)
        self.scale = 1.0 / math.sqrt(self.query_size)


class Additive(Score):
    """``score(q, k) = wᵀ tanh(W q + U k)`` per head (Bahdanau et al. 2015, App. A.1.2)."""

    def build(self) -> None:
        self.query_matrix = HeadLinear(self.heads, self.query_size, self.hidden)
        self.key_matrix = HeadLinear(self.heads, self.key_size, self.hidden)
        self.vector = nn.Parameter(torch.empty(self.heads, self.hidden))
        bound = math.sqrt(6.0 / (self.hidden + 1))
        nn.init.uniform_(self.vector, -bound, bound)

    def prepare_keys(self, keys: Tensor) -> Tensor:
        prepared: Tensor = self.key_matrix(keys)
        return prepared

    def forward(self, query: Tensor, prepared: Tensor) -> Tensor:
        return additive_scores(self.query_matrix(query), prepared, self.vector)

    def context(self, query: Tensor, prepared: Tensor, values: Tensor, mask: Tensor | None) -> Tensor:
        return additive_attention(self.query_matrix(query), prepared, self.vector, values, mask)


class Concat(Additive):
    """``score(q, k) = vᵀ tanh(W [q; k])`` per head (Luong et al. 2015, §3.1, concat).

    With W cut into its columns for q and for k this is the additive score; what differs is the start: one
    matrix over both has the fan-in of both.
    """

    def build(self) -> None:
        super().build()
        bound = math.sqrt(6.0 / (self.query_size + self.key_size + self.hidden))
        for matrix in (self.query_matrix, self.key_matrix):
            nn.init.uniform_(matrix.weight, -bound, bound)


class Location(Score):
    """``score(q, k_i) = (W q)_i``: where a key stands, not what it holds (Luong et al. 2015, §3.1, location).

    W has a row for each of `max_positions` places in each head; position 0 is the sentence's first.
    """

    def build(self) -> None:
        if self.max_positions is None:
            raise ValueError("the score location needs max_positions: it has a row of weights for each place")
        self.places = HeadLinear(self.heads, self.query_size, self.max_positions)

    def prepare_keys(self, keys: Tensor) -> Tensor:
        return keys[..., :0]  # nothing but how many there are

    def forward(self, query: Tensor, prepared: Tensor) -> Tensor:
        assert self.max_positions is not None
        count = prepared.shape[2]
        if count > self.max_positions:
            raise ValueError(f"the score location knows {self.max_positions} places, not {count}")
        rows = self.places.weight.view(self.heads, self.max_positions, self.query_size)[:, :count]
        return torch.einsum("bhtq,hsq->bhts", query, rows.to(query.dtype))


class Uniform(Score):
    """``score(q, k) = 0``: the mean of what may be attended, the floor that attention has to beat."""

    def prepare_keys(self, keys: Tensor) -> Tensor:
        return keys[..., :0]

    def forward(self, query: Tensor, prepared: Tensor) -> Tensor:
        return query.new_zeros(*query.shape[:3], prepared.shape[2])


SCORES: dict[ScoreKind, type[Score]] = {
    ScoreKind.scaled_dot: ScaledDot,
    ScoreKind.dot: Dot,
    ScoreKind.general: General,
    ScoreKind.scaled_general: ScaledGeneral,
    ScoreKind.concat: Concat,
    ScoreKind.additive: Additive,
    ScoreKind.location: Location,
    ScoreKind.none: Uniform,
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
    """The score function named `kind`; see `Score` for the arguments. `key_size` None = `query_size`.

    Its initial values are drawn apart: models that differ in their scores alone share all other values.
    """
    key_size = query_size if key_size is None else key_size
    with apart():
        return SCORES[kind](heads, query_size, key_size, hidden=hidden, max_positions=max_positions)
