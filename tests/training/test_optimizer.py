"""The update rule: who decays, clipping, and the state's way to disk and back."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from mt.config.schema import OptimizerConfig, OptimizerKind
from mt.errors import CheckpointError
from mt.training.optimizer import Updater


def network() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 4), nn.LayerNorm(4), nn.Linear(4, 2))


def push(model: nn.Module, updater: Updater, rate: float = 0.1) -> None:
    updater.clear()
    model(torch.arange(6.0).view(2, 3)).square().sum().backward()
    updater.set_rate(rate)
    updater.optimizer.step()


def test_biases_and_norms_never_decay() -> None:
    model = network()
    updater = Updater(model, OptimizerConfig(weight_decay=0.5))
    before = {name: p.detach().clone() for name, p in model.named_parameters()}
    for parameter in updater.parameters:
        parameter.grad = torch.zeros_like(parameter)  # so that only the decay moves a weight
    updater.set_rate(0.1)
    updater.optimizer.step()
    for name, parameter in model.named_parameters():
        expected = before[name] * (1 - 0.1 * 0.5) if parameter.ndim == 2 else before[name]
        torch.testing.assert_close(parameter.detach(), expected)


def test_adam_by_hand() -> None:
    """One update of Adam from zero moments is the rate times the sign of the gradient, for eps near 0."""
    model = nn.Linear(2, 1, bias=False)
    before = model.weight.detach().clone()
    updater = Updater(model, OptimizerConfig(kind=OptimizerKind.adam, eps=1e-30))
    model.weight.grad = torch.tensor([[3.0, -0.01]])
    updater.set_rate(0.1)
    updater.optimizer.step()
    torch.testing.assert_close(before - model.weight.detach(), torch.tensor([[0.1, -0.1]]))


def test_adadelta_by_hand() -> None:
    """Zeiler 2012, algorithm 1: two updates with their running averages of squares."""
    rho, eps, weight = 0.9, 1e-3, 2.0
    model = nn.Linear(1, 1, bias=False)
    nn.init.constant_(model.weight, weight)
    updater = Updater(model, OptimizerConfig(kind=OptimizerKind.adadelta, rho=rho, eps=eps))
    squares = moves = 0.0
    for gradient in (3.0, -1.0):
        model.weight.grad = torch.tensor([[gradient]])
        updater.set_rate(0.5)
        updater.optimizer.step()
        squares = rho * squares + (1 - rho) * gradient**2
        move = ((moves + eps) / (squares + eps)) ** 0.5 * gradient
        moves = rho * moves + (1 - rho) * move**2
        weight -= 0.5 * move
        assert model.weight.item() == pytest.approx(weight, rel=1e-6)


def test_sgd_is_the_rate_times_the_gradient() -> None:
    model = nn.Linear(2, 1, bias=False)
    before = model.weight.detach().clone()
    updater = Updater(model, OptimizerConfig(kind=OptimizerKind.sgd))
    for _ in range(2):
        model.weight.grad = torch.tensor([[3.0, -0.5]])
        updater.set_rate(0.1)
        updater.optimizer.step()
    torch.testing.assert_close(before - model.weight.detach(), torch.tensor([[0.6, -0.1]]))


def test_clipping_keeps_the_direction_and_leaves_small_gradients_alone() -> None:
    model = nn.Linear(2, 1, bias=False)
    updater = Updater(model, OptimizerConfig())
    model.weight.grad = torch.tensor([[3.0, 4.0]])
    norm = updater.gradient_norm()
    assert float(norm) == pytest.approx(5.0)
    updater.clip(10.0, norm)
    torch.testing.assert_close(model.weight.grad, torch.tensor([[3.0, 4.0]]))
    updater.clip(1.0, norm)
    torch.testing.assert_close(model.weight.grad, torch.tensor([[0.6, 0.8]]))


@pytest.mark.parametrize("kind", list(OptimizerKind))
def test_state_goes_to_names_and_back_bit_for_bit(kind: OptimizerKind) -> None:
    config = OptimizerConfig(kind=kind, weight_decay=0.1)
    model, other = network(), network()
    updater, second = Updater(model, config), Updater(other, config)
    for _ in range(3):
        push(model, updater)
    other.load_state_dict(model.state_dict())
    second.load({name: t.clone() for name, t in updater.tensors().items()})
    for _ in range(3):
        push(model, updater)
        push(other, second)
    for a, b in zip(model.parameters(), other.parameters(), strict=True):
        assert torch.equal(a, b)


def test_a_state_that_does_not_fit_is_refused() -> None:
    model = network()
    updater = Updater(model, OptimizerConfig())
    push(model, updater)
    tensors = updater.tensors()
    missing = {name: t for name, t in tensors.items() if name != "exp_avg.0.weight"}
    with pytest.raises(CheckpointError, match=r"exp_avg of 0\.weight"):
        Updater(network(), OptimizerConfig()).load(missing)
    with pytest.raises(CheckpointError, match="shape"):
        Updater(network(), OptimizerConfig()).load({**tensors, "exp_avg.0.weight": torch.zeros(2, 2)})


def test_a_tied_matrix_is_one_parameter() -> None:
    model = nn.ModuleList([nn.Linear(3, 3, bias=False), nn.Linear(3, 3, bias=False)])
    model[1].weight = model[0].weight
    assert Updater(model, OptimizerConfig()).names == ["0.weight"]
