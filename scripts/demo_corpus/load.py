"""Reads the tables of `lexicon` into entries. No word lives in here."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from . import lexicon
from .lexicon import Adjective, Noun, Place, Region, Verb


def rows(table: str) -> list[list[str]]:
    """The non-empty lines of a table, split at ``;`` and stripped."""
    return [[field.strip() for field in line.split(";")] for line in table.splitlines() if line.strip()]


def pairs(table: str) -> list[tuple[str, str]]:
    """A two-column table."""
    return [(fields[0], fields[1]) for fields in rows(table)]


def _noun(group: str, fields: list[str]) -> Noun:
    fields = [*fields, *[""] * (5 - len(fields))]
    options = fields[4].split(",") if fields[4] else []
    named = dict(option.split("+=") for option in options if "+=" in option)
    return Noun(
        fr=fields[0],
        gender=fields[1],
        en=fields[2],
        group=group,
        classes=frozenset(fields[3].split()),
        mass="mass" in options,
        plural_only="pl" in options,
        fr_plural=named.get("fr", ""),
        en_plural=named.get("en", ""),
    )


def _verb(fields: list[str]) -> Verb:
    fields = [*fields, *[""] * (6 - len(fields))]
    return Verb(
        fr=fields[0],
        en=fields[1],
        flags=frozenset(fields[2].split()),
        subjects=tuple(fields[3].split()),
        objects=tuple(fields[4].split()),
        prep=fields[5],
    )


def _intransitive(fields: list[str]) -> Verb:
    return Verb(
        fr=fields[0],
        en=fields[1],
        flags=frozenset(fields[2].split()) | frozenset(fields[4].split() if len(fields) > 4 else ()),
        subjects=tuple(fields[3].split()),
        objects=(),
    )


def _country(fields: list[str]) -> Region:
    fr, en, article = fields
    bare_in_english = en
    if article in ("la", "l'"):
        direct = f"la {fr}" if article == "la" else f"l'{fr}"
        return Region(fr, en, direct, f"en {fr}", f"de {fr}", bare_in_english, city=False)
    if article == "le":
        return Region(fr, en, f"le {fr}", f"au {fr}", f"du {fr}", bare_in_english, city=False)
    return Region(fr, en, f"les {fr}", f"aux {fr}", f"des {fr}", bare_in_english, city=False)


def _city(fields: list[str]) -> Region:
    fr, en = fields
    if fr.startswith("Le "):
        bare = fr.removeprefix("Le ")
        return Region(fr, en, fr, f"au {bare}", f"du {bare}", en, city=True)
    return Region(fr, en, fr, f"à {fr}", f"de {fr}", en, city=True)


@dataclass(frozen=True)
class Lexicon:
    """All entries, indexed as the grammar asks for them."""

    @cached_property
    def nouns(self) -> list[Noun]:
        return [_noun(group, fields) for group, table in lexicon.NOUNS.items() for fields in rows(table)]

    @cached_property
    def by_class(self) -> dict[str, list[Noun]]:
        index: dict[str, list[Noun]] = {}
        for noun in self.nouns:
            for name in sorted(noun.classes):
                index.setdefault(name, []).append(noun)
        return index

    @cached_property
    def by_group(self) -> dict[str, list[Noun]]:
        index: dict[str, list[Noun]] = {}
        for noun in self.nouns:
            index.setdefault(noun.group, []).append(noun)
        return index

    @cached_property
    def adjectives(self) -> list[Adjective]:
        return [Adjective(f[0], f[1], f[2], tuple(f[3].split())) for f in rows(lexicon.ADJECTIVES)]

    @cached_property
    def transitive(self) -> list[Verb]:
        return [_verb(fields) for fields in rows(lexicon.VERBS_TRANSITIVE)]

    @cached_property
    def like(self) -> list[Verb]:
        return [_verb(fields) for fields in rows(lexicon.VERBS_LIKE)]

    @cached_property
    def indirect(self) -> list[Verb]:
        return [_verb(fields) for fields in rows(lexicon.VERBS_INDIRECT)]

    @cached_property
    def give(self) -> list[Verb]:
        return [_verb(fields) for fields in rows(lexicon.VERBS_GIVE)]

    @cached_property
    def intransitive(self) -> list[Verb]:
        return [_intransitive(fields) for fields in rows(lexicon.VERBS_INTRANSITIVE)]

    @cached_property
    def places(self) -> list[Place]:
        return [Place(*f[:6], frozenset(f[6].split())) for f in rows(lexicon.PLACES)]

    @cached_property
    def countries(self) -> list[Region]:
        return [_country(fields) for fields in rows(lexicon.COUNTRIES)]

    @cached_property
    def cities(self) -> list[Region]:
        return [_city(fields) for fields in rows(lexicon.CITIES)]

    @cached_property
    def numbers(self) -> list[tuple[str, str, int]]:
        return [(f[0], f[1], int(f[2])) for f in rows(lexicon.NUMBERS)]
