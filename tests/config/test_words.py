"""Slips on the command line: each is named, with the way out, and none hides another."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from hydra.core.override_parser.overrides_parser import OverridesParser
from hypothesis import given, settings
from hypothesis import strategies as st

from mt.config.composition import Composition, open_hydra
from mt.config.quoting import as_text, quoted
from mt.config.schema import EvaluateConfig, TrainConfig
from mt.config.words import _no_choice

Look = Callable[[Sequence[str]], list[str]]


@pytest.mark.parametrize(
    ("word", "nearest"),
    [
        ("model.droput=0.3", "model.dropout"),
        ("+model.droput=0.3", "model.dropout"),
        ("++model.droput=0.3", "model.dropout"),
        ("model={droput: 0.3}", "model.dropout"),
        ("++train.lerning_rate=0.1", "optimizer.lr"),
        ("train.max_steps=5", "training.max_steps"),
        ("dropout=0.3", "model.dropout"),
        ("model.d_model=64", "model.width"),
        ("translate.beam=4", "decoding.beam"),
        ("Model.Dropout=0.3", "model.dropout"),
        ("data.train_src=a", "data.train_source"),
        ("sead=3", "seed"),
        ("modle=tiny", "model"),
        ("hydra.ouput_subdir=null", "hydra.output_subdir"),
        ("+hydra.ouput_subdir=null", "hydra.output_subdir"),
        ("hydra.run.dri=x", "hydra.run.dir"),
        ("hydra/lancher=basic", "hydra/launcher"),
        ("hydra.chdir=true", "hydra.job.chdir"),
        ("hydra.dir=x", "hydra.run.dir"),
        ("Hydra.run.dir=x", "hydra.run.dir"),
        ("hydr.run.dir=x", "hydra.run.dir"),
    ],
)
def test_a_misspelt_key_is_refused_with_the_nearest_name(word: str, nearest: str, slips: Look) -> None:
    found = slips([word])
    assert len(found) == 1
    assert "unknown option" in found[0] and f"did you mean {nearest}?" in found[0]


@pytest.mark.parametrize("word", ["zzz.qqqq=1", "+zzz=1", "+zzz={a: 1}", "model/width=3", "model.width.x=3"])
def test_a_key_like_no_other_is_refused_all_the_same(word: str, slips: Look) -> None:
    found = slips([word])
    assert len(found) == 1 and "unknown option" in found[0]


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("model=cnn", "rnn_luong_small, small, tiny"),
        ("model=smal", "did you mean small?"),
        ("model=3", "base, big, mini,"),
        ("optimizer=lion", "adam, adamw"),
        ("experiment=multi30k", "multi30k_fr_en"),
        ("hydra/launcher=bsaic", "did you mean basic?"),
        ("model.norm=prre", "one of pre, post (did you mean pre?)"),
        ("model.width=abc", "model.width=abc: must be a whole number >= 1"),
        ("model.width=64.5", "a whole number"),
        ("model.width=null", "a whole number"),
        ("model.width=true", "a whole number"),
        ("model.width=[64]", "a whole number"),
        ("model.dropout=", "a number >= 0 and < 1"),
        ("training.compile=maybe", "true or false"),
        ("training.max_steps=many", "a whole number >= 1, or null"),
        ("training=5", "no such choice"),
        ("model={width: wide}", "model.width=wide: must be a whole number"),
        ("~model.dropout", "cannot be removed"),
        ("~model", "write model=CHOICE"),
        ("+model=tiny", "leave the + out"),
        ("+model.dropout=0.2", "leave the + out"),
        ("model@there=tiny", "write model=CHOICE"),
        ("word", "not key=value"),
        ("hydra=x", "hydra is a section"),
        ("hydra.zzz=1", "unknown option hydra.zzz; --hydra-help"),
        ("=", "'=' names no option; write KEY=VALUE as one word"),
        ("=x", "'=x' names no option"),
        ("+=x", "names no option"),
        ("~", "names no option"),
        ("={a: 1}", "names no option"),
        ("=1,2", "names no option"),
        ("==x", "cannot be the name of an option"),
        ("modèle.width=3", "cannot be the name of an option"),
        ("seed=1,2", "add -m"),
        ("seed=range(1,4)", "add -m"),
        ("model=[small", "'model=[small' has a '[' without its partner; see --help for what it can be"),
        ("model={width: 8", "has a '{' without its partner"),
        ("model=small]", "has a ']' without its partner"),
        ("model=(small", "has a '(' without its partner"),
        ("seed=[1,(2]", "without its partner; seed must be a whole number"),
        ("seed='1", "has a quote without its partner"),
    ],
)
def test_a_value_that_does_not_fit_is_refused_with_what_does(word: str, expected: str, slips: Look) -> None:
    found = slips([word])
    assert len(found) == 1
    assert expected in found[0]


@pytest.mark.parametrize(
    "value", ["[small", "{a", "a}", "(", ")", "a b [", "choice(", "[a,[b]", "'a", ":{", "=["]
)
@pytest.mark.parametrize("key", ["model", "seed", "data.train_source", "hydra.run.dir", "decoding"])
def test_no_message_speaks_of_hydras_grammar(key: str, value: str, slips: Look) -> None:
    (found,) = slips([f"{key}={value}"])
    assert f"'{key}={value}' has a" in found
    for word in ("input", "token", "Lexer", "alternative", "expecting", "EOF", "recogni"):
        assert word not in found


@pytest.mark.parametrize(
    ("group", "choice"), [("launcher", "joblib"), ("launcher", "submitit_slurm"), ("sweeper", "optuna")]
)
def test_what_an_extra_brings_is_named_with_the_extra(group: str, choice: str) -> None:
    found = _no_choice(group, choice, ["basic"])
    assert found.startswith("is not installed; it comes with pip install 'mt-attention[sweep]'")
    assert "did you mean submitit_" in _no_choice("launcher", "submitit", ["basic"])


def test_a_launcher_that_is_not_installed(slips: Look, training: Composition) -> None:
    if "joblib" in training._groups_of_hydra()["hydra/launcher"]:
        pytest.skip("the extra is installed here")
    (found,) = slips(["hydra/launcher=joblib"])
    assert found.startswith("hydra/launcher=joblib: is not installed; it comes with")


def test_all_problems_are_reported_at_once(complaints: Look) -> None:
    found = complaints(
        ["model.droput=1", "optimizer=lion", "model.width=30", "seed=-1", "model.norm=x", "a#b=1"]
    )
    for key in ("model.droput", "optimizer=lion", "model.width=30", "seed=-1", "model.norm=x", "a#b"):
        assert sum(key in message for message in found) == 1, key


@pytest.mark.parametrize("value", ["", "true", "'  '"])
def test_what_is_no_path_is_one_problem(value: str, complaints: Look) -> None:
    (found,) = complaints([f"data.train_source={value}"])
    assert "no such file" not in found


def test_a_slip_does_not_bring_a_second_complaint_about_what_was_meant(training: Composition) -> None:
    keys = ("train_sorce", "train_target", "valid_source", "valid_target")
    words = ["data=files", *(f"data.{key}={os.devnull}" for key in keys)]
    found = training.check(training.read(words, multirun=False)).problems
    assert [p.message for p in found] == ["unknown option data.train_sorce: did you mean data.train_source?"]


# ------------------------------------------------------------------ special characters


@pytest.mark.parametrize("name", ["My Corpus/a.en", "données/a.fr", "データ/a.ja", "a~", "b%@x.txt", "עברית"])
def test_a_path_is_used_as_typed(name: str, complaints: Look, corpus: list[str]) -> None:
    path = Path(name)
    path.parent.mkdir(exist_ok=True)
    path.write_text("x\n", encoding="utf-8")
    assert complaints([f"data.train_source={name}"]) == []
    path.unlink()
    (found,) = complaints([f"data.train_source={name}"])
    assert f"data.train_source={name}: no such file" in found


@pytest.mark.parametrize("word", ["data.train_source='a,b.txt'", 'data.train_source="c#1.txt"'])
def test_a_quoted_value_is_used_as_is(word: str, complaints: Look) -> None:
    name = word.partition("=")[2].strip("'\"")
    Path(name).write_text("x\n", encoding="utf-8")
    assert complaints([word]) == []


def pasted(message: str) -> str:
    """The word that a message advises, as a program gets it when the advice is pasted into a shell."""
    (word,) = shlex.split(message[message.rindex(": ") + 2 :])
    return word


@pytest.mark.parametrize(
    ("value", "meant"),
    [
        *((name, name) for name in ("runs/step=100.pt", "c#1.txt", "a!b", "a;b", "x<y", "l'été", "a{b")),
        *((name, name) for name in ('say "a" now', '5" disk', """it's 5" wide""")),
        *((name, name) for name in ("a$b#", "a`b!", r"\\s=\t", "#\\")),
        ('say "a', 'say "a'),
        ('"a b', "a b"),
        ('"', "TEXT"),
    ],
)
def test_the_advice_about_a_word_that_cannot_be_parsed_can_be_pasted(
    value: str, meant: str, slips: Look, training: Composition
) -> None:
    found = slips([f"data.train_source={value}"])
    assert len(found) == 1 and "quote" in found[0]
    words = training.read([pasted(found[0])], multirun=False)
    assert not words.problems and words.overrides[0].value() == meant


@pytest.mark.parametrize(
    ("value", "meant"),
    [
        ("a.en,b.en", ["a.en", "b.en"]),
        ("a b,5", ["a b", "5"]),
        ("[x=1,null]", ["x=1", "null"]),
        ("choice(a,b)", ["choice(a,b)"]),
        ("a#b", ["a#b"]),
        ("l'été", ["l'été"]),
        ("[a#b,c d]", ["a#b", "c d"]),
        ("[l'été,5\" disk]", ["l'été", '5" disk']),
        ("""["a,b",c=d]""", ["a,b", "c=d"]),
    ],
)
def test_the_advice_about_a_list_can_be_pasted(value: str, meant: list[str]) -> None:
    with open_hydra(EvaluateConfig, "evaluate") as composition:
        (found,) = composition.read([f"reference={value}"], multirun=False).problems
        words = composition.read([pasted(found.message)], multirun=False)
        assert not words.problems
        items = words.overrides[0].value()
        assert [getattr(item, "text", item) for item in items] == meant


@pytest.mark.parametrize(
    ("word", "part"),
    [
        ("seed=1#2", "seed must be a whole number"),
        ("data.train_sorce=a#b", "did you mean data.train_source?"),
        ("model=a#b", "see --help"),
        ("data.root=a${b", "kept for interpolations"),
        ("seed=1,2", "add -m"),
        ("model=tiny,small", "add -m"),
    ],
)
def test_nothing_is_advised_that_would_be_refused(word: str, part: str, slips: Look) -> None:
    (found,) = slips([word])
    assert part in found and "quote" not in found


def test_a_comma_outside_a_sweep_says_so_and_how_to_quote(slips: Look) -> None:
    (found,) = slips(["data.train_source=a,b.txt"])
    assert "sweep" in found and "-m" in found and """'data.train_source="a,b.txt"'""" in found


def test_a_tilde_means_home_in_every_path(training: Composition, corpus: list[str]) -> None:
    words = training.read([*corpus, "runs=~/experiments", "data.cache=~"], multirun=False)
    config = training.check(words).config
    assert isinstance(config, TrainConfig)
    assert config.runs == os.path.expanduser("~/experiments")
    assert config.data.cache == os.path.expanduser("~")


@pytest.mark.parametrize(
    "path",
    [r"C:\new\train.de", "C:/new/train.de", r"..\runs\a\last", r"é\new\t", "c:\\", r"\\server\share\a.de"],
)
def test_a_windows_path_is_shown_as_typed_and_creates_nothing(path: str, complaints: Look) -> None:
    before = sorted(os.listdir())
    (found,) = complaints([f"data.train_source={path}"])
    assert f"data.train_source={path}: no such file" in found
    assert sorted(os.listdir()) == before


@settings(max_examples=40, deadline=None)
@given(st.text(st.characters(exclude_categories=["Cs"]), min_size=1))
def test_as_text_survives_the_grammar(text: str) -> None:
    assert OverridesParser.create().parse_override(f"key={as_text(text)}").value() == text


@settings(max_examples=40, deadline=None)
@given(st.text(st.characters(categories=["L", "Nd"], include_characters="/\\._-~"), min_size=1))
def test_quoting_leaves_the_text_alone(text: str) -> None:
    word = quoted(f"key=x{text}")  # also with \\\\, which the grammar alone would halve
    assert OverridesParser.create().parse_override(word).value() == f"x{text}"


@settings(max_examples=40, deadline=None)
@given(st.from_regex(r"[a-z][a-z0-9_.]*=([ -}]*)", fullmatch=True).filter(lambda word: "\\\\" not in word))
def test_plain_words_are_never_touched(word: str) -> None:
    assert quoted(word) == word


def test_a_sweep_over_letters_outside_ascii_stays_a_sweep() -> None:
    override = OverridesParser.create().parse_override(quoted("key=à,b,'c,d',é é"))
    assert override.is_sweep_override()
    values = [getattr(value, "text", value) for value in override.sweep_iterator()]
    assert values == ["à", "b", "c,d", "é é"]


def test_a_list_with_letters_outside_ascii_stays_a_list() -> None:
    assert OverridesParser.create().parse_override(quoted("key=[à.txt,b.txt]")).value() == ["à.txt", "b.txt"]
