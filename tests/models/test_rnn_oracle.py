"""Recurrent models against the papers' equations, written out in NumPy for one sentence at a time."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch
from torch.func import functional_call

from mt.config.schema import Cell, Feed, Readout, ScoreKind, Start, StateIndex
from mt.models.rnn import Rnn
from tests.models.rnn_world import VARIANTS, batch, make, name_of

Array = npt.NDArray[np.float64]
N = 8  # size of a decoder state
M = 4  # size of an encoder state of one direction


def sigmoid(x: Array) -> Array:
    return np.asarray(1.0 / (1.0 + np.exp(-x)))


def softmax(x: Array) -> Array:
    e = np.exp(x - x.max())
    return np.asarray(e / e.sum())


class Weights:
    """A model's parameters by name as float64 arrays."""

    def __init__(self, model: Rnn) -> None:
        self.arrays = {name: p.detach().numpy() for name, p in model.named_parameters()}

    def __getitem__(self, name: str) -> Array:
        return self.arrays[name]


def gru(w: Weights, cell: str, x: Array, s: Array, extra: Array | None, n: int) -> Array:
    """Bahdanau et al. 2015, App. A.1.1: reset gate before U, z picks the new state."""
    wz, wr, wh = w[f"{cell}.input.weight"].reshape(3, n, -1)
    bz, br, bh = w[f"{cell}.input.bias"].reshape(3, n)
    (gz, gr), gh = w[f"{cell}.recurrent.weight"].reshape(2, n, -1), w[f"{cell}.candidate.weight"]
    uz, ur, uh = gz[:, :n], gr[:, :n], gh[:, :n]
    c = np.zeros(0) if extra is None else extra
    cz, cr, ch = gz[:, n:], gr[:, n:], gh[:, n:]
    z = sigmoid(wz @ x + uz @ s + cz @ c + bz)
    r = sigmoid(wr @ x + ur @ s + cr @ c + br)
    proposal = np.tanh(wh @ x + uh @ (r * s) + ch @ c + bh)
    return np.asarray((1 - z) * s + z * proposal)


def lstm(
    w: Weights, cell: str, x: Array, h: Array, c: Array, extra: Array | None, n: int
) -> tuple[Array, Array]:
    """Hochreiter & Schmidhuber 1997 with a forget gate, one bias a gate."""
    joined = h if extra is None else np.concatenate([h, extra])
    gates = w[f"{cell}.input.weight"] @ x + w[f"{cell}.input.bias"] + w[f"{cell}.recurrent.weight"] @ joined
    i, f, g, o = gates.reshape(4, n)
    c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
    return sigmoid(o) * np.tanh(c), c


def rnnsearch(model: Rnn, source: list[int], target: list[int], seen: StateIndex) -> tuple[Array, Array]:
    """Logits (T, V) and weights (T, S) of Bahdanau et al. 2015, App. A.2, in its own order of steps."""
    w = Weights(model)
    embedded = w["source_embedding.weight"][source]
    forward, backward = [], []
    s = np.zeros(M)
    for x in embedded:
        s = gru(w, "encoder.layers.0.0", x, s, None, M)
        forward.append(s)
    s = np.zeros(M)
    for x in embedded[::-1]:
        s = gru(w, "encoder.layers.0.1", x, s, None, M)
        backward.insert(0, s)
    h = [np.concatenate(pair) for pair in zip(forward, backward, strict=True)]
    s = np.tanh(w["decoder.start.weight"] @ backward[0] + w["decoder.start.bias"])
    wa, ua = w["decoder.score.query_matrix.weight"], w["decoder.score.key_matrix.weight"]
    va = w["decoder.score.vector"][0]
    mix = w["decoder.readout.mix.weight"]
    co, uo = mix[:, : 2 * M], mix[:, 2 * M :]
    vo, bo = w["decoder.readout.embedding.weight"], w["decoder.readout.embedding.bias"]
    logits, weights = [], []
    for y in target:
        e = np.array([va @ np.tanh(wa.reshape(-1, N) @ s + ua.reshape(-1, 2 * M) @ hj) for hj in h])
        alpha = softmax(e)
        c = sum(a * hj for a, hj in zip(alpha, h, strict=True))
        before, ey = s, w["target_embedding.weight"][y]
        s = gru(w, "decoder.layers.0", ey, s, np.asarray(c), N)
        t = uo @ (s if seen is StateIndex.current else before) + vo @ ey + co @ c + bo
        logits.append(w["output.weight"] @ np.maximum(t[0::2], t[1::2]))
        weights.append(alpha)
    return np.array(logits), np.array(weights)


@pytest.mark.parametrize("seen", list(StateIndex))
def test_rnnsearch_is_the_equations_of_bahdanau_2015(seen: StateIndex) -> None:
    model = make(
        ScoreKind.additive,
        cell=Cell.gru,
        query=StateIndex.previous,
        feed=Feed.context_in_gates,
        readout=Readout.maxout,
        readout_state=seen,
    )
    check(model, lambda source, target: rnnsearch(model, source, target, seen))


def luong(model: Rnn, source: list[int], target: list[int]) -> tuple[Array, Array]:
    """Logits and weights of Luong et al. 2015, §3 and §3.3, score general, two layers, source reversed."""
    w = Weights(model)
    states = []
    layers = [(np.zeros(N), np.zeros(N))] * 2
    for x in w["source_embedding.weight"][source[::-1]]:
        below = x
        for number in range(2):
            layers[number] = lstm(w, f"encoder.layers.{number}.0", below, *layers[number], None, N)
            below = layers[number][0]
        states.insert(0, below)
    wa = w["decoder.score.matrix.weight"].reshape(N, N)  # on the keys' side: Wᵀ k
    fed = np.zeros(6)
    logits, weights = [], []
    for y in target:
        below = w["target_embedding.weight"][y]
        for number in range(2):
            extra = None if number else fed
            layers[number] = lstm(w, f"decoder.layers.{number}", below, *layers[number], extra, N)
            below = layers[number][0]
        alpha = softmax(np.array([(wa @ hs) @ below for hs in states]))
        c = sum(a * hs for a, hs in zip(alpha, states, strict=True))
        fed = np.tanh(w["decoder.readout.mix.weight"] @ np.concatenate([np.asarray(c), below]))
        logits.append(w["output.weight"] @ fed)
        weights.append(alpha)
    return np.array(logits), np.array(weights)


def test_input_feeding_is_the_equations_of_luong_2015() -> None:
    model = make(
        ScoreKind.general,
        layers=2,
        bidirectional=False,
        reverse_source=True,
        cell=Cell.lstm,
        start=Start.copy,
        query=StateIndex.current,
        feed=Feed.input_feeding,
        readout=Readout.tanh,
    )
    check(model, lambda source, target: luong(model, source, target))


def check(model: Rnn, oracle: Any) -> None:
    """The model's logits and weights on a padded batch are the oracle's on each sentence."""
    source, source_mask, target, target_mask = batch()
    hidden = model(source, source_mask, target, target_mask)
    got = model.logits(hidden).detach().split(target_mask.sum(1).tolist())
    attention = model.cross_attention(source, source_mask, target)[:, 0, 0]
    for row, logits in enumerate(got):
        words = source[row][source_mask[row]].tolist()
        expected, weights = oracle(words, target[row][target_mask[row]].tolist())
        np.testing.assert_allclose(logits.numpy(), expected, rtol=1e-9, atol=1e-10)
        found = attention[row, : len(weights), : len(words)].numpy()
        np.testing.assert_allclose(found, weights, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("variant", VARIANTS, ids=name_of)
def test_gradients_are_right(variant: dict[str, Any]) -> None:
    """Against differences of the values, in random directions of all weights together."""
    # The two ways a score's gradient comes back, in turn: its own, and that of a matrix applied at each step.
    score = (ScoreKind.additive, ScoreKind.general)[VARIANTS.index(variant) % 2]
    model = make(score, layers=2, **variant)
    source, source_mask, target, target_mask = batch()
    names = [name for name, _ in model.named_parameters()]
    fixed = torch.randn(int(target_mask.sum()), 21, dtype=torch.float64)

    def loss(*weights: torch.Tensor) -> torch.Tensor:
        hidden = functional_call(
            model, dict(zip(names, weights, strict=True)), (source, source_mask, target, target_mask)
        )
        return (hidden @ weights[names.index("output.weight")].t() * fixed).sum()

    weights = tuple(p.detach().clone().requires_grad_() for p in model.parameters())
    assert torch.autograd.gradcheck(loss, weights, fast_mode=True, atol=1e-6)
