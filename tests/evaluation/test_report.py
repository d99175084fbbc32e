"""The record explains itself, the table can be read, and files are whole or as they were."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from mt.errors import DataError
from mt.evaluation.metrics import bleu_by_length, score
from mt.evaluation.report import Evaluation, table, text_hash, write_text


def evaluation(name: str = "test", **changes: object) -> Evaluation:
    lines = ["the quick brown fox jumps", "a b c d e f g"]
    hypotheses = ["the quick brown fox jumps", "a b c d x f g"]
    values: dict[str, object] = {
        "name": name,
        "scores": score(hypotheses, [lines]),
        "by_length": bleu_by_length(hypotheses, [lines], lines),
        "segments": 2,
        "counts": {"truncated": 1},
        "sha256": text_hash(lines, [lines]),
    }
    return Evaluation(**{**values, **changes})  # type: ignore[arg-type]


def test_the_record_has_the_promised_keys_and_is_json() -> None:
    one = evaluation(decoding={"beam": 5}, run="runs/x", checkpoint="model.safetensors")
    record = json.loads(json.dumps(one.to_json()))
    for metric in ("bleu", "chrf", "ter"):
        value = getattr(one.scores, metric)
        assert record[metric] == {"score": value.score, "signature": value.signature, "detail": value.detail}
    assert [bucket["source_words"] for bucket in record["bleu_by_length"]] == ["1-5", "6-10"]
    assert all(bucket["small"] for bucket in record["bleu_by_length"])
    assert record["segments"] == 2
    assert record["counts"] == {"truncated": 1}
    assert record["test_set"]["sha256"] == one.sha256
    assert (record["decoding"], record["run"]) == ({"beam": 5}, "runs/x")
    assert record["checkpoint"] == "model.safetensors"


def test_the_table_shows_every_number_once_rounded_like_the_command_line() -> None:
    one = evaluation("first")
    text = table([one, evaluation("second", by_length=None)])
    assert f"{one.scores.bleu.score:.2f}" in text
    assert text.count(one.scores.bleu.signature) == 1, "equal signatures are said once"
    assert "first, BLEU by source length" in text
    assert "second, BLEU by source length" not in text
    assert "few segments" in text
    rows = text.split("\n\n")[0].splitlines()
    assert [row.split()[0] for row in rows[2:]] == ["first", "second"]
    assert len({len(row) for row in rows}) == 1


def test_different_signatures_are_all_said() -> None:
    lower = evaluation("lower", scores=score(["A b c d"], [["a b c d"]], lowercase=True))
    text = table([evaluation(), lower])
    assert "BLEU|nrefs:1|case:mixed" in text
    assert "BLEU|nrefs:1|case:lc" in text


def test_the_hash_is_of_the_text_and_of_its_cut_into_lines() -> None:
    base = text_hash(["a", "b"], [["x", "y"]])
    assert base == text_hash(["a", "b"], [["x", "y"]])
    others = [
        text_hash(None, [["x", "y"]]),
        text_hash(["a", "b"], [["x", "y"], ["x", "y"]]),
        text_hash(["a"], [["b"], ["x", "y"]]),
        text_hash(["a", "b", ""], [["x", "y", ""]]),
        text_hash(["a", "b"], [["x", "z"]]),
        text_hash(["x", "y"], [["a", "b"]]),
        text_hash(["a b"], [["x y"]]),
    ]
    assert len({base, *others}) == len(others) + 1


def test_files_are_written_as_they_are_into_new_folders(tmp_path: Path) -> None:
    path = tmp_path / "new" / "folder" / "out.txt"
    write_text(path, "é\r\n\u2028x\n")
    assert path.read_bytes() == "é\r\n\u2028x\n".encode()
    write_text(path, "second\n")
    assert path.read_text(encoding="utf-8") == "second\n"
    assert [entry.name for entry in path.parent.iterdir()] == ["out.txt"]


def test_a_failure_leaves_the_old_file_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "out.txt"
    write_text(path, "old\n")

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(DataError, match=r"out\.txt: cannot be written: No space left"):
        write_text(path, "new\n")
    assert path.read_text(encoding="utf-8") == "old\n"
    assert [entry.name for entry in tmp_path.iterdir()] == ["out.txt"]


def test_a_file_in_the_way_of_a_folder_is_one_short_error(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("", encoding="utf-8")
    with pytest.raises(DataError, match="cannot be written"):
        write_text(tmp_path / "taken" / "out.txt", "x")
