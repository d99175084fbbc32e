"""What the README says is there: commands (those of `make demo` too) compose, files and options exist."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from mt.compare import _folders_as_option
from mt.config.composition import open_hydra
from mt.config.fields import options
from mt.config.schema import CompareConfig, EvaluateConfig, TrainConfig, TranslateConfig
from mt.config.words import one_as_list

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")


def commands() -> list[list[str]]:
    """The words of every ``python -m mt.…`` in a shell block, without comments, pipes and redirections."""
    blocks = "\n".join(re.findall(r"```sh\n(.*?)```", README, flags=re.DOTALL))
    return commands_in(blocks)


def demo_commands() -> list[list[str]]:
    """The same for those that `make demo` runs and those that it proposes."""
    recipe = MAKEFILE.split("\ndemo:")[1].split("\n\n")[0]
    names = dict(re.findall(r"^(\w+) \??:= (.*)$", MAKEFILE, flags=re.MULTILINE))
    filled = re.sub(r"\$\((\w+)\)", lambda match: names.get(match.group(1), match.group(1)), recipe)
    lines = []
    for line in filled.replace("\\\n", " ").splitlines():
        command = line[line.find("python -m mt.") :] if "python -m mt." in line else ""
        proposed = line.strip().startswith("@echo")
        lines.append(command.removesuffix('"').replace('\\"', '"') if proposed else command)
    return commands_in("\n".join(lines))


def commands_in(lines: str) -> list[list[str]]:
    found = []
    for line in lines.replace("\\\n", " ").splitlines():
        words = shlex.split(line, comments=True)
        for place, word in enumerate(words):
            if word == "-m" and words[place + 1].startswith("mt."):
                command = words[place + 1 :]
                found.append(command[: command.index(">")] if ">" in command else command)
                break
    return found


def test_there_are_commands() -> None:
    assert {command[0] for command in commands()} == set(SCHEMAS)


SCHEMAS = {
    "mt.prepare": (TrainConfig, "train"),
    "mt.train": (TrainConfig, "train"),
    "mt.translate": (TranslateConfig, "translate"),
    "mt.evaluate": (EvaluateConfig, "evaluate"),
    "mt.compare": (CompareConfig, "compare"),
}


def test_the_demo_has_all_its_commands() -> None:
    found = [command[0] for command in demo_commands()]
    assert found == ["mt.train", "mt.evaluate", "mt.translate", "mt.translate", "mt.train", "mt.train"]


@pytest.mark.parametrize("command", commands() + demo_commands(), ids=" ".join)
def test_a_command_composes(command: list[str]) -> None:
    words = command[1 : command.index("--")] if "--" in command else command[1:]
    sweep = "-m" in words
    words = [word for word in words if word not in ("-m", "--cfg", "job", "--help")]
    for key in ("reference", "heatmap", *["alignments"] * (command[0] == "mt.translate")):
        words = one_as_list(words, key)
    if command[0] == "mt.compare":
        words = _folders_as_option(words)
    with open_hydra(*SCHEMAS[command[0]]) as composition:
        read = composition.read(words, sweep)
        assert not read.problems
        for job in composition.jobs(read) if sweep else [read]:
            assert not composition.check(job, relations=False).problems


def test_files_exist() -> None:
    table = README.split("| where | what |")[1].split("\n\n")[0]
    for row in table.splitlines()[2:]:
        names = re.findall(r"`([^`]+)`", row.split("|")[1].replace("` `", "`"))
        folder = ""
        for name in " ".join(names).replace("` ", " ").split():
            path = Path(name)
            folder = str(path.parent) if path.parent != Path() else folder
            assert (ROOT / folder / path.name).exists(), name


def test_pictures_exist() -> None:
    pictures = re.findall(r"!\[[^\]]*\]\(([^)]+)\)", README)
    assert pictures
    assert all((ROOT / picture).is_file() for picture in pictures)


def test_named_options_exist() -> None:
    known = {
        key
        for schema in (TrainConfig, TranslateConfig, EvaluateConfig, CompareConfig)
        for key in options(schema)
    }
    sections = "data|tokenizer|model|attention|optimizer|schedule|training|decoding"
    named = set(re.findall(rf"(?<![\w./-])((?:{sections})\.[a-z_0-9]+)\b(?!\.)", README))
    named -= {"data.json", "model.json", "model.safetensors"}
    assert len(named) > 10
    assert named <= known


def test_groups_and_choices_exist() -> None:
    table = README.split("| group | chooses |")[1].split("\n\n")[0]
    for row in table.splitlines()[2:]:
        groups, choices = row.strip("|").split("|")
        for group in re.findall(r"`(\w+)`", groups):
            folder = ROOT / "conf" / group
            assert folder.is_dir(), group
            files = {path.stem for path in folder.glob("*.yaml")}
            named = set(re.findall(r"`(\w+)`", choices))
            assert named <= files, (group, named - files)
