"""A sandbox is chosen, and imported, only for a workflow that runs programs in one."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from astuner.contract.errors import ConfigError
from astuner.settings.planning.plan import Plan, plan_run
from astuner_devkit.project import write_project

AGENT = """
from astuner import Workflow
from astuner.contract.protocols import WorkflowTraits


class Programs(Workflow):
    traits = WorkflowTraits(runs_in_sandboxes=True)

    @classmethod
    def with_sandboxes(cls, run_info, sandboxes):
        return cls()

    async def execute(self, workflow_task, tuner):
        raise NotImplementedError
"""


def plan(directory: Path, workflow: str | None = None, **settings: Any) -> Plan:
    (directory / "agent.py").write_text(AGENT)
    return plan_run(write_project(directory, workflow=workflow, settings=settings))


@pytest.fixture
def broken_local(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "astuner_agents.sandboxes.local", None)


@pytest.mark.usefixtures("broken_local")
def test_a_plain_run_needs_no_sandbox(tmp_path: Path) -> None:
    assert plan(tmp_path).recipe.sandbox is None


@pytest.mark.parametrize(
    "more", [{"workflow": "./agent.py:Programs"}, {"sandbox": {"type": "local"}}, {"agent": {"command": "true"}}]
)
@pytest.mark.usefixtures("broken_local")
def test_one_that_cannot_be_imported_stops_a_run_that_needs_it(tmp_path: Path, more: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="sandbox 'local' from astuner-agents"):
        plan(tmp_path, **more)


def test_a_workflow_that_runs_programs_has_one_without_naming_it(tmp_path: Path) -> None:
    sandbox = plan(tmp_path, "./agent.py:Programs").recipe.sandbox
    assert sandbox is not None
    assert sandbox.candidate.name == "local"
