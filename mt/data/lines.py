"""What a line is: one rule for every reader of the application.

A line ends at LF and nowhere else; one CR just before the LF belongs to the line end; a last line
without LF counts. U+2028, U+2029, NEL, VT and FF are ordinary characters of a line. This is what
``wc -l``, sacreBLEU and parallel corpora agree on, whereas `str.splitlines` and text-mode files
split at more places and so shift one side of a corpus against the other.

Contract: `read_lines` gives each line twice, `raw` (untouched but for line ends and byte order
marks: what references are scored as) and cleaned (what the tokenizer sees), and counts everything
it changed. Files may be compressed.
Not in here: kinds of files (`mt.data.kinds`), pipes (`mt.data.stream`), which files, pairs, filters.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mt.config.schema import InvalidUtf8
from mt.data.kinds import decompress
from mt.errors import DataError, printable

BOM = "\ufeff"
_REPLACEMENT = "\ufffd"
SHOWN_LINE_NUMBERS = 5

# C0 and C1 controls and DEL; TAB is white space, not damage. LF cannot occur inside a line.
_CONTROL = re.compile("[\x00-\x08\x0a-\x1f\x7f-\x9f]")
_LINE_BREAKING = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029]+")
_SURROGATE = re.compile("[\ud800-\udfff]")
# Characters without a picture of their own whose category is a letter, mark or symbol.
_BLANKS = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0")
_INVISIBLE_CATEGORIES = frozenset({"Cc", "Cf", "Zs", "Zl", "Zp"})


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
    """`TextFile.warnings` from the file's `TextFile.counts`, or those of a `mt.data.stream.TextStream`."""
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


def check_segments(source: TextFile, reference: TextFile) -> None:
    """Refuse a reference that has not a line for each line of the source.

    Raises:
        DataError: it names both files and counts.
    """
    if len(reference.raw) != len(source.lines):
        raise DataError(
            f"{source.path} has {counted(len(source.lines), 'line')}, {reference.path} has "
            f"{len(reference.raw):,}; line N of both must belong to the same segment"
        )


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
    content = decompress(path, stored)
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


def has_control(line: str) -> bool:
    """Whether a line holds a control character other than TAB."""
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
    control = [number for number, line in enumerate(raw, start=1) if has_control(line)]
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
        control_first=tuple(control[:SHOWN_LINE_NUMBERS]),
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
    first: tuple[int, int] | None = None
    for number, line in enumerate(encoded, start=1):
        try:
            decoded.append(line.decode("utf-8"))
        except UnicodeDecodeError as error:
            invalid += 1
            first = first or (number, line[error.start])
            decoded.append(line.decode("utf-8", errors="replace"))
    assert first is not None
    if invalid_utf8 is InvalidUtf8.error:
        raise not_utf8(path, first[0], first[1], invalid)
    return decoded, invalid


def not_utf8(path: str | Path, number: int, byte: int, invalid: int | None) -> DataError:
    """The error about a byte that is not UTF-8.

    Args:
        path: the file, or what messages call it.
        number: line, from 1.
        byte: the byte.
        invalid: how many lines have such bytes, if known.
    """
    how_many = "" if invalid is None else f" ({counted(invalid, 'invalid line')})"
    return DataError(
        f"{printable(path)}, line {number}: byte 0x{byte:02X} is not UTF-8{how_many}; "
        f"re-encode the file as UTF-8 (iconv -f latin1 -t utf-8), or set invalid_utf8=replace "
        f"(in mt.train and mt.prepare data.invalid_utf8=replace) to read each such byte as U+FFFD"
    )
