"""Checkpoints that survive a kill at any moment.

Contract: a checkpoint is a folder ``step-00000100`` with `model.safetensors` (the weights that are
validated and translated with: the moving average if there is one) and `model.json` (which tokenizer they
belong to), `optimizer.safetensors` (everything else that is a tensor), `state.json` (counters) and
`manifest.json` (size and SHA-256 of the others). It is written under a temporary name, every file
fsynced, the manifest last, then renamed; so a folder with that name is whole, unless the disk damaged it
later, which the manifest shows. Nothing is ever unpickled.

Not in here: what the tensors and counters mean (`mt.training.snapshots`).
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import save_file
from torch import Tensor

from mt import files
from mt.errors import CheckpointError
from mt.models.storage import FACTS_FILE, WEIGHTS_FILE, ModelFacts, read_tensors, write_facts

logger = logging.getLogger("mt.training.checkpoint")

MODEL, FACTS = WEIGHTS_FILE, FACTS_FILE
OPTIMIZER, STATE, MANIFEST = "optimizer.safetensors", "state.json", "manifest.json"
_FILES = (MODEL, FACTS, OPTIMIZER, STATE)
_FORMAT = 1
_NAME = re.compile(r"step-(\d{8,})")
_TEMPORARY = ".tmp-"
_DAMAGED = "damaged-"


@dataclass(frozen=True)
class Checkpoint:
    """A whole checkpoint on disk.

    Attributes:
        folder: where it is.
        step: updates done when it was saved.
        planned: saved by the run's own plan (a validation, save_every_steps), not because of a signal.
        state: the counters, as stored.
    """

    folder: Path
    step: int
    planned: bool
    state: dict[str, Any]

    def model(self) -> dict[str, Tensor]:
        """The weights, on the CPU."""
        return read_tensors(self.folder / MODEL)

    def optimizer(self) -> dict[str, Tensor]:
        """Everything else that is a tensor, on the CPU."""
        return read_tensors(self.folder / OPTIMIZER)


def folder_name(step: int) -> str:
    """The name of the checkpoint after `step` updates."""
    return f"step-{step:08d}"


def save(
    checkpoints: Path,
    step: int,
    *,
    model: Mapping[str, Tensor],
    optimizer: Mapping[str, Tensor],
    facts: ModelFacts,
    state: Mapping[str, Any],
    planned: bool = True,
) -> Path:
    """Write a checkpoint and return its folder; it replaces one of the same step.

    Raises:
        CheckpointError: it cannot be written (disk full, no permission); nothing of it is left behind, and
            the checkpoints that were there before are untouched.
    """
    target = checkpoints / folder_name(step)
    aside = checkpoints / f"{_TEMPORARY}{target.name}-{os.getpid()}"
    try:
        files.make_folder(checkpoints)
        shutil.rmtree(aside, ignore_errors=True)
        aside.mkdir()
        save_file({name: _plain(t) for name, t in model.items()}, aside / MODEL, metadata={"format": "pt"})
        save_file(
            {name: _plain(t) for name, t in optimizer.items()}, aside / OPTIMIZER, metadata={"format": "pt"}
        )
        write_facts(facts, aside / FACTS)
        files.write_whole(aside / STATE, _json_bytes(state))
        prints = {name: _fingerprint(aside / name) for name in _FILES}
        manifest = {"format": _FORMAT, "step": step, "planned": planned, "files": prints}
        files.write_whole(aside / MANIFEST, _json_bytes(manifest))
        files.sync_folder(aside)
        if target.exists():
            # Two renames, as a folder cannot replace a full one; the old one is invalid or of this very step.
            old = checkpoints / f"{_TEMPORARY}old-{target.name}-{os.getpid()}"
            os.rename(target, old)
            os.rename(aside, target)
            shutil.rmtree(old, ignore_errors=True)
        else:
            os.rename(aside, target)
        files.sync_folder(checkpoints)
    except (OSError, SafetensorError, CheckpointError) as error:
        shutil.rmtree(aside, ignore_errors=True)
        raise cannot_write(target, error, _size(model) + _size(optimizer)) from error
    except BaseException:  # an interrupt: leave no half-written folder
        shutil.rmtree(aside, ignore_errors=True)
        raise
    return target


def load(folder: Path) -> Checkpoint:
    """Check every file of a checkpoint against its manifest and return it.

    Raises:
        CheckpointError: a file is missing, cut or changed; the message says which.
    """
    manifest = _read_json(folder / MANIFEST)
    prints = manifest.get("files")
    step, planned = manifest.get("step"), manifest.get("planned")
    if manifest.get("format") != _FORMAT or not isinstance(prints, dict) or not isinstance(step, int):
        raise CheckpointError(f"{folder / MANIFEST} is not a checkpoint manifest that this version reads")
    for name in _FILES:
        path = folder / name
        try:
            found = _fingerprint(path, sync=False)
        except OSError as error:
            raise CheckpointError(f"{path} cannot be read: {error.strerror}") from error
        if found != prints.get(name):
            expected = prints.get(name)
            size = expected.get("bytes") if isinstance(expected, dict) else None
            what = (
                f"has {found['bytes']} bytes instead of {size}"
                if size != found["bytes"]
                else "has changed bytes"
            )
            raise CheckpointError(f"{path} is damaged: it {what} (see {MANIFEST})")
    return Checkpoint(folder, step, bool(planned), _read_json(folder / STATE))


def steps(checkpoints: Path) -> list[int]:
    """The steps for which there is a checkpoint folder, whole or not, in rising order."""
    if not checkpoints.is_dir():
        return []
    return sorted(int(match.group(1)) for p in checkpoints.iterdir() if (match := _NAME.fullmatch(p.name)))


def newest_valid(checkpoints: Path) -> Checkpoint | None:
    """The newest whole checkpoint, or None if none was ever completed.

    A damaged one is skipped with a warning and set aside as ``damaged-step-…``.

    Raises:
        CheckpointError: there are checkpoints, and not one of them is whole.
    """
    problems: list[str] = []
    for step in reversed(steps(checkpoints)):
        folder = checkpoints / folder_name(step)
        try:
            found = load(folder)
        except CheckpointError as error:
            problems.append(str(error))
            continue
        for problem in problems:
            logger.warning("%s; going back to %s", problem, found.folder.name)
        for damaged in steps(checkpoints):
            if damaged > step:
                _set_aside(checkpoints / folder_name(damaged))
        return found
    damaged_before = checkpoints.is_dir() and any(p.name.startswith(_DAMAGED) for p in checkpoints.iterdir())
    if problems or damaged_before:
        listed = "\n".join(f"  - {problem}" for problem in problems)
        raise CheckpointError(
            f"no checkpoint in {checkpoints} is whole, so this run cannot go on:\n{listed}\n"
            "Restore one from a backup, or start again in another folder (run=...)."
        )
    return None


def prune(checkpoints: Path, keep_last: int, best_step: int | None) -> None:
    """Delete all checkpoints but the newest, the last `keep_last` planned ones and the best one."""
    present = steps(checkpoints)
    keep = {best_step, present[-1]} if present else set()
    planned = 0
    for step in reversed(present):
        if planned < keep_last and _is_planned(checkpoints / folder_name(step)):
            planned += 1
            keep.add(step)
    for step in present:
        if step not in keep:
            # Renamed first: a deletion that is cut short must not look like a damaged checkpoint.
            doomed = checkpoints / f"{_TEMPORARY}old-{folder_name(step)}-{os.getpid()}"
            os.rename(checkpoints / folder_name(step), doomed)
            shutil.rmtree(doomed, ignore_errors=True)


def last_planned(checkpoints: Path, count: int) -> list[Path]:
    """The folders of the last `count` planned checkpoints, oldest first."""
    folders = [checkpoints / folder_name(step) for step in steps(checkpoints)]
    return [folder for folder in folders if _is_planned(folder)][-count:]


def remove_leftovers(checkpoints: Path) -> None:
    """Delete what writers that were killed left behind; only for the owner of the run folder."""
    if checkpoints.is_dir():
        for path in checkpoints.iterdir():
            if path.name.startswith(_TEMPORARY):
                shutil.rmtree(path, ignore_errors=True)


def write_whole(path: Path, content: bytes) -> None:
    """Write a file aside and rename it, so that it is whole or absent.

    Raises:
        CheckpointError: it cannot be written.
    """
    try:
        files.write_whole(path, content)
    except OSError as error:
        raise cannot_write(path, error, len(content)) from error


def write_json(path: Path, content: Mapping[str, Any]) -> None:
    """`write_whole` for a JSON object."""
    write_whole(path, _json_bytes(content))


def cannot_write(path: Path, error: Exception, needed: int) -> CheckpointError:
    """The message for a failed write, with the size that is needed."""
    text = str(error)  # of the safetensors library too, which hands on the system's words and no number
    reason = next((os.strerror(number) for number in files.NO_ROOM if os.strerror(number) in text), None)
    if reason is not None:
        return CheckpointError(
            f"no space left for {path}, which needs {needed / 1e6:.1f} MB ({reason}); "
            "make room and run the same command again: it goes on from the last checkpoint"
        )
    return CheckpointError(f"cannot write {path}: {text}")


def _plain(tensor: Tensor) -> Tensor:
    return tensor.detach().cpu().contiguous()


def _size(tensors: Mapping[str, Tensor]) -> int:
    return sum(t.numel() * t.element_size() for t in tensors.values())


def _json_bytes(content: Mapping[str, Any]) -> bytes:
    return (json.dumps(content, indent=2, ensure_ascii=False) + "\n").encode("utf-8")


def _read_json(path: Path) -> dict[str, Any]:
    """A JSON object of a file.

    Raises:
        CheckpointError: the file is missing or holds no JSON object.
    """
    try:
        content = json.loads(path.read_bytes())
    except OSError as error:
        raise CheckpointError(f"{path} cannot be read: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise CheckpointError(f"{path} is damaged: it is not JSON") from error
    if not isinstance(content, dict):
        raise CheckpointError(f"{path} is damaged: it holds no JSON object")
    return content


def _fingerprint(path: Path, *, sync: bool = True) -> dict[str, Any]:
    """Size and SHA-256 of a file, which is made durable on the way."""
    digest = hashlib.sha256()
    with open(path, "r+b" if sync else "rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
        if sync:
            os.fsync(file.fileno())
    return {"bytes": path.stat().st_size, "sha256": digest.hexdigest()}


def _is_planned(folder: Path) -> bool:
    try:
        return _read_json(folder / MANIFEST).get("planned") is True
    except CheckpointError:
        return False


def _set_aside(folder: Path) -> None:
    place = folder.with_name(_DAMAGED + folder.name)
    shutil.rmtree(place, ignore_errors=True)
    os.rename(folder, place)
