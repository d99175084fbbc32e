"""Numbers and files of this version, kept: a change of either has to be meant (`make golden`)."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import torch

from mt.data.tokenizer import Tokenizer
from mt.decoding.loading import load_run
from mt.decoding.translator import Translator
from mt.training import trainer as trainer_module
from mt.training.trainer import train
from tests.golden.regenerate import END, FAMILIES, LOSSES, RUN, golden_config, losses, use

# The order of sums differs between processors; a change of what is computed is larger by far.
CLOSE = {"rel": 5e-4}


@pytest.fixture(autouse=True)
def as_before(monkeypatch: pytest.MonkeyPatch) -> object:
    monkeypatch.setattr(trainer_module, "prepare", trainer_module.prepare)  # put back what `use` changes
    threads = torch.get_num_threads()
    yield
    torch.set_num_threads(threads)


@pytest.mark.parametrize("family", FAMILIES)
def test_the_first_losses_are_those_that_were_kept(family: str, tmp_path: Path) -> None:
    kept = json.loads(LOSSES.read_bytes())
    assert kept.keys() == FAMILIES.keys()
    tokenizer = Tokenizer.load(RUN / "tokenizer")
    assert losses(tmp_path / "run", tokenizer, FAMILIES[family]) == pytest.approx(kept[family], **CLOSE)


@pytest.mark.parametrize("family", ["transformer", *(name for name in FAMILIES if name.startswith("rnn"))])
def test_the_curve_would_show_a_change(family: str, tmp_path: Path) -> None:
    kept = json.loads(LOSSES.read_bytes())[family]
    changed = {**FAMILIES[family], "training__label_smoothing": 0.12}
    found = losses(tmp_path / "run", Tokenizer.load(RUN / "tokenizer"), changed)
    assert found != pytest.approx(kept, **CLOSE)


def test_a_stored_run_is_loaded_and_translates(tmp_path: Path) -> None:
    folder = tmp_path / "moved"
    shutil.copytree(RUN, folder)
    (folder / "result.json").write_text("{}", encoding="utf-8")  # its presence says that the run is finished
    run = load_run(folder)
    found = Translator(run.model, run.tokenizer, run.config.decoding, torch.device("cpu")).translate(
        ["un chat", ""]
    )
    assert len(found) == 2 and "\n" not in found[0].text


def test_a_stored_run_goes_on_to_the_end_that_was_kept(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    shutil.copytree(RUN, folder)
    use(Tokenizer.load(folder / "tokenizer"))
    result = train(golden_config(), folder)
    kept = json.loads(END.read_bytes())
    assert (result.step, result.tokens, result.model_step) == (
        kept["step"],
        kept["tokens"],
        kept["model_step"],
    )
    assert result.metrics["nll"] == pytest.approx(kept["metrics"]["nll"], **CLOSE)
