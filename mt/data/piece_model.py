"""SentencePiece's model file, read and written by ourselves.

A model file may come from anywhere, and SentencePiece's C++ loader has crashed on crafted ones. So
untrusted bytes never reach it: `parse` walks the protobuf wire format in Python within fixed bounds
and keeps only a list of (piece, score, kind) and the algorithm; `serialize` writes a fresh, minimal
model from that list, and only such bytes are loaded. The same two steps make a trained model's
bytes independent of how many threads trained it (SentencePiece stores that number, paths and more).

Contract: accepted is what this application trains: ids 0-3 are <pad> <s> </s> <unk>, all other
pieces are ordinary text or the complete set of 256 bytes, no normalization table.
Not in here: training, encoding.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum

from mt.config.schema import TokenizerModel
from mt.errors import TokenizerError

MAX_FILE_BYTES = 64 * 2**20
MAX_PIECES = 2**20
MAX_PIECE_BYTES = 256  # SentencePiece learns pieces of at most 16 characters, 64 bytes

SPECIALS = ("<pad>", "<s>", "</s>", "<unk>")
BYTE_PIECES = tuple(f"<0x{byte:02X}>" for byte in range(256))


class Kind(IntEnum):
    """What a piece is (the numbers of SentencePiece's file format)."""

    normal = 1
    unknown = 2
    control = 3
    byte = 6


@dataclass(frozen=True)
class Piece:
    """One entry of a vocabulary."""

    text: str
    score: float
    kind: Kind


@dataclass(frozen=True)
class PieceModel:
    """A vocabulary and the algorithm that uses it."""

    algorithm: TokenizerModel
    pieces: tuple[Piece, ...]

    @property
    def byte_fallback(self) -> bool:
        """Whether characters without a piece are spelled as bytes."""
        return any(piece.kind is Kind.byte for piece in self.pieces)


# Field numbers of sentencepiece_model.proto.
_MODEL_PIECES, _MODEL_TRAINER, _MODEL_NORMALIZER = 1, 2, 3
_PIECE_TEXT, _PIECE_SCORE, _PIECE_KIND = 1, 2, 3
_TRAINER_ALGORITHM, _TRAINER_VOCAB_SIZE, _TRAINER_BYTE_FALLBACK = 3, 4, 35
_TRAINER_UNK_ID, _TRAINER_BOS_ID, _TRAINER_EOS_ID, _TRAINER_PAD_ID = 40, 41, 42, 43
_TRAINER_UNK, _TRAINER_BOS, _TRAINER_EOS, _TRAINER_PAD = 45, 46, 47, 48
_NORMALIZER_NAME, _NORMALIZER_TABLE = 1, 2
_NORMALIZER_DUMMY_PREFIX, _NORMALIZER_EXTRA_SPACES, _NORMALIZER_ESCAPE_SPACES = 3, 4, 5
_ALGORITHMS = {1: TokenizerModel.unigram, 2: TokenizerModel.bpe}
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5


class _Malformed(Exception):
    """Why bytes are not a model we accept."""


def parse(stored: bytes, name: str) -> PieceModel:
    """The vocabulary in a model file.

    Args:
        stored: the bytes of the file.
        name: the path, for the message.

    Raises:
        TokenizerError: not a sentencepiece model, or one with other special symbols, other kinds of
            pieces, or sizes beyond the bounds above.
    """
    try:
        return _parse(stored)
    except _Malformed as error:
        raise TokenizerError(f"{name} is not a sentencepiece model that mt-prepare wrote: {error}") from None


def _parse(stored: bytes) -> PieceModel:
    if not stored:
        raise _Malformed("it is empty")
    if len(stored) > MAX_FILE_BYTES:
        raise _Malformed(f"it has {len(stored):,} bytes, the limit is {MAX_FILE_BYTES:,}")
    pieces: list[Piece] = []
    algorithm: TokenizerModel | None = None
    for number, value in _fields(stored):
        if number == _MODEL_PIECES:
            if len(pieces) == MAX_PIECES:
                raise _Malformed(f"more than {MAX_PIECES:,} pieces")
            pieces.append(_piece(_as_bytes(value), len(pieces)))
        elif number == _MODEL_TRAINER:
            for inner, setting in _fields(_as_bytes(value)):
                if inner == _TRAINER_ALGORITHM:
                    if not isinstance(setting, int) or setting not in _ALGORITHMS:
                        raise _Malformed("its algorithm is neither unigram nor bpe")
                    algorithm = _ALGORITHMS[setting]
        elif number == _MODEL_NORMALIZER:
            for inner, setting in _fields(_as_bytes(value)):
                if inner == _NORMALIZER_TABLE and setting:
                    raise _Malformed("it brings its own normalization table")
        elif number not in (4, 5):  # self-test data and the denormalizer: not used
            raise _Malformed(f"unknown field {number}")
    if algorithm is None:
        algorithm = TokenizerModel.unigram  # the format's default is left out of the file
    _check(pieces)
    return PieceModel(algorithm, tuple(pieces))


def _piece(message: bytes, index: int) -> Piece:
    text, score, kind = "", 0.0, Kind.normal
    for number, value in _fields(message):
        if number == _PIECE_TEXT:
            encoded = _as_bytes(value)
            if len(encoded) > MAX_PIECE_BYTES:
                raise _Malformed(f"piece {index} has {len(encoded):,} bytes, the limit is {MAX_PIECE_BYTES}")
            try:
                text = encoded.decode("utf-8")
            except UnicodeDecodeError:
                raise _Malformed(f"piece {index} is not UTF-8") from None
        elif number == _PIECE_SCORE:
            if not isinstance(value, float) or not math.isfinite(value):
                raise _Malformed(f"the score of piece {index} is not a number")
            score = value
        elif number == _PIECE_KIND:
            try:
                kind = Kind(value)  # type: ignore[arg-type]
            except ValueError:
                raise _Malformed(f"piece {index} is of a kind that is not used here") from None
        else:
            raise _Malformed(f"unknown field {number} in piece {index}")
    return Piece(text, score, kind)


def _check(pieces: list[Piece]) -> None:
    if tuple(piece.text for piece in pieces[: len(SPECIALS)]) != SPECIALS:
        raise _Malformed(f"its first pieces are not {' '.join(SPECIALS)}")
    for index, piece in enumerate(pieces[: len(SPECIALS)]):
        if piece.kind is not (Kind.unknown if index == 3 else Kind.control):
            raise _Malformed(f"piece {index} is not a special symbol")
    rest = pieces[len(SPECIALS) :]
    if any(piece.kind not in (Kind.normal, Kind.byte) for piece in rest):
        raise _Malformed("it has more special symbols than those four")
    if not any(piece.kind is Kind.normal for piece in rest):
        raise _Malformed("it has no pieces of text")
    spelled = tuple(piece.text for piece in rest if piece.kind is Kind.byte)
    if spelled not in ((), BYTE_PIECES):
        raise _Malformed("its byte pieces are not the 256 bytes in order")
    if not all(piece.text for piece in rest):
        raise _Malformed("it has an empty piece")
    if len({piece.text for piece in pieces}) != len(pieces):
        raise _Malformed("it has a piece twice")


def _as_bytes(value: int | float | bytes) -> bytes:
    if not isinstance(value, bytes):
        raise _Malformed("a field has the wrong type")
    return value


def _fields(message: bytes) -> Iterator[tuple[int, int | float | bytes]]:
    """The (field number, value) pairs of a protobuf message; never reads beyond its end."""
    position = 0
    while position < len(message):
        tag, position = _read_varint(message, position)
        number, wire = tag >> 3, tag & 7
        if number == 0:
            raise _Malformed("field number 0")
        value: int | float | bytes
        if wire == _VARINT:
            value, position = _read_varint(message, position)
        elif wire == _BYTES:
            length, position = _read_varint(message, position)
            if length > len(message) - position:
                raise _Malformed("it is cut short")
            value = message[position : position + length]
            position += length
        elif wire in (_FIXED32, _FIXED64):
            length = 4 if wire == _FIXED32 else 8
            if length > len(message) - position:
                raise _Malformed("it is cut short")
            value = struct.unpack_from("<f" if wire == _FIXED32 else "<d", message, position)[0]
            position += length
        else:
            raise _Malformed("it holds no protobuf data")
        yield number, value


def _read_varint(message: bytes, position: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 64, 7):
        if position >= len(message):
            raise _Malformed("it is cut short")
        byte = message[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
    raise _Malformed("it holds no protobuf data")


def serialize(model: PieceModel) -> bytes:
    """A minimal model file that SentencePiece loads; equal vocabularies give equal bytes."""
    parts = []
    for piece in model.pieces:
        body = _text_field(_PIECE_TEXT, piece.text)
        body += _varint(_PIECE_SCORE << 3 | _FIXED32) + struct.pack("<f", piece.score)
        if piece.kind is not Kind.normal:
            body += _int_field(_PIECE_KIND, piece.kind)
        parts.append(_bytes_field(_MODEL_PIECES, body))
    pad, bos, eos, unk = SPECIALS
    algorithm = next(number for number, known in _ALGORITHMS.items() if known is model.algorithm)
    trainer = b"".join(
        (
            _int_field(_TRAINER_ALGORITHM, algorithm),
            _int_field(_TRAINER_VOCAB_SIZE, len(model.pieces)),
            _int_field(_TRAINER_BYTE_FALLBACK, int(model.byte_fallback)),
            _int_field(_TRAINER_UNK_ID, 3),
            _int_field(_TRAINER_BOS_ID, 1),
            _int_field(_TRAINER_EOS_ID, 2),
            _int_field(_TRAINER_PAD_ID, 0),
            _text_field(_TRAINER_UNK, unk),
            _text_field(_TRAINER_BOS, bos),
            _text_field(_TRAINER_EOS, eos),
            _text_field(_TRAINER_PAD, pad),
        )
    )
    parts.append(_bytes_field(_MODEL_TRAINER, trainer))
    normalizer = b"".join(
        (
            _text_field(_NORMALIZER_NAME, "identity"),
            _bytes_field(_NORMALIZER_TABLE, b""),
            _int_field(_NORMALIZER_DUMMY_PREFIX, 1),
            _int_field(_NORMALIZER_EXTRA_SPACES, 1),
            _int_field(_NORMALIZER_ESCAPE_SPACES, 1),
        )
    )
    parts.append(_bytes_field(_MODEL_NORMALIZER, normalizer))
    return b"".join(parts)


def _varint(value: int) -> bytes:
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def _int_field(number: int, value: int) -> bytes:
    return _varint(number << 3 | _VARINT) + _varint(value)


def _bytes_field(number: int, value: bytes) -> bytes:
    return _varint(number << 3 | _BYTES) + _varint(len(value)) + value


def _text_field(number: int, value: str) -> bytes:
    return _bytes_field(number, value.encode("utf-8"))
