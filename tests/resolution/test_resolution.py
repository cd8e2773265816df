"""What users type resolves, on the oldest and newest Python and each system: packages, extras and documented commands."""

from __future__ import annotations

import os
import re
import runpy
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.version import Version

REPOSITORY = Path(__file__).parents[2]
SOURCES = (REPOSITORY / "astuner-core", *sorted((REPOSITORY / "plugins").glob("astuner*")))
LINUX, MACOS = "x86_64-unknown-linux-gnu", "aarch64-apple-darwin"
SYSTEMS = {"Operating System :: POSIX :: Linux": LINUX, "Operating System :: MacOS": MACOS}
PYTHONS = ("3.11", "3.12", "3.13")
LIMIT_S = 600
"""After which a resolution hangs; how long one takes is up to the index: about a second once uv knows the packages."""

LINUX_ALONE = {"astuner-vllm[cpu]", "astuner-vllm[gpu]"}
"""Extras with libraries that exist for Linux alone, as the README says."""

COMMANDS = re.compile(r"^(?: {4}|.*&& )?(?:\S*/)?pip install ((?:\"?'?astuner-[\w\[\],-]+\"?'? ?)+)(?:#.*)?$", re.MULTILINE)
DOCUMENTS = ("README.md", "docs/*.md", "astuner-core/README.md", "plugins/*/README.md")

LOCKS = runpy.run_path(str(REPOSITORY / "scripts" / "write_locks.py"))


@cache
def projects() -> Mapping[str, Mapping[str, Any]]:
    read = [tomllib.loads((source / "pyproject.toml").read_text(encoding="utf-8"))["project"] for source in SOURCES]
    return {project["name"]: project for project in read}


def published_sets() -> Iterator[str]:
    for name, project in projects().items():
        yield name
        yield from (f"{name}[{extra}]" for extra in project.get("optional-dependencies", {}))


def documented_sets() -> Iterator[str]:
    for document in (path for pattern in DOCUMENTS for path in sorted(REPOSITORY.glob(pattern))):
        for words in COMMANDS.findall(document.read_text(encoding="utf-8")):
            yield " ".join(shlex.split(words))


def targets(requirements: str) -> Iterator[tuple[str, str]]:
    """Yield the oldest and newest Python, and each system, that every package of a command claims."""
    named = [projects()[Requirement(word).name] for word in requirements.split()]
    claimed = [python for python in PYTHONS if all(python in SpecifierSet(one["requires-python"]) for one in named)]
    for claim, system in SYSTEMS.items():
        if all(claim in one["classifiers"] for one in named) and (system == LINUX or not LINUX_ALONE & {*requirements.split()}):
            # Markers on Python are few: on the other system one version shows whether there is something to install at all.
            chosen = dict.fromkeys(claimed[:1] + claimed[-1:] if system == LINUX else claimed[1:2])
            yield from ((python, system) for python in chosen)


Case = tuple[str, str, str]
"""What is typed, the version of Python, and the system."""
Resolution = subprocess.CompletedProcess[str]
NAMES = ("requirements", "python", "system")
AT_ONCE = 8

CASES: list[Case] = [
    (text, *target) for text in dict.fromkeys([*published_sets(), *documented_sets()]) for target in targets(text)
]


def resolve(requirements: str, published: Path, python: str, system: str, *options: str) -> subprocess.CompletedProcess[str]:
    """Resolve a command from the wheels and the package index alone."""
    command = [sys.executable, "-m", "uv", "pip", "compile", "-", "--find-links", str(published), "--python-version", python]
    command += ["--python-platform", system, "--quiet", "--no-header", "--no-annotate", *options]
    ours = ("UV_CONSTRAINT", "UV_FIND_LINKS", "UV_TORCH_BACKEND")
    environment = {name: value for name, value in os.environ.items() if name not in ours}
    lines = "\n".join(requirements.split())
    return subprocess.run(command, input=lines, capture_output=True, text=True, env=environment, timeout=LIMIT_S, check=False)


@pytest.fixture(scope="session")
def index(published: Path) -> Path:
    """The wheels, after uv has asked the package index for everything that most sets need, together and not for each again."""
    light = " ".join(text for text in published_sets() if targets_every_system(text))
    for requirements in (light, *(text for text in published_sets() if not targets_every_system(text))):
        resolve(requirements, published, "3.11", LINUX)
    resolve(light, published, "3.12", MACOS)
    return published


def targets_every_system(requirements: str) -> bool:
    return {system for _, system in targets(requirements)} == {LINUX, MACOS}


@pytest.fixture(scope="session")
def resolutions(request: pytest.FixtureRequest, index: Path) -> Iterator[Mapping[Case, Future[Resolution]]]:
    """The resolutions of the selected cases, several at a time: most of each is waiting for the package index."""
    items = [item for item in request.session.items if isinstance(item, pytest.Function)]
    chosen = [item.callspec.id for item in items if item.originalname == test_what_users_type_resolves.__name__]
    with ThreadPoolExecutor(AT_ONCE) as pool:
        yield {case: pool.submit(resolve_case, index, case) for case in CASES if " ".join(case) in chosen}


def resolve_case(index: Path, case: Case) -> Resolution:
    done = resolve(case[0], index, *case[1:], "--offline")
    # Something that is only needed here was not asked for yet.
    return resolve(case[0], index, *case[1:]) if done.returncode else done


@pytest.mark.parametrize(NAMES, CASES, ids=map(" ".join, CASES))
def test_what_users_type_resolves(
    resolutions: Mapping[Case, Future[Resolution]], requirements: str, python: str, system: str
) -> None:
    done = resolutions[requirements, python, system].result()
    assert done.returncode == 0, done.stderr
    found = {line.partition("==")[0] for line in done.stdout.splitlines()}
    assert {Requirement(word).name for word in requirements.split()} <= found


TESTED: Mapping[str, tuple[str, set[str]]] = {
    "astuner-core astuner-local": ("base.txt", set()),
    # Its vLLM holds these back; the tests run without a GPU, and so without it.
    "astuner-core astuner-verl": ("verl.txt", {"fastapi", "numpy", "torch"}),
    # Of vLLM's build for GPUs; the tests have the one for CPUs.
    "astuner-core astuner-vllm[gpu]": ("vllm.txt", {"apache-tvm-ffi", "triton"}),
}
"""What users type: the pins of its tests, and packages of which users get older releases, for a reason."""


@pytest.mark.parametrize("requirements", TESTED)
def test_users_get_nothing_older_than_what_is_tested(published: Path, requirements: str) -> None:
    file, known = TESTED[requirements]
    done = resolve(requirements, published, "3.11", LINUX)
    assert done.returncode == 0, done.stderr
    tested = read_pins((REPOSITORY / "constraints" / file).read_text(encoding="utf-8"))
    older = {name: (was, tested[name]) for name, was in read_pins(done.stdout).items() if was < tested.get(name, was)}
    assert older.keys() == known, older


def read_pins(text: str) -> dict[str, Version]:
    """Return the versions of a list of pins."""
    pins = (line.partition(";")[0].split("==") for line in text.splitlines() if "==" in line and not line.startswith("#"))
    return {name: Version(version.split()[0]) for name, version in pins}


def test_the_commands_of_the_documents_are_found() -> None:
    assert {"astuner-core astuner-local", "astuner-core astuner-verl", "astuner-core astuner-trinity"} <= set(documented_sets())


def test_every_package_says_where_it_runs() -> None:
    silent = [name for name, project in projects().items() if SYSTEMS.keys().isdisjoint(project.get("classifiers", ()))]
    assert silent == []


@pytest.mark.parametrize("package", LOCKS["folders"]())
def test_a_lock_is_what_its_requirements_resolve_to(package: str) -> None:
    again = "run: python scripts/write_locks.py"
    assert LOCKS["resolve"](package, locked=True) == LOCKS["read_lock"](package), again


@pytest.mark.parametrize("package", LOCKS["folders"]())
@pytest.mark.parametrize("python", PYTHONS)
def test_a_lock_serves_every_python_of_its_package(package: str, python: str) -> None:
    if python not in SpecifierSet(projects()[package]["requires-python"]):
        pytest.skip("the package does not claim it")
    assert set(LOCKS["resolve"](package, python=python, locked=True)) <= set(LOCKS["read_lock"](package))
