"""What kind of file the bytes of a corpus are: plain text, compressed, or something that is not read.

Contract: the first bytes decide; a suffix that says otherwise is an error, and so is a file that is no
text (UTF-16, archives), with the command that makes text of it. Compressed data that is cut short or
damaged is an error, never a shorter text.
Not in here: lines.
"""

from __future__ import annotations

import importlib
import logging
import lzma
import shlex
import sys
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from mt.errors import DataError, printable

_log = logging.getLogger("mt.data.kinds")


class _Foreign(NamedTuple):
    """A kind of file that is not read: its first bytes, what it is, how to make text of it."""

    magic: bytes
    kind: str
    way_out: str


# The longer magic first where one begins like another.
_FOREIGN = (
    _Foreign(b"\xff\xfe\0\0", "UTF-32 text", "iconv -f utf-32 -t utf-8 {file} > NEW"),
    _Foreign(b"\0\0\xfe\xff", "UTF-32 text", "iconv -f utf-32 -t utf-8 {file} > NEW"),
    _Foreign(b"\xff\xfe", "UTF-16 text", "iconv -f utf-16 -t utf-8 {file} > NEW"),
    _Foreign(b"\xfe\xff", "UTF-16 text", "iconv -f utf-16 -t utf-8 {file} > NEW"),
    *(
        _Foreign(b"BZh%d" % level + block, "a bzip2 file", "bzip2 -dc {file} > NEW")
        for level in range(1, 10)
        for block in (b"1AY&SY", b"\x17rE8P\x90")  # a first block, or the end of an empty file
    ),
    _Foreign(b"PK\x03\x04", "a zip archive", "unzip {file}"),
    _Foreign(b"7z\xbc\xaf\x27\x1c", "a 7z archive", "7z x {file}"),
)
_FOREIGN_SUFFIXES = {".bz2": "a bzip2 file", ".zip": "a zip archive", ".7z": "a 7z archive"}
# Where UTF-16 without a byte order mark shows itself: every second byte of this many is NUL in Latin text.
_LOOKED_AT = 4096


def refuse_foreign(path: str | Path, content: bytes, file: str | None = None) -> None:
    """Say what a file is that is no text to us, and how to convert it.

    Args:
        path: what messages call it.
        content: its bytes, or the first of them.
        file: its name in the command that converts it; `path` by default.

    Raises:
        DataError: it is such a file.
    """
    name = printable(path)
    found = next((kind for kind in _FOREIGN if content.startswith(kind.magic)), None)
    found = found or _tar(content) or _bare_utf16(content[:_LOOKED_AT])
    if found is not None:
        way_out = found.way_out.format(file=file or shlex.quote(name))
        raise DataError(
            f"{name} looks like {found.kind}, which is not read; make UTF-8 text of it ({way_out}), "
            "and compress that with gzip, xz or zstd if you like"
        )
    said = next((kind for suffix, kind in _FOREIGN_SUFFIXES.items() if name.endswith(suffix)), None)
    if said is not None:
        raise DataError(f"{name} is not {said}, though its name says so, and none is read; rename it")


def _tar(start: bytes) -> _Foreign | None:
    """A tar archive, which has its mark behind the name and the numbers of its first member."""
    return _Foreign(b"", "a tar archive", "tar -xf unpacks it") if start[257:262] == b"ustar" else None


def _bare_utf16(start: bytes) -> _Foreign | None:
    """UTF-16 of a mostly Latin text without a byte order mark: it would pass for UTF-8 full of NULs."""
    for order, high, low in (("le", start[1::2], start[0::2]), ("be", start[0::2], start[1::2])):
        if len(start) >= 64 and 2 * high.count(0) > len(high) and not low.count(0):
            return _Foreign(b"", "UTF-16 text", f"iconv -f utf-16{order} -t utf-8 {{file}} > NEW")
    return None


# --- compression ---------------------------------------------------------------------------------


class _Compression(NamedTuple):
    name: str
    suffix: str
    magic: bytes
    decompress: Callable[[bytes], bytes]


class _CutShort(Exception):
    """The compressed data ends before its end mark."""


class _Damaged(Exception):
    """The compressed data contradicts itself."""


def _gunzip(stored: bytes) -> bytes:
    """All members of a gzip file; `gzip.decompress` would call a cut file by several names."""
    parts = []
    while stored:
        member = zlib.decompressobj(wbits=31)
        try:
            parts.append(member.decompress(stored))
        except zlib.error as error:
            raise _Damaged(str(error)) from None
        if not member.eof:
            raise _CutShort
        stored = member.unused_data.lstrip(b"\0")  # zero padding between members is allowed
        if stored and not stored.startswith(b"\x1f\x8b"):
            raise _Damaged(f"{len(stored)} bytes of something else after its end")
    return b"".join(parts)


def _unxz(stored: bytes) -> bytes:
    parts = []
    while stored:
        member = lzma.LZMADecompressor()
        try:
            parts.append(member.decompress(stored))
        except lzma.LZMAError as error:
            raise _Damaged(str(error)) from None
        if not member.eof:
            raise _CutShort
        stored = member.unused_data.lstrip(b"\0")
    return b"".join(parts)


def _unzstd(stored: bytes) -> bytes:
    new_decompressor, library_error = _zstd_library()
    parts = []
    while stored:
        member = new_decompressor()
        try:
            parts.append(member.decompress(stored))
        except library_error as error:
            raise _Damaged(str(error)) from None
        if not member.eof:
            raise _CutShort
        stored = member.unused_data
    return b"".join(parts)


def _zstd_library() -> tuple[Callable[[], Any], type[Exception]]:
    if sys.version_info >= (3, 14):
        standard = importlib.import_module("compression.zstd")
        return standard.ZstdDecompressor, standard.ZstdError
    try:
        library = importlib.import_module("zstandard")
    except ImportError:
        raise ModuleNotFoundError("zstandard") from None
    return lambda: library.ZstdDecompressor().decompressobj(), library.ZstdError


_COMPRESSIONS = (
    _Compression("gzip", ".gz", b"\x1f\x8b", _gunzip),
    _Compression("xz", ".xz", b"\xfd7zXZ\0", _unxz),
    _Compression("zstd", ".zst", b"\x28\xb5\x2f\xfd", _unzstd),
)


def check_kind(path: str | Path, stored: bytes) -> str | None:
    """Whether the bytes of a file are of a kind that is read, and the kind that its name says.

    Returns:
        A sentence for a warning (the name does not say that the file is compressed), or None.

    Raises:
        DataError: the name says something else, or it is a kind of file that is not read.
    """
    name = printable(path)
    said = next((c for c in _COMPRESSIONS if str(path).endswith(c.suffix)), None)
    found = compression_of(stored)
    if said is not None and not stored:
        raise DataError(f"{name}: empty corpus (the file has 0 bytes, a {said.name} file has more)")
    if said is not None and said is not found:
        really = f"a {found.name} file" if found else "something else, perhaps plain text"
        raise DataError(
            f"{name} is not a {said.name} file: its first bytes say {really}; rename it or compress it again"
        )
    if found is None:
        refuse_foreign(path, stored)
    elif said is None:
        return f"{name} has no {found.suffix} suffix but is a {found.name} file; read as such"
    return None


def compression_of(stored: bytes) -> _Compression | None:
    """How bytes are compressed, by the first of them; None if they are not, as far as is known here."""
    return next((c for c in _COMPRESSIONS if stored.startswith(c.magic)), None)


def decompress(path: str | Path, stored: bytes) -> bytes:
    """The text of a file, compressed or not.

    Raises:
        DataError: see `check_kind`; or the compressed data is cut short, damaged, or no text.
    """
    name = printable(path)
    doubt = check_kind(path, stored)
    if doubt is not None:
        _log.warning("%s", doubt)
    found = compression_of(stored)
    if found is None:
        return stored
    try:
        content = found.decompress(stored)
    except _CutShort:
        raise DataError(
            f"{name}: the {found.name} data is cut short; copy or download the file again"
        ) from None
    except _Damaged as error:
        raise DataError(
            f"{name}: the {found.name} data is damaged ({printable(error)}); copy or download the file again"
        ) from None
    except ModuleNotFoundError:
        raise DataError(
            f"{name} is a zstd file, which needs a package that is not installed: pip install zstandard, "
            f"or decompress the file"
        ) from None
    refuse_foreign(Path(path).with_suffix("") if str(path).endswith(found.suffix) else path, content)
    return content
