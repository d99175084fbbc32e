"""The words of a command line: what each one asks for, and what is wrong with it.

Contract: `read_words` takes the ``key=value`` words as typed and gives back words that Hydra can
parse, with a problem for each word that it could not, that names no option or choice, or whose value
has the wrong type. Every word is looked at, so that one run shows all slips.
Not in here: quotes (`mt.config.quoting`), composing, ranges and relations.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from hydra.core.config_loader import ConfigLoader
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import ChoiceSweep, Override, QuotedString
from hydra.errors import HydraException
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from mt.config.fields import Option, options, sections, show
from mt.config.quoting import list_word, meant_list_word, quoted, text_word, unpaired
from mt.config.validate import Problem

# Names of other toolkits, for "did you mean".
_ELSEWHERE = {
    "batch_size": "training.batch_tokens",
    "d_model": "model.width",
    "hidden_size": "model.width",
    "embed_dim": "model.width",
    "n_heads": "model.heads",
    "num_heads": "model.heads",
    "n_layers": "model.encoder_layers",
    "num_layers": "model.encoder_layers",
    "d_ff": "model.ffn_width",
    "ffn_dim": "model.ffn_width",
    "learning_rate": "optimizer.lr",
    "warmup": "schedule.warmup_steps",
    "epochs": "training.max_epochs",
    "num_epochs": "training.max_epochs",
    "steps": "training.max_steps",
    "src": "data.source",
    "tgt": "data.target",
    "train_src": "data.train_source",
    "train_tgt": "data.train_target",
    "valid_src": "data.valid_source",
    "valid_tgt": "data.valid_target",
    "max_len": "data.max_length",
    "vocabulary": "tokenizer.vocab_size",
    "beam_size": "decoding.beam",
    "num_beams": "decoding.beam",
    "grad_clip": "training.clip_norm",
    "gradient_accumulation_steps": "training.accumulate",
    "fp16": "training.precision",
    "out": "output",
    "model_path": "run",
    "tokenizer": "tokenizer_folder",
}

# What Hydra's messages say in the words of its grammar, which mean nothing to whoever typed a value.
_OF_THE_GRAMMAR = (
    "mismatched input", "extraneous input", "no viable alternative", "token recognition", "LexerNoViable",
)  # fmt: skip

OPTIONAL_GROUPS = ("experiment",)
# Choices of Hydra's groups that come with our extra `sweep`.
_EXTRA = "sweep"
_OF_THE_EXTRA = {
    "launcher": ("joblib", "submitit_local", "submitit_slurm"),
    "sweeper": ("optuna",),
}
# Ready-made sweeps: a group that no run has a choice of, so that it is written with a plus.
SWEEP_GROUP = "sweep"


@dataclass(frozen=True)
class Vocabulary:
    """What a command line may name.

    Attributes:
        schema: the command's options.
        groups: choices by config group, e.g. ``model`` -> [base, big, small, tiny].
        hydra: the composed ``hydra`` node.
    """

    schema: type[Any]
    groups: Mapping[str, Sequence[str]]
    hydra: DictConfig


def one_as_list(words: Sequence[str], key: str) -> list[str]:
    """Let ``key=FILE`` stand for ``key=[FILE]``; lists, sweeps and null stay as they are."""
    changed = []
    for word in words:
        name, _, value = word.partition("=")
        plain = name == key and value not in ("", "null") and value[0] != "[" and "," not in value
        changed.append(f"{key}=[{value}]" if plain else word)
    return changed


@dataclass
class Words:
    """The outcome of `read_words`.

    Attributes:
        good: words for Hydra, in order, without those that have a problem.
        overrides: `good`, parsed.
        problems: one for each fault; its keys are the options that were meant.
    """

    good: list[str] = field(default_factory=list)
    overrides: list[Override] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)

    @property
    def for_hydra(self) -> bool:
        """Whether any word is about Hydra itself: where and how it runs a job."""
        return any(override.is_hydra_override() for override in self.overrides)


def read_words(typed: Sequence[str], vocabulary: Vocabulary, multirun: bool, loader: ConfigLoader) -> Words:
    """Parse and check every word.

    Args:
        typed: the words as they came from the shell.
        vocabulary: what may be named.
        multirun: whether a comma makes a sweep (``-m``).
        loader: lists a group's choices for the sweep ``group=glob(*)``.
    """
    result = Words()
    parser = OverridesParser.create(loader)
    for word in typed:
        ready = quoted(word)
        try:
            override = parser.parse_overrides([ready])[0]
        except HydraException as error:
            result.problems.append(_unparsable(word, error, vocabulary))
            continue
        found = list(_faults(word, override, vocabulary, multirun))
        result.problems += found
        if not found:
            result.good.append(ready)
            result.overrides.append(override)
    return result


# ---------------------------------------------------------------------------- words that do not parse


def _unparsable(word: str, error: HydraException, vocabulary: Vocabulary) -> Problem:
    key, equals, value = word.partition("=")
    name = key.lstrip("+~")
    if not equals:
        if {"input", "heatmap"} <= options(vocabulary.schema).keys():  # a command that takes text
            return Problem((name,), f"'{word}' is not key=value; text to translate stands after --")
        return Problem((name,), f"'{word}' is not key=value (see --help)")
    if not re.fullmatch(r"[+~]{0,2}[A-Za-z_][\w./@$-]*", key, re.ASCII):
        return Problem((name,), f"'{key}' in '{word}' cannot be the name of an option (see --help)")
    of_hydra = re.split(r"[./]", name)[0] == "hydra"
    option = options(vocabulary.schema).get(name)
    if option is None and not of_hydra and name not in {*vocabulary.groups, *sections(vocabulary.schema)}:
        return unknown(name, vocabulary)
    first = str(error).splitlines()[0]
    reason = "has a character that has a meaning of its own on the command line"
    alone = unpaired(value)
    if alone is not None:
        reason = f"has a {alone} without its partner"
    elif not any(words in first for words in _OF_THE_GRAMMAR):
        reason = f"could not be read ({first})"
    if "${" in value:
        way_out = "'${' is kept for interpolations; rename the file"
    elif option is not None and option.kind not in (str, list):
        way_out = f"{name} must be {option.expected}"
    elif option is None and not of_hydra:
        way_out = "see --help for what it can be"
    else:
        write = meant_list_word if option is not None and option.kind is list else text_word
        way_out = f"quote the value, and the word once more for the shell: {write(name, value)}"
    return Problem((name,), f"'{word}' {reason}; {way_out}")


# ---------------------------------------------------------------------------- names and types


def _faults(word: str, override: Override, vocabulary: Vocabulary, multirun: bool) -> Iterator[Problem]:
    key = override.key_or_group
    if not key:
        yield Problem((), f"'{word}' names no option; write KEY=VALUE as one word, no spaces around the =")
        return
    if override.is_sweep_override() and not multirun:
        yield Problem((key,), _comma(word, override, vocabulary))
        return
    if key.split(".")[0].split("/")[0] == "hydra":
        yield from _hydra_faults(word, override, vocabulary)
        return
    values = _values(override)
    if key in vocabulary.groups and not all(isinstance(value, dict) for value in values):
        yield from _group_faults(word, override, vocabulary)
        return
    if override.package is not None or "/" in key:
        yield unknown(key if override.package is None else f"{key}@{override.package}", vocabulary)
        return
    if override.is_delete():
        yield Problem((key,), f"{word}: options cannot be removed; leave the word out, or set another value")
        return
    leaves = options(vocabulary.schema)
    for value in values:
        yield from value_faults(key, value, vocabulary, leaves)
    if override.is_add() and not override.is_force_add() and key in leaves:
        yield Problem((key,), f"{word}: {key} exists already; leave the + out")


def _values(override: Override) -> list[Any]:
    """Every value a word can take: one, or those of a sweep."""
    value = override.value()
    if override.is_discrete_sweep():
        return [_plain(item) for item in override.sweep_iterator()]
    return [_plain(value)] if not override.is_sweep_override() else []


def _plain(value: Any) -> Any:
    if isinstance(value, QuotedString):
        return value.text
    if isinstance(value, dict):
        return {str(_plain(key)): _plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return value


def _comma(word: str, override: Override, vocabulary: Vocabulary) -> str:
    key, value = override.key_or_group, word.partition("=")[2]
    option = options(vocabulary.schema).get(key)
    ways = "add -m to run one job for each"
    if option is not None and option.kind is list:
        sweep = override.value()
        plain = isinstance(sweep, ChoiceSweep) and sweep.simple_form
        items = [show(item) for item in _values(override)] if plain else [value]
        ways = f"a list needs brackets: {list_word(key, items)}"
    elif option is not None and option.kind is str:
        ways += f"; for one text with a comma quote it: {text_word(key, value)}"
    return f"'{word}': a comma (or a function) makes a sweep of several values; {ways}"


def value_faults(
    key: str, value: Any, vocabulary: Vocabulary, leaves: Mapping[str, Option], place: str = ""
) -> Iterator[Problem]:
    """What is wrong with setting the option ``key`` to ``value``; a nested value is looked at leaf by leaf.

    Args:
        key: dotted name.
        value: a plain value, as YAML or Hydra's grammar gives it.
        vocabulary: what may be named.
        leaves: the options of its schema.
        place: where it was set (``file:line: ``), put before each message.
    """
    option = leaves.get(key)
    if option is None:
        inner = key in sections(vocabulary.schema)
        if isinstance(value, dict) and (inner or key == ""):
            for name, item in value.items():
                yield from value_faults(f"{key}.{name}".lstrip("."), item, vocabulary, leaves, place)
        elif inner:
            yield Problem(
                (key,),
                f"{place}{key}={show(value)}: {key} is a section; set its options, e.g. "
                f"{next(leaf for leaf in leaves if leaf.startswith(key + '.'))}=…",
            )
        else:
            problem = unknown(key, vocabulary)
            yield Problem(problem.keys, place + problem.message)
        return
    if isinstance(value, str) and ("${" in value or value == "???"):
        return  # resolved, and then checked, once everything is composed
    try:
        OmegaConf.update(_typed_node(vocabulary.schema), key, value)
    except OmegaConfBaseException:
        yield Problem(
            (key,), f"{place}{key}={show(value)}: must be {option.expected}{_near_member(option, value)}"
        )


_NODES: dict[type[Any], DictConfig] = {}


def _typed_node(schema: type[Any]) -> DictConfig:
    """A schema as OmegaConf sees it, to try values on; what it holds has no meaning."""
    if schema not in _NODES:
        _NODES[schema] = OmegaConf.structured(schema)
    return _NODES[schema]


def _near_member(option: Option, value: Any) -> str:
    if not issubclass(option.kind, Enum):
        return ""
    return did_you_mean(str(value), option.kind.__members__)


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """`` (did you mean X?)`` for the nearest known name, or nothing."""
    known = list(known)
    folded = {candidate.lower(): candidate for candidate in reversed(known)}
    near = difflib.get_close_matches(name.lower(), folded, n=1, cutoff=0.6)
    return f" (did you mean {folded[near[0]]}?)" if near else ""


def unknown(key: str, vocabulary: Vocabulary) -> Problem:
    """The problem of a name that no option has, with the nearest one that exists."""
    section, _, rest = key.partition(".")
    if rest and difflib.get_close_matches(section.lower(), ["hydra"], cutoff=0.8):
        return Problem((key,), f"unknown option {key}: did you mean hydra.{rest}?")
    nearest = _nearest(key, vocabulary)
    if nearest is None:
        return Problem((key,), f"unknown option {key}; --help lists them all")
    return Problem((key, nearest), f"unknown option {key}: did you mean {nearest}?")


def _nearest(key: str, vocabulary: Vocabulary) -> str | None:
    leaves = list(options(vocabulary.schema))
    key = key.lower()
    if "." not in key:
        close = difflib.get_close_matches(key, vocabulary.groups, n=1, cutoff=0.75)
        if close:
            return close[0]
    section, _, name = key.rpartition(".")
    # The right section with a slip in the name is likelier than a like name elsewhere.
    here = [leaf for leaf in leaves if leaf.rpartition(".")[0] == section]
    close = difflib.get_close_matches(key, here, n=1, cutoff=0.8)
    if close:
        return close[0]
    by_name: dict[str, str] = {}
    for leaf in leaves:
        by_name.setdefault(leaf.rpartition(".")[2], leaf)
    candidates = {**{alias: leaf for alias, leaf in _ELSEWHERE.items() if leaf in leaves}, **by_name}
    for wanted, among in ((key, leaves), (name, list(candidates))):
        close = difflib.get_close_matches(wanted, among, n=1, cutoff=0.75 if wanted == name else 0.7)
        if close:
            return candidates.get(close[0], close[0]) if wanted == name else close[0]
    return None


# ---------------------------------------------------------------------------- groups and the hydra node


def _group_faults(word: str, override: Override, vocabulary: Vocabulary) -> Iterator[Problem]:
    group, choices = override.key_or_group, vocabulary.groups[override.key_or_group]
    removable = group in OPTIONAL_GROUPS
    if override.package is not None:
        yield Problem((group,), f"{word}: the place of {group} is fixed; write {group}=CHOICE")
        return
    if override.is_delete():
        if not removable:
            yield Problem((group,), f"{word}: every run has one choice of {group}; write {group}=CHOICE")
        return
    if override.is_add() and group != SWEEP_GROUP:
        yield Problem((group,), f"{word}: {group} exists already; leave the + out")
    for value in _values(override):
        for choice in value if isinstance(value, list) else [value]:
            if choice is None and removable:
                continue
            if str(choice) not in choices:
                yield Problem(
                    (group,),
                    f"{group}={show(choice)}: no such choice; there is {', '.join(choices)}"
                    f"{did_you_mean(str(choice), choices)}",
                )


def _hydra_faults(word: str, override: Override, vocabulary: Vocabulary) -> Iterator[Problem]:
    key = override.key_or_group
    if key == "hydra":
        yield Problem((key,), f"{word}: hydra is a section; set its options, e.g. hydra.run.dir=…")
        return
    if "/" in key:
        group = key.split("/", 1)[1]
        groups = {
            name.split("/", 1)[1]: choices for name, choices in vocabulary.groups.items() if "/" in name
        }
        if group not in groups:
            yield Problem(
                (key,), f"unknown option {key}{did_you_mean(key, ['hydra/' + name for name in groups])}"
            )
            return
        for value in _values(override):
            if value is not None and str(value) not in groups[group] and not isinstance(value, list):
                yield Problem((key,), f"{key}={show(value)}: {_no_choice(group, str(value), groups[group])}")
        return
    node: Any = vocabulary.hydra
    seen = "hydra"
    for name in key.split(".")[1:]:
        if not isinstance(node, DictConfig):
            return
        if name not in node:
            if OmegaConf.get_type(node) is dict:
                return  # free-form, e.g. hydra.job.env_set
            nearest = did_you_mean(name, [str(known) for known in node]).replace("mean ", f"mean {seen}.")
            yield Problem((key,), f"unknown option {key}{nearest or _elsewhere_in(vocabulary.hydra, key)}")
            return
        seen = f"{seen}.{name}"
        if OmegaConf.is_missing(node, name) or OmegaConf.is_interpolation(node, name):
            return
        node = node[name]


def _no_choice(group: str, value: str, choices: Sequence[str]) -> str:
    """Why one of Hydra's groups has not this choice: it is not installed, or there is none of that name."""
    known = [*choices, *_OF_THE_EXTRA.get(group, ())]
    if value in known:
        return (
            f"is not installed; it comes with pip install 'mt-attention[{_EXTRA}]' (in a checkout: "
            f"pip install -e '.[{_EXTRA}]')"
        )
    return f"no such choice; there is {', '.join(choices)}{did_you_mean(value, known)}"


def _elsewhere_in(node: DictConfig, key: str) -> str:
    """`did_you_mean` with an option of Hydra's whose last name is like that of ``key``."""
    by_name: dict[str, str] = {}

    def gather(branch: dict[Any, Any], place: str) -> None:
        for name, value in branch.items():
            by_name.setdefault(str(name), f"{place}.{name}")
            if isinstance(value, dict):
                gather(value, f"{place}.{name}")

    content = OmegaConf.to_container(node, resolve=False)
    gather(content if isinstance(content, dict) else {}, "hydra")
    near = difflib.get_close_matches(key.rpartition(".")[2].lower(), by_name, n=1, cutoff=0.75)
    return f" (did you mean {by_name[near[0]]}?)" if near else "; --hydra-help leads to them all"
