"""Label-smoothed cross-entropy (Szegedy et al. 2016, §7) fused with the output layer.

The usual way writes an (N, V) matrix of logits, its log-softmax and its gradient: 130 MB each at 4,096
tokens and 8,000 pieces, read and written a dozen times. Here rows are taken a few hundred at a time
and their gradient is formed while the logits are still in the cache, so that no (N, V) tensor exists
and the backward pass only scales what the forward pass left.

The smoothing mass is spread over the *whole* vocabulary, the right piece included, as PyTorch's
``cross_entropy(label_smoothing=…)`` does.

Shapes: N real target positions, D width, V vocabulary.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from mt.kernels.linear import is_cpu_fp32, multiply, rounded

# 512 x 8,000 logits and their softmax are 16 MB each. Measured on two cores with 32 MB of cache: 256 rows
# make products too flat (519 ms for 3,500 tokens), 512 to 5,000 take the same time (440 ms).
_ROWS = 512


class _LinearCrossEntropy(torch.autograd.Function):
    """hidden, weight, bias → (sum of smoothed losses, sum of negative log-likelihoods)."""

    @staticmethod
    def forward(
        ctx: Any,
        hidden: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        targets: Tensor,
        smoothing: float,
        low_precision: bool,
        wanted: tuple[bool, bool, bool],
    ) -> tuple[Tensor, Tensor]:
        size = weight.shape[0]
        low_precision = low_precision and is_cpu_fp32(hidden)
        matrix = weight.bfloat16() if low_precision else weight
        # Softmax and sums are kept in fp32 at least, whatever the format of the hidden states.
        wide = torch.promote_types(hidden.dtype, torch.float32)
        loss = hidden.new_zeros((), dtype=wide)
        nll = hidden.new_zeros((), dtype=wide)
        grad_hidden = torch.empty_like(hidden) if wanted[0] else None
        grad_weight = torch.zeros_like(weight) if wanted[1] else None
        grad_bias = torch.zeros_like(bias) if bias is not None and wanted[2] else None
        # Σ_v logits_v = h · Σ_v W_v + Σ_v b_v: a vector product instead of another pass over (rows, V).
        column_sum = weight.sum(0, dtype=wide)
        bias_sum = 0.0 if bias is None else bias.sum(dtype=wide)
        for start in range(0, hidden.shape[0], _ROWS):
            h = hidden[start : start + _ROWS]
            right = targets[start : start + _ROWS, None]
            operand = rounded(h, low_precision)
            logits = multiply(operand, matrix.t())[: len(h)].to(wide)
            if bias is not None:
                logits += bias
            probability = logits.softmax(-1)
            likelihood = probability.gather(1, right).squeeze(1)
            right_logit = logits.gather(1, right).squeeze(1)
            row_nll = -likelihood.log()
            # exp underflows 87 below the largest logit: those rows take the long way.
            tiny = likelihood < 1e-30
            if bool(tiny.any()):
                row_nll[tiny] = logits[tiny].logsumexp(-1) - right_logit[tiny]
            nll += row_nll.sum()
            if smoothing:
                # Σ_v q_v (lse - z_v), q = (1-ε) onehot + ε/V, lse = nll + z_right
                mean_logit = (h.to(wide) @ column_sum + bias_sum) / size
                uniform = row_nll + right_logit - mean_logit
                loss += ((1.0 - smoothing) * row_nll + smoothing * uniform).sum()
            if not any(wanted):
                continue
            # d loss / d logits = softmax - q, in place of the softmax
            probability.scatter_add_(1, right, probability.new_full(right.shape, smoothing - 1.0))
            if smoothing:
                probability -= smoothing / size
            probability = probability.to(hidden.dtype)
            grad = rounded(probability, low_precision)
            if grad_hidden is not None:
                grad_hidden[start : start + _ROWS] = multiply(grad, matrix)[: len(h)]
            if grad_weight is not None:
                grad_weight += multiply(grad.t(), operand)
            if grad_bias is not None:
                grad_bias += probability.sum(0)
        ctx.save_for_backward(grad_hidden, grad_weight, grad_bias)
        ctx.mark_non_differentiable(nll)
        return (loss if smoothing else nll.clone()), nll

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:
        scaled = [None if g is None else g * grads[0].to(g.dtype) for g in ctx.saved_tensors]
        return *scaled, None, None, None, None


def label_smoothed_loss(
    hidden: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    targets: Tensor,
    smoothing: float,
    *,
    low_precision: bool = False,
) -> tuple[Tensor, Tensor]:
    """Cross-entropy of the output layer's softmax, summed over positions.

    ``loss = Σ_n Σ_v q_nv (logsumexp(z_n) - z_nv)``, ``z = h Wᵀ + b``, ``q = (1-ε) onehot(target) + ε/V``.

    Args:
        hidden: (N, D) states that predict the targets.
        weight: (V, D) output matrix; bias: (V,) or None.
        targets: (N,) ids.
        smoothing: ε in [0, 1).
        low_precision: make the products in bf16 (CPU only; see `mt.kernels.linear`).

    Returns:
        The smoothed loss (differentiable once) and the plain negative log-likelihood in nats
        (detached), both sums: the trainer divides by the number of targets over all micro-batches.
    """
    on = torch.is_grad_enabled()
    wanted = (
        on and hidden.requires_grad,
        on and weight.requires_grad,
        on and bias is not None and bias.requires_grad,
    )
    loss, nll = _LinearCrossEntropy.apply(hidden, weight, bias, targets, smoothing, low_precision, wanted)  # type: ignore[no-untyped-call]
    return loss, nll
