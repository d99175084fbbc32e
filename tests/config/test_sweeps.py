"""Sweeps: the same cells have one folder, what is done is done; failures, signals, ready-made words."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from mt.config import app
from mt.config.app import run_app
from mt.config.composition import Composition
from mt.config.paths import CONFIG_DIR
from mt.config.schema import TrainConfig
from mt.config.sweeps import FAILED, FINISHED, STOPPED, Cell, Runs, Sweep, run_here
from mt.errors import DataError, MTError

ROOT = Path(__file__).resolve().parents[2]


class World:
    """A command whose runs are files in ``runs/``."""

    def __init__(self) -> None:
        self.trained: list[int] = []
        self.fails: set[int] = set()
        self.raises: BaseException = DataError("out of luck")

    def __call__(self, config: TrainConfig) -> None:
        self.trained.append(config.seed)
        if config.seed in self.fails:
            raise self.raises
        folder = self.folder(config)
        folder.mkdir(parents=True)
        (folder / "result").touch()

    @staticmethod
    def folder(config: TrainConfig) -> Path:
        return Path(config.run or f"runs/{config.seed}-{config.model.width}")

    def start(self, words: list[str], *flags: str) -> int:
        runs = Runs(
            self.folder, lambda config: (self.folder(config) / "result").is_file(), lambda config: 7.0
        )
        return run_app(self, TrainConfig, "train", [*flags, *words], runs)


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    monkeypatch.setattr(app, "run_apart", run_here)  # what it adds is tested by itself
    return World()


def sweeps() -> list[Path]:
    return sorted(path.parent for path in Path("multirun").glob("*/sweep.json"))


def outcomes(folder: Path) -> list[dict[str, Any]]:
    paths = sorted(folder.glob("*/outcome.json"))
    return [json.loads(path.read_text(encoding="utf-8")) for path in paths]


def test_the_second_start_trains_what_the_first_did_not_finish(
    corpus: list[str], world: World, capsys: Any, caplog: Any
) -> None:
    world.fails = {2}
    assert world.start([*corpus, "seed=1,2,3", "training.tensorboard=false"], "-m") == 1
    first = outcomes(*sweeps())
    assert [outcome["status"] for outcome in first] == [FINISHED, FAILED, FINISHED]
    world.trained, world.fails = [], set()
    capsys.readouterr()
    assert world.start([*corpus, "seed=1,2,3", "training.tensorboard=false"], "-m") == 0
    (folder,) = sweeps()  # the same cells, the same folder
    assert world.trained == [2]
    second = outcomes(folder)
    assert second[0] == first[0] and second[2] == first[2]
    assert second[1]["status"] == FINISHED
    assert "out of luck" in (folder / "1" / "error.txt").read_text(encoding="utf-8")  # nothing is lost
    out = capsys.readouterr().out
    assert [line for line in out.splitlines() if line.startswith("job")] == [
        "job 0  finished  seed=1", "job 1  finished  seed=2", "job 2  finished  seed=3",
    ]  # fmt: skip
    assert f"python -m mt.compare sweep={folder}" in out


def test_every_failure_keeps_its_traceback(corpus: list[str], world: World) -> None:
    world.fails = {1}
    for reason in ("first", "second"):
        world.raises = ValueError(reason)
        assert world.start([*corpus, "seed=1,2"], "-m") == 1
    text = (sweeps()[0] / "0" / "error.txt").read_text(encoding="utf-8")
    assert text.index("ValueError: first") < text.index("ValueError: second")
    assert text.count("in __call__") == 2 and text.count("--- ") == 2


def test_other_cells_are_another_sweep(corpus: list[str], world: World) -> None:
    for words in (["seed=1,2"], ["seed=2,1"], ["seed=1,2,3"], ["seed=1,2", "model.dropout=0.2"]):
        assert world.start([*corpus, *words], "-m") == 0
    assert len(sweeps()) == 3  # the order of the cells is no difference


def test_the_plan_names_every_cell_with_its_run(corpus: list[str], world: World) -> None:
    assert world.start([*corpus, "seed=1,2", "model.width=64,65"], "-m") == 1
    plan = json.loads((sweeps()[0] / "sweep.json").read_text(encoding="utf-8"))
    assert plan["directory"] == os.getcwd()
    assert [cell["run"] for cell in plan["cells"]] == ["runs/1-64", "runs/1-65", "runs/2-64", "runs/2-65"]
    assert [cell["settings"]["model.width"] for cell in plan["cells"]] == ["64", "65"] * 2
    assert len({cell["cell"] for cell in plan["cells"]}) == 4


def test_stop_on_failure(corpus: list[str], world: World, capsys: Any) -> None:
    """Case 52, with the wish to stop."""
    world.fails = {2}
    words = [*corpus, "seed=1,2,3", "stop_on_failure=true"]
    assert world.start(words, "-m") == 1
    assert world.trained == [1, 2]
    assert "job 2  not started  seed=3" in capsys.readouterr().out
    world.fails = set()  # an old failure stops nothing
    assert world.start(words, "-m") == 0
    assert world.start([*corpus, "stop_on_failure=true"]) == 2
    assert "add -m" in capsys.readouterr().err


def test_one_folder_for_all_runs_is_refused(corpus: list[str], world: World, capsys: Any) -> None:
    assert world.start([*corpus, "seed=1,2", "run=same"], "-m") == 2
    assert "run=same: all jobs" in capsys.readouterr().err
    assert world.trained == []
    assert world.start([*corpus, "run=a,b"], "-m") == 0
    assert world.trained == [1, 1]


class Stopped(MTError):
    exit_code = 143


def test_a_signal_ends_the_sweep_and_is_no_failure(corpus: list[str], world: World, capsys: Any) -> None:
    world.fails, world.raises = {2}, Stopped("stopped by SIGTERM")
    assert world.start([*corpus, "seed=1,2,3"], "-m") == 143
    assert world.trained == [1, 2]
    assert [outcome["status"] for outcome in outcomes(*sweeps())] == [FINISHED, STOPPED]
    assert "error: stopped by SIGTERM" in capsys.readouterr().err


def test_repeated_cells_are_mentioned(corpus: list[str], world: World, caplog: Any) -> None:
    assert world.start([*corpus, "seed=1,1"], "-m") == 0
    assert "jobs 0 and 1 of the sweep are the same" in caplog.text
    assert world.trained == [1]


def test_a_word_given_twice_counts_once_and_in_hydras_order(corpus: list[str], world: World) -> None:
    words = [*corpus, "model.width=32", "seed=1,2", "model.width=64,128"]
    assert world.start(words, "-m") == 0
    plan = json.loads((sweeps()[0] / "sweep.json").read_text(encoding="utf-8"))["cells"]
    assert [cell["run"] for cell in plan] == ["runs/1-64", "runs/2-64", "runs/1-128", "runs/2-128"]
    assert [outcome["run"] for outcome in outcomes(*sweeps())] == [cell["run"] for cell in plan]


def test_another_order_of_jobs_changes_no_number(tmp_path: Path) -> None:
    sweep = sweep_of(tmp_path, 3)
    assert sweep.planned(Cell(0, ["b=2.0"], "2")) is sweep.cells[2]
    later = Cell(7, [], "chosen later")
    assert sweep.planned(later) is later


# ------------------------------------------------------------------ progress


def sweep_of(folder: Path, count: int) -> Sweep:
    return Sweep(folder, [Cell(n, ["a=1", f"b={n}"], str(n)) for n in range(count)])


def test_the_end_is_foretold_from_finished_cells(tmp_path: Path) -> None:
    sweep = sweep_of(tmp_path, 6)
    assert sweep.seconds_left(1, None) is None
    assert sweep.seconds_left(1, 60.0) == 360.0
    sweep.record(sweep.cells[0], {"status": FINISHED, "seconds": 10.0})
    sweep.record(sweep.cells[1], {"status": FINISHED, "seconds": 20.0})
    sweep.record(sweep.cells[2], {"status": FAILED, "seconds": 1.0, "reason": ""})
    assert sweep.seconds_left(1, 60.0) == 45.0
    assert sweep.seconds_left(3, 60.0) == 15.0
    again = sweep_of(tmp_path, 6)
    again.start = "another"
    assert again.seconds_left(1, None) == 60.0  # what failed before comes again
    assert sweep.name(3, ["a=1", "b=3"]) == "b=3"


def test_progress_is_told(corpus: list[str], world: World, capsys: Any) -> None:
    assert world.start([*corpus, "seed=1,2", "training.max_minutes=3"], "-m") == 0
    err = capsys.readouterr().err
    assert "job 0: 1 of 2 (all done in about 6 min, " in err and "job 1: 2 of 2" in err and "): seed=2" in err


@pytest.mark.parametrize(
    ("wanted", "cores", "at_once"), [(1, 8, 1), (3, 8, 3), (-1, 8, 8), (-2, 8, 7), (None, 8, 1)]
)
def test_jobs_at_once(wanted: int | None, cores: int, at_once: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(app, "_cores", lambda: cores)
    assert app._jobs_at_once(SimpleNamespace(launcher={"n_jobs": wanted})) == at_once
    assert app._jobs_at_once(SimpleNamespace(launcher={})) == 1


@pytest.mark.parametrize(("given", "threads"), [([], 4), (["training.threads=3"], 3)])
def test_jobs_at_the_same_time_share_the_cores(
    given: list[str], threads: int, corpus: list[str], world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(app, "_cores", lambda: 8)
    monkeypatch.setattr(app, "_jobs_at_once", lambda runtime: 2)
    seen = []
    monkeypatch.setattr(World, "__call__", lambda self, config: seen.append(config.training.threads))
    world.start([*corpus, "seed=1,2", *given], "-m")
    assert seen == [threads, threads]


# ------------------------------------------------------------------ a process for each cell

APART = """
import os, signal, sys, time
from mt.config.sweeps import run_apart
from mt.errors import DataError

def work():
    what = sys.argv[1]
    print("working", flush=True)
    if what == "code": return 3
    if what == "error": raise DataError("no luck")
    if what == "bug": raise KeyError("x")
    if what == "killed": os.kill(os.getpid(), signal.SIGKILL)
    if what == "left": os._exit(5)
    if what == "sleep": time.sleep(60)
    globals()["changed"] = True
    return 0

ended = run_apart(work)
assert "changed" not in globals()
print(ended.status, ended.code, ended.reason, "work" in ended.trace, sep="|")
"""


def apart(folder: Path, what: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", APART, what],
        cwd=folder, env={**os.environ, "PYTHONPATH": str(ROOT)}, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("what", "expected"),
    [
        ("fine", "finished|0|exit code 0|False"),
        ("code", "failed|3|exit code 3|False"),
        ("error", "failed|1|no luck|True"),
        ("bug", "failed|1|KeyError: 'x'|True"),
        ("killed", "failed|1|its process was ended by SIGKILL (out of memory?)|False"),
        ("left", "failed|5|its process ended with exit code 5|False"),
    ],
)
def test_whatever_ends_a_cell_the_sweep_goes_on(what: str, expected: str, tmp_path: Path) -> None:
    out, _ = apart(tmp_path, what).communicate(timeout=60)
    assert out.splitlines()[-1] == expected


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_is_passed_on_and_waited_for(number: int, tmp_path: Path) -> None:
    process = apart(tmp_path, "sleep")
    assert process.stdout is not None and process.stdout.readline() == "working\n"
    process.send_signal(number)
    out, _ = process.communicate(timeout=60)
    assert out == f"stopped|{128 + number}|stopped|False\n"


def test_a_killed_sweep_leaves_no_cell_running(tmp_path: Path) -> None:
    process = apart(tmp_path, "sleep")
    assert process.stdout is not None and process.stdout.readline() == "working\n"
    process.kill()
    begin = time.monotonic()
    process.stdout.read()  # ends when the cell's process, which has the same output, is gone
    assert time.monotonic() - begin < 30
    process.wait()


# ------------------------------------------------------------------ ready-made sweeps

READY = sorted(path.stem for path in (CONFIG_DIR / "sweep").glob("*.yaml"))


@pytest.mark.parametrize("name", READY)
def test_every_ready_made_sweep_composes(name: str, training: Composition, corpus: list[str]) -> None:
    words = training.read([*corpus, f"+sweep={name}"], multirun=True)
    assert words.problems == []
    jobs = training.jobs(words)
    assert len(jobs) > 2
    for job in jobs:
        checked = training.check(job)
        assert checked.problems == []


@pytest.mark.parametrize("word", ["+sweep=learning_rate", "sweep=learning_rate"])
def test_what_is_given_one_by_one_wins_over_a_ready_made_sweep(
    word: str, corpus: list[str], world: World
) -> None:
    rates: list[tuple[float, int]] = []

    def task(config: TrainConfig) -> None:
        rates.append((config.optimizer.lr, config.seed))

    assert run_app(task, TrainConfig, "train", [*corpus, word, "optimizer.lr=0.1,0.2", "seed=5"]) == 0
    assert rates == [(0.1, 5), (0.2, 5)]
    assert len(sweeps()) == 1


def test_cfg_shows_one_configuration_and_no_sweep(corpus: list[str], world: World, capsys: Any) -> None:
    assert world.start([*corpus, "+sweep=learning_rate", "--cfg", "job"]) == 2
    error = capsys.readouterr().err
    assert "this is a sweep: leave +sweep=... out" in error and "Ambiguous" not in error


def test_a_ready_made_sweep_that_is_not_there(corpus: list[str], world: World, capsys: Any) -> None:
    assert world.start([*corpus, "+sweep=learning_rat"]) == 2
    assert "did you mean learning_rate?" in capsys.readouterr().err
