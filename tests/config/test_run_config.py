"""A stored configuration is data: it comes back equal, and a hostile one does nothing."""

from __future__ import annotations

import dataclasses
import json
from enum import Enum
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mt.config import run_config
from mt.config.fields import Option, assign, options, value_of
from mt.config.run_config import (
    config_hash,
    differences,
    load_config,
    resolve_decoding,
    save_config,
    to_dict,
)
from mt.config.schema import (
    AttentionConfig,
    CorpusKind,
    DecodingConfig,
    DecodingOverrides,
    Norm,
    ScoreKind,
    TrainConfig,
)
from mt.errors import CheckpointError


def possible() -> TrainConfig:
    config = TrainConfig()
    config.data.kind = CorpusKind.multi30k
    config.training.max_steps = 10
    return config


def another(option: Option, value: Any) -> Any:
    """A possible value of an option that is not `value` (of a choice among one there is none)."""
    if issubclass(option.kind, Enum):
        return next((member for member in option.kind if member is not value), value)
    if option.kind is bool:
        return not value
    if option.kind is str:
        return f"{value or 'x'}2"
    step = {int: 1, float: 0.01}[option.kind]
    return step if value is None else value + step


def test_what_is_saved_comes_back_equal(tmp_path: Path) -> None:
    config = possible()
    config.model.norm = Norm.post
    config.data.cache = "é: {x} 'y' \"z\" #1 \u2028 no"
    config.data.source = "no"  # Norwegian, and YAML's word for false
    config.optimizer.eps = 1e-9
    path = tmp_path / "config.yaml"
    save_config(config, path)
    assert load_config(path) == config
    assert [p.name for p in tmp_path.iterdir()] == ["config.yaml"]


@settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(text=st.text(st.characters(exclude_categories=["Cs"]), min_size=1), number=st.floats(1e-300, 1e300))
def test_any_text_and_number_come_back_equal(tmp_path: Path, text: str, number: float) -> None:
    config = possible()
    config.data.cache = "x" + text.replace("\0", "").replace("${", "")
    config.optimizer.lr = number
    save_config(config, tmp_path / "config.yaml")
    assert load_config(tmp_path / "config.yaml") == config


def test_a_run_from_before_there_were_scopes_and_heads_loads(tmp_path: Path) -> None:
    stored = to_dict(possible())
    stored["attention"] = {"score": "dot", "encoder": None, "decoder": None, "cross": "scaled_dot"}
    (tmp_path / "config.yaml").write_text(yaml.safe_dump(stored), encoding="utf-8")
    expected = possible()
    expected.attention = AttentionConfig(score=ScoreKind.dot, cross=ScoreKind.scaled_dot)
    assert load_config(tmp_path / "config.yaml") == expected


def test_every_option_survives(tmp_path: Path) -> None:
    config = possible()
    for key, option in options(TrainConfig).items():
        assign(config, key, another(option, value_of(config, key)))
    save_config(config, tmp_path / "c.yaml")
    again = TrainConfig()
    # Some of these values exclude each other: what is tested is the reading, not the relations.
    assert (
        run_config._fill(again, yaml.safe_load((tmp_path / "c.yaml").read_text(encoding="utf-8")), "") == []
    )
    assert again == config


def test_to_dict_is_json() -> None:
    plain = to_dict(possible())
    assert json.loads(json.dumps(plain)) == plain
    assert plain["model"]["norm"] == "pre" and plain["data"]["kind"] == "multi30k"


def test_an_option_that_an_older_version_did_not_have_takes_its_default(tmp_path: Path) -> None:
    plain = to_dict(possible())
    del plain["model"]["activation"], plain["decoding"]
    (tmp_path / "c.yaml").write_text(yaml.safe_dump(plain), encoding="utf-8")
    assert load_config(tmp_path / "c.yaml") == possible()


HOSTILE = {
    "target": "model:\n  _target_: os.system\n  command: touch CANARY\n",
    "target in tokenizer": "tokenizer:\n  _target_: logging.os.system\n  _args_: ['touch CANARY']\n",
    "python object": "seed: !!python/object/apply:os.system ['touch CANARY']\n",
    "python name": "data: !!python/name:os.system\n",
    "python module": "model: !!python/module:os\n",
    "own tag": "model: !mine {width: 4}\n",
    "environment": "data: {source: '${oc.env:HOME}'}\n",
    "environment, number": "seed: ${oc.env:UID}\n",
    "interpolation": "data: {source: '${data.target}'}\n",
    "resolver": "data: {cache: '${hydra:runtime.cwd}'}\n",
    "defaults": "defaults: [/model: tiny]\nseed: 1\n",
    "hydra": "hydra: {run: {dir: /tmp}}\n",
    "unknown key": "model: {droput: 0.1}\n",
    "unknown section": "modle: {dropout: 0.1}\n",
    "number as key": "1: 2\n",
    "merge key": "base: &x {width: 4}\nmodel: {<<: *x}\n",
    "text for number": "model: {width: wide}\n",
    "float for integer": "model: {width: 4.5}\n",
    "bool for integer": "seed: true\n",
    "list for text": "runs: [a, b]\n",
    "null for number": "seed: null\n",
    "unknown choice": "model: {norm: middle}\n",
    "list as choice": "model: {norm: [pre]}\n",
    "dict as choice": "model: {norm: {pre: 1}}\n",
    "scalar for section": "model: 4\n",
    "out of range": "model: {dropout: 1.5}\n",
    "not a number": "optimizer: {lr: .nan}\n",
    "huge": "model: {width: 1e400}\n",
    "relation": "model: {width: 30, heads: 4}\n",
    "list": "- 1\n- 2\n",
    "scalar": "hello\n",
    "empty": "",
    "broken": "model: {width: [\n",
    "tab": "model:\n\twidth: 3\n",
    "two documents": "seed: 1\n---\nseed: 2\n",
    "circular": "model: &x {width: *x}\n",
    "billion laughs": "a: &a [x,x]\nb: &b [*a,*a]\nc: [*b,*b]\n",
    "deep": "[" * 50_000,
    "date": "runs: 2024-01-01\n",
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_or_damaged_file_is_an_error_and_runs_nothing(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Case 66: a stored configuration chooses values, and names nothing that is called."""
    monkeypatch.chdir(tmp_path)
    Path("config.yaml").write_text(HOSTILE[name], encoding="utf-8")
    with pytest.raises(CheckpointError, match=r"config\.yaml"):
        load_config(Path("config.yaml"))
    assert [path.name for path in Path().iterdir()] == ["config.yaml"]


def test_files_that_are_no_text(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    with pytest.raises(CheckpointError, match="no such file"):
        load_config(path)
    path.write_bytes(b"seed: \xff\n")
    with pytest.raises(CheckpointError, match="UTF-8"):
        load_config(path)
    path.write_bytes(b"# " + b"x" * 2_000_000)
    with pytest.raises(CheckpointError, match="larger"):
        load_config(path)
    path.unlink()
    path.mkdir()
    with pytest.raises(CheckpointError):
        load_config(path)


QUIET = {"device", "runs", "run", "resume", "data.root", "data.cache", "tokenizer.threads"}


def test_the_hash_tells_apart_what_decides_the_result_and_nothing_else() -> None:
    plain = config_hash(possible())
    assert len(plain) == 8 and int(plain, 16) >= 0
    seen = {plain}
    for key, option in options(TrainConfig).items():
        config = possible()
        assign(config, key, another(option, value_of(config, key)))
        changed = config_hash(config)
        if key in run_config.NOT_THE_RESULT or config == possible():
            assert changed == plain, key
        else:
            assert changed not in seen, key
            seen.add(changed)
    assert run_config.NOT_THE_RESULT >= QUIET
    assert set(options(TrainConfig)) >= run_config.NOT_THE_RESULT


def test_what_is_averaged_decides_the_result() -> None:
    one, two = possible(), possible()
    two.training.save_every_steps = 7
    assert config_hash(one) == config_hash(two)
    one.training.average_last = two.training.average_last = 3
    assert config_hash(one) != config_hash(two)


def test_the_hash_is_the_same_tomorrow_and_elsewhere() -> None:
    assert config_hash(possible()) == config_hash(possible())
    one, two = possible(), possible()
    one.optimizer.lr, two.optimizer.lr = 1, 1.0  # type: ignore[assignment]
    assert config_hash(one) == config_hash(two)


def test_differences_name_key_and_both_values() -> None:
    one, two = possible(), possible()
    two.model.width, two.model.norm, two.training.max_steps = 512, Norm.post, None
    assert differences(one, two) == [
        "model.width: 256 -> 512",
        "model.norm: pre -> post",
        "training.max_steps: 10 -> null",
    ]
    assert differences(one, one) == []


def test_decoding_overrides_replace_only_what_is_given() -> None:
    base = DecodingConfig(beam=7, length_penalty=0.3)
    assert resolve_decoding(base, DecodingOverrides()) == base
    changed = resolve_decoding(base, DecodingOverrides(beam=1, length_penalty=0.0))
    assert changed == dataclasses.replace(base, beam=1, length_penalty=0.0)
    assert {f.name for f in dataclasses.fields(DecodingOverrides)} == {
        f.name for f in dataclasses.fields(DecodingConfig)
    }
