"""Make the golden files anew: ``make golden``. Only when a change of the numbers is meant, and said why.

`losses.json` has the loss of each of the first updates, per family of models; `run/` is a run folder of the
version that made it, stopped in the middle.
"""

from __future__ import annotations

import contextlib
import json
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

import torch

from mt.config.schema import (
    Activation,
    Norm,
    OptimizerKind,
    Positions,
    Precision,
    ScoreKind,
    TokenizerConfig,
    TrainConfig,
)
from mt.data.tokenizer import Tokenizer, train_tokenizer
from mt.training import trainer as trainer_module
from mt.training.signals import Interrupted
from mt.training.trainer import Trainer, train
from tests.training.world import FAMILIES as RECURRENT
from tests.training.world import lines, pairs, prepared_from, small

HERE = Path(__file__).parent
LOSSES, RUN, END = HERE / "losses.json", HERE / "run", HERE / "end.json"
STEPS = 12
# Options that make a family, as in `small`.
FAMILIES: dict[str, dict[str, Any]] = {
    "transformer": {},
    "transformer, post-norm, gelu, rotary": {
        "model__norm": Norm.post, "model__activation": Activation.gelu,
        "model__positions": Positions.rotary,
    },
    "transformer, dot attention, muon": {
        "attention__score": ScoreKind.dot, "optimizer__kind": OptimizerKind.muon,
    },
    "rnn of bahdanau, adadelta": {
        **RECURRENT["bahdanau"], "optimizer__kind": OptimizerKind.adadelta, "optimizer__lr": 1.0,
        "optimizer__eps": 1e-6,
    },
    "rnn of luong, local_p, sgd": {
        **RECURRENT["luong"], "optimizer__kind": OptimizerKind.sgd, "optimizer__lr": 1.0,
    },
}  # fmt: skip


def golden_config(**changes: Any) -> TrainConfig:
    """A run that tells every update."""
    return small(
        training__max_steps=STEPS, training__log_every_steps=1, training__validate_every_steps=6,
        training__precision=Precision.fp32, training__save_every_steps=3, training__ema_decay=0.9,
        training__accumulate=2, training__keep_last=1, **changes,
    )  # fmt: skip


def losses(folder: Path, tokenizer: Tokenizer, options: dict[str, Any]) -> list[float]:
    """The loss of each update."""
    use(tokenizer)
    train(golden_config(**options), folder)
    return [line["loss"] for line in lines(folder) if line["kind"] == "train"]


def use(tokenizer: Tokenizer) -> None:
    """Train on forty made-up pairs."""
    torch.set_num_threads(1)
    made = prepared_from(tokenizer, pairs(40, 0), pairs(6, 1))
    trainer_module.prepare = lambda *_: made  # type: ignore[attr-defined]


def stop_at(step: int) -> None:
    update = Trainer._update

    def stopping(self: Trainer, batches: Any) -> None:
        update(self, batches)
        if self.progress.step == step:
            self._signals._handle(15, None)

    Trainer._update = stopping  # type: ignore[method-assign]


def main(what: str = "all") -> None:
    """Make everything anew, or the losses alone: the kept run is to stay what an earlier version wrote."""
    tokenizer = train_tokenizer(TokenizerConfig(vocab_size=300), *pairs(40, 0))
    sys.argv = ["mt.train"]
    with tempfile.TemporaryDirectory() as name:
        work = Path(name)
        curves = {key: losses(work / key, tokenizer, options) for key, options in FAMILIES.items()}
        LOSSES.write_text(json.dumps(curves, indent=1) + "\n", encoding="utf-8")
        if what == "losses":
            return
        shutil.copy(work / "transformer" / "result.json", END)
        stop_at(7)
        with contextlib.suppress(Interrupted):
            train(golden_config(), work / "run")
        shutil.rmtree(RUN, ignore_errors=True)
        # The model of step 6, as a finished run has one, so that it can be translated with.
        for file in ("model.safetensors", "model.json"):
            shutil.copy(work / "run" / "checkpoints" / "step-00000006" / file, work / "run" / file)
        left_out = (".lock", "train.log", "environment.json")
        shutil.copytree(work / "run", RUN, ignore=shutil.ignore_patterns(*left_out))


if __name__ == "__main__":
    main(*sys.argv[1:])
