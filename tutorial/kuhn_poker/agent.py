"""Self-play: both roles of a hand are played by the model that is trained, each under its own agent name."""

from __future__ import annotations

from collections.abc import Iterable

from game import ANTE, ROLES, TURNS, History, count_winnings, read_action, write_messages

from astuner import Tuner, Workflow, WorkflowOutput, WorkflowTask

MOST = 2 * ANTE
"""The most that a hand costs."""


class SelfPlay(Workflow):
    """Plays one hand; the task has the deal."""

    async def execute(self, workflow_task: WorkflowTask, tuner: Tuner) -> WorkflowOutput:
        """Return the winnings of each role, in antes. An answer that is not legal loses the most."""
        deal = (workflow_task.task.metadata["first"], workflow_task.task.metadata["second"])
        clients = {role: tuner.as_raw_openai_sdk_client(role) for role in ROLES}
        acted: list[str] = []
        history: History = ()
        while history in TURNS:
            role = TURNS[history]
            acted.append(role)
            known = (deal[ROLES.index(role)], history)
            completion = await clients[role].chat.completions.create(model="tuned", messages=write_messages(known))
            action = read_action(known, completion.choices[0].message.content or "")
            if action is None:
                return pay(acted, -MOST if role == "first" else MOST, illegal=True)
            history += (action,)
        return pay(acted, count_winnings(deal, history))


def pay(acted: Iterable[str], winnings: int, *, illegal: bool = False) -> WorkflowOutput:
    """Return a reward for each role that has acted; what one wins the other loses."""
    rewards = {role: float(winnings if role == "first" else -winnings) for role in acted}
    return WorkflowOutput(reward=rewards | {"*": 0.0}, log_metrics={"illegal": float(illegal), "first_wins": float(winnings)})
