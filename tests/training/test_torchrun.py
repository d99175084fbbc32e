"""The commands as a user types them: torchrun, signals while the data is prepared, read-only folders."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from mt.training import checkpoint
from tests.training.world import pairs

ROOT = Path(__file__).parents[2]
TORCHRUN = (
    "torch.distributed.run",
    "--standalone",
    "--nproc-per-node=2",
    "--max-restarts=1",
    "-m",
    "mt.train",
)


def corpus(folder: Path, count: int = 300) -> list[str]:
    """Files of made-up pairs, and the options that train on them in a moment."""
    folder.mkdir()
    options = ["data=files", "data.source=fr", "data.target=en", f"data.cache={folder.parent / 'cache'}"]
    for split, number, seed in (("train", count, 0), ("valid", 20, 1)):
        for side, text in zip(("source", "target"), pairs(number, seed), strict=True):
            path = folder / f"{split}.{side}"
            path.write_text("\n".join(text) + "\n", encoding="utf-8")
            options.append(f"data.{split}_{side}={path}")
    return [
        *options, "tokenizer.vocab_size=300", "model=tiny", "model.width=16", "model.heads=2",
        "training.batch_tokens=200", "training.threads=1", "training.progress=false", "device=cpu",
        "training.tensorboard=false", "training.max_minutes=null", "training.max_epochs=null",
    ]  # fmt: skip


@contextmanager
def started(words: list[str], folder: Path) -> Iterator[subprocess.Popen[str]]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    process = subprocess.Popen(
        [sys.executable, "-m", *words], cwd=folder, env=environment, text=True, start_new_session=True,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        yield process
    finally:
        for child in (*children(process.pid).values(), process.pid):
            with suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)
        process.communicate()


def children(parent: int) -> dict[str, int]:
    """RANK -> process id of the processes that torchrun started."""
    found = {}
    for path in Path("/proc").iterdir():
        try:
            if path.name.isdigit() and f"\nPPid:\t{parent}\n" in (path / "status").read_text(
                encoding="ascii"
            ):
                names = dict(e.split("=", 1) for e in (path / "environ").read_text().split("\0") if "=" in e)
                found[names.get("RANK", path.name)] = int(path.name)
        except OSError:
            continue
    return found


def wait_until(what: Callable[[], bool], seconds: float = 90) -> None:
    end = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.02)


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_torchrun_restarts_a_killed_process_and_the_run_goes_on(tmp_path: Path) -> None:
    """Case 60."""
    options = [
        *corpus(tmp_path / "corpus"), "run=run", "training.max_steps=400", "training.save_every_steps=20",
        "training.validate_every_steps=200",
    ]  # fmt: skip
    checkpoints = tmp_path / "run" / "checkpoints"
    with started([*TORCHRUN, *options], tmp_path) as process:
        wait_until(lambda: len(checkpoint.steps(checkpoints)) > 0)
        os.kill(children(process.pid)["1"], signal.SIGKILL)
        output, _ = process.communicate(timeout=200)
    assert process.returncode == 0, output
    assert "going on with the run in run after step" in output and "local_rank: 1" in output
    assert json.loads((tmp_path / "run" / "result.json").read_bytes())["step"] == 400
    steps = [
        json.loads(line)["step"] for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()
    ]
    assert steps == sorted(steps) and output.count("finished (steps)") == 1


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_torchrun_hands_a_signal_on_and_everything_is_saved(tmp_path: Path) -> None:
    options = [*corpus(tmp_path / "corpus"), "run=run", "training.max_steps=100000"]
    with started([*TORCHRUN, *options], tmp_path) as process:
        wait_until(lambda: "step 50 " in log(tmp_path / "run"))
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does: torchrun and its processes
        output, _ = process.communicate(timeout=60)
    assert process.returncode != 0 and "stopped by SIGINT after step" in output
    assert len(checkpoint.steps(tmp_path / "run" / "checkpoints")) >= 1
    assert "at once by a second signal" not in output


def log(run: Path) -> str:
    path = run / "train.log"
    return path.read_text(encoding="utf-8") if path.is_file() else ""


@pytest.mark.parametrize("name", ["SIGTERM", "SIGUSR1"])
def test_a_signal_while_the_data_is_prepared(tmp_path: Path, name: str) -> None:
    """The tokenizer is trained in C++, which does not look at signals; this corpus takes it long."""
    import random

    choose = random.Random(0)
    options = corpus(tmp_path / "corpus")
    for side in ("source", "target"):
        text = (
            " ".join("".join(choose.choices("abcdefghij", k=5)) for _ in range(20)) for _ in range(20_000)
        )
        (tmp_path / "corpus" / f"train.{side}").write_text("\n".join(text) + "\n", encoding="utf-8")
    options = [*options, "run=run", "training.max_steps=5", "tokenizer.vocab_size=8000"]
    number = getattr(signal, name)
    with started(["mt.train", *options], tmp_path) as process:
        wait_until(lambda: "training a unigram tokenizer" in log(tmp_path / "run"))
        time.sleep(0.5)
        begin = time.monotonic()
        process.send_signal(number)
        output, _ = process.communicate(timeout=60)
    assert process.returncode == 128 + number, output
    assert "stopped while the data was prepared" in output and "Traceback" not in output
    assert time.monotonic() - begin < 20
    assert not (tmp_path / "run").exists()  # it never began


def test_read_only_data_and_nothing_outside_of_run_and_cache(tmp_path: Path) -> None:
    options = [*corpus(tmp_path / "corpus"), "run=run", "training.max_steps=2"]
    for path in (tmp_path / "corpus").iterdir():
        path.chmod(0o444)
    (tmp_path / "corpus").chmod(0o555)
    (tmp_path / "home").mkdir()
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "corpus").rglob("*")}
    with pytest.MonkeyPatch.context() as patch:
        for name in ("HOME", "TMPDIR", "XDG_CACHE_HOME"):
            patch.setenv(name, str(tmp_path / "home"))
        with started(["mt.train", *options], tmp_path) as process:
            output, _ = process.communicate(timeout=100)
    assert process.returncode == 0, output
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "corpus").rglob("*")} == before
    left = {path.name for path in tmp_path.iterdir()}
    assert left == {"corpus", "cache", "home", "run"}
    assert [path.name for path in (tmp_path / "home").iterdir()] == []


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_every_command_writes_only_where_it_is_told_to(tmp_path: Path) -> None:
    """With everything on that draws or reports; matplotlib alone keeps its list of fonts in its own place."""
    data = corpus(tmp_path / "corpus")
    data = [word for word in data if not word.startswith("training.tensorboard=")]
    (tmp_path / "home").mkdir()
    tests = [f"data.test_{side}=corpus/valid.{side}" for side in ("source", "target")]
    with pytest.MonkeyPatch.context() as patch:
        for name in ("HOME", "TMPDIR", "XDG_CACHE_HOME", "XDG_CONFIG_HOME"):
            patch.setenv(name, str(tmp_path / "home"))
        for words in (
            [
                "mt.train",
                *data,
                *tests,
                "run=run",
                "training.max_steps=60",
                "training.validate_every_steps=30",
            ],
            ["mt.evaluate", "run=run", "output=scores.json"],
            ["mt.compare", "run", "report=report.html", "randomization_trials=100"],
            ["mt.translate", "run=run", "heatmap=[map.png,map.html]", "--", "un chat"],
        ):
            with started(words, tmp_path) as process:
                output, _ = process.communicate(timeout=100)
            assert process.returncode == 0, output
    named = {"scores.json", "report.html", "map.png", "map.html"}
    assert {path.name for path in tmp_path.iterdir()} == {"corpus", "cache", "home", "run", *named}
    assert list((tmp_path / "run" / "tensorboard").iterdir())
    assert {path.name for path in (tmp_path / "home").iterdir()} <= {"matplotlib"}
