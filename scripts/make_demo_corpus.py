"""Generates the demo corpus ``data/demo`` (see ``data/README.md``).

    python scripts/make_demo_corpus.py [--output data/demo] [--check]

Needs pyrealb (a development dependency); the committed files do not. ``--check`` writes nothing and
compares the generated corpus with the files in the output folder.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from demo_corpus import assembly


def main(argv: Sequence[str] | None = None) -> int:
    """Writes or checks the corpus. Exit code 1 if a check finds a difference."""
    parser = argparse.ArgumentParser(description="Generate the French-English demo corpus.")
    default = Path(__file__).resolve().parent.parent / "data" / "demo"
    parser.add_argument(
        "--output", type=Path, default=default, help="folder for the files (default: data/demo)"
    )
    parser.add_argument(
        "--check", action="store_true", help="compare with the files there instead of writing"
    )
    options = parser.parse_args(argv)
    corpus = assembly.build()
    for key, value in assembly.statistics(corpus).items():
        print(f"{key}: {value}")
    if not options.check:
        assembly.write(corpus, options.output)
        print(f"sha256: {assembly.digest(options.output)}")
        return 0
    with tempfile.TemporaryDirectory() as folder:
        assembly.write(corpus, Path(folder))
        same = assembly.digest(Path(folder)) == assembly.digest(options.output)
    print("the files are what the script makes" if same else "the files DIFFER from what the script makes")
    return 0 if same else 1


if __name__ == "__main__":
    sys.exit(main())
