"""Which word each piece belongs to.

Contract: a word is what stands between two spaces of a line, counted from 0, whatever the pieces look like:
alignments then mean the words that `line.split()` gives, and other programs count the same ones. Unicode
normalization may cut a word in two, a model may write pieces that leave nothing in the text: neither
shifts the words behind.

Not in here: what becomes of pieces and words (`mt.decoding.alignments`).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

from mt.decoding.translator import UNKNOWN_SIGN

_WORD_BEGINS = "\u2581"


def places_of_text(
    ids: Sequence[int],
    pieces: Sequence[str],
    words: Sequence[str],
    encode: Callable[[Sequence[str]], list[list[int]]],
) -> Sequence[int | None]:
    """The word of each piece of a line that the tokenizer cut into pieces.

    Args:
        ids: the pieces, of the whole line or of its beginning.
        pieces: their names.
        words: of the whole line.
        encode: cuts texts into ids.
    """
    by_word = [(place, index) for place, found in enumerate(encode(words)) for index in found]
    if [index for _, index in by_word[: len(ids)]] == list(ids):
        return [place for place, _ in by_word[: len(ids)]]
    return _by_marks(pieces, len(words))


def places_of_output(
    ids: Sequence[int],
    pieces: Sequence[str],
    words: Sequence[str],
    decode: Callable[[Sequence[int], str], str],
) -> Sequence[int | None]:
    """The word of each piece that a model wrote; None for pieces that leave nothing in the text.

    Args:
        ids, pieces: as in `places_of_text`.
        words: of the text that the pieces spell.
        decode: gives the text of ids, with a sign for the unknown symbol or with "".
    """
    starts = [place for place, name in enumerate(pieces) if place == 0 or name.startswith(_WORD_BEGINS)]
    for unknown in ("", UNKNOWN_SIGN):
        found: list[int | None] = []
        before = 0
        for start, end in itertools.pairwise([*starts, len(ids)]):
            # Almost always 1: a word. A byte may be a space, a sign for the unknown stands alone.
            counts = [len(decode(ids[start:stop], unknown).split()) for stop in range(start + 1, end + 1)]
            found += [before + max(count, 1) - 1 if counts[-1] else None for count in counts]
            before += counts[-1]
        if before == len(words):
            return found
    return _by_marks(pieces, len(words))


def _by_marks(pieces: Sequence[str], words: int) -> Sequence[int | None]:
    """By the marks of the pieces alone: near enough where text and pieces do not agree."""
    begins = (place > 0 and name.startswith(_WORD_BEGINS) for place, name in enumerate(pieces))
    return [min(place, words - 1) if words else None for place in itertools.accumulate(map(int, begins))]
