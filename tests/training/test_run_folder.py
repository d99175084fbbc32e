"""Names, owners and refusals of run folders."""

from __future__ import annotations

import json
import logging
import multiprocessing
import os
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from mt.config.fields import assign, options, value_of
from mt.config.run_config import NOT_THE_RESULT, config_hash, save_config
from mt.config.schema import CorpusKind, TrainConfig
from mt.errors import CheckpointError, ConfigError
from mt.training.run_folder import check_same_run, check_usable, log_file, may_change, owned, run_folder_for
from mt.training.trainer import train
from tests.training.world import lines, small


def test_the_folder_is_resume_then_run_then_a_name(tmp_path: Path) -> None:
    config = small(data__kind=CorpusKind.multi30k, runs=str(tmp_path))
    assert run_folder_for(config) == tmp_path / f"multi30k-fr-en-{config_hash(config)}"
    config.run = "mine"
    assert run_folder_for(config) == Path("mine")
    config.resume = "other"
    assert run_folder_for(config) == Path("other")


def another(value: Any, key: str) -> Any:
    """A value that differs."""
    kind = options(TrainConfig)[key].kind
    if kind is bool:
        return not value
    if kind in (int, float):
        return (value or 1) + 1
    return f"{value}x"


@pytest.mark.parametrize("key", sorted(NOT_THE_RESULT))
def test_what_may_always_change_has_no_part_in_the_name(key: str, tmp_path: Path) -> None:
    """Else the same folder would be refused to a command that means the same run."""
    config, changed = small(), small()
    assign(changed, key, another(value_of(config, key), key))
    assert config_hash(config) == config_hash(changed)
    changed.resume = None
    assert check_same_run(config, changed, tmp_path) == {}


def test_the_checkpoints_to_average_may_change_with_resume_only(tmp_path: Path) -> None:
    average = {"training__average_last": 2}
    changed = small(**average, training__save_every_steps=2)
    with pytest.raises(ConfigError, match=r"save_every_steps is null in the run, 2 was given; resume="):
        check_same_run(small(**average), changed, tmp_path)
    changed.resume = "x"
    assert set(check_same_run(small(**average), changed, tmp_path)) == {"training.save_every_steps"}


def test_what_shapes_the_weights_never_changes() -> None:
    for key in options(TrainConfig):
        if key.startswith(("model.", "attention.", "optimizer.", "schedule.")) or key == "seed":
            assert not may_change(key)
    for key in ("batch_tokens", "accumulate", "label_smoothing", "clip_norm", "precision", "ema_decay"):
        assert not may_change(f"training.{key}")


def test_differences_are_all_named_with_a_way_out(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as error:
        check_same_run(small(), small(model__width=32, seed=5), tmp_path)
    assert len(error.value.problems) == 2 and "run=..." in str(error.value)
    with pytest.raises(ConfigError, match="give resume= to take it over"):
        check_same_run(small(), small(training__patience=3), tmp_path)
    patient = small(training__patience=3, resume="x")
    assert set(check_same_run(small(), patient, tmp_path)) == {"training.patience"}


def test_the_advice_to_one_who_resumes_can_be_followed(prepared: Any, tmp_path: Path) -> None:
    """Another folder is none: resume= says which one, and goes with no run=."""
    folder = tmp_path / "run"
    train(small(training__max_steps=2, training__validate_every_steps=2), folder)
    with pytest.raises(ConfigError) as error:
        train(small(training__max_steps=3, model__width=32, resume=str(folder)), folder)
    message = str(error.value)
    assert f"resume={folder}" in message and "model.width is 16 in the run, 32 was given" in message
    assert "leave it out" in message and "without resume=" in message and "run=..." not in message
    more = small(training__max_steps=3, training__validate_every_steps=2, resume=str(folder))
    assert train(more, folder).step == 3


@pytest.mark.parametrize("name", ["thesis.tex", "model.safetensors", "checkpoints"])
def test_a_folder_of_something_else_is_refused_and_untouched(
    prepared: Any, tmp_path: Path, name: str
) -> None:
    (tmp_path / name).write_text("mine", encoding="utf-8")
    with pytest.raises(CheckpointError, match=rf"not empty and holds no run \(it has {name}"):
        train(small(), tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_a_file_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "run").write_text("", encoding="utf-8")
    with pytest.raises(CheckpointError, match="is a file"):
        check_usable(tmp_path / "run")


def test_an_empty_folder_and_a_run_can_be_used(tmp_path: Path) -> None:
    check_usable(tmp_path / "not there")
    check_usable(tmp_path)
    save_config(small(), tmp_path / "config.yaml")
    (tmp_path / "notes.txt").write_text("mine", encoding="utf-8")
    check_usable(tmp_path)


def test_a_run_that_never_began_leaves_no_folder(tmp_path: Path) -> None:
    """The data is not there: the next attempt must find an empty place."""
    with pytest.raises(Exception, match=r"train\.fr"):
        train(small(run=str(tmp_path / "a" / "run")), tmp_path / "a" / "run")
    assert not (tmp_path / "a" / "run").exists()


HOLD = """
import sys, time
from pathlib import Path
from mt.training.run_folder import owned
with owned(Path(sys.argv[1])):
    print("owned", flush=True)
    time.sleep(60)
"""


def test_two_processes_one_folder(tmp_path: Path) -> None:
    """Case 54: the second ends at once with the owner's number; after kill -9 of the first it may go on."""
    first = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path / "run")], stdout=subprocess.PIPE, text=True
    )
    try:
        assert first.stdout is not None and first.stdout.readline() == "owned\n"
        with pytest.raises(CheckpointError, match=rf"process {first.pid} on "), owned(tmp_path / "run"):
            pytest.fail("two owners")
        first.kill()
        first.wait()
        with owned(tmp_path / "run"):
            content = json.loads((tmp_path / "run" / ".lock").read_text(encoding="utf-8"))
            assert content["process"] == os.getpid()
    finally:
        first.kill()
        first.wait()
        if first.stdout is not None:
            first.stdout.close()


def content(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_two_runs_started_in_one_folder(prepared: Any, tmp_path: Path, at_step: Any) -> None:
    """Case 54: the second changes nothing, and goes on with the first one's run once that was killed."""
    context = multiprocessing.get_context("fork")
    reached = context.Event()

    def wait_here(_: Any) -> None:
        reached.set()
        time.sleep(60)

    def first() -> None:
        at_step(5, wait_here)
        train(small(), tmp_path / "same")

    process = context.Process(target=first, daemon=True)
    process.start()
    try:
        assert reached.wait(60)
        before = content(tmp_path / "same")
        where = rf"process {process.pid} on {socket.gethostname()} is training in"
        for config in (small(), small(resume=str(tmp_path / "same"))):
            with pytest.raises(CheckpointError, match=where):
                train(config, tmp_path / "same")
        with pytest.raises(ConfigError, match="holds another run: seed is 1"):
            train(small(seed=2), tmp_path / "same")
        assert content(tmp_path / "same") == before
    finally:
        process.kill()
        process.join()
    assert train(small(), tmp_path / "same").step == 8
    train(small(), tmp_path / "alone")
    assert lines(tmp_path / "same") == lines(tmp_path / "alone")


def test_a_folder_that_cannot_be_written_is_an_error_at_the_start(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    with (
        pytest.raises(CheckpointError, match=r"cannot write into .*run=\.\.\."),
        owned(tmp_path / "file" / "run"),
    ):
        pass


def test_the_log_file_gets_what_is_logged_and_levels_are_restored(tmp_path: Path) -> None:
    logger = logging.getLogger("mt")
    before = logger.level, list(logger.handlers)
    with log_file(tmp_path):
        logging.getLogger("mt.training").info("grüße")
        logging.getLogger("mt.training").debug("not this")
    logging.getLogger("mt.training").warning("nor this")
    text = (tmp_path / "train.log").read_text(encoding="utf-8")
    assert "grüße" in text and "not this" not in text and "nor this" not in text
    assert (logger.level, list(logger.handlers)) == before
