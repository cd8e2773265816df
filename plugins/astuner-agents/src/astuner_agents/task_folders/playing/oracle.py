"""Runs the solution of a task in place of an agent, so that the task itself can be checked."""

from __future__ import annotations

from astuner.contract.protocols import RunInfo, Sandboxes, SandboxSession, SandboxSpec, Tuner, Workflow, WorkflowTraits
from astuner.contract.schema import WorkflowOutput, WorkflowTask
from astuner_agents.task_folders.playing.errors import TaskNotPlayable
from astuner_agents.task_folders.playing.needs import Play, resolve_variables
from astuner_agents.task_folders.playing.verification import list_files, verify
from astuner_agents.task_folders.playing.workflow import plan_task, start_in

SAID_CHARS = 2000
RUN = 'chmod +x "$1" 2>/dev/null; "$1" 2>&1'


class Oracle(Workflow):
    """The solution of the task, and then its tests: every good task has a reward of 1. No model is called."""

    traits = WorkflowTraits(runs_in_sandboxes=True)

    def __init__(self, sandboxes: Sandboxes) -> None:
        """`sandboxes` are those of the run."""
        self._sandboxes = sandboxes

    @classmethod
    def with_sandboxes(cls, run_info: RunInfo, sandboxes: Sandboxes) -> Oracle:
        """Return the workflow of an episode."""
        return cls(sandboxes)

    async def execute(self, workflow_task: WorkflowTask, tuner: Tuner) -> WorkflowOutput:
        """Play one episode."""
        play = plan_task(workflow_task.task, self._sandboxes)
        solution = play.folder.solution
        if solution is None or not solution.endswith(".sh"):
            raise TaskNotPlayable(f"{play.root} has no solution that is a script ({solution or 'solution/solve.sh'})")
        session = await self._sandboxes.open(play.describe(SandboxSpec(episode_id=workflow_task.episode_id)))
        try:
            return await self._solve(play, solution, session)
        finally:
            await session.close()

    async def _solve(self, play: Play, solution: str, session: SandboxSession) -> WorkflowOutput:
        places = await play.prepare(session)
        if play.folder.format == "harbor":
            files = list_files(play.root / "solution", "/solution")
        else:
            files = {f"/oracle/{solution}": play.root / solution}
        await places.put(session, files)
        script = places.find(f"/{solution}" if play.folder.format == "harbor" else f"/oracle/{solution}")
        result = await session.run(
            start_in(play, places, session, ["/bin/sh", "-c", RUN, "sh", script]),
            env={**play.env, "DEBIAN_FRONTEND": "noninteractive", **resolve_variables(play.folder.solution_environment)},
            timeout_s=play.folder.agent_timeout_s,
        )
        said = result.stdout[-SAID_CHARS:].strip()
        if result.killed_by is not None:
            raise TaskNotPlayable(f"the solution was ended by a limit ({result.killed_by}); the end of its output: {said}")
        output = WorkflowOutput(metadata={"final_answer": said, "exit_code": result.exit_code})
        return (await verify(play, places, session)).add_to(output)
