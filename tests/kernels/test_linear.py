"""Linear equals PyTorch's; bf16 rounds the products' inputs and nothing else."""

import pytest
import torch
from torch.nn import functional as F

from mt.config.schema import Precision
from mt.kernels import linear as module
from mt.kernels.linear import Linear, linear, set_precision


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
