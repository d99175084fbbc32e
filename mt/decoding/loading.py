"""From a run folder to a model that can translate.

Contract: a run folder is all that is needed, wherever it was moved to. Before any weight is used it is
certain that the tokenizer is the one the weights were trained with (by its hash, before it is parsed),
that the weights fit the stored configuration, and that they are safetensors; pickled checkpoints are
refused unread. What does not fit is a `CheckpointError` that names both sides.

Not in here: writing run folders (training), the formats of the weights (`mt.models.storage`).
"""

from __future__ import annotations

import json
import logging
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from mt.config.run_config import load_config
from mt.config.schema import TrainConfig
from mt.data.tokenizer import Identity, Tokenizer, identify
from mt.errors import CheckpointError
from mt.models.build import build_model
from mt.models.seq2seq import Seq2Seq
from mt.models.storage import (
    FACTS_FILE,
    WEIGHTS_FILE,
    ModelFacts,
    load_tensors,
    read_facts,
    read_tensors,
    sha256_of,
)

logger = logging.getLogger("mt.decoding.loading")

CONFIG_FILE = "config.yaml"
TOKENIZER_FOLDER = "tokenizer"
CHECKPOINTS_FOLDER = "checkpoints"
RESULT_FILE = "result.json"
"""Its presence says that the run is finished."""
DATA_FILE = "data.json"
"""What the run was trained on; under "hashes", the content hash of its tokenizer."""
MANIFEST_FILE = "manifest.json"
"""Sizes and hashes of a checkpoint's files."""


@dataclass(frozen=True)
class LoadedRun:
    """A trained model with everything that belongs to it.

    Attributes:
        folder: the run folder.
        checkpoint: folder the weights were read from: the run folder itself, or a checkpoint.
        config: the run's stored configuration.
        tokenizer: the run's tokenizer.
        model: in evaluation mode, on `device`.
        device: where the model is.
    """

    folder: Path
    checkpoint: Path
    config: TrainConfig
    tokenizer: Tokenizer
    model: Seq2Seq
    device: torch.device


def load_run(
    folder: str | Path,
    checkpoint: str | Path | None = None,
    *,
    tokenizer: str | Path | None = None,
    device: torch.device | str = "cpu",
) -> LoadedRun:
    """The model of the run in `folder`.

    Args:
        folder: a run folder (see `choose_run`).
        checkpoint: a checkpoint folder (a path, or a name in the run's ``checkpoints``), or its weights
            file; None = the run's final model.
        tokenizer: a tokenizer folder to use in place of the run's; refused unless it is the same one.
        device: where to put the model.

    Raises:
        CheckpointError: something is missing, damaged, or does not fit together.
        TokenizerError: the tokenizer is damaged.
    """
    run = Path(folder)
    _check_run_folder(run, str(folder))
    weights = _weights_file(run, checkpoint)
    config = load_config(run / CONFIG_FILE)
    tokenizer_folder = Path(tokenizer) if tokenizer is not None else run / TOKENIZER_FOLDER
    if not tokenizer_folder.exists():
        option = f"tokenizer_folder={tokenizer}" if tokenizer is not None else str(tokenizer_folder)
        raise CheckpointError(
            f"{option}: no such folder; a run keeps its tokenizer in RUN/{TOKENIZER_FOLDER}: "
            "put that folder of a copy of the run in its place"
        )
    facts = _facts(weights)
    _check_fit(identify(tokenizer_folder), tokenizer_folder, facts, weights)
    _check_integrity(weights, facts, run)
    loaded = Tokenizer.load(tokenizer_folder, facts.tokenizer_sha256)
    model = build_model(config.model, config.attention, loaded.source_size, loaded.target_size)
    load_tensors(model, read_tensors(weights), weights)
    place = torch.device(device)
    return LoadedRun(run, weights.parent, config, loaded, model.to(place).eval(), place)


def choose_run(run: str | None, checkpoint: str | None, runs: str | Path) -> Path:
    """The run folder that the options run=, checkpoint= and runs= mean.

    `run` itself; else the run that `checkpoint` lies in; else the newest finished run under `runs`
    (`checkpoint` may then be the name of one of its checkpoints).

    Raises:
        CheckpointError: there is no such run or checkpoint.
    """
    if run is not None:
        return Path(run)
    if checkpoint is None:
        return newest_finished_run(runs)
    if not Path(checkpoint).exists() and not any(separator in checkpoint for separator in "/\\"):
        return newest_finished_run(runs)
    return run_of_checkpoint(checkpoint)


def newest_finished_run(runs: str | Path) -> Path:
    """The run folder under `runs` that was finished last.

    Raises:
        CheckpointError: there is none; says what to do.
    """
    root = Path(runs)
    results = [result for result in root.glob(f"*/{RESULT_FILE}") if (result.parent / CONFIG_FILE).is_file()]
    if results:
        return max(results, key=lambda result: (result.stat().st_mtime_ns, result.parent.name)).parent
    unfinished = sorted(config.parent.name for config in root.glob(f"*/{CONFIG_FILE}"))
    if unfinished:
        raise CheckpointError(
            f"no finished run under {root} (unfinished: {', '.join(unfinished[:5])}); "
            f"finish one with python -m mt.train resume={root / unfinished[0]}, "
            "or name one of its checkpoints: checkpoint=DIR"
        )
    raise CheckpointError(
        f"no run under {root}; train one with python -m mt.train, or say where it is: run=DIR"
    )


def run_of_checkpoint(checkpoint: str | Path) -> Path:
    """The run folder that a checkpoint (its folder or its weights file) lies in.

    Raises:
        CheckpointError: there is no such file or folder, or no run around it.
    """
    path = Path(checkpoint)
    if not path.exists():
        raise _no_checkpoint(checkpoint, None)
    around = path.absolute()
    for candidate in (around, *around.parents[:3]):
        if (candidate / CONFIG_FILE).is_file():
            return candidate
    raise CheckpointError(
        f"checkpoint={checkpoint}: it does not lie in a run folder (no {CONFIG_FILE} around it); add run=DIR"
    )


def _check_run_folder(run: Path, given: str) -> None:
    if not run.is_dir():
        kind = "a file, not a run folder" if run.exists() else "no such folder"
        raise CheckpointError(f"run={given}: {kind}; name a folder that python -m mt.train wrote")
    if not (run / CONFIG_FILE).is_file():
        inside = sorted(config.parent.name for config in run.glob(f"*/{CONFIG_FILE}"))
        hint = (
            f"; did you mean {run / inside[0]}?"
            if inside
            else "; name a folder that python -m mt.train wrote"
        )
        raise CheckpointError(f"run={given}: not a run folder (it has no {CONFIG_FILE}){hint}")


def _weights_file(run: Path, checkpoint: str | Path | None) -> Path:
    if checkpoint is None:
        weights = run / WEIGHTS_FILE
        if not weights.is_file():
            names = _checkpoint_names(run)
            way_out = (
                f", or use a checkpoint: checkpoint={run / CHECKPOINTS_FOLDER / names[-1]}" if names else ""
            )
            raise CheckpointError(
                f"run={run}: no final model ({WEIGHTS_FILE}), the training has not finished; "
                f"go on with python -m mt.train resume={run}{way_out}"
            )
        return weights
    places = (Path(checkpoint), run / checkpoint, run / CHECKPOINTS_FOLDER / checkpoint)
    path = next((place for place in places if place.exists()), None)
    if path is None:
        raise _no_checkpoint(checkpoint, run)
    if path.is_dir():
        path = path / WEIGHTS_FILE
        if not path.is_file():
            raise CheckpointError(
                f"checkpoint={checkpoint}: not a checkpoint folder (it has no {WEIGHTS_FILE})"
            )
    elif path.suffix != ".safetensors":
        raise CheckpointError(
            f"checkpoint={checkpoint}: not a checkpoint of this program (a folder with {WEIGHTS_FILE}); "
            "other formats, pickles above all, are never loaded"
        )
    return path


def _no_checkpoint(checkpoint: str | Path, run: Path | None) -> CheckpointError:
    # The text goes out as typed: no escapes, no separators changed.
    names = _checkpoint_names(run) if run is not None else []
    has = (
        f"; {run} has {', '.join(names)}"
        if names
        else f"; checkpoints are folders RUN/{CHECKPOINTS_FOLDER}/step-N"
    )
    return CheckpointError(f"checkpoint={checkpoint}: no such file or folder{has}")


def _checkpoint_names(run: Path) -> list[str]:
    return sorted(
        weights.parent.name for weights in (run / CHECKPOINTS_FOLDER).glob(f"step-*/{WEIGHTS_FILE}")
    )


def _facts(weights: Path) -> ModelFacts:
    """What is known of the weights: from the file beside them, else from the run they lie in."""
    beside = weights.parent / FACTS_FILE
    if beside.is_file():
        return read_facts(beside)
    owner = run_of_checkpoint(weights)
    data = owner / DATA_FILE
    hashes = _json_object(data).get("hashes")
    if not isinstance(hashes, dict) or not isinstance(hashes.get("tokenizer"), str):
        raise CheckpointError(
            f"{data}: does not say which tokenizer the run was trained with; the run is damaged"
        )
    tokenizer = Tokenizer.load(owner / TOKENIZER_FOLDER, hashes["tokenizer"])
    return ModelFacts(tokenizer.sha256, tokenizer.source_size, tokenizer.target_size)


def _check_fit(tokenizer: Identity, folder: Path, facts: ModelFacts, weights: Path) -> None:
    """Refuses another tokenizer than the model's, by its hash; no file of it has been parsed yet."""
    if tokenizer.sha256 == facts.tokenizer_sha256:
        return
    sizes = tokenizer.sizes or (facts.source_size, facts.target_size)
    for side, size, rows in zip(
        ("source", "target"), sizes, (facts.source_size, facts.target_size), strict=True
    ):
        if size != rows:
            raise CheckpointError(
                f"the tokenizer does not fit the model: {folder} has {size} {side} pieces, "
                f"{weights} has {rows}; "
                "use the tokenizer of the model's own run (leave tokenizer_folder= out)"
            )
    raise CheckpointError(
        f"the tokenizer is not the one the model was trained with: {folder} has content hash "
        f"{tokenizer.sha256[:12]}, {weights} needs {facts.tokenizer_sha256[:12]} "
        "(the sizes are the same); use the tokenizer of the model's own run (leave tokenizer_folder= out)"
    )


def _check_integrity(weights: Path, facts: ModelFacts, run: Path) -> None:
    """Compares the weights' hash with the one that was stored when they were written."""
    expected = None
    if (weights.parent / FACTS_FILE).is_file():
        expected = facts.weights_sha256
    manifest = weights.parent / MANIFEST_FILE
    if manifest.is_file():
        entry = _json_object(manifest).get("files", {})
        entry = entry.get(weights.name) if isinstance(entry, dict) else None
        if not isinstance(entry, dict) or not isinstance(entry.get("sha256"), str):
            raise CheckpointError(f"{manifest}: says nothing about {weights.name}; use another checkpoint")
        expected = entry["sha256"]
    if expected is not None and sha256_of(weights) != expected:
        raise CheckpointError(
            f"{weights}: damaged, its content is not what was written (SHA-256 differs); "
            f"{_instead_of(weights, run, facts.step)}"
        )


def _instead_of(damaged: Path, run: Path, step: int) -> str:
    """The way out of damaged weights: the whole checkpoint that is nearest to their step, if there is one."""
    whole: dict[int, Path] = {}
    for name in _checkpoint_names(run):
        folder = run / CHECKPOINTS_FOLDER / name
        with suppress(CheckpointError, OSError, ValueError, KeyError, TypeError):
            entry = _json_object(folder / MANIFEST_FILE)["files"][WEIGHTS_FILE]
            if folder != damaged.parent and sha256_of(folder / WEIGHTS_FILE) == entry["sha256"]:
                whole[int(name.removeprefix("step-"))] = folder
    if not whole:
        return "put the file of a copy of the run in its place, or train again"
    return f"use a whole checkpoint: checkpoint={whole[min(whole, key=lambda other: abs(other - step))]}"


def _json_object(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        reason = getattr(error, "strerror", None) or error  # an OSError's own text has the path with escapes
        raise CheckpointError(f"{path}: cannot be read ({reason})") from error
    if not isinstance(content, dict):
        raise CheckpointError(f"{path}: not a JSON object")
    return content
