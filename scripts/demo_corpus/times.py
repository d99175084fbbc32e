"""When: clocks, dates, spans, and the choice of a tense with a time expression that suits verb and tense."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from . import lexicon as words
from .grammar import Head, Reject, Writer
from .lexicon import Verb
from .people import GOING, PROGRESS, RECENT, head, heads, table
from .things import number_word

Time = tuple[str, str]


def clock(w: Writer) -> Time:
    """An hour without preposition: *huit heures et demie*, "half past eight"."""
    if w.chance(0.12):
        return w.one((("midi", "noon"), ("minuit", "midnight")))
    hours = [n for n in w.lexicon.numbers if n[2] <= 11]
    fr, en, _ = w.rare(hours, "hour")
    how = w.weighted((6, ""), (2, "half"), (1.5, "quarter"), (1.5, "to"))
    if how == "half":
        return f"{fr} heures et demie", f"half past {en}"
    if how == "quarter":
        return f"{fr} heures et quart", f"a quarter past {en}"
    if how == "to":
        return f"{fr} heures moins le quart", f"a quarter to {en}"
    return f"{fr} heures", f"{en} o'clock"


def date(w: Writer) -> Time:
    """*le 3 mai*, "May 3"."""
    fr, en = w.rare(table("MONTHS"))
    day = 1 + w.below(30 if fr != "février" else 28)
    w.lemma(fr, en)
    return ("le 1er " + fr if day == 1 else f"le {day} {fr}"), f"{en} {day}"


def month(w: Writer) -> Time:
    fr, en = w.rare(table("MONTHS"))
    w.lemma(fr, en)
    return f"en {fr}", f"in {en}"


def day(w: Writer) -> Time:
    fr, en = w.rare(table("DAYS"))
    w.lemma(fr, en)
    return fr, en


UNITS = (
    ("jour", "jours", "day", "days"),
    ("semaine", "semaines", "week", "weeks"),
    ("mois", "mois", "month", "months"),
    ("an", "ans", "year", "years"),
    ("heure", "heures", "hour", "hours"),
)


def span(w: Writer, *units: int) -> Time:
    """*trois jours*, "three days"."""
    index = w.one(units or (0, 1, 2, 3))
    fr_one, fr_many, en_one, en_many = UNITS[index]
    if w.chance(0.15) and fr_one != "jour":
        article = "une" if fr_one in ("semaine", "heure") else "un"
        return f"{article} {fr_one}", f"{'an' if en_one == 'hour' else 'one'} {en_one}".replace(
            "an hour", "one hour"
        )
    fr, en = number_word(w, 12 if index in (2, 3) else 6)
    return f"{fr} {fr_many}", f"{en} {en_many}"


def year(w: Writer) -> str:
    return str(w.rare(range(1985, 2025, 1), "year"))


@cache
def verbs_in(name_: str) -> frozenset[str]:
    """A set of French verbs from the lexicon; lines with ``;`` hold verbs with spaces."""
    found: list[str] = []
    for line in getattr(words, name_).splitlines():
        found.extend(line.split(";") if ";" in line else line.split())
    return frozenset(v.strip() for v in found if v.strip())


def is_big(verb: Verb) -> bool:
    return verb.fr in verbs_in("BIG") or verb.has("big")


_YEARLY = (
    "année",
    "été",
    "hiver",
    "par an",
    "longtemps",
    "mois",
    "semaine",
    "en temps",
    "d'habitude",
    "un jour",
    "bientôt",
)


_ONLY_YEARLY = ("année", "été", "hiver", "par an", "longtemps")


def from_table(w: Writer, name_: str, verb: Verb) -> Time:
    """A row that suits the size of the event."""
    if is_big(verb):
        options = [t for t in table(name_) if any(word in t[0] for word in _YEARLY)]
    elif verb.fr in verbs_in("SEASONAL"):
        options = [t for t in table(name_) if "longtemps" not in t[0] and "an" not in t[0].split()]
    else:
        options = [t for t in table(name_) if not any(word in t[0] for word in _ONLY_YEARLY)]
    fr, en = w.rare(options)
    w.lemma(fr, en)
    return fr, en


def some_span(w: Writer, verb: Verb) -> Time:
    return span(w, 2, 3, 1) if is_big(verb) else span(w, 0, 0, 1, 4)


def time_past(w: Writer, verb: Verb) -> Time:
    big, seasonal = is_big(verb), verb.fr in verbs_in("SEASONAL")
    kind = w.weighted(
        (10, "table"),
        (3, "ago"),
        (0 if big else 2, "day"),
        (3 if big else 0, "year"),
        (1.2, "date"),
        (3 if big else 1 if seasonal else 0, "month"),
        (2.5 if verb.has("long") else 0, "for"),
        (1.5 if big or seasonal else 0, "season"),
    )
    if kind == "table":
        return from_table(w, "TIMES_PAST", verb)
    if kind == "ago":
        fr, en = some_span(w, verb)
        return f"il y a {fr}", f"{en} ago"
    if kind == "day":
        fr, en = day(w)
        return f"{fr} dernier", f"last {en}"
    if kind == "year":
        value = year(w)
        return f"en {value}", f"in {value}"
    if kind == "date":
        fr, en = date(w)
        return fr, f"on {en}"
    if kind == "month":
        return month(w)
    if kind == "season":
        return w.rare(table("SEASONS"))
    fr, en = span(w, 4, 4, 0)
    return f"pendant {fr}", f"for {en}"


def time_future(w: Writer, verb: Verb) -> Time:
    big = is_big(verb)
    kind = w.weighted(
        (10, "table"),
        (3, "in"),
        (0 if big else 2, "day"),
        (1, "date"),
        (2.5 if big else 0, "month"),
        (2.5 if verb.fr in verbs_in("CLOCKED") else 0, "clock"),
    )
    if kind == "table":
        return from_table(w, "TIMES_FUTURE", verb)
    if kind == "in":
        fr, en = some_span(w, verb)
        return f"dans {fr}", f"in {en}"
    if kind == "day":
        fr, en = day(w)
        return f"{fr} prochain", f"next {en}"
    if kind == "date":
        fr, en = date(w)
        return fr, f"on {en}"
    if kind == "month":
        return month(w)
    fr, en = clock(w)
    return f"à {fr}", f"at {en}"


def time_habit(w: Writer, verb: Verb) -> Time:
    big, seasonal = is_big(verb), verb.fr in verbs_in("SEASONAL")
    kind = w.weighted(
        (10, "table"),
        (0 if big else 3, "day"),
        (3 if big else 0.7 if seasonal else 0, "month"),
        (3 if big or seasonal else 0, "season"),
        (3 if verb.fr in verbs_in("CLOCKED") else 0, "clock"),
    )
    if kind == "table":
        return from_table(w, "TIMES_HABIT", verb)
    if kind == "day":
        fr, en = day(w)
        return f"le {fr}", f"on {en}s"
    if kind == "month":
        return month(w)
    if kind == "season":
        return w.rare(table("SEASONS"))
    fr, en = clock(w)
    return f"à {fr}", f"at {en}"


@dataclass(frozen=True)
class Setting:
    """Tense in both languages with what goes along with it."""

    tense: str
    en_tense: str
    time: Time = ("", "")
    mid: tuple[str, str] = ("", "")
    neg: str = ""
    heads: tuple[Head, ...] = ()
    name: str = ""


NO_TIME: Time = ("", "")


def setting(w: Writer, verb: Verb, *, names: tuple[str, ...] = (), question: bool = False) -> Setting:
    """Draws a tense that suits the verb, with a time expression or an adverb that suits the tense."""
    if verb.fr in verbs_in("ACCIDENTS"):
        options = [(50, "past"), (10, "perfect"), (7, "recent"), (3, "pqp"), (6, "mishap")]
    elif verb.has("state"):
        options = [(50, "state"), (20, "statepast"), (10, "statefuture"), (9, "statecond")]
    else:
        options = [
            (20, "habit"),
            (8, "now"),
            (26, "past"),
            (6, "perfect"),
            (6, "used"),
            (4, "moment"),
            (13, "future"),
            (7, "goingto"),
            (5, "cond"),
            (4, "recent"),
            (2, "pqp"),
            (2, "progress"),
        ]
    if names:
        options = [(weight, key) for weight, key in options if key in names]
        if not options:
            raise Reject("no such tense for this verb")
    kind = w.weighted(*options)
    some = w.chance(0.62)
    neg = "pas" if w.chance(0.2) else ""
    if kind in ("used", "habit") and verb.fr == "passer":
        raise Reject("one takes it once")
    if kind in ("now", "moment", "progress") and verb.fr in verbs_in("INSTANT"):
        raise Reject("over in a moment")
    if kind == "mishap":
        mid = w.one(
            (("souvent", "often"), ("parfois", "sometimes"), ("toujours", "always"), ("rarement", "rarely"))
        )
        return Setting("p", "pres", mid=mid, name=kind)
    if kind == "habit":
        if w.chance(0.32) and not is_big(verb):
            mid = w.rare(table("ADVERBS_MID"))
            if mid[0] == "toujours" and (verb.objects or verb.fr in verbs_in("INSTANT")):
                raise Reject("always the same thing")
            w.lemma(*mid)
            return Setting("p", "pres", mid=mid, name=kind)
        if w.chance(0.12) and not question:
            return Setting("p", "pres", neg=w.one(("jamais", "plus")), name=kind)
        time = time_habit(w, verb) if some else NO_TIME
        if neg and time[0].startswith(("tous", "chaque", "une fois", "deux fois", "trois fois", "de temps")):
            neg = ""
        return Setting("p", "pres", time, neg=neg, name=kind)
    if kind == "now":
        cue = w.one((("en ce moment", "at the moment"), ("maintenant", "now")))
        return Setting("p", "prog", cue, neg=neg if cue[1] != "now" else "", name=kind)
    if kind == "progress":
        return Setting("p", "progress", heads=(PROGRESS,), name=kind)
    if kind == "past":
        time = time_past(w, verb) if some else NO_TIME
        if neg and time[0].startswith(("il y a", "pendant")):
            time = NO_TIME
        return Setting("pc", "past", time, neg=neg, name=kind)
    if kind == "perfect":
        how = w.one(("déjà", "jamais", "encore")) if not question else "déjà"
        if how == "déjà":
            return Setting("pc", "perf", mid=("déjà", "already"), name=kind)
        return Setting("pc", "perf", neg=how, name=kind)
    if kind == "used":
        cue = w.weighted(
            (3, ("autrefois", "in the past")),
            (2, ("à cette époque", "at that time")),
            (6, time_habit(w, verb)),
        )
        if cue[0] == "d'habitude" or (cue[0].startswith(("à ", "en ", "au ")) and cue[1] != "at that time"):
            raise Reject("cue too weak for used to")
        return Setting("i", "used", cue, name=kind)
    if kind == "moment":
        fr, en = clock(w)
        cue = w.one((("à ce moment-là", "at that moment"), (f"hier à {fr}", f"yesterday at {en}")))
        return Setting("i", "pastprog", cue, name=kind)
    if kind == "future":
        time = time_future(w, verb) if some else NO_TIME
        if neg and time[0].startswith("dans "):
            time = NO_TIME
        return Setting("f", "fut", time, neg=neg, name=kind)
    if kind == "goingto":
        return Setting(
            "p", "goingto", time_future(w, verb) if some else NO_TIME, neg=neg, heads=(GOING,), name=kind
        )
    if kind == "cond":
        cue = w.weighted(
            (4, NO_TIME), (2, ("à ta place", "in your place")), (2, ("dans ce cas", "in that case"))
        )
        return Setting("c", "cond", cue, neg=neg, name=kind)
    if kind == "recent":
        return Setting("p", "recent", heads=(RECENT,), name=kind)
    if kind == "pqp":
        return Setting("pq", "pqp", mid=("déjà", "already"), name=kind)
    if kind == "state":
        how = w.weighted(
            (60, ""),
            (8 if verb.fr == "être" else 0, "toujours"),
            (6, "jamais" if not question else ""),
            (8, "plus"),
            (18, "neg"),
        )
        if how == "toujours":
            return Setting("p", "pres", mid=("toujours", "always"), name=kind)
        if how in ("jamais", "plus"):
            return Setting("p", "pres", neg=how, name=kind)
        return Setting("p", "pres", neg="pas" if how == "neg" else "", name=kind)
    if kind == "statepast":
        cue = w.weighted(
            (6, NO_TIME), (1, ("autrefois", "in the past")), (1, ("à cette époque", "at that time"))
        )
        return Setting("i", "past", cue, neg=neg, name=kind)
    if kind == "statefuture":
        return Setting("f", "fut", neg=neg, name=kind)
    return Setting("c", "cond", neg=neg, name=kind)


def routine_time(w: Writer, s: Setting) -> Time:
    """A time for what is done every day."""
    if s.tense == "pc":
        return w.one(
            (
                ("ce matin", "this morning"),
                ("hier", "yesterday"),
                ("hier soir", "last night"),
                ("hier matin", "yesterday morning"),
                ("hier après-midi", "yesterday afternoon"),
            )
        )
    if s.tense == "f" or s.name == "goingto":
        return w.one(
            (
                ("demain", "tomorrow"),
                ("ce soir", "this evening"),
                ("demain matin", "tomorrow morning"),
                ("bientôt", "soon"),
                ("plus tard", "later"),
            )
        )
    if (
        s.tense == "p"
        and s.name == "habit"
        and s.time[0].startswith(("en ", "au ", "chaque", "une fois", "deux fois", "trois"))
    ):
        return w.one((("tous les jours", "every day"), ("souvent", "often"))[:1])
    return s.time


def modal_setting(w: Writer, verb: Verb, names: tuple[str, ...] = ()) -> tuple[tuple[Head, ...], Setting]:
    """A modal or aspectual verb above the main one, with a tense that suits it."""
    if verb.fr in verbs_in("ACCIDENTS") or verb.fr in verbs_in("UNPLANNED"):
        raise Reject("nobody plans that")
    h = w.rare(heads(), "head")
    if h.fr in ("pouvoir", "devoir", "vouloir") or w.chance(0.35):
        h = head(w.one(("pouvoir", "devoir", "vouloir")))
    if h.fr in ("commencer", "continuer", "finir", "arrêter", "avoir l'habitude") and verb.fr not in verbs_in(
        "LASTING"
    ):
        raise Reject("does not last")
    if h.fr in ("apprendre", "savoir") and verb.fr not in verbs_in("SKILLS"):
        raise Reject("not a skill")
    some = w.chance(0.4)
    neg = "pas" if w.chance(0.2) else ""
    if h.state:
        real = h.fr in ("pouvoir", "devoir", "vouloir")
        kind = w.weighted(
            (55, "p"),
            (14, "i"),
            (8 if real else 0, "f"),
            (14 if real else 3, "c"),
            (9 if h.fr in ("pouvoir", "devoir") else 0, "pc"),
        )
    else:
        kind = w.weighted((34, "p"), (40, "pc"), (14, "f"), (8, "c"))
    allowed = {
        "past": ("pc",),
        "future": ("f",),
        "habit": ("p",),
        "state": ("p",),
        "statepast": ("i",),
        "cond": ("c",),
        "statecond": ("c",),
    }
    if names:
        tenses = [t for n in names for t in allowed.get(n, ())]
        if kind not in tenses:
            raise Reject("tense not asked for")
    en = {"p": "pres", "i": "past", "f": "fut", "c": "cond", "pc": "past"}[kind]
    if kind == "p" and not h.state:
        return (h,), Setting("p", "pres", neg=neg)
    if kind == "pc" and h.fr == "devoir":
        neg = ""
    if kind in ("i", "f") and h.fr == "devoir":
        neg = ""
    time = NO_TIME
    if some:
        if kind == "pc":
            time = time_past(w, verb)
        elif kind == "f" or (kind in ("p", "c") and h.fr in ("pouvoir", "devoir", "vouloir", "espérer")):
            time = time_future(w, verb)
    return (h,), Setting(kind, en, time, neg=neg)
