"""What is done about memory: the largest batch is tried first, and a batch that does not fit is halved.

Contract: halves have the gradient of the whole, because the loss is a sum over tokens; nothing is left out.

Not in here: the pass itself (`mt.training.step`), and how much memory was used (`mt.training.device`).
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import nn

from mt.data.batches import Batch, Indices
from mt.data.store import TokenStore
from mt.errors import MTError


class OutOfMemory(MTError):
    """One sentence pair alone does not fit into memory."""

    everywhere = True


def is_out_of_memory(error: BaseException) -> bool:
    """Whether PyTorch says that there is no memory left; its CPU allocator raises a bare RuntimeError."""
    return isinstance(error, (torch.OutOfMemoryError, MemoryError)) or "DefaultCPUAllocator" in str(error)


def halved(batches: Sequence[Batch]) -> list[Batch] | None:
    """The batches with the largest ones halved; None when each holds one pair only."""
    splittable = [batch.target_input.numel() for batch in batches if len(batch.source) > 1]
    if not splittable:
        return None
    largest = max(splittable)
    return [
        half
        for batch in batches
        for half in (
            batch.split() if len(batch.source) > 1 and 2 * batch.target_input.numel() > largest else (batch,)
        )
    ]


def largest_batch(plan: Sequence[Indices], store: TokenStore) -> Indices:
    """The batch of a plan with the most positions."""
    return max(plan, key=lambda batch: positions(batch, store))


def positions(batch: Indices, store: TokenStore) -> int:
    """Positions of a batch, source and target, padding included."""
    longest = int(store.source_lengths[batch].max()) + int(store.target_lengths[batch].max()) + 2
    return len(batch) * longest


def optimizer_room(model: nn.Module, device: torch.device) -> list[torch.Tensor]:
    """As much memory as an optimizer takes from its first update on: two moments of every parameter."""
    if device.type == "cpu":  # memory that is not written to is not taken
        return []
    return [torch.empty_like(p) for p in model.parameters() for _ in range(2)]
