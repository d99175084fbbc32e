"""The demo corpus: what the committed files promise, and that the script makes exactly them.

The tests of the files need nothing but the files. The tests of the generator need pyrealb, a development
dependency; without it they are skipped. The regeneration of the whole corpus is marked ``slow``.
"""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
DEMO = ROOT / "data" / "demo"
SPLITS = ("train", "valid", "test", "test_long")
LANGUAGES = ("fr", "en")
NO_BREAK_SPACE = "\u00a0"

needs_pyrealb = pytest.mark.skipif(
    importlib.util.find_spec("pyrealb") is None, reason="pyrealb (development dependency) is not installed"
)


def read(name: str, language: str) -> list[str]:
    text = (DEMO / f"{name}.{language}").read_text(encoding="utf-8")
    assert text.endswith("\n")
    return text[:-1].split("\n")


@pytest.fixture(scope="module")
def corpus() -> dict[str, list[tuple[str, str]]]:
    return {
        name: list(zip(read(name, "fr"), read(name, "en"), strict=True)) for name in (*SPLITS, "showcase")
    }


def bare(sentence: str) -> str:
    return sentence.lower().rstrip(f".!? {NO_BREAK_SPACE}")


def word_count(sentence: str) -> int:
    return sum(any(ch.isalnum() for ch in token) for token in sentence.split())


def forms(sentence: str) -> list[str]:
    return re.findall(r"\w+'?", sentence.lower())


def everything(corpus: dict[str, list[tuple[str, str]]]) -> Iterator[tuple[str, str]]:
    for name in SPLITS:
        yield from corpus[name]


# --- counts and splits ----------------------------------------------------------------------------


def test_sizes(corpus: dict[str, list[tuple[str, str]]]) -> None:
    assert len(corpus["valid"]) == 1000
    assert len(corpus["test"]) == 1000
    assert len(corpus["test_long"]) >= 300
    assert len(corpus["showcase"]) == 21
    assert len(set(everything(corpus))) >= 25_000


def test_files_are_small() -> None:
    assert sum(path.stat().st_size for path in DEMO.iterdir()) < 5_000_000


def test_no_sentence_is_shared_between_splits_and_none_comes_twice(
    corpus: dict[str, list[tuple[str, str]]],
) -> None:
    for side in (0, 1):
        seen = Counter(bare(pair[side]) for pair in everything(corpus))
        seen.update(bare(pair[side]) for pair in corpus["showcase"])
        assert [sentence for sentence, count in seen.items() if count > 1] == []


def test_showcase_begins_with_jane(corpus: dict[str, list[tuple[str, str]]]) -> None:
    assert corpus["showcase"][0] == ("Jane visite l'Afrique en septembre", "Jane visits Africa in September")


def test_lengths(corpus: dict[str, list[tuple[str, str]]]) -> None:
    for name in ("train", "valid", "test"):
        counts = [word_count(side) for pair in corpus[name] for side in pair]
        assert min(counts) >= 2
        assert max(counts) <= 25
    long = [word_count(side) for pair in corpus["test_long"] for side in pair]
    assert min(long) >= 25
    assert max(long) <= 40
    assert min(long) > max(word_count(side) for pair in corpus["train"] for side in pair)
    joined = [word_count(fr) for fr, _ in corpus["train"]]
    assert sum(n >= 15 for n in joined) >= 500, "training should reach towards the long sentences"


def test_lexicon_size(corpus: dict[str, list[tuple[str, str]]]) -> None:
    french = {form for fr, _ in corpus["train"] for form in forms(fr)}
    english = {form for _, en in corpus["train"] for form in forms(en)}
    assert 2_200 <= len(french) <= 3_200
    assert len(english) >= 1_500


def test_every_word_form_of_the_tests_is_known_from_training(
    corpus: dict[str, list[tuple[str, str]]],
) -> None:
    for side in (0, 1):
        known = Counter(form for pair in corpus["train"] for form in forms(pair[side]))
        for name in ("valid", "test", "test_long", "showcase"):
            rare = {form for pair in corpus[name] for form in forms(pair[side]) if known[form] < 5}
            assert rare == set(), name


# --- typography -----------------------------------------------------------------------------------


def test_typography(corpus: dict[str, list[tuple[str, str]]]) -> None:
    french = "".join(fr for fr, _ in everything(corpus))
    english = "".join(en for _, en in everything(corpus))
    assert set(french) <= set(
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789 .,?!'-"
        "àâçéèêëîïôùûœÀÉÊÎÔŒ" + NO_BREAK_SPACE
    )
    assert set(english) <= set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789 .,?!'-éëèïô")
    for fr, en in everything(corpus):
        for sentence in (fr, en):
            assert sentence == sentence.strip()
            assert sentence[0].isupper()
            assert "  " not in sentence
            assert not re.search(r" [,.]|[,.?!](?=[\w])|[.,]{2}|' | '", sentence), sentence
        assert not re.search(rf"[^{NO_BREAK_SPACE}][?!]", fr), fr
        assert NO_BREAK_SPACE not in en
        assert (fr[-1] if fr[-1] in ".?!" else "") == (en[-1] if en[-1] in ".?!" else ""), (fr, en)


def test_some_statements_have_no_full_stop(corpus: dict[str, list[tuple[str, str]]]) -> None:
    without = sum(fr[-1] not in ".?!" for fr, _ in corpus["train"])
    assert 0.02 < without / len(corpus["train"]) < 0.15


VOWEL = "[aeiouyâàéèêëîïôûœhAEIOUÉÈÊÎÔŒH]"


def test_french_elision_and_contraction(corpus: dict[str, list[tuple[str, str]]]) -> None:
    """No *le ami*, *à le*, *ma amie*, *beau homme*; aspirated words are the exceptions."""
    text = "\n".join(fr for fr, _ in everything(corpus))
    aspirated = r"(?!hiboux?\b|huit\b|onze\b|y[a-z])"
    short = rf"(?<![-\w])(?:[JjMmTtSsLlDdNn]e|[Ll]a|[Qq]ue) {aspirated}{VOWEL}\w*"
    assert re.findall(short, text) == []
    # "de le voir" and "de le leur vendre" are right: a pronoun before an infinitive.
    pronoun = r"(?!(?:lui |leur )?\w+(?:er|ir|re|oir)\b)"
    assert re.findall(rf"\b(?:[Àà]|[Dd]e) les? {pronoun}[a-zéèêàâîôœ]+", text) == []
    assert re.findall(rf"\b(?:[Mm]a|[Tt]a|[Ss]a) {aspirated}{VOWEL}\w*", text) == []
    assert set(re.findall(rf"\b[Cc]e ({aspirated}{VOWEL}\w*)", text)) <= {"est"}  # est-ce
    predicative = {"et", "il", "à", "est", "hier", "aujourd", "après", "avant", "en", "au"}
    assert set(re.findall(rf"\b(?:beau|nouveau) ({aspirated}{VOWEL}\w*)", text)) <= predicative
    assert re.findall(rf"\b(?:un|le|du|au|mon|ton|son|plus) vieux {aspirated}{VOWEL}\w*", text) == []


def test_english_articles(corpus: dict[str, list[tuple[str, str]]]) -> None:
    for _, en in everything(corpus):
        for article, word in re.findall(r"\b([Aa]n?) (\w+)", en):
            vowel = word[0].lower() in "aeiou" and not word.startswith(
                ("useful", "uniform", "European", "university")
            )
            vowel = vowel or word.startswith(("hour", "honest"))
            assert (article.lower() == "an") == vowel, en


# --- what is in it --------------------------------------------------------------------------------

PHENOMENA: dict[str, tuple[str, str]] = {
    "negation": (r"\bne \w+ pas\b|n'\w+ pas\b", r"\b(do|does|did|is|are|was) not\b"),
    "never": (r"\bjamais\b", r"\bnever\b"),
    "no longer": (r"\bplus\b", r"\bno longer\b"),
    "not yet": (r"\bpas encore\b", r"\byet\b"),
    "nothing": (r"\brien\b", r"\banything\b|\bNothing\b"),
    "only": (r"n[e'].* qu[e']", r"\bonly\b"),
    "est-ce que": (r"\b[Ee]st-ce qu", r"\?$"),
    "inversion": (r"\w-(t-)?(il|elle|tu|vous|nous|ils|elles)\b.*\?$", r"\?$"),
    "wh-question": (r"^(Où|Quand|Comment|Pourquoi|Combien|Qui|Quel|Avec qui|À qui|Qu'est)", r"^(Wh|How)"),
    "preposition at the end": (r"^(Avec|À) qui\b", r"^Who .*\b(with|to)\b.*\?$"),
    "imperative": (r"^(Donne|Ferme|Ouvrez|Achète|Mangeons|Écoute|Lisez|Prenez|Va)\w*\b", r"^[A-Z][a-z]+"),
    "passé composé": (r"\b(a|ai|as|ont|avez|avons) \w+é\b", r"ed\b"),
    "imperfect as used to": (r"(ait|aient|ais)\b", r"\bused to\b"),
    "imperfect as progressive": (r"(ait|aient|ais)\b.* quand", r"\b(was|were) \w+ing\b.* when"),
    "future": (r"r(ai|as|a|ons|ez|ont)\b", r"\bwill\b"),
    "near future": (r"\b(vais|vas|va|allons|allez|vont) \w+(er|ir|re)\b", r"\bgoing to\b"),
    "conditional": (r"r(ais|ait|ions|iez|aient)\b", r"\bwould\b"),
    "recent past": (r"\b(viens|vient|venons|venez|viennent) d", r"\bjust\b"),
    "adjective after the noun": (
        r"\b(une|la|les|des|sa|ma) \w+ (rouge|bleue|verte|noire|blanche|jaune|grise|violette)s?\b",
        r"\b(red|blue|green|black|white|yellow|gray|purple) \w+\b",
    ),
    "adjective before the noun": (
        r"\b(petite?s?|belles?|nouvelles?|vieilles?) \w+",
        r"\b(small|beautiful|new|old) \w+",
    ),
    "two clitics": (
        r"\b(me|te|nous|vous) (l'|le |la |les )|\b(le|la|les) (lui|leur)\b",
        r"\b(it|them) to (me|you|us|him|them)\b",
    ),
    "possessive": (r"\b[Ss]es \w+", r"\b(his|her) \w+"),
    "genitive": (r" de [A-Z]\w+", r"'s \w+"),
    "comparative": (r"\bplus \w+ que?\b|\bplus \w+ qu'", r"\w+er than\b|\bmore \w+ than\b"),
    "superlative": (r"\b(le|la|les) plus \w+", r"\bthe (\w+est|most \w+)\b"),
    "relative qui": (r"\w qui \w", r"\b(who|that)\b"),
    "relative que": (r"\w (que|qu') ?\w", r"\bthat\b"),
    "relative dont": (r"\bdont\b", r"\b(whose|that)\b"),
    "relative où": (r"\w où \w", r"\bwhere\b"),
    "modal": (r"\b(peut|doit|veut|peux|dois|veux)\b", r"\b(can|must|wants? to)\b"),
    "reflexive": (r"\b(se|s'|me|m'|nous nous) ?\w+", r"\b(get up|gets up|got up|take a walk|took a walk)\b"),
    "date": (r"\ble \d+ (mai|juin|juillet|août|septembre)\b", r"\bon (May|June|July|August|September) \d+"),
    "clock": (r"heures (et demie|et quart|moins le quart)", r"(half past|quarter past|quarter to)"),
    "feminine country": (r"\ben (France|Italie|Chine|Espagne)\b", r"\bin (France|Italy|China|Spain)\b"),
    "masculine country": (
        r"\bau (Japon|Canada|Brésil|Maroc)\b",
        r"\b(in|to) (Japan|Canada|Brazil|Morocco)\b",
    ),
    "plural country": (r"\baux (États-Unis|Pays-Bas)\b", r"\bthe (United States|Netherlands)\b"),
    "city": (r"\bà (Paris|Londres|Rome)\b", r"\b(in|to) (Paris|London|Rome)\b"),
    "adverb moves": (r"\w (souvent|parfois|toujours|rarement)\b", r"\b(often|sometimes|always|rarely) \w"),
    "time moves": (r"\b(hier|demain) (à|au|dans|en) ", r"\b(yesterday|tomorrow)\b"),
    "subject and object change places": (
        r"\b(me|te|lui|nous) (plaît|plaisent|manque)",
        r"\b(like|likes|miss|misses)\b",
    ),
    "passive": (r"\bété \w+ par\b", r"\b(was|were) \w+ by\b"),
    "since": (r"\bdepuis\b", r"\b(has|have) (been|had|lived|worked|known|studied|played)\b"),
    "partitive": (
        r"\b(du|de la|de l') ?(pain|café|thé|eau|viande|lait)",
        r"\b(bread|coffee|tea|water|meat|milk)\b",
    ),
}


@pytest.mark.parametrize("name", sorted(PHENOMENA))
def test_phenomenon_occurs(name: str, corpus: dict[str, list[tuple[str, str]]]) -> None:
    fr_pattern, en_pattern = (re.compile(pattern) for pattern in PHENOMENA[name])
    found = sum(bool(fr_pattern.search(fr) and en_pattern.search(en)) for fr, en in corpus["train"])
    assert found >= 20, f"{name}: {found}"


MONTHS = {
    "janvier": "January",
    "février": "February",
    "mars": "March",
    "avril": "April",
    "mai": "May",
    "juin": "June",
    "juillet": "July",
    "août": "August",
    "septembre": "September",
    "octobre": "October",
    "novembre": "November",
    "décembre": "December",
}


NAMES = {"jane", "paul", "nicolas", "chloé", "inès", "victor", "emma", "thomas"}
ENGLISH_NEGATIVES = {
    "not",
    "cannot",
    "never",
    "longer",
    "nobody",
    "nothing",
    "only",
    "anyone",
    "anything",
    "without",
}


def test_the_two_sides_say_the_same(corpus: dict[str, list[tuple[str, str]]]) -> None:
    """Names, numbers, months and negation are on both sides or on none."""
    for fr, en in everything(corpus):
        french, english = forms(fr), forms(en.replace("'", " "))
        assert {x for x in french if x in NAMES} == {x for x in english if x in NAMES}, (fr, en)
        assert sorted(re.findall(r"\d+", fr)) == sorted(re.findall(r"\d+", en)), (fr, en)
        months = {MONTHS[x].lower() for x in french if x in MONTHS}
        assert months == {x for x in english if x.capitalize() in MONTHS.values()}, (fr, en)
        if "ne" in french or "n'" in french:
            assert ENGLISH_NEGATIVES & set(english), (fr, en)


# --- the generator --------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def assembly() -> Any:
    pytest.importorskip("pyrealb")
    sys.path.insert(0, str(ROOT / "scripts"))
    try:
        from demo_corpus import assembly as module
    finally:
        sys.path.pop(0)
    return module


@needs_pyrealb
def test_the_first_training_pairs_are_what_the_script_draws(
    assembly: Any, corpus: dict[str, list[tuple[str, str]]]
) -> None:
    """A cheap part of the regeneration: the drawn pairs, in order, less those with rare forms."""
    drawer = assembly._Drawer(assembly.SEED)
    drawn = [drawer.next() for _ in range(400)]
    where = {pair: i for i, pair in enumerate(corpus["train"])}
    kept = [where[s.fr, s.en] for s in drawn if (s.fr, s.en) in where]
    assert len(kept) >= 200
    assert kept == list(range(len(kept)))


@needs_pyrealb
def test_hash_seed_does_not_matter() -> None:
    """Sets and dicts of the generator must not leak their order."""
    code = (
        f"import sys; sys.path.insert(0, {str(ROOT / 'scripts')!r})\n"
        "from demo_corpus import assembly\n"
        "d = assembly._Drawer(7)\n"
        "print([(s.fr, s.en, s.unseen) for s in (d.next() for _ in range(150))])\n"
    )
    runs = [
        subprocess.run(
            [sys.executable, "-c", code],
            check=True,
            capture_output=True,
            text=True,
            encoding="utf-8",
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONIOENCODING": "utf-8"},
        ).stdout
        for seed in ("1", "2")
    ]
    assert runs[0] == runs[1]
    assert len(runs[0]) > 5000


@needs_pyrealb
@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_regeneration_gives_the_committed_files(assembly: Any, tmp_path: Path) -> None:
    built = assembly.build()
    assembly.write(built, tmp_path)
    assert assembly.digest(tmp_path) == assembly.digest(DEMO)
    statistics = assembly.statistics(built)
    assert statistics["lemmas_fr"] >= 900
    assert statistics["lemmas_en"] >= 900
    assert statistics["test_unseen"] == 600
    # Meetings of words that the test holds out are in no training sentence.
    assert not any(s.unseen for s in built.train)
    assert not any(s.unseen for s in built.valid)


@needs_pyrealb
def test_lexicon_agrees_with_pyrealb(assembly: Any) -> None:
    """Genders and aspirated initials of our nouns are those of pyrealb's dictionary."""
    from demo_corpus import morphology
    from demo_corpus.load import Lexicon
    from demo_corpus.surface import starts_with_vowel

    checked = 0
    for noun in Lexicon().nouns:
        gender = morphology.french_gender(noun.fr)
        assert gender in ("", "x", noun.gender), noun.fr
        checked += bool(gender)
        if noun.fr.startswith("h"):
            assert starts_with_vowel(noun.fr) != morphology.french_aspirated(noun.fr), noun.fr
    assert checked > 250


@needs_pyrealb
def test_surface_rules(assembly: Any) -> None:
    from demo_corpus.surface import english_sentence, french_sentence

    assert french_sentence("le ami de le homme va à le marché", ".") == "L'ami de l'homme va au marché."
    assert french_sentence("je ne le° ai pas", ".") == "Je ne l'ai pas."
    assert french_sentence("il refuse de le° voir", ".") == "Il refuse de le voir."
    assert french_sentence("si il vient , je me en° vais", ".") == "S'il vient, je m'en vais."
    assert french_sentence("le hibou de les onze", "?") == "Le hibou des onze\u00a0?"
    assert (
        english_sentence("a honest man has a apple and a uniform", ".")
        == "An honest man has an apple and a uniform."
    )
