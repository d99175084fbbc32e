"""Run folders: found, moved, mixed up, damaged, hostile."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest
import torch

from mt.config.schema import TieEmbeddings
from mt.data import piece_model
from mt.data.tokenizer import Tokenizer
from mt.decoding.loading import choose_run, load_run, newest_finished_run, run_of_checkpoint
from mt.errors import CheckpointError, MTError
from mt.models.storage import save_model, sha256_of
from tests.decoding.runs import tiny_tokenizer, write_run


@pytest.fixture(scope="module")
def tokenizers() -> dict[str, Tokenizer]:
    return {
        "A": tiny_tokenizer(70),
        "larger": tiny_tokenizer(90),
        "other text": tiny_tokenizer(70, extra="quixotic zebras jump over lazy dogs " * 3),
    }


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory, tokenizers: dict[str, Tokenizer]) -> Path:
    return write_run(tmp_path_factory.mktemp("written") / "A", tokenizers["A"])


@pytest.fixture
def run(tmp_path: Path, written: Path) -> Path:
    torch.set_num_threads(1)
    return shutil.copytree(written, tmp_path / "runs" / "A")


def test_final_model_and_checkpoint_of_a_run(run: Path) -> None:
    final = load_run(run)
    checkpoint = run / "checkpoints" / "step-00000002"
    for given in (
        checkpoint,
        str(checkpoint),
        checkpoint.name,
        checkpoint / "model.safetensors",
        "checkpoints/step-00000002",
    ):
        loaded = load_run(run, given)
        assert loaded.checkpoint == checkpoint
        for one, other in zip(final.model.parameters(), loaded.model.parameters(), strict=True):
            assert torch.equal(one, other)
    assert not final.model.training and final.folder == final.checkpoint == run
    assert final.config.model.width == 16 and final.tokenizer.sha256 == loaded.tokenizer.sha256


@pytest.mark.parametrize("ties", list(TieEmbeddings))
def test_tied_embeddings_are_one_tensor_after_loading(
    tmp_path: Path, tokenizers: dict[str, Tokenizer], ties: TieEmbeddings
) -> None:
    model = load_run(write_run(tmp_path / "run", tokenizers["A"], ties=ties)).model
    matrices = [model.source_embedding.weight, model.target_embedding.weight, model.output_weight]
    assert len({m.data_ptr() for m in matrices}) == {"all": 1, "decoder": 2, "none": 3}[ties.value]


def test_a_run_that_was_moved_needs_nothing_else(run: Path, tmp_path: Path) -> None:
    before = load_run(run)
    moved = tmp_path / "elsewhere = with, odd # names é"
    shutil.move(run, moved)
    after = load_run(moved, "step-00000002")
    assert all(
        torch.equal(a, b) for a, b in zip(before.model.parameters(), after.model.parameters(), strict=True)
    )


def test_another_size_of_tokenizer_names_both_sizes_and_paths(
    run: Path, tmp_path: Path, tokenizers: dict[str, Tokenizer]
) -> None:
    other = tmp_path / "B" / "tokenizer"
    tokenizers["larger"].save(other)
    for checkpoint in (None, "step-00000002"):
        with pytest.raises(CheckpointError) as caught:
            load_run(run, checkpoint, tokenizer=other)
        message = str(caught.value)
        weights = run / (f"checkpoints/{checkpoint}" if checkpoint else "") / "model.safetensors"
        for part in (
            str(tokenizers["larger"].source_size),
            str(tokenizers["A"].source_size),
            str(other),
            str(weights),
            "leave tokenizer_folder= out",
        ):
            assert part in message


def test_the_same_size_from_other_text_is_refused(
    run: Path, tmp_path: Path, tokenizers: dict[str, Tokenizer]
) -> None:
    assert tokenizers["other text"].source_size == tokenizers["A"].source_size
    other = tmp_path / "tokenizer"
    tokenizers["other text"].save(other)
    for checkpoint in (None, "step-00000002"):
        with pytest.raises(CheckpointError, match="not the one the model was trained with") as caught:
            load_run(run, checkpoint, tokenizer=other)
        assert tokenizers["A"].sha256[:12] in str(caught.value) and str(other) in str(caught.value)
    shutil.rmtree(run / "tokenizer")
    tokenizers["other text"].save(run / "tokenizer")
    for checkpoint in (None, "step-00000002"):
        with pytest.raises(MTError):
            load_run(run, checkpoint)


def test_another_tokenizer_is_refused_before_any_of_it_is_parsed(
    run: Path, tmp_path: Path, tokenizers: dict[str, Tokenizer], monkeypatch: pytest.MonkeyPatch
) -> None:
    tokenizers["other text"].save(tmp_path / "other")
    (tmp_path / "other" / "joint.model").write_bytes(b"hostile")
    monkeypatch.setattr(piece_model, "parse", lambda *_: pytest.fail("parsed"))
    for given in ({"tokenizer": tmp_path / "other"}, {}):
        with pytest.raises(CheckpointError, match=f"needs {tokenizers['A'].sha256[:12]}"):
            load_run(run, **given)
        shutil.rmtree(run / "tokenizer")
        shutil.copytree(tmp_path / "other", run / "tokenizer")


def test_its_own_tokenizer_from_elsewhere_is_fine(
    run: Path, tmp_path: Path, tokenizers: dict[str, Tokenizer]
) -> None:
    tokenizers["A"].save(tmp_path / "copy")
    assert load_run(run, tokenizer=tmp_path / "copy").tokenizer.sha256 == tokenizers["A"].sha256
    with pytest.raises(MTError, match=r"tokenizer_folder=.*no such folder"):
        load_run(run, tokenizer=tmp_path / "none")


def test_a_checkpoint_of_another_run(run: Path, tmp_path: Path, tokenizers: dict[str, Tokenizer]) -> None:
    other = write_run(tmp_path / "runs" / "B", tokenizers["larger"])
    with pytest.raises(CheckpointError, match="does not fit the model"):
        load_run(run, other / "checkpoints" / "step-00000002")
    same_text = write_run(tmp_path / "runs" / "C", tokenizers["A"], ties=TieEmbeddings.none)
    with pytest.raises(CheckpointError, match="do not fit the model that the configuration describes"):
        load_run(run, same_text / "checkpoints" / "step-00000002")


def test_missing_and_foreign_folders_say_what_to_do(tmp_path: Path, run: Path) -> None:
    with pytest.raises(
        CheckpointError, match=r"run=.*none: no such folder; name a folder that python -m mt\.train wrote"
    ):
        load_run(tmp_path / "none")
    with pytest.raises(
        CheckpointError, match=r"not a run folder \(it has no config\.yaml\); did you mean .*A\?"
    ):
        load_run(run.parent)
    (tmp_path / "foreign").mkdir()
    with pytest.raises(CheckpointError, match="not a run folder"):
        load_run(tmp_path / "foreign")
    (tmp_path / "file").write_text("x", encoding="utf-8")
    with pytest.raises(CheckpointError, match="a file, not a run folder"):
        load_run(tmp_path / "file")
    with pytest.raises(CheckpointError, match="not a checkpoint folder"):
        load_run(run, tmp_path / "foreign")
    shutil.copytree(run / "checkpoints" / "step-00000002", tmp_path / "lonely")
    with pytest.raises(CheckpointError, match="does not lie in a run folder"):
        load_run(run, tmp_path / "lonely")


def test_an_unfinished_run_points_to_its_checkpoint(tmp_path: Path, tokenizers: dict[str, Tokenizer]) -> None:
    unfinished = write_run(tmp_path / "runs" / "U", tokenizers["A"], finished=False)
    with pytest.raises(CheckpointError, match=r"not finished; .*resume=.*checkpoint=.*step-00000002"):
        load_run(unfinished)
    assert load_run(unfinished, "step-00000002").model is not None
    with pytest.raises(CheckpointError, match=r"no finished run under .*unfinished: U"):
        newest_finished_run(tmp_path / "runs")


@pytest.mark.parametrize(
    "typed", ["..\\runs\\new\\last.pt", "runs/a/step=100", "C:\\temp\\x", "a,b#c", "$HOME/~x"]
)
def test_a_checkpoint_that_is_not_there_is_named_as_typed(run: Path, typed: str, tmp_path: Path) -> None:
    for attempt in (lambda: load_run(run, typed), lambda: choose_run(None, typed, tmp_path / "none")):
        with pytest.raises(CheckpointError) as caught:
            attempt()
        if "no run under" not in str(caught.value):  # what a bare name without any run is told
            assert f"checkpoint={typed}: no such file or folder" in str(caught.value)
    assert not any("C:" in name or "\\" in name for name in os.listdir(tmp_path))


def test_a_checkpoint_with_odd_characters_in_its_name(run: Path) -> None:
    odd = run / "checkpoints" / "step=1,0 #é\\x"
    shutil.copytree(run / "checkpoints" / "step-00000002", odd)
    assert load_run(run, odd).checkpoint == odd
    assert load_run(choose_run(None, str(odd), "runs"), odd).checkpoint == odd


@pytest.mark.parametrize("name", ["evil.pt", "model.bin", "weights.pkl"])
def test_other_checkpoint_formats_are_never_opened(run: Path, tmp_path: Path, name: str) -> None:
    """Case 66: a pickle is refused unread, whatever it is called."""
    evil = tmp_path / name
    evil.write_bytes(b"cos\nsystem\n(S'touch CANARY.txt'\ntR.")
    with pytest.raises(CheckpointError, match="pickles above all, are never loaded"):
        load_run(run, evil)
    shutil.copy(evil, run / "model.safetensors")
    (run / "model.json").unlink()
    with pytest.raises(CheckpointError, match="only format loaded"):
        load_run(run)
    assert not Path("CANARY.txt").exists() and not (tmp_path / "CANARY.txt").exists()


def test_a_changed_bit_is_noticed(run: Path) -> None:
    flip(run / "model.safetensors")
    with pytest.raises(CheckpointError, match="damaged, its content is not what was written"):
        load_run(run)
    checkpoint = run / "checkpoints" / "step-00000002"
    (checkpoint / "manifest.json").write_text(
        json.dumps({"files": {"model.safetensors": {"bytes": 1, "sha256": "0" * 64}}}), encoding="utf-8"
    )
    with pytest.raises(CheckpointError, match="damaged"):
        load_run(run, checkpoint)
    (checkpoint / "manifest.json").write_text("{}", encoding="utf-8")
    with pytest.raises(CheckpointError, match="says nothing about"):
        load_run(run, checkpoint)


def test_the_way_out_of_damaged_weights_is_the_nearest_whole_checkpoint(run: Path) -> None:
    last = run / "checkpoints" / "step-00000002"
    files = {"model.safetensors": {"sha256": sha256_of(last / "model.safetensors")}}
    (last / "manifest.json").write_text(json.dumps({"files": files}), encoding="utf-8")
    for name in ("step-00000001", "step-00000004", "step-00000009"):
        shutil.copytree(last, last.with_name(name))
    flip(last.with_name("step-00000001") / "model.safetensors")
    (last.with_name("step-00000009") / "manifest.json").write_text("[]", encoding="utf-8")
    flip(run / "model.safetensors")
    for expected in ("step-00000002", "step-00000004"):
        with pytest.raises(CheckpointError, match="damaged") as caught:
            load_run(run)
        way_out = str(caught.value).rpartition("use a whole checkpoint: checkpoint=")[2]
        assert Path(way_out).name == expected
        assert load_run(run, way_out).checkpoint == Path(way_out)
        flip(Path(way_out) / "model.safetensors")
    with pytest.raises(CheckpointError, match="put the file of a copy of the run in its place"):
        load_run(run)


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[-5] ^= 1
    path.write_bytes(content)


def test_weights_of_another_shape(run: Path, tmp_path: Path, tokenizers: dict[str, Tokenizer]) -> None:
    other = load_run(write_run(tmp_path / "B", tokenizers["larger"])).model
    save_model(other, run / "checkpoints" / "step-00000002" / "model.safetensors")
    with pytest.raises(CheckpointError, match=r"shape \[\d+, 16\] in the file"):
        load_run(run, "step-00000002")


def test_newest_finished_run(tmp_path: Path, tokenizers: dict[str, Tokenizer]) -> None:
    runs = tmp_path / "runs"
    with pytest.raises(CheckpointError, match=r"no run under .*runs; train one with python -m mt\.train"):
        newest_finished_run(runs)
    for number, name in enumerate(["B", "A", "C"]):
        result = write_run(runs / name, tokenizers["A"]) / "result.json"
        os.utime(result, (1000 - number, 1000 - number))
    write_run(runs / "unfinished", tokenizers["A"], finished=False)
    (runs / "stray").mkdir()
    (runs / "stray" / "result.json").write_text("{}", encoding="utf-8")
    assert newest_finished_run(runs).name == "B"


def test_which_run_the_options_mean(tmp_path: Path, run: Path, tokenizers: dict[str, Tokenizer]) -> None:
    newer = write_run(tmp_path / "runs" / "newer", tokenizers["A"])
    os.utime(newer / "result.json", (2**31, 2**31))
    checkpoint = run / "checkpoints" / "step-00000002"
    assert choose_run(str(run), None, "runs") == run
    assert choose_run(None, None, tmp_path / "runs") == newer
    # A checkpoint's own run, not the newest one.
    assert choose_run(None, str(checkpoint), tmp_path / "runs") == run
    assert choose_run(None, str(checkpoint / "model.safetensors"), tmp_path / "runs") == run
    assert choose_run(None, "step-00000002", tmp_path / "runs") == newer
    assert run_of_checkpoint(run) == run
