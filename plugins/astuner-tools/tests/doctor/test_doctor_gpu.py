from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

Rows = Callable[..., "dict[tuple[str, str], dict[str, str]]"]
Install = Callable[..., None]
Driver = Callable[[str], str]

H100 = "NVIDIA H100 80GB HBM3, 81559, 80992, 550.54.15"


@pytest.fixture
def driver(tmp_path: Path) -> Driver:
    """Writes an `nvidia-smi`, and returns the PATH on which it is found first."""

    def write(script: str) -> str:
        command = tmp_path / "bin" / "nvidia-smi"
        command.parent.mkdir(exist_ok=True)
        command.write_text(f"#!/bin/sh\n{script}\n")
        command.chmod(0o755)
        return f"{command.parent}{os.pathsep}{os.environ['PATH']}"

    return write


def test_each_gpu_of_the_driver_is_a_row(rows: Rows, driver: Driver) -> None:
    found = rows(PATH=driver(f'echo "{H100}"; echo "{H100}"'))
    assert found["gpu", "GPU 1"]["detail"] == "NVIDIA H100 80GB HBM3, 80992 of 81559 MiB free, driver 550.54.15"


def test_a_driver_that_fails_is_a_warning_with_its_words(rows: Rows, driver: Driver) -> None:
    row = rows(PATH=driver("echo 'NVML: version mismatch' >&2; exit 18"))["gpu", "driver"]
    assert (row["status"], row["detail"]) == ("warning", "nvidia-smi: NVML: version mismatch")


def test_without_a_driver_runs_are_on_the_cpu(rows: Rows, tmp_path: Path) -> None:
    assert rows(PATH=str(tmp_path))["gpu", "driver"]["status"] == "missing"


def test_a_torch_that_sees_no_gpu_of_the_driver_is_a_warning(rows: Rows, driver: Driver) -> None:
    row = rows(PATH=driver(f'echo "{H100}"'))["gpu", "torch 2.99"]
    assert (row["status"], row["remedy"]) == ("warning", "install a CUDA build of torch")


def test_what_torch_sees_is_told(rows: Rows, site: Path, driver: Driver) -> None:
    file = site / "torch" / "__init__.py"
    seeing = file.read_text().replace("None", "'12.8'").replace("False", "True").replace("lambda: 0", "lambda: 1")
    file.write_text(seeing + "    get_device_name = staticmethod(lambda index: 'NVIDIA H100')\n")
    row = rows(PATH=driver(f'echo "{H100}"'))["gpu", "torch 2.99"]
    assert (row["status"], row["detail"]) == ("ok", "built for CUDA 12.8, sees NVIDIA H100")


def test_a_torch_that_cannot_be_imported_is_broken_and_says_why(rows: Rows, site: Path) -> None:
    (site / "torch" / "__init__.py").write_text("raise ImportError('libcudart.so.12: cannot open')")
    row = rows()["gpu", "torch 2.99"]
    assert row["status"] == "broken"
    assert row["detail"] == "cannot be imported: ImportError: libcudart.so.12: cannot open"
