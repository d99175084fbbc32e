"""The training loop.

Contract: `train` turns a configuration into a finished run folder, or goes on where an earlier process
stopped. Everything random follows from (seed, step, process, micro-batch), so on the same machine a resumed
run is bit-identical to an unbroken one unless its budget counts minutes. With `max_minutes` the clock
decides the learning rate and the end: then only what a step computes is reproducible, not how many steps
there are. Under torchrun every process runs this loop on batches of its own and decides as the others do;
only the first one writes.

Who does what: `MicroBatches` brings the data, `TrainingStep` makes an update of the `Learner`, `Timekeeper`
knows how much of the budget is used, `Validator` how good the model is, `Snapshots` writes checkpoints,
`Reporter` tells, and `mt.training.ending` chooses the final model. `Progress`, the counters, is one object
that they share.

Not in here: the model, the data, the search.
"""

from __future__ import annotations

import contextlib
import logging
import math
import os
import signal
from collections.abc import Mapping, Sequence
from pathlib import Path

from mt.config.schema import Shard, TrainConfig
from mt.data.batches import Batch
from mt.data.preparation import Prepared, prepare
from mt.errors import ConfigError
from mt.models.build import refuse_too_large
from mt.models.seq2seq import parameter_count
from mt.training import run_folder, timekeeping
from mt.training.checkpoint import Checkpoint
from mt.training.device import check_support, set_threads, tune_process
from mt.training.distributed import World, joined
from mt.training.ending import TrainResult, final_model, finished, write_result
from mt.training.learner import Learner
from mt.training.micro_batches import MicroBatches
from mt.training.record import open_record
from mt.training.reporting import Reporter, tell_end, tell_start
from mt.training.schedule import Budget, learning_rate
from mt.training.signals import Halted, Interrupted, Signals
from mt.training.snapshots import Snapshots, progress_of, restart_point, restored_progress
from mt.training.state import Progress
from mt.training.step import TrainingStep
from mt.training.timekeeping import Timekeeper
from mt.training.validation import Validation, Validator, finite_or_none, is_better

logger = logging.getLogger("mt.training")


def train(config: TrainConfig, folder: Path) -> TrainResult:
    """Train a model into a run folder; the same call goes on with an unfinished run.

    Args:
        config: checked by `mt.config.validate`.
        folder: the run folder (see `mt.training.run_folder.run_folder_for`).

    Raises:
        ConfigError: the folder holds a run with another configuration, or the device cannot do what is asked.
        CheckpointError: the folder cannot be used, is in use, or no checkpoint in it is whole.
        DataError, TokenizerError: the data cannot be used.
        Diverged, OutOfMemory: training cannot go on; the message names the last checkpoint.
        Interrupted: SIGTERM or SIGINT; its exit code is 143 or 130.
    """
    with joined(config) as world:
        check_support(world.device, config.training.precision, config.training.compile)
        if config.training.shard is Shard.fsdp and world.size == 1:
            raise ConfigError(
                [
                    "training.shard=fsdp shares the model among several processes, but this is one alone; "
                    "start them with torchrun --nproc-per-node=N -m mt.train ..., or leave it out"
                ]
            )
        signals = Signals(echoed=world.size > 1)
        with signals.caught():
            return _train(config, folder, world, signals)


def _train(config: TrainConfig, folder: Path, world: World, signals: Signals) -> TrainResult:
    budget = Budget.of(config.training)
    # PyTorch makes this folder with the first optimizer, else among the system's temporary files.
    os.environ.setdefault(
        "TORCHINDUCTOR_CACHE_DIR", str(Path(config.data.cache).absolute() / "torchinductor")
    )
    if config.model.match_parameters is None:  # else the width depends on the vocabulary
        refuse_too_large(config.model, config.attention)
    done = stored = None
    changed: dict[str, str] = {}
    if world.first:
        run_folder.check_usable(folder)
        stored = run_folder.stored_config(folder)
        if stored is not None:
            changed = run_folder.check_same_run(stored, config, folder)
            done = None if run_folder.reopens(changed) else finished(folder)
    if world.from_first(done is not None):
        logger.info("the run in %s is finished; nothing is trained", folder)
        done = done or finished(folder)
        assert done is not None
        tell_end(done)
        return done
    with contextlib.ExitStack() as held:
        if world.first:
            held.enter_context(run_folder.owned(folder))
            held.enter_context(run_folder.log_file(folder))
            for difference in changed.values():
                logger.info("changed for the rest of the run: %s", difference)
        set_threads(config.training.threads)
        if world.device.type == "cpu":
            tune_process()
        try:
            with signals.may_halt():
                prepared = world.after_first(
                    lambda: prepare(config.data, config.tokenizer, config.model.max_positions)
                )
        except Halted:
            raise Interrupted(
                signals.received or signal.SIGTERM,
                "stopped while the data was prepared; the same command uses what is in the cache already",
            ) from None
        world.must_agree("tokenizers", prepared.tokenizer.sha256)
        start = restart_point(folder, world, begun=stored is not None)
        if world.first:
            if start is not None:
                run_folder.refuse_shortened(config, changed, progress_of(start))
            open_record(folder, config, prepared, world.device, resumed=start is not None)
        trainer = Trainer(config, folder, prepared, budget, start, world, signals)
        tell_start(folder, trainer.learner, trainer.progress, prepared, trainer.validator)
        return trainer.run()


class Trainer:
    """One process's part of a run: model, optimizer and counters, from a checkpoint or from the seed.

    Args:
        start: the checkpoint to go on from; None begins the run.
        world: the processes of the run, and this one's device.
        signals: what asks it to stop; caught by the caller.
    """

    _batches: MicroBatches

    def __init__(
        self,
        config: TrainConfig,
        folder: Path,
        prepared: Prepared,
        budget: Budget,
        start: Checkpoint | None,
        world: World | None = None,
        signals: Signals | None = None,
    ) -> None:
        training = config.training
        world = world or World()
        self.config, self.folder, self.prepared = config, folder, prepared
        self.world, self._signals = world, signals or Signals()
        self.validator = Validator(
            config, prepared, world.device, training.batch_tokens, world, self._signals.may_halt
        )
        self.progress = Progress(world_size=world.size) if start is None else restored_progress(start, world)
        self.learner = Learner(config, prepared, self.progress, start, world)
        self.snapshots = Snapshots(config, folder, prepared.tokenizer, self.learner, self.progress, world)
        self.training_step = TrainingStep(config, self.learner, self.progress, world, self.snapshots.last)
        self.timer = Timekeeper(
            budget,
            self.progress,
            world,
            valid_tokens=int(prepared.valid.target_lengths.sum()) + len(prepared.valid),
            last_validations=2 if training.average_last > 1 else 1,
        )
        self.reporter = Reporter(config, folder, self.progress, self.timer, world)

    # --- the loop ---

    def run(self) -> TrainResult:
        """Train until the budget is used up, then choose and write the final model."""
        progress, learner = self.progress, self.learner
        self.reporter.open()
        try:
            with MicroBatches(
                self.config,
                self.prepared,
                progress,
                self.world,
                longest=learner.model.max_positions,
                pin_memory=learner.device.type == "cuda",
            ) as self._batches:
                try:
                    self._try_largest_batch()
                    self.timer.begin(self._batches.wait_seconds)
                    result = self._finish(self._loop())
                except Halted:
                    progress.validation_due = progress.validated_step != progress.step
                    self._leave_if_signalled(self._agreed_signal())
                    raise
        finally:
            self.reporter.close()
        tell_end(result)
        return result

    def _loop(self) -> str:
        """Update, validate and save until the budget is used up; what of it ended the run."""
        training, progress = self.config.training, self.progress
        self.learner.model.train()
        self._leave_if_signalled(self._agreed_signal())
        if progress.validation_due:
            self._validate_and_save()
        while (stopped_by := self._stopped_by()) is None:
            epochs_before = progress.epochs
            self._update(self._batches.for_update())
            if progress.step % training.log_every_steps == 0 or self._stopped_by() is not None:
                self.reporter.log(self.learner.updater.rate)
            self.reporter.show()
            self._measure_validation()
            stop = self._agreed_signal()
            if self._validation_falls(epochs_before) and self.timer.has_time_for_validation():
                if stop is None:
                    self._validate_and_save()
                else:  # there may be little time before a harder signal: save now, validate when resumed
                    progress.validation_due = True
            elif training.save_every_steps and progress.step % training.save_every_steps == 0:
                self._save(planned=True)
            self._leave_if_signalled(stop)
        if progress.validated_step != progress.step:
            self._validate_and_save()
        self._leave_if_signalled(self._agreed_signal())
        return stopped_by

    def _stopped_by(self) -> str | None:
        """What ends the run now, if anything."""
        patience = self.config.training.patience
        if patience is not None and self.progress.stale >= patience:
            return "patience"
        return self.timer.used_up()

    def _update(self, batches: Sequence[Batch]) -> None:
        """One update of the weights, at the rate that the budget asks for."""
        progress, config = self.progress, self.config
        rate = learning_rate(
            config.schedule,
            config.optimizer,
            step=progress.step + 1,
            progress=self.timer.share(),
            epochs=progress.epochs,
            width=config.model.width,
        )
        self.training_step.make(batches, rate)
        self.timer.update_done()

    def _try_largest_batch(self) -> None:
        """Find out before the first update whether memory is enough."""
        self.training_step.rehearse(self._batches.largest(of_all=self.learner.sharded))

    def _agreed_signal(self) -> int | None:
        """A signal that any process got."""
        return int(max(row[0] for row in self.world.gather([self._signals.received or 0]))) or None

    def _leave_if_signalled(self, number: int | None) -> None:
        if number is None:
            return
        step = self.progress.step
        if step and not self.snapshots.exists(step):
            self._save(planned=False)
        self.timer.tick()  # the first process has saved when it comes here: only then may the others end
        raise Interrupted(
            number,
            f"stopped by {signal.Signals(number).name} after step {step}; everything is saved. "
            f"The same command goes on from there, as does: python -m mt.train resume={self.folder}",
        )

    # --- validation and checkpoints ---

    def _validation_falls(self, epochs_before: float) -> bool:
        """Whether a validation is due after this update."""
        training, progress = self.config.training, self.progress
        if training.validate_every_steps is not None:
            return progress.step % training.validate_every_steps == 0
        every = training.validate_every_epochs
        # A little more than the quotient: 0.3 / 0.1 must count as 3.
        return math.floor(progress.epochs / every + 1e-9) > math.floor(epochs_before / every + 1e-9)

    def _measure_validation(self) -> None:
        """Find out how long a validation takes when the minutes ask for it and there was none."""
        if not self.timer.must_measure_validation():
            return
        with self.timer.aside(validating=True), self.learner.evaluated() as model:
            self.progress.validation_seconds = self.validator.forecast(model, timekeeping.clock)
        self.timer.tick()

    def _validate_and_save(self) -> None:
        progress, timer = self.progress, self.timer
        begin = timer.tick()
        with timer.aside(validating=True):
            with self.learner.averaged():
                result = self._validate("valid")
            progress.validated_step, progress.validation_due = progress.step, False
            self._judge(result.metrics())
            progress.validation_seconds = timer.tick() - begin
            progress.elapsed_seconds = timer.elapsed()
            self.snapshots.save(planned=True)
            progress.validation_seconds = timer.tick() - begin

    def _validate(self, kind: str) -> Validation:
        """Validate the weights that the model has now, and tell everyone."""
        with self.learner.evaluated() as model:
            result = self.validator.validate(model)
            self.reporter.validation(kind, result, self.validator, model)
        return result

    def _judge(self, metrics: Mapping[str, float]) -> None:
        """Is this the best validation so far?"""
        progress = self.progress
        if is_better(self.config.training.valid_metric, metrics, progress.best_metrics):
            progress.best_step, progress.stale = progress.step, 0
            progress.best_metrics = finite_or_none(metrics)
        else:
            progress.stale += 1

    def _save(self, *, planned: bool) -> None:
        self.progress.elapsed_seconds = self.timer.elapsed()
        with self.timer.aside(validating=False):
            self.snapshots.save(planned=planned)

    def _finish(self, stopped_by: str) -> TrainResult:
        """Choose the final model, write it and the result."""
        progress = self.progress
        final = final_model(
            self.config,
            self.learner,
            progress,
            self.snapshots.checkpoints,
            lambda: self._validate("final").metrics(),
        )
        self.timer.tick()
        result = TrainResult(
            step=progress.step,
            epochs=progress.epochs,
            tokens=progress.tokens,
            elapsed_seconds=self.timer.elapsed(),
            metric=self.config.training.valid_metric.value,
            metrics=final.metrics,
            model=final.origin,
            model_step=final.step,
            parameters=parameter_count(self.learner.model),
            skipped_updates=progress.skipped_updates,
            stopped_by=stopped_by,
            doubts=self.timer.doubts(stopped_by, self.config.schedule.warmup_steps),
            folder=self.folder,
        )
        if self.world.first:
            self.reporter.options(result)
            write_result(result, final.tensors, self.snapshots)
        return result
