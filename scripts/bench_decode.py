#!/usr/bin/env python3
"""Decoding speed, side by side: our translator against Hugging Face `generate` with the same weights.

    python scripts/bench_decode.py --run RUN --root DATA --hf-python /path/to/venv/bin/python

The run's weights are copied into Hugging Face's M2M100, which has the same architecture (pre-norm,
sinusoidal positions, one shared embedding, ReLU), so both sides do the same work and must say the
same: the share of equal translations is printed, and should be 95 % or more with trained weights
(equal scores may be ordered differently). Both decode the same lines, test_2016_flickr unless --source
is given, sorted by length, in the same batches, with the same longest length, beam 5 with plain
log-probabilities (length penalty 0, the one thing that both define alike) and greedy.

Each side lives in its own process; the parent lets them decode everything in turn (A B A B ...), because
machines are noisy and only ratios taken in one run count. The first turn of each is a warm-up on a few
batches. Reported are medians over the turns, and the median of the ratios of neighbouring turns.

What is timed: for us from text to text (cleaning, tokenizer, search, joining pieces), for Hugging Face
from batches of ids to ids. Tokens are target pieces of the best hypotheses, end symbol included.

Hugging Face needs `transformers` (the extra `bench`); with --hf-python it may live in another
environment, which needs nothing of ours.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).resolve().parents[1]
PAD, BOS, EOS = 0, 1, 2
BEAMS = (5, 1)
WARM_UP_LINES = 40

Decode = Callable[[int, bool], dict[str, Any]]
"""(beam, warm-up): decodes all lines (or the warm-up's); ``seconds``, ``tokens`` and ``outputs``."""


# ---------------------------------------------------------------------------- our side


def ours(arguments: argparse.Namespace) -> Decode:
    sys.path.insert(0, str(REPOSITORY))
    from dataclasses import replace

    from mt.decoding.loading import load_run
    from mt.decoding.translator import Translator
    from mt.training.device import tune_process

    tune_process()
    run = load_run(arguments.run)
    job = json.loads((Path(arguments.folder) / "job.json").read_text(encoding="utf-8"))
    counts: list[int] = []

    class Counting:
        """The run's tokenizer, which counts the pieces that it joins."""

        encode_source = run.tokenizer.encode_source
        unknown_share = run.tokenizer.unknown_share

        def decode(self, ids: Any, unknown: str = "") -> str:
            counts.append(len(ids) + 1)
            return run.tokenizer.decode(ids, unknown)

    def decode(beam: int, warm_up: bool) -> dict[str, Any]:
        options = replace(run.config.decoding, **job["options"], beam=beam, n_best=1)
        translator = Translator(run.model, Counting(), options)
        lines = job["lines"][:WARM_UP_LINES] if warm_up else job["lines"]
        counts.clear()
        begin = time.perf_counter()
        outputs = [translation.text for translation in translator.translate(lines)]
        seconds = time.perf_counter() - begin
        cut = len(translator.report.truncated)
        return {"seconds": seconds, "tokens": sum(counts), "truncated": cut, "outputs": outputs}

    return decode


def write_job(arguments: argparse.Namespace, folder: Path) -> tuple[list[str], Callable[[list[int]], str]]:
    """What the sides need to know; returns the lines and what turns ids into text."""
    sys.path.insert(0, str(REPOSITORY))
    import torch
    from safetensors.torch import save_file

    from mt.config import schema
    from mt.data.corpus import test_sets
    from mt.data.lines import one_line, read_lines
    from mt.decoding.loading import load_run
    from mt.decoding.translator import Translator
    from mt.models.positions import sinusoidal_table

    run = load_run(arguments.run)
    shape, attention = run.config.model, run.config.attention
    scores = {attention.encoder, attention.decoder, attention.cross, attention.score} - {None}
    same = (
        shape.norm is schema.Norm.pre
        and shape.positions is schema.Positions.sinusoidal
        and shape.activation is schema.Activation.relu
        and shape.tie_embeddings is schema.TieEmbeddings.all
        and scores == {schema.ScoreKind.scaled_dot}
    )
    if not same:
        raise SystemExit(
            "error: the run's architecture has no equal in Hugging Face; train with model.norm=pre "
            "model.positions=sinusoidal model.activation=relu model.tie_embeddings=all "
            "attention.score=scaled_dot"
        )
    if arguments.source is not None:
        source = Path(arguments.source)
    else:
        data = schema.DataConfig(kind=schema.CorpusKind.multi30k, root=arguments.root)
        data.source, data.target = run.config.data.source, run.config.data.target
        source = test_sets(data)["test_2016_flickr"][0]
    lines = [line for line in read_lines(source).lines if line]
    lines = list(dict.fromkeys(lines))[: arguments.sentences]
    options = {
        "batch_tokens": arguments.batch_tokens,
        "length_penalty": 0.0,
        "no_repeat_ngram": 0,
        "max_length_ratio": arguments.max_length_ratio,
        "max_length_extra": arguments.max_length_extra,
    }
    ids = run.tokenizer.encode_source(lines)
    jobs = {}
    for beam in BEAMS:
        decoding = schema.DecodingConfig(beam=beam, **options)
        translator = Translator(run.model, run.tokenizer, decoding)
        jobs[beam] = [
            {
                "rows": rows,
                "ids": [[*ids[row], EOS] for row in rows],
                "limits": [translator._longest(len(ids[row])) for row in rows],
            }
            for rows in translator._batches(ids)
        ]
    job = {
        "lines": lines,
        "options": options,
        "batches": jobs,
        "shape": {
            "vocabulary": run.tokenizer.source_size,
            "width": shape.width,
            "ffn": shape.ffn_width,
            "heads": shape.heads,
            "encoder_layers": shape.encoder_layers,
            "decoder_layers": shape.decoder_layers,
            "positions": shape.max_positions,
        },
    }
    (folder / "job.json").write_text(json.dumps(job), encoding="utf-8")
    tensors = hugging_face_weights(run.model.state_dict(), torch)
    tensors["positions"] = sinusoidal_table(shape.max_positions, shape.width)
    save_file(
        {name: tensor.clone().contiguous() for name, tensor in tensors.items()}, folder / "hf.safetensors"
    )
    return lines, lambda out: one_line(run.tokenizer.decode([token for token in out if token != PAD]))


def hugging_face_weights(state: dict[str, Any], torch: Any) -> dict[str, Any]:
    """Our Transformer's tensors under M2M100's names."""
    found = {"model.shared.weight": state["source_embedding.weight"]}
    for side in ("encoder", "decoder"):
        for part in ("weight", "bias"):
            found[f"model.{side}.layer_norm.{part}"] = state[f"{side}_norm.{part}"]
    for name, tensor in state.items():
        side, _, rest = name.partition(".")
        if side not in ("encoder", "decoder"):
            continue
        layer, _, rest = rest.partition(".")
        module, _, part = rest.rpartition(".")
        place = f"model.{side}.layers.{layer}"
        renamed = {
            "attention.output": "self_attn.out_proj",
            "attention_frame.norm": "self_attn_layer_norm",
            "cross.query": "encoder_attn.q_proj",
            "cross.output": "encoder_attn.out_proj",
            "cross_frame.norm": "encoder_attn_layer_norm",
            "feed_forward.inner": "fc1",
            "feed_forward.outer": "fc2",
            "feed_forward_frame.norm": "final_layer_norm",
        }
        if module in renamed:
            found[f"{place}.{renamed[module]}.{part}"] = tensor
        elif module == "attention.query_key_value":
            for letter, piece in zip("qkv", tensor.chunk(3), strict=True):
                found[f"{place}.self_attn.{letter}_proj.{part}"] = piece
        elif module == "cross.key_value":
            for letter, piece in zip("kv", tensor.chunk(2), strict=True):
                found[f"{place}.encoder_attn.{letter}_proj.{part}"] = piece
        else:
            raise SystemExit(f"error: no place for {name} in M2M100")
    return found


# ---------------------------------------------------------------------------- Hugging Face's side


def hugging_face(arguments: argparse.Namespace) -> Decode:
    import torch
    from safetensors.torch import load_file
    from transformers import GenerationConfig, M2M100Config, M2M100ForConditionalGeneration

    folder = Path(arguments.folder)
    job = json.loads((folder / "job.json").read_text(encoding="utf-8"))
    shape = job["shape"]
    config = M2M100Config(
        vocab_size=shape["vocabulary"],
        d_model=shape["width"],
        encoder_layers=shape["encoder_layers"],
        decoder_layers=shape["decoder_layers"],
        encoder_attention_heads=shape["heads"],
        decoder_attention_heads=shape["heads"],
        encoder_ffn_dim=shape["ffn"],
        decoder_ffn_dim=shape["ffn"],
        activation_function="relu",
        max_position_embeddings=shape["positions"],
        scale_embedding=True,
        pad_token_id=PAD,
        bos_token_id=BOS,
        eos_token_id=EOS,
        decoder_start_token_id=BOS,
    )
    model = M2M100ForConditionalGeneration(config).eval()
    tensors = load_file(folder / "hf.safetensors")
    table = tensors.pop("positions")
    missing, unexpected = model.load_state_dict(tensors, strict=False)
    untied = [name for name in missing if "embed_tokens" not in name and name != "lm_head.weight"]
    if untied or unexpected:
        raise SystemExit(f"error: M2M100 lacks {untied}, does not know {unexpected}")
    model.tie_weights()
    for side in (model.model.encoder, model.model.decoder):
        # Its positions count from padding_idx + 1 = 1.
        side.embed_positions.weights[1 : 1 + len(table)] = table

    def decode(beam: int, warm_up: bool) -> dict[str, Any]:
        batches = job["batches"][str(beam)]
        outputs: list[list[int]] = [[] for _ in job["lines"]]
        tokens = 0
        begin = time.perf_counter()
        for batch in batches[:1] if warm_up else batches:
            longest = max(map(len, batch["ids"]))
            source = torch.tensor([ids + [PAD] * (longest - len(ids)) for ids in batch["ids"]])
            beam_only = {"early_stopping": False, "length_penalty": 0.0} if beam > 1 else {}
            generation = GenerationConfig(
                **beam_only,
                num_beams=beam,
                do_sample=False,
                max_new_tokens=max(batch["limits"]),
                pad_token_id=PAD,
                bos_token_id=BOS,
                eos_token_id=EOS,
                decoder_start_token_id=BOS,
            )
            with torch.inference_mode():
                found = model.generate(
                    input_ids=source, attention_mask=(source != PAD).long(), generation_config=generation
                )
            for row, limit, ids in zip(batch["rows"], batch["limits"], found.tolist(), strict=True):
                ids = ids[1:]
                end = ids.index(EOS) if EOS in ids else len(ids)
                outputs[row] = ids[: min(end, limit)]  # it knows one longest length per batch only
                tokens += end + 1
        return {"seconds": time.perf_counter() - begin, "tokens": tokens, "outputs": outputs}

    return decode


# ---------------------------------------------------------------------------- processes


def serve(arguments: argparse.Namespace) -> int:
    """The life of a side's process: one JSON order a line on stdin, one JSON answer a line on stdout."""
    # Whatever libraries print must not mix with the answers.
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8", newline="\n")
    os.dup2(2, 1)
    import torch

    torch.set_num_threads(arguments.threads)
    decode = ours(arguments) if arguments.side == "ours" else hugging_face(arguments)

    def answer(value: dict[str, Any]) -> None:
        answers.write(json.dumps(value) + "\n")
        answers.flush()

    answer({"torch": torch.__version__})
    for line in sys.stdin:
        order = json.loads(line)
        answer({**decode(order["beam"], order["warm_up"]), "peak_rss_mb": peak_rss_mb()})
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
    """The parent's end of a side's process."""

    def __init__(self, name: str, python: str, arguments: argparse.Namespace, folder: Path) -> None:
        self.name = name
        command = [python, str(Path(__file__).resolve()), "--side", name, "--folder", str(folder)]
        command += ["--threads", str(arguments.threads), "--run", arguments.run]
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, encoding="utf-8", bufsize=1
        )
        self.versions = self._answer()

    def decode(self, beam: int, warm_up: bool = False) -> dict[str, Any]:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps({"beam": beam, "warm_up": warm_up}) + "\n")
        return self._answer()

    def close(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait(timeout=60)

    def _answer(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit(
                f"error: the {self.name} side ended with exit code {self.process.wait()}; see above"
            )
        answer: dict[str, Any] = json.loads(line)
        return answer


def compare(arguments: argparse.Namespace, folder: Path) -> dict[str, Any]:
    lines, text_of = write_job(arguments, folder)
    workers = [
        Worker("ours", sys.executable, arguments, folder),
        Worker("hf", arguments.hf_python, arguments, folder),
    ]
    result: dict[str, Any] = {
        "sentences": len(lines),
        "threads": arguments.threads,
        "batch_tokens": arguments.batch_tokens,
        "machine": platform.processor() or platform.machine(),
        "torch": {worker.name: worker.versions["torch"] for worker in workers},
    }
    for beam in BEAMS:
        for worker in workers:
            worker.decode(beam, warm_up=True)
        turns = [[worker.decode(beam) for worker in workers] for _ in range(arguments.repeats)]
        ours_text = turns[0][0]["outputs"]
        hf_text = [text_of(ids) for ids in turns[0][1]["outputs"]]
        equal = sum(one == other for one, other in zip(ours_text, hf_text, strict=True)) / len(lines)
        sides = {}
        for number, worker in enumerate(workers):
            seconds = [turn[number]["seconds"] for turn in turns]
            sides[worker.name] = {
                "sentences_per_second": round(len(lines) / statistics.median(seconds), 1),
                "seconds": [round(each, 3) for each in seconds],
                "tokens": turns[0][number]["tokens"],
                "peak_rss_mb": turns[-1][number]["peak_rss_mb"],
            }
        ratios = [hf["seconds"] / mine["seconds"] for mine, hf in turns]
        result["greedy" if beam == 1 else f"beam {beam}"] = {
            **sides,
            "ratio": round(statistics.median(ratios), 3),
            "equal_translations": round(equal, 4),
            "truncated": turns[0][0]["truncated"],
        }
    for worker in workers:
        worker.close()
    return result


def show(result: dict[str, Any]) -> None:
    print(
        f"{result['sentences']} sentences, {result['threads']} threads, batch_tokens {result['batch_tokens']}"
    )
    print(f"{'':10}{'side':6}{'sent/s':>9}{'tokens':>9}{'peak MB':>9}{'ratio':>8}{'equal':>8}")
    for mode in ("greedy", *(f"beam {beam}" for beam in BEAMS if beam > 1)):
        for name in ("ours", "hf"):
            side = result[mode][name]
            extra = (
                f"{result[mode]['ratio']:8.2f}{result[mode]['equal_translations']:8.1%}"
                if name == "ours"
                else ""
            )
            print(
                f"{mode:10}{name:6}{side['sentences_per_second']:9.1f}{side['tokens']:9d}"
                f"{side['peak_rss_mb'] or 0:9.0f}{extra}"
            )


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--run", required=True, help="run folder of a trained Transformer")
    parser.add_argument("--root", help="folder with Multi30k; downloaded if it is not given")
    parser.add_argument("--source", help="another text file to translate")
    parser.add_argument(
        "--hf-python", default=sys.executable, help="Python with transformers (default: this one)"
    )
    parser.add_argument("--sentences", type=int, default=1000)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--batch-tokens", type=int, default=2048)
    parser.add_argument("--max-length-ratio", type=float, default=1.5)
    parser.add_argument("--max-length-extra", type=int, default=10)
    parser.add_argument("--output", help="JSON file for the result")
    parser.add_argument("--side", help=argparse.SUPPRESS)
    parser.add_argument("--folder", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.side is not None:
        return serve(arguments)
    with tempfile.TemporaryDirectory() as folder:
        result = compare(arguments, Path(folder))
    show(result)
    if arguments.output is not None:
        Path(arguments.output).write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
