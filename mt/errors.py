"""The errors a user can cause, one class per kind, each with its exit code.

Contract: everything that a user's input (text, file, option) can make go wrong is raised as an
`MTError` whose message says what, where and the way out. Entry points print the message alone
(the traceback only with ``MT_DEBUG=1``) and exit with `exit_code`. Anything else that escapes is a
bug of ours and keeps its traceback. `printable` is for what a message repeats of the outside world.
"""

from __future__ import annotations

import re
from collections.abc import Sequence


class MTError(Exception):
    """A problem the user can solve; the message is complete and stands alone.

    Attributes:
        everywhere: all processes of a run meet it at once, so that one of them has to tell it.
    """

    exit_code = 1
    everywhere = False


class UsageError(MTError):
    """The command line is wrong."""

    exit_code = 2


class ConfigError(MTError):
    """One or more options are wrong; all of them are named at once.

    Args:
        problems: one sentence per problem, each naming its key and value.
    """

    exit_code = 2
    everywhere = True

    def __init__(self, problems: Sequence[str]) -> None:
        self.problems = list(problems)
        if len(self.problems) == 1:
            message = self.problems[0]
        else:
            listed = "\n".join(f"  - {problem}" for problem in self.problems)
            message = f"{len(self.problems)} problems in the configuration:\n{listed}"
        super().__init__(message)


class DataError(MTError):
    """A corpus file is missing, unreadable or inconsistent."""


class TokenizerError(MTError):
    """A tokenizer cannot be trained, read, or does not fit the model."""


class CheckpointError(MTError):
    """A run folder or checkpoint is missing, damaged or does not fit."""


def printable(text: object) -> str:
    """Text for a message or a log line: control characters become escapes, the rest stays as typed."""

    def escape(match: re.Match[str]) -> str:
        code = ord(match.group())
        return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"

    return re.sub(
        "[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]", escape, str(text)
    )
