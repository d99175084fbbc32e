"""Text to pieces and back: SentencePiece behind a guard that keeps text text.

Idea: a line passes `clean_line`, an escape, Unicode normalization, then SentencePiece; the way back
undoes it. The escape is there because SentencePiece gives two characters a meaning of its own: U+2581
marks spaces, and sentences with U+2585 are left out of training without a word. Typed in a text, both
become a pair of a private-use character and a digit, and come back as typed. Decoding is our own: the
bytes of the pieces are joined and bytes that make no complete character are dropped, so that no
U+FFFD, ``<0x..>`` or internal unknown symbol appears in an output that is not in the text.

Contract: ids 0-3 are PAD, BOS, EOS, UNK on both sides; encoding adds none of the first three. The
result of training depends on the text and the options alone, not on threads or the machine's load.
A tokenizer folder is data from anywhere: sizes are bounded, the hash is compared before anything is
parsed, and the C++ loader sees only bytes that `piece_model.serialize` wrote.
Not in here: files of text, batches, the decision what a model does with unknown symbols.
"""

from __future__ import annotations

import hashlib
import io
import itertools
import json
import re
import threading
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import sentencepiece

from mt.config.schema import Normalization, TokenizerConfig
from mt.config.terminal import LIBRARY_THREAD
from mt.data import piece_model
from mt.data.lines import clean_line, one_line
from mt.data.piece_model import Kind, PieceModel
from mt.errors import TokenizerError, printable

PAD, BOS, EOS, UNK = 0, 1, 2, 3

Side = Literal["source", "target"]

_FORMAT = 1
_MANIFEST = "tokenizer.json"
_MAX_MANIFEST_BYTES = 2**16
_SPACE = "\u2581"

_ESCAPE = "\U0010f8e0"
_ESCAPED = {_ESCAPE: _ESCAPE + "0", _SPACE: _ESCAPE + "1", "\u2585": _ESCAPE + "2"}
_UNESCAPED = {escaped: char for char, escaped in _ESCAPED.items()}
_TO_ESCAPE = re.compile(f"[{''.join(_ESCAPED)}]")
_TO_UNESCAPE = re.compile(f"{_ESCAPE}[012]?")

_SPACES = re.compile("  +")

# SentencePiece cuts its own symbols out of the training text, so that a '<' that only occurs in a
# typed '<s>' would get no piece; a space inside leaves the characters to be learned.
_SYMBOL = re.compile(r"<(?=(?:/?s|pad|unk|0x[0-9A-F]{2})>)")

# Unigram training adds up floating-point counts per thread, so the vocabulary depends on the number
# of threads. Eight, whatever the machine: the same bytes everywhere (29,000 pairs: 2.6 s on 2 cores).
_TRAINING_THREADS = 8
# SentencePiece leaves out longer sentences without telling, and words beyond 65,535 characters break
# its BPE. Longer lines are cut into parts for training: nothing is left out.
_TRAINING_PART = 2000
_MAX_SENTENCE_BYTES = 2**20


@dataclass(frozen=True)
class _Codec:
    """One vocabulary: the processor that encodes and the table that decodes."""

    model: PieceModel
    serialized: bytes
    processor: sentencepiece.SentencePieceProcessor
    decoded: tuple[bytes, ...]

    @classmethod
    def of(cls, model: PieceModel, name: str) -> _Codec:
        serialized = piece_model.serialize(model)
        try:
            processor = sentencepiece.SentencePieceProcessor(model_proto=serialized)
        except (RuntimeError, OSError, ValueError) as error:
            raise TokenizerError(f"{name} is not a sentencepiece model: {printable(error)}") from None
        if processor.get_piece_size() != len(model.pieces):
            raise TokenizerError(f"{name} is not a sentencepiece model: pieces were lost on loading")
        return cls(model, serialized, processor, tuple(map(_decoded, model.pieces)))


def _decoded(piece: piece_model.Piece) -> bytes:
    if piece.kind is Kind.byte:
        return bytes((int(piece.text[3:5], 16),))
    if piece.kind is Kind.normal:
        return piece.text.replace(_SPACE, " ").encode("utf-8")
    return b""


class Tokenizer:
    """Both languages' vocabularies (one and the same when joint)."""

    def __init__(
        self, source: PieceModel, target: PieceModel | None, normalization: Normalization, *, threads: int = 1
    ) -> None:
        """
        Args:
            source: the source vocabulary, or the joint one.
            target: the target vocabulary; None when source is joint.
            normalization: what happens to text before it is cut.
            threads: threads that encode long lists of lines; the result does not depend on it.

        Raises:
            TokenizerError: SentencePiece does not accept a vocabulary.
        """
        self.joint = target is None
        self.normalization = normalization
        self.threads = threads
        self._source = _Codec.of(source, "the source vocabulary")
        self._target = self._source if target is None else _Codec.of(target, "the target vocabulary")
        self._normalize = _normalizer(normalization)
        self.sha256 = _content_hash(self._files(), normalization)

    @property
    def source_size(self) -> int:
        """Pieces of the source vocabulary, special symbols included."""
        return len(self._source.model.pieces)

    @property
    def target_size(self) -> int:
        """Pieces of the target vocabulary, special symbols included."""
        return len(self._target.model.pieces)

    @property
    def models(self) -> tuple[PieceModel, PieceModel]:
        """The source and the target vocabulary; one and the same when joint."""
        return self._source.model, self._target.model

    @property
    def byte_fallback(self) -> bool:
        """Whether characters without a piece are spelled as bytes, so that none is unknown."""
        return self._source.model.byte_fallback and self._target.model.byte_fallback

    def encode_source(self, lines: Sequence[str]) -> list[list[int]]:
        """Piece ids of each line, without special symbols; a line without text gives []."""
        return self._encode(self._source, lines)

    def encode_target(self, lines: Sequence[str]) -> list[list[int]]:
        """Piece ids of each line, without special symbols; a line without text gives []."""
        return self._encode(self._target, lines)

    def decode(self, ids: Sequence[int], unknown: str = "") -> str:
        """The text of target pieces, as one line.

        Args:
            ids: piece ids; PAD, BOS and EOS are skipped wherever they stand.
            unknown: what stands for an unknown symbol.
        """
        return self._decode(self._target, ids, unknown)

    def decode_source(self, ids: Sequence[int], unknown: str = "") -> str:
        """The text of source pieces; see `decode`."""
        return self._decode(self._source, ids, unknown)

    def pieces(self, ids: Sequence[int], side: Side) -> list[str]:
        """Names of pieces for pictures: a word begins with U+2581, bytes are ``<0xC3>``."""
        known = (self._source if side == "source" else self._target).model.pieces
        return [known[int(index)].text for index in ids]

    def source_pieces(self, line: str) -> list[str]:
        """Names of the pieces of a source line."""
        return self.pieces(self.encode_source([line])[0], "source")

    def unknown_share(self, line: str, side: Side = "source") -> float:
        """Share of a line's characters (spaces apart) that no piece stands for, 0 to 1.

        With byte fallback nothing is unknown; `spelled_share` then tells how much is spelled in bytes.
        """
        return self._share(line, side, Kind.unknown)

    def spelled_share(self, line: str, side: Side = "source") -> float:
        """Share of a line's characters (spaces apart) that are spelled as bytes, 0 to 1."""
        return self._share(line, side, Kind.byte)

    def save(self, folder: Path) -> None:
        """Write the vocabularies and a manifest into a folder, which is created.

        Raises:
            TokenizerError: it cannot be written.
        """
        files = self._files()
        manifest = {
            "format": _FORMAT,
            "normalization": self.normalization.value,
            "sizes": {"source": self.source_size, "target": self.target_size},
            "files": {name: hashlib.sha256(content).hexdigest() for name, content in files.items()},
            "sha256": self.sha256,
        }
        try:
            folder.mkdir(parents=True, exist_ok=True)
            for name, content in files.items():
                (folder / name).write_bytes(content)
            text = json.dumps(manifest, indent=2) + "\n"
            (folder / _MANIFEST).write_text(text, encoding="utf-8", newline="\n")
        except OSError as error:
            raise TokenizerError(
                f"the tokenizer cannot be written to {printable(folder)}: {error.strerror or error}"
            ) from None

    @classmethod
    def load(cls, folder: Path, expected_sha256: str | None = None, *, threads: int = 1) -> Tokenizer:
        """Read a folder that `save` wrote.

        Args:
            folder: the folder.
            expected_sha256: `sha256` of the tokenizer it must be; compared before anything is parsed.
            threads: see the constructor.

        Raises:
            TokenizerError: it is missing, damaged, hostile or another tokenizer than expected.
        """
        folder = Path(folder)
        manifest, files = _read_folder(folder)
        found = _content_hash(files, manifest.normalization)
        if expected_sha256 is not None and found != expected_sha256:
            raise TokenizerError(
                f"{printable(folder)} is another tokenizer than the model was trained with "
                f"(sha256 {found[:12]}..., expected {printable(expected_sha256[:12])}...); use the run's own"
            )
        if found != manifest.sha256:
            raise TokenizerError(f"{printable(folder)} is damaged: its files do not match {_MANIFEST}")
        models = [piece_model.parse(content, printable(folder / name)) for name, content in files.items()]
        return cls(
            models[0], models[1] if len(models) == 2 else None, manifest.normalization, threads=threads
        )

    def _files(self) -> dict[str, bytes]:
        if self.joint:
            return {"joint.model": self._source.serialized}
        return {"source.model": self._source.serialized, "target.model": self._target.serialized}

    def _text(self, line: str) -> str:
        """What SentencePiece is given for a line."""
        return self._normalize(_escape(clean_line(line)))

    def _encode(self, codec: _Codec, lines: Sequence[str]) -> list[list[int]]:
        threads = self.threads if len(lines) >= 1000 else 1
        texts = [self._text(line) for line in lines]
        encoded: list[list[int]] = codec.processor.encode(texts, out_type=int, num_threads=threads)
        return encoded

    def _decode(self, codec: _Codec, ids: Sequence[int], unknown: str) -> str:
        table = codec.decoded
        mark = f" {unknown} ".encode() if unknown else b""
        joined = b"".join(mark if index == UNK else table[index] for index in ids)
        text = joined.decode("utf-8", errors="ignore")  # drops the halves of characters, nothing else
        return _SPACES.sub(" ", one_line(_unescape(text)))

    def _share(self, line: str, side: Side, kind: Kind) -> float:
        codec = self._source if side == "source" else self._target
        text = self._text(line)
        total = len(text.replace(" ", ""))
        if not total:
            return 0.0
        # Between the pieces of ordinary text lies what no piece stands for.
        table, known, covered = codec.model.pieces, 0, 0
        ids = codec.processor.encode(text, out_type=int)
        for index in ids:
            if table[index].kind is Kind.normal:
                known += len(table[index].text.replace(_SPACE, ""))
            elif table[index].kind is kind:
                covered += 1
        return (total - known) / total if covered else 0.0


def _normalizer(normalization: Normalization) -> Callable[[str], str]:
    if normalization is Normalization.none:
        return lambda text: text
    if normalization is Normalization.nfc:
        return lambda text: text if text.isascii() else unicodedata.normalize("NFC", text)
    by_rule = sentencepiece.SentencePieceNormalizer(
        rule_name=normalization.value,
        add_dummy_prefix=False,
        escape_whitespaces=False,
        remove_extra_whitespaces=False,
    )

    def normalize(text: str) -> str:
        return clean_line(str(by_rule.normalize(text)))

    return normalize


def _escape(text: str) -> str:
    if _TO_ESCAPE.search(text) is None:
        return text
    return _TO_ESCAPE.sub(lambda match: _ESCAPED[match.group()], text)


def _unescape(text: str) -> str:
    """Undo `_escape`; half an escape (a model may write anything) is dropped."""
    if _ESCAPE not in text:
        return text
    return _TO_UNESCAPE.sub(lambda match: _UNESCAPED.get(match.group(), ""), text)


def _content_hash(files: dict[str, bytes], normalization: Normalization) -> str:
    digest = hashlib.sha256(f"mt tokenizer {_FORMAT} {normalization.value}\n".encode())
    for name, content in files.items():
        digest.update(f"{name} {hashlib.sha256(content).hexdigest()}\n".encode())
    return digest.hexdigest()


# --- reading a folder ----------------------------------------------------------------------------


@dataclass(frozen=True)
class Identity:
    """Which tokenizer lies in a folder.

    Attributes:
        sha256: `Tokenizer.sha256` of what the files hold, computed from their bytes.
        sizes: what the manifest says of (source, target) pieces, for messages; None if it says nothing.
    """

    sha256: str
    sizes: tuple[int, int] | None


def identify(folder: Path) -> Identity:
    """Which tokenizer lies in a folder, without parsing any of its models.

    Raises:
        TokenizerError: files are missing, too large, or there is no manifest.
    """
    manifest, files = _read_folder(folder)
    return Identity(_content_hash(files, manifest.normalization), manifest.sizes)


@dataclass(frozen=True)
class _Manifest:
    normalization: Normalization
    names: tuple[str, ...]
    sha256: str
    sizes: tuple[int, int] | None


def _read_folder(folder: Path) -> tuple[_Manifest, dict[str, bytes]]:
    """The manifest, and the bytes of the models it names."""
    if folder.is_file():
        _refuse_file(folder)
    manifest = _read_manifest(folder / _MANIFEST)
    return manifest, {
        name: _read_bounded(folder / name, piece_model.MAX_FILE_BYTES) for name in manifest.names
    }


def _read_manifest(path: Path) -> _Manifest:
    stored = _read_bounded(path, _MAX_MANIFEST_BYTES)
    damaged = TokenizerError(
        f"{printable(path)} is not a tokenizer's manifest; "
        "put the folder of a copy of the run in its place, or prepare the data again"
    )
    try:
        content: Any = json.loads(stored.decode("utf-8"))
        if content["format"] != _FORMAT:
            raise TokenizerError(
                f"{printable(path)} has format {printable(content['format'])}, this version reads {_FORMAT}"
            )
        normalization = Normalization(content["normalization"])
        names = tuple(content["files"])
        sha256 = content["sha256"]
    except (ValueError, KeyError, TypeError, RecursionError):
        raise damaged from None
    if names not in (("joint.model",), ("source.model", "target.model")) or not isinstance(sha256, str):
        raise damaged
    return _Manifest(normalization, names, sha256, _sizes(content.get("sizes")))


def _sizes(stated: Any) -> tuple[int, int] | None:
    if not isinstance(stated, dict):
        return None
    source, target = stated.get("source"), stated.get("target")
    return (source, target) if type(source) is int and type(target) is int else None


def _read_bounded(path: Path, limit: int) -> bytes:
    """A regular file's bytes, at most `limit` of them."""
    name = printable(path)
    try:
        if not path.is_file():
            raise TokenizerError(f"{name}: no such file; a tokenizer folder holds {_MANIFEST} and its models")
        with path.open("rb") as file:
            content = file.read(limit + 1)
    except (OSError, ValueError) as error:
        raise TokenizerError(f"{name} cannot be read: {getattr(error, 'strerror', None) or error}") from None
    if len(content) > limit:
        raise TokenizerError(f"{name} is not a tokenizer file: it has more than {limit:,} bytes")
    return content


def _refuse_file(path: Path) -> None:
    """Say what is wrong with a file that was given in place of a folder."""
    piece_model.parse(_read_bounded(path, piece_model.MAX_FILE_BYTES), printable(path))
    raise TokenizerError(
        f"{printable(path)} is a single model file; give the tokenizer folder that it belongs to"
    )


# --- training ------------------------------------------------------------------------------------


def train_tokenizer(
    config: TokenizerConfig, source_lines: Sequence[str], target_lines: Sequence[str]
) -> Tokenizer:
    """Train the vocabularies on the training text of both sides.

    Args:
        config: sizes and options. A vocabulary that the text cannot fill has fewer pieces than asked
            (the caller tells the user, see `lowered_warnings`), or is refused under hard_vocab_limit.
        source_lines: lines of text (cleaned or not).
        target_lines: likewise.

    Raises:
        TokenizerError: no text, a vocabulary too small for the characters, or (hard_vocab_limit) too
            large for the text.
    """
    normalize = _normalizer(config.normalization)

    def train(side: str, *all_lines: Sequence[str]) -> PieceModel:
        def texts() -> Iterator[str]:
            for line in itertools.chain(*all_lines):
                yield normalize(_escape(clean_line(line)))

        return _train(config, texts, side)

    if config.joint:
        source, target = train("", source_lines, target_lines), None
    else:
        source, target = train("source ", source_lines), train("target ", target_lines)
    return Tokenizer(source, target, config.normalization, threads=config.threads)


def _train(config: TokenizerConfig, texts: Callable[[], Iterator[str]], side: str) -> PieceModel:
    """One vocabulary from normalized texts (walked through twice when characters are to be left out)."""
    parts = _training_parts(texts(), _rare_characters(texts(), config.character_coverage))
    first = next(parts, None)
    if first is None:
        raise TokenizerError(f"the {side}tokenizer has no text to learn from: every line is empty")
    written = io.BytesIO()
    pad, bos, eos, unk = piece_model.SPECIALS
    try:
        _train_interruptibly(
            sentence_iterator=itertools.chain([first], parts),
            model_writer=written,
            model_type=config.model.value,
            vocab_size=config.vocab_size,
            # The library lowers the size by itself; whether that is allowed is decided below, so that
            # either message can give the number.
            hard_vocab_limit=False,
            character_coverage=1.0,  # see _rare_characters
            byte_fallback=config.byte_fallback,
            normalization_rule_name="identity",
            split_digits=True,  # numbers are copied digit by digit, so that unseen ones are no surprise
            max_sentence_length=_MAX_SENTENCE_BYTES,
            num_threads=_TRAINING_THREADS,
            pad_id=PAD,
            bos_id=BOS,
            eos_id=EOS,
            unk_id=UNK,
            pad_piece=pad,
            bos_piece=bos,
            eos_piece=eos,
            unk_piece=unk,
            minloglevel=4,
        )
    except RuntimeError as error:
        raise _training_error(config, side, str(error)) from None
    model = piece_model.parse(written.getvalue(), f"the {side}tokenizer just trained")
    actual = len(model.pieces)
    if actual < config.vocab_size and config.hard_vocab_limit:
        raise TokenizerError(
            f"tokenizer.vocab_size={config.vocab_size}: the {side}training text supports at most "
            f"{actual} pieces; set tokenizer.vocab_size={actual} or less, or "
            f"tokenizer.hard_vocab_limit=false to have it lowered"
        )
    return model


def lowered_warnings(config: TokenizerConfig, tokenizer: Tokenizer) -> list[str]:
    """A sentence for each vocabulary that has fewer pieces than asked."""
    sizes = {"": tokenizer.source_size}
    if not tokenizer.joint:
        sizes = {"source ": tokenizer.source_size, "target ": tokenizer.target_size}
    return [
        f"tokenizer.vocab_size={config.vocab_size} is more than the {side}training text supports: "
        f"lowered to {size} pieces"
        for side, size in sizes.items()
        if size < config.vocab_size
    ]


def _rare_characters(texts: Iterator[str], coverage: float) -> dict[int, str]:
    """The rarest characters, beyond the wanted share of all, as a translation to spaces.

    SentencePiece has such an option too, but accepts only 0.98 to 1.
    """
    if coverage >= 1:
        return {}
    counts: Counter[str] = Counter()
    for text in texts:
        counts.update(text)
    counts.pop(" ", None)
    wanted = coverage * sum(counts.values())
    covered = 0
    rare = {}
    for char, count in sorted(counts.items(), key=lambda item: (-item[1], item[0])):
        if covered >= wanted:
            rare[ord(char)] = " "
        covered += count
    return rare


def _training_parts(texts: Iterator[str], rare: dict[int, str]) -> Iterator[str]:
    """The texts without rare characters and empty ones, over-long ones cut at spaces where there are any."""
    for text in texts:
        if rare:
            text = " ".join(text.translate(rare).split())
        if "<" in text:
            text = _SYMBOL.sub("< ", text)
        while len(text) > _TRAINING_PART:
            cut = text.rfind(" ", 1, _TRAINING_PART + 1)
            cut = cut if cut > 0 else _TRAINING_PART
            yield text[:cut]
            text = text[cut:].lstrip(" ")
        if text:
            yield text


def _train_interruptibly(**options: Any) -> None:
    """SentencePiece's training, in such a way that a signal need not wait for its end.

    Python handles signals in the main thread alone, and between two steps of its own only.
    """
    failures: list[Exception] = []

    def run() -> None:
        try:
            sentencepiece.SentencePieceTrainer.train(**options)
        except Exception as error:
            failures.append(error)

    thread = threading.Thread(target=run, name=LIBRARY_THREAD, daemon=True)
    thread.start()
    while thread.is_alive():
        thread.join(0.1)
    if failures:
        raise failures[0]


def _training_error(config: TokenizerConfig, side: str, reason: str) -> TokenizerError:
    too_small = re.search(r"smaller than required_chars\. (\d+) vs (\d+)", reason)
    if too_small is None:
        return TokenizerError(f"SentencePiece cannot train the {side}tokenizer: {printable(reason)}")
    needed = int(too_small.group(2))
    fixed = len(piece_model.SPECIALS) + (256 if config.byte_fallback else 0)
    ways = [f"set tokenizer.vocab_size={needed} or more", "lower tokenizer.character_coverage"]
    if config.byte_fallback:
        reserved = f"{needed - fixed} characters and {fixed} special and byte pieces"
        ways.append("leave the 256 byte pieces out with tokenizer.byte_fallback=false")
    else:
        reserved = f"{needed - fixed} characters and {fixed} special pieces"
        ways.append(
            "use tokenizer.byte_fallback=true with lower coverage, so that rare characters are spelled"
        )
    return TokenizerError(
        f"tokenizer.vocab_size={config.vocab_size} is too small: the {side}text needs at least {needed} "
        f"pieces ({reserved}); {', or '.join(ways)}"
    )
