"""From corpus files to token stores, once: read, check, train the tokenizer, encode, filter, remember.

Idea: the result is a function of the bytes of the files and of the options, so it is kept in the
cache under a hash of just these. A second call hashes the files, reads the validation text and opens
what is there. Nothing is dropped, lowered or replaced without a number in the report and a warning.

Contract: sides are never re-paired; a pair is kept or dropped whole, and read = kept + dropped. The
tokenizer sees training text only. Validation pairs too long for the model are left out of the
validation loss (counted), but their lines stay, because a BLEU score is over all of them.
Not in here: what a line, a tokenizer, a store is.
"""

from __future__ import annotations

import hashlib
import json
import logging
import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import sentencepiece

from mt.config.schema import DataConfig, TokenizerConfig
from mt.data.corpus import local_test_sets, locate
from mt.data.kinds import check_kind
from mt.data.lines import TextFile, cleaning_warnings, counted, read_bytes, read_lines
from mt.data.store import DamagedStore, TokenStore, build_folder
from mt.data.tokenizer import UNK, Side, Tokenizer, lowered_warnings, train_tokenizer
from mt.errors import DataError, TokenizerError, printable

_log = logging.getLogger("mt.data.preparation")

_FORMAT = 1  # raise it whenever the same files and options would give another result
_REPORT = "report.json"
_ENCODED_AT_ONCE = 100_000  # lines; bounds the memory that lists of ids take

REASONS = ("empty source", "empty target", "empty both", "too long", "length ratio")


@dataclass(frozen=True)
class Prepared:
    """A corpus ready for training.

    Attributes:
        tokenizer: trained on the training text.
        train: the kept training pairs.
        valid: the validation pairs that fit the model, for the validation loss.
        valid_source_lines: all validation sources, cleaned.
        valid_target_lines: all validation references, untouched.
        report: what was read, kept, dropped and why, as plain JSON values.
        cached: whether everything was in the cache already.
    """

    tokenizer: Tokenizer
    train: TokenStore
    valid: TokenStore
    valid_source_lines: list[str]
    valid_target_lines: list[str]
    report: dict[str, Any]
    cached: bool


def prepare(data: DataConfig, tokenizer: TokenizerConfig, max_positions: int) -> Prepared:
    """Read, check and encode the training and validation text, or find it in the cache.

    Args:
        data: the corpus and its filters.
        tokenizer: how text becomes pieces.
        max_positions: longest side a model takes, in pieces with the end-of-sentence symbol.

    Raises:
        DataError: files are missing, damaged, of different length or empty, or nothing is left.
        ConfigError: the configuration names no files.
        TokenizerError: no tokenizer can be trained as asked.
    """
    paths = {
        f"{split}_{side}": path
        for split in ("train", "valid")
        for side, path in zip(("source", "target"), locate(data, split), strict=True)
    }
    valid = _read_pair(paths["valid_source"], paths["valid_target"], data)
    for pair in local_test_sets(data).values():
        _read_pair(*pair, data)  # what is wrong with them would else be found after the training
    train_hashes, doubts = [], []
    for side in ("source", "target"):
        content = read_bytes(paths[f"train_{side}"])
        # Also when the text itself is found in the cache: the same command has to get the same answer.
        doubts.append(check_kind(paths[f"train_{side}"], content))
        train_hashes.append(hashlib.sha256(content).hexdigest())
    cache = Path(data.cache)
    tokenizer_folder = cache / "tokenizers" / _tokenizer_key(data, tokenizer, train_hashes)
    job = _Job(data, tokenizer, paths, train_hashes, valid, tokenizer_folder)

    known = _open_tokenizer(tokenizer_folder, tokenizer)
    fresh_tokenizer = known is None
    if known is None:
        known = _build_tokenizer(job)
    limit = min(data.max_length, max_positions - 1)
    key = _key(
        [
            "pairs",
            *train_hashes,
            *(file.sha256 for file in valid),
            known.sha256,
            data.invalid_utf8.value,
            data.strict,
            limit,
            data.max_length_ratio,
            max_positions,
        ]
    )
    folder = cache / "pairs" / key
    stored = _open_pairs(folder)
    cached = stored is not None and not fresh_tokenizer
    if stored is None:
        stored = _build_pairs(job, known, folder, limit, max_positions)
    train, valid_store, report = stored
    # The same bytes may have been read from another place, the same vocabulary asked for in another size.
    for name, path in paths.items():
        report["files"][name]["path"] = str(path)
    report["tokenizer"]["vocab_size_asked"] = tokenizer.vocab_size
    cleaned = [warning for file in report["files"].values() for warning in cleaning_warnings(file)]
    report["warnings"] = [*cleaned, *lowered_warnings(tokenizer, known), *report["warnings"]]
    unsaid = [] if job.was_read else [doubt for doubt in doubts if doubt is not None]
    for warning in [*unsaid, *report["warnings"]]:
        _log.warning("%s", warning)
    _log.info("%s", report["train"]["summary"])
    _log.info("%s", report["valid"]["summary"])
    return Prepared(
        tokenizer=known,
        train=train,
        valid=valid_store,
        valid_source_lines=valid[0].lines,
        valid_target_lines=valid[1].raw,
        report=report,
        cached=cached,
    )


_Pair = tuple[TextFile, TextFile]


@dataclass
class _Job:
    """What one call works on; the training text is read only when something has to be built."""

    data: DataConfig
    options: TokenizerConfig
    paths: dict[str, Path]
    train_hashes: list[str]
    valid: _Pair
    tokenizer_folder: Path
    _train: _Pair | None = field(default=None)

    @property
    def was_read(self) -> bool:
        """Whether the training text was needed."""
        return self._train is not None

    def train(self) -> _Pair:
        """The training text.

        Raises:
            DataError: it is not what was hashed before.
        """
        if self._train is None:
            self._train = _read_pair(self.paths["train_source"], self.paths["train_target"], self.data)
            for file, sha256 in zip(self._train, self.train_hashes, strict=True):
                if file.sha256 != sha256:
                    raise DataError(
                        f"{printable(file.path)} changed while it was read; give a file that stays (no pipe)"
                    )
        return self._train


def _read_pair(source: Path, target: Path, data: DataConfig) -> _Pair:
    """Both sides of a split, with equal numbers of lines."""
    files = [
        read_lines(path, invalid_utf8=data.invalid_utf8, strict=data.strict) for path in (source, target)
    ]
    counts = [len(file.lines) for file in files]
    if counts[0] != counts[1]:
        raise DataError(
            f"{printable(source)} has {counted(counts[0], 'line')}, {printable(target)} has {counts[1]:,}; "
            f"line N of one must translate line N of the other, so the counts have to agree"
        )
    if not counts[0]:
        raise DataError(f"empty corpus: {printable(source)} and {printable(target)} have no lines")
    return files[0], files[1]


# --- tokenizer -----------------------------------------------------------------------------------


def _key(parts: Sequence[object]) -> str:
    return hashlib.sha256(json.dumps([_FORMAT, *parts]).encode()).hexdigest()[:24]


def _tokenizer_key(data: DataConfig, options: TokenizerConfig, train_hashes: Sequence[str]) -> str:
    """Everything that decides the tokenizer's bytes; threads do not."""
    return _key(
        [
            "tokenizer",
            *train_hashes,
            data.invalid_utf8.value,
            data.strict,
            options.model.value,
            options.vocab_size,
            options.hard_vocab_limit,
            options.joint,
            options.character_coverage,
            options.byte_fallback,
            options.normalization.value,
            sentencepiece.__version__,
            unicodedata.unidata_version,
        ]
    )


def _open_tokenizer(folder: Path, options: TokenizerConfig) -> Tokenizer | None:
    if not folder.exists():
        return None
    try:
        return Tokenizer.load(folder, threads=options.threads)
    except TokenizerError as error:
        _log.warning("the cached tokenizer is damaged and is trained again: %s", error)
        return None


def _build_tokenizer(job: _Job) -> Tokenizer:
    source, target = job.train()
    both = [(s, t) for s, t in zip(source.lines, target.lines, strict=True) if s and t]
    if not both:
        counts = dict.fromkeys(REASONS, 0)
        for s, t in zip(source.lines, target.lines, strict=True):
            counts["empty both" if not s and not t else "empty target" if s else "empty source"] += 1
        raise DataError(f"no training pair is left: {_removed(counts)}")
    _log.info("training a %s tokenizer on %s", job.options.model.value, counted(len(both), "pair"))
    trained = train_tokenizer(job.options, [s for s, _ in both], [t for _, t in both])

    def whole(folder: Path) -> bool:
        try:
            return Tokenizer.load(folder).sha256 == trained.sha256
        except TokenizerError:
            return False

    build_folder(job.tokenizer_folder, trained.save, whole)
    return trained


# --- pairs ---------------------------------------------------------------------------------------


def _open_pairs(folder: Path) -> tuple[TokenStore, TokenStore, dict[str, Any]] | None:
    if not folder.exists():
        return None
    try:
        return _load_pairs(folder)
    except DamagedStore as error:
        _log.warning("the cached pairs are damaged and are built again: %s", error)
        return None


def _load_pairs(folder: Path) -> tuple[TokenStore, TokenStore, dict[str, Any]]:
    stores = [TokenStore.open(folder / name) for name in ("train", "valid")]
    try:
        content: Any = json.loads((folder / _REPORT).read_text(encoding="utf-8"))
        report = content["report"]
        if content["sha256"] != _report_hash(report) or report["train"]["kept"] != len(stores[0]):
            raise DamagedStore(f"{folder / _REPORT} has changed")
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise DamagedStore(f"{folder / _REPORT}: {error}") from None
    return stores[0], stores[1], report


def _report_hash(report: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(report, sort_keys=True).encode()).hexdigest()


def _build_pairs(
    job: _Job, tokenizer: Tokenizer, folder: Path, limit: int, max_positions: int
) -> tuple[TokenStore, TokenStore, dict[str, Any]]:
    source, target = job.train()
    train = _encode(tokenizer, source.lines, target.lines)
    reasons = _reasons(train, limit, job.data.max_length_ratio)
    dropped = {reason: int(np.count_nonzero(reasons == code)) for code, reason in enumerate(REASONS, start=1)}
    kept = np.flatnonzero(reasons == 0)
    read = len(source.lines)
    removed = _removed(dropped)
    if not len(kept):
        raise DataError(
            f"no training pair is left of {read:,}: {removed} (longest side allowed: {limit} pieces); "
            f"look at the files, data.max_length, data.max_length_ratio and model.max_positions"
        )
    valid = _encode(tokenizer, job.valid[0].lines, job.valid[1].lines)
    excluded_codes = _reasons(valid, max_positions - 1, None)
    excluded = {
        reason: int(np.count_nonzero(excluded_codes == code))
        for code, reason in enumerate(REASONS[:4], start=1)
    }
    fitting = np.flatnonzero(excluded_codes == 0)

    files = {
        "train_source": source,
        "train_target": target,
        "valid_source": job.valid[0],
        "valid_target": job.valid[1],
    }
    warnings = []
    if sum(dropped.values()):
        warnings.append(f"training pairs: {removed} of {read:,}; longest side allowed: {limit} pieces")
    if sum(excluded.values()):
        warnings.append(
            f"validation pairs: {sum(excluded.values()):,} of {len(valid):,} left out of the validation loss "
            f"({_listed(excluded)}; model.max_positions={max_positions}); all are scored"
        )
    sides: tuple[Side, Side] = ("source", "target")
    unknown = {
        f"{split}_{side}": _unknown_share(tokenizer, store, files[f"{split}_{side}"].lines, side)
        for split, store in (("train", train), ("valid", valid))
        for side in sides
    }
    if any(unknown.values()):
        shares = ", ".join(f"{name.replace('_', ' ')} {share:.2%}" for name, share in unknown.items())
        warnings.append(
            f"characters without a piece: {shares}; a model can neither read nor write them; "
            f"raise tokenizer.character_coverage or set tokenizer.byte_fallback=true"
        )
    actual = {"source": tokenizer.source_size, "target": tokenizer.target_size}
    kept_store, fitting_store = _subset(train, kept), _subset(valid, fitting)
    report: dict[str, Any] = {
        "format": _FORMAT,
        "files": {name: file.counts() for name, file in files.items()},
        "train": {
            "read": read,
            "kept": len(kept),
            "dropped": dropped,
            "longest_allowed": limit,
            "source_pieces": int(kept_store.source_lengths.sum()),
            "target_pieces": int(kept_store.target_lengths.sum()),
            "longest_source": int(kept_store.source_lengths.max()),
            "longest_target": int(kept_store.target_lengths.max()),
            "summary": f"training pairs: read {read:,}, kept {len(kept):,}, {removed}",
        },
        "valid": {
            "read": len(valid),
            "in_loss": len(fitting),
            "excluded": excluded,
            "summary": f"validation pairs: read {len(valid):,}, in the loss {len(fitting):,}",
        },
        "tokenizer": {
            "sha256": tokenizer.sha256,
            "model": job.options.model.value,
            "normalization": tokenizer.normalization.value,
            "joint": tokenizer.joint,
            "byte_fallback": tokenizer.byte_fallback,
            "source_size": actual["source"],
            "target_size": actual["target"],
        },
        "unknown_shares": unknown,
        "warnings": warnings,
    }

    def write(aside: Path) -> None:
        for name, store in (("train", kept_store), ("valid", fitting_store)):
            (aside / name).mkdir()
            store.save(aside / name)
        text = json.dumps({"sha256": _report_hash(report), "report": report}, indent=2) + "\n"
        (aside / _REPORT).write_text(text, encoding="utf-8", newline="\n")

    build_folder(folder, write, _is_whole)
    try:
        return _load_pairs(folder)
    except DamagedStore:  # another process is just replacing it; the content is the same
        return kept_store, fitting_store, report


def _is_whole(folder: Path) -> bool:
    try:
        _load_pairs(folder)
    except DamagedStore:
        return False
    return True


def _encode(tokenizer: Tokenizer, source: Sequence[str], target: Sequence[str]) -> TokenStore:
    """All pairs of lines as ids, in memory."""

    def ids(encode: Callable[[Sequence[str]], list[list[int]]], lines: Sequence[str]) -> Any:
        for start in range(0, len(lines), _ENCODED_AT_ONCE):
            yield from encode(lines[start : start + _ENCODED_AT_ONCE])

    return TokenStore.of(ids(tokenizer.encode_source, source), ids(tokenizer.encode_target, target))


def _reasons(store: TokenStore, limit: int, max_ratio: float | None) -> npt.NDArray[np.int8]:
    """(pairs,) why a pair is dropped: 0 = kept, else 1 + its place in REASONS; the first that holds."""
    source, target = store.source_lengths, store.target_lengths
    longer, shorter = np.maximum(source, target), np.minimum(source, target)
    conditions = [
        (source == 0) & (target > 0),
        (source > 0) & (target == 0),
        (source == 0) & (target == 0),
        longer > limit,
        np.zeros(len(store), dtype=bool) if max_ratio is None else longer > max_ratio * shorter,
    ]
    return np.select(conditions, range(1, len(REASONS) + 1), default=0).astype(np.int8)


def _subset(store: TokenStore, indices: npt.NDArray[np.int64]) -> TokenStore:
    if len(indices) == len(store):
        return store
    return TokenStore.of((store.source(int(i)) for i in indices), (store.target(int(i)) for i in indices))


def _listed(counts: dict[str, int]) -> str:
    return ", ".join(f"{reason} {count:,}" for reason, count in counts.items() if count)


def _removed(counts: dict[str, int]) -> str:
    """'removed 2 (empty source 1, empty target 1)'."""
    total = sum(counts.values())
    return f"removed {total:,} ({_listed(counts)})" if total else "removed 0"


def _unknown_share(tokenizer: Tokenizer, store: TokenStore, lines: Sequence[str], side: Side) -> float:
    """Share of the characters of a side (spaces apart) that no piece stands for."""
    gather = store.gather_source if side == "source" else store.gather_target
    ids = gather(np.arange(len(store)))
    if UNK not in ids:
        return 0.0
    lengths = store.source_lengths if side == "source" else store.target_lengths
    affected = np.unique(np.repeat(np.arange(len(store)), lengths)[ids == UNK])
    characters = sum(len(line.replace(" ", "")) for line in lines)
    unknown = sum(
        tokenizer.unknown_share(lines[index], side) * len(lines[index].replace(" ", "")) for index in affected
    )
    return round(unknown / characters, 6)
