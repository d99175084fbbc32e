"""From checked words to a checked dataclass, with every problem found on the way.

Contract: inside `open_hydra`, a `Composition` answers what the YAML files and words of one command
amount to. Problems of words, YAML files, interpolations, ranges and relations are gathered, never
raised one by one. Nothing is written and no corpus is read.
Not in here: running anything, and the terminal.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Generic, TypeVar

import yaml
from hydra import compose, initialize_config_dir
from hydra.core.config_loader import ConfigLoader
from hydra.core.config_search_path import ConfigSearchPath
from hydra.core.global_hydra import GlobalHydra
from hydra.core.object_type import ObjectType
from hydra.core.plugins import Plugins
from hydra.errors import HydraException
from hydra.plugins.search_path_plugin import SearchPathPlugin
from hydra.types import RunMode
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import MissingMandatoryValue, OmegaConfBaseException

from mt.config.fields import assign, options, sections, show, value_of
from mt.config.paths import CONFIG_DIR
from mt.config.run_config import load_config
from mt.config.schema import TrainConfig
from mt.config.store import register
from mt.config.validate import Problem, find_problems, missing_files, range_fault
from mt.config.words import SWEEP_GROUP, Vocabulary, Words, did_you_mean, read_words, value_faults
from mt.errors import UsageError

ConfigT = TypeVar("ConfigT")


@dataclass
class Checked(Generic[ConfigT]):
    """The outcome of one composition: a configuration, or problems (or, without `relations`, both).

    `draft` is the configuration even where there are problems, as far as it could be composed.
    """

    config: ConfigT | None
    problems: list[Problem] = field(default_factory=list)
    draft: ConfigT | None = None


class Composition:
    """What the words of one command line compose to; made by `open_hydra`."""

    def __init__(self, schema: type[Any], config_name: str, config_dir: str | None) -> None:
        self.schema, self.config_name, self.config_dir = schema, config_name, config_dir
        self._loader: ConfigLoader = GlobalHydra.instance().config_loader()
        if not any((folder / f"{config_name}.yaml").is_file() for folder in self._folders()):
            names = sorted(path.stem for folder in self._folders() for path in folder.glob("*.yaml"))
            raise UsageError(
                f"--config-name {config_name}: no such file; there is {', '.join(names)}"
                f"{did_you_mean(config_name, names)}"
            )
        self._groups = self._root_groups()

    def _folders(self) -> list[Path]:
        return [CONFIG_DIR] + ([Path(self.config_dir)] if self.config_dir is not None else [])

    def groups(self) -> dict[str, list[str]]:
        """Choices by group: those that the root's defaults list has a place for, and ready-made sweeps."""
        return {
            group: sorted(
                {path.stem for folder in self._folders() for path in (folder / group).glob("*.yaml")}
            )
            for group in [*self._groups, *([SWEEP_GROUP] if self.schema is TrainConfig else [])]
        }

    def _groups_of_hydra(self) -> dict[str, list[str]]:
        def listing(group: str, kind: ObjectType) -> list[str]:
            return self._loader.get_group_options(group, kind, self.config_name, [])

        names = ["hydra/" + name for name in listing("hydra", ObjectType.GROUP)]
        return {name: sorted(listing(name, ObjectType.CONFIG)) for name in names}

    def read(self, typed: Sequence[str], multirun: bool) -> Words:
        """Parse and check the words themselves."""
        typed = self._expanded(typed)
        asks_hydra = any(word.lstrip("+~").startswith("hydra") for word in typed)
        groups = self.groups() | (self._groups_of_hydra() if asks_hydra else {})
        node = OmegaConf.create()
        if asks_hydra:
            choices = [w for w in typed if w.startswith("hydra/") and self._composes([w])]
            node = self._compose(choices).hydra
        return read_words(typed, Vocabulary(self.schema, groups, node), multirun, self._loader)

    def _root_groups(self) -> list[str]:
        """The groups that the root's defaults list has a place for."""
        names = []
        for folder in self._folders():
            path = folder / f"{self.config_name}.yaml"
            if path.is_file():
                try:
                    root = yaml.safe_load(path.read_text(encoding="utf-8"))
                except (yaml.YAMLError, UnicodeDecodeError):
                    continue  # composing will say what is wrong with it
                for entry in root.get("defaults") or [] if isinstance(root, dict) else []:
                    if isinstance(entry, dict):
                        names += [str(name) for name in entry]
        return [name for name in names if not name.startswith("override ")]

    def _composes(self, words: Sequence[str]) -> bool:
        try:
            self._compose(words)
        except (HydraException, OmegaConfBaseException):
            return False
        return True

    def _compose(self, words: Sequence[str]) -> DictConfig:
        return compose(self.config_name, list(words), return_hydra_config=True)

    def sweep_folder(self, words: Words) -> tuple[str, bool]:
        """Where Hydra will put a sweep, and whether that is a place that the user chose."""
        plain = [word for word in words.good if word.startswith("hydra")]
        folder = str(self._compose(plain).hydra.sweep.dir)
        return folder, folder != str(self._compose([]).hydra.sweep.dir)

    def multirun_asked(self, words: Sequence[str]) -> bool:
        """Whether ``hydra.mode`` or ``+sweep`` asks for a sweep, as ``-m`` does."""
        modes = any(word.startswith("hydra.mode=") and word.endswith("MULTIRUN") for word in words)
        return modes or any(self._ready_made(word) for word in words)

    def _ready_made(self, word: str) -> bool:
        """Whether a word names a sweep of ``conf/sweep``."""
        return word.partition("=")[0].lstrip("+") == SWEEP_GROUP and SWEEP_GROUP in self.groups()

    def _expanded(self, typed: Sequence[str]) -> list[str]:
        """The words with those of a ready-made sweep before them; what is given one by one wins.

        As words of the command line they are checked, and known before Hydra starts.
        """
        named = ["+" + word.lstrip("+") for word in typed if self._ready_made(word)]
        rest = [word for word in typed if not self._ready_made(word)]
        if not named or not self._composes(named):
            return [*named, *rest]
        given = {word.partition("=")[0] for word in rest}
        params = self._compose(named).hydra.sweeper.params or {}
        swept = [f"{key}={value}" for key, value in params.items() if key not in given]
        return [*named, *swept, *rest, "hydra.sweeper.params=null"]

    def check(self, words: Words, relations: bool = True) -> Checked[Any]:
        """Compose the good words, and look at the outcome.

        Args:
            words: from `read`; their problems are part of the answer.
            relations: also look at ranges, relations and files (not for ``--cfg``).

        Raises:
            CheckpointError: ``resume`` names no run folder whose configuration can be read.
        """
        found = list(words.problems)
        suspects = {key for problem in found for key in problem.keys}
        try:
            composed = self._compose(words.good)
        except (HydraException, OmegaConfBaseException, yaml.YAMLError, UnicodeDecodeError) as error:
            return Checked(None, found + (self._yaml_problems(words) or [Problem((), _in_one_line(error))]))
        config, unresolved = to_dataclass(composed, self.schema)
        found += unresolved
        if config is None or not relations:
            return Checked(config, found, config)
        if isinstance(config, TrainConfig) and config.resume is not None and os.path.isdir(config.resume):
            config = self._resumed(config, words)
        for problem in find_problems(config) + missing_files(config):
            # What follows from a slip that is reported already would only confuse.
            if not suspects & set(problem.keys):
                found.append(problem)
        return Checked(None if found else config, found, config)

    def _resumed(self, config: TrainConfig, words: Words) -> TrainConfig:
        """The stored configuration of a run, with what this command line gives put over it."""
        assert config.resume is not None
        stored = load_config(Path(config.resume, "config.yaml"))
        plain, _ = to_dataclass(self._compose([]), self.schema)
        given = {key for key in options(TrainConfig) if value_of(plain, key) != value_of(config, key)}
        for override in words.overrides:
            name = override.key_or_group
            is_choice = name in sections(TrainConfig) and isinstance(override.value(), str)
            for key in options(TrainConfig):
                below = key == name or key.startswith(name + ".")
                if below and not (is_choice and value_of(config, key) is None):
                    given.add(key)
        for key in given:
            assign(stored, key, value_of(config, key))
        return stored

    def jobs(self, words: Words) -> list[Words]:
        """The words of each job of a sweep, in the order the basic sweeper runs them.

        [] for other sweepers, which choose their jobs as they go.
        """
        sweeper = self._compose([word for word in words.good if word.startswith("hydra/")]).hydra.sweeper
        if not str(sweeper.get("_target_")).endswith(".BasicSweeper"):
            return []
        columns: dict[str, list[str]] = {}  # of a key given twice, the last value in the first one's place
        for word, override in zip(words.good, words.overrides, strict=True):
            if override.is_hydra_override():
                continue
            key = override.get_key_element()
            columns[key] = [word]
            if override.is_discrete_sweep():
                columns[key] = [f"{key}={value}" for value in override.sweep_string_iterator()]
        return [Words(good=list(job)) for job in itertools.product(*columns.values())]

    # ------------------------------------------------------------------ YAML files

    def _yaml_problems(self, words: Words) -> list[Problem]:
        """Every fault of the YAML files that take part, with file and line."""
        try:
            composed = self._loader.compute_defaults_list(self.config_name, words.good, RunMode.RUN)
        except (HydraException, OmegaConfBaseException, yaml.YAMLError):
            return []  # some file can't be read or found: what `compose` said is all there is to say
        vocabulary = Vocabulary(self.schema, {}, OmegaConf.create())
        leaves = options(self.schema)
        found: list[Problem] = []
        for default in composed.defaults:
            for folder in self._folders():
                path = folder / f"{default.config_path}.yaml"
                if not path.is_file():
                    continue
                package = (default.package or "").replace("_global_", "")
                for key, value, line in _leaves_of(path):
                    full = f"{package}.{key}".strip(".")
                    if full.startswith("hydra"):
                        continue
                    place = f"{path}:{line}: "
                    faults = list(value_faults(full, value, vocabulary, leaves, place))
                    fault = range_fault(leaves[full], value) if full in leaves and not faults else None
                    if fault:
                        faults.append(Problem((full,), f"{place}{full}={show(value)}: {fault}"))
                    found += faults
        return found


class _UserFolder(SearchPathPlugin):
    """Puts the user's folder behind ours in Hydra's search path, also for root files and real runs."""

    folder: ClassVar[str | None] = None

    def manipulate_search_path(self, search_path: ConfigSearchPath) -> None:
        if self.folder is not None:
            search_path.append("command-line", "file://" + os.path.abspath(self.folder))


@contextmanager
def user_folder(config_dir: str | None) -> Iterator[None]:
    """Add the folder of ``--config-dir`` to every search path that Hydra makes in this block.

    Raises:
        UsageError: there is no such folder.
    """
    if config_dir is not None and not os.path.isdir(config_dir):
        raise UsageError(f"--config-dir {config_dir}: no such folder")
    register()
    Plugins.instance().register(_UserFolder)
    before, _UserFolder.folder = _UserFolder.folder, config_dir
    try:
        yield
    finally:
        _UserFolder.folder = before


@contextmanager
def open_hydra(schema: type[Any], config_name: str, config_dir: str | None = None) -> Iterator[Composition]:
    """Hydra's compose API over our YAML files and the user's; left clean afterwards.

    Args:
        schema: the command's options.
        config_name: its root YAML.
        config_dir: the user's own folder of YAML files (``--config-dir``), searched after ours.

    Raises:
        UsageError: there is no such folder or root.
    """
    GlobalHydra.instance().clear()
    with user_folder(config_dir), initialize_config_dir(str(CONFIG_DIR), version_base="1.3"):
        yield Composition(schema, config_name, config_dir)


def to_dataclass(composed: DictConfig, schema: type[Any]) -> tuple[Any, list[Problem]]:
    """Resolve every interpolation and leave OmegaConf behind.

    Returns:
        The dataclass, or None; and a problem for each option that does not resolve.
    """
    found: list[Problem] = []
    config = schema()
    for key, option in options(schema).items():
        try:
            value = OmegaConf.select(composed, key, throw_on_missing=True)
        except MissingMandatoryValue:
            found.append(Problem((key,), f"{key} must be given: {option.doc}"))
            continue
        except OmegaConfBaseException as error:
            reason = str(error).splitlines()[0]
            raw = OmegaConf.to_container(composed, resolve=False)
            for name in key.split("."):
                raw = raw.get(name) if isinstance(raw, dict) else raw
            found.append(Problem((key,), f"{key}={raw}: {reason}"))
            continue
        if OmegaConf.is_config(value):
            value = OmegaConf.to_container(value, resolve=True)
        if option.path and value is not None:
            items = value if isinstance(value, list) else [value]
            expanded = [os.path.expanduser(item) for item in items]
            value = expanded if isinstance(value, list) else expanded[0]
        assign(config, key, value)
    return (None if found else config), found


def _leaves_of(path: Path) -> Iterator[tuple[str, Any, int]]:
    """Dotted key, plain value and line of every option that a YAML file sets."""
    values = OmegaConf.to_container(OmegaConf.load(path), resolve=False)
    tree = yaml.compose(path.read_text(encoding="utf-8"), Loader=yaml.SafeLoader)
    if not isinstance(values, dict) or tree is None:
        return
    values.pop("defaults", None)
    yield from _walk(tree, values, "")


def _walk(tree: Any, values: dict[Any, Any], prefix: str) -> Iterator[tuple[str, Any, int]]:
    lines = {key.value: (key.start_mark.line + 1, node) for key, node in tree.value}
    for name, value in values.items():
        line, node = lines.get(str(name), (tree.start_mark.line + 1, None))
        key = f"{prefix}.{name}".strip(".")
        if isinstance(value, dict) and isinstance(node, yaml.MappingNode):
            yield from _walk(node, value, key)
        else:
            yield key, value, line


def _in_one_line(error: BaseException) -> str:
    """What Hydra or YAML says, without its hints at their own manuals."""
    cause: BaseException | None = error
    while cause is not None and not isinstance(cause, yaml.MarkedYAMLError):
        cause = cause.__cause__ or cause.__context__
    if cause is not None and cause.problem_mark is not None:
        mark = cause.problem_mark
        return f"{mark.name}:{mark.line + 1}: not valid YAML ({cause.problem})"
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    if error.__cause__ is not None:
        lines += [line.strip() for line in str(error.__cause__).splitlines()[:1]]
    if "Config search path:" in lines:
        lines = lines[: lines.index("Config search path:")]
    return " ".join(line for line in lines if not line.startswith("See https"))
