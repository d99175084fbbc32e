"""The sentence grammar: one abstract clause, realized in French and in English.

A `Nominal` is a subject or an object with both its surface strings and what agreement needs. A `Clause` is
a verb with its subject, tense, polarity, clitics and complements. `french_clause` and `english_clause` put
the words of a clause in order; `surface` writes them down. Which clauses exist at all, and which words may
meet in one, is the business of `clauses` and of the modules that `sentences` lists.

Conventions that keep the English a function of the French (also listed in ``data/README.md``):

- present is the simple present, unless the sentence says *en ce moment*, *maintenant* or *en train de*;
- passé composé is the simple past, but the perfect with *déjà*, *jamais*, *pas encore*;
- imperfect of a state is the simple past; of an event it is "used to" beside a habit and "was -ing" beside
  a moment;
- *on* is "we", *lui* is "him" unless the sentence names a woman, *ce* is "this", *ce ...-là* is "that";
- *son* and *sa* belong to the subject of their clause.
"""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import TypeVar

from . import morphology as m
from .lexicon import Adjective, Noun, Verb
from .load import Lexicon
from .surface import starts_with_vowel

T = TypeVar("T")


class Reject(Exception):
    """This draw leads to a sentence that we do not want; draw again."""


def _label(item: object) -> str:
    """A short name that does not depend on the hash seed, as the repr of a set would."""
    if isinstance(item, str):
        return item
    if isinstance(item, tuple):
        return "|".join(_label(part) for part in item)
    found = getattr(item, "key", "") or getattr(item, "fr_at", "") or getattr(item, "fr", "")
    return str(found) if found else str(item)


class Writer:
    """Random choices, and the record of what the current sentence used.

    Only `Random.random` is used: its sequence for a seed is promised to stay the same over Python versions,
    that of ``choice`` and ``shuffle`` is not.
    """

    def __init__(self, lexicon: Lexicon, seed: int) -> None:
        self.lexicon = lexicon
        self._random = Random(seed)
        self.uses: Counter[str] = Counter()
        self.lemmas_fr: set[str] = set()
        self.lemmas_en: set[str] = set()
        self.bonds: set[str] = set()
        self._pending: list[str] = []

    def start(self) -> None:
        """Forgets the current sentence."""
        self.lemmas_fr = set()
        self.lemmas_en = set()
        self.bonds = set()
        self._pending = []

    def keep(self) -> None:
        """Counts the choices of a sentence that entered the corpus, so that `rare` balances what is
        written.
        """
        self.uses.update(self._pending)

    def chance(self, probability: float) -> bool:
        return self._random.random() < probability

    def below(self, n: int) -> int:
        return int(self._random.random() * n)

    def one(self, items: Sequence[T]) -> T:
        return items[self.below(len(items))]

    def weighted(self, *options: tuple[float, T]) -> T:
        at = self._random.random() * sum(weight for weight, _ in options)
        for weight, value in options:
            at -= weight
            if at < 0:
                return value
        return options[-1][1]

    def rare(self, items: Sequence[T], name: str = "") -> T:
        """The least used of three draws: evens out how often each word occurs."""
        best = self.one(items)
        best_label = name + _label(best)
        for _ in range(2):
            other = self.one(items)
            label = name + _label(other)
            if self.uses[label] < self.uses[best_label]:
                best, best_label = other, label
        self._pending.append(best_label)
        return best

    def lemma(self, fr: str, en: str) -> None:
        """Notes content lemmas (compounds count as one)."""
        if fr:
            self.lemmas_fr.add(fr)
        if en:
            self.lemmas_en.add(en)

    def bond(self, *parts: str) -> None:
        """Notes that these lemmas meet in the sentence: the test set holds out some meetings."""
        self.bonds.add("|".join(parts))


def bond_hash(bond: str) -> int:
    """A number below 1000 that depends on the bond only."""
    return zlib.crc32(bond.encode("utf-8")) % 1000


@dataclass(frozen=True)
class Nominal:
    """A noun phrase, name or pronoun in both languages."""

    fr: str
    en: str
    person: int = 3
    plural: bool = False
    gender: str = "m"
    kind: str = "noun"  # noun, name, pronoun
    key: str = ""
    human: bool = True
    en_person: int = 3
    en_plural: bool = False
    owner_en: str = ""  # my, your, his...; "" if we cannot know
    clitic: str = ""  # the pronoun that repeats it in an inverted question

    @property
    def genitive(self) -> str:
        """ "Marie's", "my parents'"."""
        return self.en + ("'" if self.en_plural and self.en.endswith("s") else "'s")


def pronoun(fr: str, gender: str = "m") -> Nominal:
    """A subject pronoun. ``gender`` matters for je, tu, nous, vous: agreement shows it."""
    person, plural, en, en_plural, owner = {
        "je": (1, False, "I", False, "my"),
        "tu": (2, False, "you", True, "your"),
        "il": (3, False, "he", False, "his"),
        "elle": (3, False, "she", False, "her"),
        "on": (3, False, "we", True, ""),
        "nous": (1, True, "we", True, "our"),
        "vous": (2, True, "you", True, "your"),
        "ils": (3, True, "they", True, "their"),
        "elles": (3, True, "they", True, "their"),
    }[fr]
    if fr in ("elle", "elles"):
        gender = "f"
    if fr in ("il", "ils", "on"):
        gender = "m"
    en_person = {"I": 1, "we": 1, "you": 2}.get(en, 3)
    return Nominal(fr, en, person, plural, gender, "pronoun", fr, True, en_person, en_plural, owner, fr)


def third_person(
    fr: str,
    en: str,
    *,
    plural: bool,
    gender: str,
    kind: str,
    key: str,
    human: bool = True,
    known_gender: bool = True,
    en_plural: bool | None = None,
) -> Nominal:
    """A noun phrase or a name."""
    if plural:
        owner = "their"
    elif not human:
        owner = "its"
    else:
        owner = ("his" if gender == "m" else "her") if known_gender else ""
    repeat = {("m", False): "il", ("f", False): "elle", ("m", True): "ils", ("f", True): "elles"}[
        gender, plural
    ]
    return Nominal(
        fr,
        en,
        3,
        plural,
        gender,
        kind,
        key,
        human,
        3,
        plural if en_plural is None else en_plural,
        owner,
        repeat,
    )


FRENCH_OWNERS = {  # owner: masculine, feminine, plural
    "my": ("mon", "ma", "mes"),
    "your": ("ton", "ta", "tes"),
    "his": ("son", "sa", "ses"),
    "her": ("son", "sa", "ses"),
    "our": ("notre", "notre", "nos"),
    "vous": ("votre", "votre", "vos"),
    "their": ("leur", "leur", "leurs"),
}


def owner_of(subject: Nominal) -> str:
    """The key into `FRENCH_OWNERS` for what belongs to ``subject``; rejects where English could not tell."""
    if subject.fr == "vous":
        return "vous"
    if not subject.owner_en or subject.owner_en == "its":
        raise Reject("possessor unclear")
    return subject.owner_en


def english_owner(owner: str) -> str:
    return "your" if owner == "vous" else owner


def adjective_fits(adjective: Adjective, noun: Noun) -> bool:
    return any(group == noun.group or group in noun.classes for group in adjective.groups)


def pick_adjective(w: Writer, noun: Noun, positions: tuple[str, ...]) -> Adjective:
    if noun.mass and noun.group not in ("food", "drink"):
        raise Reject("no adjective with this mass noun")
    fitting = [a for a in w.lexicon.adjectives if a.position in positions and adjective_fits(a, noun)]
    if not fitting:
        raise Reject("no adjective fits")
    colors = [a for a in fitting if "colored" in a.groups]
    if colors and w.chance(0.4):  # else each color would be as rare as "delicious"
        return w.rare(colors)
    return w.rare(fitting)


def french_agree(adjective: Adjective, gender: str, plural: bool, before: str = "") -> str:
    form = m.french_adjective(adjective.fr, gender, plural)
    if before and gender == "m" and not plural and starts_with_vowel(before):
        form = {"beau": "bel", "nouveau": "nouvel", "vieux": "vieil"}.get(form, form)
    return form


def noun_forms(noun: Noun, plural: bool) -> tuple[str, str]:
    if noun.plural_only:
        return noun.fr, noun.en
    if not plural:
        return noun.fr, noun.en
    fr = noun.fr_plural or m.french_noun(noun.fr, True)
    return fr, noun.en_plural or m.english_plural(noun.en)


QUANTITIES = {  # determiner: French, English before plurals, English before mass nouns
    "lot": ("beaucoup de", "a lot of", "a lot of"),
    "too": ("trop de", "too many", "too much"),
    "enough": ("assez de", "enough", "enough"),
    "little": ("un peu de", "", "a little"),
    "few": ("quelques", "a few", ""),
    "several": ("plusieurs", "several", ""),
    "howmany": ("combien de", "how many", "how much"),
}


def noun_phrase(
    w: Writer,
    noun: Noun,
    det: str,
    *,
    plural: bool = False,
    adjectives: Sequence[Adjective] = (),
    owner: str = "",
    possessor: Nominal | None = None,
    number: tuple[str, str] = ("", ""),
    generic: bool = False,
) -> Nominal:
    """Builds a noun phrase. ``det``: def, indef, part, own, dem, that, num, every, all, neg, other, which,
    bare, or a key of `QUANTITIES`. ``possessor`` adds *de Marie* / "Marie's" (with ``def`` only)."""
    plural = (plural or noun.plural_only) and not noun.mass
    if det in ("every", "part") and (plural or (det == "part") != noun.mass):
        raise Reject("determiner does not fit")
    if det in ("num", "few", "several", "all") and noun.mass:
        raise Reject("mass nouns are not counted")
    if det == "little" and not noun.mass:
        raise Reject("un peu de is for mass nouns")
    if det in ("num", "few", "several", "every", "other") and noun.plural_only:
        raise Reject("pairs are not counted")
    if det in ("num", "few", "several", "all", "lot", "too", "enough", "howmany"):
        plural = not noun.mass
    if det == "indef" and noun.mass:
        raise Reject("mass noun with un")
    feminine = noun.gender == "f"
    fr_noun, en_noun = noun_forms(noun, plural)
    pre = [a for a in adjectives if a.position == "pre"]
    post = [a for a in adjectives if a.position == "post"]
    pre_words = [french_agree(a, noun.gender, plural, fr_noun) for a in pre]
    fr_words = [*pre_words, fr_noun, *(french_agree(a, noun.gender, plural) for a in post)]
    en_words = [*(a.en for a in pre), *(a.en for a in post), en_noun]
    for adjective in adjectives:
        w.lemma(adjective.fr, adjective.en)
        w.bond("adj", adjective.fr, noun.fr)
    w.lemma(noun.fr, noun.en)
    vowel = starts_with_vowel(fr_words[0])
    third = 2 if plural else int(feminine)
    en_det = ""
    if det == "def":
        fr_det = ("le", "la", "les")[third]
        en_det = "" if generic else "the"
        if generic and not plural and not noun.mass:
            raise Reject("generic is plural or mass")
    elif det == "indef":
        fr_det = ("un", "une", "de" if pre else "des")[third]
        en_det = "" if plural else "a"
    elif det == "part":
        fr_det = "de la" if feminine else "de le"
        if vowel:
            fr_det = "de l'"
    elif det == "own":
        fr_det = FRENCH_OWNERS[owner][0 if third == 1 and vowel else third]
        en_det = english_owner(owner)
    elif det in ("dem", "that"):
        fr_det = ("cet" if vowel else "ce", "cette", "ces")[third]
        en_det = ("this", "these")[plural] if det == "dem" else ("that", "those")[plural]
        if det == "that":
            if post or " " in fr_noun or "-" in fr_noun:
                raise Reject("-là is kept to simple phrases")
            fr_words[-1] += "-là"
    elif det == "num":
        fr_det, en_det = number
    elif det == "every":
        fr_det, en_det = "chaque", "every"
    elif det == "all":
        fr_det, en_det = ("toutes les" if feminine else "tous les"), "all the"
    elif det == "neg":
        fr_det = "de"
        en_det = "any" if plural or noun.mass else "a"
    elif det == "negbare":
        fr_det = "de"
        en_det = "" if plural or noun.mass else "a"
    elif det == "other":
        fr_det, en_det = (
            ("d'autres", "other") if plural else ("une autre" if feminine else "un autre", "another")
        )
    elif det == "which":
        fr_det = ("quel", "quelle", "quels", "quelles")[int(feminine) + 2 * int(plural)]
        en_det = "which"
    elif det == "bare":
        fr_det = ""
    elif det in QUANTITIES:
        fr_det, en_plural, en_mass = QUANTITIES[det]
        en_det = en_mass if noun.mass else en_plural
    else:
        raise ValueError(det)
    fr = f"{fr_det} {' '.join(fr_words)}".strip()
    en = f"{en_det} {' '.join(en_words)}".strip()
    if possessor is not None:
        fr = f"{fr} de {possessor.fr}"
        en = f"{possessor.genitive} {' '.join(en_words)}"
    human = noun.group in ("family", "person", "baby")
    return third_person(
        fr,
        en,
        plural=plural,
        gender=noun.gender,
        kind="noun",
        key=noun.fr,
        human=human,
        known_gender="nogender" not in noun.classes,
    )


@dataclass(frozen=True)
class Clitic:
    """A French object pronoun. ``rank`` orders them; ``direct`` ones make participles agree."""

    fr: str
    en: str
    rank: int
    direct: bool = False
    gender: str = "m"
    plural: bool = False
    tonic: str = ""  # form after an affirmative imperative, if different
    person: bool = False


def direct_clitic(fr: str, *, gender: str = "m", person: bool) -> Clitic:
    """le, la, les as direct object: a thing or a person."""
    if fr == "les":
        return Clitic("les", "them", 2, True, gender, True, person=person)
    en = ("him" if fr == "le" else "her") if person else "it"
    return Clitic(fr, en, 2, True, "f" if fr == "la" else "m", False, person=person)


SPEAKERS = {  # object forms of the first and second person: English, tonic
    "me": ("me", "moi"),
    "te": ("you", "toi"),
    "nous": ("us", "nous"),
    "vous": ("you", "vous"),
}


def speaker_clitic(fr: str, *, direct: bool) -> Clitic:
    en, tonic = SPEAKERS[fr]
    return Clitic(fr, en, 1, direct, "m", fr in ("nous", "vous"), tonic, True)


def indirect_clitic(fr: str) -> Clitic:
    """lui ("him", by convention) or leur."""
    return Clitic(fr, "him" if fr == "lui" else "them", 3, person=True)


def reflexive_clitic(subject: Nominal) -> Clitic:
    fr = {(1, False): "me", (2, False): "te", (1, True): "nous", (2, True): "vous"}.get(
        (subject.person, subject.plural), "se"
    )
    tonic = {"me": "moi", "te": "toi"}.get(fr, fr)
    return Clitic(fr, "", 1, False, subject.gender, subject.plural, tonic)


@dataclass(frozen=True)
class Head:
    """A verb above another: modal or aspectual. ``fr_link`` is à, de or nothing; ``en_link`` to, ing
    or base.
    """

    fr: str
    fr_link: str
    en: str
    en_link: str
    state: bool = False


@dataclass(frozen=True)
class Clause:
    """One clause before word order. English tense codes: pres prog past pastprog used fut goingto cond
    perf pqp.
    """

    subject: Nominal
    verb: Verb
    tense: str = "p"
    en_tense: str = "pres"
    neg: str = ""
    heads: tuple[Head, ...] = ()
    clitics: tuple[Clitic, ...] = ()
    mid: tuple[str, str] = ("", "")
    manner: tuple[str, str, str] = ("", "", "")
    fr_object: str = ""
    en_object: str = ""
    fr_rest: tuple[str, ...] = ()
    en_rest: tuple[str, ...] = ()
    initial: tuple[str, str] = ("", "")
    preceding: tuple[str, bool] | None = None  # gender, plural of a direct object that stands before the verb


NEGATIONS = {  # key: French second part, English
    "pas": ("pas", "not"),
    "jamais": ("jamais", "never"),
    "plus": ("plus", "no longer"),
    "rien": ("rien", "not"),
    "encore": ("pas encore", "not"),
    "personne": ("", "not"),
    "only": ("", "only"),
    "subject": ("", ""),
}


def split_verb(lemma: str) -> tuple[str, str]:
    """The verb proper and what follows it ("avoir", "besoin"); *se* is dropped."""
    bare = lemma.removeprefix("se ").removeprefix("s'")
    head, _, rest = bare.partition(" ")
    return head, rest


def _clitic_string(clitics: Sequence[Clitic]) -> str:
    return " ".join(f"{c.fr}°" for c in sorted(clitics, key=lambda c: c.rank))


def _all_clitics(c: Clause) -> tuple[Clitic, ...]:
    if c.verb.has("refl"):
        return (*c.clitics, reflexive_clitic(c.subject))
    return c.clitics


def _participle(c: Clause) -> str:
    head, _ = split_verb(c.verb.fr)
    if c.verb.has("etre") or (c.verb.has("refl") and not c.verb.has("noagree")):
        if c.subject.fr == "on":
            raise Reject("agreement with on is unsettled")
        return m.french_participle(head, c.subject.gender, c.subject.plural)
    if c.preceding is not None:
        return m.french_participle(head, *c.preceding)
    for clitic in c.clitics:
        if clitic.direct:
            return m.french_participle(head, clitic.gender, clitic.plural)
    return m.french_participle(head)


def _elided_her(c: Clause, next_word: str, participle: str) -> None:
    """*l'* hides whether it is him or her: only the masculine may, unless the participle shows it."""
    hidden = any(k.person and k.fr == "la" for k in c.clitics) and starts_with_vowel(next_word)
    shows = bool(participle) and participle != m.french_participle(split_verb(c.verb.fr)[0])
    if hidden and not shows:
        raise Reject("l' for la")
    if len(c.clitics) > 1 and starts_with_vowel(next_word) and c.clitics[-1].fr in ("y", "en"):
        raise Reject("clitic cluster with y or en")


def french_group(c: Clause) -> tuple[str, str, str]:
    """What stands before the finite verb, the finite verb, and what follows up to the object."""
    ne = "ne" if c.neg else ""
    second = NEGATIONS[c.neg][0] if c.neg else ""
    head, verb_rest = split_verb(c.verb.fr)
    person, plural = c.subject.person, c.subject.plural
    clitics = _clitic_string(_all_clitics(c))
    aux_manner = c.manner[0] if c.manner[2] == "aux" else ""
    late_manner = "" if c.manner[2] == "aux" else c.manner[0]
    if not c.heads:
        if c.tense in ("pc", "pq"):
            be = c.verb.has("etre") or c.verb.has("refl")
            finite = m.french_verb("être" if be else "avoir", "p" if c.tense == "pc" else "i", person, plural)
            participle = _participle(c)
            _elided_her(c, finite, participle)
            after = [second, c.mid[0], aux_manner, participle, verb_rest, late_manner]
        else:
            finite = m.french_verb(head, c.tense, person, plural)
            _elided_her(c, finite, "")
            after = [second, c.mid[0], aux_manner, verb_rest, late_manner]
        return f"{ne} {clitics}".strip(), finite, " ".join(x for x in after if x)
    _elided_her(c, head, "")
    first = c.heads[0]
    first_head, first_rest = split_verb(first.fr)
    if c.tense in ("pc", "pq"):
        finite = m.french_verb("avoir", "p" if c.tense == "pc" else "i", person, plural)
        after = [second, c.mid[0], m.french_participle(first_head), first_rest]
    else:
        finite = m.french_verb(first_head, c.tense, person, plural)
        after = [second, c.mid[0], first_rest]
    after.append(first.fr_link)
    for other in c.heads[1:]:
        after.extend([other.fr, other.fr_link])
    after.extend([clitics, head, verb_rest, c.manner[0]])
    return ne, finite, " ".join(x for x in after if x)


def _tail_fr(c: Clause) -> str:
    return " ".join(x for x in (c.fr_object, *c.fr_rest) if x)


def french_clause(c: Clause) -> str:
    """The declarative order."""
    before, finite, after = french_group(c)
    body = f"{c.subject.fr} {before} {finite} {after} {_tail_fr(c)}"
    return f"{c.initial[0]} , {body}" if c.initial[0] else body


def french_inverted(c: Clause, opening: str = "") -> str:
    """A question with inversion; a noun subject stays and is repeated by a pronoun (*Paul vient-il ?*)."""
    before, finite, after = french_group(c)
    if c.subject.fr == "je":
        raise Reject("je does not invert")
    if c.subject.kind != "pronoun" and " et " in c.subject.fr:
        raise Reject("kept simple")
    euphonic = "t-" if c.subject.clitic in ("il", "elle", "on") and finite[-1] in "ae" else ""
    verb = f"{finite}-{euphonic}{c.subject.clitic}"
    subject = "" if c.subject.kind == "pronoun" else c.subject.fr
    return f"{opening} {subject} {before} {verb} {after} {_tail_fr(c)}"


def french_infinitive(c: Clause) -> str:
    """The clause without subject, in the infinitive (*la voir demain*); negation *ne pas* before it."""
    head, rest = split_verb(c.verb.fr)
    _elided_her(c, head, "")
    neg = "ne pas" if c.neg == "pas" else ""
    return " ".join(
        f"{neg} {_clitic_string(_all_clitics(c))} {head} {rest} {c.manner[0]} {_tail_fr(c)}".split()
    )


def french_imperative(c: Clause) -> str:
    """tu, vous or nous by the clause's subject."""
    head, rest = split_verb(c.verb.fr)
    finite = m.french_verb(head, "ip", c.subject.person, c.subject.plural)
    clitics = sorted(_all_clitics(c), key=lambda k: k.rank)
    if c.neg:
        _elided_her(c, finite, "")
        return (
            f"ne {_clitic_string(clitics)} {finite} {NEGATIONS[c.neg][0]} {rest} {c.manner[0]} {_tail_fr(c)}"
        )
    if any(k.rank > 3 for k in clitics):
        raise Reject("no y or en after an imperative")
    ordered = sorted(clitics, key=lambda k: (k.rank != 2, k.rank))
    verb = "-".join([finite, *(k.tonic or k.fr for k in ordered)])
    return f"{verb} {rest} {c.manner[0]} {_tail_fr(c)}"


# --- English --------------------------------------------------------------------------------------

_BE = {
    ("pres", 1, False): "am",
    ("past", 1, False): "was",
    ("past", 3, False): "was",
    ("pres", 3, False): "is",
}


def _be(tense: str, s: Nominal) -> str:
    return _BE.get((tense, s.en_person, s.en_plural), "are" if tense == "pres" else "were")


def _agree(lemma: str, s: Nominal) -> str:
    third = s.en_person == 3 and not s.en_plural
    return m.english_verb(lemma, "present", 3 if third else 1, not third)


def finite_english(lemma: str, tense: str, s: Nominal, do: bool) -> tuple[list[str], str]:
    """Auxiliaries and main verb. ``do``: the clause is negated with "not" or inverted."""
    head, _, rest = lemma.partition(" ")
    if tense in ("pres", "past"):
        if head == "be":
            return [_be(tense, s)], rest
        if do:
            third = s.en_person == 3 and not s.en_plural
            return ["did" if tense == "past" else ("does" if third else "do")], lemma
        return [], _agree(lemma, s) if tense == "pres" else m.english_verb(lemma, "past")
    if tense in ("prog", "pastprog"):
        return [_be("pres" if tense == "prog" else "past", s)], m.english_verb(lemma, "ing")
    if tense == "used":
        return (["did"], f"use to {lemma}") if do else ([], f"used to {lemma}")
    if tense in ("fut", "cond"):
        return ["will" if tense == "fut" else "would"], lemma
    if tense == "goingto":
        return [_be("pres", s)], f"going to {lemma}"
    if tense in ("perf", "pqp"):
        third = s.en_person == 3 and not s.en_plural
        aux = "had" if tense == "pqp" else ("has" if third else "have")
        return [aux], m.english_verb(lemma, "participle")
    raise ValueError(tense)


def _finite_head(head: Head, tense: str, s: Nominal, do: bool) -> tuple[list[str], str]:
    """The English of a modal or aspectual head in a tense."""
    if head.en == "can":
        if tense in ("pres", "past", "cond"):
            return ["can" if tense == "pres" else "could"], ""
        return finite_english("be able to", tense, s, do)
    if head.en == "must":
        if tense in ("pres", "cond"):
            return ["must" if tense == "pres" else "should"], ""
        return finite_english("have to", tense, s, do)
    if head.en == "want to" and tense == "cond":
        return ["would"], "like to"
    return finite_english(head.en, tense, s, do)


def _dependent(lemma: str, link: str) -> str:
    return m.english_verb(lemma, "ing") if link == "ing" else lemma


_SEPARABLE = ("put on", "turn on", "turn off", "wake up")


def english_objects(c: Clause, verb_form: str) -> str:
    """The verb with its object pronouns in English order."""
    direct = [k for k in c.clitics if k.direct]
    indirect = [k for k in c.clitics if not k.direct and k.en]
    words = verb_form
    if direct:
        if c.verb.en in _SEPARABLE:
            first, _, particle = verb_form.rpartition(" ")
            words = f"{first} {direct[0].en} {particle}"
        else:
            words = f"{verb_form} {direct[0].en}"
    for k in indirect:
        if c.verb.has("toonly") and not direct:  # "explain the problem to them": see _tail_en
            continue
        to = "to " if (direct or c.verb.has("toonly")) and k.rank in (1, 3) and c.verb.prep == "" else ""
        words = f"{words} {to}{k.en}"
    return words


_HEADLESS = {"goingto": ("goingto", ""), "recent": ("perf", "just"), "progress": ("prog", "")}


def english_group(c: Clause, inverted: bool) -> tuple[str, str]:
    """The first auxiliary ("" if there is none) and the rest of the verb group with pronouns."""
    if c.heads and c.en_tense in _HEADLESS:  # aller, venir de, être en train de are tenses in English
        en_tense, just = _HEADLESS[c.en_tense]
        c = replace(c, heads=c.heads[1:], en_tense=en_tense, mid=("", just) if just else c.mid)
    not_word = NEGATIONS[c.neg][1] if c.neg else ""
    do = inverted or not_word == "not"
    if c.heads:
        aux, main = _finite_head(c.heads[0], c.en_tense, c.subject, do)
        link = "base" if not main else c.heads[0].en_link
        parts = [main] if main else []
        for other in c.heads[1:]:
            parts.append(_dependent(other.en, link))
            link = other.en_link
        parts.append(english_objects(c, _dependent(c.verb.en, link)))
        main = " ".join(parts)
    else:
        aux, main = finite_english(c.verb.en, c.en_tense, c.subject, do)
        main = english_objects(c, main)
    rest = " ".join(x for x in (not_word, c.mid[1], *aux[1:], main) if x)
    return (aux[0] if aux else ""), rest


def _personal(text: str, subject: Nominal) -> str:
    """Fills in "one's" and "oneself"."""
    if "one's" in text:
        if not subject.owner_en and subject.fr != "on":
            raise Reject("possessor unclear")
        text = text.replace("one's", subject.owner_en or "our")
    if "oneself" in text:
        own = {"I": "myself", "he": "himself", "she": "herself", "we": "ourselves", "they": "themselves"}
        if subject.en == "you":
            word = "yourself" if subject.fr == "tu" or not subject.plural else "yourselves"
        elif subject.en in own:
            word = own[subject.en]
        elif subject.en_plural:
            word = "themselves"
        else:
            if subject.owner_en not in ("his", "her"):
                raise Reject("gender unclear")
            word = "himself" if subject.owner_en == "his" else "herself"
        text = text.replace("oneself", word)
    return text


def _tail_en(c: Clause) -> str:
    extra = {"rien": "anything", "personne": "anyone"}.get(c.neg, "")
    late = "yet" if c.neg == "encore" else ""
    whom = ""
    if c.verb.has("toonly") and not any(k.direct for k in c.clitics):
        whom = " ".join(f"to {k.en}" for k in c.clitics)
    return " ".join(x for x in (extra, c.en_object, whom, c.manner[1], *c.en_rest, late) if x)


def english_clause(c: Clause) -> str:
    """The declarative order."""
    aux, rest = english_group(c, inverted=False)
    body = _personal(f"{c.subject.en} {aux} {rest} {_tail_en(c)}", c.subject)
    return f"{c.initial[1]} , {body}" if c.initial[1] else body


def english_inverted(c: Clause, opening: str = "") -> str:
    """A question with the auxiliary first."""
    aux, rest = english_group(c, inverted=True)
    if not aux:
        raise ValueError("a question needs an auxiliary")
    return _personal(f"{opening} {aux} {c.subject.en} {rest} {_tail_en(c)}", c.subject)


def english_bare(c: Clause, form: str = "base") -> str:
    """The clause without subject: base form (for to, let's, imperatives) or ing."""
    verb = english_objects(c, m.english_verb(c.verb.en, form))
    return _personal(" ".join(f"{verb} {_tail_en(c)}".split()), c.subject)


def without(c: Clause, *fields: str) -> Clause:
    """A copy with these fields reset to empty."""
    blank: dict[str, object] = {
        "mid": ("", ""),
        "manner": ("", "", ""),
        "initial": ("", ""),
        "neg": "",
        "heads": (),
    }
    return replace(c, **{name: blank[name] for name in fields})  # type: ignore[arg-type]
