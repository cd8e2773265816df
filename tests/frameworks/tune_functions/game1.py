"""Three players of whom one is trained; the others are another model, and the workflow gives the reward itself."""

from __future__ import annotations

from agentscope.agent import ReActAgent
from agentscope.formatter import OpenAIMultiAgentFormatter
from agentscope.message import Msg
from agentscope.model import OpenAIChatModel
from agentscope.pipeline import MsgHub
from agentscope.tuner import WorkflowOutput


async def play(task: dict, model: OpenAIChatModel, auxiliary_models: dict[str, OpenAIChatModel]) -> WorkflowOutput:
    if "participant" not in auxiliary_models:
        raise ValueError("the other players need the model 'participant'")
    trained = task.get("workflow_args", {}).get("trainable_target", "first")
    players = []
    for number, name in enumerate(("first", "second", "third")):
        ours = model if name == trained else auxiliary_models["participant"]
        player = ReActAgent(
            name=f"Player{number}", sys_prompt="Talk.", model=ours, formatter=OpenAIMultiAgentFormatter(), max_iters=3
        )
        player.set_console_output_enabled(False)
        players.append(player)
    async with MsgHub(players, announcement=Msg("Moderator", f"Round {task.get('seed', 0)}", "assistant")):
        for _ in range(task.get("rounds", 2)):
            for player in players:
                await player()
    return WorkflowOutput(reward=1.0, metrics={"success": 1.0, "rounds": 2.0})
