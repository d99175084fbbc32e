"""What a line is: one rule for every reader of the application.

A line ends at LF and nowhere else; one CR just before the LF belongs to the line end; a last line
without LF counts. U+2028, U+2029, NEL, VT and FF are ordinary characters of a line. This is what
``wc -l``, sacreBLEU and parallel corpora agree on, whereas `str.splitlines` and text-mode files
split at more places and so shift one side of a corpus against the other.

Contract: `read_lines` gives each line twice, `raw` (untouched but for line ends and byte order
marks: what references are scored as) and cleaned (what the tokenizer sees), and counts everything
it changed. Files may be compressed; that is decided by their first bytes, and a suffix that says
otherwise is an error. `TextStream` is the same rule, with the same counts, for a pipe.
Not in here: which files, pairs, filters.
"""

from __future__ import annotations

import hashlib
import importlib
import logging
import lzma
import re
import sys
import unicodedata
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from mt.config.schema import InvalidUtf8
from mt.errors import DataError

_log = logging.getLogger("mt.data.lines")

BOM = "\ufeff"
_REPLACEMENT = "\ufffd"
_SHOWN_LINE_NUMBERS = 5

# C0 and C1 controls and DEL; TAB is white space, not damage. LF cannot occur inside a line.
_CONTROL = re.compile("[\x00-\x08\x0a-\x1f\x7f-\x9f]")
_LINE_BREAKING = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029]+")
_SURROGATE = re.compile("[\ud800-\udfff]")
# Characters without a picture of their own whose category is a letter, mark or symbol.
_BLANKS = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0")
_INVISIBLE_CATEGORIES = frozenset({"Cc", "Cf", "Zs", "Zl", "Zp"})


def printable(text: object) -> str:
    """Text for a message or a log line: control characters become escapes, the rest stays as typed."""

    def escape(match: re.Match[str]) -> str:
        code = ord(match.group())
        return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"

    return re.sub(
        "[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]", escape, str(text)
    )


def counted(number: int, noun: str) -> str:
    """'1 line', '2 lines'."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def _is_invisible(char: str) -> bool:
    code = ord(char)
    return (
        unicodedata.category(char) in _INVISIBLE_CATEGORIES
        or char in _BLANKS
        or 0xFE00 <= code <= 0xFE0F
        or 0x180B <= code <= 0x180F
        or 0xE0000 <= code <= 0xE0FFF
    )


def clean_line(line: str) -> str:
    """The form of a line that is tokenized.

    Byte order marks vanish, control characters become a space, each run of Unicode white space
    becomes one space, none is left at the ends; lone surrogates become U+FFFD. A line that would
    print nothing (only zero-width and format characters) becomes empty. Idempotent.
    """
    # A printable line has no white space but U+0020 and no control, format or surrogate characters;
    # most lines of most corpora pass here as they are.
    if not line.isprintable() or "  " in line or line.startswith(" ") or line.endswith(" "):
        line = line.replace(BOM, "")
        line = _CONTROL.sub(" ", line)
        line = _SURROGATE.sub(_REPLACEMENT, line)
        line = " ".join(line.split())
    if line.isascii() or not all(map(_is_invisible, line)):
        return line
    return ""


def one_line(text: str) -> str:
    """Any text as one line of output: no control character, no kind of line break, no space at the ends."""
    return _SURROGATE.sub(_REPLACEMENT, _LINE_BREAKING.sub(" ", text)).strip()


@dataclass(frozen=True)
class TextFile:
    """A text file, read whole, with a count of everything that is not as it should be.

    Attributes:
        path: the path as given.
        lines: cleaned lines (see `clean_line`), as many as `raw`.
        raw: the lines without line ends and byte order marks, otherwise untouched.
        sha256: of the file as it lies on disk (compressed or not), in hexadecimal.
        crlf: lines that ended with CR LF.
        control: lines with control characters; `control_first` has the first of their numbers, from 1.
        bom: byte order marks removed.
        replaced: lines in which invalid UTF-8 was replaced by U+FFFD.
    """

    path: Path
    lines: list[str]
    raw: list[str]
    sha256: str
    crlf: int = 0
    control: int = 0
    control_first: tuple[int, ...] = ()
    bom: int = 0
    replaced: int = 0

    def counts(self) -> dict[str, Any]:
        """Path, hash and counts as plain values for a JSON report."""
        return {
            "path": str(self.path),
            "sha256": self.sha256,
            "lines": len(self.lines),
            "crlf": self.crlf,
            "control": self.control,
            "control_first": list(self.control_first),
            "bom": self.bom,
            "replaced": self.replaced,
        }

    def warnings(self) -> list[str]:
        """One sentence for each kind of thing that was cleaned; empty when nothing was."""
        return cleaning_warnings(self.counts())


def cleaning_warnings(counts: Mapping[str, Any]) -> list[str]:
    """`TextFile.warnings` from the file's `TextFile.counts`, or those of a `TextStream`."""
    name = printable(counts["path"])
    control, first = counts["control"], counts["control_first"]
    found = []
    if control:
        numbers = ", ".join(str(number) for number in first) + (", ..." if control > len(first) else "")
        found.append(
            f"{name}: {counted(control, 'line')} with control characters ({numbers}), "
            f"each replaced by a space"
        )
    if counts["bom"]:
        found.append(f"{name}: {counted(counts['bom'], 'byte order mark')} removed")
    if counts["replaced"]:
        found.append(f"{name}: {counted(counts['replaced'], 'line')} with invalid UTF-8, now U+FFFD")
    return found


def read_lines(
    path: str | Path, *, invalid_utf8: InvalidUtf8 = InvalidUtf8.error, strict: bool = False
) -> TextFile:
    """Read a plain, .gz, .xz or .zst file by the line rule.

    Args:
        path: the file.
        invalid_utf8: what to do with bytes that are not UTF-8.
        strict: raise at control characters instead of replacing them.

    Raises:
        DataError: the file is missing, unreadable, not what its suffix says, cut short, not UTF-8,
            or (strict) holds control characters.
    """
    stored = read_bytes(path)
    content = _decompress(path, stored)
    return _parse(path, content, hashlib.sha256(stored).hexdigest(), invalid_utf8, strict)


def read_bytes(path: str | Path) -> bytes:
    """The bytes of a file.

    Raises:
        DataError: it is missing, a folder, or cannot be read.
    """
    name = printable(path)
    try:
        return Path(path).read_bytes()
    except FileNotFoundError:
        raise DataError(f"{name}: no such file") from None
    except IsADirectoryError:
        raise DataError(f"{name} is a folder, not a text file") from None
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        reason = getattr(error, "strerror", None) or error
        raise DataError(f"{name} cannot be read: {printable(reason)}") from None


@dataclass
class TextStream:
    """The lines of an open binary file as they come, by the same rule, not cleaned.

    Iterating reads no further than the line it yields, so that it serves a pipe or a terminal. The
    counts are those of `TextFile`, over the lines yielded so far.

    Attributes:
        stream: read once, from where it stands.
        name: what messages call it.
        invalid_utf8: what to do with bytes that are not UTF-8.
        lines: how many came.
    """

    stream: BinaryIO
    name: str = "<stdin>"
    invalid_utf8: InvalidUtf8 = InvalidUtf8.error
    lines: int = 0
    crlf: int = 0
    control: int = 0
    control_first: list[int] = field(default_factory=list)
    bom: int = 0
    replaced: int = 0

    def __iter__(self) -> Iterator[str]:
        """Yields each line.

        Raises:
            DataError: at the first line that is not UTF-8, unless invalid_utf8 is replace.
        """
        for line in self.stream:
            self.lines += 1
            if line.endswith(b"\n"):
                crlf = line.endswith(b"\r\n")
                self.crlf += crlf
                line = line[: -1 - crlf]
            try:
                text = line.decode("utf-8")
            except UnicodeDecodeError as error:
                if self.invalid_utf8 is InvalidUtf8.error:
                    raise _invalid(self.name, self.lines, line[error.start], None, line) from None
                text = line.decode("utf-8", errors="replace")
                self.replaced += 1
            self.bom += text.count(BOM)
            text = text.replace(BOM, "")
            if _has_control(text):
                self.control += 1
                if len(self.control_first) < _SHOWN_LINE_NUMBERS:
                    self.control_first.append(self.lines)
            yield text

    def counts(self) -> dict[str, Any]:
        """Name and counts as plain values for a JSON report, as `TextFile.counts` without a hash."""
        return {
            "path": self.name,
            "lines": self.lines,
            "crlf": self.crlf,
            "control": self.control,
            "control_first": list(self.control_first),
            "bom": self.bom,
            "replaced": self.replaced,
        }

    def warnings(self) -> list[str]:
        """As `TextFile.warnings`."""
        return cleaning_warnings(self.counts())


def _has_control(line: str) -> bool:
    return not line.isprintable() and _CONTROL.search(line) is not None


def _parse(
    path: str | Path, content: bytes, sha256: str, invalid_utf8: InvalidUtf8, strict: bool
) -> TextFile:
    encoded = content.split(b"\n")
    ended = len(encoded) - 1  # lines that an LF ended
    if encoded[-1] == b"":
        encoded.pop()
    crlf = 0
    if b"\r\n" in content:
        for number, line in enumerate(encoded[:ended]):
            if line.endswith(b"\r"):
                encoded[number] = line[:-1]
                crlf += 1
    raw, replaced = _decode(path, encoded, invalid_utf8)

    bom = sum(line.count(BOM) for line in raw)
    if bom:
        raw = [line.replace(BOM, "") for line in raw]
    control = [number for number, line in enumerate(raw, start=1) if _has_control(line)]
    if control and strict:
        found = _CONTROL.search(raw[control[0] - 1])
        assert found is not None
        raise DataError(
            f"{printable(path)}, line {control[0]}: control character U+{ord(found.group()):04X} "
            f"({counted(len(control), 'such line')}); clean the file, "
            f"or set data.strict=false to have them replaced by spaces"
        )
    return TextFile(
        path=Path(path),
        lines=[clean_line(line) for line in raw],
        raw=raw,
        sha256=sha256,
        crlf=crlf,
        control=len(control),
        control_first=tuple(control[:_SHOWN_LINE_NUMBERS]),
        bom=bom,
        replaced=replaced,
    )


def _decode(path: str | Path, encoded: list[bytes], invalid_utf8: InvalidUtf8) -> tuple[list[str], int]:
    """Decoded lines, and how many of them held invalid bytes."""
    try:
        return [line.decode("utf-8") for line in encoded], 0
    except UnicodeDecodeError:
        pass
    decoded = []
    invalid = 0
    first: tuple[int, int, bytes] | None = None
    for number, line in enumerate(encoded, start=1):
        try:
            decoded.append(line.decode("utf-8"))
        except UnicodeDecodeError as error:
            invalid += 1
            first = first or (number, line[error.start], line)
            decoded.append(line.decode("utf-8", errors="replace"))
    assert first is not None
    if invalid_utf8 is InvalidUtf8.error:
        raise _invalid(path, first[0], first[1], invalid, first[2])
    return decoded, invalid


def _invalid(path: str | Path, number: int, byte: int, invalid: int | None, line: bytes) -> DataError:
    known = next(
        (text for magic, text in _UNREADABLE.items() if number == 1 and line.startswith(magic)), None
    )
    how_many = "" if invalid is None else f" ({counted(invalid, 'invalid line')})"
    guess = f"; it looks like {known}" if known else ""
    return DataError(
        f"{printable(path)}, line {number}: byte 0x{byte:02X} is not UTF-8{how_many}{guess}; "
        f"re-encode the file as UTF-8 (iconv -f latin1 -t utf-8), or set invalid_utf8=replace "
        f"(in mt.train and mt.prepare data.invalid_utf8=replace) to read each such byte as U+FFFD"
    )


_UNREADABLE = {
    b"\xff\xfe": "UTF-16 text",
    b"\xfe\xff": "UTF-16 text",
    b"PK\x03\x04": "a zip archive",
    b"BZh": "a bzip2 file",
}


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


def _decompress(path: str | Path, stored: bytes) -> bytes:
    name = printable(path)
    said = next((c for c in _COMPRESSIONS if str(path).endswith(c.suffix)), None)
    found = next((c for c in _COMPRESSIONS if stored.startswith(c.magic)), None)
    if said is not None and not stored:
        raise DataError(f"{name}: empty corpus (the file has 0 bytes, a {said.name} file has more)")
    if said is not None and said is not found:
        really = f"a {found.name} file" if found else "something else, perhaps plain text"
        raise DataError(
            f"{name} is not a {said.name} file: its first bytes say {really}; rename it or compress it again"
        )
    if found is None:
        return stored
    if said is None:
        _log.warning("%s has no %s suffix but is a %s file; read as such", name, found.suffix, found.name)
    try:
        return found.decompress(stored)
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
