"""Sentences of several clauses: relatives, reasons, purposes, conditions, narratives, contrasts, opinions."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

from . import lexicon as words
from . import morphology as m
from .clauses import (
    _SOME,
    act,
    assemble,
    companions,
    daily,
    event,
    infinitive,
    past_infinitive,
    place_of,
    use_person,
    use_thing,
)
from .grammar import (
    Clause,
    Clitic,
    Nominal,
    Reject,
    Writer,
    direct_clitic,
    english_bare,
    english_clause,
    english_inverted,
    french_clause,
    french_infinitive,
    noun_phrase,
    pronoun,
    without,
)
from .lexicon import Verb
from .load import rows
from .people import ETRE, GO, GO_PLACE, Pair, echo, name, subject_person, table, third
from .things import _UNIQUE, PERSON_CLASSES, by, complement, kin, predicate, subject_owner
from .times import NO_TIME, Setting, setting, verbs_in

# Nobody does anything else before these.
OUT_OF_BED = ("se lever", "se réveiller")
MORNING = (*OUT_OF_BED, "s'habiller")


def k_relative(w: Writer) -> Pair:
    kind = w.weighted((4, "qui"), (4, "que"), (2, "où"), (2, "dont"), (2, "dont poss"), (2, "qui thing"))
    if kind == "qui":
        noun = w.rare([n for n in w.lexicon.by_group["person"] if n.fr not in ("roi", "reine", "bébé")])
        plural = w.chance(0.25) or noun.plural_only
        base = noun_phrase(w, noun, "def", plural=plural)
        inner = replace(base, fr="qui", en="who", kind="wh")
        c = event(
            w,
            subject=inner,
            names=("habit", "past", "state", "future", "statepast"),
            front=0,
            modal=0.1,
            simple=True,
            place=w.chance(0.5),
            time=w.chance(0.5),
            clitics=False,
        )
        c = without(c, "initial")
        rel = (f"{base.fr} {french_clause(c)}", f"{base.en} {english_clause(c)}")
        return use_person(w, replace(base, fr=rel[0], en=rel[1]))
    if kind == "qui thing":
        noun = w.rare(
            [
                n
                for n in w.lexicon.by_class["device"] + w.lexicon.by_class["transport"]
                if n.fr not in ("taxi", "métro", "tramway")
            ]
        )
        base = noun_phrase(w, noun, "def")
        inner = replace(base, fr="qui", en="that", kind="wh")
        if "transport" in noun.classes:
            where = w.rare(w.lexicon.cities)
            verb = Verb("aller", "go", frozenset({"etre"}), (), ())
            s = Setting("p", "pres")
            c = assemble(w, Clause(inner, verb, fr_object=where.fr_in, en_object=f"to {where.en}"), s)
            w.lemma(where.fr, where.en)
        else:
            verb = Verb("fonctionner", "work", frozenset({"state"}), (), ())
            s = w.one((Setting("p", "pres", neg="pas"), Setting("p", "pres", neg="plus")))
            c = assemble(w, Clause(inner, verb), s)
        rel = replace(base, fr=f"{base.fr} {french_clause(c)}", en=f"{base.en} {english_clause(c)}")
        return use_thing(w, rel, noun)
    if kind == "que":
        inner_subject = subject_person(w, short=True)
        c = event(
            w,
            subject=inner_subject,
            frame="transitive",
            clitics=False,
            modal=0,
            front=0,
            place=w.chance(0.3),
            time=w.chance(0.4),
            names=("past", "past", "future", "goingto", "state"),
            positive=True,
            verbs=lambda v: (
                not set(v.objects) & {*PERSON_CLASSES, "subject"}
                and v.fr not in ("passer", "rater", "gagner")
            ),
        )
        noun = w.rare(w.lexicon.by_class[w.one(c.verb.objects)])
        if noun.fr in _UNIQUE or noun.group == "person":
            raise Reject("unique")
        plural = (w.chance(0.3) and not noun.mass) or noun.plural_only
        base = noun_phrase(w, noun, "def", plural=plural)
        w.bond(c.verb.fr, noun.fr)
        c = replace(without(c, "initial"), fr_object="", en_object="", preceding=(noun.gender, plural))
        rel = replace(base, fr=f"{base.fr} que {french_clause(c)}", en=f"{base.en} that {english_clause(c)}")
        return use_thing(w, rel, noun)
    if kind == "où":
        inner_subject = subject_person(w, short=True)
        verb = w.one(
            [
                v
                for v in w.lexicon.intransitive
                if v.fr
                in (
                    "habiter",
                    "travailler",
                    "dormir",
                    "étudier",
                    "jouer",
                    "dîner",
                    "se promener",
                    "se reposer",
                    "vivre",
                )
            ]
        )
        s = setting(w, verb, names=("past", "state", "statepast", "habit"))
        s = replace(s, time=NO_TIME, neg="", mid=("", ""))
        c = assemble(w, Clause(inner_subject, verb), s)
        noun = w.rare(
            {
                "habiter": by(w, "ville", "village", "maison", "appartement", "rue", "quartier"),
                "vivre": by(w, "ville", "village", "pays", "quartier", "maison"),
                "travailler": by(w, "ville", "hôtel", "magasin", "école", "musée"),
                "dormir": by(w, "chambre", "hôtel", "maison"),
                "étudier": by(w, "ville", "école", "chambre"),
                "jouer": by(w, "rue", "jardin", "forêt"),
                "dîner": by(w, "hôtel", "jardin"),
                "se promener": by(w, "jardin", "forêt", "quartier"),
                "se reposer": by(w, "jardin", "chambre", "salon"),
            }[verb.fr]
        )
        w.lemma(verb.fr, verb.en)
        base = noun_phrase(w, noun, "def")
        rel = replace(base, fr=f"{base.fr} où {french_clause(c)}", en=f"{base.en} where {english_clause(c)}")
        return use_thing(w, rel, noun)
    if kind == "dont":
        inner_subject = subject_person(w, short=True)
        verb, classes = w.one(
            (
                (
                    Verb("parler", "talk about", frozenset(), ("person",), ()),
                    ("watch", "read", "projectlike"),
                ),
                (
                    Verb("avoir besoin", "need", frozenset({"state"}), ("person",), ()),
                    ("tool", "losable", "read"),
                ),
                (
                    Verb("rêver", "dream about", frozenset(), ("person",), ()),
                    ("vehicle", "bought", "travelthing"),
                ),
                (Verb("avoir envie", "want", frozenset({"state"}), ("person",), ()), ("wear", "gift")),
                (Verb("se servir", "use", frozenset({"refl"}), ("person",), ()), ("tool", "device")),
            )
        )
        noun = w.rare(w.lexicon.by_class[w.one(classes)])
        if noun.mass or noun.fr in _UNIQUE or noun.group == "baby":
            raise Reject("count nouns")
        plural = w.chance(0.25) or noun.plural_only
        base = noun_phrase(w, noun, "def", plural=plural)
        s = setting(w, verb, names=("past", "state", "statepast", "habit"))
        s = replace(s, time=NO_TIME, neg="")
        c = assemble(w, Clause(inner_subject, verb), s)
        w.lemma(verb.fr, verb.en)
        rel = replace(base, fr=f"{base.fr} dont {french_clause(c)}", en=f"{base.en} that {english_clause(c)}")
        return use_thing(w, rel, noun)
    owner = noun_phrase(
        w,
        w.rare(
            [
                n
                for n in w.lexicon.by_group["person"]
                if "child" not in n.classes
                and n.fr not in ("roi", "reine", "prince", "princesse", "gens", "élève")
            ]
        ),
        "def",
    )
    relative = w.rare(
        [n for n in w.lexicon.by_group["family"] if n.fr not in ("mari", "femme", "patron", "collègue")]
    )
    inside = noun_phrase(w, relative, "def", plural=relative.plural_only)
    noun = w.rare([n for n in w.lexicon.by_class["profession"] if n.gender == relative.gender])
    w.lemma(noun.fr, noun.en)
    fr_job = m.french_noun(noun.fr, inside.plural)
    en_job = m.english_plural(noun.en) if inside.plural else f"a {noun.en}"
    c = Clause(inside, ETRE, "p", "pres", fr_object=fr_job, en_object=en_job)
    rel = replace(
        owner,
        fr=f"{owner.fr} dont {french_clause(c)}",
        en=f"{owner.en} whose {english_clause(c).removeprefix('the ')}",
    )
    return use_person(w, rel)


@cache
def reasons() -> dict[str, tuple[tuple[str, ...], list[str]]]:
    """Verb to the classes of object that make sense with its reasons (empty: any), and the reasons."""
    found = {}
    for fields in rows(words.REASONS):
        verb, _, classes = fields[0].partition(">")
        found[verb] = (tuple(classes.split()), fields[1:])
    return found


_WHY_NOT = (
    "adj:fatigué",
    "adj:malade",
    "adj:occupé",
    "lack:le temps",
    "être:en retard",
    "weather:bad",
    "être:en vacances",
)


_LACKS = {"d'argent": "any money", "de voiture": "a car", "le temps": "time"}


def reason(w: Writer, subject: Nominal, cause: str, past: bool) -> tuple[str, str]:
    """A clause that explains: *il était fatigué*."""
    tense, en_tense = ("i", "past") if past else ("p", "pres")
    kind, _, what = cause.partition(":")
    if kind == "weather":
        options = {
            "bad": (
                ("il pleuvait", "it was raining"),
                ("il neigeait", "it was snowing"),
                ("il faisait mauvais", "the weather was bad"),
                ("il faisait froid", "it was cold"),
            ),
            "cold": (("il faisait froid", "it was cold"), ("il faisait très froid", "it was very cold")),
            "hot": (("il faisait chaud", "it was hot"), ("il faisait très chaud", "it was very hot")),
        }[what]
        if not past:
            options = {
                "bad": (("il fait mauvais", "the weather is bad"), ("il fait froid", "it is cold")),
                "cold": (("il fait froid", "it is cold"),),
                "hot": (("il fait chaud", "it is hot"),),
            }[what]
        return w.one(options)
    who = echo(subject)
    if kind == "adj":
        fr, en = predicate(w, who, (what,))
        c = Clause(who, ETRE, tense, en_tense, fr_object=fr, en_object=en)
    elif kind == "avoir":
        en = dict(table("FEELINGS"))[what]
        c = Clause(who, Verb(f"avoir {what}", f"be {en}", frozenset({"state"}), (), ()), tense, en_tense)
    elif kind == "être":
        c = Clause(who, ETRE, tense, en_tense, fr_object=what, en_object=dict(table("STATES"))[what])
    else:
        avoir = Verb("avoir", "have", frozenset({"state"}), (), ())
        c = Clause(who, avoir, tense, en_tense, neg="pas", fr_object=what, en_object=_LACKS[what])
    return french_clause(c), english_clause(c)


def why(w: Writer, c: Clause) -> str:
    """A cause that makes sense for this clause."""
    if c.neg:
        if c.verb.fr in ("acheter", "voyager") and w.chance(0.5):
            return "lack:d'argent"
        cause = w.one(_WHY_NOT)
        if cause == "weather:bad" and c.verb.fr not in verbs_in("OUTDOORS"):
            raise Reject("not outdoors")
        return cause
    if c.heads or c.verb.fr not in reasons():
        raise Reject("no reason known")
    classes, causes = reasons()[c.verb.fr]
    if classes and c.verb.objects != classes:
        raise Reject("not with that object")
    return w.one(causes)


def k_because(w: Writer) -> Pair:
    subject = subject_person(w, short=True)
    past = w.chance(0.75)
    positive = w.chance(0.6)
    tense = ("past",) if past else ("habit",)
    if positive:
        verb_fr = w.rare(sorted(reasons()), "because")
        c = act(
            w, subject, verb_fr, reasons()[verb_fr][0], names=tense, time=w.chance(0.3), place=w.chance(0.4)
        )
    else:
        c = daily(w, subject, names=tense, time=w.chance(0.4), place=w.chance(0.4), positive=False)
        if c.verb.fr in (
            "mettre",
            "se réveiller",
            "se coucher",
            "dormir",
            "se reposer",
            "attendre",
            "payer",
            "rentrer",
        ):
            raise Reject("not for want of anything")
    c = without(c, "mid", "manner")
    if not c.neg and not positive:
        if any(f" {x} " in f" {c.fr_object} " for x in _SOME) or "de l'" in c.fr_object:
            raise Reject("ne pas de")
        c = replace(c, neg="pas")
    if c.neg and (c.verb.fr in verbs_in("ACCIDENTS") or c.verb.has("state") or c.neg not in ("pas",)):
        raise Reject("no reason for that")
    fr, en = reason(w, subject, why(w, c), past)
    return Pair(f"{french_clause(c)} parce que {fr}", f"{english_clause(c)} because {en}")


def k_purpose(w: Writer) -> Pair:
    """pour, avant de, sans, après + infinitive."""
    subject = subject_person(w, short=True)
    kind = w.weighted((4, "pour"), (3, "avant"), (1.5, "sans"), (1.5, "après"))
    names = w.weighted((5, ("past",)), (2, ("future",)), (2, ("goingto",)), (2, ("habit",)))
    if kind == "pour":
        where = w.rare(sorted(companions("PURPOSES")), "pour")
        verb_fr, classes = w.rare(companions("PURPOSES")[where], where)
        places = [p for p in w.lexicon.places if p.fr == where]
        if places:
            s = setting(w, GO_PLACE, names=names)
            place = places[0]
            w.lemma(place.fr, place.en)
            w.bond("pour", place.fr_at, verb_fr)
            c = Clause(subject, GO_PLACE, fr_object=place.fr_at, en_object=place.en_to)
            c = assemble(w, c, replace(s, neg="", mid=("", ""), time=s.time if w.chance(0.4) else NO_TIME))
        else:
            c = act(
                w, subject, where, ("kin",) if where == "téléphoner" else (), names=names, time=w.chance(0.3)
            )
        p = infinitive(w, act(w, subject, verb_fr, classes, names=("past",)))
        return Pair(
            f"{french_clause(c)} pour {french_infinitive(p)}", f"{english_clause(c)} to {english_bare(p)}"
        )
    if kind == "sans":
        what = w.rare(sorted(companions("LACKING")), "sans")
        verb_fr, classes = w.rare(companions("LACKING")[what], what)
        c = act(
            w,
            subject,
            what,
            ("food",) if what == "manger" else ("friendly",) if what == "répondre" else (),
            names=("past", "habit"),
            time=w.chance(0.4),
        )
        p = infinitive(w, act(w, subject, verb_fr, classes, names=("past",)))
        if any(f" {x} " in f" {p.fr_object} " for x in _SOME):
            raise Reject("sans un")
        return Pair(
            f"{french_clause(c)} sans {french_infinitive(p)}",
            f"{english_clause(c)} without {english_bare(p, 'ing')}",
        )
    c = daily(
        w, subject, names=names if kind == "avant" else ("past",), time=w.chance(0.35), place=w.chance(0.4)
    )
    if kind == "avant" and w.chance(0.12):
        p = infinitive(w, act(w, subject, w.one(("partir", "sortir", "dormir")), names=("past",)))
    else:
        p = infinitive(w, daily(w, subject, names=("past",), place=w.chance(0.2)))
    if (
        p.verb.fr == c.verb.fr
        or (kind == "avant" and (c.verb.fr == "se coucher" or p.verb.fr in OUT_OF_BED))
        or (c.verb.fr, p.verb.fr) in (("rentrer", "partir"), ("préparer", "dîner"), ("préparer", "déjeuner"))
    ):
        raise Reject("not in that order")
    fr = french_infinitive(p) if kind == "avant" else past_infinitive(p)
    en = english_bare(p, "ing")
    word_fr, word_en = ("avant de", "before") if kind == "avant" else ("après", "after")
    if w.chance(0.4):
        c = without(c, "initial")
        return Pair(f"{word_fr} {fr} , {french_clause(c)}", f"{word_en} {en} , {english_clause(c)}")
    return Pair(f"{french_clause(c)} {word_fr} {fr}", f"{english_clause(c)} {word_en} {en}")


def k_when(w: Writer) -> Pair:
    """quand, pendant que, si."""
    kind = w.weighted(
        (3, "interrupt"), (3, "future"), (3, "si real"), (3, "si unreal"), (2, "while"), (2, "habit")
    )
    subject = subject_person(w, short=True)
    if kind == "interrupt":
        c = daily(w, subject, names=("moment",), place=w.chance(0.5))
        if c.verb.has("etre") or c.verb.fr in _INSTANT:
            raise Reject("takes no time")
        intruder = third(w)
        verb = w.one(
            [
                Verb("arriver", "arrive", frozenset({"etre"}), (), ()),
                Verb("entrer", "come in", frozenset({"etre"}), (), ()),
            ]
        )
        if intruder.fr == subject.fr:
            raise Reject("same")
        if any(c.fr_rest):
            verb = Verb("arriver", "arrive", frozenset({"etre"}), (), ())
        d = Clause(intruder, verb, "pc", "past")
        fr_d, en_d = french_clause(d), english_clause(d)
        if w.chance(0.25):
            fr_d, en_d = w.one(
                (
                    ("le téléphone a sonné", "the phone rang"),
                    ("l'orage a commencé", "the storm started"),
                    ("la pluie a commencé", "the rain started"),
                )
            )
        return Pair(f"{french_clause(c)} quand {fr_d}", f"{english_clause(c)} when {en_d}")
    if kind == "future":
        c = daily(w, subject, names=("future",), place=w.chance(0.4), clitics=w.chance(0.3))
        fr, en = when_future(w, subject)
        if w.chance(0.5):
            return Pair(f"quand {fr} , {french_clause(c)}", f"when {en} , {english_clause(c)}")
        return Pair(f"{french_clause(c)} quand {fr}", f"{english_clause(c)} when {en}")
    if kind in ("si real", "si unreal"):
        unreal = kind == "si unreal"
        fr, en, key = condition(w, subject, *(("i", "past") if unreal else ("p", "pres")))
        who = subject if subject.kind == "pronoun" or key in ("nice", "hot", "cold", "bad") else echo(subject)
        verb_fr, classes = w.rare(companions("CONSEQUENCES")[key], key)
        c = act(w, who, verb_fr, classes, names=("cond",) if unreal else ("future",), place=w.chance(0.3))
        c = without(c, "initial")
        if unreal:
            c = replace(c, fr_rest=(), en_rest=()) if any("place" in x for x in c.fr_rest) else c
        if w.chance(0.3) and who is subject:
            return Pair(f"{french_clause(c)} si {fr}", f"{english_clause(c)} if {en}")
        return Pair(f"si {fr} , {french_clause(c)}", f"if {en} , {english_clause(c)}")
    if kind == "habit":
        who = echo(subject)
        age = w.one((("petit", "little"), ("jeune", "young")))
        if who.fr == "on":
            raise Reject("agreement")
        a = m.french_adjective(age[0], who.gender, who.plural)
        d = Clause(who, ETRE, "i", "past", fr_object=a, en_object=age[1])
        c = event(
            w,
            subject=subject,
            names=("used",),
            modal=0,
            time=False,
            front=0,
            simple=True,
            place=w.chance(0.4),
            clitics=False,
        )
        c = without(c, "initial", "mid")
        if w.chance(0.5):
            return Pair(
                f"quand {french_clause(d)} , {french_clause(c)}",
                f"when {english_clause(d)} , {english_clause(c)}",
            )
        return Pair(
            f"{french_clause(c)} quand {french_clause(d)}", f"{english_clause(c)} when {english_clause(d)}"
        )
    other = third(w)
    if other.fr == subject.fr:
        raise Reject("same")
    a = daily(w, subject, names=("moment",), place=w.chance(0.3))
    b = daily(w, other, names=("moment",), place=w.chance(0.3))
    for c in (a, b):
        if c.verb.has("etre") or c.verb.fr in _INSTANT:
            raise Reject("takes no time")
    if w.chance(0.4):
        return Pair(
            f"pendant que {french_clause(b)} , {french_clause(a)}",
            f"while {english_clause(b)} , {english_clause(a)}",
        )
    return Pair(
        f"{french_clause(a)} pendant que {french_clause(b)}", f"{english_clause(a)} while {english_clause(b)}"
    )


_INSTANT = (
    "s'asseoir",
    "ouvrir",
    "fermer",
    "allumer",
    "éteindre",
    "rencontrer",
    "finir",
    "commencer",
    "choisir",
    "se lever",
    "se réveiller",
    "commander",
    "mettre",
    "se coucher",
    "rendre",
    "donner",
    "payer",
    "inviter",
)


def when_future(w: Writer, subject: Nominal) -> tuple[str, str]:
    """French future, English present: *quand elle arrivera*, "when she arrives"."""
    who = echo(subject) if w.chance(0.5) else third(w)
    if who.fr == "on":
        raise Reject("agreement")
    own = who.kind == "pronoun"
    verb = w.one(
        (
            Verb("arriver", "arrive", frozenset({"etre"}), (), ()),
            Verb("rentrer", "come home", frozenset({"etre"}), (), ()),
            Verb("revenir", "come back", frozenset({"etre"}), (), ()),
            Verb("être prêt", "be ready", frozenset(), (), ()),
            Verb("avoir le temps", "have time", frozenset(), (), ()),
            Verb("partir", "leave", frozenset(), (), ()),
        )
    )
    if own and verb.fr == "partir":
        raise Reject("on leaving?")
    if verb.fr == "être prêt":
        a = m.french_adjective("prêt", who.gender, who.plural)
        c = Clause(who, ETRE, "f", "pres", fr_object=a, en_object="ready")
    else:
        c = Clause(who, verb, "f", "pres")
    return french_clause(c), english_clause(c)


_POSSESSIONS = (
    ("de l'argent", "money", "money"),
    ("assez d'argent", "enough money", "money"),
    ("le temps", "time", "time"),
    ("des vacances", "a vacation", "time"),
    ("une voiture", "a car", "vehicle"),
    ("un vélo", "a bike", "vehicle"),
)


_CONDITIONS = (
    ("riche", "rich", "money"),
    ("libre", "free", "free"),
    ("malade", "sick", "sick"),
    ("prêt", "ready", "ready"),
    ("fatigué", "tired", "sleepy"),
)


_IF_WEATHER = (
    ("il fait beau", "the weather is nice", "nice"),
    ("il fait froid", "it is cold", "cold"),
    ("il fait chaud", "it is hot", "hot"),
    ("il pleut", "it rains", "bad"),
    ("il neige", "it snows", "bad"),
    ("il fait mauvais", "the weather is bad", "bad"),
)


_IF_WEATHER_UNREAL = (
    ("il faisait beau", "the weather were nice", "nice"),
    ("il faisait chaud", "it were hot", "hot"),
    ("il faisait froid", "it were cold", "cold"),
)


def condition(w: Writer, who: Nominal, tense: str, en_tense: str) -> tuple[str, str, str]:
    """An if-clause and the key of what may follow from it in ``CONSEQUENCES``."""
    kind = w.weighted((3, "have"), (3, "weather"), (2, "feeling"), (2, "can"), (2, "be"), (2, "go"))
    if kind == "weather":
        return w.one(_IF_WEATHER if tense == "p" else _IF_WEATHER_UNREAL)
    if kind == "have":
        fr, en, key = w.one(_POSSESSIONS)
        c = Clause(
            who, Verb("avoir", "have", frozenset(), (), ()), tense, en_tense, fr_object=fr, en_object=en
        )
    elif kind == "feeling":
        if tense == "i":
            raise Reject("were")
        fr, en = w.one(
            [f for f in table("FEELINGS") if f[0] in ("faim", "soif", "sommeil", "froid", "chaud")]
        )
        key = {"faim": "hungry", "soif": "thirsty", "sommeil": "sleepy", "froid": "cold", "chaud": "hot"}[fr]
        c = Clause(who, Verb(f"avoir {fr}", f"be {en}", frozenset(), (), ()), tense, en_tense)
    elif kind == "can":
        form = m.french_verb("pouvoir", tense, who.person, who.plural)
        return f"{who.fr} {form}", f"{who.en} {'can' if tense == 'p' else 'could'}", "can"
    elif kind == "be":
        if who.fr == "on":
            raise Reject("agreement")
        fr, en, key = w.one(_CONDITIONS)
        a = m.french_adjective(fr, who.gender, who.plural)
        if tense == "i":  # the old subjunctive: "if I were"
            return (
                f"{who.fr} {m.french_verb('être', 'i', who.person, who.plural)} {a}",
                f"{who.en} were {en}",
                key,
            )
        c = Clause(who, ETRE, tense, en_tense, fr_object=a, en_object=en)
    elif tense == "i":
        fr, en = place_of(w, w.one(("country", "live")))
        habiter = Verb("habiter", "live", frozenset({"state"}), (), ())
        c, key = Clause(who, habiter, tense, en_tense, fr_object=fr, en_object=en), "live"
    else:
        region = w.rare(w.lexicon.countries if w.chance(0.5) else w.lexicon.cities)
        w.lemma(region.fr, region.en)
        c, key = (
            Clause(who, GO, tense, en_tense, fr_object=region.fr_in, en_object=f"to {region.en}"),
            "there",
        )
    return french_clause(c), english_clause(c), key


def narrative(w: Writer, clauses: int, *, long: bool = False) -> Pair:
    """Several clauses about one subject, joined: *Paul a lu le journal, puis il est sorti.*"""
    tense = w.weighted((6, "past"), (3, "future"), (2, "goingto"), (2, "habit"))
    who = subject = subject_person(w, short=True)
    fr_parts, en_parts = [], []
    verbs_used: list[str] = []
    links = w.one(
        (
            (("et", "and"), ("puis", "then"), ("et", "and"), ("et ensuite", "and then")),
            (("puis", "then"), ("et", "and"), ("et ensuite", "and then"), ("et", "and")),
            (("et ensuite", "and then"), ("et", "and"), ("puis", "then"), ("et", "and")),
        )
    )
    c = None
    for index in range(clauses):
        first, last = index == 0, index == clauses - 1
        c = daily(
            w,
            who,
            names=(tense,),
            time=first and (long or w.chance(0.6)),
            place=w.chance(0.8 if long else 0.5),
            simple=not long,
            positive=not last or w.chance(0.6),
        )
        c = without(c, "mid") if first else without(c, "mid", "initial")
        if (not first and c.verb.fr in MORNING) or (not last and c.verb.fr == "se coucher"):
            raise Reject("at its hour")
        if c.verb.fr in verbs_used:
            raise Reject("verb again")
        verbs_used.append(c.verb.fr)
        if c.en_object and any(c.en_object.split()[-1] in part.split() for part in en_parts):
            raise Reject("thing again")
        fr, en = french_clause(c), english_clause(c)
        if first:
            fr_parts.append(fr)
            en_parts.append(en)
            who = echo(subject)
            continue
        link_fr, link_en = ("mais", "but") if c.neg else links[index - 1]
        comma = "," if link_fr in ("mais", "puis") or clauses > 2 else ""
        fr_parts.append(f"{comma} {link_fr} {fr}")
        en_parts.append(f"{comma} {link_en} {en}")
    assert c is not None
    if long or w.chance(0.25):
        if tense in ("past", "habit") and (c.neg or c.verb.fr in reasons()) and w.chance(0.6):
            fr, en = reason(w, who, why(w, c), tense == "past")
            fr_parts.append(f"parce que {fr}")
            en_parts.append(f"because {en}")
        elif not c.neg and w.chance(0.6):
            p = infinitive(w, daily(w, who, names=("past",)))
            if p.verb.fr in verbs_used or p.verb.fr in MORNING:
                raise Reject("not in that order")
            fr_parts.append(f"avant de {french_infinitive(p)}")
            en_parts.append(f"before {english_bare(p, 'ing')}")
    return Pair(" ".join(fr_parts), " ".join(en_parts))


def k_pronoun(w: Writer) -> Pair:
    """The object of the first clause comes back as a pronoun: *J'ai acheté une robe et je l'ai donnée
    à ma sœur.*
    """
    subject = subject_person(w, short=True)
    tense = w.weighted((5, "past"), (2, "future"), (2, "goingto"))
    first_fr = w.rare(
        ("acheter", "trouver", "réparer", "choisir", "emprunter", "laver", "écrire", "préparer", "dessiner"),
        "first",
    )
    if first_fr in ("trouver",) and tense != "past":
        raise Reject("nobody plans that")
    verb = next(v for v in w.lexicon.transitive if v.fr == first_fr)
    noun = w.rare(w.lexicon.by_class[w.one([o for o in verb.objects if o in w.lexicon.by_class])])
    if noun.group in ("building", "nature", "abstract") or noun.fr in _UNIQUE:
        raise Reject("not handed over")
    second = {
        "acheter": ("donner", "donner", "montrer", "manger", "offrir"),
        "trouver": ("rendre", "donner", "donner", "montrer"),
        "réparer": ("vendre", "rendre"),
        "choisir": ("acheter", "donner"),
        "emprunter": ("rendre", "perdre", "lire"),
        "laver": ("vendre",),
        "écrire": ("envoyer", "lire", "montrer"),
        "préparer": ("manger", "apporter"),
        "dessiner": ("montrer",),
    }[first_fr]
    second_fr = w.one(second)
    if (second_fr == "manger") != ("food" in noun.classes):
        raise Reject("eat food")
    if (second_fr == "lire" and "read" not in noun.classes) or second_fr == "ranger":
        raise Reject("read texts")
    if second_fr in ("perdre",) and tense != "past":
        raise Reject("nobody plans that")
    give = next((v for v in w.lexicon.give if v.fr == second_fr), None)
    plain = next((v for v in w.lexicon.transitive if v.fr == second_fr), None)
    det = "part" if noun.mass else w.weighted((4, "indef"), (2, "def"), (1, "own"))
    plural = w.chance(0.25) and not noun.mass
    owner = subject_owner(subject)
    if det == "own" and not owner:
        det = "def"
    what = noun_phrase(w, noun, det, plural=plural, owner=owner)
    s = replace(setting(w, verb, names=(tense,)), neg="")
    a = assemble(
        w,
        Clause(subject, verb, fr_object=what.fr, en_object=what.en),
        s if w.chance(0.5) else replace(s, time=NO_TIME),
    )
    k = direct_clitic(
        "les" if what.plural else "la" if noun.gender == "f" else "le", gender=noun.gender, person=False
    )
    if what.plural and not what.en_plural:
        raise Reject("them or it")
    who = echo(subject)
    c = Clause(who, give or plain or verb, clitics=(k,))
    if give is not None and second_fr != "lire":
        receiver = kin(w, who)
        if receiver.fr == subject.fr:
            raise Reject("to oneself")
        c = replace(c, fr_object=f"à {receiver.fr}", en_object=f"to {receiver.en}")
    b = assemble(w, c, replace(s, time=NO_TIME))
    w.lemma(verb.fr, verb.en)
    w.lemma(c.verb.fr, c.verb.en)
    w.bond(verb.fr, noun.fr)
    link = w.weighted((4, ("et", "and")), (2, (", puis", ", then")), (1, ("et ensuite", "and then")))
    return Pair(
        f"{french_clause(a)} {link[0]} {french_clause(b)}",
        f"{english_clause(a)} {link[1]} {english_clause(b)}",
    )


def k_narrative(w: Writer) -> Pair:
    return narrative(w, w.weighted((4, 2), (3, 3)))


def k_contrast(w: Writer) -> Pair:
    """Two subjects: *Paul aime le café, mais Marie préfère le thé.*"""
    a_subject = name(w) if w.chance(0.6) else subject_person(w, short=True)
    b_subject = name(w) if w.chance(0.5) else subject_person(w, short=True)
    if (
        a_subject.fr == b_subject.fr
        or b_subject.fr in ("il", "elle", "ils", "elles", "on")
        or b_subject.en == a_subject.en
    ):
        raise Reject("who?")
    kind = w.weighted((3, "like"), (4, "same"), (2, "be"))
    if kind == "like":
        verb = w.one([v for v in w.lexicon.like if v.has("love") and v.en in ("like", "love")])
        other = w.one(
            [v for v in w.lexicon.like if v.has("love") and v.fr in ("préférer", "détester", "adorer")]
        )
        if verb.fr == other.fr:
            raise Reject("same verb")
        shared = [o for o in verb.objects if o in other.objects]
        topic = (w.one(shared),)
        a = complement(w, verb, a_subject, simple=True, only=topic)
        b = complement(w, other, b_subject, simple=True, only=topic)
        if a.key == b.key or f"{a.fr} {b.fr}".startswith("ce") or " ce" in f"{a.fr} {b.fr}":
            raise Reject("same thing")
        ca = Clause(a_subject, verb, fr_object=a.fr, en_object=a.en)
        cb = Clause(b_subject, other, fr_object=b.fr, en_object=b.en)
        w.lemma(verb.fr, verb.en)
        w.lemma(other.fr, other.en)
    elif kind == "be":
        alike = tuple((words.CHARACTERS if w.chance(0.5) else words.MOODS).split())
        fr, en = predicate(w, a_subject, alike)
        ca = Clause(a_subject, ETRE, fr_object=fr, en_object=en)
        first_en = en
        fr, en = predicate(w, b_subject, alike)
        if en == first_en:
            raise Reject("no contrast")
        cb = Clause(b_subject, ETRE, fr_object=fr, en_object=en)
    else:
        tense = w.one(("past", "future", "habit"))
        frame = w.one(("transitive", "intransitive", "travel", "game"))
        verb_name = ""
        ca = event(
            w,
            subject=a_subject,
            frame=frame,
            names=(tense,),
            modal=0,
            time=False,
            front=0,
            simple=True,
            clitics=False,
            positive=True,
        )
        verb_name = ca.verb.fr
        if frame in ("transitive", "intransitive"):
            cb = event(
                w,
                subject=b_subject,
                frame=frame,
                names=(tense,),
                modal=0,
                time=False,
                front=0,
                simple=True,
                clitics=False,
                positive=True,
                verbs=lambda v: v.fr == verb_name if frame == "transitive" else True,
            )
        else:
            cb = event(
                w,
                subject=b_subject,
                frame=frame,
                names=(tense,),
                modal=0,
                time=False,
                front=0,
                simple=True,
                clitics=False,
                positive=True,
            )
        ca, cb = without(ca, "mid"), without(cb, "mid")
        if frame == "travel" and (ca.verb.key, ca.verb.flags) != (cb.verb.key, cb.verb.flags):
            raise Reject("not alike")
        if (ca.fr_object, ca.verb.fr, ca.fr_rest) == (cb.fr_object, cb.verb.fr, cb.fr_rest):
            raise Reject("no contrast")
    link = w.weighted((3, (", mais", ", but")), (3, (", et", ", and")))
    if kind == "like":
        link = (", mais", ", but")
    return Pair(
        f"{french_clause(ca)} {link[0]} {french_clause(cb)}",
        f"{english_clause(ca)} {link[1]} {english_clause(cb)}",
    )


def k_opinion(w: Writer) -> Pair:
    """penser que, dire que..."""
    subject = subject_person(w, short=True)
    fr_verb, en_verb = w.rare(table("OPINIONS"))
    verb = Verb(fr_verb, en_verb, frozenset({"state"}), ("person",), ())
    s = w.weighted((5, Setting("p", "pres")), (1.5, Setting("i", "past")))
    if fr_verb in ("dire",):
        s = Setting("pc", "past")
    if fr_verb == "être sûr":
        if subject.fr == "on":
            raise Reject("agreement")
        a = m.french_adjective("sûr", subject.gender, subject.plural)
        main = Clause(subject, ETRE, s.tense, s.en_tense, fr_object=a, en_object="sure")
    else:
        main = Clause(subject, verb, s.tense, s.en_tense)
    w.lemma(fr_verb, en_verb)
    inner_subject = subject_person(w, short=True)
    if inner_subject.person == subject.person and (subject.person < 3 or inner_subject.kind == "pronoun"):
        raise Reject("about oneself")
    if w.chance(0.4):
        fr, en = predicate(w, inner_subject)
        tense = ("p", "pres") if s.tense == "p" else ("i", "past")
        inner = Clause(inner_subject, ETRE, *tense, fr_object=fr, en_object=en)
    else:
        names = (
            ("past", "future", "state", "goingto")
            if s.tense == "p"
            else ("cond",)
            if fr_verb != "savoir"
            else ("cond", "pqp")
        )
        inner = event(
            w,
            subject=inner_subject,
            names=names,
            modal=0.05,
            front=0,
            simple=True,
            place=w.chance(0.3),
            time=w.chance(0.3),
        )
        inner = without(inner, "initial")
    if w.chance(0.15) and s.tense == "p" and fr_verb in ("penser", "croire", "savoir"):
        if subject.fr == "je":
            raise Reject("asking oneself")
        if fr_verb != "savoir":
            raise Reject("subjunctive")
        return Pair(
            f"est-ce que {french_clause(main)} que {french_clause(inner)}",
            f"{english_inverted(main)} that {english_clause(inner)}",
            "?",
        )
    return Pair(
        f"{french_clause(main)} que {french_clause(inner)}",
        f"{english_clause(main)} that {english_clause(inner)}",
    )


def k_her(w: Writer) -> Pair:
    """The woman is named first: *lui* and *l'* are "her" here."""
    woman = (
        name(w, "f")
        if w.chance(0.6)
        else noun_phrase(
            w, w.rare([n for n in w.lexicon.by_group["family"] if n.gender == "f"]), "own", owner="my"
        )
    )
    subject = pronoun(w.one(("je", "tu", "nous", "vous", "ils")), "m")
    verb_fr, verb_en = w.one(
        (
            ("parler", "talk to"),
            ("téléphoner", "call"),
            ("répondre", "answer"),
            ("écrire", "write to"),
            ("rendre visite", "visit"),
        )
    )
    opening = w.weighted((3, "malade"), (3, "quand"), (2, "love"))
    verb = Verb(verb_fr, verb_en, frozenset(), (), (), "à")
    her = Clitic("lui", "her", 3, person=True)
    w.lemma(verb_fr, verb_en)
    if opening == "quand":
        see = w.one((("voir", "see"), ("rencontrer", "meet"), ("attendre", "wait for")))
        a = Clause(
            subject,
            Verb(see[0], see[1], frozenset(), (), ()),
            "p",
            "pres",
            fr_object=woman.fr,
            en_object=woman.en,
        )
        mid = w.one((("toujours", "always"), ("souvent", "often"), ("parfois", "sometimes"), ("", "")))
        if verb_fr != "parler" or see[0] == "attendre":
            raise Reject("she is here")
        b = Clause(subject, verb, "p", "pres", clitics=(her,), mid=mid)
        return Pair(
            f"quand {french_clause(a)} , {french_clause(b)}",
            f"when {english_clause(a)} , {english_clause(b)}",
        )
    fr_word, en_word = w.one(
        (
            ("malade", "sick"),
            ("triste", "sad"),
            ("seule", "alone"),
            ("inquiète", "worried"),
            ("absente", "absent"),
        )
    )
    be = Clause(woman, ETRE, "p", "pres", fr_object=fr_word, en_object=en_word)
    if fr_word == "absente" and verb_fr not in ("téléphoner", "écrire"):
        raise Reject("she is not there")
    if opening == "malade":
        b = Clause(subject, verb, "f", "fut", clitics=(her,), fr_rest=("ce soir",), en_rest=("this evening",))
        if w.chance(0.5):
            b = Clause(
                subject,
                verb,
                "p",
                "pres",
                clitics=(her,),
                fr_rest=("tous les jours",),
                en_rest=("every day",),
            )
    else:
        b = Clause(subject, verb, "pc", "past", clitics=(her,), fr_rest=("hier",), en_rest=("yesterday",))
    return Pair(
        f"{french_clause(be)} , donc {french_clause(b)}", f"{english_clause(be)} , so {english_clause(b)}"
    )
