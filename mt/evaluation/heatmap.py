"""Pictures of attention: a PNG to look at, and a page to look into.

Contract: `write_png` draws one matrix, target down, source across, darker is more weight. `write_html`
writes one file that needs no network and no other file: point at a word of the translation, see what
it looked at, in any layer and head or their mean, by words or by pieces. Names come from a model and
from a user, so they are only ever text: never markup, script, or the start of a formula. Files are
whole or absent.

Not in here: where weights come from (`mt.decoding.alignments`).

Shapes: L layers, H heads, T target positions, S source positions.
"""

from __future__ import annotations

import base64
import hashlib
import io
import json
import logging
import re
import unicodedata
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from mt.errors import MTError
from mt.files import write_whole

logger = logging.getLogger("mt.evaluation.heatmap")

_PAGE = Path(__file__).with_name("heatmap.html")
# Weights in the page are whole numbers of this many parts: small files, and exact to 0.01 %.
_PARTS = 10_000
# Up to this many rows and columns a number fits into each cell.
_MOST_NUMBERED = 16
_LARGEST_INCHES = 24.0


class NamedWeights(Protocol):
    """Attention between named positions."""

    @property
    def source(self) -> Sequence[str]:
        """S names."""
        ...

    @property
    def target(self) -> Sequence[str]:
        """T names."""
        ...

    @property
    def values(self) -> npt.NDArray[np.float32]:
        """(L, H, T, S), each row of sources sums to 1."""
        ...


class Attention(Protocol):
    """The same attention by pieces and by words."""

    @property
    def pieces(self) -> NamedWeights: ...

    @property
    def words(self) -> NamedWeights: ...


@dataclass(frozen=True)
class Caption:
    """What a picture is of: the two sentences and the codes of their languages."""

    source: str
    target: str
    source_language: str
    target_language: str


def write_png(path: Path, attention: Attention, caption: Caption, shown: str) -> None:
    """Draw the words' attention, averaged over all layers and heads that are there.

    Args:
        shown: what they are, in words: ``mean over 2 layers, head 1``.

    Raises:
        MTError: the file cannot be written.
    """
    words = attention.words
    picture = figure(
        words.values.mean((0, 1)),
        words.source,
        words.target,
        source_label=f"source ({caption.source_language})",
        target_label=f"translation ({caption.target_language})",
        title="What each word of the translation looked at",
        note=(
            f"Each row sums to 100 %. {shown[:1].upper()}{shown[1:]}.\n"
            "Of a word of several pieces: the sum of its source pieces,\nthe mean of its target pieces. "
            "</s> is the end of the sentence."
        ),
    )
    content = io.BytesIO()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        picture.savefig(content, format="png")
    if any("missing from" in str(warning.message) for warning in caught):
        logger.warning("%s: no font here has all its letters; an .html picture shows them", path)
    _write(path, content.getvalue())


def figure(
    weights: npt.NDArray[np.float32],
    source: Sequence[str],
    target: Sequence[str],
    *,
    source_label: str = "source",
    target_label: str = "translation",
    title: str = "",
    note: str = "",
) -> Any:
    """A matplotlib figure: target down, source across, darker is more attention.

    Args:
        weights: (T, S), from 0 to 1.
        source, target: names of the columns and rows.
        source_label, target_label, title, note: texts around it.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    rows, columns = weights.shape
    across = 1.6 + 0.09 * max(map(_width, target)) + 0.62 * columns
    down = 1.6 + 0.09 * max(map(_width, source)) + 0.44 * rows
    figure = Figure(
        figsize=(min(max(across, 4.8), _LARGEST_INCHES), min(down, _LARGEST_INCHES)),
        dpi=120,
        layout="constrained",
    )
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    axes.imshow(weights, cmap="Blues", vmin=0.0, vmax=1.0, aspect="auto")
    axes.xaxis.set_ticks_position("top")
    axes.xaxis.set_label_position("top")
    # parse_math: a piece like "$" is text, not the start of a formula
    axes.set_xticks(range(columns), source, rotation=45, ha="left", rotation_mode="anchor", parse_math=False)
    axes.set_yticks(range(rows), target, parse_math=False)
    axes.set_xlabel(source_label)
    axes.set_ylabel(target_label)
    axes.tick_params(length=0)
    axes.set_xticks([edge - 0.5 for edge in range(columns + 1)], minor=True)
    axes.set_yticks([edge - 0.5 for edge in range(rows + 1)], minor=True)
    axes.grid(which="minor", color="white", linewidth=1.5)
    axes.tick_params(which="minor", length=0)
    axes.spines[:].set_visible(False)
    if max(rows, columns) <= _MOST_NUMBERED:
        for row, column in np.argwhere(weights >= 0.05):
            weight = float(weights[row, column])
            colour = "white" if weight > 0.6 else "black"
            axes.text(column, row, f"{weight:.0%}", ha="center", va="center", fontsize=8, color=colour)
    if title:
        figure.suptitle(title, parse_math=False)
    if note:
        figure.supxlabel(note, fontsize=8, color="0.35", parse_math=False)
    return figure


def write_html(path: Path, attention: Attention, caption: Caption) -> None:
    """Write the page.

    Raises:
        MTError: the file cannot be written.
    """
    _write(path, page(attention, caption).encode("utf-8"))


def page(attention: Attention, caption: Caption) -> str:
    """The page as HTML."""
    content = {
        "source": caption.source,
        "target": caption.target,
        "sourceLanguage": caption.source_language,
        "targetLanguage": caption.target_language,
        "parts": _PARTS,
        "words": _for_page(attention.words),
        "pieces": _for_page(attention.pieces),
    }
    # As JSON inside a script element the text can't become markup: it holds no "<" at all.
    data = json.dumps(content, ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c")
    template = _PAGE.read_text(encoding="utf-8")
    (script,) = re.findall(r"<script>(.*?)</script>", template, flags=re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(script.encode("utf-8")).digest()).decode("ascii")
    # The text comes last, so that nothing in it is taken for a place to fill in.
    return template.replace("@SCRIPT_HASH@", f"sha256-{digest}").replace("@DATA@", data)


def _for_page(weights: NamedWeights) -> dict[str, Any]:
    whole = np.rint(weights.values * _PARTS).astype(int)
    return {"source": list(weights.source), "target": list(weights.target), "weights": whole.tolist()}


def _width(name: str) -> int:
    """Columns that a name takes in a fixed-width font."""
    return sum(2 if unicodedata.east_asian_width(character) in "WF" else 1 for character in name)


def _write(path: Path, content: bytes) -> None:
    try:
        write_whole(path, content)
    except OSError as error:
        raise MTError(f"{path}: {error.strerror or error}; it was not written") from error
