"""Train a translator on a parallel corpus; the result is a run folder.

The same command again goes on with a run that was interrupted, and says so when it is finished already.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path

from mt.config.app import run_app
from mt.config.run_config import config_hash
from mt.config.schema import TrainConfig
from mt.config.sweeps import Runs


def run(config: TrainConfig) -> None:
    """Train what a configuration describes, in its run folder."""
    from mt.training.run_folder import run_folder_for  # here, so that --help need not load PyTorch
    from mt.training.trainer import train

    train(config, run_folder_for(config))


def is_finished(config: TrainConfig) -> bool:
    """Whether there is nothing left to train."""
    from mt.training.run_folder import RESULT, run_folder_for, stored_config

    folder = run_folder_for(config)
    stored = stored_config(folder) if (folder / RESULT).is_file() else None
    return stored is not None and config_hash(stored) == config_hash(config)


def reached(config: TrainConfig) -> float | None:
    """What a finished run's validation reached, in the metric that chose its model."""
    from mt.training.run_folder import RESULT, run_folder_for

    try:
        result = json.loads((run_folder_for(config) / RESULT).read_bytes())
        return float(result["metrics"][result["metric"]])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def folder_of(config: TrainConfig) -> Path:
    """The run folder of a configuration."""
    from mt.training.run_folder import run_folder_for

    return run_folder_for(config)


def main(argv: Sequence[str] | None = None) -> int:
    """The command; returns its exit code."""
    return run_app(run, TrainConfig, "train", argv, Runs(folder_of, is_finished, reached))


if __name__ == "__main__":
    sys.exit(main())
