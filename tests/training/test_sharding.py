"""A model in parts makes the updates of a whole one, and its checkpoints are those of a whole one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from mt.config.schema import ModelKind, OptimizerKind, Precision, ScoreKind, Shard, TrainConfig
from mt.data.batches import Batch, collate
from mt.decoding.loading import load_run
from mt.errors import ConfigError
from mt.models.storage import read_tensors
from mt.training import step as step_module
from mt.training.distributed import LostProcess, World, joined
from mt.training.memory import OutOfMemory
from mt.training.schedule import Budget
from mt.training.sharding import local, whole
from mt.training.signals import Interrupted
from mt.training.step import TrainingStep
from mt.training.trainer import Trainer, train
from tests.training.ranks import run_ranks
from tests.training.world import checkpoints, lines, small, terminate

USUAL: dict[str, Any] = {
    "training__ema_decay": 0.9, "training__clip_norm": 0.5, "optimizer__weight_decay": 0.01,
    "optimizer__eps": 1e-4,
}  # fmt: skip


def config_of(shard: Shard, **changes: Any) -> TrainConfig:
    return small(
        training__shard=shard, training__max_steps=4, training__validate_every_steps=2,
        training__log_every_steps=1, training__accumulate=2, training__keep_last=9, **changes,
    )  # fmt: skip


def trained(config: TrainConfig, folder: Path, size: int = 2, stop_at: int | None = None) -> None:
    """Train with some processes, which agree on the result."""

    def work(rank: int) -> Any:
        update = Trainer._update

        def stopping(self: Trainer, batches: Any) -> None:
            update(self, batches)
            if self.progress.step == stop_at:
                terminate(self)

        Trainer._update = stopping  # type: ignore[method-assign]
        return train(config, folder).metrics

    outcomes = run_ranks(size, work)
    if stop_at is None:
        assert outcomes[0]["nll"] > 0 and outcomes == outcomes[:1] * size
    else:
        assert [outcome.kind for outcome in outcomes] == [Interrupted] * size


def tensors(folder: Path, step: int) -> dict[str, torch.Tensor]:
    place = folder / "checkpoints" / f"step-{step:08d}"
    found = {f"optimizer {name}": t for name, t in read_tensors(place / "optimizer.safetensors").items()}
    return {**read_tensors(place / "model.safetensors"), **found}


def assert_same(one: Path, other: Path) -> None:
    """The same tensors of the same kinds in all checkpoints, within rounding, and the same metrics."""
    assert checkpoints(one) == checkpoints(other)
    for step in checkpoints(one):
        a, b = tensors(one, step), tensors(other, step)
        assert a.keys() == b.keys()
        for name in a:
            torch.testing.assert_close(b[name], a[name], rtol=1e-3, atol=1e-5, msg=f"{name} at {step}")
    for x, y in zip(lines(one), lines(other), strict=True):
        assert x.keys() == y.keys() and (x["kind"], x["step"]) == (y["kind"], y["step"])
        for name in set(x) - {"kind", "bleu"}:
            assert y[name] == pytest.approx(x[name], rel=1e-4), (name, x["step"])
    a, b = (read_tensors(folder / "model.safetensors") for folder in (one, other))
    assert a.keys() == b.keys()


@pytest.mark.parametrize(
    ("size", "changes"),
    [
        (2, USUAL),
        # Three cannot share 16, 32 or 300 rows evenly.
        pytest.param(3, {**USUAL, "training__average_last": 2}, marks=pytest.mark.slow),
        pytest.param(2, {"optimizer__kind": OptimizerKind.adadelta}, marks=pytest.mark.slow),
        pytest.param(2, {"optimizer__kind": OptimizerKind.sgd, "optimizer__lr": 0.1}, marks=pytest.mark.slow),
        pytest.param(
            2,
            {"model__kind": ModelKind.rnn, "attention__score": ScoreKind.additive, "optimizer__eps": 1e-4},
            marks=pytest.mark.slow,
        ),
    ],
)
def test_parts_make_the_updates_of_the_whole(
    prepared: Any, tmp_path: Path, size: int, changes: dict[str, Any]
) -> None:
    for shard in Shard:
        trained(config_of(shard, **changes), tmp_path / shard.name, size)
    assert_same(tmp_path / "none", tmp_path / "fsdp")


@pytest.mark.parametrize("first", [Shard.fsdp, pytest.param(Shard.none, marks=pytest.mark.slow)])
def test_a_run_goes_on_in_parts_or_whole(prepared: Any, tmp_path: Path, first: Shard) -> None:
    """Also with another number of processes, which makes other batches."""
    then = Shard.none if first is Shard.fsdp else Shard.fsdp
    trained(config_of(Shard.none, **USUAL), tmp_path / "unbroken")
    for folder in ("run", "alone") if first is Shard.fsdp else ("run",):
        trained(config_of(first, **USUAL), tmp_path / folder, stop_at=3)
    trained(config_of(then, **USUAL), tmp_path / "run")
    assert_same(tmp_path / "unbroken", tmp_path / "run")
    if first is Shard.fsdp:
        result = train(config_of(Shard.none, **USUAL), tmp_path / "alone")
        assert result.step == 4 and load_run(tmp_path / "alone", "step-00000002").model is not None


# Micro-batches of two ranks: 0 has one more than the other.
CUTS = [[[0, 5, 9, 11, 12], [1, 2]], [[3, 4, 7, 8, 30]]]


def gradient_of(config: TrainConfig, folder: Path, prepared: Any, world: World) -> tuple[Any, ...]:
    """Loss over all ranks, splits, and the gradient by name, of this rank's micro-batches."""
    trainer = Trainer(config, folder, prepared, Budget.of(config.training), None, world)
    batches = [collate(prepared.train, cut) for cut in CUTS[world.rank]]
    loss, _, splits = trainer.training_step.gradient(batches)
    updater, own = trainer.learner.updater, sum(batch.tokens for batch in batches)
    if not trainer.learner.sharded:
        world.add_gradients(updater.parameters, own / world.sums([own])[0])
    gradient = {
        name: whole(p.grad).tolist()
        for name, p in zip(updater.names, updater.parameters, strict=True)
        if p.grad is not None
    }
    parts = sum(local(p).numel() for p in updater.parameters)
    return float(world.sum_(loss.clone())), splits, gradient, parts


def assert_close(one: dict[str, list[float]], other: dict[str, list[float]], within: float = 1e-5) -> None:
    """Gradients differ by no more than a share of their length."""
    assert one.keys() == other.keys()
    for name in one:
        a, b = torch.tensor(one[name]), torch.tensor(other[name])
        assert (a - b).norm() <= within * a.norm() + 1e-9, name


@pytest.mark.parametrize(("precision", "within"), [(Precision.fp32, 1e-5), (Precision.bf16, 1e-2)])
def test_the_gradient_of_parts_is_that_of_the_whole(
    prepared: Any, tmp_path: Path, precision: Precision, within: float
) -> None:
    """Also where ranks make different numbers of passes. bf16 has eight bits, which scaling rounds anew."""

    def work(rank: int) -> Any:
        configs = [config_of(shard, training__precision=precision, model__dropout=0.0) for shard in Shard]
        with joined(configs[0]) as world:
            return [gradient_of(config, tmp_path, prepared, world) for config in configs]

    outcomes = run_ranks(2, work)
    parts = []
    for (loss, _, gradient, all_of_it), (loss_of_parts, _, gradient_of_parts, own) in outcomes:
        assert loss_of_parts == pytest.approx(loss, rel=1e-6)
        assert_close(gradient, gradient_of_parts, within)
        parts.append(own)
        total = all_of_it
    assert sum(parts) == total and max(parts) < 0.51 * total


# --- what goes wrong ---


def test_out_of_memory_on_all_halves_on_all(prepared: Any, tmp_path: Path) -> None:
    """In the middle of a pass; the pass that follows is as if there had been none."""
    config = config_of(Shard.fsdp, model__dropout=0.0)

    def work(rank: int) -> Any:
        with joined(config) as world:
            before = gradient_of(config, tmp_path, prepared, world)
            losses = TrainingStep.losses

            def forgetful(self: TrainingStep, batch: Batch) -> Any:
                found = losses(self, batch)
                if batch.target_input.numel() > 21:
                    raise torch.OutOfMemoryError("CUDA out of memory")
                return found

            TrainingStep.losses = forgetful  # type: ignore[method-assign]
            return before, gradient_of(config, tmp_path, prepared, world)

    for (loss, none, gradient, _), (loss_of_halves, splits, gradient_of_halves, _) in run_ranks(2, work):
        assert none == 0 < splits
        assert loss_of_halves == pytest.approx(loss, rel=1e-6)
        assert_close(gradient, gradient_of_halves)


def test_out_of_memory_on_one_ends_all_with_advice(
    prepared: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The others are in a pass that cannot be made without it, nor called back."""
    monkeypatch.setattr(step_module, "_TOGETHER_SECONDS", 0.3)

    def work(rank: int) -> Any:
        losses = TrainingStep.losses

        def forgetful(self: TrainingStep, batch: Batch) -> Any:
            if rank and self.progress.step == 3:
                raise torch.OutOfMemoryError("CUDA out of memory")
            return losses(self, batch)

        TrainingStep.losses = forgetful  # type: ignore[method-assign]
        return train(config_of(Shard.fsdp), tmp_path / "run")

    first, second = run_ranks(2, work)
    assert second.kind is OutOfMemory and "alone among the processes" in second.text
    assert "training.batch_tokens=64" in second.text and "step-00000002" in second.text
    assert first.kind is LostProcess


def test_what_does_not_fit_at_the_beginning_is_halved_from_the_beginning(
    prepared: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """All ranks try the largest batch of all, so that they fail together; later no update fails."""

    def work(rank: int) -> Any:
        losses = TrainingStep.losses
        sizes: list[int] = []

        def forgetful(self: TrainingStep, batch: Batch) -> Any:
            sizes.append(batch.target_input.numel())
            if batch.target_input.numel() > 40:
                raise torch.OutOfMemoryError("CUDA out of memory")
            return losses(self, batch)

        TrainingStep.losses = forgetful  # type: ignore[method-assign]
        train(config_of(Shard.fsdp), tmp_path / "run")
        return sizes

    first, second = run_ranks(2, work)
    assert " parameters in parts; " in (tmp_path / "run" / "train.log").read_text(encoding="utf-8")
    assert first[0] == second[0] > 40 >= max(first[1:] + second[1:])
    assert [line["split_batches"] for line in lines(tmp_path / "run") if line["kind"] == "train"] == [0] * 4
    assert "does not fit into memory" in (tmp_path / "run" / "train.log").read_text(encoding="utf-8")


def test_one_process_alone_has_nobody_to_share_with(prepared: Any, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"training\.shard=fsdp.*torchrun"):
        train(config_of(Shard.fsdp), tmp_path / "run")
    assert not (tmp_path / "run").exists()
