"""Which of several runs is better: runs grouped into variants, variants against a baseline.

Idea: what differs between runs, besides the seed, is what is compared. Runs that differ in the seed alone
are repetitions of one variant, and their spread says how much of a difference is luck of the seed; the
paired tests (`mt.evaluation.significance`) say how much is luck of the test set. A variant's row shows the
*largest* p-value over its seeds, each against the baseline's run with the same seed: a claim holds for
every repetition or is not made.

Contract: only what can be ranked is ranked: another test set, other references or another metric
signature is an error that names the difference. Runs that are unfinished or failed stay in the table,
marked, without scores.

Not in here: reading run folders and translating (`mt.compare`), tables and pictures
(`mt.evaluation.comparison_table`, `mt.evaluation.comparison_report`).
"""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import Any

from mt.errors import ConfigError, DataError
from mt.evaluation.attention_numbers import AttentionNumbers
from mt.evaluation.metrics import LengthBucket, Scores
from mt.evaluation.significance import METRICS, Significance

SIGNIFICANT = 0.05
"""p-values below this are called significant."""

FINISHED, UNFINISHED, FAILED = "finished", "unfinished", "failed"


@dataclass(frozen=True)
class TestSet:
    """What was translated and scored: cleaned sources, references as they stand, and their hashes."""

    name: str
    sources: Sequence[str]
    references: Sequence[Sequence[str]]
    source_sha256: str
    reference_sha256: str

    __test__ = False  # pytest collects names like this one


@dataclass(frozen=True)
class Map:
    """Cross-attention of one sentence: weights (T, S), and the pieces on both axes."""

    weights: Sequence[Sequence[float]]
    target_pieces: Sequence[str]
    source_pieces: Sequence[str]


@dataclass(frozen=True)
class Scored:
    """A run's translations of the test set.

    Attributes:
        test_set: what was translated.
        hypotheses: one line per source.
        scores: of `hypotheses`.
        by_length: BLEU by source length.
        seconds: time the search took.
        maps: attention by the test sentence's number.
        attention: what its attention did over the references; None without attention.
    """

    test_set: TestSet
    hypotheses: Sequence[str]
    scores: Scores
    by_length: Sequence[LengthBucket]
    seconds: float
    maps: Mapping[int, Map] = field(default_factory=dict)
    attention: AttentionNumbers | None = None


@dataclass(frozen=True)
class Run:
    """What is known of one run.

    Attributes:
        folder: its folder, or the name of a cell that never got one.
        seed: its seed.
        settings: every option that decides the result, but the seed, as a user would type it.
        status: finished, unfinished or failed; `reason` says why it is not finished.
        numbers: what the table shows of training: parameters, steps, tokens, minutes, tokens_per_second,
            peak_memory_mb, valid_loss, valid_bleu; those that are known.
        losses: (step, training loss since the point before) of each log line.
        curve: (step, validation loss, validation BLEU) of each validation.
        command, environment: how and where it was trained.
        scored: its translations; None when it is not finished.
    """

    folder: str
    seed: int
    settings: Mapping[str, str]
    status: str = FINISHED
    reason: str = ""
    numbers: Mapping[str, float] = field(default_factory=dict)
    losses: Sequence[tuple[int, float]] = ()
    curve: Sequence[tuple[int, float | None, float | None]] = ()
    command: Sequence[str] = ()
    environment: Mapping[str, Any] = field(default_factory=dict)
    scored: Scored | None = None


@dataclass(frozen=True)
class Pair:
    """A run of a variant against a run of the baseline."""

    run: Run
    baseline: Run
    tests: Mapping[str, Significance]


@dataclass
class Variant:
    """Runs that differ in nothing but the seed.

    Attributes:
        name: the values in which it differs from other variants, or a letter where these are too many.
        settings: those values by option.
        runs: sorted by seed.
        pairs: its tests against the baseline; none for the baseline itself.
    """

    name: str
    settings: Mapping[str, str]
    runs: list[Run]
    pairs: list[Pair] = field(default_factory=list)

    @property
    def scored(self) -> list[Run]:
        """The runs with a score."""
        return [run for run in self.runs if run.scored is not None]

    def metric(self, name: str) -> list[float]:
        """bleu, chrf or ter of each scored run."""
        return [getattr(run.scored.scores, name).score for run in self.runs if run.scored is not None]

    def number(self, name: str) -> list[float]:
        """One of `Run.numbers` of each finished run that knows it."""
        return [run.numbers[name] for run in self.runs if run.status == FINISHED and name in run.numbers]

    def attention(self) -> list[AttentionNumbers]:
        """What the attention of each scored run did that has attention."""
        found = [run.scored.attention for run in self.scored if run.scored is not None]
        return [numbers for numbers in found if numbers is not None]

    def speeds(self) -> list[float]:
        """Sentences translated in a second."""
        return [
            len(run.scored.hypotheses) / run.scored.seconds
            for run in self.runs
            if run.scored is not None and run.scored.seconds > 0
        ]

    def by_length(self) -> dict[str, float]:
        """BLEU by source length, averaged over the seeds."""
        values: dict[str, list[float]] = {}
        for run in self.runs:
            for bucket in run.scored.by_length if run.scored is not None else ():
                values.setdefault(bucket.name, []).append(bucket.bleu)
        return {name: statistics.fmean(found) for name, found in values.items()}

    def difference(self, metric: str) -> float | None:
        """Mean over the pairs of variant minus baseline."""
        found = [pair.tests[metric].difference for pair in self.pairs]
        return statistics.fmean(found) if found else None

    def p_value(self, metric: str, test: str) -> float | None:
        """The largest p-value over the pairs; `test` is bootstrap or randomization."""
        found = [float(getattr(pair.tests[metric], f"{test}_p")) for pair in self.pairs]
        return max(found) if found else None

    def significant(self, metric: str) -> bool:
        """Whether both tests call every pair's difference real, and all in the same direction."""
        tests = [pair.tests[metric] for pair in self.pairs]
        return (
            bool(tests)
            and len({test.difference > 0 for test in tests}) == 1
            and all(max(test.bootstrap_p, test.randomization_p) < SIGNIFICANT for test in tests)
        )


@dataclass
class Comparison:
    """Everything that tables and the report show.

    Attributes:
        variants: the baseline first, then in the order of the runs.
        keys: the options that differ.
        test_set: what was translated; None when no run is finished.
        signatures: of BLEU and chrF, and of their tests.
        marks: what a reader has to know besides the numbers, one sentence each.
    """

    variants: list[Variant]
    keys: list[str]
    test_set: TestSet | None
    signatures: list[str]
    marks: list[str]

    @property
    def baseline(self) -> Variant:
        """The variant that the others are tested against."""
        return self.variants[0]

    def best(self) -> Variant | None:
        """The variant with the highest mean BLEU; None when none is scored."""
        scored = [variant for variant in self.variants if variant.scored]
        return max(scored, key=lambda variant: statistics.fmean(variant.metric("bleu")), default=None)


def mean_and_deviation(values: Sequence[float]) -> tuple[float, float] | None:
    """Mean and sample standard deviation (0 for a single value); None of nothing."""
    if not values:
        return None
    return statistics.fmean(values), statistics.stdev(values) if len(values) > 1 else 0.0


def compare(
    runs: Sequence[Run],
    test: Callable[[Run, Run], Mapping[str, Significance]],
    *,
    baseline: str | None = None,
    min_seeds: int = 3,
) -> Comparison:
    """Group, check, test.

    Args:
        runs: at least one.
        test: the paired tests of (run, run of the baseline), both scored.
        baseline: name of a variant, or a run folder of it; None = the first variant.
        min_seeds: fewer finished runs are marked.

    Raises:
        DataError: the runs' scores cannot be ranked.
        ConfigError: there is no such baseline.
    """
    check_comparable(runs)
    keys, variants = group(runs)
    variants = _baseline_first(variants, baseline)
    for variant in variants[1:]:
        variant.pairs = [Pair(one, other, test(one, other)) for one, other in _pairs(variant, variants[0])]
    scored = [run.scored for run in runs if run.scored is not None]
    return Comparison(
        variants=variants,
        keys=keys,
        test_set=scored[0].test_set if scored else None,
        signatures=_signatures(variants),
        marks=_marks(variants, min_seeds),
    )


def check_comparable(runs: Sequence[Run]) -> None:
    """Refuse to rank scores of different things.

    Raises:
        DataError: names what differs, and two runs that differ.
    """
    scored = [(run.folder, run.scored) for run in runs if run.scored is not None]
    if not scored:
        return
    first_folder, first = scored[0]
    problems = []
    for label, look in _MUST_AGREE.items():
        for folder, other in scored[1:]:
            if look(other) != look(first):
                problems.append(f"{label}: {first_folder} has {look(first)}, {folder} has {look(other)}")
                break
    if problems:
        raise DataError(
            "these runs cannot be ranked, their scores are of different things (give all of them one test "
            "set with source=FILE reference=FILE):\n" + "\n".join(f"  - {problem}" for problem in problems)
        )


_MUST_AGREE: dict[str, Callable[[Scored], str]] = {
    "test set": lambda scored: (
        f"{scored.test_set.name} ({len(scored.test_set.sources)} sources, "
        f"SHA-256 {scored.test_set.source_sha256[:12]})"
    ),
    "references": lambda scored: (
        f"{len(scored.test_set.references)} of {len(scored.hypotheses)} lines "
        f"(SHA-256 {scored.test_set.reference_sha256[:12]})"
    ),
    "BLEU": lambda scored: scored.scores.bleu.signature,
    "chrF": lambda scored: scored.scores.chrf.signature,
}


# Characters; tables and pictures have room for so many.
_LONGEST_NAME = 60


def group(runs: Sequence[Run]) -> tuple[list[str], list[Variant]]:
    """The options that differ, and the runs grouped by their values, in the order given.

    Runs that not even the seed tells apart (a copy, a repetition) are variants of their own, named by
    their folders.
    """
    names = list(dict.fromkeys(key for run in runs for key in run.settings))
    keys = [key for key in names if len({run.settings.get(key) for run in runs}) > 1]
    found: dict[tuple[str, ...], list[Run]] = {}
    for run in runs:
        found.setdefault(tuple(run.settings.get(key, "") for key in keys), []).append(run)
    variants = []
    all_settings = [dict(zip(keys, values, strict=True)) for values in found]
    unwieldy = any(len(described(settings)) > _LONGEST_NAME for settings in all_settings)
    for number, (settings, members) in enumerate(zip(all_settings, found.values(), strict=True)):
        name = _letters(number) if unwieldy else described(settings)
        repeated = max(Counter(run.seed for run in members).values()) > 1
        for each in [[run] for run in members] if repeated else [members]:
            label = f"{name} ({each[0].folder})".strip() if repeated else name or "all runs"
            variants.append(Variant(label, settings, sorted(each, key=lambda run: run.seed)))
    return keys, variants


def _letters(number: int) -> str:
    """A, B, …, Z, AA, AB, …"""
    before = _letters(number // 26 - 1) if number >= 26 else ""
    return before + chr(ord("A") + number % 26)


def described(settings: Mapping[str, str]) -> str:
    """The values that tell a variant from others: one alone, several with the last part of their key."""
    if len(settings) == 1:
        return next(iter(settings.values()))
    last = Counter(key.rpartition(".")[2] for key in settings)
    shown = {key: name if last[name := key.rpartition(".")[2]] == 1 else key for key in settings}
    return " ".join(f"{shown[key]}={value}" for key, value in settings.items())


def _baseline_first(variants: list[Variant], wanted: str | None) -> list[Variant]:
    if wanted is None:
        # A variant without a score cannot be a baseline: the first one that has some.
        index = next((n for n, variant in enumerate(variants) if variant.scored), 0)
    else:
        matches = [
            n
            for n, variant in enumerate(variants)
            if variant.name == wanted or any(PurePath(run.folder) == PurePath(wanted) for run in variant.runs)
        ]
        if not matches:
            names = ", ".join(repr(variant.name) for variant in variants)
            raise ConfigError([f"baseline={wanted}: no such variant or run; there is {names}"])
        index = matches[0]
    return [variants[index], *variants[:index], *variants[index + 1 :]]


def _pairs(variant: Variant, baseline: Variant) -> list[tuple[Run, Run]]:
    """Runs of the same seed; where no seed is common, in their order."""
    ours, theirs = variant.scored, baseline.scored
    by_seed = {run.seed: run for run in theirs}
    common = [(run, by_seed[run.seed]) for run in ours if run.seed in by_seed]
    return common or list(zip(ours, theirs, strict=False))


def _signatures(variants: Sequence[Variant]) -> list[str]:
    found: dict[str, None] = {}
    for variant in variants:
        for run in variant.scored:
            assert run.scored is not None
            found[f"BLEU|{run.scored.scores.bleu.signature}"] = None
            found[f"chrF|{run.scored.scores.chrf.signature}"] = None
        for pair in variant.pairs:
            for metric, label in zip(METRICS, ("BLEU", "chrF"), strict=True):
                for signature in pair.tests[metric].signatures:
                    found[f"{label}|{signature}"] = None
    return list(found)


def _marks(variants: Sequence[Variant], min_seeds: int) -> list[str]:
    marks = []
    for variant in variants:
        finished = len(variant.scored)
        if finished < min_seeds:
            marks.append(
                f"{variant.name}: {finished} finished seed{'s' * (finished != 1)}, fewer than {min_seeds}; "
                "the spread over seeds is not known well enough"
            )
        for run in variant.runs:
            if run.status != FINISHED:
                first_line = run.reason.strip().splitlines()[0] if run.reason.strip() else "no reason known"
                marks.append(f"{variant.name}, seed {run.seed}: {run.status.upper()} ({first_line})")
        for metric, label in zip(METRICS, ("BLEU", "chrF"), strict=True):
            if len({math.copysign(1, pair.tests[metric].difference) for pair in variant.pairs}) > 1:
                marks.append(f"{variant.name}: the seeds disagree about the sign of the {label} difference")
        unpaired = [pair for pair in variant.pairs if pair.run.seed != pair.baseline.seed]
        if unpaired:
            marks.append(f"{variant.name}: no seed in common with the baseline; runs are paired in order")
    machines = {
        tuple(str(run.environment.get(key, "?")) for key in ("hardware", "device", "threads"))
        for variant in variants
        for run in variant.runs
        if run.environment
    }
    if len(machines) > 1:
        listed = "; ".join(
            f"{hardware}, {device}, {threads} threads" for hardware, device, threads in sorted(machines)
        )
        marks.append(f"speed and memory were measured on different machines: {listed}")
    return marks


def chosen_sentences(sources: Sequence[str], count: int, longest: int | None = None) -> list[int]:
    """Indices of `count` sentences, evenly over the test set; only those of 1 to `longest` words.

    Fewer where there are not so many.
    """
    fitting = [n for n, line in enumerate(sources) if 1 <= len(line.split()) <= (longest or math.inf)]
    if len(fitting) <= count:
        return fitting
    return [fitting[(2 * n + 1) * len(fitting) // (2 * count)] for n in range(count)]
