"""Which environments a change makes CI run again, and the table of how long they take."""

from __future__ import annotations

import ast
import configparser
import re
import subprocess
import tomllib
from collections.abc import Iterator
from functools import cache
from itertools import chain
from pathlib import Path

import pytest
import reach
import suites
import times
from harness import REPOSITORY

RULES = tomllib.loads((REPOSITORY / ".ci" / "suites.toml").read_text(encoding="utf-8"))
ENVIRONMENTS = reach.read_environments()
DIGESTED = [environment for environment in ENVIRONMENTS.values() if not environment.always]
FOLDERS = {path.partition("/")[0] for path in reach.list_files(("*/*",))} - {"tests", "shared"}

SOURCE = '''
"""A module."""

def advance(state):  # by one
    """Return the next state."""
    return state + 1

class State:
    count: int
    """How often it was advanced."""
'''


def read_pythonpath() -> list[str]:
    parser = configparser.ConfigParser(interpolation=None)
    parser.read(REPOSITORY / "pytest.ini", encoding="utf-8")
    return parser["pytest"]["pythonpath"].split()


def list_tests(environment: reach.Environment) -> list[str]:
    """Return the Python files that an environment runs as tests, and their neighbours."""
    commands = reach.NAMED.findall(environment.section["commands"])
    return [name for name in reach.list_files(tuple(commands)) if name.endswith(".py") and name != "conftest.py"]


@cache
def list_nodes(name: str) -> list[ast.AST]:
    return [*ast.walk(ast.parse((REPOSITORY / name).read_text(encoding="utf-8")))]


def list_imports(name: str) -> Iterator[str]:
    for node in list_nodes(name):
        if isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


def list_named_folders(name: str) -> Iterator[str]:
    """Yield the folders of the repository that a file names in a path: `REPOSITORY / "docs" / …`, `REPOSITORY.glob("docs/*")`."""
    for node in list_nodes(name):
        texts: list[ast.expr] = []
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div):
            is_own = re.search(r"REPOSITORY|ROOT|parents\[\d\]", ast.unparse(node.left))
            texts = [node.right] if is_own else []
        elif isinstance(node, ast.Call) and re.fullmatch(r"REPOSITORY\.r?glob", ast.unparse(node.func)):
            texts = node.args
        for text in texts:
            if isinstance(text, ast.Constant) and (folder := str(text.value).partition("/")[0]) in FOLDERS:
                yield folder


@pytest.mark.parametrize("path", [*chain(*RULES["reach"].values())])
def test_every_line_of_the_rules_names_files(path: str):
    assert reach.list_files((path.removeprefix(":!"),))


@pytest.mark.parametrize("path", [path for path in RULES["engines"]["reach"] if path.startswith(":(exclude,glob)")])
def test_every_room_that_an_engine_does_not_enter_exists(path: str):
    assert reach.list_files((path.replace(":(exclude,glob)", ":(glob)"),))


def test_the_rules_are_of_environments_that_exist():
    named = {name for rule in ("always", "waiting", "engines") for name in RULES[rule]["names"]}
    assert {*RULES["reach"], *named} <= {*ENVIRONMENTS}


def test_mypy_checks_every_package():
    parser = configparser.ConfigParser()
    parser.read(REPOSITORY / "mypy.ini", encoding="utf-8")
    packages = {str(path.relative_to(REPOSITORY)) for path in REPOSITORY.glob("plugins/*/src")} | {"astuner-core/src"}
    for key, separator in (("files", ", "), ("mypy_path", ":")):
        assert sorted(packages - set(parser["mypy"][key].split(separator))) == []


def test_every_path_of_tox_exists():
    paths = reach.NAMED.findall((REPOSITORY / "tox.ini").read_text(encoding="utf-8"))
    assert [path for path in paths if not path.startswith(".tox/") and not (REPOSITORY / path).exists()] == []


@pytest.mark.parametrize("environment", DIGESTED, ids=lambda environment: environment.name)
def test_what_an_environment_installs_and_runs_reaches_it(environment: reach.Environment):
    paths = reach.NAMED.findall("\n".join(environment.section.values()))
    # What is below .tox was made by an earlier environment of the same run, or is not there yet.
    kept = [path for path in paths if not path.startswith(".tox/") and (REPOSITORY / path).exists()]
    named = {path for path in kept if f":!{path}" not in environment.reach}
    files = environment.files()
    assert len(named) > 2
    assert [path for path in named if not any(file == path or file.startswith(f"{path}/") for file in files)] == []


@pytest.mark.parametrize("environment", DIGESTED, ids=lambda environment: environment.name)
def test_modules_that_its_tests_import_from_other_folders_reach_it(environment: reach.Environment):
    files = {*environment.files()}
    for name in list_tests(environment):
        modules = [
            f"{folder}/{module}.py" for module in list_imports(name) for folder in read_pythonpath() if module != "conftest"
        ]
        assert [module for module in modules if (REPOSITORY / module).is_file() and module not in files] == [], name


@pytest.mark.parametrize("environment", DIGESTED, ids=lambda environment: environment.name)
def test_folders_that_its_tests_name_reach_it(environment: reach.Environment):
    reached = {file.partition("/")[0] for file in environment.files()}
    named = {(name, folder) for name in list_tests(environment) for folder in list_named_folders(name)}
    assert sorted(one for one in named if one[1] not in reached) == []


def test_a_plugin_does_not_reach_what_does_not_install_it():
    file = "plugins/astuner-readers/src/astuner_readers/__init__.py"
    readers = {environment.name for environment in DIGESTED if file in environment.files()}
    assert {"components", "docs", "release"} <= readers
    assert not {"core", "integration", "chaos", "local", "resolution", "third-party", "vllm"} & readers


def test_pages_and_the_tests_of_others_do_not_reach_an_environment():
    files = ENVIRONMENTS["chaos"].files()
    assert "astuner-core/README.md" not in files
    assert not [file for file in files if file.startswith("astuner-core/tests/test_")]


def test_what_an_installed_package_needs_reaches_an_environment():
    assert "astuner-core/src/astuner/__init__.py" in reach.list_files(tuple(reach.expand("plugins/astuner-judges")))


def test_words_do_not_count_and_code_does():
    reworded = SOURCE.replace("Return the next state.", "Advance.").replace("by one", "once").replace("How often", "Times")
    assert reach.strip_words(reworded) == reach.strip_words(SOURCE)
    assert reach.strip_words(SOURCE.replace("+ 1", "+ 2")) != reach.strip_words(SOURCE)


def test_digests_differ():
    digests = [environment.digest() for environment in DIGESTED]
    digests += [environment.long_digest() for environment in DIGESTED if environment.long_reach]
    assert len({*digests}) == len(DIGESTED) + len(RULES["engines"]["names"])


def test_what_has_passed_is_skipped_and_an_engine_is_played_in_full_if_it_changed():
    core, verl, lint, resolution = (ENVIRONMENTS[name] for name in ("core", "verl", "lint", "resolution"))
    chosen = [suites.choose_suite(environment, {}) for environment in (core, verl, lint, resolution)]
    assert chosen == ["run", "long", "run", "aside"]
    passed = {"core": core.digest(), "lint": lint.digest(), "verl": "other", "verl:long": verl.long_digest()}
    assert [suites.choose_suite(environment, passed) for environment in (core, verl, lint)] == ["skip", "short", "run"]
    assert suites.choose_suite(verl, passed | {"verl": verl.digest()}) == "skip"


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository of its own with one committed file."""
    monkeypatch.setattr(reach, "REPOSITORY", tmp_path)
    monkeypatch.setattr(suites, "PASSED", tmp_path / "suites.passed")
    (tmp_path / "agent.py").write_text(SOURCE)
    for command in (["init", "-q"], ["add", "."], ["-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "first"]):
        subprocess.run(["git", *command], cwd=tmp_path, check=True)
    reach.list_files.cache_clear()
    reach.read_content.cache_clear()
    yield tmp_path
    reach.list_files.cache_clear()
    reach.read_content.cache_clear()


@pytest.mark.parametrize("change", ["agent.py", "new.py"])
def test_nothing_is_recorded_that_is_not_committed(checkout: Path, change: str):
    environment = reach.Environment(name="core", description="", section={}, reach=["*.py"])
    assert suites.record([environment]) == 0
    assert suites.read_passed() == {"core": environment.digest()}
    (checkout / change).write_text("changed = True\n")
    with pytest.raises(SystemExit, match=f"core: commit first what reaches it:\n.*{change}"):
        suites.record([environment])


def test_a_recorded_environment_is_one_that_exists():
    assert {name.removesuffix(suites.LONG) for name in suites.read_passed()} <= {*ENVIRONMENTS}
    assert suites.main(["record", "nonsense"]) == 2


def test_the_table_of_contributing_has_every_environment():
    page = times.PAGE.read_text(encoding="utf-8")
    assert times.write_table(page) == page, "run: python .ci/times.py LOG"
    assert [name for name, _, _ in times.ROW.findall(page)] == [*ENVIRONMENTS]


def test_the_figures_of_a_log_are_written_and_others_are_kept():
    page = f"{times.HEAD}| `core` | old | 1,000 | 9.5 |\n| `lint` | old |  | 0.1 |\n\nMore.\n"
    log = "core: OK ✔ in 1 minute\n  core: OK (90.00=setup[30.00]+cmd[60.00] seconds)\ntests of core: 1234\n"
    rows = times.write_table(page, log)
    assert re.search(r"^\| `core` \| unit tests of core.* \| 1,234 \| 1\.5 \|$", rows, re.MULTILINE)
    assert re.search(r"^\| `lint` \|.* \|  \| 0\.1 \|$", rows, re.MULTILINE)
    assert rows.endswith("|\n\nMore.\n")
