"""Subword dropout: the same text in other pieces, reproducibly, and never longer than a model can read."""

import numpy as np
import pytest

from mt.config.schema import TokenizerConfig, TokenizerModel
from mt.data.batches import BatchLoader, collate
from mt.data.store import TokenStore
from mt.data.subwords import Parts, SubwordDropout
from mt.data.tokenizer import Tokenizer, train_tokenizer

LINES = [
    "un petit chien court dans la neige",
    "le petit garçon court vers la petite maison",
    "une maison dans la forêt, un chien dans la maison",
    "",
    "ça coûte 30 €",
] * 4


@pytest.fixture(scope="module", params=list(TokenizerModel))
def tokenizer(request: pytest.FixtureRequest) -> Tokenizer:
    config = TokenizerConfig(model=request.param, vocab_size=340)
    lines = [line for line in LINES if line]
    return train_tokenizer(config, lines, lines)


def flat(lines: list[list[int]]) -> tuple[np.ndarray, np.ndarray]:
    return np.array([index for line in lines for index in line], dtype=np.uint16), np.array(
        [len(line) for line in lines], dtype=np.int32
    )


def split(tokenizer: Tokenizer, probability: float, longest: int = 500, seed: int = 0) -> list[list[int]]:
    ids, lengths = flat(tokenizer.encode_source(LINES))
    parts = Parts.of(tokenizer.models[0])
    ids, lengths = parts.split(ids, lengths, probability, longest, np.random.default_rng(seed))
    return [line.tolist() for line in np.split(ids, np.cumsum(lengths)[:-1])]


@pytest.mark.parametrize("probability", [0.0, 0.1, 0.5, 0.999])
def test_the_text_stays_the_same(tokenizer: Tokenizer, probability: float) -> None:
    lines = split(tokenizer, probability)
    assert [tokenizer.decode_source(line) for line in lines] == LINES
    whole = tokenizer.encode_source(LINES)
    assert (lines == whole) == (probability == 0.0)
    assert all(len(new) >= len(old) for new, old in zip(lines, whole, strict=True))


def test_at_one_everything_falls_into_characters(tokenizer: Tokenizer) -> None:
    left = {index for line in split(tokenizer, 1.0) for index in line}
    names = tokenizer.pieces(sorted(left), "source")
    single = {text for text in tokenizer.pieces(range(tokenizer.source_size), "source") if len(text) == 1}
    # a character may be known only within longer pieces
    assert all(len(name) == 1 or name.startswith("<0x") or not set(name) <= single for name in names)


def test_a_piece_falls_apart_with_the_probability(tokenizer: Tokenizer) -> None:
    parts = Parts.of(tokenizer.models[0])
    piece = int(np.flatnonzero(parts.counts > 1)[-1])
    ids, lengths = np.full(20_000, piece, dtype=np.uint16), np.ones(20_000, dtype=np.int32)
    _, new = parts.split(ids, lengths, 0.3, 500, np.random.default_rng(1))
    assert (new > 1).mean() == pytest.approx(0.3, abs=0.02)


def spellings(text: str, score: dict[str, float]) -> list[float]:
    """Total scores of all ways to write a text in known pieces."""
    found = [score[text]] if text in score else []
    for at in range(1, len(text)):
        if text[:at] in score:
            found += [score[text[:at]] + rest for rest in spellings(text[at:], score)]
    return found


def test_the_spelling_with_the_best_score_is_taken(tokenizer: Tokenizer) -> None:
    pieces = tokenizer.models[0].pieces
    score = {piece.text: piece.score for piece in pieces if piece.kind == 1}
    parts = Parts.of(tokenizer.models[0])
    assert (parts.counts > 1).any()
    for index, piece in enumerate(pieces):
        start, count = parts.starts[index], parts.counts[index]
        chosen = [pieces[part].text for part in parts.ids[start : start + count]]
        assert "".join(chosen) == piece.text
        others = spellings(piece.text, {text: s for text, s in score.items() if text != piece.text})
        if piece.kind == 1 and others:
            assert sum(score[text] for text in chosen) == pytest.approx(max(others))
        else:
            assert chosen == [piece.text]


def test_equal_seeds_give_equal_pieces_and_others_do_not(tokenizer: Tokenizer) -> None:
    assert split(tokenizer, 0.3, seed=5) == split(tokenizer, 0.3, seed=5) != split(tokenizer, 0.3, seed=6)


def test_a_line_that_would_get_too_long_stays_whole(tokenizer: Tokenizer) -> None:
    whole = tokenizer.encode_source(LINES)
    longest = sorted(len(line) for line in split(tokenizer, 1.0))[len(LINES) // 2]
    lines = split(tokenizer, 1.0, longest)
    free = split(tokenizer, 1.0)
    expected = [long if len(long) <= longest else old for long, old in zip(free, whole, strict=True)]
    assert lines == expected != free


def test_batches_are_segmented_anew_in_each_epoch_and_the_same_after_a_restart(tokenizer: Tokenizer) -> None:
    lines = tokenizer.encode_source([line for line in LINES if line])
    store = TokenStore.of(lines, lines)
    parts = Parts.of(tokenizer.models[0])
    dropout = SubwordDropout(parts, parts, 0.3, 100)

    def loader(epoch: int, position: int) -> BatchLoader:
        return BatchLoader(
            store, batch_tokens=60, seed=3, epoch=epoch, position=position, prefetch_batches=0,
            subword_dropout=dropout,
        )  # fmt: skip

    def texts(count: int, epoch: int = 0, position: int = 0) -> list[list[list[int]]]:
        made = loader(epoch, position)
        return [next(made)[2].source.tolist() for _ in range(count)]

    length = len(loader(0, 0).plan(0))
    unbroken = texts(2 * length)
    assert texts(2 * length - 3, 0, 3) == unbroken[3:]
    assert texts(2, 1, 1) == unbroken[length + 1 : length + 3]
    pairs = range(len(store))
    a, b = (collate(store, pairs, dropout, np.random.default_rng(seed)).source for seed in (1, 2))
    assert a.tolist() != b.tolist()
    assert collate(store, pairs).source.tolist() == collate(store, pairs, dropout, None).source.tolist()
