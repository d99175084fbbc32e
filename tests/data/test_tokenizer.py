"""Text to pieces and back, training, and tokenizer folders from anywhere."""

import json
import shutil
import subprocess
import sys
import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mt.config.schema import Normalization, TokenizerConfig, TokenizerModel
from mt.data.lines import clean_line
from mt.data.piece_model import Kind
from mt.data.tokenizer import BOS, EOS, PAD, UNK, Tokenizer, lowered_warnings, train_tokenizer
from mt.errors import TokenizerError

ENGLISH = [
    "the cat sat on the mat",
    "a dog runs in the park",
    "two men walk along a street",
    "1 child reads 20 books",
]
GERMAN = [
    "die katze saß auf der matte",
    "ein hund rennt im park",
    "zwei männer gehen eine straße entlang",
    "1 kind liest 20 bücher",
]
TYPED = [
    "<s> </s> <unk> <pad>",
    "<0x0A> and <0xZZ> <0x41>",
    "a ▁ b▁c ▁▁",
    "▅ ▅x",
    "\U0010f8e0 \U0010f8e01 \U0010f8e0▁0",
    "⁇ ⁇",
    "\ufffd",
    "😀 \u2581",
]
EMOJI = ["hello 👩\u200d💻", "well done 👍🏽", "from 🇩🇪 with ❤\ufe0f", "👨\u200d👩\u200d👧\u200d👦"]
NUMBERS = [
    "VAT number DE0123456780001",
    "meet on 2031-02-28 at 07:05",
    "pay 1,234,567.89 EUR",
    "write to info@example.org",
    "see https://example.org/a?b=1&c=2",
    "7",
]


def trained(lines=ENGLISH, others=GERMAN, **options):
    return train_tokenizer(TokenizerConfig(**options), lines, others)


@pytest.fixture(scope="module", params=list(TokenizerModel), ids=lambda kind: kind.value)
def joint(request):
    return trained(model=request.param)


@pytest.fixture(scope="module")
def without_bytes():
    return trained(byte_fallback=False)


def test_what_is_typed_comes_back(joint):
    lines = TYPED + EMOJI + NUMBERS
    encoded = joint.encode_source(lines)
    assert [joint.decode(ids) for ids in encoded] == lines
    assert not any(special in ids for ids in encoded for special in (PAD, BOS, EOS, UNK))


@settings(max_examples=200, deadline=None)
@given(line=st.one_of(st.text(max_size=40), st.lists(st.sampled_from([*TYPED, "▁", "0", " "])).map("".join)))
def test_round_trip_of_any_text(joint, line):
    expected = unicodedata.normalize("NFC", clean_line(line))
    (ids,) = joint.encode_target([line])
    assert joint.decode(ids) == expected
    assert bool(ids) == bool(expected)
    assert joint.encode_source([line]) == [ids]


@settings(max_examples=200, deadline=None)
@given(data=st.data())
def test_any_ids_give_one_clean_line(joint, data):
    ids = data.draw(st.lists(st.integers(0, joint.target_size - 1), max_size=30))
    text = joint.decode(ids)
    assert "\ufffd" not in text and "<0x" not in text and "⁇" not in text
    assert text.splitlines() in ([], [text])
    assert text == " ".join(text.split(" "))
    text.encode("utf-8")


def byte(tokenizer, value):
    return tokenizer.encode_source(["ÿ"])[0] and next(
        index
        for index, piece in enumerate(tokenizer._source.model.pieces)
        if piece.text == f"<0x{value:02X}>"
    )


def test_halves_of_characters_are_dropped(joint):
    smile = [byte(joint, value) for value in "😀".encode()]
    (a,) = [ids for ids in joint.encode_target(["a"])]
    assert joint.decode([*smile, *a]) == "😀 a"
    assert joint.decode([*smile[:3], *a]) == "a"
    assert joint.decode([*smile[1:], *a]) == "a"
    assert joint.decode([*smile[:2], *smile]) == "😀"
    assert joint.decode([byte(joint, 0x0A), *a, byte(joint, 0x0D), *a, byte(joint, 0x00)]) == "a a"


def test_special_symbols_are_skipped_and_unknown_ones_shown_when_asked(joint):
    (ids,) = joint.encode_target(["the cat"])
    assert joint.decode([BOS, *ids, EOS, PAD, PAD]) == "the cat"
    assert joint.decode([*ids, UNK]) == "the cat"
    assert joint.decode([UNK, *ids, UNK], unknown="<unk>") == "<unk> the cat <unk>"


def test_without_text_there_are_no_pieces(joint):
    assert joint.encode_source(["", "   ", "\u200b", "\u3000", "\ufeff"]) == [[]] * 5
    assert joint.decode([]) == ""
    assert joint.unknown_share("") == joint.spelled_share(" ") == 0.0


def test_spaces_crlf_and_marks_do_not_change_the_pieces(joint):
    (expected,) = joint.encode_source(["the cat sleeps"])
    for line in (
        "  the cat sleeps",
        "the  cat \t sleeps ",
        "the cat sleeps\r",
        "\ufeffthe cat\u00a0sleeps",
        "the\0cat sleeps",
    ):
        assert joint.encode_source([line]) == [expected]


def test_unknown_script_without_bytes(without_bytes):
    lines = ["これはテストです", "привет мир", "mixed 日本 text", "the cat"]
    shares = [without_bytes.unknown_share(line) for line in lines]
    assert shares[0] == shares[1] == 1.0
    assert shares[2] == pytest.approx(4 / 11)  # 日本 and twice the x that no training line has
    assert shares[3] == 0.0
    decoded = [without_bytes.decode(ids) for ids in without_bytes.encode_source(lines)]
    assert decoded == ["", "", "mied tet", "the cat"]


def test_shares_with_bytes(joint):
    assert joint.unknown_share("これは") == 0.0
    assert joint.spelled_share("これは") == 1.0
    assert joint.spelled_share("THE cat") == pytest.approx(0.5)
    assert joint.spelled_share("the cat") == 0.0


def test_capitals_are_not_lowered_unless_asked(joint):
    assert joint.decode(joint.encode_source(["THE TRAIN IS LATE"])[0]) == "THE TRAIN IS LATE"
    folded = trained(normalization=Normalization.nmt_nfkc_cf)
    assert folded.decode(folded.encode_source(["THE TRAIN IS LATE"])[0]) == "the train is late"


def test_normal_forms():
    composed, decomposed, wide = "caf\u00e9", "cafe\u0301", "ｃａｆé"
    for kind, equal in ((Normalization.none, False), (Normalization.nfc, True), (Normalization.nfkc, True)):
        tokenizer = trained(normalization=kind)
        first, second = tokenizer.encode_source([composed, decomposed])
        assert (first == second) is equal
    assert tokenizer.encode_source([wide]) == [first]
    kept = trained(normalization=Normalization.none)
    assert kept.decode(kept.encode_source([decomposed])[0]) == decomposed


@pytest.mark.parametrize("normalization", Normalization)
def test_typed_marks_survive_every_normalization(normalization):
    tokenizer = trained(normalization=normalization)
    line = "a ▁x ▅ <s> 1"
    assert tokenizer.decode(tokenizer.encode_source([line])[0]) == line


def test_symbols_in_training_text_are_learned_as_characters():
    lines = [*ENGLISH, *["see <s> and <0x0A> and </s> ▅ or ▁ typed"] * 30]
    tokenizer = trained(lines=lines, byte_fallback=False)
    line = "<s> </s> <0x0A> ▅ ▁ <0xA>"
    assert tokenizer.unknown_share(line) == 0.0
    assert tokenizer.decode(tokenizer.encode_source([line])[0]) == line


def test_separate_vocabularies():
    tokenizer = trained(joint=False, byte_fallback=False, vocab_size=60)
    assert not tokenizer.joint
    source = {piece.text for piece in tokenizer._source.model.pieces}
    target = {piece.text for piece in tokenizer._target.model.pieces}
    assert "ß" in target and "ß" not in source
    assert tokenizer.decode(tokenizer.encode_target(["saß"])[0]) == "saß"
    assert tokenizer.decode_source(tokenizer.encode_source(["the cat"])[0]) == "the cat"
    assert tokenizer.unknown_share("ß", "source") == 1.0 and tokenizer.unknown_share("ß", "target") == 0.0
    assert (tokenizer.source_size, tokenizer.target_size) == (len(source), len(target))


def test_pieces_for_pictures(joint):
    names = joint.source_pieces("the cat")
    assert "".join(names) == "▁the▁cat"
    assert joint.pieces([BOS, EOS], "target") == ["<s>", "</s>"]


# --- training


@pytest.mark.parametrize("kind", TokenizerModel)
def test_the_result_does_not_depend_on_threads(kind):
    lines = [f"{a} and {b}" for a in ENGLISH + GERMAN for b in ENGLISH + GERMAN]
    hashes = {
        trained(lines, GERMAN, model=kind, threads=threads, vocab_size=350).sha256 for threads in (1, 2, 4)
    }
    assert len(hashes) == 1
    one, many = (trained(lines, model=kind, threads=threads) for threads in (1, 3))
    assert one.encode_source(lines * 20) == many.encode_source(lines * 20)


def test_a_vocabulary_the_text_cannot_fill_is_lowered_or_refused():
    tokenizer = trained(vocab_size=8000)
    actual = tokenizer.source_size
    assert actual == tokenizer.target_size < 8000
    (warning,) = lowered_warnings(TokenizerConfig(vocab_size=8000), tokenizer)
    assert "tokenizer.vocab_size=8000" in warning and f"lowered to {actual} pieces" in warning
    with pytest.raises(TokenizerError) as caught:
        trained(vocab_size=8000, hard_vocab_limit=True)
    message = str(caught.value)
    assert "tokenizer.vocab_size=8000" in message and f"at most {actual} pieces" in message
    assert "tokenizer.hard_vocab_limit=false" in message
    exact = trained(vocab_size=actual, hard_vocab_limit=True)
    assert exact.source_size == actual and lowered_warnings(TokenizerConfig(vocab_size=actual), exact) == []


@pytest.mark.parametrize("kind", TokenizerModel)
@pytest.mark.parametrize("byte_fallback", [True, False])
def test_a_vocabulary_smaller_than_the_alphabet(kind, byte_fallback):
    chinese = ["".join(chr(0x4E00 + 12 * row + column) for column in range(12)) for row in range(30)]
    lines = [f"line {row} of text" for row in range(30)]
    with pytest.raises(TokenizerError) as caught:
        trained(lines, chinese, vocab_size=100, model=kind, byte_fallback=byte_fallback)
    message = str(caught.value)
    alphabet = len(set("".join(lines + chinese)) - {" "}) + 1  # and the space mark
    needed = alphabet + 4 + (256 if byte_fallback else 0)
    assert f"at least {needed} pieces" in message and f"{alphabet} characters" in message
    assert "character_coverage" in message and "byte_fallback" in message
    tokenizer = trained(lines, chinese, vocab_size=needed + 4, model=kind, byte_fallback=byte_fallback)
    assert tokenizer.unknown_share(chinese[0], "target") == 0.0
    if not byte_fallback:
        poor = trained(
            lines, chinese, vocab_size=100, model=kind, byte_fallback=False, character_coverage=0.5
        )
        assert poor.unknown_share("".join(chinese), "target") > 0.9


def test_no_text_is_an_error():
    for lines in ([], ["", " ", "\u200b"]):
        with pytest.raises(TokenizerError, match="no text"):
            trained(lines, [])


@pytest.mark.parametrize("kind", TokenizerModel)
def test_very_long_words_are_learned_from_and_encoded(kind):
    alphabet = "abcdefghijklmnopqrstuvwxyz0123456789+/"
    word = "".join(alphabet[(i * i + i // 7) % len(alphabet)] for i in range(20_000))
    only_there = "Ж" * 70_000 + " Ц"
    tokenizer = trained([*ENGLISH, word, only_there], model=kind, byte_fallback=False)
    assert tokenizer.unknown_share("Ж Ц q +") == 0.0  # no part of the long lines was skipped
    for line in (word, only_there, "e" * 100_000):
        assert tokenizer.decode(tokenizer.encode_source([line])[0]) == line


# --- folders


@pytest.fixture
def folder(tmp_path, joint):
    joint.save(tmp_path / "tokenizer")
    return tmp_path / "tokenizer"


def test_save_and_load(folder, joint, tmp_path):
    loaded = Tokenizer.load(folder, joint.sha256)
    assert loaded.sha256 == joint.sha256 and loaded.joint
    assert loaded.encode_source(ENGLISH + TYPED) == joint.encode_source(ENGLISH + TYPED)
    separate = trained(joint=False, normalization=Normalization.nfkc)
    separate.save(tmp_path / "two")
    loaded = Tokenizer.load(tmp_path / "two", separate.sha256)
    assert not loaded.joint and loaded.normalization is Normalization.nfkc
    assert loaded.encode_target(GERMAN) == separate.encode_target(GERMAN)


def test_another_tokenizer_is_refused_before_it_is_parsed(folder):
    (folder / "joint.model").write_bytes(b"anything")
    with pytest.raises(TokenizerError, match="another tokenizer"):
        Tokenizer.load(folder, "0" * 64)


def test_damage_is_noticed(folder):
    model = folder / "joint.model"
    content = model.read_bytes()
    model.write_bytes(content[:-1])
    with pytest.raises(TokenizerError, match="damaged"):
        Tokenizer.load(folder)
    model.unlink()
    with pytest.raises(TokenizerError, match=r"joint\.model: no such file"):
        Tokenizer.load(folder)


def forged(folder, content):
    """A folder whose manifest agrees with a hostile model file."""
    from mt.data.tokenizer import _content_hash

    (folder / "joint.model").write_bytes(content)
    manifest = json.loads((folder / "tokenizer.json").read_text(encoding="utf-8"))
    manifest["sha256"] = _content_hash({"joint.model": content}, Normalization(manifest["normalization"]))
    (folder / "tokenizer.json").write_text(json.dumps(manifest), encoding="utf-8")


LONG_PIECE = b"\x0a" + b"\xc8\x9a\x0c" + b"\x0a\xc0\x9a\x0c" + b"a" * 200_000 + b"\x15\0\0\0\0"


@pytest.mark.parametrize(
    "content", [b"", b"this is not a tokenizer\n", bytes(range(256)) * 8, b"\x0a\xff\xff\xff\x7f", LONG_PIECE]
)
def test_hostile_models_are_errors_and_the_process_lives(folder, content, tmp_path):
    forged(folder, content)
    with pytest.raises(TokenizerError, match="not a sentencepiece model") as caught:
        Tokenizer.load(folder)
    assert str(folder / "joint.model") in str(caught.value)
    single = tmp_path / "text.model"
    single.write_bytes(content)
    with pytest.raises(TokenizerError, match="not a sentencepiece model") as caught:
        Tokenizer.load(single)
    assert str(single) in str(caught.value)


def test_a_single_model_file_is_not_a_folder(folder):
    with pytest.raises(TokenizerError, match="give the tokenizer folder"):
        Tokenizer.load(folder / "joint.model")


@pytest.mark.parametrize(
    "manifest",
    ["", "[]", "{}", "null", "[" * 5000, '{"format": 99}', "{" + '"a":1,' * 20_000 + '"b":1}', "\ud800",
     '{"format": 1, "normalization": "x", "files": {}, "sha256": ""}',
     '{"format": 1, "normalization": "nfc", "files": {"../../etc/passwd": ""}, "sha256": ""}',
     '{"format": 1, "normalization": "nfc", "files": {"joint.model": ""}, "sha256": 3}'],
)  # fmt: skip
def test_hostile_manifests(folder, manifest):
    (folder / "tokenizer.json").write_bytes(manifest.encode("utf-8", "surrogatepass"))
    with pytest.raises(TokenizerError):
        Tokenizer.load(folder)


def test_a_missing_folder(tmp_path):
    with pytest.raises(TokenizerError, match="no such file"):
        Tokenizer.load(tmp_path / "nowhere")
    (tmp_path / "joint.model").mkdir()
    with pytest.raises(TokenizerError):
        Tokenizer.load(tmp_path)


def test_a_folder_that_cannot_be_written(tmp_path, joint):
    (tmp_path / "file").write_text("", encoding="utf-8")
    with pytest.raises(TokenizerError, match="cannot be written"):
        joint.save(tmp_path / "file" / "x")


def test_saved_models_work_with_the_library_alone(folder, joint):
    import sentencepiece

    loaded = sentencepiece.SentencePieceProcessor(model_file=str(folder / "joint.model"))
    assert loaded.encode("the cat sat") == joint.encode_source(["the cat sat"])[0]
    assert any(piece.kind is Kind.byte for piece in joint._source.model.pieces)


def test_training_writes_nothing_to_the_terminal(tmp_path):
    code = (
        "from mt.config.schema import TokenizerConfig\n"
        "from mt.data.tokenizer import train_tokenizer\n"
        "train_tokenizer(TokenizerConfig(), ['a b c'], ['d e f'])\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("", "")
    shutil.rmtree(tmp_path)
