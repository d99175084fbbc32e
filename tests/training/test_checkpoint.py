"""Checkpoints under everything a disk or a kill can do to them."""

from __future__ import annotations

import json
import logging
import os
import re
from pathlib import Path

import pytest
import torch

from mt.errors import CheckpointError
from mt.models.storage import ModelFacts
from mt.training import checkpoint

FACTS = ModelFacts("0" * 64, 7, 7)


def save(folder: Path, step: int, *, planned: bool = True) -> Path:
    return checkpoint.save(
        folder,
        step,
        model={"w": torch.full((50,), float(step))},
        optimizer={"exp_avg.w": torch.zeros(50)},
        facts=FACTS,
        state={"step": step},
        planned=planned,
    )


def test_what_is_saved_comes_back(tmp_path: Path) -> None:
    found = checkpoint.load(save(tmp_path, 12))
    assert (found.step, found.planned, found.state) == (12, True, {"step": 12})
    assert torch.equal(found.model()["w"], torch.full((50,), 12.0))
    assert list(found.optimizer()) == ["exp_avg.w"]
    assert found.folder.name == "step-00000012"


def test_nothing_but_whole_checkpoints_is_left(tmp_path: Path) -> None:
    save(tmp_path, 1)
    save(tmp_path, 2)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["step-00000001", "step-00000002"]


def test_the_newest_is_used_and_none_is_none(tmp_path: Path) -> None:
    assert checkpoint.newest_valid(tmp_path / "not there") is None
    assert checkpoint.newest_valid(tmp_path) is None
    save(tmp_path, 9)
    save(tmp_path, 100)
    found = checkpoint.newest_valid(tmp_path)
    assert found is not None and found.step == 100


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-5])


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(bytes(content))


def grow(path: Path) -> None:
    path.write_bytes(path.read_bytes() + b" ")


@pytest.mark.parametrize("damage", [cut, flip, grow, Path.unlink])
@pytest.mark.parametrize(
    "name", ["model.safetensors", "model.json", "optimizer.safetensors", "state.json", "manifest.json"]
)
def test_a_damaged_one_is_skipped_with_a_warning(tmp_path: Path, caplog, name: str, damage) -> None:
    save(tmp_path, 1)
    damage(save(tmp_path, 2) / name)
    if name == "manifest.json" and damage is flip:  # make sure that it is not the kind of flip JSON survives
        (tmp_path / "step-00000002" / name).write_bytes(b"\xff")
    if name == "manifest.json" and damage is grow:
        (tmp_path / "step-00000002" / name).write_text('{"format": 1, "step": 2}', encoding="utf-8")
    with caplog.at_level(logging.WARNING):
        found = checkpoint.newest_valid(tmp_path)
    assert found is not None and found.step == 1
    assert "step-00000002" in caplog.text and name in caplog.text and "step-00000001" in caplog.text
    # The next save of step 2 works, and the damaged one was not deleted in silence.
    save(tmp_path, 2)
    assert checkpoint.load(tmp_path / "step-00000002").step == 2
    assert (tmp_path / "damaged-step-00000002").is_dir()


def test_none_whole_is_an_error_and_stays_one(tmp_path: Path) -> None:
    cut(save(tmp_path, 1) / "model.safetensors")
    flip(save(tmp_path, 2) / "state.json")
    for _ in range(2):
        with pytest.raises(
            CheckpointError, match=r"(?s)no checkpoint.*model\.safetensors|(?s:no checkpoint)"
        ):
            checkpoint.newest_valid(tmp_path)


def test_damaged_ones_alone_are_not_a_fresh_start(tmp_path: Path) -> None:
    save(tmp_path, 1)
    cut(save(tmp_path, 2) / "model.safetensors")
    checkpoint.newest_valid(tmp_path)  # sets step 2 aside
    cut(tmp_path / "step-00000001" / "model.safetensors")
    with pytest.raises(CheckpointError):
        checkpoint.newest_valid(tmp_path)


def test_what_a_killed_writer_leaves_is_no_checkpoint(tmp_path: Path) -> None:
    save(tmp_path, 1)
    leftover = tmp_path / ".tmp-step-00000002-77"
    leftover.mkdir()
    (leftover / "model.safetensors").write_bytes(b"half")
    found = checkpoint.newest_valid(tmp_path)
    assert found is not None and found.step == 1
    checkpoint.remove_leftovers(tmp_path)
    assert [p.name for p in tmp_path.iterdir()] == ["step-00000001"]


def test_a_folder_without_a_manifest_is_not_whole(tmp_path: Path) -> None:
    """A writer of another kind that was killed in the middle."""
    save(tmp_path, 1)
    (tmp_path / "step-00000002").mkdir()
    found = checkpoint.newest_valid(tmp_path)
    assert found is not None and found.step == 1


@pytest.mark.parametrize(
    "content", ["[]", "{", '{"format": 2}', '{"format": 1, "step": "1", "files": {}}', "[" * 90_000]
)
def test_hostile_manifests_are_only_invalid(tmp_path: Path, content: str) -> None:
    (save(tmp_path, 1) / "manifest.json").write_text(content, encoding="utf-8")
    with pytest.raises(CheckpointError):
        checkpoint.load(tmp_path / "step-00000001")


def test_saving_the_same_step_again_replaces_it(tmp_path: Path) -> None:
    save(tmp_path, 1, planned=False)
    save(tmp_path, 1)
    assert checkpoint.load(tmp_path / "step-00000001").planned
    assert [p.name for p in tmp_path.iterdir()] == ["step-00000001"]


def test_prune_keeps_the_last_planned_the_best_and_the_newest(tmp_path: Path) -> None:
    for step in range(1, 8):
        save(tmp_path, step)
    save(tmp_path, 8, planned=False)
    save(tmp_path, 9, planned=False)
    checkpoint.prune(tmp_path, keep_last=2, best_step=3)
    assert checkpoint.steps(tmp_path) == [3, 6, 7, 9]
    assert [p.name for p in checkpoint.last_planned(tmp_path, 2)] == ["step-00000006", "step-00000007"]
    assert not [p for p in tmp_path.iterdir() if p.name.startswith(".")]


def test_a_full_disk_leaves_the_old_one_and_names_the_size(tmp_path: Path, monkeypatch) -> None:
    save(tmp_path, 1)

    def full(*_: object) -> None:
        raise OSError(28, os.strerror(28))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(CheckpointError, match=r"no space left .*step-00000002.* MB"):
        save(tmp_path, 2)
    assert [p.name for p in tmp_path.iterdir()] == ["step-00000001"]


def test_an_interrupt_while_writing_leaves_nothing(tmp_path: Path, monkeypatch) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", interrupt)
    with pytest.raises(KeyboardInterrupt):
        save(tmp_path, 1)
    assert list(tmp_path.iterdir()) == []


def test_the_manifest_is_written_last_and_everything_is_synced_before_the_rename(
    tmp_path: Path, monkeypatch
) -> None:
    happened: list[str] = []
    fsync, rename = os.fsync, os.rename
    monkeypatch.setattr(
        os, "fsync", lambda handle: (happened.append(os.readlink(f"/proc/self/fd/{handle}")), fsync(handle))
    )
    monkeypatch.setattr(os, "rename", lambda a, b: (happened.append("rename"), rename(a, b)))
    save(tmp_path, 1)
    # A file that is written aside first has its own name in the middle of the other.
    names = [re.sub(r"^\.(.*)\.[0-9a-f]{8}\.partial$", r"\1", Path(entry).name) for entry in happened]
    before = names[: names.index("rename")]
    for name in ("model.safetensors", "optimizer.safetensors", "state.json", "manifest.json"):
        assert name in before
    assert names[-1] == tmp_path.name  # the new name itself is durable
    manifest = json.loads((tmp_path / "step-00000001" / "manifest.json").read_text(encoding="utf-8"))
    assert set(manifest["files"]) == {
        "model.safetensors",
        "model.json",
        "optimizer.safetensors",
        "state.json",
    }
