"""Everything between the command line and a checked configuration.

Contract: an entry point is `run_app(task, schema, config_name)`. Words and YAML files are composed by
Hydra, checked as a whole before anything is read or written, and handed to the task as a plain
dataclass. `run_app` returns the exit code; every problem has been printed. With ``-m`` the task runs
once per job, a job that fails is recorded and the others go on.
Not in here: what a command does.
"""

from __future__ import annotations

import argparse
import logging
import os
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NoReturn, TypeVar

import hydra
from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig

from mt import __version__
from mt.config import terminal
from mt.config.composition import Composition, open_hydra, to_dataclass, user_folder
from mt.config.help import help_text
from mt.config.paths import CONFIG_DIR
from mt.config.quoting import as_text
from mt.config.schema import TrainConfig
from mt.config.sweeps import FAILED, FINISHED, STOPPED, Cell, Runs, Sweep, cell_of, run_apart, run_here
from mt.config.validate import Problem, find_problems, missing_files, warnings
from mt.config.words import Words
from mt.errors import ConfigError, UsageError

ConfigT = TypeVar("ConfigT")

_LOG = logging.getLogger("mt.config")


def run_app(
    task: Callable[[ConfigT], int | None],
    schema: type[ConfigT],
    config_name: str,
    argv: Sequence[str] | None = None,
    runs: Runs | None = None,
) -> int:
    """Compose, check, run.

    Args:
        task: the command; gets the configuration, returns an exit code (None is 0).
        schema: its options, one of `TrainConfig`, `TranslateConfig`, `EvaluateConfig`.
        config_name: its root in ``conf/``.
        argv: the words after the program's name; the process's own by default.
        runs: for a command that leaves runs behind: what a sweep has to know of them.

    Returns:
        The exit code.
    """
    terminal.set_up(restart=argv is None)
    words = list(sys.argv[1:] if argv is None else argv)
    return terminal.guarded(lambda: _run(task, schema, config_name, words, runs))


def _run(
    task: Callable[[Any], int | None], schema: type[Any], config_name: str, argv: list[str], runs: Runs | None
) -> int:
    flags = _parse(argv)
    if flags.version:
        print(f"mt {__version__}")
        return 0
    config_name = flags.config_name or config_name
    with user_folder(flags.config_dir):
        return _compose_and_run(task, schema, config_name, flags, runs)


def _compose_and_run(
    task: Callable[[Any], int | None],
    schema: type[Any],
    config_name: str,
    flags: argparse.Namespace,
    runs: Runs | None,
) -> int:
    if flags.info or flags.hydra_help or flags.shell_completion:
        return _through_hydra(lambda cfg: None, config_name, _hydra_flags(flags), flags.words)
    with open_hydra(schema, config_name, flags.config_dir) as composition:
        if flags.help:
            print(_help(composition, task, schema), end="")
            return 0
        ready_made = composition.multirun_asked(flags.words)
        if ready_made and flags.cfg is not None:
            raise UsageError("--cfg shows one configuration, and this is a sweep: leave +sweep=... out")
        multirun = flags.multirun or ready_made
        if multirun and os.environ.get("WORLD_SIZE", "1") != "1":
            raise UsageError("torchrun starts the processes of one run; start a sweep (-m) without it")
        words = composition.read(flags.words, multirun)
        if multirun and flags.cfg is None:
            sweep = _checked_sweep(composition, words, runs)
        else:
            checked = composition.check(words, relations=flags.cfg is None)
            _refuse(checked.problems)
    if flags.cfg is not None:
        return _through_hydra(lambda cfg: None, config_name, _hydra_flags(flags), words.good)
    if multirun:
        return _sweep(task, schema, config_name, flags, words, sweep, runs)
    config: Any = checked.config
    if getattr(config, "stop_on_failure", False):
        raise UsageError("stop_on_failure=true is about the cells of a sweep: add -m, or leave it out")
    for doubt in warnings(config):
        _LOG.warning("%s", doubt)
    outcome: list[int] = []
    _through_hydra(
        lambda cfg: outcome.append(task(config) or 0), config_name, _hydra_flags(flags), words.good
    )
    return outcome[0]


def _refuse(problems: Sequence[Problem]) -> None:
    if problems:
        raise ConfigError(list(dict.fromkeys(problem.message for problem in problems)))


# ---------------------------------------------------------------------------- flags


class _Flags(argparse.ArgumentParser):
    """Hydra's flags that we pass on, with errors in our own words."""

    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{message} (see --help)")


def _parse(argv: Sequence[str]) -> argparse.Namespace:
    parser = _Flags(add_help=False, allow_abbrev=False)
    parser.add_argument("--help", "-h", action="store_true")
    parser.add_argument("--hydra-help", action="store_true")
    parser.add_argument("--version", action="store_true")
    parser.add_argument("--cfg", "-c", choices=["job", "hydra", "all"])
    parser.add_argument("--resolve", action="store_true")
    parser.add_argument("--package", "-p")
    parser.add_argument("--run", "-r", action="store_true")
    parser.add_argument("--multirun", "-m", action="store_true")
    parser.add_argument("--shell-completion", "-sc", action="store_true")
    parser.add_argument("--config-name", "-cn")
    parser.add_argument("--config-dir", "-cd")
    parser.add_argument("--info", "-i", const="all", nargs="?")
    flags, rest = parser.parse_known_args(list(argv))
    strange = [word for word in rest if word.startswith("-")]
    if strange:
        raise UsageError(
            f"unknown flag {strange[0]}: options are written KEY=VALUE without dashes, e.g. "
            "training.max_steps=100 (see --help)"
        )
    flags.words = rest
    return flags


def _hydra_flags(flags: argparse.Namespace) -> list[str]:
    """The flags in Hydra's own spelling, in front of all words."""
    found = []
    for name in ("hydra_help", "resolve", "multirun", "shell_completion"):
        if getattr(flags, name):
            found.append("--" + name.replace("_", "-"))
    for name in ("cfg", "package", "info"):
        if getattr(flags, name) is not None:
            found += ["--" + name.replace("_", "-"), getattr(flags, name)]
    return found


def _help(composition: Composition, task: Callable[[Any], Any], schema: type[Any]) -> str:
    checked = composition.check(Words(), relations=False)
    _refuse(checked.problems)
    module = sys.modules.get(task.__module__)
    about = " ".join((module.__doc__ or "").split("\n\n")[0].split()) if module is not None else ""
    name = Path(sys.argv[0]).stem
    command = name if name.startswith("mt-") else f"python -m mt.{name}"
    return help_text(command, about, schema, checked.config, composition.groups())


# ---------------------------------------------------------------------------- through @hydra.main


def _through_hydra(
    job: Callable[[DictConfig], Any], config_name: str, flags: Sequence[str], words: Sequence[str]
) -> int:
    """Run a job under ``@hydra.main``, which reads its command line from `sys.argv`.

    What the job raises comes out again unchanged; Hydra would print it and exit.
    """
    raised: list[BaseException] = []

    def run_job(cfg: DictConfig) -> Any:
        try:
            return job(cfg)
        except BaseException as error:
            raised.append(error)
            if not isinstance(error, Exception):
                raise  # a signal ends a sweep too
            return None

    main = hydra.main(version_base="1.3", config_path=str(CONFIG_DIR), config_name=config_name)(run_job)
    before = sys.argv
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    sys.argv = [before[0], *flags, *words]
    try:
        main()
    except SystemExit as stop:
        if stop.code and not raised:
            return 1
    finally:
        sys.argv = before
        root.handlers[:] = handlers  # --info leaves one on standard output
        root.setLevel(level)
    if raised:
        raise raised[0]
    return 0


# ---------------------------------------------------------------------------- sweeps


def _checked_sweep(composition: Composition, words: Words, runs: Runs | None) -> Sweep:
    """Refuse what is wrong with every job; mention what is wrong with some. Returns the sweep."""
    _refuse(words.problems)
    named = {override.key_or_group for override in words.overrides}
    if "resume" in named:
        raise UsageError("resume goes on with one run; it has no place in a sweep (-m)")
    jobs = composition.jobs(words)
    found: list[list[str]] = []
    cells = []
    for number, job in enumerate(jobs):
        checked = composition.check(job)
        found.append([problem.message for problem in checked.problems])
        if checked.draft is not None:
            cells.append(cell_of(number, job.good, checked.draft, runs))
    if found:
        common = [message for message in found[0] if all(message in other for other in found)]
        if common:
            raise ConfigError(common)
        if all(found):
            raise ConfigError([f"job {n}: {message}" for n, each in enumerate(found) for message in each])
    if runs is not None and len(jobs) > 1 and "run" in named and len({cell.run for cell in cells}) == 1:
        raise UsageError(
            f"run={cells[0].run}: all jobs of the sweep would train in this folder; leave run= out, and each "
            "gets a folder of its own under runs"
        )
    for number, messages in enumerate(found):
        for message in messages:
            _LOG.warning("job %d of the sweep will fail: %s", number, message)
    _warn_of_repetitions(cells)
    folder, given = composition.sweep_folder(words)
    return Sweep.named(Path(folder), given, cells, words.good)


def _warn_of_repetitions(cells: Sequence[Cell]) -> None:
    first: dict[str, int] = {}
    for cell in cells:
        if cell.cell in first:
            _LOG.warning("jobs %d and %d of the sweep are the same", first[cell.cell], cell.job)
        first.setdefault(cell.cell, cell.job)


def _sweep(
    task: Callable[[Any], int | None],
    schema: type[Any],
    config_name: str,
    flags: argparse.Namespace,
    words: Words,
    sweep: Sweep,
    runs: Runs | None,
) -> int:
    """Run every job, whatever becomes of the others, and tell how each one ended."""

    def job(cfg: DictConfig) -> float | None:
        terminal.set_up(restart=False)
        runtime = HydraConfig.get()
        return _one_job(task, schema, cfg, sweep, runs, runtime)

    hydra_flags = _hydra_flags(flags)
    if "--multirun" not in hydra_flags:
        hydra_flags.append("--multirun")
    sweep.write_plan()
    count = len(sweep.cells)
    _LOG.info("a sweep of %d cell%s, each a run of its own", count, "s" * (count != 1))
    # Hydra must not compute the folder a second time.
    fixed = [*words.good, f"hydra.sweep.dir={as_text(str(sweep.folder))}"]
    code = _through_hydra(job, config_name, hydra_flags, fixed)
    return max(code, _tell_outcomes(sweep))


def _one_job(
    task: Callable[[Any], int | None],
    schema: type[Any],
    cfg: DictConfig,
    sweep: Sweep,
    runs: Runs | None,
    runtime: Any,
) -> float | None:
    """Run one job and record how it ended; what a sweeper may optimize, if there is such a number."""
    number, words = int(runtime.job.num), list(runtime.overrides.task)
    config, found = to_dataclass(cfg, schema)
    cell = Cell(number, words, "") if config is None else cell_of(number, words, config, runs)
    cell = sweep.planned(cell)
    number = cell.job
    if getattr(config, "stop_on_failure", False) and sweep.failed_now():
        _LOG.warning("job %d is not started: one before it failed (stop_on_failure=true)", number)
        return None
    parallel = _jobs_at_once(runtime)
    _announce(sweep, cell, config, parallel)
    if runs is not None and config is not None and not found and runs.finished(config):
        _LOG.info("job %d is finished already: %s", number, cell.run)
        earlier = [o for o in sweep.outcomes() if o["job"] == number and o["status"] == FINISHED]
        if not earlier:
            sweep.record(cell, {"status": FINISHED, "reason": "finished before this sweep", "seconds": 0.0})
        return runs.objective(config)
    if parallel > 1 and isinstance(config, TrainConfig) and config.training.threads is None:
        config.training.threads = max(1, _cores() // parallel)

    def work() -> int:
        _refuse(found or find_problems(config) + missing_files(config))
        for doubt in warnings(config):
            _LOG.warning("%s", doubt)
        return task(config) or 0

    started = time.monotonic()
    ended = (run_here if runs is None else run_apart)(work)
    seconds = round(time.monotonic() - started, 1)
    sweep.record(cell, {"status": ended.status, "reason": ended.reason, "seconds": seconds}, ended.trace)
    if ended.status == STOPPED:
        terminal.complain(ended.reason)
        raise SystemExit(ended.code)
    if ended.status == FAILED:
        _LOG.error("job %d failed: %s", number, ended.reason)
        return None
    return None if runs is None else runs.objective(config)


def _announce(sweep: Sweep, cell: Cell, config: Any, parallel: int) -> None:
    """Which of how many, and when all will be done."""
    minutes = config.training.max_minutes if isinstance(config, TrainConfig) else None
    left = sweep.seconds_left(parallel, None if minutes is None else minutes * 60)
    total = f" of {len(sweep.cells)}" if sweep.cells else ""
    end = ""
    if left is not None:
        at = time.strftime("%a %H:%M", time.localtime(time.time() + left))
        end = f" (all done in about {max(1, round(left / 60))} min, {at})"
    _LOG.info("job %d: %d%s%s: %s", cell.job, cell.job + 1, total, end, sweep.name(cell.job, cell.words))


def _jobs_at_once(runtime: Any) -> int:
    """How many jobs the launcher runs at the same time on this machine."""
    wanted = runtime.launcher.get("n_jobs", 1)
    wanted = 1 if wanted is None else int(wanted)
    return wanted if wanted >= 1 else max(1, _cores() + 1 + wanted)


def _cores() -> int:
    """Processor cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _tell_outcomes(sweep: Sweep) -> int:
    """Print one line per job of a finished sweep; 0 when all went well."""
    by_job = {int(outcome["job"]): outcome for outcome in sweep.outcomes()}
    for cell in sweep.cells:
        by_job.setdefault(cell.job, {"job": cell.job, "status": "not started", "words": cell.words})
    for number, outcome in sorted(by_job.items()):
        good = outcome["status"] == FINISHED
        reason = "" if good else ": " + str(outcome.get("reason", "")).replace("\n", os.linesep + "    ")
        print(
            f"job {number}  {outcome['status']}  {sweep.name(number, outcome['words'])}{reason}".rstrip(": ")
        )
    print(f"{len(by_job)} job{'s' * (len(by_job) != 1)}; details in {sweep.folder}")
    if any(outcome.get("run") for outcome in by_job.values()):
        print(f"compare them: python -m mt.compare sweep={sweep.folder}")
    return int(not by_job or any(outcome["status"] != FINISHED for outcome in by_job.values()))
