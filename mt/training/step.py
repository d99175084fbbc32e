"""One update: from micro-batches to changed weights, the same on all processes.

Contract: the loss of an update is the sum of the token losses divided by the number of real target tokens
(or of sentences) over all its micro-batches and processes, so it does not depend on how they are cut.
Dropout follows from (seed, step, process, micro-batch). A batch that does not fit into memory is halved; loss
or gradient that are not finite never reach the weights.

With a model in parts (`mt.training.sharding`) gradients are added up during the backward pass. So the number
that the loss is divided by is agreed on before, all processes make the same number of passes, and out of
memory one of them can begin again only with all others.

Not in here: where batches come from, the rate over time, and when an update is made.

Shapes: N real target positions.
"""

from __future__ import annotations

import itertools
import logging
import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from mt.config.schema import GradientPer, Precision, TrainConfig
from mt.data.batches import Batch
from mt.errors import MTError
from mt.training import sharding
from mt.training.device import peak_memory_bytes
from mt.training.distributed import World, is_lost, lost_process
from mt.training.learner import Learner
from mt.training.loss import label_smoothed_loss
from mt.training.memory import OutOfMemory, halved, is_out_of_memory, optimizer_room
from mt.training.randomness import seed_step
from mt.training.state import Progress

logger = logging.getLogger("mt.training")

# Updates without a finite loss and gradient, one after the other, that end a run.
MOST_SKIPPED_IN_A_ROW = 10
# Processes that all run out of memory in a pass do so within this many seconds of each other.
_TOGETHER_SECONDS = 10.0
_TOO_LARGE = "a single sentence pair does not fit into memory; lower data.max_length or model.width."


class Diverged(MTError):
    """Loss or gradient were not finite several times in a row."""

    everywhere = True


class TrainingStep:
    """Makes the updates of a run.

    Args:
        learner: whose weights are changed.
        progress: counters in which updates are booked.
        last_checkpoint: says in a sentence what there is to go back to, for messages.
    """

    def __init__(
        self,
        config: TrainConfig,
        learner: Learner,
        progress: Progress,
        world: World,
        last_checkpoint: Callable[[], str],
    ) -> None:
        self.config, self.learner, self.progress, self.world = config, learner, progress, world
        self._last_checkpoint = last_checkpoint
        # Of a model in parts: failed passes so far, and how often every batch is halved before it is tried.
        self._failures = self._halvings = 0

    def make(self, batches: Sequence[Batch], rate: float) -> None:
        """Change the weights by one step of size `rate`, unless loss or gradient are not finite on any rank.

        Raises:
            OutOfMemory: a rank has no memory for one pair alone.
            Diverged: this has happened too many times in a row.
        """
        progress, training, world, learner = self.progress, self.config.training, self.world, self.learner
        updater = learner.updater
        failure: OutOfMemory | None = None
        splits = 0
        try:
            loss, nll, splits = self.gradient(batches)
        except OutOfMemory as error:
            failure = self._unless_told(error)
        own = sum(batch.tokens for batch in batches)
        own_divisor = self._divisor(batches)
        positions = sum(batch.target_input.numel() for batch in batches)
        tokens, divisor, positions, splits = self._all_fit(failure, [own, own_divisor, positions, splits])
        if splits:
            self._tell_splits(splits)
        if not learner.sharded:
            world.add_gradients(updater.parameters, own_divisor / divisor)
        sums = world.sum_(torch.stack([loss.double(), nll.double()]))
        learner.scaler.unscale_(updater.optimizer)
        norm = updater.gradient_norm()
        if learner.sharded:
            norm = world.sum_(norm.square()).sqrt()
        # The only transfer of results from the device in an update.
        numbers = torch.cat([sums, norm.double().reshape(1)]).tolist()
        finite = all(math.isfinite(number) for number in numbers)
        progress.step += 1
        if finite:
            if training.clip_norm and numbers[2] > training.clip_norm:
                updater.clip(training.clip_norm, norm)
            updater.set_rate(rate)
            learner.scaler.step(updater.optimizer)
            if learner.ema is not None:
                learner.ema.update(progress.step - progress.skipped_updates)
        learner.scaler.update()
        updater.clear()
        self._count(numbers, tokens, positions, finite)

    def rehearse(self, batch: Batch) -> None:
        """Find out before the first update whether memory is enough for a batch; nothing remains of it.

        Raises:
            OutOfMemory: a rank has no memory for one pair alone.
        """
        learner = self.learner
        room = optimizer_room(learner.model, learner.device) if not self.progress.step else []
        learner.model.train()
        splits = 0
        failure: OutOfMemory | None = None
        try:
            splits = self.gradient([batch])[2]
        except OutOfMemory as error:
            failure = self._unless_told(error)
        del room
        learner.updater.clear()
        if learner.sharded:  # what one process alone cannot fit would end the run in a later update
            self._halvings = splits
        (splits,) = self._all_fit(failure, [splits])
        rows, columns = batch.target_input.shape
        size = f"{rows} pairs, {batch.source.shape[1]} source and {columns} target positions"
        if splits:
            logger.warning(
                "the largest batch (%s) does not fit into memory: batches like it are halved, which is slow; "
                "lower training.batch_tokens=%d and raise training.accumulate instead",
                size, self.config.training.batch_tokens,
            )  # fmt: skip
        else:
            memory = peak_memory_bytes(learner.device) / 1e9
            logger.info("the largest batch (%s) fits: peak memory %.2f GB", size, memory)

    def gradient(self, batches: Sequence[Batch]) -> tuple[Tensor, Tensor, int]:
        """Leave the gradient of this rank's part of the update in the parameters.

        When memory runs out, the micro-batches are halved and the part is begun again: the loss is a
        sum over tokens, so the result is the same but for dropout and rounding.

        Returns:
            Loss and nll as sums over tokens, and how many times memory ran out.

        Raises:
            OutOfMemory: one pair alone is too large.
        """
        learner, parts = self.learner, list(batches)
        divisor = self._divisor(batches)
        if learner.sharded:
            divisor = int(self.world.sums([divisor])[0])
            for _ in range(self._halvings):
                parts = halved(parts) or parts
        for splits in itertools.count():
            try:
                return *self._accumulate(parts, divisor), splits
            except (torch.OutOfMemoryError, MemoryError, RuntimeError) as error:
                if not is_out_of_memory(error):
                    if learner.sharded and is_lost(error):
                        raise lost_process(error) from error
                    raise
            # Outside of `except`, whose traceback keeps the tensors of the failed pass alive.
            if learner.sharded:
                self._fail_together()
            learner.updater.clear()
            if learner.device.type == "cuda":
                torch.cuda.empty_cache()
            smaller = halved(parts)
            if learner.sharded and any(row[0] for row in self.world.gather([smaller is None])):
                smaller = None
            if smaller is None:
                raise OutOfMemory(f"{_TOO_LARGE} {self._last_checkpoint()}")
            parts = smaller
        raise AssertionError("itertools.count never ends")

    def _fail_together(self) -> None:
        """Leave a pass of a model in parts that failed for lack of memory, if it failed on all processes.

        Raises:
            OutOfMemory: others are still in it; they cannot be called back, and end with this one.
        """
        self._failures += 1
        if not self.world.come_together(f"out-of-memory-{self._failures}", _TOGETHER_SECONDS):
            alone = OutOfMemory(
                "out of memory, alone among the processes, in a pass that all make together "
                "(training.shard=fsdp); raise training.accumulate and lower training.batch_tokens="
                f"{self.config.training.batch_tokens}. {self._last_checkpoint()}"
            )
            alone.everywhere = False
            raise alone
        sharding.forget_pass(self.learner.model)

    def losses(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Smoothed loss and negative log-likelihood of a micro-batch, sums over its N target tokens."""
        model, precision, device = self.learner.model, self.learner.precision, self.learner.device
        on_cuda = device.type == "cuda"
        low = precision is not Precision.fp32
        kind = torch.float16 if precision is Precision.fp16 else torch.bfloat16
        with torch.autocast(device.type, dtype=kind, enabled=on_cuda and low):
            hidden = model(batch.source, batch.source_mask, batch.target_input, batch.target_mask)
            return label_smoothed_loss(
                hidden,
                model.output_weight,
                model.output_bias,
                batch.target_output[batch.target_mask],
                self.config.training.label_smoothing,
                low_precision=low and not on_cuda,
            )

    def _accumulate(self, batches: Sequence[Batch], divisor: int) -> tuple[Tensor, Tensor]:
        """Loss and nll of some micro-batches, and the gradient of the loss divided by `divisor`."""
        learner, step = self.learner, self.progress.step + 1
        losses: list[Tensor] = []
        nlls: list[Tensor] = []
        passes = len(batches)
        if learner.sharded:
            passes = int(max(row[0] for row in self.world.gather([passes])))
        learner.updater.clear()
        for micro in range(passes):
            batch = batches[min(micro, len(batches) - 1)]
            seed_step(self.config.seed, step, self.world.rank, micro)
            loss, nll = self.losses(batch.to(learner.device))
            if micro >= len(batches):  # made for the others' sake, and counts nothing
                loss, nll = 0.0 * loss, 0.0 * nll
            learner.scaler.scale(loss / divisor).backward()  # type: ignore[no-untyped-call]
            losses.append(loss.detach())
            nlls.append(nll)
        return torch.stack(losses).sum(), torch.stack(nlls).sum()

    def _unless_told(self, failure: OutOfMemory) -> OutOfMemory:
        """A failure that the other ranks have to be told of; raised where they know, or cannot listen."""
        if self.learner.sharded:
            raise failure
        return failure

    def _divisor(self, batches: Sequence[Batch]) -> int:
        """What the sum of token losses is divided by: target tokens, or sentences."""
        per_sentence = self.config.training.gradient_per is GradientPer.sentence
        return sum(len(batch.source) if per_sentence else batch.tokens for batch in batches)

    def _all_fit(self, failure: OutOfMemory | None, counts: Sequence[int]) -> list[int]:
        """The sums of some counts over the ranks, or the end on all of them where one had no memory."""
        rows = self.world.gather([failure is not None, *counts])
        failed = [rank for rank, row in enumerate(rows) if row[0]]
        if failure is not None and self.world.size == 1:
            raise failure
        if failed:
            raise OutOfMemory(f"process {failed[0]}: {_TOO_LARGE} {self._last_checkpoint()}")
        return [int(sum(column)) for column in list(zip(*rows, strict=True))[1:]]

    def _tell_splits(self, splits: int) -> None:
        """Count and tell that batches were halved."""
        self.progress.split_batches += splits
        logger.warning(
            "step %d: out of memory, micro-batches halved; lower training.batch_tokens=%d to avoid this",
            self.progress.step + 1, self.config.training.batch_tokens,
        )  # fmt: skip

    def _count(self, numbers: Sequence[float], tokens: int, positions: int, finite: bool) -> None:
        """Book an update; end the run if too many in a row were skipped."""
        progress, scaler = self.progress, self.learner.scaler
        progress.tokens += tokens
        window = progress.window
        if finite:
            window.updates += 1
            window.loss += numbers[0]
            window.nll += numbers[1]
            window.tokens += tokens
            window.positions += positions
            window.gradient_norm += numbers[2]
            progress.skipped_in_a_row = 0
            return
        progress.skipped_updates += 1
        # While fp16 looks for its scale, gradients overflow by design; only a bad loss or the smallest
        # scale tells.
        searching = scaler.is_enabled() and math.isfinite(numbers[0]) and scaler.get_scale() > 1.0
        if searching:
            return
        progress.skipped_in_a_row += 1
        logger.warning("step %d: loss or gradient not finite, update skipped", progress.step)
        if progress.skipped_in_a_row >= MOST_SKIPPED_IN_A_ROW:
            raise Diverged(
                f"loss or gradient were not finite {MOST_SKIPPED_IN_A_ROW} times in a row, the last at step "
                f"{progress.step}. "
                "Lower optimizer.lr, raise schedule.warmup_steps, set training.clip_norm, or use "
                f"training.precision=fp32. {self._last_checkpoint()}"
            )
