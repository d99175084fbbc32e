"""Everything between the command line and a checked configuration.

Contract: an entry point is `run_app(task, schema, config_name)`. Words and YAML files are composed by
Hydra, checked as a whole before anything is read or written, and handed to the task as a plain
dataclass. `run_app` returns the exit code; every problem has been printed. With ``-m`` the task runs
once per job, a job that fails is recorded and the others go on.
Not in here: what a command does.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import sys
import time
import traceback
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
from mt.config.validate import Problem, find_problems, missing_files, warnings
from mt.config.words import Words
from mt.errors import ConfigError, MTError, UsageError

ConfigT = TypeVar("ConfigT")

_LOG = logging.getLogger("mt.config")

# Sweeps up to this many jobs are composed and checked before the first one starts (0.2 s each).
_CHECKED_JOBS = 100


def run_app(
    task: Callable[[ConfigT], int | None],
    schema: type[ConfigT],
    config_name: str,
    argv: Sequence[str] | None = None,
) -> int:
    """Compose, check, run.

    Args:
        task: the command; gets the configuration, returns an exit code (None is 0).
        schema: its options, one of `TrainConfig`, `TranslateConfig`, `EvaluateConfig`.
        config_name: its root in ``conf/``.
        argv: the words after the program's name; the process's own by default.

    Returns:
        The exit code.
    """
    terminal.set_up(restart=argv is None)
    words = list(sys.argv[1:] if argv is None else argv)
    return terminal.guarded(lambda: _run(task, schema, config_name, words))


def _run(task: Callable[[Any], int | None], schema: type[Any], config_name: str, argv: list[str]) -> int:
    flags = _parse(argv)
    if flags.version:
        print(f"mt {__version__}")
        return 0
    config_name = flags.config_name or config_name
    with user_folder(flags.config_dir):
        return _compose_and_run(task, schema, config_name, flags)


def _compose_and_run(
    task: Callable[[Any], int | None], schema: type[Any], config_name: str, flags: argparse.Namespace
) -> int:
    if flags.info or flags.hydra_help or flags.shell_completion:
        return _through_hydra(lambda cfg: None, config_name, _hydra_flags(flags), flags.words)
    with open_hydra(schema, config_name, flags.config_dir) as composition:
        if flags.help:
            print(_help(composition, task, schema), end="")
            return 0
        multirun = flags.multirun or composition.multirun_asked(flags.words)
        if multirun and os.environ.get("WORLD_SIZE", "1") != "1":
            raise UsageError("torchrun starts the processes of one run; start a sweep (-m) without it")
        words = composition.read(flags.words, multirun)
        if multirun and flags.cfg is None:
            folder = _checked_sweep(composition, words)
        else:
            checked = composition.check(words, relations=flags.cfg is None)
            _refuse(checked.problems)
    if flags.cfg is not None:
        return _through_hydra(lambda cfg: None, config_name, _hydra_flags(flags), words.good)
    if multirun:
        return _sweep(task, schema, config_name, flags, words, folder)
    config: Any = checked.config
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
    job: Callable[[DictConfig], None], config_name: str, flags: Sequence[str], words: Sequence[str]
) -> int:
    """Run a job under ``@hydra.main``, which reads its command line from `sys.argv`.

    What the job raises comes out again unchanged; Hydra would print it and exit.
    """
    raised: list[BaseException] = []

    def run_job(cfg: DictConfig) -> None:
        try:
            job(cfg)
        except BaseException as error:
            raised.append(error)
            if not isinstance(error, Exception):
                raise  # a signal ends a sweep too

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


def _checked_sweep(composition: Composition, words: Words) -> str:
    """Refuse what is wrong with every job; mention what is wrong with some. Returns the sweep's folder."""
    _refuse(words.problems)
    if any(override.key_or_group == "resume" for override in words.overrides):
        raise UsageError("resume goes on with one run; it has no place in a sweep (-m)")
    jobs = composition.jobs(words)
    if len(jobs) <= _CHECKED_JOBS:
        found = [[problem.message for problem in composition.check(job).problems] for job in jobs]
        common = [message for message in found[0] if all(message in other for other in found)]
        if common:
            raise ConfigError(common)
        if all(found):
            raise ConfigError([f"job {n}: {message}" for n, each in enumerate(found) for message in each])
        for number, messages in enumerate(found):
            for message in messages:
                _LOG.warning("job %d of the sweep will fail: %s", number, message)
    return composition.sweep_folder(words)


def _sweep(
    task: Callable[[Any], int | None],
    schema: type[Any],
    config_name: str,
    flags: argparse.Namespace,
    words: Words,
    folder: str,
) -> int:
    """Run every job, whatever becomes of the others, and tell how each one ended."""

    def job(cfg: DictConfig) -> None:
        terminal.set_up(restart=False)
        runtime = HydraConfig.get()
        _LOG.info("job %s: %s", runtime.job.num, " ".join(runtime.overrides.task))
        started = time.monotonic()
        outcome: dict[str, Any] = {"job": runtime.job.num, "words": list(runtime.overrides.task)}
        try:
            code = _one_job(task, schema, cfg)
            outcome |= {"status": "finished" if code == 0 else "failed", "reason": f"exit code {code}"}
        except Exception as error:
            reason = str(error) if isinstance(error, MTError) else f"{type(error).__name__}: {error}"
            outcome |= {"status": "failed", "reason": reason}
            _LOG.error("job %s failed: %s", runtime.job.num, reason)
            log = Path(runtime.runtime.output_dir, "error.txt")
            log.write_text(traceback.format_exc(), encoding="utf-8")
        outcome["seconds"] = round(time.monotonic() - started, 1)
        text = json.dumps(outcome, ensure_ascii=False, indent=1)
        Path(runtime.runtime.output_dir, "outcome.json").write_text(text + "\n", encoding="utf-8")

    hydra_flags = _hydra_flags(flags)
    if "--multirun" not in hydra_flags:
        hydra_flags.append("--multirun")
    # The folder has the time of day in its name: Hydra must not compute it a second time.
    fixed = [*words.good, f"hydra.sweep.dir={as_text(folder)}"]
    code = _through_hydra(job, config_name, hydra_flags, fixed)
    return max(code, _tell_outcomes(Path(folder)))


def _one_job(task: Callable[[Any], int | None], schema: type[Any], cfg: DictConfig) -> int:
    config, found = to_dataclass(cfg, schema)
    _refuse(found or find_problems(config) + missing_files(config))
    for doubt in warnings(config):
        _LOG.warning("%s", doubt)
    return task(config) or 0


def _tell_outcomes(folder: Path) -> int:
    """Print one line per job of a finished sweep; 0 when all went well."""
    outcomes = []
    for path in folder.glob("*/outcome.json"):
        outcomes.append(json.loads(path.read_text(encoding="utf-8")))
    outcomes.sort(key=lambda outcome: int(outcome["job"]))
    for outcome in outcomes:
        good = outcome["status"] == "finished"
        reason = "" if good else ": " + str(outcome["reason"]).replace("\n", os.linesep + "    ")
        print(f"job {outcome['job']}  {outcome['status']}  {' '.join(outcome['words'])}{reason}")
    print(f"{len(outcomes)} job{'s' * (len(outcomes) != 1)}; details in {folder}")
    return int(not outcomes or any(outcome["status"] != "finished" for outcome in outcomes))
