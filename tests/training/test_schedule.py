"""The learning rate against its formulas, and the budget in its three units."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mt.config.schema import OptimizerConfig, ScheduleConfig, ScheduleKind, TrainingConfig
from mt.errors import ConfigError
from mt.training.schedule import Budget, learning_rate


def rates(kind: ScheduleKind, steps: int, warmup: int, final: float = 0.0, lr: float = 2e-3, width: int = 64):
    schedule = ScheduleConfig(kind=kind, warmup_steps=warmup, final_ratio=final)
    return [
        learning_rate(
            schedule, OptimizerConfig(lr=lr), step=k, progress=(k - 1) / steps, epochs=0.0, width=width
        )
        for k in range(1, steps + 1)
    ]


def test_constant_rises_and_stays() -> None:
    assert rates(ScheduleKind.constant, 6, 4) == pytest.approx([2e-3 * x for x in (0.25, 0.5, 0.75, 1, 1, 1)])


def test_linear_reaches_its_peak_when_the_warmup_ends_and_falls_evenly() -> None:
    got = rates(ScheduleKind.linear, 10, 4)
    assert got[:4] == pytest.approx([2e-3 * k / 4 for k in range(1, 5)])
    # Updates 4..10 fall on a straight line that would reach zero at an eleventh.
    assert got[3:] == pytest.approx([2e-3 * (1 - k / 7) for k in range(7)])


def test_cosine_is_half_way_down_half_way_through() -> None:
    got = rates(ScheduleKind.cosine, 21, 1, final=0.1, lr=1.0)
    assert got[0] == pytest.approx(1.0)
    middle = 0.1 + 0.9 * (1 + math.cos(math.pi * 10 / 21)) / 2
    assert got[10] == pytest.approx(middle)
    assert got == sorted(got, reverse=True)


def test_inverse_sqrt_halves_at_four_times_the_warmup() -> None:
    got = rates(ScheduleKind.inverse_sqrt, 40, 10)
    assert got[9] == pytest.approx(2e-3)
    assert got[4] == pytest.approx(1e-3)
    assert got[39] == pytest.approx(1e-3)


def test_noam_is_the_formula_of_the_paper() -> None:
    got = rates(ScheduleKind.noam, 12, 4, lr=1.0, width=512)
    assert got == pytest.approx([512**-0.5 * min(k**-0.5, k * 4**-1.5) for k in range(1, 13)])


@pytest.mark.parametrize("kind", list(ScheduleKind))
def test_no_warmup_starts_at_the_peak(kind: ScheduleKind) -> None:
    got = rates(kind, 5, 0, lr=1.0, width=1)
    assert got[0] == pytest.approx(1.0)
    assert all(math.isfinite(rate) and rate > 0 for rate in got)


@pytest.mark.parametrize(
    ("epochs", "rate"), [(0.0, 8), (4.99, 8), (5.0, 4), (5.5, 4), (6.0, 2), (7.2, 1), (9.99, 0.25)]
)
def test_halving_begins_after_some_epochs_and_comes_with_every_further_one(
    epochs: float, rate: float
) -> None:
    schedule = ScheduleConfig(kind=ScheduleKind.halving, warmup_steps=0, halve_after_epochs=5)
    got = learning_rate(schedule, OptimizerConfig(lr=8.0), step=99, progress=0.3, epochs=epochs, width=1)
    assert got == rate


@given(
    kind=st.sampled_from([ScheduleKind.linear, ScheduleKind.cosine]),
    warmup=st.integers(0, 50),
    final=st.floats(0, 1),
    speed=st.floats(0.2, 5),
)
def test_decay_by_minutes_is_monotone_and_ends_at_the_final_ratio(
    kind: ScheduleKind, warmup: int, final: float, speed: float
) -> None:
    """Progress by a clock whose pace changes: after the warm-up the rate only falls, to where it should."""
    schedule = ScheduleConfig(kind=kind, warmup_steps=warmup, final_ratio=final)
    optimizer = OptimizerConfig(lr=1.0)
    steps = 120
    shares = [((k - 1) / steps) ** speed for k in range(1, steps + 1)]
    got = [
        learning_rate(schedule, optimizer, step=k, progress=share, epochs=0.0, width=1)
        for k, share in enumerate(shares, start=1)
    ]
    after = got[max(warmup, 1) - 1 :]
    assert all(a >= b - 1e-9 for a, b in pairwise(after))
    assert learning_rate(
        schedule, optimizer, step=steps + 1, progress=1.0, epochs=0.0, width=1
    ) == pytest.approx(final)
    assert max(got) <= 1.0 + 1e-9


def test_budget_is_the_share_of_the_nearest_limit() -> None:
    budget = Budget(max_steps=100, max_epochs=4, max_tokens=1000, max_minutes=2)
    assert budget.progress(10, 1.0, 100, 12) == pytest.approx(0.25)
    assert budget.progress(80, 1.0, 100, 12) == pytest.approx(0.8)
    assert budget.progress(10, 1.0, 850, 12) == pytest.approx(0.85)
    assert budget.progress(10, 1.0, 100, 108) == pytest.approx(0.9)
    assert budget.progress(10, 1.0, 100, 500) == 1.0
    assert Budget(max_steps=3).progress(3, 99.0, 99, 99.0) == 1.0
    assert Budget(max_epochs=2).progress(3, 2.0, 99, 0.0) == 1.0
    assert Budget(max_tokens=99).progress(3, 2.0, 99, 0.0) == 1.0


def test_the_end_is_reserved_and_never_more_than_half() -> None:
    budget = Budget(max_minutes=1)
    assert budget.progress(5, 0.1, 9, 50, reserve_seconds=10) == 1.0
    assert budget.progress(5, 0.1, 9, 25, reserve_seconds=10) == pytest.approx(0.5)
    assert budget.progress(5, 0.1, 9, 15, reserve_seconds=1000) == pytest.approx(0.5)


def test_a_run_without_a_limit_is_refused() -> None:
    with pytest.raises(ConfigError, match="max_steps"):
        Budget.of(TrainingConfig())
