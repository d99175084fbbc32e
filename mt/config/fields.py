"""The schema as a flat list of options: what every check, message and help text walks over.

Contract: `options` names each leaf of a configuration by its dotted key, in the schema's order, with
its type, default, range and description. Nothing here reads a YAML file or a command line.
"""

from __future__ import annotations

import dataclasses
import types
import typing
from dataclasses import dataclass
from enum import Enum
from typing import Any


@dataclass(frozen=True)
class Option:
    """One leaf of the schema.

    Attributes:
        key: dotted name, e.g. ``model.dropout``.
        kind: the type without Optional: int, float, bool, str, an Enum class, or list (of str).
        optional: null is allowed.
        default: the schema's default.
        bounds: range by operator name (gt, ge, lt, le).
        doc: one sentence.
        path: the value names a file or folder.
    """

    key: str
    kind: type[Any]
    optional: bool
    default: Any
    bounds: dict[str, float]
    doc: str
    path: bool

    @property
    def expected(self) -> str:
        """What a value has to be, in words: ``a whole number >= 1, or null``."""
        if issubclass(self.kind, Enum):
            words = "one of " + ", ".join(member.name for member in self.kind)
        else:
            words = {
                int: "a whole number",
                float: "a number",
                bool: "true or false",
                list: "a list [a,b]",
            }.get(self.kind, "text")
        words = f"{words} {self.range}".rstrip()
        return f"{words}, or null" if self.optional else words

    @property
    def range(self) -> str:
        """The range in words: ``>= 0 and < 1``; empty without bounds."""
        signs = {"gt": ">", "ge": ">=", "lt": "<", "le": "<="}
        return " and ".join(f"{signs[name]} {bound:.15g}" for name, bound in self.bounds.items())

    def inside(self, value: float) -> bool:
        """Whether a number lies in the range (NaN lies in none)."""
        tests = {
            "gt": value > self.bounds.get("gt", value),
            "ge": value >= self.bounds.get("ge", value),
            "lt": value < self.bounds.get("lt", value),
            "le": value <= self.bounds.get("le", value),
        }
        return all(tests[name] for name in self.bounds)


def without_optional(hint: Any) -> tuple[Any, bool]:
    """Split ``Optional[X]`` into (X, True), any other annotation X into (X, False)."""
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        inner = [arm for arm in typing.get_args(hint) if arm is not type(None)]
        return inner[0], True
    return hint, False


_KNOWN: dict[type[Any], dict[str, Option]] = {}


def options(schema: type[Any]) -> dict[str, Option]:
    """All leaves of a schema by dotted key."""
    if schema not in _KNOWN:
        _KNOWN[schema] = _read_options(schema)
    return _KNOWN[schema]


def _read_options(schema: type[Any]) -> dict[str, Option]:
    found: dict[str, Option] = {}
    hints = typing.get_type_hints(schema)
    for field in dataclasses.fields(schema):
        hint, optional = without_optional(hints[field.name])
        if dataclasses.is_dataclass(hint):
            assert isinstance(hint, type)
            for leaf in options(hint).values():
                found[f"{field.name}.{leaf.key}"] = dataclasses.replace(leaf, key=f"{field.name}.{leaf.key}")
            continue
        default = field.default_factory() if callable(field.default_factory) else field.default
        kind = typing.get_origin(hint) or hint
        found[field.name] = Option(
            field.name,
            kind,
            optional,
            default,
            dict(field.metadata.get("bounds", {})),
            str(field.metadata.get("doc", "")),
            bool(field.metadata.get("path", False)),
        )
    return found


def sections(schema: type[Any]) -> dict[str, str]:
    """The nested parts of a schema (``model``, ``model.rnn``, ``training`` …) with their descriptions."""
    hints = typing.get_type_hints(schema)
    found: dict[str, str] = {}
    for field in dataclasses.fields(schema):
        part = hints[field.name]
        if dataclasses.is_dataclass(part):
            assert isinstance(part, type)
            found[field.name] = str(field.metadata.get("doc", ""))
            found.update({f"{field.name}.{name}": doc for name, doc in sections(part).items()})
    return found


def value_of(config: Any, key: str) -> Any:
    """The value at a dotted key of a configuration."""
    for name in key.split("."):
        config = getattr(config, name)
    return config


def assign(config: Any, key: str, value: Any) -> None:
    """Set the value at a dotted key of a configuration."""
    *parents, name = key.split(".")
    for parent in parents:
        config = getattr(config, parent)
    setattr(config, name, value)


def show(value: Any) -> str:
    """A value as a user would type it."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, Enum):
        return value.name
    if isinstance(value, list):
        return "[" + ",".join(show(item) for item in value) + "]"
    return str(value)
