"""The quickstart's calculator as an environment that leads. Copied beside a project's YAML by the tests."""

from __future__ import annotations

from agent import CALCULATOR, SYSTEM_PROMPT, calculate

from astuner.contract.protocols import EnvironmentTraits


class CalculatorWorld:
    """A question, a tool, and a score for the right answer, which comes in a box."""

    traits = EnvironmentTraits(offers_tools=True)
    tools = (CALCULATOR,)

    def __init__(self, workflow_task):
        self.task = workflow_task.task
        self.answer = ""

    async def reset(self):
        return [{"role": "system", "content": SYSTEM_PROMPT}, {"role": "user", "content": self.task.main_query}]

    async def step(self, action):
        calls = action.get("tool_calls") or []
        self.answer = action["content"]
        results = [{"role": "tool", "tool_call_id": c["id"], "content": calculate(c["function"]["arguments"])} for c in calls]
        return results, 0.0, not calls, {"tool_calls": len(calls)}

    async def evaluate(self):
        return float(self.answer == self.task.metadata["answer"])

    async def close(self):
        return None
