"""Read, clean and cut the corpus into pieces, train the tokenizer, and keep both for training.

Training does the same by itself when it has not been done; this command is for doing it apart, and for
looking at the report.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence

from mt.config.app import run_app
from mt.config.schema import TrainConfig


def run(config: TrainConfig) -> None:
    """Prepare the corpus of a configuration and print the report as JSON."""
    from mt.data.preparation import prepare  # here, so that --help need not load it

    prepared = prepare(config.data, config.tokenizer, config.model.max_positions)
    print(json.dumps(prepared.report, ensure_ascii=False, indent=2))


def main(argv: Sequence[str] | None = None) -> int:
    """The command; returns its exit code."""
    return run_app(run, TrainConfig, "train", argv)


if __name__ == "__main__":
    sys.exit(main())
