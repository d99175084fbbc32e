"""``python -m mt.evaluate``: score a run's model on test sets, or score finished translations.

Contract: sources go through the same `Translator` as ``mt.translate`` and validation; references are
scored as they stand in their file (line ends and a byte order mark are not text). The table goes to
stdout; ``output`` gets one JSON record per test set (`mt.evaluation.report.Evaluation.to_json`), whole
or not at all. Scores equal those of the ``sacrebleu`` command line on the files in ``translations``.
Numbers of the attention are those of the model reading the (first) references, not of its translations.

Not in here: any metric, the search, how a run folder is read.
"""

from __future__ import annotations

import dataclasses
import json
import logging
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mt.config import terminal
from mt.config.app import run_app
from mt.config.outputs import check_output
from mt.config.schema import DataConfig, EvaluateConfig
from mt.config.words import one_as_list
from mt.data.gold_links import GoldLinks, read_gold_links
from mt.data.lines import TextFile, check_segments, read_lines
from mt.errors import ConfigError, DataError, MTError, printable
from mt.evaluation.attention_numbers import attention_numbers
from mt.evaluation.metrics import bleu_by_length, score
from mt.evaluation.report import Evaluation, table, text_hash, write_text

if TYPE_CHECKING:
    from mt.decoding.forced_attention import ForcedAttention
    from mt.decoding.translator import Translator

logger = logging.getLogger("mt.evaluate")


@dataclass(frozen=True)
class _TestSet:
    """The files of one test set: what is translated (if known) and what it is scored against."""

    name: str
    source: TextFile | None
    references: list[TextFile]


@dataclass(frozen=True)
class _Model:
    """What translates, and how it is named in the record.

    `translator` makes a new one, with its own counts, for each test set; `attention` reads cleaned sources
    and references.
    """

    translator: Callable[[], Translator]
    attention: Callable[[Sequence[str], Sequence[str]], ForcedAttention | None]
    decoding: Mapping[str, Any]
    run: str
    checkpoint: str


def evaluate(config: EvaluateConfig) -> int:
    """Scores what the options ask for; returns the exit code.

    Raises:
        MTError: an option, a file or the run folder is not usable; nothing is then written.
    """
    if config.output is not None:
        check_output("output", Path(config.output))
    evaluations: list[Evaluation] = []
    if config.hypothesis is not None:
        hypothesis = _read(config, Path(config.hypothesis))
        test_set = _from_files(config, Path(config.hypothesis).name)
        evaluations.append(_score(config, test_set, hypothesis.raw, {}, hypothesis=hypothesis))
    else:
        model, test_sets = _model_and_test_sets(config)
        gold = _gold(config, test_sets)
        for test_set in test_sets:
            evaluations.append(_translate_and_score(config, test_set, model, gold))
    print(table(evaluations))
    if config.output is not None:
        records = {one.name: one.to_json() for one in evaluations}
        write_text(Path(config.output), json.dumps(records, indent=2, sort_keys=False) + "\n")
        logger.info("scores written to %s", config.output)
    return 0


def _read(config: EvaluateConfig, path: Path) -> TextFile:
    file = read_lines(path, invalid_utf8=config.invalid_utf8)
    for warning in file.warnings():
        logger.warning(warning)
    return file


def _from_files(config: EvaluateConfig, name: str) -> _TestSet:
    source = None if config.source is None else _read(config, Path(config.source))
    return _checked(_TestSet(name, source, [_read(config, Path(path)) for path in config.reference]))


def _checked(test_set: _TestSet) -> _TestSet:
    """Refuses unequal numbers of lines before time is spent on translating."""
    if test_set.source is not None:
        for reference in test_set.references:
            check_segments(test_set.source, reference)
    return test_set


def _model_and_test_sets(config: EvaluateConfig) -> tuple[_Model, list[_TestSet]]:
    # Imported here because scoring finished translations needs neither a model nor PyTorch.
    from mt.config.run_config import resolve_decoding, to_dict
    from mt.decoding.forced_attention import forced_attention
    from mt.decoding.loading import choose_run, load_run
    from mt.decoding.translator import Translator
    from mt.training.device import choose_device, set_threads, tune_process

    set_threads(config.threads)
    tune_process()
    device = choose_device(config.device)
    folder = choose_run(config.run, config.checkpoint, config.runs)
    loaded = load_run(folder, config.checkpoint, device=device)
    logger.info("translating with %s", loaded.checkpoint)
    if config.source is not None:
        test_sets = [_from_files(config, Path(config.source).name)]
    else:
        test_sets = _named_test_sets(config, loaded.config.data)
    # Only the best translation is scored.
    decoding = dataclasses.replace(resolve_decoding(loaded.config.decoding, config.decoding), n_best=1)
    model = _Model(
        translator=lambda: Translator(loaded.model, loaded.tokenizer, decoding, device),
        attention=lambda *lines: forced_attention(loaded.model, loaded.tokenizer, *lines),
        decoding=to_dict(decoding),
        run=str(loaded.folder),
        checkpoint=str(loaded.checkpoint),
    )
    return model, test_sets


def _named_test_sets(config: EvaluateConfig, data: DataConfig) -> list[_TestSet]:
    from mt.data import corpus

    if config.data_root is not None:
        data = corpus.moved(data, Path(config.data_root))
    found = corpus.test_sets(data, config.test_sets)
    if config.test_sets is None:
        for name in corpus.test_set_names(data):
            if name not in found:
                logger.info("%s: no files under data.root=%s, left out", name, printable(data.root))
    if not found:
        raise DataError(
            "there is no test set for the run's data; say where it lies with data_root=DIR, or give "
            "source=FILE reference=FILE"
        )
    return [
        _checked(_TestSet(name, _read(config, source), [_read(config, target)]))
        for name, (source, target) in found.items()
    ]


def _gold(config: EvaluateConfig, test_sets: Sequence[_TestSet]) -> GoldLinks | None:
    """The gold links, if there are any.

    Raises:
        ConfigError: it is not clear which test set they belong to.
        DataError: they do not fit.
    """
    if config.alignments is None:
        return None
    if len(test_sets) > 1:
        names = ", ".join(one.name for one in test_sets)
        raise ConfigError(
            [f"alignments={config.alignments}: belongs to one of {names}; choose it with test_sets=[NAME]"]
        )
    (test_set,) = test_sets
    assert test_set.source is not None
    return read_gold_links(config.alignments, test_set.source.lines, test_set.references[0].lines)


def _translate_and_score(
    config: EvaluateConfig, test_set: _TestSet, model: _Model, gold: GoldLinks | None
) -> Evaluation:
    assert test_set.source is not None
    attention = model.attention(test_set.source.lines, test_set.references[0].lines)
    if gold is not None and attention is None:
        raise MTError(f"alignments={config.alignments}: {model.run} has no attention, so it links no words")
    numbers = None if attention is None else attention_numbers(attention, gold)
    translator = model.translator()
    translations = translator.translate(test_set.source.lines)
    report = translator.report
    for warning in report.warnings():
        logger.warning("%s: %s", test_set.name, warning)
    counts = {
        "truncated": len(report.truncated),
        "source_cut": len(report.source_cut),
        "source_unknown": len(report.unknown),
        "digits_changed": len(report.digits_changed),
    }
    evaluation = _score(config, test_set, [one.text for one in translations], counts, model=model)
    file = None if gold is None else {"path": str(gold.path), "sha256": gold.sha256}
    return dataclasses.replace(evaluation, attention=numbers, gold=file)


def _score(
    config: EvaluateConfig,
    test_set: _TestSet,
    hypotheses: Sequence[str],
    counts: Mapping[str, int],
    model: _Model | None = None,
    hypothesis: TextFile | None = None,
) -> Evaluation:
    references = [reference.raw for reference in test_set.references]
    sources = None if test_set.source is None else test_set.source.lines
    scores = score(hypotheses, references, lowercase=config.lowercase)
    by_length = None
    if sources is not None:
        by_length = bleu_by_length(hypotheses, references, sources, lowercase=config.lowercase)
    files: dict[str, Any] = {
        "source": None if test_set.source is None else test_set.source.counts(),
        "references": [reference.counts() for reference in test_set.references],
        "hypothesis": None if hypothesis is None else hypothesis.counts(),
    }
    if config.translations is not None:
        kept = Path(config.translations) / f"{test_set.name}.hyp"
        write_text(kept, "".join(f"{line}\n" for line in hypotheses))
        files["translations"] = str(kept)
    return Evaluation(
        name=test_set.name,
        scores=scores,
        by_length=by_length,
        segments=len(hypotheses),
        counts={"blank_hypotheses": sum(not line.strip() for line in hypotheses), **counts},
        sha256=text_hash(sources, references),
        files=files,
        decoding=None if model is None else model.decoding,
        run=None if model is None else model.run,
        checkpoint=None if model is None else model.checkpoint,
    )


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point of ``mt-evaluate``; `argv` without the program's name. Returns the exit code."""
    if argv is None:
        # Here, because the words that `run_app` is given are no longer the process's own.
        terminal.set_up(restart=True)
    words = one_as_list(sys.argv[1:] if argv is None else argv, "reference")
    return run_app(evaluate, EvaluateConfig, "evaluate", words)


if __name__ == "__main__":
    sys.exit(main())
