"""Text in, text out: lines are cleaned, cut into pieces, searched in batches, and put back in order.

Contract: n lines in, n translations out, in order, each text one line. A blank line is translated by
an empty one without asking the model. What a line becomes does not depend on its neighbours. Whatever
is lost on the way (a source cut to the model's length, a translation cut at the longest length,
characters without a piece) is flagged on the translation and counted in the report. Validation,
evaluation and the command line all translate through this class, and so agree.

Not in here: the search (`mt.decoding.search`), files and terminals (`mt.translate`).
"""

from __future__ import annotations

import itertools
import logging
import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from mt.config.schema import DecodingConfig
from mt.data.lines import clean_line, counted, one_line
from mt.data.tokenizer import BOS, EOS, PAD, UNK
from mt.decoding.search import Decoder, Hypothesis, search
from mt.errors import MTError

logger = logging.getLogger("mt.decoding.translator")

CHUNK_LINES = 2000
"""Lines sorted and batched together by `Translator.stream`; 1,000 fill the batches within 1 % of 10,000."""

UNKNOWN_SIGN = "⁇"
"""Stands for the unknown symbol where it is shown (U+2047, as SentencePiece does)."""

_DIGITS = re.compile(r"\d+")
_LISTED_LINES = 100


class TranslationModel(Decoder, Protocol):
    """What the translator needs of a model; `max_positions` counts pieces with the end symbol."""

    max_positions: int

    def encode(self, source: Tensor, source_mask: Tensor) -> Tensor:
        """Memory (B, S, D) of the ids `source` (B, S) with `source_mask` (B, S) True at real pieces."""
        ...


class Pieces(Protocol):
    """What the translator needs of a tokenizer (see `mt.data.tokenizer.Tokenizer`)."""

    def encode_source(self, lines: Sequence[str]) -> list[list[int]]: ...

    def decode(self, ids: Sequence[int], unknown: str = "") -> str: ...

    def unknown_share(self, line: str) -> float: ...


@dataclass(frozen=True)
class Translation:
    """What one line became.

    Attributes:
        source: the line as it was translated (cleaned).
        text: the translation: one line, no space at its ends; empty for a blank source.
        hypotheses: (text, score, log-probability), best first, texts all different; the first is `text`.
        truncated: the search ended at the longest length, without an end symbol.
        source_cut: the source had more pieces than the model has positions; the rest was not read.
        unknown_share: share of the source's characters without a piece, 0 to 1.
        source_ids, target_ids: the pieces that were read, and those of the best hypothesis; both without
            the end symbol.
    """

    source: str
    text: str
    hypotheses: list[tuple[str, float, float]]
    truncated: bool = False
    source_cut: bool = False
    unknown_share: float = 0.0
    source_ids: tuple[int, ...] = ()
    target_ids: tuple[int, ...] = ()


@dataclass
class TranslationReport:
    """Counts over all lines of a `Translator`; line numbers start at 1.

    Attributes:
        lines: lines translated, blank ones included.
        blank: lines without anything to translate.
        source_cut: lines cut to the model's length.
        truncated: translations that ended at the longest length.
        unknown: (line, share) of lines with characters without a piece.
        digits_changed: lines whose translation does not hold the same digit strings.
        pieces: source pieces translated (repeated lines count each time).
        unknown_pieces: those of them that stand for characters without a piece.
        batches_split: batches searched in halves because memory ran out.
    """

    lines: int = 0
    blank: int = 0
    source_cut: list[int] = field(default_factory=list)
    truncated: list[int] = field(default_factory=list)
    unknown: list[tuple[int, float]] = field(default_factory=list)
    digits_changed: list[int] = field(default_factory=list)
    pieces: int = 0
    unknown_pieces: int = 0
    batches_split: int = 0

    def to_dict(self) -> dict[str, Any]:
        """Counts and line numbers, ready for JSON; long lists of line numbers are shortened."""

        def numbered(lines: list[int]) -> dict[str, Any]:
            return {"count": len(lines), "first_lines": lines[:_LISTED_LINES]}

        return {
            "lines": self.lines,
            "blank": self.blank,
            "source_cut": numbered(self.source_cut),
            "truncated": numbered(self.truncated),
            "unknown": {
                "count": len(self.unknown),
                "piece_rate": self.unknown_pieces / self.pieces if self.pieces else 0.0,
                "shares": [{"line": line, "share": share} for line, share in self.unknown[:_LISTED_LINES]],
            },
            "digits_changed": numbered(self.digits_changed),
            "pieces": self.pieces,
            "batches_split": self.batches_split,
        }

    def warnings(self) -> list[str]:
        """One sentence for each way in which text was lost, with the number of lines and the first ones."""
        found = []
        if self.source_cut:
            cut = _listed(map(str, self.source_cut))
            found.append(
                f"{_lines(self.source_cut)} longer than the model can read, the rest left out: {cut}"
            )
        if self.truncated:
            cut = _listed(map(str, self.truncated))
            found.append(
                f"{_lines(self.truncated)} cut at the longest length (decoding.max_length_ratio): {cut}"
            )
        if self.unknown:
            shares = _listed(f"{line} ({share:.0%})" for line, share in self.unknown)
            found.append(f"{_lines(self.unknown)} with unknown characters: {shares}")
        return found


class Translator:
    """A model, its tokenizer and the options of the search, ready for lines.

    Args:
        model: the encoder-decoder, on `device`; put into evaluation mode for each call and back.
        tokenizer: cuts source lines into pieces and joins target pieces.
        options: the search; `batch_tokens` bounds source pieces x beam decoded together.
        device: where batches go.
        show_unknown: write `UNKNOWN_SIGN` for the unknown symbol; it is left out otherwise.

    Attributes:
        report: counts over all lines so far.
    """

    def __init__(
        self,
        model: TranslationModel,
        tokenizer: Pieces,
        options: DecodingConfig,
        device: torch.device | str = "cpu",
        *,
        show_unknown: bool = False,
    ) -> None:
        self.model = model
        self.tokenizer = tokenizer
        self.options = options
        self.device = torch.device(device)
        self.show_unknown = show_unknown
        self.report = TranslationReport()

    @property
    def _room(self) -> int:
        """Source pieces that the model can read, besides the end symbol."""
        return self.model.max_positions - 1

    def translate(self, lines: Sequence[str]) -> list[Translation]:
        """One translation per line, in order; cleaned or uncleaned lines, blank ones too.

        Raises:
            MTError: the model's output is not a number, or memory runs out for a single line.
        """
        return list(self.stream(lines))

    def stream(self, lines: Iterable[str], chunk_lines: int = CHUNK_LINES) -> Iterator[Translation]:
        """Like `translate` for any number of lines, `chunk_lines` of them held at a time."""
        source = iter(lines)
        while chunk := list(itertools.islice(source, chunk_lines)):
            yield from self._chunk([clean_line(line) for line in chunk])

    def _chunk(self, lines: list[str]) -> list[Translation]:
        distinct = [line for line in dict.fromkeys(lines) if line]
        # An over-long line is cut, and no longer line than the model can read is batched.
        room = self._room
        pieces = self.tokenizer.encode_source(distinct)
        ids = [line[:room] for line in pieces]
        found: list[list[Hypothesis]] = [[] for _ in distinct]
        with _evaluation_mode(self.model):
            for batch in self._batches(ids):
                for index, hypotheses in zip(batch, self._search([ids[i] for i in batch]), strict=True):
                    found[index] = hypotheses
        translations = {"": Translation("", "", [("", 0.0, 0.0)])}
        unknown_pieces = {"": (0, 0)}
        for line, all_pieces, hypotheses in zip(distinct, pieces, found, strict=True):
            unknown = all_pieces.count(UNK)
            translations[line] = self._translation(line, all_pieces, unknown > 0, hypotheses)
            unknown_pieces[line] = (len(all_pieces), unknown)
        for line in lines:
            self._count(translations[line], *unknown_pieces[line])
        return [translations[line] for line in lines]

    def _batches(self, ids: list[list[int]]) -> Iterator[list[int]]:
        """Indices of lines of like length, longest first: B x longest x beam <= batch_tokens."""
        order = sorted(range(len(ids)), key=lambda index: (-len(ids[index]), index))
        start = 0
        while start < len(order):
            longest = len(ids[order[start]]) + 1
            size = max(1, self.options.batch_tokens // (longest * self.options.beam))
            yield order[start : start + size]
            start += size

    def _search(self, batch: list[list[int]]) -> list[list[Hypothesis]]:
        """The search on lines of ids, in halves where memory does not suffice for all at once."""
        try:
            return self._search_at_once(batch)
        except (torch.OutOfMemoryError, MemoryError, RuntimeError) as error:
            if not _out_of_memory(error):
                raise
            if len(batch) == 1:
                raise MTError(
                    f"out of memory while translating a line of {len(batch[0])} pieces; "
                    "lower decoding.beam or decoding.max_length_ratio"
                ) from error
        # Outside the except block, where the failed batch's tensors are still alive.
        self.report.batches_split += 1
        logger.warning("out of memory: a batch of %d lines is translated in halves", len(batch))
        half = len(batch) // 2
        return self._search(batch[:half]) + self._search(batch[half:])

    @torch.inference_mode()
    def _search_at_once(self, batch: list[list[int]]) -> list[list[Hypothesis]]:
        longest = max(len(ids) for ids in batch) + 1
        source = torch.tensor([[*ids, EOS] + [PAD] * (longest - 1 - len(ids)) for ids in batch])
        lengths = torch.tensor([len(ids) + 1 for ids in batch])
        mask = torch.arange(longest) < lengths.unsqueeze(1)
        mask = mask.to(self.device)
        memory = self.model.encode(source.to(self.device), mask)
        options = self.options
        if options.n_best > 1:
            # Different pieces may spell the same text: so all of the beam is asked for.
            options = DecodingConfig(**{**vars(options), "n_best": options.beam})
        limits = [self._longest(len(ids)) for ids in batch]
        return search(
            self.model, memory, mask, options=options, max_lengths=limits, bos=BOS, eos=EOS, pad=PAD
        )

    def _longest(self, source_pieces: int) -> int:
        """floor(max_length_ratio x source pieces) + max_length_extra, within 1 and the model's positions."""
        # The small term keeps 0.29 x 100 at 29: the product is 28.999999999999996.
        longest = (
            math.floor(self.options.max_length_ratio * source_pieces + 1e-9) + self.options.max_length_extra
        )
        return max(1, min(longest, self.model.max_positions))

    def _translation(
        self, line: str, pieces: list[int], unknown: bool, hypotheses: list[Hypothesis]
    ) -> Translation:
        texts: dict[str, tuple[str, float, float]] = {}
        for hypothesis in hypotheses:
            text = self._text(hypothesis.tokens)
            texts.setdefault(text, (text, hypothesis.score, hypothesis.log_prob))
        best = list(texts.values())[: self.options.n_best]
        return Translation(
            source=line,
            text=best[0][0],
            hypotheses=best,
            truncated=hypotheses[0].truncated,
            source_cut=len(pieces) > self._room,
            unknown_share=self.tokenizer.unknown_share(line) if unknown else 0.0,
            source_ids=tuple(pieces[: self._room]),
            target_ids=tuple(hypotheses[0].tokens),
        )

    def _text(self, tokens: list[int]) -> str:
        return one_line(self.tokenizer.decode(tokens, UNKNOWN_SIGN if self.show_unknown else ""))

    def _count(self, translation: Translation, pieces: int, unknown_pieces: int) -> None:
        report = self.report
        report.lines += 1
        report.pieces += pieces
        report.unknown_pieces += unknown_pieces
        if not translation.source:
            report.blank += 1
            return
        if translation.source_cut:
            report.source_cut.append(report.lines)
        if translation.truncated:
            report.truncated.append(report.lines)
        if unknown_pieces:
            report.unknown.append((report.lines, translation.unknown_share))
        if Counter(_DIGITS.findall(translation.source)) != Counter(_DIGITS.findall(translation.text)):
            report.digits_changed.append(report.lines)


def _lines(found: Sequence[object]) -> str:
    return counted(len(found), "line")


def _listed(items: Iterable[str], shown: int = 10) -> str:
    """The first items in words: "line 1, 2, 3 ..."."""
    listed = list(items)
    return "line " + ", ".join(listed[:shown]) + (" ..." if len(listed) > shown else "")


def _out_of_memory(error: BaseException) -> bool:
    if isinstance(error, (torch.OutOfMemoryError, MemoryError)):
        return True
    text = str(error)  # PyTorch's CPU allocator raises a bare RuntimeError
    return "DefaultCPUAllocator" in text or "not enough memory" in text


@contextmanager
def _evaluation_mode(model: object) -> Iterator[None]:
    """Dropout off inside; afterwards every module is in the mode it was in."""
    if not isinstance(model, nn.Module):
        yield
        return
    training = [module for module in model.modules() if module.training]
    model.eval()
    try:
        yield
    finally:
        for module in training:
            module.training = True
