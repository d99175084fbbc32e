"""A world small enough to train in: forty made-up sentence pairs, a 16-wide model, a few updates."""

from __future__ import annotations

import json
import random
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from mt.config.fields import assign
from mt.config.schema import (
    Cell,
    Feed,
    ModelKind,
    Precision,
    Readout,
    ScheduleKind,
    ScopeKind,
    ScoreKind,
    StateIndex,
    TrainConfig,
)
from mt.data.store import TokenStore
from mt.data.tokenizer import Tokenizer
from mt.training.trainer import Trainer

WORDS = {
    "un": "one",
    "deux": "two",
    "trois": "three",
    "chat": "cat",
    "chien": "dog",
    "voit": "sees",
    "et": "and",
}
# What depends on the clock or the machine, in a line of metrics.jsonl.
TIMES = {"elapsed_seconds", "tokens_per_second", "loader_wait_share", "peak_memory_mb"}
# A recurrent model; what it does not read stands at its default.
_RNN = {"model__kind": ModelKind.rnn, "model__heads": 4, "model__ffn_width": 1024}
# The families of models, as options of `small`.
FAMILIES: dict[str, dict[str, Any]] = {
    "transformer": {},
    "bahdanau": {
        **_RNN, "attention__score": ScoreKind.additive, "model__rnn__cell": Cell.gru,
        "model__rnn__query": StateIndex.previous, "model__rnn__feed": Feed.context_in_gates,
        "model__rnn__readout": Readout.maxout,
    },
    "luong": {
        **_RNN, "attention__score": ScoreKind.general, "attention__scope": ScopeKind["local_p"],
        "model__rnn__cell": Cell.lstm, "model__rnn__feed": Feed.input_feeding,
    },
}  # fmt: skip


def pairs(count: int, seed: int) -> tuple[list[str], list[str]]:
    """Word-by-word translations of two to six words."""
    choose = random.Random(seed)
    source = [" ".join(choose.choices(sorted(WORDS), k=choose.randint(2, 6))) for _ in range(count)]
    return source, [" ".join(WORDS[word] for word in line.split()) for line in source]


def prepared_from(
    tokenizer: Tokenizer, train: tuple[list[str], list[str]], valid: tuple[list[str], list[str]]
) -> Any:
    """What `mt.data.preparation.prepare` hands over, made in memory."""

    def store(both: tuple[list[str], list[str]]) -> TokenStore:
        return TokenStore.of(tokenizer.encode_source(both[0]), tokenizer.encode_target(both[1]))

    return SimpleNamespace(
        tokenizer=tokenizer,
        train=store(train),
        valid=store(valid),
        valid_source_lines=valid[0],
        valid_target_lines=valid[1],
        report={"train": {"source": {"sha256": "a"}, "target": {"sha256": "b"}}, "kept": len(train[0])},
        cached=True,
    )


def small(**changes: Any) -> TrainConfig:
    """A configuration that trains in a moment; changes as ``training__max_steps=3``."""
    config = TrainConfig()
    # fp32, since "auto" depends on the machine.
    values: dict[str, Any] = {
        "model__width": 16, "model__heads": 2, "model__ffn_width": 32, "model__encoder_layers": 1,
        "model__decoder_layers": 1, "model__max_positions": 64, "model__dropout": 0.1,
        "training__max_steps": 8, "training__batch_tokens": 64, "training__log_every_steps": 3,
        "training__tensorboard": False, "training__progress": False, "training__samples": 0,
        "training__threads": 1, "training__precision": Precision.fp32,
        "training__validate_every_steps": 4, "schedule__warmup_steps": 3,
        "schedule__kind": ScheduleKind.linear, "decoding__max_length_extra": 0, "device": "cpu",
        "data__train_source": "train.fr", "data__train_target": "train.en",
        "data__valid_source": "valid.fr", "data__valid_target": "valid.en",
    }  # fmt: skip
    for key, value in {**values, **changes}.items():
        assign(config, key.replace("__", "."), value)
    return config


def lines(folder: Path) -> list[dict[str, Any]]:
    """metrics.jsonl without times."""
    text = (folder / "metrics.jsonl").read_text(encoding="utf-8")
    return [{k: v for k, v in json.loads(line).items() if k not in TIMES} for line in text.splitlines()]


def checkpoints(folder: Path) -> list[int]:
    """The steps that have a checkpoint."""
    return sorted(int(path.name.removeprefix("step-")) for path in (folder / "checkpoints").glob("step-*"))


class Killed(BaseException):
    """As kill -9: nothing in the program sees it coming."""


def kill(_: Trainer) -> None:
    raise Killed


def terminate(trainer: Trainer) -> None:
    """As SIGTERM."""
    trainer._signals._handle(15, None)
