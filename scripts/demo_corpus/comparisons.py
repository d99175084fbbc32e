"""Comparatives and superlatives of adjectives, verbs and amounts."""

from __future__ import annotations

from dataclasses import replace

from . import morphology as m
from .clauses import assemble, french_question, statement
from .grammar import (
    Clause,
    Nominal,
    Reject,
    Writer,
    english_inverted,
    french_agree,
    noun_phrase,
    pick_adjective,
    without,
)
from .lexicon import Verb
from .people import ETRE, Pair, name, relative_of, subject_person
from .things import _UNIQUE, kin
from .times import NO_TIME, Setting, setting

PERSONS_THAN = (
    ("moi", "me"),
    ("toi", "you"),
    ("lui", "him"),
    ("elle", "her"),
    ("nous", "us"),
    ("vous", "you"),
    ("eux", "them"),
)


def than_whom(w: Writer, subject: Nominal) -> tuple[str, str]:
    if w.chance(0.4):
        fr, en = w.one(PERSONS_THAN)
        if {"je": "moi", "tu": "toi", "il": "lui", "elle": "elle", "ils": "eux"}.get(
            subject.fr, subject.fr
        ) == fr:
            raise Reject("than oneself")
        return fr, en
    other = kin(w, subject)
    if other.fr == subject.fr:
        raise Reject("than oneself")
    return other.fr, other.en


def comparison(w: Writer, fr: str, adjective_fr: str, adjective_en: str) -> tuple[str, str]:
    """Inflected French and the English of more, less, as: returns up to but not including the standard."""
    kind = w.weighted((5, "plus"), (2, "moins"), (3, "aussi"))
    if kind == "plus":
        better = {"bon": "meilleur", "bons": "meilleurs", "bonne": "meilleure", "bonnes": "meilleures"}
        return f"{better.get(fr, f'plus {fr}')} que", f"{m.english_degree(adjective_en, False)} than"
    if kind == "moins":
        return f"moins {fr} que", f"less {adjective_en} than"
    return f"aussi {fr} que", f"as {adjective_en} as"


def k_compare(w: Writer) -> Pair:
    kind = w.weighted((5, "person"), (4, "thing"), (3, "verb"), (2, "quantity"), (4, "most"))
    s = w.weighted((6, Setting("p", "pres")), (2, Setting("i", "past")), (1, Setting("p", "pres", neg="pas")))
    if kind == "person":
        subject = subject_person(w, short=True)
        if subject.fr == "on":
            raise Reject("agreement with on")
        options = [
            a
            for a in w.lexicon.adjectives
            if "person" in a.groups and a.position != "pred" and a.en not in ("little", "blond")
        ]
        a = w.rare(options) if w.chance(0.9) else next(a for a in options if a.fr == "grand")
        w.lemma(a.fr, a.en)
        w.lemma("que", "than")
        fr, en = comparison(w, french_agree(a, subject.gender, subject.plural), a.fr, a.en)
        other = than_whom(w, subject)
        c = Clause(subject, ETRE, fr_object=f"{fr} {other[0]}", en_object=f"{en} {other[1]}")
        c = assemble(w, c, s)
        if w.chance(0.15):
            c = without(c, "neg")
            return Pair(french_question(w, c), english_inverted(c), "?")
        return statement(c)
    if kind == "thing":
        return compare_things(w, s)
    if kind == "verb":
        return compare_verbs(w)
    if kind == "quantity":
        return compare_quantities(w)
    return most(w)


def compare_things(w: Writer, s: Setting) -> Pair:
    noun = w.rare(
        [
            n
            for n in w.lexicon.nouns
            if n.group in ("clothing", "vehicle", "text", "building", "show", "object")
            and not n.mass
            and n.fr not in ("taxi", "avion", "train", "bus", "métro", "tramway")
        ]
    )
    det = w.one(("own", "dem", "def"))
    subject = noun_phrase(w, noun, det, owner="my", plural=noun.plural_only)
    a = pick_adjective(w, noun, ("pre", "post"))
    if (
        a.groups == ("nation",)
        or "colored" in a.groups
        or a.fr
        in (
            "nouveau",
            "magnifique",
            "vide",
            "rond",
            "cassé",
            "immense",
            "sauvage",
            "délicieux",
            "mauvais",
            "petit",
            "bon",
            "historique",
        )
    ):
        raise Reject("not compared")
    w.bond("adj", a.fr, noun.fr)
    w.lemma(a.fr, a.en)
    fr, en = comparison(w, french_agree(a, subject.gender, subject.plural), a.fr, a.en)
    feminine, plural = noun.gender == "f", subject.plural
    that = {(False, False): "celui", (True, False): "celle", (False, True): "ceux", (True, True): "celles"}[
        feminine, plural
    ]
    if w.chance(0.5) and noun.group not in ("building", "show"):
        who = name(w)
        other = (f"{that} de {who.fr}", who.genitive)
    elif det == "own" and w.chance(0.7):
        other = {
            "celui": ("le tien", "yours"),
            "celle": ("la tienne", "yours"),
            "ceux": ("les tiens", "yours"),
            "celles": ("les tiennes", "yours"),
        }[that]
    else:
        second = w.rare(
            [n for n in w.lexicon.nouns if n.group == noun.group and not n.mass and not n.plural_only]
        )
        if second.fr == noun.fr:
            raise Reject("than itself")
        if not any(g == second.group or g in second.classes for g in a.groups):
            raise Reject("second does not fit")
        found = noun_phrase(w, second, det, owner="my")
        other = (found.fr, found.en)
    return statement(
        assemble(w, Clause(subject, ETRE, fr_object=f"{fr} {other[0]}", en_object=f"{en} {other[1]}"), s)
    )


def compare_verbs(w: Writer) -> Pair:
    subject = subject_person(w, short=True)
    how = {
        "travailler": ("plus", "moins", "autant", "mieux", "vite"),
        "dormir": ("plus", "moins", "autant", "mieux"),
        "courir": ("vite", "plus"),
        "marcher": ("vite", "plus"),
        "nager": ("mieux", "vite"),
        "chanter": ("mieux",),
        "danser": ("mieux",),
        "cuisiner": ("mieux",),
        "conduire": ("mieux", "vite"),
        "voyager": ("plus", "moins"),
        "parler": ("plus", "moins", "vite"),
        "manger": ("plus", "moins", "autant", "vite"),
        "lire": ("plus", "autant"),
        "rire": ("plus",),
        "fumer": ("moins",),
    }
    verb = w.rare(sorted(how), "compared")
    en = {
        "travailler": "work",
        "dormir": "sleep",
        "courir": "run",
        "marcher": "walk",
        "nager": "swim",
        "chanter": "sing",
        "danser": "dance",
        "cuisiner": "cook",
        "conduire": "drive",
        "voyager": "travel",
        "parler": "talk",
        "manger": "eat",
        "lire": "read",
        "rire": "laugh",
        "fumer": "smoke",
    }[verb]
    word = w.one(how[verb])
    fr_how, en_how = {
        "plus": ("plus que", "more than"),
        "moins": ("moins que", "less than"),
        "autant": ("autant que", "as much as"),
        "mieux": ("mieux que", "better than"),
        "vite": ("plus vite que", "faster than"),
    }[word]
    other = than_whom(w, subject)
    s = w.weighted((6, Setting("p", "pres")), (2, Setting("pc", "past")), (1, Setting("f", "fut")))
    w.lemma(verb, en)
    c = Clause(
        subject,
        Verb(verb, en, frozenset(), ("person",), ()),
        fr_object=f"{fr_how} {other[0]}",
        en_object=f"{en_how} {other[1]}",
    )
    return statement(assemble(w, c, s))


def compare_quantities(w: Writer) -> Pair:
    subject = subject_person(w, short=True)
    verb = w.rare(
        [
            v
            for v in [*w.lexicon.transitive, *w.lexicon.like]
            if v.fr in ("manger", "acheter", "vendre", "lire", "écrire", "avoir", "boire", "recevoir")
        ],
        "verb",
    )
    noun = w.rare(w.lexicon.by_class[w.one(verb.objects)])
    if not noun.mass and noun.plural_only and verb.fr == "avoir":
        raise Reject("kept out")
    if noun.fr in ("télévision", "réfrigérateur", "four", "tapis") or (
        noun.mass and noun.group not in ("food", "drink") and noun.fr != "argent"
    ):
        raise Reject("odd quantity")
    what = noun_phrase(w, noun, "bare", plural=not noun.mass)
    w.bond(verb.fr, noun.fr)
    other = than_whom(w, subject)
    kind = w.weighted((4, "plus"), (2, "moins"), (2, "autant"))
    fewer = "less" if noun.mass else "fewer"
    as_many = "as much" if noun.mass else "as many"
    fr, en = {"plus": ("plus de", "more"), "moins": ("moins de", fewer), "autant": ("autant de", as_many)}[
        kind
    ]
    than = "as" if kind == "autant" else "than"
    s = setting(w, verb, names=("past", "habit", "state", "statepast", "future"))
    s = replace(s, neg="", time=NO_TIME, mid=("", ""))
    c = Clause(
        subject,
        verb,
        fr_object=f"{fr} {what.fr} que {other[0]}",
        en_object=f"{en} {what.en} {than} {other[1]}",
    )
    w.lemma(verb.fr, verb.en)
    return statement(assemble(w, c, s))


SCOPES = (
    ("de la ville", "in the city"),
    ("du pays", "in the country"),
    ("du quartier", "in the neighborhood"),
    ("du monde", "in the world"),
    ("de la région", "in the region"),
    ("du village", "in the village"),
)


def most(w: Writer) -> Pair:
    """The superlative: before the noun (*le plus beau pont*), after it (*le film le plus drôle*), or
    alone.
    """
    if w.chance(0.35):
        subject = name(w) if w.chance(0.5) else relative_of(w)
        if subject.plural:
            raise Reject("one winner")
        a = w.rare(
            [
                a
                for a in w.lexicon.adjectives
                if "person" in a.groups and a.position != "pred" and a.en not in ("little", "blond", "old")
            ]
        )
        fr_a = french_agree(a, subject.gender, False)
        scope = w.one(
            (
                ("de la classe", "in the class"),
                ("de la famille", "in the family"),
                ("de l'équipe", "on the team"),
                ("du groupe", "in the group"),
            )
        )
        article = "la" if subject.gender == "f" else "le"
        w.lemma(a.fr, a.en)
        degree = m.english_degree(a.en, True)
        s = w.weighted((4, Setting("p", "pres")), (1, Setting("i", "past")))
        return statement(
            assemble(
                w,
                Clause(
                    subject,
                    ETRE,
                    fr_object=f"{article} plus {fr_a} {scope[0]}",
                    en_object=f"the {degree} {scope[1]}",
                ),
                s,
            )
        )
    noun = w.rare(
        [
            n
            for n in w.lexicon.nouns
            if n.group in ("building", "text", "show", "vehicle", "nature", "animal")
            and not n.mass
            and not n.plural_only
            and n.fr not in _UNIQUE
            and n.fr != "page"
        ]
    )
    a = pick_adjective(w, noun, ("pre", "post"))
    if (
        a.groups == ("nation",)
        or "colored" in a.groups
        or a.fr
        in (
            "nouveau",
            "magnifique",
            "immense",
            "sauvage",
            "bon",
            "mauvais",
            "blanc",
            "noir",
            "cassé",
            "petit",
            "jeune",
            "gros",
            "vide",
            "léger",
        )
    ):
        raise Reject("no superlative")
    w.lemma(a.fr, a.en)
    w.lemma(noun.fr, noun.en)
    w.bond("adj", a.fr, noun.fr)
    feminine = noun.gender == "f"
    article = "la" if feminine else "le"
    fr_a = french_agree(a, noun.gender, False, noun.fr if a.position == "pre" else "")
    degree = m.english_degree(a.en, True)
    scope = w.one(SCOPES) if noun.group in ("building",) else w.one((("du monde", "in the world"), ("", "")))
    if noun.fr in ("pays", "ville") and "world" not in scope[1]:
        scope = ("du monde", "in the world")
    if noun.fr in ("quartier", "rue") and scope[1] != "in the city":
        scope = ("de la ville", "in the city")
    if a.position == "pre":
        fr = f"{article} plus {fr_a} {noun.fr} {scope[0]}"
    else:
        fr = f"{article} {noun.fr} {article} plus {fr_a} {scope[0]}"
    en = f"the {degree} {noun.en} {scope[1]}"
    if w.chance(0.6):
        return Pair(f"c'est {fr}", f"this is {en}")
    subject = subject_person(w, short=True)
    verbs = {
        "building": "visiter",
        "text": "lire",
        "show": "regarder",
        "vehicle": "choisir",
        "nature": "explorer",
        "animal": "voir",
    }
    verb_fr = verbs[noun.group]
    verb = next(v for v in w.lexicon.transitive if v.fr == verb_fr)
    if noun.group not in ("vehicle", "animal") and not set(verb.objects) & noun.classes:
        raise Reject("does not fit")
    s = setting(w, verb, names=("past", "future"))
    c = Clause(subject, verb, fr_object=fr, en_object=en)
    return statement(assemble(w, c, replace(s, neg="")))
