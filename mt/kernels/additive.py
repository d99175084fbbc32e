"""Attention by ``Σ_i w_i tanh(a_i + b_i)`` for all pairs of rows, without the pairs' (…, T, S, d_a) tensor.

The score of Bahdanau et al. (2015) adds each query to each key before the nonlinearity, so that it is no
matrix product. Written out it needs d_a times the memory of the scores, and the tensor lives until
backward. Here a few thousand pairs at a time pass through a buffer that stays in the processor's cache;
backward computes them again. `additive_scores` makes the scores, and keeps nothing but its input.
`additive_attention` takes the softmax and the sum over the values along, as FlashAttention (Dao et al.
2022) does for dot products: no tensor of T·S numbers is ever made, and keys behind the last one that a
query may see are left out, half the pairs of masked self-attention over long sentences.

On the CPU tanh is the expensive part (2.5 ns an element on one core; the rest of the forward 0.3). With

    tanh(a + b) = 1 − 2 r,   r = 1 / (1 + e^{2a} e^{2b})

the exponentials belong to rows, T + S of them instead of T·S, and a pair costs a product and a division
(0.4 ns in all, 0.8 in backward). Nothing cancels: the exponentials have errors of some 10⁻⁷ of themselves,
r and tanh absolute ones of that size. Where a row could overflow (|a| or |b| > 40) tanh is used, as it is
on other devices, where it costs nothing beside the memory traffic.

Shapes: B batch, H heads, T queries, S keys, d_a size of the inner vectors, C size of a value.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

# Bytes of the buffer, for each thread. Measured on a core with 1 MB of level-2 and 32 MB of level-3 cache:
# with 1 MB (calls) a pass took 1.15 times as long, with 0.25 MB 1.6 times; 4 MB gain another tenth, which a
# smaller level-3 cache would lose.
_CPU_BYTES = 2**21
_OTHER_BYTES = 2**26
_LARGEST_EXPONENT = 40.0


class _Chunk(NamedTuple):
    """Pairs that are in the buffer together: some sentences and queries of one head, the first keys."""

    head: int
    sentences: slice
    queries: slice
    keys: int


def _chunks(
    shape: torch.Size, keys: int, budget: int, reach: npt.NDArray[np.int64] | None
) -> Iterator[_Chunk]:
    """All queries in pieces whose pairs with the keys are at most `budget` numbers, or of one query.

    Args:
        shape: (B, H, T, d_a).
        keys: S.
        reach: int (B, T), how many keys, from the first, hold all that a query may see; None = S.
    """
    batch, heads, queries, size = shape
    pair_row = max(1, keys * size)
    sentences_at_once = max(1, budget // max(1, queries * pair_row))
    queries_at_once = max(1, min(queries, budget // pair_row))
    for b in range(0, batch, sentences_at_once):
        for t in range(0, queries, queries_at_once):
            sentences = slice(b, min(batch, b + sentences_at_once))
            of_these = slice(t, min(queries, t + queries_at_once))
            seen = keys if reach is None else int(reach[sentences, of_these].max())
            for head in range(heads):
                yield _Chunk(head, sentences, of_these, seen)


def _reach(mask: Tensor, batch: int, queries: int) -> npt.NDArray[np.int64]:
    """How many keys, from the first, hold all True of each row: mask like (B, H, T, S) → int (B, T)."""
    mask = mask[(None,) * (4 - mask.dim())]
    last = mask.flip(-1).to(torch.uint8).argmax(-1)  # 0 also of rows without any True
    reach: npt.NDArray[np.int64] = (mask.shape[-1] - last).amax(1).expand(batch, queries).numpy()
    return reach


class _Pairs:
    """What is made of all pairs and of their gradients, chunk by chunk, in one buffer.

    Args:
        a: (B, H, T, d_a); b: (B, H, S, d_a); w: (H, d_a).
        mask: bool, broadcastable to (B, H, T, S), True = may be attended; None = all may.
    """

    def __init__(self, a: Tensor, b: Tensor, w: Tensor, mask: Tensor | None = None) -> None:
        on_cpu = a.device.type == "cpu"
        self.by_exponentials = on_cpu and all(
            bool(x.numel() == 0 or x.abs().amax() <= _LARGEST_EXPONENT) for x in (a, b)
        )
        self.a, self.b = ((2.0 * a).exp(), (2.0 * b).exp()) if self.by_exponentials else (a, b)
        self.w = w
        # w · tanh = Σ w − 2 w · r
        self.slope = w
        self.offset: Tensor | None = None
        if self.by_exponentials:
            self.slope, self.offset = -2.0 * w, w.sum(-1)
        self.one = a.new_ones(())
        keys = b.shape[2]
        self.hidden = None if mask is None else (~mask).expand(*a.shape[:3], keys)
        # On other devices finding out the reach would have to wait for them.
        reach = _reach(mask, len(a), a.shape[2]) if mask is not None and on_cpu and keys else None
        size = (_CPU_BYTES * torch.get_num_threads() if on_cpu else _OTHER_BYTES) // a.element_size()
        self.chunks = list(_chunks(a.shape, keys, size, reach))
        self.buffer = a.new_empty(max((self._shape(chunk).numel() for chunk in self.chunks), default=0))

    def _shape(self, chunk: _Chunk) -> torch.Size:
        count = chunk.sentences.stop - chunk.sentences.start
        queries = chunk.queries.stop - chunk.queries.start
        return torch.Size((count, queries, chunk.keys, self.b.shape[3]))

    def fill(self, chunk: _Chunk) -> Tensor:
        """r or tanh of the pairs of `chunk`, (sentences, queries, keys, d_a); valid until the next call."""
        head, sentences, queries, keys = chunk
        a = self.a[sentences, head, queries, None]
        b = self.b[sentences, head, None, :keys]
        shape = self._shape(chunk)
        pairs = self.buffer[: shape.numel()].view(shape)
        if self.by_exponentials:
            return torch.addcmul(self.one, a, b, out=pairs).reciprocal_()
        return torch.add(a, b, out=pairs).tanh_()

    def scores(self, chunk: _Chunk, pairs: Tensor) -> Tensor:
        """(sentences, queries, keys)."""
        scores = pairs.view(-1, pairs.shape[-1]).mv(self.slope[chunk.head]).view(pairs.shape[:-1])
        return scores if self.offset is None else scores.add_(self.offset[chunk.head])

    def weights(self, chunk: _Chunk, pairs: Tensor) -> Tensor:
        """The softmax of `scores` over the keys that may be attended; zeros where there is none."""
        scores = self.scores(chunk, pairs)
        if self.hidden is None:
            return scores.softmax(-1)
        hidden = self.hidden[chunk.sentences, chunk.head, chunk.queries, : chunk.keys]
        floor = torch.finfo(scores.dtype).min
        return scores.masked_fill_(hidden, floor).softmax(-1).masked_fill_(hidden, 0.0)


class _Gradients:
    """The gradients of a, b and w, summed over the chunks."""

    def __init__(self, pairs: _Pairs) -> None:
        self.pairs = pairs
        self.a, self.b, self.w = (torch.zeros_like(x) for x in (pairs.a, pairs.b, pairs.w))
        self.total = pairs.w.new_zeros(len(pairs.w))

    def add(self, chunk: _Chunk, pairs: Tensor, grad: Tensor) -> None:
        """Of the scores' gradient `grad` (sentences, queries, keys); overwrites `pairs`."""
        head, sentences, queries, keys = chunk
        self.w[head].addmv_(pairs.view(-1, pairs.shape[-1]).t(), grad.reshape(-1))
        self.total[head] += grad.sum()
        # The derivative of tanh is 1 − tanh², or in r: 4 (r − r²).
        base = pairs if self.pairs.by_exponentials else self.pairs.one
        torch.addcmul(base, pairs, pairs, value=-1.0, out=pairs)
        pairs.mul_(grad[..., None])
        torch.sum(pairs, dim=2, out=self.a[sentences, head, queries])
        self.b[sentences, head, :keys] += pairs.sum(1)

    def all(self) -> tuple[Tensor, Tensor, Tensor]:
        """Of a, b and w."""
        w, slope = self.w, self.pairs.w
        if self.pairs.by_exponentials:
            w, slope = self.total[:, None] - 2.0 * w, 4.0 * slope
        return self.a.mul_(slope[:, None]), self.b.mul_(slope[:, None]), w


class _AdditiveScores(torch.autograd.Function):
    """See `additive_scores`."""

    @staticmethod
    def forward(ctx: Any, a: Tensor, b: Tensor, w: Tensor) -> Tensor:
        ctx.save_for_backward(a, b, w)
        out = a.new_empty((*a.shape[:3], b.shape[2]))
        with torch.autocast(a.device.type, enabled=False):
            pairs = _Pairs(a, b, w)
            for chunk in pairs.chunks:
                out[chunk.sentences, chunk.head, chunk.queries] = pairs.scores(chunk, pairs.fill(chunk))
        return out

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:
        with torch.autocast(grads[0].device.type, enabled=False):
            pairs = _Pairs(*ctx.saved_tensors)
            sums = _Gradients(pairs)
            for chunk in pairs.chunks:
                grad = grads[0][chunk.sentences, chunk.head, chunk.queries]
                sums.add(chunk, pairs.fill(chunk), grad)
            return sums.all()


class _AdditiveAttention(torch.autograd.Function):
    """See `additive_attention`."""

    @staticmethod
    def forward(ctx: Any, a: Tensor, b: Tensor, w: Tensor, values: Tensor, mask: Tensor | None) -> Tensor:
        ctx.save_for_backward(a, b, w, values, mask)
        out = values.new_empty((*a.shape[:3], values.shape[3]))
        with torch.autocast(a.device.type, enabled=False):
            pairs = _Pairs(a, b, w, mask)
            for chunk in pairs.chunks:
                head, sentences, queries, keys = chunk
                weights = pairs.weights(chunk, pairs.fill(chunk))
                out[sentences, head, queries] = weights @ values[sentences, head, :keys]
        return out

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:
        a, b, w, values, mask = ctx.saved_tensors
        grad_values = torch.zeros_like(values)
        with torch.autocast(a.device.type, enabled=False):
            pairs = _Pairs(a, b, w, mask)
            sums = _Gradients(pairs)
            for chunk in pairs.chunks:
                head, sentences, queries, keys = chunk
                filled, grad = pairs.fill(chunk), grads[0][sentences, head, queries]
                weights = pairs.weights(chunk, filled)
                grad_values[sentences, head, :keys] += weights.transpose(1, 2) @ grad
                back = (grad @ values[sentences, head, :keys].transpose(1, 2)).mul_(weights)
                back.addcmul_(weights, back.sum(-1, keepdim=True), value=-1.0)
                sums.add(chunk, filled, back)
            return *sums.all(), grad_values, None


def _exact(*tensors: Tensor) -> list[Tensor]:
    """Half precision as fp32."""
    return [x if x.dtype == torch.float64 else x.float() for x in tensors]


def additive_scores(a: Tensor, b: Tensor, w: Tensor) -> Tensor:
    """``out[…, t, s] = Σ_i w_i tanh(a_ti + b_si)`` for each sentence and head.

    Half precision is computed in fp32 inside, also under autocast.

    Args:
        a: (B, H, T, d_a); b: (B, H, S, d_a); w: (H, d_a).

    Returns:
        (B, H, T, S) in the type of `a`.
    """
    out: Tensor = _AdditiveScores.apply(*_exact(a, b, w))  # type: ignore[no-untyped-call]
    return out.to(a.dtype)


def additive_attention(a: Tensor, b: Tensor, w: Tensor, values: Tensor, mask: Tensor | None) -> Tensor:
    """``softmax(additive_scores(a, b, w)) V`` over the keys that may be attended.

    Half precision is computed in fp32 inside, also under autocast.

    Args:
        a: (B, H, T, d_a); b: (B, H, S, d_a); w: (H, d_a).
        values: (B, H, S, C).
        mask: bool, broadcastable to (B, H, T, S), True = may be attended; None = all may. A row without
            any True gives zeros.

    Returns:
        (B, H, T, C) in the type of `values`.
    """
    out: Tensor = _AdditiveAttention.apply(*_exact(a, b, w, values), mask)  # type: ignore[no-untyped-call]
    return out.to(values.dtype)
