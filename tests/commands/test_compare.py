"""``python -m mt.compare`` in the process: runs, sweeps, what is kept, and how it refuses."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from mt import compare
from mt.config.run_config import decisive_settings, load_config, save_config
from mt.config.schema import CompareConfig, TableFormat
from mt.data.tokenizer import Tokenizer
from mt.decoding import kept
from mt.errors import CheckpointError, ConfigError, DataError, UsageError
from tests.decoding.runs import SENTENCES, tiny_tokenizer, write_run


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return tiny_tokenizer(60)


@pytest.fixture
def world(tmp_path: Path, tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a test set, two runs and a copy of the first."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "s").write_text("".join(f"{line}\n" for line in SENTENCES), encoding="utf-8")
    (tmp_path / "r").write_text("".join(f"{line.upper()}\n" for line in SENTENCES), encoding="utf-8")
    for name, seed in (("a", 0), ("b", 1)):
        run = write_run(tmp_path / name, tokenizer, seed=seed)
        config = load_config(run / "config.yaml")
        config.model.dropout = 0.1 + seed / 10
        save_config(config, run / "config.yaml")
        metrics = [
            {"kind": "train", "step": 1, "tokens_per_second": 100.0, "peak_memory_mb": 50.0},
            {"kind": "valid", "step": 2, "loss": 2.5, "bleu": 3.0},
        ]
        text = "".join(json.dumps(line) + "\n" for line in metrics) + '{"kind": "tr'
        (run / "metrics.jsonl").write_text(text, encoding="utf-8")
        result = {
            "step": 2,
            "parameters": 77,
            "metrics": {"loss": 2.5, "bleu": None},
            "elapsed_seconds": 30.0,
        }
        (run / "result.json").write_text(json.dumps(result), encoding="utf-8")
    shutil.copytree(tmp_path / "a", tmp_path / "copy")
    return tmp_path


def run(**options: Any) -> int:
    values: dict[str, Any] = {
        "source": "s", "reference": ["r"], "bootstrap_samples": 100, "randomization_trials": 100,
        "format": TableFormat.json, "output": "out", "threads": 1, "device": "cpu",
    }  # fmt: skip
    return compare.compare_runs(CompareConfig(**{**values, **options}), ["typed", "words"])


def result() -> Any:
    return json.loads(Path("out").read_text(encoding="utf-8"))


def test_two_runs_and_what_training_left_about_them(world: Path) -> None:
    assert run(run=["a", "b"]) == 0
    content = result()
    assert content["differing_options"] == ["model.dropout"]
    assert [variant["name"] for variant in content["variants"]] == ["0.1", "0.2"]
    numbers = content["variants"][0]["runs"][0]["numbers"]
    assert numbers == {
        "steps": 2.0, "parameters": 77.0, "minutes": 0.5, "tokens_per_second": 100.0,
        "peak_memory_mb": 50.0, "valid_loss": 2.5,
    }  # fmt: skip
    (pair,) = content["variants"][1]["pairs"]
    assert 0 < pair["bleu"]["p_bootstrap"] <= 1


def test_a_copy_gives_p_1_and_translations_are_made_once(world: Path, monkeypatch: Any) -> None:
    assert run(run=["a", "copy"]) == 0
    (pair,) = result()["variants"][1]["pairs"]
    assert [pair[m][p] for m in ("bleu", "chrf") for p in ("p_bootstrap", "p_randomization")] == [1.0] * 4

    def never(*_: Any) -> None:
        raise AssertionError("translated again")

    first = Path("out").read_text("utf-8")
    monkeypatch.setattr(kept, "_translate", never)
    assert run(run=["a", "copy"]) == 0
    assert Path("out").read_text("utf-8") == first
    # Other options of the search, another test set, other weights: not the same translations.
    with pytest.raises(AssertionError, match="translated again"):
        run(run=["a", "copy"], source="r", reference=["s"])
    content = Path("a/model.safetensors").read_bytes()
    Path("a/model.safetensors").write_bytes(content[:-4] + b"\0\0\0\0")
    with pytest.raises(AssertionError, match="translated again"):
        run(run=["a", "copy"])


@pytest.mark.parametrize("damage", ["", "{}", '{"lines": [1]}'])
def test_a_damaged_file_of_translations_is_made_again(world: Path, damage: str) -> None:
    run(run=["a", "copy"])
    (path,) = [path for path in Path("a/translations").iterdir() if "-" not in path.name]
    whole = json.loads(path.read_text("utf-8"))["lines"]
    path.write_text(damage, encoding="utf-8")
    run(run=["a", "copy"])
    assert json.loads(path.read_text("utf-8"))["lines"] == whole


def test_the_report_has_maps_of_every_variant(world: Path) -> None:
    assert run(run=["a", "b"], report="r.html", maps=2, examples=2, format=TableFormat.text, output=None) == 0
    text = Path("r.html").read_text(encoding="utf-8")
    assert text.count('aria-label="attention"') == 4
    assert "python -m mt.compare typed words" in text


def test_runs_on_different_text_are_not_ranked(world: Path) -> None:
    for name, lines in (("a", SENTENCES), ("b", SENTENCES[:-1])):
        config = load_config(Path(name, "config.yaml"))
        for side in ("source", "target"):
            path = Path(f"{name}.{side}")
            path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
            setattr(config.data, f"test_{side}", str(path.absolute()))
        save_config(config, Path(name, "config.yaml"))
    with pytest.raises(DataError, match=r"test set: a has test \(8 sources.*b has test \(7 sources"):
        run(run=["a", "b"], source=None, reference=[])
    assert not Path("out").exists()


def test_without_a_test_set_the_validation_set_is_used(world: Path, caplog: Any) -> None:
    for name in ("a", "b"):
        config = load_config(Path(name, "config.yaml"))
        config.data.valid_source = config.data.valid_target = str(Path("s").absolute())
        save_config(config, Path(name, "config.yaml"))
    run(run=["a", "b"], source=None, reference=[])
    assert result()["test_set"]["name"] == "valid"
    assert "the validation set is used" in caplog.text


def test_a_run_whose_result_is_damaged_is_not_finished(world: Path) -> None:
    Path("b", "result.json").write_text("[", encoding="utf-8")
    run(run=["a", "b"])
    second = result()["variants"][-1]["runs"][-1]
    assert second["status"] == "unfinished" and "result.json is damaged; delete" in second["reason"]


def test_refusals(world: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="a is named twice"):
        run(run=["a", "./a"])
    with pytest.raises(CheckpointError, match="holds no sweep"):
        run(sweep_folder="a")
    for report, fault in (("a", "is a folder"), ("no/a.html", "create it first")):
        with pytest.raises(UsageError, match=f"report={report}: .*{fault}"):
            run(run=["a", "b"], report=report)
    assert not Path("no").exists()
    Path("r").write_text("one line\n", encoding="utf-8")
    with pytest.raises(DataError, match="s has 8 lines, r has 1"):
        run(run=["a", "b"])


def test_folders_are_plain_words() -> None:
    words = compare._folders_as_option(["runs/a", "format=csv", "b c", "--cfg", "x=1"])
    assert words == ["format=csv", "--cfg", "x=1", "run=['runs/a','b c']"]
    with pytest.raises(UsageError, match="in one way"):
        compare._folders_as_option(["a", "run=[b]"])


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["sweep=gone"], "sweep=gone: no such folder"),
        (["sweep=gone,too"], "sweep=gone,too: no such folder"),
        (["sweep="], "sweep=: is empty"),
        (["sweep=a"], "sweep=a: holds no sweep"),
        (["a", "gone"], "gone: no such folder"),
        (["run=[a,gone]"], "gone: no such folder"),
    ],
)
def test_a_folder_is_named_as_it_was_typed(
    words: list[str], message: str, world: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert compare.main([*words, "source=s", "reference=[r]"]) != 0
    err = capsys.readouterr().err
    assert f"error: {message}" in err and "sweep_folder" not in err and "run=" not in err


def test_the_command_line(world: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["a", "b", "source=s", "reference=[r]", "bootstrap_samples=100", "randomization_trials=100"]
    assert compare.main([*words, "threads=1", "device=cpu"]) == 0
    assert "p bootstrap" in capsys.readouterr().out
    assert compare.main([]) == 2
    assert "nothing to compare" in capsys.readouterr().err
    assert compare.main(["a", "sweep=b", "reference=[r]", "maps=1"]) == 2
    err = capsys.readouterr().err
    assert "give only one of the two" in err and "source=FILE" in err and "maps=1 is not read" in err


def test_a_sweep_shows_failed_unfinished_and_missing_cells(world: Path) -> None:
    settings = decisive_settings(load_config(Path("a/config.yaml")))
    shutil.rmtree("copy")
    (world / "b" / "result.json").unlink()
    cells = [
        {"job": n, "words": [], "cell": str(n), "seed": n, "run": name, "settings": {**settings, **other}}
        for n, (name, other) in enumerate(
            [("a", {}), ("b", {}), ("gone", {"model.width": "65"}), ("later", {"model.width": "64"})]
        )
    ]
    Path("sweep/2").mkdir(parents=True)
    Path("sweep/sweep.json").write_text(json.dumps({"directory": str(world), "cells": cells}), "utf-8")
    outcome = {"job": 2, "cell": "2", "status": "failed", "reason": "65 is odd"}
    Path("sweep/2/outcome.json").write_text(json.dumps(outcome), "utf-8")
    assert run(sweep_folder="sweep") == 0
    found = {
        each["folder"]: (each["status"], each["reason"])
        for variant in result()["variants"]
        for each in variant["runs"]
    }
    assert found["a"][0] == "finished" and found["b"][0] == "unfinished"
    assert found["job 2"] == ("failed", "65 is odd")
    assert found["job 3"] == ("unfinished", "not started yet")
    assert "stopped after step 2" in found["b"][1]


def test_a_sweep_whose_cells_were_chosen_on_the_way(world: Path) -> None:
    for job, name in enumerate(("a", "b")):
        Path(f"sweep/{job}").mkdir(parents=True)
        cell = {"job": job, "cell": name, "seed": 1, "run": name, "settings": {}, "status": "finished"}
        Path(f"sweep/{job}/outcome.json").write_text(json.dumps(cell), "utf-8")
    Path("sweep/sweep.json").write_text(json.dumps({"directory": str(world), "cells": []}), "utf-8")
    assert run(sweep_folder="sweep") == 0
    assert [each["folder"] for variant in result()["variants"] for each in variant["runs"]] == ["a", "b"]


def test_what_attention_did_and_its_alignment_error(world: Path, tokenizer: Tokenizer) -> None:
    write_run(world / "none", tokenizer, recurrent=True)
    assert run(run=["a", "none"]) == 0
    first, without = result()["variants"]
    assert first["attention_entropy"]["mean"] > 0 and first["aer"] is None
    assert without["attention_entropy"] is None and without["runs"][0]["attention"] is None
    (stored,) = (kept_file for kept_file in Path("a/translations").glob("attention-*"))
    links = json.loads(stored.read_text("utf-8"))["attention"]["model"][0]["links"]
    Path("gold").write_text("".join(f"{line}\n" for line in links), encoding="utf-8")
    assert run(run=["a", "b", "none"], alignments="gold", report="r.html", maps=0) == 0
    (own, other, without) = result()["variants"]
    assert own["aer"]["mean"] == 0.0 and 0.0 < other["aer"]["mean"] <= 1.0 and without["aer"] is None
    text = Path("r.html").read_text(encoding="utf-8")
    assert "<th>AER %</th>" in text and "<td>0.0</td>" in text and text.count("<td>–</td>") == 2
    Path("gold").write_text("0-0\n", encoding="utf-8")
    with pytest.raises(DataError, match="gold has 1 line, the test set 8"):
        run(run=["a", "b"], alignments="gold")
