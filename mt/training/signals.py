"""SIGTERM and SIGINT during training.

Contract: the first signal is remembered and looked at between two updates, so that a run can save
itself; a validation, which may take longer than the time before a harder signal, is broken off. The
second signal stops at once. The handlers from before are put back.

Not in here: saving.
"""

from __future__ import annotations

import contextlib
import logging
import signal
import threading
from collections.abc import Iterator
from types import FrameType

from mt.errors import MTError

logger = logging.getLogger("mt.training.signals")


class Interrupted(MTError):
    """A signal ended the run; what is needed to go on is saved."""

    def __init__(self, number: int, message: str) -> None:
        super().__init__(message)
        self.exit_code = 128 + number


class Halted(BaseException):
    """The first signal came where work may be broken off (not for `except Exception` on the way)."""


class Signals:
    """SIGTERM and SIGINT: the first is remembered, the second stops at once."""

    def __init__(self) -> None:
        self.received: int | None = None
        self._may_halt = False

    @contextlib.contextmanager
    def caught(self) -> Iterator[None]:
        """While inside, the signals come here; only the main thread can take them."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        numbers = (signal.SIGTERM, signal.SIGINT)
        before = {number: signal.signal(number, self._handle) for number in numbers}
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
            raise Interrupted(number, "stopped at once by a second signal; the last checkpoint is whole")
        self.received = number
        logger.warning("%s: saving, then stopping; again to stop at once", signal.Signals(number).name)
        if self._may_halt:
            raise Halted
