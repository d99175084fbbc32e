"""Scopes: which keys are in reach, whatever the padding (values are compared in test_attention)."""

import pytest
import torch

from mt.attention.scopes import build_scope
from mt.config.schema import ScopeKind

GLOBAL, LOCAL_M, LOCAL_P = ScopeKind["global"], ScopeKind["local_m"], ScopeKind["local_p"]
B, H, T, S, K, WINDOW = 2, 2, 9, 8, 4, 2


def _query():
    return torch.randn(B, H, T, K, generator=torch.Generator().manual_seed(0)) * 3.0


def _real(*lengths, size=S):
    return (torch.arange(size) < torch.tensor(lengths)[:, None])[:, None, None]


def _scope(kind, window=WINDOW):
    torch.manual_seed(0)
    return build_scope(kind, H, K, window)


def test_global_is_every_real_key():
    mask, factor = _scope(GLOBAL)(_query(), torch.arange(T), _real(S, 3))
    assert torch.equal(mask, _real(S, 3)) and factor is None


def test_local_m_is_the_window_around_the_position():
    mask, factor = _scope(LOCAL_M)(_query(), torch.arange(T), _real(S, 3))
    assert factor is None and mask.shape == (B, 1, T, S)
    for t in range(T):
        for b, length in enumerate((S, 3)):
            expected = [s for s in range(length) if abs(s - t) <= WINDOW]
            assert mask[b, 0, t].nonzero().flatten().tolist() == expected
    assert not mask[1, 0, 6].any()  # three words, and the query stands at the seventh: nothing is near


@torch.no_grad()
def test_local_p_is_the_window_around_the_centre():
    scope, query, real = _scope(LOCAL_P), _query(), _real(S, 3)
    centres = scope.centres(query, real)
    mask, factor = scope(query, torch.arange(T), real)
    assert centres.shape == (B, H, T) and mask.shape == factor.shape == (B, H, T, S)
    assert (centres > 0).all() and (centres[0] < S).all() and (centres[1] < 3).all()
    assert centres[0].std() > 0.5  # the query decides
    distance = torch.arange(S) - centres[..., None]
    assert torch.equal(mask, (distance.abs() <= WINDOW) & real)
    torch.testing.assert_close(factor, torch.exp(-(distance**2) / (2 * (WINDOW / 2) ** 2)))
    assert (mask.sum(-1) <= 2 * WINDOW + 1).all()


@pytest.mark.parametrize("kind", [LOCAL_M, LOCAL_P])
@torch.no_grad()
def test_padding_changes_nothing(kind):
    scope, query = _scope(kind), _query()
    short = scope(query, torch.arange(T), _real(5, 3, size=5))
    long = scope(query, torch.arange(T), _real(5, 3, size=20))
    assert torch.equal(short[0], long[0][..., :5]) and not long[0][..., 5:].any()
    if kind is LOCAL_P:
        assert torch.equal(short[1], long[1][..., :5])


@pytest.mark.parametrize("kind", [GLOBAL, LOCAL_M, LOCAL_P])
@torch.no_grad()
def test_positions_of_each_sentence(kind):
    """(B, T) positions, as decoding has them, are those of the sentence."""
    scope, query, real = _scope(kind), _query(), _real(S, 6)
    together = scope(query, torch.arange(T), real)
    positions = torch.stack((torch.arange(T), torch.arange(T).flip(0)))
    query = torch.stack((query[0], query[1].flip(1)))
    apart = scope(query, positions, real)
    for got, expected in zip(apart, together, strict=True):
        if expected is not None and expected.shape[2] == T:
            assert torch.equal(got[0], expected[0]) and torch.equal(got[1], expected[1].flip(1))


@pytest.mark.parametrize("kind", [LOCAL_M, LOCAL_P])
@torch.no_grad()
def test_the_window_matters(kind):
    query, real = _query(), _real(S, S)
    narrow, wide = (_scope(kind, window)(query, torch.arange(T), real)[0] for window in (1, 3))
    assert (narrow <= wide).all() and narrow.sum() < wide.sum()
