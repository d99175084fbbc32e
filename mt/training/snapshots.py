"""A run's checkpoints: what goes into them, and where a run goes on.

Contract: a snapshot has all that decides how the run goes on; the first process writes it, and the run goes
on from the newest whole one.

Not in here: the files of a checkpoint (`mt.training.checkpoint`), and when one is made.
"""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Mapping
from pathlib import Path

import torch
from torch import Tensor

from mt.config.schema import TrainConfig
from mt.data.tokenizer import Tokenizer
from mt.models import storage
from mt.training import checkpoint, run_folder
from mt.training.distributed import World
from mt.training.learner import Learner
from mt.training.state import Progress

logger = logging.getLogger("mt.training")


def restart_point(folder: Path, world: World, *, begun: bool) -> checkpoint.Checkpoint | None:
    """The checkpoint that all processes go on from; None is the beginning.

    Raises:
        CheckpointError: there are checkpoints, and not one of them is whole.
    """
    checkpoints = folder / run_folder.CHECKPOINTS
    start = None
    if world.first:
        checkpoint.remove_leftovers(checkpoints)
        start = checkpoint.newest_valid(checkpoints) if begun else None
    step = int(world.from_first(-1 if start is None else start.step))
    if step >= 0 and start is None:
        start = checkpoint.load(checkpoints / checkpoint.folder_name(step))
    return start


def progress_of(start: checkpoint.Checkpoint) -> Progress:
    """The counters of a checkpoint, as they were stored.

    Raises:
        CheckpointError: they are not whole.
    """
    return Progress.from_state(start.state, start.folder / checkpoint.STATE)


def restored_progress(start: checkpoint.Checkpoint, world: World) -> Progress:
    """The counters to go on with from a checkpoint; what has changed since is told.

    Raises:
        CheckpointError: they are not whole.
    """
    progress = progress_of(start)
    best = start.folder.parent / checkpoint.folder_name(progress.best_step)
    if progress.best_metrics and not best.is_dir():
        logger.warning(
            "the best checkpoint (step %d) is gone; the best is searched among the later ones",
            progress.best_step,
        )
        progress.best_step, progress.best_metrics = 0, {}
    before = progress.world_size
    if progress.change_world(world.size):
        logger.info(
            "%d process(es) instead of %d: every pair once per epoch as before, in other batches",
            world.size, before,
        )  # fmt: skip
    if progress.threads != torch.get_num_threads():
        logger.info(
            "%d CPU threads instead of %d: sums are rounded differently, results are not bit-identical",
            torch.get_num_threads(), progress.threads,
        )  # fmt: skip
    return progress


class Snapshots:
    """Writes the checkpoints of a run.

    Args:
        folder: of the run.
        learner, progress: what is stored.
    """

    def __init__(
        self,
        config: TrainConfig,
        folder: Path,
        tokenizer: Tokenizer,
        learner: Learner,
        progress: Progress,
        world: World,
    ) -> None:
        self.checkpoints = folder / run_folder.CHECKPOINTS
        self._keep = max(config.training.keep_last, config.training.average_last)
        self._tokenizer, self._learner = tokenizer, learner
        self._progress, self._world = progress, world

    def save(self, *, planned: bool) -> None:
        """Write a checkpoint; `planned` says that the run's own plan asked for it, not a signal.

        Raises:
            CheckpointError: it cannot be written.
        """
        self._progress.scaler = self._learner.scaler.state_dict()
        self._progress.threads = torch.get_num_threads()
        state = self._learner.state()
        with self._learner.averaged():
            weights = self._learner.weights()
            if self._world.first:
                self._write(weights, state, planned=planned)

    def exists(self, step: int) -> bool:
        """Whether there is a checkpoint of a step."""
        return step in checkpoint.steps(self.checkpoints)

    def last(self) -> str:
        """The newest one in a sentence for error messages."""
        steps = checkpoint.steps(self.checkpoints)
        if not steps:
            return "There is no checkpoint yet."
        return f"The last good checkpoint is {self.checkpoints / checkpoint.folder_name(steps[-1])}."

    def facts(self, origin: str, step: int, sha256: str | None = None) -> storage.ModelFacts:
        """What stands beside weights that were made in this run."""
        return storage.ModelFacts(
            tokenizer_sha256=self._tokenizer.sha256,
            source_size=self._tokenizer.source_size,
            target_size=self._tokenizer.target_size,
            step=step,
            origin=origin,
            weights_sha256=sha256,
        )

    def _write(self, weights: Mapping[str, Tensor], state: Mapping[str, Tensor], *, planned: bool) -> None:
        progress = self._progress
        checkpoint.save(
            self.checkpoints,
            progress.step,
            model=weights,
            optimizer=state,
            facts=self.facts(f"checkpoint {checkpoint.folder_name(progress.step)}", progress.step),
            state=dataclasses.asdict(progress),
            planned=planned,
        )
        best = progress.best_step if progress.best_metrics else None
        checkpoint.prune(self.checkpoints, self._keep, best)
