"""The whole way from a command line to a task: exit codes, output, sweeps, signals, encodings."""

from __future__ import annotations

import json
import logging
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from mt.config.app import run_app
from mt.config.fields import options
from mt.config.run_config import save_config
from mt.config.schema import EvaluateConfig, TrainConfig, TranslateConfig
from mt.errors import CheckpointError, DataError

ROOT = Path(__file__).resolve().parents[2]


def never(config: Any) -> None:
    raise AssertionError("the task must not run")


def train(words: list[str], task: Any = never) -> int:
    return run_app(task, TrainConfig, "train", words)


# ------------------------------------------------------------------ one run


def test_the_task_gets_a_plain_checked_dataclass(corpus: list[str]) -> None:
    seen: list[TrainConfig] = []
    assert train([*corpus, "model=tiny", "seed=7", "run=here"], seen.append) == 0
    (config,) = seen
    assert type(config) is TrainConfig
    assert (config.model.width, config.seed, config.run) == (128, 7, "here")
    assert config.data.train_source == "a.fr"


def test_nothing_is_written_by_a_run_itself(corpus: list[str], tmp_path: Path) -> None:
    before = sorted(os.listdir())
    assert train(corpus, lambda config: None) == 0
    assert os.getcwd() == str(tmp_path)
    assert sorted(os.listdir()) == before


def test_a_refused_command_writes_nothing_and_says_error(corpus: list[str], capsys: Any) -> None:
    before = sorted(os.listdir())
    assert train([*corpus, "model.width=30", "model.droput=1"]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("error: 2 problems")
    assert "model.width=30 is not divisible by model.heads=4" in err and "model.dropout?" in err
    assert sorted(os.listdir()) == before


@pytest.mark.parametrize(
    ("words", "parts"),
    [
        (["model.width=100", "model.heads=8"], ["model.width=100 is not divisible by model.heads=8"]),
        (["model.width=65", "model.heads=5"], ["model.width=65 is odd", "model.positions=sinusoidal"]),
        (["model.tie_embeddings=all", "tokenizer.joint=false"], ["tie_embeddings=all", "joint=false"]),
        (
            ["optimizer.lr=nan", "training.max_steps=-5"],
            ["lr=nan: must be a finite", "steps=-5: must be >= 1"],
        ),
        (
            ["optimizer.lr=0", "model.dropout=1.0", "training.batch_tokens=0", "training.accumulate=0"],
            ["lr=0.0: must be > 0", "dropout=1.0: must be >= 0 and < 1", "batch_tokens=0", "accumulate=0"],
        ),
        (
            ["training.label_smoothing=1.0", "decoding.beam=0", "decoding.max_length_ratio=-1"],
            ["label_smoothing=1.0: must be", "beam=0: must be >= 1", "max_length_ratio=-1.0: must be >= 0"],
        ),
        (["decoding.n_best=9", "decoding.beam=4"], ["decoding.n_best=9 is more than decoding.beam=4"]),
    ],
)
def test_what_is_impossible_is_refused_before_anything_is_read(
    words: list[str], parts: list[str], corpus: list[str], capsys: Any
) -> None:
    before = sorted(os.listdir())
    assert train([*corpus, *words]) == 2
    err = capsys.readouterr().err
    assert all(part in err for part in parts)
    assert sorted(os.listdir()) == before


def test_doubts_are_warned_about_and_the_run_goes_on(corpus: list[str], caplog: Any) -> None:
    with caplog.at_level(logging.WARNING):
        assert train([*corpus, "training.max_steps=10", "schedule.warmup_steps=50"], lambda config: None) == 0
    assert "schedule.warmup_steps=50" in caplog.text


@pytest.mark.parametrize(
    ("raised", "code", "message"),
    [
        (DataError("a.fr:3: bad"), 1, "error: a.fr:3: bad"),
        (KeyboardInterrupt(), 130, "error: interrupted"),
        (SystemExit(143), 143, ""),
        (SystemExit(None), 0, ""),
        (RuntimeError("boom"), 1, "this is a bug"),
        (OSError(28, "No space left on device", "runs/x"), 1, "error: No space left on device: runs/x"),
    ],
)
def test_how_a_task_ends_is_the_exit_code(
    raised: BaseException, code: int, message: str, corpus: list[str], capsys: Any
) -> None:
    def task(config: TrainConfig) -> None:
        raise raised

    assert train(corpus, task) == code
    err = capsys.readouterr().err
    assert message in err
    assert ("Traceback" in err) == isinstance(raised, RuntimeError)


def test_log_lines_go_where_a_progress_bar_finds_them_and_nothing_stays(
    corpus: list[str], capsys: Any
) -> None:
    logger = logging.getLogger("mt")
    before = list(logger.handlers)

    def task(config: TrainConfig) -> None:
        (handler,) = [each for each in logger.handlers if each not in before]
        assert isinstance(handler, logging.StreamHandler) and handler.stream is sys.stderr
        logging.getLogger("mt.room").info("plain")
        logging.getLogger("mt.room").warning("doubtful")

    assert train(corpus, task) == 0
    assert capsys.readouterr().err == "plain\nwarning: doubtful\n"
    assert logger.handlers == before and logger.level == logging.NOTSET


def test_a_task_may_return_its_exit_code(corpus: list[str]) -> None:
    assert train(corpus, lambda config: 3) == 3


def test_words_for_hydra_are_followed(corpus: list[str], tmp_path: Path) -> None:
    """Also by way of hydra.main, what a task returns or raises is the exit code."""
    folder = tmp_path / "out"
    words = [*corpus, f"hydra.run.dir={folder}", "hydra.output_subdir=kept"]
    assert train(words, lambda config: 3) == 3
    assert (folder / "kept" / "overrides.yaml").is_file()

    def task(config: TrainConfig) -> None:
        raise SystemExit(143)

    assert train(words, task) == 143


def test_debug_shows_the_traceback(corpus: list[str], capsys: Any, monkeypatch: Any) -> None:
    def task(config: TrainConfig) -> None:
        raise DataError("bad")

    monkeypatch.setenv("MT_DEBUG", "1")
    assert train(corpus, task) == 1
    err = capsys.readouterr().err
    assert err.startswith("error: bad") and "Traceback" in err and "in task" in err


def test_only_the_first_of_many_processes_complains(capsys: Any, monkeypatch: Any) -> None:
    monkeypatch.setenv("RANK", "1")
    assert train(["model.droput=1"]) == 2
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("words", "parts"),
    [
        (["--max-steps=3"], ["--max-steps=3", "KEY=VALUE"]),
        (["-x"], ["-x", "--help"]),
        (["--cfg", "everything"], ["job", "hydra"]),
        (["--config-dir", "nowhere"], ["nowhere", "no such folder"]),
        (["--config-name", "trian"], ["did you mean train?"]),
        (["--experimental-rerun", "x.pickle"], ["--experimental-rerun"]),
        (["--config-path", "x"], ["--config-path"]),
    ],
)
def test_wrong_flags(words: list[str], parts: list[str], capsys: Any) -> None:
    assert train(words) == 2
    err = capsys.readouterr().err
    assert err.startswith("error: ") and all(part in err for part in parts)


# ------------------------------------------------------------------ help and --cfg


@pytest.mark.parametrize(
    ("schema", "name"), [(TrainConfig, "train"), (TranslateConfig, "translate"), (EvaluateConfig, "evaluate")]
)
def test_help_has_every_option_with_its_meaning_and_every_choice(schema: Any, name: str, capsys: Any) -> None:
    assert run_app(never, schema, name, ["--help"]) == 0
    text = capsys.readouterr().out
    flat = " ".join(text.split())
    for key, option in options(schema).items():
        assert f"\n  {key}=" in text
        assert option.doc in flat and option.expected in flat
    assert "decoding=beam|greedy" in text
    assert max(map(len, text.splitlines())) <= 130


def test_cfg_prints_what_the_words_compose_to(capsys: Any) -> None:
    assert train(["--cfg", "job", "model=base", "decoding.beam=3", "data.source=é"]) == 0
    text = capsys.readouterr().out
    assert "width: 512\n" in text and "beam: 3\n" in text and "source: é\n" in text and "hydra" not in text
    assert train(["model.droput=1", "-c", "job"]) == 2


def test_words_and_flags_may_be_mixed(capsys: Any) -> None:
    assert train(["model=base", "--cfg", "job", "decoding.beam=3", "-p", "decoding"]) == 0
    assert "beam: 3" in capsys.readouterr().out


def test_version_and_info(capsys: Any) -> None:
    assert train(["--version"]) == 0
    assert capsys.readouterr().out.startswith("mt ")
    before = list(logging.getLogger().handlers)
    assert train(["--info", "defaults-tree"]) == 0
    assert logging.getLogger().handlers == before


# ------------------------------------------------------------------ resume


def stored_run(corpus: list[str]) -> TrainConfig:
    seen: list[TrainConfig] = []
    assert train([*corpus, "model=tiny", "training.max_steps=5"], seen.append) == 0
    Path("runs/a").mkdir(parents=True)
    save_config(seen[0], Path("runs/a/config.yaml"))
    return seen[0]


def test_resume_takes_the_stored_configuration_and_what_is_given_on_top(corpus: list[str]) -> None:
    stored = stored_run(corpus)
    seen: list[TrainConfig] = []
    words = ["resume=runs/a", "training.max_steps=9", "training.max_epochs=null", "schedule.warmup_steps=400"]
    assert train(words, seen.append) == 0
    stored.resume, stored.training.max_steps, stored.training.max_epochs = "runs/a", 9, None
    assert seen == [stored]


def test_resume_sees_a_choice_that_differs_from_the_run(corpus: list[str]) -> None:
    stored_run(corpus)
    seen: list[TrainConfig] = []
    assert train(["resume=runs/a", "model=small"], seen.append) == 0  # small is what no choice means, too
    assert seen[0].model.width == 256


def test_resume_without_a_run(corpus: list[str], capsys: Any) -> None:
    assert train(["resume=runs/b"]) == 2
    assert "resume=runs/b: no such folder" in capsys.readouterr().err
    Path("empty").mkdir()
    assert train(["resume=empty"]) == CheckpointError.exit_code
    assert "config.yaml: no such file" in capsys.readouterr().err


# ------------------------------------------------------------------ sweeps


def test_a_failing_job_does_not_stop_the_others(corpus: list[str], capsys: Any) -> None:
    """Case 52: it is listed as failed with its reason, its traceback is its own, the exit code is not 0."""
    widths: list[int] = []

    def task(config: TrainConfig) -> None:
        widths.append(config.model.width)
        if config.model.width == 16:
            raise DataError("out of luck")

    words = ["-m", *corpus, "model.width=65,16,32", "model.heads=8", "hydra.sweep.dir=sweep"]
    assert train(words, task) == 1
    assert widths == [16, 32]
    out = capsys.readouterr().out
    outcomes = [json.loads(Path(f"sweep/{n}/outcome.json").read_text(encoding="utf-8")) for n in range(3)]
    assert [outcome["status"] for outcome in outcomes] == ["failed", "failed", "finished"]
    assert "model.width=65 is not divisible by model.heads=8" in outcomes[0]["reason"]
    assert outcomes[1]["reason"] == "out of luck"
    assert "model.width=16" in outcomes[1]["words"]
    assert "in task" in Path("sweep/1/error.txt").read_text(encoding="utf-8")
    assert not Path("sweep/2/error.txt").exists()
    assert [line.split()[2] for line in out.splitlines() if line.startswith("job ")] == [
        "failed", "failed", "finished",
    ]  # fmt: skip


def test_a_sweep_in_which_every_job_works(corpus: list[str]) -> None:
    pairs: list[tuple[int, float]] = []
    words = ["--multirun", *corpus, "seed=range(1,3)", "model.dropout=choice(0.1)"]
    assert train(words, lambda config: pairs.append((config.seed, config.model.dropout))) == 0
    assert pairs == [(1, 0.1), (2, 0.1)]
    assert len(list(Path("multirun").rglob("outcome.json"))) == 2


@pytest.mark.parametrize(
    ("words", "parts"),
    [
        (["model.widht=16,32"], ["model.width?"]),
        (["model.width=16,wide"], ["model.width=wide: must be a whole number"]),
        (["model.width=15,17"], ["job 0", "job 1", "model.width=17"]),
        (["seed=1,2", "data.valid_source=none"], ["data.valid_source=none"]),
        (["resume=a,b"], ["resume"]),
    ],
)
def test_a_sweep_without_hope_does_not_start(
    words: list[str], parts: list[str], corpus: list[str], capsys: Any
) -> None:
    given = {word.partition("=")[0] for word in words}
    rest = [word for word in corpus if word.partition("=")[0] not in given]
    assert train(["-m", *rest, *words]) == 2
    err = capsys.readouterr().err
    assert all(part in err for part in parts)
    assert not Path("multirun").exists()


# ------------------------------------------------------------------ the process around it


def start(
    folder: Path, words: list[str], environment: dict[str, str], code: str = ""
) -> subprocess.Popen[bytes]:
    """Start `mt.train` (or a task of ours in its place) as a user would, in another folder."""
    script = code or "from mt.train import main\nsys.exit(main())"
    script = f"import sys\nfrom mt.config.app import run_app\nfrom mt.config.schema import *\n{script}"
    (folder / "program.py").write_text(script, encoding="utf-8")
    return subprocess.Popen(
        [sys.executable, "program.py", *words],
        cwd=folder,
        env={"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT), **environment},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        preexec_fn=heed_interrupts,
    )


def heed_interrupts() -> None:
    """A child of tests that run in the background would inherit that SIGINT is ignored."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


TASK = """
def task(config):
    import logging, os
    logging.getLogger("mt.x").warning("grüße 日本 %s", config.runs)
    print("日本", config.runs, os.path.isdir(config.runs))
sys.exit(run_app(task, TrainConfig, "train"))
"""


@pytest.mark.parametrize(
    "environment",
    [
        {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
        {"LC_ALL": "POSIX", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "PYTHONIOENCODING": "ascii"},
        {"LC_ALL": "C.UTF-8"},
    ],
)
def test_output_is_utf8_in_any_locale(environment: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "é").mkdir()
    words = ["data=multi30k", "runs=é"]
    out, err = start(tmp_path, words, environment, TASK).communicate(timeout=60)
    assert out.decode("utf-8") == "日本 é True\n"
    assert err.decode("utf-8") == "warning: grüße 日本 é\n"


def test_a_name_that_is_not_utf8_is_an_error(tmp_path: Path) -> None:
    words = ["data=multi30k", os.fsdecode(b"runs=caf\xe9")]
    process = start(tmp_path, words, {"LC_ALL": "C.UTF-8"})
    err = process.communicate(timeout=60)[1]
    assert process.returncode == 2
    assert b"not valid UTF-8" in err and b"Traceback" not in err


def test_a_reader_that_goes_away_is_no_fault(tmp_path: Path) -> None:
    code = """
def task(config):
    for n in range(100000):
        print(n, "x" * 100)
sys.exit(run_app(task, TrainConfig, "train"))
"""
    process = start(tmp_path, ["data=multi30k"], {}, code)
    assert process.stdout is not None and process.stderr is not None
    assert process.stdout.readline().startswith(b"0 ")
    process.stdout.close()
    err = process.stderr.read()
    assert (process.wait(timeout=60), err) == (0, b"")


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_signal_unwinds_and_is_the_exit_code(number: signal.Signals, code: int, tmp_path: Path) -> None:
    program = """
def task(config):
    import time
    try:
        print("ready", flush=True)
        time.sleep(60)
    finally:
        print("cleaned up", flush=True)
sys.exit(run_app(task, TrainConfig, "train"))
"""
    process = start(tmp_path, ["data=multi30k"], {}, program)
    assert process.stdout is not None
    assert process.stdout.readline() == b"ready\n"
    time.sleep(0.05)
    process.send_signal(number)
    out, err = process.communicate(timeout=60)
    assert process.returncode == code
    assert out == b"cleaned up\n" and b"Traceback" not in err


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
def test_a_full_disk_behind_standard_output_is_one_line(tmp_path: Path) -> None:
    with open("/dev/full", "wb") as full:
        result = subprocess.run(
            [sys.executable, "-m", "mt.train", "--help"],
            cwd=tmp_path,
            env={"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT)},
            stdout=full,
            stderr=subprocess.PIPE,
            check=False,
        )
    assert result.returncode == 1
    assert result.stderr.startswith(b"error: No space left") and result.stderr.count(b"\n") == 1


def test_a_sweep_under_torchrun_is_refused(monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    assert run_app(lambda config: None, TrainConfig, "train", ["-m", "seed=1,2"]) == 2
    assert "without it" in capsys.readouterr().err
