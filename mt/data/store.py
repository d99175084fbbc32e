"""Tokenized pairs on disk, memory-mapped: a flat array of ids per side, and where each line begins.

Contract: a store is a folder that is whole or absent (built aside, then renamed), so that any number
of processes may build the same one at once and any may read it. `open` compares every file's
SHA-256 with the manifest and raises `DamagedStore` rather than hand out wrong ids.
Not in here: what the ids mean, which pairs are kept, what the folder is called.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from mt.errors import DataError

Ids = npt.NDArray[np.uint16] | npt.NDArray[np.uint32]

_FORMAT = 1
_MANIFEST = "store.json"
_FILES = ("source_ids.npy", "source_starts.npy", "target_ids.npy", "target_starts.npy")


class DamagedStore(Exception):
    """A store is missing or not what was written; it can be built again."""


class TokenStore:
    """Pairs of id sequences without special symbols, read from disk as they are asked for.

    Attributes:
        source_lengths: (pairs,) int32, pieces of each source.
        target_lengths: (pairs,) int32, pieces of each target.
    """

    def __init__(
        self,
        source_ids: Ids,
        source_starts: npt.NDArray[np.int64],
        target_ids: Ids,
        target_starts: npt.NDArray[np.int64],
    ) -> None:
        """
        Args:
            source_ids: all source ids, one line after the other.
            source_starts: (pairs + 1,) where each line begins, and the end.
            target_ids: likewise.
            target_starts: likewise.

        Raises:
            ValueError: the sides differ in length.
        """
        if len(source_starts) != len(target_starts):
            raise ValueError(f"{len(source_starts) - 1} source lines, {len(target_starts) - 1} target lines")
        self._source_ids = source_ids
        self._source_starts = source_starts
        self._target_ids = target_ids
        self._target_starts = target_starts
        self.source_lengths: npt.NDArray[np.int32] = np.diff(source_starts).astype(np.int32)
        self.target_lengths: npt.NDArray[np.int32] = np.diff(target_starts).astype(np.int32)

    def __len__(self) -> int:
        return len(self._source_starts) - 1

    def source(self, index: int) -> Ids:
        """Ids of one source line."""
        return self._source_ids[self._source_starts[index] : self._source_starts[index + 1]]

    def target(self, index: int) -> Ids:
        """Ids of one target line."""
        return self._target_ids[self._target_starts[index] : self._target_starts[index + 1]]

    def gather_source(self, indices: npt.NDArray[np.int64]) -> Ids:
        """Ids of several source lines, one after the other."""
        return _gather(self._source_ids, self._source_starts, self.source_lengths, indices)

    def gather_target(self, indices: npt.NDArray[np.int64]) -> Ids:
        """Ids of several target lines, one after the other."""
        return _gather(self._target_ids, self._target_starts, self.target_lengths, indices)

    @classmethod
    def of(cls, source: Iterable[Sequence[int] | Ids], target: Iterable[Sequence[int] | Ids]) -> TokenStore:
        """A store in memory.

        Args:
            source: ids of each source line, below 2**32.
            target: ids of each target line, as many as source.
        """
        return cls(*_flat(source), *_flat(target))

    @classmethod
    def build(
        cls,
        folder: Path,
        source: Iterable[Sequence[int] | Ids],
        target: Iterable[Sequence[int] | Ids],
    ) -> TokenStore:
        """Write a store and open it.

        Args:
            folder: where; what stands there is kept when it is whole, else replaced.
            source: ids of each source line, below 2**32.
            target: ids of each target line, as many as source.

        Raises:
            DataError: it cannot be written.
        """
        store = cls.of(source, target)
        if not is_whole(folder):
            build_folder(folder, store.save, is_whole)
        try:
            return cls.open(folder)
        except DamagedStore:  # another process is just replacing it; the content is the same
            return store

    def save(self, folder: Path) -> None:
        """Write into an empty folder; not in one step, see `build_folder`."""
        arrays = (self._source_ids, self._source_starts, self._target_ids, self._target_starts)
        for name, array in zip(_FILES, arrays, strict=True):
            np.save(folder / name, array, allow_pickle=False)
        manifest = {"format": _FORMAT, "files": {name: _sha256(folder / name) for name in _FILES}}
        text = json.dumps(manifest, indent=2) + "\n"
        (folder / _MANIFEST).write_text(text, encoding="utf-8", newline="\n")

    @classmethod
    def open(cls, folder: Path) -> TokenStore:
        """Open a store that `build` wrote.

        Raises:
            DamagedStore: it is missing, or a file is missing or not as written.
        """
        try:
            manifest: Any = json.loads((folder / _MANIFEST).read_text(encoding="utf-8"))
            if manifest["format"] != _FORMAT:
                raise DamagedStore(f"{folder}: format {manifest['format']}")
            for name in _FILES:
                if _sha256(folder / name) != manifest["files"][name]:
                    raise DamagedStore(f"{folder / name} has changed")
            arrays = [_map(folder / name) for name in _FILES]
        except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
            raise DamagedStore(f"{folder}: {error}") from None
        return cls(*arrays)


# Of a builder to get its folder in place, while others do the same.
_ATTEMPTS = 50


def is_whole(folder: Path) -> bool:
    """Whether a store is there and as it was written."""
    try:
        TokenStore.open(folder)
    except DamagedStore:
        return False
    return True


def build_folder(folder: Path, write: Callable[[Path], None], whole: Callable[[Path], bool]) -> None:
    """Let `write` fill a folder aside, then give it its name in one step.

    When two builders finish at once, the first one's folder stays (both wrote the same); a folder of
    that name that is not `whole` is replaced.

    Args:
        folder: the name.
        write: called with an empty folder beside it.
        whole: whether a folder of that name can stay.

    Raises:
        DataError: the disk refuses.
    """
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        aside = Path(tempfile.mkdtemp(prefix=f".{folder.name[:16]}-", dir=folder.parent))
    except OSError as error:
        raise _unwritable(folder, error) from None
    try:
        fresh = aside / "new"
        fresh.mkdir()
        write(fresh)
        for attempt in range(_ATTEMPTS):
            try:
                os.rename(fresh, folder)
                return
            except OSError as error:
                if whole(folder):
                    return
                if (
                    error.errno not in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR)
                    or attempt == _ATTEMPTS - 1
                ):
                    raise
            # Others may move it away, or put theirs in its place, at the same moment: look again.
            with contextlib.suppress(FileNotFoundError):
                os.rename(folder, aside / f"old-{attempt}")
    except OSError as error:
        if not whole(folder):
            raise _unwritable(folder, error) from None
    finally:
        shutil.rmtree(aside, ignore_errors=True)


def _unwritable(folder: Path, error: OSError) -> DataError:
    return DataError(
        f"the cache {folder.parent} cannot be written: {error.strerror or error}; "
        f"free space there or choose another folder with data.cache=DIR"
    )


def _map(path: Path) -> Any:
    array = np.load(path, mmap_mode="r", allow_pickle=False)
    # A plain view: indexing a np.memmap object costs several times as much.
    return np.asarray(array)


def _sha256(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(2**20):
            digest.update(chunk)
    return digest.hexdigest()


def _flat(lines: Iterable[Sequence[int] | Ids]) -> tuple[Ids, npt.NDArray[np.int64]]:
    """The ids one after the other in the narrowest type, and where each line begins."""
    lengths: list[int] = []
    chunks: list[npt.NDArray[np.uint32]] = []
    pending: list[int] = []
    for line in lines:
        lengths.append(len(line))
        pending.extend(line)
        if len(pending) > 2**20:  # a list of ints takes ten times the memory of an array
            chunks.append(np.array(pending, dtype=np.uint32))
            pending = []
    chunks.append(np.array(pending, dtype=np.uint32))
    ids = np.concatenate(chunks)
    starts = np.zeros(len(lengths) + 1, dtype=np.int64)
    np.cumsum(np.array(lengths, dtype=np.int64), out=starts[1:])
    if not len(ids) or int(ids.max()) < 2**16:
        return ids.astype(np.uint16), starts
    return ids, starts


def _gather(
    ids: Ids,
    starts: npt.NDArray[np.int64],
    lengths: npt.NDArray[np.int32],
    indices: npt.NDArray[np.int64],
) -> Ids:
    chosen = lengths[indices].astype(np.int64)
    ends = np.cumsum(chosen)
    total = int(ends[-1]) if len(ends) else 0
    # Position k of the result is the (k - begin of its line in the result)-th id of its line.
    positions = np.arange(total) + np.repeat(starts[indices] - (ends - chosen), chosen)
    gathered: Ids = ids[positions]
    return gathered
