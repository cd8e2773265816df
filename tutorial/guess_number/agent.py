"""The agent: finds a number in three guesses; after each it hears whether the number is higher or lower."""

from __future__ import annotations

import re

from astuner import Tuner, Workflow, WorkflowOutput, WorkflowTask

SYSTEM_PROMPT = "You guess a number. You write one number and nothing else."
GUESSES = 3
"""Enough for seven numbers, if each guess is the middle of what is left."""


class Guesser(Workflow):
    """One call of the model per guess, with the OpenAI SDK."""

    async def execute(self, workflow_task: WorkflowTask, tuner: Tuner) -> WorkflowOutput:
        """Play one game."""
        client, secret = tuner.as_raw_openai_sdk_client(), workflow_task.task.metadata["secret"]
        messages = [
            {"role": "system", "content": SYSTEM_PROMPT},
            {"role": "user", "content": workflow_task.task.main_query},
        ]
        guesses: list[int] = []
        for _ in range(GUESSES):
            completion = await client.chat.completions.create(model="tuned", messages=messages, max_tokens=8, stop=["\n"])
            text = completion.choices[0].message.content or ""
            if re.fullmatch(r"\d{1,4}", text.strip()) is None:
                break
            guesses.append(int(text))
            if guesses[-1] == secret:
                break
            messages += [{"role": "assistant", "content": text}, {"role": "user", "content": answer(secret, guesses[-1])}]
        return WorkflowOutput(metadata={"guesses": guesses})


def answer(secret: int, guess: int) -> str:
    """Return what a wrong guess is answered with."""
    return f"Higher than {guess}." if secret > guess else f"Lower than {guess}."
