"""Whole clauses drawn by sense: verb, subject, objects, tense, place and time that go together."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache

from . import lexicon as words
from . import morphology as m
from .grammar import (
    Clause,
    Clitic,
    Head,
    Nominal,
    Reject,
    Writer,
    direct_clitic,
    english_clause,
    french_agree,
    french_clause,
    french_group,
    french_inverted,
    indirect_clitic,
    noun_phrase,
    pick_adjective,
    speaker_clitic,
    third_person,
    without,
)
from .lexicon import Noun, Verb
from .load import rows
from .people import ETRE, GO, GO_PLACE, Pair, class_subject, name, subject_pronoun, table
from .things import PERSON_CLASSES, complement, friendly, language_or_subject, object_clitic, predicate
from .times import NO_TIME, Setting, modal_setting, routine_time, setting, verbs_in


def place_of(w: Writer, wanted: str) -> tuple[str, str]:
    """A place phrase for being or acting somewhere."""
    if wanted in ("country", "countryonly"):
        if wanted == "countryonly" or w.chance(0.55):
            country = w.rare(w.lexicon.countries)
            w.lemma(country.fr, country.en)
            return country.fr_in, f"in {country.en}"
        city = w.rare(w.lexicon.cities)
        w.lemma(city.fr, city.en)
        return city.fr_in, f"in {city.en}"
    places = [p for p in w.lexicon.places if wanted in p.classes]
    place = w.rare(places)
    w.lemma(place.fr, place.en)
    return place.fr_at, place.en_at


_PLACE_FLAGS = {
    "place": ("in", "out"),
    "placefun": ("fun",),
    "placesleep": ("sleep",),
    "placeplay": ("play",),
    "placein": ("arrive",),
    "placeout": ("out",),
    "placeeat": ("eat",),
    "placelive": ("live",),
    "water": ("water",),
    "country": ("country",),
    "countryonly": ("countryonly",),
}


def place_for(w: Writer, verb: Verb, subject: Nominal) -> tuple[str, str]:
    """A place for a verb that has a flag for one, or nothing."""
    flags = [f for f in _PLACE_FLAGS if verb.has(f)]
    if verb.fr == "travailler":
        wanted = "work"
    elif verb.fr == "étudier":
        wanted = "study"
    elif flags:
        wanted = w.one(_PLACE_FLAGS[w.one(flags)])
    else:
        return ("", "")
    if verb.fr in ("dormir", "rester", "déjeuner", "dîner", "travailler") and w.chance(0.12):
        host = name(w)
        if host.fr == subject.fr:
            raise Reject("at one's own place")
        return f"chez {host.fr}", f"at {host.genitive} house"
    found = place_of(w, wanted)
    w.bond(verb.fr, found[0])
    return found


def assemble(
    w: Writer, clause: Clause, s: Setting, place: tuple[str, str] = ("", ""), *, front: float = 0.25
) -> Clause:
    """Puts time and place where each language wants them: French has either order, English place then
    time.
    """
    time = s.time
    if time[0] == "à ta place" and clause.subject.fr not in ("je", "nous", "on"):
        time = ("dans ce cas", "in that case")
    initial = ("", "")
    clockish = (
        time[0].startswith(("à ", "pendant ", "hier à "))
        and "époque" not in time[0]
        and "place" not in time[0]
    )
    always_front = time[0] in ("d'habitude", "à ta place", "dans ce cas", "autrefois")
    if time[0] and (always_front or (not clockish and w.chance(front))):
        initial, time = time, ("", "")
    fr_rest = [place[0], time[0]]
    if place[0] and time[0] and len(time[0].split()) <= 2 and not clockish and w.chance(0.3):
        fr_rest.reverse()
    return replace(
        clause,
        tense=s.tense,
        en_tense=s.en_tense,
        neg=s.neg or clause.neg,
        mid=s.mid,
        heads=(*s.heads, *clause.heads),
        initial=initial,
        fr_rest=(*clause.fr_rest, *fr_rest),
        en_rest=(*clause.en_rest, place[1], time[1]),
    )


FRAMES = ("transitive", "intransitive", "indirect", "like", "give", "game", "language", "travel")


def event(
    w: Writer,
    *,
    subject: Nominal | None = None,
    frame: str = "",
    names: tuple[str, ...] = (),
    question: bool = False,
    time: bool = True,
    clitics: bool = True,
    modal: float = 0.14,
    front: float = 0.25,
    simple: bool = False,
    place: bool = True,
    verbs: Callable[[Verb], bool] | None = None,
    positive: bool = False,
    objects: tuple[str, ...] = (),
) -> Clause:
    """A complete clause: verb, subject, object, tense, time, place, drawn by sense."""
    frame = frame or w.weighted(
        (40, "transitive"),
        (20, "intransitive"),
        (9, "indirect"),
        (8, "like"),
        (10, "give"),
        (5, "game"),
        (3, "language"),
        (8, "travel"),
    )
    verb = pick_verb(w, frame, verbs)
    if objects and not set(objects) & {*verb.objects, *w.lexicon.by_class}:
        raise Reject("no such object")
    if objects:
        verb = replace(verb, objects=objects)
    if subject is None:
        subject = class_subject(w, verb.subjects)
    elif not subject.human or "person" not in verb.subjects:
        raise Reject("subject does not fit")
    above: tuple[Head, ...] = ()
    s: Setting
    if w.chance(modal) and "person" in verb.subjects and not verb.has("state"):
        above, s = modal_setting(w, verb, names)
    else:
        s = setting(w, verb, names=names, question=question)
    if not time:
        s = replace(s, time=NO_TIME)
    if verb.fr in verbs_in("ROUTINE") and s.time[0]:
        s = replace(s, time=routine_time(w, s))
    if s.name == "recent" and verb.fr in ("rêver", "penser", "avoir peur"):
        raise Reject("just dreamed")
    if positive:
        s = replace(s, neg="")
    if subject.fr.startswith("personne"):
        s = replace(s, neg="subject")
    clause = Clause(subject, verb)
    where = ("", "")
    if frame in ("transitive", "like"):
        clause = with_object(w, clause, s, clitics=clitics, simple=simple)
    elif frame == "indirect":
        clause = with_indirect(w, clause, clitics=clitics)
    elif frame == "give":
        clause = with_two_objects(w, clause, s, clitics=clitics, simple=simple)
    elif frame == "intransitive":
        if place and w.chance(0.6 if not (verb.has("country") or verb.has("countryonly")) else 0.95):
            where = place_for(w, verb, subject)
        if verb.fr in ("habiter", "vivre") and not where[0]:
            raise Reject("habiter needs a place")
        if (
            verb.has("manner")
            and w.chance(0.4)
            and not (where[0] and s.time[0])
            and not s.mid[0]
            and s.neg != "rien"
        ):
            clause = replace(clause, manner=manner(w, verb))
    elif frame == "game":
        fr, en = w.rare(table("GAMES"))
        clause = replace(clause, fr_object=fr, en_object=en)
        w.lemma(fr.split()[-1].removeprefix("l'"), en.split()[-1])
        w.bond("jouer", fr)
    elif frame == "language":
        fr, en = w.rare(table("LANGUAGES"))
        clause = replace(clause, fr_object=fr, en_object=en)
        w.lemma(fr, en)
        w.bond("parler", fr)
    elif frame == "travel":
        clause = with_region(w, clause)
    if (
        frame == "intransitive" and verb.fr in ("rester", "venir", "vivre") and not where[0] and not s.time[0]
    ) or (frame == "intransitive" and s.name == "cond" and not s.time[0] and not where[0]):
        raise Reject("too bare")
    if frame in ("transitive", "give") and place and w.chance(0.12) and not s.mid[0]:
        where = place_for_object(w, verb)
    if subject.kind == "noun":
        w.bond("subj", subject.key, verb.fr)
    w.lemma(verb.fr, verb.en)
    for h in above:
        w.lemma(h.fr, h.en)
    clause = replace(clause, heads=above)
    return assemble(w, clause, s, where, front=front)


def pick_verb(w: Writer, frame: str, fits: Callable[[Verb], bool] | None) -> Verb:
    if frame == "game":
        return Verb("jouer", "play", frozenset(), ("person",), ())
    if frame == "language":
        return Verb("parler", "speak", frozenset({"state"}), ("person",), ())
    if frame == "travel":
        return w.one(
            (
                Verb("visiter", "visit", frozenset(), ("person",), ()),
                GO,
                GO_PLACE,
                Verb("revenir", "come back", frozenset({"etre"}), ("person",), ()),
                Verb("quitter", "leave", frozenset(), ("person",), ()),
                Verb("découvrir", "discover", frozenset(), ("person",), ()),
                Verb("traverser", "cross", frozenset(), ("person",), ()),
            )
        )
    verbs = getattr(w.lexicon, frame)
    if fits is not None:
        verbs = [v for v in verbs if fits(v)]
        if not verbs:
            raise Reject("no such verb")
    return w.rare(verbs, "verb")


def manner(w: Writer, verb: Verb) -> tuple[str, str, str]:
    options = [tuple(f) for f in rows(words.ADVERBS_MANNER)]
    allowed = {
        "dormir": ("bien", "mal", "beaucoup", "trop"),
        "rire": ("beaucoup", "doucement"),
        "travailler": ("bien", "mal", "beaucoup", "trop", "vite", "lentement", "tranquillement"),
        "marcher": ("vite", "lentement", "beaucoup", "doucement"),
        "courir": ("vite", "lentement", "beaucoup"),
        "nager": ("bien", "mal", "vite", "beaucoup", "lentement"),
        "danser": ("bien", "mal", "beaucoup", "lentement"),
        "chanter": ("bien", "mal", "doucement", "trop"),
        "partir": ("vite", "tranquillement"),
        "cuisiner": ("bien", "mal", "beaucoup"),
        "skier": ("bien", "mal", "vite"),
        "fonctionner": ("bien", "mal"),
        "pousser": ("bien", "mal", "vite", "lentement"),
        "conduire": ("bien", "mal", "vite", "trop", "lentement"),
        "s'habiller": ("bien", "mal", "vite", "lentement"),
    }[verb.fr]
    fr, en, where = w.one([o for o in options if o[0] in allowed])
    w.lemma(fr, en)
    return fr, en, where


def with_object(w: Writer, c: Clause, s: Setting, *, clitics: bool, simple: bool) -> Clause:
    verb, subject = c.verb, c.subject
    if clitics and w.chance(0.17):
        return replace(c, clitics=(object_clitic(w, verb, subject),))
    found = complement(w, verb, subject, neg=s.neg, simple=simple)
    return replace(c, fr_object=found.fr, en_object=found.en)


def with_indirect(w: Writer, c: Clause, *, clitics: bool) -> Clause:
    verb, subject = c.verb, c.subject
    persons = verb.objects[0] in PERSON_CLASSES
    if (
        clitics
        and persons
        and verb.prep == "à"
        and verb.fr != "penser"
        and not verb.has("refl")
        and w.chance(0.35)
    ):
        options = {
            "je": ("te", "vous"),
            "tu": ("me", "nous"),
            "nous": ("te", "vous"),
            "vous": ("me", "nous"),
            "on": ("te", "vous"),
        }.get(subject.fr, ("me", "te", "nous", "vous"))
        chosen = w.one((*options, "lui", "leur", "lui"))
        k = indirect_clitic(chosen) if chosen in ("lui", "leur") else speaker_clitic(chosen, direct=False)
        return replace(c, clitics=(k,))
    found = complement(w, verb, subject)
    return replace(c, fr_object=f"{verb.prep} {found.fr}", en_object=found.en)


_NO_DATIVE_SHIFT = ("explain", "return")


def with_two_objects(w: Writer, c: Clause, s: Setting, *, clitics: bool, simple: bool) -> Clause:
    """Something to somebody, each a phrase or a pronoun."""
    verb, subject = c.verb, c.subject
    options = {
        "je": ("te", "vous", "lui", "leur"),
        "tu": ("me", "nous", "lui", "leur"),
        "nous": ("te", "vous", "lui", "leur"),
        "vous": ("me", "nous", "lui", "leur"),
        "on": ("te", "vous", "lui", "leur"),
    }.get(subject.fr, ("me", "te", "nous", "vous", "lui", "leur"))
    how = w.weighted((40, "none"), (32, "to"), (16, "both"), (8, "it")) if clitics else "none"
    found: list[Clitic] = []
    if how in ("to", "both"):
        chosen = w.one(options)
        found.append(
            indirect_clitic(chosen) if chosen in ("lui", "leur") else speaker_clitic(chosen, direct=False)
        )
    if how in ("both", "it"):
        if verb.objects == ("truth",):
            raise Reject("la dire")
        gender = w.one(w.lexicon.by_class[w.one(verb.objects)]).gender
        found.append(
            direct_clitic(
                "les" if w.chance(0.33) else "la" if gender == "f" else "le", gender=gender, person=False
            )
        )
    fr_parts, en_parts = [], []
    if how in ("none", "to"):
        what = complement(w, verb, subject, neg=s.neg, simple=simple or how == "none")
        if s.name in ("habit", "used") and what.fr.startswith(
            (
                "son ",
                "sa ",
                "mon ",
                "ma ",
                "ton ",
                "ta ",
                "notre ",
                "leur ",
                "votre ",
                "ce ",
                "cette ",
                "cet ",
            )
        ):
            raise Reject("one gives it once")
        fr_parts.append(what.fr)
        en_parts.append(what.en)
    if how in ("none", "it"):
        whom = friendly(w, subject)
        if whom.fr == subject.fr:
            raise Reject("to oneself")
        fr_parts.append(f"à {whom.fr}")
        en_parts.append(f"to {whom.en}")
    return replace(c, clitics=tuple(found), fr_object=" ".join(fr_parts), en_object=" ".join(en_parts))


def with_region(w: Writer, c: Clause) -> Clause:
    """Going to, coming back from, visiting a country or a city."""
    verb = c.verb
    if verb.has("toplace"):
        place = w.rare(
            [
                p
                for p in w.lexicon.places
                if p.fr != "maison" and ("water" not in p.classes or p.fr == "piscine")
            ]
        )
        w.lemma(place.fr, place.en)
        w.bond("aller", place.fr_at)
        return replace(c, fr_object=place.fr_at, en_object=place.en_to)
    if verb.fr == "traverser":
        region = w.rare(
            [r for r in w.lexicon.countries if r.fr not in ("Philippines", "Afrique", "Asie", "Japon")]
        )
    else:
        region = w.rare(w.lexicon.countries if w.chance(0.55) else w.lexicon.cities)
    w.lemma(region.fr, region.en)
    w.bond(verb.fr, region.fr)
    if verb.fr == "aller":
        return replace(c, fr_object=region.fr_in, en_object=f"to {region.en}")
    if verb.fr == "revenir":
        return replace(c, fr_object=region.fr_from, en_object=f"from {region.en}")
    direct = region.fr_direct
    return replace(c, fr_object=direct, en_object=region.en)


def place_for_object(w: Writer, verb: Verb) -> tuple[str, str]:
    wanted = {
        "lire": "read",
        "étudier": "study",
        "perdre": "out",
        "rencontrer": "in",
        "voir": "out",
        "manger": "eat",
        "boire": "eat",
        "attendre": "arrive",
        "trouver": "out",
    }.get(verb.fr, "")
    if not wanted:
        return ("", "")
    return place_of(w, wanted)


def statement(c: Clause) -> Pair:
    return Pair(french_clause(c), english_clause(c))


def french_question(w: Writer, c: Clause, opening: str = "") -> str:
    """est-ce que, inversion, or (yes/no only) plain order."""
    how = w.weighted((5, "est-ce que"), (4, "inversion"), (1.5 if not opening else 0, "plain"))
    if c.subject.fr in ("je", "on", "elles") and how == "inversion":
        how = "est-ce que"
    if how == "inversion":
        return french_inverted(c, opening)
    if how == "plain":
        return french_clause(c)
    return f"{opening} est-ce que {french_clause(c)}"


def lasting(w: Writer, subject: Nominal) -> Clause:
    """A present that has lasted: *habite ici depuis* / "has lived here for"."""
    kind = w.one(("habiter", "travailler", "être", "connaître", "avoir", "étudier", "jouer"))
    if kind == "habiter":
        verb = Verb("habiter", "live", frozenset({"state"}), ("person",), ())
        where = place_of(w, w.one(("country", "country", "live")))
        c = Clause(subject, verb, "p", "perf", fr_rest=(where[0],), en_rest=(where[1],))
    elif kind == "travailler":
        verb = Verb("travailler", "work", frozenset(), ("person",), ())
        where = place_of(w, "work")
        c = Clause(subject, verb, "p", "perf", fr_rest=(where[0],), en_rest=(where[1],))
    elif kind == "être":
        fr, en = predicate(w, subject, ("malade", "marié", "célibataire", "absent"))
        c = Clause(subject, ETRE, "p", "perf", fr_object=fr, en_object=en)
    elif kind == "connaître":
        verb = Verb("connaître", "know", frozenset({"state"}), ("person",), ())
        other = friendly(w, subject)
        c = Clause(subject, verb, "p", "perf", fr_object=other.fr, en_object=other.en)
    elif kind == "avoir":
        noun = w.rare(w.lexicon.by_class["pet"] + w.lexicon.by_class["vehicle"])
        what = noun_phrase(w, noun, "dem")
        verb = Verb("avoir", "have", frozenset({"state"}), ("person",), ())
        c = Clause(subject, verb, "p", "perf", fr_object=what.fr, en_object=what.en)
    elif kind == "étudier":
        verb = Verb("étudier", "study", frozenset(), ("person",), ())
        what = language_or_subject(w)
        c = Clause(subject, verb, "p", "perf", fr_object=what.fr, en_object=what.en)
    else:
        fr, en = w.rare(table("GAMES"))
        verb = Verb("jouer", "play", frozenset(), ("person",), ())
        c = Clause(subject, verb, "p", "perf", fr_object=fr, en_object=en)
    w.lemma(kind, c.verb.en)
    return c


def use_person(w: Writer, who: Nominal) -> Pair:
    """A sentence around a person with a relative clause."""
    kind = w.weighted((3, "subject"), (3, "object"), (1, "to"))
    if kind == "subject":
        fr, en = predicate(w, who)
        s = w.weighted((4, Setting("p", "pres")), (1, Setting("i", "past")))
        return statement(assemble(w, Clause(who, ETRE, fr_object=fr, en_object=en), s))
    subject = subject_pronoun(w) if w.chance(0.6) else name(w)
    if kind == "to":
        verb = w.one(
            [v for v in w.lexicon.indirect if v.fr in ("téléphoner", "parler", "répondre") and v.prep == "à"]
        )
        s = replace(setting(w, verb, names=("past", "future")), time=NO_TIME, neg="")
        return statement(assemble(w, Clause(subject, verb, fr_object=f"à {who.fr}", en_object=who.en), s))
    verb = w.rare(
        [
            v
            for v in w.lexicon.transitive
            if v.objects == ("friendly",) or v.fr in ("rencontrer", "connaître")
        ],
        "verb",
    )
    s = replace(setting(w, verb, names=("past", "future", "state")), time=NO_TIME)
    w.lemma(verb.fr, verb.en)
    return statement(assemble(w, Clause(subject, verb, fr_object=who.fr, en_object=who.en), s))


def use_thing(w: Writer, what: Nominal, noun: Noun) -> Pair:
    """A sentence around a thing with a relative clause."""
    kind = w.weighted((4, "c'est"), (2, "voici"), (3, "subject"), (4, "object"))
    if kind == "c'est":
        if what.plural:
            return Pair(f"ce sont {what.fr}", f"these are {what.en}")
        return Pair(f"c'est {what.fr}", f"this is {what.en}")
    if kind == "voici":
        return Pair(f"voici {what.fr}", f"here {'are' if what.plural else 'is'} {what.en}")
    if kind == "subject":
        a = pick_adjective(w, noun, ("post",))
        if a.groups == ("nation",) or a.fr in ("rose", "orange"):
            raise Reject("not said of it")
        w.bond("adj", a.fr, noun.fr)
        w.lemma(a.fr, a.en)
        fr = french_agree(a, what.gender, what.plural)
        s = w.weighted(
            (4, Setting("p", "pres")), (2, Setting("i", "past")), (1, Setting("p", "pres", neg="pas"))
        )
        return statement(assemble(w, Clause(what, ETRE, fr_object=fr, en_object=a.en), s))
    subject = subject_pronoun(w) if w.chance(0.6) else name(w)
    verbs = [
        v
        for v in w.lexicon.transitive
        if v.fr
        in (
            "voir",
            "trouver",
            "chercher",
            "choisir",
            "acheter",
            "vendre",
            "visiter",
            "regarder",
            "lire",
            "utiliser",
            "perdre",
            "quitter",
            "réparer",
            "oublier",
        )
        and any(o in noun.classes or o == noun.group for o in v.objects)
    ]
    if not verbs:
        raise Reject("no verb for it")
    verb = w.rare(verbs, "verb")
    s = replace(setting(w, verb, names=("past", "future", "goingto")), time=NO_TIME)
    w.lemma(verb.fr, verb.en)
    w.bond(verb.fr, noun.fr)
    return statement(assemble(w, Clause(subject, verb, fr_object=what.fr, en_object=what.en), s))


WEATHER_TENSES = (("p", "pres"), ("i", "past"), ("f", "fut"), ("pc", "past"))


def weather_clause(w: Writer, tense: str, *, place: bool = True, mid: bool = True) -> tuple[str, str]:
    """pleuvoir, neiger, il fait froid."""
    kind = w.weighted((3, "rain"), (2, "snow"), (5, "faire"))
    where = place_of(w, "country") if place and w.chance(0.55) else ("", "")
    if kind in ("rain", "snow"):
        fr_lemma, en_lemma = ("pleuvoir", "rain") if kind == "rain" else ("neiger", "snow")
        w.lemma(fr_lemma, en_lemma)
        often = w.rare(table("ADVERBS_MID")) if mid and tense == "p" and w.chance(0.5) else ("", "")
        it = third_person("il", "it", plural=False, gender="m", kind="noun", key="", human=False)
        verb = Verb(fr_lemma, en_lemma, frozenset(), (), ())
        en_tense = {"p": "pres", "i": "pastprog", "f": "fut", "pc": "past"}[tense]
        if tense == "pc" and w.chance(0.4):
            often = w.one((("beaucoup", "a lot"),))
            c = Clause(
                it,
                verb,
                tense,
                en_tense,
                manner=("beaucoup", "a lot", "aux"),
                fr_rest=(where[0],),
                en_rest=(where[1],),
            )
        else:
            c = Clause(it, verb, tense, en_tense, mid=often, fr_rest=(where[0],), en_rest=(where[1],))
        return french_clause(c), english_clause(c)
    fr, en_subject, en = w.rare([tuple(r) for r in rows(words.WEATHER_FAIRE)], "weather")
    if fr == "nuit":
        where = ("", "")
        if tense != "p":
            raise Reject("night falls")
    if tense == "pc":
        raise Reject("il a fait froid")
    w.lemma(fr, en)
    often = ("toujours", "always") if mid and tense == "p" and w.chance(0.15) and fr != "nuit" else ("", "")
    very = ("très", "very") if fr != "nuit" and not often[0] and w.chance(0.35) else ("", "")
    be = {"p": "is", "i": "was", "f": "will be"}[tense]
    form = m.french_verb("faire", tense, 3, False)
    return (
        f"il {form} {often[0]} {very[0]} {fr} {where[0]}",
        f"{en_subject} {be} {often[1]} {very[1]} {en} {where[1]}",
    )


_SOME = ("un", "une", "des", "du", "de", "quelques", "plusieurs", "deux", "trois", "quatre")


def act(
    w: Writer,
    subject: Nominal,
    verb_fr: str,
    classes: tuple[str, ...] = (),
    *,
    names: tuple[str, ...],
    time: bool = False,
    place: bool = False,
    clitics: bool = False,
    positive: bool = True,
) -> Clause:
    """A clause with this verb and these kinds of object: for sentences whose parts must fit."""
    if verb_fr == "jouer" and w.chance(0.8):
        frame = "game"
    elif (
        (verb_fr == "parler" and classes and classes[0] in ("friendly", "kin", "event"))
        or verb_fr in ("téléphoner", "rendre visite", "répondre", "s'occuper")
        or (verb_fr == "écrire" and classes == ("kin",))
    ):
        frame = "indirect"
    elif verb_fr in ("envoyer", "donner", "montrer", "apporter", "raconter", "offrir"):
        frame = "give"
    elif any(v.fr == verb_fr for v in w.lexicon.intransitive) and not classes:
        frame = "intransitive"
    else:
        frame = "transitive"

    table_ = {"transitive": w.lexicon.transitive, "indirect": w.lexicon.indirect, "give": w.lexicon.give}.get(
        frame, []
    )
    suited = [v.key for v in table_ if v.fr == verb_fr and set(v.objects) & set(classes)]

    def fits(v: Verb) -> bool:
        if suited and v.key not in suited:  # regarder un film is not regarder un tableau
            return False
        return v.fr == verb_fr and not (v.fr == "parler" and (v.prep == "de") != (classes == ("event",)))

    c = event(
        w,
        subject=subject,
        frame=frame,
        names=names,
        modal=0,
        time=time,
        front=0.1,
        simple=True,
        place=place,
        clitics=clitics,
        positive=positive,
        verbs=fits,
        objects=classes,
    )
    return without(c, "mid") if not time else c


@cache
def companions(name_: str) -> dict[str, list[tuple[str, tuple[str, ...]]]]:
    """A table of the lexicon whose rows are a key and then verb>classes."""
    found = {}
    for fields in rows(getattr(words, name_)):
        found[fields[0]] = [(v, tuple(c.split())) for v, _, c in (f.partition(">") for f in fields[1:])]
    return found


def daily(
    w: Writer,
    subject: Nominal,
    *,
    names: tuple[str, ...],
    time: bool = False,
    place: bool = False,
    clitics: bool = False,
    simple: bool = True,
    positive: bool = True,
) -> Clause:
    """A small act of every day."""
    frame = w.weighted(
        (6, "transitive"), (5, "intransitive"), (2, "give"), (1.5, "indirect"), (1, "game"), (1.5, "travel")
    )
    c = event(
        w,
        subject=subject,
        frame=frame,
        names=names,
        modal=0,
        time=time,
        front=0.15,
        simple=simple,
        place=place,
        clitics=clitics,
        positive=positive,
        verbs=lambda v: v.fr in verbs_in("DAILY") and not v.has("state"),
    )
    if frame == "travel" and not c.verb.has("toplace"):
        raise Reject("too far for a day")
    return c


def infinitive(w: Writer, c: Clause) -> Clause:
    """Ready for `french_infinitive`."""
    return without(c, "initial", "mid", "neg", "manner")


def past_infinitive(c: Clause) -> str:
    """*avoir mangé*, *être partie*."""
    be = c.verb.has("etre") or c.verb.has("refl")
    shadow = replace(c, tense="pc")
    before, _, after = french_group(shadow)
    tail = " ".join(x for x in (c.fr_object, *c.fr_rest) if x)
    return f"{before} {'être' if be else 'avoir'} {after} {tail}"
