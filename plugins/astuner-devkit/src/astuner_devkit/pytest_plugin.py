"""Fixtures for authors of plugins; pytest finds them through the entry-point group `pytest11`.

pytest loads this module wherever astuner-core is installed, so it imports nothing but pytest until a fixture is used.
"""

from __future__ import annotations

import itertools
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from astuner.episodes.builtin.engines.scripted_engine import ScriptedEngine
    from astuner.settings.plugins.hooks import Hooks
    from astuner_devkit.command_line import CommandResult
    from astuner_devkit.run_in_process import PlayedRun

# Their rules are asserts: a failing one shows its values.
pytest.register_assert_rewrite("astuner_devkit.contracts")


@pytest.fixture
def fake_distribution(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., Path]]:
    """Installs distributions for this test, for this process and those that it starts.

    `fake_distribution(name, version="1.0", files={path: source}, entry_points={group: {name: target}}, requires=())` returns the
    directory that holds them, which is on `sys.path` and on `PYTHONPATH`. `metadata` has fields such as `Summary`.
    """
    from astuner_devkit.distribution import write_distribution
    from astuner_devkit.isolation import refresh_imports, undo_after

    site = tmp_path_factory.mktemp("site")

    def install(*described: Any, **further: Any) -> Path:
        write_distribution(site, *described, **further)
        refresh_imports()
        return site

    with undo_after(site):
        sys.path.insert(0, str(site))
        os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(site), os.environ.get("PYTHONPATH")]))
        yield install


@pytest.fixture
def hooks() -> Callable[..., Hooks]:
    """Makes the hooks of a run with these extension objects and no installed ones: `hooks(MyExtension())`.

    Keyword arguments are those of `astuner.settings.plugins.hooks.Hooks`, as `on_listener_error`.
    """

    def make(*extensions: object, **kwargs: Any) -> Hooks:
        from astuner.settings.plugins.catalog import Catalog
        from astuner.settings.plugins.hooks import Hooks

        made = Hooks(Catalog(), **kwargs)
        for extension in extensions:
            made.register(extension, f"extension '{type(extension).__qualname__}' ({type(extension).__module__})")
        return made

    return make


@pytest.fixture(scope="session")
def _tiny_tokenizer() -> Any:
    from astuner_devkit.tokenizer import tiny_tokenizer

    return tiny_tokenizer()


@pytest.fixture
def scripted_engine(request: pytest.FixtureRequest) -> Callable[..., ScriptedEngine]:
    """Makes an engine over a tiny real tokenizer that says what the test wants.

    `scripted_engine("first", "second")` gives these replies to the calls of each conversation; `script` holds pairs of a regular
    expression and a reply: the first one found in the last message takes precedence.
    """

    def make(*replies: str, script: Sequence[tuple[str, str]] = ()) -> ScriptedEngine:
        from astuner.episodes.builtin.engines.scripted_engine import ScriptedEngine, ScriptLine

        lines = [ScriptLine(match=re.compile(match), reply=reply) for match, reply in script]
        tokenizer = request.getfixturevalue("_tiny_tokenizer")
        return ScriptedEngine(ScriptedEngine.Options(replies=replies), tokenizer=tokenizer, script=lines)

    return make


@pytest.fixture
def own_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The test's own state directory, so `astuner ps` shows nothing else; what was started in it is ended after the test."""
    from astuner.shared.processes import attach, list_programs

    home = tmp_path / "state"
    monkeypatch.setenv("ASTUNER_STATE_DIR", str(home))
    yield home
    for record in list_programs():
        if record.kind != "run":
            attach(record).end(0)


@pytest.fixture
def cli(tmp_path: Path, own_state: Path) -> Callable[..., CommandResult]:
    """Runs `astuner` in this process: `cli("plugin", "list").out`; also `.err`, and `.code`, the exit code.

    It runs in the directory `cwd`, by default the test's `tmp_path`, with the state directory of the fixture `own_state`.
    """

    def run(*arguments: object, cwd: Path | None = None) -> CommandResult:
        from astuner_devkit.command_line import run_command

        return run_command(*arguments, cwd=cwd or tmp_path)

    return run


@pytest.fixture
def run(tmp_path: Path, own_state: Path) -> Iterator[Callable[..., PlayedRun]]:
    """Plays a tiny run in this process, without any model: `run("strict", replies=["4"]).rewards == [1.0]`.

    The arguments are those of `astuner_devkit.project.write_project`: a judge, `tasks` (rows of the data file), `replies` of the
    model, `workflow`, `backbone`, and `settings` for the section `astuner` of the YAML; `overrides` are those of `--set`.
    The YAML lies in `tmp_path`, so `./judge.py:Mine` is a file there. Returns `astuner_devkit.PlayedRun`; raises the
    `AstunerError` of a run that fails. It starts its own event loop, so it is for plain tests, not `async` ones.
    """
    from astuner_devkit.isolation import undo_after

    numbers = itertools.count(1)

    def start(
        judge: str | None = None,
        *,
        settings: Mapping[str, Any] | None = None,
        overrides: Sequence[str] = (),
        **project: Any,
    ) -> PlayedRun:
        from astuner_devkit.project import write_project
        from astuner_devkit.run_in_process import add_recorder, play

        name = f"run{next(numbers)}"
        return play(write_project(tmp_path, judge, settings=add_recorder(settings or {}), name=name, **project), overrides)

    with undo_after(tmp_path):
        yield start
