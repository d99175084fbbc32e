"""The search against exhaustive enumeration, a textbook beam search, and cases worked out by hand."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

import pytest
import torch
from torch import Tensor

from mt.config.schema import DecodingConfig
from mt.decoding import search as search_module
from mt.decoding.search import Hypothesis, search
from mt.errors import MTError
from tests.decoding.stubs import BOS, EOS, PAD, UNK, Scripted, TinyRecurrent

NEVER = -math.inf


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    torch.set_num_threads(1)


def run(
    model: Any, sources: Sequence[Sequence[int]], limits: Sequence[int], **options: Any
) -> list[list[Hypothesis]]:
    """The search on `sources` (ids without end symbol), padded into one batch."""
    options.setdefault("length_penalty", 0.0)
    longest = max((len(source) for source in sources), default=0) + 1
    ids = torch.tensor([[*s, EOS] + [PAD] * (longest - 1 - len(s)) for s in sources]).view(len(sources), -1)
    mask = torch.tensor([[i <= len(s) for i in range(longest)] for s in sources], dtype=torch.bool).view(
        len(sources), -1
    )
    if isinstance(model, torch.nn.Module):
        model.eval()
    memory = model.encode(ids, mask)
    config = DecodingConfig(**options)
    return search(model, memory, mask, options=config, max_lengths=limits, bos=BOS, eos=EOS, pad=PAD)


def penalty(length: int, alpha: float) -> float:
    return ((5 + length) / 6) ** alpha


def log_probs_after(model: Any, source: Sequence[int], tokens: Sequence[int]) -> Tensor:
    """log P(next | tokens) for one sentence, by running the model over it alone."""
    ids = torch.tensor([[*source, EOS]])
    mask = torch.ones_like(ids, dtype=torch.bool)
    with torch.no_grad():
        state = model.init_state(model.encode(ids, mask), mask)
        for token in (BOS, *tokens):
            logits, state = model.step(torch.tensor([token]), state)
    return torch.log_softmax(logits[0], -1)


def every_hypothesis(
    model: Any, source: Sequence[int], limit: int, vocabulary: int, alpha: float
) -> list[Hypothesis]:
    """All target sentences of at most `limit` symbols, best first."""
    found = []

    def extend(tokens: list[int], total: float) -> None:
        next_log_probs = log_probs_after(model, source, tokens).tolist()
        length = len(tokens) + 1
        ended = total + next_log_probs[EOS]
        found.append(Hypothesis(tokens, ended / penalty(length, alpha), ended))
        for token in range(vocabulary):
            if token in (PAD, BOS, EOS):
                continue
            longer = total + next_log_probs[token]
            if length == limit:
                found.append(
                    Hypothesis([*tokens, token], longer / penalty(length, alpha), longer, truncated=True)
                )
            else:
                extend([*tokens, token], longer)

    extend([], 0.0)
    return sorted(found, key=lambda hypothesis: -hypothesis.score)


def textbook(
    model: Any, source: Sequence[int], limit: int, vocabulary: int, beam: int, alpha: float
) -> list[Hypothesis]:
    """Beam search for one sentence in plain Python that never stops before `limit`."""
    live: list[tuple[list[int], float]] = [([], 0.0)]
    finished: list[Hypothesis] = []
    for length in range(1, limit + 1):
        candidates = []
        for tokens, total in live:
            for token, value in enumerate(log_probs_after(model, source, tokens).tolist()):
                if token not in (PAD, BOS):
                    candidates.append(([*tokens, token], total + value))
        candidates.sort(key=lambda candidate: -candidate[1])
        scale = penalty(length, alpha)
        finished += [Hypothesis(t[:-1], p / scale, p) for t, p in candidates[:beam] if t[-1] == EOS]
        live = [(t, p) for t, p in candidates if t[-1] != EOS][:beam]
        if length == limit:
            finished += [Hypothesis(t, p / scale, p, truncated=True) for t, p in live]
    return sorted(finished, key=lambda hypothesis: -hypothesis.score)


def same(found: Sequence[Hypothesis], expected: Sequence[Hypothesis]) -> None:
    assert [h.tokens for h in found] == [h.tokens for h in expected]
    assert [h.truncated for h in found] == [h.truncated for h in expected]
    assert [h.score for h in found] == pytest.approx([h.score for h in expected], abs=1e-4)
    assert [h.log_prob for h in found] == pytest.approx([h.log_prob for h in expected], abs=1e-4)


SOURCES = [[4, 5], [6], [4, 4, 6, 5], [5, 6, 4]]


@pytest.mark.parametrize("alpha", [0.0, 0.6, 1.0, 2.5])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_wide_beam_finds_what_enumeration_finds(alpha: float, seed: int) -> None:
    vocabulary, limits = 7, [3, 1, 4, 2]
    model = TinyRecurrent(vocabulary, seed)
    found = run(model, SOURCES, limits, beam=600, n_best=12, length_penalty=alpha)
    for source, limit, hypotheses in zip(SOURCES, limits, found, strict=True):
        expected = every_hypothesis(model, source, limit, vocabulary, alpha)[:12]
        same(hypotheses, expected)


@pytest.mark.parametrize("beam", [2, 3, 5])
@pytest.mark.parametrize("alpha", [0.0, 0.6, 1.4])
@pytest.mark.parametrize("seed", range(4))
def test_stopping_early_loses_nothing(beam: int, alpha: float, seed: int) -> None:
    """Equal to a beam search that always runs to the longest length, for every n-best list."""
    vocabulary, limits = 12, [9, 4, 12, 7]
    model = TinyRecurrent(vocabulary, seed)
    for n_best in (1, beam):
        found = run(model, SOURCES, limits, beam=beam, n_best=n_best, length_penalty=alpha)
        for source, limit, hypotheses in zip(SOURCES, limits, found, strict=True):
            same(hypotheses, textbook(model, source, limit, vocabulary, beam, alpha)[:n_best])


def test_a_sentence_stops_when_nothing_can_beat_it() -> None:
    """The end is near certain after two symbols: far fewer steps than the limit of 60."""

    def logits(source: list[int], tokens: list[int]) -> list[float]:
        return [0.0, 0.0, 30.0, 0.0, 0.0, 0.0] if len(tokens) == 2 else [0.0, 0.0, -30.0, 0.0, 5.0, 3.0]

    model = Scripted(logits)
    steps = []
    original = model.step

    def counted(tokens: Tensor, state: Any) -> Any:
        steps.append(len(tokens))
        return original(tokens, state)

    model.step = counted  # type: ignore[method-assign]
    run(model, [[4], [4]], [60, 60], beam=3, length_penalty=1.0)
    assert len(steps) <= 5


@pytest.mark.parametrize("seed", range(5))
def test_greedy_takes_the_likeliest_symbol_and_so_does_a_beam_of_one(seed: int) -> None:
    vocabulary, limits = 11, [8, 3, 10, 6]
    model = TinyRecurrent(vocabulary, seed)
    found = run(model, SOURCES, limits, beam=1, length_penalty=0.6)
    for source, limit, hypotheses in zip(SOURCES, limits, found, strict=True):
        tokens: list[int] = []
        total = 0.0
        ended = False
        while len(tokens) < limit and not ended:
            values = log_probs_after(model, source, tokens)
            values[[PAD, BOS]] = NEVER
            best = int(values.argmax())
            total += float(values[best])
            ended = best == EOS
            if not ended:
                tokens.append(best)
        expected = Hypothesis(tokens, total / penalty(len(tokens) + ended, 0.6), total, truncated=not ended)
        same(hypotheses, [expected])
    # With alpha 0 the first end symbol cannot be beaten, so the beam's code must agree with greedy's.
    greedy = run(model, SOURCES, limits, beam=1)
    original = search_module._greedy
    search_module._greedy = search_module._beam
    try:
        beamed = run(model, SOURCES, limits, beam=1)
    finally:
        search_module._greedy = original
    for one, other in zip(greedy, beamed, strict=True):
        same(other, one)


@pytest.mark.parametrize("beam", [1, 4])
def test_neighbours_padding_and_order_change_nothing(beam: int) -> None:
    model = TinyRecurrent(40, seed=3)
    generator = torch.Generator().manual_seed(0)
    sources = [
        torch.randint(
            4, 40, (int(torch.randint(1, 9, (1,), generator=generator)),), generator=generator
        ).tolist()
        for _ in range(20)
    ]
    limits = [len(source) * 2 + 3 for source in sources]
    options = {"beam": beam, "n_best": beam, "length_penalty": 0.6}
    together = run(model, sources, limits, **options)
    backwards = run(model, sources[::-1], limits[::-1], **options)[::-1]
    for source, limit, one, other in zip(sources, limits, together, backwards, strict=True):
        alone = run(model, [source], [limit], **options)[0]
        same(one, alone)
        same(other, alone)


def test_finished_sentences_leave_the_batch() -> None:
    """19 sentences end at once, one runs to its limit: the work is that of the one."""

    def logits(source: list[int], tokens: list[int]) -> list[float]:
        return [0, 0, -50, 0, 9, 1, 1, 1] if source == [5] else [0, 0, 50, 0, 0, 0, 0, 0]

    for beam in (1, 4):
        model = Scripted(logits)
        rows: list[int] = []
        original = model.step

        def counted(tokens: Tensor, state: Any, original: Any = original, rows: list[int] = rows) -> Any:
            rows.append(len(tokens))
            return original(tokens, state)

        model.step = counted  # type: ignore[method-assign]
        found = run(model, [[4]] * 19 + [[5]], [30] * 20, beam=beam)
        assert rows[0] == 20 and rows[-1] == beam and sum(rows) < 20 * beam + 30 * beam
        assert [hypotheses[0].tokens for hypotheses in found[:19]] == [[]] * 19
        assert len(found[19][0].tokens) == 30 and found[19][0].truncated


def test_the_state_moves_only_when_the_order_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    moves = []
    original = search_module.select

    def counted(state: Any, **rows: Any) -> Any:
        moves.append(rows)
        return original(state, **rows)

    monkeypatch.setattr(search_module, "select", counted)
    # Hypotheses never change places: each goes on with its own symbol, far ahead of all others.
    rule = Scripted(
        lambda s, t: (
            [0, 0, -60, 0, 3, 2] if not t else [-60, -60, -60, -60] + [20 * (x == t[0]) for x in (4, 5)]
        )
    )
    run(rule, [[4]], [12], beam=2)
    assert len(moves) == 1  # from one to two hypotheses after the first step, then never


@pytest.mark.parametrize("alpha", [0.0, 0.6])
@pytest.mark.parametrize("beam", [2, 4])
def test_n_best_is_sorted_distinct_and_starts_with_the_best(alpha: float, beam: int) -> None:
    model = TinyRecurrent(30, seed=8, sharpness=1.0)
    many = run(model, SOURCES, [8] * 4, beam=beam, n_best=beam, length_penalty=alpha)
    single = run(model, SOURCES, [8] * 4, beam=beam, n_best=1, length_penalty=alpha)
    for hypotheses, best in zip(many, single, strict=True):
        scores = [h.score for h in hypotheses]
        assert scores == sorted(scores, reverse=True)
        assert len({tuple(h.tokens) for h in hypotheses}) == len(hypotheses) == beam
        same(hypotheses[:1], best)


def test_score_is_log_probability_over_the_length_penalty() -> None:
    model = TinyRecurrent(9, seed=4)
    for hypotheses in run(model, SOURCES, [6, 5, 4, 3], beam=3, n_best=3, length_penalty=0.9):
        for h in hypotheses:
            assert h.score == pytest.approx(h.log_prob / penalty(len(h.tokens) + (not h.truncated), 0.9))


def test_special_symbols_are_never_produced() -> None:
    """PAD and BOS are by far the likeliest everywhere, and still never come."""
    model = Scripted(lambda s, t: [50.0, 60.0, float(len(t)), 1.0, 2.0, 1.5])
    for beam in (1, 3):
        for hypotheses in run(model, [[4, 5], [4]], [6, 4], beam=beam, n_best=beam):
            for h in hypotheses:
                assert not set(h.tokens) & {PAD, BOS, EOS} and math.isfinite(h.score)


def test_unknown_may_be_produced() -> None:
    model = Scripted(lambda s, t: [0, 0, 0, 9, 0, 0] if not t else [0, 0, 9, 0, 0, 0])
    assert run(model, [[4]], [5], beam=1)[0][0].tokens == [UNK]


@pytest.mark.parametrize("beam", [1, 2, 5])
def test_a_loop_ends_at_each_sentences_own_limit(beam: int) -> None:
    """floor(1.5 x source) + 5 for sources of 2 and 1 words; a normal one in the batch is not touched."""

    def logits(source: list[int], tokens: list[int]) -> list[float]:
        if source == [6]:
            return [0, 0, 40.0 * (len(tokens) == 2), 0, 20, 0, 0]
        return [0, 0, -40, 0, 20, 0, 0]

    found = run(Scripted(logits), [[4, 5], [4], [6]], [8, 6, 6], beam=beam)
    assert [(h[0].tokens, h[0].truncated) for h in found] == [
        ([4] * 8, True),
        ([4] * 6, True),
        ([4, 4], False),
    ]


@pytest.mark.parametrize("beam", [1, 2, 4])
@pytest.mark.parametrize("order", [1, 2, 3])
def test_no_ngram_repeats(beam: int, order: int) -> None:
    """A model that wants one symbol for ever; and random models, which repeat a lot."""
    loop = Scripted(lambda s, t: [0, 0, -10, 0, 9, 8, 7, 6])
    models = [loop, *(TinyRecurrent(8, seed) for seed in range(3))]
    for model in models:
        for n_best in run(model, SOURCES, [30, 12, 25, 20], beam=beam, n_best=beam, no_repeat_ngram=order):
            for h in n_best:
                ngrams = [tuple(h.tokens[i : i + order]) for i in range(len(h.tokens) - order + 1)]
                assert len(set(ngrams)) == len(ngrams)
                assert math.isfinite(h.score)


@pytest.mark.parametrize("eos_logit", [-30.0, NEVER])
@pytest.mark.parametrize("beam", [1, 2, 5])
def test_with_everything_blocked_the_hypothesis_is_closed(beam: int, eos_logit: float) -> None:
    """One word besides the end, and no bigram twice: a a, then nothing is left but the end."""
    model = Scripted(lambda s, t: [NEVER, NEVER, eos_logit, NEVER, 5.0])
    for options in ({"no_repeat_ngram": 2}, {"no_repeat_ngram": 1}):
        expected = [4] * options["no_repeat_ngram"]
        for hypotheses in run(model, [[4], [4, 4]], [20, 9], beam=beam, n_best=beam, **options):
            lengths = {len(h.tokens) for h in hypotheses}
            assert all(
                math.isfinite(h.score) and set(h.tokens) <= {4} and not h.truncated for h in hypotheses
            )
            assert max(lengths) <= len(expected)
            if eos_logit == NEVER or beam == 1:
                assert hypotheses[0].tokens == expected
    # A sentence that is stuck does not hurt its neighbour.
    rule = Scripted(
        lambda s, t: (
            [0, 0, 9.0 * (len(t) == 2), 0, 1, 2, 3]
            if s == [5]
            else [NEVER, NEVER, eos_logit, NEVER, 5, NEVER, NEVER]
        )
    )
    alone = run(rule, [[5]], [9], beam=beam, no_repeat_ngram=2)
    both = run(rule, [[5], [4]], [9, 9], beam=beam, no_repeat_ngram=2)
    same(both[0], alone[0])
    assert math.isfinite(both[1][0].score)


@pytest.mark.parametrize("vocabulary", [3, 4, 5])
def test_beam_wider_than_the_vocabulary(vocabulary: int) -> None:
    model = TinyRecurrent(vocabulary, seed=1)
    sources = [[2], [2, 2]]
    found = run(model, sources, [3, 4], beam=9, n_best=9)
    for source, limit, hypotheses in zip(sources, [3, 4], found, strict=True):
        everything = every_hypothesis(model, source, limit, vocabulary, 0.0)
        same(hypotheses, everything[:9])


def test_nothing_to_translate() -> None:
    model = TinyRecurrent(8, seed=0)
    for beam in (1, 4):
        options = DecodingConfig(beam=beam)
        empty = search(
            model, torch.zeros(0, 3, 6), torch.zeros(0, 3, dtype=torch.bool), options=options,
            max_lengths=torch.zeros(0, dtype=torch.long), bos=BOS, eos=EOS, pad=PAD,
        )  # fmt: skip
        assert empty == []
        mixed = run(model, SOURCES, [0, 3, 0, 2], beam=beam)
        assert mixed[0] == mixed[2] == [Hypothesis([], 0.0, 0.0, truncated=True)]
        alone = run(model, [SOURCES[1], SOURCES[3]], [3, 2], beam=beam)
        same(mixed[1], alone[0])
        same(mixed[3], alone[1])
    assert run(model, SOURCES, [0] * 4, beam=3) == [[Hypothesis([], 0.0, 0.0, truncated=True)]] * 4


def test_limits_must_fit_the_batch() -> None:
    with pytest.raises(ValueError, match="2 maximum lengths for 4 sentences"):
        run(TinyRecurrent(8, seed=0), SOURCES, [3, 3], beam=2)


@pytest.mark.parametrize("beam", [1, 3])
@pytest.mark.parametrize(
    "bad", [[math.nan] * 6, [0, 0, 0, 0, math.nan, 0], [0, 0, 0, 0, math.inf, 0], [NEVER] * 6]
)
@pytest.mark.parametrize("step", [0, 2])
def test_output_that_is_no_number_is_an_error(beam: int, bad: list[float], step: int) -> None:
    model = Scripted(lambda s, t: bad if len(t) == step else [0, 0, -5, 0, 1, 2])
    with pytest.raises(MTError, match="not a number"):
        run(model, [[4], [5]], [8, 8], beam=beam)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64])
def test_log_softmax_is_float32_whatever_the_model_computes_in(dtype: torch.dtype) -> None:
    """8,000 equal logits: each log-probability is -log 8000, which bfloat16 would round by 0.01."""

    class Flat(TinyRecurrent):
        def step(self, tokens: Tensor, state: Any) -> tuple[Tensor, Any]:
            _, state = super().step(tokens % 8, state)
            return torch.zeros(len(tokens), 8000, dtype=dtype), state

    for beam in (1, 3):
        found = run(Flat(8, seed=0), [[4]], [4], beam=beam)
        assert found[0][0].log_prob / (
            len(found[0][0].tokens) + (not found[0][0].truncated)
        ) == pytest.approx(-math.log(8000), abs=1e-5)


@pytest.mark.parametrize(("columns", "count"), [(5, 5), (64, 3), (1000, 1), (1000, 3), (2111, 6), (8000, 6)])
def test_best_equals_topk(columns: int, count: int) -> None:
    values = torch.randn(9, columns, generator=torch.Generator().manual_seed(columns))
    values[2, ::3] = NEVER
    values[3] = NEVER
    values[4, columns - 1] = 99.0
    best, where = search_module._best(values, count)
    expected = values.topk(count, dim=1)
    assert torch.equal(best, expected.values)
    assert torch.equal(values.gather(1, where), best)
    assert all(len(set(row)) == count for row in where.tolist())


def test_repeats_are_found_like_by_hand() -> None:
    generator = torch.Generator().manual_seed(5)
    history = torch.randint(0, 3, (6, 9), generator=generator)
    for order, length in itertools.product((1, 2, 3, 4), range(10)):
        rows, tokens = search_module._repeats(history[:, :length], order)
        found = set(zip(rows.tolist(), tokens.tolist(), strict=True))
        expected = set()
        for row, line in enumerate(history[:, :length].tolist()):
            seen = {tuple(line[i : i + order]) for i in range(length - order + 1)}
            tail = line[length - order + 1 :] if order > 1 else []
            expected |= {(row, t) for t in range(3) if len(tail) == order - 1 and (*tail, t) in seen}
        assert found == expected
