"""The paired tests: the numbers of the command line, and what they say of copies and of real differences."""

from __future__ import annotations

import random
import re
import subprocess
import sys
from pathlib import Path

import pytest

from mt.errors import DataError
from mt.evaluation.significance import Significance, kept_paired_tests, paired_tests

WORDS = ["the", "a", "cat", "dog", "bird", "sees", "hears", "follows", "small", "grey", "one", "two", "in"]


def corpus(lines: int, seed: int) -> list[str]:
    choose = random.Random(seed)
    return [" ".join(choose.choices(WORDS, k=choose.randint(4, 12))) for _ in range(lines)]


def worse(lines: list[str], share: float, seed: int) -> list[str]:
    """Every word is another one with a probability of `share`."""
    choose = random.Random(seed)
    return [
        " ".join(choose.choice(WORDS) if choose.random() < share else word for word in line.split())
        for line in lines
    ]


REFERENCE = corpus(60, 1)
BASELINE, SYSTEM = worse(REFERENCE, 0.2, 2), worse(REFERENCE, 0.25, 3)


def command_line(folder: Path, *flags: str) -> list[float]:
    """The numbers in the two rows of the system in sacreBLEU's table (its JSON cannot hold them)."""
    command = [sys.executable, "-m", "sacrebleu", "ref", "-i", "base", "sys", "-m", "bleu", "chrf", "-w", "6"]
    done = subprocess.run(
        [*command, "-f", "text", *flags], cwd=folder, capture_output=True, check=True, encoding="utf-8"
    )
    rows = re.findall(r"│ +sys │.*\n│ +│.*", done.stdout)
    return [float(number) for number in re.findall(r"\d+\.\d+", rows[0])]


def test_numbers_equal_the_command_line(tmp_path: Path) -> None:
    for name, lines in (("ref", REFERENCE), ("base", BASELINE), ("sys", SYSTEM)):
        (tmp_path / name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    found = paired_tests(BASELINE, SYSTEM, [REFERENCE], bootstrap_samples=200, randomization_trials=300)
    tests = [found["bleu"], found["chrf"]]
    expected = [number for test in tests for number in (test.score, test.mean, test.interval)]
    expected += [test.bootstrap_p for test in tests]
    numbers = command_line(tmp_path, "--paired-bs", "--paired-bs-n", "200")
    assert numbers == pytest.approx(expected, abs=6e-5) and len(numbers) == 8
    expected = [test.score for test in tests] + [test.randomization_p for test in tests]
    assert command_line(tmp_path, "--paired-ar", "--paired-ar-n", "300") == pytest.approx(expected, abs=6e-5)


@pytest.mark.parametrize("seed", range(3))
def test_a_copy_is_never_different(seed: int) -> None:
    system = worse(REFERENCE, 0.3, seed)
    for test in paired_tests(
        system, list(system), [REFERENCE], bootstrap_samples=100, randomization_trials=100
    ).values():
        assert (test.bootstrap_p, test.randomization_p, test.difference) == (1.0, 1.0, 0.0)


def test_what_the_metric_cannot_see_is_no_difference() -> None:
    spaced = [line.replace(" ", "  ") for line in BASELINE]
    found = paired_tests(BASELINE, spaced, [REFERENCE], bootstrap_samples=100, randomization_trials=100)
    assert (found["bleu"].bootstrap_p, found["bleu"].randomization_p) == (1.0, 1.0)


def test_a_planted_difference_is_found() -> None:
    reference = corpus(200, 7)
    good = worse(reference, 0.25, 8)
    bad = [worse([line], 0.12, n)[0] for n, line in enumerate(good)]
    test = paired_tests(good, bad, [reference], bootstrap_samples=200, randomization_trials=200)["bleu"]
    assert test.difference < -5
    assert test.bootstrap_p < 0.05 and test.randomization_p < 0.05


def test_unequal_numbers_of_lines_are_refused() -> None:
    with pytest.raises(DataError, match="60 and 59 translations"):
        paired_tests(BASELINE, SYSTEM[:-1], [REFERENCE])
    with pytest.raises(DataError, match="0 and 0"):
        paired_tests([], [], [[]])


def test_results_are_kept_and_belong_to_what_was_tested(tmp_path: Path) -> None:
    sizes = {"bootstrap_samples": 100, "randomization_trials": 100}
    first = kept_paired_tests(tmp_path / "kept", BASELINE, SYSTEM, [REFERENCE], **sizes)
    (path,) = (tmp_path / "kept").iterdir()
    path.write_text(path.read_text("utf-8").replace(str(first["bleu"].bootstrap_p), "0.125"), "utf-8")
    assert (
        kept_paired_tests(tmp_path / "kept", BASELINE, SYSTEM, [REFERENCE], **sizes)["bleu"].bootstrap_p
        == 0.125
    )
    assert isinstance(first["chrf"], Significance)
    other = kept_paired_tests(tmp_path / "kept", SYSTEM, BASELINE, [REFERENCE], **sizes)
    assert other["bleu"].difference == -first["bleu"].difference
    path.write_text("{}", "utf-8")
    assert kept_paired_tests(tmp_path / "kept", BASELINE, SYSTEM, [REFERENCE], **sizes) == first
