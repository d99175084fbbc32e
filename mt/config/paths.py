"""Where the files that come with the code are, whichever way the package got here.

Contract: absolute paths. An installed copy carries the YAML files and the demo corpus beside the code
(``mt/conf``, ``mt/data/demo``); a checkout, also when installed as editable, has them at its top
(``conf``, ``data/demo``).
"""

from __future__ import annotations

from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent.parent


def _find(name: str) -> Path:
    beside = _PACKAGE / name
    return beside if beside.is_dir() else _PACKAGE.parent / name


CONFIG_DIR: Path = _find("conf")
DEMO_DIR: Path = _find("data/demo")
