"""Multi-head attention (Vaswani et al. 2017, §3.2.2) over any score, for training and step by step.

``MultiHead(Q, K, V) = [head_1; …; head_H] W^O``, ``head_h = Attention(Q W^Q_h, K W^K_h, V W^V_h)``.
Training works on packed rows (`mt.kernels.packing`), decoding on one position per hypothesis with
keys and values cached.

Shapes: B batch, T queries, S keys, H heads, D width, K = D/H, N real positions, J hypotheses.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn

from mt.attention.attend import attend_by_score
from mt.attention.scopes import Scope
from mt.attention.scores import Score
from mt.kernels.linear import Linear
from mt.kernels.packing import Packing


class Rotation(NamedTuple):
    """Angles of rotary positions for some positions: cos and sin, each broadcastable to (B, H, T, K)."""

    cos: Tensor
    sin: Tensor

    def apply(self, x: Tensor) -> Tensor:
        """Rotate each pair (x_i, x_{i+K/2}) of the last axis (Su et al. 2021, Eq. 34, halves for pairs)."""
        first, second = x.chunk(2, dim=-1)
        return x * self.cos + torch.cat((-second, first), dim=-1) * self.sin


class KeysValues(NamedTuple):
    """Prepared keys (B, H, S, ...) and values (B, H, S, K) of one layer."""

    keys: Tensor
    values: Tensor


class _MultiHead(nn.Module):
    """What self- and cross-attention share: the score, the output matrix, the heads."""

    def __init__(self, width: int, score: Score, dropout: float) -> None:
        super().__init__()
        self.heads = score.heads
        self.score = score
        self.dropout = dropout
        self.output = Linear(width, width)

    def _attend(
        self,
        query: Tensor,
        prepared: Tensor,
        values: Tensor,
        mask: Tensor | None,
        *,
        factor: Tensor | None = None,
        with_weights: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        probability = self.dropout if self.training else 0.0
        return attend_by_score(
            self.score,
            query,
            prepared,
            values,
            mask,
            factor=factor,
            dropout_probability=probability,
            with_weights=with_weights,
        )


class SelfAttention(_MultiHead):
    """Attention of a sequence over itself; query, key and value come from one product."""

    def __init__(self, width: int, score: Score, dropout: float) -> None:
        super().__init__(width, score, dropout)
        self.query_key_value = Linear(width, 3 * width, parts=3)

    def forward(self, rows: Tensor, packing: Packing, mask: Tensor, rotation: Rotation | None) -> Tensor:
        """rows (N, D), mask bool broadcastable to (B, H, T, T) → (N, D)."""
        query, key, value = packing.heads(self.query_key_value(rows), parts=3).unbind(0)
        if rotation is not None:
            query, key = rotation.apply(query), rotation.apply(key)
        context, _ = self._attend(query, self.score.prepare_keys(key), value, mask)
        out: Tensor = self.output(packing.rows(context))
        return out

    def step(self, x: Tensor, past: KeysValues, rotation: Rotation | None) -> tuple[Tensor, KeysValues]:
        """One more position of each hypothesis: x (J, D), past keys and values (J, H, t, K) → (J, D)."""
        hypotheses, width = x.shape
        projected = self.query_key_value(x).view(hypotheses, 3, self.heads, 1, width // self.heads)
        query, key, value = projected.unbind(1)
        if rotation is not None:
            query, key = rotation.apply(query), rotation.apply(key)
        keys = torch.cat((past.keys, self.score.prepare_keys(key)), dim=2)
        values = torch.cat((past.values, value), dim=2)
        context, _ = self._attend(query, keys, values, None)
        return self.output(context.reshape(hypotheses, width)), KeysValues(keys, values)


class CrossAttention(_MultiHead):
    """Attention of the target over the encoded source."""

    def __init__(self, width: int, score: Score, dropout: float, scope: Scope | None = None) -> None:
        super().__init__(width, score, dropout)
        self.scope = scope if scope is not None else Scope(score.heads, score.query_size, window=1)
        self.query = Linear(width, width)
        self.key_value = Linear(width, 2 * width, parts=2)

    def prepare(self, memory: Tensor, packing: Packing) -> KeysValues:
        """Once per sentence: memory (N, D) of the source → prepared keys and values (B, H, S, …)."""
        keys, values = packing.heads(self.key_value(memory), parts=2).unbind(0)
        return KeysValues(self.score.prepare_keys(keys), values)

    def forward(
        self, rows: Tensor, packing: Packing, memory: KeysValues, mask: Tensor, with_weights: bool = False
    ) -> tuple[Tensor, Tensor | None]:
        """rows (N, D) of the target, mask bool like (B, H, T, S) → (N, D), weights (B, H, T, S) if wanted."""
        query = packing.heads(self.query(rows))[0]
        positions = torch.arange(packing.length, device=rows.device)
        reach, factor = self.scope(query, positions, mask)
        context, weights = self._attend(
            query, memory.keys, memory.values, reach, factor=factor, with_weights=with_weights
        )
        return self.output(packing.rows(context)), weights

    def pass_attended(self, share: float) -> None:
        """Make ``W^O W^V = share · 1``, with a random rotation between that keeps the heads different."""
        width = self.output.weight.shape[0]
        rotation, _ = torch.linalg.qr(torch.randn(width, width))
        rotation = rotation.to(self.output.weight) * share**0.5
        self.key_value.weight[width:] = rotation
        self.output.weight.copy_(rotation.t())

    def step(self, x: Tensor, memory: KeysValues, mask: Tensor, positions: Tensor) -> Tensor:
        """x (J, D) at positions (J,), J = B times the beam, memory (B, H, S, …), mask (B, 1, 1, S) → (J, D).

        The hypotheses of one sentence are the queries of one product, so that the sentence's keys
        and values are never copied over the beam.
        """
        hypotheses, width = x.shape
        sentences = memory.values.shape[0]
        beam = hypotheses // sentences
        size = width // self.heads
        query = self.query(x).view(sentences, beam, self.heads, size).transpose(1, 2)
        reach, factor = self.scope(query, positions.view(sentences, beam), mask)
        context, _ = self._attend(query, memory.keys, memory.values, reach, factor=factor)
        out: Tensor = self.output(context.transpose(1, 2).reshape(hypotheses, width))
        return out
