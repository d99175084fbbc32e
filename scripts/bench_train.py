#!/usr/bin/env python3
"""Training speed, side by side: our step against a bare Hugging Face MarianMT loop, in one run.

    python scripts/bench_train.py --root DATA --hf-python /path/to/venv/bin/python --output bench.json

Both sides train the same shape on the same batches of Multi30k fr-en (joint BPE of 8,000 pieces, 4+4
layers, width 256, feed-forward 1,024, 4 heads, all embeddings tied, dropout 0.1, label smoothing 0.1,
Adam; batches of about 4,096 target tokens with padding). Each side lives in its own process, so that
neither inherits the other's memory allocator, threads or peak memory; the parent lets them work in
turn, a block of a few steps each (A B A B ...), because machines are noisy and only ratios taken in
one run count. Warm-up blocks are not counted. Reported are medians over the blocks.

What is timed: everything a training loop does per step. For us: making the batch (in the loop, not
ahead, so that no work hides in the other side's turn), forward, loss, backward, clipping, update, by
the trainer's own step function. For Hugging Face: padding the batch, forward, cross-entropy,
backward, update.

Units: target tok/s counts target tokens with end-of-sentence and without padding; tok/CPU-s divides by
the processor time of all threads instead, which other work on the machine disturbs less. A FLOP is one
multiplication or one addition; the model's FLOPs per pair come from `training_flop`, and the model
FLOP utilisation divides by the best matrix product measured between the blocks (see `Ceiling`).

Hugging Face needs `transformers` (the extra `bench`); with --hf-python it may live in another
environment, which needs nothing of ours.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Protocol

import numpy as np

REPOSITORY = Path(__file__).resolve().parents[1]
PAD, BOS, EOS = 0, 1, 2


@dataclass(frozen=True)
class Shape:
    """The benchmark's model and batches; the defaults are the published setting."""

    vocabulary: int = 8000
    width: int = 256
    ffn: int = 1024
    heads: int = 4
    layers: int = 4
    dropout: float = 0.1
    smoothing: float = 0.1
    batch_tokens: int = 4096
    seed: int = 1


def training_flop(shape: Shape, source: int, target: int) -> int:
    """FLOPs to train one pair of `source` and `target` tokens (end-of-sentence included, no padding).

    Multiply-adds of the forward pass, with d width, f feed-forward, V vocabulary, S source, T target, for
    each of the layers: encoder S(4d² + 2df) for projections and feed-forward and 2S²d for scores and
    weighted sums; decoder T(6d² + 2df), 2Sd² for the memory's keys and values, 2T²d for self-attention
    (the masked half counted, as the products compute it) and 2TSd for cross-attention; once, TdV for the
    output. Times 2 FLOPs, times 3 because the backward pass forms two products for each forward one.
    Norms, softmax, dropout, embeddings and the optimizer are not counted.
    """
    d, f = shape.width, shape.ffn
    encoder = source * (4 * d * d + 2 * d * f) + 2 * source * source * d
    decoder = target * (6 * d * d + 2 * d * f) + source * 2 * d * d + 2 * target * target * d
    decoder += 2 * target * source * d
    return 6 * (shape.layers * (encoder + decoder) + target * d * shape.vocabulary)


Block = Callable[[int, int], dict[str, Any]]
"""(start, steps): does `steps` steps on the batches from number `start` on; answers at least ``seconds``."""


class Side(Protocol):
    """One process's work."""

    def run(self, serve: Callable[[Block], None]) -> None:
        """Gets ready, hands its `Block` to `serve`, and cleans up."""
        ...


class Ours:
    """The trainer itself, with its own loader, loss, optimizer and precision; only its loop takes orders."""

    def __init__(self, shape: Shape, arguments: argparse.Namespace, precision: str, compiled: bool) -> None:
        self.config = our_config(arguments, shape, precision, compiled)

    def run(self, serve: Callable[[Block], None]) -> None:
        from mt.data.preparation import prepare
        from mt.training.device import choose_device, tune_process
        from mt.training.distributed import World
        from mt.training.schedule import Budget
        from mt.training.trainer import Trainer

        class Ordered(Trainer):
            def _loop(self) -> str:
                self.learner.model.train()
                serve(self.block)
                return "orders"

            def block(self, start: int, steps: int) -> dict[str, Any]:
                progress, tokens = self.progress, self.progress.tokens
                assert progress.position == start, "blocks follow each other, from the first batch on"
                begin = time.perf_counter()
                for _ in range(steps):
                    self._update(self._batches.for_update())
                seconds = time.perf_counter() - begin
                loss = progress.window.loss / progress.window.tokens
                progress.window = type(progress.window)()
                return {"seconds": seconds, "tokens": progress.tokens - tokens, "loss": loss}

            def _finish(self, stopped_by: str) -> Any:
                # There is no model to keep: leave `run` by the way of an interrupted process.
                raise SystemExit(0)

        config = self.config
        tune_process()
        prepared = prepare(config.data, config.tokenizer, config.model.max_positions)
        with tempfile.TemporaryDirectory() as folder:
            world = World(device=choose_device(config.device))
            Ordered(config, Path(folder), prepared, Budget.of(config.training), None, world).run()


def our_config(arguments: argparse.Namespace, shape: Shape, precision: str, compiled: bool) -> Any:
    """The benchmark's setting as one of our configurations."""
    from mt.config import schema

    return schema.TrainConfig(
        data=schema.DataConfig(kind=schema.CorpusKind.multi30k, root=arguments.root, cache=arguments.cache),
        tokenizer=schema.TokenizerConfig(
            model=schema.TokenizerModel.bpe, vocab_size=shape.vocabulary, hard_vocab_limit=True
        ),
        model=schema.ModelConfig(
            width=shape.width,
            heads=shape.heads,
            ffn_width=shape.ffn,
            encoder_layers=shape.layers,
            decoder_layers=shape.layers,
            dropout=shape.dropout,
        ),
        optimizer=schema.OptimizerConfig(kind=schema.OptimizerKind.adam),
        training=schema.TrainingConfig(
            max_steps=1_000_000,
            batch_tokens=shape.batch_tokens,
            label_smoothing=shape.smoothing,
            precision=schema.Precision[precision],
            compile=compiled,
            prefetch_batches=0,
            threads=arguments.threads,
            tensorboard=False,
            progress=False,
        ),
        seed=shape.seed,
        device="cpu",
    )


class StoredBatches:
    """The batches that `store_batches` wrote, for a side without our code."""

    def __init__(self, folder: Path) -> None:
        stored = np.load(folder / "batches.npz", allow_pickle=False)
        self.sides = [
            [ids.tolist() for ids in np.split(stored[side], stored[f"{side}_ends"][:-1])]
            for side in ("source", "target")
        ]
        self.batches = np.split(np.arange(len(self.sides[0])), stored["batch_ends"][:-1])

    def pair(self, number: int) -> tuple[Any, Any]:
        """Source (B, S) and target (B, T) of batch `number`, end-of-sentence included, padded."""
        rows = self.batches[number]
        source, target = (self._padded([side[row] for row in rows]) for side in self.sides)
        return source, target

    @staticmethod
    def _padded(lines: list[list[int]]) -> Any:
        import torch

        longest = max(map(len, lines))
        return torch.tensor([line + [PAD] * (longest - len(line)) for line in lines])


class BareLoop:
    """A peer's model in a bare loop: pad, forward, cross-entropy, backward, Adam.

    A subclass makes its modules in `__init__`, hands them to `trains`, and gives `logits`.
    """

    def __init__(self, shape: Shape, folder: Path) -> None:
        import torch

        self.shape = shape
        self.batches = StoredBatches(folder)
        torch.manual_seed(shape.seed)

    def trains(self, *modules: Any) -> None:
        import torch

        for module in modules:
            module.train()
        parameters = [parameter for module in modules for parameter in module.parameters()]
        self.optimizer = torch.optim.Adam(parameters, lr=1e-4)

    def logits(self, source: Any, first: Any, target: Any) -> Any:
        """source (B, S), first (B, 1) begin-of-sentence, target (B, T) → logits of the target (B, T, V)."""
        raise NotImplementedError

    def run(self, serve: Callable[[Block], None]) -> None:
        serve(self.block)

    def block(self, start: int, steps: int) -> dict[str, Any]:
        import torch
        from torch.nn import functional as F

        tokens, loss = 0, torch.zeros(())
        begin = time.perf_counter()
        for number in range(start, start + steps):
            source, target = self.batches.pair(number)
            first = torch.full((len(source), 1), BOS)
            loss = F.cross_entropy(
                self.logits(source, first, target).view(-1, self.shape.vocabulary),
                target.reshape(-1),
                ignore_index=PAD,
                label_smoothing=self.shape.smoothing,
            )
            loss.backward()
            self.optimizer.step()
            self.optimizer.zero_grad()
            tokens += int((target != PAD).sum())
        return {"seconds": time.perf_counter() - begin, "tokens": tokens, "loss": float(loss.detach())}


class HuggingFace(BareLoop):
    """MarianMT."""

    def __init__(self, shape: Shape, folder: Path) -> None:
        from transformers import MarianConfig, MarianMTModel

        super().__init__(shape, folder)
        config = MarianConfig(
            vocab_size=shape.vocabulary,
            d_model=shape.width,
            encoder_layers=shape.layers,
            decoder_layers=shape.layers,
            encoder_attention_heads=shape.heads,
            decoder_attention_heads=shape.heads,
            encoder_ffn_dim=shape.ffn,
            decoder_ffn_dim=shape.ffn,
            dropout=shape.dropout,
            attention_dropout=0.0,
            activation_dropout=0.0,
            activation_function="relu",
            max_position_embeddings=512,
            scale_embedding=True,
            share_encoder_decoder_embeddings=True,
            tie_word_embeddings=True,
            pad_token_id=PAD,
            eos_token_id=EOS,
            decoder_start_token_id=BOS,
        )
        self.model = MarianMTModel(config)
        self.trains(self.model)

    def logits(self, source: Any, first: Any, target: Any) -> Any:
        import torch

        return self.model(
            input_ids=source,
            attention_mask=(source != PAD).long(),
            decoder_input_ids=torch.cat([first, target[:, :-1]], dim=1),
        ).logits


class Ceiling:
    """The fastest matrix product this machine does right now, over the model's own Linear shapes.

    Forward, input-gradient and weight-gradient products of `batch_tokens` rows, through PyTorch's two CPU
    libraries in fp32 (MKL or OpenBLAS, and oneDNN as reached by float32_matmul_precision "medium", which is
    left out where it rounds), and in bf16 if that is benchmarked.
    """

    def __init__(self, shape: Shape, bf16: bool) -> None:
        import torch

        self.bf16 = bf16
        self.torch = torch
        sizes = {(shape.width, shape.width), (shape.width, shape.ffn), (shape.ffn, shape.width)}
        sizes.add((shape.width, shape.vocabulary))
        generator = torch.Generator().manual_seed(shape.seed)
        self.operands = [
            tuple(torch.randn(size, generator=generator) for size in ((shape.batch_tokens, i), (o, i)))
            for i, o in sorted(sizes)
        ]

    def run(self, serve: Callable[[Block], None]) -> None:
        serve(self.block)

    def block(self, start: int, steps: int) -> dict[str, Any]:
        begin = time.perf_counter()
        answer: dict[str, Any] = {"highest": self._best("highest")}
        if self._is_exact("medium"):
            answer["medium"] = self._best("medium")
        # Without bf16 units it is emulated, at a fiftieth of the speed: a minute a block if nobody asked.
        if self.bf16:
            answer["bf16"] = self._best("highest", self.torch.bfloat16)
        return {"seconds": time.perf_counter() - begin, "gflop_per_second": answer}

    def _best(self, precision: str, dtype: Any = None) -> dict[str, float]:
        best = {}
        with self._precision(precision):
            for data, weight in self.operands:
                x, w = (data, weight) if dtype is None else (data.to(dtype), weight.to(dtype))
                y = x @ w.t()
                flop = 2 * x.shape[0] * x.shape[1] * w.shape[0]
                products: dict[str, Callable[[], Any]] = {
                    "forward": lambda x=x, w=w: self.torch.nn.functional.linear(x, w),
                    "input gradient": lambda y=y, w=w: y @ w,
                    "weight gradient": lambda x=x, y=y: y.t() @ x,
                }
                for name, product in products.items():
                    best[f"{w.shape[1]}x{w.shape[0]} {name}"] = flop / self._seconds(product) / 1e9
        return best

    @staticmethod
    def _seconds(product: Callable[[], Any]) -> float:
        best, spent, runs = float("inf"), 0.0, 0
        while runs < 2 or (spent < 0.05 and runs < 10):
            begin = time.perf_counter()
            product()
            last = time.perf_counter() - begin
            best, spent, runs = min(best, last), spent + last, runs + 1
        return best

    @contextlib.contextmanager
    def _precision(self, name: str) -> Iterator[None]:
        before = self.torch.get_float32_matmul_precision()
        self.torch.set_float32_matmul_precision(name)
        try:
            yield
        finally:
            self.torch.set_float32_matmul_precision(before)

    def _is_exact(self, precision: str) -> bool:
        data, weight = self.operands[0]
        with self._precision(precision):
            product = data[:64] @ weight.t()
        exact = data[:64].double() @ weight.t().double()
        return bool((product - exact).abs().max() < 1e-4 * exact.abs().max())


def make_side(arguments: argparse.Namespace, shape: Shape) -> Side:
    """The work that this process was started for."""
    name, folder = arguments.side, Path(arguments.folder)
    if name == "hf":
        return HuggingFace(shape, folder)
    if name == "ceiling":
        return Ceiling(shape, bf16="bf16" in arguments.precision)
    sys.path.insert(0, str(REPOSITORY))
    return Ours(shape, arguments, precision=name.split("-")[1], compiled=name.endswith("compiled"))


def serve(arguments: argparse.Namespace, make: Callable[[], Side]) -> int:
    """The life of a side's process: one JSON order a line on stdin, one JSON answer a line on stdout."""
    # Whatever libraries print must not mix with the answers.
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8", newline="\n")
    os.dup2(2, 1)
    import torch

    torch.set_num_threads(arguments.threads)

    def answer(value: dict[str, Any]) -> None:
        answers.write(json.dumps(value) + "\n")
        answers.flush()

    def take_orders(block: Block) -> None:
        answer({"ready": True, "torch": torch.__version__})
        for line in sys.stdin:
            order = json.loads(line)
            begin = time.process_time()
            done = block(order["start"], order["steps"])
            cpu_seconds = time.process_time() - begin
            answer({**done, "cpu_seconds": cpu_seconds, "peak_rss_mb": peak_rss_mb()})

    make().run(take_orders)
    return 0


def peak_rss_mb() -> float | None:
    """The largest resident memory of this process so far, in MB of 10^6 bytes; None where it is not told."""
    try:
        import resource
    except ImportError:
        return None
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return float(peak if sys.platform == "darwin" else peak * 1024) / 1e6


class Worker:
    """The parent's end of a side's process; `script` is what the process runs."""

    def __init__(
        self,
        name: str,
        python: str,
        arguments: argparse.Namespace,
        folder: Path,
        script: Path = Path(__file__),
    ) -> None:
        self.name = name
        command = [python, str(script.resolve()), "--side", name, "--folder", str(folder)]
        command += ["--threads", str(arguments.threads), "--precision", arguments.precision]
        command += ["--cache", arguments.cache, *(["--root", arguments.root] if arguments.root else [])]
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, encoding="utf-8", bufsize=1
        )
        self.blocks: list[dict[str, Any]] = []
        self.versions = self._answer()

    def run(self, start: int, steps: int, counted: bool = True) -> dict[str, Any]:
        self._pipe(self.process.stdin).write(json.dumps({"start": start, "steps": steps}) + "\n")
        block = self._answer()
        if counted:
            self.blocks.append(block)
        return block

    def close(self) -> None:
        self._pipe(self.process.stdin).close()
        self.process.wait(timeout=60)

    def _answer(self) -> dict[str, Any]:
        line = self._pipe(self.process.stdout).readline()
        if not line:
            raise SystemExit(
                f"error: the {self.name} side ended with exit code {self.process.wait()}; see above"
            )
        answer: dict[str, Any] = json.loads(line)
        return answer

    @staticmethod
    def _pipe(pipe: IO[str] | None) -> IO[str]:
        assert pipe is not None
        return pipe


def store_batches(store: Any, plan: Sequence[Any], path: Path) -> None:
    """Writes the batches of `plan` for a process without our code: ids with end-of-sentence, flat."""
    source = [np.append(store.source(i), EOS) for indices in plan for i in indices]
    target = [np.append(store.target(i), EOS) for indices in plan for i in indices]
    np.savez(
        path,
        source=np.concatenate(source),
        target=np.concatenate(target),
        source_ends=np.cumsum([len(ids) for ids in source]),
        target_ends=np.cumsum([len(ids) for ids in target]),
        batch_ends=np.cumsum([len(indices) for indices in plan]),
    )


def measure(arguments: argparse.Namespace, shape: Shape) -> dict[str, Any]:
    """Prepares the data, lets the sides work in turn, and sums up."""
    sys.path.insert(0, str(REPOSITORY))
    from mt.data.batches import plan_epoch
    from mt.data.preparation import prepare

    config = our_config(arguments, shape, "fp32", compiled=False)
    prepared = prepare(config.data, config.tokenizer, config.model.max_positions)
    train = prepared.train
    plan = plan_epoch(
        train.source_lengths, train.target_lengths, batch_tokens=shape.batch_tokens, seed=shape.seed, epoch=0
    )
    warmup, steps, rounds = arguments.warmup, arguments.steps, arguments.rounds
    if warmup + rounds * steps > len(plan):
        raise SystemExit(
            f"error: {warmup} + {rounds} x {steps} steps need more than the {len(plan)} batches of an epoch"
        )
    used = plan[: warmup + rounds * steps]
    flop = [sum(_pair_flop(shape, train, i) for i in indices) for indices in used]
    tokens = [int((train.target_lengths[indices] + 1).sum()) for indices in used]
    padded = [len(indices) * int(train.target_lengths[indices].max() + 1) for indices in used]

    names = [] if arguments.only == "ours" else ["hf"]
    if arguments.only != "hf":
        precisions = arguments.precision.split(",")
        names += [f"ours-{precision}" for precision in precisions]
        names += [f"ours-{precision}-compiled" for precision in precisions if arguments.compile]
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        store_batches(train, used, Path(folder) / "batches.npz")
        workers = []
        for name in [*names, "ceiling"]:
            python = arguments.hf_python if name == "hf" else sys.executable
            workers.append(Worker(name, python, arguments, Path(folder)))
            stack.callback(workers[-1].close)
        for worker in workers:
            if warmup and worker.name != "ceiling":
                worker.run(0, warmup, counted=False)
        for number in range(rounds):
            start = warmup + number * steps
            for worker in workers:
                block = worker.run(start, steps)
                if worker.name != "ceiling" and block["tokens"] != sum(tokens[start : start + steps]):
                    raise SystemExit(f"error: {worker.name} trained {block['tokens']} tokens, not the plan's")
            speeds = [
                f"{w.name} {w.blocks[-1]['tokens'] / w.blocks[-1]['seconds']:.0f}" for w in workers[:-1]
            ]
            print(f"round {number + 1}/{rounds}, tok/s: {', '.join(speeds)}", file=sys.stderr)
    ceiling = ceilings(next(worker for worker in workers if worker.name == "ceiling").blocks)
    blocks_flop = [sum(flop[warmup + n * steps : warmup + (n + 1) * steps]) for n in range(rounds)]
    sides = {}
    for worker in workers:
        if worker.name == "ceiling":
            continue
        speeds = [block["tokens"] / block["seconds"] for block in worker.blocks]
        rates = [
            work / block["seconds"] / 1e9 for work, block in zip(blocks_flop, worker.blocks, strict=True)
        ]
        ceiling_here = ceiling["bf16" if "bf16" in worker.name else "fp32"]
        sides[worker.name] = {
            "tokens_per_second": statistics.median(speeds),
            "tokens_per_second_blocks": speeds,
            "tokens_per_cpu_second": statistics.median(
                block["tokens"] / block["cpu_seconds"] for block in worker.blocks
            ),
            "gflop_per_second": statistics.median(rates),
            "model_flop_utilisation": statistics.median(rates) / ceiling_here,
            "peak_rss_mb": worker.blocks[-1]["peak_rss_mb"],
            "last_loss": worker.blocks[-1]["loss"],
            "torch": worker.versions["torch"],
        }
    if "hf" in sides:
        for name, side in sides.items():
            pairs = zip(
                side["tokens_per_second_blocks"], sides["hf"]["tokens_per_second_blocks"], strict=True
            )
            sides[name]["ratio_to_hf"] = statistics.median(ours / theirs for ours, theirs in pairs)
    return {
        "sides": sides,
        "ceiling_gflop_per_second": ceiling,
        "mflop_per_target_token": sum(flop) / sum(tokens) / 1e6,
        "real_share_of_target_positions": sum(tokens) / sum(padded),
        "target_tokens_per_block": [
            sum(tokens[warmup + n * steps : warmup + (n + 1) * steps]) for n in range(rounds)
        ],
        "settings": {"warmup": warmup, "steps": steps, "rounds": rounds, "threads": arguments.threads},
        "machine": machine(),
    }


def _pair_flop(shape: Shape, store: Any, index: int) -> int:
    return training_flop(shape, int(store.source_lengths[index]) + 1, int(store.target_lengths[index]) + 1)


def ceilings(blocks: Sequence[dict[str, Any]]) -> dict[str, float]:
    """GFLOP/s of the best product, median over the blocks: fp32 through either library; bf16 if measured."""
    best: dict[str, list[float]] = {"fp32": [], "bf16": []}
    for block in blocks:
        measured = block["gflop_per_second"]
        best["fp32"].append(
            max(max(measured[path].values()) for path in ("highest", "medium") if path in measured)
        )
        if "bf16" in measured:
            best["bf16"].append(max(measured["bf16"].values()))
    return {name: statistics.median(values) for name, values in best.items() if values}


def machine() -> str:
    """Processor, cores and Python in words."""
    name = platform.processor() or platform.machine()
    with (
        contextlib.suppress(OSError, StopIteration),
        open("/proc/cpuinfo", encoding="utf-8", newline="\n") as file,
    ):
        name = next(line.split(":", 1)[1].strip() for line in file if line.startswith("model name"))
    return f"{name}, {os.cpu_count()} CPUs, Python {platform.python_version()}"


def report(result: dict[str, Any]) -> str:
    """The result as a table."""
    head = f"{'side':<20}{'tok/s':>8}{'min-max':>15}{'x HF':>7}{'tok/CPU-s':>11}"
    lines = [f"{head}{'GFLOP/s':>9}{'MFU':>7}{'RSS MB':>8}{'loss':>7}"]
    for name, side in result["sides"].items():
        blocks = side["tokens_per_second_blocks"]
        ratio = f"{side['ratio_to_hf']:.2f}" if "ratio_to_hf" in side else "-"
        memory = f"{side['peak_rss_mb']:.0f}" if side["peak_rss_mb"] is not None else "-"
        lines.append(
            f"{name:<20}{side['tokens_per_second']:>8.0f}{f'{min(blocks):.0f}-{max(blocks):.0f}':>15}{ratio:>7}"
            f"{side['tokens_per_cpu_second']:>11.0f}{side['gflop_per_second']:>9.1f}"
            f"{side['model_flop_utilisation']:>7.1%}{memory:>8}{side['last_loss']:>7.2f}"
        )
    ceiling = ", ".join(f"{name} {value:.0f}" for name, value in result["ceiling_gflop_per_second"].items())
    lines.append("")
    lines.append(
        f"matrix product ceiling, GFLOP/s: {ceiling}; "
        f"{result['mflop_per_target_token']:.1f} MFLOP per target token"
    )
    lines.append(
        f"{result['real_share_of_target_positions']:.0%} of target positions are real tokens; "
        f"{result['machine']}"
    )
    return "\n".join(lines)


def parser() -> argparse.ArgumentParser:
    """The command line; the options after --only are for the sides' own processes."""
    options = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0], allow_abbrev=False)
    options.add_argument(
        "--root", default=None, help="folder with Multi30k (train.fr.gz ...); default: download it"
    )
    options.add_argument(
        "--cache", default=".cache/mt", help="folder for the prepared data (default: %(default)s)"
    )
    options.add_argument("--hf-python", default=sys.executable, help="Python with torch and transformers")
    options.add_argument(
        "--precision", default="fp32", help="ours: fp32, bf16 or fp32,bf16 (default: %(default)s)"
    )
    options.add_argument("--compile", action="store_true", help="measure ours with torch.compile as well")
    options.add_argument("--rounds", type=int, default=5, help="blocks of each side (default: %(default)s)")
    options.add_argument("--steps", type=int, default=3, help="steps in a block (default: %(default)s)")
    options.add_argument(
        "--warmup", type=int, default=2, help="steps before the first block (default: %(default)s)"
    )
    options.add_argument(
        "--threads", type=int, default=2, help="CPU threads of each side (default: %(default)s)"
    )
    options.add_argument("--output", default=None, help="write everything measured to this JSON file")
    options.add_argument("--only", choices=["ours", "hf"], default=None, help="measure one side alone")
    options.add_argument("--side", default=None, help=argparse.SUPPRESS)
    options.add_argument("--folder", default=None, help=argparse.SUPPRESS)
    return options


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the benchmark, or serves one side of it."""
    arguments = parser().parse_args(argv)
    if set(arguments.precision.split(",")) - {"fp32", "bf16"}:
        parser().error(f"--precision {arguments.precision}: allowed are fp32, bf16 and fp32,bf16")
    shape = Shape()
    if arguments.side is not None:
        return serve(arguments, lambda: make_side(arguments, shape))
    result = measure(arguments, shape)
    print(report(result))
    if arguments.output is not None:
        Path(arguments.output).write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8", newline="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
