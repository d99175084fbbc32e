"""Averages of weights: over the steps of a run (EMA), and over its last checkpoints.

Contract: both work on named tensors and keep ties, since a tied matrix is stored once. Sums over
checkpoints are formed in float64.

Not in here: which checkpoints, and whether the average is better; `mt.training.ending` validates it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import torch
from torch import Tensor, nn

from mt.errors import CheckpointError
from mt.models.storage import read_tensors
from mt.training.sharding import local


class Ema:
    """An exponential moving average of a model's parameters, or of this process's part of them.

    After update t (the first is 1): ``average = d average + (1 - d) weights`` with
    ``d = min(decay, (1 + t) / (10 + t))``: the small d of early updates forgets the initial weights.
    """

    def __init__(self, model: nn.Module, decay: float) -> None:
        self.decay = decay
        self._parameters = dict(model.named_parameters())
        self.average = self._own()

    @torch.no_grad()
    def update(self, step: int) -> None:
        """Take in the weights after update `step`."""
        decay = min(self.decay, (1 + step) / (10 + step))
        averages = list(self.average.values())
        torch._foreach_lerp_(averages, [local(p.detach()) for p in self._parameters.values()], 1.0 - decay)

    @contextmanager
    def applied(self) -> Iterator[None]:
        """While inside, the model has the averaged weights; afterwards its own again, bit for bit."""
        own = self._own()
        self._assign(self.average)
        try:
            yield
        finally:
            self._assign(own)

    def _own(self) -> dict[str, Tensor]:
        return {name: local(p.detach()).clone() for name, p in self._parameters.items()}

    @torch.no_grad()
    def _assign(self, tensors: Mapping[str, Tensor]) -> None:
        # copy_ and not a swap of storages: it bumps the version counter, so nothing derived stays stale
        for name, parameter in self._parameters.items():
            local(parameter).copy_(tensors[name])


def average_files(paths: Sequence[Path]) -> dict[str, Tensor]:
    """The mean of the tensors of several safetensors files with the same names and shapes.

    Raises:
        CheckpointError: a file cannot be read, or two do not hold the same tensors.
    """
    sums: dict[str, Tensor] = {}
    kinds: dict[str, torch.dtype] = {}
    for path in paths:
        tensors = read_tensors(path)
        if not sums:
            kinds = {name: tensor.dtype for name, tensor in tensors.items()}
            sums = {name: tensor.double() for name, tensor in tensors.items()}
            continue
        if tensors.keys() != sums.keys() or any(tensors[n].shape != sums[n].shape for n in sums):
            raise CheckpointError(
                f"{path} and {paths[0]} do not hold the same tensors; they cannot be averaged"
            )
        for name, tensor in tensors.items():
            sums[name] += tensor
    return {name: (total / len(paths)).to(kinds[name]) for name, total in sums.items()}
