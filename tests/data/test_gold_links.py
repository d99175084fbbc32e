"""Gold word alignments: both formats, and each mistake with its line."""

from __future__ import annotations

from pathlib import Path

import pytest

from mt.data.gold_links import GoldLinks, read_gold_links
from mt.errors import DataError

SOURCES = ["a b c", "", "d e"]
TARGETS = ["x y", "", "z w v"]


def read(tmp_path: Path, text: str) -> GoldLinks:
    path = tmp_path / "gold"
    path.write_text(text, encoding="utf-8")
    return read_gold_links(path, SOURCES, TARGETS)


def test_pharaoh(tmp_path: Path) -> None:
    gold = read(tmp_path, "0-0 2?1 1p1\n\n1-2 1?2\n")
    assert gold.sure == [{(0, 0)}, set(), {(1, 2)}]
    assert gold.possible == [{(0, 0), (2, 1), (1, 1)}, set(), {(1, 2)}]


def test_naacl(tmp_path: Path) -> None:
    gold = read(tmp_path, "0001 1 1 S\n1 3 2 P 0.5\n1 2 0\n\n3 2 3\n3 1 1 S 1\n")
    assert gold.sure == [{(0, 0)}, set(), {(1, 2), (0, 0)}]
    assert gold.possible == [{(0, 0), (2, 1)}, set(), {(1, 2), (0, 0)}]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("0-0\n\n", "gold has 2 lines, the test set 3"),
        ("0-0\n\n0-0\n\n", "gold has 4 lines, the test set 3"),
        ("0-0\n\n0:0\n", "gold, line 3: '0:0' is no link"),
        ("0-0\n\n-1-0\n", "gold, line 3: '-1-0' is no link"),
        ("0-0\n\n٣-0\n", "gold, line 3: '٣-0' is no link"),
        ("0-0\n\n2-0\n", r"gold, line 3: the link 2-0 is of source word 2, but there are the words 0 to 1"),
        ("0-0\n\n2-0\n", "are they counted from 1"),
        ("0-0\n\n0-7\n", r"target word 7, but there are the words 0 to 2, counted at spaces$"),
        ("0-0\n0-0\n\n", "line 2: .*there are the words none"),
        ("1 1 1 S\n1 4 1 S\n", "gold, line 2: the link 4-1 is of source word 4, but .* 1 to 3, counted at"),
        ("1 1 1 S\n4 1 1 S\n", "gold, line 2: sentence 4: the test set has segments 1 to 3"),
        ("1 1 1 S\n0 1 1 S\n", "gold, line 2: sentence 0: "),
        ("1 1 1 S\n1 1 1 X\n", "gold, line 2: '1 1 1 X' is no link"),
        ("0?0\n\n0?0\n", "holds no sure link"),
        ("\n\n\n", "holds no sure link"),
    ],
)
def test_mistakes(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(DataError, match=said):
        read(tmp_path, text)


def test_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no such file"):
        read_gold_links(tmp_path / "none", SOURCES, TARGETS)
