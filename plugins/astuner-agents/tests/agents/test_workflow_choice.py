"""A reader may bring the workflow that is played as `astuner_agents:Command`."""

from __future__ import annotations

from pathlib import Path

import pytest

from astuner.settings.planning.plan import plan_run
from astuner_devkit import write_project

READER = """
from astuner.contract.protocols import ReaderTraits
from astuner.contract.schema import Task


class Brings:
    traits = ReaderTraits(command_workflow="own:Own")

    def read(self, split):
        yield Task(task_id="a", main_query="b")


class Plain:
    def read(self, split):
        yield Task(task_id="a", main_query="b")
"""


@pytest.mark.parametrize(
    ("reader", "named", "played"),
    [
        ("Brings", "astuner_agents:Command", "own:Own"),
        ("Brings", "agent.py:Other", "agent.py:Other"),
        ("Plain", "astuner_agents:Command", "astuner_agents:Command"),
    ],
)
def test_the_readers_workflow_takes_the_place_of_the_command(tmp_path: Path, reader: str, named: str, played: str) -> None:
    (tmp_path / "tasks.py").write_text(READER)
    (tmp_path / "agent.py").write_text("class Other:\n    async def execute(self, workflow_task, tuner):\n        pass\n")
    settings = {"task_reader": {"type": f"./tasks.py:{reader}"}, "agent": {"command": "true"}}
    conf = write_project(tmp_path, workflow=named.replace("agent.py", "./agent.py"), settings=settings)
    assert plan_run(conf).recipe.workflow == played.replace("agent.py", "./agent.py")
