"""Core does not know its plugins: their names are in `shared/known_packages.toml`, which is generated."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

import pytest

import astuner
from astuner.shared.known_packages import CORE, read_known_packages

SOURCES = Path(astuner.__file__).parent
TABLES = frozenset({"moved_modules.toml", "shared/known_packages.toml"})
"""What lies in which package: the one says where the modules of earlier states are, the other is generated."""

KEYS = ("n_vllm_engine", "debug_vllm_port", "debug_vllm_seed", "docker_image")
"""Keys that users type, in configurations and data sets that exist."""

ALLOWED: Mapping[tuple[str, str], str] = {
    ("cli/plugin.py", "doctor"): "the command that imports what this one lists",
    ("contract/user_values/named_arguments.py", "trl"): "a form of reward functions",
    ("contract/user_values/named_arguments.py", "verl"): "a form of reward functions",
    ("episodes/judging/", "trl"): "a form of reward functions",
    ("episodes/judging/", "verl"): "a form of reward functions, and the source of a formula",
    ("runs/driver/run_facts.py", "config.explain"): "the command that says why a key has no effect",
    ("runs/training/losses.py", "verl"): "the source of the names",
    ("runs/training/minibatches.py", "verl"): "the source of the names",
    ("settings/config/agent.py", "astuner-agents"): "the workflow that plays the section `agent`",
    ("settings/config/agent.py", "local"): "the sandbox where the configuration names none",
    ("settings/config/aliases.py", "ajet"): "an older spelling of the root section",
    ("settings/config/aliases.py", "env_service"): "an older spelling that users type",
    ("settings/config/aliases.py", "math"): "an older spelling that users type",
    ("settings/config/aliases.py", "rubrics_auto_grader"): "an older spelling that users type",
    ("settings/config/aliases.py", "tracing"): "an older spelling that users type",
    ("settings/config/components.py", "env_service"): "the reader of existing configurations that name none",
    ("settings/planning/judge_choice.py", "trl"): "a form of reward functions",
    ("settings/planning/judge_choice.py", "verl"): "a form of reward functions",
    ("shared/processes/program_registry.py", "ps"): "the command that lists the records",
}
"""Why a name may be in a file, or below a folder."""

WORDS = frozenset({"environments", "llm", "local", "math", "pass_at_k", "pools", "success_rate", "tracing"})
"""Names that are words as well: they name a component only in quotes."""

SECTIONS = frozenset(
    {"compare", "config.schema", "config.show", "data", "env", "episodes", "eval", "export", "init", "judge"}
    | {"model", "replay", "report", "runs", "setup", "stop", "trace", "warm-start", "why"}
)
"""Commands that are called as a section, a field, a function, a method or a module of core is: nothing tells the two apart."""


@cache
def patterns() -> Mapping[str, re.Pattern[str]]:
    """Return what a name looks like, for each plugin, its components (but functions, which are called by name) and modules."""
    known = read_known_packages()
    components = {place: requirement for place, requirement in known.components.items() if place[0] != "function"}
    brought = {name for (_, name), requirement in components.items() if requirement.partition("[")[0] != CORE}
    modules = {name for names in known.heavy_modules.values() for name in names}
    names = (brought | modules | known.packages) - SECTIONS - {CORE}
    return {name: pattern_of(name) for name in sorted(names)}


def pattern_of(name: str) -> re.Pattern[str]:
    if name in WORDS:
        return re.compile(f"[`'\"]{name}[`'\"]")
    # As a module, a class or in prose: env_service, EnvService, astuner_vllm, vLLM.
    return re.compile(f"(?<![A-Za-z])(?i:{re.sub('[-_]', '[-_ ]?', name)})(?![a-z])")


def names_in(text: str) -> Iterator[str]:
    without_keys = re.sub("|".join(KEYS), "", text)
    return (name for name, pattern in patterns().items() if pattern.search(without_keys))


@cache
def found() -> frozenset[tuple[str, str]]:
    """Return every file of core and every name in it."""
    files = (path for path in SOURCES.rglob("*") if path.is_file() and path.suffix != ".pyc")
    named = ((path.relative_to(SOURCES).as_posix(), path.read_text(encoding="utf-8")) for path in files)
    return frozenset((file, name) for file, text in named if file not in TABLES for name in names_in(text))


def is_allowed(file: str, name: str, place: tuple[str, str]) -> bool:
    return name == place[1] and (file == place[0] or (place[0].endswith("/") and file.startswith(place[0])))


def test_no_plugin_is_named_in_core() -> None:
    wrong = [f"{file}: {name}" for file, name in sorted(found()) if not any(is_allowed(file, name, place) for place in ALLOWED)]
    assert wrong == []


@pytest.mark.parametrize("place", ALLOWED, ids=" ".join)
def test_no_exception_is_left_over(place: tuple[str, str]) -> None:
    assert any(is_allowed(file, name, place) for file, name in found())


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("takes `local` where none is named", ["local"]),
        ("a local file", []),
        ("your vLLM server", ["vllm"]),
        ("import astuner_vllm.command", ["astuner-vllm", "vllm"]),
        ("class EnvServiceReader", ["env_service"]),
        ("rollout.n_vllm_engine", []),
    ],
)
def test_a_name_is_seen_in_code_and_in_prose(text: str, names: list[str]) -> None:
    assert list(names_in(text)) == names
