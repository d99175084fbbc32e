"""What is acted on: noun phrases with a determiner that suits the noun, objects, object pronouns,
predicates.
"""

from __future__ import annotations

from functools import cache

from .grammar import (
    Clitic,
    Nominal,
    Reject,
    Writer,
    direct_clitic,
    french_agree,
    noun_phrase,
    owner_of,
    pick_adjective,
    speaker_clitic,
    third_person,
)
from .lexicon import Noun, Verb
from .people import name, relative_of, someone, table, titled


def number_word(w: Writer, largest: int = 12) -> tuple[str, str]:
    fr, en, _ = w.rare([n for n in w.lexicon.numbers if n[2] <= largest], "number")
    w.lemma(fr, en)
    return fr, en


_OWNED = frozenset({"losable", "room", "vehicle", "lend", "wear", "pet", "device"})


_MAY_OWN = _OWNED | {
    "furniture",
    "write",
    "finish",
    "start",
    "prepare",
    "forget",
    "keep",
    "garden",
    "farm",
    "giftonly",
    "small",
    "share",
}


_ONE_RIDE = ("prendre", "rater", "attendre")


_IN_GENERAL = ("collectionner", "cultiver")


_UNIQUE = frozenset({"ciel", "soleil", "lune", "vérité", "avenir", "mer"})


def thing(
    w: Writer,
    noun: Noun,
    *,
    subject: Nominal | None = None,
    love: bool = False,
    neg: str = "",
    simple: bool = False,
    own: bool = True,
    definite: bool = False,
) -> Nominal:
    """A noun phrase for a thing, with a determiner that suits the noun and the clause."""
    if noun.group in ("family", "person"):
        return noun_phrase(w, noun, "def", plural=w.chance(0.3))
    adjectives = []
    if w.chance(0.1 if simple else 0.38) and (not noun.mass or noun.group in ("food", "drink")):
        adjectives.append(pick_adjective(w, noun, ("pre", "post")))
        first = adjectives[0]
        if (first.position == "pre" or "colored" in first.groups) and w.chance(0.35):
            adjectives.append(pick_adjective(w, noun, ("post",) if first.position == "pre" else ("pre",)))
            after = next(a for a in adjectives if a.position == "post")
            if "colored" not in after.groups and after.groups != ("nation",):
                adjectives.pop()  # "a small red bag", but not "a pretty magnificent tree"
    if love:
        if noun.fr in _UNIQUE:
            return noun_phrase(w, noun, "def")
        if w.chance(0.75):
            return noun_phrase(w, noun, "def", plural=True, generic=True, adjectives=adjectives)
        return noun_phrase(
            w, noun, w.weighted((3, "dem"), (1, "that")), plural=w.chance(0.3), adjectives=adjectives
        )
    owner = ""
    if subject is not None and own and noun.classes & _MAY_OWN and "scenery" not in noun.classes:
        owner = subject_owner(subject)
    negated = neg in ("pas", "jamais", "plus", "encore", "personne")
    if noun.fr in _UNIQUE:
        det = "def"
    elif noun.mass:
        if noun.group in ("food", "drink"):
            det = w.weighted((55, "part"), (18, "def"), (10, "lot"), (8, "little"), (6, "too"))
        elif noun.fr == "argent":
            det = w.weighted((5, "part"), (2, "lot"), (2, "own" if owner else "def"), (1, "enough"))
        else:
            det = "own" if owner and noun.fr == "travail" else "def"
    elif noun.group == "meal":
        det = w.weighted((5, "def"), (2, "indef"), (1, "dem"))
    elif noun.group in ("food",):
        det = w.weighted(
            (30, "indef"),
            (12, "num"),
            (16, "def"),
            (6, "lot"),
            (8, "few"),
            (4, "several"),
            (2, "too"),
            (3, "dem"),
            (3, "other"),
            (2, "all"),
        )
    elif noun.classes & _OWNED or noun.group == "clothing":
        det = w.weighted(
            (40 if owner else 0, "own"),
            (22, "indef"),
            (22, "def"),
            (8, "dem"),
            (2, "that"),
            (4, "num"),
            (3, "other"),
        )
    else:
        det = w.weighted(
            (34, "def"),
            (28, "indef"),
            (9, "dem"),
            (4, "that"),
            (0 if noun.group == "abstract" else 5, "num"),
            (1 if noun.group == "abstract" else 4, "few"),
            (1 if noun.group == "abstract" else 4, "several"),
            (3, "all"),
            (3, "other"),
            (4 if owner else 0, "own"),
        )
    if definite and det not in ("def", "own", "dem", "that"):
        det = "own" if owner else "def"
    if negated:
        if det in ("indef", "part", "num", "few", "several", "little", "other"):
            det = "neg" if neg in ("pas", "encore") else "negbare"
        if det in ("all", "lot", "too", "enough"):
            det = "def"
    plural = w.chance(0.35) and not noun.classes & {"room", "meal", "transport"}
    if (det == "own" and noun.classes & {"vehicle", "device"}) or "bought" in noun.classes:
        plural = False
    if det == "neg" and not noun.mass and noun.group in ("clothing", "vehicle"):
        plural = False
    if det == "num" and noun.group == "abstract":
        det = "def"
    if adjectives and (det in ("part", "neg", "negbare") and adjectives[0].position == "pre"):
        adjectives = []  # de la bonne soupe is fine; kept simple
    if any(a.fr == noun.fr for a in adjectives):
        raise Reject("la rose rose")
    return noun_phrase(
        w,
        noun,
        det,
        plural=plural,
        adjectives=adjectives,
        owner=owner,
        number=number_word(w, 4 if w.chance(0.8) else 12),
    )


def subject_owner(subject: Nominal) -> str:
    """Like `owner_of`, but "" where the possessor would be unclear."""
    try:
        return owner_of(subject)
    except Reject:
        return ""


def language_or_subject(w: Writer, *, languages: bool = True) -> Nominal:
    if languages and w.chance(0.5):
        fr, en = w.rare(table("LANGUAGES"))
        fr_def = f"le {fr}"
        w.lemma(fr, en)
        return third_person(fr_def, en, plural=False, gender="m", kind="noun", key=fr, human=False)
    fr, en = w.rare(table("SUBJECTS"))
    w.lemma(fr.split("'")[-1].split()[-1], en)
    plural = fr.startswith("les ")
    gender = "m" if fr.startswith("le ") else "f"
    return third_person(
        fr, en, plural=plural, gender=gender, kind="noun", key=fr, human=False, en_plural=False
    )


def kin(w: Writer, subject: Nominal | None) -> Nominal:
    """Somebody close to the subject: family, or a name."""
    if w.chance(0.45):
        return name(w)
    owner = subject_owner(subject) if subject is not None else ""
    return relative_of(w, owner) if owner else relative_of(w, of_name=w.chance(0.4))


def friendly(w: Writer, subject: Nominal | None) -> Nominal:
    if w.chance(0.65):
        return kin(w, subject)
    return titled(w) if w.chance(0.15) else someone(w, adjective=0.15, plural=0.2)


PERSON_CLASSES = ("kin", "friendly", "person", "profession")


def complement(
    w: Writer,
    verb: Verb,
    subject: Nominal | None,
    *,
    neg: str = "",
    simple: bool = False,
    only: tuple[str, ...] = (),
) -> Nominal:
    """The object noun phrase of a verb."""
    choices = only or verb.objects
    kind = w.rare(choices, f"{verb.key}>")
    if kind == "kin":
        found = kin(w, subject)
    elif kind == "baby":
        found = noun_phrase(
            w, w.lexicon.by_class["baby"][0], w.weighted((4, "def"), (1, "dem")), plural=w.chance(0.1)
        )
    elif kind == "friendly":
        found = friendly(w, subject)
    elif kind in ("person", "profession"):
        found = someone(w, adjective=0.2) if w.chance(0.6) else friendly(w, subject)
    elif kind == "subject":
        found = language_or_subject(w, languages=verb.fr != "s'intéresser")
        w.bond(verb.fr, found.key)
        return found
    else:
        noun = w.rare(w.lexicon.by_class[kind])
        w.bond(verb.fr, noun.fr)
        if verb.fr in (
            "traverser",
            "quitter",
            "prendre",
            "rater",
            "passer",
            "gagner",
            "peindre",
            "résoudre",
            "arroser",
            "nettoyer",
            "ranger",
            "monter",
        ):
            noun_def = True
        else:
            noun_def = False
        if verb.fr == "avoir":
            noun_def = False
        if verb.fr in _IN_GENERAL:
            return noun_phrase(
                w, noun, "neg" if neg in ("pas", "encore") else "negbare" if neg else "indef", plural=True
            )
        if "transport" in noun.classes and verb.fr in _ONE_RIDE:
            return noun_phrase(
                w,
                noun,
                w.weighted((5, "def"), (1, "indef" if not neg and noun.fr != "métro" else "def"), (1, "dem")),
            )
        found = thing(
            w,
            noun,
            subject=subject,
            love=verb.has("love"),
            neg=neg if not verb.prep else "",
            simple=simple or bool(verb.prep),
            definite=noun_def or verb.prep == "de",
        )
        if verb.fr in ("voler", "acheter") and found.fr.startswith(
            (
                "mon ",
                "ma ",
                "mes ",
                "ton ",
                "ta ",
                "tes ",
                "son ",
                "sa ",
                "ses ",
                "notre ",
                "nos ",
                "votre ",
                "vos ",
                "leur",
            )
        ):
            raise Reject("one's own")
        if verb.fr in ("avoir", "vouloir") and found.fr.startswith(
            ("son ", "sa ", "ses ", "mes ", "tes ", "leur")
            if verb.fr == "vouloir"
            else (
                "notre ",
                "nos ",
                "votre ",
                "vos ",
                "son ",
                "sa ",
                "ses ",
                "mes ",
                "tes ",
                "leur",
                "le ",
                "la ",
                "les ",
                "l'",
                "mon ",
                "ma ",
                "ton ",
                "ta ",
            )
        ):
            raise Reject("have: indefinite things")
    if subject is not None and found.fr == subject.fr:
        raise Reject("same person")
    if subject is not None and subject.key and subject.key in found.fr:
        raise Reject("same person")
    if verb.has("kin") and found.kind == "pronoun":
        raise Reject("no")
    return found


@cache
def ambiguous(lexicon_: object) -> frozenset[str]:
    """French verbs that have two English verbs or two kinds of object: a bare *le* would not tell which."""
    seen: dict[str, set[tuple[str, bool]]] = {}
    for verb in [*lexicon_.transitive, *lexicon_.like]:  # type: ignore[attr-defined]
        persons = any(o in PERSON_CLASSES for o in verb.objects)
        things = any(o not in PERSON_CLASSES for o in verb.objects)
        if persons:
            seen.setdefault(verb.fr, set()).add((verb.en, True))
        if things:
            seen.setdefault(verb.fr, set()).add((verb.en, False))
    return frozenset(fr for fr, senses in seen.items() if len(senses) > 1)


def object_clitic(w: Writer, verb: Verb, subject: Nominal) -> Clitic:
    """A pronoun in the place of a direct object."""
    if (
        verb.fr in ambiguous(w.lexicon)
        or verb.has("love")
        or verb.fr in ("avoir", "vouloir", "voler", "gagner", "traverser")
    ):
        raise Reject("pronoun would be ambiguous")
    person = verb.objects[0] in PERSON_CLASSES
    if person and w.chance(0.5):
        options = {
            "je": ("te", "vous"),
            "tu": ("me", "nous"),
            "nous": ("te", "vous"),
            "vous": ("me", "nous"),
            "on": ("te", "vous"),
        }
        return speaker_clitic(w.one(options.get(subject.fr, ("me", "te", "nous", "vous"))), direct=True)
    if "subject" in verb.objects:
        raise Reject("subjects of study are not pronouns")
    gender = w.one(("m", "f")) if person else w.one(w.lexicon.by_class[w.one(verb.objects)]).gender
    fr = "les" if w.chance(0.33) else "la" if gender == "f" else "le"
    return direct_clitic(fr, gender=gender, person=person)


def predicate(
    w: Writer, subject: Nominal, only: tuple[str, ...] = (), *, degree: bool = False
) -> tuple[str, str]:
    """A predicative adjective for a person, agreeing."""
    options = [
        a
        for a in w.lexicon.adjectives
        if "person" in a.groups and a.fr not in ("vieux", "jaloux", "blond", "fort")
    ]
    options = [
        a for a in options if a.position in ("pred", "post") or a.fr in ("grand", "jeune", "gentil", "petit")
    ]
    if only:
        options = [a for a in options if a.fr in only]
    options = [a for a in options if not (a.fr == "grand" and a.en == "big") and a.fr != "petit"]
    a = w.rare(options)
    if subject.fr == "on":
        raise Reject("agreement with on")
    w.lemma(a.fr, a.en)
    fr = french_agree(a, subject.gender, subject.plural)
    if (
        degree
        and a.fr
        not in ("marié", "célibataire", "absent", "prêt", "libre", "seul", "content", "surpris", "déçu")
        and w.chance(0.35)
    ):
        before = w.one(
            (
                ("très", "very"),
                ("trop", "too"),
                ("vraiment", "really"),
                ("un peu", "a little"),
                ("assez", "quite"),
                ("si", "so"),
            )
        )
        return f"{before[0]} {fr}", f"{before[1]} {a.en}"
    return fr, a.en


def by(w: Writer, *names: str) -> list[Noun]:
    return [n for n in w.lexicon.nouns if n.fr in names and n.group in ("building", "nature")]


def event_noun(w: Writer) -> tuple[str, str]:
    noun = w.rare(w.lexicon.by_class["event"])
    what = noun_phrase(w, noun, "def")
    if noun.fr == "mariage" and w.chance(0.6):
        return (lambda p: (p.fr, p.en))(noun_phrase(w, noun, "def", possessor=name(w)))
    return what.fr, what.en
