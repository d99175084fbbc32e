"""BLEU, chrF and TER exactly as the ``sacrebleu`` command line computes them on the written files.

Idea: a score is only comparable with its signature, so the two are never apart. All settings are
sacreBLEU's defaults (BLEU: 13a tokenization, cased, exponential smoothing; chrF2; TER as in Tercom,
which ignores case), changed by `lowercase` alone, and then the signature says so.

Contract: hypotheses and references arrive as lines and are scored as they are: nothing is
normalized, tokenized or cased here, and the counts of lines are compared before sacreBLEU (which
would silently cut to the shorter side) is called. BLEU is Papineni et al. 2002, chrF is Popović 2015,
TER is Snover et al. 2006; the implementation and the meaning of the signature are Post 2018's.

Not in here: reading files, translating, the report (`mt.evaluation.report`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.metrics.ter import TER

from mt.errors import DataError

BUCKET_WORDS = 5
"""Source words per length bucket: 1-5, 6-10, …"""

LAST_BUCKET_FROM = 51
"""Sources of this many words or more share one open bucket."""

SMALL_BUCKET = 50
"""Below this many segments the BLEU of a bucket is mostly chance, and the bucket is flagged."""


@dataclass(frozen=True)
class Score:
    """One metric's value on one corpus (BLEU, chrF: 0-100, higher is better; TER: lower) with its meaning.

    Attributes:
        score: the value, unrounded.
        signature: sacreBLEU's full signature; scores with different signatures must not be compared.
        detail: what sacreBLEU prints after the value (for BLEU the n-gram precisions, the brevity
            penalty and the lengths), or "".
    """

    score: float
    signature: str
    detail: str = ""


@dataclass(frozen=True)
class Scores:
    """The three metrics of one corpus."""

    bleu: Score
    chrf: Score
    ter: Score


@dataclass(frozen=True)
class LengthBucket:
    """BLEU of the segments whose source has `min_words` to `max_words` words (None: no upper end).

    `small` says that there are fewer than `SMALL_BUCKET` segments.
    """

    min_words: int
    max_words: int | None
    segments: int
    bleu: float
    small: bool

    @property
    def name(self) -> str:
        """``0``, ``1-5``, ``6-10``, …, ``51+``."""
        if self.max_words is None:
            return f"{self.min_words}+"
        if self.max_words == self.min_words:
            return str(self.min_words)
        return f"{self.min_words}-{self.max_words}"


def score(hypotheses: Sequence[str], references: Sequence[Sequence[str]], lowercase: bool = False) -> Scores:
    """Scores one corpus with BLEU, chrF and TER.

    Args:
        hypotheses: one line per segment.
        references: one list of lines per reference file, each as long as `hypotheses`.
        lowercase: ignore case in BLEU and chrF (``--lowercase --chrf-lowercase``); TER always does.

    Raises:
        DataError: there is no segment, or a reference has another number of lines.
        ValueError: no reference list, or a line holds a line break.
    """
    _check(hypotheses, references)
    bleu, chrf, ter = _bleu(lowercase), CHRF(lowercase=lowercase), TER()
    return Scores(*(_run(metric, hypotheses, references) for metric in (bleu, chrf, ter)))


def corpus_bleu(
    hypotheses: Sequence[str],
    references: Sequence[str] | Sequence[Sequence[str]],
    lowercase: bool = False,
) -> float:
    """The BLEU value of `score` alone, for validation: same settings, same number.

    Args:
        hypotheses: one line per segment.
        references: the reference lines, or one list of lines per reference file.
        lowercase: ignore case.

    Raises:
        DataError, ValueError: as `score`.
    """
    single = [line for line in references if isinstance(line, str)]
    lists = (
        [single]
        if single or not references
        else [lines for lines in references if not isinstance(lines, str)]
    )
    _check(hypotheses, lists)
    # `quiet`: the hint about tokenized text would come again at every validation.
    value: float = _bleu(lowercase, quiet=True).corpus_score(hypotheses, lists).score
    return value


def bleu_by_length(
    hypotheses: Sequence[str],
    references: Sequence[Sequence[str]],
    sources: Sequence[str],
    lowercase: bool = False,
) -> list[LengthBucket]:
    """BLEU of the segments grouped by the number of white-space words of their source.

    Buckets are 0 (blank sources), 1-5, 6-10, …, 46-50, 51 and more; empty ones are left out. They
    are corpus BLEU over the bucket's segments, so their mean is not the corpus's BLEU.

    Raises:
        DataError, ValueError: as `score`, or the sources have another number of lines.
    """
    _check(hypotheses, references)
    if len(sources) != len(hypotheses):
        raise DataError(
            f"{len(sources)} source lines but {len(hypotheses)} hypotheses; line N must belong to line N"
        )
    words = [len(line.split()) for line in sources]
    order = sorted(range(len(sources)), key=lambda i: _bucket_start(words[i]))
    buckets = []
    for start, members in groupby(order, key=lambda i: _bucket_start(words[i])):
        chosen = list(members)
        value = _bleu(lowercase, quiet=True).corpus_score(
            [hypotheses[i] for i in chosen], [[lines[i] for i in chosen] for lines in references]
        )
        buckets.append(
            LengthBucket(
                min_words=start,
                max_words=_bucket_end(start),
                segments=len(chosen),
                bleu=value.score,
                small=len(chosen) < SMALL_BUCKET,
            )
        )
    return buckets


def _bucket_start(words: int) -> int:
    if words >= LAST_BUCKET_FROM:
        return LAST_BUCKET_FROM
    return 0 if words == 0 else (words - 1) // BUCKET_WORDS * BUCKET_WORDS + 1


def _bucket_end(start: int) -> int | None:
    if start >= LAST_BUCKET_FROM:
        return None
    return 0 if start == 0 else start + BUCKET_WORDS - 1


def _bleu(lowercase: bool, quiet: bool = False) -> BLEU:
    # `force` only silences the hint about tokenized text; it is no part of the score or the signature.
    return BLEU(lowercase=lowercase, force=quiet)


def _run(metric: BLEU | CHRF | TER, hypotheses: Sequence[str], references: Sequence[Sequence[str]]) -> Score:
    result = metric.corpus_score(hypotheses, references)
    return Score(
        score=float(result.score), signature=str(metric.get_signature()), detail=result._verbose.strip()
    )


def _check(hypotheses: Sequence[str], references: Sequence[Sequence[str]]) -> None:
    if not references or any(isinstance(lines, str) for lines in references):
        raise ValueError("references must be one list of lines per reference file")
    for number, lines in enumerate(references, start=1):
        if len(lines) != len(hypotheses):
            which = "the reference" if len(references) == 1 else f"reference {number}"
            raise DataError(
                f"{len(hypotheses)} hypotheses but {which} has {len(lines)} lines; line N of every file must "
                "belong to the same segment (an empty line counts as a line)"
            )
    if not hypotheses:
        raise DataError("there is no segment to score: the hypotheses and the references are empty")
    if any("\n" in line for lines in (hypotheses, *references) for line in lines):
        raise ValueError("a line to be scored holds a line break; in a file it would be two lines")
