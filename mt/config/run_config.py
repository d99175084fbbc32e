"""A run's configuration on disk, and what it says about the run.

Contract: `save_config` writes plain YAML; `load_config` reads it as data only. Every key has to be an
option and every value has to have its type, so that a stored configuration can choose values and
nothing else: no tag, interpolation, resolver or ``_target_`` is ever followed, and OmegaConf never
sees the file.
Not in here: the user's own YAML files and command line (`mt.config.composition`).
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from enum import Enum
from pathlib import Path
from typing import Any

import yaml

from mt.config.fields import Option, assign, options, sections, show, value_of
from mt.config.schema import DecodingConfig, DecodingOverrides, TrainConfig
from mt.config.validate import find_problems
from mt.errors import CheckpointError
from mt.files import write_whole

# Real files have 3 kB. The bound keeps a hostile one from filling the memory.
_LARGEST_FILE = 100_000
_DEEPEST = 8

# Options that name places, or change how fast and how loudly, but not what comes out (but see
# `decides_the_result`).
NOT_THE_RESULT = frozenset(
    {
        "device",
        "runs",
        "run",
        "resume",
        "stop_on_failure",
        "data.root",
        "data.cache",
        "tokenizer.threads",
        "training.save_every_steps",
        "training.keep_last",
        "training.log_every_steps",
        "training.prefetch_batches",
        "training.threads",
        "training.shard",
        "training.timeout_seconds",
        "training.samples",
        "training.tensorboard",
        "training.progress",
        "decoding.batch_tokens",
    }
)

_HEADER = "# The configuration of this run. translate, evaluate and resume read it; do not edit.\n"


def to_dict(config: Any) -> dict[str, Any]:
    """A configuration as nested dicts of JSON types (choices by name)."""
    plain: dict[str, Any] = {}
    for field in dataclasses.fields(config):
        value = getattr(config, field.name)
        if dataclasses.is_dataclass(value):
            plain[field.name] = to_dict(value)
        elif isinstance(value, Enum):
            plain[field.name] = value.name
        else:
            plain[field.name] = list(value) if isinstance(value, list) else value
    return plain


def save_config(config: TrainConfig, path: Path) -> None:
    """Write a configuration as YAML; the file is whole or absent."""
    text = _HEADER + yaml.safe_dump(to_dict(config), sort_keys=False, allow_unicode=True)
    write_whole(path, text.encode("utf-8"))


def load_config(path: Path) -> TrainConfig:
    """Read what `save_config` wrote.

    Options that the file does not have (it is from an older version) take their defaults.

    Raises:
        CheckpointError: the file is missing, is no plain YAML, or holds a key that is no option, or a
            value of the wrong type or out of its range.
    """
    try:
        with open(path, "rb") as file:
            raw = file.read(_LARGEST_FILE + 1)
        if len(raw) > _LARGEST_FILE:
            raise CheckpointError(
                f"{path}: larger than {_LARGEST_FILE} bytes; not the configuration of a run"
            )
        text = raw.decode("utf-8")
        _refuse_tricks(text, path)
        stored = yaml.safe_load(text)
    except FileNotFoundError:
        raise CheckpointError(
            f"{path}: no such file; {path.parent} is not the folder of a run that was started"
        ) from None
    except OSError as error:
        raise CheckpointError(f"{path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise CheckpointError(f"{path}: not UTF-8 at byte {error.start}") from None
    except (yaml.YAMLError, RecursionError, ValueError, OverflowError) as error:
        reason = str(getattr(error, "problem", None) or type(error).__name__)
        raise CheckpointError(
            f"{path}: not a plain YAML file ({reason}); the run folder is damaged: "
            "put the file of a copy of the run in its place, or train again"
        ) from None
    config = TrainConfig()
    faults = list(_fill(config, stored, ""))
    faults = faults or [p.message for p in find_problems(config)]
    if faults:
        raise CheckpointError(
            f"{path} is not a configuration of this program, or of a newer version: {'; '.join(faults)}; "
            "put the file of a copy of the run in its place, or train again"
        )
    return config


def _refuse_tricks(text: str, path: Path) -> None:
    """Stop at an alias (it can make a small file huge, or circular) and at deep nesting (slow, or worse)."""
    depth = 0
    for event in yaml.parse(text, Loader=yaml.SafeLoader):
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if isinstance(event, yaml.AliasEvent) or depth > _DEEPEST:
            raise CheckpointError(f"{path}: holds an alias or deep nesting; not the configuration of a run")


def _fill(config: Any, stored: Any, prefix: str) -> list[str]:
    """Put stored values into a configuration; the faults, if any."""
    schema = type(config)
    if not isinstance(stored, dict):
        return [f"{prefix or 'the file'} is not a mapping of options"]
    faults: list[str] = []
    leaves = options(schema)
    for name, value in stored.items():
        key = f"{prefix}.{name}".lstrip(".")
        if not isinstance(name, str):
            faults.append(f"unknown option {key}")
        elif name in sections(schema):
            faults += _fill(getattr(config, name), value, key)
        elif name not in leaves:
            faults.append(f"unknown option {key}")
        else:
            ok, converted = _convert(leaves[name], value)
            if ok:
                assign(config, name, converted)
            else:
                faults.append(f"{key}={str(value)[:80]} must be {leaves[name].expected}")
    return faults


def _convert(option: Option, value: Any) -> tuple[bool, Any]:
    """Whether a YAML value has the option's type, and the value in it."""
    if value is None:
        return option.optional, None
    if issubclass(option.kind, Enum):
        return (True, option.kind[value]) if value in list(option.kind.__members__) else (False, None)
    if option.kind is float:
        ok = isinstance(value, (int, float)) and not isinstance(value, bool)
        return ok, float(value) if ok else None
    if option.kind is int:
        return isinstance(value, int) and not isinstance(value, bool), value
    if option.kind is list:
        return isinstance(value, list) and all(isinstance(item, str) for item in value), value
    return isinstance(value, option.kind), value


def decides_the_result(key: str, config: TrainConfig) -> bool:
    """Whether an option has a part in what comes out of a run, given the other options."""
    if key == "training.save_every_steps":  # which checkpoints there are to be averaged
        return config.training.average_last > 1
    return key not in NOT_THE_RESULT


def decisive_settings(config: TrainConfig) -> dict[str, str]:
    """Every option that decides a run's result, but the seed, as a user would type it."""
    return {
        key: show(value_of(config, key))
        for key in options(TrainConfig)
        if key != "seed" and decides_the_result(key, config)
    }


def config_hash(config: TrainConfig) -> str:
    """Eight hexadecimal digits over everything that decides a run's result.

    Where files go, the device, threads, logging and read-ahead have no part in it.
    """
    decisive = {}
    for key, option in options(TrainConfig).items():
        if decides_the_result(key, config):
            value = value_of(config, key)
            decisive[key] = show(float(value) if option.kind is float and value is not None else value)
    text = json.dumps(decisive, sort_keys=True, ensure_ascii=True)
    return hashlib.sha256(text.encode("ascii")).hexdigest()[:8]


def changed_options(stored: TrainConfig, given: TrainConfig) -> dict[str, tuple[Any, Any]]:
    """The options in which two configurations differ: key -> (stored, given)."""
    pairs = {key: (value_of(stored, key), value_of(given, key)) for key in options(TrainConfig)}
    return {key: pair for key, pair in pairs.items() if pair[0] != pair[1]}


def differences(stored: TrainConfig, given: TrainConfig) -> list[str]:
    """`changed_options` in words: ``model.width: 256 -> 512``."""
    changed = changed_options(stored, given)
    return [f"{key}: {show(old)} -> {show(new)}" for key, (old, new) in changed.items()]


def resolve_decoding(base: DecodingConfig, overrides: DecodingOverrides) -> DecodingConfig:
    """The run's own decoding options, with those that translate or evaluate were given put over them."""
    given = {key: getattr(overrides, key) for key in options(DecodingOverrides)}
    return dataclasses.replace(base, **{key: value for key, value in given.items() if value is not None})
