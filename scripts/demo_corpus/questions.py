"""Yes/no and wh-questions."""

from __future__ import annotations

from dataclasses import replace

from .clauses import _PLACE_FLAGS, _SOME, assemble, event, french_question, lasting
from .grammar import (
    Clause,
    Nominal,
    Reject,
    Writer,
    english_clause,
    english_inverted,
    french_clause,
    french_inverted,
    noun_phrase,
    third_person,
    without,
)
from .lexicon import Verb
from .people import GO, Pair, asked_person
from .things import _UNIQUE, PERSON_CLASSES
from .times import setting


def k_yes_no(w: Writer) -> Pair:
    subject = asked_person(w)
    c = event(w, subject=subject, question=True, front=0.0, simple=w.chance(0.6), positive=True)
    c = without(c, "initial")
    return Pair(french_question(w, c), english_inverted(c), "?")


ASKED = ("past", "future", "goingto")


def k_wh(w: Writer) -> Pair:
    kind = w.weighted(
        (3, "où"),
        (3, "quand"),
        (2, "comment"),
        (4, "pourquoi"),
        (4, "qui"),
        (3, "que"),
        (3, "quel"),
        (3, "combien"),
        (2, "à qui"),
        (2, "avec qui"),
        (2, "depuis"),
        (2, "qui objet"),
    )
    subject = asked_person(w)
    if kind == "où":
        return wh_where(w, subject)
    if kind in ("quand", "pourquoi", "comment"):
        frames = {
            "quand": w.one(("transitive", "travel", "intransitive")),
            "comment": "transitive",
            "pourquoi": "",
        }
        c = event(
            w,
            subject=subject,
            frame=frames[kind],
            names=ASKED if kind == "quand" else ("past", "habit", "state", "goingto"),
            modal=0,
            question=True,
            time=kind != "quand" and w.chance(0.5),
            front=0.0,
            simple=True,
            positive=True,
        )
        if kind == "quand" and c.verb.has("state"):
            raise Reject("when of a state")
        if kind == "comment":
            if c.verb.fr not in (
                "préparer",
                "réparer",
                "ouvrir",
                "fermer",
                "apprendre",
                "résoudre",
                "trouver",
                "perdre",
                "casser",
                "nettoyer",
                "rencontrer",
                "traverser",
                "couper",
                "allumer",
            ):
                raise Reject("how of that")
            if any(f" {x} " in f" {c.fr_object} " for x in _SOME) or c.en_tense not in (
                "past",
                "pres",
                "fut",
                "goingto",
            ):
                raise Reject("how in that tense")
        c = without(c, "initial", "mid")
        en = {"quand": "when", "pourquoi": "why", "comment": "how"}[kind]
        w.lemma(kind, en)
        return Pair(french_question(w, c, kind), english_inverted(c, en), "?")
    if kind == "qui":
        return wh_who(w)
    if kind == "qui objet":
        c = event(
            w,
            subject=subject,
            frame="transitive",
            names=("past", "future", "goingto"),
            modal=0,
            question=True,
            clitics=False,
            front=0,
            verbs=lambda v: v.objects[0] in PERSON_CLASSES,
            positive=True,
        )
        c = replace(without(c, "initial"), fr_object="", en_object="")
        return Pair(french_question(w, c, "qui"), english_inverted(c, "who"), "?")
    if kind == "que":
        return wh_what(w, subject)
    if kind in ("quel", "combien"):
        return wh_which(w, subject, kind)
    if kind == "à qui":
        c = event(
            w,
            subject=subject,
            frame="give",
            names=("past", "future", "goingto"),
            modal=0,
            question=True,
            clitics=False,
            front=0,
            simple=True,
            positive=True,
        )
        c = without(c, "initial")
        if " à " not in f" {c.fr_object}":
            raise Reject("no recipient")
        c = replace(
            c,
            fr_object=c.fr_object[: c.fr_object.rindex(" à ")],
            en_object=c.en_object[: c.en_object.rindex(" to ")],
        )
        time = " ".join(x for x in c.en_rest if x)
        c_en = replace(c, en_rest=("to", time))
        return Pair(french_question(w, c, "à qui"), english_inverted(c_en, "who"), "?")
    if kind == "avec qui":
        c = event(
            w,
            subject=subject,
            frame=w.one(("game", "travel", "intransitive")),
            names=ASKED,
            modal=0,
            question=True,
            clitics=False,
            front=0,
            positive=True,
        )
        if c.verb.fr in ("dormir", "pleurer", "tomber", "mentir", "se tromper", "se fâcher", "rire", "crier"):
            raise Reject("with whom?")
        c = without(c, "initial", "manner")
        time = " ".join(x for x in c.en_rest if x)
        c_en = replace(c, en_rest=(time, "with")) if not time else replace(c, en_rest=("with", time))
        return Pair(french_question(w, c, "avec qui"), english_inverted(c_en, "who"), "?")
    return since_question(w, subject)


def wh_where(w: Writer, subject: Nominal) -> Pair:
    def fits(v: Verb) -> bool:
        return any(v.has(f) for f in _PLACE_FLAGS) and "person" in v.subjects

    frame = w.one(("intransitive", "transitive", "go"))
    if frame == "transitive":
        c = event(
            w,
            subject=subject,
            frame="transitive",
            names=ASKED,
            modal=0,
            question=True,
            front=0,
            place=False,
            simple=True,
            positive=True,
            verbs=lambda v: (
                v.fr
                in (
                    "acheter",
                    "trouver",
                    "perdre",
                    "rencontrer",
                    "cacher",
                    "laisser",
                    "manger",
                    "attendre",
                    "apprendre",
                    "voir",
                    "emprunter",
                    "cueillir",
                )
            ),
        )
        c = without(c, "initial")
        if any(x in f" {c.fr_object} " for x in (" des ", " un ", " une ", " quelques ", " plusieurs ")):
            raise Reject("where: definite things")
    elif frame == "go":
        s = setting(w, GO, names=("past", "future", "goingto"), question=True)
        c = without(assemble(w, Clause(subject, GO), replace(s, neg=""), front=0), "initial")
    else:
        c = event(
            w,
            subject=subject,
            frame="intransitive",
            names=("habit", "past", "future", "state", "statepast"),
            modal=0,
            question=True,
            front=0,
            place=False,
            positive=True,
            verbs=lambda v: fits(v) and v.fr not in ("habiter", "vivre", "se marier", "s'ennuyer"),
        )
        c = without(c, "initial", "mid", "manner")
    if frame == "intransitive" and w.chance(0.3):
        verb = next(v for v in w.lexicon.intransitive if v.fr == "habiter")
        tense = w.one((("p", "pres"), ("i", "past"), ("f", "fut")))
        c = Clause(subject, verb, *tense)
    w.lemma("où", "where")
    return Pair(french_question(w, c, "où"), english_inverted(c, "where"), "?")


def wh_who(w: Writer) -> Pair:
    """*Qui a cassé la fenêtre ?*: the subject is asked for, English has no auxiliary "do"."""
    who = third_person("qui", "who", plural=False, gender="m", kind="wh", key="", known_gender=False)
    c = event(
        w,
        subject=who,
        question=True,
        front=0,
        names=("habit", "past", "future", "state", "cond"),
        positive=True,
        modal=0.25,
    )
    c = without(c, "initial")
    return Pair(french_clause(c), english_clause(c), "?")


def wh_what(w: Writer, subject: Nominal) -> Pair:
    c = event(
        w,
        subject=subject,
        frame="transitive",
        clitics=False,
        modal=0.1,
        question=True,
        front=0,
        positive=True,
        names=("habit", "past", "future", "goingto", "now", "cond", "state"),
        verbs=lambda v: (
            v.fr
            in (
                "manger",
                "boire",
                "préparer",
                "acheter",
                "vendre",
                "lire",
                "écrire",
                "regarder",
                "écouter",
                "voir",
                "chercher",
                "trouver",
                "perdre",
                "porter",
                "réparer",
                "apprendre",
                "étudier",
                "choisir",
                "dessiner",
                "commander",
                "recevoir",
                "traduire",
                "cacher",
                "construire",
                "nettoyer",
            )
            and not (v.en in ("look at", "wear") or v.objects[0] == "kin")
        ),
    )
    if c.verb.fr == "porter":
        raise Reject("wear or carry?")
    c = replace(without(c, "initial", "mid"), fr_object="", en_object="")
    time = c.fr_rest
    if w.chance(0.6):
        fr = f"qu'est-ce que {french_clause(replace(c, fr_rest=time))}"
        return Pair(fr, english_inverted(c, "what"), "?")
    if c.subject.kind != "pronoun" or c.subject.fr in ("je", "on"):
        raise Reject("que inverts with pronouns here")
    return Pair(french_inverted(c, "que"), english_inverted(c, "what"), "?")


def wh_which(w: Writer, subject: Nominal, kind: str) -> Pair:
    """The object is asked for; the French participle agrees with it."""
    c = event(
        w,
        subject=subject,
        frame="transitive",
        clitics=False,
        modal=0,
        question=True,
        front=0,
        positive=True,
        names=("past", "future", "goingto", "state") if kind == "quel" else ("past", "future", "goingto"),
        verbs=lambda v: not set(v.objects) & {*PERSON_CLASSES, "subject"},
    )
    c = without(c, "initial")
    noun = w.rare(w.lexicon.by_class[w.one(c.verb.objects)])
    if noun.mass or noun.plural_only or noun.fr in _UNIQUE:
        raise Reject("count nouns only")
    w.bond(c.verb.fr, noun.fr)
    plural = kind == "combien" or w.chance(0.3)
    asked = noun_phrase(w, noun, "howmany" if kind == "combien" else "which", plural=plural)
    c = replace(c, fr_object="", en_object="", preceding=(noun.gender, plural))
    return Pair(french_question(w, c, asked.fr), english_inverted(c, asked.en), "?")


def since_question(w: Writer, subject: Nominal) -> Pair:
    c = lasting(w, subject)
    opening = w.one((("depuis combien de temps", "how long"), ("depuis quand", "since when")))
    return Pair(french_question(w, c, opening[0]), english_inverted(c, opening[1]), "?")
