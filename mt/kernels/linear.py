"""Matrix products: the one `Linear` of the project, and the choice of the arithmetic behind it.

Contract: `Linear` is `torch.nn.Linear` in every respect but two, both on the CPU only:

* **bf16 products.** With ``precision=bf16`` the inputs of the three products (forward, gradient of the
  input, gradient of the weight) are bfloat16, and so are their results (the sums within are fp32);
  everything between the products stays fp32. Autocast of the whole model also rounds the elementwise
  work, which gains nothing on a CPU and was measured slower.
* **oneDNN instead of MKL on AMD with AVX-512.** MKL runs its AVX2 kernels there; oneDNN's are about
  twice as fast and still exact fp32. PyTorch reaches them through
  ``set_float32_matmul_precision("medium")``, which is switched on around the product alone, since on
  Intel it would round and elsewhere in the model it slows fused attention down.

oneDNN makes a program for every new shape, which takes as long as the product of a small batch (0.5 ms).
Batches have any number of rows, so rows of zeros round the number up: a few shapes come again and again.

On CUDA the precision is set by autocast (see `mt.training.step`), not here.
"""

from __future__ import annotations

import functools
import math
import platform
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from mt.config.schema import Precision


@functools.cache
def onednn_is_faster() -> bool:
    """Whether fp32 products should go through oneDNN here: an AMD processor with AVX-512, and exact."""
    if platform.system() != "Linux" or torch.backends.cpu.get_cpu_capability() != "AVX512":
        return False
    try:
        vendor = "AuthenticAMD" in Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False
    if not (vendor and torch.backends.mkldnn.is_available()):  # type: ignore[no-untyped-call]
        return False
    # The switch permits rounding to bf16; whether this machine then rounds is seen, not assumed.
    sample = torch.linspace(-1.0, 1.0, 64 * 64).view(64, 64)
    with _onednn(True):
        product = sample @ sample
    return torch.allclose(product.double(), sample.double() @ sample.double(), atol=1e-5)


def is_cpu_fp32(x: Tensor) -> bool:
    """Whether a tensor is of the kind that this module has its own ways for."""
    return x.device.type == "cpu" and x.dtype == torch.float32


@contextmanager
def _onednn(on: bool) -> Iterator[None]:
    """Send fp32 products inside the block through oneDNN."""
    if not on:
        yield
        return
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("medium")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)


# Rows are rounded up to a multiple of this, where that costs less than another program of oneDNN's.
_MULTIPLE = 32
_COPY_BELOW = 2048


def rounded(x: Tensor, low_precision: bool) -> Tensor:
    """x (N, K) as an operand of `multiply`: in the products' format, with rows of zeros at the end."""
    rows, columns = x.shape
    dtype = torch.bfloat16 if low_precision else x.dtype
    total = -(-rows // _MULTIPLE) * _MULTIPLE
    if total == rows or (dtype == x.dtype and (rows >= _COPY_BELOW or not onednn_is_faster())):
        return x.to(dtype)
    out = x.new_empty((total, columns), dtype=dtype)
    out[:rows] = x
    out[rows:] = 0.0
    return out


def multiply(a: Tensor, b: Tensor) -> Tensor:
    """``a @ b`` (2-D), in the operands' format, by the fastest exact way."""
    if not is_cpu_fp32(a):
        return a @ b
    with _onednn(onednn_is_faster()):
        return a @ b


class _Product(torch.autograd.Function):
    """``x Wᵀ + b`` on the CPU with all three products of forward and backward through `multiply`."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None, low_precision: bool) -> Tensor:
        # Kept as rounded, for a second time in the backward pass: no second conversion, half the memory.
        operand, matrix = rounded(x, low_precision), weight.bfloat16() if low_precision else weight
        ctx.save_for_backward(operand, matrix)
        ctx.low_precision = low_precision
        return _affine(operand, matrix.t(), bias, x)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:
        operand, matrix = ctx.saved_tensors
        dtype, rows = grads[0].dtype, grads[0].shape[0]
        grad = rounded(grads[0], ctx.low_precision)
        grad_x = grad_weight = grad_bias = None
        if ctx.needs_input_grad[0]:
            grad_x = multiply(grad, matrix)[:rows].to(dtype)
        if ctx.needs_input_grad[1]:
            grad_weight = multiply(grad.t(), operand).to(dtype)
        if ctx.needs_input_grad[2]:
            grad_bias = grads[0].sum(0)
        return grad_x, grad_weight, grad_bias, None


def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None, *, low_precision: bool = False) -> Tensor:
    """``x Wᵀ + b``: x (..., I), weight (O, I), bias (O,) → (..., O); see the module for `low_precision`."""
    if not (is_cpu_fp32(x) and (low_precision or onednn_is_faster())):
        return F.linear(x, weight, bias)
    rows = x.reshape(-1, x.shape[-1])
    if torch.is_grad_enabled():
        out: Tensor = _Product.apply(rows, weight, bias, low_precision)  # type: ignore[no-untyped-call]
    else:
        matrix = weight.bfloat16() if low_precision else weight
        out = _affine(rounded(rows, low_precision), matrix.t(), bias, rows)
    return out.view(*x.shape[:-1], weight.shape[0])


def _affine(operand: Tensor, columns: Tensor, bias: Tensor | None, like: Tensor) -> Tensor:
    """``operand · columns + bias`` without the rows that rounding added, in the format of `like`."""
    out = multiply(operand, columns)[: like.shape[0]].to(like.dtype)
    # In place: a new tensor costs three times as much.
    return out if bias is None else out.add_(bias)


class Columns:
    """A weight (O, I) transposed and laid out anew, for many products of few rows with a large matrix.

    For the products of an output layer in beam search (some hundred rows, 8,000 columns) oneDNN then takes
    a fifth less time. It is a copy: to be made anew after every change of the weight (whose version
    counter does not tell: fused optimizers leave it alone).
    """

    def __init__(self, weight: Tensor) -> None:
        self._columns = weight.detach().t().contiguous()

    def linear(self, x: Tensor) -> Tensor:
        """``x Wᵀ`` for x (N, I), without gradients."""
        return _affine(rounded(x, False), self._columns, None, x)


class Linear(nn.Module):
    """``y = x Wᵀ + b`` with Xavier-uniform weights and zero biases (Glorot & Bengio 2010).

    Args:
        inputs: I, size of the last axis of x.
        outputs: size of the last axis of y.
        parts: how many independent matrices are stacked in W (3 for query, key and value in one
            product); each part is initialised by its own fan-in and fan-out, and updated on its own
            by optimizers that look at whole matrices.
    """

    def __init__(self, inputs: int, outputs: int, *, bias: bool = True, parts: int = 1) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(outputs, inputs))
        self.bias = nn.Parameter(torch.zeros(outputs)) if bias else None
        self.parts = parts
        self.low_precision = False
        bound = math.sqrt(6.0 / (inputs + outputs / parts))
        nn.init.uniform_(self.weight, -bound, bound)

    def forward(self, x: Tensor) -> Tensor:
        return linear(x, self.weight, self.bias, low_precision=self.low_precision)


def set_precision(model: nn.Module, precision: Precision) -> None:
    """Choose the arithmetic of every `Linear` in `model` on the CPU; fp16 has no CPU arithmetic here."""
    for module in model.modules():
        if isinstance(module, Linear):
            module.low_precision = precision is Precision.bf16
