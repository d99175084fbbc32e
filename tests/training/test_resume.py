"""A run that was stopped, killed or damaged goes on as if nothing had happened."""

from __future__ import annotations

import json
import logging
import os
import shutil
import signal
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from mt.config.run_config import load_config, save_config
from mt.config.schema import OptimizerKind, Precision, TieEmbeddings, ValidMetric
from mt.config.validate import find_problems
from mt.data.tokenizer import Tokenizer
from mt.errors import CheckpointError, ConfigError
from mt.models.storage import read_tensors
from mt.training import checkpoint
from mt.training import trainer as trainer_module
from mt.training.ending import TrainResult
from mt.training.reporting import Reporter
from mt.training.signals import Interrupted
from mt.training.state import Progress
from mt.training.step import Diverged
from mt.training.trainer import Trainer, train
from mt.training.validation import Validator
from tests.training.test_trainer import Clock, clock, minutes, poison  # noqa: F401 (a fixture)
from tests.training.world import Killed, checkpoints, kill, lines, small, terminate

Install = Callable[[int, Callable[[Trainer], None]], None]

FULL: dict[str, Any] = {
    "training__accumulate": 2, "training__ema_decay": 0.9, "training__clip_norm": 0.5, "model__dropout": 0.3,
    "model__attention_dropout": 0.1, "optimizer__weight_decay": 0.01, "training__keep_last": 9,
}  # fmt: skip


def files(folder: Path, step: int) -> tuple[bytes, bytes]:
    """Weights, and optimizer with raw weights, bit for bit."""
    place = folder / "checkpoints" / f"step-{step:08d}"
    return (place / "model.safetensors").read_bytes(), (place / "optimizer.safetensors").read_bytes()


def counters(folder: Path, step: int) -> dict[str, Any]:
    """state.json without times."""
    state = json.loads((folder / "checkpoints" / f"step-{step:08d}" / "state.json").read_bytes())
    state["window"].pop("seconds"), state["window"].pop("wait_seconds")
    return {name: value for name, value in state.items() if "seconds" not in name}


def same_run(a: Path, b: Path, steps: list[int]) -> None:
    for step in steps:
        assert files(a, step) == files(b, step)
        assert counters(a, step) == counters(b, step)
    assert lines(a) == lines(b)
    assert (a / "model.safetensors").read_bytes() == (b / "model.safetensors").read_bytes()


@pytest.fixture(scope="module")
def unbroken_runs() -> dict[str, tuple[Path, TrainResult]]:
    return {}


@pytest.mark.parametrize(
    ("stop", "step", "changes"),
    [
        (terminate, 3, FULL),  # between two log lines, in the middle of an epoch
        (kill, 6, FULL),  # back to step 4
        (kill, 3, FULL),  # before the first checkpoint: from the beginning
        (terminate, 4, FULL),  # at a validation, which is left for later
        (terminate, 8, FULL),  # at the end
        (terminate, 6, {"optimizer__kind": OptimizerKind.muon}),
        (kill, 7, {**FULL, "training__precision": Precision.bf16, "training__save_every_steps": 3}),
        (terminate, 5, {"training__average_last": 3, "training__validate_every_steps": 2}),
        (terminate, 2, {"training__max_steps": None, "training__max_epochs": 2, "training__accumulate": 3}),
        (terminate, 4, {"training__max_steps": None, "training__max_tokens": 500}),
        (terminate, 2, {"model__tie_embeddings": TieEmbeddings.none, "training__ema_decay": 0.5}),
    ],
)
def test_resumed_is_unbroken_bit_for_bit(
    prepared: Any,
    tmp_path: Path,
    tmp_path_factory: pytest.TempPathFactory,
    unbroken_runs: dict[str, tuple[Path, TrainResult]],
    monkeypatch: pytest.MonkeyPatch,
    stop: Any,
    step: int,
    changes: dict[str, Any],
) -> None:
    config = small(**changes)
    key = repr(sorted((name, str(value)) for name, value in changes.items()))
    if key not in unbroken_runs:  # the same for several ways to stop
        folder = tmp_path_factory.mktemp("unbroken") / "run"
        unbroken_runs[key] = (folder, train(config, folder))
    whole, unbroken = unbroken_runs[key]
    with monkeypatch.context() as patch:
        update = Trainer._update

        def stopping(self: Trainer, batches: Any) -> None:
            update(self, batches)
            if self.progress.step == step:
                stop(self)

        patch.setattr(Trainer, "_update", stopping)
        with pytest.raises((Killed, Interrupted)):
            train(config, tmp_path / "broken")
    assert not (tmp_path / "broken" / "result.json").exists()
    resumed = train(config, tmp_path / "broken")
    planned = [n for n in checkpoints(whole) if n in checkpoints(tmp_path / "broken")]
    assert unbroken.step in planned
    same_run(whole, tmp_path / "broken", planned)
    assert resumed.metrics == unbroken.metrics and resumed.model == unbroken.model


def test_stopped_again_and_again(prepared: Any, tmp_path: Path, at_step: Install) -> None:
    """A machine that takes the job away after every update."""
    config = small(**FULL, training__max_steps=5)
    train(config, tmp_path / "unbroken")
    stops = 0

    def always(trainer: Trainer) -> None:
        terminate(trainer)

    for step in range(1, 6):
        at_step(step, always)
    for _ in range(20):
        try:
            train(config, tmp_path / "broken")
            break
        except Interrupted:
            stops += 1
    assert stops == 5
    same_run(tmp_path / "unbroken", tmp_path / "broken", [5])


# --- damage ---


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-9])


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[-1] ^= 4
    path.write_bytes(bytes(content))


@pytest.mark.parametrize(
    ("name", "damage"), [("model.safetensors", flip), ("optimizer.safetensors", cut), ("state.json", cut)]
)
def test_a_damaged_newest_checkpoint_costs_only_its_steps(
    prepared: Any, tmp_path: Path, monkeypatch, caplog, name: str, damage: Callable[[Path], None]
) -> None:
    config = small(**FULL, training__validate_every_steps=2)
    train(config, tmp_path / "unbroken")
    train(config, tmp_path / "broken")
    folder = tmp_path / "broken"
    (folder / "result.json").unlink()  # as if killed just before the end
    (folder / "checkpoints" / ".tmp-step-00000009-1").mkdir()
    damage(folder / "checkpoints" / "step-00000008" / name)
    with caplog.at_level(logging.WARNING):
        train(config, folder)
    assert "damaged" in caplog.text and "going back to step-00000006" in caplog.text
    same_run(tmp_path / "unbroken", folder, [6, 8])
    assert not list((folder / "checkpoints").glob(".tmp*"))


def test_no_whole_checkpoint_is_an_error_not_a_fresh_start(
    prepared: Any, tmp_path: Path, at_step: Install
) -> None:
    at_step(6, kill)
    with pytest.raises(Killed):
        train(small(), tmp_path / "run")
    flip(tmp_path / "run" / "checkpoints" / "step-00000004" / "model.safetensors")
    for _ in range(2):
        with pytest.raises(CheckpointError, match="no checkpoint"):
            train(small(), tmp_path / "run")
    assert lines(tmp_path / "run")


def test_the_best_checkpoint_damaged_at_the_end_is_told(
    prepared: Any, tmp_path: Path, monkeypatch, caplog
) -> None:
    config = small(training__valid_metric=ValidMetric.loss, training__keep_last=1)
    judge = Trainer._judge

    def first_is_best(self: Trainer, metrics: Any) -> None:
        judge(self, {**metrics, "loss": float(self.progress.step)})

    monkeypatch.setattr(Trainer, "_judge", first_is_best)
    finish = Trainer._finish

    def damaged(self: Trainer, stopped_by: str) -> Any:
        flip(self.snapshots.checkpoints / "step-00000004" / "model.safetensors")
        return finish(self, stopped_by)

    monkeypatch.setattr(Trainer, "_finish", damaged)
    with caplog.at_level(logging.WARNING):
        result = train(config, tmp_path / "run")
    assert "damaged" in caplog.text and result.model_step == 8


@pytest.mark.parametrize("state", ['{"step": "4"}', '{"step": true}', "{}"])
def test_counters_from_a_hostile_state_are_refused(prepared: Any, tmp_path: Path, state: str) -> None:
    with pytest.raises(CheckpointError, match=r"state\.json"):
        Progress.from_state(json.loads(state), tmp_path / "state.json")


# --- signals ---


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130), (signal.SIGUSR1, 138)]
)
def test_a_signal_saves_and_ends_with_its_code(
    prepared: Any, tmp_path: Path, at_step: Install, number: signal.Signals, code: int
) -> None:
    if threading.current_thread() is not threading.main_thread():
        pytest.skip("signals come to the main thread only")
    before = signal.getsignal(number)
    at_step(3, lambda _: os.kill(os.getpid(), number))
    with pytest.raises(Interrupted, match=r"after step 3.*resume=") as error:
        train(small(), tmp_path / "run")
    assert error.value.exit_code == code
    assert checkpoints(tmp_path / "run") == [3]
    assert signal.getsignal(number) is before


@pytest.mark.parametrize("changes", [FULL, {"training__average_last": 2}])
@pytest.mark.parametrize("number", [1, 2, 3])
def test_a_signal_breaks_a_validation_off_and_the_resumed_run_does_it_again(
    prepared: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, changes: dict[str, Any]
) -> None:
    """The third validation is that of the average of checkpoints, when there is one."""
    if number == 3 and "training__average_last" not in changes:
        return
    train(small(**changes), tmp_path / "unbroken")
    trainers: list[Trainer] = []
    init = Trainer.__init__
    calls = 0

    def translate(self: Validator, model: Any, sources: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == number:
            terminate(trainers[-1])
            raise AssertionError("not reached")
        return original(self, model, sources)

    with monkeypatch.context() as patch:
        original = Validator._translate
        patch.setattr(Validator, "_translate", translate)
        patch.setattr(Trainer, "__init__", lambda s, *a: (init(s, *a), trainers.append(s))[0])
        with pytest.raises(Interrupted, match=f"after step {4 * min(number, 2)}"):
            train(small(**changes), tmp_path / "broken")
    assert checkpoints(tmp_path / "broken")[-1] == 4 * min(number, 2)
    train(small(**changes), tmp_path / "broken")
    same_run(tmp_path / "unbroken", tmp_path / "broken", [8])


def test_a_second_signal_stops_at_once(prepared: Any, tmp_path: Path, monkeypatch) -> None:
    def update(self: Trainer, batches: Any) -> None:
        self._signals._handle(15, None)  # remembered ...
        self._signals._handle(2, None)  # ... and now
        raise AssertionError("not reached")

    monkeypatch.setattr(Trainer, "_update", update)
    with pytest.raises(Interrupted, match="at once") as error:
        train(small(), tmp_path / "run")
    assert error.value.exit_code == 130
    assert checkpoints(tmp_path / "run") == []


# --- finished runs, other configurations ---


def test_a_finished_run_is_not_trained_again(prepared: Any, tmp_path: Path, monkeypatch, caplog) -> None:
    first = train(small(), tmp_path / "run")
    before = {p: p.read_bytes() for p in (tmp_path / "run").rglob("*") if p.is_file()}
    monkeypatch.setattr(trainer_module, "prepare", lambda *_: pytest.fail("nothing is to be done"))
    with caplog.at_level(logging.INFO):
        second = train(small(), tmp_path / "run")
    assert "is finished" in caplog.text and second.already_finished and second == first
    assert {p: p.read_bytes() for p in (tmp_path / "run").rglob("*") if p.is_file()} == before


def test_a_larger_budget_goes_on_with_a_finished_run(prepared: Any, tmp_path: Path) -> None:
    train(small(), tmp_path / "run")
    with pytest.raises(ConfigError, match=r"max_steps is 8 in the run, 12 was given; resume="):
        train(small(training__max_steps=12), tmp_path / "run")
    result = train(small(training__max_steps=12, resume=str(tmp_path / "run")), tmp_path / "run")
    assert result.step == 12 and not result.already_finished
    assert [line["step"] for line in lines(tmp_path / "run") if line["kind"] == "valid"] == [4, 8, 12]


@pytest.mark.parametrize(
    ("budget", "used"),
    [("max_steps", 7), ("max_epochs", 0.01), ("max_tokens", 20), ("max_minutes", 1e-6)],
)
def test_a_budget_that_is_used_already_is_refused_and_not_recorded(
    prepared: Any, tmp_path: Path, budget: str, used: float, caplog: Any
) -> None:
    folder = tmp_path / "run"
    train(small(), folder)
    before = (folder / "config.yaml").read_bytes()
    changed = small(**{f"training__{budget}": used}, resume=str(folder))
    with pytest.raises(ConfigError, match=rf"training\.{budget}=.* the run has [\d.e-]+ behind it"):
        train(changed, folder)
    assert (folder / "config.yaml").read_bytes() == before
    assert train(small(training__max_steps=8, resume=str(folder)), folder).step == 8


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"model__width": 32}, r"model\.width is 16 in the run, 32 was given"),
        ({"optimizer__lr": 0.5}, r"optimizer\.lr"),
        ({"training__batch_tokens": 65}, r"training\.batch_tokens"),
        ({"training__ema_decay": 0.5}, r"training\.ema_decay"),
        ({"seed": 2}, "seed"),
        ({"training__accumulate": 2, "model__heads": 1}, r"(?s)model\.heads.*training\.accumulate"),
    ],
)
@pytest.mark.parametrize("resume", [False, True])
def test_another_configuration_is_refused(
    tmp_path: Path, changes: dict[str, Any], word: str, resume: bool
) -> None:
    """Before anything is read: `prepare` would fail here, as the files are not there."""
    folder = tmp_path / "run"
    folder.mkdir()
    save_config(small(), folder / "config.yaml")
    config = small(**changes, **({"resume": str(folder)} if resume else {}))
    with pytest.raises(ConfigError, match=word):
        train(config, folder)
    assert [path.name for path in folder.iterdir()] == ["config.yaml"]


def test_comfort_may_change_at_any_time(prepared: Any, tmp_path: Path, at_step: Install) -> None:
    train(small(**FULL), tmp_path / "unbroken")
    at_step(6, kill)
    with pytest.raises(Killed):
        train(small(**FULL), tmp_path / "run")
    changed = {**FULL, "training__prefetch_batches": 0, "data__cache": "elsewhere", "training__keep_last": 3}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Trainer, "_update", ORIGINAL_UPDATE)
        train(small(**changed), tmp_path / "run")
    same_run(tmp_path / "unbroken", tmp_path / "run", [8])


ORIGINAL_UPDATE = Trainer._update


def test_changed_data_or_tokenizer_is_refused_by_name(prepared: Any, tmp_path: Path, monkeypatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(Trainer, "_update", interrupted_at(3))
        with pytest.raises(Interrupted):
            train(small(), tmp_path / "run")
    prepared.report["train"]["target"]["sha256"] = "other"
    with pytest.raises(CheckpointError, match=r"train\.target changed since the run began"):
        train(small(), tmp_path / "run")
    assert lines(tmp_path / "run")
    prepared.report["train"]["target"]["sha256"] = "b"
    assert train(small(), tmp_path / "run").step == 8


def interrupted_at(step: int) -> Callable[[Trainer, Any], None]:
    def update(self: Trainer, batches: Any) -> None:
        ORIGINAL_UPDATE(self, batches)
        if self.progress.step == step:
            terminate(self)

    return update


# --- what goes on: logs, ties, time ---


def test_what_changed_since_is_told_once(prepared: Any, tmp_path: Path, monkeypatch, caplog: Any) -> None:
    folder = tmp_path / "run"
    with monkeypatch.context() as patch:
        patch.setattr(Trainer, "_update", interrupted_at(3))
        with pytest.raises(Interrupted):
            train(small(), folder)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 77)
    with caplog.at_level(logging.INFO):
        train(small(training__max_steps=9, resume=str(folder)), folder)
    assert caplog.text.count("77 CPU threads instead of") == 1
    assert caplog.text.count("changed for the rest of the run: training.max_steps") == 1


def test_no_step_is_told_twice(prepared: Any, tmp_path: Path, monkeypatch) -> None:
    """Case 70, for metrics.jsonl: the steps after the last checkpoint were logged, lost and done again."""
    config = small(training__log_every_steps=1)
    with monkeypatch.context() as patch:
        patch.setattr(
            Reporter,
            "log",
            lambda self, rate: (ORIGINAL_LOG(self, rate), kill(self) if self.progress.step == 7 else None),
        )
        with pytest.raises(Killed):
            train(config, tmp_path / "run")
    assert [line["step"] for line in lines(tmp_path / "run")][-1] == 7
    with open(tmp_path / "run" / "metrics.jsonl", "a", encoding="utf-8") as file:
        file.write('{"kind": "train", "st')  # the kill came in the middle of a line
    train(config, tmp_path / "run")
    told = [(line["kind"], line["step"]) for line in lines(tmp_path / "run")]
    assert len(told) == len(set(told))
    assert [step for kind, step in told if kind == "train"] == list(range(1, 9))
    assert "going on with the run" in (tmp_path / "run" / "train.log").read_text(encoding="utf-8")


ORIGINAL_LOG = Reporter.log


@pytest.mark.parametrize("changes", [{}, {"training__ema_decay": 0.9}, {"training__average_last": 2}])
def test_tied_embeddings_stay_one_tensor(
    prepared: Any, tmp_path: Path, monkeypatch, changes: dict[str, Any]
) -> None:
    """Case 72: train 2 steps, resume, train 1 more."""
    config = small(training__max_steps=3, training__validate_every_steps=1, **changes)
    with monkeypatch.context() as patch:
        patch.setattr(Trainer, "_update", interrupted_at(2))
        with pytest.raises(Interrupted):
            train(config, tmp_path / "run")
    trainers: list[Trainer] = []
    init = Trainer.__init__
    monkeypatch.setattr(Trainer, "__init__", lambda s, *a: (init(s, *a), trainers.append(s))[0])
    result = train(config, tmp_path / "run")
    model: Any = trainers[0].learner.model
    one = {
        model.source_embedding.weight.data_ptr(),
        model.target_embedding.weight.data_ptr(),
        model.output_weight.data_ptr(),
    }
    assert len(one) == 1
    for path in (tmp_path / "run").rglob("model.safetensors"):
        names = list(read_tensors(path))
        assert "source_embedding.weight" in names
        assert not {"target_embedding.weight", "output.weight"} & set(names)
    untied = sum(t.numel() for t in read_tensors(tmp_path / "run" / "model.safetensors").values())
    assert result.parameters == untied


def test_names_have_no_prefix_of_a_wrapper(prepared: Any, tmp_path: Path, monkeypatch) -> None:
    """Case 71: torch.compile in place keeps the names."""
    monkeypatch.setattr(torch.nn.Module, "compile", lambda self, **_: None)
    monkeypatch.setattr(trainer_module, "check_support", lambda *_: None)
    train(small(training__compile=True, training__max_steps=2), tmp_path / "run")
    for path in (tmp_path / "run").rglob("*.safetensors"):
        assert not [name for name in read_tensors(path) if "_orig_mod" in name or "module." in name]


def test_minutes_go_on_where_they_stopped(prepared: Any, tmp_path: Path, clock: Clock, monkeypatch) -> None:  # noqa: F811
    with monkeypatch.context() as patch:
        timed = Trainer._update

        def stopping(self: Trainer, batches: Any) -> None:
            timed(self, batches)
            if self.progress.step == 15:
                terminate(self)

        patch.setattr(Trainer, "_update", stopping)
        with pytest.raises(Interrupted):
            train(minutes(), tmp_path / "run")
    clock.now += 5000  # the machine was off
    result = train(minutes(), tmp_path / "run")
    assert 54 <= result.elapsed_seconds <= 61
    rates = [line["learning_rate"] for line in lines(tmp_path / "run") if line["kind"] == "train"]
    assert rates == sorted(rates, reverse=True) and rates[-1] < 0.06e-3


def test_skipped_updates_in_a_row_are_counted_over_a_resume(
    prepared: Any, tmp_path: Path, monkeypatch
) -> None:
    with monkeypatch.context() as patch:
        poison(patch, set(range(1, 50)))
        update = Trainer._update

        def stopping(self: Trainer, batches: Any) -> None:
            update(self, batches)
            if self.progress.step == 6:
                terminate(self)

        with monkeypatch.context() as inner:
            inner.setattr(Trainer, "_update", stopping)
            with pytest.raises(Interrupted):
                train(small(training__max_steps=50), tmp_path / "run")
        with pytest.raises(Diverged, match="step 10"):
            train(small(training__max_steps=50), tmp_path / "run")


def test_a_lost_best_checkpoint_is_told_and_searched_anew(
    prepared: Any, tmp_path: Path, monkeypatch, caplog
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(Trainer, "_update", interrupted_at(6))
        with pytest.raises(Interrupted):
            train(small(training__keep_last=1), tmp_path / "run")
    for path in sorted((tmp_path / "run" / "checkpoints").iterdir())[:-1]:
        path.rename(tmp_path / path.name)
    with caplog.at_level(logging.WARNING):
        result = train(small(training__keep_last=1), tmp_path / "run")
    assert "best checkpoint (step 4) is gone" in caplog.text and result.model_step == 8


def test_a_full_disk_ends_the_run_and_room_lets_it_go_on(prepared: Any, tmp_path: Path, monkeypatch) -> None:
    train(small(**FULL), tmp_path / "unbroken")
    save = checkpoint.save_file
    with monkeypatch.context() as patch:

        def full(tensors: Any, path: Path, **rest: Any) -> None:
            if "00000008" in str(path):
                raise OSError(28, "No space left on device")
            save(tensors, path, **rest)

        patch.setattr(checkpoint, "save_file", full)
        with pytest.raises(CheckpointError, match="no space left"):
            train(small(**FULL), tmp_path / "run")
    assert checkpoints(tmp_path / "run") == [4]
    train(small(**FULL), tmp_path / "run")
    same_run(tmp_path / "unbroken", tmp_path / "run", [4, 8])


def test_a_stored_configuration_can_be_resumed_from_wherever_it_lies(prepared: Any, tmp_path: Path) -> None:
    train(small(run=str(tmp_path / "run")), tmp_path / "run")
    moved = tmp_path / "moved"
    (tmp_path / "run").rename(moved)
    config = load_config(moved / "config.yaml")
    assert config.run is None and config.resume is None
    config.resume, config.training.max_steps = str(moved), 10
    assert not find_problems(config)
    assert train(config, moved).step == 10
    assert load_config(moved / "config.yaml").training.max_steps == 10


def test_a_swapped_tokenizer_is_noticed_before_going_on(
    prepared: Any, separate_tokenizer: Tokenizer, tmp_path: Path, monkeypatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(Trainer, "_update", interrupted_at(6))
        with pytest.raises(Interrupted):
            train(small(), tmp_path / "run")
    folder = tmp_path / "run" / "tokenizer"
    folder.rename(tmp_path / "kept")
    separate_tokenizer.save(folder)
    with pytest.raises(CheckpointError) as caught:
        train(small(resume=str(tmp_path / "run")), tmp_path / "run")
    for part in (separate_tokenizer.sha256[:12], prepared.tokenizer.sha256[:12], str(folder)):
        assert part in str(caught.value)
    (folder / "tokenizer.json").unlink()
    with pytest.raises(CheckpointError, match="the run's tokenizer is damaged"):
        train(small(), tmp_path / "run")
    shutil.rmtree(folder)
    (tmp_path / "kept").rename(folder)
    assert train(small(), tmp_path / "run").step == 8
