"""From the grammar to the files: draws sentences, removes doubles, splits, checks and writes.

The splits follow from four rules:

- one French sentence has one English sentence and the other way round, in the whole corpus;
- a sentence of the showcase (the README's examples) is nowhere else, not even with another final stop;
- some meetings of words (this verb with this noun, this adjective with that noun) are held out by a hash of
  the
  words: the training and validation sides have none of them, and `UNSEEN_SHARE` of the test sentences have
  one;
- every word form of the validation and test sides, and of the showcase, occurs at least `SEEN_FORMS` times
  in the training side: the test asks for new combinations, not for new words.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from . import sentences
from .grammar import Reject, Writer, bond_hash
from .load import Lexicon
from .showcase import SHOWCASE
from .surface import english_sentence, french_sentence, word_count, word_forms

TRAIN_SIZE = 27_000
VALID_SIZE = 1_000
TEST_SIZE = 1_000
LONG_SIZE = 400
LONGEST = 25  # words of a training, validation or test sentence, either side
LONG_RANGE = (26, 40)  # words of a long sentence, either side
UNSEEN_SHARE = 0.6
HELD_OUT = 30  # of a thousand meetings
SEEN_FORMS = 5
POOL = 1.55  # sentences drawn per sentence wanted
POOL_FORMS = 6  # a word form that the pool has less often is left out of the corpus
WITHOUT_STOP = 0.08  # statements written without the final full stop, as people type them
SEED = 20240901


@dataclass(frozen=True)
class Sentence:
    """A finished pair with what it is made of."""

    fr: str
    en: str
    lemmas_fr: frozenset[str] = field(compare=False)
    lemmas_en: frozenset[str] = field(compare=False)
    unseen: bool = field(compare=False)


@dataclass(frozen=True)
class Corpus:
    """The four splits."""

    train: list[Sentence]
    valid: list[Sentence]
    test: list[Sentence]
    test_long: list[Sentence]

    def splits(self) -> dict[str, list[Sentence]]:
        return {"train": self.train, "valid": self.valid, "test": self.test, "test_long": self.test_long}


def bare(sentence: str) -> str:
    """Lower case and no final stop: what makes two sentences the same for the splits."""
    return sentence.lower().rstrip(".!? \u00a0")


class _Drawer:
    """Draws pairs that are new on both sides."""

    def __init__(self, seed: int) -> None:
        self.writer = Writer(Lexicon(), seed)
        self._seen_fr = {bare(fr) for fr, _ in SHOWCASE}
        self._seen_en = {bare(en) for _, en in SHOWCASE}

    def next(self, *, long: bool = False) -> Sentence:
        w = self.writer
        while True:
            w.start()
            try:
                pair = sentences.draw_long(w) if long else sentences.draw(w)
            except Reject:
                continue
            end = "" if pair.end == "." and not long and w.chance(WITHOUT_STOP) else pair.end
            fr, en = french_sentence(pair.fr, end), english_sentence(pair.en, end)
            lengths = (word_count(fr), word_count(en))
            low, high = LONG_RANGE if long else (2, LONGEST)
            if min(lengths) < low or max(lengths) > high:
                continue
            if bare(fr) in self._seen_fr or bare(en) in self._seen_en:
                continue
            self._seen_fr.add(bare(fr))
            self._seen_en.add(bare(en))
            w.keep()
            unseen = any(bond_hash(bond) < HELD_OUT for bond in sorted(w.bonds))
            return Sentence(fr, en, frozenset(w.lemmas_fr), frozenset(w.lemmas_en), unseen)


def _forms(sentence: Sentence) -> list[str]:
    return [f"fr:{f}" for f in word_forms(sentence.fr)] + [f"en:{f}" for f in word_forms(sentence.en)]


def _count_forms(split: Iterable[Sentence]) -> Counter[str]:
    counts: Counter[str] = Counter()
    for sentence in split:
        counts.update(_forms(sentence))
    return counts


def common_only(pool: list[Sentence]) -> list[Sentence]:
    """Drops the sentences with a word form that is rare in the pool, until none is left.

    Without this, half of the French forms would be verb forms met once or twice.
    """
    while True:
        counts = _count_forms(pool)
        kept = [s for s in pool if all(counts[form] >= POOL_FORMS for form in _forms(s))]
        if len(kept) == len(pool):
            return kept
        pool = kept


def build(
    train_size: int = TRAIN_SIZE,
    valid_size: int = VALID_SIZE,
    test_size: int = TEST_SIZE,
    long_size: int = LONG_SIZE,
    seed: int = SEED,
) -> Corpus:
    """Builds all splits; the same arguments give the same corpus on every machine."""
    drawer = _Drawer(seed)
    wanted_unseen = round(test_size * UNSEEN_SHARE)
    plain_size = test_size - wanted_unseen
    pool = common_only([drawer.next() for _ in range(round(POOL * (train_size + valid_size + test_size)))])
    unseen = [s for s in pool if s.unseen]
    seen = [s for s in pool if not s.unseen]
    train, rest = seen[:train_size], seen[train_size:]
    if len(train) < train_size:
        raise ValueError(f"only {len(train)} training sentences; draw more")
    counts = _count_forms(train)

    def known(sentence: Sentence) -> bool:
        return all(counts[form] >= SEEN_FORMS for form in _forms(sentence))

    rest = [s for s in rest if known(s)]
    unseen = [s for s in unseen if known(s)]
    valid = rest[:valid_size]
    plain = rest[valid_size : valid_size + plain_size]
    if len(valid) < valid_size or len(plain) < plain_size or len(unseen) < wanted_unseen:
        raise ValueError("too few sentences with known word forms; draw more")
    test: list[Sentence] = []
    unseen = unseen[:wanted_unseen]
    for i in range(test_size):  # interleaved, so that a look at the first lines shows both kinds
        take_unseen = (i + 1) * wanted_unseen // test_size > i * wanted_unseen // test_size
        test.append(unseen.pop(0) if take_unseen else plain.pop(0))
    test_long: list[Sentence] = []
    while len(test_long) < long_size:
        sentence = drawer.next(long=True)
        if known(sentence):
            test_long.append(sentence)
    return Corpus(train, valid, test, test_long)


def write(corpus: Corpus, folder: Path) -> None:
    """Writes ``<split>.fr`` and ``<split>.en``, UTF-8 with line feeds, and the showcase."""
    folder.mkdir(parents=True, exist_ok=True)
    pairs = {name: [(s.fr, s.en) for s in split] for name, split in corpus.splits().items()}
    pairs["showcase"] = list(SHOWCASE)
    for name, lines in pairs.items():
        for column, language in enumerate(("fr", "en")):
            text = "".join(f"{pair[column]}\n" for pair in lines)
            (folder / f"{name}.{language}").write_text(text, encoding="utf-8", newline="\n")


def digest(folder: Path) -> str:
    """SHA-256 over names and contents of all corpus files."""
    total = hashlib.sha256()
    for path in sorted(folder.glob("*.??")):
        total.update(path.name.encode("utf-8"))
        total.update(path.read_bytes())
    return total.hexdigest()


def statistics(corpus: Corpus) -> dict[str, object]:
    """The numbers that ``data/README.md`` states."""
    everything = [s for split in corpus.splits().values() for s in split]
    train_forms = _count_forms(corpus.train)
    lengths = Counter(word_count(s.fr) for s in corpus.train)
    return {
        "pairs": {name: len(split) for name, split in corpus.splits().items()},
        "lemmas_fr": len(set().union(*(s.lemmas_fr for s in everything))),
        "lemmas_en": len(set().union(*(s.lemmas_en for s in everything))),
        "forms_fr": sum(form.startswith("fr:") for form in train_forms),
        "forms_en": sum(form.startswith("en:") for form in train_forms),
        "forms_fr_5": sum(form.startswith("fr:") and n >= 5 for form, n in train_forms.items()),
        "words_fr": sum(word_count(s.fr) for s in corpus.train),
        "words_en": sum(word_count(s.en) for s in corpus.train),
        "length_mean": round(sum(k * n for k, n in lengths.items()) / max(1, sum(lengths.values())), 2),
        "length_range": (min(lengths), max(lengths)),
        "test_unseen": sum(s.unseen for s in corpus.test),
        "showcase_rare_forms": sorted(
            form
            for pair in SHOWCASE
            for form in _forms(Sentence(*pair, frozenset(), frozenset(), False))
            if train_forms[form] < SEEN_FORMS
        ),
    }
