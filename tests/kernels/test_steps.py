"""A matrix applied step by step: the values and gradients of plain products."""

from __future__ import annotations

import gc
import weakref

import pytest
import torch
from torch import Tensor

from mt.kernels.linear import Linear
from mt.kernels.steps import StepMatrix
from mt.models.rnn_cells import step_matrix


def recurrence(product: object, x: Tensor) -> Tensor:
    """h ← tanh(h M + x_t), which passes every step's gradient to the steps before."""
    h = torch.zeros_like(x[0])
    for row in x:
        h = (product(h) + row).tanh()  # type: ignore[operator]
    return h


@pytest.mark.parametrize("shape", [(3, 3), (2, 1, 3, 3)])
def test_gradients_of_weights_and_of_matrices_for_each_sentence(shape: tuple[int, ...]) -> None:
    torch.manual_seed(0)
    matrix = torch.randn(shape, dtype=torch.float64, requires_grad=True)
    rows = (4, 5, 3) if len(shape) == 2 else (4, 2, 1, 2, 3)
    x = torch.randn(rows, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda m, x: recurrence(StepMatrix(m), x), (matrix, x))
    expected = torch.autograd.grad(recurrence(lambda h: h @ matrix, x).sum(), (matrix, x))
    got = torch.autograd.grad(recurrence(StepMatrix(matrix), x).sum(), (matrix, x))
    torch.testing.assert_close(got, expected)


def test_without_gradient_it_is_the_product() -> None:
    matrix, x = torch.randn(3, 2), torch.randn(5, 3)
    with torch.no_grad():
        torch.testing.assert_close(StepMatrix(matrix)(x), x @ matrix)
    out = StepMatrix(matrix)(x.requires_grad_())
    torch.testing.assert_close(out, x @ matrix)


def test_a_constant_matrix_still_passes_the_gradient_of_its_input() -> None:
    matrix, x = torch.randn(3, 2), torch.randn(5, 3, requires_grad=True)
    StepMatrix(matrix)(x).sum().backward()
    torch.testing.assert_close(x.grad, matrix.sum(1).expand(5, 3))


def test_bf16_rounds_the_inputs_of_the_products_alone() -> None:
    torch.manual_seed(0)
    layer = Linear(64, 64, bias=False)
    x = torch.randn(4, 8, 64)
    exact = recurrence(step_matrix(layer), x)
    (wanted,) = torch.autograd.grad(exact.sum(), layer.weight)
    layer.low_precision = True
    rounded = recurrence(step_matrix(layer), x)
    (got,) = torch.autograd.grad(rounded.sum(), layer.weight)
    assert rounded.dtype == got.dtype == torch.float32
    assert 0.0 < (rounded - exact).abs().max() < 0.05
    assert 0.0 < (got - wanted).norm() / wanted.norm() < 0.05


def test_a_graph_that_is_dropped_is_freed_at_once() -> None:
    """Without waiting for the garbage collector, which does not look into the graph."""
    freed = []
    matrix = torch.randn(3, 3, requires_grad=True)
    gc.disable()
    try:
        steps = StepMatrix(matrix)
        weakref.finalize(steps._products, freed.append, True)
        out = recurrence(steps, torch.randn(4, 5, 3))
        out.sum().backward()
        del steps, out
        assert freed
    finally:
        gc.enable()
