"""A workflow whose agent is a program, and a reader that brings one."""

from __future__ import annotations

from typing import ClassVar, Protocol

from astuner.contract.protocols.run import RunInfo
from astuner.contract.protocols.sandbox import Sandboxes
from astuner.contract.protocols.workflow import Workflow


class RunsInSandboxes(Protocol):
    """A workflow class that runs programs: it is made with the run and what opens sandboxes, instead of without arguments.

    Its workflows are played in the rollout process: `rollout.isolation: process` is refused.
    """

    @classmethod
    def with_sandboxes(cls, run_info: RunInfo, sandboxes: Sandboxes) -> Workflow:
        """Return the workflow of an episode; called once before the first one too, to raise what is missing."""


class BringsCommandWorkflow(Protocol):
    """The class of a reader whose tasks say where a program plays them, and check what it has left."""

    command_workflow: ClassVar[str]
    """What is played where the configuration names `astuner_agents:Command`, and is derived from it, as `module:Class`."""
