"""Attention of many lines as files for other programs: word alignments, or the weights themselves.

    .pharaoh .align .txt   ``0-0 2-1``: links of words, source-target, counted from 0; one line a sentence
    .jsonl .json           words, pieces and weights; one object a line, or a list of these objects
    .npz                   the same as NumPy arrays, to be read without pickle

Contract: line, object or arrays N belong to input line N; a blank line gives an empty one. A word is what
stands between two spaces. The links are those of `mt.decoding.alignments.links`: the source word with the
largest of the weights that the other files hold. Weights are lists of T rows of S numbers, with a list of
layers or heads around them where all are wanted.

Not in here: which weights (`mt.decoding.alignments.View`), opening and naming files.
"""

from __future__ import annotations

import itertools
import json
import zipfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, Protocol

import numpy as np
import numpy.typing as npt

from mt.decoding.alignments import (
    ALL,
    CrossAttention,
    View,
    Weights,
    attentions,
    links,
    pair_of,
    pharaoh,
    rounded,
)
from mt.decoding.loading import LoadedRun
from mt.decoding.translator import Translation

LINKS, JSONL, JSON, NPZ = "links", "jsonl", "json", "npz"
FORMATS = {".pharaoh": LINKS, ".align": LINKS, ".txt": LINKS, ".jsonl": JSONL, ".json": JSON, ".npz": NPZ}
"""Format by suffix."""

# Lines whose attention is found, and held, at a time.
_GROUP_LINES = 200


class Writer(Protocol):
    """Takes what a `View` leaves of the attention of one line after the other; None of a blank line."""

    def write(self, attention: CrossAttention | None) -> None: ...


def written(
    translations: Iterable[Translation], run: LoadedRun, view: View, writers: Sequence[Writer]
) -> Iterator[Translation]:
    """The same translations; what each looked at has been handed to all writers when it comes."""
    if not writers:
        yield from translations
        return
    source = iter(translations)
    while group := list(itertools.islice(source, _GROUP_LINES)):
        found: list[CrossAttention | None] = [None] * len(group)
        for index, attention in attentions(run.model, [pair_of(run.tokenizer, one) for one in group]):
            found[index] = view.of(attention)
        for translation, line in zip(group, found, strict=True):
            for each in writers:
                each.write(line)
            yield translation


@contextmanager
def writer(path: Path, file: BinaryIO, view: View) -> Iterator[Writer]:
    """A writer of the format that the name asks for, on an open file; complete when the block ends.

    Args:
        path: ends in one of `FORMATS`.
        view: the weights; for links it leaves a single matrix (`View.single`).
    """
    form = FORMATS[path.suffix.lower()]
    if form == NPZ:
        with zipfile.ZipFile(file, "w") as archive:
            yield _Arrays(archive, view)
    elif form == LINKS:
        yield _Links(file)
    else:
        records = _Records(file, view, listed=form == JSON)
        yield records
        records.close()


class _Links:
    """The Pharaoh format, named after the decoder that wrote it (Koehn 2004)."""

    def __init__(self, file: BinaryIO) -> None:
        self.file = file

    def write(self, attention: CrossAttention | None) -> None:
        found = [] if attention is None else links(attention.words)
        self.file.write((pharaoh(found) + "\n").encode("ascii"))


class _Records:
    """JSON: an object for each line."""

    def __init__(self, file: BinaryIO, view: View, *, listed: bool) -> None:
        self.file, self.view, self.listed = file, view, listed
        self.count = 0

    def write(self, attention: CrossAttention | None) -> None:
        text = json.dumps(self._record(attention), ensure_ascii=False, separators=(",", ":"))
        before = "" if not self.listed else "[\n" if self.count == 0 else ",\n"
        self.file.write((before + text + "\n" * (not self.listed)).encode("utf-8", errors="replace"))
        self.count += 1

    def close(self) -> None:
        if self.listed:
            self.file.write(b"\n]\n" if self.count else b"[]\n")

    def _record(self, attention: CrossAttention | None) -> dict[str, Any]:
        if attention is None:
            nothing: dict[str, Any] = {"source": [], "target": [], "weights": []}
            return {"words": nothing, "pieces": nothing}
        return {"words": self._named(attention.words), "pieces": self._named(attention.pieces)}

    def _named(self, weights: Weights) -> dict[str, Any]:
        numbers = rounded(_squeezed(weights.values, self.view)).tolist()
        return {"source": weights.source, "target": weights.target, "weights": numbers}


class _Arrays:
    """NPZ: six arrays for each line, N from 0: ``words_N``, ``words_source_N``, …, ``pieces_target_N``."""

    def __init__(self, archive: zipfile.ZipFile, view: View) -> None:
        self.archive, self.view = archive, view
        self.count = 0

    def write(self, attention: CrossAttention | None) -> None:
        for unit in ("words", "pieces"):
            weights = None if attention is None else getattr(attention, unit)
            values = np.zeros((0, 0), np.float32) if weights is None else _squeezed(weights.values, self.view)
            names = ([], []) if weights is None else (weights.source, weights.target)
            self._add(f"{unit}_{self.count}", values)
            for side, found in zip(("source", "target"), names, strict=True):
                self._add(f"{unit}_{side}_{self.count}", np.array(found, dtype=np.str_))
        self.count += 1

    def _add(self, name: str, array: npt.NDArray[Any]) -> None:
        about = zipfile.ZipInfo(f"{name}.npy")  # without a date: the same weights are the same file
        about.compress_type = zipfile.ZIP_DEFLATED
        with self.archive.open(about, "w") as entry:
            np.lib.format.write_array(entry, array, allow_pickle=False)


def _squeezed(values: npt.NDArray[np.float32], view: View) -> npt.NDArray[np.float32]:
    """(L, H, T, S) without the axis of layers or of heads where one is left."""
    single = tuple(axis for axis, choice in enumerate((view.layer, view.head)) if choice != ALL)
    return values.squeeze(single)
