"""Inflection of single words, asked of pyrealb and remembered.

Contract: every function is pure and cached; a word that pyrealb does not know, or a form that it cannot
make, is a `ValueError`, never a guess. Word order, elision and contraction are not in here (see `grammar`).

pyrealb keeps one current language for the whole process; `_french` and `_english` switch it before each
question.
"""

from __future__ import annotations

from functools import cache

import pyrealb
from pyrealb import A, N, V

# pyrealb spells the ligature out (*oeuf*); these are the stems of ours that are written with it.
_LIGATURES = {"œuf": "oeuf", "sœur": "soeur"}

# pyrealb follows British doubling; the corpus is American. One form each where pyrealb offers several.
_ENGLISH_FORMS = {
    ("travel", "past"): "traveled",
    ("travel", "participle"): "traveled",
    ("travel", "ing"): "traveling",
    ("lie", "participle"): "lied",
    ("ski", "past"): "skied",
    ("ski", "participle"): "skied",
    ("learn", "past"): "learned",
    ("learn", "participle"): "learned",
    ("dream", "past"): "dreamed",
    ("dream", "participle"): "dreamed",
    ("get", "participle"): "gotten",
}
_ENGLISH_PLURALS = {
    "salesman": "salesmen",
    "saleswoman": "saleswomen",
    "mailman": "mailmen",
    "movie theater": "movie theaters",
    "person": "people",
}
_ENGLISH_COMPARATIVES = {
    "good": ("better", "best"),
    "bad": ("worse", "worst"),
    "far": ("farther", "farthest"),
    "polite": ("more polite", "most polite"),
    "friendly": ("friendlier", "friendliest"),
    "shy": ("shyer", "shyest"),
    "simple": ("simpler", "simplest"),
    "quiet": ("quieter", "quietest"),
    "funny": ("funnier", "funniest"),
    "lazy": ("lazier", "laziest"),
    "boring": ("more boring", "most boring"),
    "patient": ("more patient", "most patient"),
    "careful": ("more careful", "most careful"),
    "famous": ("more famous", "most famous"),
    "useful": ("more useful", "most useful"),
    "honest": ("more honest", "most honest"),
    "modern": ("more modern", "most modern"),
    "jealous": ("more jealous", "most jealous"),
    "serious": ("more serious", "most serious"),
    "curious": ("more curious", "most curious"),
}


# Words of ours that pyrealb does not list (feminine professions stand under the masculine there), with the
# table of
# endings they follow: n3 is masculine with -s, n17 feminine with -s; n1 an English noun with -s.
_FRENCH_ADDED = {
    "n3": "pull bouquet",
    "n17": (
        "cousine amie cliente voisine étudiante infirmière avocate boulangère serveuse vendeuse actrice "
        "chanteuse danseuse musicienne coiffeuse traductrice"
    ),
}
_FRENCH_ADDED_ADJECTIVES = {"n27": "surpris"}
_ENGLISH_ADDED = {"n1": "firefighter croissant omelet bookstore"}


class _Strict:
    """Makes pyrealb raise where it would print a warning and carry on with a placeholder."""

    ready = False


def _prepare() -> None:
    if _Strict.ready:
        return
    pyrealb.Constituent.exceptionOnWarning = True
    pyrealb.loadFr()
    for table, lemmas in _FRENCH_ADDED.items():
        for lemma in lemmas.split():
            pyrealb.addToLexicon({lemma: {"N": {"g": "m" if table == "n3" else "f", "tab": table}}})
    for table, lemmas in _FRENCH_ADDED_ADJECTIVES.items():
        for lemma in lemmas.split():
            pyrealb.addToLexicon({lemma: {"A": {"tab": table}}})
    pyrealb.loadEn()
    for table, lemmas in _ENGLISH_ADDED.items():
        for lemma in lemmas.split():
            pyrealb.addToLexicon({lemma: {"N": {"cnt": "yes", "tab": table}}})
    _Strict.ready = True


def _french() -> None:
    _prepare()
    pyrealb.loadFr()


def _english() -> None:
    _prepare()
    pyrealb.loadEn()


def _realize(word: object, asked: str) -> str:
    form = str(word.realize())  # type: ignore[attr-defined]
    if not form or "[[" in form:
        raise ValueError(f"pyrealb has no form for {asked}")
    return form


def _with_ligature(lemma: str, form: str) -> str:
    return form.replace("oe", "œ") if lemma in _LIGATURES else form


# pyrealb has the family assois, assoyons; people say this one.
_ASSEOIR = {
    "p": "assieds assieds assied asseyons asseyez asseyent",
    "i": "asseyais asseyais asseyait asseyions asseyiez asseyaient",
    "f": "assiérai assiéras assiéra assiérons assiérez assiéront",
    "c": "assiérais assiérais assiérait assiérions assiériez assiéraient",
    "ip": "- assieds - asseyons asseyez -",
}


@cache
def french_verb(lemma: str, tense: str, person: int, plural: bool) -> str:
    """One simple form. ``tense``: p present, i imperfect, f future, c conditional, ip imperative."""
    place = person - 1 + (3 if plural else 0)
    if lemma == "asseoir":
        return _ASSEOIR[tense].split()[place]
    _french()
    form = _realize(V(lemma).pe(person).n("p" if plural else "s").t(tense), f"{lemma} {tense} {person}")
    form = form.split()[-1]  # purely reflexive verbs come with their pronoun ("me souviens")
    return form.replace("protèger", "protéger")  # the older spelling, like "préférer"


@cache
def french_participle(lemma: str, gender: str = "m", plural: bool = False) -> str:
    """The past participle, agreeing."""
    _french()
    bare = _realize(V(lemma).t("pp").g("m").n("s"), f"{lemma} pp")
    if gender == "m" and not plural:
        return bare
    if lemma == "devoir":  # dû, but due and dus
        bare = "du"
    ending = ("e" if gender == "f" else "") + ("s" if plural else "")
    return bare[:-1] + bare[-1] + ending if not (bare.endswith("s") and ending == "s") else bare


@cache
def french_noun(lemma: str, plural: bool) -> str:
    """A noun of one word, or the singular of a compound."""
    if not plural:
        return lemma
    if "-" in lemma or " " in lemma:
        raise ValueError(f"the plural of {lemma} must be in the lexicon")
    _french()
    form = _realize(N(_LIGATURES.get(lemma, lemma)).n("p"), lemma)
    return _with_ligature(lemma, form)


@cache
def french_gender(lemma: str) -> str:
    """``m``, ``f`` or ``x`` (both) as pyrealb's lexicon has it; ``""`` for a noun it does not have."""
    _french()
    entry = pyrealb.getLexicon("fr").get(_LIGATURES.get(lemma, lemma))
    return str(entry["N"].get("g", "")) if entry and "N" in entry else ""


@cache
def french_aspirated(word: str) -> bool:
    """True if pyrealb marks the initial h of ``word`` as aspirated (no elision before it)."""
    _french()
    entry = pyrealb.getLexicon("fr").get(word) or {}
    return any(isinstance(value, dict) and value.get("h") == 1 for value in entry.values())


@cache
def french_adjective(lemma: str, gender: str, plural: bool) -> str:
    """An adjective, agreeing."""
    _french()
    return _realize(A(lemma).g(gender).n("p" if plural else "s"), lemma)


def _split(lemma: str) -> tuple[str, str]:
    head, _, rest = lemma.partition(" ")
    return head, f" {rest}" if rest else ""


@cache
def english_verb(lemma: str, form: str, person: int = 3, plural: bool = False) -> str:
    """``form``: base, present, past, participle, ing. Only the first word of a phrasal verb inflects."""
    head, rest = _split(lemma)
    if form == "base":
        return lemma
    if (head, form) in _ENGLISH_FORMS:
        return _ENGLISH_FORMS[head, form] + rest
    _english()
    verb = V(head).pe(person).n("p" if plural else "s")
    tense = {"present": "p", "past": "ps", "participle": "pp", "ing": "pr"}[form]
    return _realize(verb.t(tense), f"{lemma} {form}") + rest


@cache
def english_plural(lemma: str) -> str:
    """The plural; only the last word of a compound inflects."""
    if lemma in _ENGLISH_PLURALS:
        return _ENGLISH_PLURALS[lemma]
    rest, _, head = lemma.rpartition(" ")
    _english()
    form = _realize(N(head).n("p"), lemma)
    return f"{rest} {form}" if rest else form


@cache
def english_degree(lemma: str, superlative: bool) -> str:
    """Comparative or superlative without article: "bigger", "most useful"."""
    if lemma in _ENGLISH_COMPARATIVES:
        return _ENGLISH_COMPARATIVES[lemma][int(superlative)]
    _english()
    return _realize(A(lemma).f("su" if superlative else "co"), lemma).removeprefix("the ")
