from __future__ import annotations

import sys
from pathlib import Path

import pytest

from astuner.settings.plugins.source_names import find_missing_name

AGENT = """\
raise SystemExit("nobody runs this")
from json import dumps as as_text
import os.path

if True:
    class Conditional: ...
try:
    Alias = int
except ValueError:
    def on_error(): ...
else:
    class OtherWise: ...

class MyAgent:
    class Inner: ...
    inside = 1

async def play(task, model): ...
"""


@pytest.fixture
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    # Another test may have imported a module of that name.
    for name in ("agent", "own_package"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    (tmp_path / "agent.py").write_text(AGENT)
    package = tmp_path / "own_package"
    package.mkdir()
    (package / "__init__.py").write_text("raise SystemExit('nobody runs this')")
    (package / "agents.py").write_text("class Agent: ...")
    return tmp_path


@pytest.mark.parametrize(
    "name", ["MyAgent", "play", "Conditional", "Alias", "on_error", "OtherWise", "as_text", "os", "MyAgent.Inner"]
)
def test_what_a_file_defines_is_found_without_running_it(name: str, directory: Path) -> None:
    assert find_missing_name(f"./agent.py:{name}", directory) is None


@pytest.mark.parametrize(
    "spec", ["agent:MyAgent", "agent->MyAgent", "own_package.agents:Agent", "json:dumps", "os.path:join", "attrs.nothing:A"]
)
def test_modules_are_found_without_importing_them(spec: str, directory: Path) -> None:
    before = set(sys.modules)
    assert find_missing_name(spec, directory) is None
    assert not {"agent", "own_package"} & (set(sys.modules) - before)


@pytest.mark.parametrize(
    ("spec", "suggestion"),
    [
        ("./agent.py:MyAgnet", "./agent.py:MyAgent"),
        ("agent->MyAgnet", "agent->MyAgent"),
        ("own_package.agents:Agnet", "own_package.agents:Agent"),
        ("./agnet.py:MyAgent", "./agent.py:MyAgent"),
        ("own_pakcage/agents.py:Agent", "own_package/agents.py:Agent"),
        ("agnet:MyAgent", "agent:MyAgent"),
    ],
)
def test_a_typo_is_told_with_the_whole_of_what_was_meant(spec: str, suggestion: str, directory: Path) -> None:
    missing = find_missing_name(spec, directory)
    assert missing is not None
    assert missing.suggestion == suggestion


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("./agent.py:inside", "there is no 'inside' in"),
        ("./nothing/like_it.py:A", "there is no file"),
        ("own_package.nothing:A", "there is no module 'own_package.nothing'"),
        ("astuner.replays:A", "astuner.replays is now astuner_tools.replays, from the package astuner-tools"),
    ],
)
def test_what_is_not_there_is_named(spec: str, message: str, directory: Path) -> None:
    missing = find_missing_name(spec, directory)
    assert missing is not None
    assert message in missing.message
    assert missing.suggestion is None


def test_a_file_that_is_not_python_is_named_with_its_line(directory: Path) -> None:
    (directory / "agent.py").write_text("import os\nclass My Agent: ...\n")
    missing = find_missing_name("./agent.py:MyAgent", directory)
    assert missing is not None
    assert "agent.py:2 is not valid Python" in missing.message


@pytest.mark.parametrize(
    "source",
    [
        "from os.path import *",
        "globals()['MyAgent'] = 1",
        "exec('MyAgent = 1')",
        "def __getattr__(name): ...",
        "import sys\nvars(sys)",
    ],
)
def test_where_only_running_can_tell_nothing_is_missing(source: str, directory: Path) -> None:
    (directory / "agent.py").write_text(source)
    assert find_missing_name("./agent.py:MyAgent", directory) is None


def test_a_module_without_source_is_left_to_its_import(directory: Path) -> None:
    assert find_missing_name("math:nothing", directory) is None
