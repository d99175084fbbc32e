"""Which room may import which, and what no room may call; read from the syntax tree, nothing is run.

The rooms stand in a row: text flows from the left to the right, and a room knows only what it is made of.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "mt"
FILES = sorted(PACKAGE.rglob("*.py"))
SCRIPTS = sorted((ROOT / "scripts").rglob("*.py"))

# room -> rooms it may import, besides itself and what stands outside of all rooms
ALLOWED = {
    "config": set(),
    "data": {"config"},
    "kernels": {"config"},
    "attention": {"config", "kernels"},
    "models": {"config", "kernels", "attention"},
    "decoding": {"config", "data", "models"},
    "evaluation": {"config"},
    "training": {"config", "data", "kernels", "attention", "models", "decoding", "evaluation"},
}

# Modules for every room, which import none.
FOR_ALL = {"errors", "files", "__version__"}

# Running code that came with data, or a program by way of a shell, needs one of these.
FORBIDDEN_MODULES = {"pickle", "cPickle", "dill", "cloudpickle", "marshal", "shelve", "joblib", "runpy"}
# These listen on the network; torchrun, whom the user starts, is the only one who does.
FORBIDDEN_MODULES |= {"http.server", "socketserver", "xmlrpc", "wsgiref", "asyncio"}
# Entities of XML read files and grow without bounds; no corpus is read from it.
FORBIDDEN_MODULES |= {"xml", "lxml"}
FORBIDDEN_METHODS = {"bind", "listen", "create_server", "serve_forever"}
FORBIDDEN_CALLS = {
    "eval",
    "exec",
    "compile",
    "__import__",
    "yaml.load",
    "yaml.load_all",
    "yaml.unsafe_load",
    "yaml.unsafe_load_all",
    "yaml.full_load",
    "yaml.full_load_all",
    "torch.load",
    "torch.save",
    "torch.hub.load",
    "numpy.load",
    "np.load",
    "os.system",
    "os.popen",
    "subprocess.getoutput",
    "subprocess.getstatusoutput",
    "hydra.utils.instantiate",
    "hydra.utils.call",
    "instantiate",
}
# np.load is fine where it can't unpickle.
SAFE_KEYWORDS = {"np.load": ("allow_pickle", False), "numpy.load": ("allow_pickle", False)}
FORBIDDEN_KEYWORDS = {
    ("shell", True),
    ("allow_pickle", True),
    ("trust_remote_code", True),
    ("weights_only", False),
}


# Loaders of YAML that make objects.
FORBIDDEN_NAMES = {f"yaml.{prefix}{kind}Loader" for prefix in ("", "C") for kind in ("", "Full", "Unsafe")}


def name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def imported(path: Path, code: ast.AST) -> Iterator[str]:
    """Full names of all modules that a file imports, also inside functions."""
    for node in ast.walk(code):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                parents = path.relative_to(ROOT).parts[: -node.level]
                base = ".".join([*parents, base]).strip(".")
            yield base
            yield from (f"{base}.{alias.name}" for alias in node.names)


def layer_faults(path: Path, code: ast.AST) -> list[str]:
    """Imports that a file's room is not allowed."""
    room = path.relative_to(PACKAGE).parts[0]
    if room not in ALLOWED:
        own = [module for module in imported(path, code) if module.split(".")[0] == "mt"]
        return own if path.stem in FOR_ALL else []  # the others are entry points and mt/__init__.py
    faults = []
    for module in imported(path, code):
        parts = module.split(".")
        if parts[0] == "mt" and len(parts) > 1:
            other = parts[1]
            if other not in ALLOWED[room] | {room, *FOR_ALL}:
                faults.append(module)
        elif room != "config" and parts[0] in ("hydra", "omegaconf"):
            faults.append(module)
    return faults


def call_faults(path: Path, code: ast.AST) -> list[str]:
    """Imports and calls that could run what came from outside."""
    forbidden = tuple(f"{module}." for module in FORBIDDEN_MODULES)
    known = list(imported(path, code))
    faults = [module for module in known if f"{module}.".startswith(forbidden)]
    # A function that was imported by itself is called by its last name alone.
    alone = {each.rpartition(".")[2]: each for each in known if each in FORBIDDEN_CALLS}
    for node in ast.walk(code):
        if isinstance(node, ast.Attribute) and ast.unparse(node) in FORBIDDEN_NAMES:
            faults.append(f"line {node.lineno}: {ast.unparse(node)}")
        if not isinstance(node, ast.Call):
            continue
        called = ast.unparse(node.func)
        called = alone.get(called, called)
        if called.rpartition(".")[2] in FORBIDDEN_METHODS:
            faults.append(f"line {node.lineno}: {called}")
        constants = {
            (word.arg, word.value.value) for word in node.keywords if isinstance(word.value, ast.Constant)
        }
        if called in FORBIDDEN_CALLS and SAFE_KEYWORDS.get(called) not in constants:
            faults.append(f"line {node.lineno}: {called}")
        faults += [f"line {node.lineno}: {key}={value}" for key, value in FORBIDDEN_KEYWORDS & constants]
        if called.rpartition(".")[2] in ("extractall", "extract") and "filter" not in {
            word.arg for word in node.keywords
        }:
            faults.append(f"line {node.lineno}: {called} without a filter")
    return faults


@pytest.mark.parametrize("path", FILES, ids=name)
def test_a_room_imports_only_what_it_is_made_of(path: Path) -> None:
    assert layer_faults(path, tree(path)) == []


@pytest.mark.parametrize("path", [*FILES, *SCRIPTS], ids=name)
def test_nothing_runs_what_came_from_outside(path: Path) -> None:
    assert call_faults(path, tree(path)) == []


def test_every_room_has_its_place() -> None:
    rooms = {path.name for path in PACKAGE.iterdir() if path.is_dir() and any(path.glob("*.py"))}
    assert rooms == set(ALLOWED)


@pytest.mark.parametrize("path", FILES, ids=name)
def test_every_module_says_what_it_is(path: Path) -> None:
    assert ast.get_docstring(tree(path))


@pytest.mark.parametrize(
    ("file", "code"),
    [
        ("data/x.py", "import mt.models.build"),
        ("models/x.py", "from mt.data import store"),
        ("models/x.py", "from mt import data"),
        ("data/x.py", "from ..models import build"),
        ("decoding/x.py", "def f():\n    from mt.training.trainer import train"),
        ("evaluation/x.py", "import omegaconf"),
        ("config/x.py", "from mt.data.lines import read_lines"),
        ("attention/x.py", "from mt.train import main"),
        ("files.py", "from mt.data.lines import printable"),
    ],
)
def test_the_first_test_would_notice(file: str, code: str) -> None:
    assert layer_faults(PACKAGE / file, ast.parse(code))


@pytest.mark.parametrize(
    "code",
    [
        "import pickle",
        "import http.server",
        "import xml.etree.ElementTree as ET",
        "from http.server import HTTPServer",
        "server.bind((host, port))",
        "from yaml import load\nload(f)",
        "from torch import load\nload(f)",
        "yaml.load(f, yaml.SafeLoader)",
        "parse(f, Loader=yaml.UnsafeLoader)",
        "os.system(x)",
        "from pickle import loads",
        "eval(text)",
        "yaml.load(f)",
        "torch.load(f, weights_only=True)",
        "np.load(f)",
        "np.load(f, allow_pickle=True)",
        "subprocess.run(x, shell=True)",
        "load_dataset(x, trust_remote_code=True)",
        "archive.extractall(folder)",
        "model.load(f, weights_only=False)",
        "exec(text)",
        "hydra.utils.instantiate(config)",
    ],
)
def test_the_second_test_would_notice(code: str) -> None:
    assert call_faults(PACKAGE / "x.py", ast.parse(code))


@pytest.mark.parametrize(
    "code",
    [
        "np.load(f, allow_pickle=False)",
        "yaml.safe_load(f)",
        "archive.extractall(folder, filter='data')",
        "load(f)",
    ],
)
def test_the_second_test_lets_pass_what_is_harmless(code: str) -> None:
    assert not call_faults(PACKAGE / "x.py", ast.parse(code))
