"""Small recurrent models and batches for the tests, and every combination of choices that makes sense."""

from __future__ import annotations

import itertools
from typing import Any

import torch
from torch import Tensor

from mt.config.schema import (
    AttentionConfig,
    Cell,
    Feed,
    ModelConfig,
    ModelKind,
    Readout,
    RnnConfig,
    ScopeKind,
    ScoreKind,
    StateIndex,
    TieEmbeddings,
)
from mt.models.rnn import Rnn

SOURCE, TARGET = 20, 21  # vocabularies

VARIANTS = [
    {"cell": cell, "query": query, "feed": feed, "readout": readout, "readout_state": seen}
    for cell, query, feed, readout, seen in itertools.product(Cell, StateIndex, Feed, Readout, StateIndex)
    if (feed, query) != (Feed.context_in_gates, StateIndex.current)
]
ATTENTIONS: list[tuple[ScoreKind, str]] = [
    *((score, "global") for score in ScoreKind),
    (ScoreKind.general, "local_m"),
    (ScoreKind.additive, "local_p"),
]


def name_of(variant: dict[str, Any]) -> str:
    """The variant's choices in a test's name."""
    return "-".join(choice.name for choice in variant.values())


def make(
    score: ScoreKind = ScoreKind.additive,
    scope: str = "global",
    *,
    layers: int = 1,
    bidirectional: bool = True,
    reverse_source: bool = False,
    seed: int = 0,
    window: int = 2,
    model: dict[str, Any] | None = None,
    **rnn: Any,
) -> Rnn:
    """A model of 8-wide states in double precision, without dropout unless `model` asks for it."""
    torch.manual_seed(seed)
    shape: dict[str, Any] = {
        "width": 8,
        "encoder_layers": layers,
        "decoder_layers": layers,
        "tie_embeddings": TieEmbeddings.none,
        "max_positions": 12,
        "dropout": 0.0,
        **(model or {}),
    }
    sizes: dict[str, Any] = {
        "encoder_width": 4 if bidirectional else 8,
        "embedding_width": 5,
        "readout_width": 6,
        "bidirectional": bidirectional,
        "reverse_source": reverse_source,
        **rnn,
    }
    attention = AttentionConfig(score=score, scope=ScopeKind[scope], window=window)
    config = ModelConfig(kind=ModelKind.rnn, rnn=RnnConfig(**sizes), **shape)
    made = Rnn(config, attention, SOURCE, TARGET).double()
    # As if trained a little: nothing is zero, nothing is symmetric.
    generator = torch.Generator().manual_seed(seed + 1)
    with torch.no_grad():
        for parameter in made.parameters():
            parameter += 0.2 * torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
    return made


def batch(seed: int = 0) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """source, source_mask, target_input, target_mask of three sentences of lengths 6, 3, 1 and 5, 2, 4."""
    generator = torch.Generator().manual_seed(seed)

    def side(lengths: list[int], vocabulary: int) -> tuple[Tensor, Tensor]:
        mask = torch.arange(max(lengths))[None] < torch.tensor(lengths)[:, None]
        ids = torch.randint(4, vocabulary, mask.shape, generator=generator)
        return ids * mask, mask

    source, source_mask = side([6, 3, 1], SOURCE)
    target, target_mask = side([5, 2, 4], TARGET)
    return source, source_mask, target, target_mask
