"""Ranges and relations: what is impossible is refused with key, value and what is allowed."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from mt.config.fields import assign, options
from mt.config.schema import (
    Cell,
    CorpusKind,
    EvaluateConfig,
    Feed,
    Initialization,
    ModelKind,
    OptimizerKind,
    OutputFormat,
    Positions,
    Precision,
    ScheduleKind,
    ScopeKind,
    ScoreKind,
    Shard,
    Start,
    TieEmbeddings,
    TrainConfig,
    TranslateConfig,
)
from mt.config.validate import missing_files, problems, warnings

# A recurrent model with a score that suits any sizes.
RNN = {"model__kind": ModelKind.rnn, "attention__score": ScoreKind.general}

SCHEMAS: list[type[Any]] = [TrainConfig, TranslateConfig, EvaluateConfig]


def training(**values: Any) -> TrainConfig:
    """A possible configuration, with dotted keys (a__b) changed."""
    config = TrainConfig()
    config.data.kind = CorpusKind.multi30k
    config.training.max_steps = 1000
    for key, value in values.items():
        assign(config, key.replace("__", "."), value)
    return config


def with_values(config: Any, values: dict[str, Any]) -> Any:
    for key, value in values.items():
        assign(config, key, value)
    return config


def test_the_defaults_are_possible() -> None:
    assert problems(training()) == []
    assert warnings(training()) == []
    assert problems(TranslateConfig()) == []
    assert problems(EvaluateConfig()) == []


@pytest.mark.parametrize(
    "values",
    [
        {"attention__hidden": 64, "attention__score": ScoreKind.concat},
        {"attention__hidden": 64, "attention__cross": ScoreKind.additive},
        {"attention__window": 5, "attention__scope": ScopeKind["local_p"]},
    ],
)
def test_options_of_attention_where_they_are_read(values: dict[str, Any]) -> None:
    assert problems(training(**values)) == []


@pytest.mark.parametrize("schema", SCHEMAS)
def test_every_range_holds_at_its_ends_and_nowhere_beyond(schema: type[Any]) -> None:
    for key, option in options(schema).items():
        for name, bound in option.bounds.items():
            step = 1 if option.kind is int else 1e-6
            outside = {"gt": bound, "ge": bound - step, "lt": bound, "le": bound + step}[name]
            inside = {"gt": bound + step, "ge": bound, "lt": bound - step, "le": bound}[name]
            for value, good in ((option.kind(outside), False), (option.kind(inside), True)):
                config = training() if schema is TrainConfig else schema()
                assign(config, key, value)
                found = [message for message in problems(config) if message.startswith(f"{key}=")]
                complained = any("must be " + option.range in message for message in found)
                assert complained != good, (key, value, found)


@pytest.mark.parametrize(
    "key",
    [
        "model.width", "model.ffn_width", "model.encoder_layers", "model.max_positions",
        "model.rnn.encoder_width", "tokenizer.vocab_size", "attention.hidden", "decoding.beam",
        "training.threads",
    ],
)  # fmt: skip
@pytest.mark.parametrize("size", [999_999_999, 10**30])
def test_no_size_is_without_bounds(key: str, size: int) -> None:
    config = training()
    assign(config, key, size)
    assert any(m.startswith(f"{key}={size}: must be >= ") and " and <= " in m for m in problems(config))


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("schema", SCHEMAS)
def test_no_number_may_be_infinite_or_none_at_all(schema: type[Any], value: float) -> None:
    floats = [key for key, option in options(schema).items() if option.kind is float]
    assert floats
    for key in floats:
        config = training() if schema is TrainConfig else schema()
        assign(config, key, value)
        assert any(m.startswith(f"{key}={value}") and "finite" in m for m in problems(config)), key


@pytest.mark.parametrize("schema", SCHEMAS)
def test_no_text_may_be_empty_or_hold_what_files_cannot(schema: type[Any]) -> None:
    for key, option in options(schema).items():
        if option.kind not in (str, list):
            continue
        for text in ("", "  ", "a\0b", "${oc.env:HOME}", "a\udce9", "False"):
            config = training() if schema is TrainConfig else schema()
            assign(config, key, [text] if option.kind is list else text)
            assert any(message.startswith(f"{key}=") for message in problems(config)), (key, text)


@pytest.mark.parametrize(
    ("values", "parts"),
    [
        ({"model__width": 100, "model__heads": 8}, ["model.width=100 is not divisible by model.heads=8"]),
        ({"model__width": 65, "model__heads": 5}, ["model.width=65", "model.positions=sinusoidal", "even"]),
        (
            {"model__width": 12, "model__heads": 4, "model__positions": Positions.rotary},
            ["model.width=12", "model.heads=4", "model.positions=rotary"],
        ),
        ({"attention__hidden": 64}, ["attention.hidden=64 is not read", "attention=additive"]),
        (
            {
                "attention__hidden": 64,
                "attention__score": ScoreKind.additive,
                "attention__encoder": ScoreKind.dot,
                "attention__decoder": ScoreKind.dot,
                "attention__cross": ScoreKind.general,
            },
            ["attention.hidden=64 is not read"],
        ),
        ({"attention__window": 5}, ["attention.window=5 is not read", "attention.scope=local_m"]),
        ({"tokenizer__joint": False}, ["model.tie_embeddings=all", "tokenizer.joint=false"]),
        ({"tokenizer__vocab_size": 260}, ["tokenizer.vocab_size=260", "tokenizer.byte_fallback=false"]),
        (
            {"training__precision": Precision.fp16, "device": "cpu"},
            ["training.precision=fp16", "CUDA", "device=cpu"],
        ),
        (
            {"schedule__kind": ScheduleKind.noam, "schedule__warmup_steps": 0},
            ["noam", "schedule.warmup_steps=0"],
        ),
        ({"optimizer__momentum": 0.5}, ["optimizer.momentum=0.5 is not read", "optimizer=muon"]),
        (
            {"training__shard": Shard.fsdp, "optimizer__kind": OptimizerKind.muon},
            ["training.shard=fsdp", "optimizer.kind=muon", "take adamw"],
        ),
        (
            {"training__shard": Shard.fsdp, "training__precision": Precision.fp16},
            ["training.shard=fsdp", "training.precision=fp16", "take bf16"],
        ),
        (
            {"training__shard": Shard.fsdp, "training__compile": True},
            ["training.compile=true", "leave it out"],
        ),
        ({"schedule__final_ratio": 0.1}, ["schedule.final_ratio=0.1 is not read", "inverse_sqrt"]),
        (
            {"training__max_steps": None},
            ["training.max_steps", "training.max_epochs", "training.max_tokens", "training.max_minutes"],
        ),
        (
            {"training__validate_every_steps": 5, "training__validate_every_epochs": 0.5},
            ["training.validate_every_epochs=0.5 is not read", "training.validate_every_steps=5"],
        ),
        ({"decoding__n_best": 9, "decoding__beam": 4}, ["decoding.n_best=9", "decoding.beam=4"]),
        (
            {"decoding__max_length_ratio": 0.0, "decoding__max_length_extra": 0},
            ["decoding.max_length_ratio=0", "decoding.max_length_extra=0"],
        ),
        ({"data__source": "en"}, ["data.source=en", "data.target=en"]),
        ({"data__source": "../fr"}, ["data.source=../fr", "language code"]),
        (
            {"data__train_source": "a.fr"},
            ["data.train_source=a.fr is not read", "add data=files"],
        ),
        ({"data__kind": CorpusKind.files}, ["data.train_source", "data.valid_target", "data=multi30k"]),
        ({"device": "gpu"}, ["device=gpu", "cuda:N"]),
        ({"run": "a", "resume": "b"}, ["run=a", "resume=b"]),
        ({"model__rnn__cell": Cell.gru}, ["model.rnn.cell=gru is not read", "model.kind=transformer"]),
        (
            {"model__initialization": Initialization.luong2015},
            ["model.initialization=luong2015", "model.kind=transformer", "take random"],
        ),
        ({**RNN, "model__ffn_width": 8}, ["model.ffn_width=8 is not read with model.kind=rnn"]),
        ({**RNN, "attention__decoder": ScoreKind.dot}, ["attention.decoder=dot is not read"]),
        ({**RNN, "training__compile": True}, ["training.compile=true is not read with model.kind=rnn"]),
        (
            {**RNN, "model__initialization": Initialization.lexical},
            ["model.initialization=lexical", "model.kind=rnn", "bahdanau2015"],
        ),
        (
            {**RNN, "attention__score": ScoreKind.dot},
            ["score dot", "256 values", "512", "both directions", "attention=general"],
        ),
        (
            {**RNN, "model__rnn__readout_width": 100},
            ["model.tie_embeddings=all", "embedding has 256", "readout 100"],
        ),
        ({**RNN, "model__rnn__reverse_source": True}, ["reverse_source=true", "bidirectional=true"]),
        (
            {**RNN, "model__rnn__feed": Feed.context_in_gates},
            ["context_in_gates", "model.rnn.query=current", "take model.rnn.query=previous"],
        ),
        (
            {**RNN, "model__rnn__start": Start.copy},
            ["model.rnn.start=copy", "4 layers of 512", "4 of 256", "model.rnn.start=project"],
        ),
        (
            {**RNN, "attention__score": ScoreKind.none, "attention__scope": ScopeKind["local_m"]},
            ["attention.scope=local_m is not read", "attention.score=none"],
        ),
        ({"optimizer__rho": 0.5}, ["optimizer.rho=0.5 is not read", "take optimizer=adadelta"]),
        (
            {"optimizer__kind": OptimizerKind.sgd, "optimizer__beta1": 0.5},
            ["optimizer.beta1=0.5 is not read", "take optimizer=adam or adamw or muon"],
        ),
        (
            {"schedule__halve_after_epochs": 2},
            ["schedule.halve_after_epochs=2 is not read", "schedule.kind=inverse_sqrt"],
        ),
    ],
)
def test_values_that_do_not_go_together(values: dict[str, Any], parts: list[str]) -> None:
    (message,) = problems(training(**values))
    for part in parts:
        assert part in message


@pytest.mark.parametrize(
    "values",
    [
        {"model.width": 64, "model.heads": 8},
        {"model.width": 65, "model.heads": 5, "model.positions": Positions.learned},
        {"model.width": 8, "model.heads": 4, "model.positions": Positions.rotary},
        {"tokenizer.joint": False, "model.tie_embeddings": TieEmbeddings.decoder},
        {"tokenizer.vocab_size": 100, "tokenizer.byte_fallback": False},
        {"schedule.kind": ScheduleKind.cosine, "schedule.final_ratio": 0.1},
        {"training.max_steps": None, "training.max_minutes": 0.5},
        {"training.max_steps": None, "training.max_tokens": 100_000},
        {"device": "cuda:3", "training.precision": Precision.fp16},
        {"data.source": "zh_Hant", "data.target": "pt-BR"},
        {"decoding.n_best": 4, "decoding.beam": 4},
    ],
)
def test_values_that_do(values: dict[str, Any]) -> None:
    assert problems(with_values(training(), values)) == []


def test_an_option_for_known_corpora_is_not_read_with_files() -> None:
    config = training(data__kind=CorpusKind.files, data__root="multi30k")
    paths = {f"data.{s}_{t}": "x" for s in ("train", "valid") for t in ("source", "target")}
    (message,) = problems(with_values(config, paths))
    assert "data.root=multi30k is not read with data.kind=files" in message


def test_one_test_side_needs_the_other() -> None:
    config = training(data__kind=CorpusKind.files)
    paths = {f"data.{s}_{t}": "x" for s in ("train", "valid") for t in ("source", "target")}
    (message,) = problems(with_values(config, paths | {"data.test_target": "y"}))
    assert "data.test_target=y needs its other side, data.test_source" in message


def test_all_are_listed_at_once() -> None:
    config = training(
        model__width=65,
        model__heads=5,
        tokenizer__joint=False,
        optimizer__lr=0.0,
        model__dropout=1.0,
        device="x",
    )
    found = problems(config)
    assert len(found) == 5
    for key in (
        "model.width=65",
        "tokenizer.joint=false",
        "optimizer.lr=0.0",
        "model.dropout=1.0",
        "device=x",
    ):
        assert any(key in message for message in found)


def test_doubts_are_warnings() -> None:
    (message,) = warnings(training(training__max_steps=100, schedule__warmup_steps=1000))
    assert "schedule.warmup_steps=1000" in message and "training.max_steps=100" in message
    (message,) = warnings(training(training__max_tokens=4096))
    assert "training.max_tokens=4096" in message and "training.batch_tokens" in message
    assert warnings(training(training__max_tokens=40_960)) == []
    (message,) = warnings(training(data__max_length=600))
    assert "data.max_length=600" in message and "model.max_positions=512" in message and "511" in message
    assert warnings(training(data__max_length=511)) == []
    (message,) = warnings(training(schedule__kind=ScheduleKind.noam))
    assert "optimizer.lr=0.001" in message and "noam" in message


@pytest.mark.parametrize(
    ("values", "parts"),
    [
        ({"decoding.n_best": 9, "decoding.beam": 4, "format": OutputFormat.jsonl}, ["decoding.n_best=9"]),
        ({"decoding.n_best": 2}, ["decoding.n_best=2 is not read with format=text", "jsonl"]),
        ({"input": "a.txt", "output": "a.txt"}, ["output=a.txt is the input"]),
    ],
)
def test_translate(values: dict[str, Any], parts: list[str]) -> None:
    (message,) = problems(with_values(TranslateConfig(), values))
    assert all(part in message for part in parts)


@pytest.mark.parametrize(
    ("values", "parts"),
    [
        ({"hypothesis": "h"}, ["hypothesis=h needs reference=FILE"]),
        ({"source": "s"}, ["source=s needs reference=FILE"]),
        ({"reference": ["r"]}, ["reference=[r]", "source=FILE", "hypothesis=FILE"]),
        ({"hypothesis": "h", "reference": ["r"], "run": "x"}, ["run=x is not read with hypothesis=h"]),
        ({"hypothesis": "h", "reference": ["r"], "decoding.beam": 3}, ["decoding.beam=3 is not read"]),
        (
            {"source": "s", "reference": ["r"], "test_sets": ["t"]},
            ["test_sets=[t] is not read with source=s"],
        ),
    ],
)
def test_evaluate(values: dict[str, Any], parts: list[str]) -> None:
    (message,) = problems(with_values(EvaluateConfig(), values))
    assert all(part in message for part in parts)


def test_missing_inputs_are_named_with_the_folder_they_were_looked_for_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("there").write_text("", encoding="utf-8")
    look: Callable[[Any], list[str]] = lambda config: [p.message for p in missing_files(config)]  # noqa: E731
    config = training(data__train_source="there", data__valid_source="not")
    (message,) = look(config)
    assert "data.valid_source=not: no such file" in message and str(tmp_path) in message
    config.data.valid_source = ""  # that it is empty is said elsewhere
    assert look(config) == []
    config.resume = "runs/x"  # the corpus is then the stored one's
    (message,) = look(config)
    assert message.startswith("resume=runs/x: no such folder")
    assert look(TranslateConfig(input="-")) == []
    assert len(look(TranslateConfig(input="x", run="y", tokenizer_folder="z"))) == 3
    assert len(look(EvaluateConfig(reference=["there", "p", "q"], source="there"))) == 2


def test_a_checkpoint_may_be_named_by_its_place_in_the_run(tmp_path: Path) -> None:
    (tmp_path / "checkpoints" / "step-1").mkdir(parents=True)
    assert missing_files(TranslateConfig(run=str(tmp_path), checkpoint="step-1")) == []
    assert missing_files(TranslateConfig(run=str(tmp_path), checkpoint="checkpoints/step-1")) == []
    (problem,) = missing_files(TranslateConfig(run=str(tmp_path), checkpoint="step-2"))
    assert "checkpoint=step-2" in problem.message


def test_a_seed_beyond_what_all_generators_take_is_refused(
    complaints: Callable[[Sequence[str]], list[str]],
) -> None:
    assert complaints([f"seed={2**32 - 1}"]) == []
    assert complaints([f"seed={2**32}"]) == [f"seed={2**32}: must be >= 0 and < {2**32}"]
