"""Scores, the masked softmax and multi-head attention against independent oracles."""

import math

import numpy as np
import pytest
import torch
from torch import nn

from mt.attention import attend as attend_module
from mt.attention.attend import attend, attend_by_score
from mt.attention.multihead import CrossAttention, KeysValues, SelfAttention
from mt.attention.scores import SCORES, build_score
from mt.config.schema import ScoreKind
from mt.kernels.packing import Packing

B, H, T, S, K, C = 2, 3, 4, 5, 6, 7


def numpy_attention(score, q, k, v, mask):
    """softmax(f(Q, K)) V in float64, one query and one key at a time."""
    out = np.zeros((*q.shape[:-1], v.shape[-1]))
    for b in range(q.shape[0]):
        for h in range(q.shape[1]):
            for t in range(q.shape[2]):
                allowed = [s for s in range(k.shape[2]) if mask[b, h, t, s]]
                if not allowed:
                    continue
                logits = np.array([score(q[b, h, t], k[b, h, s]) for s in allowed])
                weights = np.exp(logits - logits.max())
                weights /= weights.sum()
                out[b, h, t] = sum(w * v[b, h, s] for w, s in zip(weights, allowed, strict=True))
    return out


ORACLES = {
    ScoreKind.scaled_dot: lambda q, k: float(q @ k) / math.sqrt(len(k)),
    ScoreKind.dot: lambda q, k: float(q @ k),
}


def _inputs(dtype=torch.float64):
    generator = torch.Generator().manual_seed(0)
    shapes = [(B, H, T, K), (B, H, S, K), (B, H, S, C)]
    return [torch.randn(shape, generator=generator, dtype=dtype) for shape in shapes]


def _mask(name):
    generator = torch.Generator().manual_seed(1)
    mask = {
        "none": torch.ones(B, H, T, S, dtype=torch.bool),
        "random": torch.rand(B, H, T, S, generator=generator) < 0.6,
        "causal": torch.ones(T, S, dtype=torch.bool).tril().expand(B, H, T, S),
        "keys": (torch.arange(S) < torch.tensor([[S], [2]]))[:, None, None].expand(B, H, T, S),
    }[name].clone()
    if name == "random":
        mask[0, 0, 1] = False  # a row that may attend nothing
    return mask


def test_every_score_has_an_oracle():
    assert set(ORACLES) == set(SCORES) == set(ScoreKind)


@pytest.mark.parametrize("kind", list(ScoreKind))
@pytest.mark.parametrize("mask_name", ["none", "random", "causal", "keys"])
@pytest.mark.parametrize("fused", [False, True])
def test_attention_equals_numpy(kind, mask_name, fused, monkeypatch):
    """Both paths, the two products and the fused kernel, equal the definition."""
    monkeypatch.setattr(attend_module, "_FUSED_FROM", 0 if fused else 10**9)
    q, k, v = _inputs()
    mask = _mask(mask_name)
    score = build_score(kind, H, K).double()
    context, _ = attend_by_score(score, q, score.prepare_keys(k), v, mask)
    expected = numpy_attention(ORACLES[kind], q.numpy(), k.numpy(), v.numpy(), mask.numpy())
    np.testing.assert_allclose(context.numpy(), expected, atol=1e-9)


@pytest.mark.parametrize("kind", list(ScoreKind))
def test_gradients(kind):
    q, k, v = (x[:, :1].clone().requires_grad_() for x in _inputs())
    mask = _mask("random")[:, :1]
    score = build_score(kind, 1, K).double()

    def run(q, k, v):
        return attend(score(q, score.prepare_keys(k)), v, mask)[0]

    assert torch.autograd.gradcheck(run, (q, k, v))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("fused", [False, True])
def test_fully_masked_row_is_zero_with_zero_gradient(dtype, fused, monkeypatch):
    monkeypatch.setattr(attend_module, "_FUSED_FROM", 0 if fused else 10**9)
    q, k, v = (x.to(dtype).requires_grad_() for x in _inputs())
    mask = torch.ones(B, 1, T, S, dtype=torch.bool)
    mask[1] = False
    score = build_score(ScoreKind.scaled_dot, H, K)
    context, _ = attend_by_score(score, q, k, v, mask)
    context.float().sum().backward()
    assert not context[1].any() and context[0].any()
    for leaf in (q, k, v):
        assert torch.isfinite(leaf.grad).all() and not leaf.grad[1].any()


def test_weights_sum_to_one_and_are_before_dropout():
    q, k, v = _inputs()
    score = build_score(ScoreKind.scaled_dot, H, K)
    mask = _mask("keys")
    _, weights = attend_by_score(score, q, k, v, mask, dropout_probability=0.5, with_weights=True)
    torch.testing.assert_close(weights.sum(-1), torch.ones(B, H, T, dtype=weights.dtype))
    assert not weights[~mask].any()


def test_attention_dropout_changes_training_only():
    layer = SelfAttention(12, build_score(ScoreKind.scaled_dot, 2, 6), dropout=0.5)
    mask = torch.ones(2, 3, dtype=torch.bool)
    packing, rows, seen = Packing(mask, 2), torch.randn(6, 12), mask[:, None, None]
    assert not torch.equal(layer(rows, packing, seen, None), layer(rows, packing, seen, None))
    layer.eval()
    assert torch.equal(layer(rows, packing, seen, None), layer(rows, packing, seen, None))


def _torch_twin(width, heads, query, key, value, output):
    twin = nn.MultiheadAttention(width, heads, batch_first=True)
    with torch.no_grad():
        twin.in_proj_weight.copy_(torch.cat([query.weight, key.weight, value.weight]))
        twin.in_proj_bias.copy_(torch.cat([query.bias, key.bias, value.bias]))
        twin.out_proj.weight.copy_(output.weight)
        twin.out_proj.bias.copy_(output.bias)
    return twin


class _Part:
    """One matrix of a stacked Linear."""

    def __init__(self, layer, part, width):
        self.weight = layer.weight[part * width : (part + 1) * width]
        self.bias = layer.bias[part * width : (part + 1) * width]


@pytest.mark.parametrize("causal", [False, True])
def test_self_attention_equals_torch(causal):
    torch.manual_seed(0)
    width, heads = 12, 3
    layer = SelfAttention(width, build_score(ScoreKind.scaled_dot, heads, width // heads), 0.0)
    nn.init.normal_(layer.query_key_value.bias)
    parts = [_Part(layer.query_key_value, part, width) for part in range(3)]
    twin = _torch_twin(width, heads, *parts, layer.output)
    real = torch.tensor([[1, 1, 1, 1], [1, 1, 0, 0]], dtype=torch.bool)
    x = torch.randn(2, 4, width)
    mask = real[:, None, None] & (torch.ones(4, 4, dtype=torch.bool).tril() if causal else True)
    got = layer(x[real], Packing(real, heads), mask, None)
    hidden = ~torch.ones(4, 4, dtype=torch.bool).tril() if causal else None
    expected, _ = twin(x, x, x, key_padding_mask=~real, attn_mask=hidden)
    torch.testing.assert_close(got, expected[real], rtol=1e-4, atol=1e-5)


def test_cross_attention_equals_torch():
    torch.manual_seed(0)
    width, heads = 12, 3
    layer = CrossAttention(width, build_score(ScoreKind.scaled_dot, heads, width // heads), 0.0)
    query = _Part(layer.query, 0, width)
    key, value = (_Part(layer.key_value, part, width) for part in range(2))
    twin = _torch_twin(width, heads, query, key, value, layer.output)
    source = torch.tensor([[1, 1, 1], [1, 0, 0]], dtype=torch.bool)
    target = torch.tensor([[1, 1], [1, 0]], dtype=torch.bool)
    x, memory = torch.randn(2, 2, width), torch.randn(2, 3, width)
    prepared = layer.prepare(memory[source], Packing(source, heads))
    got, weights = layer(x[target], Packing(target, heads), prepared, source[:, None, None], True)
    expected, right = twin(x, memory, memory, key_padding_mask=~source, average_attn_weights=False)
    torch.testing.assert_close(got, expected[target], rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(
        weights[target[:, None].expand(2, heads, 2)], right[target[:, None].expand(2, heads, 2)]
    )


@pytest.mark.parametrize("beam", [1, 3])
def test_cross_step_shares_a_sentence_over_its_beam(beam):
    torch.manual_seed(0)
    layer = CrossAttention(12, build_score(ScoreKind.scaled_dot, 3, 4), 0.0)
    source = torch.tensor([[1, 1, 1], [1, 0, 0]], dtype=torch.bool)
    prepared = layer.prepare(torch.randn(4, 12), Packing(source, 3))
    x = torch.randn(2 * beam, 12)
    positions = torch.zeros(2 * beam, dtype=torch.int64)
    got = layer.step(x, prepared, source[:, None, None], positions)
    for row in range(2 * beam):
        one = row // beam
        alone = KeysValues(prepared.keys[one : one + 1], prepared.values[one : one + 1])
        expected = layer.step(
            x[row : row + 1], alone, source[one : one + 1, None, None], torch.zeros(1, dtype=torch.int64)
        )
        torch.testing.assert_close(got[row : row + 1], expected)
