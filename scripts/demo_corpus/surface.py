"""From word strings to a written sentence: elision, contraction, capitals, punctuation.

French in: words separated by spaces, articles and short words in full ("le ami", "à le marché"). A clitic
pronoun is marked with ``°`` ("de le° voir"), which protects it from contraction and is removed here. French
out: "l'ami",
"au marché", "de le voir". The apostrophe is the straight one, as people type it; ``?`` and ``!`` are set
off with a
no-break space (U+00A0), as French typography asks. English in: "a" before any word; out: "a" or "an".
"""

from __future__ import annotations

import re

NO_BREAK_SPACE = "\u00a0"

_VOWELS = "aeiouâàäéèêëîïôöûùüœæ"
# Words without elision before them: aspirated h, and the numbers that behave the same way.
_NO_ELISION = ("hibou", "huit", "onze", "yaourt", "haricot", "hockey", "haut", "héros", "hamster")
# English spelling and sound disagree at the start of these.
_AN_DESPITE_CONSONANT = ("hour", "honest")
_A_DESPITE_VOWEL = ("useful", "uniform", "university", "european", "one", "used")

_ELISION = re.compile(r"(?<![\w'-])(le|la|je|me|te|se|de|ne|que|jusque)(°?) (?=(\w+))")
_CONTRACTION = re.compile(r"(?<![\w'-])(à|de) (les?)(?![\w°'])(?= )")


def starts_with_vowel(word: str) -> bool:
    """True if French elides before ``word``."""
    lower = word.lower()
    if lower.startswith(_NO_ELISION):
        return False
    if lower[0] == "y":
        return lower == "y"
    return lower[0] in _VOWELS or lower[0] == "h"


def _elide(match: re.Match[str]) -> str:
    word, mark, following = match.groups()
    if not starts_with_vowel(following):
        return match.group(0)
    return word[:-1] + "'" + mark


def _contract(match: re.Match[str]) -> str:
    preposition, article = match.groups()
    return {"à le": "au", "à les": "aux", "de le": "du", "de les": "des"}[f"{preposition} {article}"]


def french_words(text: str) -> str:
    """Elision and contraction; no capital, no final stop."""
    text = " ".join(text.split())
    text = re.sub(r"(?<![\w'-])([sS])i (ils?)(?!\w)", r"\1'\2", text)
    previous = ""
    while previous != text:  # "que je ai" elides twice, left to right
        previous = text
        text = _ELISION.sub(_elide, text)
    text = _CONTRACTION.sub(_contract, text)
    text = text.replace("°", "")
    text = re.sub(r"' ", "'", text)
    return re.sub(r" ,", ",", text)


def english_words(text: str) -> str:
    """The choice of a or an, and *cannot* in one word; no capital, no final stop."""
    text = " ".join(text.split())

    def article(match: re.Match[str]) -> str:
        word = match.group(2).lower()
        vowel = word[0] in "aeiou"
        if word.startswith(_AN_DESPITE_CONSONANT):
            vowel = True
        elif word.startswith(_A_DESPITE_VOWEL):
            vowel = False
        return f"{match.group(1)}{'n' if vowel else ''} {match.group(2)}"

    text = re.sub(r"(?<![\w'-])([aA]) (\w+)", article, text)
    text = re.sub(r"\b([cC]an) not\b", r"\1not", text)
    return re.sub(r" ,", ",", text)


def _capital(text: str) -> str:
    return text[0].upper() + text[1:]


def french_sentence(text: str, end: str) -> str:
    """``end`` is ``.``, ``?``, ``!`` or nothing."""
    mark = NO_BREAK_SPACE + end if end in ("?", "!") else end
    return _capital(french_words(text)) + mark


def english_sentence(text: str, end: str) -> str:
    """``end`` is ``.``, ``?``, ``!`` or nothing."""
    return _capital(english_words(text)) + end


def word_count(sentence: str) -> int:
    """Words as people count them: white-space tokens that hold a letter or a digit."""
    return sum(any(ch.isalnum() for ch in token) for token in sentence.split())


def word_forms(sentence: str) -> list[str]:
    """Lower-case word forms, split at apostrophes and hyphens: "l'ami" is "l'" and "ami", "vient-il"
    two forms.
    """
    return re.findall(r"\w+'?", sentence.lower())
