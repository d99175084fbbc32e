"""Scores, the masked softmax and multi-head attention against independent oracles."""

import numpy as np
import pytest
import torch
from torch import nn

from mt.attention import attend as attend_module
from mt.attention.attend import attend, attend_by_score
from mt.attention.multihead import CrossAttention, KeysValues, SelfAttention
from mt.attention.scopes import SCOPES, build_scope
from mt.attention.scores import SCORES, build_score
from mt.config.schema import Heads, ScopeKind, ScoreKind
from mt.kernels.packing import Packing
from tests.attention.oracle import SCOPE_ORACLES, SCORE_ORACLES, attention

B, H, T, S, K, C = 2, 3, 4, 5, 6, 7


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


LENGTHS = [S, 2]


def test_every_score_and_scope_has_an_oracle():
    assert set(SCORE_ORACLES) == set(SCORES) == set(ScoreKind)
    assert set(SCOPE_ORACLES) == set(SCOPES) == set(ScopeKind)


def _score(kind, heads=H, query_size=K, key_size=K, dtype=torch.float64):
    torch.manual_seed(5)
    return build_score(kind, heads, query_size, key_size, max_positions=S + 2).to(dtype)


def _scope(kind, heads=H, window=1, dtype=torch.float64):
    torch.manual_seed(6)
    return build_scope(kind, heads, K, window).to(dtype)


def _reach(scope, query, mask):
    """The scope's view of `mask` (B, H, T, S): S real keys in the first sentence, 2 in the second."""
    real = (torch.arange(S) < torch.tensor(LENGTHS)[:, None])[:, None, None]
    reach, factor = scope(query, torch.arange(T), real)
    return reach & mask, factor


@pytest.mark.parametrize("scope_kind", list(ScopeKind))
@pytest.mark.parametrize("kind", list(ScoreKind))
@pytest.mark.parametrize("mask_name", ["none", "random", "causal", "keys"])
@pytest.mark.parametrize("fused", [False, True])
def test_attention_equals_numpy(kind, scope_kind, mask_name, fused, monkeypatch):
    """Both paths, the two products and the fused kernel, equal the definition, with and without weights."""
    monkeypatch.setattr(attend_module, "_FUSED_FROM", 0 if fused else 10**9)
    q, k, v = _inputs()
    score, scope = _score(kind), _scope(scope_kind)
    mask = _mask(mask_name) & _mask("keys")
    reach, factor = _reach(scope, q, mask)
    weights, context = attention(
        kind, score, scope_kind, scope, q.numpy(), k.numpy(), v.numpy(), mask.numpy(), LENGTHS
    )
    prepared = score.prepare_keys(k)
    for wanted in (False, True):
        got, seen = attend_by_score(score, q, prepared, v, reach, factor=factor, with_weights=wanted)
        np.testing.assert_allclose(got.detach().numpy(), context, atol=1e-9)
        assert (seen is not None) == wanted
    np.testing.assert_allclose(seen.detach().numpy(), weights, atol=1e-9)


@pytest.mark.parametrize("scope_kind", list(ScopeKind))
@pytest.mark.parametrize("kind", list(ScoreKind))
def test_single_precision_equals_numpy(kind, scope_kind):
    q, k, v = (x.float() for x in _inputs())
    score, scope = _score(kind, dtype=torch.float32), _scope(scope_kind, dtype=torch.float32)
    mask = _mask("keys")
    reach, factor = _reach(scope, q, mask)
    got, _ = attend_by_score(score, q, score.prepare_keys(k), v, reach, factor=factor)
    arrays = (x.double().numpy() for x in (q, k, v))
    _, context = attention(kind, score, scope_kind, scope, *arrays, mask.numpy(), LENGTHS)
    np.testing.assert_allclose(got.detach().numpy(), context, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("scope_kind", list(ScopeKind))
@pytest.mark.parametrize("kind", list(ScoreKind))
def test_gradients(kind, scope_kind):
    """Of query, keys, values and every parameter, with rows that see some keys, and one that sees none."""
    q, k, v = (x[:, :1, :3].clone().requires_grad_() for x in _inputs())
    mask = _mask("random")[:, :1, :3, :3]
    mask[0, 0, 1] = False
    score, scope = _score(kind, heads=1), _scope(scope_kind, heads=1, window=3)
    parameters = [*score.parameters(), *scope.parameters()]

    def run(q, k, v, *_):
        real = torch.ones(B, 1, 1, 3, dtype=torch.bool)
        reach, factor = scope(q, torch.arange(3), real)
        return attend(score(q, score.prepare_keys(k)), v, mask & reach, factor=factor)[0]

    assert torch.autograd.gradcheck(run, (q, k, v, *parameters))


@pytest.mark.parametrize("kind", [k for k in ScoreKind if k not in (ScoreKind.dot, ScoreKind.scaled_dot)])
def test_queries_and_keys_may_differ_in_size(kind):
    """As in an RNN decoder: one head, keys twice as wide as the query."""
    q, k, v = (x[:, :1] for x in _inputs())
    k = torch.cat((k, k.flip(-1)), dim=-1)
    score, everything = _score(kind, heads=1, key_size=2 * K), torch.ones(B, 1, T, S, dtype=torch.bool)
    got, _ = attend_by_score(score, q, score.prepare_keys(k), v, everything)
    arrays = (x.numpy() for x in (q, k, v))
    everywhere = ScopeKind["global"]
    _, context = attention(kind, score, everywhere, None, *arrays, everything.numpy(), LENGTHS)
    np.testing.assert_allclose(got.detach().numpy(), context, atol=1e-9)


@pytest.mark.parametrize("kind", [ScoreKind.dot, ScoreKind.scaled_dot])
def test_a_dot_product_needs_one_size(kind):
    with pytest.raises(ValueError, match="6 and 12; the score general"):
        build_score(kind, 1, K, 2 * K)


def test_location_needs_a_bound_and_keeps_it():
    with pytest.raises(ValueError, match="needs max_positions"):
        build_score(ScoreKind.location, H, K)
    score = build_score(ScoreKind.location, H, K, max_positions=S - 1).double()
    q, k, _ = _inputs()
    with pytest.raises(ValueError, match="knows 4 places, not 5"):
        score(q, score.prepare_keys(k))


@pytest.mark.parametrize("kind", [ScoreKind.additive, ScoreKind.concat])
def test_the_inner_size_can_be_chosen(kind):
    score = build_score(kind, H, K, hidden=9)
    assert score.vector.shape == (H, 9)
    assert score.prepare_keys(torch.randn(B, H, S, K)).shape == (B, H, S, 9)
    q, k, _ = (x.float() for x in _inputs())
    assert score(q, score.prepare_keys(k)).shape == (B, H, T, S)


@pytest.mark.parametrize("kind", [ScoreKind.general, ScoreKind.scaled_general])
@pytest.mark.parametrize("size", [16, 256])
def test_general_starts_with_the_spread_of_scaled_dot(size, kind):
    torch.manual_seed(0)
    query, key = torch.randn(4, 1, 50, size), torch.randn(4, 1, 50, size)
    score = build_score(kind, 1, size)
    with torch.no_grad():
        assert 0.7 < score(query, score.prepare_keys(key)).std() < 1.4


def test_concat_starts_smaller_than_additive():
    """One matrix over query and key has their joint fan-in."""
    bounds = {}
    for kind in (ScoreKind.additive, ScoreKind.concat):
        score = build_score(kind, 1, 64)
        bounds[kind] = score.query_matrix.weight.abs().max().item()
    assert bounds[ScoreKind.concat] <= (6 / 192) ** 0.5 < 0.95 * bounds[ScoreKind.additive]


def test_the_names_of_the_papers():
    names = {"bahdanau": "additive", "luong": "general"}
    names |= {f"luong_{name}": name for name in ("dot", "general", "concat", "location")}
    assert set(ScoreKind.__members__) == {kind.name for kind in ScoreKind} | set(names)
    for alias, name in names.items():
        assert ScoreKind[alias] is ScoreKind[name] and ScoreKind[alias].name == name


@pytest.mark.parametrize("kind", list(ScoreKind))
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16])
def test_every_score_is_finite_in_every_type(kind, dtype):
    q, k, v = (x.to(dtype).requires_grad_() for x in _inputs())
    score = _score(kind, dtype=dtype)
    mask = _mask("random")
    context, weights = attend_by_score(score, q, score.prepare_keys(k), v, mask, with_weights=True)
    context.float().sum().backward()
    assert context.dtype == dtype and not weights[~mask].any() and not context[0, 0, 1].any()
    leaves = [leaf for leaf in (q, k, v, *score.parameters()) if leaf.grad is not None]
    assert leaves and all(torch.isfinite(leaf.grad).all() for leaf in leaves)
    assert not q.grad[0, 0, 1].any() if q.grad is not None else kind is ScoreKind.none


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


def _columns(rows, layer, parts):
    """What a matrix makes of each row, (parts, N, size), by NumPy."""
    return (rows @ layer.weight.detach().numpy().T).reshape(len(rows), parts, -1).swapaxes(0, 1)


def _summed(x, memory, query, key, value, heads, causal):
    """``X + Σ_h (W_h^V Y) Softmax[(W_h^K Y)ᵀ (W_h^Q X)]`` with columns for positions, softmax over rows."""
    out = x.T.copy()
    for h in range(heads):
        q, k = (part.reshape(len(part), heads, -1)[:, h].T for part in (query, key))
        scores = k.T @ q
        if causal:
            scores = np.where(np.tri(len(x)).T.astype(bool), scores, -np.inf)
        exponentials = np.exp(scores - scores.max(0))
        out += value[h].T @ (exponentials / exponentials.sum(0))
    return out.T


@pytest.mark.parametrize("causal", [False, True])
def test_summed_self_attention_is_the_formula(causal):
    torch.manual_seed(0)
    width, heads, length = 12, 3, 5
    layer = SelfAttention(width, build_score(ScoreKind.dot, heads, 4), 0.0, Heads.summed).double()
    assert all(not name.endswith("bias") and "output" not in name for name, _ in layer.named_parameters())
    x = torch.randn(length, width, dtype=torch.float64)
    mask = torch.ones(length, length, dtype=torch.bool)
    mask = mask.tril() if causal else mask
    got = x + layer(x, Packing(torch.ones(1, length, dtype=torch.bool), heads), mask[None, None], None)
    rows = x.numpy()
    query, key = _columns(rows, layer.query_key, 2)
    expected = _summed(rows, rows, query, key, _columns(rows, layer.value, heads), heads, causal)
    np.testing.assert_allclose(got.detach().numpy(), expected, atol=1e-12)


def test_summed_cross_attention_is_the_formula():
    torch.manual_seed(0)
    width, heads = 12, 3
    score = build_score(ScoreKind.dot, heads, 4)
    layer = CrossAttention(width, score, 0.0, heads=Heads.summed).double()
    x, memory = (torch.randn(length, width, dtype=torch.float64) for length in (4, 6))
    packings = [Packing(torch.ones(1, length, dtype=torch.bool), heads) for length in (4, 6)]
    seen = torch.ones(1, 1, 1, 6, dtype=torch.bool)
    branch, _ = layer(x, packings[0], layer.prepare(memory, packings[1]), seen)
    x, rows = x.numpy(), memory.numpy()
    query, key = _columns(x, layer.query, 1)[0], _columns(rows, layer.key, 1)[0]
    expected = _summed(x, rows, query, key, _columns(rows, layer.value, heads), heads, causal=False)
    np.testing.assert_allclose(x + branch.detach().numpy(), expected, atol=1e-12)


@torch.no_grad()
def test_summed_heads_hand_on_what_they_attend_to():
    layer = CrossAttention(12, build_score(ScoreKind.dot, 3, 4), 0.0, heads=Heads.summed)
    layer.pass_attended(0.5)
    one = torch.ones(1, 1, dtype=torch.bool)
    memory = torch.randn(1, 12)
    branch, _ = layer(torch.randn(1, 12), Packing(one, 3), layer.prepare(memory, Packing(one, 3)), one)
    torch.testing.assert_close(branch, memory / 2)
