"""Where a run's numbers go: metrics.jsonl, TensorBoard, the terminal.

Contract: the trainer speaks to one `Tracker`; each destination is a `Sink`. A resumed run continues
every destination without a step told twice: lines of metrics.jsonl beyond the checkpoint are cut,
TensorBoard is told to purge them. TensorBoard and matplotlib are imported only when they are used.

Not in here: which numbers there are; logging to train.log (the logger ``mt`` does that).
"""

from __future__ import annotations

import json
import logging
import math
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from mt.evaluation.heatmap import figure
from mt.training.checkpoint import cannot_write, write_whole

logger = logging.getLogger("mt.training")


@dataclass(frozen=True)
class Sample:
    """One validation sentence, as it is shown."""

    source: str
    reference: str
    hypothesis: str


@dataclass(frozen=True)
class AttentionMap:
    """Cross-attention of one sentence: weights (T, S) and the pieces on both axes."""

    title: str
    weights: Tensor
    target_pieces: Sequence[str]
    source_pieces: Sequence[str]


class Sink:
    """A destination; each method may be left out."""

    def record(self, kind: str, step: int, values: Mapping[str, float | int | None]) -> None:
        """Numbers at `step`; `kind` is train, valid or final."""

    def samples(self, step: int, samples: Sequence[Sample]) -> None:
        """Translations of validation sentences."""

    def attention(self, step: int, maps: Sequence[AttentionMap]) -> None:
        """Pictures of the cross-attention."""

    def options(self, options: Mapping[str, Any], metrics: Mapping[str, float], step: int) -> None:
        """The configuration beside what it reached, at the end."""

    def close(self) -> None:
        """Everything told is on disk afterwards."""


class Tracker(Sink):
    """Tells every sink.

    `pictures` is whether any sink shows attention maps; they are not computed otherwise.
    """

    def __init__(self, sinks: Sequence[Sink]) -> None:
        self.sinks = list(sinks)
        self.pictures = any(isinstance(sink, TensorBoard) for sink in sinks)

    def record(self, kind: str, step: int, values: Mapping[str, float | int | None]) -> None:
        for sink in self.sinks:
            sink.record(kind, step, values)

    def samples(self, step: int, samples: Sequence[Sample]) -> None:
        for sink in self.sinks:
            sink.samples(step, samples)

    def attention(self, step: int, maps: Sequence[AttentionMap]) -> None:
        for sink in self.sinks:
            sink.attention(step, maps)

    def options(self, options: Mapping[str, Any], metrics: Mapping[str, float], step: int) -> None:
        for sink in self.sinks:
            sink.options(options, metrics, step)

    def close(self) -> None:
        for sink in self.sinks:
            sink.close()


class MetricsFile(Sink):
    """One JSON object a line: ``{"kind": "train", "step": 50, "loss": ...}``; null for what is not finite.

    Args:
        path: the file; lines up to `resume_step` stay, later ones (and half-written ones) are cut.

    Raises:
        CheckpointError: by `record` too, the file cannot be written.
    """

    def __init__(self, path: Path, resume_step: int) -> None:
        write_whole(path, "".join(_lines_until(path, resume_step)).encode("utf-8"))
        # Without a buffer, so that nothing is left to be written, and to fail, when it is closed.
        self._file = open(path, "ab", buffering=0)  # noqa: SIM115 - closed by close()
        self._path = path

    def record(self, kind: str, step: int, values: Mapping[str, float | int | None]) -> None:
        plain = {k: None if isinstance(v, float) and not math.isfinite(v) else v for k, v in values.items()}
        line = memoryview((json.dumps({"kind": kind, "step": step, **plain}) + "\n").encode("ascii"))
        try:
            while line:  # a disk that is nearly full takes a part
                line = line[self._file.write(line) :]
        except OSError as error:
            raise cannot_write(self._path, error, len(line)) from error

    def close(self) -> None:
        self._file.close()


def _lines_until(path: Path, step: int) -> list[str]:
    """The whole lines of a metrics file up to a step; what only the end of a run writes is left out."""
    if not path.is_file():
        return []
    kept: list[str] = []
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
        try:
            entry = json.loads(line)
            if entry["step"] <= step and entry["kind"] != "final":
                kept.append(line + "\n")
        except (ValueError, KeyError, TypeError, RecursionError):  # cut by a kill while it was written
            continue
    return kept


class TensorBoard(Sink):
    """TensorBoard events: scalars, sample translations as text, attention maps as images, options.

    Args:
        folder: gets one more event file per session.
        resume_step: events of earlier sessions beyond it are purged by whoever reads the folder.
    """

    def __init__(self, folder: Path, resume_step: int) -> None:
        from torch.utils.tensorboard import SummaryWriter

        self._writer: Any = SummaryWriter(str(folder), purge_step=resume_step + 1, flush_secs=30)

    def record(self, kind: str, step: int, values: Mapping[str, float | int | None]) -> None:
        for name, value in values.items():
            if value is not None:
                self._writer.add_scalar(f"{kind}/{name}", value, step)

    def samples(self, step: int, samples: Sequence[Sample]) -> None:
        for number, sample in enumerate(samples, start=1):
            # Four spaces make it a code block: Markdown in the text stays text.
            text = "\n".join(f"    {label}: {line}" for label, line in _labelled(sample))
            self._writer.add_text(f"samples/{number}", text, step)

    def attention(self, step: int, maps: Sequence[AttentionMap]) -> None:
        for entry in maps:
            picture = figure(entry.weights.float().cpu().numpy(), entry.source_pieces, entry.target_pieces)
            self._writer.add_figure(f"attention/{entry.title}", picture, step, close=True)

    def options(self, options: Mapping[str, Any], metrics: Mapping[str, float], step: int) -> None:
        from torch.utils.tensorboard.summary import hparams

        plain = {k: v if isinstance(v, (bool, int, float, str)) else str(v) for k, v in options.items()}
        named = {f"final/{name}": float(value) for name, value in metrics.items()}
        # add_hparams() would make a second run in a folder of its own; these three records go into this one.
        for record in hparams(plain, named):  # type: ignore[no-untyped-call]
            self._writer.file_writer.add_summary(record)
        for name, value in named.items():
            self._writer.add_scalar(name, value, step)

    def close(self) -> None:
        self._writer.close()


class LogLines(Sink):
    """One log line per record and validation: for terminals without a bar, and for train.log."""

    def record(self, kind: str, step: int, values: Mapping[str, float | int | None]) -> None:
        # A bar says the same, so handlers on its terminal leave these records out.
        logger.info("%s", describe(kind, step, values), extra={"bar": kind == "train"})

    def samples(self, step: int, samples: Sequence[Sample]) -> None:
        for sample in samples:
            for label, line in _labelled(sample):
                logger.info("  %-9s %s", label, line)


def describe(kind: str, step: int, values: Mapping[str, float | int | None]) -> str:
    """One line with the numbers a person looks for."""
    shown: list[str] = []
    formats = (
        ("loss", "loss {:.3f}"),
        ("perplexity", "perplexity {:.2f}"),
        ("bleu", "BLEU {:.2f}"),
        ("learning_rate", "lr {:.2e}"),
        ("gradient_norm", "gradient {:.2f}"),
        ("tokens_per_second", "{:,.0f} tokens/s"),
        ("skipped_updates", "{} updates skipped"),
    )
    for name, form in formats:
        value = values.get(name)
        if value is not None and not (name == "skipped_updates" and not value):
            shown.append(form.format(value))
    if kind != "train" and "loss" not in values:
        shown.append("no loss (no validation pair fits model.max_positions)")
    epoch = values.get("epoch")
    place = f"step {step}" + (f" (epoch {epoch:.2f})" if epoch is not None else "")
    word = {"train": "", "valid": " validation:", "final": " final:"}[kind]
    return f"{place}{word} {', '.join(shown)}"


def _labelled(sample: Sample) -> list[tuple[str, str]]:
    return [("source", sample.source), ("reference", sample.reference), ("model", sample.hypothesis)]


class ProgressBar:
    """A bar on standard error: share of the budget, loss, perplexity, tokens/s, time left.

    Only for a terminal. While it is shown, log lines of handlers that write to standard error go above it.
    """

    def __init__(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn

        # Twice a second: drawing is a thread's work that training would otherwise do.
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            TaskProgressColumn(),
            TextColumn("{task.fields[numbers]}"),
            console=Console(stderr=True),
            refresh_per_second=2,
        )
        self._task = self._progress.add_task("training", total=1.0, numbers="")
        terminal = sys.stderr
        self._progress.start()
        self._moved: list[tuple[logging.StreamHandler[Any], Any]] = []
        for handler in logging.getLogger("mt").handlers + logging.getLogger().handlers:
            if isinstance(handler, logging.StreamHandler) and handler.stream is terminal:
                handler.addFilter(_not_in_bar)
                self._moved.append((handler, handler.setStream(sys.stderr)))

    def update(self, step: int, share: float, numbers: str) -> None:
        """Move the bar to `share` of the budget."""
        self._progress.update(self._task, completed=share, description=f"step {step}", numbers=numbers)

    def close(self) -> None:
        """Give the terminal back."""
        self._progress.stop()
        for handler, stream in self._moved:
            handler.removeFilter(_not_in_bar)
            handler.setStream(stream)


def _not_in_bar(record: logging.LogRecord) -> bool:
    """Whether a log record says something that the bar does not."""
    return not getattr(record, "bar", False)


def show_bar(wanted: bool) -> bool:
    """Whether a bar can be shown: it was asked for, and standard error is a terminal."""
    return wanted and sys.stderr.isatty() and os.environ.get("TERM") != "dumb"


def duration(seconds: float) -> str:
    """Seconds in words of at most two units: ``45 s``, ``3 min 20 s``, ``2 h 05 min``."""
    total = max(0, round(seconds))
    if total < 60:
        return f"{total} s"
    if total < 3600:
        return f"{total // 60} min {total % 60:02d} s"
    return f"{total // 3600} h {total % 3600 // 60:02d} min"
