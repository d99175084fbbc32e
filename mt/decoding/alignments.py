"""What a translation looked at: cross-attention of the pieces that were produced, by pieces and by words.

Contract: the weights are those of one teacher-forced pass over the source pieces and the pieces that
the search chose; row t is the position that predicts target piece t, the end of the sentence included.
Every row sums to 1 over the source, whichever layer, head, or mean of them is looked at.

A word is what stands between two spaces, so it may be several pieces. Attention *to* a word is the sum
over its source pieces, attention *from* a word the mean over its target pieces: rows still sum to 1.

Not in here: drawing (`mt.evaluation.heatmap`), the attention itself (`mt.attention`).

Shapes: L decoder layers, H heads, T target positions, S source positions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch

from mt.data.tokenizer import BOS, EOS, Tokenizer
from mt.decoding.translator import Translation
from mt.models.seq2seq import Seq2Seq

END = "</s>"
"""How the end of the sentence is shown."""

_WORD_BEGINS = "\u2581"


@dataclass(frozen=True)
class Weights:
    """Attention between named positions.

    Attributes:
        source, target: the names, S and T of them; the last is `END` (of a truncated translation it is not).
        values: float32 (L, H, T, S).
    """

    source: list[str]
    target: list[str]
    values: npt.NDArray[np.float32]


@dataclass(frozen=True)
class CrossAttention:
    """The same attention between pieces and between words."""

    pieces: Weights
    words: Weights


def cross_attention(model: Seq2Seq, tokenizer: Tokenizer, translation: Translation) -> CrossAttention:
    """What each piece of the best translation looked at.

    Args:
        model: the one that translated.
        tokenizer: its tokenizer.
        translation: from `Translator`, of a line that is not blank.
    """
    return attention_between(
        model, tokenizer, translation.source_ids, translation.target_ids, truncated=translation.truncated
    )


def attention_between(
    model: Seq2Seq,
    tokenizer: Tokenizer,
    source_ids: Sequence[int],
    target_ids: Sequence[int],
    *,
    truncated: bool = False,
) -> CrossAttention:
    """What each piece of any target looked at, whoever wrote it.

    Args:
        source_ids, target_ids: pieces without special symbols, at least one of each.
        truncated: no end of the sentence follows the target's last piece.
    """
    device = model.source_embedding.weight.device
    source = torch.tensor([[*source_ids, EOS]], device=device)
    # Read piece by piece, each position predicts the next; the last one predicts the end.
    target_input = torch.tensor([[BOS, *target_ids]], device=device)
    if truncated:
        target_input = target_input[:, :-1]
    weights = model.cross_attention(source, torch.ones_like(source, dtype=torch.bool), target_input)
    values = weights[0].float().cpu().numpy()
    end = [] if truncated else [END]
    source_pieces = tokenizer.pieces(source_ids, "source")
    target_pieces = tokenizer.pieces(target_ids, "target")
    source_starts, source_words = _words(source_ids, source_pieces, tokenizer.decode_source)
    target_starts, target_words = _words(target_ids, target_pieces, tokenizer.decode)
    source_starts.append(len(source_ids))
    if end:
        target_starts.append(len(target_ids))
    return CrossAttention(
        pieces=Weights([*source_pieces, END], [*target_pieces, *end], values),
        words=Weights(
            [*source_words, END], [*target_words, *end], merge(values, source_starts, target_starts)
        ),
    )


def merge(
    values: npt.NDArray[np.float32], source_starts: Sequence[int], target_starts: Sequence[int]
) -> npt.NDArray[np.float32]:
    """Weights between groups of positions: summed over the source's, averaged over the target's.

    Args:
        values: (L, H, T, S).
        source_starts, target_starts: where each group begins, ascending from 0; the next one ends it.

    Returns:
        (L, H, groups of the target, groups of the source).
    """
    sums = np.add.reduceat(values, source_starts, axis=3)
    sums = np.add.reduceat(sums, target_starts, axis=2)
    sizes = np.diff([*target_starts, values.shape[2]])
    return (sums / sizes[:, None]).astype(np.float32)


def _words(
    ids: Sequence[int], pieces: Sequence[str], decode: Callable[[Sequence[int]], str]
) -> tuple[list[int], list[str]]:
    """Where words begin, and the words; a word without visible text is named by its pieces."""
    starts = [place for place, piece in enumerate(pieces) if place == 0 or piece.startswith(_WORD_BEGINS)]
    ends = [*starts[1:], len(ids)]
    spans = list(zip(starts, ends, strict=False))
    words = [decode(ids[start:end]).strip() or "".join(pieces[start:end]) for start, end in spans]
    return starts, words
