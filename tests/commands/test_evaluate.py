"""``python -m mt.evaluate`` in the process: what it scores, what it writes, and how it refuses."""

from __future__ import annotations

import dataclasses
import gzip
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest

from mt import evaluate
from mt.config.schema import CorpusKind, DataConfig, DecodingOverrides, EvaluateConfig, TrainConfig
from mt.decoding.alignments import pharaoh
from mt.decoding.forced_attention import forced_attention
from mt.decoding.loading import load_run
from mt.decoding.translator import TranslationReport
from mt.errors import ConfigError, DataError, MTError
from mt.evaluation.alignment_error import alignment_error
from tests.decoding.runs import SENTENCES, tiny_tokenizer, write_run

LINES = ["the quick brown fox jumps over it .", "une école, l'été — « oui » !", "a b c d e f g"]


def write(path: Path, content: bytes | Sequence[str]) -> Path:
    data = content if isinstance(content, bytes) else "".join(f"{line}\n" for line in content).encode()
    path.write_bytes(data)
    return path


def run(**options: Any) -> int:
    """The command without the command line, which takes most of the time."""
    texts = {key: str(value) if isinstance(value, Path) else value for key, value in options.items()}
    return evaluate.evaluate(EvaluateConfig(**texts))


def scores_of(hypothesis: Path, *references: Path, **options: Any) -> dict[str, Any]:
    """The one record that scoring finished translations gives."""
    output = hypothesis.with_name("scores.json")
    run(hypothesis=hypothesis, reference=[str(path) for path in references], output=output, **options)
    (record,) = json.loads(output.read_text(encoding="utf-8")).values()
    assert isinstance(record, dict)
    return record


def command_line(hypothesis: Path, *references: Path) -> dict[str, Any]:
    command = [sys.executable, "-m", "sacrebleu", *map(str, references), "-i", str(hypothesis)]
    command += ["-m", "bleu", "chrf", "ter", "-w", "10"]
    done = subprocess.run(command, capture_output=True, check=True, encoding="utf-8")
    return {entry["name"]: entry for entry in json.loads(done.stdout)}


def assert_equal_to_command_line(record: dict[str, Any], hypothesis: Path, *references: Path) -> None:
    expected = command_line(hypothesis, *references)
    for key, name in [("bleu", "BLEU"), ("chrf", "chrF2"), ("ter", "TER")]:
        assert f"{record[key]['score']:.10f}" == f"{expected[name]['score']:.10f}"
        assert record[key]["signature"] == expected[name]["signature"]


# --- finished translations ---


def test_finished_translations_and_several_references(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    hypothesis = write(tmp_path / "hyp.txt", ["the quick red fox jumps over it .", LINES[1], "a b x d e g"])
    first = write(tmp_path / "a.txt", LINES)
    second = write(tmp_path / "b.txt", ["it jumps", "oui !", "a b x d e f"])
    record = scores_of(hypothesis, first, second)
    assert_equal_to_command_line(record, hypothesis, first, second)
    assert "nrefs:2" in record["bleu"]["signature"]
    assert record["segments"] == 3
    assert [file["path"] for file in record["test_set"]["references"]] == [str(first), str(second)]
    assert (record["run"], record["decoding"], record["bleu_by_length"]) == (None, None, None)
    assert f"{record['bleu']['score']:.2f}" in capsys.readouterr().out


@pytest.mark.parametrize("where", ["hypothesis", "reference", "both", "joined files"])
def test_a_byte_order_mark_is_not_text(tmp_path: Path, where: str) -> None:
    bom = b"\xef\xbb\xbf"
    text = b"ein mann liest ein buch im garten\n"
    if where == "joined files":
        text += bom + text
    hypothesis = write(tmp_path / "hyp.txt", (bom if where in ("hypothesis", "both") else b"") + text)
    plain = text.replace(bom, b"")
    reference = write(tmp_path / "ref.txt", (bom if where in ("reference", "both") else b"") + plain)
    assert f"{scores_of(hypothesis, reference)['bleu']['score']:.2f}" == "100.00"


@pytest.mark.parametrize(
    "end", [b"", b"\n", b"\r\n"], ids=["no final newline", "final newline", "carriage return"]
)
def test_the_last_line_counts_however_it_ends(tmp_path: Path, end: bytes) -> None:
    lines = b"one two three four five\nsix seven eight nine ten"
    record = scores_of(write(tmp_path / "hyp", lines + end), write(tmp_path / "ref", lines + b"\n"))
    assert f"{record['bleu']['score']:.2f}" == "100.00"
    assert record["segments"] == 2


@pytest.mark.parametrize("which", ["hypothesis", "reference"])
def test_an_extra_blank_line_is_a_line(tmp_path: Path, which: str) -> None:
    lines = b"one two three four five\nsix seven eight nine ten\n"
    longer = write(tmp_path / "longer", lines + b"\n")
    shorter = write(tmp_path / "shorter", lines)
    hypothesis, reference = (longer, shorter) if which == "hypothesis" else (shorter, longer)
    counts = (3, 2) if which == "hypothesis" else (2, 3)
    output = tmp_path / "scores.json"
    with pytest.raises(DataError, match=f"{counts[0]} hypotheses but the reference has {counts[1]} lines"):
        run(hypothesis=hypothesis, reference=[str(reference)], output=output)
    assert not output.exists()


@pytest.mark.parametrize("mark", ["\u2028", "\x85", "\x0b", "\x0c", "\x1c", "\r"], ids=ascii)
def test_only_lf_ends_a_line(tmp_path: Path, mark: str) -> None:
    text = [f"one two{mark}three four five six"]
    record = scores_of(write(tmp_path / "hyp", text), write(tmp_path / "ref", text))
    assert record["segments"] == 1
    assert f"{record['bleu']['score']:.2f}" == "100.00"


def test_case_is_mixed_unless_asked_otherwise(tmp_path: Path) -> None:
    hypothesis = write(tmp_path / "hyp", ["The Blue Train Left The Station."])
    reference = write(tmp_path / "ref", ["the blue train left the station."])
    mixed = scores_of(hypothesis, reference)["bleu"]
    assert (f"{mixed['score']:.2f}", "case:mixed" in mixed["signature"]) == ("6.57", True)
    lower = scores_of(hypothesis, reference, lowercase=True)["bleu"]
    assert (f"{lower['score']:.2f}", "case:lc" in lower["signature"]) == ("100.00", True)


def test_references_are_not_cleaned(tmp_path: Path) -> None:
    # Cleaning would make these equal: control characters, no-break spaces and entities stay as they are.
    odd = ["a\u00a0b c\x07d e &amp; f", "x  y   z\tw v"]
    reference = write(tmp_path / "ref", odd)
    hypothesis = write(tmp_path / "hyp", ["a b c d e & f", "x y z w v"])
    assert_equal_to_command_line(scores_of(hypothesis, reference), hypothesis, reference)


def test_a_compressed_reference_is_the_same_test_set(tmp_path: Path) -> None:
    hypothesis = write(tmp_path / "hyp", LINES)
    plain = scores_of(hypothesis, write(tmp_path / "ref", LINES))
    packed = gzip.compress("".join(f"{line}\n" for line in LINES).encode())
    compressed = scores_of(hypothesis, write(tmp_path / "ref.gz", packed))
    assert compressed["bleu"] == plain["bleu"]
    assert compressed["test_set"]["sha256"] == plain["test_set"]["sha256"]


def main(*arguments: str) -> int:
    """The command with its command line."""
    return evaluate.main(list(arguments))


def test_one_reference_needs_no_brackets(tmp_path: Path) -> None:
    folder = tmp_path / "my texts"
    folder.mkdir()
    hypothesis, reference = write(folder / "hyp", LINES), write(folder / "the ref", LINES)
    for words in (
        f"reference={reference}",
        f"reference=[{reference}]",
        f"reference=[{reference},{reference}]",
    ):
        assert main(f"hypothesis={hypothesis}", words) == 0


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["hypothesis={hyp}"], 2, "needs reference"),
        (["reference={hyp}"], 2, "source=FILE"),
        (["hypothesis={hyp}", "reference={hyp},{hyp}"], 2, "sweep"),
        (["hypothesis={hyp}", "reference={hyp}", "output={folder}"], 2, "is a folder"),
        (["hypothesis={hyp}", "reference={hyp}", "output={folder}/no/s.json"], 2, "create it first"),
        (["hypothesis={hyp}", "refrence={hyp}"], 2, "reference"),
        (["hypothesis={hyp}", "reference={latin}"], 1, "line 2: byte 0xE9 is not UTF-8"),
        (["hypothesis={empty}", "reference={empty}"], 1, "no segment"),
        (["run={folder}"], 1, "not a run folder"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_mistakes_are_one_message(
    tmp_path: Path, arguments: list[str], code: int, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "folder").mkdir()
    names = {
        "hyp": write(tmp_path / "hyp", LINES),
        "latin": write(tmp_path / "latin", b"abc\ncaf\xe9\nabc\n"),
        "empty": write(tmp_path / "empty", b""),
        "folder": tmp_path / "folder",
    }
    assert main(*[argument.format(**names) for argument in arguments]) == code
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("error: ")
    assert said in err
    assert "Traceback" not in err


def test_the_advice_about_bytes_that_are_not_utf8_can_be_followed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    hypothesis = write(tmp_path / "hyp", b"a small house\nun caf\xe9 noir\nthe end of it\n")
    words = [f"hypothesis={hypothesis}", f"reference={hypothesis}"]
    assert main(*words) == 1
    assert "set invalid_utf8=replace" in capsys.readouterr().err
    assert main(*words, "invalid_utf8=replace", f"output={tmp_path / 'scores.json'}") == 0
    assert "1 line with invalid UTF-8" in capsys.readouterr().err
    (record,) = json.loads((tmp_path / "scores.json").read_text(encoding="utf-8")).values()
    assert record["test_set"]["hypothesis"]["replaced"] == 1


def test_as_a_program_in_a_plain_locale(tmp_path: Path) -> None:
    hypothesis, reference = write(tmp_path / "hyp é", LINES), write(tmp_path / "ref", LINES)
    command = [sys.executable, "-m", "mt.evaluate", f'hypothesis="{hypothesis}"']
    command += [f"reference={reference}", f"output={tmp_path / 'scores.json'}"]
    environment = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "PATH": os.environ["PATH"]}
    root = Path(evaluate.__file__).parents[1]
    done = subprocess.run(command, capture_output=True, cwd=root, env=environment)
    assert done.returncode == 0, done.stderr
    assert "hyp é" in done.stdout.decode("utf-8")
    assert list(json.loads((tmp_path / "scores.json").read_text(encoding="utf-8"))) == ["hyp é"]


# --- with a run ---


class Dictionary:
    """Stands for `Translator`: replaces words it knows, and reports like the real one."""

    asked: ClassVar[list[list[str]]] = []

    def __init__(self, model: Any, tokenizer: Any, options: Any, device: Any = "cpu") -> None:
        self.options = options
        self.report = TranslationReport()

    def translate(self, lines: Sequence[str]) -> list[Any]:
        Dictionary.asked.append(list(lines))
        known = {"chat": "cat", "le": "the", "chien": "dog", "dort": "sleeps", "mange": "eats"}
        self.report.truncated = [n for n, line in enumerate(lines, start=1) if "mange" in line]
        self.report.unknown = [(n, 0.5) for n, line in enumerate(lines, start=1) if "zzz" in line]
        return [SimpleNamespace(text=" ".join(known.get(w, "?") for w in line.split())) for line in lines]


@pytest.fixture
def french(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> TrainConfig:
    """A run whose data has one test set, translated by `Dictionary`."""
    sources = ["le chat dort le chat dort", "le chien mange", "zzz", "", "le chat mange le chien dort"]
    targets = ["the cat sleeps the cat sleeps", "The dog eats.", "zzz", "", "the cat eats the dog now"]
    data = DataConfig(
        kind=CorpusKind.files,
        test_source=str(write(tmp_path / "test.fr", sources)),
        test_target=str(write(tmp_path / "test.en", targets)),
    )
    config = TrainConfig(data=data)
    folder = tmp_path / "run"
    folder.mkdir()

    def load_run(given: Any, checkpoint: Any = None, **options: Any) -> Any:
        assert given == folder
        return SimpleNamespace(
            config=config, model=None, tokenizer=None, folder=folder, checkpoint=folder, device="cpu"
        )

    monkeypatch.setattr("mt.decoding.loading.load_run", load_run)
    monkeypatch.setattr("mt.decoding.translator.Translator", Dictionary)
    monkeypatch.setattr("mt.decoding.forced_attention.forced_attention", lambda *_: None)
    monkeypatch.setattr(Dictionary, "asked", [])
    return config


def test_a_run_is_scored_on_its_test_sets(
    french: TrainConfig, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output, kept = tmp_path / "scores.json", tmp_path / "kept"
    decoding = DecodingOverrides(beam=2)
    assert run(run=tmp_path / "run", output=output, translations=kept, decoding=decoding) == 0
    records = json.loads(output.read_text(encoding="utf-8"))
    (name,) = records
    record = records[name]
    (file,) = kept.iterdir()
    assert record["test_set"]["translations"] == str(file)
    assert file.read_text(encoding="utf-8").splitlines()[2:4] == ["?", ""]
    assert_equal_to_command_line(record, file, tmp_path / "test.en")
    assert record["counts"] == {
        "blank_hypotheses": 1,
        "truncated": 2,
        "source_cut": 0,
        "source_unknown": 1,
        "digits_changed": 0,
    }
    assert record["decoding"]["beam"] == 2
    assert record["decoding"]["length_penalty"] == french.decoding.length_penalty
    assert record["run"] == str(tmp_path / "run")
    lengths = [(b["source_words"], b["segments"], b["small"]) for b in record["bleu_by_length"]]
    assert lengths == [("0", 1, True), ("1-5", 2, True), ("6-10", 2, True)]
    out = capsys.readouterr().out
    assert name in out
    assert f"{record['bleu']['score']:.2f}" in out
    assert record["bleu"]["signature"] in out


def test_scoring_the_kept_translations_gives_the_same_scores(french: TrainConfig, tmp_path: Path) -> None:
    kept, output = tmp_path / "kept", tmp_path / "a.json"
    assert run(run=tmp_path / "run", output=output, translations=kept) == 0
    (record,) = json.loads(output.read_text(encoding="utf-8")).values()
    (file,) = kept.iterdir()
    again = scores_of(file, tmp_path / "test.en")
    for metric in ("bleu", "chrf", "ter"):
        assert again[metric] == record[metric]


def test_a_file_of_one_s_own(french: TrainConfig, tmp_path: Path) -> None:
    source = write(tmp_path / "mine.txt", ["le chat dort", "le chien dort"])
    reference = write(tmp_path / "mine.en", ["the cat sleeps", "the dog sleeps"])
    output = tmp_path / "scores.json"
    assert run(run=tmp_path / "run", source=source, reference=[str(reference)], output=output) == 0
    records = json.loads(output.read_text(encoding="utf-8"))
    assert list(records) == ["mine.txt"]
    assert f"{records['mine.txt']['chrf']['score']:.2f}" == "100.00"


def test_unequal_files_are_refused_before_translating(french: TrainConfig, tmp_path: Path) -> None:
    source = write(tmp_path / "mine.txt", ["le chat dort", "le chien dort"])
    reference = write(tmp_path / "mine.en", ["the cat sleeps"])
    with pytest.raises(DataError, match=r"mine\.txt has 2 lines, .*mine\.en has 1"):
        run(run=tmp_path / "run", source=source, reference=[str(reference)])
    assert Dictionary.asked == []


def test_a_missing_test_set_is_named_with_those_that_exist(french: TrainConfig, tmp_path: Path) -> None:
    output = tmp_path / "scores.json"
    with pytest.raises(ConfigError, match=r"test_2099_moon.* has test"):
        run(run=tmp_path / "run", test_sets=["test_2099_moon"], output=output)
    assert not output.exists()


def test_a_corpus_that_moved(french: TrainConfig, tmp_path: Path) -> None:
    elsewhere, output = tmp_path / "elsewhere", tmp_path / "scores.json"
    elsewhere.mkdir()
    for name in ("test.fr", "test.en"):
        (tmp_path / name).rename(elsewhere / name)
    with pytest.raises(DataError, match="no such file"):
        run(run=tmp_path / "run")
    assert run(run=tmp_path / "run", data_root=elsewhere, output=output) == 0
    (record,) = json.loads(output.read_text(encoding="utf-8")).values()
    assert record["test_set"]["source"]["path"] == str(elsewhere / "test.fr")


def test_data_without_a_test_set(french: TrainConfig, tmp_path: Path) -> None:
    french.data.test_source = french.data.test_target = None
    with pytest.raises(DataError, match="no test set for the run's data"):
        run(run=tmp_path / "run")


# --- attention ---


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a run of random weights, texts and a gold alignment."""
    folder = tmp_path_factory.mktemp("real")
    tokenizer = tiny_tokenizer(70)
    write_run(folder / "A", tokenizer)
    write_run(folder / "R", tokenizer, recurrent=True)
    write(folder / "s", SENTENCES[:3])
    write(folder / "r", ["A DOG RUNS", "THE CAT", "TWO BIRDS SING"])
    write(folder / "gold", ["0-0 1-1 2?2", "", "2-0"])
    return folder


def attention_of(real: Path, name: str = "A", **options: Any) -> Any:
    output = real / "scores.json"
    texts = {"source": real / "s", "reference": [str(real / "r")], "output": output, "threads": 1}
    run(run=real / name, **{**texts, **options})
    (record,) = json.loads(output.read_text(encoding="utf-8")).values()
    return record["attention"]


def test_every_evaluation_says_what_attention_did(real: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = attention_of(real)
    assert 0 < found["entropy_share"] < 1 and 0 < found["end"] < 1 and found["entropy"] > 0
    assert [layer["layer"] for layer in found["layers"]] == [1] and found["cut"] == 0
    assert found["alignment"] is None and found["gold"] is None
    out = capsys.readouterr().out
    assert f"{found['entropy']:.3f}" in out and "AER" not in out
    # What is read is the reference, so the search changes nothing, and another reference does.
    assert attention_of(real, decoding=DecodingOverrides(beam=1)) == found
    assert attention_of(real, reference=[str(real / "s")]) != found


def test_the_error_is_that_of_the_links_of_the_references(
    real: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = attention_of(real, alignments=real / "gold")
    loaded = load_run(real / "A")
    links = forced_attention(
        loaded.model, loaded.tokenizer, SENTENCES[:3], ["A DOG RUNS", "THE CAT", "TWO BIRDS SING"]
    )
    assert links is not None
    sure = [{(0, 0), (1, 1)}, set(), {(2, 0)}]
    possible = [{(0, 0), (1, 1), (2, 2)}, set(), {(2, 0)}]
    expected = alignment_error(links.model.links, sure, possible)
    assert found["alignment"] == dataclasses.asdict(expected)
    assert found["gold"]["path"] == str(real / "gold") and len(found["gold"]["sha256"]) == 64
    assert f"{expected.aer:.1%}" in capsys.readouterr().out
    # The model's own links are the ones it agrees with.
    own = write(real / "own", [pharaoh(line) for line in links.model.links])
    assert attention_of(real, alignments=own)["alignment"]["aer"] == 0.0


def test_gold_links_that_cannot_be_used(
    real: Path, french: TrainConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    french.data.test_source = french.data.test_target = None
    sets = {name: (tmp_path / "test.fr", tmp_path / "test.en") for name in ("one", "two")}
    monkeypatch.setattr("mt.data.corpus.test_sets", lambda *_: sets)
    with pytest.raises(ConfigError, match=r"gold: belongs to one of one, two; choose it with test_sets="):
        run(run=tmp_path / "run", alignments=real / "gold")
    mine = {"source": real / "s", "reference": [str(real / "r")]}
    with pytest.raises(DataError, match="gold has 3 lines, the test set 2"):
        short = {key: write(tmp_path / key, ["a b", "c d"]) for key in ("source", "reference")}
        run(
            run=tmp_path / "run",
            source=short["source"],
            reference=[str(short["reference"])],
            alignments=real / "gold",
        )
    assert Dictionary.asked == []
    with pytest.raises(MTError, match="has no attention, so it links no words"):
        run(run=tmp_path / "run", alignments=real / "gold", **mine)
    assert main(f"hypothesis={real / 'r'}", f"reference={real / 'r'}", f"alignments={real / 'gold'}") == 2


def test_a_model_without_attention_is_scored_all_the_same(real: Path) -> None:
    assert attention_of(real, "R") is None
