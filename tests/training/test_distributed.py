"""Two processes make the updates that one would, decide alike, and end together."""

from __future__ import annotations

import json
import os
import signal
import time
from pathlib import Path
from typing import Any

import pytest
import torch

from mt.data.batches import Batch, collate
from mt.errors import ConfigError
from mt.models.storage import read_tensors
from mt.training.distributed import LostProcess, World, joined
from mt.training.memory import OutOfMemory
from mt.training.micro_batches import MicroBatches
from mt.training.schedule import Budget
from mt.training.signals import Interrupted
from mt.training.step import TrainingStep
from mt.training.trainer import Trainer, train
from tests.training.ranks import place, run_ranks
from tests.training.world import checkpoints, lines, small

CUTS = [[0], [1, 2, 3, 4, 5], [6, 7], [8, 9, 10, 11]]


def seen_gradient(trainer: Trainer, batches: list[Batch]) -> list[torch.Tensor]:
    """The gradient that an update is made with, of all ranks."""
    seen: list[torch.Tensor] = []
    updater = trainer.learner.updater
    norm = updater.gradient_norm

    def spy() -> torch.Tensor:
        seen.extend(p.grad.clone() for p in updater.parameters if p.grad is not None)
        return norm()

    updater.gradient_norm = spy  # type: ignore[method-assign]
    trainer._update(batches)
    return seen


@pytest.mark.parametrize("size", [2, 4])
def test_the_gradient_is_that_of_one_process_on_the_joined_batch(
    prepared: Any, tmp_path: Path, size: int
) -> None:
    config = small(model__dropout=0.0)

    def gradient(world: World, cuts: list[list[int]]) -> list[torch.Tensor]:
        trainer = Trainer(config, tmp_path, prepared, Budget.of(config.training), None, world)
        trainer.learner.model.double()
        return seen_gradient(trainer, [collate(prepared.train, cut) for cut in cuts])

    def work(rank: int) -> list[list[float]]:
        with joined(config) as world:
            return [g.reshape(-1).tolist() for g in gradient(world, CUTS[rank::size])]

    alone = gradient(World(), [list(range(12))])
    for found in run_ranks(size, work):
        assert len(found) == len(alone)
        for a, b in zip(found, alone, strict=True):
            torch.testing.assert_close(
                torch.tensor(a, dtype=torch.float64), b.reshape(-1), rtol=1e-9, atol=1e-14
            )


def trained(config: Any, folder: Path, seen: list[int] | None = None) -> Any:
    """What the ranks do: train, and say what came out."""
    result = train(config, folder)
    return result.metrics, result.step, result.skipped_updates, list(seen or [])


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The pairs of this process's batches."""
    found: list[int] = []
    gather = MicroBatches.for_update

    def spy(self: MicroBatches) -> list[Batch]:
        batches = gather(self)
        found.extend(int(i) for batch in batches for i in batch.indices)
        return batches

    monkeypatch.setattr(MicroBatches, "for_update", spy)
    return found


def test_a_run_of_two_is_one_run(prepared: Any, tmp_path: Path, seen: list[int]) -> None:
    """Every pair once per epoch, every number once, one set of files, one result."""
    config = small(
        training__max_steps=None, training__max_epochs=2, training__validate_every_steps=None,
        training__accumulate=2, training__ema_decay=0.5, training__average_last=2,
    )  # fmt: skip
    first, second = run_ranks(2, lambda rank: trained(config, tmp_path / "run", seen))
    assert first[:3] == second[:3]
    assert sorted(first[3] + second[3]) == sorted(2 * list(range(40)))
    kinds = [(line["kind"], line["step"]) for line in lines(tmp_path / "run")]
    assert len(kinds) == len(set(kinds)) and [kind for kind, _ in kinds].count("valid") == 2
    log = (tmp_path / "run" / "train.log").read_text(encoding="utf-8")
    assert log.count("new run in") == 1 and log.count(" validation: ") == 2
    assert not list((tmp_path / "run").rglob("*.tmp*"))
    for path in (tmp_path / "run").rglob("*.safetensors"):
        assert not [name for name in read_tensors(path) if "module." in name]


def test_a_budget_of_tokens_counts_those_of_all(prepared: Any, tmp_path: Path) -> None:
    config = small(
        training__max_steps=None, training__max_tokens=700, training__log_every_steps=1,
        training__validate_every_steps=None,
    )  # fmt: skip
    first, second = run_ranks(2, lambda rank: trained(config, tmp_path / "run"))
    tokens = [line["tokens"] for line in lines(tmp_path / "run") if line["kind"] == "train"]
    assert first == second and first[1] == len(tokens)
    assert tokens[-2] < 700 <= tokens[-1]


def test_validation_is_shared_and_its_result_is_that_of_one_process(prepared: Any, tmp_path: Path) -> None:
    shared: list[int] = []

    def work(rank: int) -> Any:
        from mt.training.validation import Validator

        translate = Validator._translate
        Validator._translate = lambda self, model, texts: (  # type: ignore[method-assign]
            shared.append(len(texts)),
            translate(self, model, texts),
        )[1]
        config = small(training__max_steps=4)
        with joined(config) as world:
            trainer = Trainer(config, tmp_path, prepared, Budget.of(config.training), None, world)
            model, device = trainer.learner.model, torch.device("cpu")
            both = trainer.validator.validate(model)
            alone = Validator(config, prepared, device, config.training.batch_tokens).validate(model)
        return shared, both.translations == alone.translations, both.metrics(), alone.metrics()

    for sizes, same, both, alone in run_ranks(2, work):
        assert sizes == [3, 6] and same
        assert both == pytest.approx(alone, rel=1e-12)


# --- what goes wrong on one rank ---


def test_not_a_number_on_one_rank_is_skipped_on_all(prepared: Any, tmp_path: Path) -> None:
    def work(rank: int) -> Any:
        losses = TrainingStep.losses

        def poisoned(self: TrainingStep, batch: Batch) -> Any:
            loss, nll = losses(self, batch)
            return (loss * float("nan"), nll) if rank and self.progress.step == 2 else (loss, nll)

        TrainingStep.losses = poisoned  # type: ignore[method-assign]
        return trained(small(), tmp_path / "run")

    first, second = run_ranks(2, work)
    assert first == second and first[2] == 1 and first[1] == 8


@pytest.mark.parametrize("limit", [20, 2])
def test_out_of_memory_on_one_rank(prepared: Any, tmp_path: Path, limit: int) -> None:
    """Case 90: halved and counted while the other waits; where that does not help, all end with advice."""

    def work(rank: int) -> Any:
        losses = TrainingStep.losses

        def forgetful(self: TrainingStep, batch: Batch) -> Any:
            if rank and self.progress.step >= 5 and batch.target_input.numel() > limit:
                raise torch.OutOfMemoryError("CUDA out of memory")
            return losses(self, batch)

        TrainingStep.losses = forgetful  # type: ignore[method-assign]
        return trained(small(training__save_every_steps=2), tmp_path / "run")

    first, second = run_ranks(2, work)
    if limit == 20:
        assert first == second and first[1] == 8
        assert lines(tmp_path / "run")[-2]["split_batches"] > 0
    else:
        for error in (first, second):
            assert error.kind is OutOfMemory and "process 1" in error.text
        assert checkpoints(tmp_path / "run") == [2, 4] and "data.max_length" in first.text


@pytest.mark.parametrize("sizes", [(2, 1, 2), (1, 2, 1), (2, 3, 2)])
def test_a_signal_to_one_rank_stops_all_and_another_number_goes_on(
    prepared: Any, tmp_path: Path, seen: list[int], sizes: tuple[int, ...]
) -> None:
    """One epoch by changing numbers of processes: every pair once."""
    config = small(training__max_steps=None, training__max_epochs=1, training__batch_tokens=32)
    pairs: list[int] = []
    for part, size in enumerate(sizes):
        last = part == len(sizes) - 1

        def work(rank: int, size: int = size, last: bool = last) -> Any:
            update = Trainer._update
            begin: list[int] = []

            def stopping(self: Trainer, batches: Any) -> None:
                begin.append(0)
                update(self, batches)
                if not last and rank == size - 1 and len(begin) == 2:
                    self._signals._handle(signal.SIGTERM, None)

            Trainer._update = stopping  # type: ignore[method-assign]
            try:
                train(config, tmp_path / "run")
            except Interrupted as error:
                return error.exit_code, list(seen)
            return 0, list(seen)

        outcomes = run_ranks(size, work)
        assert [outcome[0] for outcome in outcomes] == [0 if last else 143] * size
        for _, own in outcomes:
            pairs += own
    assert sorted(pairs) == list(range(40))
    assert json.loads((tmp_path / "run" / "result.json").read_bytes())["epochs"] == pytest.approx(1.0)


def test_a_signal_breaks_the_validation_of_all_off(prepared: Any, tmp_path: Path) -> None:
    def work(rank: int) -> Any:
        from mt.training.validation import Validator

        translate = Validator._translate

        def signalled(self: Validator, model: Any, texts: Any) -> Any:
            if rank:
                os.kill(os.getpid(), signal.SIGUSR1)
            return translate(self, model, texts)

        Validator._translate = signalled  # type: ignore[method-assign]
        return train(small(), tmp_path / "run")

    for error in run_ranks(2, work):
        assert error.kind is Interrupted, error
    assert checkpoints(tmp_path / "run") == [4]
    state = json.loads((tmp_path / "run" / "checkpoints" / "step-00000004" / "state.json").read_bytes())
    assert state["validation_due"] and state["world_size"] == 2


@pytest.mark.parametrize("how", ["killed", "stopped", "raising"])
def test_a_lost_rank_ends_the_others_and_the_run_goes_on(prepared: Any, tmp_path: Path, how: str) -> None:
    """Case 60: the first process is told, at once or within the timeout, and names the way on."""
    config = small(training__save_every_steps=2, training__timeout_seconds=3)

    def work(rank: int) -> Any:
        update = Trainer._update

        def failing(self: Trainer, batches: Any) -> None:
            update(self, batches)
            if rank and self.progress.step == 3:
                if how == "raising":
                    raise ValueError("broken")
                os.kill(os.getpid(), signal.SIGKILL if how == "killed" else signal.SIGSTOP)

        Trainer._update = failing  # type: ignore[method-assign]
        return train(config, tmp_path / "run")

    begin = time.monotonic()
    found = run_ranks(2, work, ends={0}, seconds=60)
    assert found[0].kind is LostProcess and "the same command goes on" in found[0].text
    assert time.monotonic() - begin < 50
    assert checkpoints(tmp_path / "run") == [2]
    for metrics, step, *_ in run_ranks(2, lambda rank: trained(config, tmp_path / "run")):
        assert step == 8 and metrics


# --- the environment ---


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"WORLD_SIZE": "two"}, "WORLD_SIZE=two"),
        ({"RANK": "2"}, "torchrun --nproc-per-node=2"),
        ({"MASTER_ADDR": None}, "MASTER_ADDR"),
    ],
)
def test_an_environment_that_means_nothing_is_an_error(
    monkeypatch: pytest.MonkeyPatch, changes: dict[str, str | None], message: str
) -> None:
    for name, value in {**place(0, 2, 1), **changes}.items():
        if value is None:
            monkeypatch.delenv(name, raising=False)
        else:
            monkeypatch.setenv(name, value)
    with pytest.raises(ConfigError, match=message), joined(small()):
        pass


def test_processes_that_do_not_come_are_waited_for_no_longer_than_said(monkeypatch) -> None:
    from tests.training.ranks import free_port

    for name, value in place(0, 2, free_port()).items():
        monkeypatch.setenv(name, value)
    with pytest.raises(LostProcess), joined(small(training__timeout_seconds=1)):
        pass


def test_other_data_on_one_rank_is_an_error_on_all() -> None:
    def work(rank: int) -> Any:
        with joined(small()) as world:
            world.must_agree("tokenizers", "0123456789ab"[rank:] + "0" * 12)

    for error in run_ranks(2, work):
        assert error.kind is ConfigError and "different tokenizers" in error.text


def test_texts_of_all_kinds_arrive(tmp_path: Path) -> None:
    texts = [["", "a\nb", "ж\ud800"], [], ["𝄞" * 1000]]

    def work(rank: int) -> Any:
        with joined(small()) as world:
            return world.gather_texts(texts[rank]), world.from_first(rank + 5)

    assert run_ranks(3, work) == [(texts, 5.0)] * 3
