"""What is told, to whom, and that nothing is told twice after a resume."""

from __future__ import annotations

import json
import logging
import math
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from mt.training import tracking
from mt.training.reporting import Reporter
from mt.training.signals import Interrupted
from mt.training.tracking import MetricsFile, Sample, TensorBoard, Tracker, duration
from mt.training.trainer import Trainer, train
from tests.training.world import lines, small, terminate


def events(folder: Path) -> Any:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    reader = EventAccumulator(str(folder), size_guidance={"scalars": 0, "images": 0, "tensors": 0})
    reader.Reload()
    return reader


def test_a_run_with_everything_in_tensorboard_and_a_resume(
    prepared: Any, tmp_path: Path, monkeypatch
) -> None:
    """Case 70: after filtering as TensorBoard does, each tag has each step once; all kinds are there."""
    config = small(training__tensorboard=True, training__samples=2, training__log_every_steps=1)
    with monkeypatch.context() as patch:
        # Told up to step 7, saved at step 4: steps 5 to 7 are done again.
        original = Reporter.log

        def dies(self: Reporter, rate: float) -> None:
            original(self, rate)
            if self.progress.step == 7:
                raise MemoryError

        patch.setattr(Reporter, "log", dies)
        with pytest.raises(MemoryError):
            train(config, tmp_path / "run")
    train(config, tmp_path / "run")
    reader = events(tmp_path / "run" / "tensorboard")
    tags = reader.Tags()
    for tag in tags["scalars"]:
        steps = [event.step for event in reader.Scalars(tag)]
        assert len(steps) == len(set(steps)), tag
    assert [event.step for event in reader.Scalars("train/loss")] == list(range(1, 9))
    assert {
        "train/loss", "train/learning_rate", "train/gradient_norm", "train/tokens_per_second",
        "train/padding_waste", "train/loader_wait_share", "valid/loss", "valid/bleu", "valid/perplexity",
        "final/bleu",
    } <= set(tags["scalars"])  # fmt: skip
    told = {line["step"]: line["loss"] for line in lines(tmp_path / "run") if line["kind"] == "train"}
    shown = {event.step: event.value for event in reader.Scalars("train/loss")}
    assert shown == pytest.approx(told)
    assert tags["images"] and all(tag.startswith("attention/") for tag in tags["images"])
    assert any(tag.startswith("samples/1") for tag in tags["tensors"])
    assert "_hparams_/session_start_info" in reader.summary_metadata


def test_metrics_file_is_json_without_nan(tmp_path: Path) -> None:
    sink = MetricsFile(tmp_path / "m.jsonl", 0)
    sink.record("valid", 3, {"loss": math.nan, "bleu": 1.5, "other": math.inf})
    sink.close()
    line = json.loads((tmp_path / "m.jsonl").read_text(encoding="utf-8"), parse_constant=pytest.fail)
    assert line == {"kind": "valid", "step": 3, "loss": None, "bleu": 1.5, "other": None}


@pytest.mark.parametrize(
    "junk", ["", "\n", "{", "null\n", "[1]\n", '{"kind": 1}\n', '{"step": "a", "kind": "train"}\n']
)
def test_metrics_file_is_cut_at_the_checkpoint(tmp_path: Path, junk: str) -> None:
    path = tmp_path / "m.jsonl"
    entries = [("train", 1), ("train", 2), ("valid", 2), ("train", 3), ("final", 2)]
    path.write_text(
        "".join(json.dumps({"kind": k, "step": n}) + "\n" for k, n in entries) + junk, encoding="utf-8"
    )
    sink = MetricsFile(path, 2)
    sink.record("train", 3, {})
    sink.close()
    got = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    assert [(g["kind"], g["step"]) for g in got] == [("train", 1), ("train", 2), ("valid", 2), ("train", 3)]


def test_tensorboard_and_matplotlib_are_loaded_only_when_used(prepared: Any, tmp_path: Path) -> None:
    import subprocess

    names = "('tensorboard', 'matplotlib', 'rich')"
    code = f"import sys, mt.training.trainer; print([m for m in {names} if m in sys.modules])"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert out.strip() == "[]"


def test_pictures_are_made_only_for_those_who_show_them(tmp_path: Path) -> None:
    assert not Tracker([MetricsFile(tmp_path / "m", 0)]).pictures
    board = TensorBoard(tmp_path / "t", 0)
    assert Tracker([board]).pictures
    board.close()


def test_text_of_samples_cannot_become_markup(tmp_path: Path) -> None:
    board = TensorBoard(tmp_path, 0)
    board.samples(1, [Sample("# a <b>", "x", "![](http://y)")])
    board.close()
    reader = events(tmp_path)
    (tag,) = reader.Tags()["tensors"]
    text = reader.Tensors(tag)[0].tensor_proto.string_val[0].decode()
    assert all(line.startswith("    ") for line in text.split("\n"))


def test_one_line_says_what_matters() -> None:
    line = tracking.describe(
        "train",
        50,
        {"epoch": 1.5, "loss": 2.0, "perplexity": 5.0, "tokens_per_second": 4000.0, "skipped_updates": 0},
    )
    assert line == "step 50 (epoch 1.50) loss 2.000, perplexity 5.00, 4,000 tokens/s"
    assert "2 updates skipped" in tracking.describe("train", 50, {"skipped_updates": 2})


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0.2, "0 s"), (59.4, "59 s"), (200, "3 min 20 s"), (7500, "2 h 05 min"), (-3, "0 s")],
)
def test_durations(seconds: float, words: str) -> None:
    assert duration(seconds) == words


def test_the_bar_takes_log_lines_above_it_and_gives_the_terminal_back(monkeypatch) -> None:
    import io

    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("TERM", "xterm")
    assert tracking.show_bar(True) and not tracking.show_bar(False)
    handler = logging.StreamHandler(terminal)
    logger = logging.getLogger("mt")
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        bar = tracking.ProgressBar()
        bar.update(7, 0.5, "loss 1.000")
        logger.info("a validation")
        logger.info("step 7 loss 1.000", extra={"bar": True})
        bar.close()
        assert handler.stream is terminal and not handler.filters
    finally:
        logger.removeHandler(handler)
        logger.setLevel(logging.NOTSET)
    text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", terminal.getvalue())
    assert "a validation" in text and "step 7" in text and "50%" in text and "step 7 loss" not in text


def test_a_bar_does_not_outlive_an_interrupt(prepared: Any, tmp_path: Path, monkeypatch) -> None:
    closed: list[bool] = []

    class Bar:
        def update(self, *_: Any) -> None: ...

        def close(self) -> None:
            closed.append(True)

    monkeypatch.setattr(tracking, "show_bar", lambda wanted: True)
    monkeypatch.setattr(tracking, "ProgressBar", Bar)
    update = Trainer._update
    monkeypatch.setattr(Trainer, "_update", lambda s, b: (update(s, b), terminate(s))[0])
    with pytest.raises(Interrupted):
        train(small(), tmp_path / "run")
    assert closed == [True]
