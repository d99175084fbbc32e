"""Who acts: names, pronouns, family, professions; and the few verbs that the grammar itself needs."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from . import lexicon as words
from .grammar import Head, Nominal, Reject, Writer, noun_phrase, pick_adjective, pronoun, third_person
from .lexicon import Verb
from .load import pairs, rows


@dataclass(frozen=True)
class Pair:
    """A sentence before `surface`: words in order, and how it ends."""

    fr: str
    en: str
    end: str = "."


MALE = words.NAMES_MALE.split()


FEMALE = words.NAMES_FEMALE.split()


ETRE = Verb("être", "be", frozenset({"state"}), ("person",), ())


SEEM = Verb("sembler", "seem", frozenset({"state"}), ("person",), ())


BECOME = Verb("devenir", "become", frozenset({"etre"}), ("person",), ())


GO = Verb("aller", "go", frozenset({"etre", "big"}), ("person",), ())


GO_PLACE = Verb("aller", "go", frozenset({"etre", "toplace"}), ("person",), ())


# Tenses in English: `grammar.english_group` drops these heads.
RECENT = Head("venir", "de", "", "")


GOING = Head("aller", "", "", "")


PROGRESS = Head("être en train", "de", "", "")


@cache
def table(name: str) -> list[tuple[str, str]]:
    """A two-column table of the lexicon."""
    return pairs(getattr(words, name))


@cache
def heads() -> list[Head]:
    return [Head(f[0], f[1], f[2], f[3], "state" in f[4]) for f in rows(words.HEADS)]


def head(fr: str) -> Head:
    return next(h for h in heads() if h.fr == fr)


def name(w: Writer, gender: str = "") -> Nominal:
    gender = gender or w.one(("m", "f"))
    first = w.rare(MALE if gender == "m" else FEMALE)
    w.lemma(first, first)
    return third_person(first, first, plural=False, gender=gender, kind="name", key=first)


def titled(w: Writer) -> Nominal:
    surname = w.rare(words.SURNAMES.split(), "surname")
    w.lemma(surname, surname)
    if w.chance(0.5):
        return third_person(
            f"monsieur {surname}", f"Mr. {surname}", plural=False, gender="m", kind="name", key="M"
        )
    return third_person(
        f"madame {surname}", f"Mrs. {surname}", plural=False, gender="f", kind="name", key="Mme"
    )


def two_names(w: Writer) -> Nominal:
    a, b = name(w), name(w)
    if a.fr == b.fr:
        raise Reject("one person twice")
    gender = "f" if a.gender == b.gender == "f" else "m"
    return third_person(
        f"{a.fr} et {b.fr}", f"{a.en} and {b.en}", plural=True, gender=gender, kind="name", key=""
    )


def relative_of(w: Writer, owner: str = "", *, of_name: bool = False) -> Nominal:
    """A member of somebody's family."""
    noun = w.rare(w.lexicon.by_group["family"])
    if of_name:
        return noun_phrase(w, noun, "def", possessor=name(w))
    owner = owner or w.weighted((5, "my"), (2, "your"), (2, "vous"), (2, "our"), (1, "their"))
    if owner in ("our", "their") and noun.fr in ("mari", "femme"):
        raise Reject("one each")
    plural = not noun.plural_only and "single" not in noun.classes and w.chance(0.2)
    return noun_phrase(w, noun, "own", plural=plural, owner=owner)


def someone(w: Writer, *, adjective: float = 0.2, plural: float = 0.25) -> Nominal:
    """A person by a common noun: *le médecin*, *une vieille dame*."""
    noun = w.rare(w.lexicon.by_group["person"])
    adjectives = [pick_adjective(w, noun, ("pre", "post"))] if w.chance(adjective) else []
    det = w.weighted((7, "def"), (1.5, "dem"), (0.5, "that")) if noun.fr != "gens" else "dem"
    if noun.fr in ("roi", "reine", "prince", "princesse"):
        det = "def"
    return noun_phrase(w, noun, det, plural=w.chance(plural), adjectives=adjectives)


def subject_person(w: Writer, *, short: bool = False) -> Nominal:
    if w.chance(0.46):
        return subject_pronoun(w)
    kind = w.weighted((36, "name"), (18, "family"), (6, "of"), (24, "someone"), (8, "two"), (6, "titled"))
    if short and kind in ("two", "of"):
        kind = "name"
    if kind == "name":
        return name(w)
    if kind == "family":
        return relative_of(w)
    if kind == "of":
        return relative_of(w, of_name=True)
    if kind == "two":
        return two_names(w)
    if kind == "titled":
        return titled(w)
    return someone(w, adjective=0 if short else 0.2)


def subject_pronoun(w: Writer) -> Nominal:
    fr = w.weighted(
        (22, "je"),
        (14, "tu"),
        (14, "il"),
        (14, "elle"),
        (5, "on"),
        (12, "nous"),
        (11, "vous"),
        (7, "ils"),
        (5, "elles"),
    )
    return pronoun(fr, w.weighted((2, "m"), (1, "f")))


def echo(subject: Nominal) -> Nominal:
    """The pronoun that takes a subject up again."""
    if subject.kind == "pronoun":
        return subject
    if subject.human and not subject.owner_en:
        raise Reject("he or she?")
    if not subject.human:
        raise Reject("it is kept out of subject position")
    return pronoun(subject.clitic)


def class_subject(w: Writer, wanted: tuple[str, ...]) -> Nominal:
    """The subject that a verb asks for."""
    kind = w.rare(wanted, "subjectkind")
    if kind == "person":
        return subject_person(w)
    if kind == "man":
        return name(w, "m") if w.chance(0.6) else relative_of_man(w)
    noun = w.rare(w.lexicon.by_class[kind])
    if noun.mass:
        return noun_phrase(w, noun, "def")
    det = "def"
    if noun.group in ("animal", "object", "vehicle") and w.chance(0.5):
        det = w.weighted((3, "own"), (2, "dem"))
        if det == "own" and ("wild" in noun.classes or "transport" in noun.classes or "farm" in noun.classes):
            det = "def"
    owner = w.weighted((3, "my"), (1, "our"), (1, "your"), (1, "vous"), (1, "their"))
    adjectives = []
    if w.chance(0.15):
        adjectives = [pick_adjective(w, noun, ("pre", "post"))]
    return noun_phrase(w, noun, det, plural=w.chance(0.3), owner=owner, adjectives=adjectives)


def relative_of_man(w: Writer) -> Nominal:
    noun = w.rare([n for n in w.lexicon.by_group["family"] if n.gender == "m" and not n.plural_only])
    return noun_phrase(w, noun, "own", owner="my")


def asked_person(w: Writer) -> Nominal:
    """The subject of a question: seldom oneself."""
    subject = subject_person(w, short=True)
    if subject.fr in ("je", "nous", "on") and w.chance(0.85):
        raise Reject("one knows that")
    return subject


def third(w: Writer) -> Nominal:
    return name(w) if w.chance(0.5) else relative_of(w, "my")
