"""Where corpus files are: given, under data.root, or downloaded and verified."""

import gzip
import hashlib
import http.client
import os
import socket
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from mt.config.schema import CorpusKind, DataConfig
from mt.data import corpus
from mt.data.corpus import ADDRESS_VARIABLE, fetch, locate
from mt.errors import ConfigError, DataError


def multi30k(**options):
    return DataConfig(kind=CorpusKind.multi30k, **options)


def test_published_table_is_complete():
    assert len(corpus._MULTI30K) == 22
    for name, (size, sha256) in corpus._MULTI30K.items():
        assert size > 8000 and len(bytes.fromhex(sha256)) == 32
        assert name.endswith((".cs.gz", ".de.gz", ".en.gz", ".fr.gz"))


def test_test_sets_of_language_pairs():
    def names(source, target):
        return corpus.test_set_names(multi30k(source=source, target=target))

    every = ["test_2016_flickr", "test_2017_flickr", "test_2017_mscoco", "test_2018_flickr"]
    assert names("en", "fr") == names("de", "fr") == every
    assert names("en", "cs") == names("cs", "de") == ["test_2016_flickr", "test_2018_flickr"]


def test_what_does_not_exist_is_named_with_what_does(tmp_path):
    with pytest.raises(ConfigError, match=r"data\.target=it: multi30k has cs, de, en, fr"):
        locate(multi30k(target="it"), "train")
    with pytest.raises(ConfigError) as caught:
        corpus.test_sets(multi30k(source="xx", target="yy"))
    assert len(caught.value.problems) == 2
    with pytest.raises(ConfigError, match="both fr"):
        locate(multi30k(source="fr", target="fr"), "train")
    with pytest.raises(
        DataError, match="no test_2017_flickr for cs-en; there are train, valid, test_2016_flickr, "
    ):
        locate(multi30k(source="cs", target="en"), "test_2017_flickr")
    with pytest.raises(ConfigError, match="no test set test_2015; this corpus has test_2016_flickr"):
        corpus.test_sets(multi30k(root=str(tmp_path)), ["test_2015"])


def test_root_takes_plain_and_compressed_files(tmp_path):
    (tmp_path / "train.fr").write_text("un\n", encoding="utf-8")
    (tmp_path / "train.en.xz").write_bytes(b"")
    (tmp_path / "valid.fr").write_text("un\n", encoding="utf-8")
    (tmp_path / "val.en").write_text("one\n", encoding="utf-8")
    (tmp_path / "valid.en").write_text("other\n", encoding="utf-8")
    config = multi30k(root=str(tmp_path))
    assert locate(config, "train") == (tmp_path / "train.fr", tmp_path / "train.en.xz")
    assert locate(config, "valid") == (tmp_path / "valid.fr", tmp_path / "val.en")


def test_root_without_a_file_lists_what_was_looked_for(tmp_path):
    with pytest.raises(DataError) as caught:
        locate(multi30k(root=str(tmp_path)), "valid")
    assert f"data.root={tmp_path} holds none of val.fr, val.fr.gz" in str(caught.value)
    assert "valid.fr.gz" in str(caught.value)
    with pytest.raises(DataError, match=r"data\.root=C:\\data\\new: no such folder"):
        locate(multi30k(root="C:\\data\\new"), "train")


def test_root_with_another_gz_is_used_with_a_warning(tmp_path, caplog):
    for language in ("fr", "en"):
        (tmp_path / f"train.{language}.gz").write_bytes(gzip.compress(b"un\n"))
    locate(multi30k(root=str(tmp_path)), "train")
    assert caplog.text.count("differs from the published train.") == 2


def test_root_leaves_out_test_sets_that_are_not_there(tmp_path):
    config = multi30k(root=str(tmp_path))
    assert corpus.test_sets(config) == {}
    for language in ("fr", "en"):
        (tmp_path / f"test_2018_flickr.{language}").write_text("x\n", encoding="utf-8")
    assert list(corpus.test_sets(config)) == ["test_2018_flickr"]
    with pytest.raises(DataError, match=r"test_2016_flickr\.fr"):
        corpus.test_sets(config, ["test_2016_flickr"])
    (tmp_path / "test_2016_flickr.en").write_text("x\n", encoding="utf-8")
    with pytest.raises(DataError, match=r"holds none of test_2016_flickr\.fr"):
        corpus.test_sets(config)  # one side alone is a mistake, not an absent set


def test_the_demo_corpus_comes_with_the_code(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    config = DataConfig(kind=CorpusKind.demo)
    sets = corpus.test_sets(config)
    assert list(sets) == ["test", "test_long", "showcase"]
    for split in ("train", "valid", *sets):
        source, target = locate(config, split)
        assert (source.name, target.name) == (f"{split}.fr", f"{split}.en")
        assert (
            source.is_absolute() and source.read_bytes().count(b"\n") == target.read_bytes().count(b"\n") > 0
        )
    back = DataConfig(kind=CorpusKind.demo, source="en", target="fr")
    assert locate(back, "test") == sets["test"][::-1]
    with pytest.raises(ConfigError, match=r"data\.target=de: demo has en, fr"):
        locate(DataConfig(kind=CorpusKind.demo, target="de"), "train")
    with pytest.raises(DataError, match="demo has no val for fr-en; there are train, valid, test, test_long"):
        locate(config, "val")
    assert os.listdir(tmp_path) == []


def test_a_demo_corpus_elsewhere_or_lost(tmp_path, monkeypatch):
    for name in ("train.fr", "train.en.gz", "test.fr", "test.en"):
        (tmp_path / name).write_bytes(b"")
    config = DataConfig(kind=CorpusKind.demo, root=str(tmp_path))
    assert locate(config, "train") == (tmp_path / "train.fr", tmp_path / "train.en.gz")
    assert list(corpus.test_sets(config)) == ["test"]
    monkeypatch.setattr(corpus, "DEMO_DIR", tmp_path / "gone")
    with pytest.raises(DataError, match=r"not where it should be, in .*gone.*data\.root=DIR"):
        locate(DataConfig(kind=CorpusKind.demo), "train")


def test_given_files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("a.fr").write_text("x\n", encoding="utf-8")
    Path("a.en").write_text("x\n", encoding="utf-8")
    config = DataConfig(train_source="a.fr", train_target="./a.en")
    assert locate(config, "train") == (Path("a.fr"), Path("a.en"))
    assert corpus.test_sets(config) == {}
    with pytest.raises(ConfigError) as caught:
        locate(config, "valid")
    assert caught.value.problems == [
        "data.valid_source is not set; give the file",
        "data.valid_target is not set; give the file",
    ]
    config.test_source, config.test_target = "a.fr", "C:\\data\\new.txt"
    with pytest.raises(DataError, match=r"data\.test_target=C:\\data\\new\.txt: no such file"):
        corpus.test_sets(config)
    config.test_target = "./nowhere//x"
    with pytest.raises(DataError) as missing:
        corpus.test_sets(config)
    assert "data.test_target=./nowhere//x: no such file" in str(missing.value)
    config.test_target = "a.en"
    assert corpus.test_sets(config) == {"test": (Path("a.fr"), Path("a.en"))}
    assert os.listdir(tmp_path) == ["a.fr", "a.en"] or sorted(os.listdir(tmp_path)) == ["a.en", "a.fr"]


# --- downloads

CONTENT = gzip.compress(b"un\ndeux\n" * 50)
SHA256 = hashlib.sha256(CONTENT).hexdigest()


class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        self.server.asked.append(self.path)
        if self.path == "/missing":
            self.send_error(404)
            return
        self.send_response(200)
        if self.path != "/unsized":
            self.send_header("Content-Length", str(len(CONTENT)))
        self.end_headers()
        sent = {"/cut": CONTENT[:20], "/unsized": CONTENT[:20], "/wrong": CONTENT[::-1]}
        self.wfile.write(sent.get(self.path, CONTENT))

    def log_message(self, *arguments):
        pass


@pytest.fixture
def server():
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as running:
        running.asked = []
        running.address = f"http://127.0.0.1:{running.server_port}"
        thread = threading.Thread(target=running.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield running
        running.shutdown()
        thread.join()


def test_a_good_file_is_fetched_once(server, tmp_path):
    path = tmp_path / "cache" / "train.fr.gz"
    assert fetch(f"{server.address}/good", path, len(CONTENT), SHA256) == path
    assert path.read_bytes() == CONTENT
    fetch(f"{server.address}/good", path, len(CONTENT), SHA256)
    assert server.asked == ["/good"]
    assert os.listdir(path.parent) == ["train.fr.gz"]


def test_a_damaged_file_in_the_cache_is_fetched_again(server, tmp_path, caplog):
    path = tmp_path / "train.fr.gz"
    for damaged in (CONTENT[:-1], CONTENT[::-1], b""):
        path.write_bytes(damaged)
        fetch(f"{server.address}/good", path, len(CONTENT), SHA256)
        assert path.read_bytes() == CONTENT
    assert caplog.text.count("is damaged") == 3


@pytest.mark.parametrize(
    ("what", "reason"),
    [("cut", "ended after 20 of"), ("unsized", "ended after 20 of"), ("wrong", "not the published file"),
     ("missing", "the server answered 404")],
)  # fmt: skip
def test_a_bad_transfer_leaves_no_file(server, tmp_path, what, reason):
    """Case 74: cut short, of another content, or not there at all."""
    path = tmp_path / "train.fr.gz"
    with pytest.raises(DataError) as caught:
        fetch(f"{server.address}/{what}", path, len(CONTENT), SHA256)
    message = str(caught.value)
    assert reason in message and server.address in message
    assert str(path) in message and "data.root=DIR" in message
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("stop", [KeyboardInterrupt, SystemExit])
def test_an_interrupt_in_the_middle_leaves_no_file_and_the_next_start_fetches_it(
    server, tmp_path, monkeypatch, stop
):
    """Case 74: Ctrl-C, or SIGTERM, while it comes, and while it is written."""
    path = tmp_path / "train.fr.gz"

    def interrupted(*_):
        raise stop

    for owner, name in ((http.client.HTTPResponse, "read"), (os, "fsync")):
        with monkeypatch.context() as patch:
            patch.setattr(owner, name, interrupted)
            with pytest.raises(stop):
                fetch(f"{server.address}/good", path, len(CONTENT), SHA256)
        assert os.listdir(tmp_path) == []
    fetch(f"{server.address}/good", path, len(CONTENT), SHA256)
    assert path.read_bytes() == CONTENT


def test_more_bytes_than_published_are_not_taken(server, tmp_path):
    with pytest.raises(DataError, match="not the published file"):
        fetch(f"{server.address}/good", tmp_path / "x", len(CONTENT) - 1, SHA256)


def test_no_network_is_said_at_once(tmp_path):
    """Case 74: with the address, the place of the file, and no second attempt."""
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{closed.getsockname()[1]}/train.fr.gz"
        with pytest.raises(DataError, match=r"cannot be fetched: .*data\.root=DIR"):
            fetch(address, tmp_path / "x", 1, SHA256)


def test_other_addresses_are_refused(tmp_path):
    secret = tmp_path / "secret"
    secret.write_bytes(CONTENT)
    with pytest.raises(DataError, match="only http"):
        fetch(secret.as_uri(), tmp_path / "x", len(CONTENT), SHA256)


def test_multi30k_downloads_into_the_cache(server, tmp_path, monkeypatch):
    monkeypatch.setenv(ADDRESS_VARIABLE, server.address + "/")
    monkeypatch.setattr(corpus, "_MULTI30K", dict.fromkeys(corpus._MULTI30K, (len(CONTENT), SHA256)))
    config = multi30k(cache=str(tmp_path / "cache"), source="en", target="de")
    source, target = locate(config, "valid")
    assert source == tmp_path / "cache" / "multi30k" / "val.en.gz"
    assert target.read_bytes() == CONTENT
    found = corpus.test_sets(config, ["test_2017_mscoco"])
    assert list(found) == ["test_2017_mscoco"]
    assert server.asked == ["/val.en.gz", "/val.de.gz", "/test_2017_mscoco.en.gz", "/test_2017_mscoco.de.gz"]
    monkeypatch.setenv(ADDRESS_VARIABLE, "http://127.0.0.1:9/")
    assert locate(config, "valid") == (source, target)  # complete files work without a network
