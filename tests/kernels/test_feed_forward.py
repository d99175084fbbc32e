"""The fused feed-forward layer computes what two `Linear` and a relu compute, up to bf16's rounding."""

import pytest
import torch

from mt.config.schema import Activation, ModelConfig, Precision
from mt.kernels.linear import set_precision
from mt.models import transformer
from mt.models.transformer import FeedForward


def layer(**changes: object) -> FeedForward:
    torch.manual_seed(0)
    made = FeedForward(ModelConfig(width=32, ffn_width=64, **changes))  # type: ignore[arg-type]
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.normal_(std=0.2)
    set_precision(made, Precision.bf16)
    return made


def values_and_gradients(made: FeedForward, rows: int) -> list[torch.Tensor]:
    torch.manual_seed(1)
    x = torch.randn(rows, 32).to(next(made.parameters()).dtype).requires_grad_()
    y = made(x)
    y.backward(torch.randn(rows, 32).to(y.dtype))
    return [y.detach(), x.grad, *(parameter.grad for parameter in made.parameters())]  # type: ignore[list-item]


@pytest.mark.parametrize("rows", [1, 31, 32, 45])
def test_values_and_gradients_are_those_of_exact_arithmetic(rows: int) -> None:
    exact = values_and_gradients(layer().double(), rows)
    for fused, right in zip(values_and_gradients(layer(), rows), exact, strict=True):
        assert fused.dtype == torch.float32
        error = (fused - right).norm() / right.norm()
        assert error < 0.02  # bf16 keeps 8 bits


@pytest.mark.parametrize(
    ("changes", "training", "fused"),
    [
        ({}, True, True),
        ({"activation": Activation.gelu}, True, False),
        ({"activation_dropout": 0.5}, True, False),
        ({"activation_dropout": 0.5}, False, True),
    ],
)
def test_it_is_used_where_it_computes_the_same(
    changes: dict[str, object], training: bool, fused: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    used: list[bool] = []

    def spy(rows: torch.Tensor, *_: object) -> torch.Tensor:
        used.append(True)
        return rows

    monkeypatch.setattr(transformer, "feed_forward", spy)
    layer(**changes).train(training)(torch.zeros(3, 32))
    assert bool(used) == fused


def test_fp32_and_other_formats_take_the_plain_way(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transformer, "feed_forward", None)
    made = layer()
    made.double()(torch.zeros(3, 32, dtype=torch.float64))
    made = layer()
    set_precision(made, Precision.fp32)
    made(torch.zeros(3, 32))
