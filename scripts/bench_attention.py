#!/usr/bin/env python3
"""Speed and memory of the attention scores, side by side: each in every place of the small Transformer.

    python scripts/bench_attention.py --scores scaled_dot,additive --lengths short,256

All sides train on the same batches of random pieces: forward, loss, backward, clipping, update. ``short``
has the lengths of captions (Multi30k's: 15 pieces on average, 5 to 40; batches hold pairs of like length,
as in training); a number is one length for every sentence, source and target. Each side lives in its own
process, so that peak memory is its own; they take turns, a block of a few steps each (A B A B …), because
machines are noisy and only ratios taken in one run count. The first block is not counted. Reported are
medians over the blocks, tokens of the target without padding, and ratios to the first score named; the
ratio of CPU times is what other work on the machine disturbs least (with --threads 1: threads that wait
for each other take time too).
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import statistics
import sys
import time
from collections.abc import Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

VOCABULARY = 8000


def lengths_of(name: str) -> tuple[list[int], list[int]]:
    """Source and target lengths of the sentences of one batch after the other, sorted as in training."""
    import numpy as np

    if name != "short":
        return [int(name)] * 10_000, [int(name)] * 10_000
    generator = np.random.default_rng(0)
    target = generator.normal(15.0, 4.5, 20_000).round().clip(5, 40).astype(int)
    source = (target + generator.normal(0.0, 2.0, len(target)).round()).clip(5, 40).astype(int)
    order = np.lexsort((source, target))
    return source[order].tolist(), target[order].tolist()


class Side:
    """One score's model and update."""

    def __init__(self, score: str, lengths: str, arguments: argparse.Namespace) -> None:
        import torch

        from mt.config.schema import AttentionConfig, ModelConfig, OptimizerConfig, Precision, ScoreKind
        from mt.kernels.linear import set_precision
        from mt.models.build import build_model
        from mt.training.device import choose_precision, tune_process
        from mt.training.optimizer import Updater

        tune_process()
        torch.set_num_threads(arguments.threads)
        torch.manual_seed(1)
        attention = AttentionConfig(score=ScoreKind[score])
        model = ModelConfig(dropout=0.1, max_positions=max(512, *lengths_of(lengths)[0]))
        self.model = build_model(model, attention, VOCABULARY, VOCABULARY)
        precision = choose_precision(Precision[arguments.precision], torch.device("cpu"))
        self.low = precision is Precision.bf16
        set_precision(self.model, precision)
        self.updater = Updater(self.model, OptimizerConfig())
        self.batches = self._batches(lengths, arguments.batch_tokens)

    def _batches(self, name: str, tokens: int) -> list[tuple[Any, Any, Any, Any]]:
        """Some batches from all over the lengths, in an order of their own."""
        import torch

        source, target = lengths_of(name)
        batches, begin = [], 0
        while begin < len(target):
            end = begin + 1
            while end < len(target) and (end + 1 - begin) * max(target[begin : end + 1]) <= tokens:
                end += 1
            batches.append((source[begin:end], target[begin:end]))
            begin = end
        generator = torch.Generator().manual_seed(2)
        order = torch.randperm(len(batches) - 1, generator=generator)[:24].tolist()
        return [self._padded(generator, *batches[i]) for i in order]

    def _padded(self, generator: Any, *sides: list[int]) -> tuple[Any, Any, Any, Any]:
        import torch

        out = []
        for lengths in sides:
            mask = torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]
            ids = torch.randint(4, VOCABULARY, mask.shape, generator=generator)
            out += [ids.masked_fill(~mask, 0), mask]
        return out[0], out[1], out[2], out[3]

    def block(self, start: int, steps: int) -> dict[str, float]:
        """`steps` updates, from batch number `start` on."""
        import torch

        from mt.training.device import peak_memory_bytes
        from mt.training.loss import label_smoothed_loss

        tokens, begin, cpu = 0, time.perf_counter(), time.process_time()
        for number in range(start, start + steps):
            source, source_mask, target, target_mask = self.batches[number % len(self.batches)]
            hidden = self.model(source, source_mask, target, target_mask)
            wanted = target[target_mask]
            loss, _ = label_smoothed_loss(
                hidden, self.model.output_weight, None, wanted, 0.1, low_precision=self.low
            )
            (loss / wanted.numel()).backward()
            self.updater.clip(1.0, self.updater.gradient_norm())
            self.updater.optimizer.step()
            self.updater.optimizer.zero_grad()
            tokens += wanted.numel()
        return {
            "seconds": time.perf_counter() - begin,
            "cpu_seconds": time.process_time() - cpu,
            "tokens": tokens,
            "peak_mb": peak_memory_bytes(torch.device("cpu")) / 2**20,
        }


def serve(connection: Connection, score: str, lengths: str, arguments: argparse.Namespace) -> None:
    """A side's process: answers each (start, steps) with a block."""
    side = Side(score, lengths, arguments)
    connection.send("ready")
    while (order := connection.recv()) is not None:
        connection.send(side.block(*order))


def measure(lengths: str, arguments: argparse.Namespace) -> dict[str, dict[str, float]]:
    """All scores at one kind of lengths."""
    context = multiprocessing.get_context("spawn")
    sides = {}
    for score in arguments.scores:
        here, there = context.Pipe()
        process = context.Process(target=serve, args=(there, score, lengths, arguments), daemon=True)
        process.start()
        there.close()
        here.recv()
        sides[score] = (process, here)
    blocks: dict[str, list[dict[str, float]]] = {score: [] for score in sides}
    for number in range(arguments.rounds + 1):
        for score, (_, connection) in sides.items():
            connection.send((number * arguments.steps, arguments.steps))
            block = connection.recv()
            if number:
                blocks[score].append(block)
    for process, connection in sides.values():
        connection.send(None)
        process.join()
    first = blocks[arguments.scores[0]]
    out = {}
    for score, own in blocks.items():
        ratios = [a["seconds"] / b["seconds"] for a, b in zip(first, own, strict=True)]
        cpu = [a["cpu_seconds"] / b["cpu_seconds"] for a, b in zip(first, own, strict=True)]
        out[score] = {
            "tokens_per_second": statistics.median(b["tokens"] / b["seconds"] for b in own),
            "speed_ratio": statistics.median(ratios),
            "cpu_ratio": statistics.median(cpu),
            "peak_mb": own[-1]["peak_mb"],
            "memory_ratio": own[-1]["peak_mb"] / first[-1]["peak_mb"],
        }
    return out


def parser() -> argparse.ArgumentParser:
    """The command line."""
    options = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0], allow_abbrev=False)
    options.add_argument(
        "--scores",
        type=lambda text: text.split(","),
        default=["scaled_dot", "dot", "general", "additive", "concat", "location", "none"],
        help="the first is what the others are compared with (default: all)",
    )
    options.add_argument(
        "--lengths", default="short,256", help="short and whole numbers (default: %(default)s)"
    )
    options.add_argument("--precision", default="auto", help="auto, fp32 or bf16 (default: %(default)s)")
    options.add_argument(
        "--batch-tokens", type=int, default=4096, help="target tokens with padding (default: %(default)s)"
    )
    options.add_argument("--rounds", type=int, default=5, help="blocks of each side (default: %(default)s)")
    options.add_argument("--steps", type=int, default=3, help="steps in a block (default: %(default)s)")
    options.add_argument("--threads", type=int, default=2, help="CPU threads (default: %(default)s)")
    options.add_argument("--output", default=None, help="write what was measured to this JSON file")
    return options


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the benchmark and prints a table for each kind of lengths."""
    arguments = parser().parse_args(argv)
    results = {}
    for lengths in arguments.lengths.split(","):
        results[lengths] = measure(lengths, arguments)
        head = (
            f"{'lengths ' + lengths:<16}{'tok/s':>8}{'ratio':>8}{'CPU ratio':>11}{'peak MB':>9}{'ratio':>8}"
        )
        print(head)
        for score, row in results[lengths].items():
            print(
                f"{score:<16}{row['tokens_per_second']:>8.0f}{row['speed_ratio']:>8.2f}"
                f"{row['cpu_ratio']:>11.2f}{row['peak_mb']:>9.0f}{row['memory_ratio']:>8.2f}",
                flush=True,
            )
    if arguments.output is not None:
        Path(arguments.output).write_text(
            json.dumps(results, indent=2) + "\n", encoding="utf-8", newline="\n"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
