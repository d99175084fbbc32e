"""The model file's walker and writer, against SentencePiece itself and against hostile bytes."""

import random
import struct

import pytest
import sentencepiece
from hypothesis import given, settings
from hypothesis import strategies as st

from mt.config.schema import TokenizerModel
from mt.data import piece_model
from mt.data.piece_model import BYTE_PIECES, SPECIALS, Kind, Piece, PieceModel, parse, serialize
from mt.errors import TokenizerError


def model(*words, algorithm=TokenizerModel.unigram, with_bytes=True, extra=()):
    pieces = [Piece(text, 0.0, Kind.unknown if text == "<unk>" else Kind.control) for text in SPECIALS]
    pieces += [Piece(text, 0.0, Kind.byte) for text in BYTE_PIECES] if with_bytes else []
    pieces += [Piece(word, -float(rank), Kind.normal) for rank, word in enumerate(words)]
    return PieceModel(algorithm, (*pieces, *extra))


GOOD = serialize(model("▁a", "b", "▁"))


def refused(stored, match=""):
    with pytest.raises(TokenizerError, match="x.model is not a sentencepiece model.*" + match):
        parse(stored, "x.model")


@pytest.mark.parametrize("algorithm", TokenizerModel)
@pytest.mark.parametrize("with_bytes", [True, False])
def test_round_trip_and_the_library_reads_the_same(algorithm, with_bytes):
    written = model("▁a", "b", "é", "▁", algorithm=algorithm, with_bytes=with_bytes)
    assert parse(serialize(written), "x") == written
    loaded = sentencepiece.SentencePieceProcessor(model_proto=serialize(written))
    assert [loaded.id_to_piece(i) for i in range(len(loaded))] == [piece.text for piece in written.pieces]
    assert (loaded.pad_id(), loaded.bos_id(), loaded.eos_id(), loaded.unk_id()) == (0, 1, 2, 3)
    assert loaded.is_byte(4) == with_bytes


def test_files_that_are_no_model():
    refused(b"", "empty")
    refused(b"this is not a tokenizer\n")
    refused(random.Random(1).randbytes(2048))
    refused(b"\0" * 100)
    refused(GOOD[:-1], "cut short")


def test_bounds(monkeypatch):
    refused(serialize(model("▁a", "a" * 200_000)), "200,000 bytes, the limit is 256")
    refused(serialize(model("▁a", "é" * 129)), "258 bytes")
    monkeypatch.setattr(piece_model, "MAX_PIECES", 262)
    refused(GOOD, "more than 262 pieces")
    monkeypatch.setattr(piece_model, "MAX_FILE_BYTES", 100)
    refused(GOOD, "the limit is 100")


def test_vocabularies_that_would_give_text_a_meaning():
    refused(serialize(model("▁a", extra=[Piece("<s>", 0.0, Kind.normal)])), "twice")
    refused(serialize(model("▁a", extra=[Piece("<x>", 0.0, Kind.control)])), "more special symbols")
    refused(serialize(model("▁a", extra=[Piece("<x>", 0.0, Kind.unknown)])), "more special symbols")
    refused(serialize(model("▁a", "")), "empty piece")
    refused(serialize(model("▁a", "▁a")), "twice")
    refused(serialize(model()), "no pieces of text")
    swapped = model("▁a").pieces
    refused(serialize(PieceModel(TokenizerModel.bpe, (swapped[1], swapped[0], *swapped[2:]))), "first pieces")
    refused(
        serialize(PieceModel(TokenizerModel.bpe, model("▁a").pieces[:-2] + model("▁a").pieces[-1:])),
        "256 bytes",
    )
    user_defined = GOOD + b"\x0a\x05\x0a\x01z\x18\x04"
    refused(user_defined, "kind that is not used")


def test_scores_that_are_no_numbers():
    for score in (float("nan"), float("inf")):
        refused(serialize(model("▁a", extra=[Piece("b", score, Kind.normal)])), "score")


def test_a_normalization_table_is_refused():
    table = b"\x12\x04abcd"
    refused(GOOD + b"\x1a" + bytes([len(table)]) + table, "normalization table")


def test_lengths_that_point_beyond_the_end():
    for lie in (b"\xff\xff\xff\xff\x0f", b"\xff" * 9 + b"\x01", b"\xff" * 12, b"\x05"):
        refused(b"\x0a" + lie + b"abc")
    refused(b"\x0a\x05\x15" + struct.pack("<f", 1.0)[:2])


@settings(max_examples=150, deadline=None)
@given(
    changes=st.lists(st.tuples(st.integers(0, len(GOOD) - 1), st.integers(0, 255)), min_size=1, max_size=4)
)
def test_damaged_models_are_refused_or_harmless(changes):
    damaged = bytearray(GOOD)
    for place, byte in changes:
        damaged[place] = byte
    try:
        found = parse(bytes(damaged), "x")
    except TokenizerError:
        return
    loaded = sentencepiece.SentencePieceProcessor(model_proto=serialize(found))
    assert len(loaded) == len(found.pieces)
    loaded.encode("a b é")


@settings(max_examples=150, deadline=None)
@given(stored=st.binary(max_size=200))
def test_random_bytes_never_do_more_than_raise(stored):
    with pytest.raises(TokenizerError):
        parse(stored, "x")
