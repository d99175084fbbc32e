"""Dropout: right rates and expectation, right gradients, seeded, off outside training."""

import pytest
import torch

from mt.kernels.dropout import Dropout, dropout


@pytest.mark.parametrize("probability", [0.1, 0.5, 0.001, 0.999])
def test_rate_and_expectation(probability):
    torch.manual_seed(0)
    x = torch.ones(2000, 501)
    y = dropout(x, probability, training=True)
    rounded = min(max(round(probability * 256), 1), 255) / 256
    assert (y == 0).float().mean().item() == pytest.approx(rounded, abs=0.003)
    kept = y[y != 0]
    torch.testing.assert_close(kept, torch.full_like(kept, 1 / (1 - rounded)))


def test_gradient_passes_exactly_where_values_did():
    torch.manual_seed(0)
    x = torch.randn(50, 33, requires_grad=True)
    y = dropout(x, 0.3, training=True)
    y.sum().backward()
    torch.testing.assert_close(x.grad * x.detach(), y.detach())


def test_add_equals_residual_plus_dropout():
    layer = Dropout(0.3)
    residual, branch = torch.randn(40, 16, requires_grad=True), torch.randn(40, 16, requires_grad=True)
    torch.manual_seed(5)
    total = layer.add(residual, branch)
    torch.manual_seed(5)
    expected = residual + layer(branch)
    torch.testing.assert_close(total, expected)
    weight = torch.randn(40, 16)
    got = torch.autograd.grad((total * weight).sum(), (residual, branch))
    right = torch.autograd.grad((expected * weight).sum(), (residual, branch))
    for value, other in zip(got, right, strict=True):
        torch.testing.assert_close(value, other)


def test_seeded_and_different_between_calls():
    x = torch.ones(1000)
    torch.manual_seed(3)
    first, second = dropout(x, 0.5, True), dropout(x, 0.5, True)
    torch.manual_seed(3)
    assert torch.equal(first, dropout(x, 0.5, True))
    assert not torch.equal(first, second)


def test_identity_outside_training_and_at_zero():
    x = torch.randn(5, 5)
    assert dropout(x, 0.5, training=False) is x
    assert dropout(x, 0.0, training=True) is x
    layer = Dropout(0.5).eval()
    assert torch.equal(layer.add(x, x), x + x)
