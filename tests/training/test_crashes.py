"""kill -9 at random moments, disks that lose or change what is written: nothing that was saved is lost."""

from __future__ import annotations

import json
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

from mt import files as disk_files
from mt.config.schema import Precision, TokenizerConfig, ValidMetric
from mt.data.tokenizer import train_tokenizer
from mt.models.storage import ModelFacts
from mt.training import checkpoint
from mt.training import trainer as trainer_module
from mt.training.trainer import Trainer, train
from tests.training.test_resume import counters, files
from tests.training.world import FAMILIES, lines, pairs, prepared_from, small

FACTS = ModelFacts("0" * 64, 7, 7)


# --- kill -9 ---


EVERY = 7  # updates from validation to validation


def config(family: str, prefetch: int) -> Any:
    """All that has a state, in one run that saves often."""
    return small(
        training__max_steps=60, training__save_every_steps=2, training__validate_every_steps=EVERY,
        training__valid_metric=ValidMetric.loss,
        training__accumulate=2, training__ema_decay=0.9, training__subword_dropout=0.2, training__patience=3,
        training__precision=Precision.bf16, training__prefetch_batches=prefetch, training__keep_last=3,
        model__dropout=0.3, model__attention_dropout=0.1, **FAMILIES[family],
    )  # fmt: skip


@pytest.fixture
def falling_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """A corpus with pieces that subword dropout can take apart; the second validation is the best."""
    tokenizer = train_tokenizer(TokenizerConfig(vocab_size=330), *pairs(40, 0))
    made = prepared_from(tokenizer, pairs(40, 0), pairs(6, 1))
    monkeypatch.setattr(trainer_module, "prepare", lambda *_: made)
    judge = Trainer._judge

    def second_is_best(self: Trainer, metrics: Any) -> None:
        judge(self, {**metrics, "loss": float(abs(self.progress.step - 2 * EVERY))})

    monkeypatch.setattr(Trainer, "_judge", second_is_best)


def in_a_process(work: Callable[[], Any], kill_after: float | None) -> int | None:
    """Run in a forked process and kill it after so many seconds; its exit code (-9 when it was killed)."""
    process = multiprocessing.get_context("fork").Process(target=work, daemon=True)
    process.start()
    process.join(kill_after)
    if process.is_alive() and process.pid is not None:
        os.kill(process.pid, signal.SIGKILL)
    process.join()
    return process.exitcode


def killed_again_and_again(tmp_path: Path, options: Any, kills: int, seed: int) -> tuple[int, int]:
    """How many of the kills came in time, and how many ends were compared with the unbroken run's."""
    begin = time.monotonic()
    result = train(options, tmp_path / "unbroken")
    whole = time.monotonic() - begin
    # Its counter goes through the kills as well.
    assert (result.stopped_by, result.step, result.model_step) == ("patience", 5 * EVERY, 2 * EVERY)
    moments, broken = random.Random(seed), tmp_path / "broken"
    hits = compared = 0
    for number in range(kills):
        code = in_a_process(lambda: train(options, broken), moments.uniform(0.0, whole / 2))
        assert code in (0, -9), f"attempt {number} ended with {code}"
        hits += code == -9
        if code == 0:  # it was faster than the kill: begin anew
            same_end(tmp_path / "unbroken", broken)
            compared += 1
            shutil.rmtree(broken)
    train(options, broken)
    same_end(tmp_path / "unbroken", broken)
    return hits, compared + 1


def same_end(a: Path, b: Path) -> None:
    """The same weights, optimizer, counters, list of checkpoints, best one, metrics and result."""
    assert checkpoint.steps(a / "checkpoints") == checkpoint.steps(b / "checkpoints")
    for step in checkpoint.steps(a / "checkpoints"):
        assert files(a, step) == files(b, step)
        assert counters(a, step) == counters(b, step)
    assert (a / "model.safetensors").read_bytes() == (b / "model.safetensors").read_bytes()
    assert lines(a) == lines(b)
    results = [json.loads((folder / "result.json").read_bytes()) for folder in (a, b)]
    for result in results:
        result.pop("elapsed_seconds")
    assert results[0] == results[1]
    assert not [path for path in (b / "checkpoints").iterdir() if not path.name.startswith("step-")]


@pytest.mark.parametrize(("family", "prefetch"), [("transformer", 2), ("bahdanau", 0), ("luong", 2)])
def test_killed_at_random_moments_and_resumed_bit_for_bit(
    falling_apart: None, tmp_path: Path, family: str, prefetch: int
) -> None:
    hits, _ = killed_again_and_again(tmp_path, config(family, prefetch), kills=2, seed=1)
    assert hits


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("prefetch", [0, 2])
@pytest.mark.parametrize("family", FAMILIES)
def test_killed_at_more_than_a_hundred_random_moments(
    falling_apart: None, tmp_path: Path, family: str, prefetch: int
) -> None:
    """Four times five kills for each family and way of loading: 120 in all."""
    hits = compared = 0
    for part in range(4):
        (tmp_path / str(part)).mkdir()
        found = killed_again_and_again(
            tmp_path / str(part), config(family, prefetch), 5, 100 * prefetch + part
        )
        hits, compared = hits + found[0], compared + found[1]
    print(f"{family}, {prefetch} batches ahead: 20 kills, {hits} in time, {compared} ends compared")
    assert hits >= 10


# --- a disk that forgets what was not flushed ---


class ForgetfulDisk:
    """Watches one folder: what was never fsynced is lost when the machine goes down.

    A file that was not has no content then. With `names` a name is lost too, and an old one is back, unless
    the folder it stands in was fsynced since; without, all names stay as they were made, which real disks do
    as well: then there are names whose content is gone.
    """

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch, names: bool = False) -> None:
        self.folder, self.names = folder, names
        self.content: dict[int, bytes] = {}  # inode -> what it held when it was flushed last
        self.entries: dict[int, dict[str, int]] = {}  # inode of a folder -> its names then
        self.kept: list[int] = []  # open, so that no inode is used again
        fsync = os.fsync

        def flushed(handle: int) -> None:
            fsync(handle)
            inode, place = os.fstat(handle).st_ino, Path(os.readlink(f"/proc/self/fd/{handle}"))
            self.kept.append(os.dup(handle))
            if place.is_dir():
                self.entries[inode] = {path.name: path.stat().st_ino for path in place.iterdir()}
            else:
                self.content[inode] = place.read_bytes()

        monkeypatch.setattr(os, "fsync", flushed)

    def power_cut(self) -> None:
        inode = self.folder.stat().st_ino
        if self.names:
            shutil.rmtree(self.folder)
            self._restore(inode, self.folder)
        else:
            for path in self.folder.rglob("*"):
                if path.is_file():
                    path.write_bytes(self.content.get(path.stat().st_ino, b""))
        for handle in self.kept:
            os.close(handle)

    def _restore(self, inode: int, place: Path) -> None:
        if inode in self.content:
            place.write_bytes(self.content[inode])
            return
        place.mkdir()  # a file that was never flushed is no file either
        for name, inner in self.entries.get(inode, {}).items():
            self._restore(inner, place / name)


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


@pytest.mark.parametrize("names", [False, True])
@pytest.mark.parametrize("moment", range(18))
def test_a_power_cut_at_any_call_leaves_a_whole_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moment: int, names: bool
) -> None:
    """While the third checkpoint is written, before the N-th call that makes anything durable."""
    monkeypatch.undo()  # the real fsync: it is the subject here
    (tmp_path / "run").mkdir()
    folder = tmp_path / "run" / "checkpoints"
    disk = ForgetfulDisk(tmp_path / "run", monkeypatch, names)
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


@pytest.mark.parametrize("names", [False, True])
def test_the_disk_of_this_test_does_forget(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, names: bool
) -> None:
    monkeypatch.undo()
    folder = tmp_path / "disk"
    folder.mkdir()
    disk = ForgetfulDisk(folder, monkeypatch, names)
    disk_files.write_whole(folder / "whole", b"x")
    (folder / "lost").write_bytes(b"x")
    os.rename(folder / "whole", folder / "renamed")
    disk.power_cut()
    found = {path.name: path.read_bytes() for path in folder.iterdir()}
    assert found == ({"whole": b"x"} if names else {"renamed": b"x", "lost": b""})


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
