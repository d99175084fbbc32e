"""What is masked, padded, short or empty gives no NaN: every score, every dtype, forward and backward."""

from __future__ import annotations

import pytest
import torch

from mt.attention.attend import attend_by_score
from mt.attention.scores import SCORES, build_score
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
)
from mt.data.tokenizer import BOS, EOS, PAD
from mt.models.build import build_model
from mt.models.seq2seq import Seq2Seq
from mt.training.loss import label_smoothed_loss

DTYPES = [torch.float32, torch.float64, torch.bfloat16, torch.float16]
SIZES = [(1, 1), (1, 5), (5, 1), (3, 4)]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("kind", SCORES)
@pytest.mark.parametrize(("queries", "keys"), SIZES)
@pytest.mark.parametrize("with_weights", [True, False])
def test_a_row_without_anything_to_attend_gives_zeros(
    kind: ScoreKind, dtype: torch.dtype, queries: int, keys: int, with_weights: bool
) -> None:
    torch.manual_seed(0)
    score = build_score(kind, 2, 4, max_positions=8).to(dtype)
    # Large values: scores near the ends of what the dtype holds.
    tensors = [(torch.randn(3, 2, n, 4) * 30).to(dtype).requires_grad_() for n in (queries, keys, keys)]
    query, key, value = tensors
    mask = torch.rand(3, 1, queries, keys) < 0.5
    mask[0] = False  # a sentence of padding alone
    context, weights = attend_by_score(
        score, query, score.prepare_keys(key), value, mask, with_weights=with_weights
    )
    assert context.isfinite().all() and not context[0].any()
    empty = ~mask.any(-1).expand(-1, 2, -1)
    assert not context[empty].any()
    if weights is not None:
        assert not weights[~mask.expand_as(weights)].any()
        total = weights.float().sum(-1)[~empty]
        assert torch.allclose(total, torch.ones_like(total), atol=2e-2)
    context.float().square().sum().backward()
    # The place of a key is all that location reads of it; none reads nothing.
    unread = {ScoreKind.location: (key,), ScoreKind.none: (query, key)}.get(kind, ())
    for tensor in tensors:
        if tensor.grad is None:
            assert any(tensor is each for each in unread)
        else:
            assert tensor.grad.isfinite().all()
    for parameter in score.parameters():
        assert parameter.grad is None or parameter.grad.isfinite().all()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16], ids=str)
@pytest.mark.parametrize("kind", SCORES)
def test_one_piece_empty_and_padded_sentences_train_without_nan(kind: ScoreKind, dtype: torch.dtype) -> None:
    """An end-of-sentence alone is what an empty line is; the second row is long, so the others are padded."""
    torch.manual_seed(0)
    shape = ModelConfig(width=8, heads=2, ffn_width=16, encoder_layers=1, decoder_layers=1, dropout=0.0)
    harmless(build_model(shape, AttentionConfig(score=kind), 12, 12).to(dtype))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16], ids=str)
@pytest.mark.parametrize("scope", ScopeKind)
@pytest.mark.parametrize("kind", SCORES)
@pytest.mark.parametrize("cell", Cell)
def test_a_recurrent_model_trains_without_nan_likewise(
    cell: Cell, kind: ScoreKind, scope: ScopeKind, dtype: torch.dtype
) -> None:
    torch.manual_seed(0)
    previous = cell is Cell.gru
    rnn = RnnConfig(
        cell=cell,
        encoder_width=4,
        query=StateIndex.previous if previous else StateIndex.current,
        feed=Feed.context_in_gates if previous else Feed.input_feeding,
        readout=Readout.maxout if previous else Readout.tanh,
    )
    shape = ModelConfig(
        kind=ModelKind.rnn, width=8, encoder_layers=1, decoder_layers=1, dropout=0.0, max_positions=8, rnn=rnn
    )
    harmless(build_model(shape, AttentionConfig(score=kind, scope=scope, window=2), 12, 12).to(dtype))


def harmless(model: Seq2Seq) -> None:
    """Loss, states and gradients are numbers for the shortest, the emptiest and a fully padded sentence."""
    source = torch.tensor([[EOS, PAD, PAD], [5, 6, EOS], [PAD, PAD, PAD]])
    target_in = torch.tensor([[BOS, PAD, PAD], [BOS, 7, 8], [BOS, 9, PAD]])
    target_out = torch.tensor([[EOS, PAD, PAD], [7, 8, EOS], [9, EOS, PAD]])
    hidden = model(source, source != PAD, target_in, target_out != PAD)
    targets = target_out[target_out != PAD]
    loss, _ = label_smoothed_loss(hidden, model.output_weight, model.output_bias, targets, 0.1)
    loss.backward()
    assert loss.isfinite() and hidden.isfinite().all()
    for name, parameter in model.named_parameters():
        assert parameter.grad is None or parameter.grad.isfinite().all(), name
