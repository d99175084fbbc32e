"""Linear equals PyTorch's; bf16 rounds the products' inputs and nothing else."""

import pytest
import torch
from torch.nn import functional as F

from mt.config.schema import Precision
from mt.kernels import linear as module
from mt.kernels.linear import Columns, Linear, linear, set_precision


def _gradients(function, *tensors):
    leaves = [tensor.clone().requires_grad_() for tensor in tensors]
    out = function(*leaves)
    out.square().sum().backward()
    return [out.detach(), *(leaf.grad for leaf in leaves)]


def test_onednn_path_equals_torch(monkeypatch):
    """Forced on, the path for AMD with AVX-512 gives PyTorch's values and gradients."""
    torch.manual_seed(0)
    x, w, b = torch.randn(3, 5, 16), torch.randn(8, 16), torch.randn(8)
    expected = _gradients(F.linear, x, w, b)
    before = torch.get_float32_matmul_precision()
    monkeypatch.setattr(module, "onednn_is_faster", lambda: True)
    got = _gradients(linear, x, w, b)
    assert torch.get_float32_matmul_precision() == before
    for value, right in zip(got, expected, strict=True):
        torch.testing.assert_close(value, right, rtol=1e-5, atol=1e-4)


def test_bf16_rounds_inputs_only():
    """The result is that of inputs rounded to bf16, in fp32, and differs from the exact one."""
    torch.manual_seed(0)
    x, w = torch.randn(64, 32), torch.randn(16, 32)
    got = linear(x, w, low_precision=True)
    assert got.dtype == torch.float32
    rounded = F.linear(x.bfloat16().float(), w.bfloat16().float())
    # the product's own output is rounded to bf16 too: 8 bits of mantissa
    torch.testing.assert_close(got, rounded, rtol=2**-7, atol=1e-2)
    assert not torch.equal(got, F.linear(x, w))


def test_set_precision_reaches_every_linear():
    model = torch.nn.Sequential(Linear(4, 4), torch.nn.Sequential(Linear(4, 4)))
    set_precision(model, Precision.bf16)
    assert all(m.low_precision for m in model.modules() if isinstance(m, Linear))
    set_precision(model, Precision.fp32)
    assert not any(m.low_precision for m in model.modules() if isinstance(m, Linear))


@pytest.mark.parametrize("parts", [1, 3])
def test_init_is_xavier_of_each_part(parts):
    torch.manual_seed(0)
    layer = Linear(64, 64 * parts, parts=parts)
    bound = (6 / (64 + 64)) ** 0.5
    assert layer.weight.abs().max() <= bound
    assert layer.weight.std().item() == pytest.approx(bound / 3**0.5, rel=0.05)
    assert layer.bias is not None and not layer.bias.any()


@pytest.mark.parametrize("rows", [1, 32, 33])
def test_columns_compute_the_same(rows: int) -> None:
    torch.manual_seed(0)
    weight, x = torch.randn(50, 16), torch.randn(rows, 16)
    torch.testing.assert_close(Columns(weight).linear(x), x @ weight.t())


@pytest.mark.parametrize("rows", [1, 31, 64])
@pytest.mark.parametrize("low_precision", [False, True])
def test_without_gradients_the_same_values(rows: int, low_precision: bool) -> None:
    torch.manual_seed(0)
    x, weight, bias = torch.randn(2, rows, 16), torch.randn(24, 16), torch.randn(24)
    with torch.no_grad():
        without = linear(x, weight, bias, low_precision=low_precision)
    with_ = linear(x, weight.requires_grad_(), bias, low_precision=low_precision)
    assert with_.requires_grad and torch.equal(without, with_)
