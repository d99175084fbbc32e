"""Case 73: a disk that is full, a quota, a limit: what was saved stays, and with room the run goes on."""

from __future__ import annotations

import errno
import multiprocessing
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch._dynamo  # every optimizer imports it: once here instead of once in each process
from safetensors import SafetensorError

from mt.errors import CheckpointError, MTError
from mt.models.storage import ModelFacts
from mt.training import checkpoint
from mt.training.run_folder import log_file
from mt.training.tracking import MetricsFile
from mt.training.trainer import train
from tests.training.test_crashes import same_end
from tests.training.test_torchrun import ROOT, corpus
from tests.training.world import small

# The files of a checkpoint, and which argument makes each of them the largest.
LARGEST = {
    "model.safetensors": "model",
    "optimizer.safetensors": "optimizer",
    "model.json": "origin",
    "state.json": "state",
    "manifest.json": "nothing",
}


def saved(folder: Path, step: int, largest: str = "nothing") -> Path:
    """A checkpoint in which the file that `largest` is about has 4,000 bytes more than it needs."""
    more = {name: 1 if name == largest else 0 for name in LARGEST.values()}
    return checkpoint.save(
        folder,
        step,
        model={"w": torch.full((1 + 1000 * more["model"],), float(step))},
        optimizer={"exp_avg.w": torch.arange(1.0 + 1000 * more["optimizer"])},
        facts=ModelFacts("0" * 8, 7, 7, origin="x" * 4000 * more["origin"]),
        state={"step": step, "more": "x" * 4000 * more["state"]},
    )


def with_limit(limit: int, work: Callable[[], Any]) -> BaseException | None:
    """What `work` raised in a process that may write no file of more bytes than `limit` (``ulimit -f``).

    The system refuses at exactly this byte, whoever writes: safetensors does it without Python.
    """
    import resource

    context = multiprocessing.get_context("fork")
    queue: Any = context.SimpleQueue()

    def child() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # as Python does: then a write fails with EFBIG
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
        try:
            work()
            queue.put(None)
        except Exception as error:
            queue.put(error if isinstance(error, (MTError, OSError)) else RuntimeError(repr(error)))

    process = context.Process(target=child, daemon=True)
    process.start()
    raised: BaseException | None = queue.get()
    process.join()
    return raised


def no_room(number: int) -> str:
    """The message, in the system's words."""
    return rf"no space left for .*step-00000002, which needs .* MB \({os.strerror(number)}\)"


@pytest.mark.parametrize("name", LARGEST)
def test_the_disk_fills_up_at_any_byte_of_any_file(tmp_path: Path, name: str) -> None:
    largest = LARGEST[name]
    trial = saved(tmp_path / "trial", 2, largest)
    sizes = sorted(path.stat().st_size for path in trial.iterdir())
    assert (trial / name).stat().st_size == sizes[-1]
    saved(tmp_path / "run", 1, largest)
    for limit in (0, sizes[-2], sizes[-2] + 1, (sizes[-2] + sizes[-1]) // 2, sizes[-1] - 1):
        raised = with_limit(limit, lambda: saved(tmp_path / "run", 2, largest))
        assert isinstance(raised, CheckpointError)
        assert "no space left for" in str(raised) and "step-00000002, which needs" in str(raised)
        assert [path.name for path in (tmp_path / "run").iterdir()] == ["step-00000001"]
        assert checkpoint.load(tmp_path / "run" / "step-00000001").step == 1
    assert with_limit(sizes[-1], lambda: saved(tmp_path / "run", 2, largest)) is None
    assert checkpoint.load(tmp_path / "run" / "step-00000002").step == 2


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
@pytest.mark.parametrize("name", ["model.json", "state.json", "manifest.json"])
@pytest.mark.parametrize("offset", [0, 1, 57])
def test_no_space_or_quota_at_a_byte_of_what_python_writes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, name: str, offset: int
) -> None:
    saved(tmp_path, 1, "state")
    opened = Path.open

    class Full:
        def __init__(self, file: Any) -> None:
            self.file = file

        def __enter__(self) -> Full:
            return self

        def __exit__(self, *rest: Any) -> None:
            self.file.close()

        def write(self, content: bytes) -> int:
            self.file.write(content[:offset])
            raise OSError(number, os.strerror(number))

    def open_(path: Path, mode: str = "r", *rest: Any, **options: Any) -> Any:
        file = opened(path, mode, *rest, **options)
        return Full(file) if mode == "xb" and path.name.startswith(f".{name}.") else file

    monkeypatch.setattr(Path, "open", open_)
    with pytest.raises(CheckpointError, match=no_room(number)):
        saved(tmp_path, 2, "state")
    assert [path.name for path in tmp_path.iterdir()] == ["step-00000001"]


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
@pytest.mark.parametrize("name", ["model.safetensors", "optimizer.safetensors"])
def test_no_space_or_quota_for_the_tensors(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, name: str
) -> None:
    """The library says what the system said, as text."""
    saved(tmp_path, 1)
    write = checkpoint.save_file

    def full(tensors: Any, path: Path, **rest: Any) -> None:
        if path.name != name:
            return write(tensors, path, **rest)
        path.write_bytes(b"\x40\0\0")
        raise SafetensorError(f"I/O error: {os.strerror(number)} (os error {number})")

    monkeypatch.setattr(checkpoint, "save_file", full)
    with pytest.raises(CheckpointError, match=no_room(number)):
        saved(tmp_path, 2)
    assert [path.name for path in tmp_path.iterdir()] == ["step-00000001"]


# --- whole runs ---


def test_whichever_file_of_a_run_does_not_fit_it_goes_on_when_there_is_room(
    prepared: Any, tmp_path: Path
) -> None:
    config = small(
        training__max_steps=4, training__save_every_steps=1, training__validate_every_steps=2,
        training__log_every_steps=1, training__tensorboard=True,
    )  # fmt: skip
    train(config, tmp_path / "unbroken")
    sizes = {path.stat().st_size for path in (tmp_path / "unbroken").rglob("*") if path.is_file()}
    for number, limit in enumerate(sorted(size - 1 for size in sizes if size)):
        folder = tmp_path / str(number)
        raised = with_limit(limit, lambda folder=folder: train(config, folder))
        assert raised is None or isinstance(raised, (MTError, OSError)), raised
        if isinstance(raised, OSError):
            assert raised.errno == errno.EFBIG and raised.filename
        train(config, folder)
        same_end(tmp_path / "unbroken", folder)


def test_a_log_that_cannot_grow_is_given_up_with_one_warning(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    import logging

    def work() -> None:
        logging.getLogger("mt").addHandler(logging.StreamHandler())
        with log_file(tmp_path):
            for number in range(40):
                logging.getLogger("mt.training").warning("line %d", number)

    assert with_limit(500, work) is None
    err = capfd.readouterr().err
    assert err.count("cannot be written any more (File too large)") == 1
    assert "line 39" in err and "Traceback" not in err and "Logging error" not in err


def test_metrics_that_do_not_fit_end_with_the_path_and_leave_whole_lines(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"

    def work() -> None:
        file = MetricsFile(path, 0)
        try:
            for step in range(1, 100):
                file.record("train", step, {"loss": 1.5})
        finally:
            file.close()

    raised = with_limit(1000, work)
    assert isinstance(raised, CheckpointError) and f"no space left for {path}" in str(raised)
    MetricsFile(path, 1000).close()
    lines = path.read_text(encoding="utf-8").splitlines()
    assert len(lines) > 10 and all(line.endswith("}") for line in lines)


def train_on_a_disk(tmp_path: Path, disk: str) -> tuple[int, str]:
    """Exit code and standard error of a run in ``disk/run``, on a file system that is mounted with options.

    The run is copied to ``copy`` before the file system goes.
    """
    words = [
        *corpus(tmp_path / "corpus"), "training.max_steps=30", "training.save_every_steps=10",
        "training.keep_last=3", "run=disk/run",
    ]  # fmt: skip
    (tmp_path / "disk").mkdir()
    script = f'mount -t tmpfs -o {disk} tmpfs disk || exit 77; "$@"; code=$?; cp -r disk/run copy; exit $code'
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    command = ["unshare", "-Urm", "sh", "-c", script, "sh", sys.executable, "-m", "mt.train", *words]
    found = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    if found.returncode == 77 or "unshare" in found.stderr:
        pytest.skip("no file system can be mounted here")
    assert "Traceback" not in found.stderr
    return found.returncode, found.stderr


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.skipif(shutil.which("unshare") is None, reason="needs a file system of its own")
@pytest.mark.parametrize("share", [2, 6, 9])
def test_a_real_full_disk_ends_the_command_and_leaves_what_was_saved(tmp_path: Path, share: int) -> None:
    (tmp_path / "whole").mkdir()
    assert train_on_a_disk(tmp_path / "whole", "size=100m")[0] == 0
    size = sum(path.stat().st_size for path in (tmp_path / "whole" / "copy").rglob("*") if path.is_file())
    code, err = train_on_a_disk(tmp_path, f"size={size * share // 10}")
    assert code == 1 and re.search("error: .*[Nn]o space left", err), err
    checkpoints = tmp_path / "copy" / "checkpoints"
    assert not list(checkpoints.glob(".tmp*"))
    assert (checkpoint.newest_valid(checkpoints) is not None) == (share > 2)


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("unshare") is None, reason="needs a file system of its own")
def test_a_read_only_disk_is_an_error_at_the_start(tmp_path: Path) -> None:
    code, err = train_on_a_disk(tmp_path, "ro")
    assert code == 1
    assert "error: cannot write into disk/run: Read-only file system; choose another folder with run=" in err
    assert "training a unigram tokenizer" not in err
