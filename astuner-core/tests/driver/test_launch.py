"""How a run is told and written down, whichever way it ends."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from astuner.contract.errors import Interrupted, RunFailed, UsageError

AUDIT = """
from pathlib import Path

from attrs import frozen

from astuner import hookimpl


class Audit:
    @frozen(kw_only=True)
    class Options:
        file: str
        '''Where the exit code goes.'''

    def __init__(self, options):
        self._file = Path(options.file)

    @hookimpl(wrapper=True)
    def astuner_make_judge(self):
        return (yield)

    @hookimpl
    def astuner_run_finished(self, exit_code):
        self._file.write_text(str(exit_code))
"""
JUDGE = "class Judge:\n    def compute_reward(self, workflow_task, workflow_output):\n        {does}\n"


@pytest.fixture
def audited(fake_distribution: Callable[..., Path], tmp_path: Path) -> dict[str, Any]:
    """The settings of a run that an extension listens to; it writes the exit code beside them."""
    requires = ("astuner-core>=0.2,<0.3",)
    hooks = {"astuner.hooks": {"audit": "acme_audit:Audit"}}
    fake_distribution("acme-audit", "0.3", {"acme_audit.py": AUDIT}, hooks, requires)
    return {"plugins": {"options": {"audit": {"file": str(tmp_path / "code")}}}}


def judge(tmp_path: Path, does: str) -> str:
    (tmp_path / "own_judge.py").write_text(JUDGE.format(does=does))
    return f"{tmp_path}/own_judge.py:Judge"


def test_a_good_end_is_told_as_0(run: Any, audited: dict[str, Any], tmp_path: Path) -> None:
    run(settings=audited)
    assert (tmp_path / "code").read_text() == "0"


def test_a_failed_run_is_told_as_1(run: Any, audited: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(RunFailed):
        run(judge(tmp_path, "raise KeyError('answer')"), settings=audited)
    assert (tmp_path / "code").read_text() == "1"


def test_an_error_of_usage_inside_a_run_is_told_as_2(run: Any, audited: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "acme_engine.py").write_text(
        "from astuner.contract.errors import UsageError\n"
        "class Engine:\n"
        "    def __init__(self):\n"
        "        raise UsageError('no such port')\n"
    )
    with pytest.raises(UsageError, match="no such port"):
        run(settings={**audited, "rollout": {"name": f"{tmp_path}/acme_engine.py:Engine"}})
    assert (tmp_path / "code").read_text() == "2"


def test_who_made_and_wrapped_each_component_is_written_down(run: Any, audited: dict[str, Any]) -> None:
    played = run(settings=audited)
    made = json.loads((played.directory / "run.json").read_text())["made"]
    [judge] = [row for row in made if row["kind"] == "judge"]
    assert judge["made_by"] == "astuner-core"
    assert judge["wrapped_by"] == "hook 'audit' from acme-audit 0.3 (acme_audit:Audit)"
    assert {row["kind"] for row in made} >= {"reader", "logger", "backbone", "tracker", "engine", "judge"}


SIGNAL = "import os, signal, asyncio\n\ndef ask():\n    os.kill(os.getpid(), signal.SIGTERM)\n\n"
STOPPED = {
    "while the backbone is made": (
        "backbone",
        "from astuner.episodes.builtin.debug.debug_backbone import DebugBackbone\n"
        "class Part(DebugBackbone):\n"
        "    def __init__(self, *given, **named):\n"
        "        ask()\n",
    ),
    "while an engine turns its cancellation into an error": (
        "engine",
        "from astuner.episodes.builtin.engines.scripted_engine import ScriptedEngine\n"
        "class Part(ScriptedEngine):\n"
        "    @classmethod\n"
        "    def from_run(cls, options, run_info):\n"
        "        return cls(model_path=run_info.config.model.path)\n"
        "    async def start(self):\n"
        "        ask()\n"
        "        try:\n"
        "            await asyncio.sleep(60)\n"
        "        finally:\n"
        "            raise OSError('gone')\n",
    ),
}


@pytest.mark.parametrize("when", STOPPED)
def test_a_run_that_is_stopped_is_interrupted_whatever_was_going_on(run: Any, tmp_path: Path, when: str) -> None:
    kind, source = STOPPED[when]
    (tmp_path / "part.py").write_text(SIGNAL + source)
    part = f"{tmp_path}/part.py:Part"
    engine = {"name": part} if kind == "engine" else {"name": "scripted", "scripted": {"replies": ["4"]}}
    others = {} if kind == "engine" else {kind: part}
    with pytest.raises(Interrupted, match=r"^stopped .*; continue with: astuner run --conf \S+ .*--resume$"):
        run(settings={"rollout": engine}, **others)
    [state] = tmp_path.rglob("state.json")
    assert json.loads(state.read_text())["status"] == "interrupted"


def test_the_start_of_a_run_is_one_line_that_names_what_is_not_used(cli: Any, tmp_path: Path) -> None:
    from astuner_devkit.project import write_project

    settings = {"trainer_common": {"save_freq": 3, "test_freq": 7}, "data": {"train_batch_size": 5}}
    said = cli("run", "--conf", write_project(tmp_path, settings=settings)).err.splitlines()
    [start] = [line for line in said if line.startswith("info: ") and "advantage" not in line][:1]
    keys = "data.train_batch_size, trainer_common.save_freq, trainer_common.test_freq"
    assert start.endswith(f"; not used by debug: {keys} (`astuner config explain` says why)")
    assert not any("has no effect" in line or "have no effect" in line for line in said)


RAISING_AGENT = """
import json
from astuner import Workflow

def parse(text):
    return json.loads(text)

class Agent(Workflow):
    def execute(self, workflow_task, tuner):
        return parse("{")
"""


def test_an_error_of_the_agent_is_shown_once_per_place_with_its_traceback_and_count(cli: Any, tmp_path: Path) -> None:
    from astuner_devkit.project import write_project

    (tmp_path / "agent.py").write_text(RAISING_AGENT)
    settings = {"rollout": {"num_repeat": 3, "failure_budget": 1.0}}
    found = cli("run", "--conf", write_project(tmp_path, workflow="./agent.py:Agent", settings=settings))
    assert found.code == 0, found.err
    assert found.err.count("Traceback (most recent call last)") == 1
    assert found.err.count("(agent.py:6 in parse); the traceback is shown at ") == 2
    assert "return parse(" in found.err
    assert "warning: the agent failed at agent.py:6 in parse in 3 of 3 episodes of step 1 (train), first in train/1/" in found.err
    assert found.err.count("is a plain `def`, so each episode runs in a thread of its own") == 1
    [directory] = (tmp_path / "launcher_record").iterdir()
    lines = [json.loads(line) for line in (directory / "episodes" / "train.jsonl").read_text().splitlines()]
    failures = [failure for line in lines if line["kind"] == "episode" for failure in line["episode"]["failures"]]
    assert [failure["place"] for failure in failures] == ["agent.py:6 in parse"] * 3
    assert all(failure["traceback"].startswith("Traceback (most recent call last):\n") for failure in failures)


def test_a_secret_of_the_configuration_is_not_in_a_stored_traceback(cli: Any, tmp_path: Path) -> None:
    from astuner_devkit.project import write_project

    (tmp_path / "agent.py").write_text(
        RAISING_AGENT.replace('parse("{")', 'parse("{ sk-verysecret-0123456789")').replace(
            "json.loads(text)", "1 / 0 if False else [][f'{text}']"
        )
    )
    settings = {
        "rollout": {"failure_budget": 1.0, "openai": {"base_url": "http://127.0.0.1:9/v1", "api_key": "sk-verysecret-0123456789"}}
    }
    found = cli("run", "--conf", write_project(tmp_path, workflow="./agent.py:Agent", settings=settings))
    [directory] = (tmp_path / "launcher_record").iterdir()
    assert "sk-verysecret" not in (directory / "episodes" / "train.jsonl").read_text()
    assert "sk-verysecret" not in found.err


def test_the_end_of_a_run_that_has_shown_its_episodes_does_not_offer_to_show_them(cli: Any, tmp_path: Path) -> None:
    from astuner_devkit.project import write_project

    said = cli("run", "--conf", write_project(tmp_path)).err.splitlines()
    end = said[[line.startswith("done: ") for line in said].index(True) :]
    assert end[1].startswith("  1 step")
    assert [line for line in end if "astuner episodes" in line] == []


def test_the_end_of_a_run_names_an_installed_command_that_shows_runs(cli: Any, tmp_path: Path, fake_distribution: Any) -> None:
    from astuner_devkit.project import write_project

    shows = {"pages": "acme_pages:pages"}
    fake_distribution("acme-pages", entry_points={"astuner.commands": shows, "astuner.shows_runs": shows})
    assert "  look:     astuner pages launcher_record/" in cli("run", "--conf", write_project(tmp_path)).err


def test_a_failure_after_which_resuming_helps_names_the_whole_command(cli: Any, tmp_path: Path) -> None:
    from astuner_devkit.project import write_project

    (tmp_path / "agent.py").write_text(RAISING_AGENT)
    conf = write_project(tmp_path, workflow="./agent.py:Agent")
    found = cli("run", "--conf", conf, "--set", "rollout.failure_budget=0.1")
    [directory] = (tmp_path / "launcher_record").iterdir()
    assert "continue with --resume" in found.err
    assert found.err.splitlines()[-1] == f"to continue: astuner run --conf {conf} --set rollout.failure_budget=0.1 --resume"
    assert "to continue" not in (directory / "state.json").read_text()
