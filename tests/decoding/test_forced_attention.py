"""Entropy, weight on the end, and links of planted attention."""

from __future__ import annotations

import json
import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from mt.data.tokenizer import Tokenizer
from mt.decoding import kept
from mt.decoding.forced_attention import ForcedAttention, forced_attention
from mt.decoding.loading import LoadedRun, load_run
from mt.evaluation.attention_numbers import attention_numbers
from tests.decoding.runs import SENTENCES, tiny_tokenizer, write_run


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return tiny_tokenizer(70)


class Planted:
    """Looks where `weights` says: (L, H, T, S) for T positions and the real ones of S."""

    max_positions = 48
    source_embedding = SimpleNamespace(weight=torch.zeros(1))

    def __init__(self, weights: Any) -> None:
        self.weights = weights

    def cross_attention(self, source: Tensor, mask: Tensor, target: Tensor) -> Tensor:
        found = torch.zeros(len(source), *self.weights(1, 1).shape[:2], target.shape[1], source.shape[1])
        for row, real in zip(found, mask.sum(1).tolist(), strict=True):
            row[..., :real] = self.weights(target.shape[1], real)
        return found


def diagonal(targets: int, sources: int) -> Tensor:
    """Position t looks at piece t."""
    return torch.eye(max(targets, sources))[:targets, :sources][None, None]


def read(weights: Any, tokenizer: Tokenizer, sources: list[str], references: list[str]) -> ForcedAttention:
    found = forced_attention(Planted(weights), tokenizer, sources, references)  # type: ignore[arg-type]
    assert found is not None
    return found


def gold(links: list[set[tuple[int, int]]]) -> SimpleNamespace:
    return SimpleNamespace(sure=links, possible=links)


def test_planted_links_have_no_error(tokenizer: Tokenizer) -> None:
    lines = [*SENTENCES, ""]
    found = read(diagonal, tokenizer, lines, lines)
    expected = [{(n, n) for n in range(len(line.split()))} for line in lines]
    assert [set(line) for line in found.model.links] == expected
    numbers = attention_numbers(found, gold(expected))
    assert numbers.aer == 0.0
    # One wrong link of the gold in every sentence: |A| = |S| = n, |A∩S| = |A∩P| = n - 1.
    wrong = [{(0, 1) if link == (0, 0) else link for link in line} for line in expected]
    words = sum(map(len, expected))
    shifted = attention_numbers(found, gold(wrong))
    assert shifted.aer == pytest.approx(1 - (words - len(SENTENCES)) / words)
    assert (found.model.entropy, found.model.entropy_share) == (0.0, 0.0)


def test_the_entropy_of_uniform_attention_is_that_of_the_number_of_pieces(tokenizer: Tokenizer) -> None:
    def uniform(targets: int, sources: int) -> Tensor:
        return torch.full((1, 2, targets, sources), 1 / sources)

    sources, references = ["the cat", "the cat sleeps on the mat"], ["a dog runs", "birds"]
    found = read(uniform, tokenizer, sources, references)
    columns = [len(ids) + 1 for ids in tokenizer.encode_source(sources)]
    rows = [len(ids) + 1 for ids in tokenizer.encode_target(references)]
    entropy = sum(r * math.log(c) for r, c in zip(rows, columns, strict=True)) / sum(rows)
    end = sum(r / c for r, c in zip(rows, columns, strict=True)) / sum(rows)
    assert found.model.entropy == pytest.approx(entropy, abs=1e-6)
    assert found.model.entropy_share == pytest.approx(1.0, abs=1e-6)
    assert found.model.end == pytest.approx(end, abs=1e-6)


def test_layers_are_told_apart_and_empty_rows_left_out(tokenizer: Tokenizer) -> None:
    def weights(targets: int, sources: int) -> Tensor:
        found = torch.zeros(2, 1, targets, sources)
        found[0, 0, :, -1] = 1.0  # the end alone
        found[1, 0, 0, :2] = 0.25  # as in a local scope: half of the weight, and nothing in later rows
        return found

    found = read(weights, tokenizer, ["the cat"], ["the cat"])
    first, second = found.layers
    assert (first.entropy, first.end) == (0.0, 1.0) and first.links == [[]]
    assert second.entropy == pytest.approx(math.log(2)) and second.end == 0.0
    assert second.links == [[(0, 0)]]
    assert found.model.entropy == pytest.approx(math.log(2) / 2) and found.model.end == 0.5


def test_a_model_without_attention_has_no_numbers(tokenizer: Tokenizer) -> None:
    def nothing(targets: int, sources: int) -> Tensor:
        return torch.zeros(1, 1, targets, sources)

    assert forced_attention(Planted(nothing), tokenizer, ["a"], ["a"]) is None  # type: ignore[arg-type]
    assert forced_attention(Planted(diagonal), tokenizer, [""], ["a"]) is None  # type: ignore[arg-type]


def test_entropy_of_a_model_by_the_formula(tmp_path: Path, tokenizer: Tokenizer) -> None:
    run = load_run(write_run(tmp_path / "A", tokenizer))
    found = forced_attention(run.model, run.tokenizer, SENTENCES[:1], SENTENCES[1:2])
    assert found is not None
    (source,), (target,) = tokenizer.encode_source(SENTENCES[:1]), tokenizer.encode_target(SENTENCES[1:2])
    ids = torch.tensor([[*source, 2]])
    p = run.model.cross_attention(ids, torch.ones_like(ids, dtype=torch.bool), torch.tensor([[1, *target]]))
    p = p.double()
    assert found.model.entropy == pytest.approx(float(-(p * p.log()).sum(-1).mean()), abs=1e-6)
    assert found.model.end == pytest.approx(float(p[..., -1].mean()), abs=1e-6)


def test_it_is_kept_in_the_run_s_folder(
    tmp_path: Path, tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = write_run(tmp_path / "A", tokenizer)

    def load() -> LoadedRun:
        return load_run(run)

    first = kept.attention_kept(run, SENTENCES, SENTENCES, load)
    (path,) = (run / "translations").glob("attention-*.json")

    def never(*_: Any) -> None:
        raise AssertionError("read again")

    monkeypatch.setattr(kept, "forced_attention", never)
    assert first == kept.attention_kept(run, SENTENCES, SENTENCES, load)
    assert first is not None and ForcedAttention.from_json(json.loads(json.dumps(first.to_json()))) == first
    assert np.isfinite(first.model.entropy)
    with pytest.raises(AssertionError, match="read again"):
        kept.attention_kept(run, SENTENCES, SENTENCES[::-1], load)
    for damage in ("", "{}", path.read_text("utf-8").replace('"cut": ', '"cuts": ')):
        path.write_text(damage, encoding="utf-8")
        with pytest.raises(AssertionError, match="read again"):
            kept.attention_kept(run, SENTENCES, SENTENCES, load)
