"""A run whose texts attack the page that shows them: every text that a model, a task or a judge can write."""

from __future__ import annotations

import json
from pathlib import Path

from made_up_run import RunWriter, price_group
from recorded_conversation import Conversation, make_episode, tool_call

from astuner.contract.schema import Episode, Failure, Finding, Group, Task, Unjudged, Verdict, WorkflowOutput
from astuner.runs.store.store_lines import seal

FLAG = "attacked"
"""The property of `window` that every attack sets."""

IMG = f'<img src=x onerror="window.{FLAG}=1">'
SCRIPT = f"</script><script>window.{FLAG}=1</script>"
SVG = f"</textarea></style></title><svg onload=window.{FLAG}=1>"
LINK = f"[a link](javascript:window.{FLAG}=1) javascript:window.{FLAG}=1"
TEMPLATE = "${window.attacked=1} {{constructor.constructor('window.attacked=1')()}} <!-- --> <![CDATA[ ]]>"
RIGHT_TO_LEFT = "invoice\u202efdp.exe\u2066 \u200f\u061c"
ANSI = "\x1b[31mred\x1b[0m \x1b]8;;http://evil.example\x07link\x1b]8;;\x07 \x00\x07\x7f"
LONG = "assistant" * 111_112
"""A line of 1 MB, of one token a word."""

ATTACKS = (IMG, SCRIPT, SVG, LINK, TEMPLATE, RIGHT_TO_LEFT, ANSI)

TASK_IDS = (
    "a/b/../c",
    "#top?x=1&y=2",
    "100%25%2F",
    'it\'s "quoted" and blank ',
    IMG,
    "\u202egnitteg \U0001f40b",
    "..",
    "a\\b;c,d+e",
)

RUN_NAME = "shop <b>\"&'%23#?"


def write_hostile_run(directory: Path) -> Path:
    """Write the run into a directory with a hostile name, and return it."""
    path = directory / RUN_NAME
    run = RunWriter(path, planned=2)
    run.write_step(1, [_attack(Task(IMG + str(number), task_id=name), 1, number) for number, name in enumerate(TASK_IDS)])
    run.write_step(2, [_long_line(2), price_group(2)])
    run.write_checkpoint(2)
    run.close()
    _append_half_an_emoji(path)
    return path


def _attack(task: Task, step: int, number: int) -> Group:
    episodes = []
    for repeat in range(2):
        talk = Conversation(number * 10 + repeat)
        attack = "\n".join((*ATTACKS, f"sibling {repeat}"))
        tools = ({"type": "function", "function": {"name": IMG, "description": SCRIPT, "parameters": {IMG: SCRIPT}}},)
        first = talk.ask(
            [{"role": "system", "content": SCRIPT}, {"role": "user", "content": f"{attack} {task.task_id}", "name": IMG}],
            {"role": "assistant", "content": attack, "reasoning_content": attack, "tool_calls": [tool_call(IMG, SCRIPT)]},
            agent=IMG,
            tools=tools,
        )
        talk.ask(
            [{"role": "tool", "tool_call_id": "call_1", "content": attack}],
            {"role": "assistant", "content": SVG},
            agent=IMG,
            after=first,
            untrained=SCRIPT if repeat else None,
        )
        failed = number % 3 == 2 and repeat == 1
        failure = Failure(reason=IMG, detail=attack, place=SCRIPT, traceback=attack)
        verdict = Verdict(
            float(repeat),
            bool(repeat),
            rewards={IMG: 1.0},
            components={IMG: 1.0, "</script>": 0.5},
            rationale=attack,
        )
        episodes.append(
            make_episode(
                talk,
                task,
                step=step,
                repeat=repeat,
                output=None if failed else WorkflowOutput(metadata={IMG: attack}, log_metrics={IMG: 1.0}),
                failures=(failure,) if failed else (),
                verdict=Unjudged(reason=IMG, detail=attack, place=IMG, traceback=attack) if failed else verdict,
                findings={IMG: (Finding(call=0, evidence=attack),)},
                observations={IMG: {SCRIPT: [attack]}},
            )
        )
    return Group(task=task, step=step, split="train", episodes=tuple(episodes))


def _long_line(step: int) -> Group:
    task = Task("Say a.", task_id="long line")
    episodes = []
    for repeat in range(2):
        talk = Conversation(repeat)
        talk.ask([{"role": "user", "content": "Say a."}], {"role": "assistant", "content": LONG if repeat else "assistant"})
        output = WorkflowOutput(metadata={"final_answer": "a"})
        episodes.append(make_episode(talk, task, step=step, repeat=repeat, output=output, verdict=Verdict(float(repeat))))
    return Group(task=task, step=step, split="train", episodes=tuple(episodes))


def _append_half_an_emoji(path: Path) -> None:
    """Append an episode whose JSON has a surrogate without its other half, as an older version stored it."""
    from astuner.runs.store.codec import dump_episode

    talk = Conversation(1)
    talk.ask([{"role": "user", "content": "half"}], {"role": "assistant", "content": "HALF"})
    episode: Episode = make_episode(
        talk, Task("half", task_id="half"), step=2, repeat=0, output=WorkflowOutput(), verdict=Verdict(1.0)
    )
    line = json.dumps({"kind": "episode", "episode": dump_episode(episode)}, separators=(",", ":"))
    with (path / "episodes/train.jsonl").open("ab") as file:
        file.write(seal(line.replace("HALF", "\\ud83d half").encode() + b"\n"))
