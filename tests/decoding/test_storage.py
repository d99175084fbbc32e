"""Weights on disk: tied tensors once, bare names, nothing but safetensors, whole or absent."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import nn

from mt.config.schema import AttentionConfig, ModelConfig, TieEmbeddings
from mt.errors import CheckpointError
from mt.models import storage
from mt.models.build import build_model
from mt.models.seq2seq import Seq2Seq, parameter_count
from mt.models.state import reorder, repeat, select
from mt.models.storage import ModelFacts, load_weights, read_facts, save_model, tensors_of, write_facts


def tiny_model(ties: TieEmbeddings = TieEmbeddings.all, size: int = 20, seed: int = 0) -> Seq2Seq:
    torch.manual_seed(seed)
    config = ModelConfig(
        width=8, heads=2, ffn_width=8, encoder_layers=1, decoder_layers=1, tie_embeddings=ties, dropout=0.0
    )
    return build_model(config, AttentionConfig(), size, size)


def three_matrices(model: Seq2Seq) -> list[torch.Tensor]:
    return [model.source_embedding.weight, model.target_embedding.weight, model.output_weight]


def same_weights(one: nn.Module, other: nn.Module) -> bool:
    pairs = zip(one.state_dict().items(), other.state_dict().items(), strict=True)
    return all(a == b and torch.equal(x, y) for (a, x), (b, y) in pairs)


@pytest.mark.parametrize(
    ("ties", "copies"), [(TieEmbeddings.all, 1), (TieEmbeddings.decoder, 2), (TieEmbeddings.none, 3)]
)
def test_tied_matrices_are_stored_once_and_stay_one(tmp_path: Path, ties: TieEmbeddings, copies: int) -> None:
    model, path = tiny_model(ties), tmp_path / "model.safetensors"
    save_model(model, path)
    stored = load_file(path)
    assert sum(tensor.shape == (20, 8) for tensor in stored.values()) == copies
    assert sum(tensor.numel() for tensor in stored.values()) == parameter_count(model)
    loaded = tiny_model(ties, seed=9)
    load_weights(loaded, path)
    assert same_weights(loaded, model)
    assert len({matrix.data_ptr() for matrix in three_matrices(loaded)}) == copies
    # An update through any of them reaches all that are tied, and still does after the next round trip.
    source, mask = torch.tensor([[4, 5, 2]]), torch.ones(1, 3, dtype=torch.bool)
    loaded.logits(loaded(source, mask, source, mask)).logsumexp(-1).sum().backward()
    with torch.no_grad():
        for parameter in loaded.parameters():
            parameter -= 0.1 * parameter.grad
    save_model(loaded, path)
    again = tiny_model(ties, seed=3)
    load_weights(again, path)
    assert same_weights(again, loaded) and not same_weights(again, model)
    first, second, third = three_matrices(again)
    assert torch.equal(second, third) == (ties is not TieEmbeddings.none)
    assert torch.equal(first, second) == (ties is TieEmbeddings.all)


class Wrapper(nn.Module):
    """Stands for DistributedDataParallel: adds ``module.`` to every name."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module


class Compiled(nn.Module):
    """Stands for torch.compile: adds ``_orig_mod.`` to every name."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self._orig_mod = module


@pytest.mark.parametrize("saved", range(4))
@pytest.mark.parametrize("loaded", range(4))
def test_wrappers_leave_no_trace_in_the_names(tmp_path: Path, saved: int, loaded: int) -> None:
    """Case 71: saved and loaded plain, data-parallel, compiled, or both, in all sixteen ways."""
    wrap = [lambda m: m, Wrapper, Compiled, lambda m: Wrapper(Compiled(m))]
    model, path = tiny_model(), tmp_path / "model.safetensors"
    inner = model.encoder[0]
    save_model(wrap[saved](model), path)
    assert not any("module" in name.split(".") or "_orig_mod" in name for name in load_file(path))
    model.encoder[0] = Compiled(inner)  # type: ignore[assignment]
    assert set(tensors_of(model)) == set(load_file(path))
    fresh = tiny_model(seed=5)
    load_weights(wrap[loaded](fresh), path)
    model.encoder[0] = inner
    assert same_weights(fresh, model)


@pytest.mark.slow  # importing the compiler takes seconds
def test_real_compile_and_data_parallel_names_are_the_wrappers_above() -> None:
    names = set(tensors_of(tiny_model()))
    assert set(tensors_of(torch.compile(tiny_model()))) == names  # type: ignore[arg-type]


def test_what_does_not_fit_is_named_and_nothing_is_loaded(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    model = tiny_model()
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    tensors = {name: tensor.clone() for name, tensor in tensors_of(tiny_model(seed=1)).items()}
    gone = "decoder.0.cross.query.weight"
    tensors["stranger.weight"] = tensors.pop(gone)
    tensors["encoder_norm.bias"] = torch.zeros(9)
    save_file(tensors, path)
    with pytest.raises(CheckpointError) as caught:
        load_weights(model, path)
    message = str(caught.value)
    assert str(path) in message and f"missing from the file: {gone}" in message
    assert "not in the model: stranger.weight" in message
    assert "encoder_norm.bias: shape [9] in the file, [8] in the model" in message
    assert all(torch.equal(tensor, before[name]) for name, tensor in model.state_dict().items())
    save_file({f"module.{name}": tensor for name, tensor in tensors_of(model).items()}, path)
    with pytest.raises(CheckpointError, match=r"missing from the file: .* and \d+ more"):
        load_weights(model, path)


def test_copies_that_differ_cannot_be_tied(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    tied, untied = tiny_model(), tiny_model(TieEmbeddings.none)
    save_model(untied, path)
    with pytest.raises(CheckpointError, match="one tensor in the model, different values in the file"):
        load_weights(tied, path)
    tensors = {
        name: tensor.detach().clone() for name, tensor in tied.state_dict().items()
    }  # three equal copies
    save_file(tensors, path)
    fresh = tiny_model(seed=4)
    load_weights(fresh, path)
    assert same_weights(fresh, tied)


@pytest.mark.parametrize(
    "content", [b"", b"\x80\x04garbage", b"cos\nsystem\n(S'touch CANARY'\ntR.", b"\xff" * 100]
)
def test_other_formats_are_refused_unread(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "model.safetensors"
    path.write_bytes(content)
    with pytest.raises(CheckpointError, match="cannot be read as safetensors, the only format loaded"):
        load_weights(tiny_model(), path)
    assert not (tmp_path / "CANARY").exists()


def test_a_file_cut_anywhere_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    save_model(tiny_model(), path)
    whole = path.read_bytes()
    for length in (1, 7, 100, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:length])
        with pytest.raises(CheckpointError, match=r"model\.safetensors"):
            load_weights(tiny_model(), path)
    with pytest.raises(CheckpointError, match="no such file"):
        load_weights(tiny_model(), tmp_path / "none.safetensors")


def test_a_failed_write_leaves_the_old_file_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "model.safetensors"
    save_model(tiny_model(), path)
    before = path.read_bytes()

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(CheckpointError, match=r"cannot write [\d,]+ bytes: No space left on device"):
        save_model(tiny_model(seed=1), path)
    assert path.read_bytes() == before and os.listdir(tmp_path) == ["model.safetensors"]
    with pytest.raises(CheckpointError, match="cannot write"):
        save_model(tiny_model(), tmp_path / "missing" / "model.safetensors")


def test_facts_survive_a_round_trip(tmp_path: Path) -> None:
    facts = ModelFacts("ab" * 32, 80, 90, step=7, origin="step 7", weights_sha256="cd" * 32)
    write_facts(facts, tmp_path / "model.json")
    assert read_facts(tmp_path / "model.json") == facts
    content = json.loads((tmp_path / "model.json").read_text(encoding="utf-8"))
    content["later"] = 1
    del content["step"]
    (tmp_path / "model.json").write_text(json.dumps(content), encoding="utf-8")
    assert read_facts(tmp_path / "model.json").step == 0


@pytest.mark.parametrize(
    "content",
    [
        "", "[]", "{}", "[" * 100_000, '{"format": 99}', '{"format": 1}', '{"format": true}', '"\\ud800',
        '{"format": 1, "tokenizer_sha256": 3, "source_size": 1, "target_size": 1}',
        '{"format": 1, "tokenizer_sha256": "a", "source_size": "1", "target_size": 1}',
        '{"format": 1, "tokenizer_sha256": "a", "source_size": true, "target_size": 1}',
        '{"format": 1, "tokenizer_sha256": "a", "source_size": 1, "target_size": 1, "weights_sha256": 5}',
    ],
)  # fmt: skip
def test_facts_that_are_none_are_an_error(tmp_path: Path, content: str) -> None:
    path = tmp_path / "model.json"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(CheckpointError, match=r"model\.json"):
        read_facts(path)


def test_sha256_is_the_files() -> None:
    import hashlib

    assert storage.sha256_of(Path(__file__)) == hashlib.sha256(Path(__file__).read_bytes()).hexdigest()


def test_rows_of_a_state() -> None:
    tree = {"a": [torch.arange(6).view(3, 2), None], "b": (torch.tensor([7, 8, 9]),)}
    picked = reorder(tree, torch.tensor([2, 0, 2]))
    assert picked["a"][0].tolist() == [[4, 5], [0, 1], [4, 5]] and picked["a"][1] is None
    assert isinstance(picked["b"], tuple) and picked["b"][0].tolist() == [9, 7, 9]
    assert repeat(tree, 2)["b"][0].tolist() == [7, 7, 8, 8, 9, 9]
    state = {"memory": torch.tensor([1, 2]), "cache": torch.tensor([1, 2, 3, 4])}
    chosen = select(state, sentences=torch.tensor([1]), hypotheses=torch.tensor([3, 2]))
    assert chosen["memory"].tolist() == [2] and chosen["cache"].tolist() == [4, 3]
    assert select(state, hypotheses=torch.tensor([0]))["memory"] is state["memory"]
    with pytest.raises(TypeError, match="not int"):
        reorder({"position": 3}, torch.tensor([0]))
    with pytest.raises(TypeError, match="not str"):
        repeat(["x"], 2)
