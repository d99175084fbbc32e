"""The line rule: counts, cleaning, encodings, compression."""

import bz2
import gzip
import io
import lzma
import os
import re
import shlex
import subprocess
import sys
import tarfile

import pytest
import zstandard
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from mt.config.schema import InvalidUtf8
from mt.data.lines import clean_line, one_line, read_lines
from mt.data.stream import TextStream
from mt.errors import DataError, printable

# What other readers take for line ends or stumble over, and ordinary text.
PARTS = [
    "\n",
    "\r",
    "\r\n",
    "\u2028",
    "\u2029",
    "\x85",
    "\v",
    "\f",
    "\x1c",
    "\0",
    "\ufeff",
    "a",
    "é",
    " ",
    "\t",
]
texts = st.lists(st.sampled_from(PARTS), max_size=30).map("".join)


def write(folder, name, content):
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def count_by_wc(content: bytes) -> int:
    """What ``wc -l`` says, plus a last line without LF."""
    return content.count(b"\n") + (bool(content) and not content.endswith(b"\n"))


@settings(max_examples=200, deadline=None)
@given(content=st.one_of(st.binary(max_size=60), texts.map(str.encode)))
def test_any_bytes_give_one_entry_per_lf(tmp_path_factory, content):
    # Would be read as compressed, or refused as an archive, UTF-16 or UTF-32.
    magics = (b"\x1f\x8b", b"\x28\xb5\x2f\xfd", b"\xfd7zXZ\0", b"BZh", b"PK\x03\x04", b"7z\xbc\xaf\x27\x1c")
    assume(not content.startswith((*magics, b"\xff\xfe", b"\xfe\xff", b"\0\0\xfe\xff")))
    path = write(tmp_path_factory.getbasetemp(), "any.txt", content)
    text = read_lines(path, invalid_utf8=InvalidUtf8.replace)
    assert len(text.lines) == len(text.raw) == count_by_wc(content)
    assert not any(re.search("[\n\ufeff]", line) for line in text.raw)
    stream = TextStream(io.BytesIO(content), name=str(path), invalid_utf8=InvalidUtf8.replace)
    chunks = list(stream.chunks(3))
    assert [line for chunk in chunks for line in chunk] == text.raw
    assert all(len(chunk) == 3 for chunk in chunks[:-1])
    assert stream.counts() == {key: value for key, value in text.counts().items() if key != "sha256"}
    assert stream.warnings() == text.warnings()


@settings(max_examples=200, deadline=None)
@given(line=st.one_of(texts, st.text(max_size=30)))
def test_cleaning_is_idempotent_and_leaves_single_spaces(line):
    cleaned = clean_line(line)
    assert clean_line(cleaned) == cleaned
    assert cleaned == " ".join(cleaned.split())
    assert not re.search("[\x00-\x1f\x7f-\x9f\u2028\u2029\ufeff\ud800-\udfff]", cleaned)


@settings(max_examples=200, deadline=None)
@given(text=st.one_of(texts, st.text(st.characters(), max_size=30)))
def test_one_line_holds_no_line_break_of_any_kind(text):
    line = one_line(text)
    assert line.splitlines() in ([], [line])
    assert line == line.strip()
    line.encode("utf-8")


def test_one_line_keeps_ordinary_text():
    assert one_line("déjà  vu\u00a0! ▁ <s>") == "déjà  vu\u00a0! ▁ <s>"
    assert one_line("a\u2028b\r\nc\ud800") == "a b c\ufffd"


def test_crlf_on_one_side_changes_nothing_but_the_count(tmp_path):
    crlf = read_lines(write(tmp_path, "src.txt", "a boy\r\na girl\r\ntwo dogs\r\n"))
    lf = read_lines(write(tmp_path, "src.lf.txt", "a boy\na girl\ntwo dogs\n"))
    assert crlf.lines == lf.lines == crlf.raw
    assert (crlf.crlf, lf.crlf) == (3, 0)
    assert crlf.warnings() == []


def test_only_one_carriage_return_belongs_to_the_line_end(tmp_path):
    text = read_lines(write(tmp_path, "cr.txt", b"a\r\r\nb\rc\nlast\r"))
    assert text.raw == ["a\r", "b\rc", "last\r"]
    assert text.lines == ["a", "b c", "last"]
    assert (text.crlf, text.control) == (1, 3)


def test_a_last_line_without_lf_counts_and_a_blank_line_too(tmp_path):
    assert read_lines(write(tmp_path, "a", "one\ntwo")).lines == ["one", "two"]
    assert read_lines(write(tmp_path, "b", "one\ntwo\n")).lines == ["one", "two"]
    assert read_lines(write(tmp_path, "c", "one\ntwo\n\n")).lines == ["one", "two", ""]
    assert read_lines(write(tmp_path, "d", "")).lines == []


def test_control_characters_are_cleaned_and_counted(tmp_path):
    path = write(
        tmp_path, "src.txt", b"first sentence\0 here\nfine\tline\nsecond\x07 x\nthird \x1b[31m red\n"
    )
    text = read_lines(path)
    assert text.lines == ["first sentence here", "fine line", "second x", "third [31m red"]
    assert text.raw[0] == "first sentence\0 here"
    assert text.control == 3
    assert text.control_first == (1, 3, 4)
    (warning,) = text.warnings()
    assert "3 lines with control characters (1, 3, 4)" in warning
    assert warning.isprintable()


def test_strict_names_line_and_character(tmp_path):
    path = write(tmp_path, "src.txt", b"fine\nfirst\0\n\x07\n")
    with pytest.raises(DataError, match=r"src\.txt, line 2: control character U\+0000 \(2 such lines\)"):
        read_lines(path, strict=True)
    for code in (0x0B, 0x0C, 0x1C, 0x7F, 0x85, 0x9B):
        path = write(tmp_path, "one.txt", f"a{chr(code)}b\n")
        with pytest.raises(DataError, match=rf"line 1: control character U\+{code:04X}"):
            read_lines(path, strict=True)
    fine = write(tmp_path, "fine.txt", "tab\there\u2028\u00a0\u200bx\n")
    assert read_lines(fine, strict=True).control == 0


def test_byte_order_marks_vanish_wherever_files_were_joined(tmp_path):
    text = read_lines(write(tmp_path, "src.txt", "\ufeffgood morning\nsee\n\ufeffgood\ufeff night\n"))
    assert text.lines == text.raw == ["good morning", "see", "good night"]
    assert text.bom == 3
    assert "3 byte order marks removed" in text.warnings()[0]


def test_invalid_utf8_names_file_line_byte_and_count(tmp_path):
    path = write(tmp_path, "src.txt", b"a small house\nun caf\xe9 noir\nprice 5 \xe2\x82\n")
    with pytest.raises(DataError) as caught:
        read_lines(path)
    message = str(caught.value)
    assert f"{path}, line 2: byte 0xE9 is not UTF-8 (2 invalid lines)" in message
    assert "data.invalid_utf8=replace" in message and "re-encode" in message
    text = read_lines(path, invalid_utf8=InvalidUtf8.replace)
    assert len(text.lines) == 3 and text.replaced == 2
    assert [("\ufffd" in line) for line in text.lines] == [False, True, True]
    assert "2 lines with invalid UTF-8" in text.warnings()[0]


@pytest.mark.parametrize("bad", [b"\xff", b"\xc0\x80", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"ok \x80"])
def test_every_kind_of_invalid_byte_is_an_error(tmp_path, bad):
    with pytest.raises(DataError, match="line 1: byte 0x"):
        read_lines(write(tmp_path, "x.txt", bad + b"\nfine\n"))
    with pytest.raises(DataError, match="<stdin>, line 2: byte 0x"):
        list(TextStream(io.BytesIO(b"fine\n" + bad + b"\n")).chunks(9))


FOREIGN = {
    "UTF-16 text": "hello there\n".encode("utf-16"),
    "UTF-16 text ": ("hello there\n" * 9).encode("utf-16-be"),
    "UTF-16 text  ": ("caf\u00e9 there\n" * 9).encode("utf-16-le"),
    "UTF-32 text": "hello there\n".encode("utf-32"),
    "a bzip2 file": bz2.compress(b"hello\n"),
    "a bzip2 file ": bz2.compress(b""),
    "a zip archive": b"PK\x03\x04\x14\0\0\0",
}


@pytest.mark.parametrize("kind", FOREIGN)
def test_what_is_no_text_is_named_with_a_way_to_make_text_of_it(tmp_path, kind):
    content = FOREIGN[kind]
    wayout = {"UTF": "iconv -f utf-", "a b": "bzip2 -dc", "a z": "unzip"}[kind[:3]]
    for where in (content, gzip.compress(content)):
        path = write(tmp_path, "my file", where)
        with pytest.raises(DataError) as caught:
            read_lines(path, invalid_utf8=InvalidUtf8.replace)
        assert f"looks like {kind.strip()}" in str(caught.value)
        assert wayout in str(caught.value) and f"'{path}'" in str(caught.value)
    with pytest.raises(DataError, match=f"<stdin> looks like {kind.strip()}.*{wayout}.*FILE"):
        list(TextStream(io.BytesIO(content)).chunks(9))


def test_an_archive_is_not_unpacked(tmp_path):
    """Case 67: whatever names its members have, nothing is written; its text is no corpus either."""
    stored = io.BytesIO()
    with tarfile.open(fileobj=stored, mode="w:gz") as archive:
        for name in ("../outside.txt", str(tmp_path / "absolute.txt"), "train.en"):
            member = tarfile.TarInfo(name)
            member.size = 6
            archive.addfile(member, io.BytesIO(b"hello\n"))
    (tmp_path / "in").mkdir()
    path = write(tmp_path / "in", "model.tar.gz", stored.getvalue())
    with pytest.raises(DataError, match=r"looks like a tar archive.*tar -xf"):
        read_lines(path)
    assert [found.name for found in tmp_path.rglob("*")] == ["in", "model.tar.gz"]


def test_the_command_that_makes_utf8_works(tmp_path):
    for encoding in ("utf-16", "utf-16-le", "utf-16-be", "utf-32"):
        path = write(tmp_path, "old", ("caf\u00e9 there\n" * 9).encode(encoding))
        with pytest.raises(DataError) as caught:
            read_lines(path)
        command = str(caught.value).partition("(")[2].partition(" > NEW)")[0]
        new = subprocess.run(shlex.split(command), capture_output=True, check=True).stdout
        assert read_lines(write(tmp_path, "new", new)).lines == ["caf\u00e9 there"] * 9


def test_plain_text_is_not_taken_for_an_archive(tmp_path):
    for content in (b"BZh is no word\n", b"PK is short\n", b"a\0b\0\n" * 3, b"\0" * 200):
        assert read_lines(write(tmp_path, "x.txt", content)).raw
    for name in ("x.bz2", "x.zip"):
        with pytest.raises(DataError, match="though its name says so"):
            read_lines(write(tmp_path, name, b"plain\n"))


def test_a_compressed_pipe_is_named():
    with pytest.raises(DataError, match="<stdin> is gzip data; decompress it first: gzip -dc"):
        list(TextStream(io.BytesIO(gzip.compress(b"x\n"))).chunks(9))


@pytest.mark.parametrize(
    "line",
    ["   ", "\t", "\u00a0 \u00a0", "\u3000", "\u200b", "\u2060\u00ad", "\ufe0f", "\u3164", "\u200d\ufeff"],
)
def test_lines_that_print_nothing_are_empty(line):
    assert clean_line(line) == ""


@pytest.mark.parametrize(
    "line", ["👩\u200d💻", "❤\ufe0f", "a\u200bb", "क\u094dष", "ab\u0301", "\u202bשלום\u202c", "\ufffd"]
)
def test_invisible_characters_inside_a_text_stay(line):
    assert clean_line(line) == line


def test_spaces_around_and_inside():
    for line in ("  the cat sleeps", "the cat sleeps  ", "the  cat \t sleeps", "the\u00a0cat\u2003sleeps"):
        assert clean_line(line) == "the cat sleeps"


def test_a_stream_gives_what_is_there_rather_than_wait():
    reading, writing = os.pipe()
    with os.fdopen(reading, "rb") as pipe:
        chunks = TextStream(pipe).chunks(3)
        for written, given in (
            (b"line 1\n", ["line 1"]),
            (b"line 2\nline 3\nhalf a", ["line 2", "line 3"]),
            (b" line\r\n\n", ["half a line", ""]),
        ):
            os.write(writing, written)
            assert next(chunks) == given
        os.write(writing, b"5\n6\n7\n8\nend")
        assert next(chunks) == ["5", "6", "7"]
        os.close(writing)
        assert list(chunks) == [["8", "end"]]


def test_a_long_line_in_many_blocks_is_one_line():
    long = "é" * 200_000
    assert list(TextStream(io.BytesIO(f"a\n{long}\nb".encode())).chunks(5)) == [["a", long, "b"]]


CONTENT = b"line one\nline two\nline three\nline four\n"
COMPRESSED = {
    "ok.txt.gz": gzip.compress(CONTENT),
    "two-members.txt.gz": gzip.compress(CONTENT[:9]) + gzip.compress(CONTENT[9:]),
    "padded.txt.gz": gzip.compress(CONTENT) + b"\0" * 512,
    "ok.txt.xz": lzma.compress(CONTENT),
    "two-streams.txt.xz": lzma.compress(CONTENT[:9]) + lzma.compress(CONTENT[9:]),
    "ok.txt.zst": zstandard.compress(CONTENT),
    "two-frames.txt.zst": zstandard.compress(CONTENT[:9]) + zstandard.compress(CONTENT[9:]),
}


@pytest.mark.parametrize("name", COMPRESSED)
def test_compressed_files_read_as_plain_ones(tmp_path, name):
    text = read_lines(write(tmp_path, name, COMPRESSED[name]))
    assert text.lines == ["line one", "line two", "line three", "line four"]


@pytest.mark.parametrize("name", COMPRESSED)
def test_compressed_files_cut_anywhere_are_errors(tmp_path, name):
    whole = COMPRESSED[name].rstrip(b"\0")
    first_member = (
        len(gzip.compress(CONTENT[:9])),
        len(lzma.compress(CONTENT[:9])),
        len(zstandard.compress(CONTENT[:9])),
    )
    for end in range(6, len(whole)):
        if name.startswith("two") and end in first_member:
            continue  # a whole file of fewer lines: nobody can tell
        with pytest.raises(DataError, match=r"cut short|damaged"):
            read_lines(write(tmp_path, name, whole[:end]))


def test_a_flipped_bit_is_an_error(tmp_path):
    for name in ("ok.txt.gz", "ok.txt.xz"):
        damaged = bytearray(COMPRESSED[name])
        damaged[len(damaged) // 2] ^= 0x10
        with pytest.raises(DataError, match=r"damaged|cut short"):
            read_lines(write(tmp_path, name, bytes(damaged)))


def test_something_behind_a_gzip_member_is_an_error(tmp_path):
    with pytest.raises(DataError, match="damaged"):
        read_lines(write(tmp_path, "x.gz", gzip.compress(CONTENT) + b"more"))


@pytest.mark.parametrize(("suffix", "kind"), [(".gz", "gzip"), (".xz", "xz"), (".zst", "zstd")])
def test_a_lying_suffix_is_said(tmp_path, suffix, kind):
    with pytest.raises(DataError, match=f"is not a {kind} file.*plain text"):
        read_lines(write(tmp_path, f"plain.txt{suffix}", CONTENT))
    with pytest.raises(DataError, match=f"empty corpus.*{kind}"):
        read_lines(write(tmp_path, f"zero.txt{suffix}", b""))
    other = "ok.txt.xz" if suffix == ".gz" else "ok.txt.gz"
    with pytest.raises(DataError, match=f"is not a {kind} file: its first bytes say a (xz|gzip) file"):
        read_lines(write(tmp_path, f"other.txt{suffix}", COMPRESSED[other]))


def test_a_compressed_file_without_suffix_is_read_with_a_warning(tmp_path, caplog):
    assert len(read_lines(write(tmp_path, "train.fr", COMPRESSED["ok.txt.gz"])).lines) == 4
    assert "is a gzip file" in caplog.text


@pytest.mark.skipif(sys.version_info >= (3, 14), reason="the standard library has zstd")
def test_zstd_without_the_library_names_the_package(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "zstandard", None)
    with pytest.raises(DataError, match="pip install zstandard"):
        read_lines(write(tmp_path, "file.txt.zst", COMPRESSED["ok.txt.zst"]))


def test_missing_files_and_folders(tmp_path):
    for typed in ("C:\\data\\new\\train.txt", "./nowhere//x.txt", "a\0b"):
        with pytest.raises(DataError) as caught:
            read_lines(typed)
        assert typed.replace("\0", "\\x00") in str(caught.value)
    with pytest.raises(DataError, match="is a folder"):
        read_lines(tmp_path)


def test_messages_never_carry_raw_control_characters():
    assert printable("a\x1b[31m\nb\u202e\ud800é\\n") == "a\\x1b[31m\\x0ab\\u202e\\ud800é\\n"
