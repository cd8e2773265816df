"""The workflow for task folders where the configuration names `astuner_agents:Command`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from attrs import evolve

from astuner.contract.errors import DataError
from astuner.contract.protocols import ChatModel, CommandResult, Sandboxes, SandboxSession, SandboxSpec
from astuner.contract.schema import Task, WorkflowOutput, WorkflowTask
from astuner_agents import CommandWorkflow
from astuner_agents.task_folders.playing.errors import TaskNotPlayable
from astuner_agents.task_folders.playing.needs import Play, plan_play
from astuner_agents.task_folders.playing.places import Places
from astuner_agents.task_folders.playing.verification import verify
from astuner_agents.task_folders.reader import METADATA_KEY, read_folder

CHANGE_DIRECTORY = 'cd "$1" && shift && exec "$@"'


class TaskFolderWorkflow(CommandWorkflow):
    """Runs the agent's program where the task says, and then the tests of the task, whose reward is the episode's.

    The tests come into the sandbox after the agent has ended; the solution never does. An agent that reaches its time limit is
    ended, and the tests still run, as in Harbor.
    """

    _play_of_task: Play
    _places: Places
    _is_late = False

    def describe_sandbox(self, workflow_task: WorkflowTask, model: ChatModel) -> SandboxSpec:
        """Ask for the image, the directories, the user and the limits of the task."""
        self._play_of_task = plan_task(workflow_task.task, self.sandboxes)
        return self._play_of_task.describe(super().describe_sandbox(workflow_task, model))

    async def prepare(self, workflow_task: WorkflowTask, session: SandboxSession) -> None:
        """Put in what the task's image would hold."""
        self._places = await self._play_of_task.prepare(session)

    def write_query(self, workflow_task: WorkflowTask, session: SandboxSession) -> str:
        """Return the instruction, with the paths of this sandbox."""
        return self._places.translate(super().write_query(workflow_task, session))

    async def run_program(
        self, workflow_task: WorkflowTask, session: SandboxSession, command: Sequence[str], env: Mapping[str, str], stdin: str
    ) -> CommandResult:
        """Run the program in the task's directory, with its variables, under the shorter of both time limits."""
        agent, folder = self.agent, self._play_of_task.folder
        limits = [limit for limit in (agent.timeout_s, folder.agent_timeout_s) if limit]
        return await session.run(
            start_in(self._play_of_task, self._places, session, command),
            env={**self._play_of_task.env, **env},
            stdin=stdin,
            timeout_s=min(limits, default=None),
            max_output_bytes=agent.max_output_bytes,
        )

    def check_result(self, result: CommandResult) -> None:
        """Accept a program that was ended by its time limit: the tests say what it has done."""
        self._is_late = result.timed_out
        if not result.timed_out:
            super().check_result(result)

    async def conclude(self, workflow_task: WorkflowTask, session: SandboxSession, output: WorkflowOutput) -> WorkflowOutput:
        """Run the tests."""
        verdict = await verify(self._play_of_task, self._places, session)
        metrics = {**output.log_metrics, "agent_timeouts": float(self._is_late)}
        return verdict.add_to(evolve(output, log_metrics=metrics))


def plan_task(task: Task, sandboxes: Sandboxes) -> Play:
    """Return how a task of the reader `harbor` is played; raises `TaskNotPlayable`."""
    found = task.metadata.get(METADATA_KEY)
    directory = found.get("directory") if isinstance(found, Mapping) else None
    if not isinstance(directory, str):
        raise TaskNotPlayable("the task has no folder in its metadata: read the tasks with task_reader.type: harbor")
    try:
        return plan_play(read_folder(Path(directory)), sandboxes)
    except DataError as error:
        raise TaskNotPlayable(str(error)) from error


def start_in(play: Play, places: Places, session: SandboxSession, command: Sequence[str]) -> Sequence[str]:
    """Return a command that starts in the task's directory."""
    workdir = places.find(play.workdir or session.workdir)
    return command if workdir == session.workdir else ["/bin/sh", "-c", CHANGE_DIRECTORY, "sh", workdir, *command]
