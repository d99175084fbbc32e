"""Word alignments that people made, as files of links.

Two formats are read, told apart by their first line with text:

* Pharaoh: one line a sentence, ``0-0 1-1 2?1``: source word, target word, counted from 0; ``-`` is a sure
  link, ``?`` or ``p`` a possible one.
* NAACL (Mihalcea & Pedersen 2003): one line a link, ``sentence source target [S|P] [confidence]``, all
  counted from 1; S (the default) is sure, P possible, and 0 stands for no word.

Contract: a word is what stands between two spaces of the line. A link belongs to words that exist; anything
else is an error with file and line. Sure links are possible ones too, as Och & Ney (2003) have it.

Not in here: how well a model agrees (`mt.evaluation.alignment_error`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from mt.data.lines import TextFile, counted, read_lines
from mt.errors import DataError, printable

Link = tuple[int, int]
"""A source word and a target word, counted from 0."""

_PHARAOH = re.compile(r"(\d{1,9})([-?p])(\d{1,9})", re.ASCII)
_NAACL = re.compile(r"(\d{1,9})\s+(\d{1,9})\s+(\d{1,9})(?:\s+([SP]))?(?:\s+[01]?\.?\d*)?", re.ASCII)


@dataclass(frozen=True)
class GoldLinks:
    """Links of each segment.

    Attributes:
        path, sha256: the file.
        sure, possible: for each segment; every sure link is possible too.
    """

    path: Path
    sha256: str
    sure: list[frozenset[Link]]
    possible: list[frozenset[Link]]


def read_gold_links(path: str | Path, sources: Sequence[str], targets: Sequence[str]) -> GoldLinks:
    """The links of a file for some segments.

    Args:
        path: plain or compressed.
        sources, targets: the segments' cleaned lines, as many of each.

    Raises:
        DataError: the file cannot be read, a line is in neither format or is about other text, or there is
            no sure link at all.
    """
    file = read_lines(path)
    first = next((line for line in file.lines if line), "")
    read = _naacl if _NAACL.fullmatch(first) else _pharaoh
    sure: list[set[Link]] = [set() for _ in sources]
    possible: list[set[Link]] = [set() for _ in sources]
    sizes = [tuple(len(line.split()) for line in pair) for pair in zip(sources, targets, strict=True)]
    for number, segment, link, is_sure in read(file, len(sources)):
        _check_inside(file, number, link, sizes[segment], base=1 if read is _naacl else 0)
        possible[segment].add(link)
        if is_sure:
            sure[segment].add(link)
    if not any(sure):
        raise DataError(f"{printable(path)}: holds no sure link, so there is nothing to compare with")
    return GoldLinks(Path(path), file.sha256, [frozenset(s) for s in sure], [frozenset(p) for p in possible])


def _pharaoh(file: TextFile, segments: int) -> Iterator[tuple[int, int, Link, bool]]:
    """Line number, segment, link, whether it is sure."""
    if len(file.lines) != segments:
        raise DataError(
            f"{printable(file.path)} has {counted(len(file.lines), 'line')}, the test set {segments:,}; line "
            "N must hold the links of segment N (an empty line is a line)"
        )
    for segment, line in enumerate(file.lines):
        for word in line.split():
            found = _PHARAOH.fullmatch(word)
            if found is None:
                raise DataError(
                    f"{_place(file, segment + 1)}: '{printable(word)}' is no link; write 3-4 for a sure one, "
                    "3?4 or 3p4 for a possible one: source word, target word, counted from 0"
                )
            yield segment + 1, segment, (int(found[1]), int(found[3])), found[2] == "-"


def _naacl(file: TextFile, segments: int) -> Iterator[tuple[int, int, Link, bool]]:
    """As `_pharaoh`; links with no word are left out."""
    for number, line in enumerate(file.lines, start=1):
        if not line:
            continue
        found = _NAACL.fullmatch(line)
        if found is None:
            raise DataError(
                f"{_place(file, number)}: '{printable(line)}' is no link; write SENTENCE SOURCE TARGET S "
                "(or P), counted from 1"
            )
        segment, source, target = (int(found[place]) - 1 for place in (1, 2, 3))
        if not 0 <= segment < segments:
            raise DataError(
                f"{_place(file, number)}: sentence {segment + 1}: the test set has segments 1 to {segments}"
            )
        if source >= 0 and target >= 0:
            yield number, segment, (source, target), found[4] != "P"


def _check_inside(file: TextFile, number: int, link: Link, sizes: tuple[int, ...], base: int) -> None:
    for side, word, size in zip(("source", "target"), link, sizes, strict=True):
        if word >= size:
            inside = f"{base} to {size - 1 + base}" if size else "none"
            hint = ""
            if base == 0 and word == size:
                hint = "; are they counted from 1?"
            raise DataError(
                f"{_place(file, number)}: the link {link[0] + base}-{link[1] + base} is of {side} word "
                f"{word + base}, but there are the words {inside}, counted at spaces{hint}"
            )


def _place(file: TextFile, number: int) -> str:
    return f"{printable(file.path)}, line {number}"
