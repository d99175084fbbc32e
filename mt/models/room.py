"""Is there memory for a model? Asked before it is taken.

A system that promises more memory than it has ends a process that uses it, without a word. So what is known
beforehand, the size of the weights and of what an optimizer keeps for each, is compared with what is free.

Not in here: the memory of a batch, which depends on the data (`mt.training.memory`).
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

import torch
from torch import nn

from mt.errors import ConfigError

_MEMINFO = Path("/proc/meminfo")
# What a container may use at most, in version 2 and 1 of Linux's control groups.
_LIMITS = (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"))
_WAY_OUT = (
    "lower model.width, model.ffn_width, model.encoder_layers, model.decoder_layers or tokenizer.vocab_size"
)


def check_room(needed: int, what: str, device: torch.device) -> None:
    """Refuse what cannot fit into the memory of a device.

    Args:
        needed: bytes.
        what: takes them; the beginning of the message.

    Raises:
        ConfigError: more is needed than is free.
    """
    free = free_bytes(device)
    if free is not None and needed > free:
        raise ConfigError(
            [
                f"{what} {needed / 1e9:,.1f} GB of memory, and {free / 1e9:,.1f} GB are free on {device}; "
                f"{_WAY_OUT}"
            ]
        )


def move(model: nn.Module, device: torch.device) -> None:
    """Take a model from the CPU to its device.

    Raises:
        ConfigError: it does not fit there.
    """
    if device.type != "cpu":
        weights = list(model.parameters())
        needed = sum(weight.numel() * weight.element_size() for weight in weights)
        count = sum(weight.numel() for weight in weights)
        check_room(needed, f"a model of {count:,} parameters takes", device)
    model.to(device)


def free_bytes(device: torch.device) -> int | None:
    """Memory that can still be taken on a device, swap included; None where it is not known."""
    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[0])
    found: list[int] = []
    with suppress(OSError, ValueError, KeyError):
        lines = dict(line.split(":") for line in _MEMINFO.read_text(encoding="ascii").splitlines())
        found.append(sum(1024 * int(lines[name].split()[0]) for name in ("MemAvailable", "SwapFree")))
    for path in _LIMITS:
        with suppress(OSError, ValueError):  # "max" is no number: no limit
            found.append(int(path.read_text(encoding="ascii")))
    if not found:
        with suppress(OSError, ValueError, AttributeError):  # macOS knows all there is, not what is free
            found.append(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    return min(found, default=None)
