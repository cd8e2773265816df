"""Two agents that have to agree on a language: one sees an object and says a word, the other hears it and names an object."""

from __future__ import annotations

from astuner import Tuner, Workflow, WorkflowOutput, WorkflowTask


class Signal(Workflow):
    """One word, one guess; both agents get 1 if the guess is right."""

    async def execute(self, workflow_task: WorkflowTask, tuner: Tuner) -> WorkflowOutput:
        """Play one round."""
        secret = workflow_task.task.main_query
        word = await _ask(tuner, "speaker", f"Secret: {secret}. Say a word.")
        guess = await _ask(tuner, "listener", f"Word: {word}. Name the object.")
        right = guess == secret
        return WorkflowOutput(reward=float(right), is_success=right, metadata={"word": word, "guess": guess})


async def _ask(tuner: Tuner, agent: str, text: str) -> str:
    # The name of the agent is also the target of its calls: that of its adapters in the YAML.
    model = tuner.as_raw_openai_sdk_client(agent)
    messages = [{"role": "system", "content": f"You are the {agent}."}, {"role": "user", "content": text}]
    answer = await model.chat.completions.create(model="any", messages=messages)
    return (answer.choices[0].message.content or "").strip()
