"""Attention of a translation: rows are distributions, words are sums and means of their pieces."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from mt.config.schema import (
    AttentionConfig,
    DecodingConfig,
    ModelConfig,
    ModelKind,
    ScopeKind,
    ScoreKind,
)
from mt.data.tokenizer import BOS, EOS
from mt.decoding.alignments import (
    END,
    CrossAttention,
    View,
    Weights,
    attention_shape,
    attentions,
    cross_attention,
    forced_pairs,
    links,
    merge,
    pair_of,
)
from mt.decoding.loading import LoadedRun, load_run
from mt.decoding.translator import Translation, Translator
from mt.errors import ConfigError
from mt.models.build import build_model
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


def others(run: LoadedRun) -> list[Translation]:
    options = DecodingConfig(beam=2, max_length_ratio=0, max_length_extra=9)
    return Translator(run.model, run.tokenizer, options).translate(
        [LINE, "", "the cat", "É", "two birds sing in the tree today <x> <x> <x>", "the dog runs in the park"]
    )


def test_a_batch_gives_what_single_sentences_give(run: LoadedRun, monkeypatch: pytest.MonkeyPatch) -> None:
    translations = others(run)
    pairs = [pair_of(run.tokenizer, one) for one in translations]
    together = dict(attentions(run.model, pairs))
    assert sorted(together) == [0, 2, 3, 4, 5], "a blank line looks at nothing"
    alone = {n: cross_attention(run.model, run.tokenizer, translations[n]) for n in together}
    monkeypatch.setattr("mt.decoding.alignments._BATCH_CELLS", 300)
    few = dict(attentions(run.model, pairs))
    for n, one in alone.items():
        for found in (together[n], few[n]):
            for unit in ("pieces", "words"):
                mine, theirs = getattr(found, unit), getattr(one, unit)
                assert (mine.source, mine.target, mine.ended) == (theirs.source, theirs.target, theirs.ended)
                assert np.allclose(mine.values, theirs.values, atol=1e-6)
            assert links(View().of(found).words) == links(View().of(one).words)


@pytest.mark.parametrize("scope", ["global", "local_m", "local_p"])
@pytest.mark.parametrize("kind", list(ModelKind), ids=lambda kind: kind.name)
def test_no_model_s_weights_depend_on_the_batch(run: LoadedRun, kind: ModelKind, scope: str) -> None:
    config = ModelConfig(kind=kind, width=16, encoder_layers=2, decoder_layers=2, max_positions=48)
    if kind is ModelKind.transformer:
        config.heads, config.ffn_width = 2, 32
    attention = AttentionConfig(score=ScoreKind.additive, scope=ScopeKind[scope], window=3)
    torch.manual_seed(1)
    model = build_model(config, attention, run.tokenizer.source_size, run.tokenizer.target_size).eval()
    lines = ["the cat sleeps on the mat", "a dog", "two birds sing in the tree today", "what"]
    pairs = forced_pairs(run.tokenizer, lines, lines[::-1], 48)
    together = dict(attentions(model, pairs))
    for index, pair in enumerate(pairs):
        [(_, alone)] = attentions(model, [pair])
        assert alone.pieces.values.any()
        assert np.allclose(together[index].pieces.values, alone.pieces.values, atol=1e-6)


def test_a_view_is_a_layer_a_head_or_a_mean(run: LoadedRun, translation: Translation) -> None:
    one = cross_attention(run.model, run.tokenizer, translation)
    values = np.random.default_rng(0).random((3, 2, *one.words.values.shape[2:])).astype(np.float32)
    words = replace(one.words, values=values)
    several = CrossAttention(words, words)

    def of(layer: str, head: str) -> np.ndarray:
        return View(layer, head).of(several).words.values

    assert np.array_equal(of("2", "1"), values[1:2, 0:1])
    assert np.allclose(of("mean", "mean"), values.mean((0, 1), keepdims=True))
    assert np.allclose(of("3", "mean"), values[2:].mean(1, keepdims=True))
    assert np.array_equal(of("all", "2"), values[:, 1:]) and np.array_equal(of("all", "all"), values)
    assert View("mean", "2").described(3, 2) == "head 2, mean over 3 layers"
    assert View().described(3, 1) == "mean over 3 layers and 1 head"
    assert View("1", "2").described(3, 2) == "layer 1, head 2"
    View("3", "2").check(3, 2)
    with pytest.raises(ConfigError, match=r"layer=4: the model has 3 layers; take 1 to 3, mean or all"):
        View("4", "9").check(3, 2)
    with pytest.raises(ConfigError, match=r"head=2: the model has 1 head; take 1, mean or all"):
        View("4", "2").check(4, 1)


def test_a_word_is_linked_with_the_source_word_it_looked_at_most() -> None:
    values = np.array([[0.5, 0.2, 0.3], [0.1, 0.2, 0.7], [0.0, 0.0, 0.0], [0.4, 0.4, 0.2], [0.9, 0.1, 0.0]])
    source, target = ["a", "b", END], ["p", "q", "r", "s", END]
    words = Weights(source, target, values[None, None].astype(np.float32))
    # q looks at the end, r at nothing, s at both alike; the end of the target is no word.
    assert links(words) == [(0, 0), (0, 3)]
    assert links(replace(words, target=[*target[:-1], "t"], ended=False)) == [(0, 0), (0, 3), (0, 4)]
    # What differs in the seventh decimal alone is alike.
    close = np.array([[0.4, 0.4 + 2e-8, 0.2]], dtype=np.float32)
    assert links(Weights(source, ["p"], close[None, None], ended=False)) == [(0, 0)]


def test_pairs_that_someone_wrote(run: LoadedRun) -> None:
    sources, targets = [LINE, "the cat", "", "the"], ["two birds", "", "the dog", LINE * 3]
    pairs = forced_pairs(run.tokenizer, sources, targets, max_positions=30)
    assert [pair.source.words for pair in pairs] == [line.split() for line in sources]
    assert [pair.target.words for pair in pairs] == [line.split() for line in targets]
    assert [pair.truncated for pair in pairs] == [False, False, False, True]
    assert pairs[0].cut == (len(run.tokenizer.encode_source([LINE])[0]) > 29) and pairs[3].cut
    found = dict(attentions(run.model, pairs))
    assert sorted(found) == [0, 1, 3]
    assert found[1].words.target == [END] and not found[3].words.ended
    # Words that were cut off have no weights.
    assert found[3].words.values[0, 0, -1].sum() == 0.0 and len(found[3].words.target) == len(
        targets[3].split()
    )


def test_the_shape_of_a_model_s_attention(run: LoadedRun) -> None:
    assert attention_shape(run.model) == (1, 2)
