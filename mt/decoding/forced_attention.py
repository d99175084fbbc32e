"""What a model looks at while it reads references: how spread its attention is, and which words it links.

Idea: every model reads the same sentences and the same references (teacher forcing), so that the numbers of
two models are about the same words, whatever each would have translated.

    entropy        H = -Σ_s p(s) log p(s) of a row of cross-attention over the source's S pieces, in nats;
                   0 looks at one piece, log S at all alike
    entropy share  H / log S, from 0 to 1, which long and short sentences share
    end            the weight on the end of the source, where models look when no word is needed

Contract: all three are means over the target's positions, the end of the sentence included, and over heads;
the model's are the means of its layers'. Rows that do not sum to 1 (local scopes) are divided by their sum,
rows of zeros and blank sources left out. Links are those of `mt.decoding.alignments.links`.

Not in here: which links are right (`mt.evaluation.alignment_error`).

Shapes: L layers, H heads, T target positions, S source positions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from mt.data.gold_links import Link
from mt.data.tokenizer import Tokenizer
from mt.decoding.alignments import View, attention_shape, attentions, forced_pairs, links, pharaoh
from mt.models.seq2seq import Seq2Seq


@dataclass(frozen=True)
class LayerAttention:
    """Of one layer (its heads' mean), or of the model (the mean of all).

    Attributes:
        entropy: in nats.
        entropy_share: entropy by the largest possible, 0 to 1.
        end: weight on the end of the source, 0 to 1.
        links: of each segment.
    """

    entropy: float
    entropy_share: float
    end: float
    links: list[list[Link]]


@dataclass(frozen=True)
class ForcedAttention:
    """A model's attention over a test set.

    Attributes:
        model: over all layers and heads.
        layers: of each decoder layer, from the first.
        cut: segments whose source or reference is longer than the model can read; the rest has no links.
    """

    model: LayerAttention
    layers: list[LayerAttention]
    cut: int

    def to_json(self) -> dict[str, Any]:
        """Plain values; links as lines in Pharaoh format."""
        both = {"model": [self.model], "layers": self.layers}
        named = {
            key: [{**vars(one), "links": [pharaoh(line) for line in one.links]} for one in each]
            for key, each in both.items()
        }
        return {**named, "cut": self.cut}

    @classmethod
    def from_json(cls, content: dict[str, Any]) -> ForcedAttention:
        """What `to_json` gave.

        Raises:
            KeyError, TypeError, ValueError: it is something else.
        """
        (model,) = (_layer(**each) for each in content["model"])
        return cls(model, [_layer(**each) for each in content["layers"]], int(content["cut"]))


def _layer(entropy: float, entropy_share: float, end: float, links: list[str]) -> LayerAttention:
    pairs = [[(int(s), int(t)) for s, t in (link.split("-") for link in line.split())] for line in links]
    return LayerAttention(float(entropy), float(entropy_share), float(end), pairs)


def forced_attention(
    model: Seq2Seq, tokenizer: Tokenizer, sources: Sequence[str], references: Sequence[str]
) -> ForcedAttention | None:
    """Let a model read references; None of a model without attention, or of nothing but blank sources.

    Args:
        sources, references: cleaned lines, as many of each.
    """
    shape = attention_shape(model)
    if shape is None:
        return None
    layers = shape[0]
    views = [View(), *(View(layer=str(layer + 1)) for layer in range(layers))]
    found: list[list[list[Link]]] = [[[] for _ in sources] for _ in views]
    sums = np.zeros((4, layers))
    pairs = forced_pairs(tokenizer, sources, references, model.max_positions)
    for index, attention in attentions(model, pairs):
        sums += _sums(attention.pieces.values)
        for place, view in enumerate(views):
            found[place][index] = links(view.of(attention).words)
    if not sums[3].all():
        return None
    by_layer: list[list[float]] = (sums[:3] / sums[3]).T.tolist()
    means = [sum(column) / layers for column in zip(*by_layer, strict=True)]
    everything, *each = [
        LayerAttention(entropy, share, end, lines)
        for (entropy, share, end), lines in zip([means, *by_layer], found, strict=True)
    ]
    return ForcedAttention(
        everything,
        each,
        cut=sum(pair.cut for pair in pairs),
    )


def _sums(values: npt.NDArray[np.float32]) -> npt.NDArray[np.float64]:
    """(4, L) for (L, H, T, S): entropy, its share, weight on the end, and number of rows."""
    weights = values.astype(np.float64)
    totals = weights.sum(-1, keepdims=True)
    shares = np.divide(weights, totals, out=np.zeros_like(weights), where=totals > 0)
    logs = np.log(shares, out=np.zeros_like(shares), where=shares > 0)
    entropy = -(shares * logs).sum((1, 2, 3))
    rows = (totals > 0).sum((1, 2, 3))
    return np.stack((entropy, entropy / np.log(values.shape[3]), shares[..., -1].sum((1, 2)), rows))
