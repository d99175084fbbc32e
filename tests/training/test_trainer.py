"""The loop: what an update is, when it is validated, what is kept, and that every option does something."""

from __future__ import annotations

import json
import logging
import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from mt.config.fields import options
from mt.config.schema import (
    GradientPer,
    OptimizerKind,
    Precision,
    ScheduleKind,
    TokenizerConfig,
    TrainConfig,
    ValidMetric,
)
from mt.data.batches import Batch, collate
from mt.data.tokenizer import Tokenizer, train_tokenizer
from mt.decoding.loading import load_run
from mt.errors import ConfigError, DataError
from mt.models.storage import read_facts, read_tensors
from mt.training import learner as learner_module
from mt.training import micro_batches, timekeeping, tracking
from mt.training import trainer as trainer_module
from mt.training.ending import TrainResult
from mt.training.memory import OutOfMemory
from mt.training.micro_batches import MicroBatches
from mt.training.optimizer import Updater
from mt.training.schedule import Budget
from mt.training.step import Diverged, TrainingStep
from mt.training.trainer import Trainer, train
from mt.training.validation import Validator, batches_of_like_length
from tests.training.world import FAMILIES, checkpoints, lines, pairs, prepared_from, small


def made(config: TrainConfig, prepared: Any, folder: Path) -> Trainer:
    return Trainer(config, folder, prepared, Budget.of(config.training), None)


def gradients(trainer: Trainer, batches: list[Batch]) -> tuple[torch.Tensor, list[torch.Tensor]]:
    loss, *_ = trainer.training_step.gradient(batches)
    return loss, [p.grad.clone() for p in trainer.learner.updater.parameters if p.grad is not None]


# --- the update ---


@pytest.mark.parametrize("family", FAMILIES)
def test_loss_and_gradient_do_not_depend_on_the_cuts(prepared: Any, tmp_path: Path, family: str) -> None:
    trainer = made(small(model__dropout=0.0, **FAMILIES[family]), prepared, tmp_path)
    trainer.learner.model.double()
    everything = collate(prepared.train, range(12))
    # Cuts of unequal size and padding: a mean of means would differ.
    cuts = [collate(prepared.train, part) for part in ([0], [1, 2, 3, 4, 5], [6, 7], [8, 9, 10, 11])]
    loss, whole = gradients(trainer, [everything])
    loss_of_parts, parts = gradients(trainer, cuts)
    torch.testing.assert_close(loss, loss_of_parts, rtol=1e-12, atol=0)
    assert len(whole) == len(parts) == len(trainer.learner.updater.parameters)
    for a, b in zip(whole, parts, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-9, atol=1e-14)


def test_the_gradient_is_that_of_the_mean_over_real_tokens(prepared: Any, tmp_path: Path) -> None:
    trainer = made(small(model__dropout=0.0, training__label_smoothing=0.2), prepared, tmp_path)
    trainer.learner.model.double()
    batches = [collate(prepared.train, [0, 1]), collate(prepared.train, [2])]
    _, got = gradients(trainer, batches)
    trainer.learner.updater.clear()
    total = torch.zeros((), dtype=torch.float64)
    for batch in batches:
        hidden = trainer.learner.model(batch.source, batch.source_mask, batch.target_input, batch.target_mask)
        logits = hidden @ trainer.learner.model.output_weight.T
        targets = batch.target_output[batch.target_mask]
        total = total + torch.nn.functional.cross_entropy(
            logits, targets, label_smoothing=0.2, reduction="sum"
        )
    (total / sum(batch.tokens for batch in batches)).backward()
    for a, parameter in zip(got, trainer.learner.updater.parameters, strict=True):
        assert parameter.grad is not None
        torch.testing.assert_close(a, parameter.grad, rtol=1e-8, atol=1e-13)


def test_the_gradient_per_sentence_is_the_sum_over_its_tokens(prepared: Any, tmp_path: Path) -> None:
    per_token, per_sentence = (
        made(small(model__dropout=0.0, training__gradient_per=per), prepared, tmp_path)
        for per in (GradientPer.token, GradientPer.sentence)
    )
    batches = [collate(prepared.train, [0, 1]), collate(prepared.train, [2])]
    tokens_a_sentence = sum(batch.tokens for batch in batches) / 3
    per_token.learner.model.double()
    per_sentence.learner.model.double()
    (loss, a), (other, b) = gradients(per_token, batches), gradients(per_sentence, batches)
    assert loss == other
    for one, many in zip(a, b, strict=True):
        torch.testing.assert_close(one * tokens_a_sentence, many, rtol=1e-9, atol=1e-14)


def test_every_pair_is_seen_once_per_epoch_even_when_accumulation_does_not_divide_it(
    prepared: Any, tmp_path: Path, monkeypatch
) -> None:
    seen: list[int] = []
    gather = MicroBatches.for_update

    def spy(self: MicroBatches) -> list[Batch]:
        batches = gather(self)
        seen.extend(int(i) for batch in batches for i in batch.indices)
        return batches

    monkeypatch.setattr(MicroBatches, "for_update", spy)
    config = small(
        training__max_steps=None, training__max_epochs=2, training__accumulate=3,
        training__validate_every_steps=None, training__batch_tokens=40,
    )  # fmt: skip
    result = train(config, tmp_path / "run")
    assert sorted(seen) == sorted(2 * list(range(40)))
    assert result.epochs == 2.0 and result.stopped_by == "epochs"
    assert [line["epoch"] for line in lines(tmp_path / "run") if line["kind"] == "valid"][-1] == 2.0


@pytest.mark.parametrize("accumulate", [1, 2])
def test_a_budget_of_tokens_ends_with_the_update_that_reaches_it(
    prepared: Any, tmp_path: Path, accumulate: int
) -> None:
    """And the rate falls to that end, on which the tokens of the logs are the budget's."""
    config = small(
        training__max_steps=None, training__max_tokens=700, training__validate_every_steps=None,
        training__log_every_steps=1, schedule__warmup_steps=0, training__accumulate=accumulate,
    )  # fmt: skip
    result = train(config, tmp_path / "run")
    told = [line for line in lines(tmp_path / "run") if line["kind"] == "train"]
    tokens = [line["tokens"] for line in told]
    assert result.stopped_by == "tokens" and result.tokens == tokens[-1]
    assert tokens[-2] < 700 <= tokens[-1]
    before = [0, *tokens[:-1]]
    assert [line["learning_rate"] for line in told] == pytest.approx([1e-3 * (1 - n / 700) for n in before])


def test_forty_sentences_are_learnt_by_heart(tokenizer: Tokenizer, tmp_path: Path, monkeypatch) -> None:
    """The parts of the loop fit together: what was trained on is translated without a fault."""
    known = pairs(40, 0)
    made_up = prepared_from(tokenizer, known, (known[0][:8], known[1][:8]))
    monkeypatch.setattr(trainer_module, "prepare", lambda *_: made_up)
    config = small(
        training__max_steps=80, training__batch_tokens=400, training__validate_every_steps=80,
        training__label_smoothing=0.0, model__dropout=0.0, optimizer__lr=0.02, model__width=32,
        schedule__warmup_steps=10,
    )  # fmt: skip
    metrics = train(config, tmp_path / "run").metrics
    assert metrics["bleu"] == pytest.approx(100.0)
    assert metrics["perplexity"] is not None and metrics["perplexity"] < 1.3


# --- not a number, not enough memory ---


def poison(monkeypatch, steps: set[int], value: float = math.nan) -> None:
    """Make the loss of some updates not finite."""
    losses = TrainingStep.losses

    def patched(self: TrainingStep, batch: Batch) -> tuple[torch.Tensor, torch.Tensor]:
        loss, nll = losses(self, batch)
        return (loss * value, nll) if self.progress.step + 1 in steps else (loss, nll)

    monkeypatch.setattr(TrainingStep, "losses", patched)


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_a_bad_update_is_skipped_and_counted(
    prepared: Any, tmp_path: Path, monkeypatch, value: float
) -> None:
    weights: dict[int, dict[str, torch.Tensor]] = {}
    update = Trainer._update

    def spy(self: Trainer, batches: Any) -> None:
        update(self, batches)
        state = {**self.learner.updater.tensors(), **self.learner.model.state_dict()}
        weights[self.progress.step] = {name: t.clone() for name, t in state.items()}

    monkeypatch.setattr(Trainer, "_update", spy)
    poison(monkeypatch, {3, 4}, value)
    result = train(small(), tmp_path / "run")
    assert result.skipped_updates == 2 and result.step == 8
    assert all(torch.equal(weights[2][name], weights[4][name]) for name in weights[2])
    assert not torch.equal(weights[4]["source_embedding.weight"], weights[5]["source_embedding.weight"])
    assert all(math.isfinite(line["loss"]) for line in lines(tmp_path / "run"))
    assert lines(tmp_path / "run")[-2]["skipped_updates"] == 2


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_a_gradient_that_is_no_number_is_skipped_though_the_loss_is_one(
    prepared: Any, tmp_path: Path, monkeypatch, value: float
) -> None:
    norm, calls = Updater.gradient_norm, [0]

    def poisoned(self: Updater) -> torch.Tensor:
        calls[0] += 1
        if calls[0] == 3:
            gradient = self.parameters[-1].grad
            assert gradient is not None
            gradient.view(-1)[0] = value
        return norm(self)

    monkeypatch.setattr(Updater, "gradient_norm", poisoned)
    result = train(small(), tmp_path / "run")
    assert (result.step, result.skipped_updates) == (8, 1)
    stored = read_tensors(tmp_path / "run" / "model.safetensors")
    assert all(tensor.isfinite().all() for tensor in stored.values())


def test_ten_bad_updates_in_a_row_stop_with_advice(prepared: Any, tmp_path: Path, monkeypatch) -> None:
    poison(monkeypatch, set(range(6, 40)))
    with pytest.raises(Diverged, match=r"(?s)10 times in a row.*optimizer\.lr.*step-00000012"):
        train(
            small(training__max_steps=40, training__validate_every_steps=4, training__keep_last=1),
            tmp_path / "run",
        )


def test_nine_bad_updates_and_a_good_one_go_on(prepared: Any, tmp_path: Path, monkeypatch) -> None:
    poison(monkeypatch, {*range(1, 10), *range(11, 20)})
    result = train(small(training__max_steps=20, training__validate_every_steps=20), tmp_path / "run")
    assert result.skipped_updates == 18


def forgetful(monkeypatch, limit: int) -> list[int]:
    """A machine that has memory for `limit` target positions at a time."""
    sizes: list[int] = []
    losses = TrainingStep.losses

    def patched(self: TrainingStep, batch: Batch) -> tuple[torch.Tensor, torch.Tensor]:
        if batch.target_input.numel() > limit:
            raise torch.OutOfMemoryError("CUDA out of memory")
        sizes.append(batch.target_input.numel())
        return losses(self, batch)

    monkeypatch.setattr(TrainingStep, "losses", patched)
    return sizes


def test_out_of_memory_halves_the_batch_with_the_same_gradient(
    prepared: Any, tmp_path: Path, monkeypatch
) -> None:
    """Case 90, once: retried in halves; see test_distributed.py for several processes."""
    trainer = made(small(model__dropout=0.0), prepared, tmp_path)
    trainer.learner.model.double()
    batches = [collate(prepared.train, range(9)), collate(prepared.train, [20])]
    loss, whole = gradients(trainer, batches)
    sizes = forgetful(monkeypatch, 20)
    again, parts = gradients(trainer, batches)
    assert max(sizes) <= 20 and trainer.training_step.gradient(batches)[2] > 0
    torch.testing.assert_close(loss, again, rtol=1e-12, atol=0)
    for a, b in zip(whole, parts, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-9, atol=1e-14)


def test_the_largest_batch_is_tried_before_the_first_update(
    prepared: Any, tmp_path: Path, monkeypatch, caplog
) -> None:
    """And nothing of that remains: neither in the result nor in the counts."""
    sizes: list[tuple[int, int]] = []
    losses = TrainingStep.losses

    def spy(self: TrainingStep, batch: Batch) -> tuple[torch.Tensor, torch.Tensor]:
        sizes.append((self.progress.step, batch.source.numel() + batch.target_input.numel()))
        return losses(self, batch)

    with monkeypatch.context() as patch:
        patch.setattr(TrainingStep, "losses", spy)
        with caplog.at_level(logging.INFO):
            train(small(training__max_steps=3), tmp_path / "tried")
    epoch = [size for step, size in sizes[1:] if step < 2]
    assert sizes[0][1] >= max(epoch) and sizes[0][0] == 0 and len(sizes) == 4
    assert "the largest batch (" in caplog.text and "fits: peak memory" in caplog.text
    monkeypatch.setattr(Trainer, "_try_largest_batch", lambda self: None)
    train(small(training__max_steps=3), tmp_path / "untried")
    assert lines(tmp_path / "tried") == lines(tmp_path / "untried")


def test_a_largest_batch_that_does_not_fit_is_told_with_advice(
    prepared: Any, tmp_path: Path, monkeypatch, caplog
) -> None:
    forgetful(monkeypatch, 40)
    with caplog.at_level(logging.WARNING):
        train(small(training__max_steps=1), tmp_path / "run")
    assert "does not fit into memory" in caplog.text and "lower training.batch_tokens=64" in caplog.text


@pytest.mark.parametrize("error", [MemoryError, torch.OutOfMemoryError])
def test_memory_that_is_gone_for_good_ends_the_run_with_its_checkpoint_whole(
    prepared: Any, tmp_path: Path, monkeypatch, error: type[BaseException]
) -> None:
    """Case 90, always: from step 7 on nothing fits any more."""
    losses = TrainingStep.losses

    def gone(self: TrainingStep, batch: Batch) -> tuple[torch.Tensor, torch.Tensor]:
        if self.progress.step >= 6:
            raise error("no memory")
        return losses(self, batch)

    with monkeypatch.context() as patch:
        patch.setattr(TrainingStep, "losses", gone)
        with pytest.raises(OutOfMemory, match=r"lower data\.max_length.*step-00000004"):
            train(small(), tmp_path / "run")
    assert checkpoints(tmp_path / "run") == [4]
    train(small(), tmp_path / "run")
    train(small(), tmp_path / "undisturbed")
    assert lines(tmp_path / "run") == lines(tmp_path / "undisturbed")


def test_a_single_pair_that_does_not_fit_ends_the_run(prepared: Any, tmp_path: Path, monkeypatch) -> None:
    forgetful(monkeypatch, 2)
    with pytest.raises(OutOfMemory, match=r"data\.max_length"):
        train(small(), tmp_path / "run")


def test_other_runtime_errors_are_not_taken_for_memory(prepared: Any, tmp_path: Path, monkeypatch) -> None:
    def broken(*_: Any) -> None:
        raise RuntimeError("shapes cannot be multiplied")

    monkeypatch.setattr(TrainingStep, "losses", broken)
    with pytest.raises(RuntimeError, match="shapes"):
        train(small(), tmp_path / "run")


# --- validation, the best, patience ---


def scripted_validations(monkeypatch, values: list[tuple[float, float]]) -> None:
    """Validations that give these (bleu, loss), one after the other."""
    left = iter(values)

    def validate(self: Validator, model: Any) -> Any:
        bleu, loss = next(left)
        metrics = {"loss": loss, "nll": loss, "perplexity": loss, "bleu": bleu}
        return SimpleNamespace(metrics=lambda: metrics, translations=[], loss=loss, nll=loss, bleu=bleu)

    monkeypatch.setattr(Validator, "validate", validate)


@pytest.mark.parametrize(
    ("metric", "values", "best"),
    [
        (ValidMetric.bleu, [(1, 9), (3, 9), (2, 1)], 2),
        (ValidMetric.loss, [(1, 9), (3, 5), (9, 7)], 2),
        (ValidMetric.bleu, [(0, 9), (0, 8), (0, 8.5)], 2),  # equal BLEU: the loss decides
        (ValidMetric.bleu, [(1, 9), (math.nan, 1), (0.5, 9)], 1),
        (ValidMetric.loss, [(1, math.nan), (1, 5), (9, -math.inf)], 2),
        (ValidMetric.bleu, [(2, math.nan), (2, math.nan), (1, 1)], 1),
    ],
)
def test_the_best_is_kept_and_becomes_the_model(
    prepared: Any, tmp_path: Path, monkeypatch, metric: ValidMetric, values: list, best: int
) -> None:
    scripted_validations(monkeypatch, values)
    config = small(
        training__max_steps=6,
        training__validate_every_steps=2,
        training__keep_last=1,
        training__valid_metric=metric,
    )
    result = train(config, tmp_path / "run")
    assert result.model_step == 2 * best
    assert checkpoints(tmp_path / "run") == sorted({2 * best, 6})
    assert (tmp_path / "run" / "model.safetensors").is_file()
    stored = read_tensors(tmp_path / "run" / "model.safetensors")
    chosen = read_tensors(tmp_path / "run" / "checkpoints" / f"step-{2 * best:08d}" / "model.safetensors")
    assert all(torch.equal(stored[name], chosen[name]) for name in chosen)


def test_no_finite_validation_keeps_the_last_weights_with_a_warning(
    prepared: Any, tmp_path: Path, monkeypatch, caplog
) -> None:
    scripted_validations(monkeypatch, [(math.nan, math.nan)] * 2)
    with caplog.at_level(logging.WARNING):
        result = train(small(), tmp_path / "run")
    assert result.model_step == 8 and "no validation gave a finite bleu" in caplog.text
    json.loads((tmp_path / "run" / "result.json").read_text(encoding="utf-8"), parse_constant=pytest.fail)


def test_patience_stops_after_validations_without_a_better_one(
    prepared: Any, tmp_path: Path, monkeypatch
) -> None:
    scripted_validations(monkeypatch, [(1, 9), (5, 9), (4, 9), (5, 9.5), (9, 9)])
    config = small(training__max_steps=50, training__validate_every_steps=1, training__patience=2)
    result = train(config, tmp_path / "run")
    assert result.step == 4 and result.model_step == 2 and result.stopped_by == "patience"


def test_validation_by_fractions_of_an_epoch(prepared: Any, tmp_path: Path) -> None:
    config = small(
        training__max_steps=None, training__max_epochs=2, training__validate_every_steps=None,
        training__validate_every_epochs=0.5,
    )  # fmt: skip
    train(config, tmp_path / "run")
    epochs = [line["epoch"] for line in lines(tmp_path / "run") if line["kind"] == "valid"]
    # The first update in each half: at least the share, less than an update's length beyond it.
    assert [math.floor(2 * epoch) for epoch in epochs] == [1, 2, 3, 4]


def test_the_end_is_validated_once(prepared: Any, tmp_path: Path) -> None:
    for steps, expected in ((8, [4, 8]), (7, [4, 7])):
        folder = tmp_path / str(steps)
        train(small(training__max_steps=steps), folder)
        assert [line["step"] for line in lines(folder) if line["kind"] == "valid"] == expected


def test_as_many_hypotheses_as_references_when_sources_are_too_long(
    tokenizer, tmp_path: Path, caplog, monkeypatch
) -> None:
    """Case 61: one validation pair does not fit; the loss is over the two that do, BLEU over all three."""
    long = " ".join(["chat"] * 40)
    valid = (["un chat", long, "deux"], ["one cat", " ".join(["cat"] * 40), "two"])
    made_up = prepared_from(tokenizer, pairs(40, 0), valid)
    fitting = prepared_from(tokenizer, pairs(40, 0), (["un chat", "deux"], ["one cat", "two"]))
    made_up.valid = fitting.valid  # as `prepare` does
    monkeypatch.setattr(trainer_module, "prepare", lambda *_: made_up)
    config = small(model__max_positions=16, training__batch_tokens=20, decoding__max_length_ratio=0.2)
    with caplog.at_level(logging.WARNING):
        train(config, tmp_path / "run")
    assert caplog.text.count("1 validation source longer than the model allows, cut for BLEU") == 1
    validator = Validator(config, made_up, torch.device("cpu"), 20)
    model = load_run(tmp_path / "run").model
    assert len(validator.validate(model).translations) == 3


def test_loss_as_metric_without_a_pair_that_fits_is_refused(tokenizer, tmp_path: Path, monkeypatch) -> None:
    made_up = prepared_from(tokenizer, pairs(40, 0), ([], []))
    monkeypatch.setattr(trainer_module, "prepare", lambda *_: made_up)
    with pytest.raises(DataError, match=r"valid_metric=loss.*max_positions=64"):
        train(small(training__valid_metric=ValidMetric.loss), tmp_path / "run")


def test_without_a_pair_that_fits_there_is_no_loss_rather_than_nan(
    tokenizer, tmp_path: Path, monkeypatch, caplog
) -> None:
    long = " ".join(["chat"] * 40)
    made_up = prepared_from(tokenizer, pairs(40, 0), ([long], [" ".join(["cat"] * 40)]))
    made_up.valid = prepared_from(tokenizer, pairs(1, 0), ([], [])).valid  # as `prepare` does
    monkeypatch.setattr(trainer_module, "prepare", lambda *_: made_up)
    with caplog.at_level(logging.INFO):
        result = train(small(model__max_positions=16), tmp_path / "run")
    assert "no loss (no validation pair fits model.max_positions)" in caplog.text
    assert "nan" not in caplog.text.replace(str(tmp_path), "") and "loss" not in result.metrics
    assert all("loss" not in line for line in lines(tmp_path / "run") if line["kind"] == "valid")


def test_validation_loss_does_not_depend_on_its_batches(prepared: Any, tmp_path: Path) -> None:
    trainer = made(small(), prepared, tmp_path)
    config = small()
    # 1 is smaller than any pair: each has a batch of its own
    got = [
        Validator(config, prepared, torch.device("cpu"), n).validate(trainer.learner.model)
        for n in (1, 20, 10_000)
    ]
    assert got[0].nll == pytest.approx(got[1].nll, rel=1e-5) == pytest.approx(got[2].nll, rel=1e-5)
    assert trainer.learner.model.training


def test_batches_of_like_length_hold_everything_within_the_budget(prepared: Any) -> None:
    source, target = prepared.train.source_lengths, prepared.train.target_lengths
    batches = batches_of_like_length(source, target, 30)
    assert sorted(int(i) for batch in batches for i in batch) == list(range(40))
    for batch in batches:
        assert len(batch) * (max(source[batch].max(), target[batch].max()) + 1) <= 30 or len(batch) == 1


# --- averages ---


def test_average_of_the_last_checkpoints_is_the_model_if_it_is_no_worse(
    prepared: Any, tmp_path: Path, monkeypatch
) -> None:
    for name, final, expected in (("better", (9.0, 1.0), True), ("worse", (0.5, 1.0), False)):
        scripted_validations(monkeypatch, [(1, 9), (2, 9), (3, 9), final])
        folder = tmp_path / name
        config = small(
            training__max_steps=6,
            training__validate_every_steps=2,
            training__average_last=3,
            training__keep_last=1,
        )
        result = train(config, folder)
        files = [
            read_tensors(folder / "checkpoints" / f"step-{n:08d}" / "model.safetensors") for n in (2, 4, 6)
        ]
        stored = read_tensors(folder / "model.safetensors")
        mean = {n: torch.stack([f[n].double() for f in files]).mean(0).float() for n in stored}
        for tensor in stored:
            assert torch.equal(stored[tensor], mean[tensor] if expected else files[2][tensor])
        assert ("average" in result.model) is expected
        assert result.model == read_facts(folder / "model.json").origin
        assert [line["kind"] for line in lines(folder)].count("final") == 1


def test_the_moving_average_is_what_is_validated_saved_and_translated(
    prepared: Any, tmp_path: Path, monkeypatch
) -> None:
    validated: list[dict[str, torch.Tensor]] = []
    validate = Validator.validate

    def spy(self: Validator, model: Any) -> Any:
        validated.append({name: t.detach().clone() for name, t in model.named_parameters()})
        return validate(self, model)

    monkeypatch.setattr(Validator, "validate", spy)
    train(small(training__ema_decay=0.9, training__keep_last=5), tmp_path / "run")
    for seen, step in zip(validated, (4, 8), strict=True):
        folder = tmp_path / "run" / "checkpoints" / f"step-{step:08d}"
        stored = read_tensors(folder / "model.safetensors")
        raw = read_tensors(folder / "optimizer.safetensors")
        assert all(torch.equal(seen[name], stored[name]) for name in stored)
        assert not torch.equal(stored["source_embedding.weight"], raw["weights.source_embedding.weight"])


# --- precision, device ---


def test_bf16_rounds_products_in_training_but_not_in_validation(
    prepared: Any, tmp_path: Path, monkeypatch
) -> None:
    states: dict[str, set[bool]] = {"train": set(), "valid": set()}
    losses, validate = TrainingStep.losses, Validator.validate

    def look(model: Any) -> bool:
        return bool(model.output.low_precision)

    monkeypatch.setattr(
        TrainingStep, "losses", lambda s, b: (states["train"].add(look(s.learner.model)), losses(s, b))[1]
    )
    monkeypatch.setattr(Validator, "validate", lambda s, m: (states["valid"].add(look(m)), validate(s, m))[1])
    train(small(training__precision=Precision.bf16), tmp_path / "run")
    assert states == {"train": {True}, "valid": {False}}


def test_fp16_on_a_cpu_is_refused_and_leaves_no_folder(prepared: Any, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="precision=fp16"):
        train(small(training__precision=Precision.fp16), tmp_path / "run")
    assert not (tmp_path / "run").exists()


# --- files ---


def test_a_run_folder_has_all_it_needs(prepared: Any, tmp_path: Path) -> None:
    result = train(small(training__samples=2), tmp_path / "run")
    names = {path.name for path in (tmp_path / "run").iterdir()} - {".lock"}
    assert names == {
        "config.yaml", "tokenizer", "data.json", "environment.json", "metrics.jsonl", "train.log",
        "checkpoints", "model.safetensors", "model.json", "result.json",
    }  # fmt: skip
    moved = tmp_path / "elsewhere"
    (tmp_path / "run").rename(moved)
    run = load_run(moved)
    checkpointed = load_run(moved, "step-00000008")
    assert run.tokenizer.sha256 == prepared.tokenizer.sha256
    assert torch.equal(
        checkpointed.model.output_weight,
        read_tensors(moved / "checkpoints" / "step-00000008" / "model.safetensors")[
            "source_embedding.weight"
        ],
    )
    facts = read_facts(moved / "model.json")
    assert (facts.step, facts.origin) == (result.model_step, result.model)
    assert facts.weights_sha256 is not None
    log = (moved / "train.log").read_text(encoding="utf-8")
    assert "parameters" in log and "validation: loss" in log and "mt.evaluate" in log and "reference" in log


def test_validation_bleu_is_that_of_the_stored_checkpoint(prepared: Any, tmp_path: Path) -> None:
    """The weights in the folder give the numbers in the metrics, also with bf16 and a moving average."""
    config = small(
        training__precision=Precision.bf16, training__ema_decay=0.5, training__max_steps=20,
        optimizer__lr=0.02, training__validate_every_steps=20,
    )  # fmt: skip
    result = train(config, tmp_path / "run")
    model = load_run(tmp_path / "run", "step-00000020").model
    again = Validator(config, prepared, torch.device("cpu"), config.training.batch_tokens).validate(model)
    assert again.metrics() == result.metrics


# --- every option does something ---

# option -> (what else is set, the changed value)
CHANGES: dict[str, tuple[dict[str, Any], Any]] = {
    "optimizer.kind": ({"optimizer__weight_decay": 0.5}, OptimizerKind.adam),
    "optimizer.lr": ({}, 5e-3),
    "optimizer.beta1": ({}, 0.5),
    "optimizer.beta2": ({}, 0.5),
    "optimizer.rho": ({"optimizer__kind": OptimizerKind.adadelta}, 0.5),
    "optimizer.eps": ({}, 1e-2),
    "optimizer.weight_decay": ({}, 0.5),
    "optimizer.matrix_lr": ({"optimizer__kind": OptimizerKind.muon}, 0.05),
    "optimizer.momentum": ({"optimizer__kind": OptimizerKind.muon}, 0.5),
    "optimizer.newton_schulz": ({"optimizer__kind": OptimizerKind.muon}, 1),
    "schedule.kind": ({}, ScheduleKind.noam),
    "schedule.warmup_steps": ({}, 1),
    "schedule.final_ratio": ({}, 0.9),
    "schedule.halve_after_epochs": ({"schedule__kind": ScheduleKind.halving}, 0),
    "training.max_steps": ({}, 5),
    "training.max_epochs": ({}, 1),
    "training.max_tokens": ({}, 200),
    "training.batch_tokens": ({}, 30),
    "training.batch_sentences": ({}, 3),
    "training.accumulate": ({}, 2),
    "training.gradient_per": ({"training__clip_norm": 0.0, "optimizer__eps": 1e-2}, GradientPer.sentence),
    "training.label_smoothing": ({}, 0.5),
    "training.clip_norm": ({}, 0.01),
    "training.precision": ({}, Precision.bf16),
    "training.ema_decay": ({}, 0.9),
    "training.average_last": ({}, 2),
    "training.validate_every_steps": ({}, 2),
    "training.validate_every_epochs": ({"training__validate_every_steps": None}, 0.3),
    "training.valid_metric": ({"scripted": [(9, 9), (1, 1)]}, ValidMetric.loss),
    "training.valid_max_sentences": ({"training__samples": 4}, 1),
    "training.patience": (
        {"scripted": [(9, 1), (1, 9), (1, 9), (1, 9)], "training__validate_every_steps": 2},
        1,
    ),
    "training.save_every_steps": ({"training__keep_last": 9}, 1),
    "training.keep_last": ({"training__validate_every_steps": 2}, 1),
    "training.log_every_steps": ({}, 1),
    "training.samples": ({}, 2),
}
# observed elsewhere: by the clock, the machine, or in what is called
SEEN_ELSEWHERE = {
    "training.max_minutes", "training.compile", "training.valid_beam", "training.prefetch_batches",
    "training.threads", "training.tensorboard", "training.progress", "training.subword_dropout",
    "training.timeout_seconds", "training.shard",
}  # fmt: skip


def test_no_option_is_forgotten_here() -> None:
    rooms = ("optimizer.", "schedule.", "training.")
    known = {key for key in options(TrainConfig) if key.startswith(rooms)}
    assert set(CHANGES) | SEEN_ELSEWHERE == known


def trace(folder: Path, result: TrainResult) -> tuple[Any, ...]:
    """All that a run shows, but for times."""
    log = (folder / "train.log").read_text(encoding="utf-8")
    samples = [line.split(": ", 1)[1] for line in log.splitlines() if "  model" in line or "  source" in line]
    weights = {name: t.tolist() for name, t in read_tensors(folder / "model.safetensors").items()}
    return lines(folder), checkpoints(folder), weights, samples, result.stopped_by, result.model_step


@pytest.mark.parametrize("option", CHANGES)
def test_every_option_changes_something(
    option: str, prepared: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, usual: tuple[Any, ...]
) -> None:
    base, value = CHANGES[option]
    base = dict(base)
    scripted = base.pop("scripted", None)

    def traced(name: str, changes: dict[str, Any]) -> tuple[Any, ...]:
        if scripted is not None:
            scripted_validations(monkeypatch, scripted)
        return trace(tmp_path / name, train(small(**{**base, **changes}), tmp_path / name))

    before = usual if not CHANGES[option][0] else traced("before", {})
    assert traced("after", {option.replace(".", "__"): value}) != before


@pytest.fixture(scope="module")
def usual(tokenizer: Tokenizer, tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, ...]:
    """The trace of the configuration that the options are changed in; the same each time it runs."""
    folder = tmp_path_factory.mktemp("usual")
    made_up = prepared_from(tokenizer, pairs(40, 0), pairs(6, 1))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(trainer_module, "prepare", lambda *_: made_up)
        traces = [trace(folder / name, train(small(), folder / name)) for name in ("a", "b")]
    assert traces[0] == traces[1]
    return traces[0]


def test_subword_dropout_trains_on_other_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = prepared_from(
        train_tokenizer(TokenizerConfig(vocab_size=330), *pairs(40, 0)), pairs(40, 0), pairs(6, 1)
    )
    monkeypatch.setattr(trainer_module, "prepare", lambda *_: made)

    def trained(name: str, probability: float) -> tuple[Any, ...]:
        config = small(training__subword_dropout=probability)
        return trace(tmp_path / name, train(config, tmp_path / name))

    whole, some = trained("whole", 0.0), trained("some", 0.3)
    assert whole != some == trained("again", 0.3)
    assert lines(tmp_path / "some")[-1]["step"] == lines(tmp_path / "whole")[-1]["step"]


def test_valid_beam_reaches_the_search(prepared: Any, tmp_path: Path, monkeypatch) -> None:
    from mt.training import validation

    beams: list[int] = []
    original = validation.Translator

    def spy(model: Any, tokenizer: Any, options: Any, device: Any) -> Any:
        beams.append(options.beam)
        assert options.n_best == 1
        return original(model, tokenizer, options, device)

    monkeypatch.setattr(validation, "Translator", spy)
    train(small(training__valid_beam=3, training__max_steps=2), tmp_path / "run")
    assert beams == [3]


def test_prefetch_threads_compile_and_tensorboard_are_passed_on(
    prepared: Any, tmp_path: Path, monkeypatch
) -> None:
    asked: dict[str, Any] = {}
    loader = micro_batches.BatchLoader
    monkeypatch.setattr(micro_batches, "BatchLoader", lambda *a, **k: (asked.update(k), loader(*a, **k))[1])
    monkeypatch.setattr(learner_module, "compile_layers", lambda model: asked.update(compiled=True))
    monkeypatch.setattr(trainer_module, "set_threads", lambda n: (asked.update(threads=n), n)[1])
    monkeypatch.setattr(trainer_module, "check_support", lambda *a: None)
    monkeypatch.setattr(tracking, "show_bar", lambda wanted: asked.update(bar=wanted))
    config = small(
        training__prefetch_batches=0, training__threads=3, training__compile=True, training__max_steps=2,
        training__tensorboard=True, training__progress=True,
    )  # fmt: skip
    train(config, tmp_path / "run")
    assert asked["prefetch_batches"] == 0 and asked["threads"] == 3 and asked["compiled"] and asked["bar"]
    assert list((tmp_path / "run" / "tensorboard").glob("events*"))


def test_compile_is_done_layer_by_layer_in_place() -> None:
    from torch import nn

    model = nn.Module()
    model.encoder = nn.ModuleList([nn.Linear(2, 2)])
    model.decoder = nn.ModuleList([nn.Linear(2, 2)])
    names = list(model.state_dict())
    learner_module.compile_layers(model)
    assert list(model.state_dict()) == names
    assert (
        model.encoder[0]._compiled_call_impl is not None and model.decoder[0]._compiled_call_impl is not None
    )
    with pytest.raises(ConfigError, match=r"training\.compile"):
        learner_module.compile_layers(nn.Linear(2, 2))


def test_prefetch_does_not_change_the_result(prepared: Any, tmp_path: Path) -> None:
    results = [train(small(training__prefetch_batches=n), tmp_path / str(n)) for n in (0, 1, 8)]
    assert lines(tmp_path / "0") == lines(tmp_path / "1") == lines(tmp_path / "8")
    assert results[0].metrics == results[2].metrics


# --- minutes ---


class Clock:
    """Time that passes only when an update or a validation takes it."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch) -> Clock:
    """Updates take 1 s, validations 5 s."""
    fake = Clock()
    update, validate = Trainer._update, Validator.validate

    def timed_update(self: Trainer, batches: Any) -> None:
        fake.now += 1.0
        update(self, batches)

    def timed_validate(self: Validator, model: Any) -> Any:
        fake.now += 5.0
        return validate(self, model)

    monkeypatch.setattr(Trainer, "_update", timed_update)
    monkeypatch.setattr(Validator, "validate", timed_validate)
    monkeypatch.setattr(timekeeping, "clock", fake)
    return fake


def minutes(**changes: Any) -> TrainConfig:
    return small(
        **{"training__max_steps": None, "training__max_minutes": 1.0, "training__validate_every_steps": 20,
           "training__log_every_steps": 1, "schedule__warmup_steps": 0, **changes}
    )  # fmt: skip


def test_minutes_decay_to_the_end_and_leave_time_for_the_last_validation(
    prepared: Any, tmp_path: Path, clock: Clock
) -> None:
    result = train(minutes(), tmp_path / "run")
    assert 54 <= result.elapsed_seconds <= 61 and result.stopped_by == "minutes"
    rates = [line["learning_rate"] for line in lines(tmp_path / "run") if line["kind"] == "train"]
    assert rates[0] == pytest.approx(1e-3, rel=0.05)
    assert rates == sorted(rates, reverse=True)
    assert rates[-1] < 0.06e-3
    assert [line["step"] for line in lines(tmp_path / "run") if line["kind"] == "valid"][-1] == result.step


def test_minutes_skip_a_validation_that_would_push_out_the_last(
    prepared: Any, tmp_path: Path, clock: Clock
) -> None:
    result = train(minutes(training__validate_every_steps=45), tmp_path / "run")
    assert [line["step"] for line in lines(tmp_path / "run") if line["kind"] == "valid"] in (
        [45, result.step],
        [result.step],
    )
    assert result.elapsed_seconds <= 62


def test_a_long_validation_is_measured_in_time_to_fit_into_the_minutes(
    prepared: Any, tmp_path: Path, clock: Clock, monkeypatch
) -> None:
    """The search takes 20 s of the 60, far more than the first guess; none comes before the end."""
    translate = Validator._translate

    def slow(self: Validator, model: Any, sources: Any) -> Any:
        clock.now += 20.0 * len(sources) / len(self.sources)
        return translate(self, model, sources)

    monkeypatch.setattr(Validator, "_translate", slow)
    result = train(minutes(training__validate_every_steps=1000), tmp_path / "run")
    # Late by the 5 s of the clock's own, which are no part of what is measured, and by one update.
    assert 60 <= result.elapsed_seconds <= 66
    assert [line["kind"] for line in lines(tmp_path / "run")].count("valid") == 1


def test_minutes_that_were_too_few_are_told_with_the_reasons(
    prepared: Any, tmp_path: Path, clock: Clock, monkeypatch, caplog
) -> None:
    """Also where the last validation takes less time than was kept for it."""
    monkeypatch.setattr(Validator, "forecast", lambda *_: 25.0)
    monkeypatch.setattr(timekeeping, "queued_seconds", lambda: clock.now / 2)
    validate = Validator.validate

    def slow(self: Validator, model: Any) -> Any:
        clock.now += 15.0
        return validate(self, model)

    monkeypatch.setattr(Validator, "validate", slow)
    config = minutes(schedule__warmup_steps=400, training__validate_every_steps=1000)
    with caplog.at_level(logging.INFO):
        result = train(config, tmp_path / "run")
    assert result.stopped_by == "minutes" and 30 <= result.step <= 37
    text = ", ".join(result.doubts)
    assert f"over after {result.step} updates" in text and "warm-up of 400 updates" in text
    assert "of the data were seen" not in text and "validation took 20 s of" in text and "50%" in text
    assert "hardly been trained" in caplog.text and "training.max_minutes" in caplog.text
    assert json.loads((tmp_path / "run" / "result.json").read_bytes())["doubts"] == result.doubts
    again = train(config, tmp_path / "run")
    assert again == result and caplog.text.count("hardly been trained") == 2


@pytest.mark.parametrize("changes", [{}, {"training__max_steps": 20, "schedule__warmup_steps": 400}])
def test_a_run_that_learnt_or_was_meant_to_be_short_has_no_doubts(
    prepared: Any, tmp_path: Path, clock: Clock, caplog, changes: dict[str, Any]
) -> None:
    with caplog.at_level(logging.INFO):
        assert train(minutes(**changes), tmp_path / "run").doubts == []
    assert "hardly" not in caplog.text


def test_minutes_with_an_average_reserve_its_validation_too(
    prepared: Any, tmp_path: Path, clock: Clock
) -> None:
    result = train(minutes(training__average_last=2), tmp_path / "run")
    assert 50 <= result.elapsed_seconds <= 62
