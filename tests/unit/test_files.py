"""A name stands for a whole file, or for what it stood for before."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

import pytest

from mt.config.outputs import check_output
from mt.errors import UsageError
from mt.files import make_folder, whole_file, write_whole


def entries(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_the_name_appears_when_the_block_ends(tmp_path: Path) -> None:
    path = tmp_path / "out"
    with whole_file(path) as file:
        file.write(b"half")
        assert not path.exists()
    assert path.read_bytes() == b"half" and entries(tmp_path) == ["out"]


@pytest.mark.parametrize("failure", [ValueError(), KeyboardInterrupt(), SystemExit(143)])
def test_a_failure_leaves_what_was_there_and_nothing_else(tmp_path: Path, failure: BaseException) -> None:
    path = tmp_path / "out"
    path.write_bytes(b"before")
    with pytest.raises(type(failure)), whole_file(path) as file:
        file.write(b"half")
        raise failure
    assert path.read_bytes() == b"before" and entries(tmp_path) == ["out"]


def test_the_content_is_on_the_disk_before_it_has_the_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    happened: list[str] = []
    fsync, replace = os.fsync, os.replace

    def synced(handle: int) -> None:
        happened.append("folder" if stat.S_ISDIR(os.fstat(handle).st_mode) else "file")
        fsync(handle)

    def renamed(old: Path, new: Path) -> None:
        happened.append("rename")
        replace(old, new)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(os, "replace", renamed)
    write_whole(tmp_path / "out", b"x")
    assert happened == ["file", "rename", "folder"]


def test_a_new_folder_is_as_durable_as_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[Path] = []
    name_of = "/proc/self/fd/{}".format
    monkeypatch.setattr(os, "fsync", lambda handle: synced.append(Path(os.readlink(name_of(handle)))))
    make_folder(tmp_path / "a" / "b")
    assert (tmp_path / "a" / "b").is_dir() and set(synced) == {tmp_path, tmp_path / "a"}
    make_folder(tmp_path / "a" / "b")
    assert len(synced) == 2


def test_links_and_permissions_stay_and_others_may_read_a_new_file(tmp_path: Path) -> None:
    real = tmp_path / "real"
    write_whole(real, b"x")
    plain = tmp_path / "plain"
    plain.write_bytes(b"")
    assert real.stat().st_mode == plain.stat().st_mode
    real.chmod(0o640)
    (tmp_path / "link").symlink_to("real")
    write_whole(tmp_path / "link", b"y")
    assert (tmp_path / "link").is_symlink() and real.read_bytes() == b"y"
    assert real.stat().st_mode & 0o777 == 0o640


def test_the_longest_name_can_be_written(tmp_path: Path) -> None:
    write_whole(tmp_path / ("é" * 127), b"x")
    assert (tmp_path / ("é" * 127)).read_bytes() == b"x"


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EFBIG])
def test_a_disk_without_room_names_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    def full(handle: int) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError) as caught:
        write_whole(tmp_path / "out", b"x")
    assert (caught.value.errno, caught.value.filename) == (number, str(tmp_path / "out"))
    assert entries(tmp_path) == []


def test_a_device_is_written_to_not_replaced(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    reader = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    try:
        write_whole(tmp_path / "pipe", b"x")
        assert os.read(reader, 10) == b"x"
    finally:
        os.close(reader)
    assert entries(tmp_path) == ["pipe"]
    with pytest.raises(OSError):
        write_whole(tmp_path, b"x")


def test_what_cannot_be_written_is_known_before(tmp_path: Path) -> None:
    path = tmp_path / "out"
    path.write_bytes(b"before")
    check_output("output", path)
    check_output("output", tmp_path / "new")
    check_output("output", Path(os.devnull))
    assert path.read_bytes() == b"before" and entries(tmp_path) == ["out"]
    # The superuser too cannot make a file in these.
    for impossible in (tmp_path / "none" / "a", path / "a", tmp_path / ("a" * 300), Path("/proc/a")):
        with pytest.raises(UsageError, match=f"^output={impossible}: "):
            check_output("output", impossible)
    assert entries(tmp_path) == ["out"]
