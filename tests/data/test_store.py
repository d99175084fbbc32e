"""Token stores: what goes in comes out, whole or not at all."""

import os
import threading

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mt.data.store import DamagedStore, TokenStore, build_folder
from mt.errors import DataError

SOURCE = [[5, 6, 7], [], [8], [9, 10]]
TARGET = [[4], [70_000, 2], [], [11, 12, 13]]


def content(store):
    return [(store.source(i).tolist(), store.target(i).tolist()) for i in range(len(store))]


EXPECTED = list(zip(SOURCE, TARGET, strict=True))


def test_build_and_open(tmp_path):
    built = TokenStore.build(tmp_path / "store", SOURCE, TARGET)
    opened = TokenStore.open(tmp_path / "store")
    for store in (built, opened, TokenStore.of(SOURCE, TARGET)):
        assert content(store) == EXPECTED
        assert store.source_lengths.tolist() == [3, 0, 1, 2] and store.source_lengths.dtype == np.int32
        assert store.target_lengths.tolist() == [1, 2, 0, 3]
    assert opened.source(0).dtype == np.uint16  # small ids take two bytes
    assert opened.target(0).dtype == np.uint32
    assert os.listdir(tmp_path) == ["store"]
    with pytest.raises(ValueError):
        opened.source(0)[0] = 1  # the map is read-only


@settings(max_examples=50, deadline=None)
@given(data=st.data())
def test_gather_is_concatenation(data):
    lines = data.draw(st.lists(st.lists(st.integers(0, 99), max_size=5), min_size=1, max_size=8))
    store = TokenStore.of(lines, lines[::-1])
    chosen = np.array(data.draw(st.lists(st.integers(0, len(lines) - 1), max_size=8)), dtype=np.int64)
    assert store.gather_source(chosen).tolist() == [token for i in chosen for token in lines[i]]
    assert store.gather_target(chosen).tolist() == [token for i in chosen for token in lines[::-1][i]]


def test_no_pairs_and_unequal_sides(tmp_path):
    assert len(TokenStore.build(tmp_path / "empty", [], [])) == 0
    with pytest.raises(ValueError, match="2 source lines, 1 target lines"):
        TokenStore.build(tmp_path / "x", [[1], [2]], [[1]])


def test_any_damage_is_noticed_and_repaired(tmp_path):
    folder = tmp_path / "store"
    TokenStore.build(folder, SOURCE, TARGET)
    for name in sorted(os.listdir(folder)):
        whole = (folder / name).read_bytes()
        for damage in (whole[:-3], whole + b"x", whole[:-9] + bytes([whole[-9] ^ 1]) + whole[-8:], b"", None):
            if damage is None:
                (folder / name).unlink()
            else:
                (folder / name).write_bytes(damage)
            with pytest.raises(DamagedStore):
                TokenStore.open(folder)
            assert content(TokenStore.build(folder, SOURCE, TARGET)) == EXPECTED
            assert os.listdir(tmp_path) == ["store"]
    with pytest.raises(DamagedStore):
        TokenStore.open(tmp_path / "nowhere")


def test_a_whole_store_is_kept(tmp_path):
    TokenStore.build(tmp_path / "store", SOURCE, TARGET)
    before = os.stat(tmp_path / "store").st_ino
    TokenStore.build(tmp_path / "store", SOURCE, TARGET)
    assert os.stat(tmp_path / "store").st_ino == before


@pytest.mark.parametrize("damaged_before", [False, True])
def test_many_builders_at_once(tmp_path, damaged_before):
    folder = tmp_path / "store"
    if damaged_before:
        folder.mkdir()
        (folder / "store.json").write_text("{}", encoding="utf-8")
    start = threading.Barrier(6)
    found, failed = [], []

    def build():
        start.wait()
        try:
            found.append(content(TokenStore.build(folder, SOURCE, TARGET)))
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=build) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed
    assert found == [EXPECTED] * 6
    assert content(TokenStore.open(folder)) == EXPECTED
    assert os.listdir(tmp_path) == ["store"]


def test_a_failing_build_leaves_nothing(tmp_path):
    def write(aside):
        (aside / "half").write_text("x", encoding="utf-8")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        build_folder(tmp_path / "store", write, lambda folder: False)
    assert os.listdir(tmp_path) == []


def test_a_disk_that_refuses_names_the_option(tmp_path):
    def full(aside):
        raise OSError(28, "No space left on device")

    with pytest.raises(DataError, match=r"No space left on device.*data\.cache=DIR"):
        build_folder(tmp_path / "cache" / "store", full, lambda folder: False)
    (tmp_path / "file").write_text("", encoding="utf-8")
    with pytest.raises(DataError, match=r"data\.cache=DIR"):
        TokenStore.build(tmp_path / "file" / "store", SOURCE, TARGET)
