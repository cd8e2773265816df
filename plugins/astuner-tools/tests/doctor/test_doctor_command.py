from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

import click

from astuner_tools.doctor.rows import Row
from astuner_tools.doctor.table import format_rows

Doctor = Callable[..., "subprocess.CompletedProcess[str]"]
Install = Callable[..., None]

HEAVY = ("torch", "ray", "transformers", "vllm", "openai", "datasets")
LONG = Row(area="model", what="weights", status="broken", detail=f"no file in {'deep/' * 40}end", remedy="set model.path")


def test_a_sound_environment_is_healthy_and_names_the_core(doctor: Doctor) -> None:
    found = doctor()
    assert (found.returncode, found.stderr) == (0, "")
    assert f"astuner-core {version('astuner-core')}" in found.stdout


def test_json_is_one_document_with_the_same_verdict(doctor: Doctor) -> None:
    found = doctor("--json")
    document = json.loads(found.stdout)
    assert document["healthy"] is True
    assert set(document["rows"][0]) == {"area", "what", "status", "detail", "remedy"}


def test_what_is_broken_is_exit_code_1(doctor: Doctor, install: Install) -> None:
    install("acme-judges", requires=["astuner-core>=9"], entry_points={"astuner.judges": {"strict": "acme:S"}})
    found = doctor("--json")
    assert found.returncode == 1
    assert json.loads(found.stdout)["healthy"] is False


def test_a_configuration_that_is_not_there_is_a_usage_error(doctor: Doctor) -> None:
    assert doctor("--conf", "absent.yaml").returncode == 2


def test_the_doctor_imports_nothing_heavy(site: Path) -> None:
    code = f"import sys; from astuner.cli import exit_code_of; exit_code_of(['doctor']); print({set(HEAVY)} & set(sys.modules))"
    environment = {**os.environ, "PYTHONPATH": str(site)}
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment, timeout=60)
    assert found.stdout.splitlines()[-1] == "set()"


def test_plain_text_keeps_a_row_on_one_line_however_long() -> None:
    first, row, remedy = click.unstyle(format_rows([LONG])).splitlines()
    assert (first, remedy.strip()) == ("model", "remedy: set model.path")
    assert row.endswith(LONG.detail)
