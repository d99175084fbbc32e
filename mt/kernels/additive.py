"""``Σ_i w_i tanh(a_i + b_i)`` for all pairs of rows, without the pairs' (…, T, S, d_a) tensor.

The score of Bahdanau et al. (2015) adds each query to each key before the nonlinearity, so that it is no
matrix product. Written out it needs d_a times the memory of the scores, and the tensor lives until
backward. Here a few thousand pairs at a time pass through a buffer that stays in the processor's cache;
backward computes them again. What is kept is the input: memory grows with T·S.

On the CPU tanh is the expensive part (2.5 ns an element on one core; the rest of the forward 0.3). With

    tanh(a + b) = 1 − 2 r,   r = 1 / (1 + e^{2a} e^{2b})

the exponentials belong to rows, T + S of them instead of T·S, and a pair costs a product and a division
(0.4 ns in all, 0.8 in backward). Nothing cancels: the exponentials have errors of some 10⁻⁷ of themselves,
r and tanh absolute ones of that size. Where a row could overflow (|a| or |b| > 40) tanh is used, as it is
on other devices, where it costs nothing beside the memory traffic.

Shapes: B batch, H heads, T queries, S keys, d_a size of the inner vectors.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor

# Bytes of the buffer, for each thread: on a core with 1 MB of level-2 cache, 0.25 MB took 1.5 times as
# long (calls), and 1 to 2 MB the same.
_CPU_BYTES = 2**20
_OTHER_BYTES = 2**26
_LARGEST_EXPONENT = 40.0


class _Chunk(NamedTuple):
    """Pairs that are in the buffer together: some sentences and queries of one head, all keys."""

    head: int
    sentences: slice
    queries: slice


def _chunks(heads: int, batch: int, queries: int, pair_row_bytes: int, budget: int) -> Iterator[_Chunk]:
    """All (head, sentence, query) in pieces of at most `budget` bytes, or of one query.

    A query takes `pair_row_bytes`, those of its S·d_a values.
    """
    sentences_at_once = max(1, budget // max(1, queries * pair_row_bytes))
    queries_at_once = max(1, min(queries, budget // pair_row_bytes))
    for head in range(heads):
        for b in range(0, batch, sentences_at_once):
            for t in range(0, queries, queries_at_once):
                yield _Chunk(
                    head,
                    slice(b, min(batch, b + sentences_at_once)),
                    slice(t, min(queries, t + queries_at_once)),
                )


class _Pairs:
    """tanh(a + b), or r in its place, chunk by chunk, in one buffer.

    Args:
        a: (B, H, T, d_a); b: (B, H, S, d_a).
    """

    def __init__(self, a: Tensor, b: Tensor) -> None:
        self.by_exponentials = a.device.type == "cpu" and all(
            bool(x.numel() == 0 or x.abs().amax() <= _LARGEST_EXPONENT) for x in (a, b)
        )
        self.a, self.b = ((2.0 * a).exp(), (2.0 * b).exp()) if self.by_exponentials else (a, b)
        self.one = a.new_ones(())
        batch, heads, queries, size = a.shape
        on_cpu = a.device.type == "cpu"
        budget = _CPU_BYTES * torch.get_num_threads() if on_cpu else _OTHER_BYTES
        pair_row = max(1, b.shape[2] * size * a.element_size())
        self.chunks = list(_chunks(heads, batch, queries, pair_row, budget))
        self.largest = max((self._shape(chunk).numel() for chunk in self.chunks), default=0)
        self.buffer = a.new_empty(self.largest)

    def _shape(self, chunk: _Chunk) -> torch.Size:
        count = chunk.sentences.stop - chunk.sentences.start
        queries = chunk.queries.stop - chunk.queries.start
        return torch.Size((count, queries, self.b.shape[2], self.b.shape[3]))

    def view(self, buffer: Tensor, chunk: _Chunk) -> Tensor:
        """The part of `buffer` that `chunk` fills, (sentences, queries, S, d_a)."""
        shape = self._shape(chunk)
        return buffer[: shape.numel()].view(shape)

    def fill(self, chunk: _Chunk) -> Tensor:
        """r or tanh of the pairs of `chunk`; valid until the next call."""
        a = self.a[chunk.sentences, chunk.head, chunk.queries, None]
        b = self.b[chunk.sentences, chunk.head, None]
        pairs = self.view(self.buffer, chunk)
        if self.by_exponentials:
            return torch.addcmul(self.one, a, b, out=pairs).reciprocal_()
        return torch.add(a, b, out=pairs).tanh_()


class _AdditiveScores(torch.autograd.Function):
    """See `additive_scores`."""

    @staticmethod
    def forward(ctx: Any, a: Tensor, b: Tensor, w: Tensor) -> Tensor:
        ctx.save_for_backward(a, b, w)
        out = a.new_empty((*a.shape[:3], b.shape[2]))
        with torch.autocast(a.device.type, enabled=False):
            pairs = _Pairs(a, b)
            for chunk in pairs.chunks:
                values = pairs.fill(chunk)
                out[chunk.sentences, chunk.head, chunk.queries] = (
                    values.view(-1, values.shape[-1]).mv(w[chunk.head]).view(values.shape[:-1])
                )
            return out.mul_(-2.0).add_(w.sum(-1)[:, None, None]) if pairs.by_exponentials else out

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:
        a, b, w = ctx.saved_tensors
        grad = grads[0]
        grad_a, grad_b, grad_w = torch.empty_like(a), torch.zeros_like(b), torch.zeros_like(w)
        with torch.autocast(a.device.type, enabled=False):
            pairs = _Pairs(a, b)
            other = a.new_empty(pairs.largest)
            for chunk in pairs.chunks:
                head, sentences, queries = chunk
                values, products = pairs.fill(chunk), pairs.view(other, chunk)
                outer = grad[sentences, head, queries, :, None]
                torch.mul(outer, values, out=products)
                grad_w[head] += products.view(-1, products.shape[-1]).sum(0)
                # The derivative of tanh is 1 − tanh², or in r: 4 (r − r²).
                base = products if pairs.by_exponentials else outer
                torch.addcmul(base, products, values, value=-1.0, out=products)
                torch.sum(products, dim=2, out=grad_a[sentences, head, queries])
                grad_b[sentences, head] += products.sum(1)
            if pairs.by_exponentials:
                grad_w = grad.sum((0, 2, 3))[:, None] - 2.0 * grad_w
                w = 4.0 * w
            grad_a.mul_(w[:, None])
            grad_b.mul_(w[:, None])
        return grad_a, grad_b, grad_w


def additive_scores(a: Tensor, b: Tensor, w: Tensor) -> Tensor:
    """``out[…, t, s] = Σ_i w_i tanh(a_ti + b_si)`` for each sentence and head.

    Half precision is computed in fp32 inside, also under autocast.

    Args:
        a: (B, H, T, d_a); b: (B, H, S, d_a); w: (H, d_a).

    Returns:
        (B, H, T, S) in the type of `a`.
    """
    exact = torch.float64 if a.dtype == torch.float64 else torch.float32
    out: Tensor = _AdditiveScores.apply(a.to(exact), b.to(exact), w.to(exact))  # type: ignore[no-untyped-call]
    return out.to(a.dtype)
