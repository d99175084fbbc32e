"""Sentences of one clause, other than questions and comparisons."""

from __future__ import annotations

from dataclasses import replace

from . import lexicon as words
from . import morphology as m
from .clauses import act, assemble, event, french_question, lasting, place_of, statement, weather_clause
from .grammar import (
    Clause,
    Clitic,
    Nominal,
    Reject,
    Writer,
    english_bare,
    english_clause,
    english_inverted,
    french_agree,
    french_clause,
    french_imperative,
    french_infinitive,
    noun_phrase,
    owner_of,
    pick_adjective,
    pronoun,
    third_person,
    without,
)
from .lexicon import Noun, Verb
from .load import rows
from .people import (
    BECOME,
    ETRE,
    GO,
    SEEM,
    Pair,
    asked_person,
    name,
    relative_of,
    someone,
    subject_person,
    table,
)
from .things import _UNIQUE, event_noun, number_word, predicate
from .times import (
    NO_TIME,
    Setting,
    clock,
    date,
    day,
    month,
    setting,
    span,
    time_future,
    time_habit,
    time_past,
    verbs_in,
    year,
)


def k_event(w: Writer) -> Pair:
    if w.chance(0.02):
        verb_fr = w.one(("se lever", "se réveiller", "se coucher"))
        names = ("habit",) if w.chance(0.7) else ("past", "future")
        return statement(
            act(w, subject_person(w, short=True), verb_fr, names=names, time=True, positive=w.chance(0.9))
        )
    return statement(event(w))


def k_travel_month(w: Writer) -> Pair:
    """*Marie visite l'Italie en avril.*"""
    subject = name(w) if w.chance(0.6) else subject_person(w, short=True)
    c = event(
        w,
        subject=subject,
        frame="travel",
        names=("habit", "past", "future"),
        modal=0,
        time=False,
        positive=True,
    )
    if c.mid[0] or c.verb.has("toplace") or c.initial[0]:
        raise Reject("countries and cities only")
    when = w.weighted(
        (6, month(w)), (2, w.rare(table("SEASONS"))), (1, time_habit(w, GO) if c.tense == "p" else month(w))
    )
    if w.chance(0.3):
        return statement(replace(c, initial=when))
    return statement(replace(c, fr_rest=(*c.fr_rest, when[0]), en_rest=(*c.en_rest, when[1])))


def k_since(w: Writer) -> Pair:
    c = lasting(w, subject_person(w, short=True))
    brief = c.verb.fr == "être" and not c.fr_object.startswith(("marié", "célibataire"))
    if brief or w.chance(0.6):
        fr, en = span(w, 1, 0) if brief else span(w, 2, 3, 1)
        when = (f"depuis {fr}", f"for {en}")
    elif w.chance(0.5):
        value = year(w)
        when = (f"depuis {value}", f"since {value}")
    else:
        when = w.one(
            (
                ("depuis lundi", "since Monday"),
                ("depuis longtemps", "for a long time"),
                ("depuis hier", "since yesterday"),
                ("depuis l'été dernier", "since last summer"),
                ("depuis le mois dernier", "since last month"),
            )
        )
        if when[1].startswith("since") and c.verb.fr in ("connaître",) and "yesterday" in when[1]:
            raise Reject("too short")
    return statement(replace(c, fr_rest=(*c.fr_rest, when[0]), en_rest=(*c.en_rest, when[1])))


def copular_setting(w: Writer) -> Setting:
    s = setting(w, ETRE)
    if s.name == "statecond":
        return replace(s, time=NO_TIME)
    if s.name == "state" and not s.neg and not s.mid[0] and w.chance(0.25):
        return replace(
            s,
            time=w.one(
                (
                    ("aujourd'hui", "today"),
                    ("ce matin", "this morning"),
                    ("ce soir", "this evening"),
                    ("cette semaine", "this week"),
                )
            ),
        )
    return s


def k_be(w: Writer) -> Pair:
    kind = w.weighted(
        (5, "adjective"),
        (4, "profession"),
        (2, "nationality"),
        (3, "place"),
        (2, "state"),
        (4, "thing"),
        (2, "seem"),
        (1, "become"),
        (2, "whose"),
    )
    if kind == "thing":
        return be_thing(w)
    if kind == "whose":
        return be_whose(w)
    subject = subject_person(w)
    s = copular_setting(w)
    if kind == "adjective":
        passing = s.time[1] in ("today", "this morning", "this evening", "this week")
        fr, en = predicate(w, subject, tuple(words.MOODS.split()) if passing else (), degree=True)
        return statement(assemble(w, Clause(subject, ETRE, fr_object=fr, en_object=en), s))
    if kind == "seem":
        fr, en = predicate(w, subject, (*words.MOODS.split(), *words.CHARACTERS.split()), degree=True)
        s = replace(s, time=NO_TIME)
        if s.name in ("statefuture", "statecond"):
            raise Reject("seem")
        return statement(assemble(w, Clause(subject, SEEM, fr_object=fr, en_object=en), s))
    if kind == "state":
        fr, en = w.rare(table("STATES"))
        w.lemma(fr, en)
        return statement(assemble(w, Clause(subject, ETRE, fr_object=fr, en_object=en), s))
    if kind == "place":
        if w.chance(0.35):
            fr, en = place_of(w, "country")
        else:
            place = w.rare([p for p in w.lexicon.places if p.classes & {"in", "out"}])
            w.lemma(place.fr, place.en)
            fr, en = place.fr_at, place.en_at
        return statement(assemble(w, Clause(subject, ETRE, fr_object=fr, en_object=en), s))
    if kind == "nationality":
        nation = w.rare([a for a in w.lexicon.adjectives if a.groups == ("nation",)])
        if subject.fr == "on" or (subject.kind == "name" and w.chance(0.5)):
            raise Reject("agreement")
        w.lemma(nation.fr, nation.en)
        fr = french_agree(nation, subject.gender, subject.plural)
        s = Setting("p", "pres", neg="pas" if w.chance(0.2) else "")
        return statement(assemble(w, Clause(subject, ETRE, fr_object=fr, en_object=nation.en), s))
    return be_profession(w, subject, s, become=kind == "become")


def be_profession(w: Writer, subject: Nominal, s: Setting, *, become: bool) -> Pair:
    """French has no article here: *Elle est infirmière.* "She is a nurse."."""
    if (
        subject.fr == "on"
        or (subject.kind == "noun" and subject.key not in {n.fr for n in w.lexicon.by_group["family"]})
        or not subject.owner_en
    ):
        raise Reject("profession of that subject")
    nouns = [n for n in w.lexicon.by_class["profession"] if n.gender == subject.gender]
    noun = w.rare(nouns)
    w.lemma(noun.fr, noun.en)
    fr = m.french_noun(noun.fr, subject.plural)
    several = subject.plural or (subject.fr == "vous" and subject.plural)
    en = m.english_plural(noun.en) if several else f"a {noun.en}"
    if become:
        s = setting(w, BECOME, names=("past", "future", "goingto", "cond"))
        s = replace(s, neg="", heads=s.heads)
        return statement(assemble(w, Clause(subject, BECOME, fr_object=fr, en_object=en), s))
    s = replace(s, time=NO_TIME, mid=("", ""))
    return statement(assemble(w, Clause(subject, ETRE, fr_object=fr, en_object=en), s))


_THING_GROUPS = ("clothing", "object", "vehicle", "text", "show", "building", "food", "meal", "abstract")


def definite_thing(w: Writer, *, plural: float = 0.25) -> tuple[Nominal, Noun]:
    noun = w.rare(
        [
            n
            for n in w.lexicon.nouns
            if n.group in _THING_GROUPS
            and n.fr not in _UNIQUE
            and n.fr not in ("argent", "travail", "sel", "poivre", "sucre", "farine", "huile")
        ]
    )
    det = w.weighted((5, "def"), (3, "dem"), (1, "that"), (3, "own"))
    if noun.group in ("building", "show", "food") and det == "own":
        det = "def"
    owner = w.weighted((3, "my"), (1, "your"), (1, "vous"), (1, "our"), (1, "their"))
    return noun_phrase(w, noun, det, plural=w.chance(plural), owner=owner), noun


def be_thing(w: Writer) -> Pair:
    subject, noun = definite_thing(w)
    a = pick_adjective(w, noun, ("post", "pred") if w.chance(0.8) else ("pre", "post"))
    if a.fr in ("beau", "vieux", "gros", "nouveau", "africain", "rose", "orange", "jeune", "bon"):
        raise Reject("rarely predicative")
    w.lemma(a.fr, a.en)
    w.bond("adj", a.fr, noun.fr)
    fr, en = french_agree(a, subject.gender, subject.plural), a.en
    gradable = (
        "nation" not in a.groups
        and "colored" not in a.groups
        and a.fr
        not in (
            "ouvert",
            "fermé",
            "cassé",
            "vide",
            "rond",
            "prêt",
            "magnifique",
            "délicieux",
            "immense",
            "petit",
        )
    )
    if gradable and w.chance(0.4):
        before = w.one(
            (("très", "very"), ("trop", "too"), ("vraiment", "really"), ("assez", "quite"), ("si", "so"))
        )
        fr, en = f"{before[0]} {fr}", f"{before[1]} {en}"
    s = w.weighted(
        (6, Setting("p", "pres")),
        (2, Setting("i", "past")),
        (1.5, Setting("p", "pres", neg="pas")),
        (0.7, Setting("i", "past", neg="pas")),
        (0.5, Setting("f", "fut")),
    )
    c = assemble(w, Clause(subject, ETRE, fr_object=fr, en_object=en), s)
    if w.chance(0.18):
        return Pair(f"est-ce que {french_clause(c)}", english_inverted(c), "?")
    return statement(c)


def be_whose(w: Writer) -> Pair:
    """*Cette voiture est à moi.*"""
    noun = w.rare([n for n in w.lexicon.by_class["lend"] + w.lexicon.by_class["losable"]])
    what = noun_phrase(w, noun, "dem", plural=w.chance(0.3))
    if w.chance(0.55):
        fr, en = w.one(
            (
                ("à moi", "mine"),
                ("à toi", "yours"),
                ("à nous", "ours"),
                ("à eux", "theirs"),
                ("à lui", "his"),
                ("à elle", "hers"),
            )
        )
    else:
        who = name(w) if w.chance(0.6) else relative_of(w, "my")
        fr, en = f"à {who.fr}", who.genitive
    c = Clause(what, ETRE, "p", "pres", neg="pas" if w.chance(0.25) else "", fr_object=fr, en_object=en)
    if w.chance(0.15):
        return Pair(f"est-ce que {french_clause(c)}", english_inverted(c), "?")
    return statement(c)


def k_feeling(w: Writer) -> Pair:
    """avoir faim, mal à la tête, vingt ans."""
    kind = w.weighted((4, "feeling"), (2, "ache"), (4, "age"))
    subject = subject_person(w, short=True)
    if kind == "age":
        fr, en, value = w.rare(w.lexicon.numbers, "age")
        if subject.kind == "noun" and subject.plural:
            raise Reject("all of one age")
        grown = subject.kind == "noun" and subject.key not in (
            "garçon",
            "fille",
            "enfant",
            "élève",
            "fils",
            "neveu",
            "nièce",
            "cousin",
            "cousine",
            "frère",
            "sœur",
            "prince",
            "princesse",
        )
        if grown and value < (45 if subject.key.startswith("grand") else 19):
            raise Reject("too young")
        if value > 90 and w.chance(0.6):
            raise Reject("few are a hundred")
        w.lemma(fr, en)
        s = w.weighted(
            (5, Setting("p", "pres")),
            (2, Setting("i", "past")),
            (
                2,
                Setting(
                    "f", "fut", w.one((("demain", "tomorrow"), ("l'année prochaine", "next year"), month(w)))
                ),
            ),
        )
        return _age(w, subject, fr, en, s)
    if kind == "ache":
        fr, en = w.rare(table("ACHES"))
        w.lemma(fr.split()[-1].removeprefix("l'"), en.split()[-1])
        verb = Verb("avoir mal", "have", frozenset({"state"}), ("person",), ())
        s = w.weighted(
            (
                5,
                Setting(
                    "p", "pres", w.one((NO_TIME, ("ce matin", "this morning"), ("aujourd'hui", "today")))
                ),
            ),
            (2, Setting("i", "past", w.one((NO_TIME, ("hier", "yesterday"))))),
            (1, Setting("p", "pres", mid=("souvent", "often"))),
        )
        return statement(assemble(w, Clause(subject, verb, fr_object=fr, en_object=en), s, front=0.1))
    fr, en = w.rare(table("FEELINGS"))
    w.lemma(fr, en)
    verb = Verb(f"avoir {fr}", f"be {en}", frozenset({"state"}), ("person",), ())
    s = w.weighted(
        (5, Setting("p", "pres")),
        (2, Setting("i", "past")),
        (1, Setting("f", "fut")),
        (2, Setting("p", "pres", neg="pas")),
        (1, Setting("i", "past", neg="pas")),
        (1, Setting("p", "pres", neg="plus")),
        (1, Setting("p", "pres", mid=("toujours", "always"))),
    )
    c = assemble(w, Clause(subject, verb), s)
    if w.chance(0.2) and subject.fr not in ("je", "on", "nous"):
        return Pair(
            french_question(w, replace(c, neg="", mid=("", ""))),
            english_inverted(replace(c, neg="", mid=("", ""))),
            "?",
        )
    return statement(c)


def _age(w: Writer, subject: Nominal, fr: str, en: str, s: Setting) -> Pair:
    avoir = Verb("avoir", "be", frozenset({"state"}), ("person",), ())
    return statement(
        assemble(w, Clause(subject, avoir, fr_object=f"{fr} ans", en_object=f"{en} years old"), s, front=0.1)
    )


def k_modal(w: Writer) -> Pair:
    ask = w.chance(0.22)
    c = event(
        w,
        subject=asked_person(w) if ask else None,
        modal=1.0,
        positive=ask,
        frame=w.weighted(
            (5, "transitive"), (3, "intransitive"), (2, "give"), (1, "indirect"), (1, "game"), (2, "travel")
        ),
    )
    if ask:
        c = without(c, "initial")
        return Pair(french_question(w, c), english_inverted(c), "?")
    return statement(c)


def k_imperative(w: Writer) -> Pair:
    subject = pronoun(w.weighted((4, "tu"), (4, "vous"), (2, "nous")))
    frame = w.weighted((5, "transitive"), (2, "intransitive"), (4, "give"), (0.6, "game"), (1, "travel"))
    c = event(
        w,
        subject=subject,
        frame=frame,
        modal=0,
        names=("habit",),
        time=False,
        simple=True,
        positive=True,
        verbs=lambda v: (
            not v.has("state")
            and v.fr
            not in (
                "se tromper",
                "se perdre",
                "s'ennuyer",
                "recevoir",
                "rater",
                "tomber",
                "s'endormir",
                "trouver",
                "perdre",
                "voir",
                "se marier",
                "vivre",
                "déménager",
                "gagner",
                "ressembler",
                "réfléchir",
                "rencontrer",
                "enseigner",
                "voler",
                "étudier",
            )
        ),
    )
    c = without(c, "initial", "mid", "neg")
    negative = w.chance(0.28)
    if c.verb.fr in ("se taire", "s'asseoir", "se dépêcher", "venir"):
        negative = False
    if c.verb.fr in ("mentir", "crier", "fumer", "pleurer", "casser", "se fâcher") and not negative:
        raise Reject("nobody asks for that")
    if negative and (c.verb.fr not in verbs_in("FORBIDDEN") or frame == "travel"):
        raise Reject("nobody forbids that")
    if c.manner[0] in ("mal", "trop") and not negative:
        raise Reject("nobody asks for that")
    if c.verb.fr == "aller" and negative and subject.fr == "nous":
        raise Reject("not idiomatic")
    if any(
        k.fr == subject.fr or (k.fr in ("te", "vous") and subject.fr in ("tu", "vous")) for k in c.clitics
    ):
        raise Reject("to oneself")
    if subject.fr == "nous" and any(k.rank == 1 for k in c.clitics):
        raise Reject("to ourselves")
    if negative:
        c = replace(c, neg="pas")
        if any(piece in f" {c.fr_object} " for piece in (" un ", " une ", " des ", " du ", " quelques ")):
            raise Reject("ne ... pas de")
    when = NO_TIME
    if w.chance(0.25) and not c.manner[0]:
        when = w.one(
            (
                ("maintenant", "now"),
                ("ce soir", "this evening"),
                ("demain", "tomorrow"),
                ("avant midi", "before noon"),
                ("aujourd'hui", "today"),
                ("demain matin", "tomorrow morning"),
            )
        )
    c = replace(c, fr_rest=(*c.fr_rest, when[0]), en_rest=(*c.en_rest, when[1]))
    fr, en = french_imperative(c), english_bare(c)
    if subject.fr == "nous":
        en = f"let's not {en}" if negative else f"let's {en}"
    elif negative:
        en = f"do not {en}"
    if w.chance(0.18):
        fr, en = f"{fr} , s'il {'te' if subject.fr == 'tu' else 'vous'} plaît", f"{en} , please"
        if subject.fr == "nous":
            raise Reject("please, us")
    return Pair(fr, en, w.weighted((6, "."), (5, "!")))


def k_there_is(w: Writer) -> Pair:
    """il y a, in its tenses, negated and asked."""
    kind = w.weighted((3, "thing"), (2, "animal"), (2, "building"), (2, "people"), (2, "food"))
    if kind == "thing":
        noun = w.rare(
            [n for n in w.lexicon.by_class["small"] if n.group in ("object", "text") and not n.mass]
        )
        where = w.rare([r for r in table("ROOMS") if "ma " not in r[0] and "sa " not in r[0]])
    elif kind == "animal":
        noun = w.rare(w.lexicon.by_group["animal"])
        if "farm" in noun.classes:
            where = w.one((("à la ferme", "on the farm"), ("près de la rivière", "near the river")))
        elif "pet" in noun.classes:
            where = w.rare(table("ROOMS")[2:])
        elif "swimmer" in noun.classes:
            where = ("dans la mer", "in the sea")
        else:
            where = w.one(
                (
                    ("dans la forêt", "in the forest"),
                    ("dans le jardin", "in the garden"),
                    ("au zoo", "at the zoo"),
                    ("à la montagne", "in the mountains"),
                )
            )
            if (noun.fr in ("lion", "tigre", "girafe", "éléphant", "singe")) != (where[1] == "at the zoo"):
                raise Reject("not there")
    elif kind == "building":
        noun = w.rare(
            [
                n
                for n in w.lexicon.by_group["building"]
                if n.fr
                in (
                    "château",
                    "pont",
                    "tour",
                    "hôtel",
                    "école",
                    "église",
                    "musée",
                    "magasin",
                    "jardin",
                    "rue",
                )
            ]
        )
        where = w.rare(table("SPOTS"))
        if noun.en in where[1]:
            raise Reject("next to itself")
    elif kind == "people":
        noun = w.rare(
            [
                n
                for n in w.lexicon.by_group["person"]
                if n.fr not in ("roi", "reine", "prince", "princesse", "gens", "inconnu")
            ]
        )
        where = place_of(w, w.one(("in", "out")))
    else:
        noun = w.rare([n for n in w.lexicon.by_class["food"] + w.lexicon.by_class["drink"]])
        where = w.one(
            (
                ("sur la table", "on the table"),
                ("dans le réfrigérateur", "in the refrigerator"),
                ("dans la cuisine", "in the kitchen"),
            )
        )
    w.bond("il y a", noun.fr, where[0])
    w.lemma("il y a", "there is")
    neg = w.chance(0.2)
    if noun.mass:
        det = "neg" if neg else w.weighted((5, "part"), (2, "lot"), (1, "little"))
    else:
        det = "neg" if neg else w.weighted((5, "indef"), (2, "num"), (2, "lot"), (2, "several"), (1, "few"))
    adjectives = [pick_adjective(w, noun, ("pre", "post"))] if not neg and w.chance(0.25) else []
    what = noun_phrase(w, noun, det, plural=w.chance(0.4), adjectives=adjectives, number=number_word(w))
    tense = w.weighted((6, "p"), (3, "i"), (1, "f"))
    en_be = {"p": ("is", "are"), "i": ("was", "were"), "f": ("will be", "will be")}[tense][
        int(what.en_plural)
    ]
    fr_avoir = m.french_verb("avoir", tense, 3, False)
    if not neg and w.chance(0.2):
        if w.chance(0.3) and not noun.mass:
            many = noun_phrase(w, noun, "howmany")
            be = {"p": "are there", "i": "were there", "f": "will there be"}[tense]
            inverted = f"{fr_avoir}-{'t-' if fr_avoir[-1] == 'a' else ''}il"
            return Pair(f"{many.fr} y {inverted} {where[0]}", f"{many.en} {be} {where[1]}", "?")
        first, _, second = en_be.partition(" ")
        return Pair(
            f"est-ce qu'il y {fr_avoir} {what.fr} {where[0]}",
            f"{first} there {second} {what.en} {where[1]}",
            "?",
        )
    if neg:
        en_neg = "will not be" if tense == "f" else f"{en_be} not"
        return Pair(f"il n'y {fr_avoir} pas {what.fr} {where[0]}", f"there {en_neg} {what.en} {where[1]}")
    return Pair(f"il y {fr_avoir} {what.fr} {where[0]}", f"there {en_be} {what.en} {where[1]}")


def k_weather(w: Writer) -> Pair:
    tense = w.weighted((5, "p"), (2, "i"), (2, "f"), (2, "pc"))
    fr, en = weather_clause(w, tense)
    when = NO_TIME
    if w.chance(0.7):
        if tense == "p":
            suits = {
                "snow": ("winter", "December", "January", "February"),
                "cold": ("winter", "December", "January", "February", "November"),
                "hot": ("summer", "July", "August", "June"),
                "nice": ("summer", "spring", "May", "June", "July", "September"),
                "cool": ("autumn", "spring", "April", "October", "September"),
                "bad": ("autumn", "winter", "November", "March"),
                "rain": ("autumn", "spring", "winter", "April", "November", "October", "March"),
            }
            when = w.one(
                (month(w), w.rare(table("SEASONS")), ("aujourd'hui", "today"), ("le matin", "in the morning"))
            )
            key = next((k for k in suits if k in en), "")
            if (
                when[1].startswith("in ")
                and "morning" not in when[1]
                and key
                and when[1].removeprefix("in ") not in suits[key]
            ):
                raise Reject("not in that season")
            if when[1] == "today" and ("rains" in en or "snows" in en or "always" in en):
                raise Reject("progressive")
        elif tense == "f":
            when = w.rare(table("TIMES_FUTURE")[:6])
        elif tense == "pc":
            when = time_past(w, Verb("pleuvoir", "rain", frozenset({"long"}), (), ()))
        else:
            when = w.one(
                (
                    ("hier", "yesterday"),
                    ("hier soir", "last night"),
                    ("ce matin", "this morning"),
                    ("hier matin", "yesterday morning"),
                )
            )
    elif tense == "p" and ("rains" in en or "snows" in en):
        raise Reject("progressive")
    if tense == "i" and ("raining" in en or "snowing" in en) and not when[0]:
        when = ("hier matin", "yesterday morning")
    if when[0] and "fait nuit" in fr:
        raise Reject("at night")
    if when[0] and w.chance(0.3):
        return Pair(f"{when[0]} , {fr}", f"{when[1]} , {en}")
    return Pair(f"{fr} {when[0]}", f"{en} {when[1]}")


def k_clock(w: Writer) -> Pair:
    """Time, day and date."""
    kind = w.weighted((3, "time"), (3, "date"), (2, "day"), (2, "birthday"), (4, "opens"), (1, "ask"))
    if kind == "time":
        fr, en = clock(w)
        if w.chance(0.25):
            return Pair(f"il était {fr}", f"it was {en}")
        more = w.weighted(
            (4, NO_TIME),
            (1, ("à Paris", "in Paris")),
            (1, ("à Tokyo", "in Tokyo")),
            (1, ("à New York", "in New York")),
            (1, ("à Londres", "in London")),
        )
        return Pair(f"il est {fr} {more[0]}", f"it is {en} {more[1]}")
    if kind == "date":
        fr, en = date(w)
        if w.chance(0.5):
            return Pair(f"nous sommes {fr}", f"it is {en}")
        what, en_what = event_noun(w)
        return Pair(f"{what} aura lieu {fr}", f"{en_what} will take place on {en}")
    if kind == "day":
        fr, en = day(w)
        return w.one(
            (
                Pair(f"aujourd'hui , c'est {fr}", f"today is {en}"),
                Pair(f"demain , c'est {fr}", f"tomorrow is {en}"),
                Pair(f"hier , c'était {fr}", f"yesterday was {en}"),
            )
        )
    if kind == "birthday":
        fr, en = date(w)
        person = name(w) if w.chance(0.6) else relative_of(w, "my")
        if person.plural:
            raise Reject("one birthday")
        if w.chance(0.3):
            return Pair(f"mon anniversaire est {fr}", f"my birthday is on {en}")
        return Pair(f"l'anniversaire de {person.fr} est {fr}", f"{person.genitive} birthday is on {en}")
    if kind == "opens":
        subject_fr, subject_en = w.one(
            (
                ("le train", "the train"),
                ("le bus", "the bus"),
                ("l'avion", "the plane"),
                ("le bateau", "the boat"),
                ("le film", "the movie"),
                ("le concert", "the concert"),
                ("la réunion", "the meeting"),
                ("le spectacle", "the show"),
                ("le cours", "the class"),
                ("le match", "the game"),
            )
        )
        moves = subject_en.split()[1] in ("train", "bus", "plane", "boat")
        fr_verb, en_verb = (
            w.one((("part", "leaves"), ("arrive", "arrives")))
            if moves
            else w.one((("commence", "starts"), ("finit", "ends")))
        )
        fr, en = clock(w)
        if fr == "minuit" and not moves:
            raise Reject("not at midnight")
        when = w.weighted((2, NO_TIME), (1, ("demain", "tomorrow")), (1, ("tous les jours", "every day")))
        if w.chance(0.25):
            return Pair(
                f"à quelle heure est-ce que {subject_fr} {fr_verb}",
                f"what time does {subject_en} {en_verb[:-1]}",
                "?",
            )
        return Pair(f"{subject_fr} {fr_verb} {when[0]} à {fr}", f"{subject_en} {en_verb} at {en} {when[1]}")
    return w.one(
        (
            Pair("quelle heure est-il", "what time is it", "?"),
            Pair("quel jour sommes-nous", "what day is it", "?"),
            Pair("quelle est la date d'aujourd'hui", "what is today's date", "?"),
        )
    )


def k_impersonal(w: Writer) -> Pair:
    """il faut + infinitive; il est difficile de + infinitive."""
    you = pronoun("on")
    p = event(
        w,
        subject=you,
        names=("habit", "past"),
        modal=0,
        time=False,
        front=0,
        simple=True,
        positive=True,
        clitics=False,
        frame=w.weighted((5, "transitive"), (2, "intransitive"), (1, "game"), (1, "travel")),
        verbs=lambda v: v.fr in verbs_in("NEEDED"),
        place=w.chance(0.15),
    )
    if any(
        f" {x} " in f" {p.fr_object} " for x in ("quelques", "plusieurs", "cinq", "six", "autre", "autres")
    ):
        raise Reject("too particular")
    p = without(p, "initial", "mid", "neg", "manner")
    if w.chance(0.45):
        tense, en = w.one(
            (("p", "we have to"), ("f", "we will have to"), ("i", "we had to"), ("c", "we should"))
        )
        w.lemma("falloir", "have to")
        when = time_future(w, p.verb) if tense in ("f", "p") and w.chance(0.3) else NO_TIME
        return Pair(
            f"il {m.french_verb('falloir', tense, 3, False)} {french_infinitive(p)} {when[0]}",
            f"{en} {english_bare(p)} {when[1]}",
        )
    fr, en_word = w.rare(table("EVALUATIONS"))
    w.lemma(fr, en_word)
    if fr == "facile" and p.verb.fr == "aller":
        raise Reject("odd")
    tense, be = w.one((("p", "is"), ("i", "was"), ("p", "is"), ("f", "will be")))
    neg = w.chance(0.2) and fr not in ("impossible", "temps")
    etre = m.french_verb("être", tense, 3, False)
    en_be = (be + " not" if be != "will be" else "will not be") if neg else be
    return Pair(
        f"il {'ne' if neg else ''} {etre} {'pas' if neg else ''} {fr} de {french_infinitive(p)}",
        f"it {en_be} {en_word} to {english_bare(p)}",
    )


def k_swap(w: Writer) -> Pair:
    """plaire, manquer: the French subject is the English object."""
    kind = w.one(("plaire", "manquer"))
    tense, en_tense = w.weighted((5, ("p", "pres")), (2, ("i", "past")), (1, ("f", "fut")))
    neg = "pas" if w.chance(0.2) else ""
    experiencer = w.weighted((3, "clitic"), (2, "name"))
    if kind == "plaire":
        noun = w.rare(
            [
                n
                for n in w.lexicon.nouns
                if n.group in ("text", "show", "building", "clothing")
                and not n.mass
                and n.fr not in ("page", "étage", "mur")
            ]
        )
        what = noun_phrase(w, noun, w.one(("dem", "def", "dem")), plural=w.chance(0.25))
        en_verb = "like"
        w.bond("plaire", noun.fr)
    else:
        what = name(w) if w.chance(0.5) else relative_of(w, "my")
        en_verb = "miss"
    w.lemma(kind, en_verb)
    form = m.french_verb(kind, tense, 3, what.plural)
    en_obj = what.en
    if experiencer == "clitic" and kind == "manquer" and what.kind == "noun":
        fr_k, subject_fr = "me", "je"
        who = pronoun(subject_fr)
        fr = f"{what.fr} {'ne' if neg else ''} me° {form} {'pas' if neg else ''}"
    elif kind == "manquer" and what.kind == "noun":
        raise Reject("mine are missed by me")
    elif experiencer == "clitic":
        fr_k, subject_fr = w.one(
            (("me", "je"), ("te", "tu"), ("nous", "nous"), ("vous", "vous"), ("lui", "il"), ("leur", "ils"))
        )
        who = pronoun(subject_fr)
        fr = f"{what.fr} {'ne' if neg else ''} {fr_k}° {form} {'pas' if neg else ''}"
    else:
        who = name(w)
        if who.fr == what.fr:
            raise Reject("same")
        fr = f"{what.fr} {'ne' if neg else ''} {form} {'pas' if neg else ''} à {who.fr}"
    verb = Verb(kind, en_verb, frozenset({"state"}), (), ())
    c = Clause(who, verb, tense, en_tense, neg=neg, en_object=en_obj)
    return Pair(fr, english_clause(c))


PASSIVES = (
    ("construire", "build", "built"),
    ("casser", "break", "fragile"),
    ("réparer", "repair", "repairable"),
    ("vendre", "sell", "bought"),
    ("écrire", "write", "write"),
    ("voler", "steal", "losable"),
    ("peindre", "paint", "paintable"),
    ("trouver", "find", "losable"),
    ("traduire", "translate", "translate"),
    ("laver", "wash", "washable"),
    ("préparer", "prepare", "dish"),
    ("choisir", "choose", "gift"),
    ("acheter", "buy", "buyable"),
    ("ouvrir", "open", "openable"),
    ("planter", "plant", "planted"),
    ("nettoyer", "clean", "room"),
)


def k_passive(w: Writer) -> Pair:
    fr_v, en_v, cls = w.rare(PASSIVES, "passive")
    noun = w.rare([n for n in w.lexicon.by_class[cls] if not n.mass])
    what = noun_phrase(
        w,
        noun,
        w.weighted((4, "def"), (2, "dem"), (1, "own")),
        plural=w.chance(0.25) and cls != "room",
        owner=w.one(("my", "our", "their")),
    )
    w.bond(fr_v, noun.fr)
    w.lemma(fr_v, en_v)
    agent = w.weighted((3, "none"), (4, "by"))
    tense = "pc" if fr_v in verbs_in("ACCIDENTS") or fr_v == "trouver" else w.weighted((5, "pc"), (2, "f"))
    doer = Verb(fr_v, en_v, frozenset(), (), ())
    participle = m.french_participle(fr_v, noun.gender, what.plural)
    s_time = (
        (time_past(w, doer) if tense == "pc" else time_future(w, doer))
        if w.chance(0.5) or agent == "none"
        else NO_TIME
    )
    if s_time[0].startswith("pendant"):
        raise Reject("not during")
    if tense == "pc":
        verb_fr = f"{m.french_verb('avoir', 'p', 3, what.plural)} été {participle}"
        verb_en = f"{'were' if what.en_plural else 'was'} {m.english_verb(en_v, 'participle')}"
    else:
        verb_fr = f"{m.french_verb('être', 'f', 3, what.plural)} {participle}"
        verb_en = f"will be {m.english_verb(en_v, 'participle')}"
    fr_by, en_by = "", ""
    if agent == "by":
        who = w.weighted((2, name(w)), (2, relative_of(w, "my")), (2, someone(w)))
        fr_by, en_by = f"par {who.fr}", f"by {who.en}"
    return Pair(f"{what.fr} {verb_fr} {fr_by} {s_time[0]}", f"{what.en} {verb_en} {en_by} {s_time[1]}")


def k_price(w: Writer) -> Pair:
    """Prices and amounts: containers, numbers."""
    kind = w.weighted((3, "costs"), (1, "howmuch"), (4, "container"), (3, "material"))
    if kind in ("costs", "howmuch"):
        noun = w.rare(
            [
                n
                for n in w.lexicon.by_class["gift"]
                + w.lexicon.by_group["clothing"]
                + w.lexicon.by_class["read"]
                + w.lexicon.by_class["fruit"]
                if n.fr not in ("page", "texte", "phrase", "lettre", "message")
            ]
        )
        what = noun_phrase(w, noun, w.weighted((3, "dem"), (1, "def")), plural=w.chance(0.3))
        if kind == "howmuch":
            return Pair(
                f"combien {'coûtent' if what.plural else 'coûte'} {what.fr}",
                f"how much {'do' if what.en_plural else 'does'} {what.en} cost",
                "?",
            )
        fr, en, _ = w.rare(w.lexicon.numbers, "price")
        w.lemma("coûter", "cost")
        w.lemma("euro", "euro")
        tense = w.weighted((4, "p"), (1, "i"))
        en_verb = ("cost" if what.en_plural else "costs") if tense == "p" else "cost"
        if tense == "i":
            raise Reject("cost and cost")
        return Pair(
            f"{what.fr} {m.french_verb('coûter', tense, 3, what.plural)} {fr} euros",
            f"{what.en} {en_verb} {en} euros",
        )
    subject = subject_person(w, short=True)
    if kind == "container":
        fr1, gender, en1, fr2, en2, contents = w.rare([tuple(r) for r in rows(words.CONTAINERS)], "container")
        nouns = [
            n
            for n in w.lexicon.nouns
            if n.group in ("food", "drink")
            and n.mass
            and f" {n.fr} " in f" {contents} "
            and not (n.fr == "eau" and "eau" not in contents.split())
        ]
        noun = w.rare(nouns)
        w.lemma(noun.fr, noun.en)
        w.lemma(fr1, en1)
        if w.chance(0.35):
            number = number_word(w, 6)
            fr, en = f"{number[0]} {fr2} de {noun.fr}", f"{number[1]} {en2} of {noun.en}"
        else:
            fr, en = f"{'une' if gender == 'f' else 'un'} {fr1} de {noun.fr}", f"a {en1} of {noun.en}"
        options = ["acheter", "vouloir", "apporter"]
        options.append(
            "boire"
            if noun.group == "drink"
            else "manger"
            if fr1 in ("morceau", "tranche", "bol")
            else "acheter"
        )
        verb_name = w.one(options)
        if verb_name == "acheter" and fr1 in ("tasse", "verre", "bol", "morceau", "tranche"):
            raise Reject("not bought so")
        verb = next(v for v in [*w.lexicon.transitive, *w.lexicon.like, *w.lexicon.give] if v.fr == verb_name)
        w.bond(fr1, noun.fr)
    else:
        mat_fr, mat_en, things = w.rare([tuple(r) for r in rows(words.MATERIALS)], "material")
        noun = w.rare(
            [n for n in w.lexicon.nouns if n.fr in things.split() and n.group in ("object", "clothing")]
        )
        det = w.weighted((4, "indef"), (1, "dem"), (1, "num"), (1, "def"))
        base = noun_phrase(w, noun, det, plural=w.chance(0.2), number=number_word(w, 6))
        en_noun = base.en.split()
        fr, en = f"{base.fr} {mat_fr}", " ".join([*en_noun[:-1], mat_en, en_noun[-1]])
        w.lemma(mat_fr.split()[-1], mat_en)
        w.bond(mat_fr, noun.fr)
        options = (
            ["acheter", "vouloir", "vendre", "choisir", "avoir"]
            if noun.group == "object"
            else ["acheter", "porter", "vouloir", "choisir"]
        )
        verb_name = w.one(options)
        verb = next(
            v for v in [*w.lexicon.transitive, *w.lexicon.like] if v.fr == verb_name and v.en != "carry"
        )
        if verb.fr == "avoir" and det in ("dem", "def"):
            raise Reject("have: indefinite")
    w.lemma(verb.fr, verb.en)
    s = replace(
        setting(w, verb, names=("past", "future", "goingto", "state", "statecond", "habit", "cond")),
        neg="",
        mid=("", ""),
    )
    c = assemble(w, Clause(subject, verb, fr_object=fr, en_object=en), s)
    if verb.fr == "vouloir" and s.tense == "c":
        c = replace(c, verb=replace(verb, en="like"))
    return statement(c)


def k_this_is(w: Writer) -> Pair:
    """c'est, voici, c'est ... qui."""
    kind = w.weighted((4, "person"), (3, "thing"), (4, "cleft"), (2, "capital"))
    if kind == "person":
        who = (
            relative_of(w, w.one(("my", "your", "vous", "our", "their")))
            if w.chance(0.5)
            else relative_of(w, of_name=True)
        )
        opening = w.weighted((4, "c'est"), (2, "voici"), (2, "est-ce que"), (2, "neg"))
        if opening == "est-ce que" and who.fr.startswith(("mon ", "ma ", "mes ", "notre ", "nos ")):
            raise Reject("one knows that")
        be = "ce sont" if who.plural else "c'est"
        this = "these are" if who.plural else "this is"
        if opening == "voici":
            return Pair(f"voici {who.fr}", f"here {'are' if who.plural else 'is'} {who.en}")
        if opening == "est-ce que":
            return Pair(
                f"est-ce que {be} {who.fr}", f"{'are these' if who.plural else 'is this'} {who.en}", "?"
            )
        if opening == "neg":
            neg = "ce ne sont pas" if who.plural else "ce n'est pas"
            return Pair(f"{neg} {who.fr}", f"{this} not {who.en}")
        return Pair(f"{be} {who.fr}", f"{this} {who.en}")
    if kind == "thing":
        noun = w.rare(
            [
                n
                for n in w.lexicon.nouns
                if n.group in ("clothing", "object", "vehicle", "text", "building", "animal", "show")
                and not n.mass
            ]
        )
        adjectives = [pick_adjective(w, noun, ("pre", "post"))]
        det = w.weighted((4, "indef"), (1, "own"))
        if det == "own" and noun.group in ("building", "show", "animal"):
            det = "indef"
        what = noun_phrase(
            w, noun, det, plural=w.chance(0.25), adjectives=adjectives, owner=w.one(("my", "our", "their"))
        )
        if w.chance(0.2) and det == "indef" and not what.plural:
            return Pair(
                f"quel {adj_noun(what)}" if noun.gender == "m" else f"quelle {adj_noun(what)}",
                f"what {what.en}",
                "!",
            )
        if what.plural:
            return Pair(f"ce sont {what.fr}", f"these are {what.en}")
        return Pair(f"c'est {what.fr}", f"this is {what.en}")
    if kind == "capital":
        country_fr, city_fr = w.one(sorted(words.CAPITALS.items()))
        countries = [c for c in w.lexicon.countries if c.fr == country_fr]
        cities = [c for c in w.lexicon.cities if c.fr == city_fr]
        if not countries or not cities:
            raise Reject("not in the lexicon")
        of_fr = f"de {countries[0].fr_direct}"
        if w.chance(0.5):
            return Pair(f"quelle est la capitale {of_fr}", f"what is the capital of {countries[0].en}", "?")
        return Pair(
            f"{city_fr} est la capitale {of_fr}", f"{cities[0].en} is the capital of {countries[0].en}"
        )
    who = name(w) if w.chance(0.6) else relative_of(w, "my")
    inner = replace(who, fr="qui", en="who", kind="wh")
    c = event(
        w,
        subject=inner,
        names=("past",),
        modal=0,
        front=0,
        simple=True,
        positive=True,
        place=w.chance(0.4),
        time=w.chance(0.4),
    )
    c = without(c, "initial")
    neg = w.chance(0.15)
    be = ("ce ne sont pas" if neg else "ce sont") if who.plural else ("ce n'est pas" if neg else "c'est")
    return Pair(
        f"{be} {who.fr} {french_clause(c)}", f"it is {'not ' if neg else ''}{who.en} {english_clause(c)}"
    )


def adj_noun(what: Nominal) -> str:
    """A phrase without its indefinite article."""
    return what.fr.split(" ", 1)[1]


def k_negative(w: Writer) -> Pair:
    """personne, rien, ne ... que."""
    kind = w.weighted(
        (3, "personne objet"), (3, "rien objet"), (3, "personne sujet"), (2, "rien sujet"), (4, "que")
    )
    if kind == "rien sujet":
        s = w.one((("n'est", "is"), ("n'était", "was"), ("ne sera", "will be")))
        a = w.one(
            (
                ("facile", "easy"),
                ("possible", "possible"),
                ("impossible", "impossible"),
                ("simple", "simple"),
                ("important", "important"),
                ("prêt", "ready"),
                ("cher", "expensive"),
                ("gratuit", "free"),
                ("difficile", "difficult"),
            )
        )
        scope = w.one(
            (
                ("", ""),
                ("ici", "here"),
                ("dans ce magasin", "in this store"),
                ("pour lui", "for him"),
                ("pour nous", "for us"),
                ("dans la vie", "in life"),
                ("pour Marie", "for Marie"),
            )
        )
        return Pair(f"rien {s[0]} {a[0]} {scope[0]}", f"nothing {s[1]} {a[1]} {scope[1]}")
    if kind == "personne sujet":
        nobody = third_person(
            "personne", "nobody", plural=False, gender="m", kind="wh", key="", known_gender=False
        )
        c = event(
            w,
            subject=nobody,
            front=0,
            names=("past", "future", "habit", "state", "statepast"),
            modal=0.1,
            simple=True,
        )
        c = without(c, "initial")
        if (
            c.mid[0]
            or "de l'" in c.fr_object
            or any(
                f" {x} " in f" {c.fr_object} "
                for x in ("un", "une", "des", "du", "de", "quelques", "plusieurs")
            )
        ):
            raise Reject("nobody some")
        c = replace(c, neg="subject")
        return statement(c)
    subject = subject_person(w, short=True)
    if kind == "que":
        c = event(
            w,
            subject=subject,
            frame=w.one(("transitive", "like")),
            clitics=False,
            front=0,
            modal=0,
            positive=True,
            simple=True,
            names=("habit", "past", "state", "future"),
        )
        if c.mid[0] or c.verb.has("love") or c.verb.fr == "vouloir":
            raise Reject("only always")
        if c.fr_object.startswith(("tous ", "toutes ")):
            raise Reject("only all")
        c = replace(c, neg="only", fr_object=f"que {c.fr_object}")
        return statement(c)
    people = kind == "personne objet"
    c = event(
        w,
        subject=subject,
        frame="transitive",
        clitics=False,
        front=0.1,
        modal=0.1,
        positive=True,
        simple=True,
        names=("habit", "past", "future"),
        place=False,
        verbs=lambda v: (
            v.fr
            in (
                "rencontrer",
                "inviter",
                "aider",
                "connaître",
                "appeler",
                "attendre",
                "saluer",
                "suivre",
                "croire",
            )
            if people
            else v.fr
            in (
                "manger",
                "boire",
                "acheter",
                "vendre",
                "lire",
                "voir",
                "comprendre",
                "trouver",
                "oublier",
                "écrire",
                "préparer",
                "perdre",
                "choisir",
                "recevoir",
                "casser",
                "apprendre",
            )
        ),
    )
    if c.mid[0]:
        raise Reject("with an adverb")
    if c.heads and not people:
        raise Reject("rien before the infinitive")
    return statement(
        replace(c, neg="personne" if people else "rien", fr_object="personne" if people else "", en_object="")
    )


def k_thanks(w: Writer) -> Pair:
    fr, en = w.one(table("GREETINGS"))
    noun = w.rare(
        [
            n
            for n in w.lexicon.by_class["gift"] + w.lexicon.by_class["meal"] + w.lexicon.by_class["read"]
            if not n.mass and n.fr not in ("page", "journal", "magazine", "article")
        ]
    )
    bravo = fr == "Bravo pour"
    if bravo:
        noun = w.rare(
            [
                n
                for n in w.lexicon.nouns
                if n.fr
                in (
                    "travail",
                    "mariage",
                    "projet",
                    "roman",
                    "livre",
                    "examen",
                    "poème",
                    "idée",
                    "jardin",
                    "maison",
                )
                and n.group in ("abstract", "text", "building")
                and n.en != "history"
            ]
        )
    det = "own" if bravo else w.weighted((3, "def"), (1, "dem"), (2, "own"))
    adjectives = []
    if w.chance(0.45):
        adjectives = [pick_adjective(w, noun, ("pre", "post"))]
        if adjectives[0].en not in (
            "beautiful",
            "pretty",
            "good",
            "delicious",
            "magnificent",
            "interesting",
            "exciting",
            "funny",
            "new",
            "elegant",
        ):
            raise Reject("not said in thanks")
    what = noun_phrase(
        w, noun, det, owner=w.one(("your", "vous")), adjectives=adjectives, plural=noun.plural_only
    )
    return Pair(f"{fr.lower()} {what.fr}", f"{en[0].lower()}{en[1:]} {what.en}", w.one((".", "!")))


def k_place_clitic(w: Writer) -> Pair:
    """y and en: *J'y vais demain.*, *J'en ai besoin.*"""
    subject = subject_person(w, short=True)
    kind = w.weighted((5, "y"), (2, "pense"), (4, "en"))
    y = Clitic("y", "there", 4)
    en_ = Clitic("en", "it", 5)
    if kind == "y":
        s = setting(w, GO, names=("past", "future", "goingto", "habit"))
        if s.tense == "f":
            raise Reject("no y before irai")
        verb = w.one((GO, Verb("retourner", "go back", frozenset({"etre"}), ("person",), ())))
        c = assemble(w, Clause(subject, verb, clitics=(y,)), s)
        w.lemma(verb.fr, verb.en)
        if w.chance(0.2):
            if subject.fr in ("je", "nous", "on"):
                raise Reject("one knows that")
            c = without(c, "initial", "neg", "mid")
            return Pair(f"est-ce que {french_clause(c)}", english_inverted(c), "?")
        return statement(c)
    if kind == "pense":
        verb = Verb("penser", "think about", frozenset(), ("person",), ())
        s = setting(w, verb, names=("habit", "past", "future"))
        return statement(assemble(w, Clause(subject, verb, clitics=(replace(y, en="it"),)), s))
    verb = w.one(
        (
            Verb("avoir besoin", "need", frozenset({"state"}), ("person",), ()),
            Verb("parler", "talk about", frozenset(), ("person",), ()),
            Verb("avoir envie", "want", frozenset({"state"}), ("person",), ()),
            Verb("rêver", "dream about", frozenset(), ("person",), ()),
            Verb("se souvenir", "remember", frozenset({"state", "refl"}), ("person",), ()),
            Verb("s'occuper", "take care of", frozenset({"refl"}), ("person",), ()),
        )
    )
    s = setting(w, verb, names=("state", "statepast", "past", "habit", "future"))
    w.lemma(verb.fr, verb.en)
    if s.time[0].startswith(("en ", "au ", "à ", "le ")) and "époque" not in s.time[0]:
        s = replace(s, time=NO_TIME)
    return statement(assemble(w, Clause(subject, verb, clitics=(en_,)), s))


def k_location(w: Writer) -> Pair:
    """Where things are: *Tes clés sont sur la table.*"""
    noun = w.rare([n for n in w.lexicon.by_class["losable"] + w.lexicon.by_class["small"] if not n.mass])
    det = w.weighted((3, "own"), (2, "def"))
    subject = noun_phrase(w, noun, det, plural=w.chance(0.25), owner=w.one(("my", "your", "vous", "our")))
    where = w.rare([r for r in table("ROOMS") if "one's" not in r[1]])
    w.bond(noun.fr, where[0])
    tense = w.weighted((6, ("p", "pres")), (3, ("i", "past")))
    neg = "pas" if w.chance(0.2) else ""
    if w.chance(0.25):
        fr_be = m.french_verb("être", tense[0], 3, subject.plural)
        c = Clause(subject, ETRE, *tense)
        return Pair(f"où {fr_be} {subject.fr}", english_inverted(c, "where"), "?")
    if w.chance(0.3):
        verb = w.one(("mettre", "laisser", "trouver"))
        en = {"mettre": "put", "laisser": "leave", "trouver": "find"}[verb]
        who = subject_person(w, short=True)
        s = Setting("pc", "past")
        own = noun_phrase(w, noun, "own", owner=owner_of(who)) if w.chance(0.5) else subject
        w.lemma(verb, en)
        return statement(
            assemble(
                w,
                Clause(
                    who,
                    Verb(verb, en, frozenset(), ("person",), ()),
                    fr_object=own.fr,
                    en_object=own.en,
                    fr_rest=(where[0],),
                    en_rest=(where[1],),
                ),
                s,
            )
        )
    return statement(Clause(subject, ETRE, *tense, neg=neg, fr_object=where[0], en_object=where[1]))


def k_born(w: Writer) -> Pair:
    """Origins: born, come from, birthplaces and years."""
    subject = subject_person(w, short=True)
    kind = w.weighted((3, "born"), (3, "from"), (2, "died"))
    region = w.rare(w.lexicon.countries if w.chance(0.45) else w.lexicon.cities)
    w.lemma(region.fr, region.en)
    if kind == "from":
        verb = Verb("venir", "come from", frozenset({"etre", "state"}), ("person",), ())
        neg = "pas" if w.chance(0.15) else ""
        c = Clause(subject, verb, "p", "pres", neg=neg, fr_object=region.fr_from, en_object=region.en)
        if w.chance(0.25):
            c = replace(c, neg="")
            return Pair(french_question(w, c), english_inverted(c), "?")
        return statement(c)
    if subject.fr == "on":
        raise Reject("agreement")
    when = w.one((NO_TIME, ("en " + year(w),) * 1 + ("",), date(w)))
    if len(when) == 2 and when[0].startswith("en ") and not when[1]:
        when = (when[0], "in" + when[0][2:])
    elif when[0].startswith("le "):
        when = (when[0], f"on {when[1]}")
    if kind == "born":
        verb = Verb("naître", "be born", frozenset({"etre"}), ("person",), ())
        w.lemma("naître", "be born")
    else:
        verb = Verb("mourir", "die", frozenset({"etre"}), ("person",), ())
        w.lemma("mourir", "die")
        if subject.person != 3 or subject.kind == "pronoun":
            raise Reject("third persons die here")
    c = Clause(
        subject, verb, "pc", "past", fr_rest=(region.fr_in, when[0]), en_rest=(f"in {region.en}", when[1])
    )
    return statement(c)
