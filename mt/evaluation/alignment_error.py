"""How well word links agree with those that people made.

Contract: links are pairs (source word, target word); sums are over the whole corpus, as for BLEU.

Not in here: where links come from (`mt.decoding.alignments`, `mt.data.gold_links`).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

Link = tuple[int, int]


@dataclass(frozen=True)
class AlignmentError:
    """Alignment error rate, precision and recall of Och & Ney 2003, from 0 to 1.

    Attributes:
        aer: ``1 - (|A∩S| + |A∩P|) / (|A| + |S|)`` with the links found A, the sure links S, and the
            possible links P that include them; 0 is agreement.
        precision: ``|A∩P| / |A|``; 1 where nothing was found.
        recall: ``|A∩S| / |S|``.
        links: |A|.
    """

    aer: float
    precision: float
    recall: float
    links: int


def alignment_error(
    found: Sequence[Collection[Link]],
    sure: Sequence[Collection[Link]],
    possible: Sequence[Collection[Link]],
) -> AlignmentError:
    """The error of the links found in each segment.

    Args:
        found: no link twice.
        sure, possible: of the same segments, the sure ones included in the possible; at least one is sure.

    Raises:
        ValueError: there is no sure link, or the numbers of segments differ.
    """
    all_found = all_sure = in_sure = in_possible = 0
    for one, certain, allowed in zip(found, sure, possible, strict=True):
        all_found += len(one)
        all_sure += len(certain)
        in_sure += sum(link in certain for link in one)
        in_possible += sum(link in allowed for link in one)
    if not all_sure:
        raise ValueError("no sure link: the error is not defined")
    return AlignmentError(
        aer=1.0 - (in_sure + in_possible) / (all_found + all_sure),
        precision=in_possible / all_found if all_found else 1.0,
        recall=in_sure / all_sure,
        links=all_found,
    )
