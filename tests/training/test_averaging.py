"""Averages against sums written out by hand."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from torch import nn

from mt.errors import CheckpointError
from mt.training.averaging import Ema, average_files


def test_ema_is_the_recurrence() -> None:
    model = nn.Linear(2, 1, bias=False)
    ema = Ema(model, decay=0.5)
    expected = model.weight.detach().clone()
    for step in range(1, 12):
        with torch.no_grad():
            model.weight.add_(step)
        ema.update(step)
        decay = min(0.5, (1 + step) / (10 + step))
        expected = decay * expected + (1 - decay) * model.weight.detach()
    torch.testing.assert_close(ema.average["weight"], expected)


def test_ema_is_applied_and_taken_back_bit_for_bit_even_after_an_error() -> None:
    model = nn.Linear(3, 3)
    ema = Ema(model, decay=0.9)
    with torch.no_grad():
        model.weight.mul_(3)
    ema.update(1)
    own = model.weight.detach().clone()
    with pytest.raises(RuntimeError), ema.applied():
        assert torch.equal(model.weight, ema.average["weight"])
        assert not torch.equal(model.weight, own)
        raise RuntimeError
    assert torch.equal(model.weight, own)


def test_ema_keeps_a_tie() -> None:
    model = nn.ModuleList([nn.Linear(2, 2, bias=False), nn.Linear(2, 2, bias=False)])
    model[1].weight = model[0].weight
    ema = Ema(model, decay=0.9)
    assert list(ema.average) == ["0.weight"]
    with ema.applied():
        assert model[0].weight is model[1].weight


def test_mean_of_files(tmp_path: Path) -> None:
    generator = torch.Generator().manual_seed(0)
    made = [{"w": torch.randn(4, 3, generator=generator)} for _ in range(3)]
    for number, tensors in enumerate(made):
        save_file(tensors, tmp_path / f"{number}.safetensors")
    got = average_files([tmp_path / f"{number}.safetensors" for number in range(3)])
    expected = torch.stack([t["w"].double() for t in made]).mean(0).float()
    assert torch.equal(got["w"], expected)


def test_files_that_do_not_match_are_refused(tmp_path: Path) -> None:
    save_file({"w": torch.zeros(2)}, tmp_path / "a.safetensors")
    save_file({"w": torch.zeros(3)}, tmp_path / "b.safetensors")
    with pytest.raises(CheckpointError, match="cannot be averaged"):
        average_files([tmp_path / "a.safetensors", tmp_path / "b.safetensors"])
