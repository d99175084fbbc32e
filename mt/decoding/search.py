"""Search for the best target sentences: greedy and beam search over any step-by-step decoder.

Contract: the search sees a model only through `Decoder`: a state for the sentences, and a step that
turns the last token of every hypothesis into logits and the next state (`mt.models.state` describes
its two parts). It never asks for the model's type. What comes back does not depend on the other
sentences of the batch.

Definitions:

* The *length* of a hypothesis is the number of symbols generated for it, the end symbol included.
* Its *score* is log P / lp(length) with lp(length) = ((5 + length) / 6) ** alpha (Wu et al. 2016,
  section 7, equation 14, without the coverage term). alpha = 0 is plain log-probability.
* A sentence may have `max_lengths` symbols. A hypothesis of that length without an end symbol is
  *truncated*; it competes by its score like any other.

Legend: B sentences, K hypotheses per sentence, N = B x K, V vocabulary, t symbols generated so far.

Not in here: text, tokenizers, batches of lines (`mt.decoding.translator`).
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

import torch
from torch import Tensor

from mt.config.schema import DecodingConfig
from mt.errors import MTError
from mt.models.state import State, Tree, reorder, select

_BLOCK = 64
"""Columns per block in `_best`; measured best among 16 to 128 for 8,000 columns on a CPU."""


class Decoder(Protocol):
    """What the search needs of a model."""

    def init_state(self, memory: Tree, memory_mask: Tensor) -> State:
        """The state before the first token of B sentences: memory a tree, axis 0 = sentences, mask (B, S)."""
        ...

    def step(self, tokens: Tensor, state: State) -> tuple[Tensor, State]:
        """Logits (N, V) after reading `tokens` (N,), and the next state.

        N is a multiple of the sentences in ``state["memory"]``. The state given is used up: it may
        share memory with the one returned.
        """
        ...


@dataclass(frozen=True)
class Hypothesis:
    """One candidate translation.

    Attributes:
        tokens: symbols without begin and end.
        score: log-probability divided by the length penalty; what hypotheses are sorted by.
        log_prob: natural logarithm of the model's probability, the end symbol included unless truncated.
        truncated: it reached the longest length allowed without an end symbol.
    """

    tokens: list[int]
    score: float
    log_prob: float
    truncated: bool = False


def length_penalty(length: int, alpha: float) -> float:
    """lp(length) = ((5 + length) / 6) ** alpha."""
    return float(((5.0 + length) / 6.0) ** alpha)


@torch.inference_mode()
def search(
    model: Decoder,
    memory: Tree,
    memory_mask: Tensor,
    *,
    options: DecodingConfig,
    max_lengths: Tensor | Sequence[int],
    bos: int,
    eos: int,
    pad: int,
) -> list[list[Hypothesis]]:
    """The best hypotheses of every sentence, best first: greedy for ``options.beam`` 1, else beam search.

    Beam search keeps the K best unfinished hypotheses. A hypothesis is finished when its end symbol is
    among the K best continuations of its sentence. A sentence leaves the batch as soon as no
    unfinished hypothesis can still enter its ``options.n_best``: log-probabilities only fall and lp
    only grows, so log P / lp(longest length allowed) bounds every score it can reach.

    `pad` and `bos` are never produced. With ``options.no_repeat_ngram`` n, no n symbols in a row occur
    twice; a hypothesis that has nothing left is closed with the end symbol, at no cost if the
    model gives that no probability either.

    Args:
        model: the decoder.
        memory: the encoded sentences, a tree of tensors with axis 0 = sentences; B may be 0.
        memory_mask: (B, S) bool, True at real positions.
        options: beam, n_best, length_penalty and no_repeat_ngram are read.
        max_lengths: (B,) most symbols to generate for each sentence, the end symbol included.
        bos, eos, pad: ids of the special symbols.

    Returns:
        For each sentence between 1 and ``min(n_best, beam)`` hypotheses, sorted by score, all different.

    Raises:
        ValueError: max_lengths does not fit the batch.
        MTError: the model's output holds NaN, +inf or nothing but -inf.
    """
    limits = [
        int(limit) for limit in (max_lengths.tolist() if isinstance(max_lengths, Tensor) else max_lengths)
    ]
    if len(limits) != memory_mask.shape[0]:
        raise ValueError(f"{len(limits)} maximum lengths for {memory_mask.shape[0]} sentences")
    results: list[list[Hypothesis]] = [[Hypothesis([], 0.0, 0.0, truncated=True)] for _ in limits]
    sentences = [row for row, limit in enumerate(limits) if limit >= 1]
    if not sentences:
        return results
    if len(sentences) < len(limits):
        index = torch.tensor(sentences, device=memory_mask.device)
        memory, memory_mask = reorder(memory, index), memory_mask.index_select(0, index)
        limits = [limits[row] for row in sentences]
    state = model.init_state(memory, memory_mask)
    symbols = _Symbols(bos, eos, pad)
    run = _greedy if options.beam == 1 else _beam
    for row, hypotheses in zip(
        sentences, run(model, state, options, limits, symbols, memory_mask.device), strict=True
    ):
        results[row] = hypotheses
    return results


@dataclass(frozen=True)
class _Symbols:
    bos: int
    eos: int
    pad: int


def _greedy(
    model: Decoder,
    state: State,
    options: DecodingConfig,
    limits: list[int],
    symbols: _Symbols,
    device: torch.device,
) -> list[list[Hypothesis]]:
    """The likeliest symbol at every step; `limits` are the B longest lengths (all >= 1)."""
    results: list[list[Hypothesis]] = [[] for _ in limits]
    sentences = torch.arange(len(limits), device=device)
    limit = torch.tensor(limits, device=device)
    log_prob = torch.zeros(len(limits), device=device)
    history = torch.empty((len(limits), 0), dtype=torch.long, device=device)
    tokens = torch.full((len(limits),), symbols.bos, device=device)
    length = 0
    while len(sentences):
        logits, state = model.step(tokens, state)
        log_probs = _allowed_log_probs(logits, history, symbols, options.no_repeat_ngram)
        best, tokens = (column.squeeze(1) for column in _best(log_probs, 1))
        stuck = best == -torch.inf
        tokens = tokens.masked_fill(stuck, symbols.eos)
        log_prob = log_prob + best.masked_fill(stuck, 0.0)
        length += 1
        ended = tokens == symbols.eos
        done = ended | (limit <= length)
        history = torch.cat([history, tokens.unsqueeze(1)], dim=1)
        rows = done.nonzero().squeeze(1)
        if not len(rows):
            continue
        for sentence, line, total, complete in zip(
            sentences[rows].tolist(),
            history[rows].tolist(),
            log_prob[rows].tolist(),
            ended[rows].tolist(),
            strict=True,
        ):
            score = total / length_penalty(length, options.length_penalty)
            results[sentence] = [
                Hypothesis(line[:-1] if complete else line, score, total, truncated=not complete)
            ]
        rows = done.logical_not().nonzero().squeeze(1)
        sentences, limit, log_prob, history, tokens = (
            part.index_select(0, rows) for part in (sentences, limit, log_prob, history, tokens)
        )
        if len(rows):
            state = select(state, sentences=rows, hypotheses=rows)
    return results


@dataclass
class _Kept:
    """The best finished hypotheses of one sentence, best first, at most `size`."""

    size: int
    hypotheses: list[Hypothesis] = field(default_factory=list)

    @property
    def bar(self) -> float:
        """What a score must exceed to get in."""
        return self.hypotheses[-1].score if len(self.hypotheses) == self.size else -torch.inf

    def add(self, hypothesis: Hypothesis) -> None:
        if hypothesis.score > self.bar:
            insort(self.hypotheses, hypothesis, key=lambda kept: -kept.score)
            del self.hypotheses[self.size :]


def _beam(
    model: Decoder,
    state: State,
    options: DecodingConfig,
    limits: list[int],
    symbols: _Symbols,
    device: torch.device,
) -> list[list[Hypothesis]]:
    """Beam search; `limits` are the B longest lengths (all >= 1)."""
    beam, alpha = options.beam, options.length_penalty
    kept = [_Kept(min(options.n_best, beam)) for _ in limits]
    sentences = list(range(len(limits)))  # which of `kept` the rows below belong to
    limit = torch.tensor(limits, device=device)
    longest_penalty = torch.tensor([length_penalty(longest, alpha) for longest in limits], device=device)
    bar = torch.full((len(limits),), -torch.inf, device=device)
    # All hypotheses of a sentence start alike, so the first step runs one per sentence.
    width = 1
    scores = torch.zeros((len(limits), width), device=device)  # log P; -inf marks a place that is not in use
    history = torch.empty((len(limits), 0), dtype=torch.long, device=device)
    tokens = torch.full((len(limits),), symbols.bos, device=device)
    length = 0
    while True:
        logits, state = model.step(tokens, state)
        log_probs = _allowed_log_probs(logits, history, symbols, options.no_repeat_ngram)
        length += 1
        penalty = length_penalty(length, alpha)

        # Of one hypothesis at most `beam` continuations and its end can matter; of a sentence at most
        # `beam` ends and `beam` continuations.
        per_row = min(beam + 1, log_probs.shape[1])
        values, symbols_of_row = _best(log_probs, per_row)
        batch = len(sentences)
        candidates = (values.view(batch, width, per_row) + scores.unsqueeze(2)).view(batch, width * per_row)
        top, place = candidates.topk(min(2 * beam, width * per_row), dim=1)
        parent = place.div(per_row, rounding_mode="floor")  # (B, <=2K) hypothesis within the sentence
        token = symbols_of_row.view(batch, width * per_row).gather(1, place)
        ends = token == symbols.eos
        first_row = torch.arange(batch, device=device).unsqueeze(1) * width

        stuck = ((top[:, :1] == -torch.inf) & (scores > -torch.inf)).nonzero()
        if len(stuck):  # nothing may follow: closed as they are, unless better ones were finished before
            row, column = stuck.unbind(1)
            open_rows = [
                index for index, each in enumerate(row.tolist()) if not kept[sentences[each]].hypotheses
            ]
            row, column = row[open_rows], column[open_rows]
            lines = history.index_select(0, row * width + column)
            _keep(kept, sentences, row, lines, scores[row, column], penalty, truncated=False)

        # Finished hypotheses that are good enough to be kept.
        finished = ends[:, :beam] & (top[:, :beam] > bar.unsqueeze(1) * penalty)
        found = finished.nonzero()
        if len(found):
            row, column = found.unbind(1)
            lines = history.index_select(0, (first_row + parent)[row, column])
            _keep(kept, sentences, row, lines, top[row, column], penalty, truncated=False)

        # The best unfinished ones.
        scores, chosen = top.masked_fill(ends, -torch.inf).topk(min(beam, top.shape[1]), dim=1)
        parent, tokens = parent.gather(1, chosen), token.gather(1, chosen)
        order = first_row + parent  # (B, K) rows of the step before
        at_limit = limit <= length
        cut = at_limit.unsqueeze(1) & (scores > -torch.inf)
        rows = cut.nonzero()
        if len(rows):
            row, column = rows.unbind(1)
            lines = torch.cat(
                [history.index_select(0, order[row, column]), tokens[row, column].unsqueeze(1)], dim=1
            )
            _keep(kept, sentences, row, lines, scores[row, column], penalty, truncated=True)

        if len(found) or len(rows):
            bar = torch.tensor([kept[sentence].bar for sentence in sentences], device=device)
        done = at_limit | (scores[:, 0] / longest_penalty <= bar) | (scores[:, 0] == -torch.inf)
        history = torch.cat([history.index_select(0, order.flatten()), tokens.view(-1, 1)], dim=1)
        survivors = done.logical_not().nonzero().squeeze(1)
        if len(survivors) < batch:
            if not len(survivors):
                break
            sentences = [sentences[row] for row in survivors.tolist()]
            limit, longest_penalty, bar, scores, tokens, order = (
                part.index_select(0, survivors)
                for part in (limit, longest_penalty, bar, scores, tokens, order)
            )
            history = history.view(batch, -1, length).index_select(0, survivors).flatten(0, 1)
            state = select(state, sentences=survivors, hypotheses=order.flatten())
        elif scores.shape[1] != width or not torch.equal(
            order.flatten(), torch.arange(batch * width, device=device)
        ):
            state = select(state, hypotheses=order.flatten())
        width = scores.shape[1]
        tokens = tokens.flatten()
    return [each.hypotheses for each in kept]


def _keep(
    kept: list[_Kept],
    sentences: list[int],
    rows: Tensor,
    lines: Tensor,
    log_probs: Tensor,
    penalty: float,
    *,
    truncated: bool,
) -> None:
    """Enters M hypotheses: `rows` (M,) of `sentences`, symbols `lines` (M, t), `log_probs` (M,)."""
    for row, line, log_prob in zip(rows.tolist(), lines.tolist(), log_probs.tolist(), strict=True):
        kept[sentences[row]].add(Hypothesis(line, log_prob / penalty, log_prob, truncated))


def _allowed_log_probs(logits: Tensor, history: Tensor, symbols: _Symbols, no_repeat_ngram: int) -> Tensor:
    """float32 log-probabilities (N, V) of `logits` (N, V), with -inf at symbols that may not come next.

    The probabilities are those of the whole vocabulary: what is forbidden is not shared out.
    """
    log_probs = torch.log_softmax(logits, dim=-1, dtype=torch.float32)
    # One NaN or +inf in a row, or -inf all over it, makes every log-probability of the row NaN.
    if torch.isnan(log_probs[:, symbols.eos]).any():
        raise MTError(
            "the model's output is not a number (NaN or infinite): its weights are damaged, or training "
            "diverged; use an earlier checkpoint (checkpoint=DIR), or train with a lower optimizer.lr"
        )
    log_probs[:, symbols.pad] = -torch.inf
    log_probs[:, symbols.bos] = -torch.inf
    if no_repeat_ngram:
        rows, tokens = _repeats(history, no_repeat_ngram)
        log_probs[rows, tokens] = -torch.inf
    return log_probs


def _repeats(history: Tensor, order: int) -> tuple[Tensor, Tensor]:
    """Rows and symbols that would complete an n-gram of `order` already present in `history` (N, t)."""
    rows, length = history.shape
    if length < order:
        empty = history.new_empty(0)
        return empty, empty
    if order == 1:
        return torch.arange(rows, device=history.device).repeat_interleave(length), history.flatten()
    starts = history.unfold(1, order - 1, 1)  # (N, t - order + 2, order - 1)
    match = (starts[:, :-1] == starts[:, -1:]).all(dim=2)  # (N, t - order + 1)
    row, place = match.nonzero().unbind(1)
    return row, history[row, place + order - 1]


def _best(values: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """The `count` largest of each row of `values` (N, V), sorted, and their columns: (N, count) each.

    Equal to ``values.topk(count)`` up to ties, in under half the time for thousands of columns on a CPU: the
    largest values lie in the blocks with the largest maxima, and block maxima are cheap.
    """
    rows, columns = values.shape
    blocks = columns // _BLOCK
    if blocks <= 4 * count:
        return values.topk(count, dim=1)
    whole = blocks * _BLOCK
    maxima = values[:, :whole].view(rows, blocks, _BLOCK).amax(dim=2)
    chosen = maxima.topk(count, dim=1, sorted=False).indices
    offsets = torch.arange(_BLOCK, device=values.device)
    where = (chosen.unsqueeze(2) * _BLOCK + offsets).view(rows, count * _BLOCK)
    if whole < columns:
        rest = torch.arange(whole, columns, device=values.device).expand(rows, -1)
        where = torch.cat([where, rest], dim=1)
    best, index = values.gather(1, where).topk(count, dim=1)
    return best, where.gather(1, index)
