"""Recurrent encoder–decoders with attention, and without: where attention began.

Every choice of `RnnConfig` goes with every other that makes sense: cell, score, scope, which state asks, what
is fed, readout. ``model=rnn_bahdanau`` is RNNsearch (Bahdanau et al. 2015), ``model=rnn_luong`` the models of
Luong et al. 2015; attention=none makes the encoder–decoders before them (Cho et al. 2014, Sutskever et al.
2014).

Not in here: the encoder (`mt.models.rnn_encoder`), one decoder step (`mt.models.rnn_decoder`), the cells
(`mt.models.rnn_cells`).

Shapes: B sentences, S source length, T target length, N real target positions, J hypotheses, V vocabulary,
m embedding size, D size of a source state, R readout size. Inside, steps come first: (T, B, …).
"""

from __future__ import annotations

import math
from typing import Any, cast

import torch
from torch import Tensor, nn

from mt.attention.scores import Additive
from mt.config.schema import AttentionConfig, Initialization, ModelConfig, TieEmbeddings
from mt.kernels.dropout import Dropout
from mt.kernels.linear import Linear
from mt.kernels.packing import RowIndex, rearrange
from mt.models.rnn_cells import Cell, Lstm
from mt.models.rnn_decoder import Decoded, DecoderState, RnnDecoder, Source
from mt.models.rnn_encoder import Encoded, RnnEncoder
from mt.models.seq2seq import Seq2Seq, State, output_layer


class Rnn(Seq2Seq):
    """Encoder, decoder, embeddings and output layer.

    Args:
        model: shape, choices and dropouts.
        attention: score, scope; the score between decoder and encoder is the only one there is.
        source_size, target_size: V of the two vocabularies; equal where all embeddings are tied.
    """

    def __init__(
        self, model: ModelConfig, attention: AttentionConfig, source_size: int, target_size: int
    ) -> None:
        super().__init__()
        self.max_positions = model.max_positions
        width = model.rnn.embedding_width or model.width
        self.source_embedding = nn.Embedding(source_size, width)
        if model.tie_embeddings is TieEmbeddings.all:
            self.target_embedding = self.source_embedding
        else:
            self.target_embedding = nn.Embedding(target_size, width)
        self.embedding_dropout = Dropout(model.dropout)
        self.encoder = RnnEncoder(model, width)
        self.decoder = RnnDecoder(model, attention, width, self.encoder.output_width, self.encoder.width)
        self.readout_dropout = Dropout(model.dropout)
        self.output = output_layer(model.tie_embeddings, self.target_embedding, self.decoder.readout_width)
        initialize(self, model.initialization)

    def forward(
        self, source: Tensor, source_mask: Tensor, target_input: Tensor, target_mask: Tensor
    ) -> Tensor:
        decoded = self._decode(source, source_mask, target_input)
        pick = _Picker(target_mask)
        from_embedding = None if decoded.from_embedding is None else pick(decoded.from_embedding)
        dropped: Tensor = self.readout_dropout(self.decoder.read(pick(decoded.rows), from_embedding))
        return dropped

    def encode(self, source: Tensor, source_mask: Tensor) -> Any:
        encoded = self._encode(source, source_mask)
        return {"states": encoded.states, "final": encoded.final}

    def init_state(self, memory: Any, memory_mask: Tensor) -> State:
        encoded = Encoded(memory["states"], memory["final"])
        return {
            "memory": self.decoder.prepare(encoded, memory_mask),
            "cache": self.decoder.first_state(encoded),
        }

    def step(self, tokens: Tensor, state: State) -> tuple[Tensor, State]:
        source, cache = cast(Source, state["memory"]), cast(DecoderState, state["cache"])
        embedded = self.embedding_dropout(self.target_embedding(tokens))
        rows, after = self.decoder.step(embedded, cache, source)
        return self.logits(self.readout_dropout(rows)), {"memory": source, "cache": after}

    @torch.no_grad()
    def cross_attention(self, source: Tensor, source_mask: Tensor, target_input: Tensor) -> Tensor:
        was_training = self.training
        self.eval()
        try:
            weights = self._decode(source, source_mask, target_input).weights
        finally:
            self.train(was_training)
        if weights is None:  # nothing is attended to
            return torch.zeros(
                len(source), 1, 1, target_input.shape[1], source.shape[1], device=source.device
            )
        return weights[:, None, None]

    def pass_attended(self, share: float, others: float) -> None:
        raise NotImplementedError("the states that a recurrent encoder is asked for are no embeddings")

    def _encode(self, source: Tensor, source_mask: Tensor) -> Encoded:
        embedded = self.embedding_dropout(self.source_embedding(source.t()))
        encoded: Encoded = self.encoder(embedded, source_mask)
        return encoded

    def _decode(self, source: Tensor, source_mask: Tensor, target_input: Tensor) -> Decoded:
        encoded = self._encode(source, source_mask)
        embedded = self.embedding_dropout(self.target_embedding(target_input.t()))
        decoded: Decoded = self.decoder(
            embedded, self.decoder.first_state(encoded), self.decoder.prepare(encoded, source_mask)
        )
        return decoded


class _Picker:
    """The rows of real positions, in the order of a (B, T) batch, out of (T, B, …)."""

    def __init__(self, mask: Tensor) -> None:
        batch, length = mask.shape
        places = mask.flatten().nonzero().squeeze(1)
        stepwise = (places % length) * batch + places // length
        back = torch.full((batch * length,), -1, dtype=torch.int64, device=mask.device)
        back[stepwise] = torch.arange(len(places), device=mask.device)
        self._there, self._back = RowIndex(stepwise), RowIndex(back)

    def __call__(self, x: Tensor) -> Tensor:
        """x (T, B, C) → (N, C)."""
        return rearrange(x.reshape(-1, x.shape[-1]), self._there, self._back)


def _readers_of_embeddings(model: Rnn) -> list[Linear]:
    """The matrices that are multiplied with embeddings: both sides' first layers, and maxout's V_o."""
    cells = [cell for first in (model.encoder.layers[0], model.decoder.layers[0]) for cell in first.modules()]
    readers = [cell.input for cell in cells if isinstance(cell, Cell)]
    of_readout = model.decoder.readout.embedding
    return readers if of_readout is None else [*readers, of_readout]


def initialize(model: Rnn, how: Initialization) -> None:
    """Set the weights of a new model (all biases are zero but for the LSTM's forget gate, see `random`).

    * random: embeddings ~ N(0, 1/m), matrices between states orthogonal, forget gates begin open (bias 1,
      Jozefowicz et al. 2015), all other matrices Xavier-uniform, those that read embeddings √m times that.
    * bahdanau2015 (App. B.1): matrices between states orthogonal, the alignment model's W_a, U_a ~
      N(0, 0.001²) and its v_a 0, all others ~ N(0, 0.01²). Matrices of other scores count as W_a.
    * luong2015 (§4.1): everything uniform in [-0.1, 0.1].
    """
    cells = [module for module in model.modules() if isinstance(module, Cell)]
    with torch.no_grad():
        if how is Initialization.luong2015:
            for parameter in model.parameters():
                parameter.uniform_(-0.1, 0.1)
            return
        if how is Initialization.bahdanau2015:
            for parameter in model.parameters():
                parameter.normal_(std=0.01) if parameter.ndim > 1 else parameter.zero_()
            for name, parameter in model.decoder.named_parameters():
                if name.startswith(("score.", "scope.")):
                    parameter.normal_(std=0.001)
            score = getattr(model.decoder, "score", None)
            if isinstance(score, Additive):
                score.vector.zero_()
        else:
            for embedding in (model.source_embedding, model.target_embedding):
                nn.init.normal_(embedding.weight, std=1.0 / math.sqrt(embedding.embedding_dim))
            # Else the first layers would hear next to nothing of vectors of length 1 (Multi30k, 600 updates:
            # perplexity 114 instead of 48 with luong_small, 49 instead of 29 with bahdanau_small).
            for reader in _readers_of_embeddings(model):
                reader.weight.mul_(math.sqrt(reader.weight.shape[1]))
            for cell in cells:
                if isinstance(cell, Lstm):
                    assert cell.input.bias is not None
                    cell.input.bias[cell.width : 2 * cell.width] = 1.0
        for cell in cells:
            for matrix in cell.recurrent_matrices():
                matrix.copy_(torch.linalg.qr(torch.randn(matrix.shape, device=matrix.device))[0])
