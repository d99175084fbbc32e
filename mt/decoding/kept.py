"""Translations kept in the run folder, so that a test set is translated once; and what attention said of it.

Contract: `translate_kept` gives what the `Translator` makes of some lines with a run's final model, and
`attention_kept` what that model looks at while it reads references. The results stay in
``RUN/translations/``, each in a file named after the hash of all it depends on: the weights, the lines, the
options of the search or the references. Anything else in that place, or a damaged file, is made again.
A run folder that cannot be written to is no fault.

Not in here: which lines, and what the results are for.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import json
import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mt.config.run_config import to_dict
from mt.config.schema import DecodingConfig
from mt.decoding.forced_attention import ForcedAttention, forced_attention
from mt.decoding.loading import LoadedRun
from mt.decoding.translator import Translator
from mt.files import write_whole
from mt.models.storage import WEIGHTS_FILE, sha256_of

logger = logging.getLogger("mt.decoding.kept")

FOLDER = "translations"
# A sentence's translation does not depend on what it is batched with.
_NO_PART = ("batch_tokens", "n_best")


@dataclass(frozen=True)
class KeptTranslations:
    """The translation of each line, and the seconds that the search took for all."""

    lines: list[str]
    seconds: float


def translate_kept(
    run: Path, lines: Sequence[str], options: DecodingConfig, load: Callable[[], LoadedRun]
) -> KeptTranslations:
    """One translation per line, from the run's folder or made now.

    Args:
        load: gives the run with its final model; called where something has to be made.

    Raises:
        CheckpointError, TokenizerError: the run has no final model that can be used.
        MTError: it cannot translate.
    """
    identity: dict[str, Any] = {
        "weights": _weights(run),
        "decoding": {key: value for key, value in to_dict(options).items() if key not in _NO_PART},
        "sources": _hash(lines),
    }
    path = _path(run, identity)
    found = _read(path, identity, len(lines))
    if found is None:
        found = _translate(load, lines, options)
        _keep(path, {**identity, **dataclasses.asdict(found)})
    return found


def attention_kept(
    run: Path, sources: Sequence[str], references: Sequence[str], load: Callable[[], LoadedRun]
) -> ForcedAttention | None:
    """`forced_attention` of the run's final model, from the run's folder or found now; see `translate_kept`.

    Raises:
        CheckpointError, TokenizerError: the run has no final model that can be used.
    """
    identity = {"weights": _weights(run), "sources": _hash(sources), "references": _hash(references)}
    path = _path(run, identity, "attention-")
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
        content = json.loads(path.read_bytes())
        if all(content[key] == value for key, value in identity.items()):
            return ForcedAttention.from_json(content["attention"]) if content["attention"] else None
    loaded = load()
    found = forced_attention(loaded.model, loaded.tokenizer, sources, references)
    _keep(path, {**identity, "attention": None if found is None else found.to_json()})
    return found


def _weights(run: Path) -> str | None:
    path = run / WEIGHTS_FILE
    return sha256_of(path) if path.is_file() else None


def _hash(lines: Sequence[str]) -> str:
    return hashlib.sha256("".join(f"{line}\n" for line in lines).encode("utf-8")).hexdigest()


def _path(run: Path, identity: dict[str, Any], kind: str = "") -> Path:
    text = json.dumps(identity, sort_keys=True)
    return run / FOLDER / f"{kind}{hashlib.sha256(text.encode('utf-8')).hexdigest()[:16]}.json"


def _translate(
    load: Callable[[], LoadedRun], lines: Sequence[str], options: DecodingConfig
) -> KeptTranslations:
    loaded = load()
    device = loaded.model.source_embedding.weight.device
    translator = Translator(loaded.model, loaded.tokenizer, dataclasses.replace(options, n_best=1), device)
    begin = time.perf_counter()
    found = [translation.text for translation in translator.translate(lines)]
    seconds = time.perf_counter() - begin
    for warning in translator.report.warnings():
        logger.warning("%s: %s", loaded.folder, warning)
    return KeptTranslations(found, seconds)


def _read(path: Path, identity: dict[str, Any], count: int) -> KeptTranslations | None:
    try:
        content = json.loads(path.read_bytes())
        lines, seconds = content["lines"], float(content["seconds"])
        same = all(content[key] == value for key, value in identity.items())
        whole = len(lines) == count and all(isinstance(line, str) and "\n" not in line for line in lines)
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return KeptTranslations(lines, seconds) if same and whole else None


def _keep(path: Path, content: dict[str, Any]) -> None:
    try:
        path.parent.mkdir(exist_ok=True)
        write_whole(path, (json.dumps(content, ensure_ascii=False, indent=1) + "\n").encode("utf-8"))
    except OSError as error:
        logger.warning("not kept for the next comparison: %s: %s", path, error.strerror or error)
