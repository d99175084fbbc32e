"""Attention as the papers write it, in NumPy and float64: one query, one key at a time."""

import math

import numpy as np

from mt.config.schema import ScopeKind, ScoreKind


def _matrices(layer, heads):
    """(H, outputs, inputs) of a matrix per head."""
    weight = layer.weight.detach().double().numpy()
    return weight.reshape(heads, -1, weight.shape[1])


def _general(score, head):
    matrix = _matrices(score.matrix, score.heads)[head].T
    return lambda q, k, place: k @ matrix @ q


def _scaled_general(score, head):
    general = _general(score, head)
    return lambda q, k, place: general(q, k, place) / math.sqrt(len(q))


def _additive(score, head):
    w = score.vector.detach().double().numpy()[head]
    of_query = _matrices(score.query_matrix, score.heads)[head]
    of_key = _matrices(score.key_matrix, score.heads)[head]
    return lambda q, k, place: w @ np.tanh(of_query @ q + of_key @ k)


def _concat(score, head):
    v = score.vector.detach().double().numpy()[head]
    parts = [_matrices(part, score.heads)[head] for part in (score.query_matrix, score.key_matrix)]
    matrix = np.concatenate(parts, axis=1)
    return lambda q, k, place: v @ np.tanh(matrix @ np.concatenate([q, k]))


def _location(score, head):
    rows = _matrices(score.places, score.heads)[head]
    return lambda q, k, place: (rows @ q)[place]


# name -> (score module, head) -> score of (query, key, place of the key)
SCORE_ORACLES = {
    ScoreKind.scaled_dot: lambda score, head: lambda q, k, place: float(k @ q) / math.sqrt(len(k)),
    ScoreKind.dot: lambda score, head: lambda q, k, place: float(k @ q),
    ScoreKind.general: _general,
    ScoreKind.scaled_general: _scaled_general,
    ScoreKind.additive: _additive,
    ScoreKind.concat: _concat,
    ScoreKind.location: _location,
    ScoreKind.none: lambda score, head: lambda q, k, place: 0.0,
}


def _everywhere(scope, head):
    return lambda q, position, length: (lambda place: True, lambda place: 1.0)


def _monotonic(scope, head):
    def window(q, position, length):
        return lambda place: position - scope.window <= place <= position + scope.window, lambda place: 1.0

    return window


def _predictive(scope, head):
    matrix = _matrices(scope.matrix, scope.heads)[head]
    vector = _matrices(scope.vector, scope.heads)[head][0]
    deviation = scope.window / 2

    def window(q, position, length):
        centre = length / (1 + math.exp(-float(vector @ np.tanh(matrix @ q))))
        return (
            lambda place: centre - scope.window <= place <= centre + scope.window,
            lambda place: math.exp(-((place - centre) ** 2) / (2 * deviation**2)),
        )

    return window


# name -> (scope module, head) -> (query, its position, real keys) -> (is a place seen?, factor of a place)
SCOPE_ORACLES = {
    ScopeKind["global"]: _everywhere,
    ScopeKind["local_m"]: _monotonic,
    ScopeKind["local_p"]: _predictive,
}


def attention(score_kind, score, scope_kind, scope, q, k, v, mask, lengths):
    """Weights (B, H, T, S) and contexts (B, H, T, C).

    Args:
        score, scope: the modules whose parameters are meant.
        q, k, v: arrays (B, H, length, size).
        mask: bool (B, H, T, S), without the scope.
        lengths: real keys of each sentence.
    """
    weights = np.zeros(mask.shape)
    for b, h, t in np.ndindex(mask.shape[:3]):
        function = SCORE_ORACLES[score_kind](score, h)
        seen, factor = SCOPE_ORACLES[scope_kind](scope, h)(q[b, h, t], t, lengths[b])
        places = [s for s in range(mask.shape[3]) if mask[b, h, t, s] and seen(s)]
        if places:
            scores = np.array([function(q[b, h, t], k[b, h, s], s) for s in places])
            exponentials = np.exp(scores - scores.max())
            shares = exponentials / exponentials.sum()
            weights[b, h, t, places] = shares * np.array([factor(s) for s in places])
    return weights, weights @ v
