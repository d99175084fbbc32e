"""Fixtures of the training tests; see world.py for what they are made of."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

from mt.config.schema import TokenizerConfig
from mt.data.tokenizer import Tokenizer, train_tokenizer
from mt.training import trainer as trainer_module
from mt.training.trainer import Trainer
from tests.training.world import pairs, prepared_from


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(autouse=True)
def no_waiting_for_the_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """Durability is tested by what is asked of the system (test_checkpoint.py), not by waiting for it."""
    monkeypatch.setattr(os, "fsync", lambda handle: None)


@pytest.fixture(scope="session")
def tokenizer() -> Tokenizer:
    return train_tokenizer(TokenizerConfig(vocab_size=300, threads=1), *pairs(40, 0))


@pytest.fixture(scope="session")
def separate_tokenizer() -> Tokenizer:
    return train_tokenizer(TokenizerConfig(vocab_size=300, threads=1, joint=False), *pairs(40, 0))


@pytest.fixture
def prepared(tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The small corpus, which `train` finds in place of files."""
    made = prepared_from(tokenizer, pairs(40, 0), pairs(6, 1))
    monkeypatch.setattr(trainer_module, "prepare", lambda *_: made)
    return made


@pytest.fixture
def at_step(monkeypatch: pytest.MonkeyPatch) -> Callable[[int, Callable[[Trainer], None]], None]:
    """Do something right after an update, before anything is logged or saved."""

    def install(step: int, action: Callable[[Trainer], None]) -> None:
        update = Trainer._update

        def patched(self: Trainer, batches: Any) -> None:
            update(self, batches)
            if self.progress.step == step:
                action(self)

        monkeypatch.setattr(Trainer, "_update", patched)

    return install
