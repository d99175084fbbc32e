"""Files that a command is asked to write, looked at before the work begins.

Not in here: writing them (`mt.files`).
"""

from __future__ import annotations

from pathlib import Path

from mt.errors import UsageError
from mt.files import try_writing


def check_output(option: str, path: Path) -> None:
    """Refuse a name under which no file can be written.

    Args:
        option: which gave the name.

    Raises:
        UsageError: it is a folder's name, its folder is not there, or the system refuses.
    """
    try:
        if path.is_dir():
            raise UsageError(f"{option}={path}: is a folder; name a file")
        if not path.parent.is_dir():
            raise UsageError(f"{option}={path}: there is no folder {path.parent}; create it first")
        try_writing(path)
    except PermissionError:
        raise UsageError(f"{option}={path}: no permission to write there") from None
    except OSError as error:
        raise UsageError(f"{option}={path}: cannot be written ({error.strerror or error})") from None
