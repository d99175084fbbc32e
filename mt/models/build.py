"""From configuration to model: the only place that knows which class stands for which kind."""

from __future__ import annotations

import dataclasses

import torch

from mt.config.schema import AttentionConfig, Heads, ModelConfig, ModelKind
from mt.errors import ConfigError
from mt.models.rnn import Rnn
from mt.models.room import check_room, free_bytes
from mt.models.seq2seq import Seq2Seq, parameter_count
from mt.models.transformer import Transformer

MATCHED_WITHIN = 0.01
"""How far `ModelConfig.match_parameters` may be missed, as a share of it."""


def build_model(
    model: ModelConfig, attention: AttentionConfig, source_size: int, target_size: int
) -> Seq2Seq:
    """A freshly initialised model; its randomness is PyTorch's default generator.

    Args:
        source_size, target_size: pieces in the two vocabularies.

    Raises:
        ValueError: all embeddings are tied but the vocabularies differ in size.
        ConfigError: no width of the feed-forward layers gives ``match_parameters``, or the model does not fit
            into this machine's memory.
    """
    if model.tie_embeddings.value == "all" and source_size != target_size:
        raise ValueError(
            f"tied embeddings need one vocabulary; source has {source_size} pieces, target {target_size}"
        )
    if model.match_parameters is not None:
        width = matching_width(model, attention, source_size, target_size)
        model = dataclasses.replace(model, ffn_width=width)
    refuse_too_large(model, attention, source_size, target_size)
    return _of_kind(model, attention, source_size, target_size)


def refuse_too_large(
    model: ModelConfig, attention: AttentionConfig, source_size: int = 1, target_size: int = 1
) -> None:
    """Refuse a model whose weights this machine's memory cannot hold.

    Args:
        source_size, target_size: pieces in the two vocabularies; where they are not known yet, what does not
            fit with one piece will not fit with more.

    Raises:
        ConfigError: it does not fit.
    """
    cpu = torch.device("cpu")
    free = free_bytes(cpu)
    if free is not None and _at_most(model, attention, source_size, target_size) <= free:
        return
    parameters, needed = size_of(model, attention, source_size, target_size)
    more = "more than " if source_size == target_size == 1 else ""
    check_room(needed, f"a model of {more}{parameters:,} parameters takes", cpu)


def _at_most(model: ModelConfig, attention: AttentionConfig, source_size: int, target_size: int) -> int:
    """Bytes that a model stays far below, at no cost: `size_of` lets PyTorch load its compiler (a second)."""
    rnn, layers = model.rnn, model.encoder_layers + model.decoder_layers
    sizes = [model.width, attention.hidden or 1]
    if model.kind is ModelKind.rnn:
        sizes += [rnn.embedding_width or 1, 2 * (rnn.encoder_width or model.width)]
        sizes += [2 * (rnn.readout_width or model.width)]
    else:
        sizes.append(model.ffn_width)
    side = max(sizes)
    squares = 24 + 6 * (model.heads if attention.heads is Heads.summed else 0)  # matrices of a layer
    # Embeddings, output layer, positions, and what the score location has for each position.
    rows = source_size + 2 * target_size + (1 + 3 * layers) * model.max_positions
    return 4 * side * (layers * squares * side + 2 * rows)


def size_of(
    model: ModelConfig, attention: AttentionConfig, source_size: int, target_size: int
) -> tuple[int, int]:
    """How many parameters a model has, and how many bytes it takes with its tables; nothing is allocated.

    From its second layer on, each layer of a side is like the one before.
    """

    def measured(encoder_layers: int, decoder_layers: int) -> tuple[int, int]:
        shape = dataclasses.replace(model, encoder_layers=encoder_layers, decoder_layers=decoder_layers)
        made = _without_memory(shape, attention, source_size, target_size)
        tensors = [*made.parameters(), *made.buffers()]
        return parameter_count(made), sum(tensor.numel() * tensor.element_size() for tensor in tensors)

    encoder, decoder = min(model.encoder_layers, 2), min(model.decoder_layers, 2)
    least = measured(encoder, decoder)
    total = list(least)
    for more, larger in (
        (model.encoder_layers - encoder, (encoder + 1, decoder)),
        (model.decoder_layers - decoder, (encoder, decoder + 1)),
    ):
        if more:
            total = [n + more * (b - a) for n, a, b in zip(total, least, measured(*larger), strict=True)]
    return total[0], total[1]


def _without_memory(
    model: ModelConfig, attention: AttentionConfig, source_size: int, target_size: int
) -> Seq2Seq:
    """A model of shapes alone; the default generator stays as it is."""
    with torch.device("meta"), torch.random.fork_rng(devices=[]):
        return _of_kind(model, attention, source_size, target_size)


def _of_kind(model: ModelConfig, attention: AttentionConfig, source_size: int, target_size: int) -> Seq2Seq:
    kind = Rnn if model.kind is ModelKind.rnn else Transformer
    return kind(model, attention, source_size, target_size)


def matching_width(model: ModelConfig, attention: AttentionConfig, source_size: int, target_size: int) -> int:
    """The `ffn_width` with which a model has `match_parameters` parameters, as nearly as it can.

    Variants of different size can then be compared without one of them simply being larger. The number
    of parameters is a + b·ffn_width, and two models without memory tell a and b.

    Raises:
        ConfigError: the nearest width misses by more than 1 %, or the model has no feed-forward layers.
    """
    assert model.match_parameters is not None
    counts = []
    for width in (1, 2):
        shape = dataclasses.replace(model, ffn_width=width)
        counts.append(parameter_count(_without_memory(shape, attention, source_size, target_size)))
    slope = counts[1] - counts[0]
    if slope == 0:
        raise ConfigError(
            [
                f"model.match_parameters={model.match_parameters}: model.kind={model.kind.name} has no "
                "feed-forward layers whose width could be chosen; leave it out"
            ]
        )
    width = max(1, round(1 + (model.match_parameters - counts[0]) / slope))
    reached = counts[0] + (width - 1) * slope
    if abs(reached - model.match_parameters) > MATCHED_WITHIN * model.match_parameters:
        raise ConfigError(
            [
                f"model.match_parameters={model.match_parameters}: the nearest possible number is "
                f"{reached:,} (model.ffn_width={width}); choose another number, model.width or depth"
            ]
        )
    return width
