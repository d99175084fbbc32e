"""``python -m mt.translate``: translate words, a file, a pipe, or what is typed.

    python -m mt.translate -- un chien court        these words
    python -m mt.translate input=fr.txt output=en.txt   a file, line by line
    cat fr.txt | python -m mt.translate                 a pipe
    python -m mt.translate                              on a terminal: type sentences, Ctrl-D ends
    python -m mt.translate heatmap=look.html -- un chien court     and what each word looked at
    python -m mt.translate input=fr.txt output=en.txt alignments=fr-en.pharaoh   the same for every line

Contract: n lines in, n lines out, in order, each ended by LF, as UTF-8 whatever the locale. Standard
output carries nothing but translations. A file given as ``output`` appears when it is complete and is
untouched by any failure. What can be known to be wrong is said before the model is loaded.

Not in here: how lines become translations (`mt.decoding`), how options are read (`mt.config`).
"""

from __future__ import annotations

import contextlib
import io
import itertools
import json
import logging
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, BinaryIO, cast

from mt.config import terminal
from mt.config.app import run_app
from mt.config.outputs import check_output
from mt.config.run_config import resolve_decoding, to_dict
from mt.config.schema import OutputFormat, TranslateConfig
from mt.config.words import one_as_list
from mt.data.lines import TextFile, clean_line, read_lines
from mt.data.stream import TextStream
from mt.decoding import alignment_files
from mt.decoding.alignments import View, attention_shape, cross_attention
from mt.decoding.loading import LoadedRun, choose_run, load_run
from mt.decoding.translator import CHUNK_LINES, Translation, Translator
from mt.errors import MTError, UsageError
from mt.evaluation import heatmap
from mt.files import is_special, whole_file
from mt.training.device import choose_device, set_threads, tune_process

logger = logging.getLogger("mt.translate")

_STANDARD = (None, "-")
_DRAWN = (".png", ".html")


def translate(config: TranslateConfig, text: str | None = None) -> int:
    """Translates what the options name, or `text` as one line; returns the exit code.

    Raises:
        MTError: an option, a file or the run is not usable; no output file is then written.
    """
    interactive = text is None and config.input is None and _is_terminal(sys.stdin)
    _check_options(config, text, interactive)
    source = None if text is not None or interactive else _source(config)
    with _output(config.output) as output, contextlib.ExitStack() as files:
        set_threads(config.threads)
        tune_process()
        device = choose_device(config.device)
        folder = choose_run(config.run, config.checkpoint, config.runs)
        run = load_run(folder, config.checkpoint, tokenizer=config.tokenizer_folder, device=device)
        logger.info("translating with %s", run.checkpoint)
        view = _view(config, run)
        writers = [files.enter_context(_attention_file(Path(file), view)) for file in config.alignments]
        decoding = resolve_decoding(run.config.decoding, config.decoding)
        if config.format is OutputFormat.text:
            decoding = replace(decoding, n_best=1)
        translator = Translator(run.model, run.tokenizer, decoding, device, show_unknown=config.show_unknown)
        if interactive:
            code = _converse(run, translator, config.format, output)
        else:
            code = 0
            for lines in _chunks(source, text):
                for translation in alignment_files.written(translator.stream(lines), run, view, writers):
                    output.write(_formatted(translation, config.format))
                    _draw(config.heatmap, run, translation, view)
                output.flush()
    if not interactive:
        # What a pipe held is known only now; of a file it was said before.
        read = source.warnings() if isinstance(source, TextStream) else []
        for warning in read + translator.report.warnings():
            logger.warning("%s", warning)
    if config.report not in _STANDARD:
        record = {
            "run": str(run.folder),
            "checkpoint": str(run.checkpoint),
            "decoding": to_dict(decoding),
            "input": {"path": None} if source is None else source.counts(),
            **translator.report.to_dict(),
        }
        with _output(config.report, "report") as report:
            report.write(json.dumps(record, indent=2, ensure_ascii=False))
    return code


def _check_options(config: TranslateConfig, text: str | None, interactive: bool) -> None:
    """What can be known to be wrong before anything is read."""
    if text == "":
        raise UsageError("nothing to translate after --")
    if text is not None and config.input is not None:
        raise UsageError(f"both input={config.input} and a text after -- were given; choose one")
    n_best = config.decoding.n_best
    if config.format is OutputFormat.text and n_best is not None and n_best > 1:
        raise UsageError(
            f"decoding.n_best={n_best}: format=text writes one translation a line; "
            "add format=jsonl for all of them"
        )
    _check_heatmap(config.heatmap, text)
    _check_alignments(config, interactive)
    options: dict[str, Sequence[str | None]] = {
        "input": [config.input], "output": [config.output], "report": [config.report],
        "heatmap": config.heatmap, "alignments": config.alignments,
    }  # fmt: skip
    named = [(key, Path(file)) for key, files in options.items() for file in files if file not in _STANDARD]
    for name, path in named:
        if name != "input":
            check_output(name, path)
    for (one, path), (other, same) in itertools.combinations(named, 2):
        if _same_file(path, same):
            both = f"{one} and {other} are the same file" if one != other else f"{one} names a file twice"
            raise UsageError(f"{both}, {same}; name another {other}")


def _check_heatmap(files: Sequence[str], text: str | None) -> None:
    for file in files:
        if Path(file).suffix.lower() not in _DRAWN:
            raise UsageError(f"heatmap={file}: must end in {' or '.join(_DRAWN)}")
    if files and (text is None or not clean_line(text)):
        raise UsageError(f"heatmap={files[0]}: draws one sentence; give it after --")


def _check_alignments(config: TranslateConfig, interactive: bool) -> None:
    for file in config.alignments:
        form = alignment_files.FORMATS.get(Path(file).suffix.lower())
        if form is None:
            raise UsageError(f"alignments={file}: must end in {', '.join(alignment_files.FORMATS)}")
        if form == alignment_files.LINKS and not View(config.layer, config.head).single:
            raise UsageError(
                f"alignments={file}: links are of one layer and head, or of a mean; leave out layer=all and "
                "head=all, or name a file .json or .npz"
            )
    if config.alignments and interactive:
        raise UsageError(
            f"alignments={config.alignments[0]}: what is typed leaves no file; give input=FILE, or a "
            "text after --"
        )


def _view(config: TranslateConfig, run: LoadedRun) -> View:
    """Which weights are shown, if any are.

    Raises:
        ConfigError: the model has no such layer or head.
        MTError: the model has no attention.
    """
    view = View(config.layer, config.head)
    if config.alignments or config.heatmap:
        shape = attention_shape(run.model)
        if shape is None:
            option = "alignments" if config.alignments else "heatmap"
            raise MTError(f"{option}: {run.checkpoint} is a model without attention; it looks at no word")
        view.check(*shape)
    return view


@contextmanager
def _attention_file(path: Path, view: View) -> Iterator[alignment_files.Writer]:
    """A file of what all lines look at, which appears when the block ends well.

    Raises:
        MTError: it cannot be written.
    """
    with _opened(path, "alignments") as file, alignment_files.writer(path, file, view) as writer:
        yield writer
    logger.info("what each word looked at: %s", path)


def _draw(files: Sequence[str], run: LoadedRun, translation: Translation, view: View) -> None:
    """Pictures of what a translation looked at."""
    if not files:
        return
    attention = cross_attention(run.model, run.tokenizer, translation)
    data = run.config.data
    caption = heatmap.Caption(translation.source, translation.text, data.source, data.target)
    for file in files:
        if Path(file).suffix.lower() == ".html":
            heatmap.write_html(Path(file), attention, caption)  # every layer and head is in it
        else:
            shown = view.described(*attention.words.values.shape[:2])
            heatmap.write_png(Path(file), view.of(attention), caption, shown)
        logger.info("what each word looked at: %s", file)


def _same_file(one: Path, other: Path) -> bool:
    try:
        return one.samefile(other) and not is_special(one)
    except OSError:
        return one.resolve() == other.resolve()


def _is_terminal(stream: Any) -> bool:
    try:
        return stream is not None and bool(stream.isatty())
    except ValueError:  # closed
        return False


def _source(config: TranslateConfig) -> TextFile | TextStream:
    """The file or pipe to translate; what was cleaned in a file has been said."""
    if config.input is None or config.input == "-":
        if sys.stdin is None:
            raise UsageError("there is no standard input; give input=FILE, or a text after --")
        stream = cast(io.BufferedReader, sys.stdin.buffer)  # typed as less than it is
        return TextStream(stream, invalid_utf8=config.invalid_utf8)
    file = read_lines(config.input, invalid_utf8=config.invalid_utf8)
    for warning in file.warnings():
        logger.warning("%s", warning)
    return file


def _chunks(source: TextFile | TextStream | None, text: str | None) -> Iterable[Iterable[str]]:
    """The lines to translate: those that are there together, as a pipe may wait for its answers."""
    if isinstance(source, TextStream):
        return source.chunks(CHUNK_LINES)
    return [source.lines if source is not None else [] if text is None else [text]]


def _formatted(translation: Translation, form: OutputFormat) -> str:
    if form is OutputFormat.text:
        return translation.text
    best = [
        {"translation": text, "score": round(score, 6), "log_prob": round(log_prob, 6)}
        for text, score, log_prob in translation.hypotheses
    ]
    record = {
        "source": translation.source,
        **best[0],
        "n_best": best,
        "truncated": translation.truncated,
        "source_cut": translation.source_cut,
        "unknown_share": round(translation.unknown_share, 6),
    }
    # No control character can be inside (see `clean_line`, `one_line`): every record is one line.
    return json.dumps(record, ensure_ascii=False)


@dataclass
class _Lines:
    """Lines of UTF-8, each ended by LF, on an open binary file."""

    file: BinaryIO

    def write(self, line: str) -> None:
        self.file.write(line.encode("utf-8", errors="replace") + b"\n")

    def flush(self) -> None:
        self.file.flush()


@contextmanager
def _output(path: str | None, option: str = "output") -> Iterator[_Lines]:
    """Where lines go: standard output, or a file that appears under its name when the block ends well.

    Raises:
        MTError: it cannot be written (no permission, no room).
    """
    if path is None or path == "-":
        try:
            yield _Lines(sys.stdout.buffer)
            sys.stdout.buffer.flush()
        except BrokenPipeError:
            raise  # the reader has seen enough; no error of ours
        except OSError as error:
            raise MTError(f"standard output: {error.strerror or error}") from error
        return
    with _opened(Path(path), option) as file:
        yield _Lines(file)


@contextmanager
def _opened(path: Path, option: str) -> Iterator[BinaryIO]:
    """`whole_file` whose failure is a message.

    Raises:
        MTError: it cannot be written (no permission, no room).
    """
    try:
        with whole_file(path) as file:
            yield file
    except OSError as error:
        raise MTError(f"{option}={path}: {error.strerror or error}; it was not written") from error


def _converse(run: LoadedRun, translator: Translator, form: OutputFormat, output: _Lines) -> int:
    """Reads sentences from the terminal and answers each; 0 at the end of input, 130 at Ctrl-C."""
    with contextlib.suppress(ImportError):  # not on every system
        import readline  # noqa: F401 (line editing and history)
    data = run.config.data
    prompt = f"{data.source}-{data.target}> "
    print("Type a sentence and press Enter; Ctrl-D ends.", file=sys.stderr)
    try:
        while True:
            try:
                line = _typed(prompt)
            except EOFError:
                print(file=sys.stderr)
                return 0
            [translation] = translator.translate([line])
            output.write(_formatted(translation, form))
            output.flush()
            if translation.source_cut:
                print(
                    "(the sentence is longer than the model can read; its end was left out)", file=sys.stderr
                )
            if translation.truncated:
                print("(the translation was cut at the longest length)", file=sys.stderr)
            if translation.unknown_share:
                print(
                    f"({translation.unknown_share:.0%} of the characters are unknown to the model)",
                    file=sys.stderr,
                )
    except KeyboardInterrupt:
        print(file=sys.stderr)
        return 130


def _typed(prompt: str) -> str:
    """One line from the terminal.

    Raises:
        EOFError: Ctrl-D.
    """
    if _is_terminal(sys.stdout):
        line = input(prompt)  # through readline, which must know the prompt to edit the line
    else:
        print(prompt, end="", file=sys.stderr, flush=True)
        line = input()
    # Where the locale is not UTF-8, what was typed comes as escaped bytes.
    encoding = getattr(sys.stdin, "encoding", None) or "utf-8"
    try:
        return line.encode(encoding, errors="surrogateescape").decode("utf-8", errors="replace")
    except UnicodeEncodeError:
        return line


def _split(argv: Sequence[str]) -> tuple[list[str], str | None]:
    """Options before ``--``, and the text after it, joined by spaces (None without ``--``)."""
    words = list(argv)
    if "--" not in words:
        return words, None
    place = words.index("--")
    return words[:place], " ".join(words[place + 1 :])


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point of ``mt-translate``; `argv` without the program's name. Returns the exit code."""
    if argv is None:
        terminal.set_up(
            restart=True
        )  # here, as the words that `run_app` is given are no longer the process's own
    options, text = _split(sys.argv[1:] if argv is None else argv)
    for key in ("heatmap", "alignments"):
        options = one_as_list(options, key)
    return run_app(lambda config: translate(config, text), TranslateConfig, "translate", options)


if __name__ == "__main__":
    sys.exit(main())
