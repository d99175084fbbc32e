"""Quotes for Hydra's grammar, and for the shell around it.

Contract: `quoted` lets a path be typed as it is: letters outside ASCII and ``~`` have no place in Hydra's
grammar, and ``\\\\`` would become one backslash. The words that `text_word`, `list_word` and
`meant_list_word` make are for messages: pasted into a shell they are read as what they say.
Not in here: what is wrong with a word.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable

from hydra.core.override_parser.types import Quote, QuotedString

_QUOTED = r"'(?:\\.|[^'\\])*'" r'|"(?:\\.|[^"\\])*"'
# One item of a list as it was probably meant: quoted as a whole, or up to the next comma.
_ITEM = rf"(?:{_QUOTED})(?=\s*(?:,|$))|[^,]+"
_PARTNERS = {"]": "[", "}": "{", ")": "("}
# Needs no quotes in a list.
_NAME = r"(?!(?i:true|false|null|nan|inf)$)[A-Za-z_./][A-Za-z0-9_./-]*"


def quoted(word: str) -> str:
    r"""Put quotes around the runs of a value that hold letters outside ASCII, ``~``, or ``\\``.

    ``in=données/a.fr,b.fr`` becomes ``in='données/a.fr',b.fr``: commas, brackets, parts that are quoted
    already, and every word without such letters stay as they are.
    """
    key, equals, value = word.partition("=")
    if not equals or _plain_text(value):
        return word
    if any(mark in value for mark in "=(){}"):
        # A nested value or a function: which parts are text is the grammar's to say, not ours.
        return word
    parts = re.findall(rf"""{_QUOTED}|[\[\],]|[^\[\],'"]+|.""", value, re.DOTALL)
    return key + equals + "".join(_quoted_part(part) for part in parts)


def _quoted_part(part: str) -> str:
    if part[0] in "'\"[]," or _plain_text(part):
        return part
    return as_text(part.strip())


def _plain_text(text: str) -> bool:
    """Whether Hydra's grammar reads a text as it stands, as far as its letters go."""
    return text.isascii() and "~" not in text and "\\\\" not in text


def unpaired(value: str) -> str | None:
    """What stands without its partner in a value, in words: a quote, or a bracket outside of quotes."""
    if value.count("'") % 2 or value.count('"') % 2:
        return "quote"
    opened: list[str] = []
    for mark in re.sub(_QUOTED, "", value):
        if mark in _PARTNERS.values():
            opened.append(mark)
        elif mark in _PARTNERS and (not opened or opened.pop() != _PARTNERS[mark]):
            return f"'{mark}'"
    return f"'{opened[-1]}'" if opened else None


def as_text(text: str, quote: Quote = Quote.single) -> str:
    """Any text as one value of Hydra's grammar."""
    return QuotedString(text, quote).with_quotes()


def text_word(key: str, value: str) -> str:
    """A word that sets an option to one text, quoted for Hydra and for the shell."""
    return shlex.quote(f"{key}={as_text(_unquoted(value) or 'TEXT', Quote.double)}")


def meant_list_word(key: str, value: str) -> str:
    """A word that sets an option to a list, quoted likewise; without brackets it is a list of one."""
    items = [value]
    if value.startswith("["):
        items = re.findall(_ITEM, value.removeprefix("[").removesuffix("]")) or ["TEXT"]
    return list_word(key, [_unquoted(item.strip()) for item in items])


def list_word(key: str, items: Iterable[str]) -> str:
    """A word that sets an option to a list of these texts, quoted likewise."""
    shown = [item if re.fullmatch(_NAME, item) else as_text(item or "TEXT", Quote.double) for item in items]
    return shlex.quote(f"{key}=[{','.join(shown)}]")


def _unquoted(value: str) -> str:
    """A text without the quotes around it, or without the only one where its partner was forgotten."""
    for mark in "'\"":
        ends = value.startswith(mark) + (len(value) > 1 and value.endswith(mark))
        if ends == 2 or (ends == 1 and value.count("'") + value.count('"') == 1):
            return value[value.startswith(mark) : len(value) - value.endswith(mark)]
    return value
