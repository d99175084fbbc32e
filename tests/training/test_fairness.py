"""Runs that differ in their attention alone: the same batches, the same start, sizes that match."""

from __future__ import annotations

import hashlib
import itertools
import re
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from mt.attention import scores
from mt.attention.scores import Dot
from mt.config.schema import AttentionConfig, ModelConfig, ScopeKind, ScoreKind
from mt.data.batches import BatchLoader
from mt.data.store import TokenStore
from mt.errors import ConfigError
from mt.models.build import MATCHED_WITHIN, build_model
from mt.models.seq2seq import parameter_count
from mt.training.randomness import seed_weights

GLOBAL = ScopeKind["global"]
OWN = re.compile(r"\.(score|scope)\.")
KINDS = [kind for kind in ScoreKind if kind in scores.SCORES]


class Bilinear(Dot):
    """A score with weights of its own, which are drawn while the model is built."""

    def __init__(self, heads: int, size: int, *rest: Any, **more: Any) -> None:
        super().__init__(heads, size, *rest, **more)
        self.weight = torch.nn.Parameter(torch.randn(heads, size, size))


def shape(**changes: Any) -> ModelConfig:
    values: dict[str, Any] = {
        "width": 32, "heads": 2, "ffn_width": 48, "encoder_layers": 2, "decoder_layers": 2,
        "max_positions": 32,
    }  # fmt: skip
    return ModelConfig(**{**values, **changes})


def start(kind: ScoreKind, scope: ScopeKind = GLOBAL, **changes: Any) -> dict[str, Tensor]:
    seed_weights(3)
    attention = AttentionConfig(score=kind, scope=scope)
    model = build_model(shape(**changes), attention, 50, 50)
    return {name: tensor.clone() for name, tensor in model.state_dict().items()}


def digest(tensors: dict[str, Tensor], names: set[str]) -> str:
    found = hashlib.sha256()
    for name in sorted(names):
        found.update(name.encode() + tensors[name].contiguous().numpy().tobytes())
    return found.hexdigest()


def shared(one: dict[str, Tensor], other: dict[str, Tensor]) -> set[str]:
    return {name for name in one.keys() & other.keys() if not OWN.search(name)}


@pytest.mark.parametrize("kind", KINDS)
def test_all_scores_start_from_the_same_shared_values(kind: ScoreKind) -> None:
    one, other = start(ScoreKind.scaled_dot), start(kind)
    names = shared(one, other)
    assert names == {name for name in one if not OWN.search(name)}
    assert digest(one, names) == digest(other, names)


@pytest.mark.parametrize("scope", ScopeKind)
def test_all_scopes_start_from_the_same_shared_values(scope: ScopeKind) -> None:
    one, other = start(ScoreKind.general), start(ScoreKind.general, scope)
    names = one.keys() & other.keys()
    assert names == one.keys()
    assert digest(one, set(names)) == digest(other, set(names))


def test_a_score_that_draws_weights_changes_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    one = start(ScoreKind.dot)
    monkeypatch.setitem(scores.SCORES, ScoreKind.dot, Bilinear)
    other = start(ScoreKind.dot)
    own = [tensor for name, tensor in other.items() if name.endswith("score.weight")]
    assert len(own) == 6
    assert digest(one, shared(one, other)) == digest(other, shared(one, other))
    # And its own values are those of no other score in the model, and follow from the seed.
    assert all(not torch.equal(first, second) for first, second in itertools.combinations(own, 2))
    assert digest(other, set(other)) == digest(start(ScoreKind.dot), set(other))


def test_all_cells_see_the_same_batches() -> None:
    lengths = [3 + n * 7 % 11 for n in range(400)]
    store = TokenStore.of([[5] * n for n in lengths], [[6] * (n + n % 3) for n in lengths])
    found = []
    for kind in KINDS[:2]:
        start(kind)
        loader = BatchLoader(store, batch_tokens=64, seed=1, epoch=0, position=0, prefetch_batches=0)
        one = hashlib.sha256()
        with loader:
            for epoch, position, batch in itertools.islice(iter(loader), 1000):
                one.update(f"{epoch} {position}".encode())
                for tensor in (batch.source, batch.target_input, batch.target_output):
                    one.update(tensor.numpy().tobytes())
        found.append(one.hexdigest())
    assert found[0] == found[1]


@pytest.mark.parametrize("target", [36_000, 45_678, 60_000])
def test_parameters_are_matched(target: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(scores.SCORES, ScoreKind.dot, Bilinear)
    for kind in (ScoreKind.scaled_dot, ScoreKind.dot):
        model = build_model(shape(match_parameters=target), AttentionConfig(score=kind), 50, 50)
        assert abs(parameter_count(model) - target) <= MATCHED_WITHIN * target
    # What is not as wide in both starts the same in both.
    one = start(ScoreKind.scaled_dot, match_parameters=target)
    other = start(ScoreKind.dot, match_parameters=target)
    names = {name for name in shared(one, other) if "feed_forward." not in name or "outer.bias" in name}
    same = {name for name in names if "outer.bias" not in name}
    assert digest(one, same) == digest(other, same)
    wide = "encoder.0.feed_forward.inner.weight"
    assert one[wide].shape != other[wide].shape


@pytest.mark.parametrize("target", [100, 9_000])
def test_what_cannot_be_matched_is_refused(target: int) -> None:
    with pytest.raises(
        ConfigError, match=rf"model.match_parameters={target}: the nearest possible number is [\d,]+"
    ):
        build_model(
            shape(match_parameters=target, encoder_layers=1, decoder_layers=1), AttentionConfig(), 50, 50
        )


def test_matching_draws_nothing(tmp_path: Path) -> None:
    torch.manual_seed(0)
    build_model(shape(ffn_width=11, match_parameters=None), AttentionConfig(), 50, 50)
    torch.manual_seed(0)
    before = torch.random.get_rng_state()
    with pytest.raises(ConfigError):
        build_model(shape(match_parameters=1), AttentionConfig(), 50, 50)
    assert torch.equal(before, torch.random.get_rng_state())
