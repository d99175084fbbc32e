"""Words are those of the text, however many pieces they have and whatever pieces a model writes."""

from __future__ import annotations

import pytest

from mt.config.schema import Normalization, TokenizerConfig
from mt.data.tokenizer import UNK, Tokenizer, train_tokenizer
from mt.decoding.translator import UNKNOWN_SIGN
from mt.decoding.word_places import places_of_output, places_of_text
from tests.decoding.runs import SENTENCES


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    config = TokenizerConfig(vocab_size=340, byte_fallback=True, threads=1, normalization=Normalization.nfkc)
    return train_tokenizer(config, SENTENCES, SENTENCES)


def spelled(tokenizer: Tokenizer, line: str, ids: list[int]) -> list[int | None]:
    words = line.split()
    return list(places_of_text(ids, tokenizer.pieces(ids, "source"), words, tokenizer.encode_source))


@pytest.mark.parametrize(
    "line", ["the cat sleeps", "xyzzy the é q", "the", "\u00a8cat the\u00a8cat sleeps", "½ \u00a8 a"]
)
def test_every_word_of_a_line_has_its_own_pieces(tokenizer: Tokenizer, line: str) -> None:
    # U+00A8 becomes a space and an accent: more words for the tokenizer than there are.
    ids = tokenizer.encode_source([line])[0]
    places = spelled(tokenizer, line, ids)
    alone = [len(found) for found in tokenizer.encode_source(line.split())]
    assert places == [place for place, count in enumerate(alone) for _ in range(count)]


@pytest.mark.parametrize("line", ["the cat sleeps on", "the\u00a8cat sleeps on"])
def test_a_line_that_was_cut_keeps_its_places(tokenizer: Tokenizer, line: str) -> None:
    ids = tokenizer.encode_source([line])[0]
    whole = spelled(tokenizer, line, ids)
    for room in range(1, len(ids)):
        assert spelled(tokenizer, line, ids[:room]) == whole[:room]


def written(tokenizer: Tokenizer, ids: list[int], unknown: str = "") -> list[int | None]:
    words = tokenizer.decode(ids, unknown).split()
    return list(places_of_output(ids, tokenizer.pieces(ids, "target"), words, tokenizer.decode))


def test_pieces_that_leave_nothing_belong_to_no_word(tokenizer: Tokenizer) -> None:
    the, cat = (tokenizer.encode_target([word])[0] for word in ("the", "cat"))
    names = tokenizer.pieces(range(tokenizer.target_size), "target")
    mark, lost, space = names.index("\u2581"), names.index("<0xC3>"), names.index("<0x20>")
    assert written(tokenizer, [*the, mark, *cat]) == [0] * len(the) + [None] + [1] * len(cat)
    assert written(tokenizer, [mark, UNK, *cat]) == [None, None] + [0] * len(cat)
    assert written(tokenizer, [lost, *cat]) == [None] + [0] * len(cat)
    # A space that is spelled as a byte begins a word too.
    assert written(tokenizer, [*the, space, names.index("<0x61>"), *cat]) == (
        [0] * len(the) + [0, 1] + [2] * len(cat)
    )
    assert written(tokenizer, []) == [] and written(tokenizer, [UNK]) == [None]


def test_a_sign_for_the_unknown_is_a_word(tokenizer: Tokenizer) -> None:
    the, cat = (tokenizer.encode_target([word])[0] for word in ("the", "cat"))
    ids = [*the, UNK, *cat]
    assert tokenizer.decode(ids, UNKNOWN_SIGN).split() == ["the", UNKNOWN_SIGN, "cat"]
    assert written(tokenizer, ids, UNKNOWN_SIGN) == [0] * len(the) + [1] + [2] * len(cat)
