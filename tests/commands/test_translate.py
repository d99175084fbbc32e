"""`python -m mt.translate` from its arguments to bytes, with a tiny model of random weights.

The weights are random, so what is proved is what holds for any model: as many lines out as in, the
same bytes by every way in, files whole or absent, and what is wrong is said.
"""

from __future__ import annotations

import builtins
import dataclasses
import io
import itertools
import json
import math
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from mt import translate
from mt.data.tokenizer import Tokenizer
from mt.decoding.loading import load_run
from mt.decoding.translator import Translator
from mt.errors import MTError
from tests.decoding.runs import SENTENCES, tiny_tokenizer, write_run
from tests.decoding.stubs import Scripted

REPOSITORY = Path(__file__).resolve().parents[2]

Run = Callable[..., "Outcome"]


class Outcome:
    def __init__(self, code: int, out: bytes, err: str) -> None:
        self.code, self.out, self.err = code, out, err

    @property
    def lines(self) -> list[str]:
        assert self.out.endswith(b"\n") or not self.out
        return self.out.decode("utf-8").split("\n")[:-1]


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("written") / "runs"
    write_run(root / "A", tiny_tokenizer(70), seed=3)
    return root


@pytest.fixture
def place(tmp_path: Path, written: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty current directory with `runs` in it."""
    shutil.copytree(written, tmp_path / "runs")
    monkeypatch.chdir(tmp_path)
    torch.set_num_threads(1)
    return tmp_path


@pytest.fixture
def run(place: Path, capsysbinary: Any, monkeypatch: pytest.MonkeyPatch) -> Run:
    def call(*argv: str, stdin: bytes = b"") -> Outcome:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin), encoding="ascii"))
        capsysbinary.readouterr()
        code = translate.main(list(argv))
        out, err = capsysbinary.readouterr()
        return Outcome(code, out, err.decode("utf-8"))

    return call


def write(name: str, content: bytes) -> str:
    Path(name).write_bytes(content)
    return name


def everything_but_runs() -> set[str]:
    return set(os.listdir(".")) - {"runs"}


def test_text_after_the_dashes(run: Run) -> None:
    spoken = run("--", "the", "cat", "sleeps")
    assert spoken.code == 0 and len(spoken.lines) == 1 and spoken.lines[0]
    assert run("--", "the cat sleeps").out == spoken.out == run("run=runs/A", "--", "the cat  sleeps").out
    assert run(stdin=b"the cat sleeps\n").out == spoken.out


@pytest.mark.parametrize(
    "text", ["run=x decoding.beam=9", "--help", "-- --", "a\nb", "<s> </s> <pad>", "~/x ${oc.env:HOME} $(id)"]
)
def test_text_after_the_dashes_is_text(run: Run, text: str) -> None:
    outcome = run("format=jsonl", "--", *text.split(" "))
    [record] = [json.loads(line) for line in outcome.lines]
    assert outcome.code == 0 and record["source"] == text.replace("\n", " ")


def test_nothing_after_the_dashes(run: Run) -> None:
    for words in (["--"], ["--", ""]):
        outcome = run(*words)
        assert outcome.code == 2 and "nothing to translate after --" in outcome.err and not outcome.out
    outcome = run("input=x.txt", "--", "the cat")
    assert outcome.code == 2 and not outcome.out


MIXED = (
    "\n".join([*SENTENCES, "", "  spaces  around ", "\tx\u00a0y", "これは", "THE END", "12 34"]).encode()
    + b"\n"
)


def test_file_pipe_and_dash_give_the_same_bytes(run: Run, place: Path) -> None:
    write("in.txt", MIXED)
    printed = run("input=in.txt")
    assert printed.code == 0 and len(printed.lines) == MIXED.count(b"\n")
    assert run(stdin=MIXED).out == printed.out
    assert run("input=-", "output=-", stdin=MIXED).out == printed.out
    filed = run("input=in.txt", "output=out.txt")
    assert filed.out == b"" and Path("out.txt").read_bytes() == printed.out
    assert everything_but_runs() >= {"in.txt", "out.txt"}
    assert not [name for name in os.listdir(place) if "partial" in name]
    assert run("input=in.txt", "decoding.batch_tokens=1").lines == printed.lines


@pytest.mark.parametrize(
    ("content", "count"),
    [
        (b"", 0),
        (b"\n", 1),
        (b"one two three\nfour five", 2),
        (b"one two three\nfour five\n\n", 3),
        (b"one\r\ntwo\r\n", 2),
        (b"\xef\xbb\xbfone\n", 1),
        ("a\u2028b\x0cc\x1dd\u0085e\n".encode(), 1),
        (b"the sun rises\n\nbirds sing\n\n", 4),
        (b"first\n   \n\t\n\xc2\xa0\n\xe3\x80\x80\n\xe2\x80\x8b\n \r\nlast\n", 8),
    ],
)
def test_as_many_lines_out_as_in(run: Run, content: bytes, count: int) -> None:
    write("in.txt", content)
    outcome = run("input=in.txt", "output=out.txt")
    written = Path("out.txt").read_bytes()
    assert outcome.code == 0 and written.count(b"\n") == count
    assert not written or written.endswith(b"\n")
    assert run(stdin=content).out == written


def test_blank_lines_stay_blank_and_change_no_other(run: Run) -> None:
    outcome = run(stdin=b"the sun rises\n\nbirds sing\n \xe2\x80\x8b \n")
    assert outcome.lines[1] == outcome.lines[3] == ""
    assert outcome.lines[::2] == run(stdin=b"the sun rises\nbirds sing\n").lines


def test_line_k_is_the_translation_of_line_k(run: Run) -> None:
    together = run(stdin="\n".join(SENTENCES).encode()).lines
    assert together[1] == run("--", SENTENCES[1]).lines[0]
    # Thirty lines of many lengths, none like another, each once alone.
    lines = [" ".join([f"{SENTENCES[k % 8].split()[0]} {k}"] * (1 + 7 * k % 11)) for k in range(30)]
    write("in.txt", "".join(f"{line}\n" for line in lines).encode())
    assert run("input=in.txt", "output=out.txt", "decoding.batch_tokens=300").code == 0
    loaded = load_run("runs/A")
    translator = Translator(loaded.model, loaded.tokenizer, loaded.config.decoding)
    alone = [translator.translate([line])[0].text for line in lines]
    assert Path("out.txt").read_text(encoding="utf-8").split("\n") == [*alone, ""]
    assert len(set(alone)) > 15  # else the order would not show


def test_a_model_that_loops_is_cut_at_each_lines_own_length(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop = Scripted(lambda source, tokens: [0, 0, -40, 0, 20, 10, 0, 0])
    monkeypatch.setattr(
        translate, "load_run", lambda *a, **k: dataclasses.replace(load_run(*a, **k), model=loop)
    )
    words = ("format=jsonl", "decoding.max_length_ratio=1.5", "decoding.max_length_extra=5")
    encode = load_run("runs/A").tokenizer.encode_source
    sources = ["loop please", "normal"]
    limits = [math.floor(1.5 * len(ids)) + 5 for ids in encode(sources)]
    tokens: list[list[int]] = []
    decode = Tokenizer.decode

    def watched(self: Tokenizer, ids: Any, unknown: str = "") -> str:
        tokens.append(list(ids))
        return decode(self, ids, unknown)

    monkeypatch.setattr(Tokenizer, "decode", watched)
    outcome = run(*words, stdin="\n".join(sources).encode())
    assert outcome.code == 0 and "2 lines cut at the longest length" in outcome.err
    assert [json.loads(line)["truncated"] for line in outcome.lines] == [True, True]
    assert all([4] * limit in tokens for limit in limits)
    tokens.clear()
    outcome = run(*words, "decoding.no_repeat_ngram=2", stdin="\n".join(sources).encode())
    assert len(outcome.lines) == 2 and tokens
    assert all(math.isfinite(json.loads(line)["score"]) for line in outcome.lines)
    assert all(len(set(itertools.pairwise(ids))) == len(ids) - 1 for ids in tokens)


def test_a_tokenizer_of_another_run_is_refused_with_both_places(run: Run) -> None:
    for name, tokenizer, said in (
        ("B", tiny_tokenizer(90), ["has 90 source pieces", "has 70"]),
        ("C", tiny_tokenizer(70, "quixotic zebras jump over lazy dogs " * 3), ["the sizes are the same"]),
    ):
        tokenizer.save(Path(name))
        outcome = run(f"tokenizer_folder={name}", "output=out.txt", stdin=b"the cat\n")
        assert outcome.code == 1 and not outcome.out and not Path("out.txt").exists()
        for part in (*said, f" {name} has", "runs/A/model.safetensors"):
            assert part in outcome.err


def test_spaces_do_not_matter(run: Run) -> None:
    outcome = run(stdin=b"  the cat sleeps\nthe cat sleeps  \nthe  cat \t sleeps\nthe cat sleeps\n")
    assert len(set(outcome.lines)) == 1 and outcome.lines[0] == outcome.lines[0].strip()


def test_jsonl(run: Run) -> None:
    source = "the cat\n\nзагадка\n" + "the " * 60 + "\n"
    outcome = run("format=jsonl", "decoding.n_best=2", "decoding.beam=3", stdin=source.encode())
    records = [json.loads(line) for line in outcome.lines]
    assert [record["source"] for record in records] == [line.strip() for line in source.split("\n")[:-1]]
    for record in records:
        assert set(record) == {
            "source",
            "translation",
            "score",
            "log_prob",
            "n_best",
            "truncated",
            "source_cut",
            "unknown_share",
        }
        scores = [one["score"] for one in record["n_best"]]
        assert record["n_best"][0]["translation"] == record["translation"] and scores == sorted(scores)[::-1]
        assert len({one["translation"] for one in record["n_best"]}) == len(record["n_best"]) <= 2
    assert records[2]["unknown_share"] == 1.0 and records[3]["source_cut"] and not records[0]["source_cut"]
    plain = run("decoding.beam=3", stdin=source.encode())
    assert plain.lines == [record["translation"] for record in records]


def test_a_script_never_seen(run: Run) -> None:
    source = "これはテストです\nпривет мир\nἀρχή\nmixed 日本 text\n"
    outcome = run("report=report.json", stdin=source.encode())
    assert outcome.code == 0 and len(outcome.lines) == 4
    assert "⁇" not in outcome.out.decode() and "unk" not in outcome.out.decode()
    assert "4 lines with unknown characters: line 1 (100%), 2 (100%), 3 (100%), 4 (" in outcome.err
    unknown = json.loads(Path("report.json").read_text(encoding="utf-8"))["unknown"]
    assert unknown["count"] == 4 and unknown["shares"][0] == {"line": 1, "share": 1.0}


def test_capitals_are_bounded_or_flagged_and_the_source_stays_as_it_is(run: Run) -> None:
    source = b"THE TRAIN IS LATE TODAY\nWHAT ELSE IS NEW?\nthe train is late today\n"
    outcome = run("format=jsonl", "report=report.json", stdin=source)
    records = [json.loads(line) for line in outcome.lines]
    assert records[0]["source"] == "THE TRAIN IS LATE TODAY" and len(records) == 3
    report = json.loads(Path("report.json").read_text(encoding="utf-8"))
    assert report["truncated"]["count"] == sum(record["truncated"] for record in records)
    assert 0 < report["unknown"]["piece_rate"] < 0.5  # the question mark


def test_report(run: Run) -> None:
    write("in.txt", b"the 12 cats\n\n\x07the " + b"dog " * 60 + b"\n")
    outcome = run("input=in.txt", "output=out.txt", "report=report.json")
    report = json.loads(Path("report.json").read_text(encoding="utf-8"))
    assert (
        report["lines"] == 3
        and report["blank"] == 1
        and report["source_cut"] == {"count": 1, "first_lines": [3]}
    )
    assert report["input"]["lines"] == 3 and report["input"]["control"] == 1
    assert report["run"].endswith("A") and report["decoding"]["beam"] == 2
    assert "1 line longer than the model can read" in outcome.err and "control characters" in outcome.err


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["output=no/where/out.txt"], "output=no/where/out.txt: there is no folder no/where"),
        (["report=no/report.json"], "report=no/report.json: there is no folder no"),
        (["output=folder"], "output=folder: is a folder"),
        (["output=in.txt"], "in.txt"),
        (["output=./folder/../in.txt"], "in.txt"),
        (["output=linked.txt"], "linked.txt"),
        (["output=x.txt", "report=x.txt"], "x.txt"),
        (["report=in.txt"], "in.txt"),
        (["decoding.n_best=2"], "format=jsonl"),
        (["input=none.txt"], "none.txt"),
        (["run=none"], "run=none"),
        (["device=cuda:99"], "device=cuda:99"),
    ],
)
def test_what_is_wrong_is_said_before_the_model_is_loaded(
    run: Run, monkeypatch: pytest.MonkeyPatch, words: list[str], complaint: str
) -> None:
    write("in.txt", b"the cat\n")
    Path("folder").mkdir()
    os.symlink("in.txt", "linked.txt")
    before = everything_but_runs()

    def never(*args: Any, **kwargs: Any) -> Any:
        raise AssertionError("the model was loaded")

    monkeypatch.setattr(translate, "load_run", never)
    outcome = run(*([] if any("input=" in word for word in words) else ["input=in.txt"]), *words)
    assert outcome.code in (1, 2) and complaint in outcome.err and "Traceback" not in outcome.err
    assert not outcome.out and Path("in.txt").read_bytes() == b"the cat\n"
    assert everything_but_runs() - {".hydra"} == before


def test_without_any_run_it_says_what_to_do(run: Run) -> None:
    shutil.rmtree("runs")
    outcome = run("--", "the cat")
    assert outcome.code == 1 and "train one with python -m mt.train" in outcome.err


def test_a_windows_path_is_named_as_typed(run: Run) -> None:
    outcome = run(r"checkpoint=..\runs\new\tab\last.pt", "--", "the cat")
    assert outcome.code != 0 and r"checkpoint=..\runs\new\tab\last.pt: no such file" in outcome.err
    assert not [name for name in os.listdir(".") if "\\" in name or ":" in name]


def test_checkpoints_by_path_and_by_name(run: Run) -> None:
    final = run("--", "the cat")
    for checkpoint in ("runs/A/checkpoints/step-00000002", "step-00000002"):
        assert run(f"checkpoint={checkpoint}", "--", "the cat").out == final.out


def test_a_failure_leaves_the_old_output_and_nothing_else(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    write("in.txt", b"the cat\nthe dog\n")
    write("out.txt", b"precious\n")

    def breaking(self: Translator, lines: Any, chunk_lines: int = 0) -> Iterator[Any]:
        yield self.translate(["the cat"])[0]
        raise MTError("broke in the middle")

    monkeypatch.setattr(Translator, "stream", breaking)
    monkeypatch.setattr(Translator, "translate", lambda self, lines: self._chunk(list(lines)))
    outcome = run("input=in.txt", "output=out.txt", "report=report.json")
    assert outcome.code == 1 and "broke in the middle" in outcome.err
    assert Path("out.txt").read_bytes() == b"precious\n"
    assert everything_but_runs() - {".hydra"} == {"in.txt", "out.txt"}


def test_a_full_disk_is_an_error_and_no_shorter_file(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    write("in.txt", b"the cat\nthe dog\n")
    write("out.txt", b"precious\n")

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    outcome = run("input=in.txt", "output=out.txt")
    assert outcome.code == 1 and "output=out.txt: No space left on device" in outcome.err
    assert Path("out.txt").read_bytes() == b"precious\n"
    assert everything_but_runs() - {".hydra"} == {"in.txt", "out.txt"}


def test_invalid_utf8(run: Run) -> None:
    content = b"the cat\ncaf\xe9 today\nthe dog\n"
    write("in.txt", content)
    write("out.txt", b"precious\n")
    for outcome in (run("input=in.txt", "output=out.txt"), run("output=out.txt", stdin=content)):
        assert outcome.code == 1 and "line 2" in outcome.err and "0xE9" in outcome.err
        assert Path("out.txt").read_bytes() == b"precious\n"
    replaced = run("invalid_utf8=replace", stdin=content)
    assert replaced.code == 0 and len(replaced.lines) == 3
    assert run("invalid_utf8=replace", "input=in.txt").out == replaced.out


def test_what_is_cleaned_in_a_pipe_is_counted_and_said_as_for_a_file(run: Run) -> None:
    content = b"\xef\xbb\xbfthe cat\r\ncaf\xe9 today\nthe\x00 dog\x07\nfine\n"
    write("in.txt", content)
    by_file = run("invalid_utf8=replace", "input=in.txt", "report=file.json")
    by_pipe = run("invalid_utf8=replace", "report=pipe.json", stdin=content)
    assert by_pipe.out == by_file.out
    counts = {}
    for name, outcome, place in (("file", by_file, "in.txt"), ("pipe", by_pipe, "<stdin>")):
        assert f"{place}: 1 line with invalid UTF-8" in outcome.err
        assert f"{place}: 1 line with control characters (3)" in outcome.err
        assert f"{place}: 1 byte order mark removed" in outcome.err
        counts[name] = json.loads(Path(f"{name}.json").read_text(encoding="utf-8"))["input"]
        assert counts[name].pop("path") == place
    del counts["file"]["sha256"]
    assert counts["pipe"] == counts["file"]
    assert counts["pipe"] == {
        "lines": 4, "crlf": 1, "control": 1, "control_first": [3], "bom": 1, "replaced": 1
    }  # fmt: skip


def test_an_output_link_or_device_is_not_replaced(run: Run) -> None:
    write("real.txt", b"")
    os.symlink("real.txt", "link.txt")
    assert run("output=link.txt", "--", "the cat").code == 0
    assert Path("link.txt").is_symlink() and Path("real.txt").read_bytes()
    assert run("output=/dev/null", "--", "the cat").code == 0
    assert not Path("/dev/null").is_file()


class Typist:
    """Types prepared lines at the prompt."""

    def __init__(self, *lines: str | BaseException) -> None:
        self.lines = list(lines)
        self.prompts: list[str] = []

    def __call__(self, prompt: str = "") -> str:
        self.prompts.append(prompt)
        line = self.lines.pop(0)
        if isinstance(line, BaseException):
            raise line
        return line


@pytest.mark.parametrize(("end", "code"), [(EOFError(), 0), (KeyboardInterrupt(), 130)])
def test_typing(run: Run, monkeypatch: pytest.MonkeyPatch, end: BaseException, code: int) -> None:
    expected = run(stdin=b"the cat\n\nthe dog\n").lines
    monkeypatch.setattr(translate, "_is_terminal", lambda stream: stream is sys.stdin)
    monkeypatch.setattr(builtins, "input", Typist("the cat", "", "the dog", end))
    outcome = run()
    assert outcome.code == code and outcome.lines == expected
    assert outcome.err.count("fr-en> ") == 4 and "Ctrl-D" in outcome.err and "Traceback" not in outcome.err
    typist = Typist("the cat", end)
    monkeypatch.setattr(translate, "_is_terminal", lambda stream: True)
    monkeypatch.setattr(builtins, "input", typist)
    assert run().code == code and typist.prompts == ["fr-en> "] * 2


def test_input_dash_on_a_terminal_reads_lines(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(translate, "_is_terminal", lambda stream: True)
    assert len(run("input=-", stdin=b"the cat\nthe dog\n").lines) == 2


def program(*words: str, **options: Any) -> subprocess.Popen[bytes]:
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(REPOSITORY), "OMP_NUM_THREADS": "1"}
    environment |= options.pop("env", {})
    return subprocess.Popen(
        [sys.executable, "-m", "mt.translate", *words],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # ignored by tests in the background
        **options,
    )  # fmt: skip


def test_a_program_that_waits_for_each_answer_gets_it(run: Run) -> None:
    """A coprocess: the output is that for a file, line by line."""
    lines = [*SENTENCES[:3], "", SENTENCES[3]]
    expected = run(stdin="".join(f"{line}\n" for line in lines).encode()).lines
    process = program()
    assert process.stdin is not None and process.stdout is not None
    try:
        for line, answer in zip(lines, expected, strict=True):
            process.stdin.write(f"{line}\n".encode())
            process.stdin.flush()
            assert process.stdout.readline().decode("utf-8") == f"{answer}\n"
        process.stdin.write(b"first line\nlast")
        out, _ = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == 0 and out.count(b"\n") == 2


def test_a_locale_without_utf8(run: Run, place: Path) -> None:
    """The same bytes, from text, from a file with é in its name, and from a pipe."""
    source = "größe aus köln\nÇa va\n日本\n".encode()
    expected = run("format=jsonl", stdin=source).out
    plain = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    write("café.txt", source)
    out, err = program("format=jsonl", "input='café.txt'", env=plain).communicate(timeout=100)
    assert out == expected and b"Traceback" not in err
    out, err = program("--", "größe aus", "köln", env=plain).communicate(timeout=100)
    assert out.decode("utf-8") == json.loads(expected.split(b"\n")[0])["translation"] + "\n"


@pytest.mark.slow
def test_signals_and_pipes_that_close(place: Path) -> None:
    for number, code in ((signal.SIGINT, 130), (signal.SIGTERM, 143)):
        process = program("output=out.txt")
        assert process.stdin is not None
        process.stdin.write(b"the cat\n")
        process.stdin.flush()
        end = time.monotonic() + 60
        while not list(Path().glob(".out.txt.*.partial")) and time.monotonic() < end:
            time.sleep(0.1)
        time.sleep(1.0)
        process.send_signal(number)
        _, err = process.communicate(timeout=60)
        assert process.returncode == code and b"Traceback" not in err
        assert not list(Path().glob("*out.txt*"))
    process = program()
    assert process.stdin is not None and process.stdout is not None
    process.stdout.close()
    process.stdin.write(b"the cat\n" * 3000)
    process.stdin.close()
    process.wait(timeout=100)
    assert process.stderr is not None and b"Traceback" not in process.stderr.read()


def test_a_heatmap_of_the_text_after_the_dashes(run: Run) -> None:
    plain = run("--", "the cat sleeps")
    for name in ("look.png", "look.html"):
        outcome = run(f"heatmap={name}", "--", "the cat sleeps")
        assert outcome.code == 0 and outcome.out == plain.out and name in outcome.err
    assert Path("look.png").read_bytes().startswith(b"\x89PNG")
    page = Path("look.html").read_text(encoding="utf-8")
    assert page.startswith("<!doctype html>") and '"source":"the cat sleeps"' in page
    assert run("heatmap=[both.png,both.html]", "--", "the cat sleeps").code == 0
    assert Path("both.html").read_text(encoding="utf-8") == page


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["heatmap=a.svg", "--", "the cat"], "heatmap=a.svg: must end in .png or .html"),
        (["heatmap=no/a.png", "--", "the cat"], "heatmap=no/a.png: there is no folder no"),
        (["heatmap=a.png"], "heatmap=a.png: draws one sentence; give it after --"),
        (["heatmap=a.png", "--", " \u200b "], "heatmap=a.png: draws one sentence"),
    ],
)
def test_a_heatmap_that_cannot_be_drawn(run: Run, words: list[str], said: str) -> None:
    outcome = run(*words, stdin=b"the cat\n")
    assert outcome.code == 2 and said in outcome.err and not outcome.out
    assert everything_but_runs() == set()


def test_alignments_of_every_line(run: Run) -> None:
    lines = [*SENTENCES, "", SENTENCES[0]]
    write("in.txt", "".join(f"{line}\n" for line in lines).encode())
    plain = run("input=in.txt")
    files = "alignments=[a.pharaoh,a.json,a.jsonl,a.npz]"
    outcome = run("input=in.txt", files)
    assert outcome.code == 0 and outcome.out == plain.out and "a.npz" in outcome.err
    links = Path("a.pharaoh").read_text(encoding="utf-8").split("\n")[:-1]
    assert len(links) == len(lines) and links[-2] == "" and links[-1] == links[0]
    for link, line, translation in zip(links, lines, outcome.lines, strict=True):
        pairs = [tuple(map(int, word.split("-"))) for word in link.split()]
        assert all(s < len(line.split()) and t < len(translation.split()) for s, t in pairs)
    records = json.loads(Path("a.json").read_text(encoding="utf-8"))
    assert [record["words"]["source"][:-1] for record in records] == [line.split() for line in lines]
    # By a pipe, from the words themselves, and with pairs batched otherwise: the same.
    assert run("alignments=b.txt", stdin=Path("in.txt").read_bytes()).out == plain.out
    assert Path("b.txt").read_bytes() == Path("a.pharaoh").read_bytes()
    assert run("alignments=c.align", "--", lines[0]).code == 0
    assert Path("c.align").read_text(encoding="utf-8") == f"{links[0]}\n"


def test_layer_and_head_choose_the_weights(run: Run) -> None:
    def weights(*words: str) -> Any:
        assert run("alignments=a.json", *words, "--", "the cat sleeps").code == 0
        [record] = json.loads(Path("a.json").read_text(encoding="utf-8"))
        return torch.tensor(record["words"]["weights"])

    every, mean = weights("layer=all", "head=all"), weights()
    assert every.shape[:2] == (1, 2)
    assert torch.allclose(every.mean((0, 1)), mean, atol=2e-6)
    assert torch.equal(weights("layer=1", "head=2"), every[0, 1])
    assert not torch.equal(every[0, 0], every[0, 1])
    for name, words in (("a.png", []), ("b.png", ["head=1"])):
        assert run(f"heatmap={name}", *words, "--", "the cat sleeps").code == 0
    assert Path("a.png").read_bytes() != Path("b.png").read_bytes()


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (
            ["alignments=a.svg"],
            2,
            "alignments=a.svg: must end in .pharaoh, .align, .txt, .jsonl, .json, .npz",
        ),
        (["alignments=no/a.json"], 2, "alignments=no/a.json: there is no folder no"),
        (["alignments=/proc/a.json"], 2, "alignments=/proc/a.json: cannot be written"),
        (["heatmap=/proc/a.png", "--", "the cat"], 2, "heatmap=/proc/a.png: cannot be written"),
        (["alignments=runs"], 2, "must end in"),
        (["alignments=a.txt", "head=all"], 2, "a.txt: links are of one layer and head"),
        (["alignments=a.json", "head=3"], 2, "head=3: the model has 2 heads; take 1 to 2, mean or all"),
        (["alignments=a.json", "layer=first"], 2, "layer=first: must be mean, all, or a number from 1"),
        (["layer=1"], 2, "layer=1 is not read with neither"),
        (["heatmap=a.html", "head=1", "--", "the cat"], 2, "head=1 is not read with"),
        (["alignments=a.txt", "output=a.txt"], 2, "output and alignments are the same file"),
        (["alignments=[a.txt,./a.txt]"], 2, "alignments names a file twice"),
        (["alignments=a.txt", "run=runs/R"], 1, "alignments: runs/R is a model without attention"),
        (["heatmap=a.png", "run=runs/R", "--", "the cat"], 1, "heatmap: runs/R is a model without attention"),
    ],
)
def test_alignments_that_cannot_be_written(
    run: Run, words: list[str], code: int, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if "run=runs/R" in words:
        write_run(Path("runs/R"), tiny_tokenizer(70), recurrent=True)

    def never(*_: Any) -> None:
        raise AssertionError("translated")

    monkeypatch.setattr(Translator, "stream", never)
    outcome = run(*words, stdin=b"the cat\n")
    assert outcome.code == code and said in outcome.err and not outcome.out
    assert everything_but_runs() == set()


def test_what_is_typed_leaves_no_alignments(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(translate, "_is_terminal", lambda stream: stream is sys.stdin)
    outcome = run("alignments=a.txt")
    assert outcome.code == 2 and "alignments=a.txt: what is typed leaves no file" in outcome.err
    assert everything_but_runs() == set()


def test_alignments_are_whole_or_absent(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    write("a.pharaoh", b"before\n")
    outcome = run("alignments=[a.pharaoh,b.npz,c.json]", stdin=b"the cat\ncaf\xe9\n")
    assert outcome.code == 1 and "line 2: byte 0xE9" in outcome.err
    assert everything_but_runs() == {"a.pharaoh"} and Path("a.pharaoh").read_bytes() == b"before\n"
