"""Runs an agent that is a separate program: `program.py` takes a question, a base URL and a key, and prints its answer."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from astuner import Tuner, Workflow, WorkflowOutput, WorkflowTask

PROGRAM = Path(__file__).with_name("program.py")


class CalculatorAgent(Workflow):
    """Starts the program for each episode; an episode that is cancelled ends it."""

    async def execute(self, workflow_task: WorkflowTask, tuner: Tuner) -> WorkflowOutput:
        """Answer one question."""
        api = tuner.as_oai_baseurl_apikey()
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            str(PROGRAM),
            workflow_task.task.main_query,
            env={"OPENAI_BASE_URL": api.base_url, "OPENAI_API_KEY": api.api_key},
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        try:
            answer, errors = await process.communicate()
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        if process.returncode != 0:
            raise RuntimeError(f"the agent ended with exit code {process.returncode}: {errors.decode()[-500:]}")
        return WorkflowOutput(metadata={"final_answer": answer.decode().strip()})
