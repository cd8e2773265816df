"""The agent: tells customers what things cost. Its one tool is a word that it writes."""

from __future__ import annotations

import re

from astuner import Tuner, Workflow, WorkflowOutput, WorkflowTask

SYSTEM_PROMPT = """\
You work in a shop. To see a price, write LOOKUP and the item.
Example:
Question: How much is a pen?
You: LOOKUP pen
Shop: 3 dollars
You: 3"""
LOOKUP = re.compile("LOOKUP (.+)")
MOST_CALLS = 3


class Shop(Workflow):
    """Up to three calls of the model, with the OpenAI SDK: it looks prices up, or answers."""

    async def execute(self, workflow_task: WorkflowTask, tuner: Tuner) -> WorkflowOutput:
        """Answer one customer."""
        client, row = tuner.as_raw_openai_sdk_client(), workflow_task.task.metadata
        messages = [
            {"role": "system", "content": SYSTEM_PROMPT},
            {"role": "user", "content": workflow_task.task.main_query},
        ]
        answer, looked_up = "", []
        for _ in range(MOST_CALLS):
            # The model tends to play the shop's lines too; a line break ends its turn.
            completion = await client.chat.completions.create(model="tuned", messages=messages, max_tokens=16, stop=["\n"])
            answer = (completion.choices[0].message.content or "").strip()
            found = LOOKUP.search(answer)
            if found is None:
                break
            looked_up.append(found[1].strip(" .\"'").lower())
            known = looked_up[-1] == row["item"]
            seen = f"Shop: {row['price']} dollars" if known else f"Shop: we have no {looked_up[-1]}"
            messages += [{"role": "assistant", "content": answer}, {"role": "user", "content": seen}]
        return WorkflowOutput(metadata={"answer": answer, "looked_up": looked_up})
