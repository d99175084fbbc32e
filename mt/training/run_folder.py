"""The run folder: its name, its owner, and what a configuration may do with one that exists.

Contract: one process owns a run folder while it trains (a lock that the system drops with the process,
so a killed run blocks nothing). The same configuration goes on with its own unfinished run; another one
is refused, naming the differences. With ``resume=DIR`` budgets, validation, logging, device and the
place of the data may change; what shaped the weights so far may not.

Not in here: training, and what the files of a run mean.
"""

from __future__ import annotations

import errno
import json
import logging
import os
import socket
import sys
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from mt.config.fields import show, value_of
from mt.config.run_config import (
    NOT_THE_RESULT,
    changed_options,
    config_hash,
    decides_the_result,
    load_config,
)
from mt.config.schema import TrainConfig
from mt.errors import CheckpointError, ConfigError
from mt.files import make_folder
from mt.training.state import Progress

logger = logging.getLogger("mt.training.run_folder")

CONFIG, DATA, ENVIRONMENT, LOG = "config.yaml", "data.json", "environment.json", "train.log"
METRICS, MODEL, MODEL_CARD, RESULT = "metrics.jsonl", "model.safetensors", "model.json", "result.json"
CHECKPOINTS, TOKENIZER, TENSORBOARD = "checkpoints", "tokenizer", "tensorboard"
_LOCK = ".lock"

# Budgets, validation, and where the (hashed) data lies: these may differ with resume= (and what has no
# part in the result at any time, so that runs that differ in nothing else share a folder).
_RESUMABLE = frozenset(
    {
        "training.max_steps", "training.max_epochs", "training.max_tokens", "training.max_minutes",
        "training.patience", "training.validate_every_steps", "training.validate_every_epochs",
        "training.valid_metric", "training.valid_beam", "training.valid_max_sentences",
        "training.average_last", "data.train_source", "data.train_target", "data.valid_source",
        "data.valid_target", "data.test_source", "data.test_target",
    }
)  # fmt: skip
_RESUMABLE_GROUPS = ("decoding.",)
# A change of one of these gives a finished run something to do again.
_BUDGETS = frozenset(
    {
        "training.max_steps", "training.max_epochs", "training.max_tokens", "training.max_minutes",
        "training.patience",
    }
)  # fmt: skip
# May lie in a folder that is otherwise empty.
_IGNORED = frozenset({_LOCK, LOG, ".hydra"})


def run_folder_for(config: TrainConfig) -> Path:
    """Where this configuration's run lives: resume, else run, else a name under runs.

    The name is made of the corpus, the languages and a hash of everything that decides the result, so the
    same command finds its run again.
    """
    if config.resume is not None:
        return Path(config.resume)
    if config.run is not None:
        return Path(config.run)
    data = config.data
    return Path(config.runs) / f"{data.kind.value}-{data.source}-{data.target}-{config_hash(config)}"


def stored_config(folder: Path) -> TrainConfig | None:
    """The configuration of the run in `folder`; None if no run was ever started there."""
    path = folder / CONFIG
    return load_config(path) if path.is_file() else None


def check_same_run(stored: TrainConfig, config: TrainConfig, folder: Path) -> dict[str, str]:
    """Whether `config` may go on with the run that was started as `stored`.

    Returns:
        What differs and may, a sentence for each key.

    Raises:
        ConfigError: something differs that may not, each difference named.
    """
    differing = changed_options(stored, config)
    changed = {key: pair for key, pair in differing.items() if decides_the_result(key, config)}
    allowed = {key for key in changed if config.resume is not None and may_change(key)}
    refused = {key: pair for key, pair in changed.items() if key not in allowed}
    if refused:
        holds, way_out = f"{folder} holds another run", "choose another folder with run=..."
        if config.resume is not None:
            holds = f"resume={config.resume} goes on with a run as it was begun"
            way_out = "leave it out, or train another model from the beginning, without resume="
        elif all(may_change(key) for key in refused):
            way_out = (
                f"resume={folder} alone goes on with the run as it stands; beside this change, give resume= "
                "to take it over"
            )
        raise ConfigError([f"{holds}: {_difference(key, *pair)}; {way_out}" for key, pair in refused.items()])
    return {key: _difference(key, *changed[key]) for key in allowed}


def reopens(changed: Collection[str]) -> bool:
    """Whether these changed options give a finished run something to do."""
    return not _BUDGETS.isdisjoint(changed)


def refuse_shortened(config: TrainConfig, changed: Collection[str], progress: Progress) -> None:
    """Refuse a changed budget of which more is used already: it would be on record, and not be true.

    Raises:
        ConfigError: names what is used.
    """
    used = {
        "training.max_steps": progress.step,
        "training.max_epochs": progress.epochs,
        "training.max_tokens": progress.tokens,
        "training.max_minutes": progress.elapsed_seconds / 60,
    }
    problems = [
        f"{key}={show(value)}: the run has {used[key]:.10g} behind it; give no less (this ends it as it is)"
        for key in used
        if key in changed and (value := value_of(config, key)) is not None and value < used[key]
    ]
    if problems:
        raise ConfigError(problems)


def may_change(key: str) -> bool:
    """Whether an option may have another value when a run is resumed."""
    return key in NOT_THE_RESULT or key in _RESUMABLE or key.startswith(_RESUMABLE_GROUPS)


def check_usable(folder: Path) -> None:
    """Refuse a folder that holds something else than a run.

    Raises:
        CheckpointError: the folder is a file, or is not empty and no run.
    """
    if not folder.exists():
        return
    if not folder.is_dir():
        raise CheckpointError(f"{folder} is a file; the run needs a folder")
    if (folder / CONFIG).is_file():
        return
    foreign = sorted(path.name for path in folder.iterdir() if path.name not in _IGNORED)
    if foreign:
        raise CheckpointError(
            f"{folder} is not empty and holds no run (it has {', '.join(foreign[:3])}); "
            "choose a new or empty folder with run=..."
        )


@contextmanager
def owned(folder: Path) -> Iterator[None]:
    """Make the folder and own it; no other process trains in it meanwhile.

    Raises:
        CheckpointError: another process owns it (its id and host are named), or it cannot be written.
    """
    path = folder / _LOCK
    existed = folder.exists()
    try:
        make_folder(folder)
        handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    except OSError as error:
        raise _not_writable(folder, error) from error
    try:
        _lock(handle, path, folder)
        try:
            try:
                owner = {"process": os.getpid(), "host": socket.gethostname()}
                os.ftruncate(handle, 0)
                os.write(handle, json.dumps(owner).encode("utf-8"))
            except OSError as error:
                raise _not_writable(folder, error) from error
            yield
        finally:
            if not (folder / CONFIG).exists():  # the run never began
                _leave_no_trace(folder, existed)
    finally:
        os.close(handle)  # drops the lock, as the end of the process would


def _not_writable(folder: Path, error: OSError) -> CheckpointError:
    return CheckpointError(
        f"cannot write into {folder}: {error.strerror}; choose another folder with run=..."
    )


def _leave_no_trace(folder: Path, existed: bool) -> None:
    """Remove what was made before it was known whether the run can begin."""
    with suppress(OSError):
        (folder / LOG).unlink(missing_ok=True)
        (folder / _LOCK).unlink(missing_ok=True)
        if not existed:
            folder.rmdir()


def _lock(handle: int, path: Path, folder: Path) -> None:
    try:
        import fcntl
    except ImportError:
        logger.warning("this system has no file locks: make sure that only one process trains in %s", folder)
        return
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno not in (errno.EWOULDBLOCK, errno.EACCES):
            logger.warning(
                "%s cannot be locked (%s): make sure that only one process trains in it", path, error.strerror
            )
            return
        try:
            owner = json.loads(os.read(handle, 1000))
            name = f"process {owner['process']} on {owner['host']}"
        except (ValueError, KeyError, TypeError, RecursionError):
            name = "another process"
        raise CheckpointError(
            f"{name} is training in {folder}; wait for it, or choose another folder with run=..."
        ) from error
    if not path.exists() or os.fstat(handle).st_ino != path.stat().st_ino:
        # Its last owner has just removed the file that is locked here.
        raise CheckpointError(f"{folder} was given up by another process this very moment; try again")


class _LogFile(logging.FileHandler):
    """A log that is given up, with one warning, when it cannot be written: the run itself can still go on."""

    def handleError(self, record: logging.LogRecord) -> None:
        error = sys.exc_info()[1]
        if not isinstance(error, OSError):
            super().handleError(record)
            return
        self.addFilter(lambda record: False)
        with suppress(OSError):  # what is left in the buffer has no place either
            self.close()
        logger.warning("%s cannot be written any more (%s)", self.baseFilename, error.strerror)


@contextmanager
def log_file(folder: Path) -> Iterator[None]:
    """While inside, everything ``mt`` logs (from INFO on) also goes into the run's train.log."""
    handler = _LogFile(folder / LOG, encoding="utf-8")
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    handler.setLevel(logging.INFO)
    room = logging.getLogger("mt")
    level = room.level
    if room.getEffectiveLevel() > logging.INFO:
        room.setLevel(logging.INFO)
    room.addHandler(handler)
    try:
        yield
    finally:
        room.removeHandler(handler)
        room.setLevel(level)
        handler.close()


def _difference(key: str, old: Any, new: Any) -> str:
    return f"{key} is {show(old)} in the run, {show(new)} was given"
