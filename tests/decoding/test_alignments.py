"""Attention of a translation: rows are distributions, words are sums and means of their pieces."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from mt.config.schema import DecodingConfig
from mt.data.tokenizer import BOS, EOS
from mt.decoding.alignments import END, cross_attention, merge
from mt.decoding.loading import LoadedRun, load_run
from mt.decoding.translator import Translation, Translator
from tests.decoding.runs import tiny_tokenizer, write_run

LINE = "the cat sleeps on the 12 mats <x>"


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> LoadedRun:
    folder = tmp_path_factory.mktemp("run") / "A"
    return load_run(write_run(folder, tiny_tokenizer(340, "é", byte_fallback=True), seed=3))


@pytest.fixture(scope="module")
def translation(run: LoadedRun) -> Translation:
    """Of a model that never ends by itself; as if it had, so that there is a row for the end."""
    options = DecodingConfig(beam=2, max_length_ratio=0, max_length_extra=6)
    [found] = Translator(run.model, run.tokenizer, options).translate([LINE])
    assert found.source_ids and len(found.target_ids) >= 2
    return replace(found, truncated=False)


def test_a_translation_keeps_its_pieces(run: LoadedRun, translation: Translation) -> None:
    assert run.tokenizer.decode_source(translation.source_ids) == LINE
    assert run.tokenizer.decode(translation.target_ids) == translation.text


def test_weights_are_those_of_the_model_at_the_produced_pieces(
    run: LoadedRun, translation: Translation
) -> None:
    pieces = cross_attention(run.model, run.tokenizer, translation).pieces
    source = torch.tensor([[*translation.source_ids, EOS]])
    expected = run.model.cross_attention(
        source, torch.ones_like(source, dtype=torch.bool), torch.tensor([[BOS, *translation.target_ids]])
    )
    assert np.array_equal(pieces.values, expected[0].numpy())
    assert pieces.values.shape[2:] == (len(pieces.target), len(pieces.source))
    assert pieces.source[-1] == pieces.target[-1] == END
    assert pieces.source[:-1] == run.tokenizer.pieces(translation.source_ids, "source")


def test_words_are_what_stands_between_spaces(run: LoadedRun, translation: Translation) -> None:
    attention = cross_attention(run.model, run.tokenizer, translation)
    assert attention.words.source == [*LINE.split(), END]
    assert attention.words.target[:-1] == translation.text.split()
    assert len(attention.pieces.source) > len(attention.words.source)


def test_every_row_sums_to_one(run: LoadedRun, translation: Translation) -> None:
    attention = cross_attention(run.model, run.tokenizer, translation)
    for weights in (attention.pieces, attention.words):
        assert np.allclose(weights.values.sum(-1), 1.0, atol=1e-5)
        assert weights.values.dtype == np.float32


def test_a_truncated_translation_has_no_row_for_the_end(run: LoadedRun, translation: Translation) -> None:
    whole = cross_attention(run.model, run.tokenizer, translation)
    cut = cross_attention(run.model, run.tokenizer, replace(translation, truncated=True))
    assert cut.pieces.target == whole.pieces.target[:-1] and cut.words.target == whole.words.target[:-1]
    assert np.allclose(cut.pieces.values, whole.pieces.values[:, :, :-1], atol=1e-6)


def test_an_empty_translation_has_one_row(run: LoadedRun, translation: Translation) -> None:
    empty = cross_attention(run.model, run.tokenizer, replace(translation, text="", target_ids=()))
    assert empty.words.target == empty.pieces.target == [END]
    assert empty.words.values.shape[2] == 1


def test_merge_sums_over_the_source_and_averages_over_the_target() -> None:
    values = np.random.default_rng(1).random((2, 3, 5, 4)).astype(np.float32)
    merged = merge(values, [0, 1, 1, 2], [0, 0, 0, 1, 1], 3, 2)
    assert merged.shape == (2, 3, 2, 3)
    assert np.allclose(merged[:, :, 0, 1], values[:, :, 0:3, 1:3].sum(-1).mean(-1), atol=1e-6)
    assert np.allclose(merged[:, :, 1, 2], values[:, :, 3:5, 3].mean(-1), atol=1e-6)


def test_a_source_that_is_too_long_shows_what_was_read(tmp_path: Path) -> None:
    small = load_run(write_run(tmp_path / "B", tiny_tokenizer(70), max_positions=9))
    [found] = Translator(small.model, small.tokenizer, DecodingConfig(beam=1)).translate([LINE])
    assert found.source_cut and len(found.source_ids) == 8
    assert len(cross_attention(small.model, small.tokenizer, found).pieces.source) == 9
