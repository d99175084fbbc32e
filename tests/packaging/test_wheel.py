"""The wheel holds all that a checkout has: installed elsewhere, the commands find their files."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A wheel of this checkout."""
    folder = tmp_path_factory.mktemp("dist")
    build = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder), str(ROOT)]
    subprocess.run(build, check=True, capture_output=True)
    (path,) = folder.glob("*.whl")
    return path


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the wheel's content as pip installs it; what it needs comes from the environment."""
    folder = tmp_path_factory.mktemp("site")
    pip = [
        sys.executable,
        "-m",
        "pip",
        "install",
        "--no-deps",
        "--no-index",
        "--target",
        str(folder),
        str(wheel),
    ]
    subprocess.run(pip, check=True, capture_output=True)
    return folder


def run(installed: Path, folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run a command of the installed copy from another folder."""
    return subprocess.run(
        [sys.executable, *words],
        cwd=folder,
        env={"PATH": os.environ["PATH"], "PYTHONPATH": str(installed), "LC_ALL": "C.UTF-8"},
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
        stdin=subprocess.DEVNULL,
    )


def test_the_wheel_has_every_yaml_file_and_no_tests(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    files = {
        f"mt/conf/{path.relative_to(ROOT / 'conf').as_posix()}" for path in (ROOT / "conf").rglob("*.yaml")
    }
    demo = {f"mt/data/demo/{path.name}" for path in (ROOT / "data" / "demo").iterdir()}
    modules = {
        path.relative_to(ROOT).as_posix()
        for path in (ROOT / "mt").rglob("*.*")
        if path.suffix in (".py", ".html")
    }
    assert len(files) > 15 and len(demo) == 10
    assert files | demo | modules <= names
    assert wheel.stat().st_size < 1_500_000
    assert not [name for name in names if name.startswith(("tests/", "conf/", "data/", "scripts/"))]
    assert any(name.endswith("/licenses/LICENSE") for name in names)


def test_the_installed_copy_is_what_runs_and_finds_its_files(installed: Path, tmp_path: Path) -> None:
    code = "import mt, mt.config.paths as p; print(mt.__file__, p.CONFIG_DIR, p.DEMO_DIR, sep='\\n')"
    lines = run(installed, tmp_path, "-c", code).stdout.splitlines()
    assert lines == [str(installed / "mt" / name) for name in ("__init__.py", "conf", "data/demo")]


@pytest.mark.parametrize("command", ["prepare", "train", "translate", "evaluate", "compare"])
def test_every_command_answers_from_anywhere(command: str, installed: Path, tmp_path: Path) -> None:
    done = run(installed, tmp_path, "-m", f"mt.{command}", "--help")
    assert (done.returncode, done.stderr) == (0, "")
    assert f"mt.{command}" in done.stdout
    script = installed / "bin" / f"mt-{command}"
    if os.name == "posix":
        assert f"Usage: mt-{command} " in run(installed, tmp_path, str(script), "--help").stdout
    assert list(tmp_path.iterdir()) == []


def test_the_installed_copy_prepares_the_demo_corpus_by_default(installed: Path, tmp_path: Path) -> None:
    done = run(installed, tmp_path, "-m", "mt.prepare")
    assert done.returncode == 0, done.stderr
    assert str(installed / "mt" / "data" / "demo" / "train.fr") in done.stdout


def test_an_experiment_composes_in_the_installed_copy(installed: Path, tmp_path: Path) -> None:
    done = run(installed, tmp_path, "-m", "mt.train", "experiment=multi30k_fr_en", "--cfg", "job")
    assert done.returncode == 0 and "kind: multi30k" in done.stdout
    done = run(installed, tmp_path, "-m", "mt.train", "model.droput=1")
    assert done.returncode == 2 and "model.dropout" in done.stderr


LINES = [("un chat", "a cat"), ("un chien", "a dog"), ("deux chats", "two cats"), ("deux chiens", "two dogs")]


def test_the_installed_copy_trains_and_translates(installed: Path, tmp_path: Path) -> None:
    words = ["data=files"]
    for split in ("train", "valid"):
        for side, name in enumerate(("source", "target")):
            path = tmp_path / f"{split}.{name}"
            path.write_text("".join(pair[side] + "\n" for pair in LINES * 4), encoding="utf-8")
            words.append(f"data.{split}_{name}={path.name}")
    words += ["model=tiny", "tokenizer.vocab_size=300", "training.max_steps=2", "run=run", "device=cpu"]
    done = run(installed, tmp_path, "-m", "mt.train", *words)
    assert done.returncode == 0, done.stderr
    done = run(installed, tmp_path, "-m", "mt.translate", "run=run", "input=valid.source", "output=out.txt")
    assert done.returncode == 0, done.stderr
    assert len((tmp_path / "out.txt").read_text(encoding="utf-8").splitlines()) == 16
