"""Attention pictures: names where they belong, text that stays text, files whole or absent."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import matplotlib.image
import numpy as np
import pytest

from mt.decoding.alignments import CrossAttention, Weights, merge
from mt.errors import MTError
from mt.evaluation import heatmap

HOSTILE = ["</script><script>alert(1)</script>", '"><img src=x onerror=alert(1)>', "@DATA@", "$x^2$", "]]>"]
SENTENCES = heatmap.Caption("<b>le & chat</b>", "</script>the cat", "fr", "en")


@pytest.fixture
def attention() -> CrossAttention:
    """2 layers, 3 heads; the second source word is two pieces."""
    values = np.random.default_rng(0).random((2, 3, 4, len(HOSTILE) + 1)).astype(np.float32)
    values /= values.sum(-1, keepdims=True)
    target = ["▁the", "▁cat", "▁sleeps", "</s>"]
    names = [HOSTILE[0], HOSTILE[1] + HOSTILE[2], *HOSTILE[3:], "</s>"]
    words = Weights(names, target, merge(values, [0, 1, 1, 2, 3, 4], [0, 1, 2, 3], 5, 4))
    return CrossAttention(Weights([*HOSTILE, "</s>"], target, values), words)


class Reader(HTMLParser):
    """Scripts and references of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.scripts: list[tuple[dict[str, str | None], str]] = []
        self.tags: list[str] = []
        self.references: list[str] = []
        self._open: dict[str, str | None] | None = None

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.tags.append(tag)
        self.references += [value or "" for name, value in attrs if name in ("src", "href")]
        if tag == "script":
            self._open = dict(attrs)

    def handle_data(self, data: str) -> None:
        if self._open is not None:
            self.scripts.append((self._open, data))
            self._open = None


def read(text: str) -> Reader:
    reader = Reader()
    reader.feed(text)
    return reader


def test_the_page_holds_the_weights_and_names(attention: CrossAttention) -> None:
    (kind, data), (_, code) = read(heatmap.page(attention, SENTENCES)).scripts
    assert kind["type"] == "application/json"
    content = json.loads(data)
    assert content["source"] == SENTENCES.source and content["target"] == SENTENCES.target
    for name, weights in (("pieces", attention.pieces), ("words", attention.words)):
        assert content[name]["source"] == weights.source
        assert content[name]["target"] == weights.target
        stored = np.array(content[name]["weights"]) / content["parts"]
        assert np.abs(stored - weights.values).max() <= 0.5 / content["parts"] + 1e-7
    assert "getElementById" in code


def test_text_in_a_page_stays_text(attention: CrossAttention) -> None:
    text = heatmap.page(attention, SENTENCES)
    reader = read(text)
    assert len(reader.scripts) == 2 and "img" not in reader.tags
    assert text.count("</script>") == 2
    template = (Path(heatmap.__file__).with_name("heatmap.html")).read_text(encoding="utf-8")
    for forbidden in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval("):
        assert forbidden not in template


def test_the_page_needs_nothing_else(attention: CrossAttention) -> None:
    text = heatmap.page(attention, SENTENCES)
    assert read(text).references == []
    assert not re.search(r"https?://|@import|url\(|fetch\(|@SCRIPT_HASH@", text)
    (policy,) = re.findall(r'Content-Security-Policy" content="([^"]+)"', text)
    code = text.split("<script>")[1].split("</script>")[0]
    digest = base64.b64encode(hashlib.sha256(code.encode()).digest()).decode()
    assert policy == f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'"


def test_every_name_is_on_its_axis_and_dark_is_weight() -> None:
    weights = np.array([[0.9, 0.1, 0.0], [0.05, 0.35, 0.6]], dtype=np.float32)
    names = ["▁é", "$x$", "\\frac"]
    picture = heatmap.figure(weights, names, ["<0xC3>", "</s>"])
    picture.canvas.draw()
    axes = picture.axes[0]
    assert [label.get_text() for label in axes.get_xticklabels()] == names
    assert [label.get_text() for label in axes.get_yticklabels()] == ["<0xC3>", "</s>"]
    image = axes.get_images()[0]
    darkness = 1 - image.to_rgba(weights)[..., :3].mean(-1)
    assert (np.argsort(darkness, axis=None) == np.argsort(weights, axis=None)).all()
    assert sorted(text.get_text() for text in axes.texts) == ["10%", "35%", "5%", "60%", "90%"]


@pytest.mark.parametrize(("rows", "columns"), [(1, 1), (3, 60), (70, 90)])
def test_a_figure_of_any_size(rows: int, columns: int) -> None:
    weights = np.full((rows, columns), 1 / columns, dtype=np.float32)
    picture = heatmap.figure(weights, ["word"] * columns, ["word"] * rows, title="t", note="n")
    picture.canvas.draw()
    assert max(picture.get_size_inches()) <= 24
    assert bool(picture.axes[0].texts) == (max(rows, columns) <= 16)


def test_files_are_whole_or_absent(attention: CrossAttention, tmp_path: Path) -> None:
    heatmap.write_png(tmp_path / "a.png", attention, SENTENCES, "layer 1")
    heatmap.write_html(tmp_path / "a.html", attention, SENTENCES)
    assert matplotlib.image.imread(tmp_path / "a.png").shape[2] == 4
    assert (tmp_path / "a.html").read_text(encoding="utf-8") == heatmap.page(attention, SENTENCES)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.html", "a.png"]
    with pytest.raises(MTError, match=r"none.*No such file or directory; it was not written"):
        heatmap.write_html(tmp_path / "none" / "a.html", attention, SENTENCES)


def test_letters_without_a_font_are_mentioned(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    values = np.ones((1, 1, 1, 1), dtype=np.float32)
    words = Weights(["\U00013080"], ["x"], values)  # a hieroglyph
    heatmap.write_png(tmp_path / "a.png", CrossAttention(words, words), SENTENCES, "")
    assert "no font here has all its letters" in caplog.text
