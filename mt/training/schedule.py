"""How much of a run's budget is used, and the learning rate that follows from it.

Contract: pure functions and a frozen value. `Budget.progress` turns whatever limits a run has (updates,
passes over the data, tokens, minutes) into one share in [0, 1]; `learning_rate` maps the number of the update
and that share to a rate. A schedule therefore never asks for the unit of the budget, and a run that is
limited by minutes still decays to the end of its time.

Not in here: clocks, counters, optimizers.
"""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass

from mt.config.schema import OptimizerConfig, ScheduleConfig, ScheduleKind, TrainingConfig
from mt.errors import ConfigError

# A measured end of run (last validation, saving) is reserved in full up to this share of the minutes.
_LARGEST_RESERVE = 0.5


@dataclass(frozen=True)
class Budget:
    """The limits of a run; None is no limit. The first one that is reached ends it."""

    max_steps: int | None = None
    max_epochs: int | None = None
    max_tokens: int | None = None
    max_minutes: float | None = None

    @classmethod
    def of(cls, training: TrainingConfig) -> Budget:
        """The budget of a configuration.

        Raises:
            ConfigError: no limit is given, so the run would never end.
        """
        names = [limit.name for limit in dataclasses.fields(cls)]
        limits = {name: getattr(training, name) for name in names}
        if all(limit is None for limit in limits.values()):
            keys = ", ".join(f"training.{name}" for name in names)
            raise ConfigError([f"{keys} are all null: give at least one of them"])
        return cls(**limits)

    def progress(
        self, step: int, epochs: float, tokens: int, elapsed_seconds: float, reserve_seconds: float = 0.0
    ) -> float:
        """The share of the budget that is used, in [0, 1]; 1 means that the run is over.

        Args:
            step: updates done.
            epochs: passes over the data done, fractions included.
            tokens: real target tokens seen.
            elapsed_seconds: time in the loop, validation included.
            reserve_seconds: time still needed after the last update (validation, saving); training ends
                that much before the minutes do. At most half of the minutes are reserved.
        """
        shares = [0.0]
        if self.max_steps is not None:
            shares.append(step / self.max_steps)
        if self.max_epochs is not None:
            shares.append(epochs / self.max_epochs)
        if self.max_tokens is not None:
            shares.append(tokens / self.max_tokens)
        if self.max_minutes is not None:
            limit = self.max_minutes * 60
            shares.append(
                elapsed_seconds / (limit - min(max(reserve_seconds, 0.0), _LARGEST_RESERVE * limit))
            )
        return min(1.0, max(shares))


def learning_rate(
    schedule: ScheduleConfig,
    optimizer: OptimizerConfig,
    *,
    step: int,
    progress: float,
    epochs: float,
    width: int,
) -> float:
    """The rate of update number `step` (the first is 1).

    With w = warmup_steps, p = progress, and lr the peak rate:

    - constant: ``lr min(1, step/w)``
    - linear: ``lr min(1, step/w) (f + (1-f) (1-d))``, f = final_ratio, d the share of the decay done
    - cosine: ``lr min(1, step/w) (f + (1-f) (1+cos(pi d))/2)`` (Loshchilov & Hutter 2017, no restarts)
    - inverse_sqrt: ``lr min(step/w, sqrt(w/step))``, w at least 1
    - noam: ``lr width^-0.5 min(step^-0.5, step w^-1.5)`` (Vaswani et al. 2017, section 5.3, equation 3;
      their lr is 1)
    - halving: ``lr min(1, step/w) 2^-max(0, floor(e) - k + 1)``, e the epochs done, k = halve_after_epochs
      (Luong et al. 2015, section 4.1: "after 5 epochs, we begin to halve the learning rate every epoch")

    d is 0 when the warm-up ends and 1 at the end of the budget. The share of the budget that the warm-up took
    is p (w-1)/(step-1), which is exact when the budget counts updates and a fair estimate when it counts
    minutes; it needs no memory of the run.

    Args:
        progress: share of the budget used before this update, in [0, 1] (see `Budget.progress`).
        epochs: passes over the data done before this update, fractions included, for halving.
        width: the model's width, for noam.
    """
    warmup, peak = schedule.warmup_steps, optimizer.lr
    warm = min(1.0, step / warmup) if warmup else 1.0
    if schedule.kind is ScheduleKind.constant:
        return peak * warm
    if schedule.kind is ScheduleKind.inverse_sqrt:
        floor = max(warmup, 1)
        return peak * min(step / floor, math.sqrt(floor / step))
    if schedule.kind is ScheduleKind.noam:
        rising = step * warmup**-1.5 if warmup else math.inf
        return float(peak * width**-0.5 * min(step**-0.5, rising))
    if schedule.kind is ScheduleKind.halving:
        # A little more than the epochs: sums of fractions must not fall short of a whole one.
        halvings = max(0, math.floor(epochs + 1e-9) - schedule.halve_after_epochs + 1)
        return float(peak * warm * 0.5**halvings)
    done = _decay_done(step, progress, warmup)
    left = 1.0 - done if schedule.kind is ScheduleKind.linear else (1.0 + math.cos(math.pi * done)) / 2
    return peak * warm * (schedule.final_ratio + (1.0 - schedule.final_ratio) * left)


def _decay_done(step: int, progress: float, warmup: int) -> float:
    """The share of the decay that is done before update `step`: 0 until the warm-up ends, 1 at the end."""
    if step <= warmup:
        return 0.0
    start = progress * (warmup - 1) / (step - 1) if warmup > 1 else 0.0
    return 1.0 if start >= 1.0 else min(1.0, max(0.0, (progress - start) / (1.0 - start)))
