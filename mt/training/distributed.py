"""Several processes of one run, as torchrun starts them: what they tell each other.

Contract: each process (a *rank*) computes the gradient of its own micro-batches; `World.add_gradients` turns
it into that of all of them, so that every rank makes the same update. Whatever decides how a run goes on
(numbers, signals, the clock) is gathered first, so that all ranks decide alike. With one process everything
here does nothing. A rank that is gone or silent ends the others with `LostProcess`. Nothing is unpickled:
numbers travel as float64, text as JSON.

Gradients are added up after the backward pass, not while it runs as DistributedDataParallel does it: that
would hide some of the transfer, but a part that is sent cannot be called back. So a rank that runs out of
memory can begin its pass again, in halves, while the others only wait; and weights keep their names. Only a
model that no process has room for is trained otherwise (`mt.training.sharding`).

Not in here: which batches a rank gets (`mt.data.batches`), and what follows from the numbers.
"""

from __future__ import annotations

import contextlib
import datetime
import json
import logging
import os
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.distributed_c10d import PrefixStore
from torch.distributed.rendezvous import rendezvous

from mt.config.schema import TrainConfig
from mt.errors import ConfigError, MTError
from mt.training.device import choose_device
from mt.training.signals import Halted

logger = logging.getLogger("mt.training.distributed")

_T = TypeVar("_T")

# Gradients are sent in pieces of this many bytes, each of them copied together first.
_PIECE_BYTES = 32 << 20
_WAITED = "mt-first-process-is-ready"


class LostProcess(MTError):
    """Another process of the run ended, or did not answer in time."""


class _Store(Protocol):
    """What processes meet through."""

    def set(self, key: str, value: str) -> None: ...

    def check(self, keys: list[str]) -> bool: ...


@dataclass(frozen=True)
class World:
    """The processes of a run, seen from one of them.

    Attributes:
        rank: this process, below `size`. Rank 0 writes all files and log lines.
        size: how many there are.
        device: where this one's model is.
        store: what the processes met through; None for one process.
    """

    rank: int = 0
    size: int = 1
    device: torch.device = field(default_factory=lambda: torch.device("cpu"))
    store: _Store | None = None

    @property
    def first(self) -> bool:
        """Whether this is the process that writes."""
        return self.rank == 0

    def gather(self, numbers: Sequence[float]) -> list[list[float]]:
        """The numbers of every rank, as many from each, in the order of ranks; the same list everywhere.

        Raises:
            LostProcess: a rank is gone or silent.
        """
        if self.size == 1:
            return [[float(number) for number in numbers]]
        own = torch.tensor(numbers, dtype=torch.float64)
        rows = [torch.empty_like(own) for _ in range(self.size)]
        with loss_noticed():
            dist.all_gather(rows, own)
        return [row.tolist() for row in rows]

    def sums(self, numbers: Sequence[float]) -> list[float]:
        """The sum over the ranks of each number."""
        return [sum(column) for column in zip(*self.gather(numbers), strict=True)]

    def from_first(self, number: float) -> float:
        """Rank 0's number."""
        return self.gather([number])[0][0]

    def gather_texts(self, texts: Sequence[str]) -> list[list[str]]:
        """The texts of every rank, any number from each, in the order of ranks.

        Raises:
            LostProcess: a rank is gone or silent.
        """
        if self.size == 1:
            return [list(texts)]
        content = json.dumps(list(texts)).encode("ascii")
        lengths = [int(row[0]) for row in self.gather([len(content)])]
        own = torch.zeros(max(lengths), dtype=torch.uint8)
        own[: len(content)] = torch.frombuffer(bytearray(content), dtype=torch.uint8)
        rows = [torch.empty_like(own) for _ in lengths]
        with loss_noticed():
            dist.all_gather(rows, own)
        return [json.loads(bytes(row[:n].tolist())) for row, n in zip(rows, lengths, strict=True)]

    def add_gradients(self, parameters: Sequence[nn.Parameter], weight: float) -> None:
        """Replace every gradient by the sum over the ranks of ``weight gradient``, in place.

        Args:
            weight: this rank's share; where the ranks' gradients are means over their own target tokens,
                their tokens divided by all ranks' tokens gives the mean over all.

        Raises:
            LostProcess: a rank is gone or silent.
        """
        if self.size == 1:
            return
        for parameter in parameters:
            if parameter.grad is None:  # all ranks have to send the same
                parameter.grad = torch.zeros_like(parameter)
        gradients = [parameter.grad for parameter in parameters if parameter.grad is not None]
        torch._foreach_mul_(gradients, weight)
        for piece in _pieces(gradients):
            flat = torch.cat([gradient.reshape(-1) for gradient in piece])
            with loss_noticed():
                dist.all_reduce(flat)
            parts = torch.split(flat, [gradient.numel() for gradient in piece])
            for gradient, part in zip(piece, parts, strict=True):
                gradient.copy_(part.view_as(gradient))

    def sum_(self, tensor: Tensor) -> Tensor:
        """The sum of a tensor on `device` over the ranks, in place."""
        if self.size > 1:
            with loss_noticed():
                dist.all_reduce(tensor)
        return tensor

    def share_weights(self, model: nn.Module) -> None:
        """Give every rank the parameters of rank 0."""
        if self.size > 1:
            for parameter in model.parameters():
                with loss_noticed():
                    dist.broadcast(parameter.data, 0)

    def together(self, work: Callable[[], _T]) -> _T:
        """Do work that a signal may break off; broken off on one rank, it is on all.

        Raises:
            Halted: it was.
        """
        if self.size == 1:
            return work()
        try:
            result: list[_T] = [work()]
        except Halted:
            result = []
        if any(halted for (halted,) in self.gather([not result])):
            raise Halted
        return result[0]

    def after_first(self, work: Callable[[], _T]) -> _T:
        """Work that leaves files which the others then find: rank 0 does it before they begin.

        It may take longer than a process is waited for elsewhere.
        """
        if self.store is None:
            return work()
        if self.first:
            result = work()
            self.store.set(_WAITED, "")
            return result
        # Asked again and again: a wait inside of PyTorch could not be ended by a signal.
        with loss_noticed():
            while not self.store.check([_WAITED]):
                time.sleep(0.05)
        return work()

    def come_together(self, what: str, seconds: float) -> bool:
        """Whether all ranks come here with the same `what`, each once, within some seconds of each other.

        Unlike `gather` this does not need the ranks that are elsewhere, in a transfer without this one.
        """
        if self.store is None:
            return True
        self.store.set(f"{what}-{self.rank}", "")
        keys = [f"{what}-{rank}" for rank in range(self.size)]
        end = time.monotonic() + seconds
        with loss_noticed():
            while not self.store.check(keys):
                if time.monotonic() > end:
                    return False
                time.sleep(0.05)
        return True

    def must_agree(self, what: str, sha256: str) -> None:
        """Compare a hash over the ranks.

        Raises:
            ConfigError: they have different ones.
        """
        if len({row[0] for row in self.gather([int(sha256[:12], 16)])}) > 1:
            raise ConfigError(
                [f"the processes of this run have different {what}; all of them must see the same files"]
            )


@contextlib.contextmanager
def joined(config: TrainConfig) -> Iterator[World]:
    """This process's place among those that torchrun started; alone without torchrun.

    Raises:
        ConfigError: the environment describes no such place, or the device cannot be had.
        LostProcess: the others do not come.
    """
    rank, size, local_rank, local_size = (_number(name, default) for name, default in _PLACE)
    if size == 1:
        yield World(device=choose_device(config.device))
        return
    if not 0 <= rank < size or "MASTER_ADDR" not in os.environ or "MASTER_PORT" not in os.environ:
        raise ConfigError(
            [
                f"WORLD_SIZE={size} asks for several processes, but RANK, MASTER_ADDR and MASTER_PORT do not "
                f"say how they meet; start them with torchrun --nproc-per-node={size} -m mt.train ..."
            ]
        )
    device = choose_device(config.device, local_rank, local_size)
    if device.type == "cuda":
        torch.cuda.set_device(device)
    wait = datetime.timedelta(seconds=config.training.timeout_seconds)
    # Numbers and text go by gloo in any case: they are on the CPU, and need not wait for the GPU.
    backend = "cpu:gloo,cuda:nccl" if device.type == "cuda" else "gloo"
    with loss_noticed():
        store, _, _ = next(rendezvous("env://", timeout=wait))
        # torchrun's store outlives a restart of its processes; what the dead ones left must not be found.
        store = PrefixStore(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0"), store)
        dist.init_process_group(backend, store=store, rank=rank, world_size=size, timeout=wait)
    room = logging.getLogger("mt")
    level = room.level
    try:
        if rank:
            room.setLevel(logging.CRITICAL)  # each line once
        yield World(rank, size, device, store)
    except Exception as error:
        if rank and not (isinstance(error, MTError) and error.everywhere):
            room.setLevel(level)
            logger.error("process %d of %d: %s", rank, size, error)
        raise
    else:
        dist.destroy_process_group()
    finally:
        room.setLevel(level)


_PLACE = (("RANK", 0), ("WORLD_SIZE", 1), ("LOCAL_RANK", 0), ("LOCAL_WORLD_SIZE", 1))


def _number(name: str, default: int) -> int:
    text = os.environ.get(name, "")
    try:
        return int(text) if text else default
    except ValueError:
        raise ConfigError(
            [f"the environment's {name}={text} is no number; unset it, or use torchrun"]
        ) from None


def _pieces(tensors: Sequence[Tensor]) -> Iterator[list[Tensor]]:
    """The tensors in order, in lists of one format that are not much larger than is sent at once."""
    piece: list[Tensor] = []
    size = 0
    for tensor in tensors:
        if piece and (size >= _PIECE_BYTES or tensor.dtype != piece[0].dtype):
            yield piece
            piece, size = [], 0
        piece.append(tensor)
        size += tensor.numel() * tensor.element_size()
    if piece:
        yield piece


@contextlib.contextmanager
def loss_noticed() -> Iterator[None]:
    """Turn what PyTorch says about lost processes into one message; only transfers may stand inside."""
    try:
        yield
    except torch.OutOfMemoryError:
        raise
    except RuntimeError as error:
        raise lost_process(error) from error


def is_lost(error: BaseException) -> bool:
    """Whether an error that came out of mixed work is one of a transfer; gloo has no class of its own."""
    return isinstance(error, dist.DistError) or "gloo" in str(error)


def lost_process(error: BaseException) -> LostProcess:
    """What a user is told when a transfer failed with `error`."""
    reason = str(error).splitlines()[0][:200]
    return LostProcess(
        "another process of this run ended or did not answer; what it or torchrun says tells why. "
        f"Everything up to the last checkpoint is safe: the same command goes on from there ({reason})"
    )
