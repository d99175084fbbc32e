"""Grouping, what can be ranked, marks, tables and the report, on runs that are only descriptions."""

from __future__ import annotations

import csv
import dataclasses
import io
import json
import re
from collections.abc import Mapping
from html.parser import HTMLParser
from typing import Any

import pytest

from mt.config.schema import TableFormat
from mt.errors import ConfigError, DataError
from mt.evaluation.charts import Series, dots, heatmap, lines, ticks
from mt.evaluation.comparison import (
    FAILED,
    FINISHED,
    UNFINISHED,
    Comparison,
    Map,
    Run,
    Scored,
    TestSet,
    _letters,
    check_comparable,
    chosen_sentences,
    compare,
)
from mt.evaluation.comparison_report import marked, page
from mt.evaluation.comparison_table import render
from mt.evaluation.metrics import bleu_by_length, score
from mt.evaluation.report import text_hash
from mt.evaluation.significance import Significance

SOURCES = [f"{' '.join(['mot'] * n)} fin" for n in range(1, 13)]
REFERENCES = [f"{' '.join(['word'] * n)} the end" for n in range(1, 13)]


def scored(hypotheses: list[str] | None = None, lowercase: bool = False, references: Any = None) -> Scored:
    references = [REFERENCES] if references is None else references
    hypotheses = list(REFERENCES) if hypotheses is None else hypotheses
    test_set = TestSet("test", SOURCES, references, text_hash(None, [SOURCES]), text_hash(None, references))
    return Scored(
        test_set,
        hypotheses,
        score(hypotheses, references, lowercase=lowercase),
        bleu_by_length(hypotheses, references, SOURCES, lowercase=lowercase),
        seconds=2.0,
        maps={0: Map([[0.75, 0.25]], ["</s>"], ["▁mot", "</s>"])},
    )


def run(name: str, seed: int = 1, folder: str = "", **changes: Any) -> Run:
    values: dict[str, Any] = {
        "folder": folder or f"runs/{name}-{seed}",
        "seed": seed,
        "settings": {"attention.score": name, "model.width": "16"},
        "numbers": {"parameters": 1000.0, "steps": 10.0, "valid_loss": 2.0 + seed / 10},
        "losses": [(5, 3.5), (10, 2.5)],
        "curve": [(5, 3.0, 1.0), (10, 2.0, 4.0 * seed)],
        "command": ["python", "-m", "mt.train", f"seed={seed}"],
        "environment": {"hardware": "A", "device": "cpu", "threads": 1},
    }
    values.update(changes)
    if values.get("status", FINISHED) == FINISHED and "scored" not in values:
        values["scored"] = scored()
    return Run(**values)


def fake_test(p: Mapping[str, float] | None = None, gain: float = 1.0) -> Any:
    """Paired tests with p-values by the run's folder."""

    def test(one: Run, baseline: Run) -> dict[str, Significance]:
        value = (p or {}).get(one.folder, 0.01)
        result = Significance(20.0, 20.0 + gain, value, value, 20.0, 1.0, ("bs", "ar"))
        return {"bleu": result, "chrf": result}

    return test


def test_runs_are_grouped_by_what_differs_besides_the_seed() -> None:
    runs = [run(name, seed) for seed in (2, 1) for name in ("dot", "additive")]
    found = compare(runs, fake_test())
    assert found.keys == ["attention.score"]
    assert [(v.name, [r.seed for r in v.runs]) for v in found.variants] == [
        ("dot", [1, 2]),
        ("additive", [1, 2]),
    ]
    assert [(pair.run.seed, pair.baseline.seed) for pair in found.variants[1].pairs] == [(1, 1), (2, 2)]


def test_several_differing_options_are_named_unambiguously() -> None:
    one = run("dot", settings={"attention.score": "dot", "model.dropout": "0.1", "x.dropout": "1"})
    two = run("dot", settings={"attention.score": "general", "model.dropout": "0.2", "x.dropout": "2"})
    names = [variant.name for variant in compare([one, two], fake_test()).variants]
    assert names == [
        "score=dot model.dropout=0.1 x.dropout=1",
        "score=general model.dropout=0.2 x.dropout=2",
    ]


def test_a_copy_is_a_variant_of_its_own() -> None:
    found = compare([run("dot", folder="a"), run("dot", folder="b")], fake_test())
    assert [variant.name for variant in found.variants] == ["(a)", "(b)"]
    assert found.variants[1].pairs


def test_the_largest_p_of_all_seeds_decides() -> None:
    runs = [run(name, seed) for name in ("dot", "additive") for seed in (1, 2, 3)]
    good = compare(runs, fake_test()).variants[1]
    assert good.significant("bleu") and good.p_value("bleu", "bootstrap") == 0.01
    bad = compare(runs, fake_test({"runs/additive-2": 0.3})).variants[1]
    assert not bad.significant("bleu") and bad.p_value("bleu", "randomization") == 0.3
    assert bad.difference("bleu") == pytest.approx(1.0)


def test_the_baseline_can_be_chosen_by_name_or_folder() -> None:
    runs = [run(name) for name in ("dot", "additive", "general")]
    assert compare(runs, fake_test(), baseline="general").baseline.name == "general"
    found = compare(runs, fake_test(), baseline="runs/additive-1/")
    assert [variant.name for variant in found.variants] == ["additive", "dot", "general"]
    with pytest.raises(ConfigError, match="baseline=bilinear: no such variant or run; there is 'dot'"):
        compare(runs, fake_test(), baseline="bilinear")


@pytest.mark.parametrize(
    ("change", "what"),
    [
        ({"references": [[*REFERENCES[:-1], "other"]]}, "references: runs/dot-1 has"),
        ({"references": [REFERENCES, REFERENCES]}, "references: "),
        ({"lowercase": True}, "BLEU: runs/dot-1 has nrefs:1|case:mixed"),
    ],
)
def test_what_cannot_be_ranked_is_refused_by_name(change: Any, what: str) -> None:
    runs = [run("dot"), run("additive", scored=scored(**change))]
    with pytest.raises(DataError, match=re.escape(what)) as caught:
        compare(runs, fake_test())
    assert "runs/additive-1" in str(caught.value) and "source=FILE" in str(caught.value)


def test_another_test_set_is_refused() -> None:
    other = scored()
    test_set = TestSet("other", SOURCES, [REFERENCES], "0" * 64, other.test_set.reference_sha256)
    runs = [run("dot"), run("additive", scored=Scored(test_set, other.hypotheses, other.scores, [], 1.0))]
    with pytest.raises(DataError, match="test set: runs/dot-1 has test"):
        check_comparable(runs)


def incomplete() -> Comparison:
    return compare(
        [
            run("dot"),
            run("dot", 2, status=UNFINISHED, reason="stopped after step 7"),
            run("<b>&_$", folder="job 2", status=FAILED, reason="ValueError: bad | worse\nin line 2"),
        ],
        fake_test(),
    )


@pytest.mark.parametrize("style", TableFormat)
def test_what_is_missing_is_marked_in_every_format(style: TableFormat) -> None:
    text = render(incomplete(), style).lower()
    assert "unfinished" in text and "failed" in text
    assert "stopped after step 7" in text or style is TableFormat.csv


def test_few_seeds_disagreement_and_machines_are_marked() -> None:
    runs = [run(name, seed) for name in ("dot", "additive") for seed in (1, 2)]
    runs[3] = run("additive", 2, environment={"hardware": "B", "device": "cpu", "threads": 1})

    def test(one: Run, baseline: Run) -> dict[str, Significance]:
        gain = 1.0 if one.seed == 1 else -1.0
        result = Significance(20.0, 20.0 + gain, 0.01, 0.01, 20.0, 1.0, ("bs", "ar"))
        return {"bleu": result, "chrf": result}

    found = compare(runs, test)
    text = "\n".join(found.marks)
    assert "dot: 2 finished seeds, fewer than 3" in text
    assert "additive: the seeds disagree about the sign of the BLEU difference" in text
    assert "different machines: A, cpu, 1 threads; B, cpu" in text
    assert not found.variants[1].significant("bleu")
    assert not any("fewer" in mark for mark in compare(runs, test, min_seeds=2).marks)


def test_no_common_seed_is_told() -> None:
    found = compare([run("dot", 1), run("additive", 5)], fake_test())
    assert any("no seed in common" in mark for mark in found.marks)


def test_csv_and_json_have_every_digit_and_every_run() -> None:
    other = scored([line.replace("end", "end now") for line in REFERENCES])
    runs = [run("dot", 1), run("dot", 2), run("additive", 1, scored=other)]
    found = compare(runs, fake_test())
    records = list(csv.DictReader(io.StringIO(render(found, TableFormat.csv))))
    assert [record["seed"] for record in records] == ["1", "2", "1"]
    assert float(records[2]["bleu"]) == other.scores.bleu.score
    assert records[2]["baseline_run"] == "runs/dot-1" and float(records[2]["bleu_p_bootstrap"]) == 0.01
    assert records[0]["bleu_p_bootstrap"] == ""
    content = json.loads(render(found, TableFormat.json))
    assert content["variants"][1]["bleu"] == {"mean": other.scores.bleu.score, "sd": 0.0}
    assert content["variants"][0]["runs"][1]["seed"] == 2
    assert content["test_set"]["segments"] == len(SOURCES)


def test_latex_and_markdown_hold_hostile_names() -> None:
    latex = render(incomplete(), TableFormat.latex)
    assert r"$<$b$>$\&\_\$" in latex and latex.count("\\begin{tabular}") == 1
    assert all(line.startswith("%") or "\n" not in line for line in latex.splitlines())
    assert "in line 2" not in latex  # only the first line of a reason, else it would leave the comment
    markdown = render(incomplete(), TableFormat.markdown)
    rows = [line for line in markdown.splitlines() if line.startswith("| ")]
    assert len({len(re.findall(r"(?<!\\)\|", row)) for row in rows[:3]}) == 1
    assert r"\<b>&\_$" in markdown


class _Page(HTMLParser):
    """Every tag with its attributes, and the text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def test_the_report_is_one_file_without_script_and_escapes_everything() -> None:
    evil = '<script>alert(1)</script><img src="http://x">'
    hostile = scored([evil, *REFERENCES[1:]])
    runs = [run("dot"), run(evil, scored=hostile), run("general", status=FAILED, reason=evil)]
    text = page(compare(runs, fake_test()), 3, ["python", evil])
    parsed = _Page(text)
    names = {tag for tag, _ in parsed.tags}
    assert not names & {"script", "img", "link", "iframe", "object", "embed", "base", "form"}
    for _, attributes in parsed.tags:
        assert not {"src", "href", "onload", "onclick", "style"} & set(attributes)
    policy = next(a for tag, a in parsed.tags if tag == "meta" and "http-equiv" in a)["content"]
    assert policy == "default-src 'none'; style-src 'unsafe-inline'"
    assert "url(" not in text and "@import" not in text
    assert evil in "".join(parsed.text)


def test_the_report_shows_everything() -> None:
    runs = [run(name, seed) for name in ("dot", "additive") for seed in (1, 2, 3)]
    text = page(compare(runs, fake_test()), 3, ["python", "-m", "mt.compare", "a"])
    shown = "".join(_Page(text).text)
    for part in (
        "Against the baseline, dot, additive is significantly better.", "training loss",
        "validation loss", "source words",
        "▁mot", "mt.train seed=3", "python -m mt.compare a", "nrefs:1|case:mixed", "attention.score", "A",
    ):  # fmt: skip
        assert part in shown, part
    assert shown.count("dot, seed 1") >= 2
    nothing = page(compare([run("dot", status=FAILED, reason="r")], fake_test()), 3, [])
    assert "No run is finished yet" in nothing


def test_names_too_long_for_a_table_become_letters_with_a_legend() -> None:
    runs = [run("dot"), run("additive")]
    long = [
        dataclasses.replace(
            each, settings={**each.settings, **{f"model.rnn.option_{n}": f"{i}" for n in range(9)}}
        )
        for i, each in enumerate(runs)
    ]
    found = compare(long, fake_test(), baseline="B")
    assert [variant.name for variant in found.variants] == ["B", "A"]
    text = render(found, TableFormat.text)
    assert "A: score=dot option_0=0" in text and "B: score=additive option_0=1" in text
    assert [variant.name for variant in compare(runs, fake_test()).variants] == ["dot", "additive"]
    assert [_letters(n) for n in (0, 25, 26, 51, 52, 701, 702)] == ["A", "Z", "AA", "AZ", "BA", "ZZ", "AAA"]


def test_differences_are_marked_by_word_and_escaped() -> None:
    assert marked("a <b> c", "a x c d") == "a <del>x</del> <mark>&lt;b&gt;</mark> c <del>d</del>"
    assert marked("a b", "a b") == "a b"


def test_sentences_are_chosen_over_the_whole_set() -> None:
    assert chosen_sentences(["a"] * 100, 4) == [12, 37, 62, 87]
    assert chosen_sentences(["a b c", "", "a"], 5, longest=2) == [2]


@pytest.mark.parametrize(("low", "high"), [(0.0, 1.0), (3.0, 3.0), (-2.5, 1e4), (27.31, 27.34), (0, 1e-3)])
def test_ticks_enclose_the_range_with_round_numbers(low: float, high: float) -> None:
    found = ticks(low, high)
    assert found[0] <= low and found[-1] >= high and 2 <= len(found) <= 9


def test_a_single_point_stands_on_an_axis_from_zero() -> None:
    drawn = lines([Series("one", [(2500.0, 3.0)], 0)], "updates", "loss")
    shown = "".join(_Page(drawn).text)
    assert "2500" in shown and ">0<" in drawn and "2499" not in shown


def test_charts_of_nothing_are_nothing() -> None:
    assert lines([], "x", "y") == "" and dots(["a"], [[]], "x") == ""
    assert "no score" in dots(["a", "b"], [[1.0], []], "x")
    assert heatmap([[0.5]], ["<"], ["&"]).count("&lt;") == 2
