"""A model's weights on disk: one safetensors file, tied tensors once, and a small JSON file of facts.

Contract: names are those of the bare model (no prefix of a wrapper such as DistributedDataParallel or
torch.compile), so a file fits every way of running the model. A tensor that several names share is
stored once and is still one tensor after loading. A file is written aside, flushed to the disk and
renamed: it is whole or absent. No pickle is read or written.

Not in here: optimizer state, checkpoints' manifests (training), run folders (`mt.decoding.loading`).
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor, nn

from mt.errors import CheckpointError
from mt.files import write_whole

WEIGHTS_FILE = "model.safetensors"
FACTS_FILE = "model.json"

_WRAPPERS = frozenset({"module", "_orig_mod"})
_FORMAT = 1
_WAY_OUT = "put the file of a copy of the run in its place, or use a checkpoint of it (checkpoint=DIR)"
_LISTED = 5


@dataclass(frozen=True)
class ModelFacts:
    """What `FACTS_FILE` says about the weights beside it.

    Attributes:
        tokenizer_sha256: content hash of the tokenizer the weights were trained with.
        source_size, target_size: rows of the two embeddings.
        step: updates behind the weights.
        origin: where they come from, in words ("step 1200", "average of ..."); for people.
        weights_sha256: of `WEIGHTS_FILE`; None if not known.
    """

    tokenizer_sha256: str
    source_size: int
    target_size: int
    step: int = 0
    origin: str = ""
    weights_sha256: str | None = None


def tensors_of(model: nn.Module) -> dict[str, Tensor]:
    """The model's tensors under their bare names, each shared tensor under its first name only."""
    return {names[0]: tensor for names, tensor in _groups(model)}


def save_model(model: nn.Module, path: Path) -> str:
    """Writes `model`'s weights to the file `path`; returns the file's SHA-256.

    Raises:
        CheckpointError: the file cannot be written (no room, no permission); nothing is left behind.
    """
    return save_tensors(tensors_of(model), path)


def save_tensors(tensors: Mapping[str, Tensor], path: Path) -> str:
    """Like `save_model`, for tensors at hand (an average of checkpoints, for instance)."""
    content = save({name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()})
    _write(path, content)
    return hashlib.sha256(content).hexdigest()


def read_tensors(path: Path) -> dict[str, Tensor]:
    """All tensors of a safetensors file, on the CPU.

    Raises:
        CheckpointError: the file is missing, damaged, or in another format.
    """
    try:
        with safe_open(path, framework="pt", device="cpu") as file:
            return {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a dict)
    except FileNotFoundError:
        raise CheckpointError(f"{path}: no such file") from None
    except (SafetensorError, OSError, ValueError, TypeError) as error:
        raise CheckpointError(
            f"{path}: cannot be read as safetensors, the only format loaded ({error}); "
            "the file is damaged, cut short or of another kind: use another checkpoint"
        ) from error


def load_weights(model: nn.Module, path: Path) -> None:
    """Copies the weights in the file `path` into `model`; tensors that were shared stay shared.

    Raises:
        CheckpointError: the file is missing or damaged, or its names and shapes are not the model's;
            the message lists the first differences. The model is untouched then.
    """
    load_tensors(model, read_tensors(path), path)


def load_tensors(model: nn.Module, stored: Mapping[str, Tensor], origin: Path) -> None:
    """Like `load_weights`, for tensors already read from `origin` (which is only named in messages)."""
    problems: list[str] = []
    copies: list[tuple[Tensor, Tensor]] = []
    missing: list[str] = []
    known: set[str] = set()
    for names, tensor in _groups(model):
        known.update(names)
        present = [name for name in names if name in stored]
        if not present:
            missing.append(names[0])
            continue
        source = stored[present[0]]
        if source.shape != tensor.shape:
            problems.append(
                f"{present[0]}: shape {list(source.shape)} in the file, {list(tensor.shape)} in the model"
            )
            continue
        if not all(torch.equal(source, stored[name]) for name in present[1:]):
            problems.append(f"{' = '.join(present)}: one tensor in the model, different values in the file")
            continue
        copies.append((tensor, source))
    unexpected = sorted(set(stored) - known)
    for title, names_found in (("missing from the file", missing), ("not in the model", unexpected)):
        if names_found:
            more = f" and {len(names_found) - _LISTED} more" if len(names_found) > _LISTED else ""
            problems.append(f"{title}: {', '.join(names_found[:_LISTED])}{more}")
    if problems:
        shown = problems[: 2 * _LISTED] + (
            [f"... {len(problems)} differences"] if len(problems) > 2 * _LISTED else []
        )
        listed = "".join(f"\n  - {problem}" for problem in shown)
        raise CheckpointError(
            f"{origin}: these weights do not fit the model that the configuration describes:{listed}\n"
            "use the configuration and the tokenizer that the weights were trained with"
        )
    with torch.no_grad():
        for tensor, source in copies:
            tensor.copy_(source)


def write_facts(facts: ModelFacts, path: Path) -> None:
    """Writes `facts` as JSON to the file `path`.

    Raises:
        CheckpointError: the file cannot be written.
    """
    content = {"format": _FORMAT, **dataclasses.asdict(facts)}
    _write(path, (json.dumps(content, indent=2, sort_keys=True) + "\n").encode("utf-8"))


def read_facts(path: Path) -> ModelFacts:
    """The facts in the file `path`; entries this version does not know are ignored.

    Raises:
        CheckpointError: the file is missing, no such JSON, or from a newer format.
    """
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise CheckpointError(f"{path}: no such file") from None
    except (OSError, ValueError, RecursionError) as error:
        reason = getattr(error, "strerror", None) or error  # an OSError's own text has the path with escapes
        raise CheckpointError(f"{path}: cannot be read ({reason}); {_WAY_OUT}") from error
    if not isinstance(content, dict) or not isinstance(content.get("format"), int):
        raise CheckpointError(f"{path}: not a description of a model; {_WAY_OUT}")
    if content["format"] > _FORMAT:
        raise CheckpointError(
            f"{path}: written by a newer version (format {content['format']}); update this one"
        )
    kinds = {"tokenizer_sha256": str, "source_size": int, "target_size": int, "step": int, "origin": str}
    for name, kind in kinds.items():
        if name in ("step", "origin") and name not in content:
            continue
        if not isinstance(content.get(name), kind) or isinstance(content.get(name), bool):
            raise CheckpointError(f"{path}: {name} must be {kind.__name__}, not {content.get(name)!r}")
    sha = content.get("weights_sha256")
    if sha is not None and not isinstance(sha, str):
        raise CheckpointError(f"{path}: weights_sha256 must be text, not {sha!r}")
    return ModelFacts(weights_sha256=sha, **{name: content[name] for name in kinds if name in content})


def sha256_of(path: Path) -> str:
    """SHA-256 of a file's bytes, in hexadecimal."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def _groups(model: nn.Module) -> list[tuple[list[str], Tensor]]:
    """Every stored tensor of `model` with all its bare names."""
    names: defaultdict[tuple[object, ...], list[str]] = defaultdict(list)
    tensors: dict[tuple[object, ...], Tensor] = {}
    for name, tensor in model.state_dict(keep_vars=True).items():
        # An empty tensor has no address of its own.
        place = tensor.untyped_storage().data_ptr() if tensor.numel() else id(tensor)
        identity = (place, tensor.storage_offset(), tuple(tensor.shape), tensor.stride(), tensor.dtype)
        names[identity].append(_bare(name))
        tensors.setdefault(identity, tensor)
    return [(names[identity], tensor.detach()) for identity, tensor in tensors.items()]


def _bare(name: str) -> str:
    """`name` without the parts that wrappers add."""
    return ".".join(part for part in name.split(".") if part not in _WRAPPERS)


def _write(path: Path, content: bytes) -> None:
    try:
        write_whole(path, content)
    except OSError as error:
        raise CheckpointError(
            f"{path}: cannot write {len(content):,} bytes: {error.strerror or error}"
        ) from error
