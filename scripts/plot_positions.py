#!/usr/bin/env python3
"""Draw positional encodings: the vector of each position, and how alike two vectors are by their distance.

    python scripts/plot_positions.py sinusoidal.png
    python scripts/plot_positions.py rotary.svg --kind rotary --width 64
    python scripts/plot_positions.py learned.png --run runs/demo

Left, a row for each position and a column for each of its numbers. Sinusoidal: ``sin`` and ``cos`` of
``pos / 10000^(2i/D)`` in turn (Vaswani et al. 2017, §3.5). Learned: the table of a run. Rotary positions
have no vector but rotate pairs of a query's and key's numbers (Su et al. 2021): shown are the cosines of all
angles, then the sines. Right, the cosine of the angle between PE(pos) and PE(pos + distance): its mean over
pos, and from the lowest to the highest. For sinusoidal and rotary positions it depends on the distance
alone, ``Σ_i cos(distance · 10000^(-2i/D)) / (D/2)``.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from mt.config.schema import Positions
from mt.decoding.loading import load_run
from mt.errors import MTError
from mt.models.positions import PositionEncoding, rotary_table, sinusoidal_table
from mt.models.transformer import Transformer

Table = npt.NDArray[np.float32]
_SUFFIXES = (".png", ".svg", ".pdf")
_LARGEST = 10_000


def table_of(kind: Positions, length: int, width: int) -> Table:
    """(length, width): the vectors of sinusoidal or rotary positions, see above.

    Args:
        width: of the model; of a head for rotary positions; even.
    """
    if kind is Positions.sinusoidal:
        table: Table = sinusoidal_table(length, width).numpy()
        return table
    cos, sin = rotary_table(length, width)
    # Both tables hold each angle twice, once for either half of a vector.
    return np.concatenate([cos[:, : width // 2].numpy(), sin[:, : width // 2].numpy()], axis=1)


def table_of_run(folder: Path, length: int) -> tuple[Positions, Table]:
    """What a run's model uses, for at most as many positions as it knows.

    Raises:
        MTError: it is no run of a Transformer.
    """
    model = load_run(folder).model
    if not isinstance(model, Transformer):
        raise MTError(f"--run {folder}: a recurrent model, which counts no positions")
    encoding: PositionEncoding = model.positions
    length = min(length, model.max_positions)
    if encoding.kind is Positions.learned:
        return encoding.kind, encoding.table.detach()[:length].numpy()
    width = model.width // model.heads if encoding.kind is Positions.rotary else model.width
    return encoding.kind, table_of(encoding.kind, length, width)


def similarity(table: Table) -> tuple[Table, Table, Table]:
    """Cosine of PE(pos) and PE(pos + distance) for distances 0, 1, …: mean over pos, lowest, highest."""
    unit = table / np.linalg.norm(table, axis=1, keepdims=True)
    cosines = unit @ unit.T
    by_distance = [np.diagonal(cosines, distance) for distance in range(len(table))]
    mean, low, high = (
        np.array([look(values) for values in by_distance]) for look in (np.mean, np.min, np.max)
    )
    return mean, low, high


def figure(kind: Positions, table: Table) -> Any:
    """A matplotlib figure with both pictures."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    drawn = Figure(figsize=(11, 4.6), dpi=120, layout="constrained")
    FigureCanvasAgg(drawn)
    left, right = drawn.subplots(1, 2, width_ratios=(1.25, 1.0))
    length, width = table.shape
    largest = float(np.abs(table).max())
    image = left.imshow(
        table, cmap="RdBu_r", vmin=-largest, vmax=largest, aspect="auto", interpolation="nearest"
    )
    drawn.colorbar(image, ax=left, label="value")
    parts = "cosines of the angles, then their sines" if kind is Positions.rotary else "dimension"
    left.set(xlabel=parts, ylabel="position", title=f"{kind.name} positions, {length} × {width}")
    mean, low, high = similarity(table)
    distances = np.arange(length)
    right.fill_between(distances, low, high, alpha=0.2, linewidth=0, label="lowest to highest")
    right.plot(distances, mean, linewidth=1.5, label="mean over positions")
    right.axhline(0.0, color="0.7", linewidth=0.8, zorder=0)
    right.set(xlabel="distance", ylabel="cosine of the two vectors", title="PE(pos) · PE(pos + distance)")
    right.set_xlim(0, length - 1)
    right.legend(frameon=False)
    return drawn


def parser() -> argparse.ArgumentParser:
    """The command line."""
    about, _, detail = (__doc__ or "").partition("\n")
    found = argparse.ArgumentParser(
        description=about, epilog=detail, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    found.add_argument("output", type=Path, help="picture to write: .png, .svg or .pdf")
    which = found.add_mutually_exclusive_group()
    which.add_argument("--kind", choices=("sinusoidal", "rotary"), default="sinusoidal")
    which.add_argument("--run", type=Path, help="run folder: what its model uses, learned or not")
    found.add_argument("--length", type=int, default=100, help="positions that are drawn, 2 or more")
    found.add_argument("--width", type=int, help="dimensions of the model, or of a head for rotary (128)")
    return found


def main(argv: Sequence[str] | None = None) -> int:
    """Draw what the command line asks for; returns the exit code."""
    known = parser()
    options = known.parse_args(argv)
    if options.output.suffix.lower() not in _SUFFIXES:
        known.error(f"{options.output}: must end in {', '.join(_SUFFIXES)}")
    if not 2 <= options.length <= _LARGEST:
        known.error(f"--length must be 2 to {_LARGEST}")
    if options.width is not None and (not 2 <= options.width <= _LARGEST or options.width % 2):
        known.error(f"--width must be even and 2 to {_LARGEST}")
    if not options.output.parent.is_dir():
        known.error(f"{options.output}: there is no folder {options.output.parent}; create it first")
    if options.run is not None and options.width is not None:
        known.error("--width is that of the run; leave it out")
    try:
        if options.run is not None:
            kind, table = table_of_run(options.run, options.length)
        else:
            kind = Positions[options.kind]
            table = table_of(kind, options.length, options.width or 128)
        figure(kind, table).savefig(options.output)
    except (MTError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    print(f"{kind.name} positions drawn: {options.output}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
