"""From configuration to model: the only place that knows which class stands for which kind."""

from __future__ import annotations

from mt.config.schema import AttentionConfig, ModelConfig, ModelKind
from mt.models.rnn import Rnn
from mt.models.seq2seq import Seq2Seq
from mt.models.transformer import Transformer


def build_model(
    model: ModelConfig, attention: AttentionConfig, source_size: int, target_size: int
) -> Seq2Seq:
    """A freshly initialised model; its randomness is PyTorch's default generator.

    Args:
        source_size, target_size: pieces in the two vocabularies.

    Raises:
        ValueError: all embeddings are tied but the vocabularies differ in size.
    """
    if model.tie_embeddings.value == "all" and source_size != target_size:
        raise ValueError(
            f"tied embeddings need one vocabulary; source has {source_size} pieces, target {target_size}"
        )
    kind = Rnn if model.kind is ModelKind.rnn else Transformer
    return kind(model, attention, source_size, target_size)
