"""The text of ``--help``, made from the schema and the YAML files.

Contract: every option appears with its type, default, range and description, and every group with its
choices. The default shown is the one a plain command line composes to.
"""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

from mt.config.fields import Option, options, sections, show, value_of
from mt.config.paths import CONFIG_DIR

_FLAGS = [
    ("--help, -h", "this text"),
    ("--version", "the program's version"),
    ("--multirun, -m", "run one job for each combination of values separated by commas"),
    ("--cfg, -c job", "print the composed options as YAML and stop (also: hydra, all)"),
    ("--config-dir, -cd DIR", "a folder with YAML files of your own, laid out like conf/"),
    ("--config-name, -cn NAME", "another root YAML file"),
    ("--info, --hydra-help", "about Hydra, which composes the configuration"),
]

_WIDTH = 100


def help_text(
    command: str, about: str, schema: type[Any], defaults: Any, groups: Mapping[str, Sequence[str]]
) -> str:
    """The whole help of one command.

    Args:
        command: how it is called, e.g. ``python -m mt.train``.
        about: one paragraph.
        schema: its options.
        defaults: the configuration of a plain command line.
        groups: choices by group.
    """
    lines = [f"Usage: {command} [KEY=VALUE ...] [GROUP=CHOICE ...] [FLAGS]", "", *_wrapped(about, ""), ""]
    if groups:
        lines += ["Groups (a choice sets several options at once; options given one by one win):", ""]
        for group, choices in groups.items():
            line = f"  {group}={'|'.join(choices)}"
            lines.append(line if len(line) <= _WIDTH else f"  {group}=")
            lines += [f"      {choice}: {_first_comment(group, choice)}" for choice in choices]
        lines.append("")
    leaves = options(schema)
    top = [option for key, option in leaves.items() if "." not in key]
    lines += ["Options:", ""]
    for option in top:
        lines += _described(option, defaults)
    for section, doc in sections(schema).items():
        lines += ["", f"{section}: {doc}", ""]
        for key, option in leaves.items():
            if key.rpartition(".")[0] == section:
                lines += _described(option, defaults)
    lines += ["", "Flags:", ""]
    lines += [f"  {flag:<26}{doc}" for flag, doc in _FLAGS]
    lines += [
        "",
        "Values: null is no value, [a,b] a list; quote what holds , = # or spaces: 'data.root=\"a,b\"'.",
        "Environment: MT_DEBUG=1 shows the traceback of an error.",
        "Exit codes: 0 done, 1 failed, 2 wrong command line or options, 130 and 143 interrupted.",
    ]
    return "\n".join(lines) + "\n"


def _described(option: Option, defaults: Any) -> list[str]:
    default = show(value_of(defaults, option.key))
    return [f"  {option.key}={default}  ({option.expected})", *_wrapped(option.doc, " " * 6)]


def _wrapped(text: str, indent: str) -> list[str]:
    return textwrap.wrap(text, _WIDTH, initial_indent=indent, subsequent_indent=indent)


def _first_comment(group: str, choice: str) -> str:
    """What a YAML file says it is, in its first comment (the ``@package`` line aside)."""
    path = CONFIG_DIR / group / f"{choice}.yaml"
    if not path.is_file():
        return "(yours)"
    words: list[str] = []
    for line in path.read_text(encoding="utf-8").splitlines():
        if not line.startswith("#"):
            break
        if not line.startswith("# @package"):
            words.append(line.lstrip("# "))
    return textwrap.shorten(" ".join(words), _WIDTH - 10 - len(choice), placeholder=" …")
