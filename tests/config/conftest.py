"""A corpus of empty files, and what command lines of `mt.train` amount to."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from mt.config.composition import Composition, open_hydra
from mt.config.schema import TrainConfig


@pytest.fixture
def corpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """An otherwise empty folder to work in, and words that name a corpus in it."""
    monkeypatch.chdir(tmp_path)
    words = ["data=files"]
    for key, name in (
        ("train_source", "a.fr"),
        ("train_target", "a.en"),
        ("valid_source", "b.fr"),
        ("valid_target", "b.en"),
    ):
        Path(name).write_text("x\n", encoding="utf-8")
        words.append(f"data.{key}={name}")
    return words


@pytest.fixture
def training() -> Iterator[Composition]:
    """The composition of `mt.train`."""
    with open_hydra(TrainConfig, "train") as composition:
        yield composition


@pytest.fixture
def slips(training: Composition) -> Callable[[Sequence[str]], list[str]]:
    """What is wrong with the words of `mt.train` themselves (nothing is composed: this is fast)."""

    def look(words: Sequence[str]) -> list[str]:
        return [problem.message for problem in training.read(words, multirun=False).problems]

    return look


@pytest.fixture
def complaints(training: Composition, corpus: list[str]) -> Callable[[Sequence[str]], list[str]]:
    """The problems of a command line of `mt.train`, with a corpus that is fine."""

    def look(words: Sequence[str]) -> list[str]:
        given = {word.partition("=")[0] for word in words}
        rest = [word for word in corpus if word.partition("=")[0] not in given]
        checked = training.check(training.read([*rest, *words], multirun=False))
        return [problem.message for problem in checked.problems]

    return look
