"""Where the YAML files are, whichever way the package got here.

Contract: `CONFIG_DIR` is an absolute path. An installed copy carries the files beside the code
(``mt/conf``); a checkout, also when installed as editable, has them at its top (``conf``).
"""

from __future__ import annotations

from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent.parent


def _find() -> Path:
    beside = _PACKAGE / "conf"
    return beside if beside.is_dir() else _PACKAGE.parent / "conf"


CONFIG_DIR: Path = _find()
