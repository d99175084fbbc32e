"""Where the text of a corpus lies: the user's files, or a known corpus fetched and verified.

Contract: `locate` gives the two files of a split, `test_sets` those of every test set there is. For
`data.kind=files` these are the paths in the configuration, relative to the working directory. The files
of a known corpus come from ``data.root`` (plain or compressed). Without it, those of demo come with the
code, and those of multi30k are downloaded once into the cache: written aside, size and SHA-256
compared, then renamed, so that a file with the final name is whole.
Not in here: reading, and what a line is.
"""

from __future__ import annotations

import copy
import dataclasses
import hashlib
import http.client
import logging
import os
import urllib.error
import urllib.request
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from mt.config.paths import DEMO_DIR
from mt.config.schema import CorpusKind, DataConfig
from mt.data.lines import read_bytes
from mt.errors import ConfigError, DataError, printable
from mt.files import write_whole

_log = logging.getLogger("mt.data.corpus")

MULTI30K_ADDRESS = "https://raw.githubusercontent.com/multi30k/dataset/master/data/task1/raw"
ADDRESS_VARIABLE = "MT_MULTI30K_ADDRESS"  # a mirror of the files above
_TIMEOUT_SECONDS = 30
_SUFFIXES = ("", ".gz", ".xz", ".zst")

# Bytes and SHA-256 of every published file (Elliott et al. 2016, 2017; Barrault et al. 2018).
_MULTI30K = {
    "test_2016_flickr.cs.gz": (22572, "200a4a74cc9560f051924abb9803be008d1908d77f747e9141aeb86dfd2797f1"),
    "test_2016_flickr.de.gz": (22890, "9204244e408ccb38d2a55cfcd344df15005fc42a07a6e55ca6c52b6ababb8cc8"),
    "test_2016_flickr.en.gz": (21077, "611d361c6334bc7246101d48097c13cf5c4413c5befc793cc629934359d532d9"),
    "test_2016_flickr.fr.gz": (22310, "6d326e188d259fb1d04ac19eae3af956559b3a0b93d7635e56c90987c40c8b90"),
    "test_2017_flickr.de.gz": (21471, "a2c89666db00c495cd8513b9d708d5a3acc205d7de312ef2bf5fb7ebc1540aee"),
    "test_2017_flickr.en.gz": (19138, "76a444ee25172e72695cddb13ae4a3bda59430617be88e0bb46b60504f054074"),
    "test_2017_flickr.fr.gz": (20434, "3ba671ceb2299f3304ffafefea7a833d08632fbaf0ba18546f8a2ec2391af496"),
    "test_2017_mscoco.de.gz": (10230, "799e4854c25d601cb6cb6be29eabe5667734c61ace2f495e03e429031a0bc338"),
    "test_2017_mscoco.en.gz": (8844, "aab300bfb4427697987e02cd0aacd44bfe8aa50456231b6474c08038bbed2b58"),
    "test_2017_mscoco.fr.gz": (9751, "754f3072ba9f124569ba5258b32730fc1d214bbf8e0c6dfb2b74401676220db0"),
    "test_2018_flickr.cs.gz": (25181, "7d0a9db904f94c554a8c58049a9f3a5357c27f46cc3d710d70cb0b4a2585b8c2"),
    "test_2018_flickr.de.gz": (26461, "ddd0130c7d97482dc5197a02141dae8dd79f20f03586c480d675c09a32daf608"),
    "test_2018_flickr.en.gz": (23514, "ef4f4844037d4c5dea75c9a8ed5fd78905967a26f67c255e230cc9780032654d"),
    "test_2018_flickr.fr.gz": (25321, "fb2b83fcceb937a4f7e3e93c1c51c22aba92f1e342391e6b5ba392b16a920501"),
    "train.cs.gz": (593827, "a65adb8b32e3bc664f21ecba7a6e7f6950fd1f405e135f7c312faabdb6255077"),
    "train.de.gz": (637044, "726e39b2fa9eb9ffb6dc763fb35a179f80fae06ffc5d28b6ace5faa883de28a6"),
    "train.en.gz": (568929, "d79cfa999dd4c51d2cb42499b6796d5a882c3a8a961923c25a898c90f8bbd56f"),
    "train.fr.gz": (604242, "622e75069e9f4c577425c4f277116ce66e63a2401c0a2312d90073cb12379a3c"),
    "val.cs.gz": (22096, "b63226e05c4bd5dd6a42897d74b86a1b9d2c31498252c572b1ea7f7996927fcc"),
    "val.de.gz": (24681, "f0cba2f995189cf5770f29a8a9a537a3ad3f51657ad873405082ff6863a5e75a"),
    "val.en.gz": (21650, "14f7d25ddd868909a9213e361768460edcacdd6ab9d1e77b92560dc10c10dc28"),
    "val.fr.gz": (23001, "ca3106f1a72390591d25f6c45cb4cd39dec4cd3f123e099748a3ce5256c160e9"),
}
_MOVED = "; if the corpus moved, give its new place with data.root=DIR (mt.evaluate: data_root=DIR)"


@dataclass(frozen=True)
class _Known:
    """A known corpus: its languages, its test sets, and what validation files are called, best first."""

    languages: tuple[str, ...]
    test_sets: tuple[str, ...]
    valid_stems: tuple[str, ...]

    def stems(self, split: str) -> tuple[str, ...]:
        """What the files of a split are called, without language and compression."""
        return self.valid_stems if split == "valid" else (split,)


_KNOWN = {
    CorpusKind.demo: _Known(
        languages=("en", "fr"), test_sets=("test", "test_long", "showcase"), valid_stems=("valid",)
    ),
    CorpusKind.multi30k: _Known(
        languages=("cs", "de", "en", "fr"),
        test_sets=("test_2016_flickr", "test_2017_flickr", "test_2017_mscoco", "test_2018_flickr"),
        valid_stems=("val", "valid"),
    ),
}


def locate(config: DataConfig, split: str) -> tuple[Path, Path]:
    """The source file and the target file of a split.

    Args:
        config: the corpus.
        split: "train", "valid", or the name of a test set ("test" for data.kind=files).

    Raises:
        ConfigError: the configuration names no such split or language.
        DataError: a file is missing, or cannot be downloaded.
    """
    if config.kind is CorpusKind.files:
        return _given(config, split)
    _check_languages(config)
    names = ["train", "valid", *test_set_names(config)]
    if split not in names:
        raise DataError(
            f"{config.kind.name} has no {printable(split)} for {config.source}-{config.target}; "
            f"there are {', '.join(names)}"
        )
    source, target = (_known_file(config, split, code) for code in (config.source, config.target))
    return source, target


def test_set_names(config: DataConfig) -> list[str]:
    """Names of the test sets that the corpus has in both languages, without looking for the files.

    Raises:
        ConfigError: an unknown language.
    """
    if config.kind is CorpusKind.files:
        return ["test"] if config.test_source or config.test_target else []
    _check_languages(config)
    return [name for name in _KNOWN[config.kind].test_sets if _is_published(config, name)]


def test_sets(config: DataConfig, names: Sequence[str] | None = None) -> dict[str, tuple[Path, Path]]:
    """The files of the test sets.

    Args:
        config: the corpus. Under data.root, sets of which no file is there are left out; everything
            else is fetched.
        names: which sets; None = all that can be found. A set that is asked for must be there.

    Raises:
        ConfigError: an unknown language, or a name that the corpus does not have.
        DataError: a file is missing, or cannot be downloaded.
    """
    known = test_set_names(config)
    unknown = [name for name in names or () if name not in known]
    if unknown:
        there = f"this corpus has {', '.join(known) or 'no test set'}"
        raise ConfigError([f"test_sets: no test set {printable(name)}; {there}" for name in unknown])
    if names is None and config.kind is not CorpusKind.files and config.root is not None:
        present = []
        for name in known:
            found = [_find(config, Path(config.root), name, code) for code in (config.source, config.target)]
            if any(found):  # one side alone is a mistake that `locate` names
                present.append(name)
        known = present
    return {name: locate(config, name) for name in (known if names is None else names)}


def local_test_sets(config: DataConfig) -> dict[str, tuple[Path, Path]]:
    """The files of the test sets that are the user's own and there on both sides; nothing is fetched.

    Raises:
        ConfigError: an unknown language.
        DataError: a file that the configuration names is missing.
    """
    if config.kind is CorpusKind.files:
        return test_sets(config)
    if config.root is None:
        return {}
    codes = (config.source, config.target)
    found = {
        name: [_find(config, Path(config.root), name, code) for code in codes]
        for name in test_set_names(config)
    }
    return {name: (source, target) for name, (source, target) in found.items() if source and target}


def moved(config: DataConfig, root: Path) -> DataConfig:
    """The corpus with its files in the folder `root`, under the names they had."""
    if config.kind is not CorpusKind.files:
        return dataclasses.replace(config, root=str(root))
    changed = copy.copy(config)
    for split in ("train", "valid", "test"):
        for side in ("source", "target"):
            path = getattr(config, f"{split}_{side}")
            if path is not None:
                setattr(changed, f"{split}_{side}", str(root / Path(path).name))
    return changed


# These are functions that pytest must not collect where they are imported.
test_sets.__test__ = False  # type: ignore[attr-defined]
test_set_names.__test__ = False  # type: ignore[attr-defined]


def _given(config: DataConfig, split: str) -> tuple[Path, Path]:
    """The files that the configuration names."""
    short = "test" if split.startswith("test") else split
    if split not in ("train", "valid", "test"):
        raise DataError(f"data.kind=files has no {printable(split)}; there are train, valid, test")
    typed = {key: getattr(config, f"{short}_{key}") for key in ("source", "target")}
    missing = [f"data.{short}_{key} is not set; give the file" for key, path in typed.items() if not path]
    if missing:
        raise ConfigError(missing)
    for key, path in typed.items():
        if not _exists(Path(path)):
            raise DataError(
                f"data.{short}_{key}={printable(path)}: no such file "
                f"(relative paths start from {printable(os.getcwd())}); if it moved, give its new place with "
                f"data.{short}_{key}=FILE (mt.evaluate: its folder with data_root=DIR)"
            )
    return Path(typed["source"]), Path(typed["target"])


def _check_languages(config: DataConfig) -> None:
    languages = _KNOWN[config.kind].languages
    problems = [
        f"data.{key}={printable(code)}: {config.kind.name} has {', '.join(languages)}"
        for key, code in (("source", config.source), ("target", config.target))
        if code not in languages
    ]
    if not problems and config.source == config.target:
        problems.append(f"data.source and data.target are both {config.source}; choose two languages")
    if problems:
        raise ConfigError(problems)


def _is_published(config: DataConfig, split: str) -> bool:
    if config.kind is CorpusKind.demo:
        return True
    stem = _KNOWN[config.kind].stems(split)[0]
    return all(f"{stem}.{code}.gz" in _MULTI30K for code in (config.source, config.target))


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except (OSError, ValueError):
        return False


def _find(config: DataConfig, root: Path, split: str, language: str) -> Path | None:
    """A split's file in a folder, whatever its compression."""
    for name in _candidates(config, split, language):
        if _exists(root / name):
            return root / name
    return None


def _candidates(config: DataConfig, split: str, language: str) -> list[str]:
    stems = _KNOWN[config.kind].stems(split)
    return [f"{stem}.{language}{suffix}" for stem in stems for suffix in _SUFFIXES]


def _known_file(config: DataConfig, split: str, language: str) -> Path:
    published = f"{_KNOWN[config.kind].stems(split)[0]}.{language}.gz"
    if config.root is None and config.kind is CorpusKind.demo:
        own = _find(config, DEMO_DIR, split, language)
        if own is None:
            raise DataError(
                f"the demo corpus is not where it should be, in {printable(DEMO_DIR)}; get the whole project "
                "again, or give a folder that has it with data.root=DIR"
            )
        return own
    if config.root is None:
        address = os.environ.get(ADDRESS_VARIABLE) or MULTI30K_ADDRESS
        size, sha256 = _MULTI30K[published]
        return fetch(
            f"{address.rstrip('/')}/{published}", Path(config.cache) / "multi30k" / published, size, sha256
        )
    found = _find(config, Path(config.root), split, language)
    if found is None:
        looked = ", ".join(_candidates(config, split, language))
        if not _exists(Path(config.root)):
            raise DataError(
                f"data.root={printable(config.root)}: no such folder (looked for {looked} in it){_MOVED}"
            )
        raise DataError(f"data.root={printable(config.root)} holds none of {looked}{_MOVED}")
    compares = config.kind is CorpusKind.multi30k and found.suffix == ".gz"
    if compares and hashlib.sha256(read_bytes(found)).hexdigest() != _MULTI30K[published][1]:
        _log.warning(
            "%s differs from the published %s (SHA-256); scores will not compare", printable(found), published
        )
    return found


def fetch(address: str, path: Path, size: int, sha256: str) -> Path:
    """A file from the web, once: later calls find it at `path`, complete.

    Args:
        address: http or https.
        path: where it stays.
        size: its bytes.
        sha256: its SHA-256, hexadecimal.

    Returns:
        path.

    Raises:
        DataError: it cannot be fetched whole, or is not the file it should be.
    """
    if path.is_file():
        stored = read_bytes(path)
        if len(stored) == size and hashlib.sha256(stored).hexdigest() == sha256:
            return path
        _log.warning("%s is damaged; fetching it again", printable(path))
    _log.info("fetching %s", printable(address))
    content = _download(address, path, size)
    if len(content) < size:
        raise _not_fetched(address, path, f"the transfer ended after {len(content):,} of {size:,} bytes")
    if len(content) > size or hashlib.sha256(content).hexdigest() != sha256:
        raise _not_fetched(address, path, "it is not the published file (size or SHA-256 differ)")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, content)
    except OSError as error:
        raise DataError(
            f"{printable(path)} cannot be written: {error.strerror or error}; "
            f"choose another folder with data.cache=DIR"
        ) from None
    return path


def _download(address: str, path: Path, size: int) -> bytes:
    """What the server sends, at most one byte more than `size`."""
    if not address.startswith(("http://", "https://")):
        raise _not_fetched(address, path, "only http and https addresses are fetched")
    try:
        with urllib.request.urlopen(address, timeout=_TIMEOUT_SECONDS) as response:
            content: bytes = response.read(size + 1)
            return content
    except urllib.error.HTTPError as error:
        raise _not_fetched(
            address, path, f"the server answered {error.code} {printable(error.reason)}"
        ) from None
    except http.client.IncompleteRead as error:
        return error.partial
    except (OSError, http.client.HTTPException, ValueError) as error:
        reason = getattr(error, "reason", None) or error
        raise _not_fetched(address, path, printable(reason)) from None


def _not_fetched(address: str, path: Path, reason: str) -> DataError:
    return DataError(
        f"{printable(address)} cannot be fetched: {reason}; try again later, put the file at "
        f"{printable(path)}, or give a folder that has the corpus with data.root=DIR"
    )
