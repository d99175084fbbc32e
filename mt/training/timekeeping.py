"""The clock of a run: how much of the budget is used, what must be kept for the end, how long it will take.

Contract: a `Timekeeper` reads the clock and the counters, and changes of them only the times. All processes
see the first one's clock, so that they decide alike. The speed that is told is that of training alone:
validations and checkpoints stand `aside`.

Not in here: what a share of the budget is (`mt.training.schedule`), and what follows from it.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from mt.data.lines import counted
from mt.training.device import queued_seconds
from mt.training.distributed import World
from mt.training.schedule import Budget
from mt.training.state import Progress
from mt.training.tracking import duration

# After this many updates of a process its speed is known well enough for a forecast.
FORECAST_AFTER = 20
# First guess of a validation's time, before one was measured: a token of the validation set costs as much
# as three trained ones (decoding goes token by token, but backward is not needed), and at most this share
# of the minutes.
_VALIDATION_COST, _VALIDATION_SHARE = 3.0, 0.2
# When this share of the minutes is used and no validation has come yet, its time is measured on a part of the
# set: the last validation must not be the first of which it is known how long it takes.
_MEASURE_AFTER = 0.5

# So many updates teach something even if they have not seen all the data.
_MANY_UPDATES = 1000
# From these shares of the time on, validation and busy processors are named as reasons.
_MUCH_VALIDATION, _MUCH_QUEUED = 1 / 3, 1 / 4

# Time in the loop is read from here.
clock = time.monotonic


@dataclass(frozen=True)
class Forecast:
    """What the pace so far says of the whole run, validations left out.

    Attributes:
        seconds, epochs: of the whole run, earlier sessions included.
        update_seconds: of an update.
    """

    seconds: float
    epochs: float
    update_seconds: float


class Timekeeper:
    """How far a run is in its budget.

    Args:
        progress: the counters, of which `elapsed_seconds` and the times of `window` are kept here.
        valid_tokens: target tokens of the validation set.
        last_validations: how many there are after the last update.
    """

    def __init__(
        self, budget: Budget, progress: Progress, world: World, *, valid_tokens: int, last_validations: int
    ) -> None:
        self.budget, self._progress, self._world = budget, progress, world
        self._valid_tokens, self._last_validations = valid_tokens, last_validations
        # Of this process: when the loop began and where the run stood then, how long it validated.
        self._now = self._start = self._window_start = clock()
        self._elapsed_before, self._epochs_before = progress.elapsed_seconds, progress.epochs
        self._share_before, self._validating = 0.0, 0.0
        self._queued_before = 0.0
        self._waited: Callable[[], float] = lambda: 0.0
        self._waited_before = 0.0
        self.updates = 0

    def begin(self, waited: Callable[[], float]) -> None:
        """The loop begins; `waited` says for how many seconds it has waited for batches."""
        self._start = self._window_start = clock()
        self._waited, self._queued_before = waited, queued_seconds()
        self.tick()
        self._share_before = self.share()

    def tick(self) -> float:
        """Look at the clock, the first process's for all: times decide, so they have to be the same."""
        self._now = self._start + self._world.from_first(clock() - self._start)
        return self._now

    def elapsed(self) -> float:
        """Seconds in the loop over all sessions, when the clock was last looked at."""
        return self._elapsed_before + self._now - self._start

    def update_done(self) -> None:
        """Count an update's time."""
        self.tick()
        self._progress.elapsed_seconds = self.elapsed()
        self.updates += 1

    # --- the budget ---

    def share(self) -> float:
        """The share of the budget that is used."""
        progress = self._progress
        return self.budget.progress(
            progress.step, progress.epochs, progress.tokens, self.elapsed(), self.reserve()
        )

    def used_up(self) -> str | None:
        """Which limit is reached, if any: steps, epochs, tokens or minutes."""
        if self.share() < 1.0:
            return None
        budget, progress = self.budget, self._progress
        if budget.max_steps is not None and progress.step >= budget.max_steps:
            return "steps"
        if budget.max_epochs is not None and progress.epochs >= budget.max_epochs:
            return "epochs"
        if budget.max_tokens is not None and progress.tokens >= budget.max_tokens:
            return "tokens"
        return "minutes"

    def reserve(self) -> float:
        """Seconds that are needed after the last update, as far as they are known; 0 without max_minutes."""
        if self.budget.max_minutes is None:
            return 0.0
        progress = self._progress
        if progress.validation_seconds:
            return self._last_validations * progress.validation_seconds
        if not progress.tokens:
            return 0.0
        guess = _VALIDATION_COST * self._valid_tokens * progress.elapsed_seconds / progress.tokens
        return min(self._last_validations * guess, _VALIDATION_SHARE * self.budget.max_minutes * 60)

    def must_measure_validation(self) -> bool:
        """Whether it is time to find out how long a validation takes."""
        limit = self.budget.max_minutes
        if limit is None or self._progress.validation_seconds:
            return False
        return self.elapsed() >= _MEASURE_AFTER * limit * 60

    def has_time_for_validation(self) -> bool:
        """Whether the minutes leave time for a validation now, a bit of training, and the last one."""
        if self.budget.max_minutes is None:
            return True
        return self.elapsed() + 2 * self.reserve() < self.budget.max_minutes * 60

    # --- the window between two log lines ---

    def close_window(self) -> None:
        """Move the time since the last look into the window."""
        window, now, waited = self._progress.window, clock(), self._waited()
        window.seconds += now - self._window_start
        window.wait_seconds += waited - self._waited_before
        self._window_start, self._waited_before = now, waited

    def window_seconds(self) -> float:
        """The time of the window up to now."""
        return clock() - self._window_start + self._progress.window.seconds

    @contextlib.contextmanager
    def aside(self, *, validating: bool) -> Iterator[None]:
        """While inside, no time of training passes; forecasts leave out validations besides."""
        self.close_window()
        begin = self._window_start
        try:
            yield
        finally:
            self._window_start = clock()
            if validating:
                self._validating += self._window_start - begin

    # --- the rest of the run ---

    def seconds_left(self) -> float | None:
        """How long the rest of the budget takes at the pace of this session; None while it is not known."""
        share = self.share()
        used = share - self._share_before
        return (1.0 - share) / used * (clock() - self._start) if used > 0 else None

    def forecast(self) -> Forecast | None:
        """What the pace of this session promises; None while it is not known."""
        used, left = self.share() - self._share_before, 1.0 - self.share()
        if used <= 0:
            return None
        progress = self._progress
        seconds = clock() - self._start - self._validating
        total = progress.elapsed_seconds + seconds * left / used
        if self.budget.max_minutes is not None:
            total = min(total, self.budget.max_minutes * 60)
        epochs = progress.epochs + (progress.epochs - self._epochs_before) * left / used
        return Forecast(total, epochs, seconds / self.updates)

    def doubts(self, stopped_by: str, warmup_steps: int) -> list[str]:
        """Why a run that its minutes ended may have learnt too little, with the reasons that can be seen.

        Nothing where the warm-up is over and the data were seen once, or many updates were made.
        """
        progress = self._progress
        few = progress.epochs < 1.0 and progress.step < _MANY_UPDATES
        if stopped_by != "minutes" or not (few or progress.step < warmup_steps):
            return []
        found = [f"the minutes were over after {counted(progress.step, 'update')}"]
        if few:
            found.append(f"{progress.epochs:.0%} of the data were seen")
        if progress.step < warmup_steps:
            found.append(f"the warm-up of {counted(warmup_steps, 'update')} was not over")
        session = max(1e-9, clock() - self._start)
        if self._validating > _MUCH_VALIDATION * session:
            found.append(f"validation took {duration(self._validating)} of {duration(session)}")
        queued = queued_seconds() - self._queued_before
        if queued > _MUCH_QUEUED * session:
            share = min(1.0, queued / session)
            found.append(f"threads waited for a processor for {share:.0%} of the time (see OMP_WAIT_POLICY)")
        return found
