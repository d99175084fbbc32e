"""Multi-head attention (Vaswani et al. 2017, §3.2.2) over any score, for training and step by step.

``MultiHead(Q, K, V) = [head_1; …; head_H] W^O``, ``head_h = Attention(Q W^Q_h, K W^K_h, V W^V_h)``.
With summed heads, as mathematical papers write it, ``X + Σ_h (W_h^V X) Softmax[(W_h^K X)ᵀ (W_h^Q X)]``
(columns are positions; ``X +`` is the residual of the layer around): W_h^V gives the model's width, there
is neither W^O nor any bias, and with the score `dot` nothing is scaled.
Training works on packed rows (`mt.kernels.packing`), decoding on one position per hypothesis with
keys and values cached.

Shapes: B batch, T queries, S keys, H heads, D width, K = D/H size of queries and keys, C size of values
(K, or D for summed heads), N real positions, J hypotheses.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn

from mt.attention.attend import attend_by_score
from mt.attention.scopes import Scope
from mt.attention.scores import Score
from mt.config.schema import Heads
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
    """Prepared keys (B, H, S, ...) and values (B, H, S, C) of one layer."""

    keys: Tensor
    values: Tensor


class _MultiHead(nn.Module):
    """What self- and cross-attention share: the score, the heads and how they are joined."""

    def __init__(self, width: int, score: Score, dropout: float, heads: Heads) -> None:
        super().__init__()
        self.heads = score.heads
        self.score = score
        self.dropout = dropout
        self.summed = heads is Heads.summed
        self.value_size = width if self.summed else width // score.heads
        self.output = None if self.summed else Linear(width, width)

    def _join(self, contexts: Tensor) -> Tensor:
        """The heads' contexts side by side (N, H*C) → (N, D)."""
        if self.output is None:
            return contexts.view(-1, self.heads, self.value_size).sum(1)
        joined: Tensor = self.output(contexts)
        return joined

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

    def __init__(self, width: int, score: Score, dropout: float, heads: Heads = Heads.concatenated) -> None:
        super().__init__(width, score, dropout, heads)
        if self.summed:
            self.query_key = Linear(width, 2 * width, bias=False, parts=2)
            self.value = Linear(width, self.heads * width, bias=False, parts=self.heads)
        else:
            self.query_key_value = Linear(width, 3 * width, parts=3)

    def forward(self, rows: Tensor, packing: Packing, mask: Tensor, rotation: Rotation | None) -> Tensor:
        """rows (N, D), mask bool broadcastable to (B, H, T, T) → (N, D)."""
        if self.summed:
            query, key = packing.heads(self.query_key(rows), parts=2).unbind(0)
            value = packing.heads(self.value(rows))[0]
        else:
            query, key, value = packing.heads(self.query_key_value(rows), parts=3).unbind(0)
        if rotation is not None:
            query, key = rotation.apply(query), rotation.apply(key)
        context, _ = self._attend(query, self.score.prepare_keys(key), value, mask)
        return self._join(packing.rows(context))

    def nothing_yet(self, hypotheses: int, like: Tensor) -> KeysValues:
        """The cache before the first position, in the type and place of `like`."""
        keys = like.new_empty(hypotheses, self.heads, 0, self.score.key_size)
        values = like.new_empty(hypotheses, self.heads, 0, self.value_size)
        return KeysValues(self.score.prepare_keys(keys), values)

    def step(self, x: Tensor, past: KeysValues, rotation: Rotation | None) -> tuple[Tensor, KeysValues]:
        """One more position of each hypothesis: x (J, D), past keys and values (J, H, t, …) → (J, D)."""
        hypotheses = x.shape[0]
        if self.summed:
            query, key = self.query_key(x).view(hypotheses, 2, self.heads, 1, -1).unbind(1)
            value = self.value(x).view(hypotheses, self.heads, 1, -1)
        else:
            query, key, value = self.query_key_value(x).view(hypotheses, 3, self.heads, 1, -1).unbind(1)
        if rotation is not None:
            query, key = rotation.apply(query), rotation.apply(key)
        keys = torch.cat((past.keys, self.score.prepare_keys(key)), dim=2)
        values = torch.cat((past.values, value), dim=2)
        context, _ = self._attend(query, keys, values, None)
        return self._join(context.reshape(hypotheses, -1)), KeysValues(keys, values)

    def quieten(self, share: float) -> None:
        """Scale what is handed on by `share`."""
        (self.value if self.output is None else self.output).weight.mul_(share)


class CrossAttention(_MultiHead):
    """Attention of the target over the encoded source."""

    def __init__(
        self,
        width: int,
        score: Score,
        dropout: float,
        scope: Scope | None = None,
        heads: Heads = Heads.concatenated,
    ) -> None:
        super().__init__(width, score, dropout, heads)
        self.scope = scope if scope is not None else Scope(score.heads, score.query_size, window=1)
        self.query = Linear(width, width, bias=not self.summed)
        if self.summed:
            self.key = Linear(width, width, bias=False)
            self.value = Linear(width, self.heads * width, bias=False, parts=self.heads)
        else:
            self.key_value = Linear(width, 2 * width, parts=2)

    def prepare(self, memory: Tensor, packing: Packing) -> KeysValues:
        """Once per sentence: memory (N, D) of the source → prepared keys and values (B, H, S, …)."""
        if self.summed:
            keys, values = (packing.heads(part(memory))[0] for part in (self.key, self.value))
        else:
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
        return self._join(packing.rows(context)), weights

    def pass_attended(self, share: float) -> None:
        """Make ``W^O W^V = share · 1``, with a random rotation between that keeps the heads different.

        Summed heads each hand on their part, ``W_h^V = share / H · 1``.
        """
        if self.output is None:
            width = self.query.weight.shape[0]
            part = torch.eye(width).to(self.value.weight) * (share / self.heads)
            self.value.weight.copy_(part.repeat(self.heads, 1))
            return
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
        hypotheses = x.shape[0]
        sentences = memory.values.shape[0]
        beam = hypotheses // sentences
        query = self.query(x).view(sentences, beam, self.heads, -1).transpose(1, 2)
        reach, factor = self.scope(query, positions.view(sentences, beam), mask)
        context, _ = self._attend(query, memory.keys, memory.values, reach, factor=factor)
        return self._join(context.transpose(1, 2).reshape(hypotheses, -1))
