"""The benchmark of recurrent models: which sides there are, and how they are summed up."""

from __future__ import annotations

import sys
from types import ModuleType

import pytest

from mt.config.validate import find_problems
from tests.evaluation import scripts


@pytest.fixture(scope="module")
def bench() -> ModuleType:
    return scripts.load("bench_rnn")


def test_sides_without_their_python_are_left_out(bench: ModuleType) -> None:
    given = bench.parser().parse_args(["--sizes", "256", "--precision", "fp32", "--onmt-python", "o"])
    assert bench.sides_of(given) == {
        "onmt-additive-256": "o",
        "fp32-additive-256": sys.executable,
        "onmt-general-256": "o",
        "fp32-general-256": sys.executable,
    }


@pytest.mark.parametrize("words", [["--scores", "mlp"], ["--precision", "fp8"]])
def test_words_that_mean_nothing_are_refused(bench: ModuleType, words: list[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        bench.main(words)


@pytest.mark.parametrize("side", ["fp32-additive-256", "bf16-general-512"])
def test_our_model_is_possible_and_has_the_size(bench: ModuleType, side: str) -> None:
    arguments = bench.parser().parse_args(["--side", side, "--root", "x"])
    config = bench.Ours(bench.bench.Shape(), arguments).config
    assert find_problems(config) == []
    assert config.training.precision.name == side.split("-")[0]
    assert config.model.width == int(side.split("-")[2])


def test_ratios_are_medians_over_the_same_rounds(bench: ModuleType) -> None:
    def blocks(*speeds: float) -> list[dict[str, float]]:
        return [
            {"tokens": s, "seconds": 1.0, "cpu_seconds": 2.0, "peak_rss_mb": 1.0, "loss": 1.0} for s in speeds
        ]

    measured = {
        "hf": blocks(10, 20, 10),
        "onmt-general-256": blocks(20, 20, 40),
        "fp32-general-256": blocks(40, 40, 40),
    }
    got = bench.summed_up("fp32-general-256", measured)
    assert (got["ratio_to_hf"], got["ratio_to_onmt"]) == (4.0, 2.0)
    assert got["tokens_per_cpu_second"] == 20.0
    sides = {name: bench.summed_up(name, measured) for name in measured}
    table = bench.report({"sides": sides, "machine": "here"})
    assert all(name in table for name in measured)
