"""From scores to a context: the one masked softmax of the project.

Masks are boolean, True = may be attended. A row without any True gives zeros, never NaN, forward and
backward, in every dtype.

Shapes: B batch, H heads, T queries, S keys, Dq size of a query, C size of a value.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from mt.attention.scores import Score
from mt.kernels.dropout import dropout


class _MaskedSoftmax(torch.autograd.Function):
    """softmax over the keys that are not hidden; keeps one (B, H, T, S) tensor for backward, not three."""

    @staticmethod
    def forward(ctx: Any, scores: Tensor, hidden: Tensor) -> Tensor:
        # A finite floor instead of -inf: a row without any key stays finite, and is zeroed after.
        floor = torch.finfo(scores.dtype).min
        weights = scores.masked_fill(hidden, floor).softmax(-1).masked_fill_(hidden, 0.0)
        ctx.save_for_backward(weights)
        return weights

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:
        (weights,) = ctx.saved_tensors
        grad = grads[0] * weights
        return grad.addcmul_(weights, grad.sum(-1, keepdim=True), value=-1.0), None


def attend(
    scores: Tensor,
    values: Tensor,
    mask: Tensor | None,
    *,
    factor: Tensor | None = None,
    dropout_probability: float = 0.0,
) -> tuple[Tensor, Tensor]:
    """``softmax(scores) V`` over the keys that may be attended.

    Args:
        scores: (B, H, T, S).
        values: (B, H, S, C).
        mask: bool, broadcastable to (B, H, T, S), True = may be attended; None = all may.
        factor: broadcastable to (B, H, T, S); the weights are multiplied by it after the softmax and
            need not sum to 1 then (the window of `mt.attention.scopes`).
        dropout_probability: dropout on the weights; pass 0 outside training.

    Returns:
        context (B, H, T, C) and weights (B, H, T, S); the weights are those before dropout.
    """
    used, weights = attention_weights(scores, mask, factor=factor, dropout_probability=dropout_probability)
    return used @ values, weights


def attention_weights(
    scores: Tensor, mask: Tensor | None, *, factor: Tensor | None = None, dropout_probability: float = 0.0
) -> tuple[Tensor, Tensor]:
    """The softmax of `attend` without the sum over values: weights (B, H, T, S) after and before dropout."""
    weights: Tensor
    if mask is None:
        weights = scores.softmax(-1)
    else:
        weights = _MaskedSoftmax.apply(scores, ~mask)  # type: ignore[no-untyped-call]
    if factor is not None:
        weights = weights * factor
    used = dropout(weights, dropout_probability, training=dropout_probability > 0.0)
    return used, weights


# Below this many scores per head and sentence two batched products beat the fused kernels on a CPU
# (measured: 16 x 16 takes PyTorch's 2.6 times as long, the additive one 1.3 times).
_FUSED_FROM = 128 * 128


def attend_by_score(
    score: Score,
    query: Tensor,
    prepared: Tensor,
    values: Tensor,
    mask: Tensor | None,
    *,
    factor: Tensor | None = None,
    dropout_probability: float = 0.0,
    with_weights: bool = False,
) -> tuple[Tensor, Tensor | None]:
    """`attend` on the scores of `query`, through a fused kernel where that is faster.

    Args:
        score: the score function.
        query: (B, H, T, Dq).
        prepared: ``score.prepare_keys(keys)``.
        values: (B, H, S, C).
        mask, factor: as in `attend`.
        with_weights: whether the weights are wanted (the fused kernels do not give them).

    Returns:
        context (B, H, T, C), and weights (B, H, T, S) if `with_weights`.
    """
    if factor is None and not with_weights:
        context = _without_weights(score, query, prepared, values, mask, dropout_probability)
        if context is not None:
            return context, None
    context, weights = attend(
        score(query, prepared), values, mask, factor=factor, dropout_probability=dropout_probability
    )
    return context, weights if with_weights else None


def _without_weights(
    score: Score,
    query: Tensor,
    prepared: Tensor,
    values: Tensor,
    mask: Tensor | None,
    dropout_probability: float,
) -> Tensor | None:
    """The context by a kernel that makes no (B, H, T, S) tensor; None where there is none that is faster."""
    if query.device.type == "cpu" and query.shape[-2] * prepared.shape[-2] < _FUSED_FROM:
        return None
    if score.scale is None:
        return score.context(query, prepared, values, mask) if dropout_probability == 0.0 else None
    context = F.scaled_dot_product_attention(
        query, prepared, values, attn_mask=mask, dropout_p=dropout_probability, scale=score.scale
    )
    return context if mask is None else context.masked_fill(~mask.any(-1, keepdim=True), 0.0)
