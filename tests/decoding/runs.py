"""A finished run folder with random weights, written by the same functions as training uses."""

from __future__ import annotations

import json
from pathlib import Path

import torch

from mt.config.run_config import save_config
from mt.config.schema import ModelKind, ScoreKind, TieEmbeddings, TokenizerConfig, TrainConfig
from mt.data.tokenizer import Tokenizer, train_tokenizer
from mt.models.build import build_model
from mt.models.storage import ModelFacts, save_model, write_facts

SENTENCES = [
    "the cat sleeps on the mat",
    "a dog runs in the park",
    "two birds sing in the tree",
    "the train is late today",
    "what else is new",
    "mixed text with 12 digits",
    "the sun rises and the day ends",
    "first line and last line",
]


def tiny_tokenizer(size: int, extra: str = "", byte_fallback: bool = False) -> Tokenizer:
    """A joint vocabulary over a few Latin sentences."""
    config = TokenizerConfig(vocab_size=size, byte_fallback=byte_fallback, threads=1)
    lines = [*SENTENCES, *(line.upper() for line in SENTENCES), *([extra] if extra else [])]
    return train_tokenizer(config, lines, lines[::-1])


def write_run(
    folder: Path,
    tokenizer: Tokenizer,
    *,
    seed: int = 0,
    ties: TieEmbeddings = TieEmbeddings.all,
    max_positions: int = 48,
    finished: bool = True,
    recurrent: bool = False,
) -> Path:
    """A run folder as training leaves it, with one checkpoint; a recurrent model has no attention."""
    config = TrainConfig()
    for name in ("train_source", "train_target", "valid_source", "valid_target"):
        setattr(config.data, name, f"/nowhere/{name}.txt")  # a moved run knows its text no more
    config.training.max_steps = 2
    config.model.width = 16
    config.model.encoder_layers = config.model.decoder_layers = 1
    config.model.max_positions = max_positions
    if recurrent:
        config.model.kind, config.attention.score = ModelKind.rnn, ScoreKind.none
    else:
        config.model.heads, config.model.ffn_width = 2, 32
    config.model.tie_embeddings = ties
    config.decoding.beam = 2
    config.decoding.max_length_ratio, config.decoding.max_length_extra = 1.0, 2
    folder.mkdir(parents=True)
    save_config(config, folder / "config.yaml")
    tokenizer.save(folder / "tokenizer")
    data = {"hashes": {"tokenizer": tokenizer.sha256}}
    (folder / "data.json").write_text(json.dumps(data), encoding="utf-8")
    torch.manual_seed(seed)
    model = build_model(config.model, config.attention, tokenizer.source_size, tokenizer.target_size)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(1.5)  # less alike outputs for different sentences
    checkpoint = folder / "checkpoints" / "step-00000002"
    checkpoint.mkdir(parents=True)
    save_model(model, checkpoint / "model.safetensors")
    if finished:
        sha256 = save_model(model, folder / "model.safetensors")
        facts = ModelFacts(
            tokenizer.sha256, tokenizer.source_size, tokenizer.target_size, step=2, weights_sha256=sha256
        )
        write_facts(facts, folder / "model.json")
        (folder / "result.json").write_text(json.dumps({"step": 1}), encoding="utf-8")
    return folder
