"""Text in, text out, with models that copy, loop or answer by rule, and a tokenizer of words."""

from __future__ import annotations

import itertools
import math
import random
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from mt.config.schema import DecodingConfig
from mt.decoding.translator import TranslationReport, Translator
from mt.errors import MTError
from tests.decoding.stubs import EOS, UNK, Scripted, TinyRecurrent, Words

WORDS = [f"s{number}" for number in range(30)] + ["the", "cat", "sleeps", "first", "last", "line", "7", "42"]
VOCABULARY = 4 + len(WORDS)


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    torch.set_num_threads(1)


def copying(max_positions: int = 64, **options: Any) -> Translator:
    """A translator that repeats its source."""

    def logits(source: list[int], tokens: list[int]) -> list[float]:
        values = [0.0] * VOCABULARY
        values[source[len(tokens)] if len(tokens) < len(source) else EOS] = 20.0
        return values

    options = {"beam": 2, "batch_tokens": 60, "length_penalty": 0.6, **options}
    return Translator(Scripted(logits, max_positions), Words(WORDS), DecodingConfig(**options))


def recurrent(seed: int = 0, **options: Any) -> Translator:
    options = {"beam": 3, "batch_tokens": 80, **options}
    return Translator(TinyRecurrent(VOCABULARY, seed), Words(WORDS), DecodingConfig(**options))


def texts(translator: Translator, lines: list[str]) -> list[str]:
    return [translation.text for translation in translator.translate(lines)]


def test_lines_come_back_in_order_whatever_their_length() -> None:
    lengths = random.Random(0)
    lines = [" ".join([f"s{k}"] * lengths.randint(1, 11)) for k in range(30)]
    assert texts(copying(), lines) == lines
    assert texts(copying(), lines[::-1]) == lines[::-1]
    assert texts(copying(batch_tokens=1), lines) == lines


@pytest.mark.parametrize("beam", [1, 3])
def test_a_line_alone_and_among_others(beam: int) -> None:
    generator = random.Random(1)
    lines = [" ".join(generator.choices(WORDS, k=generator.randint(1, 12))) for _ in range(16)]
    together = recurrent(beam=beam, n_best=beam).translate(lines)
    small = recurrent(beam=beam, n_best=beam, batch_tokens=1).translate(lines)
    for line, one, other in zip(lines, together, small, strict=True):
        [alone] = recurrent(beam=beam, n_best=beam).translate([line])
        for translation in (one, other):
            assert translation.text == alone.text and translation.truncated == alone.truncated
            assert [h[0] for h in translation.hypotheses] == [h[0] for h in alone.hypotheses]
            for found, expected in zip(translation.hypotheses, alone.hypotheses, strict=True):
                assert found[1:] == pytest.approx(expected[1:], abs=1e-4)


def test_chunks_of_a_stream_change_nothing_and_are_lazy() -> None:
    lines = [f"s{k % 30} s{k % 7}" for k in range(50)]
    taken = []

    def source() -> Any:
        for line in lines:
            taken.append(line)
            yield line

    stream = copying().stream(source(), chunk_lines=8)
    assert next(stream).text == lines[0] and len(taken) == 8
    assert [translation.text for translation in stream] == lines[1:]


@pytest.mark.parametrize(
    "blank", ["", "   ", "\t", "\u00a0\u00a0", "\u3000\u3000", "\u200b", " \r", "\ufeff", "\u2028", "\x00"]
)
def test_blank_lines_are_translated_by_blank_lines_without_the_model(blank: str) -> None:
    """Cases of blank and invisible lines: among others, alone, and next to what they must not change."""
    translator = copying()
    expected = ["first line", "", "last line", ""]
    assert texts(translator, ["first line", blank, "last line", blank]) == expected
    assert translator.model.sentences_run == 2
    assert translator.report.blank == 2 and translator.report.lines == 4
    only = copying()
    [translation] = only.translate([blank])
    assert translation.text == "" and translation.hypotheses == [("", 0.0, 0.0)]
    assert not translation.truncated and not translation.source_cut
    assert only.model.sentences_run == 0


def test_no_lines() -> None:
    assert copying().translate([]) == []
    assert copying().report.to_dict()["lines"] == 0


def test_spaces_around_and_inside_do_not_matter() -> None:
    lines = [
        "  the cat sleeps",
        "the cat sleeps  ",
        "the  cat \t sleeps",
        "the cat sleeps",
        "the\u00a0cat sleeps",
    ]
    assert set(texts(copying(), lines)) == {"the cat sleeps"}
    assert len(set(texts(recurrent(), lines))) == 1


def test_a_repeated_line_is_searched_once_and_counted_each_time() -> None:
    translator = copying(max_length_ratio=0.0, max_length_extra=1)
    assert texts(translator, ["the cat", "s1 s2", "the cat", " the  cat "]) == ["the", "s1", "the", "the"]
    assert translator.model.sentences_run == 2
    assert translator.report.truncated == [1, 2, 3, 4] and translator.report.pieces == 8


def test_longest_output_is_by_each_lines_own_length() -> None:
    """floor(1.5 x pieces) + 5 for a model that never ends; beside it, one that does."""

    def logits(source: list[int], tokens: list[int]) -> list[float]:
        ended = source == [4] and len(tokens) == 1
        return [0.0, 0.0, 30.0 if ended else -30.0, -math.inf, 20.0, 0.0]

    options = DecodingConfig(beam=2, max_length_ratio=1.5, max_length_extra=5)
    translator = Translator(Scripted(logits), Words(["a", "b"]), options)
    found = translator.translate(["b b", "b", "b b b", "a"])
    assert [len(translation.text.split()) for translation in found] == [8, 6, 9, 1]
    assert [translation.truncated for translation in found] == [True, True, True, False]
    assert translator.report.truncated == [1, 2, 3]
    assert "3 lines cut at the longest length" in translator.report.warnings()[0]
    blocked = DecodingConfig(beam=2, max_length_ratio=1.5, max_length_extra=5, no_repeat_ngram=2)
    for translation in Translator(Scripted(logits), Words(["a", "b"]), blocked).translate(["b b", "b"]):
        words = translation.text.split()
        pairs = list(itertools.pairwise(words))
        assert len(set(pairs)) == len(pairs) and math.isfinite(translation.hypotheses[0][1])


@pytest.mark.parametrize(
    ("ratio", "pieces", "longest"), [(0.29, 100, 29), (1.1, 30, 33), (0.7, 10, 7), (1.5, 3, 4)]
)
def test_floor_is_not_off_by_one(ratio: float, pieces: int, longest: int) -> None:
    """0.29 x 100 is 28.999999999999996 in binary."""
    translator = copying(max_positions=500, max_length_ratio=ratio, max_length_extra=0)
    assert translator._longest(pieces) == longest


def test_output_is_no_longer_than_the_model_can_be() -> None:
    loop = Scripted(lambda s, t: [0, 0, -9, 0, 9], max_positions=6)
    [translation] = Translator(loop, Words(["a"]), DecodingConfig(beam=1)).translate(["a a a"])
    assert len(translation.text.split()) == 6 and translation.truncated


def test_a_source_too_long_for_the_model_is_cut_flagged_and_counted() -> None:
    translator = copying(max_positions=5)
    lines = ["s1 s2 s3 s4 s5 s6 s7", "s1 s2 s3 s4", "s1 s2 s3 s4 s5"]
    found = translator.translate(lines)
    assert [t.text for t in found] == ["s1 s2 s3 s4"] * 3
    assert [t.source_cut for t in found] == [True, False, True]
    assert translator.report.source_cut == [1, 3]
    assert translator.report.to_dict()["source_cut"] == {"count": 2, "first_lines": [1, 3]}
    assert any("2 lines longer than the model can read" in text for text in translator.report.warnings())


def test_unknown_characters_are_left_out_counted_and_shown_on_request() -> None:
    lines = ["これはテストです", "привет мир", "the 日本 cat", "the cat"]
    translator = copying()
    assert texts(translator, lines) == ["", "", "the cat", "the cat"]
    shares = [(line, round(share, 2)) for line, share in translator.report.unknown]
    assert shares == [(1, 1.0), (2, 1.0), (3, 0.33)]
    assert translator.report.to_dict()["unknown"]["piece_rate"] == pytest.approx(4 / 8)
    assert translator.report.warnings() == [
        "3 lines with unknown characters: line 1 (100%), 2 (100%), 3 (33%)"
    ]
    shown = Translator(translator.model, translator.tokenizer, translator.options, show_unknown=True)
    assert texts(shown, lines)[2] == "the ⁇ cat"


def test_changed_digits_are_counted() -> None:
    rule = Scripted(lambda s, t: [0, 0, 9.0 * (len(t) == 1), 0] + [1.0] * (len(WORDS) - 1) + [5.0])
    translator = Translator(rule, Words(WORDS), DecodingConfig(beam=1))
    assert texts(translator, ["42", "7", "the cat", "42 42"]) == ["42"] * 4
    assert translator.report.digits_changed == [2, 3, 4]


def test_output_is_one_line_whatever_the_tokenizer_says() -> None:
    class Hostile(Words):
        def decode(self, ids: Any, unknown: str = "") -> str:
            return " a\nb\rc\u2028d\x85e\x0bf\x00g "

    found = Translator(copying().model, Hostile(WORDS), DecodingConfig(beam=2, n_best=2)).translate(
        ["the cat"]
    )
    assert found[0].text == "a b c d e f g" and len(found[0].hypotheses) == 1


def test_n_best_has_different_texts_the_first_is_the_translation() -> None:
    """Two pieces spell the same word: their hypotheses are one."""

    class Twins(Words):
        def decode(self, ids: Any, unknown: str = "") -> str:
            return " ".join("ab"[index % 2] for index in ids)

    rule = Scripted(lambda s, t: [0, 0, 9.0 * (len(t) == 2), 0, 2.0, 1.0, 1.5, 0.5])
    found = Translator(rule, Twins("pqrs"), DecodingConfig(beam=8, n_best=4)).translate(["p"])[0]
    names = [text for text, _, _ in found.hypotheses]
    scores = [score for _, score, _ in found.hypotheses]
    assert len(names) == len(set(names)) > 1 and names[0] == found.text == "a a"
    assert scores == sorted(scores, reverse=True)
    for n_best in (2, 4):
        assert len(recurrent(beam=4, n_best=n_best).translate(["the cat"])[0].hypotheses) <= n_best
    single = recurrent(beam=4).translate(["the cat", "s1"])
    many = recurrent(beam=4, n_best=4).translate(["the cat", "s1"])
    assert [t.text for t in single] == [t.text for t in many]


def test_dropout_is_off_and_every_module_gets_its_mode_back() -> None:
    translator = recurrent()
    model = translator.model
    assert isinstance(model, nn.Module)
    model.train()
    model.dropout.eval()
    model.add_module("part", nn.Dropout(0.5).train())
    lines = ["the cat sleeps", "s1 s2"]
    first = texts(translator, lines)
    assert model.training and model.part.training and not model.dropout.training
    model.dropout.train()
    assert texts(translator, lines) == first
    assert model.dropout.training
    model.eval()
    translator.translate(lines)
    assert not model.part.training
    model.train()

    def failing(tokens: Tensor, state: Any) -> Any:
        raise RuntimeError("boom")

    model.step = failing  # type: ignore[method-assign]
    with pytest.raises(RuntimeError, match="boom"):
        translator.translate(lines)
    assert model.training and model.dropout.training


def test_the_budget_bounds_a_batch() -> None:
    translator = recurrent(beam=4, batch_tokens=100)
    sizes = []
    original = translator.model.encode

    def encode(source: Tensor, mask: Tensor) -> Tensor:
        sizes.append(source.shape)
        return original(source, mask)

    translator.model.encode = encode  # type: ignore[method-assign]
    generator = random.Random(2)
    translator.translate([" ".join(generator.choices(WORDS, k=generator.randint(1, 40))) for _ in range(24)])
    assert all(rows * columns * 4 <= 100 or rows == 1 for rows, columns in sizes)
    assert sum(rows for rows, _ in sizes) == 24
    assert [columns for _, columns in sizes] == sorted((columns for _, columns in sizes), reverse=True)


@pytest.mark.parametrize(
    "error",
    [torch.OutOfMemoryError("CUDA out of memory"), RuntimeError("DefaultCPUAllocator: not enough memory")],
)
def test_out_of_memory_halves_the_batch(error: Exception) -> None:
    lines = [f"s{k} s{k}" for k in range(20)]
    translator = copying(batch_tokens=10_000)
    original = translator.model.encode

    def encode(source: Tensor, mask: Tensor) -> Tensor:
        if len(source) > 3:
            raise error
        return original(source, mask)

    translator.model.encode = encode  # type: ignore[method-assign]
    assert texts(translator, lines) == lines
    assert translator.report.batches_split > 0

    def never(source: Tensor, mask: Tensor) -> Tensor:
        raise error

    translator.model.encode = never  # type: ignore[method-assign]
    with pytest.raises(MTError, match=r"a line of 2 pieces; lower decoding\.beam"):
        translator.translate(lines)


def test_other_errors_are_not_taken_for_memory() -> None:
    translator = copying()

    def encode(source: Tensor, mask: Tensor) -> Tensor:
        raise RuntimeError("shapes do not match")

    translator.model.encode = encode  # type: ignore[method-assign]
    with pytest.raises(RuntimeError, match="shapes do not match"):
        translator.translate(["the cat", "s1"])


def test_the_report_adds_up_over_calls_and_shortens_long_lists() -> None:
    translator = copying(max_positions=3)
    translator.translate(["s1 s2 s3", ""])
    translator.translate(["s1", "s1 s2 s3"])
    assert translator.report.lines == 4 and translator.report.source_cut == [1, 4]
    long = TranslationReport(truncated=list(range(1, 500)))
    assert long.to_dict()["truncated"]["count"] == 499
    assert len(long.to_dict()["truncated"]["first_lines"]) == 100
    assert long.warnings()[0].endswith("line 1, 2, 3, 4, 5, 6, 7, 8, 9, 10 ...")


def test_unknown_symbol_in_the_output() -> None:
    """A model without byte fallback may write the unknown symbol: shown only on request."""
    rule = Scripted(
        lambda s, t: [0, 0, 9.0 * (len(t) == 2), 7.0 * (len(t) == 0)] + [5.0] + [4.0] * (VOCABULARY - 5)
    )
    translator = Translator(rule, Words(WORDS), DecodingConfig(beam=1))
    assert texts(translator, ["the"]) == ["s0"]
    assert texts(Translator(rule, Words(WORDS), DecodingConfig(beam=1), show_unknown=True), ["the"]) == [
        "⁇ s0"
    ]
    assert UNK == 3
