"""Scopes: which keys a query may look at at all (Luong et al. 2015, §3.1 and §3.2).

A scope turns the mask of the real keys into a mask of those in reach, and may give a factor by which the
weights are multiplied after the softmax (`mt.attention.attend`). It is independent of the score.

A new scope is a subclass here, an entry in `SCOPES`, and a name in `ScopeKind`.

Shapes: B batch, H heads, T queries, S keys, Dq size of a query within a head. Positions count from 0.
Padding stands behind the real keys.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from mt.attention.scores import HeadLinear
from mt.config.schema import ScopeKind
from mt.kernels.randomness import apart


class Scope(nn.Module):
    """Base of all scopes, and the scope `global`: every real key.

    Args:
        heads: H.
        query_size: Dq.
        window: D, how far from its centre a local scope reaches.
    """

    def __init__(self, heads: int, query_size: int, window: int) -> None:
        super().__init__()
        self.heads = heads
        self.query_size = query_size
        self.window = window

    def forward(self, query: Tensor, positions: Tensor, key_mask: Tensor) -> tuple[Tensor, Tensor | None]:
        """Which keys are in reach of each query.

        Args:
            query: (B, H, T, Dq).
            positions: (T,) or (B, T), the queries' places in their sentences.
            key_mask: (B, 1, 1, S) or (B, 1, T, S), bool, True = may be attended.

        Returns:
            mask, bool, broadcastable to (B, H, T, S); and the factor of the weights, (B, H, T, S), or None.
        """
        return key_mask, None


class LocalMonotonic(Scope):
    """``local_m``: query t sees keys t−D … t+D (Luong et al. 2015, §3.2, monotonic alignment).

    A query further than D behind the end of the source sees nothing, and attends to zeros.
    """

    def forward(self, query: Tensor, positions: Tensor, key_mask: Tensor) -> tuple[Tensor, Tensor | None]:
        keys = torch.arange(key_mask.shape[-1], device=key_mask.device)
        distance = (keys - positions[..., None]).abs()  # (T, S) or (B, T, S)
        near = distance <= self.window
        return key_mask & (near[:, None] if near.dim() == 3 else near), None


class LocalPredictive(Scope):
    """``local_p``: each query predicts its centre (Luong et al. 2015, §3.2, Eq. 9 and 10).

    ``p_t = S · sigmoid(v_pᵀ tanh(W_p h_t))`` with S the number of real keys of the sentence; keys within
    p_t ± D, and weights times ``exp(−(s − p_t)² / (2σ²))``, σ = D/2, not normalised again. Each head has
    its own W_p and v_p.
    """

    def __init__(self, heads: int, query_size: int, window: int) -> None:
        super().__init__(heads, query_size, window)
        self.matrix = HeadLinear(heads, query_size, query_size)
        self.vector = HeadLinear(heads, query_size, 1)

    def centres(self, query: Tensor, key_mask: Tensor) -> Tensor:
        """p (B, H, T) for query (B, H, T, Dq) and key_mask (B, 1, 1 or T, S)."""
        share: Tensor = self.vector(self.matrix(query).tanh()).squeeze(-1).sigmoid()
        return share * key_mask.sum(-1)

    def forward(self, query: Tensor, positions: Tensor, key_mask: Tensor) -> tuple[Tensor, Tensor | None]:
        keys = torch.arange(key_mask.shape[-1], device=key_mask.device)
        distance = keys - self.centres(query, key_mask)[..., None]
        sigma = self.window / 2.0
        return key_mask & (distance.abs() <= self.window), (distance.square() / (-2.0 * sigma**2)).exp()


SCOPES: dict[ScopeKind, type[Scope]] = {
    ScopeKind["global"]: Scope,
    ScopeKind["local_m"]: LocalMonotonic,
    ScopeKind["local_p"]: LocalPredictive,
}


def build_scope(kind: ScopeKind, heads: int, query_size: int, window: int) -> Scope:
    """The scope named `kind`; see `Scope` for the arguments."""
    with apart():  # as scores are: see `mt.attention.scores.build_score`
        return SCOPES[kind](heads, query_size, window)
