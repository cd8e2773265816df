"""A run whose texts are longer than the pages show at first, and differ where nothing of them is shown."""

from __future__ import annotations

from pathlib import Path

from made_up_run import RunWriter, say
from recorded_conversation import Conversation, make_episode, tool_call

from astuner.contract.schema import Group, Task, Verdict, WorkflowOutput

RUN_NAME = "novel"
TASK = "story"
SAME = "It was a dark night. " * 1500
"""What all siblings write first: 31,500 characters, more than a group has of a text."""
THOUGHT = "Let me think of a night. " * 1000
NOTES = "a line of notes\n" * 2000
DRAFT = '{"draft": "' + "The rain fell in torrents. " * 1000 + '"}'


def write_long_run(directory: Path) -> None:
    """Write a step with one group of two siblings."""
    run = RunWriter(directory / RUN_NAME, planned=1)
    task = Task("Write a story.", task_id=TASK)
    episodes = []
    for repeat in range(2):
        talk = Conversation(repeat)
        told = {**say(f"{SAME}Ending {repeat}."), "reasoning_content": THOUGHT}
        first = talk.ask([{"role": "user", "content": task.main_query}], told)
        kept = {**say("I keep it."), "tool_calls": [tool_call("save", DRAFT)]}
        second = talk.ask([{"role": "user", "content": f"{NOTES}End of the notes."}], kept, after=first)
        talk.ask([{"role": "tool", "tool_call_id": "call_1", "content": "saved"}], say("Done."), after=second)
        verdict = Verdict(float(repeat))
        episodes.append(make_episode(talk, task, step=1, repeat=repeat, output=WorkflowOutput(), verdict=verdict))
    run.write_step(1, [Group(task=task, step=1, split="train", episodes=tuple(episodes))])
    run.close()
