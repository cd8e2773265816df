"""All players of a game. Each role is an agent of its own name: the village learns, and the wolf stays as it was."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from game import SEER, VILLAGER, WOLF, Players, count_votes, find, write_messages

from astuner import Tuner, Workflow, WorkflowOutput, WorkflowTask

BITE, NAME, VOTE = "Bite one.", "Name one.", "Vote."
SILENCE = "The seer is dead."


class Werewolves(Workflow):
    """Plays one game. The target `wolf` is answered by the weights of the start: see `model.opponents` in the YAML."""

    trainable_targets = (SEER, VILLAGER)

    async def execute(self, workflow_task: WorkflowTask, tuner: Tuner) -> WorkflowOutput:
        """The village wins if it votes the wolf out."""
        players: Players = workflow_task.task.metadata["players"]
        clients = {role: tuner.as_raw_openai_sdk_client(role) for role in (WOLF, SEER, VILLAGER)}

        async def ask(name: str, alive: Iterable[str], told: str) -> str | None:
            others = [other for other in alive if other != name]
            messages: Any = write_messages(players[name], others, told)
            completion = await clients[players[name]].chat.completions.create(model="tuned", messages=messages)
            answer = (completion.choices[0].message.content or "").strip()
            return answer if answer in others else None

        wolf, seer = find(players, WOLF), find(players, SEER)
        bitten = await ask(wolf, players, BITE)
        alive = [name for name in players if name != bitten]
        said, named = SILENCE, None
        if seer in alive:
            named = await ask(seer, alive, f"{tell(wolf)} {NAME}")
            said = f"The seer says {named or 'nothing'}."
        votes = [named, *[await ask(name, alive, f"{said} {VOTE}") for name in alive if name != seer]]
        won = count_votes(votes) == wolf
        return WorkflowOutput(metadata={"won": won, "bitten": bitten, "said": said, "votes": votes})


def tell(wolf: str) -> str:
    """Return what the seer has seen in the night."""
    return f"You saw {wolf}, the wolf."
