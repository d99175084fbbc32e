#!/usr/bin/env python3
"""Training speed of recurrent models: ours and OpenNMT-py's at equal sizes, beside bench_train's yardstick.

    python scripts/bench_rnn.py --root DATA --hf-python HF/bin/python --onmt-python ONMT/bin/python

The model: one bidirectional LSTM layer, one LSTM decoder layer with input feeding, embeddings of 256, states
of 256 or 512 (of both directions together in the encoder), nothing tied, dropout 0.1; score additive
(OpenNMT-py calls it mlp) or general. Batches, turns, processes and units are those of `bench_train.py`: every
side trains the same batches of Multi30k fr-en, a block of steps each in turn, and only ratios of one run
count.

The Hugging Face side is the Transformer of `bench_train.py`, a yardstick that many have installed; it needs
`transformers`, OpenNMT-py (3.5) needs no more than to be importable in its environment. A side without its
Python is left out.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import statistics
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))

import bench_train as bench

EMBEDDING = 256


def name_parts(side: str) -> tuple[str, str, int]:
    """Toolkit (or our precision), score and size of a side's name, such as ``fp32-additive-256``."""
    who, score, size = side.split("-")
    return who, score, int(size)


class Ours(bench.Ours):
    """Our trainer with a recurrent model."""

    def __init__(self, shape: bench.Shape, arguments: argparse.Namespace) -> None:
        from mt.config import schema

        precision, score, size = name_parts(arguments.side)
        super().__init__(shape, arguments, precision, compiled=False)
        self.config.model = schema.ModelConfig(
            kind=schema.ModelKind.rnn,
            width=size,
            encoder_layers=1,
            decoder_layers=1,
            dropout=shape.dropout,
            tie_embeddings=schema.TieEmbeddings.none,
            rnn=schema.RnnConfig(embedding_width=EMBEDDING, encoder_width=size // 2, start=schema.Start.copy),
        )
        self.config.attention = schema.AttentionConfig(score=schema.ScoreKind[score])


class OpenNmt(bench.BareLoop):
    """OpenNMT-py's encoder and decoder."""

    def __init__(self, shape: bench.Shape, arguments: argparse.Namespace) -> None:
        import torch
        from onmt.decoders.decoder import InputFeedRNNDecoder
        from onmt.encoders.rnn_encoder import RNNEncoder
        from onmt.models import NMTModel
        from onmt.modules import Embeddings

        super().__init__(shape, Path(arguments.folder))
        _, score, size = name_parts(arguments.side)

        def embeddings() -> Any:
            return Embeddings(EMBEDDING, shape.vocabulary, bench.PAD, dropout=shape.dropout)

        encoder = RNNEncoder("LSTM", True, 1, size, shape.dropout, embeddings())
        decoder = InputFeedRNNDecoder(
            "LSTM",
            True,
            1,
            size,
            attn_type={"additive": "mlp", "general": "general"}[score],
            dropout=shape.dropout,
            embeddings=embeddings(),
        )
        self.model = NMTModel(encoder, decoder)
        self.generator = torch.nn.Linear(size, shape.vocabulary)
        self.trains(self.model, self.generator)

    def logits(self, source: Any, first: Any, target: Any) -> Any:
        import torch

        hidden, _ = self.model(
            source[:, :, None],
            torch.cat([first, target], dim=1)[:, :, None],
            (source != bench.PAD).sum(1),
        )
        return self.generator(hidden)


def make_side(arguments: argparse.Namespace, shape: bench.Shape) -> bench.Side:
    """The work that this process was started for."""
    if arguments.side == "hf":
        return bench.HuggingFace(shape, Path(arguments.folder))
    if arguments.side.startswith("onmt-"):
        return OpenNmt(shape, arguments)
    sys.path.insert(0, str(bench.REPOSITORY))
    return Ours(shape, arguments)


def sides_of(arguments: argparse.Namespace) -> dict[str, str]:
    """Names of the sides and the Python of each, those of one size and score together."""
    sides = {"hf": arguments.hf_python} if arguments.hf_python else {}
    for size in arguments.sizes.split(","):
        for score in arguments.scores.split(","):
            if arguments.onmt_python:
                sides[f"onmt-{score}-{size}"] = arguments.onmt_python
            for precision in arguments.precision.split(","):
                sides[f"{precision}-{score}-{size}"] = sys.executable
    return sides


def measure(arguments: argparse.Namespace, shape: bench.Shape) -> dict[str, Any]:
    """Prepares the data, lets the sides work in turn, and sums up."""
    sys.path.insert(0, str(bench.REPOSITORY))
    from mt.data.batches import plan_epoch
    from mt.data.preparation import prepare

    config = bench.our_config(arguments, shape, "fp32", compiled=False)
    train = prepare(config.data, config.tokenizer, config.model.max_positions).train
    plan = plan_epoch(
        train.source_lengths, train.target_lengths, batch_tokens=shape.batch_tokens, seed=shape.seed, epoch=0
    )
    warmup, steps, rounds = arguments.warmup, arguments.steps, arguments.rounds
    used = plan[: warmup + rounds * steps]
    if len(used) < warmup + rounds * steps:
        raise SystemExit(f"error: an epoch has only {len(plan)} batches; take fewer steps or rounds")
    expected = [int((train.target_lengths[indices] + 1).sum()) for indices in used]
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        bench.store_batches(train, used, Path(folder) / "batches.npz")
        workers = []
        for name, python in sides_of(arguments).items():
            workers.append(bench.Worker(name, python, arguments, Path(folder), Path(__file__)))
            stack.callback(workers[-1].close)
        for worker in workers:
            if warmup:
                worker.run(0, warmup, counted=False)
        for number in range(rounds):
            start = warmup + number * steps
            for worker in workers:
                block = worker.run(start, steps)
                if block["tokens"] != sum(expected[start : start + steps]):
                    raise SystemExit(f"error: {worker.name} trained {block['tokens']} tokens, not the plan's")
            speeds = [f"{w.name} {w.blocks[-1]['tokens'] / w.blocks[-1]['seconds']:.0f}" for w in workers]
            print(f"round {number + 1}/{rounds}, tok/s: {', '.join(speeds)}", file=sys.stderr)
    blocks = {worker.name: worker.blocks for worker in workers}
    return {
        "sides": {name: summed_up(name, blocks) for name in blocks},
        "settings": {"warmup": warmup, "steps": steps, "rounds": rounds, "threads": arguments.threads},
        "machine": bench.machine(),
    }


def summed_up(name: str, blocks: dict[str, list[dict[str, Any]]]) -> dict[str, Any]:
    """Medians over a side's blocks, and the median ratios to the yardsticks in the same rounds."""
    speeds = {side: [b["tokens"] / b["seconds"] for b in done] for side, done in blocks.items()}
    onmt = "onmt-" + name.partition("-")[2]
    return {
        "tokens_per_second": statistics.median(speeds[name]),
        "tokens_per_second_blocks": speeds[name],
        "tokens_per_cpu_second": statistics.median(b["tokens"] / b["cpu_seconds"] for b in blocks[name]),
        "peak_rss_mb": blocks[name][-1]["peak_rss_mb"],
        "last_loss": blocks[name][-1]["loss"],
        **{
            f"ratio_to_{yardstick}": statistics.median(
                ours / theirs for ours, theirs in zip(speeds[name], speeds[side], strict=True)
            )
            for yardstick, side in (("hf", "hf"), ("onmt", onmt))
            if side in speeds
        },
    }


def report(result: dict[str, Any]) -> str:
    """The result as a table."""
    head = f"{'side':<20}{'tok/s':>8}{'min-max':>15}{'x HF':>7}{'x ONMT':>8}{'tok/CPU-s':>11}"
    lines = [f"{head}{'RSS MB':>8}{'loss':>7}"]
    for name, side in result["sides"].items():
        blocks = side["tokens_per_second_blocks"]
        ratios = [f"{side[key]:.2f}" if key in side else "-" for key in ("ratio_to_hf", "ratio_to_onmt")]
        memory = f"{side['peak_rss_mb']:.0f}" if side["peak_rss_mb"] is not None else "-"
        lines.append(
            f"{name:<20}{side['tokens_per_second']:>8.0f}{f'{min(blocks):.0f}-{max(blocks):.0f}':>15}"
            f"{ratios[0]:>7}{ratios[1]:>8}{side['tokens_per_cpu_second']:>11.0f}{memory:>8}{side['last_loss']:>7.2f}"
        )
    return "\n".join([*lines, "", result["machine"]])


def parser() -> argparse.ArgumentParser:
    """The command line; --side and --folder are for the sides' own processes."""
    options = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0], allow_abbrev=False)
    options.add_argument("--root", default=None, help="folder with Multi30k; default: download it")
    options.add_argument("--cache", default=".cache/mt", help="folder for the prepared data")
    options.add_argument("--hf-python", default=None, help="Python with torch and transformers")
    options.add_argument("--onmt-python", default=None, help="Python with OpenNMT-py")
    options.add_argument("--scores", default="additive,general", help="default: %(default)s")
    options.add_argument("--sizes", default="256,512", help="sizes of a state (default: %(default)s)")
    options.add_argument("--precision", default="fp32,bf16", help="ours (default: %(default)s)")
    options.add_argument("--rounds", type=int, default=5, help="blocks of each side (default: %(default)s)")
    options.add_argument("--steps", type=int, default=3, help="steps in a block (default: %(default)s)")
    options.add_argument("--warmup", type=int, default=2, help="steps before the first block")
    options.add_argument("--threads", type=int, default=2, help="CPU threads of each side")
    options.add_argument("--output", default=None, help="write everything measured to this JSON file")
    options.add_argument("--side", default=None, help=argparse.SUPPRESS)
    options.add_argument("--folder", default=None, help=argparse.SUPPRESS)
    return options


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the benchmark, or serves one side of it."""
    arguments = parser().parse_args(argv)
    for option, allowed in (("scores", {"additive", "general"}), ("precision", {"fp32", "bf16"})):
        if set(getattr(arguments, option).split(",")) - allowed:
            parser().error(
                f"--{option} {getattr(arguments, option)}: allowed are {', '.join(sorted(allowed))}"
            )
    shape = bench.Shape()
    if arguments.side is not None:
        return bench.serve(arguments, lambda: make_side(arguments, shape))
    result = measure(arguments, shape)
    print(report(result))
    if arguments.output is not None:
        Path(arguments.output).write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8", newline="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
