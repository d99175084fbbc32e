"""From files to stores: what is kept, what is counted, and what the cache remembers."""

import gzip
import itertools
import json
import threading

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mt.config.schema import CorpusKind, DataConfig, InvalidUtf8, Normalization, TokenizerConfig
from mt.data import preparation
from mt.data.preparation import prepare
from mt.errors import ConfigError, DataError, TokenizerError

NOUNS = {"cat": "katze", "dog": "hund", "child": "kind", "man": "mann", "girl": "mädchen"}
VERBS = {"sleeps": "schläft", "runs": "rennt", "eats": "isst", "reads": "liest"}
ENGLISH = [f"the {noun} {verb} now" for noun, verb in itertools.product(NOUNS, VERBS)]
GERMAN = [f"die {noun} {verb} jetzt" for noun, verb in itertools.product(NOUNS.values(), VERBS.values())]
OPTIONS = TokenizerConfig(vocab_size=300)


@pytest.fixture
def corpus(tmp_path):
    """A function that writes a corpus and gives its configuration."""

    def make(train_source=ENGLISH, train_target=GERMAN, valid=None, **options):
        valid_source, valid_target = valid or (ENGLISH[:3], GERMAN[:3])
        names = ("train_source", "train_target", "valid_source", "valid_target")
        for name, lines in zip(names, (train_source, train_target, valid_source, valid_target), strict=True):
            content = lines if isinstance(lines, bytes) else "".join(f"{line}\n" for line in lines).encode()
            (tmp_path / name).write_bytes(content)
        paths = {name: str(tmp_path / name) for name in names}
        return DataConfig(**{**paths, "cache": str(tmp_path / "cache"), **options})

    return make


def pairs_of(store, tokenizer):
    return [
        (tokenizer.decode_source(store.source(i).tolist()), tokenizer.decode(store.target(i).tolist()))
        for i in range(len(store))
    ]


def test_a_clean_corpus(corpus):
    prepared = prepare(corpus(), OPTIONS, 100)
    assert pairs_of(prepared.train, prepared.tokenizer) == list(zip(ENGLISH, GERMAN, strict=True))
    assert prepared.valid_source_lines == ENGLISH[:3] and prepared.valid_target_lines == GERMAN[:3]
    assert len(prepared.valid) == 3
    report = prepared.report
    assert report["train"]["read"] == report["train"]["kept"] == 20
    assert report["train"]["source_pieces"] == int(prepared.train.source_lengths.sum())
    assert report["tokenizer"]["sha256"] == prepared.tokenizer.sha256
    assert report["tokenizer"]["source_size"] == prepared.tokenizer.source_size
    assert report["warnings"] == [] and set(report["unknown_shares"].values()) == {0.0}
    json.dumps(report, allow_nan=False)


def test_blank_lines_are_removed_with_their_partners(corpus, caplog):
    source = ["the sun rises", "", "birds sing", "the day ends", " \u200b", "x"]
    target = ["die sonne geht auf", "ein leerer partner", "vögel singen", "", "\t", "\u3000"]
    prepared = prepare(corpus(source[:4], target[:4]), OPTIONS, 100)
    assert pairs_of(prepared.train, prepared.tokenizer) == [(source[0], target[0]), (source[2], target[2])]
    assert "removed 2 (empty source 1, empty target 1)" in prepared.report["train"]["summary"]
    assert "removed 2 (empty source 1, empty target 1)" in caplog.text
    prepared = prepare(corpus(source, target), OPTIONS, 100)
    assert prepared.report["train"]["dropped"] == {
        "empty source": 1, "empty target": 2, "empty both": 1, "too long": 0, "length ratio": 0
    }  # fmt: skip


CELLS = ["", " ", "a", "b c", "a " * 12, "\u200b", "b a b"]


@settings(max_examples=12, deadline=None)
@given(rows=st.lists(st.tuples(st.sampled_from(CELLS), st.sampled_from(CELLS)), max_size=12))
def test_every_pair_is_kept_whole_or_counted(tmp_path_factory, rows):
    folder = tmp_path_factory.getbasetemp()
    rows = [*rows, ("a b", "b a")]
    for name, column in (("source", 0), ("target", 1)):
        text = "".join(f"{row[column]}\n" for row in rows)
        (folder / name).write_text(text, encoding="utf-8", newline="\n")
    data = DataConfig(
        train_source=str(folder / "source"),
        train_target=str(folder / "target"),
        valid_source=str(folder / "source"),
        valid_target=str(folder / "target"),
        max_length=20,
        max_length_ratio=3,
        cache=str(folder / "cache"),
    )
    prepared = prepare(data, TokenizerConfig(), 100)
    counts = prepared.report["train"]
    assert counts["read"] == len(rows) == counts["kept"] + sum(counts["dropped"].values())
    sizes = [
        (len(s), len(t))
        for s, t in zip(
            prepared.tokenizer.encode_source([s for s, _ in rows]),
            prepared.tokenizer.encode_target([t for _, t in rows]),
            strict=True,
        )
    ]
    fit = [min(p) > 0 and max(p) <= 20 and max(p) <= 3 * min(p) for p in sizes]
    expected = [tuple(" ".join(t.split()) for t in row) for row, kept in zip(rows, fit, strict=True) if kept]
    assert pairs_of(prepared.train, prepared.tokenizer) == expected
    assert prepared.valid_source_lines == [" ".join(s.replace("\u200b", "").split()) for s, _ in rows]
    assert prepared.valid_target_lines == [t for _, t in rows]


def test_unequal_counts_stop_before_the_tokenizer(corpus, tmp_path, monkeypatch):
    monkeypatch.setattr(preparation, "train_tokenizer", lambda *_: pytest.fail("trained on unequal sides"))
    data = corpus(["one", "two", "three", "four"], ["eins", "zwei", "drei"])
    with pytest.raises(DataError, match=r"train_source has 4 lines, .*train_target has 3"):
        prepare(data, OPTIONS, 100)
    with pytest.raises(DataError, match=r"valid_source has 1 line, .*valid_target has 2"):
        prepare(corpus(valid=(["a"], ["a", ""])), OPTIONS, 100)
    assert not (tmp_path / "cache").exists()


def test_counts_are_those_of_the_line_rule(corpus):
    source = [f"{line}\u2028and\x85more\v" for line in ENGLISH]
    assert len(prepare(corpus(source), OPTIONS, 100).train) == len(ENGLISH)


def test_crlf_on_one_side_gives_the_same_store(corpus):
    expected = prepare(corpus(), OPTIONS, 100)
    prepared = prepare(corpus("".join(f"{line}\r\n" for line in ENGLISH).encode()), OPTIONS, 100)
    assert prepared.report["files"]["train_source"]["crlf"] == 20
    assert prepared.tokenizer.sha256 == expected.tokenizer.sha256
    assert pairs_of(prepared.train, prepared.tokenizer) == pairs_of(expected.train, expected.tokenizer)
    assert not any(
        "\r" in piece for piece in prepared.tokenizer.pieces(range(prepared.tokenizer.source_size), "source")
    )


def test_control_characters_and_marks_never_reach_the_pieces(corpus, caplog):
    source = [*ENGLISH, "first\0 sentence", "\ufeffsecond\x07 one", "third\x1b[31m red"]
    target = [*GERMAN, "erster", "zweiter", "dritter"]
    prepared = prepare(corpus(source, target), OPTIONS, 100)
    for side in ("source", "target"):
        names = "".join(prepared.tokenizer.pieces(range(prepared.tokenizer.source_size), side))
        assert not {"\0", "\x07", "\x1b", "\ufeff"} & set(names)
    counts = prepared.report["files"]["train_source"]
    assert (counts["control"], counts["control_first"], counts["bom"]) == (3, [21, 22, 23], 1)
    assert "3 lines with control characters (21, 22, 23)" in caplog.text
    assert "1 byte order mark removed" in caplog.text
    assert all(record.getMessage().isprintable() for record in caplog.records)
    with pytest.raises(DataError, match=r"train_source, line 21: control character U\+0000"):
        prepare(corpus(source, target, strict=True), OPTIONS, 100)


def test_invalid_utf8(corpus):
    source = b"a small house\nun caf\xe9 noir\nprice 5 \xe2\x82\n"
    target = ["ein kleines haus", "ein schwarzer kaffee", "preis 5 euro"]
    with pytest.raises(DataError, match=r"train_source, line 2: byte 0xE9 .*2 invalid lines"):
        prepare(corpus(source, target), OPTIONS, 100)
    prepared = prepare(corpus(source, target, invalid_utf8=InvalidUtf8.replace), OPTIONS, 100)
    assert len(prepared.train) == 3
    assert prepared.report["files"]["train_source"]["replaced"] == 2
    assert any("2 lines with invalid UTF-8" in warning for warning in prepared.report["warnings"])


def test_over_long_pairs_are_removed_and_counted(corpus):
    word = "".join(chr(97 + i * i % 26) for i in range(20_000))
    prepared = prepare(corpus([*ENGLISH, word, ENGLISH[0]], [*GERMAN, "wort", GERMAN[0]]), OPTIONS, 512)
    assert prepared.report["train"]["dropped"]["too long"] == 1
    assert prepared.report["train"]["longest_allowed"] == 256
    assert pairs_of(prepared.train, prepared.tokenizer)[-1] == (ENGLISH[0], GERMAN[0])
    shorter = prepare(corpus([*ENGLISH, "the cat " * 10], [*GERMAN, "die katze " * 10]), OPTIONS, 20)
    assert shorter.report["train"]["longest_allowed"] == 19
    assert shorter.train.source_lengths.max() <= 19
    assert shorter.report["train"]["dropped"]["too long"] == 1


def test_length_ratio(corpus):
    source, target = [*ENGLISH, "the cat sleeps now " * 4], [*GERMAN, "katze"]
    prepared = prepare(corpus(source, target, max_length_ratio=3.0), OPTIONS, 512)
    assert prepared.report["train"]["dropped"]["length ratio"] == 1
    assert len(prepared.train) == 20


def test_validation_longer_than_the_model(corpus):
    long = "the cat sleeps " * 30
    valid = (
        [ENGLISH[0], long, ENGLISH[1], "", "a"],
        [GERMAN[0], "  die katze ", f"{GERMAN[1]}\u00a0\x07", "leer", "b " * 99],
    )
    prepared = prepare(corpus(valid=valid), OPTIONS, 50)
    assert pairs_of(prepared.valid, prepared.tokenizer) == [
        (ENGLISH[0], GERMAN[0]),
        (ENGLISH[1], GERMAN[1]),
    ]
    assert prepared.valid_source_lines[1] == long.strip()
    assert prepared.valid_target_lines == valid[1]  # references are untouched
    counts = prepared.report["valid"]
    assert counts["read"] == 5 and counts["in_loss"] == 2
    assert counts["excluded"] == {"empty source": 1, "empty target": 0, "empty both": 0, "too long": 2}
    assert any("3 of 5 left out of the validation loss" in warning for warning in prepared.report["warnings"])


def test_nothing_left_is_an_error(corpus):
    with pytest.raises(DataError, match="no training pair is left: removed 2 "):
        prepare(corpus(["", "a"], ["b", " "]), OPTIONS, 100)
    with pytest.raises(DataError, match=r"no training pair is left of 20: removed 20 \(too long 20\)"):
        prepare(corpus(), OPTIONS, 3)
    with pytest.raises(DataError, match="empty corpus"):
        prepare(corpus([], []), OPTIONS, 100)
    with pytest.raises(DataError, match="empty corpus"):
        prepare(corpus(gzip.compress(b""), []), OPTIONS, 100)


def test_files_that_are_not_given(tmp_path):
    with pytest.raises(ConfigError, match=r"data\.train_source"):
        prepare(DataConfig(cache=str(tmp_path)), OPTIONS, 100)


def test_vocabulary_is_lowered_with_a_warning_or_refused(corpus, caplog):
    data = corpus()
    prepared = prepare(data, TokenizerConfig(vocab_size=8000), 100)
    actual = prepared.tokenizer.source_size
    assert prepared.report["tokenizer"]["vocab_size_asked"] == 8000
    assert prepared.report["tokenizer"]["source_size"] == actual < 8000
    assert f"lowered to {actual} pieces" in caplog.text
    caplog.clear()
    again = prepare(data, TokenizerConfig(vocab_size=8000), 100)
    assert again.cached and f"lowered to {actual} pieces" in caplog.text
    assert again.report == prepared.report
    other = prepare(data, TokenizerConfig(vocab_size=9000), 100)
    assert other.report["tokenizer"]["vocab_size_asked"] == 9000
    assert any("vocab_size=9000" in warning for warning in other.report["warnings"])
    with pytest.raises(TokenizerError, match=f"at most {actual} pieces"):
        prepare(data, TokenizerConfig(vocab_size=8000, hard_vocab_limit=True), 100)


def test_low_coverage_warns_with_measured_shares(corpus, caplog):
    chinese = ["".join(chr(0x4E00 + 5 * row + column) for column in range(5)) for row in range(20)]
    options = TokenizerConfig(vocab_size=100, byte_fallback=False, character_coverage=0.5)
    data = corpus(ENGLISH, chinese, valid=(["the cat"], [chinese[0]]))
    prepared = prepare(data, options, 100)
    shares = prepared.report["unknown_shares"]
    units = prepared.tokenizer
    measured = [units.unknown_share(line, "target") * len(line) for line in chinese]
    assert shares["train_target"] == pytest.approx(sum(measured) / 100, abs=1e-6)
    assert shares["train_target"] > 0.9
    assert f"train target {shares['train_target']:.2%}" in caplog.text and "character_coverage" in caplog.text


def test_the_tokenizer_never_sees_validation_text(corpus):
    prepared = prepare(corpus(valid=(["ЖЖЖ ЖЖЖ"] * 50, ["ЩЩЩ"] * 50)), OPTIONS, 100)
    assert not any({"Ж", "Щ"} & set(piece) for piece in prepared.tokenizer.pieces(range(300), "source"))


def test_separate_vocabularies_and_normalization(corpus):
    options = TokenizerConfig(vocab_size=290, joint=False, normalization=Normalization.nfkc)
    prepared = prepare(corpus(), options, 100)
    assert prepared.report["tokenizer"]["joint"] is False
    assert pairs_of(prepared.train, prepared.tokenizer) == list(zip(ENGLISH, GERMAN, strict=True))


# --- cache


def arrays(prepared):
    stores = (prepared.train, prepared.valid)
    return [
        side(np.arange(len(store))).tolist()
        for store in stores
        for side in (store.gather_source, store.gather_target)
    ]


def test_the_second_call_builds_nothing(corpus, monkeypatch):
    data = corpus()
    first = prepare(data, OPTIONS, 100)
    monkeypatch.setattr(preparation, "train_tokenizer", lambda *_: pytest.fail("trained again"))
    monkeypatch.setattr(preparation, "_encode", lambda *_: pytest.fail("encoded again"))
    second = prepare(data, TokenizerConfig(vocab_size=300, threads=7), 100)
    assert (first.cached, second.cached) == (False, True)
    assert arrays(first) == arrays(second)
    assert first.report == second.report
    assert first.valid_target_lines == second.valid_target_lines


@pytest.mark.parametrize(
    "change",
    [
        {"max_length": 90},
        {"max_length_ratio": 2.0},
        {"train_source": [*ENGLISH[:-1], "something else"]},
        {"valid": (ENGLISH[:2], GERMAN[:2])},
        {"positions": 80},
        {"options": TokenizerConfig(vocab_size=299)},
        {"options": TokenizerConfig(vocab_size=300, normalization=Normalization.none)},
    ],
)
def test_whatever_changes_the_result_is_prepared_anew(corpus, change):
    prepare(corpus(), OPTIONS, 100)
    change = dict(change)
    options, positions = change.pop("options", OPTIONS), change.pop("positions", 100)
    assert not prepare(corpus(**change), options, positions).cached


def test_the_same_bytes_elsewhere_are_found_and_named_truly(corpus, tmp_path):
    data = corpus([*ENGLISH, "a\x07b"], [*GERMAN, "c"])
    prepare(data, OPTIONS, 100)
    moved = tmp_path / "moved"
    (tmp_path / "train_source").rename(moved)
    data.train_source = str(moved)
    prepared = prepare(data, OPTIONS, 100)
    assert prepared.cached
    assert prepared.report["files"]["train_source"]["path"] == str(moved)
    assert prepared.report["warnings"][0].startswith(str(moved))


def test_a_lying_suffix_is_an_error_also_when_the_text_is_in_the_cache(corpus, tmp_path):
    data = corpus()
    prepare(data, OPTIONS, 100)
    data.train_target = str((tmp_path / "train_target").rename(tmp_path / "train.de.gz"))
    for _ in range(2):
        with pytest.raises(DataError, match=r"train\.de\.gz is not a gzip file"):
            prepare(data, OPTIONS, 100)


def test_a_compressed_file_without_suffix_is_said_once_each_time(corpus, caplog):
    data = corpus(gzip.compress("".join(f"{line}\n" for line in ENGLISH).encode()))
    for cached in (False, True):
        caplog.clear()
        assert prepare(data, OPTIONS, 100).cached is cached
        assert caplog.text.count("is a gzip file") == 1


def test_unequal_test_files_are_found_before_training(corpus, tmp_path):
    (tmp_path / "t.en").write_text("one\ntwo\n", encoding="utf-8")
    (tmp_path / "t.de").write_text("eins\n", encoding="utf-8")
    data = corpus(test_source=str(tmp_path / "t.en"), test_target=str(tmp_path / "t.de"))
    for _ in range(2):
        with pytest.raises(DataError, match=r"t\.en has 2 lines, .*t\.de has 1;"):
            prepare(data, OPTIONS, 100)
    (tmp_path / "t.de").write_text("eins\nzwei\n", encoding="utf-8")
    prepare(data, OPTIONS, 100)
    assert prepare(data, OPTIONS, 100).cached


def test_files_that_moved_are_named_with_the_option_to_change(corpus):
    data = corpus(test_source="gone.en", test_target="gone.de")
    with pytest.raises(DataError, match=r"if it moved, give its new place with data\.test_source=FILE"):
        prepare(data, OPTIONS, 100)
    known = DataConfig(kind=CorpusKind.multi30k, source="fr", target="en", root="gone")
    with pytest.raises(DataError, match=r"data\.root=gone: no such folder.* with data\.root=DIR"):
        prepare(known, OPTIONS, 100)


def test_a_damaged_cache_is_built_again_with_a_warning(corpus, tmp_path, caplog):
    data = corpus()
    expected = prepare(data, OPTIONS, 100)
    files = sorted(path for path in (tmp_path / "cache").rglob("*") if path.is_file())
    assert len(files) == 13
    for path in files:
        whole = path.read_bytes()
        for damage in (whole[: len(whole) // 2], whole.replace(b"5", b"6")):
            if damage == whole:
                continue
            path.write_bytes(damage)
            caplog.clear()
            prepared = prepare(data, OPTIONS, 100)
            assert "damaged" in caplog.text, path
            assert arrays(prepared) == arrays(expected)
            assert prepared.report == expected.report
            assert prepare(data, OPTIONS, 100).cached


def test_two_builders_at_once(corpus):
    data = corpus()
    found, failed = [], []
    start = threading.Barrier(3)

    def build():
        start.wait()
        try:
            found.append(prepare(data, OPTIONS, 100))
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=build) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed
    assert all(arrays(prepared) == arrays(found[0]) for prepared in found)
    assert all(prepared.report == found[0].report for prepared in found)


def test_a_cache_that_cannot_be_written(corpus, tmp_path):
    (tmp_path / "file").write_text("", encoding="utf-8")
    with pytest.raises(DataError, match=r"data\.cache=DIR"):
        prepare(corpus(cache=str(tmp_path / "file" / "cache")), OPTIONS, 100)
