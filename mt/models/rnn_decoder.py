"""The recurrent decoder: cells, attention and readout, for a whole target or step by step.

One position t reads the last piece y_{t-1} and gives the vector r_t that the output layer turns into logits:

1. with ``query=previous`` the state s_{t-1} asks for the context c_t;
2. the cells go on: s_t = cell(E y_{t-1} [, c_t or r_{t-1}], s_{t-1}), see ``feed``;
3. with ``query=current`` the state s_t asks for c_t;
4. the readout makes r_t of c_t, of s_t or s_{t-1}, and for maxout of E y_{t-1}.

``feed`` says what enters the gates of the lowest layer besides the embedding: nothing; the context
(Bahdanau et al. 2015, App. A.2.2); or the readout before (input feeding, Luong et al. 2015, §3.3), which
begins as zeros. Several layers are stacked, and the top state asks and is read.

Without attention there is no context, and all that the decoder knows of the source is its first state
(Sutskever et al. 2014); with ``feed=context_in_gates`` the encoder's last state is a context that stays the
same, in gates and readout (Cho et al. 2014, §2.2).

What a step need not wait for runs for all steps at once: gates of the embeddings, the readout (unless it is
fed back), and with ``feed=none`` the whole attention.

Shapes: B sentences, J hypotheses (a multiple of B, those of a sentence together), T target length, S source
length, m embedding size, n state size, D size of a source state, R readout size.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor, nn

from mt.attention.attend import attention_weights
from mt.attention.scopes import build_scope
from mt.attention.scores import build_score
from mt.config.schema import (
    AttentionConfig,
    Feed,
    ModelConfig,
    Readout,
    ScoreKind,
    Start,
    StateIndex,
)
from mt.kernels.dropout import Dropout
from mt.kernels.linear import Linear
from mt.kernels.steps import StepMatrix
from mt.models.rnn_cells import CELLS, Cell, CellState, Unrolled, step_matrix
from mt.models.rnn_encoder import Encoded


class Source(NamedTuple):
    """The source as the decoder uses it, made once per sentence; a tree of tensors, axis 0 = sentences.

    Attributes:
        keys: prepared keys (B, 1, S, any size), None without attention.
        values: (B, 1, S, D), None without attention.
        mask: (B, 1, 1, S) bool, None without attention.
        context: (B, D), the context that stays the same; None unless there is one.
    """

    keys: Tensor | None
    values: Tensor | None
    mask: Tensor | None
    context: Tensor | None


class DecoderState(NamedTuple):
    """What a hypothesis carries on; a tree of tensors, axis 0 = hypotheses.

    Attributes:
        layers: the state of each layer, from the lowest.
        fed: r_{t-1} (J, R), None unless it is fed back.
        position: (J,) t, from 0.
    """

    layers: tuple[CellState, ...]
    fed: Tensor | None
    position: Tensor


class Decoded(NamedTuple):
    """What a whole target gave, steps first; `RnnDecoder.read` turns real rows of it into readouts.

    Attributes:
        rows: with input feeding r (T, B, R), else what the readout mixes, [c; s] (T, B, D + n).
        from_embedding: what maxout adds, (T, B, 2R); None where it is not needed any more.
        weights: (B, T, S); None without attention.
    """

    rows: Tensor
    from_embedding: Tensor | None
    weights: Tensor | None


class Step(NamedTuple):
    """What one position gave.

    Attributes:
        state: the state after; its `fed` is left to the caller.
        mixed: [c; s] (J, D + n), what the readout mixes.
        weights: (J, S); None without attention.
    """

    state: DecoderState
    mixed: Tensor
    weights: Tensor | None


class ReadoutLayer(nn.Module):
    """From state, context and last piece to what the output layer reads.

    * maxout: ``r_k = max(t_{2k-1}, t_{2k})``, ``t = U_o s + V_o E y + C_o c + b`` (Bahdanau et al. 2015,
      App. A.2.2; Goodfellow et al. 2013);
    * tanh: ``r = tanh(W_c [c; s])`` (Luong et al. 2015, Eq. 5);
    * linear: ``r = W [c; s]``.

    Args:
        kind: which of them.
        state, context, embedding, width: n, D (0 = no context), m and R.
    """

    def __init__(self, kind: Readout, state: int, context: int, embedding: int, width: int) -> None:
        super().__init__()
        self.kind = kind
        maxout = kind is Readout.maxout
        outputs = 2 * width if maxout else width
        self.mix = Linear(context + state, outputs, bias=False)  # [C_o U_o] or W_c
        self.embedding = Linear(embedding, outputs) if maxout else None  # V_o, and the bias of t

    def of_embedding(self, embedded: Tensor) -> Tensor | None:
        """V_o E y + b (..., 2R), for all steps at once; None unless maxout."""
        return None if self.embedding is None else self.embedding(embedded)

    def forward(self, product: Tensor, from_embedding: Tensor | None) -> Tensor:
        """The product of `mix` with [c; s], and what `of_embedding` gave → r (..., R)."""
        if self.kind is Readout.maxout:
            assert from_embedding is not None
            pairs = (product + from_embedding).view(*product.shape[:-1], -1, 2)
            return pairs.amax(-1)
        return product.tanh() if self.kind is Readout.tanh else product


class RnnDecoder(nn.Module):
    """Everything between the target's embeddings and the output layer.

    Args:
        config, attention: sizes and choices.
        embedding: m.
        memory: D.
        encoder_width: n of one direction of the encoder.
    """

    def __init__(
        self, config: ModelConfig, attention: AttentionConfig, embedding: int, memory: int, encoder_width: int
    ) -> None:
        super().__init__()
        rnn = config.rnn
        self.width, self.readout_width = config.width, rnn.readout_width or config.width
        self.query, self.feed, self.seen = rnn.query, rnn.feed, rnn.readout_state
        self.attention_dropout = config.attention_dropout
        kind = attention.cross or attention.score
        self.attends = kind is not ScoreKind.none
        in_gates = rnn.feed is Feed.context_in_gates
        self.context_width = memory if self.attends or in_gates else 0
        if self.attends:
            hidden = attention.hidden or config.width
            self.score = build_score(
                kind, 1, config.width, memory, hidden=hidden, max_positions=config.max_positions
            )
            self.scope = build_scope(attention.scope, 1, config.width, attention.window)
        extra = self.readout_width if rnn.feed is Feed.input_feeding else self.context_width * in_gates
        sizes = [(embedding, extra)] + [(config.width, 0)] * (config.decoder_layers - 1)
        self.layers = nn.ModuleList(CELLS[rnn.cell](size, config.width, more) for size, more in sizes)
        self.readout = ReadoutLayer(
            rnn.readout, config.width, self.context_width, embedding, self.readout_width
        )
        self.dropout = Dropout(config.dropout)
        # W_s: of the backward direction, which ends at the first word, or of the only one.
        self.encoder_width = encoder_width
        state_parts = self._cell(0).state_parts
        self.start = (
            Linear(encoder_width, state_parts * config.decoder_layers * config.width)
            if rnn.start is Start.project
            else None
        )

    # --- once per sentence ---

    def prepare(self, encoded: Encoded, mask: Tensor) -> Source:
        """mask (B, S) bool."""
        context = encoded.final[-1][0] if self.context_width and not self.attends else None
        if not self.attends:
            return Source(None, None, None, context)
        states = encoded.states[:, None]
        return Source(self.score.prepare_keys(states), states, mask[:, None, None, :], context)

    def first_state(self, encoded: Encoded) -> DecoderState:
        """The state before the first piece of each sentence.

        ``project``: tanh(W h) for every layer (and for the c of an LSTM), h the last state of the encoder's
        top layer, of the backward direction if there are two (Bahdanau et al. 2015, App. A.2.2).
        ``copy``: each layer begins as the encoder's layer ended (Sutskever et al. 2014).
        """
        if self.start is None:
            layers = tuple(encoded.final)
        else:
            parts = self._cell(0).state_parts
            vectors = (
                self.start(encoded.final[-1][0][:, -self.encoder_width :]).tanh().split(self.width, dim=1)
            )
            layers = tuple(vectors[i : i + parts] for i in range(0, len(vectors), parts))
        hidden = layers[0][0]
        fed = hidden.new_zeros(len(hidden), self.readout_width) if self.feed is Feed.input_feeding else None
        return DecoderState(layers, fed, torch.zeros(len(hidden), dtype=torch.int64, device=hidden.device))

    # --- a whole target ---

    def forward(self, embedded: Tensor, state: DecoderState, source: Source) -> Decoded:
        """Teacher-forced: E y_0 … E y_{T-1}, steps first (T, B, m), from the state before the first."""
        if self.feed is Feed.none:
            return self._at_once(embedded, state, source)
        pass_ = _Pass(self, source)
        from_embedding = self.readout.of_embedding(embedded)
        gates = self._cell(0).input_gates(embedded).unbind(0)
        per_step = [None] * len(gates) if from_embedding is None else from_embedding.unbind(0)
        rows, weights = [], []
        feeds = self.feed is Feed.input_feeding
        for step_gates, step_embedding in zip(gates, per_step, strict=True):
            step = pass_.step(step_gates, state)
            state, row = step.state, step.mixed
            if feeds:
                row = self.readout(pass_.mix(row), step_embedding)
                state = state._replace(fed=row)
            rows.append(row)
            if step.weights is not None:
                weights.append(step.weights)
        return Decoded(
            torch.stack(rows), None if feeds else from_embedding, torch.stack(weights, 1) if weights else None
        )

    def _at_once(self, embedded: Tensor, state: DecoderState, source: Source) -> Decoded:
        """`forward` where nothing is fed back: layer by layer over all steps, then one attention."""
        x = embedded
        before = x
        for number in range(len(self.layers)):
            if number:
                x = self.dropout(x)
            first = state.layers[number]
            x, _ = self._cell(number).run(x, first)
            before = torch.cat((first[0][None], x[:-1]))
        context = weights = None
        if self.attends:
            asking = before if self.query is StateIndex.previous else x
            places = torch.arange(len(x), device=x.device)
            assert source.keys is not None and source.values is not None and source.mask is not None
            query = asking.transpose(0, 1)[:, None]
            used, weights = self.weights(query, places, self.score(query, source.keys), source.mask)
            context, weights = (used @ source.values)[:, 0].transpose(0, 1), weights[:, 0]
        seen = before if self.seen is StateIndex.previous else x
        return Decoded(joined(seen, context), self.readout.of_embedding(embedded), weights)

    def read(self, rows: Tensor, from_embedding: Tensor | None) -> Tensor:
        """Rows of `Decoded.rows` (N, …) and of `Decoded.from_embedding` → r (N, R)."""
        if self.feed is Feed.input_feeding:
            return rows
        out: Tensor = self.readout(self.readout.mix(rows), from_embedding)
        return out

    # --- one step ---

    def step(self, embedded: Tensor, state: DecoderState, source: Source) -> tuple[Tensor, DecoderState]:
        """embedded (J, m) → r (J, R) and the next state."""
        step = _Pass(self, source).step(self._cell(0).input_gates(embedded), state)
        rows = self.readout(self.readout.mix(step.mixed), self.readout.of_embedding(embedded))
        fed = rows if self.feed is Feed.input_feeding else None
        return rows, step.state._replace(fed=fed)

    def weights(
        self, query: Tensor, positions: Tensor, scores: Tensor, mask: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Scores (B, 1, T, S) of query (B, 1, T, n) at positions (T,) or (B, T) → `attention_weights`."""
        reach, factor = self.scope(query, positions, mask)
        probability = self.attention_dropout if self.training else 0.0
        return attention_weights(scores, reach, factor=factor, dropout_probability=probability)

    def _cell(self, number: int) -> Cell:
        cell = self.layers[number]
        assert isinstance(cell, Cell)
        return cell


class _Pass:
    """The decoder during one pass: its matrices laid out once, the steps in `step`."""

    def __init__(self, decoder: RnnDecoder, source: Source) -> None:
        self.decoder, self.source = decoder, source
        self.cells: list[Unrolled] = [decoder._cell(i).unroll() for i in range(len(decoder.layers))]
        self.mix = step_matrix(decoder.readout.mix)
        self._values = None if source.values is None else StepMatrix(source.values)
        self._scores = None if source.keys is None else self._scoring(source.keys)

    def _scoring(self, keys: Tensor) -> Callable[[Tensor], Tensor]:
        """query (B, 1, T, n) → scores (B, 1, T, S); a dot product is a matrix applied at every step."""
        score = self.decoder.score
        scale = score.scale
        if scale is None:
            return lambda query: score(query, keys)
        matrix = StepMatrix(keys.transpose(-1, -2))
        return lambda query: matrix(query if scale == 1.0 else query * scale)

    def step(self, gates: Tensor, state: DecoderState) -> Step:
        """One position: gates (J, G) of the lowest layer for the last pieces."""
        decoder = self.decoder
        before = state.layers[-1][0]
        context = weights = None
        if decoder.query is StateIndex.previous:
            context, weights = self._attend(before, state.position)
        extra = {Feed.context_in_gates: context, Feed.input_feeding: state.fed, Feed.none: None}[decoder.feed]
        layers: list[CellState] = []
        for number, (cell, past) in enumerate(zip(self.cells, state.layers, strict=True)):
            if number:
                gates = cell.gates(decoder.dropout(layers[-1][0]))
            layers.append(cell.step(gates, past, None if number else extra))
        after = layers[-1][0]
        if decoder.query is StateIndex.current:
            context, weights = self._attend(after, state.position)
        seen = before if decoder.seen is StateIndex.previous else after
        return Step(DecoderState(tuple(layers), None, state.position + 1), joined(seen, context), weights)

    def _attend(self, query: Tensor, position: Tensor) -> tuple[Tensor | None, Tensor | None]:
        """query (J, n) at position (J,) → context (J, D), weights (J, S).

        The hypotheses of one sentence are the queries of one product, so that the sentence's keys and
        values are never copied over the beam.
        """
        source = self.source
        if self._scores is None or self._values is None or source.mask is None:
            beam = 1 if source.context is None else len(query) // len(source.context)
            fixed = source.context
            return (None if fixed is None else fixed.repeat_interleave(beam, dim=0)), None
        batch = len(source.mask)
        asked = query.view(batch, 1, -1, query.shape[-1])
        used, weights = self.decoder.weights(
            asked, position.view(batch, -1), self._scores(asked), source.mask
        )
        return self._values(used).flatten(0, 2), weights.flatten(0, 2)


def joined(seen: Tensor, context: Tensor | None) -> Tensor:
    """[c; s], what `ReadoutLayer.mix` reads."""
    return seen if context is None else torch.cat((context, seen), dim=-1)
