"""Compare runs, or all cells of a sweep: a table with significance, and one HTML report.

Each run translates the same test set; its translations stay in its folder, so that the next comparison
is quick.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import logging
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from mt.config import terminal
from mt.config.app import run_app
from mt.config.outputs import check_output
from mt.config.quoting import as_text
from mt.config.run_config import load_config, resolve_decoding
from mt.config.schema import CompareConfig, TrainConfig
from mt.data import corpus
from mt.data.gold_links import read_gold_links
from mt.data.lines import TextFile, check_segments, clean_line, read_lines
from mt.errors import CheckpointError, ConfigError, UsageError
from mt.evaluation.attention_numbers import attention_numbers
from mt.evaluation.comparison import (
    FAILED,
    FINISHED,
    UNFINISHED,
    Comparison,
    Map,
    Run,
    Scored,
    TestSet,
    chosen_sentences,
    compare,
)
from mt.evaluation.comparison_table import render
from mt.evaluation.metrics import bleu_by_length, score
from mt.evaluation.report import text_hash, write_text
from mt.evaluation.significance import Significance, kept_paired_tests

logger = logging.getLogger("mt.compare")

SWEEP_FILE = "sweep.json"
# Attention of sentences up to so many words fits into a picture.
_LONGEST_MAPPED = 12


def compare_runs(config: CompareConfig, typed: Sequence[str] = ()) -> int:
    """Compare what the options name; returns the exit code.

    Args:
        typed: the command's words, for the report.

    Raises:
        MTError: a run, the test set or an option cannot be used; nothing is then written.
    """
    from mt.training.device import choose_device, set_threads, tune_process

    for name in ("output", "report"):
        value = getattr(config, name)
        if value not in (None, "-"):
            check_output(name, Path(value))
    runs = _runs(config)
    set_threads(config.threads)
    tune_process()
    device = choose_device(config.device)
    finished = [run for run in runs if run.status == FINISHED]
    scored: dict[int, Scored] = {}
    for number, run in enumerate(finished, start=1):
        logger.info("run %d of %d: %s", number, len(finished), run.folder)
        scored[id(run)] = _scored(config, Path(run.folder), device)
    runs = [dataclasses.replace(run, scored=scored.get(id(run))) for run in runs]
    comparison = compare(runs, _tests(config), baseline=config.baseline, min_seeds=config.min_seeds)
    if config.report is not None:
        from mt.evaluation.comparison_report import page

        _add_maps(comparison, config.maps, device)
        write_text(
            Path(config.report), page(comparison, config.examples, ["python", "-m", "mt.compare", *typed])
        )
        logger.info("report written to %s", config.report)
    table = render(comparison, config.format)
    if config.output in (None, "-"):
        print(table, end="")
    else:
        write_text(Path(str(config.output)), table)
    return 0


# ---------------------------------------------------------------------------- which runs


def _runs(config: CompareConfig) -> list[Run]:
    from mt.training.summary import summary_of

    if config.sweep_folder is not None:
        return _cells(Path(config.sweep_folder))
    folders = [Path(folder) for folder in config.run]
    twice = [
        str(folder)
        for n, folder in enumerate(folders)
        if folder.resolve() in {other.resolve() for other in folders[:n]}
    ]
    if twice:
        raise ConfigError([f"run: {twice[0]} is named twice; a run is compared with others"])
    return [summary_of(folder) for folder in folders]


def _cells(sweep: Path) -> list[Run]:
    """The cells of a sweep, whatever became of them.

    Raises:
        CheckpointError: the folder holds no sweep.
    """
    from mt.training.summary import summary_of

    path = sweep / SWEEP_FILE
    try:
        plan = json.loads(path.read_bytes())
        # A sweeper that chooses its cells as it goes has no plan: then its outcomes say what there was.
        directory, cells = Path(plan["directory"]), list(plan["cells"]) or _ended_cells(sweep)
        found = []
        for cell in cells:
            outcome = _outcome(sweep / str(cell["job"]) / "outcome.json", cell["cell"])
            places = [directory / cell["run"], Path(cell["run"])]
            if directory == Path.cwd():
                places.reverse()  # the shorter name of the same place
            folder = next((place for place in places if place.is_dir()), None)
            if folder is not None and (folder / "config.yaml").is_file():
                run = summary_of(folder)
            else:
                name = f"job {cell['job']}"
                run = Run(name, int(cell["seed"]), dict(cell["settings"]), UNFINISHED, "not started yet")
            if run.status != FINISHED and outcome.get("status") == FAILED:
                run = dataclasses.replace(run, status=FAILED, reason=str(outcome.get("reason", "")))
            found.append(run)
    except FileNotFoundError:
        raise CheckpointError(
            f"sweep={sweep}: holds no sweep of mt.train (it has no {SWEEP_FILE}); name the folder that the "
            "sweep printed at its end, or the run folders themselves"
        ) from None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise CheckpointError(
            f"{path}: cannot be read ({error}); the same sweep, started again, writes it anew"
        ) from error
    if not found:
        raise CheckpointError(f"sweep={sweep}: has no cell")
    return found


def _ended_cells(sweep: Path) -> list[dict[str, Any]]:
    found = [json.loads(path.read_bytes()) for path in sweep.glob("*/outcome.json")]
    return sorted(found, key=lambda cell: int(cell["job"]))


def _outcome(path: Path, cell: str) -> dict[str, Any]:
    with suppress(OSError, ValueError):
        outcome = json.loads(path.read_bytes())
        if isinstance(outcome, dict) and outcome.get("cell") == cell:
            return outcome
    return {}


# ---------------------------------------------------------------------------- their scores


def _scored(config: CompareConfig, folder: Path, device: Any) -> Scored:
    from mt.decoding.kept import attention_kept, translate_kept
    from mt.decoding.loading import load_run

    stored = load_config(folder / "config.yaml")
    test_set = _test_set(config, stored)
    texts = test_set.sources, [clean_line(line) for line in test_set.references[0]]
    gold = None if config.alignments is None else read_gold_links(config.alignments, *texts)
    decoding = resolve_decoding(stored.decoding, config.decoding)
    load = functools.cache(lambda: load_run(folder, device=device))
    kept = translate_kept(folder, test_set.sources, decoding, load)
    attention = attention_kept(folder, *texts, load)
    references = test_set.references
    return Scored(
        test_set=test_set,
        hypotheses=kept.lines,
        scores=score(kept.lines, references, lowercase=config.lowercase),
        by_length=bleu_by_length(kept.lines, references, test_set.sources, lowercase=config.lowercase),
        seconds=kept.seconds,
        attention=None if attention is None else attention_numbers(attention, gold),
    )


def _test_set(config: CompareConfig, stored: TrainConfig) -> TestSet:
    """What a run is scored on: the files given, else its data's own test set, else its validation set."""
    if config.source is not None:
        return _read(config, Path(config.source).name, Path(config.source), map(Path, config.reference))
    data = stored.data if config.data_root is None else corpus.moved(stored.data, Path(config.data_root))
    wanted = None if config.test_set is None else [config.test_set]
    if wanted == ["valid"]:
        source, target = corpus.locate(data, "valid")
        return _read(config, "valid", source, [target])
    if wanted is None and data.root is None:
        wanted = corpus.test_set_names(data)[:1]  # all that could be found would be fetched
    found = corpus.test_sets(data, wanted)
    if found:
        name, (source, target) = next(iter(found.items()))
        return _read(config, name, source, [target])
    source, target = corpus.locate(data, "valid")
    logger.warning("the data has no test set: the validation set is used, which chose the checkpoints")
    return _read(config, "valid", source, [target])


def _read(config: CompareConfig, name: str, source: Path, references: Any) -> TestSet:
    def lines(path: Path) -> TextFile:
        return read_lines(path, invalid_utf8=config.invalid_utf8)

    text = lines(source)
    raws = []
    for path in references:
        reference = lines(path)
        check_segments(text, reference)
        raws.append(reference.raw)
    return TestSet(name, text.lines, raws, text_hash(None, [text.lines]), text_hash(None, raws))


def _tests(config: CompareConfig) -> Callable[[Run, Run], Mapping[str, Significance]]:
    """The paired tests, which take seconds each, kept beside the translations."""
    sizes = {
        "lowercase": config.lowercase,
        "bootstrap_samples": config.bootstrap_samples,
        "randomization_trials": config.randomization_trials,
    }

    def test(run: Run, baseline: Run) -> Mapping[str, Significance]:
        assert run.scored is not None and baseline.scored is not None
        logger.info("testing %s against %s", run.folder, baseline.folder)
        return kept_paired_tests(
            Path(run.folder, "translations"),
            baseline.scored.hypotheses,
            run.scored.hypotheses,
            run.scored.test_set.references,
            **sizes,
        )

    return test


# ---------------------------------------------------------------------------- pictures


def _add_maps(comparison: Comparison, count: int, device: Any) -> None:
    """Give the first scored run of each variant the attention of some short test sentences."""
    if comparison.test_set is None or not count:
        return
    sentences = chosen_sentences(comparison.test_set.sources, count, longest=_LONGEST_MAPPED)
    for variant in comparison.variants:
        for run in variant.scored[:1]:
            assert run.scored is not None
            maps = _maps(Path(run.folder), run.scored, sentences, device)
            scored = dataclasses.replace(run.scored, maps=maps)
            variant.runs[variant.runs.index(run)] = dataclasses.replace(run, scored=scored)


def _maps(folder: Path, scored: Scored, sentences: Sequence[int], device: Any) -> dict[int, Map]:
    """Cross-attention of a run's model at its own translations, averaged over all layers and heads."""
    from mt.decoding.alignments import attentions, forced_pairs
    from mt.decoding.loading import load_run

    loaded = load_run(folder, device=device)
    sources = [scored.test_set.sources[number] for number in sentences]
    hypotheses = [clean_line(scored.hypotheses[number]) for number in sentences]
    pairs = forced_pairs(loaded.tokenizer, sources, hypotheses, loaded.model.max_positions)
    found = {}
    for index, attention in attentions(loaded.model, pairs):
        if pairs[index].target.ids:
            pieces = attention.pieces
            found[sentences[index]] = Map(pieces.values.mean((0, 1)).tolist(), pieces.target, pieces.source)
    return found


# ---------------------------------------------------------------------------- the command


def _folders_as_option(argv: Sequence[str]) -> list[str]:
    """Lets ``A B`` stand for ``run=[A,B]``, and ``sweep=DIR`` for ``sweep_folder=DIR``.

    The option itself cannot be called sweep: Hydra would look for DIR in ``conf/sweep``.

    Raises:
        UsageError: both ways are used at once.
    """
    argv = [f"sweep_folder={_quoted(word[6:])}" if word.startswith("sweep=") else word for word in argv]
    folders = [word for word in argv if not word.startswith("-") and ("=" not in word or Path(word).is_dir())]
    if not folders:
        return argv
    rest = [word for word in argv if word not in folders]
    if any(word.startswith("run=") for word in rest):
        raise UsageError("name all run folders in one way: as plain words, or as run=[A,B]")
    return [*rest, f"run=[{','.join(as_text(folder) for folder in folders)}]"]


def _quoted(folder: str) -> str:
    """A folder's name for Hydra, unless it has quotes already."""
    return folder if folder.startswith(("'", '"')) else as_text(folder)


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point of ``mt-compare``; `argv` without the program's name. Returns the exit code."""
    if argv is None:
        # Here, because the words that `run_app` is given are no longer the process's own.
        terminal.set_up(restart=True)
    typed = sys.argv[1:] if argv is None else argv
    return run_app(
        lambda config: compare_runs(config, typed), CompareConfig, "compare", _folders_as_option(typed)
    )


if __name__ == "__main__":
    sys.exit(main())
