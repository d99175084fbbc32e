"""The end of a run: which weights become the model, and what says that the run is finished.

Contract: the final model is the best checkpoint, or the average of the last ones where that validates no
worse. `result.json` is written last.

Not in here: when a run ends.
"""

from __future__ import annotations

import dataclasses
import json
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from torch import Tensor

from mt.config.schema import TrainConfig
from mt.data.lines import counted
from mt.errors import CheckpointError
from mt.models import storage
from mt.training import checkpoint, run_folder
from mt.training.averaging import average_files
from mt.training.learner import Learner
from mt.training.snapshots import Snapshots
from mt.training.state import Progress
from mt.training.validation import finite_or_none, is_better

logger = logging.getLogger("mt.training")


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
        stopped_by: steps, epochs, tokens, minutes or patience.
        doubts: why it may have learnt too little, in words; usually none.
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
    doubts: list[str] = field(default_factory=list)
    folder: Path = field(default=Path(), compare=False)
    already_finished: bool = field(default=False, compare=False)


def finished(folder: Path) -> TrainResult | None:
    """The result of a finished run; None if the run is not.

    Raises:
        CheckpointError: result.json is there but cannot be understood.
    """
    path = folder / run_folder.RESULT
    if not path.is_file():
        return None
    try:
        return TrainResult(**json.loads(path.read_bytes()), folder=folder, already_finished=True)
    except (OSError, ValueError, TypeError, RecursionError) as error:
        raise CheckpointError(f"{path} is damaged ({error}); delete it to finish the run again") from error


def write_result(result: TrainResult, tensors: Mapping[str, Tensor], snapshots: Snapshots) -> None:
    """Write the final model into the run's folder, then what says that the run is finished.

    Raises:
        CheckpointError: a file cannot be written.
    """
    folder = result.folder
    sha256 = storage.save_tensors(tensors, folder / run_folder.MODEL)
    facts = snapshots.facts(result.model, result.model_step, sha256)
    storage.write_facts(facts, folder / run_folder.MODEL_CARD)
    content = {k: v for k, v in dataclasses.asdict(result).items() if k not in ("folder", "already_finished")}
    checkpoint.write_json(folder / run_folder.RESULT, content)


@dataclass(frozen=True)
class FinalModel:
    """Weights, where they come from in words, the updates behind them, and their validation."""

    tensors: dict[str, Tensor]
    origin: str
    step: int
    metrics: dict[str, float | None]


def final_model(
    config: TrainConfig,
    learner: Learner,
    progress: Progress,
    checkpoints: Path,
    validate: Callable[[], dict[str, float]],
) -> FinalModel:
    """Choose what becomes the model; the same choice on all processes.

    Args:
        checkpoints: the run's folder of them.
        validate: validates the weights that the model has when it is called.
    """
    best = _best(config, learner, progress, checkpoints)
    if config.training.average_last < 2:
        return best
    return _average(config, learner, progress, checkpoints, validate, best) or best


def _best(config: TrainConfig, learner: Learner, progress: Progress, checkpoints: Path) -> FinalModel:
    """The best checkpoint; the last weights where there is none."""
    name = checkpoint.folder_name(progress.best_step)
    try:
        if progress.best_metrics:
            best = checkpoint.load(checkpoints / name)
            return FinalModel(
                best.model(), f"checkpoint {name}", progress.best_step, dict(progress.best_metrics)
            )
        logger.warning(
            "no validation gave a finite %s; the last weights are kept", config.training.valid_metric.value
        )
    except CheckpointError as error:
        logger.warning("%s; the last weights are kept instead of the best", error)
    with learner.averaged():
        tensors = {name: tensor.clone() for name, tensor in learner.weights().items()}
    return FinalModel(tensors, f"checkpoint {checkpoint.folder_name(progress.step)}", progress.step, {})


def _average(
    config: TrainConfig,
    learner: Learner,
    progress: Progress,
    checkpoints: Path,
    validate: Callable[[], dict[str, float]],
    best: FinalModel,
) -> FinalModel | None:
    """The average of the last checkpoints, if it validates no worse than the best one."""
    count, metric = config.training.average_last, config.training.valid_metric
    folders = checkpoint.last_planned(checkpoints, count)
    if len(folders) < count:
        there = counted(len(folders), "checkpoint")
        logger.warning("training.average_last=%d, but there is no more than %s", count, there)
    if len(folders) < 2:
        return None
    tensors = average_files([checkpoint.load(folder).folder / checkpoint.MODEL for folder in folders])
    with learner.with_weights(tensors, checkpoints):
        metrics = validate()
    names = ", ".join(folder.name for folder in folders)
    if is_better(metric, best.metrics, metrics) or not is_better(metric, metrics, {}):
        logger.info("the average of %s is worse than the best checkpoint, which is kept", names)
        return None
    return FinalModel(tensors, f"average of checkpoints {names}", progress.step, finite_or_none(metrics))
