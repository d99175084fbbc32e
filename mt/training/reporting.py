"""What a run tells: log lines, metrics, the progress bar, its beginning and its end.

Contract: only the first process tells. Nothing here changes how a run goes on; a window of updates is
emptied when it was told.

Not in here: where numbers go (`mt.training.tracking`), and the clock (`mt.training.timekeeping`).
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import torch

from mt.config.fields import options, show, value_of
from mt.config.schema import TrainConfig
from mt.data.lines import counted
from mt.data.preparation import Prepared
from mt.models.seq2seq import Seq2Seq, parameter_count
from mt.training import run_folder, tracking
from mt.training.device import device_name, peak_memory_bytes
from mt.training.distributed import World
from mt.training.ending import TrainResult
from mt.training.learner import Learner
from mt.training.state import Progress, Window
from mt.training.timekeeping import FORECAST_AFTER, Timekeeper
from mt.training.validation import Validation, Validator, perplexity

logger = logging.getLogger("mt.training")


class Reporter:
    """Tells how a run goes; nothing before `open`.

    Args:
        folder: of the run.
        progress: the counters that are told; `log` begins a new window in them.
    """

    def __init__(
        self, config: TrainConfig, folder: Path, progress: Progress, timer: Timekeeper, world: World
    ) -> None:
        self._config, self._folder, self.progress = config, folder, progress
        self._timer, self._world = timer, world
        self._base_memory = peak_memory_bytes(world.device)
        self._tracker = tracking.Tracker([])
        self._bar: tracking.ProgressBar | None = None

    def open(self) -> None:
        """Open the files, cut to what the counters say has happened, and show the bar."""
        if not self._world.first:
            return
        step, training = self.progress.step, self._config.training
        sinks: list[tracking.Sink] = [
            tracking.MetricsFile(self._folder / run_folder.METRICS, step),
            tracking.LogLines(),
        ]
        if training.tensorboard:
            sinks.append(tracking.TensorBoard(self._folder / run_folder.TENSORBOARD, step))
        self._tracker = tracking.Tracker(sinks)
        if tracking.show_bar(training.progress):
            self._bar = tracking.ProgressBar()

    def close(self) -> None:
        """Take the bar away; everything told is on disk afterwards."""
        if self._bar is not None:
            self._bar.close()
        self._tracker.close()

    def log(self, rate: float) -> None:
        """Record the window of updates, the last of them at this learning rate, and begin a new one."""
        progress = self.progress
        self._timer.close_window()
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
                "learning_rate": rate,
            }
        seconds = max(window.seconds, 1e-9)
        values |= {
            "tokens": progress.tokens,
            "split_batches": progress.split_batches,
            "elapsed_seconds": progress.elapsed_seconds,
            "tokens_per_second": window.tokens / seconds,
            "loader_wait_share": min(1.0, max(0.0, window.wait_seconds / seconds)),
            "peak_memory_mb": peak_memory_bytes(self._world.device) / 1e6,
        }
        self._tracker.record("train", progress.step, values)

    def show(self) -> None:
        """The progress bar, and once the forecast."""
        if self._timer.updates == FORECAST_AFTER:
            self._forecast()
        if self._bar is None:
            return
        window = self.progress.window
        numbers = ""
        if window.tokens:
            nll = window.nll / window.tokens
            speed = window.tokens / max(1e-9, self._timer.window_seconds())
            numbers = f"loss {window.loss / window.tokens:.3f} ppl {perplexity(nll):.1f} {speed:,.0f} tok/s"
        left = self._timer.seconds_left()
        if left is not None:
            numbers += f" {tracking.duration(left)} left"
        self._bar.update(self.progress.step, self._timer.share(), numbers)

    def validation(self, kind: str, result: Validation, validator: Validator, model: Seq2Seq) -> None:
        """A validation's numbers, some translations, and what they looked at."""
        step = self.progress.step
        samples = validator.samples(result, self._config.training.samples)
        self._tracker.record(kind, step, {"epoch": self.progress.epochs, **result.metrics()})
        self._tracker.samples(step, samples)
        if self._tracker.pictures and samples:
            self._tracker.attention(step, validator.attention_maps(model, samples))

    def options(self, result: TrainResult) -> None:
        """The configuration beside what it reached."""
        known = {name: value for name, value in result.metrics.items() if value is not None}
        self._tracker.options(_shown(self._config), known, self.progress.step)

    def _forecast(self) -> None:
        """How long it will take and how much memory it will need."""
        forecast = self._timer.forecast()
        if forecast is None:
            return
        memory = peak_memory_bytes(self._world.device)
        logger.info(
            "forecast: %s for the whole run, about %.1f epochs, validation not included; %.0f ms an update; "
            "peak memory so far %.2f GB (%.2f GB before the first update)",
            tracking.duration(forecast.seconds), forecast.epochs,
            1000 * forecast.update_seconds, memory / 1e9, self._base_memory / 1e9,
        )  # fmt: skip


def tell_start(
    folder: Path, learner: Learner, progress: Progress, prepared: Prepared, validator: Validator
) -> None:
    """What is trained on what, and from where on."""
    if progress.step:
        logger.info(
            "going on with the run in %s after step %d (epoch %.2f)", folder, progress.step, progress.epochs
        )
    else:
        logger.info("new run in %s", folder)
    train = prepared.train
    logger.info(
        "%s (%s), %s, %s parameters%s; %s of %s source and %s target pieces, %s",
        device_name(learner.device), counted(torch.get_num_threads(), "thread"), learner.precision.value,
        f"{parameter_count(learner.model):,}", " in parts" if learner.sharded else "",
        counted(len(train), "training pair"),
        f"{int(train.source_lengths.sum()):,}", f"{int(train.target_lengths.sum()):,}",
        counted(len(validator.sources), "validation pair"),
    )  # fmt: skip


def tell_end(result: TrainResult) -> None:
    """What came out, and the commands that go on from there."""
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
    if result.doubts:
        logger.warning(
            "this model has hardly been trained: %s. "
            "More time: python -m mt.train resume=%s training.max_minutes=...",
            ", ".join(result.doubts), result.folder,
        )  # fmt: skip
    logger.info("next: python -m mt.translate run=%s input=FILE", result.folder)
    logger.info("      python -m mt.evaluate run=%s", result.folder)


def _shown(config: TrainConfig) -> dict[str, Any]:
    """Every option as a flat value that TensorBoard can list."""
    values = {key: value_of(config, key) for key in options(TrainConfig)}
    return {
        key: value if isinstance(value, (bool, int, float)) else show(value) for key, value in values.items()
    }
