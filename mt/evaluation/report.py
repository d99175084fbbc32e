"""One test set's evaluation as a record that explains itself, a table for people, and files that are whole.

Idea: a score is worth something later only if it says what was scored, with what and how; so the
record holds the signatures, a hash of the test set, the search options and the model beside the
numbers. Two records may be ranked only when `test_set.sha256` and the signatures are equal.

Contract: records are JSON-able dicts with the keys of `Evaluation.to_json`; `write_text` leaves
either the complete new file or what was there before.

Not in here: computing scores (`mt.evaluation.metrics`), reading text, translating.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mt.errors import DataError
from mt.evaluation.attention_numbers import AttentionNumbers
from mt.evaluation.metrics import LengthBucket, Scores
from mt.files import write_whole


@dataclass(frozen=True)
class Evaluation:
    """What became of one test set.

    Attributes:
        name: the test set's name.
        scores: BLEU, chrF, TER.
        by_length: BLEU by source length; None when the sources are not known.
        segments: number of lines scored.
        counts: what happened on the way (blank hypotheses, cut sources, …), in segments.
        sha256: `text_hash` of sources (if known) and references.
        files: the files it was read from and, if kept, written to.
        decoding: search options; None when finished translations were scored.
        run: run folder, likewise.
        checkpoint: checkpoint folder within the run, or the run's final model.
        attention: what the model looked at while it read the (first) references; None when finished
            translations were scored, and of a model without attention.
        gold: the file of gold links that the alignment error is of, if there is one.
    """

    name: str
    scores: Scores
    by_length: list[LengthBucket] | None
    segments: int
    counts: Mapping[str, int]
    sha256: str
    files: Mapping[str, Any] = field(default_factory=dict)
    decoding: Mapping[str, Any] | None = None
    run: str | None = None
    checkpoint: str | None = None
    attention: AttentionNumbers | None = None
    gold: Mapping[str, str] | None = None

    def to_json(self) -> dict[str, Any]:
        """The record that is written: ``bleu.score``, ``bleu.signature``, likewise chrf, ter; the rest."""
        record: dict[str, Any] = {
            metric: {"score": value.score, "signature": value.signature, "detail": value.detail}
            for metric, value in (
                ("bleu", self.scores.bleu),
                ("chrf", self.scores.chrf),
                ("ter", self.scores.ter),
            )
        }
        record["bleu_by_length"] = None
        if self.by_length is not None:
            record["bleu_by_length"] = [
                {
                    "source_words": bucket.name,
                    "min_words": bucket.min_words,
                    "max_words": bucket.max_words,
                    "segments": bucket.segments,
                    "bleu": bucket.bleu,
                    "small": bucket.small,
                }
                for bucket in self.by_length
            ]
        record["attention"] = None
        if self.attention is not None:
            gold = None if self.gold is None else dict(self.gold)
            record["attention"] = {**self.attention.to_json(), "gold": gold}
        record["segments"] = self.segments
        record["counts"] = dict(self.counts)
        record["test_set"] = {"sha256": self.sha256, **self.files}
        record["decoding"] = None if self.decoding is None else dict(self.decoding)
        record["run"] = self.run
        record["checkpoint"] = self.checkpoint
        return record


def text_hash(sources: Sequence[str] | None, references: Sequence[Sequence[str]]) -> str:
    """SHA-256 (hex) of a test set's text: the same for a plain and a compressed copy of the same lines.

    Every list enters with its number of lines, so that no other cut of the same bytes has the same hash.
    """
    digest = hashlib.sha256()
    for lines in [*([] if sources is None else [sources]), *references]:
        digest.update(f"{len(lines)} lines\n".encode())
        for line in lines:
            digest.update(line.encode() + b"\n")
    return digest.hexdigest()


def table(evaluations: Sequence[Evaluation]) -> str:
    """Scores by test set, their signatures, BLEU by source length, and what attention did, as plain text."""
    rows = [["test set", "segments", "BLEU", "chrF", "TER"]]
    for one in evaluations:
        values = (one.scores.bleu, one.scores.chrf, one.scores.ter)
        rows.append([one.name, str(one.segments), *(f"{value.score:.2f}" for value in values)])
    parts = [_aligned(rows)]
    signatures: dict[str, None] = {}
    for one in evaluations:
        for label, value in (("BLEU", one.scores.bleu), ("chrF", one.scores.chrf), ("TER", one.scores.ter)):
            signatures[f"{label}|{value.signature}"] = None
    parts.append("\n".join(signatures))
    for one in evaluations:
        if one.by_length:
            rows = [["source words", "segments", "BLEU", ""]]
            for bucket in one.by_length:
                note = "few segments" if bucket.small else ""
                rows.append([bucket.name, str(bucket.segments), f"{bucket.bleu:.2f}", note])
            parts.append(f"{one.name}, BLEU by source length\n{_aligned(rows)}")
    parts += _attention_tables(evaluations)
    return "\n\n".join(parts)


def _attention_tables(evaluations: Sequence[Evaluation]) -> list[str]:
    """What attention did by test set, and its alignment error by layer where it is known."""
    known = {one.name: one.attention for one in evaluations if one.attention is not None}
    if not known:
        return []
    rows = [["attention over the references", "entropy (nats)", "of log S", "on </s>"]]
    for name, numbers in known.items():
        model = numbers.model
        rows.append([name, f"{model.entropy:.3f}", f"{model.entropy_share:.1%}", f"{model.end:.1%}"])
    found = [_aligned(rows)]
    for name, numbers in known.items():
        labels = ["mean of all", *(f"layer {number}" for number in range(1, len(numbers.layers) + 1))]
        rows = [["alignment error", "AER", "precision", "recall", "links"]]
        for label, layer in zip(labels, [numbers.model, *numbers.layers], strict=True):
            if layer.alignment is not None:
                one = layer.alignment
                rates = (f"{rate:.1%}" for rate in (one.aer, one.precision, one.recall))
                rows.append([label, *rates, str(one.links)])
        if len(rows) > 1:
            found.append(f"{name}, links against the gold ones\n{_aligned(rows)}")
    return found


def _aligned(rows: Sequence[Sequence[str]]) -> str:
    """First column to the left, numbers to the right, a rule under the heading."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = []
    for row in rows:
        cells = [
            row[0].ljust(widths[0]),
            *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True)),
        ]
        lines.append("  ".join(cells).rstrip())
    lines.insert(1, "-" * max(map(len, lines)))
    return "\n".join(lines)


def write_text(path: Path, text: str) -> None:
    """Writes `text` (UTF-8, line ends as they are), whole or not at all; makes missing folders.

    Raises:
        DataError: the file cannot be written; `path` is then as it was before.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, text.encode("utf-8"))
    except OSError as error:
        raise DataError(f"{path}: cannot be written: {error.strerror or error}") from error
