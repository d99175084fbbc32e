"""The benchmark counts the work it divides by as it is done, and hands both sides the same batches."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from mt.config.schema import AttentionConfig, ModelConfig
from mt.kernels import linear
from mt.models.build import build_model
from mt.training.loss import label_smoothed_loss
from tests.evaluation import scripts


@pytest.fixture(scope="module")
def bench() -> ModuleType:
    return scripts.load("bench_train")


@pytest.mark.parametrize(("source", "target"), [(9, 14), (21, 6)])
def test_the_formula_counts_the_products_that_run(
    bench: ModuleType, source: int, target: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch.set_num_threads(1)
    # That way rounds the number of rows up, and tries itself out first.
    monkeypatch.setattr(linear, "onednn_is_faster", lambda: False)
    shape = bench.Shape(vocabulary=96, width=32, ffn=80, heads=4, layers=2)
    config = ModelConfig(width=32, ffn_width=80, heads=4, encoder_layers=2, decoder_layers=2, dropout=0.0)
    model = build_model(config, AttentionConfig(), 96, 96)
    source_ids = torch.randint(4, 96, (1, source))
    target_ids = torch.randint(4, 96, (1, target))
    masks = torch.ones_like(source_ids, dtype=torch.bool), torch.ones_like(target_ids, dtype=torch.bool)
    with FlopCounterMode(display=False) as counter:
        hidden = model(source_ids, masks[0], target_ids, masks[1])
        loss, _ = label_smoothed_loss(
            hidden, model.output_weight, model.output_bias, target_ids.flatten(), smoothing=0.1
        )
        loss.backward()
    counted = counter.get_total_flops()
    assert bench.training_flop(shape, source, target) == pytest.approx(counted, rel=0.02)


def test_the_stored_batches_are_the_plan(bench: ModuleType, tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    sides = [[rng.integers(4, 90, rng.integers(0, 7)) for _ in range(12)] for _ in range(2)]
    store = SimpleNamespace(source=lambda i: sides[0][i], target=lambda i: sides[1][i])
    plan = [np.array([3, 1]), np.array([7]), np.array([0, 11, 5])]
    bench.store_batches(store, plan, tmp_path / "batches.npz")
    stored = np.load(tmp_path / "batches.npz")
    order = [int(i) for indices in plan for i in indices]
    for side, name in zip(sides, ("source", "target"), strict=True):
        found = np.split(stored[name], stored[f"{name}_ends"][:-1])
        assert [ids.tolist() for ids in found] == [[*side[i].tolist(), bench.EOS] for i in order]
    assert stored["batch_ends"].tolist() == [2, 3, 6]


def test_a_ceiling_is_the_best_product_of_a_block_and_the_median_over_blocks(bench: ModuleType) -> None:
    def block(highest: float, medium: float | None, bf16: float | None = None) -> dict[str, Any]:
        paths = {"highest": highest, "medium": medium, "bf16": bf16}
        return {"gflop_per_second": {k: {"a": v, "b": v / 2} for k, v in paths.items() if v is not None}}

    assert bench.ceilings([block(10, None), block(30, 20), block(5, 25)]) == {"fp32": 25}
    assert bench.ceilings([block(10, 12, 40), block(10, 8, 50), block(10, 8, 90)]) == {"fp32": 10, "bf16": 50}


def test_wrong_options_are_refused(bench: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as refused:
        bench.main(["--precision", "fp64"])
    assert refused.value.code == 2
    assert "fp32,bf16" in capsys.readouterr().err


def test_our_side_takes_orders_from_the_real_trainer(bench: ModuleType, tmp_path: Path) -> None:
    # It overrides two of the trainer's methods, so a change of the trainer must be seen here.
    torch.set_num_threads(1)
    root = tmp_path / "data"
    root.mkdir()
    for split, count in (("train", 60), ("val", 4)):
        for language, word in (("fr", "mot"), ("en", "word")):
            lines = [f"{word} {n} {word[::-1] * (n % 5 + 1)} {n * 7}\n" for n in range(count)]
            (root / f"{split}.{language}").write_text("".join(lines), encoding="utf-8", newline="\n")
    shape = bench.Shape(vocabulary=300, width=16, ffn=16, heads=2, layers=1, batch_tokens=128)
    arguments = bench.parser().parse_args(["--root", str(root), "--cache", str(tmp_path / "cache")])
    arguments.threads = 1
    answers: list[dict[str, Any]] = []

    def orders(block: Any) -> None:
        answers.extend([block(0, 1), block(1, 2)])

    with pytest.raises(SystemExit) as left:
        bench.Ours(shape, arguments, "fp32", compiled=False).run(orders)
    assert left.value.code == 0
    assert [answer["tokens"] > 0 and answer["seconds"] > 0 for answer in answers] == [True, True]
    assert all(2 < answer["loss"] < 10 for answer in answers)
