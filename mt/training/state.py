"""Where a run stands: the counters that a checkpoint stores beside the tensors.

Contract: `Progress` is plain numbers, so it goes to JSON and back exactly; what comes back from a file
is checked field by field. Everything but times is reproducible.

Not in here: tensors, and the files of a checkpoint.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mt.errors import CheckpointError


@dataclass
class Window:
    """Sums since the last log line; all but `seconds` and `wait_seconds` are reproducible."""

    updates: int = 0
    loss: float = 0.0
    nll: float = 0.0
    tokens: int = 0
    positions: int = 0
    gradient_norm: float = 0.0
    seconds: float = 0.0
    wait_seconds: float = 0.0


@dataclass
class Progress:
    """Where a run stands: the counters of a checkpoint.

    `epoch` and `position` name the next micro-batch. Where the number of processes changed within the epoch,
    `earlier` has what each number of them did (see `mt.data.batches.plan_epoch`), `position` counts from
    there, and `share_before` of the epoch was done by then. `validation_due` says that a signal came before
    the validation of this step. `best_*` belong to the best validation, `stale` counts the validations since.
    """

    step: int = 0
    epoch: int = 0
    position: int = 0
    world_size: int = 1
    earlier: list[list[int]] = field(default_factory=list)
    share_before: float = 0.0
    epochs: float = 0.0
    tokens: int = 0
    elapsed_seconds: float = 0.0
    skipped_updates: int = 0
    skipped_in_a_row: int = 0
    split_batches: int = 0
    validated_step: int = 0
    validation_due: bool = False
    validation_seconds: float = 0.0
    stale: int = 0
    best_step: int = 0
    best_metrics: dict[str, float | None] = field(default_factory=dict)
    scaler: dict[str, float | int] = field(default_factory=dict)
    threads: int = 0
    window: Window = field(default_factory=Window)

    @classmethod
    def from_state(cls, state: Mapping[str, Any], where: Path) -> Progress:
        """The counters stored in state.json.

        Raises:
            CheckpointError: one is missing or is of another type.
        """
        progress = cls()
        window = state.get("window")
        _fill(progress, {**state, "window": progress.window}, where)
        _fill(progress.window, window if isinstance(window, dict) else {}, where)
        for entry in progress.earlier:
            if not (
                isinstance(entry, list) and len(entry) == 2 and all(type(n) is int and n > 0 for n in entry)
            ):
                raise CheckpointError(f"{where}: earlier is not of the right kind")
        return progress

    def change_world(self, size: int) -> bool:
        """Go on with another number of processes; whether it is another one."""
        if size == self.world_size:
            return False
        if self.position:
            self.earlier = [*self.earlier, [self.world_size, self.position]]
            self.share_before = self.epochs - self.epoch
        self.world_size, self.position = size, 0
        return True

    def advance(self, epoch: int, position: int, length: int) -> None:
        """Count a micro-batch: number `position` of the `length` that each process has in `epoch`."""
        self.epoch, self.position = epoch, position + 1
        if self.position == length:
            self.epoch, self.position = epoch + 1, 0
        if not self.position:
            self.earlier, self.share_before = [], 0.0
        done = self.position / length
        self.epochs = self.epoch + (self.share_before + (1.0 - self.share_before) * done if done else 0.0)


def _fill(target: Any, values: Mapping[str, Any], where: Path) -> None:
    """Set the fields of a dataclass from parsed JSON, types checked against the defaults."""
    for entry in dataclasses.fields(target):
        default, value = getattr(target, entry.name), values.get(entry.name)
        kinds = (int, float) if isinstance(default, float) else (type(default),)
        if not isinstance(value, kinds) or (isinstance(value, bool) and not isinstance(default, bool)):
            raise CheckpointError(f"{where}: {entry.name} is missing or not of the right kind")
        setattr(target, entry.name, value)
