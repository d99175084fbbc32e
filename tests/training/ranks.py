"""Several processes of one run, forked from the test: what torchrun would start, without its seconds."""

from __future__ import annotations

import multiprocessing
import os
import socket
import sys
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from queue import Empty
from typing import Any

import torch
import torch._dynamo  # every optimizer does: once here instead of once in each process

Work = Callable[[int], Any]


@dataclass(frozen=True)
class Raised:
    """What a rank ended with instead of a result."""

    kind: type[BaseException]
    text: str


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def place(rank: int, size: int, port: int) -> dict[str, str]:
    """The environment that torchrun gives a process."""
    return {
        "RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(size), "LOCAL_WORLD_SIZE": str(size),
        "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port),
    }  # fmt: skip


def run_ranks(size: int, work: Work, *, ends: set[int] | None = None, seconds: float = 60.0) -> list[Any]:
    """Call ``work(rank)`` in `size` processes: what each returns, or `Raised`; None for one not waited for.

    Args:
        ends: the ranks that are waited for, all by default; the others are killed then.
        seconds: how long they may take.
    """
    context = multiprocessing.get_context("fork")
    results: Any = context.Queue()
    port = free_port()

    def child(rank: int) -> None:
        os.setsid()  # a process that is stopped must not be a reason to hang up on pytest's group
        os.environ.update(place(rank, size, port))
        torch.set_num_threads(1)
        try:
            outcome: Any = work(rank)
        except BaseException as error:
            outcome = Raised(type(error), str(error))
            if not isinstance(error, Exception):
                traceback.print_exc(file=sys.stderr)
        try:
            results.put((rank, outcome))
            results.close()
            results.join_thread()
        finally:
            os._exit(0)  # nothing of pytest's runs a second time

    processes = [context.Process(target=child, args=(rank,), daemon=True) for rank in range(size)]
    for process in processes:
        process.start()
    found: dict[int, Any] = {}
    try:
        while not (ends or set(range(size))) <= found.keys():
            try:
                rank, outcome = results.get(timeout=seconds)
            except Empty:
                raise AssertionError(f"after {seconds} s only ranks {sorted(found)} have ended") from None
            found[rank] = outcome
    finally:
        for process in processes:
            process.kill()
            process.join()
    return [found.get(rank) for rank in range(size)]
