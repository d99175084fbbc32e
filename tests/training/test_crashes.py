"""kill -9 at random moments, disks that lose or refuse what is written: nothing that was saved is lost."""

from __future__ import annotations

import errno
import logging
import multiprocessing
import os
import random
import shutil
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import torch._dynamo  # every optimizer imports it: once here instead of once in each process

from mt.config.schema import Precision, TokenizerConfig
from mt.data.tokenizer import train_tokenizer
from mt.errors import CheckpointError
from mt.models.storage import ModelFacts
from mt.training import checkpoint
from mt.training import trainer as trainer_module
from mt.training.trainer import train
from tests.training.test_resume import files
from tests.training.world import lines, pairs, prepared_from, small

FACTS = ModelFacts("0" * 64, 7, 7)


# --- kill -9 ---


def config(prefetch: int) -> Any:
    """All that has a state, in one run that saves often."""
    return small(
        training__max_steps=30, training__save_every_steps=2, training__validate_every_steps=7,
        training__accumulate=2, training__ema_decay=0.9, training__subword_dropout=0.2, training__patience=50,
        training__precision=Precision.bf16, training__prefetch_batches=prefetch, training__keep_last=3,
        model__dropout=0.3, model__attention_dropout=0.1,
    )  # fmt: skip


@pytest.fixture
def falling_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """A corpus with pieces that subword dropout can take apart."""
    tokenizer = train_tokenizer(TokenizerConfig(vocab_size=330), *pairs(40, 0))
    made = prepared_from(tokenizer, pairs(40, 0), pairs(6, 1))
    monkeypatch.setattr(trainer_module, "prepare", lambda *_: made)


def in_a_process(work: Callable[[], Any], kill_after: float | None) -> int | None:
    """Run in a forked process and kill it after so many seconds; its exit code (-9 when it was killed)."""
    process = multiprocessing.get_context("fork").Process(target=work, daemon=True)
    process.start()
    process.join(kill_after)
    if process.is_alive() and process.pid is not None:
        os.kill(process.pid, signal.SIGKILL)
    process.join()
    return process.exitcode


def killed_again_and_again(tmp_path: Path, prefetch: int, kills: int, seed: int) -> None:
    options = config(prefetch)
    begin = time.monotonic()
    train(options, tmp_path / "unbroken")
    whole = time.monotonic() - begin
    moments, broken = random.Random(seed), tmp_path / "broken"
    ended = 0
    for number in range(kills):
        seconds = moments.uniform(0.0, whole / 2)
        code = in_a_process(lambda: train(options, broken), seconds)
        assert code in (0, -9), f"attempt {number} ended with {code}"
        if code == 0:  # it was faster than the kill: begin anew
            ended += 1
            same_end(tmp_path / "unbroken", broken)
            shutil.rmtree(broken)
    train(options, broken)
    same_end(tmp_path / "unbroken", broken)
    assert ended < kills


def same_end(a: Path, b: Path) -> None:
    """The same weights, optimizer, list of checkpoints, best one and metrics."""
    assert checkpoint.steps(a / "checkpoints") == checkpoint.steps(b / "checkpoints")
    for step in checkpoint.steps(a / "checkpoints"):
        assert files(a, step) == files(b, step)
    assert (a / "model.safetensors").read_bytes() == (b / "model.safetensors").read_bytes()
    assert lines(a) == lines(b)
    assert not [path for path in (b / "checkpoints").iterdir() if not path.name.startswith("step-")]


def test_killed_at_random_moments_and_resumed_bit_for_bit(falling_apart: None, tmp_path: Path) -> None:
    killed_again_and_again(tmp_path, prefetch=2, kills=5, seed=1)


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("prefetch", [0, 2])
def test_killed_at_a_hundred_random_moments(falling_apart: None, tmp_path: Path, prefetch: int) -> None:
    for part in range(10):
        (tmp_path / str(part)).mkdir()
        killed_again_and_again(tmp_path / str(part), prefetch, kills=5, seed=100 * prefetch + part)


# --- a disk that forgets what was not flushed ---


class ForgetfulDisk:
    """Watches one folder: content that was never fsynced is lost when the machine goes down.

    Names are kept as they were made: the harder half is a name whose content is gone.
    """

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder = folder
        self.durable: dict[int, bytes] = {}  # inode -> content when it was flushed last
        fsync = os.fsync

        def flushed(handle: int) -> None:
            fsync(handle)
            place = Path(os.readlink(f"/proc/self/fd/{handle}"))
            if place.is_file():
                self.durable[os.fstat(handle).st_ino] = place.read_bytes()

        monkeypatch.setattr(os, "fsync", flushed)

    def power_cut(self) -> None:
        for path in self.folder.rglob("*"):
            if path.is_file():
                path.write_bytes(self.durable.get(path.stat().st_ino, b""))


def saved(folder: Path, step: int) -> Path:
    return checkpoint.save(
        folder,
        step,
        model={"w": torch.full((5000,), float(step))},
        optimizer={"exp_avg.w": torch.arange(5000.0)},
        facts=FACTS,
        state={"step": step},
    )


class PowerCut(BaseException):
    pass


CALLS = ("fsync", "rename", "replace")


@pytest.mark.parametrize("moment", range(18))
def test_a_power_cut_at_any_call_leaves_a_whole_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moment: int
) -> None:
    """While the third checkpoint is written, before the N-th call that makes anything durable."""
    monkeypatch.undo()  # the real fsync: it is the subject here
    folder = tmp_path / "checkpoints"
    disk = ForgetfulDisk(folder, monkeypatch)
    saved(folder, 1)
    saved(folder, 2)
    left = [moment]

    def counted(name: str) -> None:
        before = getattr(os, name)

        def call(*args: Any) -> Any:
            if left[0] == 0:
                raise PowerCut
            left[0] -= 1
            return before(*args)

        monkeypatch.setattr(os, name, call)

    for name in CALLS:
        counted(name)
    done = False
    try:
        saved(folder, 3)
        checkpoint.prune(folder, 2, None)
        done = True
    except PowerCut:
        pass
    monkeypatch.undo()
    disk.power_cut()
    found = checkpoint.newest_valid(folder)
    assert found is not None and found.step in ((3,) if done else (2, 3))
    assert torch.equal(found.model()["w"], torch.full((5000,), float(found.step)))


def test_the_disk_of_this_test_does_forget(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    disk = ForgetfulDisk(tmp_path, monkeypatch)
    (tmp_path / "lost").write_bytes(b"x")
    disk.power_cut()
    assert (tmp_path / "lost").read_bytes() == b""


# --- a disk that is full ---


class FullDisk:
    """Only so many bytes fit into a folder's files: the process may write no file larger than a limit."""

    @staticmethod
    def run(limit: int, work: Callable[[], None]) -> str:
        """What `work` raised, in a process with this limit."""
        import resource

        context = multiprocessing.get_context("fork")
        queue: Any = context.SimpleQueue()

        def child() -> None:
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # then a write fails with EFBIG
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
            try:
                work()
                queue.put("")
            except CheckpointError as error:
                queue.put(str(error))

        process = context.Process(target=child, daemon=True)
        process.start()
        message = queue.get()
        process.join()
        return str(message)


@pytest.mark.parametrize("limit", [0, 1, 100, 4096, 19_999, 20_100])
def test_a_file_that_cannot_become_large_enough_leaves_the_old_checkpoint(tmp_path: Path, limit: int) -> None:
    """Case 73, as `ulimit -f` does it; safetensors writes without Python."""
    saved(tmp_path, 1)
    message = FullDisk.run(limit, lambda: saved(tmp_path, 2) and None)
    assert "step-00000002" in message
    assert [path.name for path in tmp_path.iterdir()] == ["step-00000001"]
    assert checkpoint.load(tmp_path / "step-00000001").step == 1


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
@pytest.mark.parametrize("offset", [0, 1, 57, 300])
def test_no_space_or_quota_at_a_byte(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, offset: int
) -> None:
    """The disk is full after `offset` bytes of what is written after the tensors."""
    saved(tmp_path, 1)
    room = [offset]
    write = os.write

    class Full:
        def __init__(self, file: Any) -> None:
            self.file = file

        def __enter__(self) -> Full:
            return self

        def __exit__(self, *rest: Any) -> None:
            self.file.close()

        def __getattr__(self, name: str) -> Any:
            return getattr(self.file, name)

        def write(self, content: bytes) -> int:
            part = content[: room[0]]
            self.file.flush()
            write(self.file.fileno(), part)
            room[0] -= len(part)
            if len(part) < len(content):
                raise OSError(number, os.strerror(number))
            return len(content)

    opened = Path.open
    monkeypatch.setattr(
        Path,
        "open",
        lambda self, mode="r", *a, **k: (Full if mode == "xb" else lambda f: f)(opened(self, mode, *a, **k)),
    )
    with pytest.raises(CheckpointError, match=r"no space left for .*step-00000002.*MB|step-00000002"):
        saved(tmp_path, 2)
    assert [path.name for path in tmp_path.iterdir()] == ["step-00000001"]


# --- a disk that changes what it holds ---


def damages(seed: int) -> Iterator[tuple[str, Callable[[bytes], bytes | None]]]:
    """Truncation, one bit flipped, deletion, at seeded places."""
    choose = random.Random(seed)
    yield "cut", lambda content: content[: choose.randrange(len(content))]

    def flipped(content: bytes) -> bytes:
        place = choose.randrange(len(content))
        return content[:place] + bytes([content[place] ^ (1 << choose.randrange(8))]) + content[place + 1 :]

    yield "flipped", flipped
    yield "deleted", lambda content: None


@pytest.mark.parametrize("seed", range(8))
def test_damage_at_random_places_is_found(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, seed: int
) -> None:
    saved(tmp_path / "good", 1)
    saved(tmp_path / "good", 2)
    names = sorted(path.name for path in (tmp_path / "good" / "step-00000002").iterdir())
    for kind, damage in damages(seed):
        for name in names:
            folder = tmp_path / f"{kind}-{name}"
            shutil.copytree(tmp_path / "good", folder)
            path = folder / "step-00000002" / name
            content = damage(path.read_bytes())
            path.unlink() if content is None else path.write_bytes(content)
            caplog.clear()
            with caplog.at_level(logging.WARNING):
                found = checkpoint.newest_valid(folder)
            assert found is not None
            if found.step == 2:  # a bit of the manifest that says nothing: a name of case, white space
                assert name == "manifest.json" and kind == "flipped"
                assert torch.equal(found.model()["w"], torch.full((5000,), 2.0))
            else:
                assert found.step == 1 and "step-00000002" in caplog.text
