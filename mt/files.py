"""Files that are whole or absent.

Contract: what is written through here appears under its name in one step, when all of it is on the disk;
until then, and after any failure, that name is as it was. Every room writes its files this way.
Not in here: what a failure means to the user (callers turn OSError into their own message), and folders
(`mt.data.store.build_folder`, `mt.training.checkpoint.save`).
"""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
"""A full disk, a quota, and the largest file that this process may write (ulimit -f)."""

_LONGEST_STEM = 40  # letters of the name that are repeated in the name aside: names have a longest length


@contextmanager
def whole_file(path: Path) -> Iterator[BinaryIO]:
    """A new file, open for writing, that takes the name `path` when the block ends well.

    It is written aside (``.NAME.*.partial``), flushed to the disk and renamed. A link stays a link, the
    file it points to is replaced and keeps its permissions. What cannot be replaced, a pipe or a device,
    is written to directly.

    Raises:
        OSError: the system refuses; nothing is left aside. It names the file.
    """
    if is_special(path):
        with path.open("wb") as file:
            yield file
        return
    target = Path(os.path.realpath(path))
    aside = _aside(target)
    try:
        with aside.open("xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        if target.exists():
            aside.chmod(target.stat().st_mode & 0o777)
        os.replace(aside, target)
    except OSError as error:
        if error.errno in NO_ROOM:  # what says so names no file
            error.filename = str(path)
        raise
    finally:
        aside.unlink(missing_ok=True)
    with contextlib.suppress(OSError):  # the file is there; some file systems cannot sync a folder
        sync_folder(target.parent)


def try_writing(path: Path) -> None:
    """Find out whether `whole_file` can write under a name, before there is anything to write.

    A file aside is made and removed: what permissions say is not all (read-only and special file systems, a
    superuser), and nothing is left or changed.

    Raises:
        OSError: the system refuses.
    """
    if is_special(path):
        if not os.access(path, os.W_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        return
    aside = _aside(Path(os.path.realpath(path)))
    try:
        aside.open("xb").close()
    finally:
        aside.unlink(missing_ok=True)


def _aside(target: Path) -> Path:
    """A new name beside a file's, for what is not whole yet."""
    return target.with_name(f".{target.name[:_LONGEST_STEM]}.{secrets.token_hex(4)}.partial")


def write_whole(path: Path, content: bytes) -> None:
    """`whole_file` for content at hand.

    Raises:
        OSError: the system refuses.
    """
    with whole_file(path) as file:
        file.write(content)


def is_special(path: Path) -> bool:
    """Whether there is something under the name that is no file: a pipe, a device, a folder."""
    return path.exists() and not path.is_file()


def make_folder(folder: Path) -> None:
    """Make a folder, with those above it, unless it is there; its name is durable afterwards.

    Raises:
        OSError: the system refuses.
    """
    missing = [place for place in (folder, *folder.parents) if not place.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    for place in missing:
        with contextlib.suppress(OSError):  # some file systems cannot sync a folder
            sync_folder(place.parent)


def sync_folder(folder: Path) -> None:
    """Make the names in a folder durable (not possible, and not needed, on Windows).

    Raises:
        OSError: the file system refuses.
    """
    if os.name == "nt":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
