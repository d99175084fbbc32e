"""SIGTERM, SIGINT and SIGUSR1 during training.

Contract: the first signal is remembered and looked at between two updates, so that a run can save
itself; preparation and validation, which may take longer than the time before a harder signal, are broken
off. The second signal stops at once. The handlers from before are put back. SIGUSR1 is what a SLURM job
is told with before its time is over (``sbatch --signal=USR1@120``).

Not in here: saving.
"""

from __future__ import annotations

import contextlib
import logging
import signal
import threading
import time
from collections.abc import Iterator
from types import FrameType

from mt.errors import MTError

logger = logging.getLogger("mt.training.signals")

# SIGUSR1 does not exist on Windows.
CAUGHT = tuple(
    number for name in ("SIGTERM", "SIGINT", "SIGUSR1") if (number := getattr(signal, name, None)) is not None
)
# torchrun hands its own signal on to its processes, which a terminal or a scheduler has told already: with
# several processes a second signal this soon is the first one again.
_ECHO_SECONDS = 3.0


class Interrupted(MTError):
    """A signal ended the run; what is needed to go on is saved."""

    everywhere = True

    def __init__(self, number: int, message: str) -> None:
        super().__init__(message)
        self.exit_code = 128 + number


class Halted(BaseException):
    """The first signal came where work may be broken off (not for `except Exception` on the way)."""


class Signals:
    """The first signal is remembered, the second stops at once.

    Args:
        echoed: the process is one of several, which may be told of the same signal twice.
    """

    def __init__(self, *, echoed: bool = False) -> None:
        self.received: int | None = None
        self._may_halt = False
        self._deaf_until = 0.0
        self._echo = _ECHO_SECONDS if echoed else 0.0

    @contextlib.contextmanager
    def caught(self) -> Iterator[None]:
        """While inside, the signals come here; only the main thread can take them."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {number: signal.signal(number, self._handle) for number in CAUGHT}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    @contextlib.contextmanager
    def may_halt(self) -> Iterator[None]:
        """While inside, the first signal raises `Halted`; for work that can be done again."""
        self._may_halt = True
        try:
            yield
        finally:
            self._may_halt = False

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self.received is not None:
            if time.monotonic() < self._deaf_until:
                return
            raise Interrupted(number, "stopped at once by a second signal; the last checkpoint is whole")
        self.received = number
        self._deaf_until = time.monotonic() + self._echo
        logger.warning(
            "%s: stopping as soon as all is saved; again to stop at once", signal.Signals(number).name
        )
        if self._may_halt:
            raise Halted
