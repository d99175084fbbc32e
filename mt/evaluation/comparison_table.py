"""A comparison as a table: for the terminal, Markdown, CSV, JSON and LaTeX.

Contract: all formats show the same rows in the same order, the baseline first. The three for people have
rounded numbers and, below them, what the numbers hold for; CSV and JSON have every digit, and JSON every
run and every pair. An empty cell is a number that is not known, never a zero.

Not in here: what the numbers are (`mt.evaluation.comparison`), the HTML report.
"""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Callable, Sequence
from typing import Any

from mt.config.schema import TableFormat
from mt.evaluation.comparison import Comparison, Run, Variant, described, mean_and_deviation
from mt.evaluation.significance import METRICS, Significance

_LATEX = {
    "\\": r"\textbackslash{}", "{": r"\{", "}": r"\}", "_": r"\_", "%": r"\%", "&": r"\&", "#": r"\#",
    "$": r"\$", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "±": r"$\pm$", "Δ": r"$\Delta$",
    "−": r"$-$", "–": "--", "<": r"$<$", ">": r"$>$",
}  # fmt: skip
HEADINGS = [
    "variant", "seeds", "parameters", "steps", "tokens/s", "memory MB", "valid loss", "BLEU", "chrF",
    "Δ BLEU", "p bootstrap", "p swapped", "sentences/s", "entropy", "AER %", "",
]  # fmt: skip
# What only some models have: where one of them has it, the others are said to have none.
_WITH_DASHES = (HEADINGS.index("entropy"), HEADINGS.index("AER %"))
_NONE = "–"


def render(comparison: Comparison, style: TableFormat) -> str:
    """The table in one of the formats, with a line end."""
    writers: dict[TableFormat, Callable[[Comparison], str]] = {
        TableFormat.text: _text,
        TableFormat.markdown: _markdown,
        TableFormat.csv: _csv,
        TableFormat.json: _json,
        TableFormat.latex: _latex,
    }
    return writers[style](comparison).rstrip("\n") + "\n"


def rows(comparison: Comparison) -> list[list[str]]:
    """The cells of each variant, rounded, under `HEADINGS`; columns without any number are empty."""
    found = [_row(comparison, variant) for variant in comparison.variants]
    for column in _WITH_DASHES:
        if any(row[column] for row in found):
            for row, variant in zip(found, comparison.variants, strict=True):
                if variant.scored and not row[column]:
                    row[column] = _NONE
    return found


def _row(comparison: Comparison, variant: Variant) -> list[str]:
    finished = len(variant.scored)
    seeds = str(finished) if finished == len(variant.runs) else f"{finished} of {len(variant.runs)}"
    difference = variant.difference("bleu")
    note = ""
    if variant is comparison.baseline:
        note = "baseline"
    elif variant.significant("bleu"):
        note = "better" if difference is not None and difference > 0 else "worse"
    elif variant.pairs:
        note = "no clear difference"
    bad = list(dict.fromkeys(run.status.upper() for run in variant.runs if run.scored is None))
    return [
        variant.name,
        seeds,
        _whole(variant.number("parameters")),
        _whole(variant.number("steps")),
        _whole(variant.number("tokens_per_second")),
        _whole(variant.number("peak_memory_mb")),
        _spread(variant.number("valid_loss"), 3),
        _spread(variant.metric("bleu"), 2),
        _spread(variant.metric("chrf"), 2),
        "" if difference is None else f"{difference:+.2f}".replace("-", "−"),
        _p(variant.p_value("bleu", "bootstrap")),
        _p(variant.p_value("bleu", "randomization")),
        _whole(variant.speeds()),
        _spread(_entropies(variant), 2),
        _spread([100 * rate for rate in _errors(variant)], 1),
        ", ".join([note] * bool(note) + bad),
    ]


def _entropies(variant: Variant) -> list[float]:
    return [numbers.model.entropy for numbers in variant.attention()]


def _errors(variant: Variant) -> list[float]:
    return [numbers.aer for numbers in variant.attention() if numbers.aer is not None]


def _whole(values: Sequence[float]) -> str:
    found = mean_and_deviation(values)
    return "" if found is None else f"{found[0]:,.0f}"


def _spread(values: Sequence[float], digits: int) -> str:
    """``mean ± sd``, or the one value."""
    found = mean_and_deviation(values)
    if found is None:
        return ""
    mean, deviation = found
    return f"{mean:.{digits}f}" if len(values) == 1 else f"{mean:.{digits}f} ± {deviation:.{digits}f}"


def _p(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:.4f}" if value < 0.1 else f"{value:.2f}"


def length_rows(comparison: Comparison) -> list[list[str]]:
    """BLEU by source length: a heading, then one row per scored variant."""
    names: dict[str, bool] = {}
    for variant in comparison.variants:
        for run in variant.scored:
            assert run.scored is not None
            for bucket in run.scored.by_length:
                names[bucket.name] = bucket.small
    names = dict(sorted(names.items(), key=lambda item: int(re.split(r"[-+]", item[0])[0])))
    found = [["source words", *(f"{name}*" if small else name for name, small in names.items())]]
    for variant in comparison.variants:
        values = variant.by_length()
        if values:
            cells = [f"{values[name]:.1f}" if name in values else "" for name in names]
            found.append([variant.name, *cells])
    return found


def notes(comparison: Comparison) -> list[str]:
    """What the numbers hold for, one sentence each."""
    found = []
    if comparison.test_set is not None:
        test_set = comparison.test_set
        found.append(
            f"test set {test_set.name}, {len(test_set.sources):,} segments, SHA-256 of the sources "
            f"{test_set.source_sha256[:12]}, of the references {test_set.reference_sha256[:12]}"
        )
    if any(variant.pairs for variant in comparison.variants):
        found.append(
            "± is the standard deviation over seeds; p is the largest of the seeds' paired bootstrap and "
            "approximate randomization tests against the baseline's run of the same seed; better and worse: "
            "p < 0.05 in both tests for every seed"
        )
    if any(_entropies(variant) for variant in comparison.variants):
        aer = ""
        if any(_errors(variant) for variant in comparison.variants):
            aer = ", and the alignment error rate of the source word with the largest mean weight"
        none = f"; {_NONE}: no attention" if any(_NONE in row for row in rows(comparison)) else ""
        found.append(
            f"entropy of the attention in nats{aer}: mean over layers and heads, reading the references{none}"
        )
    lettered = [v for v in comparison.variants if v.settings and not v.name.startswith(described(v.settings))]
    found += [f"{variant.name}: {described(variant.settings)}" for variant in lettered]
    if comparison.keys:
        found.append(f"variants differ in {', '.join(comparison.keys)}")
    return found


def _shown(comparison: Comparison) -> list[list[str]]:
    """Heading and rows, without the columns in which no variant has anything."""
    table = [HEADINGS, *rows(comparison)]
    used = [n for n in range(len(HEADINGS)) if any(row[n] for row in table[1:])]
    return [[row[n] for n in used] for row in table]


def _aligned(table: Sequence[Sequence[str]]) -> str:
    """First column to the left, the others to the right, a rule under the heading."""
    widths = [max(len(row[column]) for row in table) for column in range(len(table[0]))]
    lines = []
    for row in table:
        rest = (cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True))
        lines.append("  ".join([row[0].ljust(widths[0]), *rest]).rstrip())
    lines.insert(1, "-" * max(map(len, lines)))
    return "\n".join(lines)


def _text(comparison: Comparison) -> str:
    parts = [_aligned(_shown(comparison))]
    lengths = length_rows(comparison)
    if len(lengths) > 1:
        few = "\n* few segments" if any(cell.endswith("*") for cell in lengths[0]) else ""
        parts.append("BLEU by source length\n" + _aligned(lengths) + few)
    parts.append("\n".join(notes(comparison)))
    if comparison.marks:
        parts.append("\n".join(f"! {mark}" for mark in comparison.marks))
    parts.append("\n".join(comparison.signatures))
    return "\n\n".join(part for part in parts if part)


def _markdown(comparison: Comparison) -> str:
    def table(cells: Sequence[Sequence[str]]) -> str:
        lines = ["| " + " | ".join(_markdown_text(cell) for cell in row) + " |" for row in cells]
        lines.insert(1, "|---|" + "---:|" * (len(cells[0]) - 1))
        return "\n".join(lines)

    parts = [table(_shown(comparison))]
    lengths = length_rows(comparison)
    if len(lengths) > 1:
        parts.append("BLEU by source length (\\* few segments):")
        parts.append(table(lengths))
    below = [*notes(comparison), *(f"**!** {_markdown_text(mark)}" for mark in comparison.marks)]
    below += [f"`{signature}`" for signature in comparison.signatures]
    parts.append("\n".join(f"- {line}" for line in below))
    return "\n\n".join(parts)


def _markdown_text(text: str) -> str:
    return re.sub(r"([\\`*_|<\[\]])", r"\\\1", text.replace("\n", " "))


def _latex(comparison: Comparison) -> str:
    shown = _shown(comparison)
    lines = [f"% {line}" for line in [*notes(comparison), *comparison.marks, *comparison.signatures]]
    lines = [re.sub(r"\s+", " ", line) for line in lines]
    lines += [rf"\begin{{tabular}}{{l{'r' * (len(shown[0]) - 1)}}}", r"\toprule"]
    for number, row in enumerate(shown):
        lines.append(" & ".join(_latex_text(cell) for cell in row) + r" \\")
        if number == 0:
            lines.append(r"\midrule")
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}"])


def _latex_text(text: str) -> str:
    return "".join(_LATEX.get(character, character) for character in text.replace("\n", " "))


def _csv(comparison: Comparison) -> str:
    """One row per run: what a spreadsheet can group by itself; every digit."""
    numbers = list(
        dict.fromkeys(key for variant in comparison.variants for run in variant.runs for key in run.numbers)
    )
    tests = [
        f"{metric}_{name}" for metric in METRICS for name in ("difference", "p_bootstrap", "p_randomization")
    ]
    heading = [
        "variant", *comparison.keys, "seed", "run", "status", *numbers, "bleu", "chrf", "ter",
        "sentences_per_second", "attention_entropy", "aer", "baseline_run", *tests,
    ]  # fmt: skip
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(heading)
    for variant in comparison.variants:
        pairs = {id(pair.run): pair for pair in variant.pairs}
        for run in variant.runs:
            scored = run.scored
            scores: list[Any] = [""] * 6
            if scored is not None:
                scores = [scored.scores.bleu.score, scored.scores.chrf.score, scored.scores.ter.score]
                scores.append(len(scored.hypotheses) / scored.seconds if scored.seconds > 0 else "")
                attention = scored.attention
                scores += ["", ""] if attention is None else [attention.model.entropy, attention.aer]
            pair = pairs.get(id(run))
            tested: list[Any] = [""] * (1 + len(tests))
            if pair is not None:
                tested = [pair.baseline.folder]
                for metric in METRICS:
                    test = pair.tests[metric]
                    tested += [test.difference, test.bootstrap_p, test.randomization_p]
            settings = [variant.settings[key] for key in comparison.keys]
            known = [run.numbers.get(key, "") for key in numbers]
            about = [variant.name, *settings, run.seed, run.folder, run.status]
            writer.writerow([*about, *known, *scores, *tested])
    return out.getvalue()


def _json(comparison: Comparison) -> str:
    test_set = comparison.test_set
    content = {
        "test_set": None
        if test_set is None
        else {
            "name": test_set.name,
            "segments": len(test_set.sources),
            "source_sha256": test_set.source_sha256,
            "reference_sha256": test_set.reference_sha256,
        },
        "differing_options": comparison.keys,
        "baseline": comparison.baseline.name,
        "variants": [_variant_json(variant) for variant in comparison.variants],
        "marks": comparison.marks,
        "signatures": comparison.signatures,
    }
    return json.dumps(content, ensure_ascii=False, indent=2)


def _variant_json(variant: Variant) -> dict[str, Any]:
    def spread(values: Sequence[float]) -> dict[str, float] | None:
        found = mean_and_deviation(values)
        return None if found is None else {"mean": found[0], "sd": found[1]}

    return {
        "name": variant.name,
        "settings": dict(variant.settings),
        "bleu": spread(variant.metric("bleu")),
        "chrf": spread(variant.metric("chrf")),
        "attention_entropy": spread(_entropies(variant)),
        "aer": spread(_errors(variant)),
        "bleu_by_length": variant.by_length(),
        "difference": {metric: variant.difference(metric) for metric in METRICS},
        "significant": {metric: variant.significant(metric) for metric in METRICS},
        "runs": [_run_json(run) for run in variant.runs],
        "pairs": [
            {
                "run": pair.run.folder,
                "baseline": pair.baseline.folder,
                **{metric: _test_json(pair.tests[metric]) for metric in METRICS},
            }
            for pair in variant.pairs
        ],
    }


def _run_json(run: Run) -> dict[str, Any]:
    record: dict[str, Any] = {
        "folder": run.folder,
        "seed": run.seed,
        "status": run.status,
        "reason": run.reason,
        "numbers": dict(run.numbers),
    }
    if run.scored is not None:
        scores = run.scored.scores
        record |= {"bleu": scores.bleu.score, "chrf": scores.chrf.score, "ter": scores.ter.score}
        record["decoding_seconds"] = run.scored.seconds
        record["attention"] = None if run.scored.attention is None else run.scored.attention.to_json()
    return record


def _test_json(test: Significance) -> dict[str, Any]:
    return {
        "difference": test.difference,
        "p_bootstrap": test.bootstrap_p,
        "p_randomization": test.randomization_p,
        "bootstrap_mean": test.mean,
        "bootstrap_interval": test.interval,
        "signatures": list(test.signatures),
    }
