"""The pins of the environments are resolved for packages and extras that there are, and for each of them."""

from __future__ import annotations

import runpy
import tomllib
from itertools import chain
from pathlib import Path

from harness import REPOSITORY
from packaging.requirements import Requirement

UPDATE = runpy.run_path(str(REPOSITORY / "constraints" / "update.py"))
# Installed into environments of their own: the first two by other lines of the list, the third has no code.
WITHOUT_PINS = {"astuner-verl", "astuner-trinity", "astuner"}


def read_extras() -> dict[str, set[str]]:
    projects = [tomllib.loads(path.read_text())["project"] for path in REPOSITORY.glob("plugins/*/pyproject.toml")]
    return {project["name"]: {*project.get("optional-dependencies", {})} for project in projects}


def test_pins_are_of_packages_and_extras_that_there_are():
    lines = {line for line in chain(*UPDATE["FILES"].values()) if line.startswith(f"{REPOSITORY}/plugins/")}
    wanted = [Requirement(Path(line).name) for line in lines]
    extras = read_extras()
    assert [str(one) for one in wanted if one.name not in extras or not one.extras <= extras[one.name]] == []
    assert {one.name for one in wanted} == {*extras} - WITHOUT_PINS
    pinned = {f"{one.name}[{extra}]" for one in wanted for extra in one.extras}
    everything = {f"{name}[{extra}]" for name in extras for extra in extras[name]}
    # With vLLM for GPUs nothing is tested without one.
    assert everything - pinned == {"astuner-vllm[gpu]"}
