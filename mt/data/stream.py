"""The lines of a pipe as they come.

Contract: the rule and the counts of `mt.data.lines`. A program that writes a line and waits for what
becomes of it gets its line worked on at once; a fast writer gets many lines worked on together.
Not in here: files.
"""

from __future__ import annotations

import select
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from io import BufferedReader
from typing import Any

from mt.config.schema import InvalidUtf8
from mt.data.kinds import compression_of, refuse_foreign
from mt.data.lines import BOM, SHOWN_LINE_NUMBERS, cleaning_warnings, has_control, not_utf8
from mt.errors import DataError

# A pipe that was silent for this long is waiting for an answer rather than about to write more.
_SILENCE_SECONDS = 0.02
_READ_AT_ONCE = 2**16
_BLOCKS_LOOKED_AT = 4  # for what kind of data it is: a first block may be a few bytes only


@dataclass
class TextStream:
    """The lines of an open binary file as they come, by the same rule, not cleaned.

    The counts are those of `TextFile`, over the lines yielded so far.

    Attributes:
        stream: read once, from where it stands.
        name: what messages call it.
        invalid_utf8: what to do with bytes that are not UTF-8.
        lines: how many came.
    """

    stream: BufferedReader
    name: str = "<stdin>"
    invalid_utf8: InvalidUtf8 = InvalidUtf8.error
    lines: int = 0
    crlf: int = 0
    control: int = 0
    control_first: list[int] = field(default_factory=list)
    bom: int = 0
    replaced: int = 0

    def chunks(self, most: int) -> Iterator[list[str]]:
        """Yields up to `most` lines at a time, and fewer rather than wait for more.

        Raises:
            DataError: at the first line that is not UTF-8, unless invalid_utf8 is replace; at the first
                bytes if they are of a file that is no text. Lines before it are yielded first.
        """
        begun: list[bytes] = []  # of a line whose end has not come
        ready: list[bytes] = []
        while True:
            if ready and (len(ready) >= most or not _has_more(self.stream)):
                yield from self._decoded(ready[:most])
                del ready[:most]
                continue
            block = self.stream.read1(_READ_AT_ONCE)
            if not block:
                break
            begun.append(block)
            if not self.lines and not ready and len(begun) < _BLOCKS_LOOKED_AT:
                self._check_kind(b"".join(begun))
            if b"\n" in block:
                *ended, rest = b"".join(begun).split(b"\n")
                ready += (line + b"\n" for line in ended)
                begun = [rest] if rest else []
        ready += [b"".join(begun)] if begun else []
        while ready:
            yield from self._decoded(ready[:most])
            del ready[:most]

    def _check_kind(self, start: bytes) -> None:
        found = compression_of(start)
        if found is not None:
            raise DataError(
                f"{self.name} is {found.name} data; decompress it first: {found.name} -dc FILE | ..."
            )
        refuse_foreign(self.name, start, "FILE")

    def _decoded(self, encoded: list[bytes]) -> Iterator[list[str]]:
        """The texts of some lines, as one list; those before a line that is not UTF-8 as a list too."""
        texts: list[str] = []
        for line in encoded:
            self.lines += 1
            if line.endswith(b"\n"):
                crlf = line.endswith(b"\r\n")
                self.crlf += crlf
                line = line[: -1 - crlf]
            try:
                text = line.decode("utf-8")
            except UnicodeDecodeError as error:
                if self.invalid_utf8 is InvalidUtf8.error:
                    if texts:
                        yield texts
                    raise not_utf8(self.name, self.lines, line[error.start], None) from None
                text = line.decode("utf-8", errors="replace")
                self.replaced += 1
            self.bom += text.count(BOM)
            text = text.replace(BOM, "")
            if has_control(text):
                self.control += 1
                if len(self.control_first) < SHOWN_LINE_NUMBERS:
                    self.control_first.append(self.lines)
            texts.append(text)
        yield texts

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


def _has_more(stream: BufferedReader) -> bool:
    """Whether reading would give something (or the end) now or very soon; true where that can't be told."""
    try:
        return bool(select.select([stream.fileno()], [], [], _SILENCE_SECONDS)[0])
    except (OSError, ValueError):  # not a file of the system; Windows can't tell of pipes
        return sys.platform != "win32"
