"""Siblings that were not asked the same are named once, with what differs."""

from __future__ import annotations

from typing import Any

import numpy as np

from astuner.contract.schema import Call, Episode, Group, Task
from astuner.episodes.rollout.different_prompts import describe_different_prompts


def make_call(*texts: str, agent: str = "solver") -> Call:
    none: Any = np.empty(0, np.int32)
    roles = ("system", "user")
    messages = tuple({"role": role, "content": text} for role, text in zip(roles, texts, strict=False))
    return Call(
        index=0,
        agent=agent,
        target_tag=agent,
        parent=None,
        kept=0,
        prompt_ids=none,
        output_ids=none,
        logprobs=none.astype(np.float32),
        finish_reason="stop",
        messages=messages,
    )


def make_group(*calls: Call, env_type: str = "no_env") -> Group:
    task = Task("q", task_id="seven", env_type=env_type)
    episodes = tuple(
        Episode(id=f"train/1/seven/{repeat}", task=task, step=1, repeat=repeat, calls=(call,))
        for repeat, call in enumerate(calls)
    )
    return Group(task=task, step=1, split="train", episodes=episodes)


def test_a_clock_in_the_prompt_is_named_with_the_task_and_both_texts():
    clocks = [make_call(f"You are kind. Now: 2026-11-28 20:14:{second}. Be brief.", "hello") for second in (31, 32)]
    [text] = describe_different_prompts([make_group(*clocks), make_group(*clocks)]).values()
    assert text.startswith("solver: the first prompts of one task differ, as of 'seven': messages[0] (system) has")
    assert "20:14:31." in text
    assert "20:14:32." in text


def test_equal_prompts_other_agents_and_environments_are_not():
    same, other = make_call("a", "b"), make_call("a", "c")
    assert describe_different_prompts([make_group(same, same)]) == {}
    assert describe_different_prompts([make_group(same, make_call("a", "c", agent="critic"))]) == {}
    assert describe_different_prompts([make_group(same, other, env_type="a_game")]) == {}
    assert describe_different_prompts([make_group(same, make_call("a"))]) == {}


def test_a_text_that_begins_another_one_differs():
    [text] = describe_different_prompts([make_group(make_call("a", "b"), make_call("a", "b and more"))]).values()
    assert "messages[1] (user) has 'b' and 'b and more'" in text
