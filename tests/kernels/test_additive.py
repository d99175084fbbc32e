"""Additive scores and attention in chunks: the definitions, gradients, and no tensor of all pairs."""

import pytest
import torch

from mt.kernels import additive
from mt.kernels.additive import additive_attention, additive_scores

B, H, T, S, D = 3, 2, 4, 5, 6


def inputs(dtype=torch.float64, scale=1.0):
    generator = torch.Generator().manual_seed(0)
    shapes = [(B, H, T, D), (B, H, S, D), (H, D)]
    a, b, w = (torch.randn(shape, generator=generator, dtype=torch.float64) for shape in shapes)
    return (a * scale).to(dtype), (b * scale).to(dtype), w.to(dtype)


def definition(a, b, w):
    a, b, w = a.double(), b.double(), w.double()
    return ((a[:, :, :, None] + b[:, :, None]).tanh() * w[:, None, None]).sum(-1)


# Bytes for one query, for some queries of one sentence, for some sentences, for everything.
BUDGETS = [1, 2 * S * D * 8, 2 * T * S * D * 8, 2**20]


@pytest.fixture(params=BUDGETS)
def budget(request, monkeypatch):
    monkeypatch.setattr(additive, "_CPU_BYTES", request.param)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 1)


@pytest.mark.parametrize("scale", [0.01, 1.0, 5.0, 50.0, 1000.0])
def test_equals_the_definition(budget, scale):
    a, b, w = inputs(scale=scale)
    torch.testing.assert_close(additive_scores(a, b, w), definition(a, b, w), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("scale", [0.01, 1.0, 5.0, 13.0, 50.0])
def test_single_precision_is_as_good_as_tanh(scale):
    """The error is that of adding up d_a terms in fp32, also where the two parts cancel."""
    a, b, w = inputs(torch.float32, scale)
    for other in (b, -a[:, :, :1].expand_as(b) + 1e-3 * b):
        error = (additive_scores(a, other, w) - definition(a, other, w)).abs().max()
        assert error / w.abs().sum(-1).max() < 5e-7


@pytest.mark.parametrize("largest", [40.0, 0.0])
def test_gradients(budget, largest, monkeypatch):
    """By exponentials, and (with no exponent allowed) by tanh."""
    monkeypatch.setattr(additive, "_LARGEST_EXPONENT", largest)
    assert torch.autograd.gradcheck(additive_scores, tuple(x.requires_grad_() for x in inputs()))


def test_saturated_rows_have_finite_gradients():
    a, b, w = (x.requires_grad_() for x in inputs(torch.float32, 39.0 / 3.0))
    additive_scores(a, b, w).sum().backward()
    expected = torch.autograd.grad(definition(a, b, w).sum(), (a, b, w))
    for leaf, right in zip((a, b, w), expected, strict=True):
        torch.testing.assert_close(leaf.grad, right.float(), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_is_rounded_once(dtype):
    a, b, w = inputs(dtype)
    got = additive_scores(a, b, w)
    assert got.dtype == dtype
    torch.testing.assert_close(got, definition(a, b, w).to(dtype))


def test_under_autocast():
    a, b, w = (x.requires_grad_() for x in inputs(torch.float32))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        got = additive_scores(a, b, w)
        got.sum().backward()
    torch.testing.assert_close(got.double(), definition(a, b, w), rtol=1e-5, atol=1e-5)
    (right,) = torch.autograd.grad(definition(a, b, w).sum(), w)
    torch.testing.assert_close(w.grad, right, rtol=1e-4, atol=1e-4)  # bf16 would be off by 1e-2


class Sizes(torch.utils._python_dispatch.TorchDispatchMode):
    """Notes the most numbers that a tensor has which is made inside."""

    largest = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        out = function(*args, **(kwargs or {}))
        if isinstance(out, torch.Tensor):
            self.largest = max(self.largest, out.untyped_storage().nbytes() // out.element_size())
        return out


def test_nothing_of_the_size_of_all_pairs_is_made(monkeypatch):
    """Neither kept for backward nor made for a moment: no tensor exceeds the buffer and the scores."""
    monkeypatch.setattr(additive, "_CPU_BYTES", 2**12)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 1)
    size, length = 32, 40
    a, b = (torch.randn(1, 1, length, size, requires_grad=True) for _ in range(2))
    w = torch.randn(1, size, requires_grad=True)
    with Sizes() as seen:
        additive_scores(a, b, w).sum().backward()
    assert seen.largest <= max(length * length, length * size)
    assert seen.largest < length * length * size


# --- with the softmax and the values ---

C = 3


def attention_inputs(mask_name, dtype=torch.float64):
    """a, b, w, values, and a mask under which one query sees nothing and one sentence ends early."""
    values = torch.randn(B, H, S, C, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    mask = {
        "none": None,
        "keys": (torch.arange(S) < torch.tensor([S, 2, 1])[:, None])[:, None, None],
        "causal": torch.ones(T, S, dtype=torch.bool).tril(),
        "random": torch.rand(B, H, T, S, generator=torch.Generator().manual_seed(2)) < 0.5,
    }[mask_name]
    if mask_name == "random":
        mask[0, 1, 2] = False
    return *inputs(dtype), values.to(dtype), mask


def attention_definition(a, b, w, values, mask):
    scores = definition(a, b, w)
    seen = torch.ones_like(scores, dtype=torch.bool) if mask is None else mask.expand_as(scores)
    shares = scores.exp() * seen
    return shares @ values.double() / shares.sum(-1, keepdim=True).clamp(min=1e-30)


MASKS = ["none", "keys", "causal", "random"]


@pytest.mark.parametrize("mask_name", MASKS)
def test_attention_equals_the_definition(budget, mask_name):
    given = attention_inputs(mask_name)
    torch.testing.assert_close(
        additive_attention(*given), attention_definition(*given), rtol=1e-12, atol=1e-12
    )


@pytest.mark.parametrize("mask_name", MASKS)
@pytest.mark.parametrize("largest", [40.0, 0.0])
def test_gradients_of_attention(budget, largest, mask_name, monkeypatch):
    monkeypatch.setattr(additive, "_LARGEST_EXPONENT", largest)
    *leaves, mask = attention_inputs(mask_name)
    leaves = [x.requires_grad_() for x in leaves]
    got = torch.autograd.grad(additive_attention(*leaves, mask).square().sum(), leaves)
    right = torch.autograd.grad(attention_definition(*leaves, mask).square().sum(), leaves)
    for one, two in zip(got, right, strict=True):
        torch.testing.assert_close(one, two, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_attention_in_half_precision_is_rounded_once(dtype):
    given = attention_inputs("causal", dtype)
    got = additive_attention(*given)
    assert got.dtype == dtype
    torch.testing.assert_close(got, attention_definition(*given).to(dtype))


def test_attention_makes_no_scores_and_leaves_out_what_no_query_sees(monkeypatch):
    """Under a causal mask: less than all pairs pass through the buffer, and no tensor has T·S numbers."""
    length, size, batch = 64, 4, 4
    monkeypatch.setattr(additive, "_CPU_BYTES", 8 * length * size * 4)  # eight queries
    monkeypatch.setattr(torch, "get_num_threads", lambda: 1)
    a, b, values = (torch.randn(batch, 2, length, size, requires_grad=True) for _ in range(3))
    w = torch.randn(2, size, requires_grad=True)
    mask = torch.ones(1, 1, length, length, dtype=torch.bool).tril()
    with Sizes() as seen:
        additive_attention(a, b, w, values, mask).sum().backward()
    assert seen.largest < batch * 2 * length * length
    pairs = additive._Pairs(a, b, w, mask)
    used = sum(pairs._shape(chunk).numel() for chunk in pairs.chunks)
    assert used < 0.6 * batch * 2 * length * length * size


def test_attention_without_queries_or_keys():
    a, b, w, values, _ = attention_inputs("none")
    everything = torch.ones(B, 1, T, S, dtype=torch.bool)
    assert additive_attention(a[:, :, :0], b, w, values, everything[:, :, :0]).shape == (B, H, 0, C)
    none = additive_attention(a, b[:, :, :0], w, values[:, :, :0], everything[..., :0])
    assert none.shape == (B, H, T, C) and not none.any()


def test_no_queries_and_no_keys():
    a, b, w = inputs()
    assert additive_scores(a[:, :, :0], b, w).shape == (B, H, 0, S)
    assert additive_scores(a, b[:, :, :0], w).shape == (B, H, T, 0)
