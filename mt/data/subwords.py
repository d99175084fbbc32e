"""Other segmentations of the same text, drawn anew in every epoch (subword regularization).

A piece falls apart with some probability into the pieces it can be made of, and these again: *un
garçon* is read as *un gar çon* today and as *u n garçon* tomorrow, so that a model cannot learn whole
words by heart. BPE-dropout (Provilkov et al. 2020) leaves out merges while a line is encoded; here
merges of a line encoded once are undone, which gives the same kind of segmentations from stored ids,
for both algorithms, in array operations: 0.3 ms a batch.

Contract: the text stays the same to the byte; equal random generators give equal results.
Not in here: when it is used (`mt.data.batches`).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from mt.data.piece_model import Kind, PieceModel
from mt.data.store import Ids

Lengths = npt.NDArray[np.int32]


@dataclass(frozen=True)
class Parts:
    """Which pieces each piece of a vocabulary falls into: ``ids[starts[p] : starts[p] + counts[p]]``.

    Attributes:
        counts: (V,) number of parts; 1 where a piece cannot be taken apart.
        starts: (V,) place of the first part.
        ids: (sum of counts,) the parts.
    """

    counts: npt.NDArray[np.int64]
    starts: npt.NDArray[np.int64]
    ids: Ids

    @classmethod
    def of(cls, model: PieceModel) -> Parts:
        """Of all ways to spell a piece by others the one with the highest total score: the likeliest
        (unigram), or that of the pieces merged first (BPE)."""
        known = {
            piece.text: (piece.score, index)
            for index, piece in enumerate(model.pieces)
            if piece.kind is Kind.normal
        }
        parts = [[index] for index in range(len(model.pieces))]
        for text, (_, index) in known.items():
            parts[index] = _spelled(text, known) or [index]
        counts = np.array([len(each) for each in parts], dtype=np.int64)
        flat = np.array([part for each in parts for part in each], dtype=np.uint32)
        return cls(counts, np.cumsum(counts) - counts, flat)

    def split(
        self, ids: Ids, lengths: Lengths, probability: float, longest: int, random: np.random.Generator
    ) -> tuple[Ids, Lengths]:
        """Take pieces of some lines apart at random.

        Args:
            ids: (sum of lengths,) ids of the lines, one after the other.
            lengths: (B,) pieces of each line.
            probability: that a piece falls apart, and each of its parts again.
            longest: a line that would get more pieces than this stays whole.
            random: where the randomness comes from.

        Returns:
            Ids and lengths likewise.
        """
        line = np.repeat(np.arange(len(lengths)), lengths)
        new, touched = ids, np.ones(len(ids), dtype=bool)
        while True:
            apart = touched & (self.counts[new] > 1)
            apart &= random.random(len(new)) < probability
            if not apart.any():
                break
            times = np.where(apart, self.counts[new], 1)
            parent = np.repeat(np.arange(len(new)), times)
            offset = np.arange(len(parent)) - (np.cumsum(times) - times)[parent]
            line, touched, new = line[parent], apart[parent], new[parent]
            new[touched] = self.ids[self.starts[new[touched]] + offset[touched]]
        count = np.bincount(line, minlength=len(lengths)).astype(np.int32)
        whole = count > longest
        if whole.any():
            parts = np.split(new, np.cumsum(count)[:-1])
            lines = np.split(ids, np.cumsum(lengths)[:-1])
            new = np.concatenate([lines[n] if whole[n] else parts[n] for n in range(len(lengths))])
            count = np.where(whole, lengths, count).astype(np.int32)
        return new, count


@dataclass(frozen=True)
class SubwordDropout:
    """What a loader needs to segment its batches anew.

    Attributes:
        source, target: the two vocabularies' parts.
        probability: see `Parts.split`.
        longest: see `Parts.split`.
    """

    source: Parts
    target: Parts
    probability: float
    longest: int


def _spelled(text: str, known: dict[str, tuple[float, int]]) -> list[int]:
    """Ids of the best way to write `text` in at least two known pieces (score, id); [] if there is none."""
    best: list[tuple[float, list[int]] | None] = [(0.0, [])] + [None] * len(text)
    for end in range(1, len(text) + 1):
        for start in range(end):
            before, piece = best[start], known.get(text[start:end])
            if before is None or piece is None or end - start == len(text):
                continue
            score = before[0] + piece[0]
            if (now := best[end]) is None or score > now[0]:
                best[end] = score, [*before[1], piece[1]]
    last = best[-1]
    return last[1] if last else []
