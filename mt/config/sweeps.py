"""A sweep: which cells it has, what became of each, and how long the rest will take.

Idea: a sweep is its set of cells, and a cell is its resolved configuration. So the folder of a sweep is
named after a hash of its cells: the same command finds it again, whatever the time of day, and what is
there says which cells are done.

Contract: ``sweep.json`` lists the cells before the first one starts; ``N/outcome.json`` says how cell N
ended, ``N/error.txt`` keeps the traceback of every failure, the newest last. Each file is whole or absent.
A cell runs in a process of its own where the system can fork: its memory and threads are its own, and what
kills it does not kill the sweep.

Not in here: composing configurations and Hydra (`mt.config.app`), training.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

from mt.config.fields import options, show, value_of
from mt.config.run_config import config_hash, decisive_settings
from mt.config.schema import TrainConfig
from mt.errors import MTError
from mt.files import write_whole

PLAN, OUTCOME, ERROR = "sweep.json", "outcome.json", "error.txt"
FINISHED, FAILED, STOPPED = "finished", "failed", "stopped"
_FIRST_SIGNAL_CODE = 128
_PARENT_POLLED_SECONDS = 0.2


@dataclass(frozen=True)
class Runs:
    """What a sweep asks of a command whose jobs leave runs behind.

    Attributes:
        folder: where the run of a configuration lies.
        finished: whether that run is done, so that the job need not start.
        objective: the number that a sweeper may optimize; None when there is none.
    """

    folder: Callable[[Any], Path]
    finished: Callable[[Any], bool]
    objective: Callable[[Any], float | None]


@dataclass(frozen=True)
class Cell:
    """One job of a sweep.

    Attributes:
        job: its number, from 0.
        words: its command line.
        cell: hash of its configuration.
        seed, settings: that configuration, as a user would type it (for training: what decides the result).
        run: its run folder, or "".
    """

    job: int
    words: list[str]
    cell: str
    seed: int = 0
    settings: dict[str, str] = field(default_factory=dict)
    run: str = ""


def cell_of(job: int, words: Sequence[str], config: Any, runs: Runs | None) -> Cell:
    """The cell of a configuration."""
    if isinstance(config, TrainConfig):
        place = str(runs.folder(config)) if runs is not None else ""
        return Cell(job, list(words), config_hash(config), config.seed, decisive_settings(config), place)
    settings = {key: show(value_of(config, key)) for key in options(type(config))}
    return Cell(job, list(words), _digest(settings), 0, settings)


def _digest(content: Any) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode("utf-8")).hexdigest()[:8]


@dataclass
class Sweep:
    """The cells of one sweep and its folder.

    Attributes:
        cells: by job number; those that are known before the sweep starts.
        start: identity of this start; outcomes of earlier ones have others.
    """

    folder: Path
    cells: list[Cell]
    start: str = field(default_factory=lambda: f"{time.time():.3f}-{os.getpid()}")

    @classmethod
    def named(cls, parent: Path, given: bool, cells: Sequence[Cell], words: Sequence[str]) -> Sweep:
        """The sweep of these cells: in `parent` itself if the user gave it, else in a folder under it."""
        identity = sorted(cell.cell for cell in cells) or sorted(words)
        return cls(parent if given else parent / _digest(identity), list(cells))

    def write_plan(self) -> None:
        """Write ``sweep.json``."""
        self.folder.mkdir(parents=True, exist_ok=True)
        content = {
            "directory": os.getcwd(),
            "command": sys.argv,
            "cells": [dataclasses.asdict(cell) for cell in self.cells],
        }
        _write_json(self.folder / PLAN, content)

    def planned(self, cell: Cell) -> Cell:
        """A cell as it stands in the plan, whatever number and spelling a sweeper or launcher gives it."""
        same = [known for known in self.cells if known.cell == cell.cell]
        return next((known for known in same if known.job == cell.job), same[0] if same else cell)

    def name(self, job: int, words: Sequence[str]) -> str:
        """The words that tell a job from the others; all of them when it is alone."""
        if len(self.cells) < 2:
            return " ".join(words)
        common = set(self.cells[0].words).intersection(*(cell.words for cell in self.cells[1:]))
        return " ".join(word for word in words if word not in common) or f"job {job}"

    def outcomes(self) -> list[dict[str, Any]]:
        """Every outcome in the folder that belongs to this sweep, by job."""
        known = {cell.job: cell.cell for cell in self.cells}
        found = []
        for path in self.folder.glob(f"*/{OUTCOME}"):
            with suppress(OSError, ValueError, KeyError, TypeError):
                outcome = json.loads(path.read_bytes())
                if not known or known.get(outcome["job"]) == outcome["cell"]:
                    found.append(outcome)
        return sorted(found, key=lambda outcome: int(outcome["job"]))

    def failed_now(self) -> bool:
        """Whether a cell of this start has failed."""
        return any(o["status"] == FAILED and o.get("start") == self.start for o in self.outcomes())

    def record(self, cell: Cell, outcome: dict[str, Any], trace: str = "") -> None:
        """Write how a job ended; tracebacks are added to those that are there."""
        place = self.folder / str(cell.job)
        place.mkdir(parents=True, exist_ok=True)
        if trace:
            heading = time.strftime("--- %Y-%m-%d %H:%M:%S\n")
            with open(place / ERROR, "a", encoding="utf-8", newline="\n") as file:
                file.write(heading + trace)
        _write_json(place / OUTCOME, {**dataclasses.asdict(cell), **outcome, "start": self.start})

    def seconds_left(self, parallel: int, expected: float | None) -> float | None:
        """How long the rest takes: that many cells at a time, each as long as the mean of the finished ones.

        Args:
            parallel: cells that run at the same time.
            expected: seconds of a cell if none has finished yet.
        """
        outcomes = self.outcomes()
        ended = [o for o in outcomes if o["status"] == FINISHED or o.get("start") == self.start]
        taken = [float(o["seconds"]) for o in outcomes if o["status"] == FINISHED and o.get("seconds")]
        each = sum(taken) / len(taken) if taken else expected
        rest = len(self.cells) - len(ended)
        return None if each is None or rest < 0 else each * rest / max(1, parallel)


def _write_json(path: Path, content: Any) -> None:
    write_whole(path, (json.dumps(content, ensure_ascii=False, indent=1) + "\n").encode("utf-8"))


# ---------------------------------------------------------------------------- one cell


@dataclass(frozen=True)
class Ended:
    """How a cell's work ended: exit code, what to tell the user, and the traceback ("" if there is none)."""

    code: int
    reason: str = ""
    trace: str = ""

    @property
    def status(self) -> str:
        """finished, failed, or stopped (by a signal, so that the sweep ends too)."""
        if self.code == 0:
            return FINISHED
        stopped = (_FIRST_SIGNAL_CODE + signal.SIGINT, _FIRST_SIGNAL_CODE + signal.SIGTERM)
        return STOPPED if self.code in stopped else FAILED


def run_here(work: Callable[[], int]) -> Ended:
    """Do a cell's work in this process; whatever it raises is its outcome."""
    try:
        code = work()
    except MTError as error:
        return Ended(error.exit_code or 1, str(error), traceback.format_exc())
    except Exception as error:
        return Ended(1, f"{type(error).__name__}: {error}", traceback.format_exc())
    return Ended(code, f"exit code {code}")


def run_apart(work: Callable[[], int]) -> Ended:
    """Do a cell's work in a process of its own; here where that is not possible.

    SIGINT and SIGTERM are passed on to it, once each, and it is waited for. It ends when this process does.
    """
    # A fork copies PyTorch's locks but not its threads, so it has to come before PyTorch is loaded.
    if not hasattr(os, "fork") or "torch" in sys.modules:
        return run_here(work)
    sys.stdout.flush()
    sys.stderr.flush()
    reader, writer = os.pipe()
    parent = os.getpid()
    child = os.fork()
    if child == 0:
        os.close(reader)
        _as_child(work, writer, parent)
    os.close(writer)
    with _signals_to(child), os.fdopen(reader, "rb") as report:
        content = report.read()
        _, status = os.waitpid(child, 0)
    with suppress(ValueError, TypeError):
        return Ended(**json.loads(content))
    code = os.waitstatus_to_exitcode(status)
    if code >= 0:
        return Ended(code or 1, f"its process ended with exit code {code}")
    name = signal.Signals(-code).name
    hint = " (out of memory?)" if name == "SIGKILL" else ""
    return Ended(1, f"its process was ended by {name}{hint}")


def _as_child(work: Callable[[], int], writer: int, parent: int) -> None:
    """The child's whole life: never returns."""
    code = 1
    try:
        # Out of the terminal's group: Ctrl-C reaches the parent alone, which passes it on once.
        os.setpgid(0, 0)
        threading.Thread(target=_end_with, args=(parent,), daemon=True).start()
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, _stop)
        try:
            ended = run_here(work)
        except SystemExit as stop:
            ended = Ended(stop.code if isinstance(stop.code, int) else 1, "stopped")
        sys.stdout.flush()
        sys.stderr.flush()
        with os.fdopen(writer, "wb") as report:
            report.write(json.dumps(dataclasses.asdict(ended)).encode("utf-8"))
        code = 0
    finally:
        os._exit(code)


def _stop(number: int, frame: FrameType | None) -> None:
    raise SystemExit(_FIRST_SIGNAL_CODE + number)


def _end_with(parent: int) -> None:
    """End this process when its parent is gone: a sweep that was killed must not go on behind one's back."""
    while os.getppid() == parent:
        time.sleep(_PARENT_POLLED_SECONDS)
    os.kill(os.getpid(), signal.SIGKILL)


@contextmanager
def _signals_to(child: int) -> Iterator[None]:
    """While inside, SIGINT and SIGTERM go to the child."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def pass_on(number: int, frame: FrameType | None) -> None:
        with suppress(ProcessLookupError):
            os.kill(child, number)

    before = {number: signal.signal(number, pass_on) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
