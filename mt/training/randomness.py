"""All randomness of training as a function of where the run stands.

Contract: before each micro-batch PyTorch's generators are seeded from (seed, step, rank, micro), so
dropout is the same whenever that micro-batch is computed. A checkpoint needs no generator state, and a
resumed run draws what the unbroken one drew.

Not in here: the order of the data, which is a function of (seed, epoch) in `mt.data.batches`.
"""

from __future__ import annotations

import hashlib

import torch


def _derive(*numbers: int) -> int:
    """63 well-mixed bits of some integers: neighbouring steps and ranks get unrelated streams."""
    text = ",".join(str(number) for number in numbers)
    return int.from_bytes(hashlib.blake2b(text.encode("ascii"), digest_size=8).digest(), "little") >> 1


def seed_step(seed: int, step: int, rank: int, micro: int) -> None:
    """Seed PyTorch (CPU and CUDA) for one micro-batch.

    Args:
        step: number of the update, from 1. Step 0 is kept for the initial weights.
        micro: index of the micro-batch within the update.
    """
    torch.manual_seed(_derive(seed, step, rank, micro))


def seed_weights(seed: int) -> None:
    """Seed PyTorch for the initial weights; the same on every rank."""
    torch.manual_seed(_derive(seed, 0, 0, 0))
