"""Train a translator on a parallel corpus; the result is a run folder.

The same command again goes on with a run that was interrupted, and says so when it is finished already.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from mt.config.app import run_app
from mt.config.schema import TrainConfig


def run(config: TrainConfig) -> None:
    """Train what a configuration describes, in its run folder."""
    from mt.training.run_folder import run_folder_for  # here, so that --help need not load PyTorch
    from mt.training.trainer import train

    train(config, run_folder_for(config))


def main(argv: Sequence[str] | None = None) -> int:
    """The command; returns its exit code."""
    return run_app(run, TrainConfig, "train", argv)


if __name__ == "__main__":
    sys.exit(main())
