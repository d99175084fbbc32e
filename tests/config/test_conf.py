"""The YAML files: all compose, say what they are, and mean the same as the command line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from mt.config.composition import Composition, open_hydra
from mt.config.fields import Option, assign, options, sections, show, value_of
from mt.config.paths import CONFIG_DIR
from mt.config.schema import (
    AttentionConfig,
    CompareConfig,
    CorpusKind,
    EvaluateConfig,
    Heads,
    ScoreKind,
    TrainConfig,
    TranslateConfig,
)
from mt.config.validate import find_problems, warnings

FILES = sorted(path.relative_to(CONFIG_DIR).as_posix() for path in CONFIG_DIR.rglob("*.yaml"))
CHOICES = [
    name.removesuffix(".yaml").split("/")
    for name in FILES
    if name.count("/") == 1 and not name.startswith("sweep/")  # those are many configurations: test_sweeps.py
]
SCHEMAS: dict[str, type[Any]] = {
    "train": TrainConfig,
    "translate": TranslateConfig,
    "evaluate": EvaluateConfig,
    "compare": CompareConfig,
}


def composed(composition: Composition, words: list[str]) -> Any:
    """The configuration of some words, whatever its relations are."""
    checked = composition.check(composition.read(words, multirun=False), relations=False)
    assert checked.problems == []
    return checked.config


def flat(tree: dict[str, Any]) -> dict[str, Any]:
    """Nested options by their dotted keys."""
    leaves: dict[str, Any] = {}
    for key, value in tree.items():
        inner = flat(value) if isinstance(value, dict) else {"": value}
        leaves |= {f"{key}.{name}".rstrip("."): leaf for name, leaf in inner.items()}
    return leaves


@pytest.mark.parametrize("name", FILES)
def test_every_file_starts_by_saying_what_it_is(name: str) -> None:
    lines = (CONFIG_DIR / name).read_text(encoding="utf-8").splitlines()
    comment = lines[1] if lines[0].startswith("# @package") else lines[0]
    assert comment.startswith("# ") and len(comment) > 20


@pytest.mark.parametrize(("group", "choice"), CHOICES)
def test_every_choice_composes_and_sets_what_its_file_says(
    group: str, choice: str, training: Composition, corpus: list[str]
) -> None:
    config = composed(training, [f"{group}={choice}"])
    written = yaml.safe_load((CONFIG_DIR / group / f"{choice}.yaml").read_text(encoding="utf-8"))
    if group in sections(TrainConfig) and group not in written:
        written.pop("defaults", None)
        for key, value in flat(written).items():
            got = value_of(config, f"{group}.{key}")
            assert got == value or show(got) == show(value), key
    if config.data.kind is CorpusKind.files:
        for word in corpus[1:]:
            key, _, value = word.partition("=")
            assign(config, key, value)
    assert find_problems(config) == []
    assert warnings(config) == []


@pytest.mark.parametrize("name", SCHEMAS)
def test_every_root_composes_with_every_option_in_its_schema(name: str) -> None:
    schema = SCHEMAS[name]
    with open_hydra(schema, name) as composition:
        config = composed(composition, [])
    assert isinstance(config, schema)
    written = yaml.safe_load((CONFIG_DIR / f"{name}.yaml").read_text(encoding="utf-8"))
    assert set(written) - {"defaults", "hydra"} <= set(options(schema))


def test_what_a_plain_command_line_means(training: Composition) -> None:
    config = composed(training, [])
    assert config.data.kind is CorpusKind.demo
    assert config.training.max_minutes is not None and config.training.max_minutes < 4
    assert (config.model.encoder_layers, config.model.initialization.name) == (3, "lexical")
    assert (config.model.width, config.decoding.beam) == (256, 5)


@pytest.mark.parametrize("data", ["data=files", "data=multi30k"])
def test_what_the_demo_brings_does_not_reach_other_corpora(data: str, training: Composition) -> None:
    config = composed(training, [data])
    chosen = ["tokenizer=unigram", "model=small", "schedule=inverse_sqrt", "training=default"]
    assert config == composed(training, [*chosen, data])
    assert (config.training.max_epochs, config.training.max_minutes) == (10, None)
    assert (config.model.encoder_layers, config.model.initialization.name) == (4, "random")


def test_a_choice_wins_over_what_the_demo_brings(training: Composition) -> None:
    config = composed(training, ["model=base", "training=default", "tokenizer=unigram", "schedule=constant"])
    base = yaml.safe_load((CONFIG_DIR / "model/base.yaml").read_text(encoding="utf-8"))
    for key, value in base.items():
        assert show(getattr(config.model, key)) == show(value)
    assert config.model.initialization.name == "random"
    assert (config.training.max_epochs, config.training.max_minutes) == (10, None)
    assert (config.tokenizer.model.name, config.schedule.kind.name) == ("unigram", "constant")


def test_noam_takes_its_rate_as_a_factor_unless_one_is_given(training: Composition) -> None:
    assert composed(training, ["schedule=noam"]).optimizer.lr == 1.0
    assert composed(training, ["schedule=noam", "optimizer=adam", "optimizer.lr=2"]).optimizer.lr == 2.0


def test_a_score_has_its_papers_name_in_the_whole_model_and_in_one_place(training: Composition) -> None:
    assert composed(training, ["attention=bahdanau"]).attention.score is ScoreKind.additive
    words = ["attention=luong", "attention.cross=bahdanau", "attention.encoder=luong_dot"]
    config = composed(training, words).attention
    assert (config.score, config.decoder) == (ScoreKind.general, None)
    assert (config.cross, config.encoder) == (ScoreKind.additive, ScoreKind.dot)
    summed = composed(training, ["attention=summed"]).attention
    assert (summed.score, summed.heads) == (ScoreKind.dot, Heads.summed)


def test_every_score_has_a_file_under_each_of_its_names(training: Composition) -> None:
    for name, kind in ScoreKind.__members__.items():
        assert composed(training, [f"attention={name}"]).attention == AttentionConfig(score=kind)


def test_the_other_direction_changes_only_the_languages(training: Composition) -> None:
    one = composed(training, ["experiment=multi30k_fr_en"])
    other = composed(training, ["experiment=multi30k_en_fr"])
    assert (other.data.source, other.data.target) == ("en", "fr")
    one.data.source, one.data.target = "en", "fr"
    assert one == other


def a_value(option: Option) -> Any:
    """A value that is neither the option's default nor out of its range."""
    if hasattr(option.kind, "__members__"):
        return list(option.kind)[-1].name
    if option.kind is list:
        return ["p", "q"]
    if option.kind is bool:
        return not option.default
    if option.kind is str:
        return "other"
    bounds = option.bounds
    if option.kind is float and ("lt" in bounds or "le" in bounds):
        return 0.75
    return option.kind((option.default or 2) + 1)


@pytest.mark.parametrize("name", SCHEMAS)
def test_every_option_can_be_set_and_means_the_same_in_yaml(name: str, tmp_path: Path) -> None:
    schema = SCHEMAS[name]
    plain: dict[str, Any] = {}
    words = []
    for key, option in options(schema).items():
        assert option.doc, key
        value = a_value(option)
        assert option.kind in (bool, str, list) or hasattr(option.kind, "__members__") or option.inside(value)
        words.append(f"{key}={show(value)}")
        node = plain
        *parents, last = key.split(".")
        for parent in parents:
            node = node.setdefault(parent, {})
        node[last] = value
    with open_hydra(schema, name) as composition:
        from_words = composed(composition, words)
    for key, option in options(schema).items():
        assert show(value_of(from_words, key)) == show(a_value(option)), key
    root = {"defaults": [name, "_self_"], **plain}
    (tmp_path / "mine.yaml").write_text(yaml.safe_dump(root), encoding="utf-8")
    with open_hydra(schema, "mine", str(tmp_path)) as composition:
        assert composed(composition, []) == from_words


def test_faults_of_a_yaml_file_are_all_reported_with_file_and_line(
    training: Composition, tmp_path: Path
) -> None:
    folder = tmp_path / "experiment"
    folder.mkdir()
    (folder / "bad.yaml").write_text(
        "# @package _global_\n"
        "model:\n"
        "  droput: 0.1\n"
        "  heads: many\n"
        "training: {max_epochs: 0, precision: fp8}\n"
        "seed: -1\n",
        encoding="utf-8",
    )
    with open_hydra(TrainConfig, "train", str(tmp_path)) as composition:
        words = composition.read(["experiment=bad", "optimizer.rl=1"], multirun=False)
        found = [problem.message for problem in composition.check(words).problems]
    place = f"{folder / 'bad.yaml'}"
    assert found == [
        "unknown option optimizer.rl: did you mean optimizer.lr?",
        f"{place}:3: unknown option model.droput: did you mean model.dropout?",
        f"{place}:4: model.heads=many: must be a whole number >= 1 and <= 1048576",
        f"{place}:5: training.max_epochs=0: must be >= 1",
        f"{place}:5: training.precision=fp8: must be one of auto, fp32, bf16, fp16",
        f"{place}:6: seed=-1: must be >= 0 and < 4294967296",
    ]


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("model:\n  width: [1\n", ["bad.yaml:3", "not valid YAML"]),
        ("# @package _global_\ndefaults:\n  - override /model: huge\n", ["model/huge", "tiny"]),
        (
            "# @package _global_\nmodel:\n  width: ${nothing.here}\n",
            ["model.width=${nothing.here}", "not found"],
        ),
        ("# @package _global_\nmodel:\n  width: ${data.source}\n", ["model.width=${data.source}", "fr"]),
        ("# @package _global_\ndata:\n  target: no\n  cache: 'x'\n", ["data.target", "quotes"]),
    ],
)
def test_other_faults_of_a_yaml_file(text: str, parts: list[str], tmp_path: Path, corpus: list[str]) -> None:
    folder = tmp_path / "experiment"
    folder.mkdir()
    (folder / "bad.yaml").write_text(text, encoding="utf-8")
    with open_hydra(TrainConfig, "train", str(tmp_path)) as composition:
        checked = composition.check(composition.read([*corpus, "experiment=bad"], multirun=False))
    (message,) = [problem.message for problem in checked.problems]
    for part in parts:
        assert part in message


def test_interpolations_between_options_work(training: Composition) -> None:
    config = composed(training, ["model.ffn_width=${model.width}", "model.width=32"])
    assert config.model.ffn_width == 32


def test_a_recurrent_model_brings_an_attention_that_other_words_replace(
    training: Composition, corpus: list[str]
) -> None:
    assert composed(training, ["model=rnn_bahdanau_small"]).attention.score is ScoreKind.additive
    chosen = composed(training, [*corpus, "model=rnn_bahdanau_small", "attention=general"])
    assert chosen.attention.score is ScoreKind.general
    assert composed(training, ["attention=none", "model=rnn"]).attention.score is ScoreKind.none
    assert find_problems(chosen) == []


def test_what_is_nested_in_a_section_is_checked_like_the_rest(training: Composition, tmp_path: Path) -> None:
    folder = tmp_path / "experiment"
    folder.mkdir()
    (folder / "bad.yaml").write_text(
        "# @package _global_\nmodel:\n  rnn:\n    cel: gru\n    feed: all\n", encoding="utf-8"
    )
    with open_hydra(TrainConfig, "train", str(tmp_path)) as composition:
        words = composition.read(["experiment=bad", "model.rnn=3"], multirun=False)
        found = [problem.message for problem in composition.check(words).problems]
    place = folder / "bad.yaml"
    assert found == [
        "model.rnn=3: model.rnn is a section; set its options, e.g. model.rnn.cell=…",
        f"{place}:4: unknown option model.rnn.cel: did you mean model.rnn.cell?",
        f"{place}:5: model.rnn.feed=all: must be one of context_in_gates, input_feeding, none",
    ]
