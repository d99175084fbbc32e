"""What a run folder says about its run, for comparisons.

Contract: `summary_of` reads files that training wrote and nothing else; what is missing or damaged
among its numbers is left out, never guessed. Nothing is written.

Not in here: translating and scoring (`mt.compare`).
"""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mt.config.run_config import decisive_settings, load_config
from mt.evaluation.comparison import FINISHED, UNFINISHED, Run
from mt.training.run_folder import CONFIG, ENVIRONMENT, METRICS, RESULT

_GOES_ON = "the same command goes on with it"
_DAMAGED = (
    f"its {RESULT} is damaged; delete that file and finish the run again with python -m mt.train resume=DIR"
)


def summary_of(folder: Path) -> Run:
    """The run in `folder`, without scores.

    Raises:
        CheckpointError: there is no run, or its configuration cannot be read.
    """
    config = load_config(folder / CONFIG)
    lines = _metrics(folder / METRICS)
    result = _object(folder / RESULT)
    ended = (folder / RESULT).is_file()
    finished = ended and bool(result)
    sessions = _object(folder / ENVIRONMENT).get("sessions")
    environment: Mapping[str, Any] = {}
    if isinstance(sessions, list) and sessions and isinstance(sessions[-1], dict):
        environment = sessions[-1]
    reached = max((line["step"] for line in lines), default=0)
    return Run(
        folder=str(folder),
        seed=config.seed,
        settings=decisive_settings(config),
        status=FINISHED if finished else UNFINISHED,
        reason="" if finished else _DAMAGED if ended else f"stopped after step {reached}; {_GOES_ON}",
        numbers=_numbers(result, lines),
        losses=[
            (line["step"], loss)
            for line in lines
            if line["kind"] == "train" and (loss := _number(line.get("loss"))) is not None
        ],
        curve=[
            (line["step"], _number(line.get("loss")), _number(line.get("bleu")))
            for line in lines
            if line["kind"] == "valid"
        ],
        command=[str(word) for word in environment.get("command", [])],
        environment=environment,
    )


def _numbers(result: Mapping[str, Any], lines: list[dict[str, Any]]) -> dict[str, float]:
    train = [line for line in lines if line["kind"] == "train"]
    speeds = [speed for line in train if (speed := _number(line.get("tokens_per_second"))) is not None]
    memory = [peak for line in train if (peak := _number(line.get("peak_memory_mb"))) is not None]
    metrics = result.get("metrics")
    metrics = metrics if isinstance(metrics, dict) else {}
    seconds = _number(result.get("elapsed_seconds"))
    found = {
        "parameters": _number(result.get("parameters")),
        "steps": _number(result.get("step")),
        "tokens": _number(result.get("tokens")),
        "minutes": None if seconds is None else seconds / 60,
        # The median: the first window has the warm-up, and others may have waited for the disk.
        "tokens_per_second": statistics.median(speeds) if speeds else None,
        "peak_memory_mb": max(memory, default=None),
        "valid_loss": _number(metrics.get("loss")),
        "valid_bleu": _number(metrics.get("bleu")),
    }
    return {name: value for name, value in found.items() if value is not None}


def _number(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        return None
    return float(value)


def _metrics(path: Path) -> list[dict[str, Any]]:
    """The whole lines of a metrics file."""
    found = []
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return []
    for line in text.split("\n"):
        try:
            entry = json.loads(line)
        except ValueError:  # cut while it was written
            continue
        if isinstance(entry, dict) and isinstance(entry.get("step"), int) and "kind" in entry:
            found.append(entry)
    return found


def _object(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}
