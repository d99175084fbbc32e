"""The scores are those of the sacrebleu command line on the written files, and never of misaligned ones."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mt.errors import DataError
from mt.evaluation.metrics import bleu_by_length, corpus_bleu, score

TEXT = (
    "Le la chat rouge Dort sur « un » tapis d'école , l'été — 3,5 km/h ! ¿ Straße İzmir ﬁn<b> &amp; 東京 😀"
)
WORDS = TEXT.split()


def corpus(seed: int, segments: int, noise: float) -> tuple[list[str], list[str]]:
    """Made-up references and hypotheses that share most words; some lines blank, padded or odd."""
    rng = random.Random(seed)
    references, hypotheses = [], []
    for _ in range(segments):
        words = [rng.choice(WORDS) for _ in range(rng.randint(0, 25))]
        noisy = [rng.choice(WORDS) if rng.random() < noise else word for word in words]
        if rng.random() < 0.3:
            rng.shuffle(noisy)
        references.append(" ".join(words) + rng.choice(["", "", " .", ".", "  ", "\u00a0!"]))
        hypotheses.append(
            " ".join(noisy[: rng.randint(0, 30)]) + rng.choice(["", "", " .", ".", "\t", "\u2028x"])
        )
    return hypotheses, references


def command_line(
    folder: Path, hypotheses: list[str], references: list[list[str]], *options: str
) -> dict[str, dict]:
    """Runs ``sacrebleu`` on written files; the answer by metric name."""
    files = []
    for name, lines in [("hyp", hypotheses), *((f"ref{n}", lines) for n, lines in enumerate(references))]:
        files.append(folder / name)
        files[-1].write_text("".join(line + "\n" for line in lines), encoding="utf-8", newline="\n")
    command = [sys.executable, "-m", "sacrebleu", *map(str, files[1:]), "-i", str(files[0])]
    command += ["-m", "bleu", "chrf", "ter", "-w", "12", *options]
    environment = {key: value for key, value in os.environ.items() if key != "SACREBLEU_FORMAT"}
    done = subprocess.run(command, capture_output=True, check=True, encoding="utf-8", env=environment)
    return {entry["name"]: entry for entry in json.loads(done.stdout)}


@pytest.mark.parametrize(
    ("count", "lowercase"),
    [(1, False), (1, True), (3, False)],
    ids=["plain", "lowercase", "three references"],
)
def test_equals_the_command_line(tmp_path: Path, count: int, lowercase: bool) -> None:
    hypotheses, first = corpus(seed=count, segments=60, noise=0.2)
    others = [[f"{line} encore" if n % 2 else line.title() for line in first] for n in range(1, count)]
    references = [first, *others]
    options = ("--lowercase", "--chrf-lowercase") if lowercase else ()
    expected = command_line(tmp_path, hypotheses, references, *options)
    scores = score(hypotheses, references, lowercase=lowercase)
    for ours, name in [(scores.bleu, "BLEU"), (scores.chrf, "chrF2"), (scores.ter, "TER")]:
        assert f"{ours.score:.12f}" == f"{expected[name]['score']:.12f}", name
        assert ours.signature == expected[name]["signature"]
        assert 0 < ours.score < 100
    assert f"nrefs:{count}" in scores.bleu.signature
    assert ("case:lc" if lowercase else "case:mixed") in scores.bleu.signature
    assert ("case:lc" if lowercase else "case:mixed") in scores.chrf.signature


def test_validation_uses_the_same_settings() -> None:
    hypotheses, references = corpus(seed=5, segments=80, noise=0.1)
    final = score(hypotheses, [references]).bleu.score
    assert corpus_bleu(hypotheses, references) == final
    assert corpus_bleu(hypotheses, [references]) == final
    second = [line.upper() for line in references]
    assert corpus_bleu(hypotheses, [references, second]) == score(hypotheses, [references, second]).bleu.score


def test_case_is_part_of_the_score_and_of_the_signature() -> None:
    hypotheses, references = ["The Blue Train Left The Station."], [["the blue train left the station."]]
    cased, uncased = score(hypotheses, references), score(hypotheses, references, lowercase=True)
    assert (f"{cased.bleu.score:.2f}", f"{uncased.bleu.score:.2f}") == ("6.57", "100.00")
    assert "case:mixed" in cased.bleu.signature
    assert "case:lc" in uncased.bleu.signature


@pytest.mark.parametrize("change", [-1, 1])
@pytest.mark.parametrize("which", [0, 1])
def test_unequal_lengths_are_refused_with_both_counts(change: int, which: int) -> None:
    # sacreBLEU's own functions cut to the shorter list without a word.
    references = [["a b c d"] * 7, ["a b c d"] * 7]
    references[which] = ["a b c d"] * (7 + change)
    for call in (score, corpus_bleu):
        with pytest.raises(DataError, match=rf"7 hypotheses.*reference {which + 1} has {7 + change} lines"):
            call(["a b c d"] * 7, references)


def test_nothing_to_score_is_an_error() -> None:
    with pytest.raises(DataError, match="no segment"):
        score([], [[]])
    with pytest.raises(ValueError, match="per reference file"):
        score(["a"], [])
    with pytest.raises(ValueError, match="per reference file"):
        score(["a"], ["a"])


def test_a_line_break_inside_a_segment_is_refused() -> None:
    for hypotheses, references in [(["a\nb"], [["a b"]]), (["a b"], [["a\nb"]])]:
        with pytest.raises(ValueError, match="line break"):
            score(hypotheses, references)


def test_the_arguments_are_left_alone() -> None:
    hypotheses, references = corpus(seed=3, segments=20, noise=0.3)
    before = (list(hypotheses), list(references))
    score(hypotheses, [references], lowercase=True)
    bleu_by_length(hypotheses, [references], references)
    assert (hypotheses, references) == before


def test_length_buckets_partition_the_corpus() -> None:
    hypotheses, references = corpus(seed=9, segments=150, noise=0.2)
    sources = [" ".join(["w"] * (index % 61)) for index in range(150)]
    buckets = bleu_by_length(hypotheses, [references], sources)
    assert [bucket.name for bucket in buckets[:3]] == ["0", "1-5", "6-10"]
    assert [bucket.name for bucket in buckets[-2:]] == ["46-50", "51+"]
    assert sum(bucket.segments for bucket in buckets) == 150
    for bucket in buckets:
        last = bucket.max_words if bucket.max_words is not None else 10**9
        chosen = [i for i in range(150) if bucket.min_words <= i % 61 <= last]
        assert bucket.segments == len(chosen)
        assert (
            bucket.bleu
            == score([hypotheses[i] for i in chosen], [[references[i] for i in chosen]]).bleu.score
        )
        assert bucket.small


def test_small_buckets_are_flagged() -> None:
    lines = ["a b c d e"] * 50 + ["a b c d e f"] * 49
    buckets = bleu_by_length(lines, [lines], lines)
    assert [(b.name, b.segments, b.small) for b in buckets] == [("1-5", 50, False), ("6-10", 49, True)]


def test_sources_of_another_length_are_refused() -> None:
    with pytest.raises(DataError, match="2 source lines but 1 hypotheses"):
        bleu_by_length(["a"], [["a"]], ["a", "b"])


@settings(max_examples=60, deadline=None)
@given(st.integers(min_value=0, max_value=200))
def test_every_length_lies_in_its_bucket(words: int) -> None:
    (bucket,) = bleu_by_length(["x"], [["x"]], ["w " * words])
    assert bucket.min_words <= words <= (bucket.max_words if bucket.max_words is not None else words)
