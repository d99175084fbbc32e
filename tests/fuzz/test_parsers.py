"""Every parser of ours on damaged and made-up files: nothing comes out of it but our own errors.

Each valid file is cut, stretched, and has bytes replaced. The fast suite takes a few such files a parser;
`make slow` goes on for a minute.
"""

from __future__ import annotations

import gzip
import json
import lzma
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st

from mt.config.run_config import load_config, save_config
from mt.config.schema import InvalidUtf8, TrainConfig
from mt.data import piece_model
from mt.data.lines import read_lines
from mt.data.store import DamagedStore, TokenStore
from mt.data.tokenizer import Tokenizer, identify
from mt.errors import MTError
from mt.models.storage import read_facts, read_tensors
from mt.training import checkpoint
from mt.training.run_folder import stored_config
from mt.training.state import Progress
from mt.training.tracking import MetricsFile
from tests.decoding.runs import tiny_tokenizer, write_run

SECONDS = 60.0  # in the slow suite, over all parsers
Parser = Callable[[Path], Any]


def _read_metrics(path: Path) -> None:
    MetricsFile(path, 3).close()


# What is parsed -> (the file in the folder of `good`, how it is read).
PARSERS: dict[str, tuple[str, Parser]] = {
    "pieces": ("run/tokenizer/joint.model", lambda path: piece_model.parse(path.read_bytes(), "it")),
    "tokenizer": ("run/tokenizer/joint.model", lambda path: Tokenizer.load(path.parent)),
    "manifest of a tokenizer": ("run/tokenizer/tokenizer.json", lambda path: identify(path.parent)),
    "configuration": ("run/config.yaml", load_config),
    "run folder": ("run/config.yaml", lambda path: stored_config(path.parent)),
    "facts": ("run/model.json", read_facts),
    "weights": ("run/model.safetensors", read_tensors),
    "checkpoint": ("step-00000003/manifest.json", lambda path: checkpoint.load(path.parent)),
    "counters": (
        "state.json",
        lambda path: Progress.from_state(checkpoint._read_json(path), path),
    ),
    "metrics": ("metrics.jsonl", _read_metrics),
    "text": ("text.txt", lambda path: read_lines(path, invalid_utf8=InvalidUtf8.error, strict=False)),
    "gzip": ("text.gz", lambda path: read_lines(path, invalid_utf8=InvalidUtf8.replace, strict=False)),
    "xz": ("text.xz", lambda path: read_lines(path, invalid_utf8=InvalidUtf8.error, strict=False)),
    "store": ("store/store.json", lambda path: TokenStore.open(path.parent)),
    "ids of a store": ("store/source_ids.npy", lambda path: TokenStore.open(path.parent)),
}


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a whole file of each kind."""
    import dataclasses

    import torch

    from mt.models.storage import ModelFacts

    folder = tmp_path_factory.mktemp("good")
    write_run(folder / "run", tiny_tokenizer(60))
    config = TrainConfig()
    config.training.max_steps = 2
    for name in ("train_source", "train_target", "valid_source", "valid_target"):
        setattr(config.data, name, "x")
    save_config(config, folder / "run" / "config.yaml")
    state = dataclasses.asdict(Progress(earlier=[[2, 3]]))
    checkpoint.save(
        folder, 3, model={"w": torch.ones(3)}, optimizer={}, facts=ModelFacts("0", 1, 1), state=state
    )
    checkpoint.write_json(folder / "state.json", state)
    (folder / "metrics.jsonl").write_text('{"kind": "train", "step": 3, "loss": 1.5}\n' * 3, encoding="utf-8")
    text = "ein Satz\r\n\n二\u2028 \U0001f600\x00\n".encode() * 3
    (folder / "text.txt").write_bytes(text)
    (folder / "text.gz").write_bytes(gzip.compress(text))
    (folder / "text.xz").write_bytes(lzma.compress(text))
    TokenStore.build(folder / "store", [[1, 2], [3]], [[4], [5, 6]])
    return folder


@st.composite
def damage(draw: st.DrawFn) -> Callable[[bytes], bytes]:
    """A change of some bytes; places as shares of the length, so that they mean something for any file."""
    kind = draw(st.sampled_from(["replace", "insert", "cut", "repeat", "new"]))
    first, second = sorted((draw(st.floats(0, 1)), draw(st.floats(0, 1))))
    junk = draw(
        st.one_of(
            st.binary(max_size=20),
            st.sampled_from(
                [b"\xff" * 8, b"[" * 3000, b"{", b"null", b"1e999", b"-1", b"\x00", b"&a [*a]", b"!!x "]
            ),
        )
    )

    def apply(content: bytes) -> bytes:
        start, end = int(first * len(content)), int(second * len(content))
        if kind == "replace":
            return content[:start] + junk + content[start + len(junk) :]
        if kind == "insert":
            return content[:start] + junk + content[start:]
        if kind == "cut":
            return content[:start] + content[end:]
        if kind == "repeat":
            return content[:end] + content[start:]
        return junk

    return apply


def check(name: str, good: Path, change: Callable[[bytes], bytes]) -> None:
    file, parse = PARSERS[name]
    path = good / file
    content = path.read_bytes()
    try:
        path.write_bytes(change(content))
        parse(path)
    except (MTError, DamagedStore) as error:
        assert str(error)
    finally:
        path.write_bytes(content)


@pytest.mark.parametrize("name", PARSERS)
def test_a_whole_file_is_read(name: str, good: Path) -> None:
    file, parse = PARSERS[name]
    parse(good / file)


QUICK = settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))


@pytest.mark.parametrize("name", PARSERS)
@QUICK
@given(change=damage())
def test_only_our_own_errors_come_out(name: str, good: Path, change: Callable[[bytes], bytes]) -> None:
    check(name, good, change)


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", PARSERS)
def test_only_our_own_errors_come_out_of_many_more(name: str, good: Path) -> None:
    end = time.monotonic() + SECONDS / len(PARSERS)
    number = 0
    while time.monotonic() < end:
        number += 1

        @seed(number)
        @settings(QUICK, max_examples=200, database=None)
        @given(change=damage())
        def many(change: Callable[[bytes], bytes]) -> None:
            check(name, good, change)

        many()


@pytest.mark.parametrize("size", [10**12, 2**63 - 1])
def test_a_stated_size_is_not_believed(tmp_path: Path, size: int) -> None:
    """A header that promises a tensor of terabytes in a file of a hundred bytes allocates nothing."""
    header = json.dumps({"w": {"dtype": "F32", "shape": [size], "data_offsets": [0, size * 4]}}).encode()
    (tmp_path / "w").write_bytes(len(header).to_bytes(8, "little") + header + b"\0" * 8)
    (tmp_path / "h").write_bytes((2**62).to_bytes(8, "little") + b"{}")
    for name in ("w", "h"):
        with pytest.raises(MTError, match="safetensors"):
            read_tensors(tmp_path / name)
