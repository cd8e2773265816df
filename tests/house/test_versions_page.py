"""What docs/versions.md says of Pythons and of other software is what the packages require."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator

import pytest
from harness import REPOSITORY
from packaging.requirements import Requirement

PAGE = " ".join((REPOSITORY / "docs" / "versions.md").read_text(encoding="utf-8").split())
FILES = (REPOSITORY / "astuner-core" / "pyproject.toml", *REPOSITORY.glob("plugins/*/pyproject.toml"))
PROJECTS = {
    project["name"]: project for project in (tomllib.loads(file.read_text(encoding="utf-8"))["project"] for file in FILES)
}
ROWS = [
    ("transformers", "astuner-core", ">=5,<6", "| transformers | 5 |"),
    ("torch", "astuner-local", ">=2.6", "| torch | 2.6 or newer; tested with 2.13 |"),
    ("vllm", "astuner-vllm", ">=0.32,<0.33", "| vLLM | 0.32 (`astuner-vllm[gpu]`) |"),
    ("verl", "astuner-verl", ">=0.9.1,<0.10", "| verl | 0.9, from 0.9.1 on |"),
    ("tinker", "astuner-tinker", ">=0.22,<1", "| Tinker's SDK | 0.22 or newer, below 1 |"),
    ("agentscope", "astuner-core", ">=1.0.21,<3", "| AgentScope | 1.0.21 or newer, and 2 |"),
]


def list_requirements(package: str) -> Iterator[Requirement]:
    project = PROJECTS[package]
    extras = [line for lines in project.get("optional-dependencies", {}).values() for line in lines]
    yield from map(Requirement, [*project["dependencies"], *extras])


@pytest.mark.parametrize(("name", "package", "range_", "row"), ROWS)
def test_a_row_is_what_a_package_requires(name: str, package: str, range_: str, row: str) -> None:
    wanted = Requirement(f"{name}{range_}").specifier
    assert wanted in {one.specifier for one in list_requirements(package) if one.name == name}
    assert row in PAGE


def test_trinity_and_its_verl_are_those_of_its_environment() -> None:
    (file,) = REPOSITORY.glob("plugins/astuner-trinity/src/*/venv/requirements.txt")
    pins = dict(re.findall(r"^([\w-]+)==(\S+)$", file.read_text(encoding="utf-8"), re.MULTILINE))
    assert f"| Trinity-RFT | {pins['trinity-rft']}, with verl {pins['verl']} |" in PAGE


def test_the_pythons_are_those_of_the_packages() -> None:
    ranges = {name: project["requires-python"] for name, project in PROJECTS.items()}
    assert {name for name, range_ in ranges.items() if range_ == ">=3.11,<3.13"} == {"astuner-verl", "astuner-trinity"}
    assert {*ranges.values()} == {">=3.11,<3.13", ">=3.11,<3.14"}
    assert "Python 3.11, 3.12 and 3.13; `astuner-verl` and `astuner-trinity` 3.11 and 3.12." in PAGE
