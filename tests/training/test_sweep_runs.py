"""Whole sweeps of real, tiny trainings: resumed, killed at random moments, compared, shown by TensorBoard."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from tensorboard.backend.event_processing import data_provider, plugin_event_multiplexer
from tensorboard.context import RequestContext
from tensorboard.plugins import base_plugin
from tensorboard.plugins.hparams import api_pb2, backend_context, list_session_groups

from mt.config.run_config import save_config
from mt.train import is_finished, reached
from mt.training.tracking import TensorBoard
from tests.training.world import lines, pairs, small

ROOT = Path(__file__).resolve().parents[2]


def corpus_words(folder: Path) -> list[str]:
    """Files of a made-up corpus, and words that name them and a tiny model."""
    words = [
        "data=files", "data.source=fr", "data.target=en", "tokenizer.vocab_size=300", "model=tiny",
        "model.width=16",
        "model.heads=2", "model.ffn_width=16", "model.encoder_layers=1", "model.decoder_layers=1",
        "training.batch_tokens=128", "training.max_epochs=null", "training.max_steps=30",
        "training.validate_every_steps=10", "training.log_every_steps=5", "training.tensorboard=false",
        "training.threads=1", "training.samples=0", "schedule.warmup_steps=5", "device=cpu",
    ]  # fmt: skip
    for split, count in (("train", 120), ("valid", 8), ("test", 10)):
        for side, text in zip(("source", "target"), pairs(count, len(split)), strict=True):
            path = folder / f"{split}.{side}"
            path.write_text("".join(f"{line}\n" for line in text), encoding="utf-8")
            words.append(f"data.{split}_{side}={path.name}")
    return words


def start(folder: Path, *words: str, module: str = "mt.train") -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", module, *words],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        encoding="utf-8",
    )


def finish(process: subprocess.Popen[str]) -> tuple[int, str]:
    out, _ = process.communicate(timeout=280)
    return process.returncode, out


def table(folder: Path) -> Any:
    """What a comparison says, without what depends on the clock."""
    (sweep,) = (path.parent.relative_to(folder) for path in folder.glob("multirun/*/sweep.json"))
    words = [f"sweep={sweep}", "format=json", "output=table.json", "bootstrap_samples=100"]
    code, out = finish(start(folder, *words, "randomization_trials=100", module="mt.compare"))
    assert code == 0, out
    content = json.loads((folder / "table.json").read_text(encoding="utf-8"))
    for variant in content["variants"]:
        for run in variant["runs"]:
            run.pop("decoding_seconds", None)
            for name in ("minutes", "tokens_per_second", "peak_memory_mb"):
                run["numbers"].pop(name, None)
    return content


@pytest.mark.slow
@pytest.mark.timeout(3000)
def test_killed_at_any_moment_and_started_again_the_table_is_the_same(tmp_path: Path) -> None:
    """kill -9 at 20 random moments; one planted cell fails in the undisturbed sweep as well."""
    folders = [tmp_path / "undisturbed", tmp_path / "killed"]
    sweep = ["-m", "attention=scaled_dot,dot", "seed=1,2", "model.width=16,15"]  # 15 is not divisible
    outs = []
    for folder in folders:
        folder.mkdir()
        words = [*corpus_words(folder), *sweep]
        if folder.name == "killed":
            choose = random.Random(1)
            for _ in range(20):
                process = start(folder, *words)
                time.sleep(choose.uniform(0.5, 8.0))
                process.kill()
                process.wait()
                time.sleep(0.5)  # until the cell's own process has seen it
        code, out = finish(start(folder, *words))
        assert code == 1, out
        outs.append(out)
    assert table(folders[0]) == table(folders[1])
    for out in outs:
        assert out.count("failed") >= 4 and "model.width=15 is not divisible by model.heads=2" in out
    for run in (folders[0] / "runs").iterdir():
        assert lines(run) == lines(folders[1] / "runs" / run.name)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_failing_cell_its_traceback_and_the_table(tmp_path: Path) -> None:
    """One cell cannot write its run folder; the others finish, are compared, and are not trained again."""
    words = [*corpus_words(tmp_path), "-m", "seed=1,2,3"]
    (tmp_path / "runs").mkdir()
    code, out = finish(start(tmp_path, *words, "training.max_steps=3"))
    assert code == 0, out
    (tmp_path / "multirun").rename(tmp_path / "other")
    broken = sorted((tmp_path / "runs").iterdir())[0]
    seed = next(
        line.split()[1]
        for line in (broken / "config.yaml").read_text().splitlines()
        if line.startswith("seed:")
    )
    (broken / "result.json").unlink()
    for checkpoint in (broken / "checkpoints").glob("step-*/*"):
        checkpoint.write_bytes(b"damaged")
    code, out = finish(start(tmp_path, *words, "training.max_steps=3"))
    assert code == 1, out
    assert out.count("is finished already") == 2
    assert "failed" in out and f"failed  seed={seed}" in out
    (error,) = (tmp_path / "multirun").glob("*/*/error.txt")
    assert "CheckpointError" in error.read_text(encoding="utf-8")
    found = [
        (run["seed"], run["status"]) for variant in table(tmp_path)["variants"] for run in variant["runs"]
    ]
    assert sorted(found) == sorted((n, "failed" if str(n) == seed else "finished") for n in (1, 2, 3))


def test_a_cell_is_finished_only_by_its_own_configuration(tmp_path: Path) -> None:
    config = small(run=str(tmp_path))
    assert not is_finished(config) and reached(config) is None
    save_config(config, tmp_path / "config.yaml")
    assert not is_finished(config)
    result = {"metric": "bleu", "metrics": {"bleu": 12.5, "loss": 1.0}}
    (tmp_path / "result.json").write_text(json.dumps(result), encoding="utf-8")
    assert is_finished(config) and reached(config) == 12.5
    assert is_finished(small(run=str(tmp_path), training__threads=2))
    assert not is_finished(small(run=str(tmp_path), seed=2))


def test_tensorboards_hparams_page_shows_the_cells_and_what_differs(tmp_path: Path) -> None:
    for score in ("dot", "scaled_dot"):
        for seed in (1, 2):
            sink = TensorBoard(tmp_path / f"{score}-{seed}" / "tensorboard", 0)
            options = {"attention.score": score, "seed": seed, "model.width": 64}
            sink.options(options, {"bleu": 10.0 + seed}, 10)
            sink.close()
    runs = plugin_event_multiplexer.EventMultiplexer()
    runs.AddRunsFromDirectory(str(tmp_path))
    runs.Reload()
    provider = data_provider.MultiplexerDataProvider(runs, str(tmp_path))
    context = backend_context.Context(base_plugin.TBContext(data_provider=provider))
    wanted = api_pb2.ListSessionGroupsRequest(
        start_index=0, slice_size=10, allowed_statuses=[0, 1, 2, 3], include_metrics=True
    )
    page = list_session_groups.Handler(RequestContext(), context, "", wanted).run()
    found = {
        (group.hparams["attention.score"].string_value, group.hparams["seed"].number_value): [
            metric.value for metric in group.metric_values if metric.name.tag == "final/bleu"
        ]
        for group in page.session_groups
    }
    assert found == {(score, seed): [10.0 + seed] for score in ("dot", "scaled_dot") for seed in (1, 2)}
