from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from astuner.contract.schema import Call, Episode, Failure, Group, Task, Verdict, WorkflowOutput
from astuner_local.quickstart.report import report

GAVE_UP = [{"role": "assistant", "content": "I do not know."}]
TITLE = "Validation, greedy:"
PROJECT, RUN = Path("demo"), Path("demo/launcher_record/calculator")


def _solution(value: str) -> list[dict[str, Any]]:
    function = {"name": "calculator", "arguments": '{"expression": "57*83"}'}
    return [
        {"role": "assistant", "content": None, "tool_calls": [{"id": "1", "type": "function", "function": function}]},
        {"role": "tool", "tool_call_id": "1", "content": value},
        {"role": "assistant", "content": f"The answer is \\boxed{{{value}}}"},
    ]


def _calls(messages: list[dict[str, Any]]) -> tuple[Call, ...]:
    asked: tuple[dict[str, Any], ...] = ({"role": "user", "content": "What is 57 * 83?"},)
    calls: list[Call] = []
    for message in messages:
        if message["role"] == "tool":
            asked = (message,)
            continue
        none = np.array([], dtype=np.int32)
        calls.append(
            Call(
                index=len(calls),
                agent="agent",
                target_tag="agent",
                parent=len(calls) - 1 if calls else None,
                kept=0,
                prompt_ids=none,
                output_ids=none,
                logprobs=np.array([], dtype=np.float32),
                finish_reason="stop",
                messages=asked,
                reply=message,
            )
        )
    return tuple(calls)


def _group(number: int, messages: list[dict[str, Any]] | None, *, solved: bool = False) -> Group:
    """Return the group of one validation task; no messages mean a failed episode."""
    task = Task(main_query=f"Question {number}?", task_id=f"validation-{number}", metadata={"answer": "4731"})
    episode = Episode(id=f"e{number}", task=task, step=0, repeat=0, split="validation", failures=(Failure(reason="timeout"),))
    if messages is not None:
        output = WorkflowOutput(log_metrics={"tool_calls": len(messages) // 2})
        verdict = Verdict(float(solved), solved)
        episode = Episode(
            id=f"e{number}",
            task=task,
            step=0,
            repeat=0,
            split="validation",
            output=output,
            calls=_calls(messages),
            verdict=verdict,
        )
    return Group(task=task, step=0, split="validation", episodes=(episode,))


def _text(before: list[Group], after: list[Group]) -> str:
    return report(before, after, title=TITLE, step=20, project=PROJECT, run=RUN)


def _columns(text: str, name: str) -> list[str]:
    (line,) = [line for line in text.splitlines() if line.strip().startswith(name)]
    return line.removeprefix(f"  {name}").split()


def test_the_table_compares_the_two_validations() -> None:
    text = _text([_group(n, GAVE_UP) for n in range(4)], [_group(n, _solution("4731"), solved=n > 0) for n in range(4)])
    assert _columns(text, "tasks solved") == ["0/4", "3/4"]
    assert _columns(text, "mean reward") == ["0.00", "0.75"]
    assert _columns(text, "tool calls per episode") == ["0.00", "1.00"]


def test_two_tasks_that_are_newly_solved_are_told_before_and_after() -> None:
    before = [_group(0, _solution("4731"), solved=True), *(_group(n, GAVE_UP) for n in (1, 2, 3))]
    text = _text(before, [_group(n, _solution("4731"), solved=True) for n in range(4)])
    assert [f"Question {n}?" for n in range(4) if f"Question {n}?  (answer" in text] == ["Question 1?", "Question 2?"]
    assert text.index("I do not know.") < text.index('calculator({"expression": "57*83"})')


def test_what_the_tool_returned_stands_between_call_and_answer() -> None:
    text = _text([_group(0, GAVE_UP)], [_group(0, _solution("4731"), solved=True)])
    assert text.index("57*83") < text.index("tool: 4731") < text.index("\\boxed{4731}")


def test_a_tuning_that_solved_nothing_new_says_so() -> None:
    assert "No task that failed before is solved now." in _text([_group(0, GAVE_UP)], [_group(0, GAVE_UP)])


def test_failed_episodes_are_counted_where_there_are_any() -> None:
    text = _text([_group(0, GAVE_UP)], [_group(0, None)])
    assert _columns(text, "episodes that failed") == ["0", "1"]
    assert _columns(text, "mean reward") == ["0.00", "-"]
    assert "episodes that failed" not in _text([_group(0, GAVE_UP)], [_group(0, GAVE_UP)])


def test_the_run_and_the_commands_to_try_are_named() -> None:
    text = _text([_group(0, GAVE_UP)], [_group(0, GAVE_UP)])
    assert "demo/launcher_record/calculator" in text
    assert "  cd demo\n  astuner episodes calculator --step 20 --lowest 1 " in text
    assert "  astuner run --conf tune.yaml --backbone debug " in text
    assert "astuner export launcher_record/calculator --out tuned" in text


def test_what_shows_runs_and_their_curves_is_typed_in_the_project() -> None:
    charts, viewer = "charts --of launcher_record", "astuner seerun"
    before = after = [_group(0, GAVE_UP)]
    text = report(before, after, title=TITLE, step=20, project=PROJECT, run=RUN, viewers=[charts], run_viewers=[viewer])
    first, second, third = text.split("  cd demo\n")[1].splitlines()[:3]
    assert first.startswith("  astuner seerun launcher_record/calculator ")
    assert second.startswith("  charts --of launcher_record ")
    assert third.startswith("  astuner episodes calculator ")
