"""The training loop.

Contract: `train` turns a configuration into a finished run folder, or goes on where an earlier process
stopped. The loss of an update is the sum of the token losses divided by the number of real target tokens
(or of sentences) over all its micro-batches, so it does not depend on how they are cut. Everything random
follows from (seed, step, micro-batch), so on the same machine a resumed run is bit-identical to an unbroken
one when its budget counts updates or epochs. With `max_minutes` the clock decides the learning rate and the
end: then only what a step computes is reproducible, not how many steps there are.

Not in here: the model, the data, the search; the files of a checkpoint (`mt.training.checkpoint`).

Shapes: B sentences, S source length, T target length, N real target positions, D width, V vocabulary.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import logging
import math
import signal
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from mt.config.fields import options, show, value_of
from mt.config.schema import GradientPer, Initialization, Precision, TrainConfig, ValidMetric
from mt.data.batches import Batch, BatchLoader
from mt.data.lines import counted
from mt.data.preparation import Prepared, prepare
from mt.data.subwords import Parts, SubwordDropout
from mt.errors import CheckpointError, ConfigError, MTError
from mt.kernels.linear import set_precision
from mt.models import storage
from mt.models.build import build_model
from mt.models.seq2seq import Seq2Seq, parameter_count
from mt.training import checkpoint, run_folder, tracking
from mt.training.averaging import Ema, average_files
from mt.training.device import (
    check_support,
    choose_device,
    choose_precision,
    device_name,
    peak_memory_bytes,
    set_threads,
    tune_process,
)
from mt.training.lexical_init import initialize_lexically
from mt.training.loss import label_smoothed_loss
from mt.training.optimizer import Updater
from mt.training.randomness import seed_step, seed_weights
from mt.training.record import open_record
from mt.training.schedule import Budget, learning_rate
from mt.training.signals import Halted, Interrupted, Signals
from mt.training.state import Progress, Window
from mt.training.validation import Validation, Validator, perplexity

logger = logging.getLogger("mt.training")

# Updates without a finite loss and gradient, one after the other, that end a run.
MOST_SKIPPED_IN_A_ROW = 10
# After this many updates of a process its speed is known well enough for a forecast.
_FORECAST_AFTER = 20
# First guess of a validation's time, before one was measured: a token of the validation set costs as much
# as three trained ones (decoding goes token by token, but backward is not needed), and at most this share
# of the minutes.
_VALIDATION_COST, _VALIDATION_SHARE = 3.0, 0.2
# When this share of the minutes is used and no validation has come yet, its time is measured on a part of the
# set: the last validation must not be the first of which it is known how long it takes.
_MEASURE_AFTER = 0.5
_RANK = 0

# Time in the loop is read from here.
clock = time.monotonic


class Diverged(MTError):
    """Loss or gradient were not finite several times in a row."""


class OutOfMemory(MTError):
    """One sentence pair alone does not fit into memory."""


@dataclass(frozen=True)
class TrainResult:
    """What a finished run reached; stored as result.json.

    Attributes:
        step, epochs, tokens: updates, passes over the data (fractions too) and real target tokens seen.
        elapsed_seconds: time in the loop over all sessions, validation included.
        metric: what decided (bleu or loss); `metrics` the final model's validation numbers.
        model: where the final model comes from, in words.
        model_step: updates behind it.
        parameters: trained values, a tied matrix counted once.
        stopped_by: steps, epochs, minutes or patience.
    """

    step: int
    epochs: float
    tokens: int
    elapsed_seconds: float
    metric: str
    metrics: dict[str, float | None]
    model: str
    model_step: int
    parameters: int
    skipped_updates: int
    stopped_by: str
    folder: Path = field(default=Path(), compare=False)
    already_finished: bool = field(default=False, compare=False)


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
    budget = Budget.of(config.training)
    run_folder.check_usable(folder)
    device = choose_device(config.device)
    check_support(device, config.training.precision, config.training.compile)
    stored = run_folder.stored_config(folder)
    if stored is not None:
        changed = run_folder.check_same_run(stored, config, folder)
        if (done := _finished(folder)) is not None and not run_folder.reopens(changed):
            logger.info("the run in %s is finished; nothing is trained", folder)
            _tell_next_commands(done)
            return done
    with run_folder.owned(folder), run_folder.log_file(folder):
        threads = set_threads(config.training.threads)
        if device.type == "cpu":
            tune_process()
        prepared = prepare(config.data, config.tokenizer, config.model.max_positions)
        checkpoint.remove_leftovers(folder / run_folder.CHECKPOINTS)
        start = checkpoint.newest_valid(folder / run_folder.CHECKPOINTS) if stored is not None else None
        open_record(folder, config, prepared, device, resumed=start is not None)
        trainer = Trainer(config, folder, prepared, device, budget, start)
        _tell_start(trainer, threads)
        return trainer.run()


class Trainer:
    """One process's part of a run: model, optimizer and counters, from a checkpoint or from the seed.

    Args:
        start: the checkpoint to go on from; None begins the run.
    """

    _loader: BatchLoader

    def __init__(
        self,
        config: TrainConfig,
        folder: Path,
        prepared: Prepared,
        device: torch.device,
        budget: Budget,
        start: checkpoint.Checkpoint | None,
    ) -> None:
        training = config.training
        self.config, self.folder, self.prepared = config, folder, prepared
        self.device, self.budget = device, budget
        self.checkpoints = folder / run_folder.CHECKPOINTS
        self.validator = Validator(config, prepared, device, training.batch_tokens)
        seed_weights(config.seed)
        tokenizer = prepared.tokenizer
        self.model: Seq2Seq = build_model(
            config.model, config.attention, tokenizer.source_size, tokenizer.target_size
        ).to(device)
        if start is None and config.model.initialization is Initialization.lexical:
            initialize_lexically(self.model, prepared.train, config.seed)
        self.updater = Updater(self.model, config.optimizer)
        self.ema = Ema(self.model, training.ema_decay) if training.ema_decay > 0 else None
        self.precision = choose_precision(training.precision, device)
        fp16 = self.precision is Precision.fp16
        self.scaler = torch.amp.GradScaler(device.type, enabled=fp16)
        self.progress = Progress()
        if start is not None:
            self._restore(start)
        self._set_precision(self.precision)
        if training.compile:
            compile_layers(self.model)
        self._tracker: tracking.Tracker = tracking.Tracker([])
        self._bar: tracking.ProgressBar | None = None
        self._signals = Signals()
        self._base_memory = peak_memory_bytes(device)
        # Of this process: when the loop began and where the run stood then, how long it validated.
        self._session_start = self._window_start = clock()
        self._session_elapsed, self._session_epochs = self.progress.elapsed_seconds, self.progress.epochs
        self._session_share, self._session_updates, self._validating = 0.0, 0, 0.0
        self._loader_waited = 0.0
        self._epoch_length: tuple[int, int] = (-1, 0)
        self._batches: Iterator[tuple[int, int, Batch]] = iter(())
        self._held_back: tuple[int, int, Batch] | None = None

    # --- the loop ---

    def run(self) -> TrainResult:
        """Train until the budget is used up, then choose and write the final model."""
        training, progress = self.config.training, self.progress
        self._tracker = tracking.Tracker(self._sinks())
        self._loader = BatchLoader(
            self.prepared.train,
            batch_tokens=training.batch_tokens,
            batch_sentences=training.batch_sentences,
            seed=self.config.seed,
            epoch=progress.epoch,
            position=progress.position,
            prefetch_batches=training.prefetch_batches,
            pin_memory=self.device.type == "cuda",
            subword_dropout=self._subword_dropout(),
        )
        if tracking.show_bar(training.progress):
            self._bar = tracking.ProgressBar()
        self._session_start = self._window_start = clock()
        self._session_share = self._share()
        try:
            with self._signals.caught(), self._loader:
                self._batches = iter(self._loader)
                try:
                    self._loop()
                    result = self._finish()
                except Halted:
                    progress.validation_due = progress.validated_step != progress.step
                    self._leave_if_signalled()
                    raise
        finally:
            if self._bar is not None:
                self._bar.close()
            self._tracker.close()
        _tell_next_commands(result)
        return result

    def _subword_dropout(self) -> SubwordDropout | None:
        probability = self.config.training.subword_dropout
        if not probability:
            return None
        source, target = (Parts.of(model) for model in self.prepared.tokenizer.models)
        # End-of-sentence needs a position too.
        return SubwordDropout(source, target, probability, self.model.max_positions - 1)

    def _loop(self) -> None:
        training, progress = self.config.training, self.progress
        self.model.train()
        if progress.validation_due:
            self._validate_and_save()
        while self._stopped_by() is None:
            epochs_before = progress.epochs
            self._update(self._gather())
            if progress.step % training.log_every_steps == 0 or self._stopped_by() is not None:
                self._log()
            self._show()
            self._measure_validation()
            if self._validation_falls(epochs_before) and self._time_for_validation():
                if self._signals.received is None:
                    self._validate_and_save()
                else:  # there may be little time before a harder signal: save now, validate when resumed
                    progress.validation_due = True
            elif training.save_every_steps and progress.step % training.save_every_steps == 0:
                self._save(planned=True)
            self._leave_if_signalled()
        if progress.validated_step != progress.step:
            self._validate_and_save()
        self._leave_if_signalled()

    def _stopped_by(self) -> str | None:
        """What ends the run now, if anything."""
        progress, patience = self.progress, self.config.training.patience
        if patience is not None and progress.stale >= patience:
            return "patience"
        if self._share() < 1.0:
            return None
        if self.budget.max_steps is not None and progress.step >= self.budget.max_steps:
            return "steps"
        if self.budget.max_epochs is not None and progress.epochs >= self.budget.max_epochs:
            return "epochs"
        return "minutes"

    def _elapsed(self) -> float:
        """Seconds in the loop over all sessions."""
        return self._session_elapsed + clock() - self._session_start

    def _share(self) -> float:
        """The share of the budget that is used."""
        progress = self.progress
        return self.budget.progress(progress.step, progress.epochs, self._elapsed(), self._reserve())

    def _reserve(self) -> float:
        """Seconds that are needed after the last update, as far as they are known; 0 without max_minutes."""
        if self.budget.max_minutes is None:
            return 0.0
        progress = self.progress
        rounds = 2 if self.config.training.average_last > 1 else 1
        if progress.validation_seconds:
            return rounds * progress.validation_seconds
        if not progress.tokens:
            return 0.0
        work = int(self.prepared.valid.target_lengths.sum()) + len(self.prepared.valid)
        guess = _VALIDATION_COST * work * progress.elapsed_seconds / progress.tokens
        return min(rounds * guess, _VALIDATION_SHARE * self.budget.max_minutes * 60)

    def _measure_validation(self) -> None:
        """Forecast a validation's time when half of the minutes are used and none has been measured."""
        limit, progress = self.budget.max_minutes, self.progress
        if limit is None or progress.validation_seconds or self._elapsed() < _MEASURE_AFTER * limit * 60:
            return
        self._close_window_time()
        begin = self._window_start
        set_precision(self.model, Precision.fp32)
        try:
            progress.validation_seconds = self.validator.forecast(self.model, clock)
        finally:
            self._set_precision(self.precision)
        self._window_start = clock()  # the speed that is told is that of training alone
        self._validating += self._window_start - begin

    # --- one update ---

    def _gather(self) -> list[Batch]:
        """The micro-batches of the next update; fewer where the last epoch ends."""
        batches: list[Batch] = []
        progress = self.progress
        while len(batches) < self.config.training.accumulate:
            epoch, position, batch = self._held_back or next(self._batches)
            self._held_back = None
            if batches and self.budget.max_epochs is not None and epoch >= self.budget.max_epochs:
                self._held_back = (epoch, position, batch)
                break
            batches.append(batch)
            if self._epoch_length[0] != epoch:
                self._epoch_length = (epoch, len(self._loader.plan(epoch)))
            length = self._epoch_length[1]
            progress.epoch, progress.position = (
                (epoch, position + 1) if position + 1 < length else (epoch + 1, 0)
            )
            progress.epochs = progress.epoch + (progress.position / length if progress.position else 0.0)
        return batches

    def _update(self, batches: Sequence[Batch]) -> None:
        """One step of the optimizer, unless loss or gradient are not finite."""
        progress, training = self.progress, self.config.training
        rate = self._rate()
        loss, nll = self._gradient(batches)
        tokens = sum(batch.tokens for batch in batches)
        self.scaler.unscale_(self.updater.optimizer)
        norm = self.updater.gradient_norm()
        # The only transfer from the device in an update.
        numbers = torch.stack([loss.double(), nll.double(), norm.double()]).tolist()
        finite = all(math.isfinite(number) for number in numbers)
        progress.step += 1
        if finite:
            if training.clip_norm and numbers[2] > training.clip_norm:
                self.updater.clip(training.clip_norm, norm)
            self.updater.set_rate(rate)
            self.scaler.step(self.updater.optimizer)
            if self.ema is not None:
                self.ema.update(progress.step - progress.skipped_updates)
        self.scaler.update()
        self.updater.clear()
        self._count(batches, numbers, tokens, finite)

    def _rate(self) -> float:
        progress = self.progress
        return learning_rate(
            self.config.schedule,
            self.config.optimizer,
            step=progress.step + 1,
            progress=self._share(),
            epochs=progress.epochs,
            width=self.config.model.width,
        )

    def _gradient(self, batches: Sequence[Batch]) -> tuple[Tensor, Tensor]:
        """Leave the gradient of the update in the parameters; (loss, nll) as sums over tokens.

        When memory runs out, the micro-batches are halved and the update is begun again: the loss is a
        sum over tokens, so the result is the same but for dropout and rounding.
        """
        parts = list(batches)
        while True:
            try:
                return self._accumulate(parts)
            except (torch.OutOfMemoryError, RuntimeError) as error:
                if not _is_out_of_memory(error):
                    raise
            # Outside of `except`, whose traceback keeps the tensors of the failed pass alive.
            self.updater.clear()
            if self.device.type == "cuda":
                torch.cuda.empty_cache()
            if all(len(batch.source) == 1 for batch in parts):
                raise OutOfMemory(
                    "a single sentence pair does not fit into memory; lower data.max_length or model.width. "
                    f"{self._last_checkpoint()}"
                )
            largest = max(batch.target_input.numel() for batch in parts if len(batch.source) > 1)
            parts = [
                half
                for batch in parts
                for half in (batch.split() if _can_be_split(batch, largest) else (batch,))
            ]
            self.progress.split_batches += 1
            logger.warning(
                "step %d: out of memory, micro-batches halved; lower training.batch_tokens=%d to avoid this",
                self.progress.step + 1, self.config.training.batch_tokens,
            )  # fmt: skip

    def _accumulate(self, batches: Sequence[Batch]) -> tuple[Tensor, Tensor]:
        config, progress = self.config, self.progress
        per_sentence = config.training.gradient_per is GradientPer.sentence
        divisor = sum(len(batch.source) if per_sentence else batch.tokens for batch in batches)
        losses: list[Tensor] = []
        nlls: list[Tensor] = []
        self.updater.clear()
        for micro, batch in enumerate(batches):
            seed_step(config.seed, progress.step + 1, _RANK, micro)
            loss, nll = self._losses(batch.to(self.device))
            self.scaler.scale(loss / divisor).backward()  # type: ignore[no-untyped-call]
            losses.append(loss.detach())
            nlls.append(nll)
        return torch.stack(losses).sum(), torch.stack(nlls).sum()

    def _losses(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Smoothed loss and negative log-likelihood of a micro-batch, sums over its N target tokens."""
        training = self.config.training
        on_cuda = self.device.type == "cuda"
        low = self.precision is not Precision.fp32
        kind = torch.float16 if self.precision is Precision.fp16 else torch.bfloat16
        with torch.autocast(self.device.type, dtype=kind, enabled=on_cuda and low):
            hidden = self.model(batch.source, batch.source_mask, batch.target_input, batch.target_mask)
            return label_smoothed_loss(
                hidden,
                self.model.output_weight,
                self.model.output_bias,
                batch.target_output[batch.target_mask],
                training.label_smoothing,
                low_precision=low and not on_cuda,
            )

    def _count(self, batches: Sequence[Batch], numbers: Sequence[float], tokens: int, finite: bool) -> None:
        """Book an update; end the run if too many in a row were skipped."""
        progress = self.progress
        progress.tokens += tokens
        progress.elapsed_seconds = self._elapsed()
        self._session_updates += 1
        window = progress.window
        if finite:
            window.updates += 1
            window.loss += numbers[0]
            window.nll += numbers[1]
            window.tokens += tokens
            window.positions += sum(batch.target_input.numel() for batch in batches)
            window.gradient_norm += numbers[2]
            progress.skipped_in_a_row = 0
            return
        progress.skipped_updates += 1
        # While fp16 looks for its scale, gradients overflow by design; only a bad loss or the smallest
        # scale tells.
        searching = self.scaler.is_enabled() and math.isfinite(numbers[0]) and self.scaler.get_scale() > 1.0
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

    # --- validation and checkpoints ---

    def _validation_falls(self, epochs_before: float) -> bool:
        """Whether a validation is due after this update."""
        training, progress = self.config.training, self.progress
        if training.validate_every_steps is not None:
            return progress.step % training.validate_every_steps == 0
        every = training.validate_every_epochs
        # A little more than the quotient: 0.3 / 0.1 must count as 3.
        return math.floor(progress.epochs / every + 1e-9) > math.floor(epochs_before / every + 1e-9)

    def _time_for_validation(self) -> bool:
        """Whether the minutes leave time for this validation, a bit of training, and the last one."""
        if self.budget.max_minutes is None:
            return True
        return self._elapsed() + 2 * self._reserve() < self.budget.max_minutes * 60

    def _validate_and_save(self) -> None:
        self._close_window_time()
        begin = self._window_start
        progress = self.progress
        with self._averaged():
            result = self._validate("valid")
        progress.validated_step, progress.validation_due = progress.step, False
        self._judge(result.metrics())
        self._window_start = clock()  # the speed that is told is that of training alone
        progress.validation_seconds = self._window_start - begin
        self._save(planned=True)
        progress.validation_seconds = clock() - begin
        self._validating += progress.validation_seconds

    def _validate(self, kind: str) -> Validation:
        """Validate the weights that the model has now, and tell everyone."""
        training, progress = self.config.training, self.progress
        set_precision(self.model, Precision.fp32)  # as mt.evaluate translates
        try:
            with self._signals.may_halt():
                result = self.validator.validate(self.model)
            samples = self.validator.samples(result, training.samples)
            self._tracker.record(kind, progress.step, {"epoch": progress.epochs, **result.metrics()})
            self._tracker.samples(progress.step, samples)
            if self._tracker.pictures and samples:
                self._tracker.attention(progress.step, self.validator.attention_maps(self.model, samples))
        finally:
            self._set_precision(self.precision)
        return result

    def _judge(self, metrics: Mapping[str, float]) -> None:
        """Is this the best validation so far?"""
        progress = self.progress
        if self._better(metrics, progress.best_metrics):
            progress.best_step, progress.stale = progress.step, 0
            progress.best_metrics = finite_or_none(metrics)
        else:
            progress.stale += 1

    def _better(self, metrics: Mapping[str, float | None], best: Mapping[str, float | None]) -> bool:
        """Whether a validation is better than the best one; what is not a number never is.

        Equal BLEU (0 for a while, at the beginning) is decided by the loss.
        """
        names = ["bleu", "loss"] if self.config.training.valid_metric is ValidMetric.bleu else ["loss"]
        new, old = ([_goodness(name, numbers.get(name)) for name in names] for numbers in (metrics, best))
        return new[0] > -math.inf and new > old

    @contextlib.contextmanager
    def _averaged(self) -> Iterator[None]:
        """While inside, the model has the weights that count: the moving average if there is one."""
        with self.ema.applied() if self.ema is not None else contextlib.nullcontext():
            yield

    def _save(self, *, planned: bool) -> None:
        progress, training = self.progress, self.config.training
        progress.elapsed_seconds = self._elapsed()
        progress.scaler = self.scaler.state_dict()
        progress.threads = torch.get_num_threads()
        optimizer = self.updater.tensors()
        if self.ema is not None:
            # The checkpoint's model is the one that was validated; the weights as trained stand beside it.
            optimizer.update(
                {f"weights.{name}": t.detach().clone() for name, t in self.model.named_parameters()}
            )
        self._close_window_time()
        with self._averaged():
            checkpoint.save(
                self.checkpoints,
                progress.step,
                model=storage.tensors_of(self.model),
                optimizer=optimizer,
                facts=self._facts(f"checkpoint {checkpoint.folder_name(progress.step)}", progress.step),
                state=dataclasses.asdict(progress),
                planned=planned,
            )
        best = progress.best_step if progress.best_metrics else None
        checkpoint.prune(self.checkpoints, max(training.keep_last, training.average_last), best)
        self._window_start = clock()

    def _facts(self, origin: str, step: int, sha256: str | None = None) -> storage.ModelFacts:
        """What stands beside weights that were made in this run."""
        tokenizer = self.prepared.tokenizer
        return storage.ModelFacts(
            tokenizer_sha256=tokenizer.sha256,
            source_size=tokenizer.source_size,
            target_size=tokenizer.target_size,
            step=step,
            origin=origin,
            weights_sha256=sha256,
        )

    def _restore(self, start: checkpoint.Checkpoint) -> None:
        """Model, optimizer, average and counters as they were."""
        progress = self.progress = Progress.from_state(start.state, start.folder / checkpoint.STATE)
        storage.load_tensors(self.model, start.model(), start.folder / checkpoint.MODEL)
        tensors = start.optimizer()
        weights = {n.removeprefix("weights."): t for n, t in tensors.items() if n.startswith("weights.")}
        if self.ema is not None:
            self.ema = Ema(self.model, self.config.training.ema_decay)  # from the validated weights
            if self.ema.average.keys() != weights.keys():
                raise CheckpointError(
                    f"{start.folder}: the weights beside the moving average are not the model's"
                )
            with torch.no_grad():
                for name, parameter in self.model.named_parameters():
                    parameter.copy_(weights[name])
        self.updater.load({n: t for n, t in tensors.items() if not n.startswith("weights.")})
        if self.scaler.is_enabled():
            self.scaler.load_state_dict(progress.scaler)
        if (
            progress.best_metrics
            and not (self.checkpoints / checkpoint.folder_name(progress.best_step)).is_dir()
        ):
            logger.warning(
                "the best checkpoint (step %d) is gone; the best is searched among the later ones",
                progress.best_step,
            )
            progress.best_step, progress.best_metrics = 0, {}
        if progress.threads != torch.get_num_threads():
            logger.info(
                "%d CPU threads instead of %d: sums are rounded differently, results are not bit-identical",
                torch.get_num_threads(), progress.threads,
            )  # fmt: skip

    def _leave_if_signalled(self) -> None:
        number = self._signals.received
        if number is None:
            return
        progress = self.progress
        if checkpoint.folder_name(progress.step) not in {p.name for p in self.checkpoints.glob("step-*")}:
            self._save(planned=False)
        raise Interrupted(
            number,
            f"stopped by {signal.Signals(number).name} after step {progress.step}; everything is saved. "
            f"The same command goes on from there, as does: python -m mt.train resume={self.folder}",
        )

    def _last_checkpoint(self) -> str:
        """A sentence for error messages."""
        steps = checkpoint.steps(self.checkpoints)
        if not steps:
            return "There is no checkpoint yet."
        return f"The last good checkpoint is {self.checkpoints / checkpoint.folder_name(steps[-1])}."

    # --- the end ---

    def _finish(self) -> TrainResult:
        """Choose the final model, write it and the result."""
        progress, training = self.progress, self.config.training
        stopped_by = self._stopped_by() or "budget"
        tensors, origin, step, metrics = self._best_model()
        if training.average_last > 1:
            averaged = self._average(metrics)
            if averaged is not None:
                tensors, origin, metrics = averaged
                step = progress.step
        sha256 = storage.save_tensors(tensors, self.folder / run_folder.MODEL)
        storage.write_facts(self._facts(origin, step, sha256), self.folder / run_folder.MODEL_CARD)
        result = TrainResult(
            step=progress.step,
            epochs=progress.epochs,
            tokens=progress.tokens,
            elapsed_seconds=self._elapsed(),
            metric=training.valid_metric.value,
            metrics=metrics,
            model=origin,
            model_step=step,
            parameters=parameter_count(self.model),
            skipped_updates=progress.skipped_updates,
            stopped_by=stopped_by,
            folder=self.folder,
        )
        known = {name: value for name, value in metrics.items() if value is not None}
        self._tracker.options(_shown(self.config), known, progress.step)
        content = {
            k: v for k, v in dataclasses.asdict(result).items() if k not in ("folder", "already_finished")
        }
        checkpoint.write_json(self.folder / run_folder.RESULT, content)
        return result

    def _best_model(self) -> tuple[dict[str, Tensor], str, int, dict[str, float | None]]:
        """Weights of the best checkpoint, its name, its step, its validation."""
        progress = self.progress
        name = checkpoint.folder_name(progress.best_step)
        try:
            if progress.best_metrics:
                best = checkpoint.load(self.checkpoints / name)
                return best.model(), f"checkpoint {name}", progress.best_step, dict(progress.best_metrics)
            logger.warning(
                "no validation gave a finite %s; the last weights are kept",
                self.config.training.valid_metric.value,
            )
        except CheckpointError as error:
            logger.warning("%s; the last weights are kept instead of the best", error)
        with self._averaged():
            tensors = {n: t.detach().clone() for n, t in storage.tensors_of(self.model).items()}
        return tensors, f"checkpoint {checkpoint.folder_name(progress.step)}", progress.step, {}

    def _average(
        self, best: Mapping[str, float | None]
    ) -> tuple[dict[str, Tensor], str, dict[str, float | None]] | None:
        """The average of the last checkpoints, if it validates no worse than the best one."""
        count = self.config.training.average_last
        folders = checkpoint.last_planned(self.checkpoints, count)
        if len(folders) < count:
            there = counted(len(folders), "checkpoint")
            logger.warning("training.average_last=%d, but there is no more than %s", count, there)
        if len(folders) < 2:
            return None
        tensors = average_files([checkpoint.load(folder).folder / checkpoint.MODEL for folder in folders])
        own = {n: t.detach().clone() for n, t in storage.tensors_of(self.model).items()}
        storage.load_tensors(self.model, tensors, self.checkpoints)
        metrics = self._validate("final").metrics()
        storage.load_tensors(self.model, own, self.checkpoints)
        names = ", ".join(folder.name for folder in folders)
        if self._better(best, metrics) or not self._better(metrics, {}):
            logger.info("the average of %s is worse than the best checkpoint, which is kept", names)
            return None
        return tensors, f"average of checkpoints {names}", finite_or_none(metrics)

    # --- telling ---

    def _sinks(self) -> list[tracking.Sink]:
        step = self.progress.step
        sinks: list[tracking.Sink] = [
            tracking.MetricsFile(self.folder / run_folder.METRICS, step),
            tracking.LogLines(),
        ]
        if self.config.training.tensorboard:
            sinks.append(tracking.TensorBoard(self.folder / run_folder.TENSORBOARD, step))
        return sinks

    def _close_window_time(self) -> None:
        """Move the time since the last look into the window."""
        window, now = self.progress.window, clock()
        waited = self._loader.wait_seconds
        window.seconds += now - self._window_start
        window.wait_seconds += waited - self._loader_waited
        self._window_start, self._loader_waited = now, waited

    def _log(self) -> None:
        """Record the window and begin a new one."""
        progress = self.progress
        self._close_window_time()
        window = progress.window
        progress.window = Window()
        values: dict[str, float | int | None] = {
            "epoch": progress.epochs,
            "skipped_updates": progress.skipped_updates,
        }
        if window.updates:
            nll = window.nll / window.tokens
            values |= {
                "loss": window.loss / window.tokens,
                "nll": nll,
                "perplexity": perplexity(nll),
                "gradient_norm": window.gradient_norm / window.updates,
                "padding_waste": 1.0 - window.tokens / window.positions,
                "learning_rate": self.updater.rate,
            }
        seconds = max(window.seconds, 1e-9)
        values |= {
            "tokens": progress.tokens,
            "split_batches": progress.split_batches,
            "elapsed_seconds": progress.elapsed_seconds,
            "tokens_per_second": window.tokens / seconds,
            "loader_wait_share": min(1.0, max(0.0, window.wait_seconds / seconds)),
            "peak_memory_mb": peak_memory_bytes(self.device) / 1e6,
        }
        self._tracker.record("train", progress.step, values)

    def _show(self) -> None:
        """The progress bar, and once the forecast."""
        if self._session_updates == _FORECAST_AFTER:
            self._forecast()
        if self._bar is None:
            return
        window = self.progress.window
        numbers = ""
        if window.tokens:
            seconds = max(1e-9, clock() - self._window_start + window.seconds)
            nll = window.nll / window.tokens
            speed = window.tokens / seconds
            numbers = f"loss {window.loss / window.tokens:.3f} ppl {perplexity(nll):.1f} {speed:,.0f} tok/s"
        left = self._seconds_left()
        if left is not None:
            numbers += f" {tracking.duration(left)} left"
        self._bar.update(self.progress.step, self._share(), numbers)

    def _seconds_left(self) -> float | None:
        """How long the rest of the budget takes at the pace of this session; None while it is not known."""
        share = self._share()
        used = share - self._session_share
        return (1.0 - share) / used * (clock() - self._session_start) if used > 0 else None

    def _forecast(self) -> None:
        """How long it will take and how much memory it will need."""
        progress = self.progress
        used, left = self._share() - self._session_share, 1.0 - self._share()
        if used <= 0:
            return
        seconds = clock() - self._session_start - self._validating
        total = progress.elapsed_seconds + seconds * left / used
        if self.budget.max_minutes is not None:
            total = min(total, self.budget.max_minutes * 60)
        epochs = progress.epochs + (progress.epochs - self._session_epochs) * left / used
        memory = peak_memory_bytes(self.device)
        logger.info(
            "forecast: %s for the whole run, about %.1f epochs, validation not included; %.0f ms an update; "
            "peak memory so far %.2f GB (%.2f GB before the first update)",
            tracking.duration(total), epochs,
            1000 * seconds / self._session_updates, memory / 1e9, self._base_memory / 1e9,
        )  # fmt: skip

    def _set_precision(self, precision: Precision) -> None:
        """bf16 on the CPU rounds the inputs of the matrix products; CUDA has autocast instead."""
        set_precision(self.model, precision if self.device.type == "cpu" else Precision.fp32)


def compile_layers(model: nn.Module) -> None:
    """torch.compile every layer of encoder and decoder, in place (names of weights stay as they are).

    Raises:
        ConfigError: the model has no such layers.
    """
    stacks = [
        stack for name in ("encoder", "decoder") if isinstance(stack := getattr(model, name, None), nn.Module)
    ]
    if not stacks:
        raise ConfigError(["training.compile=true: this model has no encoder and decoder to compile"])
    for stack in stacks:
        for layer in stack if isinstance(stack, nn.ModuleList) else [stack]:
            # Lengths differ from batch to batch: without `dynamic` each would be compiled anew.
            layer.compile(dynamic=True)


def finite_or_none(metrics: Mapping[str, float]) -> dict[str, float | None]:
    """JSON has no NaN."""
    return {name: value if math.isfinite(value) else None for name, value in metrics.items()}


def _goodness(name: str, value: float | None) -> float:
    """A validation number as one where higher is better; minus infinity for what is not a number."""
    if value is None or not math.isfinite(value):
        return -math.inf
    return value if name == "bleu" else -value


def _can_be_split(batch: Batch, largest: int) -> bool:
    """Whether a batch is one of the largest and holds more than one pair."""
    return len(batch.source) > 1 and 2 * batch.target_input.numel() > largest


def _is_out_of_memory(error: BaseException) -> bool:
    # PyTorch's CPU allocator raises a bare RuntimeError
    return isinstance(error, torch.OutOfMemoryError) or "DefaultCPUAllocator" in str(error)


def _finished(folder: Path) -> TrainResult | None:
    """The result of a finished run.

    Raises:
        CheckpointError: result.json is there but cannot be understood.
    """
    path = folder / run_folder.RESULT
    if not path.is_file():
        return None
    try:
        return TrainResult(**json.loads(path.read_bytes()), folder=folder, already_finished=True)
    except (OSError, ValueError, TypeError) as error:
        raise CheckpointError(f"{path} is damaged ({error}); delete it to finish the run again") from error


def _tell_start(trainer: Trainer, threads: int) -> None:
    progress = trainer.progress
    if progress.step:
        logger.info(
            "going on with the run in %s after step %d (epoch %.2f)",
            trainer.folder,
            progress.step,
            progress.epochs,
        )
    else:
        logger.info("new run in %s", trainer.folder)
    train = trainer.prepared.train
    logger.info(
        "%s (%s), %s, %s parameters; %s of %s source and %s target pieces, %s",
        device_name(trainer.device), counted(threads, "thread"), trainer.precision.value,
        f"{parameter_count(trainer.model):,}", counted(len(train), "training pair"),
        f"{int(train.source_lengths.sum()):,}", f"{int(train.target_lengths.sum()):,}",
        counted(len(trainer.validator.sources), "validation pair"),
    )  # fmt: skip


def _tell_next_commands(result: TrainResult) -> None:
    metrics = ", ".join(
        f"{'BLEU' if name == 'bleu' else name} {value:.2f}"
        for name, value in result.metrics.items()
        if value is not None and name in ("bleu", "perplexity")
    )
    logger.info(
        "finished (%s): %s, %.2f epochs in %s; validation %s (%s)",
        result.stopped_by, counted(result.step, "update"), result.epochs,
        tracking.duration(result.elapsed_seconds), metrics or "gave no number", result.model,
    )  # fmt: skip
    logger.info("next: python -m mt.translate run=%s input=FILE", result.folder)
    logger.info("      python -m mt.evaluate run=%s", result.folder)


def _shown(config: TrainConfig) -> dict[str, Any]:
    """Every option as a flat value that TensorBoard can list."""
    values = {key: value_of(config, key) for key in options(TrainConfig)}
    return {
        key: value if isinstance(value, (bool, int, float)) else show(value) for key, value in values.items()
    }
