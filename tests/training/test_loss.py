"""The fused loss equals PyTorch's cross-entropy, values and gradients."""

import pytest
import torch
from torch.nn import functional as F

from mt.training import loss as module
from mt.training.loss import label_smoothed_loss

N, D, V = 37, 8, 21


def _inputs(dtype=torch.float64, scale=1.0):
    torch.manual_seed(0)
    hidden = (torch.randn(N, D, dtype=dtype) * scale).requires_grad_()
    weight = torch.randn(V, D, dtype=dtype).requires_grad_()
    bias = torch.randn(V, dtype=dtype).requires_grad_()
    return hidden, weight, bias, torch.randint(0, V, (N,))


@pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.7])
@pytest.mark.parametrize("with_bias", [False, True])
@pytest.mark.parametrize("rows", [1, 10, 1000])
def test_equals_torch(smoothing, with_bias, rows, monkeypatch):
    monkeypatch.setattr(module, "_ROWS", rows)
    hidden, weight, bias, targets = _inputs()
    leaves = (hidden, weight, bias) if with_bias else (hidden, weight)
    loss, nll = label_smoothed_loss(hidden, weight, bias if with_bias else None, targets, smoothing)
    logits = F.linear(hidden, weight, bias if with_bias else None)
    expected = F.cross_entropy(logits, targets, label_smoothing=smoothing, reduction="sum")
    torch.testing.assert_close(loss, expected)
    torch.testing.assert_close(nll, F.cross_entropy(logits, targets, reduction="sum").detach())
    got = torch.autograd.grad(loss * 0.3, leaves)
    right = torch.autograd.grad(expected * 0.3, leaves)
    for value, other in zip(got, right, strict=True):
        torch.testing.assert_close(value, other)


def test_certain_mistakes_stay_finite_and_exact():
    """A right piece 1,000 below the best underflows the softmax; its loss is still 1,000."""
    hidden, weight, _, targets = _inputs(torch.float32, scale=300.0)
    loss, nll = label_smoothed_loss(hidden, weight, None, targets, 0.1)
    logits = hidden @ weight.t()
    torch.testing.assert_close(nll, F.cross_entropy(logits, targets, reduction="sum").detach())
    torch.testing.assert_close(loss, F.cross_entropy(logits, targets, label_smoothing=0.1, reduction="sum"))
    assert torch.isfinite(loss)


def test_without_gradients():
    hidden, weight, bias, targets = _inputs()
    with torch.no_grad():
        quiet, _ = label_smoothed_loss(hidden, weight, bias, targets, 0.1)
    loud, _ = label_smoothed_loss(hidden, weight, bias, targets, 0.1)
    torch.testing.assert_close(quiet, loud.detach())
    assert not quiet.requires_grad


def test_sum_does_not_depend_on_cuts():
    hidden, weight, bias, targets = _inputs()
    whole = label_smoothed_loss(hidden, weight, bias, targets, 0.1)[0]
    parts = [
        label_smoothed_loss(hidden[a:b], weight, bias, targets[a:b], 0.1)[0]
        for a, b in [(0, 5), (5, 6), (6, N)]
    ]
    torch.testing.assert_close(whole, sum(parts))
