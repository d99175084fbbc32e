"""What a run folder says about how its model was made: configuration, tokenizer, data, machine.

Contract: written when the run begins; when it goes on, the text and the tokenizer must be what they
were, by their hashes, wherever the files now lie.

Not in here: what comes out of the run.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import platform
import sys
import time
from collections.abc import Iterator, Mapping
from importlib import metadata
from pathlib import Path
from typing import Any

import torch

from mt.config.run_config import save_config
from mt.config.schema import TrainConfig
from mt.data.preparation import Prepared
from mt.data.tokenizer import identify
from mt.errors import CheckpointError, TokenizerError
from mt.training import checkpoint
from mt.training.device import device_name
from mt.training.run_folder import CONFIG, DATA, ENVIRONMENT, RESULT, TOKENIZER


def open_record(
    folder: Path, config: TrainConfig, prepared: Prepared, device: torch.device, *, resumed: bool
) -> None:
    """Write what describes the run, or, when resumed, check that data and tokenizer are the same.

    Raises:
        CheckpointError: data or tokenizer changed since the run began.
    """
    hashes = _data_hashes(prepared)
    if resumed:
        _check_data(folder, hashes)
        _check_tokenizer(folder / TOKENIZER, prepared.tokenizer.sha256)
    (folder / RESULT).unlink(missing_ok=True)
    # The folder itself is the run, wherever it is moved to; resume= was for this session.
    save_config(dataclasses.replace(config, resume=None, run=None), folder / CONFIG)
    if not resumed:
        prepared.tokenizer.save(folder / TOKENIZER)
        checkpoint.write_json(folder / DATA, {**prepared.report, "hashes": hashes})
    path = folder / ENVIRONMENT
    sessions: list[Any] = []
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError, RecursionError):
        sessions = list(json.loads(path.read_bytes())["sessions"]) if resumed else []
    checkpoint.write_json(path, {"sessions": [*sessions, _environment(device)]})


def _data_hashes(prepared: Prepared) -> dict[str, str]:
    """What must be the same when a run goes on: the text and the tokenizer."""
    hashes = {"tokenizer": prepared.tokenizer.sha256}
    for place, value in _walk(prepared.report):
        if place.endswith("sha256") and isinstance(value, str):
            hashes[place.removesuffix(".sha256")] = value
    return hashes


def _walk(tree: Any, place: str = "") -> Iterator[tuple[str, Any]]:
    """Every leaf of a JSON value with its dotted place."""
    if isinstance(tree, Mapping):
        for key, value in tree.items():
            yield from _walk(value, f"{place}.{key}" if place else str(key))
    elif isinstance(tree, list):
        for index, value in enumerate(tree):
            yield from _walk(value, f"{place}.{index}")
    else:
        yield place, tree


def _check_data(folder: Path, hashes: Mapping[str, str]) -> None:
    path = folder / DATA
    try:
        stored = json.loads(path.read_bytes())["hashes"]
        differing = sorted(
            name for name in stored.keys() | hashes.keys() if stored.get(name) != hashes.get(name)
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise CheckpointError(
            f"{path} is missing or damaged, so it is not known what the run was trained on; put a copy of "
            "the file in its place, or start a new run with run=..."
        ) from error
    if differing:
        raise CheckpointError(
            f"{folder} cannot go on: {', '.join(differing)} changed since the run began (see {path}). "
            "Restore the data, or start a new run with run=..."
        )


def _check_tokenizer(folder: Path, sha256: str) -> None:
    try:
        found = identify(folder).sha256
    except TokenizerError as error:
        raise CheckpointError(f"the run's tokenizer is damaged: {error}; restore it from a copy") from error
    if found != sha256:
        raise CheckpointError(
            f"{folder} is not the tokenizer the run began with: its content hash is {found[:12]}, the run's "
            f"is {sha256[:12]}. Restore it, or start a new run with run=..."
        )


def _environment(device: torch.device) -> dict[str, Any]:
    """What a number may depend on besides the configuration."""
    packages = ("torch", "numpy", "sentencepiece", "sacrebleu", "safetensors", "hydra-core")
    versions: dict[str, str] = {}
    for package in packages:
        with contextlib.suppress(metadata.PackageNotFoundError):
            versions[package] = metadata.version(package)
    return {
        "started": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
        "command": list(sys.orig_argv),  # Hydra changes sys.argv
        "python": platform.python_version(),
        "system": platform.platform(),
        "device": str(device),
        "hardware": device_name(device),
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "packages": versions,
    }
