"""Packing: real rows go to their place and back, padding reads zero, gradients follow."""

import pytest
import torch

from mt.kernels.packing import Packing

MASKS = {
    "padded": torch.tensor([[1, 1, 1], [1, 0, 0], [1, 1, 0]], dtype=torch.bool),
    "full": torch.ones(2, 4, dtype=torch.bool),
    "one": torch.ones(1, 1, dtype=torch.bool),
    "an empty sentence": torch.tensor([[0, 0], [1, 1]], dtype=torch.bool),
}


@pytest.mark.parametrize("mask", MASKS.values(), ids=MASKS.keys())
@pytest.mark.parametrize("parts", [1, 2, 3])
def test_heads_equals_the_obvious_way(mask, parts):
    heads, size = 2, 5
    rows = torch.randn(int(mask.sum()), parts * heads * size, requires_grad=True)
    padded = torch.zeros(*mask.shape, parts * heads * size)
    padded[mask] = rows
    expected = padded.view(*mask.shape, parts, heads, size).permute(2, 0, 3, 1, 4)
    got = Packing(mask, heads).heads(rows, parts)
    assert torch.equal(got, expected)
    weight = torch.randn_like(expected)
    assert torch.equal(
        torch.autograd.grad((got * weight).sum(), rows)[0],
        torch.autograd.grad((expected * weight).sum(), rows)[0],
    )


@pytest.mark.parametrize("mask", MASKS.values(), ids=MASKS.keys())
def test_rows_undoes_heads_and_sends_no_gradient_to_padding(mask):
    packing = Packing(mask, heads=2)
    rows = torch.randn(int(mask.sum()), 10)
    assert torch.equal(packing.rows(packing.heads(rows)[0]), rows)
    laid = torch.randn(mask.shape[0], 2, mask.shape[1], 5, requires_grad=True)
    packing.rows(laid).sum().backward()
    expected = mask[:, None, :, None].expand_as(laid).float()
    assert torch.equal(laid.grad, expected)


def test_positions_and_select():
    packing = Packing(MASKS["padded"], heads=1)
    assert packing.positions.tolist() == [0, 1, 2, 0, 0, 1]
    ids = torch.arange(9).view(3, 3)
    assert packing.select(ids).tolist() == [0, 1, 2, 3, 6, 7]
