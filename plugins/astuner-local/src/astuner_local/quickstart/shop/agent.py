"""The agent that is tuned: answers what a thing costs, after it has looked the price up in a way of its own."""

from __future__ import annotations

import re
from pathlib import Path

from astuner import Tuner, Workflow, WorkflowOutput, WorkflowTask

SYSTEM_PROMPT = Path(__file__).with_name("system_prompt.txt").read_text(encoding="utf-8").strip()

MAX_CALLS = 3
"""Model calls per question: one to look up, one to answer, one to spare."""

LOOK_UP = re.compile(r"LOOKUP (.+)")


class ShopAgent(Workflow):
    """Calls the model, looks up the item that it names, and ends with its first reply without a look-up."""

    async def execute(self, workflow_task: WorkflowTask, tuner: Tuner) -> WorkflowOutput:
        """Play one question."""
        client = tuner.as_raw_openai_sdk_client()
        goods = {workflow_task.task.metadata["item"]: workflow_task.task.metadata["price"]}
        messages = [
            {"role": "system", "content": SYSTEM_PROMPT},
            {"role": "user", "content": workflow_task.task.main_query},
        ]
        looked_up: list[str] = []
        reply = ""
        for _ in range(MAX_CALLS):
            # A line is a turn: otherwise the model goes on and plays the shop too.
            answer = await client.chat.completions.create(model="astuner", messages=messages, max_tokens=16, stop=["\n"])
            reply = (answer.choices[0].message.content or "").strip()
            asked = LOOK_UP.search(reply)
            if asked is None:
                break
            item = asked[1].strip(" .\"'").lower()
            looked_up.append(item)
            shown = f"{goods[item]} dollars" if item in goods else f"we have no {item}"
            messages += [{"role": "assistant", "content": reply}, {"role": "user", "content": f"Shop: {shown}"}]
        return WorkflowOutput(
            metadata={"final_answer": reply, "looked_up": looked_up}, log_metrics={"tool_calls": float(len(looked_up))}
        )
