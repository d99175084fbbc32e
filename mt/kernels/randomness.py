"""Randomness of a part of a model that leaves the rest of it as it is.

Contract: what is drawn inside `apart` does not change what is drawn after it, so that two models that
differ in one part start from the same values everywhere else.

Not in here: the randomness of training (`mt.training.randomness`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def apart() -> Iterator[None]:
    """Inside, PyTorch's CPU generator has a seed made of its state; afterwards that state is back.

    Without a new seed, the part inside would draw the very numbers that the next part will draw.
    """
    state = torch.random.get_rng_state().numpy().tobytes()
    seed = int.from_bytes(hashlib.blake2b(state, digest_size=8).digest(), "little") >> 1
    with torch.random.fork_rng(devices=[]):
        torch.set_rng_state(torch.Generator().manual_seed(seed).get_state())
        yield
