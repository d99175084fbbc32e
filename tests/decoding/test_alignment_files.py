"""Files of attention: each format can be read by what it is made for, and all say the same."""

from __future__ import annotations

import io
import json
import re
from pathlib import Path

import numpy as np
import pytest

from mt.decoding import alignment_files
from mt.decoding.alignment_files import FORMATS, writer, written
from mt.decoding.alignments import END, View
from mt.decoding.loading import LoadedRun, load_run
from mt.decoding.translator import Translation, Translator
from tests.decoding.runs import tiny_tokenizer, write_run

LINES = ["the cat sleeps", "", "É <x> birds", "two birds sing", "\u200b"]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> LoadedRun:
    folder = tmp_path_factory.mktemp("run") / "A"
    return load_run(write_run(folder, tiny_tokenizer(340, "É", byte_fallback=True), seed=3))


@pytest.fixture(scope="module")
def translations(run: LoadedRun) -> list[Translation]:
    return Translator(run.model, run.tokenizer, run.config.decoding).translate(LINES)


def content(run: LoadedRun, translations: list[Translation], suffix: str, view: View | None = None) -> bytes:
    view = view or View()
    file = io.BytesIO()
    with writer(Path(f"a{suffix}"), file, view) as one:
        assert list(written(iter(translations), run, view, [one])) == translations
    return file.getvalue()


def test_links_are_the_largest_of_the_weights(run: LoadedRun, translations: list[Translation]) -> None:
    text = content(run, translations, ".pharaoh").decode("ascii")
    assert re.fullmatch(r"((\d+-\d+( \d+-\d+)*)?\n)+", text)
    lines = text.split("\n")[:-1]
    records = json.loads(content(run, translations, ".json"))
    assert len(lines) == len(records) == len(LINES)
    assert any(lines) and lines[1] == lines[4] == ""
    for line, record, translation in zip(lines, records, translations, strict=True):
        words = record["words"]
        expected = []
        for target, row in enumerate(words["weights"]):
            best = row.index(max(row))
            if words["target"][target] != END and words["source"][best] != END:
                expected.append(f"{best}-{target}")
        assert line.split() == expected
        assert words["source"][:-1] == translation.source.split()
        assert words["target"][: len(translation.text.split())] == translation.text.split()


def test_rows_sum_to_one_in_json_and_numpy(run: LoadedRun, translations: list[Translation]) -> None:
    records = json.loads(content(run, translations, ".json"))
    with np.load(io.BytesIO(content(run, translations, ".npz")), allow_pickle=False) as arrays:
        assert len(arrays.files) == 6 * len(LINES)
        for number, record in enumerate(records):
            for unit in ("words", "pieces"):
                weights = arrays[f"{unit}_{number}"]
                assert weights.dtype == np.float32 and weights.ndim == 2
                assert list(arrays[f"{unit}_source_{number}"]) == record[unit]["source"]
                assert list(arrays[f"{unit}_target_{number}"]) == record[unit]["target"]
                assert weights.shape == (len(record[unit]["target"]), len(record[unit]["source"]))
                assert np.allclose(weights.sum(-1), 1.0, atol=1e-5)
                stated = np.array(record[unit]["weights"], dtype=np.float64).reshape(weights.shape)
                assert np.allclose(stated, weights, atol=1e-6)


def test_json_lines_are_the_list_s_records(run: LoadedRun, translations: list[Translation]) -> None:
    lines = content(run, translations, ".jsonl").decode("utf-8").split("\n")
    assert lines.pop() == ""
    assert [json.loads(line) for line in lines] == json.loads(content(run, translations, ".json"))
    assert json.loads(content(run, [], ".json")) == [] and content(run, [], ".jsonl") == b""


def test_layers_and_heads_are_axes_where_all_are_wanted(
    run: LoadedRun, translations: list[Translation]
) -> None:
    def arrays(layer: str, head: str) -> np.ndarray:
        packed = content(run, translations, ".npz", View(layer, head))
        return np.load(io.BytesIO(packed), allow_pickle=False)["words_0"]

    every, heads = arrays("all", "all"), arrays("mean", "all")
    assert every.shape[:2] == (1, 2) and heads.ndim == 3
    assert np.allclose(every[0], heads) and np.allclose(every.mean((0, 1)), arrays("mean", "mean"), atol=1e-6)
    assert np.array_equal(arrays("1", "2"), every[0, 1]) and not np.array_equal(every[0, 0], every[0, 1])
    record = json.loads(content(run, translations, ".json", View("all", "2")))[0]["words"]
    assert np.allclose(np.array(record["weights"]), every[:, 1], atol=1e-6)
    one, two = (content(run, translations, ".pharaoh", View("1", head)) for head in ("1", "2"))
    assert one != two


def test_the_same_weights_are_the_same_file(
    run: LoadedRun, translations: list[Translation], monkeypatch: pytest.MonkeyPatch
) -> None:
    before = {suffix: content(run, translations, suffix) for suffix in FORMATS}
    assert before[".txt"] == before[".align"] == before[".pharaoh"]
    assert content(run, translations, ".npz") == before[".npz"]
    monkeypatch.setattr(alignment_files, "_GROUP_LINES", 2)
    assert content(run, translations, ".pharaoh") == before[".pharaoh"]
