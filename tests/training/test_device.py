"""Devices are what was asked for or an error; tuning the process never changes a result."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import torch

from mt.config.schema import Precision
from mt.errors import ConfigError
from mt.training import device
from mt.training.device import check_support, choose_device, choose_precision
from mt.training.randomness import seed_step, seed_weights


@pytest.mark.parametrize("name", ["gpu", "cuda:", "cuda:x", "cuda:-1", "CPU", "mps", "cpu:0", ""])
def test_unknown_devices_are_named(name: str) -> None:
    with pytest.raises(ConfigError, match=f"device={name}: allowed are"):
        choose_device(name)


def test_a_device_that_is_not_there_is_an_error_not_a_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert choose_device("auto") == choose_device("cpu") == torch.device("cpu")
    with pytest.raises(ConfigError, match="sees no CUDA device"):
        choose_device("cuda")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    assert choose_device("auto") == torch.device("cuda", 0)
    assert choose_device("cuda:1") == torch.device("cuda", 1)
    with pytest.raises(ConfigError, match=r"2 CUDA device\(s\)"):
        choose_device("cuda:2")


def test_the_wait_for_a_processor_is_that_of_the_thread_that_waited_longest(tmp_path: Path) -> None:
    for thread, text in {"1": "900 2000000000 3\n", "2": "5 7000000000 1\n", "3": "1 0 1\n"}.items():
        (tmp_path / thread).mkdir()
        (tmp_path / thread / "schedstat").write_text(text, encoding="ascii")
    assert device.queued_seconds(str(tmp_path)) == 7.0
    assert device.queued_seconds(str(tmp_path / "nothing")) == 0.0
    assert device.queued_seconds() >= 0.0


def test_what_the_device_cannot_do_is_said_before_anything_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    cpu = torch.device("cpu")
    monkeypatch.setattr(device.shutil, "which", lambda name: None)
    with pytest.raises(ConfigError) as error:
        check_support(cpu, Precision.fp16, True)
    assert len(error.value.problems) == 2
    check_support(cpu, Precision.bf16, False)
    monkeypatch.setattr(device.shutil, "which", lambda name: f"/usr/bin/{name}")
    check_support(cpu, Precision.fp32, True)


def test_auto_precision_follows_the_hardware(monkeypatch: pytest.MonkeyPatch) -> None:
    cpu = torch.device("cpu")
    for name in ("_is_amx_tile_supported", "_is_avx512_bf16_supported"):
        monkeypatch.setattr(torch.cpu, name, lambda: False, raising=False)
    assert choose_precision(Precision.auto, cpu) is Precision.fp32
    assert choose_precision(Precision.bf16, cpu) is Precision.bf16
    monkeypatch.setattr(torch.cpu, "_is_avx512_bf16_supported", lambda: True, raising=False)
    assert choose_precision(Precision.auto, cpu) is Precision.bf16
    assert choose_precision(Precision.fp32, cpu) is Precision.fp32
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda including_emulation: not including_emulation)
    assert choose_precision(Precision.auto, torch.device("cuda")) is Precision.bf16


def test_tuning_keeps_freed_memory_and_results() -> None:
    """In a process of its own: with mmap off, a freed block is there again without new pages."""
    code = """
import resource, torch
from mt.training.device import tune_process
before = torch.arange(1000.0).sum().item()
tuned = tune_process()
def faults():
    start = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(20):
        torch.zeros(16 << 20, dtype=torch.uint8).add_(1)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - start
faults()
print(tuned, faults(), torch.arange(1000.0).sum().item() == before)
"""
    out = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout.split()
    assert out[2] == "True"
    if out[0] == "False":
        pytest.skip("not glibc")
    assert int(out[1]) < 1000  # 20 x 4,096 pages otherwise


def test_peak_memory_grows_with_what_is_used() -> None:
    before = device.peak_memory_bytes(torch.device("cpu"))
    block = torch.ones(200 << 20, dtype=torch.uint8)
    assert device.peak_memory_bytes(torch.device("cpu")) >= max(before, block.numel())


def test_each_micro_batch_has_its_own_randomness_and_only_that() -> None:
    drawn: dict[tuple[int, int, int, int], float] = {}
    for key in [
        (1, 1, 0, 0),
        (2, 1, 0, 0),
        (1, 2, 0, 0),
        (1, 1, 1, 0),
        (1, 1, 0, 1),
        (1, 11, 0, 0),
        (11, 1, 0, 0),
    ]:
        seed_step(*key)
        drawn[key] = float(torch.rand(()))
    assert len(set(drawn.values())) == len(drawn)
    torch.rand(100)
    seed_step(1, 2, 0, 0)
    assert float(torch.rand(())) == drawn[(1, 2, 0, 0)]
    seed_weights(1)
    assert float(torch.rand(())) not in drawn.values()
