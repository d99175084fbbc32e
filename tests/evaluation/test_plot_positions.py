"""The drawing of positional encodings: numbers by their formula, pictures that exist, mistakes."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import matplotlib.image
import numpy as np
import pytest

from mt.config.run_config import load_config, save_config
from mt.config.schema import Positions
from mt.decoding.loading import load_run
from mt.models.build import build_model
from mt.models.storage import ModelFacts, save_model, write_facts
from tests.decoding.runs import tiny_tokenizer, write_run
from tests.evaluation import scripts


@pytest.fixture(scope="module")
def plot() -> ModuleType:
    return scripts.load("plot_positions")


def test_tables_are_the_formulas(plot: ModuleType) -> None:
    position, width = np.arange(30)[:, None], 8
    angle = position / 10000.0 ** (2 * np.arange(width // 2) / width)
    sinusoidal = plot.table_of(Positions.sinusoidal, 30, width)
    assert np.allclose(sinusoidal[:, 0::2], np.sin(angle), atol=1e-6)
    assert np.allclose(sinusoidal[:, 1::2], np.cos(angle), atol=1e-6)
    rotary = plot.table_of(Positions.rotary, 30, width)
    assert np.allclose(rotary, np.concatenate([np.cos(angle), np.sin(angle)], axis=1), atol=1e-6)


@pytest.mark.parametrize("kind", [Positions.sinusoidal, Positions.rotary])
def test_similarity_depends_on_the_distance_alone(plot: ModuleType, kind: Positions) -> None:
    length, width = 40, 16
    mean, low, high = plot.similarity(plot.table_of(kind, length, width))
    frequency = 10000.0 ** (-2 * np.arange(width // 2) / width)
    expected = np.cos(np.arange(length)[:, None] * frequency).mean(1)
    for found in (mean, low, high):
        assert np.allclose(found, expected, atol=1e-5)


def test_similarity_of_any_vectors(plot: ModuleType) -> None:
    mean, low, high = plot.similarity(np.array([[1.0, 0.0], [0.0, 2.0], [-3.0, 0.0]], dtype=np.float32))
    assert np.allclose(mean, [1.0, 0.0, -1.0]) and np.allclose(low, mean) and np.allclose(high, mean)
    mean, low, high = plot.similarity(np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]], dtype=np.float32))
    assert (low[1], mean[1], high[1]) == (0.0, 0.5, 1.0)


def learned(folder: Path) -> Path:
    tokenizer = tiny_tokenizer(70)
    run = write_run(folder, tokenizer, max_positions=12)
    config = load_config(run / "config.yaml")
    config.model.positions = Positions.learned
    save_config(config, run / "config.yaml")
    model = build_model(config.model, config.attention, tokenizer.source_size, tokenizer.target_size)
    sha256 = save_model(model, run / "model.safetensors")
    sizes = tokenizer.source_size, tokenizer.target_size
    write_facts(ModelFacts(tokenizer.sha256, *sizes, step=2, weights_sha256=sha256), run / "model.json")
    return run


def test_pictures_of_every_kind(plot: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = learned(tmp_path / "L")
    kind, table = plot.table_of_run(run, 100)
    assert kind is Positions.learned
    assert np.array_equal(table, load_run(run).model.state_dict()["positions.table"].numpy())
    for name, words in (
        ("a.png", []),
        ("b.png", ["--kind", "rotary", "--width", "32", "--length", "20"]),
        ("c.png", ["--run", str(run)]),
        ("d.svg", ["--run", str(write_run(tmp_path / "S", tiny_tokenizer(70)))]),
    ):
        assert plot.main([str(tmp_path / name), *words]) == 0
        assert name in capsys.readouterr().out
    pictures = [matplotlib.image.imread(tmp_path / f"{name}.png") for name in "abc"]
    assert all(picture.std() > 0.1 for picture in pictures)
    assert not np.array_equal(pictures[0], pictures[1]) and not np.array_equal(pictures[0], pictures[2])
    text = (tmp_path / "d.svg").read_text(encoding="utf-8")
    assert text.startswith("<?xml") and "</svg>" in text


def test_length_and_width_are_those_of_the_picture(plot: ModuleType) -> None:
    drawn = plot.figure(Positions.sinusoidal, plot.table_of(Positions.sinusoidal, 7, 4))
    image = drawn.axes[0].get_images()[0].get_array()
    assert image.shape == (7, 4) and len(drawn.axes[1].lines[0].get_ydata()) == 7


@pytest.mark.parametrize(
    "words", [["a.jpg"], ["a.png", "--length", "1"], ["a.png", "--length", "100000000"],
              ["a.png", "--width", "3"], ["a.png", "--kind", "none"],
              ["a.png", "--run", "r", "--width", "4"], ["a.png", "--run", "r", "--kind", "rotary"]]
)  # fmt: skip
def test_words_that_mean_nothing_are_refused(plot: ModuleType, words: list[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        plot.main(words)


def test_mistakes_are_one_message(
    plot: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    recurrent = write_run(tmp_path / "R", tiny_tokenizer(70), recurrent=True)
    assert plot.main([str(tmp_path / "a.png"), "--run", str(recurrent)]) == 1
    assert "counts no positions" in capsys.readouterr().err
    with pytest.raises(SystemExit, match="2"):
        plot.main([str(tmp_path / "no" / "a.png")])
    assert "there is no folder" in capsys.readouterr().err
    assert not (tmp_path / "a.png").exists()
