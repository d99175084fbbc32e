"""What a translation looked at: cross-attention of its pieces, by pieces and by words, and word alignments.

Contract: the weights are those of a teacher-forced pass over the source's pieces and the target's; row t is
the position that predicts target piece t, the end of the sentence included. Every row sums to 1 over the
source, whichever layer, head, or mean of them is looked at (but with a local scope, and not at all in a
model without attention). A sentence's weights do not depend on what it is batched with.

A word is what stands between two spaces, so it may be several pieces. Attention *to* a word is the sum
over its source pieces, attention *from* a word the mean over its target pieces: rows still sum to 1.

Not in here: files of alignments (`mt.decoding.alignment_files`), drawing (`mt.evaluation.heatmap`), the
attention itself (`mt.attention`).

Shapes: L decoder layers, H heads, T target positions, S source positions.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt
import torch

from mt.data.gold_links import Link
from mt.data.lines import counted
from mt.data.tokenizer import BOS, EOS, PAD, Tokenizer
from mt.decoding.translator import Translation
from mt.decoding.word_places import places_of_output, places_of_text
from mt.errors import ConfigError
from mt.models.seq2seq import Seq2Seq

END = "</s>"
"""How the end of the sentence is shown."""

MEAN, ALL = "mean", "all"
"""What may stand for the number of a layer or head."""

# Pairs are run together up to so many weights of a head (sentences x longest source x longest target): a
# quarter of a megabyte for each head of each layer.
_BATCH_CELLS = 2**16
# Weights that differ by less are one weight: then rounding in sums cannot decide which word is linked.
_DECIMALS = 6


def rounded(values: npt.NDArray[np.float32]) -> npt.NDArray[np.float64]:
    """Weights as they are compared and written."""
    found: npt.NDArray[np.float64] = values.astype(np.float64).round(_DECIMALS)
    return found


@dataclass(frozen=True)
class Weights:
    """Attention between named positions.

    Attributes:
        source, target: the names, S and T of them; the source's last is `END`, and the target's if `ended`.
        values: float32 (L, H, T, S).
        ended: false for a truncated translation, which has no row for the end.
    """

    source: list[str]
    target: list[str]
    values: npt.NDArray[np.float32]
    ended: bool = True


@dataclass(frozen=True)
class CrossAttention:
    """The same attention between pieces and between words."""

    pieces: Weights
    words: Weights


@dataclass(frozen=True)
class View:
    """Which weights are looked at: a layer and a head, each a number from "1", `MEAN` or `ALL`."""

    layer: str = MEAN
    head: str = MEAN

    def check(self, layers: int, heads: int) -> None:
        """Refuse what a model with so many layers and heads does not have.

        Raises:
            ConfigError: names the option and what it may be.
        """
        problems = [
            f"{name}={value}: the model has {counted(count, name)}; take {_range(count)}{MEAN} or {ALL}"
            for name, value, count in (("layer", self.layer, layers), ("head", self.head, heads))
            if value not in (MEAN, ALL) and not 1 <= int(value) <= count
        ]
        if problems:
            raise ConfigError(problems)

    @property
    def single(self) -> bool:
        """Whether one matrix is left for a sentence."""
        return ALL not in (self.layer, self.head)

    def described(self, layers: int, heads: int) -> str:
        """What a picture of one matrix shows: "layer 2, mean over 4 heads"; all are shown by their mean."""
        means = [
            counted(count, name)
            for name, choice, count in (("layer", self.layer, layers), ("head", self.head, heads))
            if choice in (MEAN, ALL)
        ]
        numbers = [
            f"{name} {choice}"
            for name, choice in (("layer", self.layer), ("head", self.head))
            if choice not in (MEAN, ALL)
        ]
        return ", ".join([*numbers, *([f"mean over {' and '.join(means)}"] if means else [])])

    def of(self, attention: CrossAttention) -> CrossAttention:
        """The chosen weights: the axis of layers or heads has length 1 unless all are wanted."""
        return CrossAttention(self._of(attention.pieces), self._of(attention.words))

    def _of(self, weights: Weights) -> Weights:
        values = weights.values
        for axis, choice in enumerate((self.layer, self.head)):
            if choice == MEAN:
                values = values.mean(axis, keepdims=True)
            elif choice != ALL:
                values = values.take([int(choice) - 1], axis)
        return Weights(weights.source, weights.target, values, weights.ended)


def _range(count: int) -> str:
    return "1, " if count == 1 else f"1 to {count}, "


@dataclass(frozen=True)
class Side:
    """A source or a target.

    Attributes:
        ids: pieces without special symbols.
        pieces: their names.
        words: what stands between spaces.
        places: which word each piece belongs to, None for none.
    """

    ids: Sequence[int]
    pieces: list[str]
    words: list[str]
    places: Sequence[int | None]


@dataclass(frozen=True)
class Pair:
    """A source and a target that is read with it.

    Attributes:
        source, target: what is read of them.
        truncated: no end of the sentence follows the target's last piece.
        cut: one of them has more pieces than the model can read.
    """

    source: Side
    target: Side
    truncated: bool = False
    cut: bool = False

    @property
    def rows(self) -> int:
        """Positions that predict something: the target's pieces and, unless truncated, its end."""
        return len(self.target.ids) + (not self.truncated)

    @property
    def columns(self) -> int:
        """The source's pieces and its end."""
        return len(self.source.ids) + 1


def pair_of(tokenizer: Tokenizer, translation: Translation) -> Pair:
    """A line and what a `Translator` made of it."""
    words = translation.text.split()
    pieces = tokenizer.pieces(translation.target_ids, "target")
    places = places_of_output(translation.target_ids, pieces, words, tokenizer.decode)
    source = _side(tokenizer, "source", translation.source, translation.source_ids)
    target = Side(translation.target_ids, pieces, words, places)
    return Pair(source, target, translation.truncated, cut=translation.source_cut)


def forced_pairs(
    tokenizer: Tokenizer, sources: Sequence[str], targets: Sequence[str], max_positions: int
) -> list[Pair]:
    """Lines and any translations of them, whoever wrote these; all cleaned (see `mt.data.lines`).

    Args:
        max_positions: the model's; what is longer is cut, and a target that was cut has no end.
    """
    room = max_positions - 1
    texts = zip(
        sources, tokenizer.encode_source(sources), targets, tokenizer.encode_target(targets), strict=True
    )
    return [
        Pair(
            _side(tokenizer, "source", source, source_ids[:room]),
            _side(tokenizer, "target", target, target_ids[:room]),
            truncated=len(target_ids) > room,
            cut=max(len(source_ids), len(target_ids)) > room,
        )
        for source, source_ids, target, target_ids in texts
    ]


def _side(tokenizer: Tokenizer, name: Literal["source", "target"], line: str, ids: Sequence[int]) -> Side:
    encode = tokenizer.encode_source if name == "source" else tokenizer.encode_target
    pieces, words = tokenizer.pieces(ids, name), line.split()
    return Side(ids, pieces, words, places_of_text(ids, pieces, words, encode))


def cross_attention(model: Seq2Seq, tokenizer: Tokenizer, translation: Translation) -> CrossAttention:
    """What each piece of the best translation looked at.

    Args:
        model: the one that translated.
        tokenizer: its tokenizer.
        translation: from `Translator`, of a line that is not blank.
    """
    [(_, found)] = attentions(model, [pair_of(tokenizer, translation)])
    return found


def attentions(model: Seq2Seq, pairs: Sequence[Pair]) -> Iterator[tuple[int, CrossAttention]]:
    """The index and the attention of each pair with a source, the shortest sources first."""
    known = [index for index, pair in enumerate(pairs) if pair.source.ids and pair.rows]
    batch: list[int] = []
    longest = 0  # target of the batch; its longest source is the last one's
    for index in sorted(known, key=lambda index: (pairs[index].columns, pairs[index].rows)):
        longest = max(longest, pairs[index].rows)
        if batch and (len(batch) + 1) * longest * pairs[index].columns > _BATCH_CELLS:
            yield from _batch(model, pairs, batch)
            batch, longest = [], pairs[index].rows
        batch.append(index)
    if batch:
        yield from _batch(model, pairs, batch)


def _batch(
    model: Seq2Seq, pairs: Sequence[Pair], batch: Sequence[int]
) -> Iterator[tuple[int, CrossAttention]]:
    device = model.source_embedding.weight.device
    chosen = [pairs[index] for index in batch]
    source = _padded([[*pair.source.ids, EOS] for pair in chosen])
    # Read piece by piece, each position predicts the next; the last one predicts the end. Padding stands
    # behind all of them, where no real position looks.
    target_input = _padded([[BOS, *pair.target.ids][: pair.rows] for pair in chosen])
    mask = torch.arange(source.shape[1]) < torch.tensor([pair.columns for pair in chosen]).unsqueeze(1)
    weights = model.cross_attention(source.to(device), mask.to(device), target_input.to(device))
    values = weights.float().cpu().numpy()
    for place, (index, pair) in enumerate(zip(batch, chosen, strict=True)):
        yield index, _named(pair, values[place, :, :, : pair.rows, : pair.columns])


def _padded(rows: Sequence[Sequence[int]]) -> torch.Tensor:
    longest = max(map(len, rows))
    return torch.tensor([[*row, *[PAD] * (longest - len(row))] for row in rows])


def _named(pair: Pair, values: npt.NDArray[np.float32]) -> CrossAttention:
    source, target, ended = pair.source, pair.target, not pair.truncated
    end = [END] if ended else []
    # The end is a word of its own, behind all others.
    columns = [*source.places, len(source.words)]
    rows = [*target.places, *([len(target.words)] if ended else [])]
    sizes = len(source.words) + 1, len(target.words) + len(end)
    return CrossAttention(
        Weights([*source.pieces, END], [*target.pieces, *end], values, ended),
        Weights([*source.words, END], [*target.words, *end], merge(values, columns, rows, *sizes), ended),
    )


def merge(
    values: npt.NDArray[np.float32],
    source_places: Sequence[int | None],
    target_places: Sequence[int | None],
    sources: int,
    targets: int,
) -> npt.NDArray[np.float32]:
    """Weights between groups of positions: summed over the source's, averaged over the target's.

    Args:
        values: (L, H, T, S).
        source_places, target_places: the group of each position; None for none.
        sources, targets: number of groups; those without a position get zeros.

    Returns:
        (L, H, targets, sources).
    """
    rows = _members(target_places, targets).T
    rows /= np.maximum(rows.sum(1, keepdims=True), 1.0)
    merged: npt.NDArray[np.float32] = rows @ (values @ _members(source_places, sources))
    return merged


def _members(places: Sequence[int | None], groups: int) -> npt.NDArray[np.float32]:
    """(positions, groups): 1 where a position belongs to a group."""
    found = np.zeros((len(places), groups), dtype=np.float32)
    for position, group in enumerate(places):
        if group is not None:
            found[position, group] = 1.0
    return found


def links(words: Weights) -> list[Link]:
    """The source word that each target word looked at most, the first of equals.

    A word that looked at the end of the source most is linked with nothing, nor is one that looked at
    nothing at all (beyond a local scope, or cut off).

    Args:
        words: one layer and head, or their mean: values (1, 1, T, S).
    """
    matrix = rounded(words.values[0, 0])
    end = matrix.shape[1] - 1
    best = matrix.argmax(1)
    return [
        (int(best[target]), target)
        for target in range(len(words.target) - words.ended)
        if best[target] != end and matrix[target, best[target]] > 0
    ]


def pharaoh(found: Sequence[Link]) -> str:
    """Links as a line of the Pharaoh format: ``0-0 2-1``, source-target."""
    return " ".join(f"{source}-{target}" for source, target in found)


def attention_shape(model: Seq2Seq) -> tuple[int, int] | None:
    """Number of layers and heads of a model's cross-attention; None of a model that has none."""
    device = model.source_embedding.weight.device
    source = torch.tensor([[EOS]], device=device)
    weights = model.cross_attention(
        source, torch.ones_like(source, dtype=torch.bool), torch.tensor([[BOS]], device=device)
    )
    return (weights.shape[1], weights.shape[2]) if bool(weights.any()) else None
