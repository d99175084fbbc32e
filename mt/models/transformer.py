"""The Transformer encoder–decoder (Vaswani et al. 2017), pre- or post-norm, over any attention score.

Where it departs from the paper: layer normalization may stand before each sublayer (``norm=pre``, then
once more after the last layer; Xiong et al. 2020), which trains without a long warm-up; attention
weights and feed-forward activations have dropouts of their own. The layers work on packed rows (see
`mt.kernels.packing`).

Shapes: B sentences, S source length, T target length, N real positions, D width, V vocabulary,
H heads, K = D/H, J hypotheses.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import nullcontext
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from mt.attention.multihead import CrossAttention, KeysValues, Rotation, SelfAttention
from mt.attention.scopes import build_scope
from mt.attention.scores import Score, build_score
from mt.config.schema import Activation, AttentionConfig, ModelConfig, Norm, ScoreKind, TieEmbeddings
from mt.kernels.dropout import Dropout
from mt.kernels.feed_forward import feed_forward
from mt.kernels.linear import Columns, Linear, is_cpu_fp32
from mt.kernels.packing import Packing
from mt.kernels.randomness import apart
from mt.models.positions import PositionEncoding
from mt.models.seq2seq import Seq2Seq, State, output_layer


class FeedForward(nn.Module):
    """``W_2 act(W_1 x + b_1) + b_2`` (Vaswani et al. 2017, Eq. 2)."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        # A width that was matched to a number of parameters must not change the values of other layers.
        with apart() if config.match_parameters is not None else nullcontext():
            self.inner = Linear(config.width, config.ffn_width)
            self.outer = Linear(config.ffn_width, config.width)
        self.activation = F.relu if config.activation is Activation.relu else F.gelu
        self.dropout = Dropout(config.activation_dropout)

    def forward(self, rows: Tensor) -> Tensor:
        """(N, D) → (N, D)."""
        dropped = self.dropout.probability > 0.0 and self.training
        if self.activation is F.relu and not dropped and self.inner.low_precision and is_cpu_fp32(rows):
            return feed_forward(rows, self.inner, self.outer)
        out: Tensor = self.outer(self.dropout(self.activation(self.inner(rows))))
        return out


class Sublayer(nn.Module):
    """The frame around attention and feed-forward: normalization, residual and dropout.

    ``pre``: x + dropout(f(norm(x))); ``post``: norm(x + dropout(f(x))).
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.pre = config.norm is Norm.pre
        self.norm = nn.LayerNorm(config.width)
        self.dropout = Dropout(config.dropout)

    def enter(self, x: Tensor) -> Tensor:
        """What the branch reads."""
        return self.norm(x) if self.pre else x

    def leave(self, x: Tensor, branch: Tensor) -> Tensor:
        """The branch joined to its residual."""
        total = self.dropout.add(x, branch)
        return total if self.pre else self.norm(total)


class EncoderLayer(nn.Module):
    """Self-attention, then feed-forward."""

    def __init__(self, config: ModelConfig, attention: AttentionConfig) -> None:
        super().__init__()
        score = _score(attention.encoder or attention.score, config, attention)
        self.attention = SelfAttention(config.width, score, config.attention_dropout, attention.heads)
        self.attention_frame = Sublayer(config)
        self.feed_forward = FeedForward(config)
        self.feed_forward_frame = Sublayer(config)

    def forward(self, x: Tensor, packing: Packing, mask: Tensor, rotation: Rotation | None) -> Tensor:
        """x (N, D), mask (B, 1, 1, S) → (N, D)."""
        branch = self.attention(self.attention_frame.enter(x), packing, mask, rotation)
        x = self.attention_frame.leave(x, branch)
        return self.feed_forward_frame.leave(x, self.feed_forward(self.feed_forward_frame.enter(x)))


class DecoderLayer(nn.Module):
    """Masked self-attention, cross-attention, then feed-forward."""

    def __init__(self, config: ModelConfig, attention: AttentionConfig) -> None:
        super().__init__()
        score = _score(attention.decoder or attention.score, config, attention)
        self.attention = SelfAttention(config.width, score, config.attention_dropout, attention.heads)
        self.attention_frame = Sublayer(config)
        score = _score(attention.cross or attention.score, config, attention)
        scope = build_scope(attention.scope, score.heads, score.query_size, attention.window)
        self.cross = CrossAttention(config.width, score, config.attention_dropout, scope, attention.heads)
        self.cross_frame = Sublayer(config)
        self.feed_forward = FeedForward(config)
        self.feed_forward_frame = Sublayer(config)

    def forward(
        self,
        x: Tensor,
        packing: Packing,
        mask: Tensor,
        rotation: Rotation | None,
        memory: Tensor,
        source_packing: Packing,
        with_weights: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        """x (N, D), mask (1, 1, T, T), memory (rows of the source, D) → (N, D), weights (B, H, T, S)."""
        prepared = self.cross.prepare(memory, source_packing)
        memory_mask = source_packing.mask[:, None, None, :]
        branch = self.attention(self.attention_frame.enter(x), packing, mask, rotation)
        x = self.attention_frame.leave(x, branch)
        branch, weights = self.cross(self.cross_frame.enter(x), packing, prepared, memory_mask, with_weights)
        x = self.cross_frame.leave(x, branch)
        x = self.feed_forward_frame.leave(x, self.feed_forward(self.feed_forward_frame.enter(x)))
        return x, weights

    def step(
        self,
        x: Tensor,
        positions: Tensor,
        past: KeysValues,
        rotation: Rotation | None,
        memory: KeysValues,
        memory_mask: Tensor,
    ) -> tuple[Tensor, KeysValues]:
        """The same for one position per hypothesis: x (J, D) at positions (J,) → (J, D)."""
        branch, past = self.attention.step(self.attention_frame.enter(x), past, rotation)
        x = self.attention_frame.leave(x, branch)
        branch = self.cross.step(self.cross_frame.enter(x), memory, memory_mask, positions)
        x = self.cross_frame.leave(x, branch)
        x = self.feed_forward_frame.leave(x, self.feed_forward(self.feed_forward_frame.enter(x)))
        return x, past


class Transformer(Seq2Seq):
    """Encoder, decoder, embeddings and output layer.

    Args:
        model: shape and dropouts.
        attention: which score stands where.
        source_size, target_size: V of the two vocabularies; equal where all embeddings are tied.
    """

    def __init__(
        self, model: ModelConfig, attention: AttentionConfig, source_size: int, target_size: int
    ) -> None:
        super().__init__()
        self.max_positions = model.max_positions
        self.heads = model.heads
        self.width = model.width
        self.source_embedding = _embedding(source_size, model.width)
        if model.tie_embeddings is TieEmbeddings.all:
            self.target_embedding = self.source_embedding
        else:
            self.target_embedding = _embedding(target_size, model.width)
        self.output = output_layer(model.tie_embeddings, self.target_embedding, model.width)
        self._columns: Columns | None = None
        self.positions = PositionEncoding(
            model.positions, model.max_positions, model.width, model.width // model.heads
        )
        self.embedding_dropout = Dropout(model.dropout)
        self.encoder = nn.ModuleList(EncoderLayer(model, attention) for _ in range(model.encoder_layers))
        self.decoder = nn.ModuleList(DecoderLayer(model, attention) for _ in range(model.decoder_layers))
        pre = model.norm is Norm.pre
        self.encoder_norm = nn.LayerNorm(model.width) if pre else nn.Identity()
        self.decoder_norm = nn.LayerNorm(model.width) if pre else nn.Identity()

    def forward(
        self, source: Tensor, source_mask: Tensor, target_input: Tensor, target_mask: Tensor
    ) -> Tensor:
        memory, source_packing = self._encode(source, source_mask)
        rows, _ = self._decode(memory, source_packing, target_input, target_mask)
        return rows

    def encode(self, source: Tensor, source_mask: Tensor) -> Tensor:
        rows, packing = self._encode(source, source_mask)
        batch, length = source.shape
        # As one "head" of the whole width the rows fall into (B, 1, S, D).
        return Packing(packing.mask, heads=1).heads(rows).view(batch, length, -1)

    def init_state(self, memory: Tensor, memory_mask: Tensor) -> State:
        packing = Packing(memory_mask, self.heads)
        plain = not torch.is_grad_enabled() and not self.output.low_precision and is_cpu_fp32(memory)
        # Of the steps to come, which are many; weights do not change between them.
        self._columns = Columns(self.output_weight) if plain else None
        rows = memory.flatten(0, 1).index_select(0, packing.places)
        sentences = memory.shape[0]
        return {
            "memory": {
                "layers": [tuple(layer.cross.prepare(rows, packing)) for layer in self._decoder_layers()],
                "mask": memory_mask[:, None, None, :],
            },
            "cache": {
                "layers": [
                    tuple(layer.attention.nothing_yet(sentences, memory)) for layer in self._decoder_layers()
                ],
                "position": torch.zeros(sentences, dtype=torch.int64, device=memory.device),
            },
        }

    def step(self, tokens: Tensor, state: State) -> tuple[Tensor, State]:
        memory, cache = state["memory"], state["cache"]
        position: Tensor = cache["position"]
        x = self._embed(self.target_embedding, tokens, position)
        rotation = self.positions.rotation(position[:, None, None])
        layers = []
        triples = zip(self._decoder_layers(), cache["layers"], memory["layers"], strict=True)
        for layer, past, cross in triples:
            x, past = layer.step(x, position, KeysValues(*past), rotation, KeysValues(*cross), memory["mask"])
            layers.append(tuple(past))
        x = self.decoder_norm(x)
        logits = self.logits(x) if self._columns is None else self._columns.linear(x)
        return logits, {"memory": memory, "cache": {"layers": layers, "position": position + 1}}

    @torch.no_grad()
    def cross_attention(self, source: Tensor, source_mask: Tensor, target_input: Tensor) -> Tensor:
        was_training = self.training
        self.eval()
        try:
            memory, packing = self._encode(source, source_mask)
            target_mask = torch.ones_like(target_input, dtype=torch.bool)
            _, weights = self._decode(memory, packing, target_input, target_mask, with_weights=True)
        finally:
            self.train(was_training)
        return torch.stack(weights, dim=1)

    def pass_attended(self, share: float, others: float) -> None:
        with torch.no_grad():
            for module in self.modules():
                if isinstance(module, SelfAttention):
                    module.quieten(others)
                elif isinstance(module, FeedForward):
                    module.outer.weight.mul_(others)
                elif isinstance(module, CrossAttention):
                    module.pass_attended(share)

    def _embed(self, embedding: nn.Embedding, tokens: Tensor, positions: Tensor) -> Tensor:
        """tokens (N,) at positions (N,) → (N, D), scaled by sqrt(D) (Vaswani et al. 2017, §3.4)."""
        rows = embedding(tokens) * math.sqrt(self.width)
        dropped: Tensor = self.embedding_dropout(self.positions.add(rows, positions))
        return dropped

    def _encode(self, source: Tensor, source_mask: Tensor) -> tuple[Tensor, Packing]:
        """source (B, S) → memory (N, D) and the packing that says where its rows stand."""
        packing = Packing(source_mask, self.heads)
        x = self._embed(self.source_embedding, packing.select(source), packing.positions)
        mask = source_mask[:, None, None, :]
        rotation = self._rotation(source)
        for layer in self.encoder:
            x = layer(x, packing, mask, rotation)
        return self.encoder_norm(x), packing

    def _decode(
        self,
        memory: Tensor,
        source_packing: Packing,
        target_input: Tensor,
        target_mask: Tensor,
        with_weights: bool = False,
    ) -> tuple[Tensor, list[Tensor]]:
        """Teacher-forced: memory (N of the source, D) → states (N, D), each layer's weights if wanted."""
        packing = Packing(target_mask, self.heads)
        x = self._embed(self.target_embedding, packing.select(target_input), packing.positions)
        length = target_input.shape[1]
        # Padding stands at the end, so that "not after me" hides it from every real position already.
        causal = torch.ones(length, length, dtype=torch.bool, device=target_input.device).tril()[None, None]
        rotation = self._rotation(target_input)
        all_weights = []
        for layer in self._decoder_layers():
            x, weights = layer(x, packing, causal, rotation, memory, source_packing, with_weights)
            if weights is not None:
                all_weights.append(weights)
        return self.decoder_norm(x), all_weights

    def _decoder_layers(self) -> Iterator[DecoderLayer]:
        """The decoder's layers by their type, of which ModuleList knows nothing."""
        return cast("Iterator[DecoderLayer]", iter(self.decoder))

    def _rotation(self, tokens: Tensor) -> Rotation | None:
        """The rotation for a whole batch (B, T)."""
        return self.positions.rotation(torch.arange(tokens.shape[1], device=tokens.device))


def _score(kind: ScoreKind, model: ModelConfig, attention: AttentionConfig) -> Score:
    """The score of one place; heads share the width evenly."""
    size = model.width // model.heads
    return build_score(
        kind, model.heads, size, size, hidden=attention.hidden, max_positions=model.max_positions
    )


def _embedding(size: int, width: int) -> nn.Embedding:
    """Embeddings ~ N(0, 1/D): times sqrt(D) they have unit variance, and as output layer unit logits."""
    embedding = nn.Embedding(size, width)
    nn.init.normal_(embedding.weight, std=width**-0.5)
    return embedding
