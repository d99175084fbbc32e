"""The process around a command: text encoding, log lines, signals and exit codes.

Contract: `set_up` makes standard output and error UTF-8 whatever the locale, and sends the ``mt``
loggers to standard error. `guarded` runs a command and turns whatever ends it into an exit code:
0 done, 1 failed, 2 wrong usage, 130 interrupted, 143 terminated (138 by SIGUSR1). Standard output is left
to results.
"""

from __future__ import annotations

import contextlib
import errno
import io
import logging
import os
import select
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from types import FrameType
from typing import TextIO

from mt.errors import MTError

_LOGGER = logging.getLogger("mt")

# The name of a thread that may be left behind in a library's code.
LIBRARY_THREAD = "mt-library"

# Not ours to prevent, and without a word from the room that met them: disk full, not allowed, and so on.
_MACHINE_FAULTS = frozenset(
    {errno.ENOSPC, errno.EFBIG, errno.EACCES, errno.EPERM, errno.EROFS, errno.EDQUOT, errno.EIO}
)


def set_up(restart: bool) -> None:
    """Make text go out as UTF-8, and log lines to standard error.

    Args:
        restart: allow the process to be replaced by one in UTF-8 mode. In an ASCII locale Python has
            already misread the command line, and would misread every file name, before our first line
            runs; a new start with the same words is the only complete cure. Nothing was read yet.
    """
    if restart and sys.getfilesystemencoding().lower() in ("ascii", "us-ascii", "ansi_x3.4-1968"):
        words = getattr(sys, "orig_argv", [])
        if words and sys.executable and os.environ.get("PYTHONUTF8") != "1":
            os.execve(sys.executable, [sys.executable, *words[1:]], {**os.environ, "PYTHONUTF8": "1"})
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding="utf-8", errors="backslashreplace")
    _set_up_logging()


class _StandardError(logging.StreamHandler[TextIO]):
    """Log lines for a person: a warning says that it is one, other lines are plain."""

    def format(self, record: logging.LogRecord) -> str:
        text = super().format(record)
        return text if record.levelno < logging.WARNING else f"{record.levelname.lower()}: {text}"


def _set_up_logging() -> None:
    _LOGGER.setLevel(logging.INFO if is_first_process() else logging.WARNING)
    if not any(isinstance(handler, _StandardError) for handler in _LOGGER.handlers):
        _LOGGER.addHandler(_StandardError(sys.stderr))


def _take_down_logging() -> None:
    """Leave the loggers as they were: a command may be called from a program that goes on."""
    _LOGGER.setLevel(logging.NOTSET)
    for handler in [each for each in _LOGGER.handlers if isinstance(each, _StandardError)]:
        _LOGGER.removeHandler(handler)


def is_first_process() -> bool:
    """Whether this process speaks for all of a distributed run."""
    return os.environ.get("RANK", "0") == "0"


def complain(message: str) -> None:
    """Print one error for the user (once for all processes of a distributed run)."""
    if is_first_process():
        print(f"error: {message}", file=sys.stderr)


def guarded(command: Callable[[], int]) -> int:
    """Run a command to its exit code; nothing it raises gets past here."""
    code = _guarded(command)
    if any(thread.name == LIBRARY_THREAD for thread in threading.enumerate()):
        # Broken off while a library works in C++: the usual end of a process would abort there.
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError, ValueError):
                stream.flush()
        os._exit(code)
    return code


def _guarded(command: Callable[[], int]) -> int:
    try:
        with _terminate_as_exit():
            code = command()
            sys.stdout.flush()
        return code
    except MTError as error:
        complain(str(error))
        if os.environ.get("MT_DEBUG") == "1":
            traceback.print_exc()
        return error.exit_code
    except KeyboardInterrupt:
        complain("interrupted")
        return 130
    except SystemExit as stop:
        if isinstance(stop.code, str):
            complain(stop.code)
        return stop.code if isinstance(stop.code, int) else int(stop.code is not None)
    except BrokenPipeError:
        if not _reader_has_gone():
            traceback.print_exc()
            return 1
        _drop_output()  # the reader had enough (`| head`)
        return 0
    except OSError as error:
        if error.errno not in _MACHINE_FAULTS:
            return _bug()
        place = f": {error.filename}" if error.filename else " (standard output)"
        complain(f"{error.strerror}{place}")
        if os.environ.get("MT_DEBUG") == "1":
            traceback.print_exc()
        if not error.filename:
            _drop_output()
        return 1
    except Exception:
        return _bug()
    finally:
        _take_down_logging()


def _bug() -> int:
    traceback.print_exc()
    complain("this is a bug; please report the lines above together with your command")
    return 1


def _drop_output() -> None:
    """What standard output still holds can't go anywhere: let Python not try again when it exits."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _reader_has_gone() -> bool:
    """Whether standard output is a pipe without a reader (true where that can't be told)."""
    if not hasattr(select, "poll"):
        return True
    try:
        poll = select.poll()
        poll.register(sys.stdout.fileno(), 0)
        return any(event & (select.POLLERR | select.POLLHUP) for _, event in poll.poll(0))
    except (OSError, ValueError):
        return True


@contextlib.contextmanager
def _terminate_as_exit() -> Iterator[None]:
    """SIGTERM and SIGUSR1 unwind the stack, so that files aside are cleaned up, and end in 128 + number."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(number: int, frame: FrameType | None) -> None:
        raise SystemExit(128 + number)

    names = ("SIGTERM", "SIGUSR1")  # the second does not exist on Windows
    numbers = [getattr(signal, name) for name in names if hasattr(signal, name)]
    before = {number: signal.signal(number, stop) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
