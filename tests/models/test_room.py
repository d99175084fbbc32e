"""A model that cannot fit is refused before any of it is there."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path
from typing import Any

import pytest
import torch

from mt.config.schema import (
    AttentionConfig,
    Heads,
    ModelConfig,
    ModelKind,
    OptimizerConfig,
    OptimizerKind,
    Positions,
    RnnConfig,
    ScoreKind,
    TieEmbeddings,
)
from mt.errors import ConfigError
from mt.models import build, room
from mt.models.build import build_model, size_of
from mt.models.room import move
from mt.models.seq2seq import parameter_count
from mt.train import run
from mt.training.optimizer import Updater
from tests.training.world import small

SMALL = ModelConfig(width=8, heads=2, ffn_width=16, encoder_layers=1, decoder_layers=1, max_positions=20)
CPU = torch.device("cpu")


def free(monkeypatch: pytest.MonkeyPatch, memory: int | None) -> None:
    """Let so many bytes be free."""
    for module in (room, build):
        monkeypatch.setattr(module, "free_bytes", lambda device: memory)


@pytest.mark.parametrize("heads", Heads)
@pytest.mark.parametrize("score", [ScoreKind.additive, ScoreKind.general, ScoreKind.location])
@pytest.mark.parametrize("layers", [(1, 1), (2, 2), (3, 1), (1, 4), (5, 6)])
@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"positions": Positions.learned, "tie_embeddings": TieEmbeddings.none},
        {"kind": ModelKind.rnn, "rnn": RnnConfig(encoder_width=4)},
        {"kind": ModelKind.rnn, "rnn": RnnConfig(embedding_width=6, encoder_width=5, readout_width=6)},
    ],
)
def test_the_size_is_known_without_the_model(
    layers: tuple[int, int], changes: dict[str, Any], score: ScoreKind, heads: Heads
) -> None:
    shape = dataclasses.replace(SMALL, encoder_layers=layers[0], decoder_layers=layers[1], **changes)
    attention = AttentionConfig(score=score, heads=heads)
    before = torch.random.get_rng_state()
    parameters, needed = size_of(shape, attention, 30, 30)
    assert torch.equal(before, torch.random.get_rng_state())
    model = build_model(shape, attention, 30, 30)
    assert parameters == parameter_count(model)
    tensors = [*model.parameters(), *model.buffers()]
    assert needed == sum(tensor.numel() * tensor.element_size() for tensor in tensors)
    assert needed < build._at_most(shape, attention, 30, 30)


def test_what_surely_fits_is_not_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    """For it would take a second of every command that loads a model."""
    monkeypatch.setattr(build, "size_of", lambda *_: pytest.fail("there is room enough"))
    monkeypatch.setattr(build, "free_bytes", lambda device: 4 * 10**9)
    build_model(ModelConfig(), AttentionConfig(), 8000, 8000)


@pytest.mark.parametrize(
    "changes",
    [
        {"width": 2**20, "heads": 1},
        {"width": 2**20, "kind": ModelKind.rnn, "rnn": RnnConfig(encoder_width=2**19)},
        {"ffn_width": 2**20, "width": 2**16, "encoder_layers": 1000},
        {"max_positions": 2**20, "positions": Positions.learned, "width": 2**20},
    ],
)
def test_what_no_machine_can_hold_is_refused_at_once(changes: dict[str, Any]) -> None:
    with pytest.raises(ConfigError) as caught:
        build_model(dataclasses.replace(SMALL, **changes), AttentionConfig(), 30, 30)
    said = r"a model of [\d,]+ parameters takes [\d,]+\.\d GB of memory, and [\d,]+\.\d GB are free on cpu; "
    assert re.match(said + "lower model.width", str(caught.value))


def test_it_is_refused_before_the_data_is_read(tmp_path: Path) -> None:
    """The files are not there, and no run folder is left behind for a model that can never be."""
    config = small(model__width=2**20, model__heads=1, run=str(tmp_path / "run"))
    with pytest.raises(ConfigError, match=r"a model of more than [\d,]+ parameters takes"):
        run(config)
    assert not (tmp_path / "run").exists()


def test_what_is_free_decides(monkeypatch: pytest.MonkeyPatch) -> None:
    needed = size_of(SMALL, AttentionConfig(), 30, 30)[1]
    free(monkeypatch, needed - 1)
    with pytest.raises(ConfigError, match="lower model"):
        build_model(SMALL, AttentionConfig(), 30, 30)
    free(monkeypatch, needed)
    build_model(SMALL, AttentionConfig(), 30, 30)
    free(monkeypatch, None)  # not known here
    build_model(SMALL, AttentionConfig(), 30, 30)


def test_a_device_too_small_for_the_weights_is_told_with_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    model, elsewhere = build_model(SMALL, AttentionConfig(), 9, 9), torch.device("meta")
    free(monkeypatch, 4 * parameter_count(model) - 1)
    with pytest.raises(ConfigError, match="are free on meta; lower model"):
        move(model, elsewhere)
    move(model, CPU)  # where it is already
    free(monkeypatch, 4 * parameter_count(model))
    move(model, elsewhere)
    assert model.source_embedding.weight.device == elsewhere


@pytest.mark.parametrize(
    ("kind", "least", "most"),
    [
        (OptimizerKind.adamw, 3, 3),
        (OptimizerKind.adadelta, 3, 3),
        (OptimizerKind.sgd, 1, 1),
        (OptimizerKind.muon, 2, 3),  # one momentum for the matrices, two moments for the rest
    ],
)
def test_gradient_and_moments_need_room_too(
    kind: OptimizerKind, least: int, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    shape = dataclasses.replace(SMALL, encoder_layers=4, decoder_layers=4)
    model = build_model(shape, AttentionConfig(), 9, 9)
    weights = 4 * parameter_count(model)
    free(monkeypatch, least * weights - 1)
    with pytest.raises(ConfigError, match=r"to train [\d,]+ parameters takes another 0\.0 GB of memory"):
        Updater(model, OptimizerConfig(kind=kind))
    free(monkeypatch, most * weights)
    Updater(model, OptimizerConfig(kind=kind))


def test_free_memory_is_a_number_and_no_more_than_a_container_may_use(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    meminfo, limit = tmp_path / "meminfo", tmp_path / "memory.max"
    monkeypatch.setattr(room, "_MEMINFO", meminfo)
    monkeypatch.setattr(room, "_LIMITS", (limit,))
    meminfo.write_text("MemTotal: 90 kB\nMemAvailable: 50 kB\nSwapFree: 7 kB\n", encoding="ascii")
    assert room.free_bytes(CPU) == 57 * 1024
    limit.write_text("max\n", encoding="ascii")
    assert room.free_bytes(CPU) == 57 * 1024
    limit.write_text("1000\n", encoding="ascii")
    assert room.free_bytes(CPU) == 1000
    limit.unlink()
    meminfo.write_text("something else\n", encoding="ascii")
    known = room.free_bytes(CPU)  # all the memory there is, where only that is known
    assert known is None or known > 10**8
