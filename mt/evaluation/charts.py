"""Pictures as inline SVG: curves, dots with error bars, attention maps.

Contract: each function gives one ``<svg>`` element that needs nothing else: no script, no font, no file.
Series are told apart by colour (Okabe & Ito 2008, made for the colour-blind), by dashes and by the shape
of their marks, so that a print in grey is readable. All text is escaped.

Not in here: which numbers are drawn.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

_COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#8a6d00", "#56b4e9", "#3d3d3d", "#e69f00")
_DASHES = ("", "7 4", "2 3", "10 3 2 3", "4 2", "1 2", "12 4", "6 2 2 2")
_WIDTH, _HEIGHT = 460, 270
_LEFT, _RIGHT, _TOP, _BOTTOM = 58, 14, 12, 44


@dataclass(frozen=True)
class Series:
    """Points of one line; `style` picks colour, dashes and mark, `name` is told on pointing at it."""

    name: str
    points: Sequence[tuple[float, float]]
    style: int
    marks: bool = True


def lines(series: Sequence[Series], x_label: str, y_label: str, x_names: Sequence[str] = ()) -> str:
    """Lines over a numeric axis from 0 on, or over `x_names` at 0, 1, 2, …"""
    points = [point for each in series for point in each.points]
    if not points:
        return ""
    x_ticks = [float(n) for n in range(len(x_names))] or ticks(0.0, max(x for x, _ in points))
    y_ticks = ticks(min(y for _, y in points), max(y for _, y in points))
    frame = _Frame(x_ticks, y_ticks)
    body = [frame.axes(x_ticks, y_ticks, x_label, y_label, x_names)]
    for each in series:
        places = [frame.place(*point) for point in each.points]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
        colour, dash = colour_of(each.style), _DASHES[each.style % len(_DASHES)]
        body.append(
            f'<g><title>{escape(each.name)}</title><polyline points="{path}" fill="none" stroke="{colour}" '
            f'stroke-width="2" stroke-dasharray="{dash}"/>'
        )
        shown = places if each.marks else places[-1:]
        body += [mark(each.style, x, y) for x, y in shown]
        body.append("</g>")
    return _svg(_WIDTH, _HEIGHT, f"{y_label} by {x_label}", body)


def dots(names: Sequence[str], values: Sequence[Sequence[float]], x_label: str) -> str:
    """A row for each name: each value as a mark, their mean as a bar, one standard deviation to each side."""
    known = [value for row in values for value in row]
    if not known:
        return ""
    bars = []
    for row in values:
        mean = sum(row) / len(row) if row else 0.0
        deviation = math.sqrt(sum((v - mean) ** 2 for v in row) / (len(row) - 1)) if len(row) > 1 else 0.0
        bars.append((mean, deviation))
    low = min([m - d for (m, d), row in zip(bars, values, strict=True) if row] + known)
    high = max([m + d for (m, d), row in zip(bars, values, strict=True) if row] + known)
    x_ticks = ticks(low, high)
    height, row_height = 44 + 40 * len(names), 40
    left, right = 16, _WIDTH - 16
    span = (x_ticks[-1] - x_ticks[0]) or 1.0

    def place(value: float) -> float:
        return left + (value - x_ticks[0]) / span * (right - left)

    bottom = row_height * len(names) + 6
    body = []
    for tick in x_ticks:
        x = place(tick)
        body.append(f'<line class="grid" x1="{x:.1f}" y1="0" x2="{x:.1f}" y2="{bottom}"/>')
        body.append(f'<text x="{x:.1f}" y="{bottom + 14}" text-anchor="middle">{tick:g}</text>')
    body.append(
        f'<text x="{(left + right) / 2}" y="{bottom + 32}" text-anchor="middle">{escape(x_label)}</text>'
    )
    for number, (name, row, (mean, deviation)) in enumerate(zip(names, values, bars, strict=True)):
        y = row_height * number + 27
        about = f"{mean:.2f} ± {deviation:.2f}" if row else "no score"
        body.append(f'<text x="{left}" y="{y - 13}">{escape(name)}: {about}</text>')
        if not row:
            continue
        start, end, middle = place(mean - deviation), place(mean + deviation), place(mean)
        body.append(
            f'<path d="M{start:.1f} {y - 5}v10M{start:.1f} {y}H{end:.1f}M{end:.1f} {y - 5}v10" class="bar"/>'
            f'<line x1="{middle:.1f}" y1="{y - 8}" x2="{middle:.1f}" y2="{y + 8}" class="mean"/>'
        )
        body += [mark(number, place(value), y) for value in row]
    return _svg(_WIDTH, height, x_label, body)


def heatmap(weights: Sequence[Sequence[float]], rows: Sequence[str], columns: Sequence[str]) -> str:
    """Attention (T, S): target pieces down, source pieces across, darker is more."""
    cell, size = 22, 11
    left = 12 + 7 * max(map(len, rows), default=0)
    top = 12 + 7 * max(map(len, columns), default=0)
    body = []
    for number, name in enumerate(columns):
        x = left + cell * number + cell / 2 + 4
        body.append(
            f'<text x="{x}" y="{top - 6}" font-size="{size}" transform="rotate(-90 {x} {top - 6})">'
            f"{escape(name)}</text>"
        )
    for number, name in enumerate(rows):
        y = top + cell * number + cell / 2 + 4
        body.append(
            f'<text x="{left - 6}" y="{y}" font-size="{size}" text-anchor="end">{escape(name)}</text>'
        )
    for row, values in enumerate(weights):
        for column, weight in enumerate(values):
            body.append(
                f'<rect x="{left + cell * column}" y="{top + cell * row}" '
                f'width="{cell - 1}" height="{cell - 1}" '
                f'fill="#08306b" fill-opacity="{min(1.0, max(0.0, weight)):.3f}" class="cell">'
                f"<title>{escape(rows[row])} looked at {escape(columns[column])}: {weight:.0%}</title></rect>"
            )
    return _svg(left + cell * len(columns) + 2, top + cell * len(rows) + 2, "attention", body, fixed=True)


def legend(names: Sequence[str]) -> str:
    """Which line belongs to which name, as HTML."""
    items = []
    for style, name in enumerate(names):
        dash = _DASHES[style % len(_DASHES)]
        sample = (
            f'<svg width="44" height="14" aria-hidden="true"><line x1="2" y1="7" x2="42" y2="7" '
            f'stroke="{colour_of(style)}" stroke-width="2" stroke-dasharray="{dash}"/>'
            f"{mark(style, 22, 7)}</svg>"
        )
        items.append(f"<li>{sample}<span>{escape(name)}</span></li>")
    return f'<ul class="legend">{"".join(items)}</ul>'


def colour_of(style: int) -> str:
    """The colour of a style's number."""
    return _COLOURS[style % len(_COLOURS)]


def mark(style: int, x: float, y: float) -> str:
    """A style's mark at a place: circle, square, triangle, diamond, and so on."""
    colour = colour_of(style)
    shapes = (
        f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4"',
        f'<rect x="{x - 3.5:.1f}" y="{y - 3.5:.1f}" width="7" height="7"',
        f'<path d="M{x:.1f} {y - 5:.1f}l5 9h-10z"',
        f'<path d="M{x:.1f} {y - 5:.1f}l5 5l-5 5l-5 -5z"',
        f'<path d="M{x:.1f} {y + 5:.1f}l5 -9h-10z"',
        f'<path d="M{x - 4:.1f} {y - 1.5:.1f}h8v3h-8z"',
        f'<path d="M{x - 1.5:.1f} {y - 4:.1f}v8h3v-8z"',
        f'<circle cx="{x:.1f}" cy="{y:.1f}" r="2.5"',
    )
    return f'{shapes[style % len(shapes)]} fill="{colour}"/>'


def ticks(low: float, high: float) -> list[float]:
    """Four to eight round numbers that enclose the range."""
    if high <= low:
        low, high = low - 0.5, high + 0.5
    raw = (high - low) / 5
    scale = 10.0 ** math.floor(math.log10(raw))
    step = next(factor * scale for factor in (1, 2, 2.5, 5, 10) if factor * scale >= raw)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [round(n * step, 10) for n in range(first, last + 1)]


class _Frame:
    """From values to places in the picture."""

    def __init__(self, x_ticks: Sequence[float], y_ticks: Sequence[float]) -> None:
        self.x_low, self.x_span = x_ticks[0], (x_ticks[-1] - x_ticks[0]) or 1.0
        self.y_low, self.y_span = y_ticks[0], (y_ticks[-1] - y_ticks[0]) or 1.0

    def place(self, x: float, y: float) -> tuple[float, float]:
        across = _LEFT + 8 + (x - self.x_low) / self.x_span * (_WIDTH - _LEFT - _RIGHT - 16)
        down = _HEIGHT - _BOTTOM - (y - self.y_low) / self.y_span * (_HEIGHT - _TOP - _BOTTOM)
        return across, down

    def axes(
        self,
        x_ticks: Sequence[float],
        y_ticks: Sequence[float],
        x_label: str,
        y_label: str,
        names: Sequence[str],
    ) -> str:
        parts = []
        for number, tick in enumerate(x_ticks):
            x, _ = self.place(tick, self.y_low)
            text = escape(names[number]) if names else f"{tick:g}"
            parts.append(f'<text x="{x:.1f}" y="{_HEIGHT - _BOTTOM + 17}" text-anchor="middle">{text}</text>')
        for tick in y_ticks:
            _, y = self.place(self.x_low, tick)
            parts.append(
                f'<line class="grid" x1="{_LEFT}" y1="{y:.1f}" x2="{_WIDTH - _RIGHT}" y2="{y:.1f}"/>'
            )
            parts.append(f'<text x="{_LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{tick:g}</text>')
        middle = (_HEIGHT - _BOTTOM + _TOP) / 2
        parts.append(
            f'<text x="{_WIDTH / 2}" y="{_HEIGHT - 6}" text-anchor="middle">{escape(x_label)}</text>'
        )
        parts.append(
            f'<text x="14" y="{middle}" text-anchor="middle" transform="rotate(-90 14 {middle})">'
            f"{escape(y_label)}</text>"
        )
        return "".join(parts)


def _svg(width: float, height: float, label: str, body: Sequence[str], fixed: bool = False) -> str:
    size = f' width="{width}" height="{height}"' if fixed else ""
    return (
        f'<svg viewBox="0 0 {width} {height}"{size} role="img" aria-label="{escape(label, quote=True)}" '
        f'xmlns="http://www.w3.org/2000/svg">{"".join(body)}</svg>'
    )
