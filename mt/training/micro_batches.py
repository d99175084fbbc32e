"""The micro-batches of a process, update by update.

Contract: every pair of an epoch is handed out once; the counters of the run say which micro-batch is next, so
that a run goes on in the middle of an epoch.

Not in here: which pairs make a batch (`mt.data.batches`).
"""

from __future__ import annotations

from collections.abc import Iterator
from types import TracebackType

import numpy as np

from mt.config.schema import TrainConfig
from mt.data.batches import Batch, BatchLoader, collate
from mt.data.preparation import Prepared
from mt.data.subwords import Parts, SubwordDropout
from mt.training.distributed import World
from mt.training.memory import largest_batch, positions
from mt.training.state import Progress


class MicroBatches:
    """Batches of this process, from where the counters stand; closed by leaving the context.

    Args:
        progress: counters that `for_update` moves on.
        longest: pieces that the model can read, end of sentence included.
        pin_memory: for copies to CUDA.
    """

    def __init__(
        self,
        config: TrainConfig,
        prepared: Prepared,
        progress: Progress,
        world: World,
        *,
        longest: int,
        pin_memory: bool,
    ) -> None:
        training = config.training
        self._config, self._pairs, self._progress = config, prepared.train, progress
        self._world = world
        self._dropout = _subword_dropout(prepared, training.subword_dropout, longest)
        self._loader = BatchLoader(
            prepared.train,
            batch_tokens=training.batch_tokens,
            batch_sentences=training.batch_sentences,
            seed=config.seed,
            epoch=progress.epoch,
            position=progress.position,
            rank=world.rank,
            world_size=world.size,
            earlier=[(size, done) for size, done in progress.earlier],
            prefetch_batches=training.prefetch_batches,
            pin_memory=pin_memory,
            subword_dropout=self._dropout,
        )
        self._batches: Iterator[tuple[int, int, Batch]] = iter(self._loader)
        self._held_back: tuple[int, int, Batch] | None = None
        self._epoch_length: tuple[int, int] = (-1, 0)

    def wait_seconds(self) -> float:
        """For how long they were waited for so far."""
        return self._loader.wait_seconds

    def for_update(self) -> list[Batch]:
        """The micro-batches of the next update; fewer where the last epoch ends."""
        batches: list[Batch] = []
        training = self._config.training
        while len(batches) < training.accumulate:
            epoch, position, batch = self._held_back or next(self._batches)
            self._held_back = None
            if batches and training.max_epochs is not None and epoch >= training.max_epochs:
                self._held_back = (epoch, position, batch)
                break
            batches.append(batch)
            if self._epoch_length[0] != epoch:
                self._epoch_length = (epoch, len(self._loader.plan(epoch)))
            self._progress.advance(epoch, position, self._epoch_length[1])
        return batches

    def largest(self, *, of_all: bool) -> Batch:
        """The largest batch of this epoch; with subword dropout as large as it happens to become.

        Args:
            of_all: the one of all processes, the same on each, instead of this one's own.
        """
        epoch = self._progress.epoch
        indices = largest_batch(self._loader.plan(epoch), self._pairs)
        if of_all:
            sizes = [row[0] for row in self._world.gather([positions(indices, self._pairs)])]
            indices = largest_batch(self._loader.plan(epoch, sizes.index(max(sizes))), self._pairs)
        random = np.random.default_rng([self._config.seed, epoch])
        return collate(self._pairs, indices, self._dropout, random)

    def __enter__(self) -> MicroBatches:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._loader.close()


def _subword_dropout(prepared: Prepared, probability: float, longest: int) -> SubwordDropout | None:
    if not probability:
        return None
    source, target = (Parts.of(model) for model in prepared.tokenizer.models)
    # End-of-sentence needs a position too.
    return SubwordDropout(source, target, probability, longest - 1)
