"""A comparison as one HTML file: the answer, the table, pictures, translations, and how to do it again.

Contract: the page needs no network, no script and no other file; it forbids itself both. What comes from
models, texts and configurations is escaped everywhere. It reads on a phone and on paper, and no
information is in colour alone.

Not in here: the numbers (`mt.evaluation.comparison`), the drawing (`mt.evaluation.charts`).
"""

from __future__ import annotations

import difflib
import shlex
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

from mt.evaluation import charts
from mt.evaluation.comparison import FINISHED, Comparison, Run, chosen_sentences
from mt.evaluation.comparison_table import HEADINGS, length_rows, notes, rows

_PAGE = Path(__file__).with_name("comparison_report.html")


def page(comparison: Comparison, examples: int, command: Sequence[str]) -> str:
    """The whole page.

    Args:
        examples: test sentences whose translations are shown.
        command: the words that made this comparison.
    """
    test_set = comparison.test_set
    title = f"Comparison of {len(comparison.variants)} variants" + (
        f" on {test_set.name}" if test_set is not None else ""
    )
    parts = [
        f"<h1>{escape(title)}</h1>",
        _answer(comparison),
        _list(comparison.marks, "marks"),
        _table([HEADINGS, *rows(comparison)], "main"),
        *(f'<p class="quiet">{escape(note)}.</p>' for note in notes(comparison)),
        _scores(comparison),
        _learning(comparison),
        _maps(comparison),
        _translations(comparison, examples),
        _differences(comparison),
        _failures(comparison),
        _again(comparison, command),
    ]
    body = "\n".join(part for part in parts if part)
    # The body comes last, so that nothing in it is taken for a place to fill in.
    return _PAGE.read_text(encoding="utf-8").replace("@TITLE@", escape(title)).replace("@BODY@", body)


def _answer(comparison: Comparison) -> str:
    """What the numbers allow to say, in one or two sentences."""
    best, baseline = comparison.best(), comparison.baseline
    if best is None:
        return '<p class="answer">No run is finished yet, so nothing can be compared.</p>'
    mean = statistics.fmean(best.metric("bleu"))
    text = f"Highest BLEU: <strong>{escape(best.name)}</strong> ({mean:.2f}). "
    others = [variant for variant in comparison.variants if variant is not baseline and variant.pairs]
    if others:
        better = [v.name for v in others if v.significant("bleu") and (v.difference("bleu") or 0.0) > 0]
        worse = [v.name for v in others if v.significant("bleu") and (v.difference("bleu") or 0.0) < 0]
        unclear = [v.name for v in others if not v.significant("bleu")]
        claims = [
            f"{escape(', '.join(names))} {verb} {what}"
            for names, what in (
                (better, "significantly better"),
                (worse, "significantly worse"),
                (unclear, "not clearly different"),
            )
            if names
            for verb in ["is" if len(names) == 1 else "are"]
        ]
        text += f"Against the baseline, <strong>{escape(baseline.name)}</strong>, {'; '.join(claims)}."
    return f'<p class="answer">{text}</p>'


def _scores(comparison: Comparison) -> str:
    names = [variant.name for variant in comparison.variants]
    bars = charts.dots(names, [variant.metric("bleu") for variant in comparison.variants], "BLEU")
    lengths = length_rows(comparison)
    if not bars:
        return ""
    buckets = [name for name in lengths[0][1:]]
    series = []
    for style, variant in enumerate(comparison.variants):
        values = variant.by_length()
        points = [
            (float(n), values[name.rstrip("*")])
            for n, name in enumerate(buckets)
            if name.rstrip("*") in values
        ]
        series.append(charts.Series(variant.name, points, style))
    by_length = charts.lines(series, "source words", "BLEU", buckets)
    return (
        f'<h2>Scores</h2>{charts.legend(names)}<div class="charts">'
        f"{_figure('BLEU of each seed, their mean, and one standard deviation to each side', bars)}"
        f"{_figure('BLEU by source length, mean over seeds (* fewer than 50 segments)', by_length)}</div>"
        f"<details><summary>BLEU by source length as a table</summary>{_table(lengths)}</details>"
    )


def _learning(comparison: Comparison) -> str:
    """Training loss, validation loss and BLEU over updates, a line for each run."""
    curves: dict[str, Callable[[Run], list[tuple[float, float]]]] = {
        "training loss": lambda run: [(float(step), loss) for step, loss in run.losses],
        "validation loss": lambda run: [(float(x), loss) for x, loss, _ in run.curve if loss is not None],
        "validation BLEU": lambda run: [(float(x), bleu) for x, _, bleu in run.curve if bleu is not None],
    }
    pictures = []
    for label, points_of in curves.items():
        series = [
            charts.Series(f"{variant.name}, seed {run.seed}", points_of(run), style, marks=False)
            for style, variant in enumerate(comparison.variants)
            for run in variant.runs
        ]
        drawn = charts.lines([each for each in series if each.points], "updates", label)
        if drawn:
            pictures.append(_figure(f"{label}, one line for each seed", drawn))
    if not pictures:
        return ""
    names = charts.legend([variant.name for variant in comparison.variants])
    return f'<h2>Learning curves</h2>{names}<div class="charts">{"".join(pictures)}</div>'


def _maps(comparison: Comparison) -> str:
    numbers = sorted(
        {
            n
            for variant in comparison.variants
            for run in variant.scored
            if run.scored
            for n in run.scored.maps
        }
    )
    if not numbers or comparison.test_set is None:
        return ""
    parts = [
        "<h2>Attention</h2><p>Rows: the translation's pieces. Columns: the source's. The darker, the more of "
        "its attention a piece gave, averaged over all layers and heads; each row sums to 100 %.</p>"
    ]
    for number in numbers:
        parts.append(f'<h3 dir="auto">{escape(comparison.test_set.sources[number])}</h3><div class="maps">')
        for variant in comparison.variants:
            for run in variant.scored:
                found = run.scored.maps.get(number) if run.scored is not None else None
                if found is not None:
                    drawn = charts.heatmap(found.weights, found.target_pieces, found.source_pieces)
                    parts.append(_figure(f"{variant.name}, seed {run.seed}", drawn))
        parts.append("</div>")
    return "".join(parts)


def _translations(comparison: Comparison, examples: int) -> str:
    """Sentences side by side; of each variant its first finished seed."""
    test_set = comparison.test_set
    runs = [(variant, run) for variant in comparison.variants for run in variant.scored[:1]]
    if test_set is None or not runs or not examples:
        return ""
    first = runs[0][1].scored
    assert first is not None
    head = ["source", "reference", *(f"{variant.name}, seed {run.seed}" for variant, run in runs)]
    body = []
    for number in chosen_sentences(test_set.sources, examples):
        cells = [escape(test_set.sources[number]), escape(test_set.references[0][number])]
        for _, run in runs:
            assert run.scored is not None
            cells.append(marked(run.scored.hypotheses[number], first.hypotheses[number]))
        found = zip(head, cells, strict=True)
        lines = "".join(f'<tr><td>{escape(name)}</td><td dir="auto">{cell}</td></tr>' for name, cell in found)
        body.append(f'<table class="texts"><tbody>{lines}</tbody></table>')
    return (
        "<h2>Translations</h2><p>Marked and underlined: words that the baseline does not have in this place; "
        "struck out: words of the baseline that are missing.</p>" + "<br>".join(body)
    )


def marked(text: str, other: str) -> str:
    """`text` as HTML, its differences from `other` marked word by word."""
    ours, theirs = text.split(), other.split()
    parts = []
    for kind, a, b, c, d in difflib.SequenceMatcher(None, theirs, ours, autojunk=False).get_opcodes():
        if kind in ("delete", "replace"):
            parts.append(f"<del>{escape(' '.join(theirs[a:b]))}</del>")
        if kind in ("insert", "replace"):
            parts.append(f"<mark>{escape(' '.join(ours[c:d]))}</mark>")
        if kind == "equal":
            parts.append(escape(" ".join(ours[c:d])))
    return " ".join(parts)


def _differences(comparison: Comparison) -> str:
    if not comparison.keys:
        return ""
    table = [["option", *(variant.name for variant in comparison.variants)]]
    table += [[key, *(v.settings[key] for v in comparison.variants)] for key in comparison.keys]
    first = comparison.variants[0].runs[0].settings
    same = [f"{key}={value}" for key, value in first.items() if key not in comparison.keys]
    return (
        f"<h2>Options that differ</h2>{_table(table)}<details><summary>Options that are the same for all "
        f"({len(same)})</summary><pre>{escape(chr(10).join(same))}</pre></details>"
    )


def _failures(comparison: Comparison) -> str:
    bad = [
        (variant, run) for variant in comparison.variants for run in variant.runs if run.status != FINISHED
    ]
    if not bad:
        return ""
    parts = [
        f"<h3>{escape(variant.name)}, seed {run.seed}: {run.status.upper()}</h3>"
        f"<pre>{escape(run.reason)}</pre>"
        for variant, run in bad
    ]
    return "<h2>Runs without a result</h2>" + "".join(parts)


def _again(comparison: Comparison, command: Sequence[str]) -> str:
    """Machine, commands, signatures: what it takes to get these numbers again."""
    machines: dict[str, None] = {}
    commands: dict[str, None] = {}
    for variant in comparison.variants:
        for run in variant.runs:
            if run.environment:
                machines[_machine(run.environment)] = None
            if run.command:
                commands[shlex.join(run.command)] = None
    parts = ["<h2>How to do this again</h2>", f"<pre>{escape(shlex.join(command))}</pre>"]
    if commands:
        listed = escape("\n".join(commands))
        parts.append(f"<details open><summary>Training</summary><pre>{listed}</pre></details>")
    if machines:
        listed = escape("\n\n".join(machines))
        parts.append(f"<details open><summary>Machine</summary><pre>{listed}</pre></details>")
    folders = "\n".join(
        f"{variant.name}, seed {run.seed}: {run.folder}"
        for variant in comparison.variants
        for run in variant.runs
    )
    parts.append(f"<details><summary>Run folders</summary><pre>{escape(folders)}</pre></details>")
    parts.append(f"<h3>Signatures</h3><pre>{escape(chr(10).join(comparison.signatures))}</pre>")
    return "".join(parts)


def _machine(environment: Mapping[str, Any]) -> str:
    lines = [
        f"{key}: {environment[key]}"
        for key in ("hardware", "device", "cores", "threads", "system", "python")
        if key in environment
    ]
    packages = environment.get("packages")
    if isinstance(packages, dict):
        lines.append(", ".join(f"{name} {version}" for name, version in packages.items()))
    return "\n".join(lines)


def _table(cells: Sequence[Sequence[str]], name: str = "") -> str:
    """The first row is the heading; columns without anything are left out."""
    used = [n for n in range(len(cells[0])) if any(row[n] for row in cells[1:])]

    def row(values: Sequence[str], name: str) -> str:
        return "<tr>" + "".join(f"<{name}>{escape(values[n])}</{name}>" for n in used) + "</tr>"

    body = "".join(row(values, "td") for values in cells[1:])
    # Focusable, so that the keyboard can scroll it.
    return (
        f'<div class="scroll" tabindex="0"><table class="{name}"><thead>{row(cells[0], "th")}</thead>'
        f"<tbody>{body}</tbody></table></div>"
    )


def _figure(caption: str, drawn: str) -> str:
    return f"<figure><figcaption>{escape(caption)}</figcaption>{drawn}</figure>"


def _list(items: Iterable[str], name: str) -> str:
    listed = "".join(f"<li>{escape(item)}</li>" for item in items)
    return f'<ul class="{name}">{listed}</ul>' if listed else ""
