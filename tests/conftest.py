"""What holds for all tests: one thread, no network, no variable of the user's shell that we read."""

from __future__ import annotations

import os

import pytest

# Before anything imports PyTorch: on a shared machine many small tests are faster with one thread each.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["HF_DATASETS_OFFLINE"] = "1"


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take away the variables that change what a command prints or does."""
    for name in ("MT_DEBUG", "RANK", "LOCAL_RANK", "WORLD_SIZE", "HYDRA_FULL_ERROR", "HYDRA_MAIN_MODULE"):
        monkeypatch.delenv(name, raising=False)
