"""What is said of a model's attention over a test set: entropy, weight on the end, alignment error.

Contract: numbers of the model as a whole (all layers and heads) and of each layer (the mean of its heads).
The model's alignment error is that of links from the mean over everything: no layer is chosen by looking at
the gold links, so that models can be compared.

Not in here: how the numbers come about (`mt.decoding.forced_attention`, `mt.evaluation.alignment_error`).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Protocol

from mt.evaluation.alignment_error import AlignmentError, Link, alignment_error


class LayerFound(Protocol):
    """A layer's attention (see `mt.decoding.forced_attention.LayerAttention`)."""

    @property
    def entropy(self) -> float: ...

    @property
    def entropy_share(self) -> float: ...

    @property
    def end(self) -> float: ...

    @property
    def links(self) -> Sequence[Collection[Link]]: ...


class Found(Protocol):
    """A model's attention (see `mt.decoding.forced_attention.ForcedAttention`)."""

    @property
    def model(self) -> LayerFound: ...

    @property
    def layers(self) -> Sequence[LayerFound]: ...

    @property
    def cut(self) -> int: ...


class Gold(Protocol):
    """Links that people made (see `mt.data.gold_links.GoldLinks`)."""

    @property
    def sure(self) -> Sequence[Collection[Link]]: ...

    @property
    def possible(self) -> Sequence[Collection[Link]]: ...


@dataclass(frozen=True)
class LayerNumbers:
    """Entropy in nats and as share of log S, weight on the end, and the error if there are gold links."""

    entropy: float
    entropy_share: float
    end: float
    alignment: AlignmentError | None


@dataclass(frozen=True)
class AttentionNumbers:
    """The numbers of a model and of its layers; `cut` segments were longer than it can read."""

    model: LayerNumbers
    layers: list[LayerNumbers]
    cut: int

    @property
    def aer(self) -> float | None:
        """Alignment error rate of the mean over all layers and heads, 0 to 1; None without gold links."""
        return None if self.model.alignment is None else self.model.alignment.aer

    def to_json(self) -> dict[str, Any]:
        """Plain values: the model's, and under ``layers`` those of each layer."""
        layers = [{"layer": number, **asdict(one)} for number, one in enumerate(self.layers, start=1)]
        return {**asdict(self.model), "layers": layers, "cut": self.cut}


def attention_numbers(found: Found, gold: Gold | None) -> AttentionNumbers:
    """The numbers for what was found, with the alignment error where gold links are known."""

    def numbers(layer: LayerFound) -> LayerNumbers:
        error = None if gold is None else alignment_error(layer.links, gold.sure, gold.possible)
        return LayerNumbers(layer.entropy, layer.entropy_share, layer.end, error)

    return AttentionNumbers(numbers(found.model), [numbers(layer) for layer in found.layers], found.cut)
